//! Admission: an event is routed by its source's channel and its type to every outbox with a subscription for it.

use core::time::Duration;

use filter::Steps;

use super::channel::{ChannelState, Hold};
use super::destinations::{Here, Known, Sought, Way};
use super::filtering::Chosen;
use super::outbox::Offer;
use super::queue::{Ask, Entry};
use super::suppliers::{Supplier, say_all};
use super::verdict::Verdict;
use super::{Admission, Lane, Outbox};
use crate::{
    Event, Forms, FullOutbox, HOLDER_OVERHEAD_BYTES, PendingEvent, ProxyKey, Refusal, Reliability,
    SORTED_OVERHEAD_BYTES, Ticket, Time,
};

/// Costs of an event that goes to the consumers in [`Filters::chosen`](super::filtering::Filters::chosen).
struct Plan {
    known: Known,
    destinations: usize,
    /// Number of bridges the event takes.
    bridges: usize,
    /// Whether the event is stored in the channel's history.
    is_stored: bool,
    weight: u64,
    charge: u64,
    /// Block suppliers if there is still no room once the event is in.
    hold: Option<Hold>,
}

impl Plan {
    /// Number of holders of the event.
    fn holders(&self, event: &Event) -> usize {
        self.destinations + self.bridges + event.away().len() + usize::from(self.is_stored)
    }
}

/// Ticket of an event whose reply is withheld, and the ticket's place.
pub(super) struct Withheld {
    at: u32,
    ticket: Ticket,
}

/// Upper estimate of the time of one filter step, to limit the steps for an event with little lifetime left.
const NANOS_PER_STEP: u128 = 16;

impl Lane {
    /// Takes in a supplier's event and puts it into the outbox of every consumer with a subscription for it. Sets its
    /// `source`, `arrived` and `serial`. `forms` reads the event for filters.
    ///
    /// Filtering takes at most the channel's `filter_steps_max` steps, and less if the event's `timeout` leaves less
    /// time; a constraint not evaluated by then does not match. An event rejected by the filters on its supplier's
    /// side is accepted, has no destinations, and is counted.
    pub fn handle_event<F: Forms>(
        &mut self,
        source: ProxyKey,
        pending_event: PendingEvent,
        forms: &F,
        now: Time,
    ) -> Admission {
        self.advance_time(now);
        match self.locate(source) {
            Ok(supplier) => {
                self.suppliers.note_event(source, now);
                self.admit(&supplier, pending_event, forms)
            }
            Err(refusal) => self.refuse(pending_event, refusal),
        }
    }

    /// Completes an event for storage and a later [restore](Self::restore_event): copies into it what its supplier's
    /// settings say. Returns false if there is no such supplier.
    pub fn complete_event(&mut self, source: ProxyKey, pending_event: &mut PendingEvent) -> bool {
        let Ok(supplier) = self.locate(source) else { return false };
        let event: &mut Event = pending_event;
        event.source = source;
        say_all(&self.types, &supplier, event);
        true
    }

    /// Whether an event is to outlive the process, by its header or else by its supplier's settings.
    #[inline]
    pub fn reliability_of(&mut self, source: ProxyKey, event: &Event) -> Reliability {
        let of_supplier = || self.locate(source).map_or(Reliability::BestEffort, |supplier| supplier.reliability);
        event.reliability.unwrap_or_else(of_supplier)
    }

    /// Longest wait of an event's reply for its consumers to take it; `None` if the reply does not wait for them.
    #[inline]
    pub fn acknowledges_within(&mut self, source: ProxyKey) -> Option<Duration> {
        self.locate(source).ok()?.acknowledged_within
    }

