//! Paths of 100 events a second (Gore et al., 4.2 and 4.3): for each a supplier, and a consumer that does so much work for each event.
//!
//! - `campanile-bench paths-load`: three paths, and ever more work (figures 8 to 10).
//! - `paths-latency`: how latencies are spread at a load at which the low path has failed (figures 11 and 12).
//! - `paths-jitter`: how even the high path's latency stays as the load rises (figure 13), and beside 20 low paths that want more than there
//!   is.
//! - `paths-number`: the high path beside ever more low ones (figure 14).

use serde_json::{Value, json};

use super::rig::{Plan, Rig};
use super::samples::{distribution, whole};
use super::{Bed, Class, Pair, Service, at_most, quotient};
use crate::latency::ratio;
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, Percentiles, Spread};

/// Events a second that each supplier sends, and how near a rate must be to count as that: less than one event in a thousand is missing.
const RATE: f64 = 100.0;
const RATE_TOLERANCE: f64 = 0.1;

const THREE: [(Class, usize); 3] = [(Class::High, 1), (Class::Medium, 1), (Class::Low, 1)];

/// Whether nothing that counts is missing.
fn is_full(rate: f64) -> bool {
    (rate - RATE).abs() <= RATE_TOLERANCE
}

// ---- paths-load ----

const LOADS: [u32; 14] = [1, 5, 10, 14, 16, 18, 20, 25, 30, 35, 40, 45, 50, 60];
const LOADS_QUICK: [u32; 9] = [1, 10, 15, 20, 25, 30, 40, 50, 60];

/// What came of one load.
struct Loaded {
    service: Service,
    load: u32,
    /// Whether the high path's own work fits the core.
    fits: bool,
    /// Of the classes, the highest first.
    rates: [f64; 3],
}

/// What an event of the high path costs beside its work, in microseconds.
fn overhead_us(rig: &mut Rig, seconds: f64) -> Result<f64, BenchError> {
    let outcome = rig.run(Plan::at_100_hz(0.0, seconds), |class| (class == Class::High).then_some(0))?;
    let events: u64 = outcome.paths.iter().map(|path| path.sent.events).sum();
    Ok(ratio(outcome.service_cpu + outcome.high_cpu, 1000 * events.max(1)))
}

pub(crate) fn load(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    out.progress("starting both services and their paths")?;
    let mut rigs = Pair::start(bed, &THREE)?;
    let (warm_up, window) = bed.times(options, (0.3, 1.0), (1.0, 5.0));
    let overhead = overhead_us(rigs.of(Service::RealTime), window.min(1.0))?;
    let (mut found, mut rows) = (Vec::new(), Vec::new());
    for &load in bed.loads(options, &LOADS_QUICK, &LOADS) {
        for (service, outcome) in rigs.turns(load, Plan::at_100_hz(warm_up, window), out)? {
            let needs = RATE * (f64::from(load) * bed.circumstances.unit_us + overhead) / 1e6;
            let fits = needs < bed.real_time().granted_share;
            let rates = Class::ALL.map(|class| outcome.rate(class));
            let latencies = Class::ALL.map(|class| outcome.latency(class));
            rows.push(json!({
                "service": service, "load": load, "high_fits": fits, "high_needs": needs,
                "high_rate": rates[0], "medium_rate": rates[1], "low_rate": rates[2],
                "high_latency": latencies[0], "medium_latency": latencies[1], "low_latency": latencies[2],
            }));
            found.push(Loaded { service, load, fits, rates });
        }
    }
    Ok((aims_of_load(&found), json!({"overhead_us": overhead, "window_seconds": window, "rows": rows})))
}

