//! The CORBA protocol: one state machine that answers administrative requests and says what the event path must know.

mod access;
mod changes;
mod charges;
mod clients;
mod compatibility;
mod declared;
mod delayed_replies;
mod effects;
mod filters;
mod idle;
mod local_proxies;
mod names;
mod nonces;
mod objects;
mod operating;
mod probes;
mod reconnection;
mod rescheduling;
mod settings;
mod takeover;
mod teardown;
mod topology;
mod undoing;
mod validation_errors;

use self::access::Guard;
pub use self::access::{Access, Act, ActOutcome, Denied, Forbidden};
use self::changes::Changes;
pub(super) use self::changes::{InfoMode, code_set, difference};
use self::charges::Ledger;

pub(super) use self::charges::{Thing, octets_of_name, octets_of_reference, octets_of_types, weights};
use self::clients::{Client, Tell};
pub use self::compatibility::Compatibility;
use self::delayed_replies::DelayedReplies;
pub use self::delayed_replies::DelayedReply;
use self::effects::CallPurpose;
pub use self::effects::{ClientAnswer, ClientCall, Effect, Parting};
pub use self::idle::AT_ONCE_MAX;
pub use self::idle::SupplierStatus;
use self::local_proxies::LocalProxyState;
pub use self::local_proxies::{LocalProxy, Part, RegisterError};
use self::names::Names;
pub(super) use self::names::{NAME_BYTES_MAX, Named};
use self::nonces::{Drawing, Nonces, ObjectNonces};
pub use self::nonces::{KeyNumbers, ProxyNonces};
pub use self::operating::{ListedChannel, Settable};
use self::probes::Probes;
pub use self::reconnection::CALLBACKS_MAX;
use self::reconnection::Reconnection;
use self::rescheduling::Rescheduling;
pub use self::takeover::Line;
use self::takeover::Lives;
use self::teardown::Teardowns;
pub use self::teardown::Unpublished;
pub use self::topology::RestoredClient;
pub(super) use self::topology::convert;
pub use self::topology::{ChangedPart, NotRestored};
pub use self::undoing::Creations;
use super::exceptions::{Exception, Raised};
use super::filters::Filters;
use super::keys::ObjectKey;
use super::monitor::Monitor;
use super::naming::{Naming, NamingLimits};
use super::peers::Peers;
use super::proxy_kind::ProxyKind;
use super::qos::{Most, PoolKind, Profile, RequestedProperties, Unknown};
use super::references::References;
use super::table::{self, AdminKey, Level};
use accounts::{Account, Resource};
use engine::{
    AdminId, ChannelId, ChannelLimits, DisconnectReason, Hierarchy, HierarchyLimits, LaneChange, LaneId, Operator,
    Peer, PoolId, ProxyId, ProxyKey, SettingsPatch, Side, Snapshot, Time, Topics,
};
use giop::cdr::{CharSet, Reader, Writer};
use giop::ior::{Ior, SecureTransport};
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What a protocol is built with.
#[derive(Clone, Debug)]
pub struct ProtocolSettings {
    /// Host in every reference: a name or address to which clients can connect.
    pub host: String,
    /// Port in every reference.
    pub port: u16,
    /// What every reference says of TLS, if it is spoken.
    pub secure: Option<SecureTransport>,
    /// The native narrow code set in every reference: what clients that know both will use.
    pub chars: CharSet,
    /// How events are pushed where neither channel, admin nor proxy says otherwise: what a new channel begins with.
    pub delivery: SettingsPatch,
    /// What a new channel is limited to unless its creator says otherwise.
    pub limits: ChannelLimits,
    /// How many objects there may be.
    pub hierarchy: HierarchyLimits,
    /// What the events of all channels may take together, in bytes: the most that a channel's `MemoryBudget` may be.
    pub memory_bytes_max: u64,
    /// Whether there is a store, in which events and connections can outlive the process.
    pub has_store: bool,
    /// How much the naming service holds.
    pub naming: NamingLimits,
    /// What is done as old servers do it.
    pub compatibility: Compatibility,
    /// Where the random numbers in object keys come from. They have to differ from one run of the service to the next, since they
    /// keep references of an earlier run from reaching the wrong objects.
    pub key_numbers: KeyNumbers,
}

