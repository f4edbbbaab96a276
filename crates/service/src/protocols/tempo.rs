//! The Tempo protocol ([`tempo`], `docs/tempo.md`), over UDP and over TCP.
//!
//! For each client the service is a *broker*: a subscriber to its publications and a publisher for its subscriptions. [`hearing`] reads
//! datagrams and sorts frames, [`streams`] reads connections. Announcements are stored as long as they are repeated ([`sessions`],
//! [`topics`]), and answered and passed on ([`announcing`]). A message waits in its topic's input for the topic's turn ([`input`],
//! [`intake`]) and is handed in like every protocol's events; deliveries to subscribers are sent as frames ([`delivery`]). Probes are
//! queued like messages; echoes and reports are not.
//!
//! [`form`] translates between messages and other protocols' events; [`types`] has the declared types of messages.
//!
//! A session has a proxy for each channel into which it publishes, and one for each topic to which it subscribes, like any other client
//! ([`requests`]). All of that is the main lane's.
//!
//! UDP addresses can be forged: nothing is stored for an address that has not proven itself, and no more octets are sent there than came.
//!
//! In the steady state this protocol allocates nothing.

pub(crate) mod announcing;
pub(crate) mod delivery;
pub(crate) mod form;
pub(crate) mod hearing;
pub(crate) mod input;
pub(crate) mod intake;
pub(crate) mod requests;
pub(crate) mod sessions;
pub(crate) mod streams;
pub(crate) mod topics;
pub(crate) mod types;

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BinaryHeap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use engine::{Delivery, Event, Form, OutputForm, Peer, ProxyKey, Time};
use hashbrown::{HashMap, HashSet};
use tempo::Nanos;
use tempo::cookies::Cookies;
use tempo::presence::Chance;
use tempo::wire::Header;

use self::delivery::Out;
use self::input::{Bounds, TopicScheduler};
use self::sessions::{Proxy, Sessions};
use self::topics::Topics;
use self::types::DeclaredTypes;
use super::{Check, Client, CoreStep, Given, PutInto, Step, Tag, WireProtocol};
use crate::config::{self, Config, ConfigError, parse_listen};
use crate::lane::intake::Refused;
use crate::lane::io::datagrams::Received;
use crate::lane::io::entrance::Arrival;
use crate::lane::io::net::{Datagrams, Poll};
use crate::lane::io::quotas::Rounds;
use crate::lane::io::slots::Token;
use crate::lane::io::socket::{Layer, Socket};
use crate::lane::io::system::{Interest, Ready};
use crate::lane::run::{Common, Core, LaneEnds, Worker};
use crate::random::unforeseeable;
use accounts::Account;

/// Settings of this protocol.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Interval of announcements, in milliseconds.
    pub(crate) period_ms: u16,
    /// Maximum waiting input of each topic.
    pub(crate) bounds: Bounds,
    /// Maximum octets of a message.
    pub(crate) message_bytes_max: u32,
    /// Minimum octets charged for a request while administration has it.
    pub(crate) request_bytes_min: u64,
    /// Declared types of topics.
    pub(crate) types: Arc<DeclaredTypes>,
}

/// Datagram sockets: for datagrams sent to the service, and for those sent to a group.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub(crate) datagrams: Option<Datagrams>,
    pub(crate) group: Option<Datagrams>,
}

/// State of this protocol on a lane.
pub(crate) struct Protocol {
    /// The broker's session, and its generator of cookies.
    session: u32,
    cookies: Cookies,
    settings: Settings,
    /// Translations between messages and other protocols' events.
    pub(crate) forms: form::Forms,
    pub(crate) out: Out,
    /// Socket for datagrams to the group that the service has joined.
    pub(crate) group: Option<Datagrams>,
    /// Proxies of publishers that send to that group: all others in the group have their messages already.
    grouped: HashSet<ProxyKey>,
    pub(crate) sessions: Sessions,
    pub(crate) topics: Topics,
    scheduler: TopicScheduler,
    /// Proxies, by the handles in their requests.
    proxies: HashMap<Peer, Proxy>,
    next_peer: Peer,
    /// Parts by the time of their next work. An entry with a time that the part does not have any more is ignored.
    timers: BinaryHeap<Reverse<(Nanos, Token)>>,
    chance: Chance,
    /// Connections that are not read since their clients' waiting messages have reached the quota.
    starved: Vec<Token>,
    /// Time limit for clients to complete a frame.
    frame_completion: Duration,
    /// Whether any connection has a time limit.
    has_deadlines: bool,
    /// Read buffer.
    received: Received,
    read: Vec<u8>,
    /// Answers to one datagram.
    answers: Vec<u8>,
    /// Lines already logged in this episode.
    said: Said,
}

