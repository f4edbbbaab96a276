//! Overflow: backlogs that exceed a channel's memory are stored elsewhere by the driver of the lane, on disk, in
//! order.
//!
//! While a channel has [a budget for that](crate::ChannelLimits::overflow_budget_bytes), its events take half of its
//! memory budget at most, except for consumers that keep up: beyond it a consumer with a backlog gets no more into its
//! outbox. Its new events are stored elsewhere, all of them, so that order holds, and are fetched in chunks as the
//! outbox gets shorter. When none is left there, the consumer goes on as before. So one that sleeps for an hour costs
//! the others nothing. `FullOutbox` decides also when the storage is full.
//!
//! An event to be stored is in memory, and charged, until the driver releases it: a slow store takes memory, and is bounded by that.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::time::Duration;

use super::admission::{Withheld, hold};
use super::channel::{ChannelState, ELSEWHERE, Whose};
use super::filtering::Chosen;
use super::history::set_number;
use super::memory_pool::MemoryPool;
use super::queue::{Ask, Entry};
use super::suppliers::{Supplier, say_all};
use super::{Lane, Outbox};
use crate::{
    ChannelId, DiscardReason, Event, Forms, HOLDER_OVERHEAD_BYTES, HistoryLimits, Notice, Origin, OutboxId,
    PendingEvent, ProxyId, ProxyKey, SORTED_OVERHEAD_BYTES, StartFrom, Time,
};

/// Storage that an event is charged beside its bytes and the names of its type.
const STORED_OVERHEAD_BYTES: u64 = 128;
/// Storage that an event is charged for each of its consumers.
const STORED_HOLDER_BYTES: u64 = 8;
/// Storage that an event is charged for its origin, if it has one, and for each hop.
const STORED_ORIGIN_BYTES: u64 = 32;
const STORED_HOP_BYTES: u64 = 8;

/// Size of an outbox from which its consumer has a backlog; less if its part of a quarter of the channel's memory is less. A consumer
/// that keeps up has some of it at times: at 20,000 events of 1 KB a second, this is what arrives in a twentieth of a second.
const BACKLOG_BYTES: u64 = 1 << 20;
/// [`BACKLOG_BYTES`] while the memory pool is short, of which a channel's part may be far less than its budget.
const BACKLOG_BYTES_IF_SHORT: u64 = 64 << 10;

/// Most bytes fetched for a consumer at a time; less if its part of a quarter of the channel's memory is less.
const CHUNK_BYTES: u64 = 256 << 10;
const CHUNK_BYTES_MIN: u64 = 4 << 10;

/// Memory of a channel from which a short memory pool makes it store events elsewhere.
const LITTLE_BYTES: u64 = 1 << 20;

/// Time without progress after which suppliers do not wait for storage any more: the disk may be full, or fail.
const STORED_WITHIN: Duration = Duration::from_secs(1);

/// An instruction to store or fetch events, from [`Lane::poll_overflow`].
#[derive(Debug)]
pub enum Overflow {
    /// Store an event for [these consumers](Event::away), by rising proxy, after all earlier ones. It is returned by
    /// [`Lane::note_stored`] when that is done, or when it is impossible and the event will not be fetched.
    Keep {
        /// The event.
        event: Arc<Event>,
        /// Most bytes that its channel may store there.
        budget_bytes: u64,
    },
    /// Fetch the oldest events stored for a consumer, about this many bytes, but at least one event: pass each to
    /// [`Lane::return_event`], and then call [`Lane::end_return`].
    Fetch {
        /// The consumer's outbox.
        outbox: OutboxId,
        /// The consumer's proxy.
        consumer: ProxyKey,
        /// Size of the chunk, in bytes.
        bytes: u32,
    },
    /// Store an event in its channel's history, after all earlier ones. It is returned by [`Lane::note_remembered`]
    /// when that is done, in order.
    Remember {
        /// The event, with its [number](Event::number).
        event: Arc<Event>,
        /// Limits of the channel's history.
        limits: HistoryLimits,
    },
    /// Fetch the next events of a channel's history for a consumer, about this many bytes: pass each to
    /// [`Lane::return_history_event`], and then call [`Lane::end_history_fetch`]. Events from earlier `Remember` are
    /// included. Nothing else may be returned in between.
    FetchHistory {
        /// The consumer's outbox.
        outbox: OutboxId,
        /// The consumer's proxy.
        consumer: ProxyKey,
        /// Start of the consumer; `None` if it continues from its position.
        start: Option<StartFrom>,
        /// Size of the chunk, in bytes; 0 at the start, which need not fetch anything.
        bytes: u32,
    },
    /// Drop the history of a channel, which stores none any more.
    Drop {
        /// The channel.
        channel: ChannelId,
    },
    /// Drop everything stored for a consumer, which will not get it.
    Forget {
        /// The consumer's proxy.
        consumer: ProxyKey,
    },
}

