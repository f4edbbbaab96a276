//! The state of one consumer's correlation: the events that wait for others, and the sets that they complete.

use super::{Correlation, Key, Terms};
use crate::constraint::Steps;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Events that wait for others, by what they are correlated by, in bounded memory: [`EVENT_BYTES`](Self::EVENT_BYTES) for each of the most
/// that have waited at once. Nothing is allocated while no more wait than did before.
///
/// `H` is the caller's handle of an event. Each handle handed in is returned once: in a [`CompleteSet`], by
/// [`poll_dropped`](Self::poll_dropped), by [`displace_oldest`](Self::displace_oldest) or by [`displace`](Self::displace); or at once, by
/// [`Offered::Unmatched`] or [`Offered::WithoutKey`], and then the matcher does not have it.
///
/// # The rule that drives it
///
/// After [`offer`](Self::offer) or [`expire`](Self::expire), call [`poll_dropped`](Self::poll_dropped) until it returns `None`; call
/// [`expire`](Self::expire) at [`next_expiry_ns`](Self::next_expiry_ns). A late call changes no set.
///
/// # What it costs
///
/// An event costs a look at the alternatives. Where all terms of one have a candidate, it costs a walk over the waiting events of its key,
/// from the oldest one on until the set is complete. Each look takes a step of the event's [`Steps`]; without steps the search ends
/// ([`Offered::Cut`]). No call drops more than [`DROPPED_PER_OFFER`](Self::DROPPED_PER_OFFER) events, or as many as it is told.
#[derive(Debug)]
pub struct Matcher<H> {
    alternatives: Box<[Terms]>,
    /// All terms of all alternatives.
    all_terms: Terms,
    within_ns: Option<u64>,
    /// Latest time handed in.
    now_ns: u64,
    waiting: Waiting<H>,
    keys: Keys,
    /// The last complete set.
    set: Vec<H>,
    dropped: VecDeque<(H, Dropped)>,
    counters: CorrelationCounters,
}

/// Result of handing an event in.
#[derive(Debug, PartialEq, Eq)]
pub enum Offered<'m, H> {
    /// It completes a set, to which it belongs.
    Complete(CompleteSet<'m, H>),
    /// It waits for others.
    Waits,
    /// It waits for others. The steps were spent before the search ended, so that there may be a set, which a later event completes.
    Cut,
    /// It matches no term.
    Unmatched(H),
    /// It has no value to be correlated by.
    WithoutKey(H),
}

/// A complete set.
#[derive(Debug, PartialEq, Eq)]
pub struct CompleteSet<'m, H> {
    /// The set's number, from 1 in steps of 1.
    pub number: u64,
    /// The events, in the order in which they were handed in.
    pub events: &'m [H],
}

/// Reason why an event is dropped that waited for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// Longer than `within` has passed.
    Expired,
    /// It was the oldest one when a further event had to wait and as many waited as are kept (`keep`).
    Displaced,
}

/// Counters of a correlation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CorrelationCounters {
    /// Complete sets.
    pub sets: u64,
    /// Events in complete sets.
    pub events_in_sets: u64,
    /// Events that found no others within the time.
    pub expired: u64,
    /// Events that others displaced before they found any.
    pub displaced: u64,
    /// Events that matched no term.
    pub unmatched: u64,
    /// Events without a value to be correlated by.
    pub without_key: u64,
    /// Events that wait since the steps were spent.
    pub cut: u64,
}

/// The steps were spent.
struct Spent;

impl<H> Matcher<H> {
    /// Most memory for each event of [`Correlation::keep`], in octets, if `H` takes no more than 24.
    pub const EVENT_BYTES: u64 = 300;

    /// Most events that have waited for too long and are dropped by [`offer`](Self::offer). Those beyond are in no set either.
    pub const DROPPED_PER_OFFER: usize = 16;
}

