//! Hand-overs: an event for consumers on another lane is handed over to that lane once, however many consumers they
//! are.
//!
//! For the lane that admitted the event, a hand-over is a delivery of a *bridge*: an outbox without a consumer, one
//! for each channel and remote lane. So order, back-pressure and memory are those of any outbox.
//!
//! Both lanes compute in the same way which lane an event is for: each serves the consumers that have a place on it,
//! and the one that hands over knows only which lanes may have such.
//!
//! A lane without room for handed-over events blocks the lane they come from. Events that it has to hand over itself never block another
//! lane: so lanes cannot wait for each other in a circle. `FullOutbox::Reject` works as `Hold` for events from another lane, whose
//! suppliers have their replies by then. A channel's memory budget is divided evenly among its lanes.

use alloc::sync::Arc;

use filter::Steps;

use super::admission::{Withheld, priority_of};
use super::channel::ChannelState;
use super::destinations::Known;
use super::outbox::{Blocked, Offer};
use super::queue::{Ask, Entry};
use super::suppliers::{Supplier, say_all};
use super::{Admission, Lane, Outcome};
use crate::{DiscardReason, Disposition, Event, Forms, LaneId, OutboxId, PendingEvent, Place, Refusal, Time};

/// An event to hand over: the protocol sends it to the lane `to`, which copies it by [`Lane::begin_handover`] and
/// takes the copy in by [`Lane::handle_handover`]. After that, or if it was impossible, the event and the outcome
/// return to the first lane: [`Lane::handle_outcome`] and [`Lane::release`].
#[derive(Clone, Debug)]
pub struct Handover {
    /// The lane that is to take it.
    pub to: LaneId,
    /// The bridge, for [`Lane::handle_outcome`] and [`Lane::resume_outbox`].
    pub outbox: OutboxId,
    /// The hand-over's number in its bridge, for [`Lane::handle_outcome`]. A retry has a new one.
    pub serial: u32,
    /// [Version](crate::Snapshot::version) of the routing that the hand-over is based on. The other lane must have picked up
    /// this version or a later one before it takes the event in, or consumers that it does not know yet miss it.
    pub version: u64,
    /// The event, to be released on the lane that it came from.
    pub event: Arc<Event>,
}

impl Lane {
    /// The next hand-over to another lane. Its outcome is reported by [`handle_outcome`](Self::handle_outcome), like that of a delivery:
    /// [`Outcome::Delivered`] once the other lane has taken it in and, if it blocked, released it; [`Outcome::Rejected`] if that refused
    /// it; [`Outcome::NoRoom`] if that lane's queue is full, until [`resume_outbox`](Self::resume_outbox). At most 64 events of a channel
    /// are under way to one lane. There is no time limit.
    pub fn poll_handover(&mut self, now: Time) -> Option<Handover> {
        self.advance_time(now);
        while let Some(slot) = self.agenda.ready_bridges.pop_front() {
            let listed = self.outboxes.get_mut(slot).filter(|outbox| outbox.listed && outbox.bridge.is_some());
            let Some(outbox) = listed else { continue };
            outbox.listed = false;
            let events = &self.events;
            let Some(to) = outbox.bridge.filter(|_| outbox.is_ready(events, self.now)) else { continue };
            let mut event = None;
            let handed = outbox.hand_out(events, self.now, |taken| event = events.get(taken).cloned());
            let outbox = outbox.id;
            let (Some(handed), Some(event)) = (handed, event) else { continue };
            self.note_room(slot);
            self.list_if_ready(slot);
            return Some(Handover { to, outbox, serial: handed.serial, version: self.snapshot.version, event });
        }
        None
    }

