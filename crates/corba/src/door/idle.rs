//! Suppliers that nobody hears of any more. One that pushes need not be reachable: without a reference, or with one at which it
//! never was reached, it cannot be asked whether it still exists, and its proxy would stay for ever when its program ends.
//!
//! Such a supplier is disconnected when nothing has come from it for `SupplierLinger` and the connection on which it
//! connected is closed; an operator may say at any time that so long was long enough. Lanes note when a supplier was last
//! heard of ([`engine::Activity`]); nobody is asked about it.

use super::clients::{Tell, side_name};
use super::{Door, Effect};
use crate::table::Level;
use accounts::{Account, Resource};
use engine::{Proxy, ProxyKey, Side, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Suppliers that are looked at in one go; requests are served before the next.
const LOOKED_AT_MAX: usize = 64;
/// Suppliers that are told of, or disconnected, with one call.
pub const AT_ONCE_MAX: usize = 1_024;
/// A supplier is not looked at more often, whatever its `SupplierLinger`.
const LOOK_MIN: Duration = Duration::from_millis(100);

/// The suppliers that are connected, and when they are to be looked at.
#[derive(Debug, Default)]
pub(super) struct Suppliers {
    connected: BTreeMap<ProxyKey, Connected>,
    due: BTreeSet<(Time, ProxyKey)>,
}

#[derive(Debug)]
struct Connected {
    /// Who connected it.
    by: Option<Arc<Account>>,
    due: Option<Time>,
}

impl Suppliers {
    pub(super) fn forget(&mut self, key: ProxyKey) {
        if let Some(due) = self.connected.remove(&key).and_then(|gone| gone.due) {
            self.due.remove(&(due, key));
        }
    }

    /// When the first of them is to be looked at.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }
}

/// How a connected supplier stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupplierStanding {
    /// Its proxy.
    pub key: ProxyKey,
    /// The address from which it connected.
    pub address: Option<IpAddr>,
    /// Whether it is asked for its events. It pushes them otherwise.
    pub is_pulled: bool,
    /// Whether it gave a reference at which it was reached, or has to be, so that it is found out when it is dead.
    pub is_probed: bool,
    /// Whether the connection on which it connected is open.
    pub is_open: bool,
    /// Events that came from it.
    pub events: u64,
    /// How long ago it was last heard of: that it connected, or an event.
    pub idle: Duration,
}

impl Door {
    /// The suppliers that are connected, by channel and proxy, behind one of them if that is said.
    pub fn suppliers(&self, behind: Option<ProxyKey>) -> impl Iterator<Item = SupplierStanding> {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.suppliers.connected.range((from, Bound::Unbounded));
        range.filter_map(|(key, connected)| self.standing(*key, connected))
    }

    /// Disconnects whoever is connected to a proxy, because an operator says so. Its client is told, where it gave a
    /// reference. False if there is no such proxy.
    pub fn dismiss(&mut self, key: ProxyKey) -> bool {
        let Ok(side) = self.hierarchy.proxy(key).map(|proxy| proxy.side) else { return false };
        let name = self.name(side_name(side), key);
        let is_gone = self.disconnect(key);
        if is_gone {
            self.effects.push_back(Effect::Dismissed { name });
        }
        is_gone
    }

    fn disconnect(&mut self, key: ProxyKey) -> bool {
        let removed = self.hierarchy.destroy_proxy(key);
        if let Ok(removed) = &removed {
            self.forget(removed, Tell::Yes);
        }
        removed.is_ok()
    }

    /// Disconnects suppliers that cannot be asked whether they exist and were not heard of for so long, because an operator
    /// says so; a number of them at most. Says how many it was.
    pub fn disconnect_idle(&mut self, idle_for: Duration) -> usize {
        let is_idle = |supplier: &SupplierStanding| !supplier.is_probed && supplier.idle >= idle_for;
        let idle: Vec<SupplierStanding> = self.suppliers(None).filter(is_idle).take(AT_ONCE_MAX).collect();
        for supplier in &idle {
            self.let_go(supplier);
        }
        idle.len()
    }

