//! The rate limit of a group's datagrams.

use crate::Nanos;

const SECOND: u64 = 1_000_000_000;
/// Maximum burst after a pause, as time in ns at the rate.
const BURST: Nanos = 10_000_000;

/// A token bucket: a rate in octets a second, with bursts of 10 ms (or one datagram).
#[derive(Debug)]
pub struct Pace {
    octets_per_s: u64,
    /// Time at which the bucket is full again.
    full_at: Nanos,
}

impl Pace {
    /// Creates a full bucket with this rate in octets a second, at least 1.
    #[must_use]
    pub const fn new(octets_per_s: u64) -> Self {
        Self { octets_per_s: if octets_per_s == 0 { 1 } else { octets_per_s }, full_at: 0 }
    }

    /// Takes octets from the bucket.
    ///
    /// # Errors
    /// When the bucket is empty: the time at which to try again.
    pub fn take(&mut self, octets: usize, now: Nanos) -> Result<(), Nanos> {
        let from = self.full_at.max(now);
        if from > now.saturating_add(BURST) {
            return Err(from - BURST);
        }
        let takes = (octets as u64).saturating_mul(SECOND) / self.octets_per_s;
        self.full_at = from.saturating_add(takes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_a_second_no_more_passes_than_the_rate_and_a_burst() {
        let mut pace = Pace::new(1_000_000);
        let (mut now, mut passed) = (5 * SECOND, 0);
        while now < 6 * SECOND {
            match pace.take(1_000, now) {
                Ok(()) => passed += 1_000,
                Err(at) => {
                    assert!(at > now);
                    now = at;
                }
            }
        }
        assert!((1_000_000..=1_012_000).contains(&passed), "{passed}");
    }

    #[test]
    fn one_datagram_passes_whatever_its_size() {
        let mut pace = Pace::new(1);
        assert_eq!(pace.take(65_000, 0), Ok(()));
        assert_eq!(pace.take(1, SECOND), Err(65_000 * SECOND - BURST));
    }
}
