//! Connections of the OMG's flattened deployment plan: of ports with each other, and with the event services of CIAO's events descriptor.

use super::instances::{Instance, Instances, Kind};
use super::value::text_of_property;
use super::xml::Element;
use super::{Report, too_large};
use crate::plan::PLAN_BYTES_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// What old CIAO has before the kinds of ports that are connected with an event service.
const KIND_PREFIXES: [&str; 3] = ["rtec", "ec", "ns"];

/// One end of a connection.
struct End<'d> {
    connection: &'d Element,
    is_source: bool,
    instance: &'d Instance<'d>,
    /// As `instance.port`.
    port: String,
    /// As filters name it.
    supplier: String,
}

/// An event service, which is a channel.
struct Service<'d> {
    element: &'d Element,
    filters: Vec<&'d Element>,
    /// Places of filters, by their names and ids.
    places: BTreeMap<&'d str, usize>,
    publishers: Vec<End<'d>>,
    /// By the places of their filters.
    consumers: BTreeMap<Option<usize>, Vec<End<'d>>>,
}

impl Service<'_> {
    /// The service of plans that is most like it.
    fn kind(&self) -> &'static str {
        if self.element.text_of("type") == "RTEC" { "rtes" } else { "notification" }
    }
}

/// The connections of a plan.
#[derive(Default)]
pub(super) struct Connections<'d> {
    octets: usize,
    /// Sinks of each source.
    pub(super) all: BTreeMap<String, BTreeSet<String>>,
    /// The container of all instances of a server that is connected with others. It is called as its service.
    pub(super) containers: BTreeMap<&'d str, &'static str>,
    /// The servers with which a server is connected.
    neighbours: BTreeMap<&'d str, BTreeSet<&'d str>>,
    /// Servers that event services connect with others, by the service of plans.
    served: BTreeMap<&'static str, BTreeSet<&'d str>>,
}

impl<'d> Connections<'d> {
    pub(super) fn read(
        root: &'d Element,
        events: Option<&'d Element>,
        instances: &'d Instances<'d>,
        report: &mut Report,
    ) -> Self {
        let mut read = Self::default();
        let mut services = events.map(|root| read_services(root, report)).unwrap_or_default();
        for connection in root.all("connection") {
            let Some((end, reference)) = read.read_connection(connection, instances, report) else { continue };
            let location = reference.text_of("location");
            let Some(service) = services.get_mut(location) else {
                let reason = "is no event service of the descriptor that --events names: correct it";
                report.refuse(reference, format_args!("{location:?} {reason}"));
                continue;
            };
            match (end.is_source, read_filter(connection, service, report)) {
                (_, Err(())) => {}
                (false, Ok(filter)) => service.consumers.entry(filter).or_default().push(end),
                (true, Ok(None)) => service.publishers.push(end),
                (true, Ok(Some(_))) => report.refuse(connection, "a publisher has no filter: give it to the consumers"),
            }
        }
        let joined: Vec<_> = services.values().map(|service| (service, read.join(service, report))).collect();
        read.place_containers();
        for (service, server) in joined {
            let container = server.and_then(|server| read.containers.get(server));
            let (element, of, kind) = (service.element, service.element.text_of("type"), service.kind());
            match container {
                _ if service.publishers.is_empty() && service.consumers.is_empty() => {
                    report.leave_out(element, "nothing is connected with it");
                }
                None => report.leave_out(element, "it connects no two servers, and components of one call each other"),
                Some(container) if *container == kind => {
                    report.note(element, format_args!("{of} is the service {kind} here, of the container {container}"));
                }
                Some(container) => {
                    let reason = "since a server has one service, and one of its servers has that";
                    report
                        .note(element, format_args!("{of} is the service {container} here, and not {kind}, {reason}"));
                }
            }
        }
        read
    }

