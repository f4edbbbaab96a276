//! Breaches of the protocol by a peer.

use core::fmt;

use crate::wire::Kind;

/// A breach of the protocol by the peer. The session is closed with a Goodbye that states it as the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// The length of a frame exceeds the limit.
    FrameTooLong {
        /// The announced length.
        octets: u32,
        /// The limit, lower before Hello.
        limit: u32,
    },
    /// A frame is empty, so that it has no kind.
    NoKind,
    /// The kind of a frame is unknown in this version.
    UnknownKind(u8),
    /// The first frame is not Hello.
    HelloExpected(Kind),
    /// A second Hello arrived.
    HelloRepeated,
    /// The first frame does not begin with [`Hello::MAGIC`](crate::wire::Hello::MAGIC).
    NotALink,
    /// A frame ends within a field.
    Incomplete(Kind, &'static str),
    /// Octets follow the last field of a frame.
    Trailing(Kind, usize),
    /// A field is longer than the limit.
    TooLong {
        /// The field.
        field: &'static str,
        /// Its octets.
        octets: u64,
        /// The limit in octets.
        limit: u64,
    },
    /// A list has more entries than the limit.
    TooMany {
        /// The field.
        field: &'static str,
        /// Its entries.
        entries: u64,
        /// The limit in entries.
        limit: u64,
    },
    /// A text is not UTF-8.
    NotUtf8(&'static str),
    /// A field has a value without meaning.
    OutOfRange(&'static str, u64),
    /// An event's number is not the next of its flow.
    OutOfSequence {
        /// The expected number.
        expected: u64,
        /// The number of the event.
        found: u64,
    },
    /// More events of a flow are in flight than the limit.
    TooManyOutstanding {
        /// The limit in events.
        limit: u32,
    },
    /// More octets of a flow are in flight than the window's limit.
    WindowExceeded {
        /// Octets in flight including the last event.
        octets: u64,
        /// The limit in octets.
        limit: u64,
    },
    /// The peer acknowledged or rejected an event that was not sent.
    NotSent {
        /// The number in the frame.
        number: u64,
        /// The last number that was sent.
        sent: u64,
    },
    /// An acknowledgement is lower than the last, or a rejected event was acknowledged before.
    Acknowledged {
        /// The number in the frame.
        number: u64,
        /// The last number that was acknowledged.
        acknowledged: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::FrameTooLong { octets, limit } => write!(
                f,
                "a frame of {octets} octets exceeds the limit of {limit}: check that the peer is a Campanile's link port, and the size of its events"
            ),
            Self::NoKind => f.write_str("a frame has no kind: check what is between the services"),
            Self::UnknownKind(kind) => write!(f, "frames of kind {kind} are unknown: check the peer's version"),
            Self::HelloExpected(kind) => {
                write!(f, "{kind:?} came before Hello: check that the peer is a Campanile's link port")
            }
            Self::HelloRepeated => f.write_str("Hello came a second time: report this with both versions"),
            Self::NotALink => f.write_str("the peer does not speak the link protocol: check the address in `to`"),
            Self::Incomplete(kind, field) => {
                write!(f, "{kind:?} ends within its field `{field}`: report this with both versions")
            }
            Self::Trailing(kind, octets) => {
                write!(f, "{octets} octets follow the last field of {kind:?}: report this with both versions")
            }
            Self::TooLong { field, octets, limit } => {
                write!(f, "`{field}` of {octets} octets exceeds the limit of {limit}: shorten it at the peer")
            }
            Self::TooMany { field, entries, limit } => {
                write!(f, "`{field}` of {entries} entries exceeds the limit of {limit}: list fewer at the peer")
            }
            Self::NotUtf8(field) => write!(f, "`{field}` is not UTF-8: rename it at the peer"),
            Self::OutOfRange(field, value) => {
                write!(f, "`{field}` has no meaning with the value {value}: report this with both versions")
            }
            Self::OutOfSequence { expected, found } => write!(
                f,
                "event {found} came where {expected} was the next: the link reconnects; check what is between the services if this repeats"
            ),
            Self::TooManyOutstanding { limit } => {
                write!(f, "more than {limit} events are in flight: report this with both versions")
            }
            Self::WindowExceeded { octets, limit } => {
                write!(f, "{octets} octets in flight exceed the window of {limit}: report this with both versions")
            }
            Self::NotSent { number, sent } => {
                write!(f, "event {number} is acknowledged and {sent} was the last sent: report this with both versions")
            }
            Self::Acknowledged { number, acknowledged } => write!(
                f,
                "an acknowledgement of event {number} came after that of {acknowledged}: report this with both versions"
            ),
        }
    }
}

impl core::error::Error for Violation {}
