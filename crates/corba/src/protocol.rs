//! The CORBA protocol: one state machine that answers administrative requests and publishes the event path's state.

mod access;
mod added_links;
mod changes;
mod charges;
mod clients;
mod declared;
mod durable;
mod effects;
mod federation;
mod liveness;
mod local_proxies;
mod names;
mod nonces;
mod objects;
mod offers;
mod reconnection;
mod settings;
mod subscribed;
mod takeover;
mod teardown;
mod timers;
mod topology;
mod validation_errors;

pub use self::access::{Access, Act, ActOutcome, Denied, Forbidden, Guard};
pub(super) use self::changes::{Changes, InfoMode, code_set, difference};
pub(super) use self::charges::{
    Ledger, Thing, octets_of_correlation, octets_of_name, octets_of_reference, octets_of_types, weights,
};
use self::clients::Tell;
pub use self::declared::{ListedChannel, Settable};
pub use self::durable::DURABLE_NAME_BYTES_MAX;
pub(super) use self::effects::CallPurpose;
pub use self::effects::{ClientAnswer, ClientCall, Effect, Parting};
pub use self::federation::{AdvertisedName, FarName, FarNames, Federation, NAMES_MAX};
pub use self::liveness::{AT_ONCE_MAX, Idle, Probes, SupplierStatus};
use self::liveness::{Probed, Rescheduling};
use self::local_proxies::LocalProxyState;
pub use self::local_proxies::{
    ListedLocally, LocalChannel, LocalChannels, LocalProxy, NOT_PERMITTED, Part, RegisterError,
};
pub use self::names::Names;
pub(super) use self::names::{NAME_BYTES_MAX, Named};
pub use self::nonces::{KeyNumbers, ProxyNonces};
use self::nonces::{Nonces, ObjectNonces};
pub(super) use self::objects::InContext;
pub use self::objects::Objects;
pub use self::offers::{Offer, Offered};
pub use self::reconnection::CALLBACKS_MAX;
use self::reconnection::Reconnection;
pub use self::subscribed::Subscribed;
use self::subscribed::Watches;
pub use self::takeover::{Line, Lives, RestoredClient};
use self::teardown::Teardowns;
pub use self::teardown::{Creations, DelayedReplies, DelayedReply, Unpublished};
pub(super) use self::topology::convert;
pub use self::topology::{ChangedPart, NotRestored};
use super::exceptions::{Exception, Raised, UserException};
use super::keys::{FACTORY_TAO, ObjectKey};
use super::monitor::Monitor;
use super::naming::{CHANNELS_KIND, NameComponent, NamingLimits};
use super::peers::Peers;
use super::proxy_kind::ProxyKind;
use super::qos::RequestedProperties;
use super::table::{self, AdminKey, Call, Level, Target};
use accounts::{Account, Resource};
use engine::{
    ChannelId, ChannelLimits, DisconnectReason, HierarchyLimits, LaneChange, LaneId, ProxyKey, SettingsPatch, Snapshot,
    Time,
};
use giop::cdr::{CharSet, Reader, Writer};
use giop::ior::{Ior, SecureTransport};
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Settings of a protocol.
#[derive(Clone, Debug)]
pub struct ProtocolSettings {
    /// Host in every reference: a name or address to which clients can connect.
    pub host: String,
    /// Port in every reference.
    pub port: u16,
    /// TLS information in references, if TLS is on.
    pub secure: Option<SecureTransport>,
    /// The native narrow code set in every reference: clients that know both use it.
    pub chars: CharSet,
    /// Default settings of event delivery, for new channels.
    pub delivery: SettingsPatch,
    /// Default limits of a new channel.
    pub limits: ChannelLimits,
    /// Limits on the number of objects.
    pub hierarchy: HierarchyLimits,
    /// Memory limit of all channels' events, in bytes: the maximum of a channel's `MemoryBudget`.
    pub memory_bytes_max: u64,
    /// Whether there is a store for persistent events and connections.
    pub has_store: bool,
    /// Limits of the naming service.
    pub naming: NamingLimits,
    /// Compatibility with old servers.
    pub compatibility: Compatibility,
    /// Source of the random numbers in object keys. They must differ between runs of the service, since they prevent references of an
    /// earlier run from reaching the wrong objects.
    pub key_numbers: KeyNumbers,
}

