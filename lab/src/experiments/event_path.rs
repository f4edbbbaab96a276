//! `campanile-bench event-path`: what the service does for one event, seen from outside: a lane with one supplier and one
//! consumer, the system calls that strace sees of every thread of the service, in order, beside the list in
//! `docs/path-of-an-event.md`; context switches of every thread; allocations, as the lane counts them.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde::Serialize;
use serde_json::json;

use super::Bed;
use super::overhead;
use crate::campanile::setup;
use crate::performance::meters::{self, field};
use crate::process::Process;
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, clock, system};

/// The page that says what happens.
const PAGE: &str = include_str!("../../../docs/path-of-an-event.md");

/// Events, one after the other, for the counts without strace, and under it.
const EVENTS: u64 = 1000;
const EVENTS_TRACED: u64 = 200;

/// Above every thread that it stops; where that is not granted, it does without.
const TRACER_PRIORITY: u8 = 90;

/// What the page says is called now and then, once a second at most, and belongs to no event.
const NOW_AND_THEN: &str = "getrusage";

/// From one event to the next: long enough for everything that one leads to.
const PERIOD: u64 = clock::SECOND / 200;
/// The same under strace, which stops every party at every call.
const PERIOD_TRACED: u64 = clock::SECOND / 50;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    pub(crate) documented: Vec<String>,
    pub(crate) observed: Option<BTreeMap<String, u64>>,
    pub(crate) strace_note: Option<String>,
    pub(crate) now_and_then: u64,
    pub(crate) events_traced: u64,
    pub(crate) other_threads_calls: BTreeMap<String, BTreeMap<String, u64>>,
    pub(crate) events: u64,
    pub(crate) threads: Vec<Switches>,
    pub(crate) allocations: u64,
}

/// How often a thread gave its core up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Switches {
    pub(crate) thread: String,
    pub(crate) is_lane: bool,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
}

pub(crate) fn measure(bed: &Bed, _: &Options, out: &mut Output<'_>) -> Reported {
    out.progress("starting the service")?;
    let mut contender = overhead::real_time_service(bed)?;
    let pid = contender.service_pid()?;
    contender.pass(EVENTS / 4, PERIOD / 4)?;
    out.progress("counting context switches and allocations")?;
    let allocations = contender.lane_allocations()?;
    let before = threads(pid)?;
    contender.pass(EVENTS, PERIOD)?;
    let after = threads(pid)?;
    let allocations = contender.lane_allocations()?.saturating_sub(allocations);
    out.progress("listening with strace")?;
    let trace = trace(pid, || contender.pass(EVENTS_TRACED, PERIOD_TRACED));
    let mut report = Report {
        documented: documented(PAGE),
        observed: None,
        strace_note: None,
        now_and_then: 0,
        events_traced: 0,
        other_threads_calls: BTreeMap::new(),
        events: EVENTS,
        threads: switches(&before, &after),
        allocations,
    };
    match trace {
        Ok(((), calls)) => report.enter(&calls, &after),
        Err(Untraced::NotUsable(note)) => report.strace_note = Some(note),
        Err(Untraced::Failed(error)) => return Err(error),
    }
    Ok((report.judge(), json!(report)))
}

/// The calls in the third column of the page's first table, by the kernel's names.
fn documented(page: &str) -> Vec<String> {
    let rows =
        page.lines().skip_while(|line| !line.starts_with("|---")).skip(1).take_while(|line| line.starts_with('|'));
    let call = |row: &str| row.split('|').nth(3).map(|cell| cell.trim().trim_matches('`').to_owned());
    rows.filter_map(call).filter(|call| !call.is_empty()).map(|call| kernel_name(&call).to_owned()).collect()
}

/// What the kernel calls it: `recv` and `send` are the library's names, and `epoll_wait` is one of several.
fn kernel_name(call: &str) -> &str {
    match call {
        "recv" => "recvfrom",
        "send" => "sendto",
        "epoll_pwait" | "epoll_pwait2" => "epoll_wait",
        other => other,
    }
}

/// A thread of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Thread {
    name: String,
    voluntary: u64,
    involuntary: u64,
}

impl Thread {
    /// Whether it is the one of the pool.
    fn is_lane(&self) -> bool {
        self.name.starts_with("lane-")
    }

    fn parse(status: &str) -> Option<Self> {
        Some(Self {
            name: field(status, "Name")?,
            voluntary: field(status, "voluntary_ctxt_switches")?,
            involuntary: field(status, "nonvoluntary_ctxt_switches")?,
        })
    }
}

/// All threads of a process, by their ids.
fn threads(pid: u32) -> Result<BTreeMap<u32, Thread>, BenchError> {
    let statuses = meters::statuses(pid)?.into_iter();
    Ok(statuses.filter_map(|(thread, status)| Some((thread, Thread::parse(&status)?))).collect())
}

