//! The language itself: [`Constraint`], from text to verdict.

use crate::error::{ConstraintError, Reason};
use crate::path::Path;
use crate::value::{Fields, Literal};
use alloc::boxed::Box;
use core::fmt;

/// The bounds a constraint must keep to be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest text, in bytes. Default 16,384.
    pub bytes_max: u32,
    /// The most operands and operators. Default 4,096.
    pub nodes_max: u32,
    /// The deepest nesting of parentheses and unary operators, and the longest path, in parts. Default 128.
    pub depth_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes_max: 16_384, nodes_max: 4_096, depth_max: 128 }
    }
}

/// A checked, costed, compiled constraint. Immutable; share it by `Arc`.
#[derive(Debug)]
pub struct Constraint {
    text: Box<str>,
    always: bool,
}

/// What an evaluation costs, in [`Steps`], where the length of texts and sequences does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// With every short cut taken.
    pub best: u32,
    /// With none.
    pub worst: u32,
}

/// What a constraint says of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The event matches.
    Match,
    /// It does not.
    NoMatch,
    /// The question makes no sense for this event: it has no such field, or one of another type. Counts as no match.
    Failed(Failure),
    /// The steps were spent before there was an answer. Counts as no match.
    Cut,
}

/// Why and where an evaluation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub kind: FailureKind,
    /// The operand or operator at which it failed: its offset in the constraint's text, in bytes.
    pub offset: u32,
}

/// Why an evaluation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The event has nothing at the path.
    Missing,
    /// The operator does not apply to values of these types.
    WrongType,
    /// A division by zero.
    DivisionByZero,
    /// The right side of `in` is no sequence or array of values that compare with the left side.
    NotASequence,
}

/// What is left of the work an evaluation may do. One step is about one operator or one part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The number left.
    pub left: u32,
}

impl Steps {
    /// A budget of `left` steps.
    #[must_use]
    pub fn new(left: u32) -> Self {
        Self { left }
    }

    /// Takes `n`; false if there were fewer, and then none are left.
    #[inline]
    pub fn take(&mut self, n: u32) -> bool {
        let enough = self.left >= n;
        self.left = self.left.saturating_sub(n);
        enough
    }

    /// Whether none are left.
    #[must_use]
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }
}

/// How a comparison compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

/// One of the conditions that must all hold for a constraint to match.
#[derive(Clone, Copy, Debug)]
pub enum Conjunct<'c> {
    /// A field compared with a constant; `3 < $x` is given as `$x > 3`.
    Compare {
        /// The field.
        path: &'c Path,
        /// How.
        op: Comparison,
        /// The constant.
        constant: &'c Literal,
    },
    /// Anything else.
    Other,
}

impl Constraint {
    /// Makes a constraint of its text. An empty text is `TRUE` (Notification Service 1.1, 2.4.1).
    ///
    /// # Errors
    ///
    /// What is wrong with the text, and where.
    pub fn parse(text: &str, limits: &Limits) -> Result<Self, ConstraintError> {
        if text.len() > limits.bytes_max as usize {
            let reason = Reason::TooLong { bytes: text.len(), bytes_max: limits.bytes_max };
            return Err(ConstraintError::new("", 0, reason));
        }
        let always = match text.trim() {
            "" | "TRUE" => true,
            "FALSE" => false,
            _ => return Err(ConstraintError::new(text, 0, Reason::Unexpected { expected: "TRUE or FALSE" })),
        };
        Ok(Self { text: text.into(), always })
    }

    /// The text it was made of.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many operands and operators it has.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        1
    }

    /// What an evaluation costs.
    #[must_use]
    pub fn cost(&self) -> Cost {
        Cost { best: 1, worst: 1 }
    }

    /// The verdict, where it is the same for every event: true for an empty text and `TRUE`.
    #[must_use]
    pub fn always(&self) -> Option<bool> {
        Some(self.always)
    }

    /// The paths it reads, each once.
    #[must_use]
    pub fn paths(&self) -> &[Path] {
        &[]
    }

    /// What was understood: the tree, the types, the cost and what cuts evaluation short, for people.
    #[must_use]
    pub fn explain(&self) -> Explanation<'_> {
        Explanation { constraint: self }
    }

    /// Its verdict on an event.
    pub fn matches<F: Fields + ?Sized>(&self, fields: &F, steps: &mut Steps) -> Verdict {
        let _ = fields;
        match steps.take(1) {
            true if self.always => Verdict::Match,
            true => Verdict::NoMatch,
            false => Verdict::Cut,
        }
    }

    /// Its conditions, all of which must hold, so that a bank can look them up rather than ask each constraint.
    pub fn conjuncts(&self) -> impl Iterator<Item = Conjunct<'_>> {
        core::iter::once(Conjunct::Other)
    }
}

/// Prints what [`Constraint::explain`] tells.
#[derive(Clone, Copy, Debug)]
pub struct Explanation<'c> {
    constraint: &'c Constraint,
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.constraint.text)
    }
}
