//! Names of linked services' channels ("federated names"): read-only, with lower precedence than this service's own names.
//!
//! Each link has a table of the names that its far side advertised. The index has the best of them for each name: the nearest channel,
//! among equals that of the lowest service. It answers `resolve` and `list` of the root context, and requests for
//! `corbaloc::HOST:PORT/NAME`. A far side gets this service's own channels and the index, without its own names (split horizon); at
//! [`DISTANCE_MAX`] a name is dropped, so that a ring does not repeat removed names for ever.
//!
//! Names of a far side are accepted if the rules of access let it publish in a channel of that name.

use super::{Effect, Objects, Protocol};
use crate::naming::NameComponent;
use crate::table::Target;
use accounts::{Account, Charge};
use engine::{ChannelId, Peer, Time};
use giop::client_name;
use giop::ior::{IiopProfile, Ior};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::time::Duration;

/// Distance at which names are dropped.
const DISTANCE_MAX: u8 = 8;
/// Maximum octets of an advertised name, as of a name on a link.
const NAME_BYTES_MAX: usize = 255;
/// Maximum octets of a reference as text, as on a link.
const REFERENCE_BYTES_MAX: usize = 2 << 10;
/// Maximum number of names advertised to a far side; the service's own come first.
pub const NAMES_MAX: usize = 4_096;
/// Maximum number of names of all links together; those of lost links are dropped first.
const ALL_NAMES_MAX: usize = 16 * NAMES_MAX;
/// Maximum number of far sides that names are advertised to.
const WATCHES_MAX: usize = 256;
/// Shortest time between two reports to a watch.
const REPORTED_EVERY: Duration = Duration::from_secs(1);
/// Minimum time between log lines about names that two services have.
const CONTESTED_LOGGED_EVERY: Duration = Duration::from_secs(60);
/// Shortest time between two rebuilds of the index.
const INDEXED_EVERY: Duration = Duration::from_millis(250);

/// A name advertised to a far side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedName {
    /// The channel's name, at most 255 octets.
    pub name: Arc<str>,
    /// Number of links between the channel and this service.
    pub distance: u8,
    /// The service that has the channel; `None` for this one.
    pub service: Option<u64>,
    /// The channel's reference, as text, at most 2 KiB.
    pub reference: Arc<str>,
}

/// A name advertised by a far side.
#[derive(Debug)]
pub struct FarName {
    /// Number of links between the channel and the far side.
    pub distance: u8,
    /// The service that has the channel.
    pub service: u64,
    /// The channel's reference, as text.
    pub reference: Arc<str>,
    /// The charge for the name's memory.
    pub charge: Charge,
}

/// All names advertised by a far side.
#[derive(Clone, Debug)]
pub struct FarNames {
    /// Identity of the far side.
    pub service: u64,
    /// The link's name in logs.
    pub link: String,
    /// Whether its connection comes from this machine: then references to the loopback address are valid here as well.
    pub is_here: bool,
    /// The names.
    pub names: Vec<(Arc<str>, Arc<FarName>)>,
}

/// State of the names of linked services.
#[derive(Debug, Default)]
pub struct Federation {
    watches: BTreeMap<Peer, Watch>,
    tables: BTreeMap<Peer, Table>,
    index: BTreeMap<Arc<str>, Federated>,
    /// Number of changes of the index, and of the rules of access.
    version: u64,
    /// The index does not follow from the tables any more.
    is_stale: bool,
    not_before: Time,
    /// Names that two services have, and the time of the next log line about them.
    contested: BTreeSet<Arc<str>>,
    contested_logged: Time,
    /// References of this service's own channels as text.
    texts: BTreeMap<ChannelId, Arc<str>>,
    rejected: u64,
    /// Number of names in the index without a channel here, and the two versions from which it was counted.
    counted: (u64, u64, usize),
}

/// A far side that names are advertised to.
#[derive(Debug)]
struct Watch {
    service: u64,
    account: Arc<Account>,
    /// Versions of the channels' names and of the index at the last report.
    seen: Option<(u64, u64)>,
    last: Option<Vec<AdvertisedName>>,
    not_before: Time,
    /// Whether it was logged that it has more than [`NAMES_MAX`].
    is_full: bool,
}

