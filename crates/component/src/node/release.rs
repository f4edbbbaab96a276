//! A plan as it is brought up: what each server runs and loads by its canonical path and digest, and what differs between two of one name.

use crate::artifacts;
use crate::launch::{OBJECTS_MAX, at};
use crate::node::settings::{Digests, Policy};
use crate::node::store::STORED_BYTES_MAX;
use crate::plan::{Descriptions, InstancePlan, Plan, Problem};
use crate::server::check_name;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::{Table, Value};

/// The most servers of all plans together.
pub(crate) const SERVERS_MAX: usize = 256;

/// What a plan says of one server: values as TOML, by their place in the plan.
pub(crate) type Part = BTreeMap<String, String>;

/// What an `up` would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The server.
    pub server: String,
    /// The place in the plan: `instances.guider.gain`.
    pub key: String,
    /// The value, as TOML, in the plan that is up; `None` if it has none.
    pub old: Option<String>,
    /// The value in the other plan.
    pub new: Option<String>,
}

/// The part of a plan over several nodes that one has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// The name that the plan has for this node.
    pub(crate) node: String,
    /// The address of the node where the plan is brought up.
    pub(crate) coordinator: String,
    /// The change by which this node has it.
    #[serde(default)]
    pub(crate) transaction: String,
}

/// What the text of an assigned plan begins with: a comment.
const ASSIGNED: &str = "#: ";

/// A plan that was prepared.
pub(crate) struct Release {
    pub(crate) plan: Plan,
    /// Where the plan is over several nodes.
    pub(crate) assignment: Option<Assignment>,
    /// The plan, with canonical paths, and the digests of all programs and shared objects.
    pub(crate) text: String,
    /// Of each server that has instances here.
    pub(crate) parts: BTreeMap<String, Part>,
}

impl Release {
    /// A plan that was prepared before.
    pub(crate) fn of_text(text: String) -> Result<Self, Problem> {
        let plan = Plan::parse(&text)?;
        let table: Table = text.parse().map_err(|error: toml::de::Error| Problem::new("plan", error.to_string()))?;
        // Comments of clients are not in it.
        let assigned = text.strip_prefix(ASSIGNED).and_then(|rest| rest.split_once('\n'));
        let assignment = assigned.map(|(assignment, _)| serde_json::from_str::<Assignment>(assignment)).transpose();
        let assignment = assignment.map_err(|error| Problem::new("nodes", error.to_string()))?;
        let is_here = |server: &&str| assignment.as_ref().is_none_or(|it| plan.node_of(server) == Some(&it.node));
        let here = plan.server_names().into_iter().filter(is_here);
        let parts = here.map(|server| (server.to_owned(), part(&plan, &table, server))).collect();
        Ok(Self { parts, plan, assignment, text })
    }

    /// The address of the node where the plan is brought up, where it is over several.
    pub(crate) fn coordinator(&self) -> Option<&str> {
        self.assignment.as_ref().map(|of| of.coordinator.as_str())
    }

    /// Reads a plan whose relative paths begin at a folder, and checks it: its files and their digests first, then what the programs and
    /// shared objects say of their components.
    pub(crate) fn prepare(text: &str, folder: &Path, policy: &Policy) -> Result<Self, Vec<Problem>> {
        let release = Self::fix(text, Some(folder), None, policy)?;
        let plan = &release.plan;
        let problems = plan.check(&policy.programs(plan).describe()?);
        if problems.is_empty() { Ok(release) } else { Err(problems) }
    }

