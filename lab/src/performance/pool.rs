//! Latencies of several short turns of a contender taken together: a turn alone has too few events for a 99.9th percentile.
//!
//! A host that stalls the machine for a tenth of a second would decide that of all turns, whichever contender has its turn then; so a
//! few turns, those that were worst, are left out of each contender's. Where contenders have their turns at the same time, what
//! stalls one stalls the other, and none is left out. How far the ratio of two contenders can be trusted is shown by
//! an interval that takes turns, and not events, to be independent: a stall makes many events late at once.

use super::cells::Figures;
use super::course::Outcome;
use super::ends::Received;
use crate::latency::{Recorder, ratio};

/// Figures of latencies from when events were due, and which part of the latencies does not exceed each.
const SINCE_DUE: [(&str, f64); 5] =
    [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p999_us", 0.999), ("max_us", 1.0)];

/// The same from when they were sent.
const SINCE_SENT: [(&str, f64); 5] =
    [("sent_p50_us", 0.5), ("sent_p90_us", 0.9), ("sent_p99_us", 0.99), ("sent_p999_us", 0.999), ("sent_max_us", 1.0)];

/// The 99.9th percentile from when events were due, with no turn left out.
pub(super) const P999_OF_ALL: &str = "p999_of_all_us";

/// One turn in so many is left out: those with the largest 99.9th percentile.
const LEFT_OUT: usize = 5;

/// How often turns are drawn anew to find an interval.
const DRAWS: usize = 1000;

/// The first seed of the draws: the same report always tells the same interval.
const SEED: u64 = 0x0063_616d_7061_6e69;

/// Which turns are taken together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Kept {
    /// All but one in five.
    #[default]
    ButTheWorst,
    All,
}

impl Kept {
    const fn of(self, turns: usize) -> usize {
        match self {
            Self::ButTheWorst => turns - turns / LEFT_OUT,
            Self::All => turns,
        }
    }
}

/// Latencies, turn by turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    keeps: Kept,
    since_due: Vec<Counts>,
    since_sent: Vec<Counts>,
}

/// Latencies of a turn: nanoseconds and how often, as the histogram tells them apart.
pub(crate) type Counts = Vec<(u64, u64)>;

impl Pool {
    /// One without turns.
    pub(super) const fn new(keeps: Kept) -> Self {
        Self { keeps, since_due: Vec::new(), since_sent: Vec::new() }
    }

    /// Adds a turn.
    pub(super) fn push(&mut self, outcome: &Outcome) {
        self.since_due.push(outcome.since_due().counts());
        self.since_sent.push(outcome.since_sent().counts());
    }

    /// How many turns there are, without those that are left out.
    pub(super) const fn kept(&self) -> usize {
        self.keeps.of(self.since_due.len())
    }

    /// The percentiles of all turns together, without those that are left out; but the longest latency is that of all, and so is
    /// [`P999_OF_ALL`].
    pub(super) fn figures(&self) -> Figures {
        let all = percentiles(&together(self.since_due.iter()), &together(self.since_sent.iter()));
        let mut times = vec![1; self.since_due.len()];
        Sorted::of(self.since_due.iter(), self.keeps).leave_out(&mut times);
        let of = |turns: &[Counts]| {
            together(turns.iter().zip(&times).filter(|(_, times)| **times > 0).map(|(turn, _)| turn))
        };
        let mut figures = percentiles(&of(&self.since_due), &of(&self.since_sent));
        for longest in ["max_us", "sent_max_us"] {
            figures.extend(all.get_key_value(longest));
        }
        figures.extend(all.get("p999_us").map(|all| (P999_OF_ALL, *all)));
        figures
    }

    /// The [`interval_95`] of the ratio of two pools' figures. `None` where there is no such percentile.
    pub(super) fn interval_95(&self, below: &Self, figure: &str) -> Option<(f64, f64)> {
        let part = |names: [(&str, f64); 5]| names.into_iter().find(|(name, _)| *name == figure).map(|(_, part)| part);
        match part(SINCE_DUE) {
            Some(part) => interval_95([(&self.since_due, self.keeps), (&below.since_due, below.keeps)], part),
            None => interval_95([(&self.since_sent, self.keeps), (&below.since_sent, below.keeps)], part(SINCE_SENT)?),
        }
    }
}

/// Between what the ratio of the first turns' percentile to the second ones' lies in 95 % of 1,000 draws: as many turns as there were
/// are drawn, some of them several times, the same of both; of each the worst are left out and the others taken together (a
/// bootstrap of whole turns). `None` of fewer than two turns.
pub(crate) fn interval_95(both: [(&[Counts], Kept); 2], part: f64) -> Option<(f64, f64)> {
    let turns = both.iter().map(|(turns, _)| turns.len()).min().filter(|turns| *turns >= 2)?;
    let [above, below] = both.map(|(all, keeps)| Sorted::of(all.iter().take(turns), keeps));
    let mut numbers = Numbers(SEED);
    let mut ratios = Vec::new();
    for _ in 0..DRAWS {
        let drawn = numbers.draw(turns);
        if let (Some(above), Some(below)) = (above.of_kept(part, &drawn), below.of_kept(part, &drawn)) {
            ratios.push(ratio(above, below.max(1)));
        }
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let beyond = ratios.len() / 40;
    Some((*ratios.get(beyond)?, *ratios.get(ratios.len().checked_sub(beyond + 1)?)?))
}

fn together<'a>(turns: impl Iterator<Item = &'a Counts>) -> Recorder {
    Received::recorder(turns.map(Vec::as_slice))
}

