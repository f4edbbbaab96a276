//! Deliveries out, and what becomes of them.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::outbox::Blocked;
use super::{Delivery, Lane, Outcome};
use crate::{DiscardReason, DisconnectReason, Event, Notice, OutboxId, ProxyKey, Refusal, Time};

impl Lane {
    /// The next delivery: of the outboxes that can begin one, each in its turn. `events` is cleared and gets its events:
    /// one, or up to `batch_size_max` where the consumer takes sequences. Whoever lets go of one hands it to
    /// [`release`](Self::release).
    pub fn poll_delivery(&mut self, now: Time, events: &mut Vec<Arc<Event>>) -> Option<Delivery> {
        self.told(now);
        events.clear();
        while let Some(slot) = self.ready.pop_front() {
            let Some(outbox) = self.outboxes.get_mut(slot) else { continue };
            outbox.listed = false;
            if !outbox.is_ready() {
                continue;
            }
            let Some(handed) = outbox.hand_out(self.now) else { continue };
            let delivery = Delivery {
                outbox: outbox.id,
                key: outbox.key,
                peer: outbox.peer,
                want: outbox.want,
                serial: handed.serial,
                one_way: outbox.settings.one_way,
                deadline: handed.deadline,
                pulled: false,
                ask: None,
            };
            events.push(handed.event);
            if outbox.is_ready() {
                outbox.listed = true;
                self.ready.push_back(slot);
            }
            let was_full = outbox.full_at_bound || outbox.holding;
            if let Some(deadline) = handed.deadline {
                self.timers.set(slot, deadline);
            }
            if was_full {
                self.note_room(slot);
            }
            self.counters.deliveries += 1;
            return Some(delivery);
        }
        None
    }

    /// What waits for a consumer that pulls, at once, up to `max_events` (and no more than its `batch_size_max`); `None`
    /// if nothing does. `events` is cleared and gets the events. The delivery is concluded with
    /// [`handle_outcome`](Self::handle_outcome) like any other.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotConnected`] if no consumer that pulls is connected there.
    pub fn pull(
        &mut self,
        consumer: ProxyKey,
        _max_events: u32,
        events: &mut Vec<Arc<Event>>,
        now: Time,
    ) -> Result<Option<Delivery>, Refusal> {
        self.told(now);
        events.clear();
        Err(Refusal::NotConnected { proxy: consumer })
    }

    /// Notes that a client waits for up to `max_events` events: when there are some,
    /// [`poll_delivery`](Self::poll_delivery) gives one [`Delivery`] that is `pulled`.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotConnected`] if no consumer that pulls is connected there.
    pub fn await_events(&mut self, consumer: ProxyKey, _max_events: u32, now: Time) -> Result<(), Refusal> {
        self.told(now);
        Err(Refusal::NotConnected { proxy: consumer })
    }

    /// A client that waited is gone: the latest [`await_events`](Self::await_events) that is not yet answered is
    /// withdrawn.
    pub fn cancel_wait(&mut self, _consumer: ProxyKey) {}

    /// Says what became of a delivery.
    pub fn handle_outcome(&mut self, outbox: OutboxId, serial: u32, outcome: Outcome, now: Time) {
        self.told(now);
        let slot = outbox.slot;
        let Some(outbox) = self.outboxes.get_exact(slot, outbox.generation).filter(|outbox| !outbox.dead) else {
            self.counters.unknown_outboxes += 1;
            return;
        };
        let Some(position) = outbox.position(serial) else {
            self.counters.stale_outcomes += 1;
            return;
        };
        match outcome {
            Outcome::Delivered | Outcome::Sent => {
                outbox.delivered += 1;
                self.counters.delivered += 1;
                self.finish(slot, position);
                self.succeed(slot);
            }
            Outcome::Rejected => {
                self.finish_dropped(slot, position, DiscardReason::Rejected);
                self.succeed(slot);
            }
            Outcome::Untranslatable => self.finish_dropped(slot, position, DiscardReason::Untranslatable),
            Outcome::Filtered => {
                self.counters.events_filtered += 1;
                self.finish(slot, position);
            }
            Outcome::FilterFailed => self.finish_dropped(slot, position, DiscardReason::FilterFailed),
            Outcome::NoRoom => {
                self.counters.put_back += outbox.put_back_from(position);
                let deadline = outbox.deadline(self.now);
                outbox.blocked = Some(Blocked { serial, deadline });
                if let Some(deadline) = deadline {
                    self.timers.set(slot, deadline);
                }
            }
            Outcome::Unreachable | Outcome::TimedOut | Outcome::Refused => self.fail(slot),
            Outcome::Gone => self.disconnect(slot, DisconnectReason::Gone),
        }
        self.list_if_ready(slot);
    }

