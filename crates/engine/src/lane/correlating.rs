//! Consumers with a [correlation](filter::correlation): their events wait for others in a [`Matcher`], and go into the outbox as complete
//! sets.
//!
//! Events that wait for others are charged to the channel's memory, and not to the outbox's own bounds: those that nothing completes would
//! have suppliers wait for a consumer that has nothing to take. [`Correlation::keep`] bounds their number. When the channel has no room,
//! the oldest of them go first, before any consumer's `FullOutbox` is asked.
//!
//! Orders are those of complete sets: a set waits in line from when it was complete, or from the latest `StartTime` of its events;
//! `OrderPolicy` does not count. `Timeout`, discards and remote filters are as ever for each event, so that a set can come without some of
//! its events.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use filter::Steps;
use filter::correlation::{Correlation, Key, Matcher, Offered, Terms};

use super::admission::Withheld;
use super::channel::Over;
use super::filtering::Chosen;
use super::outbox::Offer;
use super::queue::Entry;
use super::sets::Leaving;
use super::{Disposition, Lane, Outbox};
use crate::event::EventAt;
use crate::{ConsumerRoute, DiscardReason, EventType, Forms, Time};

/// A consumer's correlation, and the events that wait for others.
#[derive(Debug)]
pub(super) struct Correlating {
    correlation: Arc<Correlation>,
    /// Types of its terms.
    types: Vec<EventType>,
    matcher: Matcher<Entry>,
}

impl Correlating {
    fn new(correlation: Arc<Correlation>) -> Self {
        let types = correlation.terms().iter().map(|term| EventType::new(&*term.domain, &*term.name)).collect();
        Self { types, matcher: Matcher::new(&correlation), correlation }
    }

    /// Number of events that wait for others.
    pub(super) fn waiting(&self) -> u64 {
        self.matcher.waiting() as u64
    }

    /// When the next event is dropped that waits for others; `None` if never.
    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.matcher.next_expiry_ns().map(Time)
    }
}

impl ConsumerRoute {
    /// The correlation that applies to the consumer: durable ones have none, since the far ends of links correlate for themselves.
    pub(super) fn correlates(&self) -> Option<&Arc<Correlation>> {
        self.correlation.as_ref().filter(|_| !self.durable)
    }
}

