//! `campanile-bench languages`: the same two programs in each language that has the simple API, a supplier and a consumer: how many events
//! a second they exchange when they are gathered, and how long one takes. Languages take turns with Rust, round by round.
//!
//! The programs lie in `lab/languages`, which says what they are given and answer; Rust's is this program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use ::campanile::{Consumer, Event, PublishOptions, Settings, Supplier};
use serde::{Deserialize, Serialize};

use super::{Bed, PairedRatio};
use crate::campanile::{Campanile, setup};
use crate::process::{Subordinate, take_orders};
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, Percentiles, Spread, clock};

/// The name of the hidden sub-command that is Rust's program.
pub(crate) const COMMAND: &str = "languages-process";
/// Where the programs and what builds them are.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/languages");
/// The one that others are compared with comes first.
const LANGUAGES: [&str; 7] = ["rust", "c", "cpp", "java", "python", "python-next", "python-async"];
/// Nanoseconds between events that are timed.
const PERIOD: u64 = clock::SECOND / 1000;
/// Events that each language has published one by one before any is timed.
const PACED_BEFORE: u64 = 20_000;
/// What Python is to have, in gathered events a second.
const PYTHON_LEAST: f64 = 100_000.0;

#[derive(Debug, Serialize)]
struct Row {
    language: String,
    what: &'static str,
    value: f64,
    ratio: Option<f64>,
    interval_95: Option<(f64, f64)>,
    lost: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Skipped {
    pub(crate) language: String,
    reason: String,
}

/// What a supplier answers.
#[derive(Debug, Serialize, Deserialize)]
struct Published {
    began: u64,
    lost: u64,
}

/// What a consumer answers.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Taken {
    last: u64,
    latencies: Vec<u64>,
}

#[derive(Event, Clone, Debug)]
struct Wind {
    sent_ns: u64,
    speed: f64,
    direction: f32,
    station: String,
}

fn wind(sent_ns: u64) -> Wind {
    Wind { sent_ns, speed: 11.5, direction: 270.0, station: "north".into() }
}

// ---- Rust's program ----

/// What has come, and how many are waited for.
#[derive(Debug, Default)]
struct Arrivals {
    state: Mutex<(Taken, u64, Option<u64>)>,
    changed: Condvar,
}

impl Arrivals {
    fn arrived(&self, wind: &Wind) {
        let now = clock::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (taken, count, wanted) = &mut *state;
        if wind.sent_ns > 0 {
            taken.latencies.push(now.saturating_sub(wind.sent_ns));
        }
        taken.last = now;
        *count += 1;
        if wanted.is_some_and(|wanted| *count >= wanted) {
            self.changed.notify_one();
        }
    }

    fn take(&self, events: u64) -> Taken {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.2 = Some(events);
        while state.1 < events {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut *state).0
    }
}

/// Is Rust's program, until its input ends.
pub(crate) fn run_process(what: &str, channel: &str, out: &mut Output<'_>) -> Result<(), BenchError> {
    clock::wake_on_time();
    let settings = Settings::load().map_err(setup("reading settings"))?;
    if what == "consumer" {
        let arrivals = Arc::new(Arrivals::default());
        let theirs = Arc::clone(&arrivals);
        let consumer = Consumer::new(channel).settings(settings).on(move |wind: Wind| theirs.arrived(&wind));
        let _subscription = consumer.and_then(Consumer::ready).map_err(setup("subscribing"))?;
        return take_orders(out, |order: String| Ok(arrivals.take(words_of(&order).1)));
    }
    let supplier = Supplier::with(channel, &settings).map_err(setup("connecting a supplier"))?;
    let publisher = supplier.publisher(PublishOptions::default()).map_err(setup("making a publisher"))?;
    take_orders(out, |order: String| {
        let ((order, events, period), began, mut lost) = (words_of(&order), clock::now(), 0);
        if order == "flood" {
            for _ in 0..events {
                publisher.publish(&wind(0)).map_err(setup("publishing"))?;
            }
            let tally = publisher.sync();
            lost = tally.published - tally.confirmed;
        } else {
            for number in 1..=events {
                clock::sleep_until(began + number * period)?;
                supplier.publish(&wind(clock::now())).map_err(setup("publishing"))?;
            }
        }
        Ok(Published { began, lost })
    })
}

