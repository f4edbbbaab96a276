//! Scheduling analysis: declared activities in, priorities and a feasibility answer out (requirement R10).
//!
//! An *activity* is a stream of events of one type on one channel, with its period, the time for which each event occupies
//! its lane, and its deadline. [`analyse`] assigns priorities (rate or deadline monotonic) and computes worst-case response
//! times, or applies a processor demand test for the policies that decide at run time (earliest deadline, least laxity,
//! maximum urgency). [`Plan`] assigns the result to lanes: the priorities of each channel, and of each event type.
//!
//! The analysis of activities is pure and exact in integers of nanoseconds; an analysis takes a bounded number of steps
//! ([`AnalysisLimits`]) and returns [`Outcome::Inconclusive`] where that is not enough.
//!
//! [`respond`] is about chains of activities whose priorities are given: the plans of components (requirement C4).
//!
//! [`tempo`] is about topics with shares instead: their guaranteed rates, and their delays as queues.
//!
//! The service's lanes in terms of the theory:
//!
//! - Lanes are threads of `SCHED_FIFO`: a lane of a higher priority preempts one of a lower. One activity to a lane is
//!   preemptive fixed-priority scheduling, and the response times are those of Joseph and Pandya (1986), Audsley et al. (1993),
//!   and Lehoczky (1990) and Tindell et al. (1994) where a response may take longer than a period.
//! - A lane carries one event at a time. Activities that share a lane are each assumed to wait for all the others of it,
//!   which bounds any order that the lane takes them in.
//! - A dynamic policy is the discipline inside one lane, so it is analysed without preemption between events.

mod bounds;
mod chains;
mod dynamic;
mod file;
mod fixed;
mod placement;
mod plan;
pub mod tempo;
#[cfg(test)]
mod tests;

pub use chains::{Stage, StageFinding, respond};
pub use file::{FileError, PlanningFile, format_time, parse_time};
pub use plan::{Plan, PlannedChannel, PlannedLane, PlannedTopic};

use core::fmt;

/// Longest time of any figure of an activity, in nanoseconds: about three years.
pub const TIME_MAX: u64 = 100_000_000_000_000_000;

/// Most activities with missed deadlines named in an explanation; the others are counted.
const MISSES_NAMED: usize = 8;

/// Highest priority of Real-time CORBA.
pub const PRIORITY_MAX: i16 = 32_767;

/// A stream of events of one type on one channel. All times are in nanoseconds, up to [`TIME_MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Name; unique in a set, and the tie-break between equally urgent activities.
    pub name: String,
    /// Number of the channel.
    pub channel: u32,
    /// Domain of the events' type.
    pub domain: String,
    /// Name of the events' type.
    pub type_name: String,
    /// Period, or minimum interval between two events. At least 1.
    pub period: u64,
    /// Longest time for which one event occupies its lane, including the rest of its processing on the same processor
    /// and at the same priority. At least 1.
    pub execution_time: u64,
    /// Deadline of an event, counted from when it is due. At least 1; may exceed the period.
    pub deadline: u64,
    /// Longest delay of an event after it is due.
    pub jitter: u64,
    /// Longest time for which less urgent work may block the event: a section without preemption, or the operating
    /// system itself.
    pub blocking: u64,
    /// Criticality, larger is more: the first criterion of maximum urgency, and the tie-break of other policies.
    pub criticality: i16,
}

/// Order of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The shortest period has the highest priority (Liu and Layland 1973).
    RateMonotonic,
    /// The shortest deadline has the highest priority (Leung and Whitehead 1982).
    DeadlineMonotonic,
    /// The earliest absolute deadline first, at any moment.
    EarliestDeadline,
    /// The least laxity at any moment: time until the deadline, less the execution time.
    LeastLaxity,
    /// The most critical, and among equals the least laxity (Stewart and Khosla 1991).
    MaximumUrgency,
}

