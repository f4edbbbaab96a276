//! Result of the rules for one client, right and channel, computed once for all event types.

use std::sync::Arc;

use engine::{EventType, Permitted};

use crate::{Decision, RuleNumber};

/// What a client may do on a channel, and the rules that decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Allowed for every event type.
    All(Scope),
    /// Denied for every event type.
    Nothing(Scope),
    /// Allowed for some event types.
    Some(Scope),
}

impl Grant {
    /// Whether any event type is allowed.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        !matches!(self, Self::Nothing(_))
    }

    /// The rules that decide, with their event types.
    #[must_use]
    pub const fn scope(&self) -> &Scope {
        match self {
            Self::All(scope) | Self::Nothing(scope) | Self::Some(scope) => scope,
        }
    }

    /// Decision for an event of this type.
    #[must_use]
    pub fn decide(&self, domain: &[u8], name: &[u8]) -> Decision {
        self.scope().decide(domain, name)
    }
}

/// Event types of the rules, in the order of the rules: the first part that includes a type decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The engine's view: one part for each rule, and the rest.
    types: Permitted,
    /// The rule of each part, and at last the one that decides about the rest.
    rules: Vec<RuleNumber>,
}

/// Event types that one rule decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'s> {
    /// The event types; `None` for all that are in no earlier part.
    pub types: Option<&'s [EventType]>,
    /// Whether they are allowed.
    pub allowed: bool,
    /// The rule that decides.
    pub rule: RuleNumber,
}

/// Reason of a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why<'s> {
    /// This rule, or [`RuleNumber::NONE`] if no rule applies.
    Rule(RuleNumber),
    /// Several rules, one for each part, because the request names no one event type.
    Parts(&'s Scope),
}

impl Scope {
    /// The event types as the engine reads them.
    #[must_use]
    pub const fn types(&self) -> &Permitted {
        &self.types
    }

    /// The rules of all parts. Under one set of rules, two scopes with the same rules are equal.
    #[must_use]
    pub fn rules(&self) -> &[RuleNumber] {
        &self.rules
    }

    /// The parts in order. The last one is the rest.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let listed = self.types.parts().map(|(types, allowed)| (Some(types), allowed));
        let all = listed.chain([(None, self.types.rest())]);
        all.zip(&self.rules).map(|((types, allowed), rule)| Part { types, allowed, rule: *rule })
    }

    /// Decision for an event of this type.
    #[must_use]
    pub fn decide(&self, domain: &[u8], name: &[u8]) -> Decision {
        let (at, allowed) = self.types.find(domain, name);
        Decision { allowed, rule: self.rules.get(at).copied().unwrap_or_default() }
    }

    /// Reason of a denial: for an event type, or for none in particular.
    #[must_use]
    pub fn why(&self, of: Option<(&[u8], &[u8])>) -> Why<'_> {
        match (of, self.rules.as_slice()) {
            (Some((domain, name)), _) => Why::Rule(self.decide(domain, name).rule),
            (None, [only]) => Why::Rule(*only),
            (None, _) => Why::Parts(self),
        }
    }
}

/// A grant under construction, from the rules that apply to a client, in order.
#[derive(Debug, Default)]
pub(crate) struct Building {
    parts: Vec<(Arc<[EventType]>, bool)>,
    rules: Vec<RuleNumber>,
}

impl Building {
    /// Adds a rule for some event types.
    pub(crate) fn add(&mut self, rule: RuleNumber, types: &Arc<[EventType]>, allows: bool) {
        self.parts.push((Arc::clone(types), allows));
        self.rules.push(rule);
    }

    /// Ends with a rule for all other event types.
    pub(crate) fn finish(self, rule: RuleNumber, allows: bool) -> Grant {
        let Self { parts, mut rules } = self;
        let is_one_answer = parts.iter().all(|(_, part)| *part == allows);
        rules.push(rule);
        let scope = Scope { types: Permitted::new(parts, allows), rules };
        match (is_one_answer, allows) {
            (false, _) => Grant::Some(scope),
            (true, true) => Grant::All(scope),
            (true, false) => Grant::Nothing(scope),
        }
    }
}
