//! The engine compared with a model of itself that is too simple to be wrong in the same way.
//!
//! [`run`] makes random operations from a seed (publishing, connecting, suspending, subscribing, answering, failing,
//! pulling, waiting, changing settings and limits), applies each to the real [`engine::Hierarchy`] and
//! [`engine::Lane`] and to the naive model, and compares all observable results: each delivery, admission, release,
//! notice and refusal, each outbox's and channel's state, and the counters. Time is simulated, so a run takes as long
//! as its computation, and the same seed is always the same run.
//!
//! [`run_lanes`] does so with several lanes and their hand-overs, and [`run_overflow`] with a lane that stores part of
//! its backlogs elsewhere.

#[expect(clippy::indexing_slicing, reason = "a model that is wrong should stop the test on the spot")]
mod lanes;
#[expect(clippy::indexing_slicing, reason = "a model that is wrong should stop the test on the spot")]
mod model;
#[expect(clippy::indexing_slicing, reason = "a run that is wrong should stop the test on the spot")]
mod overflow;
mod random;

pub use lanes::{LanesSummary, run_lanes};
pub use overflow::{OverflowSummary, run_overflow};
pub use random::{Mismatch, Summary, policies, run};
