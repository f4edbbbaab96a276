//! Timing of a publisher's thread: when it checks the publisher, and when it sends gathered events.

use std::time::Duration;

/// Shortest and longest time between two checks of events under way.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const LOOK_EVERY_MAX: Duration = Duration::from_millis(5);

/// Computes the time of the next check.
pub(super) struct Pace {
    gather_time: Duration,
    /// Time until the next check, if something was published since the last.
    pub(super) pause: Duration,
    /// Time between checks for answers: longer while none arrive.
    for_answers: Duration,
}

impl Pace {
    /// A pace with this maximum gathering time.
    pub(super) fn new(gather_time: Duration) -> Self {
        Self { gather_time, pause: gather_time.min(LOOK_EVERY_MAX), for_answers: LOOK_EVERY }
    }

    /// Whether to send the gathered events, of which the first has waited for this time.
    pub(super) fn is_due(&self, waits: Option<Duration>) -> bool {
        waits.is_some_and(|waits| waits >= self.gather_time)
    }

    /// Notes a check: the waiting time of the first gathered event, whether there were answers, and the number of events without an
    /// outcome.
    pub(super) fn looked(&mut self, waits: Option<Duration>, was_answered: bool, outstanding: u64) {
        if outstanding == 0 {
            // The next look is after the next event.
            *self = Self::new(self.gather_time);
            return;
        }
        self.for_answers = if was_answered { LOOK_EVERY } else { (self.for_answers * 2).min(LOOK_EVERY_MAX) };
        let due = waits.map(|waits| self.gather_time.saturating_sub(waits));
        self.pause = due.map_or(self.for_answers, |due| due.min(self.for_answers));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// A simulated publisher of one event every so often, with a thread that keeps a pace.
    #[derive(Default)]
    struct Run {
        now: Duration,
        /// Publishing times of gathered events; answer times of sent ones.
        gathered: Vec<Duration>,
        answers: Vec<Duration>,
        sends: usize,
        sent: usize,
        looks: usize,
        longest: Duration,
    }

    impl Run {
        fn of(gather_time: Duration, every: Duration, answered_after: Duration, events: usize) -> Self {
            let (mut run, mut pace, mut next, mut left) = (Self::default(), Pace::new(gather_time), ms(0), events);
            while left > 0 || !run.gathered.is_empty() || !run.answers.is_empty() {
                if run.gathered.is_empty() && run.answers.is_empty() {
                    // It sleeps until there is something to do.
                    run.now = run.now.max(next);
                }
                let look = run.now + pace.pause;
                while left > 0 && next <= look {
                    run.gathered.push(next);
                    left -= 1;
                    next += every;
                }
                run.look(look, &mut pace, answered_after);
            }
            run
        }

        fn look(&mut self, now: Duration, pace: &mut Pace, answered_after: Duration) {
            self.now = now;
            self.looks += 1;
            let waits = |run: &Self| run.gathered.first().map(|since| now.saturating_sub(*since));
            if pace.is_due(waits(self)) {
                self.longest = self.longest.max(waits(self).unwrap_or_default());
                self.sends += 1;
                self.sent += self.gathered.len();
                self.answers.extend(self.gathered.drain(..).map(|_| now + answered_after));
            }
            let before = self.answers.len();
            self.answers.retain(|answered| *answered > now);
            let outstanding = u64::try_from(self.gathered.len() + self.answers.len()).unwrap();
            pace.looked(waits(self), self.answers.len() < before, outstanding);
        }
    }

    /// With unanswered events under way, gathered events were once sent within 5 ms, whatever their gathering time.
    #[test]
    fn events_are_sent_together_as_long_as_they_may_wait_for_each_other() {
        for answered_after in [ms(0), ms(1), ms(3), ms(30), ms(400)] {
            let run = Run::of(ms(100), ms(2), answered_after, 5_000);
            assert_eq!(run.sent, 5_000);
            // 10 s of events, 100 ms and the next event apart at least.
            assert!(run.sends <= 100, "{} sends with answers after {answered_after:?}", run.sends);
            assert_eq!(run.longest, ms(100), "none waits for longer");
        }
    }

    #[test]
    fn answers_are_looked_for_however_long_events_may_wait() {
        let hour = ms(3_600_000);
        let mut pace = Pace::new(hour);
        assert!(pace.pause <= LOOK_EVERY_MAX, "a flush has events under way");
        pace.looked(Some(ms(1)), false, 2);
        assert!(pace.pause <= LOOK_EVERY_MAX && !pace.is_due(Some(ms(6))));
    }

    #[test]
    fn looks_are_few_where_answers_do_not_come() {
        let run = Run::of(ms(1), ms(1), ms(1_000), 1);
        assert!(run.looks < 1_000 / 5 + 10, "{}", run.looks);
    }
}
