//! A channel's history: the numbers of its events, and the transition of a consumer from stored events to new ones.
//!
//! The driver of the main lane stores the events of channels that [have a history](crate::HistoryLimits): each has its
//! number, and stays in memory until it is written, or counts as missed where too many are pending. A consumer that
//! begins in the history gets no new events; the stored ones are fetched in chunks as its outbox gets shorter, like a
//! backlog elsewhere, and filtered then. A chunk that ends with the last event ever written includes its number. The
//! events after it are still in memory: they follow, and from then on the consumer is like any other. So no event is
//! missing and none comes twice.
//!
//! A consumer may begin *ahead* of the history: with an event number yet to be assigned, or at a time in the future. Nothing is fetched for
//! it until an event arrives that matches its subscription and has reached that position.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::num::NonZeroU64;

use filter::Steps;

use super::channel::ChannelState;
use super::filtering::Chosen;
use super::overflow::Overflow;
use super::queue::Ask;
use super::suppliers::{Supplier, say_all};
use super::{Lane, Notice};
use crate::event::EventAt;
use crate::{ChannelId, DiscardReason, Event, Forms, LaneId, OutboxId, PendingEvent, ProxyKey, StartFrom, Time};

/// Most events pending to be written, and the part of the channel's memory they may take: a thread that does not run
/// for 20 ms must not make a channel miss any of the 200,000 events that may come in a second.
const UNDER_WAY_MAX: usize = 32_768;
const UNDER_WAY_PART: u64 = 4;

/// Most events in memory that follow the last chunk at once. If there are more, another chunk is fetched.
const FOLLOW_MAX: usize = 256;

/// A lane's state of a channel's history.
#[derive(Debug)]
pub(super) struct History {
    /// Number of the next event.
    next: NonZeroU64,
    /// Events to be stored that are not known to be written yet, in order.
    under_way: VecDeque<(NonZeroU64, EventAt)>,
    under_way_bytes: u64,
    /// The last event that was not stored because too many were pending.
    missed: Option<NonZeroU64>,
}

impl History {
    fn beginning_at(next: NonZeroU64) -> Self {
        Self { next, under_way: VecDeque::new(), under_way_bytes: 0, missed: None }
    }

    fn has_room(&self, budget_bytes: u64) -> bool {
        self.under_way.len() < UNDER_WAY_MAX && self.under_way_bytes <= budget_bytes / UNDER_WAY_PART
    }
}

/// State of a consumer that is in the history.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CatchUp {
    /// Whether a chunk is being fetched.
    is_fetching: bool,
    /// Number of events received so far.
    events: u64,
    /// Start of the consumer, while it is still ahead.
    ahead: Option<Ahead>,
}

/// Start of a consumer that is still ahead.
#[derive(Clone, Copy, Debug)]
enum Ahead {
    /// The event of this number, or the first one after it.
    Number(u64),
    /// A time, as in [`StartFrom::Time`] and by the lane's clock.
    Time(u64, Time),
}

impl Ahead {
    /// Whether an event that arrives now has reached the start. An event without a number has: its channel stores no history any more.
    fn is_reached_by(self, number: Option<NonZeroU64>, now: Time) -> bool {
        match self {
            Self::Number(first) => number.is_none_or(|number| number.get() >= first),
            Self::Time(_, time) => now >= time,
        }
    }

    const fn start(self) -> StartFrom {
        match self {
            Self::Number(first) => StartFrom::Number(first),
            Self::Time(utc, _) => StartFrom::Time(utc),
        }
    }
}

/// Result of a [fetch](Overflow::FetchHistory), after its events were handed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchedHistory {
    /// The last event handed to the store, if all events up to it were examined; `None` if there are more.
    pub through: Option<u64>,
    /// Number of events that cannot be read any more.
    pub lost: u64,
    /// Of a consumer's first chunk: the number of the first event that it may get, or the number to be assigned next.
    pub begins: Option<u64>,
    /// Start at a time in the future, as in [`StartFrom::Time`] and by the lane's clock; there is nothing for the consumer before.
    pub ahead: Option<(u64, Time)>,
}

impl Lane {
    /// Sets the next numbers of channels with an earlier stored history, perhaps of another process. To be called
    /// before the lane has channels.
    pub fn continue_histories(&mut self, next: impl IntoIterator<Item = (ChannelId, NonZeroU64)>) {
        self.places.histories.extend(next);
    }

