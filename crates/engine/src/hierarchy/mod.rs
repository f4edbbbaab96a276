//! The hierarchy: factory → channel → admin → proxy, with settings and subscriptions at each level.
//!
//! The administration thread owns it. Every command either is refused and changes nothing, or is executed whole;
//! [`Hierarchy::snapshot`] then returns what the event path must know of it.

mod banks;
mod channel;
mod compile;
mod filters;
mod leaving;
mod numbers;
mod offers;
mod parts;
mod pools;
mod routes;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use channel::{Admin, Channel, Proxy, ProxyState};
pub use filters::{Attached, FilterConstraint, FilterRef, FilterTarget, Mapping};
pub use leaving::Removal;
pub use numbers::Numbered;
pub use parts::HierarchyPart;

use core::ops::Bound;

use filter::correlation::Correlation;

use crate::{
    AdminId, ChannelId, ChannelLimits, ChannelRoutes, ClientAddress, EventType, Form, Operator, OutboxSettings,
    OutputForm, Owner, Peer, Permitted, ProxyId, ProxyKey, ProxyKind, Refusal, SettingsPatch, Side, Snapshot,
    SupplierSettings, TIMERS_MAX, TimerSettings, Topics,
};
use filters::Filters;
use leaving::Leaving;
use parts::Parts;
use pools::Pools;

/// Limits of a [`Hierarchy`]. A request beyond one is refused with the limit's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HierarchyLimits {
    /// Most channels. Default 4,096.
    pub channels_max: u32,
    /// Most admins in a channel, both sides and the two default ones together. Default 4,096.
    pub admins_max: u32,
    /// Most proxies in a channel, both sides together. Default 65,536.
    pub proxies_max: u32,
    /// Most event types in one subscription. Default 1,024.
    pub event_types_max: u32,
    /// Most threads in all pools together, without the main lane's. Default 64.
    pub lane_threads_max: u32,
    /// Highest `filter_steps_max` of a channel, 1 to 100,000,000. Default 1,000,000: at 4 to 16 ns a step, one event
    /// then occupies a lane for 4 to 16 ms.
    pub filter_steps_max: u32,
    /// Highest `constraint_bytes_max` of a channel, 1 to 1,048,576, which is the default.
    pub constraint_bytes_max: u32,
    /// Whether, under an admin with [`Operator::Or`], an admin or a proxy without filters lets everything pass as with
    /// TAO, whatever the filters of the other; else a level without filters is ignored. Default false.
    pub or_passes_without_filters: bool,
    /// Whether lists of event types are changed, and reported to clients, by TAO's rule: everything is never listed beside other
    /// types, so that either replaces the other; a type both added and removed stays as it is. Default false.
    pub tao_event_types: bool,
}

impl Default for HierarchyLimits {
    fn default() -> Self {
        Self {
            channels_max: 4_096,
            admins_max: 4_096,
            proxies_max: 65_536,
            event_types_max: 1_024,
            lane_threads_max: 64,
            filter_steps_max: 1_000_000,
            constraint_bytes_max: 1 << 20,
            or_passes_without_filters: false,
            tao_event_types: false,
        }
    }
}

/// Proxies processed per snapshot, divided evenly among the changed channels; at least `CHUNK_MIN` of each.
const CHUNK: usize = 1_024;
const CHUNK_MIN: usize = 16;

/// A proxy that a command destroyed, so that the protocol can notify its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The proxy.
    pub key: ProxyKey,
    /// Its side.
    pub side: Side,
    /// The admin it belonged to.
    pub admin: AdminId,
    /// The form of its events.
    pub form: Form,
    /// The client that was connected.
    pub peer: Option<Peer>,
}

/// The admin or proxy that [`Hierarchy::subscribe`] changes the subscription of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionTarget {
    /// An admin.
    Admin {
        /// The channel.
        channel: ChannelId,
        /// The admin's side.
        side: Side,
        /// The admin.
        admin: AdminId,
    },
    /// A proxy.
    Proxy(ProxyKey),
}

