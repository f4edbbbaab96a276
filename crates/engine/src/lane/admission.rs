//! Events in: found by their source's channel and their type, they go to every outbox that wants them.

use core::ops::Range;

use super::channel::{ChannelState, Hold};
use super::outbox::Attributes;
use super::{Admission, Lane};
use crate::{
    Draft, Forms, FullOutbox, HOLDER_OVERHEAD_BYTES, ProxyKey, ProxyState, Refusal, SORTED_OVERHEAD_BYTES,
    SupplierSettings, Ticket, Time,
};

/// Where an event goes, once nothing speaks against it.
struct Plan {
    channel: u32,
    /// Where its list is among the channel's destinations.
    range: Range<usize>,
    charge: u64,
    /// Suppliers are to be held if there still is no room when the event is in.
    hold: Option<Hold>,
}

/// The ticket of an event that is being held, and its place.
struct Held {
    at: u32,
    ticket: Ticket,
}

impl Lane {
    /// Takes an event in from a supplier's proxy, and puts it into the outbox of every consumer that wants it. Sets its
    /// `source`, `arrived` and `serial`. `forms` reads the event for filters.
    pub fn handle_event<F: Forms>(&mut self, source: ProxyKey, mut draft: Draft, forms: &F, now: Time) -> Admission {
        let _ = forms;
        self.told(now);
        let channel = match self.locate(source) {
            Ok(channel) => channel,
            Err(refusal) => return self.refuse(draft, refusal),
        };
        self.admitting = true;
        let plan = self.plan(channel, &draft);
        let admission = match plan {
            Err(refusal) => self.refuse(draft, refusal),
            Ok(plan) if plan.range.is_empty() => {
                self.abandon_event(draft);
                self.counters.events_accepted += 1;
                self.counters.events_unwanted += 1;
                Admission::Accepted { destinations: 0 }
            }
            Ok(plan) => {
                self.counters.events_accepted += 1;
                let event = &mut *draft;
                event.source = source;
                event.arrived = self.now;
                event.serial = self.next_serial;
                event.channel_slot = plan.channel;
                event.charged_bytes = plan.charge;
                event.trim();
                self.next_serial += 1;
                return self.fan_out(plan, draft);
            }
        };
        self.end_admission(channel);
        admission
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

    /// Finds the destinations and makes room for them, or says why not.
    fn plan(&mut self, channel: u32, draft: &Draft) -> Result<Plan, Refusal> {
        let range = self.find_destinations(channel, draft);
        let charge = self.charge(channel, draft, &range);
        let plan = Plan { channel, range, charge, hold: None };
        let Some(state) = self.channels.get(channel) else { return Ok(plan) };
        if plan.range.is_empty() {
            return Ok(plan);
        }
        let budget_bytes = state.routes.limits.memory_budget_bytes;
        if charge > budget_bytes {
            return Err(Refusal::EventTooLarge { charged_bytes: charge, budget_bytes });
        }
        let pressed = state.hold.is_some() || state.over(1, charge, 1).any();
        if state.any_rejects {
            self.check_rejects(channel, plan.range.clone())?;
        }
        if !pressed {
            return Ok(plan);
        }
        let hold = self.make_room(channel, charge)?;
        // Consumers may have been disconnected to make room.
        let range = self.find_destinations(channel, draft);
        let charge = self.charge(channel, draft, &range);
        Ok(Plan { channel, range, charge, hold })
    }

    /// What an event is charged to its channel's budget, by the number of its destinations.
    fn charge(&self, channel: u32, draft: &Draft, destinations: &Range<usize>) -> u64 {
        let has_times = draft.timeout.is_some() || draft.start.is_some() || draft.stop.is_some();
        let is_sorted = has_times || self.channels.get(channel).is_some_and(|state| state.any_sorted);
        let holder = if is_sorted { SORTED_OVERHEAD_BYTES } else { HOLDER_OVERHEAD_BYTES };
        draft.weight() + holder * destinations.len() as u64
    }

    /// The slot of the channel that a connected supplier's proxy belongs to.
    fn locate(&self, source: ProxyKey) -> Result<u32, Refusal> {
        let slot = self.channel_slots.get(&source.channel).copied();
        let state = slot.and_then(|slot| self.channels.get(slot));
        let (Some(slot), Some(state)) = (slot, state) else {
            return Err(Refusal::ChannelNotFound { channel: source.channel });
        };
        match state.routes.suppliers.get(&source.proxy) {
            None => Err(Refusal::ProxyNotFound { proxy: source }),
            Some(supplier) if supplier.state == ProxyState::Unconnected => Err(Refusal::NotConnected { proxy: source }),
            Some(_) => Ok(slot),
        }
    }

    fn find_destinations(&mut self, channel: u32, draft: &Draft) -> Range<usize> {
        let Some(state) = self.channels.get_mut(channel) else { return 0..0 };
        if let Some(range) = state.destinations.find(draft.event_type) {
            return range;
        }
        self.counters.route_misses += 1;
        let (domain, name) = match self.types.names(draft.event_type) {
            Some(names) => names,
            None => (&draft.domain[..], &draft.name[..]),
        };
        let consumers = state.routes.consumers.iter().zip(&state.members);
        let wanting = consumers.filter(|(consumer, slot)| {
            consumer.interest.matches(domain, name) && self.outboxes.get(**slot).is_some_and(|outbox| !outbox.dead)
        });
        let (range, reset) = state.destinations.learn(draft.event_type, wanting.map(|(_, slot)| *slot));
        self.counters.route_resets += u64::from(reset);
        range
    }

    /// Refuses an event if an outbox that it would go to is full and refuses events then: no outbox takes an event
    /// whose supplier is told that it was refused.
    fn check_rejects(&self, channel: u32, range: Range<usize>) -> Result<(), Refusal> {
        let list = self.channels.get(channel).and_then(|state| state.destinations.list(range)).unwrap_or_default();
        let outboxes = list.iter().filter_map(|slot| self.outboxes.get(*slot));
        for outbox in outboxes.filter(|outbox| outbox.full_policy() == FullOutbox::Reject) {
            if let Some(max) = outbox.settings.max_events_per_consumer
                && outbox.is_full()
            {
                return Err(Refusal::OutboxFull { proxy: outbox.key, capacity_events: max.get() });
            }
        }
        Ok(())
    }

    /// Puts the event into its outboxes.
    fn fan_out(&mut self, plan: Plan, draft: Draft) -> Admission {
        let weight = draft.weight();
        let event = draft.into_event();
        let mut held: Option<Held> = None;
        let mut destinations = 0;

        let Some(state) = self.channels.get_mut(plan.channel) else {
            self.admitting = false;
            return Admission::Accepted { destinations };
        };
        state.used_bytes += plan.charge;
        state.events += 1;
        if let Some(laggard) = &mut state.known_laggard {
            laggard.rivals_weight = laggard.rivals_weight.saturating_add(weight);
        }
        let slots = state.destinations.take_slots();
        for slot in slots.get(plan.range).unwrap_or_default().iter().copied() {
            let Some(outbox) = self.outboxes.get(slot) else { continue };
            let attributes = Attributes::of(&event, &SupplierSettings::default(), &outbox.settings);
            if !self.enqueue(slot, &event, weight, attributes) {
                continue;
            }
            let Some(outbox) = self.outboxes.get_mut(slot) else { continue };
            destinations += 1;
            if outbox.holding {
                let ticket = held.get_or_insert_with(|| issue(&mut self.tickets, plan.channel));
                self.tickets.wait(ticket.at, &mut outbox.waiters);
                outbox.held_events += 1;
            }
            self.list_if_ready(slot);
        }
        if let Some(state) = self.channels.get_mut(plan.channel) {
            state.destinations.put_slots(slots);
        }
        self.counters.queued += u64::from(destinations);
        self.disconnect_doomed();
        // Held here until now, so that it counts while the outboxes make place for it.
        self.release(event);
        self.end_admission(plan.channel);
        self.hold_suppliers(plan.channel, plan.hold, held, destinations)
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
        if let Some(state) = self.channels.get_mut(channel)
            && let Some(hold) = &mut state.hold
        {
            let ticket = held.get_or_insert_with(|| issue(&mut self.tickets, channel));
            self.tickets.wait(ticket.at, &mut state.waiters);
            hold.held_events += 1;
        }
        let Some(Held { at, ticket }) = held else { return Admission::Accepted { destinations } };
        self.counters.events_held += 1;
        if let Some(state) = self.channels.get_mut(channel) {
            state.held += 1;
        }
        self.wake(at);
        Admission::Held(ticket)
    }
}

fn issue(tickets: &mut super::Tickets, channel: u32) -> Held {
    let (at, ticket) = tickets.issue(channel);
    Held { at, ticket }
}
