//! Performance beside floors and peers: every contender is driven by the same publishers and subscribers.

mod aims;
mod cells;
pub(crate) mod contender;
mod course;
pub(crate) mod ends;
pub(crate) mod endurance;
mod experiments;
pub(crate) mod fan_out;
pub(crate) mod json;
mod lines;
pub(crate) mod meters;
mod perf;
pub(crate) mod pool;
pub(crate) mod protocol;
mod publisher;
mod race;
mod record;
pub(crate) mod saturate;
mod sched;
mod subscriber;
pub(crate) mod whole;

pub(crate) use aims::of_memory;
