//! Backlogs that go on elsewhere: what is too much for a channel's memory is kept by the driver of the lane, on a disk, in order.
//!
//! While a channel has [room for that](crate::ChannelLimits::overflow_budget_bytes), its events take half of its memory budget at most, but
//! for what keeps up: a consumer with a backlog gets no more into its outbox then. What comes for it from then on is kept elsewhere, all of
//! it, so that order holds, and is brought back a piece at a time as the outbox gets shorter. When nothing is left there it goes on as
//! before. A consumer that sleeps for an hour so costs the others nothing. `FullOutbox` decides when the room elsewhere is spent, too.
//!
//! An event that is kept elsewhere is in memory, and charged, until its keeper releases it: so what is slow to keep events takes memory,
//! and is bounded by that.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU64;

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

/// What an event costs the room elsewhere beside its bytes and the names of its type.
const STORED_OVERHEAD_BYTES: u64 = 128;
/// The same for each consumer that it is kept for.
const STORED_HOLDER_BYTES: u64 = 8;
/// The same where it has an origin, and for each of its hops.
const STORED_ORIGIN_BYTES: u64 = 32;
const STORED_HOP_BYTES: u64 = 8;

/// A consumer has a backlog if it has at least so many bytes in its outbox, or its part of a quarter of the channel's memory. One that
/// keeps up has some of it at times: of 20,000 events of 1 KB a second, this is what comes within a twentieth of a second.
const BACKLOG_BYTES: u64 = 1 << 20;
/// The same where all channels together have too little memory left, of which a channel's part may be far less than its budget.
const BACKLOG_BYTES_IF_SHORT: u64 = 64 << 10;

/// What is brought back for a consumer at a time, in bytes: no more than that, and its part of a quarter of the channel's memory.
const CHUNK_BYTES: u64 = 256 << 10;
const CHUNK_BYTES_MIN: u64 = 4 << 10;

/// A channel that has less than this in memory keeps nothing elsewhere, however little memory all channels have left.
const LITTLE_BYTES: u64 = 1 << 20;

/// What is to be done elsewhere, for [`Lane::poll_overflow`].
#[derive(Debug)]
pub enum Overflow {
    /// An event is to be kept for [these](Event::away), by rising proxy, behind all that were before it. It is handed back with
    /// [`Lane::note_stored`] when that is done, or when it cannot be and will not be asked for.
    Keep {
        /// The event.
        event: Arc<Event>,
        /// What its channel may have kept there, in bytes.
        budget_bytes: u64,
    },
    /// What is kept for a consumer is to be brought back, the first of it, about so many bytes, but one event at least: each with
    /// [`Lane::return_event`], and then [`Lane::end_return`].
    Fetch {
        /// The consumer's outbox.
        outbox: OutboxId,
        /// The consumer's proxy.
        consumer: ProxyKey,
        /// How many bytes.
        bytes: u32,
    },
    /// An event is to be kept as its channel's history says, behind all that were before it. It is handed back with
    /// [`Lane::note_remembered`] when that is done, in order.
    Remember {
        /// The event, which has its [number](Event::number).
        event: Arc<Event>,
        /// What its channel keeps.
        limits: HistoryLimits,
    },
    /// What is next of a channel's history is to be brought back for a consumer, about so many bytes: each with
    /// [`Lane::return_history_event`], and then [`Lane::end_history_fetch`]. What was to be remembered before is looked at, too. In between
    /// nothing else may be handed back.
    FetchHistory {
        /// The consumer's outbox.
        outbox: OutboxId,
        /// The consumer's proxy.
        consumer: ProxyKey,
        /// Where it begins; nothing if it goes on from where it is.
        start: Option<StartFrom>,
        /// How many bytes; for the beginning 0, which need not bring anything back.
        bytes: u32,
    },
    /// A channel stores no history any more.
    Drop {
        /// The channel.
        channel: ChannelId,
    },
    /// Nothing is kept for a consumer any more, or nothing that it should have.
    Forget {
        /// The consumer's proxy.
        consumer: ProxyKey,
    },
}

/// A consumer that an event is kept for elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away {
    /// Its proxy.
    pub consumer: ProxyId,
    /// What clients' filters are to be asked when it comes back: for [`Lane::return_event`].
    pub ask: u8,
}

/// What of a consumer's backlog is elsewhere.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    /// How many events, all of them behind those in the outbox.
    pub(super) events: u64,
    /// What they take there, with [`STORED_OVERHEAD_BYTES`] each.
    pub(super) bytes: u64,
    /// Some of them are being brought back.
    is_fetching: bool,
    /// Some were lost there, which is reported when it has all others.
    has_lost: bool,
}

impl Elsewhere {
    /// Whether some of it is on its way.
    pub(super) fn is_fetching(&self) -> bool {
        self.is_fetching
    }

