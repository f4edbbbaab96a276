//! The `campanile` command: serves, looks at services, publishes and subscribes.

mod access;
mod args;
mod bench;
mod channel;
mod constraint;
mod disconnect;
mod doctor;
mod environment;
mod failure;
mod fields;
mod info;
mod json;
mod logger;
mod ls;
mod moment;
mod plan;
mod publish;
mod record;
mod replay;
mod select;
mod serve;
mod show;
mod signals;
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

use crate::args::{Cli, Command};
use crate::failure::Failure;
use clap::{CommandFactory, Parser};
use std::io::{self, Write};
use std::process::ExitCode;

/// Counts the lane's allocations, which the service reports as `lane_allocations`; costs a few instructions each.
#[global_allocator]
static ALLOCATOR: service::allocations::CountingAllocator = service::allocations::CountingAllocator;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(options) => serve::run(&options),
        Command::TaoNotify(options) => tao_notify::run(&options),
        Command::Ls(options) => ls::run(&options),
        Command::Info(options) => info::run(&options),
        Command::Stats(options) => stats::run(&options),
        Command::Disconnect(options) => disconnect::run(&options),
        Command::Channel(command) => channel::run(&command),
        Command::Topology(command) => topology::run(&command),
        Command::Store(command) => store::run(&command),
        Command::Access(command) => access::run(&command),
        Command::Pub(options) => publish::run(&options),
        Command::Sub(options) => subscribe::run(&options),
        Command::Record(options) => record::run(&options),
        Command::Replay(options) => replay::run(&options),
        Command::Tempo(command) => tempo::run(&command),
        Command::Filter(command) => constraint::run(&command),
        Command::Bench(command) => bench::run(&command),
        Command::LeashedProcess(options) => bench::run_leashed(&options),
        Command::Top(options) => top::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Plan(options) => plan::run(&options),
        Command::Completions { shell } => print_completions(shell),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn print_completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    // Into memory first: the generator panics if its output is closed.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "campanile", &mut script);
    io::stdout().write_all(&script)?;
    Ok(())
}
