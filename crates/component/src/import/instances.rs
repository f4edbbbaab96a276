//! Instances of the OMG's flattened deployment plan, each with its shared object, properties and process.

use super::Report;
use super::value::{self, text_of_property};
use super::xml::Element;
use crate::plan::INSTANCE_KEYS;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use toml::Table;

/// What names begin with that only CIAO and DAnCE act upon, and such names of old CIAO.
const OWN_NAMES: [&str; 2] = ["edu.vanderbilt.dre.CIAO.", "edu.vanderbilt.dre.DAnCE."];
const OLD_NAMES: [&str; 3] = ["ComponentIOR", "HomeIOR", "RegisterNaming"];

/// Parameters of execution that name functions of a shared object.
const ENTRY_POINTS: [&str; 3] = ["component factory", "home factory", "entryPoint"];

/// The most octets of a path, as Linux has it.
const PATH_MAX: usize = 4_096;

/// The most letters of a name, and of one that gets a number.
const NAME_MAX: usize = 64;
const BASE_MAX: usize = 50;

/// What an implementation is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Component,
    /// A process: the instances that are to be in one process with it are in it.
    LocalityManager,
    /// A home or container, without which plans of components do.
    Other,
}

#[derive(Clone, Copy)]
struct Implementation<'d> {
    kind: Kind,
    /// Its shared object, and its name there.
    component: [&'d str; 2],
}

pub(super) struct Instance<'d> {
    pub(super) element: &'d Element,
    pub(super) kind: Kind,
    /// As the plan has it.
    pub(super) name: String,
    pub(super) node: &'d str,
    /// Its shared object, and its name there.
    pub(super) component: [&'d str; 2],
    pub(super) server: String,
    pub(super) properties: Table,
}

/// Names, each of which is there once.
#[derive(Default)]
struct Names {
    used: BTreeSet<String>,
    numbers: BTreeMap<String, u32>,
}

