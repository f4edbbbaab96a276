//! Who suppliers wait for, and for how long.

use engine::{ChannelId, DisconnectReason, HeldBy, Notice, OrderPolicy, Time};

use super::Model;

impl Model {
    pub(super) fn answered(&mut self, at: usize) {
        self.outboxes[at].answered_at = self.now;
        self.outboxes[at].silent_since = self.now;
    }

    /// Whether a consumer has something that it could take, or has yet to answer.
    pub(super) fn can_take(&self, at: usize) -> bool {
        !self.line(at, OrderPolicy::Fifo).is_empty() || !self.outboxes[at].in_flight.is_empty()
    }

    pub(super) fn pressed_since(&self, channel: ChannelId) -> Time {
        let found = self.pressed.iter().find(|(pressed, _)| *pressed == channel);
        found.map_or(self.now, |(_, since)| *since)
    }

    /// When suppliers that wait for a consumer since then have waited for long enough.
    pub(super) fn held_until(&self, at: usize, since: Time) -> Option<Time> {
        let settings = self.settings(at);
        let limit = settings.hold_timeout.unwrap_or(settings.reply_timeout);
        (!limit.is_zero()).then(|| since.max(self.outboxes[at].silent_since) + limit)
    }

    fn held_until_for_itself(&self, at: usize) -> Option<Time> {
        let outbox = &self.outboxes[at];
        if outbox.holding { self.held_until(at, outbox.holding_since) } else { None }
    }

    pub(super) fn hold_due(&self, at: usize) -> Option<Time> {
        if self.outboxes[at].dead {
            return None;
        }
        let as_laggard = self.holds.iter().filter(|hold| hold.by == Some(at)).filter_map(|hold| hold.look_at);
        as_laggard.chain(self.held_until_for_itself(at)).min()
    }

    pub(super) fn end_long_holds(&mut self) {
        let is_over = |due: Option<Time>, now: Time| due.is_some_and(|due| due <= now);
        let due: Vec<usize> = self.present().into_iter().filter(|at| is_over(self.hold_due(*at), self.now)).collect();
        for at in due {
            if is_over(self.held_until_for_itself(at), self.now) {
                self.end_long_hold(at);
            }
            let Some(place) = self.holds.iter().position(|hold| hold.by == Some(at) && is_over(hold.look_at, self.now))
            else {
                continue;
            };
            let channel = self.holds[place].channel;
            let mut largest = None;
            for other in self.present() {
                let counts = self.outboxes[other].key.channel == channel && self.weight(other) > 0;
                if counts && largest.is_none_or(|largest| self.weight(other) > self.weight(largest)) {
                    largest = Some(other);
                }
            }
            let Some(largest) = largest else {
                self.holds[place].look_at = None;
                continue;
            };
            let due = self.held_until(largest, self.pressed_since(channel));
            self.holds[place].by = Some(largest);
            self.holds[place].look_at = due;
            if largest != at {
                let by = Some(HeldBy::Consumer(self.outboxes[largest].key));
                self.notices.push(Notice::SuppliersHeld { channel, by });
                self.look_for_room();
            }
            if is_over(due, self.now) && self.holds.iter().any(|hold| hold.by == Some(largest)) {
                self.end_long_hold(largest);
            }
        }
    }

    fn end_long_hold(&mut self, at: usize) {
        if self.outboxes[at].dead {
            return;
        }
        let outbox = &self.outboxes[at];
        let (key, is_full) = (outbox.key, outbox.holding);
        let since = if is_full { outbox.holding_since } else { self.pressed_since(key.channel) };
        let held_for = self.now.since(since);
        let suspended = self.is_suspended(at);
        if !suspended && self.can_take(at) {
            self.disconnect(at, DisconnectReason::HeldSuppliers { held_for });
            return;
        }
        self.outboxes[at].silent_since = self.now;
        self.notices.push(Notice::HoldGoesOn { key, held_for, suspended });
        let due = self.held_until(at, self.now);
        for hold in self.holds.iter_mut().filter(|hold| hold.by == Some(at)) {
            hold.look_at = due;
        }
    }
}
