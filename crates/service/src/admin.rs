//! Administration: everything that is not an event.
//!
//! One thread at the lowest priority owns all objects. [`run`] is its loop: it executes requests in batches, publishes one new
//! routing snapshot per batch, and only then lets the replies go. Whose request is next is decided by [`turns`]; analyses
//! have a thread of their own ([`analyses`]); [`notices`] says in the log what happened; [`drain`] ends the service.

pub(crate) mod analyses;
pub(crate) mod client_lines;
pub(crate) mod drain;
pub(crate) mod effects;
pub(crate) mod inquiry;
mod notices;
pub(crate) mod program;
pub(crate) mod refusals;
pub(crate) mod run;
pub(crate) mod statistics;
pub(crate) mod turns;
pub(crate) mod values;
pub(crate) mod waiting;
