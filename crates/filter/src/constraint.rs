//! The language: [`Constraint`], from text to verdict.

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

/// Limits of a constraint that is to be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest text, in bytes. Default 16,384.
    pub bytes_max: u32,
    /// Most operands and operators. Default 4,096.
    pub nodes_max: u32,
    /// The deepest nesting of parentheses and unary operators, and the longest path, in parts. Default 128.
    pub depth_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes_max: 16_384, nodes_max: 4_096, depth_max: 128 }
    }
}

/// A checked and compiled constraint with its cost. Immutable; share it by `Arc`. Its `Debug` form is its text.
pub struct Constraint {
    text: Box<str>,
    program: Program,
    nodes: u32,
    cost: Cost,
    always: Option<bool>,
    conjuncts: Box<[Condition]>,
}

/// Cost of an evaluation, in [`Steps`], if it does not fail and each part of a path costs one step; long texts and
/// sequences, and data to skip on the way to a field, cost more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Cost with every short cut taken.
    pub best: u32,
    /// Cost without any short cut.
    pub worst: u32,
}

/// Result of a constraint for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The event matches.
    Match,
    /// The event does not match.
    NoMatch,
    /// The event has no such field, or one of another type. Counts as no match.
    Failed(Failure),
    /// The steps were spent before there was a result. Counts as no match.
    Cut,
}

/// Reason and place of a failed evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Reason.
    pub kind: FailureKind,
    /// Place: offset of the operand or operator in the constraint's text, in bytes.
    pub offset: u32,
}

/// Reason of a failed evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The event has no value at the path.
    Missing,
    /// The operator does not apply to values of these types.
    WrongType,
    /// A division by zero.
    DivisionByZero,
    /// The right side of `in` is no sequence or array of values that compare with the left side.
    NotASequence,
}

/// Steps left for evaluations. One step is about one operator or one part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Number of steps left.
    pub left: u32,
}

impl Steps {
    /// A budget of `left` steps.
    #[must_use]
    pub fn new(left: u32) -> Self {
        Self { left }
    }

    /// Takes `n` steps; false if there were fewer, and then none are left.
    #[inline]
    pub fn take(&mut self, n: u32) -> bool {
        let enough = self.left >= n;
        self.left = self.left.saturating_sub(n);
        enough
    }

    /// Whether no steps are left.
    #[must_use]
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }
}

/// Operator of a comparison.
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
    /// Whether the comparison is true for two values in this order.
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
    /// A field compared with a constant; `3 < $x` becomes `$x > 3`, `$x` becomes `$x == TRUE`, `not $x` becomes `$x ==
    /// FALSE`.
    Compare {
        /// The field.
        path: &'c Path,
        /// The operator.
        op: Comparison,
        /// The constant.
        constant: &'c Literal,
    },
    /// A field compared by `==` or `!=` with a name: of an enumerator if the field is an enumeration value; otherwise
    /// of another field, and the constraint must be evaluated.
    Name {
        /// The field.
        path: &'c Path,
        /// [`Eq`](Comparison::Eq) or [`Ne`](Comparison::Ne).
        op: Comparison,
        /// The name.
        name: &'c str,
    },
    /// Any other condition.
    Other,
}

impl Constraint {
    /// Parses and compiles a text. An empty text is `TRUE` (Notification Service 1.1, 2.4).
    ///
    /// # Errors
    ///
    /// The fault in the text, and its place.
    pub fn parse(text: &str, limits: &Limits) -> Result<Self, ConstraintError> {
        let tree = parse(text, limits)?;
        let compiled = compile(&tree).map_err(|fault| ConstraintError::new(text, fault.offset, fault.reason))?;
        let Compiled { program, cost, always, conjuncts } = compiled;
        let nodes = u32::try_from(tree.nodes.len()).unwrap_or(u32::MAX);
        Ok(Self { text: text.into(), program, nodes, cost, always, conjuncts })
    }

    /// The source text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Number of operands and operators.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Cost of an evaluation.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// The verdict, if it is the same for every event: true for an empty text and `TRUE`.
    #[must_use]
    pub fn always(&self) -> Option<bool> {
        self.always
    }

    /// The paths that the constraint reads, each once.
    #[must_use]
    pub fn paths(&self) -> &[Path] {
        &self.program.paths
    }

    /// Prints how the constraint was parsed: the tree, the types, the cost and the short cuts of its evaluation.
    #[must_use]
    pub fn explain(&self) -> Explanation<'_> {
        Explanation::new(self)
    }

    /// Evaluates the constraint for an event.
    pub fn matches<F: Fields + ?Sized>(&self, fields: &F, steps: &mut Steps) -> Verdict {
        self.program.run(fields, steps)
    }

    /// Column of a failure, from 1, in characters.
    #[must_use]
    pub fn column(&self, failure: Failure) -> usize {
        column(&self.text, failure.offset as usize)
    }

    /// Conditions of the constraint, all of which must hold, so that a bank can look them up rather than evaluate each
    /// constraint; none if the constraint is [always](Self::always) the same. It matches exactly the events for which
    /// each condition is true.
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
