//! Delivery of messages to subscribers, and all other output.
//!
//! Frames for one address are gathered into datagrams.
//!
//! Frames lie back to back in a datagram as long as there is room. Datagrams of one size, of which the last may be shorter, are a *run*:
//! one system call sends it.

use core::net::SocketAddr;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use engine::{Delivery, Event, Outcome, Peer};
use tempo::wire::{DATAGRAM, Data, Fragment, Frame, HEADER, Header, PAYLOAD_MAX, Payload};

use super::Protocol;
use super::form::{self, Message};
use super::sessions::{Is, Place, Purpose, Session, Sessions, Way};
use super::streams::Connection;
use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::io::Io;
use crate::lane::io::net::Datagrams;
use crate::lane::io::output::{Spares, would_block};
use crate::lane::io::slots::{Slots, Token};
use crate::lane::io::socket::Socket;
use crate::protocols::Tag;

/// Octets gathered for one session in datagrams that are sent before the end of the round.
const GATHERED_BYTES_SENT: usize = 60 << 10;
/// Octets in front of a fragment's data.
const FRAGMENT: usize = 8;

/// Output to all sessions.
#[derive(Default)]
pub(crate) struct Out {
    /// Socket for datagrams, if clients are let in by them.
    pub(crate) socket: Option<Datagrams>,
    /// Whether the socket is full.
    pub(super) is_full: bool,
    pub(crate) connections: Slots<Connection>,
    /// Number of open connections.
    pub(super) open: usize,
    /// Sessions with datagrams to send when the round ends.
    pub(super) due: VecDeque<Token>,
}

impl Out {
    /// Queues a connection to be written to, or looked at, when the round ends.
    pub(super) fn note_due_stream(&mut self, connection: Token, io: &mut Io) {
        if let Some(known) = self.connections.get_mut(connection) {
            io.quotas.write_later(&mut known.rounds, Socket::Incoming(Tag::Tempo, connection));
        }
    }

    /// Queues a session to be sent to when the round ends. If it waits for room on the socket, it resumes when there is some.
    pub(super) fn note_due(&mut self, token: Token, session: &mut Session) {
        if matches!(session.place, Place::Datagram(_)) && !core::mem::replace(&mut session.is_due, true) {
            self.due.push_back(token);
        }
    }

    /// Whether input of a session is known to wait unread.
    pub(super) fn is_unread(&self, session: &Session) -> bool {
        let Place::Stream(connection) = session.place else { return false };
        self.connections.get(connection).is_some_and(|connection| connection.is_stalled() || connection.is_paused())
    }

    /// Whether messages may be written for a session.
    pub(super) fn has_room(&self, session: &Session) -> bool {
        match session.place {
            Place::Datagram(_) => {
                !self.is_full && session.packets.octets() < Budget::GATHERED.bytes && !session.unread.waits()
            }
            Place::Stream(connection) => self.connections.get(connection).is_some_and(Connection::has_room),
        }
    }
}

/// Gathers a frame for a session. False if it does not fit into a datagram.
pub(super) fn send(out: &mut Out, sessions: &mut Sessions, to: Token, frame: &Frame<'_>, io: &mut Io) -> bool {
    let Some(session) = sessions.get_mut(to) else { return false };
    match session.place {
        Place::Datagram(_) => {
            let at_once = out.socket.as_ref().map_or(1, Datagrams::at_once);
            if !session.packets.push(frame, at_once, &mut io.spares) {
                return false;
            }
            out.note_due(to, session);
            true
        }
        Place::Stream(connection) => {
            let Some(known) = out.connections.get_mut(connection) else { return false };
            known.output.lend(&mut io.spares);
            let bytes = known.output.bytes();
            let begin = bytes.len();
            bytes.resize(begin + frame.octets(), 0);
            if frame.write(bytes.get_mut(begin..).unwrap_or_default()).is_none() {
                bytes.truncate(begin);
                return false;
            }
            out.note_due_stream(connection, io);
            true
        }
    }
}

impl Protocol {
    /// Gathers a frame for a session, as [`send`] does.
    pub(super) fn send_tempo_frame(&mut self, to: Token, frame: &Frame<'_>, cx: &mut Context) -> bool {
        let Protocol { out, sessions, .. } = self;
        send(out, sessions, to, frame, &mut cx.io)
    }