/// An order's word and two numbers.
fn words_of(order: &str) -> (&str, u64, u64) {
    let mut words = order.split(' ');
    let what = words.next().unwrap_or_default();
    let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    (what, number(), number())
}

// ---- the experiment ----

/// A supplier and a consumer of a language.
struct Pair {
    language: &'static str,
    supplier: Subordinate,
    consumer: Subordinate,
    /// Of each round.
    gathered: Vec<Option<f64>>,
    p50: Vec<Option<f64>>,
    p99: Vec<Option<f64>>,
    lost: u64,
}

impl Pair {
    fn start(language: &'static str, folder: &Path, server: &str) -> Result<Self, BenchError> {
        let program = |what: &str| -> Result<Vec<OsString>, BenchError> {
            let mut words = vec!["env".into(), format!("CAMPANILE_SERVER={server}").into()];
            if language == "rust" {
                words.push(std::env::current_exe().map_err(BenchError::io("finding this program"))?.into());
                words.push(COMMAND.into());
            } else {
                words.push(folder.join(language).into());
            }
            words.extend([what.into(), format!("Speed-{language}").into()]);
            Ok(words)
        };
        let start = |name, what| Subordinate::start_program(name, COMMAND, Some(program(what)?), None);
        let consumer = start("a consumer", "consumer")?;
        let supplier = start("a supplier", "supplier")?;
        Ok(Self { language, supplier, consumer, gathered: Vec::new(), p50: Vec::new(), p99: Vec::new(), lost: 0 })
    }

    fn exchange(&mut self, order: &str, events: u64, number: u64) -> Result<(Published, Taken), BenchError> {
        let are_timed = u64::from(order == "pace");
        self.consumer.order(&format!("take {events} {are_timed}"))?;
        let published = self.supplier.ask(&format!("{order} {events} {number}"))?;
        Ok((published, self.consumer.answer()?))
    }

    /// Has so many gathered, and tells how many went through in a second.
    fn flood(&mut self, events: u64) -> Result<f64, BenchError> {
        let (published, taken) = self.exchange("flood", events, 0)?;
        // It is of all so far.
        self.lost = published.lost;
        Ok(crate::latency::ratio(events, 1) / clock::seconds(taken.last.saturating_sub(published.began)))
    }

    fn flood_once(&mut self, events: u64) -> Result<(), BenchError> {
        let rate = self.flood(events)?;
        self.gathered.push(Some(rate));
        Ok(())
    }

    fn pace_once(&mut self, events: u64) -> Result<(), BenchError> {
        let (_, taken) = self.exchange("pace", events, PERIOD)?;
        let figures = Percentiles::of(taken.latencies).unwrap_or_default();
        self.p50.push(Some(figures.median));
        self.p99.push(Some(figures.p99));
        Ok(())
    }

