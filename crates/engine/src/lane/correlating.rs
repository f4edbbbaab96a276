//! Consumers with a [correlation](filter::correlation): their events wait for others in a [`Matcher`], and go into the outbox as complete
//! sets.
//!
//! Events that wait for others are charged to the channel's memory, and not to the outbox's own bounds: those that nothing completes would
//! have suppliers wait for a consumer that has nothing to take. [`Correlation::keep`] bounds their number. Where the channel has no room,
//! or suppliers are blocked, events that do nothing else on the lane go first, the oldest ones and from one consumer after the other,
//! before any supplier waits and before any consumer's `FullOutbox` is asked. Events that others hold, too, stay: their drop frees nothing.
//!
//! What a search costs is charged to the event's [`Steps`], of which each consumer has an equal part, after all filters.
//!
//! Orders are those of complete sets: a set waits in line from when it was complete, or from the latest `StartTime` of its events;
//! `OrderPolicy` does not count. `Timeout` and discards are as ever for each event, so that a set can come without some of its events.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::time::Duration;

use filter::Steps;
use filter::correlation::{Correlation, Key, Matcher, Offered, Terms};

use super::admission::Withheld;
use super::channel::{Over, Whose};
use super::delivery::DUE_PER_ROUND;
use super::destinations::Known;
use super::filtering::Chosen;
use super::outbox::{Backlog, Offer};
use super::queue::Entry;
use super::sets::Leaving;
use super::suppliers::Supplier;
use super::{Disposition, Lane, Outbox};
use crate::event::EventAt;
use crate::{ConsumerRoute, DiscardReason, EventType, Forms, Time};

/// Time 0 of the lane as time of a matcher: events that an earlier process took came before it, by 2^32 ms at most.
const BASE_NS: u64 = (1 << 32) * 1_000_000;

/// Shortest time that such events wait for others that are restored or handed over after them.
const RESTORED_WAIT: Duration = Duration::from_secs(1);

/// Most events that wait for others and are dropped for one admission, or in one look at a channel whose suppliers are blocked.
pub(super) const DISPLACED_AT_ONCE: u32 = 256;

/// Most of them that are looked at to find one, before another consumer's `FullOutbox` is asked.
const LOOKED_AT_AT_ONCE: u32 = 512;

/// A consumer's correlation, and the events that wait for others.
#[derive(Debug)]
pub(super) struct Correlating {
    correlation: Arc<Correlation>,
    /// Types of its terms.
    types: Vec<EventType>,
    /// Steps to compare an event's type with them, beside those for its own names.
    types_cost: u32,
    matcher: Matcher<Entry>,
    /// Earliest time at which events are dropped that have waited for too long.
    drops_from: Time,
}

impl Correlating {
    fn new(correlation: Arc<Correlation>) -> Self {
        let types = correlation.terms().iter().map(|term| EventType::new(&*term.domain, &*term.name));
        let types: Vec<EventType> = types.collect();
        let octets = |kind: &EventType| steps_of(kind.domain.len() + kind.name.len());
        let types_cost = types.iter().map(octets).sum();
        Self { types_cost, types, matcher: Matcher::new(&correlation), correlation, drops_from: Time(0) }
    }

    /// Number of events that wait for others.
    pub(super) fn len(&self) -> usize {
        self.matcher.waiting()
    }

    /// When the next event is dropped that waits for others; `None` if never.
    pub(super) fn next_expiry(&self) -> Option<Time> {
        let due = Time(self.matcher.next_expiry_ns()?.saturating_sub(BASE_NS));
        Some(due.max(self.drops_from))
    }

    /// Removes the event that has waited for others for longest.
    pub(super) fn take_oldest(&mut self) -> Option<Entry> {
        self.matcher.displace_oldest()
    }

    /// Steps to compare an event's type with those of the terms.
    fn cost_of(&self, names_len: usize) -> u32 {
        let terms = u32::try_from(self.types.len()).unwrap_or(u32::MAX);
        self.types_cost.saturating_add(terms.saturating_mul(steps_of(names_len)))
    }
}

