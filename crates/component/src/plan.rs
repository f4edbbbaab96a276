//! Plans: which instances there are, where, and what is connected with what.
//!
//! A [`Plan`] is what a TOML file says. [`Plan::check`] holds it against what the components declare, and says all that is wrong at once;
//! nothing has been started then.

pub(crate) mod federation;
pub(crate) mod sets;

use crate::declaration::{Declaration, PortDeclaration, PortKind};
use crate::graph::{Connection, Graph, PortName};
use crate::queue::QueueSettings;
use crate::server::{FIRST_CONTAINER, NAME_BYTES_MAX, check_name};
use crate::services::{self, ChannelQos, ServicePlan};
use giop::typecode::TypeCode;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path};

/// The most octets of a plan's text.
pub const PLAN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The most instances of a plan.
const INSTANCES_MAX: usize = 10_000;

/// Keys of instances, which are no properties.
pub(crate) const INSTANCE_KEYS: [&str; 5] = ["component", "server", "container", "lane", "node"];

/// The server of instances for which the plan names none.
pub const FIRST_SERVER: &str = "main";

/// Which instances there are, where, and what is connected with what.
///
/// ```toml
/// name = "guiding"                          # in the names of channels between servers
/// [nodes]
/// dome = "dome.obs:2810"                    # node managers, where the plan has several
/// [servers.control]
/// program = "./control"                     # a process; its components are linked into it
/// [containers.fast]
/// service = "notification"                  # what is between this container's ports and those of other servers
/// at = "localhost:2809"
/// pool = { lanes = [80, 40] }
/// [instances.guider]
/// component = "Guider"
/// node = "dome"
/// server = "control"
/// container = "fast"
/// lane = 40
/// gain = 0.3                                # all other keys are properties
/// [connections]
/// "camera.frame" = ["guider.frame"]
/// [ports."guider.frame"]
/// qos = { MaxEventsPerConsumer = 4 }
/// when = "$brightness > 0.1"
/// time = "2ms"                              # what its handler takes at most
/// deadline = "20ms"
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Plan {
    /// The name, with which the channels between its servers begin. Default `plan`.
    #[serde(default = "default_name")]
    pub name: String,
    /// Addresses of node managers, as `HOST:PORT`, by the names that instances have for them. Default: none, and all servers are on the node
    /// where the plan is brought up.
    #[serde(default)]
    pub nodes: BTreeMap<String, String>,
    /// Processes, by name.
    #[serde(default)]
    pub servers: BTreeMap<String, ServerPlan>,
    /// Containers, by name. Each server has its own of those that its instances name.
    #[serde(default)]
    pub containers: BTreeMap<String, ContainerPlan>,
    /// Instances, by name.
    #[serde(default)]
    pub instances: BTreeMap<String, InstancePlan>,
    /// Sinks, as `instance.port`, of each source.
    #[serde(default)]
    pub connections: BTreeMap<String, Vec<String>>,
    /// Channels that services at several nodes have.
    #[serde(default)]
    pub federate: Vec<federation::FederatePlan>,
    /// Settings of sinks, and times of handlers.
    #[serde(default)]
    pub ports: BTreeMap<String, PortPlan>,
    /// Digests of programs and shared objects, named as elsewhere in the plan, each as `sha256:` and 64 digits. A file with another one is
    /// not loaded.
    #[serde(default)]
    pub artifacts: BTreeMap<String, String>,
}

fn default_name() -> String {
    "plan".to_owned()
}

/// A process of a plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerPlan {
    /// The program, which calls [`run_program`](crate::run_program). A relative path begins at the plan's folder. Default: the command that
    /// runs the plan, which loads the shared objects that the server's instances name.
    pub program: Option<String>,
    /// The interpreter of a server whose instances are in Python. Default `python3`; with a slash in it a path, which begins at the plan's folder.
    pub python: Option<String>,
}

/// For what there are connections to a service, and a thread that publishes, of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PlacedPlan {
    /// For each server: all its containers share them.
    #[default]
    Server,
    /// For each container of a server.
    Container,
    /// For each instance.
    Component,
}

