//! Ways for an application to act on its reports (*Tempo*, V and figure 9). Rates and deadlines only inform; this is one way to act on
//! them, and an application is free to take another.
//!
//! - A subscriber that suffers loss [wishes for less](LossFreeRate), and a publisher [follows the lowest wish](follow_lowest): together
//!   they find a rate without loss.
//! - A publisher of messages that take too long [tightens its deadline](TightenDeadline), and subscribers
//!   [follow](follow_deadline), until the delay is acceptable or it is clear that it cannot be had so.
//!
//! Each is called once per announcement period, on [`Notice::Period`](crate::endpoint::Notice::Period).

use crate::Nanos;
use crate::endpoint::{PublisherReport, SubscriberReport};

/// Periods after a change during which its effect is not visible: the other end learns of it in the first and applies it in the second.
const SETTLING: u32 = 2;
/// Periods without loss after which a higher rate is tried again.
const CALM: u32 = 64;
/// Consecutive times that a tighter deadline may fail to help.
const TRIALS: u32 = 3;

/// Finds the rate at which a subscriber loses nothing.
///
/// With loss it wishes for an eighth less than before, or for the received rate if that is lower, and remembers the rate that caused the
/// loss. Without loss it wishes for a little more each period, but stays a sixteenth below the remembered rate; after 64 periods without
/// loss it forgets that rate, since the network may have changed.
#[derive(Debug, Clone, Copy)]
pub struct LossFreeRate {
    highest: u32,
    rate: u32,
    /// The lowest rate known to cause loss.
    too_high: u32,
    settling: u32,
    calm: u32,
    received: u64,
    lost: u64,
    requested_at: Option<Nanos>,
}

impl LossFreeRate {
    /// Begins with the highest useful rate, in messages in 1,000 s.
    #[must_use]
    pub const fn new(highest: u32) -> Self {
        Self {
            highest,
            rate: highest,
            too_high: u32::MAX,
            settling: 0,
            calm: 0,
            received: 0,
            lost: 0,
            requested_at: None,
        }
    }

    /// The rate to wish for now, in messages in 1,000 s. Never 0, which means no wish.
    pub fn after_period(&mut self, now: Nanos, report: &SubscriberReport) -> u32 {
        let elapsed = now.saturating_sub(self.requested_at.unwrap_or(now));
        let received = report.received.saturating_sub(self.received);
        // One that came late after all has been taken off again.
        let lost = report.lost.saturating_sub(self.lost);
        let is_first = self.requested_at.is_none();
        (self.received, self.lost, self.requested_at) = (report.received, report.lost, Some(now));
        if is_first {
            return self.rate.max(1);
        }
        if self.settling > 0 {
            self.settling -= 1;
        } else if lost > 0 {
            self.too_high = self.rate;
            self.rate = (self.rate - self.rate / 8).min(rate_of(received, elapsed)).max(1);
            (self.settling, self.calm) = (SETTLING, 0);
        } else {
            self.calm += 1;
            if self.calm >= CALM {
                (self.too_high, self.calm) = (u32::MAX, 0);
            }
            let clear = (self.too_high - self.too_high / 16).min(self.highest);
            self.rate = self.rate.max(self.rate.saturating_add(clear / 64 + 1).min(clear));
        }
        self.rate.max(1)
    }
}

/// The rate in messages in 1,000 s.
fn rate_of(messages: u64, elapsed: Nanos) -> u32 {
    let rate = u128::from(messages) * 1_000_000_000_000 / u128::from(elapsed.max(1));
    u32::try_from(rate).unwrap_or(u32::MAX)
}

/// The rate for a publisher with this intended rate: limited by the lowest wish of its subscribers.
#[must_use]
pub fn follow_lowest(intended: u32, report: &PublisherReport) -> u32 {
    match report.announced.lowest_rate {
        0 => intended,
        lowest => lowest.min(intended),
    }
}

/// The deadline for a subscriber to announce, in microseconds: the shortest of its publishers'.
#[must_use]
pub const fn follow_deadline(report: &SubscriberReport) -> u32 {
    report.announced.deadline_us
}

