//! Take-over: a reconnecting client continues at the proxy of its earlier process.
//!
//! A program that died and was restarted connects its object to a new proxy, as programs written for other servers do, and its earlier
//! proxy, with the same object, would go on calling it: it would get each event once per life. So the earlier proxy gives way if channel,
//! side, admin, kind and reference agree, both select the same events, the requesting client may change it (and owns it, if either life is
//! called over a connection that it made), and there is evidence that the earlier process has ended: deliveries to it fail, it cannot be
//! reached, the connection for calls to it has ended without `CloseConnection` (servers send one before they close, and clients on one
//! that they offered for calls), or its own connection was cut off. The client then continues at the earlier proxy, with its backlog, the
//! new one's settings and filters, and both keys; if that is impossible, the earlier proxy is dropped, and its key leads to the new one.
//!
//! A client that closes any other connection of its own is no evidence, as ORBs do so with idle ones. A client that has used its proxy
//! since is not dead, whatever happened to its connection. After a start of the service itself, which has ended all connections, the
//! reference alone suffices, for an hour.

use super::clients::{Client, Tell, side_name};
use super::offers::Offer;
use super::{Named, Objects, Protocol, Thing};
use crate::exceptions::Raised;
use crate::log_lines::log_line;
use crate::proxy_kind::ProxyKind;
use crate::table::{AdminKey, Level};
use engine::{ChannelId, FilterId, FilterRef, HierarchyPart, Proxy, ProxyKey, ProxyState, Side, Time};
use giop::ior::Ior;
use hashbrown::HashMap;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use topology as t;

/// Time after the start in which a client with the reference of an earlier one counts as its successor. Deliveries to the earlier one do
/// not rule that out: the object is the same.
const ANEW_WITHIN: Duration = Duration::from_secs(3_600);
/// Maximum addresses with a remembered death. Beyond that the oldest is forgotten.
const DEATHS_MAX: usize = 4_096;
/// Maximum earlier proxies that give way at once.
const AT_ONCE_MAX: usize = 64;

/// A client's connection, with its evidence of the client's death.
#[derive(Debug, Default)]
pub struct Line {
    /// Time of death in nanoseconds of the service's time; 0 while alive.
    died_at: AtomicU64,
    /// Whether events go over it to some client, or come from one that is pulled from.
    carries: AtomicBool,
}

impl Line {
    /// Notes that it ended as the connection of a dying process does.
    pub fn note_death(&self, now: Time) {
        self.died_at.store(now.0.max(1), Ordering::Relaxed);
    }

    /// Notes that a client is called over it for events.
    pub(super) fn note_carries(&self) {
        self.carries.store(true, Ordering::Relaxed);
    }

    /// Whether some client has been called over it for events.
    #[must_use]
    pub fn carries(&self) -> bool {
        self.carries.load(Ordering::Relaxed)
    }

    fn died_at(&self) -> Option<Time> {
        Some(Time(self.died_at.load(Ordering::Relaxed))).filter(|at| *at > Time(0))
    }
}

/// Proxies with clients that gave references, by channel, side and a hash of the reference.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<(ChannelId, Side, u64), BTreeSet<ProxyKey>>);

impl Known {
    fn known(channel: ChannelId, side: Side, reference: &Ior) -> (ChannelId, Side, u64) {
        let mut hasher = DefaultHasher::new();
        reference.hash(&mut hasher);
        (channel, side, hasher.finish())
    }

    /// Notes a connected or restored client.
    pub(super) fn note(&mut self, key: ProxyKey, side: Side, reference: &Ior) {
        if reference.iiop().is_some() {
            self.0.entry(Self::known(key.channel, side, reference)).or_default().insert(key);
        }
    }

    pub(super) fn forget(&mut self, key: ProxyKey, side: Side, reference: &Ior) {
        let known = Self::known(key.channel, side, reference);
        if let Some(keys) = self.0.get_mut(&known) {
            keys.remove(&key);
            if keys.is_empty() {
                self.0.remove(&known);
            }
        }
    }

