//! Access control: each request is checked against the rules before it is carried out.
//!
//! The object and the name of an operation determine the right it needs ([`needs`](mod@needs)), by default the right to administer. The
//! client that made an object, or is connected to it, may use, change and end it with the right to its side; other clients need the right
//! to administer its channel. The event types permitted to a consumer go to the engine with its connection
//! ([`Hierarchy::permit`](engine::Hierarchy)).
//!
//! Pushes served by lanes do not come here: lanes check them against the same rules, by [`Access`].

mod acts;
mod needs;

pub use self::acts::{Act, ActOutcome};
use self::needs::{Needs, needs};
use super::{Objects, Thing};
use crate::exceptions::Raised;
use crate::table::Target;
use access::{CalledFor, Channel, Grant, OutgoingPolicy, Right, RuleNumber, Rules, Who, Why};
use accounts::{Account, Accounts};
use engine::{ChannelId, ClientAddress, EventType, Owner, Permitted, ProxyKey, ProxyState, Side};
use giop::ior::{IiopProfile, Ior};
use hashbrown::HashMap;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The rules, and channel names: all that they depend on. A copy shares everything.
#[derive(Clone, Debug)]
pub struct Access {
    rules: Arc<Rules>,
    /// Channel names. Up to date only if a rule names a channel; else unused.
    names: Arc<BTreeMap<ChannelId, Arc<str>>>,
}

impl Access {
    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// A channel as rules know it.
    #[must_use]
    pub fn channel(&self, id: ChannelId) -> Channel<'_> {
        Channel { id: Some(id), name: self.names.get(&id).map(AsRef::as_ref) }
    }

    /// The grant of a right to a client on a channel.
    #[must_use]
    pub fn grant(&self, account: &Account, right: Right, channel: ChannelId) -> Grant {
        self.rules.grant(&Who::of(account), right, self.channel(channel))
    }

    /// Whether an account owns an object: the same certificate, else the same token, else the same address. An owner without certificate
    /// and token also matches another address if the same entries of the rules admit both to a side of the object: addresses change, but
    /// not the operator's entries for them.
    #[must_use]
    pub fn is_owner(&self, who: &Account, owner: &Account, side: Option<Side>, channel: ChannelId) -> bool {
        let is_bare = |account: &Account| Who::of(account).is_bare();
        let admitted = |account, right| self.rules.admitted_by(&Who::of(account), right, self.channel(channel));
        let is_admitted_alike = |right| {
            let by = admitted(owner, right);
            !by.is_empty() && by == admitted(who, right)
        };
        is_same(who, owner) || is_bare(who) && is_bare(owner) && rights_to(side).into_iter().any(is_admitted_alike)
    }

    /// Whether both are the same rules about channels of the same names.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rules, &other.rules) && Arc::ptr_eq(&self.names, &other.names)
    }

    /// Text of a denial, with the rule, or the rules if each decides for some event types.
    #[must_use]
    pub fn denial(&self, who: &Who<'_>, what: &dyn std::fmt::Display, on: Channel<'_>, why: Why<'_>) -> String {
        denial_text(who, what, on, &self.rules.denial(why))
    }
}

fn denial_text(who: &Who<'_>, what: &dyn std::fmt::Display, on: Channel<'_>, why: &str) -> String {
    format!("denied {who}: {what} on {on}: {why}")
}

/// A denied operation of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The missing right; `None` if the service would have to call a forbidden address.
    pub right: Option<Right>,
    /// The client's address, as its account has it.
    pub ip: IpAddr,
    /// Client, operation, object and the rule that denies it, for the log.
    pub text: String,
}

/// A refused permission, and the rule that refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// Account, operation, channel and rule, in a sentence.
    pub why: String,
    /// The deciding rule, by number and name, or the rules if each decides for some event types; `no rule` if none applies.
    pub rule: String,
}

/// Maximum denials stored until they are polled: a request usually has one.
const DENIED_MAX: usize = 16;
/// Maximum cached lists of event types; clients granted by the same rules share one.
const PERMITTED_MAX: usize = 4_096;

/// State of access control: the rules, and recent denials and acts.
#[derive(Debug, Default)]
pub struct Guard {
    access: Option<Access>,
    permitted: HashMap<Vec<RuleNumber>, Arc<Permitted>>,
    denied: VecDeque<Denied>,
    /// The rules that caused the last denial.
    why: Option<String>,
    acts: VecDeque<Act>,
    /// Addresses that the service must not call.
    outgoing: Arc<OutgoingPolicy>,
    /// Whether an address is this machine's.
    is_here: Option<fn(IpAddr) -> bool>,
    /// Whether the rules, or the names of channels, have changed since they were published.
    has_changed: bool,
}

