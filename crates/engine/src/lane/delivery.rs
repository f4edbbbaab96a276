//! Deliveries and their outcomes.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::events::Events;
use super::outbox::{Blocked, Handed, WAITING_PULLS_MAX};
use super::queue::Entry;
use super::slab::Slab;
use super::{Counters, Delivery, Lane, Outbox, Outcome};
use crate::event::EventAt;
use crate::{DiscardReason, DisconnectReason, Disposition, Event, Notice, OutboxId, ProxyKey, Refusal, Time};

/// Most events of one outbox that expire or reach their start time in one round; more would keep the other outboxes
/// waiting.
pub(super) const DUE_PER_ROUND: u64 = 1_024;

/// Most events of all outboxes together that expire or reach their start time until the next [`Lane::handle_timeout`]: a hundred outboxes
/// with a backlog that expires at the same time would keep all others waiting a hundred times as long. (Each outbox processed drops at
/// least one.)
pub(super) const DUE_AT_ONCE: u64 = 4_096;

/// Most outboxes processed per call because they are due.
pub(super) const OUTBOXES_PER_TIMEOUT: usize = 256;

impl Lane {
    /// The next delivery of the outboxes that can begin one: of the highest `dispatch_priority`, in round-robin order. `events` is cleared
    /// and filled: with one event, or up to `batch_size_max` where the consumer takes sequences. Each must be passed to
    /// [`release`](Self::release) in the end.
    pub fn poll_delivery(&mut self, now: Time, events: &mut Vec<Arc<Event>>) -> Option<Delivery> {
        self.advance_time(now);
        events.clear();
        while let Some(slot) = self.agenda.ready.pop() {
            let listed = self.outboxes.get_mut(slot).filter(|outbox| outbox.listed && outbox.bridge.is_none());
            let Some(mut outbox) = listed else { continue };
            outbox.listed = false;
            if outbox.waiting.is_special() {
                self.catch_up_within_budget(slot);
                let Some(again) = self.outboxes.get_mut(slot) else { continue };
                outbox = again;
            }
            let kept = &self.events;
            if !outbox.is_ready(kept, self.now) {
                continue;
            }
            let taken = |event| note_taken(kept, event, events);
            let Some(handed) = outbox.hand_out(kept, self.now, taken) else { continue };
            let delivery = describe(outbox, &handed);
            self.note_begun(slot, handed.deadline);
            return Some(delivery);
        }
        None
    }

    /// Begins a delivery of waiting events to a pull consumer, up to `max_events` (and no more than its
    /// `batch_size_max`, if that is more than 1); `None` if none waits. `events` is cleared and filled. The delivery
    /// is concluded by [`handle_outcome`](Self::handle_outcome) like any other, but it has no time limit, and a
    /// failure puts it back at once and does not count as the consumer's.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotConnected`] if no pull consumer is connected there.
    pub fn pull(
        &mut self,
        consumer: ProxyKey,
        max_events: u32,
        events: &mut Vec<Arc<Event>>,
        now: Time,
    ) -> Result<Option<Delivery>, Refusal> {
        self.advance_time(now);
        events.clear();
        let slot = self.puller(consumer)?;
        self.catch_up(slot);
        let (Some(outbox), kept) = (self.outboxes.get_mut(slot), &self.events) else { return Ok(None) };
        let taken = |event| note_taken(kept, event, events);
        let Some(handed) = outbox.hand_out_now(max_events, kept, self.now, taken) else { return Ok(None) };
        let delivery = describe(outbox, &handed);
        self.note_begun(slot, handed.deadline);
        Ok(Some(delivery))
    }

    /// Notes that a client waits for up to `max_events` events: when there are some (as many as fill a batch, or as
    /// few as there are when the consumer's `pacing_interval` is over), [`poll_delivery`](Self::poll_delivery) returns
    /// one [`Delivery`] that is `pulled`. Clients are served in the order in which they began to wait. A client goes
    /// on waiting, before all others, if its delivery is concluded as [`Outcome::Filtered`], [`Outcome::FilterFailed`]
    /// or [`Outcome::Untranslatable`].
    ///
    /// # Errors
    ///
    /// [`Refusal::NotConnected`] if no pull consumer is connected there, [`Refusal::TooManyWaiting`] if 4,096 clients wait there already.
    pub fn await_events(&mut self, consumer: ProxyKey, max_events: u32, now: Time) -> Result<(), Refusal> {
        self.advance_time(now);
        let slot = self.puller(consumer)?;
        if !self.outboxes.get_mut(slot).is_some_and(|outbox| outbox.wait(max_events)) {
            return Err(Refusal::TooManyWaiting { proxy: consumer, limit: WAITING_PULLS_MAX });
        }
        self.list_if_ready(slot);
        Ok(())
    }

