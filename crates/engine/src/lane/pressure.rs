//! Back-pressure at a channel's limits: the `FullOutbox` of the slow consumer, the outbox with the largest backlog,
//! decides; and the end of back-pressure once there is room again.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use core::time::Duration;

use super::channel::{ChannelState, Hold, Over, SlowConsumer, Whose};
use super::gathering::DISPLACED_AT_ONCE;
use super::queue::Entry;
use super::{Lane, Outbox};
use crate::event::EventAt;
use crate::{DiscardReason, DisconnectReason, Disposition, FullOutbox, Notice, ProxyId, Refusal};

/// Outboxes by the weight of their backlog; among equals, by their consumers' proxies.
pub(super) type Backlogs = BinaryHeap<(u64, Reverse<ProxyId>, u32)>;

/// Interval of the check whether channels short of the memory pool have room again, and the most channels checked.
pub(super) const LOOK_AT_ROOM_EVERY: Duration = Duration::from_millis(5);
const CHECKED_PER_ROUND: usize = 64;
/// Most consumers disconnected per event because they have taken nothing for too long and are in the way: each may
/// have a long backlog.
const SILENT_PER_EVENT: u32 = 4;

/// Result of applying the slow consumer's policy once.
enum Step {
    /// There may be room now, and this outbox is not to be tried again.
    Again,
    /// There may be room now; this outbox still has a backlog of this weight.
    Smaller(u64),
    /// Suppliers are to be blocked for this outbox.
    Hold,
    /// Suppliers are to be blocked until events on their way to storage are there.
    HoldForKeeper,
}

impl Lane {
    /// Makes room in a channel for an event of `charge` bytes. `Some` means that there is none, and that the suppliers
    /// are to be blocked; `Err` that the event is refused.
    pub(super) fn make_room(&mut self, channel: u32, charge: u64) -> Result<Option<Hold>, Refusal> {
        let whose = self.whose();
        if let Some(room) = self.channels.get(channel).map(|state| state.room(whose)).filter(|room| room.hold.is_some())
        {
            // If no event waits, this one will. A hand-over also takes memory on the lane that it comes from, which limits its number.
            return if self.arrival.taking_over || room.waiters.is_empty() {
                Ok(None)
            } else {
                self.check_ceiling(channel, charge).map(|()| None)
            };
        }
        let mut backlogs = core::mem::take(&mut self.space.backlogs);
        let (mut known, mut silent, mut displaced) = (true, SILENT_PER_EVENT, DISPLACED_AT_ONCE);
        let result = loop {
            let Some(over) = self.over(channel, charge) else { break Ok(None) };
            if self.release_orphaned_of(channel) {
                continue;
            }
            if over.queue && self.rejects_new_events(channel) {
                if self.arrival.taking_over {
                    break Ok(Some(Hold::new(over, None)));
                }
                break Err(self.refusal(channel, over));
            }
            let Some(slow_consumer) = self.next_slow_consumer(channel, &mut backlogs, &mut known) else {
                if self.displace_gathered(channel, whose, &mut displaced) {
                    continue;
                }
                // Everything left is in flight, and will be released by itself; memory has to wait for it.
                break Ok(over.memory.then_some(Hold::new(over, None)));
            };
            match self.press(channel, slow_consumer.slot, over, &mut silent) {
                Ok(Step::Again) => {}
                // With its smaller backlog it goes back among the others. The known one from last time is not among them.
                Ok(Step::Smaller(weight)) if !known => backlogs.push((weight, slow_consumer.order, slow_consumer.slot)),
                Ok(Step::Smaller(_)) => {}
                Ok(Step::Hold) => {
                    let by =
                        self.outboxes.get(slow_consumer.slot).map(|outbox| (slow_consumer.slot, outbox.blocked_by()));
                    break Ok(Some(Hold::new(over, by)));
                }
                Ok(Step::HoldForKeeper) => break Ok(Some(Hold { for_keeper: true, ..Hold::new(over, None) })),
                Err(refusal) => break Err(refusal),
            }
        };
        backlogs.clear();
        self.space.backlogs = backlogs;
        result
    }

