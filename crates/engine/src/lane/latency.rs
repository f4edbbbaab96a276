//! Latency of deliveries, as a histogram of fixed bounds.

use core::time::Duration;

/// Latency of deliveries: from an event's arrival until its consumer has answered or, without answers, until it was
/// written. Events of an earlier process, and those delivered from a channel's history, are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    counts: [u64; Self::BOUNDS_NS.len() + 1],
    sum_ns: u64,
}

impl Latency {
    /// Upper bounds of all buckets but the last, which has none: 50 microseconds to 50 seconds.
    pub const BOUNDS_NS: [u64; 19] = [
        50_000,
        100_000,
        200_000,
        500_000,
        1_000_000,
        2_000_000,
        5_000_000,
        10_000_000,
        20_000_000,
        50_000_000,
        100_000_000,
        200_000_000,
        500_000_000,
        1_000_000_000,
        2_000_000_000,
        5_000_000_000,
        10_000_000_000,
        20_000_000_000,
        50_000_000_000,
    ];

    /// Adds one latency.
    #[inline]
    pub(super) fn note(&mut self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = Self::BOUNDS_NS.partition_point(|bound| *bound < took);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum_ns = self.sum_ns.saturating_add(took);
    }

    /// Number of latencies up to each bound, and at last of all.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bounds = Self::BOUNDS_NS.into_iter().map(Some).chain([None]);
        bounds.zip(self.counts).scan(0, |so_far, (bound, count)| {
            *so_far += count;
            Some((bound, *so_far))
        })
    }

    /// Number of latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all latencies, in nanoseconds.
    #[must_use]
    pub const fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Latencies added since the state `before`.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        for (count, before) in self.counts.iter_mut().zip(&before.counts) {
            *count = count.saturating_sub(*before);
        }
        self.sum_ns = self.sum_ns.saturating_sub(before.sum_ns);
        self
    }

    /// Lowest bound that `per_cent` of the latencies do not exceed. `None` if there are none, or if it is beyond all bounds.
    #[must_use]
    pub fn quantile(&self, per_cent: u64) -> Option<u64> {
        let count = self.count();
        let mut reached = self.cumulative().filter(|(_, so_far)| count > 0 && so_far * 100 >= count * per_cent);
        reached.next()?.0
    }

    /// Adds the latencies of another lane.
    pub fn join(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn each_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let mut latency = Latency::default();
        for nanos in [0, 50_000, 50_001, 2_000_000, 50_000_000_000, 50_000_000_001] {
            latency.note(Duration::from_nanos(nanos));
        }
        let cumulative: Vec<_> = latency.cumulative().collect();
        let first = [(Some(50_000), 2), (Some(100_000), 3), (Some(200_000), 3)];
        assert_eq!(cumulative[..3], first);
        assert_eq!(cumulative[17..], [(Some(20_000_000_000), 4), (Some(50_000_000_000), 5), (None, 6)]);
        assert_eq!((latency.count(), latency.sum_ns()), (6, 100_002_100_002));
        let mut both = latency;
        both.join(&latency);
        assert_eq!((both.count(), both.sum_ns()), (12, 200_004_200_004));
        assert_eq!(both.since(&latency), latency);
        let bounds = [1, 50, 66, 83, 84].map(|per_cent| latency.quantile(per_cent));
        assert_eq!(bounds, [Some(50_000), Some(100_000), Some(2_000_000), Some(50_000_000_000), None]);
        assert_eq!(latency.since(&both).quantile(50), None);
    }
}
