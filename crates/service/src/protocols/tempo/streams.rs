//! Connections of clients: accepted, read chunk by chunk, and closed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use engine::Time;
use tempo::wire::{Frame, Unreadable};

use super::Protocol;
use super::hearing::{Arrived, Heard};
use super::sessions::Place;
use crate::counters::Counter;
use crate::lane::budget::{Budget, RoundMeter};
use crate::lane::context::Context;
use crate::lane::io::entrance::{Arrival, Named};
use crate::lane::io::output::{Output, would_block};
use crate::lane::io::quotas::Rounds;
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::io::stream::Stream;
use crate::lane::io::system::{Interest, Ready};
use crate::lane::io::unread::Unread;
use crate::lane::run::{Core, Worker};
use crate::protocols::Tag;
use accounts::{Account, CertifiedName, Charge, Resource, Spent};

/// Maximum unread octets of output before a client's frames are not read any more.
const UNREAD_MAX: usize = 1 << 20;
/// Octets of unhandled input that are not charged, and the maximum capacity of an empty buffer.
const UNCHARGED: usize = 16 << 10;

/// A client's connection.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) address: SocketAddr,
    /// The connection's place, and its client's account.
    place: Charge,
    /// Unhandled input, and the charge for it.
    unparsed: Vec<u8>,
    charge: Option<Charge>,
    /// Since when the rest of a frame is pending.
    began: Option<Time>,
    pub(crate) output: Output,
    unread: Unread,
    /// Sessions that have announced something on it.
    pub(crate) sessions: Vec<Token>,
    /// Topic for which unhandled frames may wait: its input has no room.
    pub(super) waits_for: Option<Token>,
    /// Whether unhandled frames wait for the client to read.
    awaits_reader: bool,
    /// Whether the client's stream has ended.
    pub(super) has_ended: bool,
    pub(super) rounds: Rounds,
    /// When the last input arrived.
    heard: Time,
}

impl Connection {
    fn new(arrival: Arrival) -> Self {
        let Arrival { stream, address, place, quota, at, .. } = arrival;
        Self {
            stream,
            address,
            place,
            unparsed: Vec::new(),
            charge: None,
            began: None,
            output: Output::default(),
            unread: Unread::default(),
            sessions: Vec::new(),
            waits_for: None,
            awaits_reader: false,
            has_ended: false,
            rounds: Rounds::new(quota, Interest::READ),
            heard: at,
        }
    }

    pub(crate) const fn account(&self) -> &Arc<Account> {
        self.place.account()
    }

    /// Since when the connection is idle; `None` if anything is pending, or if a session uses it.
    pub(crate) fn idle_since(&self) -> Option<Time> {
        let is_busy = !self.output.is_empty() || self.waits_for.is_some();
        (self.sessions.is_empty() && !is_busy).then_some(self.heard)
    }

    /// Name in the client's certificate, if it has shown one.
    pub(super) fn certified(&self) -> Option<&Arc<CertifiedName>> {
        self.place.account().identity().certified()
    }

    /// Whether frames are not read for now, so that the client's pending work stays bounded.
    pub(super) fn is_paused(&self) -> bool {
        self.waits_for.is_some() || self.output.queued_bytes() > UNREAD_MAX || self.unread.waits()
    }

    /// Whether frames were read but not handled.
    pub(super) const fn is_stalled(&self) -> bool {
        self.rounds.has_backlog || self.waits_for.is_some() || self.awaits_reader
    }

    /// Whether messages may be written for it: the socket had taken everything, and not too much was gathered since.
    pub(super) fn has_room(&self) -> bool {
        !self.rounds.interest.write && !self.unread.waits() && self.output.queued_bytes() < Budget::GATHERED.bytes
    }

    /// Charges the client for its unread output.
    pub(super) fn note_unread(&mut self, now: Time) -> Result<(), Spent> {
        self.unread.note(self.place.account(), self.output.own_bytes(), self.output.taken(), now)
    }

