//! Processing of received octets.

use super::peers::{Due, Entry, Heard, Kind, Listener};
use super::reports::{Gone, Message, Notice, Place, Receive};
use super::{Endpoint, Name, Reply};
use crate::Nanos;
use crate::presence::{Announced, Presence};
use crate::reassembly::{FragmentResult, Unfit};
use crate::sequence::Arrival;
use crate::wire::{Announcement, Data, Fragment, Frame, Header, Payload, Probe, Report, Role, Unreadable};

/// Times that a broker is sent our name for each topic, since datagrams are lost.
const NAMES: u8 = 3;

/// Result of processing received octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handled {
    /// Octets read: of a datagram all. The rest of a connection's input is an incomplete frame, which the caller passes again with the
    /// input behind it.
    pub consumed: usize,
    /// The reason to close the connection, if it is to be closed.
    pub close: Option<Unreadable>,
}

impl<const TOPICS: usize, const PEERS: usize, const BLOCKS: usize, const MESSAGE: usize, const UNFINISHED: usize>
    Endpoint<TOPICS, PEERS, BLOCKS, MESSAGE, UNFINISHED>
{
    /// Processes a datagram, or the input of a connection so far.
    pub fn handle(&mut self, now: Nanos, from: Place, bytes: &[u8], to: &mut impl Receive) -> Handled {
        let is_stream = matches!(from, Place::Stream(_));
        let mut consumed = 0;
        while let Some(rest) = bytes.get(consumed..).filter(|rest| !rest.is_empty()) {
            match Frame::read(rest) {
                Ok((frame, octets)) => {
                    consumed += octets;
                    self.frame(now, from, &frame, to);
                }
                Err(Unreadable::Incomplete { .. }) if is_stream => break,
                Err(why) => {
                    let may_go_on = !is_stream || matches!(why, Unreadable::Kind { .. });
                    match why.octets().filter(|_| may_go_on) {
                        Some(octets) => {
                            self.counters.unknown_frames += 1;
                            consumed += octets;
                        }
                        None => return self.unreadable(why, is_stream, consumed, bytes.len()),
                    }
                }
            }
        }
        Handled { consumed, close: None }
    }

    fn unreadable(&mut self, why: Unreadable, is_stream: bool, consumed: usize, all: usize) -> Handled {
        if matches!(why, Unreadable::Version(_)) {
            self.counters.other_versions += 1;
        } else {
            self.counters.unreadable += 1;
        }
        if is_stream { Handled { consumed, close: Some(why) } } else { Handled { consumed: all, close: None } }
    }

    fn frame(&mut self, now: Nanos, from: Place, frame: &Frame<'_>, to: &mut impl Receive) {
        let Frame { header, payload } = frame;
        if header.session == self.settings.session {
            self.counters.own_frames += 1;
            return;
        }
        match payload {
            Payload::Announcement(announcement) => self.announced(now, from, header, announcement, to),
            Payload::Data(data) => self.data(now, from, header, data, to),
            Payload::Probe(probe) => self.probe(now, from, header, probe, to),
            Payload::Echo(probe) => self.echo(now, header, probe),
            Payload::Report(report) => self.report(from, header, report),
            Payload::Bye(role) => self.bye(from, header, *role, to),
            // Brokers keep it.
            Payload::Name(_) => {}
        }
    }

    // ---- announcements ----

    fn announced(
        &mut self,
        now: Nanos,
        from: Place,
        header: &Header,
        announcement: &Announcement<'_>,
        to: &mut impl Receive,
    ) {
        let topic = self.topics.find(announcement.name, announcement.role.counterpart());
        self.give_up_rebound(from, header, announcement.name, to);
        let Some(topic) = topic else {
            self.counters.other_topics += 1;
            return;
        };
        let has_proven = match from {
            Place::Stream(_) => true,
            Place::Datagram(address) => self.cookies.is_ours(announcement.returned, address, header.session),
        };
        let announced = Announced::from(announcement);
        match (self.peers.find(topic, header.session), has_proven) {
            (Some(at), true) => self.renewed(now, at, from, header, (announced, announcement.given), to),
            (None, true) => self.met(now, topic, from, header, (announced, announcement.given), to),
            (Some(at), false) if announcement.given == 0 && self.is_bound(at, from, header.topic) => {
                // To a group, or to a peer that the sender does not know yet: nothing is proven anew, and nothing is asked.
                self.renew(now, at, announced, to);
            }
            (_, false) => {
                self.counters.unproven += 1;
                self.answer(topic, from, header.session, announcement.given);
            }
        }
    }

    fn is_bound(&self, at: usize, place: Place, number: u32) -> bool {
        self.peers.get(at).is_some_and(|peer| peer.place == place && peer.number == number)
    }

    fn answer(&mut self, topic: usize, to: Place, session: u32, returned: u64) {
        let Some(number) = self.topics.get(topic).map(|topic| topic.number) else { return };
        let returned = if matches!(to, Place::Stream(_)) { 0 } else { returned };
        self.reply(Reply::Announcement { topic, number, to, session, returned });
    }

    /// Forgets the former topic of a session that binds its number to another name.
    fn give_up_rebound(&mut self, from: Place, header: &Header, name: &str, to: &mut impl Receive) {
        let is_it = |peer: &Entry| peer.session == header.session && peer.number == header.topic && peer.place == from;
        let mut next = 0;
        while let Some(at) = self.peers.next(next, is_it) {
            next = at + 1;
            let bound = self.peers.get(at).and_then(|peer| self.topics.get(peer.topic));
            if bound.is_some_and(|topic| topic.name() != name) {
                self.forget(at, Gone::Rebound, to);
            }
        }
    }

    /// Handles a known peer that returned a valid cookie.
    fn renewed(
        &mut self,
        now: Nanos,
        at: usize,
        from: Place,
        header: &Header,
        (announced, given): (Announced, u64),
        to: &mut impl Receive,
    ) {
        let Some(peer) = self.peers.get_mut(at) else { return };
        let has_moved = peer.place != from;
        if has_moved && now.saturating_sub(peer.presence.heard()) < peer.presence.period() {
            // It is heard where it was: another may have taken its session.
            self.counters.moves_refused += 1;
            return;
        }
        peer.place = from;
        peer.is_broker = header.by_broker;
        if given != 0 || has_moved {
            peer.cookie = given;
        }
        let topic = peer.topic;
        if peer.number != header.topic {
            peer.number = header.topic;
            if let Kind::Publisher(heard) = &mut peer.kind {
                // It counts anew under another number.
                let before = core::mem::replace(heard, Heard { reported_at: now, ..Heard::default() });
                self.counters.unfinished += u64::from(self.unfinished.release(at));
                if let Some(topic) = self.topics.get_mut(topic) {
                    topic.counts.add(&before);
                }
            }
        }
        if has_moved {
            self.forget_at(from, Gone::Replaced, to, |peer| peer.session != header.session);
            if let Some(topic) = self.topics.get_mut(topic) {
                topic.is_blocked = false;
            }
            if let Some(peer) = self.peers.get(at).map(Entry::described) {
                to.noticed(Notice::Moved { topic: self.topics.id(topic), peer });
            }
            self.answer(topic, from, header.session, given);
        }
        self.renew(now, at, announced, to);
    }

    fn renew(&mut self, now: Nanos, at: usize, announced: Announced, to: &mut impl Receive) {
        let Some(peer) = self.peers.get_mut(at) else { return };
        let is_new = peer.presence.renew(now, announced);
        peer.due.name = peer.names_left > 0;
        let (topic, until, described, is_due) = (peer.topic, peer.presence.until(), peer.described(), peer.due.name);
        self.peers.is_due |= is_due;
        self.peers.renewed(until);
        if is_new {
            to.noticed(Notice::Changed { topic: self.topics.id(topic), peer: described });
        }
    }

    /// Handles a new peer that returned a valid cookie.
    fn met(
        &mut self,
        now: Nanos,
        topic: usize,
        from: Place,
        header: &Header,
        (announced, given): (Announced, u64),
        to: &mut impl Receive,
    ) {
        let Some(role) = self.topics.get(topic).map(|topic| topic.role) else { return };
        if role == Role::Publisher && !self.has_room(from) {
            self.counters.peers_stalled += 1;
            return;
        }
        // A process that began anew has another session, and its place.
        self.forget_at(from, Gone::Replaced, to, |peer| peer.session != header.session);
        let kind = match role {
            Role::Publisher => Kind::Subscriber(Listener::new()),
            Role::Subscriber => Kind::Publisher(Heard { reported_at: now, ..Heard::default() }),
        };
        let mut entry = Entry {
            topic,
            session: header.session,
            number: header.topic,
            place: from,
            is_broker: header.by_broker,
            presence: Presence::new(now, announced),
            cookie: given,
            due: Due::NOTHING,
            names_left: if header.by_broker && self.settings.name != Name::NONE { NAMES } else { 0 },
            due_later: Due::NOTHING,
            kind,
        };
        entry.due.name = entry.names_left > 0;
        self.peers.is_due |= entry.due.name;
        if self.peers.insert(entry).is_none() {
            self.counters.peers_refused += 1;
            return;
        }
        if let Some(topic) = self.topics.get_mut(topic) {
            topic.counterparts += 1;
            topic.is_blocked = false;
        }
        to.noticed(Notice::Found { topic: self.topics.id(topic), peer: entry.described() });
        self.answer(topic, from, header.session, given);
    }

    // ---- what publishers send ----

    /// The peer that sends under that number, if known.
    fn sender(&mut self, now: Nanos, from: Place, header: &Header) -> Option<usize> {
        let Some(at) = self.peers.publisher(header.session, header.topic) else {
            self.counters.unbound += 1;
            return None;
        };
        let Some(peer) = self.peers.get_mut(at).filter(|peer| peer.place == from) else {
            self.counters.elsewhere += 1;
            return None;
        };
        if matches!(from, Place::Stream(_)) {
            // Its announcements wait behind what it sends.
            peer.presence.touch(now);
        }
        Some(at)
    }

    fn data(&mut self, now: Nanos, from: Place, header: &Header, data: &Data<'_>, to: &mut impl Receive) {
        let Some(at) = self.sender(now, from, header) else { return };
        let octets =
            data.fragment.map_or(data.octets.len(), |fragment| usize::try_from(fragment.total).unwrap_or(usize::MAX));
        let Some(topic) = self.peers.get(at).map(|peer| peer.topic) else { return };
        let largest = self.topics.get(topic).map_or(0, |topic| self.largest_taken(topic.largest));
        if usize::try_from(largest).is_ok_and(|largest| octets > largest) {
            self.counters.too_large += 1;
            return;
        }
        if let Some(fragment) = data.fragment
            && !self.completes(now, at, header.sequence, fragment, data.octets)
        {
            return;
        }
        if !self.take(now, at, header.sequence, to) {
            return;
        }
        if let Some(Entry { kind: Kind::Publisher(heard), .. }) = self.peers.get_mut(at) {
            heard.messages += 1;
        }
        let message = Message {
            topic: self.topics.id(topic),
            publisher: header.session,
            sequence: header.sequence,
            sent: header.sent,
            priority: header.priority,
            content: data.content,
            octets: if data.fragment.is_some() { self.unfinished.message(at) } else { data.octets },
        };
        to.message(message);
        self.release_overtaken(at);
    }

    /// Whether a fragment has completed its message.
    fn completes(&mut self, now: Nanos, at: usize, number: u32, fragment: Fragment, octets: &[u8]) -> bool {
        let Some(Entry { presence, kind: Kind::Publisher(heard), .. }) = self.peers.get(at) else { return false };
        let counters = &mut self.counters;
        if !heard.sequence.takes_fragment(now, presence.period(), number, self.unfinished.number(at)) {
            counters.fragments_late += 1;
            return false;
        }
        match self.unfinished.take(now, at, number, fragment, octets, &mut counters.unfinished) {
            Ok(FragmentResult::Complete) => return true,
            Ok(FragmentResult::Incomplete) => {}
            Ok(FragmentResult::Repeated) => counters.fragments_late += 1,
            Err(Unfit::NoRoom) => counters.fragments_refused += 1,
            Err(Unfit::TooLarge | Unfit::TooMany) => counters.too_large += 1,
            Err(Unfit::Uneven | Unfit::Total) => counters.fragments_unfit += 1,
        }
        false
    }

    /// Releases a peer's unfinished message once a later one was handed on: it is complete or lost.
    fn release_overtaken(&mut self, at: usize) {
        if let Some(Entry { kind: Kind::Publisher(heard), .. }) = self.peers.get(at) {
            self.counters.unfinished += u64::from(self.unfinished.release_overtaken(at, &heard.sequence));
        }
    }

    /// Counts a sequence number, and returns whether its message is to be handed on.
    fn take(&mut self, now: Nanos, at: usize, number: u32, to: &mut impl Receive) -> bool {
        let Some(peer) = self.peers.get_mut(at) else { return false };
        let period = peer.presence.period();
        let Kind::Publisher(heard) = &mut peer.kind else { return false };
        let arrival = heard.sequence.take(now, period, number);
        if let Arrival::Next { lost: messages @ 1.. } = arrival {
            let notice = Notice::Lost { topic: self.topics.id(peer.topic), publisher: peer.session, messages };
            to.noticed(notice);
        }
        arrival.is_handed_on()
    }

    // ---- probes and reports ----

    fn probe(&mut self, now: Nanos, from: Place, header: &Header, probe: &Probe, to: &mut impl Receive) {
        let Some(at) = self.sender(now, from, header) else { return };
        if !self.take(now, at, header.sequence, to) {
            return;
        }
        self.release_overtaken(at);
        let echo = Probe { echoed_by: self.settings.session, ..*probe };
        // Only a broker knows where its publisher is; and it may know of another network than ours.
        let prober = probe.to.filter(|prober| {
            let Place::Datagram(broker) = from else { return false };
            let ip = prober.ip();
            let is_one = !ip.is_unspecified() && !ip.is_multicast() && prober.port() != 0;
            header.by_broker && is_one && broker.is_ipv4() == prober.is_ipv4()
        });
        self.reply(Reply::Echo { to: prober.map_or(from, Place::Datagram), probe: echo });
    }

    fn echo(&mut self, now: Nanos, header: &Header, probe: &Probe) {
        let is_ours = probe.prober == self.settings.session;
        let topic = self.topics.numbered(probe.topic, Role::Publisher).filter(|_| is_ours);
        if topic.and_then(|topic| self.echoed(now, topic, header, probe)).is_none() {
            self.counters.echoes_unknown += 1;
        }
    }

    fn echoed(&mut self, now: Nanos, topic: usize, header: &Header, probe: &Probe) -> Option<()> {
        let subscriber = self.peers.find(topic, probe.echoed_by);
        // A subscriber behind a broker is not known here; without a broker there is none.
        if subscriber.is_none() && !self.peers.of(topic).any(|peer| peer.is_broker) {
            return None;
        }
        if subscriber.is_some() && header.session != probe.echoed_by {
            return None;
        }
        let entry = subscriber.and_then(|at| self.peers.get_mut(at));
        let topic = self.topics.get_mut(topic)?;
        if let Some(Entry { kind: Kind::Subscriber(listener), .. }) = entry {
            if listener.echoed == Some(probe.number) {
                return None;
            }
            let delay = topic.probes.echoed(now, probe.number, probe.sent)?;
            listener.echoed = Some(probe.number);
            listener.delays.add(delay);
            topic.delays.add(delay);
        } else {
            topic.delays.add(topic.probes.echoed(now, probe.number, probe.sent)?);
        }
        Some(())
    }

    fn report(&mut self, from: Place, header: &Header, report: &Report) {
        let topic = self.topics.numbered(header.topic, Role::Publisher);
        let at = topic.and_then(|topic| self.peers.find(topic, header.session));
        match at.and_then(|at| self.peers.get_mut(at)).filter(|peer| peer.place == from) {
            Some(Entry { kind: Kind::Subscriber(listener), .. }) => {
                listener.received = report.received;
                listener.lost = report.lost;
            }
            _ => self.counters.strangers += 1,
        }
    }

    fn bye(&mut self, from: Place, header: &Header, role: Role, to: &mut impl Receive) {
        let at = self.peers.position(|peer| {
            let is_role = matches!(peer.kind, Kind::Publisher(_)) == (role == Role::Publisher);
            peer.session == header.session && peer.number == header.topic && peer.place == from && is_role
        });
        match at {
            Some(at) => self.forget(at, Gone::Bye, to),
            None => self.counters.strangers += 1,
        }
    }
}
