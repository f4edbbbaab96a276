//! The CORBA wire: CDR, GIOP 1.0 to 1.2, object references, URLs, code sets, `TypeCode` and lazily read `Any`.
//!
//! Nothing here owns a socket, a clock or a thread. Readers are handed bytes and borrow from them; writers append to a buffer that belongs
//! to the caller. Everything that a peer can make large is limited, and exceeding a limit is an error that names it.
//!
//! - [`cdr`]: the transfer syntax: primitive values, strings, encapsulations, alignment.
//! - [`message`]: the eight messages of GIOP, parsed in place and written in place.
//! - [`framing`]: the receiving side of one connection: bytes in, whole messages out, fragments put together.
//! - [`connection`]: one connection: pending replies, permitted messages, its end.
//! - [`ior`], [`url`]: references to objects.
//! - [`codeset`]: the code sets of a connection.
//! - [`realtime`]: Real-time CORBA's priorities, beside requests and in references.
//! - [`exception`]: the standard's system exceptions.
//! - [`typecode`], [`value`], [`recode`]: values that carry their type.
//! - [`cursor`]: one value within an `Any`, reached without reading the rest.
#![no_std]
extern crate alloc;

pub mod bidirectional;
pub mod cdr;
pub mod client_name;
pub mod codeset;
pub mod connection;
pub mod cursor;
pub mod exception;
pub mod framing;
pub mod ior;
pub mod message;
pub mod realtime;
pub mod recode;
pub mod typecode;
pub mod url;
pub mod value;
