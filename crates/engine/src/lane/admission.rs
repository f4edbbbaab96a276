//! Events in: found by their source's channel and their type, they go to every outbox that wants them.

use core::time::Duration;

use filter::Steps;

use super::channel::{ChannelState, Hold, Whose};
use super::destinations::{Here, Known, Sought, Way};
use super::filtering::Chosen;
use super::outbox::Offer;
use super::queue::{Ask, Entry};
use super::verdict::Verdict;
use super::{Admission, Lane};
use crate::{
    Activity, Draft, Event, Forms, FullOutbox, HOLDER_OVERHEAD_BYTES, ProxyKey, ProxyState, Refusal,
    SORTED_OVERHEAD_BYTES, Ticket, Time,
};

/// What the events of a supplier have from it, and from its channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Supplier {
    pub(super) source: ProxyKey,
    pub(super) channel: u32,
    /// Of its events that do not say theirs.
    pub(super) priority: i16,
    pub(super) timeout: Option<Duration>,
    /// Filters on its side have a say in whether its events come in.
    pub(super) screened: bool,
    /// Consumers of the channel are on other lanes too.
    pub(super) parted: bool,
    /// The event comes from another lane, which has asked those filters and tells all other lanes.
    pub(super) handed_over: bool,
    /// More than the event's type decides where it goes: filters, or places on several lanes.
    pub(super) sifted: bool,
    /// Consumers may sort their events or let them expire, or refuse some, or map their priority or lifetime.
    pub(super) sorted: bool,
    pub(super) rejected: bool,
    pub(super) mapped: bool,
    pub(super) steps_max: u32,
}

impl Supplier {
    /// One of this channel.
    pub(super) fn of(source: ProxyKey, channel: u32, state: &ChannelState) -> Self {
        let (traits, filtering) = (state.routes.traits, &state.routes.filtering);
        let (parted, mapped) = (!state.bridges.is_empty(), filtering.any_mapping);
        Self {
            source,
            channel,
            priority: 0,
            timeout: None,
            screened: false,
            parted,
            handed_over: false,
            sifted: parted || traits.any_remote_filters || !filtering.table.is_empty(),
            sorted: traits.any_sorted || mapped,
            rejected: traits.any_rejects,
            mapped,
            steps_max: state.routes.limits.filter_steps_max,
        }
    }

    /// The priority by which an event's lane is chosen, where no mapping filter says another.
    pub(super) fn lane_priority(&self, event: &Event) -> i16 {
        event.thread_priority.or(event.priority).unwrap_or(self.priority)
    }

    /// Whether an event or its supplier says its priority, so that a mapping filter's default value does not.
    pub(super) fn says_priority(&self, event: &Event) -> bool {
        event.priority.is_some() || self.priority != 0
    }

    /// Who is held if there is no room.
    pub(super) fn whose(&self) -> Whose {
        if self.handed_over { Whose::Lanes } else { Whose::Suppliers }
    }
}

/// The suppliers whose events came lately: each at one place, which it may lose to another one.
#[derive(Debug)]
pub(super) struct Suppliers {
    known: [Option<Supplier>; Self::PLACES],
    /// Where what is heard of each is noted, and whether other lanes may do so too.
    heard: [Option<(Activity, bool)>; Self::PLACES],
}

impl Suppliers {
    const PLACES: usize = 64;

    /// Forgets all: something may be different.
    pub(super) fn forget(&mut self) {
        self.known.fill(None);
        // What is let go of here, the routing in use still has: it is administration that frees it.
        self.heard.fill(None);
    }

    #[inline]
    fn find(&self, source: ProxyKey) -> Option<Supplier> {
        self.known.get(Self::place(source)).copied().flatten().filter(|known| known.source == source)
    }

    fn remember(&mut self, supplier: Supplier, activity: &Activity, on_several_lanes: bool) {
        let at = Self::place(supplier.source);
        if let (Some(known), Some(heard)) = (self.known.get_mut(at), self.heard.get_mut(at)) {
            *known = Some(supplier);
            *heard = Some((activity.clone(), on_several_lanes));
        }
    }

