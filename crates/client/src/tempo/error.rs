//! Errors, and what is at fault.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tempo::endpoint::Refused;

use super::address::{Address, AddressError};

/// Why something could not be done.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The address is malformed.
    Address(AddressError),
    /// The system does not know an address's host.
    Host {
        /// The address.
        address: Address,
        /// The system's error.
        error: io::Error,
    },
    /// A socket could not be opened.
    Socket {
        /// The socket's address.
        at: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The files for TLS cannot be read.
    Tls(tls::LoadError),
    /// The address demands TLS, and no authorities are configured.
    TlsUnset,
    /// The end point listens with TLS, and has no certificate.
    NoCertificate,
    /// The system lacks a thread, a pipe or randomness.
    System(io::Error),
    /// A setting is out of range.
    Setting {
        /// The setting.
        name: &'static str,
        /// Its valid range.
        range: &'static str,
    },
    /// The end point refused the call.
    Refused(Refused),
    /// There was no room for the message within the waiting time. It was not accepted.
    Full {
        /// The waiting time.
        waited: Duration,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => error.fmt(f),
            Self::Host { address, error } => write!(f, "{address} cannot be found: {error}"),
            Self::Socket { at, error } if error.kind() == io::ErrorKind::AddrInUse => {
                write!(
                    f,
                    "another end point waits at {at} already: leave out the @ to connect to it, or choose another port"
                )
            }
            Self::Socket { at, error } if error.kind() == io::ErrorKind::AddrNotAvailable => {
                write!(f, "{at} is no address of this machine: leave out the @ to connect to it")
            }
            Self::Socket { at, error } => write!(f, "no socket can be had at {at}: {error}"),
            Self::Tls(error) => error.fmt(f),
            Self::TlsUnset => f.write_str("an address tls://… needs the authorities to be trusted: NodeBuilder::tls"),
            Self::NoCertificate => {
                f.write_str("an end point that waits for others with TLS needs a certificate, and its key")
            }
            Self::System(error) => write!(f, "the system does not give what an end point needs: {error}"),
            Self::Setting { name, range } => write!(f, "{name} is to be {range}"),
            Self::Refused(refused) => refused.fmt(f),
            Self::Full { waited } if waited.is_zero() => f.write_str("there is no room for the message now"),
            Self::Full { waited } => write!(f, "there was no room for the message within {waited:?}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Address(error) => Some(error),
            Self::Host { error, .. } | Self::Socket { error, .. } | Self::System(error) => Some(error),
            Self::Tls(error) => Some(error),
            Self::TlsUnset | Self::NoCertificate | Self::Refused(_) | Self::Setting { .. } | Self::Full { .. } => None,
        }
    }
}

impl From<AddressError> for Error {
    fn from(error: AddressError) -> Self {
        Self::Address(error)
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}
