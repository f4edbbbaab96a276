//! The eight messages of GIOP 1.0, 1.1 and 1.2, parsed and written in place.
//!
//! CORBA 3.3 part 2, 9.4. A message is a header of twelve octets and a rest:
//!
//! ```text
//!  0       4     5     6       7      8            12
//! +-------+-----+-----+-------+------+------------+---------------------------
//! | GIOP  |  1  |minor| flags | kind | size       | size octets
//! +-------+-----+-----+-------+------+------------+---------------------------
//!                       bit 0: little endian; bit 1: more fragments follow (from 1.1 on)
//! ```
//!
//! Positions for alignment are counted from the `G`. Parsing a request or a reply reads its head and returns the offset of its body; the
//! body is left to code that knows its type. Parsed values borrow from the message, without allocation. Whole messages come from
//! [`crate::framing`], which also reassembles fragments: this module sees none.

mod contexts;
mod parse;
mod target;
mod template;
mod write;

#[cfg(test)]
mod tests;

pub use contexts::{ServiceContexts, ServiceContextsIter};
pub(crate) use parse::behind_header;
pub use parse::{
    CancelRequest, LocateReply, LocateRequest, LocateStatus, Reply, ReplyStatus, Request, Response, body_at,
};
pub use target::Target;
pub use template::{RequestTemplate, empty_reply, parse_empty_reply};
pub use write::{
    Open, ReplyHead, RequestHead, begin_locate_reply, begin_reply, begin_request, cancel_request, close_connection,
    locate_reply, locate_request, message_error,
};

use crate::cdr::{CharSet, Encoding, Endian, Version};
use core::fmt;

/// Octets of the header that every message starts with.
pub const HEADER_LEN: usize = 12;

/// The first four octets of every message.
pub(crate) const MAGIC: [u8; 4] = *b"GIOP";

/// Bit of the flags that says that numbers are sent least significant octet first.
const FLAG_LITTLE_ENDIAN: u8 = 1;

/// Bit of the flags: fragments follow.
pub(crate) const FLAG_MORE_FRAGMENTS: u8 = 2;

/// Offset of the flags in the header.
pub(crate) const FLAGS_AT: usize = 6;

/// Offset of the size in the header.
pub(crate) const SIZE_AT: usize = 8;

/// The kind of a message (CORBA 3.3 part 2, table 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// An invocation; from the client.
    Request,
    /// The answer to a request.
    Reply,
    /// The client no longer wants the answer to a request.
    CancelRequest,
    /// Asks whether an object exists at this server.
    LocateRequest,
    /// The answer to that.
    LocateReply,
    /// The sender closes the connection in good order; it has not processed unanswered requests.
    CloseConnection,
    /// The sender could not make sense of a message.
    MessageError,
    /// Continues a message that announced more in its header; from GIOP 1.1 on.
    Fragment,
}

impl MessageKind {
    const ALL: [Self; 8] = [
        Self::Request,
        Self::Reply,
        Self::CancelRequest,
        Self::LocateRequest,
        Self::LocateReply,
        Self::CloseConnection,
        Self::MessageError,
        Self::Fragment,
    ];

    /// The number of this kind in a header.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Request => 0,
            Self::Reply => 1,
            Self::CancelRequest => 2,
            Self::LocateRequest => 3,
            Self::LocateReply => 4,
            Self::CloseConnection => 5,
            Self::MessageError => 6,
            Self::Fragment => 7,
        }
    }

    /// Name of the kind as the standard writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "Request",
            Self::Reply => "Reply",
            Self::CancelRequest => "CancelRequest",
            Self::LocateRequest => "LocateRequest",
            Self::LocateReply => "LocateReply",
            Self::CloseConnection => "CloseConnection",
            Self::MessageError => "MessageError",
            Self::Fragment => "Fragment",
        }
    }
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The twelve octets that every message starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// GIOP version of the message.
    pub version: Version,
    /// Byte order of the whole message, the size in the header included.
    pub endian: Endian,
    /// Whether the message continues in a fragment; never in GIOP 1.0.
    pub more_fragments: bool,
    /// Kind of the message.
    pub kind: MessageKind,
    /// Octets that follow the header.
    pub size: u32,
}

impl Header {
    /// Reads the header from the front of `bytes`, which may go on behind it.
    ///
    /// Reserved bits of the flags are not looked at, as the standard leaves them to later versions.
    ///
    /// # Errors
    /// There are fewer than twelve octets, or they are not a header of GIOP 1.0, 1.1 or 1.2.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let Some(&[g, i, o, p, major, minor, flags, kind, s0, s1, s2, s3]) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(HeaderError::Truncated { available: bytes.len() });
        };
        if [g, i, o, p] != MAGIC {
            return Err(HeaderError::BadMagic { found: [g, i, o, p] });
        }
        let version = match (major, Version::from_minor(minor)) {
            (1, Some(version)) => version,
            _ => return Err(HeaderError::BadVersion { major, minor }),
        };
        let kind = match MessageKind::ALL.get(usize::from(kind)) {
            Some(&known) if known != MessageKind::Fragment || version > Version::V1_0 => known,
            _ => return Err(HeaderError::BadKind { version, value: kind }),
        };
        let (endian, size) = if flags & FLAG_LITTLE_ENDIAN == 0 {
            (Endian::Big, u32::from_be_bytes([s0, s1, s2, s3]))
        } else {
            (Endian::Little, u32::from_le_bytes([s0, s1, s2, s3]))
        };
        // In GIOP 1.0 the octet is a boolean for the byte order and nothing else (9.4.1).
        let more_fragments = flags & FLAG_MORE_FRAGMENTS != 0 && version > Version::V1_0;
        Ok(Self { version, endian, more_fragments, kind, size })
    }

    /// Octets of the whole message, this header included.
    #[inline]
    #[must_use]
    pub fn message_len(&self) -> usize {
        usize::try_from(self.size).unwrap_or(usize::MAX).saturating_add(HEADER_LEN)
    }

    /// The encoding of the message's values on a connection with the code set `chars`.
    #[inline]
    #[must_use]
    pub const fn encoding(&self, chars: CharSet) -> Encoding {
        Encoding { endian: self.endian, version: self.version, chars }
    }
}

/// Twelve octets that are not a GIOP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// Fewer than twelve octets were given: the caller's mistake, as more may still arrive.
    Truncated {
        /// Number of octets given.
        available: usize,
    },
    /// The first four are not `GIOP`.
    BadMagic {
        /// The first four octets.
        found: [u8; 4],
    },
    /// A version that this crate does not speak.
    BadVersion {
        /// Major version as sent.
        major: u8,
        /// Minor version as sent.
        minor: u8,
    },
    /// A kind of message that the version does not have.
    BadKind {
        /// The version.
        version: Version,
        /// The kind as sent.
        value: u8,
    },
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { available } => {
                write!(f, "a GIOP header takes {HEADER_LEN} octets where {available} are there")
            }
            Self::BadMagic { found } => {
                write!(f, "a message starts with \"{}\" instead of \"GIOP\"", found.escape_ascii())
            }
            Self::BadVersion { major, minor } => {
                write!(f, "a message is of GIOP {major}.{minor}; 1.0, 1.1 and 1.2 are spoken here")
            }
            Self::BadKind { version, value } => {
                write!(f, "a message is of kind {value}, which GIOP 1.{} does not have", version.minor())
            }
        }
    }
}

impl core::error::Error for HeaderError {}
