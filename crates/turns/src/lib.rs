//! Fair shares in virtual time (Bauer, Garcés-Erice, Rooney: *Tempo*, IV.B): the progress of each topic.
//!
//! The engine's lanes and the end points of Tempo take turns by the same arithmetic; each stores its topics, and finds
//! the next one, in its own way. Nothing here allocates.
//!
//! Virtual time is counted in picoseconds, in 128 bits, so that it never wraps. The fraction of 1/share is carried, so
//! that a topic with a share of 3 is at exactly 1 s after three messages, and no drift builds up however many follow.
//! With shares of at most 1,000,000, two multiples of two topics' 1/share are equal or at least a picosecond apart:
//! the order of deadlines is exact.

#![no_std]

use core::time::Duration;

const PICOS_PER_SECOND: u128 = 1_000_000_000_000;
const PICOS_PER_NANO: u128 = 1_000;

/// Virtual time, which advances with each message served.
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtualTime {
    now: u128,
    /// Counts up whenever no message waits any more.
    busy_period: u64,
}

impl VirtualTime {
    /// Virtual time 0.
    #[must_use]
    pub const fn new() -> Self {
        Self { now: 0, busy_period: 0 }
    }

    /// Picoseconds since 0.
    #[must_use]
    pub const fn now(&self) -> u128 {
        self.now
    }

    /// Serves a message of the topic with this share.
    pub fn serve(&mut self, share: &mut Share) {
        self.now = self.now.max(share.deadline());
        share.advance();
    }

    /// Ends the busy period, as no message waits any more: all topics begin anew.
    pub const fn rest(&mut self) {
        self.busy_period += 1;
    }
}

/// One topic's progress. `start` is where the share of its next message begins: each message advances it by 1/share.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    share: u128,
    /// The whole part of 1/share, and the remainder, in units of 1/`share` picosecond.
    step: u128,
    step_rest: u128,
    /// `None` for 1/share.
    deadline: Option<u128>,
    start: u128,
    start_rest: u128,
    /// The lane's busy period to which `start` belongs.
    busy_period: u64,
}

impl Share {
    /// A topic's share, in messages a second (1 if it is 0), and the virtual time from the beginning of its turn
    /// within which it is to be served; `None` for 1/share.
    #[must_use]
    pub fn new(share: u32, deadline: Option<Duration>) -> Self {
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
        new.set(share, deadline);
        new
    }

    /// Changes the settings. The progress so far stays.
    pub fn set(&mut self, share: u32, deadline: Option<Duration>) {
        self.share = u128::from(share.max(1));
        self.step = PICOS_PER_SECOND / self.share;
        self.step_rest = PICOS_PER_SECOND % self.share;
        self.deadline = deadline.map(|deadline| deadline.as_nanos().saturating_mul(PICOS_PER_NANO));
        self.start_rest = 0;
    }

    /// Notes a message for the topic, for which none waited. Unused turns are not saved up; turns taken in advance
    /// still count, as long as others have been waiting ever since.
    pub fn awake(&mut self, time: &VirtualTime) {
        if self.busy_period != time.busy_period || self.start < time.now {
            self.busy_period = time.busy_period;
            self.start = time.now;
            self.start_rest = 0;
        }
    }

    /// Deadline of its next message, in virtual time.
    #[must_use]
    pub fn deadline(&self) -> u128 {
        match self.deadline {
            Some(deadline) => self.start.saturating_add(deadline),
            None => self.next().0,
        }
    }

    /// Advances the start by one served message.
    pub fn advance(&mut self) {
        (self.start, self.start_rest) = self.next();
    }

    fn next(&self) -> (u128, u128) {
        let rest = self.start_rest + self.step_rest;
        let whole = u128::from(rest >= self.share);
        (self.start.saturating_add(self.step).saturating_add(whole), rest - whole * self.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(share: u32, deadline: Option<Duration>) -> Share {
        let mut share = Share::new(share, deadline);
        share.awake(&VirtualTime::new());
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
