//! A network of end points in simulated time. Each datagram takes a while, and some are lost, by a seed.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::driven::{Driven, Place, Said};
use crate::rust_end::RustEnd;
use crate::text;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const PERIOD_MS: u64 = 1_000;
/// How long a datagram takes, if no more is said.
pub(crate) const DELAY: u64 = 3 * MS;

/// The channel of an end point.
#[derive(Clone, Copy)]
pub(crate) enum Channel {
    None,
    Peer(Place),
    Group(SocketAddr),
}

/// In which language an end point is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Rust,
}

enum Program {
    C(Driven),
    Rust(RustEnd),
}

impl Program {
    fn ask(&mut self, command: &str) -> Said {
        match self {
            Self::C(program) => program.ask(command),
            Self::Rust(end) => end.ask(command),
        }
    }
}

/// An end point.
pub(crate) struct Node {
    program: Program,
    place: Place,
    next: u64,
    pub(crate) messages: Vec<String>,
}

/// What is under way: when it arrives, and which of those at that time.
type UnderWay = BTreeMap<(u64, u64), (Place, Place, Vec<u8>)>;

pub(crate) struct World {
    pub(crate) now: u64,
    nodes: Vec<Node>,
    under_way: UnderWay,
    sent: u64,
    random: fastrand::Rng,
    /// Of a hundred datagrams so many are lost.
    pub(crate) lost_of_100: u8,
    /// A datagram takes up to so much longer than others, which overtake it.
    pub(crate) jitter: u64,
    /// What came to a place where no end point is.
    pub(crate) elsewhere: Vec<(Place, Place, Vec<u8>)>,
    /// Datagrams to each place, and the octets of them.
    pub(crate) traffic: BTreeMap<Place, (u64, u64)>,
}

pub(crate) fn at(host: u8) -> Place {
    Place::At(SocketAddr::from(([10, 0, 0, host], 2811)))
}

