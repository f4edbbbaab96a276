//! Who waits for which reply on a connection.

use engine::OutboxId;

use crate::doors::giop::admin_calls::PendingCall;
use crate::doors::giop::lane_calls::Asker;

/// Who waits, by request id.
pub(crate) type PendingReplies<T = Pending> = giop::connection::PendingReplies<T>;

/// Those who waited for replies on a connection that was lost, until they have been told.
pub(crate) type LastPending<T = Pending> = giop::connection::LastPending<T>;

/// Who waits for a reply.
pub(crate) enum Pending {
    /// A consumer's outbox.
    Push { outbox: OutboxId, serial: u32 },
    /// Administration.
    Call(Box<PendingCall>),
    /// The lane itself.
    Ask(Asker),
}
