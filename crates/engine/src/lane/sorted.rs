//! Waiting events that leave in another order than they came, or by themselves: a table of entries, and binary heaps
//! of their places, one for each query. An entry has its position in each heap, so that an event is removed from all
//! of them together.

use alloc::vec::Vec;

use super::queue::{Entry, Policy};
use crate::{DiscardPolicy, OrderPolicy, Time};

/// The heaps, one for each query about waiting events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heap {
    /// The next to be delivered, of events past their start time.
    Order,
    /// The next start time, of events before it.
    Start,
    /// The next to be discarded, of all events.
    Discard,
    /// The next to expire, of events that do.
    Expiry,
    /// The longest-waiting, of events past their start time; only maintained where it matters and is not the order anyway.
    Age,
}

impl Heap {
    const COUNT: usize = 5;
    const ALL: [Self; Self::COUNT] = [Self::Order, Self::Start, Self::Discard, Self::Expiry, Self::Age];
}

const ABSENT: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Sorted {
    policy: Policy,
    len: usize,
    places: Vec<Place>,
    free: Vec<u32>,
    heaps: [Vec<u32>; Heap::COUNT],
}

#[derive(Debug)]
struct Place {
    entry: Option<Entry>,
    serial: u64,
    /// Its position in each heap; `ABSENT` where it is in none.
    at: [u32; Heap::COUNT],
}

// Room is made by a quarter, a free place is noted, and an event is in at most four heaps, with lists that double.
const _: () = assert!((size_of::<Place>() as u64 + 4) * 5 / 4 + 4 * 2 * 4 <= crate::SORTED_OVERHEAD_BYTES);

impl Sorted {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn count(&self, heap: Heap) -> usize {
        self.heap(heap).len()
    }

    pub(super) fn insert(&mut self, entry: Entry, serial: u64, now: Time) {
        let delayed = entry.since > now;
        let expires = entry.expiry != Entry::NEVER;
        let place = Place { entry: Some(entry), serial, at: [ABSENT; Heap::COUNT] };
        let at = self.place(place);
        self.len += 1;
        if delayed {
            self.add(Heap::Start, at);
        } else {
            self.make_ready(at);
        }
        self.add(Heap::Discard, at);
        if expires {
            self.add(Heap::Expiry, at);
        }
    }

    pub(super) fn first(&self, heap: Heap) -> Option<&Entry> {
        self.places.get(*self.heap(heap).first()? as usize)?.entry.as_ref()
    }

    pub(super) fn pop(&mut self, heap: Heap) -> Option<Entry> {
        let at = *self.heap(heap).first()?;
        for heap in Heap::ALL {
            self.remove(heap, at);
        }
        let entry = self.places.get_mut(at as usize)?.entry.take();
        self.free.push(at);
        self.len -= 1;
        entry
    }

    /// Starts the event with the next start time, if that has come. Returns whether it had.
    pub(super) fn start(&mut self, now: Time) -> bool {
        let Some(at) = self.heap(Heap::Start).first().copied() else { return false };
        let has_come = self.first(Heap::Start).is_some_and(|entry| entry.since <= now);
        if has_come {
            self.remove(Heap::Start, at);
            self.make_ready(at);
        }
        has_come
    }