impl Guard {
    /// The rules for lanes.
    pub(super) const fn access(&self) -> Option<&Access> {
        self.access.as_ref()
    }

    /// Whether the rules changed since the last call.
    pub(super) const fn take_changed(&mut self) -> bool {
        core::mem::replace(&mut self.has_changed, false)
    }

    pub(super) const fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// A channel has a name, or none any more.
    pub(super) fn note_name(&mut self, channel: ChannelId, name: Option<Arc<str>>) {
        let Some(access) = self.access.as_mut().filter(|access| access.rules.name_channels()) else { return };
        if access.names.get(&channel) == name.as_ref() {
            return;
        }
        let names = Arc::make_mut(&mut access.names);
        match name {
            Some(name) => _ = names.insert(channel, name),
            None => _ = names.remove(&channel),
        }
        self.has_changed = true;
    }

    pub(super) fn forget_channel(&mut self, channel: ChannelId) {
        self.note_name(channel, None);
    }

    /// Event types that a grant allows, in the engine's form; `None` if it allows all.
    fn permitted(&mut self, grant: &Grant) -> Option<Arc<Permitted>> {
        let (rules, types) = match grant {
            Grant::All(_) => return None,
            // Whichever rules say so. Where it depends on the type there are two at least.
            Grant::Nothing(_) => (vec![RuleNumber::NONE], &Permitted::nothing()),
            Grant::Some(scope) => (scope.rules().to_vec(), scope.types()),
        };
        if self.permitted.len() >= PERMITTED_MAX {
            self.permitted.clear();
        }
        Some(Arc::clone(self.permitted.entry(rules).or_insert_with(|| Arc::new(types.clone()))))
    }

    /// Replaces the rules, also for connected clients; without rules, everything is allowed. Lanes get them with the next publication.
    pub fn set_access(&mut self, objects: &mut Objects, rules: Option<Rules>, accounts: &Arc<Accounts>) {
        let names = objects.hierarchy.channels().map(engine::Channel::id);
        let named = |channel: ChannelId| Some((channel, objects.names.for_rules(channel).cloned()?));
        let names = Arc::new(names.filter_map(named).collect());
        self.access = rules.map(|rules| Access { rules: Arc::new(rules), names });
        objects.ledger.accounts = Some(Arc::clone(accounts));
        self.permitted.clear();
        self.has_changed = true;
        objects.hierarchy.renew();
        self.permit_all(objects);
    }

    /// Replaces the rules in all parts, once [`set_access`](Self::set_access) was called.
    pub fn replace_access(&mut self, objects: &mut Objects, rules: Option<Rules>) {
        if let Some(accounts) = objects.ledger.accounts.clone() {
            self.set_access(objects, rules, &accounts);
        }
    }

    /// Sets the addresses that the service must not call: a client with a reference that names only such addresses is refused. `is_here`
    /// says whether an address is this machine's.
    pub fn set_outgoing(&mut self, policy: Arc<OutgoingPolicy>, is_here: fn(IpAddr) -> bool) {
        self.outgoing = policy;
        self.is_here = Some(is_here);
    }

    /// Whether an address is this machine's.
    pub(super) fn is_here(&self, ip: IpAddr) -> bool {
        self.is_here.is_some_and(|is_here| is_here(ip))
    }

    /// Refuses a client if the service must not call any of its addresses. A forbidden address beside permitted ones is skipped; a host
    /// name is checked when it is called.
    pub(super) fn check_outgoing(&mut self, objects: &Objects, reference: &Ior) -> Result<(), Raised> {
        let here = objects.settings.host.parse::<IpAddr>().ok();
        let is_here = |ip: IpAddr| Some(ip) == here || self.is_here(ip);
        let is_foreign = |ip: IpAddr| !ip.to_canonical().is_loopback() && !is_here(ip);
        let called_for = match &objects.ledger.principal {
            Some(account) if is_foreign(account.ip()) => CalledFor::Foreign,
            _ => CalledFor::Local,
        };
        let refused = |(host, port): (String, u16)| {
            let address = SocketAddr::new(host.parse().ok()?, port);
            let why = self.outgoing.refuses(address, called_for, is_here)?;
            Some(format!("{address} is not called: {why}"))
        };
        let mut first = None;
        for address in reference.iiop_profiles().flat_map(IiopProfile::addresses) {
            let Some(why) = refused(address) else { return Ok(()) };
            first.get_or_insert(why);
        }
        match (first, &objects.ledger.principal) {
            (Some(why), Some(account)) => {
                let text = format!("denied {}: {why}", Who::of(account));
                let ip = account.ip();
                Err(self.deny(Denied { right: None, ip, text }, why))
            }
            _ => Ok(()),
        }
    }

