//! When a client that calls was last heard of, a supplier that pushes or a consumer that pulls: lanes write it with each event or pull, and
//! the owner of the hierarchy reads it. Neither waits for the other.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::Time;

/// When a supplier or a consumer that pulls was last heard of, how many events came from it, and how many pulls of it wait. A
/// copy is of the same client.
#[derive(Clone, Debug, Default)]
pub struct Activity(Arc<Heard>);

#[derive(Debug, Default)]
struct Heard {
    events: AtomicU64,
    waits: AtomicU64,
    /// Lane time.
    last: AtomicU64,
}

impl Activity {
    /// Notes that something was heard of it that is no event: that it connected, or asked for events.
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

    /// Notes that a pull of it waits, for as long as what this gives is kept.
    #[must_use]
    pub fn begin_wait(&self) -> WaitingPull {
        self.0.waits.fetch_add(1, Ordering::Relaxed);
        WaitingPull(self.clone())
    }

    /// Whether a pull of it waits.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.0.waits.load(Ordering::Relaxed) > 0
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

/// A pull that waits. Nothing is heard of its client meanwhile, which lives nevertheless.
#[derive(Debug)]
pub struct WaitingPull(Activity);

impl WaitingPull {
    /// It is answered: its client was there until now.
    pub fn end(self, now: Time) {
        self.0.note(now);
    }
}

impl Drop for WaitingPull {
    fn drop(&mut self) {
        self.0.0.waits.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PartialEq for Activity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Activity {}
