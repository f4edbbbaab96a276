//! One connection of a link: taken or made, read, written and closed; and who is at its other end.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use accounts::{Account, Charge};
use engine::Time;
use links::wire::{Direction, Frame, Hello, Open};
use links::{Framer, Limits};

use super::directory::Directory;
use super::{Flow, Links, Protocol, ZENOH_ADDRESS};
use crate::admin::values::LinkOrigin;
use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::io::entrance::Arrival;
use crate::lane::io::net::{self, Tcp};
use crate::lane::io::output::{Flushed, Output, Spares, would_block};
use crate::lane::io::quotas::Rounds;
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::io::stream::Stream;
use crate::lane::io::system::{Interest, Ready};
use crate::protocols::Tag;
use crate::protocols::link::dialling::CONNECT_WITHIN;

/// Octets that the kernel takes beyond what the line does: more would delay high priorities of other channels.
pub(super) const UNSENT_MAX: u32 = 16 << 10;
/// Octets that wait to be written before the connection is not read any more.
const UNREAD_MAX: usize = 1 << 20;
/// A connection on which nothing came for so long is asked for a sign of life, and closed after the other.
const PROBED_AFTER: Duration = Duration::from_secs(2);
const DEAD_AFTER: Duration = Duration::from_secs(10);
/// Another connection with the identity of one on which something came so recently is refused.
const ALIVE: Duration = Duration::from_secs(5);
/// What a connection that is being closed may take to have its reason written.
pub(super) const CLOSING: Duration = Duration::from_secs(2);

/// A connection.
pub(crate) struct Connection {
    pub(super) state: State,
    pub(super) address: Option<SocketAddr>,
    pub(super) account: Arc<Account>,
    _place: Option<Charge>,
    pub(super) rounds: Rounds,
    framer: Framer,
    pub(super) output: Output,
    /// The link of this service's configuration that it is for; none if the other side made it.
    pub(super) link: Option<usize>,
    /// Who is at the other end, once that was said.
    pub(super) far: Option<FarSide>,
    pub(super) flows: BTreeMap<u32, Flow>,
    pub(super) next_flow: u32,
    /// Names of channels, if any are told or taken.
    pub(super) directory: Option<Directory>,
    pub(super) began: Time,
    pub(super) heard: Time,
    /// It was asked for a sign of life.
    is_probed: bool,
    /// This service has said who it is.
    has_greeted: bool,
    /// To be closed once its output is written, since then, and why.
    pub(super) closing: Option<(Time, String)>,
}

/// How far a connection is.
pub(crate) enum State {
    /// Addresses are looked up, or the next is to be tried.
    Resolving,
    /// An address is tried, and those that are left.
    Connecting(Tcp, Vec<SocketAddr>),
    /// The TLS handshake is made.
    Shaking,
    Open(Stream),
}

/// The service at the other end.
#[derive(Debug, Clone)]
pub(super) struct FarSide {
    pub(super) service: u64,
    pub(super) incarnation: u64,
    /// What it takes.
    pub(super) limits: Limits,
    pub(super) has_store: bool,
    /// What it calls itself, or the link.
    pub(super) name: String,
}

impl Connection {
    /// One that is to be made for a link.
    pub(super) fn made_by_us(link: usize, account: Arc<Account>, quota: Token, begin: (Limits, Time)) -> Self {
        Self::new(State::Resolving, (None, account, None), quota, Some(link), begin)
    }

    fn new(
        state: State,
        (address, account, place): (Option<SocketAddr>, Arc<Account>, Option<Charge>),
        quota: Token,
        link: Option<usize>,
        (limits, now): (Limits, Time),
    ) -> Self {
        Self {
            state,
            address,
            account,
            _place: place,
            rounds: Rounds::new(quota, Interest::READ),
            framer: Framer::new(limits),
            output: Output::default(),
            link,
            far: None,
            flows: BTreeMap::new(),
            next_flow: 0,
            directory: None,
            began: now,
            heard: now,
            is_probed: false,
            has_greeted: false,
            closing: None,
        }
    }