    /// Takes in an event that a lane of an earlier process accepted: like [`handle_event`](Self::handle_event), but it
    /// is no sign of life of its supplier, which need not exist, and it goes only to the consumers in [`Event::only`],
    /// where that is set. It is neither refused nor blocked for want of room, and nothing is dropped for it: an outbox
    /// may exceed its bound then, and a channel its limits. It includes its [arrival](Event::arrived), from which its
    /// lifetime counts; events restored one after the other keep that order.
    pub fn restore_event<F: Forms>(
        &mut self,
        source: ProxyKey,
        mut pending_event: PendingEvent,
        forms: &F,
        now: Time,
    ) -> Admission {
        self.advance_time(now);
        let found = self.places.slots.get(&source.channel).copied();
        let Some((channel, state)) = found.and_then(|slot| Some((slot, self.channels.get(slot)?))) else {
            return self.refuse(pending_event, Refusal::ChannelNotFound { channel: source.channel });
        };
        // The settings of its supplier at that time apply, not the current ones.
        let (priority, timeout) = pending_event.supplied();
        let lone = Supplier::of(source, channel, state);
        let supplier = Supplier { priority, timeout, ..self.locate(source).unwrap_or(lone) };
        let event: &mut Event = &mut pending_event;
        event.restored = true;
        // Arrivals never go back, whatever the clocks showed.
        event.arrived = event.arrived.max(self.arrival.restored_until);
        self.arrival.restored_until = event.arrived.min(self.now);
        self.arrival.restoring = true;
        let admission = self.admit(&supplier, pending_event, forms);
        self.arrival.restoring = false;
        admission
    }

    pub(super) fn admit<F: Forms>(
        &mut self,
        supplier: &Supplier,
        mut pending_event: PendingEvent,
        forms: &F,
    ) -> Admission {
        let known = self.know(supplier.channel, &pending_event);
        let mut steps = self.step_budget(supplier, &pending_event);
        if pending_event.only.is_some() {
            return self.admit_for_some(supplier, known, pending_event, (forms, &mut steps));
        }
        if !supplier.sifted {
            self.choose_all(supplier.channel, &known);
            return self.admit_chosen(supplier, known, pending_event, (forms, &mut steps));
        }
        self.space.filters.begin();
        let admission = match self.sift(supplier, &known, &mut pending_event, (forms, &mut steps)) {
            Verdict::Passed => self.admit_chosen(supplier, known, pending_event, (forms, &mut steps)),
            Verdict::Ask(filter_groups) => {
                self.end_silences(supplier.channel, &pending_event);
                Admission::AwaitingFilter(pending_event, filter_groups)
            }
            Verdict::Dropped => {
                self.count_accepted(supplier, &pending_event);
                self.abandon_event(pending_event);
                self.counters.taken.filtered += 1;
                Admission::Accepted { destinations: 0 }
            }
        };
        let effort = self.space.filters.effort;
        self.counters.filters.evaluations += u64::from(effort.evaluations);
        self.counters.filters.failures += u64::from(effort.failures);
        self.counters.filters.cuts += u64::from(effort.cut);
        admission
    }

    /// Admits the event for the consumers in [`Event::only`].
    #[cold]
    fn admit_for_some<F: Forms>(
        &mut self,
        supplier: &Supplier,
        known: Known,
        mut pending_event: PendingEvent,
        by: (&F, &mut Steps),
    ) -> Admission {
        self.space.filters.begin();
        if supplier.parted {
            self.map_lanes(supplier, &known, &pending_event, by.0);
        }
        self.choose_some(supplier, &pending_event);
        self.prepare_handover(supplier, &mut pending_event);
        self.admit_chosen(supplier, known, pending_event, by)
    }

    /// Chooses the consumers in [`Event::only`], and the bridges to those on other lanes.
    fn choose_some(&mut self, supplier: &Supplier, event: &Event) {
        let Some(state) = self.channels.get(supplier.channel) else { return };
        let (mut chosen, mut bridged) =
            (core::mem::take(&mut self.space.filters.chosen), core::mem::take(&mut self.space.bridged));
        chosen.clear();
        bridged.clear();
        for proxy in event.only.as_deref().unwrap_or_default() {
            let Some(member) = state.routes.consumers.place_of(*proxy) else { continue };
            let lane = self.lane_of(state, supplier, member, event);
            if lane == Some(self.id) {
                let slot = state.slot_of(member);
                if self.outboxes.get(slot).is_some_and(|outbox| !outbox.dead) {
                    chosen.push(Chosen { slot, member, ask: Ask::NONE });
                }
            } else if !supplier.handed_over {
                let bridge = state.bridges.iter().find(|bridge| Some(bridge.lane) == lane);
                bridged.extend(bridge.map(|bridge| bridge.slot).filter(|slot| !bridged.contains(slot)));
            }
        }
        chosen.sort_unstable_by_key(|chosen| chosen.member);
        (self.space.filters.chosen, self.space.bridged) = (chosen, bridged);
    }