pub(crate) fn group() -> SocketAddr {
    SocketAddr::from(([224, 0, 0, 7], 2811))
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: 1_000 * MS,
            nodes: Vec::new(),
            under_way: BTreeMap::new(),
            sent: 0,
            random: fastrand::Rng::with_seed(seed),
            lost_of_100: 0,
            jitter: 0,
            elsewhere: Vec::new(),
            traffic: BTreeMap::new(),
        }
    }

    /// An end point with this session, at this place; nothing of it is there yet but its channel and a buffer of 4 KiB.
    pub(crate) fn add(&mut self, language: Language, place: Place, session: u32, channel: Channel) -> usize {
        let program = match language {
            Language::C => Program::C(Driven::start()),
            Language::Rust => Program::Rust(RustEnd::new()),
        };
        let mut node = Node { program, place, next: 0, messages: Vec::new() };
        begin(&mut node.program, session, channel);
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// It begins again, as another session that knows nothing.
    pub(crate) fn restart(&mut self, node: usize, session: u32, channel: Channel) {
        begin(&mut self.nodes[node].program, session, channel);
        self.nodes[node].next = 0;
    }

    /// A topic as a publisher (1) or a subscriber (2).
    pub(crate) fn topic(&mut self, node: usize, role: u8, name: &str) -> usize {
        let said = self.ask(node, &format!("add {role} 100000 5000 {}", text::hex(name.as_bytes())));
        self.nodes[node].next = 0;
        said.value.parse().unwrap()
    }

    /// It is somewhere else from now on.
    pub(crate) fn move_to(&mut self, node: usize, place: Place) {
        self.nodes[node].place = place;
    }

    pub(crate) fn ask(&mut self, node: usize, command: &str) -> Said {
        let said = self.nodes[node].program.ask(command);
        self.take(node, &said);
        said
    }

    pub(crate) fn publish(&mut self, node: usize, topic: usize, priority: i16, message: &[u8]) -> i32 {
        let command = format!("publish {} {topic} {priority} 0 {}", self.now, text::hex(message));
        self.ask(node, &command).value.parse().unwrap()
    }

    /// Hands it octets now, as if they had come from there.
    pub(crate) fn hand(&mut self, node: usize, from: Place, octets: &[u8]) -> Said {
        let command = format!("handle {} {} {}", self.now, from.text(), text::hex(octets));
        self.ask(node, &command)
    }

    fn take(&mut self, node: usize, said: &Said) {
        let from = self.nodes[node].place;
        self.nodes[node].messages.extend(said.messages.iter().cloned());
        for (to, octets) in &said.sent {
            let counted = self.traffic.entry(*to).or_default();
            *counted = (counted.0 + 1, counted.1 + octets.len() as u64);
            self.send(from, *to, octets);
        }
    }

    /// Sends a datagram; to the group: to each node, the sender as well.
    pub(crate) fn send(&mut self, from: Place, to: Place, octets: &[u8]) {
        let places: Vec<Place> = match to {
            Place::At(address) if address == group() => self.nodes.iter().map(|node| node.place).collect(),
            to => vec![to],
        };
        for to in places {
            if self.random.u8(0..100) < self.lost_of_100 {
                continue;
            }
            let arrives = self.now + DELAY + self.random.u64(0..=self.jitter);
            self.sent += 1;
            self.under_way.insert((arrives, self.sent), (from, to, octets.to_vec()));
        }
    }

    /// Goes on for so long.
    pub(crate) fn run(&mut self, ms: u64) {
        let until = self.now + ms * MS;
        loop {
            let timeout = self.nodes.iter().enumerate().map(|(at, node)| (node.next.max(self.now), at)).min();
            let arrival = self.under_way.first_key_value().map(|(&(when, _), _)| when);
            let timeout = timeout.filter(|&(when, _)| arrival.is_none_or(|arrival| when < arrival));
            let next = timeout.map(|(when, _)| when).or(arrival);
            let Some(next) = next.filter(|&next| next <= until) else { break };
            self.now = next;
            match timeout {
                Some((_, node)) => self.tick(node),
                None => self.arrive(),
            }
        }
        self.now = until;
    }

    fn tick(&mut self, node: usize) {
        let said = self.ask(node, &format!("tick {}", self.now));
        self.nodes[node].next = said.value.parse().unwrap();
        assert!(self.nodes[node].next > self.now, "it wants to be called again at once");
    }

    fn arrive(&mut self) {
        let Some((_, (from, to, octets))) = self.under_way.pop_first() else { return };
        match self.nodes.iter().position(|node| node.place == to) {
            Some(node) => {
                let said = self.hand(node, from, &octets);
                assert_eq!(said.value, octets.len().to_string(), "a datagram is always consumed");
                self.tick(node);
            }
            None => self.elsewhere.push((from, to, octets)),
        }
    }

    pub(crate) fn messages(&self, node: usize) -> &[String] {
        &self.nodes[node].messages
    }

    /// One of its counters.
    pub(crate) fn counter(&mut self, node: usize, name: &str) -> u64 {
        let said = self.ask(node, "tell");
        field(&said.value, name)
    }

    /// A number that it tells of its topic.
    pub(crate) fn of_topic(&mut self, node: usize, topic: usize, name: &str) -> u64 {
        let reported = self.ask(node, "tell").reported;
        let begin = format!("topic {topic} ");
        field(reported.iter().find(|line| line.starts_with(&begin)).expect("it has the topic"), name)
    }

    /// A number that it tells of a peer by that session, if it knows one.
    pub(crate) fn of_peer(&mut self, node: usize, session: u32, name: &str) -> Option<u64> {
        let reported = self.ask(node, "tell").reported;
        let begin = format!("peer {session} ");
        reported.iter().find(|line| line.starts_with(&begin)).map(|line| field(line, name))
    }
}

fn begin(program: &mut Program, session: u32, channel: Channel) {
    let (kind, place) = match channel {
        Channel::None => (0, text::address(None)),
        Channel::Peer(place) => (1, place.text()),
        Channel::Group(group) => (2, Place::At(group).text()),
    };
    let secret = u64::from(session).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    program.ask(&format!("begin {session} {secret} {} {kind} {place} 4096 {PERIOD_MS}", !secret));
}

/// A number from `name=number`.
pub(crate) fn field(line: &str, name: &str) -> u64 {
    let begin = format!("{name}=");
    let word = line.split(' ').find_map(|word| word.strip_prefix(&begin));
    word.unwrap_or_else(|| panic!("no {name} in {line}")).parse().unwrap()
}

/// A message's octets, of a line that tells it.
pub(crate) fn message(line: &str) -> Vec<u8> {
    text::octets(line.rsplit_once("octets=").unwrap().1)
}