fn aims_of_load(all: &[Loaded]) -> Vec<Aim> {
    let of = |service| all.iter().filter(move |loaded| loaded.service == service);
    let fitting = of(Service::RealTime).filter(|loaded| loaded.fits).count();
    let high = |service| of(service).filter(|loaded| loaded.fits).map(|loaded| loaded.rates[0]);
    let [high, plain_high] = Service::ALL.map(|service| high(service).fold(f64::INFINITY, f64::min));
    let mut order = true;
    let mut where_medium_falls = None;
    for &Loaded { load, rates: [_, medium, low], .. } in of(Service::RealTime) {
        if !is_full(medium) {
            where_medium_falls.get_or_insert((load, low));
            order &= low < medium.min(RATE / 10.0) || medium < 1.0;
        }
    }
    vec![
        Aim::new(
            "real-time: the high path delivers 100.0 events/s at every load at which its own work fits the core",
            format!("at least {high:.1} events/s at {fitting} such loads"),
            (fitting > 0).then(|| is_full(high)),
        ),
        Aim::new(
            "real-time: the medium path falls only after the low one has",
            match where_medium_falls {
                Some((load, low)) => format!("it first falls at load {load}, where the low path has {low:.1} events/s"),
                None => "it does not fall at the loads that were tried".to_owned(),
            },
            where_medium_falls.map(|_| order),
        ),
        Aim::new(
            "plain: the contrast",
            format!("the high path falls to {plain_high:.1} events/s at the same loads"),
            (fitting > 0).then(|| !is_full(plain_high)),
        ),
    ]
}

// ---- paths-latency ----

/// The load in units: the paper's. Three paths then ask for one and a half cores.
const LATENCY_LOAD: u32 = 25;

/// What the high path's latency is to be at most, as a share of the plain service's.
const MEDIAN_AT_MOST: f64 = 1.0 / 8.0;
const P99_AT_MOST: f64 = 1.0 / 20.0;

pub(crate) fn latency(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    out.progress("starting both services and their paths")?;
    let mut rigs = Pair::start(bed, &THREE)?;
    let (warm_up, window) = bed.times(options, (1.0, 10.0), (2.0, 30.0));
    let load = options.loads.first().copied().unwrap_or(LATENCY_LOAD);
    let turns = rigs.turns(load, Plan::at_100_hz(warm_up, window), out)?;
    let row = |(service, outcome): &(Service, super::Outcome)| {
        Class::ALL.map(|path| {
            json!({
                "service": service, "path": path, "rate": outcome.rate(path), "latency": outcome.latency(path),
                "latency_from_schedule": outcome.latency_from_schedule(path),
                "distribution": distribution(&outcome.latencies(path)),
            })
        })
    };
    let rows: Vec<Value> = turns.iter().flat_map(row).collect();
    let [real_time, plain] = turns.each_ref().map(|(_, outcome)| outcome.latency(Class::High));
    let ratio = |figure: fn(Percentiles) -> f64| quotient(real_time.map(figure), plain.map(figure));
    let (high_median_ratio, high_p99_ratio) = (ratio(|latency| latency.median), ratio(|latency| latency.p99));
    let aim = "the high path's median latency is at most 1/8 of the plain service's";
    let aims = vec![
        at_most(aim, high_median_ratio, MEDIAN_AT_MOST),
        at_most("the high path's p99 is at most 1/20 of the plain service's", high_p99_ratio, P99_AT_MOST),
    ];
    let report = json!({
        "load": load,
        "window_seconds": window,
        "high_median_ratio": high_median_ratio,
        "high_p99_ratio": high_p99_ratio,
        "rows": rows,
    });
    Ok((aims, report))
}

// ---- paths-jitter ----

const JITTER_LOADS: [u32; 9] = [1, 5, 10, 15, 20, 25, 30, 35, 40];
const JITTER_LOADS_QUICK: [u32; 5] = [1, 10, 20, 30, 40];

/// Low paths that take all that is left: each alone would take a third of the core.
const LOW_PATHS: usize = 20;
const LOW_LOAD: u32 = 17;

/// The load of the high path beside them, which leaves them nine tenths of the core.
const HIGH_LOAD: u32 = 5;

/// Turns with and without them; the median of their figures counts.
const ROUNDS: usize = 3;

/// What the p99.9 beside them is to be at most, in those without.
const P999_AT_MOST: f64 = 1.5;