    /// Applies the slow consumer's policy. At most `silent` more may be disconnected because they take nothing.
    fn press(&mut self, channel: u32, slot: u32, over: Over, silent: &mut u32) -> Result<Step, Refusal> {
        let Some(outbox) = self.outboxes.get(slot) else { return Ok(Step::Again) };
        let unset = if over.memory { FullOutbox::Hold } else { FullOutbox::Discard };
        let policy = outbox.terms.settings.policy_at_limits().unwrap_or(unset);
        let policy = outbox.policy_when(policy, self.arrival.taking_over);
        let holds = outbox.would_hold(policy, self.arrival.taking_over);
        let would_lose = over.memory && outbox.would_lose(&self.events);
        match policy {
            _ if holds && outbox.hold.waited_out.is_none() && !self.has_spent(slot) => Ok(Step::Hold),
            FullOutbox::Reject if !holds => {
                self.note_full(slot, true, FullOutbox::Reject);
                Err(self.refusal(channel, over))
            }
            FullOutbox::Disconnect => {
                let reason = if over.memory { DisconnectReason::MemorySpent } else { DisconnectReason::QueueFull };
                self.disconnect(slot, reason);
                Ok(Step::Again)
            }
            _ if self.outboxes.get(slot).is_none_or(|outbox| outbox.waiting.is_empty()) => {
                // Everything it has is in flight. The next largest is tried, and next time all are measured again.
                if let Some(state) = self.channels.get_mut(channel) {
                    state.known_slow_consumer = None;
                }
                Ok(Step::Again)
            }
            // Events on their way to storage take the memory. They are released in the end, whatever the consumer does.
            _ if would_lose && self.keeps_elsewhere_now(channel) => Ok(Step::HoldForKeeper),
            _ if holds
                && *silent > 0
                && let Some(blocked_for) = self.silent_beyond_budget(slot) =>
            {
                *silent -= 1;
                self.disconnect(slot, DisconnectReason::BlockedSuppliers { blocked_for });
                Ok(Step::Again)
            }
            _ => {
                self.note_full(slot, true, FullOutbox::Discard);
                self.discard_one(slot, if holds { DiscardReason::WaitedOut } else { over.reason() });
                Ok(Step::Smaller(self.outboxes.get(slot).map_or(0, |outbox| outbox.weight)))
            }
        }
    }

    /// The outbox with the largest backlog: the previous one if no other can have overtaken it; otherwise all are
    /// measured, once for each event.
    fn next_slow_consumer(&mut self, channel: u32, backlogs: &mut Backlogs, known: &mut bool) -> Option<SlowConsumer> {
        // Events to be handed over do not count against those taken over: see `ChannelState::taken`.
        let counts = |outbox: &Outbox| outbox.bridge.is_none() || !self.arrival.taking_over;
        let state = self.channels.get_mut(channel)?;
        if *known {
            let slow_consumer = state.known_slow_consumer;
            let is_largest = |slow_consumer: SlowConsumer| {
                let outbox = self.outboxes.get(slow_consumer.slot);
                outbox.is_some_and(|outbox| outbox.weight > slow_consumer.rivals_weight && counts(outbox))
            };
            if let Some(slow_consumer) = slow_consumer.filter(|slow_consumer| is_largest(*slow_consumer)) {
                return Some(slow_consumer);
            }
            *known = false;
            let mut left_out = 0;
            backlogs.extend(state.slots().filter_map(|slot| {
                let outbox = self.outboxes.get(slot).filter(|outbox| outbox.weight > 0)?;
                if !counts(outbox) {
                    left_out = outbox.weight.max(left_out);
                    return None;
                }
                Some((outbox.weight, Reverse(outbox.key.proxy), slot))
            }));
            let (_, order, slot) = backlogs.pop()?;
            let rivals_weight = backlogs.peek().map_or(left_out, |(weight, _, _)| left_out.max(*weight));
            state.known_slow_consumer = Some(SlowConsumer { slot, order, rivals_weight });
            return state.known_slow_consumer;
        }
        backlogs.pop().map(|(_, order, slot)| SlowConsumer { slot, order, rivals_weight: 0 })
    }

