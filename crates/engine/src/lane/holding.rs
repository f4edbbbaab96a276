//! Which consumers block suppliers, and for how long: one that takes nothing for its `hold_timeout` meanwhile is
//! disconnected or, if its connection is persistent, stops blocking them until it takes something.
//!
//! The check looks at the consumer for which blocking began. By then another one may block them: the one with the
//! largest backlog now.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use super::channel::{Hold, Over, Whose};
use super::correlating::DISPLACED_AT_ONCE;
use super::queue::Entry;
use super::{Holding, Lane, Outbox, OutboxStats};
use crate::{DiscardReason, DisconnectReason, Notice, Time};

impl Lane {
    /// When to check how long this consumer has blocked suppliers; [`Entry::NEVER`] if it does not.
    fn hold_due(&self, slot: u32) -> Time {
        let Some(outbox) = self.outboxes.get(slot).filter(|outbox| !outbox.dead) else { return Entry::NEVER };
        let Some(state) = self.channels.get(outbox.channel) else { return Entry::NEVER };
        let holds = Whose::ALL.into_iter().filter_map(|whose| state.room(whose).hold);
        let as_slow_consumer = holds.filter(|hold| hold.is_by(slot)).map(|hold| hold.look_at);
        as_slow_consumer.min().unwrap_or(Entry::NEVER).min(outbox.blocked_until_for_itself()).min(outbox.budget_due())
    }

    /// Statistics of an outbox, with the time for which it has blocked suppliers.
    pub(super) fn stats_of(&self, outbox: &Outbox) -> OutboxStats {
        let state = self.channels.get(outbox.channel);
        let of =
            |whose| state.and_then(|state| state.room(whose).hold).filter(|hold: &Hold| hold.is_by(outbox.id.slot));
        let as_slow_consumer = Whose::ALL.into_iter().filter_map(of).map(|hold| hold.since);
        let since = as_slow_consumer.chain(outbox.hold.holding.then_some(outbox.hold.holding_since)).min();
        let takes = !outbox.suspended && outbox.can_take();
        let until = |since| Some(outbox.blocked_until(since)).filter(|until| takes && *until != Entry::NEVER);
        outbox.stats(since.map(|since| Holding { since, until: until(since) }), &self.events)
    }

    /// Sets a timer for this check.
    pub(super) fn watch_hold(&mut self, slot: u32) {
        let due = self.hold_due(slot);
        if let Some(outbox) = self.outboxes.get_mut(slot) {
            outbox.look_at(due, &mut self.agenda.timers);
        }
    }

    /// Whether suppliers may have been blocked for the longest time.
    pub(super) fn is_blocked_long(&self, slot: u32) -> bool {
        self.hold_due(slot) <= self.now
    }

    /// Checks the consumers that may have blocked suppliers for the longest time.
    pub(super) fn end_long_holds(&mut self, slots: &mut Vec<u32>) {
        // Backlogs go by rising proxy, not in the order of their time limits.
        slots.sort_unstable_by_key(|slot| self.outboxes.get(*slot).map(|outbox| outbox.key));
        for slot in slots.drain(..) {
            let is_over = |outbox: &&Outbox| outbox.blocked_until_for_itself() <= self.now;
            if let Some(outbox) = self.outboxes.get(slot).filter(is_over) {
                if outbox.blocks() && !outbox.hold.is_late { self.end_blocking(slot) } else { self.end_long_hold(slot) }
            }
            for whose in Whose::ALL {
                let Some(silent) = self.find_silent(slot, whose) else { continue };
                let blocks = |outbox: &Outbox| outbox.blocks() && outbox.hold.waited_out.is_none();
                if self.outboxes.get(silent).is_some_and(blocks) {
                    self.end_blocking(silent);
                } else {
                    self.end_long_hold(silent);
                }
            }
            self.look_at_budget(slot);
            self.watch_hold(slot);
        }
    }