/// The names advertised by a far side.
#[derive(Debug)]
struct Table {
    service: u64,
    link: String,
    account: Arc<Account>,
    names: BTreeMap<Arc<str>, Entry>,
    /// Whether rejected names were logged.
    is_logged: bool,
    /// When the names are dropped, after the loss of the link.
    ends: Option<Time>,
}

#[derive(Debug)]
struct Entry {
    advertised: Arc<FarName>,
    /// The reference; `None` if rejected.
    reference: Option<Arc<Ior>>,
    /// Whether the rules of access forbid the far side this name.
    is_denied: bool,
}

/// A name of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Federated {
    service: u64,
    distance: u8,
    /// Identity of the advertising far side.
    from: u64,
    reference: Arc<Ior>,
    text: Arc<str>,
}

/// The reason to reject a name of a far side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rejection {
    Unprintable,
    NoReference,
    NoHost,
    Loopback,
    LeadsHere,
}

impl Rejection {
    const fn text(self) -> &'static str {
        match self {
            Self::Unprintable => "the name has control, invisible or direction characters",
            Self::NoReference => "the reference cannot be read, or has no IIOP profile",
            Self::NoHost => "the reference has a host or port that cannot be connected to",
            Self::Loopback => {
                "the reference leads to the loopback address, which is another machine's there: set `advertise` there"
            }
            Self::LeadsHere => "the reference leads to this very service",
        }
    }
}

impl Federation {
    /// Number of federated names to which clients are led.
    #[must_use]
    pub const fn names_count(&self) -> usize {
        self.counted.2
    }

    /// Names rejected since the last call.
    pub const fn take_rejected(&mut self) -> u64 {
        core::mem::replace(&mut self.rejected, 0)
    }

    /// Room for the names of one more table, after dropping tables of lost links as needed.
    fn room_for(&mut self, count: usize) -> usize {
        loop {
            let all: usize = self.tables.values().map(|table| table.names.len()).sum();
            let gone = self.tables.iter().filter_map(|(peer, table)| Some((table.ends?, *peer))).min();
            match gone {
                Some((_, peer)) if all + count > ALL_NAMES_MAX => _ = self.tables.remove(&peer),
                _ => return ALL_NAMES_MAX.saturating_sub(all),
            }
        }
    }

    /// Drops the names of links lost long enough ago.
    fn forget(&mut self, now: Time) {
        let before = self.tables.len();
        self.tables.retain(|_, table| table.ends.is_none_or(|ends| ends > now));
        self.is_stale |= self.tables.len() != before;
    }

    /// The time when something is due next.
    fn next(&self, names: u64) -> Option<Time> {
        let ends = self.tables.values().filter_map(|table| table.ends);
        let is_due = |watch: &&Watch| watch.seen != Some((names, self.version));
        let watches = self.watches.values().filter(is_due).map(|watch| watch.not_before);
        ends.chain(watches).chain(self.is_stale.then_some(self.not_before)).min()
    }
}

impl Protocol {
    /// Advertises to a far side the names of channels that this service leads to, now and after each change, by [`Effect::Names`]: those
    /// that `account` may know, other services' included.
    pub fn watch_names(&mut self, peer: Peer, service: u64, account: &Arc<Account>) {
        if self.federation.watches.len() >= WATCHES_MAX && !self.federation.watches.contains_key(&peer) {
            self.federation.rejected += 1;
            log::warn!(target: "campanile::corba", "{WATCHES_MAX} links are sent names of channels: one more is sent none");
            return;
        }
        let not_before = self.objects.clock.time;
        let account = Arc::clone(account);
        self.federation
            .watches
            .insert(peer, Watch { service, account, seen: None, last: None, not_before, is_full: false });
    }

