//! The waiting events of one consumer: which is delivered next, which is discarded next, which expires when.
//!
//! Events that wait in the order of their arrival and never expire are in a ring, which costs next to nothing; all
//! others are in a [`Sorted`], where each operation costs the logarithm of the number of events. Both can have some at
//! the same time: the next is then the earlier of their two firsts.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::RemoteFilterGroups;
use super::events::Events;
use super::sets::Sets;
use super::sorted::{Heap, Sorted};
use crate::event::EventAt;
use crate::{DiscardPolicy, OrderPolicy, OutboxSettings, Time};

/// Capacity above which an empty ring or sorted table is shrunk.
const RETAINED_PLACES: usize = 4_096;
const RETAINED_SORTED_PLACES: usize = 1_024;

/// Remote filters to call for an event, and whether its consumer may have processed it before, in one octet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ask(u8);

impl Ask {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn of(filter_groups: RemoteFilterGroups) -> Self {
        let RemoteFilterGroups { proxy, admin, all } = filter_groups;
        Self(1 | u8::from(proxy) << 1 | u8::from(admin) << 2 | u8::from(all) << 3)
    }

    const REPEATED: u8 = 1 << 4;

    /// Whether remote filters are to be called.
    #[inline]
    pub(super) fn needs_filter_call(self) -> bool {
        self.0 & 1 == 1
    }

    /// The value for an event that its consumer may have processed before.
    pub(super) fn repeated(self) -> Self {
        Self(self.0 | Self::REPEATED)
    }

    /// Whether the event was in a batch that the consumer got and rejected, or after one.
    #[inline]
    pub(super) fn is_repeated(self) -> bool {
        self.0 & Self::REPEATED != 0
    }

    /// The value as stored elsewhere.
    pub(super) fn to_bits(self) -> u8 {
        self.0
    }

    pub(super) fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    #[inline]
    pub(super) fn filter_groups(self) -> Option<RemoteFilterGroups> {
        let says = |bit: u8| self.0 >> bit & 1 == 1;
        self.needs_filter_call().then(|| RemoteFilterGroups { proxy: says(1), admin: says(2), all: says(3) })
    }
}

/// A waiting or unanswered event of a consumer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) event: EventAt,
    pub(super) priority: i16,
    pub(super) ask: Ask,
    /// Whether it has waited since its arrival and never expires, so that the ring suffices.
    pub(super) is_plain: bool,
    /// Earliest time of delivery. It is in line as if it had arrived then. (Not stored for a plain event outside its
    /// queue: see [`Queue::put_back`].)
    pub(super) since: Time,
    /// Time of expiry; [`Entry::NEVER`] if none.
    pub(super) expiry: Time,
}

impl Entry {
    pub(super) const NEVER: Time = Time(u64::MAX);
}

/// Sort order of the waiting events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) order: OrderPolicy,
    pub(super) discard: DiscardPolicy,
    /// Whether the longest-waiting event must be known.
    pub(super) paced: bool,
}

impl Policy {
    pub(super) fn of(settings: &OutboxSettings, batches: bool) -> Self {
        let paced = batches && !settings.pacing_interval.is_zero();
        Self { order: settings.order_policy, discard: settings.discard_policy, paced }
    }

    /// The policy of a consumer with a correlation: events of a set arrived in their order, and a set leaves when it is complete.
    fn of_sets(self) -> Self {
        Self { order: OrderPolicy::Fifo, paced: false, ..self }
    }

    /// Whether the ring suffices.
    fn is_by_arrival(self) -> bool {
        matches!(self.order, OrderPolicy::Any | OrderPolicy::Fifo)
            && matches!(self.discard, DiscardPolicy::Any | DiscardPolicy::Fifo | DiscardPolicy::Lifo)
    }

    /// Whether the longest-waiting event must be known and is not simply the next.
    pub(super) fn ages(self) -> bool {
        self.paced && !matches!(self.order, OrderPolicy::Any | OrderPolicy::Fifo)
    }
}

/// An event in the ring: it has waited since its arrival, and never expires.
#[derive(Clone, Copy, Debug)]
struct Plain {
    event: EventAt,
    priority: i16,
    ask: Ask,
}

