//! Selection of the next frame: answers and echoes, then due announcements, reports and byes, then messages, in their topics' turns.

use super::peers::{Due, Entry, Kind};
use super::queue::{self, Progress, Waiting};
use super::replies::Reply;
use super::reports::{Place, To, Transmit};
use super::topics::Sending;
use super::{Channel, Endpoint};
use crate::Nanos;
use crate::wire::{
    Announcement, Content, Fragment, Frame, HEADER, Header, Payload, Probe, Report, Role, write_data_head,
};

/// Octets in front of a fragment.
const FRAGMENT_HEAD: usize = HEADER + 8;

/// Result of adding a frame to a transmission.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Put {
    /// The frame was appended.
    There,
    /// The frame begins the next transmission: its destination differs, or too little room is left.
    Next,
    /// The frame does not fit into any transmission.
    Never,
}

/// The caller's buffer, with the frames in it.
struct Outgoing<'o> {
    out: &'o mut [u8],
    /// The destination, once there is a frame.
    to: Option<To>,
    octets: usize,
    datagram: usize,
}

impl Outgoing<'_> {
    /// Maximum octets of a transmission to that destination.
    fn limit(&self, to: To) -> usize {
        match to {
            To::Place(Place::Stream(_)) => self.out.len(),
            To::Place(Place::Datagram(_)) | To::Group(_) => self.out.len().min(self.datagram),
        }
    }

    /// The free room in the buffer, if its frames have this destination, too.
    fn room(&mut self, to: To) -> Option<&mut [u8]> {
        if self.to.is_some_and(|other| other != to) {
            return None;
        }
        let limit = self.limit(to);
        self.out.get_mut(self.octets..limit)
    }

    fn put(&mut self, to: To, frame: &Frame<'_>) -> Put {
        let Some(room) = self.room(to) else { return Put::Next };
        let written = frame.write(room);
        self.put_octets(to, written)
    }

    /// Notes how many octets were written into the free room.
    fn put_octets(&mut self, to: To, written: Option<usize>) -> Put {
        match written {
            Some(octets) => {
                self.to = Some(to);
                self.octets += octets;
                Put::There
            }
            None if self.to.is_some() => Put::Next,
            None => Put::Never,
        }
    }
}

