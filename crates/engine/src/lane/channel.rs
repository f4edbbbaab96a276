//! A lane's state of a channel: its outboxes, the destinations for each type, and the memory its events take.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use hashbrown::HashSet;

use super::channel_timers::{ChannelTimers, Silences};
use super::counters::{ChannelStats, Traffic};
use super::destinations::Destinations;
use super::history::History;
use super::hold_budget::Budgets;
use super::memory_pool::MemoryPool;
use super::overflow::Depot;
use super::queue::Entry;
use super::tickets::Waiters;
use crate::{BlockedBy, ChannelId, ChannelRoutes, DiscardReason, LaneId, PoolId, ProxyId, Time, TypeId};

#[derive(Debug)]
pub(super) struct ChannelState {
    pub(super) id: ChannelId,
    pub(super) routes: Arc<ChannelRoutes>,
    /// Slots of outboxes, by place in `routes.consumers`; [`ELSEWHERE`] if the place has no consumer, or one on
    /// another lane.
    pub(super) members: Vec<u32>,
    /// Bridges, by rising lane.
    pub(super) bridges: Vec<Bridge>,
    /// Number of consumers here that have places on other lanes too.
    pub(super) parted: u32,
    /// Slots of outboxes here whose consumers have a correlation.
    pub(super) correlating: Vec<u32>,
    /// Place of the next one whose events make room.
    pub(super) displaced_next: usize,
    /// The lane's quota of the channel's limits.
    pub(super) quota: Quota,
    /// Memory pool of the events of all channels.
    shared: Option<Arc<MemoryPool>>,
    pub(super) destinations: Destinations,
    /// Event types of the events received.
    pub(super) types: HashSet<TypeId>,

    /// All events of the channel on this lane, and the suppliers blocked while these are too many.
    pub(super) all: Room,
    /// Events that other lanes handed over, and these lanes. They are blocked for these events only: events that are
    /// to be handed over to them leave when they have room, so that lanes blocked here for those as well could wait
    /// for each other without end.
    pub(super) taken: Room,
    /// Events stored elsewhere.
    pub(super) depot: Depot,
    /// The channel's history, if it stores one and this is the lane in charge of it.
    pub(super) history: Option<Box<History>>,
    /// The channel's timers, if it has some and this is the main lane.
    pub(super) timers: Option<Box<ChannelTimers>>,
    /// The channel's timers of silence, if it has some.
    pub(super) silences: Option<Box<Silences>>,
    /// Number of replies withheld, for whatever reason.
    pub(super) withheld: u64,
    /// Traffic of the channel on this lane.
    pub(super) traffic: Traffic,
    /// Slots of outboxes that were the slow consumer since the channel last had room.
    pub(super) slow_consumers: Vec<u32>,
    pub(super) known_slow_consumer: Option<SlowConsumer>,
    /// Whether it is in the list of channels that are short of the common memory pool.
    pub(super) is_listed_short: bool,
    /// Slots of outboxes that are [charged](super::hold_budget) for blocking suppliers.
    pub(super) charged: Vec<u32>,
    /// Time that consumers have blocked suppliers, of the time they may.
    pub(super) hold_budgets: Budgets,
    /// When suppliers were first blocked since the channel last had room.
    pub(super) pressed_since: Option<Time>,
}

/// Slot number for a consumer that is not on this lane.
pub(super) const ELSEWHERE: u32 = u32::MAX;

/// Outbox of the events to hand over to another lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bridge {
    pub(super) lane: LaneId,
    /// Pool of the other lane; distinguishes successive lanes with the same id.
    pub(super) pool: Option<PoolId>,
    pub(super) slot: u32,
}

/// A lane's quota of a channel's limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    pub(super) budget_bytes: u64,
    pub(super) overflow_bytes: u64,
    pub(super) max_queue_length: Option<u32>,
}

