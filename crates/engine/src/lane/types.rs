//! Event types by number: each pair of names is looked up once, and compared as a number from then on.
//!
//! A type has users: the channels that have received its events, the entries of drops, the events that wait for their
//! turn. When the last user is gone, the type is released and its slot reused. Its number includes the slot's
//! generation, and is invalid from then on. The types of a removed channel are released a few at a time, so nothing of
//! this is on the path of an event.

use core::hash::BuildHasher;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::{DefaultHashBuilder, HashSet, HashTable, hash_set};

use crate::TypeId;

/// Number of events of a type that a lane took in from suppliers, of all channels together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeTraffic<'a> {
    /// The type's domain.
    pub domain: &'a [u8],
    /// Its name.
    pub name: &'a [u8],
    /// Number of events since the lane knows the type.
    pub events: u64,
}

/// The event types a lane has seen.
///
/// At most 65,536 types, with at most 1,024 bytes in each of their names and 16 MiB in all: suppliers choose the
/// names, and must not be able to fill the memory with them. Every further type is [`TypeId::OTHER`].
#[derive(Debug, Default)]
pub(super) struct Types {
    /// Indexes into `names`.
    table: HashTable<u32>,
    names: Vec<Names>,
    /// Free slots of `names`.
    free: Vec<u32>,
    /// Types of removed channels, to be released.
    leaving: VecDeque<hash_set::IntoIter<TypeId>>,
    /// Number of released types.
    released: u64,
    name_bytes: usize,
    hasher: DefaultHashBuilder,
    /// Direct-mapped cache of recent types, by a hash of a few octets of their names.
    recent: [TypeId; Self::RECENT],
}

#[derive(Debug)]
struct Names {
    domain: Box<[u8]>,
    name: Box<[u8]>,
    /// Generation of the slot, modulo 32,768.
    generation: u32,
    users: u32,
    /// Number of events taken in from suppliers.
    events: u64,
}

impl Types {
    /// Bits of a number for the slot, counted from 1. The rest is the generation.
    const PLACE_BITS: u32 = 17;
    const GENERATION_MASK: u32 = u32::MAX >> Self::PLACE_BITS;
    const RECENT: usize = 16;
    /// Types released per round.
    const PER_ROUND: usize = 256;
    const TYPES_MAX: usize = 65_536;
    const NAME_BYTES_MAX: usize = 1_024;
    const ALL_NAMES_BYTES_MAX: usize = 16 << 20;

