//! Events in: found by their source's channel and their type, they go to every outbox that wants them.

use alloc::sync::Arc;
use core::time::Duration;

use filter::Steps;

use super::channel::{ChannelState, Hold};
use super::destinations::{Asked, Here, Known, Verdict, Way};
use super::filtering::Chosen;
use super::outbox::Attributes;
use super::{Admission, Lane};
use crate::{
    Draft, Event, Forms, FullOutbox, HOLDER_OVERHEAD_BYTES, ProxyKey, ProxyState, Questions, Refusal,
    SORTED_OVERHEAD_BYTES, SupplierSettings, Ticket, Time,
};

/// What the events of a supplier have from it.
pub(super) struct Supplier {
    pub(super) source: ProxyKey,
    pub(super) channel: u32,
    pub(super) settings: SupplierSettings,
    /// Filters on its side have a say in whether its events come in.
    pub(super) screened: bool,
    /// Consumers of the channel are on other lanes too.
    pub(super) parted: bool,
    /// The event comes from another lane, which has asked those filters and tells all other lanes.
    pub(super) handed_over: bool,
}

impl Supplier {
    /// The priority by which an event's lane is chosen, where no mapping filter says another.
    pub(super) fn lane_priority(&self, event: &Event) -> i16 {
        event.thread_priority.or(event.priority).unwrap_or(self.settings.priority)
    }

    /// Whether an event or its supplier says its priority, so that a mapping filter's default value does not.
    pub(super) fn says_priority(&self, event: &Event) -> bool {
        event.priority.is_some() || self.settings.priority != 0
    }
}

/// Where an event goes, once nothing speaks against it.
struct Plan {
    channel: u32,
    known: Known,
    /// It goes to those that filters chose. Otherwise to all that take every event of its type.
    chosen: bool,
    destinations: usize,
    /// How many bridges it takes.
    bridges: usize,
    charge: u64,
    /// Suppliers are to be held if there still is no room when the event is in.
    hold: Option<Hold>,
}

/// One of the consumers that an event goes to.
struct Destination {
    slot: u32,
    /// Its place among the channel's consumers.
    member: u32,
    ask: Option<Questions>,
}

/// The ticket of an event that is being held, and its place.
pub(super) struct Held {
    at: u32,
    ticket: Ticket,
}

/// A step of filtering takes about so long at most; the time that an event has left is spent on filtering at this rate.
const NANOS_PER_STEP: u128 = 16;

impl Lane {
    /// Takes an event in from a supplier's proxy, and puts it into the outbox of every consumer that wants it. Sets its
    /// `source`, `arrived` and `serial`. `forms` reads the event for filters.
    ///
    /// Filtering takes at most the channel's `filter_steps_max` steps, and less if the event's `timeout` leaves less
    /// time; what is not evaluated by then does not match. An event that does not pass the filters on its supplier's side
    /// is accepted, has no destinations, and is counted.
    pub fn handle_event<F: Forms>(&mut self, source: ProxyKey, draft: Draft, forms: &F, now: Time) -> Admission {
        self.told(now);
        let supplier = match self.locate(source) {
            Ok(supplier) => supplier,
            Err(refusal) => return self.refuse(draft, refusal),
        };
        self.admit_counted(&supplier, draft, forms)
    }

    pub(super) fn admit_counted<F: Forms>(&mut self, supplier: &Supplier, draft: Draft, forms: &F) -> Admission {
        self.filters.begin();
        let admission = self.admit(supplier, draft, forms);
        let effort = self.filters.effort;
        self.counters.filter_evaluations += u64::from(effort.evaluations);
        self.counters.filter_failures += u64::from(effort.failures);
        self.counters.filter_cuts += u64::from(effort.cut);
        admission
    }

