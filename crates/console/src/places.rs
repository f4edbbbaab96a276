//! Open connections, and the choice of one to close when there is no place for another.
//!
//! Every address may have a few connections beyond its quota, so that a few addresses together can use all places. At the limit, the
//! address with the most connections loses the one that has been idle for longest: one without an answer in progress, even if a request is
//! partly received. If all are being answered, a few places remain for health checks and administration.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use accounts::{Addresses, Charge, Resource, Spent, SpentBy};

use crate::stream::Watch;

/// Places beyond the limit, for health checks and for requests that change something.
pub(crate) const RESERVED: usize = 4;

/// An open connection, or one in its handshake.
struct OpenConnection {
    /// Its place below the limit; `None` in the reserve.
    place: Option<Charge>,
    watch: Rc<Watch>,
}

/// The place of a new connection.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) number: u64,
    /// Whether the place is in the reserve.
    pub(crate) is_reserved: bool,
    /// Whether another connection was closed for it.
    pub(crate) displaced: bool,
    /// The limit that put it in the reserve, if it is there.
    pub(crate) spent: Option<Spent>,
}

/// The connections that are open.
pub(crate) struct Places {
    addresses: Addresses,
    connections: BTreeMap<u64, OpenConnection>,
    next: u64,
}

impl Places {
    pub(crate) const fn new(addresses: Addresses) -> Self {
        Self { addresses, connections: BTreeMap::new(), next: 0 }
    }

    /// Takes a place for a connection from this address.
    ///
    /// # Errors
    /// No place is free: the address has used its quota, or the reserve is taken, too.
    pub(crate) fn take(&mut self, from: SocketAddr, watch: &Rc<Watch>) -> Result<Slot, Spent> {
        let account = self.addresses.open(from.ip());
        let mut displaced = false;
        let granted = match account.charge(Resource::HttpConnections, 1) {
            Err(spent) if spent.by == SpentBy::All && self.have_one_give_way(false) => {
                displaced = true;
                account.charge(Resource::HttpConnections, 1)
            }
            granted => granted,
        };
        let (place, spent) = match granted {
            Ok(place) => (Some(place), None),
            Err(spent) if spent.by == SpentBy::All => {
                let reserved = self.connections.values().filter(|open| open.place.is_none()).count();
                if reserved >= RESERVED && !self.have_one_give_way(true) {
                    return Err(spent);
                }
                (None, Some(spent))
            }
            Err(spent) => return Err(spent),
        };
        let (number, is_reserved) = (self.next, place.is_none());
        self.next += 1;
        self.connections.insert(number, OpenConnection { place, watch: Rc::clone(watch) });
        Ok(Slot { number, is_reserved, displaced, spent })
    }

    /// Frees the place of a closed connection.
    pub(crate) fn give_back(&mut self, number: u64) {
        self.connections.remove(&number);
    }

    /// Number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.connections.len()
    }

    /// Ends the connection that has been idle for longest, to free a descriptor. Returns false if none is idle.
    pub(crate) fn have_one_give_way(&mut self, in_reserve: bool) -> bool {
        let rank = |(number, open): (&u64, &OpenConnection)| {
            let idle = open.watch.idle_since().filter(|_| open.place.is_none() == in_reserve)?;
            let account = open.place.as_ref().map(Charge::account);
            let has = account.map_or(0, |account| account.used_by_address(Resource::HttpConnections));
            Some((core::cmp::Reverse(has), idle, *number))
        };
        let found: Option<(_, Instant, u64)> = self.connections.iter().filter_map(rank).min();
        let gone = found.and_then(|(.., number)| self.connections.remove(&number));
        gone.is_some_and(|gone| {
            gone.watch.give_way();
            true
        })
    }
}
