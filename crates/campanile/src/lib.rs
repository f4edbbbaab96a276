#![doc = include_str!("../README.md")]
//!
//! # In this crate
//!
//! - [`Supplier`], [`Consumer`] and `#[derive(Event)]`: events as structs.
//! - [`settings`]: settings of suppliers and consumers; saved contexts.
//! - [`raw`]: events as octets with their types, for other languages and for types known only at run time.
//!
//! Elsewhere: CORBA beneath ([`client`]), and the service.

mod channel;
mod constraint;
mod declared;
mod dynamic;
mod error;
mod form;
mod link;
#[cfg(feature = "dds")]
mod peer_to_peer;
mod projection;
mod queue;
pub mod raw;
pub mod settings;
mod start;
mod typed;
mod types;

pub use client::time;
pub use client::{EventNumber, Fate, Gap, Loss, PublisherCounters};
pub use declared::Declared;
pub use derive::Event;
pub use dynamic::Dynamic;
pub use error::{Error, ErrorCode, Mismatch, Trouble, TroubleCode};
pub use giop::typecode::{Kind, TypeCode};
pub use giop::value::Value;
pub use projection::Defaults;
pub use queue::Next;
pub use raw::{CallbackError, PublishOptions};
pub use settings::{EventForm, Settings, SettingsError, TlsSettings, Transport};
pub use start::StartFrom;
pub use typed::{Consumer, Event, EventFilter, EventStream, Events, Field, Publisher, Subscription, Supplier};

/// The library's part of the code that `#[derive(Event)]` writes.
#[doc(hidden)]
pub mod derived {
    pub use crate::typed::field::{Way, at_label, read_label, structure, way_in_structure};
    pub use filter::{Part, Steps, Value as FilterValue};
    pub use giop::cdr::{ReadError, ReadErrorKind, Reader, Writer};
    pub use giop::typecode::TypeCode;
}

// What `#[derive(Event)]` writes names this crate as programs do.
#[cfg(test)]
extern crate self as campanile;