/// The CORBA protocol: the hierarchy and the naming service behind their object keys.
///
/// A pure state machine for the administration thread: it is handed requests, and asked what follows from them. After each
/// [`Protocol::handle`], [`Protocol::handle_disconnected`] and [`Protocol::handle_answer`], call [`Protocol::publish`] and hand the result
/// to the lanes
/// *before* the reply is sent, so that the lanes know a client as connected by the time its reply says so (a change that concerns very many
/// is published later: [`Protocol::take_unpublished`]); then call [`Protocol::poll_effect`] until it gives `None`.
/// [`Protocol::handle_time`] sets the time, at the latest when [`Protocol::poll_timeout`] asks for it.
///
/// Events themselves do not come here. A lane that does not know a proxy as connected hands its `push…` requests here all the same, to have
/// them answered.
#[derive(Debug)]
pub struct Protocol {
    /// What it was built with.
    settings: ProtocolSettings,
    references: References,
    pub(super) hierarchy: Hierarchy,
    pub(super) filters: Filters,
    delivery: SettingsPatch,
    limits: ChannelLimits,
    memory_bytes_max: u64,
    naming: Naming,
    key_numbers: Drawing,
    nonces: BTreeMap<ChannelId, Nonces>,
    /// Account of the requesting client, while a request is executed.
    principal: Option<Arc<Account>>,
    /// What clients are charged for what is kept for them.
    ledger: Ledger,
    /// Access rules, denials and acts not yet reported.
    guard: Guard,
    kinds: BTreeMap<ProxyKey, ProxyKind>,
    /// What TAO's monitor and control object remembers.
    pub(super) monitor: Monitor,
    /// What clients call channels, admins and proxies.
    names: Names,
    /// By which property each pool was set.
    pool_kinds: BTreeMap<PoolId, PoolKind>,
    /// Properties that are unknown, of those that have any.
    unknown: BTreeMap<Thing, Unknown>,
    /// Channels with the profile `RealTime`.
    real_time: BTreeSet<ChannelId>,
    /// Connected clients that gave a reference.
    clients: HashMap<Peer, Client>,
    /// What is known of the lives of clients.
    lives: Lives,
    /// Proxies restored together with their clients.
    former: topology::Former,
    /// Set while stored objects are made again, before their clients are connected.
    is_restoring: bool,
    /// Clients of other protocols.
    local_proxies: HashMap<ProxyKey, LocalProxyState>,
    /// Callbacks to notify that the service has restarted.
    reconnection: Reconnection,
    /// Clients that the service calls to transfer events.
    peers: Peers,
    peer_next: u64,
    effects: VecDeque<Effect>,
    /// Calls that go behind the reply to the request that is being executed.
    partings: VecDeque<Parting>,
    published: Option<Published>,
    peers_changed: bool,
    /// The numbers in channels' keys are others than those published.
    nonces_changed: bool,
    /// What time it is, as a `TimeBase::TimeT`.
    now: u64,
    reported: Reported,
    changes: Changes,
    delayed_replies: DelayedReplies,
    teardowns: Teardowns,
    /// What the last request has changed, and what it has made.
    unpublished: Unpublished,
    pub(super) made: Creations,
    rescheduling: Rescheduling,
    probes: Probes,
    suppliers: idle::Callers,
    /// Those that gave no reference.
    pull_consumers: idle::Callers,
    /// The lane's time.
    time: Time,
}

/// What is logged or counted outside.
#[derive(Debug, Default)]
struct Reported {
    /// Calls of filters that were cut off, since they were last asked for.
    filter_cuts: u64,
    /// Whether it was logged that `Persistent` has no effect without a store.
    without_store: bool,
}

/// One request: which object, which operation, and the arguments.
#[derive(Clone, Debug)]
pub struct ObjectRequest<'a> {
    /// The object key.
    pub key: &'a [u8],
    /// The operation's name as sent: `_get_…` and `_set_…` for attributes.
    pub operation: &'a str,
    /// Stands in front of the arguments.
    pub args: Reader<'a>,
    /// Account of the requesting client, which is charged for what the request stores or causes.
    pub principal: &'a Arc<Account>,
}

/// What the event path has to know, all of one moment.
#[derive(Clone, Debug)]
pub struct Published {
    /// Connected suppliers and consumers.
    pub routing: Arc<Snapshot>,
    /// How CORBA clients say that, and where they are.
    pub directory: Directory,
    /// Access rules; `None` if everything is allowed.
    pub access: Option<Access>,
}

