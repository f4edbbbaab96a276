//! Fields given on the command line, `KEY[:TYPE]=VALUE`, as properties with CORBA types.

use client::notify::Property;

pub(crate) use ::json::read::{from_json, inferred, octets, structure};

/// Reads `KEY=VALUE` or `KEY:TYPE=VALUE`.
pub(crate) fn field(text: &str) -> Result<Property, String> {
    ::json::read::field(text).map(|(name, value)| Property { name, value })
}
