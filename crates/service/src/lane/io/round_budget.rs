//! How much of a round one connection may have, so that one that floods does not keep the others waiting.
//!
//! Messages are counted, and the time that they take is measured, since a message may be passed on in a microsecond, or be
//! an event about which thousands of constraints are asked. The clock is read before the second message, and then as often as
//! the messages before let expect that it has to be: a lone message costs no reading, and hundreds of small ones a few.
//!
//! What a connection has of its lane's rounds.

use core::time::Duration;
use std::time::Instant;

use crate::lane::io::slots::Token;
use crate::lane::io::system::Interest;
use crate::time;

/// What one connection may have of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoundBudget {
    /// Messages at most.
    pub(crate) messages: u32,
    /// Time after which no further message is begun.
    pub(crate) time: Duration,
}

/// What a connection has had of the latest round in which it had any.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundUsage {
    round: u64,
    messages: u32,
    time: Duration,
}

/// Messages of one connection being handled, one after the other.
#[derive(Debug)]
pub(crate) struct RoundMeter {
    before: RoundUsage,
    /// What is left of its share.
    messages: u32,
    time: Duration,
    began: Option<Instant>,
    handled: u32,
    /// How many are handled before it is looked again whether the share is spent.
    look_at: u32,
}

/// Messages handled between two looks at the clock, at most.
const UNWATCHED_MAX: u32 = 64;

impl RoundUsage {
    /// Begins to handle messages.
    pub(crate) fn begin(self, round: u64, round_budget: RoundBudget) -> RoundMeter {
        let before = if self.round == round { self } else { Self { round, ..Self::default() } };
        let messages = round_budget.messages.saturating_sub(before.messages);
        let time = round_budget.time.saturating_sub(before.time);
        let is_first = before.messages == 0;
        let began = if is_first { None } else { Some(time::now()) };
        RoundMeter { before, messages, time, began, handled: 0, look_at: u32::from(is_first) }
    }

    /// Adds what has been had.
    pub(crate) fn note(&mut self, meter: &RoundMeter) {
        let RoundMeter { before, began, handled, .. } = meter;
        let time = began.map_or(Duration::ZERO, time::since);
        *self = Self { messages: before.messages.saturating_add(*handled), time: before.time + time, ..*before };
    }
}

impl RoundMeter {
    /// Whether no further message is to be handled in this round, if there may be one.
    #[inline]
    pub(crate) fn is_over(&mut self, has_more: impl FnOnce() -> bool) -> bool {
        self.handled >= self.look_at && has_more() && self.look()
    }

    /// A message is being handled.
    #[inline]
    pub(crate) const fn note_message(&mut self) {
        self.handled += 1;
    }

    /// How many were handled.
    pub(crate) const fn handled(&self) -> u32 {
        self.handled
    }

    fn look(&mut self) -> bool {
        let now = time::now();
        let began = *self.began.get_or_insert(now);
        self.is_spent(now.saturating_duration_since(began))
    }

    /// Whether the share is spent after so long. If not, it is looked again when half of the rest may have gone.
    fn is_spent(&mut self, elapsed: Duration) -> bool {
        if self.handled >= self.messages || elapsed >= self.time {
            return true;
        }
        let each = (elapsed / self.handled.max(1)).as_nanos();
        let ahead = (self.time - elapsed).as_nanos() / 2 / each.max(1);
        let ahead = if each == 0 { 1 } else { u32::try_from(ahead).unwrap_or(u32::MAX).clamp(1, UNWATCHED_MAX) };
        self.look_at = self.messages.min(self.handled + ahead);
        false
    }
}

/// A connection's part in its lane's rounds: its address, what it has had of the latest round, and what is still to come.
pub(crate) struct Rounds {
    /// The address that is charged for what is done for it, among those of the lane.
    pub(crate) slice: Token,
    /// Its socket is ready, and waits for the turn of that address.
    pub(crate) is_deferred: bool,
    /// It has had its share of a round, and whole messages of it may wait for the next.
    pub(crate) has_backlog: bool,
    /// What it has had of the latest round.
    pub(crate) usage: RoundUsage,
    /// It is among those that are written to when the round ends.
    pub(crate) is_due: bool,
    /// What the poll was last asked to report.
    pub(crate) interest: Interest,
}

impl Rounds {
    /// Of a connection that has had nothing yet, and of which the poll is to report this.
    pub(crate) fn new(slice: Token, interest: Interest) -> Self {
        Self { slice, is_deferred: false, has_backlog: false, usage: RoundUsage::default(), is_due: false, interest }
    }

    /// The address that is charged for what is done for it, and whether it waits for the turn of that.
    pub(crate) const fn defer(&mut self) -> (Token, &mut bool) {
        (self.slice, &mut self.is_deferred)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: RoundBudget = RoundBudget { messages: 1000, time: Duration::from_micros(250) };

    /// How many messages are handled in a turn when each takes so long, and how often it was looked.
    fn handled(mut meter: RoundMeter, each: Duration) -> (u32, u32) {
        let mut looks = 0;
        loop {
            if meter.handled >= meter.look_at {
                looks += 1;
                // The first is not measured where the turn is the first of its round.
                let measured = meter.handled.saturating_sub(u32::from(meter.before.messages == 0));
                if meter.is_spent(each * measured) {
                    return (meter.handled, looks);
                }
            }
            meter.note_message();
        }
    }

    #[test]
    fn a_flood_of_small_messages_ends_with_the_time_and_is_seldom_looked_at() {
        let (messages, looks) = handled(RoundUsage::default().begin(1, BUDGET), Duration::from_nanos(600));
        assert!((400..=420).contains(&messages), "{messages}");
        assert!(looks < 30, "{looks}");
    }

    #[test]
    fn what_takes_long_ends_the_turn_after_one_more() {
        let (messages, _) = handled(RoundUsage::default().begin(1, BUDGET), Duration::from_millis(3));
        assert_eq!(messages, 2);
        let later = RoundUsage { round: 1, messages: 1, time: Duration::ZERO }.begin(1, BUDGET);
        assert_eq!(handled(later, Duration::from_millis(3)).0, 1);
    }

    #[test]
    fn what_takes_no_time_ends_with_the_number() {
        let (messages, _) = handled(RoundUsage::default().begin(1, BUDGET), Duration::from_nanos(1));
        assert_eq!(messages, 1000);
    }

    #[test]
    fn what_was_had_in_the_same_round_counts_and_what_was_had_before_does_not() {
        let usage = RoundUsage { round: 7, messages: 990, time: Duration::from_micros(100) };
        assert_eq!(handled(usage.begin(7, BUDGET), Duration::from_nanos(1)).0, 10);
        let spent = RoundUsage { time: Duration::from_micros(250), ..usage };
        assert!(spent.begin(7, BUDGET).is_over(|| true));
        assert_eq!(handled(spent.begin(8, BUDGET), Duration::from_nanos(1)).0, 1000);
    }

    #[test]
    fn a_lone_message_is_not_measured() {
        let mut meter = RoundUsage::default().begin(1, BUDGET);
        assert!(!meter.is_over(|| true));
        meter.note_message();
        assert!(!meter.is_over(|| false));
        assert!(meter.began.is_none());
    }
}
