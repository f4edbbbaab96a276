//! The papers' experiments, far shorter than they are meant to be: that each runs to its end and reports what it should. No figure is
//! judged here; they depend on the machine and on what else runs on it.

#![expect(clippy::indexing_slicing, reason = "a test fails by panicking, in its helpers too")]

use super::{campanile_bench, json, text};
use serde_json::Value as Json;

/// Runs an experiment for a moment; its report.
fn conduct(name: &str, more: &[&str]) -> Json {
    let options = ["--quick", "--seconds", "0.1", "--json"];
    let output = campanile_bench(&[&[name], &options[..], more].concat());
    assert!(!output.stdout.is_empty(), "{}: {}", output.status, text(&output.stderr));
    let report = json(&text(&output.stdout));
    assert_eq!(report["benchmark"], name);
    // A benchmark missed its aim, said so in its table, and ended as if all were well.
    let missed = report["aims"].as_array().unwrap().iter().filter(|aim| aim["met"] == false).count();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(i32::from(missed > 0)), "{said}");
    assert_eq!(said.contains(&format!("{missed} of ")) && said.contains(" aims missed:\n"), missed > 0, "{said}");
    assert_eq!(report["real_time"]["privileged"].as_bool().unwrap(), report["real_time"]["advice"].is_null());
    assert!(!report["aims"].as_array().unwrap().is_empty());
    report
}

fn rates(row: &Json) -> bool {
    ["high_rate", "medium_rate", "low_rate"].iter().all(|rate| row[rate].as_f64().is_some_and(|rate| rate >= 0.0))
}

#[test]
fn rising_load_is_tried_on_both_services_side_by_side() {
    let report = conduct("paths-load", &["--loads", "1,2"]);
    let rows = report["rows"].as_array().unwrap();
    let tried: Vec<_> =
        rows.iter().map(|row| (row["service"].as_str().unwrap(), row["load"].as_u64().unwrap())).collect();
    assert_eq!(tried, [("real-time", 1), ("plain", 1), ("real-time", 2), ("plain", 2)]);
    assert!(rows.iter().all(|row| rates(row) && row["high_fits"].is_boolean()), "{rows:?}");
    assert!(report["overhead_us"].as_f64().unwrap() > 0.0);
    assert!(report["unit_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn paths_are_confined_to_one_core_where_that_is_asked_for() {
    let report = conduct("paths-latency", &["--one-cpu", "--loads", "1"]);
    assert_eq!(report["one_cpu"], true);
    assert!(report["core"].is_u64());
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6, "two services, three paths");
    assert!(rows.iter().all(|row| row["distribution"].is_array()));
}

#[test]
fn jitter_is_reported_for_every_load_and_beside_low_paths() {
    let report = conduct("paths-jitter", &["--loads", "1"]);
    assert_eq!(report["rows"].as_array().unwrap().len(), 2);
    let saturation = report["saturation"].as_array().unwrap();
    assert_eq!(saturation.len(), 12, "three rounds of two services, without and with low paths");
}

#[test]
fn ever_more_low_paths_are_tried() {
    let report = conduct("paths-number", &["--loads", "1"]);
    let rows = report["rows"].as_array().unwrap();
    let tried: Vec<_> = rows.iter().step_by(2).map(|row| row["low_paths"].as_u64().unwrap()).collect();
    assert_eq!(tried, [1, 5, 10, 20, 50, 100]);
}

#[test]
fn six_ways_from_supplier_to_consumer_are_compared() {
    let report = conduct("overhead", &[]);
    let rows = report["rows"].as_array().unwrap();
    let compared: Vec<_> =
        rows.iter().map(|row| (row["between"].as_str().unwrap(), row["real_time"].as_bool().unwrap())).collect();
    let six = ["2 hops", "3 hops", "service"].map(|between| [(between, false), (between, true)]);
    assert_eq!(compared, six.concat());
    assert!(rows.iter().all(|row| row["events_per_second"]["median"].as_f64().unwrap() > 0.0), "{rows:?}");
}

#[test]
fn a_flood_is_reported_before_during_and_after_for_both_publishers() {
    let report = conduct("isolation", &[]);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12, "two ways of sharing, two publishers, three times");
    let floods = rows.iter().filter(|row| row["publisher"] == "misbehaving" && row["time"] == "during");
    // How fast it is, is the machine's: on one that is busy nearly nothing of it may come through in so short a time.
    let rates: Vec<_> = floods.map(|row| row["rate"].as_f64().unwrap_or_default()).collect();
    assert!(rates.len() == 2 && rates.iter().any(|rate| *rate > 0.0), "{rows:?}");
}

#[test]
fn containers_are_compared_with_direct_calls_and_with_the_channel_alone() {
    let report = conduct("components", &["--loads", "1,3", "--rounds", "2"]);
    let rows = report["rows"].as_array().unwrap();
    for sinks in [1, 3] {
        for contender in ["direct calls", "container", "channel alone", "containers at the channel"] {
            let of_it = rows.iter().filter(|row| row["contender"] == contender && row["sinks"] == sinks);
            let payloads: Vec<_> = of_it.clone().map(|row| row["payload_bytes"].as_u64().unwrap()).collect();
            assert_eq!(payloads, [64, 65_536], "{contender}, {sinks} sinks");
            for row in of_it {
                // A row of a container has the ratio to the contender without, which has none; one process has the time of an event as well.
                let (is_here, has_container) = (row["place"] == "collocated", contender.contains("container"));
                assert_eq!(row["lost"], 0, "{row}");
                assert!(row["latency"]["median_us"].as_f64() > Some(0.0), "{row}");
                assert_eq!(row["latency_ratio"]["median"].as_f64() > Some(0.0), has_container, "{row}");
                assert_eq!(row["event_ns"].as_f64() > Some(0.0), is_here, "{row}");
                assert_eq!(row["event_ratio"].is_null(), !(is_here && has_container), "{row}");
                assert_eq!(row["rounds"].as_array().map(Vec::len), Some(2), "{row}");
            }
        }
    }
    // An event to another process is not handled within a call.
    assert!(report["two_processes_ratio"].as_f64() > Some(1.0), "{report}");
    let (error, code) = super::refusal(&["components", "--loads", "101", "--quick"]);
    assert!(code == 2 && error.contains("--loads must be above 0 and at most 100"), "{error}");
}

