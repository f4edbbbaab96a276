//! `campanile-bench tempo-rates`: the delay through a broker as the rate is raised step by step until it is not reached any more, with what
//! the broker uses of its core and of memory (figure 10).

use serde::Serialize;
use serde_json::Value;

use super::ends::{Transport, Way};
use super::{Broker, after, pair, take_seat};
use crate::experiments::{Bed, Kind, subtitle};
use crate::report::chart::{Axis, Chart, Labels};
use crate::report::{Aim, Charts, Tables, line, rows, table};
use crate::{BenchError, ExperimentOptions, Output, clock};

const KIND: Kind = Kind { name: "tempo-rates", tables, charts };

/// The first rate, in messages a second, and by what each next one is larger.
const FIRST: f64 = 1_000.0;
const STEP: f64 = 1.5;
/// Rates beyond this are not tried.
const LAST: f64 = 10_000_000.0;
/// A rate is reached when this part of it arrives.
const REACHED: f64 = 0.95;

/// The report, beside what all of them begin with.
#[derive(Debug, Serialize)]
struct Report {
    /// One for each rate and transport.
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    transport: &'static str,
    /// Messages a second that were to be sent.
    rate: f64,
    /// Those that arrived.
    received: f64,
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    /// What part of a core the broker used.
    cpu: f64,
    /// Mebibytes of memory that it had.
    resident_mib: f64,
}

/// Runs it and writes its report to `out`.
pub(crate) fn run(options: &ExperimentOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    crate::experiments::conduct(&KIND, options, out, |bed, out| measure(bed, options, out))
}

fn measure(bed: &Bed, options: &ExperimentOptions, out: &mut Output<'_>) -> Result<(Vec<Aim>, Report), BenchError> {
    let (_, seconds) = bed.times(options, (0.0, 0.3), (0.0, 3.0));
    take_seat(bed)?;
    let mut report = Report { rows: Vec::new() };
    for transport in Transport::ALL {
        let broker = Broker::start(bed)?;
        let mut pair = pair(bed, Way::Broker, transport, &broker, 0)?;
        let mut rate = FIRST;
        loop {
            out.progress(&format!("{}: {rate:.0} messages/s", transport.name()))?;
            // A hundredth of a millisecond's worth is sent with a call, as any program with so many would.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 1 to 64")]
            let at_once = (rate / 20_000.0).clamp(1.0, 64.0) as usize;
            let (cpu, before, from) = (broker.service.process().cpu()?, pair.intake.received(), clock::now());
            pair.pour(rate, at_once, after(seconds))?;
            let took = clock::seconds(clock::now() - from);
            let received = crate::latency::ratio(pair.intake.received() - before, 1) / took;
            let used = clock::seconds(broker.service.process().cpu()? - cpu) / took;
            pair.settle()?;
            let recorder = pair.intake.take_latency();
            let Some(figures) = recorder.percentiles() else { break };
            report.rows.push(Row {
                transport: transport.name(),
                rate,
                received,
                mean_us: super::mean_us(&recorder),
                p50_us: figures.median,
                p99_us: figures.p99,
                max_us: figures.max,
                cpu: used,
                resident_mib: crate::latency::ratio(broker.service.process().resident_bytes()?, 1 << 20),
            });
            if received < rate * REACHED || rate > LAST {
                break;
            }
            rate *= STEP;
        }
    }
    Ok((Vec::new(), report))
}

fn tables(report: &Value) -> Tables {
    let columns = [
        ("transport", "transport"),
        ("messages/s", "rate"),
        ("arrived/s", "received"),
        ("mean µs", "mean_us"),
        ("median µs", "p50_us"),
        ("p99 µs", "p99_us"),
        ("longest µs", "max_us"),
        ("of a core", "cpu"),
        ("memory MiB", "resident_mib"),
    ];
    vec![("Through a broker, messages of 128 octets".to_owned(), table(rows(report, "rows"), &columns))]
}

fn charts(report: &Value) -> Charts {
    let mut series = Vec::new();
    for (transport, colours) in Transport::ALL.into_iter().zip([[0, 6], [2, 1]]) {
        for ((what, figure), colour) in [("median", "p50_us"), ("p99", "p99_us")].into_iter().zip(colours) {
            let name = format!("{}: {what}", transport.name());
            series.push(line(&name, rows(report, "rows"), ("transport", transport.name()), ("rate", figure), colour));
        }
    }
    let chart = Chart {
        title: "Delay through a broker as the rate is raised".to_owned(),
        subtitle: subtitle(report, "128 octets, one publisher and one subscriber"),
        x: Axis::logarithmic("messages a second", Labels::Numbers),
        y: Axis::logarithmic("delay", Labels::Microseconds),
        series,
    };
    vec![("tempo-rates".to_owned(), chart.to_svg())]
}
