//! `campanile-bench paths-load`: three paths of 100 events a second, and consumers that do ever more work for each event
//! (Gore et al., 4.2, figures 8 to 10).

use serde::Serialize;
use serde_json::json;

use super::rig::{Outcome, Plan, Rig};
use super::{Bed, Class, Pair, Service};
use crate::latency::ratio;
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, Percentiles};

/// The loads, in units.
const LOADS: [u32; 14] = [1, 5, 10, 14, 16, 18, 20, 25, 30, 35, 40, 45, 50, 60];
const LOADS_QUICK: [u32; 9] = [1, 10, 15, 20, 25, 30, 40, 50, 60];

/// Events a second that each supplier sends.
const RATE: f64 = 100.0;

/// A rate this near to it is that rate: less than one event in a thousand is missing.
const RATE_TOLERANCE: f64 = 0.1;

/// What happened at one load.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) service: Service,
    pub(crate) load: u32,
    pub(crate) high_fits: bool,
    pub(crate) high_needs: f64,
    pub(crate) high_rate: f64,
    pub(crate) medium_rate: f64,
    pub(crate) low_rate: f64,
    pub(crate) high_latency: Option<Percentiles>,
    pub(crate) medium_latency: Option<Percentiles>,
    pub(crate) low_latency: Option<Percentiles>,
}

/// What an event of the high path costs beside its work, in microseconds.
fn overhead_us(rig: &mut Rig, seconds: f64) -> Result<f64, BenchError> {
    let outcome = rig.run(Plan::at_100_hz(0.0, seconds), |class| (class == Class::High).then_some(0))?;
    let events: u64 = outcome.paths.iter().map(|path| path.sent.events).sum();
    Ok(ratio(outcome.service_cpu + outcome.high_cpu, 1000 * events.max(1)))
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    out.progress("starting both services and their paths")?;
    let mut rigs = Pair::start(bed, &[(Class::High, 1), (Class::Medium, 1), (Class::Low, 1)])?;
    let (warm_up, window) = bed.times(options, (0.3, 1.0), (1.0, 5.0));
    let overhead = overhead_us(rigs.of(Service::RealTime), window.min(1.0))?;
    let mut rows = Vec::new();
    for &load in bed.loads(options, &LOADS_QUICK, &LOADS) {
        for service in Service::ALL {
            out.progress(&format!("load {load}: {}", service.name()))?;
            let outcome = rigs.of(service).run(Plan::at_100_hz(warm_up, window), |_| Some(load))?;
            rows.push(row(bed, overhead, (service, load), &outcome));
        }
    }
    Ok((aims(&rows), json!({"overhead_us": overhead, "window_seconds": window, "rows": rows})))
}

fn row(bed: &Bed, overhead_us: f64, (service, load): (Service, u32), outcome: &Outcome) -> Row {
    let work_us = f64::from(load) * bed.circumstances.unit_us;
    let high_needs = RATE * (work_us + overhead_us) / 1e6;
    Row {
        service,
        load,
        high_fits: high_needs < bed.real_time().granted_share,
        high_needs,
        high_rate: outcome.rate(Class::High),
        medium_rate: outcome.rate(Class::Medium),
        low_rate: outcome.rate(Class::Low),
        high_latency: outcome.latency(Class::High),
        medium_latency: outcome.latency(Class::Medium),
        low_latency: outcome.latency(Class::Low),
    }
}

/// Whether nothing that counts is missing.
fn is_full(rate: f64) -> bool {
    (rate - RATE).abs() <= RATE_TOLERANCE
}

fn aims(rows: &[Row]) -> Vec<Aim> {
    let real_time: Vec<&Row> = rows.iter().filter(|row| row.service == Service::RealTime).collect();
    let fitting: Vec<&Row> = real_time.iter().copied().filter(|row| row.high_fits).collect();
    let lowest = |rates: &mut dyn Iterator<Item = f64>| rates.fold(f64::INFINITY, f64::min);
    let high = lowest(&mut fitting.iter().map(|row| row.high_rate));
    let mut order = true;
    let mut where_medium_falls = None;
    for row in &real_time {
        if !is_full(row.medium_rate) {
            where_medium_falls.get_or_insert((row.load, row.low_rate));
            order &= row.low_rate < row.medium_rate.min(RATE / 10.0) || row.medium_rate < 1.0;
        }
    }
    let plain = rows.iter().filter(|row| row.service == Service::Plain && row.high_fits);
    let plain_high = lowest(&mut plain.map(|row| row.high_rate));
    vec![
        Aim::new(
            "real-time: the high path delivers 100.0 events/s at every load at which its own work fits the core",
            format!("at least {high:.1} events/s at {} such loads", fitting.len()),
            (!fitting.is_empty()).then(|| is_full(high)),
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
            (!fitting.is_empty()).then(|| !is_full(plain_high)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(service: Service, load: u32, fits: bool, rates: [f64; 3]) -> Row {
        let [high_rate, medium_rate, low_rate] = rates;
        let (high_latency, medium_latency, low_latency) = (None, None, None);
        let (high_fits, high_needs) = (fits, 0.0);
        Row {
            service,
            load,
            high_fits,
            high_needs,
            high_rate,
            medium_rate,
            low_rate,
            high_latency,
            medium_latency,
            low_latency,
        }
    }

    fn verdicts(real_time: [[f64; 3]; 3]) -> Vec<Option<bool>> {
        let mut rows = vec![row(Service::Plain, 20, true, [66.0, 66.0, 66.0])];
        for (load, rates) in [10, 20, 60].into_iter().zip(real_time) {
            rows.push(row(Service::RealTime, load, load < 50, rates));
        }
        aims(&rows).into_iter().map(|aim| aim.met).collect()
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
}
