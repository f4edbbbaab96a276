//! Response times of chains, under priorities that are given.
//!
//! A *chain* begins once in each period. Each of its *stages* is what one lane does for the events that one period brings it; a stage
//! triggers others by queues while it runs. All lanes share one processor, on which one of a higher priority preempts one of a lower. A response is counted
//! from when its chain was due, over all stages on the way.
//!
//! Let p be the lowest priority on the way to a stage. From when the chain is due until the stage is done, some stage on the way is ready, so
//! that the processor does nothing below p. Its busy period is that of [`fixed`](super::fixed), with all stages at p and above:
//!
//! - A stage with no priority below p on its way has nothing left to do when the busy period begins: it runs once a period, without jitter.
//! - The events of any other stage come when the last one below p on its way is done. The response of that one is the jitter. It depends on
//!   lower priorities only, so that all responses are computed once, from the lowest p up, and nothing is iterated until it is stable. One
//!   processor does nothing below p meanwhile, so that this is more than can be; a second one may.
//!
//! Stages of equal priority wait for each other, which bounds any order among them: that of a lane's queues, and that of a fair scheduler.
//! Events of one stage are handled in the order of their arrival. On several processors no response is longer than computed: while a stage on
//! the way is ready, at least one of them does work of p and above.

use super::fixed::response;
use super::{Activity, AnalysisLimits, PlanError, Response, Steps, TIME_MAX, Why, bounds};
use std::collections::BTreeSet;

/// What one lane does for the events that one period of a chain brings it. All times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Period of the chain, or minimum interval between two of its first events. 1 to [`TIME_MAX`].
    pub period: u64,
    /// Longest time that the events of one period take at this stage, all together.
    pub execution_time: u64,
    /// Priority of the lane: a larger one preempts.
    pub priority: i32,
    /// Stage by which this one is triggered, which stands before it in the list; `None` if the chain begins here.
    pub after: Option<usize>,
}

/// Result for one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageFinding {
    /// Longest time from when the chain is due until the stage is done: never [`Response::AtLeast`], and known only if that of each stage
    /// on the way is.
    pub response: Response,
    /// Reason for which the response is unknown.
    pub why: Option<Why>,
    /// Lowest priority that the response depends on: work below it makes no difference.
    pub priority_min: i32,
    /// Stage that takes most of the response, and how often it runs in it; of an unbounded response the one with the largest utilisation, and
    /// 0.
    pub busiest: Option<(usize, u64)>,
}

/// Computes the response of each stage.
///
/// ```
/// use planning::{AnalysisLimits, Response, Stage, respond};
/// let camera = Stage { period: 100, execution_time: 10, priority: 40, after: None };
/// let guider = Stage { period: 100, execution_time: 20, priority: 40, after: Some(0) };
/// let alarm = Stage { period: 25, execution_time: 5, priority: 80, after: None };
/// let findings = respond(&[camera, guider, alarm], &AnalysisLimits::COMMAND)?;
/// assert_eq!(findings[1].response, Response::Worst(40));
/// assert_eq!(findings[2].response, Response::Worst(5));
/// # Ok::<(), planning::PlanError>(())
/// ```
///
/// # Errors
/// [`PlanError`] for too many stages, a period out of range, or a stage after one that does not stand before it.
pub fn respond(stages: &[Stage], limits: &AnalysisLimits) -> Result<Vec<StageFinding>, PlanError> {
    check(stages, limits)?;
    let mut steps = Steps(limits.steps_max);
    let mut lowest: Vec<i32> = Vec::with_capacity(stages.len());
    for stage in stages {
        let before = stage.after.and_then(|after| lowest.get(after).copied());
        lowest.push(before.unwrap_or(stage.priority).min(stage.priority));
    }
    let unknown = StageFinding { response: Response::Unknown, why: None, priority_min: 0, busiest: None };
    let mut findings = vec![unknown; stages.len()];
    for priority in lowest.iter().copied().collect::<BTreeSet<_>>() {
        let level = Level::new(stages, priority, &findings);
        for (place, finding) in findings.iter_mut().enumerate() {
            if lowest.get(place) == Some(&priority) {
                *finding = level.finding(place, &mut steps);
            }
        }
    }
    // What waits before a stage without a response may be lost: nothing is said of those behind it either.
    for (place, stage) in stages.iter().enumerate() {
        let before = stage.after.and_then(|after| findings.get(after)).copied();
        let Some(before) = before.filter(|it| !matches!(it.response, Response::Worst(_))) else { continue };
        if let Some(finding) = findings.get_mut(place).filter(|it| matches!(it.response, Response::Worst(_))) {
            (finding.response, finding.why) = (Response::Unknown, before.why.or(Some(Why::Follows)));
        }
    }
    Ok(findings)
}

