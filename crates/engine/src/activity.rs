//! Last activity of a calling client (a supplier that pushes or a consumer that pulls): lanes write it with each event
//! or pull, the owner of the hierarchy reads it, and neither waits for the other.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::Time;

/// Last activity of a client: its last call, its count of events, and its count of waiting pulls. Clones share one
/// state.
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
    /// Notes activity other than an event: a connection, or a pull.
    pub fn note(&self, now: Time) {
        self.0.last.store(now.0, Ordering::Relaxed);
    }

    /// Notes an event. The count is incremented by a locked instruction only if several lanes may take this client's
    /// events.
    pub(crate) fn note_event(&self, now: Time, on_several_lanes: bool) {
        self.note(now);
        if on_several_lanes {
            self.0.events.fetch_add(1, Ordering::Relaxed);
        } else {
            self.0.events.store(self.0.events.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Counts a waiting pull until the returned guard is dropped.
    #[must_use]
    pub fn begin_wait(&self) -> WaitingPull {
        self.0.waits.fetch_add(1, Ordering::Relaxed);
        WaitingPull(self.clone())
    }

    /// Whether a pull of this client waits.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.0.waits.load(Ordering::Relaxed) > 0
    }

    /// Number of events received, refused ones included.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.0.events.load(Ordering::Relaxed)
    }

    /// Time of the client's last activity.
    #[must_use]
    pub fn last(&self) -> Time {
        Time(self.0.last.load(Ordering::Relaxed))
    }
}

/// Guard of a waiting pull. The client counts as alive while it exists, although nothing is heard from it.
#[derive(Debug)]
pub struct WaitingPull(Activity);

impl WaitingPull {
    /// Ends the wait, the pull having been answered: the client was active until `now`.
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
