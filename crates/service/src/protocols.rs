//! The ways in: a folder for each protocol, and the face that all of them have for a lane.
//!
//! A lane knows events, outboxes, turns, timers, and sockets as streams of bytes; a door knows what the bytes mean. A [`Tag`] or the
//! variant of an enum names the door of a connection, a form, a claim or a letter, and each function here is a `match` on that: nothing
//! is called through a pointer on an event's path. A lane calls doors by this face and by nothing else; a door uses what of the lane it
//! needs: it hands events in with `Core::admit`, is notified by [`Worker::answer`] when the acknowledgement of them is due, and gets what
//! is to be delivered by [`Core::send`].
//!
//! ARCHITECTURE.md describes how to add one.

mod admin_messages;
pub(crate) mod dds;
pub(crate) mod forms;
pub(crate) mod giop;
pub(crate) mod json;
pub(crate) mod local_proxies;
pub(crate) mod tempo;
#[cfg(test)]
pub(crate) mod ways;

use core::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use engine::{Delivery, Event, Form, OutboxId, OutputForm, Peer, ProxyKey, RemoteFilterGroups, Snapshot, Time};

use crate::lane::clock::Clock;
use crate::lane::intake::{FilterVerdict, Refused};
use crate::lane::io::entrance::{Arrival, Entrance, Named};
use crate::lane::io::net::{self, Datagrams, Listener, Poll, Waker};
use crate::lane::io::slots::Token;
use crate::lane::io::socket::{Layer, Socket};
use crate::lane::io::system::{Interest, Ready};
use crate::lane::links::mailbox::Mailbox;
use crate::lane::links::messages::{LaneThread, Lookup};
use crate::lane::run::{Common, Core, Worker};
use crate::published::Published;
use accounts::{Account, Addresses, Resource};
use corba::LocalProxy;

/// Maximum size of an answer; what an answer waits for: that clients were notified of what was done, or that it is published; how many
/// log lines a request caused; the state of a supplier; a property that is set, and its object; a channel in a list.
pub(crate) use corba::{
    ANSWER_BYTES_MAX, Access, Act, ActOutcome, Creations, Declared, DelayedReply, Denied, Forbidden, ListedChannel,
    RestoredClient, Settable, SupplierStatus, Unpublished, dead_letter_channels, log_lines::LogLines,
};

/// What is published of rules of access.
#[cfg(test)]
pub(crate) fn access_by(rules: Option<access::Rules>, accounts: &Arc<accounts::Accounts>) -> Option<Access> {
    let (config, memory) = (crate::Config::default(), crate::memory::Memory::new(1 << 30));
    let place = crate::start::Place { host: "127.0.0.1", port: 2809, secure: None };
    let mut protocol = corba::Protocol::new(crate::start::protocol_settings(&config, memory, place, false));
    protocol.set_access(rules, accounts);
    protocol.publish()?.access
}

pub(crate) use admin_messages::{Answered, Call, Fault, Request, Returned, ToProtocol, Wish};
/// The objects that clients of whichever door name. Today they are all with one door.
pub(crate) use giop::objects::Objects;

/// Which door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Giop,
    Json,
    Tempo,
    Dds,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Giop => "GIOP",
            Self::Json => "lines of JSON",
            Self::Tempo => "Tempo",
            Self::Dds => "DDS",
        })
    }
}

impl Tag {
    /// All doors, by their numbers; four at most.
    pub(crate) const ALL: [Self; 4] = [Self::Giop, Self::Json, Self::Tempo, Self::Dds];

    /// Whether a few connections beyond the limit are reserved, for the clients of administration, which come by this door.
    pub(crate) const fn has_reserve(self) -> bool {
        matches!(self, Self::Giop)
    }

    pub(crate) const fn number(self) -> u64 {
        self as u64
    }

    /// The door with a number that was got from one.
    #[inline]
    pub(crate) fn numbered(number: u64) -> Self {
        let protocol = usize::try_from(number).ok().and_then(|number| Self::ALL.get(number));
        protocol.copied().unwrap_or(Self::Giop)
    }