fn switches(before: &BTreeMap<u32, Thread>, after: &BTreeMap<u32, Thread>) -> Vec<Switches> {
    let between = |(id, now): (&u32, &Thread)| {
        let then = before.get(id);
        Switches {
            thread: now.name.clone(),
            is_lane: now.is_lane(),
            voluntary: now.voluntary - then.map_or(0, |then| then.voluntary),
            involuntary: now.involuntary - then.map_or(0, |then| then.involuntary),
        }
    };
    after.iter().map(between).collect()
}

/// Why there is no trace.
pub(crate) enum Untraced {
    /// strace is not there, or may not look.
    NotUsable(String),
    /// What was to be traced failed.
    Failed(BenchError),
}

impl From<Untraced> for BenchError {
    fn from(untraced: Untraced) -> Self {
        match untraced {
            Untraced::NotUsable(note) => setup("listening with strace")(note),
            Untraced::Failed(error) => error,
        }
    }
}

/// A system call as strace saw it begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    thread: u32,
    pub(crate) name: String,
}

/// Has strace listen to all threads of a process while `act` is under way.
pub(crate) fn trace<T>(pid: u32, act: impl FnOnce() -> Result<T, BenchError>) -> Result<(T, Vec<Call>), Untraced> {
    let file = std::env::temp_dir().join(format!("campanile-event-path-{}.strace", std::process::id()));
    let mut command = Command::new("strace");
    command.args(["-f", "-p", &pid.to_string(), "-o"]).arg(&file);
    let attached = |line: &str| line.contains("attached").then_some(());
    let (tracer, ()) =
        Process::spawn("strace", command, attached).map_err(|error| Untraced::NotUsable(error.to_string()))?;
    // Each call stops the lane until strace has noted it: were strace to wait for its turn, events would pile up meanwhile.
    let _ = system::have_run_fifo(tracer.pid(), TRACER_PRIORITY);
    let done = act();
    let said = tracer.end_with(Signal::INT);
    let done = done.map_err(Untraced::Failed)?;
    let text =
        fs::read_to_string(&file).map_err(BenchError::io("reading what strace saw")).map_err(Untraced::Failed)?;
    let _ = fs::remove_file(&file);
    let calls: Vec<Call> = text.lines().filter_map(parse_call).collect();
    if calls.is_empty() {
        return Err(Untraced::NotUsable(format!("strace saw nothing; it said {said:?}")));
    }
    Ok((done, calls))
}

/// Reads a line such as `4711 recvfrom(9, …`; none of those that only end a call, or tell of a signal.
fn parse_call(line: &str) -> Option<Call> {
    let (thread, rest) = line.trim_start().split_once(char::is_whitespace)?;
    let (name, _) = rest.trim_start().split_once('(')?;
    let is_name =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    // strace tells the call that a thread was in when it came by this name, if it cannot tell which it was.
    (is_name && name != "restart_syscall")
        .then(|| Call { thread: thread.parse().unwrap_or(0), name: kernel_name(name).to_owned() })
}

/// What a lane called for each event, and how often each such list occurred: an event begins with the read that brings it, of
/// every `reads` reads the first, and ends before the next one begins.
fn by_event(calls: &[&str], reads: usize) -> BTreeMap<String, u64> {
    let mut lists = BTreeMap::new();
    let mut list: Vec<&str> = Vec::new();
    let mut read = 0;
    for &call in calls {
        if call == "recvfrom" {
            if read == reads {
                *lists.entry(list.join(" ")).or_insert(0) += 1;
                list.clear();
                read = 0;
            }
            read += 1;
        }
        // What comes before the first read belongs to no event.
        if read > 0 {
            list.push(call);
        }
    }
    // The wait behind the last event has not led to the next, but it is there.
    if !list.is_empty() {
        *lists.entry(list.join(" ")).or_insert(0) += 1;
    }
    lists
}

/// The documented list as [`by_event`] gives it: from the first read on, with the first wait last.
fn turned(documented: &[String]) -> String {
    let first = documented.iter().position(|call| call == "recvfrom").unwrap_or(0);
    let (waits, rest) = documented.split_at(first);
    [rest, waits].concat().join(" ")
}

impl Report {
    fn enter(&mut self, calls: &[Call], threads: &BTreeMap<u32, Thread>) {
        let mut of_lane = Vec::new();
        let mut known = std::collections::BTreeSet::new();
        for Call { thread, name } in calls {
            // The first call of each is the one in which it waited when strace came.
            if known.insert(thread) {
                continue;
            }
            match threads.get(thread) {
                Some(thread) if thread.is_lane() && name == NOW_AND_THEN => self.now_and_then += 1,
                Some(thread) if thread.is_lane() => of_lane.push(name.as_str()),
                thread => {
                    let name_of_thread = thread.map_or("started meanwhile", |thread| &thread.name);
                    let calls = self.other_threads_calls.entry(name_of_thread.to_owned()).or_default();
                    *calls.entry(name.clone()).or_default() += 1;
                }
            }
        }
        let reads = self.documented.iter().filter(|call| *call == "recvfrom").count();
        self.observed = Some(by_event(&of_lane, reads.max(1)));
        self.events_traced = EVENTS_TRACED;
    }

