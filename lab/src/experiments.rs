//! The experiments of two papers, each one command: `paths-load`, `paths-latency`, `paths-jitter`, `paths-number` and `overhead`
//! (Gore, Pyarali, Gill and Schmidt: *The Design and Performance of a Real-time Notification Service*, section 4), and `isolation`
//! (Bauer, Garcés-Erice and Rooney: *Tempo: A Simple Time-Sensitive Messaging System*, section VI).
//!
//! Each runs with the service as real-time and as plain service side by side, both in turn throughout. Suppliers, consumers and
//! services are processes of their own; `--one-cpu` confines all of them to one core, as the paper's testbed was, and leaves
//! the experimenter on another where there is one. Each answers a table, one JSON object, and charts as SVG.

use serde::Serialize;
use serde_json::Value;

use crate::output::write_json;
use crate::report::{self, Aim, Charts, Tables, at, judge, number, text};
use crate::{BenchError, ExperimentOptions, Machine, Output, clock};

pub(crate) mod ability;
mod line;
mod paired;
pub(crate) mod party;
mod primes;
mod rig;
mod samples;

pub(crate) mod alma;
pub(crate) mod book;
pub(crate) mod event_path;
pub(crate) mod isolation;
pub(crate) mod jitter;
pub(crate) mod languages;
pub(crate) mod latency;
pub(crate) mod load;
pub(crate) mod number;
pub(crate) mod overhead;
pub(crate) mod soak;
pub(crate) mod tempo;

pub(crate) use ability::RealTime;
pub(crate) use paired::PairedRatio;
pub(crate) use rig::{Class, Service};
pub(crate) use samples::Bin;

use ability::{Cores, Lifted};
use party::{Answer, Order};
use rig::Rig;

/// Octets of payload of every event: what the paper's section 4.4 has.
const PAYLOAD_BYTES: usize = 64;

/// Where and how an experiment was run: part of every report.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Circumstances {
    /// Where it ran.
    pub(crate) machine: Machine,
    /// What real-time threads were granted.
    pub(crate) real_time: RealTime,
    /// Whether suppliers, consumers and services were confined to one core.
    pub(crate) one_cpu: bool,
    /// Which core that was; `null` without `--one-cpu`.
    pub(crate) core: Option<usize>,
    /// Whether it was run with `--quick`.
    pub(crate) quick: bool,
    /// What a unit of load is: so many trial divisions of a prime of 61 bits.
    pub(crate) divisions_per_unit: u64,
    /// And how long it takes on that core at a real-time priority, in microseconds.
    pub(crate) unit_us: f64,
    /// How long the whole experiment took, in seconds.
    pub(crate) seconds: f64,
}

/// The report of an experiment: the one JSON object.
#[derive(Debug, Clone, Serialize)]
struct Report<R> {
    /// The experiment: its sub-command.
    benchmark: &'static str,
    /// Where and how it was run.
    #[serde(flatten)]
    circumstances: Circumstances,
    /// What was to be shown.
    aims: Vec<Aim>,
    /// What was found.
    #[serde(flatten)]
    found: R,
}

/// A kind of experiment, and what is read out of its reports.
#[derive(Debug, Clone, Copy)]
struct Kind {
    /// Its sub-command.
    name: &'static str,
    tables: fn(&Value) -> Tables,
    charts: fn(&Value) -> Charts,
}

/// What a chart says beneath its title: what was run, and where.
fn subtitle(report: &Value, what: &str) -> String {
    let cores = match at(report, "core") {
        Value::Null => crate::table::counted(
            at(report, "machine.cores").as_u64().and_then(|cores| cores.try_into().ok()).unwrap_or(u32::MAX),
            "core",
        ),
        _ => "all on one core".to_owned(),
    };
    format!("{what}; {cores}, {}", text(report, "machine.processor"))
}

/// What the axis of loads says.
fn load_in_units(report: &Value) -> String {
    format!("load, units of {:.0} µs of work for each event", number(report, "unit_us").unwrap_or(0.0))
}

/// What all experiments of a run stand on.
struct Bed {
    circumstances: Circumstances,
    cores: Cores,
    /// Puts the kernel's limit back when the experiments are over.
    _lifted: Option<Lifted>,
}

