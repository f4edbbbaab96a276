//! A table by slot: dense numbers that are reused, each time with a new generation.

use alloc::vec::Vec;

/// A table of `T` by slot.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    content: Option<T>,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// Inserts what `make` returns for its slot and generation. Returns the slot.
    pub(super) fn insert(&mut self, make: impl FnOnce(u32, u32) -> T) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, content: None });
            // Hierarchy's limits keep the number of outboxes and channels far below 2^32.
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(place) = self.places.get_mut(slot as usize) {
            place.content = Some(make(slot, place.generation));
        }
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<T> {
        let place = self.places.get_mut(slot as usize)?;
        let content = place.content.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot);
        Some(content)
    }

    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        self.places.get(slot as usize)?.content.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.places.get_mut(slot as usize)?.content.as_mut()
    }

    /// Content of a slot if its generation is this one.
    pub(super) fn get_exact(&mut self, slot: u32, generation: u32) -> Option<&mut T> {
        let place = self.places.get_mut(slot as usize)?;
        if place.generation == generation { place.content.as_mut() } else { None }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.content.as_ref())
    }

    /// Number of slots, empty ones included.
    pub(super) fn places(&self) -> u32 {
        u32::try_from(self.places.len()).unwrap_or(u32::MAX)
    }

    /// Contents of `slots` slots from `first` on. `None` if there are no slots from there on.
    pub(super) fn range(&self, first: u32, slots: u32) -> Option<impl Iterator<Item = &T>> {
        let places = self.places.get(first as usize..).filter(|places| !places.is_empty())?;
        Some(places.iter().take(slots as usize).filter_map(|place| place.content.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_with_a_new_generation() {
        let mut slab = Slab::new();
        let first = slab.insert(|_, generation| generation);
        assert_eq!(slab.remove(first), Some(0));
        assert_eq!(slab.insert(|_, generation| generation), first);
        assert_eq!(slab.get_exact(first, 1), Some(&mut 1));
        assert_eq!(slab.get_exact(first, 0), None);
        assert_eq!(slab.remove(7), None);
    }
}
