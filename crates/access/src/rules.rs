//! Rules of access, and their decisions.

use core::fmt;
use std::sync::Arc;

use engine::{ChannelId, EventType, wildcard};

use crate::grant::Building;
use crate::{BadWho, Channel, Decision, Grant, Right, RuleNumber, Scope, Who, WhoPattern, Why};

/// Most rules.
pub const RULES_MAX: usize = 1_024;
/// Most entries of each list of a rule.
pub const LIST_MAX: usize = 256;

/// Most rules that one denial names, where each decides about some event types.
const NAMED_MAX: usize = 8;

/// A rule as written in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleText {
    /// Name in log lines, beside its number.
    pub name: Option<String>,
    /// Patterns of the clients it applies to.
    pub who: Vec<String>,
    /// Names of the rights.
    pub may: Vec<String>,
    /// Channels: numbers, names with optional stars, or `*`. Empty for all.
    pub on: Vec<String>,
    /// Event types, `DOMAIN/NAME` with optional stars. Empty for all.
    pub types: Vec<String>,
    /// Whether the rule allows; false for a denial.
    pub allow: bool,
}

/// An invalid rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRule {
    /// Number of the rule.
    pub rule: RuleNumber,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for BadRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "access rule {}: {}", self.rule.0, self.why)
    }
}

impl core::error::Error for BadRule {}

/// The rules of a service, in order; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) name: Option<String>,
    pub(crate) who: Vec<WhoPattern>,
    pub(crate) may: Vec<Right>,
    pub(crate) on: Vec<ChannelPattern>,
    /// Empty for all types.
    pub(crate) types: Arc<[EventType]>,
    pub(crate) allow: bool,
}

/// One entry of a rule's `on`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChannelPattern {
    /// Every channel, including future ones, and the service itself.
    All,
    Number(ChannelId),
    Name(String),
}

impl ChannelPattern {
    fn parse(text: &str) -> Option<Self> {
        if text.bytes().all(|byte| byte == b'*') {
            return (!text.is_empty()).then_some(Self::All);
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok().map(|number| Self::Number(ChannelId(number)));
        }
        Some(Self::Name(text.to_owned()))
    }

    fn matches(&self, channel: Channel<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Number(id) => channel.id == Some(*id),
            Self::Name(name) => channel.name.is_some_and(|text| wildcard::matches(name, text.as_bytes())),
        }
    }

    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Number(one), Self::Number(other)) => one == other,
            (Self::Name(wide), Self::Name(narrow)) => wildcard::covers(wide, narrow),
            _ => false,
        }
    }
}

impl fmt::Display for ChannelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Number(id) => id.0.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl Rule {
    fn parse(text: &RuleText) -> Result<Self, String> {
        let RuleText { name, who, may, on, types, allow } = text;
        for (key, list) in [("who", who), ("may", may), ("on", on), ("types", types)] {
            if list.len() > LIST_MAX {
                return Err(format!("`{key}` has {LIST_MAX} entries at most"));
            }
        }
        if who.is_empty() || may.is_empty() {
            return Err("a rule needs clients (`who`) and rights (`may`)".to_owned());
        }
        let who = who.iter().map(|one| one.parse().map_err(|bad: BadWho| bad.to_string())).collect::<Result<_, _>>()?;
        let right = |name: &String| {
            let unknown = || format!("there is no right \"{name}\", only publish, subscribe and administer");
            Right::named(name).ok_or_else(unknown)
        };
        let mut may: Vec<Right> = may.iter().map(right).collect::<Result<_, _>>()?;
        may.sort_unstable();
        may.dedup();
        if !types.is_empty() && may.contains(&Right::Administer) {
            return Err("`types` say nothing of the right to administer: that is another rule's".to_owned());
        }
        let channel =
            |text: &String| ChannelPattern::parse(text).ok_or_else(|| format!("there is no channel \"{text}\""));
        let mut on: Vec<ChannelPattern> = on.iter().map(channel).collect::<Result<_, _>>()?;
        if on.is_empty() {
            on.push(ChannelPattern::All);
        }
        let types = types.iter().map(|text| {
            let (domain, name) =
                text.split_once('/').ok_or_else(|| format!("\"{text}\" is no event type: it is \"DOMAIN/NAME\""))?;
            // In subscriptions nothing stands for anything, by which a rule would say far more than it seems to.
            if domain.is_empty() || name.is_empty() {
                return Err(format!("\"{text}\" is no event type: write * for any domain or name"));
            }
            Ok(EventType::new(domain, name))
        });
        let mut types: Vec<EventType> = types.collect::<Result<_, String>>()?;
        if types.iter().any(EventType::is_everything) {
            types.clear();
        }
        Ok(Self { name: name.clone(), who, may, on, types: types.into(), allow: *allow })
    }

    fn speaks_of(&self, who: &Who<'_>, right: Right, channel: Channel<'_>) -> bool {
        self.may.contains(&right)
            && self.on.iter().any(|pattern| pattern.matches(channel))
            && self.who.iter().any(|pattern| pattern.matches(who))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: Vec<String>| items.join(", ");
        let strings = |items: &[WhoPattern]| list(items.iter().map(ToString::to_string).collect());
        let verb = if self.allow { "may" } else { "may not" };
        write!(f, "{} {verb} {}", strings(&self.who), list(self.may.iter().map(ToString::to_string).collect()))?;
        write!(f, " on {}", list(self.on.iter().map(ToString::to_string).collect()))?;
        if !self.types.is_empty() {
            let types = self.types.iter().map(|kind| format!("{}/{}", kind.domain, kind.name)).collect();
            write!(f, ", event types {}", list(types))?;
        }
        Ok(())
    }
}

