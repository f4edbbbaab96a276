//! A channel as its lane sees it: its outboxes, where events of each type go, and what its events take.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use hashbrown::HashSet;

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
    /// Slots of its outboxes, by the places in `routes.consumers`; [`ELSEWHERE`] where there is no consumer, or one that is not on this
    /// lane.
    pub(super) members: Vec<u32>,
    /// Its bridges, by rising lane.
    pub(super) bridges: Vec<Bridge>,
    /// How many consumers here have places on other lanes too.
    pub(super) parted: u32,
    /// Its part of the channel's limits.
    pub(super) quota: Quota,
    /// What the events of all channels may take together.
    shared: Option<Arc<MemoryPool>>,
    pub(super) destinations: Destinations,
    /// The event types of which events have come to it.
    pub(super) types: HashSet<TypeId>,

    /// All its events here, and the suppliers held while these are too many.
    pub(super) all: Room,
    /// Those of its events that other lanes handed over, and these lanes. They are held for the sake of these events only:
    /// what is handed over to other lanes leaves when those have room, so that lanes that waited for it here as well
    /// could wait for each other without end.
    pub(super) taken: Room,
    /// Those that are kept elsewhere.
    pub(super) depot: Depot,
    /// Its history, if it keeps that and this is the lane which does.
    pub(super) history: Option<Box<History>>,
    /// Replies withheld for whatever reason.
    pub(super) withheld: u64,
    /// What its events came to here.
    pub(super) traffic: Traffic,
    /// Slots of outboxes that were found to be the slow consumer since the channel last had room.
    pub(super) slow_consumers: Vec<u32>,
    pub(super) known_slow_consumer: Option<SlowConsumer>,
    /// It is among those that are looked at because others have to release memory.
    pub(super) is_listed_short: bool,
    /// Slots of outboxes that are [charged](super::hold_budget) for what they block suppliers.
    pub(super) charged: Vec<u32>,
    /// What was spent of the time for which consumers may block suppliers.
    pub(super) hold_budgets: Budgets,
    /// When suppliers were first held since the channel last had room.
    pub(super) pressed_since: Option<Time>,
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
pub(super) struct Quota {
    pub(super) budget_bytes: u64,
    pub(super) overflow_bytes: u64,
    pub(super) max_queue_length: Option<u32>,
}

impl Quota {
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
        let budget_bytes = (limits.memory_budget_bytes / lanes).max(1);
        Self { budget_bytes, overflow_bytes: limits.overflow_budget_bytes / lanes, max_queue_length }
    }
}

/// Why a channel's suppliers are blocked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) over: Over,
    /// The outbox with the largest backlog, if it is the reason.
    pub(super) by: Option<(u32, BlockedBy)>,
    /// Since when that is so of this outbox.
    pub(super) since: Time,
    pub(super) blocked_events: u64,
    /// When to look for the consumer that has taken nothing for too long; [`Entry::NEVER`] if not.
    pub(super) look_at: Time,
    /// What is under way to the room elsewhere is the reason.
    pub(super) for_keeper: bool,
}

impl Hold {
    /// Whether this outbox is the reason.
    pub(super) fn is_by(&self, slot: u32) -> bool {
        self.by.is_some_and(|(by, _)| by == slot)
    }

    pub(super) const fn new(over: Over, by: Option<(u32, BlockedBy)>) -> Self {
        Self { over, by, since: Time(0), blocked_events: 0, look_at: Entry::NEVER, for_keeper: false }
    }
}

/// The outbox with the largest backlog, as long as it is larger than `rivals_weight`, which no other exceeds.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowConsumer {
    pub(super) slot: u32,
    pub(super) order: Reverse<ProxyId>,
    pub(super) rivals_weight: u64,
}

/// What some of a channel's events take, and the senders that wait because it is too much.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// What they are charged, in bytes, and how many there are.
    pub(super) used_bytes: u64,
    pub(super) events: u64,
    /// Set while senders are held for the sake of the channel's limits, with those that are.
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

/// The senders that hand events in, and are held if there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Suppliers,
    Lanes,
}

impl Whose {
    pub(super) const ALL: [Self; 2] = [Self::Suppliers, Self::Lanes];
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

    /// Why an event is dropped for that.
    pub(super) fn reason(self) -> DiscardReason {
        if self.memory { DiscardReason::MemorySpent } else { DiscardReason::QueueFull }
    }
}

impl ChannelState {
    /// One that shares these with others: memory, and the room elsewhere.
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
            destinations: Destinations::default(),
            types: HashSet::new(),
            all: Room::default(),
            taken: Room::default(),
            depot: Depot::new(elsewhere),
            history: None,
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

    /// Which limits so many more events of so many bytes together would exceed, `times` over.
    pub(super) fn over(&self, whose: Whose, events: u64, bytes: u64, times: u64) -> Over {
        let Quota { budget_bytes, max_queue_length, .. } = self.quota;
        let (room, max_queue) = (self.room(whose), max_queue_length.map(|max| u64::from(max) * times));
        let is_shared_fairly = self.shared.as_ref().is_none_or(|all| all.allows(self.all.used_bytes, bytes, times > 1));
        Over {
            memory: room.used_bytes.saturating_add(bytes) > budget_bytes.saturating_mul(times) || !is_shared_fairly,
            queue: max_queue.is_some_and(|max| room.events + self.depot.events() + events > max),
        }
    }

    /// Whether all channels have too little memory left for twice what it has.
    pub(super) fn would_be_short_with(&self, more: u64) -> bool {
        self.shared.as_ref().is_some_and(|all| !all.allows(self.all.used_bytes, more, false))
    }

    /// Whether its events may not take more because of what those of all channels take, and not because of its own budget.
    pub(super) fn is_short_of_shared(&self, whose: Whose) -> bool {
        let within_budget = self.room(whose).used_bytes <= self.quota.budget_bytes;
        within_budget && self.shared.as_ref().is_some_and(|all| !all.has_room_again(self.all.used_bytes))
    }

    /// Whether the limits named are kept again, by an eighth so that "held" does not flutter.
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

    /// Of those that wait for room, how many do yet: as many as events are too many by. They go on one by one as events leave, at the pace
    /// at which these are taken.
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

    /// The slot of a consumer's outbox, by its place; [`ELSEWHERE`] if there is none here.
    #[inline]
    pub(super) fn slot_of(&self, member: u32) -> u32 {
        self.members.get(member as usize).copied().unwrap_or(ELSEWHERE)
    }

    /// Slots of all its outboxes here, its consumers' and its bridges'.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        self.members.iter().copied().chain(self.bridges.iter().map(|bridge| bridge.slot))
    }

    /// Whether room is waited for.
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