/// Compatibility with old servers where these deviate from the standard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compatibility {
    /// Whether unknown properties are stored, returned, and without effect, instead of `UnsupportedQoS` or `UnsupportedAdmin`: TAO's
    /// clients set properties of their own.
    pub ignore_unknown_properties: bool,
    /// Whether `MaxConsumers` and `MaxSuppliers` raise `IMP_LIMIT`, as in TAO, instead of `AdminLimitExceeded`.
    pub limits_as_imp_limit: bool,
    /// Whether the default admins of new channels combine their filters with their proxies' by OR, as in TAO, instead of AND.
    pub default_admins_or: bool,
    /// Whether `shutdown`, `shutdown_event_channel` and `remove_…` of the monitor and control object are executed, instead of
    /// `NO_PERMISSION`.
    pub monitor_control: bool,
    /// Whether a client that disconnects its proxy has `disconnect_…` called on the reference with which it connected, as in the Event
    /// Service (1.2, 2.1.1), omniEvents and JacORB, but not in TAO's Notification Service. On by default.
    pub tell_on_disconnect: bool,
    /// Whether a client that reconnects its object, after its earlier process has ended, takes over that process's proxy, so that it gets
    /// each event once. On by default.
    pub take_over: bool,
    /// Whether a client that connects to a connected proxy replaces the former client, as with TAO's `-AllowReconnect`, instead of
    /// `AlreadyConnected`. Off by default.
    pub allow_reconnect: bool,
    /// Whether without a store, `EventReliability` and `ConnectionReliability` `Persistent` are stored, returned, and have no effect, as
    /// with TAO's server without its persistence, instead of `UnsupportedQoS`. Off by default.
    pub persistent_without_store: bool,
    /// Whether `get_filter` of a filter factory with an unknown number raises `INTERNAL`, as in TAO, instead of returning nil. Off by
    /// default.
    pub unknown_filter_internal: bool,
    /// The factory's name: in the naming service, as a bootstrap key, and in the names of statistics. Default `NotifyEventChannelFactory`.
    pub factory_name: String,
}

impl Default for Compatibility {
    fn default() -> Self {
        Self {
            ignore_unknown_properties: false,
            limits_as_imp_limit: false,
            default_admins_or: false,
            monitor_control: false,
            tell_on_disconnect: true,
            take_over: true,
            allow_reconnect: false,
            persistent_without_store: false,
            unknown_filter_internal: false,
            factory_name: FACTORY_TAO.to_owned(),
        }
    }
}

impl Compatibility {
    /// Converts an exception to that of old servers, where configured.
    fn as_old_servers_say(&self, raised: Raised) -> Raised {
        match raised {
            Raised::User(UserException::AdminLimitExceeded { .. }) if self.limits_as_imp_limit => Raised::limit(),
            raised => raised,
        }
    }
}

/// The CORBA protocol: the hierarchy and the naming service behind their object keys.
///
/// A pure state machine for the administration thread: it takes requests, and returns replies and effects. After each [`Protocol::handle`],
/// [`Protocol::handle_disconnected`] and [`Protocol::handle_answer`], call [`Protocol::publish`] and pass the result to the lanes *before*
/// the reply is sent, so that the lanes know a client as connected by the time of its reply (a very large change is published later:
/// [`Protocol::take_unpublished`]); then call [`Protocol::poll_effect`] until it returns `None`. [`Protocol::handle_time`] sets the time,
/// at the latest at [`Protocol::poll_timeout`].
///
/// Events themselves do not come here. Only `push…` requests for a proxy that the lane does not know as connected are passed here, for
/// their answer.
#[derive(Debug)]
pub struct Protocol {
    /// The objects that there are.
    pub objects: Objects,
    /// Access rules, denials and acts not yet reported.
    pub guard: Guard,
    /// State of TAO's monitor and control object.
    pub monitor: Monitor,
    /// State of clients' earlier and current processes.
    pub lives: Lives,
    /// Whether stored objects are being restored, before their clients are connected.
    is_restoring: bool,
    /// Calls to be made after the reply to the current request.
    partings: VecDeque<Parting>,
    published: Option<Published>,
    pub(super) changes: Changes,
    /// Replies withheld until clients are notified.
    pub delayed_replies: DelayedReplies,
    teardowns: Teardowns,
    /// Changes of the last request.
    unpublished: Unpublished,
    rescheduling: Rescheduling,
    /// Clients probed from time to time.
    pub probes: Probes,
    /// Clients checked by their silence.
    pub idle: Idle,
    watches: Watches,
    /// Names of channels of linked services.
    pub federation: Federation,
}