impl Names {
    /// A name like this one that no other has.
    fn take(&mut self, base: &str) -> String {
        let mut name = plain_name(base);
        if !self.used.contains(&name) {
            self.used.insert(name.clone());
            return name;
        }
        name.truncate(BASE_MAX);
        let number = self.numbers.entry(name.clone()).or_insert(1);
        loop {
            *number += 1;
            let numbered = format!("{name}-{number}");
            if self.used.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

/// A name that plans take, like this one: letters, digits, `_` and `-`, with `_` for all others; `main` for none.
pub(super) fn plain_name(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    if name.is_empty() { "main".to_owned() } else { name.chars().take(NAME_MAX).map(letter).collect() }
}

/// The instances of a plan.
pub(super) struct Instances<'d> {
    root: &'d Element,
    /// Places among the root's elements.
    ids: BTreeMap<&'d str, usize>,
    /// By their places among the root's elements.
    pub(super) all: BTreeMap<usize, Instance<'d>>,
}

impl<'d> Instances<'d> {
    pub(super) fn read(root: &'d Element, report: &mut Report) -> Self {
        let numbered = || root.children.iter().enumerate();
        let ids = numbered().filter_map(|(place, child)| Some((child.id.as_deref()?, place))).collect();
        let mut read = Self { root, ids, all: BTreeMap::new() };
        for artifact in root.all("artifact") {
            read_artifact(artifact, report);
        }
        let implementations: BTreeMap<usize, Implementation<'_>> = numbered()
            .filter(|(_, child)| child.name == "implementation")
            .map(|(place, child)| (place, read.read_implementation(child, report)))
            .collect();
        let mut names = Names::default();
        for (place, element) in numbered().filter(|(_, child)| child.name == "instance") {
            let once = ["name", "node", "source", "implementation", "implementationRef"];
            report.know(element, &once, &["configProperty", "deployedResource", "deployedSharedResource"]);
            let reason = "a plan has no resources: say the threads of its container by `pool`, and its own by `lane`";
            report.refuse_all(element, &["deployedResource", "deployedSharedResource"], reason);
            let Some(reference) = element.child("implementation").or_else(|| element.child("implementationRef")) else {
                report.refuse(element, "it names no implementation: add it");
                continue;
            };
            let found = read.find(reference, "implementation", report).and_then(|place| implementations.get(&place));
            let Some(implementation) = found else { continue };
            let instance = read_instance(element, implementation, &mut names, report);
            read.all.insert(place, instance);
        }
        read.place(report);
        read
    }

    /// The place of the element that a reference names.
    pub(super) fn find(&self, reference: &Element, kind: &str, report: &mut Report) -> Option<usize> {
        let id = reference.target();
        let place = self.ids.get(id).copied();
        match place.and_then(|place| self.root.children.get(place)) {
            Some(found) if found.name == kind => return place,
            Some(found) => {
                report.refuse(reference, format_args!("{id:?} is the id of {}, and here {kind} is needed", found.name));
            }
            None => report.refuse(reference, format_args!("there is no {kind} with the id {id:?}: is the plan whole?")),
        }
        None
    }

    fn read_implementation(&self, element: &'d Element, report: &mut Report) -> Implementation<'d> {
        report.know(element, &["name", "source"], &["artifact", "artifactRef", "execParameter", "deployRequirement"]);
        let reason = "a plan has no requirements of implementations: see to it that they hold, and remove this";
        report.refuse_all(element, &["deployRequirement"], reason);
        let parameter = |name: &str| {
            let found = element.all("execParameter").find(|parameter| parameter.text_of("name") == name);
            found.and_then(text_of_property)
        };
        let kind = match parameter("edu.vanderbilt.dre.DAnCE.ImplementationType").as_deref() {
            None if parameter("home factory").is_some() => Kind::Other,
            None | Some("edu.vanderbilt.dre.CCM.Component" | "edu.vanderbilt.dre.CCM.HomedComponent") => {
                Kind::Component
            }
            Some("edu.vanderbilt.dre.DAnCE.LocalityManager") => Kind::LocalityManager,
            Some("edu.vanderbilt.dre.CCM.Container" | "edu.vanderbilt.dre.CCM.Home") => Kind::Other,
            Some(other) => {
                report.refuse(element, format_args!("a plan has no {other}: connect the components with each other"));
                Kind::Other
            }
        };
        let mut unused = own_parameters(element, report);
        if kind != Kind::Component {
            return Implementation { kind, component: [""; 2] };
        }
        let (mut places, mut artifacts) = (BTreeSet::new(), Vec::new());
        for reference in element.all("artifact").chain(element.all("artifactRef")) {
            let Some(place) = self.find(reference, "artifact", report) else { continue };
            if !places.insert(place) {
                report.refuse(reference, "the implementation names this artifact already: remove one of them");
            }
            artifacts.extend(self.root.children.get(place));
        }
        let executor = parameter("edu.vanderbilt.dre.CIAO.ExecutorArtifact");
        let of_executor = artifacts.iter().position(|artifact| executor.as_deref() == Some(artifact.text_of("name")));
        let place = of_executor.unwrap_or_default();
        let location = artifacts.get(place).map_or("", |artifact| artifact.text_of("location"));
        let others = artifacts.iter().enumerate().filter(|(other, _)| *other != place);
        unused.extend(others.map(|(_, artifact)| artifact.text_of("name")));
        leave_out_names(element, &unused, report);
        if location.is_empty() || location.len() > PATH_MAX || location.contains("://") {
            let reason = format_args!("its artifact's location is {location:?}: give the path of a shared object");
            report.refuse(element, reason);
        } else if !location.contains(".so") {
            let reason = format_args!("{location} is the file's whole name in the plan: ACE adds lib and .so to it");
            report.note(element, reason);
        }
        let name = element.text_of("name");
        if name.is_empty() || name.contains('#') {
            report.refuse(element, "its name is that of the component in the shared object: give one, without #");
        }
        Implementation { kind, component: [location, name] }
    }

    /// The instances of a constraint.
    fn constrained(&self, constraint: &Element, report: &mut Report) -> Vec<usize> {
        let references = constraint.all("constrainedInstance").chain(constraint.all("constrainedInstanceRef"));
        let places = references.filter_map(|reference| self.find(reference, "instance", report));
        places.filter(|place| self.all.contains_key(place)).collect()
    }

    /// Puts instances into servers: those of one process into one, those of different processes that are in none yet into one each, and all
    /// others of a node into another.
    fn place(&mut self, report: &mut Report) {
        let (mut together, mut apart) = (Vec::new(), Vec::new());
        for constraint in self.root.all("localityConstraint") {
            report.know(constraint, &["constraint"], &["constrainedInstance", "constrainedInstanceRef"]);
            let kind = constraint.text_of("constraint");
            match kind.strip_prefix("Plan").unwrap_or(kind) {
                "SameProcess" => together.push((constraint, self.constrained(constraint, report))),
                "DifferentProcess" => apart.push((constraint, self.constrained(constraint, report))),
                "NoConstraint" => {}
                _ => report.refuse(
                    constraint,
                    format!("{kind:?} is not understood: give SameProcess, DifferentProcess or NoConstraint"),
                ),
            }
        }
        let (mut names, mut placed) = (Names::default(), BTreeMap::new());
        for (constraint, members) in together {
            let all = || members.iter().filter_map(|member| self.all.get(member));
            if all().map(|instance| instance.node).collect::<BTreeSet<_>>().len() > 1 {
                report.refuse(
                    constraint,
                    "its instances are on several nodes: put those of each node into one of their own",
                );
            }
            let process = all().find(|instance| instance.kind == Kind::LocalityManager);
            let base = process.map(|process| &*process.name).or_else(|| Some(all().next()?.node));
            let server = names.take(base.unwrap_or_default());
            for member in members {
                if placed.insert(member, server.clone()).is_some() {
                    report.refuse(
                        constraint,
                        "one of its instances is in a process already: put both constraints into one",
                    );
                }
            }
        }
        for place in apart.iter().flat_map(|(_, members)| members) {
            if let Some(instance) = self.all.get(place) {
                placed.entry(*place).or_insert_with(|| names.take(&instance.name));
            }
        }
        let mut of_nodes = BTreeMap::<&str, String>::new();
        for (place, instance) in &mut self.all {
            let node = instance.node;
            let of_node = || of_nodes.entry(node).or_insert_with(|| names.take(node)).clone();
            instance.server = placed.remove(place).unwrap_or_else(of_node);
        }
        for (constraint, members) in apart {
            let servers: BTreeSet<_> = members.iter().filter_map(|it| Some(&self.all.get(it)?.server)).collect();
            if servers.len() < members.len() {
                report.refuse(
                    constraint,
                    "some of its instances share a process: give each a constraint SameProcess of its own",
                );
            }
        }
    }
}

fn read_artifact(artifact: &Element, report: &mut Report) {
    report.know(artifact, &["name", "source", "node"], &["location", "execParameter", "deployRequirement"]);
    report.refuse_all(artifact, &["deployRequirement"], "a plan has no requirements of shared objects: remove it");
    leave_out_names(artifact, &own_parameters(artifact, report), report);
    for other in artifact.all("location").skip(1) {
        report.leave_out(other, "the first location is that of the plan");
    }
}

fn leave_out_names(of: &Element, names: &[&str], report: &mut Report) {
    if !names.is_empty() {
        let names = fmt::from_fn(|f| {
            names
                .iter()
                .enumerate()
                .try_for_each(|(place, name)| write!(f, "{}{name}", if place == 0 { "" } else { ", " }))
        });
        report.leave_out(of, format_args!("{names}: a shared object says itself which components it has"));
    }
}

/// The parameters of execution upon which only CIAO and DAnCE act; others are refused.
fn own_parameters<'d>(of: &'d Element, report: &mut Report) -> Vec<&'d str> {
    let mut own = Vec::new();
    for parameter in of.all("execParameter") {
        report.know(parameter, &["name", "value"], &[]);
        let name = parameter.text_of("name");
        if ENTRY_POINTS.contains(&name) || OWN_NAMES.iter().any(|begin| name.starts_with(begin)) {
            own.push(name);
        } else {
            let reason = "is not understood: give it to the instances, as a configProperty";
            report.refuse(parameter, format_args!("{name:?} {reason}"));
        }
    }
    own
}

fn read_instance<'d>(
    element: &'d Element,
    implementation: &Implementation<'d>,
    names: &mut Names,
    report: &mut Report,
) -> Instance<'d> {
    let original = element.text_of("name");
    let is_component = implementation.kind == Kind::Component;
    let name = if is_component { names.take(original) } else { plain_name(original) };
    if !is_component {
        report.leave_out(element, "a plan makes its servers and containers itself, and has no homes");
    } else if original.is_empty() {
        report.refuse(element, "it has no name: give it one");
    } else if name != original {
        report.note(element, format_args!("its name, {original}, is {name} in the plan"));
    }
    Instance {
        element,
        kind: implementation.kind,
        name,
        node: element.text_of("node"),
        component: implementation.component,
        server: String::new(),
        properties: read_properties(element, is_component, report),
    }
}