/// A container of a plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ContainerPlan {
    /// What is between ports of this container and those of other servers. Within a server no service is used. Default: none, and such
    /// connections are refused.
    pub service: Option<ServicePlan>,
    /// Where the service is. Of a notification service: `HOST:PORT`; default: what the settings of the environment say. Of Tempo: a broker's
    /// address, or a group's. Of DDS: the hosts of the servers, with commas between, where there is no multicast.
    pub at: Option<String>,
    /// The domain, of DDS, 0 to 232. Default: what the settings of the environment say.
    pub domain: Option<u16>,
    /// What shares connections to the service. Default: all of a server.
    pub placed: PlacedPlan,
    /// Properties of the channels of this container's sources. Default: those of the service.
    pub qos: ChannelQos,
    /// Threads.
    pub pool: PoolPlan,
}

/// The threads of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PoolPlan {
    /// A lane for each priority, 1 to 99. Default: one at ordinary priority.
    pub lanes: Vec<i32>,
}

/// An instance of a plan.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct InstancePlan {
    /// The name of the component in its server's program; or a shared object or a file of Python and a name in that, as `libguider.so#Guider`
    /// or `guider.py#Guider`. The path begins at the plan's folder.
    pub component: String,
    /// The node, where the plan has several: one for all instances of a server.
    pub node: Option<String>,
    /// The server. Default `main`.
    #[serde(default = "default_server")]
    pub server: String,
    /// The container. Default: one with one lane at ordinary priority.
    pub container: Option<String>,
    /// The lane, by its priority. Default: the container's first.
    pub lane: Option<i32>,
    /// The properties: all other keys.
    #[serde(flatten)]
    pub properties: toml::Table,
}

impl InstancePlan {
    /// The shared object or file of its component, and the name there; `None` for one of its server's program.
    #[must_use]
    pub fn object(&self) -> Option<(&str, &str)> {
        self.component.rsplit_once('#')
    }

    /// Whether its component is in a file of Python.
    pub(crate) fn is_in_python(&self) -> bool {
        self.object().is_some_and(|(file, _)| file.ends_with(".py"))
    }
}

fn default_server() -> String {
    FIRST_SERVER.to_owned()
}

/// A sink or a timer of a plan. Times are of its handler; they are what [`Plan::response_times`] computes with, and change nothing in a
/// server that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PortPlan {
    /// As [`PortSettings::queue`](crate::PortSettings::queue).
    #[serde(rename = "qos")]
    pub queue: Option<QueueSettings>,
    /// A filter, as [`PortSettings::when`](crate::PortSettings::when), or a correlation of sources, as of
    /// [`Server::correlate`](crate::Server::correlate), for all sinks of the instance with which these are connected.
    pub when: Option<String>,
    /// Longest time that the handler takes, its filter included and the handlers that it calls left out, in nanoseconds.
    #[serde(rename = "time", deserialize_with = "time")]
    pub time_ns: Option<u64>,
    /// Time by which the handler has to have ended, in nanoseconds from when the timer was due that led to the event, or the event came from
    /// outside the server.
    #[serde(rename = "deadline", deserialize_with = "time")]
    pub deadline_ns: Option<u64>,
    /// Shortest time between two events from outside the server, in nanoseconds: from the program and from sources in other servers, all
    /// together.
    #[serde(rename = "period", deserialize_with = "time")]
    pub period_ns: Option<u64>,
    /// Sources by which the handler sends, a name for each event. Default: one event by each source of the instance.
    pub sends: Option<Vec<String>>,
}

/// Parses a time such as `2ms`.
fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(from)?;
    match planning::parse_time(&text) {
        Ok(ns) if (1..=planning::TIME_MAX).contains(&ns) => Ok(Some(ns)),
        Ok(_) => Err(D::Error::custom(format!("{text:?} is out of range: give 1ns to three years"))),
        Err(why) => Err(D::Error::custom(format!("{text:?} is no time: {why}"))),
    }
}

/// What a component declares, as programs tell it to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Description {
    /// The types of sinks' events, in IDL with all that they contain and modules, by name.
    pub sinks: BTreeMap<String, String>,
    /// The types of sources' events.
    pub sources: BTreeMap<String, String>,
    /// The other ports, each with its kind.
    pub others: BTreeMap<String, String>,
    /// Intervals of the timers among them, in nanoseconds.
    pub timers_ns: BTreeMap<String, u64>,
    /// The types of the properties.
    pub properties: BTreeMap<String, String>,
    /// Properties that need not be given.
    pub optional: Vec<String>,
    /// The services that its program has, by their names in plans. Programs that do not say it have the first that there was.
    #[serde(default = "first_service")]
    pub services: Vec<String>,
}