    /// Charges unhandled input, and notes since when the rest of a frame is pending.
    fn charge_unparsed(&mut self, now: Time) -> Result<(), Spent> {
        let unparsed = self.unparsed.len();
        self.began = if unparsed > 0 && !self.is_stalled() { self.began.or(Some(now)) } else { None };
        if unparsed == 0 && self.unparsed.capacity() > UNCHARGED {
            self.unparsed = Vec::new();
        }
        if unparsed <= UNCHARGED {
            self.charge = None;
            return Ok(());
        }
        match &mut self.charge {
            Some(charge) => charge.resize(unparsed as u64),
            None => {
                self.charge = Some(self.place.account().charge(Resource::IncompleteBytes, unparsed as u64)?);
                Ok(())
            }
        }
    }
}

impl Core {
    /// Takes a connection that a client made. Returns the number of open connections; `None` if the poll does not take it.
    pub(crate) fn let_in_tempo(&mut self, arrival: Arrival) -> Option<usize> {
        let (ip, now) = (arrival.place.account().ip(), arrival.at);
        let out = &mut self.protocols.tempo.out;
        let token = out.connections.insert(Connection::new(arrival));
        let connection = out.connections.get(token)?;
        let socket = Socket::Incoming(Tag::Tempo, token);
        if self.cx.io.poll.add(connection.stream.tcp(), socket, Interest::READ).is_err() {
            out.connections.remove(token);
            return None;
        }
        if connection.stream.has_more() {
            // Input has arrived with the end of the handshake.
            out.note_due_stream(token, &mut self.cx.io);
        }
        out.open += 1;
        let open = out.open;
        self.cx.io.occupied.arrive(Tag::Tempo, token, ip, now);
        self.cx.counters.add(Counter::TempoConnectionsAccepted, 1);
        self.protocols.tempo.note_tempo_open(&self.cx);
        Some(open)
    }

    /// Ends connections with an overdue frame.
    pub(crate) fn sweep_tempo(&mut self) {
        self.protocols.tempo.feed_starved(&mut self.cx);
        if !self.protocols.tempo.has_deadlines {
            return;
        }
        let (now, completion) = (self.cx.clock.now, self.protocols.tempo.frame_completion);
        let connections = self.protocols.tempo.out.connections.iter();
        let begun = connections.filter_map(|(token, connection)| Some((token, connection.began?)));
        let (late, partial): (Vec<_>, Vec<_>) = begun.partition(|(_, since)| *since + completion <= now);
        self.protocols.tempo.has_deadlines = !partial.is_empty();
        for (token, _) in late {
            self.cx.counters.add(Counter::IncompleteMessages, 1);
            let why = "a frame was begun and not ended within limits.message_completion_ms";
            self.protocols.tempo.distrust_stream(token, why, &mut self.cx);
        }
        if self.protocols.tempo.has_deadlines {
            self.cx.clock.plan_sweep();
        }
    }
}

impl Worker {
    /// Serves a connection when its socket is ready.
    #[inline(never)]
    pub(crate) fn serve_tempo(&mut self, token: Token, ready: Ready) {
        let Some(connection) = self.core.protocols.tempo.out.connections.get_mut(token) else { return };
        if connection.rounds.interest.read {
            if ready.readable {
                self.read_stream(token);
            }
        } else if ready.broken {
            return self.core.protocols.tempo.close_stream(token, &mut self.core.cx);
        }
        if ready.writable || ready.ended {
            self.core.protocols.tempo.out.note_due_stream(token, &mut self.core.cx.io);
        }
    }

    fn read_stream(&mut self, token: Token) {
        let mut buffer = core::mem::take(&mut self.core.protocols.tempo.read);
        buffer.clear();
        buffer.reserve(Budget::STREAM.bytes);
        if let Some(connection) = self.core.protocols.tempo.out.connections.get_mut(token) {
            connection.heard = self.core.cx.clock.now;
            match connection.stream.receive(&mut buffer) {
                Ok(0) => {
                    connection.has_ended = true;
                    self.core.protocols.tempo.out.note_due_stream(token, &mut self.core.cx.io);
                }
                Ok(_) => self.process_stream(token, &buffer),
                Err(error) if would_block(&error) || error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.core.protocols.tempo.close_stream(token, &mut self.core.cx),
            }
        }
        self.core.protocols.tempo.read = buffer;
    }

