//! Maintains a channel's part of the routing snapshot, and updates it where something changed.
//!
//! What an admin's proxies inherit is computed once for each admin. Routes lie in chunks that snapshots share, so that
//! publishing costs as much as the change, and one comparison for each chunk.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use super::compile::Compiler;
use super::filters::{Attached, Mapping};
use super::pools::Pools;
use super::{Channel, Proxy, ProxyState};
use crate::members::Members;
use crate::routing::{LaneUse, Traits};
use crate::shared::{SharedMap, SharedSlots};
use crate::table::{Filtering, SupplierGroup, SupplierGroups, Target};
use crate::{
    AdminId, ChannelRoutes, ConsumerRoute, DiscardPolicy, FullOutbox, Interest, LaneId, OrderPolicy, OutboxSettings,
    OutputForm, Peer, ProxyId, ProxyKey, SettingsPatch, Side, Subscription, SupplierRoute, SupplierSettings,
};

/// Changes since the routes were last made.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Number of changes since the channel was created.
    count: u64,
    /// Whether something of the channel itself changed.
    any: bool,
    /// Whether something changed that every proxy inherits from the channel.
    all: bool,
    admins: BTreeSet<(Side, AdminId)>,
    proxies: BTreeSet<ProxyId>,
}

impl Changes {
    /// Notes a change that concerns no proxy in particular.
    pub(super) fn note(&mut self) {
        self.any = true;
        self.count += 1;
    }

    pub(super) fn note_all(&mut self) {
        self.note();
        self.all = true;
    }

    pub(super) fn note_admin(&mut self, side: Side, admin: AdminId) {
        self.note();
        self.admins.insert((side, admin));
    }

    pub(super) fn note_proxy(&mut self, proxy: ProxyId) {
        self.note();
        self.proxies.insert(proxy);
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Takes the pending changes, to be processed. Later ones are for the next time.
    pub(super) fn take(&mut self) -> Self {
        core::mem::replace(self, Self { count: self.count, ..Self::default() })
    }

    /// Upper bound of the proxies that the changes concern.
    pub(super) fn work_left(&self, channel: &Channel) -> usize {
        let of_admin = |key| channel.admins.get(key).map_or(0, |admin| admin.members.len());
        let beneath = if self.all { channel.proxies.len() } else { self.admins.iter().map(of_admin).sum() };
        self.proxies.len() + beneath
    }
}

/// Work in progress: the proxies still to be processed.
#[derive(Debug, Default)]
struct Work {
    /// Single proxies.
    proxies: BTreeSet<ProxyId>,
    /// Whether all proxies of the channel, or of these admins, after the last one processed are included.
    all: bool,
    admins: BTreeSet<(Side, AdminId)>,
    last: Option<ProxyId>,
    /// Whether the routes differ from the previous ones.
    changed: bool,
    is_open: bool,
}

impl Work {
    /// The next proxy to process.
    fn next(&mut self, channel: &Channel) -> Option<ProxyId> {
        if let Some(proxy) = self.proxies.pop_first() {
            return Some(proxy);
        }
        if self.all {
            let range = (self.last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
            self.last = channel.proxies.range(range).next().map(|(id, _)| *id);
            self.all = self.last.is_some();
            return self.last;
        }
        while let Some(key) = self.admins.first() {
            let range = (self.last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
            self.last = channel.admins.get(key).and_then(|admin| admin.members.range(range).next()).copied();
            if self.last.is_some() {
                return self.last;
            }
            self.admins.pop_first();
        }
        None
    }

    /// Upper bound of the proxies left.
    fn left(&self, channel: &Channel) -> usize {
        let of_admin = |key| channel.admins.get(key).map_or(0, |admin| admin.members.len());
        let beneath = if self.all { channel.proxies.len() } else { self.admins.iter().map(of_admin).sum() };
        self.proxies.len() + beneath
    }
}

/// Sources that routes are computed from.
#[derive(Clone, Copy)]
pub(super) struct Source<'s> {
    pub(super) channel: &'s Channel,
    pub(super) compiler: &'s Compiler,
    pub(super) pools: &'s Pools,
}

/// A channel's routes to be published next.
#[derive(Debug, Default)]
pub(super) struct Book {
    work: Work,
    members: Members,
    places: Places,
    suppliers: SharedMap<Arc<SupplierRoute>>,
    /// Number of consumers for each output form, and the list of these forms.
    output_forms: BTreeMap<OutputForm, u32>,
    requested: Arc<[OutputForm]>,
    /// Numbers of consumers with each of [`Traits`] and [`Filtering::any_mapping`].
    rejects: u32,
    sorted: u32,
    asking: u32,
    mapping: u32,
    targets: SharedSlots<Arc<[Target]>>,
    /// Targets added to (true) or removed from (false) each filter, not yet in `targets`.
    moved: BTreeMap<u32, BTreeMap<Target, bool>>,
    admins: BTreeMap<(Side, AdminId), Arc<OfAdmin>>,
    admin_filters: SharedSlots<Arc<[u32]>>,
    admin_places: Places,
    nobody: Arc<[Peer]>,
    no_filters: Arc<[u32]>,
}

/// Settings and filters that an admin's proxies inherit from it and from the channel.
#[derive(Debug)]
struct OfAdmin {
    outboxes: Arc<OutboxSettings>,
    /// Whether the admin or the channel sets `push_window`.
    window_is_set: bool,
    subscription: Subscription,
    suppliers: SupplierSettings,
    remote: Arc<[Peer]>,
    /// Local filters, on the suppliers' side.
    local: Box<[u32]>,
    /// Place among the admins with filters, on the consumers' side.
    place: Option<u32>,
    mappings: [Option<u32>; 2],
}

/// Numbers, of which the lowest free one is assigned next.
#[derive(Debug, Default)]
struct Places {
    free: BTreeSet<u32>,
    end: u32,
}

impl Places {
    fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            // The hierarchy's limits keep the number of proxies and admins far below 2^32.
            self.end += 1;
            self.end - 1
        })
    }

    fn give_back(&mut self, place: u32) {
        self.free.insert(place);
    }
}