/// A consumer for which an event is stored elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away {
    /// The consumer's proxy.
    pub consumer: ProxyId,
    /// Remote filters to call when the event is fetched: for [`Lane::return_event`].
    pub ask: u8,
}

/// Part of a consumer's backlog that is stored elsewhere.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    /// Number of events, all of them after those in the outbox.
    pub(super) events: u64,
    /// Their size there, with [`STORED_OVERHEAD_BYTES`] each.
    pub(super) bytes: u64,
    /// Whether a chunk is being fetched.
    is_fetching: bool,
    /// Whether some were lost, to be reported when the consumer has all others.
    has_lost: bool,
}

impl Elsewhere {
    /// Whether a chunk is being fetched.
    pub(super) fn is_fetching(&self) -> bool {
        self.is_fetching
    }

    fn add(&mut self, bytes: u64) {
        self.events += 1;
        self.bytes += bytes;
    }

    /// Subtracts fetched or lost events. The size of lost ones is unknown: the average is taken.
    fn remove(&mut self, events: u64, bytes: Option<u64>) {
        let average = self.bytes / self.events.max(1);
        let bytes = bytes.unwrap_or_else(|| average.saturating_mul(events));
        self.events -= events.min(self.events);
        self.bytes = if self.events == 0 { 0 } else { self.bytes.saturating_sub(bytes) };
    }

    /// Whether nothing is stored or being fetched.
    pub(super) fn is_over(&self) -> bool {
        self.events == 0 && !self.is_fetching
    }
}

/// Storage elsewhere of a channel.
#[derive(Debug, Default)]
pub(super) struct Depot {
    budget_bytes: u64,
    used_bytes: u64,
    events: u64,
    /// Number of events that the driver has yet to release.
    under_way: u64,
    /// Time of the last release, or of the first event that has been under way since.
    stored_at: Time,
    /// Number of consumers with events there, and the total of these events.
    consumers: u32,
    holders: u64,
    /// Whether an event found no room. Stays set while there is hardly any, so that "full" does not flutter.
    is_full: bool,
    /// Storage pool of all channels.
    shared: Option<Arc<MemoryPool>>,
}

impl Depot {
    pub(super) fn new(shared: Option<Arc<MemoryPool>>) -> Self {
        Self { shared, ..Self::default() }
    }

    pub(super) fn set_budget(&mut self, bytes: u64) {
        self.budget_bytes = bytes;
    }

    /// Upper bound of the stored events that a consumer has yet to get: the lower of all stored and the sum over consumers.
    pub(super) fn events(&self) -> u64 {
        self.events.min(self.holders)
    }

    /// Subtracts consumers' events there.
    fn release_holder(&mut self, holders: u64) {
        self.holders = self.holders.saturating_sub(holders);
    }

    fn add(&mut self, bytes: u64) {
        self.used_bytes += bytes;
        self.events += 1;
        self.under_way += 1;
    }

    /// Whether events are on their way to storage, which has taken some lately.
    fn is_storing(&self, now: Time) -> bool {
        self.under_way > 0 && now < self.stored_at + STORED_WITHIN
    }

    /// Whether storage ran out, and is not below the limit again by an eighth.
    pub(super) fn is_short(&self) -> bool {
        self.is_full && (self.used_bytes > self.budget_bytes - self.budget_bytes / 8 || self.is_short_of_shared())
    }

    /// Whether storage ran out because of the pool of all channels, and not the channel's own budget.
    pub(super) fn is_short_of_shared(&self) -> bool {
        self.is_full && self.shared.as_ref().is_some_and(|all| !all.has_room_again(self.used_bytes))
    }

    /// Whether there is room for an event of this size.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let is_shared_fairly = self.shared.as_ref().is_none_or(|all| all.allows(self.used_bytes, bytes, false));
        !self.is_short() && self.used_bytes + bytes <= self.budget_bytes && is_shared_fairly
    }
}

impl ChannelState {
    /// Whether new events are stored elsewhere for consumers with a backlog, or may be for those with events there.
    #[inline]
    pub(super) fn may_overflow(&self) -> bool {
        self.depot.consumers > 0 || (self.depot.budget_bytes > 0 && self.is_half_full())
    }

