//! Lines of JSON as a protocol for events, and CORBA's values as JSON.
//!
//! A client sends requests, each a JSON object in a line of its own, and is sent answers and events in the same way:
//!
//! ```text
//! → {"op":"subscribe","id":1,"channel":0,"types":["Weather/*"],"where":"$speed > 10"}
//! ← {"ok":1}
//! → {"op":"publish","id":2,"type":"Weather/Wind","fields":{"speed":12.5}}
//! ← {"ok":2}
//! ← {"event":{"channel":0,"type":"Weather/Wind","name":"","fields":{"speed":12.5},"body":null}}
//! ```
//!
//! [`Session`] is one connection without its socket: it takes the bytes that arrived and returns requests. [`answer`] writes answers, and
//! [`event::write`] events. The crate has no socket, clock or thread.
//!
//! A client's input is checked against [`Limits`] before it is parsed: octets of a line, values, nesting. Parsing takes time and memory in
//! proportion to that.
//!
//! - [`strict`]: text as JSON without loss. [`typed`]: JSON as values of given types.
//! - [`read`]: JSON as CORBA's values; [`write`]: CORBA's values as JSON. `campanile pub` and `campanile sub --json` use the
//!   same.
#![no_std]

extern crate alloc;

pub mod answer;
pub mod body;
pub mod event;
pub mod read;
pub mod request;
pub mod session;
pub mod strict;
pub mod time;
pub mod typed;
pub mod write;

mod lines;
mod shape;

pub use request::{ChannelRef, Publish, Refused, Request, Subscribe};
pub use session::{Heard, Limits, Session};