impl Book {
    // ---- what has changed ----

    /// Whether work is in progress, so that the routes must not be published yet.
    pub(super) fn is_at_work(&self) -> bool {
        self.work.is_open
    }

    /// Upper bound of the proxies left to process.
    pub(super) fn work_left(&self, channel: &Channel) -> usize {
        self.work.left(channel)
    }

    /// Begins to process changes.
    pub(super) fn begin(&mut self, source: Source<'_>, mut changes: Changes) {
        if changes.all {
            changes.admins.extend(self.admins.keys());
        }
        let mut changed = false;
        for key in &changes.admins {
            changed |= self.refresh_admin(source, *key);
        }
        self.flush_targets();
        let Changes { all, admins, proxies, .. } = changes;
        let admins = if all { BTreeSet::new() } else { admins };
        self.work = Work { proxies, all, admins, last: None, changed, is_open: true };
    }

    /// Processes up to `chunk` proxies. Returns whether the work is complete.
    pub(super) fn go_on(&mut self, source: Source<'_>, chunk: usize) -> bool {
        let channel = source.channel;
        for _ in 0..chunk {
            let Some(proxy) = self.work.next(channel) else { break };
            self.work.changed |= match channel.proxy(proxy) {
                Ok(found) if found.side == Side::Suppliers => self.set_supplier(source, found),
                Ok(found) => {
                    let route = self.consumer(source, found);
                    self.set_consumer(proxy, route)
                }
                Err(_) => self.remove_supplier(proxy) | self.set_consumer(proxy, None),
            };
        }
        self.flush_targets();
        self.work.left(channel) == 0
    }

