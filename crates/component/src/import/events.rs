//! CIAO's events descriptor: event services, their filters, and what federates them.

use super::report::Report;
use super::xml::Element;
use std::collections::{BTreeMap, BTreeSet};

/// A filter of a service: a consumer gets the events of these sources.
pub(super) struct Filter<'d> {
    element: &'d Element,
}

impl<'d> Filter<'d> {
    /// Suppliers, as `INSTANCE_PORT`, each of whose events a consumer gets. Of a filter that nothing uses there are none.
    pub(super) fn sources(&self, is_used: bool, report: &mut Report) -> impl Iterator<Item = &'d Element> + use<'d> {
        let element = self.element;
        let count = element.all("source").count();
        match element.text_of("type") {
            _ if !is_used => report.leave_out(element, "no connection names it"),
            "DISJUNCTION" | "CONJUNCTION" if count == 0 => report.refuse(element, "it has no source: name a publisher"),
            "DISJUNCTION" => {}
            "CONJUNCTION" if count == 1 => {}
            "CONJUNCTION" => {
                let reason =
                    "no port waits for events of all its sources: write DISJUNCTION, and have the component wait";
                report.refuse(element, reason);
            }
            other => {
                report.refuse(element, format!("{other:?} is not understood: write DISJUNCTION, or remove it"));
            }
        }
        element.all("source").filter(move |_| is_used)
    }
}

/// An event service, which is a channel.
pub(super) struct Service<'d> {
    pub(super) element: &'d Element,
    pub(super) filters: Vec<Filter<'d>>,
    /// Places of filters, by their names and ids.
    places: BTreeMap<&'d str, usize>,
}

impl<'d> Service<'d> {
    pub(super) fn name(&self) -> &'d str {
        self.element.text_of("name")
    }

    /// The place of a filter that a plan names so.
    pub(super) fn filter(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }
}

/// The services of a descriptor.
pub(super) fn read<'d>(root: &'d Element, report: &mut Report) -> Vec<Service<'d>> {
    if root.local_name() != "CIAOEvents" {
        report.refuse(root, "it is no events descriptor: its first element is CIAO:CIAOEvents");
        return Vec::new();
    }
    report.know(root, &[], &["eventServiceConfiguration"]);
    let services: Vec<_> = root.all("eventServiceConfiguration").map(|element| read_service(element, report)).collect();
    let mut names = BTreeSet::from([""]);
    for service in &services {
        if !names.insert(service.name()) {
            report.refuse(service.element, "it has no name, or that of another one: give it one of its own");
        }
    }
    services
}

fn read_service<'d>(element: &'d Element, report: &mut Report) -> Service<'d> {
    let once = ["name", "node", "type", "svc_cfg_file"];
    report.know(element, &once, &["filter", "addr_serv", "udp_sender", "udp_receiver"]);
    let kind = element.text_of("type");
    if !["EC", "RTEC", "NOTIFY", "RTNOTIFY"].contains(&kind) {
        report.refuse(element, format!("its type is {kind:?}: EC, RTEC, NOTIFY and RTNOTIFY are known"));
    }
    for left_out in ["node", "svc_cfg_file", "addr_serv"].iter().flat_map(|name| element.all(name)) {
        match &*left_out.name {
            "node" => report.leave_out(left_out, "`at` of the container says where the notification service is"),
            "svc_cfg_file" => report.leave_out(left_out, "the notification service has a configuration of its own"),
            _ => report.leave_out(left_out, "nothing is sent to it"),
        }
    }
    for link in ["udp_sender", "udp_receiver"].iter().flat_map(|name| element.all(name)) {
        let reason = "a plan federates no event services: connect the ports to one service, and remove this; or link the notification \
                      services of both machines, which campanile link does";
        report.refuse(link, reason);
    }
    let filters: Vec<_> = element.all("filter").map(|element| Filter { element }).collect();
    let mut places = BTreeMap::new();
    for (place, Filter { element }) in filters.iter().enumerate() {
        report.know(element, &["name", "type"], &["source"]);
        let name = Some(element.text_of("name")).filter(|name| !name.is_empty());
        for name in name.into_iter().chain(element.id.as_deref()) {
            if places.insert(name, place).is_some_and(|other| other != place) {
                report.refuse(element, format!("a second filter is called {name}: rename one"));
            }
        }
    }
    Service { element, filters, places }
}
