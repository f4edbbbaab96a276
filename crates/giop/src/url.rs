//! Object references that people write: `corbaloc:` and `corbaname:`, beside `IOR:`; `iioploc:`, an older `corbaloc:`, is read.
//!
//! CORBA 3.3 part 2, 7.6.10:
//!
//! ```text
//! corbaloc:ADDRESS[,ADDRESS…][/KEY]          ADDRESS is rir:, [iiop]:[1.MINOR@]HOST[:PORT] or ssliop:…
//! corbaname:ADDRESS[,ADDRESS…][/KEY][#NAME]  the object bound to NAME in the naming context at KEY
//! ```
//!
//! Without a version an address means GIOP 1.0, without a port 2809, without a key (where one is needed) `NameService`. An
//! IPv6 address stands in brackets. Keys and names have `%` and two hexadecimal digits for octets that a URL lacks.

mod parse;

#[cfg(test)]
mod tests;

pub use parse::ParseUrlError;

use crate::cdr::Version;
use crate::ior::{IiopProfile, Ior, Profile, SecureTransport};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A URL in any of the three forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Url {
    /// `IOR:` and digits.
    Ior(Ior),
    /// `corbaloc:`: addresses and a key.
    Corbaloc(Corbaloc),
    /// `corbaname:`: a name in a remote naming context.
    Corbaname {
        /// Location of the naming context.
        location: Corbaloc,
        /// Stringified name (Naming Service 1.3, 2.4), with `\` before what separates its parts; empty for the context itself.
        name: String,
    },
}

/// Writes a form that parses to the same URL.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ior(ior) => ior.fmt(f),
            Self::Corbaloc(location) => location.fmt(f),
            Self::Corbaname { location, name } => {
                f.write_str("corbaname:")?;
                location.write_behind_scheme(f)?;
                if !name.is_empty() {
                    f.write_str("#")?;
                    write_escaped(f, name.as_bytes())?;
                }
                Ok(())
            }
        }
    }
}

/// The location of an object, without its type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Corbaloc {
    /// Servers to try, best first; empty with `rir`.
    pub addresses: Vec<Address>,
    /// Whether `key` names one of the ORB's initial references (`rir:`) instead of an object at the addresses.
    pub rir: bool,
    /// The object key, or the id of the initial reference.
    pub key: Vec<u8>,
}

impl Corbaloc {
    /// Maximum number of addresses.
    pub const ADDRESSES_MAX: usize = 64;

    /// The default key of `corbaname:` and `rir:`.
    pub const DEFAULT_KEY: &'static str = "NameService";

    /// An object at one address.
    #[must_use]
    pub fn new(address: Address, key: impl Into<Vec<u8>>) -> Self {
        Self { addresses: Vec::from([address]), rir: false, key: key.into() }
    }

    /// A reference with one profile for each address; the nil reference for `rir:`, which only an ORB can resolve.
    ///
    /// `type_id` is a repository id or empty, as the URL says nothing of types.
    #[must_use]
    pub fn to_ior(&self, type_id: &str) -> Ior {
        let profile = |address: &Address| {
            let Address { version, host, port, tls } = address;
            let (key, host) = (self.key.clone(), host.clone());
            if !*tls {
                return Profile::Iiop(IiopProfile {
                    version: *version,
                    host,
                    port: *port,
                    key,
                    components: Vec::new(),
                });
            }
            let options = SecureTransport::PROTECTION | SecureTransport::TRUST_IN_TARGET;
            let supports = options | SecureTransport::TRUST_IN_CLIENT;
            let secure = SecureTransport { supports, requires: options, port: *port };
            // A profile of 1.0 has no room for it.
            let version = (*version).max(Version::V1_1);
            Profile::Iiop(IiopProfile { version, host, port: 0, key, components: Vec::from([secure.to_component()]) })
        };
        Ior { type_id: type_id.into(), profiles: self.addresses.iter().map(profile).collect() }
    }

    fn write_behind_scheme(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addresses, rir, key } = self;
        if *rir {
            f.write_str("rir:")?;
        }
        for (index, address) in addresses.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{address}")?;
        }
        if !key.is_empty() {
            f.write_str("/")?;
            write_escaped(f, key)?;
        }
        Ok(())
    }
}

/// Writes a form that parses to the same location.
impl fmt::Display for Corbaloc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("corbaloc:")?;
        self.write_behind_scheme(f)
    }
}

/// One address of a `corbaloc:`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The newest GIOP that the server takes. Default 1.0, as the standard says, in which no wide characters travel.
    pub version: Version,
    /// Host name or address; an IPv6 address is without its brackets.
    pub host: String,
    /// TCP port. Default [`Address::DEFAULT_PORT`].
    pub port: u16,
    /// Whether TLS is spoken there (`ssliop:`), as other ORBs write it; the standard has no such protocol.
    pub tls: bool,
}

impl Address {
    /// The port registered for `corbaloc:`.
    pub const DEFAULT_PORT: u16 = 2809;
}

/// Writes the address with all its parts, as in `iiop:1.2@host:2809` or `ssliop:1.2@host:2809`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, host, port, tls } = self;
        let protocol = if *tls { "ssliop" } else { "iiop" };
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{protocol}:1.{}@{open}{host}{close}:{port}", version.minor())
    }
}

/// Writes octets, escaping those that 7.6.10.5 does not allow.
fn write_escaped(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    for &octet in octets {
        if octet.is_ascii_alphanumeric() || b";/:?@&=+$,-_.!~*'()".contains(&octet) {
            write!(f, "{}", char::from(octet))?;
        } else {
            write!(f, "%{octet:02x}")?;
        }
    }
    Ok(())
}
