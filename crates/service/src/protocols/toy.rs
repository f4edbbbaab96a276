//! A fifth protocol, in tests only, to show what adding one takes: this folder, and its line in [`protocols!`](super).
//!
//! A client's line is an event of the type `Toy/LINE` in the default channel; it is answered by `+`, or by `-`. The client gets a line with
//! the type of each event of that channel.
//!
//! A client may be a durable consumer, which answers each event: then a line that begins with a slash is for administration.

mod tests;

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use corba::event::{self, FORM_STRUCTURED};
use corba::{LocalProxy, Part, Subscribed};
use engine::{ChannelId, Delivery, Event, EventType, Outcome, OutputForm, Peer, ProxyKey};
use giop::cdr::Writer;

use super::local_proxies::Action;
use super::tempo::types::ENCODING;
use super::{Client, Given, LinksAt, Step, Tag, WireProtocol};
use crate::admin::values::{LinkState, LinkStatus};
use crate::config::{Config, ConfigError};
use crate::lane::intake::{Refused, Submission};
use crate::lane::io::entrance::Arrival;
use crate::lane::io::net::Poll;
use crate::lane::io::quotas::Rounds;
use crate::lane::io::slots::{Slots, Token};
use crate::lane::io::socket::{Layer, Socket};
use crate::lane::io::stream::Stream;
use crate::lane::io::system::{Interest, Ready};
use crate::lane::run::{Common, Core, LaneEnds, Worker};
use accounts::{Account, Charge};

thread_local! {
    /// Listening address of a service that is started on this thread.
    static LISTEN: Cell<Option<SocketAddr>> = const { Cell::new(None) };
    /// Whether its clients are durable consumers.
    static DURABLE: Cell<bool> = const { Cell::new(false) };
}

/// Name of durable consumers.
const NAME: &str = "toy";

pub(crate) struct Protocol {
    connections: Slots<Connection>,
    /// Connections by the handles of their proxies.
    peers: HashMap<Peer, Token>,
    next_peer: Peer,
    settings: Settings,
    /// Whether its one link, which has only a status, is paused.
    is_paused: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    request_bytes_min: u64,
    is_durable: bool,
}

struct Connection {
    stream: Stream,
    address: SocketAddr,
    place: Charge,
    rounds: Rounds,
    /// Input that waits until there is a proxy for it.
    read: Vec<u8>,
    /// Handles of its proxies, a supplier's and a consumer's, and their keys once they are made.
    proxies: [(Peer, Option<ProxyKey>); 2],
}

impl WireProtocol for Protocol {
    const NAME: &'static str = "toys";
    type Settings = Settings;
    type Sockets = ();
    type Claim = Token;

    fn settings(given: &Given<'_>) -> Settings {
        Settings { request_bytes_min: given.request_bytes_min, is_durable: DURABLE.get() }
    }

    fn new(common: &Common, _ends: &mut LaneEnds, (): (), _poll: &Poll) -> io::Result<Self> {
        let (next_peer, settings) = (Tag::Toy.first_peer(), common.protocols.toy);
        Ok(Self { connections: Slots::new(), peers: HashMap::new(), next_peer, settings, is_paused: false })
    }