/// All channels with their admins and proxies.
#[derive(Debug, Default)]
pub struct Hierarchy {
    limits: HierarchyLimits,
    channels: BTreeMap<ChannelId, Channel>,
    filters: Filters,
    pools: Pools,
    next_channel: u32,
    next_connection: u64,
    /// Destroyed objects that are still to be removed, in the order in which they were destroyed.
    leaving: VecDeque<Leaving>,
    /// Channels that commands may have changed since the last `take_touched`.
    touched: BTreeSet<ChannelId>,
    /// Channels with routes that may be out of date, and those destroyed since the last snapshot.
    changed: BTreeSet<ChannelId>,
    gone: Vec<ChannelId>,
    parts: Parts,
    /// Whether the last snapshot left changes for the next.
    unfinished: bool,
    /// Whether the next snapshot is a new one even without changes.
    renewed: bool,
    snapshot: Arc<Snapshot>,
}

impl Hierarchy {
    /// An empty hierarchy.
    #[must_use]
    pub fn new(limits: HierarchyLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    // ---- channels ----

    /// Creates a channel with its two default admins.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadSetting`], [`Refusal::PoolNotFound`], [`Refusal::TooManyChannels`], [`Refusal::IdsExhausted`].
    pub fn create_channel(&mut self, patch: SettingsPatch, limits: ChannelLimits) -> Result<ChannelId, Refusal> {
        patch.check()?;
        self.pools.check(&patch)?;
        limits.check()?;
        let limit = self.limits.channels_max;
        if self.channels.len() >= limit as usize {
            return Err(Refusal::TooManyChannels { limit });
        }
        let id = ChannelId(self.next_channel);
        self.next_channel = self.next_channel.checked_add(1).ok_or(Refusal::IdsExhausted)?;
        let or_passes = self.limits.or_passes_without_filters;
        self.channels.insert(id, Channel::new(id, patch, limits, or_passes));
        self.pools.note_change(None, patch.pool);
        self.changed.insert(id);
        self.parts.note(HierarchyPart::Numbers);
        self.parts.note(HierarchyPart::Channel(id));
        for side in [Side::Consumers, Side::Suppliers] {
            self.parts.note(HierarchyPart::Admin(id, side, AdminId::DEFAULT));
        }
        Ok(id)
    }

    /// Sets how the default admin of a channel's side combines with its proxies; to be called before these are
    /// created.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`].
    pub fn set_default_operator(&mut self, channel: ChannelId, side: Side, operator: Operator) -> Result<(), Refusal> {
        let found = self.channel_mut(channel)?;
        found.admins.get_mut(&(side, AdminId::DEFAULT)).into_iter().for_each(|admin| admin.operator = operator);
        self.parts.note(HierarchyPart::Admin(channel, side, AdminId::DEFAULT));
        Ok(())
    }

    /// Destroys a channel and everything in it: requests no longer find it, and [`poll_removed`](Self::poll_removed)
    /// removes its parts.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`].
    pub fn destroy_channel(&mut self, channel: ChannelId) -> Result<(), Refusal> {
        let gone = self.channels.remove(&channel).ok_or(Refusal::ChannelNotFound { channel })?;
        self.gone.push(channel);
        self.touched.remove(&channel);
        self.parts.note(HierarchyPart::Channel(channel));
        self.pools.note_change(gone.patch().pool, None);
        self.leaving.push_back(Leaving::Channel(Box::new(gone)));
        Ok(())
    }

    /// All channels, by rising id.
    pub fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.channels.values()
    }

    /// A channel.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`].
    pub fn channel(&self, channel: ChannelId) -> Result<&Channel, Refusal> {
        self.channels.get(&channel).ok_or(Refusal::ChannelNotFound { channel })
    }

    // ---- admins ----

    /// Creates a further admin on one side of a channel.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::TooManyAdmins`], [`Refusal::IdsExhausted`].
    pub fn create_admin(&mut self, channel: ChannelId, side: Side, operator: Operator) -> Result<AdminId, Refusal> {
        let limit = self.limits.admins_max;
        let admin = self.channel_mut(channel)?.create_admin(side, operator, limit)?;
        self.parts.note(HierarchyPart::Channel(channel));
        self.parts.note(HierarchyPart::Admin(channel, side, admin));
        Ok(admin)
    }

