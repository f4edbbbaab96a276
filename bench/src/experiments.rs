//! The experiments of two papers, each one command: `paths-load`, `paths-latency`, `paths-jitter`, `paths-number` and
//! `overhead` (paper 000, section 4), and `isolation` (paper 001, section VI).
//!
//! Each runs with the service as real-time and as plain service side by side, both in turn throughout. Suppliers, consumers and
//! services are processes of their own; `--one-cpu` confines all of them to one core, as the paper's testbed was, and leaves
//! the experimenter on another where there is one. Each answers a table, one JSON object, and charts as SVG.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::output::write_json;
use crate::table::{Cell, Table};
use crate::{BenchError, ExperimentOptions, Machine, Output, clock};

pub(crate) mod ability;
pub(crate) mod chart;
mod line;
mod paired;
pub(crate) mod party;
mod primes;
mod rig;
mod samples;

pub(crate) mod book;
pub(crate) mod event_path;
pub(crate) mod isolation;
pub(crate) mod jitter;
pub(crate) mod latency;
pub(crate) mod load;
pub(crate) mod number;
pub(crate) mod overhead;

pub(crate) use ability::RealTime;
pub(crate) use paired::PairedRatio;
pub(crate) use rig::{Class, Service};
pub(crate) use samples::{Bin, Latency};

use ability::{Cores, Lifted};
use party::{Answer, Order, Party};
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

/// What an experiment is to show, and whether it did.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Aim {
    /// What was to be shown.
    pub(crate) aim: String,
    /// What was found.
    pub(crate) found: String,
    /// Whether that is what was to be shown; `null` where it could not be judged.
    pub(crate) met: Option<bool>,
}

/// What every experiment's report begins with.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Head {
    /// The experiment: its sub-command.
    pub(crate) benchmark: &'static str,
    /// Where and how it was run.
    #[serde(flatten)]
    pub(crate) circumstances: Circumstances,
    /// What was to be shown.
    pub(crate) aims: Vec<Aim>,
    /// What the charts say beneath their titles.
    #[serde(skip)]
    subtitle: String,
}

/// What every experiment's report can do.
trait Report: Serialize {
    /// What it begins with.
    fn head(&self) -> &Head;
    /// The same, to be completed at the end.
    fn head_mut(&mut self) -> &mut Head;
    /// The tables, each with a line above it.
    fn tables(&self) -> Vec<(String, Table)>;
    /// The charts: names of files without their ending, and documents.
    fn charts(&self) -> Vec<(String, String)>;
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
        let (party, answer) = Party::start("the process that calibrates the load", cores.parties, fifo, &order)?;
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

    /// What a report begins with; `subtitle` says what was run, for the charts.
    fn head(&self, benchmark: &'static str, subtitle: &str, aims: Vec<Aim>) -> Head {
        Head { benchmark, circumstances: self.circumstances.clone(), aims, subtitle: self.subtitle(subtitle) }
    }

    /// What the charts say beneath their titles.
    fn subtitle(&self, more: &str) -> String {
        let Circumstances { machine, one_cpu, core, .. } = &self.circumstances;
        let cores = match (one_cpu, core) {
            (true, Some(_)) => "all on one core".to_owned(),
            _ => crate::table::counted(u32::try_from(machine.cores).unwrap_or(u32::MAX), "core"),
        };
        format!("{more}; {cores}, {}", machine.processor)
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
fn conduct<R: Report>(
    options: &ExperimentOptions,
    out: &mut Output<'_>,
    measure: impl FnOnce(&Bed, &mut Output<'_>) -> Result<R, BenchError>,
) -> Result<(), BenchError> {
    if options.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds <= 3600.0)) {
        return Err(BenchError::Option { name: "--seconds", must_be: "above 0 and at most 3600" });
    }
    let began = clock::now();
    let bed = Bed::make(options)?;
    let mut report = measure(&bed, out)?;
    out.end_progress()?;
    complete(&mut report.head_mut().circumstances, began);
    write_json(&report, &options.report, out)?;
    if let Some(folder) = &options.svg_dir {
        write_charts(&report, folder)?;
    }
    if !options.report.json {
        write_tables(&report, out)?;
    }
    judge(&report.head().aims)
}

/// Says which aims were missed, once all has been reported.
pub(crate) fn judge<'a>(aims: impl IntoIterator<Item = &'a Aim>) -> Result<(), BenchError> {
    let (mut judged, mut missed) = (0, Vec::new());
    for Aim { aim, found, met } in aims {
        judged += usize::from(met.is_some());
        if *met == Some(false) {
            missed.push(format!("\n  {aim}: found {found}"));
        }
    }
    if missed.is_empty() {
        return Ok(());
    }
    Err(BenchError::NotShown { found: format!("{} of {judged} aims missed:{}", missed.len(), missed.concat()) })
}

fn complete(circumstances: &mut Circumstances, began: u64) {
    circumstances.machine.note_stolen();
    circumstances.seconds = (clock::seconds(clock::now() - began) * 10.0).round() / 10.0;
}

fn write_charts(report: &impl Report, folder: &Path) -> Result<(), BenchError> {
    fs::create_dir_all(folder).map_err(BenchError::io("making the folder of --svg-dir"))?;
    for (name, svg) in report.charts() {
        fs::write(folder.join(format!("{name}.svg")), svg).map_err(BenchError::io("writing a chart"))?;
    }
    Ok(())
}

fn write_tables(report: &impl Report, out: &mut Output<'_>) -> Result<(), BenchError> {
    for (title, table) in report.tables() {
        writeln!(out, "{title}")?;
        table.write(out)?;
        writeln!(out)?;
    }
    let mut table = Table::new(["aim", "found", "met"]);
    for Aim { aim, found, met } in &report.head().aims {
        table.row([aim.as_str().into(), found.as_str().into(), Cell::Text(verdict(*met).to_owned())]);
    }
    table.write(out)?;
    let circumstances = &report.head().circumstances;
    circumstances.real_time.write_remarks(out)?;
    circumstances.machine.write_remarks(out)?;
    Ok(())
}

pub(crate) const fn verdict(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "yes",
        Some(false) => "no",
        None => "–",
    }
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