    /// Replaces all names advertised by a far side.
    pub fn set_far_names(&mut self, peer: Peer, far: FarNames, account: &Arc<Account>) {
        let FarNames { service, link, is_here, mut names } = far;
        let Self { federation, objects, .. } = self;
        let former = federation.tables.remove(&peer);
        let (mut before, mut is_logged) = former.map_or_else(Default::default, |table| (table.names, table.is_logged));
        // What the far side had told over a former connection.
        federation
            .tables
            .retain(|_, table| table.ends.is_none() || table.service != service || table.account.ip() != account.ip());
        let room = federation.room_for(names.len());
        let beyond = names.len().saturating_sub(room);
        if beyond > 0 {
            names.truncate(room);
            federation.rejected += beyond as u64;
            log_first(
                &mut is_logged,
                &link,
                beyond,
                &format!("all links together have {ALL_NAMES_MAX}, the most that they may"),
            );
        }
        let mut rejected: Option<(usize, Arc<str>, Rejection)> = None;
        let mut entry = |name: Arc<str>, advertised: Arc<FarName>| {
            if let Some(known) = before.remove(&name).filter(|known| Arc::ptr_eq(&known.advertised, &advertised)) {
                return (name, known);
            }
            let reference = reference_of(objects, &name, &advertised, is_here);
            if let Err(why) = reference {
                let (count, ..) = rejected.get_or_insert_with(|| (0, Arc::clone(&name), why));
                *count += 1;
            }
            (name, Entry { advertised, reference: reference.ok().map(Arc::new), is_denied: false })
        };
        let names = names.into_iter().map(|(name, advertised)| entry(name, advertised)).collect();
        if let Some((count, first, why)) = rejected {
            federation.rejected += count as u64;
            log_first(&mut is_logged, &link, count, &format!("of {first:?}, {}", why.text()));
        }
        federation
            .tables
            .insert(peer, Table { service, link, account: Arc::clone(account), names, is_logged, ends: None });
        federation.is_stale = true;
    }

    /// Handles the loss of a link: ends the advertisements to its far side, and drops its names later.
    pub fn end_names(&mut self, peer: Peer, forgotten_after: Duration) {
        self.federation.watches.remove(&peer);
        if self.federation.tables.get(&peer).is_some_and(|table| table.names.is_empty()) {
            self.federation.tables.remove(&peer);
        } else if let Some(table) = self.federation.tables.get_mut(&peer) {
            table.ends = Some(self.objects.clock.time + forgotten_after);
        }
    }

    /// Another service's channel of that name, if the requesting client may know it and this service has none.
    pub(crate) fn federated(&self, name: &str) -> Option<&Ior> {
        let found = self.federation.index.get(name).filter(|_| self.leads_elsewhere(name))?;
        Some(&found.reference)
    }

    /// Host and port of another service's channel of that name.
    pub(super) fn federated_at(&self, name: &str) -> Option<String> {
        let profile = self.federated(name)?.iiop()?;
        let port = match profile.port {
            0 => profile.secure_transport().map_or(0, |secure| secure.port),
            port => port,
        };
        let is_v6 = profile.host.contains(':');
        Some(if is_v6 { format!("[{}]:{port}", profile.host) } else { format!("{}:{port}", profile.host) })
    }

    /// The destination of a request with a name as its object key.
    pub(super) fn forward(&self, key: &[u8]) -> Option<Ior> {
        self.federated(core::str::from_utf8(key).ok()?).cloned()
    }

    /// The forward for a client that looks for an object missing here: the answer to its `LocateRequest`.
    pub fn locate_elsewhere(&mut self, key: &[u8], principal: &Arc<Account>) -> Option<Ior> {
        self.objects.ledger.principal = Some(Arc::clone(principal));
        let elsewhere = self.forward(key);
        self.objects.ledger.principal = None;
        elsewhere
    }

