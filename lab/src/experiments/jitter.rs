//! `campanile-bench paths-jitter`: how even the high path's latency stays as the load rises (Gore et al., 4.2, figure 13), and
//! beside 20 low paths that want more than there is.

use serde::Serialize;
use serde_json::json;

use super::rig::Plan;
use super::{Bed, Class, Pair, Service, quotient};
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, Percentiles};

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

/// The high path at one load.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) service: Service,
    pub(crate) load: u32,
    pub(crate) high_latency: Option<Percentiles>,
}

/// The high path beside low ones.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Saturation {
    pub(crate) service: Service,
    pub(crate) low_paths: usize,
    pub(crate) high_rate: f64,
    pub(crate) low_rate: f64,
    pub(crate) high_latency: Option<Percentiles>,
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let has = |part| options.takes_part(part);
    let (warm_up, window) = bed.times(options, (0.3, 1.0), (1.0, 5.0));
    let (mut aims, mut rows, mut saturation) = (Vec::new(), Vec::new(), Vec::new());
    if has("rows") {
        rows = under_load(bed, options, Plan::at_100_hz(warm_up, window), out)?;
        aims.push(flat(&rows));
    }
    if has("saturation") {
        let (warm_up, window) = bed.times(options, (0.3, 1.5), (1.0, 10.0));
        saturation = beside_low_paths(bed, Plan::at_100_hz(warm_up, window), out)?;
        let aim = "the high path's p99.9 beside 20 saturating low paths is at most 1.5 × that without";
        aims.insert(0, super::at_most(aim, p999_ratio(&saturation, Service::RealTime), P999_AT_MOST));
    }
    let [high_p999_ratio, plain_high_p999_ratio] = Service::ALL.map(|service| p999_ratio(&saturation, service));
    let report = json!({
        "window_seconds": window,
        "rows": rows,
        "saturation": saturation,
        "high_p999_ratio": high_p999_ratio,
        "plain_high_p999_ratio": plain_high_p999_ratio,
    });
    Ok((aims, report))
}

/// The paper's figure 13.
fn under_load(bed: &Bed, options: &Options, plan: Plan, out: &mut Output<'_>) -> Result<Vec<Row>, BenchError> {
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
    Aim::new(
        "the high path's largest standard deviation at any load is less than a tenth of the plain service's",
        format!(
            "standard deviation at most {:.0} µs, and {:.0} µs with the plain service",
            largest(&real_time),
            largest(&plain)
        ),
        (!real_time.is_empty() && !plain.is_empty()).then(|| largest(&real_time) * 10.0 < largest(&plain)),
    )
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