    /// Applies the filters to the event, and finds the lanes it goes to.
    fn sift<F: Forms>(
        &mut self,
        supplier: &Supplier,
        known: &Known,
        pending_event: &mut PendingEvent,
        (forms, steps): (&F, &mut Steps),
    ) -> Verdict {
        let channel = supplier.channel;
        if supplier.parted {
            self.map_lanes(supplier, known, pending_event, forms);
        }
        if supplier.screened && !pending_event.approved {
            match self.screen(supplier, known, pending_event, forms, steps) {
                Verdict::Passed => {}
                other => return other,
            }
        }
        if self.is_conditional(channel, known) {
            self.choose(channel, known, pending_event, forms, steps);
        } else {
            self.choose_all(channel, known);
        }
        if supplier.parted {
            self.choose_here(supplier, pending_event);
            self.find_bridges(supplier, known, pending_event);
            self.prepare_handover(supplier, pending_event);
        }
        Verdict::Passed
    }

    /// Admits the event for the chosen consumers.
    fn admit_chosen<F: Forms>(
        &mut self,
        supplier: &Supplier,
        known: Known,
        mut pending_event: PendingEvent,
        by: (&F, &mut Steps),
    ) -> Admission {
        self.arrival.admitting = true;
        let state = self.channels.get(supplier.channel);
        let has_history = state.is_some_and(|state| state.history.is_some());
        if state.is_some_and(ChannelState::may_overflow) {
            self.set_apart(supplier, &mut pending_event);
        }
        let is_stored = has_history && self.begin_storing(supplier, &mut pending_event);
        let weight = pending_event.weight();
        let mut plan = Plan { known, destinations: 0, bridges: 0, is_stored, weight, charge: 0, hold: None };
        let admission = match self.plan(&mut plan, supplier, &pending_event) {
            Some(refusal) => {
                let has_supplier = !supplier.handed_over && !self.arrival.unattended;
                if let Some(state) = self.channels.get_mut(supplier.channel).filter(|_| has_supplier) {
                    state.traffic.refused += 1;
                }
                self.refuse(pending_event, refusal)
            }
            None => {
                self.count_accepted(supplier, &pending_event);
                if has_history {
                    self.number_event(supplier.channel, &mut pending_event, is_stored);
                }
                if plan.holders(&pending_event) > 0 {
                    return self.fan_out(&plan, supplier, pending_event, by);
                }
                self.abandon_event(pending_event);
                self.counters.taken.unwanted += u64::from(!supplier.handed_over);
                Admission::Accepted { destinations: 0 }
            }
        };
        self.end_admission(supplier.channel);
        admission
    }

    fn count_accepted(&mut self, supplier: &Supplier, event: &Event) {
        if supplier.handed_over {
            self.counters.handovers.taken += 1;
            return;
        }
        self.counters.taken.accepted += 1;
        self.types.count(event.event_type);
        if let Some(state) = self.channels.get_mut(supplier.channel) {
            state.traffic.events_in += 1;
            state.traffic.event_bytes_in += event.bytes.len() as u64;
            if let Some(silences) = &mut state.silences {
                silences.note(event, &self.types, self.now);
            }
        }
    }

    /// Notes an event that a supplier has submitted and that waits before [`handle_event`](Self::handle_event): it ends silences at once.
    /// Its type is set already. [`schedule_event`](Self::schedule_event) does so itself.
    pub fn note_submitted(&mut self, source: ProxyKey, event: &Event, now: Time) {
        self.advance_time(now);
        if let Ok(supplier) = self.locate(source) {
            self.end_silences(supplier.channel, event);
        }
    }

