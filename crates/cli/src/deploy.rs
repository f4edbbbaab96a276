//! `campanile deploy`: plans of components, on this machine.

mod replay;

use crate::args::{
    DeployCheckOptions, DeployCommand, DeployGraphOptions, DeployImportOptions, DeployOptions, DeployRunOptions,
    DeployServeOptions,
};
use crate::failure::Failure;
use crate::logger;
use crate::node;
use crate::record;
use crate::show;
use crate::signals::{self, Waiter, Wake};
use component::{
    Descriptor, Plan, PlanFile, PortTime, Problem, Processors, Recorded, Recording, ResponseTimes, ServerSettings,
    Verdict, import_plan,
};
use planning::format_time;
use serde_json::json;
use service::LogConfig;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

/// How long a look at the servers and one at the signals are apart.
const LOOK: Duration = Duration::from_millis(100);

/// Makes, checks, draws or runs a plan.
pub(crate) fn run(command: &DeployCommand) -> Result<(), Failure> {
    match command {
        DeployCommand::Check(options) => check(options),
        DeployCommand::Run(options) => run_plan(options),
        DeployCommand::Replay(options) => replay::run(options),
        DeployCommand::Graph(options) => graph(options),
        DeployCommand::Import(options) => import(options),
        DeployCommand::Serve(options) => serve(options),
        DeployCommand::Up(options) => node::up(options),
        DeployCommand::Status(options) => node::status(options),
        DeployCommand::Diff(options) => node::diff(options),
        DeployCommand::Down(options) => node::down(options),
    }
}

/// Reads a plan; what is wrong with it is told.
fn read(options: &DeployOptions, tell: impl FnOnce(&[Problem]) -> Failure) -> Result<PlanFile, Failure> {
    PlanFile::read_with_objects(&options.plan, objects()?).map_err(|problems| tell(&problems))
}

/// The command that is a server of components in shared objects.
pub(crate) fn objects() -> Result<Vec<OsString>, Failure> {
    let program = std::env::current_exe().map_err(Failure::message)?;
    Ok(vec![program.into(), "deploy".into(), "serve".into()])
}

pub(crate) fn say(problems: &[Problem]) -> Failure {
    for problem in problems {
        eprintln!("campanile: {problem}");
    }
    Failure::Quiet
}

fn check(options: &DeployCheckOptions) -> Result<(), Failure> {
    let path = options.plan.plan.display();
    let tell = |problems: &[Problem]| {
        if !options.json {
            return say(problems);
        }
        let told = writeln!(io::stdout(), "{}", json!({ "plan": path.to_string(), "problems": problems }));
        told.map_or_else(Failure::from, |()| Failure::Quiet)
    };
    let file = read(&options.plan, tell)?;
    let processors = if options.cpu_per_server { Processors::PerServer } else { Processors::One };
    let times = file.plan().response_times(file.components(), processors).map_err(|problems| tell(&problems))?;
    let problems = times.as_ref().map(|times| times.problems.as_slice()).unwrap_or_default();
    let instances = file.plan().instances.len();
    let mut out = io::stdout();
    if options.json {
        writeln!(out, "{}", json!({ "plan": path.to_string(), "instances": instances, "response_times": times }))?;
        return if problems.is_empty() { Ok(()) } else { Err(Failure::Quiet) };
    }
    match &times {
        Some(times) => out.write_all(describe(times).as_bytes())?,
        None => writeln!(out, "response times were not computed: no port has a time")?,
    }
    if !problems.is_empty() {
        return Err(say(problems));
    }
    Ok(writeln!(out, "{path}: {instances} instances, nothing stands in the way")?)
}

const HEADINGS: [&str; 8] = ["port", "server", "lane", "priority", "period", "response", "deadline", ""];

