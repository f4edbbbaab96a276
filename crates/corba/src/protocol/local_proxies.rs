//! Clients of other protocols: each has a proxy, beside those of CORBA's clients, and no callable object.
//!
//! Their proxies belong to the channels' default admins and are visible there to all clients that read the hierarchy. They are charged,
//! limited and filtered like all others, and end with [`LocalProxyGone`](super::Effect::LocalProxyGone) if another client ends them. Their
//! connections and proxies are on the main lane, whatever thread pools exist.

use super::clients::{Tell, side_name};
use super::durable::DURABLE_NAME_BYTES_MAX;
use super::names::NAME_BYTES_MAX;
use super::{Objects, Protocol, Thing, octets_of_correlation, octets_of_types, weights};
use crate::exceptions::{ACCESS_DENIED, Raised};
use crate::near;
use crate::proxy_kind::ProxyKind;
use accounts::{Account, Resource};
use engine::{
    AdminId, ChannelId, DiscardPolicy, EventType, FilterId, FilterTarget, FullOutbox, OutboxSettings, OutputForm, Peer,
    ProxyKey, Refusal, Reliability, SettingsPatch, Side, StartFrom, SubscriptionTarget,
};
use filter::correlation::Correlation;
use filter::{Constraint, ConstraintError, Limits};
use giop::client_name;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

/// A channel as a client of another protocol names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalChannel {
    /// A channel by number.
    Number(ChannelId),
    /// A channel by name, even if that is a number.
    Name {
        /// The name.
        name: String,
        /// Whether the channel is made if it does not exist.
        create: bool,
    },
}

impl From<ChannelId> for LocalChannel {
    fn from(channel: ChannelId) -> Self {
        Self::Number(channel)
    }
}

/// A channel in a list for clients of other protocols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedLocally {
    /// The channel's number.
    pub id: ChannelId,
    /// The channel's name, if it has one.
    pub name: Option<String>,
    /// Connected consumers.
    pub consumers: u32,
    /// Connected suppliers.
    pub suppliers: u32,
}

/// A page of the channels that a client may know of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalChannels {
    /// Channels by number, [`LocalChannels::AT_ONCE`] at most.
    pub channels: Vec<ListedLocally>,
    /// The channel behind which the next page begins; `None` on the last page.
    pub next: Option<ChannelId>,
}

impl LocalChannels {
    /// Maximum channels in a page.
    pub const AT_ONCE: usize = 100;
    /// Maximum channels visited for a page, including those that the client may not know.
    const LOOKED_AT: usize = 1_024;
}

/// The request of a client of another protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalProxy {
    /// The channel.
    pub channel: LocalChannel,
    /// The handle given by its protocol: [`LocalProxy::FIRST_PEER`] or above, never reused.
    pub peer: Peer,
    /// The client's name in logs.
    pub name: String,
    /// The client's role.
    pub part: Part,
    /// The event type, if there is just one: a denial then names its deciding rule.
    pub about: Option<EventType>,
}

impl LocalProxy {
    /// The first of other protocols' handles; those below belong to CORBA clients.
    pub const FIRST_PEER: Peer = Peer(1 << 63);
}

/// The role of a client of another protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Supplies events by pushes.
    Supplier,
    /// Consumes events without answers.
    Consumer {
        /// The subscribed types; empty for all.
        types: Vec<EventType>,
        /// A constraint in the filter language; empty for all.
        constraint: String,
        /// The protocol's requirements for translation.
        output_form: OutputForm,
        /// Where it begins in the channel's history. Its events then have numbers.
        start: Option<StartFrom>,
        /// The sets of events that it gets; `None` if it gets single ones.
        correlation: Option<Arc<Correlation>>,
        /// Whether it only watches: it never blocks suppliers, and loses the oldest events when full.
        looks_on: bool,
        /// The name of a durable consumer in its channel, of 1 to 255 octets: the proxy outlives its connections and the process, is found
        /// by the name, and queues events meanwhile. It never blocks suppliers: events without room are discarded.
        durable: Option<String>,
        /// Whether its deliveries end with an answer ([`Outcome::Delivered`](engine::Outcome::Delivered)), with time limits of its
        /// protocol: up to 1,024 may be under way. Other deliveries end when the socket has them.
        confirms: bool,
        /// Whether a full durable consumer refuses persistent events to their suppliers, instead of losing them. Other events, and events
        /// that lanes of thread pools have taken already, are discarded all the same.
        refuses: bool,
        /// Maximum bytes of its queued events; `None` if only the channel's budgets limit them.
        backlog_bytes_max: Option<NonZeroU64>,
    },
}

