//! A lane that runs by the clock: a polling server, as "Tempo: A Simple Time-Sensitive Messaging System" (Bauer, Garcés-Erice and Rooney)
//! has it in section IV.A.
//!
//! It is released each period, serves pending work until nothing is left or its budget of processor time is spent, and sleeps until its
//! next release. Input does not wake it meanwhile, and waits in the system's buffers. So an analysis of schedules takes it as a periodic
//! thread; `campanile plan tempo` judges it beside others. The unused rest of a budget is lost.
//!
//! Releases are at multiples of the period. A lane that was kept from running beyond its next release begins that one late; releases missed
//! altogether are skipped.

use core::time::Duration;

use engine::Time;

/// Period and budget of a lane that runs by the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timing {
    /// Time from one release to the next; above 0.
    pub(crate) period: Duration,
    /// Processor time in one period after which nothing more is begun.
    pub(crate) budget: Duration,
}

/// State of a time-driven lane: between two releases, or released.
#[derive(Debug)]
pub(crate) struct PollingServer {
    timing: Timing,
    /// The next release, on the lane's clock.
    next: Time,
    /// The thread's processor time at which the budget is spent; `None` while the lane sleeps.
    spent_at: Option<Duration>,
    /// The lane's time 0, on the clock by which the system wakes it.
    origin: Duration,
}

impl PollingServer {
    /// A lane that is released at once. `origin` is the lane's time 0 on the system's clock.
    pub(crate) const fn new(timing: Timing, origin: Duration) -> Self {
        Self { timing, next: Time(0), spent_at: None, origin }
    }

    /// Time of the next release; `None` while the lane runs.
    pub(crate) fn sleeps_until(&self) -> Option<Time> {
        self.spent_at.is_none().then_some(self.next)
    }

    /// The next release on the system's clock.
    pub(crate) fn next_on_system(&self) -> Duration {
        self.origin.saturating_add(Duration::from_nanos(self.next.0))
    }

    /// Begins the release that is due. `used` is the thread's processor time so far.
    pub(crate) fn begin(&mut self, now: Time, used: Duration) {
        let period = u64::try_from(self.timing.period.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.next = Time((now.0 / period).saturating_add(1).saturating_mul(period));
        self.spent_at = Some(used.saturating_add(self.timing.budget));
    }

    /// Whether the budget of this period is spent.
    pub(crate) fn is_spent(&self, used: Duration) -> bool {
        self.spent_at.is_some_and(|spent| used >= spent)
    }

    /// Ends the release: the lane sleeps until the next one.
    pub(crate) fn end(&mut self) {
        self.spent_at = None;
    }

    /// Skips releases before `now`, at which there was nothing to do: a simulation does not run an idle lane.
    #[cfg(test)]
    pub(crate) fn leave_out_until(&mut self, now: Time) {
        self.next = self.release_from(now);
    }

    /// The first release at that moment or after it.
    #[cfg(test)]
    pub(crate) fn release_from(&self, moment: Time) -> Time {
        let period = u64::try_from(self.timing.period.as_nanos()).unwrap();
        self.next.max(Time(moment.0.div_ceil(period) * period))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    fn server() -> PollingServer {
        let timing = Timing { period: Duration::from_micros(1_000), budget: Duration::from_micros(200) };
        PollingServer::new(timing, Duration::from_secs(5))
    }

    #[test]
    fn releases_are_a_period_apart_whenever_the_lane_begins_and_ends() {
        let mut server = server();
        assert_eq!(server.sleeps_until(), Some(Time(0)), "the first is at once");
        server.begin(Time(2_300 * US), Duration::ZERO);
        assert_eq!(server.sleeps_until(), None);
        server.end();
        assert_eq!(server.sleeps_until(), Some(Time(3_000 * US)));
        assert_eq!(server.next_on_system(), Duration::from_micros(5_003_000));
        server.begin(Time(3_000 * US), Duration::ZERO);
        server.end();
        assert_eq!(server.sleeps_until(), Some(Time(4_000 * US)));
    }

    #[test]
    fn lane_that_was_displaced_begins_late_and_leaves_out_what_it_has_missed() {
        let mut server = server();
        server.begin(Time(7_900 * US), Duration::ZERO);
        server.end();
        assert_eq!(server.sleeps_until(), Some(Time(8_000 * US)));
        server.begin(Time(8_950 * US), Duration::ZERO);
        server.end();
        // The one at 9 ms is over before the lane has run again, and that at 10 ms, too.
        server.begin(Time(11_200 * US), Duration::ZERO);
        server.end();
        assert_eq!(server.sleeps_until(), Some(Time(12_000 * US)));
    }

    #[test]
    fn budget_is_of_the_processors_time_and_each_period_has_its_own() {
        let mut server = server();
        let used = Duration::from_micros;
        server.begin(Time(0), used(10_000));
        assert!(!server.is_spent(used(10_199)) && server.is_spent(used(10_200)));
        server.end();
        assert!(!server.is_spent(used(10_200)), "it sleeps");
        server.begin(Time(1_000 * US), used(10_250));
        assert!(
            !server.is_spent(used(10_449)) && server.is_spent(used(10_450)),
            "what was left or overdrawn is not kept"
        );
    }
}
