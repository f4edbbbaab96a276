//! What commands leave behind at a service when they end: nothing, however they do.

use client::notify::{Property, find_channel};
use client::{Orb, OrbOptions};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::thread;

use crate::persistent::persistent_channel;
use crate::restart::{Folder, exported, own_address};
use crate::support::{Serve, Sub, send_signal, text};
use testing::{Leash, wait_until};

/// A service that keeps connections, as services do by default.
fn persistent_service(folder: &Folder) -> Serve {
    folder.serve(&own_address())
}

/// Whether this process, and so the commands that it starts, were started with a signal ignored: then it stays so. A shell without job
/// control has SIGQUIT ignored by what it starts in the background, `nohup` has SIGHUP.
fn is_ignored(signal: &str) -> bool {
    let number = match signal {
        "HUP" => 1,
        "QUIT" => 3,
        _ => return false,
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(mask, 16).unwrap() >> (number - 1) & 1 == 1
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
    let serve = persistent_service(&folder);
    let none = objects(&serve);
    for signal in ["HUP", "QUIT", "INT", "TERM"].into_iter().filter(|signal| !is_ignored(signal)) {
        let sub: Sub = serve.subscribe(&[]);
        assert_ne!(objects(&serve), none, "{signal}");
        sub.signal(signal);
        sub.wait();
        assert_eq!(objects(&serve), none, "{signal}");
    }
    if is_ignored("HUP") {
        return;
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
    let serve = persistent_service(&folder);
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
    let serve = persistent_service(&folder);
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

/// Starts a command that goes on until it is ended, and waits until it is at work: until it has connected, if it does.
fn at_work(serve: &Serve, none: &str, command: &[&str]) -> Child {
    let (name, options) = command.split_first().unwrap();
    let mut command = serve.command(name, options);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it has connected", || objects(serve) != none);
    // These are not read otherwise, and the command is not to wait for a reader.
    let stderr = child.stderr.take().unwrap();
    thread::spawn(move || BufReader::new(stderr).lines().for_each(drop));
    child
}

/// Commands that only look, and would for long.
const LOOKING: [&[&str]; 6] = [
    &["sub", "--field", "x"],
    &["sub", "--json", "--any"],
    &["hz", "--interval", "0.1"],
    &["bw", "--interval", "0.1", "--json"],
    &["types", "--seconds", "600"],
    &["latency", "--count", "1000000", "--rate", "20"],
];

#[test]
fn no_command_that_looks_leaves_a_proxy_behind_on_any_signal() {
    let folder = Folder::new("leaving-each");
    let serve = persistent_service(&folder);
    let none = objects(&serve);
    for command in LOOKING {
        for signal in ["INT", "TERM", "HUP"].into_iter().filter(|signal| !is_ignored(signal)) {
            let mut child = at_work(&serve, &none, command);
            send_signal(&child, signal);
            let _leash = Leash::new(&child, format_args!("{command:?} to end on SIG{signal}"));
            child.wait().unwrap();
            assert_eq!(objects(&serve), none, "{command:?} {signal}");
        }
    }
}

/// `campanile hz | head -n 1`.
#[test]
fn no_command_that_looks_leaves_a_proxy_behind_when_its_output_has_no_reader() {
    let folder = Folder::new("leaving-pipe");
    let serve = persistent_service(&folder);
    let none = objects(&serve);
    // The last two print when they end only.
    for command in &LOOKING[..4] {
        let mut child = at_work(&serve, &none, command);
        drop(child.stdout.take());
        let any = command.contains(&"--any");
        wait_until(format_args!("{command:?} to end"), || {
            serve.print("pub", if any { &["--any", "7"] } else { &["x=1"] });
            child.try_wait().unwrap().is_some()
        });
        assert_eq!(objects(&serve), none, "{command:?}");
    }
    for command in &LOOKING[4..] {
        let mut child = at_work(&serve, &none, command);
        drop(child.stdout.take());
        send_signal(&child, "INT");
        let _leash = Leash::new(&child, format_args!("{command:?} to end"));
        child.wait().unwrap();
        assert_eq!(objects(&serve), none, "{command:?}");
    }
}

#[test]
fn commands_that_look_once_leave_nothing_behind_and_none_that_cannot_start_does() {
    let folder = Folder::new("leaving-once");
    let serve = persistent_service(&folder);
    let none = objects(&serve);
    let once: [&[&str]; 8] = [
        &["ls", "--long"],
        &["info"],
        &["stats"],
        &["check", "--interval", "0.05"],
        &["top", "--json", "--interval", "0.1"],
        &["top", "--once", "--interval", "0.1"],
        &["types", "--seconds", "0.1"],
        &["latency", "--count", "3", "--rate", "100"],
    ];
    let refused: [&[&str]; 6] = [
        &["hz", "--last", "5"],
        &["bw", "--where", "1 +"],
        &["types", "--last", "5"],
        &["types", "--where", "1 +"],
        &["record", "--last", "5", "-"],
        &["record", "--where", "1 +", "-"],
    ];
    for command in once {
        serve.run(command[0], &command[1..]);
        assert_eq!(objects(&serve), none, "{command:?}");
    }
    for command in refused {
        let output = serve.run(command[0], &command[1..]);
        assert!(!output.status.success(), "{command:?}: {}", text(&output.stdout));
        assert_eq!(objects(&serve), none, "{command:?}: {}", text(&output.stderr));
    }
}

/// A consumer of a killed program was kept for ever if its connection was persistent, with its backlog.
#[test]
fn a_persistent_consumer_that_was_killed_goes_after_its_expiry_and_what_waited_for_it_is_counted_as_dropped() {
    const SECOND: u64 = 10_000_000;
    const EVENTS: &str = "25";
    let folder = Folder::new("leaving-expired");
    let serve = persistent_service(&folder);
    let none = objects(&serve);
    let orb = Orb::new(OrbOptions::default());
    let (events, _) = find_channel(&orb.resolve_service(&serve.address).unwrap(), None).unwrap();
    events
        .set_qos(&[Property::new("ProbeInterval", SECOND / 5), Property::new("ConnectionExpiry", 3 * SECOND)])
        .unwrap();
    // It takes nothing, and is there, until all have been published.
    let killed = serve.record(&["-"]);
    killed.signal("STOP");
    serve.print("pub", &["--count", EVENTS, "i={n}"]);
    assert_ne!(objects(&serve), none);
    killed.signal("KILL");
    killed.wait();
    wait_until("it to be gone", || objects(&serve) == none);
    let dropped = |reason: &str| {
        let said = serve.print("stats", &[reason]);
        said.split_whitespace().last().unwrap().parse::<u64>().unwrap()
    };
    let all = ["lane_dropped_disconnected", "lane_dropped_removed"].map(dropped);
    assert_eq!(all.iter().sum::<u64>().to_string(), EVENTS, "{all:?}");
}
