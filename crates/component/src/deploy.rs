//! A plan carried out: the server of one process, with its ends of connections to other processes.

use crate::declaration::{Blueprint, Component};
use crate::edge::foreign::blueprints;
use crate::error::Error;
use crate::plan::sets::{is_correlation, sinks_of_set};
use crate::plan::{Descriptions, Plan, PortPlan, Problem};
use crate::recording::{self, ServerRecording};
use crate::replay;
use crate::server::Server;
use crate::services::SourceQos;
use crate::sets::SetTerms;
use crate::settings::{Placement, PortSettings, ServerSettings};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stdin, dup2_stdout};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

/// Reads the components of a file, or says what is wrong with it.
pub(crate) type ReadFile<'r> = &'r dyn Fn(&Path) -> Result<Vec<(String, Blueprint)>, String>;

/// Components of a program, by the names under which plans know them.
#[derive(Clone, Debug, Default)]
pub struct Registry(BTreeMap<String, Blueprint>);

impl Registry {
    /// One without components.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With a component, by the name of its struct.
    #[must_use]
    pub fn with<C: Component>(mut self) -> Self {
        self.0.insert(C::NAME.to_owned(), Blueprint::of::<C>());
        self
    }

    /// With the components of the shared objects that the instances of a server name, by the names under which the plan knows them. Each
    /// object is loaded into this process for good, and may end it; `folder` is the plan's, where relative paths begin.
    ///
    /// # Errors
    /// The first object that is refused.
    pub fn with_objects(self, plan: &Plan, server: &str, folder: &Path) -> Result<Self, Problem> {
        self.with_files(plan, server, folder, &blueprints)
    }

    /// As [`with_objects`](Self::with_objects), where a file is read so.
    fn with_files(mut self, plan: &Plan, server: &str, folder: &Path, read: ReadFile<'_>) -> Result<Self, Problem> {
        let here = plan.instances.iter().filter(|(_, instance)| instance.server == server);
        let mut known = BTreeSet::new();
        for (name, instance) in here {
            if let Some((object, _)) = instance.object()
                && known.insert(object)
            {
                let all = read(&folder.join(object))
                    .map_err(|reason| Problem::new(format!("instances.{name}"), format!("{object}: {reason}")))?;
                self.0.extend(all.into_iter().map(|(name, blueprint)| (format!("{object}#{name}"), blueprint)));
            }
        }
        Ok(self)
    }

    /// What all components declare.
    #[must_use]
    pub fn descriptions(&self) -> Descriptions {
        self.0.iter().map(|(name, blueprint)| (name.clone(), (&**blueprint.declaration()).into())).collect()
    }
}

/// A refusal of a server as a problem of the plan.
fn problem(place: &str) -> impl Fn(Error) -> Problem + '_ {
    move |error| Problem::new(place, error.to_string())
}

impl Server {
    /// Makes the server of that name as a plan says: containers, instances and connections. Nothing is active yet:
    /// [`start`](Server::start) is next.
    ///
    /// # Errors
    /// The first thing that the plan says and that cannot be; [`Plan::check`] says all that can be known before.
    pub fn deploy(plan: &Plan, name: &str, registry: &Registry, settings: ServerSettings) -> Result<Self, Problem> {
        let mut server = Self::new(name, settings).map_err(problem(name))?;
        server.deploy_here(plan, name, registry)?;
        Ok(server)
    }