    fn admit<F: Forms>(&mut self, supplier: &Supplier, mut draft: Draft, forms: &F) -> Admission {
        let channel = supplier.channel;
        let known = self.know(channel, &draft);
        let mut steps = self.step_budget(supplier, &draft);
        if supplier.parted {
            self.map_lanes(supplier, &known, &draft, forms);
        }
        if supplier.screened && !draft.approved {
            match self.screen(supplier, &known, &draft, forms, &mut steps) {
                Verdict::Passed => {}
                Verdict::Ask(questions) => return Admission::Undecided(draft, questions),
                Verdict::Dropped => {
                    self.abandon_event(draft);
                    self.counters.events_accepted += 1;
                    self.counters.events_filtered_in += 1;
                    return Admission::Accepted { destinations: 0 };
                }
            }
        }
        let mut chosen =
            self.is_conditional(channel, &known) && self.choose(channel, &known, &draft, forms, &mut steps);
        if supplier.parted {
            chosen = self.choose_here(supplier, &known, chosen, &draft);
            self.find_bridges(supplier, &known, &draft);
            self.prepare_handover(supplier, &mut draft);
        }
        self.admitting = true;
        let admission = match self.plan(supplier, known, chosen, &draft) {
            Err(refusal) => self.refuse(draft, refusal),
            Ok(plan) if plan.destinations + plan.bridges == 0 => {
                self.abandon_event(draft);
                self.count_accepted(supplier);
                self.counters.events_unwanted += u64::from(!supplier.handed_over);
                Admission::Accepted { destinations: 0 }
            }
            Ok(plan) => {
                self.count_accepted(supplier);
                let event = &mut *draft;
                event.source = supplier.source;
                // One that was handed over keeps the time of its arrival.
                event.arrived = if supplier.handed_over { event.arrived.min(self.now) } else { self.now };
                event.serial = self.next_serial;
                event.channel_slot = plan.channel;
                event.charged_bytes = plan.charge;
                event.taken_over = supplier.handed_over;
                event.trim();
                self.next_serial += 1;
                return self.fan_out(plan, supplier, draft, forms, &mut steps);
            }
        };
        self.end_admission(channel);
        admission
    }

    fn count_accepted(&mut self, supplier: &Supplier) {
        let count =
            if supplier.handed_over { &mut self.counters.taken_over } else { &mut self.counters.events_accepted };
        *count += 1;
    }

    fn refuse(&mut self, draft: Draft, refusal: Refusal) -> Admission {
        self.abandon_event(draft);
        self.counters.events_refused += 1;
        Admission::Refused(refusal)
    }

    /// The event is in, or is not to be: now it counts whether there is room.
    fn end_admission(&mut self, channel: u32) {
        self.admitting = false;
        while let Some(slot) = self.shortened.pop() {
            self.note_room(slot);
        }
        if self.channels.get(channel).is_some_and(ChannelState::is_pressed) {
            self.note_channel_room(channel);
        }
    }

    /// Counts the destinations and makes room for them, or says why not.
    fn plan(&mut self, supplier: &Supplier, known: Known, chosen: bool, draft: &Draft) -> Result<Plan, Refusal> {
        let channel = supplier.channel;
        let mut plan = Plan { channel, known, chosen, destinations: 0, bridges: 0, charge: 0, hold: None };
        self.count(&mut plan, supplier, draft);
        let Some(state) = self.channels.get(channel) else { return Ok(plan) };
        if plan.destinations + plan.bridges == 0 {
            return Ok(plan);
        }
        let (charge, budget_bytes) = (plan.charge, state.share.budget_bytes);
        if charge > budget_bytes && !supplier.handed_over {
            return Err(Refusal::EventTooLarge { charged_bytes: charge, budget_bytes });
        }
        let whose = self.whose();
        let pressed = state.room(whose).hold.is_some() || state.over(whose, 1, charge, 1).any();
        if state.routes.traits.any_rejects && !supplier.handed_over {
            self.check_rejects(&plan)?;
        }
        if pressed {
            plan.hold = self.make_room(channel, charge)?;
            // Consumers may have been disconnected to make room.
            plan.known = self.know(channel, draft);
            if chosen {
                let state = self.channels.get(channel);
                let slot = |chosen: &Chosen| state.and_then(|state| state.members.get(chosen.member as usize));
                let outboxes = &self.outboxes;
                let is_alive = |slot: &u32| outboxes.get(*slot).is_some_and(|outbox| !outbox.dead);
                self.filters.chosen.retain(|chosen| slot(chosen).is_some_and(is_alive));
            }
            self.count(&mut plan, supplier, draft);
        }
        Ok(plan)
    }

