//! `campanile doctor` on the machine that the tests run on, whatever that is.

use crate::support::{PROGRAM, text};
use serde_json::Value as Json;
use std::process::{Command, Output};
use testing::output_in_time;

fn doctor(arguments: &[&str]) -> Output {
    output_in_time(Command::new(PROGRAM).arg("doctor").args(arguments))
}

#[test]
fn findings_are_reported_as_json_and_the_status_says_whether_something_stands_in_the_way() {
    let output = doctor(&["--no-latency", "--json"]);
    let told: Json = serde_json::from_slice(&output.stdout).unwrap();
    let findings = told["findings"].as_array().unwrap();
    assert!(findings.len() >= 17, "{told}");
    for finding in findings {
        let well = finding["state"] == "well";
        assert!(finding["found"].is_string() && finding["why"].is_string(), "{finding}");
        assert!(!well || finding["mend"].is_null(), "{finding}");
        assert!(finding["state"] != "in the way" || finding["mend"].is_string(), "{finding}");
    }
    let ready = findings.iter().all(|finding| finding["state"] != "in the way");
    assert_eq!(told["ready"], ready);
    assert!(told["latency"].is_null());
    assert_eq!(output.status.code(), Some(i32::from(!ready)), "{}", text(&output.stderr));
}

#[test]
fn wake_up_latency_is_measured_on_each_processor() {
    let output = doctor(&["--seconds", "0.1", "--json"]);
    let told: Json = serde_json::from_slice(&output.stdout).unwrap();
    let processors = told["latency"]["processors"].as_array().unwrap();
    assert!(!processors.is_empty());
    for processor in processors {
        let figure = |name: &str| processor[name].as_u64().unwrap();
        assert!(figure("wake_ups") > 0 && figure("wake_ups") <= 100, "{processor}");
        assert!(figure("min_ns") <= figure("p50_ns") && figure("p50_ns") <= figure("p999_ns"), "{processor}");
    }
    let output = doctor(&["--seconds", "0.1"]);
    let said = text(&output.stdout);
    assert!(said.contains("wake-up latency") && said.contains("p99.9") && said.contains('#'), "{said}");
}

#[test]
fn seconds_that_are_none_are_refused() {
    for seconds in ["0", "-1", "x"] {
        assert_eq!(doctor(&["--seconds", seconds]).status.code(), Some(2));
    }
}
