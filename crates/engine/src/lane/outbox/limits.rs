//! Failures of an outbox's deliveries, and its time limits.

use super::{Outbox, Unanswered};
use crate::Time;
use crate::lane::events::Events;
use crate::lane::queue::Entry;
use crate::lane::timers::Timers;

impl Outbox {
    /// Handles a failure, of the delivery at `position` if given: all unanswered events are put back, and nothing is delivered for a
    /// while, unless an event is set aside and another tried at once. Returns the number of events put back.
    pub(in crate::lane) fn fail(&mut self, position: Option<usize>, events: &Events, now: Time) -> u64 {
        let counts = self.terms.settings.delivery_attempts > 0;
        let failed = if counts { self.failed_event(position, events) } else { None };
        let was_aside = self.aside.deliveries;
        let put_back = self.end_aside(events, now);
        if self.trouble.failures == 0 {
            self.trouble.failing_since = now;
        }
        self.trouble.failures = self.trouble.failures.saturating_add(1);
        self.trouble.blocked = None;
        let again = now + self.terms.settings.backoff(self.trouble.failures);
        self.trouble.retry_at = Some(again).filter(|again| !self.set_aside((failed, was_aside), events, *again, now));
        put_back
    }

    /// Whether deliveries have failed for so long that the consumer is to be disconnected.
    pub(in crate::lane) fn is_hopeless(&self, now: Time) -> bool {
        let limit = self.terms.settings.gives_up_after();
        !limit.is_zero() && now.since(self.trouble.failing_since) >= limit
    }

    /// When the consumer is to be disconnected if deliveries go on failing; `None` if they do not fail, or if never.
    pub(in crate::lane) fn given_up_at(&self) -> Option<Time> {
        let limit = self.terms.settings.gives_up_after();
        let is_limited = self.trouble.failures > 0 && !limit.is_zero();
        is_limited.then(|| self.trouble.failing_since + limit)
    }

    /// Deadline of a delivery that begins now; [`Entry::NEVER`] if none. If remote filters are called first, their
    /// time is added.
    #[inline]
    pub(in crate::lane) fn deadline(&self, now: Time, asks: bool) -> Time {
        let begins = if asks { now + self.terms.settings.filter_timeout } else { now };
        Time(begins.0.saturating_add(self.terms.reply_nanos))
    }

    /// Serial of the overdue delivery, if there is one: unanswered, or without room on its connection.
    pub(in crate::lane) fn overdue(&self, now: Time) -> Option<u32> {
        let unanswered = self.flight.unanswered.iter().find(|event| self.deadline_of(event) <= now);
        let blocked = || self.trouble.blocked.filter(|blocked| blocked.deadline <= now).map(|blocked| blocked.serial);
        unanswered.map(|event| event.serial).or_else(blocked)
    }

    /// Deadline of a delivery. A consumer that answers one after the other has the full time for each, however many
    /// are under way.
    fn deadline_of(&self, event: &Unanswered) -> Time {
        event.deadline.max(self.flight.answered_at + self.terms.settings.reply_timeout)
    }

    /// When something next becomes due. (Later deliveries have later deadlines, but for a change of settings: all are
    /// examined, once for each time limit and not for each event.)
    pub(in crate::lane) fn next_due(&self, events: &Events, now: Time) -> Option<Time> {
        let answers = self.flight.unanswered.iter().map(|event| self.deadline_of(event));
        let room = self.trouble.blocked.map(|blocked| blocked.deadline);
        let limits = answers.chain(room).filter(|due| *due != Entry::NEVER);
        let waiting = self.waiting_due(events, now).into_iter().chain(self.gathered_due(now));
        limits.chain(self.trouble.retry_at).chain(self.aside_until()).chain(waiting).min()
    }

    /// When one of the waiting events next becomes due: it expires, reaches its start time, or a batch leaves without
    /// being full. (If a batch need not be full already, it waits for something else.)
    #[inline]
    pub(in crate::lane) fn waiting_due(&self, events: &Events, now: Time) -> Option<Time> {
        if !self.waiting.policy().paced {
            return self.waiting.next_due();
        }
        let paced = self.paced_until(events).filter(|due| *due > now);
        self.waiting.next_due().into_iter().chain(paced).min()
    }

    /// Sets a timer for the outbox at `due`, unless there is an earlier one.
    #[inline]
    pub(in crate::lane) fn look_at(&mut self, due: Time, timers: &mut Timers) {
        if due < self.looked_at {
            self.looked_at = due;
            timers.set(self.id.slot, due);
        }
    }

    /// Sets the next serial, for a test of wrap-around.
    #[cfg(test)]
    pub(in crate::lane) fn start_serials_at(&mut self, serial: u32) {
        self.flight.next_serial = serial;
    }
}
