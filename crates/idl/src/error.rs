//! Why a text defines no types, and why a name names none of them.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Why a text defines no types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdlError {
    /// Where: the line, from 1.
    pub line: u32,
    /// The column, in characters from 1.
    pub column: u32,
    /// What is the matter.
    pub reason: String,
}

impl fmt::Display for IdlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.reason)
    }
}

impl core::error::Error for IdlError {}

/// Why a name names no type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindError {
    /// There is none of that name.
    Unknown {
        /// The name.
        name: String,
        /// The structs that there are.
        known: Vec<String>,
    },
    /// Several have it.
    Ambiguous {
        /// The name.
        name: String,
        /// What they are called in full.
        among: Vec<String>,
    },
}

/// Names that an error message tells.
const NAMES_SHOWN_MAX: usize = 12;

impl fmt::Display for FindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, known } if known.is_empty() => {
                write!(f, "there is no type `{name}`, nor any struct")
            }
            Self::Unknown { name, known } => {
                write!(f, "there is no type `{name}`; the structs are ")?;
                list(f, known)
            }
            Self::Ambiguous { name, among } => {
                write!(f, "`{name}` is the name of several types: ")?;
                list(f, among)
            }
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, names: &[String]) -> fmt::Result {
    for (index, name) in names.iter().take(NAMES_SHOWN_MAX).enumerate() {
        write!(f, "{}`{name}`", if index == 0 { "" } else { ", " })?;
    }
    if names.len() > NAMES_SHOWN_MAX { write!(f, " and {} more", names.len() - NAMES_SHOWN_MAX) } else { Ok(()) }
}

impl core::error::Error for FindError {}