    /// The routes after all work is complete: `last` if nothing changed.
    pub(super) fn routes(&mut self, source: Source<'_>, last: Option<&Arc<ChannelRoutes>>) -> Arc<ChannelRoutes> {
        let Source { channel, compiler, pools } = source;
        let changed = core::mem::take(&mut self.work).changed;
        if changed && !self.output_forms.keys().eq(self.requested.iter()) {
            self.requested = self.output_forms.keys().copied().collect();
        }
        let lanes = if pools.is_empty() {
            Arc::clone(pools.main_only())
        } else {
            lanes(
                pools,
                self.suppliers.iter().map(|(_, route)| &**route),
                self.members.iter().map(|(_, route)| &**route),
                channel.limits().history.keeps(),
            )
        };
        let (limits, topics, timers) = (*channel.limits(), channel.topics(), channel.timers());
        let connected_suppliers = channel.connected(Side::Suppliers);
        if let Some(last) = last.filter(|_| !changed)
            && last.limits == limits
            && Arc::ptr_eq(&last.topics, topics)
            && Arc::ptr_eq(&last.timers, timers)
            && last.connected_suppliers == connected_suppliers
            && Arc::ptr_eq(&last.filtering.table, compiler.table())
            && last.lanes == lanes
        {
            return Arc::clone(last);
        }
        Arc::new(ChannelRoutes {
            id: channel.id(),
            limits,
            topics: Arc::clone(topics),
            timers: Arc::clone(timers),
            connected_suppliers,
            suppliers: self.suppliers.clone(),
            consumers: self.members.clone(),
            output_forms: Arc::clone(&self.requested),
            filtering: Filtering {
                table: Arc::clone(compiler.table()),
                targets: self.targets.clone(),
                admins: self.admin_filters.clone(),
                any_mapping: self.mapping > 0,
            },
            traits: Traits {
                any_rejects: self.rejects > 0,
                any_sorted: self.sorted > 0,
                any_remote_filters: self.asking > 0,
            },
            lanes,
        })
    }

    /// Releases a chunk of the routes. Returns whether there was one.
    pub(super) fn release(&mut self) -> bool {
        self.members.release().or_else(|| self.suppliers.release()).is_some()
    }

    // ---- admins ----

    /// Recomputes what an admin's proxies inherit, if any of them was routed. Returns whether the targets of its
    /// filters changed.
    fn refresh_admin(&mut self, source: Source<'_>, key: (Side, AdminId)) -> bool {
        let Some(last) = self.admins.remove(&key) else { return false };
        if source.channel.admins.contains_key(&key) {
            return self.add_admin(source, key, last.place);
        }
        let changed = self.set_admin_filters(last.place, &[]);
        if let Some(left) = last.place {
            self.admin_places.give_back(left);
        }
        changed
    }

    fn of_admin(&mut self, source: Source<'_>, key: (Side, AdminId)) -> Option<Arc<OfAdmin>> {
        if !self.admins.contains_key(&key) {
            self.add_admin(source, key, None);
        }
        self.admins.get(&key).cloned()
    }

    fn add_admin(&mut self, source: Source<'_>, key: (Side, AdminId), place: Option<u32>) -> bool {
        let Source { channel, compiler, .. } = source;
        let Some(admin) = channel.admins.get(&key) else { return false };
        let (patch, attached) = (channel.patch(), &admin.attached);
        let mut filters: Vec<u32> = slots(compiler, attached).collect();
        let mut of_admin = OfAdmin {
            // Settings of a proxy that sets none itself.
            outboxes: Arc::new(
                admin.patch.over(patch.over(OutboxSettings::default())).of_proxy(&SettingsPatch::default()),
            ),
            window_is_set: admin.patch.push_window.or(patch.push_window).is_some(),
            subscription: admin.subscription.clone(),
            suppliers: admin.patch.over_supplier(patch.over_supplier(SupplierSettings::default())),
            remote: self.remote(attached),
            local: Box::new([]),
            place: None,
            mappings: mappings(compiler, attached),
        };
        let mut changed = false;
        if admin.side == Side::Suppliers {
            of_admin.local = filters.into();
        } else {
            filters.sort_unstable();
            filters.dedup();
            if attached.local_filters().next().is_some() {
                of_admin.place = place.or_else(|| Some(self.admin_places.take()));
            }
            changed = self.set_admin_filters(of_admin.place.or(place), &filters);
            if let Some(left) = place.filter(|_| of_admin.place.is_none()) {
                self.admin_places.give_back(left);
            }
        }
        self.admins.insert(key, Arc::new(of_admin));
        changed
    }

