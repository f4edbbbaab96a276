//! Tests with real clients that are not ours.
//!
//! The programs are C++ and Java (`omniorb/`, `jacorb/`), and tests drive them through a service: those in `tests/`, and others that want an
//! orb beside them. `README.md` says how to build and call them.

#![expect(clippy::expect_used, clippy::missing_panics_doc, reason = "for tests, which fail by panicking")]

mod channels;
mod orbs;

pub use channels::channel_for_programs;
pub use orbs::{
    Ended, Orb, Peer, at, first_consumer, further_consumer, service, service_with, supplier, wait_for_count,
};