    /// Federated names in the root context's list, in order, from behind a name on.
    pub(crate) fn federated_behind<'a>(
        &'a self,
        after: Option<&NameComponent>,
    ) -> impl Iterator<Item = NameComponent> + use<'a> {
        let from = after.map_or(Unbounded, |after| Excluded(Arc::<str>::from(after.id.as_str())));
        let names = self.federation.index.range((from, Unbounded)).map(|(name, _)| name);
        names.filter(|name| self.leads_elsewhere(name)).map(|name| NameComponent::new(name)).filter(|name| {
            // What is bound is listed as it is.
            self.objects.naming.bound_in_root(&name.id, &name.kind).is_none()
        })
    }

    /// Whether this service has no channel of a name, and the requesting client may know one.
    fn leads_elsewhere(&self, name: &str) -> bool {
        self.objects.names.channel_named(name).is_none()
            && self.guard.knows_name(self.objects.ledger.principal.as_deref(), name)
    }

    /// Rebuilds the index if due, and sends the report to one far side if due.
    pub(super) fn report_names(&mut self) {
        let now = self.objects.clock.time;
        self.federation.forget(now);
        if self.guard.has_changed() && !(self.federation.tables.is_empty() && self.federation.watches.is_empty()) {
            // What links may have, and what they may know, may be something else.
            self.federation.is_stale = true;
            self.federation.version += 1;
        }
        if self.federation.is_stale && self.federation.not_before <= now {
            (self.federation.is_stale, self.federation.not_before) = (false, now + INDEXED_EVERY);
            self.make_index();
        }
        let state = (self.objects.names.version(), self.federation.version);
        if (self.federation.counted.0, self.federation.counted.1) != state {
            let is_own = |name: &str| self.objects.names.channel_named(name).is_some();
            let count = self.federation.index.keys().filter(|name| !is_own(name)).count();
            self.federation.counted = (state.0, state.1, count);
        }
        let is_due = |watch: &Watch| watch.seen != Some(state) && watch.not_before <= now;
        let Some(peer) = self.federation.watches.iter().find(|(_, watch)| is_due(watch)).map(|(peer, _)| *peer) else {
            return;
        };
        self.federation.texts.retain(|channel, _| self.objects.names.channel_name(*channel).is_some());
        let Some(mut watch) = self.federation.watches.remove(&peer) else { return };
        (watch.seen, watch.not_before) = (Some(state), now + REPORTED_EVERY);
        let names = self.names_for(&mut watch);
        if watch.last.as_ref() != Some(&names) {
            watch.last = Some(names.clone());
            self.objects.effects.push_back(Effect::Names(peer, names));
        }
        self.federation.watches.insert(peer, watch);
    }

    /// When [`Self::report_names`] is due.
    pub(super) fn next_names(&self) -> Option<Time> {
        self.federation.next(self.objects.names.version())
    }

    /// The names to advertise to a far side.
    fn names_for(&mut self, watch: &mut Watch) -> Vec<AdvertisedName> {
        let Self { federation: Federation { index, texts, .. }, objects, guard, .. } = self;
        let may_know = |name: &str| guard.knows_name(Some(&watch.account), name);
        let is_fit = |name: &str| name.len() <= NAME_BYTES_MAX && client_name::unprintable(name).is_none();
        let own = objects.names.named_channels().filter(|(name, _)| is_fit(name) && may_know(name));
        let own = own.filter_map(|(name, channel)| {
            let reference = match texts.get(&channel) {
                Some(text) => Arc::clone(text),
                None => {
                    let text = Arc::<str>::from(objects.reference(Target::Channel(channel)).ok()?.to_string());
                    texts.insert(channel, Arc::clone(&text));
                    text
                }
            };
            let fits = reference.len() <= REFERENCE_BYTES_MAX;
            fits.then(|| AdvertisedName { name: Arc::clone(name), distance: 0, service: None, reference })
        });
        let is_news = |found: &Federated| found.from != watch.service && found.service != watch.service;
        let others = index
            .iter()
            .filter(|(name, found)| is_news(found) && objects.names.channel_named(name).is_none() && may_know(name));
        let others = others.map(|(name, Federated { service, distance, text, .. })| AdvertisedName {
            name: Arc::clone(name),
            distance: *distance,
            service: Some(*service),
            reference: Arc::clone(text),
        });
        let mut names: Vec<AdvertisedName> = own.chain(others).take(NAMES_MAX + 1).collect();
        if names.len() > NAMES_MAX {
            names.truncate(NAMES_MAX);
            if !core::mem::replace(&mut watch.is_full, true) {
                log::warn!(
                    target: "campanile::corba",
                    "service {:016x} is sent {NAMES_MAX} names of channels, the most that a link has, and not the others", watch.service
                );
            }
        }
        names
    }

    /// Builds the index of all far sides' names.
    fn make_index(&mut self) {
        let Self { federation, guard, objects, .. } = self;
        let now = objects.clock.time;
        let (mut index, mut contested) = (BTreeMap::<Arc<str>, Federated>::new(), BTreeSet::new());
        for table in federation.tables.values_mut() {
            federation.rejected += table.note_denied(|account, name| guard.may_lead_to(account, name));
            for (name, entry) in &table.names {
                let Some(found) = entry.found(table.service) else { continue };
                match index.get_mut(name) {
                    None => _ = index.insert(Arc::clone(name), found),
                    Some(best) => {
                        if best.service != found.service {
                            contested.insert(Arc::clone(name));
                        }
                        if (found.distance, found.service) < (best.distance, best.service) {
                            *best = found;
                        }
                    }
                }
            }
        }
        let mut new = contested.difference(&federation.contested);
        if let Some(first) = new.next().filter(|_| federation.contested_logged <= now) {
            federation.contested_logged = now + CONTESTED_LOGGED_EVERY;
            log::warn!(
                target: "campanile::corba",
                "{} names of channels are had by two linked services each, {first:?} first: the nearest is led to, of two as near the one of the \
                 lower identity", new.count() + 1
            );
        }
        federation.contested = contested;
        if index != federation.index {
            federation.index = index;
            federation.version += 1;
        }
    }
}