fn check(stages: &[Stage], limits: &AnalysisLimits) -> Result<(), PlanError> {
    if stages.len() > limits.activities_max {
        return Err(PlanError::Request(format!(
            "there are {} stages, and {} may be analysed together",
            stages.len(),
            limits.activities_max
        )));
    }
    for (index, stage) in stages.iter().enumerate() {
        let why = match stage {
            Stage { period, .. } if !(1..=TIME_MAX).contains(period) => {
                format!("the period is {period} ns, and has to be from 1 to {TIME_MAX}")
            }
            Stage { after: Some(after), .. } if *after >= index => {
                format!("it follows {after}, which does not stand before it")
            }
            _ => continue,
        };
        return Err(PlanError::Activity { index, why });
    }
    Ok(())
}

/// All work of a priority and above.
struct Level {
    /// Stages, each with its place.
    members: Vec<(usize, Activity)>,
    /// Lowest priority that their jitter depends on.
    priority_min: i32,
    /// Whether all jitter is known.
    is_bounded: bool,
}

impl Level {
    /// The findings are those of all stages that have a lower priority on their way.
    fn new(stages: &[Stage], priority: i32, findings: &[StageFinding]) -> Self {
        let mut level = Self { members: Vec::new(), priority_min: priority, is_bounded: true };
        // Of each stage, the last one below this level up to it.
        let mut below: Vec<Option<usize>> = Vec::with_capacity(stages.len());
        for (place, stage) in stages.iter().enumerate() {
            let before = stage.after.and_then(|after| below.get(after).copied().flatten());
            if stage.priority < priority {
                below.push(Some(place));
                continue;
            }
            below.push(before);
            let delay = before.and_then(|before| findings.get(before));
            level.priority_min = delay.map_or(priority, |delay| delay.priority_min).min(level.priority_min);
            let jitter = match delay.map(|delay| delay.response) {
                None => 0,
                Some(Response::Worst(time)) => time,
                Some(_) => {
                    level.is_bounded = false;
                    0
                }
            };
            let activity = Activity {
                name: String::new(),
                channel: 0,
                domain: String::new(),
                type_name: String::new(),
                period: stage.period,
                execution_time: stage.execution_time,
                deadline: u64::MAX,
                jitter,
                blocking: 0,
                criticality: 0,
            };
            level.members.push((place, activity));
        }
        level
    }

    /// The result for a stage that has no lower priority on its way.
    fn finding(&self, place: usize, steps: &mut Steps) -> StageFinding {
        let first: Vec<&Activity> = self.members.iter().filter(|(of, _)| *of != place).map(|(_, it)| it).collect();
        let (response, why) = match self.members.iter().find(|(of, _)| *of == place) {
            Some((_, own)) if self.is_bounded => response(own, &first, steps),
            _ => (Response::Unknown, Some(Why::Follows)),
        };
        let runs = |at: usize, of: &Activity| match response {
            Response::Worst(_) if at == place => 1,
            Response::Worst(time) => time.saturating_add(of.jitter).div_ceil(of.period).max(1),
            _ => 0,
        };
        let weight = |at: usize, of: &Activity| match runs(at, of) {
            0 => bounds::utilisation_floor([of].into_iter()),
            runs => u128::from(runs) * u128::from(of.execution_time),
        };
        let heaviest = self.members.iter().max_by_key(|(at, of)| weight(*at, of));
        let busiest = heaviest.map(|(at, of)| (*at, runs(*at, of)));
        StageFinding { response, why, priority_min: self.priority_min, busiest }
    }
}