/// A turn without low paths, or with them, and the p99.9 of the high path.
type Turn = (Service, usize, Option<f64>);

pub(crate) fn jitter(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let has = |part| options.takes_part(part);
    let (warm_up, window) = bed.times(options, (0.3, 1.0), (1.0, 5.0));
    let (mut aims, mut rows, mut saturation, mut turns) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    if has("rows") {
        let mut rigs = Pair::start(bed, &THREE)?;
        let mut jitters = [Vec::new(), Vec::new()];
        for &load in bed.loads(options, &JITTER_LOADS_QUICK, &JITTER_LOADS) {
            let turns = rigs.turns(load, Plan::at_100_hz(warm_up, window), out)?;
            for ((service, outcome), jitters) in turns.into_iter().zip(&mut jitters) {
                let latency = outcome.latency(Class::High);
                jitters.extend(latency.and_then(|latency| latency.standard_deviation));
                rows.push(json!({"service": service, "load": load, "high_latency": latency}));
            }
        }
        aims.push(flat(&jitters));
    }
    if has("saturation") {
        let (warm_up, window) = bed.times(options, (0.3, 1.5), (1.0, 10.0));
        (saturation, turns) = beside_low_paths(bed, Plan::at_100_hz(warm_up, window), out)?;
        let aim = "the high path's p99.9 beside 20 saturating low paths is at most 1.5 × that without";
        aims.insert(0, at_most(aim, p999_ratio(&turns, Service::RealTime), P999_AT_MOST));
    }
    let [high_p999_ratio, plain_high_p999_ratio] = Service::ALL.map(|service| p999_ratio(&turns, service));
    let report = json!({
        "window_seconds": window,
        "rows": rows,
        "saturation": saturation,
        "high_p999_ratio": high_p999_ratio,
        "plain_high_p999_ratio": plain_high_p999_ratio,
    });
    Ok((aims, report))
}

fn beside_low_paths(bed: &Bed, plan: Plan, out: &mut Output<'_>) -> Result<(Vec<Value>, Vec<Turn>), BenchError> {
    out.progress("starting both services with 20 low paths")?;
    let mut rigs = Pair::start(bed, &[(Class::High, 1), (Class::Low, LOW_PATHS)])?;
    let (mut rows, mut turns) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        for service in Service::ALL {
            for low_paths in [0, LOW_PATHS] {
                out.progress(&format!("round {round}: {}, {low_paths} low paths", service.name()))?;
                let outcome = rigs.of(service).run(plan, |class| match class {
                    Class::High => Some(HIGH_LOAD),
                    Class::Medium | Class::Low => (low_paths > 0).then_some(LOW_LOAD),
                })?;
                let latency = outcome.latency(Class::High);
                turns.push((service, low_paths, latency.map(|latency| latency.p999)));
                rows.push(json!({
                    "service": service, "low_paths": low_paths, "high_rate": outcome.rate(Class::High),
                    "low_rate": outcome.rate(Class::Low), "high_latency": latency,
                }));
            }
        }
    }
    Ok((rows, turns))
}

/// The median of the rounds' p99.9 with low paths, divided by that without.
fn p999_ratio(turns: &[Turn], service: Service) -> Option<f64> {
    let p999 = |low_paths| {
        let of_these = turns.iter().filter(|turn| (turn.0, turn.1) == (service, low_paths));
        Spread::of(of_these.filter_map(|turn| turn.2)).map(|spread| spread.median)
    };
    quotient(p999(LOW_PATHS), p999(0))
}

/// Whether the real-time side's jitter is far below the plain side's. One stall by throttling makes most of a row's deviation, so
/// whether it is constant is for the reader of the table to say.
fn flat(jitters: &[Vec<f64>; 2]) -> Aim {
    let [real_time, plain] = jitters.each_ref().map(|jitters| jitters.iter().copied().fold(0.0, f64::max));
    Aim::new(
        "the high path's largest standard deviation at any load is less than a tenth of the plain service's",
        format!("standard deviation at most {real_time:.0} µs, and {plain:.0} µs with the plain service"),
        jitters.iter().all(|jitters| !jitters.is_empty()).then_some(real_time * 10.0 < plain),
    )
}