    /// Sends an event to its subscriber, and empties the list.
    #[inline(never)]
    pub(crate) fn send_tempo(&mut self, delivery: &Delivery, events: &mut Vec<Arc<Event>>, cx: &mut Context) {
        let outcome = self.write_tempo(delivery, events, cx);
        cx.release_events(events);
        cx.lane.handle_outcome(delivery.outbox, delivery.serial, outcome, cx.clock.now);
    }

    fn write_tempo(&mut self, delivery: &Delivery, events: &[Arc<Event>], cx: &mut Context) -> Outcome {
        let Protocol { proxies, sessions, out, session: own, topics, grouped, .. } = self;
        let Some((peer, proxy)) = delivery.peer.and_then(|peer| Some((peer, proxies.get_mut(&peer)?))) else {
            return Outcome::Gone;
        };
        let Purpose::Consumer(token) = proxy.purpose else { return Outcome::Gone };
        let Some((part, session)) = sessions.both(token) else { return Outcome::Gone };
        let is_open = proxy.key.is_some();
        if session.way == Way::Group && events.first().is_some_and(|event| grouped.contains(&event.source)) {
            // The subscriber has the message from its publisher.
            return Outcome::Sent;
        }
        if !is_open || !out.has_room(session) {
            if is_open && proxy.blocked.is_none() {
                session.blocked.push(peer);
                #[cfg(test)]
                let is_notified =
                    session.is_due || !crate::simulation::goes_wrong(crate::simulation::Break::ForgottenRoom);
                #[cfg(not(test))]
                let is_notified = true;
                if is_notified {
                    out.note_due(part.session, session);
                }
            }
            proxy.blocked = Some(delivery.outbox);
            return Outcome::NoRoom;
        }
        let Some(event) = events.first() else { return Outcome::Untranslatable };
        let Some(Message { sent, priority, content, octets }) = form::message_of(event) else {
            return Outcome::Untranslatable;
        };
        // For an event that no publisher of Tempo has sent, its arrival counts.
        let sent = if sent == 0 { event.arrived.0 } else { sent };
        let takes = part.presence.announced().largest as usize;
        let (to, Is::Subscriber(subscriber)) = (part.session, &mut part.is) else { return Outcome::Gone };
        if takes > 0 && octets.len() > takes {
            return Outcome::Untranslatable;
        }
        subscriber.sequence = subscriber.sequence.wrapping_add(1);
        let has_probe = subscriber.probe.is_some();
        let topic = topics.get(part.topic).map_or(0, |topic| topic.number);
        let header = Header { session: *own, topic, sequence: subscriber.sequence, sent, priority, by_broker: true };
        let most = match session.place {
            Place::Datagram(_) => DATAGRAM - HEADER,
            Place::Stream(_) => PAYLOAD_MAX,
        };
        let io = &mut cx.io;
        if octets.len() <= most {
            let data = Data { fragment: None, content, octets };
            send(out, sessions, to, &Frame { header, payload: Payload::Data(data) }, io);
        } else {
            let size = most - FRAGMENT;
            let total = u32::try_from(octets.len()).unwrap_or(u32::MAX);
            for (chunk, number) in octets.chunks(size).zip(0..) {
                let at = u32::try_from(number * size).unwrap_or(u32::MAX);
                let data = Data { fragment: Some(Fragment { total, at }), content, octets: chunk };
                send(out, sessions, to, &Frame { header, payload: Payload::Data(data) }, io);
            }
        }
        cx.counters.add(Counter::PushesSent, 1);
        if has_probe {
            self.send_deferred_probe(token, cx);
        }
        let sessions = &self.sessions;
        let is_much = sessions.get(to).is_some_and(|session| session.packets.octets() >= GATHERED_BYTES_SENT);
        if is_much {
            self.send_packets(to, cx);
        }
        Outcome::Sent
    }

    /// Sends the datagrams that are due, as far as the socket takes them. Those to an address that has used up its budget, and was written
    /// to in this round, stay due.
    pub(crate) fn flush_tempo(&mut self, cx: &mut Context) {
        for _ in 0..self.out.due.len() {
            let Protocol { out, sessions, .. } = self;
            if out.is_full {
                break;
            }
            let Some(token) = out.due.pop_front() else { break };
            let Some(session) = sessions.get_mut(token) else { continue };
            let quota = session.quota;
            if !cx.io.quotas.binds() {
                session.is_due = false;
                self.send_packets(token, cx);
            } else if cx.io.quotas.may_write(quota) {
                session.is_due = false;
                let began = cx.clock.time();
                self.send_packets(token, cx);
                cx.io.quotas.charge(quota, cx.clock.time().since(began));
            } else {
                out.due.push_back(token);
            }
        }
    }