/// One request: the object, the operation, and the arguments.
#[derive(Clone, Debug)]
pub struct ObjectRequest<'a> {
    /// The object key.
    pub key: &'a [u8],
    /// The operation's name as sent: `_get_…` and `_set_…` for attributes.
    pub operation: &'a str,
    /// A reader in front of the arguments.
    pub args: Reader<'a>,
    /// Account of the requesting client, charged for stored objects and effects.
    pub principal: &'a Arc<Account>,
}

/// The state for the event path, consistent at one moment.
#[derive(Clone, Debug)]
pub struct Published {
    /// Connected suppliers and consumers.
    pub routing: Arc<Snapshot>,
    /// The CORBA part: keys and addresses.
    pub directory: Directory,
    /// Access rules; `None` if everything is allowed.
    pub access: Option<Access>,
}

/// The CORBA part beside a routing snapshot: the object keys of the snapshot's proxies, and the addresses of its clients. A copy shares
/// everything.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Addresses of the clients in the routing that are called for events: push consumers and pull suppliers.
    pub peers: Arc<Peers>,
    /// The numbers that have to be in the keys of proxies.
    pub nonces: ProxyNonces,
    /// Proxies found by the keys of others, after a take-over.
    pub aliases: Arc<HashMap<ProxyKey, ProxyKey>>,
}

impl Directory {
    /// The proxy of a key, unless the key is of another run of the service. The routing decides whether the proxy exists.
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

/// A client's address, and how to call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// The client's reference, as it gave it.
    pub ior: Ior,
    /// Account of the client that gave the reference: it is charged for looking the host up.
    pub by: Option<Arc<Account>>,
    /// The client's name in logs: host, port and the beginning of its object's key.
    pub name: String,
    /// The operation that transfers events: `push…` of a consumer, `try_pull…` of a supplier. Empty for a client that calls this service.
    pub operation: &'static str,
    /// Connections that the client has offered for calls to it.
    pub offered: Arc<Offered>,
}

impl Protocol {
    /// A protocol with only the default channel. Protocols with the same settings produce the same references.
    #[must_use]
    pub fn new(settings: ProtocolSettings) -> Self {
        let mut protocol = Self {
            objects: Objects::new(settings),
            guard: Guard::default(),
            monitor: Monitor::default(),
            lives: Lives::default(),
            is_restoring: false,
            partings: VecDeque::new(),
            published: None,
            changes: Changes::default(),
            delayed_replies: DelayedReplies::default(),
            teardowns: Teardowns::default(),
            unpublished: Unpublished::default(),
            rescheduling: Rescheduling::default(),
            probes: Probes::default(),
            idle: Idle::default(),
            watches: Watches::default(),
            federation: Federation::default(),
        };
        protocol.make_default_channel();
        protocol
    }

    fn make_default_channel(&mut self) {
        match self.objects.hierarchy.create_channel(self.objects.settings.delivery, self.objects.settings.limits) {
            Ok(channel) => {
                let _ = self.objects.set_default_operator(channel);
                let objects = ObjectNonces::new(self.objects.keys.drawing.next());
                self.objects.keys.nonces.insert(channel, Nonces { own: 0, objects });
            }
            Err(refusal) => log::error!(target: "campanile::corba", "there is no default channel: {refusal}"),
        }
    }

