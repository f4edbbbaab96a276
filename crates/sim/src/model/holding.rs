//! Which consumers block suppliers, and for how long.

use std::time::Duration;

use engine::{
    BlockedBy, ChannelId, DiscardReason, DisconnectReason, FullOutbox, Notice, OrderPolicy, Reliability, Time,
};

use super::Model;

/// A consumer that has taken nothing for this long does not keep up.
const KEEPS_UP_WITHIN: Duration = Duration::from_secs(1);

impl Model {
    pub(super) fn answered(&mut self, at: usize) {
        self.outboxes[at].answered_at = self.now;
        self.outboxes[at].silent_since = self.now;
    }

    /// Whether a consumer has events to take or to answer.
    pub(super) fn can_take(&self, at: usize) -> bool {
        !self.line(at, OrderPolicy::Fifo).is_empty() || !self.outboxes[at].in_flight.is_empty()
    }

    pub(super) fn pressed_since(&self, channel: ChannelId) -> Time {
        let found = self.pressed.iter().find(|(pressed, _)| *pressed == channel);
        found.map_or(self.now, |(_, since)| *since)
    }

    /// Since when a channel's suppliers wait for this consumer, as becomes known now: since they were first blocked,
    /// if it has taken nothing since then.
    pub(super) fn waited_for_since(&self, at: usize) -> Time {
        let outbox = &self.outboxes[at];
        let pressed = self.pressed_since(outbox.key.channel);
        if outbox.silent_since <= pressed && !self.blocks(at) { pressed } else { self.now }
    }

    /// Whether a consumer stays connected and loses events when its time of blocking suppliers is over.
    pub(super) fn is_waited_out(&self, at: usize) -> bool {
        let settings = self.settings(at);
        let limit = settings.hold_timeout.unwrap_or(settings.reply_timeout);
        settings.connection_reliability == Reliability::Persistent && !limit.is_zero()
    }

    pub(super) fn wait_for_again(&mut self, at: usize) {
        let outbox = &mut self.outboxes[at];
        if let Some(before) = outbox.waited_out.take() {
            let dropped = outbox.discards[DiscardReason::WaitedOut as usize] - before;
            self.notices.push(Notice::WaitedForAgain { key: outbox.key, dropped });
        }
    }

    /// Whether suppliers are blocked for a time before events of a consumer are dropped for want of room.
    pub(super) fn blocks(&self, at: usize) -> bool {
        let settings = self.settings(at);
        matches!(settings.full_outbox, None | Some(FullOutbox::Discard)) && !settings.blocking.is_zero()
    }

    /// Whether a consumer keeps up, and its next event has waited for longer than its bound.
    pub(super) fn exceeds_bound(&self, at: usize) -> bool {
        let (settings, outbox) = (self.settings(at), &self.outboxes[at]);
        let bound = if outbox.late { settings.latency_bound.mul_f64(0.875) } else { settings.latency_bound };
        let keeps_up =
            outbox.failures == 0 && !self.is_suspended(at) && self.now.since(outbox.silent_since) < KEEPS_UP_WITHIN;
        let keeps_up = keeps_up && outbox.waited_out.is_none();
        let next = self.line(at, settings.order_policy).first().copied();
        !bound.is_zero() && keeps_up && next.is_some_and(|next| self.now.since(next.since) > bound)
    }

    /// When a consumer with a late event that takes nothing does not keep up any more.
    pub(super) fn late_due(&self, at: usize) -> Option<Time> {
        self.outboxes[at].late.then(|| self.outboxes[at].silent_since + KEEPS_UP_WITHIN)
    }

    /// When suppliers that have waited for room from `since` on have waited long enough.
    pub(super) fn blocked_until(&self, at: usize, since: Time) -> Option<Time> {
        if self.blocks(at) { Some(since + self.settings(at).blocking) } else { self.silent_until(at, since) }
    }

    /// When a consumer that suppliers have waited for from `since` on has taken nothing for long enough.
    fn silent_until(&self, at: usize, since: Time) -> Option<Time> {
        let settings = self.settings(at);
        let limit = settings.hold_timeout.unwrap_or(settings.reply_timeout);
        (!limit.is_zero()).then(|| since.max(self.outboxes[at].silent_since) + limit)
    }

    fn blocked_until_for_itself(&self, at: usize) -> Option<Time> {
        let outbox = &self.outboxes[at];
        match (outbox.holding, outbox.late) {
            (false, _) => None,
            (true, false) => self.blocked_until(at, outbox.holding_since),
            (true, true) => self.silent_until(at, outbox.holding_since),
        }
    }

    pub(super) fn hold_due(&self, at: usize) -> Option<Time> {
        if self.outboxes[at].dead {
            return None;
        }
        let as_laggard = self.holds.iter().filter(|hold| hold.by == Some(at)).filter_map(|hold| hold.look_at);
        as_laggard.chain(self.blocked_until_for_itself(at)).min()
    }

