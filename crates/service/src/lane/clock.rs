//! What time it is on a lane, and when it looks after what has a time limit.

use core::time::Duration;
use std::time::Instant;

use engine::Time;

use crate::time;

/// Limits (connect, completion, calls) are looked after this often while there is one running.
const SWEEP: Duration = Duration::from_millis(50);

/// A lane's clock. It is read once in each round, and where a round may last.
#[derive(Debug)]
pub(crate) struct Clock {
    /// When it was last read.
    pub(crate) now: Time,
    /// The same moment by the world's clock, after 1 January 1970.
    pub(crate) since_1970: Duration,
    /// What lanes take for time 0.
    origin: Instant,
    next_sweep: Option<Time>,
}

impl Clock {
    /// One that stands at 0 until it is read.
    pub(crate) const fn new(origin: Instant) -> Self {
        Self { now: Time(0), since_1970: Duration::ZERO, origin, next_sweep: None }
    }

    /// What time it is by now.
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

    /// How long it is until then; nothing if that time has come.
    pub(crate) fn until(&self, due: Time) -> Duration {
        Duration::from_nanos(due.0).saturating_sub(time::since(self.origin))
    }

    /// Has what has a time limit looked after, soon.
    pub(crate) fn plan_sweep(&mut self) {
        if self.next_sweep.is_none() {
            self.next_sweep = Some(self.now + SWEEP);
        }
    }

    /// When that is to be, if it is.
    pub(crate) const fn next_sweep(&self) -> Option<Time> {
        self.next_sweep
    }

    /// Whether the time for it has come. It is planned no more then.
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
