//! A channel's history: what its events are numbered for, and how a consumer that begins with some of it gets to what is new.
//!
//! The driver of the main lane keeps the events of channels that [have a history](crate::HistoryLimits): each has its number, and is in
//! memory until it is written, or is counted as missed where too many are on their way. A consumer that begins in the history gets nothing
//! that comes, but has it all brought back a piece at a time as its outbox gets shorter, as a backlog that is elsewhere is; filters choose
//! of that what it wants. A piece that ends with the last event that was ever written tells its number, and those behind it are still here:
//! they follow, and from then on the consumer is one like any other. So nothing is missing and nothing comes twice.
//!
//! A consumer may begin *ahead* of that: with an event number that is yet to be given, or at a time to come. Nothing is brought back for it
//! before an event comes in that it wants and that is so far.

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

/// How many events may be on their way, and what part of the channel's memory they may take: a thread that is not run for 20 ms is not to
/// have a channel miss any of the 200,000 that may come in a second.
const UNDER_WAY_MAX: usize = 32_768;
const UNDER_WAY_PART: u64 = 4;

/// How many events may follow the last piece at once. If there are more, another piece is asked for.
const FOLLOW_MAX: usize = 256;

/// A channel's history as its lane sees it.
#[derive(Debug)]
pub(super) struct History {
    /// The number that the next event has.
    next: NonZeroU64,
    /// What is to be kept and is not known to be written yet, in order.
    under_way: VecDeque<(NonZeroU64, EventAt)>,
    under_way_bytes: u64,
    /// The last event that was not kept because too much was under way.
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

/// Of a consumer that is in the history.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CatchUp {
    /// Something is being brought back.
    is_fetching: bool,
    /// How many events it got so far.
    events: u64,
    /// Where it begins, while that is yet to come.
    ahead: Option<Ahead>,
}

/// Where a consumer begins that begins with what is yet to come.
#[derive(Clone, Copy, Debug)]
enum Ahead {
    /// With the event of this number, or the first behind it.
    Number(u64),
    /// At a time, as [`StartFrom::Time`] has it and by the lane's clock.
    Time(u64, Time),
}

impl Ahead {
    /// Whether an event that comes now is so far. One without a number is of a channel that keeps nothing any more.
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

/// What a [fetch](Overflow::FetchHistory) came to, when all that was brought back has been handed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchedHistory {
    /// The last event that their keeper has been given, if all up to it were looked at; nothing if there is more.
    pub through: Option<u64>,
    /// How many events cannot be read any more.
    pub lost: u64,
    /// Of a consumer's first piece: the number of the first event that it may get, or that the next one will have.
    pub begins: Option<u64>,
    /// The consumer begins at a time to come, as [`StartFrom::Time`] has it and by the lane's clock; there is nothing for it before.
    pub ahead: Option<(u64, Time)>,
}

impl Lane {
    /// The numbers with which channels go on that had their past kept before, by another process perhaps. It is called before the lane has
    /// channels.
    pub fn continue_histories(&mut self, next: impl IntoIterator<Item = (ChannelId, NonZeroU64)>) {
        self.places.histories.extend(next);
    }

    /// A channel stores its history from now on, or does not any more.
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

    /// A channel is gone, and its history with it.
    pub(super) fn drop_history(&mut self, state: &ChannelState) {
        self.places.histories.remove(&state.id);
        if state.history.is_some() {
            self.news.errands.push_back(Overflow::Drop { channel: state.id });
        }
    }

    // ---- kept ----

    /// Whether an event that comes in is to be kept. It says all then that it has from its supplier.
    #[cold]
    pub(super) fn begin_storing(&self, supplier: &Supplier, pending_event: &mut PendingEvent) -> bool {
        let Some(state) = self.channels.get(supplier.channel) else { return false };
        let Some(history) = state.history.as_deref().filter(|_| pending_event.only.is_none()) else { return false };
        say_all(&self.types, supplier, pending_event);
        history.has_room(state.quota.budget_bytes)
    }

