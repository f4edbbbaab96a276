//! The door itself: one state machine that answers administrative requests and says what the event path must know.

mod changes;
mod charges;
mod clients;
mod declared;
mod farewells;
mod filters;
mod guests;
mod idle;
mod objections;
mod probes;
mod rescheduling;
mod settings;
mod teardown;
mod topology;

use self::changes::Changes;
pub(super) use self::changes::{InfoMode, code_set, difference};
use self::charges::Ledger;

pub(super) use self::charges::{Thing, octets_of_reference, octets_of_types, weights};
use self::clients::{Client, Tell};
pub use self::farewells::Farewell;
use self::farewells::Farewells;
use self::guests::Welcomed;
pub use self::guests::{Guest, Part, Unwelcome};
pub use self::idle::AT_ONCE_MAX;
pub use self::idle::SupplierStanding;
use self::probes::Probes;
use self::rescheduling::Rescheduling;
use self::teardown::Teardowns;
pub use self::teardown::Unpublished;
pub(super) use self::topology::convert;
pub use self::topology::{ChangedPart, NotRestored};
use super::exceptions::{Exception, Raised};
use super::filters::Filters;
use super::keys::ObjectKey;
use super::naming::{Naming, NamingLimits};
use super::peers::Peers;
use super::proxy_kind::ProxyKind;
use super::qos::{Most, PoolKind, Profile, Wanted};
use super::references::References;
use super::table::{self, AdminKey, Servant, Target};
use accounts::{Account, Resource};
use engine::{
    AdminId, ChannelId, ChannelLimits, DisconnectReason, FilterId, Hierarchy, HierarchyLimits, LaneChange, LaneId,
    Operator, Peer, PoolId, ProxyId, ProxyKey, SettingsPatch, Side, Snapshot, Time, Topics,
};
use giop::cdr::{CharSet, Reader, Writer};
use giop::ior::Ior;
use giop::realtime::{PriorityModel, PriorityModelPolicy};
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// What a door is built with.
#[derive(Clone, Debug)]
pub struct DoorSettings {
    /// Host in every reference: a name or address to which clients can connect.
    pub host: String,
    /// Port in every reference.
    pub port: u16,
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
    /// How much the naming service holds.
    pub naming: NamingLimits,
    /// Seed of the random numbers in object keys. It has to differ from one run of the service to the next, since it is
    /// what keeps references of an earlier run from reaching the wrong objects.
    pub nonce_seed: u64,
}

/// The CORBA door: the hierarchy and the naming service behind their object keys.
///
/// A pure state machine for the administration thread: it is handed requests, and asked what follows from them. After
/// each [`Door::handle`], [`Door::handle_disconnected`] and [`Door::handle_answer`], call [`Door::publish`] and hand the
/// result to the lanes *before* the reply is sent, so that a client which was told that it is connected is known to be (a change
/// that concerns very many is published later: [`Door::take_unpublished`]);
/// then call [`Door::poll_effect`] until it gives `None`. It is told the time by [`Door::handle_time`], at the latest when
/// [`Door::poll_timeout`] asks for it.
///
/// Events themselves do not come here. A lane that does not know a proxy as connected hands its `push…` requests here all
/// the same, to have them answered.
#[derive(Debug)]
pub struct Door {
    /// What it was built with.
    settings: DoorSettings,
    references: References,
    pub(super) hierarchy: Hierarchy,
    pub(super) filters: Filters,
    delivery: SettingsPatch,
    limits: ChannelLimits,
    memory_bytes_max: u64,
    naming: Naming,
    random: fastrand::Rng,
    nonces: BTreeMap<ChannelId, Nonces>,
    /// Who asks, while a request is executed.
    principal: Option<Arc<Account>>,
    /// What clients are charged for what is kept for them.
    ledger: Ledger,
    kinds: BTreeMap<ProxyKey, ProxyKind>,
    /// By which property each pool was set.
    pool_kinds: BTreeMap<PoolId, PoolKind>,
    /// The channels whose profile is `RealTime`.
    real_time: BTreeSet<ChannelId>,
    /// Whoever is connected and gave a reference.
    clients: HashMap<Peer, Client>,
    /// Clients of other doors.
    /// Clients that were restored and have not connected anew.
    restored: clients::Restored,
    guests: HashMap<ProxyKey, Welcomed>,
    /// Those of them that are called to have events travel.
    peers: Peers,
    peer_next: u64,
    effects: VecDeque<Effect>,
    published: Option<Published>,
    peers_changed: bool,
    /// The numbers in channels' keys are others than those published.
    nonces_changed: bool,
    /// What time it is, as a `TimeBase::TimeT`.
    now: u64,
    filter_cuts: u64,
    changes: Changes,
    farewells: Farewells,
    teardowns: Teardowns,
    /// What the last request has changed.
    unpublished: Unpublished,
    rescheduling: Rescheduling,
    probes: Probes,
    suppliers: idle::Callers,
    /// Those that gave no reference.
    pull_consumers: idle::Callers,
    /// The lane's time.
    time: Time,
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
    /// Who asks: whom to charge for what is kept or done because of it.
    pub principal: &'a Arc<Account>,
}

