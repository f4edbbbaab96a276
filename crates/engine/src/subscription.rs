//! Which events a consumer wants: event types with wildcards, and how a proxy's and its admin's lists combine.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::{Operator, wildcard};

/// An event type or a pattern of them (OMG Notification Service 1.1, `EventType`).
///
/// `""` and `"*"` mean any domain; `""`, `"*"` and `"%ALL"` any name. In either, a `*` stands for any characters, also none,
/// wherever it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType {
    /// The domain, for instance `"Telecom"`.
    pub domain: String,
    /// The name within the domain, for instance `"CommunicationsAlarm"`.
    pub name: String,
}

impl EventType {
    /// An event type from its two names.
    #[must_use]
    pub fn new(domain: impl Into<String>, name: impl Into<String>) -> Self {
        Self { domain: domain.into(), name: name.into() }
    }

    /// Every event whatever its type: `("*", "*")`.
    #[must_use]
    pub fn everything() -> Self {
        Self::new("*", "*")
    }

    /// Whether it matches every event, however that is spelt.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.any_domain() && self.any_name()
    }

    /// Whether an event of this domain and name matches.
    #[must_use]
    pub fn matches(&self, domain: &[u8], name: &[u8]) -> bool {
        (self.any_domain() || wildcard::matches(&self.domain, domain))
            && (self.any_name() || wildcard::matches(&self.name, name))
    }

    /// Whether something of it may be anywhere in an event's names (`*MA*`), so that it takes as long as those are to look for it.
    #[must_use]
    pub fn is_looked_for(&self) -> bool {
        wildcard::is_looked_for(&self.domain) || wildcard::is_looked_for(&self.name)
    }

    /// Whether the two say the same, spelling of the wildcards aside.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }

    /// The same in one spelling: `*` where anything matches, and never two together.
    pub(crate) fn canonical(&self) -> Self {
        let (domain, name) = self.parts();
        Self { domain: domain.into(), name: name.into() }
    }

    /// Whether it stands for more than one event type.
    pub(crate) fn is_pattern(&self) -> bool {
        let (domain, name) = self.parts();
        domain.contains('*') || name.contains('*')
    }

    /// Whether every event that the other matches matches this one too.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let ((domain, name), (narrow_domain, narrow_name)) = (self.parts(), other.parts());
        wildcard::covers(&domain, &narrow_domain) && wildcard::covers(&name, &narrow_name)
    }

    /// What both match, canonical; `None` if there is nothing. Where no one pattern says it, the one of the two that says more
    /// about the names: it matches more than both do, never less.
    pub(crate) fn and(&self, other: &Self) -> Option<Self> {
        let narrower = |a: Cow<'_, str>, b: Cow<'_, str>| {
            if wildcard::are_apart(&a, &b) {
                None
            } else if wildcard::covers(&a, &b) {
                Some(String::from(b))
            } else if wildcard::covers(&b, &a) {
                Some(String::from(a))
            } else {
                let says = |pattern: &str| pattern.bytes().filter(|byte| *byte != b'*').count();
                Some(String::from(if says(&a) < says(&b) { b } else { a }))
            }
        };
        let ((domain, name), (other_domain, other_name)) = (self.parts(), other.parts());
        Some(Self { domain: narrower(domain, other_domain)?, name: narrower(name, other_name)? })
    }

    /// Domain and name in one spelling.
    fn parts(&self) -> (Cow<'_, str>, Cow<'_, str>) {
        let spelt = |any: bool, text| if any { Cow::Borrowed("*") } else { wildcard::canonical(text) };
        (spelt(self.any_domain(), &self.domain), spelt(self.any_name(), &self.name))
    }

    fn any_domain(&self) -> bool {
        wildcard::is_any(&self.domain)
    }

    fn any_name(&self) -> bool {
        wildcard::is_any(&self.name) || self.name == "%ALL"
    }
}

