//! Errors in the text of a constraint.

use crate::tree::Kind;
use alloc::boxed::Box;
use core::fmt;

/// An error in the text of a constraint, with its place. Prints as a sentence with the column.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstraintError {
    text: Box<str>,
    offset: usize,
    reason: Reason,
}

/// An error without its place. Prints as a sentence.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// The text is longer than [`Limits::bytes_max`](crate::Limits::bytes_max).
    TooLong {
        /// Length in bytes.
        bytes: usize,
        /// The limit.
        bytes_max: u32,
    },
    /// There are more operands and operators than [`Limits::nodes_max`](crate::Limits::nodes_max).
    TooManyNodes {
        /// The limit.
        nodes_max: u32,
    },
    /// Parentheses and unary operators are nested deeper than [`Limits::depth_max`](crate::Limits::depth_max).
    TooDeep {
        /// The limit.
        depth_max: u32,
    },
    /// A path has more parts than [`Limits::depth_max`](crate::Limits::depth_max).
    PathTooLong {
        /// The limit.
        depth_max: u32,
    },
    /// So many operators wait for their right side that the evaluation would exceed its stack.
    TooManyWaiting {
        /// The limit.
        operands_max: u32,
    },
    /// A character that is not part of the language.
    Character(char),
    /// A token spelt as in another language.
    Spelling {
        /// The token as written.
        written: Box<str>,
        /// The correct spelling.
        correct: &'static str,
    },
    /// A string has no closing apostrophe.
    UnclosedText,
    /// A backslash in a string is followed by something other than `'`, `\`, `n` or `t`.
    Escape(char),
    /// A number exceeds every IDL type.
    NumberTooLarge {
        /// The largest number allowed.
        max: u64,
    },
    /// A number is followed by letters or an underscore.
    NumberSuffix,
    /// Another token is expected here.
    Expected {
        /// The expected token.
        expected: &'static str,
        /// The token found.
        found: Box<str>,
    },
    /// A keyword is used as a name.
    KeywordAsName(Box<str>),
    /// `a < b < c`, or another operator after one that does not associate.
    Chained {
        /// The operator that cannot follow.
        operator: &'static str,
    },
    /// A name is followed by an opening parenthesis; the language has no functions.
    NoFunctions(Box<str>),
    /// A name without `$` is followed by `.` or `[`.
    PathWithoutDollar(Box<str>),
    /// A part after `._d`, `._length`, `._type_id` or `._repos_id`.
    AfterLastPart,
    /// `$curtime` has no such member.
    CurrentTimeMember,
    /// A union's label is a string of more or less than one character.
    LabelText,
    /// An operand that must be true or false is not.
    NotTruth {
        /// The operator it belongs to; `None` for the constraint as a whole.
        operator: Option<&'static str>,
        /// Kind of the operand.
        found: Kind,
    },
    /// An operand that must be a number is not.
    NotNumber {
        /// The operator.
        operator: &'static str,
        /// Kind of the operand.
        found: Kind,
    },
    /// An operand that must be text is not.
    NotText {
        /// The operator.
        operator: &'static str,
        /// Kind of the operand.
        found: Kind,
    },
    /// The two sides of a comparison are of kinds that never compare.
    Incomparable {
        /// Kind of the left side.
        left: Kind,
        /// Kind of the right side.
        right: Kind,
        /// Whether the left side is a `not …`, which binds tighter than the comparison.
        not: bool,
    },
    /// A division by a constant zero.
    DivisionByZero,
    /// A mask that is no integer.
    NotInteger,
}

impl ConstraintError {
    pub(crate) fn new(text: &str, offset: usize, reason: Reason) -> Self {
        Self { text: text.into(), offset, reason }
    }

    /// Column of the error, from 1, in characters.
    #[must_use]
    pub fn column(&self) -> usize {
        column(&self.text, self.offset)
    }

    /// The error without its place.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// The offset of the error in bytes, and the error without its place.
    pub(crate) fn into_parts(self) -> (usize, Reason) {
        (self.offset, self.reason)
    }

    /// Prints two lines: the constraint, and a `^` under the error.
    #[must_use]
    pub fn caret(&self) -> Caret<'_> {
        Caret::new(&self.text, self.column())
    }
}

