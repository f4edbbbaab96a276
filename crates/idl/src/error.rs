//! Errors in a text of IDL, and of names that denote no type.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Why a text of IDL is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdlError {
    /// The line, from 1.
    pub line: u32,
    /// The column, in characters from 1.
    pub column: u32,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for IdlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.reason)
    }
}

impl core::error::Error for IdlError {}

/// Why a name denotes no type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindError {
    /// No type has the name.
    Unknown {
        /// The name.
        name: String,
        /// The structs that exist.
        known: Vec<String>,
    },
    /// Several types have the name.
    Ambiguous {
        /// The name.
        name: String,
        /// Their full names.
        among: Vec<String>,
    },
}

/// Maximum number of names in an error message.
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