/// A list of event types as someone left it. It begins as everything, `("*", "*")`, which no client has named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    types: Arc<[EventType]>,
    changed: bool,
}

impl Subscription {
    /// The event types listed now.
    #[must_use]
    pub fn types(&self) -> &[EventType] {
        &self.types
    }

    /// Whether it was ever changed; if not, it stands for everything and does not count beside one that was.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// The list with `removed` taken out and `added` put in; `None` if there are more than `types_max` then.
    ///
    /// Removing everything empties it first. The everything that no client has named gives way to the first types that are named; nothing
    /// less than everything can be taken out of it. Everything that was named stays until it is removed.
    pub(crate) fn with(&self, added: &[EventType], removed: &[EventType], types_max: usize) -> Option<Self> {
        let removes_all = removed.iter().any(EventType::is_everything);
        if !self.changed && added.is_empty() && !removes_all {
            return Some(self.clone());
        }
        let kept: &[EventType] = if self.changed && !removes_all { &self.types } else { &[] };
        merged(kept, added, removed, types_max)
    }

    /// The same as TAO has it: everything is no member of a list beside others. It gives way to the first types that are added, also where
    /// it was named; named, it takes the place of the types there are. What is added and removed at once stays as it is.
    pub(crate) fn with_as_tao(&self, added: &[EventType], removed: &[EventType], types_max: usize) -> Option<Self> {
        let has_all = |types: &[EventType]| types.iter().any(EventType::is_everything);
        match (has_all(&self.types), has_all(added), has_all(removed)) {
            (false, true, true) => Some(self.clone()),
            (_, true, _) => Some(Self { types: Arc::new([EventType::everything()]), changed: true }),
            (true, false, false) if added.is_empty() => Some(self.clone()),
            (true, false, _) => merged(&[], added, &[], types_max),
            (false, false, removes_all) => {
                let removed = if removes_all { &self.types } else { removed };
                merged(&self.types, &only(added, removed), &only(removed, added), types_max)
            }
        }
    }

    pub(crate) fn matches(&self, domain: &[u8], name: &[u8]) -> bool {
        self.types.iter().any(|wanted| wanted.matches(domain, name))
    }
}

impl Default for Subscription {
    fn default() -> Self {
        Self { types: Arc::new([EventType::everything()]), changed: false }
    }
}

/// A list with `removed` taken out and `added` put in; `None` if there are more than `types_max` then.
fn merged(kept: &[EventType], added: &[EventType], removed: &[EventType], types_max: usize) -> Option<Subscription> {
    // Their order is as it was; the sender of the lists chooses how long they are.
    let mut places: BTreeMap<_, usize> = kept.iter().enumerate().map(|(at, kind)| (kind.parts(), at)).collect();
    for gone in removed {
        places.remove(&gone.parts());
    }
    for (at, new) in (kept.len()..).zip(added) {
        places.entry(new.parts()).or_insert(at);
        if places.len() > types_max {
            return None;
        }
    }
    let mut places: Vec<usize> = places.into_values().collect();
    places.sort_unstable();
    let types = places.into_iter().filter_map(|at| kept.iter().chain(added).nth(at)).cloned();
    Some(Subscription { types: types.collect(), changed: true })
}

/// What is in the first list and not in the second.
fn only(these: &[EventType], those: &[EventType]) -> Vec<EventType> {
    let those: BTreeSet<_> = those.iter().map(EventType::parts).collect();
    these.iter().filter(|kind| !those.contains(&kind.parts())).cloned().collect()
}

/// The event types that a client may have, whatever it wants: the first part in which a type is decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permitted {
    parts: Vec<(Arc<[EventType]>, bool)>,
    rest: bool,
}

impl Permitted {
    /// These parts, and whether it may have what is in none of them.
    #[must_use]
    pub const fn new(parts: Vec<(Arc<[EventType]>, bool)>, rest: bool) -> Self {
        Self { parts, rest }
    }

    /// Nothing at all.
    #[must_use]
    pub const fn nothing() -> Self {
        Self::new(Vec::new(), false)
    }

