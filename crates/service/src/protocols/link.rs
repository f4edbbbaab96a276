//! Links to other services, on the main lane: they join channels with those of the same names elsewhere ([`links`]).
//!
//! A link is one connection. The service with the link in its configuration dials ([`dialling`]), and opens the flows on it: for each
//! channel one out, one in, or both ([`session`]). A flow out is a durable consumer of the near channel ([`outflow`]): unacknowledged
//! events stay in its outbox, on disk if need be, with or without a connection. A flow in is a supplier of the far channel ([`inflow`]),
//! which admits each event of an origin once.
//!
//! Events are sent as structured events, which consumers of all protocols can receive.

mod changes;
mod datagrams;
mod dialling;
mod directory;
pub(crate) mod discovery;
mod episodes;
mod forgetting;
mod gateway;
mod iiop;
mod inflow;
mod interests;
mod outflow;
mod session;
mod stalls;
mod status;
mod zenoh;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use corba::{AdvertisedName, Subscribed};
use core::time::Duration;
use engine::{ChannelId, Delivery, Event, OutputForm, Peer, ProxyKey, Time};
use hashbrown::HashMap;

use self::datagrams::{DatagramSettings, Groups, Receiving};
use self::dialling::Link;
use self::discovery::Discovery;
use self::episodes::Episodes;
use self::gateway::Gateway;
use self::inflow::{Claim, EndedSupplier, Inflow, Sightings};
use self::interests::ChannelInterest;
use self::outflow::{Backlog, Outflow};
use self::session::{Connection, State};
#[cfg(feature = "zenoh")]
pub(crate) use self::zenoh::narrow_pair;
pub(crate) use self::zenoh::{FromZenoh, ZENOH_ADDRESS, ZenohEnds};
use super::{Client, CoreCheck, CoreStep, Given, LinkAct, LinksAt, NOBODY, Step, Tag, WireProtocol};
use crate::admin::values::{FederationMember, LinkOrigin};
use crate::config::{Carrier, Config, ConfigError, LinkEntry, LinkNames, parse_listen};
use crate::lane::intake::Refused;
use crate::lane::intake::origins::Origins;
use crate::lane::io::entrance::Arrival;
use crate::lane::io::net::Poll;
use crate::lane::io::quotas::Rounds;
use crate::lane::io::slots::{Slots, Token};
use crate::lane::io::socket::{Layer, Socket};
use crate::lane::io::stream::Stream;
use crate::lane::io::system::{Interest, Ready};
use crate::lane::run::{Common, Core, LaneEnds, Worker};
use accounts::Account;

/// The form in which events are sent: structured.
const OUTPUT_FORM: OutputForm = OutputForm((Tag::Link as u32) << 16);

/// Interval at which links, connections and their limits are checked, where there are any.
const LOOKED_AFTER: Duration = Duration::from_millis(500);

/// The protocol's parameters.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    links: Arc<[LinkEntry]>,
    /// Links added by operators, as stored when the process began.
    pub(crate) added: Vec<LinkEntry>,
    /// The service's federation, if it has one.
    pub(crate) federation: Option<Arc<discovery::Settings>>,
    /// The service's name, as sent to other services.
    name: Arc<str>,
    limits: links::Limits,
    datagrams: DatagramSettings,
    forget_after: Duration,
    /// The budget of each flow out of a link that another service makes.
    backlog: Backlog,
    /// Time without acknowledgements after which a connection is ended. `None`: unlimited.
    stalled_after: Option<Duration>,
    /// Whether this service keeps events and its identity over restarts.
    has_store: bool,
    names: LinkNames,
    names_forgotten_after: Duration,
    request_bytes_min: u64,
    iiop: iiop::Options,
    /// Durable consumers of other services' links when the process began: channel's name, own name, and key.
    pub(crate) served: Vec<(String, String, ProxyKey)>,
}

