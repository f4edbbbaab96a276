//! What rules say of a client, a right and a channel, once and for all event types.

use std::sync::Arc;

use engine::{EventType, Permitted};

use crate::{Decision, RuleNumber};

/// What a client may do on a channel, with the rules that say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Whatever the event type.
    All(Scope),
    /// Whatever the event type, it may not.
    Nothing(Scope),
    /// It depends on that.
    Some(Scope),
}

impl Grant {
    /// Whether it may for some event type.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        !matches!(self, Self::Nothing(_))
    }

    /// Which rules say so of which event types.
    #[must_use]
    pub const fn scope(&self) -> &Scope {
        match self {
            Self::All(scope) | Self::Nothing(scope) | Self::Some(scope) => scope,
        }
    }

    /// Whether it may for an event of this type.
    #[must_use]
    pub fn decide(&self, domain: &[u8], name: &[u8]) -> Decision {
        self.scope().decide(domain, name)
    }
}

/// The event types of which rules speak, in the order of the rules: the first part that has a type decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// What the engine looks at: one part for each rule, and the rest.
    types: Permitted,
    /// The rules, one for each part, and behind them the one that speaks of the rest.
    rules: Vec<RuleNumber>,
}

/// Some event types of which one rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'s> {
    /// Which; nothing for all those that are in no part before it.
    pub types: Option<&'s [EventType]>,
    /// Whether it may for these.
    pub allowed: bool,
    /// Which rule says so.
    pub rule: RuleNumber,
}

/// Why something is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why<'s> {
    /// This rule says so, or none says anything.
    Rule(RuleNumber),
    /// For each part another rule says so, and no one event type was asked about.
    Parts(&'s Scope),
}

impl Scope {
    /// What an engine looks at.
    #[must_use]
    pub const fn types(&self) -> &Permitted {
        &self.types
    }

    /// The rules that it is made of. Two scopes with the same rules say the same, where the rules are the same.
    #[must_use]
    pub fn rules(&self) -> &[RuleNumber] {
        &self.rules
    }

    /// The parts, in their order. The last one is the rest.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let listed = self.types.parts().map(|(types, allowed)| (Some(types), allowed));
        let all = listed.chain([(None, self.types.rest())]);
        all.zip(&self.rules).map(|((types, allowed), rule)| Part { types, allowed, rule: *rule })
    }

    /// Whether it may for an event of this type.
    #[must_use]
    pub fn decide(&self, domain: &[u8], name: &[u8]) -> Decision {
        let (at, allowed) = self.types.find(domain, name);
        Decision { allowed, rule: self.rules.get(at).copied().unwrap_or_default() }
    }

    /// What says what it may not: for an event type, or for none in particular.
    #[must_use]
    pub fn why(&self, of: Option<(&[u8], &[u8])>) -> Why<'_> {
        match (of, self.rules.as_slice()) {
            (Some((domain, name)), _) => Why::Rule(self.decide(domain, name).rule),
            (None, [only]) => Why::Rule(*only),
            (None, _) => Why::Parts(self),
        }
    }
}

/// Rules that speak of a client, put together in their order.
#[derive(Debug, Default)]
pub(crate) struct Building {
    parts: Vec<(Arc<[EventType]>, bool)>,
    rules: Vec<RuleNumber>,
}

impl Building {
    /// One that speaks of some event types.
    pub(crate) fn add(&mut self, rule: RuleNumber, types: &Arc<[EventType]>, allows: bool) {
        self.parts.push((Arc::clone(types), allows));
        self.rules.push(rule);
    }

    /// One that speaks of all others.
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
