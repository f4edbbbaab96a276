//! Offers of clients to be called over connections that they made: bidirectional GIOP (CORBA 3.3 part 2, 9.8).
//!
//! A client behind a firewall or NAT cannot be called at its address. It lists the address on a connection of its own and may then be called
//! over it. A listing is never believed beyond that: it holds for the clients of proxies that were connected by a request over the very
//! connection, and a later connection counts for a proxy only by a request on the proxy by the same owner. So no listing has another
//! client's calls go elsewhere, whatever addresses it names.

use super::access::is_same;
use super::{Effect, Protocol, Thing};
use engine::{Peer, ProxyKey};
use giop::bidirectional::ListenPoint;
use giop::cdr::Version;
use giop::ior::{IiopProfile, Ior};
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A client's offer on one connection.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Handle of the connection.
    pub connection: NonZeroU64,
    /// Whether the connection is over TLS.
    pub is_secure: bool,
    /// Addresses of the client's objects that may be called over it.
    pub listed: Arc<[ListenPoint]>,
}

impl Offer {
    /// Whether an object may be called over the connection: its address is listed, it speaks GIOP 1.2, and if it has an address for TLS, so
    /// has the connection.
    fn covers(&self, reference: &Ior) -> bool {
        let Some(profile) = reference.iiop() else { return false };
        let secure = profile.secure_transport();
        if profile.version < Version::V1_2 || (secure.is_some() && !self.is_secure) {
            return false;
        }
        let lists = |host: &str, port: u16| self.listed.iter().any(|point| point.is(host, port));
        profile.addresses().any(|(host, port)| lists(&host, port))
            || secure.is_some_and(|secure| lists(&profile.host, secure.port))
    }
}

/// Connections that a client has offered for calls to it, the latest first. They may have ended.
///
/// Administration adds to them, and lanes read them.
#[derive(Debug, Default)]
pub struct Offered([AtomicU64; CONNECTIONS_MAX]);

/// Maximum connections remembered of one client: an ORB has a few to one server. Beyond it the one offered longest ago is forgotten.
const CONNECTIONS_MAX: usize = 4;

impl Offered {
    /// Handles of the connections, the latest first.
    pub fn connections(&self) -> impl Iterator<Item = NonZeroU64> {
        self.0.iter().filter_map(|connection| NonZeroU64::new(connection.load(Ordering::Relaxed)))
    }

    /// Whether there was any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connections().next().is_none()
    }

    /// Adds a connection, or puts it before the others.
    fn add(&self, connection: NonZeroU64) {
        let others = self.connections().filter(|other| *other != connection);
        let now: Vec<NonZeroU64> = core::iter::once(connection).chain(others).take(CONNECTIONS_MAX).collect();
        // From the last to the first, so that a lane which reads meanwhile misses none of those that stay.
        for (place, connection) in self.0.iter().zip(now).rev() {
            place.store(connection.get(), Ordering::Relaxed);
        }
    }
}

impl PartialEq for Offered {
    fn eq(&self, other: &Self) -> bool {
        self.connections().eq(other.connections())
    }
}

impl Eq for Offered {}

impl Protocol {
    /// Whether the current request's connection may carry calls to an object.
    pub(super) fn is_offered(&self, reference: &Ior) -> bool {
        self.lives.offer.as_ref().is_some_and(|offer| offer.covers(reference))
    }

    /// Whether the requesting client is the very one that owns a proxy. Whoever else may change the proxy, since there are no rules of
    /// access or they admit both alike, must not have its events come to a connection.
    pub(super) fn is_askers(&self, key: ProxyKey) -> bool {
        let (owner, asker) = (self.objects.ledger.owner(Thing::Proxy(key)), self.objects.ledger.principal.as_ref());
        owner.is_some_and(|owner| asker.is_some_and(|asker| is_same(&owner, asker)))
    }

    /// Has a proxy's client called over the connection of the current request, if that offers it and the client owns the proxy.
    pub(super) fn take_up_offer(&mut self, key: ProxyKey) {
        let Some(offer) = &self.lives.offer else { return };
        let peer = self.objects.hierarchy.proxy(key).ok().and_then(|proxy| proxy.peer);
        let Some(client) = peer.and_then(|peer| self.objects.clients.by_peer.get(&peer)) else { return };
        let offered = &client.address.offered;
        let is_new = offered.connections().next() != Some(offer.connection);
        let may_be = client.may_offer && !client.is_link() && offer.covers(&client.address.ior);
        if !is_new || !may_be || !self.is_askers(key) {
            return;
        }
        offered.add(offer.connection);
        // What is only told of changes and of the end may go to another lane with its pushes.
        if let Some(line) = self.lives.line.as_ref().filter(|_| !client.address.operation.is_empty()) {
            line.note_carries();
        }
        if let Some(account) = &self.objects.ledger.principal {
            self.lives.hidden.remove(&account.ip());
        }
        let name = client.address.name.clone();
        self.objects.log_debug(|_| format!("{name} is called over a connection that it made"));
    }

    /// Reports a client that has to be called, where that can hardly succeed.
    pub(super) fn note_hidden(&mut self, peer: Peer) {
        let Some(client) = self.objects.clients.by_peer.get(&peer) else { return };
        let Some(account) = &self.objects.ledger.principal else { return };
        let address = &client.address;
        let is_called_there = !address.operation.is_empty() && address.offered.is_empty() && !client.is_link();
        if !is_called_there || !is_hidden(&address.ior, account.from()) || self.guard.is_here(account.from()) {
            return;
        }
        let hidden = &mut self.lives.hidden;
        if hidden.len() >= HIDDEN_MAX {
            hidden.clear();
        }
        let is_first = hidden.insert(account.ip());
        let (name, from) = (address.name.clone(), account.from());
        self.objects.effects.push_back(Effect::Hidden { name, from, is_first });
    }
}

