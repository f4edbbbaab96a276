//! Subscriptions: lists of event types with wildcards, and how those of a proxy and its admin combine.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::{Operator, wildcard};

/// An event type or a pattern of event types (OMG Notification Service 1.1, `EventType`).
///
/// `""` and `"*"` mean any domain; `""`, `"*"` and `"%ALL"` any name. In either, a `*` anywhere stands for any
/// characters or none.
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

    /// The pattern that matches every event: `("*", "*")`.
    #[must_use]
    pub fn everything() -> Self {
        Self::new("*", "*")
    }

    /// Whether this pattern matches every event, in any spelling.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.any_domain() && self.any_name()
    }

    /// Whether this pattern matches events of this domain and name.
    #[must_use]
    pub fn matches(&self, domain: &[u8], name: &[u8]) -> bool {
        (self.any_domain() || wildcard::matches(&self.domain, domain))
            && (self.any_name() || wildcard::matches(&self.name, name))
    }

    /// Whether the pattern has a part between wildcards (`*MA*`), so that matching takes time proportional to the event's names.
    #[must_use]
    pub fn is_looked_for(&self) -> bool {
        wildcard::is_looked_for(&self.domain) || wildcard::is_looked_for(&self.name)
    }

    /// Whether both patterns are the same but for the spelling of wildcards.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }

    /// This pattern in canonical spelling: `*` where anything matches, and no two together.
    pub(crate) fn canonical(&self) -> Self {
        let (domain, name) = self.parts();
        Self { domain: domain.into(), name: name.into() }
    }

    /// Whether this pattern stands for more than one event type.
    pub(crate) fn is_pattern(&self) -> bool {
        let (domain, name) = self.parts();
        domain.contains('*') || name.contains('*')
    }

    /// Whether this pattern matches every event that `other` matches.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let ((domain, name), (narrow_domain, narrow_name)) = (self.parts(), other.parts());
        wildcard::covers(&domain, &narrow_domain) && wildcard::covers(&name, &narrow_name)
    }

    /// Intersection of both patterns, canonical; `None` if it is empty. If it is no single pattern, the more specific
    /// of the two: this matches more than the intersection, never less.
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

    /// Domain and name in canonical spelling.
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

/// A list of event types as clients have changed it. The initial list is everything, `("*", "*")`, which no client has named.
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

    /// Whether the list was ever changed. An unchanged list stands for everything and is ignored beside a changed one.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// The list without `removed` and with `added`; `None` if it would exceed `types_max`.
    ///
    /// Removing everything empties it first. The initial everything, which no client has named, is replaced by the first types added; no
    /// narrower type can be removed from it. An everything that a client has named stays until it is removed.
    pub(crate) fn with(&self, added: &[EventType], removed: &[EventType], types_max: usize) -> Option<Self> {
        let removes_all = removed.iter().any(EventType::is_everything);
        if !self.changed && added.is_empty() && !removes_all {
            return Some(self.clone());
        }
        let kept: &[EventType] = if self.changed && !removes_all { &self.types } else { &[] };
        merged(kept, added, removed, types_max)
    }

    /// Changes the list by TAO's rule: everything is never listed beside other types. Types that are added replace it,
    /// even where it was named; naming it replaces the types. A type both added and removed stays as it is.
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

/// `kept` without `removed` and with `added`; `None` if it would exceed `types_max`.
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

/// Elements of `these` that are not in `those`.
fn only(these: &[EventType], those: &[EventType]) -> Vec<EventType> {
    let those: BTreeSet<_> = those.iter().map(EventType::parts).collect();
    these.iter().filter(|kind| !those.contains(&kind.parts())).cloned().collect()
}

/// Event types that a client may receive, whatever it subscribes to: the first part that lists a type decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permitted {
    parts: Vec<(Arc<[EventType]>, bool)>,
    rest: bool,
}

impl Permitted {
    /// Makes permissions of these parts, and of whether types in no part are permitted.
    #[must_use]
    pub const fn new(parts: Vec<(Arc<[EventType]>, bool)>, rest: bool) -> Self {
        Self { parts, rest }
    }

    /// Permits no type at all.
    #[must_use]
    pub const fn nothing() -> Self {
        Self::new(Vec::new(), false)
    }

    /// The parts in order: event types, and whether these are permitted.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (&[EventType], bool)> {
        self.parts.iter().map(|(types, may)| (&**types, *may))
    }

    /// Whether types in no part are permitted.
    #[must_use]
    pub const fn rest(&self) -> bool {
        self.rest
    }

    /// Index of the part that decides about a type (the number of parts if none lists it), and whether the type is permitted.
    #[must_use]
    pub fn find(&self, domain: &[u8], name: &[u8]) -> (usize, bool) {
        let is_in = |types: &[EventType]| types.iter().any(|listed| listed.matches(domain, name));
        let found = self.parts.iter().position(|(types, _)| is_in(types)).unwrap_or(self.parts.len());
        (found, self.parts.get(found).map_or(self.rest, |(_, may)| *may))
    }

    /// Whether events of a type are permitted.
    #[must_use]
    pub fn has(&self, domain: &[u8], name: &[u8]) -> bool {
        self.find(domain, name).1
    }
}

/// A consumer's interest: its proxy's and its admin's subscriptions, how they combine, and the types it may receive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    pub(crate) proxy: Subscription,
    pub(crate) admin: Subscription,
    pub(crate) operator: Operator,
    /// Permitted types; everything if `None`.
    pub(crate) permitted: Option<Arc<Permitted>>,
}

impl Interest {
    /// Permitted types; everything if `None`.
    #[must_use]
    pub const fn permitted(&self) -> Option<&Arc<Permitted>> {
        self.permitted.as_ref()
    }

    /// Whether the subscriptions match an event of this domain and name. Filters may still reject it.
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