#[cfg(test)]
impl Pool {
    /// A pool of these turns' latencies from when events were due.
    pub(super) const fn of_latencies(since_due: Vec<Counts>) -> Self {
        Self { keeps: Kept::ButTheWorst, since_due, since_sent: Vec::new() }
    }
}

/// The percentiles of these latencies; none of nothing.
pub(super) fn percentiles(since_due: &Recorder, since_sent: &Recorder) -> Figures {
    let mut figures = Figures::new();
    for (latencies, names) in [(since_due, SINCE_DUE), (since_sent, SINCE_SENT)] {
        if latencies.count() > 0 {
            figures.extend(names.map(|(name, part)| (name, latencies.quantile_us(part))));
        }
    }
    figures
}

/// Latencies of several turns in falling order, since most that is asked for is near the upper end.
struct Sorted {
    /// Nanoseconds, of which turn, and how often there.
    falling: Vec<(u64, usize, u64)>,
    /// Latencies in each turn.
    turns: Vec<u64>,
    /// The turns, the one with the largest 99.9th percentile first.
    worst_first: Vec<usize>,
    keeps: Kept,
}

impl Sorted {
    fn of<'a>(turns: impl Iterator<Item = &'a Counts>, keeps: Kept) -> Self {
        let mut sorted = Self { falling: Vec::new(), turns: Vec::new(), worst_first: Vec::new(), keeps };
        for (turn, counts) in turns.enumerate() {
            sorted.falling.extend(counts.iter().map(|&(nanoseconds, count)| (nanoseconds, turn, count)));
            sorted.turns.push(counts.iter().map(|(_, count)| count).sum());
        }
        sorted.falling.sort_unstable_by(|one, other| other.cmp(one));
        let count = sorted.turns.len();
        let p999 = |turn: usize| {
            let alone: Vec<u64> = (0..count).map(|other| u64::from(other == turn)).collect();
            sorted.quantile(0.999, &alone)
        };
        let mut worst: Vec<(Option<u64>, usize)> = (0..count).map(|turn| (p999(turn), turn)).collect();
        worst.sort_unstable_by(|one, other| other.cmp(one));
        sorted.worst_first = worst.into_iter().map(|(_, turn)| turn).collect();
        sorted
    }

    /// What this part of the latencies does not exceed, where each turn counts so many times, without those that are left out.
    fn of_kept(&self, part: f64, times: &[u64]) -> Option<u64> {
        let mut times = times.to_vec();
        self.leave_out(&mut times);
        self.quantile(part, &times)
    }

    /// Leaves out the worst turns, of which each counts so many times.
    fn leave_out(&self, times: &mut [u64]) {
        let mut left = u64::try_from(times.len() - self.keeps.of(times.len())).unwrap_or(0);
        for &turn in &self.worst_first {
            if let Some(times) = times.get_mut(turn) {
                let out = left.min(*times);
                *times -= out;
                left -= out;
            }
        }
    }

    /// What this part of the latencies does not exceed, where each turn counts so many times.
    fn quantile(&self, part: f64, times: &[u64]) -> Option<u64> {
        let total: u64 = self.turns.iter().zip(times).map(|(count, times)| count * times).sum();
        let mut beyond = 0;
        for &(nanoseconds, turn, count) in &self.falling {
            beyond += count * times.get(turn).copied().unwrap_or(0);
            // As soon as those below it are fewer than that part.
            if beyond > 0 && ratio(total - beyond, total) < part {
                return Some(nanoseconds);
            }
        }
        None
    }
}

/// Numbers that look as if they were drawn (SplitMix64: Steele, Lea and Flood, 2014).
struct Numbers(u64);

impl Numbers {
    /// How often each of so many turns is drawn, when so many are.
    fn draw(&mut self, turns: usize) -> Vec<u64> {
        let mut drawn = vec![0; turns];
        for _ in 0..turns {
            if let Some(times) = drawn.get_mut(self.below(turns)) {
                *times += 1;
            }
        }
        drawn
    }

    /// One below this bound, which is small: that some are drawn a little more often does not matter.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^= number >> 31;
        usize::try_from(number % u64::try_from(bound.max(1)).unwrap_or(1)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(turns: &[&[u64]]) -> Pool {
        let counts = |turn: &&[u64]| turn.iter().map(|&microseconds| (microseconds * 1000, 1)).collect();
        Pool::of_latencies(turns.iter().map(counts).collect())
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= expected * 0.002, "{found} should be about {expected}");
    }

