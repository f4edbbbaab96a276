//! A second opinion on the number of system calls, from outside the service.

use std::collections::BTreeMap;
use std::process::Command;

use rustix::process::Signal;

use super::Load;
use super::middle::Middle;
use super::report::{Settings, Strace};
use crate::BenchError;
use crate::latency::ratio;
use crate::process::Process;

/// Seconds of paced traffic under strace. Tracing makes everything slow, so that only the counts are of use.
const SECONDS: f64 = 4.0;

/// Sends paced traffic through the service while `strace -c -f` counts the system calls of all its threads.
///
/// The count includes the warm-up's calls (its events are counted as well) and those of the requests by which the counters
/// are read.
pub(super) fn count(campanile: &mut Middle, settings: &Settings) -> Result<Strace, BenchError> {
    let pid = campanile.process().pid();
    let mut command = Command::new("strace");
    command.args(["-c", "-f", "-p", &pid.to_string()]);
    let attached = |line: &str| line.contains("attached").then_some(());
    let (tracer, ()) = Process::spawn("strace", command, attached)?;
    let settings = Settings { paced_seconds: SECONDS, ..settings.clone() };
    let turn = campanile.turn(Load::Paced, &settings)?;
    let summary = tracer.end_with(Signal::INT);
    let calls = parse(&summary);
    let events = turn.counted.map_or(turn.losses.sent, |counted| counted.events) + super::middle::WARM_UP;
    let all = calls.values().sum();
    if all == 0 {
        return Err(BenchError::Process { name: "strace".to_owned(), reason: "printed no summary".to_owned() });
    }
    Ok(Strace { events, calls, system_calls_per_event: ratio(all, events.max(1)) })
}

/// Reads the table that strace prints at its end: the fourth column is the count, the last the name.
fn parse(lines: &[String]) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    for line in lines {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        if let [share, _, _, count, .., name] = fields.as_slice()
            && share.parse::<f64>().is_ok()
            && *name != "total"
            && let Ok(count) = count.parse()
        {
            calls.insert((*name).to_owned(), count);
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_summary_of_strace() {
        let text = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 55.03    0.035020           6      5000           epoll_pwait
 24.72    0.015731           3      5002         2 recvfrom
100.00    0.063637           6     10002         2 total";
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let calls = parse(&lines);
        assert_eq!(calls.len(), 2);
        assert_eq!(calls["recvfrom"], 5002);
        assert_eq!(calls["epoll_pwait"], 5000);
    }
}