impl<H: Copy> Matcher<H> {
    /// A matcher without events.
    #[must_use]
    pub fn new(correlation: &Correlation) -> Self {
        let keep = correlation.keep();
        Self {
            alternatives: correlation.alternatives().into(),
            all_terms: correlation.alternatives().iter().fold(Terms::NONE, |all, terms| all.or(*terms)),
            within_ns: correlation.within_ns(),
            now_ns: 0,
            waiting: Waiting::new(keep),
            keys: Keys::default(),
            set: Vec::with_capacity(Assignment::TERMS),
            dropped: VecDeque::new(),
            counters: CorrelationCounters::default(),
        }
    }

    /// Hands in an event that matches these terms and has this key, at a time in nanoseconds from any beginning. A time before the latest
    /// one counts as the latest.
    pub fn offer(
        &mut self,
        terms: Terms,
        key: Option<&Key>,
        at_ns: u64,
        event: H,
        steps: &mut Steps,
    ) -> Offered<'_, H> {
        self.expire(at_ns, Self::DROPPED_PER_OFFER);
        let terms = terms.and(self.all_terms);
        if terms.is_empty() {
            self.counters.unmatched += 1;
            return Offered::Unmatched(event);
        }
        let Some(key) = key else {
            self.counters.without_key += 1;
            return Offered::WithoutKey(event);
        };
        let found = match self.keys.find(key, steps) {
            Some(place) => self.complete(place, terms, steps),
            None => Ok(None),
        };
        if let Ok(Some(chosen)) = &found {
            return self.deliver(chosen, event);
        }
        if self.alternatives.iter().any(|alternative| alternative.len() == 1 && !alternative.and(terms).is_empty()) {
            return self.deliver(&Assignment::default(), event);
        }
        self.wait(terms, key, event);
        if found.is_err() {
            self.counters.cut += 1;
            return Offered::Cut;
        }
        Offered::Waits
    }

    /// Drops events that have waited for longer than `within`, `most` at most. Returns their number.
    pub fn expire(&mut self, now_ns: u64, most: usize) -> usize {
        self.now_ns = self.now_ns.max(now_ns);
        let mut dropped = 0;
        while dropped < most && self.next_expiry_ns().is_some_and(|expiry| expiry <= self.now_ns) {
            self.drop_oldest();
            dropped += 1;
        }
        dropped
    }

    /// The next event that was dropped, in the order in which they were.
    pub fn poll_dropped(&mut self) -> Option<(H, Dropped)> {
        self.dropped.pop_front()
    }

    /// Removes the event that has waited longest, as if a further event had displaced it.
    pub fn displace_oldest(&mut self) -> Option<H> {
        let event = self.take(self.waiting.oldest)?;
        self.counters.displaced += 1;
        Some(event)
    }

    /// Removes the first event for which `goes` is true, as if a further event had displaced it. It looks at the event that has waited
    /// longest, and then goes on where the last look ended; each look lowers `looks`, and it ends at 0.
    pub fn displace(&mut self, looks: &mut u32, mut goes: impl FnMut(&H) -> bool) -> Option<H> {
        let (oldest, resume) = (self.waiting.oldest, core::mem::replace(&mut self.waiting.look, NONE));
        let mut slot = oldest;
        while let Some(waiting) = self.waiting.get(slot) {
            if *looks == 0 {
                self.waiting.look = slot;
                return None;
            }
            *looks -= 1;
            if goes(&waiting.event) {
                self.waiting.look = if slot == oldest { resume } else { waiting.after };
                self.counters.displaced += 1;
                return self.take(slot);
            }
            slot = if slot == oldest && resume != NONE && resume != oldest { resume } else { waiting.after };
        }
        None
    }

    /// The time at which the next waiting event is dropped, in nanoseconds.
    #[must_use]
    pub fn next_expiry_ns(&self) -> Option<u64> {
        let oldest = self.waiting.get(self.waiting.oldest)?;
        Some(oldest.at_ns.saturating_add(self.within_ns?).saturating_add(1))
    }

    /// Number of events that wait for others.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len
    }

    /// Number of different values by which waiting events are correlated.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.len
    }

    /// Counters since the matcher was made.
    #[must_use]
    pub fn counters(&self) -> &CorrelationCounters {
        &self.counters
    }

    // ---- sets ----

    /// The waiting events that an event with these terms completes a set with, if there are.
    fn complete(&self, place: u32, terms: Terms, steps: &mut Steps) -> Result<Option<Assignment>, Spent> {
        let Some(key) = self.keys.get(place) else { return Ok(None) };
        let of_key = terms.or(key.terms());
        for alternative in &self.alternatives {
            if !steps.take(1) {
                return Err(Spent);
            }
            let is_covered = !alternative.and(terms).is_empty() && alternative.without(of_key).is_empty();
            if is_covered && let Some(chosen) = self.choose(key.oldest, *alternative, terms, steps)? {
                return Ok(Some(chosen));
            }
        }
        Ok(None)
    }

    /// The oldest waiting events of a key that fill an alternative together with an event of these terms.
    ///
    /// Events that can have different terms each are the independent sets of a matroid, so that taking each event that still fits, from
    /// the oldest on, ends with the set whose events are the oldest, and fills the alternative if any set does.
    ///
    /// The terms that were tried for an event that did not fit are *tight*: as many events have them as there are, and can have no others.
    /// An event of tight terms only does not fit later either, so that at most as many events are tried in vain as there are terms.
    fn choose(
        &self,
        oldest: u32,
        alternative: Terms,
        terms: Terms,
        steps: &mut Steps,
    ) -> Result<Option<Assignment>, Spent> {
        let mut chosen = Assignment::default();
        let mut tight = Terms::NONE;
        if chosen.add(terms.and(alternative), NONE, &mut tight).is_err() {
            return Ok(None);
        }
        let mut slot = oldest;
        while chosen.len < alternative.len() {
            let Some(waiting) = self.waiting.get(slot) else { return Ok(None) };
            if !steps.take(1) {
                return Err(Spent);
            }
            let fitting = waiting.terms.and(alternative);
            if !fitting.without(tight).is_empty() && !self.is_over(waiting) {
                let (Ok(tried) | Err(tried)) = chosen.add(fitting, slot, &mut tight);
                if !steps.take(tried) {
                    return Err(Spent);
                }
            }
            slot = waiting.after_in_key;
        }
        Ok(Some(chosen))
    }

    /// Whether an event has waited for longer than `within`.
    fn is_over(&self, waiting: &Slot<H>) -> bool {
        self.within_ns.is_some_and(|within| self.now_ns - waiting.at_ns > within)
    }

    /// Takes the chosen events out, and returns them with the event that completes them.
    fn deliver(&mut self, chosen: &Assignment, event: H) -> Offered<'_, H> {
        self.set.clear();
        for slot in chosen.slots() {
            if let Some(waiting) = self.take(slot) {
                self.set.push(waiting);
            }
        }
        self.set.push(event);
        self.counters.sets += 1;
        self.counters.events_in_sets += self.set.len() as u64;
        Offered::Complete(CompleteSet { number: self.counters.sets, events: &self.set })
    }

    // ---- waiting events ----

    fn wait(&mut self, terms: Terms, key: &Key, event: H) {
        if self.waiting.is_full() {
            self.drop_oldest();
        }
        let keep = self.waiting.keep as usize;
        let Some(place) = self.keys.find_or_insert(key, keep) else { return };
        let slot = self.waiting.push_back(event, terms, place, self.now_ns);
        // All of them can be dropped at once.
        let places = self.waiting.slots.capacity();
        if self.dropped.capacity() < places {
            self.dropped.reserve_exact(places - self.dropped.len());
        }
        let Some(of_key) = self.keys.get_mut(place) else { return };
        let newest = core::mem::replace(&mut of_key.newest, slot);
        of_key.count(terms, 1);
        if newest == NONE {
            of_key.oldest = slot;
        } else if let Some(before) = self.waiting.get_mut(newest) {
            before.after_in_key = slot;
        }
        if let Some(waiting) = self.waiting.get_mut(slot) {
            waiting.before_in_key = newest;
        }
    }

    /// Drops the event that has waited longest.
    fn drop_oldest(&mut self) {
        let is_over = self.waiting.get(self.waiting.oldest).is_some_and(|oldest| self.is_over(oldest));
        let Some(event) = self.take(self.waiting.oldest) else { return };
        let why = if is_over { Dropped::Expired } else { Dropped::Displaced };
        self.counters.expired += u64::from(is_over);
        self.counters.displaced += u64::from(!is_over);
        self.dropped.push_back((event, why));
    }

    /// Takes an event out of the lists.
    fn take(&mut self, slot: u32) -> Option<H> {
        let Slot { event, terms, key, before_in_key, after_in_key, .. } = self.waiting.remove(slot)?;
        if let Some(before) = self.waiting.get_mut(before_in_key) {
            before.after_in_key = after_in_key;
        }
        if let Some(after) = self.waiting.get_mut(after_in_key) {
            after.before_in_key = before_in_key;
        }
        let of_key = self.keys.get_mut(key)?;
        of_key.count(terms, u32::MAX);
        if before_in_key == NONE {
            of_key.oldest = after_in_key;
        }
        if after_in_key == NONE {
            of_key.newest = before_in_key;
        }
        if of_key.oldest == NONE {
            self.keys.remove(key);
        }
        Some(event)
    }
}

