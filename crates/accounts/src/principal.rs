//! The principal of a request.

use std::net::IpAddr;
use std::sync::Arc;

use crate::Account;

/// The principal of a request: passed with every request to administration, and with each connection from its acceptance on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Principal {
    /// The service itself, or the program that embeds it. Nothing is charged.
    Service,
    /// An operator on HTTP, with an account of its own that has the address and the identity shown, and is charged for nothing.
    Operator(Arc<Account>),
    /// A client, known by the account of its connection, which has the connection's address, and is charged.
    Client(Arc<Account>),
}

impl Principal {
    /// The address of the request, if it comes from outside.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Service => None,
            Self::Operator(account) => Some(account.from()),
            Self::Client(account) => Some(account.ip()),
        }
    }

    /// The address by which turns are shared, if the request comes from outside: for IPv6 its first half.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Service => None,
            Self::Operator(account) | Self::Client(account) => Some(account.ip()),
        }
    }

    /// The account charged for the request; `None` for the service itself and for operators.
    #[must_use]
    pub const fn account(&self) -> Option<&Arc<Account>> {
        match self {
            Self::Service | Self::Operator(_) => None,
            Self::Client(account) => Some(account),
        }
    }
}

impl core::fmt::Display for Principal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Service => f.write_str("the service itself"),
            Self::Operator(account) => {
                write!(f, "{} over HTTP", account.from())?;
                let shown = account.identity();
                if let Some(name) = shown.certified() {
                    write!(f, ", with the certificate {}", name.to_string().escape_debug())?;
                }
                shown.token().map_or(Ok(()), |name| write!(f, ", with the token \"{}\"", name.escape_debug()))
            }
            Self::Client(account) => account.ip().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accounts, Ceilings, CertifiedName};

    #[test]
    fn a_client_is_known_by_its_address_and_the_service_has_none() {
        let account = Accounts::new(Ceilings::new(75)).account_of([10, 0, 0, 1].into());
        let client = Principal::Client(Arc::clone(&account));
        assert_eq!((client.address(), client.account()), (Some([10, 0, 0, 1].into()), Some(&account)));
        assert_eq!(client.to_string(), "10.0.0.1");
        assert_eq!((Principal::Service.address(), Principal::Service.account()), (None, None));
    }

    #[test]
    fn an_operator_is_known_by_its_address_and_by_what_it_has_shown() {
        let account = Accounts::new(Ceilings::new(75)).account_of([127, 0, 0, 1].into());
        let operator = Principal::Operator(Arc::clone(&account));
        assert_eq!((operator.address(), operator.account()), (Some([127, 0, 0, 1].into()), None));
        assert_eq!(operator.to_string(), "127.0.0.1 over HTTP");
        account.identity().show_token("ops".into());
        assert_eq!(operator.to_string(), "127.0.0.1 over HTTP, with the token \"ops\"");
        let name = CertifiedName { subject: "CN=plant 7".into(), sans: Vec::new() };
        account.identity().certify(Arc::new(name));
        let shown = "127.0.0.1 over HTTP, with the certificate CN=plant 7, with the token \"ops\"";
        assert_eq!(operator.to_string(), shown);
    }
}
