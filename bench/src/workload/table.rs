//! The runs of a benchmark as a table.

use std::io::{self, Write};

use super::RunReport;
use crate::Output;
use crate::table::Table;

/// Writes a row for each traffic of each run.
pub(crate) fn write(runs: &[RunReport], out: &mut Output<'_>) -> io::Result<()> {
    let mut table = Table::new([
        "traffic",
        "contender",
        "suppliers",
        "bytes",
        "stagger ms",
        "consumers",
        "consumer CPU %",
        "service CPU %",
        "suppliers CPU %",
        "min µs",
        "median µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "events",
        "lost",
    ]);
    for run in runs {
        let together = run.traffics.len() > 1;
        for report in &run.traffics {
            let traffic = &report.traffic;
            let name = if together { format!("{} (together)", traffic.name) } else { traffic.name.to_owned() };
            let latency = report.latency;
            table.row([
                name.into(),
                run.contender.into(),
                u64::from(traffic.suppliers).into(),
                u64::from(traffic.payload_bytes).into(),
                traffic.stagger_ms.into(),
                u64::from(traffic.consumers).into(),
                report.consumer_cpu_percent.into(),
                run.service_cpu_percent.into(),
                run.suppliers_cpu_percent.into(),
                latency.map(|latency| latency.min).into(),
                latency.map(|latency| latency.median).into(),
                latency.map(|latency| latency.p99).into(),
                latency.map(|latency| latency.p999).into(),
                latency.map(|latency| latency.max).into(),
                report.losses.sent.into(),
                report.losses.lost.into(),
            ]);
        }
    }
    table.write(out)
}

/// Says of each run in which something was lost what the service says about it.
pub(crate) fn write_losses(runs: &[RunReport], out: &mut Output<'_>) -> io::Result<()> {
    for run in runs {
        if let Some(text) = explain(run) {
            writeln!(out, "\n{text}")?;
        }
    }
    Ok(())
}

/// What was lost in a run, and why; `None` if nothing was.
pub(crate) fn explain(run: &RunReport) -> Option<String> {
    let lost: u64 = run.traffics.iter().map(|report| report.losses.lost).sum();
    if lost == 0 && run.service_drops.is_empty() {
        return None;
    }
    let names: Vec<&str> = run.traffics.iter().map(|report| report.traffic.name).collect();
    let mut text = format!("Lost of {} under {}: {lost}.", names.join(" and "), run.contender);
    let mut explained = 0;
    for (name, count) in &run.service_drops {
        text.push_str(&match name.strip_prefix("lane_dropped_") {
            Some(reason) => format!(" The service dropped {count}: {}.", reason.replace('_', " ")),
            None => format!(" The service refused {count} to their suppliers."),
        });
        explained += count;
    }
    if lost > explained {
        text.push_str(&format!(" Not explained: {}.", lost - explained));
    }
    Some(text)
}
