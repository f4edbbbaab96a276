//! `campanile-bench paths-number`: the high path beside ever more low ones (Gore et al., 4.3, figure 14).

use serde::Serialize;
use serde_json::Value;

use super::rig::{Plan, Rig};
use super::{Bed, Class, Kind, Service, subtitle};
use crate::report::chart::{Axis, Chart, Labels};
use crate::report::{Aim, Charts, Tables, line, number, rows, table};
use crate::{BenchError, ExperimentOptions, Output, Percentiles};

pub(super) const KIND: Kind = Kind { name: "paths-number", tables, charts };

/// The load in units: the paper's. The high path alone then takes three fifths of a core.
const LOAD: u32 = 30;

/// Low paths: the paper's 1 to 20, and beyond.
const LOW_PATHS: [usize; 6] = [1, 5, 10, 20, 50, 100];

/// Events a second of a path that keeps up, and how near a rate must be to count as that.
const RATE: f64 = 100.0;
const RATE_TOLERANCE: f64 = 0.1;

/// The report, beside what all of them begin with.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// The load that every event carried, in units.
    pub(crate) load: u32,
    /// Seconds for which events counted in each run.
    pub(crate) window_seconds: f64,
    /// One for each number of low paths and service.
    pub(crate) rows: Vec<Row>,
}

/// What happened beside so many low paths.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// How the service and its clients were scheduled.
    pub(crate) service: Service,
    /// How many low paths there were, each with 100 events a second.
    pub(crate) low_paths: usize,
    /// Events delivered and processed a second on the high path.
    pub(crate) high_rate: f64,
    /// The same on the medium path.
    pub(crate) medium_rate: f64,
    /// The same on all low paths together.
    pub(crate) low_rate_sum: f64,
    /// From the supplier's stamp to the consumer's read, on the high path.
    pub(crate) high_latency: Option<Percentiles>,
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
    let (warm_up, window) = bed.times(options, (0.3, 1.0), (1.0, 5.0));
    let load = options.loads.first().copied().unwrap_or(LOAD);
    let mut rows = Vec::new();
    for low_paths in LOW_PATHS {
        for service in Service::ALL {
            out.progress(&format!("{low_paths} low paths: {}", service.name()))?;
            let paths = [(Class::High, 1), (Class::Medium, 1), (Class::Low, low_paths)];
            let divisions = bed.circumstances.divisions_per_unit;
            let mut rig = Rig::start(service, &paths, bed.cores, bed.real_time(), divisions)?;
            let outcome = rig.run(Plan::at_100_hz(warm_up, window), |_| Some(load))?;
            rows.push(Row {
                service,
                low_paths,
                high_rate: outcome.rate(Class::High),
                medium_rate: outcome.rate(Class::Medium),
                low_rate_sum: outcome.rate(Class::Low) * super::samples::whole(low_paths),
                high_latency: outcome.latency(Class::High),
            });
        }
    }
    Ok((vec![keeps_its_rate(&rows)], Report { load, window_seconds: window, rows }))
}

fn keeps_its_rate(rows: &[Row]) -> Aim {
    let real_time = || rows.iter().filter(|row| row.service == Service::RealTime);
    let lowest = real_time().map(|row| row.high_rate).fold(f64::INFINITY, f64::min);
    let most = real_time().map(|row| row.low_paths).max().unwrap_or(0);
    Aim {
        aim: format!("real-time: 100 events/s on the high path beside 1 to {most} low paths"),
        found: format!("at least {lowest:.1} events/s"),
        met: real_time().next().map(|_| (lowest - RATE).abs() <= RATE_TOLERANCE),
    }
}

fn tables(report: &Value) -> Tables {
    let columns = [
        ("service", "service"),
        ("low paths", "low_paths"),
        ("high events/s", "high_rate"),
        ("medium events/s", "medium_rate"),
        ("low events/s in all", "low_rate_sum"),
        ("high median µs", "high_latency.median_us"),
        ("high p99 µs", "high_latency.p99_us"),
    ];
    let load = number(report, "load").unwrap_or(0.0);
    let title = format!("A high and a medium path beside many low ones, 100 events/s of load {load} each");
    vec![(title, table(rows(report, "rows"), &columns))]
}

fn charts(report: &Value) -> Charts {
    let load = number(report, "load").unwrap_or(0.0);
    let series = |service: Service, class: Class, colour| {
        let (name, rate) = (format!("{}: {}", service.name(), class.name()), format!("{}_rate", class.name()));
        line(&name, rows(report, "rows"), ("service", service.name()), ("low_paths", &rate), colour)
    };
    let chart = Chart {
        title: "Number of low paths and throughput".to_owned(),
        subtitle: subtitle(
            report,
            &format!("one high, one medium and many low paths, each 100 events/s of load {load}"),
        ),
        x: Axis::logarithmic("low paths", Labels::Numbers),
        y: Axis::from_zero("events processed per second"),
        series: vec![
            series(Service::RealTime, Class::High, 0),
            series(Service::RealTime, Class::Medium, 3),
            series(Service::Plain, Class::High, 2),
            series(Service::Plain, Class::Medium, 1),
        ],
    };
    vec![("paths-number".to_owned(), chart.to_svg())]
}
