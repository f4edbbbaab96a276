//! Who asks.

use std::net::IpAddr;
use std::sync::Arc;

use crate::Account;

/// Who asks for something. It goes with everything that administration is asked, and with each connection from when it is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Principal {
    /// Nobody outside: the service itself, or the program that it is part of. Nothing is charged.
    Service,
    /// Somebody who asks over HTTP, from this address.
    Operator {
        /// The address that the connection came from.
        address: IpAddr,
        /// Whether the token was shown.
        has_token: bool,
    },
    /// A client, known by the account of the connection on which it asks: that has the address that the connection came from,
    /// and is charged.
    Client(Arc<Account>),
}

impl Principal {
    /// The address from which it asks, if it is outside.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Service => None,
            Self::Operator { address, .. } => Some(*address),
            Self::Client(account) => Some(account.ip()),
        }
    }

    /// Who is charged for what it asks for; nobody if it is not outside, or an operator.
    #[must_use]
    pub const fn account(&self) -> Option<&Arc<Account>> {
        match self {
            Self::Service | Self::Operator { .. } => None,
            Self::Client(account) => Some(account),
        }
    }
}

impl core::fmt::Display for Principal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Service => f.write_str("the service itself"),
            Self::Operator { address, has_token: true } => write!(f, "{address} over HTTP, with the token"),
            Self::Operator { address, has_token: false } => write!(f, "{address} over HTTP"),
            Self::Client(account) => account.ip().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accounts, Ceilings};

    #[test]
    fn a_client_is_known_by_its_address_and_the_service_has_none() {
        let account = Accounts::new(Ceilings::new(75)).account_of([10, 0, 0, 1].into());
        let client = Principal::Client(Arc::clone(&account));
        assert_eq!((client.address(), client.account()), (Some([10, 0, 0, 1].into()), Some(&account)));
        assert_eq!(client.to_string(), "10.0.0.1");
        assert_eq!((Principal::Service.address(), Principal::Service.account()), (None, None));
        let operator = Principal::Operator { address: [127, 0, 0, 1].into(), has_token: true };
        assert_eq!((operator.address(), operator.account()), (Some([127, 0, 0, 1].into()), None));
        assert_eq!(operator.to_string(), "127.0.0.1 over HTTP, with the token");
    }
}