impl Table {
    /// Recomputes which names the far side may not advertise. Returns the number newly denied.
    fn note_denied(&mut self, may_lead_to: impl Fn(&Account, &str) -> bool) -> u64 {
        let (mut count, mut first) = (0_usize, None);
        for (name, entry) in self.names.iter_mut().filter(|(_, entry)| entry.reference.is_some()) {
            let is_denied = !may_lead_to(&self.account, name);
            if is_denied && !core::mem::replace(&mut entry.is_denied, is_denied) {
                count += 1;
                first.get_or_insert(name);
            }
            entry.is_denied = is_denied;
        }
        if let Some(first) = first {
            let why = format!("the rules of access do not let it publish in {first:?}");
            log_first(&mut self.is_logged, &self.link, count, &why);
        }
        count as u64
    }
}

/// Logs that names of a link are rejected, once per connection.
fn log_first(is_logged: &mut bool, link: &str, count: usize, why: &str) {
    if !core::mem::replace(is_logged, true) {
        log::warn!(target: "campanile::corba", "{link}: {count} names of channels are not taken: {why}");
    }
}

impl Entry {
    fn found(&self, from: u64) -> Option<Federated> {
        let distance = self.advertised.distance.checked_add(1).filter(|distance| *distance < DISTANCE_MAX)?;
        let reference = Arc::clone(self.reference.as_ref().filter(|_| !self.is_denied)?);
        Some(Federated {
            service: self.advertised.service,
            distance,
            from,
            reference,
            text: Arc::clone(&self.advertised.reference),
        })
    }
}

/// The reference advertised with a name.
fn reference_of(objects: &Objects, name: &str, advertised: &FarName, is_here: bool) -> Result<Ior, Rejection> {
    if client_name::unprintable(name).is_some() {
        return Err(Rejection::Unprintable);
    }
    let reference: Ior = advertised.reference.parse().map_err(|_| Rejection::NoReference)?;
    reference.iiop().ok_or(Rejection::NoReference)?;
    for profile in reference.iiop_profiles() {
        if objects.references.is_here(profile) {
            return Err(Rejection::LeadsHere);
        }
        profile.addresses().try_for_each(|(host, port)| check_address(profile, (&host, port), is_here))?;
    }
    Ok(reference)
}

/// Refuses an address that would be wrong for clients of this service.
fn check_address(profile: &IiopProfile, (host, port): (&str, u16), is_here: bool) -> Result<(), Rejection> {
    let is_plain = |c: char| c.is_ascii_graphic();
    if host.is_empty() || host.len() > NAME_BYTES_MAX || !host.chars().all(is_plain) {
        return Err(Rejection::NoHost);
    }
    if port == 0 && profile.secure_transport().is_none_or(|secure| secure.port == 0) {
        return Err(Rejection::NoHost);
    }
    let ip = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    let is_loopback = ip.is_some_and(|ip| ip.is_loopback()) || host.eq_ignore_ascii_case("localhost");
    match ip {
        Some(ip) if ip.is_unspecified() || ip.is_multicast() => Err(Rejection::NoHost),
        _ if is_loopback && !is_here => Err(Rejection::Loopback),
        _ => Ok(()),
    }
}
