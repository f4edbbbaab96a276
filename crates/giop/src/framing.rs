//! The receiving side of one connection: bytes in, whole messages out.
//!
//! CORBA 3.3 part 2, 9.4.1 and 9.4.9. [`Inbound`] owns the buffer that the socket is read into, finds the messages in it and puts fragments
//! together, so that its caller gets whole messages only. It has no socket and no clock: the owner of the connection reads, and decides for
//! how long a message may stay incomplete.
//!
//! Memory grows with the bytes received and not with the size in a header, and [`Limits`] bounds everything that a peer sends.

mod fragments;
mod inbound;

#[cfg(test)]
mod tests;

pub use inbound::{Inbound, Incomplete, Message};

use crate::cdr::Version;
use crate::message::{HeaderError, MessageKind};
use core::fmt;

/// Limits of the memory that a peer can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Octets of one message, header included, whether it comes in one piece or in fragments. Default 16 MiB.
    pub message_bytes_max: usize,
    /// Messages with fragments on their way at once. Default 16.
    pub fragment_sets_max: usize,
    /// Octets of all messages with fragments on their way. Default 32 MiB.
    pub fragment_bytes_max: usize,
    /// Octets requested from the socket at once, unless the current message is larger: the buffer size of an idle connection. Default 64
    /// KiB; at least 256.
    pub read_bytes: usize,
    /// Capacity above which a buffer is freed as soon as its message has been handled. A smaller buffer is retained, so that messages up to
    /// this size need no allocation. Default 256 KiB; at least `read_bytes`.
    pub retained_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes_max: 16 << 20,
            fragment_sets_max: 16,
            fragment_bytes_max: 32 << 20,
            read_bytes: 64 << 10,
            retained_bytes_max: 256 << 10,
        }
    }
}

/// The bytes are not GIOP, or exceed a limit. The connection is unusable: answer [`crate::message::message_error`] and close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// Fewer octets than a header has. [`crate::message::Header::parse`] reports it; [`Inbound`] waits for more instead.
    Truncated {
        /// Octets that there are.
        available: usize,
    },
    /// A message does not start with `GIOP`.
    BadMagic {
        /// The first octets; zeros stand for missing ones.
        found: [u8; 4],
    },
    /// The message's version is not supported.
    BadVersion {
        /// Major version as sent.
        major: u8,
        /// Minor version as sent.
        minor: u8,
    },
    /// A message is of a kind that its version does not have.
    BadKind {
        /// The version.
        version: Version,
        /// The kind as sent.
        value: u8,
    },
    /// A message is larger than [`Limits::message_bytes_max`].
    TooLarge {
        /// Octets of the message, header included, as far as they are known.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// More messages are incomplete than [`Limits::fragment_sets_max`].
    TooManyFragmentSets {
        /// The limit.
        max: usize,
    },
    /// All incomplete messages together exceed [`Limits::fragment_bytes_max`].
    TooManyFragmentBytes {
        /// Octets that they would take.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// A message says that fragments follow, and is of a kind that never has any in its version.
    NotFragmentable {
        /// The version.
        version: Version,
        /// The kind.
        kind: MessageKind,
    },
    /// A message with fragments to follow, or a fragment, is too short to hold its request id.
    FragmentTooShort {
        /// Octets behind the header.
        size: u32,
    },
    /// A fragment belongs to no incomplete message.
    UnexpectedFragment {
        /// Request id of the fragment; `None` in GIOP 1.1, where fragments have none.
        request_id: Option<u32>,
    },
    /// A fragmented message begins while another with the same request id is incomplete; in GIOP 1.1, while any is.
    OverlappingFragments {
        /// Request id of the message; `None` in GIOP 1.1, where it does not matter.
        request_id: Option<u32>,
    },
    /// A fragment's byte order differs from that of its message.
    FragmentByteOrder,
    /// A GIOP 1.1 fragment continues a message at a place where its values would be out of alignment.
    ///
    /// See [`Inbound`] for why such a message cannot be put together.
    FragmentMisaligned {
        /// Octets of the message in front of the fragment.
        at: usize,
    },
}

impl From<HeaderError> for ProtocolError {
    fn from(error: HeaderError) -> Self {
        match error {
            HeaderError::Truncated { available } => Self::Truncated { available },
            HeaderError::BadMagic { found } => Self::BadMagic { found },
            HeaderError::BadVersion { major, minor } => Self::BadVersion { major, minor },
            HeaderError::BadKind { version, value } => Self::BadKind { version, value },
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { available } => HeaderError::Truncated { available }.fmt(f),
            Self::BadMagic { found } => HeaderError::BadMagic { found }.fmt(f),
            Self::BadVersion { major, minor } => HeaderError::BadVersion { major, minor }.fmt(f),
            Self::BadKind { version, value } => HeaderError::BadKind { version, value }.fmt(f),
            Self::TooLarge { size, max } => {
                write!(f, "a message takes {size} octets or more where at most {max} are accepted")
            }
            Self::TooManyFragmentSets { max } => {
                write!(f, "more than {max} messages were begun in fragments and not finished")
            }
            Self::TooManyFragmentBytes { size, max } => {
                write!(f, "unfinished messages in fragments take {size} octets where at most {max} are accepted")
            }
            Self::NotFragmentable { version, kind } => {
                write!(f, "a {kind} says that fragments follow, which it cannot have in GIOP 1.{}", version.minor())
            }
            Self::FragmentTooShort { size } => {
                write!(f, "a part of a message in fragments has {size} octets, too few for its request id")
            }
            Self::UnexpectedFragment { request_id: Some(id) } => {
                write!(f, "a fragment continues request {id}, which was not begun in fragments")
            }
            Self::UnexpectedFragment { request_id: None } => f.write_str("a fragment continues nothing"),
            Self::OverlappingFragments { request_id: Some(id) } => {
                write!(f, "request {id} is begun in fragments for a second time before it is finished")
            }
            Self::OverlappingFragments { request_id: None } => {
                f.write_str("a message of GIOP 1.1 is begun in fragments before another is finished")
            }
            Self::FragmentByteOrder => {
                f.write_str("a fragment is in another byte order than the message that it continues")
            }
            Self::FragmentMisaligned { at } => write!(
                f,
                "a GIOP 1.1 fragment continues a message at octet {at}, which is not 4 more than a multiple of 8, so \
                 that its values would be out of alignment; use GIOP 1.2"
            ),
        }
    }
}

impl core::error::Error for ProtocolError {}