    /// The answer to a client for which there is no place, where the protocol has words for that.
    #[cold]
    pub(crate) fn no_place(self, reason: &str) -> Option<Vec<u8>> {
        match self {
            Self::Json => {
                let mut line = Vec::new();
                ::json::answer::error(&mut line, None, reason);
                Some(line)
            }
            Self::Giop | Self::Tempo | Self::Dds => None,
        }
    }

    /// The first of the handles that the door gives its clients' proxies in the objects of CORBA: each door has 2^56 of them.
    pub(crate) const fn first_peer(self) -> Peer {
        Peer(LocalProxy::FIRST_PEER.0 | self.number() << 56)
    }

    /// The door of the client with this handle.
    fn of_peer(peer: Peer) -> Self {
        Self::numbered((peer.0 ^ LocalProxy::FIRST_PEER.0) >> 56)
    }

    /// The door of a form. Each door has 256: the upper octet is its number.
    #[inline]
    pub(crate) fn of_form(form: Form) -> Self {
        Self::numbered(u64::from(form.0 >> 8))
    }

    /// The door of the consumer with this want. In a want, the form stands above eight bits of the door's own, and below what the engine
    /// says of marks.
    #[inline]
    pub(crate) fn of_output_form(output_form: OutputForm) -> Self {
        Self::numbered(u64::from(output_form.0 >> 16 & 0xff))
    }
}

/// What each door has of a lane, apart from the connections that clients made to it.
pub(crate) struct Protocols {
    pub(crate) giop: giop::Protocol,
    pub(crate) json: json::Protocol,
    pub(crate) tempo: tempo::Protocol,
    pub(crate) dds: dds::Protocol,
    /// What messages of Tempo are to others, and others' events to its subscribers.
    pub(crate) tempo_forms: tempo::form::Forms,
}

/// The connections that clients made to a lane, by door.
pub(crate) struct Clients {
    /// The addresses that connections are taken from, whichever door they come to; the main lane's alone.
    pub(crate) addresses: Option<Addresses>,
    /// Where they are taken from, by door; the main lane's alone.
    entrances: [[Entrance; Layer::ALL.len()]; Tag::ALL.len()],
    pub(crate) giop: giop::callers::Clients,
    pub(crate) json: json::incoming::Clients,
    pub(crate) tempo: tempo::streams::Clients,
}

/// What each door is made with, the same for all lanes.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) giop: giop::Settings,
    pub(crate) json: json::Settings,
    pub(crate) tempo: tempo::Settings,
    /// The types that topics of Tempo are declared to have.
    pub(crate) tempo_types: Arc<tempo::types::DeclaredTypes>,
}

/// Where each door's clients connect; the main lane's.
#[derive(Debug)]
pub(crate) struct Listeners {
    /// Not where nothing is in the clear.
    pub(crate) giop: Option<Listener>,
    /// Only where it was asked for.
    pub(crate) json: Option<Listener>,
    /// The same; datagrams arrive at the same port.
    pub(crate) tempo: Option<Listener>,
    pub(crate) tempo_datagrams: Option<Datagrams>,
    /// Channels that are joined to DDS.
    pub(crate) dds: Vec<dds::JoinSetup>,
    /// The same with TLS, by door.
    pub(crate) tls: [Option<Listener>; Tag::ALL.len()],
    /// Where datagrams arrive that are sent to a group.
    pub(crate) tempo_group: Option<Datagrams>,
    /// Whether the first one stays open in another process when the service ends: clients that connect then wait for the next service.
    pub(crate) outlive: bool,
    /// The service's own addresses beside the first one's, at which no client is called.
    pub(crate) own: Vec<SocketAddr>,
}

/// Recipient of the answer when events were taken in or refused: a door's client, in that door's terms.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Claim {
    Giop(giop::claims::Claim),
    Json(json::incoming::Claim),
    Tempo(tempo::intake::Claim),
    Dds(dds::Claim),
}

