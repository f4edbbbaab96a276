//! One channel: its admins, its proxies, and its part of the routing snapshot.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use filter::correlation::Correlation;

use super::compile::Compiler;
use super::filters::{Attached, FilterTarget, Filters};
use super::pools::Pools;
use super::routes::{Book, Changes, Source};
use crate::{
    Activity, AdminId, ChannelId, ChannelLimits, ChannelRoutes, ChannelTimer, ClientAddress, FilterId, Form, Operator,
    OutboxSettings, OutputForm, Owner, Peer, Permitted, ProxyId, ProxyKey, ProxyKind, Refusal, SettingsPatch, Side,
    StartFrom, Subscription, SupplierSettings, TimerSettings, Topics,
};

/// Connection state of a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProxyState {
    /// No client is connected.
    #[default]
    Unconnected,
    /// Connected; events pass.
    Active,
    /// Connected but suspended; a consumer's events wait.
    Suspended,
}

/// An admin: a group of proxies with shared settings and a shared subscription.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Id on its side of the channel.
    pub id: AdminId,
    /// The side of the channel.
    pub side: Side,
    /// How the admin's subscription combines with each proxy's.
    pub operator: Operator,
    /// Settings that the admin sets for its proxies.
    pub patch: SettingsPatch,
    /// Subscription (consumers) or offer (suppliers) of the admin.
    pub subscription: Subscription,
    /// Filters and mapping filters of the admin.
    pub attached: Attached,
    /// The admin's proxies, and how many of them are connected.
    pub(super) members: BTreeSet<ProxyId>,
    connected: u32,
}

impl Admin {
    fn new(id: AdminId, side: Side, operator: Operator) -> Self {
        let (patch, subscription) = (SettingsPatch::default(), Subscription::default());
        let (attached, members) = (Attached::default(), BTreeSet::new());
        Self { id, side, operator, patch, subscription, attached, members, connected: 0 }
    }
}

/// A proxy: the place in a channel where one consumer or one supplier connects.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Id in the channel.
    pub id: ProxyId,
    /// The proxy's admin.
    pub admin: AdminId,
    /// The side of the channel.
    pub side: Side,
    /// Form of the proxy's events.
    pub form: Form,
    /// Whether events are pulled, and whether several at a time.
    pub kind: ProxyKind,
    /// The connected client, where the protocol gave a handle.
    pub peer: Option<Peer>,
    /// Form that the connected consumer's protocol needs events translated to.
    pub output_form: OutputForm,
    /// Whether the connected consumer is known to process deliveries in order.
    pub in_order: bool,
    /// Position in the channel's history at which the connected consumer began, if it chose one.
    pub start: Option<StartFrom>,
    /// Whether the consumer was connected before, so that `start` counts only if it is still ahead.
    pub resumes: bool,
    /// Event types that the connected consumer may receive, whatever it subscribes to; everything if `None`.
    pub permitted: Option<Arc<Permitted>>,
    /// Principal of the connected consumer, if the publisher of the routing has set one.
    pub owner: Option<Owner>,
    /// Client address that is charged for the time suppliers wait for the connected consumer.
    pub client_address: Option<ClientAddress>,
    /// Connection state.
    pub state: ProxyState,
    /// Whether the connected consumer [is durable](super::Hierarchy::make_durable).
    pub durable: bool,
    /// Settings that the proxy sets itself.
    pub patch: Arc<SettingsPatch>,
    /// Subscription (of a consumer) or offer (of a supplier).
    pub subscription: Subscription,
    /// Filters and mapping filters of the proxy.
    pub attached: Attached,
    /// Correlation that a consumer sets: it gets sets of events.
    pub correlation: Option<Arc<Correlation>>,
    /// Last activity of the client, if it is a supplier or a pull consumer.
    pub activity: Option<Activity>,
    pub(super) connection: u64,
}