    const LISTEN_ADDRESS: fn(&Config, Layer) -> Result<Option<SocketAddr>, ConfigError> =
        |_, layer| Ok(LISTEN.get().filter(|_| layer == Layer::Plain));
    const LET_IN: fn(&mut Worker, Arrival) -> Option<usize> = |worker, arrival| worker.core.let_in_toy(arrival);
    const CLIENT: fn(&Worker, Token, bool) -> Option<Client<'_>> = |worker, token, _| {
        let connection = worker.core.protocols.toy.connections.get(token)?;
        Some(Client { address: connection.address, account: connection.place.account(), idle_since: None })
    };
    const SERVE: fn(&mut Worker, Ready) = |worker, ready| {
        if let Socket::Incoming(_, token) = ready.socket {
            worker.core.serve_toy(token);
        }
    };
    const ROUNDS: fn(&mut Worker, Socket) -> Option<&mut Rounds> = |worker, socket| {
        let Socket::Incoming(_, token) = socket else { return None };
        Some(&mut worker.core.protocols.toy.connections.get_mut(token)?.rounds)
    };
    const CLOSE_ALL: Step = |worker| {
        let all: Vec<Token> = worker.core.protocols.toy.connections.iter().map(|(token, _)| token).collect();
        all.into_iter().for_each(|token| worker.core.close_toy(token));
    };
    const LINKS_AT: LinksAt = |protocols, _, _, places| {
        let state = if protocols.toy.is_paused { LinkState::Paused } else { LinkState::Up };
        let link = |lag_events| LinkStatus { name: "toys".to_owned(), lag_events, state, ..LinkStatus::default() };
        // Reported twice, as one that was made anew during the survey.
        (places.start < 64).then(|| vec![link(places.start.into())])
    };
    const PAUSE_LINK: fn(&mut Worker, &str, bool) -> Option<Result<(), String>> = |worker, name, paused| {
        (name == "toys").then(|| {
            let is_so = core::mem::replace(&mut worker.core.protocols.toy.is_paused, paused) == paused;
            if is_so { Err("it is so already".to_owned()) } else { Ok(()) }
        })
    };
    const SEND: fn(&mut Core, &Delivery, &mut Vec<Arc<Event>>) = Core::send_toy;
    const ANSWER: fn(&mut Worker, Token, Option<Refused>) =
        |worker, token, refused| worker.core.say_to_toy(token, if refused.is_none() { b"+" } else { b"-" });
    const PROXY_REGISTERED: fn(&mut Core, Peer, Result<ProxyKey, String>, &Arc<Account>) =
        |core, peer, proxy, account| {
            let token = core.protocols.toy.peers.get(&peer).copied();
            let connection = token.and_then(|token| core.protocols.toy.connections.get_mut(token));
            match (token, connection, proxy) {
                (Some(token), Some(connection), Ok(key)) => {
                    let proxies = connection.proxies.iter_mut().filter(|(known, _)| *known == peer);
                    proxies.for_each(|(_, known)| *known = Some(key));
                    core.take_in_toys(token);
                }
                // The client has gone.
                (_, None, Ok(key)) => core.cx.tell_administration(0, Action::Disconnection(key, peer), account),
                (Some(token), ..) => core.close_toy(token),
                (None, ..) => {}
            }
        };
    const PROXY_GONE: fn(&mut Core, Peer) = |core, peer| {
        if let Some(token) = core.protocols.toy.peers.get(&peer) {
            core.close_toy(*token);
        }
    };
    const SUBSCRIBED: fn(&mut Core, Peer, Subscribed) = |core, peer, subscribed| {
        if let Some(token) = core.protocols.toy.peers.get(&peer).copied() {
            let types =
                subscribed.types.iter().map(|kind| format!(" {}/{}", kind.domain, kind.name)).collect::<String>();
            let all = if subscribed.everything { " everything" } else { "" };
            core.say_to_toy(token, format!("wanted:{all}{types}").as_bytes());
        }
    };
}

impl Core {
    fn let_in_toy(&mut self, arrival: Arrival) -> Option<usize> {
        let Arrival { stream, address, place, quota, at, .. } = arrival;
        let account = Arc::clone(place.account());
        let toy = &mut self.protocols.toy;
        let peers = [toy.next_peer, Peer(toy.next_peer.0 + 1)];
        toy.next_peer = Peer(toy.next_peer.0 + 2);
        let (proxies, read) = (peers.map(|peer| (peer, None)), Vec::new());
        let token = toy.connections.insert(Connection {
            stream,
            address,
            place,
            rounds: Rounds::new(quota, Interest::READ),
            read,
            proxies,
        });
        let connection = toy.connections.get(token)?;
        self.cx.io.poll.add(connection.stream.tcp(), Socket::Incoming(Tag::Toy, token), Interest::READ).ok()?;
        self.cx.io.occupied.arrive(Tag::Toy, token, account.ip(), at);
        let output_form = OutputForm((Tag::Toy as u32) << 16);
        let (types, constraint, start, correlation, looks_on) = (Vec::new(), String::new(), None, None, false);
        let Settings { request_bytes_min, is_durable } = self.protocols.toy.settings;
        let (durable, confirms, refuses) = (is_durable.then(|| NAME.to_owned()), is_durable, false);
        let backlog_bytes_max = None;
        #[rustfmt::skip]
        let consumer = Part::Consumer {
            types, constraint, output_form, start, correlation, looks_on, durable, confirms, refuses, backlog_bytes_max,
        };
        let parts = [Part::Supplier, consumer];
        for (peer, part) in peers.into_iter().zip(parts) {
            self.protocols.toy.peers.insert(peer, token);
            let (channel, name) = (ChannelId(0), format!("toy at {address}"));
            let proxy = LocalProxy { channel: channel.into(), peer, name, part, about: None };
            self.cx.request_local_proxy(token.to_bits(), proxy, (&account, request_bytes_min)).ok()?;
        }
        Some(self.protocols.toy.connections.iter().count())
    }

    fn serve_toy(&mut self, token: Token) {
        let Some(Connection { stream, read, .. }) = self.protocols.toy.connections.get_mut(token) else { return };
        read.reserve(1_024);
        match stream.receive(read) {
            Ok(0) => self.close_toy(token),
            Ok(_) => self.take_in_toys(token),
            Err(_) => {}
        }
    }

