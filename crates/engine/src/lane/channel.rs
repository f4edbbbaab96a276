//! A channel as its lane sees it: its outboxes, where events of each type go, and what its events take.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::counters::ChannelStats;
use super::destinations::Destinations;
use super::tickets::Waiters;
use crate::{ChannelId, ChannelRoutes, HeldBy, LaneId, PoolId, ProxyId};

#[derive(Debug)]
pub(super) struct ChannelState {
    pub(super) id: ChannelId,
    pub(super) routes: Arc<ChannelRoutes>,
    /// Slots of its outboxes, by the places in `routes.consumers`; [`ELSEWHERE`] where nobody is, or somebody that is not
    /// on this lane.
    pub(super) members: Vec<u32>,
    /// Its bridges, by rising lane.
    pub(super) bridges: Vec<Bridge>,
    /// How many consumers here have places on other lanes too.
    pub(super) parted: u32,
    /// Its part of the channel's limits.
    pub(super) share: Share,
    pub(super) destinations: Destinations,

    /// What its events are charged, in bytes, and how many there are.
    pub(super) used_bytes: u64,
    pub(super) events: u64,
    /// Set while its suppliers are held for the sake of its limits, with those that are.
    pub(super) hold: Option<Hold>,
    pub(super) waiters: Waiters,
    /// Replies withheld for whatever reason.
    pub(super) held: u64,
    /// Slots of outboxes that were found to be the laggard since the channel last had room.
    pub(super) laggards: Vec<u32>,
    pub(super) known_laggard: Option<Laggard>,
}

/// Stands for the outbox of a consumer that is not on this lane.
pub(super) const ELSEWHERE: u32 = u32::MAX;

/// The outbox for what is handed over to another lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bridge {
    pub(super) lane: LaneId,
    /// Tells lanes apart that have the same id one after the other.
    pub(super) pool: Option<PoolId>,
    pub(super) slot: u32,
}

/// A lane's part of a channel's limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) budget_bytes: u64,
    pub(super) max_queue_length: Option<u32>,
}

impl Share {
    /// An even part for each lane that the channel is on; of a queue's places, the first lanes get those that are left,
    /// and each gets one at least.
    pub(super) fn of(routes: &ChannelRoutes, lane: LaneId) -> Self {
        let lanes = u64::try_from(routes.lanes.len().max(1)).unwrap_or(u64::MAX);
        let nth = routes.lanes.iter().position(|used| used.lane == lane).unwrap_or(routes.lanes.len());
        let limits = &routes.limits;
        let max_queue_length = limits.max_queue_length.map(|max| {
            let max = u64::from(max.get());
            let part = max / lanes + u64::from((nth as u64) < max % lanes);
            u32::try_from(part.max(1)).unwrap_or(u32::MAX)
        });
        Self { budget_bytes: (limits.memory_budget_bytes / lanes).max(1), max_queue_length }
    }
}

/// Why a channel's suppliers are held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) over: Over,
    /// The outbox with the largest backlog, if it is the reason.
    pub(super) by: Option<(u32, HeldBy)>,
    pub(super) held_events: u64,
}

/// The outbox with the largest backlog, as long as it is larger than `rivals_weight`, which no other exceeds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Laggard {
    pub(super) slot: u32,
    pub(super) order: Reverse<ProxyId>,
    pub(super) rivals_weight: u64,
}

/// Which of a channel's limits are exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Over {
    pub(super) memory: bool,
    pub(super) queue: bool,
}

impl Over {
    pub(super) fn any(self) -> bool {
        self.memory || self.queue
    }
}

impl ChannelState {
    pub(super) fn new(routes: Arc<ChannelRoutes>, lane: LaneId) -> Self {
        Self {
            id: routes.id,
            share: Share::of(&routes, lane),
            routes,
            members: Vec::new(),
            bridges: Vec::new(),
            parted: 0,
            destinations: Destinations::default(),
            used_bytes: 0,
            events: 0,
            hold: None,
            waiters: Waiters::new(),
            held: 0,
            laggards: Vec::new(),
            known_laggard: None,
        }
    }

    /// Which limits so many more events of so many bytes together would exceed, `times` over.
    pub(super) fn over(&self, events: u64, bytes: u64, times: u64) -> Over {
        let Share { budget_bytes, max_queue_length } = self.share;
        let max_queue = max_queue_length.map(|max| u64::from(max) * times);
        Over {
            memory: self.used_bytes.saturating_add(bytes) > budget_bytes.saturating_mul(times),
            queue: max_queue.is_some_and(|max| self.events + events > max),
        }
    }

    /// Whether the limits named are kept again, by an eighth so that "held" does not flutter.
    pub(super) fn has_room_again(&self, over: Over) -> bool {
        let budget = self.share.budget_bytes;
        let memory = self.used_bytes <= budget - budget / 8;
        let queue = self.share.max_queue_length.is_none_or(|max| self.events <= u64::from(max - max.div_ceil(8)));
        (memory || !over.memory) && (queue || !over.queue)
    }

    /// Slots of all its outboxes here, its consumers' and its bridges'.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        self.members.iter().copied().chain(self.bridges.iter().map(|bridge| bridge.slot))
    }

    /// Whether room is waited for.
    pub(super) fn is_pressed(&self) -> bool {
        self.hold.is_some() || !self.laggards.is_empty()
    }

    pub(super) fn stats(&self) -> ChannelStats {
        ChannelStats { channel: self.id, events: self.events, memory_bytes: self.used_bytes, held: self.held }
    }
}
