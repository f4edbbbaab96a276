//! Conversion of a value of one type to another: from a received to a declared type.
//!
//! Members are matched by name; those that the target lacks are skipped, those that the source lacks are an error with their path, unless
//! they are optional. Numbers widen where nothing is lost. Enums match by label. A pair of types is compiled once ([`Plan::new`]); a value
//! is then one pass ([`Plan::run`], [`Plan::check`]), which checks all that its reader may rely on: lengths, bounds, booleans, enums, text.
//!
//! | from | to |
//! |---|---|
//! | `octet` | `short`, `unsigned short` and whatever these widen to |
//! | `short`, `unsigned short` | wider integers that hold all of it, `float`, `double` |
//! | `long`, `unsigned long` | `long long`, `unsigned long long` if it has no sign, `double` |
//! | `float` | `double` |
//! | `char`, `wchar` | `wchar`, `string` |
//! | `string`, `wstring` | each other; a bound is checked |
//! | an enum | an enum with that label |
//! | a struct | a struct with members that it has, by name, in any order |
//! | sequence, array | each other; a bound or length is checked |
//! | a type | a sequence of at most one of it (an optional value), which it then is |
//! | a union | a union with the same discriminator, names and labels |
//! | `any`, `TypeCode`, object references, `fixed`, `long double` | the same |

mod compile;
mod number;
mod run;
mod sink;
#[cfg(test)]
mod tests;

use crate::typed::Field;
use core::fmt;
use giop::cdr::{CharSet, Endian, ReadError, Reader, Version, Writer};
use giop::typecode::TypeCode;
use number::Number;
use sink::{Checks, Writes};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Limits of steps and depth for one value.
const STEPS_MAX: u32 = 16 * 1024 * 1024;
/// Maximum nesting of values.
const DEPTH_MAX: u32 = 128;
/// Maximum octets of a converted value, so that a small one cannot become a huge one.
const OCTETS_MAX: usize = 64 * 1024 * 1024;

/// The conversion of values of one type to another.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The steps; the last one converts the whole value.
    steps: Vec<Step>,
    root: usize,
    /// Whether only the encoding changes.
    is_same: bool,
    /// Whether unchanged values have the same octets in all encodings, except for alignment, byte order and code set.
    lies_alike: bool,
    /// Whether it contains strings or characters.
    has_text: bool,
    /// Whether the source contains wide ones.
    has_wide: bool,
    /// The largest alignment in it, and that of its first part.
    alignment: usize,
    first_alignment: usize,
}

/// Defaults of declared members that a supplier's type may lack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// By the struct's repository id, then by member: the octets of a value alone.
    values: HashMap<String, HashMap<String, Arc<[u8]>>>,
    /// Structs begun, since one may contain itself.
    begun: HashSet<&'static str>,
}

impl Defaults {
    /// Sets the default of a member of the struct with that repository id, in the form that [the module `raw`](crate::raw) describes.
    pub fn set(&mut self, structure: &str, member: &str, cdr: &[u8]) {
        self.values.entry(structure.to_owned()).or_default().insert(member.to_owned(), cdr.into());
    }

    /// Sets a default as [`set`](Self::set) does, from a Rust value.
    pub fn set_value<T: Field>(&mut self, structure: &str, member: &str, value: &T) {
        let mut octets = Vec::new();
        value.write(&mut Writer::new(&mut octets, crate::declared::NATIVE));
        self.set(structure, member, &octets);
    }

    /// Whether to visit a struct's members, which happens once.
    #[doc(hidden)]
    pub fn begin(&mut self, structure: &'static str) -> bool {
        self.begun.insert(structure)
    }

    fn of(&self, structure: &str, member: &str) -> Option<&Arc<[u8]>> {
        self.values.get(structure)?.get(member)
    }
}

/// The conversion at one place in the types.
#[derive(Debug)]
enum Step {
    /// Placeholder while a type that contains itself is compiled.
    Pending,
    Nothing,
    Bool,
    Octet,
    Char,
    Wchar {
        from_char: bool,
    },
    /// A character becomes a text.
    CharText {
        from_char: bool,
        bound: u32,
    },
    Text {
        from_wide: bool,
        to_wide: bool,
        bound: u32,
    },
    Number {
        size: usize,
    },
    Widen {
        from: Number,
        to: Number,
    },
    Enum {
        name: Box<str>,
        map: Box<[Option<u32>]>,
        labels: Box<[Box<str>]>,
    },
    Struct(Box<Members>),
    /// Elements; on either side their number is in front or fixed.
    Elements {
        element: usize,
        from: Count,
        to: Count,
    },
    /// A value becomes a sequence of one.
    Lift {
        element: usize,
    },
    /// An empty sequence for a missing member.
    Absent,
    /// A default for a missing member.
    Default {
        octets: Arc<[u8]>,
        value: usize,
    },
    Union {
        discriminator: Discriminator,
        cases: Box<[Case]>,
        default: Option<usize>,
    },
    LongDouble,
    Fixed {
        octets: usize,
    },
    Any,
    TypeCode,
    Object,
}