/// The links' part of a lane. Only the main lane has links.
pub(crate) struct Protocol {
    settings: Settings,
    /// The identity of this service, and the incarnation of its process.
    service: u64,
    incarnation: u64,
    /// The account charged for links that this service makes.
    own: Arc<Account>,
    links: Vec<Link>,
    discovery: Option<Box<Discovery>>,
    connections: Slots<Connection>,
    outflows: Slots<Outflow>,
    inflows: Slots<Inflow>,
    /// Suppliers of flows in that have ended, by their tokens.
    ended_suppliers: HashMap<u64, EndedSupplier>,
    /// Episodes of links that other services make.
    episodes: Episodes,
    /// Flows by the handles of their proxies.
    flows: HashMap<Peer, Flow>,
    next_peer: Peer,
    /// Connections by the handles of their directories.
    directories: HashMap<Peer, Token>,
    /// The origins seen by each channel.
    sightings: Sightings,
    /// Subscriptions by channel.
    interests: HashMap<ChannelId, ChannelInterest>,
    look_after: Option<Time>,
    /// Groups to which events are sent in datagrams, and the sockets that receive datagrams.
    groups: Groups,
    receiving: Receiving,
    /// Links carried by Zenoh, in both directions.
    zenoh: ZenohEnds,
    /// A buffer for reads from sockets.
    read: Vec<u8>,
}

/// A flow, in or out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Out(Token),
    In(Token),
}

impl WireProtocol for Protocol {
    const NAME: &'static str = "links";
    type Settings = Settings;
    type Sockets = ZenohEnds;
    type Claim = Claim;

    fn settings(given: &Given<'_>) -> Settings {
        const FRAME_BYTES_MIN: u32 = links::Limits::FRAME_BYTES_MIN;
        // Octets of an event's frame beside its bytes.
        const HEAD_BYTES_MAX: u32 = 256 << 10;
        let Config { links, link, limits, .. } = given.config;
        Settings {
            links: link.as_slice().into(),
            added: Vec::new(),
            federation: None,
            name: links.name.as_str().into(),
            limits: links::Limits {
                frame_bytes_max: limits.message_bytes_max.max(FRAME_BYTES_MIN).saturating_add(HEAD_BYTES_MAX),
                window_bytes_max: links.window_bytes_max.into(),
                ..links::Limits::default()
            },
            backlog: Backlog { bytes_max: links.backlog_bytes_max, refuses: false },
            datagrams: DatagramSettings::new(&links.datagrams),
            forget_after: Duration::from_secs(links.forget_after_s.into()),
            stalled_after: (links.stalled_after_s > 0).then(|| Duration::from_secs(links.stalled_after_s.into())),
            has_store: given.config.store.directory.is_some(),
            names: links.names,
            names_forgotten_after: Duration::from_secs(links.names_forgotten_after_s.into()),
            request_bytes_min: given.request_bytes_min,
            iiop: iiop::Options::new(given.config),
            served: Vec::new(),
        }
    }

    fn new(common: &Common, ends: &mut LaneEnds, zenoh: ZenohEnds, poll: &Poll) -> io::Result<Self> {
        let settings = common.protocols.link.clone();
        let mut outflows = Slots::new();
        for served in &settings.served {
            outflows.insert(Outflow::served_before(served.clone(), settings.backlog, settings.limits));
        }
        let Origins { service, incarnation, .. } = common.origins;
        let links = settings.links.iter().map(|entry| Link::new(entry.clone(), LinkOrigin::File));
        let discovery = match &settings.federation {
            Some(federation) => {
                poll.add(&federation.socket, Socket::Group(Tag::Link), Interest::READ)?;
                Some(Box::new(Discovery::new(Arc::clone(federation), (service, incarnation))))
            }
            None => None,
        };
        let links: Vec<Link> =
            links.chain(settings.added.iter().map(|entry| Link::new(entry.clone(), LinkOrigin::Added))).collect();
        Ok(Self {
            service,
            incarnation,
            own: common.accounts.account_of(NOBODY),
            connections: Slots::new(),
            outflows,
            inflows: Slots::new(),
            ended_suppliers: HashMap::new(),
            episodes: Episodes::default(),
            flows: HashMap::new(),
            next_peer: Tag::Link.first_peer(),
            directories: HashMap::new(),
            sightings: Sightings::restored(ends.store.iter_mut().flat_map(|store| store.origins_seen.drain(..))),
            interests: HashMap::new(),
            look_after: (!links.is_empty()
                || !settings.served.is_empty()
                || discovery.is_some()
                || zenoh.has_session())
            .then_some(Time(0)),
            zenoh,
            links,
            discovery,
            groups: Groups::default(),
            receiving: Receiving::default(),
            read: Vec::new(),
            settings,
        })
    }

