//! Frames in: the session of each, and what is done with it.

use core::net::SocketAddr;

use tempo::wire::{Data, Frame, Header, Payload, Role, Unreadable};

use super::Protocol;
use super::sessions::Place;
use crate::counters::Counter;
use crate::lane::io::slots::Token;
use crate::lane::run::{Core, Worker};

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// It is done with.
    Done,
    /// There is no room in the input of that topic. Over a connection it is to come again when there is.
    Wait(Token),
}

/// How a frame has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrived {
    /// Nothing else that has arrived waits to be looked at.
    pub(super) alone: bool,
    /// It was sent to the group.
    pub(super) by_group: bool,
}

impl Worker {
    /// Does what a frame is for.
    pub(super) fn hear(&mut self, place: Place, address: SocketAddr, frame: &Frame<'_>, arrived: Arrived) -> Heard {
        let Frame { header, payload } = frame;
        if header.by_broker {
            self.core.note_broker(address);
            return Heard::Done;
        }
        match payload {
            Payload::Data(data) => return self.core.hear_data(place, header, data, arrived.alone),
            Payload::Probe(probe) => return self.core.hear_probe(place, header, *probe),
            Payload::Announcement(announcement) => {
                self.hear_announcement((place, address), header, announcement, arrived.by_group);
            }
            Payload::Echo(probe) => self.core.hear_echo(place, header, *probe),
            Payload::Report(report) => self.core.hear_report(place, header, *report),
            Payload::Bye(role) => self.core.hear_bye(place, header, *role),
        }
        Heard::Done
    }
}

impl Protocol {
    /// The part that a publisher has under the number of a frame of its.
    fn publisher(&self, place: Place, header: &Header) -> Option<Token> {
        let session = self.sessions.find(header.session, place)?;
        self.sessions.get(session)?.part(header.topic, Role::Publisher)
    }
}

impl Core {
    /// Counts what cannot be read.
    pub(super) fn count_unreadable(&self, why: Unreadable) {
        let counter = match why {
            Unreadable::Version(_) => Counter::TempoVersions,
            Unreadable::Kind { .. } => Counter::TempoUnknownKinds,
            _ => Counter::TempoMalformed,
        };
        self.cx.counters.add(counter, 1);
    }

    /// Another broker has sent something here: two that hear each other by mistake.
    #[cold]
    fn note_broker(&mut self, address: SocketAddr) {
        self.cx.counters.add(Counter::TempoByBrokers, 1);
        if !core::mem::replace(&mut self.protocols.tempo.said.of_brokers, true) {
            self.cx.log(log::Level::Warn, || {
                format!(
                    "another broker at {address} sends to this one; what brokers send is not taken from here on either"
                )
            });
        }
    }

    /// Counts a frame about something that no proven end point has announced.
    #[cold]
    pub(super) fn count_unbound(&self, place: Place, header: &Header) {
        let is_known = self.protocols.tempo.sessions.find(header.session, place).is_some();
        self.cx.counters.add(if is_known { Counter::TempoUnbound } else { Counter::TempoUnproven }, 1);
    }

    /// A message has come, or a part of one.
    fn hear_data(&mut self, place: Place, header: &Header, data: &Data<'_>, alone: bool) -> Heard {
        let Some(part) = self.protocols.tempo.publisher(place, header) else {
            self.count_unbound(place, header);
            return Heard::Done;
        };
        if self.cx.reporting.draining.has_begun() {
            self.cx.counters.add(Counter::RefusedStopping, 1);
            return Heard::Done;
        }
        self.take_data(place, part, header, data, alone)
    }

    /// The part of a publisher that sends what goes the way of messages.
    pub(super) fn publisher_of(&self, place: Place, header: &Header) -> Option<Token> {
        self.protocols.tempo.publisher(place, header)
    }

    /// Handles an end point's giving up of a role.
    fn hear_bye(&mut self, place: Place, header: &Header, role: Role) {
        let protocol = &self.protocols.tempo;
        let session = protocol.sessions.find(header.session, place).and_then(|session| protocol.sessions.get(session));
        match session.and_then(|session| session.part(header.topic, role)) {
            Some(part) => self.give_up_part(part),
            None => self.count_unbound(place, header),
        }
    }
}
