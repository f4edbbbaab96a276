//! Addresses that the service may call.
//!
//! A client that connects a consumer gives a reference, and so an address for the service to connect to: from the service's host, and
//! perhaps not reachable from the client. Some addresses are never called, so that no client can make the service talk to programs that
//! trust this host.

use core::net::{IpAddr, SocketAddr};

use crate::{AddressRange, AddressRanges};

/// Location of the client for which an address is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalledFor {
    /// On this machine, where it could connect to the machine's addresses itself; also the service itself.
    Local,
    /// On another machine.
    Foreign,
}

/// Addresses at which clients may be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutgoingPolicy {
    /// Permitted addresses. `None`: all but link-local ones and, for foreign clients, this machine's.
    allow: Option<AddressRanges>,
    /// Addresses at which the service itself listens for others than CORBA clients.
    own: Vec<SocketAddr>,
}

impl OutgoingPolicy {
    /// Permits these addresses, or by default all but link-local ones and, for clients on other machines, this machine's.
    #[must_use]
    pub const fn new(allow: Option<AddressRanges>) -> Self {
        Self { allow, own: Vec::new() }
    }

    /// Excludes addresses at which the service listens for others than CORBA clients.
    #[must_use]
    pub fn but(mut self, own: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.own.extend(own);
        self
    }

    /// Reason not to call an address, if there is one. `is_here` returns whether an address is this host's, and is
    /// only called where that matters.
    #[must_use]
    pub fn refuses(
        &self,
        address: SocketAddr,
        called_for: CalledFor,
        is_here: impl Fn(IpAddr) -> bool,
    ) -> Option<&'static str> {
        let ip = address.ip().to_canonical();
        // Another program may have the same port at another address of this host. A connection to no address goes to the loopback one.
        let is_of_machine = || ip.is_loopback() || ip.is_unspecified() || is_here(ip);
        let leads_to = |own: IpAddr| match own {
            own if own.is_unspecified() => is_of_machine(),
            own => own == ip || ip.is_unspecified() && own.is_loopback(),
        };
        let is_own = |own: &SocketAddr| own.port() == address.port() && leads_to(own.ip().to_canonical());
        if address.port() != 0 && self.own.iter().any(is_own) {
            return Some("it is the service's own port for other clients");
        }
        match &self.allow {
            Some(allow) if allow.has(ip) => None,
            Some(_) => Some("outgoing.allow does not have its address"),
            None if is_link_local(ip) => Some("its address is link-local, and outgoing.allow does not name it"),
            None if called_for == CalledFor::Foreign && is_of_machine() => {
                Some("it is an address of this machine, the client is on another, and outgoing.allow does not name it")
            }
            None => None,
        }
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    let ranges = ["169.254.0.0/16", "fe80::/10"];
    ranges.into_iter().filter_map(|range| range.parse::<AddressRange>().ok()).any(|range| range.has(ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_and_the_services_own_ports_are_not_called() {
        let own = ["0.0.0.0:8080", "10.0.0.5:2810", "127.0.0.1:2811"].map(|own| own.parse().unwrap());
        let policy = OutgoingPolicy::new(None).but(own);
        let is_here = |ip: IpAddr| ip == IpAddr::from([10, 0, 0, 9]);
        let refuses = |address: &str| policy.refuses(address.parse().unwrap(), CalledFor::Local, is_here).is_some();
        for refused in [
            "169.254.169.254:80",
            "[fe80::1]:80",
            "[::ffff:169.254.1.1]:80",
            "127.0.0.1:8080",
            "127.9.9.9:8080",
            "10.0.0.9:8080",
            "[::1]:8080",
            "[::ffff:127.0.0.1]:8080",
            "0.0.0.0:8080",
            "10.0.0.5:2810",
            "127.0.0.1:2811",
            "[::ffff:127.0.0.1]:2811",
            "0.0.0.0:2811",
            "[::]:2811",
        ] {
            assert!(refuses(refused), "{refused}");
        }
        for called in [
            "127.0.0.1:2809",
            "10.0.0.5:80",
            "10.0.0.6:2810",
            "[2001:db8::1]:8080",
            "169.253.0.1:80",
            // Another program's, at other addresses of this host.
            "10.0.0.9:2810",
            "127.0.0.1:2810",
            "127.0.0.2:2811",
            "10.0.0.9:2811",
        ] {
            assert!(!refuses(called), "{called}");
        }
        let policy =
            OutgoingPolicy::new(Some(AddressRanges::parse(["10.0.0.0/8", "169.254.0.0/16"]).unwrap())).but(own);
        let refuses = |address: &str| policy.refuses(address.parse().unwrap(), CalledFor::Local, is_here).is_some();
        assert!(!refuses("10.1.1.1:80") && !refuses("169.254.1.1:80"));
        assert!(refuses("127.0.0.1:80") && refuses("11.0.0.1:80") && refuses("10.0.0.9:8080"));
    }

    /// Any client could have the service connect to what listens on its machine for local programs only, and say chosen octets there.
    #[test]
    fn for_a_client_on_another_machine_no_address_of_this_one_is_called_unless_it_is_named() {
        let is_here = |ip: IpAddr| ip == IpAddr::from([10, 0, 0, 9]);
        let refuses = |policy: &OutgoingPolicy, address: &str, called_for| {
            policy.refuses(address.parse().unwrap(), called_for, is_here).is_some()
        };
        let policy = OutgoingPolicy::new(None);
        for own in [
            "127.0.0.1:6379",
            "127.200.0.1:6379",
            "[::1]:6379",
            "0.0.0.0:6379",
            "[::]:6379",
            "10.0.0.9:6379",
            "[::ffff:127.0.0.1]:6379",
            "[::ffff:10.0.0.9]:6379",
            "[::ffff:0.0.0.0]:6379",
        ] {
            assert!(refuses(&policy, own, CalledFor::Foreign), "{own}");
            assert!(!refuses(&policy, own, CalledFor::Local), "{own}");
        }
        assert!(!refuses(&policy, "10.0.0.8:6379", CalledFor::Foreign));
        let named = OutgoingPolicy::new(Some(AddressRanges::parse(["127.0.0.1"]).unwrap()));
        assert!(!refuses(&named, "127.0.0.1:6379", CalledFor::Foreign));
        assert!(refuses(&named, "127.0.0.2:6379", CalledFor::Foreign));
    }
}
