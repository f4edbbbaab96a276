//! Detection of lost events, by the sequence numbers that each supplier gives its events.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The largest plausible gap; a wider one comes from garbage, not from losses.
const GAP_MAX: u64 = 1_000_000;

/// Receipts of one consumer from one supplier, whose events are numbered 0, 1, 2, ….
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// One more than the highest number received.
    next: u64,
    /// Numbers below `next` not received.
    missing: BTreeSet<u64>,
    repeated: u64,
    out_of_order: u64,
}

/// A sequence number too far from the others to be plausible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Implausible;

impl Ledger {
    /// Enters the event with this number.
    pub fn enter(&mut self, number: u64) -> Result<(), Implausible> {
        if number >= self.next {
            if number - self.next > GAP_MAX {
                return Err(Implausible);
            }
            self.missing.extend(self.next..number);
            self.next = number + 1;
        } else if self.missing.remove(&number) {
            self.out_of_order += 1;
        } else {
            self.repeated += 1;
        }
        Ok(())
    }

    /// Number of different events received.
    pub fn received(&self) -> u64 {
        self.next.saturating_sub(self.missing())
    }

    /// Number of events not received although later ones have been.
    pub fn missing(&self) -> u64 {
        u64::try_from(self.missing.len()).unwrap_or(u64::MAX)
    }

    /// The losses among the `sent` events of this supplier.
    pub fn balance(&self, sent: u64) -> Losses {
        Losses {
            sent,
            received: self.received(),
            lost: sent.saturating_sub(self.received()),
            repeated: self.repeated,
            out_of_order: self.out_of_order,
        }
    }
}

/// Counts of events sent to one or several consumers, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Events sent, counted once for each consumer that should receive them.
    pub sent: u64,
    /// Events received at least once.
    pub received: u64,
    /// Events never received within the wait.
    pub lost: u64,
    /// Repeated receipts of an event.
    pub repeated: u64,
    /// Events received after a later one of the same supplier.
    pub out_of_order: u64,
}

impl Losses {
    /// Adds the figures of another supplier or consumer.
    pub fn add(&mut self, other: Self) {
        let Self { sent, received, lost, repeated, out_of_order } = other;
        self.sent += sent;
        self.received += received;
        self.lost += lost;
        self.repeated += repeated;
        self.out_of_order += out_of_order;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(numbers: &[u64]) -> Ledger {
        let mut ledger = Ledger::default();
        for &number in numbers {
            ledger.enter(number).unwrap();
        }
        ledger
    }

    #[test]
    fn finds_nothing_lost_when_all_came_in_order() {
        let balance = ledger(&[0, 1, 2]).balance(3);
        assert_eq!(balance, Losses { sent: 3, received: 3, ..Losses::default() });
    }

    #[test]
    fn counts_gaps_at_the_start_in_the_middle_and_at_the_end() {
        let balance = ledger(&[1, 2, 5]).balance(8);
        assert_eq!(balance, Losses { sent: 8, received: 3, lost: 5, ..Losses::default() });
    }

    #[test]
    fn tells_what_came_late_from_what_came_twice() {
        let balance = ledger(&[0, 2, 1, 1, 2, 3]).balance(4);
        assert_eq!(balance, Losses { sent: 4, received: 4, lost: 0, repeated: 2, out_of_order: 1 });
    }

    #[test]
    fn refuses_a_number_that_cannot_be_one() {
        assert_eq!(ledger(&[0]).enter(u64::MAX), Err(Implausible));
    }

    #[test]
    fn adds_up_over_suppliers_and_consumers() {
        let mut total = Losses::default();
        total.add(ledger(&[0, 1]).balance(2));
        total.add(ledger(&[1]).balance(2));
        assert_eq!(total, Losses { sent: 4, received: 3, lost: 1, ..Losses::default() });
    }
}