/// Text with a table, and a line for each processor and note.
fn describe(times: &ResponseTimes) -> String {
    let rows: Vec<[String; 8]> = times.ports.iter().map(row).collect();
    let mut text = String::new();
    show::table(&mut text, (&HEADINGS, false), &[0, 1, 2, 7], &rows);
    for processor in &times.processors {
        let of = processor.server.as_ref().map_or_else(String::new, |server| format!(" of the processor of {server}"));
        let least = if processor.is_partial { "at least " } else { "" };
        let over = if processor.utilisation > 1.0 { ", more than one processor has" } else { "" };
        let _ = writeln!(text, "utilisation{of}: {least}{:.1} %{over}", processor.utilisation * 100.0);
    }
    for note in &times.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn row(port: &PortTime) -> [String; 8] {
    let verdict = match port.verdict {
        None => "",
        Some(Verdict::Holds) => "holds",
        Some(Verdict::Missed) => "MISSED",
        Some(Verdict::Lost) => "MAY BE LOST",
        Some(_) => "unknown",
    };
    let periods: Vec<String> = port.periods_ns.iter().copied().map(format_time).collect();
    [
        show::clean(&port.port),
        show::clean(&port.server),
        show::clean(&port.lane),
        port.priority.map_or_else(|| "ordinary".to_owned(), |priority| priority.to_string()),
        periods.join(", "),
        port.response_ns.map_or_else(|| "?".to_owned(), format_time),
        port.deadline_ns.map(format_time).unwrap_or_default(),
        verdict.to_owned(),
    ]
}

/// Draws a plan.
fn graph(options: &DeployGraphOptions) -> Result<(), Failure> {
    let path = &options.plan.plan;
    let (plan, components) = if options.no_types {
        (Plan::read(path).map_err(|problem| failure(&problem))?, BTreeMap::new())
    } else {
        let file = read(&options.plan, say)?;
        (file.plan().clone(), file.components().clone())
    };
    let mut out = io::stdout();
    if options.json {
        let connections = plan.arrows(&components);
        return Ok(writeln!(out, "{}", json!({ "plan": path.display().to_string(), "connections": connections }))?);
    }
    Ok(out.write_all(plan.to_dot(&components).as_bytes())?)
}

/// Makes a plan of the OMG's deployment plan.
fn import(options: &DeployImportOptions) -> Result<(), Failure> {
    let read = |path| Descriptor::read(path).map_err(|problem| failure(&problem));
    let plan = read(&options.plan)?;
    let events = options.events.as_deref().map(read).transpose()?;
    let made = import_plan(&plan, events.as_ref()).map_err(|problems| say(&problems))?;
    for note in &made.notes {
        eprintln!("campanile: note: {note}");
    }
    let Some(file) = &options.output else { return Ok(io::stdout().write_all(made.text.as_bytes())?) };
    let written = File::create_new(file).and_then(|mut to| to.write_all(made.text.as_bytes()));
    written.map_err(|error| {
        let what_to_do = match error.kind() {
            io::ErrorKind::AlreadyExists => "it is there already: remove it, or choose another file".to_owned(),
            _ => format!("{error}; choose another file"),
        };
        Failure::message(format!("cannot write {}: {what_to_do}", file.display()))
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
    // Signals go to all processes of a terminal, or of a unit; the command that runs the plan has this one end as at any other time, by the
    // end of its standard input, so that its components are passivated.
    for signal in signals::that_end() {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    logger::install(LogConfig::default());
    let settings = ServerSettings::default().priorities(service::run_at_fifo);
    let (Some(plan), Some(server)) = (&options.plan, &options.server) else { return Ok(()) };
    component::serve_objects(plan, server, settings).map_err(Failure::Message)
}

fn run_plan(options: &DeployRunOptions) -> Result<(), Failure> {
    let waiter = Waiter::install()?;
    // What the servers print is logged.
    logger::install(LogConfig::default());
    let file = read(&options.plan, say)?;
    let create = |path| Recording::create(path, options.record_max * 1024 * 1024, &options.plan.plan);
    let recording = options.record.as_deref().map(create).transpose().map_err(Failure::Message)?;
    let outcome = run_until_signal(&file, recording.as_ref(), &waiter);
    let Some(recording) = recording else { return outcome };
    let Recorded { events, dropped, ended, cut_short, .. } = recording.finish();
    for server in cut_short {
        eprintln!("campanile: the recording of {server} was cut short: it ended before it had sent all");
    }
    let more = if dropped > 0 { format!("; {} were not", record::events(dropped)) } else { String::new() };
    let why = ended.map_or_else(String::new, |reason| format!(": {reason}"));
    eprintln!("campanile: {} recorded{more}{why}", record::events(events));
    outcome
}

/// Runs a plan, whose processes have ended when it returns.
fn run_until_signal(file: &PlanFile, recording: Option<&Recording>, waiter: &Waiter) -> Result<(), Failure> {
    let started = recording.map_or_else(|| file.run(), |recording| file.run_recorded(recording));
    let mut running = started.map_err(|problem| failure(&problem))?;
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
