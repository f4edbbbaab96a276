//! `campanile serve` beside an outside naming service.

use crate::support::{PROGRAM, Serve, TempPath};
use client::notify::EventChannelFactory;
use client::{Orb, OrbOptions};
use service::{Config, Service};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use testing::{AcceptInTime, patient};

/// Has the client of a connection talk to the server at that address from now on.
fn hand_over(stream: TcpStream, address: &str) {
    let behind = TcpStream::connect(address).unwrap();
    patient(&behind);
    let ends = || (stream.try_clone().unwrap(), behind.try_clone().unwrap());
    let (one, other) = (ends(), ends());
    thread::spawn(move || io::copy(&mut &one.0, &mut &one.1));
    thread::spawn(move || io::copy(&mut &other.1, &mut &other.0));
}

/// Scripts start clients on the line that says "ready" and on the reference file, and those did not find the name.
#[test]
fn a_service_says_that_it_waits_for_a_naming_service_and_is_ready_when_that_has_its_name() {
    let names = Service::start(Config { listen: "127.0.0.1:0".into(), ..Config::default() }).unwrap();
    // A naming service that takes its time: it is connected to, and answers nothing yet.
    let front = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("corbaloc::1.2@{}/NameService", front.local_addr().unwrap());
    let file = std::env::temp_dir().join(format!("campanile-waiting-{}.ior", std::process::id()));
    let file = file.to_str().unwrap();
    let mut serve = Command::new(PROGRAM);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--naming", &url, "--ior-file", file]);
    let (mut serve, line) = Serve::spawn_waiting(&mut serve);
    let address = line.strip_prefix("campanile: serves at ").and_then(|rest| rest.split_once(", and is ready when "));
    let (address, rest) = address.unwrap_or_else(|| panic!("{line}"));
    assert_eq!(rest, format!("{url} has its name\n"));
    let waiting = front.accept_in_time();
    // A client that knows where it is is served.
    let listed = super::campanile(&["ls", "--server", address]);
    assert!(listed.status.success(), "{listed:?}");
    assert!(!Path::new(file).exists());

    hand_over(waiting, &names.address().to_string());
    serve.wait_until_ready();
    assert_eq!(serve.address, address);
    assert!(std::fs::read_to_string(file).unwrap().starts_with("IOR:"));
    std::fs::remove_file(file).unwrap();
    let named = format!("corbaname::{}#NotifyEventChannelFactory", names.address());
    let found = super::campanile(&["ls", "--server", &named, "--json"]);
    assert_eq!(super::json(&crate::support::text(&found.stdout))["address"], address);
}

/// `--channel NAME` made a second channel of the name where a client had bound the first one nowhere, as REDHAWK's do not.
#[test]
fn a_channel_is_found_by_its_name_whether_it_is_declared_or_made_and_bound_nowhere() {
    let config = TempPath::file("names.toml", "[[channels]]\nname = \"Declared\"\n");
    let serve = Serve::start_with(&["--config", config.path()]);
    let orb = Orb::new(OrbOptions::default());
    let factory = EventChannelFactory::unchecked(orb.resolve_service(&serve.address).unwrap());
    let (_, made) = factory.create_named_channel(&[], &[], "Made").unwrap();
    assert_eq!(made, 2, "behind the default channel and the declared one");
    for (name, number) in [("Declared", "1"), ("Made", "2")] {
        let sub = serve.subscribe(&["--channel", number, "--count", "1", "--json"]);
        serve.print("pub", &["--channel", name, "x=1"]);
        let ended = sub.wait();
        assert!(ended.stdout.contains("\"x\""), "{name}");
    }
    assert_eq!(factory.get_all_channels().unwrap(), [0, 1, 2], "and no other was made");
    // `ls` showed no name of the one that is bound nowhere, and JSON and Tempo have only numbers.
    let shown: serde_json::Value = serde_json::from_str(&serve.print("ls", &["--json"])).unwrap();
    let names: Vec<&serde_json::Value> = shown["channels"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, [&serde_json::Value::Null, &"Declared".into(), &"Made".into()]);
    assert!(serve.print("info", &["--channel", "2"]).contains("Made"));
}
