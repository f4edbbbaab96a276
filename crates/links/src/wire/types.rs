//! Lists of event types and of origins, encoded or to be encoded.

use super::fields::Fields;
use super::list::{Entry, List};
use super::{Kind, ORIGINS_MAX, TYPES_BYTES_MAX, TYPES_MAX};
use crate::{Origin, Violation};

/// A subscribed event type: `distance u8 │ domain │ name`. The names may have wildcards, which the engine interprets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeInterest<'a> {
    /// The domain.
    pub domain: &'a [u8],
    /// The name.
    pub name: &'a [u8],
    /// Number of links between the nearest subscription and the sender of the frame. 0: the sender's own.
    pub distance: u8,
}

/// A list of event types, at most [`TYPES_MAX`] and [`TYPES_BYTES_MAX`]: `count u32 │ type …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types<'a>(List<'a, TypeInterest<'a>>);

impl<'a> Types<'a> {
    /// No types.
    pub const NONE: Self = Self(List::Own(&[]));

    /// Creates a list to be written.
    ///
    /// # Errors
    /// When the list exceeds the limits: the sender then subscribes to all types.
    pub fn new(types: &'a [TypeInterest<'a>]) -> Result<Self, Violation> {
        let octets = types.iter().map(|each| each.domain.len() + each.name.len()).sum();
        within(types.len(), octets)?;
        Ok(Self(List::Own(types)))
    }

    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = TypeInterest<'a>> + use<'a> {
        self.0.iter()
    }

    /// Number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the list is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn read(fields: &mut Fields<'a>) -> Result<Self, Violation> {
        let count = fields.u32("types")? as usize;
        within(count, 0)?;
        let mut octets = 0;
        let check = |TypeInterest { domain, name, .. }: TypeInterest<'_>| {
            octets += domain.len() + name.len();
            within(count, octets)
        };
        List::read(fields, count, check).map(Self)
    }
}

impl<'a> Entry<'a> for TypeInterest<'a> {
    const KIND: Kind = Kind::Interest;

    fn read(fields: &mut Fields<'a>) -> Result<Self, Violation> {
        let distance = fields.u8("distance")?;
        let domain = fields.name("domain", TYPES_BYTES_MAX)?;
        Ok(Self { domain, name: fields.name("name", TYPES_BYTES_MAX)?, distance })
    }
}

const fn within(types: usize, octets: usize) -> Result<(), Violation> {
    if types > TYPES_MAX {
        Err(Violation::TooMany { field: "types", entries: types as u64, limit: TYPES_MAX as u64 })
    } else if octets > TYPES_BYTES_MAX {
        Err(Violation::TooLong { field: "types", octets: octets as u64, limit: TYPES_BYTES_MAX as u64 })
    } else {
        Ok(())
    }
}

/// A list of origins, at most [`ORIGINS_MAX`]: `octets u32 │ service u64, era u64, number u64 …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origins<'a>(pub(super) &'a [[u8; Origin::BYTES]]);

impl<'a> Origins<'a> {
    const BYTES_MAX: usize = ORIGINS_MAX * Origin::BYTES;

    /// Creates a list to be written, of [`Origin::to_bytes`]. `None` if there are more than [`ORIGINS_MAX`].
    #[must_use]
    pub const fn new(origins: &'a [[u8; Origin::BYTES]]) -> Option<Self> {
        if origins.len() > ORIGINS_MAX { None } else { Some(Self(origins)) }
    }

    /// The entries.
    pub fn iter(self) -> impl Iterator<Item = Origin> + use<'a> {
        self.0.iter().map(|origin| Origin::of_bytes(*origin))
    }

    pub(super) fn read(fields: &mut Fields<'a>) -> Result<Self, Violation> {
        let (origins, rest) = fields.name("origins", Self::BYTES_MAX)?.as_chunks();
        if rest.is_empty() { Ok(Self(origins)) } else { Err(Violation::Incomplete(fields.kind, "origins")) }
    }
}
