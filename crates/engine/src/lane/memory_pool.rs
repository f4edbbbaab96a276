//! A pool for the events of all channels, on all lanes: of memory, or of storage elsewhere.
//!
//! Each channel has a budget of its own, but the sum of the budgets may exceed the pool. So a channel's events on a
//! lane may take at most a fixed multiple of what is left for all channels. Blocked channels free nothing, and later
//! ones would find ever less; so an eighth of the pool is reserved for channels that use little. The lanes share one
//! number, which they read for each event and write once for many.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// A pool for the events of all channels. Lanes share it ([`Lane::set_memory_pool`](super::Lane::set_memory_pool),
/// [`Lane::set_overflow_pool`](super::Lane::set_overflow_pool)).
#[derive(Debug)]
pub struct MemoryPool {
    limit_bytes: u64,
    percent_of_free: u64,
    taken_bytes: AtomicU64,
}

impl MemoryPool {
    /// Largest percentage, so that something is always left.
    const PERCENT_OF_FREE_MAX: u8 = 90;

    /// A pool of `limit_bytes`, of which one channel may take `percent_of_free` on a lane while no other uses any;
    /// more than 90 counts as 90.
    #[must_use]
    pub fn new(limit_bytes: u64, percent_of_free: u8) -> Self {
        let percent_of_free = percent_of_free.clamp(1, Self::PERCENT_OF_FREE_MAX).into();
        Self { limit_bytes, percent_of_free, taken_bytes: AtomicU64::new(0) }
    }

    /// Bytes that lanes have taken: for their events, and a little in advance.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        // Relaxed here and everywhere: it is an amount, and nothing is published through it.
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that one channel may take on a lane in any case: 1 MiB, of a small pool less.
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

    /// Whether a channel that uses `used` bytes may take `more`. Events already sent by blocked suppliers may exceed
    /// its quota by an eighth; the pool must have that much in any case.
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

    /// Whether a channel that uses `used` bytes has room for an eighth more, so that blocking does not flutter.
    pub(super) fn has_room_again(&self, used: u64) -> bool {
        self.allows(used, used / 8, false)
    }
}

/// One lane's part of a pool: taken in chunks, so that lanes seldom write to the same memory.
#[derive(Debug, Default)]
pub(super) struct Part {
    shared: Option<Arc<MemoryPool>>,
    taken: u64,
    used: u64,
}

/// Bytes that a lane takes in advance, or retains when its events no longer need them.
const CHUNK_BYTES: u64 = 256 << 10;

impl Part {
    /// The pool.
    pub(super) fn shared(&self) -> Option<&Arc<MemoryPool>> {
        self.shared.as_ref()
    }

    /// Sets the pool in which the lane's events count from now on.
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

    /// Takes what is needed, rounded up to a chunk, and gives back the rest.
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
