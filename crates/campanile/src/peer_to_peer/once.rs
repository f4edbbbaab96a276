//! Removal of duplicate events for late joiners.
//!
//! If writer and reader are in one process, Cyclone DDS delivers a sample twice that is written just when the reader joins, from the
//! history and as a new one: it puts the sample into the history, and passes it on a moment later to the readers that exist then.

use crate::settings::Settings;
use dds::{Publisher, Sample};
use std::collections::HashMap;
use std::hash::Hash;

/// Maximum writers remembered; beyond that all are forgotten, and checked anew.
const WRITERS_MAX: usize = 4096;

/// The first samples of each writer.
pub(super) struct Once<P = Publisher> {
    /// Samples of a writer's history that a late joiner gets.
    history_depth: u32,
    writers: HashMap<P, First>,
}

/// The first samples of one writer: their number, up to one more than its history, and the latest one.
struct First {
    count: u32,
    written: i64,
    octets: Vec<u8>,
}

impl Once {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { history_depth: settings.dds.late_joiners, writers: HashMap::new() }
    }

    /// Whether a sample repeats the previous one of its writer, among its first ones.
    pub(super) fn is_again(&mut self, sample: &Sample<'_>) -> bool {
        self.history_depth > 0 && self.repeats(sample.publisher, sample.source_timestamp, sample.cdr)
    }
}

impl<P: Eq + Hash> Once<P> {
    fn repeats(&mut self, by: P, written: i64, octets: &[u8]) -> bool {
        if self.writers.len() >= WRITERS_MAX && !self.writers.contains_key(&by) {
            self.writers.clear();
        }
        let first = self.writers.entry(by).or_insert(First { count: 0, written: 0, octets: Vec::new() });
        if first.count > self.history_depth {
            return false;
        }
        let repeats = first.count > 0 && first.written == written && first.octets == octets;
        first.count += 1;
        first.written = written;
        first.octets.clear();
        if first.count > self.history_depth {
            first.octets = Vec::new();
        } else {
            first.octets.extend_from_slice(octets);
        }
        repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_the_history_counts_once_and_nothing_else_is_left_out() {
        let mut once = Once { history_depth: 2, writers: HashMap::new() };
        let came = [
            ("a", 1, "x", false),
            ("b", 1, "x", false),
            // As history, and as what comes.
            ("a", 2, "y", false),
            ("a", 2, "y", true),
            // It can only have been that one.
            ("a", 2, "y", false),
            ("a", 3, "z", false),
            // Another clock reading, or other octets, are another event.
            ("b", 2, "x", false),
            ("b", 2, "y", false),
        ];
        for (by, written, octets, again) in came {
            assert_eq!(once.repeats(by, written, octets.as_bytes()), again, "{by} {written} {octets}");
        }
        assert!(once.writers.values().all(|first| first.octets.is_empty()), "nothing is stored of known readers");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut once = Once { history_depth: 1, writers: HashMap::new() };
        (0..3 * WRITERS_MAX).for_each(|by| assert!(!once.repeats(by, 0, b"")));
        assert!(once.writers.len() <= WRITERS_MAX);
    }
}