/// Steps to compare a text of so many octets.
fn steps_of(octets: usize) -> u32 {
    u32::try_from(1 + octets / 64).unwrap_or(u32::MAX)
}

/// When an event came to the service, as time of a matcher. The part of its age that an earlier process knew comes before the lane's own
/// time.
fn came_at(offer: &Offer) -> u64 {
    let before = u64::try_from(offer.older_by.as_nanos()).unwrap_or(u64::MAX);
    BASE_NS.saturating_add(offer.entry.since.0).saturating_sub(before)
}

impl ConsumerRoute {
    /// The correlation that applies to the consumer. Durable ones have none, since the far ends of links correlate for themselves; and
    /// those with remote filters have none, which would tear sets apart.
    pub(super) fn correlates(&self) -> Option<&Arc<Correlation>> {
        let applies = !self.durable && self.remote_filters.iter().all(|peers| peers.is_empty());
        self.correlation.as_ref().filter(|_| applies)
    }
}

impl Lane {
    /// Follows the correlation in a consumer's route. Events that wait for others under another one are dropped. A consumer in the history
    /// leaves it.
    pub(super) fn follow_correlation(&mut self, slot: u32, route: &ConsumerRoute) {
        let Some(outbox) = self.outboxes.get_mut(slot).filter(|outbox| !outbox.dead) else { return };
        let (now, next) = (outbox.correlating.as_ref().map(|now| &now.correlation), route.correlates());
        if now == next {
            return;
        }
        let (channel, key) = (outbox.channel, outbox.key);
        let awaiting = Backlog::of(outbox.correlating.take());
        outbox.correlating = next.map(|next| Box::new(Correlating::new(Arc::clone(next))));
        let correlates = outbox.correlating.is_some();
        if correlates {
            outbox.waiting.sets.get_or_insert_default();
            self.news.has_sets = true;
        }
        if let Some(state) = self.channels.get_mut(channel) {
            state.correlating.retain(|other| *other != slot);
            state.correlating.extend(correlates.then_some(slot));
        }
        self.count_discards(slot, DiscardReason::Uncorrelated, awaiting.len() as u64);
        self.leave(key, Some(DiscardReason::Uncorrelated), awaiting);
        let most = next.map_or(0, |next| next.terms().len());
        self.space.set.clear();
        self.space.set.reserve(most);
        if correlates {
            self.leave_history(slot);
        }
    }

    /// Whether events for this outbox are correlated.
    #[inline]
    pub(super) fn is_correlating(&self, slot: u32) -> bool {
        self.outboxes.get(slot).is_some_and(|outbox| outbox.correlating.is_some())
    }

    /// Number of an event's destinations whose consumers have a correlation.
    #[cold]
    pub(super) fn correlating_destinations(&self) -> u32 {
        let chosen = self.space.filters.chosen.iter().filter(|chosen| self.is_correlating(chosen.slot)).count();
        u32::try_from(chosen).unwrap_or(u32::MAX)
    }

    /// Puts an admitted event into its consumers' correlations, and the sets that it completes into their outboxes. Returns the number of
    /// consumers that have it.
    ///
    /// Each consumer may take an equal part of the steps that are left, and what those before it have not taken.
    #[cold]
    pub(super) fn correlate_all<F: Forms>(
        &mut self,
        (supplier, known, tells_of_each): (&Supplier, &Known, Option<NonZeroU64>),
        offer: &Offer,
        (forms, steps): (&F, &mut Steps),
        withheld: &mut Option<Withheld>,
    ) -> u32 {
        let (mut left, mut destinations) = (self.correlating_destinations(), 0);
        for index in 0..self.space.filters.chosen.len() {
            let Some(chosen) = self.space.filters.chosen.get(index).copied() else { break };
            if !self.is_correlating(chosen.slot) {
                continue;
            }
            let part = steps.left / left.max(1);
            let mut own = Steps::new(part);
            let mapped = match supplier.mapped {
                true => self.map(chosen, (supplier, known), offer, (forms, &mut own)),
                false => None,
            };
            let is_in = self.correlate(chosen, (mapped, offer), (forms, &mut own), withheld);
            steps.take(part - own.left);
            left = left.saturating_sub(1);
            destinations += u32::from(is_in);
            if let Some(watch) = tells_of_each.filter(|_| is_in) {
                self.complete_begins(watch, chosen.slot);
            }
        }
        destinations
    }

