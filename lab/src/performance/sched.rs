//! What the scheduler did while an event was late: the kernel's own trace of which threads ran, which waited, and for which.
//!
//! A trace instance of the kernel (`tracefs`) tells, on the monotonic clock, when one of the watched threads was woken, was
//! given a core, and lost it. It is read now and then, and only the last seconds are kept: a thread that follows it as it comes
//! wakes as often as those that it watches, and makes them late itself. Where the kernel does not grant that, there is no
//! trace, and late events stay unexplained.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::clock;

/// Where the kernel has it: mounted by itself, or with debugfs.
const TRACING: [&str; 2] = ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"];

/// What an instance is called; its process's number follows.
const INSTANCE: &str = "campanile-bench-";

/// How much of the trace is kept.
const KEPT: u64 = 10 * clock::SECOND;

/// What the kernel holds for each core until it is read, in KiB: some seconds of what a thousand events a second cause.
const HELD_KIB: &str = "8192";

/// A sleeper that is woken this long after it wanted to be has been woken late, in nanoseconds.
const TIMER_LATE: u64 = 200_000;

/// What a thread did.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    at: u64,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// A thread may run again.
    Woken(u32),
    /// A core goes from a thread with this name to another; `preempted` if the first would have gone on.
    Switched { from: u32, from_name: String, preempted: bool, to: u32 },
}

/// Something that made an event late.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Wait {
    pub(crate) who: String,
    pub(crate) waited_for: String,
    pub(crate) us: f64,
}

/// A running trace.
pub(super) struct Trace {
    instance: PathBuf,
    /// Nothing once the instance is to go.
    read: Mutex<Option<Read>>,
}

struct Read {
    pipe: BufReader<File>,
    records: VecDeque<Record>,
}

impl Read {
    /// Reads what there is by now.
    fn catch_up(&mut self) {
        let mut line = String::new();
        // It ends with "not now".
        while self.pipe.read_line(&mut line).is_ok_and(|count| count > 0) {
            if let Some(record) = parse(&line) {
                while self.records.front().is_some_and(|first| first.at + KEPT < record.at) {
                    self.records.pop_front();
                }
                self.records.push_back(record);
            }
            line.clear();
        }
    }
}

impl Trace {
    /// Watches these threads; `Err` says why that is not possible. Removes what runs that were killed have left.
    pub(super) fn start(threads: &[u32]) -> Result<Self, String> {
        let own = std::process::id();
        // An instance of this process's number is not this process's yet, and would be in its way.
        let instances = instances(TRACING.map(Path::new));
        remove_left(instances, |pid| pid != own && Path::new(&format!("/proc/{pid}")).exists());
        let instance = instances.join(format!("{INSTANCE}{own}"));
        fs::create_dir(&instance).map_err(|error| format!("no trace: {}: {error}", instance.display()))?;
        let mut trace = Self { instance, read: Mutex::new(None) };
        trace.set_up(threads).map_err(|error| format!("no trace: {error}"))?;
        Ok(trace)
    }

    fn set_up(&mut self, threads: &[u32]) -> std::io::Result<()> {
        let write = |file: &str, text: &str| fs::write(self.instance.join(file), text);
        let any = |field: &str| threads.iter().map(|id| format!("{field}=={id}")).collect::<Vec<_>>().join("||");
        write("trace_clock", "mono")?;
        write("buffer_size_kb", HELD_KIB)?;
        write("events/sched/sched_switch/filter", &format!("{}||{}", any("prev_pid"), any("next_pid")))?;
        write("events/sched/sched_wakeup/filter", &any("pid"))?;
        write("events/sched/sched_switch/enable", "1")?;
        write("events/sched/sched_wakeup/enable", "1")?;
        let pipe =
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(self.instance.join("trace_pipe"))?;
        self.read = Mutex::new(Some(Read { pipe: BufReader::new(pipe), records: VecDeque::new() }));
        Ok(())
    }

    /// Reads what there is by now. To be called every few seconds, or some of it is lost.
    pub(super) fn catch_up(&self) {
        if let Some(read) = &mut *self.read.lock().unwrap_or_else(PoisonError::into_inner) {
            read.catch_up();
        }
    }