/// The end of a list.
const NONE: u32 = u32::MAX;

/// A waiting event.
#[derive(Clone, Copy, Debug)]
struct Slot<H> {
    event: H,
    terms: Terms,
    /// Place of its key.
    key: u32,
    at_ns: u64,
    before: u32,
    after: u32,
    before_in_key: u32,
    after_in_key: u32,
}

/// The waiting events, from the oldest to the newest.
#[derive(Debug)]
struct Waiting<H> {
    /// Places in use, and free ones.
    slots: Vec<Option<Slot<H>>>,
    free: Vec<u32>,
    /// Most events.
    keep: u32,
    oldest: u32,
    newest: u32,
    /// Where the next look for an event to be displaced goes on after the oldest one.
    look: u32,
    len: usize,
}

/// Makes room for one more in a list that has `most` at most, and takes no more memory than these need.
fn make_room<T>(list: &mut Vec<T>, most: usize) {
    if list.len() == list.capacity() {
        let left = most.saturating_sub(list.len()).max(1);
        list.reserve_exact(list.len().max(8).min(left));
    }
}

impl<H: Copy> Waiting<H> {
    fn new(keep: u32) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), keep, oldest: NONE, newest: NONE, look: NONE, len: 0 }
    }

    fn is_full(&self) -> bool {
        self.len >= self.keep as usize
    }

    fn get(&self, slot: u32) -> Option<&Slot<H>> {
        self.slots.get(slot as usize)?.as_ref()
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut Slot<H>> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Appends an event. There must be room.
    fn push_back(&mut self, event: H, terms: Terms, key: u32, at_ns: u64) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            make_room(&mut self.slots, self.keep as usize);
            self.slots.push(None);
            // All of them can be free at once.
            self.free.reserve_exact(self.slots.capacity());
            // The bound on events keeps all numbers far below 2^32.
            u32::try_from(self.slots.len() - 1).unwrap_or(NONE)
        });
        let before = core::mem::replace(&mut self.newest, slot);
        if let Some(place) = self.slots.get_mut(slot as usize) {
            let (after, before_in_key, after_in_key) = (NONE, NONE, NONE);
            *place = Some(Slot { event, terms, key, at_ns, before, after, before_in_key, after_in_key });
        }
        match self.get_mut(before) {
            Some(before) => before.after = slot,
            None => self.oldest = slot,
        }
        self.len += 1;
        slot
    }

    fn remove(&mut self, slot: u32) -> Option<Slot<H>> {
        let removed = self.slots.get_mut(slot as usize)?.take()?;
        if self.look == slot {
            self.look = removed.after;
        }
        match self.get_mut(removed.before) {
            Some(before) => before.after = removed.after,
            None => self.oldest = removed.after,
        }
        match self.get_mut(removed.after) {
            Some(after) => after.before = removed.before,
            None => self.newest = removed.before,
        }
        self.free.push(slot);
        self.len -= 1;
        Some(removed)
    }
}