    /// As [`deploy`](Self::deploy), into a server that there is.
    ///
    /// # Errors
    /// As [`deploy`](Self::deploy).
    pub fn deploy_here(&mut self, plan: &Plan, name: &str, registry: &Registry) -> Result<(), Problem> {
        let here = || plan.instances.iter().filter(|(_, instance)| instance.server == name);
        // The one for instances that name none is the first.
        if here().any(|(_, instance)| instance.container.is_none()) {
            self.container(crate::server::FIRST_CONTAINER, &[]).map_err(problem("containers"))?;
        }
        let named: BTreeSet<_> = here().filter_map(|(_, instance)| instance.container.as_ref()).collect();
        for container in named {
            let place = format!("containers.{container}");
            let of =
                plan.containers.get(container).ok_or_else(|| Problem::new(&*place, "there is no such container"))?;
            self.container(container, &of.pool.lanes).map_err(problem(&place))?;
        }
        for (name, instance) in here() {
            let place = format!("instances.{name}");
            let blueprint = registry.0.get(&instance.component).ok_or_else(|| {
                let known = registry.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                Problem::new(&*place, format!("there is no component {}; there are: {known}", instance.component))
            })?;
            let placement = Placement { container: instance.container.as_deref(), lane: instance.lane };
            self.place(name, blueprint, placement, instance.properties.clone()).map_err(problem(&place))?;
        }
        let is_here =
            |port: &str| port.split_once('.').is_some_and(|(instance, _)| here().any(|(name, _)| name == instance));
        for (port, PortPlan { queue, when, .. }) in plan.ports.iter().filter(|(port, _)| is_here(port)) {
            let when = when.as_ref().filter(|when| !is_correlation(when));
            if queue.is_some() || when.is_some() {
                let settings = PortSettings { queue: queue.clone(), when: when.cloned() };
                self.set_port(port, settings).map_err(problem(&format!("ports.{port:?}")))?;
            }
        }
        let by_sink = plan.sources_by_sink();
        for (port, PortPlan { when, .. }) in plan.ports.iter().filter(|(port, _)| is_here(port)) {
            if let Some(when) = when.as_deref().filter(|when| is_correlation(when)) {
                let place = format!("ports.{port:?}");
                let terms = SetTerms::parse(when).map_err(|reason| Problem::new(&*place, reason))?;
                self.correlate(&sinks_of_set(port, &terms, &by_sink), when).map_err(problem(&place))?;
            }
        }
        for (source, sinks) in &plan.connections {
            let place = format!("connections.{source:?}");
            let mut is_published = false;
            for sink in sinks {
                match (is_here(source), is_here(sink)) {
                    (true, true) => self.connect(source, sink).map_err(problem(&place))?,
                    (false, true) => {
                        let unit = self.unit_of(plan, sink)?;
                        self.subscribe_by(&unit, sink, &plan.channel(source), source).map_err(problem(&place))?;
                    }
                    (true, false) if !is_published => {
                        is_published = true;
                        let unit = self.unit_of(plan, source)?;
                        let qos = plan
                            .container_of(source)
                            .and_then(|container| Some(container.service?.source_qos(container)))
                            .unwrap_or_else(|| Ok(SourceQos::default()))
                            .map_err(|reason| Problem::new(&*place, reason))?;
                        self.publish_by(&unit, source, &plan.channel(source), &qos).map_err(problem(&place))?;
                        for link in plan.links_of(source) {
                            self.link_by(&unit, source, &link).map_err(problem(&place))?;
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// What `main` of a program with components does, so that plans can name it.
///
/// With `--describe` the program prints what its components declare. With `--plan FILE --server NAME` it makes that server, prints
/// `configured`, waits for a line `start` on its standard input, starts the instances, prints `started`, and ends when the standard input
/// does. What cannot be is one line on the standard error, and exit status 1.
#[must_use]
pub fn run_program(registry: &Registry, settings: ServerSettings) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match serve_program(registry, settings, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            let _ = writeln!(io::stderr(), "{reason}");
            ExitCode::FAILURE
        }
    }
}

/// Does what [`run_program`] does by these arguments, for a program that has other commands as well.
///
/// # Errors
/// What cannot be, on one line.
pub fn serve_program(registry: &Registry, settings: ServerSettings, arguments: &[String]) -> Result<(), String> {
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match *arguments {
        ["--describe"] => describe_program(registry),
        ["--plan", plan, "--server", server] => serve(registry, settings, Path::new(plan), server),
        _ => Err("usage: --describe, or --plan FILE --server NAME".to_owned()),
    }
}

fn describe_program(registry: &Registry) -> Result<(), String> {
    let text = toml::to_string(&registry.descriptions()).map_err(|error| error.to_string())?;
    io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}

/// What a shared object says of its components, or why it is refused.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ObjectReport {
    pub(crate) refused: Option<String>,
    pub(crate) components: Descriptions,
}

/// Prints what the components of a shared object declare, or why it is refused, for a process that checks a plan: the object is loaded
/// here, and may end this process.
///
/// # Errors
/// The standard output is closed.
pub fn describe_object(path: &Path) -> io::Result<()> {
    describe(path, &blueprints)
}

pub(crate) fn describe(path: &Path, read: ReadFile<'_>) -> io::Result<()> {
    let (_, mut output) = take_streams()?;
    let mut report = ObjectReport::default();
    match read(path) {
        Ok(all) => report.components = Registry(all.into_iter().collect()).descriptions(),
        Err(reason) => report.refused = Some(reason),
    }
    let text = toml::to_string(&report).map_err(io::Error::other)?;
    output.write_all(text.as_bytes())
}

/// Takes the standard input and output, so that shared objects and their child processes neither read nor write what this process and its
/// launcher say to each other: they read nothing, and what they print goes to the standard error.
fn take_streams() -> io::Result<(File, File)> {
    let input = fcntl_dupfd_cloexec(io::stdin(), 3)?;
    let output = fcntl_dupfd_cloexec(io::stdout(), 3)?;
    dup2_stdin(File::open("/dev/null")?)?;
    dup2_stdout(io::stderr())?;
    Ok((input.into(), output.into()))
}

/// Is the server of that name of a plan, with the components of the shared objects that its instances name, as [`run_program`] is one with
/// those of a program. Their standard input is empty, and their standard output the standard error.
///
/// # Errors
/// What cannot be, on one line.
pub fn serve_objects(plan: &Path, name: &str, settings: ServerSettings) -> Result<(), String> {
    serve_with(plan, name, settings, &blueprints)
}

pub(crate) fn serve_with(plan: &Path, name: &str, settings: ServerSettings, read: ReadFile<'_>) -> Result<(), String> {
    let (input, output) = take_streams().map_err(|error| format!("the standard input and output: {error}"))?;
    let parsed = read_plan(plan)?;
    let folder = plan.parent().unwrap_or(Path::new("."));
    let registry = Registry::new().with_files(&parsed, name, folder, read).map_err(|problem| problem.to_string())?;
    serve_plan(&registry, settings, &parsed, name, (BufReader::new(input), output))
}

fn serve(registry: &Registry, settings: ServerSettings, plan: &Path, name: &str) -> Result<(), String> {
    serve_plan(registry, settings, &read_plan(plan)?, name, (io::stdin().lock(), io::stdout()))
}

/// Reads a plan: the part of it that the environment requests.
fn read_plan(path: &Path) -> Result<Plan, String> {
    let mut plan = Plan::read(path).map_err(|problem| problem.to_string())?;
    if let Some(request) = replay::Request::of_environment() {
        request.alone(&mut plan);
    }
    Ok(plan)
}

fn serve_plan(
    registry: &Registry,
    settings: ServerSettings,
    plan: &Plan,
    name: &str,
    (input, mut output): (impl BufRead, impl Write),
) -> Result<(), String> {
    let mut server = Server::deploy(plan, name, registry, settings).map_err(|problem| problem.to_string())?;
    let feed = replay::Request::of_environment().map(|request| request.connect(&mut server)).transpose()?;
    let socket = std::env::var_os(recording::SOCKET);
    let recording = socket.map(|socket| ServerRecording::start(&server, name, Path::new(&socket))).transpose()?;
    let mut say =
        |line: &str| writeln!(output, "{line}").and_then(|()| output.flush()).map_err(|error| error.to_string());
    say("configured")?;
    let mut lines = input.lines();
    match lines.next() {
        Some(Ok(line)) if line == "start" => {}
        // Another server could not be configured.
        _ => return Ok(()),
    }
    server.start().map_err(|error| error.to_string())?;
    say("started")?;
    if let Some(feed) = feed {
        feed.run(&mut server);
    }
    // Until the standard input ends.
    lines.by_ref().map_while(Result::ok).for_each(drop);
    // What comes until all are passivated is recorded.
    drop(server);
    drop(recording);
    Ok(())
}
