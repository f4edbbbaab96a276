//! Lanes that run by the clock: which, how often, and for how long.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ConfigError, Lanes};
use crate::lane::polling::Timing;

/// The shortest and the longest period, in microseconds: below, a lane would do little but wake up; above, clients would think that
/// the service is gone.
const PERIOD_US: (u32, u32) = (100, 1_000_000);
/// The shortest budget: what a lane needs to find that there is nothing to do.
const BUDGET_US_MIN: u32 = 10;

/// The lanes of pools at one priority, which run by the clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeDriven {
    /// Their CORBA priority, 0 to 32,767.
    pub priority: u16,
    /// They are released so often, in microseconds, 100 to 1,000,000.
    pub period_us: u32,
    /// For so many microseconds of a processor's time each, 10 to `period_us`.
    pub budget_us: u32,
}

impl Lanes {
    /// When a lane runs, if that is by the clock.
    pub(crate) fn timing(&self, is_main: bool, priority: Option<i16>) -> Option<Timing> {
        let of_priority =
            |own: &&TimeDriven| priority.and_then(|priority| u16::try_from(priority).ok()) == Some(own.priority);
        let (period, budget) = if is_main {
            (self.main_period_us, self.main_budget_us)
        } else {
            self.time_driven.iter().find(of_priority).map(|own| (own.period_us, own.budget_us))?
        };
        let time = |us: u32| Duration::from_micros(u64::from(us));
        (period > 0).then(|| Timing { period: time(period), budget: time(budget) })
    }

    /// Checks periods and budgets.
    pub(super) fn check_timing(&self) -> Result<(), ConfigError> {
        let (period, budget) = (self.main_period_us, self.main_budget_us);
        if period == 0 && budget > 0 {
            return Err(ConfigError::BudgetWithoutPeriod { budget_us: budget });
        }
        if period > 0 {
            check(["lanes.main_period_us", "lanes.main_budget_us"], period, budget)?;
        }
        for (index, own) in self.time_driven.iter().enumerate() {
            let priority = own.priority;
            if self.time_driven.iter().take(index).any(|other| other.priority == priority) {
                return Err(ConfigError::TimedTwice { priority });
            }
            in_range("lanes.time_driven.priority", u32::from(priority), 0, 32_767)?;
            check(["lanes.time_driven.period_us", "lanes.time_driven.budget_us"], own.period_us, own.budget_us)?;
        }
        Ok(())
    }
}

fn check([period_key, budget_key]: [&'static str; 2], period: u32, budget: u32) -> Result<(), ConfigError> {
    in_range(period_key, period, PERIOD_US.0, PERIOD_US.1)?;
    in_range(budget_key, budget, BUDGET_US_MIN, period)
}

fn in_range(key: &'static str, value: u32, min: u32, max: u32) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::OutOfRange { key, value: value.into(), min: min.into(), max: max.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(main_period_us: u32, main_budget_us: u32, timed: &[(u16, u32, u32)]) -> Lanes {
        let made = |(priority, period_us, budget_us): &(u16, u32, u32)| TimeDriven {
            priority: *priority,
            period_us: *period_us,
            budget_us: *budget_us,
        };
        Lanes { main_period_us, main_budget_us, time_driven: timed.iter().map(made).collect(), ..Lanes::default() }
    }

    #[test]
    fn lanes_run_whenever_there_is_something_to_do_by_default() {
        let lanes = Lanes::default();
        lanes.check_timing().unwrap();
        assert_eq!((lanes.timing(true, None), lanes.timing(false, Some(100))), (None, None));
    }

    #[test]
    fn main_lane_and_those_of_a_priority_have_periods_of_their_own() {
        let lanes = lanes(10_000, 4_000, &[(100, 1_000, 1_000), (0, 1_000_000, 10)]);
        lanes.check_timing().unwrap();
        let timing = |period, budget| {
            Some(Timing { period: Duration::from_micros(period), budget: Duration::from_micros(budget) })
        };
        assert_eq!(
            lanes.timing(true, Some(100)),
            timing(10_000, 4_000),
            "the main lane has its own, whatever its priority"
        );
        assert_eq!(lanes.timing(false, Some(100)), timing(1_000, 1_000));
        assert_eq!(lanes.timing(false, Some(0)), timing(1_000_000, 10));
        assert_eq!((lanes.timing(false, Some(99)), lanes.timing(false, None)), (None, None));
    }

    #[test]
    fn periods_and_budgets_out_of_range_are_refused_with_the_range() {
        for (lanes, said) in [
            (lanes(99, 50, &[]), "lanes.main_period_us = 99 is out of range: it must be from 100 to 1000000"),
            (
                lanes(1_000_001, 50, &[]),
                "lanes.main_period_us = 1000001 is out of range: it must be from 100 to 1000000",
            ),
            (lanes(100, 9, &[]), "lanes.main_budget_us = 9 is out of range: it must be from 10 to 100"),
            (lanes(100, 101, &[]), "lanes.main_budget_us = 101 is out of range: it must be from 10 to 100"),
            (
                lanes(0, 50, &[]),
                "lanes.main_budget_us = 50 has no meaning without lanes.main_period_us: set that, from 100 to 1000000, or leave \
                 it out",
            ),
            (
                lanes(0, 0, &[(1, 0, 0)]),
                "lanes.time_driven.period_us = 0 is out of range: it must be from 100 to 1000000",
            ),
            (
                lanes(0, 0, &[(1, 200, 201)]),
                "lanes.time_driven.budget_us = 201 is out of range: it must be from 10 to 200",
            ),
            (
                lanes(0, 0, &[(40_000, 200, 200)]),
                "lanes.time_driven.priority = 40000 is out of range: it must be from 0 to 32767",
            ),
            (
                lanes(0, 0, &[(1, 200, 200), (1, 300, 300)]),
                "lanes.time_driven has priority 1 twice: lanes of one priority have one period",
            ),
        ] {
            assert_eq!(lanes.check_timing().unwrap_err().to_string(), said);
        }
    }
}
