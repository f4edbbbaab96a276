//! What is measured, cell by cell: one contender in one scenario, over several rounds.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::contender::Scenario;
use super::pool::Pool;
use crate::Spread;
use crate::experiments::PairedRatio;

/// Figures by name; the unit is the name's last part.
pub(super) type Figures = BTreeMap<&'static str, f64>;

/// One contender in one scenario.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Cell {
    pub(crate) experiment: &'static str,
    pub(crate) contender: &'static str,
    pub(crate) beside: Option<&'static str>,
    pub(crate) payload_bytes: u32,
    pub(crate) supplier: String,
    pub(crate) consumer: String,
    pub(crate) consumers: u32,
    pub(crate) processes: u32,
    pub(crate) rate: f64,
    pub(crate) pinned: bool,
    pub(crate) note: Option<String>,
    pub(crate) figures: BTreeMap<&'static str, Spread>,
    pub(crate) pooled: Figures,
    pub(crate) rounds: Vec<Figures>,
    #[serde(skip)]
    pub(super) latencies: Option<Pool>,
}

/// What is counted and not a percentile, of rounds that are taken together.
const COUNTED: [&str; 4] = ["late_pushes", "lost", "repeated", "out_of_order"];

impl Cell {
    /// A cell without figures yet.
    pub(super) fn new(
        experiment: &'static str,
        contender: &'static str,
        scenario: &Scenario,
        rate: f64,
        pinned: bool,
    ) -> Self {
        Self {
            experiment,
            contender,
            payload_bytes: scenario.payload_bytes,
            supplier: scenario.supplier(),
            consumer: scenario.consume.describe(),
            consumers: scenario.consumers,
            processes: scenario.processes,
            rate,
            pinned,
            ..Self::default()
        }
    }

    /// Takes the spread of each figure over the rounds, and what is found of all rounds together.
    pub(super) fn sum_up(&mut self) {
        let names: std::collections::BTreeSet<&'static str> =
            self.rounds.iter().flat_map(|round| round.keys().copied()).collect();
        let spread = |name| Some((name, Spread::of(self.rounds.iter().filter_map(|round| round.get(name).copied()))?));
        self.figures = names.into_iter().filter_map(spread).collect();
        if let Some(latencies) = &self.latencies {
            let sum = |name| self.rounds.iter().filter_map(|round| round.get(name)).sum();
            self.pooled = COUNTED.into_iter().map(|name| (name, sum(name))).chain(latencies.figures()).collect();
        }
    }

    /// A figure: of all rounds together where they are pooled, else the median over the rounds.
    pub(super) fn figure(&self, name: &str) -> Option<f64> {
        self.pooled.get(name).copied().or_else(|| self.figures.get(name).map(|spread| spread.median))
    }
}

/// A figure of one cell divided by that of another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratio {
    /// Of the pooled figures where both are pooled; else the median of the rounds' ratios.
    pub(super) value: f64,
    /// From the least to the most,
    range: (f64, f64),
    /// which are:
    range_is: RangeIs,
    /// Rounds that both have, without those that are left out,
    kept: usize,
    /// and with them.
    rounds: usize,
}

/// What the range of a ratio is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RangeIs {
    /// That of all rounds, which are too few for an interval.
    Whole,
    /// The 95 % confidence interval of the rounds' median.
    OfMedian,
    /// The 95 % interval of what is found when rounds are drawn anew.
    OfPool,
}

impl Ratio {
    /// Divides round by round, so that what the machine did in a round falls on both; or what is pooled of the same rounds.
    pub(super) fn of(above: Option<&Cell>, below: Option<&Cell>, figure: &str) -> Option<Self> {
        let (above, below) = (above?, below?);
        let rounds = above.rounds.len().min(below.rounds.len());
        if let (Some(high), Some(low)) = (above.pooled.get(figure), below.pooled.get(figure))
            && let Some((above, below)) = above.latencies.as_ref().zip(below.latencies.as_ref())
            && *low > 0.0
        {
            let value = high / low;
            let range = above.interval_95(below, figure).unwrap_or((value, value));
            let kept = above.kept().min(below.kept());
            return Some(Self { value, range, range_is: RangeIs::OfPool, kept, rounds });
        }
        let figures =
            |cell: &Cell| cell.rounds.iter().map(|round| round.get(figure).copied()).collect::<Vec<Option<f64>>>();
        let found = PairedRatio::of(&figures(above), &figures(below))?;
        let all = Spread::of(found.pairs)?;
        let (range, range_is) = match found.interval_95 {
            Some(interval) => (interval, RangeIs::OfMedian),
            None => ((all.min, all.max), RangeIs::Whole),
        };
        Some(Self { value: found.median, range, range_is, kept: rounds, rounds })
    }
}

