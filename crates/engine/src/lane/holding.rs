//! Which consumers suppliers wait for, and for how long: a consumer that takes nothing for its `hold_timeout` meanwhile is disconnected,
//! or, if its connection is persistent, not waited for any more until it takes something.
//!
//! Looked at is, when its time may be over, the consumer because of which they were held. By then it may be another one that they
//! wait for: the one with the largest backlog now.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use super::channel::{Hold, Whose};
use super::queue::Entry;
use super::{Holding, Lane, Outbox, OutboxStats};
use crate::{DiscardReason, DisconnectReason, Notice, Time};

impl Lane {
    /// When it is to be looked at how long suppliers wait for this consumer; [`Entry::NEVER`] if they do not.
    fn hold_due(&self, slot: u32) -> Time {
        let Some(outbox) = self.outboxes.get(slot).filter(|outbox| !outbox.dead) else { return Entry::NEVER };
        let Some(state) = self.channels.get(outbox.channel) else { return Entry::NEVER };
        let holds = Whose::ALL.into_iter().filter_map(|whose| state.room(whose).hold);
        let as_slow_consumer = holds.filter(|hold| hold.is_by(slot)).map(|hold| hold.look_at);
        as_slow_consumer.min().unwrap_or(Entry::NEVER).min(outbox.blocked_until_for_itself()).min(outbox.budget_due())
    }

    /// How an outbox is doing, and how long suppliers wait for its consumer.
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

    /// Sees to it that it is looked at in time.
    pub(super) fn watch_hold(&mut self, slot: u32) {
        let due = self.hold_due(slot);
        if let Some(outbox) = self.outboxes.get_mut(slot) {
            outbox.look_at(due, &mut self.agenda.timers);
        }
    }

    /// Whether suppliers may have waited for long enough.
    pub(super) fn is_blocked_long(&self, slot: u32) -> bool {
        self.hold_due(slot) <= self.now
    }

    /// Looks at the consumers for which suppliers may have waited long enough.
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

    /// Finds the consumer that has taken nothing for too long, which may be another by now than the one because of which suppliers were
    /// held.
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

    /// Suppliers have waited for a consumer for as long as its `blocking` says: what is too much is dropped, and they go on.
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

    /// Suppliers do not wait any more for a consumer that has taken nothing for too long, and stays: what is too much is dropped, now and
    /// whenever there is no room, until it takes something.
    fn wait_out(&mut self, slot: u32, blocked_for: Duration) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        if outbox.hold.waited_out.is_none() {
            outbox.hold.waited_out = Some(outbox.counters.discards.of(DiscardReason::WaitedOut));
            self.news.notices.push_back(Notice::WaitedOut { key: outbox.key, blocked_for });
        }
        self.go_on_without(slot);
    }

    /// Drops what is too much for a consumer that is not waited for any more, and lets suppliers go on.
    pub(super) fn go_on_without(&mut self, slot: u32) {
        let Some(channel) = self.outboxes.get(slot).map(|outbox| outbox.channel) else { return };
        self.drop_excess(slot, Some(DiscardReason::WaitedOut));
        self.end_outbox_hold(slot);
        self.look_after_excess(slot, channel);
    }

    /// A consumer has taken something, or is not to be waited out any more: suppliers wait for it again.
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

    /// Drops what is too much of what suppliers were blocked for because of a consumer, and lets them go on. Without a reason it is the one
    /// for which they were held. Says whether its channel had no room.
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
            while let Some(over) = over(self).filter(|over| over.any()) {
                if self.release_orphaned_of(channel) {
                    continue;
                }
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

    /// Disconnects a consumer that has taken nothing for too long, or has it lose events, unless it cannot take anything.
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