    /// Starts or ends the history of a channel, as its limits say.
    pub(super) fn follow_history(&mut self, channel: u32, is_new: bool) {
        let Some(state) = self.channels.get_mut(channel).filter(|_| self.news.may_overflow && self.id == LaneId::MAIN)
        else {
            return;
        };
        let was_kept = is_new && self.places.histories.contains_key(&state.id);
        match (state.routes.limits.history.keeps(), state.history.take()) {
            (true, None) => {
                let next = self.places.histories.remove(&state.id).unwrap_or(NonZeroU64::MIN);
                state.history = Some(Box::new(History::beginning_at(next)));
            }
            (true, kept) => state.history = kept,
            (false, Some(ended)) => {
                // Should it store its history again, numbers go on.
                self.places.histories.insert(state.id, ended.next);
                self.news.errands.push_back(Overflow::Drop { channel: state.id });
            }
            (false, None) if was_kept => self.news.errands.push_back(Overflow::Drop { channel: state.id }),
            (false, None) => {}
        }
    }

    /// Removes the history of a channel that is gone.
    pub(super) fn drop_history(&mut self, state: &ChannelState) {
        self.places.histories.remove(&state.id);
        if state.history.is_some() {
            self.news.errands.push_back(Overflow::Drop { channel: state.id });
        }
    }

    // ---- kept ----

    /// Whether an incoming event is to be stored. If so, its supplier's settings are copied into it.
    #[cold]
    pub(super) fn begin_storing(&self, supplier: &Supplier, pending_event: &mut PendingEvent) -> bool {
        let Some(state) = self.channels.get(supplier.channel) else { return false };
        let Some(history) = state.history.as_deref().filter(|_| pending_event.only.is_none()) else { return false };
        say_all(&self.types, supplier, pending_event);
        history.has_room(state.quota.budget_bytes)
    }

    /// Assigns an incoming event its number, and writes it into all translations that include it.
    #[cold]
    pub(super) fn number_event(&mut self, channel: u32, pending_event: &mut PendingEvent, is_stored: bool) {
        let history = self.channels.get_mut(channel).and_then(|state| state.history.as_deref_mut());
        let Some(history) = history.filter(|_| pending_event.only.is_none()) else { return };
        let number = history.next;
        history.next = number.saturating_add(1);
        if !is_stored {
            history.missed = Some(number);
            self.counters.history.missed += 1;
        }
        set_number(pending_event, number);
    }

    /// Requests that an admitted event be stored.
    #[cold]
    pub(super) fn keep_in_history(&mut self, channel: u32, at: EventAt) {
        let Some(state) = self.channels.get_mut(channel) else { return };
        let Some((history, event)) = state.history.as_deref_mut().zip(self.events.get(at)) else { return };
        let Some(number) = event.number else { return };
        history.under_way.push_back((number, at));
        history.under_way_bytes += event.charged_bytes;
        self.counters.history.stored += 1;
        self.news
            .errands
            .push_back(Overflow::Remember { event: Arc::clone(event), limits: state.routes.limits.history });
    }

    /// Notes that an event that was [to be remembered](Overflow::Remember) is written. Events return in the order in which they were
    /// passed.
    pub fn note_remembered(&mut self, event: Arc<Event>, now: Time) {
        self.advance_time(now);
        let channel = self.channels.get_mut(event.channel_slot).filter(|state| state.id == event.source.channel);
        if let Some(history) = channel.and_then(|state| state.history.as_deref_mut()) {
            while let Some((number, _)) = history.under_way.front().copied()
                && event.number.is_some_and(|written| number <= written)
            {
                history.under_way.pop_front();
                history.under_way_bytes = history.under_way_bytes.saturating_sub(event.charged_bytes);
            }
            if history.under_way.is_empty() {
                history.under_way_bytes = 0;
            }
        }
        self.release(event);
    }

    // ---- fetched ----