    /// Withdraws the latest unanswered [`await_events`](Self::await_events) of a consumer, because a client that
    /// waited is gone.
    pub fn cancel_wait(&mut self, consumer: ProxyKey) {
        if let Ok(slot) = self.puller(consumer)
            && let Some(outbox) = self.outboxes.get_mut(slot)
        {
            outbox.cancel_wait();
        }
    }

    /// The outbox of a connected pull consumer.
    fn puller(&self, consumer: ProxyKey) -> Result<u32, Refusal> {
        let find = || {
            let state = self.channels.get(*self.places.slots.get(&consumer.channel)?)?;
            let slot = *state.members.get(state.routes.consumers.place_of(consumer.proxy)? as usize)?;
            self.outboxes.get(slot).filter(|outbox| outbox.terms.pull && !outbox.dead).map(|_| slot)
        };
        find().ok_or(Refusal::NotConnected { proxy: consumer })
    }

    /// Lists the outbox again after a delivery began, sets its deadline, and checks for room.
    #[inline]
    fn note_begun(&mut self, slot: u32, deadline: Time) {
        self.counters.deliveries.begun += 1;
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let was_full = outbox.full.at_bound || outbox.hold.holding;
        if !outbox.listed && outbox.is_ready(&self.events, self.now) {
            self.agenda.list(outbox);
        }
        outbox.look_at(deadline, &mut self.agenda.timers);
        if outbox.waiting.is_special()
            && let Some(due) = outbox.waiting_due(&self.events, self.now)
        {
            outbox.look_at(due, &mut self.agenda.timers);
        }
        if was_full {
            self.note_room(slot);
        }
    }

    /// Concludes a delivery with its outcome.
    pub fn handle_outcome(&mut self, outbox: OutboxId, serial: u32, outcome: Outcome, now: Time) {
        self.advance_time(now);
        let slot = outbox.slot;
        let Some((outbox, position)) = under_way(&mut self.outboxes, &mut self.counters, outbox, serial) else {
            return;
        };
        match outcome {
            Outcome::Delivered | Outcome::Sent => {
                outbox.answered(self.now);
                if outbox.blames() {
                    outbox.forget_blame(position, &self.events);
                }
                let events = self.finish(slot, position, Disposition::Delivered);
                let Some(outbox) = self.outboxes.get_mut(slot) else { return };
                outbox.counters.delivered += events;
                let counters = &mut self.counters;
                *if outbox.bridge.is_none() {
                    &mut counters.deliveries.delivered
                } else {
                    &mut counters.handovers.given
                } += events;
                if outbox.trouble.failures > 0 || outbox.hold.waited_out.is_some() {
                    self.succeed(slot);
                }
            }
            _ if outbox.bridge.is_some() => self.handle_not_handed(slot, position, serial, outcome),
            // The client that pulled could not be answered, which does not concern other clients that pull there.
            Outcome::NoRoom | Outcome::Unreachable | Outcome::ConnectionLost | Outcome::TimedOut | Outcome::Refused
                if outbox.is_pulled(position) =>
            {
                self.counters.deliveries.put_back += outbox.put_back_one(position, &self.events, self.now);
            }
            Outcome::Rejected => self.reject(slot, position),
            Outcome::Untranslatable => {
                outbox.wait_again(position);
                self.finish(slot, position, Disposition::Dropped(DiscardReason::Untranslatable));
            }
            Outcome::FilterFailed => {
                outbox.wait_again(position);
                self.finish(slot, position, Disposition::Dropped(DiscardReason::FilterFailed));
            }
            Outcome::Filtered => {
                outbox.wait_again(position);
                self.counters.deliveries.filtered += self.finish(slot, position, Disposition::Unwanted);
            }
            Outcome::NoRoom => {
                self.counters.deliveries.put_back += outbox.put_back_from(position, &self.events, self.now);
                let deadline = outbox.deadline(self.now, false);
                outbox.trouble.blocked = Some(Blocked { serial, deadline });
                outbox.look_at(deadline, &mut self.agenda.timers);
            }
            Outcome::Unreachable => self.fail(slot, None),
            Outcome::ConnectionLost | Outcome::TimedOut | Outcome::Refused => self.fail(slot, Some(position)),
            Outcome::Gone => self.disconnect(slot, DisconnectReason::Gone),
        }
        match self.outboxes.get(slot).is_some_and(|outbox| outbox.hold.is_late) {
            // The consumer may not keep up any more, or another event may be the next.
            true => self.note_room(slot),
            false => self.fetch_if_short(slot),
        }
        self.watch_aside(slot);
        if self.outboxes.get(slot).is_some_and(|outbox| outbox.waiting.is_special()) {
            // Events that were put back may have expired meanwhile.
            self.catch_up(slot);
            self.watch(slot);
        }
        self.list_if_ready(slot);
    }