    /// Takes in the stored lines, once there are both proxies: its consumer gets its own events.
    fn take_in_toys(&mut self, token: Token) {
        loop {
            let Some(connection) = self.protocols.toy.connections.get_mut(token) else { return };
            let [(_, Some(source)), (peer, consumer)] = connection.proxies else { return };
            if consumer.is_none() {
                return;
            }
            let Some(end) = connection.read.iter().position(|octet| *octet == b'\n') else { return };
            let line: Vec<u8> = connection.read.drain(..=end).take(end).collect();
            if let (Some(key), Some(command)) = (consumer, line.strip_prefix(b"/")) {
                self.ask_for_toy(token, (peer, key), command);
                continue;
            }
            match self.admit_toy(token, source, &line) {
                Ok(true) => self.say_to_toy(token, b"+"),
                Ok(false) => {}
                Err(_) => self.say_to_toy(token, b"-"),
            }
        }
    }

    /// Passes a client's command about its consumer's proxy to administration.
    fn ask_for_toy(&mut self, token: Token, (peer, key): (Peer, ProxyKey), command: &[u8]) {
        let Some(connection) = self.protocols.toy.connections.get(token) else { return };
        let account = Arc::clone(connection.place.account());
        let only = |everything, types| Action::Subscribe { peer, key, everything, types };
        let action = match command {
            b"wanted" => Action::WatchSubscribed { peer, channel: key.channel, except: vec![key] },
            b"unwanted" => Action::UnwatchSubscribed(peer),
            b"none" => only(false, Vec::new()),
            b"many" => only(false, (0..=1_024).map(|number| EventType::new("Weather", number.to_string())).collect()),
            b"all" => only(true, Vec::new()),
            b"wind" => only(false, vec![EventType::new("Weather", "Wind")]),
            _ => return,
        };
        self.cx.tell_administration(token.to_bits(), action, &account);
    }

    /// Hands an event to the engine. False if its outcome comes later.
    fn admit_toy(&mut self, token: Token, source: ProxyKey, line: &[u8]) -> Result<bool, Refused> {
        let mut pending_event = self.cx.lane.begin_event_for(line.len() + 64);
        self.cx.lane.classify(&mut pending_event, b"Toy", line);
        let event: &mut Event = &mut pending_event;
        (event.form, event.tag) = (FORM_STRUCTURED, event::tag_at(ENCODING, 0, false));
        let mut writer = Writer::new(&mut event.bytes, ENCODING);
        [b"Toy", line, b""].into_iter().for_each(|name| writer.string_bytes(name));
        // No properties of the header, no fields, and no remainder: its type is `null`.
        [0, 0, 0].into_iter().for_each(|nothing| writer.u32(nothing));
        self.protocols.translate(source, event, &mut self.cx);
        let mut submission = Submission::new(source, super::Claim::Toy(token), None);
        self.admit(&mut submission, pending_event);
        let finished = self.finish_submission(&submission);
        self.deliver();
        finished
    }

    fn send_toy(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>) {
        let token = delivery.peer.and_then(|peer| self.protocols.toy.peers.get(&peer).copied());
        let outcome = if let (Some(token), Some(event)) = (token, events.first()) {
            let names = self.cx.lane.type_names(event.event_type).unwrap_or_else(|| event.names());
            let line = [names.0, b"/", names.1].concat();
            self.say_to_toy(token, &line);
            if self.protocols.toy.settings.is_durable { Outcome::Delivered } else { Outcome::Sent }
        } else if self.protocols.toy.settings.is_durable {
            Outcome::Unreachable
        } else {
            Outcome::Gone
        };
        self.cx.release_events(events);
        self.cx.lane.handle_outcome(delivery.outbox, delivery.serial, outcome, self.cx.clock.now);
    }

    /// Writes a line. Octets for which the socket has no room are lost.
    fn say_to_toy(&mut self, token: Token, line: &[u8]) {
        if let Some(connection) = self.protocols.toy.connections.get_mut(token) {
            let _ = connection.stream.write(&[line, b"\n"].concat());
        }
    }

    fn close_toy(&mut self, token: Token) {
        let Some(connection) = self.protocols.toy.connections.remove(token) else { return };
        self.cx.io.occupied.leave(Tag::Toy, token);
        self.cx.io.quotas.leave(connection.rounds.quota);
        for (peer, key) in connection.proxies {
            self.protocols.toy.peers.remove(&peer);
            if let Some(key) = key {
                self.cx.tell_administration(
                    token.to_bits(),
                    Action::Disconnection(key, peer),
                    connection.place.account(),
                );
            }
        }
    }
}
