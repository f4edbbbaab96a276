//! `[lanes]`: how lanes run, and how they schedule topics.

use serde::{Deserialize, Serialize};

use super::TimeDriven;

/// The threads that carry events: the main lane, and those of thread pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lanes {
    /// Threads that all thread pools together may have, 1 to 256. Default 64. A pool that would have more is refused.
    pub threads_max: u16,
    /// How the threads of pools are scheduled. Default `fifo`.
    pub scheduling: Scheduling,
    /// How a lane's CORBA priority becomes a native one. Default `linear`.
    pub priority_mapping: PriorityMapping,
    /// Scheduling among the topics of the main lane. Default `shares`. A pool's lanes have the QoS property `Discipline`.
    pub discipline: Discipline,
    /// The CORBA priority of the main lane, 0 to 32,767. Default: none, and it is scheduled as an ordinary thread.
    pub main_priority: Option<u16>,
    /// The main lane is released so often, in microseconds, 100 to 1,000,000, and serves then what has come since. Default 0: it serves
    /// whatever comes at once.
    pub main_period_us: u32,
    /// For so many microseconds of a processor's time in each such period, 10 to `main_period_us`. Default 0, as without a period.
    pub main_budget_us: u32,
    /// The processors on which lanes run, by number. Default: none are named, and they run on all.
    pub cpus: Vec<u16>,
    /// Whether all memory of the process is kept from being paged out. Default false.
    pub lock_memory: bool,
    /// Lanes of pools that run by the clock, by their priority. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub time_driven: Vec<TimeDriven>,
}

/// How the threads of pools are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheduling {
    /// `SCHED_FIFO` where the process may do that, which is said at the start if not; otherwise as ordinary threads.
    #[default]
    Fifo,
    /// As ordinary threads.
    Ordinary,
}

/// Scheduling among the topics that wait in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// Each by its share, within which the earliest deadline comes first.
    #[default]
    Shares,
    /// The one with the earliest deadline.
    EarliestDeadline,
    /// The one with the least time to spare.
    LeastLaxity,
    /// The most critical one; among equals the one with the least time to spare.
    MaximumUrgency,
}

impl Discipline {
    pub(crate) const fn of_lane(self) -> engine::Discipline {
        match self {
            Self::Shares => engine::Discipline::Shares,
            Self::EarliestDeadline => engine::Discipline::EarliestDeadline,
            Self::LeastLaxity => engine::Discipline::LeastLaxity,
            Self::MaximumUrgency => engine::Discipline::MaximumUrgency,
        }
    }
}

/// How a CORBA priority (0 to 32,767) becomes a native one (1 to 98).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PriorityMapping {
    /// Over the whole range: `1 + p · 97 / 32767`.
    #[default]
    Linear,
    /// As it is, within 1 to 98.
    Direct,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            threads_max: 64,
            scheduling: Scheduling::default(),
            priority_mapping: PriorityMapping::default(),
            discipline: Discipline::default(),
            main_priority: None,
            main_period_us: 0,
            main_budget_us: 0,
            cpus: Vec::new(),
            lock_memory: false,
            time_driven: Vec::new(),
        }
    }
}
