//! The routing snapshot: everything the event path must know of the hierarchy, immutable and shared.
//!
//! Each channel's part is its own `Arc`. A new snapshot shares the parts of all channels that did not change, so that a lane that picks it
//! up sees at a glance what did.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::members::Members;
use crate::shared::SharedMap;
use crate::table::{Filtering, SupplierGroups};
use crate::{
    Activity, AdminId, ChannelId, ChannelLimits, ClientAddress, Form, FullOutbox, Interest, LaneId, LaneInfo,
    OutboxSettings, OutputForm, Owner, Peer, Place, PriorityModel, ProxyId, ProxyKey, ProxyState, StartFrom,
    SupplierSettings, Topics,
};

/// Suppliers and consumers, channel by channel, at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Counts up with each change of the hierarchy; 0 is the empty one that a lane begins with.
    pub version: u64,
    /// By rising id.
    pub(crate) channels: Vec<Arc<ChannelRoutes>>,
    /// By rising id, without the main lane.
    pub(crate) lanes: Arc<[LaneInfo]>,
}

/// What is left of a snapshot that is not used any more: it can hold the last of very many routes, which are released a piece at a time.
#[derive(Debug)]
pub struct Remains {
    channels: Vec<ChannelRoutes>,
}

impl Snapshot {
    /// The parts of it that have no other holder.
    #[must_use]
    pub fn into_remains(self) -> Remains {
        Remains { channels: self.channels.into_iter().filter_map(Arc::into_inner).collect() }
    }
}

impl Remains {
    /// Pieces, of 64 routes each, that are released at a time, beside those that others have.
    const CHUNKS: usize = 16;

    /// Releases some of it. Says whether anything is left.
    pub fn release(&mut self) -> bool {
        let mut chunks = 0;
        while let Some(last) = self.channels.last_mut() {
            match last.consumers.release().or_else(|| last.suppliers.release()) {
                Some(was_last) => chunks += usize::from(was_last),
                None => _ = self.channels.pop(),
            }
            if chunks >= Self::CHUNKS {
                return true;
            }
        }
        false
    }
}

impl ConsumerRoute {
    /// Whether the value of its mapping filter for priority may decide which lane an event is for.
    pub(crate) fn maps_lane(&self) -> bool {
        let [priority, _] = self.mappings;
        priority.is_some() && self.places.len() > 1
    }

    /// Whether it may want other events than it did by an earlier route of the same place, or get them elsewhere.
    pub(crate) fn differs_in_interest_from(&self, other: &Self) -> bool {
        (self.key, self.connection) != (other.key, other.connection)
            || self.interest != other.interest
            || self.filters != other.filters
            || self.filtered_admin != other.filtered_admin
            || self.remote_filters != other.remote_filters
            || self.places != other.places
            || self.mappings != other.mappings
    }

    /// Whether all its events come to one lane, and that is this one.
    pub(crate) fn is_only_on(&self, lane: LaneId) -> bool {
        self.places.iter().all(|place| place.lane == lane)
    }

    /// Whether clients implement filters that count for it.
    pub(crate) fn has_remote_filters(&self) -> bool {
        self.remote_filters.iter().any(|peers| !peers.is_empty())
    }
}

impl Snapshot {
    /// The supplier behind a proxy, connected or not; `None` if there is no such proxy on the suppliers' side.
    #[must_use]
    pub fn supplier(&self, key: ProxyKey) -> Option<&SupplierRoute> {
        self.channel(key.channel)?.suppliers.get(key.proxy).map(Arc::as_ref)
    }

    /// A channel's routes.
    #[must_use]
    pub fn channel(&self, channel: ChannelId) -> Option<&ChannelRoutes> {
        self.channels.get(self.index_of(channel)?).map(Arc::as_ref)
    }

    /// All channels' routes by rising id.
    #[must_use]
    pub fn channels(&self) -> &[Arc<ChannelRoutes>] {
        &self.channels
    }

    /// The lanes beside the main one, by rising id.
    #[must_use]
    pub fn lanes(&self) -> &[LaneInfo] {
        &self.lanes
    }

    /// A lane beside the main one.
    #[must_use]
    pub fn lane(&self, lane: LaneId) -> Option<&LaneInfo> {
        self.lanes.get(self.lanes.binary_search_by_key(&lane, |info| info.id).ok()?)
    }

    /// The consumers that were connected before and are not any more, or have connected anew. Costs one look at each channel, and at each
    /// consumer of those that have changed consumers.
    #[must_use]
    pub fn consumers_gone_since(&self, before: &Self) -> Vec<ProxyKey> {
        let mut gone = Vec::new();
        let mut channels = self.channels.iter().peekable();
        for old in &before.channels {
            // Both lists rise by channel id, so they are walked side by side.
            while channels.next_if(|now| now.id < old.id).is_some() {}
            match channels.next_if(|now| now.id == old.id) {
                Some(now) if Arc::ptr_eq(now, old) => {}
                Some(now) => {
                    let changes = now.consumers.changes_from(&old.consumers);
                    let left = changes.filter_map(|(_, last, now)| Some((last?, now))).filter(|(last, now)| {
                        now.is_none_or(|now| (now.key, now.connection) != (last.key, last.connection))
                    });
                    gone.extend(left.map(|(last, _)| last.key));
                }
                None => gone.extend(old.consumers().map(|route| route.key)),
            }
        }
        gone
    }