impl Plain {
    #[inline]
    fn into_entry(self) -> Entry {
        let Self { event, priority, ask } = self;
        Entry { event, priority, ask, is_plain: true, since: Time(0), expiry: Entry::NEVER }
    }
}

// The charge for an event (`HOLDER_OVERHEAD_BYTES`, `SORTED_OVERHEAD_BYTES`) must cover the memory of its entry.
const _: () = assert!(2 * size_of::<Plain>() as u64 <= crate::HOLDER_OVERHEAD_BYTES);

#[derive(Debug, Default)]
pub(super) struct Queue {
    policy: Policy,
    /// In order of delivery.
    ring: VecDeque<Plain>,
    /// Upper bound of the order in the ring.
    latest: (Time, u64),
    /// `None` until something has to be sorted or expires.
    sorted: Option<Box<Sorted>>,
    /// Of a consumer with a correlation: it gets the events of these, and the others wait.
    pub(super) sets: Option<Box<Sets>>,
}

impl Queue {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    pub(super) fn policy(&self) -> Policy {
        self.policy
    }

    pub(super) fn set_policy(&mut self, policy: Policy, events: &Events) {
        let policy = if self.sets.is_some() { policy.of_sets() } else { policy };
        if self.policy == policy {
            return;
        }
        self.policy = policy;
        if let Some(sorted) = &mut self.sorted {
            sorted.set_policy(policy);
        }
        if !policy.is_by_arrival() {
            while let Some(plain) = self.ring.pop_front() {
                let (since, serial) = events.arrival_order(plain.event);
                self.sort_in(Entry { since, ..plain.into_entry() }, serial, since);
            }
        }
    }

    fn sort_in(&mut self, entry: Entry, serial: u64, now: Time) {
        let policy = self.policy;
        self.sorted.get_or_insert_with(|| Box::new(Sorted::new(policy))).insert(entry, serial, now);
    }

    fn first(&self, heap: Heap) -> Option<&Entry> {
        self.sorted.as_ref()?.first(heap)
    }

    fn pop_stored(&mut self, heap: Heap) -> Option<Entry> {
        let sorted = self.sorted.as_mut()?;
        let entry = sorted.pop(heap);
        sorted.shrink_to(RETAINED_SORTED_PLACES);
        entry
    }

    /// Whether some waiting events become due by themselves, or do not wait in order of arrival.
    #[inline]
    pub(super) fn is_special(&self) -> bool {
        self.policy.paced || !self.is_plain()
    }

    // ---- how many ----