    /// Reads a plan of which this node has a part; relative paths begin at the node's own folders. The servers' components, by the names
    /// that the plan has for them, are for the node that checks the whole.
    pub(crate) fn prepare_part(
        text: &str,
        assignment: Assignment,
        policy: &Policy,
    ) -> Result<(Self, BTreeMap<String, Descriptions>), Vec<Problem>> {
        let node = assignment.node.clone();
        let release = Self::fix(text, None, Some(assignment), policy)?;
        let here = release.plan.of_node(&node);
        let mut components = policy.programs(&here).describe()?;
        let written = Plan::parse(text).map_err(|problem| vec![problem])?;
        for (name, instance) in &here.instances {
            let (Some((path, _)), Some((object, _))) =
                (instance.object(), written.instances.get(name).and_then(InstancePlan::object))
            else {
                continue;
            };
            let Some(known) = components.get_mut(&instance.server).filter(|_| path != object) else { continue };
            let of_path = |component: &String| {
                component.rsplit_once('#').filter(|(of, _)| *of == path).map(|(_, of)| of.to_owned())
            };
            let all: Vec<_> = known.iter().filter_map(|(name, it)| Some((of_path(name)?, it.clone()))).collect();
            known.extend(all.into_iter().map(|(of, it)| (format!("{object}#{of}"), it)));
        }
        Ok((release, components))
    }

    /// Puts canonical paths and digests into a plan.
    fn fix(
        text: &str,
        folder: Option<&Path>,
        assignment: Option<Assignment>,
        policy: &Policy,
    ) -> Result<Self, Vec<Problem>> {
        let one = |problem| vec![problem];
        let plan = Plan::parse(text).map_err(one)?;
        let mut table: Table =
            text.parse().map_err(|error: toml::de::Error| one(Problem::new("plan", error.to_string())))?;
        name_of(&plan, &table).and_then(|()| size_of(&plan)).map_err(one)?;
        let mut problems = plan.artifact_problems();
        problems.extend(plan.servers.iter().filter(|(_, server)| server.python.is_some()).map(|(name, _)| {
            at(name, "node.toml says by which interpreter servers in Python run: leave out `python`".to_owned())
        }));
        let here = assignment.as_ref().map(|of| plan.of_node(&of.node));
        problems.extend(fix_artifacts(here.as_ref().unwrap_or(&plan), &mut table, folder, policy));
        if !problems.is_empty() {
            return Err(problems);
        }
        let failed = |error: &dyn std::fmt::Display| one(Problem::new("plan", error.to_string()));
        let mut text = toml::to_string(&table).map_err(|error| failed(&error))?;
        if let Some(assignment) = &assignment {
            let assignment = serde_json::to_string(assignment).map_err(|error| failed(&error))?;
            text = format!("{ASSIGNED}{assignment}\n{text}");
        }
        if text.len() > STORED_BYTES_MAX {
            let reason = format!(
                "with canonical paths and digests it has {} octets: at most {STORED_BYTES_MAX} are taken",
                text.len()
            );
            return Err(one(Problem::new("plan", reason)));
        }
        Self::of_text(text).map_err(one)
    }

    /// What differs between the plan of that name that is up and this one.
    pub(crate) fn differences(&self, old: Option<&Self>) -> Vec<Difference> {
        let none = (BTreeMap::new(), Part::new());
        let before = old.map_or(&none.0, |old| &old.parts);
        let mut differences = Vec::new();
        for server in union(before, &self.parts) {
            let of = |parts: &BTreeMap<String, Part>| parts.get(server).unwrap_or(&none.1).clone();
            let (old, new) = (of(before), of(&self.parts));
            for key in union(&old, &new).into_iter().filter(|key| old.get(*key) != new.get(*key)) {
                let (server, key) = (server.clone(), key.clone());
                let (old, new) = (old.get(&key).cloned(), new.get(&key).cloned());
                differences.push(Difference { server, key, old, new });
            }
        }
        differences
    }
}

fn union<'m, V>(one: &'m BTreeMap<String, V>, other: &'m BTreeMap<String, V>) -> BTreeSet<&'m String> {
    one.keys().chain(other.keys()).collect()
}

/// Refuses a plan without a name, by which it is known here.
fn name_of(plan: &Plan, table: &Table) -> Result<(), Problem> {
    if !table.contains_key("name") {
        return Err(Problem::new("name", "the plan has none: give it one, by which it is brought up and down"));
    }
    check_name(&plan.name).map_err(|error| Problem::new("name", error.to_string()))
}

