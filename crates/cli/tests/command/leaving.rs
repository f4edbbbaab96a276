//! What commands leave behind at a service when they end: nothing, however they do.

use std::process::Stdio;

use crate::persistent::persistent_channel;
use crate::restart::{Folder, exported, own_address};
use crate::support::{Serve, Sub, send_signal, text};
use testing::{Leash, wait_until};

/// A service that keeps connections, as services do by default.
fn keeping(folder: &Folder) -> Serve {
    folder.serve(&own_address())
}

/// The channels, admins and proxies that there are.
fn objects(serve: &Serve) -> String {
    serve.print("ls", &[])
}

/// Five terminals with `campanile sub` were closed, at a service with a store. SIGHUP ended the commands before they had taken leave, their
/// connections were persistent, and half an hour later what had come for them took 260 MB.
#[test]
fn a_closed_terminal_leaves_no_consumer_behind() {
    let folder = Folder::new("leaving-signals");
    let serve = keeping(&folder);
    let none = objects(&serve);
    for signal in ["HUP", "QUIT", "INT", "TERM"] {
        let sub: Sub = serve.subscribe(&[]);
        assert_ne!(objects(&serve), none, "{signal}");
        sub.signal(signal);
        sub.wait();
        assert_eq!(objects(&serve), none, "{signal}");
    }
    // The terminal to which it says what it did is gone as well.
    let mut command = serve.command("sub", &[]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it is subscribed", || objects(&serve) != none);
    drop(child.stderr.take());
    send_signal(&child, "HUP");
    let _leash = Leash::new(&child, "a subscriber to end");
    let status = child.wait().unwrap();
    assert_eq!((status.code(), objects(&serve)), (Some(0), none));
}

/// What is killed takes no leave: then its connection is at least one that the service gives up after a minute.
#[test]
fn commands_that_only_look_connect_for_as_long_as_they_run() {
    let folder = Folder::new("leaving-killed");
    let serve = keeping(&folder);
    // Where events are persistent, a connection that is not is refused unless its own are not either.
    let persistent = persistent_channel(&serve.address);
    for channel in [0, persistent] {
        let _sub = serve.subscribe(&["--channel", &channel.to_string()]);
        let topology = exported(&serve);
        let channels = topology.split("\"nonce\"").skip(1);
        let of_channel = channels.filter(|channel| channel.contains("\"reference\"")).last().unwrap();
        let (_, proxy) = of_channel.split_once("\"proxies\"").unwrap();
        assert!(proxy.contains("\"connection_reliability\": \"BestEffort\""), "{topology}");
    }
}

/// `sub --last 5` at a channel that keeps no history said so, and left a proxy behind each time; `sub NAME` with a constraint that is none
/// left a channel.
#[test]
fn a_command_that_fails_leaves_nothing_behind() {
    let folder = Folder::new("leaving-failed");
    let serve = keeping(&folder);
    let before = objects(&serve);
    let refused: [&[&str]; 4] = [
        &["--last", "5"],
        &["--channel", "new", "--last", "5"],
        &["--channel", "new", "--where", "1 +"],
        &["--where", "1 +"],
    ];
    for options in refused {
        let output = serve.run("sub", options);
        assert!(!output.status.success(), "{options:?}: {}", text(&output.stdout));
        assert_eq!(objects(&serve), before, "{options:?}: {}", text(&output.stderr));
    }
}