fn first_service() -> Vec<String> {
    vec!["notification".to_owned()]
}

impl From<&Declaration> for Description {
    fn from(declaration: &Declaration) -> Self {
        let of_kind = |kind| {
            let ports = declaration.ports.iter().filter(move |port| port.kind == kind);
            let code = |event: crate::EventType| ::idl::text(event.type_code());
            ports.map(|port| (port.name.to_owned(), port.event.map(code).unwrap_or_default())).collect()
        };
        let others = declaration.ports.iter().filter(|port| !matches!(port.kind, PortKind::Sink | PortKind::Source));
        let interval = |port: &PortDeclaration| match port.kind {
            PortKind::Timer(interval) => Some((port.name.to_owned(), u64::try_from(interval.as_nanos()).ok()?)),
            _ => None,
        };
        let properties = declaration.properties.iter();
        Self {
            sinks: of_kind(PortKind::Sink),
            sources: of_kind(PortKind::Source),
            others: others.map(|port| (port.name.to_owned(), port.kind.name().to_owned())).collect(),
            timers_ns: declaration.ports.iter().filter_map(interval).collect(),
            properties: properties.clone().map(|it| (it.name.to_owned(), it.of.to_owned())).collect(),
            optional: properties.filter(|it| it.has_default).map(|it| it.name.to_owned()).collect(),
            services: ServicePlan::built(),
        }
    }
}

impl Description {
    fn port_names(&self) -> String {
        let names = self.sinks.keys().chain(self.sources.keys()).chain(self.others.keys());
        names.map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    /// The kind of a port.
    fn kind(&self, port: &str) -> Option<&str> {
        let found = |ports: &BTreeMap<String, String>| ports.contains_key(port);
        if found(&self.sinks) {
            Some(PortKind::Sink.name())
        } else if found(&self.sources) {
            Some(PortKind::Source.name())
        } else {
            self.others.get(port).map(String::as_str)
        }
    }
}

/// Components of a program or shared object, by the names under which plans know them.
pub type Descriptions = BTreeMap<String, Description>;

/// What is wrong with a plan, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Problem {
    /// The place in the plan: `instances.guider`, `connections."camera.frame"`.
    pub place: String,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl Problem {
    pub(crate) fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { place: place.into(), reason: reason.into() }
    }
}

/// The lane of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LanePlace<'p> {
    pub(crate) server: &'p str,
    pub(crate) container: Option<&'p str>,
    /// `None` for ordinary priority.
    pub(crate) priority: Option<i32>,
}

/// The name that the server has for it.
impl fmt::Display for LanePlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.container.unwrap_or(FIRST_CONTAINER))?;
        self.priority.map_or(Ok(()), |priority| write!(f, "/{priority}"))
    }
}

/// A text on one line.
pub(crate) fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Two types that differ, for people: in short, or as the whole IDL, with modules, where that would be alike.
pub(crate) fn apart(gives: &TypeCode, takes: &TypeCode) -> (String, String) {
    let (short, of) = (gives.to_string(), takes.to_string());
    let whole = |code| line(&::idl::text(code)).trim_end_matches(';').to_owned();
    if short == of { (whole(gives), whole(takes)) } else { (short, of) }
}

/// The folder of a file of Python, as far as the plan says it.
fn folder(file: &str) -> impl Iterator<Item = Component<'_>> {
    let folder = Path::new(file).parent().unwrap_or(Path::new("")).components();
    folder.filter(|part| *part != Component::CurDir)
}