    /// Handles input that was read before.
    #[inline(never)]
    pub(crate) fn go_on_with_tempo(&mut self, token: Token) {
        if let Some(connection) = self.core.protocols.tempo.out.connections.get_mut(token) {
            connection.rounds.has_backlog = false;
            self.process_stream(token, &[]);
        }
    }

    /// Handles frames: the stored ones, and those of `input` behind them. Frames that cannot be handled now are stored.
    fn process_stream(&mut self, token: Token, input: &[u8]) {
        let Some(connection) = self.core.protocols.tempo.out.connections.get_mut(token) else { return };
        let quotas = &self.core.cx.io.quotas;
        let mut meter = connection.rounds.usage.begin(quotas.round(), quotas.budget());
        let mut unparsed = core::mem::take(&mut connection.unparsed);
        let was_unparsed = !unparsed.is_empty();
        if was_unparsed {
            unparsed.extend_from_slice(input);
        }
        let done = self.hear_stream(token, if was_unparsed { &unparsed } else { input }, &mut meter);
        let now = self.core.cx.clock.now;
        let Some(connection) = self.core.protocols.tempo.out.connections.get_mut(token) else { return };
        connection.rounds.usage.note(&meter);
        if was_unparsed {
            unparsed.drain(..done.min(unparsed.len()));
        } else {
            unparsed.extend_from_slice(input.get(done..).unwrap_or_default());
        }
        connection.unparsed = unparsed;
        if done > 0 {
            connection.began = None;
        }
        match connection.charge_unparsed(now) {
            Ok(()) => self.core.protocols.tempo.has_deadlines |= connection.began.is_some(),
            Err(spent) => {
                self.core.cx.counters.add(Counter::of_refusal(spent), 1);
                let why = "there is no room for so much that is not done with";
                return self.core.protocols.tempo.distrust_stream(token, why, &mut self.core.cx);
            }
        }
        self.core.protocols.tempo.out.note_due_stream(token, &mut self.core.cx.io);
    }

    /// Handles frames, as far as that is possible now. Returns the number of octets handled.
    fn hear_stream(&mut self, token: Token, bytes: &[u8], meter: &mut RoundMeter) -> usize {
        let mut done = 0;
        loop {
            let rest = bytes.get(done..).unwrap_or_default();
            let Some(connection) = self.core.protocols.tempo.out.connections.get_mut(token) else { return done };
            connection.awaits_reader = connection.is_paused();
            if rest.is_empty() || connection.awaits_reader {
                return done;
            }
            if meter.is_over(|| true) {
                self.core.cx.counters.add(Counter::RoundBudgetsSpent, 1);
                self.core.protocols.tempo.queue_tempo_backlog(token, &mut self.core.cx);
                return done;
            }
            meter.note_message();
            let address = connection.address;
            match Frame::read(rest) {
                Ok((frame, octets)) => {
                    let alone = octets == rest.len();
                    match self.hear(Place::Stream(token), address, &frame, Arrived { alone, by_group: false }) {
                        Heard::Done => done += octets,
                        Heard::Wait(topic) => {
                            self.core.protocols.tempo.wait_for_input(token, topic, &mut self.core.cx);
                            return done;
                        }
                    }
                }
                Err(Unreadable::Incomplete { .. }) => return done,
                Err(error @ Unreadable::Kind { octets, .. }) => {
                    self.core.protocols.tempo.count_unreadable(error, &self.core.cx);
                    done += octets;
                }
                Err(_) if done == 0 && tls::is_hello(rest) => {
                    self.core.cx.note_tls_at_plain_port(Tag::Tempo, address);
                    self.core.protocols.tempo.close_stream(token, &mut self.core.cx);
                    return done;
                }
                Err(error) => {
                    self.core.protocols.tempo.count_unreadable(error, &self.core.cx);
                    self.core.protocols.tempo.distrust_stream(token, &error.to_string(), &mut self.core.cx);
                    return done;
                }
            }
        }
    }
}