    /// Counts a plan's destinations, and what the event is charged for them.
    fn count(&self, plan: &mut Plan, supplier: &Supplier, draft: &Draft) {
        let always = || self.channels.get(plan.channel).map_or(0, |state| state.destinations.always(&plan.known).len());
        plan.destinations = if plan.chosen { self.filters.chosen.len() } else { always() };
        plan.bridges = if supplier.parted { self.bridged.len() } else { 0 };
        let timeout = draft.timeout.or(supplier.settings.timeout);
        let has_times = timeout.is_some() || draft.start.is_some() || draft.stop.is_some();
        // What is handed over may come after events that arrived later.
        let has_times = has_times || supplier.handed_over;
        let sorts = |state: &ChannelState| state.routes.traits.any_sorted || state.routes.filtering.any_mapping;
        let is_sorted = has_times || self.channels.get(plan.channel).is_some_and(sorts);
        let holder = if is_sorted { SORTED_OVERHEAD_BYTES } else { HOLDER_OVERHEAD_BYTES };
        plan.charge = draft.weight() + holder * (plan.destinations + plan.bridges) as u64;
    }

    /// The channel of a connected supplier's proxy, and what else its events have from it.
    fn locate(&self, source: ProxyKey) -> Result<Supplier, Refusal> {
        let slot = self.channel_slots.get(&source.channel).copied();
        let state = slot.and_then(|slot| self.channels.get(slot));
        let (Some(channel), Some(state)) = (slot, state) else {
            return Err(Refusal::ChannelNotFound { channel: source.channel });
        };
        match state.routes.suppliers.get(source.proxy) {
            None => Err(Refusal::ProxyNotFound { proxy: source }),
            Some(supplier) if supplier.state == ProxyState::Unconnected => Err(Refusal::NotConnected { proxy: source }),
            Some(supplier) => {
                let (settings, screened) = (supplier.settings, supplier.groups.is_some());
                let parted = !state.bridges.is_empty();
                Ok(Supplier { source, channel, settings, screened, parted, handed_over: false })
            }
        }
    }

    /// What is known of the event's type, found out if need be.
    fn know(&mut self, channel: u32, draft: &Draft) -> Known {
        let Some(state) = self.channels.get_mut(channel) else { return Known::default() };
        if let Some(known) = state.destinations.find(draft.event_type) {
            return known;
        }
        let (domain, name) = match self.types.names(draft.event_type) {
            Some(names) => names,
            None => (&draft.domain[..], &draft.name[..]),
        };
        let (members, outboxes) = (&state.members, &self.outboxes);
        let is_alive = |member: u32| {
            let slot = members.get(member as usize);
            slot.and_then(|slot| outboxes.get(*slot)).is_some_and(|outbox| !outbox.dead)
        };
        let here = Here { lane: self.id, bridges: &state.bridges };
        let asked = Asked { event_type: draft.event_type, domain, name, routes: &state.routes, here };
        let (known, way) = state.destinations.know(asked, is_alive);
        match way {
            Way::Amended(changes) => self.counters.route_amendments += changes,
            Way::Learned | Way::Reset => self.counters.route_misses += 1,
        }
        self.counters.route_resets += u64::from(way == Way::Reset);
        known
    }

    fn is_conditional(&self, channel: u32, known: &Known) -> bool {
        self.channels.get(channel).is_some_and(|state| state.destinations.is_conditional(known))
    }

