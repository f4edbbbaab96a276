//! Turns: where a lane has several topics, events that were read wait until the engine gives them theirs.
//!
//! Their suppliers' replies are owed meanwhile, one-way ones too, so that a connection is not read any further when it has
//! as many requests waiting as it may have unanswered: a supplier that floods fills its own socket and no other. Between
//! turns the lane looks at its sockets again, so that an event with an earlier deadline is served before the flood that
//! came before it.

use core::time::Duration;

use engine::{Draft, ProxyKey, Turn};

use crate::counters::Counter;
use crate::lane::intake::Refused;
use crate::lane::io::slots::Token;
use crate::lane::run::{Core, Worker};

/// Turns served in one round at most, before the sockets are looked at again.
const TURNS_PER_ROUND: usize = 8;
/// They are looked at again after this long in any case, if the turn under way is over.
const LOOK_AROUND_AFTER: Duration = Duration::from_micros(20);

impl Worker {
    /// Serves turns, as many as may be before the sockets are looked at again.
    pub(crate) fn serve_turns(&mut self) {
        if self.core.lane.turns_waiting() == 0 {
            return;
        }
        let until = self.core.clock.now + LOOK_AROUND_AFTER;
        for _ in 0..TURNS_PER_ROUND {
            if !self.core.serve_turn() {
                return;
            }
            self.core.settle();
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
    fn serve_turn(&mut self) -> bool {
        let Some(Turn { source, draft, token }) = self.lane.poll_turn(self.clock.now) else { return false };
        let token = Token::from_bits(token);
        match draft {
            Some(draft) => self.admit_in_turn(source, draft, token),
            None => self.take_over_in_turn(token),
        }
        true
    }

    /// Hands in an event that has waited, or has it wait behind those of its proxy about which remote filters are asked.
    pub(super) fn admit_in_turn(&mut self, source: ProxyKey, draft: Draft, owed: Token) {
        if self.intake.undecided.is_waiting(source) {
            if self.intake.undecided.has_room(source, &draft) {
                return self.intake.undecided.wait(source, draft, owed);
            }
            self.lane.abandon_event(draft);
            self.counters.add(Counter::UndecidedRefused, 1);
            return self.pay(owed, Some(Refused::TooManyUndecided));
        }
        if let Some((draft, questions)) = self.admit_undecided(source, draft, owed) {
            self.intake.undecided.wait(source, draft, owed);
            if let Some(ruling) = self.question_first(source, questions) {
                self.rule_on_undecided(source, ruling);
            }
        }
    }
}
