//! Dead letters: an event that its consumer never takes is set aside, dropped, and sent to another channel.

use alloc::sync::Arc;
use core::time::Duration;

use super::suppliers::Supplier;
use super::{Admission, Lane, Notice};
use crate::{ChannelId, DiscardReason, Disposition, Event, Forms, PendingEvent, ProxyId, ProxyKey, Refusal, Time};

/// An event that is undeliverable for a consumer, and is sent to another channel instead.
#[derive(Debug)]
pub struct DeadLetter {
    /// The event, to be returned by [`Lane::release`].
    pub event: Arc<Event>,
    /// The consumer's proxy.
    pub consumer: ProxyKey,
    /// Its destination: the channel's [`dead_letters`](crate::ChannelLimits::dead_letters).
    pub to: ChannelId,
}

impl Lane {
    /// Notes that a failing outbox has set an event aside: it has room, and its next event is tried at once.
    pub(super) fn note_aside(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let was_full = outbox.full.at_bound || outbox.hold.holding;
        if outbox.trouble.failures == 1 {
            let notice = Notice::ConsumerFailing { key: outbox.key, failures: 1, retry_in: Duration::ZERO };
            self.news.notices.push_back(notice);
        }
        if was_full {
            self.note_room(slot);
        }
        self.watch_aside(slot);
    }

    /// Sets a timer to put events back that are set aside, if there is nothing to try instead.
    pub(super) fn watch_aside(&mut self, slot: u32) {
        if let Some(outbox) = self.outboxes.get_mut(slot)
            && let Some(until) = outbox.aside_until()
        {
            outbox.look_at(until, &mut self.agenda.timers);
        }
    }

    /// Drops the events set aside for a consumer, which are undeliverable since it took a later one.
    pub(super) fn drop_aside(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        for _ in 0..core::mem::take(&mut outbox.aside.deliveries) {
            let Some(outbox) = self.outboxes.get_mut(slot) else { return };
            if let Some(at) = outbox.first_of(0)
                && outbox.begins_undeliverable(self.now)
            {
                let (event_type, number) = self.events.named(at);
                self.news.notices.push_back(Notice::EventUndeliverable { key: outbox.key, event_type, number });
            }
            self.note_dead_letter(slot);
            self.finish(slot, 0, Disposition::Dropped(DiscardReason::Undeliverable));
        }
    }

    /// Sends the first unanswered event of a consumer, which is about to be dropped, to the channel for dead letters, if there is one.
    fn note_dead_letter(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get(slot) else { return };
        let to = self.channels.get(outbox.channel).and_then(|state| state.routes.limits.dead_letters);
        if let Some(to) = to
            && let Some(event) = outbox.first_of(0).and_then(|at| self.events.get(at))
        {
            let (event, consumer) = (Arc::clone(event), outbox.key);
            self.news.dead_letters.push_back(DeadLetter { event, consumer, to });
        }
    }

    /// The next undeliverable event to be sent to another channel: see [`handle_dead_letter`](Self::handle_dead_letter). At most as many
    /// are pending as may be set aside for one consumer.
    pub fn poll_dead_letter(&mut self) -> Option<DeadLetter> {
        self.news.dead_letters.pop_front()
    }

    /// The channel for a channel's undeliverable events, if it sets one that exists.
    #[must_use]
    pub fn dead_letters_of(&self, channel: ChannelId) -> Option<ChannelId> {
        let slot = self.places.slots.get(&channel).copied()?;
        let to = self.channels.get(slot)?.routes.limits.dead_letters;
        to.filter(|to| self.places.slots.contains_key(to))
    }

    /// Takes an event into a channel for dead letters, like [`handle_event`](Self::handle_event), but without a
    /// supplier, so that no reply waits for a ticket.
    pub fn handle_dead_letter<F: Forms>(
        &mut self,
        to: ChannelId,
        pending_event: PendingEvent,
        forms: &F,
        now: Time,
    ) -> Admission {
        self.advance_time(now);
        let found = self.places.slots.get(&to).copied();
        let Some((slot, state)) = found.and_then(|slot| Some((slot, self.channels.get(slot)?))) else {
            self.abandon_event(pending_event);
            return Admission::Refused(Refusal::ChannelNotFound { channel: to });
        };
        let source = ProxyKey { channel: to, proxy: ProxyId(u32::MAX) };
        let supplier = Supplier::of(source, slot, state);
        self.admit(&supplier, pending_event, forms)
    }

    /// Handles the rejection of an event tried instead, which is no proof that the consumer takes events: those set aside are tried again.
    pub(super) fn reject_instead(&mut self, slot: u32, position: usize) {
        self.reject_one(slot, position);
        if let Some(outbox) = self.outboxes.get_mut(slot) {
            self.counters.deliveries.put_back += outbox.end_aside(&self.events, self.now);
        }
        self.succeed(slot);
    }
}