// ---- paths-number ----

/// The load in units: the paper's. The high path alone then takes three fifths of a core.
const NUMBER_LOAD: u32 = 30;

/// Low paths: the paper's 1 to 20, and beyond.
const NUMBERS: [usize; 6] = [1, 5, 10, 20, 50, 100];

pub(crate) fn number(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let (warm_up, window) = bed.times(options, (0.3, 1.0), (1.0, 5.0));
    let load = options.loads.first().copied().unwrap_or(NUMBER_LOAD);
    let (mut rows, mut lowest, mut most) = (Vec::new(), f64::INFINITY, 0);
    for low_paths in NUMBERS {
        for service in Service::ALL {
            out.progress(&format!("{low_paths} low paths: {}", service.name()))?;
            let mut rig = Rig::start(bed, service, &[(Class::High, 1), (Class::Medium, 1), (Class::Low, low_paths)])?;
            let outcome = rig.run(Plan::at_100_hz(warm_up, window), |_| Some(load))?;
            let high_rate = outcome.rate(Class::High);
            if service == Service::RealTime {
                (lowest, most) = (lowest.min(high_rate), low_paths);
            }
            rows.push(json!({
                "service": service, "low_paths": low_paths, "high_rate": high_rate,
                "medium_rate": outcome.rate(Class::Medium), "low_rate_sum": outcome.rate(Class::Low) * whole(low_paths),
                "high_latency": outcome.latency(Class::High),
            }));
        }
    }
    let aim = format!("real-time: 100 events/s on the high path beside 1 to {most} low paths");
    let aim = Aim::new(aim, format!("at least {lowest:.1} events/s"), is_full(lowest));
    Ok((vec![aim], json!({"load": load, "window_seconds": window, "rows": rows})))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(real_time: [[f64; 3]; 3]) -> Vec<Option<bool>> {
        let mut all = vec![Loaded { service: Service::Plain, load: 20, fits: true, rates: [66.0; 3] }];
        for (load, rates) in [10, 20, 60].into_iter().zip(real_time) {
            all.push(Loaded { service: Service::RealTime, load, fits: load < 50, rates });
        }
        aims_of_load(&all).into_iter().map(|aim| aim.met).collect()
    }

    #[test]
    fn paths_are_to_fall_in_the_order_of_their_priority() {
        let met = Some(true);
        let missed = Some(false);
        assert_eq!(verdicts([[100.0, 100.0, 100.0], [100.0, 60.0, 0.0], [80.0, 0.0, 0.0]]), [met, met, met]);
        assert_eq!(verdicts([[100.0, 100.0, 100.0], [100.0, 60.0, 50.0], [80.0, 0.0, 0.0]]), [met, missed, met]);
        assert_eq!(verdicts([[100.0, 100.0, 100.0], [99.5, 60.0, 0.0], [80.0, 0.0, 0.0]]), [missed, met, met]);
        assert_eq!(verdicts([[100.0; 3]; 3])[1], None, "not to be judged where it does not fall");
    }

    #[test]
    fn divides_the_medians_of_the_rounds() {
        let turns = [
            (Service::RealTime, 0, Some(100.0)),
            (Service::RealTime, LOW_PATHS, Some(130.0)),
            (Service::Plain, 0, Some(1.0)),
            (Service::RealTime, 0, Some(90.0)),
            (Service::RealTime, LOW_PATHS, Some(9000.0)),
            (Service::RealTime, 0, Some(5000.0)),
            (Service::RealTime, LOW_PATHS, Some(120.0)),
        ];
        assert!((p999_ratio(&turns, Service::RealTime).unwrap() - 1.3).abs() < 1e-9);
        assert_eq!(p999_ratio(&turns, Service::Plain), None);
    }
}
