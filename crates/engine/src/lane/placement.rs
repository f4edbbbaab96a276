//! New routing: channels and outboxes are added, changed and removed. Also consumers that the lane itself disconnects, and the backlogs of
//! those that are gone.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::channel::{Bridge, ChannelState, ELSEWHERE, Quota, Whose};
use super::destinations::Change;
use super::outbox::{Backlog, Outbox};
use super::{Lane, Notice, channel_timers};
use crate::{
    ChannelRoutes, ConsumerRoute, DiscardReason, DisconnectReason, FullOutbox, OutboxId, ProxyKey, Snapshot, StartFrom,
    Time,
};

impl Lane {
    /// Picks up new routing. Only changed channels are examined. The backlog of a consumer that is gone is dropped and
    /// counted; one that is suspended, or durable and [away](crate::Hierarchy::leave), keeps its backlog.
    pub fn handle_snapshot(&mut self, snapshot: Arc<Snapshot>, now: Time) {
        self.advance_time(now);
        self.counters.routing.snapshots += 1;
        self.suppliers.forget();
        let placed = core::mem::take(&mut self.places.placed);
        let mut old = placed.iter().copied().peekable();
        let mut new_placed = Vec::with_capacity(snapshot.channels.len());
        for routes in &snapshot.channels {
            // Both lists rise by channel id, so they are walked side by side.
            while let Some(slot) = old.next_if(|slot| self.channels.get(*slot).is_none_or(|old| old.id < routes.id)) {
                self.remove_channel(slot);
            }
            let same = old.next_if(|slot| self.channels.get(*slot).is_some_and(|old| old.id == routes.id));
            new_placed.push(same.unwrap_or_else(|| self.add_channel(routes)));
            if let Some(slot) = new_placed.last().copied() {
                self.update_channel(slot, routes, &snapshot, same.is_none());
            }
        }
        for slot in old {
            self.remove_channel(slot);
        }
        self.places.placed = new_placed;
        self.drops.make_place(&snapshot, &mut self.types);
        self.topic_scheduler.follow(self.id, &snapshot);
        self.snapshot = snapshot;
    }

    fn add_channel(&mut self, routes: &Arc<ChannelRoutes>) -> u32 {
        let shared = || (self.memory_pool.memory.shared().cloned(), self.memory_pool.elsewhere.shared().cloned());
        let slot = self.channels.insert(|_, _| ChannelState::new(Arc::clone(routes), self.id, shared()));
        self.places.slots.insert(routes.id, slot);
        slot
    }

    fn update_channel(&mut self, channel: u32, routes: &Arc<ChannelRoutes>, snapshot: &Snapshot, is_new: bool) {
        let Some(state) = self.channels.get_mut(channel) else { return };
        if Arc::ptr_eq(&state.routes, routes) && !is_new {
            return;
        }
        let before = core::mem::replace(&mut state.routes, Arc::clone(routes));
        state.quota = Quota::of(routes, self.id);
        state.depot.set_budget(if self.news.may_overflow { state.quota.overflow_bytes } else { 0 });
        self.follow_history(channel, is_new);
        if is_new || !Arc::ptr_eq(&before.timers, &routes.timers) {
            channel_timers::follow(self, channel);
        }
        let Some(state) = self.channels.get_mut(channel) else { return };
        if state.members.len() < routes.consumers.places() {
            state.members.resize(routes.consumers.places(), ELSEWHERE);
        }
        self.topic_scheduler.update(routes, &self.types);
        if is_new {
            for (place, route) in routes.consumers.iter() {
                self.change_member(channel, place, None, Some(route));
            }
        } else {
            for (place, last, now) in routes.consumers.changes_from(&before.consumers) {
                self.change_member(channel, place, last, now);
            }
        }
        if let Some(state) = self.channels.get_mut(channel) {
            state.destinations.note_filters(&before.filtering, &routes.filtering);
        }
        self.space.filters.fit(routes);
        self.share_out_gathered(channel);
        self.place_bridges(channel, routes, snapshot);
        self.reconsider_hold(channel);
        self.note_room_elsewhere(channel);
        self.note_channel_room(channel);
    }

