//! `campanile plan`.

use crate::support::{PROGRAM, TempPath, text};
use planning::Plan;
use serde_json::Value as Json;
use std::process::{Command, Output};
use testing::output_in_time;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/plan.toml");

fn plan(arguments: &[&str]) -> Output {
    output_in_time(Command::new(PROGRAM).arg("plan").args(arguments))
}

/// Burns and Wellings, "Real-Time Systems and Programming Languages", process set A.
const INFEASIBLE: &str = r#"
[[activity]]
name = "a"
period = "50ms"
execution_time = "12ms"
[[activity]]
name = "b"
period = "40ms"
execution_time = "10ms"
[[activity]]
name = "c"
period = "30ms"
execution_time = "10ms"
"#;

#[test]
fn example_is_feasible_and_its_plan_reads_back() {
    let out = TempPath::file("lanes.toml", "");
    let output = plan(&[EXAMPLE, "--out", out.path()]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.contains("deadline monotonic: every deadline is met"), "{said}");
    let first = said.lines().nth(1).unwrap();
    assert!(first.starts_with("trigger ") && first.contains("32767") && first.contains("650us"), "{said}");
    let lanes = Plan::from_toml(&std::fs::read_to_string(out.path()).unwrap()).unwrap();
    assert!(lanes.feasible);
    assert_eq!(lanes.channels[0].lanes.len(), 4);
    assert_eq!(lanes.channels[0].topics[0].event_type, "Telescope/Trigger");
}