impl<const TOPICS: usize, const PEERS: usize, const BLOCKS: usize, const MESSAGE: usize, const UNFINISHED: usize>
    Endpoint<TOPICS, PEERS, BLOCKS, MESSAGE, UNFINISHED>
{
    /// Whether there may be a frame to send; if not, [`Self::poll_transmit`] returns `None`.
    #[must_use]
    pub const fn has_to_transmit(&self) -> bool {
        !self.replies.is_empty() || self.peers.is_due || self.topics.is_due_to_channel || self.topics.busy > 0
    }

    /// Writes the next frames into a buffer with room for a datagram, which has the same length each time. Consecutive frames for the same
    /// destination are sent together.
    pub fn poll_transmit(&mut self, now: Nanos, out: &mut [u8]) -> Option<Transmit> {
        let mut outgoing = Outgoing { out, to: None, octets: 0, datagram: self.settings.datagram };
        loop {
            let put = self.put_reply(now, &mut outgoing);
            let put = put.or_else(|| self.put_due_to_peer(now, &mut outgoing));
            let put = put.or_else(|| self.put_due_to_channel(now, &mut outgoing));
            match put.or_else(|| self.put_message(&mut outgoing)) {
                Some(Put::There) => {}
                Some(Put::Never) => self.counters.buffer_too_short += 1,
                Some(Put::Next) | None => {
                    let octets = outgoing.octets;
                    return outgoing.to.map(|to| Transmit { to, octets });
                }
            }
        }
    }

    fn header(&self, now: Nanos, topic: u32) -> Header {
        Header { session: self.settings.session, topic, sequence: 0, sent: now, priority: 0, by_broker: false }
    }

    // ---- at once ----

    fn put_reply(&mut self, now: Nanos, outgoing: &mut Outgoing<'_>) -> Option<Put> {
        loop {
            let reply = self.replies.first()?;
            let (Reply::Announcement { to, .. } | Reply::Echo { to, .. }) = reply;
            let put = match reply {
                _ if !self.has_room(to) => None,
                Reply::Announcement { topic, number, to, session, returned } => {
                    let is_there =
                        self.topics.get(topic).is_some_and(|topic| topic.number == number && !topic.is_leaving);
                    is_there.then(|| self.put_announcement(now, topic, To::Place(to), session, returned, outgoing))
                }
                Reply::Echo { to, probe } => {
                    let frame = Frame { header: self.header(now, probe.topic), payload: Payload::Echo(probe) };
                    Some(outgoing.put(To::Place(to), &frame))
                }
            };
            if put != Some(Put::Next) {
                self.replies.pop();
            }
            match put {
                Some(put) => return Some(put),
                None => self.counters.replies_dropped += 1,
            }
        }
    }

    /// Writes our announcement of a topic for a session at a place; the session is 0 if unknown.
    fn put_announcement(
        &self,
        now: Nanos,
        topic: usize,
        to: To,
        session: u32,
        returned: u64,
        outgoing: &mut Outgoing<'_>,
    ) -> Put {
        let Some(topic) = self.topics.get(topic) else { return Put::Never };
        let given = match to {
            To::Place(Place::Datagram(address)) if session != 0 => self.cookies.cookie(address, session),
            To::Place(_) | To::Group(_) => 0,
        };
        let largest = match topic.role {
            Role::Publisher => topic.largest,
            Role::Subscriber => self.largest_taken(topic.largest),
        };
        let announcement = Announcement {
            given,
            returned,
            deadline_us: topic.deadline_us,
            largest,
            period_ms: self.settings.period_ms,
            ..Announcement::new(topic.role, topic.name(), topic.rate)
        };
        let header = self.header(now, topic.number);
        outgoing.put(to, &Frame { header, payload: Payload::Announcement(announcement) })
    }

    // ---- once in a period ----

    fn put_due_to_peer(&mut self, now: Nanos, outgoing: &mut Outgoing<'_>) -> Option<Put> {
        if !self.peers.is_due {
            return None;
        }
        let mut next = 0;
        while let Some(at) = self.peers.next(next, |peer| peer.due.is_any()) {
            next = at + 1;
            let peer = self.peers.get(at)?;
            if !self.has_room(peer.place) {
                let peer = self.peers.get_mut(at)?;
                peer.due_later = peer.due_later.and(core::mem::take(&mut peer.due));
                continue;
            }
            let to = To::Place(peer.place);
            if peer.due.bye {
                let put = self.put_bye(now, peer.topic, to, outgoing);
                if put != Put::Next {
                    self.peers.remove(at);
                    self.unfinished.release(at);
                    self.topics.is_due_to_channel = true;
                }
                return Some(put);
            }
            if peer.due.announcement {
                let put = self.put_announcement(now, peer.topic, to, peer.session, peer.cookie, outgoing);
                self.done(at, put, |due| due.announcement = false);
                return Some(put);
            }
            if peer.due.name {
                let frame = Frame { header: self.header(now, 0), payload: Payload::Name(self.settings.name.as_str()) };
                let put = outgoing.put(to, &frame);
                if let Some(peer) = self.peers.get_mut(at).filter(|_| put != Put::Next) {
                    peer.due.name = false;
                    peer.names_left -= 1;
                }
                return Some(put);
            }
            let put = self.put_report(now, at, outgoing)?;
            self.done(at, put, |due| due.report = false);
            return Some(put);
        }
        self.peers.is_due = false;
        None
    }

    fn done(&mut self, at: usize, put: Put, done: impl Fn(&mut Due)) {
        if let Some(peer) = self.peers.get_mut(at).filter(|_| put != Put::Next) {
            done(&mut peer.due);
        }
    }

    fn put_bye(&self, now: Nanos, topic: usize, to: To, outgoing: &mut Outgoing<'_>) -> Put {
        let Some(topic) = self.topics.get(topic) else { return Put::Never };
        outgoing.put(to, &Frame { header: self.header(now, topic.number), payload: Payload::Bye(topic.role) })
    }

    fn put_report(&mut self, now: Nanos, at: usize, outgoing: &mut Outgoing<'_>) -> Option<Put> {
        let peer = self.peers.get(at)?;
        let to = To::Place(peer.place);
        let header = self.header(now, peer.number);
        let Kind::Publisher(heard) = &mut self.peers.get_mut(at)?.kind else { return Some(Put::Never) };
        let came = u128::from(heard.messages - heard.reported);
        let nanos = u128::from(now.saturating_sub(heard.reported_at)).max(1);
        let rate = u32::try_from(came.saturating_mul(1_000_000_000_000) / nanos).unwrap_or(u32::MAX);
        let report = Report { received: heard.messages, lost: heard.sequence.lost(), rate, end_points: 1 };
        let put = outgoing.put(to, &Frame { header, payload: Payload::Report(report) });
        if put == Put::There {
            heard.reported = heard.messages;
            heard.reported_at = now;
        }
        Some(put)
    }

    fn put_due_to_channel(&mut self, now: Nanos, outgoing: &mut Outgoing<'_>) -> Option<Put> {
        if !self.topics.is_due_to_channel {
            return None;
        }
        for at in 0..TOPICS {
            let Some(topic) = self.topics.get(at) else { continue };
            let is_leaving = topic.is_leaving;
            if !topic.is_due_to_channel {
                if is_leaving && self.peers.of(at).next().is_none() {
                    self.topics.free(at);
                }
                continue;
            }
            let put = match self.channel(at) {
                // The last word is not waited with: a peer without room notices the silence.
                Some(To::Place(place)) if !self.has_room(place) && is_leaving => None,
                Some(To::Place(place)) if !self.has_room(place) => continue,
                Some(to) if is_leaving => Some(self.put_bye(now, at, to, outgoing)),
                Some(to) => Some(self.put_announcement(now, at, to, 0, 0, outgoing)),
                None => None,
            };
            if put == Some(Put::Next) {
                return put;
            }
            if let Some(topic) = self.topics.get_mut(at) {
                topic.is_due_to_channel = false;
            }
            if is_leaving && self.peers.of(at).next().is_none() {
                self.topics.free(at);
            }
            if put.is_some() {
                return put;
            }
        }
        self.topics.is_due_to_channel = false;
        None
    }

    /// The channel to announce a topic on, beside its peers; `None` if the channel is one of them.
    pub(super) fn channel(&self, topic: usize) -> Option<To> {
        match self.settings.channel {
            Channel::Group(group) => Some(To::Group(group)),
            Channel::Peer(place) if self.is_channel_open && !self.peers.of(topic).any(|peer| peer.place == place) => {
                Some(To::Place(place))
            }
            Channel::Peer(_) | Channel::None => None,
        }
    }

    // ---- messages ----

    fn put_message(&mut self, outgoing: &mut Outgoing<'_>) -> Option<Put> {
        loop {
            let topic = self.next_topic()?;
            let put = match self.settings.channel {
                Channel::Group(group) => self.put_to_group(topic, group, outgoing),
                Channel::Peer(_) | Channel::None => self.put_to_next(topic, outgoing),
            };
            if let Some(put) = put {
                return Some(put);
            }
            self.sent_to_all(topic);
        }
    }

    /// Selects a topic with a message being sent.
    fn next_topic(&mut self) -> Option<usize> {
        while self.topics.busy > 0 {
            let is_at_it =
                |at: &usize| self.topics.get(*at).is_some_and(|topic| topic.sending.is_some() && !topic.is_blocked);
            if let Some(at) = self.current_topic.filter(is_at_it) {
                return Some(at);
            }
            let ready = self.topics.iter().filter(|(_, topic)| topic.is_busy() && !topic.is_blocked);
            let (at, topic) = ready.min_by_key(|(_, topic)| topic.deadline())?;
            // What is not begun can be overtaken.
            if topic.sending.is_none() && self.have_all_no_room(at) {
                self.topics.get_mut(at)?.is_blocked = true;
                continue;
            }
            self.current_topic = Some(at);
            self.begin_message(at);
        }
        None
    }

    fn have_all_no_room(&self, at: usize) -> bool {
        let is_group = matches!(self.settings.channel, Channel::Group(_));
        let mut peers = self.peers.of(at).peekable();
        !is_group
            && !self.streams.have_all_room()
            && peers.peek().is_some()
            && peers.all(|peer| !self.has_room(peer.place))
    }

    fn begin_message(&mut self, at: usize) {
        let Some(topic) = self.topics.get_mut(at).filter(|topic| topic.sending.is_none()) else { return };
        let Some(first) = self.queue.take(&mut topic.lane) else { return };
        let deadline = topic.share.deadline();
        self.time.serve(&mut topic.share);
        let kind = self.queue.message(first).map(|message| message.kind);
        let is_message = matches!(kind, Some(queue::Kind::Message(_)));
        topic.is_probe_waiting &= is_message;
        if topic.counterparts == 0 {
            self.queue.release(&mut topic.lane, first);
            topic.counts.unheard += u64::from(is_message);
            if !topic.is_busy() {
                self.topic_rests();
            }
            return;
        }
        *(if is_message { &mut topic.counts.sent } else { &mut topic.counts.probes }) += 1;
        topic.sending = Some(Sending {
            message: first,
            deadline,
            number: topic.next_number,
            next_peer: 0,
            is_one_waiting: false,
            group: None,
            is_group_served: false,
        });
        topic.next_number = topic.next_number.wrapping_add(1);
        for peer in self.peers.of_mut(at) {
            if let Kind::Subscriber(listener) = &mut peer.kind {
                listener.is_served = false;
                listener.progress = None;
            }
        }
    }

    fn put_to_group(&mut self, at: usize, group: core::net::SocketAddr, outgoing: &mut Outgoing<'_>) -> Option<Put> {
        let topic = self.topics.get(at)?;
        let sending = topic.sending.filter(|sending| !sending.is_group_served)?;
        let part = self.part(sending, topic.number, sending.group, To::Group(group), outgoing)?;
        let sending = self.topics.get_mut(at)?.sending.as_mut()?;
        match part {
            Part::Done(put) => {
                sending.is_group_served = true;
                Some(put)
            }
            Part::Begun(put, progress) => {
                sending.group = Some(progress);
                Some(put)
            }
            Part::Next => Some(Put::Next),
        }
    }

    /// Writes the message, or its next fragment, for the next subscriber that lacks it and has room.
    fn put_to_next(&mut self, at: usize, outgoing: &mut Outgoing<'_>) -> Option<Put> {
        loop {
            let topic = self.topics.get(at)?;
            let sending = topic.sending?;
            let is_next = |peer: &Entry| {
                peer.topic == at && matches!(&peer.kind, Kind::Subscriber(listener) if !listener.is_served)
            };
            let next = self.peers.next(sending.next_peer, is_next)?;
            let peer = self.peers.get(next)?;
            let Kind::Subscriber(listener) = &peer.kind else { return None };
            let octets = self.queue.message(sending.message).map_or(0, |message| message.octets);
            let largest = usize::try_from(peer.presence.announced().largest).unwrap_or(usize::MAX);
            let (is_too_large, has_room) = (largest != 0 && octets > largest, self.has_room(peer.place));
            let part = if is_too_large || !has_room {
                None
            } else {
                self.part(sending, topic.number, listener.progress, To::Place(peer.place), outgoing)
            };
            let sending = self.topics.get_mut(at)?.sending.as_mut()?;
            let Kind::Subscriber(listener) = &mut self.peers.get_mut(next)?.kind else { return None };
            match part {
                Some(Part::Done(put)) => {
                    listener.is_served = true;
                    sending.next_peer = next + 1;
                    return Some(put);
                }
                Some(Part::Begun(put, progress)) => {
                    listener.progress = Some(progress);
                    return Some(put);
                }
                Some(Part::Next) => return Some(Put::Next),
                None => {
                    sending.next_peer = next + 1;
                    if is_too_large {
                        listener.is_served = true;
                        self.counters.too_large_for_peer += 1;
                    } else {
                        sending.is_one_waiting = true;
                    }
                }
            }
        }
    }

    /// Ends the round over the subscribers: the message is complete unless some wait for room, which block the topic meanwhile.
    fn sent_to_all(&mut self, at: usize) {
        self.current_topic = None;
        let Some(topic) = self.topics.get_mut(at) else { return };
        let Some(sending) = topic.sending.as_mut() else { return };
        let message = sending.message;
        if core::mem::take(&mut sending.is_one_waiting) {
            sending.next_peer = 0;
            // Meanwhile they may have got room, or have gone.
            let (mut is_one_left, mut has_one_room) = (false, false);
            for peer in self.peers.of(at) {
                if matches!(&peer.kind, Kind::Subscriber(listener) if !listener.is_served) {
                    is_one_left = true;
                    has_one_room |= match peer.place {
                        Place::Stream(stream) => self.streams.has_room(stream),
                        Place::Datagram(_) => true,
                    };
                }
            }
            topic.is_blocked = is_one_left && !has_one_room;
            if is_one_left {
                return;
            }
        }
        topic.sending = None;
        self.queue.release(&mut topic.lane, message);
        if !topic.is_busy() {
            self.topic_rests();
        }
    }

    /// Writes the next part of a message for a peer.
    fn part(
        &self,
        sending: Sending,
        number: u32,
        progress: Option<(Progress, usize)>,
        to: To,
        outgoing: &mut Outgoing<'_>,
    ) -> Option<Part> {
        let waiting = self.queue.message(sending.message)?;
        let &Waiting { kind, sent, priority, octets, .. } = waiting;
        let header = Header { sequence: sending.number, priority, ..self.header(sent, number) };
        let content = match kind {
            queue::Kind::Message(content) => content,
            queue::Kind::Probe { number: count } => {
                let prober = self.settings.session;
                let probe = Probe { sent, prober, topic: number, number: count, to: None, hops: 0, echoed_by: 0 };
                return Some(match outgoing.put(to, &Frame { header, payload: Payload::Probe(probe) }) {
                    Put::Next => Part::Next,
                    put => Part::Done(put),
                });
            }
        };
        Some(self.part_of_data(&header, content, (octets, sending.message), progress, to, outgoing))
    }

    fn part_of_data(
        &self,
        header: &Header,
        content: Content,
        (octets, first): (usize, u16),
        progress: Option<(Progress, usize)>,
        to: To,
        outgoing: &mut Outgoing<'_>,
    ) -> Part {
        let limit = outgoing.limit(to).min(HEADER + crate::wire::PAYLOAD_MAX);
        let (from, size) = progress.unwrap_or((Progress::beginning(first), limit.saturating_sub(FRAGMENT_HEAD)));
        let is_whole = progress.is_none() && octets + HEADER <= limit;
        let length = if is_whole { octets } else { size.min(octets - from.at) };
        let fragment = match (u32::try_from(octets), u32::try_from(from.at)) {
            (Ok(total), Ok(at)) if !is_whole => Some(Fragment { total, at }),
            _ => None,
        };
        let Some(room) = outgoing.room(to) else { return Part::Next };
        let head = write_data_head(*header, fragment, content, length, room);
        let mut then = from;
        if let Some(place) = head.and_then(|head| room.get_mut(head..head + length)) {
            then = self.queue.copy(from, place);
        }
        match outgoing.put_octets(to, head.map(|head| head + length)) {
            Put::Next => Part::Next,
            Put::There if then.at < octets => Part::Begun(Put::There, (then, size)),
            put => Part::Done(put),
        }
    }
}

/// Result of writing a part of a message.
enum Part {
    /// The last part is written.
    Done(Put),
    /// More parts follow, from this position on, in fragments of this size.
    Begun(Put, (Progress, usize)),
    /// The part does not fit into the current transmission.
    Next,
}
