//! Values of fields, and comparisons of them.

use crate::constraint::{Comparison, Steps};
use crate::number::Number;
use crate::path::{Path, Quoted};
use crate::text::Text;
use alloc::boxed::Box;
use core::cmp::Ordering;
use core::fmt;

/// Access to the fields of an event.
///
/// Implemented by each protocol, lazily over the event's bytes; nothing here may allocate. `Any` values are
/// transparent: a path continues inside an `Any` as if its value were in its place, and a path never ends at an `Any`.
pub trait Fields {
    /// The value at `path`, or `None` if the event has none there.
    ///
    /// The cost of the path is taken from `steps`: one for the root and one for each part, and more for data to skip.
    /// When the steps are spent, the result is `None` and [`Steps::is_spent`] is true.
    fn field<'f>(&'f self, path: &Path, steps: &mut Steps) -> Option<Value<'f>>;

    /// Whether the sequence or array at `path` has an element that [equals](Value::equals) `needle`; `None` if there is
    /// no sequence or array there or its elements cannot be compared with `needle`.
    fn contains(&self, path: &Path, needle: &Value<'_>, steps: &mut Steps) -> Option<bool>;

    /// Current time, in units of 100 ns since 15 October 1582 (`TimeBase::TimeT`), for `$curtime`.
    fn current_time(&self) -> u64;
}

/// Value of a field.
#[derive(Clone, Copy, Debug)]
pub enum Value<'f> {
    /// A `boolean`.
    Bool(bool),
    /// An integer of any type that fits.
    Int(i64),
    /// An unsigned integer of any type.
    UInt(u64),
    /// A `float` or `double`.
    Float(f64),
    /// A `char` or `wchar`.
    Char(char),
    /// A `string` or `wstring`.
    Text(Text<'f>),
    /// A value of an enumeration.
    Enum {
        /// Ordinal in the enumeration, from 0.
        ordinal: u32,
        /// The enumerator's name.
        name: Text<'f>,
    },
    /// A value of another type: a structure, union, sequence, array, object reference …
    Composite,
}

