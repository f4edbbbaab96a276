//! Which consumers of a channel get events of a type: found once for each type, remembered until routing changes.
//!
//! Most consumers either take every event of a type or none. For the others the verdict of filters counts, and what is
//! remembered is how much it takes for each of them.

use alloc::vec::Vec;
use core::ops::Range;

use hashbrown::HashMap;

use super::channel::Bridge;
use crate::table::{Filtering, Target};
use crate::{ChannelRoutes, ConsumerRoute, LaneId, Operator, Questions, TypeId};

/// What a group of filters, a consumer's own or its admin's, says of events of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// It has no filters and its subscription was never changed: it does not count.
    Absent,
    No,
    Yes,
    /// Yes for an event that matches one of its filters.
    Matched,
    /// What the filters say that clients implement.
    Asked,
    /// Yes for an event that matches one of its filters, and what clients' filters say of any other.
    MatchedOrAsked,
}

/// What a consumer's two groups say of events of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stance {
    pub(super) proxy: Group,
    pub(super) admin: Group,
    pub(super) operator: Operator,
}

/// What it takes for a consumer to get an event of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    Everything,
    /// A match of its own filters, whatever the admin's say, or together with the admin's.
    OwnMatch,
    /// A match of its admin's filters, whatever its own say.
    AdminMatch,
    /// Either.
    EitherMatch,
    /// It must be looked at for each event: a client's filter may have to be asked.
    ALook,
}

impl Stance {
    /// What it comes to. (OMG Notification Service 1.1, `InterFilterGroupOperator`.)
    fn takes(self) -> Takes {
        use Group::{Absent, Matched, No, Yes};
        let of_one = |group, matched| match group {
            Absent | Yes => Takes::Everything,
            No => Takes::Nothing,
            Matched => matched,
            Group::Asked | Group::MatchedOrAsked => Takes::ALook,
        };
        match (self.operator, self.proxy, self.admin) {
            (_, Absent, admin) => of_one(admin, Takes::AdminMatch),
            (_, proxy, Absent) => of_one(proxy, Takes::OwnMatch),
            (Operator::And, No, _) | (Operator::And, _, No) => Takes::Nothing,
            (Operator::And, Yes, admin) => of_one(admin, Takes::AdminMatch),
            (Operator::Or, Yes, _) | (Operator::Or, _, Yes) => Takes::Everything,
            (Operator::Or, No, admin) => of_one(admin, Takes::AdminMatch),
            (Operator::And, proxy, Yes) | (Operator::Or, proxy, No) => of_one(proxy, Takes::OwnMatch),
            (Operator::And, Matched, Matched) => Takes::OwnMatch,
            (Operator::Or, Matched, Matched) => Takes::EitherMatch,
            _ => Takes::ALook,
        }
    }

    /// Whether it matters if an event matches the admin's filters.
    pub(super) fn depends_on_admin(self) -> bool {
        matches!(self.admin, Group::Matched | Group::MatchedOrAsked)
    }

    /// The verdict on an event, given whether it matched the proxy's and the admin's filters.
    pub(super) fn verdict(self, own_match: bool, admin_match: bool) -> Verdict {
        let of_group = |group, matched: bool| match group {
            Group::Absent => None,
            Group::No => Some(Answer::No),
            Group::Yes => Some(Answer::Yes),
            Group::Matched if !matched => Some(Answer::No),
            Group::Asked => Some(Answer::Ask),
            Group::MatchedOrAsked if !matched => Some(Answer::Ask),
            Group::Matched | Group::MatchedOrAsked => Some(Answer::Yes),
        };
        combine(of_group(self.proxy, own_match), of_group(self.admin, admin_match), self.operator)
    }
}

/// What a group says of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    No,
    Yes,
    /// Its clients' filters decide.
    Ask,
}

/// What both groups together say of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Dropped,
    Passed,
    Ask(Questions),
}

/// Puts the two groups' answers together; one that does not count has none. (OMG Notification Service 1.1,
/// `InterFilterGroupOperator`.)
pub(super) fn combine(proxy: Option<Answer>, admin: Option<Answer>, operator: Operator) -> Verdict {
    let both = [proxy, admin];
    let says = |answer| both.contains(&Some(answer));
    let decided = match operator {
        Operator::And if says(Answer::No) => Some(false),
        Operator::And => (!says(Answer::Ask)).then_some(true),
        Operator::Or if says(Answer::Yes) || both == [None; 2] => Some(true),
        Operator::Or => (!says(Answer::Ask)).then_some(false),
    };
    match decided {
        Some(true) => Verdict::Passed,
        Some(false) => Verdict::Dropped,
        None => Verdict::Ask(Questions {
            proxy: proxy == Some(Answer::Ask),
            admin: admin == Some(Answer::Ask),
            all: operator == Operator::And,
        }),
    }
}