impl Protocol {
    /// Stops reading a connection until there is room in a topic's input.
    fn wait_for_input(&mut self, token: Token, topic: Token, cx: &mut Context) {
        let Protocol { out, topics, settings, starved, .. } = self;
        let (Some(connection), Some(known)) = (out.connections.get_mut(token), topics.get_mut(topic)) else { return };
        if connection.waits_for.replace(topic).is_some() {
            return;
        }
        cx.counters.add(Counter::TempoConnectionsWaited, 1);
        if known.input.has_much_room(settings.bounds) {
            // The client's quota is spent by other topics: the connection tries again before long.
            starved.push(token);
            cx.clock.plan_sweep();
        } else {
            known.input.connections.push(token);
        }
    }

    /// Has connections try again that waited because their clients' quotas were spent.
    fn feed_starved(&mut self, cx: &mut Context) {
        for token in core::mem::take(&mut self.starved) {
            if let Some(connection) = self.out.connections.get_mut(token) {
                connection.waits_for = None;
            }
            self.queue_tempo_backlog(token, cx);
        }
    }

    /// Defers a connection's unhandled input until its address has its turn.
    fn queue_tempo_backlog(&mut self, token: Token, cx: &mut Context) {
        if let Some(connection) = self.out.connections.get_mut(token) {
            cx.io.quotas.resume_later(&mut connection.rounds, Socket::Incoming(Tag::Tempo, token));
        }
    }

    /// Queues unhandled frames of a connection that was paused for its slow reader, if that reads again.
    pub(super) fn look_on_at_stream(&mut self, token: Token, cx: &mut Context) {
        let Some(connection) = self.out.connections.get_mut(token) else { return };
        if connection.awaits_reader && !connection.is_paused() {
            connection.awaits_reader = false;
            self.queue_tempo_backlog(token, cx);
        }
    }

    /// Ends a connection after bad input.
    fn distrust_stream(&mut self, token: Token, why: &str, cx: &mut Context) {
        let Some(connection) = self.out.connections.get(token) else { return };
        let address = connection.address;
        cx.counters.add(Counter::ProtocolErrors, 1);
        cx.log(log::Level::Warn, || format!("closed the connection from {address}: {why}"));
        self.close_stream(token, cx);
    }

    /// Closes a connection. The parts of its sessions are given up.
    pub(crate) fn close_stream(&mut self, token: Token, cx: &mut Context) {
        let Some(mut connection) = self.out.connections.remove(token) else { return };
        cx.io.occupied.leave(Tag::Tempo, token);
        connection.output.clear(&mut cx.io.spares);
        cx.release_written();
        for session in connection.sessions {
            self.give_up_session(session, cx);
        }
        cx.io.quotas.leave(connection.rounds.quota);
        self.out.open -= 1;
        self.note_tempo_open(cx);
        let open = self.out.open;
        let client = Named(connection.address, connection.place.account());
        cx.log_debug(|| format!("the connection from {client} is closed; {open} open for Tempo"));
    }

    /// Closes all connections, since the service ends.
    pub(crate) fn close_all_tempo(&mut self, cx: &mut Context) {
        self.say_bye(cx);
        for (_, connection) in self.out.connections.iter_mut() {
            // Output is written as far as the socket takes it.
            let _ = connection.output.flush(&mut connection.stream, &mut cx.io.spares, usize::MAX);
        }
        let all: Vec<Token> = self.out.connections.iter().map(|(token, _)| token).collect();
        for token in all {
            self.close_stream(token, cx);
        }
    }

    fn note_tempo_open(&self, cx: &Context) {
        cx.counters.set(Counter::TempoConnectionsOpen, self.out.open as u64);
    }
}
