//! A full disk, as the store's thread sees it: when persistent events are refused, how much is removed at a time meanwhile, and when there
//! is room again.

use core::time::Duration;
use std::time::Instant;

use super::room::{OF_A_BATCH, RESERVE_BYTES, Room};
use crate::time;

/// Interval between two looks for room.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// Initial removals in one batch while the disk is full: each page that loses an event is rewritten before it is free. The number doubles
/// with each written batch.
const AT_ONCE: usize = 32;

/// Octets of events that must have room, or the disk counts as full. With more room than this, only events that are too large are refused.
pub(super) const SOUGHT_BYTES: u64 = RESERVE_BYTES / 2;
/// Time with room after which an episode is over. Where small events have room and large ones have none, refusals and admissions alternate.
const OVER_AFTER: Duration = Duration::from_secs(60);

/// Whether the disk is full, and the peak of stored events.
#[derive(Debug)]
pub(super) struct Fullness {
    /// Time of the next look for room, while events are refused.
    looks_at: Option<Instant>,
    episode: Option<Episode>,
    /// Time of the last refusal of large events alone.
    large_at: Option<Instant>,
    /// Maximum octets of events stored at once since the file was last compacted.
    peak_bytes: u64,
    at_once: usize,
}

/// A time with refusals, with pauses in between. Its begin and end are logged.
#[derive(Debug, Default)]
struct Episode {
    /// Number of refused events.
    refused: u64,
    /// Since when there is room, if there is.
    room_since: Option<Instant>,
}

impl Default for Fullness {
    fn default() -> Self {
        Self { looks_at: None, episode: None, large_at: None, peak_bytes: 0, at_once: usize::MAX }
    }
}

impl Fullness {
    /// Whether events are refused.
    pub(super) const fn is_full(&self) -> bool {
        self.looks_at.is_some()
    }

    /// Maximum events removed, and lists of unconfirmed consumers written, in one batch.
    pub(super) const fn at_once(&self) -> usize {
        self.at_once
    }

    /// Time until [`look`](Self::look) has something to do. `None` outside of episodes.
    pub(super) fn looks_in(&self) -> Option<Duration> {
        let over = || self.episode.as_ref().and_then(|episode| episode.room_since).map(|since| since + OVER_AFTER);
        self.looks_at.or_else(over).map(|at| at.saturating_duration_since(time::now()))
    }

    /// Notes a written batch, with the octets of events stored now.
    pub(super) fn note_bytes(&mut self, octets: u64) {
        self.peak_bytes = self.peak_bytes.max(octets);
        self.at_once = self.at_once.saturating_mul(2);
    }

    /// Notes a batch that failed for lack of room.
    pub(super) fn note_failed(&mut self) {
        self.at_once = if self.at_once > AT_ONCE { AT_ONCE } else { (self.at_once / 2).max(1) };
    }

    /// Whether there is room for events of this many octets.
    pub(super) fn has_room(octets: u64, room: &Room) -> bool {
        octets == 0 || room.make_room(octets)
    }

    /// Begins to refuse events.
    pub(super) fn begin(&mut self) {
        if self.begins_episode(time::now()) {
            log::error!(
                "store: the disk is full: persistent events are refused with PERSIST_STORE; what consumers confirm makes room, and \
                 when there is some, or the disk has {} KiB free, events are taken again",
                (2 * RESERVE_BYTES + OF_A_BATCH) / 1_024
            );
        }
    }

    /// Begins to refuse events. Returns whether a new episode begins with it.
    fn begins_episode(&mut self, now: Instant) -> bool {
        if self.is_full() {
            return false;
        }
        (self.looks_at, self.at_once) = (Some(now + LOOKS_EVERY), AT_ONCE);
        let is_new = self.episode.is_none();
        self.episode.get_or_insert_default().room_since = None;
        is_new
    }

    /// Notes that large events were refused, and others were not.
    pub(super) fn note_large(&mut self) {
        let now = time::now();
        if self.large_at.replace(now).is_none_or(|last| last + OVER_AFTER <= now) {
            log::warn!(
                "store: the disk has little room: persistent events of more than {} KiB are refused with PERSIST_STORE, and smaller \
                 ones are taken; what consumers confirm makes room, or free some",
                SOUGHT_BYTES / 1_024
            );
        }
    }

    /// Counts refused events.
    pub(super) fn note_refused(&mut self, events: u64) {
        if let Some(episode) = &mut self.episode {
            episode.refused += events;
        }
    }

    /// Looks for room, if a look is due, and logs the end of an episode. `stored`: octets of stored events. Returns whether to compact the
    /// file: removals left free pages in it, and the database does not first use those that have blocks.
    pub(super) fn look(&mut self, stored: u64, room: &Room) -> bool {
        let now = time::now();
        if let Some(refused) = self.ends_episode(now) {
            log::warn!(
                "store: there is room on the disk again, and events have been taken for {} s; {refused} were refused before, and none \
                 that was accepted is lost",
                OVER_AFTER.as_secs()
            );
        }
        if self.looks_at.is_none_or(|at| now < at) {
            return false;
        }
        // More room than for refused events, lest refusals and admissions alternate.
        if room.make_room(SOUGHT_BYTES) {
            self.note_room(now);
            return false;
        }
        self.looks_at = Some(now + LOOKS_EVERY);
        stored < self.peak_bytes && stored <= self.peak_bytes / 4 * 3
    }

    fn note_room(&mut self, now: Instant) {
        (self.looks_at, self.at_once) = (None, usize::MAX);
        self.episode.get_or_insert_default().room_since = Some(now);
    }

    /// The number of refused events in an episode that is over now, if one is.
    fn ends_episode(&mut self, now: Instant) -> Option<u64> {
        let is_over = |episode: &mut Episode| episode.room_since.is_some_and(|since| since + OVER_AFTER <= now);
        self.episode.take_if(is_over).map(|episode| episode.refused)
    }

    /// Notes that the file was compacted, or could not be: the next attempt is due when a quarter of the events is gone.
    pub(super) fn note_compacted(&mut self, stored: u64) {
        self.peak_bytes = stored;
        self.looks_at = self.looks_at.map(|_| time::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the disk had room for small events and none for large ones, two lines were logged each second.
    #[test]
    fn a_disk_that_is_full_and_not_full_in_turns_is_one_episode() {
        let mut fullness = Fullness::default();
        let start = time::now();
        let mut announced = 0;
        for second in 0..1_000 {
            let now = start + Duration::from_secs(second);
            assert_eq!(fullness.ends_episode(now), None);
            announced += u32::from(fullness.begins_episode(now));
            assert!(fullness.is_full() && !fullness.begins_episode(now));
            fullness.note_refused(3);
            fullness.note_room(now + Duration::from_millis(500));
            assert!(!fullness.is_full());
        }
        assert_eq!(announced, 1);
        let last = start + Duration::from_millis(999_500);
        assert_eq!(fullness.ends_episode(last + OVER_AFTER - Duration::from_millis(1)), None);
        assert_eq!(fullness.ends_episode(last + OVER_AFTER), Some(3_000));
        assert_eq!((fullness.ends_episode(last + 2 * OVER_AFTER), fullness.looks_in()), (None, None));
        assert!(fullness.begins_episode(last + 2 * OVER_AFTER));
    }
}
