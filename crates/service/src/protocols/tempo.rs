//! Where lanes meet the clients of the small protocol ([`tempo`], `docs/tempo.md`), over UDP and over TCP.
//!
//! To each of them the service is a *broker*: a subscriber to what it publishes and a publisher of what it subscribes to. [`hearing`] reads
//! datagrams and sorts frames, [`streams`] reads connections. What is announced is kept as long as it is announced again ([`sessions`],
//! [`topics`]), and answered and announced on ([`announcing`]). A message waits in its topic's input for the topic's turn ([`input`],
//! [`intake`]) and is handed in as every door's events are; what outboxes give for subscribers goes out as frames ([`delivery`]). Probes take the messages' way, echoes and reports none.
//!
//! What messages are to consumers of other doors, and those doors' events to subscribers here, is [`form`]; the types of which messages
//! are, where they are declared, [`types`].
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
use std::collections::BinaryHeap;

use engine::{Peer, ProxyKey, Time};
use hashbrown::{HashMap, HashSet};
use tempo::Nanos;
use tempo::cookies::Cookies;
use tempo::presence::Chance;
use tempo::wire::Header;

use self::delivery::Out;
use self::input::{Bounds, TopicScheduler};
use self::sessions::{Proxy, Sessions};
use self::topics::Topics;
use super::Tag;
use crate::lane::io::datagrams::Received;
use crate::lane::io::net::Datagrams;
use crate::lane::io::slots::Token;
use crate::random::unforeseeable;

/// What the door is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Milliseconds between two announcements.
    pub(crate) period_ms: u16,
    /// How much may wait for each topic's turn.
    pub(crate) bounds: Bounds,
    /// Octets of a message.
    pub(crate) message_bytes_max: u32,
    /// What a request counts for at least while administration has it, in octets.
    pub(crate) request_bytes_min: u64,
}

/// What this door has of a lane.
pub(crate) struct Protocol {
    /// Of the broker: its session, and how it makes cookies.
    session: u32,
    cookies: Cookies,
    settings: Settings,
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

impl Protocol {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            session: fastrand::u32(1..),
            cookies: Cookies::new(cookie_key()),
            settings,
            out: Out::default(),
            group: None,
            grouped: HashSet::new(),
            sessions: Sessions::default(),
            topics: Topics::default(),
            scheduler: TopicScheduler::default(),
            proxies: HashMap::new(),
            next_peer: Tag::Tempo.first_peer(),
            timers: BinaryHeap::new(),
            chance: Chance::new(fastrand::u64(..)),
            starved: Vec::new(),
            has_deadlines: false,
            received: Received::default(),
            read: Vec::new(),
            answers: Vec::new(),
            said: Said::default(),
        }
    }

    /// Whether there is something to do without a socket or a letter having to speak of it.
    pub(crate) fn goes_on(&self) -> bool {
        let Out { due, due_streams, is_full, .. } = &self.out;
        !self.scheduler.are_idle() || !due_streams.is_empty() || !(due.is_empty() || *is_full)
    }

    /// Whether something is to be written when the round ends.
    pub(crate) fn is_due(&self) -> bool {
        !self.out.due.is_empty() || !self.out.due_streams.is_empty()
    }

    /// Whether anything has to be looked after by the clock.
    pub(crate) const fn has_deadlines(&self) -> bool {
        self.has_deadlines
    }

    /// When something is to be announced, or forgotten.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.timers.peek().map(|Reverse((due, _))| Time(*due))
    }

    /// Whether something waits to be written on the connections in so many places from one on, or to be sent to the sessions in those.
    /// Nothing if there are no places from there on.
    pub(crate) fn has_output_at(&self, from: u32, places: u32) -> Option<bool> {
        let connections = self.out.connections.range(from, places).map(|mut all| all.any(|one| !one.output.is_empty()));
        let sessions = self.sessions.range(from, places).map(|mut all| all.any(|one| !one.packets.is_empty()));
        match (connections, sessions) {
            (None, None) => None,
            (connections, sessions) => Some(connections.unwrap_or(false) || sessions.unwrap_or(false)),
        }
    }

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