    /// Ends the silences of a channel's timers that an event ends.
    fn end_silences(&mut self, channel: u32, event: &Event) {
        if let Some(silences) = self.channels.get_mut(channel).and_then(|state| state.silences.as_mut()) {
            silences.note(event, &self.types, self.now);
        }
    }

    fn refuse(&mut self, pending_event: PendingEvent, refusal: Refusal) -> Admission {
        self.abandon_event(pending_event);
        self.counters.taken.refused += u64::from(!self.arrival.unattended);
        Admission::Refused(refusal)
    }

    /// Ends an admission: from now on it matters again whether there is room.
    fn end_admission(&mut self, channel: u32) {
        self.arrival.admitting = false;
        self.look_at_shortened();
        if self.channels.get(channel).is_some_and(ChannelState::is_pressed) {
            self.note_channel_room(channel);
        }
    }

    /// Counts the destinations and makes room for them, or returns why not.
    fn plan(&mut self, plan: &mut Plan, supplier: &Supplier, pending_event: &PendingEvent) -> Option<Refusal> {
        self.count(plan, supplier, pending_event);
        let state = self.channels.get(supplier.channel)?;
        if plan.holders(pending_event) == 0 {
            return None;
        }
        if self.arrival.restoring {
            return None;
        }
        let (charge, budget_bytes) = (plan.charge, state.quota.budget_bytes);
        if charge > budget_bytes && !supplier.handed_over {
            return Some(Refusal::EventTooLarge { charged_bytes: charge, budget_bytes });
        }
        let whose = supplier.whose();
        let pressed = state.room(whose).hold.is_some() || state.over(whose, 1, charge, 1).any();
        if let Some(hold) = state.room(whose).hold.filter(|_| self.arrival.unattended) {
            return Some(self.refusal(supplier.channel, hold.over));
        }
        if supplier.rejected
            && !supplier.handed_over
            && !self.arrival.unattended
            && let Some(refusal) = self.find_rejecting(supplier, pending_event)
        {
            return Some(refusal);
        }
        if pressed { self.relieve(plan, supplier, pending_event) } else { None }
    }

    /// Makes room for a plan, or returns why not.
    #[cold]
    fn relieve(&mut self, plan: &mut Plan, supplier: &Supplier, pending_event: &PendingEvent) -> Option<Refusal> {
        match self.make_room(supplier.channel, plan.charge) {
            Ok(hold) => plan.hold = hold,
            Err(refusal) => return Some(refusal),
        }
        // Consumers may have been disconnected to make room.
        plan.known = self.know(supplier.channel, pending_event);
        let outboxes = &self.outboxes;
        let is_alive = |chosen: &Chosen| outboxes.get(chosen.slot).is_some_and(|outbox| !outbox.dead);
        self.space.filters.chosen.retain(is_alive);
        self.count(plan, supplier, pending_event);
        None
    }

    /// Counts a plan's destinations, and the event's charge for them.
    #[inline]
    fn count(&self, plan: &mut Plan, supplier: &Supplier, pending_event: &PendingEvent) {
        plan.destinations = self.space.filters.chosen.len();
        plan.bridges = if supplier.parted { self.space.bridged.len() } else { 0 };
        let has_times = pending_event.timeout.or(supplier.timeout).is_some()
            || pending_event.start.is_some()
            || pending_event.stop.is_some();
        // Hand-overs may come after events that arrived later.
        let is_sorted = supplier.sorted || has_times || supplier.handed_over;
        let holder = if is_sorted { SORTED_OVERHEAD_BYTES } else { HOLDER_OVERHEAD_BYTES };
        plan.charge = plan.weight + holder * plan.holders(pending_event) as u64;
    }