impl Quota {
    /// Even quotas for all lanes of the channel; the first lanes get the remainder of a queue's places, and each gets
    /// one at least.
    pub(super) fn of(routes: &ChannelRoutes, lane: LaneId) -> Self {
        let lanes = u64::try_from(routes.lanes.len().max(1)).unwrap_or(u64::MAX);
        let nth = routes.lanes.iter().position(|used| used.lane == lane).unwrap_or(routes.lanes.len());
        let limits = &routes.limits;
        let max_queue_length = limits.max_queue_length.map(|max| {
            let max = u64::from(max.get());
            let part = max / lanes + u64::from((nth as u64) < max % lanes);
            u32::try_from(part.max(1)).unwrap_or(u32::MAX)
        });
        let budget_bytes = (limits.memory_budget_bytes / lanes).max(1);
        Self { budget_bytes, overflow_bytes: limits.overflow_budget_bytes / lanes, max_queue_length }
    }
}

/// Reason for which a channel's suppliers are blocked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) over: Over,
    /// The outbox with the largest backlog, if that is the reason.
    pub(super) by: Option<(u32, BlockedBy)>,
    /// Since when this outbox has been the reason.
    pub(super) since: Time,
    pub(super) blocked_events: u64,
    /// When to look for a consumer that has taken nothing for too long; [`Entry::NEVER`] if not.
    pub(super) look_at: Time,
    /// Whether events on their way to the storage elsewhere are the reason.
    pub(super) for_keeper: bool,
}

impl Hold {
    /// Whether the outbox in `slot` is the reason.
    pub(super) fn is_by(&self, slot: u32) -> bool {
        self.by.is_some_and(|(by, _)| by == slot)
    }

    pub(super) const fn new(over: Over, by: Option<(u32, BlockedBy)>) -> Self {
        Self { over, by, since: Time(0), blocked_events: 0, look_at: Entry::NEVER, for_keeper: false }
    }
}

/// The outbox with the largest backlog, valid while it is larger than `rivals_weight`, which no other exceeds.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowConsumer {
    pub(super) slot: u32,
    pub(super) order: Reverse<ProxyId>,
    pub(super) rivals_weight: u64,
}

/// Memory of some of a channel's events, and the senders blocked because it is too much.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Charged bytes, and number of events.
    pub(super) used_bytes: u64,
    pub(super) events: u64,
    /// Set while senders are blocked by the channel's limits, with the reason.
    pub(super) hold: Option<Hold>,
    pub(super) waiters: Waiters,
}

impl Room {
    pub(super) fn add(&mut self, bytes: u64) {
        self.used_bytes += bytes;
        self.events += 1;
    }

    pub(super) fn remove(&mut self, bytes: u64) {
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
        self.events = self.events.saturating_sub(1);
    }
}

/// Kind of senders that hand events in, and are blocked if there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Suppliers,
    Lanes,
}

impl Whose {
    pub(super) const ALL: [Self; 2] = [Self::Suppliers, Self::Lanes];
}

/// The exceeded limits of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Over {
    pub(super) memory: bool,
    pub(super) queue: bool,
}

impl Over {
    pub(super) fn any(self) -> bool {
        self.memory || self.queue
    }

    /// Reason of a drop for these limits.
    pub(super) fn reason(self) -> DiscardReason {
        if self.memory { DiscardReason::MemorySpent } else { DiscardReason::QueueFull }
    }
}

impl ChannelState {
    /// A channel that shares the memory pool and the storage pool with others.
    pub(super) fn new(
        routes: Arc<ChannelRoutes>,
        lane: LaneId,
        (shared, elsewhere): (Option<Arc<MemoryPool>>, Option<Arc<MemoryPool>>),
    ) -> Self {
        Self {
            id: routes.id,
            quota: Quota::of(&routes, lane),
            shared,
            routes,
            members: Vec::new(),
            bridges: Vec::new(),
            parted: 0,
            correlating: Vec::new(),
            displaced_next: 0,
            destinations: Destinations::default(),
            types: HashSet::new(),
            all: Room::default(),
            taken: Room::default(),
            depot: Depot::new(elsewhere),
            history: None,
            timers: None,
            silences: None,
            withheld: 0,
            traffic: Traffic::default(),
            slow_consumers: Vec::new(),
            known_slow_consumer: None,
            is_listed_short: false,
            charged: Vec::new(),
            hold_budgets: Budgets::default(),
            pressed_since: None,
        }
    }

    pub(super) fn room(&self, whose: Whose) -> &Room {
        match whose {
            Whose::Suppliers => &self.all,
            Whose::Lanes => &self.taken,
        }
    }