/// Maximum addresses with a report that clients there cannot be called. Beyond it all may be reported again.
const HIDDEN_MAX: usize = 1_024;

/// Whether a client gave only addresses of private networks, and comes from another: behind NAT, as a rule.
fn is_hidden(reference: &Ior, from: IpAddr) -> bool {
    let (from, mut addresses) = (from.to_canonical(), reference.iiop_profiles().flat_map(IiopProfile::addresses));
    let is_elsewhere = |(host, _): (String, u16)| {
        let ip = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
        ip.is_some_and(|ip| private_network(ip).is_some() && private_network(ip) != private_network(from))
    };
    !from.is_loopback() && addresses.all(is_elsewhere)
}

/// The kind of private network to which an address belongs, if it does.
fn private_network(ip: IpAddr) -> Option<u8> {
    let octets = match ip {
        IpAddr::V6(ip) if ip.is_unique_local() => return Some(6),
        IpAddr::V6(_) => return ip.is_loopback().then_some(127),
        IpAddr::V4(ip) => ip.octets(),
    };
    match octets {
        [first @ (10 | 127), ..] | [first @ 192, 168, ..] | [first @ 172, 16..32, ..] => Some(first),
        [first @ 100, 64..128, ..] => Some(first),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giop::ior::Profile;

    fn numbers(offered: &Offered) -> Vec<u64> {
        offered.connections().map(NonZeroU64::get).collect()
    }

    #[test]
    fn the_latest_connection_comes_first_and_the_one_offered_longest_ago_is_forgotten() {
        let offered = Offered::default();
        assert!(offered.is_empty());
        for (added, now) in [
            (1, &[1][..]),
            (2, &[2, 1]),
            (1, &[1, 2]),
            (1, &[1, 2]),
            (3, &[3, 1, 2]),
            (2, &[2, 3, 1]),
            (4, &[4, 2, 3, 1]),
            (5, &[5, 4, 2, 3]),
            (3, &[3, 5, 4, 2]),
        ] {
            offered.add(NonZeroU64::new(added).unwrap());
            assert_eq!(numbers(&offered), now, "after {added}");
        }
    }

    #[test]
    fn an_offer_covers_what_it_lists_in_the_version_and_the_layer_of_the_reference() {
        let reference = |version, components| {
            let (host, key) = ("client.example".to_owned(), b"object".to_vec());
            let profile = IiopProfile { version, host, port: 7, key, components };
            Ior { type_id: String::new(), profiles: vec![Profile::Iiop(profile)] }
        };
        let offer = |is_secure, listed: &[(&str, u16)]| {
            let listed = listed.iter().map(|(host, port)| ListenPoint { host: (*host).to_owned(), port: *port });
            Offer { connection: NonZeroU64::MIN, is_secure, listed: listed.collect() }
        };
        let plain = reference(Version::V1_2, Vec::new());
        assert!(offer(false, &[("other", 1), ("client.example", 7)]).covers(&plain));
        assert!(offer(true, &[("client.example", 7)]).covers(&plain));
        for listed in [&[("client.example", 8)][..], &[("other", 7)], &[]] {
            assert!(!offer(true, listed).covers(&plain), "{listed:?}");
        }
        assert!(!offer(false, &[("client.example", 7)]).covers(&reference(Version::V1_1, Vec::new())));
        assert!(!offer(false, &[("client.example", 7)]).covers(&Ior::default()));
        let secure = giop::ior::SecureTransport { supports: 2, requires: 0, port: 8 };
        let secure = reference(Version::V1_2, vec![secure.to_component()]);
        assert!(offer(true, &[("client.example", 7)]).covers(&secure));
        assert!(offer(true, &[("client.example", 8)]).covers(&secure));
        assert!(!offer(false, &[("client.example", 7), ("client.example", 8)]).covers(&secure));
    }

    #[test]
    fn a_client_is_hidden_whose_addresses_are_all_of_a_private_network_that_it_does_not_come_from() {
        let hidden = |hosts: &[&str], from: &str| {
            let profile = |host: &&str| {
                let (host, key) = ((*host).to_owned(), b"object".to_vec());
                Profile::Iiop(IiopProfile { version: Version::V1_2, host, port: 7, key, components: Vec::new() })
            };
            let reference = Ior { type_id: String::new(), profiles: hosts.iter().map(profile).collect() };
            is_hidden(&reference, from.parse().unwrap())
        };
        for (host, from) in [
            ("10.0.0.5", "198.51.100.7"),
            ("192.168.1.5", "10.0.0.5"),
            ("172.31.0.5", "::ffff:10.0.0.5"),
            ("100.64.0.1", "198.51.100.7"),
            ("127.0.0.1", "198.51.100.7"),
            ("fd00::5", "2001:db8::1"),
        ] {
            assert!(hidden(&[host], from), "{host} from {from}");
            assert!(hidden(&[host, "10.9.9.9"], "203.0.113.1"));
        }
        for (host, from) in [
            ("10.0.0.5", "10.0.0.5"),
            ("10.0.0.5", "10.200.0.1"),
            ("10.0.0.5", "127.0.0.1"),
            ("172.32.0.5", "198.51.100.7"),
            ("198.51.100.8", "10.0.0.5"),
            ("client.example", "198.51.100.7"),
            ("2001:db8::2", "2001:db8::1"),
        ] {
            assert!(!hidden(&[host], from), "{host} from {from}");
        }
        assert!(!hidden(&["10.0.0.5", "198.51.100.8"], "198.51.100.7"));
    }
}
