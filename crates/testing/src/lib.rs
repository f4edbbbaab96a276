//! Waiting in tests: for a condition, an event, a thread, a connection or a program, each for [`PATIENCE`] at most, or [`SUITE_PATIENCE`];
//! and resources of their own: addresses, paths, programs.
//!
//! No test measures time, and none may hang: a minute is far beyond what anything here takes on the busiest machine, so a longer wait fails
//! and says what did not happen. Waits without these functions are ended by `.cargo/watched`, which runs every test program.

mod allocations;
#[cfg(feature = "certificates")]
pub mod certificates;
mod limit;
mod loopback;
mod program;
pub mod rtps;
#[cfg(feature = "rulebook")]
pub mod rulebook;
mod temporary;

pub use allocations::{Counting, allocations};
pub use limit::{AcceptInTime, EndInTime, NextInTime, PATIENCE, SUITE_PATIENCE, patient, unless_closed, wait_until};
pub use loopback::{carries_multicast, free_udp_port, own_loopback};
pub use program::{Killed, Leash, lines_of, output_in_time, output_of_suite, shared_object, shared_object_in_cpp};
pub use temporary::TempPath;
