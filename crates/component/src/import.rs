//! The OMG's flattened deployment plan (D&C 4.0), with CIAO's events descriptor beside it, as a plan of components.
//!
//! What a plan cannot say is refused, with its element and line. What changes nothing is left out, and the plan says so in comments.
//! Descriptors may be hostile: their size is bounded, and so is all that is made of them.

mod connections;
mod instances;
mod structs;
mod value;
mod xml;

use crate::node::omg::plan::DeploymentPlan;
use crate::plan::{PLAN_BYTES_MAX, Plan, Problem};
use connections::Connections;
use instances::{Instances, Kind, plain_name};
use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use toml::{Table, Value};
use value::text_of_property;
use xml::Element;

/// The most lines of what is refused, and of notes.
const SAID_MAX: usize = 1_000;

/// The most characters of a place or reason in these.
const LENGTH_MAX: usize = 500;

/// A file of XML.
#[derive(Clone, Debug)]
pub struct Descriptor {
    name: String,
    octets: Vec<u8>,
}

impl Descriptor {
    /// A file with a name, for people, and a content.
    pub fn new(name: impl Into<String>, octets: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), octets: octets.into() }
    }

    /// Reads a file: of one that is too large, no more than says so.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        let name = path.display().to_string();
        let mut octets = Vec::new();
        let read = File::open(path).and_then(|file| file.take(xml::BYTES_MAX as u64 + 1).read_to_end(&mut octets));
        read.map(|_| Self::new(&*name, octets)).map_err(|error| Problem::new(name, error.to_string()))
    }
}

/// A plan that was made of descriptors.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Imported {
    /// The plan, in TOML.
    pub text: String,
    /// What the plan says otherwise, and goes without. It has the same in comments.
    pub notes: Vec<Problem>,
}

/// Makes a plan of a deployment plan, and of the events descriptor that it names. Components are those of shared objects, as
/// `LOCATION#IMPLEMENTATION`.
///
/// # Errors
/// What is refused, by file, line and element. Of a file that is no descriptor only the first reason is there.
pub fn import_plan(plan: &Descriptor, events: Option<&Descriptor>) -> Result<Imported, Vec<Problem>> {
    let read = |descriptor: &Descriptor| {
        let read = xml::read(&descriptor.name, &descriptor.octets);
        read.map_err(|refused| vec![problem(refused.place, refused.reason)])
    };
    let root = read(plan)?;
    let of_events = events.map(read).transpose()?;
    let origin = format!("{} by `campanile deploy import`", one_line(&plan.name));
    import(&origin, &root, events.zip(of_events.as_ref()))
}

/// Makes a plan of a deployment plan that came over GIOP, as [`import_plan`] does of a file.
///
/// # Errors
/// What is refused, by element.
pub(crate) fn import_struct(plan: &DeploymentPlan) -> Result<Imported, Vec<Problem>> {
    import("a deployment plan that came over GIOP", &structs::root_of(plan), None)
}

fn import(origin: &str, root: &Element, events: Option<(&Descriptor, &Element)>) -> Result<Imported, Vec<Problem>> {
    let mut report = Report::default();
    if !["DeploymentPlan", "deploymentPlan"].contains(&root.local_name()) {
        report.refuse(root, "it is no deployment plan: its first element is Deployment:DeploymentPlan");
        return Err(report.refused);
    }
    let name = read_plan(root, events.map(|(file, _)| file), &mut report);
    let instances = Instances::read(root, &mut report);
    let connections = Connections::read(root, events.map(|(_, element)| element), &instances, &mut report);
    if !report.refused.is_empty() {
        return Err(report.refused);
    }
    let failed = |reason: String| vec![problem(root.file(), reason)];
    let mut text = format!("# Made of {origin}.\n");
    for note in &report.notes {
        let _ = writeln!(text, "# Note: {note}");
    }
    write(&mut text, name, &instances, &connections).map_err(failed)?;
    Plan::parse(&text).map_err(|problem| failed(format!("the plan that it makes is refused: {}", problem.reason)))?;
    Ok(Imported { text, notes: report.notes })
}

/// Reads what the plan says of itself. The answer is its name.
fn read_plan(root: &Element, events: Option<&Descriptor>, report: &mut Report) -> String {
    let many = ["implementation", "instance", "connection", "artifact", "localityConstraint", "infoProperty"];
    report.know(root, &["label", "UUID", "realizes"], &[&many[..], &["externalProperty", "dependsOn"]].concat());
    for left_out in ["realizes", "dependsOn"].iter().flat_map(|name| root.all(name)) {
        report.leave_out(left_out, "nothing that runs depends on it");
    }
    let reason = "a plan has no properties of its own: give it to the instances, as a configProperty";
    report.refuse_all(root, &["externalProperty"], reason);
    for property in root.all("infoProperty") {
        report.know(property, &["name", "value"], &[]);
        match property.text_of("name") {
            "CIAOEvents" => {
                let file = text_of_property(property).unwrap_or_default();
                let is_named =
                    |events: &Descriptor| Path::new(&events.name).file_name() == Path::new(&file).file_name();
                match events {
                    None => {
                        let reason = "event services are in a descriptor of their own: give it to campanile deploy import as --events";
                        report.refuse(property, format_args!("{reason} {file}"));
                    }
                    Some(events) if !is_named(events) => {
                        let read = &events.name;
                        report.note(property, format_args!("it names {file}, and {read} was read, as --events says"));
                    }
                    Some(_) => {}
                }
            }
            "CIAOServerResources" => {
                let reason =
                    "a plan has no descriptor of resources: say lanes by `pool` of a container, and remove this";
                report.refuse(property, reason);
            }
            name => report.leave_out(property, format_args!("{name} is not understood")),
        }
    }
    let mut names = ["UUID", "label"].iter().filter_map(|name| root.child(name)).filter(|it| !it.text().is_empty());
    let Some(named) = names.next() else { return "plan".to_owned() };
    let name = plain_name(named.text());
    if name != named.text() {
        report.note(named, format_args!("the plan's name, {}, is {name} in the plan", named.text()));
    }
    for label in names.filter(|label| label.text() != named.text()) {
        report.leave_out(label, "the plan's name is its UUID");
    }
    name
}

