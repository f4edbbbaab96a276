//! Objects by key: the object that a key names, its servant, and the reference that clients have of it.

use super::Protocol;
use super::clients::Clients;
use super::nonces::Keys;
use super::settings::Properties;
use crate::exceptions::Raised;
use crate::filters::Filters;
use crate::keys::ObjectKey;
use crate::naming::Naming;
use crate::naming::{CHANNELS_KIND, NameComponent};
use crate::protocol::Creations;
use crate::protocol::Effect;
use crate::protocol::Ledger;
use crate::protocol::LocalProxyState;
use crate::protocol::Named;
use crate::protocol::Names;
use crate::protocol::PeerAddress;
use crate::protocol::ProtocolSettings;
use crate::protocol::Reconnection;
use crate::protocol::Thing;
use crate::protocol::octets_of_name;
use crate::protocol::weights;
use crate::proxy_kind::ProxyKind;
use crate::qos::Most;
use crate::qos::RequestedProperties;
use crate::qos::Unknown;
use crate::references::References;
use crate::table::{self, AdminKey, Servant, Target};
use engine::AdminId;
use engine::Hierarchy;
use engine::Operator;
use engine::Peer;
use engine::ProxyId;
use engine::Time;
use engine::Topics;
use engine::{ChannelId, ProxyKey, ProxyState, Side};
use giop::ior::{Ior, Profile};
use giop::realtime::{PriorityModel, PriorityModelPolicy};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::sync::Arc;

/// The objects that there are, with their keys, names, properties and owners.
///
/// Says what is, and changes one thing at a time. It knows nothing of probes, notifications and take-overs, which [`Protocol`] adds.
#[derive(Debug)]
pub struct Objects {
    /// What the protocol was built with.
    pub(crate) settings: ProtocolSettings,
    pub(crate) references: References,
    pub(crate) hierarchy: Hierarchy,
    pub(crate) filters: Filters,
    pub(crate) naming: Naming,
    pub(super) keys: Keys,
    /// What clients call channels, admins and proxies.
    pub(super) names: Names,
    pub(super) properties: Properties,
    pub(super) proxies: Proxies,
    pub(super) clients: Clients,
    /// Callbacks to notify that the service has restarted.
    pub(super) reconnection: Reconnection,
    /// What clients are charged for what is kept for them.
    pub(super) ledger: Ledger,
    /// What the last request has made.
    pub(crate) made: Creations,
    pub(super) effects: VecDeque<Effect>,
    pub(super) clock: Clock,
}

/// What is known of proxies beside what the engine knows.
#[derive(Debug, Default)]
pub(super) struct Proxies {
    pub(super) kinds: BTreeMap<ProxyKey, ProxyKind>,
    /// Proxies with clients that are not notified of changes.
    pub(super) silenced: BTreeSet<ProxyKey>,
    /// Clients of other protocols.
    pub(super) local: HashMap<ProxyKey, LocalProxyState>,
}

/// The two times.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// What time it is, as a `TimeBase::TimeT`.
    pub(super) utc: u64,
    /// The lane's time.
    pub(super) time: Time,
}

impl Objects {
    /// The default channel and nothing else.
    pub(crate) fn new(settings: ProtocolSettings) -> Self {
        let ProtocolSettings { host, port, secure, chars, hierarchy, naming, key_numbers, .. } = &settings;
        let references = References::new(host, *port, *chars).with_tls(*secure);
        let mut keys = Keys::new(*key_numbers);
        Self {
            naming: Naming::new(naming.clone(), || keys.drawing.next(), &references),
            references,
            hierarchy: Hierarchy::new(*hierarchy),
            filters: Filters::default(),
            keys,
            names: Names::default(),
            properties: Properties::default(),
            proxies: Proxies::default(),
            clients: Clients::default(),
            reconnection: Reconnection::default(),
            ledger: Ledger::default(),
            made: Creations::default(),
            effects: VecDeque::new(),
            clock: Clock::default(),
            settings,
        }
    }

