//! Consumers with a [correlation](filter::correlation): from their outboxes into sets.
//!
//! [`Lane::gather_sets`] takes the events of such an outbox, in order, until they complete a set, and goes on when that is delivered. Events
//! that wait for others hold their memory without a consumer to take them, so that they may take a quarter of each limit of their channel,
//! in equal parts, and [`GATHERED_BYTES_MAX`] in one outbox: the oldest are dropped beyond it. Suppliers never wait for them.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use filter::Steps;
use filter::correlation::{Correlation, Key, Terms};

use super::channel::Whose;
use super::delivery::DUE_PER_ROUND;
use super::outbox::{Backlog, Outbox};
use super::queue::{Entry, Policy};
use super::sets::{GATHERED_BYTES_MAX, Gathered, Leaving, Sets};
use super::{Agenda, DiscardReason, Disposition, Lane};
use crate::event::EventAt;
use crate::{ConsumerRoute, Forms, Time};

/// Most events of one outbox that are looked at before another has its turn, and of all outboxes in one call.
const EVENTS_AT_ONCE: u32 = 32;
const EVENTS_PER_ROUND: u32 = 256;

/// Steps for one event: its types, the constraints behind them, its key, and the search for a set; and for all events in one call.
const STEPS_PER_EVENT: u32 = 4_096;
const STEPS_PER_ROUND: u32 = 65_536;

/// Most events that wait for others and are dropped for one admission that finds no room.
pub(super) const DISPLACED_AT_ONCE: u32 = 64;

/// Time after which events that wait for others are looked at again where further ones may be on their way.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What may still be done in one call.
#[derive(Debug)]
struct Left {
    events: u32,
    steps: u32,
}

impl ConsumerRoute {
    /// The correlation that applies to the consumer. Durable ones have none, since the far ends of links correlate for themselves.
    fn correlates(&self) -> Option<&Arc<Correlation>> {
        self.correlation.as_ref().filter(|_| !self.durable)
    }
}

impl Outbox {
    /// Whether its next event is to be looked at: it has a correlation, and its last set is delivered.
    fn is_to_gather(&self) -> bool {
        let Some(sets) = &self.waiting.sets else { return false };
        let is_idle = self.flight.in_flight() == self.aside.deliveries && sets.ready() == 0;
        is_idle && self.waiting.started() > 0 && !(self.suspended || self.dead)
    }

    /// Whether the sets have all events that came so far.
    fn has_gathered_all(&self) -> bool {
        self.waiting.started() == 0 && self.elsewhere.is_over() && self.catch_up.is_none()
    }

    /// When events are to be dropped that wait for others. Where some may be on their way that came in time, that is looked at later.
    pub(super) fn gathered_due(&self, now: Time) -> Option<Time> {
        let sets = self.waiting.sets.as_ref()?;
        let later = if self.has_gathered_all() { Time(0) } else { now + LOOK_AGAIN_AFTER };
        let overdue = sets.overdue_at().map(|due| due.max(later));
        overdue.into_iter().chain(sets.next_due()).min()
    }
}

impl Agenda {
    /// Lists an outbox, if its next event is to be looked at for a set.
    pub(super) fn list_to_gather(&mut self, outbox: &mut Outbox) {
        if outbox.is_to_gather()
            && let Some(sets) = outbox.waiting.sets.as_mut().filter(|sets| !sets.listed)
        {
            sets.listed = true;
            self.gathering.push_back(outbox.id.slot);
        }
    }
}

impl Lane {
    /// Takes the events of consumers with a [correlation](crate::Hierarchy::set_correlation) from their outboxes into sets, as many as one
    /// round allows; [`next_timeout`](Self::next_timeout) tells whether more is to be done. To be called before
    /// [`poll_delivery`](Self::poll_delivery).
    pub fn gather_sets<F: Forms>(&mut self, forms: &F, now: Time) {
        if self.agenda.gathering.is_empty() {
            return;
        }
        self.advance_time(now);
        let mut left = Left { events: EVENTS_PER_ROUND, steps: STEPS_PER_ROUND };
        while left.events > 0
            && left.steps > STEPS_PER_EVENT
            && let Some(slot) = self.agenda.gathering.pop_front()
        {
            if let Some(sets) = self.sets_of(slot) {
                sets.listed = false;
            }
            let until = left.events.saturating_sub(EVENTS_AT_ONCE);
            while left.events > until && left.steps > STEPS_PER_EVENT && self.gather_one(slot, forms, &mut left) {}
            if let Some(outbox) = self.outboxes.get_mut(slot)
                && let Some(due) = outbox.gathered_due(self.now)
            {
                outbox.look_at(due, &mut self.agenda.timers);
            }
            self.note_room(slot);
            self.look_at_next(slot);
        }
    }

