//! How `campanile serve` ends: SIGTERM used to lose acknowledged events silently, with exit status 0.

use std::io::{BufRead, Read};

use crate::support::{Serve, TempPath};

#[test]
fn what_a_mute_consumer_has_pending_is_named_and_makes_the_exit_status_3() {
    let config = TempPath::file("stopping.toml", "listen = \"127.0.0.1:0\"\nshutdown_drain_ms = 3600000\n");
    let (serve, mut stderr) = Serve::start_heard(&["--config", config.path()]);
    let sub = serve.subscribe(&["--json"]);
    sub.signal("STOP");
    serve.print("pub", &["-n", "5"]);
    serve.signal("TERM");
    let mut line = String::new();
    while !line.contains("stopping: takes no more events, and delivers 5 to 1 consumers first") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0);
    }
    // In an hour it would end by itself.
    let (summary, code) = serve.stop("TERM");
    assert_eq!(code, Some(3));
    assert!(summary.contains("undelivered_at_end 5\n"), "{summary}");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let named = rest.lines().find(|line| line.contains("not delivered: 5 events to \"campanile@"));
    let is_whole = |line: &str| line.contains("\": consumer proxy ") && line.ends_with("it did not take them in time");
    assert!(named.is_some_and(is_whole), "{rest}");
    assert!(rest.contains("campanile: stopped before 5 events were delivered to a consumer\n"), "{rest}");
    sub.signal("CONT");
}