    /// Whether there is an object with that key: the answer to a `LocateRequest`.
    #[must_use]
    pub fn locate(&self, key: &[u8]) -> bool {
        self.target(key).is_some()
    }

    /// A reference to the factory, the one that is written to a file for clients.
    #[must_use]
    pub fn factory_reference(&self) -> Ior {
        self.references.ior(table::type_id(table::FACTORY), &ObjectKey::Factory)
    }

    /// A client by its handle, for logs.
    #[must_use]
    pub fn client(&self, peer: Peer) -> Option<&Arc<PeerAddress>> {
        self.clients.by_peer.get(&peer).map(|client| &client.address)
    }

    /// A proxy and its client as an operator would call them, where `what` is the side that the client is on.
    #[must_use]
    pub fn name(&self, what: &str, key: ProxyKey) -> String {
        let proxy = self.hierarchy.proxy(key).ok();
        let quoted = |name: Option<&str>| name.map_or_else(String::new, |name| format!(" \"{}\"", name.escape_debug()));
        let own = quoted(proxy.and_then(|proxy| self.proxy_name(key, proxy.side)));
        let said = self.client_name(key).map_or_else(String::new, |name| format!("\"{}\": ", name.escape_debug()));
        let channel = quoted(self.channel_name(key.channel));
        let at = format!("{said}{what} proxy {}{own} of channel {}{channel}", key.proxy.0, key.channel.0);
        let peer = proxy.and_then(|proxy| proxy.peer);
        let client = peer.and_then(|peer| self.client(peer)).map(|client| &client.name);
        match client.or_else(|| self.proxies.local.get(&key).map(|local_proxy| &local_proxy.name)) {
            Some(name) => format!("{at} ({name})"),
            None => at,
        }
    }

    /// The name of a proxy that stays when its client connects again: its own, or its client's.
    #[must_use]
    pub fn lasting_name(&self, key: ProxyKey) -> Option<Arc<str>> {
        let side = self.hierarchy.proxy(key).ok()?.side;
        self.proxy_name(key, side).map(Arc::from).or_else(|| self.client_name(key))
    }

    /// What the connected client of a proxy is called, unless the proxy has a name of its own.
    #[must_use]
    pub fn client_name(&self, key: ProxyKey) -> Option<Arc<str>> {
        let proxy = self.hierarchy.proxy(key).ok()?;
        if proxy.state == ProxyState::Unconnected || self.proxy_name(key, proxy.side).is_some() {
            return None;
        }
        self.ledger.owner(Thing::Proxy(key))?.identity().name().cloned()
    }

    /// Emits a line for troubleshooting, where such lines are logged.
    pub(super) fn log_debug(&mut self, text: impl FnOnce(&Self) -> String) {
        if log::log_enabled!(target: "campanile::corba", log::Level::Debug) {
            let text = text(self);
            self.effects.push_back(Effect::DebugLine(text));
        }
    }

    /// The channels, admins and proxies.
    #[must_use]
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    pub(crate) fn channels(&self) -> impl Iterator<Item = ChannelId> {
        self.hierarchy.channels().map(engine::Channel::id)
    }

    pub(crate) fn has_channel(&self, channel: ChannelId) -> bool {
        self.hierarchy.channel(channel).is_ok()
    }

    /// The most that the service has of what properties ask for.
    pub(crate) fn most(&self) -> Most {
        let (threads, filter_steps) = (self.hierarchy.lane_threads_max(), self.hierarchy.filter_steps_max());
        let constraint_bytes = self.hierarchy.constraint_bytes_max();
        let (memory_bytes, has_store) = (self.settings.memory_bytes_max, self.settings.has_store);
        Most { threads, filter_steps, constraint_bytes, memory_bytes, has_store }
    }

