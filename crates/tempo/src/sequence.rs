//! The order in which the messages of one publisher's topic are handed on, and how many of them were lost.
//!
//! Numbers of 32 bits count up by one and wrap. A message ahead of the last one is handed on, and the numbers between are lost. A message
//! behind it is not: it is *late* if it was counted as lost, and then uncounted, otherwise *repeated*. So `received + late + lost` is the
//! number of messages published since the first. Only the last 64 numbers are remembered individually; messages further behind count as
//! repeated.

use crate::Nanos;

/// A distance of this much or more from the last number is neither loss nor repetition: the publisher counts anew.
pub const JUMP: u32 = 65_536;

/// Meaning of a sequence number that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The message is handed on; the numbers skipped before it are lost.
    Next {
        /// Numbers skipped; 0 if it follows the last one.
        lost: u32,
    },
    /// The message is handed on: it is the first, or so far from the last that the numbers begin anew.
    Anew,
    /// The number was counted as lost, and later messages have been handed on since.
    Late,
    /// The number was seen before, or is too far behind to know.
    Repeated,
}

impl Arrival {
    /// Whether the caller hands the message on.
    #[must_use]
    pub const fn is_handed_on(self) -> bool {
        matches!(self, Self::Next { .. } | Self::Anew)
    }
}

/// Reception record of one publisher's topic; empty by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sequence {
    last: Option<u32>,
    last_came: Nanos,
    /// Bit n: the number n + 1 before the last one is missing, and was counted as lost.
    missing: u64,
    received: u64,
    lost: u64,
    late: u64,
    repeated: u64,
    begun_anew: u64,
}

impl Sequence {
    /// Classifies a number as if it arrived now, from a publisher with this announcement period, without counting it.
    #[must_use]
    pub fn look(&self, now: Nanos, period: Nanos, number: u32) -> Arrival {
        let Some(last) = self.last else { return Arrival::Anew };
        let ahead = number.wrapping_sub(last);
        if ahead == 0 {
            return Arrival::Repeated;
        }
        let behind = last.wrapping_sub(number);
        if ahead < 1 << 31 {
            let periods = now.saturating_sub(self.last_came).checked_div(period).unwrap_or(0).saturating_add(1);
            if u64::from(ahead) >= periods.saturating_mul(u64::from(JUMP)) {
                return Arrival::Anew;
            }
            return Arrival::Next { lost: ahead - 1 };
        }
        if behind >= JUMP {
            Arrival::Anew
        } else if 1_u64.checked_shl(behind - 1).is_some_and(|bit| self.missing & bit != 0) {
            Arrival::Late
        } else {
            Arrival::Repeated
        }
    }

    /// Counts a number that arrived, from a publisher with this announcement period. For a message in fragments call it on completion.
    pub fn take(&mut self, now: Nanos, period: Nanos, number: u32) -> Arrival {
        let arrival = self.look(now, period, number);
        match arrival {
            Arrival::Next { lost } => {
                let skipped = lost.checked_add(1).and_then(|ahead| self.missing.checked_shl(ahead)).unwrap_or(0);
                // The bits of the numbers between; the last one itself was not missing.
                let between = 1_u64.checked_shl(lost).map_or(u64::MAX, |bit| bit - 1);
                self.missing = skipped | between;
                self.lost = self.lost.saturating_add(u64::from(lost));
                self.received = self.received.saturating_add(1);
            }
            Arrival::Anew => {
                self.missing = 0;
                self.received = self.received.saturating_add(1);
                self.begun_anew = self.begun_anew.saturating_add(u64::from(self.last.is_some()));
            }
            Arrival::Late => {
                let behind = self.last.map_or(0, |last| last.wrapping_sub(number));
                self.missing &= !1_u64.checked_shl(behind.wrapping_sub(1)).unwrap_or(0);
                self.lost = self.lost.saturating_sub(1);
                self.late = self.late.saturating_add(1);
            }
            Arrival::Repeated => self.repeated = self.repeated.saturating_add(1),
        }
        if arrival.is_handed_on() {
            self.last = Some(number);
            self.last_came = now;
        }
        arrival
    }

    /// Whether a fragment of the message with that number is useful while `begun` is being reassembled: its message would be handed on, and
    /// is not older.
    #[must_use]
    pub fn takes_fragment(&self, now: Nanos, period: Nanos, number: u32, begun: Option<u32>) -> bool {
        let is_before = begun.is_some_and(|begun| is_shortly_before(number, begun));
        self.look(now, period, number).is_handed_on() && !is_before
    }

    /// Whether the unfinished message `begun` is lost: the last message handed on is not shortly before it.
    #[must_use]
    pub fn has_overtaken(&self, begun: u32) -> bool {
        self.last.is_some_and(|last| !is_shortly_before(last, begun))
    }

    /// The number last handed on.
    #[must_use]
    pub const fn last(&self) -> Option<u32> {
        self.last
    }

    /// Messages handed on.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Numbers that were skipped and have not arrived since.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Messages that arrived after a later one was handed on.
    #[must_use]
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Messages that arrived again, or too late to tell.
    #[must_use]
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Times that the numbers began anew.
    #[must_use]
    pub const fn begun_anew(&self) -> u64 {
        self.begun_anew
    }
}

