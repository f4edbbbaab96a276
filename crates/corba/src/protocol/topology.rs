//! The protocol's part of a [`Topology`]: the objects configured by clients, exported, and restored in a protocol without clients.
//!
//! References of restored objects stay valid: numbers and the random numbers in object keys are restored as well, and a used number is
//! never reused. Connected clients are connected again; they are called as before, and found dead if they are. Restored objects are not
//! charged, unless they come from a store.

pub(crate) mod convert;
mod restore;

pub use self::restore::NotRestored;

use self::convert::{
    event_types_to, events_to, limits_to, profile_to, reference_to, settings_to, topics_to, without_defaults,
};
use super::{LocalProxy, Objects, Thing};
use crate::table::{AdminKey, Level};
use engine::{
    Admin, AdminId, Attached, Channel, ChannelId, FilterId, FilterRef, FilterTarget, HierarchyPart, Mapping, Numbered,
    Proxy, ProxyId, ProxyKey, ProxyState, Reliability, Side, Subscription,
};
use std::collections::BTreeMap;
use topology as t;
use topology::Topology;

/// Maximum admins, proxies, filters, constraints and names in [`Objects::topology_json`], since it is produced in one go.
const EXPORTED_MAX: usize = 16_384;

/// Proxies in one page of a channel.
const PROXIES_AT_ONCE: usize = 256;
/// Maximum admins, filters and constraints described in one go.
const LISTED_MAX: usize = 16_384;

/// A part that may have changed: its key in the store, and its current content; `None` if it is gone.
pub type ChangedPart = (Vec<u8>, Option<Vec<u8>>);

impl Objects {
    /// The topology, as JSON; `None` beyond 16,384 admins, proxies, filters, constraints and names together.
    #[must_use]
    pub fn topology_json(&self) -> Option<String> {
        let proxies: usize =
            self.hierarchy.channels().map(|channel| channel.proxies_count() + channel.admins_count()).sum();
        let all = proxies + self.filters.constraints_count() + self.naming.bindings_count();
        (all <= EXPORTED_MAX).then(|| self.topology().to_json())
    }

    /// The topology.
    #[must_use]
    pub fn topology(&self) -> Topology {
        let mut filters = self.filters.exported(&self.ledger);
        let channels = self.hierarchy.channels();
        Topology {
            version: t::VERSION,
            next_channel: self.next_number(Numbered::Channels),
            next_filter: self.next_number(Numbered::Filters),
            next_registration: self.reconnection.next_number(),
            registrations: self.reconnection.exported(),
            channels: channels.map(|channel| self.exported_channel(channel, &mut filters)).collect(),
            links: self.links.exported(),
            naming: self.naming.exported(&self.references),
        }
    }

    /// Configuration of a channel, as JSON like its part of a topology, local proxies included: with the proxies from behind a given one,
    /// 256 at most; admins and filters come with the first proxies. `None` if the channel does not exist, or its admins and filters are too
    /// many.
    #[must_use]
    pub fn channel_json(&self, id: ChannelId, behind: Option<ProxyId>) -> Option<String> {
        let channel = self.hierarchy.channel(id).ok()?;
        let proxies = channel.proxies().filter(|proxy| behind.is_none_or(|behind| proxy.id > behind));
        let mut exported = t::Channel {
            proxies: proxies.take(PROXIES_AT_ONCE).filter_map(|proxy| self.described_proxy(id, proxy)).collect(),
            // Permission to know of a channel does not include the keys of others' objects.
            nonce: 0,
            objects_nonce: 0,
            former: None,
            ..self.exported_channel_alone(channel)
        };
        if behind.is_none() {
            if channel.admins_count() + self.filters.constraints_count() > LISTED_MAX {
                return None;
            }
            let sides = [Side::Consumers, Side::Suppliers];
            let admins = sides.into_iter().flat_map(|side| self.hierarchy.admins(id, side).into_iter().flatten());
            exported.admins = admins.map(|admin| self.exported_admin(id, admin)).collect();
            exported.filters = self.filters.exported_of(&self.ledger, id);
        }
        String::from_utf8(t::written(&exported)).ok()
    }

    /// The next number of a kind of objects.
    fn next_number(&self, of: Numbered) -> u32 {
        self.hierarchy.next_number(of).unwrap_or_default()
    }

    fn exported_channel(&self, channel: &Channel, filters: &mut BTreeMap<ChannelId, Vec<t::Filter>>) -> t::Channel {
        let id = channel.id();
        let sides = [Side::Consumers, Side::Suppliers];
        let admins = sides.into_iter().flat_map(|side| self.hierarchy.admins(id, side).into_iter().flatten());
        t::Channel {
            admins: admins.map(|admin| self.exported_admin(id, admin)).collect(),
            proxies: channel.proxies().filter_map(|proxy| self.exported_proxy(id, proxy)).collect(),
            filters: filters.remove(&id).unwrap_or_default(),
            ..self.exported_channel_alone(channel)
        }
    }

