//! From events to figures: rates, latencies, distributions. Pure arithmetic on what the consumers recorded.

use serde::Serialize;

use super::party::Sample;
use crate::clock;
use crate::latency::ratio;

/// A path that keeps up is never further behind than this. An event counts at the time at which it was due if it was processed
/// within this time of it, else so long before it was processed: so the rate of a path that keeps up is exactly that of its
/// supplier, wherever the window's ends fall and whatever jitter there is, and the rate of one that does not is that at
/// which it gets events done.
pub(super) const KEEPS_UP_WITHIN: u64 = clock::SECOND / 10;

/// A time from which and until which events count, on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: u64,
    pub(super) until: u64,
}

impl Window {
    fn has(&self, time: u64) -> bool {
        (self.from..self.until).contains(&time)
    }

    pub(super) fn seconds(&self) -> f64 {
        clock::seconds(self.until.saturating_sub(self.from))
    }

    /// How many events count in it.
    pub(super) fn processed(&self, samples: &[Sample]) -> usize {
        let counts_at = |sample: &Sample| sample.due.max(sample.processed.saturating_sub(KEEPS_UP_WITHIN));
        samples.iter().filter(|sample| self.has(counts_at(sample))).count()
    }

    /// Events delivered and processed a second.
    pub(super) fn rate(&self, samples: &[Sample]) -> f64 {
        if self.until <= self.from {
            return 0.0;
        }
        whole(self.processed(samples)) / self.seconds()
    }

    /// From each event's stamp to the end of the read that brought it, of those that were received in the window.
    pub(super) fn latencies(&self, samples: &[Sample]) -> Vec<u64> {
        self.of_received(samples, |sample| sample.received.saturating_sub(sample.sent))
    }

    /// The same from when each was due: contains its supplier's lateness, too.
    pub(super) fn latencies_from_schedule(&self, samples: &[Sample]) -> Vec<u64> {
        self.of_received(samples, |sample| sample.received.saturating_sub(sample.due))
    }

    fn of_received(&self, samples: &[Sample], of: impl Fn(&Sample) -> u64) -> Vec<u64> {
        samples.iter().filter(|sample| self.has(sample.received)).map(of).collect()
    }
}

/// One bar of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Bin {
    pub(crate) from_us: f64,
    pub(crate) percent: f64,
}

/// Bars in a decade.
pub(super) const BINS_A_DECADE: i32 = 10;

/// How latencies, in nanoseconds, are spread: bars with widths that grow by the same factor, from the one with the shortest to
/// the one with the longest.
pub(super) fn distribution(nanoseconds: &[u64]) -> Vec<Bin> {
    let index = |ns: u64| -> i32 {
        let place = ratio(ns.max(1), 1000).log10() * f64::from(BINS_A_DECADE);
        #[expect(clippy::cast_possible_truncation, reason = "the logarithm of a u64 is a small number")]
        let index = place.floor() as i32;
        index
    };
    let mut counts = std::collections::BTreeMap::new();
    for &ns in nanoseconds {
        *counts.entry(index(ns)).or_insert(0_usize) += 1;
    }
    let (Some((&first, _)), Some((&last, _))) = (counts.first_key_value(), counts.last_key_value()) else {
        return Vec::new();
    };
    let bin = |index: i32| Bin {
        from_us: 10_f64.powf(f64::from(index) / f64::from(BINS_A_DECADE)),
        percent: 100.0 * whole(counts.get(&index).copied().unwrap_or(0)) / whole(nanoseconds.len()),
    };
    (first..=last).map(bin).collect()
}

/// A count as a floating-point number.
pub(super) fn whole(count: usize) -> f64 {
    ratio(u64::try_from(count).unwrap_or(u64::MAX), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// An event that was due at this millisecond and processed at that one.
    fn sample(due: u64, processed: u64) -> Sample {
        Sample { due: due * MS, sent: due * MS, received: processed * MS, processed: processed * MS }
    }

    const SECOND: Window = Window { from: 1000 * MS, until: 2000 * MS };

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn a_path_that_keeps_up_has_its_suppliers_rate_whatever_its_delay_is() {
        for delay in [0, 3, 8, 57, 100] {
            let samples: Vec<_> = (0..300).map(|number| sample(10 * number, 10 * number + delay)).collect();
            assert!(close(SECOND.rate(&samples), 100.0), "delay of {delay} ms: {}", SECOND.rate(&samples));
        }
        // A stall of 50 ms across the window's end, after which the path catches up.
        let samples =
            (0..300).map(|number| 10 * number).map(|due| sample(due, if due < 1970 { due } else { due.max(2020) }));
        assert!(close(SECOND.rate(&samples.collect::<Vec<_>>()), 100.0));
    }

    #[test]
    fn a_path_that_falls_behind_has_the_rate_at_which_it_works() {
        // One event in 20 ms, ever further behind.
        let samples: Vec<_> = (0..300).map(|number| sample(10 * number, 20 * number + 10)).collect();
        assert!(close(SECOND.rate(&samples), 50.0), "{}", SECOND.rate(&samples));
        assert!(close(SECOND.rate(&[]), 0.0));
    }

    #[test]
    fn a_lost_event_is_missed() {
        let samples = (0..300).filter(|number| number % 4 != 0).map(|number| sample(10 * number, 10 * number));
        assert!(close(SECOND.rate(&samples.collect::<Vec<_>>()), 75.0));
    }

    #[test]
    fn latencies_are_those_of_what_was_received_in_the_window() {
        let samples = [sample(900, 999), sample(990, 1000), sample(1990, 1999), sample(1990, 2000)];
        assert_eq!(SECOND.latencies(&samples), [10 * MS, 9 * MS]);
        let late = Sample { due: 1000 * MS, ..sample(1500, 1501) };
        assert_eq!(SECOND.latencies_from_schedule(&[late]), [501 * MS]);
    }

    #[test]
    fn a_distribution_has_every_event_once_and_gaps_as_empty_bars() {
        let bins = distribution(&[1_000, 1_100, 10_000, 100_000]);
        assert_eq!(bins.len(), 21, "two decades and the bar of the longest");
        assert!(close(bins.iter().map(|bin| bin.percent).sum(), 100.0));
        assert!(close(bins[0].percent, 50.0) && close(bins[0].from_us, 1.0), "{:?}", bins[0]);
        assert!(close(bins[10].percent, 25.0) && close(bins[1].percent, 0.0));
        assert!(distribution(&[]).is_empty());
    }
}
