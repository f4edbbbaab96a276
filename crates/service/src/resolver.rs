//! Looks host names up, because the system's way of doing so blocks.
//!
//! One thread keeps the books: which names are asked for, which is next, and what was found ([`names`]). For each name that the system has
//! to be asked for it starts a thread, which ends with the answer; there are never more than [`THREADS_MAX`] of them, and of these each
//! client has a share. So names that no server answers for delay only their own client's other names. What an address or `localhost` stands
//! for is known without asking, and what the file `/etc/hosts` has is answered at once ([`hosts`]).

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

/// Host names that may wait to be looked up, of all clients; what comes on top counts as unreachable and is tried again later.
pub(crate) const QUEUE: usize = 256;
/// Host names that are being looked up at a time.
pub(crate) const THREADS_MAX: usize = 8;
/// Addresses of one host that are tried.
const ADDRESSES_MAX: usize = 8;
/// Octets of a host name: one more than the domain name system allows, for a dot at the end.
const HOST_BYTES_MAX: usize = 254;

/// What was found: the addresses of a host, the one to try first at the end, or why there are none.
pub(crate) type Found = Result<Vec<IpAddr>, String>;
/// How a name is looked up; it may block.
pub(crate) type LookUp = dyn Fn(&str) -> Found + Send + Sync;

/// A lane's lookups and the way back.
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

/// Whom an answer is for.
struct Asker {
    lane: u64,
    connection: (Tag, Token),
    port: u16,
}

/// The thread that keeps the books.
pub(crate) struct Resolver {
    waker: Arc<Waker>,
    introductions: Inbox<Asking>,
    /// By numbers that are not used again.
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
    /// Serves lanes that register by introductions, which call the waker as their lookups do.
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

    /// Runs until all lanes have ended. Threads that look something up then end by themselves.
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
            // Whatever comes after it was looked for wakes the thread.
            if !(self.hear() | self.take_answers() | self.begin()) {
                self.waker.wait(None);
            }
        }
    }

    /// Takes what lanes ask for. True if there was something.
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

    /// Passes on what was found. True if something was.
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

    /// Begins to look up the names that are next. True if there were some.
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