/// Number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    /// The number in front; 0 stands for no bound.
    Written {
        bound: u32,
    },
    Fixed(u32),
}

#[derive(Debug)]
struct Members {
    /// The source's members, in its order: each with the step that skips it, or makes the target's member.
    source: Box<[Member]>,
    /// The target's members, in its order, if that differs from the source's: the source's member, and the step that makes it.
    target: Option<Box<[TargetMember]>>,
}

/// A member of the target: the index of the source's member, if any, and the step that makes it.
type TargetMember = (Option<usize>, Member);

#[derive(Debug)]
struct Member {
    name: Box<str>,
    step: usize,
    /// Whether it is skipped.
    is_extra: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Discriminator {
    Bool,
    Octet,
    Number(Number),
    /// An enum with so many labels.
    Enum(u32),
}

#[derive(Debug)]
struct Case {
    label: Option<i64>,
    name: Box<str>,
    step: usize,
}

/// Two types that do not fit: the path, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    pub(crate) path: String,
    pub(crate) reason: String,
}

/// A value that is invalid, or does not fit the target: the path, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The path, innermost part first.
    trail: Vec<Part>,
    pub(crate) reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Name(Box<str>),
    Index(u32),
}

impl Plan {
    /// Plans the conversion of type `source` to type `target`. Members that `source` lacks get their value from `defaults`.
    ///
    /// # Errors
    /// The types do not fit.
    pub(crate) fn new(source: &TypeCode, target: &TypeCode, defaults: &Defaults) -> Result<Self, Misfit> {
        compile::compile(source.root(), target.root(), defaults)
    }

    /// The plan of a type to itself: checks values, and converts their encoding.
    ///
    /// # Errors
    /// The type has values that are not supported.
    pub(crate) fn same(of: &TypeCode) -> Result<Self, Misfit> {
        Self::new(of, of, &Defaults::default())
    }

    /// Whether only the encoding changes.
    pub(crate) const fn is_same(&self) -> bool {
        self.is_same
    }

    /// Whether the source has wide characters, which DDS encodes differently.
    #[cfg(feature = "dds")]
    pub(crate) const fn has_wide(&self) -> bool {
        self.has_wide
    }

    /// Whether the value in front of `reader`, which this aligns, has the octets of the native encoding: from position 0 on, in this
    /// processor's byte order and UTF-8.
    pub(crate) fn has_native_layout(&self, reader: &mut Reader<'_>) -> Result<bool, ReadError> {
        if !self.is_same || !self.lies_alike {
            return Ok(false);
        }
        let encoding = reader.encoding();
        let text = !self.has_text || (encoding.chars == CharSet::Utf8 && encoding.version >= Version::V1_2);
        let order = self.alignment == 1 || encoding.endian == Endian::NATIVE;
        reader.align(self.first_alignment)?;
        Ok(text && order && reader.phase().is_multiple_of(self.alignment))
    }

    /// Checks a value of the source, and moves `reader` behind it.
    ///
    /// # Errors
    /// The value is invalid, or does not fit the target.
    pub(crate) fn check(&self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        run::run(self, reader, &mut Checks, false)
    }

    /// As [`check`](Self::check), and refuses strings without a NUL.
    ///
    /// # Errors
    /// As of [`check`](Self::check).
    pub(crate) fn check_strictly(&self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        run::run(self, reader, &mut Checks, true)
    }

    /// Converts a value of the source to one of the target.
    ///
    /// # Errors
    /// The value is invalid, or does not fit the target or the writer's code set.
    pub(crate) fn run(&self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Result<(), Fault> {
        run::run(self, reader, &mut Writes(writer), false)
    }

    fn step(&self, index: usize) -> &Step {
        self.steps.get(index).unwrap_or(&Step::Pending)
    }
}

impl Fault {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { trail: Vec::new(), reason: reason.into() }
    }

    #[cold]
    pub(crate) fn within(mut self, name: &str) -> Self {
        self.trail.push(Part::Name(name.into()));
        self
    }

    #[cold]
    fn at(mut self, index: u32) -> Self {
        self.trail.push(Part::Index(index));
        self
    }

    /// The path, such as `stations[3].name`; empty for the whole value.
    pub(crate) fn path(&self) -> String {
        let mut path = String::new();
        for part in self.trail.iter().rev() {
            match part {
                Part::Name(name) if path.is_empty() => path.push_str(name),
                Part::Name(name) => path.extend([".", name]),
                Part::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }
}

impl From<ReadError> for Fault {
    #[cold]
    fn from(error: ReadError) -> Self {
        Self::new(error.kind.to_string())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path().as_str() {
            "" => f.write_str(&self.reason),
            path => write!(f, "{path}: {}", self.reason),
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.reason),
            path => write!(f, "{path}: {}", self.reason),
        }
    }
}