    /// Handles a change of the consumer at a place: it is new, gone, or its route changed.
    fn change_member(
        &mut self,
        channel: u32,
        place: u32,
        last: Option<&Arc<ConsumerRoute>>,
        now: Option<&Arc<ConsumerRoute>>,
    ) {
        self.counters.routing.members_visited += 1;
        let here = self.id;
        let is_here = |route: &&Arc<ConsumerRoute>| route.places.iter().any(|place| place.lane == here);
        let is_parted = |route: Option<&Arc<ConsumerRoute>>| route.is_some_and(|route| route.places.len() > 1);
        let Some(state) = self.channels.get_mut(channel) else { return };
        let slot = state.members.get(place as usize).copied().filter(|slot| *slot != ELSEWHERE);
        let served = now.filter(is_here);
        state.parted -= u32::from(slot.is_some() && is_parted(last));
        state.parted += u32::from(is_parted(served));
        if last.zip(now).is_none_or(|(last, now)| last.differs_in_interest_from(now)) {
            let admin = last.and_then(|last| last.filtered_admin);
            state.destinations.note(Change::Member { member: place, admin });
        }
        if last.into_iter().chain(now).any(|route| !route.is_only_on(here)) {
            // Bridges are recomputed for all consumers together, not for one.
            state.destinations.clear();
        }
        let is_same = |outbox: &&mut Outbox| {
            served.is_some_and(|route| outbox.key == route.key && outbox.connection == route.connection)
        };
        let same = slot.filter(|slot| self.outboxes.get_mut(*slot).as_ref().is_some_and(is_same));
        if let Some(gone) = slot.filter(|_| same.is_none()) {
            self.remove_outbox(gone);
        }
        let slot = match (served, same) {
            (None, _) => ELSEWHERE,
            (Some(route), Some(slot)) => {
                if let Some(outbox) = self.outboxes.get_mut(slot) {
                    let priority = outbox.terms.settings.dispatch_priority;
                    if priority != route.settings.dispatch_priority && core::mem::take(&mut outbox.listed) {
                        self.agenda.ready.remove(slot, priority);
                    }
                    self.counters.deliveries.put_back += outbox.update(route, &self.events, self.now);
                    let settings = &outbox.terms.settings;
                    let is_over =
                        if outbox.hold.is_spent { settings.hold_budget.is_zero() } else { !settings.is_waited_out() };
                    if is_over {
                        self.wait_for_again(slot);
                    }
                }
                self.follow_correlation(slot, route);
                self.watch(slot);
                self.watch_hold(slot);
                self.note_room(slot);
                slot
            }
            (Some(route), None) => {
                let new = |slot, generation| Outbox::new(OutboxId { slot, generation }, channel, route);
                let slot = self.outboxes.insert(new);
                self.follow_correlation(slot, route);
                if let Some(start) = route.start.filter(|start| *start != StartFrom::New) {
                    self.begin_in_history(slot, start, route.resumes);
                }
                slot
            }
        };
        self.list_if_ready(slot);
        if let Some(kept) = self.channels.get_mut(channel).and_then(|state| state.members.get_mut(place as usize)) {
            *kept = slot;
        }
    }

