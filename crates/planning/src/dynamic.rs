//! Analysis of policies that decide at run time, as the discipline of one lane: the next event is chosen whenever the
//! lane has finished one, and an event that was begun is finished first.
//!
//! Earliest deadline first is decided by the processor demand criterion without preemption (Baruah, Rosier and Howell
//! 1990; Jeffay, Stanat and Martel 1991; George, Rivierre and Spuri 1996): in no interval that begins with all
//! activities due at once may the work due by its end exceed its length, together with one event of a later deadline
//! that was begun just before.
//!
//! Least laxity orders events by the latest moment at which they have to *begin*, so the demand of events that must have begun
//! must leave room for the last of them to begin in time. Maximum urgency adds all work of more critical activities in the
//! interval. Both tests are sufficient. If one fails, the criterion above may still show that no order at all would do.

use super::fixed::{checked_sum, summary};
use super::{Activity, Analysis, Finding, Outcome, Overload, PlanError, Policy, Request, Response, Steps, Why, bounds};
use std::collections::BTreeMap;

/// Applies the policy's test to each channel, on a processor of its own.
pub(super) fn analyse(
    activities: &[Activity],
    policy: Policy,
    request: &Request,
    steps: &mut Steps,
) -> Result<Analysis, PlanError> {
    let mut channels: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, activity) in activities.iter().enumerate() {
        channels.entry(activity.channel).or_default().push(index);
    }
    if channels.len() > usize::from(request.cpus) {
        return Err(PlanError::Request(format!(
            "{policy} decides within one lane, and each channel has a lane of its own: {} channels need {} processors \
             (cpus), and there are {}; put the activities on fewer channels, or choose rm or dm",
            channels.len(),
            channels.len(),
            request.cpus
        )));
    }
    let finding =
        Finding { cpu: 0, lane: 0, priority: super::fixed::priority(0, 1), response: Response::Unknown, late_by: None };
    let mut findings = vec![finding; activities.len()];
    let mut outcome = Outcome::Feasible;
    let mut overload = None;
    for (cpu, members) in channels.values().enumerate() {
        for index in members {
            if let Some(finding) = findings.get_mut(*index) {
                finding.cpu = u16::try_from(cpu).unwrap_or(u16::MAX);
            }
        }
        let set: Vec<(usize, &Activity)> =
            members.iter().filter_map(|index| Some((*index, activities.get(*index)?))).collect();
        let (here, found) = one_lane(&set, policy, steps);
        overload = overload.or(found);
        outcome = match (outcome, here) {
            (Outcome::Infeasible, _) | (_, Outcome::Infeasible) => Outcome::Infeasible,
            (Outcome::Feasible, other) => other,
            (undecided, _) => undecided,
        };
    }
    Ok(Analysis { overload, ..summary(activities, policy, outcome, findings, request.cpus) })
}

/// Result for the activities of one lane.
fn one_lane(set: &[(usize, &Activity)], policy: Policy, steps: &mut Steps) -> (Outcome, Option<Overload>) {
    // An activity that misses its deadline even alone does so under any policy.
    for (index, activity) in set {
        let alone = activity.jitter.saturating_add(activity.blocking).saturating_add(activity.execution_time);
        if alone > activity.deadline {
            let overload = Overload { interval: activity.deadline, demand: alone, activity: *index };
            return (Outcome::Infeasible, Some(overload));
        }
    }
    let shown = match policy {
        Policy::EarliestDeadline => Ok(false),
        _ => by_laxity(set, policy == Policy::MaximumUrgency, steps),
    };
    let overfull = bounds::utilisation_floor(set.iter().map(|(_, activity)| *activity)) > bounds::WHOLE;
    match (shown, by_deadline(set, steps)) {
        // Overloaded in any case: only the search for the first such interval may take too long.
        (_, found) if overfull => (Outcome::Infeasible, found.ok().flatten()),
        (Ok(true), _) => (Outcome::Feasible, None),
        (_, Ok(Some(overload))) => (Outcome::Infeasible, Some(overload)),
        (Err(why), _) | (_, Err(why)) => (Outcome::Inconclusive(why), None),
        _ if policy == Policy::EarliestDeadline => (Outcome::Feasible, None),
        _ => (Outcome::Inconclusive(Why::NotShown), None),
    }
}