impl Proxy {
    /// Effective settings of a consumer, from those of the levels above and from whether one of them sets
    /// `push_window`.
    pub(super) fn settings_under(&self, above: OutboxSettings, window_is_set: bool) -> OutboxSettings {
        let above = OutboxSettings { hold_granted: above.hold_granted || self.durable, ..above };
        let settings = above.of_proxy(&self.patch);
        let chosen = self.in_order && !window_is_set && self.patch.push_window.is_none();
        if chosen { settings.with_window_in_order() } else { settings }
    }

    /// Whether this is a durable consumer without a client at present.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.durable && self.peer.is_none()
    }
}

/// A channel with its settings, admins and proxies.
#[derive(Debug)]
pub struct Channel {
    id: ChannelId,
    patch: SettingsPatch,
    /// Patch shared by all proxies that set nothing.
    unsaid: Arc<SettingsPatch>,
    limits: ChannelLimits,
    /// See [`HierarchyLimits::or_passes_without_filters`](super::HierarchyLimits::or_passes_without_filters).
    or_passes_without_filters: bool,
    topics: Arc<Topics>,
    timers: Arc<[Arc<ChannelTimer>]>,
    /// Admins by side and id, so that a side's are adjacent, the default one first.
    pub(super) admins: BTreeMap<(Side, AdminId), Admin>,
    /// Boxed, since ids rise: nodes of the map are half empty then. Proxies of destroyed admins stay here until they
    /// are removed one by one, and count as absent.
    pub(super) proxies: BTreeMap<ProxyId, Box<Proxy>>,
    /// Number of destroyed admins that still have proxies.
    doomed_admins: u32,
    pub(super) next_admin: u32,
    pub(super) next_proxy: u32,
    connected_consumers: u32,
    connected_suppliers: u32,
    /// Filters that were created in this channel and exist.
    pub(super) own_filters: BTreeSet<FilterId>,
    compiler: Compiler,
    /// Version, incremented whenever suppliers' offers or consumers' subscriptions may have changed.
    offers_version: u64,
    wishes_version: u64,
    /// The routes made last, their source, and the changes since.
    routes: Option<Arc<ChannelRoutes>>,
    book: Book,
    changes: Changes,
    /// Numbers of changes: those in the published routes, and those once the book has finished its current work.
    published: u64,
    being_taken_in: u64,
}

impl Channel {
    pub(super) fn new(
        id: ChannelId,
        patch: SettingsPatch,
        limits: ChannelLimits,
        or_passes_without_filters: bool,
    ) -> Self {
        let default_admin = |side| ((side, AdminId::DEFAULT), Admin::new(AdminId::DEFAULT, side, Operator::And));
        Self {
            id,
            patch,
            unsaid: Arc::default(),
            limits,
            or_passes_without_filters,
            topics: Arc::default(),
            timers: Arc::default(),
            admins: BTreeMap::from([default_admin(Side::Consumers), default_admin(Side::Suppliers)]),
            proxies: BTreeMap::new(),
            doomed_admins: 0,
            next_admin: 1,
            next_proxy: 0,
            connected_consumers: 0,
            connected_suppliers: 0,
            own_filters: BTreeSet::new(),
            compiler: Compiler::default(),
            offers_version: 0,
            wishes_version: 0,
            routes: None,
            book: Book::default(),
            changes: Changes::default(),
            published: 0,
            being_taken_in: 0,
        }
    }

    // ---- what it is ----

    /// The channel's id.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// Settings that the channel sets for its outboxes.
    #[must_use]
    pub fn patch(&self) -> &SettingsPatch {
        &self.patch
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

    /// The channel's timers.
    #[must_use]
    pub fn timers(&self) -> &Arc<[Arc<ChannelTimer>]> {
        &self.timers
    }

    /// Number of connected proxies on a side.
    #[must_use]
    pub fn connected(&self, side: Side) -> u32 {
        match side {
            Side::Consumers => self.connected_consumers,
            Side::Suppliers => self.connected_suppliers,
        }
    }

    /// All proxies, by rising id.
    pub fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.proxies.values().map(Box::as_ref).filter(|proxy| self.is_there(proxy))
    }

    /// Number of proxies, including those of destroyed admins that are still to be removed.
    #[must_use]
    pub fn proxies_count(&self) -> usize {
        self.proxies.len()
    }