    /// What a new channel is made of before its creator's wishes.
    pub(crate) fn initial_properties(&self) -> RequestedProperties {
        RequestedProperties {
            takes_unknown: self.compatibility().ignore_unknown_properties,
            takes_persistent: self.compatibility().persistent_without_store,
            unknown: Unknown::default(),
            most: self.most(),
            patch: self.settings.delivery,
            limits: self.settings.limits,
            pool: None,
            discipline: None,
            profile: crate::qos::Profile::Standard,
            topics: Topics::default(),
        }
    }

    pub(crate) fn admins(&self, channel: ChannelId, side: Side) -> Result<Vec<AdminId>, Raised> {
        Ok(self.hierarchy.admins(channel, side)?.map(|admin| admin.id).collect())
    }

    pub(crate) fn has_admin(&self, AdminKey { channel, side, admin }: AdminKey) -> bool {
        self.hierarchy.admin(channel, side, admin).is_ok()
    }

    pub(crate) fn operator(&self, AdminKey { channel, side, admin }: AdminKey) -> Result<Operator, Raised> {
        Ok(self.hierarchy.admin(channel, side, admin)?.operator)
    }

    pub(crate) fn create_admin(
        &mut self,
        channel: ChannelId,
        side: Side,
        operator: Operator,
        name: Option<&str>,
    ) -> Result<AdminKey, Raised> {
        name.map_or(Ok(()), |name| self.check_admin_name(channel, side, name))?;
        let claim = self.charge_octets(weights::ADMIN + octets_of_name(name))?;
        let admin = AdminKey { channel, side, admin: self.hierarchy.create_admin(channel, side, operator)? };
        name.into_iter().for_each(|name| self.give_name(Named::Admin(admin), name));
        self.adjust(Thing::Admin(admin), claim);
        self.note_owner(Thing::Admin(admin));
        self.made.note(Thing::Admin(admin));
        Ok(admin)
    }

    /// An admin's proxies of one direction that have an id: all but the Event Service's.
    pub(crate) fn notification_proxies(&self, key: AdminKey, pull: bool) -> Result<Vec<ProxyId>, Raised> {
        let AdminKey { channel, side, admin } = key;
        let ids = self.hierarchy.proxies(channel, side, admin)?.map(|proxy| proxy.id);
        let is_listed = |proxy: ProxyId| {
            let kind = self.proxies.kinds.get(&ProxyKey { channel, proxy });
            kind.is_some_and(|kind| !kind.is_plain() && kind.pull == pull)
        };
        Ok(ids.filter(|proxy| is_listed(*proxy)).collect())
    }

    pub(crate) fn is_notification_proxy(&self, admin: AdminKey, proxy: ProxyId) -> bool {
        let key = ProxyKey { channel: admin.channel, proxy };
        let belongs = |found: &engine::Proxy| found.side == admin.side && found.admin == admin.admin;
        let is_plain = self.proxies.kinds.get(&key).is_some_and(|kind| kind.is_plain());
        self.hierarchy.proxy(key).is_ok_and(belongs) && !is_plain
    }

    pub(crate) fn proxy_kind(&self, proxy: ProxyKey) -> Result<ProxyKind, Raised> {
        self.proxies.kinds.get(&proxy).copied().ok_or_else(Raised::object_not_exist)
    }

    pub(crate) fn admin_of(&self, key: ProxyKey) -> Result<AdminKey, Raised> {
        let proxy = self.hierarchy.proxy(key)?;
        Ok(AdminKey { channel: key.channel, side: proxy.side, admin: proxy.admin })
    }
}

