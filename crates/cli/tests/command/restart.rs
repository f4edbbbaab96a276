//! What outlives a service that ends, or is killed: `serve --data`.

use crate::persistent::{Taker, event, persistent_channel, supplier};
use crate::support::{PROGRAM, Serve, TempPath, text};
use client::notify::{ClientType, EventType, FilterGroupOperator, StructuredProxyPushSupplier, find_channel};
use client::{ConsumerOptions, Orb, OrbOptions, SimpleConsumer};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::mpsc::channel;
use std::thread;
use testing::{EndInTime, NextInTime, output_in_time, own_loopback, wait_until};

/// A folder that goes with the test.
pub(crate) struct Folder(TempPath);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        Self(TempPath::new(name))
    }

    /// One that is there already.
    pub(crate) fn made(name: &str) -> Self {
        Self(TempPath::folder(name))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    pub(crate) fn path(&self) -> &str {
        self.0.path()
    }

    /// A service that keeps what it has in the folder.
    pub(crate) fn serve(&self, listen: &str) -> Serve {
        Serve::start_with(&["--listen", listen, "--log", "error", "--data", self.path()])
    }
}

/// What is said of a folder that cannot be used.
fn refusal(folder: &str) -> (String, Option<i32>) {
    let mut command = Command::new(PROGRAM);
    let Output { stderr, status, .. } =
        output_in_time(command.args(["serve", "--listen", "127.0.0.1:0", "--log", "off", "--data", folder]));
    (text(&stderr), status.code())
}

/// A free address of the test's own, at which a service can end and start again.
pub(crate) fn own_address() -> String {
    format!("{}:0", own_loopback())
}

pub(crate) fn exported(serve: &Serve) -> String {
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
    let options = ConsumerOptions {
        types: vec![EventType::new("A", "B")],
        constraint: Some("$x > 1".into()),
        check_every: None,
        ..ConsumerOptions::default()
    };
    let consumer = SimpleConsumer::connect(&address, Some(id), options, |_| Ok(())).unwrap();
    let before = exported(&serve);
    assert!(before.contains("$x > 1") && before.contains("\"next_proxy\": 2"), "{before}");
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

/// After a restart there was no way to tell which programs were still there.
#[test]
fn clients_that_were_restored_are_listed_with_the_time_of_their_last_sign_and_can_be_disconnected() {
    let folder = Folder::new("restored");
    let serve = folder.serve(&own_address());
    let address = serve.address.clone();
    let consumer = serve.record(&["-"]);
    let proxy = supplier(&address, 0).unwrap();
    assert!(!serve.print("ls", &[]).contains("restored"));
    consumer.signal("STOP");
    drop(serve);
    let serve = folder.serve(&address);
    let lines = |serve: &Serve| -> Vec<String> {
        let listed = serve.print("ls", &[]);
        listed.lines().filter(|line| line.contains(", restored")).map(str::to_owned).collect()
    };
    let restored = lines(&serve);
    assert_eq!(restored.len(), 2, "{restored:?}");
    assert!(restored.iter().all(|line| line.ends_with(", restored, not heard of since")), "{restored:?}");
    let info: serde_json::Value = serde_json::from_str(&serve.print("info", &["--json"])).unwrap();
    for admins in ["consumer_admins", "supplier_admins"] {
        let proxies = info[admins].as_array().unwrap().iter().flat_map(|admin| admin["proxies"].as_array().unwrap());
        let told: Vec<&serde_json::Value> = proxies.map(|proxy| &proxy["restored"]).collect();
        assert_eq!(told, [&serde_json::json!({ "heard_seconds_ago": null })], "{info}");
    }
    // The supplier's next push works.
    let push = || proxy.push_structured_event(&event(1, 1));
    push().or_else(|_| push()).unwrap();
    let restored = lines(&serve);
    assert!(restored.iter().any(|line| line.contains(", restored, heard of ")), "{restored:?}");
    assert!(restored.iter().any(|line| line.ends_with(", restored, not heard of since")), "{restored:?}");
    // An operator disconnects them, and they are not there again.
    let topology: serde_json::Value = serde_json::from_str(&exported(&serve)).unwrap();
    for proxy in topology["channels"][0]["proxies"].as_array().unwrap() {
        serve.print("disconnect", &[&proxy["id"].to_string()]);
    }
    assert_eq!(lines(&serve), Vec::<String>::new());
    drop(serve);
    let serve = folder.serve(&address);
    assert!(lines(&serve).is_empty() && !exported(&serve).contains("\"client\": {"), "{}", exported(&serve));
    consumer.signal("KILL");
}

#[test]
fn a_folder_that_cannot_be_used_is_reported_with_what_to_do() {
    let folder = Folder::new("unusable");
    let serve = folder.serve("127.0.0.1:0");
    let (said, code) = refusal(folder.path());
    assert!(said.contains("another process") && said.contains("--data none"), "{said}");
    assert_eq!(code, Some(1));
    drop(serve);
    // Whatever becomes of its file is not taken for a topology.
    let mut all = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path());
    let file = all.find(|path| path.extension().is_some_and(|extension| extension == "redb")).unwrap();
    let whole = std::fs::read(&file).unwrap();
    for wrong in [b"nonsense".to_vec(), whole[..whole.len() / 2].to_vec()] {
        std::fs::write(&file, wrong).unwrap();
        let (said, code) = refusal(folder.path());
        assert!(said.contains("cannot be used") && said.contains(folder.path()), "{said}");
        assert_eq!(code, Some(1));
    }
    std::fs::write(&file, &whole).unwrap();
    drop(folder.serve("127.0.0.1:0"));
    let (said, code) = refusal("/proc/nowhere");
    assert!(said.contains("/proc/nowhere"), "{said}");
    assert_eq!(code, Some(1));
}

