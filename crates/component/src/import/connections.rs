//! Connections of the OMG's flattened deployment plan: of ports with each other, and with event services.

use super::events::Service;
use super::instances::{Instances, Kind, Names, text_of_property};
use super::report::Report;
use super::xml::Element;
use crate::server::FIRST_CONTAINER;
use std::collections::{BTreeMap, BTreeSet};

/// The most connections, those included that are made of the publishers and consumers of event services.
const CONNECTIONS_MAX: usize = 100_000;

/// The most octets of a port's name.
const PORT_MAX: usize = 64;

/// The container of servers that are connected with others and with no event service.
const REMOTE: &str = "remote";

/// One end of a connection.
struct End {
    is_source: bool,
    instance: usize,
    /// As `instance.port`.
    port: String,
    /// As filters name it.
    supplier: String,
}

/// What is connected with an event service.
#[derive(Default)]
struct Members {
    publishers: Vec<End>,
    /// Each with the place of its filter.
    consumers: Vec<(End, Option<usize>)>,
}

/// Sinks of a source, each with its instance.
type Sinks = BTreeMap<String, usize>;

/// The connections of a plan.
pub(super) struct Connections {
    count: usize,
    /// With the instance of each source.
    pub(super) all: BTreeMap<String, (usize, Sinks)>,
    pub(super) containers: Vec<String>,
    /// The container of each server that has one.
    of_servers: BTreeMap<String, String>,
    names: Names,
}

impl Connections {
    /// Reads connections, and puts instances into containers where their server needs a service.
    pub(super) fn read(
        root: &Element,
        services: &[Service<'_>],
        instances: &mut Instances<'_>,
        report: &mut Report,
    ) -> Self {
        let mut read = Self {
            count: 0,
            all: BTreeMap::new(),
            containers: Vec::new(),
            of_servers: BTreeMap::new(),
            names: Names::default(),
        };
        // The one of instances that name none.
        read.names.take(FIRST_CONTAINER);
        let places: BTreeMap<&str, usize> =
            services.iter().enumerate().map(|(place, service)| (service.name(), place)).collect();
        let mut members: Vec<Members> = services.iter().map(|_| Members::default()).collect();
        for connection in root.all("connection") {
            let Some((end, reference)) = read.read_connection(connection, instances, report) else { continue };
            let location = reference.text_of("location");
            let Some(place) = places.get(location).copied() else {
                let reason =
                    format!("{location:?} is no event service of the descriptor that --events names: correct it");
                report.refuse(reference, reason);
                continue;
            };
            let (Some(service), Some(members)) = (services.get(place), members.get_mut(place)) else { continue };
            match (end.is_source, read_filter(connection, service, report)) {
                (_, Err(())) => {}
                (false, Ok(filter)) => members.consumers.push((end, filter)),
                (true, Ok(None)) => members.publishers.push(end),
                (true, Ok(Some(_))) => report.refuse(connection, "a publisher has no filter: give it to the consumers"),
            }
        }
        for (service, members) in services.iter().zip(members) {
            read.join(service, &members, report);
            read.contain(service, &members, instances, report);
        }
        read.contain_others(instances, report);
        read
    }

    /// Connects two ports, or answers the one that is connected with an event service, and which.
    fn read_connection<'d>(
        &mut self,
        connection: &'d Element,
        instances: &Instances<'_>,
        report: &mut Report,
    ) -> Option<(End, &'d Element)> {
        let many =
            ["deployRequirement", "externalEndpoint", "internalEndpoint", "externalReference", "deployedResource"];
        report.know(connection, &["name", "source"], &many);
        let reason = "a plan has neither ports of its own nor resources: connect instances, and remove this";
        report.refuse_all(connection, &["externalEndpoint", "deployedResource"], reason);
        // What is wrong with an end is in the report.
        let endpoints = connection.all("internalEndpoint");
        let mut ends: Vec<End> = endpoints.map(|it| read_end(it, instances, report)).collect::<Option<_>>()?;
        let references: Vec<_> = connection.all("externalReference").collect();
        for reference in &references {
            report.know(reference, &["location", "provider", "portName"], &["supportedType"]);
        }
        match (ends.pop(), ends.pop(), &*references) {
            (Some(end), None, [reference]) => return Some((end, *reference)),
            (Some(one), Some(other), []) if ends.is_empty() && one.is_source != other.is_source => {
                let reason = "a connection without an event service has no filter: connect both ports with one";
                report.refuse_all(connection, &["deployRequirement"], reason);
                let (source, sink) = if one.is_source { (one, other) } else { (other, one) };
                self.connect(connection, &source, &sink, report);
            }
            _ => {
                let reason =
                    "connected are a publisher and a consumer, or one of both and an event service: correct it";
                report.refuse(connection, reason);
            }
        }
        None
    }

    /// Connects the publishers of an event service with its consumers, as far as their filters let events through.
    fn join(&mut self, service: &Service<'_>, members: &Members, report: &mut Report) {
        // `None` is that of two ports.
        let mut suppliers = BTreeMap::<&str, Option<&End>>::new();
        for publisher in &members.publishers {
            let same = suppliers.entry(&publisher.supplier).or_insert(Some(publisher));
            if same.is_some_and(|other| other.port != publisher.port) {
                *same = None;
            }
        }
        let used: BTreeSet<usize> = members.consumers.iter().filter_map(|(_, filter)| *filter).collect();
        let mut of_filters = BTreeMap::<usize, Vec<&End>>::new();
        for (place, filter) in service.filters.iter().enumerate() {
            for source in filter.sources(used.contains(&place), report) {
                match suppliers.get(source.text()) {
                    Some(Some(publisher)) => of_filters.entry(place).or_default().push(publisher),
                    Some(None) => report.refuse(source, "two publishers have this name: rename an instance"),
                    None => {
                        let reason =
                            "no publisher of this name, INSTANCE_PORT, is connected with the event service: correct it";
                        report.refuse(source, reason);
                    }
                }
            }
        }
        let all: Vec<&End> = members.publishers.iter().collect();
        for (consumer, filter) in &members.consumers {
            let sources = filter.map_or(Some(&all), |filter| of_filters.get(&filter));
            for source in sources.into_iter().flatten() {
                if !self.connect(service.element, source, consumer, report) {
                    return;
                }
            }
        }
    }

