//! Outboxes: which can have a delivery, and the effects of failures and disconnections.

use std::time::Duration;

use engine::{DiscardReason, DisconnectReason, Notice, OutboxSettings, Reliability, Time, TypeId};

use super::waiting::Waiting;
use super::{Flight, Model};

impl Model {
    // ---- outboxes ----

    pub(super) fn settings(&self, at: usize) -> OutboxSettings {
        self.routed.effective(self.outboxes[at].key).unwrap_or_default()
    }

    pub(super) fn limit_from_now(&self, settings: OutboxSettings) -> Option<Time> {
        (!settings.reply_timeout.is_zero()).then(|| self.now + settings.reply_timeout)
    }

    pub(super) fn weight(&self, at: usize) -> u64 {
        let outbox = &self.outboxes[at];
        let in_flight = outbox.in_flight.iter().flat_map(|flight| &flight.events);
        outbox.waiting.iter().chain(in_flight).map(|waiting| self.events[waiting.event].weight).sum()
    }

    pub(super) fn succeed(&mut self, at: usize) {
        self.drop_aside(at);
        let outbox = &mut self.outboxes[at];
        if outbox.failures > 0 {
            let after = self.now.since(outbox.failing_since);
            self.notices.push(Notice::ConsumerRecovered { key: outbox.key, failures: outbox.failures, after });
            outbox.failures = 0;
        }
        self.wait_for_again(at);
    }

    pub(super) fn fail(&mut self, at: usize, place: Option<usize>) {
        let settings = self.settings(at);
        let blamed = if settings.delivery_attempts > 0 { self.failed_event(at, place) } else { None };
        let was_aside = self.outboxes[at].aside;
        self.end_aside(at);
        let flights = self.outboxes[at].in_flight.drain(..).collect();
        self.put_back(at, flights);
        self.counts.failures += 1;
        let outbox = &mut self.outboxes[at];
        outbox.blocked = None;
        if outbox.failures == 0 {
            outbox.failing_since = self.now;
        }
        outbox.failures += 1;
        let (failures, failing_for) = (outbox.failures, self.now.since(outbox.failing_since));
        let limit = gives_up_after(settings);
        let mut retry_in = settings.backoff_min;
        for _ in 1..failures {
            retry_in = (retry_in * 2).min(settings.backoff_max.max(settings.backoff_min));
        }
        let key = outbox.key;
        if self.set_aside(at, (blamed, was_aside), self.now + retry_in) {
            if failures == 1 {
                self.notices.push(Notice::ConsumerFailing { key, failures, retry_in: Duration::ZERO });
            }
            return;
        }
        if !limit.is_zero() && failing_for >= limit {
            self.disconnect(at, DisconnectReason::GivenUp { failures, failing_for });
            return;
        }
        self.outboxes[at].retry_at = Some(self.now + retry_in);
        if failures == 1 {
            self.notices.push(Notice::ConsumerFailing { key, failures, retry_in });
        }
    }

    /// Puts back a rejected batch and all later deliveries, to be delivered again in halves.
    pub(super) fn split(&mut self, at: usize, place: usize) {
        self.answered(at);
        let in_flight = &mut self.outboxes[at].in_flight;
        let half = u32::try_from(in_flight[place].events.len() / 2).unwrap_or(u32::MAX);
        let end = if in_flight[place].pulled { place + 1 } else { in_flight.len() };
        let mut flights: Vec<Flight> = in_flight.drain(place..end).collect();
        for waiting in flights.iter_mut().flat_map(|flight| &mut flight.events) {
            waiting.again |= waiting.ask.is_none();
        }
        let count = flights.iter().map(|flight| flight.events.len() as u64).sum();
        self.put_back(at, flights);
        self.outboxes[at].split = (half, self.outboxes[at].split.1.max(count));
        self.succeed(at);
    }

    /// Notes a rejection, which is reported after a minute without one.
    pub(super) fn note_rejected(&mut self, at: usize, event: usize) {
        let (number, now) = (self.events[event].serial, self.now);
        let outbox = &mut self.outboxes[at];
        let before = outbox.rejected_at.replace(now);
        if before.is_none_or(|before| now.since(before) >= Duration::from_secs(60)) {
            // The model has no numbers for types.
            self.notices.push(Notice::EventRejected { key: outbox.key, event_type: TypeId::OTHER, number });
        }
    }

    pub(super) fn disconnect(&mut self, at: usize, reason: DisconnectReason) {
        let discarded = self.drop_all(at, DiscardReason::Disconnected);
        let outbox = &mut self.outboxes[at];
        outbox.dead = true;
        outbox.aside = 0;
        outbox.blocked = None;
        outbox.retry_at = None;
        self.counts.disconnected += 1;
        self.notices.push(Notice::ConsumerDisconnected { key: outbox.key, peer: outbox.peer, reason, discarded });
    }

    /// Drops all events of an outbox, and ends the blocking it caused. Returns the number of events.
    pub(super) fn drop_all(&mut self, at: usize, reason: DiscardReason) -> u64 {
        // Unanswered events are released first, then waiting ones, in the order of delivery.
        let mut all: Vec<Waiting> = vec![];
        all.extend(self.outboxes[at].in_flight.drain(..).flat_map(|flight| flight.events));
        // An outbox that is given up at this moment is not examined for events that became due meanwhile.
        all.append(&mut self.line_of(at, self.outboxes[at].order, self.timed_at));
        all.append(&mut self.delayed_of(at, self.timed_at));
        let events: Vec<usize> = all.into_iter().map(|waiting| waiting.event).collect();
        let outbox = &mut self.outboxes[at];
        outbox.waiting.clear();
        outbox.credits.clear();
        (outbox.aside, outbox.undeliverable_at) = (0, None);
        outbox.blamed.clear();
        (outbox.full_at_bound, outbox.full_as_slow_consumer) = (false, false);
        let (count, channel) = (events.len() as u64, outbox.key.channel);
        self.orphaned_events.extend(events);
        self.count_discards(at, reason, count);
        self.end_outbox_hold(at);
        if self.holds.iter().any(|hold| hold.channel == channel && hold.by == Some(at)) {
            self.end_hold(channel);
        }
        count
    }

    pub(super) fn discard_one(&mut self, at: usize, reason: DiscardReason) {
        let victim = Self::victim(self.settings(at).discard_policy, &self.outboxes[at].waiting);
        self.outboxes[at].waiting.retain(|waiting| Some(waiting.event) != victim);
        self.outboxes[at].dropped_while_full += 1;
        self.count_discards(at, reason, 1);
    }

    pub(super) fn count_discards(&mut self, at: usize, reason: DiscardReason, count: u64) {
        self.outboxes[at].discards[reason as usize] += count;
        self.counts.discards[reason as usize] += count;
    }
}

/// Time of continuous failure after which a consumer is disconnected; zero if never.
pub(super) fn gives_up_after(settings: OutboxSettings) -> Duration {
    match settings.connection_reliability {
        Reliability::BestEffort => settings.give_up_after,
        Reliability::Persistent => settings.connection_expiry,
    }
}