    /// Sets the slots of an admin's filters. Returns whether they changed.
    fn set_admin_filters(&mut self, place: Option<u32>, filters: &[u32]) -> bool {
        let Some(place) = place else { return false };
        let last = self.admin_filters.get(place).cloned().unwrap_or_default();
        if *last == *filters {
            return false;
        }
        self.move_target(Target::Admin(place), &last, filters);
        self.admin_filters.set(place, if filters.is_empty() { None } else { Some(filters.into()) });
        true
    }

    /// Notes that a target's filters change from `last` to `now`.
    fn move_target(&mut self, target: Target, last: &[u32], now: &[u32]) {
        for slot in last.iter().filter(|slot| !now.contains(slot)) {
            self.moved.entry(*slot).or_default().insert(target, false);
        }
        for slot in now.iter().filter(|slot| !last.contains(slot)) {
            self.moved.entry(*slot).or_default().insert(target, true);
        }
    }

    /// Applies the noted moves to the lists of targets. Very many consumers may have the same filter: its list is
    /// rebuilt once for all consumers processed together.
    fn flush_targets(&mut self) {
        while let Some((slot, moved)) = self.moved.pop_first() {
            let kept = self.targets.get(slot).map_or(&[][..], Arc::as_ref).iter().copied();
            let kept = kept.filter(|target| !moved.contains_key(target));
            let come = moved.iter().filter(|(_, is_one)| **is_one).map(|(target, _)| *target);
            let all: Vec<Target> = kept.chain(come).collect();
            self.targets.set(slot, if all.is_empty() { None } else { Some(all.into()) });
        }
    }

    // ---- suppliers ----

    fn set_supplier(&mut self, source: Source<'_>, proxy: &Proxy) -> bool {
        let Some(route) = self.supplier(source, proxy) else { return false };
        if self.suppliers.get(proxy.id).is_some_and(|last| **last == route) {
            return false;
        }
        self.suppliers.insert(proxy.id, Arc::new(route));
        true
    }

    fn remove_supplier(&mut self, proxy: ProxyId) -> bool {
        let was_there = self.suppliers.get(proxy).is_some();
        self.suppliers.remove(proxy);
        was_there
    }

    fn supplier(&mut self, source: Source<'_>, proxy: &Proxy) -> Option<SupplierRoute> {
        let of_admin = self.of_admin(source, (proxy.side, proxy.admin))?;
        let (places, priority_model) = source.pools.placement(source.channel, proxy);
        Some(SupplierRoute {
            form: proxy.form,
            peer: proxy.peer,
            state: proxy.state,
            admin: proxy.admin,
            settings: proxy.patch.over_supplier(of_admin.suppliers),
            pull: proxy.kind.pull,
            batches: proxy.kind.batches,
            remote_filters: self.both_remote(source.channel.filters_count(proxy), proxy, &of_admin),
            places,
            priority_model,
            activity: proxy.activity.clone().unwrap_or_default(),
            groups: supplier_groups(source, proxy, &of_admin),
        })
    }

    // ---- consumers ----

    /// Replaces a consumer's route. Returns whether it changed.
    fn set_consumer(&mut self, proxy: ProxyId, route: Option<ConsumerRoute>) -> bool {
        let place = self.members.place_of(proxy);
        let last = place.and_then(|place| self.members.get(place)).cloned();
        if last.as_deref() == route.as_ref() {
            return false;
        }
        if let Some(last) = &last {
            self.count(last, false);
        }
        if let Some(route) = &route {
            self.count(route, true);
        }
        let place = place.unwrap_or_else(|| self.places.take());
        let filters =
            |route: Option<&ConsumerRoute>| route.map_or_else(Arc::default, |route| Arc::clone(&route.filters));
        self.move_target(Target::Member(place), &filters(last.as_deref()), &filters(route.as_ref()));
        match route {
            Some(route) => self.members.put(place, route),
            None => {
                self.members.remove(proxy);
                self.places.give_back(place);
            }
        }
        true
    }

