//! The implemented part of the IDL, from the tables that answer requests.
//!
//! `docs/conformance.md` lists the same for people, with reasons; a test holds the two equal.

use super::table::{Interface, Operation};
use super::{
    channel_admin, event_service, filters, life_cycle, monitor, naming, notify_comm, notify_ext, object, qos,
    scheduling,
};

/// One operation of one interface. An attribute is an operation `_get_…` and, if writable, `_set_…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationDone {
    /// Scoped name of the interface that declares the operation.
    pub interface: &'static str,
    /// The operation's name on the wire.
    pub operation: &'static str,
}

/// All interfaces, module by module, in the order of their IDL: scoped name and repository id.
pub fn interfaces() -> impl Iterator<Item = (&'static str, &'static str)> {
    all().map(|interface| (interface.name, interface.id))
}

/// All operations of all interfaces, in the order of their IDL.
pub fn operations() -> impl Iterator<Item = OperationDone> {
    all().flat_map(|interface| {
        let done =
            |operation: &'static Operation| OperationDone { interface: interface.name, operation: operation.name };
        interface.operations.iter().map(done)
    })
}

fn all() -> impl Iterator<Item = &'static Interface> {
    MODULES.iter().copied().flatten().copied()
}

static MODULES: &[&[&Interface]] = &[
    &[&object::OBJECT],
    qos::ALL,
    event_service::ALL_COMM,
    event_service::ALL_CHANNEL_ADMIN,
    notify_comm::ALL,
    filters::ALL,
    channel_admin::ALL,
    &[
        &channel_admin::CONSUMER_ADMIN,
        &channel_admin::SUPPLIER_ADMIN,
        &channel_admin::EVENT_CHANNEL,
        &channel_admin::EVENT_CHANNEL_FACTORY,
    ],
    naming::ALL,
    &[&life_cycle::GENERIC_FACTORY],
    notify_ext::FACTORIES,
    &[&channel_admin::NOTIFY_EXT_CONSUMER_ADMIN, &channel_admin::NOTIFY_EXT_SUPPLIER_ADMIN],
    notify_ext::MONITORING,
    &[&monitor::MONITOR_CONTROL],
    filters::EXT,
    filters::OWN,
    &[&scheduling::SCHEDULING_SERVICE],
];
