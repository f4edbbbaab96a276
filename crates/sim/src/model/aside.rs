//! Set-aside events: an event that its consumer never takes is set aside after its attempts, while a later one is tried.

use std::time::Duration;

use engine::{DiscardReason, Notice, OrderPolicy, Time, TypeId};

use super::outboxes::gives_up_after;
use super::{Blamed, Flight, Model};

/// Shortest time of all attempts, attempts that suffice where the consumer would be disconnected, and most events with counted attempts.
const ATTEMPTS_TAKE: Duration = Duration::from_secs(5);
const ATTEMPTS_BEFORE_THE_END: u32 = 2;
const ASIDE_MAX: usize = 8;

impl Model {
    /// The event of the failed delivery, if it came alone. A batch's events are delivered alone from now on.
    pub(super) fn failed_event(&mut self, at: usize, place: Option<usize>) -> Option<usize> {
        let place = place?;
        let in_flight = &mut self.outboxes[at].in_flight;
        let failed = &mut in_flight[place];
        if failed.events.len() == 1 {
            return Some(failed.events[0].event);
        }
        failed.events.iter_mut().for_each(|waiting| waiting.again |= waiting.ask.is_none());
        let count = in_flight.iter().map(|flight| flight.events.len() as u64).sum();
        let left = self.outboxes[at].split.1;
        self.outboxes[at].split = (1, left.max(count));
        None
    }

    /// Sets the failed event aside. Returns whether it is, with another event to try.
    pub(super) fn set_aside(&mut self, at: usize, (failed, was_aside): (Option<usize>, usize), until: Time) -> bool {
        let Some(failed) = failed else { return false };
        let (settings, now) = (self.settings(at), self.now);
        let blamed = &mut self.outboxes[at].blamed;
        match blamed.iter_mut().find(|known| known.event == failed) {
            Some(known) => (known.attempts, known.last) = (known.attempts + 1, now),
            None => {
                if blamed.len() == ASIDE_MAX {
                    let oldest = blamed.iter().map(|known| known.last).min();
                    let place = blamed.iter().position(|known| Some(known.last) == oldest);
                    place.map(|place| blamed.remove(place));
                }
                blamed.push(Blamed { event: failed, attempts: 1, since: now, last: now });
            }
        }
        if !self.is_exhausted(at, failed) {
            return false;
        }
        // Events not yet admitted at this time are not in line.
        let line = self.line_of(at, settings.order_policy, self.timed_at);
        let bad = line.iter().take_while(|next| self.is_exhausted(at, next.event)).count().min(was_aside + 1);
        self.outboxes[at].aside_until = until;
        if bad == line.len() {
            // Their numbers are spent.
            self.outboxes[at].next_serial += u32::try_from(bad).unwrap_or(0);
            return false;
        }
        for waiting in line.into_iter().take(bad) {
            let outbox = &mut self.outboxes[at];
            outbox.waiting.retain(|other| other.event != waiting.event);
            let (serial, events) = (outbox.next_serial, vec![waiting]);
            outbox.next_serial += 1;
            outbox.in_flight.push(Flight { serial, events, deadline: None, pulled: false, credit: None });
            outbox.aside += 1;
        }
        bad > 0
    }

    fn is_exhausted(&self, at: usize, event: usize) -> bool {
        let (settings, outbox) = (self.settings(at), &self.outboxes[at]);
        let attempts = settings.delivery_attempts;
        let Some(known) = outbox.blamed.iter().find(|known| known.event == event) else { return false };
        let limit = gives_up_after(settings);
        let is_hopeless = !limit.is_zero() && self.now.since(outbox.failing_since) >= limit;
        (known.attempts >= attempts && self.now.since(known.since) >= ATTEMPTS_TAKE)
            || (is_hopeless && known.attempts >= attempts.min(ATTEMPTS_BEFORE_THE_END))
    }

    /// When events set aside are put back, if nothing else is under way.
    pub(super) fn aside_until(&self, at: usize) -> Option<Time> {
        let outbox = &self.outboxes[at];
        let is_idle = outbox.in_flight.len() == outbox.aside && outbox.blocked.is_none();
        (outbox.aside > 0 && is_idle).then_some(outbox.aside_until)
    }

    /// Puts back events set aside, and those under way instead.
    pub(super) fn end_aside(&mut self, at: usize) {
        if std::mem::take(&mut self.outboxes[at].aside) > 0 {
            let flights = self.outboxes[at].in_flight.drain(..).collect();
            self.put_back(at, flights);
        }
    }

    /// Drops events set aside, which are undeliverable since the consumer took another.
    pub(super) fn drop_aside(&mut self, at: usize) {
        let aside = std::mem::take(&mut self.outboxes[at].aside);
        for flight in self.outboxes[at].in_flight.drain(..aside).collect::<Vec<_>>() {
            let event = flight.events[0].event;
            let (key, now, number) = (self.outboxes[at].key, self.now, self.events[event].serial);
            let before = self.outboxes[at].undeliverable_at.replace(now);
            if before.is_none_or(|before| now.since(before) >= Duration::from_secs(60)) {
                self.notices.push(Notice::EventUndeliverable { key, event_type: TypeId::OTHER, number });
            }
            self.note_split(at, false, 1);
            self.count_discards(at, DiscardReason::Undeliverable, 1);
        }
    }

    /// Resets the attempts of events after one was taken.
    pub(super) fn forget_blame(&mut self, at: usize, taken: usize) {
        let by_arrival = matches!(self.settings(at).order_policy, OrderPolicy::Any | OrderPolicy::Fifo);
        self.outboxes[at].blamed.retain(|known| !by_arrival && known.event != taken);
    }
}