    /// Sends the gathered datagrams of a session.
    pub(super) fn send_packets(&mut self, token: Token, cx: &mut Context) {
        let Protocol { out, sessions, .. } = self;
        let Some(session) = sessions.get_mut(token) else { return };
        let (Place::Datagram(to), Some(socket)) = (session.place, &out.socket) else { return };
        let (sent, counts) = session.packets.send(socket, to, &mut cx.io.spares);
        let (octets, datagrams) = (session.packets.octets(), session.packets.sent());
        let unread = session.unread.note(&session.account, octets, datagrams, cx.clock.now);
        cx.counters.add(Counter::TempoDatagramsOut, counts.datagrams);
        cx.counters.add(Counter::TempoSendsFailed, counts.failed);
        cx.count_unread(unread);
        match sent {
            Sent::Full => {
                self.note_due(token);
                self.note_tempo_full(cx);
            }
            Sent::All => self.unblock_tempo(token, cx),
        }
    }

    /// Writes output of a connection, resumes reading it, and updates its interest in the poll.
    pub(crate) fn flush_stream(&mut self, token: Token, cx: &mut Context) {
        let Some(connection) = self.out.connections.get_mut(token) else { return };
        connection.rounds.is_due = false;
        let flushed = connection.output.flush(&mut connection.stream, &mut cx.io.spares, Budget::STREAM.bytes);
        let Ok(flushed) = flushed else { return self.close_stream(token, cx) };
        let unread = connection.note_unread(cx.clock.now);
        cx.count_unread(unread);
        self.look_on_at_stream(token, cx);
        let Some(connection) = self.out.connections.get_mut(token) else { return };
        if connection.has_ended && !connection.is_stalled() {
            return self.close_stream(token, cx);
        }
        let read = !connection.is_paused() && !connection.has_ended && !connection.is_stalled();
        let Connection { stream, rounds, .. } = connection;
        if !cx.io.watch((Socket::Incoming(Tag::Tempo, token), stream, rounds), flushed, (read, false)) {
            return self.close_stream(token, cx);
        }
        let sessions = self.out.connections.get(token).map_or(0, |connection| connection.sessions.len());
        for at in 0..sessions {
            let connection = self.out.connections.get(token);
            if let Some(session) = connection.and_then(|connection| connection.sessions.get(at)).copied() {
                self.unblock_tempo(session, cx);
            }
        }
    }

    /// Resumes outboxes that waited for room for a session.
    fn unblock_tempo(&mut self, token: Token, cx: &mut Context) {
        let Protocol { sessions, out, proxies, .. } = self;
        let Some(session) = sessions.get_mut(token).filter(|session| out.has_room(session)) else { return };
        if session.blocked.is_empty() {
            return;
        }
        let mut blocked = core::mem::take(&mut session.blocked);
        for peer in blocked.drain(..) {
            let Some(proxy) = proxies.get_mut(&peer) else { continue };
            if let Some(outbox) = proxy.blocked.take() {
                cx.lane.resume_outbox(outbox, cx.clock.now);
                cx.deliveries.undelivered = true;
            }
        }
        if let Some(session) = sessions.get_mut(token) {
            session.blocked = blocked;
        }
    }

    /// Whether messages for a subscriber wait for room, so that a probe has to go behind them.
    pub(super) fn is_blocked(&self, peer: Peer) -> bool {
        self.proxies.get(&peer).is_none_or(|proxy| proxy.key.is_none() || proxy.blocked.is_some())
    }
}

/// An address as shown in log lines and names.
pub(super) fn shown(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Maximum octets sent by one system call.
const RUN_BYTES: usize = 60_000;

/// Datagrams that wait to be sent to one address.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    buffer: Vec<u8>,
    /// Octets at the buffer's beginning that are sent.
    from: usize,
    runs: VecDeque<Run>,
    /// Datagrams sent since the beginning.
    sent: u64,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    octets: usize,
    /// Octets of each datagram but the last.
    size: usize,
    datagrams: usize,
    /// Octets of the last datagram.
    last: usize,
}

/// Result of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Everything is sent.
    All,
    /// The socket has no room.
    Full,
}

/// Numbers of datagrams and octets sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SendCounts {
    pub(crate) datagrams: u64,
    pub(crate) failed: u64,
}

impl Packets {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Octets that wait.
    pub(crate) fn octets(&self) -> usize {
        self.buffer.len() - self.from
    }