    /// Puts an event into a consumer's correlation, and the set that it completes into the outbox. Returns whether the event is in either.
    fn correlate<F: Forms>(
        &mut self,
        chosen: Chosen,
        (mapped, offer): (Option<Entry>, &Offer),
        (forms, steps): (&F, &mut Steps),
        withheld: &mut Option<Withheld>,
    ) -> bool {
        let slot = chosen.slot;
        let Some(outbox) = self.outboxes.get(slot) else { return false };
        let entry = mapped.unwrap_or_else(|| outbox.entry(offer, chosen.ask));
        if entry.expiry <= self.now {
            self.note_discard(slot, DiscardReason::Expired, entry.event);
            return false;
        }
        let (terms, key) = self.terms_of(slot, entry.event, (forms, steps));
        let now = self.now;
        let Some(correlating) = self.outboxes.get_mut(slot).and_then(|outbox| outbox.correlating.as_mut()) else {
            return false;
        };
        if !offer.older_by.is_zero() {
            correlating.drops_from = now + RESTORED_WAIT;
        }
        self.events.hold(entry.event);
        let offered = correlating.matcher.offer(terms, key.as_ref(), came_at(offer), entry, steps);
        self.counters.filters.cuts += u64::from(matches!(offered, Offered::Cut));
        let is_in = match offered {
            Offered::Waits | Offered::Cut => {
                self.events.note_awaiting(entry.event, true);
                true
            }
            Offered::Complete(set) => {
                self.space.set.clear();
                self.space.set.extend_from_slice(set.events);
                true
            }
            Offered::Unmatched(_) => {
                self.release_holder(entry.event);
                false
            }
            Offered::WithoutKey(_) => {
                self.note_discard(slot, DiscardReason::Uncorrelated, entry.event);
                self.release_holder(entry.event);
                false
            }
        };
        self.put_set(slot, (entry.event, offer), withheld);
        self.drop_awaiting(slot);
        if let Some(outbox) = self.outboxes.get_mut(slot)
            && let Some(due) = outbox.correlating.as_ref().and_then(|correlating| correlating.next_expiry())
        {
            outbox.look_at(due, &mut self.agenda.timers);
        }
        is_in
    }

    /// The terms of an outbox's correlation that an event matches, and its key. Without steps for its type it matches none.
    fn terms_of<F: Forms>(&mut self, slot: u32, at: EventAt, (forms, steps): (&F, &mut Steps)) -> (Terms, Option<Key>) {
        let correlating = self.outboxes.get(slot).and_then(|outbox| outbox.correlating.as_ref());
        let (Some(correlating), Some(event)) = (correlating, self.events.get(at)) else { return (Terms::NONE, None) };
        let Correlating { correlation, types, .. } = &**correlating;
        let (domain, name) = self.types.names(event.event_type).unwrap_or_else(|| event.names());
        if !steps.take(correlating.cost_of(domain.len() + name.len())) {
            self.counters.filters.cuts += 1;
            return (Terms::NONE, None);
        }
        let is_of = |place: usize, _: &_| types.get(place).is_some_and(|listed| listed.matches(domain, name));
        let fields = forms.fields(event);
        let found = correlation.terms_of(is_of, &fields, steps);
        let key = if found.terms.is_empty() { None } else { correlation.key(&fields, steps) };
        let is_cut = found.cut || (key.is_none() && steps.is_spent() && !found.terms.is_empty());
        self.counters.filters.evaluations += u64::from(found.evaluations);
        self.counters.filters.failures += u64::from(found.failures);
        self.counters.filters.cuts += u64::from(is_cut);
        (found.terms, key)
    }