impl Part {
    /// The settings of its proxy.
    pub(super) fn settings(&self) -> SettingsPatch {
        let Self::Consumer { start, looks_on, durable, confirms, refuses, backlog_bytes_max, .. } = self else {
            return SettingsPatch::default();
        };
        let mut patch = SettingsPatch { one_way: Some(!confirms), start_from: *start, ..SettingsPatch::default() };
        if *looks_on {
            patch.max_events_per_consumer = Some(Some(EVENTS_OF_ONLOOKER_MAX));
            patch.full_outbox = Some(FullOutbox::Discard);
            patch.discard_policy = Some(DiscardPolicy::Fifo);
        }
        if *confirms {
            patch.push_window = Some(OutboxSettings::PUSH_WINDOW_MAX);
            (patch.reply_timeout, patch.give_up_after) = (Some(Duration::ZERO), Some(Duration::ZERO));
            patch.delivery_attempts = Some(0);
        }
        if durable.is_some() {
            patch.connection_reliability = Some(Reliability::Persistent);
            patch.connection_expiry = Some(Duration::ZERO);
            patch.full_outbox = Some(if *refuses { FullOutbox::Reject } else { FullOutbox::Discard });
            patch.max_bytes_per_consumer = Some(*backlog_bytes_max);
            (patch.blocking, patch.latency_bound) = (Some(Duration::ZERO), Some(Duration::ZERO));
        }
        patch
    }
}

/// Maximum events queued for a watching local proxy.
const EVENTS_OF_ONLOOKER_MAX: NonZeroU32 = NonZeroU32::new(256).expect("not 0");

/// Text of a denial of a proxy, or an event, by the rules of access.
pub const NOT_PERMITTED: &str = "it is not permitted: the service's rules of access say so";

/// Why a client of another protocol is refused.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RegisterError {
    /// The engine refuses.
    Refused(Refusal),
    /// The client's quota, or the service's limit, is used up.
    Spent,
    /// The constraint cannot be read.
    Constraint(ConstraintError),
    /// The channel has as many constraints as it may.
    TooManyConstraints,
    /// The channel has no history to begin in.
    NoHistory,
    /// The channel's default admin has a filter that a client implements, which would tear sets apart.
    NoSets,
    /// The rules do not allow it.
    Denied,
    /// No channel known to the client has that name; a similar name, if there is one.
    NoChannel(String, Option<String>),
    /// No channel here has that name, but a linked service's has, at that host and port.
    Elsewhere(String, String),
    /// The channel of that name cannot be made, and why.
    NotMade(String, String),
    /// The name of a durable consumer is empty or too long.
    DurableName,
    /// A client is already connected as the durable consumer of that name.
    DurableConnected,
}

impl From<Refusal> for RegisterError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Denied => f.write_str(NOT_PERMITTED),
            Self::Spent => f.write_str("there is no room for more of this client's; it may come again later"),
            Self::Constraint(error) => write!(f, "the constraint cannot be read: {error}"),
            Self::TooManyConstraints => {
                f.write_str("the constraints of this channel's consumers are as large as they may be")
            }
            Self::NoChannel(name, near) => {
                write!(f, "there is no channel \"{}\"", beginning(name))?;
                near.iter().try_for_each(|near| write!(f, "; did you mean \"{}\"?", beginning(near)))
            }
            Self::Elsewhere(name, at) => write!(f, "channel \"{}\" is at {at}", beginning(name)),
            Self::NotMade(name, why) => write!(f, "the channel \"{}\" cannot be made: {why}", beginning(name)),
            Self::DurableName => write!(f, "a durable consumer's name has 1 to {DURABLE_NAME_BYTES_MAX} octets"),
            Self::DurableConnected => f.write_str("a client is connected already as the durable consumer of this name"),
            Self::NoSets => f.write_str(
                "there are no sets (when) in this channel: its default consumer admin has a filter that a client implements",
            ),
            Self::NoHistory => {
                f.write_str("the channel stores no history: set its HistoryEvents, HistoryAge or HistoryBytes")
            }
        }
    }
}

impl std::error::Error for RegisterError {}

/// The beginning of a client's text, for error messages.
fn beginning(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}

/// A client of another protocol that takes part.
#[derive(Debug)]
pub(super) struct LocalProxyState {
    pub(super) name: String,
    pub(super) filter: Option<FilterId>,
    /// Its name, if it is a durable consumer.
    pub(super) durable: Option<Arc<str>>,
}

impl Protocol {
    /// Connects a client of another protocol, on behalf of `principal`. The answer must wait until this is published, as with
    /// [`Protocol::handle`].
    ///
    /// # Errors
    /// The reason of the refusal; nothing was changed.
    pub fn register_local_proxy(
        &mut self,
        local_proxy: LocalProxy,
        principal: &Arc<Account>,
    ) -> Result<ProxyKey, RegisterError> {
        self.objects.ledger.principal = Some(Arc::clone(principal));
        self.note_unpublished();
        let registered = self.create_local_proxy(local_proxy);
        self.note_unpublished();
        self.objects.ledger.principal = None;
        registered
    }