/// A key of waiting events.
#[derive(Clone, Copy, Debug)]
struct OfKey {
    key: Key,
    oldest: u32,
    newest: u32,
    /// Number of waiting events that match each term.
    counts: [u32; Assignment::TERMS],
    /// The next place in the same bucket, or the next free one.
    next: u32,
}

impl OfKey {
    const NEW: Self = Self { key: Key::EMPTY, oldest: NONE, newest: NONE, counts: [0; Assignment::TERMS], next: NONE };

    /// Adds to the counts of these terms; `u32::MAX` subtracts 1.
    fn count(&mut self, terms: Terms, more: u32) {
        for place in terms.places() {
            if let Some(count) = self.counts.get_mut(place) {
                *count = count.wrapping_add(more);
            }
        }
    }

    /// Terms that waiting events match.
    fn terms(&self) -> Terms {
        Terms::of(self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(place, _)| place))
    }
}

/// The keys of waiting events, in a table with lists. A key has one waiting event at least, so that there are never more keys than those.
#[derive(Debug)]
struct Keys {
    places: Vec<OfKey>,
    /// The first place of each bucket. Their number is a power of two, and that of the places at least.
    buckets: Vec<u32>,
    /// The first free place.
    free: u32,
    len: usize,
}

impl Default for Keys {
    fn default() -> Self {
        Self { places: Vec::new(), buckets: vec![NONE; 8], free: NONE, len: 0 }
    }
}

