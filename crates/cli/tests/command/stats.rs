//! `campanile stats`.

use crate::support::{Serve, text};
use serde_json::Value as Json;

/// The handbook said which counters to watch, and no command showed them.
#[test]
fn counters_of_the_handbook_are_shown() {
    let serve = Serve::start();
    serve.print("pub", &["--count", "3"]);
    let all = serve.print("stats", &[]);
    let handbook = include_str!("../../../../docs/operating-reference.md");
    let (_, limits) = handbook.split_once("| counter |").unwrap();
    let (limits, _) = limits.split_once("\n\n").unwrap();
    // The last column names them.
    let columns = limits.lines().filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let named: Vec<&str> = columns.flat_map(|column| column.split('`').skip(1).step_by(2)).collect();
    let counters: Vec<&str> = named.into_iter().filter(|name| name.contains('_') && *name != "get_drops").collect();
    assert!(counters.len() > 20, "{counters:?}");
    for counter in counters {
        assert!(all.lines().any(|line| line.starts_with(&format!("{counter} "))), "{counter}");
    }
    assert!(all.contains("\nlane_events_in 3\n") || all.starts_with("lane_events_in 3\n"), "{all}");

    assert_eq!(serve.print("stats", &["events_in"]), "lane_events_in 3\n");
    let long = serve.print("stats", &["--long", "--nonzero", "events_in", "lane_dropped"]);
    assert_eq!(long, "lane_events_in 3  Events of suppliers and timers that the service took.\n");
    let told: Json = serde_json::from_str(&serve.print("stats", &["--json"])).unwrap();
    assert_eq!((&told["lane_events_in"], &told["lane_dropped"]), (&3.into(), &0.into()));

    let refused = serve.run("stats", &["nonsense"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("no counter has nonsense in its name"), "{}", text(&refused.stderr));
}

#[test]
fn counters_are_reported_again_and_again_with_their_rates() {
    use std::io::{BufRead, BufReader};
    let serve = Serve::start();
    let mut stats = serve.command("stats", &["--json", "--interval", "0.02", "administration_requests"]);
    let mut child = stats.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let leash = testing::Leash::new(&child, "stats to show rates");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let told: Json = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert!(told["per_second"]["administration_requests"].as_f64().unwrap() > 0.0, "asking is a request: {told}");
    }
    crate::support::send_signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(leash);
}