    fn add(&mut self, bytes: u64) {
        self.events += 1;
        self.bytes += bytes;
    }

    /// So many events of so many bytes are there no more. Of those that are lost the bytes are unknown: they are taken for average ones.
    fn remove(&mut self, events: u64, bytes: Option<u64>) {
        let average = self.bytes / self.events.max(1);
        let bytes = bytes.unwrap_or_else(|| average.saturating_mul(events));
        self.events -= events.min(self.events);
        self.bytes = if self.events == 0 { 0 } else { self.bytes.saturating_sub(bytes) };
    }

    /// Whether there is nothing there and nothing on its way.
    pub(super) fn is_over(&self) -> bool {
        self.events == 0 && !self.is_fetching
    }
}

/// What a channel has elsewhere.
#[derive(Debug, Default)]
pub(super) struct Depot {
    budget_bytes: u64,
    used_bytes: u64,
    events: u64,
    /// Events that the keeper has yet to release.
    under_way: u64,
    /// How many of its consumers have something there, and how many events all of these together.
    consumers: u32,
    holders: u64,
    /// Whether an event found no room. It counts as long as there is hardly any, so that "full" does not flutter.
    is_full: bool,
    /// What all channels may have there together.
    shared: Option<Arc<MemoryPool>>,
}

impl Depot {
    pub(super) fn new(shared: Option<Arc<MemoryPool>>) -> Self {
        Self { shared, ..Self::default() }
    }

    pub(super) fn set_budget(&mut self, bytes: u64) {
        self.budget_bytes = bytes;
    }

    /// Events that some consumer is yet to get: at most those that are there, and at most what consumers have there together.
    pub(super) fn events(&self) -> u64 {
        self.events.min(self.holders)
    }

    /// Consumers have less there.
    fn release_holder(&mut self, holders: u64) {
        self.holders = self.holders.saturating_sub(holders);
    }

    fn add(&mut self, bytes: u64) {
        self.used_bytes += bytes;
        self.events += 1;
        self.under_way += 1;
    }

    /// Whether there was no room, and is none again, by an eighth.
    pub(super) fn is_short(&self) -> bool {
        self.is_full && (self.used_bytes > self.budget_bytes - self.budget_bytes / 8 || self.is_short_of_shared())
    }

    /// The same because of what all channels have there, and not because of its own budget.
    pub(super) fn is_short_of_shared(&self) -> bool {
        self.is_full && self.shared.as_ref().is_some_and(|all| !all.has_room_again(self.used_bytes))
    }

    /// Whether there is room for an event that costs so much.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let is_shared_fairly = self.shared.as_ref().is_none_or(|all| all.allows(self.used_bytes, bytes, false));
        !self.is_short() && self.used_bytes + bytes <= self.budget_bytes && is_shared_fairly
    }
}

impl ChannelState {
    /// Whether an event that comes now is kept elsewhere for those that have a backlog, or may be for those that have something there.
    #[inline]
    pub(super) fn may_overflow(&self) -> bool {
        self.depot.consumers > 0 || (self.depot.budget_bytes > 0 && self.is_half_full())
    }

    fn is_half_full(&self) -> bool {
        let used = self.all.used_bytes;
        used > self.quota.budget_bytes / 2 || (used > LITTLE_BYTES && self.would_be_short_with(used))
    }

    /// How much a consumer has in its outbox if it has a backlog.
    fn backlog_bytes(&self) -> u64 {
        let is_short = self.would_be_short_with(self.all.used_bytes);
        let most = if is_short { BACKLOG_BYTES_IF_SHORT } else { BACKLOG_BYTES };
        self.part_of(self.members.len() as u64).clamp(1, most)
    }

    /// A consumer's part of a quarter of the memory, if so many have one.
    fn part_of(&self, consumers: u64) -> u64 {
        self.quota.budget_bytes / 4 / consumers.max(1)
    }
}

impl Event {
    /// What it costs the room elsewhere.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        let content = (self.bytes.len() + self.names.len()) as u64;
        let hops = |origin: &Origin| STORED_ORIGIN_BYTES + STORED_HOP_BYTES * origin.hops.len() as u64;
        let origin = self.origin().map_or(0, hops);
        content + origin + STORED_OVERHEAD_BYTES + STORED_HOLDER_BYTES * self.away().len() as u64
    }
}

/// What one consumer's event counts there.
const fn stored_bytes_of_one(event: &Event) -> u64 {
    event.bytes.len() as u64 + STORED_OVERHEAD_BYTES
}

/// What there is to do elsewhere.
pub(super) type Errands = VecDeque<Overflow>;

impl Lane {
    /// What is next to be done with events that are kept elsewhere.
    pub fn poll_overflow(&mut self) -> Option<Overflow> {
        self.news.errands.pop_front()
    }

