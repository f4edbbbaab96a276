//! Plans over several nodes: which node each server is on, and what is wrong with that.

use crate::plan::{Plan, Problem, names};
use crate::server::check_name;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The most nodes of a plan.
const NODES_MAX: usize = 64;

/// The host of `HOST:PORT`, perhaps behind a scheme.
pub(crate) fn host(address: &str) -> &str {
    let address = address.rsplit("://").next().unwrap_or(address).trim();
    let host = match address.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')) => host,
        _ => address,
    };
    host.trim_matches(['[', ']'])
}

/// Whether an address, or the first of a list, is of the machine alone that uses it.
pub(crate) fn is_loopback(address: &str) -> bool {
    let is_it = |host: &str| {
        host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    };
    address.split(',').any(|one| is_it(host(one)))
}

impl Plan {
    /// The node of a server: that of its instances.
    pub(crate) fn node_of(&self, server: &str) -> Option<&str> {
        self.instances.values().find(|instance| instance.server == server)?.node.as_deref()
    }

    /// The plan with the servers and instances of one node alone.
    pub(crate) fn of_node(&self, node: &str) -> Self {
        let mut part = self.clone();
        part.servers.retain(|server, _| self.node_of(server) == Some(node));
        part.instances.retain(|_, instance| instance.node.as_deref() == Some(node));
        part
    }