    #[test]
    fn percentiles_are_those_of_all_turns_together() {
        // 2,000 events of 10 µs and, all in one turn, three late ones: p99.9 of the pool is the least late of them, where the
        // median of the turns' would be 10 µs.
        let (quiet, mut disturbed) = (vec![10; 500], vec![10; 500]);
        disturbed.extend([700, 800, 900]);
        let figures = pool(&[&quiet, &disturbed, &quiet, &quiet]).figures();
        close(figures["p50_us"], 10.0);
        close(figures["p99_us"], 10.0);
        close(figures["p999_us"], 700.0);
        close(figures["max_us"], 900.0);
        assert!(!figures.contains_key("sent_p50_us"));
        assert!(Pool::default().figures().is_empty());
    }

    #[test]
    fn of_five_turns_the_worst_is_left_out_but_for_its_longest_latency() {
        let (quiet, late, stalled) = ([10; 100], [30; 100], [20, 20, 120_000]);
        let pool = pool(&[&quiet, &late, &stalled, &quiet, &quiet]);
        assert_eq!(pool.kept(), 4);
        let figures = pool.figures();
        close(figures["p50_us"], 10.0);
        close(figures["p999_us"], 30.0);
        close(figures["max_us"], 120_000.0);
        close(figures[P999_OF_ALL], 120_000.0);
        // Drawn twice, it is left out once.
        let sorted = Sorted::of(pool.since_due.iter(), pool.keeps);
        close(ratio(sorted.of_kept(1.0, &[2, 0, 2, 1, 0]).unwrap(), 1000), 120_000.0);
        close(ratio(sorted.of_kept(1.0, &[2, 1, 1, 1, 0]).unwrap(), 1000), 30.0);
    }

    #[test]
    fn nothing_is_left_out_of_turns_that_contenders_had_at_the_same_time() {
        let (quiet, stalled): (&[u64], &[u64]) = (&[10; 100], &[2000; 100]);
        let of = |turns: &[&[u64]]| Pool { keeps: Kept::All, ..pool(turns) };
        let turns = of(&[quiet, stalled, quiet, quiet, quiet]);
        assert_eq!(turns.kept(), 5);
        let figures = turns.figures();
        close(figures["p999_us"], 2000.0);
        assert_eq!(figures["p999_us"], figures[P999_OF_ALL]);
        // What stalled both says nothing of their ratio; what stalled one of them does, in those draws that have that turn.
        assert_eq!(turns.interval_95(&turns, "p999_us"), Some((1.0, 1.0)));
        let (from, to) = turns.interval_95(&of(&[quiet; 5]), "p999_us").unwrap();
        close(from, 1.0);
        close(to, 200.0);
    }

    #[test]
    fn a_draw_of_each_turn_once_has_the_histogram_s_percentiles() {
        let turns: Vec<Vec<u64>> =
            (1..5).map(|turn| (0..300).map(|event| 1 + (event * event * turn) % 997).collect()).collect();
        let pool = pool(&turns.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let figures = pool.figures();
        let sorted = Sorted::of(pool.since_due.iter(), pool.keeps);
        for (name, part) in SINCE_DUE {
            close(ratio(sorted.quantile(part, &[1; 4]).unwrap(), 1000), figures[name]);
        }
        assert_eq!(sorted.quantile(0.5, &[0; 4]), None);
        let last = Sorted::of(pool.since_due.iter().skip(3), pool.keeps);
        assert_eq!(sorted.quantile(0.9, &[0, 0, 0, 3]), last.quantile(0.9, &[1]));
    }

    #[test]
    fn an_interval_is_as_wide_as_the_turns_disagree() {
        let (slow, fast): (&[u64], &[u64]) = (&[30; 100], &[10; 100]);
        let steady = pool(&[slow; 20]).interval_95(&pool(&[fast; 20]), "p50_us").unwrap();
        close(steady.0, 3.0);
        close(steady.1, 3.0);
        // The machine changes in every other turn, for both: the ratio stays.
        let turns = [slow, fast].repeat(10);
        let (from, to) = pool(&turns).interval_95(&pool(&turns), "p50_us").unwrap();
        close(from, 1.0);
        close(to, 1.0);
        // One of them is late in a quarter of its turns, one more than are left out: not so in a part of the draws.
        let mut late = vec![fast; 20];
        late[3..8].fill(slow);
        let (from, to) = pool(&late).interval_95(&pool(&[fast; 20]), "p999_us").unwrap();
        close(from, 1.0);
        close(to, 3.0);
    }

    #[test]
    fn there_is_no_interval_of_one_turn_or_of_what_is_no_percentile() {
        let one = pool(&[&[10, 20]]);
        assert_eq!(one.interval_95(&one, "p50_us"), None);
        let two = pool(&[&[10, 20], &[10, 30]]);
        assert_eq!(two.interval_95(&two, "cpu_us_per_event"), None);
        assert_eq!(two.interval_95(&one, "p50_us"), None);
    }
}
