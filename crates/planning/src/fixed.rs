//! Fixed priorities: their assignment, and response times.
//!
//! The response time is that of Tindell, Burns and Wellings (1994, "An extendible approach for analysing fixed priority hard
//! real-time tasks"), which is Joseph and Pandya's where responses are within periods and nothing jitters:
//!
//! ```text
//! w(q) = (q + 1) C + B + Σ ⌈(w(q) + Jⱼ) / Tⱼ⌉ Cⱼ     over all j that come first
//! R    = max (w(q) + J − q T)                        over q = 0, 1, 2, … until w(q) + J ≤ (q + 1) T
//! ```

use super::placement::{Placement, place};
use super::{Activity, Analysis, Finding, Outcome, Policy, Request, Response, Steps, Why, bounds};
use core::cmp::Reverse;

/// Assigns priorities and computes response times.
pub(super) fn analyse(activities: &[Activity], policy: Policy, request: &Request, steps: &mut Steps) -> Analysis {
    let order = by_urgency(activities, policy);
    let Placement { cpus, lanes } = place(activities, &order, request, steps);
    let mut responses = vec![Response::Unknown; activities.len()];
    let mut undecided = None;
    for cpu in 0..request.cpus {
        let here: Vec<usize> = order.iter().copied().filter(|index| cpus.get(*index) == Some(&cpu)).collect();
        let mut begin = 0;
        while begin < here.len() {
            let lane_of = |place: usize| here.get(place).and_then(|index| lanes.get(*index));
            let mut end = begin + 1;
            while end < here.len() && lane_of(end) == lane_of(begin) {
                end += 1;
            }
            // All of a lane wait for one another, and for whatever is more urgent.
            for own in begin..end {
                let first = here.iter().take(end).enumerate().filter(|(place, _)| *place != own);
                let first: Vec<&Activity> = first.filter_map(|(_, index)| activities.get(*index)).collect();
                let Some((index, activity)) = here.get(own).and_then(|i| Some((*i, activities.get(*i)?))) else {
                    continue;
                };
                let (response, why) = response(activity, &first, steps);
                undecided = undecided.or(why);
                if let Some(place) = responses.get_mut(index) {
                    *place = response;
                }
            }
            begin = end;
        }
    }
    let lane_count = lanes.iter().max().map_or(1, |last| last + 1);
    let findings = findings(activities, &cpus, &lanes, lane_count, &responses);
    let late = findings.iter().any(|finding| finding.late_by.is_some() || finding.response == Response::Unbounded);
    let outcome = match undecided {
        _ if late => Outcome::Infeasible,
        Some(why) => Outcome::Inconclusive(why),
        None => Outcome::Feasible,
    };
    summary(activities, policy, outcome, findings, request.cpus)
}

fn findings(
    activities: &[Activity],
    cpus: &[u16],
    lanes: &[u16],
    lane_count: u16,
    responses: &[Response],
) -> Vec<Finding> {
    let each = activities.iter().zip(cpus).zip(lanes).zip(responses);
    each.map(|(((activity, cpu), lane), response)| {
        let late_by = match *response {
            Response::Worst(time) | Response::AtLeast(time) => time.checked_sub(activity.deadline),
            Response::Unbounded | Response::Unknown => None,
        };
        Finding {
            cpu: *cpu,
            lane: *lane,
            priority: priority(*lane, lane_count),
            response: *response,
            late_by: late_by.filter(|by| *by > 0),
        }
    })
    .collect()
}

/// The analysis with the figures that depend on no policy.
pub(super) fn summary(
    activities: &[Activity],
    policy: Policy,
    outcome: Outcome,
    findings: Vec<Finding>,
    cpus: u16,
) -> Analysis {
    let on = |cpu: u16| {
        let here = findings.iter().zip(activities).filter(move |(finding, _)| finding.cpu == cpu);
        here.map(|(_, activity)| activity)
    };
    let utilisation: Vec<f64> = (0..cpus).map(|cpu| bounds::utilisation(on(cpu))).collect();
    let fullest = (0..cpus).max_by_key(|cpu| bounds::utilisation_floor(on(*cpu))).unwrap_or(0);
    let (liu_layland_bound, hyperbolic_product) =
        (bounds::liu_layland(on(fullest).count()), bounds::hyperbolic(on(fullest)));
    Analysis { policy, outcome, utilisation, liu_layland_bound, hyperbolic_product, overload: None, findings }
}

