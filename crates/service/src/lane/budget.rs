//! Budgets of the steps of a lane's round, so that no step delays the others, and the metering of a connection's messages.
//!
//! A step that reaches its budget leaves the rest to the next round, which begins at once. What is left for a connection waits in its
//! address's queue ([`quotas`](crate::lane::io::quotas)); what came from another thread stays in its mailbox.
//!
//! Messages are counted and timed, since one may be passed on in a microsecond, while another is an event to be tested against thousands of
//! constraints. The clock is read before the second message, and then at intervals that follow from the messages before: a lone message
//! costs no reading, and hundreds of small ones a few.

use core::time::Duration;
use std::time::Instant;

use crate::time;

/// Budget of a step of a round, or of one connection in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Maximum events, or messages, or connections: whatever the step handles.
    pub(crate) events: u32,
    /// Maximum octets.
    pub(crate) bytes: usize,
    /// Time after which nothing further is begun.
    pub(crate) time: Duration,
}

/// The budgets of all steps. Steps with items of similar cost share a budget, which allows some hundred microseconds in all.
impl Budget {
    /// Items of up to a microsecond: messages of one mailbox, deliveries, reports of losses, waits that end, subscribers of a probe.
    pub(crate) const MESSAGES: Self = Self::events(256);
    /// Items of some microseconds: events that another thread hands over, answers to suppliers, resumed outboxes, announcements. The time
    /// bounds answers, since each may release others without end.
    pub(crate) const EVENTS: Self = Self { time: Duration::from_micros(500), ..Self::events(64) };
    /// Events that come back from disk. This is as fast as the disk can be read.
    pub(crate) const FROM_DISK: Self = Self::events(128);
    /// Items of ten microseconds: connections that are accepted, secured or tried again, and suppliers polled where others may wait. A
    /// storm of connections must not delay the events of those already open.
    pub(crate) const CONNECTIONS: Self = Self { time: Duration::from_micros(100), ..Self::events(16) };
    /// Answers sent where others may wait: an answer to a pull may be as large as a hundred events.
    pub(crate) const LARGE_ANSWERS: Self = Self::events(8);
    /// Scheduled events, each with everything that it causes. An event with an earlier deadline may arrive behind the flood that was read
    /// first.
    pub(crate) const SCHEDULED: Self = Self { time: Duration::from_micros(20), ..Self::events(8) };
    /// Events that waited for a filter's verdict or in Tempo's topics, between two readings of the clock.
    pub(crate) const WAITING: Self = Self { time: Duration::from_micros(250), ..Self::events(16) };
    /// Datagrams of one socket; a batch that came together may exceed it. They are sorted before others are served: otherwise one topic's
    /// flood fills the socket, and the system discards another topic's datagrams.
    pub(crate) const DATAGRAMS: Self = Self::events(1_024);
    /// Outboxes, channels, types and drops in one chunk of a report to administration.
    pub(crate) const REPORT: Self = Self::events(32);
    /// Events restored at the start before messages are looked at, in chunks of about this much memory.
    pub(crate) const RESTORED: Self = Self { time: Duration::from_millis(5), ..Self::bytes(1 << 20) };
    /// Time for all addresses together before the rest of the round is served.
    pub(crate) const ADDRESSES: Self = Self { time: Duration::from_millis(1), ..Self::UNLIMITED };
    /// Octets of events sent to one address before the other addresses are served. Writing them takes less than an address's time.
    pub(crate) const SENT: Self = Self::bytes(256 << 10);
    /// Output of a connection that a client made, and its input of lines or frames; the remainder must not delay others' events.
    pub(crate) const STREAM: Self = Self::bytes(64 << 10);
    /// Approximate input that is part of one large message. A read that completes messages is the last in any case.
    pub(crate) const LARGE_MESSAGE: Self = Self::bytes(1 << 20);
    /// Output gathered for one connection. Beyond it the cost of a system call is negligible beside that of the octets, and outboxes wait.
    /// Where pushes are answered, gathered output waits for this time at most; the clock is read once per this many pushes.
    pub(crate) const GATHERED: Self = Self { events: 32, bytes: 128 << 10, time: Duration::from_micros(50) };

    const UNLIMITED: Self = Self { events: u32::MAX, bytes: usize::MAX, time: Duration::MAX };

    const fn events(events: u32) -> Self {
        Self { events, ..Self::UNLIMITED }
    }

    const fn bytes(bytes: usize) -> Self {
        Self { bytes, ..Self::UNLIMITED }
    }

    /// Budget of one connection in a round, by its messages.
    pub(crate) const fn of_connection(events: u32, time: Duration) -> Self {
        Self { time, ..Self::events(events) }
    }
}

/// Usage of a connection in the latest round in which it was served.
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
    /// Messages left of the connection's budget.
    messages: u32,
    time: Duration,
    began: Option<Instant>,
    handled: u32,
    /// Number of handled messages at which the budget is checked again.
    look_at: u32,
}

/// Maximum messages handled between two readings of the clock.
const UNWATCHED_MAX: u32 = 64;

impl RoundUsage {
    /// Starts to meter a connection's messages in this round, with what is left of its budget.
    pub(crate) fn begin(self, round: u64, budget: Budget) -> RoundMeter {
        let before = if self.round == round { self } else { Self { round, ..Self::default() } };
        let messages = budget.events.saturating_sub(before.messages);
        let time = budget.time.saturating_sub(before.time);
        let is_first = before.messages == 0;
        let began = if is_first { None } else { Some(time::now()) };
        RoundMeter { before, messages, time, began, handled: 0, look_at: u32::from(is_first) }
    }

    /// Adds what the meter has counted.
    pub(crate) fn note(&mut self, meter: &RoundMeter) {
        let RoundMeter { before, began, handled, .. } = meter;
        let time = began.map_or(Duration::ZERO, time::since);
        *self = Self { messages: before.messages.saturating_add(*handled), time: before.time + time, ..*before };
    }
}

impl RoundMeter {
    /// Whether the budget is spent while `has_more` says that another message may be there.
    #[inline]
    pub(crate) fn is_over(&mut self, has_more: impl FnOnce() -> bool) -> bool {
        self.handled >= self.look_at && has_more() && self.look()
    }

    /// Counts a message that is being handled.
    #[inline]
    pub(crate) const fn note_message(&mut self) {
        self.handled += 1;
    }

    /// Number of messages handled.
    pub(crate) const fn handled(&self) -> u32 {
        self.handled
    }

    fn look(&mut self) -> bool {
        let now = time::now();
        let began = *self.began.get_or_insert(now);
        self.is_spent(now.saturating_duration_since(began))
    }

    /// Whether the budget is spent after `elapsed`. If not, the next check is due when about half of the rest is used.
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

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget::of_connection(1000, Duration::from_micros(250));

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
