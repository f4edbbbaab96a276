//! A value of one type as a value of another: what a consumer declared, from what came.
//!
//! Members are found by name; those that the target lacks are passed over, those that the source lacks are an error with their
//! path, unless they are optional. Numbers widen where nothing is lost. Enums go by label. What has to be done is found out once for a
//! pair of types ([`Plan::new`]); a value is then one walk ([`Plan::run`], [`Plan::check`]), which checks all that its reader may
//! rely on: lengths, bounds, booleans, enums, text.
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

/// Steps and depth granted to one value.
const STEPS_MAX: u32 = 16 * 1024 * 1024;
/// Values within each other.
const DEPTH_MAX: u32 = 128;
/// Octets that a value may become, so that a small one cannot become a huge one.
const OCTETS_MAX: usize = 64 * 1024 * 1024;

/// How a value of one type becomes one of another.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The last is the whole.
    steps: Vec<Step>,
    root: usize,
    /// Nothing changes but the encoding.
    is_same: bool,
    /// Values of which nothing changes have the same octets wherever they come from, but for alignment, byte order and code set.
    lies_alike: bool,
    /// There are strings or characters in it.
    has_text: bool,
    /// There are wide ones in the source.
    has_wide: bool,
    /// The largest alignment of anything in it, and that of what it begins with.
    alignment: usize,
    first_alignment: usize,
}

/// Values of members that the declared type has, and that a supplier's may lack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// By the struct's repository id, then by member: the octets of a value alone.
    values: HashMap<String, HashMap<String, Arc<[u8]>>>,
    /// Structs that were begun with: one may be within itself.
    begun: HashSet<&'static str>,
}

impl Defaults {
    /// Gives a member of the struct with that repository id a value, as [the module `raw`](crate::raw) describes values.
    pub fn set(&mut self, structure: &str, member: &str, cdr: &[u8]) {
        self.values.entry(structure.to_owned()).or_default().insert(member.to_owned(), cdr.into());
    }

    /// As [`set`](Self::set), of a value of Rust's.
    pub fn set_value<T: Field>(&mut self, structure: &str, member: &str, value: &T) {
        let mut octets = Vec::new();
        value.write(&mut Writer::new(&mut octets, crate::declared::NATIVE));
        self.set(structure, member, &octets);
    }

    /// Whether a struct's members are to be gone through, as they are once.
    #[doc(hidden)]
    pub fn begin(&mut self, structure: &'static str) -> bool {
        self.begun.insert(structure)
    }

    fn of(&self, structure: &str, member: &str) -> Option<&Arc<[u8]>> {
        self.values.get(structure)?.get(member)
    }
}

/// What is done for one place in the types.
#[derive(Debug)]
enum Step {
    /// Not made yet: a type that contains itself.
    Pending,
    Nothing,
    Bool,
    Octet,
    Char,
    Wchar {
        from_char: bool,
    },
    /// A text of one character.
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
    /// Elements, how many being written in front or known beforehand on either side.
    Elements {
        element: usize,
        from: Count,
        to: Count,
    },
    /// A sequence of one.
    Lift {
        element: usize,
    },
    /// An empty sequence, of nothing that came.
    Absent,
    /// A value of the declared type's own, of nothing that came.
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

/// How many elements there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    /// As many as the number in front says; 0 stands for no bound.
    Written {
        bound: u32,
    },
    Fixed(u32),
}

#[derive(Debug)]
struct Members {
    /// Of the source, in its order: what passes over each, or makes the target's member of it.
    source: Box<[Member]>,
    /// Of the target, in its order, if the source's order is another: which source's member it is, and what makes it.
    target: Option<Box<[TargetMember]>>,
}

/// A member of the target: which of the source's it is, if any, and what makes it.
type TargetMember = (Option<usize>, Member);

#[derive(Debug)]
struct Member {
    name: Box<str>,
    step: usize,
    /// Passed over.
    is_extra: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Discriminator {
    Bool,
    Octet,
    Number(Number),
    /// Of an enum, with so many labels.
    Enum(u32),
}

#[derive(Debug)]
struct Case {
    label: Option<i64>,
    name: Box<str>,
    step: usize,
}

/// Two types that do not fit each other: where, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    pub(crate) path: String,
    pub(crate) reason: String,
}

/// A value that is none of its type, or that the target has no room for: where, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Innermost first.
    trail: Vec<Part>,
    pub(crate) reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Name(Box<str>),
    Index(u32),
}

impl Plan {
    /// Plans how a value of type `source` becomes one of type `target`. Members that `source` lacks take their value from `defaults`.
    ///
    /// # Errors
    /// The types do not fit each other.
    pub(crate) fn new(source: &TypeCode, target: &TypeCode, defaults: &Defaults) -> Result<Self, Misfit> {
        compile::compile(source.root(), target.root(), defaults)
    }

    /// That of a type to itself: checks values, and puts them into another encoding.
    ///
    /// # Errors
    /// Values of the type cannot be had.
    pub(crate) fn same(of: &TypeCode) -> Result<Self, Misfit> {
        Self::new(of, of, &Defaults::default())
    }

    /// Whether nothing changes but the encoding.
    pub(crate) const fn is_same(&self) -> bool {
        self.is_same
    }

    /// Whether there are wide characters in the source, which lie otherwise in DDS.
    #[cfg(feature = "dds")]
    pub(crate) const fn has_wide(&self) -> bool {
        self.has_wide
    }

    /// Whether the value in front of `reader`, after this has aligned it, has the octets that it would be written with from a
    /// position 0 on, in this processor's byte order and UTF-8.
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

    /// Moves `reader` behind a value of the source, having checked it.
    ///
    /// # Errors
    /// It is none, or the target has no room for it.
    pub(crate) fn check(&self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        run::run(self, reader, &mut Checks)
    }

    /// Writes the target's value that a value of the source is.
    ///
    /// # Errors
    /// It is none, or the target or the writer's code set has no room for it.
    pub(crate) fn run(&self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Result<(), Fault> {
        run::run(self, reader, &mut Writes(writer))
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

    /// Where, such as `stations[3].name`; empty for the whole.
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
