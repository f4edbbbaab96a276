//! One connection, without its socket: unanswered requests, permitted messages, and its end.
//!
//! CORBA 3.3 part 2, 9.4 and 9.5.1. [`Connection`] takes sent requests ([`Connection::sent`]) and received bytes (by [`Inbound`]), and
//! returns one [`Event`] at a time. It has no socket, clock or thread: their owner decides when a request has waited for too long, and
//! writes. Its cost is in proportion to the unanswered requests, and in the steady state it allocates nothing.
//!
//! The bytes are in an [`Inbound`] of its own, so that one thread may read while another sends.

mod pending;

#[cfg(test)]
mod tests;

pub use pending::{LastPending, PendingReplies};

use crate::cdr::{ReadError, Version};
use crate::exception::Completed;
use crate::framing::{Inbound, Message, ProtocolError};
use crate::message::{
    CancelRequest, Header, LocateRequest, MessageKind, Reply, ReplyStatus, ServiceContexts, close_connection,
    message_error, parse_empty_reply,
};
use alloc::vec::Vec;
use core::fmt;

/// The side of a connection. Without bidirectional GIOP, the side that connected sends requests, and the other answers (CORBA 3.3 part 2,
/// table 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Sends requests and receives replies.
    Caller,
    /// Receives requests and sends replies.
    Server,
}

/// The meaning of a message, or of an error.
#[derive(Debug)]
pub enum Event<'a, W> {
    /// To a server: a request to carry out, unless it is malformed. Its head was not parsed yet, since a server that receives the same one
    /// repeatedly need not parse it. If it is malformed, [`Connection::malformed`] ends the connection.
    Request(Message<'a>),
    /// To a server: the caller asks whether an object exists here; [`crate::message::locate_reply`] answers.
    Locate {
        /// The message.
        message: Message<'a>,
        /// The request.
        request: LocateRequest<'a>,
    },
    /// To a server: the caller does not wait for the reply to this request any more. It may be answered all the same (9.4.4).
    Cancel {
        /// The request.
        request_id: u32,
    },
    /// To a caller: an expected reply.
    Reply {
        /// The waiting caller, as given to [`Connection::sent`].
        who: W,
        /// The head of the reply.
        reply: Reply<'a>,
        /// The whole message.
        message: Message<'a>,
    },
    /// To a caller: the reply to a request that was given up.
    LateReply {
        /// The request.
        request_id: u32,
    },
    /// The connection has ended, and no event follows.
    Closed(Closed),
}

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closed {
    /// Either side has closed it in order (`CloseConnection`, 9.4.7).
    Orderly,
    /// The peer did not understand a message (`MessageError`, 9.4.8).
    Refused,
    /// The socket ended, or failed.
    Cut,
    /// The peer violated the protocol. [`Connection::refuse`] tells the peer.
    Violation(Violation),
    /// More requests were given up and not answered yet than this side can remember.
    TooManyGivenUp {
        /// The limit.
        max: usize,
    },
}

impl Closed {
    /// Whether unanswered requests were carried out. A peer that closes in order has not carried out unanswered requests, so that they can
    /// be sent again over another connection (9.4.7); otherwise it is unknown.
    #[must_use]
    pub const fn completed(self) -> Completed {
        match self {
            Self::Orderly => Completed::No,
            _ => Completed::Maybe,
        }
    }
}

/// A violation of the protocol by the peer. The standard prescribes `MessageError` for a malformed header (9.4.8) and leaves the rest to
/// the context. Here every violation gets the same answer, and ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// The bytes are not GIOP, or exceed a limit.
    Protocol(ProtocolError),
    /// A message with a head that cannot be read.
    Malformed {
        /// The kind in its header.
        kind: MessageKind,
        /// Why.
        error: ReadError,
    },
    /// A message of a kind that only the other side sends, or that was not expected.
    Unexpected {
        /// The kind.
        kind: MessageKind,
    },
    /// A reply to an unknown request, or to one that was answered before.
    UnsolicitedReply {
        /// The request.
        request_id: u32,
    },
}

