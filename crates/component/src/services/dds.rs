//! DDS, from server to server: for each source a partition of its name, with a topic of its type's.

use super::qos::{BEST_EFFORT, FIFO};
use super::{Kind, Simple, SourceQos};
use campanile::settings::DDS_DOMAIN_MAX;
use campanile::{Settings, Transport};
use std::net::IpAddr;

pub(super) static KIND: Kind = Kind {
    name: "dds",
    is_built: cfg!(feature = "dds"),
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
    open: |container, mut settings| {
        let dds = &mut settings.dds;
        if let Some(domain) = container.domain {
            dds.domain_default = domain;
            dds.domains.clear();
        }
        if let Some(at) = &container.at {
            dds.peers = at.split(',').map(|host| host.trim().to_owned()).collect();
            // What is to reach only this machine is not sent elsewhere.
            let is_loopback = |host: &String| host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
            dds.interface = dds.peers.iter().all(is_loopback).then(|| dds.peers.first().cloned()).flatten();
        }
        Ok(Box::new(Simple::shared(Settings { transport: Transport::Dds, ..settings })))
    },
};

/// What writers have for a property.
fn set(qos: &mut SourceQos, property: &'static str, value: i64) -> Result<(), &'static str> {
    match property {
        "EventReliability" | "ConnectionReliability" if value == BEST_EFFORT => {}
        "EventReliability" | "ConnectionReliability" => {
            return Err("what was not taken ends with its writer, as with BestEffort");
        }
        "MaxEventsPerConsumer" => qos.history_depth = u32::try_from(value).ok(),
        "Priority" => qos.transport_priority = i32::try_from(value).ok(),
        "Timeout" => qos.lifespan_ms = u32::try_from(value.saturating_add(999_999) / 1_000_000).ok(),
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
