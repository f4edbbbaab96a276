//! Federated channels: the channel of a source, which notification services at several nodes have as one by links between them.

use super::{Checked, Plan, Problem};
use crate::nodes::{host, is_loopback};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// The most octets of a link's name.
const LINK_NAME_MAX: usize = 100;

/// The most federated channels of a plan, and the most nodes of one: as many links as a service has.
const LINKS_MAX: usize = 64;

/// A channel of a plan that services at several nodes have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FederatePlan {
    /// The source, as `instance.port`, whose channel it is.
    pub channel: String,
    /// The nodes whose services have it: that of the source, and those of sinks.
    pub between: Vec<String>,
    /// What carries its events.
    #[serde(default)]
    pub by: FederateBy,
    /// Address and port of the group, of `multicast` alone.
    pub group: Option<String>,
    /// The port at which the services of sinks take links. Default 2816.
    #[serde(default = "default_port")]
    pub port: u16,
    /// Whether links are made over TLS, to `tls.links_listen`. Default false.
    #[serde(default)]
    pub tls: bool,
}

const fn default_port() -> u16 {
    2816
}

/// What carries the events of a federated channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FederateBy {
    /// A connection to each service.
    #[default]
    Tcp,
    /// Datagrams to each service.
    Udp,
    /// Datagrams to a group of services.
    Multicast,
}

/// Refuses what would take too long to look at.
pub(super) fn check_size(federate: &[FederatePlan]) -> Result<(), Problem> {
    let all = federate.iter().map(|of| (format!("federate.{:?}", of.channel), of.between.len()));
    match std::iter::once(("federate".to_owned(), federate.len())).chain(all).find(|(_, count)| *count > LINKS_MAX) {
        Some((place, count)) => Err(Problem::new(place, format!("it has {count}: at most {LINKS_MAX} are taken"))),
        None => Ok(()),
    }
}

impl FederateBy {
    const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Multicast => "multicast",
        }
    }
}

/// A link of a source's service to another one, with the keys of a `[[link]]`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PlannedLink {
    pub(crate) name: String,
    to: String,
    channels: [String; 1],
    direction: &'static str,
    carrier: FederateBy,
    tls: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
}

impl Plan {
    fn node_of_port(&self, port: &str) -> Option<&str> {
        self.instance_of(port)?.node.as_deref()
    }

    /// Whether a connection goes over a federated channel.
    pub(crate) fn is_federated(&self, source: &str, sink: &str) -> bool {
        let Some(of) = self.federate.iter().find(|it| it.channel == source) else { return false };
        let (from, to) = (self.node_of_port(source), self.node_of_port(sink));
        let has = |node: Option<&str>| of.between.iter().any(|one| Some(one.as_str()) == node);
        from != to && has(from) && has(to)
    }

    /// Sinks of a source at a node.
    fn sinks_at<'p>(&'p self, source: &str, node: &'p str) -> impl Iterator<Item = &'p str> {
        let sinks = self.connections.get(source).into_iter().flatten().map(String::as_str);
        sinks.filter(move |sink| self.node_of_port(sink) == Some(node))
    }

    /// Where the service of a port's container is.
    fn service_at(&self, port: &str) -> Option<&str> {
        self.container_of(port)?.at.as_deref()
    }

    /// The links that a source's service makes for it, one to each other node.
    pub(crate) fn links_of(&self, source: &str) -> Vec<PlannedLink> {
        let Some(of) = self.federate.iter().find(|it| it.channel == source) else { return Vec::new() };
        let others = of.between.iter().filter(|node| Some(node.as_str()) != self.node_of_port(source));
        let link = |node: &String| {
            let at = self.service_at(self.sinks_at(source, node).next()?)?;
            // A loopback address is that of the node, unless all are one machine.
            let is_of_node = is_loopback(at) && !self.is_one_machine();
            let host = host(if is_of_node { self.nodes.get(node)?.as_str() } else { at });
            let to = if host.contains(':') { format!("[{host}]:{}", of.port) } else { format!("{host}:{}", of.port) };
            let (channel, carrier, tls, group) = (self.channel(source), of.by, of.tls, of.group.clone());
            let over = if tls { "+tls" } else { "" };
            let at = group.as_ref().map(|group| format!("@{group}")).unwrap_or_default();
            let name = format!("{channel}>{}{over}:{to}{at}", carrier.name());
            Some(PlannedLink { name, to, channels: [channel], direction: "out", carrier, tls, group })
        };
        others.filter_map(link).collect()
    }

