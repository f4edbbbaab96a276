//! A disk that is full, as the store's thread sees it: from when on events that are to be kept are refused, how much is removed at a time
//! meanwhile, and when there is room again.

use core::time::Duration;
use std::time::Instant;

use super::room::{OF_A_BATCH, RESERVE_BYTES, Room};
use crate::time;

/// From one look for room to the next.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// Events that go in one batch while the disk is full, at first: each page that loses one is written anew before it is free. It doubles
/// with each batch that is written.
const AT_ONCE: usize = 32;

/// Whether the disk is full, and what the file has held.
#[derive(Debug)]
pub(super) struct Fullness {
    /// When it is looked for room the next time, while events are refused, and how many were.
    episode: Option<(Instant, u64)>,
    /// Most octets of events that the file had at once since it was made smaller.
    held: u64,
    at_once: usize,
}

impl Default for Fullness {
    fn default() -> Self {
        Self { episode: None, held: 0, at_once: usize::MAX }
    }
}

impl Fullness {
    /// Whether events are refused.
    pub(super) const fn is_full(&self) -> bool {
        self.episode.is_some()
    }

    /// Events, and lists of who is yet to confirm one, that are removed and written in one batch.
    pub(super) const fn at_once(&self) -> usize {
        self.at_once
    }

    /// How long it is until it is looked for room again; nothing where that is not looked for.
    pub(super) fn looks_in(&self) -> Option<Duration> {
        self.episode.map(|(at, _)| at.saturating_duration_since(time::now()))
    }

    /// The file has events of so many octets.
    pub(super) fn note_held(&mut self, octets: u64) {
        self.held = self.held.max(octets);
        self.at_once = self.at_once.saturating_mul(2);
    }

    /// A batch was not written for want of room.
    pub(super) fn note_failed(&mut self) {
        self.at_once = if self.at_once > AT_ONCE { AT_ONCE } else { (self.at_once / 2).max(1) };
    }

    /// Whether there is room for events of so many octets.
    pub(super) fn has_room(octets: u64, room: &Room) -> bool {
        octets == 0 || room.make_room(octets)
    }

    /// From now on events are refused.
    pub(super) fn begin(&mut self) {
        if !self.is_full() {
            self.episode = Some((time::now() + LOOKS_EVERY, 0));
            self.at_once = AT_ONCE;
            log::error!(
                "store: the disk is full: events that are to be kept are refused with PERSIST_STORE; what consumers confirm makes room, and \
                 when there is some, or the disk has {} KiB free, events are taken again",
                (2 * RESERVE_BYTES + OF_A_BATCH) / 1_024
            );
        }
    }

    /// So many more events were refused.
    pub(super) fn note_refused(&mut self, events: u64) {
        if let Some((_, refused)) = &mut self.episode {
            *refused += events;
        }
    }

    /// Looks for room, if it is time. `kept` is what the file has, of octets of events. Says whether the file is to be made smaller: what
    /// was removed left pages in it, and the database does not take those first that have blocks.
    pub(super) fn look(&mut self, kept: u64, room: &Room) -> bool {
        let Some((at, refused)) = self.episode.filter(|(at, _)| time::now() >= *at) else { return false };
        // More than is refused, lest events be refused and taken in turns.
        if room.make_room(RESERVE_BYTES / 2) {
            (self.episode, self.at_once) = (None, usize::MAX);
            log::warn!(
                "store: there is room on the disk again: events are taken; {refused} were refused meanwhile, and nothing was lost"
            );
            return false;
        }
        self.episode = Some((at.max(time::now()) + LOOKS_EVERY, refused));
        kept < self.held && kept <= self.held / 4 * 3
    }

    /// The file was made smaller, or could not be: it is tried again when a quarter of what it has is gone.
    pub(super) fn note_compacted(&mut self, kept: u64) {
        self.held = kept;
        self.episode = self.episode.map(|(_, refused)| (time::now(), refused));
    }
}