    /// Maintains a bridge to each other lane that has consumers of the channel.
    fn place_bridges(&mut self, channel: u32, routes: &ChannelRoutes, snapshot: &Snapshot) {
        let Some(state) = self.channels.get_mut(channel) else { return };
        let old = core::mem::take(&mut state.bridges);
        let (here, mut bridges) = (self.id, Vec::new());
        for used in routes.lanes.iter().filter(|used| used.has_consumers && used.lane != here) {
            let pool = snapshot.lane(used.lane).map(|info| info.pool);
            let same = old.iter().find(|bridge| (bridge.lane, bridge.pool) == (used.lane, pool));
            let slot = same.map(|bridge| bridge.slot).unwrap_or_else(|| {
                let of = (channel, routes.id);
                self.outboxes.insert(|slot, generation| Outbox::bridge(OutboxId { slot, generation }, of, used.lane))
            });
            if let Some(outbox) = self.outboxes.get_mut(slot) {
                outbox.terms.settings.max_events_per_consumer = used.hold_events;
                outbox.terms.settings.full_outbox = used.full_outbox;
            }
            self.note_room(slot);
            bridges.push(Bridge { lane: used.lane, pool, slot });
        }
        for gone in old.iter().filter(|gone| bridges.iter().all(|kept| kept.slot != gone.slot)) {
            self.remove_outbox(gone.slot);
        }
        if let Some(state) = self.channels.get_mut(channel)
            && !(old.iter().map(|bridge| bridge.slot).eq(bridges.iter().map(|bridge| bridge.slot)))
        {
            state.destinations.clear();
        }
        // Each may be a destination of every event.
        self.space.bridged.clear();
        self.space.bridged.reserve(bridges.len());
        if let Some(state) = self.channels.get_mut(channel) {
            state.bridges = bridges;
        }
    }

    /// Ends blocking that has lost its reason; the next event decides anew.
    pub(super) fn reconsider_hold(&mut self, channel: u32) {
        for whose in Whose::ALL {
            let Some(hold) = self.channels.get(channel).and_then(|state| state.room(whose).hold) else { continue };
            let Some((slot, _)) = hold.by else { continue };
            let holds = |outbox: &Outbox| match outbox.terms.settings.policy_at_limits() {
                _ if outbox.hold.waited_out.is_some() => false,
                _ if outbox.blocks() => true,
                None => hold.over.memory,
                Some(FullOutbox::Reject) => whose == Whose::Lanes,
                Some(policy) => policy == FullOutbox::Hold,
            };
            if !self.outboxes.get(slot).is_some_and(holds) {
                self.end_hold(channel, whose);
            }
        }
    }

    fn remove_channel(&mut self, channel: u32) {
        let slots: Option<Vec<u32>> = self.channels.get(channel).map(|state| state.slots().collect());
        for slot in slots.unwrap_or_default() {
            self.remove_outbox(slot);
        }
        Whose::ALL.into_iter().for_each(|whose| self.end_hold(channel, whose));
        if let Some(state) = self.channels.remove(channel) {
            self.drop_history(&state);
            self.places.slots.remove(&state.id);
            self.topic_scheduler.remove(state.id, &self.types);
            self.types.leave(state.types);
        }
    }

    /// Removes the outbox of a consumer that routing no longer names.
    fn remove_outbox(&mut self, slot: u32) {
        let is_durable = |outbox: &&Outbox| outbox.terms.durable && !outbox.dead;
        let durable = self.outboxes.get(slot).filter(is_durable).map(|outbox| outbox.key);
        let discarded = self.drop_backlog(slot, DiscardReason::Removed);
        self.news.notices.extend(durable.map(|key| Notice::DurableRemoved { key, discarded }));
        self.outboxes.remove(slot);
    }

    /// Disconnects a consumer: drops its backlog and leaves a tombstone until routing no longer names it.
    pub(super) fn disconnect(&mut self, slot: u32, reason: DisconnectReason) {
        let discarded = self.drop_backlog(slot, DiscardReason::Disconnected);
        let Some(outbox) = self.outboxes.get_mut(slot) else { return };
        outbox.dead = true;
        outbox.trouble.blocked = None;
        outbox.trouble.retry_at = None;
        self.counters.deliveries.disconnected += 1;
        let notice = Notice::ConsumerDisconnected { key: outbox.key, peer: outbox.peer, reason, discarded };
        self.news.notices.push_back(notice);
        let (channel, key) = (outbox.channel, outbox.key);
        if let Some(state) = self.channels.get_mut(channel)
            && let Some(place) = state.routes.consumers.place_of(key.proxy)
        {
            let admin = state.routes.consumers.get(place).and_then(|route| route.filtered_admin);
            state.destinations.note(Change::Member { member: place, admin });
        }
    }

