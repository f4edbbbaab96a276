//! Why a text is not a constraint.

use alloc::boxed::Box;
use core::fmt;

/// Why a text is not a constraint, and where. Prints as a sentence with the column.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstraintError {
    text: Box<str>,
    offset: usize,
    reason: Reason,
}

/// What is wrong with a constraint.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// The text is longer than [`Limits::bytes_max`](crate::Limits::bytes_max).
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: u32,
    },
    /// Something else was expected here.
    Unexpected {
        /// What would have been right.
        expected: &'static str,
    },
}

impl ConstraintError {
    pub(crate) fn new(text: &str, offset: usize, reason: Reason) -> Self {
        Self { text: text.into(), offset, reason }
    }

    /// Where it is wrong: the column from 1, in characters.
    #[must_use]
    pub fn column(&self) -> usize {
        self.text.char_indices().take_while(|(at, _)| *at < self.offset).count() + 1
    }

    /// What is wrong.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Two lines: the constraint, and a `^` under the place.
    #[must_use]
    pub fn caret(&self) -> Caret<'_> {
        Caret { error: self }
    }
}

impl fmt::Display for ConstraintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column(), self.reason)
    }
}

impl core::error::Error for ConstraintError {}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes, bytes_max } => {
                write!(f, "the constraint has {bytes} bytes; the limit is {bytes_max}")
            }
            Self::Unexpected { expected } => write!(f, "{expected} was expected"),
        }
    }
}

/// Prints the two lines of [`ConstraintError::caret`].
#[derive(Clone, Copy, Debug)]
pub struct Caret<'e> {
    error: &'e ConstraintError,
}

impl fmt::Display for Caret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{:>column$}", self.error.text, "^", column = self.error.column())
    }
}
