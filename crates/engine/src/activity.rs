//! When a supplier was last heard of: lanes write it with each event, and whoever owns the hierarchy reads it. Neither waits for
//! the other.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::Time;

/// How many events came from a supplier, and when the last. A copy is of the same supplier.
#[derive(Clone, Debug, Default)]
pub struct Activity(Arc<Heard>);

#[derive(Debug, Default)]
struct Heard {
    events: AtomicU64,
    /// Lane time.
    last: AtomicU64,
}

impl Activity {
    /// Notes that something was heard of it that is no event: that it connected.
    pub fn note(&self, now: Time) {
        self.0.last.store(now.0, Ordering::Relaxed);
    }

    /// Notes an event. Only where its events may come in on several lanes at once does counting them take a locked
    /// instruction.
    pub(crate) fn note_event(&self, now: Time, on_several_lanes: bool) {
        self.note(now);
        if on_several_lanes {
            self.0.events.fetch_add(1, Ordering::Relaxed);
        } else {
            self.0.events.store(self.0.events.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// How many events came, those that were refused included.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.0.events.load(Ordering::Relaxed)
    }

    /// When it was last heard of.
    #[must_use]
    pub fn last(&self) -> Time {
        Time(self.0.last.load(Ordering::Relaxed))
    }
}

impl PartialEq for Activity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Activity {}