    /// What it is called in the log.
    pub(super) fn named(&self) -> String {
        if let (Some(far), None) = (&self.far, self.address) {
            return far.name.escape_debug().to_string();
        }
        let address = match self.address {
            None => "an address that is not known".to_owned(),
            Some(address) if address == ZENOH_ADDRESS => "an address in Zenoh".to_owned(),
            Some(address) => address.to_string(),
        };
        match &self.far {
            Some(far) if !far.name.is_empty() => format!("{} at {address}", far.name.escape_debug()),
            _ => address,
        }
    }

    /// Whether events may be written for it.
    pub(super) fn has_room(&self) -> bool {
        self.far.is_some() && self.closing.is_none() && !self.rounds.interest.write
    }

    /// Where frames are appended that are due on it.
    pub(super) fn frames(&mut self, spares: &mut Spares) -> &mut Vec<u8> {
        self.output.lend(spares);
        self.output.bytes()
    }

    pub(super) const fn socket(&self, token: Token) -> Socket {
        if self.link.is_some() { Socket::Outgoing(Tag::Link, token) } else { Socket::Incoming(Tag::Link, token) }
    }

    /// Whether its frames are left unread for now, so that what it is owed stays bounded.
    fn is_paused(&self) -> bool {
        self.closing.is_some() || self.output.queued_bytes() > UNREAD_MAX && self.rounds.interest.write
    }
}

