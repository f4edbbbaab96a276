//! The lane's clock, and the sweep that looks after everything with a time limit.

use core::time::Duration;
use std::time::Instant;

use engine::Time;

use crate::time;

/// Interval of the sweep that checks time limits (connect, completion, calls), while one is running.
const SWEEP: Duration = Duration::from_millis(50);

/// A lane's clock. It is read once in each round, and again in steps that may take long.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Time of the last reading.
    pub(crate) now: Time,
    /// Time since 1 January 1970 by the world's clock, at the same reading.
    pub(crate) since_1970: Duration,
    /// The moment that lanes take for time 0.
    origin: Instant,
    next_sweep: Option<Time>,
}

impl Clock {
    /// A clock that stands at 0 until it is read.
    pub(crate) const fn new(origin: Instant) -> Self {
        Self { now: Time(0), since_1970: Duration::ZERO, origin, next_sweep: None }
    }

    /// Current time, read anew.
    #[inline]
    pub(crate) fn time(&self) -> Time {
        Time(u64::try_from(time::since(self.origin).as_nanos()).unwrap_or(u64::MAX))
    }

    /// Reads both clocks. Neither reading is a system call.
    #[inline]
    pub(crate) fn read(&mut self) {
        self.now = self.time();
        self.since_1970 = time::since_1970();
    }

    /// Time left until `due`; zero if that is over.
    pub(crate) fn until(&self, due: Time) -> Duration {
        Duration::from_nanos(due.0).saturating_sub(time::since(self.origin))
    }

    /// Plans a sweep, unless one is planned.
    pub(crate) fn plan_sweep(&mut self) {
        if self.next_sweep.is_none() {
            self.next_sweep = Some(self.now + SWEEP);
        }
    }

    /// When the next sweep is due, if one is planned.
    pub(crate) const fn next_sweep(&self) -> Option<Time> {
        self.next_sweep
    }

    /// Whether the planned sweep is due. It is planned no more then.
    pub(crate) fn begin_sweep(&mut self) -> bool {
        self.next_sweep.take_if(|due| *due <= self.now).is_some()
    }

    #[cfg(test)]
    pub(crate) fn set_forward(&mut self, by: Duration) {
        self.origin -= by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_that_was_planned_comes_once_and_after_its_time() {
        let mut clock = Clock::new(Instant::now());
        clock.now = Time(1_000);
        clock.plan_sweep();
        let due = Time(1_000) + SWEEP;
        clock.now = Time(2_000);
        clock.plan_sweep();
        assert_eq!((clock.next_sweep(), clock.begin_sweep()), (Some(due), false), "the first plan counts");
        clock.now = due;
        assert_eq!((clock.begin_sweep(), clock.begin_sweep(), clock.next_sweep()), (true, false, None));
    }

    #[test]
    fn a_clock_that_is_set_forward_is_ahead_by_as_much_and_passed_times_are_due() {
        let mut clock = Clock::new(Instant::now());
        clock.read();
        let before = clock.now;
        assert!(clock.until(before).is_zero());
        clock.set_forward(Duration::from_secs(5));
        clock.read();
        assert!(clock.now.since(before) >= Duration::from_secs(5));
        assert!(clock.until(clock.now + Duration::from_secs(3_600)) > Duration::from_secs(1_800));
    }
}