    /// Copies an event that another lane hands over to a pending event of this lane, with its translations. The
    /// protocol may add further translations.
    pub fn begin_handover(&mut self, event: &Event) -> PendingEvent {
        let mut pending_event = self.begin_event_for(event.bytes.len());
        let copy = &mut *pending_event;
        (copy.form, copy.tag) = (event.form, event.tag);
        copy.bytes.extend_from_slice(&event.bytes);
        for alternate in event.alternates.iter() {
            let copy = copy.alternates.push(alternate.output_form);
            (copy.tag, copy.number_at) = (alternate.tag, alternate.number_at);
            copy.bytes.extend_from_slice(&alternate.bytes);
        }
        (copy.priority, copy.thread_priority) = (event.priority, event.thread_priority);
        (copy.timeout, copy.start, copy.stop) = (event.timeout, event.start, event.stop);
        (copy.arrived, copy.older_by_ms) = (event.arrived, event.older_by_ms);
        (copy.watch, copy.watch_each) = (event.watch, event.watch_each);
        copy.reliability = event.reliability;
        copy.only.clone_from(&event.only);
        copy.copy_origin(event);
        (copy.source, copy.keeps_names) = (event.source, event.keeps_names);
        let (domain, name) = event.names();
        self.classify(&mut pending_event, domain, name);
        pending_event
    }

    /// Takes in an event that another lane hands over, as the `pending_event` that
    /// [`begin_handover`](Self::begin_handover) made of it: puts it into the outbox of every consumer on this lane
    /// with a subscription for it. The filters on its supplier's side have let it pass already, and it is not handed
    /// on.
    ///
    /// [`Admission::Withheld`] means that there is no room for more, as for a supplier: the hand-over is concluded when
    /// [`poll_release`](Self::poll_release) returns the ticket. An event that the channel's limits would refuse is blocked too, since its
    /// supplier has been answered; it is refused only if the channel does not exist any more, or if it is a timer's and would be blocked. A
    /// [restored](Self::restore_event) event is not blocked either.
    pub fn handle_handover<F: Forms>(
        &mut self,
        event: &Event,
        pending_event: PendingEvent,
        forms: &F,
        now: Time,
    ) -> Admission {
        self.advance_time(now);
        let found = self.places.slots.get(&event.source.channel).copied();
        let Some((channel, state)) = found.and_then(|slot| Some((slot, self.channels.get(slot)?))) else {
            // The lane that handed it over reports its outcome.
            self.pool.give_back(pending_event.into_event());
            return Admission::Refused(Refusal::ChannelNotFound { channel: event.source.channel });
        };
        let (priority, timeout) = event.supplied();
        let supplier = Supplier { priority, timeout, handed_over: true, ..Supplier::of(event.source, channel, state) };
        (self.arrival.taking_over, self.arrival.restoring) = (true, event.restored);
        self.arrival.unattended = event.source == Self::timer_source(event.source.channel);
        let admission = self.admit(&supplier, pending_event, forms);
        (self.arrival.taking_over, self.arrival.restoring, self.arrival.unattended) = (false, false, false);
        admission
    }

    // ---- which lane an event is for ----

    /// Evaluates the mapping filters that decide an event's lane: with the full budget of steps, and before any other
    /// filter, since every lane that the event meets must get the same result.
    pub(super) fn map_lanes<F: Forms>(
        &mut self,
        supplier: &Supplier,
        known: &Known,
        pending_event: &PendingEvent,
        forms: &F,
    ) {
        let Some(state) = self.channels.get(supplier.channel) else { return };
        if state.destinations.mapped(known).is_empty() || pending_event.thread_priority.is_some() {
            return;
        }
        let mut steps = Steps::new(state.routes.limits.filter_steps_max);
        let (of, says_itself, fields) =
            ((state, known), supplier.says_priority(pending_event), forms.fields(pending_event));
        for member in state.destinations.mapped(known) {
            let route = state.routes.consumers.get(*member);
            if let Some(filter) = route.and_then(|route| route.mappings[0]) {
                self.space.filters.map(of, filter, says_itself, &fields, &mut steps);
            }
        }
    }

