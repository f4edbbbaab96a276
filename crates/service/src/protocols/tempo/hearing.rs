//! Incoming datagrams and frames: the session of each frame, its treatment, and the probes that measure the delay of messages.

use core::net::SocketAddr;

use std::sync::Arc;

use accounts::Resource;
use giop::client_name;
use tempo::presence::period_nanos;
use tempo::wire::{Frame, Header, Payload, Probe, Report, Role, Unreadable};

use super::Protocol;
use super::delivery::{send, shown};
use super::input::Waiting;
use super::intake::claim_room;
use super::sessions::{Is, Place, Way};
use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::io::system::{Interest, Ready};
use crate::lane::run::Worker;
use crate::protocols::Tag;

/// Result of handling a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The frame is done.
    Done,
    /// The input of that topic has no room. Over a connection the frame is tried again when there is some.
    Wait(Token),
}

/// Circumstances of a frame's arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrived {
    /// Whether no other input waits.
    pub(super) alone: bool,
    /// Whether it was sent to the group.
    pub(super) by_group: bool,
}

impl Worker {
    /// Handles a frame.
    pub(super) fn hear(&mut self, place: Place, address: SocketAddr, frame: &Frame<'_>, arrived: Arrived) -> Heard {
        let Frame { header, payload } = frame;
        if header.by_broker {
            self.core.protocols.tempo.note_broker(address, &mut self.core.cx);
            return Heard::Done;
        }
        match payload {
            Payload::Data(data) => return self.core.hear_data(place, header, data, arrived.alone),
            Payload::Probe(probe) => {
                return self.core.protocols.tempo.hear_probe(place, header, *probe, &mut self.core.cx);
            }
            Payload::Announcement(announcement) => {
                self.hear_announcement((place, address), header, announcement, arrived.by_group);
            }
            Payload::Echo(probe) => self.core.protocols.tempo.hear_echo(place, header, *probe, &mut self.core.cx),
            Payload::Report(report) => self.core.protocols.tempo.hear_report(place, header, *report, &mut self.core.cx),
            Payload::Name(name) => self.core.protocols.tempo.hear_name(place, header, name, &mut self.core.cx),
            Payload::Bye(role) => self.core.protocols.tempo.hear_bye(place, header, *role, &mut self.core.cx),
        }
        Heard::Done
    }

    /// Reads the datagrams that have arrived.
    #[inline(never)]
    pub(crate) fn serve_tempo_datagrams(&mut self, ready: Ready) {
        if ready.writable {
            self.core.protocols.tempo.note_tempo_room(&mut self.core.cx);
        }
        if !ready.readable {
            return;
        }
        self.read_datagrams(false);
    }

    /// Reads the datagrams that were sent to the group.
    #[cold]
    pub(crate) fn serve_tempo_group(&mut self) {
        self.read_datagrams(true);
    }

    fn read_datagrams(&mut self, by_group: bool) {
        let mut received = core::mem::take(&mut self.core.protocols.tempo.received);
        let mut all = 0;
        while all < u64::from(Budget::DATAGRAMS.events) {
            let protocol = &self.core.protocols.tempo;
            let Some(socket) = (if by_group { &protocol.group } else { &protocol.out.socket }) else { break };
            let Ok(more) = socket.receive(&mut received) else { break };
            // If nothing else has arrived, and nothing waits, a message need not wait either.
            let is_single = all == 0 && !more && received.is_single();
            let mut count = 0;
            for (from, datagram) in received.iter() {
                count += 1;
                self.hear_datagram(from, datagram, Arrived { alone: is_single, by_group });
            }
            self.core.cx.counters.add(Counter::TempoDatagramsIn, count);
            all += count;
            if !more {
                break;
            }
        }
        self.core.protocols.tempo.received = received;
    }

