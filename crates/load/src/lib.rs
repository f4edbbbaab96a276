//! The load generator: suppliers on a schedule, consumers that check every event, and the results of a run.
//!
//! `campanile bench` measures a service with it, and `campanile-bench` builds its experiments on it: the service as a process, the messages
//! and their stamps, clocks, percentiles, losses, tables and reports. It contains no experiments.
//!
//! A program that starts processes with it passes its hidden sub-command [`leash::COMMAND`] to [`leash::run_process`].

#![expect(
    clippy::missing_errors_doc,
    reason = "all fail by `BenchError`, whose variants say when; nobody but the two programs uses it"
)]

pub mod callers;
pub mod campanile;
pub mod clock;
mod error;
pub mod latency;
pub mod leash;
pub mod loss;
mod options;
pub mod output;
pub mod peer;
pub mod poll;
pub mod process;
pub mod system;
pub mod table;
pub mod wire;
pub mod workload;

pub use error::BenchError;
pub use latency::{Percentiles, Spread};
pub use loss::Losses;
pub use options::{CarriageOptions, DeliveryOptions, Form, LeashedOptions, ReportOptions};
pub use output::Output;
pub use system::Machine;
pub use workload::{RunReport, Traffic, TrafficReport};
