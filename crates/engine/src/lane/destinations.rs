//! Which outboxes of a channel get events of a type: found once for each type, remembered until routing changes.

use alloc::vec::Vec;
use core::ops::Range;

use hashbrown::HashMap;

use crate::TypeId;

/// A channel's remembered destinations: at most 4,096 types and 262,144 places in their lists together. When there
/// would be more, all are forgotten and found again as they are needed.
#[derive(Debug, Default)]
pub(super) struct Destinations {
    ranges: HashMap<TypeId, (u32, u32)>,
    /// Outboxes' slots, one type's after another's, and behind `kept` those of a type that is not remembered.
    slots: Vec<u32>,
    kept: usize,
}

impl Destinations {
    const TYPES_MAX: usize = 4_096;
    const PLACES_MAX: usize = 262_144;

    /// The remembered list of a type.
    pub(super) fn find(&self, event_type: TypeId) -> Option<Range<usize>> {
        self.ranges.get(&event_type).map(|(start, end)| *start as usize..*end as usize)
    }

    /// Takes a type's list in, and remembers it unless the type has no number of its own. Says where it is, and
    /// whether all others had to be forgotten.
    pub(super) fn learn(&mut self, event_type: TypeId, list: impl Iterator<Item = u32>) -> (Range<usize>, bool) {
        let reset = self.ranges.len() >= Self::TYPES_MAX || self.kept >= Self::PLACES_MAX;
        if reset {
            self.clear();
        }
        self.slots.truncate(self.kept);
        self.slots.extend(list);
        let range = self.kept..self.slots.len();
        if event_type != TypeId::OTHER
            && let (Ok(start), Ok(end)) = (u32::try_from(range.start), u32::try_from(range.end))
        {
            self.ranges.insert(event_type, (start, end));
            self.kept = self.slots.len();
        }
        (range, reset)
    }

    /// The list at a place.
    pub(super) fn list(&self, range: Range<usize>) -> Option<&[u32]> {
        self.slots.get(range)
    }

    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.slots.clear();
        self.kept = 0;
    }

    /// Takes the lists out for a while, so that outboxes can be changed while one is walked.
    pub(super) fn take_slots(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.slots)
    }

    /// Puts the lists back.
    pub(super) fn put_slots(&mut self, slots: Vec<u32>) {
        self.slots = slots;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_each_types_list() {
        let mut destinations = Destinations::default();
        let (a, _) = destinations.learn(TypeId(1), [3, 4].into_iter());
        let (other, _) = destinations.learn(TypeId::OTHER, [9].into_iter());
        assert_eq!(destinations.slots[other], [9]);
        let (b, _) = destinations.learn(TypeId(2), [5].into_iter());
        assert_eq!(destinations.find(TypeId(1)), Some(a.clone()));
        assert_eq!((&destinations.slots[a], &destinations.slots[b]), (&[3, 4][..], &[5][..]));
        assert_eq!(destinations.find(TypeId::OTHER), None);
    }

    #[test]
    fn forgets_all_when_there_are_too_many() {
        let mut destinations = Destinations::default();
        for id in 1..=4_096 {
            assert!(!destinations.learn(TypeId(id), [1].into_iter()).1);
        }
        assert!(destinations.learn(TypeId(5_000), [1].into_iter()).1);
        assert_eq!(destinations.find(TypeId(1)), None);
        assert_eq!(destinations.find(TypeId(5_000)), Some(0..1));
    }
}
