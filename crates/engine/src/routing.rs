//! The routing snapshot: everything the event path must know of the hierarchy, immutable and shared.
//!
//! Each channel's part is its own `Arc`. A new snapshot shares the parts of all unchanged channels, so that a lane
//! finds the changed ones by comparing pointers.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use filter::correlation::Correlation;

use crate::members::Members;
use crate::shared::SharedMap;
use crate::table::{Filtering, SupplierGroups};
use crate::{
    Activity, AdminId, ChannelId, ChannelLimits, ChannelTimer, ClientAddress, Form, FullOutbox, Interest, LaneId,
    LaneInfo, OutboxSettings, OutputForm, Owner, Peer, Place, PriorityModel, ProxyId, ProxyKey, ProxyState, StartFrom,
    SupplierSettings, Topics,
};

/// Suppliers and consumers of all channels at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Version, incremented with each change of the hierarchy; 0 is the empty snapshot that a lane begins with.
    pub version: u64,
    /// Channels, by rising id.
    pub(crate) channels: Vec<Arc<ChannelRoutes>>,
    /// Lanes but the main one, by rising id.
    pub(crate) lanes: Arc<[LaneInfo]>,
}

/// Parts of a discarded snapshot that have no other holder: possibly very many routes, released a chunk at a time.
#[derive(Debug)]
pub struct Remains {
    channels: Vec<ChannelRoutes>,
}

impl Snapshot {
    /// Takes the parts without another holder, to be released step by step.
    #[must_use]
    pub fn into_remains(self) -> Remains {
        Remains { channels: self.channels.into_iter().filter_map(Arc::into_inner).collect() }
    }
}

impl Remains {
    /// Chunks, of 64 routes each, released per call; chunks with other holders do not count.
    const CHUNKS: usize = 16;

    /// Releases some of the chunks. Returns whether any are left.
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
    /// Whether the consumer's mapping filter for priority may decide an event's lane.
    pub(crate) fn maps_lane(&self) -> bool {
        let [priority, _] = self.mappings;
        priority.is_some() && self.places.len() > 1
    }

    /// Whether the consumer's interest, or the lanes that serve it, may differ from those in an earlier route of the same place.
    pub(crate) fn differs_in_interest_from(&self, other: &Self) -> bool {
        (self.key, self.connection) != (other.key, other.connection)
            || self.interest != other.interest
            || self.filters != other.filters
            || self.filtered_admin != other.filtered_admin
            || self.remote_filters != other.remote_filters
            || self.places != other.places
            || self.mappings != other.mappings
    }

    /// Whether all events of the consumer go to one lane, and it is this one.
    pub(crate) fn is_only_on(&self, lane: LaneId) -> bool {
        self.places.iter().all(|place| place.lane == lane)
    }

    /// Whether remote filters apply to the consumer.
    pub(crate) fn has_remote_filters(&self) -> bool {
        self.remote_filters.iter().any(|peers| !peers.is_empty())
    }
}

impl Snapshot {
    /// The supplier of a proxy, connected or not; `None` if there is no such proxy on the suppliers' side.
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

    /// Consumers that were connected in `before` and since have disconnected or reconnected. Cost: one comparison per
    /// channel, and one per consumer of each channel whose consumers changed.
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

    /// A channel's routes, shared by all snapshots in which they are unchanged.
    pub(crate) fn channel_routes(&self, channel: ChannelId) -> Option<&Arc<ChannelRoutes>> {
        self.channels.get(self.index_of(channel)?)
    }

    /// All channels' routes, with `news` put in and the channels `gone` removed.
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
    pub(crate) timers: Arc<[Arc<ChannelTimer>]>,
    pub(crate) connected_suppliers: u32,
    pub(crate) suppliers: SharedMap<Arc<SupplierRoute>>,
    /// Connected consumers.
    pub(crate) consumers: Members,
    pub(crate) output_forms: Arc<[OutputForm]>,
    pub(crate) filtering: Filtering,
    pub(crate) traits: Traits,
    /// Lanes that serve suppliers or consumers of the channel, by rising id.
    pub(crate) lanes: Arc<[LaneUse]>,
}

