//! Accounts of the service's resources by client: every [`Resource`] has a limit, and no client can use all of it.
//!
//! A client is charged by its connection ([`Account`]) and by the address that the connection came from; IPv6
//! addresses are grouped by their first 64 bits, since a host has all of those. A claim is granted if the limit of the
//! whole process allows it, and if the address then has no more than a fixed multiple of what is left for everybody
//! (the dynamic thresholds by which switches share their buffers: Choudhury and Hahne, 1998). The multiple follows
//! from `limits.client_share_percent`, the percentage that one address may have while no other has anything: with 75
//! it is three times what is left, so that two addresses that claim all can have three sevenths each, and a seventh is
//! left for others. The same rule, applied to what is left of the address's share, divides that among its connections.
//! A small amount of each resource is granted to every address, whatever its share, as long as the limit allows it.
//!
//! Claims and returns come from any thread, take no lock and allocate nothing. Only the table of addresses
//! ([`Addresses`]) belongs to one thread, the lane that accepts connections.
//!
//! # Adding a limit
//!
//! A row of `resources!` has its key in the configuration. By hand: its limit and the amount granted to every address in `ceilings`
//! (`crates/service/src/start/limits.rs`), and `check_nothing_is_kept` of the simulation. The compiler asks for two counters
//! (`Counter::of_refusal`). The owner claims it with `Account::charge` before anything is allocated, and the `Charge` stays with the thing.

mod certified;
mod identity;
mod principal;
mod refused;

pub use certified::CertifiedName;
pub use identity::Identity;
pub use principal::Principal;
pub use refused::Refused;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::HashMap;

