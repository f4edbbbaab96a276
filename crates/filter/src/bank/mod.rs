//! Many constraints evaluated together: those that cannot match cost nothing.

mod index;
#[cfg(test)]
mod tests;

use self::index::Index;
use crate::constraint::{Constraint, Steps, Verdict};
use crate::value::Fields;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A set of constraints, each known by its index. Immutable.
#[derive(Debug, Default)]
pub struct Bank {
    constraints: Vec<Arc<Constraint>>,
    index: Index,
}

/// Working space for [`Bank::evaluate`], owned by its caller. It grows only when a larger bank is first used.
#[derive(Debug, Default)]
pub struct Scratch {
    matched: Vec<u32>,
}

/// Result of a bank for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evaluated<'s> {
    /// Indexes of the matching constraints, rising.
    pub matched: &'s [u32],
    /// Whether the steps were spent; constraints not evaluated do not match.
    pub cut: bool,
    /// Number of constraints evaluated.
    pub evaluations: u32,
    /// Number of evaluations that failed.
    pub failures: u32,
}

impl Scratch {
    /// Empty working space.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Bank {
    /// A bank of constraints, each known by its index. The same text is best given once.
    #[must_use]
    pub fn new(constraints: Vec<Arc<Constraint>>) -> Self {
        let index = Index::new(&constraints);
        Self { constraints, index }
    }

    /// Number of constraints.
    #[must_use]
    pub fn len(&self) -> usize {
        self.constraints.len()
    }

    /// Whether there are no constraints.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.constraints.is_empty()
    }

    /// Evaluates all constraints that can match, as far as look-ups can tell.
    pub fn evaluate<'s, F: Fields + ?Sized>(
        &self,
        fields: &F,
        scratch: &'s mut Scratch,
        steps: &mut Steps,
    ) -> Evaluated<'s> {
        let matched = &mut scratch.matched;
        matched.clear();
        matched.reserve(self.constraints.len());
        let (mut evaluations, mut failures) = (0, 0);
        let complete = self.index.find(fields, steps, &mut |at, steps| {
            let Some(constraint) = self.constraints.get(at as usize) else { return true };
            evaluations += 1;
            match constraint.matches(fields, steps) {
                Verdict::Match => matched.push(at),
                Verdict::NoMatch => {}
                Verdict::Failed(_) => failures += 1,
                Verdict::Cut => return false,
            }
            true
        });
        matched.sort_unstable();
        Evaluated { matched, cut: !complete, evaluations, failures }
    }
}
