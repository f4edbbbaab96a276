//! Errors in bytes that should be CDR.

use core::fmt;

/// The bytes do not match their type: always the peer's fault, never the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Position in octets from the start of the outermost bytes: of the message when reading from a message.
    pub offset: usize,
    /// Kind of error.
    pub kind: ReadErrorKind,
}

/// The ways in which bytes fail to be CDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// The bytes end inside a value.
    Truncated {
        /// Octets that the value takes.
        needed: usize,
        /// Octets that there are.
        available: usize,
    },
    /// A length or count asks for more than the bytes can hold.
    TooLong {
        /// The length or count as sent.
        length: u32,
        /// Octets that follow it.
        available: usize,
    },
    /// A boolean that is neither 0 nor 1 (CORBA 3.3 part 2, 9.3.1.5).
    BadBool {
        /// The octet as sent.
        value: u8,
    },
    /// A string that does not end with NUL.
    MissingNul,
    /// Text that is not valid in its code set.
    BadText {
        /// Name of the code set.
        charset: &'static str,
    },
    /// A character that the code set to be written lacks.
    Lacking(Lacking),
    /// A length of wide characters that is impossible in UTF-16.
    BadWideLength {
        /// The number of octets as sent.
        length: u32,
    },
    /// A number that is not a value of its type.
    BadValue {
        /// Name of the type.
        what: &'static str,
        /// The number as sent.
        value: u32,
    },
    /// A malformed construct, named by a phrase.
    Malformed {
        /// The problem, as a phrase such as "an indirection that points forward".
        what: &'static str,
    },
    /// A count exceeds its limit.
    TooMany {
        /// The items, in the plural.
        what: &'static str,
        /// Number of items.
        count: u32,
        /// Maximum number of items.
        max: u32,
    },
    /// Octets are left behind a complete value.
    TrailingBytes {
        /// Name of the type with the extra octets.
        what: &'static str,
        /// Number of octets left.
        count: usize,
    },
    /// Reading the bytes takes more steps than granted.
    TooMuchWork,
    /// Values or types are nested deeper than is granted.
    TooDeep,
    /// A construct that is valid, as far as this crate can see, but not supported here.
    Unsupported {
        /// Name of the kind.
        what: &'static str,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at octet {}: {}", self.offset, self.kind)
    }
}

impl fmt::Display for ReadErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { needed, available } => {
                write!(f, "the bytes end inside a value that takes {needed} octets where {available} are left")
            }
            Self::TooLong { length, available } => {
                write!(f, "a length of {length} does not fit into the {available} octets that follow it")
            }
            Self::BadBool { value } => write!(f, "a boolean is {value} where only 0 and 1 are allowed"),
            Self::MissingNul => f.write_str("a string does not end with NUL"),
            Self::BadText { charset } => write!(f, "text is not valid {charset}"),
            Self::Lacking(lacking) => lacking.fmt(f),
            Self::BadWideLength { length } => {
                write!(f, "wide characters take {length} octets, in which UTF-16 does not come")
            }
            Self::BadValue { what, value } => write!(f, "{value} is not a value of {what}"),
            Self::Malformed { what } => write!(f, "found {what}"),
            Self::TooMany { what, count, max } => write!(f, "{count} {what} where at most {max} are accepted"),
            Self::TrailingBytes { what, count } => write!(f, "{count} octets are left over behind {what}"),
            Self::TooMuchWork => f.write_str("reading on would take more steps than are granted"),
            Self::TooDeep => f.write_str("values are nested deeper than is granted"),
            Self::Unsupported { what } => write!(f, "{what} is not supported"),
        }
    }
}

impl core::error::Error for ReadError {}

/// A character that the target encoding cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// The character.
    pub character: char,
    /// The encoding with its verb, such as "ISO 8859-1 lacks".
    pub what: &'static str,
}

impl Lacking {
    /// `character` is not in the narrow code set of old ORBs, or takes two units where a `wchar` has one.
    #[must_use]
    pub const fn in_encoding(character: char) -> Self {
        let what =
            if character as u32 > 0xFFFF { "ISO 8859-1 and a wchar of one unit lack" } else { "ISO 8859-1 lacks" };
        Self { character, what }
    }
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { character, what } = self;
        write!(
            f,
            "{character:?} (U+{:04X}) cannot be sent: {what} it, and the other side knows nothing else",
            u32::from(*character)
        )
    }
}

impl core::error::Error for Lacking {}
