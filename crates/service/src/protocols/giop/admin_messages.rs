//! Messages between this protocol and administration: requests and their answers, and calls of clients' objects.

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
    /// The lane with the request's connection.
    pub(crate) lane: LaneThread,
    /// The connection on which it came, and to which the reply goes.
    pub(crate) connection: Token,
    /// The connection's line, as a sign of life.
    pub(crate) line: Arc<corba::Line>,
    /// What its client has offered on it.
    pub(crate) offer: Option<Arc<corba::Offer>>,
    /// The whole GIOP message.
    pub(crate) message: Vec<u8>,
    /// Code set of the connection's narrow strings.
    pub(crate) chars: CharSet,
    /// Charge on the client until the request is answered.
    pub(crate) charge: Charge,
    /// Whether the answer may be large: a connection has one such request here at a time.
    pub(crate) may_be_large: bool,
}

impl Request {
    /// The message with the answer, and the lane that gets it: `bytes`, or nothing if the request is one-way.
    pub(crate) fn answered(self, bytes: Vec<u8>) -> (LaneThread, ToLane) {
        let Self { lane, connection, message, may_be_large, .. } = self;
        let reply = ToProtocol { connection, bytes, request_bytes: message.len(), may_be_large, closes: false };
        (lane, ToLane::Protocol(protocols::ToProtocol::Giop(reply)))
    }

    /// The message to close the connection instead, and the lane that gets it.
    pub(crate) fn closing(self) -> (LaneThread, ToLane) {
        let Self { lane, connection, message, may_be_large, .. } = self;
        let reply =
            ToProtocol { connection, bytes: Vec::new(), request_bytes: message.len(), may_be_large, closes: true };
        (lane, ToLane::Protocol(protocols::ToProtocol::Giop(reply)))
    }
}

/// Answer to a connection's request of that size; empty if the request is one-way. Every request gets one.
#[derive(Debug)]
pub(crate) struct ToProtocol {
    connection: Token,
    bytes: Vec<u8>,
    request_bytes: usize,
    may_be_large: bool,
    /// Whether the connection is closed, and its requests have no answer.
    closes: bool,
}

impl ToProtocol {
    /// Replaces the answer.
    pub(crate) fn set_bytes(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }
}

impl Clients {
    /// Passes on an answer of administration.
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
    /// The account that gave the object's reference, if known.
    pub(crate) by: Option<Arc<Account>>,
    /// Connections that the client has offered for calls to the object.
    pub(crate) offered: Option<Arc<corba::Offered>>,
    pub(crate) operation: &'static str,
    /// Arguments, in native byte order from position 0 of a body of GIOP 1.2.
    pub(crate) body: Vec<u8>,
    /// Maximum time for the client to answer.
    pub(crate) timeout: Duration,
}

/// A client's answer to a call: the body of its reply, as it arrived.
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
    /// A reader at the start of the result.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::with_phase(&self.body, self.phase, self.encoding)
    }
}

/// Why a call to a client failed.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// There was no connection, or it broke.
    Unreachable(String),
    /// No reply came in time.
    TimedOut,
    /// The reply was a system exception.
    System(SystemException),
    /// The reply was a user exception, with this repository id.
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

/// Byte order of messages that the service begins: little-endian GIOP 1.2 with ISO 8859-1 strings unless said otherwise.
pub(crate) const OWN_ENDIAN: Endian = Endian::NATIVE;
/// Highest GIOP version supported.
pub(crate) const OWN_VERSION: Version = Version::V1_2;
