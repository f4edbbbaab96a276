//! What the events of all channels may take together, on whichever lane: of memory, and of the room elsewhere.
//!
//! Each channel has a budget of its own, but the sum of the budgets may be more than there is. So a channel's events on a lane may take
//! at most a fixed multiple of what is left for all channels. Those that are held give nothing back, and the next ones would find
//! ever less; so an eighth of it all is for channels that have little. The lanes share one number, which they read for each
//! event and write once for many.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// The room that the events of all channels may take together. Lanes share it ([`Lane::set_memory_pool`](super::Lane::set_memory_pool),
/// [`Lane::set_overflow_pool`](super::Lane::set_overflow_pool)).
#[derive(Debug)]
pub struct MemoryPool {
    limit_bytes: u64,
    percent_of_free: u64,
    taken_bytes: AtomicU64,
}

impl MemoryPool {
    /// The largest share, so that something is always left.
    const PERCENT_OF_FREE_MAX: u8 = 90;

    /// So many bytes, of which one channel may have so many percent on a lane while no other has anything; more than 90 counts as
    /// 90.
    #[must_use]
    pub fn new(limit_bytes: u64, percent_of_free: u8) -> Self {
        let percent_of_free = percent_of_free.clamp(1, Self::PERCENT_OF_FREE_MAX).into();
        Self { limit_bytes, percent_of_free, taken_bytes: AtomicU64::new(0) }
    }

    /// What lanes have taken, in bytes: what their events take, and a little in advance.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        // Relaxed here and everywhere: it is an amount, and nothing is published through it.
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// What one channel may have on a lane whatever its share: a mebibyte, of a small room less.
    const fn little_bytes(&self) -> u64 {
        let part = self.limit_bytes / 1024;
        if part < 64 << 10 {
            64 << 10
        } else if part > 1 << 20 {
            1 << 20
        } else {
            part
        }
    }

    /// Whether a channel that has `used` bytes may have `more`. What its suppliers had under way when they were held may exceed
    /// its share by an eighth; there has to be that much in any case.
    pub(super) fn allows(&self, used: u64, more: u64, while_blocked: bool) -> bool {
        let (taken, has) = (self.taken_bytes().saturating_add(more), used.saturating_add(more));
        if taken > self.limit_bytes {
            return false;
        }
        let left = (self.limit_bytes - self.limit_bytes / 8).saturating_sub(taken);
        let allowance = self.percent_of_free.saturating_mul(left);
        let allowance = if while_blocked { allowance + allowance / 8 } else { allowance };
        has.saturating_mul(100 - self.percent_of_free) <= allowance || has <= self.little_bytes()
    }

    /// Whether a channel that has `used` bytes would have room for an eighth more, so that "held" does not flutter.
    pub(super) fn has_room_again(&self, used: u64) -> bool {
        self.allows(used, used / 8, false)
    }
}

/// One lane's part of it: taken in pieces, so that the lanes seldom write to the same place.
#[derive(Debug, Default)]
pub(super) struct Part {
    shared: Option<Arc<MemoryPool>>,
    taken: u64,
    used: u64,
}

/// Bytes that a lane takes in advance, or keeps when its events need them no more.
const CHUNK_BYTES: u64 = 256 << 10;

impl Part {
    /// Of which room it is a part.
    pub(super) fn shared(&self) -> Option<&Arc<MemoryPool>> {
        self.shared.as_ref()
    }

    /// What the lane's events take counts there from now on.
    pub(super) fn set_shared(&mut self, shared: Arc<MemoryPool>) {
        self.give_back(self.taken);
        self.shared = Some(shared);
        self.adjust();
    }

    #[inline]
    pub(super) fn add(&mut self, bytes: u64) {
        self.used += bytes;
        if self.used > self.taken {
            self.adjust();
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
        if self.taken - self.used > 2 * CHUNK_BYTES {
            self.adjust();
        }
    }

    /// Takes what is needed, to the next piece; the rest is given back.
    #[cold]
    fn adjust(&mut self) {
        let needed = self.used.next_multiple_of(CHUNK_BYTES);
        match needed.checked_sub(self.taken) {
            Some(more) => {
                if let Some(shared) = &self.shared {
                    shared.taken_bytes.fetch_add(more, Ordering::Relaxed);
                }
                self.taken = needed;
            }
            None => self.give_back(self.taken - needed),
        }
    }

    fn give_back(&mut self, bytes: u64) {
        if let Some(shared) = &self.shared {
            shared.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.taken -= bytes;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.give_back(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn one_has_its_quota_and_something_is_left_for_another() {
        let shared = Arc::new(MemoryPool::new(64 * MIB, 75));
        let mut part = Part::default();
        part.set_shared(Arc::clone(&shared));
        let mut used = 0;
        while shared.allows(used, MIB, false) {
            part.add(MIB);
            used += MIB;
        }
        assert_eq!(used, 42 * MIB, "three quarters of what is not kept for those that have little");
        assert!(shared.allows(0, MIB, false));
        assert!(!shared.has_room_again(used));
        part.remove(8 * MIB);
        assert!(shared.has_room_again(used - 8 * MIB));
        assert!(!shared.allows(0, 64 * MIB, true), "there is not so much");
    }

    #[test]
    fn a_quota_of_all_leaves_a_tenth_all_the_same() {
        let shared = MemoryPool::new(800 * MIB, 100);
        assert!(shared.allows(0, 630 * MIB, false) && !shared.allows(0, 631 * MIB, false));
    }

    #[test]
    fn channels_that_have_little_find_room_however_many_others_are_blocked() {
        let shared = MemoryPool::new(64 * MIB, 75);
        shared.taken_bytes.fetch_add(56 * MIB, Ordering::Relaxed);
        assert!(shared.allows(0, 60_000, false) && !shared.allows(60_000, 60_000, false));
        shared.taken_bytes.fetch_add(8 * MIB, Ordering::Relaxed);
        assert!(!shared.allows(0, 60_000, false), "there is no more");
    }

    #[test]
    fn what_a_lane_took_is_given_back_with_its_events_and_with_the_lane() {
        let shared = Arc::new(MemoryPool::new(64 * MIB, 75));
        let mut part = Part::default();
        part.add(10);
        part.set_shared(Arc::clone(&shared));
        assert_eq!(shared.taken_bytes(), CHUNK_BYTES);
        for _ in 0..100 {
            part.add(MIB / 10);
        }
        assert!((10 * MIB - 100..10 * MIB + 2 * CHUNK_BYTES).contains(&shared.taken_bytes()));
        for _ in 0..100 {
            part.remove(MIB / 10);
        }
        assert!(shared.taken_bytes() <= 3 * CHUNK_BYTES);
        drop(part);
        assert_eq!(shared.taken_bytes(), 0);
    }
}
