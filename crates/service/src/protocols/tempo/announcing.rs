//! Announcements: those of end points, the state stored for them, and the broker's own.

use core::cmp::Reverse;
use core::net::SocketAddr;
use std::sync::Arc;

use tempo::Nanos;
use tempo::presence::{Announced, Presence, Summary};
use tempo::wire::{Announcement, Frame, Header, NAME_MAX, Payload, Report, Role};

use super::delivery::send;
use super::requests::ProxyStatus;
use super::sessions::{Is, Part, Place, Publisher, Session, Subscriber, Way};
use super::topics::Name;
use super::{Protocol, Settings};
use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::io::output::would_block;
use crate::lane::io::slots::Token;
use crate::lane::run::{Core, Worker};
use crate::protocols::Protocols;
use accounts::Resource;

/// Maximum topics and roles announced by one session.
const PARTS_OF_SESSION: usize = 4_096;

impl Worker {
    /// Handles the announcement of a topic and a role.
    #[inline(never)]
    pub(super) fn hear_announcement(
        &mut self,
        (place, address): (Place, SocketAddr),
        header: &Header,
        announcement: &Announcement<'_>,
        by_group: bool,
    ) {
        let Some((name, says_first)) = Name::read(announcement.name) else {
            return self.core.cx.counters.add(Counter::TempoNamesRefused, 1);
        };
        let Core { protocols: Protocols { tempo, .. }, cx, .. } = &mut self.core;
        let proven = match place {
            Place::Stream(_) => Some(Way::Single),
            Place::Datagram(address) => tempo.way_of(announcement.returned, address, header.session),
        };
        let Some(way) = proven else {
            if announcement.given == 0 && tempo.renew_bound(place, header, announcement, name, cx) {
                return;
            }
            let way = if by_group { Way::Group } else { Way::Single };
            return tempo.answer_unproven((address, way), header, announcement, name, cx);
        };
        let Some((session, has_moved)) = self.session_at(place, address, header.session) else { return };
        let Core { protocols: Protocols { tempo, .. }, cx, .. } = &mut self.core;
        if let Some(known) = tempo.sessions.get_mut(session) {
            known.given = announcement.given;
            known.way = way;
        }
        tempo.note_announced(session, header.topic, announcement, (name, says_first), cx);
        if has_moved
            && let Some(known) = tempo.sessions.get(session)
            && let Some(part) = known.part(header.topic, announcement.role)
            && tempo.is_open(part)
        {
            tempo.announce(part, cx);
        }
        tempo.forget_session_if_empty(session, cx);
    }

    /// The session with that number at a proven place, and whether it has just moved there.
    fn session_at(&mut self, place: Place, address: SocketAddr, number: u32) -> Option<(Token, bool)> {
        let sessions = &mut self.core.protocols.tempo.sessions;
        if let Some(session) = sessions.find(number, place) {
            return Some((session, false));
        }
        // If rights depend on addresses, a session stays at its IP address.
        let may_move = |from: &Session| !self.core.access.is_on() || from.account.from() == address.ip().to_canonical();
        if let Some(session) = sessions.numbered(number)
            && sessions.get(session).is_some_and(|session| session.moving == Some(address) && may_move(session))
            && sessions.relocate(session, address)
        {
            self.core.cx.counters.add(Counter::TempoSessionsMoved, 1);
            return Some((session, true));
        }
        if self.core.cx.reporting.draining.has_begun() {
            return None;
        }
        if let Some(former) = sessions.at(place) {
            // The session that was there has begun anew.
            self.core.protocols.tempo.give_up_session(former, &mut self.core.cx);
        }
        let account = self.clients.open_account(address.ip(), &self.core.cx)?;
        if let Place::Stream(connection) = place
            && let Some(connection) = self.core.protocols.tempo.out.connections.get(connection)
            && let Some(name) = connection.certified()
        {
            account.identity().certify(Arc::clone(name));
            self.core.cx.name_by_configuration(&account);
        }
        let quota = self.core.cx.io.quotas.arrive(account.ip());
        let session = self.core.protocols.tempo.sessions.insert(Session::new(number, place, account, quota));
        if let Place::Stream(connection) = place
            && let Some(connection) = self.core.protocols.tempo.out.connections.get_mut(connection)
        {
            connection.sessions.push(session);
        }
        Some((session, false))
    }
}

