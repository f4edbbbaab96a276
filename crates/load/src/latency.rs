//! Latencies: recorded without keeping samples, reported as percentiles.

use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest latency recorded, in nanoseconds; longer ones count as this.
const HIGHEST: u64 = 600 * crate::clock::SECOND;

/// A histogram of durations in nanoseconds, exact to three significant digits.
#[derive(Debug, Clone)]
pub struct Recorder {
    histogram: Histogram<u64>,
}

impl Default for Recorder {
    /// An empty recorder. All its memory is allocated here, so that recording neither allocates nor fails.
    fn default() -> Self {
        // Only bounds that contradict each other are refused; these are constants.
        let histogram = Histogram::new_with_bounds(1, HIGHEST, 3).unwrap_or_else(|_| fallback());
        Self { histogram }
    }
}

impl Recorder {
    /// Adds one duration. A clock that went backwards would show as 0 ns, which counts as 1 ns.
    pub fn record(&mut self, nanoseconds: u64) {
        self.histogram.saturating_record(nanoseconds.max(1));
    }

    /// Adds the same duration `count` times.
    pub fn record_many(&mut self, nanoseconds: u64, count: u64) {
        self.histogram.saturating_record_n(nanoseconds.max(1), count);
    }

    /// The recorded durations, within the histogram's precision, and the count of each.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let recorded = self.histogram.iter_recorded();
        recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
    }

    /// Adds everything that `other` recorded.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds, so that nothing can be out of range.
        let _ = self.histogram.add(&other.histogram);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.histogram.reset();
    }

    /// Number of durations recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The quantile of the durations, in microseconds; 0 when nothing was recorded.
    pub fn quantile_us(&self, part: f64) -> f64 {
        microseconds(self.histogram.value_at_quantile(part))
    }

    /// The usual figures; `None` when nothing was recorded.
    pub fn percentiles(&self) -> Option<Percentiles> {
        (self.count() > 0).then(|| Percentiles {
            events: self.count(),
            min: microseconds(self.histogram.min()),
            median: microseconds(self.histogram.value_at_quantile(0.5)),
            p99: microseconds(self.histogram.value_at_quantile(0.99)),
            p999: microseconds(self.histogram.value_at_quantile(0.999)),
            max: microseconds(self.histogram.max()),
            mean: None,
            standard_deviation: None,
        })
    }
}

/// A histogram that grows by itself, for when fixed bounds are refused.
fn fallback() -> Histogram<u64> {
    let Ok(histogram) = Histogram::new(3) else {
        unreachable!("three significant digits are within hdrhistogram's range of 0 to 5");
    };
    histogram
}

/// Percentiles of a latency, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Number of events measured.
    pub events: u64,
    /// The shortest latency.
    #[serde(rename = "min_us")]
    pub min: f64,
    /// Half were at most this long.
    #[serde(rename = "median_us")]
    pub median: f64,
    /// 99 in 100 were at most this long.
    #[serde(rename = "p99_us")]
    pub p99: f64,
    /// 999 in 1000 were at most this long. From fewer than 1000 events, this is the longest.
    #[serde(rename = "p999_us")]
    pub p999: f64,
    /// The longest latency.
    #[serde(rename = "max_us")]
    pub max: f64,
    /// Mean, if single latencies were kept.
    #[serde(rename = "mean_us", skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Standard deviation, if single latencies were kept: the papers' jitter.
    #[serde(rename = "standard_deviation_us", skip_serializing_if = "Option::is_none")]
    pub standard_deviation: Option<f64>,
}

