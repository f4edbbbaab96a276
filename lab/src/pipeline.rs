//! `campanile-bench pipeline`: a correlator pipeline, alone and beside the monitor system.
//!
//! The workload of CARMA memorandum 22, section 4.2: sixteen suppliers that each push 13 KB twice a second, first with
//! the service to themselves, then while the monitor system's fifty suppliers use it too, on a channel of their own.

use std::io::Write;

use serde::Serialize;

use crate::campanile::Campanile;
use crate::output::write_json;
use crate::workload::{self, Carrier, Lasting, PLAIN_SOCKETS_ARE, RunReport, Traffic};
use crate::{BenchError, Machine, Output, PipelineOptions};

/// The whole report: the one JSON object.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// Always `pipeline`.
    pub(crate) benchmark: &'static str,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// What plain sockets are here, in a sentence.
    pub(crate) plain_sockets_are: &'static str,
    /// The pipeline alone, then beside the monitor system; under Campanile and over plain sockets.
    pub(crate) runs: Vec<RunReport>,
}

/// Runs the benchmark and writes its report to `out`.
pub(crate) fn run(options: &PipelineOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let lasting = Lasting::of_seconds(options.duration)?;
    options.carriage.check()?;
    let mut report = Report {
        benchmark: "pipeline",
        machine: Machine::describe(),
        plain_sockets_are: PLAIN_SOCKETS_ARE,
        runs: Vec::new(),
    };
    let alone = vec![pipeline(options)];
    let beside = vec![pipeline(options), monitor()];
    for traffics in [alone, beside] {
        let case = if traffics.len() == 1 { "pipeline alone" } else { "pipeline beside the monitor system" };
        out.progress(&format!("{case}: Campanile"))?;
        let service = Campanile::start()?;
        report.runs.push(workload::run(
            &Carrier::Campanile(&service, options.carriage),
            &traffics,
            lasting,
            workload::wait_out,
        )?);
        drop(service);
        if !options.no_sockets {
            out.progress(&format!("{case}: plain sockets"))?;
            report.runs.push(workload::run(&Carrier::Sockets, &traffics, lasting, workload::wait_out)?);
        }
    }
    report.machine.note_stolen();
    out.end_progress()?;
    write_json(&report, &options.report, out)?;
    if !options.report.json {
        workload::write_table(&report.runs, out)?;
        workload::write_losses(&report.runs, out)?;
        writeln!(out, "\nTogether: one service carries both, each on a channel of its own; its CPU is that of both.")?;
        if !options.no_sockets {
            writeln!(out, "Plain sockets: {PLAIN_SOCKETS_ARE}.")?;
        }
        report.machine.write_remarks(out)?;
    }
    Ok(())
}

fn pipeline(options: &PipelineOptions) -> Traffic {
    Traffic {
        name: "pipeline",
        suppliers: options.suppliers,
        payload_bytes: options.bytes,
        rate: options.rate,
        stagger_ms: options.stagger_ms,
        consumers: options.consumers,
    }
}

/// The monitor system as the memorandum has it.
fn monitor() -> Traffic {
    Traffic { name: "monitor", suppliers: 50, payload_bytes: 34 * 1024, rate: 2.0, stagger_ms: 5.0, consumers: 1 }
}
