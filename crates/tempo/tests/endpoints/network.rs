//! A network of end points in simulated time: what is lost, late, repeated or cut is decided by a seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use tempo::Nanos;
use tempo::endpoint::{
    Channel, Endpoint, Message, Notice, Order, Place, Receive, Refused, Settings, To, TopicId, TopicSettings,
};
use tempo::wire::{Content, Frame, Payload, Role};

pub(crate) const MS: Nanos = 1_000_000;
pub(crate) const S: Nanos = 1_000 * MS;

/// The end points of these tests.
pub(crate) type End = Endpoint<8, 32, 256, 16_384, 4>;

/// What a subscriber got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) topic: TopicId,
    pub(crate) publisher: u32,
    pub(crate) sequence: u32,
    pub(crate) priority: i16,
    pub(crate) octets: Vec<u8>,
    pub(crate) at: Nanos,
}

/// What an end point handed to its application.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) got: Vec<Got>,
    pub(crate) notices: Vec<Notice>,
    now: Nanos,
}

impl Receive for Log {
    fn message(&mut self, message: Message<'_>) {
        let Message { topic, publisher, sequence, priority, octets, .. } = message;
        self.got.push(Got { topic, publisher, sequence, priority, octets: octets.to_vec(), at: self.now });
    }

    fn noticed(&mut self, notice: Notice) {
        self.notices.push(notice);
    }
}

/// An end point and where it is.
pub(crate) struct Node {
    pub(crate) end: Box<End>,
    pub(crate) address: SocketAddr,
    pub(crate) log: Log,
    /// Numbers of data and probes that the network has brought, by session and topic.
    pub(crate) brought: BTreeSet<(u32, u32, u32)>,
    /// Those of them that are probes.
    pub(crate) probes: BTreeSet<(u32, u32, u32)>,
    /// Nothing comes and nothing goes.
    pub(crate) is_cut_off: bool,
}

/// One direction of a connection.
#[derive(Debug)]
struct Pipe {
    /// Which connection, of all there were.
    connection: u64,
    to: usize,
    /// The connection's number at the other end.
    number: u32,
    /// Octets under way.
    under_way: usize,
    /// With so many, it has no room.
    window: usize,
    /// What has come and not been read to the end.
    came: Vec<u8>,
    /// So much of that has not been looked at: the other end is cut off.
    unread: usize,
    last_arrival: Nanos,
    is_open: bool,
}

enum Arrival {
    Datagram { from: SocketAddr, to: SocketAddr, octets: Vec<u8> },
    Chunk { pipe: (usize, u32), connection: u64, octets: Vec<u8> },
}

/// How the network treats datagrams.
#[derive(Debug, Clone)]
pub(crate) struct Weather {
    /// Of 1,000.
    pub(crate) lost: u32,
    /// Of 1,000.
    pub(crate) repeated: u32,
    pub(crate) delay: RangeInclusive<Nanos>,
}

impl Weather {
    pub(crate) fn fair() -> Self {
        Self { lost: 0, repeated: 0, delay: MS..=MS }
    }
}

pub(crate) struct Network {
    pub(crate) now: Nanos,
    pub(crate) random: fastrand::Rng,
    pub(crate) weather: Weather,
    pub(crate) nodes: Vec<Node>,
    /// Octets from one address to another.
    pub(crate) octets: BTreeMap<(SocketAddr, SocketAddr), usize>,
    /// A group and its members.
    pub(crate) group: (SocketAddr, Vec<usize>),
    under_way: BinaryHeap<Reverse<(Nanos, u64)>>,
    arrivals: BTreeMap<u64, Arrival>,
    count: u64,
    pipes: BTreeMap<(usize, u32), Pipe>,
    buffer: Vec<u8>,
}

