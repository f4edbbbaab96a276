//! The hierarchy: factory → channel → admin → proxy, with settings and subscriptions at each level.
//!
//! It belongs to the administration thread. Every command either is refused and changes nothing, or is done whole;
//! [`Hierarchy::snapshot`] then gives what the event path must know of it.

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

use crate::{
    AdminId, ChannelId, ChannelLimits, ChannelRoutes, ClientAddress, EventType, Form, Operator, OutboxSettings,
    OutputForm, Owner, Peer, Permitted, ProxyId, ProxyKey, ProxyKind, Refusal, SettingsPatch, Side, Snapshot,
    SupplierSettings, Topics,
};
use filters::Filters;
use leaving::Leaving;
use parts::Parts;
use pools::Pools;

/// How much a [`Hierarchy`] may hold. What is beyond is refused with the limit's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HierarchyLimits {
    /// Channels. Default 4,096.
    pub channels_max: u32,
    /// Admins in a channel, both sides and the two default ones together. Default 4,096.
    pub admins_max: u32,
    /// Proxies in a channel, both sides together. Default 65,536.
    pub proxies_max: u32,
    /// Event types in one subscription. Default 1,024.
    pub event_types_max: u32,
    /// Threads in all pools together, beside the main lane's. Default 64.
    pub lane_threads_max: u32,
    /// What a channel's `filter_steps_max` may be set to, 1 to 100,000,000. Default 1,000,000: at 4 to 16 ns a step, so many keep a
    /// lane for 4 to 16 ms.
    pub filter_steps_max: u32,
    /// What a channel's `constraint_bytes_max` may be set to, 1 to 1,048,576, which is the default.
    pub constraint_bytes_max: u32,
    /// Whether, under an admin that combines by [`Operator::Or`], an admin or a proxy without filters lets everything pass, so that filters
    /// of the other keep nothing away, as with TAO; else one without filters does not count. Default false.
    pub or_passes_without_filters: bool,
    /// Whether lists of event types are changed, and reported to clients, as by TAO: everything is no member beside others, so that it
    /// gives way to types that are added, and they to everything; what is added and removed at once stays as it is. Default false.
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

/// How many proxies' routes are made with one snapshot, and of each channel at least, where several have much to take in.
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