    /// The senders to block if there is no room for the incoming event.
    pub(super) fn whose(&self) -> Whose {
        if self.arrival.taking_over { Whose::Lanes } else { Whose::Suppliers }
    }

    /// Limits that one more event of `charge` bytes would exceed; `None` if there is room.
    fn over(&self, channel: u32, charge: u64) -> Option<Over> {
        let over = self.channels.get(channel)?.over(self.whose(), 1, charge, 1);
        over.any().then_some(over)
    }

    /// Refuses events beyond the ceiling: while suppliers are blocked, events they have sent already may exceed the limits, but not without
    /// end.
    fn check_ceiling(&self, channel: u32, charge: u64) -> Result<(), Refusal> {
        let Some(state) = self.channels.get(channel) else { return Ok(()) };
        let over = state.over(Whose::Suppliers, 1, charge, 2);
        if over.any() { Err(self.refusal(channel, over)) } else { Ok(()) }
    }

    fn rejects_new_events(&self, channel: u32) -> bool {
        self.channels.get(channel).is_some_and(|state| state.routes.limits.reject_new_events)
    }

    pub(super) fn refusal(&self, channel: u32, over: Over) -> Refusal {
        let Some(state) = self.channels.get(channel) else { return Refusal::IdsExhausted };
        match state.quota.max_queue_length {
            Some(max) if over.queue => Refusal::QueueFull { channel: state.id, capacity_events: max },
            _ => Refusal::MemorySpent { channel: state.id, budget_bytes: state.quota.budget_bytes },
        }
    }

    // ---- into an outbox ----

    /// Finds a place in an outbox for an event that has expired on arrival, or finds the outbox full. Returns whether
    /// the event goes in.
    pub(super) fn find_place(&mut self, slot: u32, entry: &Entry) -> bool {
        if entry.expiry <= self.now {
            self.note_discard(slot, DiscardReason::Expired, entry.event);
            return false;
        }
        self.catch_up_within_budget(slot);
        !self.outboxes.get(slot).is_some_and(Outbox::is_full) || self.make_place(slot, entry, true)
    }

    /// Finds a place for an incoming event in a full outbox, or one without room elsewhere. Returns whether the event
    /// goes in.
    pub(super) fn make_place(&mut self, slot: u32, arriving: &Entry, has_room_elsewhere: bool) -> bool {
        let Some(outbox) = self.outboxes.get(slot) else { return false };
        let policy = outbox.policy_when(outbox.full_policy(has_room_elsewhere), self.arrival.taking_over);
        let holds = outbox.would_hold(policy, self.arrival.taking_over);
        if holds && !outbox.hold.holding && outbox.hold.waited_out.is_none() {
            // Whether it is spent is noted.
            self.has_spent(slot);
        }
        let Some(outbox) = self.outboxes.get_mut(slot) else { return false };
        let (policy, reason) = match policy {
            _ if !holds => (policy, DiscardReason::OutboxFull),
            _ if outbox.hold.waited_out.is_some() => (FullOutbox::Discard, DiscardReason::WaitedOut),
            policy => {
                outbox.hold.holds_handovers |= policy == FullOutbox::Reject;
                (FullOutbox::Hold, DiscardReason::OutboxFull)
            }
        };
        if policy == FullOutbox::Hold && self.arrival.unattended {
            self.note_full(slot, false, FullOutbox::Discard);
            self.pass_by(slot, arriving.event);
            return false;
        }
        match policy {
            FullOutbox::Disconnect => {
                // Not at once: the lists of destinations are being walked.
                self.space.doomed.push(slot);
                self.complete(slot, arriving.event, Disposition::Dropped(DiscardReason::Disconnected));
                return false;
            }
            // A full outbox takes precedence over a late event: there has to be room before suppliers go on.
            FullOutbox::Hold if !outbox.hold.holding || outbox.hold.is_late => {
                if outbox.hold.is_late {
                    // There may be room for some of the suppliers blocked by the late event.
                    self.space.shortened.push(slot);
                }
                (outbox.hold.holding, outbox.hold.is_late) = (true, false);
                outbox.hold.holding_since = self.now;
                let due = outbox.blocked_until_for_itself();
                outbox.look_at(due, &mut self.agenda.timers);
                let (channel, by) = (outbox.key.channel, Some(outbox.blocked_by()));
                self.news.notices.push_back(Notice::SuppliersBlocked { channel, by });
            }
            _ => {}
        }
        self.note_full(slot, false, policy);
        if policy == FullOutbox::Hold {
            return true;
        }
        // `Reject` was evaluated before any outbox took the event; this outbox may have become full since.
        while let Some(outbox) = self.outboxes.get_mut(slot).filter(|outbox| outbox.is_full() || !has_room_elsewhere) {
            // Events stored elsewhere stay there.
            let is_last = !has_room_elsewhere || outbox.waiting.is_empty();
            if policy == FullOutbox::Reject
                || is_last
                || outbox.waiting.gives_up(arriving, self.events.arrival_order(arriving.event).1)
            {
                outbox.full.dropped += 1;
                self.note_discard(slot, reason, arriving.event);
                return false;
            }
            self.discard_one(slot, reason);
        }
        true
    }

