//! What the events of a supplier have from it and from its channel, found with the first of them and then remembered.

use core::time::Duration;

use super::Lane;
use super::channel::{ChannelState, Whose};
use super::types::Types;
use crate::{AcknowledgeAfter, Activity, Event, ProxyKey, ProxyState, Refusal, Reliability, Time};

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
    /// Of its events that do not say theirs.
    pub(super) reliability: Reliability,
    /// How long its answers wait for consumers, if they do.
    pub(super) acknowledged_within: Option<Duration>,
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
            reliability: Reliability::BestEffort,
            acknowledged_within: None,
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

    /// The senders that are held if there is no room.
    pub(super) fn whose(&self) -> Whose {
        if self.handed_over { Whose::Lanes } else { Whose::Suppliers }
    }
}

/// The suppliers of recent events: each at one place, which it may lose to another one.
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
        // What is released here, the routing in use still has: it is administration that frees it.
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
    pub(super) fn note_event(&self, source: ProxyKey, now: Time) {
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

impl Lane {
    /// The channel of a connected supplier's proxy, and what else its events have from it.
    #[inline]
    pub(super) fn locate(&mut self, source: ProxyKey) -> Result<Supplier, Refusal> {
        match self.suppliers.find(source) {
            Some(known) => Ok(known),
            None => self.look_up(source),
        }
    }

    #[cold]
    fn look_up(&mut self, source: ProxyKey) -> Result<Supplier, Refusal> {
        let slot = self.places.slots.get(&source.channel).copied();
        let state = slot.and_then(|slot| self.channels.get(slot));
        let (Some(channel), Some(state)) = (slot, state) else {
            return Err(Refusal::ChannelNotFound { channel: source.channel });
        };
        let route = state.routes.suppliers.get(source.proxy).ok_or(Refusal::ProxyNotFound { proxy: source })?;
        if route.state == ProxyState::Unconnected {
            return Err(Refusal::NotConnected { proxy: source });
        }
        let crate::SupplierSettings { priority, timeout, event_reliability: reliability, .. } = route.settings;
        let crate::SupplierSettings { acknowledge_after, acknowledge_within, .. } = route.settings;
        let acknowledged_within = (acknowledge_after == AcknowledgeAfter::Delivered).then_some(acknowledge_within);
        let (screened, of) = (route.groups.is_some(), Supplier::of(source, channel, state));
        let sifted = of.sifted || screened;
        let supplier = Supplier { priority, timeout, screened, sifted, reliability, acknowledged_within, ..of };
        self.suppliers.remember(supplier, &route.activity, route.places.len() > 1);
        Ok(supplier)
    }
}

/// Has an event say all that it has from its supplier, and the names of its type: where it is kept elsewhere neither is known.
pub(super) fn say_all(types: &Types, supplier: &Supplier, event: &mut Event) {
    event.set_supplied(supplier.priority, supplier.timeout);
    if let Some((domain, name)) = types.names(event.event_type) {
        event.set_names(domain, name);
    }
}
