//! Charges for stored objects: each is charged to the client that requested it, until it is gone.
//!
//! Every [`Thing`] is weighed when it is made or changed, by an estimate of its memory in octets, and its weight is charged to the client
//! that increased it last. The charge stays with that client's address when its connection is closed. Requests beyond the limit, or beyond
//! the client's quota, are refused before anything is changed.

use super::{Named, Objects};
use crate::exceptions::Raised;
use crate::qos::Unknown;
use crate::table::{AdminKey, Level};
use accounts::{Account, Accounts, CertifiedName, Charge, Refused, Resource, Spent};
use engine::{ChannelId, EventType, FilterId, FilterTarget, Peer, ProxyKey, ProxyState, Side};
use filter::correlation::{Correlation, Matcher};
use giop::ior::{Component, Ior, Profile};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use topology as t;

/// An object stored at a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Thing {
    /// A channel with its properties.
    Channel(ChannelId),
    /// An admin with its properties, event types and places for filters.
    Admin(AdminKey),
    /// A proxy with its settings, and its client's reference.
    Proxy(ProxyKey),
    /// A filter or mapping filter with its constraints and callbacks.
    Filter(FilterId),
    /// A foreign filter of an admin or proxy.
    Remote(Peer),
    /// A callback for when the service is there again.
    Registration(u32),
}

impl From<Level> for Thing {
    fn from(level: Level) -> Self {
        match level {
            Level::Channel(channel) => Self::Channel(channel),
            Level::Admin(admin) => Self::Admin(admin),
            Level::Proxy(proxy, _) => Self::Proxy(proxy),
        }
    }
}

impl From<FilterTarget> for Thing {
    fn from(target: FilterTarget) -> Self {
        match target {
            FilterTarget::Admin { channel, side, admin } => Self::Admin(AdminKey { channel, side, admin }),
            FilterTarget::Proxy(proxy) => Self::Proxy(proxy),
        }
    }
}

/// The charges for one object.
#[derive(Debug, Default)]
pub(super) struct Charged {
    octets: Option<Charge>,
    /// The charge for its subscribed event types.
    types: Option<Charge>,
    /// The charge for the channel or proxy itself, counted as one.
    pub(super) one: Option<Charge>,
    /// The threads of its pool.
    threads: Option<Charge>,
    /// Owner: the client that made the object or is connected to it. `None` if it was restored without one.
    pub(super) owner: Option<Arc<Account>>,
}

/// Charges of all objects, and their owners.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    things: BTreeMap<Thing, Charged>,
    /// Account of the requesting client, while a request is executed.
    pub(super) principal: Option<Arc<Account>>,
    /// Accounts, in which the owners of restored things are found.
    pub(super) accounts: Option<Arc<Accounts>>,
    /// The owner restored last, usually of the next object, too.
    pub(super) restored: Option<(t::Principal, Arc<Account>)>,
    /// Refused claims that are not reported yet.
    refused: Vec<Refused>,
}

impl Charged {
    /// The charge for a resource whose amount changes.
    fn of(&mut self, resource: Resource) -> &mut Option<Charge> {
        match resource {
            Resource::EventTypes => &mut self.types,
            _ => &mut self.octets,
        }
    }

    /// Sets a charge to `amount`. If it grew under a claim, it moves to the claiming account.
    fn adjust(&mut self, resource: Resource, amount: u64, claim: Option<Charge>) {
        match (self.of(resource), claim) {
            (Some(held), _) if amount <= held.amount() => held.adjust(amount),
            (Some(held), None) => held.adjust(amount),
            (held, Some(mut claim)) => {
                *held = None;
                claim.adjust(amount);
                *held = Some(claim);
            }
            (None, None) => {}
        }
    }
}

impl Ledger {
    /// Releases the charges for an object that is gone.
    pub(crate) fn remove(&mut self, thing: Thing) {
        self.things.remove(&thing);
    }

    pub(super) fn owner(&self, thing: Thing) -> Option<Arc<Account>> {
        self.things.get(&thing)?.owner.clone()
    }

    pub(super) fn entry(&mut self, thing: Thing) -> &mut Charged {
        self.things.entry(thing).or_default()
    }

    /// A thing has a new pool, of so many threads.
    pub(super) fn note_threads(&mut self, thing: Thing, threads: Option<Charge>) {
        if threads.is_some() {
            self.entry(thing).threads = threads;
        }
    }

    /// Account of the requesting client, while a request is executed.
    pub(crate) fn principal(&self) -> Option<Arc<Account>> {
        self.principal.clone()
    }

    /// Charges the requesting client. Objects of the service itself are not charged.
    pub(crate) fn charge(&mut self, resource: Resource, amount: u64) -> Result<Option<Charge>, Raised> {
        let Some(principal) = &self.principal else { return Ok(None) };
        principal.charge(resource, amount).map(Some).map_err(|spent| self.note_spent(spent))
    }

