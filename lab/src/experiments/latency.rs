//! `campanile-bench paths-latency`: how latencies are spread at a load at which the low path has failed (Gore et al., 4.2,
//! figures 11 and 12).

use serde::Serialize;
use serde_json::Value;

use super::rig::{Outcome, Plan};
use super::samples::distribution;
use super::{Bed, Bin, Class, Kind, Pair, Service, quotient, subtitle};
use crate::report::chart::{Axis, Chart, Labels, Mark, Series};
use crate::report::{Aim, Charts, Tables, number, rows, table, text};
use crate::{BenchError, ExperimentOptions, Output, Percentiles};

pub(super) const KIND: Kind = Kind { name: "paths-latency", tables, charts };

/// The load in units: the paper's. Three paths then ask for one and a half cores.
const LOAD: u32 = 25;

/// What the high path's latency is to be at most, as a share of the plain service's.
const MEDIAN_AT_MOST: f64 = 1.0 / 8.0;
const P99_AT_MOST: f64 = 1.0 / 20.0;

/// The report, beside what all of them begin with.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// The load that every event carried, in units.
    pub(crate) load: u32,
    /// Seconds for which events counted.
    pub(crate) window_seconds: f64,
    /// The high path's median latency, real-time / plain.
    pub(crate) high_median_ratio: Option<f64>,
    /// The high path's p99, real-time / plain.
    pub(crate) high_p99_ratio: Option<f64>,
    /// One for each service and path.
    pub(crate) rows: Vec<Row>,
}

/// The latencies of one path.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// How the service and its clients were scheduled.
    pub(crate) service: Service,
    /// Which path.
    pub(crate) path: Class,
    /// Events delivered and processed a second.
    pub(crate) rate: f64,
    /// From the supplier's stamp to the consumer's read; `null` when no event came.
    pub(crate) latency: Option<Percentiles>,
    /// The same from when each event was due: contains its supplier's lateness.
    pub(crate) latency_from_schedule: Option<Percentiles>,
    /// How the latencies are spread.
    pub(crate) distribution: Vec<Bin>,
}

/// Runs it and writes its report to `out`.
pub(crate) fn run(options: &ExperimentOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    super::conduct(&KIND, options, out, |bed, out| measure(bed, options, out))
}

pub(super) fn measure(
    bed: &Bed,
    options: &ExperimentOptions,
    out: &mut Output<'_>,
) -> Result<(Vec<Aim>, Report), BenchError> {
    out.progress("starting both services and their paths")?;
    let mut rigs = Pair::start(bed, &[(Class::High, 1), (Class::Medium, 1), (Class::Low, 1)])?;
    let (warm_up, window) = bed.times(options, (1.0, 10.0), (2.0, 30.0));
    let load = options.loads.first().copied().unwrap_or(LOAD);
    let mut rows = Vec::new();
    for service in Service::ALL {
        out.progress(&format!("load {load}: {}", service.name()))?;
        let outcome = rigs.of(service).run(Plan::at_100_hz(warm_up, window), |_| Some(load))?;
        rows.extend(Class::ALL.map(|class| Row::of(service, class, &outcome)));
    }
    let high = |service, figure: fn(Percentiles) -> f64| {
        let row = rows.iter().find(|row| (row.service, row.path) == (service, Class::High));
        row.and_then(|row| row.latency).map(figure)
    };
    let ratio = |figure| quotient(high(Service::RealTime, figure), high(Service::Plain, figure));
    let (high_median_ratio, high_p99_ratio) = (ratio(|latency| latency.median), ratio(|latency| latency.p99));
    let aims = vec![
        super::at_most(
            "the high path's median latency is at most 1/8 of the plain service's",
            high_median_ratio,
            MEDIAN_AT_MOST,
        ),
        super::at_most("the high path's p99 is at most 1/20 of the plain service's", high_p99_ratio, P99_AT_MOST),
    ];
    Ok((aims, Report { load, window_seconds: window, high_median_ratio, high_p99_ratio, rows }))
}

impl Row {
    fn of(service: Service, path: Class, outcome: &Outcome) -> Self {
        Self {
            service,
            path,
            rate: outcome.rate(path),
            latency: outcome.latency(path),
            latency_from_schedule: outcome.latency_from_schedule(path),
            distribution: distribution(&outcome.latencies(path)),
        }
    }
}

/// The distribution of a path's latencies as steps; the last ends where the last bar does.
fn steps(row: &Value) -> Series {
    let bars = rows(row, "distribution");
    let mut points: Vec<(f64, f64)> =
        bars.iter().filter_map(|bar| number(bar, "from_us").zip(number(bar, "percent"))).collect();
    let width = 10_f64.powf(1.0 / f64::from(super::samples::BINS_A_DECADE));
    points.extend(points.last().map(|(from, _)| (from * width, 0.0)));
    let path = text(row, "path");
    let nothing = if points.is_empty() { " (no events)" } else { "" };
    let colour = Class::ALL.into_iter().find(|class| class.name() == path).map_or(0, Class::colour);
    Series { name: format!("{path} priority{nothing}"), points, mark: Mark::Steps, colour }
}

fn tables(report: &Value) -> Tables {
    let columns = [
        ("service", "service"),
        ("path", "path"),
        ("events/s", "rate"),
        ("median µs", "latency.median_us"),
        ("p99 µs", "latency.p99_us"),
        ("p99.9 µs", "latency.p999_us"),
        ("max µs", "latency.max_us"),
        ("standard deviation µs", "latency.standard_deviation_us"),
        ("median from schedule µs", "latency_from_schedule.median_us"),
        ("p99 from schedule µs", "latency_from_schedule.p99_us"),
    ];
    let [load, seconds] = ["load", "window_seconds"].map(|name| number(report, name).unwrap_or(0.0));
    let title = format!("Latencies of three paths of 100 events/s at load {load}, over {seconds} s");
    vec![(title, table(rows(report, "rows"), &columns))]
}

fn charts(report: &Value) -> Charts {
    let load = number(report, "load").unwrap_or(0.0);
    let chart = |service: Service, title: &str| {
        Chart {
            title: title.to_owned(),
            subtitle: subtitle(report, &format!("three paths, each 100 events/s of load {load}")),
            x: Axis::logarithmic("latency from supplier to consumer", Labels::Microseconds),
            y: Axis::from_zero("share of the path's events, %"),
            series: rows(report, "rows")
                .iter()
                .filter(|row| text(row, "service") == service.name())
                .map(steps)
                .collect(),
        }
        .to_svg()
    };
    vec![
        ("paths-latency-plain".to_owned(), chart(Service::Plain, "Plain service: latency")),
        ("paths-latency-real-time".to_owned(), chart(Service::RealTime, "Real-time service: latency")),
    ]
}