/// A part of one of the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(super) fn len(self) -> usize {
        self.range().len()
    }

    pub(super) fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// What is remembered of a type. Members are consumers, by their place among the channel's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// The members that take every event of the type, rising.
    pub(super) always: Span,
    /// The members that must be looked at for each event.
    pub(super) looks: Span,
    /// The lists of event types that the type is in, rising.
    pub(super) lists: Span,
    /// The sections of constraints that such an event meets.
    pub(super) sections: Span,
    /// What the members that filters decide for say, by member; empty if there are none.
    stances: Span,
    /// For each admin whose filters decide: those they decide for.
    admins: Span,
    /// The bridges to other lanes that have consumers that may want events of the type, and at which priorities.
    remotes: Span,
    /// The members, wherever they are, whose mapping filters may have to say which lane the event is for.
    pub(super) mapped: Span,
}

/// A bridge, and a range of priorities at which events of a type are handed over by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Remote {
    /// Its place among the channel's bridges.
    pub(super) bridge: u32,
    from: i16,
    /// The last priority of the range.
    to: i16,
}

impl Remote {
    pub(super) fn has(self, priority: i16) -> bool {
        (self.from..=self.to).contains(&priority)
    }
}

/// Which lane it is that asks, and which others it has bridges to.
#[derive(Clone, Copy)]
pub(super) struct Here<'a> {
    pub(super) lane: LaneId,
    pub(super) bridges: &'a [Bridge],
}

impl Known {
    /// Whether filters decide for any consumer.
    pub(super) fn is_conditional(&self) -> bool {
        !self.stances.is_empty()
    }
}

#[derive(Clone, Copy, Debug)]
struct OfAdmin {
    admin: u32,
    members: Span,
}

/// A channel's remembered destinations: at most 4,096 types and 1,048,576 places in their lists together. When there
/// would be more, all are forgotten and found again as they are needed.
#[derive(Debug, Default)]
pub(super) struct Destinations {
    known: HashMap<TypeId, Known>,
    /// One type's lists after another's, and behind `kept` those of a type that is not remembered.
    places: Vec<u32>,
    stances: Vec<Stance>,
    admins: Vec<OfAdmin>,
    remotes: Vec<Remote>,
    kept: [usize; 4],
    working: Working,
}

/// Working space, kept for its capacity.
#[derive(Debug, Default)]
struct Working {
    /// By list: whether the type is in it.
    lists: Vec<bool>,
    /// By filter.
    filters: Vec<Group>,
    /// What the filters made here say, by member and by admin.
    members: Vec<Group>,
    admins: Vec<Group>,
    /// Admin and member, for those that the admin's filters decide for.
    by_admin: Vec<(u32, u32)>,
    remotes: Vec<Remote>,
    mapped: Vec<u32>,
}

impl Destinations {
    const TYPES_MAX: usize = 4_096;
    const PLACES_MAX: usize = 1 << 20;

    /// What is remembered of a type.
    pub(super) fn find(&self, event_type: TypeId) -> Option<Known> {
        self.known.get(&event_type).copied()
    }

    /// Finds out about a type, and remembers it unless the type has no number of its own. `is_alive` says of a member
    /// whether it gets events at all. Says also whether all others had to be forgotten.
    pub(super) fn learn(
        &mut self,
        event_type: TypeId,
        (domain, name): (&[u8], &[u8]),
        routes: &ChannelRoutes,
        here: Here<'_>,
        is_alive: impl Fn(usize) -> bool,
    ) -> (Known, bool) {
        let ChannelRoutes { consumers, filtering, .. } = routes;
        let listed = self.places.len() + self.stances.len() + self.remotes.len();
        let reset = self.known.len() >= Self::TYPES_MAX || listed >= Self::PLACES_MAX;
        if reset {
            self.clear();
        }
        let [places, stances, admins, remotes] = self.kept;
        self.places.truncate(places);
        self.stances.truncate(stances);
        self.admins.truncate(admins);
        self.remotes.truncate(remotes);

        let mut working = core::mem::take(&mut self.working);
        working.judge(domain, name, consumers.len(), filtering);
        let is_in = |list: &u32| working.lists.get(*list as usize).is_some_and(|is_in| *is_in);
        let mut known = Known { lists: self.list((0..place(working.lists.len())).filter(is_in)), ..Known::default() };
        self.sort_consumers(&mut known, &mut working, (domain, name), consumers, here, is_alive);
        if known.is_conditional() {
            let sections = (0..).zip(&filtering.table.sections);
            let is_in = |list: &u32| working.lists.get(*list as usize).is_some_and(|is_in| *is_in);
            let met = sections.filter(|(_, section)| section.lists.iter().any(is_in));
            known.sections = self.list(met.map(|(at, _)| at));
        }
        self.working = working;
        if event_type != TypeId::OTHER {
            self.known.insert(event_type, known);
            self.kept = [self.places.len(), self.stances.len(), self.admins.len(), self.remotes.len()];
        }
        (known, reset)
    }

