//! What this protocol and administration tell each other: requests and their answers, and calls of clients' objects.

use core::time::Duration;
use std::sync::Arc;

use giop::cdr::{CharSet, Encoding, Endian, Reader, Version};
use giop::exception::SystemException;
use giop::ior::Ior;

use crate::lane::io::slots::Token;
use crate::lane::links::messages::{LaneThread, ToLane};
use crate::lane::reports::printable;
use crate::lane::run::Core;
use crate::protocols;
use crate::protocols::giop::callers::Clients;
use accounts::{Account, Charge};

/// A request for an object that administration owns, as it arrived.
#[derive(Debug)]
pub(crate) struct Request {
    /// The lane that has its connection.
    pub(crate) lane: LaneThread,
    /// The connection it came on and to which the reply goes.
    pub(crate) connection: Token,
    /// The same connection as a sign of life.
    pub(crate) line: Arc<corba::Line>,
    /// The whole GIOP message.
    pub(crate) message: Vec<u8>,
    /// Code set of the connection's narrow strings.
    pub(crate) chars: CharSet,
    /// What the client that asks is charged until it is answered.
    pub(crate) charge: Charge,
    /// Whether the answer may be large: a connection has one such request here at a time.
    pub(crate) may_be_large: bool,
}

impl Request {
    /// The lane that gets the answer, and the message for it: `bytes`, or nothing if it was one-way.
    pub(crate) fn answered(self, bytes: Vec<u8>) -> (LaneThread, ToLane) {
        let Self { lane, connection, message, may_be_large, .. } = self;
        let reply = ToProtocol { connection, bytes, request_bytes: message.len(), may_be_large, closes: false };
        (lane, ToLane::Protocol(protocols::ToProtocol::Giop(reply)))
    }

    /// The lane that closes the connection instead, and the message for it.
    pub(crate) fn closing(self) -> (LaneThread, ToLane) {
        let Self { lane, connection, message, may_be_large, .. } = self;
        let reply =
            ToProtocol { connection, bytes: Vec::new(), request_bytes: message.len(), may_be_large, closes: true };
        (lane, ToLane::Protocol(protocols::ToProtocol::Giop(reply)))
    }
}

/// What a connection's request of that size is answered; nothing if it is one-way. Every request gets one.
#[derive(Debug)]
pub(crate) struct ToProtocol {
    connection: Token,
    bytes: Vec<u8>,
    request_bytes: usize,
    may_be_large: bool,
    /// The connection is closed, and this and its other requests have no answer.
    closes: bool,
}

impl ToProtocol {
    /// Has it say something else.
    pub(crate) fn set_bytes(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }
}

impl Clients {
    /// Passes on what administration has answered.
    pub(crate) fn pass_answer(&mut self, reply: ToProtocol, core: &mut Core) {
        let ToProtocol { connection, bytes, request_bytes, may_be_large, closes } = reply;
        if closes {
            return self.close(connection, core);
        }
        if may_be_large {
            self.note_large_answer(connection, bytes.len(), core);
        }
        self.pass_reply(connection, request_bytes, |output| output.push_bytes(bytes), core);
    }
}

/// A call of a client's object.
#[derive(Debug)]
pub(crate) struct Call {
    /// The object.
    pub(crate) to: Ior,
    /// The account that gave its reference, if that is known.
    pub(crate) by: Option<Arc<Account>>,
    pub(crate) operation: &'static str,
    /// Its arguments, in our byte order from position 0 of a body of GIOP 1.2.
    pub(crate) body: Vec<u8>,
    /// How long the client may take to answer.
    pub(crate) timeout: Duration,
}

/// What a client answered to a call of ours: the body of its reply, as it arrived.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) body: Vec<u8>,
    pub(crate) encoding: Encoding,
    /// Position modulo 8 at which the body began in its message.
    pub(crate) phase: usize,
}

impl Default for Reply {
    fn default() -> Self {
        Self { body: Vec::new(), encoding: Encoding::new(OWN_ENDIAN), phase: 0 }
    }
}

impl Reply {
    /// Stands in front of the result.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::with_phase(&self.body, self.phase, self.encoding)
    }
}

/// Why a call of ours to a client failed.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// No connection, or it broke.
    Unreachable(String),
    /// No reply in time.
    TimedOut,
    /// A system exception.
    System(SystemException),
    /// A user exception, by its repository id.
    User(String),
}

impl core::fmt::Display for CallFailure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "unreachable: {why}"),
            Self::TimedOut => f.write_str("no reply in time"),
            Self::System(exception) => write!(f, "it raised {exception}"),
            Self::User(id) => write!(f, "it raised {}", printable(id)),
        }
    }
}

/// Body of what we send of our own accord: little-endian GIOP 1.2 with ISO 8859-1 strings unless said otherwise.
pub(crate) const OWN_ENDIAN: Endian = Endian::NATIVE;
/// Highest version we speak.
pub(crate) const OWN_VERSION: Version = Version::V1_2;