/// Column of a byte offset, from 1, in characters.
pub(crate) fn column(text: &str, offset: usize) -> usize {
    text.char_indices().take_while(|(at, _)| *at < offset).count() + 1
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
            Self::TooLong { .. }
            | Self::TooManyNodes { .. }
            | Self::TooDeep { .. }
            | Self::PathTooLong { .. }
            | Self::TooManyWaiting { .. } => self.write_limit(f),
            Self::NotTruth { .. }
            | Self::NotNumber { .. }
            | Self::NotText { .. }
            | Self::Incomparable { .. }
            | Self::DivisionByZero
            | Self::NotInteger => self.write_type(f),
            _ => self.write_syntax(f),
        }
    }
}

impl Reason {
    fn write_limit(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes, bytes_max } => {
                write!(f, "the constraint has {bytes} bytes; the limit is {bytes_max}")
            }
            Self::TooManyNodes { nodes_max } => write!(f, "there are more than {nodes_max} operands and operators"),
            Self::TooDeep { depth_max } => {
                write!(f, "parentheses and unary operators are nested more than {depth_max} deep")
            }
            Self::PathTooLong { depth_max } => write!(f, "the path has more than {depth_max} parts"),
            Self::TooManyWaiting { operands_max } => {
                write!(f, "more than {operands_max} operators wait for their right side; put the nested part first")
            }
            _ => Ok(()),
        }
    }

    fn write_syntax(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character(c) => write!(f, "the character {c:?} means nothing here"),
            Self::Spelling { written, correct } => write!(f, "not {written}: write {correct}"),
            Self::UnclosedText => f.write_str("the string that begins here has no closing apostrophe"),
            Self::Escape(c) => write!(f, "\\{c} is not an escape; there are \\' \\\\ \\n and \\t"),
            Self::NumberTooLarge { max } => write!(f, "the number is too large; the largest is {max}"),
            Self::NumberSuffix => f.write_str("a number ends here, and no operator follows"),
            Self::Expected { expected, found } => write!(f, "{expected} must stand here, not {found}"),
            Self::KeywordAsName(word) => write!(f, "{word} is a keyword; as a name it is written \\{word}"),
            Self::Chained { operator } => {
                write!(f, "{operator} cannot follow here; put what stands before it in parentheses")
            }
            Self::NoFunctions(name) => write!(f, "there are no functions, and so no {name}(…)"),
            Self::PathWithoutDollar(name) => write!(f, "a path begins with $: write ${name}"),
            Self::AfterLastPart => f.write_str("nothing can follow ._d, ._length, ._type_id or ._repos_id"),
            Self::CurrentTimeMember => {
                f.write_str("$curtime has the members time, high, low, inacclo, inacchi and tdf, and no others")
            }
            Self::LabelText => f.write_str("a label in apostrophes is one character"),
            _ => Ok(()),
        }
    }

    fn write_type(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTruth { operator: None, found } => {
                write!(f, "a constraint is true or false; this is {found}")
            }
            Self::NotTruth { operator: Some(operator), found } => {
                write!(f, "{operator} takes what is true or false; this is {found}")
            }
            Self::NotNumber { operator, found } => write!(f, "{operator} takes numbers; this is {found}"),
            Self::NotText { operator, found } => write!(f, "{operator} takes strings; this is {found}"),
            Self::Incomparable { left, right, not } => {
                write!(f, "{left} does not compare with {right}")?;
                f.write_str(if *not { "; not binds tighter than a comparison: write not (…)" } else { "" })
            }
            Self::DivisionByZero => f.write_str("this divides by zero"),
            Self::NotInteger => f.write_str("& takes whole numbers; this has a point"),
            _ => Ok(()),
        }
    }
}

/// Prints the two lines of [`ConstraintError::caret`].
#[derive(Clone, Copy, Debug)]
pub struct Caret<'e> {
    text: &'e str,
    column: usize,
}

impl<'e> Caret<'e> {
    pub(crate) fn new(text: &'e str, column: usize) -> Self {
        Self { text, column }
    }
}

impl fmt::Display for Caret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Line ends and tabs would put the mark elsewhere.
        for c in self.text.chars() {
            write!(f, "{}", if c.is_control() { ' ' } else { c })?;
        }
        write!(f, "\n{:>column$}", "^", column = self.column)
    }
}