/// The activities from the most urgent down. Ties are broken by criticality, then by name.
pub(super) fn by_urgency(activities: &[Activity], policy: Policy) -> Vec<usize> {
    let mut order: Vec<usize> = (0..activities.len()).collect();
    order.sort_by_key(|index| {
        activities.get(*index).map(|activity| {
            let time = if policy == Policy::RateMonotonic { activity.period } else { activity.deadline };
            (time, Reverse(activity.criticality), activity.name.as_str())
        })
    });
    order
}

/// Priority of a lane. Lanes, from the least urgent at 0, are spread evenly over 0 to 32,767.
pub(super) fn priority(lane: u16, lanes: u16) -> i16 {
    let last = u32::from(lanes.saturating_sub(1));
    let value = (u32::from(lane) * 32_767).checked_div(last).unwrap_or(16_383);
    i16::try_from(value).unwrap_or(i16::MAX)
}

/// Longest response of an activity that waits for all of `first`; with a reason if it could not be computed.
pub(super) fn response(activity: &Activity, first: &[&Activity], steps: &mut Steps) -> (Response, Option<Why>) {
    let all = first.iter().copied().chain([activity]);
    if bounds::utilisation_floor(all) > bounds::WHOLE {
        return (Response::Unbounded, None);
    }
    let mut worst = 0;
    match busy_period(activity, first, steps, &mut worst) {
        Ok(()) => (Response::Worst(worst), None),
        // A missed deadline is reported, whatever else is found.
        Err(_) if worst > activity.deadline => (Response::AtLeast(worst), None),
        Err(why) => (Response::Unknown, Some(why)),
    }
}

/// Examines the events of one busy period and updates `worst`, also with the longest response proved when the analysis
/// ends early.
fn busy_period(activity: &Activity, first: &[&Activity], steps: &mut Steps, worst: &mut u64) -> Result<(), Why> {
    let once: u64 = checked_sum(first.iter().map(|other| Some(other.execution_time)))?;
    let mut own = activity.blocking;
    // Earliest end of the window: each of the others comes at least once.
    let mut window = once;
    for earlier in 0_u64.. {
        own = own.checked_add(activity.execution_time).ok_or(Why::Overflow)?;
        window = window.max(own.checked_add(once).ok_or(Why::Overflow)?);
        let due = earlier.checked_mul(activity.period).ok_or(Why::Overflow)?;
        let ended = extend(&mut window, own, first, steps);
        let done = window.checked_add(activity.jitter).ok_or(Why::Overflow)?;
        // The window only ever grows towards its end, so that what it is now is a lower bound of the response.
        *worst = (*worst).max(done.saturating_sub(due));
        ended?;
        if done <= due.checked_add(activity.period).ok_or(Why::Overflow)? {
            break;
        }
    }
    Ok(())
}

/// Extends a window to the time that `own` and all work of `first` in it take.
fn extend(window: &mut u64, own: u64, first: &[&Activity], steps: &mut Steps) -> Result<(), Why> {
    loop {
        steps.spend(first.len() + 1)?;
        let others = first.iter().map(|other| {
            let times = window.checked_add(other.jitter)?.div_ceil(other.period);
            times.checked_mul(other.execution_time)
        });
        let needed = own.checked_add(checked_sum(others)?).ok_or(Why::Overflow)?;
        if needed <= *window {
            return Ok(());
        }
        *window = needed;
    }
}

pub(super) fn checked_sum(terms: impl Iterator<Item = Option<u64>>) -> Result<u64, Why> {
    let mut sum = 0_u64;
    for term in terms {
        sum = term.and_then(|term| sum.checked_add(term)).ok_or(Why::Overflow)?;
    }
    Ok(sum)
}
