//! What an end point is to be, and why something is refused.

use core::net::SocketAddr;

use super::reports::Place;
use crate::wire::{self, PERIODS_MS};

/// Datagrams have room for the longest announcement.
const DATAGRAMS: core::ops::RangeInclusive<usize> = 512..=65_507;

/// The only thing that tells the four ways of running apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// It waits for peers that announce themselves here.
    None,
    /// It announces itself to a peer, or a broker.
    Peer(Place),
    /// It announces itself and sends to a multicast group, or a broadcast address.
    Group(SocketAddr),
}

/// What an end point is called by brokers, which show it to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    octets: [u8; Self::OCTETS_MAX],
    count: usize,
}

impl Name {
    /// Octets of a name, at most.
    pub const OCTETS_MAX: usize = 64;
    /// None: brokers are told nothing.
    pub const NONE: Self = Self { octets: [0; Self::OCTETS_MAX], count: 0 };

    /// A name, unless it is longer than [`Name::OCTETS_MAX`] or has control characters. An empty one is none.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let mut octets = [0; Self::OCTETS_MAX];
        octets.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        (name.is_empty() || wire::is_name(name)).then_some(Self { octets, count: name.len() })
    }

    /// The same as text; empty if there is none.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.octets.get(..self.count).and_then(|octets| core::str::from_utf8(octets).ok()).unwrap_or_default()
    }
}

/// What an end point is to be.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// A number drawn at random when the process begins; 0 counts as 1.
    pub session: u32,
    /// Drawn at random when the process begins: makes cookies that no peer can make.
    pub secret: (u64, u64),
    /// Where it announces itself.
    pub channel: Channel,
    /// Milliseconds between two announcements: 10 to 60,000; by default 1,000.
    pub period_ms: u16,
    /// Octets of a datagram: 512 to 65,507; by default [`wire::DATAGRAM`].
    pub datagram: usize,
    /// What brokers are told that it is called; by default nothing.
    pub name: Name,
    /// For what is left to chance: when exactly to announce, and with which number to begin.
    pub seed: u64,
}

impl Settings {
    /// The usual ones.
    #[must_use]
    pub const fn new(session: u32, secret: (u64, u64), channel: Channel) -> Self {
        let seed = secret.0 ^ session as u64;
        Self { session, secret, channel, period_ms: 1_000, datagram: wire::DATAGRAM, name: Name::NONE, seed }
    }

    /// What is outside its range counts as the nearest within.
    pub(super) const fn within_ranges(mut self) -> Self {
        if self.session == 0 {
            self.session = 1;
        }
        if self.period_ms < *PERIODS_MS.start() {
            self.period_ms = *PERIODS_MS.start();
        } else if self.period_ms > *PERIODS_MS.end() {
            self.period_ms = *PERIODS_MS.end();
        }
        if self.datagram < *DATAGRAMS.start() {
            self.datagram = *DATAGRAMS.start();
        } else if self.datagram > *DATAGRAMS.end() {
            self.datagram = *DATAGRAMS.end();
        }
        self
    }
}

/// Why something is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// There are as many topics as there is room for (one that was removed stays until all peers have been notified).
    TooManyTopics,
    /// The name is empty, longer than 255 octets, or has control characters.
    Name,
    /// The topic is there already, in that role.
    Exists,
    /// There is no such topic any more.
    UnknownTopic,
    /// Only publishers publish.
    Role,
    /// The message is larger than its topic's largest, or than all blocks.
    TooLarge {
        /// Octets that it may have.
        largest: usize,
    },
    /// There is no room for it at the moment. Nothing of it is kept.
    Full,
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooManyTopics => f.write_str("this end point has as many topics as it has room for"),
            Self::Name => f.write_str("a topic's name has 1 to 255 octets and no control characters"),
            Self::Exists => f.write_str("the topic is there already, in this role"),
            Self::UnknownTopic => f.write_str("the topic has been removed"),
            Self::Role => f.write_str("only a publisher can publish"),
            Self::TooLarge { largest } => write!(f, "the message is too large: {largest} octets at most"),
            Self::Full => f.write_str("no room is left for messages that wait to be sent"),
        }
    }
}

impl core::error::Error for Refused {}
