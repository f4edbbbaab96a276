//! Each event once, also where late joiners get former ones.
//!
//! Where writer and reader are in one process, Cyclone DDS hands over what is written just when the reader comes both as the last of the
//! past and as what comes: it puts it into the history, and passes it on a moment later to the readers that are there then.

use crate::settings::Settings;
use dds::{Publisher, Sample};
use std::collections::HashMap;
use std::hash::Hash;

/// Writers that are remembered; beyond that they are forgotten, and looked at anew.
const WRITERS_MAX: usize = 4096;

/// What came first of each writer.
pub(super) struct Once<P = Publisher> {
    /// Former events that a late joiner gets of a writer.
    history_depth: u32,
    writers: HashMap<P, First>,
}

/// Of one writer: how much has come, up to one more than its history, and what came last meanwhile.
struct First {
    count: u32,
    written: i64,
    octets: Vec<u8>,
}

impl Once {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { history_depth: settings.dds.late_joiners, writers: HashMap::new() }
    }

    /// Whether it is what came just before from its writer, and one of the first.
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