    /// Number of admins.
    #[must_use]
    pub fn admins_count(&self) -> usize {
        self.admins.len()
    }

    /// Whether a proxy's admin has not been destroyed.
    fn is_there(&self, proxy: &Proxy) -> bool {
        self.doomed_admins == 0 || self.admins.contains_key(&(proxy.side, proxy.admin))
    }

    pub(super) fn admin(&self, side: Side, admin: AdminId) -> Result<&Admin, Refusal> {
        self.admins.get(&(side, admin)).ok_or(Refusal::AdminNotFound { channel: self.id, side, admin })
    }

    pub(super) fn proxy(&self, proxy: ProxyId) -> Result<&Proxy, Refusal> {
        let found = self.proxies.get(&proxy).map(Box::as_ref).filter(|proxy| self.is_there(proxy));
        found.ok_or(Refusal::ProxyNotFound { proxy: ProxyKey { channel: self.id, proxy } })
    }

    pub(super) fn effective(&self, proxy: &Proxy) -> OutboxSettings {
        let admin = self.admins.get(&(proxy.side, proxy.admin)).map(|admin| &admin.patch);
        let levels = [Some(&self.patch), admin];
        let above = levels.iter().flatten().fold(OutboxSettings::default(), |settings, patch| patch.over(settings));
        proxy.settings_under(above, levels.iter().flatten().any(|patch| patch.push_window.is_some()))
    }

    pub(super) fn effective_supplier(&self, proxy: &Proxy) -> SupplierSettings {
        let channel = self.patch.over_supplier(SupplierSettings::default());
        let admin = self.admins.get(&(proxy.side, proxy.admin));
        let admin = admin.map_or(channel, |admin| admin.patch.over_supplier(channel));
        proxy.patch.over_supplier(admin)
    }

    // ---- commands; each marks the routes as changed where the event path must know of it ----

    pub(super) fn set_patch(&mut self, patch: SettingsPatch) {
        self.patch = patch;
        self.changes.note_all();
    }

    pub(super) fn note_places_changed(&mut self) {
        self.changes.note_all();
    }

    pub(super) fn set_limits(&mut self, limits: ChannelLimits) {
        self.limits = limits;
        self.changes.note();
    }

    pub(super) fn set_topics(&mut self, topics: Topics) {
        self.topics = Arc::new(topics);
        self.changes.note();
    }

    pub(super) fn set_timers(&mut self, timers: Vec<TimerSettings>) {
        let timers = ChannelTimer::following(&self.timers, timers);
        let same = |(before, now): (&Arc<ChannelTimer>, &Arc<ChannelTimer>)| Arc::ptr_eq(before, now);
        if timers.len() != self.timers.len() || !self.timers.iter().zip(&*timers).all(same) {
            self.timers = timers;
            self.changes.note();
        }
    }

    /// An admin, to change its settings or subscription; the event path is notified.
    pub(super) fn admin_mut(&mut self, side: Side, admin: AdminId) -> Result<&mut Admin, Refusal> {
        let found = self.admins.get_mut(&(side, admin));
        let found = found.ok_or(Refusal::AdminNotFound { channel: self.id, side, admin })?;
        self.changes.note_admin(side, admin);
        Ok(found)
    }

    /// A proxy, to change its settings or subscription; the event path is notified.
    pub(super) fn proxy_mut(&mut self, proxy: ProxyId) -> Result<&mut Proxy, Refusal> {
        self.proxy(proxy)?;
        let key = ProxyKey { channel: self.id, proxy };
        let found = self.proxies.get_mut(&proxy).ok_or(Refusal::ProxyNotFound { proxy: key })?;
        self.changes.note_proxy(proxy);
        Ok(found)
    }