    /// Recomputes the permitted event types of connected consumers, after a change of a name or the rules.
    fn permit_all(&mut self, objects: &mut Objects) {
        let proxies = objects.hierarchy.channels().flat_map(|channel| {
            let connected = channel.proxies().filter(|proxy| proxy.state != ProxyState::Unconnected);
            connected.map(|proxy| ProxyKey { channel: channel.id(), proxy: proxy.id })
        });
        let proxies: Vec<ProxyKey> = proxies.collect();
        for key in proxies {
            self.permit_connected(objects, key);
        }
    }

    /// Passes the permitted event types of the consumer connected to a proxy to the engine.
    pub(super) fn permit_connected(&mut self, objects: &mut Objects, key: ProxyKey) {
        let Ok(proxy) = objects.hierarchy.proxy(key) else { return };
        if proxy.side != Side::Consumers {
            return;
        }
        let before = (proxy.permitted.clone(), proxy.owner.clone(), proxy.client_address);
        let account = objects.ledger.owner(Thing::Proxy(key));
        let permitted = match &self.access {
            None => None,
            Some(access) => {
                // Of one that was restored by a former release, and connected when there were no rules, nothing is known.
                let who = account.as_ref().map(|account| Who::of(account)).unwrap_or_default();
                let grant = access.rules.grant(&who, Right::Subscribe, access.channel(key.channel));
                self.permitted(&grant)
            }
        };
        let client_address = account.as_ref().map(|account| client_address(account.ip()));
        let owner = account.filter(|_| self.access.is_some()).map(Owner::new);
        let now = (permitted, owner, client_address);
        if now == before {
            return;
        }
        let (permitted, owner, client_address) = now;
        if let Err(refusal) = objects.hierarchy.permit(key, permitted, owner, client_address) {
            log::debug!(target: "campanile::corba", "no client to permit anything: {refusal}");
        }
    }

    /// Checks that the requesting client may execute an operation on an object.
    pub(super) fn authorize(&mut self, objects: &Objects, target: Target, operation: &str) -> Result<(), Raised> {
        let (Some(access), Some(account)) = (&self.access, &objects.ledger.principal) else { return Ok(()) };
        let who = Who::of(account);
        let rules = &access.rules;
        let channel = objects.channel_of(target);
        let on = channel.map_or(Channel::SERVICE, |id| access.channel(id));
        let grant = |right| rules.grant(&who, right, on);
        let (right, verdict) = match needs(target, operation) {
            Needs::Nothing => return Ok(()),
            Needs::KnowsAny if rules.knows_any(&who) => return Ok(()),
            Needs::Knows if rules.knows(&who, on) => return Ok(()),
            // Each right would do, and it has none: the highest is named.
            Needs::KnowsAny | Needs::Knows | Needs::Administers => (Right::Administer, grant(Right::Administer)),
            Needs::Uses(side) => (right_to(side), grant(right_to(side))),
            Needs::Owns(side) => {
                let is_own = self.is_own(objects, target, account);
                let rights = rights_to(side);
                let uses = rights.into_iter().find(|right| grant(*right).is_any());
                match uses {
                    Some(_) if is_own => return Ok(()),
                    Some(_) => (Right::Administer, grant(Right::Administer)),
                    None => {
                        let administers = grant(Right::Administer);
                        let [right, _] = rights;
                        if administers.is_any() { return Ok(()) } else { (right, grant(right)) }
                    }
                }
            }
        };
        if verdict.is_any() {
            return Ok(());
        }
        let what = format!("{operation} ({right})");
        let why = access.rules.denial(verdict.scope().why(None));
        let (ip, text) = (account.ip(), denial_text(&who, &what, on, &why));
        Err(self.deny(Denied { right: Some(right), ip, text }, why))
    }

    /// Checks that the requesting client may make a channel of that name.
    pub(super) fn authorize_creation(&mut self, objects: &Objects, name: Option<&str>) -> Result<(), Raised> {
        self.authorize_on(objects, Right::Administer, (Channel { id: None, name }, None), "a new channel")
    }

