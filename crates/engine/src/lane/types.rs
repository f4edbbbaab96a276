//! Event types by number: each pair of names that arrives is looked up once, and compared as a number from then on.

use core::hash::BuildHasher;

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::TypeId;

/// The event types a lane has seen.
///
/// At most 65,536 types, with at most 1,024 bytes in each of their names and 16 MiB in all: suppliers choose the names,
/// and must not be able to fill the memory with them. Whatever is beyond is [`TypeId::OTHER`].
#[derive(Debug, Default)]
pub(super) struct Types {
    /// Places in `names`.
    table: HashTable<u32>,
    names: Vec<Names>,
    name_bytes: usize,
    hasher: DefaultHashBuilder,
    /// Types that came lately, by a number made of a few of their names' octets: each at one place, which it may lose to
    /// another.
    recent: [TypeId; Self::RECENT],
}

#[derive(Debug)]
struct Names {
    domain: Box<[u8]>,
    name: Box<[u8]>,
}

impl Types {
    const RECENT: usize = 16;
    const TYPES_MAX: usize = 65_536;
    const NAME_BYTES_MAX: usize = 1_024;
    const ALL_NAMES_BYTES_MAX: usize = 16 << 20;

    /// The number of a type; [`TypeId::OTHER`] if it is new and there is no place for it.
    #[inline]
    pub(super) fn intern(&mut self, domain: &[u8], name: &[u8]) -> TypeId {
        let octets = [name.first(), name.last(), domain.last()].map(|octet| octet.copied().map_or(0, usize::from));
        let place = octets.iter().fold(name.len(), |sum, octet| sum.wrapping_mul(5).wrapping_add(*octet));
        let recent = self.recent.get(place % Self::RECENT).copied().unwrap_or_default();
        if self.names(recent) == Some((domain, name)) {
            return recent;
        }
        let id = self.look_up(domain, name);
        if let Some(kept) = self.recent.get_mut(place % Self::RECENT) {
            *kept = id;
        }
        id
    }

    fn look_up(&mut self, domain: &[u8], name: &[u8]) -> TypeId {
        let Self { table, names, hasher, .. } = self;
        let hash = hasher.hash_one((domain, name));
        let same =
            |at: &u32| names.get(*at as usize).is_some_and(|known| *known.domain == *domain && *known.name == *name);
        if let Some(at) = table.find(hash, same) {
            return TypeId(at + 1);
        }
        let bytes = domain.len() + name.len();
        if names.len() >= Self::TYPES_MAX
            || domain.len().max(name.len()) > Self::NAME_BYTES_MAX
            || self.name_bytes + bytes > Self::ALL_NAMES_BYTES_MAX
        {
            return TypeId::OTHER;
        }
        let at = u32::try_from(names.len()).unwrap_or(u32::MAX);
        names.push(Names { domain: domain.into(), name: name.into() });
        self.name_bytes += bytes;
        let hash_of =
            |at: &u32| names.get(*at as usize).map_or(0, |known| hasher.hash_one((&*known.domain, &*known.name)));
        table.insert_unique(hash, at, hash_of);
        TypeId(at + 1)
    }

    /// The domain and name of an interned type.
    pub(super) fn names(&self, id: TypeId) -> Option<(&[u8], &[u8])> {
        let at = id.0.checked_sub(1)?;
        self.names.get(at as usize).map(|known| (&*known.domain, &*known.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec;

    #[test]
    fn the_same_names_are_the_same_type() {
        let mut types = Types::default();
        let a = types.intern(b"ALMA", b"Temperature");
        assert_eq!(types.intern(b"ALMA", b"Temperature"), a);
        assert_ne!(types.intern(b"ALMAT", b"emperature"), a);
        assert_eq!(types.names(a), Some((&b"ALMA"[..], &b"Temperature"[..])));
        assert_eq!(types.names(TypeId::OTHER), None);
    }

    #[test]
    fn refuses_types_beyond_its_bound_and_still_knows_the_others() {
        let mut types = Types::default();
        let ids: Vec<TypeId> = (0..65_536).map(|n| types.intern(b"d", format!("{n}").as_bytes())).collect();
        assert!(!ids.contains(&TypeId::OTHER));
        assert_eq!(types.intern(b"d", b"one more"), TypeId::OTHER);
        assert_eq!(types.intern(b"d", b"65535"), ids[65_535]);
    }

    #[test]
    fn refuses_names_that_are_too_long() {
        let mut types = Types::default();
        assert_eq!(types.intern(b"d", &vec![b'x'; 1_025]), TypeId::OTHER);
        assert_ne!(types.intern(b"d", &vec![b'x'; 1_024]), TypeId::OTHER);
    }
}
