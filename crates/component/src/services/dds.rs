//! DDS, from server to server: for each source a partition of its name, with a topic of its type's.

use super::qos::{BEST_EFFORT, FIFO};
use super::{Kind, Simple, SourceQos};
use crate::plan::ContainerPlan;
use campanile::settings::DDS_DOMAIN_MAX;
use campanile::{Settings, Transport};
use std::net::IpAddr;

pub(super) static KIND: Kind = Kind {
    name: "dds",
    is_built: cfg!(feature = "dds"),
    has_links: false,
    problem: |container| {
        let has_no_host = |at: &&String| at.split(',').any(|host| host.trim().is_empty());
        if let Some(at) = container.at.as_ref().filter(has_no_host) {
            return Some(format!(
                "at is {at:?}: give the servers' hosts, with commas between, or nothing for multicast"
            ));
        }
        let domain = container.domain.filter(|domain| *domain > DDS_DOMAIN_MAX)?;
        Some(format!("domain is {domain}: give 0 to {DDS_DOMAIN_MAX}"))
    },
    set,
    always: &[],
    open: |container, settings| Ok(Box::new(Simple::shared(joining(container, settings)))),
};

/// The settings with a container's keys.
fn joining(container: &ContainerPlan, mut settings: Settings) -> Settings {
    let dds = &mut settings.dds;
    if let Some(domain) = container.domain {
        dds.domain_default = domain;
        dds.domains.clear();
    }
    if let Some(at) = &container.at {
        dds.peers = at.split(',').map(|host| host.trim().to_owned()).collect();
        // What is to reach only this machine is not sent elsewhere; otherwise the settings say by which interface.
        let loopback = |host: &String| {
            let host = if host.eq_ignore_ascii_case("localhost") { "127.0.0.1" } else { host };
            host.parse().ok().filter(IpAddr::is_loopback)
        };
        if let Some([first, ..]) = dds.peers.iter().map(loopback).collect::<Option<Vec<_>>>().as_deref() {
            dds.interface = Some(first.to_string());
        }
    }
    Settings { transport: Transport::Dds, ..settings }
}

/// What writers have for a property.
fn set(qos: &mut SourceQos, property: &'static str, value: i64) -> Result<(), &'static str> {
    match property {
        "EventReliability" | "ConnectionReliability" if value == BEST_EFFORT => {}
        "EventReliability" | "ConnectionReliability" => {
            return Err("what was not taken ends with its writer, as with BestEffort");
        }
        "MaxEventsPerConsumer" => qos.history_depth = u32::try_from(value).ok(),
        "Priority" => qos.transport_priority = i32::try_from(value).ok(),
        "Timeout" => {
            let ms = u32::try_from(value.saturating_add(999_999) / 1_000_000);
            qos.lifespan_ms = Some(ms.map_err(|_| "a lifespan is 49 days at most; without it events stay")?);
        }
        "OrderPolicy" | "DiscardPolicy" if value <= FIFO => {}
        "OrderPolicy" => return Err("it keeps the order in which events were sent; the sinks' `qos` can have this"),
        "DiscardPolicy" => {
            return Err("with MaxEventsPerConsumer it keeps the latest, as with Fifo; the sinks' `qos` can have this");
        }
        "DispatchPriority" => return Err("it has Priority, the transport priority of all events of a source"),
        _ => return Err("it has MaxEventsPerConsumer, the history that a writer keeps for each reader"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_interface_gives_way_to_loopback_only() {
        for (at, expected) in [
            (Some("tower, dome"), "eth1"),
            (Some("tower, 127.0.0.1"), "eth1"),
            (None, "eth1"),
            (Some("localhost"), "127.0.0.1"),
            (Some("127.0.0.2, localhost"), "127.0.0.2"),
            (Some("::1"), "::1"),
        ] {
            let mut settings = Settings::default();
            settings.dds.interface = Some("eth1".to_owned());
            let container = ContainerPlan { at: at.map(str::to_owned), ..ContainerPlan::default() };
            let settings = joining(&container, settings);
            assert_eq!(settings.dds.interface.as_deref(), Some(expected), "{at:?}");
        }
    }

    #[test]
    fn writers_have_the_quality_of_service_of_their_container() {
        let container = "service = \"dds\"\nqos = { MaxEventsPerConsumer = 5, Priority = -3, Timeout = \"1500us\" }";
        let container: ContainerPlan = toml::from_str(container).unwrap();
        let qos = container.service.unwrap().source_qos(&container).unwrap();
        let dds = Simple::shared(joining(&container, Settings::default())).of_writers(&qos).dds;
        assert_eq!((dds.history_depth, dds.priority, dds.lifespan_ms), (5, -3, 2), "a lifespan is rounded up");
        let dds = Simple::shared(Settings::default()).of_writers(&SourceQos::default()).dds;
        assert_eq!(dds, Settings::default().dds);
    }
}
