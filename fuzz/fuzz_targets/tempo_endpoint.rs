//! An end point among strangers and peers: whatever they send, and however connections stall and close, nothing is sent to an address
//! that has not proven itself beyond what came from it, what is sent can be read, and there is an end to it.
#![no_main]

use std::net::{Ipv4Addr, SocketAddr};

use libfuzzer_sys::fuzz_target;
use tempo::endpoint::{
    Channel, Endpoint, Message, Order, Place, Receive, Settings, To, TopicId, TopicSettings, Transmit,
};
use tempo::wire::{Content, Frame, HEADER, Payload, Role, frame_octets};

const OTHERS: usize = 8;
const LARGEST: usize = 4_096;

/// What is known of an address beside the end point.
#[derive(Default, Clone, Copy)]
struct Other {
    came: usize,
    went: usize,
    given: u64,
    may_be_proven: bool,
}

struct Received;

impl Receive for Received {
    fn message(&mut self, message: Message<'_>) {
        assert!(message.octets.len() <= LARGEST.max(1_472 - HEADER));
    }
}

struct World {
    end: Box<Endpoint<3, 4, 24, LARGEST, 2>>,
    topics: [Option<TopicId>; 3],
    others: [Other; OTHERS],
    streams: [Vec<u8>; 3],
    now: u64,
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, mut rest)) = data.split_first() else { return };
    let channel = match first & 3 {
        0 => Channel::None,
        1 => Channel::Peer(place(0)),
        2 => Channel::Peer(Place::Stream(0)),
        _ => Channel::Group(SocketAddr::from((Ipv4Addr::new(239, 1, 1, 1), 1))),
    };
    let mut end = Box::new(Endpoint::new(Settings::new(1, (1, 2), channel)));
    let roles = [Role::Publisher, Role::Subscriber, if first & 4 == 0 { Role::Publisher } else { Role::Subscriber }];
    let mut at = 0;
    let topics = roles.map(|role| {
        let name = ["A/B", "A/B", "C"][at];
        at += 1;
        let order = if first & 8 == 0 { Order::Priorities } else { Order::Arrival };
        end.add_topic(0, TopicSettings { name, role, rate: 1, deadline_us: 0, largest: 0, order }).ok()
    });
    let mut world = World { end, topics, others: Default::default(), streams: Default::default(), now: 0 };
    // Whoever is the channel is announced to without having sent anything.
    world.others[0].may_be_proven = first & 3 == 1;
    while let Some(behind) = world.act(rest) {
        rest = behind;
        world.send();
    }
    for stream in 0..3 {
        world.end.set_ready(Place::Stream(stream), true);
    }
    world.send();
    assert!(topics.iter().flatten().all(|&topic| world.end.published(topic).waiting == 0));
});

fn place(other: usize) -> Place {
    Place::Datagram(SocketAddr::from((Ipv4Addr::new(10, 0, 0, other as u8 + 1), 5)))
}

impl World {
    /// Something happens, as the first octets say; gives what is behind them.
    fn act<'b>(&mut self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let [what, which, much, rest @ ..] = bytes else { return None };
        let other = usize::from(*which) % OTHERS;
        let stream = u32::from(*which) % 3;
        let (taken, behind) = rest.split_at((usize::from(*much) * 4).min(rest.len()));
        match what % 10 {
            0..=2 => {
                self.datagram(other, taken, what & 0x80 != 0);
                return Some(behind);
            }
            3 => {
                self.stream_chunk(stream, taken);
                return Some(behind);
            }
            4 => {
                self.now += u64::from(*much) * 20_000_000;
                self.end.handle_timeout(self.now, &mut Received);
            }
            5 => {
                let octets = [usize::from(*much), usize::from(*much) * 16][usize::from(what >> 7)];
                if let Some(topic) = self.topics[other % 3] {
                    let priority = i16::from(*much as i8);
                    let _ = self.end.publish(self.now, topic, priority, Content::Typed, &vec![0; octets]);
                }
            }
            6 => self.end.set_ready(Place::Stream(stream), much & 1 != 0),
            7 => {
                self.streams[stream as usize].clear();
                self.end.stream_closed(stream, &mut Received);
                self.end.stream_opened(self.now, stream);
            }
            8 => {
                if let Some(topic) = self.topics[other % 3] {
                    self.end.set_rate(topic, u32::from(*much) << 24);
                    self.end.set_deadline(topic, u32::from(*much));
                }
            }
            _ => self.now = self.now.saturating_sub(u64::from(*much) * 20_000_000),
        }
        Some(rest)
    }

    /// A datagram comes. If its sender is where it says, it returns the cookies that it was given.
    fn datagram(&mut self, other: usize, bytes: &[u8], returns: bool) {
        let mut bytes = bytes.to_vec();
        self.others[other].may_be_proven |= returns;
        let mut at = 0;
        while returns && let Ok(octets) = frame_octets(&bytes[at..]) {
            if octets >= 48 && bytes[at + 2] == 1 && bytes.len() >= at + octets {
                bytes[at + 40..at + 48].copy_from_slice(&self.others[other].given.to_le_bytes());
            }
            at = (at + octets).min(bytes.len());
        }
        self.others[other].came += bytes.len();
        let handled = self.end.handle(self.now, place(other), &bytes, &mut Received);
        assert_eq!((handled.consumed, handled.close), (bytes.len(), None));
    }

    fn stream_chunk(&mut self, stream: u32, bytes: &[u8]) {
        let came = &mut self.streams[stream as usize];
        came.extend_from_slice(bytes);
        let handled = self.end.handle(self.now, Place::Stream(stream), came, &mut Received);
        came.drain(..handled.consumed);
        if handled.close.is_some() {
            came.clear();
            self.end.stream_closed(stream, &mut Received);
        }
    }

    fn send(&mut self) {
        let mut out = [0; 1_472];
        // Everything that waits, to everybody, and announcements, reports and answers.
        let mut left = 10_000;
        while let Some(Transmit { to, octets }) = self.end.poll_transmit(self.now, &mut out) {
            left -= 1;
            assert!(left > 0, "there is no end to it");
            let mut rest = &out[..octets];
            let other = (0..OTHERS).find(|&other| to == To::Place(place(other)));
            while !rest.is_empty() {
                let (frame, octets) = Frame::read(rest).expect("what is sent can be read");
                if let (Payload::Announcement(announcement), Some(other)) = (frame.payload, other) {
                    self.others[other].given = announcement.given;
                }
                rest = &rest[octets..];
            }
            if let Some(other) = other {
                let other = &mut self.others[other];
                other.went += octets;
                assert!(other.may_be_proven || other.went <= other.came, "{} of {}", other.went, other.came);
            }
        }
        let peers = self.topics.iter().flatten().map(|&topic| {
            self.end.subscribers(topic).count() + self.end.publishers(topic).count()
        });
        assert!(peers.sum::<usize>() <= 4);
    }
}