/// A consumer's host was taken out of the name server while the service was down. No other client is to wait for it, and its events
/// are kept for it until an operator says otherwise.
#[test]
fn a_consumer_whose_host_is_not_found_after_a_restart_keeps_no_other_waiting() {
    let folder = Folder::new("unresolved");
    let serve = folder.serve(&own_address());
    let address = serve.address.clone();
    let id = persistent_channel(&address);
    let (here, gone) = (Taker::default(), Taker::default());
    let orb = Orb::new(OrbOptions::default());
    // No name server is asked for a name with an empty part.
    let elsewhere = Orb::new(OrbOptions { advertise: Some("gone..invalid".into()), ..OrbOptions::default() });
    let _active = [here.connect(&orb, &address, id), gone.connect(&elsewhere, &address, id)];
    let kept = |serve: &Serve, count: u32| {
        let told = format!("events_stored {count}\n");
        wait_until("the store to have what it should", || serve.print("stats", &["events_stored"]) == told);
    };
    let push = |numbers: std::ops::Range<i32>| {
        let proxy = supplier(&address, id).unwrap();
        let pushed: BTreeSet<(i32, i32)> = numbers.map(|number| (1, number)).collect();
        pushed.iter().for_each(|(_, number)| proxy.push_structured_event(&event(1, *number)).unwrap());
        wait_until("those that can be reached to have all", || here.missing(&pushed).is_empty());
    };
    push(0..5);
    kept(&serve, 5);
    drop(serve);
    let serve = folder.serve(&address);
    push(5..10);
    kept(&serve, 10);
    // The first look-up may still be under way.
    wait_until("the consumer to be shown as one that is tried again", || {
        let listed = serve.print("ls", &[]);
        let mut lines = listed.lines().filter(|line| line.contains("gone..invalid"));
        lines.any(|line| line.contains("retrying") && line.ends_with(", restored, not heard of since"))
    });
    serve.print("disconnect", &["--client", "gone..invalid", "--yes"]);
    kept(&serve, 0);
    assert!(gone.missing(&BTreeSet::from([(1, 0)])).len() == 1 && !serve.print("ls", &[]).contains("gone..invalid"));
}