    /// An event that comes in, and is not refused, gets its number; in all its translations that say it.
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

    /// Has an event kept that is in.
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

    /// An event is written that was [to be remembered](Overflow::Remember). They come in the order in which they went.
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

    /// A consumer has connected, and begins where it asked to.
    /// Where it `resumes`, it does so only if that is yet to come.
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

    /// Has the first piece brought back for a consumer.
    fn fetch_history_from(&mut self, slot: u32, start: StartFrom) {
        let Some(outbox) = self.outboxes.get(slot) else { return };
        let (outbox, consumer) = (outbox.id, outbox.key);
        self.news.errands.push_back(Overflow::FetchHistory { outbox, consumer, start: Some(start), bytes: 0 });
    }

    /// A consumer gets nothing before an event comes with which it begins.
    fn wait_ahead(&mut self, slot: u32, ahead: Ahead) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let Some(catch_up) = &mut outbox.catch_up else { return };
        catch_up.ahead = Some(ahead);
        let number = if let Ahead::Number(first) = ahead { Some(first) } else { None };
        self.news.notices.push_back(Notice::BeginsAhead { key: outbox.key, number });
    }

    /// Something comes for a consumer that is in the history. It will have it from there, unless it is not kept.
    #[cold]
    pub(super) fn pass_over(&mut self, slot: u32, at: EventAt) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let number = self.events.get(at).and_then(|event| event.number);
        let ahead = outbox.catch_up.as_mut().and_then(|catch_up| {
            // What comes before was never to be its.
            let is_before = catch_up.ahead.is_some_and(|ahead| !ahead.is_reached_by(number, self.now));
            if is_before { None } else { Some(catch_up.ahead.take()) }
        });
        let Some(ahead) = ahead else { return };
        let history = self.channels.get(outbox.channel).and_then(|state| state.history.as_deref());
        let missed = history.and_then(|history| history.missed);
        if let Some(ahead) = ahead {
            // It is brought back with what follows.
            self.fetch_history_from(slot, ahead.start());
        }
        if missed.is_some() && missed == number {
            self.count_discards(slot, DiscardReason::OverflowLost, 1);
        }
    }

    /// Has more brought back for a consumer that is in the history, up to so many bytes.
    #[cold]
    pub(super) fn fetch_history(&mut self, slot: u32, bytes: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let (id, consumer) = (outbox.id, outbox.key);
        let Some(catch_up) = outbox.catch_up.as_mut().filter(|catch_up| !catch_up.is_fetching) else { return };
        catch_up.is_fetching = true;
        self.news.errands.push_back(Overflow::FetchHistory { outbox: id, consumer, start: None, bytes });
    }

    /// An event of the history comes back for a consumer: the next that there is. `source`, `number` and what the pending event says are
    /// what it had: [when it arrived](Event::arrived), too, from when its lifetime counts.
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

    /// All was handed in that was brought back with a piece.
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

    /// What came behind the last event that was looked at follows, if it is here; the consumer is one like any other then.
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

    /// As if it came back: a copy, since it comes later to this consumer than to others.
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

    /// Whether a consumer wants an event that others had before, and what is to be asked about it.
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

    /// A consumer that was in the history is gone, or its backlog is dropped.
    pub(super) fn leave_history(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        if outbox.catch_up.take().is_some() {
            self.news.errands.push_back(Overflow::Forget { consumer: outbox.key });
        }
    }
}

/// Says an event's number, in itself and in those of its translations that have a place for it.
pub(super) fn set_number(pending_event: &mut PendingEvent, number: NonZeroU64) {
    let event: &mut Event = pending_event;
    event.number = Some(number);
    for alternate in event.alternates.iter_mut() {
        if let Some(place) = alternate.number_at {
            place.write(&mut alternate.bytes, number.get());
        }
    }
}