/// A message for another lane than the one that has its connection, on its way there or home.
pub(crate) enum Foreign {
    Giop(Box<giop::foreign_pushes::ForeignPush>),
}

/// A connection on its way to another lane.
pub(crate) enum Moving {
    Giop(Box<giop::callers::Incoming>),
}

/// Connections by the side that made them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    ByUs,
    ByClients(Tag),
}

impl Made {
    /// The next ones to look at, after these.
    pub(crate) const fn next(self) -> Option<Self> {
        match self {
            Self::ByUs => Some(Self::ByClients(Tag::Giop)),
            Self::ByClients(Tag::Giop) => Some(Self::ByClients(Tag::Json)),
            Self::ByClients(Tag::Json) => Some(Self::ByClients(Tag::Tempo)),
            Self::ByClients(Tag::Tempo | Tag::Dds) => None,
        }
    }
}

/// The address under which the service itself is charged for what no client asked for.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

impl Protocols {
    pub(crate) fn new(common: &Common, resolver: Mailbox<Lookup>) -> Self {
        let resolver = giop::outgoing::Resolver { mailbox: resolver, own: common.accounts.account_of(NOBODY) };
        let Settings { giop, json, tempo, tempo_types } = &common.protocols;
        Self {
            giop: giop::Protocol::new(resolver, giop),
            json: json::Protocol::new(json.clone()),
            tempo: tempo::Protocol::new(*tempo),
            dds: dds::Protocol::new(common),
            tempo_forms: tempo::form::Forms::new(Arc::clone(tempo_types)),
        }
    }

    /// Has the doors read datagrams.
    ///
    /// # Errors
    /// When the poll does not take a socket.
    pub(crate) fn take_datagrams(&mut self, listeners: Option<&mut Listeners>, poll: &Poll) -> io::Result<()> {
        let Some(listeners) = listeners else { return Ok(()) };
        if let Some(datagrams) = listeners.tempo_datagrams.take() {
            poll.add(&datagrams, Socket::Datagrams(Tag::Tempo), Interest::READ)?;
            self.tempo.out.socket = Some(datagrams);
        }
        if let Some(group) = listeners.tempo_group.take() {
            poll.add(&group, Socket::Group(Tag::Tempo), Interest::READ)?;
            self.tempo.group = Some(group);
        }
        Ok(())
    }

    /// Has the door for DDS begin, with this lane's bell.
    ///
    /// # Errors
    /// When the system refuses a bell.
    pub(crate) fn begin_dds(&mut self, listeners: Option<&mut Listeners>, waker: &Arc<Waker>) -> io::Result<()> {
        listeners.map_or(Ok(()), |listeners| self.dds.begin(core::mem::take(&mut listeners.dds), waker))
    }

    /// What time it is now.
    #[inline]
    pub(crate) fn note_time(&mut self, clock: &Clock) {
        self.giop.note_time(clock);
    }

    /// What administration has published goes with the routing that the lane takes over next.
    pub(crate) fn handle_published(&mut self, published: &Published) {
        self.giop.outgoing.handle_published(published);
    }

    /// Numbers of event types are used anew.
    pub(crate) fn forget_types(&mut self) {
        self.giop.header_cache.forget();
    }

    /// There may be room on another lane for what waits for that.
    pub(crate) fn note_room_elsewhere(&mut self) {
        self.giop.foreign.try_parked = true;
    }

    /// Whether an outbox has to wait, since filters that are clients' objects are asked about its events.
    #[inline]
    pub(crate) fn waits_for_filters(&mut self, outbox: OutboxId) -> bool {
        self.giop.outgoing.filter_calls.wait_for(outbox)
    }

    /// Whether there is something to do without a socket or a letter having to speak of it.
    pub(crate) fn goes_on(&self) -> bool {
        self.giop.goes_on() || self.json.goes_on() || self.tempo.goes_on() || self.dds.goes_on()
    }

