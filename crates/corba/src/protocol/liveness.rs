//! Detection and disconnection of clients that do not exist any more, by probes or by their silence.
//!
//! Probes: clients are called from time to time to ask whether they exist (`_non_existent`).
//!
//! A client is dead if it says so, if its server says `OBJECT_NOT_EXIST`, or if it could not be reached for `GiveUpAfter` without
//! interruption. Any other exception is a sign of life. A client that does not answer in time is neither dead nor alive: it may be busy.
//! One that only calls this service (a supplier that pushes, a consumer that pulls) need not be reachable at all: its calls show that it
//! lives, and it is dead only if it has not used its proxy for `GiveUpAfter` either. A client that was never reached, as behind a firewall,
//! has more time: as long as its connection to this service is open, and a week for a supplier, since pushing once a day is not unusual,
//! and its proxy costs nothing per event. Clients without a reference cannot be probed; their silence is measured instead. Proxies without
//! a connected client stay until they are destroyed.
//!
//! A client that has been unreachable for a minute, but is not disconnected yet, is announced once per episode: with a persistent
//! connection it has days, while its backlog grows.
//!
//! In any case a client is probed at most once per interval. So its next probe is always in the future, and administration finishes: at a
//! fixed time the number of due clients only decreases.
//!
//! Silence: a calling client need not be reachable: without a reference, or with one that never worked, it cannot be probed, and its proxy
//! would stay for ever when its program ends.
//!
//! Such a supplier is disconnected when it has sent nothing for `SupplierLinger` and its connection is closed; an operator may disconnect
//! such suppliers at any time, after any silence. A consumer that pulls and gave no reference is disconnected when it has not pulled for
//! `GiveUpAfter`, or for `ConnectionExpiry` where its connection is persistent, none of its pulls waits, and that connection is closed:
//! events are kept for it. Lanes note the last sign of life of a client ([`engine::Activity`]); no client is asked for one.

use super::{CallPurpose, ClientAnswer, ClientCall, Effect, Objects, PeerAddress};
use crate::table::{AdminKey, Level};
use accounts::{Account, Resource};
use engine::{AdminId, ChannelId, Peer, ProxyId, ProxyKey, Side, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of unanswered probes; further ones wait.
const PROBES_MAX: usize = 64;
/// Time since the last sign of life in which a push supplier that was never reached does not count as dead.
const QUIET_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Maximum clients checked in one go; other requests are served in between.
const LOOKED_AT_MAX: usize = 64;
/// Time out of reach after which a client is announced.
const ANNOUNCED_AFTER: Duration = Duration::from_secs(60);

/// Clients to probe, by time.
#[derive(Debug, Default)]
pub struct Probes {
    due: BTreeSet<(Time, Peer)>,
    unanswered: usize,
    /// Number of clients announced as unreachable.
    announced: usize,
}

/// The result of a probe.
#[derive(Clone, Copy, Debug)]
pub(super) enum Probed {
    Alive,
    /// The client is dead: by its own answer, or after this time unreachable.
    Dead(Option<Duration>),
    Unknown,
}

/// A client's health, by its probes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Health {
    /// When it is due for a probe; `None` during one, or if it never is.
    due: Option<Time>,
    probe_pending: bool,
    /// Time of its last probe, or of its connection.
    last_probed: Time,
    /// Time of the first of its consecutive failed probes.
    unreachable_since: Option<Time>,
    /// Whether it was ever reached.
    was_reached: bool,
    /// Time of its last answer.
    heard: Option<Time>,
    /// Whether it is announced as unreachable.
    is_announced: bool,
}

impl Health {
    /// Time of its last answer.
    pub(super) const fn heard(&self) -> Option<Time> {
        self.heard
    }

    /// Since when it has been unreachable, if it is.
    pub(super) const fn unreachable_since(&self) -> Option<Time> {
        self.unreachable_since
    }

    /// Time for which it has been unreachable, if announced.
    pub(super) fn announced_for(&self, now: Time) -> Option<Duration> {
        self.unreachable_since.filter(|_| self.is_announced).map(|since| now.since(since))
    }

    /// Whether an unreachable client is dead: it has to be called, or was reached before.
    pub(super) fn has_to_be_reached(&self, address: &PeerAddress) -> bool {
        self.was_reached || !address.operation.is_empty()
    }
}

impl Probes {
    pub(super) fn forget(&mut self, peer: Peer, health: Health) {
        if let Some(due) = health.due {
            self.due.remove(&(due, peer));
        }
        if health.probe_pending {
            self.unanswered = self.unanswered.saturating_sub(1);
        }
        self.announced = self.announced.saturating_sub(health.is_announced.into());
    }