    /// The admins on one side of a channel by rising id, the default one first.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`].
    pub fn admins(&self, channel: ChannelId, side: Side) -> Result<impl Iterator<Item = &Admin>, Refusal> {
        Ok(self.channel(channel)?.admins.values().filter(move |admin| admin.side == side))
    }

    /// An admin.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::AdminNotFound`].
    pub fn admin(&self, channel: ChannelId, side: Side, admin: AdminId) -> Result<&Admin, Refusal> {
        self.channel(channel)?.admin(side, admin)
    }

    /// Destroys an admin with its proxies: requests no longer find them, and [`poll_removed`](Self::poll_removed)
    /// removes them one by one; until then events may be delivered to them.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::AdminNotFound`]; [`Refusal::DefaultAdmin`] for a default one.
    pub fn destroy_admin(&mut self, channel: ChannelId, side: Side, admin: AdminId) -> Result<(), Refusal> {
        let admin = self.channel_mut(channel)?.doom_admin(side, admin)?;
        self.parts.note(HierarchyPart::Admin(channel, side, admin.id));
        self.leaving.push_back(Leaving::Admin(channel, Box::new(admin)));
        Ok(())
    }

    // ---- proxies ----

    /// Creates an unconnected proxy for events of `form`.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::AdminNotFound`], [`Refusal::AdminLimit`], [`Refusal::TooManyProxies`],
    /// [`Refusal::IdsExhausted`].
    pub fn create_proxy(
        &mut self,
        channel: ChannelId,
        side: Side,
        admin: AdminId,
        form: Form,
        kind: ProxyKind,
    ) -> Result<ProxyId, Refusal> {
        self.create_proxy_in_place_of(0, (channel, side, admin), form, kind)
    }

    /// Like [`create_proxy`](Self::create_proxy), but `leaving` connected proxies of the same channel and side do not
    /// count for `MaxConsumers` and `MaxSuppliers`: the caller may destroy them when the new one is connected.
    ///
    /// # Errors
    ///
    /// Those of [`Hierarchy::create_proxy`].
    pub fn create_proxy_in_place_of(
        &mut self,
        leaving: u32,
        (channel, side, admin): (ChannelId, Side, AdminId),
        form: Form,
        kind: ProxyKind,
    ) -> Result<ProxyId, Refusal> {
        let limit = self.limits.proxies_max;
        let proxy = self.channel_mut(channel)?.create_proxy(leaving, (side, admin), form, kind, limit)?;
        self.parts.note(HierarchyPart::Channel(channel));
        self.parts.note(HierarchyPart::Proxy(ProxyKey { channel, proxy }));
        Ok(proxy)
    }

    /// The proxies of an admin by rising id.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::AdminNotFound`].
    pub fn proxies(
        &self,
        channel: ChannelId,
        side: Side,
        admin: AdminId,
    ) -> Result<impl Iterator<Item = &Proxy>, Refusal> {
        let owner = self.channel(channel)?;
        let members = owner.admin(side, admin)?.members.iter();
        Ok(members.filter_map(|proxy| owner.proxy(*proxy).ok()))
    }

