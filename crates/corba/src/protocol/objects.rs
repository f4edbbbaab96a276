//! Objects by key: the object of a key, its servant, and its reference.

use super::added_links::AddedLinks;
use super::clients::Clients;
use super::durable::Durables;
use super::nonces::Keys;
use super::settings::Properties;
use super::{
    Compatibility, Creations, Effect, Ledger, LocalProxyState, Named, Names, PeerAddress, ProtocolSettings,
    Reconnection, Thing, octets_of_name, weights,
};
use crate::exceptions::Raised;
use crate::filters::Filters;
use crate::keys::ObjectKey;
use crate::naming::Naming;
use crate::proxy_kind::ProxyKind;
use crate::qos::{Most, RequestedProperties, Unknown};
use crate::references::References;
use crate::table::{self, AdminKey, Servant, Target};
use access::Channel;
use accounts::Account;
use engine::{
    AdminId, ChannelId, FilterId, Hierarchy, Operator, Peer, ProxyId, ProxyKey, ProxyState, Side, Time, Topics,
};
use giop::ior::{Ior, Profile};
use giop::realtime::{PriorityModel, PriorityModelPolicy};
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The objects with their keys, names, properties and owners.
///
/// Answers queries and changes one object at a time. Probes, notifications and take-overs are added by [`Protocol`](super::Protocol).
#[derive(Debug)]
pub struct Objects {
    /// The protocol's settings.
    pub(crate) settings: ProtocolSettings,
    pub(crate) references: References,
    pub(crate) hierarchy: Hierarchy,
    pub(crate) filters: Filters,
    pub(crate) naming: Naming,
    pub(super) keys: Keys,
    /// Names given by clients to channels, admins and proxies.
    pub names: Names,
    pub(super) properties: Properties,
    pub(super) proxies: Proxies,
    pub(super) clients: Clients,
    /// Callbacks to notify that the service has restarted.
    pub(super) reconnection: Reconnection,
    /// Links that operators have added.
    pub(super) links: AddedLinks,
    /// Charges of clients for stored objects.
    pub(crate) ledger: Ledger,
    /// Objects made by the last request.
    pub(crate) made: Creations,
    pub(super) effects: VecDeque<Effect>,
    pub(crate) clock: Clock,
}

/// A part of [`Objects`], with the rest that its changes need: the engine's objects, charges, calls.
pub(crate) struct InContext<'a, T> {
    pub(crate) own: &'a mut T,
    pub(crate) hierarchy: &'a mut Hierarchy,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) made: &'a mut Creations,
    pub(crate) effects: &'a mut VecDeque<Effect>,
    pub(crate) references: &'a References,
    pub(crate) clock: &'a Clock,
}

/// State of proxies outside of the engine.
#[derive(Debug, Default)]
pub(super) struct Proxies {
    pub(super) kinds: BTreeMap<ProxyKey, ProxyKind>,
    /// Proxies with clients that are not notified of changes.
    pub(super) silenced: BTreeSet<ProxyKey>,
    /// State of other protocols' clients.
    pub(super) local: HashMap<ProxyKey, LocalProxyState>,
    /// Durable consumers.
    pub(super) durables: Durables,
    /// Times that everything was subscribed to instead of too many event types.
    pub(super) widened: u64,
}

