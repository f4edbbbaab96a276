//! Lists and maps that administration changes and snapshots share. A new snapshot costs as much as there are chunks, a
//! change as much as one chunk has entries.
//!
//! Unchanged chunks and entries are shared by both, so that the holder of an old snapshot finds the changes by
//! comparing one pointer for each chunk.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::ProxyId;

/// Numbered slots, some of which may be empty, in chunks of `CHUNK` slots.
#[derive(Clone, Debug)]
pub(crate) struct SharedSlots<T, const CHUNK: usize = 256> {
    chunks: Vec<Arc<Vec<Option<T>>>>,
}

impl<T, const CHUNK: usize> Default for SharedSlots<T, CHUNK> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T, const CHUNK: usize> SharedSlots<T, CHUNK> {
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        let slot = slot as usize;
        self.chunks.get(slot / CHUNK)?.get(slot % CHUNK)?.as_ref()
    }

    /// Number of slots; those beyond are empty.
    pub(crate) fn len(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Releases the last chunk. Returns whether this was its last holder; `None` if no chunk is left.
    pub(crate) fn release(&mut self) -> Option<bool> {
        self.chunks.pop().map(|chunk| Arc::strong_count(&chunk) == 1)
    }

    /// All slots in order, empty ones included.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&T>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().map(Option::as_ref))
    }
}

impl<T: Clone, const CHUNK: usize> SharedSlots<T, CHUNK> {
    pub(crate) fn set(&mut self, slot: u32, content: Option<T>) {
        let slot = slot as usize;
        while self.chunks.len() <= slot / CHUNK {
            self.chunks.push(Arc::new((0..CHUNK).map(|_| None).collect()));
        }
        if let Some(place) =
            self.chunks.get_mut(slot / CHUNK).and_then(|chunk| Arc::make_mut(chunk).get_mut(slot % CHUNK))
        {
            *place = content;
        }
    }
}

impl<T: ?Sized, const CHUNK: usize> SharedSlots<Arc<T>, CHUNK> {
    /// Slots that differ from `before`, each with the old and the new contents.
    pub(crate) fn changes_from<'s>(
        &'s self,
        before: &'s Self,
    ) -> impl Iterator<Item = (u32, Option<&'s Arc<T>>, Option<&'s Arc<T>>)> {
        let chunks =
            (0..self.chunks.len().max(before.chunks.len())).map(|at| (at, before.chunks.get(at), self.chunks.get(at)));
        let changed = chunks.filter(|(_, before, now)| match (before, now) {
            (Some(before), Some(now)) => !Arc::ptr_eq(before, now),
            _ => true,
        });
        changed.flat_map(|(chunk, before, now)| {
            let content = |of: Option<&'s Arc<Vec<Option<Arc<T>>>>>, at: usize| of?.get(at)?.as_ref();
            let both = (0..CHUNK).map(move |at| (at, content(before, at), content(now, at)));
            both.filter(|(_, before, now)| match (before, now) {
                (Some(before), Some(now)) => !Arc::ptr_eq(before, now),
                (None, None) => false,
                _ => true,
            })
            // The limits on what is in slots keep all numbers below 2^32.
            .map(move |(at, before, now)| (u32::try_from(chunk * CHUNK + at).unwrap_or(u32::MAX), before, now))
        })
    }
}

/// Map from proxies to values.
#[derive(Clone, Debug)]
pub(crate) struct SharedMap<T> {
    /// Chunks by the proxy's id modulo their number, which is a power of two.
    chunks: Vec<Arc<HashMap<ProxyId, T>>>,
    len: usize,
}

impl<T> Default for SharedMap<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T> SharedMap<T> {
    const CHUNK: usize = 64;

    #[inline]
    pub(crate) fn get(&self, proxy: ProxyId) -> Option<&T> {
        self.chunks.get(self.chunk_of(proxy))?.get(&proxy)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Releases a chunk, when no lookup will follow. Returns whether this was its last holder; `None` if no chunk is left.
    pub(crate) fn release(&mut self) -> Option<bool> {
        self.chunks.pop().map(|chunk| Arc::strong_count(&chunk) == 1)
    }

    /// All entries, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ProxyId, &T)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().map(|(proxy, content)| (*proxy, content)))
    }

    /// Chunks not shared with `other`: all of them if the number of chunks differs.
    fn chunks_other_than<'m, 'o>(
        &'m self,
        other: &'o Self,
    ) -> impl Iterator<Item = &'m HashMap<ProxyId, T>> + use<'m, 'o, T> {
        let same_number = other.chunks.len() == self.chunks.len();
        let chunks = self.chunks.iter().enumerate();
        let is_other = move |at: usize, chunk: &Arc<_>| {
            !same_number || other.chunks.get(at).is_none_or(|other| !Arc::ptr_eq(other, chunk))
        };
        chunks.filter(move |(at, chunk)| is_other(*at, chunk)).map(|(_, chunk)| &**chunk)
    }

    #[inline]
    fn chunk_of(&self, proxy: ProxyId) -> usize {
        proxy.0 as usize & self.chunks.len().wrapping_sub(1)
    }
}

impl<T: ?Sized> SharedMap<Arc<T>> {
    /// Proxies that differ from `before`, each with its new value. Only chunks that are not shared are compared.
    pub(crate) fn changes_from(&self, before: &Self) -> Vec<(ProxyId, Option<&Arc<T>>)> {
        let now = self.chunks_other_than(before).flat_map(|chunk| chunk.iter());
        let now = now.filter(|(proxy, now)| before.get(**proxy).is_none_or(|before| !Arc::ptr_eq(before, now)));
        let gone = before.chunks_other_than(self).flat_map(|chunk| chunk.keys());
        let gone = gone.filter(|proxy| self.get(**proxy).is_none());
        now.map(|(proxy, now)| (*proxy, Some(now))).chain(gone.map(|proxy| (*proxy, None))).collect()
    }
}