    /// At most `most` proxies of a channel, or of one of its admins, by rising id, after the proxy `behind` if given.
    pub fn some_proxies(
        &self,
        channel: ChannelId,
        admin: Option<(Side, AdminId)>,
        behind: Option<ProxyId>,
        most: usize,
    ) -> Vec<&Proxy> {
        let Some(owner) = self.channels.get(&channel) else { return Vec::new() };
        let range = (behind.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        match admin {
            None => owner.proxies.range(range).map(|(_, proxy)| &**proxy).take(most).collect(),
            Some(key) => {
                let members = owner.admins.get(&key).into_iter().flat_map(|admin| admin.members.range(range));
                members.take(most).filter_map(|proxy| owner.proxy(*proxy).ok()).collect()
            }
        }
    }

    /// A proxy.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`].
    pub fn proxy(&self, key: ProxyKey) -> Result<&Proxy, Refusal> {
        self.channel(key.channel)?.proxy(key.proxy)
    }

    /// Destroys a proxy. A consumer's backlog is dropped.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`].
    pub fn destroy_proxy(&mut self, key: ProxyKey) -> Result<Removed, Refusal> {
        let gone = self.channel_mut(key.channel)?.destroy_proxy(key.proxy)?;
        self.parts.note(HierarchyPart::Proxy(key));
        self.filters.forget_all(&gone.attached, FilterTarget::Proxy(key));
        self.pools.note_change(gone.patch.pool, None);
        Ok(removed(key.channel, &gone))
    }

    // ---- connections ----

    /// Connects a client, known as `peer`. A supplier may have no peer, and so may a pull consumer. A push consumer
    /// without a peer gets no deliveries, and no events wait for it unless [it is durable](Self::make_durable).
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::AlreadyConnected`],
    /// [`Refusal::AdminLimit`].
    pub fn connect(&mut self, key: ProxyKey, peer: Option<Peer>, output_form: OutputForm) -> Result<(), Refusal> {
        self.connect_in_place_of(0, key, peer, output_form)
    }

    /// Like [`connect`](Self::connect), but `leaving` connected proxies of the same channel and side do not count for
    /// `MaxConsumers` and `MaxSuppliers`: the caller destroys them right after.
    ///
    /// # Errors
    ///
    /// Those of [`Hierarchy::connect`].
    pub fn connect_in_place_of(
        &mut self,
        leaving: u32,
        key: ProxyKey,
        peer: Option<Peer>,
        output_form: OutputForm,
    ) -> Result<(), Refusal> {
        let connection = self.next_connection;
        self.changed_proxy(key)?.connect(leaving, key.proxy, peer, output_form, connection)?;
        self.next_connection += 1;
        Ok(())
    }

    /// Replaces the client of a connected proxy by another. A consumer's backlog stays, for the new client.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`].
    pub fn reconnect(&mut self, key: ProxyKey, peer: Option<Peer>, output_form: OutputForm) -> Result<(), Refusal> {
        self.changed_proxy(key)?.reconnect(key.proxy, peer, output_form)
    }

    /// Makes the connected consumer durable: its events wait while its client [is away](Self::leave), and unanswered
    /// ones are delivered again when the client changes. It never blocks suppliers, and its own
    /// [`FullOutbox::Reject`](crate::FullOutbox::Reject) is granted; events that other lanes have taken already are
    /// discarded instead.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`].
    pub fn make_durable(&mut self, key: ProxyKey) -> Result<(), Refusal> {
        self.changed_proxy(key)?.make_durable(key.proxy)
    }

    /// Notes that the client of a durable consumer has gone. New events wait for its return.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`] of a consumer that is not durable.
    pub fn leave(&mut self, key: ProxyKey) -> Result<(), Refusal> {
        self.channel_mut(key.channel)?.leave(key.proxy)
    }

    /// Connects a client to a durable consumer again.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyConnected`] if it has one, and those of [`leave`](Self::leave).
    pub fn rejoin(&mut self, key: ProxyKey, peer: Peer, output_form: OutputForm) -> Result<(), Refusal> {
        self.changed_proxy(key)?.rejoin(key.proxy, peer, output_form)
    }

    /// Begins a newly connected consumer where its [`OutboxSettings::start_from`] says. If it was connected before, by
    /// another process perhaps, it continues with new events, unless that position is still ahead: `resumed_at` is the
    /// current time then, in 100 ns since 15 October 1582.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`].
    pub fn note_start(&mut self, key: ProxyKey, resumed_at: Option<u64>) -> Result<(), Refusal> {
        self.changed_proxy(key)?.note_start(key.proxy, resumed_at)
    }

