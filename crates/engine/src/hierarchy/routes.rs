//! From a channel to its part of the routing snapshot.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::compile::Compiler;
use super::filters::{Attached, Mapping};
use super::pools::Pools;
use super::{Channel, Proxy, ProxyState};
use crate::routing::LaneUse;
use crate::table::{Filtering, SupplierGroup, SupplierGroups, Target};
use crate::{AdminId, ChannelRoutes, ConsumerRoute, FullOutbox, Interest, Peer, ProxyKey, Side, SupplierRoute, Want};

/// Builds a channel's routes. Costs as much as it has proxies and attached filters.
pub(super) fn build(channel: &Channel, compiler: &Compiler, pools: &Pools) -> ChannelRoutes {
    let mut builder = Builder::new(channel, compiler, pools);
    let suppliers = channel.proxies().filter(|proxy| proxy.side == Side::Suppliers);
    let suppliers: HashMap<_, _> = suppliers.map(|proxy| (proxy.id, builder.supplier(proxy))).collect();
    let mut consumers: Vec<ConsumerRoute> = Vec::new();
    for proxy in channel.proxies() {
        consumers.extend(builder.consumer(proxy, consumers.len()));
    }
    let mut wants: Vec<Want> = consumers.iter().map(|consumer| consumer.want).collect();
    wants.sort_unstable();
    wants.dedup();
    let lanes = lanes(pools, suppliers.values(), &consumers);
    let filtering = builder.finish();
    ChannelRoutes {
        id: channel.id(),
        limits: *channel.limits(),
        topics: Arc::clone(channel.topics()),
        connected_suppliers: channel.connected(Side::Suppliers),
        suppliers,
        consumers,
        wants,
        filtering,
        lanes,
    }
}

/// Which lanes have something of the channel.
fn lanes<'a>(
    pools: &Pools,
    suppliers: impl Iterator<Item = &'a SupplierRoute>,
    consumers: &[ConsumerRoute],
) -> Arc<[LaneUse]> {
    if pools.is_empty() {
        return Arc::clone(pools.main_only());
    }
    let mut lanes = BTreeMap::new();
    let unused = |lane| LaneUse { lane, has_consumers: false, hold_events: None };
    for place in suppliers.flat_map(|route| route.places.iter()) {
        lanes.entry(place.lane).or_insert_with(|| unused(place.lane));
    }
    for route in consumers {
        let settings = &route.settings;
        // `Reject` works as `Hold` where the event's supplier is on another lane.
        let holds = matches!(settings.full_outbox, Some(FullOutbox::Hold | FullOutbox::Reject));
        let bound = settings.max_events_per_consumer.filter(|_| holds);
        for place in route.places.iter() {
            let used = lanes.entry(place.lane).or_insert_with(|| unused(place.lane));
            used.has_consumers = true;
            used.hold_events = used.hold_events.into_iter().chain(bound).min();
        }
    }
    if lanes.is_empty() { Arc::clone(pools.main_only()) } else { lanes.into_values().collect() }
}

struct Builder<'c> {
    channel: &'c Channel,
    compiler: &'c Compiler,
    pools: &'c Pools,
    none: Arc<[Peer]>,
    /// What of each admin's filters its proxies share.
    admins: BTreeMap<(Side, AdminId), AdminFilters>,
    /// How many consumers' admins have filters made here.
    filtered_admins: u32,
    /// Which filters belong to which groups of consumers.
    pairs: Vec<(u32, Target)>,
    any_mapping: bool,
}

#[derive(Clone)]
struct AdminFilters {
    remote: Arc<[Peer]>,
    /// On the suppliers' side.
    local: Box<[u32]>,
    /// On the consumers' side: its place among the admins that have filters.
    place: Option<u32>,
    mappings: [Option<u32>; 2],
}

impl<'c> Builder<'c> {
    fn new(channel: &'c Channel, compiler: &'c Compiler, pools: &'c Pools) -> Self {
        let (none, admins) = (Arc::new([]), BTreeMap::new());
        let mut builder =
            Self { channel, compiler, pools, none, admins, filtered_admins: 0, pairs: Vec::new(), any_mapping: false };
        for (id, admin) in channel.admins.iter().filter(|(_, admin)| !admin.attached.is_empty()) {
            let attached = &admin.attached;
            let mut filters = AdminFilters {
                remote: builder.remote(attached),
                local: Box::new([]),
                place: None,
                mappings: builder.mappings(attached),
            };
            if admin.side == Side::Suppliers {
                filters.local = builder.slots(attached).collect();
            } else if attached.local_filters().next().is_some() {
                let place = builder.filtered_admins;
                filters.place = Some(place);
                builder.filtered_admins += 1;
                builder.pairs.extend(slots(compiler, attached).map(|slot| (slot, Target::Admin(place))));
            }
            builder.admins.insert(*id, filters);
        }
        builder
    }

