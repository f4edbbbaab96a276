//! One end point, and frames that are made by hand.

use std::net::SocketAddr;

use tempo::Nanos;
use tempo::endpoint::{Channel, Endpoint, Name, Order, Place, Settings, To, TopicId, TopicSettings};
use tempo::wire::{Announcement, Content, Data, Fragment, Frame, Header, Payload, Probe, Role};

use crate::network::{End, Log, S};

pub(crate) const NAME: &str = "Weather/Wind";

pub(crate) struct Hand {
    pub(crate) end: Box<End>,
    pub(crate) now: Nanos,
    pub(crate) log: Log,
    pub(crate) topic: TopicId,
}

/// A peer that announces itself by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stranger {
    pub(crate) place: Place,
    pub(crate) session: u32,
    pub(crate) number: u32,
    pub(crate) role: Role,
    pub(crate) returned: u64,
}

pub(crate) fn stranger(address: SocketAddr, session: u32, role: Role) -> Stranger {
    Stranger { place: Place::Datagram(address), session, number: 9, role, returned: 0 }
}

pub(crate) fn settings(name: &str, role: Role) -> TopicSettings<'_> {
    TopicSettings { name, role, rate: 5_000, deadline_us: 0, largest: 0, order: Order::Priorities }
}

pub(crate) fn written(header: Header, payload: Payload<'_>) -> Vec<u8> {
    let frame = Frame { header, payload };
    let mut bytes = vec![0; frame.octets()];
    frame.write(&mut bytes).unwrap();
    bytes
}

impl Stranger {
    pub(crate) fn header(&self, sequence: u32) -> Header {
        Header { session: self.session, topic: self.number, sequence, sent: 1, priority: 0, by_broker: false }
    }

    pub(crate) fn announcement(&self) -> Announcement<'static> {
        Announcement { given: 77, returned: self.returned, ..Announcement::new(self.role, NAME, 1_000) }
    }

    pub(crate) fn data(&self, sequence: u32, fragment: Option<Fragment>, octets: &[u8]) -> Vec<u8> {
        written(self.header(sequence), Payload::Data(Data { fragment, content: Content::Octets, octets }))
    }
}

impl Hand {
    /// An end point that waits for peers.
    pub(crate) fn new(role: Role) -> Self {
        Self::with(role, Channel::None)
    }

    pub(crate) fn with(role: Role, channel: Channel) -> Self {
        Self::called(role, channel, Name::NONE)
    }

    pub(crate) fn called(role: Role, channel: Channel, name: Name) -> Self {
        let mut end = Box::new(Endpoint::new(Settings { name, ..Settings::new(1, (2, 3), channel) }));
        let topic = end.add_topic(0, settings(NAME, role)).unwrap();
        let mut hand = Self { end, now: 0, log: Log::default(), topic };
        hand.pass(0);
        hand
    }

    /// Time passes; says what is sent.
    pub(crate) fn pass(&mut self, nanos: Nanos) -> Vec<(To, Vec<u8>)> {
        let until = self.now + nanos;
        let mut sent = Vec::new();
        while let Some(next) = self.end.next_timeout().filter(|&next| next <= until) {
            self.now = self.now.max(next);
            self.end.handle_timeout(self.now, &mut self.log);
            sent.append(&mut self.flush());
        }
        self.now = until;
        sent
    }

    /// A datagram comes, or a piece of a connection; says what is sent then.
    pub(crate) fn give(&mut self, from: Place, bytes: &[u8]) -> Vec<(To, Vec<u8>)> {
        self.end.handle(self.now, from, bytes, &mut self.log);
        self.flush()
    }

    pub(crate) fn flush(&mut self) -> Vec<(To, Vec<u8>)> {
        let mut out = vec![0; 1_472];
        let mut sent = Vec::new();
        while let Some(transmit) = self.end.poll_transmit(self.now, &mut out) {
            sent.push((transmit.to, out[..transmit.octets].to_vec()));
        }
        sent
    }

    /// A stranger announces itself; says what is answered.
    pub(crate) fn announce(&mut self, who: &Stranger) -> Vec<(To, Vec<u8>)> {
        self.give(who.place, &written(who.header(0), Payload::Announcement(who.announcement())))
    }

    /// A stranger proves itself, as every one can that is where it says.
    pub(crate) fn meet(&mut self, who: &mut Stranger) {
        let answers = self.announce(who);
        who.returned = cookie(&answers);
        self.announce(who);
    }

    /// How many peers there are on the topic.
    pub(crate) fn peers(&self) -> usize {
        self.end.subscribers(self.topic).count() + self.end.publishers(self.topic).count()
    }

    /// A publisher's next probe.
    pub(crate) fn probe(&mut self) -> (Header, Probe) {
        let sent = self.pass(S);
        sent.iter().find_map(|(_, bytes)| probe_in(bytes)).expect("a publisher probes once in a period")
    }
}

/// The cookie that an answer gives.
pub(crate) fn cookie(answers: &[(To, Vec<u8>)]) -> u64 {
    let Some((_, bytes)) = answers.first() else { panic!("there is no answer") };
    match Frame::read(bytes) {
        Ok((Frame { payload: Payload::Announcement(announcement), .. }, _)) => announcement.given,
        other => panic!("{other:?} is no announcement"),
    }
}

fn probe_in(bytes: &[u8]) -> Option<(Header, Probe)> {
    let mut rest = bytes;
    while let Ok((frame, octets)) = Frame::read(rest) {
        if let Payload::Probe(probe) = frame.payload {
            return Some((frame.header, probe));
        }
        rest = &rest[octets..];
    }
    None
}

/// All frames that are sent, of one kind.
pub(crate) fn sent_data(sent: &[(To, Vec<u8>)]) -> Vec<Vec<u8>> {
    let mut data = Vec::new();
    for (_, bytes) in sent {
        let mut rest = &bytes[..];
        while let Ok((frame, octets)) = Frame::read(rest) {
            if let Payload::Data(Data { octets, .. }) = frame.payload {
                data.push(octets.to_vec());
            }
            rest = &rest[octets..];
        }
    }
    data
}
