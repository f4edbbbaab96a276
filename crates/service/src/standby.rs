//! A second machine that has everything that the store of the first one has, and can take over.
//!
//! A *leader* serves, and ships each batch of its store to a *follower*, which commits it to a store of its own. Safety rests on one rule:
//! **a follower refuses what is under a lower epoch than it has seen**, and a promotion raises the epoch on its disk before it serves. A
//! batch that is acknowledged when the follower has it (`replicate = "synchronous"`) is therefore on the disk of whatever is promoted later,
//! whatever clocks, pauses and networks do.
//!
//! [`leader`] and [`follower`] are state machines without sockets and files; [`shipping`] and [`following`] are their processes. The store
//! sees replication as the trait [`Replication`](crate::store::replication::Replication). Each machine listens, and the one that is the
//! leader calls the other.
//!
//! Where there is a [`record`] of who leads, in [`etcd`], a follower takes over by itself. [`right`] has the rules, as state machines, and
//! [`record_threads`] runs them.

mod etcd;
mod folder;
mod follower;
mod following;
mod frame;
mod host;
mod leader;
mod record;
mod record_threads;
mod right;
pub(crate) mod shipping;
mod stream;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

pub use self::following::StandbyFollower;
pub use self::host::SOCKET as STANDBY_SOCKET;
use self::host::{Peer, Threads};
use self::leader::{Leader, LeaderSettings};
use self::record_threads::Recorded;
use self::shipping::{Shipper, Shipping};
use crate::config::{Config, OnFollowerLost, Replicate, StandbyRole};
use crate::counters::Counters;
use crate::random;
use crate::start::StartError;
use crate::store::Found;
use crate::store::replication::{Part, Position, StandbyRecord};

/// How the other machine is reached, if there is one.
fn peer_of(config: &Config) -> Result<Option<Peer>, StartError> {
    let Some(address) = config.standby.peer.clone() else { return Ok(None) };
    let ends = if config.standby.tls { Some(Arc::new(config.tls.read_mutual()?)) } else { None };
    Ok(Some(Peer { address, ends, silent: Duration::from_millis(config.standby.lost_after_ms.into()) }))
}

fn bind(config: &Config) -> Result<TcpListener, StartError> {
    let address = config.standby.listen_address()?;
    let address = address.ok_or_else(|| StartError::Standby { why: "standby.listen is not set".to_owned() })?;
    TcpListener::bind(address).map_err(|error| StartError::Listen { setting: "standby.listen", address, error })
}

/// Has a store shipped, if it is a leader's. `promoted`: the follower's process that this one was until now.
///
/// # Errors
/// [`StartError::Follower`] if it is a follower's; or it cannot be used as the configuration says.
pub(crate) fn attach(config: &Config, found: &mut Found, promoted: Option<StandbyFollower>) -> Result<(), StartError> {
    let (peer, directory) = (peer_of(config)?, found.directory.clone());
    let failed = |why: String| StartError::Store { directory: directory.clone(), why };
    let known = found.disk.standby().map_err(|error| failed(error.to_string()))?;
    let mut recorded = Recorded::of(config)?;
    let (record, position) = match known {
        None if peer.is_none() => return Ok(()),
        None if config.standby.role == StandbyRole::Follower => return Err(StartError::Follower),
        Some((record, _)) if record.part == Part::Follower => {
            return Err(match &peer {
                Some(_) => StartError::Follower,
                None => failed(format!(
                    "it is a follower's, of epoch {}: start it with the [standby] that it had, and promote it (campanile standby promote)",
                    record.epoch
                )),
            });
        }
        Some(known) => known,
        None => {
            if recorded.as_mut().map_or(Ok(false), |recorded| recorded.is_of_another(found.service)).map_err(failed)? {
                return Err(StartError::Follower);
            }
            // No other store has this chain.
            let began_at = Position { epoch: 1, number: 0, chain: random::unforeseeable() };
            (StandbyRecord { part: Part::Leader, epoch: 1, is_whole: true, has_led: true, began_at }, began_at)
        }
    };
    let settings = LeaderSettings {
        is_synchronous: config.standby.replicate == Replicate::Synchronous,
        stops_alone: peer.is_some() && config.standby.on_follower_lost == OnFollowerLost::Stop,
        lag_max: if peer.is_some() { config.standby.lag_max } else { 0 },
        machine: recorded.as_ref().map_or(0, |recorded| recorded.machine.number),
    };
    let leader = Leader::new(settings, found.service, record.epoch, position);
    // One that has just been promoted knows.
    let is_promoted = promoted.is_some();
    let shipping = Shipping::new(leader, record.began_at, (peer, settings.is_synchronous), promoted);
    let (superseded, refused) = if is_promoted { (None, None) } else { shipping.consult() };
    if known.is_none() {
        // The disk may be a new one, and the other machine be the leader by now.
        if let Some(why) = refused {
            let why = format!("this store is new, and the other machine refuses to follow it: {why}");
            return Err(StartError::Standby { why });
        }
        // Of two that begin as leaders, one is.
        if !recorded.as_mut().map_or(Ok(true), |recorded| recorded.begin(found.service)).map_err(failed)? {
            return Err(StartError::Follower);
        }
        found.disk.keep_standby(record, Some(position)).map_err(|error| failed(error.to_string()))?;
    }
    let superseded = superseded
        .or_else(|| recorded.and_then(|recorded| recorded.hold(&shipping, (found.service, record.epoch), is_promoted)));
    if let Some(record) = superseded {
        log::warn!(
            "standby: another leader has taken over in epoch {}: this is its follower from now on",
            record.epoch
        );
        found.disk.keep_standby(record, None).map_err(|error| failed(error.to_string()))?;
        return Err(StartError::Follower);
    }
    found.disk.replicate(Box::new(Shipper(Arc::clone(&shipping))));
    found.shipping = Some(shipping);
    Ok(())
}

/// A leader's threads. Dropping it ends them.
pub(crate) struct Shipped {
    pub(crate) shipping: Arc<Shipping>,
    _threads: Option<Threads>,
}

/// Starts a leader's threads, if there is a peer.
pub(crate) fn start(
    config: &Config,
    (shipping, directory): (Arc<Shipping>, &Path),
    counters: &Counters,
) -> Result<Shipped, StartError> {
    let Some(peer) = shipping.peer().cloned() else { return Ok(Shipped { shipping, _threads: None }) };
    let wakes = Arc::clone(&shipping);
    shipping.set_counters(counters.of_standby());
    shipping.end_predecessor();
    let listener = bind(config)?;
    let over = Arc::clone(shipping.over());
    let mut threads = host::start(&shipping, (listener, directory), &peer, &over, move || wakes.wake())?;
    if let Some(Recorded { mut etcd, terms, .. }) = Recorded::of(config)? {
        let holds = Arc::clone(&shipping);
        threads.add("standby-record", move || record_threads::hold(&holds, &mut etcd, terms))?;
    }
    let ships = Arc::clone(&shipping);
    threads.add("standby-ship", move || ships.run())?;
    Ok(Shipped { shipping, _threads: Some(threads) })
}
