//! IDL: text to types that travel with events, and back (CORBA 3.3 part 1, 7).
//!
//! ```
//! let text = "
//!     module weather {
//!         const long SENSORS = 3;
//!         enum State { OK, FAILED };
//!         struct Wind { double speed; float direction[SENSORS]; string<16> station; State state; };
//!     };";
//! let definitions = idl::read(text)?;
//! let wind = definitions.find("Wind")?;
//! assert_eq!(wind.name(), "weather::Wind");
//! assert_eq!(wind.code().id(), "IDL:weather/Wind:1.0");
//! // And the text of a type, with all that it is made of.
//! assert_eq!(idl::read(&idl::text(wind.code()))?.find("Wind")?.code(), wind.code());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Supported are modules, structs, unions, enums, typedefs, constants, and within them all types of IDL but valuetypes; `#pragma prefix`,
//! annotations. A struct or union may contain sequences of itself, also by typedefs between its declaration and its definition. Interfaces
//! become object references; their contents and exceptions are skipped. `#include` is not followed; the types for events of the OMG's own
//! files (`orb.idl`, `TimeBase.idl`, `CosNotification.idl`, `CosNaming.idl` and those of the services) are predefined.
//!
//! Work is bounded by the length of the text, and so are depth and memory ([`DEPTH_MAX`], [`PARTS_MAX`], [`TOTAL_PARTS_MAX`]).
#![no_std]

extern crate alloc;

mod error;
mod lexer;
mod parser;
mod write;

#[cfg(test)]
mod tests;

pub use error::{FindError, IdlError};
pub use parser::{DEPTH_MAX, PARTS_MAX, TOTAL_PARTS_MAX, read};
pub use write::{Text, text, texts};

use alloc::string::String;
use alloc::vec::Vec;

use giop::typecode::{Kind, TypeCode};

/// The types that a text defines.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    all: Vec<Definition>,
}

/// A named type.
#[derive(Debug, Clone)]
pub struct Definition {
    name: String,
    code: TypeCode,
}

impl Definition {
    /// The scoped name, such as `weather::Wind`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type.
    #[must_use]
    pub const fn code(&self) -> &TypeCode {
        &self.code
    }
}

impl Definitions {
    /// The types, in order of definition.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Definition> {
        self.all.iter()
    }

    /// The last type: by convention the one that a text about one type defines.
    #[must_use]
    pub fn last(&self) -> Option<&Definition> {
        self.all.last()
    }

    /// The type of a name (`weather::Wind`, or `Wind` if there is only one of them) or of a repository id (`IDL:weather/Wind:1.0`).
    ///
    /// # Errors
    /// No type has the name, or several in different modules do.
    pub fn find(&self, name: &str) -> Result<&Definition, FindError> {
        let name = name.strip_prefix("::").unwrap_or(name);
        if let Some(found) = self.all.iter().find(|known| known.name == name || known.code.id() == name) {
            return Ok(found);
        }
        let last_of = |known: &&Definition| known.name.rsplit("::").next() == Some(name);
        let mut found = self.all.iter().filter(last_of);
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(FindError::Unknown { name: name.into(), known: self.struct_names() }),
            (Some(first), Some(second)) => Err(FindError::Ambiguous {
                name: name.into(),
                among: [first, second].into_iter().chain(found).map(|known| known.name.clone()).collect(),
            }),
        }
    }

    fn struct_names(&self) -> Vec<String> {
        self.all.iter().filter(|known| known.code.kind() == Kind::Struct).map(|known| known.name.clone()).collect()
    }
}