    /// The parts in their order: event types, and whether it may have these.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (&[EventType], bool)> {
        self.parts.iter().map(|(types, may)| (&**types, *may))
    }

    /// Whether it may have what is in none of the parts.
    #[must_use]
    pub const fn rest(&self) -> bool {
        self.rest
    }

    /// The part that decides about a type, which is one behind the last where none does, and whether it may have that.
    #[must_use]
    pub fn find(&self, domain: &[u8], name: &[u8]) -> (usize, bool) {
        let is_in = |types: &[EventType]| types.iter().any(|listed| listed.matches(domain, name));
        let found = self.parts.iter().position(|(types, _)| is_in(types)).unwrap_or(self.parts.len());
        (found, self.parts.get(found).map_or(self.rest, |(_, may)| *may))
    }

    /// Whether it may have events of a type.
    #[must_use]
    pub fn has(&self, domain: &[u8], name: &[u8]) -> bool {
        self.find(domain, name).1
    }
}

/// What a consumer wants: its proxy's subscription, its admin's, how the two combine, and what it may have of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    pub(crate) proxy: Subscription,
    pub(crate) admin: Subscription,
    pub(crate) operator: Operator,
    /// What it may have; everything if nothing is said.
    pub(crate) permitted: Option<Arc<Permitted>>,
}

impl Interest {
    /// What it may have; everything if nothing is said.
    #[must_use]
    pub const fn permitted(&self) -> Option<&Arc<Permitted>> {
        self.permitted.as_ref()
    }