/// See the module's description.
///
/// The rule that drives a caller: write a request with [`Connection::next_id`], tell [`Connection::sent`], read; then call
/// [`Connection::poll`] until it returns `None`. A server only polls. Both tell [`Connection::cut`] when the socket ends.
///
/// `W` identifies the caller that waits for a reply.
#[derive(Debug)]
pub struct Connection<W> {
    side: Side,
    next_id: u32,
    is_first: bool,
    /// Waiting callers; `None` stands for one that gave up.
    pending: PendingReplies<Option<W>>,
    given_up: usize,
    given_up_max: usize,
    /// The version of the peer's last message, used for answers to unreadable messages.
    version: Version,
    closed: Option<Closed>,
}

impl<W> Connection<W> {
    /// Default maximum of given-up requests whose replies may still arrive: 1,024.
    pub const GIVEN_UP_MAX: usize = 1024;

    /// One end of a new connection. Ids begin with 1; up to [`Self::GIVEN_UP_MAX`] requests may be given up.
    #[must_use]
    pub fn new(side: Side) -> Self {
        Self {
            side,
            next_id: 1,
            is_first: true,
            pending: PendingReplies::default(),
            given_up: 0,
            given_up_max: Self::GIVEN_UP_MAX,
            version: Version::V1_0,
            closed: None,
        }
    }

    /// The id of the next request. Ids count up and wrap to 0.
    #[inline]
    #[must_use]
    pub const fn next_id(&self) -> u32 {
        self.next_id
    }

    /// Continues ids from this one.
    #[must_use]
    pub const fn with_next_id(mut self, id: u32) -> Self {
        self.next_id = id;
        self
    }