impl Settings {
    /// An announcement of the summary of a role's end points, with the cookies given and returned.
    fn announcement<'n>(
        &self,
        role: Role,
        summary: &Summary,
        (given, returned): (u64, u64),
        name: &'n str,
    ) -> Announcement<'n> {
        let &Summary { rates, lowest_rate, highest_rate, deadline_us, end_points } = summary;
        let rate = if role == Role::Publisher { rates } else { lowest_rate };
        let announcement = Announcement::new(role, name, rate);
        let (largest, period_ms) = (self.message_bytes_max, self.period_ms);
        Announcement { given, returned, highest_rate, deadline_us, end_points, largest, period_ms, ..announcement }
    }
}

impl Protocol {
    /// How an address that returns this cookie was met; `None` if it has not proven itself.
    fn way_of(&self, returned: u64, address: SocketAddr, session: u32) -> Option<Way> {
        let is_proof = |way: &Way| self.cookies.is_ours(returned, address, way.proof_of(session));
        let ways = if self.group.is_some() { &[Way::Single, Way::Group][..] } else { &[Way::Single] };
        ways.iter().copied().find(is_proof)
    }

    /// Plans the next work for a part.
    fn plan(&mut self, part: Token) {
        if let Some(known) = self.sessions.part_mut(part) {
            let due = known.due();
            known.timer = due;
            self.timers.push(Reverse((due, part)));
        }
    }

    /// The next part with work due.
    fn next_part_due(&mut self, now: Nanos) -> Option<Token> {
        loop {
            let &Reverse((due, part)) = self.timers.peek().filter(|Reverse((due, _))| *due <= now)?;
            self.timers.pop();
            let Some(known) = self.sessions.part(part).filter(|known| known.timer == due) else { continue };
            if known.due() <= now {
                return Some(part);
            }
            self.plan(part);
        }
    }

    /// Renews an announcement that needs no answer and proves nothing, if the end point has bound that number to that name. True if it was
    /// renewed.
    fn renew_bound(
        &mut self,
        place: Place,
        header: &Header,
        announcement: &Announcement<'_>,
        name: Name<'_>,
        cx: &mut Context,
    ) -> bool {
        let session = self.sessions.find(header.session, place);
        let topic = self.topics.find(name);
        let part =
            session.zip(topic).and_then(|(session, topic)| self.sessions.part_on(session, topic, announcement.role));
        let is_bound = |part: &Token| self.sessions.part(*part).is_some_and(|known| known.number == header.topic);
        let Some(part) = part.filter(is_bound) else { return false };
        self.renew_part(part, Announced::from(announcement), cx);
        true
    }

    /// Answers an end point that has not proven itself, with as many octets as came, and a cookie for its proof. Nothing is stored.
    fn answer_unproven(
        &mut self,
        (from, way): (SocketAddr, Way),
        header: &Header,
        heard: &Announcement<'_>,
        name: Name<'_>,
        cx: &mut Context,
    ) {
        cx.counters.add(Counter::TempoUnproven, 1);
        let now = cx.clock.now.0;
        let Protocol { cookies, sessions, topics, settings, session: own, answers, .. } = self;
        // The session may have had another port before, behind a router: the returned cookie proves that.
        if let Some(session) = sessions.numbered(header.session).and_then(|session| sessions.get_mut(session))
            && let Place::Datagram(before) = session.place
            && before.ip() == from.ip()
            && cookies.is_ours(heard.returned, before, session.way.proof_of(header.session))
        {
            session.moving = Some(from);
        }
        let number = topics.number_of(name);
        let known = topics.find(name).and_then(|topic| topics.get_mut(topic));
        let side = known.map(|topic| topic.side_mut(heard.role.counterpart()));
        let summary = side.map(|side| side.summary(sessions, now).0).unwrap_or_default();
        let cookies = (cookies.cookie(from, way.proof_of(header.session)), heard.given);
        let answer = settings.announcement(heard.role.counterpart(), &summary, cookies, heard.name);
        let header = Header { session: *own, topic: number, sequence: 0, sent: 0, priority: 0, by_broker: true };
        let frame = Frame { header, payload: Payload::Announcement(answer) };
        let begin = answers.len();
        answers.resize(begin + frame.octets(), 0);
        if frame.write(answers.get_mut(begin..).unwrap_or_default()).is_none() {
            answers.truncate(begin);
        }
    }

