//! A plan as a drawing, in DOT, the language of Graphviz.

use crate::plan::{Descriptions, InstancePlan, Plan, line};
use crate::queue::QueueSettings;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A connection of a plan, and what is on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Arrow<'p> {
    /// The source, as `instance.port`.
    pub source: &'p str,
    /// The sink.
    pub sink: &'p str,
    /// The name of the events' type, where it is known.
    #[serde(rename = "type")]
    pub event_type: Option<String>,
    /// The channel, if the two are in different servers.
    pub channel: Option<String>,
    /// The most events of the queue before the sink; `None` without one.
    pub queue_events: Option<u32>,
    /// The sink's filter.
    pub when: Option<&'p str>,
}

/// Ports of an instance, as they are drawn, each with its place in its column.
#[derive(Default)]
struct Ports<'p> {
    taking: BTreeMap<&'p str, usize>,
    giving: BTreeMap<&'p str, usize>,
}

impl Plan {
    /// The connections. Types are those that the components of each server's program declare, as far as they are given here.
    #[must_use]
    pub fn arrows(&self, components: &BTreeMap<String, Descriptions>) -> Vec<Arrow<'_>> {
        let mut arrows = Vec::new();
        for (source, sinks) in &self.connections {
            let event_type = self.type_of(source, components);
            for sink in sinks {
                let port = self.ports.get(sink);
                let is_remote = self.is_remote(source, sink);
                let queue = port.and_then(|port| port.queue.as_ref());
                let is_queued = if is_remote { queue.is_some() } else { self.is_queued(source, sink) };
                let events_max = || queue.map_or_else(|| QueueSettings::default().events_max, |queue| queue.events_max);
                arrows.push(Arrow {
                    source,
                    sink,
                    event_type: event_type.clone(),
                    channel: is_remote.then(|| self.channel(source)),
                    queue_events: is_queued.then(events_max),
                    when: port.and_then(|port| port.when.as_deref()),
                });
            }
        }
        arrows
    }

    fn type_of(&self, source: &str, components: &BTreeMap<String, Descriptions>) -> Option<String> {
        let (instance, port) = source.split_once('.')?;
        let instance = self.instances.get(instance)?;
        let text = components.get(&instance.server)?.get(&instance.component)?.sources.get(port)?;
        let name = ::idl::read(text).ok().and_then(|read| Some(read.last()?.name().to_owned()));
        Some(name.unwrap_or_else(|| line(text)))
    }

    /// The plan in DOT: servers and containers as clusters, instances with their ports, channels, and connections with the types of their
    /// events, queues and filters. Of components that are not given here types and ports without a connection are left out.
    #[must_use]
    pub fn to_dot(&self, components: &BTreeMap<String, Descriptions>) -> String {
        let arrows = self.arrows(components);
        let ports = self.drawn_ports(components);
        let mut text = format!("digraph {} {{\n", quoted(&self.name));
        text.push_str(
            "    rankdir=LR\n    node [shape=record, style=filled, fillcolor=white]\n    edge [fontsize=10]\n",
        );
        let mut servers: BTreeMap<&str, BTreeMap<_, Vec<_>>> =
            self.servers.keys().map(|name| (name.as_str(), BTreeMap::new())).collect();
        for (name, instance) in &self.instances {
            let of_server = servers.entry(&instance.server).or_default();
            of_server.entry(instance.container.as_deref()).or_default().push((name.as_str(), instance));
        }
        for (place, (server, containers)) in servers.iter().enumerate() {
            let program = self.servers.get(*server).and_then(|server| server.program.as_deref());
            let label = [Some(*server), program].into_iter().flatten().collect::<Vec<_>>().join("\n");
            let _ = writeln!(text, "    subgraph cluster_{place} {{\n        label={}", quoted(&label));
            for (inner, (container, instances)) in containers.iter().enumerate() {
                if let Some(name) = container {
                    let label = quoted(&self.container_label(name));
                    let _ = writeln!(
                        text,
                        "        subgraph cluster_{place}_{inner} {{\n        style=dashed\n        label={label}"
                    );
                }
                for (name, instance) in instances {
                    let _ = writeln!(
                        text,
                        "        {} [label=\"{}\"]",
                        quoted(name),
                        record(name, instance, ports.get(name))
                    );
                }
                if container.is_some() {
                    text.push_str("        }\n");
                }
            }
            text.push_str("    }\n");
        }
        write_arrows(&mut text, &arrows, &ports);
        text.push_str("}\n");
        text
    }

    fn container_label(&self, name: &str) -> String {
        let mut label = format!("container {name}");
        let Some(container) = self.containers.get(name) else { return label };
        if let Some(service) = container.service {
            let _ = write!(label, "\n{}", format!("{service:?}").to_lowercase());
            let _ = container.at.as_ref().map(|at| write!(label, " at {at}"));
        }
        if !container.pool.lanes.is_empty() {
            let lanes: Vec<_> = container.pool.lanes.iter().map(i32::to_string).collect();
            let _ = write!(label, "\nlanes {}", lanes.join(", "));
        }
        label
    }

    /// The ports of each instance: those that its component declares, and those that the plan names.
    fn drawn_ports<'p>(&'p self, components: &'p BTreeMap<String, Descriptions>) -> BTreeMap<&'p str, Ports<'p>> {
        let mut ports = BTreeMap::<&str, Ports<'_>>::new();
        for (name, instance) in &self.instances {
            let Some(of) = components.get(&instance.server).and_then(|known| known.get(&instance.component)) else {
                continue;
            };
            let taking = of.sinks.keys().chain(of.others.keys()).map(|port| (port.as_str(), 0)).collect();
            ports.insert(name, Ports { taking, giving: of.sources.keys().map(|port| (port.as_str(), 0)).collect() });
        }
        for (source, sinks) in &self.connections {
            let (instance, port) = source.split_once('.').unwrap_or((source, ""));
            ports.entry(instance).or_default().giving.insert(port, 0);
            for sink in sinks {
                let (instance, port) = sink.split_once('.').unwrap_or((sink, ""));
                ports.entry(instance).or_default().taking.insert(port, 0);
            }
        }
        for column in ports.values_mut().flat_map(|ports| [&mut ports.taking, &mut ports.giving]) {
            for (number, place) in column.values_mut().enumerate() {
                *place = number;
            }
        }
        ports
    }
}

