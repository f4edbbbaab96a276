//! `campanile bench monitor`: a telescope's monitor system.
//!
//! The workload of CARMA memorandum 22, sections 4.1 and 4.4: many suppliers that each push a frame of monitor points
//! twice a second to one consumer, or to a few. The same traffic is run over plain sockets beside it, with no process
//! in the middle and no replies, which is the least that carrying these bytes can cost.

use std::io::Write;

use serde::Serialize;

use load::campanile::Campanile;
use load::output::write_json;
use load::workload::{self, Carrier, Lasting, PLAIN_SOCKETS_ARE, RunReport, Traffic};
use load::{BenchError, Machine, Output};

use super::options::MonitorOptions;

/// The memorandum's payloads in octets.
const LARGE: u32 = 34 * 1024;
const SMALL: u32 = 23 * 1024;

/// The whole report: the one JSON object.
#[derive(Debug, Clone, Serialize)]
struct Report {
    /// Always `monitor`.
    benchmark: &'static str,
    /// Machine on which it ran.
    machine: Machine,
    /// Description of the plain sockets, in a sentence.
    plain_sockets_are: &'static str,
    /// Every case, under Campanile and over plain sockets.
    runs: Vec<RunReport>,
}

/// Runs the benchmark and writes its report to `out`.
pub(super) fn run(options: &MonitorOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let lasting = Lasting::of_seconds(options.duration)?;
    options.carriage.check()?;
    let mut report = Report {
        benchmark: "monitor",
        machine: Machine::describe(),
        plain_sockets_are: PLAIN_SOCKETS_ARE,
        runs: Vec::new(),
    };
    for traffic in cases(options) {
        let Traffic { suppliers, payload_bytes, stagger_ms, consumers, .. } = traffic;
        let case = format!(
            "{suppliers} × {payload_bytes} B, stagger {stagger_ms} ms, {}",
            load::table::counted(consumers, "consumer")
        );
        out.progress(&format!("{case}: Campanile"))?;
        let traffics = [traffic];
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
        if !options.no_sockets {
            writeln!(out, "\nPlain sockets: {PLAIN_SOCKETS_ARE}.")?;
        }
        report.machine.write_warnings(out)?;
    }
    Ok(())
}

fn traffic(options: &MonitorOptions) -> Traffic {
    Traffic {
        name: "monitor",
        suppliers: options.suppliers,
        payload_bytes: options.bytes,
        rate: options.rate,
        stagger_ms: options.stagger_ms,
        consumers: options.consumers,
    }
}

/// Cases to run: the one of the options, or those of the memorandum's tables 1 to 3.
fn cases(options: &MonitorOptions) -> Vec<Traffic> {
    let usual = traffic(options);
    if !options.paper {
        return vec![usual];
    }
    [(5.0, 1, LARGE), (0.0, 1, LARGE), (5.0, 2, LARGE), (5.0, 3, LARGE), (5.0, 1, SMALL)]
        .map(|(stagger_ms, consumers, payload_bytes)| Traffic { stagger_ms, consumers, payload_bytes, ..usual.clone() })
        .into()
}