impl Bed {
    /// Finds out what the machine grants, and what a unit of load is.
    fn make(options: &ExperimentOptions) -> Result<Self, BenchError> {
        clock::wake_on_time();
        let machine = Machine::describe();
        let cores = Cores::choose(options.one_cpu)?;
        let (real_time, lifted) = RealTime::find_out(options.lift_throttling)?;
        let fifo = real_time.fifo(Class::High.priority());
        let order = Order::Calibrate { divisions: 0 };
        let (party, answer) = party::start("the process that calibrates the load", cores.parties, fifo, &order)?;
        let Answer::Calibrated { divisions, unit_ns } = answer else { return Err(party.confused(&answer)) };
        let circumstances = Circumstances {
            machine,
            real_time,
            one_cpu: options.one_cpu,
            core: cores.parties,
            quick: options.quick,
            divisions_per_unit: divisions,
            unit_us: crate::latency::ratio(unit_ns, 1000),
            seconds: 0.0,
        };
        Ok(Self { circumstances, cores, _lifted: lifted })
    }

    fn real_time(&self) -> &RealTime {
        &self.circumstances.real_time
    }

    /// Whether it has to be quick.
    fn quick(&self) -> bool {
        self.circumstances.quick
    }

    /// How long, in seconds, a run warms up and events count: when it has to be quick and when not. A duration from the command
    /// line takes the place of the second, and bounds the first.
    fn times(&self, options: &ExperimentOptions, quick: (f64, f64), full: (f64, f64)) -> (f64, f64) {
        let (warm_up, window) = if self.quick() { quick } else { full };
        options.seconds.map_or((warm_up, window), |seconds| (warm_up.min(seconds), seconds))
    }

    /// The loads to try: those of the command line, or else the experiment's.
    fn loads<'a>(&self, options: &'a ExperimentOptions, quick: &'a [u32], full: &'a [u32]) -> &'a [u32] {
        match (options.loads.is_empty(), self.quick()) {
            (false, _) => &options.loads,
            (true, true) => quick,
            (true, false) => full,
        }
    }
}

/// Both services, each with the same paths; they take turns.
struct Pair {
    real_time: Rig,
    plain: Rig,
}

impl Pair {
    /// Starts both, with so many paths of each class.
    fn start(bed: &Bed, paths: &[(Class, usize)]) -> Result<Self, BenchError> {
        let start =
            |service| Rig::start(service, paths, bed.cores, bed.real_time(), bed.circumstances.divisions_per_unit);
        Ok(Self { real_time: start(Service::RealTime)?, plain: start(Service::Plain)? })
    }

    fn of(&mut self, service: Service) -> &mut Rig {
        match service {
            Service::RealTime => &mut self.real_time,
            Service::Plain => &mut self.plain,
        }
    }
}

/// Runs one experiment and writes its report.
fn conduct<R: Serialize>(
    kind: &Kind,
    options: &ExperimentOptions,
    out: &mut Output<'_>,
    measure: impl FnOnce(&Bed, &mut Output<'_>) -> Result<(Vec<Aim>, R), BenchError>,
) -> Result<(), BenchError> {
    if options.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds <= 3600.0)) {
        return Err(BenchError::Option { name: "--seconds", must_be: "above 0 and at most 3600" });
    }
    let bed = Bed::make(options)?;
    let report = found(kind, &bed, out, measure)?;
    write_json(&report, &options.report, out)?;
    let value = report::value_of(&report)?;
    if let Some(folder) = &options.svg_dir {
        report::write_charts(&(kind.charts)(&value), folder)?;
    }
    if !options.report.json {
        report::write_tables(&(kind.tables)(&value), out)?;
        report::table_of_aims(&report.aims).write(out)?;
        report.circumstances.real_time.write_remarks(out)?;
        report.circumstances.machine.write_remarks(out)?;
    }
    judge(&report.aims)
}

/// What an experiment found, with where and how it was run.
fn found<R: Serialize>(
    kind: &Kind,
    bed: &Bed,
    out: &mut Output<'_>,
    measure: impl FnOnce(&Bed, &mut Output<'_>) -> Result<(Vec<Aim>, R), BenchError>,
) -> Result<Report<R>, BenchError> {
    let began = clock::now();
    let (aims, found) = measure(bed, out)?;
    out.end_progress()?;
    let mut circumstances = bed.circumstances.clone();
    circumstances.machine.note_stolen();
    circumstances.seconds = (clock::seconds(clock::now() - began) * 10.0).round() / 10.0;
    Ok(Report { benchmark: kind.name, circumstances, aims, found })
}

/// A figure divided by another, if there are both.
fn quotient(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    Some(above? / below.filter(|below| *below > 0.0)?)
}

/// Judges a ratio that is to be small.
fn at_most(aim: &str, ratio: Option<f64>, bound: f64) -> Aim {
    let found = match ratio {
        None => "no events to compare".to_owned(),
        Some(ratio) if ratio > 0.0 && ratio < 0.1 => format!("1/{:.0}", 1.0 / ratio),
        Some(ratio) => format!("{ratio:.3} ×"),
    };
    Aim { aim: aim.to_owned(), found, met: ratio.map(|ratio| ratio <= bound) }
}