    /// Destinations for the event's type, looked up or computed.
    pub(super) fn know(&mut self, channel: u32, pending_event: &Event) -> Known {
        let Some(state) = self.channels.get_mut(channel) else { return Known::default() };
        if let Some(known) = state.destinations.find(pending_event.event_type) {
            return known;
        }
        let (domain, name) = match self.types.names(pending_event.event_type) {
            Some(names) => names,
            None => pending_event.names(),
        };
        let (members, outboxes) = (&state.members, &self.outboxes);
        let is_alive = |member: u32| {
            let slot = members.get(member as usize);
            slot.and_then(|slot| outboxes.get(*slot)).is_some_and(|outbox| !outbox.dead)
        };
        let here = Here { lane: self.id, bridges: &state.bridges };
        let sought = Sought { event_type: pending_event.event_type, domain, name, routes: &state.routes, here };
        let (known, way) = state.destinations.know(sought, is_alive);
        match way {
            Way::Amended(changes) => self.counters.routing.amendments += changes,
            Way::Learned | Way::Reset => self.counters.routing.misses += 1,
        }
        self.counters.routing.resets += u64::from(way == Way::Reset);
        if way == Way::Reset && state.all.events == 0 {
            // A channel without cached types is no user of them, unless it has events.
            self.types.leave(core::mem::take(&mut state.types));
        }
        if !matches!(way, Way::Amended(_)) && state.types.insert(pending_event.event_type) {
            self.types.hold(pending_event.event_type);
        }
        known
    }

    fn is_conditional(&self, channel: u32, known: &Known) -> bool {
        self.channels.get(channel).is_some_and(|state| state.destinations.is_conditional(known))
    }

    /// Number of steps that filtering the event may take.
    pub(super) fn step_budget(&self, supplier: &Supplier, pending_event: &PendingEvent) -> Steps {
        // A time of 0 means none, as everywhere.
        let time_left =
            pending_event.timeout.or(supplier.timeout).filter(|time| !time.is_zero() && !self.arrival.keeps_expired);
        let Some(time) = time_left else { return Steps::new(supplier.steps_max) };
        let in_time = u32::try_from(time.as_nanos() / NANOS_PER_STEP).unwrap_or(u32::MAX);
        Steps::new(in_time.min(supplier.steps_max))
    }

    /// Verdict of the filters on the supplier's side.
    fn screen<F: Forms>(
        &mut self,
        supplier: &Supplier,
        known: &Known,
        pending_event: &PendingEvent,
        forms: &F,
        steps: &mut Steps,
    ) -> Verdict {
        let Some(state) = self.channels.get(supplier.channel) else { return Verdict::Passed };
        let route = state.routes.suppliers.get(supplier.source.proxy);
        let Some(groups) = route.and_then(|route| route.groups.as_deref()) else { return Verdict::Passed };
        self.space.filters.screen((state, known), groups, &forms.fields(pending_event), steps)
    }

    /// Chooses the destinations by filters, and adds the consumers that take every event of the type.
    fn choose<F: Forms>(
        &mut self,
        channel: u32,
        known: &Known,
        pending_event: &PendingEvent,
        forms: &F,
        steps: &mut Steps,
    ) {
        let Some(state) = self.channels.get(channel) else { return };
        let outboxes = &self.outboxes;
        let is_alive = |slot: u32| outboxes.get(slot).is_some_and(|outbox| !outbox.dead);
        self.space.filters.choose((state, known), is_alive, &forms.fields(pending_event), steps);
    }

    /// Chooses the consumers that take every event of the type.
    #[inline]
    fn choose_all(&mut self, channel: u32, known: &Known) {
        if let Some(state) = self.channels.get(channel) {
            self.space.filters.choose_all(state, known);
        }
    }

