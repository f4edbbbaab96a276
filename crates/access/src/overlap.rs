//! Finds rules that can never decide, because earlier rules apply to everything they apply to.
//!
//! A rule is split into combinations of its entries: client pattern, right, channel and event type. If an earlier rule
//! covers each of these, the rule is never reached. If a covering rule decides the opposite, the warning says so: the
//! operator meant something else. A rule with very many combinations is only compared with one earlier rule at a time.

use engine::EventType;

use crate::rules::{ChannelPattern, Rule};
use crate::{Right, RuleNumber, Rules, WhoPattern};

/// Most combinations of one rule that are compared with every earlier rule.
const COMBINATIONS_MAX: usize = 4_096;

#[derive(Clone, Copy)]
struct Combination<'r> {
    who: &'r WhoPattern,
    right: Right,
    on: &'r ChannelPattern,
    of: Option<&'r EventType>,
}

impl Rule {
    fn combinations(&self) -> impl Iterator<Item = Combination<'_>> {
        let types = || self.types.iter().map(Some).chain(self.types.is_empty().then_some(None));
        let of_channel = move |who, right, on| types().map(move |of| Combination { who, right, on, of });
        let of_right = move |who, right| self.on.iter().flat_map(move |on| of_channel(who, right, on));
        self.who.iter().flat_map(move |who| self.may.iter().flat_map(move |right| of_right(who, *right)))
    }

    fn count(&self) -> usize {
        self.who.len() * self.may.len() * self.on.len() * self.types.len().max(1)
    }

    fn covers(&self, other: Combination<'_>) -> bool {
        let covers_type = match other.of {
            _ if self.types.is_empty() => true,
            None => false,
            Some(of) => self.types.iter().any(|wide| wide.covers(of)),
        };
        covers_type
            && self.may.contains(&other.right)
            && self.on.iter().any(|wide| wide.covers(other.on))
            && self.who.iter().any(|wide| wide.covers(other.who))
    }
}

impl Rules {
    /// Warnings: a line for each rule that can never decide, which names it and the rules before it.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (number, rule) in self.all() {
            let earlier: Vec<(RuleNumber, &Rule)> = self.all().take_while(|(other, _)| *other < number).collect();
            let Some(covering) = covering(rule, &earlier) else { continue };
            let titles: Vec<String> = covering.iter().map(|(number, _)| self.title(*number)).collect();
            let (those, verb) = (titles.join(" and "), if titles.len() == 1 { "speaks" } else { "speak" });
            let contradicts = covering.iter().any(|(_, other)| other.allow != rule.allow);
            let what = if contradicts { "contradicts what comes first and never decides" } else { "never decides" };
            let text = rule.to_string();
            warnings.push(format!("{} ({text}) {what}: {those} {verb} of all that it speaks of", self.title(number)));
        }
        warnings
    }
}

/// The earlier rules that together cover a rule, by rising number; `None` if they do not.
fn covering<'r>(rule: &Rule, earlier: &[(RuleNumber, &'r Rule)]) -> Option<Vec<(RuleNumber, &'r Rule)>> {
    if rule.count() > COMBINATIONS_MAX {
        let whole = earlier.iter().find(|(_, other)| rule.combinations().all(|one| other.covers(one)));
        return whole.map(|found| vec![*found]);
    }
    let mut covering: Vec<(RuleNumber, &Rule)> = Vec::new();
    for one in rule.combinations() {
        let first = earlier.iter().find(|(_, other)| other.covers(one))?;
        if !covering.iter().any(|(number, _)| *number == first.0) {
            covering.push(*first);
        }
    }
    covering.sort_unstable_by_key(|(number, _)| *number);
    Some(covering)
}