    /// A channel's routes, as they are shared by the snapshots in which they are the same.
    pub(crate) fn channel_routes(&self, channel: ChannelId) -> Option<&Arc<ChannelRoutes>> {
        self.channels.get(self.index_of(channel)?)
    }

    /// The channels' routes with these new ones, and without those of the channels that are gone.
    pub(crate) fn channels_with(&self, news: &[Arc<ChannelRoutes>], gone: &[ChannelId]) -> Vec<Arc<ChannelRoutes>> {
        let mut channels = self.channels.clone();
        for gone in gone {
            if let Ok(at) = channels.binary_search_by_key(gone, |routes| routes.id) {
                channels.remove(at);
            }
        }
        for routes in news {
            match channels.binary_search_by_key(&routes.id, |routes| routes.id) {
                Ok(at) => {
                    if let Some(place) = channels.get_mut(at) {
                        *place = Arc::clone(routes);
                    }
                }
                Err(at) => channels.insert(at, Arc::clone(routes)),
            }
        }
        channels
    }

    fn index_of(&self, channel: ChannelId) -> Option<usize> {
        self.channels.binary_search_by_key(&channel, |routes| routes.id).ok()
    }
}

/// One channel's part of a [`Snapshot`].
#[derive(Debug)]
pub struct ChannelRoutes {
    pub(crate) id: ChannelId,
    pub(crate) limits: ChannelLimits,
    pub(crate) topics: Arc<Topics>,
    pub(crate) connected_suppliers: u32,
    pub(crate) suppliers: SharedMap<Arc<SupplierRoute>>,
    /// Connected consumers.
    pub(crate) consumers: Members,
    pub(crate) output_forms: Arc<[OutputForm]>,
    pub(crate) filtering: Filtering,
    pub(crate) traits: Traits,
    /// The lanes on which its suppliers' and consumers' places are, by rising id.
    pub(crate) lanes: Arc<[LaneUse]>,
}

/// What some of a channel's consumers have, so that it is not looked for where none has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// An outbox refuses events when it is full.
    pub(crate) any_rejects: bool,
    /// An outbox sorts its events or lets them expire, where neither the event nor its supplier says so.
    pub(crate) any_sorted: bool,
    /// Clients implement filters that count for one.
    pub(crate) any_remote_filters: bool,
}

/// What a lane has of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneUse {
    pub(crate) lane: LaneId,
    /// Whether consumers' outboxes are there.
    pub(crate) has_consumers: bool,
    /// The smallest `MaxEventsPerConsumer` of those at which suppliers are to wait.
    pub(crate) hold_events: Option<NonZeroU32>,
    /// What happens to what waits for that lane when the channel's limits are reached: what all consumers there would
    /// have happen to theirs, else suppliers wait.
    pub(crate) full_outbox: Option<FullOutbox>,
}

impl ChannelRoutes {
    /// The channel.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// The lanes on which its suppliers and connected consumers are served, rising; its memory budget and its
    /// `max_queue_length` are divided evenly among them.
    pub fn lanes(&self) -> impl ExactSizeIterator<Item = LaneId> {
        self.lanes.iter().map(|lane| lane.lane)
    }

    /// What it is limited to.
    #[must_use]
    pub fn limits(&self) -> &ChannelLimits {
        &self.limits
    }

    /// What its events may claim of their lanes.
    #[must_use]
    pub fn topics(&self) -> &Arc<Topics> {
        &self.topics
    }

    /// The suppliers' proxies, unconnected ones included, in no particular order.
    pub fn suppliers(&self) -> impl Iterator<Item = (ProxyId, &SupplierRoute)> {
        self.suppliers.iter().map(|(proxy, route)| (proxy, route.as_ref()))
    }

    /// The suppliers' proxies of which something else is said than before, each with what is said now; nothing of one that
    /// is gone. Costs as much as there are changes, and pieces of the list.
    #[must_use]
    pub fn suppliers_changed_from(&self, before: &Self) -> Vec<(ProxyId, Option<&SupplierRoute>)> {
        let changes = self.suppliers.changes_from(&before.suppliers).into_iter();
        changes.map(|(proxy, route)| (proxy, route.map(Arc::as_ref))).collect()
    }