    /// The refusal, if one of the event's destinations is full and refuses events: no outbox takes an event that is
    /// refused to its supplier.
    fn find_rejecting(&self, supplier: &Supplier, pending_event: &PendingEvent) -> Option<Refusal> {
        let channel = supplier.channel;
        let reliability = pending_event.reliability.unwrap_or(supplier.reliability);
        let state = self.channels.get(channel)?;
        let lacks_room = !pending_event.away().is_empty() && !state.depot.has_room(pending_event.stored_bytes());
        let away = pending_event.away().iter().filter_map(|away| self.outbox_of(channel, away.consumer));
        let slots = self.space.filters.chosen.iter().map(|chosen| (chosen.slot, false));
        let slots = slots.chain(away.map(|slot| (slot, lacks_room)));
        let outboxes = slots.filter_map(|(slot, lacks_room)| Some((self.outboxes.get(slot)?, lacks_room)));
        let rejects = |outbox: &Outbox| {
            outbox.terms.settings.policy_at_limits() == Some(FullOutbox::Reject) && !outbox.spares(reliability)
        };
        let refusing = outboxes.filter(|(outbox, lacks_room)| rejects(outbox) && (outbox.is_full() || *lacks_room));
        // Of several, the one with the lowest proxy id is named.
        let (first, lacks_room) = refusing.min_by_key(|(outbox, _)| outbox.key.proxy)?;
        let bytes_max = first.terms.settings.max_bytes_per_consumer.filter(|_| !lacks_room && !first.has_all_events());
        if let Some(budget_bytes) = bytes_max {
            return Some(Refusal::MemorySpent { channel: state.id, budget_bytes: budget_bytes.get() });
        }
        let Some(max) = first.terms.settings.max_events_per_consumer.filter(|_| !lacks_room) else {
            let budget_bytes = state.quota.budget_bytes + state.quota.overflow_bytes;
            return Some(Refusal::MemorySpent { channel: state.id, budget_bytes });
        };
        Some(Refusal::OutboxFull { proxy: first.key, capacity_events: max.get() })
    }

    /// Puts the event into its outboxes.
    fn fan_out<F: Forms>(
        &mut self,
        plan: &Plan,
        supplier: &Supplier,
        mut pending_event: PendingEvent,
        (forms, steps): (&F, &mut Steps),
    ) -> Admission {
        let channel = supplier.channel;
        // Hand-overs of a channel with a stored history come in the order of their numbers.
        let keeps_arrival = (supplier.handed_over && pending_event.number.is_none()) || self.arrival.restoring;
        let offer = self.make_offer((plan.weight, plan.charge), supplier, &mut pending_event, keeps_arrival);
        self.news.completion.begin(&pending_event);
        let tells_of_each = pending_event.watch.filter(|_| pending_event.watch_each);
        let is_elsewhere = !pending_event.away().is_empty();
        let at = self.events.insert(pending_event);
        self.memory_pool.memory.add(plan.charge);
        if let Some(state) = self.channels.get_mut(channel) {
            state.all.add(plan.charge);
            if supplier.handed_over {
                state.taken.add(plan.charge);
            }
            if let Some(slow_consumer) = &mut state.known_slow_consumer {
                slow_consumer.rivals_weight = slow_consumer.rivals_weight.saturating_add(plan.weight);
            }
        }
        if self.channels.get(channel).is_some_and(|state| !state.charged.is_empty()) {
            self.charge_until_now(channel);
        }
        let mut withheld: Option<Withheld> = None;
        let mut destinations = 0;
        for index in 0..plan.destinations {
            let Some(chosen) = self.space.filters.chosen.get(index).copied() else { break };
            let mapped = match supplier.mapped {
                true => self.map(chosen, (supplier, &plan.known), &offer, (forms, steps)),
                false => None,
            };
            let is_in = self.put_into(chosen.slot, (mapped, chosen.ask), &offer, &mut withheld);
            destinations += u32::from(is_in);
            if let Some(watch) = tells_of_each.filter(|_| is_in) {
                self.complete_begins(watch, chosen.slot);
            }
        }
        if is_elsewhere {
            destinations += self.keep_elsewhere(channel, offer.entry, &mut withheld);
        }
        if let Some(watch) = tells_of_each {
            self.news.completion.note_begun(watch, plan.bridges);
        }
        if plan.bridges > 0 {
            self.fan_out_to_bridges(&offer, &mut withheld);
        }
        if plan.is_stored {
            self.keep_in_history(channel, at);
        }
        self.counters.deliveries.queued += u64::from(destinations);
        self.disconnect_doomed();
        // Held here until now, so that it counts while the outboxes make place for it.
        self.release_holder(at);
        self.end_admission(channel);
        self.hold_suppliers(supplier, plan.hold, withheld, destinations)
    }