    fn count(&mut self, route: &ConsumerRoute, comes: bool) {
        let step = |count: &mut u32, counts: bool| match (counts, comes) {
            (true, true) => *count += 1,
            (true, false) => *count = count.saturating_sub(1),
            _ => {}
        };
        step(&mut self.rejects, route.settings.policy_at_limits() == Some(FullOutbox::Reject));
        step(&mut self.sorted, sorts(&route.settings));
        step(&mut self.asking, route.has_remote_filters());
        step(&mut self.mapping, route.mappings.iter().any(Option::is_some));
        let requested = self.output_forms.entry(route.output_form).or_default();
        step(requested, true);
        if *requested == 0 {
            self.output_forms.remove(&route.output_form);
        }
    }

    /// The route of a consumer; `None` if it is not connected.
    fn consumer(&mut self, source: Source<'_>, proxy: &Proxy) -> Option<ConsumerRoute> {
        let Source { channel, compiler, pools } = source;
        let is_served = proxy.peer.is_some() || proxy.kind.pull || proxy.durable;
        if proxy.state == ProxyState::Unconnected || !is_served {
            return None;
        }
        let admin = channel.admins.get(&(proxy.side, proxy.admin))?;
        let of_admin = self.of_admin(source, (proxy.side, proxy.admin))?;
        let counts = channel.filters_count(proxy);
        let mut filters: Vec<u32> = slots(compiler, &proxy.attached).filter(|_| counts).collect();
        filters.sort_unstable();
        filters.dedup();
        let [priority, lifetime] = mappings(compiler, &proxy.attached);
        let (places, priority_model) = pools.placement(channel, proxy);
        let settings = settings_under(&of_admin, proxy);
        Some(ConsumerRoute {
            key: ProxyKey { channel: channel.id(), proxy: proxy.id },
            admin: proxy.admin,
            peer: proxy.peer,
            connection: proxy.connection,
            start: proxy.start,
            resumes: proxy.resumes,
            form: proxy.form,
            output_form: proxy
                .output_form
                .marking_repeats(settings.mark_repeats)
                .marking_numbers(proxy.start.is_some()),
            settings,
            suspended: proxy.state == ProxyState::Suspended || proxy.is_away(),
            durable: proxy.durable,
            interest: Interest {
                proxy: proxy.subscription.clone(),
                admin: of_admin.subscription.clone(),
                operator: admin.operator,
                permitted: proxy.permitted.clone(),
            },
            pull: proxy.kind.pull,
            activity: proxy.activity.clone(),
            owner: proxy.owner.clone(),
            client_address: proxy.client_address,
            batches: proxy.kind.batches,
            remote_filters: self.both_remote(counts, proxy, &of_admin),
            places,
            priority_model,
            correlation: proxy.correlation.clone(),
            filters: if filters.is_empty() { Arc::clone(&self.no_filters) } else { filters.into() },
            filtered_admin: of_admin.place.filter(|_| counts),
            mappings: [priority.or(of_admin.mappings[0]), lifetime.or(of_admin.mappings[1])],
        })
    }

    /// The remote filters of a proxy and of its admin, if filters apply.
    fn both_remote(&self, counts: bool, proxy: &Proxy, of_admin: &OfAdmin) -> [Arc<[Peer]>; 2] {
        match counts {
            true => [self.remote(&proxy.attached), Arc::clone(&of_admin.remote)],
            false => [Arc::clone(&self.nobody), Arc::clone(&self.nobody)],
        }
    }

    /// The attached remote filters.
    fn remote(&self, attached: &Attached) -> Arc<[Peer]> {
        if attached.remote_filters().next().is_none() {
            return Arc::clone(&self.nobody);
        }
        attached.remote_filters().collect()
    }
}

/// A proxy's settings: its admin's, shared, unless it sets some itself.
fn settings_under(of_admin: &OfAdmin, proxy: &Proxy) -> Arc<OutboxSettings> {
    let settings = proxy.settings_under(*of_admin.outboxes, of_admin.window_is_set);
    if settings == *of_admin.outboxes { Arc::clone(&of_admin.outboxes) } else { Arc::new(settings) }
}

