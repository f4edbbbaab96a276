//! The language itself: [`Constraint`], from text to verdict.

use crate::compile::{Compiled, Condition, compile};
use crate::error::{ConstraintError, column};
use crate::explain::Explanation;
use crate::parser::parse;
use crate::path::{Path, Root};
use crate::program::Program;
use crate::value::{Fields, Literal};
use alloc::boxed::Box;
use core::cmp::Ordering;
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

/// A checked, costed, compiled constraint. Immutable; share it by `Arc`. Its `Debug` form is its text.
pub struct Constraint {
    text: Box<str>,
    program: Program,
    nodes: u32,
    cost: Cost,
    always: Option<bool>,
    conjuncts: Box<[Condition]>,
}

/// What an evaluation costs, in [`Steps`], if it does not fail and each part of a path costs one step; long texts and
/// sequences, and what must be skipped on the way to a field, cost more.
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

impl Comparison {
    /// Whether it holds of two values in this order.
    #[must_use]
    #[inline]
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Eq => order.is_eq(),
            Self::Ne => order.is_ne(),
            Self::Lt => order.is_lt(),
            Self::Le => order.is_le(),
            Self::Gt => order.is_gt(),
            Self::Ge => order.is_ge(),
        }
    }
}

/// One of the conditions that must all hold for a constraint to match.
#[derive(Clone, Copy, Debug)]
pub enum Conjunct<'c> {
    /// A field compared with a constant; `3 < $x` is given as `$x > 3`, `$x` as `$x == TRUE`, `not $x` as
    /// `$x == FALSE`.
    Compare {
        /// The field.
        path: &'c Path,
        /// How.
        op: Comparison,
        /// The constant.
        constant: &'c Literal,
    },
    /// A field compared by `==` or `!=` with a name: the name of an enumerator if the field is an enumeration value;
    /// otherwise the name is that of another field, and the constraint must be asked.
    Name {
        /// The field.
        path: &'c Path,
        /// [`Eq`](Comparison::Eq) or [`Ne`](Comparison::Ne).
        op: Comparison,
        /// The name.
        name: &'c str,
    },
    /// Anything else.
    Other,
}

impl Constraint {
    /// Makes a constraint of its text. An empty text is `TRUE` (Notification Service 1.1, 2.4).
    ///
    /// # Errors
    ///
    /// What is wrong with the text, and where.
    pub fn parse(text: &str, limits: &Limits) -> Result<Self, ConstraintError> {
        let tree = parse(text, limits)?;
        let compiled = compile(&tree).map_err(|fault| ConstraintError::new(text, fault.offset, fault.reason))?;
        let Compiled { program, cost, always, conjuncts } = compiled;
        let nodes = u32::try_from(tree.nodes.len()).unwrap_or(u32::MAX);
        Ok(Self { text: text.into(), program, nodes, cost, always, conjuncts })
    }

    /// The text it was made of.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many operands and operators it has.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// What an evaluation costs.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// The verdict, where it is the same for every event: true for an empty text and `TRUE`.
    #[must_use]
    pub fn always(&self) -> Option<bool> {
        self.always
    }

    /// The paths it reads, each once.
    #[must_use]
    pub fn paths(&self) -> &[Path] {
        &self.program.paths
    }

    /// What was understood: the tree, the types, the cost and what cuts evaluation short, for people.
    #[must_use]
    pub fn explain(&self) -> Explanation<'_> {
        Explanation::new(self)
    }

    /// Its verdict on an event.
    pub fn matches<F: Fields + ?Sized>(&self, fields: &F, steps: &mut Steps) -> Verdict {
        self.program.run(fields, steps)
    }

    /// The column, from 1 in characters, at which an evaluation failed.
    #[must_use]
    pub fn column(&self, failure: Failure) -> usize {
        column(&self.text, failure.offset as usize)
    }

    /// Its conditions, all of which must hold, so that a bank can look them up rather than ask each constraint; none if
    /// the constraint is [always](Self::always) the same. It matches exactly the events for which each of them gives
    /// true.
    pub fn conjuncts(&self) -> impl Iterator<Item = Conjunct<'_>> {
        let path = |index: u32| self.program.paths.get(index as usize);
        self.conjuncts.iter().map(move |condition| {
            match condition {
                Condition::Compare { path: index, op, constant } => {
                    path(*index).map(|path| Conjunct::Compare { path, op: *op, constant })
                }
                Condition::Name { path: index, op, name } => path(*index)
                    .zip(path(*name).and_then(|name| match &name.root {
                        Root::Name(name) => Some(&**name),
                        _ => None,
                    }))
                    .map(|(path, name)| Conjunct::Name { path, op: *op, name }),
                Condition::Other => None,
            }
            .unwrap_or(Conjunct::Other)
        })
    }
}

impl fmt::Debug for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Constraint").field(&self.text).finish()
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the event has no such field",
            Self::WrongType => "the operator does not apply to values of these types",
            Self::DivisionByZero => "a division by zero",
            Self::NotASequence => "what stands after in is no sequence of such values",
        })
    }
}