    /// Completes the fields of an event that is admitted.
    pub(super) fn make_offer(
        &mut self,
        (weight, charge): (u64, u64),
        supplier: &Supplier,
        pending_event: &mut PendingEvent,
        keeps_arrival: bool,
    ) -> Offer {
        let (place, serial) = (self.events.next(), self.arrival.next_serial);
        self.arrival.next_serial += 1;
        let event: &mut Event = pending_event;
        event.source = supplier.source;
        // An event that was handed over, or comes back, keeps its arrival.
        event.arrived = if keeps_arrival { event.arrived.min(self.now) } else { self.now };
        let older_by = Duration::from_millis(event.older_by_ms.into());
        event.serial = serial;
        event.place = place;
        event.channel_slot = supplier.channel;
        event.charged_bytes = charge;
        event.weight_bytes = weight;
        event.taken_over = supplier.handed_over;
        event.trim(weight);
        let (start, stop, timeout) = (event.start, event.stop, event.timeout.or(supplier.timeout));
        let entry = Entry {
            event: place,
            priority: event.priority.unwrap_or(supplier.priority),
            ask: Ask::NONE,
            is_plain: true,
            since: event.arrived,
            expiry: Entry::NEVER,
        };
        let is_timed = timeout.is_some() || start.is_some() || stop.is_some();
        let never_expires = self.arrival.keeps_expired;
        Offer { entry, is_timed, weight, serial, start, stop, timeout, older_by, never_expires }
    }

    /// Puts the event into one outbox. Returns whether it is in.
    #[inline]
    pub(super) fn put_into(
        &mut self,
        slot: u32,
        (mapped, ask): (Option<Entry>, Ask),
        offer: &Offer,
        withheld: &mut Option<Withheld>,
    ) -> bool {
        let Some(mut outbox) = self.outboxes.get_mut(slot) else { return false };
        let entry = mapped.unwrap_or_else(|| outbox.entry(offer, ask));
        if outbox.catch_up.is_some() {
            self.pass_over(slot, entry.event);
            return false;
        }
        if self.arrival.unattended && outbox.hold.holding && !outbox.hold.is_late {
            self.pass_by(slot, entry.event);
            return false;
        }
        if (!entry.is_plain && entry.expiry <= self.now) || (outbox.is_full() && !self.arrival.restoring) {
            if !self.find_place(slot, &entry) {
                // Others may have been dropped for it all the same.
                self.look_at_next(slot);
                return false;
            }
            let Some(again) = self.outboxes.get_mut(slot) else { return false };
            outbox = again;
        }
        self.events.hold(entry.event);
        outbox.push(entry, offer, &self.events, self.now);
        if outbox.waiting.is_special()
            && let Some(due) = outbox.waiting_due(&self.events, self.now)
        {
            outbox.look_at(due, &mut self.agenda.timers);
        }
        let may_block = !self.arrival.restoring && !self.arrival.unattended;
        if outbox.is_bounded() && (outbox.hold.is_late || !outbox.hold.holding) && may_block {
            let exceeds = outbox.exceeds_bound(&self.events, self.now);
            match (outbox.hold.is_late, exceeds) {
                (false, true) => outbox.begin_late_hold(self.now, &mut self.agenda.timers),
                // By its order the event precedes the late one.
                (true, false) => {
                    self.end_outbox_hold(slot);
                    let Some(again) = self.outboxes.get_mut(slot) else { return true };
                    outbox = again;
                }
                _ => {}
            }
        }
        if outbox.holds_one_more() && may_block {
            self.space.holders.push(slot);
            hold(&mut self.tickets, outbox, withheld);
        }
        self.agenda.list_if_ready(outbox, &self.events, self.now);
        true
    }