/// What stands beside a routing snapshot for this protocol alone: which object keys name the snapshot's proxies, and where the
/// clients are that it names. A copy shares everything.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Where the clients are that the routing names and that are called to have events travel: consumers that are pushed
    /// to, suppliers that are pulled from.
    pub peers: Arc<Peers>,
    /// The numbers that have to be in the keys of proxies.
    pub nonces: ProxyNonces,
    /// Proxies that are found by the keys of others, which were taken over.
    pub aliases: Arc<HashMap<ProxyKey, ProxyKey>>,
}

impl Directory {
    /// The proxy that a key names, unless the key is of another run of the service. Whether the proxy exists is for the
    /// routing to say.
    #[must_use]
    pub fn proxy(&self, key: &ObjectKey) -> Option<ProxyKey> {
        match *key {
            ObjectKey::Proxy { channel, nonce, proxy } => {
                let key = ProxyKey { channel, proxy };
                if !self.nonces.is_of(nonce, key) {
                    return None;
                }
                // As a rule there are none.
                let alias = if self.aliases.is_empty() { None } else { self.aliases.get(&key) };
                Some(alias.copied().unwrap_or(key))
            }
            _ => None,
        }
    }
}

/// Where a client is and how it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// Its reference, as it gave it.
    pub ior: Ior,
    /// Account of the client that gave the reference: it is charged for looking the host up.
    pub by: Option<Arc<Account>>,
    /// What it is called in logs: host, port and the beginning of its object's key.
    pub name: String,
    /// The operation by which events travel: `push…` of a consumer, `try_pull…` of a supplier. Empty for a client that
    /// calls this service itself.
    pub operation: &'static str,
}

impl Protocol {
    /// A protocol with the default channel and nothing else. Two protocols with the same settings give the same references.
    #[must_use]
    pub fn new(settings: ProtocolSettings) -> Self {
        let ProtocolSettings {
            host,
            port,
            secure,
            chars,
            delivery,
            limits,
            hierarchy,
            memory_bytes_max,
            has_store: _,
            naming,
            key_numbers,
            compatibility: _,
        } = settings.clone();
        let references = References::new(&host, port, chars).with_tls(secure);
        let mut key_numbers = Drawing::from(key_numbers);
        let mut protocol = Self {
            settings,
            naming: Naming::new(naming, || key_numbers.next(), &references),
            references,
            hierarchy: Hierarchy::new(hierarchy),
            filters: Filters::default(),
            delivery,
            limits,
            memory_bytes_max,
            key_numbers,
            nonces: BTreeMap::new(),
            principal: None,
            ledger: Ledger::default(),
            guard: Guard::default(),
            kinds: BTreeMap::new(),
            names: Names::default(),
            monitor: Monitor::default(),
            pool_kinds: BTreeMap::new(),
            unknown: BTreeMap::new(),
            real_time: BTreeSet::new(),
            clients: HashMap::new(),
            lives: Lives::default(),
            former: topology::Former::default(),
            is_restoring: false,
            local_proxies: HashMap::new(),
            reconnection: Reconnection::default(),
            peers: Peers::default(),
            peer_next: 0,
            effects: VecDeque::new(),
            partings: VecDeque::new(),
            published: None,
            peers_changed: false,
            nonces_changed: false,
            now: 0,
            reported: Reported::default(),
            changes: Changes::default(),
            delayed_replies: DelayedReplies::default(),
            teardowns: Teardowns::default(),
            unpublished: Unpublished::default(),
            made: Creations::default(),
            rescheduling: Rescheduling::default(),
            probes: Probes::default(),
            suppliers: idle::Callers::default(),
            pull_consumers: idle::Callers::default(),
            time: Time::default(),
        };
        protocol.make_default_channel();
        protocol
    }

    fn make_default_channel(&mut self) {
        match self.hierarchy.create_channel(self.delivery, self.limits) {
            Ok(channel) => {
                let _ = self.set_default_operator(channel);
                let objects = ObjectNonces::new(self.key_numbers.next());
                self.nonces.insert(channel, Nonces { own: 0, objects });
            }
            Err(refusal) => log::error!(target: "campanile::corba", "there is no default channel: {refusal}"),
        }
    }