    /// What is wrong with a federated channel.
    fn federation_problems(&self, of: &FederatePlan) -> Vec<String> {
        let source = of.channel.as_str();
        let Some(home) = self.node_of_port(source).filter(|_| self.connections.contains_key(source)) else {
            let known: Vec<_> = self.connections.keys().map(String::as_str).collect();
            return vec![format!(
                "it is no source of an instance with a `node`: `channel` names one of [connections]; there are: {}",
                known.join(", ")
            )];
        };
        let mut problems = Vec::new();
        if !of.between.iter().any(|node| node == home) {
            problems.push(format!("its source is on {home}: add that to `between`"));
        }
        let mut known = BTreeSet::new();
        for node in &of.between {
            if !known.insert(node) {
                problems.push(format!("`between` has {node} twice: leave one out"));
            } else if !self.nodes.contains_key(node) {
                let known: Vec<_> = self.nodes.keys().map(String::as_str).collect();
                problems.push(format!("there is no node {node}; there are: {}", known.join(", ")));
            } else if node != home {
                problems.extend(self.problem_of_node(source, node));
            }
        }
        if known.len() < 2 {
            problems.push("`between` names the source's node and those of its sinks: two at least".to_owned());
        }
        let is_group = |text: &String| text.parse().is_ok_and(|at: SocketAddr| at.ip().is_multicast());
        match (&of.group, of.by) {
            (None, FederateBy::Multicast) => {
                problems.push("multicast has a group: give `group`, as \"239.192.7.1:2817\"".to_owned());
            }
            (Some(group), FederateBy::Multicast) if !is_group(group) => {
                problems.push(format!("{group:?} is no group: give an address and a port, as \"239.192.7.1:2817\""));
            }
            (Some(_), FederateBy::Tcp | FederateBy::Udp) => {
                problems.push("`group` is of multicast: leave it out, or say by = \"multicast\"".to_owned());
            }
            _ => {}
        }
        let long = self.links_of(source).into_iter().find(|link| link.name.len() > LINK_NAME_MAX);
        problems.extend(long.map(|link| {
            let octets = link.name.len();
            format!(
                "its link would be called {}, which has {octets} octets: at most {LINK_NAME_MAX} are taken; give plan or instance a shorter name",
                link.name
            )
        }));
        problems
    }

    /// What is in the way of a link from the service of a source to that of its sinks at a node.
    fn problem_of_node(&self, source: &str, node: &str) -> Option<String> {
        let mut addresses = BTreeMap::new();
        for port in std::iter::once(source).chain(self.sinks_at(source, node)) {
            // Where there is no service at all, that is said of the connection.
            let service = self.container_of(port)?.service?;
            if !service.has_links() {
                return Some(format!(
                    "{port} has the service {}, without links: take notification or rtes",
                    service.name()
                ));
            }
            let Some(at) = self.service_at(port) else {
                return Some(format!("the service of {port} may be anywhere: give its container `at`"));
            };
            let is_address = at.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_ok());
            if !is_address || at.contains('/') {
                return Some(format!("the service of {port} is at {at}: links need its HOST:PORT"));
            }
            if port != source {
                addresses.insert(at, port);
            }
        }
        let is_own = |at: &str| is_loopback(at) && !self.is_one_machine();
        let mut all = addresses.into_iter();
        match (all.next(), all.next()) {
            (None, _) => Some(format!("no sink of it is on {node}: leave that out")),
            (Some((at, one)), Some((other, two))) => Some(format!(
                "its sinks on {node} have two services, {one} at {at}, {two} at {other}: give their containers one `at`"
            )),
            (Some((at, _)), None) if Some(at) == self.service_at(source) && !is_own(at) => Some(format!(
                "source and sinks on {node} have one service, at {at}: leave {node} out, or give each node's container its own"
            )),
            _ => None,
        }
    }
}

