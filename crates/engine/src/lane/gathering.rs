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
use super::outbox::{Backlog, Outbox};
use super::queue::{Entry, Policy};
use super::sets::{GATHERED_BYTES_MAX, Gathered, Leaving, Sets};
use super::{DiscardReason, Disposition, Lane};
use crate::event::EventAt;
use crate::{ConsumerRoute, Forms, Time};

/// Most events of one outbox that are looked at before another has its turn, and of all outboxes in one call.
const EVENTS_AT_ONCE: u32 = 32;
const EVENTS_PER_ROUND: u32 = 256;

/// Steps for one event: its types, the constraints behind them, its key, and the search for a set.
const STEPS_PER_EVENT: u32 = 4_096;

/// Most events that are dropped in one look at an outbox because they have waited for too long.
const DROPPED_AT_ONCE: u64 = 256;

/// Time after which events that wait for others are looked at again where further ones may be on their way.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

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
        self.waiting.is_empty() && self.elsewhere.is_over() && self.catch_up.is_none()
    }

    /// When events are to be dropped that wait for others. While some may be on their way, that is looked at again later.
    pub(super) fn gathered_due(&self, now: Time) -> Option<Time> {
        let due = self.waiting.sets.as_ref()?.next_due()?;
        Some(if self.has_gathered_all() { due } else { due.max(now + LOOK_AGAIN_AFTER) })
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
        let mut left = EVENTS_PER_ROUND;
        while left > 0
            && let Some(slot) = self.agenda.gathering.pop_front()
        {
            if let Some(sets) = self.sets_of(slot) {
                sets.listed = false;
            }
            for _ in 0..EVENTS_AT_ONCE {
                left -= u32::from(left > 0);
                if left == 0 || !self.gather_one(slot, forms) {
                    break;
                }
            }
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

    /// Lists an outbox whose next event is to be looked at.
    pub(super) fn list_to_gather(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot).filter(|outbox| outbox.is_to_gather()) else { return };
        if let Some(sets) = outbox.waiting.sets.as_mut().filter(|sets| !sets.listed) {
            sets.listed = true;
            self.agenda.gathering.push_back(slot);
        }
    }

    /// Takes an outbox's next event. Returns whether it had one to take.
    fn gather_one<F: Forms>(&mut self, slot: u32, forms: &F) -> bool {
        let Some(outbox) = self.outboxes.get_mut(slot).filter(|outbox| outbox.is_to_gather()) else { return false };
        let Some(entry) = outbox.waiting.pop_started(&self.events) else { return false };
        outbox.weight -= self.events.weight(entry.event);
        self.drop_expired(slot);
        if entry.expiry <= self.now {
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
        self.drop_excess_gathered(slot);
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

    /// Drops events that wait for others and have expired.
    fn drop_expired(&mut self, slot: u32) {
        let now = self.now;
        while let Some(outbox) = self.outboxes.get_mut(slot)
            && let Some(sets) = &mut outbox.waiting.sets
            && let Some(event) = sets.pop_expired(&self.events, now)
        {
            self.drop_one(slot, DiscardReason::Expired, event);
        }
    }

    /// Drops events that have waited for others for too long.
    pub(super) fn drop_overdue(&mut self, slot: u32) {
        let now = self.now;
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        if outbox.gathered_due(now).is_some_and(|due| due <= now)
            && let Some(sets) = &mut outbox.waiting.sets
        {
            let most = self.agenda.due_left.clamp(1, DROPPED_AT_ONCE);
            sets.drop_overdue(now, usize::try_from(most).unwrap_or(usize::MAX));
            self.drop_excess_gathered(slot);
            self.agenda.due_left = self.agenda.due_left.saturating_sub(most);
        }
    }

    /// Drops events that the matcher has given up, and the oldest of those that wait beyond their part of the channel's limits.
    pub(super) fn drop_excess_gathered(&mut self, slot: u32) {
        let Some(channel) = self.outboxes.get(slot).map(|outbox| outbox.channel) else { return };
        let (bytes_max, events_max) = self.channels.get(channel).map_or((0, 0), |state| state.gathered_max());
        while let Some(outbox) = self.outboxes.get_mut(slot)
            && let Some(sets) = &mut outbox.waiting.sets
        {
            let is_over = sets.gathered_bytes() > bytes_max || sets.gathered() as u64 > events_max;
            let dropped = sets.poll_dropped(&self.events);
            let dropped = dropped.or_else(|| if is_over { sets.displace(&self.events) } else { None });
            let Some(event) = dropped else { return };
            self.drop_one(slot, DiscardReason::Uncorrelated, event);
        }
    }

    /// The same in all outboxes of a channel, whose limits have changed, or which is short of memory.
    pub(super) fn drop_all_excess_gathered(&mut self, channel: u32) {
        for nth in 0.. {
            let slot = self.channels.get(channel).and_then(|state| state.correlating.get(nth)).copied();
            let Some(slot) = slot else { return };
            self.drop_excess_gathered(slot);
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
        self.report_parts_of_sets(slot);
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let (channel, key) = (outbox.channel, outbox.key);
        let policy = Policy::of(&outbox.terms.settings, route.batches);
        let sets = next.map(|next| Box::new(Sets::new(Arc::clone(next))));
        let former = outbox.waiting.set_sets(sets, policy, &self.events, self.now);
        let gathered = Backlog::of_sets(former);
        if let Some(state) = self.channels.get_mut(channel) {
            state.correlating.retain(|other| *other != slot);
            state.correlating.extend(next.map(|_| slot));
        }
        self.news.has_sets |= next.is_some();
        self.count_discards(slot, DiscardReason::Uncorrelated, gathered.len() as u64);
        self.leave(key, Some(DiscardReason::Uncorrelated), gathered);
        self.drop_all_excess_gathered(channel);
    }

    /// Forgets a consumer that is gone.
    pub(super) fn end_sets(&mut self, slot: u32) {
        if !self.outboxes.get(slot).is_some_and(|outbox| outbox.waiting.sets.is_some()) {
            return;
        }
        self.report_parts_of_sets(slot);
        let channel = self.outboxes.get(slot).map(|outbox| outbox.channel);
        if let Some(state) = channel.and_then(|channel| self.channels.get_mut(channel)) {
            state.correlating.retain(|other| *other != slot);
        }
    }

    // ---- sets that are over ----

    /// Reports what became of events of sets whose last one is not to be waited for.
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
