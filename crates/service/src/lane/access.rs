//! Rights of clients: the rules of access as a lane knows them.
//!
//! The rules are evaluated once for each connection and channel, and the result is cached here; a connection's protocol may cache it as
//! well. Where the result depends on the event type, each type is looked up once. Without rules all of this is one comparison. Whether a
//! pulling client owns its proxy is cached for each pair of them.

use std::sync::Arc;

use engine::{ChannelId, Event, Lane, Owner, PendingEvent, Side, TypeId};
use hashbrown::HashMap;

use crate::counters::Counter;
use crate::lane::context::Context;
use crate::lane::intake::{Refused, Submission};
use crate::protocols::{Access, Denied};
use access::{Decision, Grant, Right, RuleNumber, Scope, Who, Why};
use accounts::Account;

/// Size of two caches: rights by connection and channel, and ownership by connection and owner.
const PLACES: usize = 256;
/// Maximum lists of event types shared by connections, and maximum types checked against them. Beyond it the cache is emptied.
const SCOPES_MAX: usize = 1_024;
const VERDICTS_MAX: usize = 16_384;
/// Places of the cache of recent verdicts, which spares a look into the table of all.
const RECENT: usize = 64;

/// Limit of a client that may push events of some types only; `None` if it may push all.
pub(crate) type Permit = Option<Arc<Limited>>;

/// A client that may push events of some types only into a channel.
#[derive(Debug)]
pub(crate) struct Limited {
    scope: Arc<Scope>,
    account: Arc<Account>,
    channel: ChannelId,
}

impl Limited {
    /// The event types.
    pub(crate) fn types(&self) -> &engine::Permitted {
        self.scope.types()
    }

    /// The event types, with the rules that decide of them.
    pub(crate) const fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }
}

/// A client's right on a channel.
struct Known {
    account: Arc<Account>,
    channel: ChannelId,
    right: Right,
    may: Result<Permit, Arc<Scope>>,
}

/// Cached answer whether a client owns an object in a channel.
struct Owned {
    account: Arc<Account>,
    owner: Owner,
    channel: ChannelId,
    is_owner: bool,
}

/// Guard of a lane: evaluates the rules of access and caches the results.
#[derive(Default)]
pub(crate) struct Guard {
    /// Rules of access; `None` where every client may do everything.
    access: Option<Access>,
    known: Vec<Option<Known>>,
    owned: Vec<Option<Owned>>,
    scopes: HashMap<Vec<RuleNumber>, Arc<Scope>>,
    /// Verdicts by event type and by the address of their scope. The scope is kept with the verdict, so that its address is not reused.
    verdicts: HashMap<(usize, TypeId), (Arc<Scope>, Decision)>,
    /// Recent verdicts, each at the place computed from its scope and type. All of them are among `verdicts`, too.
    recent: Vec<Option<((usize, TypeId), Decision)>>,
}