    /// The connected consumers, suspended ones included. Each keeps its place in this order while it is connected; a new one takes the
    /// first that is free.
    pub fn consumers(&self) -> impl Iterator<Item = &ConsumerRoute> {
        self.consumers.iter().map(|(_, route)| route.as_ref())
    }

    /// How many consumers are connected.
    #[must_use]
    pub fn connected_consumers(&self) -> usize {
        self.consumers.len()
    }

    /// The consumer that is connected to a proxy.
    #[must_use]
    pub fn consumer(&self, proxy: ProxyId) -> Option<&ConsumerRoute> {
        self.consumers.get(self.consumers.place_of(proxy)?).map(Arc::as_ref)
    }

    /// What the connected consumers want events translated to: each want once, rising.
    #[must_use]
    pub fn output_forms(&self) -> &[OutputForm] {
        &self.output_forms
    }
}

/// A supplier in a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupplierRoute {
    /// The form of its events.
    pub form: Form,
    /// The connected client, where the protocol gave a handle.
    pub peer: Option<Peer>,
    /// Whether it is connected. Events of one that is not are refused.
    pub state: ProxyState,
    /// The admin that the proxy belongs to.
    pub admin: AdminId,
    /// Its effective settings.
    pub settings: SupplierSettings,
    /// Whether it is asked for its events. It pushes them otherwise.
    pub pull: bool,
    /// Whether it gives several events at a time.
    pub batches: bool,
    /// The filters that clients implement: the proxy's, and its admin's. One of a group that says yes is enough for it.
    pub remote_filters: [Arc<[Peer]>; 2],
    /// Where its events are admitted, by their priority.
    pub places: Arc<[Place]>,
    /// How the priority of its events chooses, and the priority that its pool declares; `None` if it has no pool.
    pub priority_model: Option<(PriorityModel, i16)>,
    /// Where what is heard of it is noted.
    pub activity: Activity,
    /// Both groups of filters; `None` if there are none.
    pub(crate) groups: Option<Arc<SupplierGroups>>,
}

impl SupplierRoute {
    /// The lane that admits its events of this priority: the `thread_priority` if there is one, else the one its header
    /// says, else that of `settings`.
    #[must_use]
    pub fn lane_for(&self, priority: i16) -> LaneId {
        Place::lane_for(&self.places, priority)
    }
}

/// Which remote filters must be asked whether an event passes: those of the groups named, in
/// [`ConsumerRoute::remote_filters`] or [`SupplierRoute::remote_filters`]. A group says yes if one of its filters does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteFilterGroups {
    /// The proxy's are to be asked.
    pub proxy: bool,
    /// The admin's are to be asked.
    pub admin: bool,
    /// Both groups named must say yes; otherwise one suffices.
    pub all: bool,
}

/// A connected consumer in a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRoute {
    /// Its proxy.
    pub key: ProxyKey,
    /// The admin that the proxy belongs to.
    pub admin: AdminId,
    /// The connected client. A pull consumer need not have one.
    pub peer: Option<Peer>,
    /// Which of the proxy's successive connections this is; tells a new consumer from the one before it.
    pub connection: u64,
    /// Where in its channel's history it began, if it asked for that.
    pub start: Option<StartFrom>,
    /// Whether it was connected before, and begins there only if that is yet to come.
    pub resumes: bool,
    /// The form in which it takes events.
    pub form: Form,
    /// What its protocol needs events translated to.
    pub output_form: OutputForm,
    /// The effective settings of its outbox; the same for all of an admin's consumers that say nothing themselves.
    pub settings: Arc<OutboxSettings>,
    /// Whether it is suspended: its events are kept and not delivered.
    pub suspended: bool,
    /// Whether it [is durable](crate::Hierarchy::make_durable).
    pub durable: bool,
    /// Which events it wants.
    pub interest: Interest,
    /// Whether it asks for its events. They are delivered to it otherwise.
    pub pull: bool,
    /// Where what is heard of it is noted, if it does.
    pub activity: Option<Activity>,
    /// Its principal, if the publisher of the routing has given one.
    pub owner: Option<Owner>,
    /// The client address that is charged for what suppliers wait for it.
    pub client_address: Option<ClientAddress>,
    /// Whether it takes several events at a time.
    pub batches: bool,
    /// The filters that clients implement: the proxy's, and its admin's. One of a group that says yes is enough for it.
    pub remote_filters: [Arc<[Peer]>; 2],
    /// Where its outboxes are, by the priority that an event has for it.
    pub places: Arc<[Place]>,
    /// How an event's priority chooses, and the priority that its pool declares; `None` if it has no pool.
    pub priority_model: Option<(PriorityModel, i16)>,
    /// The slots of the proxy's filters that were made here.
    pub(crate) filters: Arc<[u32]>,
    /// The admin's place among those that have filters that were made here.
    pub(crate) filtered_admin: Option<u32>,
    /// The slots of the filters that map priority and lifetime for it.
    pub(crate) mappings: [Option<u32>; 2],
}
