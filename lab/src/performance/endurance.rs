//! `campanile-bench endurance`: the same for a long time, and every event that was late written down and looked into.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Sender};
use std::thread;

use serde::Serialize;
use serde_json::{Value, json};

use super::contender::{self, Contender, OURS, Scenario};
use super::course::{Course, LEAD, Plan};
use super::meters;
use super::sched::{Trace, Wait};
use crate::latency::ratio;
use crate::report::{Aim, Reported};
use crate::{BenchError, Losses, Options, Output, clock};
use load::output::today;

/// Events later than this many nanoseconds are looked into.
const LATE: u64 = 1_000_000;

/// Late events of a run that are written down one by one: those that took longest. The others are counted by their causes.
const WRITTEN_DOWN: usize = 10_000;

/// Waits of a late event that are written down: the longest.
const WAITS: usize = 8;

/// An event is explained when so much of its lateness is.
const EXPLAINED: f64 = 0.5;

/// One rate for a long time: what is aimed at of Campanile, and what was found.
type Endured = (Option<Aim>, Value);

/// An event that took more than 1 ms.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Late {
    pub(crate) number: u64,
    pub(crate) at_seconds: f64,
    pub(crate) us: f64,
    pub(crate) waits: Vec<Wait>,
    pub(crate) stolen_ms: f64,
    pub(crate) explanation: String,
    pub(crate) cause: String,
}

pub(crate) fn run(options: &Options, out: &mut Output<'_>) -> Reported {
    Options::check("--minutes", options.minutes, 10_000.0)?;
    options.rates.iter().try_for_each(|rate| Options::check("--rates", *rate, 100_000.0))?;
    let contenders = contenders(&options.beside)?;
    let mut runs = Vec::new();
    let at_once = if options.together { options.rates.len().max(1) } else { 1 };
    for rates in options.rates.chunks(at_once) {
        runs.extend(endure(rates, &contenders, options, out)?);
    }
    let (aims, runs): (Vec<Option<Aim>>, Vec<Value>) = runs.into_iter().unzip();
    let report = json!({"date": today(), "together": options.together, "runs": runs});
    Ok((aims.into_iter().flatten().collect(), report))
}

/// Contenders with consumer programs of their own that report late events at the end only, when the trace of most is gone.
const TELL_AT_THE_END: [&str; 2] = ["omniorb", "cyclonedds"];

fn contenders(beside: &[String]) -> Result<Vec<&'static Contender>, BenchError> {
    let (mut contenders, others): (Vec<_>, Vec<_>) = contender::ALL.iter().partition(|contender| contender.key == OURS);
    let others: Vec<_> = others.into_iter().filter(|other| !TELL_AT_THE_END.contains(&other.key)).collect();
    contenders.extend(contender::named(&others, "--beside", beside)?);
    Ok(contenders)
}

/// Everybody of one rate and contender, ready to run.
struct Party {
    contender: &'static str,
    rate: f64,
    /// How much later than the others its first event is due, in nanoseconds; `None` if Campanile runs alone.
    later: Option<u64>,
    course: Course,
    /// The owner of each thread.
    owners: BTreeMap<u32, &'static str>,
}

