//! Many constraints asked together: those that cannot match are not even looked at.

mod index;
#[cfg(test)]
mod tests;

use self::index::Index;
use crate::constraint::{Constraint, Steps, Verdict};
use crate::value::Fields;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Many constraints, each known by its index. Immutable.
#[derive(Debug, Default)]
pub struct Bank {
    constraints: Vec<Arc<Constraint>>,
    index: Index,
}

/// Working space for [`Bank::evaluate`], kept by its caller. It grows when a larger bank is first used and not
/// otherwise.
#[derive(Debug, Default)]
pub struct Scratch {
    matched: Vec<u32>,
}

/// What a bank says of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evaluated<'s> {
    /// The indices of those that match, rising.
    pub matched: &'s [u32],
    /// The steps were spent; what was not looked at does not match.
    pub cut: bool,
    /// How many constraints were evaluated.
    pub evaluations: u32,
    /// How many of those failed.
    pub failures: u32,
}

impl Scratch {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Bank {
    /// A bank of these; a constraint's index is its place. The same text is best given once.
    #[must_use]
    pub fn new(constraints: Vec<Arc<Constraint>>) -> Self {
        let index = Index::new(&constraints);
        Self { constraints, index }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.constraints.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.constraints.is_empty()
    }

    /// Asks all those that can match, as far as look-ups can tell.
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