/// Writes a table within a table, if there is room.
fn section(text: &mut String, of: &str, name: &str, table: Table) -> Result<(), String> {
    let inner = Table::from_iter([(name.to_owned(), Value::Table(table))]);
    write_table(text, of, Value::Table(inner))
}

fn write_table(text: &mut String, key: &str, value: Value) -> Result<(), String> {
    let table = Table::from_iter([(key.to_owned(), value)]);
    text.push_str(&toml::to_string(&table).map_err(|error| error.to_string())?);
    text.push('\n');
    if text.len() > PLAN_BYTES_MAX { Err(too_large()) } else { Ok(()) }
}

/// The reason why a plan is refused that would be too large.
fn too_large() -> String {
    format!(
        "the plan that it makes has more than {PLAN_BYTES_MAX} octets, which are the most that are taken: divide it"
    )
}

fn write(
    text: &mut String,
    name: String,
    instances: &Instances<'_>,
    connections: &Connections<'_>,
) -> Result<(), String> {
    let entry = |key: &str, value: &str| (key.to_owned(), Value::String(value.to_owned()));
    write_table(text, "name", Value::String(name))?;
    let components = || instances.all.values().filter(|instance| instance.kind == Kind::Component);
    for server in components().map(|instance| &*instance.server).collect::<BTreeSet<_>>() {
        section(text, "servers", server, Table::new())?;
    }
    for service in connections.containers.values().collect::<BTreeSet<_>>() {
        section(text, "containers", service, Table::from_iter([entry("service", service)]))?;
    }
    for instance in components() {
        let component = instance.component.join("#");
        let mut table = Table::from_iter([entry("component", &component), entry("server", &instance.server)]);
        let container = connections.containers.get(&*instance.server);
        table.extend(container.map(|container| entry("container", container)));
        table.extend(instance.properties.clone());
        if !instance.node.is_empty() {
            let _ = writeln!(text, "# On the node {}.", one_line(instance.node));
        }
        section(text, "instances", &instance.name, table)?;
    }
    let sinks = |sinks: &BTreeSet<String>| Value::Array(sinks.iter().cloned().map(Value::String).collect());
    let all = connections.all.iter().map(|(source, of)| (source.clone(), sinks(of))).collect::<Table>();
    write_table(text, "connections", Value::Table(all))
}

/// What is said of descriptors: what is refused, and what a plan says otherwise or goes without.
#[derive(Default)]
struct Report {
    refused: Vec<Problem>,
    notes: Vec<Problem>,
}

impl Report {
    fn refuse(&mut self, at: &Element, reason: impl Display) {
        say(&mut self.refused, at, reason);
    }

    /// Says what is otherwise in the plan.
    fn note(&mut self, at: &Element, reason: impl Display) {
        say(&mut self.notes, at, reason);
    }

    /// Says what the plan goes without.
    fn leave_out(&mut self, at: &Element, reason: impl Display) {
        self.note(at, format_args!("left out: {reason}"));
    }

    /// Refuses all children of these names.
    fn refuse_all(&mut self, of: &Element, names: &[&str], reason: &str) {
        for refused in names.iter().flat_map(|name| of.all(name)) {
            self.refuse(refused, reason);
        }
    }

    /// Refuses children with other names than these, and second ones of those that are there once.
    fn know(&mut self, element: &Element, once: &[&str], many: &[&str]) {
        let mut seen = Vec::new();
        for child in &element.children {
            let name = child.name.as_str();
            if once.contains(&name) {
                if seen.contains(&name) {
                    self.refuse(child, format_args!("{} has one already: remove one of them", element.name));
                }
                seen.push(name);
            } else if !many.contains(&name) {
                self.refuse(child, format_args!("it is not understood in {}: remove it", element.name));
            }
        }
    }
}

/// Adds a line, if there is room; the reason is not made without.
fn say(all: &mut Vec<Problem>, at: &Element, reason: impl Display) {
    if all.len() < SAID_MAX {
        all.push(problem(at.place(), reason));
    } else if all.len() == SAID_MAX {
        all.push(problem("and more", format_args!("only {SAID_MAX} are shown")));
    }
}

/// A problem in words of a file.
fn problem(place: impl Display, reason: impl Display) -> Problem {
    Problem::new(one_line(place), one_line(reason))
}

/// The beginning of a text on one line, without what a terminal would obey. No more than that is formatted.
fn one_line(text: impl Display) -> String {
    let mut line = Line::default();
    if write!(line, "{text}").is_err() {
        line.text.push('\u{2026}');
    }
    line.text
}

#[derive(Default)]
struct Line {
    text: String,
    length: usize,
}

impl std::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for letter in text.chars() {
            if self.length == LENGTH_MAX {
                return Err(std::fmt::Error);
            }
            self.length += 1;
            self.text.push(if letter.is_control() { ' ' } else { letter });
        }
        Ok(())
    }
}
