//! What can go wrong, and what is at fault.

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
    /// An address is written in another way.
    Address(AddressError),
    /// The system does not know an address's host.
    Host {
        /// The address.
        address: Address,
        /// What the system says.
        error: io::Error,
    },
    /// A socket could not be had.
    Socket {
        /// What it was for.
        at: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// What TLS is to be made with cannot be read.
    Tls(tls::LoadError),
    /// An address says TLS, and nothing says whom to trust.
    TlsUnset,
    /// Others are waited for with TLS, and there is no certificate to show them.
    NoCertificate,
    /// The system has no thread, pipe or randomness to give.
    System(io::Error),
    /// A setting is outside of what it can be.
    Setting {
        /// Which one.
        name: &'static str,
        /// What it can be.
        range: &'static str,
    },
    /// The end point refuses it.
    Refused(Refused),
    /// There was no room for the message, and none came for so long. It was not taken.
    Full {
        /// How long it was waited.
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
