//! Counters of ports: written by the lane that owns the port, read by any thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread counts up and others read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Counts one more; called by the owner only, so that a plain load and store do.
    #[inline]
    pub(crate) fn count(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Counts one more, where several threads do.
    pub(crate) fn count_shared(&self) {
        self.add_shared(1);
    }

    /// Counts several more, where several threads do.
    pub(crate) fn add_shared(&self, events: u64) {
        self.0.fetch_add(events, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct PortCounters {
    pub(crate) sent: Counter,
    pub(crate) refused: Counter,
    pub(crate) delivered: Counter,
    /// By the lane, and by threads of a service.
    pub(crate) failed: Counter,
    pub(crate) inactive: Counter,
    pub(crate) reentrant: Counter,
    pub(crate) filtered: Counter,
    pub(crate) uncorrelated: Counter,
    pub(crate) discarded: Counter,
    pub(crate) rejected: Counter,
    pub(crate) expired: Counter,
}

/// What a port has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortStatus {
    /// Events that a source or timer sent.
    pub sent: u64,
    /// Events that a source refused, as its instance was not active.
    pub refused: u64,
    /// Events that the handler of a sink took.
    pub delivered: u64,
    /// Events of which the handler answered a [`Failure`](crate::Failure), or panicked; what came from a service and was no event, or was lost
    /// on the way; and events that a service did not take, refused later, or lost.
    pub failed: u64,
    /// Events that came to a sink while its instance was not active; they are dropped.
    pub inactive: u64,
    /// Events that came to a sink while a handler of the same instance ran; they are refused.
    pub reentrant: u64,
    /// Events that the filter of a sink did not let through.
    pub filtered: u64,
    /// Events that were in no set, of a sink that has [sets](crate::Server::correlate): they found no others in time, others displaced them,
    /// or they match no part of the correlation.
    pub uncorrelated: u64,
    /// Events that a full queue discarded.
    pub discarded: u64,
    /// Events that a full queue refused to its sources.
    pub rejected: u64,
    /// Events that expired in a queue, that of a source for its service included.
    pub expired: u64,
}

impl PortCounters {
    pub(crate) fn status(&self) -> PortStatus {
        PortStatus {
            sent: self.sent.get(),
            refused: self.refused.get(),
            delivered: self.delivered.get(),
            failed: self.failed.get(),
            inactive: self.inactive.get(),
            reentrant: self.reentrant.get(),
            filtered: self.filtered.get(),
            uncorrelated: self.uncorrelated.get(),
            discarded: self.discarded.get(),
            rejected: self.rejected.get(),
            expired: self.expired.get(),
        }
    }
}
