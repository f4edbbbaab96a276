//! A lane of a service that is about to end: it takes no more events and continues to deliver. Whenever administration asks, it reports
//! what is left, one chunk in each round, so that deliveries go on in between.

use engine::Undelivered;

use crate::lane::budget::Budget;
use crate::lane::links::messages::ToAdministration;
use crate::lane::run::Worker;
use crate::protocols::Made;

/// Whether a lane still takes events, and the progress of its report of what is left.
#[derive(Debug, Default)]
pub(crate) struct Draining {
    has_begun: bool,
    look: Option<Look>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Look {
    /// Next place to look at, in the current part.
    next: u32,
    part: Part,
    /// Whether anything under way was found that is in no outbox.
    is_busy: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Outboxes,
    /// Output that has yet to be written on connections.
    Output(Made),
}

/// Result that a lane reports at the end of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LookedAt {
    /// Whether the lane has anything under way that is in no outbox.
    pub(crate) is_busy: bool,
    /// Number of events taken in so far, those of other lanes included.
    pub(crate) taken: u64,
}

impl Draining {
    /// Whether no more events are taken.
    pub(crate) const fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether a look is under way.
    pub(crate) const fn is_looking(&self) -> bool {
        self.look.is_some()
    }
}

impl Worker {
    /// Stops taking events, and begins to report what is left: the service is about to end.
    pub(crate) fn drain(&mut self) {
        self.core.cx.reporting.draining = Draining { has_begun: true, look: Some(Look::default()) };
        self.core.cx.lane.stop_timers();
        self.clients.stop_listening();
    }

    /// Reports one chunk, unless earlier reports still wait for room.
    pub(crate) fn go_on_draining(&mut self) {
        if self.core.cx.reporting.reports.has_backlog() {
            return;
        }
        let Some(mut look) = self.core.cx.reporting.draining.look.take() else { return };
        let mut chunk = Vec::new();
        let is_last = self.look_on(&mut look, &mut chunk);
        let last = is_last.then(|| {
            let counters = self.core.cx.lane.counters();
            let is_busy = look.is_busy || self.core.has_under_way();
            LookedAt { is_busy, taken: counters.taken.accepted + counters.handovers.taken }
        });
        self.core.cx.reporting.draining.look = (!is_last).then_some(look);
        self.core.cx.reporting.reports.send(ToAdministration::Left { chunk, last });
    }

    /// Looks at the next places. True if they were the last.
    #[cold]
    fn look_on(&mut self, look: &mut Look, chunk: &mut Vec<Undelivered>) -> bool {
        let (from, places) = (look.next, Budget::MESSAGES.events);
        look.next = from.saturating_add(places);
        let (has_more, then) = match look.part {
            Part::Outboxes => {
                let now = self.core.cx.clock.now;
                (self.core.cx.lane.undelivered_at(from, places, now, chunk), Some(Part::Output(Made::ByUs)))
            }
            Part::Output(made) => {
                let has_output = self.has_output_at(made, from, places);
                look.is_busy |= has_output == Some(true);
                (has_output.is_some(), made.next().map(Part::Output))
            }
        };
        if let (false, Some(part)) = (has_more, then) {
            (look.next, look.part) = (0, part);
        }
        !has_more && then.is_none()
    }
}
