//! Administration: everything that is not an event.
//!
//! One thread at the lowest priority owns all objects. [`run`] is its loop: it executes requests in batches, publishes one new
//! routing snapshot per batch, and only then lets the replies go. Whose request is next is decided by [`turns`]; analyses
//! have a thread of their own ([`analyses`]); [`notices`] says in the log what happened; [`drain`] ends the service.

pub(crate) mod analyses;
mod answers;
pub(crate) mod client_lines;
pub(crate) mod drain;
mod notices;
pub(crate) mod refusals;
pub(crate) mod run;
pub(crate) mod turns;