    /// Whether a client can be answered that waited for something other than the intake.
    pub(crate) fn has_to_answer(&self) -> bool {
        self.giop.has_to_answer()
    }

    /// Whether anything has to be looked after by the clock.
    pub(crate) fn has_deadlines(&self) -> bool {
        self.giop.has_deadlines() || self.json.has_deadlines() || self.tempo.has_deadlines() || self.dds.has_deadlines()
    }

    /// When something is to be done next of which the lane does not know otherwise.
    pub(crate) fn next_due(&self) -> Option<Time> {
        [self.giop.pullers.next_due(), self.tempo.next_due()].into_iter().flatten().min()
    }

    /// Whether something is under way that is in no outbox, apart from what waits to be written.
    pub(crate) fn have_under_way(&self) -> bool {
        self.giop.has_under_way() || self.dds.has_under_way()
    }

    /// Whether nothing is left to do for others. For a lane that is to end.
    pub(crate) fn are_done(&self) -> bool {
        self.giop.is_done()
    }
}

impl Clients {
    /// Starts without a connection.
    ///
    /// # Errors
    /// When the poll does not take a socket.
    pub(crate) fn new(listeners: Option<Listeners>, common: &Common, poll: &Poll) -> io::Result<Self> {
        let addresses = listeners.as_ref().map(|_| Addresses::new(&common.accounts));
        let listeners = listeners.map_or_else(Default::default, Listeners::by_protocol);
        for (of_protocol, protocol) in listeners.iter().zip(Tag::ALL) {
            for (listener, layer) in of_protocol.iter().zip(Layer::ALL) {
                if let Some(listener) = listener {
                    net::prepare_listener(listener)?;
                    poll.add(listener, Socket::Listener(protocol, layer), Interest::READ)?;
                }
            }
        }
        Ok(Self {
            addresses,
            entrances: listeners.map(|of_protocol| of_protocol.map(Entrance::new)),
            giop: giop::callers::Clients::new(common),
            json: json::incoming::Clients::new(common),
            tempo: tempo::streams::Clients::new(common),
        })
    }

    /// Where clients of a door connect.
    pub(crate) const fn entrance(&mut self, protocol: Tag, layer: Layer) -> &mut Entrance {
        let [giop, json, tempo, dds] = &mut self.entrances;
        let [plain, tls] = match protocol {
            Tag::Giop => giop,
            Tag::Json => json,
            Tag::Tempo => tempo,
            // No client connects there: its thread knocks.
            Tag::Dds => dds,
        };
        match layer {
            Layer::Plain => plain,
            Layer::Tls => tls,
        }
    }

    /// Stops accepting connections.
    pub(crate) fn stop_listening(&mut self) {
        self.entrances.as_flattened_mut().iter_mut().for_each(Entrance::close);
    }

    /// Begins a round with what the last one left.
    pub(crate) fn begin_round(&mut self) {
        self.giop.begin_round();
    }

    /// Whether something is to be written without a socket having to speak of it.
    pub(crate) fn goes_on(&self) -> bool {
        self.giop.goes_on()
    }

    /// Whether something is to be written in this round.
    pub(crate) fn have_unflushed(&self) -> bool {
        !self.giop.unflushed.is_empty()
    }

    /// Whether anything has to be looked after by the clock.
    pub(crate) fn have_deadlines(&self) -> bool {
        self.giop.unfinished.is_waiting()
    }

    /// How many connections are open.
    pub(crate) const fn open(&self) -> usize {
        self.giop.open
    }
}

impl Core {
    /// Makes a call that administration asked for.
    pub(crate) fn call_client(&mut self, id: u64, call: Call) {
        match call {
            Call::Giop(call) => self.protocols.giop.outgoing.begin_call(id, call, &mut self.cx),
        }
    }

    /// The lane has taken over new routing.
    pub(crate) fn handle_new_routing(&mut self, before: &Snapshot) {
        self.protocols.giop.header_cache.forget();
        self.protocols.giop.place_pullers(&mut self.cx);
        self.protocols.giop.end_waits(before, &mut self.cx);
    }