    /// Charges the requesting client for more octets of administration's memory.
    pub(crate) fn charge_octets(&mut self, octets: u64) -> Result<Option<Charge>, Raised> {
        self.charge(Resource::RetainedBytes, octets)
    }

    /// The exception for a client that claims too much, which is noted.
    pub(crate) fn note_spent(&mut self, spent: Spent) -> Raised {
        if let Some(principal) = &self.principal {
            self.refused.push(Refused::new(spent, principal));
        }
        Raised::no_resources()
    }

    /// Claims more of a resource for an object, including its current amount if another account is charged for that.
    pub(crate) fn claim(&mut self, thing: Thing, resource: Resource, more: u64) -> Result<Option<Charge>, Raised> {
        let held = self.things.get_mut(&thing).and_then(|charged| charged.of(resource).as_ref());
        let asker = self.principal.as_ref();
        let is_asker = |charge: &Charge| asker.is_some_and(|asker| Arc::ptr_eq(asker, charge.account()));
        let of_others = held.filter(|charge| more > 0 && !is_asker(charge)).map_or(0, Charge::amount);
        self.charge(resource, more.saturating_add(of_others))
    }

    /// Claims the additional event types of a consumer, or of an admin's consumers.
    pub(super) fn claim_types(&mut self, thing: Thing, added: &[EventType]) -> Result<Option<Charge>, Raised> {
        self.claim(thing, Resource::EventTypes, places_of_types(added))
    }

    /// Charges an object by its weight, to the requesting client if the weight has increased. An object that is gone is not charged.
    pub(crate) fn adjust(&mut self, thing: Thing, weight: Option<u64>, claim: Option<Charge>) {
        let Some(weight) = weight else { return };
        self.entry(thing).adjust(Resource::RetainedBytes, weight, claim);
    }

    /// Makes the requesting client the owner of a thing.
    pub(crate) fn note_owner(&mut self, thing: Thing) {
        if let Some(principal) = &self.principal {
            self.entry(thing).owner = Some(Arc::clone(principal));
        }
    }

    /// Owner of a thing in its stored form: also without rules, since there may be some when the thing is restored.
    pub(crate) fn stored_owner(&self, thing: Thing) -> Option<t::Principal> {
        let owner = self.owner(thing)?;
        let identity = owner.identity();
        Some(t::Principal {
            address: owner.is_outside().then(|| owner.from()),
            certificate: identity
                .certified()
                .map(|name| t::Certificate { subject: name.subject.clone(), alternative_names: name.sans.clone() }),
            token: identity.token().map(|name| (**name).to_owned()),
        })
    }

    /// Restores the stored owner of an object.
    pub(crate) fn own_again(&mut self, thing: Thing, stored: Option<&t::Principal>) {
        let (Some(accounts), Some(stored)) = (&self.accounts, stored) else { return };
        if let Some((_, account)) = self.restored.as_ref().filter(|(last, _)| last == stored) {
            self.entry(thing).owner = Some(Arc::clone(account));
            return;
        }
        let t::Principal { address, certificate, token } = stored;
        let account = accounts.account_of(address.unwrap_or(IpAddr::from([0; 4])));
        if let Some(t::Certificate { subject, alternative_names }) = certificate {
            let name = CertifiedName { subject: subject.clone(), sans: alternative_names.clone() };
            account.identity().certify(Arc::new(name));
        }
        if let Some(token) = token {
            account.identity().show_token(token.as_str().into());
        }
        self.restored = Some((stored.clone(), Arc::clone(&account)));
        self.entry(thing).owner = Some(account);
    }
}

/// Octets of objects beside their clients' data: measured, including the lanes' share, and rounded up.
pub(crate) mod weights {
    /// A channel.
    pub(crate) const CHANNEL: u64 = 16 << 10;
    /// An admin.
    pub(crate) const ADMIN: u64 = 1 << 10;
    /// A proxy without a connected client.
    pub(crate) const PROXY: u64 = 512;
    /// Weight of a client connected to a proxy, beside its reference.
    pub(crate) const CLIENT: u64 = 3 << 10;
    /// A filter without constraints.
    pub(crate) const FILTER: u64 = 1 << 10;
    /// A filter's callback, or a foreign filter, beside its reference.
    pub(crate) const CALLBACK: u64 = 512;
    /// A place of a filter at an admin or proxy.
    pub(crate) const PLACE: u64 = 128;
    /// Weight of a constraint's octet as sent, in the compiled program and its index.
    pub(crate) const CONSTRAINT_OCTET: u64 = 16;
    /// A name in the naming service, beside its text and its reference.
    pub(crate) const BINDING: u64 = 256;
    /// A naming context.
    pub(crate) const CONTEXT: u64 = 512;
}