    /// Number of datagrams sent.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Adds a frame; `at_once` is the maximum of datagrams in one run. False if it is too large for a datagram.
    pub(crate) fn push(&mut self, frame: &Frame<'_>, at_once: usize, spares: &mut Spares) -> bool {
        let octets = frame.octets();
        if octets > DATAGRAM {
            return false;
        }
        if self.buffer.capacity() == 0 {
            self.buffer = spares.take();
        }
        let begin = self.buffer.len();
        self.buffer.resize(begin + octets, 0);
        let place = self.buffer.get_mut(begin..).unwrap_or_default();
        if frame.write(place).is_none() {
            self.buffer.truncate(begin);
            return false;
        }
        self.note(octets, at_once);
        true
    }

    fn note(&mut self, octets: usize, at_once: usize) {
        if let Some(run) = self.runs.back_mut() {
            let room = if run.datagrams == 1 { DATAGRAM } else { run.size };
            if run.last + octets <= room {
                run.last += octets;
                run.octets += octets;
                if run.datagrams == 1 {
                    run.size = run.last;
                }
                return;
            }
            if run.last == run.size && octets <= run.size && run.datagrams < at_once && run.octets + octets <= RUN_BYTES
            {
                run.datagrams += 1;
                run.octets += octets;
                run.last = octets;
                return;
            }
        }
        self.runs.push_back(Run { octets, size: octets, datagrams: 1, last: octets });
    }

    /// Sends waiting datagrams, as far as the socket has room.
    pub(crate) fn send(&mut self, socket: &Datagrams, to: SocketAddr, spares: &mut Spares) -> (Sent, SendCounts) {
        let mut counts = SendCounts::default();
        while let Some(run) = self.runs.front() {
            let octets = self.buffer.get(self.from..self.from + run.octets).unwrap_or_default();
            match socket.send(to, octets, run.size) {
                Ok(()) => counts.datagrams += run.datagrams as u64,
                Err(error) if would_block(&error) => return (Sent::Full, counts),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The datagrams count as lost in the network.
                Err(_) => counts.failed += run.datagrams as u64,
            }
            self.from += run.octets;
            self.sent += run.datagrams as u64;
            self.runs.pop_front();
        }
        self.clear(spares);
        (Sent::All, counts)
    }

    /// Drops the waiting datagrams.
    pub(crate) fn clear(&mut self, spares: &mut Spares) {
        self.runs.clear();
        self.from = 0;
        spares.keep(core::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempo::wire::{Content, Data, Header, Payload};

    fn push(packets: &mut Packets, octets: usize) {
        let header = Header { session: 1, topic: 2, sequence: 3, sent: 4, priority: 0, by_broker: true };
        let data = Data { fragment: None, content: Content::Octets, octets: &vec![7; octets] };
        assert!(packets.push(&Frame { header, payload: Payload::Data(data) }, 8, &mut Spares::default()));
    }

    /// Sizes of the datagrams of each run.
    fn runs(packets: &Packets) -> Vec<Vec<usize>> {
        let of = |run: &Run| (1..run.datagrams).map(|_| run.size).chain([run.last]).collect();
        packets.runs.iter().map(of).collect()
    }

    #[test]
    fn small_frames_share_a_datagram_and_datagrams_of_one_size_a_run() {
        let mut packets = Packets::default();
        (0..40).for_each(|_| push(&mut packets, 64));
        // Fifteen of 96 octets each.
        assert_eq!(runs(&packets), [[1_440, 1_440, 960]]);
        push(&mut packets, 1_400);
        assert_eq!(runs(&packets), [vec![1_440, 1_440, 960], vec![1_432]]);
        (0..9).for_each(|_| push(&mut packets, 1_400));
        assert_eq!(runs(&packets)[1..], [vec![1_432; 8], vec![1_432; 2]], "as many as can be sent at once");
        push(&mut packets, 1_440);
        assert_eq!(runs(&packets).len(), 4, "a larger one begins anew");
        assert_eq!(packets.octets(), 40 * 96 + 10 * 1_432 + 1_472);
    }

    #[test]
    fn what_is_too_large_for_a_datagram_is_not_taken() {
        let mut packets = Packets::default();
        let header = Header { session: 1, topic: 2, sequence: 3, sent: 4, priority: 0, by_broker: true };
        let data = Data { fragment: None, content: Content::Octets, octets: &[7; DATAGRAM] };
        assert!(!packets.push(&Frame { header, payload: Payload::Data(data) }, 8, &mut Spares::default()));
        assert!(packets.is_empty() && packets.octets() == 0);
    }
}
