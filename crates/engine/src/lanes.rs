//! Lanes and pools as values: the threads of a pool, and the lane and priority at which a proxy is served.
//!
//! A lane is one thread of the program that runs the engine. Pools are given to channels, admins and proxies by
//! [`SettingsPatch::pool`](crate::SettingsPatch::pool); one without a pool uses the nearest above, and without any, the main lane.

use alloc::vec::Vec;

use crate::{LaneId, PoolId};

/// How an event's priority chooses the lane (the Real-time CORBA policy of the same name).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PriorityModel {
    /// By the event: the priority of its supplier's thread if known, else the priority that the event has for the consumer.
    ClientPropagated,
    /// By the pool: its `server_priority`, whatever the event says.
    #[default]
    ServerDeclared,
}

/// Which of a lane's waiting topics is served next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Discipline {
    /// The next by its share (fair queueing).
    #[default]
    Shares,
    /// The topic with the earliest deadline.
    EarliestDeadline,
    /// The topic with the least laxity (time to spare before its deadline).
    LeastLaxity,
    /// The most critical topic; among equals the one with the least laxity.
    MaximumUrgency,
}

/// Description of a pool to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// How an event's priority chooses one of the pool's lanes.
    pub model: PriorityModel,
    /// Priority of all lanes' work under [`PriorityModel::ServerDeclared`], 0..=32,767.
    pub server_priority: i16,
    /// The pool's lanes by strictly rising priority; at least one.
    pub lanes: Vec<LaneSpec>,
    /// Which topic is served next in each lane.
    pub discipline: Discipline,
    /// Capacity of each thread's hand-over queue, in events. More than 0. Default 4,096.
    pub queue_events_max: u32,
}

impl PoolSpec {
    /// Default of `queue_events_max`.
    pub const QUEUE_EVENTS_MAX: u32 = 4_096;
}

/// The threads that a pool has for one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct LaneSpec {
    /// Priority of the threads, 0..=32,767; a higher one is more important.
    pub priority: i16,
    /// Number of threads, each a lane of its own. More than 0. Proxies are distributed among them, so that all events
    /// of one consumer at one priority come from one thread.
    pub threads: u16,
}

/// A lane of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneInfo {
    /// The lane's id.
    pub id: LaneId,
    /// The pool it belongs to.
    pub pool: PoolId,
    /// Its priority, 0..=32,767.
    pub priority: i16,
    /// Which topic is served next in the lane.
    pub discipline: Discipline,
    /// Capacity of the lane's hand-over queue, in events.
    pub queue_events_max: u32,
}

/// Instruction to the owner of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneChange {
    /// Start a thread for this lane, before the next snapshot is published.
    Started(LaneInfo),
    /// End this lane's thread once every lane has picked up the latest snapshot. The number is reused after
    /// [`lane_gone`](crate::Hierarchy::lane_gone).
    Ended(LaneId),
}

/// The lane that serves a proxy at priorities from `from_priority` up to the next place's. A proxy's places are sorted
/// by `from_priority`, and that of the first is `i16::MIN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Lowest priority served here.
    pub from_priority: i16,
    /// The lane that serves these priorities.
    pub lane: LaneId,
}

impl Place {
    /// The main lane, at every priority.
    pub const MAIN: Self = Self { from_priority: i16::MIN, lane: LaneId::MAIN };

    /// The lane for `priority`: that of the last place with `from_priority` not above it, else of the first place.
    #[must_use]
    pub fn lane_for(places: &[Self], priority: i16) -> LaneId {
        let place = places.iter().rev().find(|place| place.from_priority <= priority);
        place.or(places.first()).map_or(LaneId::MAIN, |place| place.lane)
    }
}
