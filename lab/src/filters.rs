//! `campanile-bench filters`: what filters cost.
//!
//! Two questions. How fast is the language: a short, a typical and a long constraint against one event's bytes, beside the
//! same condition written in Rust over the same bytes. And what do many filters cost: one, a hundred and ten thousand
//! consumers, each with a filter of its own, of which one matches.

mod consumers;
mod language;

use std::io::Write;

use serde::Serialize;

pub(crate) use consumers::ConsumersReport;
pub(crate) use language::LanguageReport;

use crate::output::write_json;
use crate::table::Table;
use crate::{BenchError, FiltersOptions, Machine, Output};

/// How often and how long each is measured.
#[derive(Debug, Clone, Copy)]
struct Pace {
    rounds: u32,
    turn_ns: u64,
}

/// The whole report: the one JSON object.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// Always `filters`.
    pub(crate) benchmark: &'static str,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// Rounds; each figure is the median of its rounds'.
    pub(crate) rounds: u32,
    /// The language beside Rust.
    pub(crate) language: Vec<LanguageReport>,
    /// Many filters.
    pub(crate) consumers: Vec<ConsumersReport>,
    /// An event's cost at 10,000 consumers over that at 100, where all events go to the same consumer.
    pub(crate) cost_at_10000_over_100: f64,
    /// The same where each event goes to another consumer.
    pub(crate) spread_cost_at_10000_over_100: f64,
}

/// Runs the benchmark and writes its report to `out`.
pub(crate) fn run(options: &FiltersOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let pace =
        if options.quick { Pace { rounds: 3, turn_ns: 50_000_000 } } else { Pace { rounds: 11, turn_ns: 200_000_000 } };
    let mut machine = Machine::describe();
    out.progress("filters: the language")?;
    let language = language::run(pace)?;
    out.progress("filters: many consumers")?;
    let consumers = consumers::run(pace)?;
    machine.note_stolen();
    let at = |count| consumers.iter().find(move |report| report.consumers == count);
    let ratio = |cost: fn(&ConsumersReport) -> f64| at(10_000).map_or(f64::NAN, cost) / at(100).map_or(f64::NAN, cost);
    let report = Report {
        benchmark: "filters",
        machine,
        rounds: pace.rounds,
        cost_at_10000_over_100: ratio(|report| report.event_ns),
        spread_cost_at_10000_over_100: ratio(|report| report.spread_event_ns),
        language,
        consumers,
    };
    out.end_progress()?;
    write_json(&report, &options.report, out)?;
    if !options.report.json {
        write_tables(&report, out)?;
        report.machine.write_remarks(out)?;
    }
    Ok(())
}

fn write_tables(report: &Report, out: &mut Output<'_>) -> Result<(), BenchError> {
    let mut table = Table::new(["constraint", "ns", "in Rust ns", "ratio", "million/s", "million/s and core"]);
    for one in &report.language {
        table.row([
            one.name.into(),
            one.evaluation_ns.into(),
            one.floor_ns.into(),
            one.ratio.into(),
            (one.evaluations_per_second / 1e6).into(),
            (one.evaluations_per_second_and_core / 1e6).into(),
        ]);
    }
    table.write(out)?;
    writeln!(out)?;
    let headings = ["consumers with a filter each", "match", "same ns", "spread ns", "constraints evaluated"];
    let mut table = Table::new(headings);
    for one in &report.consumers {
        table.row([
            u64::from(one.consumers).into(),
            u64::from(one.destinations).into(),
            one.event_ns.into(),
            one.spread_event_ns.into(),
            one.evaluations_per_event.into(),
        ]);
    }
    table.write(out)?;
    let (same, spread) = (report.cost_at_10000_over_100, report.spread_cost_at_10000_over_100);
    writeln!(out, "\nAn event costs {same:.2} times as much at 10,000 as at 100 where all go to the same consumer,")?;
    writeln!(out, "{spread:.2} times where each goes to another.")?;
    Ok(())
}

/// The middle one; of an even number the upper of the two.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
