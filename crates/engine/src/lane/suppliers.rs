//! Suppliers as the lane needs them: settings of a supplier and its channel, looked up with its first event and then cached.

use core::time::Duration;

use super::Lane;
use super::channel::{ChannelState, Whose};
use super::types::Types;
use crate::{AcknowledgeAfter, Activity, Event, ProxyKey, ProxyState, Refusal, Reliability, Time};

/// Settings and traits of a supplier and its channel that apply to its events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Supplier {
    pub(super) source: ProxyKey,
    pub(super) channel: u32,
    /// Priority of events without their own.
    pub(super) priority: i16,
    pub(super) timeout: Option<Duration>,
    /// Whether filters on the supplier's side decide about its events.
    pub(super) screened: bool,
    /// Whether consumers of the channel are on other lanes too.
    pub(super) parted: bool,
    /// Whether the event comes from another lane, which has applied those filters and notifies all other lanes.
    pub(super) handed_over: bool,
    /// Whether destinations depend on more than the event's type: on filters, or places on several lanes.
    pub(super) sifted: bool,
    /// Whether consumers may sort their events or let them expire, refuse some, or map their priority or lifetime.
    pub(super) sorted: bool,
    pub(super) rejected: bool,
    pub(super) mapped: bool,
    pub(super) steps_max: u32,
    /// Reliability of events without their own.
    pub(super) reliability: Reliability,
    /// Longest wait of its replies for consumers, if they wait.
    pub(super) acknowledged_within: Option<Duration>,
}

impl Supplier {
    /// A supplier of this channel.
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

    /// Priority that chooses an event's lane, where no mapping filter sets another.
    pub(super) fn lane_priority(&self, event: &Event) -> i16 {
        event.thread_priority.or(event.priority).unwrap_or(self.priority)
    }

    /// Whether an event or its supplier sets a priority, so that a mapping filter's default value does not apply.
    pub(super) fn says_priority(&self, event: &Event) -> bool {
        event.priority.is_some() || self.priority != 0
    }

    /// The senders to block if there is no room.
    pub(super) fn whose(&self) -> Whose {
        if self.handed_over { Whose::Lanes } else { Whose::Suppliers }
    }
}

/// Direct-mapped cache of the suppliers of recent events.
#[derive(Debug)]
pub(super) struct Suppliers {
    known: [Option<Supplier>; Self::PLACES],
    /// Last activity of each, and whether other lanes may write it too.
    heard: [Option<(Activity, bool)>; Self::PLACES],
}

impl Suppliers {
    const PLACES: usize = 64;

    /// Clears the cache, since anything may have changed.
    pub(super) fn forget(&mut self) {
        self.known.fill(None);
        // The routing in use still refers to these, so that administration frees them, not the lane.
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

    /// Notes an event of a supplier that is in the cache.
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
    /// A connected supplier's channel and settings.
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

/// Copies into an event its supplier's settings and the names of its type, which are unknown where it is stored.
pub(super) fn say_all(types: &Types, supplier: &Supplier, event: &mut Event) {
    event.set_supplied(supplier.priority, supplier.timeout);
    if let Some((domain, name)) = types.names(event.event_type) {
        event.set_names(domain, name);
    }
}