impl Links<'_> {
    /// Keeps a connection that another service made. Says how many are open then; nothing if the poll does not take it.
    pub(super) fn let_in_link(&mut self, arrival: Arrival) -> Option<usize> {
        let Arrival { stream, address, place, quota, at, .. } = arrival;
        let account = Arc::clone(place.account());
        let ip = account.ip();
        let has_more = stream.has_more();
        let link = &mut self.core.protocols.link;
        let limits = link.settings.limits;
        let whose = (Some(address), account, Some(place));
        let token = link.connections.insert(Connection::new(State::Open(stream), whose, quota, None, (limits, at)));
        let socket = Socket::Incoming(Tag::Link, token);
        let State::Open(stream) = &link.connections.get(token)?.state else { return None };
        net::bound_unsent(stream.tcp(), UNSENT_MAX);
        if self.core.cx.io.poll.add(stream.tcp(), socket, Interest::READ).is_err() {
            link.connections.remove(token);
            return None;
        }
        link.look_after.get_or_insert(at);
        if has_more {
            // It came with the end of the handshake.
            self.note_link_due(token);
        }
        self.core.cx.io.occupied.arrive(Tag::Link, token, ip, at);
        Some(self.core.protocols.link.connections.iter().count())
    }

    /// Serves a connection when its socket is ready.
    pub(super) fn serve_link(&mut self, token: Token, ready: Ready) {
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return };
        match &connection.state {
            State::Connecting(..) => return self.go_on_dialling(token),
            State::Open(_) => {}
            State::Resolving | State::Shaking => return,
        }
        if ready.readable && connection.rounds.interest.read {
            self.read_link(token);
        } else if ready.broken {
            return self.close_link(token, "the connection broke");
        }
        if ready.writable || ready.ended {
            self.note_link_due(token);
        }
    }

    fn read_link(&mut self, token: Token) {
        let mut buffer = core::mem::take(&mut self.core.protocols.link.read);
        buffer.clear();
        buffer.reserve(Budget::STREAM.bytes);
        let received = match self.core.protocols.link.connections.get_mut(token) {
            Some(Connection { state: State::Open(stream), .. }) => stream.receive(&mut buffer),
            _ => Ok(0),
        };
        match received {
            Ok(0) => self.close_link(token, "the other side closed the connection"),
            Ok(_) if tls::is_hello(&buffer) && self.is_fresh(token) => {
                let address = self.core.protocols.link.connections.get(token).and_then(|connection| connection.address);
                if let Some(address) = address {
                    self.core.cx.note_tls_at_plain_port(Tag::Link, address);
                }
                self.close_link(token, "it speaks TLS, and this port does not");
            }
            Ok(_) => {
                if let Some(connection) = self.core.protocols.link.connections.get_mut(token) {
                    (connection.heard, connection.is_probed) = (self.core.cx.clock.now, false);
                }
                self.process_link(token, &buffer);
            }
            Err(error) if would_block(&error) || error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => self.close_link(token, &error.to_string()),
        }
        self.core.protocols.link.read = buffer;
    }

    /// Frames that were read and not looked at wait for a turn of their address.
    fn resume_link(&mut self, token: Token) {
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return };
        let socket = connection.socket(token);
        self.core.cx.io.quotas.resume_later(&mut connection.rounds, socket);
    }

    /// Whether nothing was heard on a connection yet.
    fn is_fresh(&self, token: Token) -> bool {
        self.core.protocols.link.connections.get(token).is_some_and(|connection| connection.far.is_none())
    }

    /// Looks at frames: those kept, and those of `input` behind them. What others have their turn before is kept.
    pub(super) fn process_link(&mut self, token: Token, mut input: &[u8]) {
        let limits = self.core.protocols.link.settings.limits;
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return };
        connection.rounds.has_backlog = false;
        let quotas = &self.core.cx.io.quotas;
        let mut meter = connection.rounds.usage.begin(quotas.round(), quotas.budget());
        let mut framer = core::mem::replace(&mut connection.framer, Framer::new(limits));
        loop {
            let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return };
            let is_over = meter.is_over(|| !input.is_empty() || framer.retained_bytes() > 0);
            if is_over || connection.is_paused() {
                framer.retain(input);
                if is_over {
                    self.core.cx.counters.add(Counter::RoundBudgetsSpent, 1);
                    self.resume_link(token);
                }
                break;
            }
            let frame = framer.next(input).map_err(|violation| violation.to_string());
            let (frame, taken) = match frame {
                Ok((Some(frame), taken)) => (self.handle_frame(token, &frame), taken),
                Ok((None, _)) => break,
                Err(why) => (Err(why), 0),
            };
            meter.note_message();
            input = input.get(taken..).unwrap_or_default();
            if let Err(why) = frame {
                self.distrust_link(token, &why);
                break;
            }
        }
        if let Some(connection) = self.core.protocols.link.connections.get_mut(token) {
            connection.framer = framer;
            connection.rounds.usage.note(&meter);
        }
        self.core.deliver();
        self.note_link_due(token);
    }

    /// Does what a frame says.
    ///
    /// # Errors
    /// The reason for which the connection is to be closed.
    fn handle_frame(&mut self, token: Token, frame: &Frame<'_>) -> Result<(), String> {
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return Ok(()) };
        let flow = |connection: &Connection, flow: &u32| connection.flows.get(flow).copied();
        match frame {
            // No other frame comes first, and none of this kind later.
            Frame::Hello(hello) => self.meet_far_side(token, hello),
            Frame::Open(open) if connection.link.is_some() => {
                Err(format!("it opens the flow {}, which only the side may that made the connection", open.flow))
            }
            Frame::Open(open) => self.open_for_far_side(token, open),
            Frame::Opened { flow: number } => {
                match flow(connection, number) {
                    Some(Flow::Out(at)) => self.outflow_opened(token, at),
                    Some(Flow::In(at)) => self.inflow_opened(at),
                    None => return Err(format!("it speaks of the flow {number}, which there is not")),
                }
                Ok(())
            }
            Frame::Refused { flow: number, reason } => {
                let reason = format!("the other side refuses a channel: {}", reason.escape_debug());
                match connection.flows.remove(number) {
                    Some(Flow::Out(at)) => self.outflow_refused(at, &reason),
                    Some(Flow::In(at)) => self.end_inflow(at, None),
                    None => {}
                }
                let named = self.link_named(token);
                self.core.cx.log(log::Level::Warn, || format!("{named}: {reason}"));
                Ok(())
            }
            Frame::Event(event) => match flow(connection, &event.flow) {
                Some(Flow::In(at)) => self.take_link_event(at, event),
                _ => Err(format!("it sends an event in the flow {}, which takes none", event.flow)),
            },
            Frame::Ack { flow: number, up_to } => match flow(connection, number) {
                Some(Flow::Out(at)) => self.acknowledge_outflow(at, *up_to),
                _ => Err(format!("it acknowledges events of the flow {number}, which sends none")),
            },
            Frame::Reject { flow: number, sequence, text, .. } => match flow(connection, number) {
                Some(Flow::Out(at)) => self.reject_of_outflow(at, *sequence, text),
                _ => Err(format!("it rejects an event of the flow {number}, which sends none")),
            },
            Frame::Interest { flow: number, everything, types } => {
                if let Some(Flow::Out(at)) = flow(connection, number) {
                    self.far_side_subscribed(at, *everything, types);
                }
                Ok(())
            }
            Frame::Ping { number } => {
                Frame::Pong { number: *number }.write(connection.frames(&mut self.core.cx.io.spares));
                Ok(())
            }
            Frame::Pong { .. } => Ok(()),
            Frame::Acknowledged { flow: number, origins } => match flow(connection, number) {
                Some(Flow::In(at)) => self.check_acknowledged(at, *origins),
                _ => Err(format!("it says what was acknowledged in the flow {number}, which takes no events")),
            },
            Frame::Forgotten { flow: number, events } => match flow(connection, number) {
                Some(Flow::Out(at)) => self.far_side_forgot(at, *events),
                _ => Err(format!("it has forgotten events of the flow {number}, which sends none")),
            },
            Frame::Directory { more, names } => self.far_side_names(token, *more, names),
            Frame::Goodbye { reason } => {
                self.close_link(token, &format!("the other side ends it: {}", reason.escape_debug()));
                Ok(())
            }
            _ => self.handle_group_frame(token, frame),
        }
    }

    /// Says who this service is, on a connection: by a link's name where it has made the connection.
    pub(super) fn greet_far_side(&mut self, token: Token, name: &str) {
        let Protocol { connections, service, incarnation, settings, .. } = &mut self.core.protocols.link;
        let Some(connection) = connections.get_mut(token) else { return };
        let (version_min, version_max) = links::VERSIONS;
        let (service, incarnation, limits, has_store) = (*service, *incarnation, settings.limits, settings.has_store);
        let hello = Hello { version_min, version_max, service, incarnation, limits, has_store, name, token: "" };
        Frame::Hello(hello).write(connection.frames(&mut self.core.cx.io.spares));
        connection.has_greeted = true;
        self.note_link_due(token);
    }

    /// The other side has said who it is.
    fn meet_far_side(&mut self, token: Token, hello: &Hello<'_>) -> Result<(), String> {
        let now = self.core.cx.clock.now;
        if hello.version().is_none() {
            let Hello { version_min, version_max, .. } = hello;
            let (min, max) = links::VERSIONS;
            return Err(format!(
                "it speaks versions {version_min} to {version_max} of the protocol of links, and this service {min} to {max}: update the older"
            ));
        }
        if self.is_other_than_found(token, hello.service) {
            return Err("it is another service than the one that was found at this address".to_owned());
        }
        let Protocol { connections, service, .. } = &mut self.core.protocols.link;
        if hello.service == *service {
            return Err("it has the identity of this very service: a link to itself, or a data folder that was copied; give each service a \
                        folder of its own"
                .to_owned());
        }
        let Hello { service, incarnation, limits, has_store, .. } = *hello;
        let far = FarSide { service, incarnation, limits, has_store, name: hello.name.to_owned() };
        let is_ours = connections.get(token).is_some_and(|connection| connection.link.is_some());
        let others = || {
            let others = connections.iter().filter(|(other, _)| *other != token);
            others.filter_map(|(other, connection)| Some((other, connection, connection.far.as_ref()?)))
        };
        let is_twin = |connection: &Connection, of: &FarSide| {
            of.service == far.service && of.incarnation != far.incarnation && connection.heard + ALIVE > now
        };
        if let Some((_, twin, _)) = others().find(|(_, connection, of)| is_twin(connection, of)) {
            return Err(format!(
                "a service with this identity is connected from {}: a data folder that was copied? Give each service one of its own",
                twin.named()
            ));
        }
        let is_former = |connection: &Connection, of: &FarSide| {
            !is_ours && connection.link.is_none() && of.service == far.service && of.name == far.name
        };
        let former = others().find(|(_, connection, of)| is_former(connection, of)).map(|(other, ..)| other);
        if let Some(former) = former {
            self.close_link(former, "it has connected anew");
        }
        let name = Arc::clone(&self.core.protocols.link.settings.name);
        let is_news = is_ours || self.core.protocols.link.episodes.of(&far).connected(now);
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return Ok(()) };
        connection.far = Some(far);
        let (named, link) = (connection.named(), connection.link);
        self.count_links();
        self.begin_directory(token);
        match link {
            Some(number) => {
                if let Some(link) = self.core.protocols.link.links.get_mut(number) {
                    (link.why, link.since) = (None, now);
                    if link.origin == LinkOrigin::Found {
                        link.open_channels_again();
                        self.core.protocols.link.look_after = Some(now);
                    }
                    let (name, is_news) = (link.entry.name.clone(), link.episode.connected(now));
                    if is_news {
                        self.core.cx.log(log::Level::Info, || format!("link {name:?}: connected to {named}"));
                    }
                }
                self.open_flows(token, number);
            }
            None => {
                if is_news {
                    self.core.cx.log(log::Level::Info, || format!("a link of {named} is connected"));
                }
                self.greet_far_side(token, &name);
            }
        }
        Ok(())
    }

    /// Opens a flow that the other side wants.
    fn open_for_far_side(&mut self, token: Token, open: &Open<'_>) -> Result<(), String> {
        const FLOWS_MAX: usize = 512;
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return Ok(()) };
        if connection.flows.len() >= FLOWS_MAX {
            return Err(format!("it opens more than {FLOWS_MAX} flows"));
        }
        if open.flow == 0 || connection.flows.contains_key(&open.flow) {
            return Err(format!("it opens the flow {} twice", open.flow));
        }
        let account = Arc::clone(&connection.account);
        match open.direction {
            Direction::Out => self.add_inflow((token, open.flow), open.channel, &account),
            Direction::In => self.serve_outflow((token, open.flow), open, &account),
        }
        Ok(())
    }

    /// What a connection's link is called in the log.
    pub(super) fn link_named(&self, token: Token) -> String {
        let Protocol { connections, links, .. } = &self.core.protocols.link;
        let Some(connection) = connections.get(token) else { return "a link".to_owned() };
        match connection.link.and_then(|number| links.get(number)) {
            Some(link) => format!("link {:?}", link.entry.name),
            None => format!("the link of {}", connection.named()),
        }
    }

    /// Ends a connection for what was heard on it, after the other side was sent the reason.
    fn distrust_link(&mut self, token: Token, why: &str) {
        self.core.cx.counters.add(Counter::ProtocolErrors, 1);
        self.say_goodbye(token, why);
    }

    /// Ends a connection after the other side was sent the reason.
    pub(super) fn say_goodbye(&mut self, token: Token, why: &str) {
        let now = self.core.cx.clock.now;
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return };
        if connection.closing.is_some() {
            return;
        }
        connection.closing = Some((now, why.to_owned()));
        if !connection.has_greeted {
            // A greeting comes first in any case.
            let name = Arc::clone(&self.core.protocols.link.settings.name);
            self.greet_far_side(token, &name);
        }
        if let Some(connection) = self.core.protocols.link.connections.get_mut(token) {
            Frame::Goodbye { reason: why }.write(connection.frames(&mut self.core.cx.io.spares));
        }
        self.note_link_due(token);
    }

    /// Closes a connection. Its flows in end; its flows out collect.
    pub(super) fn close_link(&mut self, token: Token, why: &str) {
        let named = self.link_named(token);
        let Some(mut connection) = self.core.protocols.link.connections.remove(token) else { return };
        let (now, lasts) = (self.core.cx.clock.now, self.lasts());
        let why = connection.closing.as_ref().map_or(why, |(_, why)| why.as_str()).to_owned();
        self.end_directory(token, &mut connection);
        connection.output.clear(&mut self.core.cx.io.spares);
        self.core.cx.release_written();
        self.core.cx.io.quotas.leave(connection.rounds.quota);
        for flow in connection.flows.values() {
            match *flow {
                Flow::Out(at) => self.core.protocols.link.detach_outflow(at, now),
                Flow::In(at) => self.end_inflow(at, None),
            }
        }
        match connection.link {
            None => {
                self.core.cx.io.occupied.leave(Tag::Link, token);
                let level = if connection.far.is_some() { log::Level::Info } else { log::Level::Warn };
                let mut episode = connection.far.as_ref().map(|far| self.core.protocols.link.episodes.of(far));
                if episode.as_mut().is_none_or(|episode| episode.closed(&why, now, lasts)) {
                    self.core.cx.log(level, || format!("{named} is closed: {why}"));
                }
            }
            Some(number) => {
                let Some(link) = self.core.protocols.link.links.get_mut(number) else { return };
                link.connection = None;
                // One line an episode: when it went down, and when the reason is another, some times.
                let is_news = link.why.as_ref().is_none_or(|before| *before != why);
                if link.why.is_none() {
                    link.since = now;
                }
                link.why = Some(why.clone());
                let is_begun = match connection.far {
                    Some(_) => link.episode.closed(&why, now, lasts),
                    None => !is_news || link.episode.takes_reason(now),
                };
                self.core.cx.counters.add(Counter::LinksLost, u64::from(is_news && !link.is_paused));
                if is_news && is_begun && !link.is_paused {
                    link.episode.end();
                    let to = link.entry.to.clone();
                    self.core.cx.log(log::Level::Warn, || {
                        format!("{named} to {to} is down: {why}; events wait for it, and it is tried again each second")
                    });
                }
            }
        }
        self.count_links();
    }

    /// Has a connection probed, or ended, that is silent.
    pub(super) fn look_after_connection(&mut self, token: Token) {
        let now = self.core.cx.clock.now;
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return };
        let is_open = matches!(connection.state, State::Open(_)) && connection.far.is_some();
        if let Some((since, _)) = &connection.closing {
            if *since + CLOSING <= now {
                self.close_link(token, "");
            }
        } else if !is_open && connection.began + CONNECT_WITHIN <= now {
            self.close_link(token, "it was not connected, and greeted, in time");
        } else if is_open && connection.heard + DEAD_AFTER <= now {
            self.close_link(token, "nothing came from the other side for 10 s");
        } else if is_open
            && connection.heard + PROBED_AFTER <= now
            && !core::mem::replace(&mut connection.is_probed, true)
        {
            Frame::Ping { number: now.0 }.write(connection.frames(&mut self.core.cx.io.spares));
            self.note_link_due(token);
        }
    }

    /// Writes what is due on a connection.
    pub(super) fn flush_link(&mut self, token: Token) {
        self.take_retained_of(token);
        self.core.protocols.link.write_acknowledgements(token, &mut self.core.cx.io.spares);
        let Some(connection) = self.core.protocols.link.connections.get_mut(token) else { return };
        connection.rounds.is_due = false;
        let (socket, was_paused) = (connection.socket(token), connection.is_paused());
        let State::Open(stream) = &mut connection.state else { return };
        let (taken, was_full) = (connection.output.taken(), connection.rounds.interest.write);
        let flushed = match connection.output.flush(stream, &mut self.core.cx.io.spares, Budget::STREAM.bytes) {
            Ok(flushed) => flushed,
            Err(error) => return self.close_link(token, &error.to_string()),
        };
        if was_full && connection.output.taken() > taken {
            // The other side reads. A large event may take long over a narrow line, and what asks for a sign of life is behind it.
            (connection.heard, connection.is_probed) = (self.core.cx.clock.now, false);
        }
        if flushed == Flushed::All && connection.closing.is_some() {
            return self.close_link(token, "");
        }
        let is_much = flushed == Flushed::Full && connection.output.queued_bytes() > UNREAD_MAX;
        let read = connection.closing.is_none() && !is_much;
        let Connection { state, rounds, .. } = connection;
        let State::Open(stream) = state else { return };
        if !self.core.cx.io.watch((socket, stream, rounds), flushed, (read, false)) {
            return self.close_link(token, "its socket cannot be watched");
        }
        if was_paused && !connection.is_paused() {
            self.resume_link(token);
        }
        if flushed != Flushed::Full {
            self.unblock_outflows(token);
        }
    }
}