    /// Sets the permitted event types, the principal and the address of the connected consumer, until it is
    /// disconnected. All consumers of one client address share one `hold_budget` on each lane; one of unknown address
    /// has its own.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`].
    pub fn permit(
        &mut self,
        key: ProxyKey,
        permitted: Option<Arc<Permitted>>,
        owner: Option<Owner>,
        client_address: Option<ClientAddress>,
    ) -> Result<(), Refusal> {
        self.changed_proxy(key)?.permit(key.proxy, permitted, owner, client_address)
    }

    /// Notes that the connected consumer processes deliveries in order, so that several may be unanswered at once: it
    /// gets [`OutboxSettings::PUSH_WINDOW_IN_ORDER`] where no level sets a window. Valid until it is disconnected.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`].
    pub fn note_in_order(&mut self, key: ProxyKey) -> Result<(), Refusal> {
        self.channel_mut(key.channel)?.note_in_order(key.proxy)
    }

    /// Disconnects and returns the peer; the proxy stays, and can be connected again. A consumer's backlog is dropped.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`].
    pub fn disconnect(&mut self, key: ProxyKey) -> Result<Option<Peer>, Refusal> {
        self.changed_proxy(key)?.disconnect(key.proxy)
    }

    /// Suspends a connection: a consumer's events wait and are not delivered.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`],
    /// [`Refusal::AlreadyInactive`].
    pub fn suspend(&mut self, key: ProxyKey) -> Result<(), Refusal> {
        self.changed_proxy(key)?.suspend(key.proxy)
    }

    /// Resumes a suspended connection.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`],
    /// [`Refusal::AlreadyActive`].
    pub fn resume(&mut self, key: ProxyKey) -> Result<(), Refusal> {
        self.changed_proxy(key)?.resume(key.proxy)
    }

    // ---- settings and subscriptions ----

    /// Replaces the settings that a channel sets for its outboxes.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::BadSetting`], [`Refusal::PoolNotFound`], [`Refusal::PoolInUse`].
    pub fn set_channel_settings(&mut self, channel: ChannelId, patch: SettingsPatch) -> Result<(), Refusal> {
        patch.check()?;
        let found = self.channel(channel)?;
        let old = found.patch().pool;
        self.check_pool(found, (old, &patch), |_| true)?;
        self.changed_channel(channel)?.set_patch(patch);
        self.pools.note_change(old, patch.pool);
        Ok(())
    }

    /// Replaces the settings that an admin sets for its proxies.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::AdminNotFound`], [`Refusal::BadSetting`], [`Refusal::PoolNotFound`],
    /// [`Refusal::PoolInUse`].
    pub fn set_admin_settings(
        &mut self,
        channel: ChannelId,
        side: Side,
        admin: AdminId,
        patch: SettingsPatch,
    ) -> Result<(), Refusal> {
        patch.check()?;
        let found = self.channel(channel)?;
        let old = found.admin(side, admin)?.patch.pool;
        self.check_pool(found, (old, &patch), |proxy| proxy.side == side && proxy.admin == admin)?;
        self.channel_mut(channel)?.admin_mut(side, admin)?.patch = patch;
        self.parts.note(HierarchyPart::Admin(channel, side, admin));
        self.pools.note_change(old, patch.pool);
        Ok(())
    }

    /// Replaces the settings that a proxy sets for itself.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::BadSetting`], [`Refusal::PoolNotFound`],
    /// [`Refusal::PoolInUse`].
    pub fn set_proxy_settings(&mut self, key: ProxyKey, patch: SettingsPatch) -> Result<(), Refusal> {
        patch.check()?;
        let found = self.channel(key.channel)?;
        let old = found.proxy(key.proxy)?.patch.pool;
        self.check_pool(found, (old, &patch), |proxy| proxy.id == key.proxy)?;
        self.changed_proxy(key)?.proxy_mut(key.proxy)?.patch = Arc::new(patch);
        self.pools.note_change(old, patch.pool);
        Ok(())
    }

    /// Replaces the correlation of a consumer: what passes its subscription and its filters is delivered as complete sets only. Events
    /// that wait for others under the former one are dropped. It counts while the consumer is connected and not
    /// [durable](Self::make_durable), from the next event on, and apart for each lane that the consumer has outboxes on.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`].
    pub fn set_correlation(&mut self, key: ProxyKey, correlation: Option<Arc<Correlation>>) -> Result<(), Refusal> {
        self.changed_proxy(key)?.proxy_mut(key.proxy)?.correlation = correlation;
        Ok(())
    }

