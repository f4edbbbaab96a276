//! `campanile-bench`: the papers' experiments, and the service beside floors, peers, attacks and itself.
//!
//! The contenders run as processes of their own, so that the processor time of the process in the middle can be read exactly: the
//! service is the program `campanile` beside this one, all others are this program again, by a hidden command.
//!
//! [`scenarios`] lists what there is. A scenario makes one JSON object; [`report`] prints any of them, `lab/pages.py` makes pages and charts
//! of those that are stored. What each figure means and how it is taken is said in `lab/README.md`.

// What `#[component]` writes names the crate as programs do.
extern crate component as campanile_component;

mod administration;
mod crash;
mod deployment;
mod durable;
mod experiments;
mod filters;
mod floor;
mod history;
mod hop;
mod hostile;
mod links;
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
mod scenarios;
mod spin;
mod timers;
mod tls;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use load::{BenchError, CarriageOptions, Form, LeashedOptions, Losses, Machine, Output, Percentiles, Spread};
use load::{campanile, clock, latency, leash, loss, process, system, wire, workload};
use options::{Asked, Options};

const ABOUT: &str = "Measures Campanile: the papers' experiments, and the service beside floors, peers and attacks";

const EXAMPLES: &str = "\
Examples:
  campanile-bench order --quick          nothing is lost, order is kept
  campanile-bench floor --quick          beside a bare relay, within 40 s
  campanile-bench floor --json           every figure as one JSON object

The service that is measured is the program `campanile` beside this one.
Exit status: 0 what was to be shown was; 1 it was not, or a run broke off; 2
wrong usage.";

/// The processes that scenarios start.
#[derive(Debug, clap::Subcommand)]
enum Hidden {
    /// The bare relay of `floor`, so that its processor time is its own
    #[command(hide = true, name = relay::COMMAND)]
    Relay {
        #[arg(long)]
        consumer: std::net::SocketAddr,
    },
    /// The floor of `tls`
    #[command(hide = true, name = tls::COMMAND)]
    TlsRelay(tls::TlsRelayOptions),
    /// The floor of a fan-out: processes of consumers, ADDRESS:PORT and xCOPIES behind it if each event goes there more than once
    #[command(hide = true, name = performance::fan_out::COMMAND)]
    FanOut {
        #[arg(long)]
        consumer: Vec<String>,
    },
    /// The publisher or the consumers of a measurement of performance
    #[command(hide = true, name = performance::ends::COMMAND)]
    End,
    /// Subscribers of a channel, at the node of a service
    #[command(hide = true, name = links::subscribers::COMMAND)]
    LinksSubscribers,
    /// A subscriber of Zenoh alone
    #[cfg(feature = "zenoh")]
    #[command(hide = true, name = links::bare::zenoh::COMMAND)]
    LinksZenoh,
    /// The suppliers or the consumers of an experiment
    #[command(hide = true, name = experiments::party::COMMAND)]
    Party,
    /// The subscribers of an experiment with the simple API
    #[command(hide = true, name = experiments::alma::COMMAND)]
    Alma,
    /// Components, or one end of a channel with or without them
    #[command(hide = true, name = experiments::components::ends::COMMAND)]
    Components,
    /// A server of a plan with a component that crashes
    #[command(hide = true, name = experiments::component_crashes::COMMAND)]
    ComponentCrashes,
    /// A server of a plan over several nodes: the path of the script that starts it, and what a plan's program is given
    #[command(hide = true, name = deployment::parts::COMMAND)]
    Part {
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        words: Vec<String>,
    },
    /// The lanes of a plan whose response times are computed
    #[command(hide = true, name = experiments::predicted::lanes::COMMAND)]
    Predicted,
    /// A supplier or a consumer of the experiment with languages
    #[command(hide = true, name = experiments::languages::COMMAND)]
    Languages { what: String, channel: String },
    /// The floor of a Tempo broker
    #[command(hide = true, name = experiments::tempo::relay::COMMAND)]
    TempoRelay(experiments::tempo::relay::TempoRelayOptions),
    /// Lifts the throttling of real-time threads until the input ends
    #[command(hide = true, name = experiments::ability::COMMAND)]
    Unthrottled,
    /// Starts another command of this program that ends when its parent does
    #[command(hide = true, name = leash::COMMAND)]
    Leashed(LeashedOptions),
}

fn main() -> ExitCode {
    let mut stdout = io::stdout();
    let terminal = stdout.is_terminal();
    let line = clap::Command::new("campanile-bench")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(EXAMPLES)
        .max_term_width(100);
    let asked = options::parse(line, std::env::args_os()).unwrap_or_else(|error| error.exit());
    match run(asked, &mut Output::new(&mut stdout, terminal)) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has enough.
        Err(BenchError::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("campanile-bench: {error}");
            ExitCode::from(if matches!(error, BenchError::Option { .. }) { 2 } else { 1 })
        }
    }
}

/// Runs what is asked for, which writes to `out`.
fn run(asked: Asked, out: &mut Output<'_>) -> Result<(), BenchError> {
    match asked {
        Asked::Scenario(scenario, options) => scenario.run(&options, out),
        Asked::Hidden(hidden) => match hidden {
            Hidden::Relay { consumer } => relay::run_process(consumer, out),
            Hidden::TlsRelay(options) => tls::run_process(&options, out),
            Hidden::FanOut { consumer } => performance::fan_out::run_process(&consumer, out),
            Hidden::End => performance::ends::run_process(out),
            Hidden::LinksSubscribers => links::subscribers::run_process(out),
            #[cfg(feature = "zenoh")]
            Hidden::LinksZenoh => links::bare::zenoh::run_process(out),
            Hidden::Party => experiments::party::run_process(out),
            Hidden::Alma => experiments::alma::run_process(out),
            Hidden::Components => experiments::components::ends::run_process(out),
            Hidden::ComponentCrashes => experiments::component_crashes::run_process(out),
            Hidden::Part { words } => deployment::parts::run_process(&words),
            Hidden::Predicted => experiments::predicted::lanes::run_process(out),
            Hidden::Languages { what, channel } => experiments::languages::run_process(&what, &channel, out),
            Hidden::TempoRelay(options) => experiments::tempo::relay::run_process(&options, out),
            Hidden::Unthrottled => experiments::ability::run_process(out),
            Hidden::Leashed(options) => leash::run_process(&options),
        },
    }
}
