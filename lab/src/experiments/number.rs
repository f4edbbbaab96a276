//! `campanile-bench paths-number`: the high path beside ever more low ones (Gore et al., 4.3, figure 14).

use serde::Serialize;
use serde_json::json;

use super::rig::{Plan, Rig};
use super::{Bed, Class, Service};
use crate::report::{Aim, Reported};
use crate::{Options, Output, Percentiles};

/// The load in units: the paper's. The high path alone then takes three fifths of a core.
const LOAD: u32 = 30;

/// Low paths: the paper's 1 to 20, and beyond.
const LOW_PATHS: [usize; 6] = [1, 5, 10, 20, 50, 100];

/// Events a second of a path that keeps up, and how near a rate must be to count as that.
const RATE: f64 = 100.0;
const RATE_TOLERANCE: f64 = 0.1;

/// What happened beside so many low paths.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) service: Service,
    pub(crate) low_paths: usize,
    pub(crate) high_rate: f64,
    pub(crate) medium_rate: f64,
    pub(crate) low_rate_sum: f64,
    pub(crate) high_latency: Option<Percentiles>,
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
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
    Ok((vec![keeps_its_rate(&rows)], json!({"load": load, "window_seconds": window, "rows": rows})))
}

fn keeps_its_rate(rows: &[Row]) -> Aim {
    let real_time = || rows.iter().filter(|row| row.service == Service::RealTime);
    let lowest = real_time().map(|row| row.high_rate).fold(f64::INFINITY, f64::min);
    let most = real_time().map(|row| row.low_paths).max().unwrap_or(0);
    Aim::new(
        format!("real-time: 100 events/s on the high path beside 1 to {most} low paths"),
        format!("at least {lowest:.1} events/s"),
        real_time().next().map(|_| (lowest - RATE).abs() <= RATE_TOLERANCE),
    )
}