    /// Sends events to the consumer that they are for. Their list is empty then.
    #[inline]
    pub(crate) fn send(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>) {
        match Tag::of_output_form(delivery.output_form) {
            Tag::Giop => self.protocols.giop.outgoing.send_push(delivery, events, &mut self.cx),
            Tag::Json => self.protocols.json.send_line(delivery, events, &mut self.cx),
            Tag::Tempo => self.protocols.tempo.send_tempo(delivery, events, &mut self.cx),
            Tag::Dds => self.protocols.dds.send_dds(delivery, events, &mut self.cx),
        }
    }

    /// Hands events of the engine to the client that asked for them and waits.
    pub(crate) fn hand_over(&mut self, delivery: Delivery, events: Vec<Arc<Event>>) {
        match Tag::of_output_form(delivery.output_form) {
            Tag::Giop => self.hand_to_waiter(delivery, events),
            // No client pulls there.
            Tag::Json | Tag::Tempo | Tag::Dds => self.cx.recycle(events),
        }
    }

    /// Has filters that are clients' objects asked about an event on its way to a consumer, whichever door that uses.
    pub(crate) fn call_remote_filters(&mut self, delivery: Delivery, events: Vec<Arc<Event>>) {
        self.call_filters_for_delivery(delivery, events, None);
    }

    /// Has such filters asked about the first of the events of a proxy that wait. Gives the ruling if it is there already.
    pub(crate) fn call_filters_for_first(
        &mut self,
        source: ProxyKey,
        filter_calls: RemoteFilterGroups,
    ) -> Option<FilterVerdict> {
        self.call_filters_for_admission(source, filter_calls)
    }

    /// No outcome came in time of what an outbox had on its way.
    pub(crate) fn give_up(&mut self, outbox: OutboxId) {
        self.protocols.giop.outgoing.abandon(outbox, &mut self.cx);
    }

    /// Writes what was gathered where that is so much, or was begun so long ago, that it is not to wait for the end of the
    /// round.
    #[inline]
    pub(crate) fn write_if_much(&mut self) {
        self.protocols.giop.outgoing.flush_if_much(&mut self.cx);
    }

    /// Writes what was gathered if that was begun so long ago that it is not to wait for the end of the round.
    pub(crate) fn write_if_long(&mut self, began: Time) {
        self.protocols.giop.outgoing.flush_if_long(began, &mut self.cx);
    }

    /// Begins a round with what the last one left.
    pub(crate) fn begin_round(&mut self) {
        self.protocols.giop.outgoing.go_on_after_rest(&mut self.cx);
    }

    /// The resolver has an answer.
    pub(crate) fn handle_resolved(&mut self, connection: Token, addresses: Result<Vec<SocketAddr>, String>) {
        self.protocols.giop.outgoing.resolved(connection, addresses, &mut self.cx);
    }

    /// A message of another lane's has come.
    pub(crate) fn take_foreign(&mut self, thread: LaneThread, message: Foreign) {
        match message {
            Foreign::Giop(push) => self.take_foreign_push(thread, push),
        }
    }
}

impl Worker {
    /// Serves a socket that is ready.
    pub(crate) fn serve_socket(&mut self, ready: Ready) {
        match ready.socket {
            Socket::Waker => self.serve_inboxes(),
            Socket::Listener(protocol, layer) => self.accept(protocol, layer),
            Socket::Incoming(Tag::Giop, token) => self.clients.giop.serve_incoming(token, ready, &mut self.core),
            Socket::Outgoing(Tag::Giop, token) => self.core.serve_outgoing(token, ready),
            Socket::Incoming(Tag::Json, token) => self.core.serve_json(token, ready),
            Socket::Outgoing(Tag::Json, _) => {}
            Socket::Incoming(Tag::Tempo, token) => self.serve_tempo(token, ready),
            Socket::Datagrams(Tag::Tempo) => self.serve_tempo_datagrams(ready),
            Socket::Group(Tag::Tempo) => self.serve_tempo_group(),
            Socket::Outgoing(Tag::Tempo | Tag::Dds, _)
            | Socket::Datagrams(_)
            | Socket::Group(_)
            | Socket::Incoming(Tag::Dds, _) => {}
        }
    }