    /// Changes the filters attached to an admin or a proxy.
    pub(super) fn change_attached<R>(
        &mut self,
        target: FilterTarget,
        change: impl FnOnce(&mut Attached) -> R,
    ) -> Result<R, Refusal> {
        let channel = self.id;
        let (side, counts, attached) = match target {
            FilterTarget::Admin { side, admin, .. } => {
                let found = self.admins.get_mut(&(side, admin));
                (side, true, &mut found.ok_or(Refusal::AdminNotFound { channel, side, admin })?.attached)
            }
            FilterTarget::Proxy(key) => {
                let found = self.proxies.get_mut(&key.proxy).ok_or(Refusal::ProxyNotFound { proxy: key })?;
                // An unconnected consumer gets no events, so its filters do not count yet.
                let counts = found.side == Side::Suppliers || found.state != ProxyState::Unconnected;
                (found.side, counts, &mut found.attached)
            }
        };
        if !counts {
            return Ok(change(attached));
        }
        self.compiler.count(side, attached, false);
        let result = change(attached);
        self.compiler.count(side, attached, true);
        match target {
            FilterTarget::Admin { side, admin, .. } => self.changes.note_admin(side, admin),
            FilterTarget::Proxy(key) => self.changes.note_proxy(key.proxy),
        }
        self.note_types_changed(side);
        Ok(result)
    }

    /// Notes the change of a filter that is attached in this channel.
    pub(super) fn note_filter_changed(&mut self, filter: FilterId) {
        if self.compiler.note_changed(filter) {
            self.changes.note();
            self.note_types_changed(Side::Consumers);
        }
    }

    /// Notes whether a consumer's filters are in use from now on. A supplier's always are.
    fn count_consumer(&mut self, proxy: ProxyId, counts: bool) {
        if let Some(found) = self.proxies.get(&proxy).filter(|proxy| proxy.side == Side::Consumers) {
            self.compiler.count(Side::Consumers, &found.attached, counts);
        }
    }

    pub(super) fn note_types_changed(&mut self, side: Side) {
        match side {
            Side::Consumers => self.wishes_version += 1,
            Side::Suppliers => self.offers_version += 1,
        }
    }

    pub(super) fn types_version(&self, side: Side) -> u64 {
        match side {
            Side::Consumers => self.wishes_version,
            Side::Suppliers => self.offers_version,
        }
    }

    pub(super) fn target_of_admin(&self, admin: &Admin) -> FilterTarget {
        FilterTarget::Admin { channel: self.id, side: admin.side, admin: admin.id }
    }

    pub(super) fn target_of(&self, proxy: &Proxy) -> FilterTarget {
        FilterTarget::Proxy(ProxyKey { channel: self.id, proxy: proxy.id })
    }

    pub(super) fn create_admin(&mut self, side: Side, operator: Operator, limit: u32) -> Result<AdminId, Refusal> {
        if self.admins.len() >= limit as usize {
            return Err(Refusal::TooManyAdmins { limit });
        }
        let id = AdminId(self.next_admin);
        self.next_admin = self.next_admin.checked_add(1).ok_or(Refusal::IdsExhausted)?;
        self.admins.insert((side, id), Admin::new(id, side, operator));
        Ok(id)
    }

    /// Removes an admin. The caller then removes its proxies one by one, and at last what the proxies inherited from it.
    pub(super) fn doom_admin(&mut self, side: Side, admin: AdminId) -> Result<Admin, Refusal> {
        self.admin(side, admin)?;
        if admin == AdminId::DEFAULT {
            return Err(Refusal::DefaultAdmin { channel: self.id, side });
        }
        let gone = self.admins.remove(&(side, admin));
        let gone = gone.ok_or(Refusal::AdminNotFound { channel: self.id, side, admin })?;
        self.doomed_admins += 1;
        if gone.connected > 0 {
            *self.connected_mut(side) -= gone.connected;
            self.note_types_changed(side);
        }
        self.changes.note();
        Ok(gone)
    }

    /// Removes a proxy of a destroyed admin.
    pub(super) fn take_doomed(&mut self, proxy: ProxyId) -> Option<Box<Proxy>> {
        let gone = self.proxies.remove(&proxy)?;
        self.note_removed(&gone);
        Some(gone)
    }

    /// Ends the removal of a destroyed admin after its last proxy.
    pub(super) fn end_doomed(&mut self, gone: &Admin) {
        self.doomed_admins -= 1;
        self.changes.note_admin(gone.side, gone.id);
        self.compiler.count(gone.side, &gone.attached, false);
    }