/// Traits that some consumers of the channel have, so that a lane need not search where none has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Whether an outbox refuses events when it is full.
    pub(crate) any_rejects: bool,
    /// Whether an outbox sorts its events or lets them expire, where neither the event nor its supplier says so.
    pub(crate) any_sorted: bool,
    /// Whether remote filters apply to a consumer.
    pub(crate) any_remote_filters: bool,
}

/// Use of one lane by a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneUse {
    pub(crate) lane: LaneId,
    /// Whether the lane has consumers' outboxes of the channel.
    pub(crate) has_consumers: bool,
    /// The smallest `MaxEventsPerConsumer` among the lane's consumers that block suppliers there.
    pub(crate) hold_events: Option<NonZeroU32>,
    /// What happens to events that wait for that lane at the channel's limits: the `FullOutbox` that all its consumers
    /// agree on, else suppliers are blocked.
    pub(crate) full_outbox: Option<FullOutbox>,
}

impl ChannelRoutes {
    /// The channel's id.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// Lanes that serve the channel's suppliers and connected consumers, by rising id; its memory budget and its
    /// `max_queue_length` are divided evenly among them.
    pub fn lanes(&self) -> impl ExactSizeIterator<Item = LaneId> {
        self.lanes.iter().map(|lane| lane.lane)
    }

    /// The channel's limits.
    #[must_use]
    pub fn limits(&self) -> &ChannelLimits {
        &self.limits
    }

    /// The channel's topics, with their shares of the lanes.
    #[must_use]
    pub fn topics(&self) -> &Arc<Topics> {
        &self.topics
    }

    /// The channel's timers, in the order in which they were declared.
    #[must_use]
    pub fn timers(&self) -> &[Arc<ChannelTimer>] {
        &self.timers
    }

    /// The suppliers' proxies, unconnected ones included, in no particular order.
    pub fn suppliers(&self) -> impl Iterator<Item = (ProxyId, &SupplierRoute)> {
        self.suppliers.iter().map(|(proxy, route)| (proxy, route.as_ref()))
    }

    /// Suppliers' proxies that differ from `before`, each with its new route, or `None` if it is gone. Cost:
    /// proportional to the changes and to the chunks of the list.
    #[must_use]
    pub fn suppliers_changed_from(&self, before: &Self) -> Vec<(ProxyId, Option<&SupplierRoute>)> {
        let changes = self.suppliers.changes_from(&before.suppliers).into_iter();
        changes.map(|(proxy, route)| (proxy, route.map(Arc::as_ref))).collect()
    }

    /// The connected consumers, suspended ones included. Each has a fixed place in this order while it is connected; a
    /// new one takes the first free place.
    pub fn consumers(&self) -> impl Iterator<Item = &ConsumerRoute> {
        self.consumers.iter().map(|(_, route)| route.as_ref())
    }

    /// Number of connected consumers.
    #[must_use]
    pub fn connected_consumers(&self) -> usize {
        self.consumers.len()
    }

    /// The consumer connected to a proxy.
    #[must_use]
    pub fn consumer(&self, proxy: ProxyId) -> Option<&ConsumerRoute> {
        self.consumers.get(self.consumers.place_of(proxy)?).map(Arc::as_ref)
    }

    /// Output forms of the connected consumers: each once, rising.
    #[must_use]
    pub fn output_forms(&self) -> &[OutputForm] {
        &self.output_forms
    }
}