/// The admin or proxy that a [`Hierarchy::subscribe`] changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionTarget {
    /// An admin's.
    Admin {
        /// The channel.
        channel: ChannelId,
        /// The admin's side.
        side: Side,
        /// The admin.
        admin: AdminId,
    },
    /// A proxy's.
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
    /// What was destroyed and is being taken apart, in the order in which it was.
    leaving: VecDeque<Leaving>,
    /// The channels that commands may have changed since this was last asked.
    touched: BTreeSet<ChannelId>,
    /// Channels with routes that may be out of date, and those that have gone since the last snapshot.
    changed: BTreeSet<ChannelId>,
    gone: Vec<ChannelId>,
    parts: Parts,
    /// Whether the last snapshot left something for the next.
    unfinished: bool,
    /// The next snapshot is another one, whatever has changed.
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

    /// Makes a channel with its two default admins.
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

    /// Says how the default admin of a channel's side combines with its proxies, which are yet to be made.
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

    /// Destroys a channel with all that is in it: it is gone at once, and [`poll_removed`](Self::poll_removed) takes it apart.
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

    /// The channels by rising id.
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

    /// Makes a further admin on one side of a channel.
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

    /// Destroys an admin with its proxies: they are gone at once, and [`poll_removed`](Self::poll_removed) takes them apart;
    /// until then events may go to them.
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

    /// Makes a proxy, not yet connected, for events of a form.
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

    /// The same, where as many connected proxies of the same channel and side as `leaving` may be destroyed when the new one is connected:
    /// they take up no place of `MaxConsumers` and `MaxSuppliers`.
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

    /// So many of a channel's proxies, or of those of one of its admins, by rising id behind one of them if that is said.
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

    /// Destroys a proxy. A consumer's backlog goes with it.
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

    /// Connects the client that `peer` stands for. A supplier may be without a peer, and so may a consumer that pulls; one that does not
    /// and has no peer gets no deliveries, and nothing is kept for it unless [it is durable](Self::make_durable).
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::AlreadyConnected`],
    /// [`Refusal::AdminLimit`].
    pub fn connect(&mut self, key: ProxyKey, peer: Option<Peer>, output_form: OutputForm) -> Result<(), Refusal> {
        self.connect_in_place_of(0, key, peer, output_form)
    }

    /// The same, where as many connected proxies of the same channel and side as `leaving` are destroyed right after: they take up no place
    /// of `MaxConsumers` and `MaxSuppliers`.
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

    /// Connects another client to a proxy that is connected, in the place of the one that was. What waits there for a consumer waits for
    /// the new one.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`].
    pub fn reconnect(&mut self, key: ProxyKey, peer: Option<Peer>, output_form: OutputForm) -> Result<(), Refusal> {
        self.changed_proxy(key)?.reconnect(key.proxy, peer, output_form)
    }

    /// The consumer that is connected is durable: its events are kept while its client [is away](Self::leave), and what is unanswered when the
    /// client changes is delivered again. It never has suppliers wait, and its own [`FullOutbox::Reject`](crate::FullOutbox::Reject) is
    /// granted; what other lanes have taken already is discarded then.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`].
    pub fn make_durable(&mut self, key: ProxyKey) -> Result<(), Refusal> {
        self.changed_proxy(key)?.make_durable(key.proxy)
    }

    /// The client of a durable consumer goes. What comes is kept for it.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`] of a consumer that is not durable.
    pub fn leave(&mut self, key: ProxyKey) -> Result<(), Refusal> {
        self.channel_mut(key.channel)?.leave(key.proxy)
    }

    /// A durable consumer has a client again.
    ///
    /// # Errors
    ///
    /// [`Refusal::AlreadyConnected`] if it has one, and those of [`leave`](Self::leave).
    pub fn rejoin(&mut self, key: ProxyKey, peer: Peer, output_form: OutputForm) -> Result<(), Refusal> {
        self.changed_proxy(key)?.rejoin(key.proxy, peer, output_form)
    }

    /// A consumer that has just connected begins where its [`OutboxSettings::start_from`] says. If it was connected before, by another
    /// process perhaps, it goes on with what comes, unless that place is yet to come: `resumed_at` is the time then, in 100 ns since
    /// 15 October 1582.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`].
    pub fn note_start(&mut self, key: ProxyKey, resumed_at: Option<u64>) -> Result<(), Refusal> {
        self.changed_proxy(key)?.note_start(key.proxy, resumed_at)
    }

    /// The consumer that is connected may have events of these types only, whatever it wants, and is this one, until it is disconnected.
    /// All consumers of one client address have one `hold_budget` on each lane; one of unknown address has it alone.
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

    /// The consumer that was connected handles what it gets in the order in which it came, so that several deliveries may
    /// be under way to it: it gets [`OutboxSettings::PUSH_WINDOW_IN_ORDER`] where no level sets a window. Until it is
    /// disconnected.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`].
    pub fn note_in_order(&mut self, key: ProxyKey) -> Result<(), Refusal> {
        self.channel_mut(key.channel)?.note_in_order(key.proxy)
    }

    /// Disconnects; the proxy stays, and can be connected again. Returns the peer that was connected. A consumer's backlog goes.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`], [`Refusal::NotConnected`].
    pub fn disconnect(&mut self, key: ProxyKey) -> Result<Option<Peer>, Refusal> {
        self.changed_proxy(key)?.disconnect(key.proxy)
    }

    /// Suspends a connection: a consumer's events are kept and not delivered.
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

    /// Replaces what the channel says of its outboxes' settings.
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

    /// Replaces what the admin says of its proxies' settings.
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

    /// Replaces what the proxy says of its own settings.
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

    /// The settings in effect for a proxy.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::ProxyNotFound`].
    pub fn effective(&self, key: ProxyKey) -> Result<OutboxSettings, Refusal> {
        let channel = self.channel(key.channel)?;
        Ok(channel.effective(channel.proxy(key.proxy)?))
    }

    /// The settings in effect for a supplier's proxy.
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

    /// Replaces what the channel's events may claim of their lanes.
    ///
    /// # Errors
    ///
    /// [`Refusal::ChannelNotFound`], [`Refusal::BadSetting`].
    pub fn set_topics(&mut self, channel: ChannelId, topics: Topics) -> Result<(), Refusal> {
        topics.check()?;
        self.changed_channel(channel)?.set_topics(topics);
        Ok(())
    }

    /// Changes a subscription (on the suppliers' side: an offer): takes `removed` out and puts `added` in. It begins
    /// as everything, which gives way to the first types that are added; removing everything, in any spelling, empties it
    /// before `added` is put in. With [`HierarchyLimits::tao_event_types`] it is as TAO has it.
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

    /// The routing snapshot of the hierarchy. The same one as last time if nothing changed that the event path must know;
    /// otherwise a new one that shares the parts of all channels that did not change.
    ///
    /// What concerns very many proxies is taken in in pieces, one with each call: the channel's part stays what it was until
    /// all is taken in, and what is changed meanwhile is part of the next. [`has_work`](Self::has_work) says whether
    /// something is left.
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

    /// The next [`snapshot`](Self::snapshot) is another one even if nothing has changed here: something beside it has, of which its users
    /// are to take note.
    pub fn renew(&mut self) {
        self.renewed = true;
    }

    /// The channels that commands may have changed since the last [`snapshot`](Self::snapshot), and those that are yet to be taken in.
    pub fn changed(&self) -> impl Iterator<Item = &Channel> {
        self.changed.iter().filter_map(|channel| self.channels.get(channel))
    }

    /// Whether the last [`snapshot`](Self::snapshot) left something for the next, or there is something to
    /// [take apart](Self::poll_removed).
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.unfinished || !self.leaving.is_empty()
    }

    /// The channels that commands may have changed since this was last asked, each with a number by which
    /// [`is_published`](Self::is_published) knows what was changed.
    pub fn take_touched(&mut self) -> Vec<(ChannelId, u64)> {
        let touched = core::mem::take(&mut self.touched).into_iter();
        touched.filter_map(|channel| self.noted(channel)).collect()
    }

    /// A channel that exists, with the number of what was changed of it last.
    #[must_use]
    pub fn noted(&self, channel: ChannelId) -> Option<(ChannelId, u64)> {
        Some((channel, self.channels.get(&channel)?.noted()))
    }

    /// Whether the last snapshot has what was changed of a channel until it had that number.
    #[must_use]
    pub fn is_published(&self, channel: ChannelId, number: u64) -> bool {
        self.channels.get(&channel).is_none_or(|channel| channel.published() >= number)
    }

    /// A channel of which something is to change that is its own.
    fn changed_channel(&mut self, channel: ChannelId) -> Result<&mut Channel, Refusal> {
        self.parts.note(HierarchyPart::Channel(channel));
        self.channel_mut(channel)
    }

    /// The channel of a proxy of which something is to change.
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