    /// The proxy of a reconnecting client: of several with its reference the newest.
    fn last(&self, channel: ChannelId, side: Side, reference: &Ior) -> Option<ProxyKey> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&Self::known(channel, side, reference))?.last().copied()
    }

    /// Proxies with a reference, or with one of the same hash.
    fn of(&self, channel: ChannelId, side: Side, reference: &Ior) -> impl Iterator<Item = ProxyKey> {
        self.0.get(&Self::known(channel, side, reference)).into_iter().flatten().copied()
    }
}

/// When a connection to an address last ended as that of a dying process does.
#[derive(Debug, Default)]
struct Deaths {
    at: HashMap<(String, u16), Time>,
    in_order: VecDeque<(String, u16)>,
}

impl Deaths {
    fn note(&mut self, address: (String, u16), now: Time) {
        if self.at.insert(address.clone(), now).is_none() {
            self.in_order.push_back(address);
        }
        if self.in_order.len() > DEATHS_MAX
            && let Some(first) = self.in_order.pop_front()
        {
            self.at.remove(&first);
        }
    }

    fn of(&self, reference: &Ior) -> Option<Time> {
        let profile = reference.iiop()?;
        // Few have died, as a rule none.
        if self.at.is_empty() { None } else { self.at.get(&(profile.host.clone(), profile.port)).copied() }
    }
}

/// A proxy restored together with its connected client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredClient {
    /// The proxy.
    pub key: ProxyKey,
    /// Time since its client's last sign of life: an event supplied, a pull, or its answer to a probe. `None` if there was none since the
    /// process began. Deliveries to a push consumer do not count here.
    pub heard: Option<Duration>,
}

/// State of clients' earlier and current processes.
#[derive(Debug, Default)]
pub struct Lives {
    /// Restored clients that have not reconnected.
    pub(super) restored: Known,
    /// All connected clients with a reference.
    pub(super) known: Known,
    /// Addresses of died clients.
    deaths: Deaths,
    /// Proxies restored together with their clients.
    pub(super) former: BTreeSet<ProxyKey>,
    /// Proxies given up by a lane, but not removed yet. No client can continue at one, since its outbox is dead.
    pub(super) given_up: BTreeSet<ProxyKey>,
    /// The connection of the current request, if known.
    pub(super) line: Option<Arc<Line>>,
    /// What the client has offered on it.
    pub(super) offer: Option<Arc<Offer>>,
    /// Addresses of clients that cannot be called and have offered no connection, each reported.
    pub(super) hidden: BTreeSet<IpAddr>,
}

impl Protocol {
    /// Proxies of earlier processes of a client, which give way once it is connected to another one: that of the last process before a
    /// restart comes first.
    pub(super) fn earlier_lives(&mut self, key: ProxyKey, side: Side, client: &Ior) -> Vec<ProxyKey> {
        let mut earlier: Vec<ProxyKey> =
            self.lives.life_before_restart(&self.objects, key, side, client).into_iter().collect();
        let others = self.lives.known.of(key.channel, side, client).filter(|other| *other != key);
        let others: Vec<ProxyKey> =
            others.filter(|other| reference_of(&self.objects, *other) == Some(client)).collect();
        for other in others.into_iter().take(AT_ONCE_MAX).filter(|other| !earlier.contains(other)).collect::<Vec<_>>() {
            match self.stays(other, key) {
                None => earlier.push(other),
                Some(why) => {
                    log_line!(Info, "proxy {} has the same client as {other}, which stays: {why}", key.proxy.0)
                }
            }
        }
        earlier
    }

    /// Places of `MaxConsumers` or `MaxSuppliers` that may be freed for a client that obtains a proxy, when it connects: those of similar
    /// proxies of earlier processes, or possibly so since they were restored, and that of the proxy that gives it its name. Only the
    /// connection shows whether the client is a returning one.
    pub(super) fn places_left(&self, admin: AdminKey, kind: ProxyKind, name: Option<&str>) -> u32 {
        let AdminKey { channel: id, side, admin } = admin;
        let Ok(channel) = self.objects.hierarchy.channel(id) else { return 0 };
        // Few channels have a limit, and fewer are full.
        if !channel.is_full(side) {
            return 0;
        }
        let namesake = name
            .and_then(|name| self.objects.names.proxy_named(id, side, name))
            .map(|proxy| ProxyKey { channel: id, proxy });
        let takes_over = self.objects.compatibility().take_over;
        let may_leave = |proxy: &&Proxy| {
            let key = ProxyKey { channel: id, proxy: proxy.id };
            let alike =
                (proxy.side, proxy.admin) == (side, admin) && self.objects.proxies.kinds.get(&key) == Some(&kind);
            let over = || {
                self.lives.is_over(&self.objects, proxy)
                    || (self.objects.clock.time <= Time::default() + ANEW_WITHIN && self.lives.former.contains(&key))
            };
            proxy.state != ProxyState::Unconnected && (namesake == Some(key) || (takes_over && alike && over()))
        };
        u32::try_from(channel.proxies().filter(may_leave).count()).unwrap_or(u32::MAX)
    }