    /// How many steps filtering the event may take.
    fn step_budget(&self, supplier: &Supplier, draft: &Draft) -> Steps {
        let limit = self.channels.get(supplier.channel).map_or(0, |state| state.routes.limits.filter_steps_max);
        // As everywhere, a time of 0 is none at all.
        let time_left = draft.timeout.or(supplier.settings.timeout).filter(|time| !time.is_zero());
        let in_time = time_left.map_or(u128::MAX, |time| time.as_nanos() / NANOS_PER_STEP);
        Steps::new(u32::try_from(in_time).unwrap_or(u32::MAX).min(limit))
    }

    /// What the filters on the supplier's side say.
    fn screen<F: Forms>(
        &mut self,
        supplier: &Supplier,
        known: &Known,
        draft: &Draft,
        forms: &F,
        steps: &mut Steps,
    ) -> Verdict {
        let Some(state) = self.channels.get(supplier.channel) else { return Verdict::Passed };
        let route = state.routes.suppliers.get(supplier.source.proxy);
        let Some(groups) = route.and_then(|route| route.groups.as_deref()) else { return Verdict::Passed };
        self.filters.screen((state, known), groups, &forms.fields(draft), steps)
    }

    /// Lets filters choose the destinations. Says whether they chose any beyond those that take every event.
    fn choose<F: Forms>(&mut self, channel: u32, known: &Known, draft: &Draft, forms: &F, steps: &mut Steps) -> bool {
        let Some(state) = self.channels.get(channel) else { return false };
        let (members, outboxes) = (&state.members, &self.outboxes);
        let is_alive = |member: u32| {
            let slot = members.get(member as usize);
            slot.and_then(|slot| outboxes.get(*slot)).is_some_and(|outbox| !outbox.dead)
        };
        self.filters.choose((state, known), is_alive, &forms.fields(draft), steps)
    }

    /// The `index`-th destination of a plan, and what is to be asked first.
    fn destination(&self, plan: &Plan, index: usize) -> Option<Destination> {
        let state = self.channels.get(plan.channel)?;
        let Chosen { member, ask } = match plan.chosen {
            true => *self.filters.chosen.get(index)?,
            false => Chosen { member: *state.destinations.always(&plan.known).get(index)?, ask: None },
        };
        Some(Destination { slot: *state.members.get(member as usize)?, member, ask })
    }

    /// Refuses an event if an outbox that it would go to is full and refuses events then: no outbox takes an event
    /// whose supplier is told that it was refused.
    fn check_rejects(&self, plan: &Plan) -> Result<(), Refusal> {
        let destinations = (0..plan.destinations).filter_map(|index| self.destination(plan, index));
        let outboxes = destinations.filter_map(|destination| self.outboxes.get(destination.slot));
        let refusing = outboxes.filter(|outbox| outbox.full_policy() == FullOutbox::Reject && outbox.is_full());
        // Of several, the one that is named is the one with the lowest proxy's id.
        let first = refusing.min_by_key(|outbox| outbox.key.proxy);
        match first.and_then(|outbox| Some((outbox.key, outbox.settings.max_events_per_consumer?))) {
            Some((proxy, max)) => Err(Refusal::OutboxFull { proxy, capacity_events: max.get() }),
            None => Ok(()),
        }
    }

    /// Puts the event into its outboxes.
    fn fan_out<F: Forms>(
        &mut self,
        plan: Plan,
        supplier: &Supplier,
        draft: Draft,
        forms: &F,
        steps: &mut Steps,
    ) -> Admission {
        let weight = draft.weight();
        let event = draft.into_event();
        let mut held: Option<Held> = None;
        let mut destinations = 0;

        let Some(state) = self.channels.get_mut(plan.channel) else {
            self.admitting = false;
            return Admission::Accepted { destinations };
        };
        state.all.add(plan.charge);
        if supplier.handed_over {
            state.taken.add(plan.charge);
        }
        if let Some(laggard) = &mut state.known_laggard {
            laggard.rivals_weight = laggard.rivals_weight.saturating_add(weight);
        }
        for index in 0..plan.destinations {
            let Some(destination) = self.destination(&plan, index) else { continue };
            let slot = destination.slot;
            let Some(attributes) = self.attributes(&plan, &destination, supplier, &event, forms, steps) else {
                continue;
            };
            destinations += u32::from(self.put_into(slot, (&event, weight), attributes, &mut held));
        }
        if plan.bridges > 0 {
            self.fan_out_to_bridges(&event, weight, &mut held);
        }
        self.counters.queued += u64::from(destinations);
        self.disconnect_doomed();
        // Held here until now, so that it counts while the outboxes make place for it.
        self.release(event);
        self.end_admission(plan.channel);
        self.hold_suppliers(plan.channel, plan.hold, held, destinations)
    }