/// Runs these rates at the same time, each with all contenders.
fn endure(
    rates: &[f64],
    contenders: &[&'static Contender],
    options: &Options,
    out: &mut Output<'_>,
) -> Result<Vec<Endured>, BenchError> {
    let mut parties = Vec::new();
    for (&rate, contender) in rates.iter().flat_map(|rate| contenders.iter().map(move |contender| (rate, contender))) {
        out.progress(&format!("starting {}", contender.name))?;
        let laid = Course::lay(contender, &Scenario::one_to_one(options.payload));
        let course = laid.map_err(|absence| absence.into_error(contender.name))?;
        let mut owners = BTreeMap::new();
        for (pid, owner) in course.parties() {
            owners.extend(meters::threads(pid)?.into_iter().map(|thread| (thread, owner)));
        }
        parties.push(Party { contender: contender.key, rate, later: None, course, owners });
    }
    if contenders.len() > 1 {
        keep_apart(&mut parties, rates);
    }
    let threads: Vec<u32> = parties.iter().flat_map(|party| party.owners.keys().copied()).collect();
    let trace = Trace::start(&threads);
    let (trace, (told, telling), began) = (&trace, mpsc::channel(), clock::now() + LEAD);
    thread::scope(|scope| {
        let mut running = Vec::new();
        for party in parties {
            let told = told.clone();
            running.push(scope.spawn(move || party.endure(options, began, trace.as_ref(), &told)));
        }
        // What is left of it ends with the parties.
        drop(told);
        for text in telling {
            out.progress(&text)?;
        }
        running.into_iter().map(|party| party.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// Shares the shortest period out among all: with the same period for so long, a party right behind another one would be so to the
/// end.
fn keep_apart(parties: &mut [Party], rates: &[f64]) {
    let shortest = rates.iter().map(|rate| clock::nanoseconds(1.0 / rate)).min().unwrap_or(0);
    let count = u64::try_from(parties.len()).unwrap_or(u64::MAX);
    for (place, party) in (0..).zip(parties) {
        party.later = Some(shortest * place / count);
    }
}

impl Party {
    fn endure(
        self,
        options: &Options,
        began: u64,
        trace: Result<&Trace, &String>,
        told: &Sender<String>,
    ) -> Result<Endured, BenchError> {
        let Self { contender, rate, later, mut course, owners } = self;
        // Looking into what was late is not to make others late. Where it is not granted, so be it.
        let _ = crate::system::run_only_when_idle();
        let plan = Plan {
            period: clock::nanoseconds(1.0 / rate),
            warm_up: clock::SECOND,
            window: clock::nanoseconds(options.minutes * 60.0),
            spans: false,
            late: LATE,
            counted: false,
        };
        let mut found = Found::default();
        let mut stolen = crate::system::stolen_seconds();
        let (mut before, mut ticks) = (0.0, 0);
        let outcome = course.run_watched(&plan, later.map(|later| began + later), |from, events| {
            let now = crate::system::stolen_seconds();
            let stolen_ms = (now - stolen) * 1000.0;
            stolen = now;
            if let Ok(trace) = trace {
                trace.catch_up();
            }
            for &(number, due, arrival) in events {
                let waits = trace.map_or_else(|_| Vec::new(), |trace| trace.explain(&owners, due, arrival));
                found.note(Late::new(number, due, arrival, from, waits, stolen_ms + before));
            }
            before = stolen_ms;
            ticks += 1;
            if ticks % 30 == 0 {
                // The receiver may be gone, and then there is nothing to report.
                let _ = told.send(format!("{contender}, {rate}/s: {} events late so far", found.events));
            }
            Ok(())
        })?;
        let losses @ Losses { sent, lost, .. } = outcome.losses();
        let aim = Aim::new(format!("nothing is lost at {rate}/s"), format!("{lost} of {sent} events lost"), lost == 0);
        let endured = json!({
            "contender": contender, "rate": rate, "minutes": options.minutes, "payload_bytes": options.payload,
            "latency": outcome.since_due().percentiles(), "losses": losses, "late_pushes": outcome.sent.late,
            "resident_bytes": outcome.resident_bytes, "untraced": trace.err(), "late_events": found.events,
            "explained": found.explained, "causes": found.causes, "late": found.written_down(),
        });
        Ok(((contender == OURS).then_some(aim), endured))
    }
}

/// What has been found of late events.
#[derive(Default)]
struct Found {
    events: usize,
    explained: usize,
    causes: BTreeMap<String, (u64, f64)>,
    late: Vec<Late>,
}

impl Found {
    fn note(&mut self, late: Late) {
        self.events += 1;
        self.explained += usize::from(late.is_explained());
        let (count, most) = self.causes.entry(late.cause.clone()).or_default();
        *count += 1;
        *most = most.max(late.us);
        self.late.push(late);
        if self.late.len() >= 2 * WRITTEN_DOWN {
            self.leave_out();
        }
    }

    /// Leaves those out that are too many to be written down.
    fn leave_out(&mut self) {
        self.late.sort_by(|one, other| other.us.total_cmp(&one.us));
        self.late.truncate(WRITTEN_DOWN);
    }

    /// Those that are written down, in their order.
    fn written_down(mut self) -> Vec<Late> {
        self.leave_out();
        self.late.sort_by_key(|late| late.number);
        self.late
    }
}

/// What an event is said to be that nothing explains.
const UNEXPLAINED: &str = "unexplained";

/// What it is said to be late by when nothing else explains it.
const STOLEN: &str = "the host took processor time from the machine";

impl Late {
    fn new(number: u64, due: u64, arrival: u64, from: u64, mut waits: Vec<Wait>, stolen_ms: f64) -> Self {
        let us = ratio(arrival.saturating_sub(due), 1000);
        let told: f64 = waits.iter().map(|wait| wait.us).sum();
        waits.sort_by(|one, other| other.us.total_cmp(&one.us));
        waits.truncate(WAITS);
        let longest = waits.first();
        let (cause, explanation) = match longest {
            Some(Wait { who, waited_for, us: most }) if told >= EXPLAINED * us => (
                format!("a wait for {}", kind(waited_for)),
                format!("{told:.0} µs of waiting, the longest: the {who}, {most:.0} µs for {waited_for}"),
            ),
            _ if stolen_ms * 1000.0 >= EXPLAINED * us => {
                (STOLEN.to_owned(), format!("the host took {stolen_ms:.0} ms about then"))
            }
            _ => (UNEXPLAINED.to_owned(), UNEXPLAINED.to_owned()),
        };
        let at_seconds = clock::seconds(due.saturating_sub(from));
        Self { number, at_seconds, us, waits, stolen_ms, explanation, cause }
    }

    fn is_explained(&self) -> bool {
        self.explanation != UNEXPLAINED
    }
}

/// What was waited for, without what tells threads of one kind apart: `a core that kworker/1:2 had` is `a core that kworker had`.
fn kind(waited_for: &str) -> String {
    match waited_for.split_once('/') {
        Some((kind, _)) if waited_for.ends_with(" had") => format!("{kind} had"),
        _ => waited_for.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(us: f64) -> Wait {
        Wait { who: "service".to_owned(), waited_for: "a core that make had".to_owned(), us }
    }

    #[test]
    fn beside_campanile_there_is_no_service_that_reports_late_events() {
        let found = |keys: &[&str]| contenders(&keys.iter().map(ToString::to_string).collect::<Vec<_>>());
        let keys = |chosen: Vec<&'static Contender>| chosen.iter().map(|contender| contender.key).collect::<Vec<_>>();
        assert_eq!(keys(found(&[]).unwrap()), [OURS]);
        assert_eq!(keys(found(&["nats", "relay"]).unwrap()), [OURS, "relay", "nats"]);
        for key in [OURS, "omniorb", "cyclonedds", "nuts"] {
            let refused = found(&["relay", key]).err().unwrap().to_string();
            let known = "there are relay, relay-again, writev, jacorb, omnievents, nats";
            assert_eq!(refused, format!("--beside: there is no contender `{key}`; {known}"));
        }
    }

    #[test]
    fn an_event_is_explained_by_what_took_half_of_its_time_or_by_the_host() {
        let late = |waits, stolen_ms| Late::new(7, 1_000_000_000, 1_004_000_000, 0, waits, stolen_ms).explanation;
        assert_eq!(
            late(vec![wait(500.0), wait(1500.0)], 0.0),
            "2000 µs of waiting, the longest: the service, 1500 µs for a core that make had"
        );
        assert_eq!(late(vec![wait(500.0)], 0.0), UNEXPLAINED);
        assert_eq!(late(vec![wait(500.0)], 10.0), "the host took 10 ms about then");
    }

    #[test]
    fn causes_are_counted_whatever_thread_of_a_kind_had_the_core() {
        let late = |waits, stolen_ms| Late::new(7, 1_000_000_000, 1_004_000_000, 0, waits, stolen_ms);
        let core = |name: &str| vec![Wait { waited_for: format!("a core that {name} had"), ..wait(3000.0) }];
        let late = vec![late(Vec::new(), 0.0), late(core("kworker/1:0"), 0.0), late(core("kworker/0:2"), 0.0)];
        let mut found = Found::default();
        late.into_iter().for_each(|late| found.note(late));
        let causes: Vec<(&str, (u64, f64))> = found.causes.iter().map(|(cause, of)| (cause.as_str(), *of)).collect();
        assert_eq!(causes, [("a wait for a core that kworker had", (2, 4000.0)), (UNEXPLAINED, (1, 4000.0))]);
        assert_eq!((found.events, found.explained, found.written_down().len()), (3, 2, 3));
    }

    #[test]
    fn of_very_many_late_events_those_that_took_longest_are_written_down_in_their_order() {
        let mut found = Found::default();
        let many = 3 * WRITTEN_DOWN as u64;
        for number in 0..many {
            // Every third takes longer than the others.
            let took = if number % 3 == 0 { 5_000_000 } else { 2_000_000 + number };
            found.note(Late::new(number, 0, took, 0, Vec::new(), 0.0));
        }
        assert_eq!((found.events as u64, found.causes[UNEXPLAINED].0), (many, many));
        let numbers: Vec<u64> = found.written_down().iter().map(|late| late.number).collect();
        assert_eq!(numbers, (0..many).step_by(3).collect::<Vec<u64>>());
    }
}
