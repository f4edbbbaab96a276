//! `campanile deploy`: plans of components, on this machine.

use crate::args::{DeployCommand, DeployOptions};
use crate::failure::Failure;
use crate::signals::{Waiter, Wake};
use component::{PlanFile, Problem};
use std::io::{self, Write as _};
use std::time::Duration;

/// How long a look at the servers and one at the signals are apart.
const LOOK: Duration = Duration::from_millis(100);

/// Checks or runs a plan.
pub(crate) fn run(command: &DeployCommand) -> Result<(), Failure> {
    match command {
        DeployCommand::Check(options) => {
            let file = read(options)?;
            let instances = file.plan().instances.len();
            Ok(writeln!(io::stdout(), "{}: {instances} instances, nothing stands in the way", options.plan.display())?)
        }
        DeployCommand::Run(options) => run_plan(options),
    }
}

/// Reads a plan; what is wrong with it is said, a line each.
fn read(options: &DeployOptions) -> Result<PlanFile, Failure> {
    PlanFile::read(&options.plan).map_err(|problems| {
        for problem in problems {
            eprintln!("campanile: {problem}");
        }
        Failure::Quiet
    })
}

fn failure(problem: &Problem) -> Failure {
    Failure::Message(problem.to_string())
}

fn run_plan(options: &DeployOptions) -> Result<(), Failure> {
    let waiter = Waiter::install()?;
    let file = read(options)?;
    let mut running = file.run().map_err(|problem| failure(&problem))?;
    let mut out = io::stdout();
    for (server, process) in running.processes() {
        writeln!(out, "{server} runs as process {process}")?;
    }
    loop {
        if let Some(Wake::Signal | Wake::HangUp) = waiter.wait(Some(LOOK)) {
            return Ok(());
        }
        if let Some(problem) = running.ended(Duration::ZERO) {
            return Err(failure(&problem));
        }
    }
}