    fn connect(&mut self, at: &Element, source: &End, sink: &End, report: &mut Report) -> bool {
        self.count += 1;
        if self.count > CONNECTIONS_MAX {
            report.refuse(
                at,
                format!("there are more than {CONNECTIONS_MAX} connections, which are the most that are taken"),
            );
            return false;
        }
        let (_, sinks) = self.all.entry(source.port.clone()).or_insert_with(|| (source.instance, Sinks::new()));
        sinks.insert(sink.port.clone(), sink.instance);
        true
    }

    /// Gives servers that an event service is connected with a container, which names a service.
    fn contain(&mut self, service: &Service<'_>, members: &Members, instances: &Instances<'_>, report: &mut Report) {
        let container = self.names.take(service.name());
        let kind = service.element.text_of("type");
        let reason =
            format!("{kind} is a notification service here, between servers, which the container {container} names");
        report.note(service.element, reason);
        let ends = members.publishers.iter().chain(members.consumers.iter().map(|(consumer, _)| consumer));
        let servers = ends.filter_map(|end| Some(&instances.all.get(&end.instance)?.server));
        for server in servers.collect::<BTreeSet<_>>() {
            let first = self.of_servers.entry(server.clone()).or_insert_with(|| container.clone());
            if *first != container {
                let reason = format!(
                    "the server {server} has one container, {first}, which names the same notification service"
                );
                report.note(service.element, reason);
            }
        }
        self.containers.push(container);
    }

    /// Gives servers that are connected with others, and with no event service, a container, and all instances that of their server, so
    /// that they go on calling each other.
    fn contain_others(&mut self, instances: &mut Instances<'_>, report: &mut Report) {
        let mut remote = None;
        for (source, sinks) in self.all.values() {
            for sink in sinks.values() {
                let (Some(source), Some(sink)) = (instances.all.get(source), instances.all.get(sink)) else { continue };
                for end in [source, sink].into_iter().filter(|_| source.server != sink.server) {
                    if !self.of_servers.contains_key(&end.server) {
                        let container = remote.get_or_insert_with(|| self.names.take(REMOTE));
                        let reason = format!(
                            "its connections with other servers go through a notification service, which the container {container} names"
                        );
                        report.note(end.element, reason);
                        self.of_servers.insert(end.server.clone(), container.clone());
                    }
                }
            }
        }
        self.containers.extend(remote);
        for instance in instances.all.values_mut() {
            instance.container = self.of_servers.get(&instance.server).cloned();
        }
    }
}

/// An end of a connection that is a port of a component.
fn read_end(endpoint: &Element, instances: &Instances<'_>, report: &mut Report) -> Option<End> {
    report.know(endpoint, &["portName", "provider", "kind", "instance", "instanceRef"], &[]);
    let is_source = match endpoint.text_of("kind") {
        "EventPublisher" | "EventEmitter" => true,
        "EventConsumer" => false,
        kind => {
            let reason = format!(
                "a plan connects no {kind}: remove the connection; a component may find an object by itself, as in a naming service"
            );
            report.refuse(endpoint, reason);
            return None;
        }
    };
    let Some(reference) = endpoint.child("instance").or_else(|| endpoint.child("instanceRef")) else {
        report.refuse(endpoint, "it names no instance: add it");
        return None;
    };
    let place = instances.find(reference, "instance", report)?;
    // Of one that is missing the report has the reason.
    let instance = instances.all.get(&place)?;
    if instance.kind != Kind::Component {
        report.refuse(endpoint, "its instance is no component: connect those");
        return None;
    }
    let port = endpoint.text_of("portName");
    if port.is_empty() || port.len() > PORT_MAX {
        report.refuse(endpoint, format!("its port has no name, or one of more than {PORT_MAX} octets: give one"));
        return None;
    }
    let supplier = format!("{}_{port}", instance.element.text_of("name"));
    Some(End { is_source, instance: place, port: format!("{}.{port}", instance.name), supplier })
}

/// The place of the filter that a connection asks for.
fn read_filter(connection: &Element, service: &Service<'_>, report: &mut Report) -> Result<Option<usize>, ()> {
    let mut requirements = connection.all("deployRequirement");
    let Some(requirement) = requirements.next() else { return Ok(None) };
    report.know(requirement, &["name", "resourceType"], &["property"]);
    let property = requirement.all("property").find(|property| property.text_of("name") == "EventFilter");
    let name = property.and_then(text_of_property).unwrap_or_default();
    let found = service.filter(&name);
    if requirement.text_of("resourceType") != "EventFilter" || found.is_none() || requirements.next().is_some() {
        let reason = format!(
            "{name:?}: a connection has one requirement at most, an EventFilter with the name of a filter of its event service"
        );
        report.refuse(requirement, reason);
        return Err(());
    }
    Ok(found)
}