/// The two times.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// Wall-clock time as a `TimeBase::TimeT`.
    pub(crate) utc: u64,
    /// The lane's time.
    pub(crate) time: Time,
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
            links: AddedLinks::default(),
            ledger: Ledger::default(),
            made: Creations::default(),
            effects: VecDeque::new(),
            clock: Clock::default(),
            settings,
        }
    }

    /// Compatibility with old servers.
    pub(crate) fn compatibility(&self) -> &Compatibility {
        &self.settings.compatibility
    }

    pub(crate) fn factory_name(&self) -> &str {
        &self.settings.compatibility.factory_name
    }

    /// The filters, for changes.
    pub(crate) fn filters(&mut self) -> InContext<'_, Filters> {
        let Self { filters: own, hierarchy, ledger, made, effects, references, clock, .. } = self;
        InContext { own, hierarchy, ledger, made, effects, references, clock }
    }

    /// The reconnection callbacks, for changes.
    pub(crate) fn reconnection(&mut self) -> InContext<'_, Reconnection> {
        let Self { reconnection: own, hierarchy, ledger, made, effects, references, clock, .. } = self;
        InContext { own, hierarchy, ledger, made, effects, references, clock }
    }

    /// Whether an object has that key: the answer to a `LocateRequest`.
    #[must_use]
    pub fn locate(&self, key: &[u8]) -> bool {
        self.target(key).is_some()
    }

    /// The factory's reference, as written to a file for clients.
    #[must_use]
    pub fn factory_reference(&self) -> Ior {
        self.references.factory()
    }

    /// A client by its handle, for logs.
    #[must_use]
    pub fn client(&self, peer: Peer) -> Option<&Arc<PeerAddress>> {
        self.clients.by_peer.get(&peer).map(|client| &client.address)
    }

    /// A proxy and its client as named for operators; `what` is the client's side.
    #[must_use]
    pub fn name(&self, what: &str, key: ProxyKey) -> String {
        let proxy = self.hierarchy.proxy(key).ok();
        let quoted = |name: Option<&str>| name.map_or_else(String::new, |name| format!(" \"{}\"", name.escape_debug()));
        let own = quoted(proxy.and_then(|proxy| self.names.proxy_name(key, proxy.side)));
        let client = self.client_name(key).map_or_else(String::new, |name| format!("\"{}\": ", name.escape_debug()));
        let channel = quoted(self.names.channel_name(key.channel));
        let at = format!("{client}{what} proxy {}{own} of channel {}{channel}", key.proxy.0, key.channel.0);
        let peer = proxy.and_then(|proxy| proxy.peer);
        let client = peer.and_then(|peer| self.client(peer)).map(|client| &client.name);
        match client.or_else(|| self.proxies.local.get(&key).map(|local_proxy| &local_proxy.name)) {
            Some(name) => format!("{at} ({name})"),
            None => at,
        }
    }

    pub(super) fn made_by_act(&self) -> Option<String> {
        let channel = |thing: &Thing| match thing {
            Thing::Channel(channel) => Some(self.describe_channel(*channel)),
            _ => None,
        };
        self.made.things().find_map(channel)
    }

    pub(super) fn describe_target(&self, target: Target) -> String {
        let in_channel =
            |what: &str, number: u32, channel| format!("{what} {number} of {}", self.describe_channel(channel));
        match target {
            Target::Channel(channel) | Target::FilterFactory(channel) => self.describe_channel(channel),
            Target::Admin(AdminKey { channel, admin, .. }) => in_channel("admin", admin.0, channel),
            Target::Proxy(key, side) => self.name(if side == Side::Suppliers { "supplier" } else { "consumer" }, key),
            Target::Filter(filter) | Target::MappingFilter(filter) => match self.filters.channel(filter) {
                Some(channel) => in_channel("filter", filter.0, channel),
                None => format!("filter {}", filter.0),
            },
            Target::NamingContext(_) | Target::BindingIterator(_) => "the naming service".to_owned(),
            Target::Factory | Target::SchedulingService | Target::GenericFactory | Target::MonitorControl => {
                Channel::SERVICE.to_string()
            }
        }
    }

    pub(super) fn describe_channel(&self, channel: ChannelId) -> String {
        let name = self.names.for_rules(channel);
        Channel { id: Some(channel), name: name.map(AsRef::as_ref) }.to_string()
    }

    /// The name of a proxy that stays across reconnections: its own, or its client's.
    #[must_use]
    pub fn lasting_name(&self, key: ProxyKey) -> Option<Arc<str>> {
        let side = self.hierarchy.proxy(key).ok()?.side;
        self.names.proxy_name(key, side).map(Arc::from).or_else(|| self.client_name(key))
    }

    /// The name of a proxy's connected client, unless the proxy has its own.
    #[must_use]
    pub fn client_name(&self, key: ProxyKey) -> Option<Arc<str>> {
        let proxy = self.hierarchy.proxy(key).ok()?;
        if proxy.state == ProxyState::Unconnected || self.names.proxy_name(key, proxy.side).is_some() {
            return None;
        }
        self.ledger.owner(Thing::Proxy(key))?.identity().name().cloned()
    }

    /// Updates the names of all proxies' clients from the configuration.
    pub fn rename_clients<'n>(&self, name: impl Fn(&Account) -> Option<&'n Arc<str>>) {
        for channel in self.hierarchy.channels() {
            for proxy in channel.proxies() {
                let key = ProxyKey { channel: channel.id(), proxy: proxy.id };
                if let Some(account) = self.ledger.owner(Thing::Proxy(key)) {
                    account.identity().give_name(name(&account));
                }
            }
        }
    }

    /// Emits a line for troubleshooting, where such lines are logged.
    pub(super) fn log_debug(&mut self, text: impl FnOnce(&Self) -> String) {
        if log::log_enabled!(target: "campanile::corba", log::Level::Debug) {
            let text = text(self);
            self.effects.push_back(Effect::DebugLine(text));
        }
    }

    /// Ends the service on request of a client with that right.
    pub(crate) fn ask_for_the_end(&mut self) {
        let by = self.asker();
        self.effects.push_back(Effect::End { by });
    }

    pub(super) fn asker(&self) -> IpAddr {
        self.ledger.principal().map_or_else(|| Ipv4Addr::UNSPECIFIED.into(), |who| who.ip())
    }

    /// Sets wall-clock time, for the run-time variable `$curtime` and for absolute time limits: in 100 ns since 15 October 1582, UTC, as
    /// `TimeBase::TimeT`. Until then it is the beginning of that epoch.
    pub fn handle_utc(&mut self, now: u64) {
        self.clock.utc = now;
    }

    /// Evaluations on clients' requests that were cut off, because of their time or their steps, since the last call.
    pub fn take_filter_cuts(&mut self) -> u64 {
        core::mem::take(&mut self.filters.cuts)
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.utc
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

    /// The service's limits for properties.
    pub(crate) fn most(&self) -> Most {
        let (threads, filter_steps) = (self.hierarchy.lane_threads_max(), self.hierarchy.filter_steps_max());
        let constraint_bytes = self.hierarchy.constraint_bytes_max();
        let (memory_bytes, has_store) = (self.settings.memory_bytes_max, self.settings.has_store);
        Most { threads, filter_steps, constraint_bytes, memory_bytes, has_store }
    }

    /// The initial properties of a new channel, before its creator's.
    pub(crate) fn initial_properties(&self) -> RequestedProperties {
        RequestedProperties {
            takes_unknown: self.compatibility().ignore_unknown_properties,
            takes_persistent: self.compatibility().persistent_without_store,
            unknown: Unknown::default(),
            most: self.most(),
            patch: self.settings.delivery,
            limits: self.settings.limits,
            correlation: None,
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
        name.map_or(Ok(()), |name| self.names.check_admin_name(channel, side, name))?;
        let claim = self.ledger.charge_octets(weights::ADMIN + octets_of_name(name))?;
        let admin = AdminKey { channel, side, admin: self.hierarchy.create_admin(channel, side, operator)? };
        name.into_iter().for_each(|name| self.names.give_new(&mut self.hierarchy, Named::Admin(admin), name));
        self.adjust(Thing::Admin(admin), claim);
        self.ledger.note_owner(Thing::Admin(admin));
        self.made.note(Thing::Admin(admin));
        Ok(admin)
    }

    /// Sets the operator of a new channel's default admins as in old servers, if configured.
    pub(super) fn set_default_operator(&mut self, channel: ChannelId) -> Result<(), Raised> {
        if self.compatibility().default_admins_or {
            for side in [Side::Consumers, Side::Suppliers] {
                self.hierarchy.set_default_operator(channel, side, Operator::Or)?;
            }
        }
        Ok(())
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
    /// The object with that key, if it exists.
    pub(crate) fn target(&self, key: &[u8]) -> Option<Target> {
        let Some(parsed) = ObjectKey::parse(key) else {
            if key == self.factory_name().as_bytes() {
                return Some(Target::Factory);
            }
            // `corbaloc::HOST:PORT/NAME`, as clients of omniEvents write it.
            return self.names.channel_named(core::str::from_utf8(key).ok()?).map(Target::Channel);
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

    /// Whether a reference leads to this service, even if its object is gone.
    pub(crate) fn is_own_reference(&self, reference: &Ior) -> bool {
        reference.iiop().is_some_and(|profile| self.references.is_here(profile))
    }

    /// The proxy for a number: its successor, if another one has taken it over.
    pub(crate) fn found_by(&self, key: ProxyKey) -> ProxyKey {
        self.keys.aliases.resolve(key)
    }

    /// The object of this service that a reference leads to; `None` if it leads elsewhere, or nowhere.
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

    /// The channel in which an object is.
    pub(super) fn channel_of(&self, target: Target) -> Option<ChannelId> {
        match target {
            Target::Channel(channel) | Target::FilterFactory(channel) => Some(channel),
            Target::Admin(AdminKey { channel, .. }) | Target::Proxy(ProxyKey { channel, .. }, _) => Some(channel),
            Target::Filter(filter) | Target::MappingFilter(filter) => self.filters.channel(filter),
            Target::Factory
            | Target::SchedulingService
            | Target::GenericFactory
            | Target::MonitorControl
            | Target::NamingContext(_)
            | Target::BindingIterator(_) => None,
        }
    }

    /// Whether a filter, or mapping filter, with these numbers in its key exists.
    fn has_filter(&self, channel: ChannelId, nonce: u128, filter: FilterId, maps: bool) -> bool {
        self.filters.channel(filter) == Some(channel)
            && self.filters.is_mapping(filter) == maps
            && self.keys.nonces.get(&channel).is_some_and(|nonces| nonces.objects.of_filter(channel, filter) == nonce)
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

    /// The reference of the channel with this name.
    #[must_use]
    pub fn reference_of_channel(&self, name: &str) -> Option<Ior> {
        self.reference(Target::Channel(self.names.channel_named(name)?)).ok()
    }

    /// A channel's reference with the channel's name as key, as in `corbaloc::HOST:PORT/NAME`: equivalent for a client's ORB. A name that
    /// is another object's key, or is not found, leaves the reference unchanged.
    pub(crate) fn reference_by_name(&self, channel: ChannelId, name: &str) -> Result<Ior, Raised> {
        let mut reference = self.reference(Target::Channel(channel))?;
        if self.target(name.as_bytes()) == Some(Target::Channel(channel))
            && let Some(Profile::Iiop(profile)) = reference.profiles.first_mut()
        {
            profile.key = name.as_bytes().to_vec();
        }
        Ok(reference)
    }

    /// The priority model in a proxy's reference: `None` without a pool.
    fn priority_model(&self, proxy: ProxyKey) -> Option<PriorityModelPolicy> {
        let (model, server_priority) = self.hierarchy.priority_model(proxy)?;
        let model = match model {
            engine::PriorityModel::ClientPropagated => PriorityModel::ClientPropagated,
            engine::PriorityModel::ServerDeclared => PriorityModel::ServerDeclared,
        };
        Some(PriorityModelPolicy { model, server_priority })
    }
}