    /// Connects two ports, or answers the one that is connected with an event service, and which.
    fn read_connection(
        &mut self,
        connection: &'d Element,
        instances: &'d Instances<'d>,
        report: &mut Report,
    ) -> Option<(End<'d>, &'d Element)> {
        let many =
            ["deployRequirement", "externalEndpoint", "internalEndpoint", "externalReference", "deployedResource"];
        report.know(connection, &["name", "source"], &many);
        let reason = "a plan has neither ports of its own nor resources: connect instances, and remove this";
        report.refuse_all(connection, &["externalEndpoint", "deployedResource"], reason);
        // What is wrong with an end is in the report.
        let endpoints = connection.all("internalEndpoint");
        let ends = endpoints.map(|endpoint| read_end(connection, endpoint, instances, report));
        let mut ends: Vec<End<'_>> = ends.collect::<Option<_>>()?;
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
                self.connect(&source, &sink, None, report);
            }
            _ => {
                let reason =
                    "connected are a publisher and a consumer, or one of both and an event service: correct it";
                report.refuse(connection, reason);
            }
        }
        None
    }

    /// Connects the publishers of an event service with its consumers, as far as their filters let events through. The answer is a server
    /// that it connects with another.
    fn join(&mut self, service: &Service<'d>, report: &mut Report) -> Option<&'d str> {
        // `None` is that of two ports.
        let mut suppliers = BTreeMap::<&str, Option<&End<'_>>>::new();
        for publisher in &service.publishers {
            let same = suppliers.entry(&publisher.supplier).or_insert(Some(publisher));
            if same.is_some_and(|other| other.port != publisher.port) {
                *same = None;
            }
        }
        let mut pairs: Vec<(Vec<&End<'_>>, &[End<'_>])> = Vec::new();
        if let Some(consumers) = service.consumers.get(&None) {
            pairs.push((service.publishers.iter().collect(), consumers));
        }
        for (place, filter) in service.filters.iter().enumerate() {
            match service.consumers.get(&Some(place)) {
                None => report.leave_out(filter, "no connection names it"),
                Some(consumers) => pairs.push((filtered(filter, &suppliers, report), consumers)),
            }
        }
        let (mut remote, mut heard) = (None, BTreeSet::new());
        for (publishers, consumers) in pairs {
            if publishers.is_empty() {
                for consumer in consumers {
                    report.leave_out(consumer.connection, "no publisher is connected with its event service");
                }
            }
            heard.extend(publishers.iter().map(|publisher| &*publisher.port));
            for (consumer, publisher) in consumers.iter().flat_map(|it| publishers.iter().map(move |of| (it, of))) {
                if !self.connect(publisher, consumer, Some(service.kind()), report) {
                    return remote;
                }
                let server = &*publisher.instance.server;
                remote = remote.or((server != consumer.instance.server).then_some(server));
            }
        }
        for publisher in service.publishers.iter().filter(|it| !heard.contains(&*it.port)) {
            report.leave_out(publisher.connection, "no consumer of its event service gets the events");
        }
        remote
    }

    /// Connects two ports, if there is room: as many octets as a plan may have bound what is made.
    fn connect(
        &mut self,
        source: &End<'d>,
        sink: &End<'d>,
        service: Option<&'static str>,
        report: &mut Report,
    ) -> bool {
        let had_room = self.octets <= PLAN_BYTES_MAX;
        // With quotes, comma and space, as in the plan.
        self.octets = self.octets.saturating_add(sink.port.len() + 4);
        if self.octets > PLAN_BYTES_MAX {
            if had_room {
                report.refuse(sink.connection, too_large());
            }
            return false;
        }
        let is_new = self.all.entry(source.port.clone()).or_default().insert(sink.port.clone());
        if !is_new {
            let reason = format_args!("{} and {} are connected already, and once in the plan", source.port, sink.port);
            report.note(sink.connection, reason);
        }
        let (from, to) = (&*source.instance.server, &*sink.instance.server);
        if from != to {
            self.neighbours.entry(from).or_default().insert(to);
            self.neighbours.entry(to).or_default().insert(from);
            match service {
                Some(service) => drop(self.served.entry(service).or_default().insert(from)),
                None if is_new => report.note(
                    sink.connection,
                    "it is between two servers, so that its events go through the service of their containers",
                ),
                None => {}
            }
        }
        true
    }

    /// Gives each server that is connected with others a container, and all that are connected the same service: one other than rtes, if
    /// any of them has one.
    fn place_containers(&mut self) {
        let mut served = |service| self.served.remove(service).unwrap_or_default();
        let (reliable, real_time) = (served("notification"), served("rtes"));
        let rest = self.neighbours.keys().copied().collect();
        for (service, servers) in [("notification", reliable), ("rtes", real_time), ("notification", rest)] {
            let mut open: Vec<&str> = servers.into_iter().collect();
            while let Some(server) = open.pop() {
                if self.containers.contains_key(server) {
                    continue;
                }
                self.containers.insert(server, service);
                open.extend(self.neighbours.get(server).into_iter().flatten());
            }
        }
    }
}

/// The publishers that a filter lets through.
fn filtered<'s, 'd>(
    filter: &Element,
    suppliers: &BTreeMap<&str, Option<&'s End<'d>>>,
    report: &mut Report,
) -> Vec<&'s End<'d>> {
    let count = filter.all("source").count();
    match filter.text_of("type") {
        "DISJUNCTION" | "CONJUNCTION" if count == 0 => report.refuse(filter, "it has no source: name a publisher"),
        "DISJUNCTION" => {}
        "CONJUNCTION" if count == 1 => {}
        "CONJUNCTION" => {
            let reason = "no port waits for events of all its sources: write DISJUNCTION, and have the component wait";
            report.refuse(filter, reason);
        }
        other => report.refuse(filter, format_args!("{other:?} is not understood: write DISJUNCTION, or remove it")),
    }
    let mut publishers = Vec::new();
    for source in filter.all("source") {
        match suppliers.get(source.text()) {
            Some(Some(publisher)) => publishers.push(*publisher),
            Some(None) => report.refuse(source, "two publishers have this name: rename an instance"),
            None => {
                let reason =
                    "no publisher of this name, INSTANCE_PORT, is connected with the event service: correct it";
                report.refuse(source, reason);
            }
        }
    }
    publishers
}