impl Guard {
    /// Whether there are rules.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.access.is_some()
    }

    /// Replaces the rules, and forgets every result of the earlier ones.
    pub(crate) fn handle_access(&mut self, access: Option<&Access>) {
        let is_same = match (&self.access, access) {
            (None, None) => true,
            (Some(one), Some(other)) => one.is(other),
            _ => false,
        };
        if !is_same {
            *self = Self { access: access.cloned(), ..Self::default() };
            if self.is_on() {
                self.known.resize_with(PLACES, || None);
                self.owned.resize_with(PLACES, || None);
                self.recent.resize(RECENT, None);
            }
        }
    }

    /// Forgets the cached rights and owners: a client has shown an identity, and its rights may have changed.
    pub(crate) fn forget_known(&mut self) {
        self.known.iter_mut().for_each(|place| *place = None);
        self.owned.iter_mut().for_each(|place| *place = None);
    }

    /// Forgets the verdicts on event types: the numbers of types are about to be reused.
    pub(crate) fn forget_types(&mut self) {
        self.forget_verdicts();
    }

    fn forget_verdicts(&mut self) {
        self.verdicts.clear();
        self.recent.fill(None);
    }

    /// Looks up a client's right on a channel, and the event types that it is limited to.
    ///
    /// # Errors
    /// The client may do nothing there: the scope has the rules that deny it.
    #[inline]
    pub(crate) fn may(
        &mut self,
        account: &Arc<Account>,
        right: Right,
        channel: ChannelId,
    ) -> Result<Permit, Arc<Scope>> {
        if self.access.is_none() { Ok(None) } else { self.look_up(account, right, channel) }
    }

    fn look_up(&mut self, account: &Arc<Account>, right: Right, channel: ChannelId) -> Result<Permit, Arc<Scope>> {
        let at = (Arc::as_ptr(account).addr() >> 5) ^ (channel.0 as usize).rotate_left(3) ^ right as usize;
        let at = at % PLACES;
        if let Some(Some(known)) = self.known.get(at)
            && Arc::ptr_eq(&known.account, account)
            && known.channel == channel
            && known.right == right
        {
            return known.may.clone();
        }
        let may = self.find_out(account, right, channel);
        if let Some(place) = self.known.get_mut(at) {
            *place = Some(Known { account: Arc::clone(account), channel, right, may: may.clone() });
        }
        may
    }

    /// Whether a client may take the events of a consumer that `owner` owns: as the owner, or as an administrator of the channel. A
    /// consumer without an owner is open to administrators only.
    pub(crate) fn may_take(&mut self, account: &Arc<Account>, owner: Option<&Owner>, channel: ChannelId) -> bool {
        self.access.is_none()
            || owner.is_some_and(|owner| self.is_owner(account, owner, channel))
            || self.may(account, Right::Administer, channel).is_ok()
    }

    fn is_owner(&mut self, account: &Arc<Account>, owner: &Owner, channel: ChannelId) -> bool {
        let Some(of) = owner.get::<Account>() else { return false };
        if core::ptr::eq(Arc::as_ptr(account), of) {
            return true;
        }
        let at = (Arc::as_ptr(account).addr() >> 5) ^ (core::ptr::from_ref(of).addr() >> 3) ^ channel.0 as usize;
        let at = at % PLACES;
        if let Some(Some(known)) = self.owned.get(at)
            && Arc::ptr_eq(&known.account, account)
            && known.owner == *owner
            && known.channel == channel
        {
            return known.is_owner;
        }
        let is_owner =
            self.access.as_ref().is_some_and(|access| access.is_owner(account, of, Some(Side::Consumers), channel));
        if let Some(place) = self.owned.get_mut(at) {
            *place = Some(Owned { account: Arc::clone(account), owner: owner.clone(), channel, is_owner });
        }
        is_owner
    }

    #[cold]
    fn find_out(&mut self, account: &Arc<Account>, right: Right, channel: ChannelId) -> Result<Permit, Arc<Scope>> {
        let Some(access) = &self.access else { return Ok(None) };
        let scope = match access.grant(account, right, channel) {
            Grant::All(_) => return Ok(None),
            Grant::Nothing(scope) => return Err(Arc::new(scope)),
            Grant::Some(scope) => scope,
        };
        if self.scopes.len() >= SCOPES_MAX {
            self.scopes.clear();
        }
        let scope = self.scopes.entry(scope.rules().to_vec()).or_insert_with(|| Arc::new(scope));
        Ok(Some(Arc::new(Limited { scope: Arc::clone(scope), account: Arc::clone(account), channel })))
    }

    /// Whether a limited client may push an event's type.
    fn decide(&mut self, limited: &Limited, event: &Event, lane: &Lane) -> Decision {
        let of_type = event.event_type;
        let place = (Arc::as_ptr(&limited.scope).addr(), of_type);
        let at = ((place.0 >> 4) ^ of_type.number() as usize) % RECENT;
        match self.recent.get(at) {
            Some(Some((known, decision))) if *known == place => *decision,
            _ => self.decide_anew(limited, (event, lane), place, at),
        }
    }

    #[inline(never)]
    fn decide_anew(
        &mut self,
        limited: &Limited,
        (event, lane): (&Event, &Lane),
        place: (usize, TypeId),
        at: usize,
    ) -> Decision {
        if let Some((_, decision)) = self.verdicts.get(&place) {
            let decision = *decision;
            if let Some(recent) = self.recent.get_mut(at) {
                *recent = Some((place, decision));
            }
            return decision;
        }
        let of_type = place.1;
        let (domain, name) = names_of(event, lane);
        let decision = limited.scope.decide(domain, name);
        // Types without a number of their own share one.
        if of_type != TypeId::OTHER {
            if self.verdicts.len() >= VERDICTS_MAX {
                self.forget_verdicts();
            }
            self.verdicts.insert(place, (Arc::clone(&limited.scope), decision));
        }
        decision
    }

    /// Log line about something that was not allowed.
    fn denial(&self, account: &Account, what: &dyn core::fmt::Display, channel: ChannelId, why: Why<'_>) -> String {
        let Some(access) = &self.access else { return String::new() };
        access.denial(&Who::of(account), what, access.channel(channel), why)
    }
}

fn names_of<'e>(event: &'e Event, lane: &'e Lane) -> (&'e [u8], &'e [u8]) {
    lane.type_names(event.event_type).unwrap_or_else(|| event.names())
}

