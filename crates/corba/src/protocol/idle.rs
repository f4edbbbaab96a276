//! Clients without a sign of life. A client that calls need not be reachable: without a reference, or with one at which it never was
//! reached, it cannot be asked whether it still exists, and its proxy would stay for ever when its program ends.
//!
//! Such a supplier is disconnected when nothing has come from it for `SupplierLinger` and the connection on which it connected is closed;
//! an operator may say at any time that so long was long enough. A consumer that pulls and gave no reference is disconnected when it has
//! not pulled for `GiveUpAfter`, or for `ConnectionExpiry` where its connection is persistent, none of its pulls waits, and that connection
//! is closed: events are kept for it. Lanes note the last sign of life of a client ([`engine::Activity`]); no client is asked for one.

use super::Objects;
use accounts::{Account, Resource};
use engine::{ProxyKey, Side, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Suppliers that are looked at in one go, and pull consumers; requests are served before the next.
const LOOKED_AT_MAX: usize = 64;
/// Maximum suppliers listed, or disconnected, with one call.
pub const AT_ONCE_MAX: usize = 1_024;
/// A client is not looked at more often, whatever its `SupplierLinger` or `GiveUpAfter`.
const LOOK_MIN: Duration = Duration::from_millis(100);

/// Clients that call this service and need not be reachable.
#[derive(Debug, Default)]
pub struct Idle {
    suppliers: Callers,
    /// Those that gave no reference.
    pull_consumers: Callers,
}

/// Clients of one side that are connected and call, and when they are to be looked at.
#[derive(Debug, Default)]
pub(super) struct Callers {
    connected: BTreeMap<ProxyKey, Connected>,
    due: BTreeSet<(Time, ProxyKey)>,
}

#[derive(Debug)]
struct Connected {
    /// Account that connected it.
    by: Option<Arc<Account>>,
    due: Option<Time>,
}

impl Callers {
    pub(super) fn forget(&mut self, key: ProxyKey) {
        if let Some(due) = self.connected.remove(&key).and_then(|gone| gone.due) {
            self.due.remove(&(due, key));
        }
    }

    fn next(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }
}

/// How a connected supplier stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupplierStatus {
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

impl Idle {
    /// A supplier has connected, or a consumer that pulls and gave no reference.
    pub(super) fn note_caller(&mut self, objects: &mut Objects, key: ProxyKey, side: Side) {
        let Some(activity) = objects.hierarchy.proxy(key).ok().and_then(|proxy| proxy.activity.clone()) else {
            return;
        };
        let connected = Connected { by: objects.ledger.principal.clone(), due: None };
        self.callers_mut(side).connected.insert(key, connected);
        self.schedule_look(objects, key, activity.last());
    }

    /// Looks at the clients that are due, a few in one go: gives those that were silent for too long, and are to be disconnected.
    pub(super) fn look_at_callers(&mut self, objects: &mut Objects) -> Vec<SupplierStatus> {
        let mut silent = Vec::new();
        for side in [Side::Suppliers, Side::Consumers] {
            for _ in 0..LOOKED_AT_MAX {
                let first = self.callers_mut(side).due.first().filter(|(due, _)| *due <= objects.clock.time);
                let Some(&(_, key)) = first else { break };
                match self.look_at(objects, key, side) {
                    Some((_, Some(then))) => self.schedule_look(objects, key, then),
                    looked_at => {
                        self.callers_mut(side).forget(key);
                        silent.extend(looked_at.map(|(status, _)| status));
                    }
                }
            }
        }
        silent
    }

    /// Looks at one: how it stands, and since when it counts as silent if it may go on. Nothing if it is gone.
    fn look_at(&mut self, objects: &Objects, key: ProxyKey, side: Side) -> Option<(SupplierStatus, Option<Time>)> {
        let activity = objects.hierarchy.proxy(key).ok()?.activity.as_ref()?;
        // So that what was heard between the two looks at it counts as well.
        let last = activity.last();
        let status = status(objects, key, self.callers_mut(side).connected.get(&key)?)?;
        let (_, patience) = patience(objects, key)?;
        // One that shows in another way that it lives counts as heard of now, so that the next look lies ahead.
        let lives = status.is_probed || status.is_open || activity.waits();
        let then = lives.then_some(objects.clock.time);
        let then = then.or_else(|| (status.idle < patience.max(LOOK_MIN)).then_some(last));
        Some((status, then))
    }

    /// Suppliers that cannot be asked whether they exist and were not heard of for so long; a number of them at most.
    pub(super) fn idle_suppliers(&self, objects: &Objects, idle_for: Duration) -> Vec<SupplierStatus> {
        let is_idle = |supplier: &SupplierStatus| !supplier.is_probed && supplier.idle >= idle_for;
        self.suppliers(objects, None).filter(is_idle).take(AT_ONCE_MAX).collect()
    }

    /// When the first of them is to be looked at.
    pub(super) fn next(&self) -> Option<Time> {
        self.suppliers.next().into_iter().chain(self.pull_consumers.next()).min()
    }

    pub(super) fn callers_mut(&mut self, side: Side) -> &mut Callers {
        match side {
            Side::Suppliers => &mut self.suppliers,
            Side::Consumers => &mut self.pull_consumers,
        }
    }

    /// Arranges for when a client is to be looked at: when it has not been heard of for so long since `then`.
    pub(super) fn schedule_look(&mut self, objects: &mut Objects, key: ProxyKey, then: Time) {
        let (Some((side, patience)), now) = (patience(objects, key), objects.clock.time) else { return };
        let callers = self.callers_mut(side);
        let Some(connected) = callers.connected.get_mut(&key) else { return };
        if let Some(due) = connected.due.take() {
            callers.due.remove(&(due, key));
        }
        if patience.is_zero() {
            return;
        }
        let due = (then + patience.max(LOOK_MIN)).max(now);
        connected.due = Some(due);
        callers.due.insert((due, key));
    }

    /// The suppliers that are connected, by channel and proxy, behind one of them if that is said.
    pub fn suppliers(&self, objects: &Objects, behind: Option<ProxyKey>) -> impl Iterator<Item = SupplierStatus> {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.suppliers.connected.range((from, Bound::Unbounded));
        range.filter_map(|(key, connected)| status(objects, *key, connected))
    }
}

/// How long a client may be silent; nothing if for ever.
fn patience(objects: &Objects, key: ProxyKey) -> Option<(Side, Duration)> {
    let proxy = objects.hierarchy.proxy(key).ok()?;
    let patience = match proxy.side {
        Side::Suppliers if proxy.kind.pull => Duration::ZERO,
        Side::Suppliers => objects.hierarchy.effective_supplier(key).ok()?.supplier_linger,
        Side::Consumers => objects.hierarchy.effective(key).ok()?.gives_up_after(),
    };
    Some((proxy.side, patience))
}

fn status(objects: &Objects, key: ProxyKey, connected: &Connected) -> Option<SupplierStatus> {
    let proxy = objects.hierarchy.proxy(key).ok()?;
    let activity = proxy.activity.as_ref()?;
    let client = proxy.peer.and_then(|peer| objects.clients.by_peer.get(&peer));
    Some(SupplierStatus {
        key,
        address: connected.by.as_ref().map(|account| account.ip()),
        is_pulled: proxy.kind.pull,
        is_probed: client.is_some_and(|client| client.health.has_to_be_reached(&client.address)),
        is_open: connected.by.as_ref().is_some_and(|account| account.used(Resource::Connections) > 0),
        events: activity.events(),
        idle: objects.clock.time.since(activity.last()),
    })
}