    /// The connection of an outbox takes deliveries again, after [`Outcome::NoRoom`].
    pub fn resume_outbox(&mut self, outbox: OutboxId, now: Time) {
        self.told(now);
        let slot = outbox.slot;
        let Some(outbox) = self.outboxes.get_exact(slot, outbox.generation).filter(|outbox| !outbox.dead) else {
            self.counters.unknown_outboxes += 1;
            return;
        };
        outbox.blocked = None;
        self.list_if_ready(slot);
    }

    /// Lets go of an event. Whoever got one with a delivery hands it back here when done with it; until then it counts
    /// towards its channel's memory budget.
    pub fn release(&mut self, event: Arc<Event>) {
        if Arc::strong_count(&event) > 1 {
            return;
        }
        let (channel, charge) = (event.channel_slot, event.charged_bytes);
        if let Some(state) = self.channels.get_mut(channel)
            && state.id == event.source.channel
        {
            state.used_bytes = state.used_bytes.saturating_sub(charge);
            state.events = state.events.saturating_sub(1);
            if state.is_pressed() && !self.admitting {
                self.note_channel_room(channel);
            }
        }
        self.pool.give_back(event);
    }

    /// Time has passed: deliveries whose time is over fail, outboxes that waited after a failure try again, and a little
    /// is done of what can be done later.
    pub fn handle_timeout(&mut self, now: Time) {
        self.told(now);
        self.let_go_leftovers();
        while let Some(slot) = self.timers.pop(self.now) {
            let Some(outbox) = self.outboxes.get_mut(slot) else { continue };
            if let Some(serial) = outbox.overdue(self.now) {
                self.timed_out.push_back((outbox.id, serial));
                self.counters.timed_out += 1;
                self.fail(slot);
            } else if outbox.retry_at.is_some_and(|time| time <= self.now) {
                outbox.retry_at = None;
                self.list_if_ready(slot);
            }
            if let Some(due) = self.outboxes.get(slot).and_then(super::Outbox::next_due) {
                self.timers.set(slot, due);
            }
        }
    }

    /// Puts an outbox among those that can begin a delivery, if it can.
    pub(super) fn list_if_ready(&mut self, slot: u32) {
        if let Some(outbox) = self.outboxes.get_mut(slot)
            && !outbox.listed
            && outbox.is_ready()
        {
            outbox.listed = true;
            self.ready.push_back(slot);
        }
    }

    /// Ends a delivery.
    fn finish(&mut self, slot: u32, position: usize) {
        if let Some(event) = self.outboxes.get_mut(slot).and_then(|outbox| outbox.finish(position)) {
            self.release(event);
        }
    }

    /// Ends a delivery of an event that is dropped.
    fn finish_dropped(&mut self, slot: u32, position: usize, reason: DiscardReason) {
        if let Some(outbox) = self.outboxes.get_mut(slot) {
            outbox.discards.add(reason, 1);
        }
        self.counters.discards.add(reason, 1);
        self.finish(slot, position);
    }

    /// Notes that a consumer takes events.
    fn succeed(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        if outbox.failures > 0 {
            let failures = core::mem::take(&mut outbox.failures);
            let after = self.now.since(outbox.failing_since);
            self.notices.push_back(Notice::ConsumerRecovered { key: outbox.key, failures, after });
        }
    }

    /// Notes a failure: what is unanswered goes back and is tried again later, or the consumer is given up.
    fn fail(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        self.counters.failures += 1;
        self.counters.put_back += outbox.fail(self.now);
        let failures = outbox.failures;
        if outbox.is_hopeless(self.now) {
            let failing_for = self.now.since(outbox.failing_since);
            return self.disconnect(slot, DisconnectReason::GivenUp { failures, failing_for });
        }
        if let Some(retry_at) = outbox.retry_at {
            self.timers.set(slot, retry_at);
            if failures == 1 {
                let retry_in = retry_at.since(self.now);
                self.notices.push_back(Notice::ConsumerFailing { key: outbox.key, failures, retry_in });
            }
        }
    }
}