    fn is_half_full(&self) -> bool {
        let used = self.all.used_bytes;
        used > self.quota.budget_bytes / 2 || (used > LITTLE_BYTES && self.would_be_short_with(used))
    }

    /// Size of an outbox from which its consumer has a backlog.
    fn backlog_bytes(&self) -> u64 {
        let is_short = self.would_be_short_with(self.all.used_bytes);
        let most = if is_short { BACKLOG_BYTES_IF_SHORT } else { BACKLOG_BYTES };
        self.part_of(self.members.len() as u64).clamp(1, most)
    }

    /// One of `consumers` equal parts of a quarter of the channel's memory.
    fn part_of(&self, consumers: u64) -> u64 {
        self.quota.budget_bytes / 4 / consumers.max(1)
    }
}

impl Event {
    /// Size that the event is charged in the storage.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        let content = (self.bytes.len() + self.names.len()) as u64;
        let hops = |origin: &Origin| STORED_ORIGIN_BYTES + STORED_HOP_BYTES * origin.hops.len() as u64;
        let origin = self.origin().map_or(0, hops);
        content + origin + STORED_OVERHEAD_BYTES + STORED_HOLDER_BYTES * self.away().len() as u64
    }
}

/// Size that the event is charged there for one consumer.
const fn stored_bytes_of_one(event: &Event) -> u64 {
    event.bytes.len() as u64 + STORED_OVERHEAD_BYTES
}

/// Pending instructions.
pub(super) type Errands = VecDeque<Overflow>;

impl Lane {
    /// The next instruction for events stored elsewhere.
    pub fn poll_overflow(&mut self) -> Option<Overflow> {
        self.news.errands.pop_front()
    }

    // ---- away ----

    /// Separates from the chosen consumers those for which the event is to be stored elsewhere.
    #[cold]
    pub(super) fn set_apart(&mut self, supplier: &Supplier, pending_event: &mut PendingEvent) {
        let Some(state) = self.channels.get(supplier.channel) else { return };
        let is_half_full = state.depot.budget_bytes > 0 && state.is_half_full();
        let backlog = state.backlog_bytes();
        let event: &mut Event = pending_event;
        let outboxes = &self.outboxes;
        self.space.filters.chosen.retain(|chosen| {
            let Some(outbox) = outboxes.get(chosen.slot).filter(|outbox| outbox.catch_up.is_none()) else {
                return true;
            };
            let goes = !outbox.elsewhere.is_over() || (is_half_full && outbox.weight >= backlog);
            if goes {
                let away = Away { consumer: outbox.key.proxy, ask: chosen.ask.to_bits() };
                event.rare.get_or_insert_default().away.push(away);
            }
            !goes
        });
        let Some(rare) = event.rare.as_mut().filter(|rare| !rare.away.is_empty()) else { return };
        // There may be very many, and readers look for one.
        rare.away.sort_unstable_by_key(|away| away.consumer);
        say_all(&self.types, supplier, event);
    }

    /// Stores an admitted event for the separated consumers, if there is room. Reports each, if the event is watched for each.
    #[cold]
    pub(super) fn keep_elsewhere(&mut self, channel: u32, entry: Entry, withheld: &mut Option<Withheld>) -> u32 {
        let Some(event) = self.events.get_mut(entry.event) else { return 0 };
        let watch = event.watch.filter(|_| event.watch_each);
        let bytes = event.stored_bytes();
        let Some(mut away) = event.rare.as_mut().map(|rare| core::mem::take(&mut rare.away)) else { return 0 };
        let Some(state) = self.channels.get_mut(channel) else { return 0 };
        let has_room = state.depot.has_room(bytes);
        let of_one = stored_bytes_of_one(event);
        if !has_room {
            self.note_no_room_elsewhere(channel);
        }
        away.retain(|away| {
            let slot = self.outbox_of(channel, away.consumer);
            let goes = slot.is_some_and(|slot| self.goes_elsewhere(slot, (entry, of_one), has_room, withheld));
            if let (Some(slot), Some(watch), true) = (slot, watch, goes) {
                self.complete_begins(watch, slot);
            }
            goes
        });
        let consumers = u32::try_from(away.len()).unwrap_or(u32::MAX);
        if let Some(rare) = self.events.get_mut(entry.event).and_then(|event| event.rare.as_mut()) {
            rare.away = away;
        }
        let Some(state) = self.channels.get_mut(channel).filter(|_| consumers > 0) else { return 0 };
        let Some(event) = self.events.get(entry.event) else { return 0 };
        if state.depot.under_way == 0 {
            state.depot.stored_at = self.now;
        }
        state.depot.add(event.stored_bytes());
        self.memory_pool.elsewhere.add(event.stored_bytes());
        self.counters.overflow.stored += u64::from(consumers);
        let (event, budget_bytes) = (Arc::clone(event), state.depot.budget_bytes);
        self.news.errands.push_back(Overflow::Keep { event, budget_bytes });
        consumers
    }