    /// Whether an event of this domain and name is wanted, as far as the subscriptions tell: filters may say no.
    #[must_use]
    pub fn matches(&self, domain: &[u8], name: &[u8]) -> bool {
        if self.permitted.as_ref().is_some_and(|permitted| !permitted.has(domain, name)) {
            return false;
        }
        let counting = [&self.proxy, &self.admin].into_iter().filter(|list| list.changed);
        let mut verdicts = counting.map(|list| list.matches(domain, name)).peekable();
        match self.operator {
            Operator::And => verdicts.all(|wanted| wanted),
            Operator::Or => verdicts.peek().is_none() || verdicts.any(|wanted| wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(types: &[(&str, &str)]) -> Subscription {
        let types = types.iter().map(|(domain, name)| EventType::new(*domain, *name)).collect();
        Subscription { types, changed: true }
    }

    fn never_changed() -> Subscription {
        Subscription::default()
    }

    fn changed(list: &Subscription, added: &[(&str, &str)], removed: &[(&str, &str)]) -> Subscription {
        let types = |types: &[(&str, &str)]| -> Vec<EventType> {
            types.iter().map(|(domain, name)| EventType::new(*domain, *name)).collect()
        };
        list.with(&types(added), &types(removed), 10).unwrap()
    }

    #[test]
    fn wildcards_match_in_every_spelling() {
        for (domain, name) in [("", ""), ("*", "*"), ("*", "%ALL"), ("", "%ALL"), ("ALMA", "*"), ("AL*", "Tem*")] {
            assert!(EventType::new(domain, name).matches(b"ALMA", b"Temperature"), "{domain:?} {name:?}");
        }
    }

    #[test]
    fn names_match_exactly_without_a_wildcard() {
        let wanted = EventType::new("ALMA", "Temperature");
        assert!(wanted.matches(b"ALMA", b"Temperature"));
        for (domain, name) in [("ALMA", "Temp"), ("ALM", "Temperature"), ("ALMA", "Temperatures"), ("", "")] {
            assert!(!wanted.matches(domain.as_bytes(), name.as_bytes()), "{domain:?} {name:?}");
        }
    }

    #[test]
    fn a_star_may_be_anywhere_in_domain_and_name() {
        assert!(EventType::new("*MA", "W*d").matches(b"ALMA", b"World"));
        assert!(!EventType::new("*MA", "W*d").matches(b"ALMA", b"Word "));
        assert!(EventType::new("**", "%ALL").is_everything() && !EventType::new("%ALL", "*").is_everything());
        assert!(EventType::new("%ALL", "x").matches(b"%ALL", b"x"));
        assert!(!EventType::new("%ALL", "x").matches(b"other", b"x"));
    }

    #[test]
    fn of_two_lists_both_count_or_either_and_one_never_changed_does_not() {
        let interest = |proxy: &Subscription, operator| Interest {
            proxy: proxy.clone(),
            admin: list(&[("*", "x")]),
            operator,
            permitted: None,
        };
        let wants =
            |interest: Interest| [(b"a", b"x"), (b"a", b"y"), (b"b", b"x")].map(|(d, n)| interest.matches(d, n));
        assert_eq!(wants(interest(&list(&[("a", "*")]), Operator::And)), [true, false, false]);
        assert_eq!(wants(interest(&list(&[("a", "*")]), Operator::Or)), [true, true, true]);
        for operator in [Operator::And, Operator::Or] {
            assert_eq!(wants(interest(&never_changed(), operator)), [true, false, true]);
        }
        assert_eq!(wants(Interest::default()), [true; 3]);
    }

    #[test]
    fn removing_everything_leaves_what_is_added() {
        let list = changed(&never_changed(), &[("a", "x")], &[("*", "%ALL")]);
        assert_eq!(list.types(), [EventType::new("a", "x")]);
    }

    /// ALMA's consumers only ever add, on a proxy that has just been made: TAO and omniNotify narrow it to what is added. Here
    /// it stayed everything, so that each of those consumers got the whole channel.
    #[test]
    fn unnamed_types_give_way_to_the_first_types_that_are_named() {
        let first = changed(&never_changed(), &[("d", "A")], &[]);
        assert_eq!(first.types(), [EventType::new("d", "A")]);
        assert!(first.is_changed() && !first.matches(b"d", b"B"));
        let more = changed(&first, &[("d", "B")], &[]);
        assert!(more.matches(b"d", b"A") && more.matches(b"d", b"B"));
        assert_eq!(changed(&never_changed(), &[("d", "A")], &[("d", "A")]), first);
    }

    /// What `TAO_Notify_EventTypeSeq` makes of a list, read in its sources: clients that were written with TAO add `*` and expect it in the
    /// place of what was there, and add a type behind it and expect that alone.
    #[test]
    fn as_tao_has_it_everything_gives_way_to_types_and_types_to_everything() {
        let tao = |list: &Subscription, added: &[(&str, &str)], removed: &[(&str, &str)]| {
            let types = |types: &[(&str, &str)]| -> Vec<EventType> {
                types.iter().map(|(domain, name)| EventType::new(*domain, *name)).collect()
            };
            list.with_as_tao(&types(added), &types(removed), 10).unwrap()
        };
        let (a, b, all) = (("d", "A"), ("d", "B"), ("*", "%ALL"));
        let everything = [EventType::everything()];
        // Everything, named or not.
        for begun in [never_changed(), list(&[("*", "*")])] {
            assert_eq!(tao(&begun, &[a], &[b]), list(&[a]));
            assert_eq!(tao(&begun, &[a], &[all]), list(&[a]));
            assert_eq!(tao(&begun, &[a, all], &[a]).types(), everything);
            assert_eq!(tao(&begun, &[], &[all]), list(&[]));
            assert_eq!(tao(&begun, &[], &[a]), begun);
        }
        // Types.
        let begun = list(&[a, b]);
        assert_eq!(tao(&begun, &[("", ""), ("d", "C")], &[]).types(), everything);
        assert_eq!(tao(&begun, &[all], &[all]), begun, "neither");
        assert_eq!(tao(&begun, &[], &[all]), list(&[]));
        assert_eq!(tao(&begun, &[("d", "C")], &[all]), list(&[("d", "C")]));
        assert_eq!(tao(&begun, &[b], &[all]), list(&[b]));
        assert_eq!(tao(&begun, &[("d", "C"), a], &[a]), list(&[a, b, ("d", "C")]), "what is added and removed stays");
        assert_eq!(tao(&begun, &[("d", "C")], &[("d", "C"), b]), list(&[a]), "or is not there");
        assert_eq!(list(&[a, b]).with_as_tao(&[EventType::new("d", "C")], &[], 2), None);
    }

    #[test]
    fn everything_that_was_named_stays_until_it_is_removed() {
        for everything in [("*", "*"), ("", ""), ("**", "%ALL")] {
            let named = changed(&never_changed(), &[everything, ("d", "A")], &[]);
            let more = changed(&changed(&named, &[("d", "B")], &[]), &[], &[("d", "B")]);
            assert!(more.matches(b"x", b"y"));
            assert_eq!(changed(&more, &[("d", "B")], &[("*", "*")]).types(), [EventType::new("d", "B")]);
        }
    }

    #[test]
    fn the_last_type_removed_leaves_nothing() {
        let list = changed(&changed(&never_changed(), &[("d", "A")], &[]), &[], &[("d", "A")]);
        assert!(list.is_changed() && list.types().is_empty());
        assert_eq!(changed(&never_changed(), &[], &[("", "")]), list);
    }

    #[test]
    fn nothing_less_than_everything_is_removed_from_unnamed_types() {
        for list in [changed(&never_changed(), &[], &[("d", "A")]), changed(&never_changed(), &[], &[])] {
            assert_eq!(list, never_changed());
        }
    }

    #[test]
    fn refuses_more_types_than_there_may_be() {
        let two = list(&[("d", "A"), ("d", "B")]);
        assert_eq!(two.with(&[EventType::new("d", "C")], &[], 2), None);
        let same = two.with(&[EventType::new("d", "C"), EventType::new("d", "B")], &[EventType::new("d", "A")], 2);
        assert_eq!(same.unwrap().types(), [EventType::new("d", "B"), EventType::new("d", "C")]);
    }

    #[test]
    fn what_two_patterns_have_in_common_is_the_narrower_of_each_part() {
        let and = |a: (&str, &str), b: (&str, &str)| EventType::new(a.0, a.1).and(&EventType::new(b.0, b.1));
        assert_eq!(and(("", "x*"), ("AL*", "%ALL")), Some(EventType::new("AL*", "x*")));
        assert_eq!(and(("ALMA", "xy*"), ("AL*", "x*")), Some(EventType::new("ALMA", "xy*")));
        assert_eq!(and(("*", ""), ("", "*")), Some(EventType::everything()));
        assert_eq!(and(("a", "x"), ("a", "y*")), None);
        assert_eq!(and(("a", "*x"), ("a", "*y")), None);
        assert_eq!(and(("a", "*MA"), ("*", "AL*")), Some(EventType::new("a", "*MA")), "more than both match");
        assert_eq!(and(("a", "x"), ("b", "x")), None);
    }

    #[test]
    fn a_pattern_covers_what_it_matches() {
        let covers = |a: (&str, &str), b: (&str, &str)| EventType::new(a.0, a.1).covers(&EventType::new(b.0, b.1));
        assert!(covers(("*", "%ALL"), ("a", "x")) && covers(("a*", "x"), ("ab*", "x")));
        assert!(!covers(("ab*", "x"), ("a*", "x")) && !covers(("a", "x"), ("a*", "x")));
        assert!(!covers(("a", "*"), ("*", "x")));
        assert!(covers(("*a", "x*"), ("b*a", "xy*z")) && !covers(("b*a", "x"), ("*a", "x")));
    }

    #[test]
    fn a_type_is_listed_once() {
        let list = changed(&list(&[("a", "*"), ("a*b", "c")]), &[("a", "%ALL"), ("a**b", "c")], &[]);
        assert_eq!(list.types().len(), 2);
    }
}