    fn figures(&self) -> [(&'static str, &[Option<f64>]); 3] {
        [("gathered_per_second", &self.gathered), ("p50_us", &self.p50), ("p99_us", &self.p99)]
    }
}

pub(crate) fn measure(bed: &Bed, _: &Options, out: &mut Output<'_>) -> Reported {
    // Rounds, and events of each language in one. Those that are paced are short and many: on which core the threads happen to be decides
    // of a latency as much as the language, for as long as they stay there.
    let (warm_up, flooded, paced) =
        if bed.quick() { (200_000, (12, 50_000), (64, 50)) } else { (500_000, (30, 200_000), (300, 100)) };
    out.progress("building the programs")?;
    let (folder, skipped) = build()?;
    let service = Campanile::start()?;
    let server = service.address().to_string();
    let mut pairs = Vec::new();
    for language in LANGUAGES {
        if skipped.iter().all(|skipped| skipped.language != language) {
            out.progress(&format!("{language} warms up"))?;
            let mut pair = Pair::start(language, &folder, &server)?;
            pair.flood(warm_up)?;
            // Compilers that run beside a program are to have seen what is timed, too: one event after the other, without a pause.
            pair.exchange("pace", PACED_BEFORE, 1)?;
            pairs.push(pair);
        }
    }
    out.progress("gathered events")?;
    by_turns(&mut pairs, flooded, Pair::flood_once)?;
    out.progress("one event after the other")?;
    by_turns(&mut pairs, paced, Pair::pace_once)?;
    let rows = compare(&pairs);
    Ok((judge(&rows), serde_json::json!({"rows": rows, "skipped": skipped})))
}

/// So many rounds, in each of which each has a turn of so many events; each goes before each other half of the time.
fn by_turns(
    pairs: &mut [Pair],
    (rounds, events): (u64, u64),
    turn: impl Fn(&mut Pair, u64) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for round in 0..rounds {
        if round % 2 == 0 {
            pairs.iter_mut().try_for_each(|pair| turn(pair, events))?;
        } else {
            pairs.iter_mut().rev().try_for_each(|pair| turn(pair, events))?;
        }
    }
    Ok(())
}

/// Builds the programs: where they are, and which languages are missing.
fn build() -> Result<(PathBuf, Vec<Skipped>), BenchError> {
    let folder = target()?.join("languages");
    let skipped = build_into(&folder, &[])?;
    Ok((folder, skipped))
}

/// The folder in which cargo builds.
fn target() -> Result<PathBuf, BenchError> {
    let program = std::env::current_exe().map_err(BenchError::io("finding this program"))?;
    Ok(program.ancestors().nth(2).unwrap_or(Path::new("target")).to_owned())
}

/// Has the script build the programs, or what else is named, into a folder that is its own: languages that are missing.
pub(crate) fn build_into(folder: &Path, what: &[&str]) -> Result<Vec<Skipped>, BenchError> {
    let mut command = Command::new(Path::new(SOURCES).join("build.sh"));
    let output = command.arg(target()?.join("library")).arg(folder).args(what).output();
    let output = output.map_err(BenchError::io("building the programs"))?;
    if !output.status.success() {
        return Err(setup("building the programs")(String::from_utf8_lossy(&output.stderr).trim()));
    }
    let missing = std::fs::read_to_string(folder.join("missing")).map_err(BenchError::io("looking what was built"))?;
    let skipped = missing.lines().filter_map(|line| line.split_once(": "));
    let skipped =
        skipped.map(|(language, reason)| Skipped { language: language.to_owned(), reason: reason.to_owned() });
    Ok(skipped.collect())
}

fn compare(pairs: &[Pair]) -> Vec<Row> {
    let Some(rust) = pairs.first() else { return Vec::new() };
    let of_rust = rust.figures();
    let rows = pairs.iter().flat_map(|pair| {
        pair.figures().into_iter().zip(of_rust).map(|((what, own), (_, rust))| {
            let ratio = PairedRatio::of(own, rust);
            Row {
                language: pair.language.to_owned(),
                what,
                value: Spread::of(own.iter().copied().flatten()).map_or(0.0, |spread| spread.median),
                interval_95: ratio.as_ref().and_then(|ratio| ratio.interval_95),
                ratio: ratio.map(|ratio| ratio.median),
                lost: pair.lost,
            }
        })
    });
    rows.collect()
}

fn judge(rows: &[Row]) -> Vec<Aim> {
    let row = |language: &str, what| rows.iter().find(|row| row.language == language && row.what == what);
    let mut aims: Vec<Aim> = [("c", 1.2), ("cpp", 1.2), ("java", 1.2), ("python", 2.0)]
        .into_iter()
        .map(|(language, bound)| {
            let ratio = row(language, "p50_us").and_then(|row| row.ratio);
            super::at_most(&format!("{language}: the median latency is at most {bound} × Rust's"), ratio, bound)
        })
        .collect();
    let rate = |language: &str| row(language, "gathered_per_second").map(|row| row.value);
    let ratio = rate("python-next").zip(rate("python-async")).map(|(next, of_loop)| next / of_loop);
    aims.push(super::at_most("python: `next()` has at most 1.25 × the events of `async for`", ratio, 1.25));
    let python = rate("python");
    aims.push(Aim::new(
        format!("python: at least {PYTHON_LEAST} events a second, gathered"),
        python.map_or_else(|| "not measured".to_owned(), |rate| format!("{rate:.0}")),
        python.map(|rate| rate >= PYTHON_LEAST),
    ));
    let lost: u64 = rows.iter().filter(|row| row.what == "p50_us").map(|row| row.lost).sum();
    aims.push(Aim::new("all events are confirmed", format!("{lost} are not"), lost == 0));
    aims
}
