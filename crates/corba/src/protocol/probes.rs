//! Probes: clients are asked from time to time whether they still exist (`_non_existent`), and those that do not are
//! disconnected.
//!
//! A client is dead if it says so, if its server says `OBJECT_NOT_EXIST`, or if it could not be reached for `GiveUpAfter`
//! without interruption. Any other exception is a sign of life. A client that does not answer in time is neither: it may
//! be busy. One that only calls this service (a supplier that pushes, a consumer that pulls) need not be reachable at all: it
//! shows by its calls that it lives, and is dead if it has not used its proxy for `GiveUpAfter` either. One that never was
//! reached, since it is behind a wall, has more time: as long as the connection is open on which it connected, and if it is a
//! supplier a week, since one that pushes once a day is nothing out of the ordinary, and its proxy costs no event anything.
//! Clients that gave no reference cannot be asked; they are found out by their [silence](super::idle). Proxies without a connected client
//! stay until they are destroyed.
//!
//! A client that was out of reach for a minute, and is not disconnected for that yet, is announced, once in each episode: where connections
//! are persistent it has days, and all that while its backlog grows.
//!
//! Whatever happened, a client is asked once in its interval at most. So its next probe always lies ahead, and administration finishes: the
//! number of clients that are due only gets smaller while the time stands still.

use super::clients::Tell;
use super::{CallPurpose, ClientAnswer, ClientCall, Effect, Objects, PeerAddress, Protocol};
use accounts::Resource;
use engine::{Peer, ProxyKey, Side, Time};
use std::collections::BTreeSet;
use std::time::Duration;

/// Probes that may be unanswered at once; more wait.
const PROBES_MAX: usize = 64;
/// A supplier that pushes and was never reached is not taken for dead as long as it was heard of within this time.
const QUIET_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Clients that are looked at in one go; requests are served before the next.
const LOOKED_AT_MAX: usize = 64;
/// Time out of reach after which a client is announced.
const ANNOUNCED_AFTER: Duration = Duration::from_secs(60);

/// Clients to probe, by time.
#[derive(Debug, Default)]
pub struct Probes {
    due: BTreeSet<(Time, Peer)>,
    unanswered: usize,
    /// Clients that are announced to be out of reach.
    announced: usize,
}

/// How a client stands with its probes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Health {
    /// When it is to be asked; nothing while it is being asked, or never is.
    due: Option<Time>,
    probe_pending: bool,
    /// When it was last asked, or connected.
    last_probed: Time,
    /// When it was asked for the first time of those in a row at which it could not be reached.
    unreachable_since: Option<Time>,
    /// Whether it could ever be reached.
    was_reached: bool,
    /// When it last answered.
    heard: Option<Time>,
    /// Whether it is announced to be out of reach.
    is_announced: bool,
}

impl Health {
    /// When it last answered.
    pub(super) const fn heard(&self) -> Option<Time> {
        self.heard
    }

    /// Since when it could not be reached, if it cannot.
    pub(super) const fn unreachable_since(&self) -> Option<Time> {
        self.unreachable_since
    }

    /// Whether one that cannot be reached is dead: since it has to be called, or was reached before.
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

    /// Takes note that a client connected, which is no sign yet that it can be reached.
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
        let client_call = ClientCall(CallPurpose::Probe(peer));
        objects.effects.push_back(Effect::Ask { client_call, to, by, operation: "_non_existent", body: Vec::new() });
        self.unanswered += 1;
    }

    /// Says once in each episode that a client cannot be reached, and what becomes of it.
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

    fn ask_who_is_due(&mut self, objects: &mut Objects) {
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

    /// How many clients are announced to be out of reach.
    #[must_use]
    pub const fn unreachable_clients(&self) -> usize {
        self.announced
    }
}

/// A client is not asked more often, whatever its `ProbeInterval`.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// How often a client is asked, and how long it may be unreachable; zero is never and for ever.
#[derive(Clone, Copy, Debug)]
struct Pace {
    interval: Duration,
    give_up_after: Duration,
}

impl Objects {
    /// For how long the client of a proxy has been out of reach, if that is announced.
    #[must_use]
    pub fn unreachable_for(&self, key: ProxyKey) -> Option<Duration> {
        let health = &self.clients.by_peer.get(&self.hierarchy.proxy(key).ok()?.peer?)?.health;
        health.unreachable_since.filter(|_| health.is_announced).map(|since| self.clock.time.since(since))
    }
}

