//! Outcomes of published events: counts, and single reports of losses.

use core::ops::Range;
use std::collections::VecDeque;

/// Maximum number of losses stored until they are taken.
const LOSSES_MAX: usize = 1024;

/// Counts of events by outcome; from [`Publisher::counters`](super::Publisher::counters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublisherCounters {
    /// Events that the publisher accepted, numbered from 0 on.
    pub published: u64,
    /// Events that the service certainly has: they were answered, or a [`sync`](super::Publisher::sync) has found that they arrived.
    pub confirmed: u64,
    /// Events that the service refused.
    pub refused: u64,
    /// Events with an unknown outcome: the connection was lost meanwhile.
    pub unknown: u64,
    /// Events that the service certainly does not have: the connection was lost before they were sent.
    pub not_sent: u64,
    /// Reports of losses that were dropped because the program did not take them ([`next_loss`](super::Publisher::next_loss)); their events
    /// are counted above.
    pub losses_discarded: u64,
    /// Times that the connection, or the proxy, was made anew.
    pub reconnections: u64,
}

impl PublisherCounters {
    /// Events without an outcome yet: gathered, or under way.
    #[must_use]
    pub const fn outstanding(&self) -> u64 {
        self.published - self.confirmed - self.lost()
    }

    /// Events that the service does not have, or perhaps not.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.refused + self.unknown + self.not_sent
    }
}

/// Events that did not arrive, or perhaps not, with their outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Their numbers, as returned by the publishing calls.
    pub events: Range<u64>,
    /// Their outcome.
    pub fate: Fate,
}

/// The outcome of events that did not arrive, or perhaps not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// The service raised this exception, named by its repository id, such as `IDL:omg.org/CORBA/IMP_LIMIT:1.0`. In a sequence, events
    /// before the refused one may have been taken.
    Refused(String),
    /// The connection was lost after the events were sent; the text has the reason. Sent again, they may arrive twice.
    Unknown(String),
    /// The connection was lost before the events were sent; the text has the reason. They can be published again.
    NotSent(String),
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) counters: PublisherCounters,
    losses: VecDeque<Loss>,
}

impl Ledger {
    /// Numbers the next event.
    pub(super) fn number(&mut self) -> u64 {
        let number = self.counters.published;
        self.counters.published += 1;
        number
    }

    pub(super) fn lose(&mut self, events: Range<u64>, fate: Fate) {
        if events.is_empty() {
            return;
        }
        let count = events.end - events.start;
        *match &fate {
            Fate::Refused(_) => &mut self.counters.refused,
            Fate::Unknown(_) => &mut self.counters.unknown,
            Fate::NotSent(_) => &mut self.counters.not_sent,
        } += count;
        match self.losses.back_mut() {
            Some(last) if last.events.end == events.start && last.fate == fate => last.events.end = events.end,
            _ => self.losses.push_back(Loss { events, fate }),
        }
        if self.losses.len() > LOSSES_MAX {
            self.losses.pop_front();
            self.counters.losses_discarded += 1;
        }
    }

    pub(super) fn next_loss(&mut self) -> Option<Loss> {
        self.losses.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_one_kind_beside_each_other_are_one() {
        let mut ledger = Ledger::default();
        for _ in 0..10 {
            ledger.number();
        }
        let gone = || Fate::Unknown("gone".to_owned());
        for events in [0..1, 1..3, 5..6] {
            ledger.lose(events, gone());
        }
        ledger.lose(6..7, Fate::NotSent("gone".to_owned()));
        ledger.lose(7..7, gone());
        let told: Vec<_> = core::iter::from_fn(|| ledger.next_loss()).map(|loss| loss.events).collect();
        assert_eq!(told, [0..3, 5..6, 6..7]);
        assert_eq!((ledger.counters.unknown, ledger.counters.not_sent, ledger.counters.outstanding()), (4, 1, 5));
    }

    #[test]
    fn losses_that_are_not_taken_are_counted_all_the_same() {
        let mut ledger = Ledger::default();
        for number in 0..2000_u64 {
            ledger.number();
            ledger.lose(number..number + 1, Fate::Refused(number.to_string()));
        }
        assert_eq!((ledger.counters.refused, ledger.counters.losses_discarded), (2000, 976));
        assert_eq!(ledger.next_loss().unwrap().events, 976..977);
    }
}
