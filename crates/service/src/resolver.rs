//! Resolver of host names on threads of its own, since the system's way blocks.
//!
//! One thread keeps the requested names, their order and the results ([`names`]). For each lookup by the system it starts a thread, which
//! ends with the answer; there are never more than [`THREADS_MAX`], and each client has a quota of them. So names that no server answers
//! delay only the same client's other names. Addresses and `localhost` need no lookup, and names in `/etc/hosts` are answered at once
//! ([`hosts`]).

mod hosts;
mod names;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use self::hosts::Hosts;
use self::names::{Names, Waiter};
use crate::counters::{Block, Counter};
use crate::lane::io::net::Waker;
use crate::lane::io::slots::Token;
use crate::lane::links::mailbox::{Inbox, Mailbox};
use crate::lane::links::messages::{Lookup, Resolved};
use crate::lane::reports::printable;
use crate::protocols::Tag;
use crate::time;

/// Maximum host names that wait for a lookup, of all clients; further ones count as unreachable and are tried again later.
pub(crate) const QUEUE: usize = 256;
/// Maximum lookups at a time.
pub(crate) const THREADS_MAX: usize = 8;
/// Maximum addresses of one host.
const ADDRESSES_MAX: usize = 8;
/// Maximum octets of a host name: one more than the domain name system allows, for a dot at the end.
const HOST_BYTES_MAX: usize = 254;

/// Result of a lookup: the addresses of a host, the one to try first at the end, or why there are none.
pub(crate) type Found = Result<Vec<IpAddr>, String>;
/// Function that looks up a name; it may block.
pub(crate) type LookUp = dyn Fn(&str) -> Found + Send + Sync;

/// Lookups of a lane, and the way back for results.
pub(crate) struct Asking {
    pub(crate) lookups: Inbox<Lookup>,
    pub(crate) answers: Mailbox<Resolved>,
}

/// The addresses of a host that are known without a lookup: it is an address itself, or this host (RFC 6761, 6.3).
pub(crate) fn known_without_asking(host: &str) -> Option<Vec<IpAddr>> {
    if let Ok(ip) = host.parse() {
        return Some(vec![ip]);
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_local = name == "localhost" || name.ends_with(".localhost");
    is_local.then(|| vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()])
}

/// Looks a name up with the system's resolver.
pub(crate) fn by_system(host: &str) -> Found {
    match (host, 0).to_socket_addrs() {
        Ok(found) => {
            let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).take(ADDRESSES_MAX).collect();
            addresses.reverse();
            if addresses.is_empty() { Err("has no address".to_owned()) } else { Ok(addresses) }
        }
        Err(error) => Err(format!("cannot be resolved: {error}")),
    }
}

/// Recipient of a result.
struct Asker {
    lane: u64,
    connection: (Tag, Token),
    port: u16,
}

/// Thread that keeps the names.
pub(crate) struct Resolver {
    waker: Arc<Waker>,
    introductions: Inbox<Asking>,
    /// Lanes by numbers that are not reused.
    lanes: Vec<(u64, Asking)>,
    lanes_begun: u64,
    names: Names<Asker>,
    hosts: Hosts,
    look_up: Arc<LookUp>,
    found: Receiver<(Arc<str>, Found)>,
    finders: Sender<(Arc<str>, Found)>,
    counters: Arc<Block>,
}

impl Resolver {
    /// Serves lanes that register by introductions, which notify the waker as their lookups do.
    pub(crate) fn new(
        waker: Arc<Waker>,
        introductions: Inbox<Asking>,
        look_up: Arc<LookUp>,
        counters: Arc<Block>,
    ) -> Self {
        let (finders, found) = channel();
        Self {
            waker,
            introductions,
            lanes: Vec::new(),
            lanes_begun: 0,
            names: Names::default(),
            hosts: Hosts::default(),
            look_up,
            found,
            finders,
            counters,
        }
    }

