//! The CORBA door: object keys, servants, properties, references, exceptions and the naming service.
//!
//! [`Door`] is a pure state machine: requests in, replies and effects out. It owns no socket, thread or clock; its caller
//! does, and hands it bytes. It translates between the OMG's terms (interfaces, QoS properties, exceptions, object
//! references) and the engine's (commands, settings, refusals, peers).
//!
//! - [`keys`]: how a request names an object, readable without allocation on the event path too.
//! - [`event`]: events as bytes: forms, encodings, translation between them. For the event path.
//! - [`references`]: references to this service's objects.
//! - [`naming`]: the built-in naming service.
//! - [`conformance`]: what of the IDL is done.
//! - The other modules hold the servants, one table for each interface: operation name → handler. `docs/conformance.md`
//!   lists the same tables, and a test holds the two equal.

pub mod conformance;
pub mod door;
pub mod event;
pub mod exceptions;
pub mod keys;
pub mod naming;
pub mod references;
mod scheduling;

mod admins;
mod channel;
mod event_service;
mod factory;
mod filters;
mod life_cycle;
mod monitor;
mod notify_comm;
mod notify_ext;
mod object;
mod peers;
mod proxies;
mod proxy_kind;
mod qos;
pub mod remarks;
mod table;
mod wire;

#[cfg(test)]
mod tests;

pub use door::{
    AT_ONCE_MAX, Access, Act, ActOutcome, CALLBACKS_MAX, ChangedPart, ClientAnswer, Compatibility, Creations, Denied,
    Directory, Door, DoorSettings, Effect, Farewell, Forbidden, Guest, KeyNumbers, Line, ListedChannel, NotRestored,
    ObjectRequest, Part, Parting, PeerAddress, ProxyNonces, Published, Question, RestoredStanding, Settable,
    SupplierStanding, Unpublished, Unwelcome,
};
pub use exceptions::Exception;
pub use exceptions::{ACCESS_DENIED, ACCESS_MINOR, NO_ROOM, OBJECT_NOT_EXIST, refused_event};
pub use monitor::{ANSWER_BYTES_MAX, ChannelFigures};
pub use peers::Peers;
pub use qos::{Declared, START_FROM_RANGE, dead_letter_channels, start_from};
pub use scheduling::{ANALYSE, analyse_apart, is_scheduling_service};
pub use topology::{Image, Part as KeptPart};