impl Rules {
    /// Parses rules. `None` if there are none: everything is allowed then.
    ///
    /// # Errors
    /// The first invalid rule, with the reason.
    pub fn parse(texts: &[RuleText]) -> Result<Option<Self>, BadRule> {
        if texts.len() > RULES_MAX {
            let why = format!("there are {RULES_MAX} rules at most");
            return Err(BadRule { rule: number_of(RULES_MAX), why });
        }
        let rule = |(at, text)| Rule::parse(text).map_err(|why| BadRule { rule: number_of(at), why });
        let rules: Vec<Rule> = texts.iter().enumerate().map(rule).collect::<Result<_, _>>()?;
        Ok((!rules.is_empty()).then_some(Self(rules)))
    }

    /// Decision about a client, a right and a channel.
    #[must_use]
    pub fn grant(&self, who: &Who<'_>, right: Right, channel: Channel<'_>) -> Grant {
        let mut building = Building::default();
        for (at, rule) in self.0.iter().enumerate() {
            if !rule.speaks_of(who, right, channel) {
                continue;
            }
            if rule.types.is_empty() {
                return building.finish(number_of(at), rule.allow);
            }
            building.add(number_of(at), &rule.types, rule.allow);
        }
        building.finish(RuleNumber::NONE, false)
    }

    /// Entries that let a client use a right on a channel, for some event type at least: the number of each rule, and the index of its
    /// first entry that matches the client. Clients admitted by the same entries are one to the operator.
    #[must_use]
    pub fn admitted_by(&self, who: &Who<'_>, right: Right, channel: Channel<'_>) -> Vec<(RuleNumber, usize)> {
        let mut admitting = Vec::new();
        for (at, rule) in self.0.iter().enumerate().filter(|(_, rule)| rule.speaks_of(who, right, channel)) {
            if let Some(entry) = rule.who.iter().position(|pattern| pattern.matches(who)).filter(|_| rule.allow) {
                admitting.push((number_of(at), entry));
            }
            if rule.types.is_empty() {
                break;
            }
        }
        admitting
    }

    /// Decision about a client, a right, a channel and an event type.
    #[must_use]
    pub fn decide(&self, who: &Who<'_>, right: Right, channel: Channel<'_>, of: (&[u8], &[u8])) -> Decision {
        self.grant(who, right, channel).decide(of.0, of.1)
    }

    /// Whether a client may do anything on a channel, and so may know that it exists.
    #[must_use]
    pub fn knows(&self, who: &Who<'_>, channel: Channel<'_>) -> bool {
        Right::ALL.into_iter().any(|right| self.grant(who, right, channel).is_any())
    }

    /// Whether a client may do anything anywhere, as far as single rules show, and so may look names up.
    #[must_use]
    pub fn knows_any(&self, who: &Who<'_>) -> bool {
        self.0.iter().any(|rule| rule.allow && rule.who.iter().any(|pattern| pattern.matches(who)))
    }

    /// Whether a rule refers to channels by name, so that names matter.
    #[must_use]
    pub fn name_channels(&self) -> bool {
        self.0.iter().flat_map(|rule| &rule.on).any(|pattern| matches!(pattern, ChannelPattern::Name(_)))
    }

    /// A rule's number and name, for messages.
    #[must_use]
    pub fn title(&self, rule: RuleNumber) -> String {
        if rule == RuleNumber::NONE {
            return "no rule".to_owned();
        }
        match self.get(rule).and_then(|rule| rule.name.as_ref()) {
            Some(name) => format!("access rule {} \"{}\"", rule.0, name.escape_debug()),
            None => format!("access rule {}", rule.0),
        }
    }

    /// A rule's text, for messages.
    #[must_use]
    pub fn text(&self, rule: RuleNumber) -> String {
        self.get(rule).map_or_else(String::new, ToString::to_string)
    }

    /// The rule or rules that deny something, for messages.
    #[must_use]
    pub fn denial(&self, why: Why<'_>) -> String {
        match why {
            Why::Rule(RuleNumber::NONE) => "no access rule allows it".to_owned(),
            Why::Rule(rule) => format!("{} decides ({})", self.title(rule), self.text(rule)),
            Why::Parts(scope) => self.parts_of(scope),
        }
    }

    /// The rules of a scope, in their order.
    fn parts_of(&self, scope: &Scope) -> String {
        let count = scope.rules().len();
        let mut shown: Vec<String> = Vec::new();
        for part in scope.parts() {
            if part.types.is_some() && shown.len() < NAMED_MAX {
                shown.push(self.denial(Why::Rule(part.rule)));
            }
            if part.types.is_none() {
                let left_out = count.saturating_sub(NAMED_MAX + 1);
                if left_out > 0 {
                    shown.push(format!("{left_out} more rules decide of other event types"));
                }
                shown.push(match part.rule {
                    RuleNumber::NONE => "no access rule allows any other event type".to_owned(),
                    rule => format!("of all other event types {}", self.denial(Why::Rule(rule))),
                });
            }
        }
        shown.join("; ")
    }

    /// Numbers of all rules.
    pub fn numbers(&self) -> impl Iterator<Item = RuleNumber> + use<> {
        (0..self.0.len()).map(number_of)
    }

    fn get(&self, rule: RuleNumber) -> Option<&Rule> {
        self.0.get((rule.0 as usize).checked_sub(1)?)
    }

    pub(crate) fn all(&self) -> impl ExactSizeIterator<Item = (RuleNumber, &Rule)> {
        self.0.iter().enumerate().map(|(at, rule)| (number_of(at), rule))
    }
}

fn number_of(at: usize) -> RuleNumber {
    RuleNumber(u32::try_from(at).map_or(u32::MAX, |at| at.saturating_add(1)))
}
