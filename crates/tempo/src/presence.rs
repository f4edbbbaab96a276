//! Announcements of peers, their expiry, and the time of our next one.

use crate::Nanos;
use crate::wire::Announcement;

/// Periods without an announcement after which a peer is gone.
pub const PERIODS_UNTIL_GONE: u64 = 3;

const NANOS_PER_MS: u64 = 1_000_000;

/// A peer's announcement, without its name and its cookies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// Messages in 1,000 s; 0: not announced.
    pub rate: u32,
    /// Messages in 1,000 s of the fastest end point behind it.
    pub highest_rate: u32,
    /// Microseconds within which a message should be forwarded; 0: none.
    pub deadline_us: u32,
    /// Number of end points behind it.
    pub end_points: u32,
    /// Octets of the largest message that it sends or accepts.
    pub largest: u32,
    /// Milliseconds between two announcements.
    pub period_ms: u16,
}

impl From<&Announcement<'_>> for Announced {
    fn from(from: &Announcement<'_>) -> Self {
        let &Announcement {
            given: _,
            returned: _,
            rate,
            highest_rate,
            deadline_us,
            end_points,
            largest,
            period_ms,
            role: _,
            name: _,
        } = from;
        Self { rate, highest_rate, deadline_us, end_points, largest, period_ms }
    }
}

/// One peer's topic and role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presence {
    announced: Announced,
    until: Nanos,
}

impl Presence {
    /// A first announcement.
    #[must_use]
    pub const fn new(now: Nanos, announced: Announced) -> Self {
        let lasts = PERIODS_UNTIL_GONE.saturating_mul(period_nanos(announced.period_ms));
        Self { announced, until: now.saturating_add(lasts) }
    }

    /// Notes another announcement; returns whether anything has changed.
    pub fn renew(&mut self, now: Nanos, announced: Announced) -> bool {
        let is_new = self.announced != announced;
        *self = Self::new(now, announced);
        is_new
    }

    /// Notes another sign of life, which counts as an announcement.
    pub const fn touch(&mut self, now: Nanos) {
        *self = Self::new(now, self.announced);
    }

    /// The last announcement.
    #[must_use]
    pub const fn announced(&self) -> &Announced {
        &self.announced
    }

    /// Time of the last announcement.
    #[must_use]
    pub const fn heard(&self) -> Nanos {
        self.until.saturating_sub(PERIODS_UNTIL_GONE * self.period())
    }

    /// Time at which it expires unless it is announced again.
    #[must_use]
    pub const fn until(&self) -> Nanos {
        self.until
    }

    /// Whether the peer has expired.
    #[must_use]
    pub const fn is_gone(&self, now: Nanos) -> bool {
        now >= self.until
    }

    /// Nanoseconds between two announcements of the peer.
    #[must_use]
    pub const fn period(&self) -> Nanos {
        period_nanos(self.announced.period_ms)
    }
}

/// Converts an announcement's milliseconds to nanoseconds.
#[must_use]
pub const fn period_nanos(period_ms: u16) -> Nanos {
    period_ms as Nanos * NANOS_PER_MS
}

/// Announcements of several end points added up, as a broker announces them and an application reads them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// The sum of the rates, in messages in 1,000 s.
    pub rates: u32,
    /// The lowest announced rate; 0 without one.
    pub lowest_rate: u32,
    /// The highest rate of a single end point.
    pub highest_rate: u32,
    /// The shortest deadline in microseconds; 0 without one.
    pub deadline_us: u32,
    /// Number of end points.
    pub end_points: u32,
}

impl Summary {
    /// Adds an announcement. Sums saturate at the largest value that a field can hold.
    pub fn add(&mut self, announced: &Announced) {
        let &Announced { rate, highest_rate, deadline_us, end_points, largest: _, period_ms: _ } = announced;
        self.rates = self.rates.saturating_add(rate);
        self.lowest_rate = shorter(self.lowest_rate, rate);
        self.highest_rate = self.highest_rate.max(rate_of_one(rate, highest_rate));
        self.deadline_us = shorter(self.deadline_us, deadline_us);
        self.end_points = self.end_points.saturating_add(end_points.max(1));
    }
}