impl Lane {
    /// Follows the correlation in a consumer's route. Events that wait for others under another one are dropped.
    pub(super) fn follow_correlation(&mut self, slot: u32, route: &ConsumerRoute) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let (now, next) = (outbox.correlating.as_ref().map(|now| &now.correlation), route.correlates());
        if now == next {
            return;
        }
        let channel = outbox.channel;
        self.drop_uncorrelated(slot);
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        outbox.correlating = next.map(|next| Box::new(Correlating::new(Arc::clone(next))));
        let correlates = outbox.correlating.is_some();
        if correlates {
            outbox.waiting.sets.get_or_insert_default();
        }
        if let Some(state) = self.channels.get_mut(channel) {
            state.correlating.retain(|other| *other != slot);
            state.correlating.extend(correlates.then_some(slot));
        }
        let most = next.map_or(0, |next| next.terms().len());
        self.space.set.clear();
        self.space.set.reserve(most);
    }

    /// Whether events for this outbox are correlated.
    #[inline]
    pub(super) fn is_correlating(&self, slot: u32) -> bool {
        self.outboxes.get(slot).is_some_and(|outbox| outbox.correlating.is_some())
    }

    /// Puts an event into a consumer's correlation, and the set that it completes into the outbox. Returns whether the event is in either.
    pub(super) fn correlate<F: Forms>(
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
        let Some(correlating) = self.outboxes.get_mut(slot).and_then(|outbox| outbox.correlating.as_mut()) else {
            return false;
        };
        self.events.hold(entry.event);
        let is_in = match correlating.matcher.offer(terms, key.as_ref(), offer.entry.since.0, entry) {
            Offered::Waits => true,
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
                self.drop_one_uncorrelated(slot, entry.event, DiscardReason::Uncorrelated);
                false
            }
        };
        self.put_set(slot, offer, withheld);
        self.drop_expired_uncorrelated(slot);
        is_in
    }

    /// The terms of an outbox's correlation that an event matches, and its key.
    fn terms_of<F: Forms>(&mut self, slot: u32, at: EventAt, (forms, steps): (&F, &mut Steps)) -> (Terms, Option<Key>) {
        let correlating = self.outboxes.get(slot).and_then(|outbox| outbox.correlating.as_ref());
        let (Some(correlating), Some(event)) = (correlating, self.events.get(at)) else { return (Terms::NONE, None) };
        let Correlating { correlation, types, .. } = &**correlating;
        let (domain, name) = self.types.names(event.event_type).unwrap_or_else(|| event.names());
        let is_of = |place: usize, _: &_| types.get(place).is_some_and(|listed| listed.matches(domain, name));
        let fields = forms.fields(event);
        let found = correlation.terms_of(is_of, &fields, steps);
        let key = if found.terms.is_empty() { None } else { correlation.key(&fields, steps) };
        self.counters.filters.evaluations += u64::from(found.evaluations);
        self.counters.filters.failures += u64::from(found.failures);
        self.counters.filters.cuts += u64::from(found.cut);
        (found.terms, key)
    }

    /// Puts a complete set into an outbox.
    fn put_set(&mut self, slot: u32, offer: &Offer, withheld: &mut Option<Withheld>) {
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
        for entry in set.drain(..) {
            self.put_of_set(slot, entry, offer, withheld);
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

    /// Drops the events of an outbox that have waited for others for too long.
    pub(super) fn expire_uncorrelated(&mut self, slot: u32) {
        let Some(correlating) = self.outboxes.get_mut(slot).and_then(|outbox| outbox.correlating.as_mut()) else {
            return;
        };
        correlating.matcher.expire(self.now.0);
        self.drop_expired_uncorrelated(slot);
    }

    fn drop_expired_uncorrelated(&mut self, slot: u32) {
        while let Some(outbox) = self.outboxes.get_mut(slot)
            && let Some(correlating) = &mut outbox.correlating
        {
            let Some((entry, _)) = correlating.matcher.poll_dropped() else {
                if let Some(due) = correlating.next_expiry() {
                    outbox.look_at(due, &mut self.agenda.timers);
                }
                return;
            };
            self.drop_one_uncorrelated(slot, entry.event, DiscardReason::Uncorrelated);
        }
    }

    /// Drops an event that waited for others. The lane holds it.
    fn drop_one_uncorrelated(&mut self, slot: u32, event: EventAt, reason: DiscardReason) {
        self.note_discard(slot, reason, event);
        self.release_holder(event);
    }

    /// Drops all events of an outbox that wait for others: its correlation changes.
    fn drop_uncorrelated(&mut self, slot: u32) {
        while let Some(entry) = self.displace_uncorrelated_of(slot) {
            self.drop_one_uncorrelated(slot, entry.event, DiscardReason::Uncorrelated);
        }
    }

    /// Drops the oldest event of one of a channel's outboxes that waits for others, to make room. Returns whether there was one.
    pub(super) fn displace_uncorrelated(&mut self, channel: u32, over: Over) -> bool {
        let slots = self.channels.get(channel).map_or(0, |state| state.correlating.len());
        for nth in 0..slots {
            let slot = self.channels.get(channel).and_then(|state| state.correlating.get(nth)).copied();
            if let Some(slot) = slot
                && let Some(entry) = self.displace_uncorrelated_of(slot)
            {
                self.drop_one_uncorrelated(slot, entry.event, over.reason());
                return true;
            }
        }
        false
    }

    fn displace_uncorrelated_of(&mut self, slot: u32) -> Option<Entry> {
        self.outboxes.get_mut(slot)?.correlating.as_mut()?.matcher.displace_oldest()
    }

    /// Ends the correlation of a consumer whose backlog is dropped: what waits for others is part of the backlog, and what has become of
    /// events of unfinished sets is reported.
    pub(super) fn end_correlation(&mut self, slot: u32) {
        while let Some(entry) = self.displace_uncorrelated_of(slot) {
            let serial = self.events.arrival_order(entry.event).1;
            if let Some(outbox) = self.outboxes.get_mut(slot) {
                outbox.waiting.insert(entry, serial, &self.events, self.now);
            }
        }
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let (key, channel) = (outbox.key, outbox.channel);
        if outbox.correlating.take().is_some()
            && let Some(state) = self.channels.get_mut(channel)
        {
            state.correlating.retain(|other| *other != slot);
        }
        let Some(mut sets) = self.outboxes.get_mut(slot).and_then(|outbox| outbox.waiting.sets.take()) else { return };
        for (event, how) in sets.clear() {
            self.complete_for(key, None, event, how);
            self.release_holder(event);
        }
    }

    // ---- sets that are over ----

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
            Leaving::Last(others) => {
                for (other, how) in others.into_iter().flatten() {
                    self.complete_for(key, bridge, other, how);
                    self.release_holder(other);
                }
            }
        }
        self.complete_for(key, bridge, event, how);
    }
}