    /// Who takes every event, who must be looked at, and for whom it takes a match.
    fn sort_consumers(
        &mut self,
        known: &mut Known,
        working: &mut Working,
        (domain, name): (&[u8], &[u8]),
        consumers: &[ConsumerRoute],
        here: Here<'_>,
        is_alive: impl Fn(usize) -> bool,
    ) {
        let first_stance = self.stances.len();
        let first_always = self.places.len();
        working.by_admin.clear();
        working.remotes.clear();
        working.mapped.clear();
        let mut is_conditional = false;
        for (at, (member, consumer)) in (0..).zip(consumers).enumerate() {
            let stance = working.stance(at, consumer, domain, name);
            let takes = stance.takes();
            if takes != Takes::Nothing && !here.bridges.is_empty() {
                working.note_remotes(member, consumer, here);
            }
            let takes = if is_alive(at) { takes } else { Takes::Nothing };
            match takes {
                Takes::Nothing => {}
                Takes::Everything => self.places.push(member),
                Takes::AdminMatch | Takes::EitherMatch => {
                    working.by_admin.extend(consumer.filtered_admin.map(|admin| (admin, member)));
                    is_conditional = true;
                }
                Takes::OwnMatch | Takes::ALook => is_conditional = true,
            }
            self.stances.push(if takes == Takes::Nothing { Stance::NEVER } else { stance });
        }
        known.always = span(first_always, self.places.len());
        if is_conditional {
            known.stances = span(first_stance, self.stances.len());
            let looks = (0..).zip(self.stances.get(first_stance..).unwrap_or_default());
            let first_look = self.places.len();
            self.places.extend(looks.filter(|(_, stance)| stance.takes() == Takes::ALook).map(|(member, _)| member));
            known.looks = span(first_look, self.places.len());
            self.list_by_admin(known, working);
        } else {
            self.stances.truncate(first_stance);
        }
        known.mapped = self.list(working.mapped.iter().copied());
        let first_remote = self.remotes.len();
        working.remotes.sort_unstable();
        for remote in working.remotes.drain(..) {
            match self.remotes.get_mut(first_remote..).and_then(<[Remote]>::last_mut) {
                // Side by side, or one over the other.
                Some(last) if last.bridge == remote.bridge && remote.from <= last.to.saturating_add(1) => {
                    last.to = last.to.max(remote.to);
                }
                _ => self.remotes.push(remote),
            }
        }
        known.remotes = span(first_remote, self.remotes.len());
    }

    fn list_by_admin(&mut self, known: &mut Known, working: &mut Working) {
        let first = self.admins.len();
        working.by_admin.sort_unstable();
        for pairs in working.by_admin.chunk_by(|(a, _), (b, _)| a == b) {
            let members = self.list(pairs.iter().map(|(_, member)| *member));
            self.admins.extend(pairs.first().map(|(admin, _)| OfAdmin { admin: *admin, members }));
        }
        known.admins = span(first, self.admins.len());
    }

    fn list(&mut self, list: impl Iterator<Item = u32>) -> Span {
        let start = self.places.len();
        self.places.extend(list);
        span(start, self.places.len())
    }

    /// What is at a place.
    pub(super) fn places(&self, span: Span) -> &[u32] {
        self.places.get(span.range()).unwrap_or_default()
    }

    /// The bridges that events of a type may have to take, each with its priorities; those of one bridge are together.
    pub(super) fn remotes(&self, known: &Known) -> &[Remote] {
        self.remotes.get(known.remotes.range()).unwrap_or_default()
    }

    /// Whether a type is in a list of event types.
    pub(super) fn is_in(&self, known: &Known, list: u32) -> bool {
        self.places(known.lists).binary_search(&list).is_ok()
    }

    /// What a member says of events of a type, if filters count for any.
    pub(super) fn stance(&self, known: &Known, member: u32) -> Option<Stance> {
        self.stances.get(known.stances.range())?.get(member as usize).copied()
    }

