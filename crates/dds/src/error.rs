//! Errors, and what is at fault.

use std::fmt;
use std::ops::RangeInclusive;

use crate::raw;

/// A result code of Cyclone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code(pub(crate) i32);

impl Code {
    pub(crate) const BAD_PARAMETER: Self = Self(-3);
    pub(crate) const PRECONDITION_NOT_MET: Self = Self(-4);
    pub(crate) const OUT_OF_RESOURCES: Self = Self(-5);
    pub(crate) const TIMEOUT: Self = Self(-10);
    pub(crate) const NO_DATA: Self = Self(-11);

    /// The code, below 0.
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

/// Why something could not be made or queried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The domain's number is outside 0 to 232, which have ports.
    DomainId(u32),
    /// This process already takes part in the domain with other options.
    DomainOptions(u32),
    /// An option's value is out of range.
    Option {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: u32,
        /// Its valid range.
        range: RangeInclusive<u32>,
    },
    /// Cyclone could not join the domain: the network is not as the options say.
    Domain {
        /// The domain.
        id: u32,
        /// Cyclone's result.
        code: Code,
        /// Cyclone's complaint.
        why: String,
    },
    /// A name (of a topic, a type, a member, a partition) is empty, too long, or contains a zero.
    Name {
        /// The kind of thing to be named.
        of: &'static str,
        /// The name as given.
        name: String,
    },
    /// DDS has no equivalent of this part of a type.
    Type {
        /// Path to the part: `Wind.gusts[]`.
        path: String,
        /// The problem, and what to do.
        reason: String,
    },
    /// The participant has a topic of that name with another type.
    TopicType {
        /// The topic's name.
        topic: String,
        /// The topic's type.
        has: String,
        /// The requested type.
        requested: String,
    },
    /// The endpoint does not announce its type, or did not answer in time.
    TypeUnknown {
        /// The endpoint's topic.
        topic: String,
        /// The name of its type.
        type_name: String,
        /// Cyclone's result.
        code: Code,
    },
    /// An operation of Cyclone failed.
    Cyclone {
        /// The operation.
        what: &'static str,
        /// Cyclone's result.
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
    /// Readers are behind, and the samples that wait for them take all the room: none became free within the writer's `blocking_max`.
    /// Nothing was written or lost; the caller may try again.
    Slowed,
    /// The octets are not a value of the topic's type.
    NotAValue,
    /// Cyclone failed.
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
