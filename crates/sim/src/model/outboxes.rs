//! Outboxes: who can have a delivery, and what failures and departures do.

use engine::{DiscardPolicy, DiscardReason, DisconnectReason, Notice, OutboxSettings, OutboxState, Time};

use super::Model;

impl Model {
    // ---- outboxes ----

    pub(super) fn can_deliver(&self, at: usize) -> bool {
        let outbox = &self.outboxes[at];
        let window = if outbox.failures > 0 { 1 } else { self.settings(at).push_window };
        let is_idle = self.state(at) == OutboxState::Active;
        is_idle && !outbox.waiting.is_empty() && outbox.in_flight.len() < usize::from(window)
    }

    pub(super) fn settings(&self, at: usize) -> OutboxSettings {
        self.routed.effective(self.outboxes[at].key).unwrap_or_default()
    }

    pub(super) fn limit_from_now(&self, settings: OutboxSettings) -> Option<Time> {
        (!settings.reply_timeout.is_zero()).then(|| self.now + settings.reply_timeout)
    }

    pub(super) fn weight(&self, at: usize) -> u64 {
        let outbox = &self.outboxes[at];
        let all = outbox.waiting.iter().copied().chain(outbox.in_flight.iter().map(|flight| flight.event));
        all.map(|event| self.events[event].weight).sum()
    }

    pub(super) fn put_back(&mut self, at: usize, from: usize) {
        let outbox = &mut self.outboxes[at];
        let back: Vec<usize> = outbox.in_flight.drain(from..).map(|flight| flight.event).collect();
        self.counts.put_back += back.len() as u64;
        outbox.waiting.splice(0..0, back);
    }

    pub(super) fn succeed(&mut self, at: usize) {
        let outbox = &mut self.outboxes[at];
        if outbox.failures > 0 {
            let after = self.now.since(outbox.failing_since);
            self.notices.push(Notice::ConsumerRecovered { key: outbox.key, failures: outbox.failures, after });
            outbox.failures = 0;
        }
    }

    pub(super) fn fail(&mut self, at: usize) {
        let settings = self.settings(at);
        self.put_back(at, 0);
        self.counts.failures += 1;
        let outbox = &mut self.outboxes[at];
        outbox.blocked = None;
        if outbox.failures == 0 {
            outbox.failing_since = self.now;
        }
        outbox.failures += 1;
        let (failures, failing_for) = (outbox.failures, self.now.since(outbox.failing_since));
        if !settings.give_up_after.is_zero() && failing_for >= settings.give_up_after {
            self.disconnect(at, DisconnectReason::GivenUp { failures, failing_for });
            return;
        }
        let mut retry_in = settings.backoff_min;
        for _ in 1..failures {
            retry_in = (retry_in * 2).min(settings.backoff_max.max(settings.backoff_min));
        }
        outbox.retry_at = Some(self.now + retry_in);
        if failures == 1 {
            self.notices.push(Notice::ConsumerFailing { key: outbox.key, failures, retry_in });
        }
    }

    pub(super) fn disconnect(&mut self, at: usize, reason: DisconnectReason) {
        let discarded = self.drop_all(at, DiscardReason::Disconnected);
        let outbox = &mut self.outboxes[at];
        outbox.dead = true;
        outbox.blocked = None;
        outbox.retry_at = None;
        self.counts.disconnected += 1;
        self.notices.push(Notice::ConsumerDisconnected { key: outbox.key, peer: outbox.peer, reason, discarded });
    }

    /// Drops all an outbox has, and ends what it was the reason for. Says how many events.
    pub(super) fn drop_all(&mut self, at: usize, reason: DiscardReason) -> u64 {
        let outbox = &mut self.outboxes[at];
        let mut events: Vec<usize> = outbox.in_flight.drain(..).map(|flight| flight.event).collect();
        events.append(&mut outbox.waiting);
        (outbox.full_at_bound, outbox.full_as_laggard) = (false, false);
        let (count, channel) = (events.len() as u64, outbox.key.channel);
        self.leftovers.extend(events);
        self.count_discards(at, reason, count);
        self.end_outbox_hold(at);
        if self.holds.iter().any(|hold| hold.channel == channel && hold.by == Some(at)) {
            self.end_hold(channel);
        }
        count
    }

    pub(super) fn discard_one(&mut self, at: usize, reason: DiscardReason) {
        let policy = self.settings(at).discard_policy;
        let waiting = &mut self.outboxes[at].waiting;
        waiting.remove(if policy == DiscardPolicy::Lifo { waiting.len() - 1 } else { 0 });
        self.outboxes[at].dropped_while_full += 1;
        self.count_discards(at, reason, 1);
    }

    pub(super) fn count_discards(&mut self, at: usize, reason: DiscardReason, count: u64) {
        self.outboxes[at].discards[reason as usize] += count;
        self.counts.discards[reason as usize] += count;
    }
}