    /// Has a door keep a connection that a client made. Says how many of its are open then; nothing if the poll does not take it.
    pub(crate) fn let_in(&mut self, protocol: Tag, arrival: Arrival) -> Option<usize> {
        match protocol {
            Tag::Giop => self.clients.giop.let_in_giop(arrival, &mut self.core),
            Tag::Json => self.let_in_json(arrival),
            Tag::Tempo => self.let_in_tempo(arrival),
            Tag::Dds => None,
        }
    }

    /// Since when a connection that a client made is idle; nothing if it is not, or carries a proxy. In the reserve are other connections
    /// than those below the limit.
    pub(crate) fn idle_since(&self, protocol: Tag, token: Token, in_reserve: bool) -> Option<Time> {
        let protocols = &self.core.protocols;
        let (account, since) = match protocol {
            Tag::Giop => {
                let caller = &self.clients.giop.incoming.get(token)?.caller;
                (caller.account(), caller.idle_since(in_reserve)?)
            }
            Tag::Json => {
                let connection = protocols.json.connections.get(token)?;
                (connection.account(), connection.idle_since()?)
            }
            Tag::Tempo => {
                let connection = protocols.tempo.out.connections.get(token)?;
                (connection.account(), connection.idle_since()?)
            }
            Tag::Dds => return None,
        };
        let carries = !in_reserve && account.used(Resource::Proxies) > 0;
        (account.is_reserved() == in_reserve && !carries).then_some(since)
    }

    /// Closes a connection that gives way to another. Gives the name of its client.
    pub(crate) fn have_give_way(&mut self, protocol: Tag, token: Token) -> Option<String> {
        let name = |address, account: &Account| Named(address, account).to_string();
        match protocol {
            Tag::Giop => {
                let caller = &self.clients.giop.incoming.get(token)?.caller;
                let named = name(caller.address, caller.account());
                self.clients.giop.say_and_close(token, &mut self.core);
                Some(named)
            }
            Tag::Json => {
                let connection = self.core.protocols.json.connections.get(token)?;
                let named = name(connection.address, connection.account());
                self.core.protocols.json.close_json(token, &mut self.core.cx);
                Some(named)
            }
            Tag::Tempo => {
                let connection = self.core.protocols.tempo.out.connections.get(token)?;
                let named = name(connection.address, connection.account());
                self.core.protocols.tempo.close_stream(token, &mut self.core.cx);
                Some(named)
            }
            Tag::Dds => None,
        }
    }

    /// Goes on with a connection of which messages were read and not looked at, or which is to be made.
    pub(crate) fn go_on_with(&mut self, socket: Socket) {
        match socket {
            Socket::Incoming(Tag::Giop, token) => self.clients.giop.serve_backlog(token, &mut self.core),
            Socket::Incoming(Tag::Json, token) => self.core.go_on_with_json(token),
            Socket::Outgoing(Tag::Giop, token) => {
                self.core.protocols.giop.outgoing.begin_connecting(token, &mut self.core.cx)
            }
            Socket::Incoming(Tag::Tempo, token) => self.go_on_with_tempo(token),
            Socket::Waker
            | Socket::Listener(..)
            | Socket::Datagrams(_)
            | Socket::Group(_)
            | Socket::Incoming(Tag::Dds, _)
            | Socket::Outgoing(Tag::Json | Tag::Tempo | Tag::Dds, _) => {}
        }
    }