    /// The number of a type; [`TypeId::OTHER`] if it is new and the table is full.
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
        let hash = self.hasher.hash_one((domain, name));
        let names = &self.names;
        let same =
            |at: &u32| names.get(*at as usize).is_some_and(|known| *known.domain == *domain && *known.name == *name);
        if let Some(at) = self.table.find(hash, same) {
            return self.id(*at);
        }
        let Self { table, names, hasher, .. } = self;
        let bytes = domain.len() + name.len();
        if (names.len() >= Self::TYPES_MAX && self.free.is_empty())
            || domain.len().max(name.len()) > Self::NAME_BYTES_MAX
            || self.name_bytes + bytes > Self::ALL_NAMES_BYTES_MAX
        {
            return TypeId::OTHER;
        }
        let (domain, name) = (domain.into(), name.into());
        let at = match self.free.pop() {
            Some(at) => at,
            None => u32::try_from(names.len()).unwrap_or(u32::MAX),
        };
        match names.get_mut(at as usize) {
            Some(place) => (place.domain, place.name) = (domain, name),
            None => names.push(Names { domain, name, generation: 0, users: 0, events: 0 }),
        }
        self.name_bytes += bytes;
        let hash_of =
            |at: &u32| names.get(*at as usize).map_or(0, |known| hasher.hash_one((&*known.domain, &*known.name)));
        table.insert_unique(hash, at, hash_of);
        self.id(at)
    }

    fn id(&self, at: u32) -> TypeId {
        let generation = self.names.get(at as usize).map_or(0, |names| names.generation);
        TypeId(generation << Self::PLACE_BITS | (at + 1))
    }

    /// Slot of a type; `None` if it is released.
    #[inline]
    fn place(&self, id: TypeId) -> Option<u32> {
        let at = (id.0 & !(u32::MAX << Self::PLACE_BITS)).checked_sub(1)?;
        (self.names.get(at as usize)?.generation == id.0 >> Self::PLACE_BITS).then_some(at)
    }

    // ---- users ----

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Number of released types.
    pub(super) fn released_count(&self) -> u64 {
        self.released
    }

    /// Adds a user of a type.
    pub(super) fn hold(&mut self, id: TypeId) {
        if let Some(names) = self.place(id).and_then(|at| self.names.get_mut(at as usize)) {
            names.users += 1;
        }
    }

    /// Ends the use of a type by a queued event whose turn has come: the type has another user now, or will have one soon.
    pub(super) fn pass_on(&mut self, id: TypeId) {
        if let Some(names) = self.place(id).and_then(|at| self.names.get_mut(at as usize)) {
            names.users = names.users.saturating_sub(1);
        }
    }

    /// Removes a user of a type, and the type with the last one.
    pub(super) fn release(&mut self, id: TypeId) {
        self.pass_on(id);
        let Some(at) = self.place(id) else { return };
        let Self { table, names, hasher, .. } = self;
        let Some(gone) = names.get_mut(at as usize).filter(|names| names.users == 0) else { return };
        let hash = hasher.hash_one((&*gone.domain, &*gone.name));
        if let Ok(entry) = table.find_entry(hash, |other| *other == at) {
            entry.remove();
        }
        self.name_bytes -= gone.domain.len() + gone.name.len();
        (gone.domain, gone.name, gone.events) = (Box::default(), Box::default(), 0);
        gone.generation = (gone.generation + 1) & Self::GENERATION_MASK;
        self.free.push(at);
        self.released += 1;
    }

    /// Releases the types of a removed channel, step by step.
    pub(super) fn leave(&mut self, types: HashSet<TypeId>) {
        if !types.is_empty() {
            self.leaving.push_back(types.into_iter());
        }
    }

    /// Whether types of removed channels are still to be released.
    pub(super) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Releases some of the types of removed channels.
    pub(super) fn release_leaving(&mut self) {
        for _ in 0..Self::PER_ROUND {
            let Some(first) = self.leaving.front_mut() else { break };
            match first.next() {
                Some(id) => self.release(id),
                None => _ = self.leaving.pop_front(),
            }
        }
    }

    /// Counts an event of a type that was taken in.
    #[inline]
    pub(super) fn count(&mut self, id: TypeId) {
        if let Some(names) = self.place(id).and_then(|at| self.names.get_mut(at as usize)) {
            names.events += 1;
        }
    }

    /// Types with counted events, in a range of slots; `None` if there are no slots from `first` on.
    pub(super) fn counted_at(&self, first: u32, places: u32) -> Option<impl Iterator<Item = TypeTraffic<'_>>> {
        let from = self.names.get(first as usize..).filter(|rest| !rest.is_empty())?;
        let some = from.iter().take(places as usize).filter(|known| known.events > 0);
        Some(some.map(|known| TypeTraffic { domain: &known.domain, name: &known.name, events: known.events }))
    }

    pub(super) fn names(&self, id: TypeId) -> Option<(&[u8], &[u8])> {
        self.names.get(self.place(id)? as usize).map(|known| (&*known.domain, &*known.name))
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
    fn a_type_goes_with_its_last_user_and_its_number_stands_for_nothing_then() {
        let mut types = Types::default();
        let (a, b) = (types.intern(b"d", b"A"), types.intern(b"d", b"B"));
        for id in [a, a, b] {
            types.hold(id);
        }
        types.release(a);
        assert_eq!(types.names(a), Some((&b"d"[..], &b"A"[..])));
        types.release(a);
        assert_eq!((types.names(a), types.len(), types.released_count()), (None, 1, 1));
        // A user that still has the old number does no harm.
        types.hold(a);
        types.release(a);
        let c = types.intern(b"d", b"C");
        assert_eq!((c.0 & 0x1_FFFF, a.0 & 0x1_FFFF), (1, 1), "the place is used again");
        assert_ne!(c, a);
        assert_eq!((types.names(a), types.names(c)), (None, Some((&b"d"[..], &b"C"[..]))));
        let again = types.intern(b"d", b"A");
        assert!(again != a && types.names(again).is_some() && types.intern(b"d", b"B") == b);
        // An event that has waited for its turn takes nothing along.
        types.hold(c);
        types.pass_on(c);
        assert!(types.names(c).is_some());
    }

    #[test]
    fn events_are_counted_by_type_and_forgotten_with_it() {
        let mut types = Types::default();
        let (a, b) = (types.intern(b"d", b"A"), types.intern(b"d", b"B"));
        types.hold(a);
        [a, b, a, TypeId::OTHER].into_iter().for_each(|id| types.count(id));
        let counted = |types: &Types, first, places| {
            let counted = types.counted_at(first, places)?;
            Some(counted.map(|of| (of.name.to_vec(), of.events)).collect::<Vec<_>>())
        };
        assert_eq!(counted(&types, 0, 8), Some(vec![(b"A".to_vec(), 2), (b"B".to_vec(), 1)]));
        assert_eq!((counted(&types, 1, 1), counted(&types, 2, 8)), (Some(vec![(b"B".to_vec(), 1)]), None));
        types.release(a);
        types.count(a);
        types.intern(b"d", b"C");
        assert_eq!(counted(&types, 0, 1), Some(vec![]), "its place is another's, of which nothing came");
    }

    #[test]
    fn a_full_table_has_room_again_when_channels_are_gone() {
        let mut types = Types::default();
        for round in 0..3 {
            let ids: Vec<TypeId> = (0..65_536).map(|n| types.intern(b"d", format!("{round}/{n}").as_bytes())).collect();
            assert!(!ids.contains(&TypeId::OTHER));
            assert_eq!(types.intern(b"d", b"one more"), TypeId::OTHER);
            ids.iter().for_each(|id| types.hold(*id));
            types.leave(ids.into_iter().collect());
            let mut rounds = 0;
            while types.has_leaving() {
                types.release_leaving();
                rounds += 1;
            }
            assert_eq!((types.len(), types.name_bytes), (0, 0));
            assert!(rounds >= 256, "a little at a time");
        }
    }

    #[test]
    fn refuses_names_that_are_too_long() {
        let mut types = Types::default();
        assert_eq!(types.intern(b"d", &vec![b'x'; 1_025]), TypeId::OTHER);
        assert_ne!(types.intern(b"d", &vec![b'x'; 1_024]), TypeId::OTHER);
    }
}