/// Whether an outbox with these settings may need more memory per event than a first-in, first-out one.
fn sorts(settings: &OutboxSettings) -> bool {
    settings.timeout.is_some()
        || matches!(settings.order_policy, OrderPolicy::Priority | OrderPolicy::Deadline)
        || matches!(settings.discard_policy, DiscardPolicy::Priority | DiscardPolicy::Deadline)
}

/// The filter groups on a supplier's side; `None` if there are no filters.
fn supplier_groups(source: Source<'_>, proxy: &Proxy, of_admin: &OfAdmin) -> Option<Arc<SupplierGroups>> {
    let own = SupplierGroup {
        local: slots(source.compiler, &proxy.attached).collect(),
        remote: proxy.attached.remote_filters().next().is_some(),
    };
    let admin = SupplierGroup { local: of_admin.local.clone(), remote: !of_admin.remote.is_empty() };
    if (own.is_empty() && admin.is_empty()) || !source.channel.filters_count(proxy) {
        return None;
    }
    let operator = source.channel.admins.get(&(proxy.side, proxy.admin))?.operator;
    Some(Arc::new(SupplierGroups { operator, proxy: own, admin }))
}

fn mappings(compiler: &Compiler, attached: &Attached) -> [Option<u32>; 2] {
    [Mapping::Priority, Mapping::Lifetime]
        .map(|mapping| attached.mapping(mapping).and_then(|filter| compiler.slot(filter)))
}

/// The slots of the attached local filters.
fn slots<'a>(compiler: &'a Compiler, attached: &'a Attached) -> impl Iterator<Item = u32> + 'a {
    attached.local_filters().filter_map(|filter| compiler.slot(filter))
}

/// Policy for events waiting to be handed over: they are dropped only where their consumers would have them dropped.
fn lossless_unless_discarded(requested: Option<FullOutbox>) -> Option<FullOutbox> {
    match requested {
        None | Some(FullOutbox::Discard) => requested,
        _ => Some(FullOutbox::Hold),
    }
}

/// The lanes that the channel uses.
fn lanes<'a>(
    pools: &Pools,
    suppliers: impl Iterator<Item = &'a SupplierRoute>,
    consumers: impl Iterator<Item = &'a ConsumerRoute>,
    keeps_history: bool,
) -> Arc<[LaneUse]> {
    let mut lanes = BTreeMap::new();
    let unused = |lane| LaneUse { lane, has_consumers: false, hold_events: None, full_outbox: None };
    for place in suppliers.flat_map(|route| route.places.iter()) {
        lanes.entry(place.lane).or_insert_with(|| unused(place.lane));
    }
    for route in consumers {
        let settings = &route.settings;
        // `Reject` works as `Hold` where the event's supplier is on another lane.
        let holds = matches!(settings.policy_at_bound(), Some(FullOutbox::Hold | FullOutbox::Reject));
        let bound = settings.max_events_per_consumer.filter(|_| holds);
        for place in route.places.iter() {
            let used = lanes.entry(place.lane).or_insert_with(|| unused(place.lane));
            used.full_outbox = match (used.full_outbox, settings.full_outbox) {
                (_, requested) if !used.has_consumers => lossless_unless_discarded(requested),
                (Some(FullOutbox::Discard), Some(FullOutbox::Discard)) => Some(FullOutbox::Discard),
                (None | Some(FullOutbox::Discard), None) | (None, Some(FullOutbox::Discard)) => None,
                _ => Some(FullOutbox::Hold),
            };
            used.has_consumers = true;
            used.hold_events = used.hold_events.into_iter().chain(bound).min();
        }
    }
    if keeps_history {
        // The main lane stores the history, whichever lanes have consumers.
        lanes.entry(LaneId::MAIN).or_insert_with(|| unused(LaneId::MAIN)).has_consumers = true;
    }
    if lanes.is_empty() { Arc::clone(pools.main_only()) } else { lanes.into_values().collect() }
}