    // ---- away ----

    /// Sets apart, of the consumers that were chosen, those that the event is to be kept elsewhere for.
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

    /// An event is in: has it kept for those that were set apart, if there is room. Reports each, if the event is watched for each.
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
        state.depot.add(event.stored_bytes());
        self.memory_pool.elsewhere.add(event.stored_bytes());
        self.counters.overflow.stored += u64::from(consumers);
        let (event, budget_bytes) = (Arc::clone(event), state.depot.budget_bytes);
        self.news.errands.push_back(Overflow::Keep { event, budget_bytes });
        consumers
    }

    /// Whether the event is to be kept elsewhere for this one: as its outbox says, if that is full or there is no room elsewhere.
    fn goes_elsewhere(
        &mut self,
        slot: u32,
        (entry, bytes): (Entry, u64),
        has_room: bool,
        withheld: &mut Option<Withheld>,
    ) -> bool {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return false };
        if (outbox.is_full() || !has_room) && !self.arrival.restoring && !self.make_place(slot, &entry, has_room) {
            // What it had in memory may have been dropped.
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
        if outbox.holds_one_more() && !self.arrival.restoring {
            self.space.holders.push(slot);
            hold(&mut self.tickets, outbox, withheld);
        }
        self.fetch_if_short(slot);
        true
    }

    /// Whether events of a channel are under way to where they are kept.
    pub(super) fn keeps_elsewhere_now(&self, channel: u32) -> bool {
        self.channels.get(channel).is_some_and(|state| state.depot.under_way > 0)
    }

    /// An event is kept elsewhere, or cannot be.
    pub fn note_stored(&mut self, event: Arc<Event>) {
        let (channel, id) = (event.channel_slot, event.source.channel);
        self.release(event);
        let Some(state) = self.channels.get_mut(channel).filter(|state| state.id == id) else { return };
        state.depot.under_way = state.depot.under_way.saturating_sub(1);
        if state.depot.under_way > 0 {
            return;
        }
        for whose in Whose::ALL {
            // The next event finds out what is in the way now.
            let is_for_keeper = |state: &ChannelState| state.room(whose).hold.is_some_and(|hold| hold.for_keeper);
            if self.channels.get(channel).is_some_and(is_for_keeper) {
                self.end_hold(channel, whose);
            }
        }
    }

    // ---- and back ----

    /// Has some of what is kept elsewhere for a consumer brought back, if its outbox has got short.
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
            // One that is on other lanes, too, may be yet to get events there.
            let is_only_here = route.is_some_and(|route| route.places.len() == 1);
            if outbox.backlog() == 0 && is_only_here {
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

    /// An event comes back that was kept elsewhere for a consumer: the first of those that are. `ask` is what it [had](Away::ask) then;
    /// `source`, its [number](Event::number), and what the pending event says, are what the event had: [when it arrived](Event::arrived),
    /// too, from when its lifetime counts.
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

    /// Puts an event into an outbox that was somewhere else until now.
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
        // They come in their order, whatever clock said when they came.
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
        // It was held by this place until now, and is by its outbox from now on.
        outbox.push(entry, &offer, &self.events, self.now);
        self.watch(slot);
        self.list_if_ready(slot);
    }

    /// All was brought back that was asked for. So many events cannot be: they are dropped, and counted.
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

    /// What a channel had kept elsewhere has become less: so many events are read that it was for, and there are so many bytes of room.
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

    /// An event found no room elsewhere. If that is because of what all channels have there, it is looked for again from time to time.
    fn note_no_room_elsewhere(&mut self, channel: u32) {
        let Some(state) = self.channels.get_mut(channel) else { return };
        state.depot.is_full = true;
        if state.depot.is_short_of_shared() && self.list_short_of_room(channel) {
            self.counters.overflow.channels_short += 1;
        }
    }

    /// Looks whether there is room elsewhere again. Called wherever less is there or there may be more.
    pub(super) fn note_room_elsewhere(&mut self, channel: u32) {
        let Some(state) = self.channels.get_mut(channel) else { return };
        if !state.depot.is_full || state.depot.is_short() {
            return;
        }
        state.depot.is_full = false;
        let slots: Vec<u32> = state.slots().collect();
        slots.into_iter().for_each(|slot| self.note_room(slot));
    }

    /// Whether there is no room for more of what this one has elsewhere.
    pub(super) fn lacks_room_elsewhere(&self, outbox: &Outbox) -> bool {
        !outbox.elsewhere.is_over() && self.channels.get(outbox.channel).is_some_and(|state| state.depot.is_short())
    }

    /// A consumer's outbox is emptied: what is kept elsewhere for it goes, too. Says how many events those are.
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