    // ---- dropping ----

    /// Drops an arriving event without a supplier for one consumer, since a supplier would be blocked for that consumer.
    #[cold]
    pub(super) fn pass_by(&mut self, slot: u32, event: EventAt) {
        if let Some(outbox) = self.outboxes.get_mut(slot) {
            outbox.full.dropped += 1;
        }
        self.note_discard(slot, DiscardReason::OutboxFull, event);
    }

    /// Drops the waiting event that the outbox's discard policy chooses.
    pub(super) fn discard_one(&mut self, slot: u32, reason: DiscardReason) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let outbox_is_late = outbox.hold.is_late;
        let event = match outbox.pop_expired(&self.events, self.now) {
            // An expired event is no loss to the consumer.
            Some(event) => {
                self.note_discard(slot, DiscardReason::Expired, event);
                event
            }
            None => {
                let Some(event) = outbox.pop_discard(&self.events) else { return };
                outbox.full.dropped += 1;
                self.note_discard(slot, reason, event);
                event
            }
        };
        if reason != DiscardReason::OutboxFull || outbox_is_late {
            // Whether that gave it room again, and what is the next now, is looked at when the event is in.
            if self.space.shortened.last() != Some(&slot) {
                self.space.shortened.push(slot);
            }
        }
        self.release_holder(event);
        self.fetch_if_short(slot);
    }

    /// Checks outboxes from which waiting events were dropped: whether these have room again, and when their next
    /// event can be delivered.
    pub(super) fn look_at_shortened(&mut self) {
        while let Some(slot) = self.space.shortened.pop() {
            self.note_room(slot);
            self.look_at_next(slot);
        }
    }

    /// Checks an outbox from which waiting events were dropped: when its next event, perhaps one stored elsewhere, can be delivered.
    pub(super) fn look_at_next(&mut self, slot: u32) {
        self.fetch_if_short(slot);
        self.watch(slot);
        self.list_if_ready(slot);
    }

    // ---- holding, and being full: announced when it begins and when it ends ----

    /// Blocks the channel's suppliers if the limit is still exceeded.
    pub(super) fn begin_hold(&mut self, channel: u32, hold: Hold) {
        let whose = self.whose();
        let Some(state) = self.channels.get_mut(channel) else { return };
        let now_over = state.over(whose, 0, 0, 1);
        let still = (hold.over.memory && now_over.memory) || (hold.over.queue && now_over.queue);
        if !still || state.room(whose).hold.is_some() {
            return;
        }
        let pressed = *state.pressed_since.get_or_insert(self.now);
        let outbox = hold.by.and_then(|(slot, _)| self.outboxes.get_mut(slot));
        let (since, look_at) = outbox.map_or((self.now, Entry::NEVER), |outbox| {
            let since = outbox.waited_for_since(pressed, self.now);
            let due = outbox.blocked_until(since);
            outbox.look_at(due, &mut self.agenda.timers);
            (since, due)
        });
        state.room_mut(whose).hold = Some(Hold { since, look_at, ..hold });
        let by = hold.by.map(|(_, by)| by);
        self.news.notices.push_back(Notice::SuppliersBlocked { channel: state.id, by });
        if let Some((slot, _)) = hold.by {
            self.note_full(slot, true, FullOutbox::Hold);
        }
        let has_sets = self.channels.get(channel).is_some_and(|state| !state.correlating.is_empty());
        if hold.for_keeper || (hold.by.is_none() && has_sets) {
            // Storage may stop; and nothing tells of events that do nothing any more but wait for others of their set.
            self.list_short_of_room(channel);
        }
        self.note_if_short(channel, whose);
    }

    /// If a channel is blocked for want of room in the memory pool, checks for room from time to time.
    fn note_if_short(&mut self, channel: u32, whose: Whose) {
        let is_short = self.channels.get(channel).is_some_and(|state| state.is_short_of_shared(whose));
        if is_short && self.list_short_of_room(channel) {
            self.counters.taken.channels_short += 1;
        }
    }

    /// Adds a channel to those for which room in the pool is checked from time to time. Returns false if it is among them.
    pub(super) fn list_short_of_room(&mut self, channel: u32) -> bool {
        let Some(state) = self.channels.get_mut(channel) else { return false };
        if core::mem::replace(&mut state.is_listed_short, true) {
            return false;
        }
        self.memory_pool.short_of_room.push_back(channel);
        self.memory_pool.room_looked_at.get_or_insert(self.now);
        true
    }

    pub(super) fn end_hold(&mut self, channel: u32, whose: Whose) {
        let Some(state) = self.channels.get_mut(channel) else { return };
        let Some(hold) = state.room_mut(whose).hold.take() else { return };
        let by = hold.by.map(|(_, by)| by);
        let notice = Notice::SuppliersReleased { channel: state.id, by, blocked_events: hold.blocked_events };
        self.news.notices.push_back(notice);
        if let Some((slot, _)) = hold.by {
            self.end_charge(slot);
        }
        let Some(state) = self.channels.get_mut(channel) else { return };
        let mut waiters = core::mem::take(&mut state.room_mut(whose).waiters);
        for at in waiters.drain(..) {
            self.wake(at);
        }
        if let Some(state) = self.channels.get_mut(channel) {
            state.room_mut(whose).waiters = waiters;
        }
    }

    /// Releases the suppliers that are blocked because this outbox is full.
    pub(super) fn end_outbox_hold(&mut self, slot: u32) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        if !outbox.hold.holding {
            return;
        }
        (outbox.hold.holding, outbox.hold.holds_handovers) = (false, false);
        let was_late = core::mem::take(&mut outbox.hold.is_late);
        let blocked_events = core::mem::take(&mut outbox.hold.blocked_events);
        let (channel, by) = (outbox.key.channel, Some(outbox.blocked_by()));
        // The release of paced suppliers is not announced: that is one event after the other.
        if !was_late {
            self.news.notices.push_back(Notice::SuppliersReleased { channel, by, blocked_events });
        }
        self.end_charge(slot);
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let mut waiters = core::mem::take(&mut outbox.hold.waiters);
        for at in waiters.drain(..) {
            self.wake(at);
        }
        if let Some(outbox) = self.outboxes.get_mut(slot) {
            outbox.hold.waiters = waiters;
        }
    }

    /// Releases suppliers blocked by a full outbox, as many as it has places for by now.
    fn wake_for_outbox(&mut self, slot: u32) {
        self.charge(slot);
        while let Some(outbox) = self.outboxes.get_mut(slot) {
            if outbox.hold.waiters.len() as u64 <= outbox.still_blocked() {
                break;
            }
            let Some(at) = outbox.hold.waiters.pop_front() else { break };
            self.wake(at);
        }
    }

    /// Releases suppliers blocked by a channel's limits, as many as it has room for by now.
    fn wake_for_room(&mut self, channel: u32, whose: Whose, hold: Hold) {
        if let Some((slot, _)) = hold.by {
            self.charge(slot);
        }
        while let Some(state) = self.channels.get_mut(channel) {
            if state.room(whose).waiters.len() as u64 <= state.still_blocked(whose, hold.over) {
                break;
            }
            let Some(at) = state.room_mut(whose).waiters.pop_front() else { break };
            self.wake(at);
        }
    }

    /// Removes one reason for a ticket to wait.
    pub(super) fn wake(&mut self, at: u32) {
        if let Some(channel) = self.tickets.wake(at)
            && let Some(state) = self.channels.get_mut(channel)
        {
            state.withheld = state.withheld.saturating_sub(1);
        }
    }

    /// Lists an outbox as one of its channel's slow consumers. Those that are gone stay listed until the channel has
    /// room again, or there are as many of them as of the others.
    fn list_slow_consumer(&mut self, slot: u32, channel: u32) {
        let Some(state) = self.channels.get_mut(channel) else { return };
        state.slow_consumers.push(slot);
        if state.slow_consumers.len() > 2 * state.members.len() {
            let outboxes = &self.outboxes;
            let is_one = |outbox: &Outbox| outbox.full.as_slow_consumer && outbox.channel == channel;
            state.slow_consumers.sort_unstable();
            state.slow_consumers.dedup();
            state.slow_consumers.retain(|slot| outboxes.get(*slot).is_some_and(is_one));
        }
    }

    /// Notes that an outbox is full, at its own bound or as its channel's slow consumer, and reports it if that is new.
    pub(super) fn note_full(&mut self, slot: u32, as_slow_consumer: bool, policy: FullOutbox) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let known = outbox.full.at_bound || outbox.full.as_slow_consumer;
        let (channel, is_new_slow_consumer) = (outbox.channel, as_slow_consumer && !outbox.full.as_slow_consumer);
        outbox.full.as_slow_consumer |= as_slow_consumer;
        outbox.full.at_bound |= !as_slow_consumer;
        if !known {
            outbox.full.dropped = 0;
            let (backlog_events, backlog_bytes) = (outbox.backlog() as u64, outbox.weight);
            let (key, settings) = (outbox.key, &outbox.terms.settings);
            let not_granted = !as_slow_consumer && settings.policy_at_bound() != settings.full_outbox;
            let full = Notice::OutboxFull { key, policy, not_granted, backlog_events, backlog_bytes };
            match outbox.bridge {
                None => self.news.notices.push_back(full),
                Some(lane) if policy == FullOutbox::Discard => {
                    let channel = key.channel;
                    self.news.notices.push_back(Notice::LaneBehind { channel, lane, backlog_events, backlog_bytes });
                }
                // The only effect is that suppliers are blocked, which is reported separately.
                Some(_) => {}
            }
        }
        if is_new_slow_consumer {
            self.list_slow_consumer(slot, channel);
        }
    }

    /// Checks whether an outbox that was full at its own bound has room again. Called wherever its queue gets shorter
    /// or its settings change.
    pub(super) fn note_room(&mut self, slot: u32) {
        self.fetch_if_short(slot);
        let Some(outbox) = self.outboxes.get(slot) else { return };
        if !outbox.full.at_bound && !outbox.hold.holding {
            return;
        }
        let has_room_elsewhere = !self.lacks_room_elsewhere(outbox);
        let has_room = outbox.has_room_again() && has_room_elsewhere;
        let goes_on = match outbox.hold.is_late {
            true => outbox.exceeds_bound(&self.events, self.now),
            false => {
                let policy = outbox.full_policy(has_room_elsewhere);
                let holds = policy == FullOutbox::Hold || outbox.hold.holds_handovers || outbox.blocks();
                holds && !has_room && outbox.hold.waited_out.is_none()
            }
        };
        let is_late = outbox.hold.is_late;
        if !goes_on {
            self.end_outbox_hold(slot);
        } else if !is_late && has_room_elsewhere {
            self.wake_for_outbox(slot);
        }
        if has_room {
            self.end_full(slot, false);
        }
    }

    /// Checks whether a channel has room again. Called wherever it holds less or its limits change.
    pub(super) fn note_channel_room(&mut self, channel: u32) {
        for whose in Whose::ALL {
            let Some(state) = self.channels.get(channel) else { return };
            let Some(hold) = state.room(whose).hold else { continue };
            if state.has_room_again(whose, hold.over) {
                self.end_hold(channel, whose);
            } else {
                self.wake_for_room(channel, whose, hold);
                self.note_if_short(channel, whose);
            }
        }
        let Some(state) = self.channels.get_mut(channel) else { return };
        if state.has_room_again(Whose::Suppliers, Over { memory: true, queue: true }) {
            state.pressed_since = None;
            let mut slow_consumers = core::mem::take(&mut state.slow_consumers);
            for slot in slow_consumers.drain(..) {
                if self.outboxes.get(slot).is_some_and(|outbox| outbox.channel == channel) {
                    self.end_full(slot, true);
                }
            }
            if let Some(state) = self.channels.get_mut(channel) {
                state.slow_consumers = slow_consumers;
            }
        }
    }

    /// Checks, periodically, whether channels that are short of the memory pool have room again: another lane may have
    /// released memory.
    pub(super) fn check_memory_pool(&mut self) {
        if self.memory_pool.room_looked_at.is_none_or(|last| last + LOOK_AT_ROOM_EVERY > self.now) {
            return;
        }
        for _ in 0..self.memory_pool.short_of_room.len().min(CHECKED_PER_ROUND) {
            let Some(channel) = self.memory_pool.short_of_room.pop_front() else { break };
            self.note_room_elsewhere(channel);
            self.share_out_gathered(channel);
            self.displace_where_blocked(channel);
            self.note_channel_room(channel);
            self.end_hold_for_keeper(channel);
            let is_short = |state: &ChannelState| {
                let is_held = |whose: &Whose| {
                    let hold = state.room(*whose).hold;
                    let has_sets = !state.correlating.is_empty();
                    hold.is_some_and(|hold| {
                        hold.for_keeper || (hold.by.is_none() && has_sets) || state.is_short_of_shared(*whose)
                    })
                };
                state.depot.is_short_of_shared() || Whose::ALL.iter().any(is_held)
            };
            let Some(state) = self.channels.get_mut(channel) else { continue };
            state.is_listed_short = is_short(state);
            if state.is_listed_short {
                self.memory_pool.short_of_room.push_back(channel);
            }
        }
        self.memory_pool.room_looked_at = (!self.memory_pool.short_of_room.is_empty()).then_some(self.now);
    }

    /// Notes that an outbox is no longer full in one of the two ways, and reports it if it is in neither.
    fn end_full(&mut self, slot: u32, as_slow_consumer: bool) {
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        let was_full = outbox.full.at_bound || outbox.full.as_slow_consumer;
        if as_slow_consumer {
            outbox.full.as_slow_consumer = false;
        } else {
            outbox.full.at_bound = false;
        }
        if was_full && !outbox.full.at_bound && !outbox.full.as_slow_consumer {
            let (key, dropped) = (outbox.key, core::mem::take(&mut outbox.full.dropped));
            match outbox.bridge {
                None => self.news.notices.push_back(Notice::OutboxRecovered { key, dropped }),
                Some(lane) if dropped > 0 => {
                    self.news.notices.push_back(Notice::LaneCaughtUp { channel: key.channel, lane, dropped });
                }
                Some(_) => {}
            }
        }
    }
}