    /// Removes the proxies of a client's earlier processes, now that it is connected to another one.
    pub(super) fn take_over(&mut self, key: ProxyKey, side: Side, client: &Ior, earlier: &[ProxyKey]) {
        if let Some(former) = self.lives.restored.last(key.channel, side, client) {
            self.lives.restored.forget(former, side, client);
        }
        earlier.iter().for_each(|other| self.give_way(*other, key));
    }

    /// Why a client's earlier proxy stays beside a new one, if it does.
    fn stays(&self, earlier: ProxyKey, key: ProxyKey) -> Option<&'static str> {
        let (Ok(one), Ok(other)) = (self.objects.hierarchy.proxy(earlier), self.objects.hierarchy.proxy(key)) else {
            return Some("one of them is gone");
        };
        if !self.objects.compatibility().take_over {
            return Some("compatibility.take_over is off");
        }
        if one.admin != other.admin || self.objects.proxies.kinds.get(&earlier) != self.objects.proxies.kinds.get(&key)
        {
            return Some("it is of another admin or another kind");
        }
        let client = one.peer.and_then(|peer| self.objects.clients.by_peer.get(&peer));
        let Some(ended) = client.and_then(|client| self.lives.ended_at(client)) else {
            return Some("nothing says that its client's earlier life is over");
        };
        if one.activity.as_ref().is_some_and(|activity| activity.last() > ended) {
            return Some("it was used since");
        }
        // Or its events would go on to a connection of one owner while another one waits for them.
        let is_offered = |client: &Client| !client.address.offered.is_empty() || self.is_offered(&client.address.ior);
        if client.is_some_and(is_offered) && !self.is_askers(earlier) {
            return Some("either life is called over a connection that it made, and they have different owners");
        }
        if !select_alike(&self.objects, earlier, key) {
            return Some("they do not select the same events");
        }
        (!self.guard.may_replace(&self.objects, earlier, one.side))
            .then_some("it is another client's by the rules of access")
    }

    /// Moves a reconnecting client to the proxy of its earlier process, with its backlog, and the new one's settings and filters: the new
    /// one's key becomes an alias. False if there is no such proxy, or none that can be kept.
    pub(super) fn succeed(&mut self, key: ProxyKey, client: &Ior) -> Result<bool, Raised> {
        let Some(profile) = client.iiop() else { return Ok(false) };
        let (proxy, kind) = (self.objects.hierarchy.proxy(key)?, self.objects.proxy_kind(key)?);
        let side = proxy.side;
        // A proxy of this service is connected as a link.
        if proxy.state != ProxyState::Unconnected || self.objects.references.is_here(profile) {
            return Ok(false);
        }
        let others = self.lives.known.of(key.channel, side, client).filter(|other| *other != key);
        let is_over =
            |other: &ProxyKey| reference_of(&self.objects, *other) == Some(client) && self.stays(*other, key).is_none();
        let over: Vec<ProxyKey> = others.filter(is_over).take(AT_ONCE_MAX).collect();
        let Some((earlier, rest)) =
            over.split_first().filter(|(earlier, _)| self.lives.can_resume(&self.objects, **earlier, key))
        else {
            return Ok(false);
        };
        if kind.event_operation(side).is_some() {
            self.objects.check_called(key, kind, side, client)?;
            if !self.is_offered(client) {
                self.guard.check_outgoing(&self.objects, client)?;
            }
        }
        for other in rest {
            self.give_way(*other, *earlier);
        }
        self.go_on_at(*earlier, (key, kind, side), client)?;
        Ok(true)
    }

    fn go_on_at(
        &mut self,
        earlier: ProxyKey,
        (key, kind, side): (ProxyKey, ProxyKind, Side),
        reference: &Ior,
    ) -> Result<(), Raised> {
        let notifying = self.changes.initial_progress(&self.objects, key, kind, side, reference);
        let (proxy, now) = (self.objects.hierarchy.proxy(key)?, self.objects.clock.time);
        let (patch, name) = (*proxy.patch, self.objects.names.proxy_name(key, side).map(str::to_owned));
        self.objects.hierarchy.set_proxy_settings(earlier, patch)?;
        self.objects.hierarchy.exchange_attached(earlier, key)?;
        let unknown = self.objects.unknown_at(Level::Proxy(key, side)).clone();
        self.objects.set_unknown(Thing::Proxy(earlier), unknown);
        let removed = self.objects.hierarchy.destroy_proxy(key)?;
        let aliases = self.objects.keys.aliases.of(key).to_vec();
        self.forget(&removed, Tell::No);
        for alias in aliases.into_iter().chain([key]) {
            self.objects.keys.aliases.add(earlier, alias);
        }
        if let Some(name) = name {
            self.objects.names.forget_proxy(earlier, side);
            self.objects.names.give_new(&mut self.objects.hierarchy, Named::Proxy(earlier, side), &name);
        }
        let proxy = self.objects.hierarchy.proxy(earlier)?;
        if proxy.state == ProxyState::Suspended {
            self.objects.hierarchy.resume(earlier)?;
        }
        let is_own = self.is_askers(earlier);
        self.objects.ledger.note_owner(Thing::Proxy(earlier));
        self.guard.permit_connected(&mut self.objects, earlier);
        self.lives.former.remove(&earlier);
        let peer = self.objects.hierarchy.proxy(earlier)?.peer;
        if let Some(client) = peer.and_then(|peer| self.objects.clients.by_peer.get_mut(&peer)) {
            (client.notifying, client.line, client.connected, client.failing_since) =
                (notifying, self.lives.line.clone(), now, None);
            client.may_offer &= is_own;
            let health = core::mem::take(&mut client.health);
            peer.into_iter().for_each(|peer| self.probes.forget(peer, health));
        }
        self.take_up_offer(earlier);
        if let Some(activity) = &self.objects.hierarchy.proxy(earlier)?.activity {
            activity.note(now);
        }
        if side == Side::Suppliers {
            self.idle.note_caller(&mut self.objects, earlier, side);
        }
        if let Some(peer) = peer {
            self.note_hidden(peer);
            self.changes.notify_of_changes_since_request(&mut self.objects, peer);
            self.probes.begin_probes(&mut self.objects, peer);
        }
        self.objects.clients.called_changed = true;
        self.objects.hierarchy.note_changed_part(HierarchyPart::Proxy(earlier));
        let name = self.objects.name(side_name(side), earlier);
        log_line!(Info, "{name} goes on for its client, which has connected anew to proxy {}", key.proxy.0);
        Ok(())
    }

    /// Destroys the proxy that gave its name to one that is now connected.
    pub(super) fn have_namesake_give_way(&mut self, key: ProxyKey) {
        let Some(former) = self.objects.names.take_namesake_of(key) else { return };
        if let Ok(removed) = self.objects.hierarchy.destroy_proxy(former) {
            self.forget(&removed, Tell::No);
        }
    }

    fn give_way(&mut self, earlier: ProxyKey, key: ProxyKey) {
        let aliases = self.objects.keys.aliases.of(earlier).to_vec();
        let name = self
            .objects
            .hierarchy
            .proxy(earlier)
            .map_or_else(|_| String::new(), |proxy| self.objects.name(side_name(proxy.side), earlier));
        let Ok(removed) = self.objects.hierarchy.destroy_proxy(earlier) else { return };
        log_line!(Info, "{name} gives way to proxy {}, to which its client has connected anew", key.proxy.0);
        self.forget(&removed, Tell::No);
        for alias in aliases.into_iter().chain([earlier]) {
            self.objects.keys.aliases.add(key, alias);
        }
        self.objects.clients.called_changed = true;
        self.objects.hierarchy.note_changed_part(HierarchyPart::Proxy(key));
    }
}

