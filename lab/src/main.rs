//! `campanile-bench`: the papers' experiments, and the service beside floors, peers, attacks and itself.
//!
//! The contenders run as processes of their own, so that the processor time of the process in the middle can be read exactly: the
//! service is the program `campanile` beside this one, all others are this program again, by a hidden command.
//!
//! What each figure means and how it is taken is said on the field that holds it, and once more for readers of the
//! reports in `lab/README.md`.

mod administration;
mod crash;
mod durable;
mod experiments;
mod filters;
mod floor;
mod history;
mod hop;
mod hostile;
mod memory;
mod options;
mod order;
mod overflow;
mod performance;
mod persistent;
mod pipeline;
mod places;
mod relay;
mod report;
mod spin;
mod tls;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Parser;
use load::{BenchError, Form, Losses, Machine, Output, Percentiles, ReportOptions, Spread};
use load::{CarriageOptions, DeliveryOptions};
use load::{campanile, clock, latency, leash, loss, output, process, system, table, wire, workload};
use options::{
    AdministrationOptions, Command, ConsumerKind, Contender, EnduranceOptions, ExperimentOptions, ExperimentsOptions,
    FanOutOptions, FiltersOptions, FloorOptions, HostileOptions, MemoryOptions, OrderOptions, PerformanceOptions,
    PipelineOptions, RelayOptions, SaturateOptions,
};

const ABOUT: &str = "Measures Campanile: the papers' experiments, and the service beside floors, peers and attacks";

const EXAMPLES: &str = "\
Examples:
  campanile-bench order --quick          nothing is lost, order is kept
  campanile-bench floor --quick          beside a bare relay, within 40 s
  campanile-bench floor --json           every figure as one JSON object

The service that is measured is the program `campanile` beside this one.
Exit status: 0 what was to be shown was; 1 it was not, or a run broke off; 2
wrong usage.";

#[derive(Debug, clap::Parser)]
#[command(name = "campanile-bench", version, about = ABOUT, after_help = EXAMPLES, max_term_width = 100)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let mut stdout = io::stdout();
    let terminal = stdout.is_terminal();
    match run(&Line::parse().command, &mut Output::new(&mut stdout, terminal)) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has enough.
        Err(BenchError::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("campanile-bench: {error}");
            ExitCode::from(if matches!(error, BenchError::Option { .. }) { 2 } else { 1 })
        }
    }
}

/// Runs one benchmark and writes its report to `out`.
fn run(command: &Command, out: &mut Output<'_>) -> Result<(), BenchError> {
    match command {
        Command::Pipeline(options) => pipeline::run(options, out),
        Command::Order(options) => order::run(options, out),
        Command::Floor(options) => floor::run(options, out),
        Command::Filters(options) => filters::run(options, out),
        Command::Administration(options) => administration::run(options, out),
        Command::Hostile(options) => hostile::run(options, out),
        Command::Memory(options) => memory::run(options, out),
        Command::Crash(options) => crash::run(options, out),
        Command::Durable(options) => durable::run(options, out),
        Command::History(options) => history::run(options, out),
        Command::Tls(options) => tls::run(options, out),
        Command::Json(options) => performance::json::run(options, out),
        Command::Overflow(options) => overflow::run(options, out),
        Command::PathsLoad(options) => experiments::load::run(options, out),
        Command::PathsLatency(options) => experiments::latency::run(options, out),
        Command::PathsJitter(options) => experiments::jitter::run(options, out),
        Command::PathsNumber(options) => experiments::number::run(options, out),
        Command::Overhead(options) => experiments::overhead::run(options, out),
        Command::Isolation(options) => experiments::isolation::run(options, out),
        Command::TempoLatency(options) => experiments::tempo::latency::run(options, out),
        Command::TempoRates(options) => experiments::tempo::rates::run(options, out),
        Command::TempoSaturation(options) => experiments::tempo::saturation::run(options, out),
        Command::TempoIsolation(options) => experiments::tempo::isolation::run(options, out),
        Command::TempoChurn(options) => experiments::tempo::churn::run(options, out),
        Command::TempoFanOut(options) => experiments::tempo::fan_out::run(options, out),
        Command::TempoPredicted(options) => experiments::tempo::predicted::run(options, out),
        Command::TempoRelayProcess(options) => experiments::tempo::relay::run_process(options, out),
        Command::Alma(options) => experiments::alma::run(options, out),
        Command::Soak(options) => experiments::soak::run(options, out),
        Command::Languages(options) => experiments::languages::run(options, out),
        Command::LanguagesProcess(options) => experiments::languages::run_process(options, out),
        Command::AlmaProcess => experiments::alma::run_process(out),
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
        Command::TlsRelayProcess(options) => tls::run_process(options, out),
        Command::LeashedProcess(options) => leash::run_process(options),
    }
}