impl Guard {
    /// Returns an event of a type that its client may push; any other is counted, logged and dropped.
    #[inline]
    pub(crate) fn admits_type(
        &mut self,
        submission: &mut Submission,
        pending_event: PendingEvent,
        cx: &mut Context,
    ) -> Option<PendingEvent> {
        match submission.permit() {
            None => Some(pending_event),
            Some(limited) => match self.decide(limited, &pending_event, &cx.lane) {
                Decision { allowed: true, .. } => Some(pending_event),
                Decision { rule, .. } => {
                    let limited = Arc::clone(limited);
                    self.deny_type(&limited, rule, pending_event, cx);
                    submission.refuse(Refused::NotPermitted);
                    None
                }
            },
        }
    }

    #[cold]
    fn deny_type(&mut self, limited: &Limited, rule: RuleNumber, pending_event: PendingEvent, cx: &mut Context) {
        let what = {
            let (domain, name) = names_of(&pending_event, &cx.lane);
            let shown = |text: &[u8]| crate::lane::reports::printable(&String::from_utf8_lossy(text));
            format!("an event of type {}/{} (publish)", shown(domain), shown(name))
        };
        self.deny(&limited.account, Right::Publish, limited.channel, (Why::Rule(rule), &what), cx);
        cx.lane.abandon_event(pending_event);
    }

    /// Counts and logs the denial of a right.
    #[cold]
    pub(crate) fn deny(
        &mut self,
        account: &Account,
        right: Right,
        channel: ChannelId,
        (why, what): (Why<'_>, &dyn core::fmt::Display),
        cx: &mut Context,
    ) {
        cx.counters.add(Counter::of_denied(right), 1);
        let guard = self;
        let denied =
            || Denied { right: Some(right), ip: account.ip(), text: guard.denial(account, what, channel, why) };
        let said = cx.reporting.reports.denied(denied, cx.clock.now);
        cx.counters.add(Counter::LogLinesLeftOut, u64::from(!said));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::access_by;
    use access::{RuleText, Rules};
    use accounts::{Accounts, Ceilings};

    fn rules(texts: &[(&str, &str, bool)]) -> Option<Rules> {
        let text = |&(who, of, allow): &(&str, &str, bool)| RuleText {
            who: vec![who.into()],
            may: vec!["publish".into()],
            types: vec![of.into()],
            allow,
            ..RuleText::default()
        };
        Rules::parse(&texts.iter().map(text).collect::<Vec<_>>()).unwrap()
    }

    fn guard(rules: Option<Rules>, accounts: &Arc<Accounts>) -> Guard {
        let mut guard = Guard::default();
        guard.handle_access(access_by(rules, accounts).as_ref());
        guard
    }

    #[test]
    fn what_a_client_may_is_found_out_once_and_anew_when_it_shows_a_token() {
        let accounts = Accounts::new(Ceilings::new(75));
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|ip| accounts.account_of(ip.parse().unwrap()));
        let channel = ChannelId(0);
        let mut none = guard(None, &accounts);
        assert!(!none.is_on() && matches!(none.may(&one, Right::Publish, channel), Ok(None)));
        let mut guard = guard(rules(&[("10.0.0.1", "A/*", true), ("token:t", "*/*", true)]), &accounts);
        let first = guard.may(&one, Right::Publish, channel).unwrap().unwrap();
        let again = guard.may(&one, Right::Publish, channel).unwrap().unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        for (who, right) in [(&one, Right::Subscribe), (&other, Right::Publish)] {
            let why = guard.may(who, right, channel).unwrap_err();
            assert_eq!(why.why(None), Why::Rule(RuleNumber::NONE));
        }
        other.identity().show_token("t".into());
        guard.forget_known();
        assert!(matches!(guard.may(&other, Right::Publish, channel), Ok(None)));
    }

    #[test]
    fn each_event_type_is_checked_against_the_rules_once_also_those_without_a_number() {
        let accounts = Accounts::new(Ceilings::new(75));
        let account = accounts.account_of("10.0.0.1".parse().unwrap());
        let mut guard = guard(rules(&[("*", "A/x*", false), ("*", "A/*", true)]), &accounts);
        let limited = guard.may(&account, Right::Publish, ChannelId(0)).unwrap().unwrap();
        let mut lane = Lane::new(engine::Time(0));
        let mut decide = |domain: &[u8], name: &[u8]| {
            let mut pending_event = lane.begin_event();
            lane.classify(&mut pending_event, domain, name);
            let decision = guard.decide(&limited, &pending_event, &lane);
            lane.abandon_event(pending_event);
            decision.allowed
        };
        let long = [b"x".as_slice(), &[b'y'; 2_000]].concat();
        for _ in 0..2 {
            assert!(decide(b"A", b"y") && !decide(b"A", b"xy") && !decide(b"B", b"y"));
            assert!(!decide(b"A", &long) && decide(b"A", &long[1..]) && !decide(b"B", &long[1..]));
        }
        assert_eq!(guard.verdicts.len(), 3);
    }
}
