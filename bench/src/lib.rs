//! The papers' experiments and the side-by-side benchmarks, behind `campanile bench`.
//!
//! A program embeds it with [`Command`] as a `clap` sub-command and [`run`]. The program must also offer a
//! `serve` sub-command, and must hand all commands of `bench` to [`run`], the hidden ones too: the benchmarks
//! start the contenders as processes of their own by executing the current program again, so that the processor
//! time of the process in the middle can be read exactly.
//!
//! What each figure means and how it is taken is said on the field that holds it, and once more for readers of the
//! reports in `bench/README.md`.

pub mod administration;
mod campanile;
mod clock;
mod error;
mod hop;
mod latency;
mod leash;
mod loss;
mod options;
mod output;
mod process;
mod spin;
mod system;
mod table;
mod wire;
mod workload;

pub mod experiments;
pub mod filters;
pub mod floor;
pub mod hostile;
pub mod memory;
pub mod monitor;
pub mod order;
pub mod performance;
pub mod pipeline;
pub mod relay;

pub use error::BenchError;
pub use latency::{Percentiles, Spread};
pub use loss::Losses;
pub use options::{
    AdministrationOptions, CarriageOptions, Command, ConsumerKind, Contender, DeliveryOptions, EnduranceOptions,
    ExperimentOptions, ExperimentsOptions, FanOutOptions, FiltersOptions, FloorOptions, Form, HostileOptions,
    LeashedOptions, MemoryOptions, MonitorOptions, OrderOptions, PerformanceOptions, PipelineOptions, RelayOptions,
    ReportOptions, SaturateOptions,
};
pub use output::Output;
pub use system::Machine;
pub use workload::{RunReport, Traffic, TrafficReport};

/// Runs one benchmark and writes its report to `out`.
///
/// Progress goes nowhere when `out` is not a terminal, so that what is written can be parsed.
///
/// # Errors
///
/// When a contender cannot be started, breaks off, or answers what it should not.
pub fn run(command: &Command, out: &mut Output<'_>) -> Result<(), BenchError> {
    match command {
        Command::Monitor(options) => monitor::run(options, out),
        Command::Pipeline(options) => pipeline::run(options, out),
        Command::Order(options) => order::run(options, out),
        Command::Floor(options) => floor::run(options, out),
        Command::Filters(options) => filters::run(options, out),
        Command::Administration(options) => administration::run(options, out),
        Command::Hostile(options) => hostile::run(options, out),
        Command::Memory(options) => memory::run(options, out),
        Command::PathsLoad(options) => experiments::load::run(options, out),
        Command::PathsLatency(options) => experiments::latency::run(options, out),
        Command::PathsJitter(options) => experiments::jitter::run(options, out),
        Command::PathsNumber(options) => experiments::number::run(options, out),
        Command::Overhead(options) => experiments::overhead::run(options, out),
        Command::Isolation(options) => experiments::isolation::run(options, out),
        Command::Experiments(options) => experiments::book::run(options, out),
        Command::EventPath(options) => experiments::event_path::run(options, out),
        Command::Performance(options) => performance::whole::run(options, out),
        Command::Endurance(options) => performance::endurance::run(options, out),
        Command::Saturate(options) => performance::saturate::run(options, out),
        Command::FanOutProcess(options) => performance::fan_out::run_process(options, out),
        Command::EndProcess => performance::ends::run_process(out),
        Command::PartyProcess => experiments::party::run_process(out),
        Command::UnthrottledProcess => experiments::ability::run_process(out),
        Command::RelayProcess(options) => relay::run_process(options, out),
        Command::LeashedProcess(options) => leash::run_process(options),
    }
}