    /// Rebuilds all heaps by a new policy.
    pub(super) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
        for heap in [Heap::Order, Heap::Discard, Heap::Age] {
            if let Some(list) = self.heaps.get_mut(heap as usize) {
                list.clear();
            }
        }
        for at in 0..u32::try_from(self.places.len()).unwrap_or(ABSENT) {
            let Some(place) = self.places.get_mut(at as usize).filter(|place| place.entry.is_some()) else { continue };
            let [_, start, _, expiry, _] = place.at;
            place.at = [ABSENT, start, ABSENT, expiry, ABSENT];
            if start == ABSENT {
                self.make_ready(at);
            }
            self.add(Heap::Discard, at);
        }
    }

    /// Shrinks an empty table to this many places.
    pub(super) fn shrink_to(&mut self, places: usize) {
        if self.len == 0 && self.places.capacity() > places {
            self.places.clear();
            self.places.shrink_to(places);
            self.free.clear();
            self.free.shrink_to(places);
            self.heaps.iter_mut().for_each(|heap| heap.shrink_to(places));
        }
    }

    /// Serial of the first entry of a heap.
    pub(super) fn first_serial(&self, heap: Heap) -> Option<u64> {
        Some(self.places.get(*self.heap(heap).first()? as usize)?.serial)
    }

    /// Whether an event that is not in a heap would be its first.
    pub(super) fn would_be_first(&self, heap: Heap, entry: &Entry, serial: u64) -> bool {
        let first = self.first(heap).zip(self.first_serial(heap));
        first.is_none_or(|(first, of)| self.rank(heap, entry, serial) < self.rank(heap, first, of))
    }

    // ---- places ----

    fn place(&mut self, place: Place) -> u32 {
        if let Some(at) = self.free.pop() {
            if let Some(old) = self.places.get_mut(at as usize) {
                *old = place;
            }
            return at;
        }
        if self.places.len() == self.places.capacity() {
            // By a quarter, not twofold: what is charged for a place has to cover the unused ones too. And whatever
            // leaves must find room to be noted as free.
            self.places.reserve_exact((self.places.len() / 4).max(8));
            self.free.reserve_exact(self.places.capacity());
        }
        self.places.push(place);
        u32::try_from(self.places.len() - 1).unwrap_or(ABSENT)
    }

    fn make_ready(&mut self, at: u32) {
        self.add(Heap::Order, at);
        if self.policy.ages() {
            self.add(Heap::Age, at);
        }
    }

    /// Sort key in a heap, the least first.
    fn rank(&self, heap: Heap, entry: &Entry, serial: u64) -> [u64; 3] {
        let since = entry.since.0;
        let expiry = entry.expiry.0;
        let importance = u64::from(entry.priority.abs_diff(i16::MIN));
        match heap {
            Heap::Order => match self.policy.order {
                OrderPolicy::Any | OrderPolicy::Fifo => [since, serial, 0],
                OrderPolicy::Priority => [u64::MAX - importance, since, serial],
                OrderPolicy::Deadline => [expiry, since, serial],
            },
            Heap::Discard => match self.policy.discard {
                DiscardPolicy::Any | DiscardPolicy::Fifo => [serial, 0, 0],
                DiscardPolicy::Lifo => [u64::MAX - serial, 0, 0],
                DiscardPolicy::Priority => [importance, serial, 0],
                DiscardPolicy::Deadline => [expiry, serial, 0],
            },
            Heap::Expiry => [expiry, serial, 0],
            Heap::Start | Heap::Age => [since, serial, 0],
        }
    }

    // ---- heaps ----

    fn heap(&self, heap: Heap) -> &[u32] {
        self.heaps.get(heap as usize).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, heap: Heap, at: u32) {
        let Some(list) = self.heaps.get_mut(heap as usize) else { return };
        list.push(at);
        let last = list.len() - 1;
        self.rise(heap, last);
    }

    fn remove(&mut self, heap: Heap, at: u32) {
        let Some(position) = self.position(heap, at) else { return };
        let Some(list) = self.heaps.get_mut(heap as usize) else { return };
        list.swap_remove(position);
        self.note(heap, at, ABSENT);
        if position < self.heap(heap).len() {
            let risen = self.rise(heap, position);
            self.sink(heap, risen);
        }
    }

    /// Moves an entry up the heap. Returns its final position.
    fn rise(&mut self, heap: Heap, mut position: usize) -> usize {
        while position > 0 {
            let parent = (position - 1) / 2;
            if !self.is_before(heap, position, parent) {
                break;
            }
            self.swap(heap, position, parent);
            position = parent;
        }
        self.note_position(heap, position);
        position
    }

    fn sink(&mut self, heap: Heap, mut position: usize) {
        loop {
            let mut least = position;
            for child in [2 * position + 1, 2 * position + 2] {
                if child < self.heap(heap).len() && self.is_before(heap, child, least) {
                    least = child;
                }
            }
            if least == position {
                return self.note_position(heap, position);
            }
            self.swap(heap, position, least);
            position = least;
        }
    }

    fn is_before(&self, heap: Heap, one: usize, other: usize) -> bool {
        let rank = |position: usize| {
            let place = self.places.get(*self.heap(heap).get(position)? as usize)?;
            Some(self.rank(heap, place.entry.as_ref()?, place.serial))
        };
        rank(one) < rank(other)
    }

    fn swap(&mut self, heap: Heap, one: usize, other: usize) {
        if let Some(list) = self.heaps.get_mut(heap as usize) {
            list.swap(one, other);
        }
        self.note_position(heap, one);
        self.note_position(heap, other);
    }

    fn position(&self, heap: Heap, at: u32) -> Option<usize> {
        let position = *self.places.get(at as usize)?.at.get(heap as usize)?;
        if position == ABSENT { None } else { Some(position as usize) }
    }

    fn note_position(&mut self, heap: Heap, position: usize) {
        if let Some(at) = self.heap(heap).get(position).copied() {
            self.note(heap, at, u32::try_from(position).unwrap_or(ABSENT));
        }
    }

    fn note(&mut self, heap: Heap, at: u32, position: u32) {
        if let Some(place) = self.places.get_mut(at as usize)
            && let Some(noted) = place.at.get_mut(heap as usize)
        {
            *noted = position;
        }
    }
}