    /// Begins a newly connected consumer at the position it chose. A consumer that `resumes` begins there only if the
    /// position is still ahead.
    pub(super) fn begin_in_history(&mut self, slot: u32, start: StartFrom, resumes: bool) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let history = self.channels.get(outbox.channel).and_then(|state| state.history.as_deref());
        let Some(next) = history.map(|history| history.next.get()) else { return };
        let ahead = match start {
            StartFrom::Number(first) if first > next => Some(Ahead::Number(first)),
            StartFrom::Number(_) if resumes => return,
            _ => None,
        };
        outbox.catch_up = Some(CatchUp { is_fetching: true, events: 0, ahead });
        match ahead {
            Some(ahead) => self.wait_ahead(slot, ahead),
            None => self.fetch_history_from(slot, start),
        }
    }

    /// Requests the first chunk for a consumer.
    fn fetch_history_from(&mut self, slot: u32, start: StartFrom) {
        let Some(outbox) = self.outboxes.get(slot) else { return };
        let (outbox, consumer) = (outbox.id, outbox.key);
        self.news.errands.push_back(Overflow::FetchHistory { outbox, consumer, start: Some(start), bytes: 0 });
    }

    /// Makes a consumer wait for the event with which it begins.
    fn wait_ahead(&mut self, slot: u32, ahead: Ahead) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let Some(catch_up) = &mut outbox.catch_up else { return };
        catch_up.ahead = Some(ahead);
        let number = if let Ahead::Number(first) = ahead { Some(first) } else { None };
        self.news.notices.push_back(Notice::BeginsAhead { key: outbox.key, number });
    }

    /// Notes a new event for a consumer in the history, which will get it from there, unless it is not stored.
    #[cold]
    pub(super) fn pass_over(&mut self, slot: u32, at: EventAt) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let number = self.events.get(at).and_then(|event| event.number);
        let ahead = outbox.catch_up.as_mut().and_then(|catch_up| {
            // Earlier events are not for this consumer.
            let is_before = catch_up.ahead.is_some_and(|ahead| !ahead.is_reached_by(number, self.now));
            if is_before { None } else { Some(catch_up.ahead.take()) }
        });
        let Some(ahead) = ahead else { return };
        let history = self.channels.get(outbox.channel).and_then(|state| state.history.as_deref());
        let missed = history.and_then(|history| history.missed);
        if let Some(ahead) = ahead {
            // The event is fetched with those that follow.
            self.fetch_history_from(slot, ahead.start());
        }
        if missed.is_some() && missed == number {
            self.count_discards(slot, DiscardReason::OverflowLost, 1);
        }
    }

    /// Requests the next chunk for a consumer in the history, of up to this many bytes.
    #[cold]
    pub(super) fn fetch_history(&mut self, slot: u32, bytes: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let (id, consumer) = (outbox.id, outbox.key);
        let Some(catch_up) = outbox.catch_up.as_mut().filter(|catch_up| !catch_up.is_fetching) else { return };
        catch_up.is_fetching = true;
        self.news.errands.push_back(Overflow::FetchHistory { outbox: id, consumer, start: None, bytes });
    }

    /// Takes back a stored event for a consumer, the next in order. `source`, `number` and the fields of the pending
    /// event are as they were, including [its arrival](Event::arrived), from which its lifetime counts.
    pub fn return_history_event<F: Forms>(
        &mut self,
        outbox: OutboxId,
        (source, number): (ProxyKey, u64),
        mut pending_event: PendingEvent,
        forms: &F,
        now: Time,
    ) {
        self.advance_time(now);
        let found = self.outboxes.get_exact(outbox.slot, outbox.generation);
        let Some((channel, key)) =
            found.filter(|outbox| outbox.catch_up.is_some()).map(|found| (found.channel, found.key))
        else {
            return self.pool.give_back(pending_event.into_event());
        };
        if let Some(number) = NonZeroU64::new(number) {
            set_number(&mut pending_event, number);
        }
        let Some(chosen) = self.matched_by(outbox.slot, (channel, key), &pending_event, forms) else {
            return self.pool.give_back(pending_event.into_event());
        };
        self.counters.history.recalled += 1;
        if let Some(catch_up) = self.outboxes.get_mut(outbox.slot).and_then(|outbox| outbox.catch_up.as_mut()) {
            catch_up.events += 1;
        }
        self.put_back_in(chosen, source, pending_event, forms);
    }

    /// Ends the fetch of a chunk, all of its events having been handed in.
    pub fn end_history_fetch<F: Forms>(&mut self, outbox: OutboxId, fetched: FetchedHistory, forms: &F, now: Time) {
        self.advance_time(now);
        let slot = outbox.slot;
        let Some(outbox) = self.outboxes.get_exact(slot, outbox.generation) else { return };
        let Some(catch_up) = &mut outbox.catch_up else { return };
        if !catch_up.is_fetching {
            return;
        }
        let (channel, key) = (outbox.channel, outbox.key);
        if let Some((utc, time)) = fetched.ahead {
            return self.wait_ahead(slot, Ahead::Time(utc, time));
        }
        if fetched.lost > 0 {
            self.count_discards(slot, DiscardReason::OverflowLost, fetched.lost);
        }
        if let Some(first) = fetched.begins {
            self.news.notices.push_back(Notice::BeginsInHistory { key, first });
        }
        self.note_room(slot);
        // Only now: it may follow, and want nothing more.
        if let Some(catch_up) = self.outboxes.get_mut(slot).and_then(|outbox| outbox.catch_up.as_mut()) {
            catch_up.is_fetching = false;
        }
        match fetched.through {
            Some(through) if self.follow(slot, (channel, key), through, forms) => {}
            _ => self.fetch_if_short(slot),
        }
    }

    /// Appends the events in memory after the last one examined, if they are there; from then on the consumer is like any other.
    fn follow<F: Forms>(&mut self, slot: u32, of: (u32, ProxyKey), through: u64, forms: &F) -> bool {
        let history = self.channels.get(of.0).and_then(|state| state.history.as_deref());
        if let Some(history) = history {
            let behind = history.under_way.iter().filter(|(number, _)| number.get() > through).count();
            if behind > FOLLOW_MAX {
                return false;
            }
            let from = history.under_way.len() - behind;
            for nth in from..from + behind {
                let history = self.channels.get(of.0).and_then(|state| state.history.as_deref());
                let Some((_, at)) = history.and_then(|history| history.under_way.get(nth)).copied() else { break };
                self.follow_with(slot, of, at, forms);
            }
        }
        let Some(outbox) = self.outboxes.get_mut(slot) else { return true };
        let events = outbox.catch_up.take().map_or(0, |catch_up| catch_up.events);
        self.news.errands.push_back(Overflow::Forget { consumer: of.1 });
        self.news.notices.push_back(Notice::CaughtUp { key: of.1, events });
        true
    }

    /// Appends a copy of an event in memory, as if it were fetched, since this consumer gets it later than others.
    fn follow_with<F: Forms>(&mut self, slot: u32, of: (u32, ProxyKey), at: EventAt, forms: &F) {
        let Some(event) = self.events.get(at).cloned() else { return };
        if let Some(chosen) = self.matched_by(slot, of, &event, forms) {
            let mut pending_event = self.begin_handover(&event);
            let copy: &mut Event = &mut pending_event;
            (copy.watch, copy.watch_each, copy.number) = (None, false, event.number);
            (copy.supplied_priority, copy.supplied_timeout) = event.supplied();
            self.counters.history.recalled += 1;
            self.put_back_in(chosen, event.source, pending_event, forms);
        }
        self.release(event);
    }

    /// Whether an event that others received before matches a consumer's subscription, and which remote filters to call.
    fn matched_by<F: Forms>(
        &mut self,
        slot: u32,
        (channel, key): (u32, ProxyKey),
        event: &Event,
        forms: &F,
    ) -> Option<Chosen> {
        let known = self.know(channel, event);
        let state = self.channels.get(channel)?;
        let member = state.routes.consumers.place_of(key.proxy)?;
        let always = || Some(Chosen { slot, member, ask: Ask::NONE });
        if state.destinations.always(&known).binary_search(&member).is_ok() {
            return always();
        }
        if !state.destinations.is_conditional(&known) {
            return None;
        }
        let mut steps = Steps::new(state.routes.limits.filter_steps_max);
        self.space.filters.begin();
        self.space.filters.choose((state, &known), |_| true, &forms.fields(event), &mut steps);
        self.space.filters.chosen.iter().find(|chosen| chosen.member == member).copied()
    }

    /// Ends the catch-up of a consumer that is gone, or whose backlog is dropped.
    pub(super) fn leave_history(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        if outbox.catch_up.take().is_some() {
            self.news.errands.push_back(Overflow::Forget { consumer: outbox.key });
        }
    }
}

/// Writes an event's number into the event and into the translations that include it.
pub(super) fn set_number(pending_event: &mut PendingEvent, number: NonZeroU64) {
    let event: &mut Event = pending_event;
    event.number = Some(number);
    for alternate in event.alternates.iter_mut() {
        if let Some(place) = alternate.number_at {
            place.write(&mut alternate.bytes, number.get());
        }
    }
}