/// Octets that event types take.
pub(crate) fn octets_of_types<'a>(types: impl IntoIterator<Item = &'a EventType>) -> u64 {
    const EACH: usize = 96;
    types.into_iter().map(|kind| (EACH + kind.domain.len() + kind.name.len()) as u64).sum()
}

/// Octets that a correlation takes, with the most events that may wait for others, on each of a consumer's lanes.
pub(crate) fn octets_of_correlation(correlation: &Correlation, lanes: u32) -> u64 {
    let events = Matcher::<[u64; 3]>::EVENT_BYTES * u64::from(correlation.keep());
    weights::CONSTRAINT_OCTET * correlation.text().len() as u64 + events * u64::from(lanes.max(1))
}

/// Octets that a name takes, with where it is found.
pub(crate) fn octets_of_name(name: Option<&str>) -> u64 {
    const EACH: usize = 192;
    name.map_or(0, |name| (EACH + name.len()) as u64)
}

/// Cost of comparing event types with an event's: one each, one for every 64 octets of its names, and 8 for every star between two texts,
/// whose search takes as long as the event's names are.
fn places_of_types(types: &[EventType]) -> u64 {
    let places = |kind: &EventType| {
        let octets = kind.domain.len() + kind.name.len();
        let stars = || kind.domain.matches('*').count() + kind.name.matches('*').count();
        let looked_for = if kind.is_looked_for() { 8 * stars() } else { 0 };
        (1 + octets / 64 + looked_for) as u64
    };
    types.iter().map(places).sum()
}

/// Octets that a reference takes.
pub(crate) fn octets_of_reference(reference: &Ior) -> u64 {
    const EACH: usize = 64;
    let components = |components: &[Component]| components.iter().map(|part| EACH + part.data.len()).sum::<usize>();
    let profiles = reference.profiles.iter().map(|profile| match profile {
        Profile::Iiop(iiop) => 2 * EACH + iiop.host.len() + iiop.key.len() + components(&iiop.components),
        Profile::Components(list) => 2 * EACH + components(list),
        Profile::Other { data, .. } => 2 * EACH + data.len(),
    });
    (EACH + reference.type_id.len() + profiles.sum::<usize>()) as u64
}

impl Objects {
    /// The address that a proxy is charged to, if a client's.
    #[must_use]
    pub fn charged_address(&self, key: ProxyKey) -> Option<IpAddr> {
        let owner = self.ledger.owner(Thing::Proxy(key))?;
        owner.is_outside().then(|| owner.ip())
    }

    /// Takes the next refused claim, to be counted and logged.
    pub fn poll_refused(&mut self) -> Option<Refused> {
        self.ledger.refused.pop()
    }

    /// Changes an object in a way that may add so many octets. On a refusal nothing is changed.
    pub(crate) fn change_thing<R>(
        &mut self,
        thing: Thing,
        octets_more: u64,
        change: impl FnOnce(&mut Self) -> Result<R, Raised>,
    ) -> Result<R, Raised> {
        let claim = self.ledger.claim(thing, Resource::RetainedBytes, octets_more)?;
        let result = change(self)?;
        self.adjust(thing, claim);
        Ok(result)
    }

    /// A thing is gone.
    pub(crate) fn forget_thing(&mut self, thing: Thing) {
        self.ledger.remove(thing);
        self.properties.unknown.remove(&thing);
    }

    /// Charges a consumer, or an admin of consumers, for its current event types.
    pub(super) fn adjust_types(&mut self, thing: Thing, claim: Option<Charge>) {
        let requested = match thing {
            Thing::Admin(AdminKey { channel, side, admin }) => {
                self.hierarchy.admin(channel, side, admin).map(|admin| &admin.subscription)
            }
            Thing::Proxy(key) => self.hierarchy.proxy(key).map(|proxy| &proxy.subscription),
            Thing::Channel(_) | Thing::Filter(_) | Thing::Remote(_) | Thing::Registration(_) => return,
        };
        // A client that has named no types takes no places.
        let requested = requested.ok().filter(|requested| requested.is_changed());
        let places = requested.map_or(0, |requested| places_of_types(requested.types()));
        self.ledger.entry(thing).adjust(Resource::EventTypes, places, claim);
    }

    /// Charges an object that was made or changed by its weight, to the requesting client if the weight has increased.
    pub(crate) fn adjust(&mut self, thing: Thing, claim: Option<Charge>) {
        let weight = self.weight(thing);
        self.ledger.adjust(thing, weight, claim);
    }