/// Route of a supplier in a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupplierRoute {
    /// Form of the supplier's events.
    pub form: Form,
    /// The connected client, where the protocol gave a handle.
    pub peer: Option<Peer>,
    /// Whether the supplier is connected. Events of an unconnected one are refused.
    pub state: ProxyState,
    /// The admin that the proxy belongs to.
    pub admin: AdminId,
    /// The supplier's effective settings.
    pub settings: SupplierSettings,
    /// Whether the service pulls events from the supplier. Otherwise the supplier pushes them.
    pub pull: bool,
    /// Whether the supplier sends several events at a time.
    pub batches: bool,
    /// Remote filters: those of the proxy, and those of its admin. One that matches is enough for its group.
    pub remote_filters: [Arc<[Peer]>; 2],
    /// Lanes that admit the supplier's events, by the events' priority.
    pub places: Arc<[Place]>,
    /// The pool's priority model, and the priority it declares; `None` if the supplier has no pool.
    pub priority_model: Option<(PriorityModel, i16)>,
    /// The supplier's last activity.
    pub activity: Activity,
    /// Both groups of local and remote filters; `None` if there are none.
    pub(crate) groups: Option<Arc<SupplierGroups>>,
}

impl SupplierRoute {
    /// The lane that admits the supplier's events of this priority: that of the event's `thread_priority`, else of its
    /// header, else of `settings`.
    #[must_use]
    pub fn lane_for(&self, priority: i16) -> LaneId {
        Place::lane_for(&self.places, priority)
    }
}

/// Groups of remote filters to call for an event, of those in [`ConsumerRoute::remote_filters`] or
/// [`SupplierRoute::remote_filters`]. A group matches if one of its filters does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteFilterGroups {
    /// Whether to call the proxy's filters.
    pub proxy: bool,
    /// Whether to call the admin's filters.
    pub admin: bool,
    /// Whether both groups named must match; otherwise one suffices.
    pub all: bool,
}

/// Route of a connected consumer in a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRoute {
    /// The consumer's proxy.
    pub key: ProxyKey,
    /// The admin that the proxy belongs to.
    pub admin: AdminId,
    /// The connected client. A pull consumer may have none.
    pub peer: Option<Peer>,
    /// Serial number of the proxy's connection; tells a new consumer from the one before it.
    pub connection: u64,
    /// Position in the channel's history at which the consumer began, if it chose one.
    pub start: Option<StartFrom>,
    /// Whether the consumer was connected before, so that `start` counts only if it is still ahead.
    pub resumes: bool,
    /// Form of the events that the consumer takes.
    pub form: Form,
    /// Form that the consumer's protocol needs events translated to.
    pub output_form: OutputForm,
    /// The outbox's effective settings, shared by all consumers of an admin that set none themselves.
    pub settings: Arc<OutboxSettings>,
    /// Whether the consumer is suspended: its events wait and are not delivered.
    pub suspended: bool,
    /// Whether the consumer [is durable](crate::Hierarchy::make_durable).
    pub durable: bool,
    /// The consumer's subscription.
    pub interest: Interest,
    /// Whether the consumer pulls its events. Otherwise they are pushed.
    pub pull: bool,
    /// The consumer's last activity, if it calls.
    pub activity: Option<Activity>,
    /// The consumer's principal, if the publisher of the routing has set one.
    pub owner: Option<Owner>,
    /// Client address that is charged for the time suppliers wait for the consumer.
    pub client_address: Option<ClientAddress>,
    /// Whether the consumer takes several events at a time.
    pub batches: bool,
    /// Remote filters: those of the proxy, and those of its admin. One that matches is enough for its group.
    pub remote_filters: [Arc<[Peer]>; 2],
    /// Lanes with the consumer's outboxes, by the priority that an event has for it.
    pub places: Arc<[Place]>,
    /// The pool's priority model, and the priority it declares; `None` if the consumer has no pool.
    pub priority_model: Option<(PriorityModel, i16)>,
    /// The consumer's correlation, if it has one.
    pub correlation: Option<Arc<Correlation>>,
    /// Slots of the proxy's local filters.
    pub(crate) filters: Arc<[u32]>,
    /// Place of the admin among those with local filters.
    pub(crate) filtered_admin: Option<u32>,
    /// Slots of the consumer's mapping filters, for priority and for lifetime.
    pub(crate) mappings: [Option<u32>; 2],
}
