//! `campanile-bench paths-jitter`: how even the high path's latency stays as the load rises (Gore et al., 4.2, figure 13), and
//! beside 20 low paths that want more than there is.

use serde::Serialize;
use serde_json::Value;

use super::rig::Plan;
use super::{Bed, Class, Kind, Pair, Service, quotient, subtitle};
use crate::report::chart::{Axis, Chart, Labels};
use crate::report::{Aim, Charts, Tables, at, line, rows, table};
use crate::{BenchError, ExperimentOptions, Output, Percentiles};

pub(super) const KIND: Kind = Kind { name: "paths-jitter", tables, charts };

/// The loads, in units.
const LOADS: [u32; 9] = [1, 5, 10, 15, 20, 25, 30, 35, 40];
const LOADS_QUICK: [u32; 5] = [1, 10, 20, 30, 40];

/// Low paths that take all that is left: each alone would take a third of the core.
const LOW_PATHS: usize = 20;
const LOW_LOAD: u32 = 17;

/// The load of the high path beside them, which leaves them nine tenths of the core.
const HIGH_LOAD: u32 = 5;

/// Turns with and without them; the median of their figures counts.
const ROUNDS: usize = 3;

/// What the p99.9 beside them is to be at most, in those without.
const P999_AT_MOST: f64 = 1.5;

/// The report, beside what all of them begin with.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// Seconds for which events counted in each run of `rows`.
    pub(crate) window_seconds: f64,
    /// The high path under rising load of all three paths.
    pub(crate) rows: Vec<Row>,
    /// The high path without and beside low paths that want more than there is, several rounds of each.
    pub(crate) saturation: Vec<Saturation>,
    /// The high path's p99.9 with 20 low paths / without, on the real-time side: of each round's the median.
    pub(crate) high_p999_ratio: Option<f64>,
    /// The same on the plain side.
    pub(crate) plain_high_p999_ratio: Option<f64>,
}

/// The high path at one load.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// How the service and its clients were scheduled.
    pub(crate) service: Service,
    /// The load that every event carried, in units.
    pub(crate) load: u32,
    /// From the supplier's stamp to the consumer's read, on the high path.
    pub(crate) high_latency: Option<Percentiles>,
}

/// The high path beside low ones.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Saturation {
    /// How the service and its clients were scheduled.
    pub(crate) service: Service,
    /// Low paths that ran.
    pub(crate) low_paths: usize,
    /// Events delivered and processed a second on the high path.
    pub(crate) high_rate: f64,
    /// The same on each low path, their mean.
    pub(crate) low_rate: f64,
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
    let (mut aims, mut report) = measure_under_load(bed, options, out)?;
    let (warm_up, window) = bed.times(options, (0.3, 1.5), (1.0, 10.0));
    report.saturation = beside_low_paths(bed, Plan::at_100_hz(warm_up, window), out)?;
    let [real_time, plain] = Service::ALL.map(|service| p999_ratio(&report.saturation, service));
    (report.high_p999_ratio, report.plain_high_p999_ratio) = (real_time, plain);
    let aim = "the high path's p99.9 beside 20 saturating low paths is at most 1.5 × that without";
    aims.insert(0, super::at_most(aim, real_time, P999_AT_MOST));
    Ok((aims, report))
}

/// The first half: the paper's figure, without what is beside many low paths.
pub(super) fn measure_under_load(
    bed: &Bed,
    options: &ExperimentOptions,
    out: &mut Output<'_>,
) -> Result<(Vec<Aim>, Report), BenchError> {
    let (warm_up, window) = bed.times(options, (0.3, 1.0), (1.0, 5.0));
    let rows = under_load(bed, options, Plan::at_100_hz(warm_up, window), out)?;
    let aims = vec![flat(&rows)];
    let report = Report {
        window_seconds: window,
        rows,
        saturation: Vec::new(),
        high_p999_ratio: None,
        plain_high_p999_ratio: None,
    };
    Ok((aims, report))
}

/// The paper's figure 13.
fn under_load(
    bed: &Bed,
    options: &ExperimentOptions,
    plan: Plan,
    out: &mut Output<'_>,
) -> Result<Vec<Row>, BenchError> {
    let mut rigs = Pair::start(bed, &[(Class::High, 1), (Class::Medium, 1), (Class::Low, 1)])?;
    let mut rows = Vec::new();
    for &load in bed.loads(options, &LOADS_QUICK, &LOADS) {
        for service in Service::ALL {
            out.progress(&format!("load {load}: {}", service.name()))?;
            let outcome = rigs.of(service).run(plan, |_| Some(load))?;
            rows.push(Row { service, load, high_latency: outcome.latency(Class::High) });
        }
    }
    Ok(rows)
}

fn beside_low_paths(bed: &Bed, plan: Plan, out: &mut Output<'_>) -> Result<Vec<Saturation>, BenchError> {
    out.progress("starting both services with 20 low paths")?;
    let mut rigs = Pair::start(bed, &[(Class::High, 1), (Class::Low, LOW_PATHS)])?;
    let mut turns = Vec::new();
    for round in 1..=ROUNDS {
        for service in Service::ALL {
            for low_paths in [0, LOW_PATHS] {
                out.progress(&format!("round {round}: {}, {low_paths} low paths", service.name()))?;
                let outcome = rigs.of(service).run(plan, |class| match class {
                    Class::High => Some(HIGH_LOAD),
                    Class::Medium | Class::Low => (low_paths > 0).then_some(LOW_LOAD),
                })?;
                turns.push(Saturation {
                    service,
                    low_paths,
                    high_rate: outcome.rate(Class::High),
                    low_rate: outcome.rate(Class::Low),
                    high_latency: outcome.latency(Class::High),
                });
            }
        }
    }
    Ok(turns)
}