    /// The address that is charged for what is done for a connection, and whether it waits for the turn of that.
    pub(crate) fn place_of(&mut self, socket: Socket) -> Option<(Token, &mut bool)> {
        let Self { clients, core, .. } = self;
        match socket {
            Socket::Incoming(Tag::Giop, token) => {
                clients.giop.incoming.get_mut(token).map(|entry| entry.caller.rounds.defer())
            }
            Socket::Outgoing(Tag::Giop, token) => {
                core.protocols.giop.outgoing.connections.get_mut(token).map(|connection| connection.rounds.defer())
            }
            Socket::Incoming(Tag::Json, token) => {
                core.protocols.json.connections.get_mut(token).map(json::connection::Connection::defer)
            }
            Socket::Incoming(Tag::Tempo, token) => {
                core.protocols.tempo.out.connections.get_mut(token).map(tempo::streams::Connection::defer)
            }
            Socket::Waker
            | Socket::Listener(..)
            | Socket::Datagrams(_)
            | Socket::Group(_)
            | Socket::Incoming(Tag::Dds, _)
            | Socket::Outgoing(Tag::Json | Tag::Tempo | Tag::Dds, _) => None,
        }
    }

    /// Writes what is due: to consumers first, then replies to clients.
    pub(crate) fn write_due(&mut self) {
        let Protocols { giop, json, tempo, .. } = &self.core.protocols;
        if !self.clients.have_unflushed() && !giop.outgoing.is_due() && !json.goes_on() && !tempo.is_due() {
            return;
        }
        // A client that has its reply is to find its event counted.
        self.core.cx.update_counters();
        self.core.protocols.giop.outgoing.flush_due(&mut self.core.cx);
        self.core.protocols.tempo.flush_tempo(&mut self.core.cx);
        self.core.protocols.json.flush_json(&mut self.core.cx);
        self.clients.giop.flush_replies(&mut self.core);
    }

    /// Answers that events were taken in, or why not.
    pub(crate) fn answer(&mut self, claim: Claim, refused: Option<Refused>) {
        match claim {
            Claim::Giop(claim) => self.clients.giop.answer_claim(claim, refused, &mut self.core),
            Claim::Json(claim) => self.answer_json(claim, refused),
            Claim::Tempo(claim) => self.answer_tempo(claim, refused),
            Claim::Dds(claim) => self.answer_dds(claim, refused),
        }
    }

    /// Answers at most this many requests for events.
    pub(crate) fn answer_pull_requests(&mut self, most: usize) {
        self.clients.giop.answer_pulls(most, &mut self.core);
    }

    /// Does what is due by the clock at a time of its own.
    pub(crate) fn serve_due(&mut self) {
        self.core.protocols.giop.serve_pullers(&mut self.core.cx);
        self.core.protocols.tempo.serve_tempo_due(&mut self.core.cx);
    }

    /// Ends what has waited too long.
    #[inline(never)]
    pub(crate) fn sweep(&mut self) {
        self.listen_again();
        self.core.sweep_outgoing();
        self.clients.giop.send_movers_away(&mut self.core);
        if self.clients.giop.end_overdue(&mut self.core) {
            self.core.cx.clock.plan_sweep();
        }
        self.sweep_json();
        self.sweep_tempo();
        self.sweep_dds();
    }

    /// Goes on with what waited for room, or was too much for one round.
    pub(crate) fn go_on_with_what_waits(&mut self) {
        self.clients.giop.serve_parked(&mut self.core);
        self.clients.giop.serve_deferred_requests(&mut self.core);
        self.clients.giop.serve_unfinished(&mut self.core);
        self.core.protocols.giop.end_some_waits(&mut self.core.cx);
        self.core.tell_of_losses();
        self.go_on_with_dds();
    }

    /// Takes in some more events of what is too long to be taken in at one go, and messages that waited for their turn.
    pub(crate) fn take_in_more(&mut self) {
        self.clients.giop.serve_chunked_batches(&mut self.core);
        self.serve_tempo_topics();
    }

    /// Administration has written to a door.
    pub(crate) fn handle_admin_message(&mut self, message: ToProtocol) {
        match message {
            ToProtocol::Giop(message) => self.clients.giop.pass_answer(message, &mut self.core),
            ToProtocol::LocalProxy(message) => self.handle_proxy_notice(message),
        }
    }

