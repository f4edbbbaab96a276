//! Looks host names up on a thread of its own, because the system's resolver blocks.

use std::net::ToSocketAddrs;
use std::sync::mpsc::Receiver;

use crate::lanes::mail::{LaneBox, Lookup, ToLane};

/// Host names that may wait to be looked up; what comes on top counts as unreachable and is tried again later.
pub(crate) const QUEUE: usize = 256;

/// Serves look-ups until the lane has ended.
pub(crate) fn run(lookups: &Receiver<Lookup>, lane: &LaneBox) {
    while let Ok(Lookup { connection, host, port }) = lookups.recv() {
        let address = match (host.as_str(), port).to_socket_addrs() {
            Ok(mut found) => found.next().ok_or_else(|| format!("the host name {host} has no address")),
            Err(error) => Err(format!("the host name {host} cannot be resolved: {error}")),
        };
        if !lane.post(ToLane::Resolved { connection, address }) {
            return;
        }
    }
}