/// The median of the rounds' p99.9 with low paths, divided by that without.
fn p999_ratio(turns: &[Saturation], service: Service) -> Option<f64> {
    let p999 = |low_paths| {
        let of_these = turns.iter().filter(|turn| (turn.service, turn.low_paths) == (service, low_paths));
        let figures = of_these.filter_map(|turn| Some(turn.high_latency?.p999));
        crate::Spread::of(figures).map(|spread| spread.median)
    };
    quotient(p999(LOW_PATHS), p999(0))
}

/// Whether the real-time side's jitter is far below the plain side's. One stall by throttling makes most of a row's deviation, so
/// whether it is constant is for the reader of the table to say.
fn flat(rows: &[Row]) -> Aim {
    let jitters = |service| {
        let rows = rows.iter().filter(move |row| row.service == service);
        rows.filter_map(|row| row.high_latency?.standard_deviation).collect::<Vec<f64>>()
    };
    let [real_time, plain] = Service::ALL.map(jitters);
    let largest = |jitters: &[f64]| jitters.iter().copied().fold(0.0, f64::max);
    Aim {
        aim: "the high path's largest standard deviation at any load is less than a tenth of the plain service's"
            .to_owned(),
        found: format!(
            "standard deviation at most {:.0} µs, and {:.0} µs with the plain service",
            largest(&real_time),
            largest(&plain)
        ),
        met: (!real_time.is_empty() && !plain.is_empty()).then(|| largest(&real_time) * 10.0 < largest(&plain)),
    }
}

fn tables(report: &Value) -> Tables {
    let figures = [
        ("median µs", "high_latency.median_us"),
        ("standard deviation µs", "high_latency.standard_deviation_us"),
        ("p99 µs", "high_latency.p99_us"),
        ("p99.9 µs", "high_latency.p999_us"),
        ("max µs", "high_latency.max_us"),
    ];
    let of = |name, first: &[(&str, &str)]| table(rows(report, name), &[first, &figures].concat());
    let under_load = of("rows", &[("service", "service"), ("load", "load")]);
    let mut tables = vec![("The high path's latency under rising load of all three paths".to_owned(), under_load)];
    if !rows(report, "saturation").is_empty() {
        let first = [
            ("service", "service"),
            ("low paths", "low_paths"),
            ("high events/s", "high_rate"),
            ("low events/s each", "low_rate"),
        ];
        let title = "The high path's latency without and beside low paths that want more than there is";
        tables.push((title.to_owned(), of("saturation", &first)));
    }
    tables
}

fn charts(report: &Value) -> Charts {
    let lifted = at(report, "real_time.throttling_lifted").as_bool().unwrap_or(false);
    let (name, title) = match lifted {
        true => {
            ("paths-jitter-without-throttling", "Load and jitter of the high path, without the kernel's throttling")
        }
        false => ("paths-jitter", "Load and jitter of the high path"),
    };
    let series = |service: Service, name: &str, figure: &str, colour| {
        let name = format!("{}: {name}", service.name());
        line(&name, rows(report, "rows"), ("service", service.name()), ("load", figure), colour)
    };
    let chart = Chart {
        title: title.to_owned(),
        subtitle: subtitle(report, "three paths, each 100 events/s"),
        x: Axis::from_zero(&super::load_in_units(report)),
        y: Axis::logarithmic("high path's latency", Labels::Microseconds),
        series: vec![
            series(Service::RealTime, "deviation", "high_latency.standard_deviation_us", 0),
            series(Service::RealTime, "p99.9", "high_latency.p999_us", 3),
            series(Service::Plain, "deviation", "high_latency.standard_deviation_us", 2),
            series(Service::Plain, "p99.9", "high_latency.p999_us", 1),
        ],
    };
    vec![(name.to_owned(), chart.to_svg())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(service: Service, low_paths: usize, p999_us: f64) -> Saturation {
        let latency = Percentiles { p999: p999_us, ..Percentiles::of([1000]).unwrap() };
        Saturation { service, low_paths, high_rate: 100.0, low_rate: 0.0, high_latency: Some(latency) }
    }

    #[test]
    fn divides_the_medians_of_the_rounds() {
        let turns = [
            turn(Service::RealTime, 0, 100.0),
            turn(Service::RealTime, LOW_PATHS, 130.0),
            turn(Service::Plain, 0, 1.0),
            turn(Service::RealTime, 0, 90.0),
            turn(Service::RealTime, LOW_PATHS, 9000.0),
            turn(Service::RealTime, 0, 5000.0),
            turn(Service::RealTime, LOW_PATHS, 120.0),
        ];
        assert!((p999_ratio(&turns, Service::RealTime).unwrap() - 1.3).abs() < 1e-9);
        assert_eq!(p999_ratio(&turns, Service::Plain), None);
    }
}