    /// Runs until all lanes have ended. Threads with lookups under way then end by themselves.
    pub(crate) fn run(mut self) {
        loop {
            self.introductions.look();
            while let Some(lane) = self.introductions.take() {
                self.lanes.push((self.lanes_begun, lane));
                self.lanes_begun += 1;
            }
            self.lanes.retain(|(_, lane)| !lane.lookups.has_ended());
            if self.lanes.is_empty() && self.introductions.has_ended() {
                return;
            }
            // Messages posted after the look wake the thread.
            if !(self.hear() | self.take_answers() | self.begin()) {
                self.waker.wait(None);
            }
        }
    }

    /// Takes lookups of lanes. True if there were some.
    fn hear(&mut self) -> bool {
        let mut lookups = Vec::new();
        for (lane, asking) in &mut self.lanes {
            asking.lookups.look();
            lookups.extend(core::iter::from_fn(|| asking.lookups.take()).map(|lookup| (*lane, lookup)));
        }
        let heard = !lookups.is_empty();
        for (lane, lookup) in lookups {
            self.ask(lane, lookup);
        }
        heard
    }

    fn ask(&mut self, lane: u64, Lookup { connection, host, port, until, charge }: Lookup) {
        let asker = Asker { lane, connection, port };
        if host.len() > HOST_BYTES_MAX {
            return self.answer(&host, &asker, &Err("is longer than any host name".to_owned()));
        }
        if let Some(mut addresses) = self.hosts.find(&host) {
            addresses.truncate(ADDRESSES_MAX);
            addresses.reverse();
            return self.answer(&host, &asker, &Ok(addresses));
        }
        let waiter = Waiter { who: asker, until, charge };
        if let Some((asker, found)) = self.names.ask(&host, waiter, time::now()) {
            self.counters.add(Counter::LookupsShared, 1);
            self.answer(&host, &asker, &found);
        }
    }

    /// Passes on results. True if there were some.
    fn take_answers(&mut self) -> bool {
        let mut any = false;
        while let Ok((host, found)) = self.found.try_recv() {
            any = true;
            let askers = self.names.found(&host, found.clone(), time::now());
            self.counters.add(Counter::LookupsShared, askers.len().saturating_sub(1) as u64);
            for asker in askers {
                self.answer(&host, &asker, &found);
            }
        }
        any
    }

    /// Starts the next lookups. True if there were some.
    fn begin(&mut self) -> bool {
        let mut any = false;
        while let Some(host) = self.names.poll(time::now()) {
            any = true;
            self.counters.add(Counter::LookupsBegun, 1);
            let (name, look_up) = (Arc::clone(&host), Arc::clone(&self.look_up));
            let (finders, waker) = (self.finders.clone(), Arc::clone(&self.waker));
            let begun = Builder::new().name("look-up".into()).spawn(move || {
                let found = look_up(&name);
                // If there is no receiver, the service has ended.
                let _ = finders.send((name, found));
                waker.notify();
            });
            if let Err(error) = begun {
                let _ = self.finders.send((host, Err(format!("cannot be looked up: {error}"))));
            }
        }
        for spent in self.names.take_spent() {
            self.counters.add(Counter::of_refusal(spent), 1);
        }
        any
    }

    fn answer(&mut self, host: &str, asker: &Asker, found: &Found) {
        let Some((_, lane)) = self.lanes.iter_mut().find(|(lane, _)| *lane == asker.lane) else { return };
        let addresses = match found {
            Ok(ips) => Ok(ips.iter().map(|ip| SocketAddr::new(*ip, asker.port)).collect()),
            Err(why) => Err(format!("the host name {} {why}", printable(host))),
        };
        // A lane that has no room for it has not looked for a long time; it takes the connection for one that cannot be made.
        let _ = lane.answers.send(Resolved { connection: asker.connection, addresses });
    }
}

#[cfg(test)]
mod tests;