fn write_arrows(text: &mut String, arrows: &[Arrow<'_>], ports: &BTreeMap<&str, Ports<'_>>) {
    let mut channels = BTreeSet::new();
    for arrow in arrows {
        let (source, sink) = (drawn_end(arrow.source, true, ports), drawn_end(arrow.sink, false, ports));
        let mut label = vec![arrow.event_type.clone().unwrap_or_default()];
        let mut from = source.clone();
        if let Some(channel) = &arrow.channel {
            // No instance has a name with a space.
            from = quoted(&format!("channel {channel}"));
            if channels.insert(channel) {
                let _ = writeln!(text, "    {from} [shape=cylinder, label={}]", quoted(channel));
                let _ = writeln!(text, "    {source} -> {from} [label={}]", quoted(&label.join("\n")));
            }
            label.clear();
        }
        label.extend(arrow.queue_events.map(|events| format!("queue of {events}")));
        label.extend(arrow.when.map(|when| format!("when {when}")));
        label.retain(|line| !line.is_empty());
        let style = if arrow.queue_events.is_some() { ", style=dashed" } else { "" };
        let _ = writeln!(text, "    {from} -> {sink} [label={}{style}]", quoted(&label.join("\n")));
    }
}

/// A port as the end of an arrow.
fn drawn_end(port: &str, is_source: bool, ports: &BTreeMap<&str, Ports<'_>>) -> String {
    let (instance, name) = port.split_once('.').unwrap_or((port, ""));
    let of = ports.get(instance).map(|ports| if is_source { &ports.giving } else { &ports.taking });
    let place = of.and_then(|places| places.get(name)).copied().unwrap_or_default();
    format!("{}:{}{place}", quoted(instance), if is_source { 'o' } else { 'i' })
}

/// An instance between the ports that take events and those that give them.
fn record(name: &str, instance: &InstancePlan, ports: Option<&Ports<'_>>) -> String {
    let column = |places: Option<&BTreeMap<&str, usize>>, side: char| {
        let fields = places.into_iter().flatten().map(|(name, place)| format!("<{side}{place}> {}", field(name)));
        let fields: Vec<_> = fields.collect();
        (!fields.is_empty()).then(|| format!("{{{}}}", fields.join("|")))
    };
    let lane = instance.lane.map_or_else(String::new, |lane| format!("\\nlane {lane}"));
    let middle = format!("{}\\n{}{lane}", field(name), field(&instance.component));
    let columns = [column(ports.map(|it| &it.taking), 'i'), Some(middle), column(ports.map(|it| &it.giving), 'o')];
    format!("{{{}}}", columns.into_iter().flatten().collect::<Vec<_>>().join("|"))
}

/// A text in quotes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    escape(&mut quoted, text, "\"\\");
    quoted + "\""
}

/// A text within a label of fields.
fn field(text: &str) -> String {
    let mut field = String::new();
    escape(&mut field, text, "\"\\{}|<>");
    field
}

fn escape(to: &mut String, text: &str, special: &str) {
    for letter in text.chars() {
        match letter {
            '\n' => to.push_str("\\n"),
            _ if letter.is_control() => to.push(' '),
            _ if special.contains(letter) => to.extend(['\\', letter]),
            _ => to.push(letter),
        }
    }
}