    /// Sends the answers to one datagram.
    pub(super) fn send_answers(&mut self, to: SocketAddr, cx: &mut Context) {
        let Protocol { answers, out, .. } = self;
        let Some(socket) = &out.socket else { return };
        if answers.is_empty() {
            return;
        }
        let sent = socket.send(to, answers, answers.len());
        answers.clear();
        match sent {
            Ok(()) => cx.counters.add(Counter::TempoDatagramsOut, 1),
            // The end point asks again.
            Err(error) if would_block(&error) => {}
            Err(_) => cx.counters.add(Counter::TempoSendsFailed, 1),
        }
    }

    /// Stores a session's announcement of a topic under that number.
    fn note_announced(
        &mut self,
        session: Token,
        number: u32,
        announcement: &Announcement<'_>,
        (name, says_first): (Name<'_>, bool),
        cx: &mut Context,
    ) {
        let (role, announced) = (announcement.role, Announced::from(announcement));
        let Protocol { sessions, topics, .. } = self;
        let Some(known) = sessions.get(session) else { return };
        let topic = topics.find(name);
        let of_number = known.part(number, role);
        let of_topic = topic.and_then(|topic| sessions.part_on(session, topic, role));
        let is_of_other = |part: &Token| sessions.part(*part).is_none_or(|part| Some(part.topic) != topic);
        let of_other_role = known.part(number, role.counterpart()).filter(is_of_other);
        if let Some(part) = of_number.filter(|part| of_topic == Some(*part)) {
            return self.renew_part(part, announced, cx);
        }
        // The number means another topic than before, or the topic has another number. The session stays, even if that was all it had.
        sessions.hold(session);
        for former in [of_number, of_topic, of_other_role].into_iter().flatten() {
            self.give_up_part(former, cx);
        }
        self.add_part((session, number, role), announced, (name, says_first), cx);
        self.sessions.release(session);
    }

    fn renew_part(&mut self, part: Token, announced: Announced, cx: &mut Context) {
        let now = cx.clock.now.0;
        let Protocol { sessions, topics, .. } = self;
        let Some((known, session)) = sessions.both(part) else { return };
        let before = known.presence.announced().rate;
        if !known.presence.renew(now, announced) {
            return;
        }
        let (topic, role, is_sooner) = (known.topic, known.role(), known.due() < known.timer);
        if let Some(topic) = topics.get_mut(topic) {
            topic.side_mut(role).note_change();
        }
        if role == Role::Publisher {
            topics.note_rate(session.account.ip(), Some(before), Some(announced.rate));
        }
        if is_sooner {
            self.plan(part);
        }
    }

    fn add_part(
        &mut self,
        (session, number, role): (Token, u32, Role),
        announced: Announced,
        (name, says_first): (Name<'_>, bool),
        cx: &mut Context,
    ) {
        let now = cx.clock.now.0;
        let Some(known) = self.sessions.get(session) else { return };
        if known.announced() >= PARTS_OF_SESSION {
            return cx.counters.add(Counter::TempoTopicsRefused, 1);
        }
        let account = Arc::clone(&known.account);
        let charge = match account.charge(Resource::Announced, 1) {
            Ok(charge) => charge,
            Err(spent) => return self.note_topics_refused(spent, cx),
        };
        self.said.of_limits = false;
        let topic = self.topics.find_or_add(name);
        let is = match role {
            Role::Publisher => Is::Publisher(Box::default()),
            Role::Subscriber => Is::Subscriber(Box::new(Subscriber::new(self.new_peer()))),
        };
        let next_announcement = self.chance.next_announcement(now, self.settings.period_ms);
        let part = Part {
            session,
            number,
            topic,
            at: 0,
            presence: Presence::new(now, announced),
            _charge: charge,
            says_first,
            next_announcement,
            timer: 0,
            is,
        };
        let Protocol { sessions, topics, .. } = self;
        let part = sessions.insert_part(part);
        if let (Some(topic), Some(known)) = (topics.get_mut(topic), sessions.part_mut(part)) {
            let side = topic.side_mut(role);
            known.at = side.add(part);
            // A subscriber is counted when it gets what is published.
            if role == Role::Publisher {
                side.count(&announced);
            }
        }
        if role == Role::Publisher {
            topics.note_rate(account.ip(), None, Some(announced.rate));
        }
        self.plan(part);
        self.note_tempo_levels(cx);
        match self.ask_for_part(part, cx) {
            ProxyStatus::Open => self.announce(part, cx),
            // The part gets an announcement when its proxy is open.
            ProxyStatus::Waits => {}
            ProxyStatus::Refused => self.remove_part(part, cx),
        }
    }

    #[cold]
    fn note_topics_refused(&mut self, spent: accounts::Spent, cx: &mut Context) {
        cx.counters.add(Counter::of_refusal(spent), 1);
        if !core::mem::replace(&mut self.said.of_limits, true) {
            cx.log(log::Level::Warn, || format!("a topic that a client of Tempo announces is not taken: {spent}"));
        }
    }

    /// Gives up a part that said bye, or was not announced any more. Its publisher's earlier messages are still handed in.
    pub(super) fn give_up_part(&mut self, part: Token, cx: &mut Context) {
        let Protocol { sessions, proxies, .. } = self;
        let Some((known, session)) = sessions.both(part) else { return };
        if let Is::Publisher(publisher) = &mut known.is
            && publisher.waiting > 0
        {
            let proxy = publisher.proxy.and_then(|peer| proxies.get(&peer));
            if !publisher.is_leaving && proxy.is_some_and(|proxy| proxy.key.is_none()) {
                session.early.push(part);
            }
            publisher.is_leaving = true;
            return sessions.hide_part(part);
        }
        self.remove_part(part, cx);
    }

    /// Gives up all parts of a session.
    pub(super) fn give_up_session(&mut self, session: Token, cx: &mut Context) {
        let sessions = &self.sessions;
        let parts: Vec<Token> = sessions.get(session).map(|session| session.parts().collect()).unwrap_or_default();
        for part in parts {
            self.give_up_part(part, cx);
        }
    }

    /// Removes a part and its state.
    pub(super) fn remove_part(&mut self, part: Token, cx: &mut Context) {
        let Protocol { sessions, topics, .. } = self;
        let Some(gone) = sessions.remove_part(part) else { return };
        let role = gone.role();
        if let Some(topic) = topics.get_mut(gone.topic)
            && let Some(moved) = topic.side_mut(role).remove(gone.at)
            && let Some(moved) = sessions.part_mut(moved)
        {
            moved.at = gone.at;
        }
        if role == Role::Publisher
            && let Some(session) = sessions.get(gone.session)
        {
            topics.note_rate(session.account.ip(), Some(gone.presence.announced().rate), None);
        }
        self.dismiss_part(&gone, part, cx);
        self.forget_topic_if_unneeded(gone.topic, cx);
        self.forget_session_if_empty(gone.session, cx);
        self.note_tempo_levels(cx);
    }

    /// Removes a topic if it is not needed any more.
    pub(super) fn forget_topic_if_unneeded(&mut self, topic: Token, cx: &mut Context) {
        let waited = self.topics.forget_unneeded(topic);
        if !waited.is_empty() {
            self.starved.extend(waited);
            cx.clock.plan_sweep();
        }
    }

    /// Removes a session without parts.
    pub(super) fn forget_session_if_empty(&mut self, session: Token, cx: &mut Context) {
        let sessions = &mut self.sessions;
        if sessions.get(session).is_none_or(|session| !session.is_empty()) {
            return;
        }
        if let Some(mut gone) = sessions.remove(session) {
            gone.packets.clear(&mut cx.io.spares);
            cx.io.quotas.leave(gone.quota);
            if let Place::Stream(connection) = gone.place
                && let Some(connection) = self.out.connections.get_mut(connection)
            {
                connection.sessions.retain(|there| *there != session);
            }
        }
    }

    fn note_tempo_levels(&self, cx: &Context) {
        cx.counters.set(Counter::TempoSessions, self.sessions.len() as u64);
        cx.counters.set(Counter::TempoAnnounced, self.sessions.announced as u64);
        cx.counters.set(Counter::TempoTopics, self.topics.len() as u64);
    }

    /// Sends the announcements that are due, and removes end points that were silent for too long.
    pub(crate) fn serve_tempo_due(&mut self, cx: &mut Context) {
        let now = cx.clock.now.0;
        for _ in 0..Budget::EVENTS.events {
            let Some(part) = self.next_part_due(now) else { return };
            let Protocol { sessions, chance, settings, out, .. } = self;
            let Some((known, session)) = sessions.both(part) else { continue };
            if known.presence.is_gone(now) && out.is_unread(session) {
                // The end point's announcements wait unread in its socket.
                known.presence.touch(now);
            }
            if known.presence.is_gone(now) {
                cx.counters.add(Counter::TempoExpired, 1);
                self.give_up_part(part, cx);
                continue;
            }
            known.next_announcement = chance.next_announcement(now, settings.period_ms);
            self.plan(part);
            if self.is_open(part) {
                self.announce(part, cx);
                self.report(part, cx);
            }
        }
    }

    /// Announces the summary of its counterparts to one part.
    pub(super) fn announce(&mut self, part: Token, cx: &mut Context) {
        let now = cx.clock.now.0;
        let Protocol { sessions, topics, settings, cookies, session: own, out, .. } = self;
        let Some((known, session)) = sessions.part(part).and_then(|part| Some((part, sessions.get(part.session)?)))
        else {
            return;
        };
        let (to, role, says_first) = (known.session, known.role().counterpart(), known.says_first);
        let Some(topic) = topics.get_mut(known.topic) else { return };
        let cookies = match session.place {
            Place::Datagram(address) => (cookies.cookie(address, session.way.proof_of(session.number)), session.given),
            Place::Stream(_) => (0, 0),
        };
        let (summary, _) = topic.side_mut(role).summary(sessions, now);
        let mut buffer = [0; NAME_MAX];
        let name = topic.name().announced(says_first, &mut buffer);
        let announcement = settings.announcement(role, &summary, cookies, name);
        let header = Header { session: *own, topic: topic.number, sequence: 0, sent: 0, priority: 0, by_broker: true };
        let frame = Frame { header, payload: Payload::Announcement(announcement) };
        send(out, sessions, to, &frame, &mut cx.io);
    }

    /// Sends bye to all announced end points, as far as their sockets take it at once.
    pub(super) fn say_bye(&mut self, cx: &mut Context) {
        for to in self.sessions.all() {
            let session = self.sessions.get(to);
            let parts: Vec<Token> = session.map(|session| session.parts().collect()).unwrap_or_default();
            for part in parts {
                let Protocol { sessions, topics, .. } = &*self;
                let Some(known) = sessions.part(part) else { continue };
                let Some(topic) = topics.get(known.topic) else { continue };
                let (role, header) = (known.role().counterpart(), self.header(topic.number));
                self.send_tempo_frame(to, &Frame { header, payload: Payload::Bye(role) }, cx);
            }
            self.send_packets(to, cx);
        }
    }

    /// Reports to a publisher the state of its topic, here and at the subscribers.
    fn report(&mut self, part: Token, cx: &mut Context) {
        let now = cx.clock.now.0;
        let Protocol { sessions, topics, .. } = self;
        let Some(known) = sessions.part(part) else { return };
        let Is::Publisher(publisher) = &known.is else { return };
        let Publisher { sequence, received, discarded, .. } = &**publisher;
        let Some(topic) = topics.get_mut(known.topic).filter(|_| sequence.last().is_some()) else { return };
        let (summary, reports) = topic.subscribers.summary(sessions, now);
        let report = Report {
            received: *received,
            lost: sequence.lost().saturating_add(*discarded).saturating_add(reports.lost),
            rate: reports.lowest_rate,
            end_points: summary.end_points,
        };
        let (to, number) = (known.session, known.number);
        let header = self.header(number);
        self.send_tempo_frame(to, &Frame { header, payload: Payload::Report(report) }, cx);
    }
}
