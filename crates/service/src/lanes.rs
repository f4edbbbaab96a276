//! Lanes: the threads that carry events.
//!
//! A lane owns sockets and outboxes; nobody else touches them. There is the main lane, and those of thread pools, which
//! administration starts and ends ([`roster`]) and which reach each other over [`lines`]. What an event meets on its way
//! through a lane is, in order: [`worker`] (the poll says a supplier's socket is readable), [`incoming`] (bytes become
//! messages), [`path`] (a push is recognised), [`intake`] (its events become the engine's; those of a long sequence by
//! [`instalments`] where the lane takes turns), [`delivery`] (what the engine says is due is written to the consumers'
//! sockets), and back: [`outgoing`] and [`replies`]. Events that are pulled come in by [`pullers`] and go out by [`pulls`];
//! where filters of clients have a say, [`questions`] asks them.

pub(crate) mod asks;
pub(crate) mod buffers;
pub(crate) mod calls;
pub(crate) mod delivery;
pub(crate) mod draining;
pub(crate) mod foreign;
pub(crate) mod incoming;
pub(crate) mod instalments;
pub(crate) mod intake;
mod large_answers;
pub(crate) mod lines;
pub(crate) mod losses;
pub(crate) mod mail;
pub(crate) mod moving;
pub(crate) mod outgoing;
pub(crate) mod output;
pub(crate) mod path;
pub(crate) mod pending;
pub(crate) mod post;
pub(crate) mod pullers;
pub(crate) mod pulls;
pub(crate) mod pulse;
pub(crate) mod questions;
pub(crate) mod recall;
pub(crate) mod replies;
pub(crate) mod reports;
pub(crate) mod roster;
pub(crate) mod routes;
pub(crate) mod scheduling;
pub(crate) mod shares;
pub(crate) mod slices;
pub(crate) mod slots;
mod survey;
pub(crate) mod system;
pub(crate) mod tally;
mod turns;
pub(crate) mod unfinished;
mod unread;
mod waiting_pulls;
pub(crate) mod worker;

#[cfg(test)]
mod tests;