fn read_properties(instance: &Element, is_component: bool, report: &mut Report) -> Table {
    let mut properties = Table::new();
    for property in instance.all("configProperty") {
        report.know(property, &["name", "value"], &[]);
        let name = property.text_of("name");
        let own = OWN_NAMES.iter().find_map(|begin| name.strip_prefix(begin));
        match own.or(OLD_NAMES.contains(&name).then_some("")) {
            Some("LocalityArguments") => report.leave_out(property, format_args!("{name}: servers have no arguments")),
            Some("LocalityTimeout") => {
                report
                    .leave_out(property, format_args!("{name}: a process has 30 s to be configured, started or ended"));
            }
            Some(_) => report.leave_out(property, format_args!("{name}: only CIAO and DAnCE act upon it")),
            // What is left out has the reason for all of its properties.
            None if !is_component => {}
            None if INSTANCE_KEYS.contains(&name) || properties.contains_key(name) => {
                let reason = "is there twice, or is a key of all instances: rename the property";
                report.refuse(property, format_args!("{name} {reason}"));
            }
            None => match value::of_property(property) {
                Ok(value) => drop(properties.insert(name.to_owned(), value)),
                Err((at, reason)) => report.refuse(at, format_args!("property {name}: {reason}")),
            },
        }
    }
    properties
}