    const LISTEN_ADDRESS: fn(&Config, Layer) -> Result<Option<SocketAddr>, ConfigError> = |config, layer| match layer {
        Layer::Plain => parse_listen("links.listen", config.links.listen.as_deref()),
        Layer::Tls => parse_listen("tls.links_listen", config.tls.links_listen.as_deref()),
    };
    const LET_IN: fn(&mut Worker, Arrival) -> Option<usize> =
        |worker, arrival| Links::of(&mut worker.core).let_in_link(arrival);
    const CLIENT: fn(&Worker, Token, bool) -> Option<Client<'_>> = |worker, token, _| {
        let Connection { address, account, .. } = worker.core.protocols.link.connections.get(token)?;
        Some(Client { address: (*address)?, account, idle_since: None })
    };
    const CLOSE: fn(&mut Worker, Token) =
        |worker, token| Links::of(&mut worker.core).close_link(token, "its place is needed for another connection");
    const SERVE: fn(&mut Worker, Ready) = |worker, ready| match ready.socket {
        Socket::Incoming(_, token) | Socket::Outgoing(_, token) => {
            Links::of(&mut worker.core).serve_link(token, ready);
        }
        Socket::Datagrams(_) => Links::of(&mut worker.core).read_link_datagrams(),
        Socket::Group(_) => Links::of(&mut worker.core).serve_group(),
        _ => {}
    };
    const RESUME: fn(&mut Worker, Socket) = |worker, socket| {
        if let Socket::Incoming(_, token) | Socket::Outgoing(_, token) = socket {
            Links::of(&mut worker.core).process_link(token, &[]);
        }
    };
    const BEGIN_ROUND: Step = |worker| {
        while let Some(FromZenoh { tcp, layer }) = worker.core.protocols.link.zenoh.next() {
            worker.let_in_stream(Tag::Link, layer, (tcp, ZENOH_ADDRESS));
        }
    };
    const FLUSH: fn(&mut Worker, Token) = |worker, token| Links::of(&mut worker.core).flush_link(token);
    const ROUNDS: fn(&mut Worker, Socket) -> Option<&mut Rounds> = |worker, socket| {
        let (Socket::Incoming(_, token) | Socket::Outgoing(_, token)) = socket else { return None };
        Some(&mut worker.core.protocols.link.connections.get_mut(token)?.rounds)
    };
    const HAS_OUTPUT_AT: fn(&Worker, u32, u32) -> Option<bool> = |worker, from, places| {
        let mut connections = worker.core.protocols.link.connections.range(from, places)?;
        Some(connections.any(|connection| !connection.output.is_empty()))
    };
    const RESOLVED: fn(&mut Core, Token, Result<Vec<SocketAddr>, String>) =
        |core, token, addresses| Links::of(core).link_resolved(token, addresses);
    const SECURED: fn(&mut Core, Token, Result<Stream, String>) =
        |core, token, stream| Links::of(core).link_secured(token, stream);
    const CLOSE_ALL: Step = |worker| {
        let all: Vec<Token> = worker.core.protocols.link.connections.iter().map(|(token, _)| token).collect();
        // First, since the gateways would make the connections anew.
        worker.core.protocols.link.links.iter().filter_map(|link| link.gateway.as_ref()).for_each(Gateway::leave);
        all.into_iter().for_each(|token| Links::of(&mut worker.core).close_link(token, "the service ends"));
        Links::of(&mut worker.core).end_gateways();
    };
    const SERVE_DUE: CoreStep = |core| {
        if core.protocols.link.look_after.is_some_and(|at| at <= core.cx.clock.now) {
            Links::of(core).look_after_links();
        }
        if core.protocols.link.announces_at().is_some_and(|at| at <= core.cx.clock.now) {
            Links::of(core).announce();
        }
        if core.protocols.link.groups.due().is_some_and(|at| at <= core.cx.clock.now) {
            Links::of(core).serve_groups_due();
        }
    };
    const NEXT_DUE: fn(&Core) -> Option<Time> = |core| {
        let link = &core.protocols.link;
        [link.look_after, link.announces_at(), link.groups.due()].into_iter().flatten().min()
    };
    const HAS_UNDER_WAY: CoreCheck = |core| {
        let mut outflows = core.protocols.link.outflows.iter();
        outflows.any(|(_, outflow)| outflow.is_open() && outflow.in_flight() > 0)
    };

    const SEND: fn(&mut Core, &Delivery, &mut Vec<Arc<Event>>) =
        |core, delivery, events| Links::of(core).send_over_link(delivery, events);
    const ANSWER: fn(&mut Worker, Claim, Option<Refused>) =
        |worker, claim, refused| Links::of(&mut worker.core).end_link_event(claim, refused);
    const PROXY_REGISTERED: fn(&mut Core, Peer, Result<ProxyKey, String>, &Arc<Account>) =
        |core, peer, proxy, account| Links::of(core).proxy_registered(peer, proxy, account);
    const PROXY_GONE: fn(&mut Core, Peer) = |core, peer| Links::of(core).proxy_gone(peer);
    const SUBSCRIBED: fn(&mut Core, Peer, Subscribed) =
        |core, peer, subscribed| Links::of(core).channel_subscribed(peer, &subscribed);
    const LIMITED: fn(&mut Core, ProxyKey) = |core, key| Links::of(core).outflow_limited(key.channel);
    const NAMES: fn(&mut Core, Peer, Vec<AdvertisedName>) =
        |core, peer, names| Links::of(core).names_changed(peer, names);
    const LINKS_AT: LinksAt = |protocols, lane, now, places| protocols.link.status_at(lane, now, &places);
    const PAUSE_LINK: fn(&mut Worker, &str, bool) -> Option<Result<(), String>> =
        |worker, name, paused| Links::of(&mut worker.core).pause_link(name, paused);
    const FEDERATION: fn(&Core) -> Vec<FederationMember> = |core| core.protocols.link.federation(core.cx.clock.now);
    const CHANGE_LINK: fn(&mut Worker, &LinkAct) -> Option<Result<(), String>> =
        |worker, act| Links::of(&mut worker.core).change_link(act);
}