impl Keys {
    /// A free place.
    fn free_place(&mut self, most: usize) -> u32 {
        if let Some(free) = self.places.get(self.free as usize) {
            return core::mem::replace(&mut self.free, free.next);
        }
        if self.places.len() == self.buckets.len() {
            self.double_buckets();
        }
        make_room(&mut self.places, most);
        self.places.push(OfKey::NEW);
        u32::try_from(self.places.len() - 1).unwrap_or(NONE)
    }

    /// Doubles the number of buckets. All places are in use.
    fn double_buckets(&mut self) {
        let buckets = 2 * self.buckets.len();
        self.buckets.clear();
        self.buckets.resize(buckets, NONE);
        for (place, at) in (0..).zip(0..self.places.len()) {
            let bucket = self.places.get(at).map_or(0, |of_key| self.bucket(&of_key.key));
            if let (Some(of_key), Some(first)) = (self.places.get_mut(at), self.buckets.get_mut(bucket)) {
                of_key.next = core::mem::replace(first, place);
            }
        }
    }

    fn get(&self, place: u32) -> Option<&OfKey> {
        self.places.get(place as usize)
    }

    fn get_mut(&mut self, place: u32) -> Option<&mut OfKey> {
        self.places.get_mut(place as usize)
    }

    fn bucket(&self, key: &Key) -> usize {
        // FNV-1a. Keys chosen to share a bucket cost a walk over them, which is charged; there are at most as many as events wait.
        let hash = key
            .as_bytes()
            .iter()
            .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3));
        let folded = (hash ^ hash >> 32) & (self.buckets.len() as u64 - 1);
        usize::try_from(folded).unwrap_or(0)
    }

    /// The place of a key. Each look takes a step, and goes on without.
    fn find(&self, key: &Key, steps: &mut Steps) -> Option<u32> {
        let mut place = *self.buckets.get(self.bucket(key))?;
        loop {
            steps.take(1);
            let found = self.get(place)?;
            if found.key == *key {
                return Some(place);
            }
            place = found.next;
        }
    }

    /// The place of a key, which is added if it is new.
    fn find_or_insert(&mut self, key: &Key, most: usize) -> Option<u32> {
        // The look was charged before.
        if let Some(place) = self.find(key, &mut Steps::new(0)) {
            return Some(place);
        }
        let place = self.free_place(most);
        let bucket = self.bucket(key);
        let first = core::mem::replace(self.buckets.get_mut(bucket)?, place);
        *self.get_mut(place)? = OfKey { key: *key, next: first, ..OfKey::NEW };
        self.len += 1;
        Some(place)
    }

    fn remove(&mut self, place: u32) {
        let Some(OfKey { key, next, .. }) = self.get(place).copied() else { return };
        let bucket = self.bucket(&key);
        let Some(first) = self.buckets.get_mut(bucket) else { return };
        if *first == place {
            *first = next;
        } else {
            let mut at = *first;
            while let Some(before) = self.places.get_mut(at as usize) {
                if before.next == place {
                    before.next = next;
                    break;
                }
                at = before.next;
            }
        }
        let free = self.free;
        if let Some(removed) = self.get_mut(place) {
            removed.next = free;
            self.free = place;
            self.len -= 1;
        }
    }
}