/// Lines that are logged once.
#[derive(Debug, Default)]
struct Said {
    of_brokers: bool,
    of_limits: bool,
    of_proxies: bool,
}

/// Random key for cookies.
fn cookie_key() -> (u64, u64) {
    let drawn = unforeseeable();
    let half = |of: u128| u64::try_from(of & u128::from(u64::MAX)).unwrap_or_default();
    (half(drawn >> 64), half(drawn))
}

impl WireProtocol for Protocol {
    const NAME: &'static str = "Tempo";
    type Settings = Settings;
    type Sockets = Sockets;
    type Claim = intake::Claim;

    fn settings(given: &Given<'_>) -> Settings {
        let config::Tempo { period_ms, input_messages, input_bytes, .. } = given.config.tempo;
        Settings {
            period_ms,
            bounds: Bounds { messages: input_messages as usize, octets: input_bytes as usize },
            message_bytes_max: given.config.limits.message_bytes_max.min(tempo::wire::MESSAGE_MAX),
            request_bytes_min: given.request_bytes_min,
            types: Arc::clone(&given.types),
        }
    }

    fn new(common: &Common, _ends: &mut LaneEnds, sockets: Sockets, poll: &Poll) -> io::Result<Self> {
        let Sockets { datagrams, group } = sockets;
        if let Some(datagrams) = &datagrams {
            poll.add(datagrams, Socket::Datagrams(Tag::Tempo), Interest::READ)?;
        }
        if let Some(group) = &group {
            poll.add(group, Socket::Group(Tag::Tempo), Interest::READ)?;
        }
        let settings = common.protocols.tempo.clone();
        Ok(Self {
            session: fastrand::u32(1..),
            cookies: Cookies::new(cookie_key()),
            forms: form::Forms::new(Arc::clone(&settings.types)),
            settings,
            out: Out { socket: datagrams, ..Out::default() },
            group,
            grouped: HashSet::new(),
            sessions: Sessions::default(),
            topics: Topics::default(),
            scheduler: TopicScheduler::default(),
            proxies: HashMap::new(),
            next_peer: Tag::Tempo.first_peer(),
            timers: BinaryHeap::new(),
            chance: Chance::new(fastrand::u64(..)),
            starved: Vec::new(),
            frame_completion: common.message_completion,
            has_deadlines: false,
            received: Received::default(),
            read: Vec::new(),
            answers: Vec::new(),
            said: Said::default(),
        })
    }

