//! What is measured, cell by cell: one contender in one scenario, over several rounds.

use std::collections::BTreeMap;

use serde::Serialize;

use super::contender::Scenario;
use crate::Spread;

/// Figures by name; the unit is the name's last part.
pub(super) type Figures = BTreeMap<&'static str, f64>;

/// One contender in one scenario.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// What was measured: `latency`, `throughput`, `steady state` or `fan-out`.
    pub experiment: &'static str,
    /// Who carried the events: a contender's key.
    pub contender: &'static str,
    /// Octets of payload of an event.
    pub payload_bytes: u32,
    /// How the publisher sent.
    pub supplier: String,
    /// How consumers were given their events.
    pub consumer: String,
    /// How many consumers there were,
    pub consumers: u32,
    /// in how many processes.
    pub processes: u32,
    /// Events a second; 0: as many as got through.
    pub rate: f64,
    /// Whether the cores were kept awake, with the server on the last and its publisher and subscribers on the first.
    pub pinned: bool,
    /// Why there are no figures, or why not all.
    pub note: Option<String>,
    /// Each figure over the rounds.
    pub figures: BTreeMap<&'static str, Spread>,
    /// Each round's figures.
    pub rounds: Vec<Figures>,
}

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
            note: None,
            figures: BTreeMap::new(),
            rounds: Vec::new(),
        }
    }

    /// Takes the spread of each figure over the rounds.
    pub(super) fn sum_up(&mut self) {
        let names: std::collections::BTreeSet<&'static str> =
            self.rounds.iter().flat_map(|round| round.keys().copied()).collect();
        let spread = |name| Some((name, Spread::of(self.rounds.iter().filter_map(|round| round.get(name).copied()))?));
        self.figures = names.into_iter().filter_map(spread).collect();
    }

    /// The median of a figure over the rounds.
    pub(super) fn median(&self, figure: &str) -> Option<f64> {
        self.figures.get(figure).map(|spread| spread.median)
    }
}

/// A figure of one cell divided by that of another, round by round, so that what the machine did in a round falls on both.
pub(super) fn ratio(above: Option<&Cell>, below: Option<&Cell>, figure: &str) -> Option<Spread> {
    let (above, below) = (above?, below?);
    let pairs = above.rounds.iter().zip(&below.rounds);
    Spread::of(pairs.filter_map(|(above, below)| {
        let below = *below.get(figure)?;
        (below > 0.0).then_some(*above.get(figure)? / below)
    }))
}

/// A straight line through points, by least squares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fit {
    /// Where it crosses 0.
    pub intercept: f64,
    /// By how much it rises for each unit.
    pub slope: f64,
    /// What part of the variance it explains.
    pub r_squared: f64,
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
        assert_eq!((cell.median("p50_us"), cell.median("p99_us")), (Some(2.0), None));
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        // In the second round the machine was ten times as slow, for both.
        let found = ratio(Some(&cell(&[2.0, 20.0, 3.0])), Some(&cell(&[1.0, 10.0, 1.0])), "p50_us").unwrap();
        assert_eq!(found, Spread { median: 2.0, min: 2.0, max: 3.0 });
        assert_eq!(ratio(Some(&cell(&[1.0])), None, "p50_us"), None);
        assert_eq!(ratio(Some(&cell(&[1.0])), Some(&cell(&[0.0])), "p50_us"), None);
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