    /// Puts a complete set into an outbox. All of its events but the `last` one have waited for it.
    fn put_set(&mut self, slot: u32, (last, offer): (EventAt, &Offer), withheld: &mut Option<Withheld>) {
        let mut set = core::mem::take(&mut self.space.set);
        let now = self.now;
        if let Some(sets) = self.outboxes.get_mut(slot).and_then(|outbox| outbox.waiting.sets.as_mut())
            && !set.is_empty()
        {
            sets.begin();
            let since = set.iter().fold(now, |since, entry| since.max(entry.since));
            for entry in &mut set {
                let serial = self.arrival.next_serial;
                self.arrival.next_serial += 1;
                sets.add(entry.event, (since, serial));
                (entry.since, entry.is_plain) = (since, since == now && entry.expiry == Entry::NEVER);
            }
        }
        let mut is_doomed = false;
        for entry in set.drain(..) {
            if entry.event != last {
                self.events.note_awaiting(entry.event, false);
            }
            if is_doomed {
                // The consumer is to be disconnected, once.
                self.note_discard(slot, DiscardReason::Disconnected, entry.event);
                self.release_holder(entry.event);
                continue;
            }
            self.put_of_set(slot, entry, offer, withheld);
            is_doomed = self.space.doomed.last() == Some(&slot);
        }
        self.space.set = set;
    }

    /// Puts an event of a set into an outbox. The lane holds the event already.
    fn put_of_set(&mut self, slot: u32, entry: Entry, offer: &Offer, withheld: &mut Option<Withheld>) {
        let is_full = self.outboxes.get(slot).is_some_and(Outbox::is_full) && !self.arrival.restoring;
        if (entry.expiry <= self.now || is_full) && !self.find_place(slot, &entry) {
            self.release_holder(entry.event);
            // Others may have been dropped for it all the same.
            return self.look_at_next(slot);
        }
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let order = outbox.waiting.sets.as_ref().and_then(|sets| sets.order(entry.event));
        let serial = order.map_or(offer.serial, |(_, serial)| serial);
        let offer = Offer { weight: self.events.weight(entry.event), serial, ..*offer };
        outbox.push(entry, &offer, &self.events, self.now);
        self.note_put(slot, withheld);
    }

    // ---- events that find no others ----

    /// Drops events of an outbox that have waited for others for too long, as many as a round allows.
    pub(super) fn expire_awaiting(&mut self, slot: u32) {
        let most = self.agenda.due_left.clamp(1, DUE_PER_ROUND);
        let correlating = self.outboxes.get_mut(slot).and_then(|outbox| outbox.correlating.as_mut());
        let Some(correlating) = correlating.filter(|correlating| correlating.drops_from <= self.now) else { return };
        let now_ns = BASE_NS.saturating_add(self.now.0);
        let dropped = correlating.matcher.expire(now_ns, usize::try_from(most).unwrap_or(usize::MAX));
        self.agenda.due_left = self.agenda.due_left.saturating_sub(dropped as u64);
        self.drop_awaiting(slot);
    }

    /// Drops what an outbox's matcher has given up.
    fn drop_awaiting(&mut self, slot: u32) {
        while let Some(outbox) = self.outboxes.get_mut(slot)
            && let Some(correlating) = &mut outbox.correlating
            && let Some((entry, _)) = correlating.matcher.poll_dropped()
        {
            self.drop_one_awaiting(slot, entry.event, DiscardReason::Uncorrelated);
        }
    }

    /// Drops an event that waited for others.
    fn drop_one_awaiting(&mut self, slot: u32, event: EventAt, reason: DiscardReason) {
        self.events.note_awaiting(event, false);
        self.note_discard(slot, reason, event);
        self.release_holder(event);
    }

