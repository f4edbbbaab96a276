//! Connections that clients made to us: requests in, replies out.

use std::net::{SocketAddr, TcpStream};

use engine::Time;
use giop::cdr::CharSet;
use giop::framing::{Inbound, Limits};

use super::output::Output;

/// Replies a connection may have outstanding before it is not read any more: withheld ones (its channel's budget is spent)
/// or ones that administration has yet to give. A client that multiplexes more than this waits; nothing is lost.
const UNANSWERED_MAX: u32 = 64;
/// Bytes of events whose replies are withheld before their connection is not read any more, so that what comes on top of
/// a spent budget is bounded too.
const HELD_BYTES_MAX: usize = 1 << 20;
/// Bytes of replies that a client may leave unread before its requests are not read any more.
const REPLIES_UNREAD_MAX: usize = 1 << 20;

/// A connection from a client.
pub(crate) struct Incoming {
    /// What has arrived.
    pub(crate) inbound: Inbound,
    /// Who sent it and where replies go.
    pub(crate) caller: Caller,
}

/// The peer of an [`Incoming`], apart from its input so that a message can be borrowed while it is answered.
pub(crate) struct Caller {
    pub(crate) stream: TcpStream,
    pub(crate) address: SocketAddr,
    pub(crate) output: Output,
    /// Code set of its narrow strings, from the code set service context.
    pub(crate) chars: CharSet,
    /// Replies withheld because a channel's budget is spent.
    pub(crate) held: u32,
    /// Bytes of the events they are for.
    pub(crate) held_bytes: usize,
    /// Requests that administration has not answered yet.
    pub(crate) waiting: u32,
    /// Since when a message has been incomplete.
    pub(crate) incomplete_since: Option<Time>,
    /// To be closed once its output is written.
    pub(crate) closing: bool,
    /// What the poll was last told: reading, writing.
    pub(crate) interest: (bool, bool),
}

impl Incoming {
    pub(crate) fn new(stream: TcpStream, address: SocketAddr, limits: Limits) -> Self {
        Self {
            inbound: Inbound::new(limits),
            caller: Caller {
                stream,
                address,
                output: Output::default(),
                chars: CharSet::Latin1,
                held: 0,
                held_bytes: 0,
                waiting: 0,
                incomplete_since: None,
                closing: false,
                interest: (true, false),
            },
        }
    }

    /// Notes whether a message is under way, for the limit on how long that may last.
    pub(crate) fn note_progress(&mut self, now: Time) {
        let incomplete = self.inbound.buffered() > 0 || self.inbound.open_fragment_sets() > 0;
        self.caller.incomplete_since = match (incomplete && !self.caller.is_paused(), self.caller.incomplete_since) {
            (true, Some(since)) => Some(since),
            (true, None) => Some(now),
            (false, _) => None,
        };
    }
}

impl Caller {
    /// Whether its requests are left unread for now, so that what it is owed stays bounded.
    pub(crate) fn is_paused(&self) -> bool {
        self.closing
            || self.held + self.waiting >= UNANSWERED_MAX
            || self.held_bytes > HELD_BYTES_MAX
            || self.output.queued_bytes() > REPLIES_UNREAD_MAX
    }
}
