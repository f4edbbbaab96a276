//! The `campanile-bench` binary from outside. The service that it measures is the program `campanile` beside it, which `make test` has
//! built before; by hand it takes `cargo build -p campanile-cli` in the other workspace.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod experiments;
mod hostile;

use serde_json::Value as Json;
use std::process::{Command, Output, Stdio};
use testing::{output_in_time, output_of_suite};

const PROGRAM: &str = env!("CARGO_BIN_EXE_campanile-bench");

/// A report, which has the keys that reports of its scenario have always had (lab/keys.py).
fn json(line: &str) -> Json {
    let report: Json = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let name = report.get("benchmark").and_then(Json::as_str).unwrap();
    let recorded = format!("{}/keys/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let recorded = std::fs::read_to_string(&recorded).unwrap_or_else(|error| panic!("{recorded}: {error}"));
    let missing: Vec<&str> = recorded.lines().filter(|key| !has(&report, key)).collect();
    assert!(missing.is_empty(), "{name} has no {missing:?}: {line}");
    report
}

/// Whether a key is there, or what would have it is null or an empty list.
fn has(value: &Json, path: &str) -> bool {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    match value {
        Json::Null => true,
        Json::Array(members) => members.is_empty() || members.iter().any(|member| has(member, path)),
        _ => value.get(name.trim_end_matches("[]")).is_some_and(|member| rest.is_empty() || has(member, rest)),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn campanile_bench(arguments: &[&str]) -> Output {
    output_of_suite(Command::new(PROGRAM).args(arguments).stdin(Stdio::null()))
}

/// What a command that has to fail says, with its status.
fn refusal(arguments: &[&str]) -> (String, i32) {
    let output = campanile_bench(arguments);
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    (text(&output.stderr), output.status.code().unwrap())
}

#[test]
fn order_benchmark_shows_that_nothing_is_lost() {
    let output = campanile_bench(&["order", "--events", "50", "--suppliers", "3", "--consumers", "2", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = json(&text(&output.stdout));
    assert_eq!(report["complete_and_in_order"], true);
    assert_eq!(report["run"]["traffics"][0]["losses"]["received"], 300);
}

#[test]
fn crash_benchmark_shows_that_nothing_acknowledged_is_lost() {
    let output = campanile_bench(&["crash", "--rounds", "2", "--seed", "1", "--interop", "/nowhere", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = json(&text(&output.stdout));
    assert_eq!((&report["rounds"], &report["seed"], &report["orbs"]), (&2.into(), &1.into(), &Json::Array(vec![])));
    assert_eq!([&report["lost"], &report["disordered"], &report["unmarked_repeats"]], [&Json::from(0); 3]);
    assert!(report["acknowledged"].as_u64() > Some(0) && report["recovered_events_max"].as_u64() > Some(0), "{report}");
}

/// What depends on the machine's speed may be missed.
#[test]
fn timers_benchmark_has_the_intervals_of_a_timer_beside_those_of_a_timerfd() {
    let output = campanile_bench(&["timers", "--rounds", "1", "--json"]);
    let report = json(&text(&output.stdout));
    for contender in ["service", "timerfd", "timerfd_and_socket"] {
        assert!(report["jitter_us"][contender]["events"].as_u64() > Some(100), "{report}");
    }
}

/// What depends on the machine's speed may be missed.
#[test]
fn links_benchmark_shows_that_cuts_and_kills_lose_and_repeat_nothing() {
    let rounds = ["--rounds", "2", "--seconds", "0.3", "--seed", "1", "--json"];
    let output = campanile_bench(&[&["links", "--quick", "--only", "cuts,kills"], &rounds[..]].concat());
    let report = json(&text(&output.stdout));
    let carriers = if cfg!(feature = "zenoh") { &["tcp", "zenoh"][..] } else { &["tcp"] };
    for of_link in carriers.iter().map(|carrier| &report[carrier]) {
        assert_eq!([&of_link["lost"], &of_link["twice"], &of_link["disordered"]], [&Json::from(0); 3], "{report}");
        assert!(of_link["kills"]["acknowledged"].as_u64() > Some(0), "{report}");
        assert!(of_link["recovery_ms"].is_number() && of_link["narrow"].is_null(), "{report}");
        assert_eq!(of_link["cuts"].as_array().map(Vec::len), Some(5));
    }
    // What Zenoh alone loses is not for us to say, but where its line is closed it does.
    let lost = report["zenoh_bare"]["cuts"][2]["lost"].as_u64();
    assert_eq!(lost > Some(0), cfg!(feature = "zenoh"), "{report}");
}

/// It takes the right to make network namespaces.
#[test]
fn federation_benchmark_sends_one_message_to_a_node_whatever_subscribers_it_has() {
    let of_line = ["--line-mbit", "100", "--rounds", "1", "--json"];
    let words = [&["federation", "--quick", "--only", "figures", "--loads", "2"], &of_line[..]].concat();
    let report = json(&text(&campanile_bench(&words).stdout));
    assert_eq!([&report["lost"], &report["twice"], &report["disordered"]], [&Json::from(0); 3], "{report}");
    let rows = report["rows"].as_array().unwrap();
    for (way, of_17, of_18) in [("direct", 0.0, 0.0), ("tcp", 1.0, 2.0), ("iiop", 1.0, 2.0)] {
        let of_way = rows.iter().filter(|row| row["way"] == way);
        let messages: Vec<_> = of_way.map(|row| (row["figure"].as_u64(), row["messages_per_event"].as_f64())).collect();
        assert_eq!(messages, [(Some(17), Some(of_17)), (Some(18), Some(of_18))], "{report}");
    }
    // How many datagrams there are depends on the machine's speed.
    let ways = if cfg!(feature = "zenoh") { 6 } else { 5 };
    assert_eq!((rows.len(), rows.iter().filter(|row| row["way"] == "multicast").count()), (2 * ways, 2), "{report}");
    assert!(rows.iter().all(|row| row["packets_per_event"].as_f64() > Some(0.0)), "{report}");
}

/// Python takes part where its library was built before.
#[test]
fn deployment_benchmark_shows_that_a_node_that_is_killed_leaves_nothing_half_done() {
    let words = ["deployment", "--quick", "--nodes", "3", "--instances", "9", "--tries", "4", "--seed", "1", "--json"];
    let report = json(&text(&campanile_bench(&words).stdout));
    let skipped = report["skipped"].as_array().map_or(0, Vec::len) as u64;
    assert_eq!([&report["nodes"], &report["servers"], &report["tries"]], [3, 9 - 3 * skipped, 4], "{report}");
    assert_eq!(report["neither"], 0, "{report}");
    let outcomes = report["all"].as_u64().unwrap() + report["as_before"].as_u64().unwrap();
    assert_eq!(outcomes, 4, "{report}");
    let left = &report["left_behind"];
    for of in ["processes", "zombies", "files", "threads", "descriptors"] {
        assert_eq!(left[of], 0, "{of}: {report}");
    }
    let (error, code) = refusal(&["deployment", "--nodes", "3", "--instances", "8"]);
    assert!(code == 2 && error.contains("--instances must be at least 9"), "{error}");
}

#[test]
fn a_value_that_makes_no_sense_is_wrong_usage() {
    let (error, code) = refusal(&["order", "--timeout", "0"]);
    assert_eq!(code, 2);
    assert!(error.contains("--timeout must be from 0.001 to 1000000 seconds"), "{error}");
}

/// Somebody copies the one program to another machine, and not the service that it is to measure.
#[test]
fn a_service_that_is_missing_is_reported_with_what_to_do() {
    let folder = std::env::temp_dir().join(format!("campanile-bench-alone-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let alone = folder.join("campanile-bench");
    // Copied by a process of its own: a descriptor that is open for writing here would be handed to what another test starts
    // meanwhile, and a file that somebody can write to cannot be run.
    assert!(Command::new("cp").arg(PROGRAM).arg(&alone).status().unwrap().success());
    let output = output_in_time(Command::new(&alone).args(["order", "--quick"]).stdin(Stdio::null()));
    std::fs::remove_dir_all(&folder).unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("there is no ") && said.contains("campanile-bench-alone"), "{said}");
    assert!(said.contains("`make lab`"), "{said}");
}
