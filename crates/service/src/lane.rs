//! Lanes: the threads that carry events.
//!
//! A lane owns sockets and outboxes; no other thread touches them. There is the main lane, and those of thread pools, which
//! administration starts and ends ([`links::lane_registry`]) and which reach each other over [`links::lanes`]. [`run`] is one round:
//! wait, serve what is ready, deliver, write. Sockets and what is read and written lie in [`io`], events on their way into the
//! engine in [`intake`], what goes between threads in [`links`]. What a protocol's messages mean is its own business:
//! [`crate::protocols::giop`].

pub(crate) mod access;
pub(crate) mod budget;
pub(crate) mod clock;
pub(crate) mod context;
pub(crate) mod draining;
pub(crate) mod intake;
pub(crate) mod io;
pub(crate) mod links;
pub(crate) mod overflow;
pub(crate) mod polling;
pub(crate) mod reporting;
pub(crate) mod reports;
pub(crate) mod run;
pub(crate) mod saturation;
pub(crate) mod scheduling;
