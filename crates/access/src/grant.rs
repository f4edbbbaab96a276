//! What rules say of somebody, a right and a channel, once and for all event types.

use std::sync::Arc;

use engine::{EventType, Permitted};

use crate::{Decision, RuleNumber};

/// What somebody may on a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Whatever the event type.
    All(RuleNumber),
    /// Whatever the event type, it may not.
    Nothing(RuleNumber),
    /// It depends on that.
    Some(Scope),
}

impl Grant {
    /// Whether it may for some event type.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        !matches!(self, Self::Nothing(_))
    }

    /// Whether it may for an event of this type.
    #[must_use]
    pub fn decide(&self, domain: &[u8], name: &[u8]) -> Decision {
        match self {
            Self::All(rule) => Decision { allowed: true, rule: *rule },
            Self::Nothing(rule) => Decision { allowed: false, rule: *rule },
            Self::Some(scope) => scope.decide(domain, name),
        }
    }

    /// The rule that speaks of it first.
    #[must_use]
    pub fn rule(&self) -> RuleNumber {
        match self {
            Self::All(rule) | Self::Nothing(rule) => *rule,
            Self::Some(scope) => scope.rules.first().copied().unwrap_or_default(),
        }
    }
}

/// The event types for which it may, in the order of the rules that say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// What the engine looks at: one part for each rule, and the rest.
    types: Permitted,
    /// The rules, one for each part, and behind them the one that speaks of the rest.
    rules: Vec<RuleNumber>,
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

    /// Whether it may for an event of this type.
    #[must_use]
    pub fn decide(&self, domain: &[u8], name: &[u8]) -> Decision {
        let (at, allowed) = self.types.find(domain, name);
        Decision { allowed, rule: self.rules.get(at).copied().unwrap_or_default() }
    }
}

/// Rules that speak of somebody, put together in their order.
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
        if parts.iter().all(|(_, part)| *part == allows) {
            // The first that speaks of it, even if of some types only, says what all say.
            let rule = rules.first().copied().unwrap_or(rule);
            return if allows { Grant::All(rule) } else { Grant::Nothing(rule) };
        }
        rules.push(rule);
        Grant::Some(Scope { types: Permitted::new(parts, allows), rules })
    }
}