    fn hear_datagram(&mut self, from: SocketAddr, mut rest: &[u8], arrived: Arrived) {
        while !rest.is_empty() {
            match Frame::read(rest) {
                Ok((frame, octets)) => {
                    rest = rest.get(octets..).unwrap_or_default();
                    let arrived = Arrived { alone: arrived.alone && rest.is_empty(), ..arrived };
                    self.hear(Place::Datagram(from), from, &frame, arrived);
                }
                Err(error) => {
                    self.core.protocols.tempo.count_unreadable(error, &self.core.cx);
                    rest = error.octets().and_then(|octets| rest.get(octets..)).unwrap_or_default();
                }
            }
        }
        self.core.protocols.tempo.send_answers(from, &mut self.core.cx);
    }
}

impl Protocol {
    /// The publisher's part for a number that it has announced from there.
    pub(super) fn sender(&mut self, place: Place, header: &Header, cx: &Context) -> Option<Token> {
        let session = self.sessions.find(header.session, place).and_then(|session| self.sessions.get(session));
        let part = session.and_then(|session| session.part(header.topic, Role::Publisher));
        match part.and_then(|part| self.sessions.part_mut(part)) {
            // There announcements wait behind what it sends.
            Some(known) if matches!(place, Place::Stream(_)) => known.presence.touch(cx.clock.now.0),
            Some(_) => {}
            None => self.count_unbound(place, header, cx),
        }
        part
    }

    /// Counts an unreadable frame.
    pub(super) fn count_unreadable(&self, why: Unreadable, cx: &Context) {
        let counter = match why {
            Unreadable::Version(_) => Counter::TempoVersions,
            Unreadable::Kind { .. } => Counter::TempoUnknownKinds,
            _ => Counter::TempoMalformed,
        };
        cx.counters.add(counter, 1);
    }

    /// Notes a frame of another broker: the two are connected by mistake.
    #[cold]
    fn note_broker(&mut self, address: SocketAddr, cx: &mut Context) {
        cx.counters.add(Counter::TempoByBrokers, 1);
        if !core::mem::replace(&mut self.said.of_brokers, true) {
            cx.log(log::Level::Warn, || {
                format!(
                    "another broker at {address} sends to this one; what brokers send is not taken from here on either"
                )
            });
        }
    }

    /// Counts a frame about a topic that no proven end point has announced.
    #[cold]
    pub(super) fn count_unbound(&self, place: Place, header: &Header, cx: &Context) {
        let is_known = self.sessions.find(header.session, place).is_some();
        cx.counters.add(if is_known { Counter::TempoUnbound } else { Counter::TempoUnproven }, 1);
    }

    /// Handles the name of a session's end point. If it is refused, the end point goes on without.
    fn hear_name(&self, place: Place, header: &Header, name: &str, cx: &mut Context) {
        let session = self.sessions.find(header.session, place).and_then(|session| self.sessions.get(session));
        match session.map(|session| Arc::clone(&session.account)) {
            Some(account) => _ = cx.name_client(&account, client_name::check(name).map(|()| name)),
            None => self.count_unbound(place, header, cx),
        }
    }

    /// Handles the bye of an end point for a role.
    fn hear_bye(&mut self, place: Place, header: &Header, role: Role, cx: &mut Context) {
        let session = self.sessions.find(header.session, place).and_then(|session| self.sessions.get(session));
        match session.and_then(|session| session.part(header.topic, role)) {
            Some(part) => self.give_up_part(part, cx),
            None => self.count_unbound(place, header, cx),
        }
    }

    /// Notes that the socket has room again.
    fn note_tempo_room(&mut self, cx: &mut Context) {
        if core::mem::take(&mut self.out.is_full) {
            self.watch_tempo_socket(Interest::READ, cx);
        }
    }

    /// Notes that the socket is full.
    pub(super) fn note_tempo_full(&mut self, cx: &mut Context) {
        if !core::mem::replace(&mut self.out.is_full, true) {
            self.watch_tempo_socket(Interest { write: true, ..Interest::READ }, cx);
        }
    }