    pub(super) fn room_mut(&mut self, whose: Whose) -> &mut Room {
        match whose {
            Whose::Suppliers => &mut self.all,
            Whose::Lanes => &mut self.taken,
        }
    }

    /// Limits that `events` more events of `bytes` bytes together would exceed, `times` over.
    pub(super) fn over(&self, whose: Whose, events: u64, bytes: u64, times: u64) -> Over {
        let Quota { budget_bytes, max_queue_length, .. } = self.quota;
        let (room, max_queue) = (self.room(whose), max_queue_length.map(|max| u64::from(max) * times));
        let is_shared_fairly = self.shared.as_ref().is_none_or(|all| all.allows(self.all.used_bytes, bytes, times > 1));
        Over {
            memory: room.used_bytes.saturating_add(bytes) > budget_bytes.saturating_mul(times) || !is_shared_fairly,
            queue: max_queue.is_some_and(|max| room.events + self.depot.events() + events > max),
        }
    }

    /// Whether the memory pool has no room for `more` bytes of this channel.
    pub(super) fn would_be_short_with(&self, more: u64) -> bool {
        self.shared.as_ref().is_some_and(|all| !all.allows(self.all.used_bytes, more, false))
    }

    /// Whether the memory pool, and not the channel's own budget, is what its events lack.
    pub(super) fn is_short_of_shared(&self, whose: Whose) -> bool {
        let within_budget = self.room(whose).used_bytes <= self.quota.budget_bytes;
        within_budget && self.shared.as_ref().is_some_and(|all| !all.has_room_again(self.all.used_bytes))
    }

    /// Whether usage is below the exceeded limits again by an eighth, so that blocking does not flutter.
    pub(super) fn has_room_again(&self, whose: Whose, over: Over) -> bool {
        let (room, budget) = (self.room(whose), self.quota.budget_bytes);
        let is_shared_fairly = self.shared.as_ref().is_none_or(|all| all.has_room_again(self.all.used_bytes));
        let memory = room.used_bytes <= budget - budget / 8 && is_shared_fairly;
        let queue = self
            .quota
            .max_queue_length
            .is_none_or(|max| room.events + self.depot.events() <= u64::from(max - max.div_ceil(8)));
        (memory || !over.memory) && (queue || !over.queue)
    }

    /// Number of the waiting senders that stay blocked: as many as there are events too many. The others go on one by
    /// one as events leave, at the pace at which these are taken.
    pub(super) fn still_blocked(&self, whose: Whose, over: Over) -> u64 {
        let (room, budget) = (self.room(whose), self.quota.budget_bytes);
        let (mean, is_short) = (room.used_bytes / room.events.max(1), self.is_short_of_shared(whose));
        let by_memory = match over.memory {
            true if is_short => u64::MAX,
            true => room.used_bytes.saturating_sub(budget.saturating_sub(mean)).div_ceil(mean.max(1)),
            false => 0,
        };
        let max = self.quota.max_queue_length.filter(|_| over.queue);
        let by_queue = max.map_or(0, |max| (room.events + self.depot.events() + 1).saturating_sub(max.into()));
        by_memory.max(by_queue)
    }

    /// Slot of a consumer's outbox, by its place; [`ELSEWHERE`] if there is none here.
    #[inline]
    pub(super) fn slot_of(&self, member: u32) -> u32 {
        self.members.get(member as usize).copied().unwrap_or(ELSEWHERE)
    }

    /// Slots of all outboxes here: of consumers and bridges.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        self.members.iter().copied().chain(self.bridges.iter().map(|bridge| bridge.slot))
    }

    /// Whether senders wait for room.
    pub(super) fn is_pressed(&self) -> bool {
        self.all.hold.is_some()
            || self.taken.hold.is_some()
            || !self.slow_consumers.is_empty()
            || self.pressed_since.is_some()
    }

    pub(super) fn stats(&self) -> ChannelStats {
        ChannelStats {
            channel: self.id,
            events: self.all.events,
            memory_bytes: self.all.used_bytes,
            withheld: self.withheld,
            traffic: self.traffic,
        }
    }
}
