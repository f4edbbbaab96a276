//! Administration: everything that is not an event.
//!
//! One thread at a lower priority than any lane owns all objects. [`run`] is its loop: it executes requests in batches, publishes one new
//! routing snapshot per batch ([`publishing`]), and only then lets the replies go. [`fair_queue`] decides which request is next. Queries,
//! commands and answers are [`values`]: [`statistics`] makes answers of the lanes' reports ([`inquiry`]), and the store answers for
//! [`dead_letters`]; [`link_orders`] go to the main lane; `timers` reads what that writes of channels' timers. [`waiting`] has the receivers of answers: a client, or the embedding [`program`].
//! Requests have [`effects`] beside their answers. Persistent changes are handed to the store before they are answered ([`persistence`]).
//! Analyses have a thread of their own ([`analyses`]); `notices` logs what happened, within the bounds of [`client_lines`] and
//! [`refusals`]; [`misses`] delays answers to addresses that ask for very many objects that do not exist; [`drain`] ends the service.

pub(crate) mod analyses;
pub(crate) mod audit;
pub(crate) mod client_lines;
pub(crate) mod dead_letters;
pub(crate) mod drain;
pub(crate) mod effects;
pub(crate) mod fair_queue;
pub(crate) mod inquiry;
pub(crate) mod link_orders;
pub(crate) mod misses;
mod notices;
pub(crate) mod operators;
pub(crate) mod persistence;
pub(crate) mod program;
pub(crate) mod publishing;
pub(crate) mod refusals;
pub(crate) mod run;
pub(crate) mod statistics;
mod timers;
pub(crate) mod values;
pub(crate) mod waiting;