    /// Makes room in a channel: drops events that do nothing but wait for others of their sets, while a limit is exceeded. Each lowers
    /// `most`; returns whether that is spent, so that there may be more.
    pub(super) fn displace_awaiting(
        &mut self,
        (channel, whose): (u32, Whose),
        most: &mut u32,
        is_over: impl Fn(&Self) -> Option<Over>,
    ) -> bool {
        if self.channels.get(channel).is_none_or(|state| state.correlating.is_empty()) {
            return false;
        }
        let mut looks = LOOKED_AT_AT_ONCE;
        while let Some(over) = is_over(self).filter(|over| over.any()) {
            if *most == 0 {
                return true;
            }
            let Some((slot, event)) = self.next_awaiting(channel, whose, &mut looks) else { return false };
            self.drop_one_awaiting(slot, event, over.reason());
            *most -= 1;
        }
        false
    }

    /// Drops such events of a channel whose suppliers are blocked: what others held when these were blocked may only wait by now.
    pub(super) fn displace_where_blocked(&mut self, channel: u32) {
        for whose in Whose::ALL {
            let Some(hold) = self.channels.get(channel).and_then(|state| state.room(whose).hold) else { continue };
            let is_over = |lane: &Self| {
                let state = lane.channels.get(channel)?;
                (!state.has_room_again(whose, hold.over)).then_some(hold.over)
            };
            let mut most = DISPLACED_AT_ONCE;
            self.displace_awaiting((channel, whose), &mut most, is_over);
        }
    }

    /// Removes an event that only waits from the matcher of the next consumer that has one. Each look at an event lowers `looks`.
    fn next_awaiting(&mut self, channel: u32, whose: Whose, looks: &mut u32) -> Option<(u32, EventAt)> {
        let state = self.channels.get_mut(channel)?;
        let events = &self.events;
        // Of lanes that wait, only what they handed over is in the way.
        let counts = |at| whose == Whose::Suppliers || events.get(at).is_some_and(|event| event.taken_over);
        for _ in 0..state.correlating.len() {
            let nth = state.displaced_next % state.correlating.len();
            state.displaced_next = nth + 1;
            let slot = *state.correlating.get(nth)?;
            let correlating = self.outboxes.get_mut(slot).and_then(|outbox| outbox.correlating.as_mut());
            let Some(correlating) = correlating else { continue };
            let goes = |entry: &Entry| events.only_awaits(entry.event) && counts(entry.event);
            if let Some(entry) = correlating.matcher.displace(looks, goes) {
                return Some((slot, entry.event));
            }
            if *looks == 0 {
                return None;
            }
        }
        None
    }

    // ---- sets that are over ----

    /// Ends the correlation and the sets of a consumer whose backlog is dropped. What has become of events of unfinished sets is reported.
    pub(super) fn end_sets(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let (key, channel) = (outbox.key, outbox.channel);
        let sets = outbox.waiting.sets.take();
        if outbox.correlating.is_some()
            && let Some(state) = self.channels.get_mut(channel)
        {
            state.correlating.retain(|other| *other != slot);
        }
        for (event, how) in sets.into_iter().flat_map(|mut sets| sets.clear()) {
            self.complete_for(key, None, event, how);
            self.release_holder(event);
        }
    }

    /// Reports an event that leaves the outbox of a consumer with sets, while the lane still holds it.
    #[cold]
    pub(super) fn complete_of_set(&mut self, slot: u32, event: EventAt, how: Disposition) {
        let is_watched = self.events.get(event).is_some_and(|event| event.watch.is_some());
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let (key, bridge) = (outbox.key, outbox.bridge);
        let leaving = outbox.waiting.sets.as_mut().map_or(Leaving::Alone, |sets| sets.leave(event, how, is_watched));
        match leaving {
            Leaving::Waits if is_watched => return self.events.hold(event),
            Leaving::Waits => return,
            Leaving::Alone => {}
            Leaving::Last => {
                while let Some(outbox) = self.outboxes.get_mut(slot)
                    && let Some((other, how)) = outbox.waiting.sets.as_mut().and_then(|sets| sets.poll_finished())
                {
                    self.complete_for(key, bridge, other, how);
                    self.release_holder(other);
                }
            }
        }
        self.complete_for(key, bridge, event, how);
    }
}