    /// Notes an event of one that was just found or remembered.
    #[inline]
    fn note_event(&self, source: ProxyKey, now: Time) {
        if let Some(Some((activity, on_several_lanes))) = self.heard.get(Self::place(source)) {
            activity.note_event(now, *on_several_lanes);
        }
    }

    #[inline]
    const fn place(source: ProxyKey) -> usize {
        (source.proxy.0 ^ source.channel.0.rotate_left(3)) as usize % Self::PLACES
    }
}

impl Default for Suppliers {
    fn default() -> Self {
        Self { known: [None; Self::PLACES], heard: [const { None }; Self::PLACES] }
    }
}

/// What an event takes that goes to those in [`Filters::chosen`](super::filtering::Filters::chosen).
struct Plan {
    known: Known,
    destinations: usize,
    /// How many bridges it takes.
    bridges: usize,
    weight: u64,
    charge: u64,
    /// Suppliers are to be held if there still is no room when the event is in.
    hold: Option<Hold>,
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
        match self.locate(source) {
            Ok(supplier) => {
                self.suppliers.note_event(source, now);
                self.admit(&supplier, draft, forms)
            }
            Err(refusal) => self.refuse(draft, refusal),
        }
    }

    pub(super) fn admit<F: Forms>(&mut self, supplier: &Supplier, mut draft: Draft, forms: &F) -> Admission {
        let known = self.know(supplier.channel, &draft);
        let mut steps = Self::step_budget(supplier, &draft);
        if !supplier.sifted {
            self.choose_all(supplier.channel, &known);
            return self.admit_chosen(supplier, known, draft, (forms, &mut steps));
        }
        self.filters.begin();
        let admission = match self.sift(supplier, &known, &mut draft, (forms, &mut steps)) {
            Verdict::Passed => self.admit_chosen(supplier, known, draft, (forms, &mut steps)),
            Verdict::Ask(questions) => Admission::Undecided(draft, questions),
            Verdict::Dropped => {
                self.settling.note_unwanted(&draft);
                self.abandon_event(draft);
                self.counters.events_accepted += 1;
                self.counters.events_filtered_in += 1;
                Admission::Accepted { destinations: 0 }
            }
        };
        let effort = self.filters.effort;
        self.counters.filter_evaluations += u64::from(effort.evaluations);
        self.counters.filter_failures += u64::from(effort.failures);
        self.counters.filter_cuts += u64::from(effort.cut);
        admission
    }

    /// Finds out what filters say of the event, and on which lanes it is to be.
    fn sift<F: Forms>(
        &mut self,
        supplier: &Supplier,
        known: &Known,
        draft: &mut Draft,
        (forms, steps): (&F, &mut Steps),
    ) -> Verdict {
        let channel = supplier.channel;
        if supplier.parted {
            self.map_lanes(supplier, known, draft, forms);
        }
        if supplier.screened && !draft.approved {
            match self.screen(supplier, known, draft, forms, steps) {
                Verdict::Passed => {}
                other => return other,
            }
        }
        if self.is_conditional(channel, known) {
            self.choose(channel, known, draft, forms, steps);
        } else {
            self.choose_all(channel, known);
        }
        if supplier.parted {
            self.choose_here(supplier, draft);
            self.find_bridges(supplier, known, draft);
            self.prepare_handover(supplier, draft);
        }
        Verdict::Passed
    }

    /// Takes the event in for those that were chosen.
    fn admit_chosen<F: Forms>(
        &mut self,
        supplier: &Supplier,
        known: Known,
        draft: Draft,
        by: (&F, &mut Steps),
    ) -> Admission {
        self.admitting = true;
        let weight = draft.weight();
        let mut plan = Plan { known, destinations: 0, bridges: 0, weight, charge: 0, hold: None };
        let admission = match self.plan(&mut plan, supplier, &draft) {
            Some(refusal) => self.refuse(draft, refusal),
            None if plan.destinations + plan.bridges == 0 => {
                self.settling.note_unwanted(&draft);
                self.abandon_event(draft);
                self.count_accepted(supplier);
                self.counters.events_unwanted += u64::from(!supplier.handed_over);
                Admission::Accepted { destinations: 0 }
            }
            None => {
                self.count_accepted(supplier);
                return self.fan_out(&plan, supplier, draft, by);
            }
        };
        self.end_admission(supplier.channel);
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
    fn plan(&mut self, plan: &mut Plan, supplier: &Supplier, draft: &Draft) -> Option<Refusal> {
        self.count(plan, supplier, draft);
        let state = self.channels.get(supplier.channel)?;
        if plan.destinations + plan.bridges == 0 {
            return None;
        }
        let (charge, budget_bytes) = (plan.charge, state.quota.budget_bytes);
        if charge > budget_bytes && !supplier.handed_over {
            return Some(Refusal::EventTooLarge { charged_bytes: charge, budget_bytes });
        }
        let whose = supplier.whose();
        let pressed = state.room(whose).hold.is_some() || state.over(whose, 1, charge, 1).any();
        if supplier.rejected
            && !supplier.handed_over
            && let Some(refusal) = self.find_rejecting()
        {
            return Some(refusal);
        }
        if pressed { self.relieve(plan, supplier, draft) } else { None }
    }

    /// Makes room for a plan, or says why not.
    #[cold]
    fn relieve(&mut self, plan: &mut Plan, supplier: &Supplier, draft: &Draft) -> Option<Refusal> {
        match self.make_room(supplier.channel, plan.charge) {
            Ok(hold) => plan.hold = hold,
            Err(refusal) => return Some(refusal),
        }
        // Consumers may have been disconnected to make room.
        plan.known = self.know(supplier.channel, draft);
        let outboxes = &self.outboxes;
        let is_alive = |chosen: &Chosen| outboxes.get(chosen.slot).is_some_and(|outbox| !outbox.dead);
        self.filters.chosen.retain(is_alive);
        self.count(plan, supplier, draft);
        None
    }

    /// Counts a plan's destinations, and what the event is charged for them.
    #[inline]
    fn count(&self, plan: &mut Plan, supplier: &Supplier, draft: &Draft) {
        plan.destinations = self.filters.chosen.len();
        plan.bridges = if supplier.parted { self.bridged.len() } else { 0 };
        let has_times = draft.timeout.or(supplier.timeout).is_some() || draft.start.is_some() || draft.stop.is_some();
        // What is handed over may come after events that arrived later.
        let is_sorted = supplier.sorted || has_times || supplier.handed_over;
        let holder = if is_sorted { SORTED_OVERHEAD_BYTES } else { HOLDER_OVERHEAD_BYTES };
        plan.charge = plan.weight + holder * (plan.destinations + plan.bridges) as u64;
    }

    /// The channel of a connected supplier's proxy, and what else its events have from it.
    #[inline]
    fn locate(&mut self, source: ProxyKey) -> Result<Supplier, Refusal> {
        match self.suppliers.find(source) {
            Some(known) => Ok(known),
            None => self.look_up(source),
        }
    }

    #[cold]
    fn look_up(&mut self, source: ProxyKey) -> Result<Supplier, Refusal> {
        let slot = self.channel_slots.get(&source.channel).copied();
        let state = slot.and_then(|slot| self.channels.get(slot));
        let (Some(channel), Some(state)) = (slot, state) else {
            return Err(Refusal::ChannelNotFound { channel: source.channel });
        };
        let route = state.routes.suppliers.get(source.proxy).ok_or(Refusal::ProxyNotFound { proxy: source })?;
        if route.state == ProxyState::Unconnected {
            return Err(Refusal::NotConnected { proxy: source });
        }
        let crate::SupplierSettings { priority, timeout, .. } = route.settings;
        let (screened, of) = (route.groups.is_some(), Supplier::of(source, channel, state));
        let supplier = Supplier { priority, timeout, screened, sifted: of.sifted || screened, ..of };
        self.suppliers.remember(supplier, &route.activity, route.places.len() > 1);
        Ok(supplier)
    }

    /// What is known of the event's type, found out if need be.
    fn know(&mut self, channel: u32, draft: &Draft) -> Known {
        let Some(state) = self.channels.get_mut(channel) else { return Known::default() };
        if let Some(known) = state.destinations.find(draft.event_type) {
            return known;
        }
        let (domain, name) = match self.types.names(draft.event_type) {
            Some(names) => names,
            None => draft.names(),
        };
        let (members, outboxes) = (&state.members, &self.outboxes);
        let is_alive = |member: u32| {
            let slot = members.get(member as usize);
            slot.and_then(|slot| outboxes.get(*slot)).is_some_and(|outbox| !outbox.dead)
        };
        let here = Here { lane: self.id, bridges: &state.bridges };
        let sought = Sought { event_type: draft.event_type, domain, name, routes: &state.routes, here };
        let (known, way) = state.destinations.know(sought, is_alive);
        match way {
            Way::Amended(changes) => self.counters.route_amendments += changes,
            Way::Learned | Way::Reset => self.counters.route_misses += 1,
        }
        self.counters.route_resets += u64::from(way == Way::Reset);
        if way == Way::Reset && state.all.events == 0 {
            // What a channel does not remember it has no use for, unless events of it wait.
            self.types.leave(core::mem::take(&mut state.types));
        }
        if !matches!(way, Way::Amended(_)) && state.types.insert(draft.event_type) {
            self.types.hold(draft.event_type);
        }
        known
    }

    fn is_conditional(&self, channel: u32, known: &Known) -> bool {
        self.channels.get(channel).is_some_and(|state| state.destinations.is_conditional(known))
    }

    /// How many steps filtering the event may take.
    fn step_budget(supplier: &Supplier, draft: &Draft) -> Steps {
        // As everywhere, a time of 0 is none at all.
        let time_left = draft.timeout.or(supplier.timeout).filter(|time| !time.is_zero());
        let Some(time) = time_left else { return Steps::new(supplier.steps_max) };
        let in_time = u32::try_from(time.as_nanos() / NANOS_PER_STEP).unwrap_or(u32::MAX);
        Steps::new(in_time.min(supplier.steps_max))
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

    /// Lets filters choose the destinations, beside those that take every event of the type.
    fn choose<F: Forms>(&mut self, channel: u32, known: &Known, draft: &Draft, forms: &F, steps: &mut Steps) {
        let Some(state) = self.channels.get(channel) else { return };
        let outboxes = &self.outboxes;
        let is_alive = |slot: u32| outboxes.get(slot).is_some_and(|outbox| !outbox.dead);
        self.filters.choose((state, known), is_alive, &forms.fields(draft), steps);
    }

    /// Chooses all that take every event of the type.
    #[inline]
    fn choose_all(&mut self, channel: u32, known: &Known) {
        if let Some(state) = self.channels.get(channel) {
            self.filters.choose_all(state, known);
        }
    }

    /// Why the event is refused, if an outbox that it would go to is full and refuses events then: no outbox takes an
    /// event whose supplier is told that it was refused.
    fn find_rejecting(&self) -> Option<Refusal> {
        let outboxes = self.filters.chosen.iter().filter_map(|chosen| self.outboxes.get(chosen.slot));
        let refusing = outboxes.filter(|outbox| outbox.full_policy() == FullOutbox::Reject && outbox.is_full());
        // Of several, the one that is named is the one with the lowest proxy's id.
        let first = refusing.min_by_key(|outbox| outbox.key.proxy)?;
        let capacity_events = first.settings.max_events_per_consumer?.get();
        Some(Refusal::OutboxFull { proxy: first.key, capacity_events })
    }

    /// Puts the event into its outboxes.
    fn fan_out<F: Forms>(
        &mut self,
        plan: &Plan,
        supplier: &Supplier,
        mut draft: Draft,
        (forms, steps): (&F, &mut Steps),
    ) -> Admission {
        let channel = supplier.channel;
        let offer = self.make_offer(plan, supplier, &mut draft);
        self.settling.begin(&draft);
        let at = self.events.insert(draft);
        self.memory.add(plan.charge);
        if let Some(state) = self.channels.get_mut(channel) {
            state.all.add(plan.charge);
            if supplier.handed_over {
                state.taken.add(plan.charge);
            }
            if let Some(laggard) = &mut state.known_laggard {
                laggard.rivals_weight = laggard.rivals_weight.saturating_add(plan.weight);
            }
        }
        let mut held: Option<Held> = None;
        let mut destinations = 0;
        for index in 0..plan.destinations {
            let Some(chosen) = self.filters.chosen.get(index).copied() else { break };
            let mapped = match supplier.mapped {
                true => self.map(chosen, (supplier, &plan.known), &offer, (forms, steps)),
                false => None,
            };
            destinations += u32::from(self.put_into(chosen.slot, (mapped, chosen.ask), &offer, &mut held));
        }
        if plan.bridges > 0 {
            self.fan_out_to_bridges(&offer, &mut held);
        }
        self.counters.queued += u64::from(destinations);
        self.disconnect_doomed();
        // Held here until now, so that it counts while the outboxes make place for it.
        self.let_go(at);
        self.end_admission(channel);
        self.hold_suppliers(supplier, plan.hold, held, destinations)
    }

    /// Finishes an event that goes in.
    fn make_offer(&mut self, plan: &Plan, supplier: &Supplier, draft: &mut Draft) -> Offer {
        let (place, serial) = (self.events.next(), self.next_serial);
        self.next_serial += 1;
        let event: &mut Event = draft;
        event.source = supplier.source;
        // One that was handed over keeps the time of its arrival.
        event.arrived = if supplier.handed_over { event.arrived.min(self.now) } else { self.now };
        event.serial = serial;
        event.place = place;
        event.channel_slot = supplier.channel;
        event.charged_bytes = plan.charge;
        event.weight_bytes = plan.weight;
        event.taken_over = supplier.handed_over;
        event.trim(plan.weight);
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
        Offer { entry, is_timed, weight: plan.weight, serial, start, stop, timeout }
    }

    /// Puts the event into one outbox. Says whether it is in.
    #[inline]
    pub(super) fn put_into(
        &mut self,
        slot: u32,
        (mapped, ask): (Option<Entry>, Ask),
        offer: &Offer,
        held: &mut Option<Held>,
    ) -> bool {
        let Some(mut outbox) = self.outboxes.get_mut(slot) else { return false };
        let entry = mapped.unwrap_or_else(|| outbox.entry(offer, ask));
        if (!entry.is_plain && entry.expiry <= self.now) || outbox.is_full() {
            if !self.find_place(slot, &entry) {
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
            outbox.look_at(due, &mut self.timers);
        }
        if outbox.holding {
            let ticket = held.get_or_insert_with(|| issue(&mut self.tickets, outbox.channel));
            self.tickets.wait(ticket.at, &mut outbox.waiters);
            outbox.held_events += 1;
        }
        if !outbox.listed && outbox.is_ready(&self.events, self.now) {
            outbox.listed = true;
            let ready = if outbox.bridge.is_some() { &mut self.ready_bridges } else { &mut self.ready };
            ready.push_back(slot);
        }
        true
    }

    /// What an event is to one of its consumers by its mapping filters.
    fn map<F: Forms>(
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
            let value = self.filters.map((state, known), filter, says_itself, &forms.fields(event), steps);
            entry.priority = value.map_or(entry.priority, priority_of);
        }
        if let Some(filter) = by_lifetime {
            let says_itself = offer.timeout.is_some();
            if let Some(nanos) = self.filters.map((state, known), filter, says_itself, &forms.fields(event), steps) {
                // As everywhere, a time of 0 is none at all.
                let nanos = u64::try_from(nanos).ok().filter(|nanos| *nanos > 0);
                lifetime = nanos.map(Duration::from_nanos);
            }
        }
        Some(outbox.timed(entry, offer, lifetime))
    }

    /// Holds the channel's suppliers if there is no room although the event is in, and says what became of the event.
    fn hold_suppliers(
        &mut self,
        supplier: &Supplier,
        hold: Option<Hold>,
        mut held: Option<Held>,
        destinations: u32,
    ) -> Admission {
        let (channel, whose) = (supplier.channel, supplier.whose());
        if let Some(hold) = hold {
            self.begin_hold(channel, hold);
        }
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
