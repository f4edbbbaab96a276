//! What suppliers were promised, and what came of it at each consumer.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A supplier, and the number of one of its events.
pub(crate) type Numbered = (u32, u32);

/// How often an event came to a consumer.
#[derive(Debug, Default)]
struct Seen {
    times: u64,
    is_marked: bool,
}

/// What one consumer got.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// The number of each supplier's that came last for the first time.
    last: BTreeMap<u32, u32>,
    seen: HashMap<Numbered, Seen>,
    disordered: u64,
    /// Times that an event came again without a mark of that time.
    bare_repeats: u64,
}

impl Book {
    /// An event came; `is_marked` says that its header calls it possibly repeated.
    pub(crate) fn enter(&mut self, event: Numbered, is_marked: bool) {
        let seen = self.seen.entry(event).or_default();
        seen.times += 1;
        seen.is_marked |= is_marked;
        if seen.times > 1 {
            self.bare_repeats += u64::from(!is_marked);
            return;
        }
        let last = self.last.entry(event.0).or_insert(event.1);
        if *last > event.1 {
            self.disordered += 1;
        } else {
            *last = event.1;
        }
    }

    /// How many of these have not come.
    pub(crate) fn missing(&self, acknowledged: &BTreeSet<Numbered>) -> u64 {
        acknowledged.iter().filter(|event| !self.seen.contains_key(*event)).count() as u64
    }

    /// Whether nothing has come.
    pub(crate) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Times that an event came again as if it had not come before.
    pub(crate) fn bare_repeats(&self) -> u64 {
        self.bare_repeats
    }

    /// Events that came for the first time after a later one of the same supplier.
    pub(crate) fn disordered(&self) -> u64 {
        self.disordered
    }

    /// How often events came that had come before, and how often of these none of the times was marked.
    pub(crate) fn repeats(&self) -> (u64, u64) {
        let repeated = self.seen.values().filter(|seen| seen.times > 1);
        repeated.fold((0, 0), |(all, unmarked), seen| {
            let again = seen.times - 1;
            (all + again, unmarked + if seen.is_marked { 0 } else { again })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_losses_repeats_and_disorder_apart() {
        let mut book = Book::default();
        // 3 comes again, marked; 4 again, unmarked; 2 too late; another supplier counts for itself.
        for (number, is_marked) in [(1, false), (3, false), (3, true), (4, false), (4, false), (2, false), (5, false)] {
            book.enter((7, number), is_marked);
        }
        book.enter((8, 1), true);
        assert_eq!((book.disordered(), book.repeats(), book.bare_repeats()), (1, (2, 1), 1));
        let acknowledged = BTreeSet::from([(7, 1), (7, 6), (8, 1), (8, 2)]);
        assert_eq!(book.missing(&acknowledged), 2);
    }
}