/// Refuses a plan that would take too long to prepare, or has nothing to run.
fn size_of(plan: &Plan) -> Result<(), Problem> {
    if plan.server_names().is_empty() {
        return Err(Problem::new("instances", "the plan has none: nothing of it would run".to_owned()));
    }
    let servers = all_servers(plan);
    let artifacts: BTreeSet<_> = servers.iter().flat_map(|server| plan.artifacts_of(server)).collect();
    let counts = [("servers", servers.len(), SERVERS_MAX), ("artifacts", artifacts.len(), OBJECTS_MAX)];
    match counts.into_iter().find(|(_, count, most)| count > most) {
        Some((place, count, most)) => Err(Problem::new(place, format!("there are {count}: at most {most} are taken"))),
        None => Ok(()),
    }
}

/// Servers that a plan names, with instances or without.
fn all_servers(plan: &Plan) -> BTreeSet<&str> {
    plan.servers.keys().map(String::as_str).chain(plan.server_names()).collect()
}

/// Puts canonical paths into a plan, and the digests of the files. Returns what is wrong with them.
fn fix_artifacts(plan: &Plan, table: &mut Table, folder: Option<&Path>, policy: &Policy) -> Vec<Problem> {
    let mut problems = Vec::new();
    // By the names that the plan has: the canonical path, and the digest.
    let mut found = BTreeMap::<&str, (String, String)>::new();
    for server in all_servers(plan) {
        for name in plan.artifacts_of(server) {
            if found.contains_key(name) {
                continue;
            }
            match artifact(plan, folder, policy, name) {
                Ok(fixed) => drop(found.insert(name, fixed)),
                Err(reason) => problems.push(at(server, reason)),
            }
        }
    }
    let path_of = |name: &str| found.get(name).map(|(path, _)| path.clone());
    for (_, server) in tables(table, "servers") {
        if let Some(path) = server.get("program").and_then(Value::as_str).and_then(path_of) {
            server.insert("program".to_owned(), path.into());
        }
    }
    for (name, instance) in tables(table, "instances") {
        if let Some((object, of)) = plan.instances.get(name).and_then(|instance| instance.object())
            && let Some(path) = path_of(object)
        {
            instance.insert("component".to_owned(), format!("{path}#{of}").into());
        }
    }
    let digests: Table = found.into_values().map(|(path, digest)| (path, digest.into())).collect();
    table.insert("artifacts".to_owned(), digests.into());
    problems
}

/// The canonical path of a program or shared object of a plan, and its digest.
fn artifact(plan: &Plan, folder: Option<&Path>, policy: &Policy, name: &str) -> Result<(String, String), String> {
    let path = policy.artifact(folder.unwrap_or_else(|| policy.folder_of(name)), name)?;
    let digest = match plan.artifacts.get(name) {
        Some(stated) => artifacts::compare(&path, policy.found.digest(&path)?, stated)?,
        None if policy.digests == Digests::Required => {
            return Err(format!(
                "the digest of {name} is missing: add \"{name}\" = \"sha256:…\" to [artifacts], as sha256sum prints it"
            ));
        }
        None => policy.found.digest(&path)?,
    };
    let path = path.into_os_string().into_string();
    Ok((path.map_err(|path| format!("{} is no UTF-8: rename it", path.display()))?, digest))
}

/// The tables in a table of that name.
fn tables<'t>(table: &'t mut Table, name: &str) -> impl Iterator<Item = (&'t String, &'t mut Table)> {
    let within = table.get_mut(name).and_then(Value::as_table_mut);
    within.into_iter().flatten().filter_map(|(name, value)| Some((name, value.as_table_mut()?)))
}