    fn watch_tempo_socket(&self, interest: Interest, cx: &Context) {
        if let Some(socket) = &self.out.socket {
            // The poll watches the socket already, so the change needs no resources.
            let _ = cx.io.poll.change(socket, Socket::Datagrams(Tag::Tempo), interest);
        }
    }

    /// Handles a publisher's probe, which is queued like a message: it measures the delay of messages.
    pub(super) fn hear_probe(&mut self, place: Place, header: &Header, probe: Probe, cx: &mut Context) -> Heard {
        let Some(part) = self.sender(place, header, cx) else { return Heard::Done };
        if let Some(topic) = self.has_to_wait(place, part, size_of::<Waiting>(), cx) {
            return Heard::Wait(topic);
        }
        if !self.is_in_order(part, header.sequence, cx) {
            return Heard::Done;
        }
        let now = cx.clock.now.0;
        let Protocol { sessions, topics, settings, .. } = self;
        let Some((known, session)) = sessions.both(part) else { return Heard::Done };
        let Some(topic) = topics.get_mut(known.topic) else { return Heard::Done };
        let (token, number, own) = (known.topic, known.number, session.number);
        let own_period = known.presence.period();
        let Is::Publisher(publisher) = &mut known.is else { return Heard::Done };
        if now < publisher.may_probe {
            cx.counters.add(Counter::TempoProbesRefused, 1);
            return Heard::Done;
        }
        // The session has proven its own address: echoes go there, whatever the probe says.
        let to = match session.place {
            Place::Datagram(address) => Some(shown(address)),
            Place::Stream(_) => None,
        };
        let probe = Probe { prober: own, topic: number, to, hops: 1, echoed_by: 0, ..probe };
        let waiting = Waiting::probe(header.priority, part, probe, 0);
        let takes = waiting.octets;
        if !topic.input.has_room(&publisher.queued, takes, settings.bounds)
            || claim_room(&session.account, takes).is_err()
        {
            cx.counters.add(Counter::TempoInputFull, 1);
            return Heard::Done;
        }
        // Publishers that announce early probe early.
        publisher.may_probe = now + own_period.min(period_nanos(settings.period_ms)) / 2;
        publisher.waiting += 1;
        cx.counters.add(Counter::TempoProbes, 1);
        let is_early = !self.is_open(part);
        self.queue(token, waiting, is_early, cx);
        Heard::Done
    }

    /// Sends a probe, in its turn, to the topic's subscribers from place `from` on, behind the messages that wait for each.
    pub(super) fn pass_probe(
        &mut self,
        (topic, part): (Token, Token),
        probe: &Probe,
        priority: i16,
        from: usize,
        cx: &mut Context,
    ) {
        let subscribers = self.topics.get(topic).map_or(0, |topic| topic.subscribers.parts.len());
        let Protocol { sessions, .. } = self;
        let Some((known, session)) = sessions.both(part) else { return };
        if let Some(publisher) = known.publisher().filter(|_| from == 0) {
            publisher.echoes_left = u32::try_from(subscribers).unwrap_or(u32::MAX);
        }
        let (until, way) = (from + Budget::MESSAGES.events as usize, session.way);
        if until < subscribers {
            // The others have it in another turn of the topic.
            let rest = Waiting::probe(priority, part, *probe, until);
            session.account.take_anyway(Resource::InputBytes, rest.octets as u64);
            self.queue(topic, rest, false, cx);
        }
        for at in from..until.min(subscribers) {
            let known = self.topics.get(topic);
            let Some(subscriber) = known.and_then(|topic| topic.subscribers.parts.get(at)).copied() else { break };
            let to = self.sessions.part(subscriber).and_then(|part| self.sessions.get(part.session));
            // Other members of a group have their publishers' probes directly.
            if way == Way::Single || to.is_none_or(|to| to.way == Way::Single) {
                self.send_probe(subscriber, (*probe, priority), cx);
            }
        }
        if until >= subscribers {
            self.finish_message(part, cx);
        }
    }