    /// Whether nothing was sent yet. The code sets of the connection are sent beside the first request, and so hold for all
    /// (CORBA 3.3 part 2, 7.10.2.6).
    #[inline]
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.is_first
    }

    /// Notes that the request with [`Connection::next_id`] was sent; `None` for a one-way, which has no reply. Returns its id.
    #[inline]
    pub fn sent(&mut self, who: Option<W>) -> u32 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.is_first = false;
        if who.is_some() {
            self.pending.insert(id, who);
        }
        id
    }

    /// Gives up a reply: it took too long, or was cancelled. It may still arrive. If too many are given up, the connection is closed: see
    /// [`Connection::closed`].
    pub fn give_up(&mut self, request_id: u32) -> Option<W> {
        let who = self.pending.get_mut(request_id)?.take()?;
        self.given_up += 1;
        if self.given_up > self.given_up_max {
            let _ = self.end::<()>(Closed::TooManyGivenUp { max: self.given_up_max });
        }
        Some(who)
    }

    /// The next message's meaning; `None` when more has to be read, or the connection has ended. Drops the message returned last.
    #[inline]
    pub fn poll<'a>(&mut self, inbound: &'a mut Inbound) -> Option<Event<'a, W>> {
        if self.closed.is_some() {
            return None;
        }
        match inbound.poll_message() {
            Ok(message) => message.map(|message| self.take(message)),
            Err(error) => Some(self.violated(Violation::Protocol(error))),
        }
    }

    #[inline]
    fn take<'a>(&mut self, message: Message<'a>) -> Event<'a, W> {
        let Message { header, bytes } = message;
        self.version = header.version;
        match (self.side, header.kind) {
            (Side::Server, MessageKind::Request) => Event::Request(message),
            (Side::Caller, MessageKind::Reply) => match read_reply(bytes, &header) {
                Ok(reply) => self.take_reply(reply, message),
                Err(error) => self.violated(Violation::Malformed { kind: header.kind, error }),
            },
            _ => self.take_other(message),
        }
    }

    #[inline]
    fn take_reply<'a>(&mut self, reply: Reply<'a>, message: Message<'a>) -> Event<'a, W> {
        let request_id = reply.request_id;
        match self.pending.remove(request_id) {
            Some(Some(who)) => Event::Reply { who, reply, message },
            Some(None) => {
                self.given_up -= 1;
                Event::LateReply { request_id }
            }
            None => self.violated(Violation::UnsolicitedReply { request_id }),
        }
    }

    fn take_other<'a>(&mut self, message: Message<'a>) -> Event<'a, W> {
        let Message { header, bytes } = message;
        let kind = header.kind;
        let malformed = |error| Violation::Malformed { kind, error };
        let read = match (self.side, kind) {
            (Side::Server, MessageKind::LocateRequest) => {
                LocateRequest::parse(bytes, &header).map(|request| Event::Locate { message, request })
            }
            (Side::Server, MessageKind::CancelRequest) => {
                CancelRequest::parse(bytes, &header).map(|cancel| Event::Cancel { request_id: cancel.request_id })
            }
            (_, MessageKind::CloseConnection) => return self.end(Closed::Orderly),
            (_, MessageKind::MessageError) => return self.end(Closed::Refused),
            _ => return self.violated(Violation::Unexpected { kind }),
        };
        read.unwrap_or_else(|error| self.violated(malformed(error)))
    }

    /// Ends the connection because the head of a returned request cannot be read.
    pub fn malformed(&mut self, error: ReadError) -> Closed {
        let violation = Violation::Malformed { kind: MessageKind::Request, error };
        let _ = self.end::<()>(Closed::Violation(violation));
        self.closed.unwrap_or(Closed::Cut)
    }

    /// Notes that the socket has ended or failed. Events before that remain valid: a peer that has closed in order may cut the connection.
    pub fn cut(&mut self) -> Closed {
        *self.closed.get_or_insert(Closed::Cut)
    }

    /// Ends the connection in order: appends the message for the peer. Returns false, without a message, if it has ended already, if a
    /// caller still waits, or for a caller before GIOP 1.2, where only servers may send it (9.4.7).
    ///
    /// Later input is not returned, as it must not be carried out any more. A server calls this when it has answered everything begun.
    pub fn close(&mut self, version: Version, buf: &mut Vec<u8>) -> bool {
        let may = self.side == Side::Server || (version >= Version::V1_2 && self.waiting() == 0);
        if self.closed.is_some() || !may {
            return false;
        }
        close_connection(buf, version);
        self.closed = Some(Closed::Orderly);
        true
    }

    /// Appends the `MessageError` that answers a violation; nothing if there was none.
    pub fn refuse(&self, buf: &mut Vec<u8>) {
        if let Some(Closed::Violation(_)) = self.closed {
            message_error(buf, self.version);
        }
    }

    /// Why the connection has ended; `None` while it is open.
    #[must_use]
    pub const fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// Number of requests that wait for replies.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.pending.len() - self.given_up
    }

    /// Number of given-up requests whose replies may still arrive.
    #[must_use]
    pub const fn given_up(&self) -> usize {
        self.given_up
    }

    /// All waiting callers, in the order in which their requests were sent. [`Closed::completed`] says whether they were carried out.
    pub fn into_waiting(self) -> impl Iterator<Item = W> {
        let mut last = self.pending.into_last();
        core::iter::from_fn(move || last.pop()).flatten()
    }

    #[cold]
    fn violated<'a>(&mut self, violation: Violation) -> Event<'a, W> {
        self.end(Closed::Violation(violation))
    }

    fn end<'a, T>(&mut self, closed: Closed) -> Event<'a, T> {
        Event::Closed(*self.closed.get_or_insert(closed))
    }
}

/// Reads the head of a reply, with a fast path for a plain success.
#[inline]
fn read_reply<'a>(bytes: &'a [u8], header: &Header) -> Result<Reply<'a>, ReadError> {
    match parse_empty_reply(bytes, header) {
        Some(request_id) => Ok(Reply {
            request_id,
            status: ReplyStatus::NoException,
            contexts: ServiceContexts::none(),
            body_offset: bytes.len(),
        }),
        None => Reply::parse(bytes, header),
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Orderly | Self::Cut => f.write_str("the peer closed it"),
            Self::Refused => f.write_str("the peer found a message malformed"),
            Self::Violation(violation) => violation.fmt(f),
            Self::TooManyGivenUp { max } => write!(f, "more than {max} requests were given up without a reply"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(error) => error.fmt(f),
            Self::Malformed { kind, error } => write!(f, "a {kind} cannot be read: {error}"),
            Self::Unexpected { kind } => write!(f, "a {kind} is not expected here"),
            Self::UnsolicitedReply { request_id } => write!(f, "it answered request {request_id}, which was not sent"),
        }
    }
}

impl core::error::Error for Violation {}