    /// Charges an account for all objects, even beyond limits and quotas: stored objects stay, and further ones are refused until there is
    /// room.
    pub fn charge_all_to(&mut self, account: &Arc<Account>) {
        let mut things: Vec<(Level, Option<Resource>)> = Vec::new();
        for channel in self.hierarchy.channels() {
            let id = channel.id();
            // The default channel has no owner.
            things.push((Level::Channel(id), (id != ChannelId(0)).then_some(Resource::Channels)));
            for side in [Side::Consumers, Side::Suppliers] {
                let admins = self.hierarchy.admins(id, side).into_iter().flatten();
                things
                    .extend(admins.map(|admin| (Level::Admin(AdminKey { channel: id, side, admin: admin.id }), None)));
            }
            let proxies = channel.proxies();
            things.extend(proxies.map(|proxy| {
                (Level::Proxy(ProxyKey { channel: id, proxy: proxy.id }, proxy.side), Some(Resource::Proxies))
            }));
        }
        for (level, counted) in things {
            self.charge_level_to(level, counted, account);
        }
        for filter in self.filters.numbers() {
            self.charge_thing_to(Thing::Filter(filter), account);
        }
        for registration in self.reconnection.numbers() {
            let thing = Thing::Registration(registration);
            self.charge_thing_to(thing, account);
            self.ledger.entry(thing).one = Some(account.charge_anyway(Resource::Registrations, 1));
        }
        self.naming.charge_all_to(account);
    }

    fn charge_level_to(&mut self, level: Level, counted: Option<Resource>, account: &Arc<Account>) {
        let thing = Thing::from(level);
        self.charge_thing_to(thing, account);
        let one = counted.map(|counted| account.charge_anyway(counted, 1));
        let pool = self.requested(level).ok().and_then(|requested| requested.pool);
        let threads = pool.map(|pool| account.charge_anyway(Resource::Threads, pool.threads().into()));
        self.ledger.entry(thing).one = one;
        self.ledger.note_threads(thing, threads);
        let requested = match level {
            Level::Admin(AdminKey { channel, side: side @ Side::Consumers, admin }) => {
                self.hierarchy.admin(channel, side, admin).map(|admin| &admin.subscription)
            }
            Level::Proxy(key, Side::Consumers) => self.hierarchy.proxy(key).map(|proxy| &proxy.subscription),
            _ => return,
        };
        let requested = requested.ok().filter(|requested| requested.is_changed());
        let places = requested.map_or(0, |requested| places_of_types(requested.types()));
        let claim = account.charge_anyway(Resource::EventTypes, places);
        self.adjust_types(thing, Some(claim));
    }

    fn charge_thing_to(&mut self, thing: Thing, account: &Arc<Account>) {
        let claim = self.weight(thing).map(|octets| account.charge_anyway(Resource::RetainedBytes, octets));
        self.adjust(thing, claim);
    }

    /// Approximate memory of an object in octets; `None` if it is gone.
    fn weight(&self, thing: Thing) -> Option<u64> {
        use self::weights::{ADMIN, CHANNEL, CLIENT, PLACE, PROXY};
        let places = |filters: &[_]| filters.len() as u64 * PLACE;
        let named = |named| octets_of_name(self.names.of(named).map(AsRef::as_ref));
        let unknown = self.properties.unknown.get(&thing).map_or(0, Unknown::octets);
        let octets = match thing {
            Thing::Channel(channel) => {
                let topics = self.hierarchy.channel(channel).ok()?.topics();
                CHANNEL + octets_of_types(topics.by_type.iter().map(|(kind, _)| kind)) + named(Named::Channel(channel))
            }
            Thing::Admin(key @ AdminKey { channel, side, admin }) => {
                let admin = self.hierarchy.admin(channel, side, admin).ok()?;
                let types = octets_of_types(admin.subscription.types());
                ADMIN + types + places(admin.attached.filters()) + named(Named::Admin(key))
            }
            Thing::Proxy(key) => {
                let proxy = self.hierarchy.proxy(key).ok()?;
                let client = proxy.peer.and_then(|peer| self.clients.by_peer.get(&peer));
                let client = client.map_or(0, |client| octets_of_reference(&client.address.ior));
                let connected = if proxy.state == ProxyState::Unconnected { 0 } else { CLIENT };
                let types = octets_of_types(proxy.subscription.types());
                let correlation = proxy.correlation.as_deref();
                let correlation = correlation.map_or(0, |when| octets_of_correlation(when, self.lanes_of(key)));
                PROXY
                    + correlation
                    + connected
                    + client
                    + types
                    + places(proxy.attached.filters())
                    + named(Named::Proxy(key, proxy.side))
            }
            Thing::Filter(filter) => self.filters.weight(filter)?,
            Thing::Remote(peer) => weights::CALLBACK + octets_of_reference(&self.clients.called.get(peer)?.ior),
            Thing::Registration(id) => self.reconnection.weight(id)?,
        };
        Some(octets + unknown)
    }
}