    fn note_removed(&mut self, gone: &Proxy) {
        if gone.side == Side::Suppliers || gone.state != ProxyState::Unconnected {
            self.changes.note_proxy(gone.id);
            self.compiler.count(gone.side, &gone.attached, false);
        }
    }

    pub(super) fn create_proxy(
        &mut self,
        leaving: u32,
        (side, admin): (Side, AdminId),
        form: Form,
        kind: ProxyKind,
        limit: u32,
    ) -> Result<ProxyId, Refusal> {
        self.admin(side, admin)?;
        self.check_connected(side, leaving)?;
        if self.proxies.len() >= limit as usize {
            return Err(Refusal::TooManyProxies { limit });
        }
        let id = ProxyId(self.next_proxy);
        self.next_proxy = self.next_proxy.checked_add(1).ok_or(Refusal::IdsExhausted)?;
        let proxy = Proxy {
            id,
            admin,
            side,
            form,
            kind,
            peer: None,
            output_form: OutputForm::default(),
            state: ProxyState::Unconnected,
            durable: false,
            patch: Arc::clone(&self.unsaid),
            subscription: Subscription::default(),
            attached: Attached::default(),
            correlation: None,
            activity: (side == Side::Suppliers || kind.pull).then(Activity::default),
            connection: 0,
            in_order: false,
            start: None,
            resumes: false,
            permitted: None,
            owner: None,
            client_address: None,
        };
        self.proxies.insert(id, Box::new(proxy));
        if let Some(admin) = self.admins.get_mut(&(side, admin)) {
            admin.members.insert(id);
        }
        // A consumer counts on the event path only once it is connected; a supplier's events are refused with a
        // reason from the start.
        if side == Side::Suppliers {
            self.changes.note_proxy(id);
        }
        Ok(id)
    }

    pub(super) fn destroy_proxy(&mut self, proxy: ProxyId) -> Result<Proxy, Refusal> {
        self.proxy(proxy)?;
        let key = ProxyKey { channel: self.id, proxy };
        let gone = self.proxies.remove(&proxy).ok_or(Refusal::ProxyNotFound { proxy: key })?;
        if gone.state != ProxyState::Unconnected {
            self.count_connected((gone.side, gone.admin), false);
        }
        if let Some(admin) = self.admins.get_mut(&(gone.side, gone.admin)) {
            admin.members.remove(&proxy);
        }
        self.note_removed(&gone);
        Ok(*gone)
    }

    pub(super) fn connect(
        &mut self,
        leaving: u32,
        proxy: ProxyId,
        peer: Option<Peer>,
        output_form: OutputForm,
        connection: u64,
    ) -> Result<(), Refusal> {
        let found = self.proxy(proxy)?;
        if found.state != ProxyState::Unconnected {
            return Err(Refusal::AlreadyConnected { proxy: ProxyKey { channel: self.id, proxy } });
        }
        let admin = (found.side, found.admin);
        self.check_connected(found.side, leaving)?;
        let found = self.proxy_mut(proxy)?;
        (found.peer, found.output_form, found.connection) = (peer, output_form, connection);
        (found.state, found.start, found.permitted) = (ProxyState::Active, None, None);
        (found.owner, found.client_address) = (None, None);
        self.count_consumer(proxy, true);
        self.count_connected(admin, true);
        Ok(())
    }

    pub(super) fn reconnect(
        &mut self,
        proxy: ProxyId,
        peer: Option<Peer>,
        output_form: OutputForm,
    ) -> Result<(), Refusal> {
        self.connected_state(proxy)?;
        let found = self.proxy_mut(proxy)?;
        (found.peer, found.output_form, found.in_order) = (peer, output_form, false);
        (found.state, found.permitted) = (ProxyState::Active, None);
        (found.owner, found.client_address) = (None, None);
        Ok(())
    }

    pub(super) fn make_durable(&mut self, proxy: ProxyId) -> Result<(), Refusal> {
        self.connected_state(proxy)?;
        self.proxy_mut(proxy)?.durable = true;
        Ok(())
    }