    /// A channel without its admins, proxies and filters.
    pub(super) fn exported_channel_alone(&self, channel: &Channel) -> t::Channel {
        let id = channel.id();
        let nonces = self.keys.nonces.get(&id);
        let (objects_nonce, former) = nonces.map_or((0, None), |nonces| nonces.objects.stored());
        t::Channel {
            id: id.0,
            name: self.names.channel_name(id).map(str::to_owned),
            former_name: self.names.former_name(id).map(|name| name.to_string()),
            declared: self.names.is_declared(id),
            nonce: nonces.map_or(0, |nonces| nonces.own),
            objects_nonce,
            former,
            profile: profile_to(self.profile(id)),
            limits: limits_to(channel.limits(), &self.settings.limits),
            settings: self
                .exported_settings(Level::Channel(id), &without_defaults(*channel.patch(), &self.settings.delivery)),
            topics: topics_to(channel.topics()),
            next_admin: self.next_number(Numbered::Admins(id)),
            next_proxy: self.next_number(Numbered::Proxies(id)),
            admins: Vec::new(),
            proxies: Vec::new(),
            filters: Vec::new(),
        }
    }

    fn exported_settings(&self, level: Level, patch: &engine::SettingsPatch) -> t::Settings {
        let pool = self.requested(level).ok().and_then(|requested| requested.pool);
        t::Settings { unknown: self.unknown_at(level).exported(), ..settings_to(patch, pool.as_ref()) }
    }

    pub(super) fn exported_admin(&self, channel: ChannelId, admin: &Admin) -> t::Admin {
        let (side, key) = (admin.side, AdminKey { channel, side: admin.side, admin: admin.id });
        let target = FilterTarget::Admin { channel, side, admin: admin.id };
        t::Admin {
            side,
            id: admin.id.0,
            name: self.names.admin_name(channel, side, admin.id).map(str::to_owned),
            operator: admin.operator,
            settings: self.exported_settings(Level::Admin(key), &admin.patch),
            owner: self.ledger.stored_owner(Thing::Admin(key)),
            selection: self.exported_selection(target, &admin.subscription, &admin.attached),
        }
    }

    fn exported_proxy(&self, channel: ChannelId, proxy: &Proxy) -> Option<t::Proxy> {
        // Clients of other protocols are there as long as their connections, unless they are durable consumers.
        let is_passing = !proxy.durable && proxy.peer.is_some_and(|peer| peer >= LocalProxy::FIRST_PEER);
        if is_passing { None } else { self.described_proxy(channel, proxy) }
    }

    /// The stored form of any proxy, local ones included.
    pub(super) fn described_proxy(&self, channel: ChannelId, proxy: &Proxy) -> Option<t::Proxy> {
        let key = ProxyKey { channel, proxy: proxy.id };
        let kind = self.proxies.kinds.get(&key)?;
        let client = proxy.peer.and_then(|peer| self.clients.by_peer.get(&peer));
        let client = (proxy.state != ProxyState::Unconnected).then(|| t::Client {
            reference: client.map(|client| reference_to(&self.references, &client.address.ior)),
            suspended: proxy.state == ProxyState::Suspended,
            of: self.ledger.stored_owner(Thing::Proxy(key)),
        });
        let owner = if client.is_some() { None } else { self.ledger.stored_owner(Thing::Proxy(key)) };
        Some(t::Proxy {
            id: proxy.id.0,
            name: self.names.proxy_name(key, proxy.side).map(str::to_owned),
            side: proxy.side,
            admin: proxy.admin.0,
            events: events_to(kind.events),
            pull: kind.pull,
            settings: self.exported_settings(Level::Proxy(key, proxy.side), &proxy.patch),
            when: proxy.correlation.as_ref().map(|correlation| correlation.text().to_owned()),
            selection: self.exported_selection(FilterTarget::Proxy(key), &proxy.subscription, &proxy.attached),
            silenced: self.proxies.silenced.contains(&key),
            aliases: self.keys.aliases.of(key).iter().map(|alias| alias.proxy.0).collect(),
            owner,
            durable: self.stored_durable(key, proxy.output_form),
            client,
        })
    }

    /// A proxy's subscriptions or offers, and its filters.
    pub(super) fn exported_selection_of(&self, key: ProxyKey) -> Option<t::Selection> {
        let proxy = self.hierarchy.proxy(key).ok()?;
        Some(self.exported_selection(FilterTarget::Proxy(key), &proxy.subscription, &proxy.attached))
    }

    fn exported_selection(&self, target: FilterTarget, types: &Subscription, attached: &Attached) -> t::Selection {
        let reference =
            |peer| self.peer(peer).map(|address| reference_to(&self.references, &address.ior)).unwrap_or_default();
        let filters = attached.filters().iter().map(|(id, filter)| t::Attached {
            id: *id,
            filter: match filter {
                FilterRef::Local(filter) => t::FilterRef::Filter(filter.0),
                FilterRef::Remote(peer) => t::FilterRef::Reference(reference(*peer)),
            },
        });
        // What gives lifetimes is the other half of the filter that clients know.
        let mapping = |mapping| {
            let filter = attached.mapping(mapping)?;
            Some(self.filters.whole_of(filter).0)
        };
        t::Selection {
            types: types.is_changed().then(|| event_types_to(types.types())),
            attached: filters.collect(),
            next_attached: self.next_number(Numbered::Attached(target)),
            priority_filter: mapping(Mapping::Priority),
            lifetime_filter: mapping(Mapping::Lifetime),
        }
    }