impl Policy {
    /// The default policy for a set of activities: deadline monotonic where a deadline is shorter than its period, else rate
    /// monotonic.
    #[must_use]
    pub fn automatic(activities: &[Activity]) -> Self {
        let short = activities.iter().any(|activity| activity.deadline < activity.period);
        if short { Self::DeadlineMonotonic } else { Self::RateMonotonic }
    }

    /// Whether it decides at run time, inside one lane, rather than by a priority assigned beforehand.
    #[must_use]
    pub const fn is_dynamic(self) -> bool {
        matches!(self, Self::EarliestDeadline | Self::LeastLaxity | Self::MaximumUrgency)
    }

    /// `rm`, `dm`, `edf`, `llf` or `muf`.
    #[must_use]
    pub const fn short_name(self) -> &'static str {
        match self {
            Self::RateMonotonic => "rm",
            Self::DeadlineMonotonic => "dm",
            Self::EarliestDeadline => "edf",
            Self::LeastLaxity => "llf",
            Self::MaximumUrgency => "muf",
        }
    }

    /// The policy with this short name.
    #[must_use]
    pub fn of_short_name(name: &str) -> Option<Self> {
        [Self::RateMonotonic, Self::DeadlineMonotonic, Self::EarliestDeadline, Self::LeastLaxity, Self::MaximumUrgency]
            .into_iter()
            .find(|policy| policy.short_name() == name)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RateMonotonic => "rate monotonic",
            Self::DeadlineMonotonic => "deadline monotonic",
            Self::EarliestDeadline => "earliest deadline first",
            Self::LeastLaxity => "least laxity first",
            Self::MaximumUrgency => "maximum urgency first",
        })
    }
}

/// Parameters of an analysis, beside the activities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The policy; by default [`Policy::automatic`].
    pub policy: Option<Policy>,
    /// Number of processors on which lanes may be pinned, 1 to 64. Each activity is on one of them (partitioned, first fit).
    pub cpus: u16,
    /// Most lanes, 1 to 64. If there are more activities, some share a lane.
    pub lanes_max: u16,
}

impl Default for Request {
    fn default() -> Self {
        Self { policy: None, cpus: 1, lanes_max: 64 }
    }
}

/// Limits of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnalysisLimits {
    /// Most activities in a set.
    pub activities_max: usize,
    /// Most terms added in all; each takes some nanoseconds. A set not decided by then is [`Outcome::Inconclusive`].
    pub steps_max: u64,
}

impl AnalysisLimits {
    /// Limits for a service with other work to do: half a second at most, on the administration thread.
    pub const SERVICE: Self = Self { activities_max: 4096, steps_max: 50_000_000 };
    /// Limits for an interactive command: some ten seconds at most.
    pub const COMMAND: Self = Self { activities_max: 4096, steps_max: 1_000_000_000 };
}

/// Reason for which a set of activities is not analysed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// An activity is invalid.
    Activity {
        /// Index in the set.
        index: usize,
        /// What is wrong with it, and what is expected.
        why: String,
    },
    /// The set is empty or too large, or the request is invalid.
    Request(String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Activity { index, why } => write!(f, "activity {index}: {why}"),
            Self::Request(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for PlanError {}

/// Whether every event meets its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All deadlines are met in every case that the activities' figures allow.
    Feasible,
    /// A deadline is missed in some case.
    Infeasible,
    /// The analysis cannot decide.
    Inconclusive(Why),
}

/// Reason for which an analysis cannot decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It would exceed [`AnalysisLimits::steps_max`].
    StepsSpent,
    /// A sum exceeds 64 bits.
    Overflow,
    /// The test is sufficient only, and it failed; that no other order would do is not shown either.
    NotShown,
    /// It depends on work that follows a stage of a lower priority, whose response has no bound.
    Follows,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StepsSpent => "the analysis would take too many steps",
            Self::Overflow => "the analysis would need numbers beyond 64 bits",
            Self::NotShown => "the test for this policy is sufficient only, and it does not hold",
            Self::Follows => "it waits for work that follows a less urgent lane, which has no bound",
        })
    }
}