macro_rules! resources {
    ($($(#[doc = $help:literal])+ $variant:ident = $name:literal, $setting:literal;)+) => {
        /// A resource that clients are charged for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Resource {
            $($(#[doc = $help])+ $variant,)+
        }

        impl Resource {
            /// Every resource.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Name in log lines and refusals.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The setting that determines its limit; empty if none does.
            #[must_use]
            pub const fn setting(self) -> &'static str {
                match self { $(Self::$variant => $setting,)+ }
            }
        }
    };
}

resources! {
    /// Open connections from clients.
    Connections = "connections", "limits.connections_max";
    /// Connections to clients, open or being opened.
    Outgoing = "connections to clients", "limits.outgoing_connections_max";
    /// Octets of incomplete messages.
    IncompleteBytes = "octets of incomplete messages", "limits.incomplete_bytes_max";
    /// Octets written to clients, on connections of either direction, that they have not read.
    ReplyBytes = "octets written and not read", "limits.unread_reply_bytes_max";
    /// Octets of requests that administration has not yet answered.
    RequestBytes = "octets of administrative requests", "limits.memory_bytes";
    /// Octets of objects that administration stores: filters, properties, names, references, subscriptions.
    RetainedBytes = "retained octets", "limits.memory_bytes";
    /// Event channels.
    Channels = "channels", "";
    /// Proxies of all channels.
    Proxies = "proxies", "limits.proxies_max";
    /// Event types that consumers and their admins name, by the cost to search them: a lane compares an unknown type
    /// with all of its channel in one go.
    EventTypes = "event types", "limits.event_types_max";
    /// Threads of thread pools.
    Threads = "threads", "lanes.threads_max";
    /// Host names being looked up.
    Lookups = "lookups of host names", "";
    /// Threads that are looking a host name up.
    LookupThreads = "threads that look host names up", "";
    /// TLS handshakes under way, of accepted connections and of outgoing ones.
    Handshakes = "TLS handshakes", "";
    /// Open HTTP connections.
    HttpConnections = "connections to HTTP", "http.connections_max";
    /// Topics and roles that Tempo clients have announced.
    Announced = "announced topics", "tempo.topics_max";
    /// Octets of Tempo messages that wait for their topic's turn.
    InputBytes = "queued octets of topics", "limits.memory_bytes";
    /// Scheduling analyses under way.
    Analyses = "analyses", "";
    /// Callbacks to be called when the service is available again.
    Registrations = "reconnection callbacks", "";
}

const COUNT: usize = Resource::ALL.len();

/// An amount of each resource.
#[derive(Debug)]
struct Amounts([AtomicU64; COUNT]);

impl Default for Amounts {
    fn default() -> Self {
        Self(core::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Amounts {
    fn of(&self, resource: Resource) -> &AtomicU64 {
        #[expect(clippy::indexing_slicing, reason = "there is a place for each resource")]
        &self.0[resource as usize]
    }

    fn read(&self, resource: Resource) -> u64 {
        // Relaxed here and everywhere: these are amounts, and nothing is published through them.
        self.of(resource).load(Ordering::Relaxed)
    }

    fn add(&self, resource: Resource, amount: u64) {
        self.of(resource).fetch_add(amount, Ordering::Relaxed);
    }

    /// Adds an amount, unless the new sum is not `allowed`.
    fn add_if(&self, resource: Resource, amount: u64, allowed: impl Fn(u64) -> bool) -> bool {
        let sum = |now: u64| now.checked_add(amount).filter(|sum| allowed(*sum));
        self.of(resource).fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
    }

    fn subtract(&self, resource: Resource, amount: u64) {
        let before = self.of(resource).fetch_sub(amount, Ordering::Relaxed);
        debug_assert!(before >= amount, "{amount} {} given back of {before}", resource.name());
    }
}

/// The limit of each resource, and the parameters of fair shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceilings {
    client_percent: u8,
    limits: [Ceiling; COUNT],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ceiling {
    limit: u64,
    minimum: u64,
}

impl Ceilings {
    /// No limits yet, and the percentage (1 to 100) of each resource that one address may have while no other has any.
    /// 100 disables shares.
    #[must_use]
    pub const fn new(client_percent: u8) -> Self {
        Self { client_percent, limits: [Ceiling { limit: u64::MAX, minimum: 0 }; COUNT] }
    }

    /// Sets the limit of one resource. Every address may have `minimum` of it whatever its share.
    #[must_use]
    pub const fn with(mut self, resource: Resource, limit: u64, minimum: u64) -> Self {
        #[expect(clippy::indexing_slicing, reason = "there is a place for each resource")]
        {
            self.limits[resource as usize] = Ceiling { limit, minimum };
        }
        self
    }

    const fn of(&self, resource: Resource) -> Ceiling {
        #[expect(clippy::indexing_slicing, reason = "there is a place for each resource")]
        self.limits[resource as usize]
    }

    /// Whether a claimant may have the amount `has` while `left` is free besides.
    fn is_fair(&self, has: u64, left: u64) -> bool {
        let percent = u128::from(self.client_percent);
        u128::from(has) * (100_u128.saturating_sub(percent)) <= percent * u128::from(left)
    }

    /// The most that a claimant may have while `left` is free for everybody.
    fn fair_part(&self, left: u64) -> u64 {
        let percent = u128::from(self.client_percent);
        let part = (percent * u128::from(left)).checked_div(100_u128.saturating_sub(percent));
        part.and_then(|part| u64::try_from(part).ok()).unwrap_or(u64::MAX)
    }
}

/// Usage of all clients together.
#[derive(Debug)]
pub struct Accounts {
    ceilings: Ceilings,
    used: Amounts,
}

impl Accounts {
    /// Creates accounts with nothing in use.
    #[must_use]
    pub fn new(ceilings: Ceilings) -> Arc<Self> {
        Arc::new(Self { ceilings, used: Amounts::default() })
    }

    /// Amount of a resource in use.
    #[must_use]
    pub fn used(&self, resource: Resource) -> u64 {
        self.used.read(resource)
    }

    /// The limit of a resource.
    #[must_use]
    pub const fn limit(&self, resource: Resource) -> u64 {
        self.ceilings.of(resource).limit
    }

    /// An account outside the table of addresses: the service's own, or a test's.
    #[must_use]
    pub fn account_of(self: &Arc<Self>, ip: IpAddr) -> Arc<Account> {
        Arc::new(Account::new(&Arc::new(Address::new(self, ip)), ip))
    }
}

/// Usage of the connections from one address.
#[derive(Debug)]
struct Address {
    accounts: Arc<Accounts>,
    ip: IpAddr,
    used: Amounts,
}

impl Address {
    fn new(accounts: &Arc<Accounts>, ip: IpAddr) -> Self {
        Self { accounts: Arc::clone(accounts), ip, used: Amounts::default() }
    }
}

/// Usage of one connection. It outlives the connection while anything is charged to it.
#[derive(Debug)]
pub struct Account {
    address: Arc<Address>,
    /// The connection's own address; `address` may stand for several.
    from: IpAddr,
    identity: Identity,
    /// Whether the connection has a reserved place beyond the limit.
    is_reserved: AtomicBool,
    used: Amounts,
}

/// Octets charged for a client's name.
const fn octets_of_name(name: &str) -> u64 {
    64 + name.len() as u64
}

impl Drop for Account {
    fn drop(&mut self) {
        if let Some(name) = self.identity.own_name.get() {
            self.give(Resource::RetainedBytes, octets_of_name(name));
        }
    }
}

/// A claim that was not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// The resource claimed.
    pub resource: Resource,
    /// Limit that the claim exceeds: the service's or the client's.
    pub by: SpentBy,
}

/// Limit of a resource that a claim exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpentBy {
    /// The limit of the whole service.
    All,
    /// The share of the client's connection or address: the rest is for others.
    Client,
}

impl core::fmt::Display for Spent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let name = self.resource.name();
        match self.by {
            SpentBy::All => write!(f, "the service's limit of {name} is reached"),
            SpentBy::Client => write!(f, "the client has used up its quota of the service's {name}"),
        }
    }
}

impl core::error::Error for Spent {}

/// An account equals only itself.
impl PartialEq for Account {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for Account {}

impl Account {
    fn new(address: &Arc<Address>, from: IpAddr) -> Self {
        Self {
            address: Arc::clone(address),
            from,
            identity: Identity::default(),
            is_reserved: AtomicBool::new(false),
            used: Amounts::default(),
        }
    }

    /// The address of the connection.
    #[must_use]
    pub const fn from(&self) -> IpAddr {
        self.from
    }

    /// Whether the account is a client's, and not the service's own.
    #[must_use]
    pub const fn is_outside(&self) -> bool {
        !self.from.is_unspecified()
    }

    /// Notes that the connection has a reserved place beyond the limit: no proxies are granted to it.
    pub fn note_reserved(&self) {
        self.is_reserved.store(true, Ordering::Relaxed);
    }

    /// Whether the connection has a reserved place beyond the limit.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.is_reserved.load(Ordering::Relaxed)
    }

    /// Sets the name that the client gave itself, in a text already checked. Its octets stay charged until the account
    /// is gone. False if the client had given a name before, which stays.
    ///
    /// # Errors
    /// Those of [`Account::charge`].
    pub fn set_name(&self, name: &str) -> Result<bool, Spent> {
        self.take(Resource::RetainedBytes, octets_of_name(name))?;
        let is_first = self.identity.own_name.set(name.into()).is_ok();
        if !is_first {
            self.give(Resource::RetainedBytes, octets_of_name(name));
        }
        Ok(is_first)
    }

    /// The identity that the client has shown.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The address that is charged: for IPv6 its first half.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.address.ip
    }

    /// The accounts of all clients.
    #[must_use]
    pub fn accounts(&self) -> &Arc<Accounts> {
        &self.address.accounts
    }

    /// Amount of a resource that the connection uses.
    #[must_use]
    pub fn used(&self, resource: Resource) -> u64 {
        self.used.read(resource)
    }

    /// Amount of a resource that all connections of its address use.
    #[must_use]
    pub fn used_by_address(&self, resource: Resource) -> u64 {
        self.address.used.read(resource)
    }

    /// Claims an amount of a resource, to be returned when the charge is dropped, on whichever thread.
    ///
    /// # Errors
    /// The limit of the service, or the client's share, is spent. Nothing is claimed then.
    pub fn charge(self: &Arc<Self>, resource: Resource, amount: u64) -> Result<Charge, Spent> {
        self.take(resource, amount)?;
        Ok(Charge { account: Arc::clone(self), resource, amount })
    }

    /// Claims an amount that cannot be refused any more, beyond share and limit if need be.
    #[must_use]
    pub fn charge_anyway(self: &Arc<Self>, resource: Resource, amount: u64) -> Charge {
        self.take_anyway(resource, amount);
        Charge { account: Arc::clone(self), resource, amount }
    }

    /// Claims an amount for a caller that tracks it itself: each such claim needs its [`Account::give`].
    ///
    /// Of two claims of one address at the same time on two threads, one may be refused that would have been granted a
    /// moment later. The limit holds always.
    ///
    /// # Errors
    /// Those of [`Account::charge`].
    pub fn take(&self, resource: Resource, amount: u64) -> Result<(), Spent> {
        let Address { accounts, used: of_address, .. } = &*self.address;
        let Accounts { ceilings, used: of_all } = &**accounts;
        let Ceiling { limit, minimum } = ceilings.of(resource);
        let left = limit.checked_sub(of_all.read(resource).saturating_add(amount));
        let Some(left) = left else { return Err(Spent { resource, by: SpentBy::All }) };
        let by_client = Err(Spent { resource, by: SpentBy::Client });
        if resource == Resource::Proxies && self.is_reserved() {
            return by_client;
        }
        let is_address_fair = |has: u64| has <= minimum || ceilings.is_fair(has, left);
        if !of_address.add_if(resource, amount, is_address_fair) {
            return by_client;
        }
        let left_to_address = ceilings.fair_part(left).saturating_sub(of_address.read(resource));
        if !self.used.add_if(resource, amount, |has| has <= minimum || ceilings.is_fair(has, left_to_address)) {
            of_address.subtract(resource, amount);
            return by_client;
        }
        if !of_all.add_if(resource, amount, |sum| sum <= limit) {
            // Another thread was quicker.
            self.used.subtract(resource, amount);
            of_address.subtract(resource, amount);
            return Err(Spent { resource, by: SpentBy::All });
        }
        Ok(())
    }

    /// Claims an amount that cannot be refused any more, such as for octets already read, beyond share and limit if need be.
    pub fn take_anyway(&self, resource: Resource, amount: u64) {
        self.address.used.add(resource, amount);
        self.used.add(resource, amount);
        self.address.accounts.used.add(resource, amount);
    }

    /// Returns an amount claimed by [`Account::take`] or [`Account::take_anyway`].
    pub fn give(&self, resource: Resource, amount: u64) {
        self.address.accounts.used.subtract(resource, amount);
        self.used.subtract(resource, amount);
        self.address.used.subtract(resource, amount);
    }
}