    /// Number of waiting events, those before their start time and those of the complete set included.
    #[inline]
    pub(super) fn len(&self) -> usize {
        let of_set = self.sets.as_ref().map_or(0, |sets| sets.ready());
        self.ring.len() + self.sorted.as_ref().map_or(0, |sorted| sorted.len()) + of_set
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of events that can be delivered: those past their start time, or of the complete set.
    #[inline]
    pub(super) fn ready(&self) -> usize {
        match &self.sets {
            None => self.started(),
            Some(sets) => sets.ready(),
        }
    }

    /// Number of waiting events past their start time.
    #[inline]
    pub(super) fn started(&self) -> usize {
        self.ring.len() + self.sorted.as_ref().map_or(0, |sorted| sorted.count(Heap::Order))
    }

    /// Number of events that wait for others of their set.
    pub(super) fn gathered(&self) -> usize {
        self.sets.as_ref().map_or(0, |sets| sets.gathered())
    }

    /// Whether all waiting events are in order of arrival, and none becomes due by itself.
    #[inline]
    fn is_plain(&self) -> bool {
        self.sorted.as_ref().is_none_or(|sorted| sorted.len() == 0)
    }

    /// Number of waiting events before their start time.
    pub(super) fn delayed(&self) -> usize {
        self.sorted.as_ref().map_or(0, |sorted| sorted.count(Heap::Start))
    }

    // ---- in and out ----

    #[inline]
    pub(super) fn insert(&mut self, entry: Entry, serial: u64, events: &Events, now: Time) {
        let arrival_order = (entry.since, serial);
        if entry.is_plain && self.latest < arrival_order && self.policy.is_by_arrival() {
            self.latest = arrival_order;
            let Entry { event, priority, ask, .. } = entry;
            return self.ring.push_back(Plain { event, priority, ask });
        }
        self.insert_sorted(entry, serial, events, now);
    }

    /// Puts an event back in its place.
    pub(super) fn put_back(&mut self, entry: Entry, events: &Events, now: Time) {
        if let Some(sets) = self.sets.as_mut().filter(|sets| sets.place(entry.event).is_some()) {
            return sets.put_back(entry);
        }
        let (arrived, serial) = events.arrival_order(entry.event);
        let since = if entry.is_plain { arrived } else { entry.since };
        self.insert_sorted(Entry { since, ..entry }, serial, events, now);
    }

    fn insert_sorted(&mut self, entry: Entry, serial: u64, events: &Events, now: Time) {
        if entry.is_plain && self.policy.is_by_arrival() {
            let (arrival_order, Entry { event, priority, ask, .. }) = ((entry.since, serial), entry);
            let plain = Plain { event, priority, ask };
            if self.ring.front().is_none_or(|first| arrival_order < events.arrival_order(first.event)) {
                self.latest = self.latest.max(arrival_order);
                return self.ring.push_front(plain);
            }
            if self.ring.back().is_some_and(|last| events.arrival_order(last.event) < arrival_order) {
                self.latest = self.latest.max(arrival_order);
                return self.ring.push_back(plain);
            }
            // The event belongs in the middle of the ring, which it left under another policy.
        }
        self.sort_in(entry, serial, now);
    }

    /// Removes the next event to be delivered.
    #[inline]
    pub(super) fn pop(&mut self, events: &Events) -> Option<Entry> {
        match &mut self.sets {
            None => self.pop_started(events),
            Some(sets) => sets.pop(),
        }
    }

    /// Removes the next of the waiting events past their start time.
    #[inline]
    pub(super) fn pop_started(&mut self, events: &Events) -> Option<Entry> {
        if !self.is_ring_next(events) {
            return self.pop_stored(Heap::Order);
        }
        let entry = self.ring.pop_front().map(Plain::into_entry);
        if self.ring.capacity() > RETAINED_PLACES && self.ring.is_empty() {
            self.ring.shrink_to(RETAINED_PLACES);
        }
        entry
    }

    /// Remote filters to call for the next event to be delivered.
    pub(super) fn next_ask(&self, events: &Events) -> Ask {
        self.next(events).map(|(ask, _)| ask).unwrap_or_default()
    }

    /// The next event, and the remote filters to call for it.
    pub(super) fn next(&self, events: &Events) -> Option<(Ask, EventAt)> {
        if let Some(sets) = &self.sets {
            return sets.next().map(|entry| (entry.ask, entry.event));
        }
        let ringed = self.ring.front().filter(|_| self.is_ring_next(events)).map(|plain| (plain.ask, plain.event));
        ringed.or_else(|| self.first(Heap::Order).map(|entry| (entry.ask, entry.event)))
    }

    /// Removes the event that the discard policy chooses; the complete set goes last.
    pub(super) fn pop_discard(&mut self, events: &Events) -> Option<Entry> {
        match self.next_discard(events) {
            None => self.pop_stored(Heap::Discard).or_else(|| self.sets.as_mut()?.pop()),
            Some(plain) if self.policy.discard == DiscardPolicy::Lifo => {
                self.ring.pop_back();
                Some(plain.into_entry())
            }
            Some(plain) => {
                self.ring.pop_front();
                Some(plain.into_entry())
            }
        }
    }

    /// The event that the discard policy chooses.
    pub(super) fn first_to_discard(&self, events: &Events) -> Option<EventAt> {
        let stored = || self.first(Heap::Discard).or_else(|| self.sets.as_ref()?.next()).map(|entry| entry.event);
        self.next_discard(events).map(|plain| plain.event).or_else(stored)
    }

    /// The event that the discard policy chooses, if it is at an end of the ring.
    fn next_discard(&self, events: &Events) -> Option<Plain> {
        let lifo = self.policy.discard == DiscardPolicy::Lifo;
        let stored = self.sorted.as_ref().and_then(|sorted| sorted.first_serial(Heap::Discard));
        let ringed = if lifo { self.ring.back() } else { self.ring.front() };
        let goes_first =
            |plain: &&Plain| stored.is_none_or(|stored| (events.arrival_order(plain.event).1 > stored) == lifo);
        ringed.filter(goes_first).copied()
    }

    /// Whether the discard policy chooses an arriving event before all waiting ones.
    pub(super) fn gives_up(&self, arriving: &Entry, serial: u64) -> bool {
        match self.policy.discard {
            // OMG Notification Service 1.1, 2.5.5, `DiscardPolicy`: with `FifoOrder` the first event received goes
            // first, with `LifoOrder` the last one received, and the last one received is this one.
            DiscardPolicy::Any | DiscardPolicy::Fifo => false,
            DiscardPolicy::Lifo => true,
            DiscardPolicy::Priority | DiscardPolicy::Deadline => {
                let Some(sorted) = &self.sorted else { return true };
                sorted.would_be_first(Heap::Discard, arriving, serial)
            }
        }
    }

    /// Whether a waiting event has expired.
    #[inline]
    pub(super) fn has_expired(&self, now: Time) -> bool {
        self.first(Heap::Expiry).is_some_and(|entry| entry.expiry <= now)
    }

    /// Removes an expired event.
    pub(super) fn pop_expired(&mut self, now: Time) -> Option<Entry> {
        if !self.has_expired(now) {
            return None;
        }
        self.pop_stored(Heap::Expiry)
    }

    /// Starts one event that has reached its start time. Returns whether there was one.
    pub(super) fn start(&mut self, now: Time) -> bool {
        self.sorted.as_mut().is_some_and(|sorted| sorted.start(now))
    }

    /// Removes any event, in the order of delivery, those before their start time last.
    pub(super) fn pop_any(&mut self, events: &Events) -> Option<Entry> {
        let of_sets = self.sets.as_mut().and_then(|sets| sets.pop_any());
        of_sets.or_else(|| self.pop_started(events)).or_else(|| self.pop_stored(Heap::Start))
    }

    /// Replaces the sets. Those of the former ones that wait for others are dropped; a set that is complete is taken apart.
    pub(super) fn set_sets(
        &mut self,
        sets: Option<Box<Sets>>,
        policy: Policy,
        events: &Events,
        now: Time,
    ) -> Option<Box<Sets>> {
        let mut former = self.sets.take();
        for entry in former.iter_mut().flat_map(|former| former.take_ready()) {
            self.put_back(entry, events, now);
        }
        self.sets = sets;
        self.set_policy(policy, events);
        former
    }

    // ---- when ----

    /// Since when the longest-waiting event has waited. Only known if the policy is paced.
    pub(super) fn oldest(&self, events: &Events) -> Option<Time> {
        let heap = if self.policy.ages() { Heap::Age } else { Heap::Order };
        let stored = self.first(heap).map(|entry| entry.since);
        let ringed = self.ring.front().map(|plain| events.arrival_order(plain.event).0);
        stored.into_iter().chain(ringed).min()
    }

    /// Since when the next event to be delivered has waited.
    pub(super) fn next_since(&self, events: &Events) -> Option<Time> {
        if let Some(next) = self.sets.as_ref().and_then(|sets| sets.next()) {
            return Some(events.arrival_order(next.event).0);
        }
        let ringed =
            self.ring.front().filter(|_| self.is_ring_next(events)).map(|plain| events.arrival_order(plain.event).0);
        ringed.or_else(|| self.first(Heap::Order).map(|entry| entry.since))
    }

    /// When an event next expires or reaches its start time.
    #[inline]
    pub(super) fn next_due(&self) -> Option<Time> {
        if self.is_plain() { None } else { self.next_due_stored() }
    }

    fn next_due_stored(&self) -> Option<Time> {
        let expiry = self.first(Heap::Expiry).map(|entry| entry.expiry);
        let start = self.first(Heap::Start).map(|entry| entry.since);
        expiry.into_iter().chain(start).min()
    }

    #[inline]
    fn is_ring_next(&self, events: &Events) -> bool {
        let Some(plain) = self.ring.front() else { return false };
        let Some(sorted) = &self.sorted else { return true };
        let stored = sorted.first(Heap::Order).map(|entry| entry.since).zip(sorted.first_serial(Heap::Order));
        stored.is_none_or(|stored| events.arrival_order(plain.event) < stored)
    }
}