impl Protocol {
    /// Takes note of the time, and does what is due: a few clients are asked, and if there are more, [`Protocol::poll_timeout`] says that it is
    /// to be called again at once.
    pub fn handle_time(&mut self, now: Time) {
        self.objects.clock.time = self.objects.clock.time.max(now);
        self.go_on_taking_apart();
        self.go_on_rescheduling();
        self.probes.ask_who_is_due(&mut self.objects);
        self.look_at_callers();
        self.objects.tell_reconnected();
        self.delayed_replies.handle_time(self.objects.clock.time);
    }

    /// When [`Protocol::handle_time`] has to be called next, if nothing else happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.objects.hierarchy.has_work() || !self.rescheduling.is_empty() || self.changes.has_more_to_tell() {
            return Some(self.objects.clock.time);
        }
        // While as many are being asked as may be, the next answer is what is waited for.
        let first = self.probes.due.first().filter(|_| self.probes.unanswered < PROBES_MAX);
        first
            .map(|(due, _)| *due)
            .into_iter()
            .chain(self.idle.next())
            .chain(self.delayed_replies.next())
            .chain(self.objects.reconnection.next())
            .min()
    }

    /// A client has answered a probe, or not.
    pub(super) fn probed(&mut self, peer: Peer, answer: ClientAnswer) {
        let Some(client) = self.objects.clients.by_peer.get_mut(&peer) else { return };
        if !core::mem::take(&mut client.health.probe_pending) {
            return;
        }
        self.probes.unanswered = self.probes.unanswered.saturating_sub(1);
        match answer {
            ClientAnswer::Gone | ClientAnswer::Returned(Some(true)) => self.reap(peer, None),
            ClientAnswer::Unreachable => self.unreachable(peer),
            ClientAnswer::TimedOut => self.probes.schedule(&mut self.objects, peer),
            ClientAnswer::Returned(_) | ClientAnswer::NotImplemented | ClientAnswer::Raised => {
                client.health.was_reached = true;
                client.health.heard = Some(self.objects.clock.time);
                let since = client.health.unreachable_since.take();
                if core::mem::take(&mut client.health.is_announced) {
                    let (proxy, name) = (client.proxy, client.address.name.clone());
                    let after = self.objects.clock.time.since(since.unwrap_or(self.objects.clock.time));
                    self.probes.announced = self.probes.announced.saturating_sub(1);
                    self.objects.effects.push_back(Effect::Reached { proxy, name, after });
                }
                self.probes.schedule(&mut self.objects, peer);
                self.changes.queue_notification(&mut self.objects, peer);
                self.changes.tell_waiting(&mut self.objects);
            }
        }
        self.probes.ask_who_is_due(&mut self.objects);
    }

    fn unreachable(&mut self, peer: Peer) {
        let now = self.objects.clock.time;
        let Some(client) = self.objects.clients.by_peer.get_mut(&peer) else { return };
        let since = *client.health.unreachable_since.get_or_insert(client.health.last_probed);
        let key = client.proxy;
        let Some(Pace { give_up_after, .. }) = pace(&self.objects, key) else { return };
        let failing = now.since(since);
        if !give_up_after.is_zero() && failing >= give_up_after && is_silent(&self.objects, peer, give_up_after) {
            return self.reap(peer, Some(failing));
        }
        if failing >= ANNOUNCED_AFTER && is_silent(&self.objects, peer, ANNOUNCED_AFTER) {
            self.probes.announce(&mut self.objects, peer, failing, give_up_after);
        }
        self.probes.schedule(&mut self.objects, peer);
    }

    /// Disconnects a client that is dead: at once, or after it was unreachable for so long. It is not notified.
    pub(super) fn reap(&mut self, peer: Peer, unreachable_for: Option<Duration>) {
        let Some(client) = self.objects.clients.by_peer.get(&peer) else { return };
        let (proxy, name) = (client.proxy, client.address.name.clone());
        match self.objects.hierarchy.destroy_proxy(proxy) {
            Ok(removed) => {
                self.forget(&removed, Tell::No);
                self.objects.effects.push_back(Effect::Reaped { proxy, name, unreachable_for });
            }
            Err(refusal) => log::debug!(target: "campanile::corba", "nothing to disconnect: {refusal}"),
        }
    }
}

/// Whether one that cannot be reached shows in no other way either that it lives.
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