/// An amount charged to an account, until this is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    resource: Resource,
    amount: u64,
}

impl Charge {
    /// The amount.
    #[must_use]
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// The account charged.
    #[must_use]
    pub const fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Changes the amount.
    ///
    /// # Errors
    /// A larger amount is not granted: the charge stays as it was.
    pub fn resize(&mut self, amount: u64) -> Result<(), Spent> {
        match amount.checked_sub(self.amount) {
            Some(more) => self.account.take(self.resource, more)?,
            None => self.account.give(self.resource, self.amount - amount),
        }
        self.amount = amount;
        Ok(())
    }

    /// Sets the amount to the current use, which cannot be refused any more, beyond share and limit if need be.
    pub fn adjust(&mut self, amount: u64) {
        match amount.checked_sub(self.amount) {
            Some(more) => self.account.take_anyway(self.resource, more),
            None => self.account.give(self.resource, self.amount - amount),
        }
        self.amount = amount;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.give(self.resource, self.amount);
    }
}

/// Addresses with connections, or with charges that outlive them. Only the thread that accepts connections owns it.
#[derive(Debug)]
pub struct Addresses {
    accounts: Arc<Accounts>,
    known: HashMap<IpAddr, Arc<Address>>,
    /// Known addresses, in the order in which they are checked for being unused.
    order: VecDeque<IpAddr>,
}

