//! Events that a consumer never takes: what follows when one is set aside and a later one is tried.

use core::time::Duration;

use super::{Lane, Notice};
use crate::{DiscardReason, Settlement};

impl Lane {
    /// An outbox failed and has set an event aside: there is room in it, and its next event is tried at once.
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

    /// Sees to it that what is set aside goes back if nothing is there to be tried.
    pub(super) fn watch_aside(&mut self, slot: u32) {
        if let Some(outbox) = self.outboxes.get_mut(slot)
            && let Some(until) = outbox.aside_until()
        {
            outbox.look_at(until, &mut self.agenda.timers);
        }
    }

    /// A consumer took an event: those that are set aside for it are undeliverable.
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
            self.finish(slot, 0, Settlement::Dropped(DiscardReason::Undeliverable));
        }
    }

    /// The event that was tried instead was rejected, which is no proof that the consumer takes events: what is set aside is tried again.
    pub(super) fn reject_instead(&mut self, slot: u32, position: usize) {
        self.reject_one(slot, position);
        if let Some(outbox) = self.outboxes.get_mut(slot) {
            self.counters.put_back += outbox.end_aside(&self.events, self.now);
        }
        self.succeed(slot);
    }
}
