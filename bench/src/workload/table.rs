//! The runs of a benchmark as a table.

use std::io;

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