/// Longest time from when an event is due until it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// This time, in nanoseconds. An upper bound where activities share a lane.
    Worst(u64),
    /// At least this time, where the analysis ended.
    AtLeast(u64),
    /// Unbounded: the work at this priority and above exceeds one processor.
    Unbounded,
    /// Not computed: the policy is dynamic, or the analysis could not decide.
    Unknown,
}

/// Result for one activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The processor, counted from 0.
    pub cpu: u16,
    /// The lane, counted from 0, which is the least urgent.
    pub lane: u16,
    /// Real-time CORBA priority of the lane, 0 to [`PRIORITY_MAX`].
    pub priority: i16,
    /// Longest response.
    pub response: Response,
    /// Time by which the deadline is missed, in nanoseconds; `None` if it is met, or that is not known.
    pub late_by: Option<u64>,
}

/// An interval with more work than its length, found for a dynamic policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overload {
    /// Length, in nanoseconds.
    pub interval: u64,
    /// Work that may be due in it, in nanoseconds.
    pub demand: u64,
    /// The activity with its deadline at the end of the interval.
    pub activity: usize,
}

/// Result of an analysis.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// The policy that was applied.
    pub policy: Policy,
    /// Whether all deadlines are met.
    pub outcome: Outcome,
    /// Results for each activity, in the order of the input.
    pub findings: Vec<Finding>,
    /// Utilisation of each processor: the sum of execution times over periods.
    pub utilisation: Vec<f64>,
    /// Liu and Layland's bound for as many activities on one processor: n (2^(1/n) − 1). At or below it rate monotonic
    /// priorities suffice where deadlines are periods, and nothing blocks or jitters.
    pub liu_layland_bound: f64,
    /// The product of all utilisations + 1, of the processor with the largest. At or below 2, rate monotonic
    /// priorities suffice likewise (Bini, Buttazzo and Buttazzo 2003).
    pub hyperbolic_product: f64,
    /// Of a dynamic policy: the first overloaded interval found.
    pub overload: Option<Overload>,
}

impl Analysis {
    /// The result in a few sentences: which activities miss their deadlines, and by how much.
    #[must_use]
    pub fn explain(&self, activities: &[Activity]) -> String {
        let each = activities.iter().zip(&self.findings);
        let misses = each.filter_map(|(activity, finding)| {
            let (name, deadline) = (&activity.name, format_time(activity.deadline));
            match (finding.response, finding.late_by) {
                (Response::Unbounded, _) => Some(format!(
                    "{name:?} falls behind without end: it and what comes before it need more than a processor"
                )),
                (Response::AtLeast(_), Some(by)) => {
                    Some(format!("{name:?} misses its deadline of {deadline} by at least {}", format_time(by)))
                }
                (_, Some(by)) => Some(format!("{name:?} misses its deadline of {deadline} by {}", format_time(by))),
                _ => None,
            }
        });
        let mut said: Vec<String> = misses.collect();
        if let Some(Overload { interval, demand, activity }) = self.overload {
            let name = activities.get(activity).map_or("", |activity| activity.name.as_str());
            said.push(format!(
                "in an interval of {} that ends with the deadline of {name:?}, {} may have to be done",
                format_time(interval),
                format_time(demand)
            ));
        }
        match self.outcome {
            Outcome::Feasible => "every deadline is met".to_owned(),
            Outcome::Inconclusive(why) => format!("it cannot be said whether every deadline is met: {why}"),
            Outcome::Infeasible if said.is_empty() => "there is more to do than one processor can".to_owned(),
            Outcome::Infeasible => {
                let others = said.len().saturating_sub(MISSES_NAMED);
                said.truncate(MISSES_NAMED);
                let more = if others > 0 { format!("; and {others} more") } else { String::new() };
                format!("{}{more}", said.join("; "))
            }
        }
    }

