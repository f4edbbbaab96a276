//! One connection, without its socket.

mod pending;

pub use pending::{LastPending, PendingReplies};