    fn sets_of(&mut self, slot: u32) -> Option<&mut Sets> {
        self.outboxes.get_mut(slot)?.waiting.sets.as_deref_mut()
    }

    /// Takes an outbox's next event, or drops one that has expired. Returns whether there was one.
    fn gather_one<F: Forms>(&mut self, slot: u32, forms: &F, left: &mut Left) -> bool {
        let Some(outbox) = self.outboxes.get_mut(slot).filter(|outbox| outbox.is_to_gather()) else { return false };
        left.events -= 1;
        let now = self.now;
        if let Some(event) = outbox.waiting.sets.as_mut().and_then(|sets| sets.pop_expired(&self.events, now)) {
            self.drop_one(slot, DiscardReason::Expired, event);
            return true;
        }
        let Some(entry) = outbox.waiting.pop_started(&self.events) else { return false };
        outbox.weight -= self.events.weight(entry.event);
        if entry.expiry <= now {
            self.drop_one(slot, DiscardReason::Expired, entry.event);
            return true;
        }
        let mut steps = Steps::new(STEPS_PER_EVENT);
        let (terms, key) = self.terms_of(slot, entry.event, (forms, &mut steps));
        match self.offer(slot, entry, (terms, key.as_ref()), &mut steps) {
            Some(Gathered::Waits { is_cut }) => self.counters.filters.cuts += u64::from(is_cut),
            Some(Gathered::Unmatched) if terms.is_empty() && steps.is_spent() => {
                self.drop_one(slot, DiscardReason::Uncorrelated, entry.event);
            }
            Some(Gathered::Unmatched) => {
                self.complete(slot, entry.event, Disposition::Unwanted);
                self.release_holder(entry.event);
            }
            Some(Gathered::WithoutKey) => self.drop_one(slot, DiscardReason::Uncorrelated, entry.event),
            Some(Gathered::Complete) | None => {}
        }
        left.steps -= STEPS_PER_EVENT - steps.left;
        let dropped = self.drop_excess_gathered(slot, EVENTS_AT_ONCE.into());
        left.events = left.events.saturating_sub(u32::try_from(dropped).unwrap_or(u32::MAX));
        true
    }

    /// Hands an event to the matcher of an outbox.
    fn offer(&mut self, slot: u32, entry: Entry, of: (Terms, Option<&Key>), steps: &mut Steps) -> Option<Gathered> {
        let (Some(outbox), Some(event)) = (self.outboxes.get_mut(slot), self.events.get(entry.event)) else {
            return None;
        };
        let sets = outbox.waiting.sets.as_mut()?;
        let gathered = sets.offer((entry, event), of, (&self.events, self.now), steps);
        if gathered == Gathered::Complete {
            outbox.weight += sets.ready_bytes(&self.events);
            if let Some(state) = self.channels.get_mut(outbox.channel) {
                state.known_slow_consumer = None;
            }
        }
        Some(gathered)
    }

    /// Terms of an outbox's correlation that an event matches, and its key. Without steps for its type it matches none.
    fn terms_of<F: Forms>(&mut self, slot: u32, at: EventAt, (forms, steps): (&F, &mut Steps)) -> (Terms, Option<Key>) {
        let sets = self.outboxes.get(slot).and_then(|outbox| outbox.waiting.sets.as_ref());
        let (Some(sets), Some(event)) = (sets, self.events.get(at)) else { return (Terms::NONE, None) };
        let (domain, name) = self.types.names(event.event_type).unwrap_or_else(|| event.names());
        let counters = &mut self.counters.filters;
        if !steps.take(sets.cost_of_type(domain.len() + name.len())) {
            counters.cuts += 1;
            return (Terms::NONE, None);
        }
        let fields = forms.fields(event);
        let found = sets.correlation.terms_of(|place, _| sets.is_of(place, domain, name), &fields, steps);
        let key = if found.terms.is_empty() { None } else { sets.correlation.key(&fields, steps) };
        let is_cut = found.cut || (key.is_none() && steps.is_spent() && !found.terms.is_empty());
        counters.evaluations += u64::from(found.evaluations);
        counters.failures += u64::from(found.failures);
        counters.cuts += u64::from(is_cut);
        (found.terms, key)
    }