    pub(super) fn leave(&mut self, proxy: ProxyId) -> Result<(), Refusal> {
        self.durable(proxy)?.peer = None;
        Ok(())
    }

    pub(super) fn rejoin(&mut self, proxy: ProxyId, peer: Peer, output_form: OutputForm) -> Result<(), Refusal> {
        let key = ProxyKey { channel: self.id, proxy };
        let found = self.durable(proxy)?;
        if found.peer.is_some() {
            return Err(Refusal::AlreadyConnected { proxy: key });
        }
        (found.peer, found.output_form) = (Some(peer), output_form);
        Ok(())
    }

    fn durable(&mut self, proxy: ProxyId) -> Result<&mut Proxy, Refusal> {
        if !self.proxy(proxy)?.durable {
            return Err(Refusal::NotConnected { proxy: ProxyKey { channel: self.id, proxy } });
        }
        self.proxy_mut(proxy)
    }

    pub(super) fn note_start(&mut self, proxy: ProxyId, resumed_at: Option<u64>) -> Result<(), Refusal> {
        self.connected_state(proxy)?;
        let start = self.effective(self.proxy(proxy)?).start_from;
        let may_be_ahead = |start: &StartFrom| match (*start, resumed_at) {
            (_, None) => true,
            (StartFrom::Time(time), Some(now)) => time > now,
            // Only the lane knows the next number.
            (start, Some(_)) => matches!(start, StartFrom::Number(_)),
        };
        let found = self.proxy_mut(proxy)?;
        found.start = start.map(|start| if may_be_ahead(&start) { start } else { StartFrom::New });
        found.resumes = resumed_at.is_some();
        Ok(())
    }

    pub(super) fn note_in_order(&mut self, proxy: ProxyId) -> Result<(), Refusal> {
        self.connected_state(proxy)?;
        self.proxy_mut(proxy)?.in_order = true;
        Ok(())
    }

    pub(super) fn permit(
        &mut self,
        proxy: ProxyId,
        permitted: Option<Arc<Permitted>>,
        owner: Option<Owner>,
        client_address: Option<ClientAddress>,
    ) -> Result<(), Refusal> {
        self.connected_state(proxy)?;
        let found = self.proxy_mut(proxy)?;
        (found.permitted, found.owner, found.client_address) = (permitted, owner, client_address);
        Ok(())
    }

    pub(super) fn disconnect(&mut self, proxy: ProxyId) -> Result<Option<Peer>, Refusal> {
        self.connected_state(proxy)?;
        let found = self.proxy_mut(proxy)?;
        found.state = ProxyState::Unconnected;
        (found.in_order, found.durable, found.start, found.permitted) = (false, false, None, None);
        (found.owner, found.client_address) = (None, None);
        let (peer, admin) = (found.peer.take(), (found.side, found.admin));
        self.count_consumer(proxy, false);
        self.count_connected(admin, false);
        Ok(peer)
    }

    pub(super) fn suspend(&mut self, proxy: ProxyId) -> Result<(), Refusal> {
        if self.connected_state(proxy)? == ProxyState::Suspended {
            return Err(Refusal::AlreadyInactive { proxy: ProxyKey { channel: self.id, proxy } });
        }
        self.proxy_mut(proxy)?.state = ProxyState::Suspended;
        Ok(())
    }

    pub(super) fn resume(&mut self, proxy: ProxyId) -> Result<(), Refusal> {
        if self.connected_state(proxy)? == ProxyState::Active {
            return Err(Refusal::AlreadyActive { proxy: ProxyKey { channel: self.id, proxy } });
        }
        self.proxy_mut(proxy)?.state = ProxyState::Active;
        Ok(())
    }

    fn connected_state(&self, proxy: ProxyId) -> Result<ProxyState, Refusal> {
        match self.proxy(proxy)?.state {
            ProxyState::Unconnected => Err(Refusal::NotConnected { proxy: ProxyKey { channel: self.id, proxy } }),
            state => Ok(state),
        }
    }

