//! `campanile bench latency`: what a running service makes of events like one's own.

use load::campanile::Service;
use load::output::write_json;
use load::workload::{self, Carrier, Lasting, RunReport, Traffic};
use load::{BenchError, Machine, Output};
use serde::Serialize;

use super::options::LatencyOptions;

/// The whole report: the one JSON object.
#[derive(Debug, Clone, Serialize)]
struct Report {
    /// Always `latency`.
    benchmark: &'static str,
    /// Where suppliers and consumers ran.
    machine: Machine,
    /// The service.
    server: String,
    /// What came of it.
    run: RunReport,
}

/// Runs it and writes its report to `out`.
pub(super) fn run(options: &LatencyOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let lasting = Lasting::of_seconds(options.duration)?;
    options.carriage.check()?;
    let mut machine = Machine::describe();
    let service = Service::find(&options.server)?;
    let traffic = Traffic {
        name: "latency",
        suppliers: options.suppliers,
        payload_bytes: options.bytes,
        rate: options.rate,
        stagger_ms: 0.0,
        consumers: options.consumers,
    };
    out.progress(&format!("events flow through {}", service.address()))?;
    let run = workload::run(&Carrier::Running(&service, options.carriage), &[traffic], lasting, workload::wait_out)?;
    machine.note_stolen();
    out.end_progress()?;
    let report = Report { benchmark: "latency", machine, server: service.address().to_string(), run };
    write_json(&report, &options.report, out)?;
    if !options.report.json {
        workload::write_table(std::slice::from_ref(&report.run), out)?;
        report.machine.write_remarks(out)?;
    }
    let lost: u64 = report.run.traffics.iter().map(|report| report.losses.lost).sum();
    match lost {
        0 => Ok(()),
        _ => Err(BenchError::NotShown { found: format!("{lost} events did not come to every consumer") }),
    }
}