impl Percentiles {
    /// Exact figures of these latencies, in nanoseconds; `None` without any.
    pub fn of(nanoseconds: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut sorted: Vec<u64> = nanoseconds.into_iter().collect();
        sorted.sort_unstable();
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let events = u64::try_from(sorted.len()).ok()?;
        let figures = || sorted.iter().map(|&ns| microseconds(ns));
        let mean = figures().sum::<f64>() / ratio(events, 1);
        let variance = figures().map(|us| (us - mean) * (us - mean)).sum::<f64>() / ratio(events, 1);
        // The smallest that so many in a thousand do not exceed.
        let quantile = |per_thousand: usize| {
            let rank = (sorted.len() * per_thousand).div_ceil(1000).max(1);
            microseconds(sorted.get(rank - 1).copied().unwrap_or(0))
        };
        Some(Self {
            events,
            min: microseconds(min),
            median: quantile(500),
            p99: quantile(990),
            p999: quantile(999),
            max: microseconds(max),
            mean: Some(mean),
            standard_deviation: Some(variance.sqrt()),
        })
    }
}

/// One figure over several rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The median of the rounds' figures: of an even number of rounds, the mean of the two in the middle.
    pub median: f64,
    /// The smallest of the rounds' figures.
    pub min: f64,
    /// The largest of the rounds' figures.
    pub max: f64,
}

impl Spread {
    /// The spread of `figures`; `None` when there are none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let &upper = sorted.get(middle)?;
        let median = if sorted.len().is_multiple_of(2) {
            let &lower = sorted.get(middle.checked_sub(1)?)?;
            f64::midpoint(lower, upper)
        } else {
            upper
        };
        Some(Self { median, min, max })
    }
}

/// The ratio of two whole numbers, for reports.
pub fn ratio(above: u64, below: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds of a benchmark are far below 2^53")]
    let ratio = above as f64 / below as f64;
    ratio
}

fn microseconds(nanoseconds: u64) -> f64 {
    ratio(nanoseconds, 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_percentiles_in_microseconds() {
        let mut recorder = Recorder::default();
        for microsecond in 1..=10_000 {
            recorder.record(microsecond * 1000);
        }
        let figures = recorder.percentiles().unwrap();
        assert_eq!(figures.events, 10_000);
        for (figure, expected) in [
            (figures.min, 1.0),
            (figures.median, 5000.0),
            (figures.p99, 9900.0),
            (figures.p999, 9990.0),
            (figures.max, 10_000.0),
        ] {
            assert!((figure - expected).abs() <= expected * 0.002, "{figure} should be about {expected}");
        }
    }

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn figures_follow_their_definitions() {
        let latency = Percentiles::of((1..=1000).map(|us| us * 1000)).unwrap();
        assert_eq!(latency.events, 1000);
        for (figure, expected) in [
            (latency.min, 1.0),
            (latency.median, 500.0),
            (latency.mean.unwrap(), 500.5),
            (latency.p99, 990.0),
            (latency.p999, 999.0),
            (latency.max, 1000.0),
        ] {
            assert!(close(figure, expected), "{figure} instead of {expected}");
        }
        let even = Percentiles::of([1000, 3000, 1000, 3000]).unwrap();
        assert!(close(even.standard_deviation.unwrap(), 1.0), "{even:?}");
        assert!(close(Percentiles::of([7000]).unwrap().p999, 7.0));
        assert_eq!(Percentiles::of([]), None);
    }

    #[test]
    fn has_no_percentiles_of_nothing() {
        assert_eq!(Recorder::default().percentiles(), None);
    }

    #[test]
    fn counts_what_is_out_of_range_at_the_range_s_ends() {
        let mut recorder = Recorder::default();
        recorder.record(0);
        recorder.record(u64::MAX);
        let figures = recorder.percentiles().unwrap();
        assert_eq!(figures.events, 2);
        assert!(figures.max >= 600e6);
    }

    #[test]
    fn merges_and_clears() {
        let (mut one, mut two) = (Recorder::default(), Recorder::default());
        one.record(1000);
        two.record(3000);
        one.merge(&two);
        assert_eq!(one.count(), 2);
        one.clear();
        assert_eq!(one.count(), 0);
    }

    #[test]
    fn takes_the_median_of_odd_and_even_numbers_of_rounds() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of([]), None);
    }
}