    /// A client of another protocol goes.
    pub fn remove_local_proxy(&mut self, key: ProxyKey) {
        if self.objects.proxies.local.contains_key(&key)
            && let Ok(removed) = self.objects.hierarchy.destroy_proxy(key)
        {
            self.forget(&removed, Tell::No);
        }
    }

    /// Some of the channels known to `principal`, from behind a given one.
    pub fn local_channels(&mut self, behind: Option<ChannelId>, principal: &Arc<Account>) -> LocalChannels {
        self.objects.ledger.principal = Some(Arc::clone(principal));
        let mut page = LocalChannels::default();
        let all = self.objects.hierarchy.channels().filter(|channel| behind.is_none_or(|behind| channel.id() > behind));
        let mut last = None;
        for (number, channel) in all.enumerate() {
            if number == LocalChannels::LOOKED_AT || page.channels.len() == LocalChannels::AT_ONCE {
                page.next = last;
                break;
            }
            last = Some(channel.id());
            if self.guard.knows(&self.objects, channel.id()) {
                page.channels.push(ListedLocally {
                    id: channel.id(),
                    name: self.objects.names.channel_name(channel.id()).map(str::to_owned),
                    consumers: channel.connected(Side::Consumers),
                    suppliers: channel.connected(Side::Suppliers),
                });
            }
        }
        self.objects.ledger.principal = None;
        page
    }

    fn create_local_proxy(&mut self, local_proxy: LocalProxy) -> Result<ProxyKey, RegisterError> {
        let found = match &local_proxy.channel {
            LocalChannel::Number(channel) => Some(*channel),
            LocalChannel::Name { name, .. } => self.channel_known_as(name),
        };
        match (found, &local_proxy.channel) {
            (Some(channel), _) => self.create_local_proxy_in(channel, local_proxy),
            (None, LocalChannel::Name { name, create: true }) => {
                let channel = self.create_local_channel(name)?;
                let created = self.create_local_proxy_in(channel, local_proxy);
                if created.is_err() {
                    // Its client asked for both.
                    _ = self.destroy_channel(channel);
                }
                created
            }
            (None, LocalChannel::Name { name, .. }) => {
                if let Some(at) = self.federated_at(name) {
                    return Err(RegisterError::Elsewhere(name.clone(), at));
                }
                let known = self.channels_known().take(LocalChannels::LOOKED_AT);
                let names = known.filter_map(|channel| self.objects.names.channel_name(channel));
                Err(RegisterError::NoChannel(name.clone(), near::nearest(name, names).map(str::to_owned)))
            }
            (None, LocalChannel::Number(channel)) => Err(Refusal::ChannelNotFound { channel: *channel }.into()),
        }
    }

    /// The channel of that name, if the requesting client may know it.
    fn channel_known_as(&self, name: &str) -> Option<ChannelId> {
        self.objects.names.channel_named(name).filter(|channel| self.guard.knows(&self.objects, *channel))
    }

