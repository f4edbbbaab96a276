//! A service that ends and begins again, and clients that know nothing of it.

use service::{Config, Service, StoreConfig};

use crate::support::{Orb, first_consumer, service_with, supplier};

/// The folder of a store, which goes with the test.
struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn begin(folder: &Folder, listen: &str) -> Service {
    let store = StoreConfig { directory: Some(folder.0.clone()) };
    service_with(Config { listen: listen.into(), store, ..Config::default() })
}

/// With the servers that they had before, every client had to find out that its channel was gone, and to make everything anew.
#[test]
fn suppliers_and_consumers_go_on_through_restarts() {
    for (of_consumer, of_supplier) in Orb::PAIRINGS {
        let name = format!("campanile-restarts-{of_consumer:?}-{of_supplier:?}-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        let mut service = begin(&folder, &format!("{}:0", testing::own_loopback()));
        let listen = service.address().to_string();
        let words = "--form structured --scenario small";
        let (mut consumer, channel) = first_consumer(of_consumer, &service, &format!("{words} --count 300"));
        let mut supplier = supplier(of_supplier, &service, &channel, &format!("{words} --step"));
        for pushed in ["100", "200", "300"] {
            supplier.tell("push 100");
            consumer.wait_for(&format!("ok {}", pushed.parse::<u32>().expect("a number") - 1));
            if pushed != "300" {
                service.shutdown();
                service = begin(&folder, &listen);
            }
        }
        consumer.end().received_all(300);
        supplier.quit().well();
    }
}