    /// Arranges for a client's next probe.
    pub(super) fn schedule(&mut self, objects: &mut Objects, peer: Peer) {
        let Some(client) = objects.clients.by_peer.get(&peer) else { return };
        let Some(Pace { interval, .. }) = pace(objects, client.proxy) else { return };
        let Some(client) = objects.clients.by_peer.get_mut(&peer) else { return };
        let health = &mut client.health;
        if let Some(due) = health.due.take() {
            self.due.remove(&(due, peer));
        }
        if interval.is_zero() || health.probe_pending {
            return;
        }
        // Ahead of the time at which it was asked last, and of nothing else: a client that is not due sooner for having failed cannot be
        // due at once for ever. It is behind the present only if the interval has just become shorter, and then once.
        let due = (health.last_probed + interval.max(INTERVAL_MIN)).max(objects.clock.time);
        health.due = Some(due);
        self.due.insert((due, peer));
    }

    /// Notes a connected client, which is no sign yet that it can be reached.
    pub(super) fn begin_probes(&mut self, objects: &mut Objects, peer: Peer) {
        if let Some(client) = objects.clients.by_peer.get_mut(&peer) {
            client.health.last_probed = objects.clock.time;
            self.schedule(objects, peer);
        }
    }

    fn probe(&mut self, objects: &mut Objects, peer: Peer) {
        let Some(client) = objects.clients.by_peer.get_mut(&peer) else { return };
        client.health.due = None;
        client.health.last_probed = objects.clock.time;
        if client.notifying.has_pending_call() {
            // It is being called already; that shows as much.
            return self.schedule(objects, peer);
        }
        client.health.probe_pending = true;
        let (to, by) = (client.address.ior.clone(), client.address.by.clone());
        let (client_call, offered) = (ClientCall(CallPurpose::Probe(peer)), Some(Arc::clone(&client.address.offered)));
        let (operation, body) = ("_non_existent", Vec::new());
        objects.effects.push_back(Effect::Ask { client_call, to, by, offered, operation, body });
        self.unanswered += 1;
    }

    /// Announces an unreachable client once per episode, and what will happen to it.
    fn announce(&mut self, objects: &mut Objects, peer: Peer, failing: Duration, give_up_after: Duration) {
        let Some(client) = objects.clients.by_peer.get_mut(&peer).filter(|client| !client.health.is_announced) else {
            return;
        };
        client.health.is_announced = true;
        self.announced += 1;
        let (proxy, name) = (client.proxy, client.address.name.clone());
        let left = Some(give_up_after.saturating_sub(failing)).filter(|_| !give_up_after.is_zero());
        objects.effects.push_back(Effect::Unreachable { proxy, name, unreachable_for: failing, left });
    }

    pub(super) fn ask_who_is_due(&mut self, objects: &mut Objects) {
        for _ in 0..LOOKED_AT_MAX {
            if self.unanswered >= PROBES_MAX {
                break;
            }
            let Some(&(due, peer)) = self.due.first() else { break };
            if due > objects.clock.time {
                break;
            }
            self.due.remove(&(due, peer));
            self.probe(objects, peer);
        }
    }

    /// When the first probe is due; `None` while the maximum number of probes is under way, until an answer.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.first().filter(|_| self.unanswered < PROBES_MAX).map(|(due, _)| *due)
    }

    /// Handles the result of a probe. `None` if the client was not being probed.
    pub(super) fn probed(&mut self, objects: &mut Objects, peer: Peer, answer: ClientAnswer) -> Option<Probed> {
        let client = objects.clients.by_peer.get_mut(&peer)?;
        if !core::mem::take(&mut client.health.probe_pending) {
            return None;
        }
        self.unanswered = self.unanswered.saturating_sub(1);
        Some(match answer {
            ClientAnswer::Gone | ClientAnswer::Returned(Some(true)) => Probed::Dead(None),
            ClientAnswer::Unreachable => self.unreachable(objects, peer),
            ClientAnswer::TimedOut => {
                self.schedule(objects, peer);
                Probed::Unknown
            }
            ClientAnswer::Returned(_) | ClientAnswer::NotImplemented | ClientAnswer::Raised => {
                client.health.was_reached = true;
                client.health.heard = Some(objects.clock.time);
                let since = client.health.unreachable_since.take();
                if core::mem::take(&mut client.health.is_announced) {
                    let (proxy, name) = (client.proxy, client.address.name.clone());
                    let after = objects.clock.time.since(since.unwrap_or(objects.clock.time));
                    self.announced = self.announced.saturating_sub(1);
                    objects.effects.push_back(Effect::Reached { proxy, name, after });
                }
                self.schedule(objects, peer);
                Probed::Alive
            }
        })
    }

    fn unreachable(&mut self, objects: &mut Objects, peer: Peer) -> Probed {
        let now = objects.clock.time;
        let Some(client) = objects.clients.by_peer.get_mut(&peer) else { return Probed::Unknown };
        let since = *client.health.unreachable_since.get_or_insert(client.health.last_probed);
        let key = client.proxy;
        let Some(Pace { give_up_after, .. }) = pace(objects, key) else { return Probed::Unknown };
        let failing = now.since(since);
        if !give_up_after.is_zero() && failing >= give_up_after && is_silent(objects, peer, give_up_after) {
            return Probed::Dead(Some(failing));
        }
        if failing >= ANNOUNCED_AFTER && is_silent(objects, peer, ANNOUNCED_AFTER) {
            self.announce(objects, peer, failing, give_up_after);
        }
        self.schedule(objects, peer);
        Probed::Unknown
    }

    /// Number of clients announced as unreachable.
    #[must_use]
    pub const fn unreachable_clients(&self) -> usize {
        self.announced
    }
}