impl Lives {
    /// Notes that calls or deliveries to a proxy's client fail, or succeed again.
    pub fn note_failing(&mut self, objects: &mut Objects, key: ProxyKey, fails: bool) {
        let (now, peer) = (objects.clock.time, objects.hierarchy.proxy(key).ok().and_then(|proxy| proxy.peer));
        if let Some(client) = peer.and_then(|peer| objects.clients.by_peer.get_mut(&peer)) {
            client.failing_since = fails.then_some(now);
        }
    }

    /// Notes that a lane has given up the client of a proxy. [`Protocol::handle_disconnected`] may follow later: until then no reconnecting
    /// client continues at that proxy.
    pub fn note_given_up(&mut self, objects: &Objects, key: ProxyKey) {
        if objects.hierarchy.proxy(key).is_ok() {
            self.given_up.insert(key);
        }
    }

    /// Sets the connection of the following requests, if known, and what its client has offered on it.
    pub fn on_line(&mut self, line: Option<&Arc<Line>>, offer: Option<&Arc<Offer>>) {
        (self.line, self.offer) = (line.cloned(), offer.cloned());
    }

    /// Notes that a connection to clients at an address has ended as that of a dying process does.
    pub fn note_death(&mut self, objects: &Objects, host: String, port: u16) {
        self.deaths.note((host, port), objects.clock.time);
    }