    /// Executes a request and writes its results to `reply`, which is at the beginning of the reply's body.
    ///
    /// # Errors
    ///
    /// The exception to send instead: then nothing was changed, and the contents of `reply` are to be discarded.
    pub fn handle(&mut self, call: &ObjectRequest<'_>, reply: &mut Writer<'_>) -> Result<(), Exception> {
        let (encoding, phase) = (reply.encoding(), reply.phase());
        self.objects.ledger.principal = Some(Arc::clone(call.principal));
        self.delayed_replies.begin();
        self.partings.clear();
        // What the service has made itself, as declared channels, is no request's.
        self.objects.made = Creations::default();
        self.note_unpublished();
        let outcome = self.dispatch(call, reply);
        self.note_unpublished();
        self.objects.ledger.principal = None;
        outcome.map_err(|raised| {
            self.objects.made = Creations::default();
            let raised = self.objects.compatibility().as_old_servers_say(raised);
            log::debug!(
                target: "campanile::corba",
                "{} on {}: {raised:?}", call.operation.escape_debug(), call.key.escape_ascii()
            );
            raised.into_exception(encoding, phase)
        })
    }

    /// Handles a lane's report that it gave a consumer up. Its proxy is destroyed, as if the consumer had disconnected, and the consumer is
    /// notified unless it caused this itself.
    pub fn handle_disconnected(&mut self, key: ProxyKey, reason: DisconnectReason) {
        match self.objects.hierarchy.destroy_proxy(key) {
            Ok(removed) if reason == DisconnectReason::Gone => self.forget(&removed, Tell::No),
            Ok(removed) => self.forget(&removed, Tell::Yes),
            // The proxy was disconnected meanwhile.
            Err(refusal) => log::debug!(target: "campanile::corba", "nothing to disconnect: {refusal}"),
        }
    }

    /// Handles a client's answer to an [`Effect::Ask`].
    pub fn handle_answer(&mut self, client_call: ClientCall, answer: ClientAnswer) {
        match client_call.0 {
            CallPurpose::Change(peer) => {
                if !self.changes.change_answered(&mut self.objects, peer, answer) {
                    self.reap(peer, None);
                }
            }
            CallPurpose::Probe(peer) => {
                let Some(probed) = self.probes.probed(&mut self.objects, peer, answer) else { return };
                match probed {
                    Probed::Alive => {
                        self.changes.queue_notification(&mut self.objects, peer);
                        self.changes.tell_waiting(&mut self.objects);
                    }
                    Probed::Dead(unreachable_for) => self.reap(peer, unreachable_for),
                    Probed::Unknown => {}
                }
                self.probes.ask_who_is_due(&mut self.objects);
            }
            CallPurpose::Reconnect(id) => self.objects.reconnection().answered(id, answer),
            CallPurpose::Registered(id) => self.objects.reconnection().probed(id, answer),
            CallPurpose::FilterChange { filter, callback } => {
                self.objects.filters().callback_answered(filter, callback, answer)
            }
        }
    }