/// Known addresses checked when a new one comes: more than one, so that unused ones are removed faster than others
/// come, and few, so that no connection waits for it.
const LOOKED_AT: usize = 4;

impl Addresses {
    /// Creates an empty table.
    #[must_use]
    pub fn new(accounts: &Arc<Accounts>) -> Self {
        Self { accounts: Arc::clone(accounts), known: HashMap::new(), order: VecDeque::new() }
    }

    /// Opens an account for a new connection from an address.
    pub fn open(&mut self, from: IpAddr) -> Arc<Account> {
        let (from, ip) = (from.to_canonical(), representative(from));
        if let Some(address) = self.known.get(&ip) {
            return Arc::new(Account::new(address, from));
        }
        self.forget_some();
        let address = Arc::new(Address::new(&self.accounts, ip));
        self.order.push_back(ip);
        let account = Arc::new(Account::new(&address, from));
        self.known.insert(ip, address);
        account
    }

    /// Removes some addresses without accounts.
    fn forget_some(&mut self) {
        for _ in 0..LOOKED_AT {
            let Some(ip) = self.order.pop_front() else { return };
            // With a count of 1 it cannot come into use meanwhile: only this table gives it out.
            if self.known.get(&ip).is_some_and(|address| Arc::strong_count(address) > 1) {
                self.order.push_back(ip);
            } else {
                self.known.remove(&ip);
            }
        }
    }
}

/// The address that stands for `ip` in the table.
fn representative(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests;
