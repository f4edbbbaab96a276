//! How far a topic is with its share, in virtual time.
//!
//! Virtual time is counted in picoseconds, in 128 bits, so that it never wraps. What of 1/share is not whole is carried, so
//! that a topic with a share of 3 is at exactly 1 s after three messages, and no drift builds up however many follow. With
//! shares of at most 1,000,000, two multiples of two topics' 1/share are equal or at least a picosecond apart: the order of
//! deadlines is exact.

use core::time::Duration;

use crate::TopicSettings;

const PICOS_PER_SECOND: u128 = 1_000_000_000_000;
const PICOS_PER_NANO: u128 = 1_000;

/// One topic's progress. `start` is where the share of its next message begins: each message moves it on by 1/share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    share: u128,
    /// The whole part of 1/share, and what is left of it, in parts of `share`.
    step: u128,
    step_rest: u128,
    /// `None`: 1/share.
    deadline: Option<u128>,
    start: u128,
    start_rest: u128,
    /// In which busy period of the lane `start` was.
    busy_period: u64,
}

impl Share {
    pub(super) fn new(settings: &TopicSettings) -> Self {
        let mut new = Self {
            share: 1,
            step: 0,
            step_rest: 0,
            deadline: None,
            start: 0,
            start_rest: 0,
            // None yet.
            busy_period: u64::MAX,
        };
        new.set(settings);
        new
    }

    /// Takes over changed settings. What the topic has had stays had.
    pub(super) fn set(&mut self, settings: &TopicSettings) {
        self.share = u128::from(settings.share.max(1));
        self.step = PICOS_PER_SECOND / self.share;
        self.step_rest = PICOS_PER_SECOND % self.share;
        self.deadline = settings.deadline.map(|deadline| nanos(deadline).saturating_mul(PICOS_PER_NANO));
        self.start_rest = 0;
    }

    /// A message comes to the topic, for which none waited. It cannot have saved up what it did not use; and what it had
    /// beforehand still counts, as long as others have been waiting ever since.
    pub(super) fn awake(&mut self, virtual_time: u128, busy_period: u64) {
        if self.busy_period != busy_period || self.start < virtual_time {
            self.busy_period = busy_period;
            self.start = virtual_time;
            self.start_rest = 0;
        }
    }

    /// By when, in virtual time, its next message is to be served.
    pub(super) fn deadline(&self) -> u128 {
        match self.deadline {
            Some(deadline) => self.start.saturating_add(deadline),
            None => self.next().0,
        }
    }

    /// One of its messages is served.
    pub(super) fn advance(&mut self) {
        (self.start, self.start_rest) = self.next();
    }

    fn next(&self) -> (u128, u128) {
        let rest = self.start_rest + self.step_rest;
        let whole = u128::from(rest >= self.share);
        (self.start.saturating_add(self.step).saturating_add(whole), rest - whole * self.share)
    }
}

fn nanos(duration: Duration) -> u128 {
    duration.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(share: u32, deadline: Option<Duration>) -> Share {
        let mut share = Share::new(&TopicSettings { share, deadline, ..TopicSettings::default() });
        share.awake(0, 0);
        share
    }

    #[test]
    fn as_many_messages_as_the_share_take_exactly_a_second() {
        for rate in [1, 3, 7, 999_983, 1_000_000] {
            let mut share = of(rate, None);
            for _ in 0..rate {
                share.advance();
            }
            assert_eq!((share.start, share.start_rest), (PICOS_PER_SECOND, 0), "{rate} messages a second");
        }
    }

    #[test]
    fn a_deadline_moves_with_the_share_and_not_with_itself() {
        let mut share = of(2, Some(Duration::from_millis(100)));
        let deadlines: [u128; 3] = core::array::from_fn(|_| {
            let deadline = share.deadline();
            share.advance();
            deadline / (PICOS_PER_SECOND / 1_000)
        });
        assert_eq!(deadlines, [100, 600, 1_100]);
    }

    #[test]
    fn deadlines_of_different_shares_are_in_their_exact_order() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..2_000 {
            let rates = [random.u32(1..=1_000_000), random.u32(1..=1_000_000)];
            let counts = [random.u32(1..=3_000), random.u32(1..=3_000)];
            let deadlines: [u128; 2] = core::array::from_fn(|at| {
                let mut share = of(rates[at], None);
                (1..counts[at]).for_each(|_| share.advance());
                share.deadline()
            });
            // a/r against b/s, as fractions.
            let exact = (u64::from(counts[0]) * u64::from(rates[1])).cmp(&(u64::from(counts[1]) * u64::from(rates[0])));
            assert_eq!(deadlines[0].cmp(&deadlines[1]), exact, "{counts:?} of {rates:?}");
        }
    }
}
