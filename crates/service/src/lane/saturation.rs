//! Detection of lanes that never wait.
//!
//! A lane with endless work serves all of it late, and at a real-time priority it starves less important ones; nothing else would report
//! that.

use core::time::Duration;

use engine::Time;

use crate::lane::io::net;

/// Time without a wait after which a lane is saturated.
const SATURATED_AFTER: Duration = Duration::from_secs(1);

/// Observed waits of a lane.
#[derive(Default)]
pub(crate) struct Saturation {
    /// Time of the last count, and the number of waits counted then.
    counted: Option<(Time, u64)>,
    saturated: bool,
}

/// Change of a lane's saturation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The lane has not waited for a second.
    Saturated,
    /// The lane waits again.
    Recovered,
}

impl Finding {
    /// Level and text of the log line about a lane.
    pub(crate) fn describe(self, lane: &str) -> (log::Level, String) {
        match self {
            Self::Saturated => {
                (log::Level::Warn, format!("{lane} has had work without end for a second: it is saturated"))
            }
            Self::Recovered => (log::Level::Info, format!("{lane} has time to wait again")),
        }
    }
}

impl Saturation {
    /// Checks the lane's waits. It is called in each round, and asks the system once a second at most.
    pub(crate) fn check(&mut self, now: Time) -> Option<Finding> {
        if self.counted.is_some_and(|(time, _)| now.since(time) < SATURATED_AFTER) {
            return None;
        }
        self.note(now, net::waits_of_this_thread())
    }

    fn note(&mut self, now: Time, waits: u64) -> Option<Finding> {
        let (_, before) = self.counted.replace((now, waits))?;
        let saturated = waits == before;
        let was_saturated = core::mem::replace(&mut self.saturated, saturated);
        match (was_saturated, saturated) {
            (false, true) => Some(Finding::Saturated),
            (true, false) => Some(Finding::Recovered),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_does_not_wait_for_a_second_is_reported_once() {
        let mut saturation = Saturation::default();
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let reported: Vec<Option<Finding>> = [(0, 5), (1, 6), (2, 6), (3, 6), (4, 7), (90, 8), (91, 8)]
            .into_iter()
            .map(|(second, waits)| saturation.note(at(second), waits))
            .collect();
        let (saturated, recovered) = (Some(Finding::Saturated), Some(Finding::Recovered));
        assert_eq!(reported, [None, None, saturated, None, recovered, None, saturated]);
    }
}