    /// Effective settings of a proxy's outbox.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`].
    pub fn effective(&self, key: ProxyKey) -> Result<OutboxSettings, Refusal> {
        let channel = self.channel(key.channel)?;
        Ok(channel.effective(channel.proxy(key.proxy)?))
    }

    /// Effective settings of a supplier's proxy.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`].
    pub fn effective_supplier(&self, key: ProxyKey) -> Result<SupplierSettings, Refusal> {
        let channel = self.channel(key.channel)?;
        Ok(channel.effective_supplier(channel.proxy(key.proxy)?))
    }

    /// Replaces a channel's limits. Consumers and suppliers above a lowered limit stay.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::BadSetting`].
    pub fn set_limits(&mut self, channel: ChannelId, limits: ChannelLimits) -> Result<(), Refusal> {
        limits.check()?;
        self.changed_channel(channel)?.set_limits(limits);
        Ok(())
    }

    /// Replaces a channel's topics, with their shares of the lanes.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::BadSetting`].
    pub fn set_topics(&mut self, channel: ChannelId, topics: Topics) -> Result<(), Refusal> {
        topics.check()?;
        self.changed_channel(channel)?.set_topics(topics);
        Ok(())
    }

    /// Replaces a channel's timers, [`TIMERS_MAX`] at most. Those with the settings of an earlier one go on; the others
    /// begin anew.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::BadSetting`].
    pub fn set_timers(&mut self, channel: ChannelId, timers: Vec<TimerSettings>) -> Result<(), Refusal> {
        if timers.len() > TIMERS_MAX {
            return Err(Refusal::BadSetting { setting: "timers", range: "64 at most in a channel" });
        }
        self.channel_mut(channel)?.set_timers(timers);
        Ok(())
    }

    /// Changes a subscription (on the suppliers' side: an offer) by removing and adding types. The initial everything
    /// is replaced by the first types added; removing everything, in any spelling, empties the list before `added` is
    /// put in. With [`HierarchyLimits::tao_event_types`] TAO's rule applies.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::AdminNotFound`], [`Refusal::ProxyNotFound`],
    /// [`Refusal::TooManyEventTypes`].
    pub fn subscribe(
        &mut self,
        target: SubscriptionTarget,
        added: &[EventType],
        removed: &[EventType],
    ) -> Result<(), Refusal> {
        let HierarchyLimits { event_types_max: limit, tao_event_types, .. } = self.limits;
        let (channel, side) = match target {
            SubscriptionTarget::Admin { channel, side, .. } => (channel, side),
            SubscriptionTarget::Proxy(key) => (key.channel, self.proxy(key)?.side),
        };
        let subscription = match target {
            SubscriptionTarget::Admin { channel, side, admin } => {
                &mut self.channel_mut(channel)?.admin_mut(side, admin)?.subscription
            }
            SubscriptionTarget::Proxy(key) => &mut self.channel_mut(key.channel)?.proxy_mut(key.proxy)?.subscription,
        };
        let changed = match tao_event_types {
            true => subscription.with_as_tao(added, removed, limit as usize),
            false => subscription.with(added, removed, limit as usize),
        };
        *subscription = changed.ok_or(Refusal::TooManyEventTypes { limit })?;
        self.channel_mut(channel)?.note_types_changed(side);
        self.parts.note(target);
        Ok(())
    }

    // ---- routing ----

