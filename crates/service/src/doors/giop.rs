//! Where lanes meet CORBA clients.
//!
//! What an event meets on its way through, in order: [`incoming`] (bytes become messages), [`push`] (a push is recognised),
//! [`crate::lane::intake`] (it becomes the engine's), [`delivery`] (what the engine says is due is written for the consumers), and
//! back: [`outgoing`] and [`replies`]. Events that are pulled come in by [`pull_suppliers`] and go out by [`pull_consumers`];
//! where filters of clients have a say, [`remote_filters`] asks them. Everything else that clients ask for is passed to
//! administration, whose own calls to clients are [`admin_calls`].

pub(crate) mod admin_calls;
pub(crate) mod body;
pub(crate) mod delivery;
pub(crate) mod foreign_pushes;
pub(crate) mod incoming;
pub(crate) mod instalments;
pub(crate) mod lane_calls;
pub(crate) mod large_answers;
pub(crate) mod longest_idle;
pub(crate) mod losses;
pub(crate) mod mail;
pub(crate) mod moving;
pub(crate) mod outgoing;
pub(crate) mod pending;
pub(crate) mod pull_consumers;
pub(crate) mod pull_suppliers;
pub(crate) mod push;
pub(crate) mod recall;
pub(crate) mod remote_filters;
pub(crate) mod replies;
pub(crate) mod routes;
pub(crate) mod take_in;
pub(crate) mod waiting_pulls;

#[cfg(test)]
mod tests;