/// Name of the durable consumer of a link in this service's configuration.
pub(crate) fn own_durable(link: &str) -> String {
    format!("{OWN}{link}")
}

/// Name of the link to a found service of a federation.
fn found_link(federation: &str, service: &str) -> String {
    format!("{federation}: {service}")
}

/// Name of the durable consumer of a link that another service makes. A service without a store has another identity after a restart.
fn served_durable(service: u64, has_store: bool, link: &str) -> String {
    format!("{SERVED}{service:016x}{}: {link}", if has_store { "" } else { STORELESS })
}

/// Whether a durable consumer belongs to a service without a store.
fn is_storeless(durable: &str) -> bool {
    durable.strip_prefix(SERVED).and_then(|rest| rest.get(16..)).is_some_and(|rest| rest.starts_with(STORELESS))
}

/// Suffix of the identity of a service without a store.
const STORELESS: &str = " (without a store)";

/// Prefix of the names of durable consumers of this service's links.
const OWN: &str = "link to ";

/// Prefix of the names of durable consumers of other services' links.
const SERVED: &str = "link from ";

/// Destroys durable consumers of links that no longer exist. Returns those of other services' links and of links to found services:
/// channel's name, own name, and key.
pub(crate) fn retain_durable(
    protocol: &mut corba::Protocol,
    links: &[LinkEntry],
    federation: Option<&str>,
) -> Vec<(String, String, ProxyKey)> {
    let is_own = |channel: &String, durable: &str| {
        let mut own = links.iter().filter(|link| link.direction.sends() && own_durable(&link.name) == *durable);
        own.any(|link| link.channels.contains(channel))
    };
    // Either side of a pair may dial: the backlog stays until the other is found again.
    let is_found = |durable: &str| {
        let found = federation.map(|name| own_durable(&found_link(name, "")));
        found.and_then(|found| durable.strip_prefix(found.as_str())).is_some_and(|service| service.len() == 16)
    };
    let is_claimed_later = |durable: &str| durable.starts_with(SERVED) || is_found(durable);
    let (stay, stale): (Vec<_>, Vec<_>) = protocol
        .objects
        .durable_names()
        .into_iter()
        .partition(|(channel, durable, _)| is_own(channel, durable) || is_claimed_later(durable));
    for (channel, durable, _) in &stale {
        log::warn!(
            "{durable}: the configuration has it no more, and what was kept for it of the channel {channel:?} is dropped"
        );
    }
    if !stale.is_empty() {
        let names = stay.iter().map(|(channel, durable, _)| (channel.clone(), durable.clone()));
        protocol.retain_durable(&names.collect::<Vec<_>>());
    }
    stay.into_iter().filter(|(_, durable, _)| is_claimed_later(durable)).collect()
}

impl Settings {
    /// Clears the settings of other lanes, which have no links.
    pub(crate) fn leave_to_main_lane(&mut self) {
        self.links = [].into();
        self.federation = None;
        self.added.clear();
        self.served.clear();
    }
}