/// The names of a map, for people.
pub(crate) fn names<V>(of: &BTreeMap<String, V>) -> String {
    of.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

impl Plan {
    /// Reads the plan of a file: of one that is too large, no more than says so.
    ///
    /// # Errors
    /// The file cannot be read, or is no plan.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        Self::parse(&Self::text(path)?)
    }

    /// The text of a plan in a file.
    ///
    /// # Errors
    /// The file cannot be read, is too long, or no UTF-8.
    pub fn text(path: &Path) -> Result<String, Problem> {
        let failed = |reason: String| Problem::new(path.display().to_string(), reason);
        let mut octets = Vec::new();
        let read = File::open(path).and_then(|file| file.take(PLAN_BYTES_MAX as u64 + 1).read_to_end(&mut octets));
        read.map_err(|error| failed(error.to_string()))?;
        // Where it is cut off, a letter may be.
        if octets.len() > PLAN_BYTES_MAX {
            return Err(failed(format!("it has more than {PLAN_BYTES_MAX} octets, which are the most that are taken")));
        }
        String::from_utf8(octets).map_err(|error| failed(error.to_string()))
    }

    /// The plan that a text is.
    ///
    /// # Errors
    /// The text is too long, no TOML, or says what no plan has.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        if text.len() > PLAN_BYTES_MAX {
            let reason = format!("it has {} octets: at most {PLAN_BYTES_MAX} are taken", text.len());
            return Err(Problem::new("plan", reason));
        }
        let plan: Self =
            toml::from_str(text).map_err(|error| Problem::new("plan", error.to_string().trim().to_owned()))?;
        federation::check_size(&plan.federate)?;
        Ok(plan)
    }

    /// The name of the channel between the server of a source and others.
    #[must_use]
    pub fn channel(&self, source: &str) -> String {
        format!("{}.{source}", self.name)
    }

    /// Servers of Python with their interpreters: those without a program of which an instance is in Python.
    pub(crate) fn python_servers(&self) -> BTreeMap<&str, &str> {
        let in_python = self.instances.values().filter(|instance| instance.is_in_python());
        let of = in_python.filter_map(|instance| {
            let server = self.servers.get(&instance.server);
            let python = server.and_then(|server| server.python.as_deref()).unwrap_or("python3");
            server.is_none_or(|server| server.program.is_none()).then_some((instance.server.as_str(), python))
        });
        of.collect()
    }

    /// The servers that the instances name.
    #[must_use]
    pub fn server_names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.instances.values().map(|instance| instance.server.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether a connection leaves the process of its source.
    pub(crate) fn is_remote(&self, source: &str, sink: &str) -> bool {
        let server = |port: &str| self.instance_of(port).map(|instance| &instance.server);
        server(source) != server(sink)
    }

    /// Whether a queue is between a source and a sink, so that the one does not call the other.
    pub(crate) fn is_queued(&self, source: &str, sink: &str) -> bool {
        let has_queue = self.ports.get(sink).is_some_and(|port| port.queue.is_some());
        has_queue || self.lane_of(source) != self.lane_of(sink) || self.is_in_set(source, sink)
    }

    fn instance_of(&self, port: &str) -> Option<&InstancePlan> {
        self.instances.get(port.split_once('.')?.0)
    }

    /// The container of a port's instance.
    pub(crate) fn container_of(&self, port: &str) -> Option<&ContainerPlan> {
        self.containers.get(self.instance_of(port)?.container.as_ref()?)
    }

    /// The name of what a port shares of its container's service.
    pub(crate) fn unit_name(&self, port: &str) -> Option<String> {
        let (plan, instance) = (&self.name, self.instance_of(port)?);
        let (server, container) = (&instance.server, instance.container.as_ref()?);
        Some(match self.container_of(port)?.placed {
            PlacedPlan::Server => format!("{plan}/{server}"),
            PlacedPlan::Container => format!("{plan}/{server}/{container}"),
            PlacedPlan::Component => format!("{plan}/{server}/{container}/{}", port.split_once('.')?.0),
        })
    }

    /// The lane of a port's instance: the first of its container, if it names none.
    pub(crate) fn lane_of(&self, port: &str) -> Option<LanePlace<'_>> {
        let instance = self.instance_of(port)?;
        let first = || self.container_of(port)?.pool.lanes.first().copied();
        Some(LanePlace {
            server: &instance.server,
            container: instance.container.as_deref(),
            priority: instance.lane.or_else(first),
        })
    }

    /// All that is wrong with the plan, held against the components of each server's program.
    #[must_use]
    pub fn check(&self, components: &BTreeMap<String, Descriptions>) -> Vec<Problem> {
        let python = self.python_servers();
        let mut checked = Checked { plan: self, components, python, problems: Vec::new(), graph: Graph::default() };
        if self.instances.len() > INSTANCES_MAX {
            let reason = format!("there are {}: at most {INSTANCES_MAX} are taken", self.instances.len());
            return vec![Problem::new("instances", reason)];
        }
        checked.check_names();
        for (name, _) in self.servers.iter().filter(|(_, server)| server.python.is_some()) {
            if !checked.python.contains_key(name.as_str()) {
                let reason = "it has `python`, and a program or no instance in Python: leave out `python`";
                checked.problem(format!("servers.{name}"), reason);
            }
        }
        checked.problems.extend(self.node_problems().into_iter().chain(self.artifact_problems()));
        checked.check_containers();
        checked.check_folders();
        for (name, instance) in &self.instances {
            checked.check_instance(name, instance);
        }
        for (source, sinks) in &self.connections {
            for sink in sinks {
                checked.check_connection(source, sink);
            }
        }
        for (port, settings) in &self.ports {
            checked.check_port(port, settings);
        }
        checked.check_whens();
        checked.check_channel_qos();
        checked.check_federations();
        checked.problems
    }
}

