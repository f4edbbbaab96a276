//! `campanile-bench endurance`: the same for a long time, and every event that was late written down and looked into.

use std::collections::BTreeMap;
use std::io::Write;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Sender};
use std::thread;

use serde::Serialize;

use super::contender::{self, Contender, OURS, Scenario};
use super::course::{Course, LEAD, Plan};
use super::sched::{Trace, Wait};
use super::{meters, page};
use crate::latency::{Percentiles, ratio};
use crate::output::{today, write_json, write_result};
use crate::report::{Aim, judge};
use crate::table::{Cell as Field, Table};
use crate::{BenchError, EnduranceOptions, Losses, Machine, Output, clock};

/// Events later than this many nanoseconds are looked into.
const LATE: u64 = 1_000_000;

/// Late events of a run that are written down one by one: those that took longest. The others are counted by their causes.
const WRITTEN_DOWN: usize = 10_000;

/// Waits of a late event that are written down: the longest.
const WAITS: usize = 8;

/// An event is explained when so much of its lateness is.
const EXPLAINED: f64 = 0.5;

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// Always `endurance`.
    pub(crate) benchmark: &'static str,
    /// The day it was run.
    pub(crate) date: String,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// Whether all rates ran at the same time, each with a service of its own.
    pub(crate) together: bool,
    /// One for each rate and contender.
    pub(crate) runs: Vec<Endured>,
}

/// One rate for a long time.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Endured {
    /// The contender that carried the events: its key. All of one rate ran at the same time.
    pub(crate) contender: &'static str,
    /// Events a second.
    pub(crate) rate: f64,
    /// For how long, in minutes.
    pub(crate) minutes: f64,
    /// Octets of payload.
    pub(crate) payload_bytes: u32,
    /// From when an event was due.
    pub(crate) latency: Option<Percentiles>,
    /// What was lost, repeated or out of order.
    pub(crate) losses: Losses,
    /// Events that left late because the push before had not returned.
    pub(crate) late_pushes: u64,
    /// Octets that the service had resident at the end.
    pub(crate) resident_bytes: u64,
    /// Why there was no trace, if there was none.
    pub(crate) untraced: Option<String>,
    /// How many events took more than 1 ms.
    pub(crate) late_events: usize,
    /// Of these, how many have been explained.
    pub(crate) explained: usize,
    /// How many each cause made late, with the latest of them in µs.
    pub(crate) causes: BTreeMap<String, (u64, f64)>,
    /// One by one, in their order; of more than 10,000 those that took longest.
    pub(crate) late: Vec<Late>,
}

/// An event that took more than 1 ms.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Late {
    /// Its number.
    pub(crate) number: u64,
    /// Seconds from the beginning of the run to when it was due.
    pub(crate) at_seconds: f64,
    /// How long it took, in µs.
    pub(crate) us: f64,
    /// What it waited for, as the kernel's trace tells; of more than 8 waits the longest.
    pub(crate) waits: Vec<Wait>,
    /// Processor time that the host took from this machine in the two seconds about it, in ms.
    pub(crate) stolen_ms: f64,
    /// In a few words.
    pub(crate) explanation: String,
    /// What most of that is, in words that are the same for all that are alike.
    pub(crate) cause: String,
}

/// Runs the benchmark and writes its report to `out`.
pub(crate) fn run(options: &EnduranceOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    if !(options.minutes > 0.0 && options.minutes <= 10_000.0) {
        return Err(BenchError::Option { name: "--minutes", must_be: "above 0 and at most 10000" });
    }
    if options.rates.iter().any(|rate| !(*rate > 0.0 && *rate <= 100_000.0)) {
        return Err(BenchError::Option { name: "--rates", must_be: "above 0 and at most 100000 events per second" });
    }
    let all = contender::all();
    let contenders = contenders(&all, &options.beside)?;
    let mut machine = Machine::describe();
    let mut runs = Vec::new();
    let at_once = if options.together { options.rates.len().max(1) } else { 1 };
    for rates in options.rates.chunks(at_once) {
        runs.extend(endure(rates, &contenders, options, out)?);
    }
    out.end_progress()?;
    machine.note_stolen();
    let report = Report { benchmark: "endurance", date: today(), machine, together: options.together, runs };
    write_json(&report, &options.report, out)?;
    let mut written = Vec::new();
    if let Some(folder) = &options.results {
        written.push(write_result(&report, folder, "endurance", &report.date, &report.machine)?);
    }
    if let Some(page) = &options.page {
        page::write_endurance(&report, page)?;
        written.push(page.join("endurance.md"));
    }
    if !options.report.json {
        for path in written {
            writeln!(out, "{}", path.display())?;
        }
        for (title, table) in tables(&report) {
            writeln!(out, "{title}")?;
            table.write(out)?;
        }
        report.machine.write_remarks(out)?;
    }
    judge(report.runs.iter().filter(|run| run.contender == OURS).map(nothing_lost).collect::<Vec<_>>().iter())
}