#[test]
fn placements_of_a_service_are_compared_with_each_other() {
    let report = conduct("placements", &["--loads", "1,3", "--rounds", "2"]);
    let rows = report["rows"].as_array().unwrap();
    let compared: Vec<_> =
        rows.iter().map(|row| (row["sinks"].as_u64().unwrap(), row["placed"].as_str().unwrap())).collect();
    let placed = |sinks| ["server", "container", "component"].map(|placed| (sinks, placed));
    assert_eq!(compared, [placed(1), placed(3)].concat());
    for row in rows {
        assert_eq!((&row["service"], &row["lost"]), (&"notification".into(), &0.into()), "{row}");
        assert!(
            row["latency"]["p99_us"].as_f64() > Some(0.0) && row["events_per_second"].as_f64() > Some(0.0),
            "{row}"
        );
        assert_eq!(row["latency_ratio"].is_null(), row["placed"] == "server", "{row}");
        assert_eq!(row["rounds"].as_array().map(Vec::len), Some(2), "{row}");
    }
    // An end point each, with its threads and sockets: of the server, of two containers, of three sinks.
    for what in ["threads", "sockets"] {
        let of: Vec<_> = rows[3..].iter().map(|row| row["of_servers"][what].as_u64().unwrap()).collect();
        assert!(of[0] < of[1] && of[1] < of[2], "{what}: {of:?}");
    }
}

#[test]
fn neighbours_of_a_component_that_crashes_lose_nothing_and_are_told() {
    let report = conduct("component-crashes", &["--rounds", "13"]);
    assert_eq!([&report["panics"], &report["kills"], &report["restarts"]], [12, 1, 13], "{report}");
    assert_eq!([&report["told_failed"], &report["told_restarted"]], [12, 12], "{report}");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["neighbour"].as_str().unwrap()).collect::<Vec<_>>(), ["beside", "within"]);
    for row in rows {
        assert_eq!(row["lost"], 0, "{row}");
        assert!(["quiet", "crashing"].iter().all(|turn| row[turn]["p99_us"].as_f64() > Some(0.0)), "{row}");
    }
    assert!(report["sent"].as_u64() > Some(0) && report["rounds"].as_array().map(Vec::len) == Some(2), "{report}");
}

#[test]
fn response_times_that_are_computed_are_compared_with_those_that_are_measured() {
    let report = conduct("predicted", &[]);
    let rows = report["rows"].as_array().unwrap();
    let of = |plan: &str| rows.iter().filter(|row| row["plan"] == plan).count();
    assert_eq!(["pipeline of four", "fan-out to ten", "rate group of five"].map(of), [5, 11, 5]);
    for row in rows {
        // Nothing takes less than its own handler: half a millisecond. So short a run may end before the slowest timer's first.
        assert!(row["measured"].is_null() || row["measured"]["min_us"].as_f64() >= Some(500.0), "{row}");
        assert!(row["predicted_us"].as_f64() >= Some(1_000.0), "{row}");
    }
}

#[test]
fn an_experiment_refuses_durations_that_are_none() {
    let (error, code) = super::refusal(&["paths-load", "--seconds", "0"]);
    assert_eq!(code, 2);
    assert!(error.contains("--seconds must be above 0 and at most 3600"), "{error}");
}

#[test]
fn what_tls_costs_is_shown_beside_a_service_in_the_clear_and_a_relay() {
    let output = campanile_bench(&["tls", "--events", "300", "--json"]);
    assert!(!output.stdout.is_empty(), "{}: {}", output.status, text(&output.stderr));
    let report = json(&text(&output.stdout));
    for contender in ["clear", "tls", "relay"] {
        assert!(report[contender]["p50_ns"].as_u64().unwrap() > 0, "{contender}: {report}");
    }
}

#[test]
fn lines_of_json_are_shown_beside_corbas_protocol_and_judged() {
    let output = campanile_bench(&["json", "--quick", "--rounds", "2", "--json"]);
    assert!(!output.stdout.is_empty(), "{}: {}", output.status, text(&output.stderr));
    let report = json(&text(&output.stdout));
    let rows = report["rows"].as_array().unwrap();
    let doors: Vec<_> = rows.iter().map(|row| row["contender"].as_str().unwrap()).collect();
    assert_eq!(doors, ["campanile", "json"]);
    for row in rows {
        let pooled = &row["pooled"];
        assert!(pooled["sent_p50_us"].as_f64().unwrap() > 0.0 && pooled["sent_p99_us"].is_number(), "{row}");
        assert_eq!([&pooled["lost"], &pooled["repeated"], &pooled["out_of_order"]].map(Json::as_f64), [Some(0.0); 3]);
    }
    // Which it is, is the machine's.
    let is_met = report["ratios"]["latency_p50"].as_f64().unwrap() <= 1.5;
    assert_eq!(report["aims"][0]["met"], is_met);
    assert_eq!(output.status.code(), Some(i32::from(!is_met)), "{}", text(&output.stderr));
}