    /// Checks that the requesting client may link two channels: for any event that one sends and the other accepts.
    pub(super) fn authorize_link(&mut self, objects: &Objects, from: ChannelId, to: ChannelId) -> Result<(), Raised> {
        for (right, channel) in [(Right::Subscribe, from), (Right::Publish, to)] {
            let (Some(access), Some(account)) = (&self.access, &objects.ledger.principal) else {
                return Ok(());
            };
            let grant = access.grant(account, right, channel);
            if !matches!(grant, Grant::All(_)) {
                let what = format!("a channel that supplies another ({right}, whatever the event type)");
                let why = access.rules.denial(grant.scope().why(None));
                let (ip, text) = (account.ip(), denial_text(&Who::of(account), &what, access.channel(channel), &why));
                return Err(self.deny(Denied { right: Some(right), ip, text }, why));
            }
        }
        Ok(())
    }

    /// Whether a client may operate the service as a whole: read everything, and disconnect any client. A denial is noted.
    pub fn may_operate(&mut self, objects: &mut Objects, account: &Arc<Account>, what: &str) -> bool {
        let before = objects.ledger.principal.replace(Arc::clone(account));
        let may = self.authorize_on(objects, Right::Administer, (Channel::SERVICE, None), what).is_ok();
        objects.ledger.principal = before;
        may
    }

    /// Checks that an account has a right on a channel or, without a channel, on the whole service. Without a right, checks that it may
    /// know the channel. A denial is noted.
    ///
    /// # Errors
    /// The denied right, and the rule.
    pub fn permits(
        &mut self,
        account: &Account,
        right: Option<Right>,
        channel: Option<ChannelId>,
        what: &str,
    ) -> Result<(), Forbidden> {
        let Some(access) = &self.access else { return Ok(()) };
        let who = Who::of(account);
        let on = channel.map_or(Channel::SERVICE, |id| access.channel(id));
        let needed = right.unwrap_or(Right::Administer);
        let grant = access.rules.grant(&who, needed, on);
        if grant.is_any() || right.is_none() && access.rules.knows(&who, on) {
            return Ok(());
        }
        let reason = grant.scope().why(None);
        let denial = access.rules.denial(reason);
        let text = denial_text(&who, &format!("{what} ({needed})"), on, &denial);
        let why = format!("{who} is not permitted {what} ({needed}) on {on}: {denial}");
        let rule = match reason {
            Why::Rule(rule) => access.rules.title(rule),
            Why::Parts(_) => denial,
        };
        self.note_denied(Denied { right: Some(needed), ip: account.ip(), text });
        Err(Forbidden { why, rule })
    }

    /// Whether a client has a right on a channel, for some event type at least. If one type is given, a denial names the rule that decides
    /// for it.
    pub(super) fn authorize_use(
        &mut self,
        objects: &Objects,
        side: Side,
        (channel, about): (ChannelId, Option<&EventType>),
        what: &str,
    ) -> Result<(), Raised> {
        let Some(access) = self.access.clone() else { return Ok(()) };
        self.authorize_on(objects, right_to(side), (access.channel(channel), about), what)
    }

    /// Refuses a client that does not administer a channel.
    pub(super) fn authorize_administration(
        &mut self,
        objects: &Objects,
        channel: ChannelId,
        what: &str,
    ) -> Result<(), Raised> {
        let Some(access) = self.access.clone() else { return Ok(()) };
        self.authorize_on(objects, Right::Administer, (access.channel(channel), None), what)
    }

