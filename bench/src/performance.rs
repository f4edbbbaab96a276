//! Performance beside floors and peers: every contender is driven by the same publishers and subscribers.

pub(crate) mod ends;
mod lines;
mod meters;
mod protocol;
mod publisher;
mod record;
pub mod saturate;
mod subscriber;
