//! `campanile-bench paths-latency`: how latencies are spread at a load at which the low path has failed (Gore et al., 4.2,
//! figures 11 and 12).

use serde::Serialize;
use serde_json::json;

use super::rig::{Outcome, Plan};
use super::samples::distribution;
use super::{Bed, Bin, Class, Pair, Service, quotient};
use crate::report::Reported;
use crate::{Options, Output, Percentiles};

/// The load in units: the paper's. Three paths then ask for one and a half cores.
const LOAD: u32 = 25;

/// What the high path's latency is to be at most, as a share of the plain service's.
const MEDIAN_AT_MOST: f64 = 1.0 / 8.0;
const P99_AT_MOST: f64 = 1.0 / 20.0;

/// The latencies of one path.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) service: Service,
    pub(crate) path: Class,
    pub(crate) rate: f64,
    pub(crate) latency: Option<Percentiles>,
    pub(crate) latency_from_schedule: Option<Percentiles>,
    pub(crate) distribution: Vec<Bin>,
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
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
    let report = json!({
        "load": load,
        "window_seconds": window,
        "high_median_ratio": high_median_ratio,
        "high_p99_ratio": high_p99_ratio,
        "rows": rows,
    });
    Ok((aims, report))
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