/// Minimum time between probes of a client, whatever its `ProbeInterval`.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// A client's probe interval, and how long it may be unreachable; zero means never and for ever.
#[derive(Clone, Copy, Debug)]
struct Pace {
    interval: Duration,
    give_up_after: Duration,
}

/// Whether an unreachable client shows no other sign of life.
fn is_silent(objects: &Objects, peer: Peer, give_up_after: Duration) -> bool {
    let Some(client) = objects.clients.by_peer.get(&peer).filter(|client| client.address.operation.is_empty()) else {
        return true;
    };
    let proxy = objects.hierarchy.proxy(client.proxy).ok();
    let Some(activity) = proxy.and_then(|proxy| proxy.activity.as_ref()) else { return true };
    let was_reached = client.health.was_reached;
    let is_open = || client.address.by.as_ref().is_some_and(|account| account.used(Resource::Connections) > 0);
    if activity.waits() || (!was_reached && is_open()) {
        return false;
    }
    let quiet_max = if was_reached || client.side == Side::Consumers { Duration::ZERO } else { QUIET_MAX };
    objects.clock.time.since(activity.last()) >= give_up_after.max(quiet_max)
}

fn pace(objects: &Objects, key: ProxyKey) -> Option<Pace> {
    let settings = objects.hierarchy.effective(key).ok()?;
    Some(Pace { interval: settings.probe_interval, give_up_after: settings.gives_up_after() })
}

/// Maximum proxies checked before other requests are served.
const RESCHEDULED_AT_ONCE: usize = 256;

/// A channel, or one of its admins.
type Whose = (ChannelId, Option<(Side, AdminId)>);

/// Channels and admins with proxies that need new due times.
///
/// The probe intervals and idle limits of 65,536 clients can be changed with one request: their due times are computed in chunks, between
/// other clients' requests.
#[derive(Debug, Default)]
pub(super) struct Rescheduling {
    /// Levels to process, each with the proxy processed last.
    waiting: VecDeque<(Whose, Option<ProxyId>)>,
    /// Levels of which no proxy was processed yet.
    fresh: BTreeSet<Whose>,
}

impl Rescheduling {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Handles a change of a level's probe interval, or of its suppliers' idle limit.
    pub(super) fn reschedule(&mut self, level: Level, objects: &mut Objects, probes: &mut Probes, idle: &mut Idle) {
        let whose = match level {
            Level::Channel(channel) => (channel, None),
            Level::Admin(AdminKey { channel, side, admin }) => (channel, Some((side, admin))),
            Level::Proxy(key, _) => return reschedule_proxy(key, objects, probes, idle),
        };
        // Where all are looked at already, those that were looked at are looked at once more.
        if self.fresh.insert(whose) {
            self.waiting.push_back((whose, None));
        }
        self.go_on(objects, probes, idle);
    }

    /// Processes a chunk.
    pub(super) fn go_on(&mut self, objects: &mut Objects, probes: &mut Probes, idle: &mut Idle) {
        let Some((whose, behind)) = self.waiting.pop_front() else { return };
        if behind.is_none() {
            self.fresh.remove(&whose);
        }
        let (channel, admin) = whose;
        let batch = objects.hierarchy.some_proxies(channel, admin, behind, RESCHEDULED_AT_ONCE);
        let batch: Vec<ProxyId> = batch.into_iter().map(|proxy| proxy.id).collect();
        for proxy in &batch {
            reschedule_proxy(ProxyKey { channel, proxy: *proxy }, objects, probes, idle);
        }
        if batch.len() == RESCHEDULED_AT_ONCE {
            self.waiting.push_back((whose, batch.last().copied()));
        }
    }
}