    /// Takes the next effect; `None` when none is left.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.objects.effects.pop_front()
    }

    /// Takes the next call to be made after the reply to the last request; `None` when none is left. Call it before the next request.
    pub fn poll_parting(&mut self) -> Option<Parting> {
        self.partings.pop_front()
    }

    /// The new state for the event path, if it has changed since the last call.
    pub fn publish(&mut self) -> Option<Published> {
        self.changes.tell_changes(&mut self.objects);
        self.report_subscribed();
        self.report_names();
        let routing = self.objects.hierarchy.snapshot();
        self.end_teardowns();
        let others = self.objects.clients.called_changed || self.guard.has_changed();
        let is_same = |last: &Published| last.routing.version == routing.version && !others;
        if self.published.as_ref().is_some_and(is_same) {
            return None;
        }
        let last = self.published.as_ref().map(|last| &last.directory);
        let peers = match last {
            Some(last) if !self.objects.clients.called_changed => Arc::clone(&last.peers),
            _ => Arc::new(self.objects.clients.called.clone()),
        };
        let nonces = match last {
            Some(last) if !self.objects.keys.has_changed => last.nonces.clone(),
            _ => ProxyNonces::of(self.objects.keys.nonces.iter()),
        };
        (self.objects.clients.called_changed, self.objects.keys.has_changed) = (false, false);
        self.guard.take_changed();
        let aliases = Arc::clone(self.objects.keys.aliases.published());
        let access = self.guard.access().cloned();
        let published = Published { routing, directory: Directory { peers, nonces, aliases }, access };
        self.published = Some(published.clone());
        Some(published)
    }

    /// The next lane to start, before the result of [`Protocol::publish`] is passed to the lanes, or to end, after that.
    pub fn poll_lane(&mut self) -> Option<LaneChange> {
        self.objects.hierarchy.poll_lane()
    }

    /// Notes that the thread of an ending lane has ended.
    pub fn lane_gone(&mut self, lane: LaneId) {
        self.objects.hierarchy.lane_gone(lane);
    }

    /// Notes that a lane cannot be started: the main lane takes over its proxies.
    pub fn lane_unavailable(&mut self, lane: LaneId) {
        self.objects.hierarchy.lane_unavailable(lane);
    }

    /// Sets the time, and does what is due: probes a few clients, and if there are more, [`Protocol::poll_timeout`] is due at once again.
    pub fn handle_time(&mut self, now: Time) {
        self.objects.clock.time = self.objects.clock.time.max(now);
        self.go_on_taking_apart();
        self.rescheduling.go_on(&mut self.objects, &mut self.probes, &mut self.idle);
        self.probes.ask_who_is_due(&mut self.objects);
        self.idle.look_at_callers(&mut self.objects).into_iter().for_each(|silent| self.disconnect_silent(silent));
        self.objects.reconnection().call_due();
        self.delayed_replies.handle_time(self.objects.clock.time);
    }

    /// When [`Protocol::handle_time`] has to be called next, unless something else happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.objects.hierarchy.has_work() || !self.rescheduling.is_empty() || self.changes.has_more_to_tell() {
            return Some(self.objects.clock.time);
        }
        let times =
            [self.probes.next(), self.idle.next(), self.delayed_replies.next(), self.objects.reconnection.next()];
        times.into_iter().flatten().chain(self.next_subscribed()).chain(self.next_names()).min()
    }

    fn dispatch(&mut self, call: &ObjectRequest<'_>, reply: &mut Writer<'_>) -> Result<(), Raised> {
        let target = self.objects.target(call.key).ok_or_else(|| match self.forward(call.key) {
            Some(elsewhere) => Raised::Forward(Box::new(elsewhere)),
            None => Raised::object_not_exist(),
        })?;
        let operation = table::find(self.objects.servant(target)?, call.operation).ok_or_else(Raised::bad_operation)?;
        let act = self.guard.act(&self.objects, target, operation.name, &call.args);
        let done = self.guard.authorize(&self.objects, target, operation.name);
        if let (Ok(()), Target::Proxy(key, _)) = (&done, target) {
            self.take_up_offer(key);
        }
        let done = done
            .and_then(|()| (operation.handler)(Call { protocol: self, on: target, args: call.args.clone(), reply }));
        if let Some(what) = act {
            self.guard.note_act(&self.objects, what, done.as_ref().copied());
        }
        done
    }

    /// Channels that the requesting client may know of.
    pub(super) fn channels_known(&self) -> impl Iterator<Item = ChannelId> {
        self.objects.channels().filter(|channel| self.guard.knows(&self.objects, *channel))
    }

    /// The channel that a name in the naming service's root stands for beside its binding: if nothing is bound, the one with the event
    /// channel's name; if the bound object of this service is gone, the channel with the name now.
    pub(crate) fn channel_behind(&self, name: &NameComponent, bound: Option<&Ior>) -> Option<Ior> {
        let is_gone = |bound: &Ior| self.objects.is_own_reference(bound) && self.objects.own_target(bound).is_none();
        if !bound.map_or(name.kind == CHANNELS_KIND, is_gone) {
            return None;
        }
        let channel = self
            .objects
            .names
            .channel_named(name.channel()?)
            .filter(|channel| self.guard.knows(&self.objects, *channel))?;
        self.objects.reference(Target::Channel(channel)).ok()
    }

    /// Applies the requested properties of a level, which have been validated.
    pub(crate) fn set(&mut self, level: Level, requested: RequestedProperties) -> Result<(), Raised> {
        if self.objects.set(level, requested)? {
            self.rescheduling.reschedule(level, &mut self.objects, &mut self.probes, &mut self.idle);
        }
        Ok(())
    }

    pub(super) fn create_channel(
        &mut self,
        requested: RequestedProperties,
        name: Option<&str>,
    ) -> Result<ChannelId, Raised> {
        name.map_or(Ok(()), |name| self.objects.names.check_channel_name(name))?;
        self.guard.authorize_creation(&self.objects, name)?;
        let one = self.objects.ledger.charge(Resource::Channels, 1)?;
        let topics = requested.topics.by_type.iter().map(|(kind, _)| kind);
        let octets = octets_of_types(topics) + octets_of_name(name) + requested.unknown.octets();
        let claim = self.objects.ledger.charge_octets(weights::CHANNEL + octets)?;
        let (patch, threads) = self.objects.with_pool(None, &requested)?;
        let channel = self.objects.hierarchy.create_channel(patch, requested.limits)?;
        self.objects.set_default_operator(channel)?;
        let thing = Thing::Channel(channel);
        self.objects.ledger.entry(thing).one = one;
        self.objects.ledger.note_threads(thing, threads);
        self.objects.set_profile(channel, requested.profile);
        self.objects.set_topics(channel, requested.topics)?;
        name.into_iter()
            .for_each(|name| self.objects.names.give_new(&mut self.objects.hierarchy, Named::Channel(channel), name));
        self.objects.take_unknown(Level::Channel(channel), requested.unknown);
        self.guard.note_name_for_rules(&self.objects, channel);
        self.objects.ledger.note_owner(thing);
        self.objects.adjust(thing, claim);
        self.objects.made.note(thing);
        let (own, objects) = (self.objects.keys.drawing.next(), ObjectNonces::new(self.objects.keys.drawing.next()));
        self.objects.keys.nonces.insert(channel, Nonces { own, objects });
        self.objects.keys.has_changed = true;
        Ok(channel)
    }

    pub(super) fn create_proxy(
        &mut self,
        admin: AdminKey,
        kind: ProxyKind,
        name: Option<&str>,
    ) -> Result<ProxyKey, Raised> {
        self.create_proxy_passing(admin, (kind, kind.passing()), name)
    }

    /// Makes a proxy with this kind for the engine.
    fn create_proxy_passing(
        &mut self,
        admin: AdminKey,
        (kind, passing): (ProxyKind, engine::ProxyKind),
        name: Option<&str>,
    ) -> Result<ProxyKey, Raised> {
        let AdminKey { channel, side, admin } = admin;
        // One that was restored with its client gives its name away.
        let may_take =
            |former| self.lives.former.contains(&former) && self.guard.may_replace(&self.objects, former, side);
        name.map_or(Ok(()), |name| self.objects.names.check_proxy_name(channel, side, name, may_take))?;
        self.objects.admit_kind(channel, kind)?;
        let one = self.objects.ledger.charge(Resource::Proxies, 1)?;
        let claim = self.objects.ledger.charge_octets(weights::PROXY + octets_of_name(name))?;
        let leaving = self.places_left(AdminKey { channel, side, admin }, kind, name);
        let place = (channel, side, admin);
        let proxy = self.objects.hierarchy.create_proxy_in_place_of(leaving, place, kind.form(), passing)?;
        let key = ProxyKey { channel, proxy };
        self.objects.proxies.kinds.insert(key, kind);
        name.into_iter()
            .for_each(|name| self.objects.names.give_new(&mut self.objects.hierarchy, Named::Proxy(key, side), name));
        self.objects.ledger.entry(Thing::Proxy(key)).one = one;
        self.objects.adjust(Thing::Proxy(key), claim);
        self.objects.ledger.note_owner(Thing::Proxy(key));
        self.objects.made.note(Thing::Proxy(key));
        Ok(key)
    }

    /// Withdraws a proxy that no client has seen yet.
    pub(super) fn withdraw_proxy(&mut self, key: ProxyKey) {
        if let Ok(removed) = self.objects.hierarchy.destroy_proxy(key) {
            self.forget(&removed, Tell::No);
        }
    }
}
