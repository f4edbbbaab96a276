//! Where lanes meet the clients of the small protocol ([`tempo`], `docs/tempo.md`), over UDP and over TCP.
//!
//! To each of them the service is a *broker*: a subscriber to what it publishes and a publisher of what it subscribes to. [`hearing`] reads
//! datagrams and sorts frames, [`streams`] reads connections. What is announced is kept as long as it is announced again ([`sessions`],
//! [`topics`]), and answered and announced on ([`announcing`]). A message waits in its topic's input for the topic's turn ([`input`],
//! [`intake`]) and is handed in as every protocol's events are; what outboxes give for subscribers goes out as frames ([`delivery`]).
//! Probes take the messages' way, echoes and reports none.
//!
//! What messages are to consumers of other protocols, and those protocols' events to subscribers here, is [`form`]; the types of which
//! messages are, where they are declared, [`types`].
//!
//! A session has a proxy for each channel into which it publishes, and one for each topic to which it subscribes, like any other client
//! ([`requests`]). All of that is the main lane's.
//!
//! UDP addresses can be forged, so nothing is kept for one that has not proven itself, and nothing sent there beyond the size of what came.
//!
//! In the steady state nothing here allocates.

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

/// What the protocol is made with.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Milliseconds between two announcements.
    pub(crate) period_ms: u16,
    /// How much may wait for each topic's turn.
    pub(crate) bounds: Bounds,
    /// Octets of a message.
    pub(crate) message_bytes_max: u32,
    /// What a request counts for at least while administration has it, in octets.
    pub(crate) request_bytes_min: u64,
    /// The types that topics are declared to have.
    pub(crate) types: Arc<DeclaredTypes>,
}

/// Sockets for datagrams: those that clients send to the service, and those that they send to a group.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub(crate) datagrams: Option<Datagrams>,
    pub(crate) group: Option<Datagrams>,
}

/// What this protocol has of a lane.
pub(crate) struct Protocol {
    /// Of the broker: its session, and how it makes cookies.
    session: u32,
    cookies: Cookies,
    settings: Settings,
    /// What messages are to others, and others' events to subscribers.
    pub(crate) forms: form::Forms,
    pub(crate) out: Out,
    /// Where datagrams arrive that are sent to the group that it has joined.
    pub(crate) group: Option<Datagrams>,
    /// Proxies of publishers that send to that group: all others there have their messages from themselves.
    grouped: HashSet<ProxyKey>,
    pub(crate) sessions: Sessions,
    pub(crate) topics: Topics,
    scheduler: TopicScheduler,
    /// Proxies, by the handles that they were asked for with.
    proxies: HashMap<Peer, Proxy>,
    next_peer: Peer,
    /// Parts, by when there is something to do for each. A time that is not the part's any more means nothing.
    timers: BinaryHeap<Reverse<(Nanos, Token)>>,
    chance: Chance,
    /// Connections that are not read since as much of their clients' waits as may.
    starved: Vec<Token>,
    /// How long clients may take for a frame.
    frame_completion: Duration,
    /// Some connection has a time limit.
    has_deadlines: bool,
    /// What sockets are read into.
    received: Received,
    read: Vec<u8>,
    /// What answers one datagram.
    answers: Vec<u8>,
    /// What has been said in the log of this episode.
    said: Said,
}

/// What is said once.
#[derive(Debug, Default)]
struct Said {
    of_brokers: bool,
    of_limits: bool,
    of_proxies: bool,
}

/// What cookies are made with.
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
    /// The sessions in those places count as well, to which something is to be sent.
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
    /// The header of a frame that the broker sends of its own accord.
    const fn header(&self, topic: u32) -> Header {
        Header { session: self.session, topic, sequence: 0, sent: 0, priority: 0, by_broker: true }
    }

    /// Something is to be sent to a session when the round ends.
    fn note_due(&mut self, session: Token) {
        if let Some(known) = self.sessions.get_mut(session)
            && !core::mem::replace(&mut known.is_due, true)
        {
            self.out.due.push_back(session);
        }
    }

    /// Whether something waits for room for a subscriber.
    #[cfg(test)]
    pub(crate) fn is_somebody_blocked(&self) -> bool {
        self.proxies.values().any(|proxy| proxy.key.is_some() && proxy.blocked.is_some())
    }

    /// Whether a subscriber waits although the socket for datagrams has room, and is not due to go on.
    #[cfg(test)]
    pub(crate) fn has_forgotten_somebody_blocked(&self) -> bool {
        let blocked = self.proxies.values().filter(|proxy| proxy.key.is_some() && proxy.blocked.is_some());
        let mut sessions = blocked.filter_map(|proxy| self.sessions.get(proxy.session));
        sessions.any(|session| {
            matches!(session.place, sessions::Place::Datagram(_)) && !session.is_due && self.out.has_room(session)
        })
    }

    /// A handle for a proxy that no proxy had before.
    fn new_peer(&mut self) -> Peer {
        let peer = self.next_peer;
        self.next_peer = Peer(peer.0 + 1);
        peer
    }
}
