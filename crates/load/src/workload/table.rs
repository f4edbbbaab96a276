//! The runs of a benchmark as a table.

use std::io::{self, Write};

use super::RunReport;
use crate::table::Table;
use crate::{Form, Output};

/// Writes a row for each traffic of each run.
pub fn write(runs: &[RunReport], out: &mut Output<'_>) -> io::Result<()> {
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
                contender(run).into(),
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

/// The carrier of the events, with deviations from structured events, pushed.
fn contender(run: &RunReport) -> String {
    let form = match run.form {
        Form::Any => " any",
        Form::Structured => "",
        Form::Sequence => " sequence",
    };
    format!("{}{form}{}", run.contender, if run.pull { " pulled" } else { "" })
}

/// Writes the losses of each run with the service's explanation.
pub fn write_losses(runs: &[RunReport], out: &mut Output<'_>) -> io::Result<()> {
    for run in runs {
        if let Some(text) = explain(run) {
            writeln!(out, "\n{text}")?;
        }
    }
    Ok(())
}

/// The losses of a run, and their reason; `None` without losses.
fn explain(run: &RunReport) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Losses, Traffic, TrafficReport};
    use std::collections::BTreeMap;

    fn run(lost: u64, drops: &[(&str, u64)]) -> RunReport {
        let traffic =
            Traffic { name: "monitor", suppliers: 1, payload_bytes: 64, rate: 1.0, stagger_ms: 0.0, consumers: 1 };
        let losses = Losses { sent: 10, received: 10 - lost, lost, ..Losses::default() };
        let report = TrafficReport {
            traffic,
            consumer_cpu_percent: 0.0,
            latency: None,
            latency_from_schedule: None,
            late_pushes: 0,
            losses,
        };
        RunReport {
            contender: "Campanile",
            form: Form::Any,
            pull: true,
            timeout: Some(1.0),
            push_window: None,
            seconds: 1.0,
            service_cpu_percent: None,
            service_resident_bytes: None,
            service_drops: drops.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect::<BTreeMap<_, _>>(),
            suppliers_cpu_percent: 0.0,
            traffics: vec![report],
        }
    }

    #[test]
    fn losses_are_reported_with_the_reasons_of_the_service() {
        assert_eq!(explain(&run(0, &[])), None);
        let told = explain(&run(5, &[("lane_dropped_expired", 3), ("lane_dropped_outbox_full", 1)])).unwrap();
        let expected = "Lost of monitor under Campanile: 5. The service dropped 3: expired. The service dropped 1: outbox \
                        full. Not explained: 1.";
        assert_eq!(told, expected);
        assert_eq!(contender(&run(0, &[])), "Campanile any pulled");
    }
}