/// An interval in which no order at all meets all deadlines. If there is none, earliest deadline first meets them.
fn by_deadline(set: &[(usize, &Activity)], steps: &mut Steps) -> Result<Option<Overload>, Why> {
    let own: Vec<Source<'_>> = set.iter().map(|(_, activity)| Source::due(activity)).collect();
    let level = Level { own, higher: Vec::new(), lower: Vec::new() };
    let found = level.find_overload(false, steps)?;
    Ok(found.map(|(interval, demand)| {
        let at_end = level.own.iter().position(|source| source.has_point(interval));
        let activity = at_end.and_then(|place| set.get(place)).map_or(0, |(index, _)| *index);
        Overload { interval, demand, activity }
    }))
}

/// Whether every event can begin by its latest moment under least laxity first, preceded by criticality if `urgency`.
fn by_laxity(set: &[(usize, &Activity)], urgency: bool, steps: &mut Steps) -> Result<bool, Why> {
    let mut levels: Vec<i16> = set.iter().map(|(_, activity)| activity.criticality).collect();
    levels.sort_unstable();
    levels.dedup();
    if !urgency {
        levels.truncate(1);
    }
    for criticality in levels {
        let of = |order: core::cmp::Ordering| {
            let chosen = set.iter().filter(move |(_, activity)| {
                let place = if urgency { activity.criticality.cmp(&criticality) } else { core::cmp::Ordering::Equal };
                place == order
            });
            chosen.map(|(_, activity)| Source::begun(activity)).collect()
        };
        let level = Level {
            own: of(core::cmp::Ordering::Equal),
            higher: of(core::cmp::Ordering::Greater),
            lower: of(core::cmp::Ordering::Less),
        };
        if level.find_overload(true, steps)?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An activity as the demand test sees it.
struct Source<'a> {
    activity: &'a Activity,
    /// Longest time from an event's arrival to the moment by which it is ordered.
    key: u64,
}

impl<'a> Source<'a> {
    fn due(activity: &'a Activity) -> Self {
        Self { activity, key: activity.deadline.saturating_sub(activity.jitter) }
    }

    fn begun(activity: &'a Activity) -> Self {
        let key = activity.deadline.saturating_sub(activity.jitter).saturating_sub(activity.execution_time);
        Self { activity, key }
    }

    /// Work of its events whose arrival and key are both in an interval.
    fn demand(&self, interval: u64) -> Option<u64> {
        let Some(behind) = interval.checked_sub(self.key) else { return Some(0) };
        (behind / self.activity.period + 1).checked_mul(self.activity.execution_time)
    }

    /// Work of all of its events that arrive in an interval, both ends included.
    fn arrivals(&self, interval: u64) -> Option<u64> {
        let times = interval.checked_add(self.activity.jitter)? / self.activity.period + 1;
        times.checked_mul(self.activity.execution_time)
    }

    /// The next longer interval that ends at a key.
    fn next_key(&self, interval: u64) -> Option<u64> {
        let Some(behind) = interval.checked_sub(self.key) else { return Some(self.key) };
        (behind / self.activity.period + 1).checked_mul(self.activity.period)?.checked_add(self.key)
    }

    /// The next longer interval that ends at an arrival.
    fn next_arrival(&self, interval: u64) -> Option<u64> {
        let times = interval.checked_add(self.activity.jitter)? / self.activity.period + 1;
        times.checked_mul(self.activity.period)?.checked_sub(self.activity.jitter)
    }

    fn has_point(&self, interval: u64) -> bool {
        interval.checked_sub(self.key).is_some_and(|behind| behind.is_multiple_of(self.activity.period))
    }
}

/// Activities ordered by key, those always before them, and those always after them.
struct Level<'a> {
    own: Vec<Source<'a>>,
    higher: Vec<Source<'a>>,
    lower: Vec<Source<'a>>,
}