    // ---- events that find no others ----

    /// Drops an event that is in no queue of its outbox any more.
    fn drop_one(&mut self, slot: u32, reason: DiscardReason, event: EventAt) {
        self.note_discard(slot, reason, event);
        self.release_holder(event);
    }

    /// Drops events that wait for others: those that have expired or waited for too long, and the oldest beyond what may wait.
    pub(super) fn drop_gathered_due(&mut self, slot: u32) {
        let now = self.now;
        let mut dropped = 0;
        while dropped < self.agenda.due_left.clamp(1, DUE_PER_ROUND)
            && let Some(outbox) = self.outboxes.get_mut(slot)
            && outbox.gathered_due(now).is_some_and(|due| due <= now)
            && let (has_all, Some(sets)) = (outbox.has_gathered_all(), &mut outbox.waiting.sets)
        {
            if let Some(event) = sets.pop_expired(&self.events, now) {
                self.drop_one(slot, DiscardReason::Expired, event);
                dropped += 1;
                continue;
            }
            if has_all {
                sets.drop_overdue(now);
            }
            dropped += self.drop_excess_gathered(slot, 1).max(1);
        }
        if dropped > 0 {
            self.agenda.due_left = self.agenda.due_left.saturating_sub(dropped);
            self.fetch_if_short(slot);
        }
    }

    /// Drops events that the matcher has given up, and the oldest of those that wait beyond their part of the channel's limits, `most` at
    /// most. Returns their number.
    fn drop_excess_gathered(&mut self, slot: u32, most: u64) -> u64 {
        let allowed = self
            .outboxes
            .get(slot)
            .and_then(|outbox| self.channels.get(outbox.channel))
            .map(|state| state.gathered_max());
        if let (Some(sets), Some(allowed)) = (self.sets_of(slot), allowed) {
            sets.allow(allowed);
        }
        let mut dropped = 0;
        while dropped < most
            && let Some(outbox) = self.outboxes.get_mut(slot)
            && let Some(sets) = &mut outbox.waiting.sets
            && let Some(event) = sets.poll_dropped(&self.events)
        {
            self.drop_one(slot, DiscardReason::Uncorrelated, event);
            dropped += 1;
        }
        dropped
    }

    /// Tells the outboxes of a channel what may wait for others now: its limits have changed, or it is short of memory. What is beyond is
    /// dropped in the next rounds.
    pub(super) fn share_out_gathered(&mut self, channel: u32) {
        let Some(state) = self.channels.get(channel).filter(|state| !state.correlating.is_empty()) else { return };
        let allowed = state.gathered_max();
        for slot in &state.correlating {
            let Some(outbox) = self.outboxes.get_mut(*slot) else { continue };
            let Some(sets) = &mut outbox.waiting.sets else { continue };
            sets.allow(allowed);
            if sets.next_due().is_some_and(|due| due <= self.now) {
                outbox.look_at(self.now, &mut self.agenda.timers);
            }
        }
    }

    /// Drops the oldest event that waits for others in one of a channel's outboxes, in turn, for an admission that finds no room where no
    /// consumer's backlog is in the way. Returns whether there was one that takes room of these senders; `left` is lowered.
    pub(super) fn displace_gathered(&mut self, channel: u32, whose: Whose, left: &mut u32) -> bool {
        let outboxes = self.channels.get(channel).map_or(0, |state| state.correlating.len());
        for _ in 0..outboxes.min(DISPLACED_AT_ONCE as usize) {
            let Some(state) = self.channels.get_mut(channel).filter(|_| *left > 0) else { return false };
            let nth = state.displaced_next % outboxes;
            state.displaced_next = nth + 1;
            let slot = state.correlating.get(nth).copied();
            *left -= 1;
            if let Some(slot) = slot
                && let Some(outbox) = self.outboxes.get_mut(slot)
                && let Some(sets) = &mut outbox.waiting.sets
                && let Some(event) = sets.displace(&self.events)
            {
                let counts = whose == Whose::Suppliers || self.events.get(event).is_some_and(|event| event.taken_over);
                self.drop_one(slot, DiscardReason::Uncorrelated, event);
                return counts;
            }
        }
        false
    }

    /// Makes room in a channel whose suppliers are blocked while no consumer's backlog is in the way.
    pub(super) fn displace_where_blocked(&mut self, channel: u32) {
        for whose in Whose::ALL {
            let mut left = DISPLACED_AT_ONCE;
            while let Some(state) = self.channels.get(channel)
                && state
                    .room(whose)
                    .hold
                    .is_some_and(|hold| hold.by.is_none() && !state.has_room_again(whose, hold.over))
                && self.displace_gathered(channel, whose, &mut left)
            {}
        }
    }

