//! `campanile deploy`: plans of components, on this machine.

use crate::args::{DeployCommand, DeployOptions, DeployServeOptions};
use crate::failure::Failure;
use crate::logger;
use crate::signals::{Waiter, Wake};
use component::{PlanFile, Problem, ServerSettings};
use service::LogConfig;
use std::io::{self, Write as _};
use std::sync::Arc;
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
        DeployCommand::Serve(options) => serve(options),
    }
}

/// Reads a plan; what is wrong with it is said, a line each.
fn read(options: &DeployOptions) -> Result<PlanFile, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::Message(error.to_string()))?;
    let objects = vec![program.into(), "deploy".into(), "serve".into()];
    PlanFile::read_with_objects(&options.plan, objects).map_err(|problems| {
        for problem in problems {
            eprintln!("campanile: {problem}");
        }
        Failure::Quiet
    })
}

fn failure(problem: &Problem) -> Failure {
    Failure::Message(problem.to_string())
}

/// Is a server of a plan that names no program for it, with components of shared objects.
fn serve(options: &DeployServeOptions) -> Result<(), Failure> {
    if let Some(object) = &options.describe {
        return Ok(component::describe_object(object)?);
    }
    // Ctrl-C goes to all processes of a terminal; the command that runs the plan has this one end as at any other time.
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::default())?;
    logger::install(LogConfig::default());
    let settings = ServerSettings::default().priorities(service::run_at_fifo);
    let (Some(plan), Some(server)) = (&options.plan, &options.server) else { return Ok(()) };
    component::serve_objects(plan, server, settings).map_err(Failure::Message)
}

fn run_plan(options: &DeployOptions) -> Result<(), Failure> {
    let waiter = Waiter::install()?;
    // What the servers print is logged.
    logger::install(LogConfig::default());
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
