//! What lanes, administration and the resolver tell each other.
//!
//! Lanes own all sockets, administration owns all objects, and neither waits for the other: a lane that cannot post to
//! administration answers `TRANSIENT` itself.

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Instant;

use engine::{DisconnectReason, Notice, OutboxStats, ProxyKey, TypeDrops};
use giop::cdr::{CharSet, Encoding, Endian, Reader, Version};
use giop::exception::SystemException;
use giop::ior::Ior;

use super::reports::printable;
use super::slots::Token;
use super::system::Bell;

/// A request for an object that administration owns, as it arrived.
#[derive(Debug)]
pub(crate) struct Request {
    /// The connection it came on and to which the reply goes.
    pub(crate) connection: Token,
    /// The whole GIOP message.
    pub(crate) message: Vec<u8>,
    /// Code set of the connection's narrow strings.
    pub(crate) chars: CharSet,
}

impl Request {
    /// What the lane is told when it is answered: `bytes`, or nothing if it was one-way.
    pub(crate) fn answered(self, bytes: Vec<u8>) -> ToLane {
        ToLane::Reply { connection: self.connection, bytes, request_bytes: self.message.len() }
    }
}

/// From a lane to administration.
#[derive(Debug)]
pub(crate) enum ToAdministration {
    /// A request or locate request.
    Request(Request),
    /// Something the engine wants known; of a consumer that begins to fail, why.
    Notice(Notice, Option<String>),
    /// A call that administration asked for has ended.
    Answered { call: u64, result: Result<Reply, CallFailure> },
    /// Something about a supplier that is pulled from.
    Supplier { key: ProxyKey, news: SupplierNews },
    /// Something to log, which a lane does not do itself because a log can block.
    Log(log::Level, String),
    /// The answer to [`ToLane::Survey`].
    Survey(Survey),
    /// The service is to stop.
    Stop,
}

/// How things stand on a lane.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) outboxes: Vec<OutboxStats>,
    /// If it was asked for.
    pub(crate) drops: Vec<NamedDrops>,
    /// How many more events were dropped than `drops` has places for.
    pub(crate) drops_beyond: u64,
}

/// What was dropped of one event type, by its names.
#[derive(Debug)]
pub(crate) struct NamedDrops {
    pub(crate) drops: TypeDrops,
    pub(crate) domain: String,
    pub(crate) name: String,
}

/// What happened to a supplier that is pulled from.
#[derive(Debug)]
pub(crate) enum SupplierNews {
    /// It has begun to fail.
    Failing { why: String, retry_in: Duration },
    /// It answers again.
    Recovered,
    /// It is not asked any more: the proxy is to be disconnected.
    Disconnected(DisconnectReason),
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

/// From administration or the resolver to a lane.
#[derive(Debug)]
pub(crate) enum ToLane {
    /// What a connection's request of that size is answered; nothing if it is one-way. Every request gets one.
    Reply { connection: Token, bytes: Vec<u8>, request_bytes: usize },
    /// A call to a client's object.
    Call { call: u64, to: Ior, operation: &'static str, body: Vec<u8>, timeout: Duration },
    /// A host name's addresses, the one to try first at the end, or why there are none.
    Resolved { connection: Token, addresses: Result<Vec<SocketAddr>, String> },
    /// Tell how each outbox stands and, if asked, what was dropped by event type.
    Survey { drops: bool },
    /// The service stops: close connections and end.
    Stop,
}

/// A host name to look up.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub(crate) connection: Token,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Nobody waits for the answer after this.
    pub(crate) until: Instant,
}

/// The way into a lane: a queue and the bell that says there is something in it.
#[derive(Debug, Clone)]
pub(crate) struct LaneBox {
    pub(crate) queue: SyncSender<ToLane>,
    pub(crate) bell: Arc<Bell>,
}

impl LaneBox {
    /// Posts and wakes the lane. May wait for room, so lanes never use it. False when the lane has ended.
    pub(crate) fn post(&self, mail: ToLane) -> bool {
        let posted = self.queue.send(mail).is_ok();
        self.bell.ring();
        posted
    }
}

/// Messages that may wait for a lane; administration waits when there are more.
pub(crate) const LANE_QUEUE: usize = 4096;

/// Body of what we send of our own accord: little-endian GIOP 1.2 with ISO 8859-1 strings unless said otherwise.
pub(crate) const OWN_ENDIAN: Endian = Endian::NATIVE;
/// Highest version we speak.
pub(crate) const OWN_VERSION: Version = Version::V1_2;

/// Takes what is in the queue without waiting.
pub(crate) fn take(queue: &Receiver<ToLane>) -> Option<ToLane> {
    queue.try_recv().ok()
}
