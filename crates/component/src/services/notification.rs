//! A notification service: a channel of it for each source.

use super::{Kind, Opened, Simple, SourceQos, domain_problem};
use crate::plan::ContainerPlan;
use campanile::{Settings, Transport};
use client::notify::Property;
use client::time::ticks_of_duration;
use std::time::Duration;

pub(super) static KIND: Kind = Kind {
    name: "notification",
    is_built: true,
    has_links: true,
    problem: domain_problem,
    set,
    always: &[("PushOneWay", 0)],
    open,
};

/// Sets a property of the channel of that name, in the OMG's type.
pub(super) fn set(of: &mut SourceQos, property: &'static str, value: i64) -> Result<(), &'static str> {
    let beyond = |_| "its value is out of range";
    match property {
        "MaxQueueLength" => of.admin.push(Property::new(property, i32::try_from(value).map_err(beyond)?)),
        "MaxEventsPerConsumer" => of.qos.push(Property::new(property, i32::try_from(value).map_err(beyond)?)),
        "DispatchPriority" => of.qos.push(Property::new(property, u16::try_from(value).map_err(beyond)?)),
        "PushOneWay" if value == 0 => of.is_reset = true,
        "PushOneWay" => of.qos.push(Property::new(property, value != 0)),
        "Timeout" => {
            let timeout = Duration::from_nanos(u64::try_from(value).map_err(beyond)?);
            // 0 would stand for no end.
            of.qos.push(Property::new(property, ticks_of_duration(timeout).max(1)));
        }
        _ => of.qos.push(Property::new(property, i16::try_from(value).map_err(beyond)?)),
    }
    Ok(())
}

pub(super) fn open(container: &ContainerPlan, settings: Settings) -> Opened {
    let server = container.at.clone().unwrap_or_else(|| settings.server.clone());
    Ok(Box::new(Simple::shared(Settings { server, transport: Transport::Notification, ..settings })))
}
