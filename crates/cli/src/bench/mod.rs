//! `campanile bench`: load tests of a service. The experiments are another program, `campanile-bench`.

mod latency;
mod monitor;
mod options;

use crate::args::service_of;
use crate::failure::Failure;
use load::{BenchError, LeashedOptions, Output};
use std::io::{self, ErrorKind, IsTerminal};

pub(crate) use options::Command;

/// Runs one of the benchmarks.
pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    let terminal = stdout.is_terminal();
    let out = &mut Output::new(&mut stdout, terminal);
    match command {
        Command::Latency(options) => {
            let server = service_of(options.server.as_deref()).map_err(Failure::Usage)?;
            latency::run(options, &server, out)
        }
        Command::Monitor(options) => monitor::run(options, out),
    }
    .map_err(failure)
}

/// Becomes the service that a benchmark has started, which ends with it.
pub(crate) fn run_leashed(options: &LeashedOptions) -> Result<(), Failure> {
    load::leash::run_process(options).map_err(failure)
}

fn failure(error: BenchError) -> Failure {
    match error {
        BenchError::Io { source, .. } if source.kind() == ErrorKind::BrokenPipe => Failure::OutputClosed,
        error @ BenchError::Option { .. } => Failure::Usage(error.to_string()),
        error => Failure::message(error),
    }
}
