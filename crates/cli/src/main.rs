//! The `campanile` command: runs and examines services, publishes and subscribes.

/// Prints like the standard library's `eprintln`, but ignores that standard error is gone, as after a terminal was closed: the command
/// continues, to disconnect from the service.
macro_rules! eprintln {
    ($($said:tt)*) => {{
        use std::io::Write as _;
        let _ = std::writeln!(std::io::stderr(), $($said)*);
    }};
}

mod access;
mod args;
mod bench;
mod channel;
mod channels;
mod check;
mod color;
mod complete;
mod constraint;
mod context;
mod dead;
mod demo;
mod deploy;
mod disconnect;
mod doctor;
mod environment;
mod event_line;
mod failure;
mod federation;
mod fields;
mod gauge;
mod info;
mod json;
mod latency;
mod link;
mod logger;
mod ls;
mod moment;
mod node;
mod outgoing;
mod over_dds;
mod ping;
mod plan;
mod progress;
mod publish;
mod rates;
mod record;
mod reload;
mod replay;
mod select;
mod serve;
mod show;
mod signals;
mod standby;
mod statistics;
mod stats;
mod store;
mod subscribe;
mod supervisor;
mod tao_notify;
mod tempo;
mod terminal;
mod top;
mod topology;
mod types;

use crate::args::{Cli, Command};
use crate::failure::Failure;
use clap::FromArgMatches as _;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Counts the lane's allocations, which the service reports as `lane_allocations`; costs a few instructions each.
#[global_allocator]
static ALLOCATOR: service::allocations::CountingAllocator = service::allocations::CountingAllocator;

fn main() -> ExitCode {
    let program = args::program();
    let arguments = args::arrange(&program, std::env::args_os().collect());
    if arguments.len() < 2 {
        // The output may have no reader; the status says it, too.
        let _ = io::stderr().write_all(args::SHORT_HELP.as_bytes());
        return ExitCode::from(2);
    }
    if arguments.get(1).is_some_and(|word| word == "-h") {
        let _ = io::stdout().write_all(args::SHORT_HELP.as_bytes());
        return ExitCode::SUCCESS;
    }
    if let Some((_, [word, words @ ..])) = arguments.split_first()
        && word == complete::COMMAND
    {
        // An error message would have no reader.
        let _ = complete::run(words);
        return ExitCode::SUCCESS;
    }
    let parsed = program.try_get_matches_from(&arguments);
    let parsed =
        parsed.and_then(|matches| Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut args::program())));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return refused(&error, arguments.get(1).is_some_and(|command| command == "check")),
    };
    color::choose(cli.color);
    let outcome = match cli.command {
        Command::Serve(options) => serve::run(&options),
        Command::Demo(options) => demo::run(&options),
        Command::TaoNotify(options) => tao_notify::run(&options),
        Command::Ls(options) => ls::run(&options),
        Command::Info(options) => info::run(&options),
        Command::Stats(options) => stats::run(&options),
        Command::Disconnect(options) => disconnect::run(&options),
        Command::Channel(command) => channel::run(&command),
        Command::Link(command) => link::run(&command),
        Command::Topology(command) => topology::run(&command),
        Command::Store(command) => store::run(&command),
        Command::Standby(command) => standby::run(&command),
        Command::Dead(command) => dead::run(&command),
        Command::Access(command) => access::run(&command),
        Command::Pub(options) => options.arranged().and_then(|options| publish::run(&options)),
        Command::Sub(options) => subscribe::run(&options.arranged()),
        Command::Hz(options) => rates::run(&options, gauge::What::Rate),
        Command::Bw(options) => rates::run(&options, gauge::What::Octets),
        Command::Types(options) => types::run(&options),
        Command::Latency(options) => latency::run(&options),
        Command::Record(options) => record::run(&options),
        Command::Replay(options) => replay::run(&options),
        Command::Tempo(command) => tempo::run(&command),
        Command::Context(command) => context::run(&command),
        Command::Filter(command) => constraint::run(&command),
        Command::Bench(command) => bench::run(&command),
        Command::LeashedProcess(options) => bench::run_leashed(&options),
        Command::Top(options) => top::run(&options),
        Command::Consumers(options) => top::consumers(&options),
        Command::Ping(options) => ping::run(&options),
        Command::Version => print_version(),
        Command::Check(options) => return check::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Deploy(command) => deploy::run(&command),
        Command::Node(options) => node::run(&options),
        Command::Plan(options) => plan::run(&options),
        Command::Completions { shell } => io::stdout().write_all(&complete::script(shell)).map_err(Into::into),
        Command::Man { folder } => write_man_pages(&folder),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Prints why the command line is invalid, or the help or version that was requested.
fn refused(error: &clap::Error, is_check: bool) -> ExitCode {
    // The output may have no reader; the status says it, too.
    let _ = error.print();
    match (error.exit_code(), is_check) {
        (0, _) => ExitCode::SUCCESS,
        // To a monitoring system 2 means that a service is in a bad way.
        (_, true) => ExitCode::from(3),
        (status, false) => ExitCode::from(u8::try_from(status).unwrap_or(2)),
    }
}

fn print_version() -> Result<(), Failure> {
    Ok(writeln!(io::stdout(), "campanile {}", env!("CARGO_PKG_VERSION"))?)
}

/// Writes a manual page for each command, made of its help.
fn write_man_pages(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(args::program(), folder))
        .map_err(|error| Failure::Message(format!("cannot write man pages to {}: {error}", folder.display())))
}
