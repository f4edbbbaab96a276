//! Instances of the OMG's flattened deployment plan, each with its shared object, properties and process.

use super::report::Report;
use super::value;
use super::xml::Element;
use crate::server::check_name;
use std::collections::{BTreeMap, BTreeSet};
use toml::Table;

/// Keys of instances, which are no properties.
const INSTANCE_KEYS: [&str; 5] = ["component", "server", "container", "lane", "node"];

/// What names begin with that only CIAO and DAnCE act upon.
const OWN_NAMES: [&str; 2] = ["edu.vanderbilt.dre.CIAO.", "edu.vanderbilt.dre.DAnCE."];

/// Parameters of execution that name functions of a shared object.
const ENTRY_POINTS: [&str; 3] = ["component factory", "home factory", "entryPoint"];

/// The most octets of a component's shared object and name.
const COMPONENT_MAX: usize = 1_024;

/// The most letters of a name that is made for a server or container, without its number.
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

struct Implementation {
    kind: Kind,
    component: String,
}

pub(super) struct Instance<'d> {
    pub(super) element: &'d Element,
    pub(super) kind: Kind,
    /// As the plan has it.
    pub(super) name: String,
    pub(super) node: &'d str,
    pub(super) component: String,
    pub(super) server: String,
    pub(super) container: Option<String>,
    pub(super) properties: Table,
}

/// Names that are made for what has none of its own.
#[derive(Default)]
pub(super) struct Names {
    used: BTreeSet<String>,
    numbers: BTreeMap<String, u32>,
}

impl Names {
    /// A name like this one that no other has.
    pub(super) fn take(&mut self, base: &str) -> String {
        let base = short_name(base);
        let number = self.numbers.entry(base.clone()).or_insert(1);
        let mut name = base.clone();
        while !self.used.insert(name.clone()) {
            *number += 1;
            name = format!("{base}-{number}");
        }
        name
    }
}

/// Letters, digits, `_` and `-` of a name, and `_` for all others.
fn plain_name(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    name.chars().map(letter).collect()
}

/// A name that servers and containers may have: `main` for none.
pub(super) fn short_name(name: &str) -> String {
    if name.is_empty() { "main".to_owned() } else { plain_name(name).chars().take(BASE_MAX).collect() }
}