impl Objects {
    /// The object with that key, if there is one.
    pub(crate) fn target(&self, key: &[u8]) -> Option<Target> {
        let Some(parsed) = ObjectKey::parse(key) else {
            if key == self.factory_name().as_bytes() {
                return Some(Target::Factory);
            }
            // `corbaloc::HOST:PORT/NAME`, as clients of omniEvents write it.
            return self.channel_named(core::str::from_utf8(key).ok()?).map(Target::Channel);
        };
        match parsed {
            ObjectKey::Factory => Some(Target::Factory),
            ObjectKey::Channel { channel, nonce } => {
                (self.keys.nonces.get(&channel)?.own == nonce).then_some(Target::Channel(channel))
            }
            ObjectKey::Admin { channel, nonce, side, admin } => {
                let admin = AdminKey { channel, side, admin };
                (self.keys.nonces.get(&channel)?.of_admin(admin) == nonce && self.has_admin(admin))
                    .then_some(Target::Admin(admin))
            }
            ObjectKey::Proxy { channel, nonce, proxy } => {
                let named = ProxyKey { channel, proxy };
                if self.keys.nonces.get(&channel)?.objects.of_proxy(named) != nonce {
                    return None;
                }
                let key = self.keys.aliases.resolve(named);
                Some(Target::Proxy(key, self.hierarchy.proxy(key).ok()?.side))
            }
            ObjectKey::FilterFactory { channel, nonce } => {
                (self.keys.nonces.get(&channel)?.own == nonce).then_some(Target::FilterFactory(channel))
            }
            ObjectKey::Filter { channel, nonce, filter } => {
                self.has_filter(channel, nonce, filter, false).then_some(Target::Filter(filter))
            }
            ObjectKey::MappingFilter { channel, nonce, filter } => {
                self.has_filter(channel, nonce, filter, true).then_some(Target::MappingFilter(filter))
            }
            ObjectKey::SchedulingService => Some(Target::SchedulingService),
            ObjectKey::GenericFactory => Some(Target::GenericFactory),
            ObjectKey::MonitorControl => Some(Target::MonitorControl),
            ObjectKey::NamingContext { id, nonce } => self.naming.context(id, nonce).map(Target::NamingContext),
            ObjectKey::BindingIterator { id, nonce } => self.naming.iterator(id, nonce).map(Target::BindingIterator),
        }
    }

    /// Whether a reference leads to this service, though what it led to may be gone.
    pub(crate) fn is_own_reference(&self, reference: &Ior) -> bool {
        reference.iiop().is_some_and(|profile| self.references.is_here(profile))
    }

    /// The object of this service to which a reference leads; nothing if it leads elsewhere, or nowhere.
    pub(crate) fn own_target(&self, reference: &Ior) -> Option<Target> {
        let profile = reference.iiop().filter(|profile| self.references.is_here(profile))?;
        self.target(&profile.key)
    }

    fn key(&self, target: Target) -> Option<ObjectKey> {
        Some(match target {
            Target::Factory => ObjectKey::Factory,
            Target::Channel(channel) => ObjectKey::Channel { channel, nonce: self.keys.nonces.get(&channel)?.own },
            Target::Admin(key) => {
                let AdminKey { channel, side, admin } = key;
                ObjectKey::Admin { channel, nonce: self.keys.nonces.get(&channel)?.of_admin(key), side, admin }
            }
            Target::Proxy(key, _) => {
                let ProxyKey { channel, proxy } = key;
                ObjectKey::Proxy { channel, nonce: self.keys.nonces.get(&channel)?.objects.of_proxy(key), proxy }
            }
            Target::FilterFactory(channel) => {
                ObjectKey::FilterFactory { channel, nonce: self.keys.nonces.get(&channel)?.own }
            }
            Target::Filter(filter) => {
                let channel = self.filters.channel(filter)?;
                ObjectKey::Filter {
                    channel,
                    nonce: self.keys.nonces.get(&channel)?.objects.of_filter(channel, filter),
                    filter,
                }
            }
            Target::MappingFilter(filter) => {
                let channel = self.filters.channel(filter)?;
                ObjectKey::MappingFilter {
                    channel,
                    nonce: self.keys.nonces.get(&channel)?.objects.of_filter(channel, filter),
                    filter,
                }
            }
            Target::SchedulingService => ObjectKey::SchedulingService,
            Target::GenericFactory => ObjectKey::GenericFactory,
            Target::MonitorControl => ObjectKey::MonitorControl,
            Target::NamingContext(id) => self.naming.context_key(id),
            Target::BindingIterator(id) => self.naming.iterator_key(id),
        })
    }