    fn send_probe(&mut self, part: Token, (probe, priority): (Probe, i16), cx: &mut Context) {
        let Some(Is::Subscriber(subscriber)) = self.sessions.part(part).map(|part| &part.is) else {
            return;
        };
        let is_blocked = self.is_blocked(subscriber.peer);
        let Protocol { sessions, topics, out, session: own, .. } = self;
        let Some(known) = sessions.part_mut(part) else { return };
        let (to, topic) = (known.session, topics.get(known.topic).map_or(0, |topic| topic.number));
        let Some(subscriber) = known.subscriber() else { return };
        if is_blocked {
            subscriber.probe = Some((probe, priority));
            return;
        }
        subscriber.sequence = subscriber.sequence.wrapping_add(1);
        let header =
            Header { session: *own, topic, sequence: subscriber.sequence, sent: probe.sent, priority, by_broker: true };
        send(out, sessions, to, &Frame { header, payload: Payload::Probe(probe) }, &mut cx.io);
    }

    /// Sends the probe that waited behind messages without room.
    pub(super) fn send_deferred_probe(&mut self, part: Token, cx: &mut Context) {
        let subscriber = self.sessions.part_mut(part).and_then(|part| part.subscriber());
        if let Some(probe) = subscriber.and_then(|subscriber| subscriber.probe.take()) {
            self.send_probe(part, probe, cx);
        }
    }

    /// Passes a subscriber's echo of a probe on to the publisher at once.
    pub(super) fn hear_echo(&mut self, place: Place, header: &Header, probe: Probe, cx: &mut Context) {
        let Protocol { sessions, .. } = self;
        if sessions.find(header.session, place).is_none() {
            return self.count_unbound(place, header, cx);
        }
        let at_address = probe.to.and_then(|to| sessions.find(probe.prober, Place::Datagram(to)));
        let prober = at_address.or_else(|| sessions.numbered(probe.prober));
        let part = prober
            .and_then(|session| sessions.get(session))
            .and_then(|session| session.part(probe.topic, Role::Publisher));
        let Some((to, publisher)) =
            part.and_then(|part| sessions.part_mut(part)).and_then(|part| Some((part.session, part.publisher()?)))
        else {
            return cx.counters.add(Counter::TempoUnbound, 1);
        };
        // There are as many echoes as subscribers that may get the probe.
        let Some(left) = publisher.echoes_left.checked_sub(1) else {
            return cx.counters.add(Counter::TempoEchoesRefused, 1);
        };
        publisher.echoes_left = left;
        cx.counters.add(Counter::TempoEchoes, 1);
        let echo = Probe { echoed_by: header.session, ..probe };
        let header = Header { sent: probe.sent, ..self.header(probe.topic) };
        self.send_tempo_frame(to, &Frame { header, payload: Payload::Echo(echo) }, cx);
    }

    /// Handles a subscriber's report of what it has received.
    pub(super) fn hear_report(&mut self, place: Place, header: &Header, report: Report, cx: &mut Context) {
        let Protocol { sessions, topics, .. } = self;
        let Some(session) = sessions.find(header.session, place) else { return self.count_unbound(place, header, cx) };
        let topic = topics.numbered(header.topic);
        let part = topic.and_then(|topic| sessions.part_on(session, topic, Role::Subscriber));
        let Some(subscriber) = part.and_then(|part| sessions.part_mut(part)).and_then(|part| part.subscriber()) else {
            return cx.counters.add(Counter::TempoUnbound, 1);
        };
        let is_new = subscriber.report != report;
        subscriber.report = report;
        cx.counters.add(Counter::TempoReports, 1);
        if is_new && let Some(topic) = topic.and_then(|topic| topics.get_mut(topic)) {
            topic.subscribers.note_change();
        }
    }
}
