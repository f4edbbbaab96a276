//! Turns: where a lane has several topics, events that were read wait until the engine gives them theirs.
//!
//! Their suppliers' replies are owed meanwhile, one-way ones too, so that a connection is not read any further when it has
//! as many requests waiting as it may have unanswered: a supplier that floods fills its own socket and no other. Between
//! turns the lane looks at its sockets again, so that an event with an earlier deadline is served before the flood that
//! came before it.

use core::time::Duration;

use engine::{PendingEvent, ProxyKey, ScheduledEvent};

use crate::counters::Counter;
use crate::lane::intake::Refused;
use crate::lane::io::slots::Token;
use crate::lane::run::{Core, Worker};

/// Turns served in one round at most, before the sockets are looked at again.
const QUEUED_PER_ROUND: usize = 8;
/// They are looked at again after this long in any case, if the turn under way is over.
const LOOK_AROUND_AFTER: Duration = Duration::from_micros(20);

impl Worker {
    /// Serves turns, as many as may be before the sockets are looked at again.
    pub(crate) fn serve_queued_events(&mut self) {
        if self.core.cx.lane.queued_events() == 0 {
            return;
        }
        let until = self.core.cx.clock.now + LOOK_AROUND_AFTER;
        for _ in 0..QUEUED_PER_ROUND {
            if !self.core.serve_queued_event() {
                return;
            }
            self.core.flush_engine();
            self.answer_all();
            if self.core.read_clock() >= until {
                return;
            }
        }
    }
}

impl Core {
    /// Hands in the event that has its turn. False if none waits.
    #[inline(never)]
    fn serve_queued_event(&mut self) -> bool {
        let Some(ScheduledEvent { source, pending_event, token }) = self.cx.lane.poll_scheduled(self.cx.clock.now)
        else {
            return false;
        };
        let token = Token::from_bits(token);
        match pending_event {
            Some(pending_event) => self.admit_queued(source, pending_event, token),
            None => self.take_over_queued(token),
        }
        true
    }

    /// Hands in an event that has waited, or has it wait behind those of its proxy about which remote filters are asked.
    pub(super) fn admit_queued(&mut self, source: ProxyKey, pending_event: PendingEvent, pending_ack: Token) {
        if self.intake.awaiting_filter.is_waiting(source) {
            if self.intake.awaiting_filter.has_room(source, &pending_event) {
                return self.intake.awaiting_filter.wait(source, pending_event, pending_ack);
            }
            self.cx.lane.abandon_event(pending_event);
            self.cx.counters.add(Counter::AwaitingFilterRefused, 1);
            return self.complete_ack(pending_ack, Some(Refused::TooManyAwaitingFilter));
        }
        if let Some((pending_event, questions)) = self.admit_waiting(source, pending_event, pending_ack) {
            self.intake.awaiting_filter.wait(source, pending_event, pending_ack);
            if let Some(filter_verdict) = self.call_filters_for_first(source, questions) {
                self.apply_filter_verdict(source, filter_verdict);
            }
        }
    }
}