/// A check that goes on.
struct Checked<'p> {
    plan: &'p Plan,
    components: &'p BTreeMap<String, Descriptions>,
    /// Servers of Python.
    python: BTreeMap<&'p str, &'p str>,
    problems: Vec<Problem>,
    graph: Graph,
}

impl Checked<'_> {
    fn problem(&mut self, place: impl Into<String>, reason: impl Into<String>) {
        self.problems.push(Problem::new(place, reason));
    }

    /// The plan's name and those of servers, which are parts of names of channels and connections.
    fn check_names(&mut self) {
        let name = &self.plan.name;
        if name.contains(['*', '?', '[']) {
            let reason = format!("{name:?} stands for other channels, too, in some services: leave out *, ? and [");
            self.problem("name", reason);
        }
        let is_bad = |letter: char| letter.is_control() || matches!(letter, '/' | '@') || letter > '\u{ff}';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(is_bad) {
            let reason = format!(
                "{name:?} is no name of channels: give 1 to {NAME_BYTES_MAX} octets of Latin letters, digits and signs, without /, @ and \
                 control characters"
            );
            self.problem("name", reason);
        }
        for server in self.plan.servers.keys() {
            if let Err(error) = check_name(server) {
                self.problem(format!("servers.{server}"), error.to_string());
            }
        }
    }

    /// Refuses `qos` of containers without a channel.
    fn check_channel_qos(&mut self) {
        let plan = self.plan;
        let leaves = |(source, sinks): (&String, &Vec<String>)| {
            sinks
                .iter()
                .any(|sink| plan.is_remote(source, sink))
                .then(|| plan.instance_of(source)?.container.as_ref())?
        };
        let giving: BTreeSet<_> = plan.connections.iter().filter_map(leaves).collect();
        for (name, container) in &plan.containers {
            if container.service.is_some() && container.qos != ChannelQos::default() && !giving.contains(name) {
                let reason = "its qos is of channels, and none of its sources has a sink in another server: say the queue of a sink in \
                              [ports], or leave it out";
                self.problem(format!("containers.{name}"), reason);
            }
        }
    }

    fn check_containers(&mut self) {
        for (name, container) in &self.plan.containers {
            let place = format!("containers.{name}");
            if let Err(error) = check_name(name) {
                self.problem(&place, error.to_string());
            }
            for reason in services::problems(container) {
                self.problem(&place, reason);
            }
            let lanes = &container.pool.lanes;
            if lanes.iter().any(|lane| !(1..=99).contains(lane)) {
                self.problem(&place, format!("its lanes are {lanes:?}: priorities go from 1 to 99"));
            }
            if (1..lanes.len()).any(|place| {
                lanes.get(..place).is_some_and(|before| lanes.get(place).is_some_and(|lane| before.contains(lane)))
            }) {
                self.problem(&place, format!("its lanes are {lanes:?}: give each priority once"));
            }
        }
    }

    /// Files of one interpreter, which finds what they import by their names alone.
    fn check_folders(&mut self) {
        let plan = self.plan;
        let mut first = BTreeMap::<&str, &str>::new();
        let mut refused = BTreeSet::new();
        for (name, instance) in plan.instances.iter().filter(|(_, instance)| instance.is_in_python()) {
            let server = instance.server.as_str();
            let Some((file, _)) = instance.object().filter(|_| self.python.contains_key(server)) else { continue };
            let before = *first.entry(server).or_insert(file);
            if !folder(before).eq(folder(file)) && refused.insert(server) {
                let reason = format!(
                    "{before} and {file} are in two folders, and the server {server} imports from one: move one of the files, or give the instance another server"
                );
                self.problem(format!("instances.{name}"), reason);
            }
        }
    }

    fn describe(&self, instance: &str) -> Option<&Description> {
        let instance = self.plan.instances.get(instance)?;
        self.components.get(&instance.server)?.get(&instance.component)
    }

    fn check_instance(&mut self, name: &str, instance: &InstancePlan) {
        let place = format!("instances.{name}");
        if let Err(error) = check_name(name) {
            self.problem(&place, error.to_string());
        }
        match (&instance.container, instance.lane) {
            (Some(container), lane) => match (self.plan.containers.get(container), lane) {
                (None, _) => {
                    let known = names(&self.plan.containers);
                    self.problem(&place, format!("there is no container {container}; there are: {known}"));
                }
                (Some(of), Some(lane)) if !of.pool.lanes.contains(&lane) => {
                    self.problem(&place, format!("{container} has no lane {lane}; it has: {:?}", of.pool.lanes));
                }
                _ => {}
            },
            (None, Some(lane)) => {
                self.problem(&place, format!("the lane {lane} needs a container: name one that has it"))
            }
            (None, None) => {}
        }
        let Some(known) = self.components.get(&instance.server) else {
            let server = &instance.server;
            let program = if instance.object().is_some() { "" } else { " with its program" };
            return self.problem(&place, format!("there is no server {server}: add [servers.{server}]{program}"));
        };
        let has_program = self.plan.servers.get(&instance.server).is_some_and(|server| server.program.is_some());
        if has_program && instance.object().is_some() {
            let (component, server) = (&instance.component, &instance.server);
            let what = if instance.is_in_python() { "in Python" } else { "in a shared object" };
            let reason = format!(
                "{component} is {what}, and the server {server} has a program: give the instance a server without one"
            );
            return self.problem(&place, reason);
        }
        if !instance.is_in_python() && instance.object().is_some() && self.python.contains_key(instance.server.as_str())
        {
            let (component, server) = (&instance.component, &instance.server);
            let reason = format!(
                "{component} is in a shared object, and the server {server} has instances in Python: give one of both kinds another server"
            );
            return self.problem(&place, reason);
        }
        let has_lanes = |name: &String| self.plan.containers.get(name).is_some_and(|of| !of.pool.lanes.is_empty());
        if let Some(container) = instance.container.as_ref().filter(|name| instance.is_in_python() && has_lanes(name)) {
            let reason = format!(
                "threads of Python have no priorities, and its container {container} has lanes: give it a container without"
            );
            self.problem(&place, reason);
        }
        let Some(component) = known.get(&instance.component) else {
            let (component, server) = (&instance.component, &instance.server);
            let known = if known.is_empty() {
                "name one of a file, as libguider.so#Guider or guider.py#Guider, or give the server its program"
                    .to_owned()
            } else {
                format!("it has: {}", names(known))
            };
            return self.problem(&place, format!("the server {server} has no component {component}; {known}"));
        };
        let component = component.clone();
        self.check_properties(&place, instance, &component);
    }

    fn check_properties(&mut self, place: &str, instance: &InstancePlan, component: &Description) {
        for property in instance.properties.keys().filter(|key| !component.properties.contains_key(*key)) {
            let known = names(&component.properties);
            let of = &instance.component;
            self.problem(place, format!("the component {of} has no property {property}; it has: {known}"));
        }
        for (property, of) in &component.properties {
            if INSTANCE_KEYS.contains(&property.as_str()) {
                let reason = format!("plans have the key {property} for themselves: give the property another name");
                self.problem(place, reason);
            } else if !component.optional.contains(property) && !instance.properties.contains_key(property) {
                self.problem(place, format!("the property {property} is missing: give it, a {of}"));
            }
        }
    }

    /// A port of a kind, with the type of its events; what is wrong otherwise is noted.
    fn check_end(&mut self, place: &str, port: &str, needed: PortKind) -> Option<(PortName, String)> {
        let (instance, name) = port.split_once('.').unwrap_or((port, ""));
        if !self.plan.instances.contains_key(instance) {
            let known = names(&self.plan.instances);
            self.problem(place, format!("there is no instance {instance}; there are: {known}"));
            return None;
        }
        // Where there is no component, that was said of the instance.
        let description = self.describe(instance)?.clone();
        let ports = if needed == PortKind::Sink { &description.sinks } else { &description.sources };
        let Some(of) = ports.get(name) else {
            let reason = match description.kind(name) {
                None => format!("{instance} has no port {name}; it has: {}", description.port_names()),
                Some(kind) => format!("{port} is a {kind}, and here a {} is needed", needed.name()),
            };
            self.problem(place, reason);
            return None;
        };
        Some((PortName { instance: instance.to_owned(), port: name.to_owned() }, of.clone()))
    }

    fn check_connection(&mut self, source: &str, sink: &str) {
        let place = format!("connections.{source:?}");
        let giving = self.check_end(&place, source, PortKind::Source);
        let taking = self.check_end(&place, sink, PortKind::Sink);
        let (Some((from, gives)), Some((to, takes))) = (giving, taking) else { return };
        if gives != takes {
            let code = |text| ::idl::read(text).ok()?.last().map(|last| last.code().clone());
            let (gives, takes) = match (code(&gives), code(&takes)) {
                (Some(gives), Some(takes)) => apart(&gives, &takes),
                _ => (line(&gives), line(&takes)),
            };
            let reason = format!(
                "{source} gives {gives}, {sink} takes {takes}: put a component between that makes one of the other"
            );
            return self.problem(&place, reason);
        }
        let plan = self.plan;
        if plan.is_remote(source, sink) {
            self.check_service(&place, source, sink);
        }
        let is_queued = plan.is_queued(source, sink);
        match self.graph.check(&from, &to, is_queued) {
            Ok(()) => self.graph.add(Connection { source: from, sink: to, is_queued }),
            Err(error) => self.problem(&place, error.to_string()),
        }
    }

    /// What is between two servers.
    fn check_service(&mut self, place: &str, source: &str, sink: &str) {
        for port in [source, sink] {
            let reason = match self.plan.container_of(port).and_then(|container| container.service) {
                None => format!(
                    "{source} and {sink} are in two servers: put the instance of {port} into a container with service = \"notification\""
                ),
                Some(service) => {
                    let description = port.split_once('.').and_then(|(instance, _)| self.describe(instance));
                    let known = description.map(|it| it.services.as_slice()).unwrap_or_default();
                    if known.iter().any(|known| *known == service.name()) {
                        continue;
                    }
                    let known = known.join(", ");
                    format!(
                        "the program of {port} has no {}: build it with that feature, or take one of: {known}",
                        service.name()
                    )
                }
            };
            self.problem(place, reason);
        }
        let end = |port: &str| {
            let container = self.plan.container_of(port)?;
            Some((container.service?.name(), container.domain, container.at.as_deref()))
        };
        let (Some(gives), Some(takes)) = (end(source), end(sink)) else { return };
        let domain = |domain: Option<u16>| domain.map_or("the default domain".to_owned(), |it| format!("domain {it}"));
        let at = |at: Option<&str>| at.unwrap_or("the default").to_owned();
        let (key, to, from) = if gives.0 != takes.0 {
            ("service", gives.0.to_owned(), takes.0.to_owned())
        } else if gives.1 != takes.1 {
            ("domain", domain(gives.1), domain(takes.1))
        } else if gives.2 != takes.2 && !self.plan.is_federated(source, sink) {
            ("at", format!("the service at {}", at(gives.2)), format!("that at {}", at(takes.2)))
        } else {
            return;
        };
        let federate = if key == "at" { ", or federate the channel between their nodes by [[federate]]" } else { "" };
        let reason =
            format!("{source} gives to {to}, {sink} takes from {from}: give both containers one `{key}`{federate}");
        self.problem(place, reason);
    }

    fn check_port(&mut self, port: &str, settings: &PortPlan) {
        let place = format!("ports.{port:?}");
        let (instance, name) = port.split_once('.').unwrap_or((port, ""));
        let described = self.describe(instance).cloned();
        // Times are those of any handler; a queue, a filter and events from outside only a sink has.
        let is_of_sink = settings.queue.is_some() || settings.when.is_some() || settings.period_ns.is_some();
        if is_of_sink || !described.as_ref().is_some_and(|it| it.timers_ns.contains_key(name)) {
            self.check_end(&place, port, PortKind::Sink);
        }
        let unknown = |source: &&String| described.as_ref().is_some_and(|it| !it.sources.contains_key(*source));
        if let Some(source) = settings.sends.iter().flatten().find(unknown) {
            let known = described.as_ref().map(|it| names(&it.sources)).unwrap_or_default();
            self.problem(&place, format!("sends names {source}, and {instance} has these sources: {known}"));
        }
        if let Some(reason) = settings.queue.as_ref().and_then(|queue| queue.problem()) {
            self.problem(&place, reason);
        }
    }
}