    fn authorize_on(
        &mut self,
        objects: &Objects,
        right: Right,
        (on, about): (Channel<'_>, Option<&EventType>),
        what: &str,
    ) -> Result<(), Raised> {
        let (Some(access), Some(account)) = (&self.access, &objects.ledger.principal) else { return Ok(()) };
        let who = Who::of(account);
        let grant = access.rules.grant(&who, right, on);
        if grant.is_any() {
            return Ok(());
        }
        let of = about.map(|of| (of.domain.as_bytes(), of.name.as_bytes()));
        let why = access.rules.denial(grant.scope().why(of));
        let (ip, text) = (account.ip(), denial_text(&who, &format!("{what} ({right})"), on, &why));
        Err(self.deny(Denied { right: Some(right), ip, text }, why))
    }

    /// Denies an operation because of these rules.
    fn deny(&mut self, denied: Denied, why: String) -> Raised {
        self.why = Some(why);
        self.note_denied(denied);
        Raised::denied()
    }

    fn note_denied(&mut self, denied: Denied) {
        if self.denied.len() < DENIED_MAX {
            self.denied.push_back(denied);
        }
    }

    /// Takes the next denial, to be counted and logged.
    pub fn poll_denied(&mut self) -> Option<Denied> {
        self.denied.pop_front()
    }

    /// Whether the requesting client may know a channel.
    pub(crate) fn knows(&self, objects: &Objects, channel: ChannelId) -> bool {
        match (&self.access, &objects.ledger.principal) {
            (Some(access), Some(account)) => access.rules.knows(&Who::of(account), access.channel(channel)),
            _ => true,
        }
    }

    /// Whether a client may know a channel by name, at any service.
    pub(super) fn knows_name(&self, account: Option<&Account>, name: &str) -> bool {
        match (&self.access, account) {
            (Some(access), Some(account)) => {
                access.rules.knows(&Who::of(account), Channel { id: None, name: Some(name) })
            }
            _ => true,
        }
    }

    /// Whether a linked service may lead clients to its channel of a name: it may publish in one here.
    pub(super) fn may_lead_to(&self, account: &Account, name: &str) -> bool {
        let on = Channel { id: None, name: Some(name) };
        self.access.as_ref().is_none_or(|access| access.rules.grant(&Who::of(account), Right::Publish, on).is_any())
    }

    /// Tells the rules of access a channel's current name.
    pub(super) fn note_name_for_rules(&mut self, objects: &Objects, channel: ChannelId) {
        self.note_name(channel, objects.names.for_rules(channel).cloned());
    }

    /// Whether an account owns an object. With rules, an object without an owner needs the right to administer its channel.
    pub(super) fn is_own(&self, objects: &Objects, target: Target, account: &Account) -> bool {
        let (thing, side) = match target {
            // A channel's default admins have no owner.
            Target::Admin(admin) if admin.admin == engine::AdminId::DEFAULT => return false,
            Target::Admin(admin) => (Thing::Admin(admin), Some(admin.side)),
            Target::Proxy(key, side) => (Thing::Proxy(key), Some(side)),
            Target::Filter(filter) | Target::MappingFilter(filter) => (Thing::Filter(filter), None),
            _ => return false,
        };
        match (objects.ledger.owner(thing), &self.access, objects.channel_of(target)) {
            (owner, None, _) => owner.is_none_or(|owner| is_same(&owner, account)),
            (Some(owner), Some(access), Some(channel)) => access.is_owner(account, &owner, side, channel),
            (_, Some(_), _) => false,
        }
    }

    /// Whether the requesting client may replace a proxy's client: it owns the proxy, or there are no rules.
    pub(super) fn may_replace(&self, objects: &Objects, key: ProxyKey, side: Side) -> bool {
        self.access.is_none()
            || objects
                .ledger
                .principal
                .as_ref()
                .is_none_or(|asker| self.is_own(objects, Target::Proxy(key, side), asker))
    }
}

/// The right to a side.
const fn right_to(side: Side) -> Right {
    match side {
        Side::Suppliers => Right::Publish,
        Side::Consumers => Right::Subscribe,
    }
}

/// The rights to a side, or to either.
fn rights_to(side: Option<Side>) -> [Right; 2] {
    side.map_or([Right::Publish, Right::Subscribe], |side| [right_to(side); 2])
}

/// Whether two connections belong to one principal: the same certificate, else the same token, else the same address.
pub(super) fn is_same(one: &Account, other: &Account) -> bool {
    let (one_shows, other_shows) = (one.identity(), other.identity());
    match (one_shows.certified(), other_shows.certified()) {
        (Some(one), Some(other)) => return one == other,
        (None, None) => {}
        _ => return false,
    }
    match (one_shows.token(), other_shows.token()) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.from() == other.from() && one_shows.protocol() == other_shows.protocol(),
        _ => false,
    }
}

/// Number of a client address. Its consumers share the grants for blocking suppliers.
fn client_address(ip: IpAddr) -> ClientAddress {
    match ip {
        IpAddr::V4(ip) => ClientAddress(0xFFFF_0000_0000 | u64::from(ip.to_bits())),
        // Accounts take the addresses of one network together.
        IpAddr::V6(ip) => ClientAddress(u64::try_from(ip.to_bits() >> 64).unwrap_or(u64::MAX)),
    }
}