    // ---- correlations that come, change and go ----

    /// Follows the correlation in a consumer's route. Events that wait for others under another one are dropped.
    pub(super) fn follow_correlation(&mut self, slot: u32, route: &ConsumerRoute) {
        let Some(outbox) = self.outboxes.get_mut(slot).filter(|outbox| !outbox.dead) else { return };
        let next = route.correlates();
        if outbox.waiting.sets.as_ref().map(|sets| &sets.correlation) == next {
            return;
        }
        self.end_sets(slot);
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let (channel, key) = (outbox.channel, outbox.key);
        let policy = Policy::of(&outbox.terms.settings, route.batches);
        let mut sets = next.map(|next| Box::new(Sets::new(Arc::clone(next))));
        if let (Some(sets), Some(state)) = (&mut sets, self.channels.get_mut(channel)) {
            sets.place = state.correlating.len();
            state.correlating.push(slot);
            self.news.has_sets = true;
        }
        let former = outbox.waiting.set_sets(sets, policy, &self.events, self.now);
        let gathered = Backlog::of_sets(former);
        self.count_discards(slot, DiscardReason::Uncorrelated, gathered.len() as u64);
        self.leave(key, Some(DiscardReason::Uncorrelated), gathered);
    }

    /// Takes a consumer off the list of those with a correlation, and reports what has left of sets.
    pub(super) fn end_sets(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get(slot) else { return };
        let (channel, Some(sets)) = (outbox.channel, &outbox.waiting.sets) else { return };
        let place = sets.place;
        let moved = self.channels.get_mut(channel).and_then(|state| {
            state.correlating.get(place).filter(|other| **other == slot)?;
            state.correlating.swap_remove(place);
            state.correlating.get(place).copied()
        });
        if let Some(sets) = moved.and_then(|moved| self.sets_of(moved)) {
            sets.place = place;
        }
        self.report_parts_of_sets(slot);
    }

    // ---- sets that are over ----

    /// Reports what became of events of sets of which the others are not waited for.
    fn report_parts_of_sets(&mut self, slot: u32) {
        while let Some(outbox) = self.outboxes.get_mut(slot)
            && let (key, Some(sets)) = (outbox.key, &mut outbox.waiting.sets)
            && let Some((event, how)) = sets.poll_any_done()
        {
            self.complete_for(key, None, event, how);
            self.release_holder(event);
        }
    }

    /// Reports an event that leaves the outbox of a consumer with a correlation, while the lane still holds it: those of a set together, so
    /// that persistent ones are stored until the whole set is delivered, and are a set again after a restart.
    #[cold]
    pub(super) fn complete_of_set(&mut self, slot: u32, event: EventAt, how: Disposition) {
        let is_watched = self.events.get(event).is_some_and(|event| event.watch.is_some());
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let (key, bridge) = (outbox.key, outbox.bridge);
        let leaving = outbox.waiting.sets.as_mut().map_or(Leaving::Alone, |sets| sets.leave(event, how, is_watched));
        match leaving {
            Leaving::Waits if is_watched => return self.events.hold(event),
            Leaving::Waits => return,
            Leaving::Last(set) => {
                while let Some(outbox) = self.outboxes.get_mut(slot)
                    && let Some(sets) = &mut outbox.waiting.sets
                    && let Some((other, how)) = sets.poll_done(set)
                {
                    self.complete_for(key, bridge, other, how);
                    self.release_holder(other);
                }
            }
            Leaving::Alone => {}
        }
        self.complete_for(key, bridge, event, how);
    }
}

impl super::channel::ChannelState {
    /// Bytes and number of events that may wait for others in one outbox: of a quarter of each limit an equal part. None while the memory
    /// of all channels is short.
    fn gathered_max(&self) -> (u64, u64) {
        let outboxes = self.correlating.len().max(1) as u64;
        let is_short =
            Whose::ALL.into_iter().any(|whose| self.room(whose).hold.is_some() && self.is_short_of_shared(whose));
        let bytes = if is_short { 0 } else { (self.quota.budget_bytes / 4 / outboxes).min(GATHERED_BYTES_MAX) };
        let events = self.quota.max_queue_length.map_or(u64::MAX, |max| u64::from(max) / 4 / outboxes);
        (bytes, events)
    }
}