    /// A supplier has connected.
    pub(super) fn note_supplier(&mut self, key: ProxyKey) {
        let Some(activity) = self.hierarchy.proxy(key).ok().and_then(|proxy| proxy.activity.clone()) else { return };
        self.suppliers.connected.insert(key, Connected { by: self.principal.clone(), due: None });
        self.schedule_look(key, activity.last());
    }

    /// Arranges for when a supplier is to be looked at: when it has not been heard of for so long since `then`.
    fn schedule_look(&mut self, key: ProxyKey, then: Time) {
        let linger = self.hierarchy.effective_supplier(key).map_or(Duration::ZERO, |settings| settings.supplier_linger);
        let is_pulled = self.hierarchy.proxy(key).is_ok_and(|proxy| proxy.kind.pull);
        let Some(connected) = self.suppliers.connected.get_mut(&key) else { return };
        if let Some(due) = connected.due.take() {
            self.suppliers.due.remove(&(due, key));
        }
        if linger.is_zero() || is_pulled {
            return;
        }
        let due = (then + linger.max(LOOK_MIN)).max(self.time);
        connected.due = Some(due);
        self.suppliers.due.insert((due, key));
    }

    /// Arranges anew for a level's suppliers, because how long they may be idle has changed.
    pub(super) fn schedule_looks(&mut self, level: Level) {
        let is_below = |proxy: &&Proxy| level.includes(proxy) && proxy.side == Side::Suppliers;
        let Ok(channel) = self.hierarchy.channel(level.channel()) else { return };
        let below = channel.proxies().filter(is_below);
        let looks = below.filter_map(|proxy| {
            let key = ProxyKey { channel: channel.id(), proxy: proxy.id };
            Some((key, proxy.activity.as_ref()?.last()))
        });
        for (key, last) in looks.collect::<Vec<_>>() {
            self.schedule_look(key, last);
        }
    }

    /// Looks at those suppliers whose time has come, a few in one go.
    pub(super) fn look_at_suppliers(&mut self) {
        for _ in 0..LOOKED_AT_MAX {
            let Some(&(_, key)) = self.suppliers.due.first().filter(|(due, _)| *due <= self.time) else { return };
            let Some((standing, last)) = self.look_at(key) else {
                self.suppliers.forget(key);
                continue;
            };
            let linger = self.hierarchy.effective_supplier(key).map_or(Duration::ZERO, |found| found.supplier_linger);
            if standing.is_probed || standing.is_open {
                // It counts as heard of now, so that the next look lies ahead.
                self.schedule_look(key, self.time);
            } else if standing.idle < linger.max(LOOK_MIN) {
                self.schedule_look(key, last);
            } else {
                self.let_go(&standing);
            }
        }
    }

    fn look_at(&self, key: ProxyKey) -> Option<(SupplierStanding, Time)> {
        let last = self.hierarchy.proxy(key).ok()?.activity.as_ref()?.last();
        // So that what was heard between the two looks at it counts as well.
        let standing = self.standing(key, self.suppliers.connected.get(&key)?)?;
        Some((standing, last))
    }

    fn standing(&self, key: ProxyKey, connected: &Connected) -> Option<SupplierStanding> {
        let proxy = self.hierarchy.proxy(key).ok()?;
        let activity = proxy.activity.as_ref()?;
        let client = proxy.peer.and_then(|peer| self.clients.get(&peer));
        Some(SupplierStanding {
            key,
            address: connected.by.as_ref().map(|account| account.ip()),
            is_pulled: proxy.kind.pull,
            is_probed: client.is_some_and(|client| client.health.has_to_be_reached(&client.address)),
            is_open: connected.by.as_ref().is_some_and(|account| account.used(Resource::Connections) > 0),
            events: activity.events(),
            idle: self.time.since(activity.last()),
        })
    }

    fn let_go(&mut self, supplier: &SupplierStanding) {
        if self.disconnect(supplier.key) {
            let (proxy, address, idle) = (supplier.key, supplier.address, supplier.idle);
            self.effects.push_back(Effect::LetGo { proxy, address, idle });
        }
    }
}