    /// Executes a request and writes its results to `reply`, which stands where the body of the reply begins.
    ///
    /// # Errors
    ///
    /// The exception to send instead: then nothing was changed, and what was written to `reply` means nothing.
    pub fn handle(&mut self, call: &ObjectRequest<'_>, reply: &mut Writer<'_>) -> Result<(), Exception> {
        let (encoding, phase) = (reply.encoding(), reply.phase());
        self.principal = Some(Arc::clone(call.principal));
        self.delayed_replies.begin();
        self.partings.clear();
        // What the service has made itself, as declared channels, is no request's.
        self.made = Creations::default();
        self.note_unpublished();
        let outcome = self.dispatch(call, reply);
        self.note_unpublished();
        self.principal = None;
        outcome.map_err(|raised| {
            self.made = Creations::default();
            let raised = self.as_old_servers_say(raised);
            log::debug!(
                target: "campanile::corba",
                "{} on {}: {raised:?}", call.operation.escape_debug(), call.key.escape_ascii()
            );
            raised.into_exception(encoding, phase)
        })
    }

    /// Whether there is an object with that key: the answer to a `LocateRequest`.
    #[must_use]
    pub fn locate(&self, key: &[u8]) -> bool {
        self.target(key).is_some()
    }

    /// Handles a lane's report that it gave a consumer up. Its proxy is destroyed, as if the consumer had disconnected, and the consumer is
    /// notified unless it reported this itself.
    pub fn handle_disconnected(&mut self, key: ProxyKey, reason: DisconnectReason) {
        match self.hierarchy.destroy_proxy(key) {
            Ok(removed) if reason == DisconnectReason::Gone => self.forget(&removed, Tell::No),
            Ok(removed) => self.forget(&removed, Tell::Yes),
            // The proxy was disconnected meanwhile.
            Err(refusal) => log::debug!(target: "campanile::corba", "nothing to disconnect: {refusal}"),
        }
    }

    /// Takes note of how a client answered what [`Effect::Ask`] asked it.
    pub fn handle_answer(&mut self, client_call: ClientCall, answer: ClientAnswer) {
        match client_call.0 {
            CallPurpose::Change(peer) => self.change_answered(peer, answer),
            CallPurpose::Probe(peer) => self.probed(peer, answer),
            CallPurpose::Reconnect(id) => self.reconnected(id, answer),
            CallPurpose::Registered(id) => self.registration_probed(id, answer),
            CallPurpose::FilterChange { filter, callback } => self.callback_answered(filter, callback, answer),
        }
    }

    /// The next thing to do outside; `None` when there is nothing left.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The next call that goes behind the reply to the last request; `None` when there is none left. To be asked before the next request.
    pub fn poll_parting(&mut self) -> Option<Parting> {
        self.partings.pop_front()
    }

    /// What the event path has to know, if that changed since it was last asked for.
    pub fn publish(&mut self) -> Option<Published> {
        self.tell_changes();
        let routing = self.hierarchy.snapshot();
        self.end_teardowns();
        let others = self.peers_changed || self.guard.has_changed();
        let is_same = |last: &Published| last.routing.version == routing.version && !others;
        if self.published.as_ref().is_some_and(is_same) {
            return None;
        }
        let last = self.published.as_ref().map(|last| &last.directory);
        let peers = match last {
            Some(last) if !self.peers_changed => Arc::clone(&last.peers),
            _ => Arc::new(self.peers.clone()),
        };
        let nonces = match last {
            Some(last) if !self.nonces_changed => last.nonces.clone(),
            _ => ProxyNonces::of(self.nonces.iter()),
        };
        (self.peers_changed, self.nonces_changed) = (false, false);
        self.guard.take_changed();
        let aliases = Arc::clone(self.lives.aliases.published());
        let access = self.guard.access().cloned();
        let published = Published { routing, directory: Directory { peers, nonces, aliases }, access };
        self.published = Some(published.clone());
        Some(published)
    }

    /// The next lane to start, before what [`Protocol::publish`] gives is handed to the lanes, or to end, after that.
    pub fn poll_lane(&mut self) -> Option<LaneChange> {
        self.hierarchy.poll_lane()
    }

    /// The thread of a lane that was to end has ended.
    pub fn lane_gone(&mut self, lane: LaneId) {
        self.hierarchy.lane_gone(lane);
    }

    /// A lane cannot be started: the main lane is to serve what is its.
    pub fn lane_unavailable(&mut self, lane: LaneId) {
        self.hierarchy.lane_unavailable(lane);
    }

    /// A reference to the factory, the one that is written to a file for clients.
    #[must_use]
    pub fn factory_reference(&self) -> Ior {
        self.references.ior(table::type_id(table::FACTORY), &ObjectKey::Factory)
    }

    /// A client by its handle, for logs.
    #[must_use]
    pub fn client(&self, peer: Peer) -> Option<&Arc<PeerAddress>> {
        self.clients.get(&peer).map(|client| &client.address)
    }

