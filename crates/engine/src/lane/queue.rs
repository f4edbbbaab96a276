//! The events that wait for one consumer: which is delivered next, which goes if one must, which expires when.
//!
//! Events that wait in the order of their arrival and never expire are in a ring, which costs next to nothing; all
//! others are in a [`Store`], where each operation takes as many steps as the logarithm of how many there are. Both can
//! have some at the same time: the next is then the earlier of their two firsts.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::Questions;
use super::store::{Heap, Store};
use crate::{DiscardPolicy, Event, OrderPolicy, OutboxSettings, Time};

/// Beyond this many places a ring, or a store, is cut back when it has run empty.
const RETAINED_PLACES: usize = 4_096;
const RETAINED_STORE_PLACES: usize = 1_024;

/// An event that waits for a consumer, or is unanswered by it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) event: Arc<Event>,
    /// From when on it may be delivered. It is in line as if it had arrived then.
    pub(super) since: Time,
    /// When it expires; [`Entry::NEVER`] if it does not.
    pub(super) expiry: Time,
    pub(super) priority: i16,
    pub(super) ask: Option<Questions>,
}

impl Entry {
    pub(super) const NEVER: Time = Time(u64::MAX);

    /// Its place in a line by arrival.
    fn turn(&self) -> (Time, u64) {
        (self.since, self.event.serial)
    }
}

/// By what the waiting events are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) order: OrderPolicy,
    pub(super) discard: DiscardPolicy,
    /// Whether it must be known which has waited for longest.
    pub(super) paced: bool,
}

impl Policy {
    pub(super) fn of(settings: &OutboxSettings, batches: bool) -> Self {
        let paced = batches && !settings.pacing_interval.is_zero();
        Self { order: settings.order_policy, discard: settings.discard_policy, paced }
    }

    /// Whether a ring will do.
    fn is_by_arrival(self) -> bool {
        matches!(self.order, OrderPolicy::Any | OrderPolicy::Fifo)
            && matches!(self.discard, DiscardPolicy::Any | DiscardPolicy::Fifo | DiscardPolicy::Lifo)
    }

    /// Whether the one that has waited for longest is asked for and is not simply the next.
    pub(super) fn ages(self) -> bool {
        self.paced && !matches!(self.order, OrderPolicy::Any | OrderPolicy::Fifo)
    }
}

/// An event in the ring: it waits since it arrived, and never expires.
#[derive(Debug)]
struct Plain {
    event: Arc<Event>,
    priority: i16,
    ask: Option<Questions>,
}

impl Plain {
    fn turn(&self) -> (Time, u64) {
        (self.event.arrived, self.event.serial)
    }

    fn into_entry(self) -> Entry {
        let Self { event, priority, ask } = self;
        Entry { since: event.arrived, expiry: Entry::NEVER, event, priority, ask }
    }
}

// What a place is charged (`HOLDER_OVERHEAD_BYTES`, `SORTED_OVERHEAD_BYTES`) must cover what it takes.
const _: () = assert!(2 * size_of::<Plain>() as u64 <= crate::HOLDER_OVERHEAD_BYTES);

#[derive(Debug, Default)]
pub(super) struct Queue {
    policy: Policy,
    /// By turn.
    ring: VecDeque<Plain>,
    store: Store,
}

impl Queue {
    pub(super) fn new(policy: Policy) -> Self {
        let mut queue = Self::default();
        queue.set_policy(policy);
        queue
    }

    pub(super) fn policy(&self) -> Policy {
        self.policy
    }

    /// Sorts what waits by another policy.
    pub(super) fn set_policy(&mut self, policy: Policy) {
        if self.policy == policy {
            return;
        }
        self.policy = policy;
        self.store.set_policy(policy);
        if !policy.is_by_arrival() {
            while let Some(plain) = self.ring.pop_front() {
                let entry = plain.into_entry();
                let since = entry.since;
                self.store.insert(entry, since);
            }
        }
    }

    // ---- how many ----

    /// How many events wait, those whose time has not come included.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.ring.len() + self.store.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many could be delivered.
    #[inline]
    pub(super) fn ready(&self) -> usize {
        if self.is_plain() { self.ring.len() } else { self.ring.len() + self.store.count(Heap::Order) }
    }

    /// Whether all that wait do so in the order of their arrival, and none does anything by itself.
    #[inline]
    fn is_plain(&self) -> bool {
        self.store.len() == 0
    }

    /// How many wait for their time.
    pub(super) fn delayed(&self) -> usize {
        self.store.count(Heap::Start)
    }

    // ---- in and out ----

    /// Takes an event in, or back.
    pub(super) fn insert(&mut self, entry: Entry, now: Time) {
        let is_plain = entry.expiry == Entry::NEVER && entry.since <= now && entry.since == entry.event.arrived;
        if is_plain && self.policy.is_by_arrival() {
            let turn = entry.turn();
            let Entry { event, priority, ask, .. } = entry;
            let plain = Plain { event, priority, ask };
            if self.ring.back().is_none_or(|last| last.turn() < turn) {
                return self.ring.push_back(plain);
            }
            if self.ring.front().is_some_and(|first| turn < first.turn()) {
                return self.ring.push_front(plain);
            }
            // It comes back to the midst of the ring, from which it left under another policy.
            return self.store.insert(plain.into_entry(), now);
        }
        self.store.insert(entry, now);
    }

