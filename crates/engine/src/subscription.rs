//! Which events a consumer wants: event types with wildcards, and how a proxy's and its admin's lists combine.

use alloc::string::String;
use alloc::sync::Arc;

use crate::Operator;

/// An event type or a pattern of them (OMG Notification Service 1.1, `EventType`).
///
/// `""` and `"*"` mean any domain; `""`, `"*"` and `"%ALL"` any name. In either, a final `*` after other characters
/// stands for any rest. A `*` elsewhere is itself.
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
        (self.any_domain() || text_matches(&self.domain, domain)) && (self.any_name() || text_matches(&self.name, name))
    }

    /// Whether the two say the same, spelling of the wildcards aside.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        (self.domain == other.domain || (self.any_domain() && other.any_domain()))
            && (self.name == other.name || (self.any_name() && other.any_name()))
    }

    /// The same in one spelling: `*` where anything matches.
    pub(crate) fn canonical(&self) -> Self {
        let spelt = |any: bool, text: &String| if any { "*".into() } else { text.clone() };
        Self { domain: spelt(self.any_domain(), &self.domain), name: spelt(self.any_name(), &self.name) }
    }

    /// Whether it stands for more than one event type.
    pub(crate) fn is_pattern(&self) -> bool {
        [self.domain_part(), self.name_part()].iter().any(|part| !matches!(part, Part::Exactly(_)))
    }

    /// Whether every event that the other matches matches this one too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.domain_part().covers(other.domain_part()) && self.name_part().covers(other.name_part())
    }

    /// What both match, canonical; `None` if there is nothing.
    pub(crate) fn and(&self, other: &Self) -> Option<Self> {
        let narrower = |a: Part<'_>, b: Part<'_>| match (a.covers(b), b.covers(a)) {
            (true, _) => Some(b.spelt()),
            (_, true) => Some(a.spelt()),
            _ => None,
        };
        Some(Self {
            domain: narrower(self.domain_part(), other.domain_part())?,
            name: narrower(self.name_part(), other.name_part())?,
        })
    }

    fn domain_part(&self) -> Part<'_> {
        if self.any_domain() { Part::Anything } else { Part::of(&self.domain) }
    }

    fn name_part(&self) -> Part<'_> {
        if self.any_name() { Part::Anything } else { Part::of(&self.name) }
    }

    fn any_domain(&self) -> bool {
        matches!(self.domain.as_str(), "" | "*")
    }

    fn any_name(&self) -> bool {
        matches!(self.name.as_str(), "" | "*" | "%ALL")
    }
}

/// A domain or a name, by what it matches.
#[derive(Clone, Copy)]
enum Part<'t> {
    Anything,
    Beginning(&'t str),
    Exactly(&'t str),
}

impl<'t> Part<'t> {
    fn of(text: &'t str) -> Self {
        text.strip_suffix('*').map_or(Self::Exactly(text), Self::Beginning)
    }

    /// Whether it matches all that the other matches. Of two parts that have something in common one covers the other.
    fn covers(self, other: Part<'_>) -> bool {
        match (self, other) {
            (Self::Anything, _) => true,
            (Self::Beginning(a), Part::Beginning(b) | Part::Exactly(b)) => b.starts_with(a),
            (Self::Exactly(a), Part::Exactly(b)) => a == b,
            _ => false,
        }
    }

    fn spelt(self) -> String {
        match self {
            Self::Anything => "*".into(),
            Self::Beginning(text) => alloc::format!("{text}*"),
            Self::Exactly(text) => text.into(),
        }
    }
}

fn text_matches(pattern: &str, text: &[u8]) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => text.starts_with(prefix.as_bytes()),
        None => text == pattern.as_bytes(),
    }
}

/// A list of event types as someone left it. It begins as everything, `("*", "*")`.
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

    /// The list with `removed` taken out and `added` put in. Removing everything empties it first.
    pub(crate) fn with(&self, added: &[EventType], removed: &[EventType]) -> Self {
        let mut types = self.types.to_vec();
        if removed.iter().any(EventType::is_everything) {
            types.clear();
        }
        types.retain(|kept| !removed.iter().any(|gone| gone.same_as(kept)));
        for new in added {
            if !types.iter().any(|kept| kept.same_as(new)) {
                types.push(new.clone());
            }
        }
        Self { types: types.into(), changed: true }
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

/// What a consumer wants: its proxy's subscription, its admin's, and how the two combine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    pub(crate) proxy: Subscription,
    pub(crate) admin: Subscription,
    pub(crate) operator: Operator,
}

impl Interest {
    /// Whether an event of this domain and name is wanted, as far as the subscriptions tell: filters may say no.
    #[must_use]
    pub fn matches(&self, domain: &[u8], name: &[u8]) -> bool {
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
    fn a_star_inside_a_name_is_itself() {
        assert!(!EventType::new("a*b", "x").matches(b"aab", b"x"));
        assert!(EventType::new("a*b", "x").matches(b"a*b", b"x"));
        assert!(EventType::new("%ALL", "x").matches(b"%ALL", b"x"));
        assert!(!EventType::new("%ALL", "x").matches(b"other", b"x"));
    }

    #[test]
    fn of_two_lists_both_count_or_either_and_one_never_changed_does_not() {
        let interest =
            |proxy: &Subscription, operator| Interest { proxy: proxy.clone(), admin: list(&[("*", "x")]), operator };
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
        let list = never_changed().with(&[EventType::new("a", "x")], &[EventType::new("*", "%ALL")]);
        assert_eq!(list.types(), [EventType::new("a", "x")]);
    }

    #[test]
    fn adding_to_everything_stays_everything() {
        let list = never_changed().with(&[EventType::new("a", "x")], &[]);
        assert!(list.matches(b"b", b"y") && list.is_changed());
    }

    #[test]
    fn what_two_patterns_have_in_common_is_the_narrower_of_each_part() {
        let and = |a: (&str, &str), b: (&str, &str)| EventType::new(a.0, a.1).and(&EventType::new(b.0, b.1));
        assert_eq!(and(("", "x*"), ("AL*", "%ALL")), Some(EventType::new("AL*", "x*")));
        assert_eq!(and(("ALMA", "xy*"), ("AL*", "x*")), Some(EventType::new("ALMA", "xy*")));
        assert_eq!(and(("*", ""), ("", "*")), Some(EventType::everything()));
        assert_eq!(and(("a", "x"), ("a", "y*")), None);
        assert_eq!(and(("a", "x"), ("b", "x")), None);
    }

    #[test]
    fn a_pattern_covers_what_it_matches() {
        let covers = |a: (&str, &str), b: (&str, &str)| EventType::new(a.0, a.1).covers(&EventType::new(b.0, b.1));
        assert!(covers(("*", "%ALL"), ("a", "x")) && covers(("a*", "x"), ("ab*", "x")));
        assert!(!covers(("ab*", "x"), ("a*", "x")) && !covers(("a", "x"), ("a*", "x")));
        assert!(!covers(("a", "*"), ("*", "x")));
    }

    #[test]
    fn a_type_is_listed_once() {
        let list = list(&[("a", "*")]).with(&[EventType::new("a", "%ALL"), EventType::new("b", "x")], &[]);
        assert_eq!(list.types().len(), 2);
    }
}