    /// The routing snapshot of the hierarchy: the previous one if nothing changed for the event path, otherwise a new
    /// one that shares the parts of all unchanged channels.
    ///
    /// A change that concerns very many proxies is processed in chunks, one with each call: the channel's part stays
    /// as it was until the change is complete, and later changes follow with the next. [`has_work`](Self::has_work)
    /// returns whether any are left.
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        let Self { channels, changed, .. } = self;
        changed.retain(|channel| channels.get(channel).is_some_and(Channel::is_changed));
        let chunk = (CHUNK / self.changed.len().max(1)).max(CHUNK_MIN);
        let is_last = self.changed().all(|channel| channel.work_left() <= chunk);
        let lanes = self.pools.apply_changes(is_last);
        let lanes_changed = lanes != self.snapshot.lanes;
        let (filters, pools) = (&self.filters, &self.pools);
        let mut news: Vec<Arc<ChannelRoutes>> = Vec::new();
        self.changed.retain(|id| {
            let Some(channel) = self.channels.get_mut(id) else { return false };
            let routes = channel.routes(filters, pools, chunk);
            if !self.snapshot.channel_routes(*id).is_some_and(|last| Arc::ptr_eq(last, &routes)) {
                news.push(routes);
            }
            channel.is_changed()
        });
        self.unfinished = !self.changed.is_empty();
        let gone = core::mem::take(&mut self.gone);
        let renewed = core::mem::take(&mut self.renewed);
        if renewed
            || lanes_changed
            || !news.is_empty()
            || gone.iter().any(|id| self.snapshot.channel_routes(*id).is_some())
        {
            let channels = self.snapshot.channels_with(&news, &gone);
            self.snapshot = Arc::new(Snapshot { version: self.snapshot.version + 1, channels, lanes });
        }
        Arc::clone(&self.snapshot)
    }

    /// Makes the next [`snapshot`](Self::snapshot) a new one even if nothing changed in the hierarchy, for changes
    /// beside it that the users of snapshots are to notice.
    pub fn renew(&mut self) {
        self.renewed = true;
    }

    /// Channels that commands may have changed since the last [`snapshot`](Self::snapshot), and those with changes still to process.
    pub fn changed(&self) -> impl Iterator<Item = &Channel> {
        self.changed.iter().filter_map(|channel| self.channels.get(channel))
    }

    /// Whether the last [`snapshot`](Self::snapshot) left changes for the next, or destroyed objects are still to be
    /// [removed](Self::poll_removed).
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.unfinished || !self.leaving.is_empty()
    }

    /// Channels that commands may have changed since the last call, each with the number of its last change, to be
    /// passed to [`is_published`](Self::is_published).
    pub fn take_touched(&mut self) -> Vec<(ChannelId, u64)> {
        let touched = core::mem::take(&mut self.touched).into_iter();
        touched.filter_map(|channel| self.noted(channel)).collect()
    }

    /// A channel with the number of its last change; `None` if there is no such channel.
    #[must_use]
    pub fn noted(&self, channel: ChannelId) -> Option<(ChannelId, u64)> {
        Some((channel, self.channels.get(&channel)?.noted()))
    }

    /// Whether the last snapshot includes the changes of a channel up to that number.
    #[must_use]
    pub fn is_published(&self, channel: ChannelId, number: u64) -> bool {
        self.channels.get(&channel).is_none_or(|channel| channel.published() >= number)
    }

    /// A channel of which its own settings will change.
    fn changed_channel(&mut self, channel: ChannelId) -> Result<&mut Channel, Refusal> {
        self.parts.note(HierarchyPart::Channel(channel));
        self.channel_mut(channel)
    }

    /// The channel of a proxy that will change.
    fn changed_proxy(&mut self, key: ProxyKey) -> Result<&mut Channel, Refusal> {
        self.parts.note(HierarchyPart::Proxy(key));
        self.channel_mut(key.channel)
    }

    fn channel_mut(&mut self, channel: ChannelId) -> Result<&mut Channel, Refusal> {
        let found = self.channels.get_mut(&channel).ok_or(Refusal::ChannelNotFound { channel })?;
        self.touched.insert(channel);
        self.changed.insert(channel);
        Ok(found)
    }
}

fn removed(channel: ChannelId, proxy: &Proxy) -> Removed {
    let key = ProxyKey { channel, proxy: proxy.id };
    Removed { key, side: proxy.side, admin: proxy.admin, form: proxy.form, peer: proxy.peer }
}

#[cfg(test)]
mod tests;