impl Level<'_> {
    /// The first interval with more work than its length, and that work; without its last event if `begun` is enough for that.
    fn find_overload(&self, begun: bool, steps: &mut Steps) -> Result<Option<(u64, u64)>, Why> {
        let end = self.longest_interval(steps)?;
        let mut interval = self.own.iter().map(|source| source.key).min().unwrap_or(0);
        while interval <= end {
            steps.spend(2 * (self.own.len() + self.higher.len()) + self.lower.len())?;
            let reached = self.own.iter().filter(|source| source.key <= interval);
            let last = if begun { reached.map(|source| source.activity.execution_time).min().unwrap_or(0) } else { 0 };
            let own = self.own.iter().map(|source| source.demand(interval));
            let higher = self.higher.iter().map(|source| source.arrivals(interval));
            let work = checked_sum(own.chain(higher).chain([self.blocking(interval)]))?.saturating_sub(last);
            if work > interval {
                return Ok(Some((interval, work)));
            }
            let keys = self.own.iter().map(|source| source.next_key(interval));
            let arrivals = self.higher.iter().map(|source| source.next_arrival(interval));
            interval = keys.chain(arrivals).min_by_key(|next| next.unwrap_or(0)).flatten().ok_or(Why::Overflow)?;
        }
        Ok(None)
    }

    /// Time by which an interval may be blocked: by the longest event that was begun a moment before and is ordered
    /// after all others in it, and by the declared blocking.
    fn blocking(&self, interval: u64) -> Option<u64> {
        let behind = self.own.iter().filter(|source| source.key > interval).chain(&self.lower);
        let begun = behind.map(|source| source.activity.execution_time - 1).max().unwrap_or(0);
        let concerned = self.own.iter().filter(|source| source.key <= interval);
        let declared = concerned.map(|source| source.activity.blocking).max().unwrap_or(0);
        begun.checked_add(declared)
    }

    /// Longest interval to be tested: a busy period, by the end of which the lane is idle, or the last key, after which
    /// demand grows no faster than the interval.
    fn longest_interval(&self, steps: &mut Steps) -> Result<u64, Why> {
        let all = || self.own.iter().chain(&self.higher);
        let last_key = self.own.iter().map(|source| source.key).max().unwrap_or(0);
        let load = bounds::utilisation_floor(all().map(|source| source.activity));
        if load > bounds::WHOLE {
            // An overload is certain; the steps limit the search for it.
            return Ok(u64::MAX);
        }
        let unblocked = all().all(|source| source.activity.blocking == 0);
        let simple = self.higher.is_empty() && self.lower.is_empty() && unblocked;
        if simple && self.own.iter().all(|source| source.key >= source.activity.period) {
            // Behind the last key, demand is at most load times interval.
            return Ok(last_key);
        }
        let first_key = self.own.iter().map(|source| source.key).min().unwrap_or(0);
        let behind = self.own.iter().filter(|source| source.key > first_key).chain(&self.lower);
        let begun = behind.map(|source| source.activity.execution_time).max().unwrap_or(0);
        let declared = all().map(|source| source.activity.blocking).max().unwrap_or(0);
        let blocked = begun.checked_add(declared).ok_or(Why::Overflow)?;
        let mut length = blocked.max(1);
        loop {
            steps.spend(self.own.len() + self.higher.len())?;
            let work = all().map(|source| {
                let times = length.checked_add(source.activity.jitter)?.div_ceil(source.activity.period);
                times.checked_mul(source.activity.execution_time)
            });
            let needed = checked_sum(work.chain([Some(blocked)]))?;
            if needed <= length {
                return Ok(length);
            }
            length = needed;
        }
    }
}
