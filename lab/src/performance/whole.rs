//! `campanile-bench performance`: everything, and where it is written to.

use std::io::Write;
use std::path::PathBuf;

use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;

use super::aims::{self, Found, Growth};
use super::cells::Cell;
use super::contender::{self, Contender};
use super::experiments::Bench;
use super::page;
use super::race::Missing;
use crate::output::{today, write_json, write_result};
use crate::report::Aim;
use crate::{BenchError, Machine, Output, PerformanceOptions, clock, memory};

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// Always `performance`.
    pub(crate) benchmark: &'static str,
    /// The day it was run.
    pub(crate) date: String,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// Whether it was run with `--quick`.
    pub(crate) quick: bool,
    /// How long it took, in seconds.
    pub(crate) seconds: f64,
    /// Contenders that took part, and those that did not.
    pub(crate) contenders: Vec<About>,
    /// What was to be shown.
    pub(crate) aims: Vec<Aim>,
    /// How the time to the last consumer grows.
    pub(crate) growth: Vec<Growth>,
    /// What the service keeps for consumers that wait; `null` where it takes no part.
    pub(crate) memory: Option<memory::Found>,
    /// Why that is not there although it was to be.
    pub(crate) memory_missing: Option<String>,
    /// All figures, with every round.
    pub(crate) cells: Vec<Cell>,
}

/// A contender that took part.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct About {
    /// Its name in `cells`.
    pub(crate) key: &'static str,
    /// Its name for people.
    pub(crate) name: &'static str,
    /// What it is and how it is configured.
    pub(crate) about: String,
    /// Why it did not take part.
    pub(crate) missing: Option<String>,
}

/// Runs everything and writes the report to `out`, and to where the options say.
pub(crate) fn run(options: &PerformanceOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    if options.stored {
        return draw_stored(options, out);
    }
    let began = clock::now();
    clock::wake_on_time();
    let all = contender::all();
    let everybody: Vec<&dyn Contender> = all.iter().map(AsRef::as_ref).collect();
    let only = contender::named(&everybody, "--only", &options.only)?;
    let contenders = if only.is_empty() { everybody } else { only };
    let mut machine = Machine::describe();
    let mut bench = Bench {
        contenders: &contenders,
        quick: options.quick,
        rounds: options.rounds.unwrap_or(if options.quick { 1 } else { 3 }),
        cores: cores()?,
        missing: Missing::new(),
        cells: Vec::new(),
    };
    bench.measure(out)?;
    let ours = contenders.iter().any(|contender| contender.key() == "campanile");
    let (memory, memory_missing) = if ours { measure_memory(options.quick, out) } else { (None, None) };
    out.end_progress()?;
    machine.note_stolen();
    let Bench { missing, cells, .. } = bench;
    let report = Report {
        benchmark: "performance",
        date: today(),
        machine,
        quick: options.quick,
        seconds: clock::seconds(clock::now() - began).round(),
        contenders: all.iter().map(|contender| about(contender.as_ref(), &missing, options)).collect(),
        aims: Found(&cells).aims().into_iter().chain(aims::of_memory(memory.as_ref())).collect(),
        growth: Found(&cells).growth(),
        memory,
        memory_missing,
        cells,
    };
    write(&report, options, out)
}

/// Draws the charts of the latest report that is stored.
fn draw_stored(options: &PerformanceOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let folder = |given: &Option<PathBuf>, usual: &str| given.clone().unwrap_or_else(|| PathBuf::from(usual));
    let (results, page) = (folder(&options.results, "lab/results"), folder(&options.page, "docs/performance"));
    let Some((_, report)) = crate::report::latest(&results, "performance")? else {
        return Err(BenchError::Option { name: "--results", must_be: "a folder with a report of `performance`" });
    };
    for name in page::draw(&report, &page)? {
        writeln!(out, "{}", page.join(name + ".svg").display())?;
    }
    Ok(())
}

/// What waiting consumers cost. Where that fails, as it does where too few descriptors are allowed, the rest is reported all the same.
fn measure_memory(quick: bool, out: &mut Output<'_>) -> (Option<memory::Found>, Option<String>) {
    let connections = if quick { memory::QUICK_CONNECTIONS } else { memory::CONNECTIONS };
    match memory::measure(connections, memory::PROXIES_EACH, out) {
        Ok(found) => (Some(found), None),
        Err(error) => (None, Some(error.to_string())),
    }
}

fn about(contender: &dyn Contender, missing: &Missing, options: &PerformanceOptions) -> About {
    let key = contender.key();
    let left_out = !options.only.is_empty() && !options.only.iter().any(|only| only == key);
    let missing = missing.get(key).cloned().or_else(|| left_out.then(|| "left out by --only".to_owned()));
    About { key, name: contender.name(), about: contender.about(), missing }
}

/// The first and the last core, if there are two.
pub(super) fn cores() -> Result<Option<(usize, usize)>, BenchError> {
    let allowed = sched_getaffinity(None)
        .map_err(|errno| BenchError::Io { doing: "looking at the cores", source: errno.into() })?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    let first = cores.next();
    Ok(first.zip(cores.next_back()))
}

fn write(report: &Report, options: &PerformanceOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    write_json(report, &options.report, out)?;
    if let Some(folder) = &options.results {
        let path = write_result(report, folder, "performance", &report.date, &report.machine)?;
        if !options.report.json {
            writeln!(out, "{}", path.display())?;
        }
    }
    if let Some(page) = &options.page {
        page::write(report, page)?;
        if !options.report.json {
            writeln!(out, "{}", page.join("tables.md").display())?;
        }
    }
    if !options.report.json {
        for (title, table) in page::tables(report) {
            writeln!(out, "\n{title}")?;
            table.write(out)?;
        }
        report.machine.write_remarks(out)?;
    }
    crate::report::judge(&report.aims)
}