    /// A message that was passed to another lane has come home.
    pub(crate) fn conclude_foreign(&mut self, message: Foreign) {
        match message {
            Foreign::Giop(push) => self.clients.giop.conclude_push_elsewhere(push, &mut self.core),
        }
    }

    /// Takes a connection over that another lane sends.
    pub(crate) fn take_over_connection(&mut self, connection: Moving) {
        match connection {
            Moving::Giop(connection) => self.clients.giop.adopt(connection, &mut self.core),
        }
    }

    /// Sends all connections to the main lane, as soon as that can be.
    pub(crate) fn send_clients_away(&mut self) {
        self.clients.giop.send_all_away(&mut self.core);
    }

    /// Whether something waits to be written on the connections in so many places from one on. Nothing if there are no places
    /// from there on.
    pub(crate) fn has_output_at(&self, made: Made, from: u32, places: u32) -> Option<bool> {
        match made {
            Made::ByUs => self.core.protocols.giop.outgoing.has_output_at(from, places),
            Made::ByClients(Tag::Giop) => self.clients.giop.has_output_at(from, places),
            Made::ByClients(Tag::Json) => self.core.protocols.json.has_output_at(from, places),
            Made::ByClients(Tag::Tempo) => self.core.protocols.tempo.has_output_at(from, places),
            Made::ByClients(Tag::Dds) => None,
        }
    }

    /// The lane ends: closes all connections that clients made.
    pub(crate) fn close_connections(&mut self) {
        self.clients.giop.close_all(&mut self.core);
        self.core.protocols.json.close_all_json(&mut self.core.cx);
        self.core.protocols.tempo.close_all_tempo(&mut self.core.cx);
    }
}

impl Listeners {
    /// By door, and whether with TLS.
    fn by_protocol(self) -> [[Option<Listener>; Layer::ALL.len()]; Tag::ALL.len()] {
        let Self { giop, json, tempo, tls: [giop_tls, json_tls, tempo_tls, _], tempo_datagrams: _, .. } = self;
        [[giop, giop_tls], [json, json_tls], [tempo, tempo_tls], [None, None]]
    }

    /// CORBA's alone.
    #[cfg(test)]
    pub(crate) fn of_giop(giop: Listener) -> Self {
        let (giop, json, tempo, tempo_datagrams) = (Some(giop), None, None, None);
        let tls = [const { None }; Tag::ALL.len()];
        Self {
            giop,
            json,
            tempo,
            tempo_datagrams,
            tempo_group: None,
            dds: Vec::new(),
            tls,
            outlive: false,
            own: Vec::new(),
        }
    }
}

#[cfg(test)]
impl Claim {
    pub(crate) const fn for_test() -> Self {
        Self::Giop(giop::claims::Claim::Puller(Token::from_bits(0xffff_ffff)))
    }
}

#[cfg(test)]
impl Foreign {
    pub(crate) fn for_test() -> Self {
        Self::Giop(Box::new(giop::foreign_pushes::ForeignPush::new(Vec::new())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corba::event::{FORM_ANY, FORM_STRUCTURED};

    #[test]
    fn forms_and_wants_say_whose_they_are() {
        assert_eq!((Tag::of_form(FORM_ANY), Tag::of_form(FORM_STRUCTURED)), (Tag::Giop, Tag::Giop));
        for (protocol, number) in Tag::ALL.into_iter().zip(0_u16..) {
            assert_eq!((protocol.number(), Tag::numbered(number.into())), (number.into(), protocol));
            assert_eq!(Tag::of_form(Form(number << 8 | 0xff)), protocol);
            let output_form = OutputForm(u32::from(number) << 16 | 0xffff);
            assert_eq!(Tag::of_output_form(output_form), protocol);
            // Channels say of all their consumers how events are marked (`MarkRepeats`), whichever door they are at.
            assert_eq!(Tag::of_output_form(output_form.marking_repeats(true).marking_numbers(true)), protocol);
        }
    }
}