    /// What kept the threads of these owners from running between two moments.
    pub(super) fn explain(&self, owners: &BTreeMap<u32, &'static str>, due: u64, arrival: u64) -> Vec<Wait> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Read { records, .. }) = &*read else { return Vec::new() };
        // A wait that began more than a second before is left out.
        let first = records.partition_point(|record| record.at + clock::SECOND < due);
        waits(records.range(first..), owners, due, arrival)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        for event in ["sched_switch", "sched_wakeup"] {
            let _ = fs::write(self.instance.join(format!("events/sched/{event}/enable")), "0");
        }
        // An instance cannot go while its pipe is open.
        *self.read.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = fs::remove_dir(&self.instance);
    }
}

/// The first of these that is there; the first one, if none is.
fn instances(places: [&Path; 2]) -> &Path {
    let [usual, other] = places;
    if !usual.exists() && other.exists() { other } else { usual }
}

/// Removes the instances of processes that have ended without doing so: each goes on recording, and keeps its memory.
fn remove_left(instances: &Path, is_alive: impl Fn(u32) -> bool) {
    let entries = fs::read_dir(instances).into_iter().flatten().flatten();
    let is_left = |name: &str| process_of(name).is_some_and(|pid| !is_alive(pid));
    for entry in entries.filter(|entry| entry.file_name().to_str().is_some_and(is_left)) {
        // An instance that is being read cannot be removed, and then it is not left either.
        let _ = fs::remove_dir(entry.path());
    }
}

fn process_of(instance: &str) -> Option<u32> {
    let number = instance.strip_prefix(INSTANCE)?;
    // Numbers can be written in several ways, of which this program uses one.
    number.parse().ok().filter(|pid: &u32| pid.to_string() == number)
}

/// Reads a line such as
/// `campanile-12 [001] d..2. 12345.678901: sched_switch: prev_comm=a prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=…`.
fn parse(line: &str) -> Option<Record> {
    let (head, rest) = line.split_once(": sched_")?;
    let (seconds, micros) = head.split_ascii_whitespace().next_back()?.split_once('.')?;
    let at = seconds.parse::<u64>().ok()?.checked_mul(clock::SECOND)? + micros.parse::<u64>().ok()? * 1000;
    let (what, fields) = rest.split_once(": ")?;
    let field = |text: &str, name: &str| -> Option<String> {
        Some(text.split_once(&format!("{name}="))?.1.split_ascii_whitespace().next()?.to_owned())
    };
    let kind = match what {
        "wakeup" => Kind::Woken(field(fields, "pid")?.parse().ok()?),
        "switch" => {
            let (from, to) = fields.split_once("==>")?;
            // Names may have spaces in them.
            let name = from.split_once("prev_comm=")?.1.split_once(" prev_pid=")?.0;
            Kind::Switched {
                from: field(from, "prev_pid")?.parse().ok()?,
                from_name: name.to_owned(),
                preempted: field(from, "prev_state")?.starts_with('R'),
                to: field(to, "next_pid")?.parse().ok()?,
            }
        }
        _ => return None,
    };
    Some(Record { at, kind })
}