    /// Removes events from an unanswered delivery because they cannot be translated for its consumer. They are dropped
    /// as [`DiscardReason::Untranslatable`]; the delivery's outcome is that of the others, of which there is at least
    /// one. `which` lists their indexes in the delivery, rising.
    pub fn leave_out(&mut self, outbox: OutboxId, serial: u32, which: &[u32], now: Time) {
        self.advance_time(now);
        let slot = outbox.slot;
        let Some((outbox, position)) = under_way(&mut self.outboxes, &mut self.counters, outbox, serial) else {
            return;
        };
        outbox.leave_out(position, which, &self.events, &mut self.space.done);
        while let Some(event) = self.space.done.pop() {
            self.conclude(slot, event, Disposition::Dropped(DiscardReason::Untranslatable));
        }
    }

    /// Handles a rejected delivery. A single event is dropped. A batch may have only one event that is the reason, and
    /// is delivered again in halves, down to single events.
    ///
    /// Only sequence proxies have batches: clients of JSON, Tempo and DDS and other lanes get one event a delivery, with an outcome of
    /// its own, however many share a buffer, a packet or a ring. A pulled batch that cannot be handed over is put back whole, and an
    /// event of a batch that cannot be translated is removed from it alone ([`Lane::leave_out`]).
    fn reject(&mut self, slot: u32, position: usize) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        outbox.answered(self.now);
        if outbox.aside.deliveries > 0 {
            return self.reject_instead(slot, position);
        }
        if outbox.is_batch(position) {
            self.counters.deliveries.put_back += outbox.split(position, &self.events, self.now);
        } else {
            self.reject_one(slot, position);
        }
        self.succeed(slot);
    }

    /// Drops an event that was rejected alone.
    pub(super) fn reject_one(&mut self, slot: u32, position: usize) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        if let Some(at) = outbox.first_of(position)
            && outbox.begins_rejections(self.now)
        {
            let (event_type, number) = self.events.named(at);
            self.news.notices.push_back(Notice::EventRejected { key: outbox.key, event_type, number });
        }
        self.finish(slot, position, Disposition::Dropped(DiscardReason::Rejected));
    }

    /// Resumes deliveries of an outbox after [`Outcome::NoRoom`], since its connection takes data again.
    pub fn resume_outbox(&mut self, outbox: OutboxId, now: Time) {
        self.advance_time(now);
        let slot = outbox.slot;
        let Some(outbox) = live(&mut self.outboxes, &mut self.counters, outbox) else { return };
        outbox.trouble.blocked = None;
        // The event to be tried instead of a set-aside one may have expired meanwhile.
        self.watch_aside(slot);
        self.list_if_ready(slot);
    }

    /// Releases an event of a delivery. Until then it counts towards its channel's memory budget.
    pub fn release(&mut self, event: Arc<Event>) {
        if let Some(event) = self.events.release_outside(event) {
            self.retire(event);
        }
    }

    /// Removes one holder of an event in the lane.
    #[inline]
    pub(super) fn release_holder(&mut self, event: EventAt) {
        if let Some(event) = self.events.release_holder(event) {
            self.retire(event);
        }
    }

    /// Retires an event without holders.
    fn retire(&mut self, event: Arc<Event>) {
        self.news.completion.end(&event);
        let (channel, charge) = (event.channel_slot, event.charged_bytes);
        self.memory_pool.memory.remove(charge);
        if let Some(state) = self.channels.get_mut(channel)
            && state.id == event.source.channel
        {
            state.all.remove(charge);
            if event.taken_over {
                state.taken.remove(charge);
            }
            if state.is_pressed() && !self.arrival.admitting {
                self.note_channel_room(channel);
            }
        }
        self.pool.give_back(event);
    }

    /// Processes what is due: overdue deliveries fail, outboxes are tried again after a failure, events expire or
    /// reach their start time, and some deferred work is done.
    ///
    /// The number of outboxes per call is limited, however many are due at the same time, as outboxes that failed together are. It is
    /// lower where many of their events have expired. The others stay due, and `next_timeout` returns so.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance_time(now);
        self.release_orphaned();
        self.check_memory_pool();
        let mut unfinished = core::mem::take(&mut self.space.unfinished);
        let mut blocked_long = core::mem::take(&mut self.space.blocked_long);
        self.agenda.due_left = DUE_AT_ONCE;
        for _ in 0..OUTBOXES_PER_TIMEOUT {
            if self.agenda.due_left == 0 {
                break;
            }
            let Some(slot) = self.agenda.timers.pop(self.now) else { break };
            let Some(outbox) = self.outboxes.get_mut(slot) else { continue };
            outbox.looked_at = Entry::NEVER;
            if let Some(serial) = outbox.overdue(self.now) {
                self.agenda.timed_out.push_back((outbox.id, serial));
                self.counters.deliveries.timed_out += 1;
                let position = outbox.position(serial);
                self.fail(slot, position);
            } else if outbox.trouble.retry_at.is_some_and(|time| time <= self.now) {
                outbox.trouble.retry_at = None;
            } else if outbox.aside_until().is_some_and(|time| time <= self.now) {
                self.counters.deliveries.put_back += outbox.end_aside(&self.events, self.now);
            }
            self.catch_up_within_budget(slot);
            self.drop_gathered_due(slot);
            self.look_at_late(slot);
            self.list_if_ready(slot);
            if self.is_blocked_long(slot) {
                blocked_long.push(slot);
            } else {
                self.watch_hold(slot);
            }
            let Some(outbox) = self.outboxes.get_mut(slot) else { continue };
            match outbox.next_due(&self.events, self.now) {
                Some(due) if due > self.now => outbox.look_at(due, &mut self.agenda.timers),
                // Too much has expired for one round. The other outboxes come first.
                Some(_) => unfinished.push(slot),
                None => {}
            }
        }
        for slot in unfinished.drain(..) {
            if let Some(outbox) = self.outboxes.get_mut(slot) {
                outbox.look_at(self.now, &mut self.agenda.timers);
            }
        }
        self.space.unfinished = unfinished;
        self.end_long_holds(&mut blocked_long);
        self.space.blocked_long = blocked_long;
    }

    /// Checks whether a consumer that blocks suppliers because its next event is late still keeps up.
    fn look_at_late(&mut self, slot: u32) {
        if !self.outboxes.get(slot).is_some_and(|outbox| outbox.hold.is_late) {
            return;
        }
        self.note_room(slot);
        if let Some(outbox) = self.outboxes.get_mut(slot).filter(|outbox| outbox.hold.is_late) {
            outbox.look_at(outbox.keeps_up_until(), &mut self.agenda.timers);
        }
    }

    /// Drops expired events of an outbox and starts those that reached their start time, up to the limit of a round.
    pub(super) fn catch_up(&mut self, slot: u32) {
        self.catch_up_by(slot, DUE_PER_ROUND);
    }

    /// Like [`catch_up`](Self::catch_up), where many outboxes are processed in a row: all share [`DUE_AT_ONCE`]. The
    /// rest stays due for `handle_timeout`, and is not delivered before.
    #[inline]
    pub(super) fn catch_up_within_budget(&mut self, slot: u32) {
        let done = self.catch_up_by(slot, self.agenda.due_left.clamp(1, DUE_PER_ROUND));
        self.agenda.due_left = self.agenda.due_left.saturating_sub(done);
    }

    /// Drops expired events and starts others, at most `most`. Returns how many.
    fn catch_up_by(&mut self, slot: u32, most: u64) -> u64 {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return 0 };
        if outbox.waiting.next_due().is_none_or(|due| due > self.now) {
            return 0;
        }
        let could_take = outbox.can_take();
        let mut started = 0;
        while started < most && outbox.waiting.start(self.now) {
            started += 1;
        }
        if started > 0 && !could_take {
            outbox.trouble.silent_since = self.now;
        }
        let mut dropped = 0;
        while dropped < most
            && let Some(outbox) = self.outboxes.get_mut(slot)
            && let Some(event) = outbox.pop_expired(&self.events, self.now)
        {
            dropped += 1;
            self.note_discard(slot, DiscardReason::Expired, event);
            self.release_holder(event);
        }
        if self.arrival.admitting {
            self.space.shortened.push(slot);
        } else {
            self.note_room(slot);
        }
        self.fetch_if_short(slot);
        started + dropped
    }

    /// Sets a timer for the next waiting event of an outbox that becomes due.
    pub(super) fn watch(&mut self, slot: u32) {
        if let Some(outbox) = self.outboxes.get_mut(slot)
            && let Some(due) = outbox.waiting_due(&self.events, self.now)
        {
            outbox.look_at(due, &mut self.agenda.timers);
        }
    }

    /// Counts an event dropped for a consumer, which the lane still holds.
    pub(super) fn note_discard(&mut self, slot: u32, reason: DiscardReason, event: EventAt) {
        self.complete(slot, event, Disposition::Dropped(reason));
        if let Some(outbox) = self.outboxes.get_mut(slot) {
            if outbox.bridge.is_some() {
                // A bridge stands for no consumer in particular.
                let counters = &mut self.counters;
                let is_refused = reason == DiscardReason::Rejected;
                *if is_refused { &mut counters.handovers.refused } else { &mut counters.handovers.dropped } += 1;
                return;
            }
            let event_type = self.events.event_type(event);
            self.drops.count(outbox.key, event_type, reason, &mut self.types);
        }
        self.count_discards(slot, reason, 1);
    }

    /// Counts events dropped for a consumer.
    pub(super) fn count_discards(&mut self, slot: u32, reason: DiscardReason, events: u64) {
        self.counters.discards.add(reason, events);
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        outbox.counters.discards.add(reason, events);
        if let Some(state) = self.channels.get_mut(outbox.channel) {
            state.traffic.discards.add(reason, events);
        }
    }

    /// Adds an outbox to the ready list, if it can begin a delivery.
    #[inline]
    pub(super) fn list_if_ready(&mut self, slot: u32) {
        if let Some(outbox) = self.outboxes.get_mut(slot) {
            self.agenda.list_if_ready(outbox, &self.events, self.now);
        }
    }

    /// Ends a delivery with the disposition `how` for all its events. Returns their number.
    #[inline]
    pub(super) fn finish(&mut self, slot: u32, position: usize, how: Disposition) -> u64 {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return 0 };
        let count = outbox.end(position);
        if outbox.flight.split.left > 0 {
            outbox.note_split(position, count as u64, how == Disposition::Delivered);
        }
        if position > 0 {
            outbox.take_unanswered(position, count, &self.events, &mut self.space.done);
            while let Some(event) = self.space.done.pop() {
                self.conclude(slot, event, how);
            }
            return count as u64;
        }
        // Mostly.
        for _ in 0..count {
            let outbox = self.outboxes.get_mut(slot);
            let Some(event) = outbox.and_then(|outbox| outbox.pop_unanswered(&self.events)) else { break };
            self.conclude(slot, event, how);
        }
        count as u64
    }

    #[inline]
    fn conclude(&mut self, slot: u32, event: EventAt, how: Disposition) {
        match how {
            Disposition::Dropped(reason) => self.note_discard(slot, reason, event),
            Disposition::Delivered => {
                self.note_delivered(slot, event);
                self.complete(slot, event, how);
            }
            Disposition::Unwanted => self.complete(slot, event, how),
        }
        self.release_holder(event);
    }

    /// Counts an event delivered to a consumer, which the lane still holds.
    #[inline]
    fn note_delivered(&mut self, slot: u32, event: EventAt) {
        let (Some(outbox), Some(event)) = (self.outboxes.get_mut(slot), self.events.get(event)) else { return };
        let Some(state) = self.channels.get_mut(outbox.channel).filter(|_| outbox.bridge.is_none()) else { return };
        let bytes = event.bytes.len() as u64;
        outbox.counters.delivered_bytes += bytes;
        state.traffic.delivered += 1;
        state.traffic.delivered_bytes += bytes;
        if !event.restored && outbox.catch_up.is_none() {
            let took = self.now.since(event.arrived);
            outbox.counters.latency.note(took);
            state.traffic.latency.note(took);
        }
    }

    /// Notes that a consumer takes events.
    pub(super) fn succeed(&mut self, slot: u32) {
        self.drop_aside(slot);
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        if outbox.trouble.failures > 0 {
            let failures = core::mem::take(&mut outbox.trouble.failures);
            let after = self.now.since(outbox.trouble.failing_since);
            self.news.notices.push_back(Notice::ConsumerRecovered { key: outbox.key, failures, after });
        }
        self.wait_for_again(slot);
    }

    /// Handles a failure: unanswered events are put back and tried again later, or the consumer is disconnected.
    fn fail(&mut self, slot: u32, position: Option<usize>) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        self.counters.deliveries.failures += 1;
        self.counters.deliveries.put_back += outbox.fail(position, &self.events, self.now);
        let failures = outbox.trouble.failures;
        if outbox.aside.deliveries > 0 {
            return self.note_aside(slot);
        }
        if outbox.is_hopeless(self.now) {
            let failing_for = self.now.since(outbox.trouble.failing_since);
            return self.disconnect(slot, DisconnectReason::GivenUp { failures, failing_for });
        }
        if let Some(retry_at) = outbox.trouble.retry_at {
            outbox.look_at(retry_at, &mut self.agenda.timers);
            if failures == 1 {
                let retry_in = retry_at.since(self.now);
                self.news.notices.push_back(Notice::ConsumerFailing { key: outbox.key, failures, retry_in });
            }
        }
        self.fetch_if_short(slot);
    }
}

