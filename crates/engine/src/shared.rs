//! A list of slots that administration changes and snapshots share: a new snapshot takes as much as there are pieces, and
//! a change as much as one piece has slots.

use alloc::sync::Arc;
use alloc::vec::Vec;

const PIECE: usize = 256;

/// Numbered slots, some of which may be empty.
#[derive(Clone, Debug)]
pub(crate) struct SharedSlots<T> {
    pieces: Vec<Arc<Vec<Option<T>>>>,
}

impl<T> Default for SharedSlots<T> {
    fn default() -> Self {
        Self { pieces: Vec::new() }
    }
}

impl<T> SharedSlots<T> {
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        let slot = slot as usize;
        self.pieces.get(slot / PIECE)?.get(slot % PIECE)?.as_ref()
    }

    /// How many slots there may be; those beyond are empty.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len() * PIECE
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// All slots in their order, empty ones included.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&T>> {
        self.pieces.iter().flat_map(|piece| piece.iter().map(Option::as_ref))
    }
}

impl<T: Clone> SharedSlots<T> {
    pub(crate) fn set(&mut self, slot: u32, content: Option<T>) {
        let slot = slot as usize;
        while self.pieces.len() <= slot / PIECE {
            self.pieces.push(Arc::new((0..PIECE).map(|_| None).collect()));
        }
        if let Some(place) =
            self.pieces.get_mut(slot / PIECE).and_then(|piece| Arc::make_mut(piece).get_mut(slot % PIECE))
        {
            *place = content;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_leaves_those_who_share_the_list_as_they_were() {
        let mut slots = SharedSlots::default();
        slots.set(3, Some('a'));
        slots.set(700, Some('b'));
        let before = slots.clone();
        slots.set(3, None);
        slots.set(4, Some('c'));
        assert_eq!([3, 4, 700, 9_999].map(|slot| before.get(slot).copied()), [Some('a'), None, Some('b'), None]);
        assert_eq!([3, 4, 700].map(|slot| slots.get(slot).copied()), [None, Some('c'), Some('b')]);
        assert!(Arc::ptr_eq(&before.pieces[2], &slots.pieces[2]), "only what changed is copied");
        assert_eq!(slots.iter().flatten().count(), 2);
        assert_eq!((slots.len(), SharedSlots::<char>::default().is_empty()), (768, true));
    }
}
