//! What the service counts while events pass through it, without what it costs to ask.
//!
//! The counters are read through the service itself, so that a reading is counted too: a few system calls and an
//! allocation of the lane, which pass the request on and the reply back. And it is counted at a moment of its own: a
//! reading's answer is written by another thread, now before and now after the lane has entered what the same reading has
//! cost so far. Single allocations among thousands of events are at stake, hence the care: on both sides of the events
//! the counters are read several times in a row, each reading is put back to where the counters would stand without the
//! readings before it, and the middle one is believed.

use super::report::Counted;
use crate::BenchError;
use crate::campanile::{Campanile, setup};
use crate::latency::ratio;

/// Readings on each side of the events. An odd number, so that there is a middle one.
const READINGS: usize = 7;

/// The service's counters, read several times in a row.
#[derive(Debug)]
pub(crate) struct Counting {
    readings: Vec<Levels>,
}

/// The counters that matter here: events, and what passes them takes.
const COUNTERS: [&str; 4] = ["lane_events_in", "lane_allocations", "lane_system_calls", "lane_cycles"];
type Levels = [u64; COUNTERS.len()];

fn read(service: &Campanile) -> Result<Levels, BenchError> {
    let (counters, mut levels) = (service.counters()?, Levels::default());
    for (name, level) in COUNTERS.into_iter().zip(&mut levels) {
        let found = counters.get(name).ok_or_else(|| format!("there is none named {name}"));
        *level = *found.map_err(setup("reading Campanile's counters"))?;
    }
    Ok(levels)
}

impl Counting {
    /// Reads the counters. Nothing else may be under way in the service.
    pub(crate) fn take(service: &Campanile) -> Result<Self, BenchError> {
        let readings = (0..READINGS).map(|_| read(service)).collect::<Result<_, _>>()?;
        Ok(Self { readings })
    }

    /// Reads them once, while events pass. What that costs has to be found at rest.
    pub(crate) fn glance(service: &Campanile) -> Result<Self, BenchError> {
        Ok(Self { readings: vec![read(service)?] })
    }

    /// What was counted between these readings and later ones.
    pub(crate) fn until(&self, later: &Self) -> Counted {
        self.until_with(later, |level| middle([self.steps(level), later.steps(level)].concat()))
    }

    /// What was counted between two glances, where these readings were taken at rest and tell what one costs.
    pub(crate) fn between(&self, earlier: &Self, later: &Self) -> Counted {
        earlier.until_with(later, |level| middle(self.steps(level)))
    }

    fn until_with(&self, later: &Self, cost: impl Fn(fn(&Levels) -> u64) -> u64) -> Counted {
        let events = later.level(|[events, ..]| *events, 0).saturating_sub(self.level(|[events, ..]| *events, 0));
        let between = |level: fn(&Levels) -> u64| {
            let cost = cost(level);
            let readings = u64::try_from(self.readings.len()).unwrap_or(0);
            let count = later.level(level, cost).saturating_sub(self.level(level, cost));
            (count.saturating_sub(readings.saturating_mul(cost)), cost)
        };
        let (allocations, allocations_of_a_reading) = between(|[_, allocations, ..]| *allocations);
        let (system_calls, system_calls_of_a_reading) = between(|[.., system_calls, _]| *system_calls);
        let (cycles, _) = between(|[.., cycles]| *cycles);
        let per_event = |count| ratio(count, events.max(1));
        Counted {
            events,
            allocations,
            system_calls,
            cycles,
            allocations_of_a_reading,
            system_calls_of_a_reading,
            allocations_per_event: per_event(allocations),
            system_calls_per_event: per_event(system_calls),
            cycles_per_event: per_event(cycles),
        }
    }

    /// What each reading added to a counter.
    fn steps(&self, level: fn(&Levels) -> u64) -> Vec<u64> {
        self.readings
            .windows(2)
            .filter_map(|pair| Some(level(pair.last()?).saturating_sub(level(pair.first()?))))
            .collect()
    }

    /// Where a counter stood before the first reading, if each reading costs this much.
    fn level(&self, level: fn(&Levels) -> u64, cost: u64) -> u64 {
        let before = (0..).zip(&self.readings).map(|(earlier, levels)| level(levels).saturating_sub(earlier * cost));
        middle(before.collect())
    }
}

/// The middle one of some numbers; of an even number of them, the lower of the two in the middle. 0 of none.
fn middle(mut numbers: Vec<u64>) -> u64 {
    numbers.sort_unstable();
    numbers.get(numbers.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings that cost 2 allocations and 5 system calls each; in those named `early`, the lane has not entered them yet.
    fn readings(events: u64, allocations: u64, system_calls: u64, early: &[u64]) -> Counting {
        let reading = |index: u64| {
            let costs = if early.contains(&index) { index } else { index + 1 };
            [events, allocations + 2 * costs, system_calls + 5 * costs, costs]
        };
        Counting { readings: (0..7).map(reading).collect() }
    }

    #[test]
    fn leaves_out_what_the_readings_cost_whenever_they_are_entered() {
        for (early_before, early_after) in [(&[][..], &[][..]), (&[0], &[]), (&[], &[0, 6]), (&[2, 3], &[1, 5, 6])] {
            let before = readings(10, 100, 1000, early_before);
            let after = readings(30, 100 + 14 + 3, 1000 + 35 + 120, early_after);
            let counted = before.until(&after);
            assert_eq!((counted.events, counted.allocations, counted.system_calls), (20, 3, 120), "{early_before:?}");
            assert_eq!((counted.allocations_of_a_reading, counted.system_calls_of_a_reading), (2, 5));
            assert!((counted.system_calls_per_event - 6.0).abs() < 1e-9);
        }
    }

    #[test]
    fn between_glances_one_reading_is_left_out_at_what_it_costs_at_rest() {
        let at_rest = readings(0, 100, 1000, &[3]);
        let glance =
            |events, allocations, system_calls| Counting { readings: vec![[events, allocations, system_calls, 0]] };
        let counted = at_rest.between(&glance(100, 500, 5000), &glance(300, 503, 5205));
        assert_eq!((counted.events, counted.allocations, counted.system_calls), (200, 1, 200));
        // One that the lane had not entered yet does not make less than nothing.
        assert_eq!(at_rest.between(&glance(100, 500, 5000), &glance(300, 500, 5000)).allocations, 0);
    }
}