/// The outbox, unless it is disconnected; a call for one that is gone is counted.
#[inline]
fn live<'a>(outboxes: &'a mut Slab<Outbox>, counters: &mut Counters, id: OutboxId) -> Option<&'a mut Outbox> {
    let found = outboxes.get_exact(id.slot, id.generation).filter(|outbox| !outbox.dead);
    counters.deliveries.unknown_outboxes += u64::from(found.is_none());
    found
}

/// The outbox of an unanswered delivery, and the index of the delivery's first event; a call for any other is counted.
#[inline]
fn under_way<'a>(
    outboxes: &'a mut Slab<Outbox>,
    counters: &mut Counters,
    id: OutboxId,
    serial: u32,
) -> Option<(&'a mut Outbox, usize)> {
    let outbox = live(outboxes, counters, id)?;
    let position = outbox.position(serial);
    counters.deliveries.stale_outcomes += u64::from(position.is_none());
    Some((outbox, position?))
}

/// An outbox's delivery, as the protocol gets it.
#[inline]
fn describe(outbox: &Outbox, handed: &Handed) -> Delivery {
    Delivery {
        outbox: outbox.id,
        key: outbox.key,
        peer: outbox.peer,
        output_form: outbox.terms.output_form,
        serial: handed.serial,
        one_way: outbox.terms.settings.one_way && !handed.pulled,
        deadline: Some(handed.deadline).filter(|deadline| *deadline != Entry::NEVER),
        pulled: handed.pulled,
        ask: handed.ask.filter_groups(),
        repeated: handed.ask.is_repeated(),
        correlated: handed.correlated,
    }
}

#[inline]
fn note_taken(kept: &Events, event: EventAt, events: &mut Vec<Arc<Event>>) {
    if let Some(event) = kept.get(event) {
        events.push(Arc::clone(event));
    }
}
