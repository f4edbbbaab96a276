//! The edge between a server and components in shared objects, in any language that has C's calls.
//!
//! A shared object exports one table ([`abi::Table`]) that describes its components. [`host`] loads it, checks it, and calls it; [`foreign`]
//! makes components of a server of that; [`export`] makes such a table of components in Rust, so that what two compilers of Rust do
//! differently does not matter. The module of Python makes a table of the classes in a file.
//!
//! An event crosses as octets in CDR, which are not copied on the way from a source to the sinks of its lane. Between components in Rust of
//! one object it crosses as a reference, and is not serialised, unless the sink has a queue or a filter.
//!
//! What the server promises to an object, and the object to the server, stands in `include/campanile_component.h`. The unsafe code relies on
//! the latter: pointers of the table are valid for as long as the process, those of a call until it returns.
#![expect(unsafe_code, reason = "the other side of the edge is C")]

pub mod abi;
pub mod export;
pub(crate) mod foreign;
pub(crate) mod host;

use giop::cdr::{CharSet, Encoding, Endian, Version};
use std::ffi::CString;

pub use foreign::{MakeTable, describe_file, serve_files};

/// The encoding of values at the edge: this processor's byte order, aligned as in GIOP 1.2 from position 0 on, in UTF-8.
pub(crate) const NATIVE: Encoding = Encoding { endian: Endian::NATIVE, version: Version::V1_2, chars: CharSet::Utf8 };

/// Makes a text for C; zero octets are replaced.
fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| CString::new(text.replace('\0', "\u{FFFD}")).unwrap_or_default())
}