    /// Whether the event is to be stored elsewhere for this consumer. Its outbox's policy decides if that is full, or the storage is.
    fn goes_elsewhere(
        &mut self,
        slot: u32,
        (entry, bytes): (Entry, u64),
        has_room: bool,
        withheld: &mut Option<Withheld>,
    ) -> bool {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return false };
        if self.arrival.unattended && outbox.hold.holding && !outbox.hold.is_late {
            self.pass_by(slot, entry.event);
            return false;
        }
        if (outbox.is_full() || !has_room) && !self.arrival.restoring && !self.make_place(slot, &entry, has_room) {
            // Events in its memory may have been dropped.
            self.look_at_next(slot);
            return false;
        }
        let Some(outbox) = self.outboxes.get_mut(slot) else { return false };
        if let Some(state) = self.channels.get_mut(outbox.channel) {
            state.depot.consumers += u32::from(outbox.elsewhere.is_over());
            state.depot.holders += 1;
        }
        if outbox.elsewhere.is_over() {
            let (key, backlog_events, backlog_bytes) = (outbox.key, outbox.backlog() as u64, outbox.weight);
            self.news.notices.push_back(Notice::Overflows { key, backlog_events, backlog_bytes });
        }
        outbox.elsewhere.add(bytes);
        if outbox.holds_one_more() && !self.arrival.restoring && !self.arrival.unattended {
            self.space.holders.push(slot);
            hold(&mut self.tickets, outbox, withheld);
        }
        self.fetch_if_short(slot);
        true
    }

    /// Whether a channel's events are on their way to storage, which gets on with them.
    pub(super) fn keeps_elsewhere_now(&self, channel: u32) -> bool {
        self.channels.get(channel).is_some_and(|state| state.depot.is_storing(self.now))
    }

    /// Takes back an event that is stored, or cannot be.
    pub fn note_stored(&mut self, event: Arc<Event>) {
        let (channel, id) = (event.channel_slot, event.source.channel);
        self.release(event);
        let Some(state) = self.channels.get_mut(channel).filter(|state| state.id == id) else { return };
        state.depot.under_way = state.depot.under_way.saturating_sub(1);
        state.depot.stored_at = self.now;
        self.end_hold_for_keeper(channel);
    }

    /// Lets suppliers go that wait for storage, if nothing is on its way there, or storage has stopped. The next event finds out what is
    /// in the way now.
    pub(super) fn end_hold_for_keeper(&mut self, channel: u32) {
        for whose in Whose::ALL {
            let is_over = |state: &ChannelState| {
                let is_for_keeper = state.room(whose).hold.is_some_and(|hold| hold.for_keeper);
                is_for_keeper && !state.depot.is_storing(self.now)
            };
            if self.channels.get(channel).is_some_and(is_over) {
                self.end_hold(channel, whose);
            }
        }
    }

    // ---- and back ----

    /// Requests the next chunk for a consumer with events stored elsewhere, if its outbox has become short.
    #[inline]
    pub(super) fn fetch_if_short(&mut self, slot: u32) {
        let wants =
            |outbox: &Outbox| outbox.elsewhere.events > 0 || outbox.elsewhere.has_lost || outbox.catch_up.is_some();
        if self.outboxes.get(slot).is_some_and(wants) {
            self.fetch(slot);
        }
    }

    #[cold]
    fn fetch(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot).filter(|outbox| !outbox.elsewhere.is_fetching) else { return };
        let Some(state) = self.channels.get(outbox.channel) else { return };
        if outbox.elsewhere.events == 0 && outbox.catch_up.is_none() {
            let route = state.routes.consumers.place_of(outbox.key.proxy).and_then(|at| state.routes.consumers.get(at));
            // A consumer with places on other lanes may still get events there.
            let is_only_here = route.is_some_and(|route| route.places.len() == 1);
            if outbox.backlog() + outbox.waiting.gathered() == 0 && is_only_here {
                outbox.elsewhere.has_lost = false;
                self.news.completion.note_gone(outbox.key);
            }
            return;
        }
        let chunk = state.part_of(state.depot.consumers.into()).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES);
        if outbox.weight > chunk / 2 && !outbox.lacks_another() {
            return;
        }
        let bytes = u32::try_from(chunk).unwrap_or(u32::MAX);
        if outbox.catch_up.is_some() {
            return self.fetch_history(slot, bytes);
        }
        outbox.elsewhere.is_fetching = true;
        self.news.errands.push_back(Overflow::Fetch { outbox: outbox.id, consumer: outbox.key, bytes });
    }

    /// Takes back an event stored elsewhere for a consumer, the oldest of these. `ask` is its [`Away::ask`]; `source`,
    /// its [number](Event::number), and the fields of the pending event are as they were, including [its
    /// arrival](Event::arrived), from which its lifetime counts.
    pub fn return_event<F: Forms>(
        &mut self,
        (outbox, ask): (OutboxId, u8),
        (source, number): (ProxyKey, Option<NonZeroU64>),
        mut pending_event: PendingEvent,
        forms: &F,
        now: Time,
    ) {
        self.advance_time(now);
        let (slot, generation) = (outbox.slot, outbox.generation);
        let found = self.outboxes.get_exact(slot, generation).filter(|outbox| outbox.elsewhere.events > 0);
        let Some(outbox) = found else { return self.pool.give_back(pending_event.into_event()) };
        outbox.elsewhere.remove(1, Some(stored_bytes_of_one(&pending_event)));
        let (channel, key) = (outbox.channel, outbox.key);
        let Some(state) = self.channels.get_mut(channel) else { return };
        state.depot.release_holder(1);
        let member = state.routes.consumers.place_of(key.proxy).unwrap_or(ELSEWHERE);
        let event: &mut Event = &mut pending_event;
        event.returned = true;
        if let Some(number) = number {
            set_number(&mut pending_event, number);
        }
        self.counters.overflow.brought_back += 1;
        self.put_back_in(Chosen { slot, member, ask: Ask::from_bits(ask) }, source, pending_event, forms);
    }

    /// Puts an event that was stored elsewhere into an outbox.
    pub(super) fn put_back_in<F: Forms>(
        &mut self,
        chosen: Chosen,
        source: ProxyKey,
        mut pending_event: PendingEvent,
        forms: &F,
    ) {
        let Chosen { slot, ask, .. } = chosen;
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let (channel, event): (_, &mut Event) = (outbox.channel, &mut pending_event);
        // Events come back in order, whatever the clocks showed at their arrival.
        event.arrived = event.arrived.max(outbox.back_until);
        outbox.back_until = event.arrived.min(self.now);
        let Some(state) = self.channels.get(channel) else { return };
        let (priority, timeout) = pending_event.supplied();
        let supplier = Supplier { priority, timeout, ..Supplier::of(source, channel, state) };
        let known = self.know(channel, &pending_event);
        let mut steps = self.step_budget(&supplier, &pending_event);
        let weight = pending_event.weight();
        let has_times = pending_event.timeout.or(timeout).is_some()
            || pending_event.start.is_some()
            || pending_event.stop.is_some();
        let is_sorted = supplier.sorted || has_times;
        let charge = weight + if is_sorted { SORTED_OVERHEAD_BYTES } else { HOLDER_OVERHEAD_BYTES };
        let offer = self.make_offer((weight, charge), &supplier, &mut pending_event, true);
        self.news.completion.begin(&pending_event);
        let at = self.events.insert(pending_event);
        self.memory_pool.memory.add(charge);
        if let Some(state) = self.channels.get_mut(channel) {
            state.all.add(charge);
            state.known_slow_consumer = None;
        }
        let mapped = if supplier.mapped {
            self.space.filters.begin();
            self.map(chosen, (&supplier, &known), &offer, (forms, &mut steps))
        } else {
            None
        };
        let Some(outbox) = self.outboxes.get_mut(slot) else { return self.release_holder(at) };
        let entry = mapped.unwrap_or_else(|| outbox.entry(&offer, ask));
        if entry.expiry <= self.now {
            self.note_discard(slot, DiscardReason::Expired, at);
            return self.release_holder(at);
        }
        // This function held the event until now; the outbox holds it from now on.
        outbox.push(entry, &offer, &self.events, self.now);
        self.watch(slot);
        self.list_if_ready(slot);
    }

    /// Ends a fetch, all of its events having been returned. `lost` events cannot be read: they are dropped, and counted.
    pub fn end_return(&mut self, outbox: OutboxId, lost: u64, now: Time) {
        self.advance_time(now);
        let slot = outbox.slot;
        let Some(outbox) = self.outboxes.get_exact(slot, outbox.generation) else { return };
        if !core::mem::take(&mut outbox.elsewhere.is_fetching) {
            // Its consumer is gone meanwhile, and nothing is there for it any more.
            return;
        }
        let lost = lost.min(outbox.elsewhere.events);
        outbox.elsewhere.remove(lost, None);
        if lost > 0 {
            outbox.elsewhere.has_lost = true;
            if let Some(state) = self.channels.get_mut(outbox.channel) {
                state.depot.release_holder(lost);
            }
            self.count_discards(slot, DiscardReason::OverflowLost, lost);
        }
        self.note_room(slot);
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        if outbox.elsewhere.events > 0 {
            return self.fetch(slot);
        }
        let (channel, key) = (outbox.channel, outbox.key);
        self.leave_elsewhere(channel, key);
        self.news.notices.push_back(Notice::OverflowOver { key });
        self.fetch_if_short(slot);
    }

    /// Notes that a channel's storage has shrunk: `events` events are read by all their consumers, and `bytes` bytes are free.
    pub fn note_freed(&mut self, channel: ChannelId, events: u64, bytes: u64, now: Time) {
        self.advance_time(now);
        // Whether or not the channel is there yet.
        self.memory_pool.elsewhere.remove(bytes);
        let Some(channel) = self.places.slots.get(&channel).copied() else { return };
        let Some(state) = self.channels.get_mut(channel) else { return };
        let depot = &mut state.depot;
        depot.used_bytes = depot.used_bytes.saturating_sub(bytes);
        depot.events = depot.events.saturating_sub(events);
        self.note_room_elsewhere(channel);
        if self.channels.get(channel).is_some_and(ChannelState::is_pressed) {
            self.note_channel_room(channel);
        }
    }

    /// Notes that an event found no room in the storage. If the pool of all channels is short, it is checked again periodically.
    fn note_no_room_elsewhere(&mut self, channel: u32) {
        let Some(state) = self.channels.get_mut(channel) else { return };
        state.depot.is_full = true;
        if state.depot.is_short_of_shared() && self.list_short_of_room(channel) {
            self.counters.overflow.channels_short += 1;
        }
    }

    /// Checks whether the storage has room again. Called wherever less is stored or more may be.
    pub(super) fn note_room_elsewhere(&mut self, channel: u32) {
        let Some(state) = self.channels.get_mut(channel) else { return };
        if !state.depot.is_full || state.depot.is_short() {
            return;
        }
        state.depot.is_full = false;
        let slots: Vec<u32> = state.slots().collect();
        slots.into_iter().for_each(|slot| self.note_room(slot));
    }

    /// Whether the storage has no room for more of this outbox's events.
    pub(super) fn lacks_room_elsewhere(&self, outbox: &Outbox) -> bool {
        !outbox.elsewhere.is_over() && self.channels.get(outbox.channel).is_some_and(|state| state.depot.is_short())
    }

    /// Drops a consumer's events stored elsewhere, as its outbox is emptied. Returns their number.
    pub(super) fn drop_elsewhere(&mut self, slot: u32) -> u64 {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return 0 };
        if outbox.elsewhere.is_over() {
            return 0;
        }
        let events = core::mem::take(&mut outbox.elsewhere).events;
        let (channel, consumer) = (outbox.channel, outbox.key);
        if let Some(state) = self.channels.get_mut(channel) {
            state.depot.release_holder(events);
        }
        self.leave_elsewhere(channel, consumer);
        self.news.completion.note_gone(consumer);
        events
    }

    fn leave_elsewhere(&mut self, channel: u32, consumer: ProxyKey) {
        if let Some(state) = self.channels.get_mut(channel) {
            state.depot.consumers = state.depot.consumers.saturating_sub(1);
        }
        self.news.errands.push_back(Overflow::Forget { consumer });
    }

    pub(super) fn outbox_of(&self, channel: u32, consumer: ProxyId) -> Option<u32> {
        let state = self.channels.get(channel)?;
        let slot = state.slot_of(state.routes.consumers.place_of(consumer)?);
        self.outboxes.get(slot).filter(|outbox| !outbox.dead).map(|_| slot)
    }
}