    /// Makes a channel with a printable name: other protocols' clients send text only.
    fn create_local_channel(&mut self, name: &str) -> Result<ChannelId, RegisterError> {
        let failed = |why: String| RegisterError::NotMade(name.to_owned(), why);
        if name.trim().is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(failed(format!("a channel's name has 1 to {NAME_BYTES_MAX} octets, and not spaces alone")));
        }
        if let Some(c) = client_name::unprintable(name) {
            let why = "a name has no control, invisible or direction characters, such as";
            return Err(failed(format!("{why} U+{:04X}", u32::from(c))));
        }
        let requested = self.objects.initial_properties();
        let made = self.create_channel(requested, Some(name));
        let what = format!("create_named_channel on the service: \"{}\"", beginning(name));
        self.guard.note_act(&self.objects, what, made.as_ref().map(drop));
        made.map_err(|raised| match raised {
            Raised::System(ACCESS_DENIED) => RegisterError::Denied,
            raised => failed(raised.to_string()),
        })
    }

    fn create_local_proxy_in(
        &mut self,
        channel: ChannelId,
        local_proxy: LocalProxy,
    ) -> Result<ProxyKey, RegisterError> {
        let known = self.find_durable(channel, &local_proxy.part)?;
        let mut of_sets = 0;
        let (side, types) = match &local_proxy.part {
            Part::Supplier => (Side::Suppliers, &[][..]),
            Part::Consumer { types, constraint, start, correlation, .. } => {
                check_constraint(&self.objects, channel, constraint)?;
                let in_history = start.is_some_and(|start| start != StartFrom::New);
                if in_history && !self.objects.hierarchy.channel(channel)?.limits().history.keeps() {
                    return Err(RegisterError::NoHistory);
                }
                let admin = FilterTarget::Admin { channel, side: Side::Consumers, admin: AdminId::DEFAULT };
                if correlation.is_some() && self.objects.has_remote_filter(admin)? {
                    return Err(RegisterError::NoSets);
                }
                of_sets = correlation.as_deref().map_or(0, |correlation| octets_of_correlation(correlation, 1));
                (Side::Consumers, &types[..])
            }
        };
        let what = match side {
            Side::Suppliers => "to supply events",
            Side::Consumers => "to be sent events",
        };
        self.guard
            .authorize_use(&self.objects, side, (channel, local_proxy.about.as_ref()), what)
            .map_err(|_| RegisterError::Denied)?;
        if let Some(key) = known {
            return self.rejoin(key, local_proxy);
        }
        let one = self.objects.ledger.charge(Resource::Proxies, 1).map_err(|_| RegisterError::Spent)?;
        let octets = weights::PROXY + weights::CLIENT + octets_of_types(types) + of_sets;
        let LocalProxy { channel: _, peer, name, part, about: _ } = local_proxy;
        let (kind, passing) = (ProxyKind::LOCAL, ProxyKind::LOCAL.passing_on_main_lane());
        let claim = self.objects.ledger.charge_octets(octets).map_err(|_| RegisterError::Spent)?;
        let proxy = self.objects.hierarchy.create_proxy(channel, side, AdminId::DEFAULT, kind.form(), passing)?;
        let key = ProxyKey { channel, proxy };
        self.objects.proxies.kinds.insert(key, kind);
        let durable = match &part {
            Part::Consumer { durable, .. } => durable.as_deref().map(Arc::from),
            Part::Supplier => None,
        };
        if durable.is_some() {
            self.objects.made.note(Thing::Proxy(key));
        }
        self.objects.note_local_proxy(key, LocalProxyState { name, filter: None, durable });
        self.objects.ledger.entry(Thing::Proxy(key)).one = one;
        self.objects.ledger.note_owner(Thing::Proxy(key));
        let connected = self.connect_local_proxy(key, peer, part);
        if let Err(refused) = connected {
            self.remove_local_proxy(key);
            return Err(refused);
        }
        self.objects.adjust(Thing::Proxy(key), claim);
        if side == Side::Suppliers {
            self.idle.note_caller(&mut self.objects, key, side);
        }
        self.objects.log_debug(|objects| format!("{} is connected", objects.name(side_name(side), key)));
        Ok(key)
    }

    fn connect_local_proxy(&mut self, key: ProxyKey, peer: Peer, part: Part) -> Result<(), RegisterError> {
        let (settings, mut is_durable) = (part.settings(), false);
        let (output_form, side) = match part {
            Part::Supplier => (OutputForm::default(), Side::Suppliers),
            Part::Consumer { types, constraint, output_form, durable, correlation, .. } => {
                if !types.is_empty() {
                    let claim =
                        self.objects.ledger.claim_types(Thing::Proxy(key), &types).map_err(|_| RegisterError::Spent)?;
                    self.objects.hierarchy.subscribe(SubscriptionTarget::Proxy(key), &types, &[])?;
                    self.objects.adjust_types(Thing::Proxy(key), claim);
                }
                if !constraint.trim().is_empty() {
                    let filter =
                        self.objects.filter_for(key, constraint).map_err(|_| RegisterError::TooManyConstraints)?;
                    if let Some(local_proxy) = self.objects.proxies.local.get_mut(&key) {
                        local_proxy.filter = Some(filter);
                    }
                }
                self.objects.hierarchy.set_proxy_settings(key, settings)?;
                self.objects.hierarchy.set_correlation(key, correlation)?;
                is_durable = durable.is_some();
                (output_form, Side::Consumers)
            }
        };
        self.objects.hierarchy.connect(key, Some(peer), output_form)?;
        if is_durable {
            self.objects.hierarchy.make_durable(key)?;
        }
        self.guard.permit_connected(&mut self.objects, key);
        if side == Side::Consumers {
            self.objects.hierarchy.note_start(key, None)?;
        }
        if let Some(activity) = &self.objects.hierarchy.proxy(key)?.activity {
            activity.note(self.objects.clock.time);
        }
        Ok(())
    }
}

/// The error of a constraint, for which an exception has no room.
fn check_constraint(objects: &Objects, channel: ChannelId, constraint: &str) -> Result<(), RegisterError> {
    let limits = objects.hierarchy.channel(channel)?.limits();
    let bytes_max = limits.constraint_bytes_max.min(objects.hierarchy.constraint_bytes_max());
    let nodes_max = limits.constraint_nodes_max;
    let language = Limits { bytes_max, nodes_max, ..Limits::default() };
    Constraint::parse(constraint, &language).map(drop).map_err(RegisterError::Constraint)
}