/// Whether a number is before another one, yet not so far that numbers began anew.
const fn is_shortly_before(number: u32, other: u32) -> bool {
    let behind = other.wrapping_sub(number);
    0 < behind && behind < JUMP
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;
    use std::vec::Vec;

    use super::*;

    const PERIOD: Nanos = 1_000_000_000;

    /// Arrivals of numbers that come at once, and the resulting sequence.
    fn arrivals(numbers: &[u32]) -> (Vec<Arrival>, Sequence) {
        let mut sequence = Sequence::default();
        (numbers.iter().map(|&number| sequence.take(0, PERIOD, number)).collect(), sequence)
    }

    #[test]
    fn numbers_that_follow_each_other_are_handed_on_over_the_end_of_the_range() {
        let (arrivals, sequence) = arrivals(&[u32::MAX - 1, u32::MAX, 0, 1]);
        assert_eq!(arrivals[0], Arrival::Anew);
        assert_eq!(arrivals[1..], [Arrival::Next { lost: 0 }; 3]);
        assert_eq!((sequence.received(), sequence.lost()), (4, 0));
    }

    #[test]
    fn what_is_skipped_is_lost_until_it_comes_late_after_all() {
        let (arrivals, sequence) = arrivals(&[u32::MAX, 3, 1, 1, 3, u32::MAX]);
        let expected = [
            Arrival::Anew,
            Arrival::Next { lost: 3 },
            Arrival::Late,
            Arrival::Repeated,
            Arrival::Repeated,
            Arrival::Repeated,
        ];
        assert_eq!(arrivals, expected);
        assert_eq!((sequence.received(), sequence.lost(), sequence.late(), sequence.repeated()), (2, 2, 1, 3));
    }

    #[test]
    fn what_is_too_far_behind_to_be_remembered_stays_lost() {
        for (behind, expected) in [(63, Arrival::Late), (64, Arrival::Late), (65, Arrival::Repeated)] {
            let (arrivals, _) = arrivals(&[0, 200, 200 - behind]);
            assert_eq!(arrivals[2], expected, "{behind} behind");
        }
    }

    #[test]
    fn a_jump_counts_nothing_and_begins_anew() {
        for (from, to) in [(0, JUMP), (0, 1 << 31), (JUMP, 0), (5, JUMP + 5), (0, u32::MAX - JUMP)] {
            let (arrivals, sequence) = arrivals(&[from, to, to.wrapping_add(1)]);
            assert_eq!(arrivals[1..], [Arrival::Anew, Arrival::Next { lost: 0 }], "{from} to {to}");
            assert_eq!((sequence.lost(), sequence.begun_anew()), (0, 1));
        }
        let (arrivals, _) = arrivals(&[0, JUMP - 1, 0]);
        assert_eq!(arrivals[1..], [Arrival::Next { lost: JUMP - 2 }, Arrival::Repeated]);
    }

    #[test]
    fn a_publisher_that_was_silent_for_periods_may_have_lost_more_in_them() {
        let mut sequence = Sequence::default();
        sequence.take(0, PERIOD, 0);
        assert_eq!(sequence.look(2 * PERIOD - 1, PERIOD, 2 * JUMP), Arrival::Anew);
        assert_eq!(sequence.look(2 * PERIOD, PERIOD, 2 * JUMP), Arrival::Next { lost: 2 * JUMP - 1 });
        // A clock that stood still or went back, and a period of nothing, are no reason to fall.
        assert_eq!(sequence.look(0, 0, 1), Arrival::Next { lost: 0 });
        assert_eq!(sequence.look(Nanos::MAX, 1, (1 << 31) - 1), Arrival::Next { lost: (1 << 31) - 2 });
    }

    #[test]
    fn received_late_and_lost_are_all_numbers_there_were_whatever_the_network_did() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let first = random.u32(..);
            let mut numbers = Vec::new();
            for at in 0..500_u32 {
                let copies = [1, 1, 1, 0, 2][random.usize(0..5)];
                for _ in 0..copies {
                    numbers.push((at + random.u32(0..40), at));
                }
            }
            // The first one comes first, so that all others are ahead of it.
            numbers.sort_unstable();
            let mut sequence = Sequence::default();
            sequence.take(0, PERIOD, first.wrapping_sub(1));
            let mut handed_on = Vec::new();
            for &(_, at) in &numbers {
                if sequence.take(0, PERIOD, first.wrapping_add(at)).is_handed_on() {
                    handed_on.push(at);
                }
            }
            assert!(handed_on.is_sorted_by(|a, b| a < b), "seed {seed}");
            let came: BTreeSet<u32> = numbers.iter().map(|&(_, at)| at).collect();
            let last = u64::from(*handed_on.last().unwrap());
            let (received, late) = (sequence.received() - 1, sequence.late());
            assert_eq!(received + late + sequence.lost(), last + 1, "seed {seed}");
            assert_eq!(received + late, came.len() as u64, "seed {seed}");
            assert_eq!(received + late + sequence.repeated(), numbers.len() as u64, "seed {seed}");
        }
    }
}