    /// Puts the event into one outbox. Says whether it is in.
    #[inline]
    pub(super) fn put_into(
        &mut self,
        slot: u32,
        (event, weight): (&Arc<Event>, u64),
        attributes: Attributes,
        held: &mut Option<Held>,
    ) -> bool {
        if !self.enqueue(slot, event, weight, attributes) {
            return false;
        }
        let Some(outbox) = self.outboxes.get_mut(slot) else { return false };
        if outbox.holding {
            let ticket = held.get_or_insert_with(|| issue(&mut self.tickets, outbox.channel));
            self.tickets.wait(ticket.at, &mut outbox.waiters);
            outbox.held_events += 1;
        }
        self.list_if_ready(slot);
        true
    }

    /// What the event is to one of its consumers.
    fn attributes<F: Forms>(
        &mut self,
        plan: &Plan,
        destination: &Destination,
        supplier: &Supplier,
        event: &Event,
        forms: &F,
        steps: &mut Steps,
    ) -> Option<Attributes> {
        let outbox = self.outboxes.get(destination.slot)?;
        let mut attributes = Attributes::of(event, &supplier.settings, &outbox.settings);
        attributes.ask = destination.ask;
        let state = self.channels.get(plan.channel)?;
        if !state.routes.filtering.any_mapping {
            return Some(attributes);
        }
        let [priority, lifetime] = state.routes.consumers.get(destination.member)?.mappings;
        let of = (state, &plan.known);
        if let Some(filter) = priority {
            let value = self.filters.map(of, filter, supplier.says_priority(event), &forms.fields(event), steps);
            attributes.priority = value.map_or(attributes.priority, priority_of);
        }
        if let Some(filter) = lifetime {
            let says_itself = event.timeout.or(supplier.settings.timeout).is_some();
            if let Some(nanos) = self.filters.map(of, filter, says_itself, &forms.fields(event), steps) {
                // As everywhere, a time of 0 is none at all.
                let nanos = u64::try_from(nanos).ok().filter(|nanos| *nanos > 0);
                attributes.lifetime = nanos.map(Duration::from_nanos);
            }
        }
        Some(attributes)
    }

    /// Holds the channel's suppliers if there is no room although the event is in, and says what became of the event.
    fn hold_suppliers(
        &mut self,
        channel: u32,
        hold: Option<Hold>,
        mut held: Option<Held>,
        destinations: u32,
    ) -> Admission {
        if let Some(hold) = hold {
            self.begin_hold(channel, hold);
        }
        let whose = self.whose();
        if let Some(room) = self.channels.get_mut(channel).map(|state| state.room_mut(whose))
            && let Some(hold) = &mut room.hold
        {
            let ticket = held.get_or_insert_with(|| issue(&mut self.tickets, channel));
            self.tickets.wait(ticket.at, &mut room.waiters);
            hold.held_events += 1;
        }
        let Some(Held { at, ticket }) = held else { return Admission::Accepted { destinations } };
        self.counters.events_held += u64::from(!self.taking_over);
        if let Some(state) = self.channels.get_mut(channel) {
            state.held += 1;
        }
        self.wake(at);
        Admission::Held(ticket)
    }
}

/// A mapping filter's value as a priority.
pub(super) fn priority_of(value: i64) -> i16 {
    value.clamp(i64::from(i16::MIN), i64::from(i16::MAX)).try_into().unwrap_or_default()
}

fn issue(tickets: &mut super::Tickets, channel: u32) -> Held {
    let (at, ticket) = tickets.issue(channel);
    Held { at, ticket }
}
