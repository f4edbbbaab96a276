//! Looks host names up on a thread of its own, because the system's resolver blocks.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use crate::lanes::mail::{LaneBox, Lookup, ToLane};
use crate::lanes::reports::printable;

/// Host names that may wait to be looked up; what comes on top counts as unreachable and is tried again later.
pub(crate) const QUEUE: usize = 256;

/// Addresses of one host that are tried.
const ADDRESSES_MAX: usize = 8;

/// Serves look-ups until the lane has ended.
pub(crate) fn run(lookups: &Receiver<Lookup>, lane: &LaneBox) {
    while let Ok(Lookup { connection, host, port, until }) = lookups.recv() {
        // Behind a name whose servers do not answer the queue grows, and what is in it grows old.
        if until <= Instant::now() {
            continue;
        }
        let host_shown = printable(&host);
        let addresses = match (host.as_str(), port).to_socket_addrs() {
            Ok(found) => {
                let mut addresses: Vec<SocketAddr> = found.take(ADDRESSES_MAX).collect();
                addresses.reverse();
                if addresses.is_empty() {
                    Err(format!("the host name {host_shown} has no address"))
                } else {
                    Ok(addresses)
                }
            }
            Err(error) => Err(format!("the host name {host_shown} cannot be resolved: {error}")),
        };
        if !lane.post(ToLane::Resolved { connection, addresses }) {
            return;
        }
    }
}