/// Finds for what threads waited between two moments, in the order in which their waits ended.
fn waits<'a>(
    records: impl Iterator<Item = &'a Record>,
    owners: &BTreeMap<u32, &'static str>,
    due: u64,
    arrival: u64,
) -> Vec<Wait> {
    let mut waits = Vec::new();
    // Since when a thread could run and does not.
    let mut runnable: BTreeMap<u32, u64> = BTreeMap::new();
    let mut woken_publisher = false;
    let mut add = |who: &str, waited_for: String, from: u64, until: u64| {
        let (from, until) = (from.max(due), until.min(arrival));
        if until > from {
            waits.push(Wait { who: who.to_owned(), waited_for, us: crate::latency::ratio(until - from, 1000) });
        }
    };
    for Record { at, kind } in records {
        match kind {
            Kind::Woken(thread) => {
                let is_publisher = owners.get(thread) == Some(&"publisher");
                if is_publisher && *at >= due && !woken_publisher {
                    woken_publisher = true;
                    if *at > due + TIMER_LATE {
                        add("publisher", "its timer".to_owned(), due, *at);
                    }
                }
                runnable.entry(*thread).or_insert(*at);
            }
            Kind::Switched { from, from_name, preempted, to } => {
                if let Some(since) = runnable.remove(to)
                    && let Some(owner) = owners.get(to)
                {
                    let holder = if *from == 0 { "nobody".to_owned() } else { from_name.clone() };
                    add(owner, format!("a core that {holder} had"), since, *at);
                }
                if *preempted && owners.contains_key(from) {
                    runnable.insert(*from, *at);
                }
            }
        }
        if *at > arrival {
            break;
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "  lane-12  [001] d..2. 100.000250: sched_switch: prev_comm=my editor prev_pid=99 prev_prio=120 \
                          prev_state=R+ ==> next_comm=lane next_pid=12 next_prio=120";

    fn woken(thread: u32, at: u64) -> Record {
        Record { at, kind: Kind::Woken(thread) }
    }

    fn switched(from: u32, preempted: bool, to: u32, at: u64) -> Record {
        Record { at, kind: Kind::Switched { from, from_name: format!("p{from}"), preempted, to } }
    }

    #[test]
    fn only_the_instances_of_processes_that_are_gone_are_removed() {
        let folder = std::env::temp_dir().join(format!("campanile-instances-{}", std::process::id()));
        let numbers = ["1", "2", "02", "+2", "2x", "-2", ""].map(|number| format!("campanile-bench-{number}"));
        let names: Vec<&str> = numbers.iter().map(String::as_str).chain(["perf-2", "2"]).collect();
        for name in &names {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        remove_left(&folder, |pid| pid == 1);
        let gone: Vec<&str> = names.into_iter().filter(|name| !folder.join(name).exists()).collect();
        assert_eq!(gone, ["campanile-bench-2"]);
        fs::remove_dir_all(&folder).unwrap();
        // Where there are no traces, nothing is left of any.
        remove_left(&folder, |_| false);
    }

    #[test]
    fn traces_are_taken_where_the_kernel_offers_them() {
        let (here, nowhere) = (std::env::temp_dir(), std::env::temp_dir().join("campanile-no-such-folder"));
        assert_eq!(instances([&nowhere, &here]), here);
        assert_eq!(instances([&here, &nowhere]), here);
        assert_eq!(instances([&nowhere, &nowhere]), nowhere);
    }

    #[test]
    fn reads_the_kernel_s_lines() {
        let kind = Kind::Switched { from: 99, from_name: "my editor".to_owned(), preempted: true, to: 12 };
        assert_eq!(parse(SWITCH), Some(Record { at: 100_000_250_000, kind }));
        let line = "  <idle>-0  [000] dNh4. 7.000001: sched_wakeup: comm=lane pid=12 prio=120 target_cpu=000";
        assert_eq!(parse(line), Some(woken(12, 7_000_001_000)));
        for line in ["", "CPU:0 [LOST 12 EVENTS]", "x-1 [000] ... 7.1: tracing_mark_write: end"] {
            assert_eq!(parse(line), None);
        }
    }

    #[test]
    fn tells_waits_for_a_core_and_for_a_timer_within_the_event_s_time() {
        let owners = BTreeMap::from([(1, "publisher"), (2, "service")]);
        let ms = 1_000_000;
        let records = [
            woken(1, 3 * ms),             // due at 1 ms
            switched(7, true, 1, 4 * ms), // another one had the core for 1 ms
            woken(2, 5 * ms),
            switched(0, false, 2, 5 * ms + 1000),
            switched(2, true, 7, 6 * ms),
            switched(7, true, 2, 9 * ms), // behind the event's end
        ];
        let found = waits(records.iter(), &owners, ms, 8 * ms);
        let told: Vec<_> = found.iter().map(|wait| (wait.who.as_str(), wait.waited_for.as_str(), wait.us)).collect();
        let expected = [
            ("publisher", "its timer", 2000.0),
            ("publisher", "a core that p7 had", 1000.0),
            ("service", "a core that nobody had", 1.0),
            ("service", "a core that p7 had", 2000.0),
        ];
        assert_eq!(told, expected);
    }
}