fn reschedule_proxy(key: ProxyKey, objects: &mut Objects, probes: &mut Probes, idle: &mut Idle) {
    let Ok(proxy) = objects.hierarchy.proxy(key) else { return };
    let (peer, last) = (proxy.peer, proxy.activity.as_ref().map(engine::Activity::last));
    if let Some(peer) = peer {
        probes.schedule(objects, peer);
    }
    if let Some(last) = last {
        idle.schedule_look(objects, key, last);
    }
}

/// Maximum suppliers, and pull consumers, checked in one go; other requests are served in between.
const CALLERS_LOOKED_AT_MAX: usize = 64;
/// Maximum suppliers listed, or disconnected, with one call.
pub const AT_ONCE_MAX: usize = 1_024;
/// Minimum time between checks of a client, whatever its `SupplierLinger` or `GiveUpAfter`.
const LOOK_MIN: Duration = Duration::from_millis(100);

/// Calling clients, which need not be reachable.
#[derive(Debug, Default)]
pub struct Idle {
    suppliers: Callers,
    /// Pull consumers without a reference.
    pull_consumers: Callers,
}

/// Calling clients of one side, and when each is due for a check.
#[derive(Debug, Default)]
pub(super) struct Callers {
    connected: BTreeMap<ProxyKey, Connected>,
    due: BTreeSet<(Time, ProxyKey)>,
}

#[derive(Debug)]
struct Connected {
    /// Account that connected the client.
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

/// Status of a connected supplier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupplierStatus {
    /// The supplier's proxy.
    pub key: ProxyKey,
    /// The name that stays when the supplier connects again: the proxy's own, or the client's.
    pub lasting_name: Option<Arc<str>>,
    /// Its address when it connected.
    pub address: Option<IpAddr>,
    /// Whether its events are pulled. It pushes them otherwise.
    pub is_pulled: bool,
    /// Whether its death is detected by probes: it gave a reference at which it was reached, or has to be.
    pub is_probed: bool,
    /// Whether its connection is open.
    pub is_open: bool,
    /// Events that came from it.
    pub events: u64,
    /// Time since its last sign of life: its connection, or an event.
    pub idle: Duration,
}

impl Idle {
    /// Notes a connected supplier, or a pull consumer without a reference.
    pub(super) fn note_caller(&mut self, objects: &mut Objects, key: ProxyKey, side: Side) {
        let Some(activity) = objects.hierarchy.proxy(key).ok().and_then(|proxy| proxy.activity.clone()) else {
            return;
        };
        let connected = Connected { by: objects.ledger.principal.clone(), due: None };
        self.callers_mut(side).connected.insert(key, connected);
        self.schedule_look(objects, key, activity.last());
    }

    /// Checks some of the due clients: returns those silent for too long, to be disconnected.
    pub(super) fn look_at_callers(&mut self, objects: &mut Objects) -> Vec<SupplierStatus> {
        let mut silent = Vec::new();
        for side in [Side::Suppliers, Side::Consumers] {
            for _ in 0..CALLERS_LOOKED_AT_MAX {
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

    /// Checks one client: its status, and since when it will count as silent if it stays. `None` if it is gone.
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

    /// Suppliers that cannot be probed and have been silent for so long, up to a maximum.
    pub(super) fn idle_suppliers(&self, objects: &Objects, idle_for: Duration) -> Vec<SupplierStatus> {
        let is_idle = |supplier: &SupplierStatus| !supplier.is_probed && supplier.idle >= idle_for;
        self.suppliers(objects, None).filter(is_idle).take(AT_ONCE_MAX).collect()
    }

    /// When the first check is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.suppliers.next().into_iter().chain(self.pull_consumers.next()).min()
    }

    pub(super) fn callers_mut(&mut self, side: Side) -> &mut Callers {
        match side {
            Side::Suppliers => &mut self.suppliers,
            Side::Consumers => &mut self.pull_consumers,
        }
    }

    /// Schedules the check of a client: when it will have been silent for too long since `then`.
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

    /// The connected suppliers, by channel and proxy, from behind a given one.
    pub fn suppliers(&self, objects: &Objects, behind: Option<ProxyKey>) -> impl Iterator<Item = SupplierStatus> {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.suppliers.connected.range((from, Bound::Unbounded));
        range.filter_map(|(key, connected)| status(objects, *key, connected))
    }
}

/// Time that a client may be silent; `None` for ever.
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
        lasting_name: objects.lasting_name(key),
        address: connected.by.as_ref().map(|account| account.ip()),
        is_pulled: proxy.kind.pull,
        is_probed: client.is_some_and(|client| client.health.has_to_be_reached(&client.address)),
        is_open: connected.by.as_ref().is_some_and(|account| account.used(Resource::Connections) > 0),
        events: activity.events(),
        idle: objects.clock.time.since(activity.last()),
    })
}
