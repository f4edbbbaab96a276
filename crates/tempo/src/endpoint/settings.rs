//! Settings of an end point, and reasons for refusals.

use core::net::SocketAddr;

use super::reports::Place;
use crate::wire::{self, PERIODS_MS};

/// Range of datagram sizes, with room for the longest announcement.
const DATAGRAMS: core::ops::RangeInclusive<usize> = 512..=65_507;

/// Destination of announcements; this alone distinguishes the four ways of running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// No destination: it waits for peers that announce themselves here.
    None,
    /// A peer, or a broker.
    Peer(Place),
    /// A multicast group, or a broadcast address; messages go there, too.
    Group(SocketAddr),
}

/// The end point's name, which brokers show to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    octets: [u8; Self::OCTETS_MAX],
    count: usize,
}

impl Name {
    /// Maximum octets of a name.
    pub const OCTETS_MAX: usize = 64;
    /// No name: brokers get none.
    pub const NONE: Self = Self { octets: [0; Self::OCTETS_MAX], count: 0 };

    /// A name; `None` if it is longer than [`Name::OCTETS_MAX`] or has control characters. An empty text is no name.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let mut octets = [0; Self::OCTETS_MAX];
        octets.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        (name.is_empty() || wire::is_name(name)).then_some(Self { octets, count: name.len() })
    }

    /// The name as text; empty if there is none.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.octets.get(..self.count).and_then(|octets| core::str::from_utf8(octets).ok()).unwrap_or_default()
    }
}

/// Settings of an end point.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// A number drawn at random when the process begins; 0 counts as 1.
    pub session: u32,
    /// A secret for cookies, drawn at random when the process begins, so that peers cannot forge them.
    pub secret: (u64, u64),
    /// Destination of its announcements.
    pub channel: Channel,
    /// Announcement period in milliseconds: 10 to 60,000; by default 1,000.
    pub period_ms: u16,
    /// Maximum octets of a datagram: 512 to 65,507; by default [`wire::DATAGRAM`].
    pub datagram: usize,
    /// Name sent to brokers; by default none.
    pub name: Name,
    /// Seed for random choices: the jitter of announcements, and the first sequence numbers.
    pub seed: u64,
}

impl Settings {
    /// The default settings.
    #[must_use]
    pub const fn new(session: u32, secret: (u64, u64), channel: Channel) -> Self {
        let seed = secret.0 ^ session as u64;
        Self { session, secret, channel, period_ms: 1_000, datagram: wire::DATAGRAM, name: Name::NONE, seed }
    }

    /// Limits each value to its range.
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

/// Why a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// There is no room for another topic (a removed topic stays until all peers have been notified).
    TooManyTopics,
    /// The name is empty, longer than 255 octets, or has control characters.
    Name,
    /// The end point has this topic in this role already.
    Exists,
    /// The topic does not exist any more.
    UnknownTopic,
    /// Only publishers publish.
    Role,
    /// The message is larger than its topic allows, or than all blocks.
    TooLarge {
        /// Maximum octets.
        largest: usize,
    },
    /// There is no room at the moment. Nothing of the message is stored.
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