/// A text that is the value of a property.
pub(super) fn text_of_property(property: &Element) -> Option<String> {
    Some(value::of_property(property).ok()?.as_str()?.trim().to_owned())
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
        let implementations: BTreeMap<usize, Implementation> = numbered()
            .filter(|(_, child)| child.name == "implementation")
            .map(|(place, child)| (place, read.read_implementation(child, report)))
            .collect();
        let mut names = BTreeSet::new();
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
            let Some(instance) = read_instance(element, implementation, report) else { continue };
            if instance.kind == Kind::Component && !names.insert(instance.name.clone()) {
                report.refuse(element, format!("a second instance is called {}: rename one", instance.name));
            }
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
                report.refuse(reference, format!("{id:?} is the id of {}, and here {kind} is needed", found.name));
            }
            None => report.refuse(reference, format!("there is no {kind} with the id {id:?}: is the file whole?")),
        }
        None
    }

    fn read_implementation(&self, element: &'d Element, report: &mut Report) -> Implementation {
        report.know(element, &["name", "source"], &["artifact", "artifactRef", "execParameter", "deployRequirement"]);
        let reason = "a plan has no requirements of implementations: see to it that they hold, and remove this";
        report.refuse_all(element, &["deployRequirement"], reason);
        let parameter = |name: &str| {
            let found = element.all("execParameter").find(|parameter| parameter.text_of("name") == name);
            found.and_then(text_of_property)
        };
        let kind = match parameter("edu.vanderbilt.dre.DAnCE.ImplementationType").as_deref() {
            None | Some("edu.vanderbilt.dre.CCM.Component" | "edu.vanderbilt.dre.CCM.HomedComponent") => {
                Kind::Component
            }
            Some("edu.vanderbilt.dre.DAnCE.LocalityManager") => Kind::LocalityManager,
            Some("edu.vanderbilt.dre.CCM.Container" | "edu.vanderbilt.dre.CCM.Home") => Kind::Other,
            Some(other) => {
                report.refuse(element, format!("a plan has no {other}: connect the components with each other"));
                Kind::Other
            }
        };
        let mut unused = own_parameters(element, report);
        if kind != Kind::Component {
            return Implementation { kind, component: String::new() };
        }
        let references = element.all("artifact").chain(element.all("artifactRef"));
        let places = references.filter_map(|reference| self.find(reference, "artifact", report));
        let artifacts: Vec<_> = places.filter_map(|place| self.root.children.get(place)).collect();
        let executor = parameter("edu.vanderbilt.dre.CIAO.ExecutorArtifact");
        let is_executor = |artifact: &&&Element| executor.as_deref() == Some(artifact.text_of("name"));
        let artifact = artifacts.iter().find(is_executor).or_else(|| artifacts.first()).copied();
        let is_other = |other: &&&Element| artifact.is_none_or(|artifact| !std::ptr::eq(artifact, **other));
        unused.extend(artifacts.iter().filter(is_other).map(|other| other.text_of("name")));
        if !unused.is_empty() {
            let unused = unused.join(", ");
            report.leave_out(element, format!("{unused}: a shared object says itself which components it has"));
        }
        let (location, name) = (artifact.map_or("", |it| it.text_of("location")), element.text_of("name"));
        if location.is_empty() || location.contains("://") {
            let reason = format!("the location of its artifact is {location:?}: give the path of a shared object");
            report.refuse(element, reason);
        }
        if name.is_empty() || name.contains('#') {
            report.refuse(element, "its name is that of the component in the shared object: give one, without #");
        }
        let component = format!("{location}#{name}");
        if component.len() > COMPONENT_MAX {
            report
                .refuse(element, format!("its location and name have more than {COMPONENT_MAX} octets: shorten them"));
            return Implementation { kind, component: String::new() };
        }
        Implementation { kind, component }
    }

    /// The instances of a constraint.
    fn constrained(&self, constraint: &Element, report: &mut Report) -> Vec<usize> {
        let references = constraint.all("constrainedInstance").chain(constraint.all("constrainedInstanceRef"));
        let places = references.filter_map(|reference| self.find(reference, "instance", report));
        places.filter(|place| self.all.contains_key(place)).collect()
    }

    /// Puts instances into servers: those of one process into one, and all others of a node into another.
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
    let own = own_parameters(artifact, report);
    if !own.is_empty() {
        report.leave_out(artifact, format!("{}: a shared object says itself which components it has", own.join(", ")));
    }
    for other in artifact.all("location").skip(1) {
        report.leave_out(other, "the first location is that of the plan");
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
            let reason = format!("{name:?} is not understood: give it to the instances, as a configProperty");
            report.refuse(parameter, reason);
        }
    }
    own
}

fn read_instance<'d>(
    element: &'d Element,
    implementation: &Implementation,
    report: &mut Report,
) -> Option<Instance<'d>> {
    let original = element.text_of("name");
    let name = plain_name(original);
    let mut properties = Table::new();
    if implementation.kind != Kind::Component {
        report.leave_out(element, "a plan makes its servers, containers and instances itself");
    } else if let Err(error) = check_name(&name) {
        report.refuse(element, error.to_string());
        return None;
    } else {
        if name != original {
            report.note(element, format!("its name, {original}, is {name} in the plan"));
        }
        properties = read_properties(element, report);
    }
    Some(Instance {
        element,
        kind: implementation.kind,
        name,
        node: element.text_of("node"),
        component: implementation.component.clone(),
        server: String::new(),
        container: None,
        properties,
    })
}

fn read_properties(instance: &Element, report: &mut Report) -> Table {
    let mut properties = Table::new();
    for property in instance.all("configProperty") {
        report.know(property, &["name", "value"], &[]);
        let name = property.text_of("name");
        if OWN_NAMES.iter().any(|begin| name.starts_with(begin)) {
            report.leave_out(property, format!("{name}: only CIAO and DAnCE act upon it"));
        } else if INSTANCE_KEYS.contains(&name) || properties.contains_key(name) {
            report
                .refuse(property, format!("{name} is there twice, or is a key of all instances: rename the property"));
        } else {
            match value::of_property(property) {
                Ok(value) => drop(properties.insert(name.to_owned(), value)),
                Err((at, reason)) => report.refuse(at, format!("property {name}: {reason}")),
            }
        }
    }
    properties
}
