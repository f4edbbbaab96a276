//! What the kernel's own counters say of any contender: system calls, counted by `perf stat` from outside.
//!
//! Counting system calls makes every one of them slower, so this is never done in a turn that is timed.

use std::process::Command;

use rustix::process::Signal;

use crate::BenchError;
use crate::process::Dialogue;

/// The event that is counted.
const SYSTEM_CALLS: &str = "raw_syscalls:sys_enter";

/// Counts the system calls of these processes while `act` is under way; `None` where `perf` is not there or may not count.
pub(super) fn count_system_calls<T>(
    pids: &[u32],
    act: impl FnOnce() -> Result<T, BenchError>,
) -> Result<(T, Option<u64>), BenchError> {
    let counter = Counter::start(pids);
    let done = act()?;
    Ok((done, counter.and_then(Counter::stop)))
}

struct Counter(Dialogue);

impl Counter {
    /// Has perf count, beginning now.
    fn start(pids: &[u32]) -> Option<Self> {
        if pids.is_empty() {
            return None;
        }
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let mut command = Command::new("perf");
        // It begins at a command on its standard input, and says that it has.
        command.args(["stat", "-x", ",", "-e", SYSTEM_CALLS, "-D", "-1", "--control", "fd:0", "-p", &pids.join(",")]);
        let (mut perf, ()) = Dialogue::spawn("perf", command, says("Events disabled")).ok()?;
        perf.say("enable").ok()?;
        perf.wait_for(says("Events enabled")).ok()?;
        Some(Self(perf))
    }

    /// Has it say what it has counted.
    fn stop(mut self) -> Option<u64> {
        self.0.say("disable").ok()?;
        self.0.wait_for(says("Events disabled")).ok()?;
        self.0.end_with(Signal::INT).iter().find_map(|line| parse(line))
    }
}

fn says(what: &'static str) -> impl Fn(&str) -> Option<()> {
    move |line| line.contains(what).then_some(())
}

/// Reads the line that says the count: `1234,,raw_syscalls:sys_enter,…`.
fn parse(line: &str) -> Option<u64> {
    let mut fields = line.split(',');
    let count = fields.next()?.trim().parse().ok()?;
    fields.any(|field| field == SYSTEM_CALLS).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_count_and_nothing_else() {
        assert_eq!(parse("4711,,raw_syscalls:sys_enter,202561630,100.00,,"), Some(4711));
        for line in
            ["Events enabled", "<not supported>,,raw_syscalls:sys_enter,0,100.00,,", "12,,context-switches,1,1,,"]
        {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