impl Value<'_> {
    /// Whether two values are equal; `None` if they are of kinds that do not compare.
    ///
    /// Numbers compare as numbers whatever their types; a character equals the string of that one character;
    /// enumeration values are equal if their names are, and an enumeration value equals a string with its name and a
    /// number with its ordinal.
    #[must_use]
    #[inline]
    pub fn equals(&self, other: &Value<'_>) -> Option<bool> {
        match (self, other) {
            (Self::Text(a), Value::Text(b)) => Some(a == b),
            (Self::Int(a), Value::Int(b)) => Some(a == b),
            (Self::Bool(a), Value::Bool(b)) => Some(a == b),
            (Self::Char(a), Value::Char(b)) => Some(a == b),
            (Self::Char(c), Value::Text(text)) => Some(text.is_char(*c)),
            (Self::Text(text), Value::Char(c)) => Some(text.is_char(*c)),
            (Self::Enum { name, .. }, Value::Enum { name: text, .. } | Value::Text(text)) => Some(name == text),
            (Self::Text(text), Value::Enum { name, .. }) => Some(name == text),
            _ => Some(self.ordered(other)? == Some(Ordering::Equal)),
        }
    }

    /// Order of two values: `None` if they are of kinds without order, `Some(None)` if one is not a number (NaN).
    ///
    /// Numbers compare as numbers, texts and characters by the numbers of their characters, `FALSE` is less than
    /// `TRUE`, and enumeration values compare by their ordinals, with numbers also.
    #[must_use]
    pub fn ordered(&self, other: &Value<'_>) -> Option<Option<Ordering>> {
        match (self, other) {
            (Self::Text(a), Value::Text(b)) => Some(Some(a.cmp(b))),
            (Self::Bool(a), Value::Bool(b)) => Some(Some(a.cmp(b))),
            (Self::Char(a), Value::Char(b)) => Some(Some(a.cmp(b))),
            (Self::Char(a), Value::Text(b)) => Some(Some(core::iter::once(u32::from(*a)).cmp(b.characters()))),
            (Self::Text(a), Value::Char(b)) => Some(Some(a.characters().cmp(core::iter::once(u32::from(*b))))),
            _ => Some(self.comparable_number()?.compare(other.comparable_number()?)),
        }
    }

    /// Whether `self op other` is true; `None` if the kinds do not compare by this operator.
    #[must_use]
    #[inline]
    pub fn holds(&self, op: Comparison, other: &Value<'_>) -> Option<bool> {
        match op {
            Comparison::Eq => self.equals(other),
            Comparison::Ne => self.equals(other).map(|equal| !equal),
            _ => self.ordered(other).map(|order| order.is_some_and(|order| op.holds(order))),
        }
    }

    /// The value as a number in a comparison: an integer, a float, or an enumeration value's ordinal.
    #[inline]
    fn comparable_number(&self) -> Option<Number> {
        match self {
            Self::Int(value) => Some(Number::Int(*value)),
            Self::UInt(value) => Some(Number::UInt(*value)),
            Self::Float(value) => Some(Number::Float(*value)),
            Self::Enum { ordinal, .. } => Some(Number::Int(i64::from(*ordinal))),
            _ => None,
        }
    }

    /// The value as a number in arithmetic: also 0 or 1 for a boolean, and a character's number.
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Self::Bool(value) => Some(Number::Int(i64::from(*value))),
            Self::Char(value) => Some(Number::Int(i64::from(u32::from(*value)))),
            _ => self.comparable_number(),
        }
    }

    /// The value as text for `~`; a character is written into `buffer`.
    pub(crate) fn text<'b>(&'b self, buffer: &'b mut [u8; 4]) -> Option<Text<'b>> {
        match self {
            Self::Text(text) => Some(*text),
            Self::Char(c) => Some(Text::new(c.encode_utf8(buffer))),
            _ => None,
        }
    }

    /// Steps to compare two values, beyond the one of the comparison itself.
    #[inline]
    pub(crate) fn steps(&self, other: &Value<'_>) -> u32 {
        match (self, other) {
            (Self::Text(a), Value::Text(b)) => a.steps(b),
            _ => 0,
        }
    }
}

impl From<Number> for Value<'_> {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(value) => Self::Int(value),
            Number::UInt(value) => Self::UInt(value),
            Number::Float(value) => Self::Float(value),
        }
    }
}

/// A constant of a constraint. Prints as in the source.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `TRUE`, `FALSE`.
    Bool(bool),
    /// An integer that fits `i64`.
    Int(i64),
    /// An integer beyond `i64`.
    UInt(u64),
    /// A number with a point or an exponent, or computed from such.
    Float(f64),
    /// A string, or a character, which is written as a string of one.
    Text(Box<str>),
}

impl Literal {
    /// The constant as a value, to be compared with fields.
    #[must_use]
    #[inline]
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::UInt(value) => Value::UInt(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Text(value) => Value::Text(Text::new(value)),
        }
    }

    /// The constant as a number in arithmetic, where a string of one character has that character's number.
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Self::Text(text) => single(text).and_then(|c| Value::Char(c).number()),
            other => other.value().number(),
        }
    }
}

impl From<Number> for Literal {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(value) => Self::Int(value),
            Number::UInt(value) => Self::UInt(value),
            Number::Float(value) => Self::Float(value),
        }
    }
}

/// The character of a string that has exactly one.
pub(crate) fn single(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => f.write_str(if *value { "TRUE" } else { "FALSE" }),
            Self::Int(value) => write!(f, "{value}"),
            Self::UInt(value) => write!(f, "{value}"),
            // Always with a point or an exponent, so that it is read back as a float.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "{}", Quoted(value)),
        }
    }
}
