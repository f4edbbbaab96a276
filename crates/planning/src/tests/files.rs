//! Files of activities, plans as files, and times as people write them.

use super::*;
use crate::{Plan, PlanningFile, format_time, parse_time};

#[test]
fn times_are_read_exactly() {
    for (text, expected) in [
        ("1ns", 1),
        ("2.5us", 2_500),
        ("2.5 µs", 2_500),
        ("10ms", 10_000_000),
        ("0.000001s", 1_000),
        ("1.5min", 90_000_000_000),
        ("0ms", 0),
        ("3.0ns", 3),
    ] {
        assert_eq!(parse_time(text), Ok(expected), "{text}");
    }
    for text in ["", "10", "ms", "1.2.3ms", ".5ms", "1.ms", "-1ms", "1h", "0.5ns", "99999999999999999999s", "1e3ms"] {
        assert!(parse_time(text).is_err(), "{text}");
    }
}

#[test]
fn written_time_reads_back_as_the_same() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..10_000 {
        let time = random.u64(..) >> random.u32(0..64);
        assert_eq!(parse_time(&format_time(time)), Ok(time));
    }
    assert_eq!(format_time(2_500_000), "2.5ms");
    assert_eq!(format_time(0), "0ns");
}

const FILE: &str = r#"
policy = "dm"
lanes_max = 8

[[activity]]
name = "trigger"
channel = 3
type = "Telescope/Trigger"
period = "10ms"
execution_time = "200us"
deadline = "2ms"
criticality = 2

[[activity]]
name = "log"
type = "Telescope/Log"
minimum_interval = "1s"
execution_time = "5ms"
jitter = "1ms"
blocking = "50us"
"#;

#[test]
fn file_of_activities_is_read() {
    let file = PlanningFile::parse(FILE).unwrap();
    assert_eq!(file.request, Request { policy: Some(Policy::DeadlineMonotonic), cpus: 1, lanes_max: 8 });
    let log = &file.activities[1];
    assert_eq!((log.channel, log.period, log.deadline, log.jitter), (0, 1_000_000_000, 1_000_000_000, 1_000_000));
    let trigger = &file.activities[0];
    assert_eq!((trigger.channel, trigger.domain.as_str(), trigger.deadline), (3, "Telescope", 2_000_000));
    assert_eq!(file.lines, [5, 14]);
}

#[test]
fn mistake_in_a_file_is_reported_with_its_line() {
    for (from, to, line, said) in [
        ("\"10ms\"", "\"10\"", 9, "a unit"),
        ("\"10ms\"", "10", 9, "expected a string"),
        ("criticality = 2", "critical = 2", 12, "unknown field `critical`"),
        ("\"Telescope/Trigger\"", "\"Trigger\"", 8, "DOMAIN/NAME"),
        ("\"dm\"", "\"fifo\"", 2, "rm, dm, edf, llf and muf"),
        ("execution_time = \"5ms\"", "", 14, "execution_time"),
        ("lanes_max = 8", "lanes_max = ", 3, ""),
    ] {
        let error = PlanningFile::parse(&FILE.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.line, Some(line), "{from}: {error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn refusal_of_an_activity_is_reported_with_its_line() {
    let file = PlanningFile::parse(&FILE.replacen("\"log\"", "\"trigger\"", 1)).unwrap();
    let error = analyse(&file.activities, &file.request, &AnalysisLimits::COMMAND).unwrap_err();
    assert!(file.locate(&error).to_string().starts_with("line 14: another activity is called"));
}

#[test]
fn plan_reads_back_as_what_was_written() {
    let file = PlanningFile::parse(FILE).unwrap();
    for policy in [Policy::DeadlineMonotonic, Policy::EarliestDeadline, Policy::MaximumUrgency] {
        let request = Request { cpus: 2, ..request_with(policy) };
        let analysis = analyse(&file.activities, &request, &AnalysisLimits::COMMAND).unwrap();
        let plan = Plan::new(&file.activities, &analysis);
        assert_eq!(Plan::from_toml(&plan.to_toml()), Ok(plan));
    }
}

#[test]
fn plan_says_lanes_and_event_types_by_channel() {
    let file = PlanningFile::parse(&FILE.replacen("channel = 3\n", "", 1)).unwrap();
    let plan =
        Plan::new(&file.activities, &analyse(&file.activities, &file.request, &AnalysisLimits::COMMAND).unwrap());
    assert!(plan.feasible);
    let channel = &plan.channels[0];
    assert_eq!(
        (channel.id, channel.priority_model.as_str(), channel.discipline.as_str()),
        (0, "CLIENT_PROPAGATED", "Shares")
    );
    assert_eq!(channel.lanes.iter().map(|lane| lane.priority).collect::<Vec<_>>(), [0, 32_767]);
    let trigger = &channel.topics[0];
    assert_eq!((trigger.event_type.as_str(), trigger.priority, trigger.share), ("Telescope/Trigger", 32_767, 100));
    assert_eq!(trigger.deadline, Some(2_000_000));
    assert_eq!(channel.topics[1].deadline, None);
}

#[test]
fn mistake_in_a_plan_is_reported_with_its_line() {
    let file = PlanningFile::parse(FILE).unwrap();
    let analysis = analyse(&file.activities, &file.request, &AnalysisLimits::COMMAND).unwrap();
    let text = Plan::new(&file.activities, &analysis).to_toml();
    let error = Plan::from_toml(&text.replacen("feasible = true", "feasible = 7", 1)).unwrap_err();
    assert_eq!(error.line, Some(4), "{error}");
}