    /// Finds the consumer that has taken nothing for too long, possibly another one than that for which suppliers were
    /// blocked.
    fn find_silent(&mut self, slot: u32, whose: Whose) -> Option<u32> {
        let channel = self.outboxes.get(slot)?.channel;
        let state = self.channels.get(channel)?;
        let hold = state.room(whose).hold?;
        let (by, _) = hold.by.filter(|(by, _)| *by == slot && hold.look_at <= self.now)?;
        let (pressed, now) = (state.pressed_since?, self.now);
        // An outbox that is not waited for loses what waits in it; with nothing but deliveries under way it has nothing to lose.
        let has_some =
            |outbox: &Outbox| outbox.weight > 0 && (outbox.hold.waited_out.is_none() || !outbox.waiting.is_empty());
        let counts = |outbox: &&Outbox| has_some(outbox) && (outbox.bridge.is_none() || whose == Whose::Suppliers);
        let with_backlog = state.slots().filter_map(|slot| self.outboxes.get(slot).filter(counts));
        let largest = with_backlog.max_by_key(|outbox| (outbox.weight, Reverse(outbox.key.proxy)));
        let found = largest.map(|outbox| {
            let is_new = outbox.id.slot != by;
            let since = if is_new { outbox.waited_for_since(pressed, now) } else { hold.since };
            let due = if outbox.hold.waited_out.is_some() { now } else { outbox.blocked_until(since) };
            (outbox.id.slot, outbox.blocked_by(), since, due)
        });
        if let Some(hold) = &mut self.channels.get_mut(channel)?.room_mut(whose).hold {
            hold.by = found.map_or(hold.by, |(slot, blocked_by, ..)| Some((slot, blocked_by)));
            hold.since = found.map_or(hold.since, |(_, _, since, _)| since);
            hold.look_at = found.map_or(Entry::NEVER, |(.., due)| due);
        }
        let (largest, blocked_by, _, due) = found?;
        if largest != by {
            let channel_id = self.channels.get(channel)?.id;
            self.news.notices.push_back(Notice::SuppliersBlocked { channel: channel_id, by: Some(blocked_by) });
            self.end_charge(by);
            self.reconsider_hold(channel);
            self.channels.get(channel)?.room(whose).hold?;
        }
        if due <= self.now {
            return Some(largest);
        }
        self.watch_hold(largest);
        None
    }

    /// Ends the blocking of suppliers after a consumer's `blocking` time: excess events are dropped, and the suppliers go on.
    fn end_blocking(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get(slot).filter(|outbox| !outbox.dead) else { return };
        let channel = outbox.channel;
        if self.drop_excess(slot, None)
            && let Some(state) = self.channels.get_mut(channel)
        {
            state.pressed_since = None;
        }
        self.look_after_excess(slot, channel);
    }

