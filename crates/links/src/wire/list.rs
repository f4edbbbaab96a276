//! Lists of entries, encoded or to be encoded.

use core::fmt;

use super::Kind;
use super::fields::Fields;
use crate::Violation;

/// A type of list entry.
pub(super) trait Entry<'a>: Copy {
    /// The kind of frame that contains such lists.
    const KIND: Kind;

    fn read(fields: &mut Fields<'a>) -> Result<Self, Violation>;
}

#[derive(Clone, Copy)]
pub(super) enum List<'a, E> {
    /// A list to be written.
    Own(&'a [E]),
    /// Encoded entries, validated once.
    Read { count: usize, entries: &'a [u8] },
}

impl<'a, E: Entry<'a>> List<'a, E> {
    /// Reads `count` entries and validates each with `check`.
    pub(super) fn read(
        fields: &mut Fields<'a>,
        count: usize,
        mut check: impl FnMut(E) -> Result<(), Violation>,
    ) -> Result<Self, Violation> {
        let entries = fields.rest;
        for _ in 0..count {
            check(E::read(fields)?)?;
        }
        let entries = entries.get(..entries.len() - fields.rest.len()).unwrap_or_default();
        Ok(Self::Read { count, entries })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = E> + use<'a, E> {
        let (own, encoded): (&[_], &[_]) = match *self {
            Self::Own(entries) => (entries, &[]),
            Self::Read { entries, .. } => (&[], entries),
        };
        let mut fields = Fields { kind: E::KIND, rest: encoded };
        own.iter().copied().chain(core::iter::from_fn(move || E::read(&mut fields).ok()))
    }
}

impl<E> List<'_, E> {
    pub(super) const fn len(&self) -> usize {
        match self {
            Self::Own(entries) => entries.len(),
            Self::Read { count, .. } => *count,
        }
    }
}

impl<'a, E: Entry<'a> + PartialEq> PartialEq for List<'a, E> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, E: Entry<'a> + Eq> Eq for List<'a, E> {}

impl<'a, E: Entry<'a> + fmt::Debug> fmt::Debug for List<'a, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
