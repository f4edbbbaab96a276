//! The CORBA protocol: object keys, servants, properties, references, exceptions and the naming service.
//!
//! [`Protocol`] is a pure state machine: requests in, replies and effects out. It owns no socket, thread or clock; its caller does, and
//! passes bytes. It translates between the OMG's terms (interfaces, QoS properties, exceptions, object references) and the engine's
//! (commands, settings, refusals, peers).
//!
//! - [`keys`]: the names of objects in requests, parsed without allocation, also on the event path.
//! - [`event`]: events as bytes: forms, encodings, translation between them. For the event path.
//! - [`references`]: references to this service's objects.
//! - [`naming`]: the built-in naming service.
//! - [`conformance`]: the implemented part of the IDL.
//! - The other modules hold the servants, one table for each interface: operation name → handler. `docs/conformance.md`
//!   lists the same tables, and a test holds the two equal.

pub mod conformance;
pub mod event;
pub mod exceptions;
pub mod keys;
pub mod naming;
pub mod protocol;
pub mod references;
mod scheduling;

mod channel_admin;
mod event_service;
mod filters;
mod life_cycle;
pub mod log_lines;
mod monitor;
pub mod near;
mod notify_comm;
mod notify_ext;
mod object;
mod peers;
mod proxy_kind;
mod qos;
mod table;
mod wire;

#[cfg(test)]
mod tests;

pub use exceptions::Exception;
pub use exceptions::{ACCESS_DENIED, ACCESS_MINOR, NO_ROOM, OBJECT_NOT_EXIST, refused_event};
pub use monitor::{ANSWER_BYTES_MAX, ChannelFigures, Monitor};
pub use peers::Peers;
pub use protocol::{
    AT_ONCE_MAX, Access, Act, ActOutcome, AdvertisedName, CALLBACKS_MAX, ChangedPart, ClientAnswer, ClientCall,
    Compatibility, Creations, DURABLE_NAME_BYTES_MAX, DelayedReplies, DelayedReply, Denied, Directory, Effect, FarName,
    FarNames, Federation, Forbidden, Guard, Idle, KeyNumbers, Line, ListedChannel, ListedLocally, Lives, LocalChannel,
    LocalChannels, LocalProxy, NAMES_MAX, NOT_PERMITTED, Names, NotRestored, ObjectRequest, Objects, Offer, Offered,
    Part, Parting, PeerAddress, Probes, Protocol, ProtocolSettings, ProxyNonces, Published, RegisterError,
    RestoredClient, Settable, Subscribed, SupplierStatus, Unpublished,
};
pub use qos::{Declared, START_FROM_RANGE, correlation, dead_letter_channels, parse_time, start_from};
pub use scheduling::{ANALYSE, analyse_apart, is_scheduling_service};
pub use topology::{Image, Link as AddedLink, Part as StoredPart};