    /// The persistent parts of the topology, each under its key.
    #[must_use]
    pub fn image(&self) -> t::Image {
        let mut topology = self.topology();
        for channel in &mut topology.channels {
            let id = ChannelId(channel.id);
            channel.proxies.retain(|proxy| self.is_stored(ProxyKey { channel: id, proxy: ProxyId(proxy.id) }));
        }
        topology.image()
    }

    /// Whether a proxy and its client outlive the process.
    fn is_stored(&self, key: ProxyKey) -> bool {
        let found = self.hierarchy.proxy(key).map(|proxy| proxy.side);
        let reliability = found.and_then(|side| match side {
            Side::Consumers => self.hierarchy.effective(key).map(|settings| settings.connection_reliability),
            Side::Suppliers => self.hierarchy.effective_supplier(key).map(|settings| settings.connection_reliability),
        });
        reliability.is_ok_and(|reliability| reliability == Reliability::Persistent)
    }

    /// Number of changes recorded so far: if it is unchanged, nothing was changed in between.
    #[must_use]
    pub const fn changes_noted(&self) -> u64 {
        self.hierarchy.changes_noted()
            + self.naming.changes_noted()
            + self.reconnection.changes_noted()
            + self.links.changes_noted()
    }

    fn numbers(&self) -> t::Numbers {
        let (naming_nonce, next_context) = self.naming.numbers();
        t::Numbers {
            version: t::VERSION,
            next_channel: self.next_number(Numbered::Channels),
            next_filter: self.next_number(Numbered::Filters),
            naming_nonce,
            next_context,
            next_registration: self.reconnection.next_number(),
        }
    }

    fn stored_channel(&self, id: ChannelId) -> Option<Vec<u8>> {
        let channel = self.hierarchy.channel(id).ok()?;
        Some(t::written(&self.exported_channel_alone(channel)))
    }

    fn stored_admin(&self, channel: ChannelId, side: Side, id: AdminId) -> Option<Vec<u8>> {
        let admin = self.hierarchy.admin(channel, side, id).ok()?;
        Some(t::written(&self.exported_admin(channel, admin)))
    }

    fn stored_proxy(&self, channel: ChannelId, id: ProxyId) -> Option<Vec<u8>> {
        let key = ProxyKey { channel, proxy: id };
        let proxy = self.hierarchy.proxy(key).ok().filter(|_| self.is_stored(key))?;
        Some(t::written(&self.exported_proxy(channel, proxy)?))
    }

    fn stored_filter(&self, id: FilterId) -> Option<Vec<u8>> {
        let (channel, filter) = self.filters.exported_one(&self.ledger, id)?;
        Some(t::written(&t::OwnFilter { channel: channel.0, filter }))
    }

    /// Records changes from now on, for [`poll_changed_part`](Self::poll_changed_part).
    pub fn note_changed_parts(&mut self) {
        self.hierarchy.note_changed_parts();
        self.naming.note_changed_parts();
        self.reconnection.note_changed_parts();
        self.links.note_changed_parts();
    }

    /// Takes a part of the topology that may have been changed, made or removed since it was last taken. `None` when there is no other.
    pub fn poll_changed_part(&mut self) -> Option<ChangedPart> {
        let change = |part: t::Part, value: Option<Vec<u8>>| Some((part.key(), value));
        if let Some(part) = self.hierarchy.poll_changed_part() {
            return match part {
                HierarchyPart::Numbers => change(t::Part::Numbers, Some(t::written(&self.numbers()))),
                HierarchyPart::Channel(id) => change(t::Part::Channel(id.0), self.stored_channel(id)),
                HierarchyPart::Admin(channel, side, id) => {
                    change(t::Part::of_admin(channel.0, side, id.0), self.stored_admin(channel, side, id))
                }
                HierarchyPart::Proxy(ProxyKey { channel, proxy }) => {
                    change(t::Part::Proxy { channel: channel.0, id: proxy.0 }, self.stored_proxy(channel, proxy))
                }
                HierarchyPart::Filter(id) => {
                    let whole = self.filters.whole_of(id);
                    change(t::Part::Filter(whole.0), self.stored_filter(whole))
                }
            };
        }
        let changed = self.naming.poll_changed_part(&self.references);
        let changed = changed.or_else(|| self.reconnection.poll_changed_part());
        match changed.or_else(|| self.links.poll_changed_part())? {
            (t::Part::Numbers, _) => change(t::Part::Numbers, Some(t::written(&self.numbers()))),
            (part, value) => change(part, value),
        }
    }
}
