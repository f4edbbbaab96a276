//! What of the IDL is done, straight from the tables that answer requests.
//!
//! `docs/conformance.md` says the same for people, with reasons; a test holds the two equal.

use super::table::{Answer, Interface};
use super::{admins, channel, event_service, factory, filters, naming, notify_comm, object, proxies, qos};

/// How far an operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As the standard says.
    Done,
    /// As the standard says, but for arguments or effects that need what is not there yet.
    InPart,
    /// Answered with `NO_IMPLEMENT`, or belongs to objects that cannot be made yet.
    NotYet,
}

/// One operation of one interface. An attribute is an operation `_get_…` and, where it can be written, `_set_…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationStatus {
    /// Scoped name of the interface that declares it.
    pub interface: &'static str,
    /// Its name on the wire.
    pub operation: &'static str,
    /// How far it is done.
    pub status: Status,
}

/// All interfaces, module by module, in the order of their IDL: scoped name and repository id.
pub fn interfaces() -> impl Iterator<Item = (&'static str, &'static str)> {
    all().map(|interface| (interface.name, interface.id))
}

/// All operations of all interfaces, in the order of their IDL.
pub fn operations() -> impl Iterator<Item = OperationStatus> {
    all().flat_map(|interface| {
        interface.operations.iter().map(|operation| OperationStatus {
            interface: interface.name,
            operation: operation.name,
            status: match operation.answer {
                Answer::Done(_) => Status::Done,
                Answer::InPart(_) => Status::InPart,
                Answer::NotYet => Status::NotYet,
            },
        })
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
    proxies::ALL,
    &[&admins::CONSUMER_ADMIN, &admins::SUPPLIER_ADMIN, &channel::EVENT_CHANNEL, &factory::EVENT_CHANNEL_FACTORY],
    naming::ALL,
    filters::OWN,
];