    const LISTEN_ADDRESS: fn(&Config, Layer) -> Result<Option<SocketAddr>, ConfigError> = |config, layer| match layer {
        Layer::Plain => parse_listen("tempo.listen", config.tempo.listen.as_deref()),
        Layer::Tls => parse_listen("tls.tempo_listen", config.tls.tempo_listen.as_deref()),
    };
    const LET_IN: fn(&mut Worker, Arrival) -> Option<usize> = |worker, arrival| worker.core.let_in_tempo(arrival);
    const CLIENT: fn(&Worker, Token, bool) -> Option<Client<'_>> = |worker, token, _| {
        let connection = worker.core.protocols.tempo.out.connections.get(token)?;
        let (address, account) = (connection.address, connection.account());
        Some(Client { address, account, idle_since: connection.idle_since() })
    };
    const CLOSE: fn(&mut Worker, Token) =
        |worker, token| worker.core.protocols.tempo.close_stream(token, &mut worker.core.cx);
    const SERVE: fn(&mut Worker, Ready) = |worker, ready| match ready.socket {
        Socket::Incoming(_, token) => worker.serve_tempo(token, ready),
        Socket::Datagrams(_) => worker.serve_tempo_datagrams(ready),
        Socket::Group(_) => worker.serve_tempo_group(),
        _ => {}
    };
    const RESUME: fn(&mut Worker, Socket) = |worker, socket| {
        if let Socket::Incoming(_, token) = socket {
            worker.go_on_with_tempo(token);
        }
    };
    const FLUSH: fn(&mut Worker, Token) =
        |worker, token| worker.core.protocols.tempo.flush_stream(token, &mut worker.core.cx);
    const ROUNDS: fn(&mut Worker, Socket) -> Option<&mut Rounds> = |worker, socket| {
        let Socket::Incoming(_, token) = socket else { return None };
        Some(&mut worker.core.protocols.tempo.out.connections.get_mut(token)?.rounds)
    };
    /// Whether connections, or sessions with datagrams to send, in these places have output.
    const HAS_OUTPUT_AT: fn(&Worker, u32, u32) -> Option<bool> = |worker, from, places| {
        let Self { out, sessions, .. } = &worker.core.protocols.tempo;
        let connections = out.connections.range(from, places).map(|mut all| all.any(|one| !one.output.is_empty()));
        let sessions = sessions.range(from, places).map(|mut all| all.any(|one| !one.packets.is_empty()));
        [connections, sessions].into_iter().flatten().reduce(|one, other| one || other)
    };
    const CLOSE_ALL: Step = |worker| worker.core.protocols.tempo.close_all_tempo(&mut worker.core.cx);
    const SERVE_DUE: CoreStep = |core| core.protocols.tempo.serve_tempo_due(&mut core.cx);
    const TAKE_IN_MORE: Step = Worker::serve_tempo_topics;
    const SWEEP: Step = |worker| worker.core.sweep_tempo();
    const WRITE_EVENTS: CoreStep = |core| core.protocols.tempo.flush_tempo(&mut core.cx);
    const IS_DUE: Check = |worker| !worker.core.protocols.tempo.out.due.is_empty();
    const GOES_ON: Check = |worker| {
        let Self { scheduler, out: Out { due, is_full, .. }, .. } = &worker.core.protocols.tempo;
        !scheduler.are_idle() || !(due.is_empty() || *is_full)
    };
    const HAS_DEADLINES: Check = |worker| worker.core.protocols.tempo.has_deadlines;
    const NEXT_DUE: fn(&Core) -> Option<Time> =
        |core| core.protocols.tempo.timers.peek().map(|Reverse((due, _))| Time(*due));

    const SEND: fn(&mut Core, &Delivery, &mut Vec<Arc<Event>>) =
        |core, delivery, events| core.protocols.tempo.send_tempo(delivery, events, &mut core.cx);
    const ANSWER: fn(&mut Worker, intake::Claim, Option<Refused>) = Worker::answer_tempo;
    const PROXY_REGISTERED: fn(&mut Core, Peer, Result<ProxyKey, String>, &Arc<Account>) =
        |core, peer, proxy, account| core.protocols.tempo.tempo_proxy_registered(peer, proxy, account, &mut core.cx);
    const PROXY_GONE: fn(&mut Core, Peer) = |core, peer| core.protocols.tempo.tempo_proxy_gone(peer, &mut core.cx);
    const AS_REPEATED: fn(u64) -> u64 = form::as_repeated;
    const FITS: fn(Form, u64, OutputForm) -> bool = |form, _, _| form == form::FORM_TEMPO;
    const PUT_INTO: PutInto =
        |protocols, channel, event, _, out| protocols.tempo.forms.put_into_message(channel, event, out).ok_or(None);
}

impl Protocol {
    /// Header of a frame that the broker sends on its own behalf.
    const fn header(&self, topic: u32) -> Header {
        Header { session: self.session, topic, sequence: 0, sent: 0, priority: 0, by_broker: true }
    }

    /// Queues a session to be sent to when the round ends.
    fn note_due(&mut self, session: Token) {
        if let Some(known) = self.sessions.get_mut(session)
            && !core::mem::replace(&mut known.is_due, true)
        {
            self.out.due.push_back(session);
        }
    }

    /// Whether any subscriber waits for room.
    #[cfg(test)]
    pub(crate) fn is_somebody_blocked(&self) -> bool {
        self.proxies.values().any(|proxy| proxy.key.is_some() && proxy.blocked.is_some())
    }

    /// Whether a subscriber waits although the datagram socket has room, and is not due to resume.
    #[cfg(test)]
    pub(crate) fn has_forgotten_somebody_blocked(&self) -> bool {
        let blocked = self.proxies.values().filter(|proxy| proxy.key.is_some() && proxy.blocked.is_some());
        let mut sessions = blocked.filter_map(|proxy| self.sessions.get(proxy.session));
        sessions.any(|session| {
            matches!(session.place, sessions::Place::Datagram(_)) && !session.is_due && self.out.has_room(session)
        })
    }

    /// A new handle for a proxy.
    fn new_peer(&mut self) -> Peer {
        let peer = self.next_peer;
        self.next_peer = Peer(peer.0 + 1);
        peer
    }
}