impl Protocol {
    /// Time of this service's next announcement.
    fn announces_at(&self) -> Option<Time> {
        self.discovery.as_ref().map(|discovery| discovery.next)
    }

    /// Whether a connection leads to a gateway, which cannot pass on reasons of rejections.
    fn is_gateway(&self, connection: &Connection) -> bool {
        let link = connection.link.and_then(|number| self.links.get(number));
        link.is_some_and(|link| link.entry.carrier == Carrier::Iiop)
    }

    /// Creates a handle for the proxy of a flow.
    fn add_flow(&mut self, flow: Flow) -> Peer {
        let peer = self.new_peer();
        self.flows.insert(peer, flow);
        peer
    }

    /// Creates a handle for administration.
    const fn new_peer(&mut self) -> Peer {
        let peer = self.next_peer;
        self.next_peer = Peer(peer.0 + 1);
        peer
    }
}

/// The links of the main lane, together with the rest of the lane, for the time of a call.
struct Links<'a> {
    core: &'a mut Core,
}

impl<'a> Links<'a> {
    const fn of(core: &'a mut Core) -> Self {
        Self { core }
    }
}

impl Links<'_> {
    /// Schedules the write of a connection's output at the end of the round.
    fn note_link_due(&mut self, token: Token) {
        if let Some(connection) = self.core.protocols.link.connections.get_mut(token) {
            let socket = connection.socket(token);
            self.core.cx.io.quotas.write_later(&mut connection.rounds, socket);
        }
    }

    /// Handles administration's answer about the proxy of a flow.
    fn proxy_registered(&mut self, peer: Peer, proxy: Result<ProxyKey, String>, account: &Arc<Account>) {
        match (self.core.protocols.link.flows.get(&peer).copied(), proxy) {
            (Some(Flow::Out(token)), proxy) => self.outflow_registered(token, proxy),
            (Some(Flow::In(token)), proxy) => self.inflow_registered(token, proxy),
            // The flow has ended meanwhile.
            (None, Ok(key)) => self.core.cx.remove_local_proxy(0, key, account),
            (None, Err(_)) => {}
        }
    }

    /// Ends a flow after its proxy was removed elsewhere.
    fn proxy_gone(&mut self, peer: Peer) {
        const WHY: &str = "the channel is gone, or an operator ended the link's proxy";
        match self.core.protocols.link.flows.remove(&peer) {
            Some(Flow::Out(token)) => self.end_outflow(token, WHY),
            Some(Flow::In(token)) => self.end_inflow(token, Some(WHY)),
            None => {}
        }
    }

    /// Performs periodic tasks: connections are made, probed, and ended if nothing arrives.
    fn look_after_links(&mut self) {
        let is_draining = self.core.cx.reporting.draining.has_begun();
        for link in 0..self.core.protocols.link.links.len() {
            self.keep_up_link(link, is_draining);
        }
        let all: Vec<Token> = self.core.protocols.link.connections.iter().map(|(token, _)| token).collect();
        for token in all {
            self.look_after_connection(token);
            self.look_after_directory(token);
        }
        self.look_after_stalls();
        self.look_after_episodes();
        self.look_after_groups();
        self.forget_outflows();
        // Announcements that arrived while this process was stopped count as heard.
        self.serve_group();
        self.forget_found();
        for (counter, count) in self.core.protocols.link.zenoh.counts() {
            self.core.cx.counters.set(counter, count);
        }
        let (lane, link) = (&self.core.cx.lane, &mut self.core.protocols.link);
        let is_there = |channel| lane.snapshot().channel(channel).is_some();
        link.sightings.retain(is_there);
        link.interests.retain(|channel, _| is_there(*channel));
        let link = &mut self.core.protocols.link;
        let is_any = !link.links.is_empty()
            || !link.connections.is_empty()
            || !link.outflows.is_empty()
            || link.discovery.is_some()
            || link.zenoh.has_session();
        link.look_after = is_any.then(|| self.core.cx.clock.now + LOOKED_AFTER);
    }

    /// Updates the counter of open links.
    fn count_links(&self) {
        let is_up = |connection: &Connection| matches!(connection.state, State::Open(_)) && connection.far.is_some();
        let up = self.core.protocols.link.connections.iter().filter(|(_, connection)| is_up(connection)).count();
        self.core.cx.counters.set(crate::counters::Counter::LinksUp, up as u64);
    }
}
