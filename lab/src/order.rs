//! `campanile-bench order`: that a supplier's events stay in order and none is lost, with default settings, at full speed.
//!
//! Suppliers push numbered events back to back, each as soon as its push before has returned; consumers read as fast as
//! they can. Every consumer must get every supplier's events, each once and in the order in which they were pushed. No
//! figure here is a measurement: the rate is shown so that a reader sees that it was not a trickle.

use std::io::Write;

use serde::Serialize;

use crate::campanile::Campanile;
use crate::latency::ratio;
use crate::output::write_json;
use crate::workload::{self, Carrier, Lasting, RunReport, Traffic};
use crate::{BenchError, Machine, OrderOptions, Output};

/// Events of each supplier.
const EVENTS: u64 = 100_000;
const EVENTS_QUICK: u64 = 5_000;

/// Events are due faster than any service takes them: each leaves when the push before has returned.
const RATE: f64 = 100_000.0;

/// The whole report: the one JSON object.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// Always `order`.
    pub(crate) benchmark: &'static str,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// Events that each supplier was to push.
    pub(crate) events_per_supplier: u64,
    /// Whether every consumer got every supplier's events, each once and in the order in which they were pushed.
    pub(crate) complete_and_in_order: bool,
    /// Events received per second, over all consumers.
    pub(crate) deliveries_per_second: f64,
    /// What happened. The rate of its traffic is a schedule that is never kept; `late_pushes` says nothing here.
    pub(crate) run: RunReport,
}

/// Runs it and writes its report to `out`.
pub(crate) fn run(options: &OrderOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    options.carriage.check()?;
    let events = options.events.unwrap_or(if options.quick { EVENTS_QUICK } else { EVENTS });
    let traffic = Traffic {
        name: "order",
        suppliers: options.suppliers,
        payload_bytes: options.bytes,
        rate: RATE,
        stagger_ms: 0.0,
        consumers: options.consumers,
    };
    let sent = events.saturating_mul(u64::from(options.suppliers));
    let wanted = sent.saturating_mul(u64::from(options.consumers));
    let mut machine = Machine::describe();
    let service = Campanile::start()?;
    let carrier = Carrier::Campanile(&service, options.carriage);
    let run = workload::run(&carrier, std::slice::from_ref(&traffic), Lasting::events(events), |view| {
        workload::wait_for_all(view, sent, |received| {
            Ok(out.progress(&format!("{:.0} % of {wanted} deliveries", 100.0 * ratio(received, wanted)))?)
        })
    })?;
    machine.note_stolen();
    out.end_progress()?;
    let report = judge(machine, events, wanted, run);
    write_json(&report, &options.report, out)?;
    if !options.report.json {
        write_text(&report, out)?;
    }
    if report.complete_and_in_order { Ok(()) } else { Err(BenchError::NotShown { found: verdict(&report) }) }
}

fn judge(machine: Machine, events: u64, wanted: u64, run: RunReport) -> Report {
    let losses = run.traffics.first().map(|report| report.losses).unwrap_or_default();
    let complete = losses.sent == wanted && losses.received == wanted && losses.lost == 0;
    Report {
        benchmark: "order",
        machine,
        events_per_supplier: events,
        complete_and_in_order: complete && losses.repeated == 0 && losses.out_of_order == 0,
        #[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^53")]
        deliveries_per_second: losses.received as f64 / run.seconds,
        run,
    }
}

fn verdict(report: &Report) -> String {
    let losses = report.run.traffics.first().map(|report| report.losses).unwrap_or_default();
    format!(
        "{} events to {} consumers of {} suppliers: {} lost, {} repeated, {} out of order",
        losses.sent,
        report.run.traffics.first().map_or(0, |report| report.traffic.consumers),
        report.run.traffics.first().map_or(0, |report| report.traffic.suppliers),
        losses.lost,
        losses.repeated,
        losses.out_of_order
    )
}

fn write_text(report: &Report, out: &mut Output<'_>) -> Result<(), BenchError> {
    writeln!(
        out,
        "{} in {:.1} s ({:.0} deliveries/s)",
        verdict(report),
        report.run.seconds,
        report.deliveries_per_second
    )?;
    workload::write_losses(std::slice::from_ref(&report.run), out)?;
    if report.complete_and_in_order {
        writeln!(out, "Every consumer got every supplier's events, each once and in order.")?;
    }
    Ok(())
}
