//! What was announced, until when that holds, and when to announce again.

use crate::Nanos;
use crate::wire::Announcement;

/// A peer that did not announce itself for so many of its periods is gone.
pub const PERIODS_UNTIL_GONE: u64 = 3;

const NANOS_PER_MS: u64 = 1_000_000;

/// What an announcement says of a peer, but for its name and its cookies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// Messages in 1,000 s; 0: not announced.
    pub rate: u32,
    /// Messages in 1,000 s, of the fastest one behind it.
    pub highest_rate: u32,
    /// Microseconds within which a message ought to be forwarded; 0: none.
    pub deadline_us: u32,
    /// How many end points are behind it.
    pub end_points: u32,
    /// Octets of the largest message that it sends, or takes.
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
    /// It is announced.
    #[must_use]
    pub const fn new(now: Nanos, announced: Announced) -> Self {
        let lasts = PERIODS_UNTIL_GONE.saturating_mul(period_nanos(announced.period_ms));
        Self { announced, until: now.saturating_add(lasts) }
    }

    /// It is announced again; says whether anything about it is new.
    pub fn renew(&mut self, now: Nanos, announced: Announced) -> bool {
        let is_new = self.announced != announced;
        *self = Self::new(now, announced);
        is_new
    }

    /// Something else has come from it that says that it is there, as an announcement would.
    pub const fn touch(&mut self, now: Nanos) {
        *self = Self::new(now, self.announced);
    }

    /// What was announced last.
    #[must_use]
    pub const fn announced(&self) -> &Announced {
        &self.announced
    }

    /// When it was announced last.
    #[must_use]
    pub const fn heard(&self) -> Nanos {
        self.until.saturating_sub(PERIODS_UNTIL_GONE * self.period())
    }

    /// When it is gone if it is not announced again.
    #[must_use]
    pub const fn until(&self) -> Nanos {
        self.until
    }

    /// Whether it is gone.
    #[must_use]
    pub const fn is_gone(&self, now: Nanos) -> bool {
        now >= self.until
    }

    /// Nanoseconds between two of its announcements.
    #[must_use]
    pub const fn period(&self) -> Nanos {
        period_nanos(self.announced.period_ms)
    }
}

/// Milliseconds of an announcement as nanoseconds.
#[must_use]
pub const fn period_nanos(period_ms: u16) -> Nanos {
    period_ms as Nanos * NANOS_PER_MS
}

/// What several announce together, as a broker tells it and an application asks for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// The sum of their rates, in messages in 1,000 s.
    pub rates: u32,
    /// The lowest rate that is announced; 0 if none is.
    pub lowest_rate: u32,
    /// The highest rate of a single one.
    pub highest_rate: u32,
    /// The shortest deadline in microseconds; 0 if there is none.
    pub deadline_us: u32,
    /// How many end points there are.
    pub end_points: u32,
}

impl Summary {
    /// One more counts. No sum goes beyond what a field can tell.
    pub fn add(&mut self, announced: &Announced) {
        let &Announced { rate, highest_rate, deadline_us, end_points, largest: _, period_ms: _ } = announced;
        self.rates = self.rates.saturating_add(rate);
        self.lowest_rate = shorter(self.lowest_rate, rate);
        self.highest_rate = self.highest_rate.max(rate_of_one(rate, highest_rate));
        self.deadline_us = shorter(self.deadline_us, deadline_us);
        self.end_points = self.end_points.saturating_add(end_points.max(1));
    }
}

/// The highest rate of a single one, if it is announced; it cannot be more than that of all.
const fn rate_of_one(rate: u32, highest: u32) -> u32 {
    if highest == 0 { rate } else { highest }
}

/// The lower of two numbers of which 0 means none.
const fn shorter(one: u32, other: u32) -> u32 {
    match (one, other) {
        (0, other) => other,
        (one, 0) => one,
        (one, other) if one < other => one,
        (_, other) => other,
    }
}

/// Chance, of a small generator (xorshift): so that peers that began together do not stay together.
#[derive(Debug, Clone, Copy)]
pub struct Chance(u64);

impl Chance {
    /// By a seed; each number is one.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        // Never 0, at which the generator would stay; and neighbours far apart.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below this one; 0 of none.
    pub const fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        match (self.0 >> 11).checked_rem(below) {
            Some(number) => number,
            None => 0,
        }
    }

    /// When to announce next: a period from now, less a random part of up to a quarter of it.
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
