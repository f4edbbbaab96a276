//! Probes, which go the way of messages, and what comes back at once: echoes and reports.

use tempo::presence::period_nanos;
use tempo::wire::{Frame, Header, Payload, Probe, Report, Role};

use super::Protocol;
use super::delivery::{send, shown};
use super::hearing::Heard;
use super::input::Waiting;
use super::intake::claim_room;
use super::sessions::{Is, Place, Way};
use crate::counters::Counter;
use crate::lane::io::slots::Token;
use crate::lane::run::Core;
use accounts::Resource;

/// Subscribers to which a probe is sent in one turn of its topic.
const PROBES_PER_ROUND: usize = 256;

impl Core {
    /// Handles a publisher's probe, which is queued like a message: it measures the delay of messages.
    pub(super) fn hear_probe(&mut self, place: Place, header: &Header, probe: Probe) -> Heard {
        let Some(part) = self.publisher_of(place, header) else {
            self.count_unbound(place, header);
            return Heard::Done;
        };
        if let Some(topic) = self.has_to_wait(place, part, size_of::<Waiting>()) {
            return Heard::Wait(topic);
        }
        if !self.is_in_order(part, header.sequence) {
            return Heard::Done;
        }
        let now = self.cx.clock.now.0;
        let Protocol { sessions, topics, settings, .. } = &mut self.protocols.tempo;
        let Some((known, session)) = sessions.both(part) else { return Heard::Done };
        let Some(topic) = topics.get_mut(known.topic) else { return Heard::Done };
        let (token, number, own) = (known.topic, known.number, session.number);
        let own_period = known.presence.period();
        let Is::Publisher(publisher) = &mut known.is else { return Heard::Done };
        if now < publisher.may_probe {
            self.cx.counters.add(Counter::TempoProbesRefused, 1);
            return Heard::Done;
        }
        // Whatever it says: it has proven where it is, and nowhere else are echoes to go.
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
            self.discard(part, Counter::TempoInputFull);
            return Heard::Done;
        }
        // Publishers that announce early probe early.
        publisher.may_probe = now + own_period.min(period_nanos(settings.period_ms)) / 2;
        publisher.waiting += 1;
        self.cx.counters.add(Counter::TempoProbes, 1);
        let is_early = !self.is_open(part);
        self.queue(token, waiting, is_early);
        Heard::Done
    }

    /// It is a probe's turn: it goes to the topic's subscribers, behind what waits for each; to those from a place on.
    pub(super) fn pass_probe(&mut self, (topic, part): (Token, Token), probe: &Probe, priority: i16, from: usize) {
        let subscribers = self.protocols.tempo.topics.get(topic).map_or(0, |topic| topic.subscribers.parts.len());
        let Protocol { sessions, .. } = &mut self.protocols.tempo;
        let Some((known, session)) = sessions.both(part) else { return };
        if let Some(publisher) = known.publisher().filter(|_| from == 0) {
            publisher.echoes_left = u32::try_from(subscribers).unwrap_or(u32::MAX);
        }
        let (until, way) = (from + PROBES_PER_ROUND, session.way);
        if until < subscribers {
            // The others have it in another turn of the topic.
            let rest = Waiting::probe(priority, part, *probe, until);
            session.account.take_anyway(Resource::InputBytes, rest.octets as u64);
            self.queue(topic, rest, false);
        }
        for at in from..until.min(subscribers) {
            let known = self.protocols.tempo.topics.get(topic);
            let Some(subscriber) = known.and_then(|topic| topic.subscribers.parts.get(at)).copied() else { break };
            let protocol = &self.protocols.tempo;
            let to = protocol.sessions.part(subscriber).and_then(|part| protocol.sessions.get(part.session));
            // Others of a group have its publishers' probes from themselves.
            if way == Way::Single || to.is_none_or(|to| to.way == Way::Single) {
                self.send_probe(subscriber, (*probe, priority));
            }
        }
        if until >= subscribers {
            self.finish_message(part);
        }
    }

    fn send_probe(&mut self, part: Token, (probe, priority): (Probe, i16)) {
        let Some(Is::Subscriber(subscriber)) = self.protocols.tempo.sessions.part(part).map(|part| &part.is) else {
            return;
        };
        let is_blocked = self.is_blocked(subscriber.peer);
        let Protocol { sessions, topics, out, session: own, .. } = &mut self.protocols.tempo;
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
        send(out, sessions, to, &Frame { header, payload: Payload::Probe(probe) }, &mut self.cx.io.spares);
    }

    /// Sends the probe that waited behind what had no room.
    pub(super) fn send_deferred_probe(&mut self, part: Token) {
        let subscriber = self.protocols.tempo.sessions.part_mut(part).and_then(|part| part.subscriber());
        if let Some(probe) = subscriber.and_then(|subscriber| subscriber.probe.take()) {
            self.send_probe(part, probe);
        }
    }

    /// Passes a subscriber's echo of a probe on to the publisher at once.
    pub(super) fn hear_echo(&mut self, place: Place, header: &Header, probe: Probe) {
        let Protocol { sessions, .. } = &mut self.protocols.tempo;
        if sessions.find(header.session, place).is_none() {
            return self.count_unbound(place, header);
        }
        let at_address = probe.to.and_then(|to| sessions.find(probe.prober, Place::Datagram(to)));
        let prober = at_address.or_else(|| sessions.numbered(probe.prober));
        let part = prober
            .and_then(|session| sessions.get(session))
            .and_then(|session| session.part(probe.topic, Role::Publisher));
        let Some((to, publisher)) =
            part.and_then(|part| sessions.part_mut(part)).and_then(|part| Some((part.session, part.publisher()?)))
        else {
            return self.cx.counters.add(Counter::TempoUnbound, 1);
        };
        // As many as there are subscribers that may have it.
        let Some(left) = publisher.echoes_left.checked_sub(1) else {
            return self.cx.counters.add(Counter::TempoEchoesRefused, 1);
        };
        publisher.echoes_left = left;
        self.cx.counters.add(Counter::TempoEchoes, 1);
        let echo = Probe { echoed_by: header.session, ..probe };
        let header = Header { sent: probe.sent, ..self.protocols.tempo.header(probe.topic) };
        self.send_tempo_frame(to, &Frame { header, payload: Payload::Echo(echo) });
    }

    /// A subscriber tells what has come.
    pub(super) fn hear_report(&mut self, place: Place, header: &Header, report: Report) {
        let Protocol { sessions, topics, .. } = &mut self.protocols.tempo;
        let Some(session) = sessions.find(header.session, place) else { return self.count_unbound(place, header) };
        let topic = topics.numbered(header.topic);
        let part = topic.and_then(|topic| sessions.part_on(session, topic, Role::Subscriber));
        let Some(subscriber) = part.and_then(|part| sessions.part_mut(part)).and_then(|part| part.subscriber()) else {
            return self.cx.counters.add(Counter::TempoUnbound, 1);
        };
        let is_new = subscriber.report != report;
        subscriber.report = report;
        self.cx.counters.add(Counter::TempoReports, 1);
        if is_new && let Some(topic) = topic.and_then(|topic| topics.get_mut(topic)) {
            topic.subscribers.note_change();
        }
    }
}
