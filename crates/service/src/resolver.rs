//! Looks host names up on a thread of its own, because the system's resolver blocks.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Instant;

use crate::lanes::mail::{Lookup, Resolved};
use crate::lanes::post::{Inbox, Post};
use crate::lanes::reports::printable;
use crate::lanes::system::Bell;

/// Host names of one lane that may wait to be looked up; what comes on top counts as unreachable and is tried again later.
pub(crate) const QUEUE: usize = 256;

/// Addresses of one host that are tried.
const ADDRESSES_MAX: usize = 8;

/// A lane's questions and the way back.
pub(crate) struct Asking {
    pub(crate) lookups: Inbox<Lookup>,
    pub(crate) answers: Post<Resolved>,
}

/// Serves the lanes' look-ups, and those of lanes that it is told of later, until all have ended.
pub(crate) fn run(bell: &Arc<Bell>, mut introductions: Inbox<Asking>) {
    let mut lanes: Vec<Asking> = Vec::new();
    loop {
        introductions.look();
        lanes.extend(core::iter::from_fn(|| introductions.take()));
        lanes.retain(|lane| !lane.lookups.has_ended());
        if lanes.is_empty() && introductions.has_ended() {
            return;
        }
        let mut served = false;
        for lane in &mut lanes {
            lane.lookups.look();
            // One name of each in its turn, since each can take long.
            if let Some(lookup) = lane.lookups.take() {
                look_up(lookup, &mut lane.answers);
                served = true;
            }
        }
        if !served {
            bell.wait(None);
        }
    }
}

fn look_up(Lookup { connection, host, port, until }: Lookup, answers: &mut Post<Resolved>) {
    // Behind a name whose servers do not answer the queue grows, and what is in it grows old.
    if until <= Instant::now() {
        return;
    }
    let host_shown = printable(&host);
    let addresses = match (host.as_str(), port).to_socket_addrs() {
        Ok(found) => {
            let mut addresses: Vec<SocketAddr> = found.take(ADDRESSES_MAX).collect();
            addresses.reverse();
            if addresses.is_empty() { Err(format!("the host name {host_shown} has no address")) } else { Ok(addresses) }
        }
        Err(error) => Err(format!("the host name {host_shown} cannot be resolved: {error}")),
    };
    // A lane that has no room for it has not looked for a long time; it takes the connection for one that cannot be made.
    let _ = answers.post(Resolved { connection, addresses });
}
