//! Delayed replies: a request that destroys a channel or an admin is answered when the clients of its proxies have been notified.
//!
//! Programs destroy a channel and look at once whether their consumers were disconnected, or end: JacORB's own tests do, and
//! its service and TAO's tell the clients first. A client that does not answer holds the reply back for a second at most.

use engine::Time;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Longest wait for the clients to be notified.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Requests that may wait for it at once; a further one is answered without.
const WAITING_MAX: usize = 256;

/// A request that is answered when clients have been notified of what it did. Opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DelayedReply(u64);

/// The clients that requests wait for.
#[derive(Debug, Default)]
pub struct DelayedReplies {
    now: Time,
    next: u64,
    /// What the request that is being executed waits for, and how many there are of these.
    begun: Option<(DelayedReply, usize)>,
    /// Waiting requests. Those that began first end first, because time only goes forward.
    waiting: BTreeMap<DelayedReply, Waiting>,
    over: VecDeque<(DelayedReply, bool)>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    until: Time,
    unnotified: usize,
}

impl DelayedReplies {
    /// Begins a request, which has nothing to wait for yet.
    pub(super) fn begin(&mut self) {
        self.begun = None;
    }

    /// The request that is being executed waits for one thing more.
    pub(super) fn hold(&mut self) -> DelayedReply {
        let next = &mut self.next;
        let (delayed_reply, count) = self.begun.get_or_insert_with(|| {
            *next += 1;
            (DelayedReply(*next), 0)
        });
        *count += 1;
        *delayed_reply
    }

    /// Adds a client for which a request waits, unless the request has been answered: then nothing waits.
    pub(super) fn one_more(&mut self, delayed_reply: DelayedReply) -> Option<DelayedReply> {
        let begun = self.begun.as_mut().filter(|(begun, _)| *begun == delayed_reply).map(|(_, count)| count);
        let count = begun.or_else(|| self.waiting.get_mut(&delayed_reply).map(|waiting| &mut waiting.unnotified))?;
        *count += 1;
        Some(delayed_reply)
    }

    /// Says, after [`Protocol::handle`](super::Protocol::handle), whether the request's reply is to be kept until [`DelayedReplies::poll`]
    /// names it.
    pub fn take(&mut self) -> Option<DelayedReply> {
        let (delayed_reply, unnotified) = self.begun.take().filter(|(_, unnotified)| *unnotified > 0)?;
        if self.waiting.len() < WAITING_MAX {
            self.waiting.insert(delayed_reply, Waiting { until: self.now + WAIT_MAX, unnotified });
        } else {
            self.over.push_back((delayed_reply, false));
        }
        Some(delayed_reply)
    }

    /// Counts off a client that has answered an [`Effect::Call`](super::Effect::Call), or cannot be reached, or something else that was
    /// waited for.
    pub fn notified(&mut self, delayed_reply: DelayedReply) {
        if let Some((_, count)) = self.begun.as_mut().filter(|(begun, _)| *begun == delayed_reply) {
            *count = count.saturating_sub(1);
            return;
        }
        let Some(waiting) = self.waiting.get_mut(&delayed_reply) else { return };
        waiting.unnotified = waiting.unnotified.saturating_sub(1);
        if waiting.unnotified == 0 {
            self.waiting.remove(&delayed_reply);
            self.over.push_back((delayed_reply, true));
        }
    }

    /// Takes the next request with a reply that need not wait any longer, and whether all its clients have been notified.
    pub fn poll(&mut self) -> Option<(DelayedReply, bool)> {
        self.over.pop_front()
    }

    /// Ends the waits that took too long.
    pub(super) fn handle_time(&mut self, now: Time) {
        self.now = now;
        while let Some(first) = self.waiting.first_entry().filter(|first| first.get().until <= now) {
            self.over.push_back((first.remove_entry().0, false));
        }
    }

    /// When the first one's time is over.
    pub(super) fn next(&self) -> Option<Time> {
        self.waiting.values().next().map(|waiting| waiting.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(delayed_replies: &mut DelayedReplies, clients: usize, now: Time) -> Option<DelayedReply> {
        delayed_replies.handle_time(now);
        delayed_replies.begin();
        (0..clients).for_each(|_| _ = delayed_replies.hold());
        delayed_replies.take()
    }

    #[test]
    fn a_request_waits_until_all_have_been_notified_or_a_second_is_over() {
        let mut delayed_replies = DelayedReplies::default();
        assert_eq!(begun(&mut delayed_replies, 0, Time(0)), None);
        let one = begun(&mut delayed_replies, 1, Time(0)).unwrap();
        let two = begun(&mut delayed_replies, 2, Time(0) + WAIT_MAX / 2).unwrap();
        delayed_replies.notified(two);
        delayed_replies.handle_time(Time(0) + WAIT_MAX / 2);
        assert!(delayed_replies.over.is_empty());
        assert_eq!(delayed_replies.next(), Some(Time(0) + WAIT_MAX));
        delayed_replies.notified(two);
        delayed_replies.handle_time(Time(0) + WAIT_MAX);
        assert_eq!(delayed_replies.over, [(two, true), (one, false)]);
        // An answer that comes too late changes nothing.
        delayed_replies.notified(one);
        assert_eq!((delayed_replies.over.len(), delayed_replies.next()), (2, None));
    }

    #[test]
    fn of_more_requests_than_may_wait_the_last_do_not() {
        let mut delayed_replies = DelayedReplies::default();
        let all: Vec<DelayedReply> =
            (0..=WAITING_MAX).filter_map(|_| begun(&mut delayed_replies, 1, Time(0))).collect();
        assert_eq!(delayed_replies.over, [(all[WAITING_MAX], false)]);
        delayed_replies.notified(all[0]);
        assert_eq!(delayed_replies.over.back(), Some(&(all[0], true)));
        assert!(begun(&mut delayed_replies, 1, Time(0)).is_some() && delayed_replies.over.len() == 2);
    }
}