    /// Ends the blocking by a consumer that has taken nothing for too long, and stays connected: excess events are
    /// dropped, now and whenever there is no room, until it takes something.
    fn wait_out(&mut self, slot: u32, blocked_for: Duration) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        if outbox.hold.waited_out.is_none() {
            outbox.hold.waited_out = Some(outbox.counters.discards.of(DiscardReason::WaitedOut));
            self.news.notices.push_back(Notice::WaitedOut { key: outbox.key, blocked_for });
        }
        self.go_on_without(slot);
    }

    /// Drops the excess events of a consumer that does not block suppliers any more, and lets these go on.
    pub(super) fn go_on_without(&mut self, slot: u32) {
        let Some(channel) = self.outboxes.get(slot).map(|outbox| outbox.channel) else { return };
        self.drop_excess(slot, Some(DiscardReason::WaitedOut));
        self.end_outbox_hold(slot);
        self.look_after_excess(slot, channel);
    }

    /// Lets a consumer block suppliers again, once it has taken something or its limits have changed.
    pub(super) fn wait_for_again(&mut self, slot: u32) {
        if self.is_spent(slot) {
            return;
        }
        if let Some(outbox) = self.outboxes.get_mut(slot)
            && let Some(before) = outbox.hold.waited_out.take()
        {
            outbox.hold.is_spent = false;
            let dropped = outbox.counters.discards.of(DiscardReason::WaitedOut) - before;
            self.news.notices.push_back(Notice::WaitedForAgain { key: outbox.key, dropped });
        }
    }

    /// Drops the events in excess of the limit for which a consumer blocked suppliers, and lets these go on. Without
    /// `reason`, the drops are for that limit. Returns whether its channel had no room.
    fn drop_excess(&mut self, slot: u32, reason: Option<DiscardReason>) -> bool {
        let Some(outbox) = self.outboxes.get(slot) else { return false };
        let channel = outbox.channel;
        if outbox.hold.holding && !outbox.hold.is_late {
            while self.outboxes.get(slot).is_some_and(Outbox::is_overfull) {
                self.discard_one(slot, reason.unwrap_or(DiscardReason::OutboxFull));
            }
            self.end_outbox_hold(slot);
        }
        let mut was_held = false;
        for whose in Whose::ALL {
            let over = |lane: &Self| Some(lane.channels.get(channel)?.over(whose, 0, 0, 1));
            let hold = self.channels.get(channel).and_then(|state| state.room(whose).hold);
            if !hold.is_some_and(|hold| hold.is_by(slot)) {
                continue;
            }
            let mut awaiting = DISPLACED_AT_ONCE;
            while over(self).is_some_and(Over::any) {
                if self.release_orphaned_of(channel) {
                    continue;
                }
                // What was dropped last may only wait for others by now.
                let has_more = self.displace_awaiting((channel, whose), &mut awaiting, over);
                let Some(over) = over(self).filter(|over| over.any() && !has_more) else { break };
                if self.outboxes.get(slot).is_none_or(|outbox| outbox.waiting.is_empty()) {
                    break;
                }
                self.discard_one(slot, reason.unwrap_or(over.reason()));
            }
            self.end_hold(channel, whose);
            was_held = true;
        }
        was_held
    }

    fn look_after_excess(&mut self, slot: u32, channel: u32) {
        self.look_at_shortened();
        self.look_at_next(slot);
        self.note_channel_room(channel);
    }

    /// Disconnects a consumer that has taken nothing for too long, or makes it lose events, unless it cannot take anything.
    fn end_long_hold(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot).filter(|outbox| !outbox.dead) else { return };
        let Some(state) = self.channels.get_mut(outbox.channel) else { return };
        let as_slow_consumer = Whose::ALL.into_iter().filter_map(|whose| state.room(whose).hold);
        let as_slow_consumer = as_slow_consumer.filter(|hold| hold.is_by(slot)).map(|hold| hold.since);
        let since = if outbox.hold.holding { Some(outbox.hold.holding_since) } else { as_slow_consumer.min() };
        let blocked_for = self.now.since(since.unwrap_or(self.now));
        let suspended = outbox.suspended;
        if outbox.hold.waited_out.is_some() || (!suspended && outbox.can_take()) {
            return match outbox.hold.waited_out.is_some() || outbox.terms.settings.is_waited_out() {
                true => self.wait_out(slot, blocked_for),
                false => self.disconnect(slot, DisconnectReason::BlockedSuppliers { blocked_for }),
            };
        }
        outbox.trouble.silent_since = self.now;
        self.news.notices.push_back(Notice::HoldGoesOn { key: outbox.key, blocked_for, suspended });
        let due = outbox.blocked_until(self.now);
        for whose in Whose::ALL {
            if let Some(hold) = state.room_mut(whose).hold.as_mut().filter(|hold| hold.is_by(slot)) {
                hold.look_at = due;
            }
        }
        self.watch_hold(slot);
    }
}