    /// Takes out the next to be delivered.
    pub(super) fn pop(&mut self) -> Option<Entry> {
        if self.is_ring_next() {
            let entry = self.pop_ring_front();
            if self.ring.is_empty() && self.ring.capacity() > RETAINED_PLACES {
                self.ring.shrink_to(RETAINED_PLACES);
            }
            return entry;
        }
        let entry = self.store.pop(Heap::Order);
        self.store.shrink_to(RETAINED_STORE_PLACES);
        entry
    }

    /// What is to be asked about the next to be delivered.
    pub(super) fn next_ask(&self) -> Option<Questions> {
        if self.is_ring_next() { self.ring.front()?.ask } else { self.store.first(Heap::Order)?.ask }
    }

    /// Takes out what the policy gives up first.
    pub(super) fn pop_discard(&mut self) -> Option<Entry> {
        let Some(stored) = self.store.first(Heap::Discard).map(|entry| entry.event.serial) else {
            return match self.policy.discard {
                DiscardPolicy::Lifo => self.ring.pop_back().map(Plain::into_entry),
                _ => self.pop_ring_front(),
            };
        };
        match self.policy.discard {
            DiscardPolicy::Lifo if self.ring.back().is_some_and(|last| last.event.serial > stored) => {
                self.ring.pop_back().map(Plain::into_entry)
            }
            DiscardPolicy::Any | DiscardPolicy::Fifo
                if self.ring.front().is_some_and(|first| first.event.serial < stored) =>
            {
                self.pop_ring_front()
            }
            _ => self.store.pop(Heap::Discard),
        }
    }

    /// Whether the policy gives up an arriving event before all that wait.
    pub(super) fn gives_up(&self, arriving: &Entry) -> bool {
        match self.policy.discard {
            // OMG Notification Service 1.1, 2.5.5, `DiscardPolicy`: with `FifoOrder` the first event received goes
            // first, with `LifoOrder` the last one received, and the last one received is this one.
            DiscardPolicy::Any | DiscardPolicy::Fifo => false,
            DiscardPolicy::Lifo => true,
            DiscardPolicy::Priority | DiscardPolicy::Deadline => {
                let first = self.store.first(Heap::Discard);
                first.is_none_or(|first| self.store.precedes(Heap::Discard, arriving, first))
            }
        }
    }

    /// Whether there is one that should have gone by itself.
    #[inline]
    pub(super) fn has_expired(&self, now: Time) -> bool {
        !self.is_plain() && self.store.first(Heap::Expiry).is_some_and(|entry| entry.expiry <= now)
    }

    /// Takes out one that has expired.
    pub(super) fn pop_expired(&mut self, now: Time) -> Option<Entry> {
        if !self.has_expired(now) {
            return None;
        }
        let entry = self.store.pop(Heap::Expiry);
        self.store.shrink_to(RETAINED_STORE_PLACES);
        entry
    }

    /// Lets one be delivered whose time has come. Says whether there was one.
    pub(super) fn start(&mut self, now: Time) -> bool {
        self.store.start(now)
    }

    /// Takes out any, in the order of delivery, those last whose time has not come.
    pub(super) fn pop_any(&mut self) -> Option<Entry> {
        self.pop().or_else(|| self.store.pop(Heap::Start))
    }

    // ---- when ----

    /// Since when the one has waited that has waited for longest. Only known if the policy is paced.
    pub(super) fn oldest(&self) -> Option<Time> {
        let heap = if self.policy.ages() { Heap::Age } else { Heap::Order };
        let stored = self.store.first(heap).map(|entry| entry.since);
        let ringed = self.ring.front().map(|plain| plain.event.arrived);
        stored.into_iter().chain(ringed).min()
    }

    /// When one expires or may be delivered next, if nothing else happens.
    #[inline]
    pub(super) fn next_due(&self) -> Option<Time> {
        if self.is_plain() { None } else { self.next_due_stored() }
    }

    fn next_due_stored(&self) -> Option<Time> {
        let expiry = self.store.first(Heap::Expiry).map(|entry| entry.expiry);
        let start = self.store.first(Heap::Start).map(|entry| entry.since);
        expiry.into_iter().chain(start).min()
    }

    #[inline]
    fn is_ring_next(&self) -> bool {
        if self.is_plain() {
            return !self.ring.is_empty();
        }
        match (self.ring.front(), self.store.first(Heap::Order)) {
            (Some(plain), Some(entry)) => plain.turn() < entry.turn(),
            (plain, _) => plain.is_some(),
        }
    }

    fn pop_ring_front(&mut self) -> Option<Entry> {
        self.ring.pop_front().map(Plain::into_entry)
    }
}