    fn judge(&self) -> Vec<Aim> {
        let expected = turned(&self.documented);
        let lists = self.observed.as_ref();
        let all: Option<u64> = lists.map(|lists| lists.values().sum());
        let matching = lists.map(|lists| lists.get(&expected).copied().unwrap_or(0));
        let locks = lists.map(|lists| {
            let of_lane = lists.iter().filter(|(list, _)| list.contains("futex")).map(|(_, count)| count).sum::<u64>();
            of_lane + self.other_threads_calls.values().filter_map(|calls| calls.get("futex")).sum::<u64>()
        });
        let seconds = self.events_traced * PERIOD_TRACED / clock::SECOND + 1;
        let seldom = self.now_and_then <= seconds;
        let others = self.threads.iter().filter(|thread| !thread.is_lane);
        let others: u64 = others.map(|thread| thread.voluntary + thread.involuntary).sum();
        let said =
            |count: Option<u64>| count.map_or_else(|| "not seen: no strace".to_owned(), |count| count.to_string());
        vec![
            Aim::new(
                format!("every event leads to the documented system calls, in order: {}", self.documented.join(", ")),
                match (matching, all) {
                    (Some(matching), Some(all)) => {
                        format!("{matching} of {all} events, and {} × {NOW_AND_THEN} in {seconds} s", self.now_and_then)
                    }
                    _ => "not seen: no strace".to_owned(),
                },
                matching.zip(all).map(|(matching, all)| matching == all && all >= self.events_traced && seldom),
            ),
            Aim::new(
                "no lock is waited for or woken: no call of futex in any thread of the service",
                said(locks),
                locks.map(|locks| locks == 0),
            ),
            Aim::new(
                "no other thread of the service runs for an event: less than 1 context switch in 100 events",
                format!("{others} in {} events", self.events),
                others * 100 <= self.events,
            ),
            Aim::new("no allocation", format!("{} in {} events", self.allocations, self.events), self.allocations == 0),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_six_calls() {
        let six = ["epoll_wait", "recvfrom", "sendto", "sendto", "epoll_wait", "recvfrom"];
        assert_eq!(documented(PAGE), six);
        assert!(PAGE.contains(NOW_AND_THEN));
        assert_eq!(turned(&documented(PAGE)), "recvfrom sendto sendto epoll_wait recvfrom epoll_wait");
    }

    #[test]
    fn reads_the_calls_that_begin() {
        let call = |thread, name: &str| Some(Call { thread, name: name.to_owned() });
        assert_eq!(parse_call("4711  recvfrom(9, \"GIOP\", 65536, 0, NULL, NULL) = 188"), call(4711, "recvfrom"));
        assert_eq!(parse_call("12 epoll_pwait(3,  <unfinished ...>"), call(12, "epoll_wait"));
        for other in [
            "12 <... epoll_wait resumed>[{events=EPOLLIN}], 64, -1) = 1",
            "12 --- SIGTERM {si_signo=SIGTERM} ---",
            "12 restart_syscall(<... resuming interrupted read ...>) = 1",
            "12 +++ exited with 0 +++",
            "",
        ] {
            assert_eq!(parse_call(other), None, "{other}");
        }
    }

    #[test]
    fn divides_the_calls_among_the_events() {
        let six = "recvfrom writev sendto epoll_wait recvfrom epoll_wait";
        let calls: Vec<&str> = ["epoll_wait", six, six, "recvfrom futex writev sendto epoll_wait recvfrom epoll_wait"]
            .iter()
            .flat_map(|calls| calls.split(' '))
            .collect();
        let lists = by_event(&calls, 2);
        assert_eq!(lists[six], 2);
        assert_eq!(lists["recvfrom futex writev sendto epoll_wait recvfrom epoll_wait"], 1);
        assert_eq!(lists.len(), 2);
    }

    #[test]
    fn reads_a_threads_switches() {
        let status = "Name:\tlane-1-p24000\nState:\tS\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        let thread = Thread::parse(status).unwrap();
        assert_eq!(thread, Thread { name: "lane-1-p24000".to_owned(), voluntary: 12, involuntary: 3 });
        assert!(thread.is_lane());
        let before = BTreeMap::from([(7, Thread { voluntary: 10, ..thread.clone() })]);
        let after = BTreeMap::from([(7, thread)]);
        assert_eq!((switches(&before, &after)[0].voluntary, switches(&before, &after)[0].involuntary), (2, 0));
    }
}