impl Checked<'_> {
    /// Federated channels, their services and their nodes.
    pub(super) fn check_federations(&mut self) {
        let plan = self.plan;
        let (mut channels, mut groups) = (BTreeSet::new(), BTreeMap::new());
        for of in &plan.federate {
            let place = format!("federate.{:?}", of.channel);
            if !channels.insert(&of.channel) {
                self.problem(&place, "it is there twice: name all its nodes in one `between`");
                continue;
            }
            for reason in plan.federation_problems(of) {
                self.problem(&place, reason);
            }
            let group = of.group.as_ref();
            if let Some((group, other)) = group.and_then(|group| Some((group, groups.insert(group, &of.channel)?))) {
                self.problem(&place, format!("{other} has the group {group}: give each channel one of its own"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::Plan;

    const PLAN: &str = "
        name = 'far'
        [nodes]
        dome = 'dome.obs:2810'
        lab = 'lab.obs:2810'
        town = 'town.obs:2810'
        [containers.own]
        service = 'notification'
        at = 'localhost:2809'
        [containers.town]
        service = 'notification'
        at = '[fd00::7]:2809'
        [instances.camera]
        component = 'Camera'
        node = 'dome'
        server = 'one'
        container = 'own'
        [instances.guider]
        component = 'Guider'
        node = 'lab'
        server = 'two'
        container = 'own'
        [instances.archive]
        component = 'Archive'
        node = 'town'
        server = 'three'
        container = 'town'
        [connections]
        'camera.frame' = ['guider.frame', 'archive.frame']
        [[federate]]
        channel = 'camera.frame'
        between = ['dome', 'lab', 'town']
        by = 'tcp'
        port = 28
    ";

    /// What is wrong where the plan has other text.
    fn problems(from: &str, to: &str) -> Vec<String> {
        assert!(PLAN.contains(from), "{from}");
        let plan = Plan::parse(&PLAN.replace(from, to)).unwrap();
        plan.federate.iter().flat_map(|of| plan.federation_problems(of)).collect()
    }

    #[test]
    fn a_source_has_a_link_to_the_service_of_each_other_node() {
        assert_eq!(problems("", ""), [""; 0]);
        let plan = Plan::parse(PLAN).unwrap();
        assert_eq!(plan.node_problems(), []);
        // The service at a loopback address is the node's own.
        let to: Vec<_> = plan.links_of("camera.frame").into_iter().map(|link| link.to).collect();
        assert_eq!(to, ["lab.obs:28", "[fd00::7]:28"]);
        let [first, _] = &plan.links_of("camera.frame")[..] else { panic!("two links") };
        let entry = "name = \"far.camera.frame>tcp:lab.obs:28\"\nto = \"lab.obs:28\"\nchannels = [\"far.camera.frame\"]\ndirection = \"out\"\n\
                     carrier = \"tcp\"\ntls = false\n";
        assert_eq!(toml::to_string(first).unwrap(), entry);
        assert!(plan.is_federated("camera.frame", "guider.frame") && plan.links_of("guider.frame").is_empty());
    }

    #[test]
    fn more_channels_and_nodes_than_a_service_has_links_are_refused_before_they_are_looked_at() {
        let nodes = "'lab', ".repeat(65);
        let refused = Plan::parse(&PLAN.replace("'lab', ", &nodes)).unwrap_err();
        assert_eq!(refused.to_string(), "federate.\"camera.frame\": it has 67: at most 64 are taken");
        let channels = "[[federate]]\nchannel = 'a.b'\nbetween = []\n".repeat(64);
        let refused = Plan::parse(&format!("{PLAN}{channels}")).unwrap_err();
        assert_eq!(refused.to_string(), "federate: it has 65: at most 64 are taken");
    }

    #[test]
    fn links_of_other_keys_have_other_names() {
        let name = |from: &str, to: &str| {
            let plan = Plan::parse(&PLAN.replace(from, to)).unwrap();
            plan.links_of("camera.frame").into_iter().next().unwrap().name
        };
        assert_eq!(name("", ""), "far.camera.frame>tcp:lab.obs:28");
        assert_eq!(name("by = 'tcp'", "tls = true"), "far.camera.frame>tcp+tls:lab.obs:28");
        let group = name("by = 'tcp'", "by = 'multicast'\ngroup = '239.192.7.1:2817'");
        assert_eq!(group, "far.camera.frame>multicast:lab.obs:28@239.192.7.1:2817");
    }

    #[test]
    fn a_federated_channel_that_cannot_be_is_refused_with_what_to_do() {
        let no_source = "it is no source of an instance with a `node`: `channel` names one of [connections]; there are: camera.frame";
        assert_eq!(problems("channel = 'camera.frame'", "channel = 'camera.fame'"), [no_source]);
        assert_eq!(problems("'dome', 'lab'", "'lab'"), ["its source is on dome: add that to `between`"]);
        assert_eq!(problems("'town']", "'attic']"), ["there is no node attic; there are: dome, lab, town"]);
        assert_eq!(problems("'town']", "'lab']"), ["`between` has lab twice: leave one out"]);
        let alone = problems("['dome', 'lab', 'town']", "['dome']");
        assert_eq!(alone, ["`between` names the source's node and those of its sinks: two at least"]);
        assert_eq!(problems(", 'archive.frame'", ""), ["no sink of it is on town: leave that out"]);
        let of_dds = problems("service = 'notification'\n        at = '[fd00::7]:2809'", "service = 'dds'");
        assert_eq!(of_dds, ["archive.frame has the service dds, without links: take notification or rtes"]);
        let anywhere = "the service of archive.frame may be anywhere: give its container `at`";
        assert_eq!(problems("at = '[fd00::7]:2809'", ""), [anywhere]);
        assert!(problems("'[fd00::7]:2809'", "'corbaloc::x:1/y'")[0].ends_with("links need its HOST:PORT"));
        let one =
            PLAN.replace("'localhost:2809'", "'events.obs:2809'").replace("'[fd00::7]:2809'", "'events.obs:2809'");
        let one = Plan::parse(&one).unwrap().federation_problems(&Plan::parse(PLAN).unwrap().federate[0]);
        assert_eq!(one.len(), 2);
        assert!(one[0].starts_with("source and sinks on lab have one service, at events.obs:2809: leave lab out"));
        assert_eq!(problems("'tcp'", "'multicast'"), ["multicast has a group: give `group`, as \"239.192.7.1:2817\""]);
        assert_eq!(problems("by = 'tcp'", "by = 'multicast'\ngroup = '239.192.7.1:2817'"), [""; 0]);
        assert!(
            problems("by = 'tcp'", "by = 'multicast'\ngroup = 'lab.obs:1'")[0].starts_with("\"lab.obs:1\" is no group")
        );
        assert!(problems("'tcp'", "'udp'\ngroup = '239.192.7.1:2817'")[0].starts_with("`group` is of multicast"));
        assert!(problems("lab.obs", &"x".repeat(90))[0].contains("octets: at most 100 are taken"));
        let unknown = Plan::parse(&PLAN.replace("'tcp'", "'pigeons'")).unwrap_err().to_string();
        assert!(unknown.contains("unknown variant `pigeons`, expected one of `tcp`, `udp`, `multicast`"), "{unknown}");
    }
}