/// Progress towards a target delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The delay is within the target.
    Met,
    /// A tighter deadline is being tried.
    Trying,
    /// Tighter deadlines do not shorten the delay. The deadline is back at its initial value.
    NotAchievable,
}

/// Tightens a publisher's deadline until the delay to its slowest subscriber is within a target.
#[derive(Debug, Clone, Copy)]
pub struct TightenDeadline {
    target_ns: u64,
    first_us: u32,
    deadline_us: u32,
    settling: u32,
    /// The delay before the last change, and the number of consecutive changes that did not help.
    before_ns: u64,
    in_vain: u32,
    target: Target,
}

impl TightenDeadline {
    /// Begins with the target delay and the topic's initial deadline (its 1/rate if it has none).
    #[must_use]
    pub const fn new(target_ns: u64, deadline_us: u32) -> Self {
        Self {
            target_ns,
            first_us: deadline_us,
            deadline_us,
            settling: 0,
            before_ns: u64::MAX,
            in_vain: 0,
            target: Target::Trying,
        }
    }

    /// The deadline to announce now, in microseconds, and the progress. Without an echo since the last probe nothing changes.
    pub fn after_period(&mut self, report: &PublisherReport) -> (u32, Target) {
        let delay = report.slowest_ns;
        if self.settling > 0 {
            self.settling -= 1;
        } else if delay != 0 && self.target != Target::NotAchievable {
            self.judge(delay);
        }
        (self.deadline_us, self.target)
    }

    fn judge(&mut self, delay: u64) {
        if delay <= self.target_ns {
            (self.target, self.in_vain, self.before_ns) = (Target::Met, 0, u64::MAX);
            return;
        }
        // A sixteenth less is a success.
        let has_helped = delay < self.before_ns - self.before_ns / 16;
        self.in_vain = if has_helped { 0 } else { self.in_vain + 1 };
        if self.in_vain >= TRIALS || self.deadline_us <= 1 {
            (self.target, self.deadline_us) = (Target::NotAchievable, self.first_us);
            return;
        }
        self.target = Target::Trying;
        self.before_ns = delay;
        self.deadline_us /= 2;
        self.settling = SETTLING;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presence::Summary;

    const S: Nanos = 1_000_000_000;

    #[test]
    fn without_loss_nothing_changes_and_no_figure_is_too_large() {
        let mut rate = LossFreeRate::new(10_000);
        for second in 0..200 {
            let report = SubscriberReport { received: second * 10, ..SubscriberReport::default() };
            assert_eq!(rate.after_period(second * S, &report), 10_000);
        }
        for highest in [0, 1, u32::MAX] {
            let mut rate = LossFreeRate::new(highest);
            for at in [0, 1, u64::MAX, 5, 5] {
                let report = SubscriberReport { received: at, lost: at, ..SubscriberReport::default() };
                assert!((1..=highest.max(1)).contains(&rate.after_period(at, &report)));
            }
        }
    }

    #[test]
    fn a_publisher_follows_the_lowest_wish_if_there_is_one() {
        let report = |lowest_rate| PublisherReport {
            announced: Summary { lowest_rate, ..Summary::default() },
            ..PublisherReport::default()
        };
        assert_eq!([0, 5, 20].map(|lowest| follow_lowest(10, &report(lowest))), [10, 5, 10]);
    }

    #[test]
    fn a_target_is_given_up_when_tighter_deadlines_do_not_help() {
        let mut deadline = TightenDeadline::new(1_000, 64);
        let report = |slowest_ns| PublisherReport { slowest_ns, ..PublisherReport::default() };
        assert_eq!(deadline.after_period(&report(0)), (64, Target::Trying), "nothing is known yet");
        let mut deadlines = [0; 12];
        for place in &mut deadlines {
            (*place, _) = deadline.after_period(&report(50_000));
        }
        assert_eq!(deadlines, [32, 32, 32, 16, 16, 16, 8, 8, 8, 64, 64, 64]);
        assert_eq!(deadline.after_period(&report(500)), (64, Target::NotAchievable));
    }
}