/// An end of a connection that is a port of a component.
fn read_end<'d>(
    connection: &'d Element,
    endpoint: &Element,
    instances: &'d Instances<'d>,
    report: &mut Report,
) -> Option<End<'d>> {
    report.know(endpoint, &["portName", "provider", "kind", "instance", "instanceRef"], &[]);
    let kind = endpoint.text_of("kind");
    let is_source = match KIND_PREFIXES.iter().find_map(|prefix| kind.strip_prefix(prefix)).unwrap_or(kind) {
        "EventPublisher" | "EventEmitter" => true,
        "EventConsumer" => false,
        _ => {
            let reason = "connects EventPublisher and EventEmitter with EventConsumer, each also after rtec, ec or ns: remove the connection; \
                          a component may find an object by itself, as in a naming service";
            report.refuse(endpoint, format_args!("its kind is {kind:?}, and a plan {reason}"));
            return None;
        }
    };
    let Some(reference) = endpoint.child("instance").or_else(|| endpoint.child("instanceRef")) else {
        report.refuse(endpoint, "it names no instance: add it");
        return None;
    };
    // Of one that is missing the report has the reason.
    let instance = instances.all.get(&instances.find(reference, "instance", report)?)?;
    let port = endpoint.text_of("portName");
    if instance.kind != Kind::Component || port.is_empty() {
        report.refuse(endpoint, "its instance is no component, or its port has no name: connect ports of components");
        return None;
    }
    let supplier = format!("{}_{port}", instance.element.text_of("name"));
    Some(End { connection, is_source, instance, port: format!("{}.{port}", instance.name), supplier })
}

/// The place of the filter that a connection asks for.
fn read_filter(connection: &Element, service: &Service<'_>, report: &mut Report) -> Result<Option<usize>, ()> {
    let mut requirements = connection.all("deployRequirement");
    let Some(requirement) = requirements.next() else { return Ok(None) };
    report.know(requirement, &["name", "resourceType", "value"], &["property"]);
    // Old CIAO has the value in the requirement itself.
    let property = match requirement.text_of("resourceType") {
        "EventFilter" => requirement.all("property").find(|property| property.text_of("name") == "EventFilter"),
        "" if requirement.text_of("name") == "filter" => Some(requirement),
        _ => None,
    };
    let name = property.and_then(text_of_property).unwrap_or_default();
    match (service.places.get(&*name), requirements.next()) {
        (Some(place), None) => Ok(Some(*place)),
        _ => {
            let reason = "is no filter of its event service: a connection has one requirement at most, with the name filter, and as its \
                          value a string, the filter's name or id; or of resourceType EventFilter, with such a property EventFilter";
            report.refuse(requirement, format_args!("{name:?} {reason}"));
            Err(())
        }
    }
}

/// The services of an events descriptor, by their names.
fn read_services<'d>(root: &'d Element, report: &mut Report) -> BTreeMap<&'d str, Service<'d>> {
    let mut services = BTreeMap::new();
    if root.local_name() != "CIAOEvents" {
        report.refuse(root, "it is no events descriptor: its first element is CIAO:CIAOEvents");
        return services;
    }
    report.know(root, &[], &["eventServiceConfiguration"]);
    for element in root.all("eventServiceConfiguration") {
        let name = element.text_of("name");
        if services.insert(name, read_service(element, report)).is_some() || name.is_empty() {
            report.refuse(element, "it has no name, or that of another one: give it one of its own");
        }
    }
    services
}

fn read_service<'d>(element: &'d Element, report: &mut Report) -> Service<'d> {
    let once = ["name", "node", "type", "svc_cfg_file"];
    report.know(element, &once, &["filter", "addr_serv", "udp_sender", "udp_receiver"]);
    let kind = element.text_of("type");
    if !["EC", "RTEC", "NOTIFY", "RTNOTIFY"].contains(&kind) {
        report.refuse(element, format_args!("its type is {kind:?}: EC, RTEC, NOTIFY and RTNOTIFY are known"));
    }
    for (name, reason) in [
        ("node", "`at` of the container says where the notification service is"),
        ("svc_cfg_file", "the notification service has a configuration of its own"),
        ("addr_serv", "nothing is sent to it"),
    ] {
        for left_out in element.all(name) {
            report.leave_out(left_out, reason);
        }
    }
    let reason = "a plan federates no event services: connect the ports to one service, and remove this; or link the notification services \
                  of both machines, which campanile link does";
    report.refuse_all(element, &["udp_sender", "udp_receiver"], reason);
    let filters: Vec<_> = element.all("filter").collect();
    let mut places = BTreeMap::new();
    for (place, filter) in filters.iter().enumerate() {
        report.know(filter, &["name", "type"], &["source"]);
        let name = Some(filter.text_of("name")).filter(|name| !name.is_empty());
        for name in name.into_iter().chain(filter.id.as_deref()) {
            if places.insert(name, place).is_some_and(|other| other != place) {
                report.refuse(filter, format_args!("a second filter is called {name}: rename one"));
            }
        }
    }
    Service { element, filters, places, publishers: Vec::new(), consumers: BTreeMap::new() }
}
