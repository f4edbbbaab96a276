//! Lanes and pools as values: what a pool is made of, and where a proxy is served at which priority.
//!
//! A lane is one thread of the program that runs the engine. Pools are given to channels, admins and proxies by
//! [`SettingsPatch::pool`](crate::SettingsPatch::pool); one without a pool uses the nearest above, and without any, the main lane.

use alloc::vec::Vec;

use crate::{LaneId, PoolId};

/// How an event's priority chooses the lane (the Real-time CORBA policy of the same name).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PriorityModel {
    /// The event's own: the priority of its supplier's thread if that is known, else the priority that the event has for the consumer.
    ClientPropagated,
    /// The pool's `server_priority`, whatever the event says.
    #[default]
    ServerDeclared,
}

/// Which of the topics that wait in a lane is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Discipline {
    /// Each by its share.
    #[default]
    Shares,
    /// The one with the first deadline.
    EarliestDeadline,
    /// The one with the least time to spare.
    LeastLaxity,
    /// The most critical one; among equals the one with the least time to spare.
    MaximumUrgency,
}

/// A pool of lanes to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// How an event's priority chooses among the pool's lanes.
    pub model: PriorityModel,
    /// The priority at which everything is served under [`PriorityModel::ServerDeclared`], 0..=32,767.
    pub server_priority: i16,
    /// The pool's lanes by strictly rising priority: one at least.
    pub lanes: Vec<LaneSpec>,
    /// Which topic is next in each lane.
    pub discipline: Discipline,
    /// How many events may wait in each thread's hand-over queue. More than 0. Default 4,096.
    pub queue_events_max: u32,
}

impl PoolSpec {
    /// The default `queue_events_max`.
    pub const QUEUE_EVENTS_MAX: u32 = 4_096;
}

/// The threads that a pool has for one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct LaneSpec {
    /// Their priority, 0..=32,767; more is more important.
    pub priority: i16,
    /// How many there are, each a lane of its own. More than 0. Proxies are shared out among them, so that what one
    /// consumer gets at one priority comes from one of them.
    pub threads: u16,
}

/// A lane of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneInfo {
    /// Its id.
    pub id: LaneId,
    /// The pool it belongs to.
    pub pool: PoolId,
    /// Its priority, 0..=32,767.
    pub priority: i16,
    /// Which topic is next in it.
    pub discipline: Discipline,
    /// How many events may wait in its hand-over queue.
    pub queue_events_max: u32,
}

/// What the owner of the threads is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneChange {
    /// Start a thread for this lane, before the next snapshot is published.
    Started(LaneInfo),
    /// End this lane's thread, once every lane has picked up the snapshot that was made last. Its number is used again
    /// after [`lane_gone`](crate::Hierarchy::lane_gone).
    Ended(LaneId),
}

/// Where a proxy is served at some priorities: those from `from_priority` on, up to the next place's. A proxy's places
/// rise by it, and the first one's is `i16::MIN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The lowest priority that is served here.
    pub from_priority: i16,
    /// The lane that serves it.
    pub lane: LaneId,
}

impl Place {
    /// The main lane, at every priority.
    pub const MAIN: Self = Self { from_priority: i16::MIN, lane: LaneId::MAIN };

    /// The lane for a priority: the one with the highest priority that is not above it, else the lowest.
    #[must_use]
    pub fn lane_for(places: &[Self], priority: i16) -> LaneId {
        let place = places.iter().rev().find(|place| place.from_priority <= priority);
        place.or(places.first()).map_or(LaneId::MAIN, |place| place.lane)
    }
}
