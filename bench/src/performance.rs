//! Performance beside floors and peers: every contender is driven by the same publishers and subscribers.

pub(crate) mod contender;
mod course;
pub(crate) mod ends;
pub(crate) mod fan_out;
mod lines;
mod meters;
pub(crate) mod protocol;
mod publisher;
mod record;
pub mod saturate;
mod subscriber;
