//! `campanile top`.

use crate::support::{Serve, text};
use serde_json::Value as Json;

#[test]
fn service_is_shown_with_its_lanes_and_consumers() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["--quiet", "-n", "3"]);
    let told: Json = serde_json::from_str(&serve.print("top", &["--json", "--interval", "0.05"])).unwrap();
    assert!(told["interval_seconds"].as_f64().unwrap() >= 0.05, "{told}");
    assert_eq!(told["lanes"][0]["name"], "lane");
    let consumer = &told["consumers"][0];
    assert_eq!((&consumer["channel"], &consumer["backlog_events"]), (&0.into(), &0.into()));
    // Not on a terminal, it is shown once.
    let shown = serve.print("top", &["--interval", "0.05"]);
    assert!(shown.starts_with(&format!("{}: ", serve.address)), "{shown}");
    assert!(shown.contains("LANE") && shown.contains("CONSUMER"), "{shown}");
    serve.print("pub", &["--count", "3"]);
    assert_eq!(sub.wait().code, Some(0));
}

#[test]
fn service_that_is_not_there_is_told() {
    let address = format!("127.0.0.1:{}", crate::support::free_port());
    let output = testing::output_in_time(
        std::process::Command::new(crate::support::PROGRAM).args(["top", "--server", &address]),
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--server"));
}
