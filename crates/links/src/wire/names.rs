//! Lists of channel names, encoded or to be encoded.

use super::fields::Fields;
use super::list::{Entry, List};
use super::{DIRECTORY_ENTRIES_MAX, Kind, NAME_BYTES_MAX, REFERENCE_BYTES_MAX};
use crate::{DISTANCE_MAX, Violation};

/// A name of a channel: `distance u8 │ service u64 │ name │ reference`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameEntry<'a> {
    /// Number of links between the channel and the sender of the frame, below [`DISTANCE_MAX`]. 0: the sender has the channel itself.
    pub distance: u8,
    /// The service that has the channel, not 0.
    pub service: u64,
    /// The channel's name, 1 to [`NAME_BYTES_MAX`] octets.
    pub name: &'a str,
    /// The channel's reference as text, at most [`REFERENCE_BYTES_MAX`]. Empty: the name is no longer reachable through the sender.
    pub reference: &'a str,
}

impl NameEntry<'_> {
    /// Whether the entry is within a peer's limits. Otherwise it must not be sent.
    #[must_use]
    pub const fn fits(&self) -> bool {
        let Self { distance, service, name, reference } = self;
        *distance < DISTANCE_MAX
            && *service != 0
            && !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && reference.len() <= REFERENCE_BYTES_MAX
    }
}

/// A list of names, at most [`DIRECTORY_ENTRIES_MAX`]: `count u32 │ entry …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameEntries<'a>(List<'a, NameEntry<'a>>);

impl<'a> NameEntries<'a> {
    /// Creates a list to be written. Each of its entries fits ([`NameEntry::fits`]).
    ///
    /// # Errors
    /// When there are more than [`DIRECTORY_ENTRIES_MAX`].
    pub const fn new(entries: &'a [NameEntry<'a>]) -> Result<Self, Violation> {
        match within(entries.len()) {
            Ok(()) => Ok(Self(List::Own(entries))),
            Err(violation) => Err(violation),
        }
    }

    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = NameEntry<'a>> + use<'a> {
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
        let count = fields.u32("names")? as usize;
        within(count)?;
        List::read(fields, count, |_| Ok(())).map(Self)
    }
}

impl<'a> Entry<'a> for NameEntry<'a> {
    const KIND: Kind = Kind::Directory;

    fn read(fields: &mut Fields<'a>) -> Result<Self, Violation> {
        let distance = fields.u8("distance")?;
        if distance >= DISTANCE_MAX {
            return Err(Violation::OutOfRange("distance", distance.into()));
        }
        let service = fields.number("service")?;
        let name = fields.text("name", NAME_BYTES_MAX)?;
        if name.is_empty() {
            return Err(Violation::OutOfRange("name (octets)", 0));
        }
        Ok(Self { distance, service, name, reference: fields.text("reference", REFERENCE_BYTES_MAX)? })
    }
}

const fn within(entries: usize) -> Result<(), Violation> {
    if entries > DIRECTORY_ENTRIES_MAX {
        let limit = DIRECTORY_ENTRIES_MAX as u64;
        return Err(Violation::TooMany { field: "names", entries: entries as u64, limit });
    }
    Ok(())
}
