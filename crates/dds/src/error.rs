//! What goes wrong, and what is at fault.

use std::fmt;
use std::ops::RangeInclusive;

use crate::raw;

/// A result of Cyclone's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code(pub(crate) i32);

impl Code {
    pub(crate) const BAD_PARAMETER: Self = Self(-3);
    pub(crate) const PRECONDITION_NOT_MET: Self = Self(-4);
    pub(crate) const OUT_OF_RESOURCES: Self = Self(-5);
    pub(crate) const TIMEOUT: Self = Self(-10);
    pub(crate) const NO_DATA: Self = Self(-11);

    /// The number, below 0.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", raw::error_text(self.0), self.0)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why something could not be made, or found out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The domain's number: 0 to 232 have ports.
    DomainId(u32),
    /// This process takes part in the domain with other options already.
    DomainOptions(u32),
    /// An option has a value that it cannot have.
    Option {
        /// Its name.
        name: &'static str,
        /// What it has.
        value: u32,
        /// What it may have.
        range: RangeInclusive<u32>,
    },
    /// Cyclone could not take part in the domain: the network is not as the options say.
    Domain {
        /// The domain.
        id: u32,
        /// What Cyclone said.
        code: Code,
        /// What it complained about.
        why: String,
    },
    /// A name (of a topic, a type, a member, a partition) is empty, too long, or has a zero in it.
    Name {
        /// What it would have named.
        of: &'static str,
        /// As it was given.
        name: String,
    },
    /// DDS has nothing for this part of a type.
    Type {
        /// The way to it: `Wind.gusts[]`.
        path: String,
        /// What is there, and what to do.
        reason: String,
    },
    /// The participant has a topic of that name with another type.
    TopicType {
        /// The topic's name.
        topic: String,
        /// The type that it has.
        has: String,
        /// The type that was asked for.
        requested: String,
    },
    /// The endpoint does not say what its type is, or did not answer in time.
    TypeUnknown {
        /// The endpoint's topic.
        topic: String,
        /// The name of its type.
        type_name: String,
        /// What Cyclone said.
        code: Code,
    },
    /// Cyclone could not.
    Cyclone {
        /// What it was to do.
        what: &'static str,
        /// What it said.
        code: Code,
    },
}

impl Error {
    pub(crate) fn cyclone(what: &'static str) -> impl FnOnce(Code) -> Self {
        move |code| Self::Cyclone { what, code }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DomainId(id) => write!(f, "DDS has domains 0 to 232, and {id} is none"),
            Self::DomainOptions(id) => {
                write!(f, "this process takes part in DDS domain {id} with other options already")
            }
            Self::Option { name, value, range } => {
                write!(f, "{name} is {value}; it may be {} to {}", range.start(), range.end())
            }
            Self::Domain { id, code, why } => {
                write!(f, "Cyclone DDS could not take part in domain {id}: {code}: {why}")
            }
            Self::Name { of, name } => write!(f, "{name:?} cannot be the name of a {of} in DDS"),
            Self::Type { path, reason } => write!(f, "{path}: {reason}"),
            Self::TopicType { topic, has, requested } => {
                write!(f, "topic {topic:?} has another type: it is {has}, and {requested} was requested")
            }
            Self::TypeUnknown { topic, type_name, code } => {
                write!(f, "topic {topic:?} has type {type_name}, and its definition is unknown: {code}")
            }
            Self::Cyclone { what, code } => write!(f, "Cyclone DDS could not {what}: {code}"),
        }
    }
}

impl std::error::Error for Error {}

/// Why a value was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// Readers are behind, and what waits for them takes all the room there is; there was none within the writer's
    /// `blocking_max`. Nothing was written and nothing is lost: try again, or leave it.
    Slowed,
    /// The octets are no value of the topic's type.
    NotAValue,
    /// Cyclone could not.
    Failed(Code),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slowed => f.write_str("readers are behind, and the writer has no more room for what waits for them"),
            Self::NotAValue => f.write_str("the octets are no value of the topic's type"),
            Self::Failed(code) => write!(f, "Cyclone DDS could not write: {code}"),
        }
    }
}

impl std::error::Error for WriteError {}