    /// Indexes of the activities from the most urgent down.
    #[must_use]
    pub fn by_urgency(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.findings.len()).collect();
        order.sort_by_key(|index| core::cmp::Reverse(self.findings.get(*index).map(|finding| finding.priority)));
        order
    }
}

/// Analyses a set of activities.
///
/// ```
/// use planning::{Activity, AnalysisLimits, Outcome, Request, Response, analyse};
/// let activity = |name: &str, period, execution_time| Activity {
///     name: name.to_owned(), channel: 0, domain: "Plant".to_owned(), type_name: name.to_owned(),
///     period, execution_time, deadline: period, jitter: 0, blocking: 0, criticality: 0,
/// };
/// let set = [activity("Pressure", 20, 5), activity("Flow", 40, 10), activity("Log", 80, 40)];
/// let analysis = analyse(&set, &Request::default(), &AnalysisLimits::SERVICE)?;
/// assert_eq!(analysis.outcome, Outcome::Feasible);
/// assert_eq!(analysis.findings[2].response, Response::Worst(80));
/// # Ok::<(), planning::PlanError>(())
/// ```
///
/// # Errors
/// [`PlanError`] for activities or a request that make no sense.
pub fn analyse(activities: &[Activity], request: &Request, limits: &AnalysisLimits) -> Result<Analysis, PlanError> {
    check(activities, request, limits)?;
    let policy = request.policy.unwrap_or_else(|| Policy::automatic(activities));
    let mut steps = Steps(limits.steps_max);
    if policy.is_dynamic() {
        dynamic::analyse(activities, policy, request, &mut steps)
    } else {
        Ok(fixed::analyse(activities, policy, request, &mut steps))
    }
}

/// Steps left for an analysis.
struct Steps(u64);

impl Steps {
    /// Spends steps; an error when fewer are left.
    fn spend(&mut self, count: usize) -> Result<(), Why> {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.0 = self.0.checked_sub(count).ok_or(Why::StepsSpent)?;
        Ok(())
    }
}

fn check(activities: &[Activity], request: &Request, limits: &AnalysisLimits) -> Result<(), PlanError> {
    if activities.is_empty() {
        return Err(PlanError::Request("there are no activities".to_owned()));
    }
    if activities.len() > limits.activities_max {
        return Err(PlanError::Request(format!(
            "there are {} activities, and {} may be analysed together",
            activities.len(),
            limits.activities_max
        )));
    }
    for (value, name) in [(request.cpus, "cpus"), (request.lanes_max, "lanes_max")] {
        if !(1..=64).contains(&value) {
            return Err(PlanError::Request(format!("{name} is {value}, and has to be from 1 to 64")));
        }
    }
    if request.cpus > request.lanes_max {
        return Err(PlanError::Request(format!(
            "lanes_max is {}, less than cpus, which is {}: each processor needs a lane",
            request.lanes_max, request.cpus
        )));
    }
    let mut names = std::collections::BTreeSet::new();
    for (index, activity) in activities.iter().enumerate() {
        check_activity(activity).map_err(|why| PlanError::Activity { index, why })?;
        if !names.insert(activity.name.as_str()) {
            let why = format!("another activity is called {:?}, too; names have to differ", activity.name);
            return Err(PlanError::Activity { index, why });
        }
    }
    Ok(())
}

fn check_activity(activity: &Activity) -> Result<(), String> {
    if activity.name.is_empty() {
        return Err("it has no name".to_owned());
    }
    let times = [
        ("period", activity.period, 1),
        ("execution time", activity.execution_time, 1),
        ("deadline", activity.deadline, 1),
        ("jitter", activity.jitter, 0),
        ("blocking", activity.blocking, 0),
    ];
    for (name, value, least) in times {
        if value < least {
            return Err(format!("the {name} of {:?} is 0; it has to be at least 1 ns", activity.name));
        }
        if value > TIME_MAX {
            return Err(format!(
                "the {name} of {:?} is {value} ns, and must not be more than {TIME_MAX} ns (three years)",
                activity.name
            ));
        }
    }
    Ok(())
}