    fn supplier(&self, proxy: &Proxy) -> SupplierRoute {
        let (places, priority_model) = self.pools.placement(self.channel, proxy);
        SupplierRoute {
            form: proxy.form,
            peer: proxy.peer,
            state: proxy.state,
            admin: proxy.admin,
            settings: self.channel.effective_supplier(proxy),
            pull: proxy.kind.pull,
            batches: proxy.kind.batches,
            remote_filters: self.remotes(proxy),
            places,
            priority_model,
            groups: self.supplier_groups(proxy),
        }
    }

    /// The groups of filters on a supplier's side, if there are filters.
    fn supplier_groups(&self, proxy: &Proxy) -> Option<Arc<SupplierGroups>> {
        let own = SupplierGroup {
            local: self.slots(&proxy.attached).collect(),
            remote: proxy.attached.remote_filters().next().is_some(),
        };
        let admin = self.admins.get(&(proxy.side, proxy.admin));
        let admin = admin.map(|admin| SupplierGroup { local: admin.local.clone(), remote: !admin.remote.is_empty() });
        let admin = admin.unwrap_or_default();
        if own.is_empty() && admin.is_empty() {
            return None;
        }
        let operator = self.channel.admins.get(&(proxy.side, proxy.admin))?.operator;
        Some(Arc::new(SupplierGroups { operator, proxy: own, admin }))
    }

    /// The route of a connected consumer, which will have this place.
    fn consumer(&mut self, proxy: &Proxy, place: usize) -> Option<ConsumerRoute> {
        if proxy.side != Side::Consumers || proxy.state == ProxyState::Unconnected {
            return None;
        }
        if proxy.peer.is_none() && !proxy.kind.pull {
            return None;
        }
        let admin = self.channel.admins.get(&(proxy.side, proxy.admin))?;
        let before = self.pairs.len();
        if !proxy.attached.is_empty() {
            let member = Target::Member(u32::try_from(place).unwrap_or(u32::MAX));
            self.pairs.extend(slots(self.compiler, &proxy.attached).map(|slot| (slot, member)));
        }
        let admin_filters = self.admins.get(&(proxy.side, proxy.admin));
        let of_admin = admin_filters.map_or([None; 2], |admin| admin.mappings);
        let [priority, lifetime] = self.mappings(&proxy.attached);
        let mappings = [priority.or(of_admin[0]), lifetime.or(of_admin[1])];
        self.any_mapping |= mappings.iter().any(Option::is_some);
        let (places, priority_model) = self.pools.placement(self.channel, proxy);
        Some(ConsumerRoute {
            key: ProxyKey { channel: self.channel.id(), proxy: proxy.id },
            admin: proxy.admin,
            peer: proxy.peer,
            connection: proxy.connection,
            form: proxy.form,
            want: proxy.want,
            settings: self.channel.effective(proxy),
            suspended: proxy.state == ProxyState::Suspended,
            interest: Interest {
                proxy: proxy.subscription.clone(),
                admin: admin.subscription.clone(),
                operator: admin.operator,
            },
            pull: proxy.kind.pull,
            batches: proxy.kind.batches,
            remote_filters: self.remotes(proxy),
            places,
            priority_model,
            filtered: self.pairs.len() > before,
            filtered_admin: admin_filters.and_then(|admin| admin.place),
            mappings,
        })
    }

    fn finish(self) -> Filtering {
        Filtering::new(Arc::clone(self.compiler.table()), self.filtered_admins, self.any_mapping, self.pairs)
    }

    /// The filters that clients implement: the proxy's, and its admin's.
    fn remotes(&self, proxy: &Proxy) -> [Arc<[Peer]>; 2] {
        let admin = self.admins.get(&(proxy.side, proxy.admin)).map_or(&self.none, |admin| &admin.remote);
        [self.remote(&proxy.attached), Arc::clone(admin)]
    }

    fn remote(&self, attached: &Attached) -> Arc<[Peer]> {
        if attached.remote_filters().next().is_none() {
            return Arc::clone(&self.none);
        }
        attached.remote_filters().collect()
    }

    fn mappings(&self, attached: &Attached) -> [Option<u32>; 2] {
        [Mapping::Priority, Mapping::Lifetime]
            .map(|mapping| attached.mapping(mapping).and_then(|filter| self.compiler.slot(filter)))
    }

    fn slots<'a>(&'a self, attached: &'a Attached) -> impl Iterator<Item = u32> + 'a {
        slots(self.compiler, attached)
    }
}

/// The slots of the filters made here.
fn slots<'a>(compiler: &'a Compiler, attached: &'a Attached) -> impl Iterator<Item = u32> + 'a {
    attached.local_filters().filter_map(|filter| compiler.slot(filter))
}