/// Events of which each has a term of its own.
#[derive(Clone, Copy, Debug, Default)]
struct Assignment {
    /// The events: what each matches, and its slot.
    events: [(Terms, u32); Self::TERMS],
    len: usize,
    /// The number of the event, from 1, that each term has.
    owners: [u8; Self::TERMS],
}

impl Assignment {
    const TERMS: usize = 16;

    /// Adds an event if all events can still have a term each; otherwise adds the terms that were tried to the tight ones. Either way
    /// returns their number.
    fn add(&mut self, terms: Terms, slot: u32, tight: &mut Terms) -> Result<u32, u32> {
        let Some(place) = self.events.get_mut(self.len) else { return Err(0) };
        *place = (terms, slot);
        // Tight terms lead to no other.
        let mut tried = *tight;
        let fits = self.assign(self.len, &mut tried);
        let looks = tried.without(*tight).0.count_ones();
        if !fits {
            *tight = tried;
            return Err(looks);
        }
        self.len += 1;
        Ok(looks)
    }

    /// Gives an event a term, and if need be the event that had it another one. No term is tried twice.
    fn assign(&mut self, event: usize, tried: &mut Terms) -> bool {
        let Some((terms, _)) = self.events.get(event).copied() else { return false };
        for term in terms.places() {
            let bit = Terms::of([term]);
            if !tried.and(bit).is_empty() {
                continue;
            }
            *tried = tried.or(bit);
            let owner = self.owners.get(term).copied().unwrap_or(0);
            if owner == 0 || self.assign(usize::from(owner) - 1, tried) {
                if let Some(place) = self.owners.get_mut(term) {
                    // There are at most 16 events.
                    *place = u8::try_from(event + 1).unwrap_or(u8::MAX);
                }
                return true;
            }
        }
        false
    }

    /// Slots of the events that waited, the oldest first.
    fn slots(&self) -> impl Iterator<Item = u32> {
        self.events.into_iter().take(self.len).map(|(_, slot)| slot).filter(|slot| *slot != NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_waits_takes_no_more_than_is_said() {
        type Handle = [u64; 3];
        let lists = size_of::<Option<Slot<Handle>>>() + size_of::<OfKey>() + size_of::<(Handle, Dropped)>();
        // A free place each, and two buckets at most.
        let all = lists + size_of::<u32>() + 2 * size_of::<u32>();
        assert!(all as u64 <= Matcher::<Handle>::EVENT_BYTES, "{all}");
    }
}