impl fmt::Display for Ratio {
    /// Its range, in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value: _, range: (from, to), range_is, kept, rounds } = self;
        match range_is {
            RangeIs::Whole => write!(f, "{from:.2} to {to:.2} over the rounds"),
            RangeIs::OfMedian => write!(f, "95 % interval {from:.2} to {to:.2}, {rounds} rounds"),
            RangeIs::OfPool => write!(f, "95 % interval {from:.2} to {to:.2}, {kept} of {rounds} rounds together"),
        }
    }
}

/// A straight line through points, by least squares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Fit {
    pub(crate) intercept: f64,
    pub(crate) slope: f64,
    pub(crate) r_squared: f64,
}

impl Fit {
    /// The line through these points; `None` of fewer than three, or where all are above each other.
    pub(super) fn of(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.iter().map(|_| 1.0).sum::<f64>();
        let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|point| of(point.0 - x, point.1 - y)).sum::<f64>();
        let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
        if points.len() < 3 || xx <= 0.0 {
            return None;
        }
        let slope = xy / xx;
        let r_squared = if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 };
        Some(Self { intercept: y - slope * x, slope, r_squared })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(figures: &[f64]) -> Cell {
        let mut cell = Cell::new("latency", "one", &Scenario::one_to_one(64), 250.0, false);
        cell.rounds = figures.iter().map(|&figure| Figures::from([("p50_us", figure)])).collect();
        cell.sum_up();
        cell
    }

    #[test]
    fn the_median_over_rounds_keeps_the_smallest_and_the_largest() {
        let cell = cell(&[3.0, 1.0, 2.0]);
        assert_eq!(cell.figures["p50_us"], Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!((cell.figure("p50_us"), cell.figure("p99_us")), (Some(2.0), None));
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        // In the second round the machine was ten times as slow, for both.
        let ratio = |above: &[f64], below: &[f64]| Ratio::of(Some(&cell(above)), Some(&cell(below)), "p50_us");
        let found = ratio(&[2.0, 20.0, 3.0], &[1.0, 10.0, 1.0]).unwrap();
        assert_eq!((found.value, found.to_string().as_str()), (2.0, "2.00 to 3.00 over the rounds"));
        assert_eq!(Ratio::of(Some(&cell(&[1.0])), None, "p50_us"), None);
        assert_eq!(ratio(&[1.0], &[0.0]), None);
    }

    #[test]
    fn of_many_rounds_an_interval_is_reported_which_one_disturbed_round_does_not_widen() {
        let mut above = [2.0; 12];
        above[7] = 90.0;
        let found = Ratio::of(Some(&cell(&above)), Some(&cell(&[1.0; 12])), "p50_us").unwrap();
        assert_eq!((found.value, found.to_string().as_str()), (2.0, "95 % interval 2.00 to 2.00, 12 rounds"));
    }

    #[test]
    fn what_is_pooled_goes_before_the_median_over_the_rounds() {
        let pooled = |latency: u64| {
            let mut cell = cell(&[9.0, 10.0, 11.0]);
            cell.rounds.iter_mut().for_each(|round| round.extend([("lost", 2.0)]));
            cell.latencies = Some(Pool::of_latencies(vec![vec![(latency * 1000, 10)]; 3]));
            cell.sum_up();
            cell
        };
        let (slow, fast) = (pooled(40), pooled(20));
        let figure = fast.figure("p50_us").unwrap();
        assert!((figure - 20.0).abs() < 0.1, "{figure}");
        assert_eq!((fast.figure("lost"), fast.figures["lost"].median), (Some(6.0), 2.0));
        let found = Ratio::of(Some(&slow), Some(&fast), "p50_us").unwrap();
        assert!((found.value - 2.0).abs() < 0.01, "{found:?}");
        assert_eq!(found.to_string(), "95 % interval 2.00 to 2.00, 3 of 3 rounds together");
        // Rounds are not compared with the pool of another contender.
        let apart = Ratio::of(Some(&slow), Some(&cell(&[1.0; 3])), "p50_us").unwrap();
        assert!((apart.value - 10.0).abs() < 1e-9, "{apart:?}");
    }

    #[test]
    fn fits_a_line_and_says_how_well() {
        let line = Fit::of(&[(1.0, 5.0), (10.0, 23.0), (100.0, 203.0)]).unwrap();
        assert!((line.slope - 2.0).abs() < 1e-9 && (line.intercept - 3.0).abs() < 1e-9);
        assert!((line.r_squared - 1.0).abs() < 1e-9);
        let scattered = Fit::of(&[(1.0, 1.0), (2.0, 9.0), (3.0, 2.0)]).unwrap();
        assert!(scattered.r_squared < 0.1);
        assert_eq!(Fit::of(&[(1.0, 5.0), (2.0, 6.0)]), None);
        assert_eq!(Fit::of(&[(1.0, 5.0), (1.0, 6.0), (1.0, 7.0)]), None);
    }
}