    pub(crate) fn servant(&self, target: Target) -> Result<Servant, Raised> {
        Ok(match target {
            Target::Factory => table::FACTORY,
            Target::Channel(ChannelId(0)) => table::DEFAULT_CHANNEL,
            Target::Channel(_) => table::CHANNEL,
            Target::Admin(AdminKey { side: Side::Consumers, .. }) => table::CONSUMER_ADMIN,
            Target::Admin(AdminKey { side: Side::Suppliers, .. }) => table::SUPPLIER_ADMIN,
            Target::Proxy(proxy, side) => self.proxy_kind(proxy)?.servant(side),
            Target::FilterFactory(_) => table::FILTER_FACTORY,
            Target::Filter(_) => table::FILTER,
            Target::MappingFilter(_) => table::MAPPING_FILTER,
            Target::SchedulingService => table::SCHEDULING_SERVICE,
            Target::GenericFactory => table::GENERIC_FACTORY,
            Target::MonitorControl => table::MONITOR_CONTROL,
            Target::NamingContext(_) => table::NAMING_CONTEXT,
            Target::BindingIterator(_) => table::BINDING_ITERATOR,
        })
    }

    pub(crate) fn reference(&self, target: Target) -> Result<Ior, Raised> {
        let key = self.key(target).ok_or_else(Raised::object_not_exist)?;
        let type_id = table::type_id(self.servant(target)?);
        Ok(match target {
            // Where events travel at priorities, the reference says so.
            Target::Proxy(proxy, _) => self.references.ior_with(type_id, &key, self.priority_model(proxy)),
            _ => self.references.ior(type_id, &key),
        })
    }

    /// The reference of the channel that has this name.
    #[must_use]
    pub fn reference_of_channel(&self, name: &str) -> Option<Ior> {
        self.reference(Target::Channel(self.channel_named(name)?)).ok()
    }

    /// A channel's reference with the channel's name as key, as `corbaloc::HOST:PORT/NAME` has it: equivalent to that for a client's ORB. A
    /// name that is a key of another object, or is not found, leaves the reference as it is.
    pub(crate) fn reference_by_name(&self, channel: ChannelId, name: &str) -> Result<Ior, Raised> {
        let mut reference = self.reference(Target::Channel(channel))?;
        if self.target(name.as_bytes()) == Some(Target::Channel(channel))
            && let Some(Profile::Iiop(profile)) = reference.profiles.first_mut()
        {
            profile.key = name.as_bytes().to_vec();
        }
        Ok(reference)
    }

    /// What the reference of a proxy says about priorities: nothing, unless it has a pool.
    fn priority_model(&self, proxy: ProxyKey) -> Option<PriorityModelPolicy> {
        let (model, server_priority) = self.hierarchy.priority_model(proxy)?;
        let model = match model {
            engine::PriorityModel::ClientPropagated => PriorityModel::ClientPropagated,
            engine::PriorityModel::ServerDeclared => PriorityModel::ServerDeclared,
        };
        Some(PriorityModelPolicy { model, server_priority })
    }
}

impl Protocol {
    /// The channel that a name in the naming service's root stands for though it is not what is bound to it: where nothing is, the one
    /// that has the name of a channel of events; where an object of this service is that is gone, the one that has the name by now.
    pub(crate) fn channel_behind(&self, name: &NameComponent, bound: Option<&Ior>) -> Option<Ior> {
        let is_gone = |bound: &Ior| self.objects.is_own_reference(bound) && self.objects.own_target(bound).is_none();
        if !bound.map_or(name.kind == CHANNELS_KIND, is_gone) {
            return None;
        }
        let channel = self.objects.channel_named(name.channel()?).filter(|channel| self.knows(*channel))?;
        self.objects.reference(Target::Channel(channel)).ok()
    }
}
