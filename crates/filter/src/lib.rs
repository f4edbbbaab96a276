//! The filter language: the Extended Trader Constraint Language of the OMG Notification Service 1.1 (2.4).
//!
//! A [`Constraint`] is made once, where a filter is installed: its text is parsed, types known without an event are
//! checked, constants and its cost are computed, and it is compiled. It is evaluated often, on the event path:
//! [`Constraint::matches`] reads the event through [`Fields`], allocates nothing, and stops when its [`Steps`] are spent.
//!
//! - [`path`]: paths to fields of an event: `$antenna`, `$.remainder_of_body.readings[3]`.
//! - [`value`]: values of fields, and comparisons of them.
//! - [`constraint`]: the language itself, from text to verdict.
//! - [`bank`]: many constraints evaluated together.
//! - [`correlation`]: sets of events of several types that belong together.
//!
//! ```
//! # use filter::{Constraint, Fields, Limits, Path, Root, Steps, Value, Verdict};
//! /// An event that consists of a priority.
//! struct Event(i64);
//!
//! impl Fields for Event {
//!     fn field<'f>(&'f self, path: &Path, steps: &mut Steps) -> Option<Value<'f>> {
//!         let is_priority = path.root == Root::Name("priority".into()) && path.parts.is_empty();
//!         (steps.take(1) && is_priority).then_some(Value::Int(self.0))
//!     }
//!
//!     fn contains(&self, _: &Path, _: &Value<'_>, _: &mut Steps) -> Option<bool> {
//!         None
//!     }
//!
//!     fn current_time(&self) -> u64 {
//!         0
//!     }
//! }
//!
//! let constraint = Constraint::parse("exist $priority and $priority > 3.25", &Limits::default())?;
//! assert_eq!(constraint.matches(&Event(4), &mut Steps::new(100)), Verdict::Match);
//! assert_eq!(constraint.matches(&Event(3), &mut Steps::new(100)), Verdict::NoMatch);
//!
//! let error = Constraint::parse("$priority > 'high' and 1 > 'low'", &Limits::default()).unwrap_err();
//! assert_eq!(error.to_string(), "column 26: a number does not compare with a string");
//! # Ok::<(), filter::ConstraintError>(())
//! ```
//!
//! The language is specified for its users, with examples that are run as tests, in `spec/`.
#![no_std]
extern crate alloc;

pub mod bank;
mod compile;
pub mod constraint;
pub mod correlation;
pub mod error;
pub mod explain;
mod lexer;
#[cfg(test)]
mod model;
mod number;
mod parser;
pub mod path;
mod program;
mod text;
mod tree;
pub mod value;

pub use bank::{Bank, Evaluated, Scratch};
pub use constraint::{Comparison, Conjunct, Constraint, Cost, Failure, FailureKind, Limits, Steps, Verdict};
pub use error::{ConstraintError, Reason};
pub use explain::Explanation;
pub use path::{Label, Part, Path, Root};
pub use text::{Chars, Text};
pub use tree::Kind;
pub use value::{Fields, Literal, Value};

/// Whether `name` names the only grammar supported.
///
/// `EXTENDED_TCL` is the standard's name (Notification Service 1.1, 2.4); ALMA's clients and TAO use `ETCL`, and
/// omniNotify's clients `TCL`.
#[must_use]
pub fn is_grammar(name: &str) -> bool {
    matches!(name, "EXTENDED_TCL" | "ETCL" | "TCL")
}