    /// Queue entry of an event for one of its consumers, by the consumer's mapping filters.
    pub(super) fn map<F: Forms>(
        &mut self,
        chosen: Chosen,
        (supplier, known): (&Supplier, &Known),
        offer: &Offer,
        (forms, steps): (&F, &mut Steps),
    ) -> Option<Entry> {
        let (state, event) = (self.channels.get(supplier.channel)?, self.events.get(offer.entry.event)?);
        let outbox = self.outboxes.get(chosen.slot)?;
        let [by_priority, by_lifetime] = state.routes.consumers.get(chosen.member)?.mappings;
        let mut entry = Entry { ask: chosen.ask, ..offer.entry };
        let mut lifetime = outbox.lifetime(offer);
        if let Some(filter) = by_priority {
            let says_itself = supplier.says_priority(event);
            let value = self.space.filters.map((state, known), filter, says_itself, &forms.fields(event), steps);
            entry.priority = value.map_or(entry.priority, priority_of);
        }
        if let Some(filter) = by_lifetime {
            let says_itself = offer.timeout.is_some();
            if let Some(nanos) =
                self.space.filters.map((state, known), filter, says_itself, &forms.fields(event), steps)
            {
                // A time of 0 means none, as everywhere.
                let nanos = u64::try_from(nanos).ok().filter(|nanos| *nanos > 0);
                lifetime = nanos.map(Duration::from_nanos);
            }
        }
        Some(outbox.timed(entry, offer, lifetime))
    }

    /// Blocks the channel's suppliers if there is no room once the event is in, and returns the event's admission.
    fn hold_suppliers(
        &mut self,
        supplier: &Supplier,
        hold: Option<Hold>,
        mut withheld: Option<Withheld>,
        destinations: u32,
    ) -> Admission {
        if self.arrival.restoring {
            return Admission::Accepted { destinations };
        }
        let (channel, whose) = (supplier.channel, supplier.whose());
        if let Some(hold) = hold {
            self.begin_hold(channel, hold);
        }
        if self.arrival.unattended {
            debug_assert!(withheld.is_none(), "no consumer withholds a reply for an event without a supplier");
            // The hold ends as any does, and has no waiter for this event.
            if hold.is_some() {
                self.charge_holders(supplier);
            }
            return Admission::Accepted { destinations };
        }
        let holds_one_more = |state: &&mut ChannelState| {
            let room = state.room(whose);
            room.hold.is_some_and(|hold| (room.waiters.len() as u64) < state.still_blocked(whose, hold.over))
        };
        if let Some(room) = self.channels.get_mut(channel).filter(holds_one_more).map(|state| state.room_mut(whose))
            && let Some(hold) = &mut room.hold
        {
            let ticket = withheld.get_or_insert_with(|| issue(&mut self.tickets, channel));
            self.tickets.wait(ticket.at, &mut room.waiters);
            hold.blocked_events += 1;
        }
        let Some(Withheld { at, ticket }) = withheld else { return Admission::Accepted { destinations } };
        self.counters.taken.withheld += u64::from(!self.arrival.taking_over);
        if let Some(state) = self.channels.get_mut(channel) {
            state.withheld += 1;
        }
        self.wake(at);
        self.charge_holders(supplier);
        Admission::Withheld(ticket)
    }
}

/// A mapping filter's value as a priority.
pub(super) fn priority_of(value: i64) -> i16 {
    value.clamp(i64::from(i16::MIN), i64::from(i16::MAX)).try_into().unwrap_or_default()
}

/// Adds an event that its supplier is blocked for, because an outbox is full.
pub(super) fn hold(tickets: &mut super::Tickets, outbox: &mut Outbox, withheld: &mut Option<Withheld>) {
    let ticket = withheld.get_or_insert_with(|| issue(tickets, outbox.channel));
    tickets.wait(ticket.at, &mut outbox.hold.waiters);
    outbox.hold.blocked_events += 1;
}

fn issue(tickets: &mut super::Tickets, channel: u32) -> Withheld {
    let (at, ticket) = tickets.issue(channel);
    Withheld { at, ticket }
}