impl<T: Clone> SharedMap<T> {
    pub(crate) fn insert(&mut self, proxy: ProxyId, content: T) {
        if self.len >= self.chunks.len() * Self::CHUNK {
            self.spread();
        }
        let at = self.chunk_of(proxy);
        if let Some(chunk) = self.chunks.get_mut(at) {
            let replaced = Arc::make_mut(chunk).insert(proxy, content);
            self.len += usize::from(replaced.is_none());
        }
    }

    pub(crate) fn remove(&mut self, proxy: ProxyId) {
        let at = self.chunk_of(proxy);
        if let Some(chunk) = self.chunks.get_mut(at).filter(|chunk| chunk.contains_key(&proxy)) {
            Arc::make_mut(chunk).remove(&proxy);
            self.len -= 1;
        }
    }

    /// Doubles the number of chunks.
    fn spread(&mut self) {
        let mut chunks: Vec<HashMap<ProxyId, T>> = Vec::new();
        chunks.resize_with((2 * self.chunks.len()).max(1), HashMap::new);
        let mask = chunks.len() - 1;
        for (proxy, content) in self.iter() {
            if let Some(chunk) = chunks.get_mut(proxy.0 as usize & mask) {
                chunk.insert(proxy, content.clone());
            }
        }
        self.chunks = chunks.into_iter().map(Arc::new).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_leaves_those_that_share_the_list_as_they_were() {
        let mut slots: SharedSlots<char> = SharedSlots::default();
        slots.set(3, Some('a'));
        slots.set(700, Some('b'));
        let before = slots.clone();
        slots.set(3, None);
        slots.set(4, Some('c'));
        assert_eq!([3, 4, 700, 9_999].map(|slot| before.get(slot).copied()), [Some('a'), None, Some('b'), None]);
        assert_eq!([3, 4, 700].map(|slot| slots.get(slot).copied()), [None, Some('c'), Some('b')]);
        assert!(Arc::ptr_eq(&before.chunks[2], &slots.chunks[2]), "only what changed is copied");
        assert_eq!(slots.iter().flatten().count(), 2);
        assert_eq!((slots.len(), SharedSlots::<char>::default().is_empty()), (768, true));
    }

    #[test]
    fn what_changed_is_found_slot_by_slot() {
        let mut slots: SharedSlots<Arc<u32>, 4> = SharedSlots::default();
        (0..10).for_each(|slot| slots.set(slot, Some(Arc::new(slot))));
        let before = slots.clone();
        assert_eq!(slots.changes_from(&before).count(), 0);
        slots.set(2, None);
        slots.set(9, Some(Arc::new(90)));
        slots.set(20, Some(Arc::new(200)));
        let kept = slots.get(5).cloned();
        slots.set(5, kept);
        let number = |content: Option<&Arc<u32>>| content.map(|content| **content);
        let changes = slots.changes_from(&before).map(|(slot, before, now)| (slot, number(before), number(now)));
        let expected = [(2, Some(2), None), (9, Some(9), Some(90)), (20, None, Some(200))];
        assert!(changes.eq(expected));
        assert!(before.changes_from(&slots).map(|(slot, ..)| slot).eq([2, 9, 20]));
    }

    #[test]
    fn what_changed_is_found_in_a_map_however_many_pieces_it_has() {
        for count in [100, 1_000] {
            let mut map = SharedMap::default();
            (0..100).for_each(|id| map.insert(ProxyId(id), Arc::new(id)));
            let before = map.clone();
            assert!(map.changes_from(&before).is_empty());
            (100..count).for_each(|id| map.insert(ProxyId(id), Arc::new(id)));
            map.insert(ProxyId(5), Arc::new(50));
            map.remove(ProxyId(6));
            let mut changes: Vec<(u32, Option<u32>)> =
                map.changes_from(&before).into_iter().map(|(proxy, now)| (proxy.0, now.map(|now| **now))).collect();
            changes.sort_unstable();
            let expected = [(5, Some(50)), (6, None)].into_iter().chain((100..count).map(|id| (id, Some(id))));
            assert!(changes.into_iter().eq(expected), "{count}");
        }
    }

    #[test]
    fn a_map_leaves_those_that_share_it_as_they_were() {
        let mut map = SharedMap::default();
        (0..1_000).for_each(|id| map.insert(ProxyId(id), id));
        let before = map.clone();
        map.insert(ProxyId(7), 70);
        map.remove(ProxyId(500));
        map.remove(ProxyId(5_000));
        assert_eq!((map.len(), before.len()), (999, 1_000));
        assert_eq!([7, 500, 999].map(|id| map.get(ProxyId(id)).copied()), [Some(70), None, Some(999)]);
        assert_eq!([7, 500, 999].map(|id| before.get(ProxyId(id)).copied()), [Some(7), Some(500), Some(999)]);
        let shared = map.chunks.iter().zip(&before.chunks).filter(|(now, before)| Arc::ptr_eq(now, before));
        assert_eq!(shared.count(), map.chunks.len() - 2);
        assert_eq!((before.iter().count(), SharedMap::<u32>::default().get(ProxyId(0))), (1_000, None));
    }
}
