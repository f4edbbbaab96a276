//! Errors in the text of a correlation.

use crate::error::{Caret, Reason, column};
use crate::lexer::Fault;
use alloc::boxed::Box;
use core::fmt;

/// An error in the text of a correlation, with its place. Prints as a sentence with the column.
#[derive(Clone, Debug, PartialEq)]
pub struct CorrelationError {
    text: Box<str>,
    offset: usize,
    reason: CorrelationReason,
}

/// An error without its place. Prints as a sentence.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CorrelationReason {
    /// The text is longer than [`bytes_max`](super::CorrelationLimits::bytes_max).
    TooLong {
        /// Length in bytes.
        bytes: usize,
        /// The limit.
        bytes_max: u32,
    },
    /// There are more terms than [`terms_max`](super::CorrelationLimits::terms_max).
    TooManyTerms {
        /// The limit.
        terms_max: u32,
    },
    /// There are more alternatives than [`alternatives_max`](super::CorrelationLimits::alternatives_max).
    TooManyAlternatives {
        /// The limit.
        alternatives_max: u32,
    },
    /// Parentheses are nested deeper than [`depth_max`](super::CorrelationLimits::depth_max).
    TooDeep {
        /// The limit.
        depth_max: u32,
    },
    /// There are more fields after `same` than [`fields_max`](super::CorrelationLimits::fields_max).
    TooManyFields {
        /// The limit.
        fields_max: u32,
    },
    /// Another token is expected here.
    Expected {
        /// The expected token.
        expected: &'static str,
        /// The token found.
        found: Box<str>,
    },
    /// A token spelt as in another language.
    Spelling {
        /// The token as written.
        written: Box<str>,
        /// The correct spelling.
        correct: &'static str,
    },
    /// `not` stands before a type.
    NoNot,
    /// `within`, `same` or `keep` stands there a second time.
    Repeated(&'static str),
    /// A time has no unit, or another one.
    Unit(Box<str>),
    /// A time is not in its range.
    TimeRange,
    /// The number after `keep` is not in its range.
    KeepRange {
        /// The number of the other events of the largest alternative, at least 1.
        least: u32,
        /// The limit.
        most: u32,
    },
    /// A constraint is false for every event.
    NeverMatches,
    /// `$curtime` stands after `same`.
    CurrentTime,
    /// A bracket with a constraint is not closed.
    Unclosed,
    /// A fault in a constraint, a field or a name.
    Constraint(Reason),
}

/// A fault in a text, and its offset.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) offset: usize,
    pub(super) reason: CorrelationReason,
}

pub(super) type Result<T> = core::result::Result<T, Box<Failed>>;

/// A fault as an `Err`.
pub(super) fn fail<T>(offset: usize, reason: CorrelationReason) -> Result<T> {
    Err(Box::new(Failed { offset, reason }))
}

impl From<Box<Fault>> for Box<Failed> {
    fn from(fault: Box<Fault>) -> Self {
        let Fault { offset, reason } = *fault;
        Self::new(Failed { offset, reason: CorrelationReason::Constraint(reason) })
    }
}

impl CorrelationError {
    pub(super) fn new(text: &str, offset: usize, reason: CorrelationReason) -> Self {
        Self { text: text.into(), offset, reason }
    }

    /// Column of the error, from 1, in characters.
    #[must_use]
    pub fn column(&self) -> usize {
        column(&self.text, self.offset)
    }

    /// The error without its place.
    #[must_use]
    pub fn reason(&self) -> &CorrelationReason {
        &self.reason
    }

    /// Prints two lines: the text, and a `^` under the error.
    #[must_use]
    pub fn caret(&self) -> Caret<'_> {
        Caret::new(&self.text, self.column())
    }
}

impl fmt::Display for CorrelationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column(), self.reason)
    }
}

impl core::error::Error for CorrelationError {}

impl fmt::Display for CorrelationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes, bytes_max } => {
                write!(f, "the correlation has {bytes} bytes; the limit is {bytes_max}")
            }
            Self::TooManyTerms { terms_max } => write!(f, "there are more than {terms_max} event types"),
            Self::TooManyAlternatives { alternatives_max } => {
                write!(f, "and between groups of or gives more than {alternatives_max} alternatives; use fewer types")
            }
            Self::TooDeep { depth_max } => write!(f, "parentheses are nested more than {depth_max} deep"),
            Self::TooManyFields { fields_max } => write!(f, "there are more than {fields_max} fields"),
            Self::Expected { expected, found } => write!(f, "{expected} must stand here, not {found}"),
            Self::Spelling { written, correct } => write!(f, "not {written}: write {correct}"),
            Self::NoNot => f.write_str("there is no not: an event that does not come completes nothing"),
            Self::Repeated(word) => write!(f, "{word} stands here a second time; write it once"),
            Self::Unit(found) => write!(f, "a time ends with us, ms, s, min or h, not {found}"),
            Self::TimeRange => f.write_str("a time is 1us to 24h"),
            Self::KeepRange { least, most } => write!(f, "here keep is a number from {least} to {most}"),
            Self::NeverMatches => f.write_str("this constraint matches no event"),
            Self::CurrentTime => f.write_str("$curtime is no field of an event; name one that the events have"),
            Self::Unclosed => f.write_str("the bracket that begins here is not closed"),
            Self::Constraint(reason) => reason.fmt(f),
        }
    }
}