    /// Disconnects the consumers that were marked for it while an event went to its destinations.
    pub(super) fn disconnect_doomed(&mut self) {
        if self.space.doomed.is_empty() {
            return;
        }
        let mut doomed = core::mem::take(&mut self.space.doomed);
        for slot in doomed.drain(..) {
            self.disconnect(slot, DisconnectReason::OutboxFull);
        }
        self.space.doomed = doomed;
    }

    /// Drops all events of an outbox, and everything that others wait for because of it. Returns the number of events.
    fn drop_backlog(&mut self, slot: u32, reason: DiscardReason) -> u64 {
        let elsewhere = self.drop_elsewhere(slot);
        self.leave_history(slot);
        self.end_sets(slot);
        let Some(outbox) = self.outboxes.get_mut(slot) else { return 0 };
        let backlog = outbox.take_all();
        let count = backlog.len() as u64 + elsewhere;
        let reason = outbox.bridge.is_none().then_some(reason);
        outbox.full.at_bound = false;
        outbox.full.as_slow_consumer = false;
        // Stale entries in the lists of ready outboxes and of slow consumers are skipped when their turn comes: there
        // may be very many, all removed together.
        outbox.listed = false;
        let (channel, key) = (outbox.channel, outbox.key);
        if let Some(reason) = reason {
            self.count_discards(slot, reason, count);
        }
        self.leave(key, reason, backlog);
        self.end_outbox_hold(slot);
        if let Some(state) = self.channels.get_mut(channel) {
            state.known_slow_consumer = state.known_slow_consumer.filter(|slow_consumer| slow_consumer.slot != slot);
        }
        for whose in Whose::ALL {
            let hold = self.channels.get(channel).and_then(|state| state.room(whose).hold);
            if hold.and_then(|hold| hold.by).is_some_and(|(by, _)| by == slot) {
                self.end_hold(channel, whose);
            }
        }
        count
    }
}

// ---- orphaned backlogs ----
//
// That of a consumer that is gone can be a million events, and releasing them all at once would keep every other consumer waiting. They are
// released a few at a time, and at once only as far as their channel needs the room.

/// The backlog of a consumer that is gone.
#[derive(Debug)]
pub(super) struct OrphanedBacklog {
    /// Its proxy, and the reason of the drops; of a bridge, whose events are dropped for no consumer, no reason.
    key: ProxyKey,
    reason: Option<DiscardReason>,
    events: Backlog,
}

/// Orphaned events released per round.
const EVENTS_PER_ROUND: usize = 256;

impl Lane {
    pub(super) fn leave(&mut self, key: ProxyKey, reason: Option<DiscardReason>, events: Backlog) {
        if !events.is_empty() {
            self.news.orphaned_backlogs.push_back(OrphanedBacklog { key, reason, events });
        }
    }

    /// Releases the events of one round.
    pub(super) fn release_orphaned(&mut self) {
        for _ in 0..EVENTS_PER_ROUND {
            if !self.release_orphaned_at(0) {
                // No drops are left to be counted by the types of removed channels.
                return self.types.release_leaving();
            }
        }
    }

    /// Releases one orphaned event of this channel. Returns whether there was one.
    pub(super) fn release_orphaned_of(&mut self, channel: u32) -> bool {
        let Some(id) = self.channels.get(channel).map(|state| state.id) else { return false };
        let at = self.news.orphaned_backlogs.iter().position(|orphaned| orphaned.key.channel == id);
        at.is_some_and(|at| self.release_orphaned_at(at))
    }

    fn release_orphaned_at(&mut self, at: usize) -> bool {
        let Some(orphaned) = self.news.orphaned_backlogs.get_mut(at) else { return false };
        let (key, reason) = (orphaned.key, orphaned.reason);
        let event = orphaned.events.pop(&self.events);
        if orphaned.events.is_empty() {
            self.news.orphaned_backlogs.remove(at);
        }
        if let Some(event) = event {
            if let Some(reason) = reason {
                self.drops.count(key, self.events.event_type(event), reason, &mut self.types);
                self.complete_orphaned(key, event, reason);
            }
            self.release_holder(event);
        }
        true
    }
}