/// What a plan says of a server: all for which its process has to be replaced when it changes.
fn part(plan: &Plan, table: &Table, server: &str) -> Part {
    let mut part = Part::new();
    let mut add = |section: &str, name: &str, is_part: fn(&str) -> bool| {
        let of = table.get(section).and_then(|all| all.get(name)).and_then(Value::as_table);
        for (key, value) in of.into_iter().flatten().filter(|(key, _)| is_part(key)) {
            part.insert(format!("{section}.{name}.{key}"), value.to_string());
        }
    };
    add("servers", server, |_| true);
    let is_here = |instance: &str| plan.instances.get(instance).is_some_and(|instance| instance.server == server);
    for (name, instance) in plan.instances.iter().filter(|(name, _)| is_here(name)) {
        // It runs on under another name of its node.
        add("instances", name, |key| key != "node");
        if let Some(container) = &instance.container {
            add("containers", container, |_| true);
        }
    }
    let owns = |port: &str| port.split_once('.').is_some_and(|(instance, _)| is_here(instance));
    for port in plan.ports.keys().filter(|port| owns(port)) {
        // Times are for `check` alone.
        add("ports", port, |key| matches!(key, "qos" | "when"));
    }
    for artifact in plan.artifacts_of(server) {
        let digest = plan.artifacts.get(artifact).cloned().unwrap_or_default();
        part.insert(format!("artifacts.{artifact}"), digest);
    }
    for federation in plan.federate.iter().filter(|federation| owns(&federation.channel)) {
        let links = plan.links_of(&federation.channel);
        let links = links.iter().filter_map(|link| serde_json::to_string(link).ok());
        part.insert(format!("federate.{}", federation.channel), links.collect::<Vec<_>>().join(", "));
    }
    for (source, sinks) in &plan.connections {
        let (here, elsewhere): (Vec<&str>, Vec<&str>) = sinks.iter().map(String::as_str).partition(|sink| owns(sink));
        // Of what is in other servers only that it is there: between the two is a channel.
        let value = match (owns(source), here.is_empty(), elsewhere.is_empty()) {
            (true, _, true) => here.join(", "),
            (true, true, false) => "other servers".to_owned(),
            (true, false, false) => format!("{}, other servers", here.join(", ")),
            (false, false, _) => here.join(", "),
            (false, true, _) => continue,
        };
        part.insert(format!("connections.{source}"), value);
    }
    part
}

#[cfg(test)]
mod tests {
    use super::Release;

    const PLAN: &str = "
        name = 'guiding'
        [servers.one]
        [servers.two]
        [containers.shared]
        service = 'notification'
        [instances.camera]
        component = '/o/lib.so#Camera'
        server = 'one'
        container = 'shared'
        [instances.guider]
        component = '/o/lib.so#Guider'
        server = 'two'
        container = 'shared'
        gain = 0.3
        [connections]
        'camera.frame' = ['guider.frame']
        [ports.'guider.frame']
        time = '2ms'
        [artifacts]
        '/o/lib.so' = 'sha256:00'
    ";

    /// What differs where the plan has other text.
    fn differences(from: &str, to: &str) -> Vec<String> {
        assert!(PLAN.contains(from));
        let [old, new] = [PLAN.to_owned(), PLAN.replace(from, to)].map(|text| Release::of_text(text).unwrap());
        let line = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let all = new.differences(Some(&old)).into_iter();
        all.map(|it| format!("{} {}: {} {}", it.server, it.key, line(it.old), line(it.new))).collect()
    }

    #[test]
    fn only_servers_whose_part_changes_differ() {
        assert_eq!(differences("0.3", "0.3"), [""; 0]);
        assert_eq!(differences("0.3", "0.4"), ["two instances.guider.gain: 0.3 0.4"]);
        assert_eq!(differences("2ms", "3ms"), [""; 0]);
        assert_eq!(differences("time = '2ms'", "when = '$x'"), ["two ports.guider.frame.when: - \"$x\""]);
        let of_both = ["one", "two"].map(|server| format!("{server} artifacts./o/lib.so: sha256:00 sha256:01"));
        assert_eq!(differences("sha256:00", "sha256:01"), of_both);
        // One more sink of the channel is nothing to its source.
        let more =
            "['guider.frame', 'other.frame']\n[instances.other]\ncomponent = '/o/lib.so#Guider'\nserver = 'three'\n";
        let all = differences("['guider.frame']\n", more);
        assert!(!all.is_empty() && all.iter().all(|line| line.starts_with("three ")), "{all:?}");
        assert_eq!(
            differences("'camera.frame' = ['guider.frame']", ""),
            ["one connections.camera.frame: other servers -", "two connections.camera.frame: guider.frame -"]
        );
    }
}