    pub(super) fn end_long_holds(&mut self) {
        let is_over = |due: Option<Time>, now: Time| due.is_some_and(|due| due <= now);
        let due: Vec<usize> = self.present().into_iter().filter(|at| is_over(self.hold_due(*at), self.now)).collect();
        for at in due {
            if is_over(self.blocked_until_for_itself(at), self.now) {
                if self.blocks(at) && !self.outboxes[at].late { self.end_blocking(at) } else { self.end_long_hold(at) }
            }
            let Some(place) = self.holds.iter().position(|hold| hold.by == Some(at) && is_over(hold.look_at, self.now))
            else {
                continue;
            };
            let channel = self.holds[place].channel;
            let mut largest = None;
            for other in self.present() {
                let outbox = &self.outboxes[other];
                let has_some = self.weight(other) > 0 && (outbox.waited_out.is_none() || !outbox.waiting.is_empty());
                let counts = outbox.key.channel == channel && has_some;
                if counts && largest.is_none_or(|largest| self.weight(other) > self.weight(largest)) {
                    largest = Some(other);
                }
            }
            let Some(largest) = largest else {
                self.holds[place].look_at = None;
                continue;
            };
            if largest != at {
                self.holds[place].since = self.waited_for_since(largest);
            }
            let is_waited_out = self.outboxes[largest].waited_out.is_some();
            let due = self.blocked_until(largest, self.holds[place].since);
            let due = if is_waited_out { Some(self.now) } else { due };
            self.holds[place].by = Some(largest);
            self.holds[place].look_at = due;
            if largest != at {
                let by = Some(BlockedBy::Consumer(self.outboxes[largest].key));
                self.notices.push(Notice::SuppliersBlocked { channel, by });
                self.look_for_room();
            }
            if is_over(due, self.now) && self.holds.iter().any(|hold| hold.by == Some(largest)) {
                let blocks = self.blocks(largest) && self.outboxes[largest].waited_out.is_none();
                if blocks { self.end_blocking(largest) } else { self.end_long_hold(largest) }
            }
        }
    }

    /// Ends blocking after the time in `blocking`: excess events are dropped, and suppliers go on.
    fn end_blocking(&mut self, at: usize) {
        if self.outboxes[at].dead {
            return;
        }
        self.blocked += 1;
        if self.drop_excess(at, None) {
            let channel = self.outboxes[at].key.channel;
            self.pressed.retain(|(pressed, _)| *pressed != channel);
        }
        self.look_for_room();
    }

    /// Ends the blocking by a consumer that has taken nothing for too long, until it takes something.
    fn wait_out(&mut self, at: usize, blocked_for: Duration) {
        let outbox = &self.outboxes[at];
        let before = outbox.waited_out.unwrap_or(outbox.discards[DiscardReason::WaitedOut as usize]);
        if outbox.waited_out.is_none() {
            self.waited_out += 1;
            self.notices.push(Notice::WaitedOut { key: outbox.key, blocked_for });
        }
        self.drop_excess(at, Some(DiscardReason::WaitedOut));
        // Not before, since from now on it is no reason to block any more.
        self.outboxes[at].waited_out = Some(before);
        self.end_outbox_hold(at);
        self.look_for_room();
    }

    /// Drops excess events. Returns whether the channel's suppliers were blocked.
    fn drop_excess(&mut self, at: usize, reason: Option<DiscardReason>) -> bool {
        if self.outboxes[at].holding && !self.outboxes[at].late {
            let max = self.settings(at).max_events_per_consumer;
            while max.is_some_and(|max| self.outboxes[at].waiting.len() > max.get() as usize) {
                self.discard_one(at, reason.unwrap_or(DiscardReason::OutboxFull));
            }
            self.end_outbox_hold(at);
            self.look_for_room();
        }
        let channel = self.outboxes[at].key.channel;
        if !self.holds.iter().any(|hold| hold.by == Some(at)) {
            return false;
        }
        let Ok(limits) = self.routed.channel(channel).map(|channel| channel.limits) else { return false };
        loop {
            let (events, bytes, _) = self.usage(channel);
            let memory = bytes > limits.memory_budget_bytes;
            if !memory && limits.max_queue_length.is_none_or(|max| events <= u64::from(max.get())) {
                break;
            }
            if let Some(place) = self.orphaned_events.iter().position(|event| self.events[*event].channel == channel) {
                self.orphaned_events.remove(place);
                continue;
            }
            if self.outboxes[at].waiting.is_empty() {
                break;
            }
            let why = if memory { DiscardReason::MemorySpent } else { DiscardReason::QueueFull };
            self.discard_one(at, reason.unwrap_or(why));
        }
        self.end_hold(channel);
        true
    }

    fn end_long_hold(&mut self, at: usize) {
        if self.outboxes[at].dead {
            return;
        }
        let outbox = &self.outboxes[at];
        let (key, is_full) = (outbox.key, outbox.holding);
        let as_laggard = self.holds.iter().find(|hold| hold.by == Some(at)).map_or(self.now, |hold| hold.since);
        let since = if is_full { outbox.holding_since } else { as_laggard };
        let blocked_for = self.now.since(since);
        let suspended = self.is_suspended(at);
        if outbox.waited_out.is_some() || (!suspended && self.can_take(at)) {
            return match self.is_waited_out(at) {
                true => self.wait_out(at, blocked_for),
                false => self.disconnect(at, DisconnectReason::BlockedSuppliers { blocked_for }),
            };
        }
        self.outboxes[at].silent_since = self.now;
        self.notices.push(Notice::HoldGoesOn { key, blocked_for, suspended });
        let due = self.blocked_until(at, self.now);
        for hold in self.holds.iter_mut().filter(|hold| hold.by == Some(at)) {
            hold.look_at = due;
        }
    }
}
