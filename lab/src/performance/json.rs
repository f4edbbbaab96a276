//! `campanile-bench json`: what one event takes by the door for lines of JSON, beside CORBA's.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cells::{Cell, Ratio};
use super::contender::{CampanileContender, Contender, JsonDoor, Scenario};
use super::experiments::{NOBODY, latencies, plan};
use super::pool::Kept;
use super::race::{Missing, Race};
use super::whole::cores;
use crate::output::write_json;
use crate::report::{Aim, judge, table_of_aims};
use crate::table::Table;
use crate::{BenchError, Machine, Output, ReportOptions, clock};

pub(crate) const EXAMPLES: &str = "\
Examples:
  campanile-bench json                            a minute
  campanile-bench json --quick                    some seconds
  campanile-bench json --rate 1000 --rounds 40
  campanile-bench json --json | jq .ratios

Exit status 0 if the median latency is at most 1.5 times that by CORBA's door;
1 if not.";

/// What the median latency may be, as a multiple of that by CORBA's door.
const P50_AT_MOST: f64 = 1.5;
/// Octets of payload of an event.
const PAYLOAD: u32 = 128;

/// Options of `campanile-bench json`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct JsonOptions {
    /// Fewer and shorter rounds
    #[arg(long)]
    quick: bool,
    /// Rounds; in each, either door has its turn [default: 20, with --quick 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Events a second
    #[arg(long, value_name = "HZ", default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    #[command(flatten)]
    report: ReportOptions,
}

/// The whole report: the one JSON object.
#[derive(Debug, Serialize)]
struct Report {
    /// Always `json`.
    benchmark: &'static str,
    machine: Machine,
    aims: Vec<Aim>,
    /// By the door for lines of JSON, divided by CORBA's: `latency_p50` and `latency_p99` from when events were sent, and
    /// `cpu_per_event` of the service.
    ratios: BTreeMap<&'static str, Option<f64>>,
    /// One for each door, with every round.
    rows: Vec<Cell>,
}

/// Runs it and writes its report to `out`.
pub(crate) fn run(options: &JsonOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    clock::wake_on_time();
    let cores = cores()?;
    let mut machine = Machine::describe();
    let race = Race {
        experiment: "latency",
        quick: options.quick,
        contenders: vec![&CampanileContender as &dyn Contender, &JsonDoor],
        scenario: Scenario {
            ends_core: cores.map(|cores| cores.0),
            server_core: cores.map(|cores| cores.1),
            ..Scenario::one_to_one(PAYLOAD)
        },
        rounds: options.rounds.unwrap_or(if options.quick { 6 } else { 20 }),
        judged: NOBODY,
        warm_up: plan(0.0, 0.0, if options.quick { 0.1 } else { 0.5 }),
        pooled: Some(Kept::ButTheWorst),
        at_once: false,
        plans: vec![plan(f64::from(options.rate), 0.1, if options.quick { 0.4 } else { 1.0 })],
        figures: latencies,
        system_calls: None,
    };
    let rows = race.run(&mut Missing::new(), out)?;
    out.end_progress()?;
    machine.note_stolen();
    if let Some((cell, note)) = rows.iter().find_map(|cell| Some((cell, cell.note.clone()?))) {
        return Err(BenchError::Process { name: cell.contender.to_owned(), reason: format!("failed: {note}") });
    }
    let [giop, json] = rows.as_slice() else {
        return Err(BenchError::NotShown { found: "one of the doors took no part".to_owned() });
    };
    let ratio = |figure| Ratio::of(Some(json), Some(giop), figure);
    let p50 = ratio("sent_p50_us");
    let aims = vec![Aim {
        aim: format!("p50 by lines of JSON at most {P50_AT_MOST} × that by CORBA's door"),
        found: p50.map_or_else(|| "–".to_owned(), |ratio| format!("{:.2} ({ratio})", ratio.value)),
        met: p50.map(|ratio| ratio.value <= P50_AT_MOST),
    }];
    let figures =
        [("latency_p50", "sent_p50_us"), ("latency_p99", "sent_p99_us"), ("cpu_per_event", "cpu_us_per_event")];
    let ratios = figures.into_iter().map(|(name, figure)| (name, ratio(figure).map(|ratio| ratio.value))).collect();
    let report = Report { benchmark: "json", machine, aims, ratios, rows };
    write_json(&report, &options.report, out)?;
    if !options.report.json {
        let columns = ["sent_p50_us", "sent_p99_us", "sent_p999_us", "cpu_us_per_event", "lost"];
        let mut table = Table::new(["door", "p50 µs", "p99 µs", "p99.9 µs", "CPU µs/event", "lost"]);
        for (name, cell) in ["CORBA", "lines of JSON"].into_iter().zip(&report.rows) {
            table.row([name.into()].into_iter().chain(columns.map(|figure| cell.figure(figure).into())));
        }
        table.write(out)?;
        table_of_aims(&report.aims).write(out)?;
        report.machine.write_remarks(out)?;
    }
    judge(&report.aims)
}