/// What follows from a request beside its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// An operation to be called on a client. It returns nothing, and how it ends is of interest to the log only.
    Call {
        /// The client's object.
        to: Ior,
        /// Who gave its reference, if that is known.
        by: Option<Arc<Account>>,
        /// The operation.
        operation: &'static str,
        /// Its arguments, in this machine's byte order from position 0 of a body of GIOP 1.2. Empty for those that take none.
        body: Vec<u8>,
        /// What waits for its end ([`Door::handle_told`]).
        farewell: Option<Farewell>,
    },
    /// The same, of which the door is to be told how it ended ([`Door::handle_answer`]).
    Ask {
        /// To be handed back with the answer.
        question: Question,
        /// The client's object.
        to: Ior,
        /// Who gave its reference, if that is known.
        by: Option<Arc<Account>>,
        /// The operation.
        operation: &'static str,
        /// Its arguments, as those of [`Effect::Call`].
        body: Vec<u8>,
    },
    /// A client was found dead and its proxy is gone, which somebody may want to know.
    Reaped {
        /// The proxy.
        proxy: ProxyKey,
        /// What the client is called in logs.
        name: String,
        /// How long it could not be reached; nothing if it said, or its server did, that it is no more.
        unreachable_for: Option<Duration>,
    },
    /// A client was not heard of for so long that it was disconnected.
    LetGo {
        /// The proxy.
        proxy: ProxyKey,
        /// Whether it supplied or consumed.
        side: Side,
        /// The address from which it connected.
        address: Option<IpAddr>,
        /// How long it was not heard of.
        idle: Duration,
    },
    /// The proxy of a client of another door ([`Door::welcome`]) is gone, and that client has not said so.
    GuestGone(Peer),
    /// A client came or went: a line for those who look for a mistake. Made only where such lines are logged.
    Remark(String),
    /// No client goes by this handle any more: what was kept for it, such as its connection, can go.
    ReleasePeer(Peer),
}

/// What a client was asked. Opaque; only the door knows what to make of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question(Asked);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// To take note of a change of offers or subscriptions.
    Change(Peer),
    /// Whether it does not exist.
    Probe(Peer),
    /// To take note of other event types of a filter that it is a callback of.
    FilterChange { filter: FilterId, callback: u32 },
}

/// How a client answered, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAnswer {
    /// The operation returned; with a boolean, if the reply begins with one.
    Returned(Option<bool>),
    /// `NO_IMPLEMENT` or `BAD_OPERATION`: it has no such operation.
    NotImplemented,
    /// `OBJECT_NOT_EXIST`: there is no such object any more.
    Gone,
    /// Any other exception.
    Raised,
    /// It could not be connected to, or the connection was lost.
    Unreachable,
    /// It was called and did not answer in time.
    TimedOut,
}

