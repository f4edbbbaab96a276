//! Requests on a connection that wait for their replies.

use engine::OutboxId;

use crate::protocols::giop::admin_calls::PendingCall;
use crate::protocols::giop::lane_calls::Asker;

/// Senders that wait for replies, by request id.
pub(crate) type PendingReplies<T = Pending> = giop::connection::PendingReplies<T>;

/// Senders that waited for replies on a connection that was lost, until they are notified.
pub(crate) type LastPending<T = Pending> = giop::connection::LastPending<T>;

/// The sender of a request, which waits for the reply.
pub(crate) enum Pending {
    /// A consumer's outbox.
    Push { outbox: OutboxId, serial: u32 },
    /// Administration.
    Call(Box<PendingCall>),
    /// The lane itself.
    Ask(Asker),
}
