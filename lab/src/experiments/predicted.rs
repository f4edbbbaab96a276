//! `campanile-bench predicted`: what `campanile deploy check` computes of a plan's response times, beside what they are.
//!
//! The plans are a pipeline of four stages, a source with ten sinks at two priorities, and five timers. The lanes of each share one core,
//! and their handlers take as much of its time as the plan says, measured by the clock of their thread.

use serde_json::json;

use super::Bed;
use crate::process::Subordinate;
use crate::report::{Aim, Reported};
use crate::{Options, Output, Percentiles};
use lanes::{Order, Taken};

pub(crate) mod lanes;

const PLANS: [(&str, &str); 3] = [
    ("pipeline of four", include_str!("predicted/pipeline.toml")),
    ("fan-out to ten", include_str!("predicted/fan-out.toml")),
    ("rate group of five", include_str!("predicted/rate-group.toml")),
];

/// By which part of it the computed response may be above what is measured.
const APART_MAX: f64 = 0.15;
/// Seconds at most, since the process answers within half a minute.
const SECONDS_MAX: f64 = 20.0;

/// A priority of a plan: the port of its lane that is done last.
struct Last<'t> {
    taken: &'t Taken,
    measured: Percentiles,
}

impl Last<'_> {
    /// By which part of it the computed response is above the 99th percentile of what is measured; below 0 where it is less.
    fn apart(&self) -> f64 {
        1.0 - self.measured.p99 / microseconds(self.taken.predicted_ns)
    }
}

fn microseconds(ns: u64) -> f64 {
    crate::latency::ratio(ns, 1_000)
}

/// The port of each lane whose response is the longest.
fn lasts(taken: &[Taken]) -> Vec<Last<'_>> {
    let mut lasts: Vec<Last<'_>> = Vec::new();
    for taken in taken {
        let Some(measured) = Percentiles::of(taken.measured_ns.iter().copied()) else { continue };
        match lasts.iter_mut().find(|last| last.taken.priority == taken.priority) {
            Some(last) if last.measured.median >= measured.median => {}
            Some(last) => *last = Last { taken, measured },
            None => lasts.push(Last { taken, measured }),
        }
    }
    lasts
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let seconds = bed.seconds(options, 2.0, 20.0, SECONDS_MAX)?;
    let mut process = Subordinate::start("the process of a plan", lanes::COMMAND, bed.cores.ends, None)?;
    let (mut aims, mut rows) = (Vec::new(), Vec::new());
    for (name, plan) in PLANS {
        out.progress(name)?;
        let taken: Vec<Taken> = process.ask(&Order { plan: plan.to_owned(), seconds })?;
        let lasts = lasts(&taken);
        aims.push(judge(name, &lasts));
        rows.extend(taken.iter().map(|port| {
            let apart = lasts.iter().find(|last| last.taken.port == port.port).map(Last::apart);
            json!({
                "plan": name, "port": port.port, "priority": port.priority, "predicted_us": microseconds(port.predicted_ns),
                "measured": Percentiles::of(port.measured_ns.iter().copied()), "apart": apart,
                "beyond": port.measured_ns.iter().filter(|ns| **ns > port.predicted_ns).count(),
            })
        }));
    }
    Ok((aims, json!({ "rows": rows })))
}

fn judge(plan: &str, lasts: &[Last<'_>]) -> Aim {
    let aim = format!(
        "{plan}: what is computed for the last port of each lane, within {:.0} % of the 99th percentile of what it takes",
        APART_MAX * 100.0
    );
    let worst = lasts.iter().max_by(|one, other| one.apart().abs().total_cmp(&other.apart().abs()));
    let found = worst.map_or_else(
        || "nothing was measured".to_owned(),
        |last| {
            let (predicted, measured) = (microseconds(last.taken.predicted_ns), last.measured.p99);
            format!("{:.1} % at {}: {predicted:.0} µs and {measured:.0} µs", last.apart() * 100.0, last.taken.port)
        },
    );
    Aim::new(aim, found, worst.map(|last| last.apart().abs() <= APART_MAX))
}