fn nothing_lost(run: &Endured) -> Aim {
    let Losses { sent, lost, .. } = run.losses;
    let found = format!("{lost} of {sent} events lost");
    Aim { aim: format!("nothing is lost at {}/s", run.rate), found, met: Some(lost == 0) }
}

/// Contenders with consumer programs of their own that report late events at the end only, when the trace of most is gone.
const TELL_AT_THE_END: [&str; 2] = ["omniorb", "cyclonedds"];

/// Campanile and the contenders that run beside it.
fn contenders<'a>(all: &'a [Box<dyn Contender>], beside: &[String]) -> Result<Vec<&'a dyn Contender>, BenchError> {
    let all = all.iter().map(AsRef::as_ref);
    let (mut contenders, others): (Vec<_>, Vec<_>) = all.partition(|contender| contender.key() == OURS);
    let others: Vec<_> = others.into_iter().filter(|other| !TELL_AT_THE_END.contains(&other.key())).collect();
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
    contenders: &[&dyn Contender],
    options: &EnduranceOptions,
    out: &mut Output<'_>,
) -> Result<Vec<Endured>, BenchError> {
    let mut parties = Vec::new();
    for (&rate, contender) in rates.iter().flat_map(|rate| contenders.iter().map(move |contender| (rate, contender))) {
        out.progress(&format!("starting {}", contender.name()))?;
        let laid = Course::lay(*contender, &Scenario::one_to_one(options.payload));
        let course = laid.map_err(|absence| absence.into_error(contender.name()))?;
        let mut owners = BTreeMap::new();
        for (pid, owner) in course.parties() {
            owners.extend(meters::threads(pid)?.into_iter().map(|thread| (thread, owner)));
        }
        parties.push(Party { contender: contender.key(), rate, later: None, course, owners });
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
        options: &EnduranceOptions,
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
        Ok(Endured {
            contender,
            rate,
            minutes: options.minutes,
            payload_bytes: options.payload,
            latency: outcome.since_due().percentiles(),
            losses: outcome.losses(),
            late_pushes: outcome.sent.late,
            resident_bytes: outcome.resident_bytes,
            untraced: trace.err().cloned(),
            late_events: found.events,
            explained: found.explained,
            causes: core::mem::take(&mut found.causes),
            late: found.written_down(),
        })
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

impl Endured {
    /// How many events each cause made late, with the latest of them in µs; the commonest first.
    fn causes(&self) -> Vec<(&str, u64, f64)> {
        let causes = self.causes.iter().map(|(cause, &(count, most))| (cause.as_str(), count, most));
        let mut causes: Vec<_> = causes.collect();
        causes.sort_by_key(|&(_, count, _)| std::cmp::Reverse(count));
        causes
    }
}

impl Report {
    fn has_others(&self) -> bool {
        self.runs.iter().any(|run| run.contender != OURS)
    }

    /// The heading of the contender's column, where there are several.
    fn whose(&self) -> Option<&'static str> {
        self.has_others().then_some("contender")
    }

    /// What stands in it.
    fn contender(&self, run: &Endured) -> Option<Field> {
        self.has_others().then(|| run.contender.into())
    }

    /// A run, by its rate, and by its contender where there are several.
    pub(super) fn which(&self, run: &Endured) -> String {
        let contender = if self.has_others() { format!(", {}", run.contender) } else { String::new() };
        format!("{}/s{contender}", run.rate)
    }

    /// Campanile's latencies divided by those of the others of the same rate: the rate, the other, and the ratios of the median, of
    /// p99 and of p99.9.
    fn ratios(&self) -> Vec<(f64, &'static str, [f64; 3])> {
        let found = |run: &Endured| run.latency.as_ref().map(|latency| [latency.median, latency.p99, latency.p999]);
        let others = self.runs.iter().filter(|run| run.contender != OURS);
        let ratio = |other: &Endured| {
            let same = |run: &&Endured| run.contender == OURS && run.rate.to_bits() == other.rate.to_bits();
            let (ours, theirs) = (found(self.runs.iter().find(same)?)?, found(other)?);
            let divided = ours.into_iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect::<Vec<f64>>();
            Some((other.rate, other.contender, divided.try_into().ok()?))
        };
        others.filter_map(ratio).collect()
    }
}

/// The tables: what was endured, and what made events late.
pub(super) fn tables(report: &Report) -> Vec<(String, Table)> {
    let others = match (report.together, report.has_others()) {
        (true, false) => ", all rates at the same time, each with a service of its own",
        (true, true) => ", all rates and contenders at the same time, each with processes of its own",
        (false, true) => ", all contenders of a rate at the same time, each with processes of its own",
        (false, false) => "",
    };
    let mut tables = vec![(format!("Endurance, 1 → 1, from when an event was due{others}"), endured(report))];
    let mut ratios = Table::new(["events/s", "Campanile divided by", "p50", "p99", "p99.9"]);
    for (rate, other, found) in report.ratios() {
        ratios.row([rate.into(), other.into()].into_iter().chain(found.map(Field::from)));
    }
    if report.has_others() {
        tables.push(("Campanile's latencies divided by those of who ran at the same time".to_owned(), ratios));
    }
    tables.extend(late(report));
    tables
}

/// A row for each run.
fn endured(report: &Report) -> Table {
    let headings = [
        "minutes",
        "events",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "over 1 ms",
        "explained",
        "lost",
        "resident MB",
    ];
    let mut table = Table::new(["events/s"].into_iter().chain(report.whose()).chain(headings));
    for run in &report.runs {
        let latency = |pick: fn(&Percentiles) -> f64| run.latency.as_ref().map(pick);
        let figures: [Field; 10] = [
            run.minutes.into(),
            run.losses.sent.into(),
            latency(|latency| latency.median).into(),
            latency(|latency| latency.p99).into(),
            latency(|latency| latency.p999).into(),
            latency(|latency| latency.max).into(),
            u64::try_from(run.late_events).unwrap_or(u64::MAX).into(),
            u64::try_from(run.explained).unwrap_or(u64::MAX).into(),
            run.losses.lost.into(),
            ratio(run.resident_bytes, 1_000_000).into(),
        ];
        table.row([run.rate.into()].into_iter().chain(report.contender(run)).chain(figures));
    }
    table
}

/// What made events late.
fn late(report: &Report) -> Vec<(String, Table)> {
    let mut tables = Vec::new();
    let headings = ["what made events take more than 1 ms", "events", "max µs"];
    let mut causes = Table::new(["events/s"].into_iter().chain(report.whose()).chain(headings));
    for run in &report.runs {
        for (cause, count, most) in run.causes() {
            let figures: [Field; 3] = [cause.into(), count.into(), most.into()];
            causes.row([run.rate.into()].into_iter().chain(report.contender(run)).chain(figures));
        }
    }
    if report.runs.iter().any(|run| run.late_events > 0) {
        tables.push(("What made events late".to_owned(), causes));
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::performance::ends::Received;

    fn wait(us: f64) -> Wait {
        Wait { who: "service".to_owned(), waited_for: "a core that make had".to_owned(), us }
    }

    fn endured(contender: &'static str, rate: f64, latency: Option<Percentiles>) -> Endured {
        Endured {
            contender,
            rate,
            minutes: 1.0,
            payload_bytes: 128,
            latency,
            losses: Losses::default(),
            late_pushes: 0,
            resident_bytes: 0,
            untraced: None,
            late_events: 0,
            explained: 0,
            causes: BTreeMap::new(),
            late: Vec::new(),
        }
    }

    fn report(runs: Vec<Endured>) -> Report {
        let machine = Machine::describe();
        Report { benchmark: "endurance", date: String::new(), machine, together: true, runs }
    }

    /// All of this latency, in µs.
    fn all(us: u64) -> Option<Percentiles> {
        Received::recorder([[(us * 1000, 10)].as_slice()]).percentiles()
    }

    #[test]
    fn campanile_is_divided_by_each_that_ran_at_the_same_rate() {
        let runs = vec![
            endured(OURS, 250.0, all(120)),
            endured("relay", 250.0, all(100)),
            endured(OURS, 1000.0, all(30)),
            endured("relay", 1000.0, all(60)),
            endured("nats", 1000.0, all(10)),
            endured("nats", 250.0, None),
        ];
        let report = report(runs);
        let ratios = report.ratios();
        let told: Vec<(f64, &str)> = ratios.iter().map(|&(rate, other, _)| (rate, other)).collect();
        assert_eq!(told, [(250.0, "relay"), (1000.0, "relay"), (1000.0, "nats")]);
        for (&(_, _, found), expected) in ratios.iter().zip([1.2, 0.5, 3.0]) {
            assert!(found.iter().all(|ratio| (ratio - expected).abs() < 0.01), "{found:?} should be {expected}");
        }
        assert_eq!(report.which(&report.runs[1]), "250/s, relay");
    }

    #[test]
    fn nothing_is_said_of_contenders_where_campanile_ran_alone() {
        let alone = report(vec![endured(OURS, 250.0, all(120)), endured(OURS, 1000.0, all(30))]);
        assert!(alone.ratios().is_empty());
        assert_eq!(alone.which(&alone.runs[0]), "250/s");
        let tables = tables(&alone);
        assert_eq!(tables.len(), 1);
        assert!(!tables[0].1.markdown().contains("contender"));
    }

    #[test]
    fn beside_campanile_there_is_no_service_that_reports_late_events() {
        let everybody = contender::all();
        let found = |keys: &[&str]| contenders(&everybody, &keys.iter().map(ToString::to_string).collect::<Vec<_>>());
        let keys = |chosen: Vec<&dyn Contender>| chosen.iter().map(|contender| contender.key()).collect::<Vec<_>>();
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
        let run = Endured {
            late_events: found.events,
            explained: found.explained,
            causes: core::mem::take(&mut found.causes),
            late: found.written_down(),
            ..endured(OURS, 250.0, None)
        };
        assert_eq!(run.causes(), [("a wait for a core that kworker had", 2, 4000.0), (UNEXPLAINED, 1, 4000.0)]);
        assert_eq!((run.late_events, run.explained, run.late.len()), (3, 2, 3));
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