    /// A proxy and its client as an operator would call them, where `what` is the side that the client is on.
    #[must_use]
    pub fn name(&self, what: &str, key: ProxyKey) -> String {
        let proxy = self.hierarchy.proxy(key).ok();
        let quoted = |name: Option<&str>| name.map_or_else(String::new, |name| format!(" \"{}\"", name.escape_debug()));
        let own = quoted(proxy.and_then(|proxy| self.proxy_name(key, proxy.side)));
        let channel = quoted(self.channel_name(key.channel));
        let at = format!("{what} proxy {}{own} of channel {}{channel}", key.proxy.0, key.channel.0);
        let peer = proxy.and_then(|proxy| proxy.peer);
        let client = peer.and_then(|peer| self.client(peer)).map(|client| &client.name);
        match client.or_else(|| self.local_proxies.get(&key).map(|local_proxy| &local_proxy.name)) {
            Some(name) => format!("{at} ({name})"),
            None => at,
        }
    }

    /// Emits a line for troubleshooting, where such lines are logged.
    fn log_debug(&mut self, text: impl FnOnce(&Self) -> String) {
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

    // ---- objects ----

    fn dispatch(&mut self, call: &ObjectRequest<'_>, reply: &mut Writer<'_>) -> Result<(), Raised> {
        let target = self.target(call.key).ok_or_else(Raised::object_not_exist)?;
        let operation = table::find(self.servant(target)?, call.operation).ok_or_else(Raised::bad_operation)?;
        let act = self.act(target, operation.name, &call.args);
        let done = self.authorize(target, operation.name);
        let done = done.and_then(|()| (operation.handler)(self, target, call.args.clone(), reply));
        if let Some(what) = act {
            self.note_act(what, done.as_ref().copied());
        }
        done
    }

    pub(super) fn references(&self) -> &References {
        &self.references
    }

    pub(super) fn naming(&self) -> &Naming {
        &self.naming
    }

    pub(super) fn naming_mut(&mut self) -> &mut Naming {
        &mut self.naming
    }

    // ---- channels ----

    pub(super) fn channels(&self) -> impl Iterator<Item = ChannelId> {
        self.hierarchy.channels().map(engine::Channel::id)
    }

    /// Channels that the requesting client may know of.
    pub(super) fn channels_known(&self) -> impl Iterator<Item = ChannelId> {
        self.channels().filter(|channel| self.knows(*channel))
    }

    pub(super) fn has_channel(&self, channel: ChannelId) -> bool {
        self.hierarchy.channel(channel).is_ok()
    }

    /// The most that the service has of what properties ask for.
    pub(super) fn most(&self) -> Most {
        let (threads, filter_steps) = (self.hierarchy.lane_threads_max(), self.hierarchy.filter_steps_max());
        let constraint_bytes = self.hierarchy.constraint_bytes_max();
        let (memory_bytes, has_store) = (self.memory_bytes_max, self.settings.has_store);
        Most { threads, filter_steps, constraint_bytes, memory_bytes, has_store }
    }

    /// What a new channel is made of before its creator's wishes.
    pub(super) fn initial_properties(&self) -> RequestedProperties {
        RequestedProperties {
            takes_unknown: self.compatibility().ignore_unknown_properties,
            takes_persistent: self.compatibility().persistent_without_store,
            unknown: Unknown::default(),
            most: self.most(),
            patch: self.delivery,
            limits: self.limits,
            pool: None,
            discipline: None,
            profile: Profile::Standard,
            topics: Topics::default(),
        }
    }

    pub(super) fn create_channel(
        &mut self,
        requested: RequestedProperties,
        name: Option<&str>,
    ) -> Result<ChannelId, Raised> {
        name.map_or(Ok(()), |name| self.check_channel_name(name))?;
        self.authorize_creation(name)?;
        let one = self.charge(Resource::Channels, 1)?;
        let topics = requested.topics.by_type.iter().map(|(kind, _)| kind);
        let octets = octets_of_types(topics) + octets_of_name(name) + requested.unknown.octets();
        let claim = self.charge_octets(weights::CHANNEL + octets)?;
        let (patch, threads) = self.with_pool(None, &requested)?;
        let channel = self.hierarchy.create_channel(patch, requested.limits)?;
        self.set_default_operator(channel)?;
        let thing = Thing::Channel(channel);
        self.ledger.entry(thing).one = one;
        self.ledger.note_threads(thing, threads);
        self.set_profile(channel, requested.profile);
        self.set_topics(channel, requested.topics)?;
        name.into_iter().for_each(|name| self.give_name(Named::Channel(channel), name));
        self.take_unknown(Level::Channel(channel), requested.unknown);
        self.note_name_for_rules(channel);
        self.note_owner(thing);
        self.adjust(thing, claim);
        self.made.note(thing);
        let (own, objects) = (self.key_numbers.next(), ObjectNonces::new(self.key_numbers.next()));
        self.nonces.insert(channel, Nonces { own, objects });
        self.nonces_changed = true;
        Ok(channel)
    }

    // ---- admins ----

    pub(super) fn admins(&self, channel: ChannelId, side: Side) -> Result<Vec<AdminId>, Raised> {
        Ok(self.hierarchy.admins(channel, side)?.map(|admin| admin.id).collect())
    }

    pub(super) fn has_admin(&self, AdminKey { channel, side, admin }: AdminKey) -> bool {
        self.hierarchy.admin(channel, side, admin).is_ok()
    }

    pub(super) fn operator(&self, AdminKey { channel, side, admin }: AdminKey) -> Result<Operator, Raised> {
        Ok(self.hierarchy.admin(channel, side, admin)?.operator)
    }

    pub(super) fn create_admin(
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

    // ---- proxies ----

    /// An admin's proxies of one direction that have an id: all but the Event Service's.
    pub(super) fn notification_proxies(&self, key: AdminKey, pull: bool) -> Result<Vec<ProxyId>, Raised> {
        let AdminKey { channel, side, admin } = key;
        let ids = self.hierarchy.proxies(channel, side, admin)?.map(|proxy| proxy.id);
        let is_listed = |proxy: ProxyId| {
            let kind = self.kinds.get(&ProxyKey { channel, proxy });
            kind.is_some_and(|kind| !kind.is_plain() && kind.pull == pull)
        };
        Ok(ids.filter(|proxy| is_listed(*proxy)).collect())
    }

    pub(super) fn is_notification_proxy(&self, admin: AdminKey, proxy: ProxyId) -> bool {
        let key = ProxyKey { channel: admin.channel, proxy };
        let belongs = |found: &engine::Proxy| found.side == admin.side && found.admin == admin.admin;
        let is_plain = self.kinds.get(&key).is_some_and(|kind| kind.is_plain());
        self.hierarchy.proxy(key).is_ok_and(belongs) && !is_plain
    }

    pub(super) fn proxy_kind(&self, proxy: ProxyKey) -> Result<ProxyKind, Raised> {
        self.kinds.get(&proxy).copied().ok_or_else(Raised::object_not_exist)
    }

    pub(super) fn admin_of(&self, key: ProxyKey) -> Result<AdminKey, Raised> {
        let proxy = self.hierarchy.proxy(key)?;
        Ok(AdminKey { channel: key.channel, side: proxy.side, admin: proxy.admin })
    }

    pub(super) fn create_proxy(
        &mut self,
        admin: AdminKey,
        kind: ProxyKind,
        name: Option<&str>,
    ) -> Result<ProxyKey, Raised> {
        let AdminKey { channel, side, admin } = admin;
        name.map_or(Ok(()), |name| self.check_proxy_name(channel, side, name))?;
        self.admit_kind(channel, kind)?;
        let one = self.charge(Resource::Proxies, 1)?;
        let claim = self.charge_octets(weights::PROXY + octets_of_name(name))?;
        let leaving = self.places_left(AdminKey { channel, side, admin }, kind, name);
        let place = (channel, side, admin);
        let proxy = self.hierarchy.create_proxy_in_place_of(leaving, place, kind.form(), kind.passing())?;
        let key = ProxyKey { channel, proxy };
        self.kinds.insert(key, kind);
        name.into_iter().for_each(|name| self.give_name(Named::Proxy(key, side), name));
        self.ledger.entry(Thing::Proxy(key)).one = one;
        self.adjust(Thing::Proxy(key), claim);
        self.note_owner(Thing::Proxy(key));
        self.made.note(Thing::Proxy(key));
        Ok(key)
    }

    /// Withdraws a proxy that no client has seen yet.
    pub(super) fn withdraw_proxy(&mut self, key: ProxyKey) {
        if let Ok(removed) = self.hierarchy.destroy_proxy(key) {
            self.forget(&removed, Tell::No);
        }
    }
}