    /// Whether `MaxConsumers` or `MaxSuppliers` is reached.
    #[must_use]
    pub fn is_full(&self, side: Side) -> bool {
        self.check_connected(side, 0).is_err()
    }

    /// Refuses a connection at the limit. `MaxConsumers` and `MaxSuppliers` count connected proxies (OMG Notification
    /// Service 1.1), here without those `leaving`.
    fn check_connected(&self, side: Side, leaving: u32) -> Result<(), Refusal> {
        let limit = match side {
            Side::Consumers => self.limits.max_consumers,
            Side::Suppliers => self.limits.max_suppliers,
        };
        match limit {
            Some(limit) if self.connected(side).saturating_sub(leaving) >= limit.get() => {
                Err(Refusal::AdminLimit { side, limit: limit.get() })
            }
            _ => Ok(()),
        }
    }

    /// Counts a proxy of an admin as connected or disconnected, and so its offer or subscription.
    fn count_connected(&mut self, (side, admin): (Side, AdminId), comes: bool) {
        let step = |count: &mut u32| *count = if comes { *count + 1 } else { count.saturating_sub(1) };
        step(self.connected_mut(side));
        if let Some(admin) = self.admins.get_mut(&(side, admin)) {
            step(&mut admin.connected);
        }
        self.note_types_changed(side);
    }

    fn connected_mut(&mut self, side: Side) -> &mut u32 {
        match side {
            Side::Consumers => &mut self.connected_consumers,
            Side::Suppliers => &mut self.connected_suppliers,
        }
    }

    // ---- routing ----

    /// Whether the filters of a proxy and its admin apply: not if either has none, they combine by OR, and TAO's rule is set.
    pub(super) fn filters_count(&self, proxy: &Proxy) -> bool {
        let Some(admin) = self.admins.get(&(proxy.side, proxy.admin)) else { return true };
        let both_have = || !proxy.attached.filters().is_empty() && !admin.attached.filters().is_empty();
        !self.or_passes_without_filters || admin.operator == Operator::And || both_have()
    }

    /// Whether the routes are out of date.
    pub(super) fn is_changed(&self) -> bool {
        self.routes.is_none() || self.book.is_at_work() || !self.changes.is_empty()
    }

    /// Upper bound of the proxies still to be processed until the routes are up to date.
    pub(super) fn work_left(&self) -> usize {
        self.book.work_left(self) + self.changes.work_left(self)
    }

    /// Number of changes noted so far.
    pub(super) fn noted(&self) -> u64 {
        self.changes.count()
    }

    /// Number of the last change in the published routes.
    pub(super) fn published(&self) -> u64 {
        self.published
    }

    /// The current routes: the previous ones if nothing changed for the event path, or if processing `chunk` proxies
    /// does not complete the changes.
    pub(super) fn routes(&mut self, filters: &Filters, pools: &Pools, chunk: usize) -> Arc<ChannelRoutes> {
        if let Some(routes) = self.routes.as_ref().filter(|_| !self.book.is_at_work() && self.changes.is_empty()) {
            return Arc::clone(routes);
        }
        let mut book = core::mem::take(&mut self.book);
        if !book.is_at_work() {
            // Later changes are processed afterwards, so that the published routes are consistent.
            self.compiler.compile(filters);
            let changes = self.changes.take();
            self.being_taken_in = self.changes.count();
            book.begin(Source { channel: self, compiler: &self.compiler, pools }, changes);
        }
        let source = Source { channel: self, compiler: &self.compiler, pools };
        let is_done = book.go_on(source, if self.routes.is_some() { chunk } else { usize::MAX });
        let last = self.routes.as_ref();
        let routes = last.filter(|_| !is_done).map_or_else(|| book.routes(source, last), Arc::clone);
        self.book = book;
        if is_done {
            self.published = self.being_taken_in;
        }
        self.routes = Some(Arc::clone(&routes));
        routes
    }

    /// Releases a chunk of the routes of a destroyed channel. Returns whether there was one.
    pub(super) fn release_routes(&mut self) -> bool {
        self.routes = None;
        self.book.release()
    }
}
