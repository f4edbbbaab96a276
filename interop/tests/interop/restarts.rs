//! A service that ends and begins again, and clients that know nothing of it.

use service::{Config, Counter, Service, Sockets, StoreConfig, Undone};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use interop::{Orb, Peer, first_consumer, further_consumer, service_with, supplier};
use testing::TempPath;

pub(crate) fn begin(folder: &TempPath, listen: &str) -> Service {
    let store = StoreConfig { directory: Some(folder.to_path_buf()), ..StoreConfig::default() };
    service_with(Config { listen: listen.into(), store, ..Config::default() })
}

/// With the servers that they had before, every client had to find out that its channel was gone, and to make everything anew.
#[test]
fn suppliers_and_consumers_go_on_through_restarts() {
    for (of_consumer, of_supplier) in Orb::PAIRINGS {
        let folder = TempPath::new(&format!("restarts-{of_consumer:?}-{of_supplier:?}"));
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

/// A new release was put in its place while events came, and suppliers were refused.
#[test]
fn suppliers_that_push_while_a_service_ends_whose_socket_stays_go_on_with_the_next() {
    for (of_consumer, of_supplier) in Orb::PAIRINGS {
        let folder = TempPath::new(&format!("put-off-{of_consumer:?}-{of_supplier:?}"));
        let socket = TcpListener::bind((testing::own_loopback(), 0)).expect("a socket of the test's own");
        let begin = || {
            let store = StoreConfig { directory: Some(folder.to_path_buf()), ..StoreConfig::default() };
            let sockets =
                Sockets { giop: Some(socket.try_clone().expect("another descriptor")), json: None, tempo: None };
            Service::start_on(Config { store, ..Config::default() }, sockets).expect("a service starts on the socket")
        };
        let mut service = begin();
        let words = "--form structured --scenario small";
        let (mut consumer, channel) = first_consumer(of_consumer, &service, words);
        let mut held = further_consumer(Orb::OmniOrb, &service, &channel, &format!("{words} --stall-at 0"));
        let supplier = supplier(of_supplier, &service, &channel, &format!("{words} --step"));

        // The end waits for the consumer that stands still. The supplier goes on meanwhile, until it is not answered.
        let counters = service.counters().clone();
        let enough = Arc::new(AtomicBool::new(false));
        let pushing = push_until(&enough, supplier);
        consumer.wait_for("ok 0");
        let stopping = thread::spawn(move || service.drain(Duration::from_secs(60)));
        testing::wait_until("a push to be put off", || counters.read(Counter::PushesDeferred) > 0);
        enough.store(true, Ordering::Relaxed);
        held.tell("resume");
        assert_eq!(stopping.join().expect("the service ends"), Undone::default());
        assert_eq!(counters.read(Counter::RefusedStopping), 0);
        service = begin();

        // While nobody stands still, whether pushes are put off is chance.
        let (mut supplier, so_far) = pushing.join().expect("the supplier goes on");
        let count = so_far + 3000;
        supplier.tell("push 3000");
        for pushed in [1000, 2000] {
            consumer.wait_for(&format!("ok {}", so_far + pushed));
            let counters = service.counters().clone();
            assert_eq!(service.drain(Duration::from_secs(60)), Undone::default());
            assert_eq!(counters.read(Counter::RefusedStopping), 0);
            service = begin();
        }
        // Each once, and in their order.
        for mut consumer in [consumer, held] {
            consumer.wait_for(&format!("ok {}", count - 1));
            consumer.quit().received_all(count);
        }
        supplier.quit().well();
    }
}

/// Has a supplier push one event after another until there were enough; gives it back with how many it pushed.
fn push_until(enough: &Arc<AtomicBool>, mut supplier: Peer) -> JoinHandle<(Peer, u32)> {
    let enough = enough.clone();
    thread::spawn(move || {
        loop {
            supplier.tell("push 1");
            let pushed = supplier.wait_for("pushed ").parse().expect("a number");
            if enough.load(Ordering::Relaxed) {
                return (supplier, pushed);
            }
        }
    })
}
