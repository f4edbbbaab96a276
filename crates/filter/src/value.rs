//! What stands at a path, and how values compare.

use crate::constraint::Steps;
use crate::path::Path;
use alloc::boxed::Box;
use core::cmp::Ordering;
use core::fmt;

/// What a constraint reads of an event.
///
/// Implemented by each door, lazily over the event's bytes; nothing here may allocate. `Any` values are looked through:
/// a path goes on inside an `Any` as if its value stood there itself, and what a path leads to is never an `Any`.
pub trait Fields {
    /// The value at `path`, or `None` if the event has none there.
    ///
    /// The cost of walking there is taken from `steps`; when those are spent, the answer is `None` and
    /// [`Steps::is_spent`] says why.
    fn field<'f>(&'f self, path: &Path, steps: &mut Steps) -> Option<Value<'f>>;

    /// Whether the sequence or array at `path` has an element that [equals](Value::equals) `needle`; `None` if there is
    /// no sequence or array there or its elements cannot be compared with `needle`.
    fn contains(&self, path: &Path, needle: &Value<'_>, steps: &mut Steps) -> Option<bool>;

    /// Now, in units of 100 ns since 15 October 1582 (`TimeBase::TimeT`), for `$curtime`.
    fn current_time(&self) -> u64;
}

/// What stands at a path.
#[derive(Clone, Copy, Debug)]
pub enum Value<'f> {
    /// A `boolean`.
    Bool(bool),
    /// A signed integer of any width; also an `octet` or an unsigned one, if it fits.
    Int(i64),
    /// An unsigned integer of any width.
    UInt(u64),
    /// A `float` or `double`.
    Float(f64),
    /// A `char` or `wchar`.
    Char(char),
    /// A `string` or `wstring`.
    Text(Text<'f>),
    /// An enumeration's value.
    Enum {
        /// Its place in the enumeration, from 0.
        ordinal: u32,
        /// The enumerator's name.
        name: Text<'f>,
    },
    /// Something that exists but is no single value: a structure, union, sequence, array, object reference …
    Composite,
}

impl Value<'_> {
    /// Whether the two are equal; `None` if they are of kinds that do not compare.
    ///
    /// Numbers compare as numbers whatever their types; a character equals the string of that one character;
    /// enumeration values are equal if their names are, and an enumeration value equals a string that is its name and a
    /// number that is its ordinal.
    #[must_use]
    pub fn equals(&self, other: &Value<'_>) -> Option<bool> {
        match (self, other) {
            (Self::Bool(a), Value::Bool(b)) => Some(a == b),
            (Self::Int(a), Value::Int(b)) => Some(a == b),
            (Self::Char(a), Value::Char(b)) => Some(a == b),
            (Self::Text(a), Value::Text(b)) => Some(a == b),
            _ => None,
        }
    }
}

/// Characters as they lie in the event.
///
/// Two texts are equal if their characters are, whatever their encodings.
#[derive(Clone, Copy)]
pub struct Text<'f> {
    /// The bytes, without a terminating zero.
    pub bytes: &'f [u8],
    /// ISO 8859-1, one byte a character; otherwise UTF-8. Bytes that are not UTF-8 equal themselves only.
    pub latin1: bool,
}

impl<'f> Text<'f> {
    /// The text of a string.
    #[must_use]
    pub fn new(text: &'f str) -> Self {
        Self { bytes: text.as_bytes(), latin1: false }
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Text<'_>) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes.cmp(other.bytes)
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        *self == Text::new(other)
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.bytes.escape_ascii())
    }
}

/// A constant of a constraint.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `TRUE`, `FALSE`.
    Bool(bool),
    /// An integer that fits `i64`.
    Int(i64),
    /// An integer beyond `i64`.
    UInt(u64),
    /// A number with a point or an exponent. Finite.
    Float(f64),
    /// A string; also a character, which is written as a string of one.
    Text(Box<str>),
}

impl Literal {
    /// The same as an event's field would be.
    #[must_use]
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::UInt(value) => Value::UInt(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Text(value) => Value::Text(Text::new(value)),
        }
    }
}