/// The highest rate of a single end point, if announced; limited to the sum of the rates.
const fn rate_of_one(rate: u32, highest: u32) -> u32 {
    if highest == 0 { rate } else { highest }
}

/// The lower of two numbers, where 0 means none.
const fn shorter(one: u32, other: u32) -> u32 {
    match (one, other) {
        (0, other) => other,
        (one, 0) => one,
        (one, other) if one < other => one,
        (_, other) => other,
    }
}

/// A small random number generator (xorshift), so that peers that began together do not stay in step.
#[derive(Debug, Clone, Copy)]
pub struct Chance(u64);

impl Chance {
    /// Seeds the generator; each number is a valid seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        // Never 0, at which the generator would stay; and neighbours far apart.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A random number below this one; 0 if that is 0.
    pub const fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        match (self.0 >> 11).checked_rem(below) {
            Some(number) => number,
            None => 0,
        }
    }

    /// Time of the next announcement: a period from now, less a random part of up to a quarter of it.
    pub const fn next_announcement(&mut self, now: Nanos, period_ms: u16) -> Nanos {
        let period = period_nanos(period_ms);
        now.saturating_add(period - self.below(period / 4 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = NANOS_PER_MS;

    fn announced(rate: u32) -> Announced {
        Announced { rate, highest_rate: 0, deadline_us: 0, end_points: 1, largest: 100, period_ms: 100 }
    }

    #[test]
    fn what_was_announced_holds_for_three_of_its_periods() {
        let mut presence = Presence::new(0, announced(1));
        assert!(!presence.is_gone(300 * MS - 1) && presence.is_gone(300 * MS));
        assert!(!presence.renew(200 * MS, announced(1)));
        assert!(!presence.is_gone(500 * MS - 1) && presence.is_gone(500 * MS));
        assert!(presence.renew(200 * MS, Announced { period_ms: 1_000, ..announced(1) }));
        assert_eq!(presence.until(), 3_200 * MS);
        assert_eq!(Presence::new(Nanos::MAX - 1, announced(1)).until(), Nanos::MAX);
    }

    #[test]
    fn a_summary_has_the_sum_the_lowest_and_the_highest_and_no_sum_overflows() {
        let mut summary = Summary::default();
        for (rate, highest_rate, deadline_us, end_points) in [(0, 0, 0, 0), (7, 5, 300, 2), (3, 0, 200, 1)] {
            summary.add(&Announced { highest_rate, deadline_us, end_points, ..announced(rate) });
        }
        let expected = Summary { rates: 10, lowest_rate: 3, highest_rate: 5, deadline_us: 200, end_points: 4 };
        assert_eq!(summary, expected);
        summary.add(&Announced { end_points: u32::MAX, ..announced(u32::MAX) });
        assert_eq!((summary.rates, summary.end_points, summary.lowest_rate), (u32::MAX, u32::MAX, 3));
    }

    #[test]
    fn announcements_come_early_by_up_to_a_quarter_and_not_all_alike() {
        for seed in [0, 1, 2, u64::MAX] {
            let mut chance = Chance::new(seed);
            let (mut first, mut last) = (Nanos::MAX, 0);
            for _ in 0..1_000 {
                let next = chance.next_announcement(5, 1_000) - 5;
                assert!((750 * MS..=1_000 * MS).contains(&next), "{next}");
                (first, last) = (first.min(next), last.max(next));
            }
            assert!(first < 760 * MS && last > 990 * MS, "seed {seed}: {first} to {last}");
        }
        assert_ne!(Chance::new(0).below(1 << 40), Chance::new(1).below(1 << 40));
    }
}