pub(crate) fn address(number: usize) -> SocketAddr {
    format!("10.0.{}.{}:2811", number / 250, number % 250 + 1).parse().unwrap()
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: 5 * S,
            random: fastrand::Rng::with_seed(seed),
            weather: Weather::fair(),
            nodes: Vec::new(),
            octets: BTreeMap::new(),
            group: ("239.1.1.1:2811".parse().unwrap(), Vec::new()),
            under_way: BinaryHeap::new(),
            arrivals: BTreeMap::new(),
            count: 0,
            pipes: BTreeMap::new(),
            buffer: vec![0; 65_507],
        }
    }

    pub(crate) fn add(&mut self, channel: Channel) -> usize {
        let at = self.nodes.len();
        let secret = (self.random.u64(..), self.random.u64(..));
        let settings = Settings::new(self.random.u32(1..), secret, channel);
        self.nodes.push(Node {
            end: Box::new(Endpoint::new(settings)),
            address: address(at),
            log: Log::default(),
            brought: BTreeSet::new(),
            probes: BTreeSet::new(),
            is_cut_off: false,
        });
        if channel == Channel::Group(self.group.0) {
            self.group.1.push(at);
        }
        at
    }

    /// Another process at the same place.
    pub(crate) fn restart(&mut self, at: usize, channel: Channel) {
        let settings = Settings::new(self.random.u32(1..), (self.random.u64(..), 7), channel);
        *self.nodes[at].end = Endpoint::new(settings);
    }

    pub(crate) fn publish(&mut self, at: usize, topic: TopicId, priority: i16, octets: &[u8]) -> Result<(), Refused> {
        let result = self.nodes[at].end.publish(self.now, topic, priority, Content::Octets, octets);
        self.flush(at);
        result
    }

    pub(crate) fn add_topic(&mut self, at: usize, name: &str, role: Role) -> TopicId {
        let settings = TopicSettings { name, role, rate: 10_000, deadline_us: 0, largest: 0, order: Order::Priorities };
        let topic = self.nodes[at].end.add_topic(self.now, settings).unwrap();
        self.time(at);
        topic
    }

    /// A connection from one to another, with a window of octets.
    pub(crate) fn connect(&mut self, from: (usize, u32), to: (usize, u32), window: usize) {
        self.count += 1;
        for (this, other) in [(from, to), (to, from)] {
            let pipe = Pipe {
                connection: self.count,
                to: other.0,
                number: other.1,
                under_way: 0,
                window,
                came: Vec::new(),
                unread: 0,
                last_arrival: 0,
                is_open: true,
            };
            self.pipes.insert(this, pipe);
            self.nodes[this.0].end.stream_opened(self.now, this.1);
        }
        self.time(from.0);
        self.time(to.0);
    }

    pub(crate) fn disconnect(&mut self, from: (usize, u32)) {
        let Some(pipe) = self.pipes.remove(&from) else { return };
        let to = (pipe.to, pipe.number);
        self.pipes.remove(&to);
        for (node, number) in [from, to] {
            let Node { end, log, .. } = &mut self.nodes[node];
            end.stream_closed(number, log);
            self.flush(node);
        }
    }

    /// A node is reached again, and reads what its connections have brought meanwhile.
    pub(crate) fn mend(&mut self, at: usize) {
        self.nodes[at].is_cut_off = false;
        let pipes: Vec<_> = self.pipes.iter().filter(|(_, pipe)| pipe.to == at).map(|(&from, _)| from).collect();
        for from in pipes {
            self.bring_chunk(from, &[]);
        }
    }

    /// Lets time pass until nothing is under way.
    pub(crate) fn run_until_idle(&mut self) {
        let until = self.now + S;
        assert!(self.run_until(until, |network| network.under_way.is_empty()), "something is always under way");
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self, nanos: Nanos) {
        let until = self.now + nanos;
        self.run_until(until, |_| false);
    }

    /// Lets time pass until something is so, and says whether it is.
    pub(crate) fn run_until(&mut self, until: Nanos, is_so: impl Fn(&Self) -> bool) -> bool {
        loop {
            if is_so(self) {
                return true;
            }
            let next = self.under_way.peek().map(|Reverse((at, _))| *at);
            let due = (0..self.nodes.len()).filter_map(|at| Some((self.nodes[at].end.next_timeout()?, at))).min();
            match (next, due) {
                (Some(next), due) if next <= until && due.is_none_or(|(due, _)| next <= due) => {
                    self.now = self.now.max(next);
                    self.arrive();
                }
                (_, Some((due, at))) if due <= until => {
                    self.now = self.now.max(due);
                    self.time(at);
                }
                _ => {
                    self.now = until;
                    return is_so(self);
                }
            }
        }
    }

    fn time(&mut self, at: usize) {
        let Node { end, log, .. } = &mut self.nodes[at];
        log.now = self.now;
        end.handle_timeout(self.now, log);
        self.flush(at);
    }

    /// Sends a datagram from an address at which there need not be a node.
    pub(crate) fn send(&mut self, from: SocketAddr, to: SocketAddr, octets: &[u8]) {
        *self.octets.entry((from, to)).or_default() += octets.len();
        let copies = if self.random.u32(0..1_000) < self.weather.lost {
            0
        } else {
            1 + usize::from(self.random.u32(0..1_000) < self.weather.repeated)
        };
        for _ in 0..copies {
            let at = self.now + self.random.u64(self.weather.delay.clone());
            self.arrives(at, Arrival::Datagram { from, to, octets: octets.to_vec() });
        }
    }

    fn arrives(&mut self, at: Nanos, arrival: Arrival) {
        self.count += 1;
        self.arrivals.insert(self.count, arrival);
        self.under_way.push(Reverse((at, self.count)));
    }

    /// Sends what an end point has to send.
    pub(crate) fn flush(&mut self, at: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        loop {
            let says_so = self.nodes[at].end.has_to_transmit();
            let Some(transmit) = self.nodes[at].end.poll_transmit(self.now, &mut buffer) else { break };
            let octets = &buffer[..transmit.octets];
            assert!(says_so && !octets.is_empty());
            let from = self.nodes[at].address;
            match transmit.to {
                To::Place(Place::Stream(number)) => self.write((at, number), octets),
                _ if self.nodes[at].is_cut_off => {}
                To::Place(Place::Datagram(to)) => {
                    assert!(octets.len() <= 1_472);
                    self.send(from, to, octets);
                }
                To::Group(group) => {
                    assert!(octets.len() <= 1_472);
                    assert_eq!(group, self.group.0);
                    for member in self.group.1.clone() {
                        let to = self.nodes[member].address;
                        self.send(from, to, octets);
                    }
                }
            }
        }
        self.buffer = buffer;
    }

    fn write(&mut self, from: (usize, u32), octets: &[u8]) {
        let at = self.now + self.random.u64(self.weather.delay.clone());
        let Some(pipe) = self.pipes.get_mut(&from) else { panic!("{from:?} is written to, and not there") };
        assert!(pipe.is_open, "{from:?} is written to, and has no room");
        pipe.last_arrival = pipe.last_arrival.max(at);
        pipe.under_way += octets.len();
        let (at, connection) = (pipe.last_arrival, pipe.connection);
        if pipe.under_way >= pipe.window {
            pipe.is_open = false;
            self.nodes[from.0].end.set_ready(Place::Stream(from.1), false);
        }
        let mut rest = octets;
        while !rest.is_empty() {
            let (chunk, behind) = rest.split_at(self.random.usize(1..=rest.len()));
            self.arrives(at, Arrival::Chunk { pipe: from, connection, octets: chunk.to_vec() });
            rest = behind;
        }
    }

    fn arrive(&mut self) {
        let Some(Reverse((_, count))) = self.under_way.pop() else { return };
        match self.arrivals.remove(&count) {
            Some(Arrival::Datagram { from, to, octets }) => self.bring(from, to, &octets),
            Some(Arrival::Chunk { pipe, connection, octets })
                if self.pipes.get(&pipe).is_some_and(|pipe| pipe.connection == connection) =>
            {
                self.bring_chunk(pipe, &octets);
            }
            _ => {}
        }
    }

    fn bring(&mut self, from: SocketAddr, to: SocketAddr, octets: &[u8]) {
        let Some(at) = self.nodes.iter().position(|node| node.address == to && !node.is_cut_off) else { return };
        let node = &mut self.nodes[at];
        node.log.now = self.now;
        note_numbers(node, octets);
        let handled = node.end.handle(self.now, Place::Datagram(from), octets, &mut node.log);
        assert_eq!((handled.consumed, handled.close), (octets.len(), None));
        self.flush(at);
    }

    fn bring_chunk(&mut self, from: (usize, u32), octets: &[u8]) {
        let Some(pipe) = self.pipes.get_mut(&from) else { return };
        pipe.came.extend_from_slice(octets);
        pipe.unread += octets.len();
        if self.nodes[pipe.to].is_cut_off {
            return;
        }
        pipe.under_way -= std::mem::take(&mut pipe.unread);
        let has_room = !pipe.is_open && pipe.under_way == 0;
        pipe.is_open |= has_room;
        let (to, number) = (pipe.to, pipe.number);
        let node = &mut self.nodes[to];
        node.log.now = self.now;
        let handled = node.end.handle(self.now, Place::Stream(number), &pipe.came, &mut node.log);
        assert_eq!(handled.close, None);
        pipe.came.drain(..handled.consumed);
        self.flush(to);
        if has_room {
            self.nodes[from.0].end.set_ready(Place::Stream(from.1), true);
            self.flush(from.0);
        }
    }
}

fn note_numbers(node: &mut Node, octets: &[u8]) {
    let mut rest = octets;
    while let Ok((frame, octets)) = Frame::read(rest) {
        let number = (frame.header.session, frame.header.topic, frame.header.sequence);
        match frame.payload {
            Payload::Probe(_) => {
                node.probes.insert(number);
                node.brought.insert(number);
            }
            Payload::Data(_) => {
                node.brought.insert(number);
            }
            _ => {}
        }
        rest = &rest[octets..];
    }
}