    /// The first other proxy of the same channel and side with the same object connected, if any.
    #[must_use]
    pub fn duplicate_of(&self, objects: &Objects, key: ProxyKey) -> Option<ProxyKey> {
        let client = objects.clients.by_peer.get(&objects.hierarchy.proxy(key).ok()?.peer?)?;
        let reference = &client.address.ior;
        let mut others = self.known.of(key.channel, client.side, reference).filter(|other| *other != key);
        others.find(|other| reference_of(objects, *other) == Some(reference))
    }

    /// Proxies restored with their clients when the process began, by channel and proxy, from behind a given one.
    pub fn restored_clients(
        &self,
        objects: &Objects,
        behind: Option<ProxyKey>,
    ) -> impl Iterator<Item = RestoredClient> {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let status = move |key: &ProxyKey| RestoredClient {
            key: *key,
            heard: heard(objects, *key).map(|then| objects.clock.time.since(then)),
        };
        self.former.range((from, Bound::Unbounded)).map(status)
    }

    /// Whether the process of a proxy's client has ended, as far as known.
    fn is_over(&self, objects: &Objects, proxy: &Proxy) -> bool {
        let ended =
            proxy.peer.and_then(|peer| objects.clients.by_peer.get(&peer)).and_then(|client| self.ended_at(client));
        ended.is_some_and(|ended| proxy.activity.as_ref().is_none_or(|activity| activity.last() <= ended))
    }

    /// When a client's earlier process ended, by its connections and deliveries.
    fn ended_at(&self, client: &Client) -> Option<Time> {
        let line = client.line.as_ref().and_then(|line| line.died_at());
        let called = self.deaths.of(&client.address.ior).filter(|at| *at > client.connected);
        [line, called, client.failing_since, client.health.unreachable_since()].into_iter().flatten().max()
    }

    /// Whether a client can continue at an earlier proxy: no lane has given it up, the client does not choose a start in the history, and
    /// neither has a filter that is identified by its attachment.
    fn can_resume(&self, objects: &Objects, earlier: ProxyKey, key: ProxyKey) -> bool {
        let has_local = |key: ProxyKey| {
            let proxy = objects.hierarchy.proxy(key);
            proxy.is_ok_and(|proxy| proxy.attached.filters().iter().all(|(_, one)| matches!(one, FilterRef::Local(_))))
        };
        let begins = objects.hierarchy.effective(key).is_ok_and(|settings| settings.start_from.is_some());
        !self.given_up.contains(&earlier) && !begins && has_local(earlier) && has_local(key)
    }

    /// The proxy of a client before a restart, not disconnected since, that gives way to another of the same channel.
    fn life_before_restart(&mut self, objects: &Objects, key: ProxyKey, side: Side, client: &Ior) -> Option<ProxyKey> {
        if objects.clock.time > Time::default() + ANEW_WITHIN {
            self.restored = Known::default();
        }
        let former = self.restored.last(key.channel, side, client)?;
        // Its client supplies by it, or pulls from it.
        let is_its = reference_of(objects, former) == Some(client);
        let gives_way = former != key && is_its && used(objects, former).is_none() && objects.compatibility().take_over;
        gives_way.then_some(former)
    }
}