    /// The lane that an event is for, for one of its consumers.
    pub(super) fn lane_of(
        &self,
        state: &ChannelState,
        supplier: &Supplier,
        member: u32,
        event: &Event,
    ) -> Option<LaneId> {
        let route = state.routes.consumers.get(member)?;
        if let [only] = &*route.places {
            return Some(only.lane);
        }
        let mapping = route.mappings[0].filter(|_| event.thread_priority.is_none());
        let table = &state.routes.filtering.table;
        let mapped = mapping.and_then(|filter| self.space.filters.mapped(table, filter, supplier.says_priority(event)));
        let priority = mapped.map_or_else(|| supplier.lane_priority(event), priority_of);
        Some(Place::lane_for(&route.places, priority))
    }

    /// Removes the chosen consumers that get the event on another lane.
    pub(super) fn choose_here(&mut self, supplier: &Supplier, pending_event: &PendingEvent) {
        let Some(state) = self.channels.get(supplier.channel).filter(|state| state.parted > 0) else { return };
        let mut list = core::mem::take(&mut self.space.filters.chosen);
        list.retain(|chosen| self.lane_of(state, supplier, chosen.member, pending_event) == Some(self.id));
        self.space.filters.chosen = list;
    }

    /// Finds the bridges that an event takes.
    pub(super) fn find_bridges(&mut self, supplier: &Supplier, known: &Known, pending_event: &PendingEvent) {
        let mut bridged = core::mem::take(&mut self.space.bridged);
        bridged.clear();
        if let Some(state) = self.channels.get(supplier.channel).filter(|_| !supplier.handed_over) {
            let priority = supplier.lane_priority(pending_event);
            for remote in state.destinations.remotes(known).iter().filter(|remote| remote.has(priority)) {
                let slot = state.bridges.get(remote.bridge as usize).map(|bridge| bridge.slot);
                bridged.extend(slot.filter(|slot| bridged.last() != Some(slot)));
            }
            for member in state.destinations.mapped(known) {
                let lane = self.lane_of(state, supplier, *member, pending_event);
                let bridge = state.bridges.iter().find(|bridge| Some(bridge.lane) == lane);
                bridged.extend(bridge.map(|bridge| bridge.slot).filter(|slot| !bridged.contains(slot)));
            }
            if state.routes.limits.history.keeps() {
                // The main lane stores it in the history, whichever lanes have consumers for it.
                let bridge = state.bridges.iter().find(|bridge| bridge.lane == LaneId::MAIN);
                bridged.extend(bridge.map(|bridge| bridge.slot).filter(|slot| !bridged.contains(slot)));
            }
        }
        self.space.bridged = bridged;
    }

    /// Adds to an event what other lanes need of its supplier's settings.
    pub(super) fn prepare_handover(&mut self, supplier: &Supplier, pending_event: &mut PendingEvent) {
        if self.space.bridged.is_empty() {
            return;
        }
        say_all(&self.types, supplier, pending_event);
    }

    /// Puts an event into the bridges that it takes. The other lane checks its expiry, and maps it for each consumer.
    pub(super) fn fan_out_to_bridges(&mut self, offer: &Offer, withheld: &mut Option<Withheld>) {
        let bridged = core::mem::take(&mut self.space.bridged);
        for slot in &bridged {
            let entry = Entry { priority: 0, ..offer.entry };
            self.put_into(*slot, (Some(entry), Ask::NONE), offer, withheld);
        }
        self.space.bridged = bridged;
    }

    // ---- what became of a hand-over ----

    #[cold]
    pub(super) fn handle_not_handed(&mut self, slot: u32, position: usize, serial: u32, outcome: Outcome) {
        match outcome {
            Outcome::Rejected | Outcome::Gone | Outcome::Untranslatable | Outcome::Filtered | Outcome::FilterFailed => {
                _ = self.finish(slot, position, Disposition::Dropped(DiscardReason::Rejected));
            }
            // Only the other lane decides when the hand-over resumes.
            _ => {
                if let Some(outbox) = self.outboxes.get_mut(slot) {
                    outbox.put_back_from(position, &self.events, self.now);
                    outbox.trouble.blocked = Some(Blocked { serial, deadline: Entry::NEVER });
                }
            }
        }
    }
}