    /// What is wrong with the nodes of a plan.
    pub(crate) fn node_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut problem = |place: String, reason: String| problems.push(Problem::new(place, reason));
        if self.nodes.len() > NODES_MAX {
            problem("nodes".to_owned(), format!("there are {}: at most {NODES_MAX} are taken", self.nodes.len()));
            return problems;
        }
        let mut known = BTreeMap::<&str, &str>::new();
        for (name, address) in &self.nodes {
            let place = format!("nodes.{name}");
            if let Err(error) = check_name(name) {
                problem(place.clone(), error.to_string());
            }
            let is_address = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
            if !address.rsplit_once(':').is_some_and(is_address) {
                problem(place.clone(), format!("{address:?} is no HOST:PORT: give tls.listen of its node.toml"));
            }
            if let Some(other) = known.insert(address, name) {
                problem(place, format!("it is at {address}, as {other} is: give each node manager one name"));
            }
        }
        let mut servers = BTreeMap::<&str, (&str, &str)>::new();
        let mut split = BTreeSet::new();
        for (name, instance) in &self.instances {
            let place = format!("instances.{name}");
            let (server, all) = (instance.server.as_str(), names(&self.nodes));
            match instance.node.as_deref() {
                Some(node) if self.nodes.is_empty() => {
                    let reason = format!(
                        "it is on the node {node}, and the plan has no [nodes]: add it with {node} = \"HOST:PORT\", or leave `node` out"
                    );
                    problem(place, reason);
                }
                Some(node) if !self.nodes.contains_key(node) => {
                    problem(place, format!("there is no node {node}; there are: {all}"));
                }
                None if !self.nodes.is_empty() => {
                    problem(place, format!("the plan has [nodes], and this has no `node`: name one of: {all}"));
                }
                None => {}
                Some(node) => match *servers.entry(server).or_insert((node, name.as_str())) {
                    (other, first) if other != node && split.insert(server) => {
                        let reason = format!(
                            "it is one process, and {first} is on the node {other}, {name} on {node}: give the instances of each node a \
                             server of their own"
                        );
                        problem(format!("servers.{server}"), reason);
                    }
                    _ => {}
                },
            }
        }
        self.check_reach(problem);
        if problems.is_empty() {
            let used: BTreeSet<_> = self.instances.values().filter_map(|instance| instance.node.as_ref()).collect();
            let unused = self.nodes.keys().filter(|node| !used.contains(node));
            problems
                .extend(unused.map(|node| Problem::new(format!("nodes.{node}"), "no instance is on it: leave it out")));
        }
        problems
    }

    /// Whether all nodes are one machine: at loopback addresses.
    pub(crate) fn is_one_machine(&self) -> bool {
        self.nodes.values().all(|at| is_loopback(at))
    }

    /// Refuses services between nodes that one of them does not reach.
    fn check_reach(&self, mut problem: impl FnMut(String, String)) {
        let node = |port: &str| self.instances.get(port.split_once('.')?.0)?.node.as_deref();
        let mut known = BTreeSet::new();
        for (source, sink) in self.connections.iter().flat_map(|(of, sinks)| sinks.iter().map(move |it| (of, it))) {
            let (Some(from), Some(to)) = (node(source), node(sink)) else { continue };
            // The channel is at the services of both.
            if self.is_federated(source, sink) {
                continue;
            }
            // On loopback addresses all nodes are one machine.
            let is_one_machine = [from, to].iter().all(|node| self.nodes.get(*node).is_some_and(|at| is_loopback(at)));
            for port in [source, sink] {
                let name =
                    port.split_once('.').and_then(|(instance, _)| self.instances.get(instance)?.container.as_ref());
                let Some((name, container)) = name.and_then(|name| Some((name, self.containers.get(name)?))) else {
                    continue;
                };
                let Some(service) = container.service.filter(|_| from != to && !known.contains(name)) else { continue };
                let reason = match &container.at {
                    Some(at) if is_loopback(at) && !is_one_machine => format!(
                        "its service is at {at}, which is another machine for {from} than for {to}: give `at` an address that both reach"
                    ),
                    None if service.name() != "dds" => format!(
                        "it is between {from} and {to}, which may have different defaults: give `at` an address that both reach"
                    ),
                    _ => continue,
                };
                known.insert(name);
                problem(format!("containers.{name}"), reason);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{host, is_loopback};
    use crate::plan::Plan;

    const PLAN: &str = "
        [nodes]
        dome = 'dome.obs:2810'
        lab = 'lab.obs:2810'
        [containers.wide]
        service = 'notification'
        at = 'events.obs:2809'
        [instances.camera]
        component = 'Camera'
        node = 'dome'
        server = 'one'
        container = 'wide'
        [instances.guider]
        component = 'Guider'
        node = 'lab'
        server = 'two'
        container = 'wide'
        [connections]
        'camera.frame' = ['guider.frame']
    ";

    /// What is wrong where the plan has other text.
    fn problems(from: &str, to: &str) -> Vec<String> {
        assert!(PLAN.contains(from), "{from}");
        let problems = Plan::parse(&PLAN.replace(from, to)).unwrap().node_problems();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_server_is_on_one_node_that_there_is() {
        assert_eq!(problems("", ""), [""; 0]);
        let plan = Plan::parse(PLAN).unwrap();
        assert_eq!(
            (plan.node_of("one"), plan.node_of("two"), plan.node_of("three")),
            (Some("dome"), Some("lab"), None)
        );
        assert_eq!(plan.of_node("lab").instances.keys().collect::<Vec<_>>(), ["guider"]);
        let split = "servers.two: it is one process, and camera is on the node dome, guider on lab: give the instances of each node a server of \
                     their own";
        assert_eq!(problems("'one'", "'two'"), [split]);
        assert_eq!(problems("'lab'", "'attic'"), ["instances.guider: there is no node attic; there are: dome, lab"]);
        let without = "instances.camera: the plan has [nodes], and this has no `node`: name one of: dome, lab";
        assert_eq!(problems("node = 'dome'", ""), [without]);
        let all = problems("[nodes]\n        dome = 'dome.obs:2810'\n        lab = 'lab.obs:2810'", "");
        assert_eq!(all.len(), 2);
        assert!(
            all[0].starts_with("instances.camera: it is on the node dome, and the plan has no [nodes]: add"),
            "{all:?}"
        );
        assert!(problems("'dome.obs:2810'", "'dome.obs'")[0].contains("is no HOST:PORT"));
        let unused = problems("node = 'lab'", "node = 'dome'");
        assert_eq!(unused, ["nodes.lab: no instance is on it: leave it out"]);
        let twice = "nodes.lab: it is at lab.obs:2810, as dome is: give each node manager one name";
        assert_eq!(problems("dome.obs", "lab.obs"), [twice]);
    }

    #[test]
    fn services_between_nodes_are_not_at_loopback_addresses() {
        let refused = problems("events.obs", "localhost");
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused[0].starts_with("containers.wide: its service is at localhost:2809, which is another machine"));
        assert!(problems("at = 'events.obs:2809'", "")[0].contains("which may have different defaults"));
        // Nodes that are all on one machine; and what stays on one node.
        let one = PLAN.replace("dome.obs", "127.0.0.2").replace("lab.obs", "127.0.0.3").replace("events.obs", "[::1]");
        assert_eq!(Plan::parse(&one).unwrap().node_problems(), []);
        let here =
            PLAN.replace("'lab'", "'dome'").replace("lab = 'lab.obs:2810'", "").replace("events.obs", "127.0.0.1");
        assert_eq!(Plan::parse(&here).unwrap().node_problems(), []);
        assert_eq!(
            ["tcp://[::1]:28", "a.b:1", "::1", "udp://127.0.0.9:1"].map(host),
            ["::1", "a.b", "::1", "127.0.0.9"]
        );
        assert!(is_loopback("tower.obs, localhost") && !is_loopback("udp://239.1.2.3:2811"));
    }
}