fn reference_of(objects: &Objects, key: ProxyKey) -> Option<&Ior> {
    let peer = objects.hierarchy.proxy(key).ok()?.peer?;
    objects.clients.by_peer.get(&peer).map(|client| &client.address.ior)
}

/// Time of the client's last use of a proxy since its restoration, by an event supplied, or a pull.
fn used(objects: &Objects, key: ProxyKey) -> Option<Time> {
    let activity = objects.hierarchy.proxy(key).ok()?.activity.as_ref()?;
    Some(activity.last()).filter(|last| *last > Time(0))
}

/// Time of the client's last sign of life since its restoration.
fn heard(objects: &Objects, key: ProxyKey) -> Option<Time> {
    let proxy = objects.hierarchy.proxy(key).ok()?;
    let called = used(objects, key);
    let answered = proxy.peer.and_then(|peer| objects.clients.by_peer.get(&peer)?.health.heard());
    called.max(answered)
}

/// Places of `MaxConsumers` or `MaxSuppliers` that are freed once a client is connected to a proxy: those of its earlier processes, and
/// that of the proxy that gave it its name.
pub(super) fn places_of(objects: &Objects, earlier: &[ProxyKey], key: ProxyKey) -> u32 {
    let namesake = objects.names.namesake_of(key).filter(|namesake| !earlier.contains(namesake));
    let leaving = earlier.iter().copied().chain(namesake);
    let connected = leaving.filter(|other| objects.is_connected(*other).unwrap_or(false));
    u32::try_from(connected.count()).unwrap_or(u32::MAX)
}

/// Whether two proxies select the same events, by their types and by equal filters, with the same priorities and lifetimes.
fn select_alike(objects: &Objects, one: ProxyKey, other: ProxyKey) -> bool {
    let selection = |key| objects.exported_selection_of(key).map(|selection| meant(objects, selection));
    selection(one) == selection(other)
}

/// A selection's content, independent of its filters' ids.
fn meant(objects: &Objects, selection: t::Selection) -> Meant {
    let t::Selection { types, attached, priority_filter, lifetime_filter, next_attached: _ } = selection;
    let mut filters: Vec<MeantFilter> = attached
        .into_iter()
        .map(|t::Attached { filter, .. }| match filter {
            t::FilterRef::Filter(id) => meant_filter(objects, id),
            t::FilterRef::Reference(reference) => MeantFilter { reference, ..MeantFilter::default() },
        })
        .collect();
    filters.sort();
    let types: Option<BTreeSet<(String, String)>> =
        types.map(|types| types.into_iter().map(|t::EventType { domain, name }| (domain, name)).collect());
    let mapping = |id: Option<u32>| id.map(|id| meant_filter(objects, id));
    Meant { types, filters, mappings: [mapping(priority_filter), mapping(lifetime_filter)] }
}

fn meant_filter(objects: &Objects, id: u32) -> MeantFilter {
    let Some((_, t::Filter { grammar, role, constraints, .. })) =
        objects.filters.exported_one(&objects.ledger, FilterId(id))
    else {
        return MeantFilter::default();
    };
    let default = match role {
        t::Role::Decides { .. } => None,
        t::Role::Maps { default, .. } => Some(default.0),
    };
    let constraint = |t::Constraint { types, expression, value, .. }: t::Constraint| {
        let types = types.into_iter().map(|t::EventType { domain, name }| (domain, name)).collect();
        (types, expression, value.map(|value| value.0))
    };
    let constraints = constraints.into_iter().map(constraint).collect();
    MeantFilter { reference: String::new(), grammar, default, constraints }
}

/// The content of a proxy's selection.
#[derive(PartialEq, Eq)]
struct Meant {
    types: Option<BTreeSet<(String, String)>>,
    filters: Vec<MeantFilter>,
    mappings: [Option<MeantFilter>; 2],
}

/// A constraint: its event types, its expression and, in a mapping filter, its value.
type MeantConstraint = (Vec<(String, String)>, String, Option<String>);

/// The content of a filter; for a foreign one, its reference.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
struct MeantFilter {
    reference: String,
    grammar: String,
    default: Option<String>,
    constraints: Vec<MeantConstraint>,
}