    /// Those that take an event of the type if it matches the filters of this admin.
    pub(super) fn decided_by_admin(&self, known: &Known, admin: u32) -> &[u32] {
        let admins = self.admins.get(known.admins.range()).unwrap_or_default();
        let at = admins.binary_search_by_key(&admin, |of| of.admin).ok();
        at.and_then(|at| admins.get(at)).map_or(&[], |of| self.places(of.members))
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.places.clear();
        self.stances.clear();
        self.admins.clear();
        self.remotes.clear();
        self.kept = [0; 4];
    }
}

impl Stance {
    const NEVER: Self = Self { proxy: Group::No, admin: Group::No, operator: Operator::And };
}

impl Working {
    /// What the filters made here say of a type, as far as the type decides.
    fn judge(&mut self, domain: &[u8], name: &[u8], consumers: usize, filtering: &Filtering) {
        let table = &filtering.table;
        let is_in = |types: &[crate::EventType]| types.is_empty() || types.iter().any(|t| t.matches(domain, name));
        self.lists.clear();
        self.lists.extend(table.lists.iter().map(|list| list.as_deref().is_some_and(is_in)));
        self.filters.clear();
        self.members.clear();
        self.admins.clear();
        if table.is_empty() {
            return;
        }
        for program in table.programs.iter() {
            let mut says = Group::No;
            for row in program.iter().flat_map(|program| &program.rows) {
                let always = table.text(row.text).and_then(|text| text.program.always());
                match (self.lists.get(row.list as usize), always) {
                    (Some(true), Some(true)) => says = Group::Yes,
                    (Some(true), None) if says == Group::No => says = Group::Matched,
                    _ => {}
                }
            }
            self.filters.push(says);
        }
        self.members.resize(consumers, Group::No);
        self.admins.resize(filtering.admins as usize, Group::No);
        for (slot, says) in (0..).zip(&self.filters) {
            for target in filtering.targets(slot) {
                let group = match *target {
                    Target::Member(member) => self.members.get_mut(member as usize),
                    Target::Admin(admin) => self.admins.get_mut(admin as usize),
                };
                if let Some(group) = group {
                    *group = group.or(*says);
                }
            }
        }
    }

    /// Notes by which bridges a consumer that may want the type gets its events.
    fn note_remotes(&mut self, member: u32, consumer: &ConsumerRoute, here: Here<'_>) {
        if consumer.maps_lane() {
            return self.mapped.push(member);
        }
        let ends = consumer.places.iter().skip(1).map(|next| next.from_priority.saturating_sub(1)).chain([i16::MAX]);
        for (served, to) in consumer.places.iter().zip(ends).filter(|(served, _)| served.lane != here.lane) {
            if let Ok(bridge) = here.bridges.binary_search_by_key(&served.lane, |bridge| bridge.lane) {
                self.remotes.push(Remote { bridge: place(bridge), from: served.from_priority, to });
            }
        }
    }

    fn stance(&self, at: usize, consumer: &ConsumerRoute, domain: &[u8], name: &[u8]) -> Stance {
        let interest = &consumer.interest;
        let [proxy_asks, admin_asks] = consumer.remote_filters.each_ref().map(|peers| !peers.is_empty());
        let own = consumer.filtered.then(|| self.members.get(at).copied().unwrap_or(Group::No));
        let of_admin = consumer.filtered_admin;
        let of_admin = of_admin.map(|admin| self.admins.get(admin as usize).copied().unwrap_or(Group::No));
        let group = |subscription: &crate::Subscription, filters: Option<Group>, asks: bool| match (filters, asks) {
            (None, false) if !subscription.is_changed() => Group::Absent,
            _ if subscription.is_changed() && !subscription.matches(domain, name) => Group::No,
            (None, false) => Group::Yes,
            (None, true) => Group::Asked,
            (Some(says), false) => says,
            (Some(Group::Matched), true) => Group::MatchedOrAsked,
            (Some(Group::No), true) => Group::Asked,
            (Some(says), true) => says,
        };
        Stance {
            proxy: group(&interest.proxy, own, proxy_asks),
            admin: group(&interest.admin, of_admin, admin_asks),
            operator: interest.operator,
        }
    }
}

impl Group {
    /// What two filters of a group say together.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::Matched, _) | (_, Self::Matched) => Self::Matched,
            _ => Self::No,
        }
    }
}

fn span(start: usize, end: usize) -> Span {
    // The bound on places, and the hierarchy's on proxies, keep all lists below 2^32.
    Span { start: place(start), end: place(end) }
}

fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AdminId, ChannelId, ChannelLimits, EventType, Form, Hierarchy, Peer, ProxyKey, ProxyKind, SettingsPatch, Side,
        SubscriptionTarget, Want,
    };
    use alloc::sync::Arc;

    const HERE: Here<'static> = Here { lane: LaneId::MAIN, bridges: &[] };

    /// A channel in which the n-th consumer wants the events of domain "d" with the n-th of these names.
    fn routes(names: &[&str]) -> Arc<ChannelRoutes> {
        let mut hierarchy = Hierarchy::default();
        let channel = hierarchy.create_channel(SettingsPatch::default(), ChannelLimits::default()).unwrap();
        for name in names {
            let (admin, kind) = (AdminId::DEFAULT, ProxyKind::default());
            let proxy = hierarchy.create_proxy(channel, Side::Consumers, admin, Form(1), kind).unwrap();
            let key = ProxyKey { channel, proxy };
            hierarchy.connect(key, Some(Peer(1)), Want(0)).unwrap();
            let target = SubscriptionTarget::Proxy(key);
            hierarchy.subscribe(target, &[EventType::new("d", *name)], &[EventType::everything()]).unwrap();
        }
        let snapshot = hierarchy.snapshot();
        assert_eq!(snapshot.channels()[0].id(), ChannelId(0));
        Arc::clone(&snapshot.channels()[0])
    }

    #[test]
    fn remembers_each_types_list() {
        let (routes, mut destinations) = (routes(&["x", "y", "x", "other"]), Destinations::default());
        let mut learn = |id, name: &str| destinations.learn(id, (b"d", name.as_bytes()), &routes, HERE, |_| true).0;
        let x = learn(TypeId(1), "x");
        let other = learn(TypeId::OTHER, "other");
        let y = learn(TypeId(2), "y");
        assert_eq!(other.always.range().start, x.always.range().end);
        assert_eq!(destinations.find(TypeId(1)), Some(x));
        assert_eq!((destinations.places(x.always), destinations.places(y.always)), (&[0, 2][..], &[1][..]));
        assert_eq!(destinations.find(TypeId::OTHER), None);
        assert!(!x.is_conditional());
    }

    #[test]
    fn those_that_are_gone_are_left_out() {
        let (routes, mut destinations) = (routes(&["x", "x"]), Destinations::default());
        let (known, _) = destinations.learn(TypeId(1), (b"d", b"x"), &routes, HERE, |member| member == 1);
        assert_eq!(destinations.places(known.always), [1]);
    }

    #[test]
    fn forgets_all_when_there_are_too_many() {
        let (routes, mut destinations) = (routes(&["x"]), Destinations::default());
        for id in 1..=4_096 {
            assert!(!destinations.learn(TypeId(id), (b"d", b"x"), &routes, HERE, |_| true).1);
        }
        assert!(destinations.learn(TypeId(5_000), (b"d", b"x"), &routes, HERE, |_| true).1);
        assert_eq!(destinations.find(TypeId(1)), None);
        assert_eq!(destinations.find(TypeId(5_000)).unwrap().always.range(), 0..1);
    }

    /// What is taken without looking must be what looking says, for every pair of groups.
    #[test]
    fn what_a_stance_takes_agrees_with_its_verdict_on_every_event() {
        use Group::{Absent, Asked, Matched, MatchedOrAsked, No, Yes};
        let all = [Absent, No, Yes, Matched, Asked, MatchedOrAsked];
        for (proxy, admin) in all.iter().flat_map(|proxy| all.iter().map(move |admin| (*proxy, *admin))) {
            for operator in [Operator::And, Operator::Or] {
                let stance = Stance { proxy, admin, operator };
                for (own, of_admin) in [(false, false), (false, true), (true, false), (true, true)] {
                    let verdict = stance.verdict(own, of_admin);
                    let expected = match stance.takes() {
                        Takes::Nothing => Some(false),
                        Takes::Everything => Some(true),
                        // Looked at only if its own filters match.
                        Takes::OwnMatch if !own => Some(false),
                        // Passes whenever its admin's match.
                        Takes::AdminMatch => Some(of_admin),
                        Takes::EitherMatch => Some(own || of_admin),
                        Takes::OwnMatch | Takes::ALook => None,
                    };
                    let Some(expected) = expected else { continue };
                    let passed = verdict == Verdict::Passed;
                    assert_eq!(passed, expected, "{stance:?} own {own} admin {of_admin}: {verdict:?}");
                    assert!(!matches!(verdict, Verdict::Ask(_)), "{stance:?}");
                }
            }
        }
    }
}
