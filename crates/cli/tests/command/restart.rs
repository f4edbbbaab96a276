//! What outlives a service that ends, or is killed: `serve --data`.

use crate::support::{PROGRAM, Serve, text};
use client::notify::{ClientType, FilterGroupOperator, StructuredProxyPushSupplier, find_channel};
use client::{Orb, OrbOptions};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::mpsc::channel;
use std::thread;
use testing::{EndInTime, NextInTime, output_in_time, own_loopback};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("campanile-{name}-{}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// A service that keeps what it has in the folder.
    fn serve(&self, listen: &str) -> Serve {
        Serve::start_with(&["--listen", listen, "--log", "error", "--data", self.path()])
    }

    /// What is said of a folder that cannot be used.
    fn refusal(&self) -> (String, Option<i32>) {
        let mut command = Command::new(PROGRAM);
        let Output { stderr, status, .. } =
            output_in_time(command.args(["serve", "--listen", "127.0.0.1:0", "--log", "off", "--data", self.path()]));
        (text(&stderr), status.code())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A free address of the test's own, at which a service can end and start again.
fn own_address() -> String {
    format!("{}:0", own_loopback())
}

fn exported(serve: &Serve) -> String {
    let mut command = Command::new(PROGRAM);
    let output = output_in_time(command.args(["topology", "export", "--server", &serve.address]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// An operator restarted the service at night, and the clients' channels, filters and names were gone.
#[test]
fn what_was_configured_is_there_after_a_kill_and_after_a_stop() {
    let folder = Folder::new("kept");
    let serve = folder.serve(&own_address());
    let address = serve.address.clone();
    let orb = Orb::new(OrbOptions::default());
    let factory = orb.resolve_service(&address).unwrap();
    let (default, _) = find_channel(&factory, None).unwrap();
    let (made, id) = default.my_factory().unwrap().create_channel(&[], &[]).unwrap();
    let (admin, _) = made.new_for_consumers(FilterGroupOperator::Or).unwrap();
    let (proxy, number) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
    let consumer = serve.subscribe(&["-c", &id.to_string(), "--type", "A/B", "--where", "$x > 1", "--quiet"]);
    let before = exported(&serve);
    assert!(before.contains("$x > 1") && before.contains("\"next_proxy\": 2"), "{before}");
    consumer.signal("STOP");
    // It is killed, and once more when nothing has been changed; then it is stopped.
    drop(serve);
    drop(folder.serve(&address));
    let serve = folder.serve(&address);
    assert_eq!(exported(&serve), before);
    let (summary, code) = serve.stop("TERM");
    assert_eq!(code, Some(0), "{summary}");
    let serve = folder.serve(&address);
    assert_eq!(exported(&serve), before);
    // References that clients have lead where they led, once they have found that their connection is gone.
    let _ = admin.push_suppliers();
    assert_eq!(admin.push_suppliers().unwrap(), [number]);
    StructuredProxyPushSupplier::unchecked(proxy.object().clone()).disconnect_structured_push_supplier().unwrap();
    assert!(admin.push_suppliers().unwrap().is_empty());
    made.destroy().unwrap();
    let after = exported(&serve);
    drop(serve);
    let serve = folder.serve(&address);
    assert_eq!(exported(&serve), after);
    drop(consumer);
}

#[test]
fn whatever_was_answered_before_a_kill_is_there_after_it() {
    let folder = Folder::new("killed");
    let mut address = own_address();
    let mut acknowledged = BTreeSet::new();
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..10 {
        let serve = folder.serve(&address);
        address.clone_from(&serve.address);
        let (told, made) = channel();
        let url = address.clone();
        let client = thread::spawn(move || {
            let orb = Orb::new(OrbOptions::default());
            let factory = orb.resolve_service(&url).unwrap();
            let (default, _) = find_channel(&factory, None).unwrap();
            while let Ok((_, id)) = default.new_for_suppliers(FilterGroupOperator::And) {
                told.send(id).unwrap();
            }
        });
        for _ in 0..random.u32(1..200) {
            acknowledged.insert(made.next_in_time());
        }
        drop(serve);
        client.end_in_time();
        acknowledged.extend(made.try_iter());
        let serve = folder.serve(&address);
        let orb = Orb::new(OrbOptions::default());
        let factory = orb.resolve_service(&address).unwrap();
        let (default, _) = find_channel(&factory, None).unwrap();
        let there: BTreeSet<i32> = default.get_all_supplieradmins().unwrap().into_iter().collect();
        let lost: Vec<&i32> = acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "{lost:?}");
        drop(serve);
    }
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
}

#[test]
fn a_folder_that_cannot_be_used_is_told_with_what_to_do() {
    let folder = Folder::new("wrong");
    let serve = folder.serve("127.0.0.1:0");
    let (said, code) = folder.refusal();
    assert!(said.contains("another process") && said.contains("--data none"), "{said}");
    assert_eq!(code, Some(1));
    drop(serve);
    // Whatever becomes of its file is not taken for a topology.
    let file = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path()).next().unwrap();
    let whole = std::fs::read(&file).unwrap();
    for wrong in [b"nonsense".to_vec(), whole[..whole.len() / 2].to_vec()] {
        std::fs::write(&file, wrong).unwrap();
        let (said, code) = folder.refusal();
        assert!(said.contains("cannot be used") && said.contains(folder.path()), "{said}");
        assert_eq!(code, Some(1));
    }
    std::fs::write(&file, &whole).unwrap();
    drop(folder.serve("127.0.0.1:0"));
    let nowhere = Folder("/proc/nowhere".into());
    let (said, code) = nowhere.refusal();
    assert!(said.contains("/proc/nowhere"), "{said}");
    assert_eq!(code, Some(1));
}