#[test]
fn missed_deadline_is_reported_with_its_activity_and_by_how_much() {
    let file = TempPath::file("infeasible.toml", INFEASIBLE);
    let output = plan(&[file.path()]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(said.contains("\"a\" misses its deadline of 50ms by 2ms"), "{said}");
    assert!(said.lines().nth(3).unwrap().ends_with("52ms   -2ms  MISSES"), "{said}");
    let output = plan(&[file.path(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let told: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["feasible"], &told["policy"]), (&false.into(), &"rm".into()));
    let late = &told["activities"][2];
    assert_eq!(
        (&late["name"], &late["late_by_ns"], &late["response_ns"]),
        (&"a".into(), &2_000_000.into(), &52_000_000.into())
    );
    let output = plan(&[file.path(), "--cpus", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn every_policy_can_be_asked_for() {
    for (policy, name) in [
        ("rm", "rate monotonic"),
        ("dm", "deadline monotonic"),
        ("edf", "earliest deadline first"),
        ("llf", "least laxity first"),
        ("muf", "maximum urgency first"),
        ("auto", "deadline monotonic"),
    ] {
        let output = plan(&[EXAMPLE, "--policy", policy]);
        let said = text(&output.stdout);
        assert!(said.contains(&format!("\n{name}: ")), "{said}{}", text(&output.stderr));
    }
    // One event of 40 ms cannot be followed by one that has to be done within 2 ms.
    let output = plan(&[EXAMPLE, "--policy", "edf"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(said.contains("in an interval of 1.8ms that ends with the deadline of \"trigger\""), "{said}");
}

#[test]
fn bad_input_is_reported_with_its_line_and_what_to_do() {
    for (content, said) in [
        (INFEASIBLE.replacen("50ms", "50", 1), "line 4: \"50\" is no time: write a number and a unit"),
        (INFEASIBLE.replacen("50ms", "0ms", 1), "line 2: the period of \"a\" is 0; it has to be at least 1 ns"),
        (INFEASIBLE.replacen("name = \"b\"", "name = \"a\"", 1), "line 6: another activity is called \"a\""),
        (INFEASIBLE.replacen("name", "nome", 1), "line 3: unknown field `nome`"),
        (String::new(), "there are no activities"),
        (format!("cpus = 0\n{INFEASIBLE}"), "cpus is 0, and has to be from 1 to 64"),
    ] {
        let file = TempPath::file("bad.toml", &content);
        let output = plan(&[file.path()]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(said), "{error}");
        assert!(output.stdout.is_empty());
    }
    let output = plan(&["/does/not/exist.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/does/not/exist.toml"));
    let output = plan(&[EXAMPLE, "--out", "/does/not/exist.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--out"));
}

const TEMPO_EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/tempo.toml");

/// The example of the paper: 10,000 messages/s guaranteed, 250 arrive.
const TEMPO: &str = "service_time_us = 25
[[topic]]
name = \"orders\"
rate = 1000
arrival = 250
[[topic]]
name = \"rest\"
rate = 3000
";

#[test]
fn topics_of_the_paper_have_the_papers_response_times() {
    let file = TempPath::file("topics.toml", TEMPO);
    let output = plan(&["tempo", file.path()]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    let words: Vec<&str> = said.lines().nth(1).unwrap().split_whitespace().collect();
    // On average 0.1 ms, 99.9 % within 0.7 ms; three messages of the other topic go before, at 40,000 a second.
    let row = [
        "orders", "1000", "250", "10000", "2.5", "%", "103us", "71.1us", "236us", "472us", "708us", "75us", "<", "1ms",
    ];
    assert_eq!(words, row, "{said}");
    let output = plan(&["tempo", file.path(), "--json", "--percentiles", "99.9,5"]);
    let told: Json = serde_json::from_slice(&output.stdout).unwrap();
    let orders = &told["topics"][0];
    let within = orders["percentiles"].as_array().unwrap();
    assert_eq!(within.iter().map(|each| each["q"].as_f64().unwrap()).collect::<Vec<_>>(), [99.9, 5.0]);
    assert_eq!(within[0]["response_us"].as_f64().unwrap().round(), 708.0);
    assert_eq!((&told["feasible"], &told["server"], &told["threads"]), (&true.into(), &Json::Null, &Json::Null));
}

#[test]
fn topics_beside_other_applications_are_judged_with_them() {
    let output = plan(&["tempo", TEMPO_EXAMPLE]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.contains("\nrate monotonic: every deadline is met\n"), "{said}");
    assert!(said.contains("time-driven: 4ms of each 10ms, 40.0 % of every rate"), "{said}");
    let crowded =
        std::fs::read_to_string(TEMPO_EXAMPLE).unwrap().replace("execution_us = 12000", "execution_us = 17000");
    let file = TempPath::file("crowded.toml", &crowded);
    let output = plan(&["tempo", file.path(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let told: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["feasible"], Json::Bool(false));
    assert!(told["explanation"].as_str().unwrap().contains("\"display\""), "{told}");
    let carried = &told["topics"][1]["nothing_carried_over"];
    assert!((0.9..1.0).contains(&carried.as_f64().unwrap()), "{told}");
}

#[test]
fn topic_that_is_not_stable_is_reported_by_its_name() {
    let file = TempPath::file("unstable.toml", &TEMPO.replace("arrival = 250", "arrival = 10001"));
    let output = plan(&["tempo", file.path()]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.lines().nth(1).unwrap().ends_with("UNSTABLE") && said.contains("\"orders\" falls behind"), "{said}");
}

#[test]
fn topics_that_make_no_sense_are_reported_with_their_line_and_what_to_do() {
    for (content, said) in [
        (TEMPO.replacen("rate = 1000", "rate = -1", 1), "line 2: the rate of \"orders\" is -1"),
        (TEMPO.replacen("arrival = 250", "deadline_us = 1001", 1), "at most 1/rate, 1000.000 us: shorten it"),
        (format!("{TEMPO}[server]\nperiod_us = 10\nbudget_us = 11\n"), "line 9: the server's budget is 11 us"),
        ("mu = 10\n".to_owned(), "there are no topics; write at least one [[topic]]"),
        (format!("{TEMPO}{}", "[[topic]]\nname = \"x\"\nrate = 1\n".repeat(1_000_000)), "may have 4194304"),
    ] {
        let file = TempPath::file("bad.toml", &content);
        let output = plan(&["tempo", file.path()]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(said), "{error}");
        assert!(output.stdout.is_empty());
    }
    let output = plan(&["tempo", TEMPO_EXAMPLE, "--percentiles", "50,100"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("100 is no percentage of messages"), "{}", text(&output.stderr));
}
