//! Waiting times between attempts to reconnect to a service.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

/// Maximum wait before the second attempt; each further wait is at most twice the one before.
const FIRST: Duration = Duration::from_millis(20);

/// Computes when the next attempt may be made. The first failure costs no wait; from the second on waits double, up to a limit. Each is
/// shortened at random by up to half, so that the clients of a restarted service do not come all at once.
#[derive(Debug)]
pub struct Backoff {
    most: Duration,
    failures: u32,
    due: Option<Instant>,
    /// State of the random generator; never 0.
    seed: u64,
}

impl Backoff {
    /// A backoff with waits of at most `most`.
    #[must_use]
    pub fn up_to(most: Duration) -> Self {
        Self { most, failures: 0, due: None, seed: RandomState::new().build_hasher().finish() | 1 }
    }

    /// Notes a failed attempt, or a short-lived success. Returns the wait.
    pub fn failed(&mut self, now: Instant) -> Duration {
        let doublings = self.failures.checked_sub(1);
        self.failures = self.failures.saturating_add(1);
        let longest = doublings.map_or(Duration::ZERO, |doublings| {
            FIRST.checked_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).unwrap_or(self.most).min(self.most)
        });
        let wait = longest / 2 + (longest / 2).mul_f64(self.chance());
        self.due = now.checked_add(wait);
        wait
    }

    /// Notes a success.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.due = None;
    }

    /// Whether the wait is not over yet.
    #[must_use]
    pub fn is_waiting(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due > now)
    }

    /// A number from 0 to 1 (Marsaglia's xorshift).
    fn chance(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        f64::from(u32::try_from(self.seed >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit_and_begin_anew_after_a_success() {
        let now = Instant::now();
        let most = Duration::from_secs(1);
        for seed in 1..100 {
            let mut backoff = Backoff { seed, ..Backoff::up_to(most) };
            assert_eq!(backoff.failed(now), Duration::ZERO);
            assert!(!backoff.is_waiting(now));
            for longest in [20, 40, 80, 160, 320, 640, 1000, 1000].map(Duration::from_millis) {
                let wait = backoff.failed(now);
                assert!(wait >= longest / 2 && wait <= longest, "{wait:?} of {longest:?}");
                assert!(backoff.is_waiting(now) && !backoff.is_waiting(now + wait));
            }
            (0..100).for_each(|_| assert!(backoff.failed(now) <= most));
            backoff.succeeded();
            assert!(!backoff.is_waiting(now));
            assert_eq!(backoff.failed(now), Duration::ZERO);
        }
    }
}
