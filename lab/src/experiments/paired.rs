//! Two contenders that take short turns, compared turn by turn.
//!
//! What else the machine does changes from second to second by more than the differences that are looked for. Two turns that
//! follow each other closely meet about the same of it, so the ratio of their figures has little of it; the median of many
//! such ratios is the figure, and how far it can be trusted is shown by an interval that assumes nothing of how they are spread.

use serde::Serialize;
use serde_json::{Value, json};

use super::{Aim, quotient};

/// How often an interval is to miss the true median at most.
const MISSES_AT_MOST: f64 = 0.05;

/// A figure of one contender divided by that of another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PairedRatio {
    pub(crate) median: f64,
    pub(crate) interval_95: Option<(f64, f64)>,
    pub(crate) pairs: Vec<f64>,
}

impl PairedRatio {
    /// Divides turn by turn; a pair of which one has no figure is left out. `None` where no pair is left.
    pub(crate) fn of(above: &[Option<f64>], below: &[Option<f64>]) -> Option<Self> {
        let pairs: Vec<f64> = above.iter().zip(below).filter_map(|(&above, &below)| quotient(above, below)).collect();
        let mut sorted = pairs.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let median = crate::Spread::of(sorted.iter().copied())?.median;
        let interval_95 = interval_rank(sorted.len())
            .and_then(|rank| Some((*sorted.get(rank - 1)?, *sorted.get(sorted.len() - rank)?)));
        Some(Self { median, interval_95, pairs })
    }

    /// Its median and interval, as reports have them.
    pub(super) fn in_figures(&self) -> Value {
        let (from, to) = self.interval_95.unzip();
        json!({"median": self.median, "from": from, "to": to})
    }

    /// Judges that it is small, by the median.
    pub(super) fn at_most(ratio: Option<&Self>, aim: &str, bound: f64) -> Aim {
        let judged = super::at_most(aim, ratio.map(|ratio| ratio.median), bound);
        let Some(Self { interval_95, pairs, .. }) = ratio else { return judged };
        let interval = match interval_95 {
            Some((from, to)) => format!("95 % interval {from:.3} to {to:.3}"),
            None => "too few for an interval".to_owned(),
        };
        Aim { found: format!("{} ({interval}, {} pairs)", judged.found, pairs.len()), ..judged }
    }
}

/// The rank, from either end, of the sorted values that bound the median in 95 % of all cases: the largest `rank` for which fewer
/// than `rank` of `count` tosses of a coin are heads in at most 2.5 % of all cases.
fn interval_rank(count: usize) -> Option<usize> {
    let tosses = u32::try_from(count).ok()?;
    let mut probability = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut cumulated = 0.0;
    let mut rank = 0;
    for heads in 0..tosses {
        cumulated += probability;
        if 2.0 * cumulated > MISSES_AT_MOST {
            break;
        }
        rank += 1;
        probability *= f64::from(tosses - heads) / f64::from(heads + 1);
    }
    (rank > 0).then_some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_published_tables() {
        // Conover, Practical Nonparametric Statistics, table A3 (p = 0.5): coverage of at least 95 %.
        for (count, rank) in [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8), (40, 14), (100, 40)] {
            assert_eq!(interval_rank(count), Some(rank), "{count} pairs");
        }
        assert_eq!(interval_rank(5), None);
        assert_eq!(interval_rank(0), None);
    }

    #[test]
    fn one_disturbed_pair_does_not_move_the_figure() {
        let below = [Some(10.0); 9];
        let mut above = [Some(10.2); 9];
        above[3] = Some(10.1);
        above[4] = Some(1000.0);
        let ratio = PairedRatio::of(&above, &below).unwrap();
        assert!((ratio.median - 1.02).abs() < 1e-9, "{ratio:?}");
        let (from, to) = ratio.interval_95.unwrap();
        assert!((from - 1.02).abs() < 1e-9 && (to - 1.02).abs() < 1e-9, "{ratio:?}");
        assert_eq!(ratio.pairs.len(), 9);
    }

    #[test]
    fn a_pair_without_a_figure_is_left_out() {
        let ratio = PairedRatio::of(&[Some(2.0), None, Some(4.0)], &[Some(1.0), Some(1.0), None]).unwrap();
        assert_eq!((ratio.median, ratio.interval_95, ratio.pairs), (2.0, None, vec![2.0]));
        assert_eq!(PairedRatio::of(&[None], &[Some(1.0)]), None);
    }

    #[test]
    fn the_aim_is_judged_by_the_median_and_tells_the_interval() {
        let figures = |from: u32| (0..10).map(|more| Some(f64::from(from + more))).collect::<Vec<_>>();
        let ratio = PairedRatio::of(&figures(100), &[Some(100.0); 10]);
        let aim = PairedRatio::at_most(ratio.as_ref(), "aim", 1.05);
        assert_eq!(aim.found, "1.045 × (95 % interval 1.010 to 1.080, 10 pairs)");
        assert_eq!(aim.met, Some(true));
        assert_eq!(PairedRatio::at_most(ratio.as_ref(), "aim", 1.04).met, Some(false));
        assert_eq!(PairedRatio::at_most(None, "aim", 1.04).met, None);
    }
}