/// What the event path has to know, all of one moment.
#[derive(Clone, Debug)]
pub struct Published {
    /// Who supplies and who consumes.
    pub routing: Arc<Snapshot>,
    /// How CORBA clients say that, and where they are.
    pub directory: Directory,
}

/// What stands beside a routing snapshot for this door alone: which object keys name the snapshot's proxies, and where the
/// clients are that it names. A copy shares everything.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Where the clients are that the routing names and that are called to have events travel: consumers that are pushed
    /// to, suppliers that are pulled from.
    pub peers: Arc<Peers>,
    /// The number that has to be in the keys of a channel's proxies.
    pub nonces: Arc<HashMap<ChannelId, u32>>,
}

impl Directory {
    /// The proxy that a key names, unless the key is of another run of the service. Whether the proxy exists is for the
    /// routing to say.
    #[must_use]
    pub fn proxy(&self, key: &ObjectKey) -> Option<ProxyKey> {
        match *key {
            ObjectKey::Proxy { channel, nonce, proxy } if self.nonces.get(&channel) == Some(&nonce) => {
                Some(ProxyKey { channel, proxy })
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
    /// Who gave it: whom to charge for looking its host up.
    pub by: Option<Arc<Account>>,
    /// What it is called in logs: host, port and the beginning of its object's key.
    pub name: String,
    /// The operation by which events travel: `push…` of a consumer, `try_pull…` of a supplier. Empty for a client that
    /// calls this service itself.
    pub operation: &'static str,
}

/// The random numbers in a channel's keys.
#[derive(Clone, Copy, Debug)]
struct Nonces {
    /// In its own key and those of its default admins.
    own: u32,
    /// In the keys of its other admins and its proxies.
    objects: u32,
}

impl Door {
    /// A door with the default channel and nothing else. Two doors with the same settings give the same references.
    #[must_use]
    pub fn new(settings: DoorSettings) -> Self {
        let DoorSettings { host, port, chars, delivery, limits, hierarchy, memory_bytes_max, naming, nonce_seed } =
            settings.clone();
        let references = References::new(&host, port, chars);
        let mut random = fastrand::Rng::with_seed(nonce_seed);
        let mut door = Self {
            settings,
            naming: Naming::new(naming, random.u32(1..), &references),
            references,
            hierarchy: Hierarchy::new(hierarchy),
            filters: Filters::default(),
            delivery,
            limits,
            memory_bytes_max,
            random,
            nonces: BTreeMap::new(),
            principal: None,
            ledger: Ledger::default(),
            kinds: BTreeMap::new(),
            pool_kinds: BTreeMap::new(),
            real_time: BTreeSet::new(),
            clients: HashMap::new(),
            restored: clients::Restored::default(),
            guests: HashMap::new(),
            peers: Peers::default(),
            peer_next: 0,
            effects: VecDeque::new(),
            published: None,
            peers_changed: false,
            nonces_changed: false,
            now: 0,
            filter_cuts: 0,
            changes: Changes::default(),
            farewells: Farewells::default(),
            teardowns: Teardowns::default(),
            unpublished: Unpublished::default(),
            rescheduling: Rescheduling::default(),
            probes: Probes::default(),
            suppliers: idle::Callers::default(),
            pull_consumers: idle::Callers::default(),
            time: Time::default(),
        };
        match door.hierarchy.create_channel(delivery, limits) {
            Ok(channel) => {
                let objects = door.random.u32(1..);
                door.nonces.insert(channel, Nonces { own: 0, objects });
            }
            Err(refusal) => log::error!(target: "campanile::corba", "there is no default channel: {refusal}"),
        }
        door
    }

    /// Executes a request and writes its results to `reply`, which stands where the body of the reply begins.
    ///
    /// # Errors
    ///
    /// The exception that the client is to be told instead: then nothing was changed, and what was written to `reply`
    /// means nothing.
    pub fn handle(&mut self, call: &ObjectRequest<'_>, reply: &mut Writer<'_>) -> Result<(), Exception> {
        let (encoding, phase) = (reply.encoding(), reply.phase());
        self.principal = Some(Arc::clone(call.principal));
        self.farewells.begin();
        self.note_unpublished();
        let outcome = self.dispatch(call, reply);
        self.note_unpublished();
        self.principal = None;
        outcome.map_err(|raised| {
            log::debug!(
                target: "campanile::corba",
                "{} on {}: {raised:?}", call.operation.escape_debug(), call.key.escape_ascii()
            );
            raised.told(encoding, phase)
        })
    }

    /// Whether there is an object with that key: the answer to a `LocateRequest`.
    #[must_use]
    pub fn locate(&self, key: &[u8]) -> bool {
        self.target(key).is_some()
    }

    /// Takes note that a lane gave a consumer up. Its proxy is gone with that, as if the consumer had disconnected, and
    /// the consumer is told unless it is the one who said so.
    pub fn handle_disconnected(&mut self, key: ProxyKey, reason: DisconnectReason) {
        match self.hierarchy.destroy_proxy(key) {
            Ok(removed) if reason == DisconnectReason::Gone => self.forget(&removed, Tell::No),
            Ok(removed) => self.forget(&removed, Tell::Yes),
            // Whoever disconnected it meanwhile was quicker.
            Err(refusal) => log::debug!(target: "campanile::corba", "nothing to disconnect: {refusal}"),
        }
    }

    /// Takes note of how a client answered what [`Effect::Ask`] asked it.
    pub fn handle_answer(&mut self, question: Question, answer: ClientAnswer) {
        match question.0 {
            Asked::Change(peer) => self.told(peer, answer),
            Asked::Probe(peer) => self.probed(peer, answer),
            Asked::FilterChange { filter, callback } => self.callback_answered(filter, callback, answer),
        }
    }

    /// The next thing to do outside; `None` when there is nothing left.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// What the event path has to know, if that changed since it was last asked for.
    pub fn publish(&mut self) -> Option<Published> {
        self.tell_changes();
        let routing = self.hierarchy.snapshot();
        self.end_teardowns();
        let is_same = |last: &Published| last.routing.version == routing.version && !self.peers_changed;
        if self.published.as_ref().is_some_and(is_same) {
            return None;
        }
        let last = self.published.as_ref().map(|last| &last.directory);
        let peers = match last {
            Some(last) if !self.peers_changed => Arc::clone(&last.peers),
            _ => Arc::new(self.peers.clone()),
        };
        let nonces = match last {
            Some(last) if !self.nonces_changed => Arc::clone(&last.nonces),
            _ => Arc::new(self.nonces.iter().map(|(channel, nonces)| (*channel, nonces.objects)).collect()),
        };
        (self.peers_changed, self.nonces_changed) = (false, false);
        let published = Published { routing, directory: Directory { peers, nonces } };
        self.published = Some(published.clone());
        Some(published)
    }

    /// The next lane to start, before what [`Door::publish`] gives is handed to the lanes, or to end, after that.
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
        let at = format!("{what} proxy {} of channel {}", key.proxy.0, key.channel.0);
        let peer = self.hierarchy.proxy(key).ok().and_then(|proxy| proxy.peer);
        let client = peer.and_then(|peer| self.client(peer)).map(|client| &client.name);
        match client.or_else(|| self.guests.get(&key).map(|guest| &guest.name)) {
            Some(name) => format!("{at} ({name})"),
            None => at,
        }
    }

    /// Tells those who look for a mistake, if anybody does.
    fn remark(&mut self, text: impl FnOnce(&Self) -> String) {
        if log::log_enabled!(target: "campanile::corba", log::Level::Debug) {
            let text = text(self);
            self.effects.push_back(Effect::Remark(text));
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
        (operation.handler)(self, target, call.args.clone(), reply)
    }

    /// The object with that key, if there is one.
    pub(super) fn target(&self, key: &[u8]) -> Option<Target> {
        match ObjectKey::parse(key)? {
            ObjectKey::Factory => Some(Target::Factory),
            ObjectKey::Channel { channel, nonce } => {
                (self.nonces.get(&channel)?.own == nonce).then_some(Target::Channel(channel))
            }
            ObjectKey::Admin { channel, nonce, side, admin } => {
                let admin = AdminKey { channel, side, admin };
                (self.admin_nonce(admin)? == nonce && self.has_admin(admin)).then_some(Target::Admin(admin))
            }
            ObjectKey::Proxy { channel, nonce, proxy } => {
                let key = ProxyKey { channel, proxy };
                let side = self.hierarchy.proxy(key).ok()?.side;
                (self.nonces.get(&channel)?.objects == nonce).then_some(Target::Proxy(key, side))
            }
            ObjectKey::FilterFactory { channel, nonce } => {
                (self.nonces.get(&channel)?.own == nonce).then_some(Target::FilterFactory(channel))
            }
            ObjectKey::Filter { channel, nonce, filter } => {
                self.has_filter(channel, nonce, filter, false).then_some(Target::Filter(filter))
            }
            ObjectKey::MappingFilter { channel, nonce, filter } => {
                self.has_filter(channel, nonce, filter, true).then_some(Target::MappingFilter(filter))
            }
            ObjectKey::SchedulingService => Some(Target::SchedulingService),
            ObjectKey::NamingContext { id, nonce } => self.naming.context(id, nonce).map(Target::NamingContext),
            ObjectKey::BindingIterator { id, nonce } => self.naming.iterator(id, nonce).map(Target::BindingIterator),
        }
    }

    fn admin_nonce(&self, admin: AdminKey) -> Option<u32> {
        let nonces = self.nonces.get(&admin.channel)?;
        Some(if admin.admin == AdminId::DEFAULT { nonces.own } else { nonces.objects })
    }

    fn key(&self, target: Target) -> Option<ObjectKey> {
        Some(match target {
            Target::Factory => ObjectKey::Factory,
            Target::Channel(channel) => ObjectKey::Channel { channel, nonce: self.nonces.get(&channel)?.own },
            Target::Admin(key) => {
                let AdminKey { channel, side, admin } = key;
                ObjectKey::Admin { channel, nonce: self.admin_nonce(key)?, side, admin }
            }
            Target::Proxy(ProxyKey { channel, proxy }, _) => {
                ObjectKey::Proxy { channel, nonce: self.nonces.get(&channel)?.objects, proxy }
            }
            Target::FilterFactory(channel) => {
                ObjectKey::FilterFactory { channel, nonce: self.nonces.get(&channel)?.own }
            }
            Target::Filter(filter) => {
                let channel = self.filters.channel(filter)?;
                ObjectKey::Filter { channel, nonce: self.nonces.get(&channel)?.objects, filter }
            }
            Target::MappingFilter(filter) => {
                let channel = self.filters.channel(filter)?;
                ObjectKey::MappingFilter { channel, nonce: self.nonces.get(&channel)?.objects, filter }
            }
            Target::SchedulingService => ObjectKey::SchedulingService,
            Target::NamingContext(id) => self.naming.context_key(id),
            Target::BindingIterator(id) => self.naming.iterator_key(id),
        })
    }

    pub(super) fn servant(&self, target: Target) -> Result<Servant, Raised> {
        Ok(match target {
            Target::Factory => table::FACTORY,
            Target::Channel(_) => table::CHANNEL,
            Target::Admin(AdminKey { side: Side::Consumers, .. }) => table::CONSUMER_ADMIN,
            Target::Admin(AdminKey { side: Side::Suppliers, .. }) => table::SUPPLIER_ADMIN,
            Target::Proxy(proxy, side) => self.proxy_kind(proxy)?.servant(side),
            Target::FilterFactory(_) => table::FILTER_FACTORY,
            Target::Filter(_) => table::FILTER,
            Target::MappingFilter(_) => table::MAPPING_FILTER,
            Target::SchedulingService => table::SCHEDULING_SERVICE,
            Target::NamingContext(_) => table::NAMING_CONTEXT,
            Target::BindingIterator(_) => table::BINDING_ITERATOR,
        })
    }

    pub(super) fn reference(&self, target: Target) -> Result<Ior, Raised> {
        let key = self.key(target).ok_or_else(Raised::object_not_exist)?;
        let type_id = table::type_id(self.servant(target)?);
        Ok(match target {
            // Where events travel at priorities, the reference says so.
            Target::Proxy(proxy, _) => self.references.ior_with(type_id, &key, self.priority_model(proxy)),
            _ => self.references.ior(type_id, &key),
        })
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

    pub(super) fn has_channel(&self, channel: ChannelId) -> bool {
        self.hierarchy.channel(channel).is_ok()
    }

    /// The most that the service has of what properties ask for.
    pub(super) fn most(&self) -> Most {
        let (threads, filter_steps) = (self.hierarchy.lane_threads_max(), self.hierarchy.filter_steps_max());
        Most { threads, filter_steps, memory_bytes: self.memory_bytes_max }
    }

    /// What a new channel is made of before its creator's wishes.
    pub(super) fn wanted_initially(&self) -> Wanted {
        Wanted {
            most: self.most(),
            patch: self.delivery,
            limits: self.limits,
            pool: None,
            discipline: None,
            profile: Profile::Standard,
            topics: Topics::default(),
        }
    }

    pub(super) fn create_channel(&mut self, wanted: Wanted) -> Result<ChannelId, Raised> {
        let one = self.charge(Resource::Channels, 1)?;
        let topics = wanted.topics.by_type.iter().map(|(kind, _)| kind);
        let claim = self.charge_octets(weights::CHANNEL + octets_of_types(topics))?;
        let (patch, threads) = self.with_pool(None, &wanted)?;
        let channel = self.hierarchy.create_channel(patch, wanted.limits)?;
        let thing = Thing::Channel(channel);
        self.ledger.entry(thing).one = one;
        self.ledger.note_threads(thing, threads);
        self.set_profile(channel, wanted.profile);
        self.set_topics(channel, wanted.topics)?;
        self.settle(thing, claim);
        let nonce = self.random.u32(1..);
        self.nonces.insert(channel, Nonces { own: nonce, objects: nonce });
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
    ) -> Result<AdminKey, Raised> {
        let claim = self.charge_octets(weights::ADMIN)?;
        let admin = AdminKey { channel, side, admin: self.hierarchy.create_admin(channel, side, operator)? };
        self.settle(Thing::Admin(admin), claim);
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

    pub(super) fn create_proxy(&mut self, admin: AdminKey, kind: ProxyKind) -> Result<ProxyKey, Raised> {
        let AdminKey { channel, side, admin } = admin;
        self.admit_kind(channel, kind)?;
        let one = self.charge(Resource::Proxies, 1)?;
        let claim = self.charge_octets(weights::PROXY)?;
        let proxy = self.hierarchy.create_proxy(channel, side, admin, kind.form(), kind.passing())?;
        let key = ProxyKey { channel, proxy };
        self.kinds.insert(key, kind);
        self.ledger.entry(Thing::Proxy(key)).one = one;
        self.settle(Thing::Proxy(key), claim);
        Ok(key)
    }

    /// Takes back a proxy that nobody has been told of.
    pub(super) fn withdraw_proxy(&mut self, key: ProxyKey) {
        if let Ok(removed) = self.hierarchy.destroy_proxy(key) {
            self.forget(&removed, Tell::No);
        }
    }
}
