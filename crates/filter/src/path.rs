//! Paths to places in an event: a [`Path`] leads from a [`Root`] through [`Part`]s.
//!
//! A path is the parsed text and no more: the implementation of [`Fields`](crate::Fields) for an event decides which
//! member a position means, or where a short-hand name is found.

use crate::tree::Kind;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

/// A place in an event, as a constraint names it. Prints as its canonical text.
///
/// Notification Service 1.1, 2.4.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// Start of the path.
    pub root: Root,
    /// Parts from there on, outermost first.
    pub parts: Box<[Part]>,
}

/// Start of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Root {
    /// The event itself: a `$` followed by nothing or by parts (`$`, `$.header`, `$[3]`, `$(name)`).
    Event,
    /// `$name`, or `name` without the `$`: a run-time variable, or the short-hand of a field of the event.
    Name(Box<str>),
    /// `$curtime`: the current time. Its parts are [`Member`](Part::Member)s `time`, `high` and `low`, checked when
    /// the constraint is parsed. Its value comes from [`Fields::current_time`](crate::Fields::current_time); no other
    /// method of `Fields` is called for a path with this root.
    CurrentTime,
}

/// One part of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// `.name`: a member of a structure, exception or value; of a union, its active member if it has that name.
    Member(Box<str>),
    /// `.3`: the member at that position, from 0.
    Position(u32),
    /// `[3]`: the element of a sequence or array, from 0.
    Element(u32),
    /// `(name)`: in a sequence of name-value pairs, the value of the first pair with that name.
    Named(Box<str>),
    /// `._d`: the discriminator of a union. Always last.
    Discriminator,
    /// `.(label)`: the active member of a union, if it is the one with this label.
    Label(Label),
    /// `.()`: the active member of a union, if it is the default member.
    ///
    /// If the discriminator selects no member at all (an implicit default, CORBA 3.3 part 1, 7.11), the value is a
    /// [`Composite`](crate::Value::Composite).
    Default,
    /// `._length`: the number of elements of a sequence or array. Always last.
    Length,
    /// `._type_id`: the unscoped name of the type. Always last.
    TypeId,
    /// `._repos_id`: the repository id of the type. Always last.
    ReposId,
    /// The ordinal of the enumerator with this name in the type of the enumeration value; no value if the type has none of that name.
    /// Always last. It has no syntax of its own: a comparison such as `$severity <= MINOR` reads it.
    Ordinal(Box<str>),
}

/// A union's label, as written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// `.(5)`, `.(-1)`.
    Int(i64),
    /// `.(TRUE)`.
    Bool(bool),
    /// `.('x')`.
    Char(char),
    /// `.(RED)`: an enumerator.
    Name(Box<str>),
}

impl Path {
    /// Kind of the part's value, as far as it is the same for every event.
    pub(crate) fn kind(&self) -> Kind {
        match (&self.root, self.parts.last()) {
            (_, Some(Part::Length | Part::Ordinal(_))) => Kind::Number,
            (_, Some(Part::TypeId | Part::ReposId)) => Kind::Text,
            (Root::CurrentTime, _) => Kind::Number,
            _ => Kind::Field,
        }
    }
}

/// Distinct paths, by index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    all: Vec<Path>,
    places: BTreeMap<Path, u32>,
}

impl Paths {
    /// The index of `path`, which is added if it is new.
    pub(crate) fn place(&mut self, path: Path) -> u32 {
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let place = *self.places.entry(path.clone()).or_insert(next);
        if place == next {
            self.all.push(path);
        }
        place
    }

    pub(crate) fn get(&self, place: u32) -> Option<&Path> {
        self.all.get(place as usize)
    }

    pub(crate) fn into_boxed_slice(self) -> Box<[Path]> {
        self.all.into()
    }
}

impl PartialEq for Paths {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

/// Words that need a backslash to be names.
pub(crate) const KEYWORDS: [&str; 6] = ["and", "default", "exist", "in", "not", "or"];

/// Whether `name` is a keyword of the language: one of the operators, or `TRUE` or `FALSE` in any case.
pub(crate) fn is_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name) || name.eq_ignore_ascii_case("TRUE") || name.eq_ignore_ascii_case("FALSE")
}

/// Whether `name` needs no escape: a letter or `_`, then letters, digits and `_`.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.root {
            Root::Event => f.write_str("$")?,
            Root::Name(name) => write!(f, "${}", Written(name))?,
            Root::CurrentTime => f.write_str("$curtime")?,
        }
        self.parts.iter().try_for_each(|part| write!(f, "{part}"))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(name) => write!(f, ".{}", Written(name)),
            Self::Position(position) => write!(f, ".{position}"),
            Self::Element(element) => write!(f, "[{element}]"),
            Self::Named(name) if is_identifier(name) => write!(f, "({})", Written(name)),
            Self::Named(name) => write!(f, "({})", Quoted(name)),
            Self::Discriminator => f.write_str("._d"),
            Self::Label(label) => write!(f, ".({label})"),
            Self::Default => f.write_str(".()"),
            Self::Length => f.write_str("._length"),
            Self::TypeId => f.write_str("._type_id"),
            Self::ReposId => f.write_str("._repos_id"),
            Self::Ordinal(name) => write!(f, "._ordinal({})", Written(name)),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Bool(value) => f.write_str(if *value { "TRUE" } else { "FALSE" }),
            Self::Char(value) => write!(f, "{}", Quoted(value.encode_utf8(&mut [0; 4]))),
            Self::Name(name) => write!(f, "{}", Written(name)),
        }
    }
}

/// Prints a name so that it is parsed as a name: `\in`.
pub(crate) struct Written<'a>(pub(crate) &'a str);

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let special = matches!(self.0, "_d" | "_length" | "_type_id" | "_repos_id");
        write!(f, "{}{}", if is_keyword(self.0) || special { "\\" } else { "" }, self.0)
    }
}

/// Prints a string as a literal: in apostrophes, with `\'` and `\\`.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("'")?;
        for c in self.0.chars() {
            match c {
                '\'' => f.write_str("\\'")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("'")
    }
}
