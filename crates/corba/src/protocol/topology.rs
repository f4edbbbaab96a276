//! The protocol's part of a [`Topology`]: what clients have configured, exported, and restored in a protocol that has no clients yet.
//!
//! References of what is restored are those that clients have: numbers and the random numbers in object keys are restored with it, and a
//! number that was given out is never given out again. Clients that were connected are connected again; they are called as ever, and found
//! dead if they are. What is restored is not charged, unless it is from a store.

pub(crate) mod convert;
mod former;
mod restore;
mod stored;

pub(super) use self::former::Former;
pub use self::former::RestoredClient;
pub use self::restore::NotRestored;
pub use self::stored::ChangedPart;

use self::convert::{
    event_types_to, events_to, limits_to, profile_to, reference_to, settings_to, topics_to, without_defaults,
};
use super::{LocalProxy, Objects, Protocol, Thing};
use crate::table::Level;
use engine::{
    Admin, Attached, Channel, ChannelId, FilterRef, FilterTarget, Mapping, Numbered, Proxy, ProxyKey, ProxyState,
    Subscription,
};
use std::collections::BTreeMap;
use topology as t;
use topology::Topology;

/// Admins, proxies, filters, constraints and names of which [`Objects::topology_json`] tells: so many at most, since it is done in one go.
const EXPORTED_MAX: usize = 16_384;

impl Objects {
    /// What is configured, as JSON; nothing if it is more than 16,384 admins, proxies, filters, constraints and
    /// names together.
    #[must_use]
    pub fn topology_json(&self) -> Option<String> {
        let proxies: usize =
            self.hierarchy.channels().map(|channel| channel.proxies_count() + channel.admins_count()).sum();
        let all = proxies + self.filters.constraints_count() + self.naming.bindings_count();
        (all <= EXPORTED_MAX).then(|| self.topology().to_json())
    }

    /// What is configured.
    #[must_use]
    pub fn topology(&self) -> Topology {
        let mut filters = self.exported_filters();
        let channels = self.hierarchy.channels();
        Topology {
            version: t::VERSION,
            next_channel: self.next_number(Numbered::Channels),
            next_filter: self.next_number(Numbered::Filters),
            next_registration: self.reconnection.next_number(),
            registrations: self.reconnection.exported(),
            channels: channels.map(|channel| self.exported_channel(channel, &mut filters)).collect(),
            naming: self.naming.exported(&self.references),
        }
    }

    /// Of what there is.
    fn next_number(&self, of: Numbered) -> u32 {
        self.hierarchy.next_number(of).unwrap_or_default()
    }

    fn exported_channel(&self, channel: &Channel, filters: &mut BTreeMap<ChannelId, Vec<t::Filter>>) -> t::Channel {
        let id = channel.id();
        let sides = [engine::Side::Consumers, engine::Side::Suppliers];
        let admins = sides.into_iter().flat_map(|side| self.hierarchy.admins(id, side).into_iter().flatten());
        t::Channel {
            admins: admins.map(|admin| self.exported_admin(id, admin)).collect(),
            proxies: channel.proxies().filter_map(|proxy| self.exported_proxy(id, proxy)).collect(),
            filters: filters.remove(&id).unwrap_or_default(),
            ..self.exported_channel_alone(channel)
        }
    }

    /// Without its admins, proxies and filters.
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
        let (side, key) = (admin.side, crate::table::AdminKey { channel, side: admin.side, admin: admin.id });
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
        // Clients of other protocols are there as long as their connections.
        let is_guest = proxy.peer.is_some_and(|peer| peer >= LocalProxy::FIRST_PEER);
        if is_guest { None } else { self.described_proxy(channel, proxy) }
    }

    /// The same of whichever proxy.
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
            selection: self.exported_selection(FilterTarget::Proxy(key), &proxy.subscription, &proxy.attached),
            silenced: self.proxies.silenced.contains(&key),
            aliases: self.keys.aliases.of(key).iter().map(|alias| alias.proxy.0).collect(),
            owner,
            client,
        })
    }

    /// What a proxy subscribes to or offers, and its filters.
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
}

impl Protocol {
    /// Makes what [`topology_json`](Objects::topology_json) describes, as [`restore`](Self::restore) does.
    ///
    /// # Errors
    ///
    /// Why not, for people.
    pub fn apply_json(&mut self, text: &str) -> Result<(), String> {
        self.apply_json_and(text, |_| {})
    }

    /// The same; `configure` is called when everything is there, and no client is connected yet.
    ///
    /// # Errors
    ///
    /// Why not, for people.
    pub fn apply_json_and(&mut self, text: &str, configure: impl FnOnce(&mut Self)) -> Result<(), String> {
        let topology = Topology::from_json(text).map_err(|error| error.to_string())?;
        self.restore_and(&topology, configure).map_err(|error| error.to_string())
    }
}
