//! The OMG's flattened deployment plan (D&C 4.0), with CIAO's events descriptor beside it, as a plan of components.
//!
//! What a plan cannot say is refused, with its element and line. What changes nothing is left out, and the plan says so in comments.
//! Descriptors may be hostile: their size is bounded, and so is all that is made of them.

mod connections;
mod events;
mod instances;
mod report;
mod value;
mod xml;

use crate::plan::{Plan, Problem};
use connections::Connections;
use instances::{Instance, Instances, Kind};
use report::{Report, one_line, problem};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use toml::{Table, Value};
use xml::Element;

/// Whether plans have nodes: `[nodes]`, and `node` of instances. While they have none, comments say the nodes.
const PLANS_HAVE_NODES: bool = false;

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
/// All that is refused, by file, line and element.
pub fn import_plan(plan: &Descriptor, events: Option<&Descriptor>) -> Result<Imported, Vec<Problem>> {
    let read = |descriptor: &Descriptor| {
        let read = xml::read(&descriptor.name, &descriptor.octets);
        read.map_err(|refused| vec![problem(&refused.place, &refused.reason)])
    };
    let root = read(plan)?;
    let of_events = events.map(read).transpose()?;
    let mut report = Report::default();
    if !["DeploymentPlan", "deploymentPlan"].contains(&root.local_name()) {
        report.refuse(&root, "it is no deployment plan: its first element is Deployment:DeploymentPlan");
        return Err(report.refused);
    }
    read_plan(&root, events.is_some(), &mut report);
    let services = of_events.as_ref().map(|root| events::read(root, &mut report)).unwrap_or_default();
    let mut instances = Instances::read(&root, &mut report);
    let connections = Connections::read(&root, &services, &mut instances, &mut report);
    if !report.refused.is_empty() {
        return Err(report.refused);
    }
    let failed = |reason: String| vec![problem(&plan.name, &reason)];
    let mut text = format!("# Made of {} by `campanile deploy import`.\n", one_line(&plan.name));
    for note in &report.notes {
        let _ = writeln!(text, "# Note: {note}");
    }
    write(&mut text, &root, instances.all.values(), &connections).map_err(|error| failed(error.to_string()))?;
    Plan::parse(&text).map_err(|problem| failed(format!("the plan that it makes is refused: {}", problem.reason)))?;
    Ok(Imported { text, notes: report.notes })
}

/// Reads what the plan says of itself.
fn read_plan(root: &Element, has_events: bool, report: &mut Report) {
    let many = ["implementation", "instance", "connection", "artifact", "localityConstraint", "infoProperty"];
    report.know(root, &["label", "UUID", "realizes"], &[&many[..], &["externalProperty", "dependsOn"]].concat());
    for left_out in ["UUID", "realizes", "dependsOn"].iter().flat_map(|name| root.all(name)) {
        report.leave_out(left_out, "nothing that runs depends on it");
    }
    let reason = "a plan has no properties of its own: give it to the instances, as a configProperty";
    report.refuse_all(root, &["externalProperty"], reason);
    for property in root.all("infoProperty") {
        report.know(property, &["name", "value"], &[]);
        let name = property.text_of("name");
        if name != "CIAOEvents" {
            report.leave_out(property, format!("{name}: nothing that runs depends on it"));
        } else if !has_events {
            let file = instances::text_of_property(property).unwrap_or_default();
            report.refuse(
                property,
                format!("event services are in a descriptor of their own: give it as --events {file}"),
            );
        }
    }
}

/// A table within a table, as text.
fn section(text: &mut String, of: &str, name: &str, table: Table) -> Result<(), toml::ser::Error> {
    let inner = Table::from_iter([(name.to_owned(), Value::Table(table))]);
    let whole = Table::from_iter([(of.to_owned(), Value::Table(inner))]);
    text.push('\n');
    text.push_str(&toml::to_string(&whole)?);
    Ok(())
}

fn write<'i>(
    text: &mut String,
    root: &Element,
    instances: impl Iterator<Item = &'i Instance<'i>>,
    connections: &Connections,
) -> Result<(), toml::ser::Error> {
    let entry = |key: &str, value: &str| (key.to_owned(), Value::String(value.to_owned()));
    let name = ["label", "UUID"].iter().map(|name| root.text_of(name)).find(|name| !name.is_empty());
    let name = instances::short_name(name.unwrap_or("plan"));
    text.push_str(&toml::to_string(&Table::from_iter([entry("name", &name)]))?);
    let instances: Vec<_> = instances.filter(|instance| instance.kind == Kind::Component).collect();
    if PLANS_HAVE_NODES {
        let nodes = instances.iter().map(|instance| instances::short_name(instance.node));
        for node in nodes.collect::<BTreeSet<_>>() {
            section(text, "nodes", &node, Table::new())?;
        }
    }
    for server in instances.iter().map(|instance| &*instance.server).collect::<BTreeSet<_>>() {
        section(text, "servers", server, Table::new())?;
    }
    for container in &connections.containers {
        section(text, "containers", container, Table::from_iter([entry("service", "notification")]))?;
    }
    for instance in instances {
        let mut table = Table::from_iter([entry("component", &instance.component), entry("server", &instance.server)]);
        table.extend(instance.container.iter().map(|container| entry("container", container)));
        if PLANS_HAVE_NODES {
            table.extend([entry("node", &instances::short_name(instance.node))]);
        } else if !instance.node.is_empty() {
            let _ = write!(text, "\n# On the node {}.", one_line(instance.node));
        }
        table.extend(instance.properties.clone());
        section(text, "instances", &instance.name, table)?;
    }
    let sinks = |sinks: &BTreeMap<String, usize>| Value::Array(sinks.keys().cloned().map(Value::String).collect());
    let all = connections.all.iter().map(|(source, (_, of))| (source.clone(), sinks(of))).collect::<Table>();
    text.push('\n');
    text.push_str(&toml::to_string(&Table::from_iter([("connections".to_owned(), Value::Table(all))]))?);
    Ok(())
}
