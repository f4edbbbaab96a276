//! Undelivered events, listed before a service ends: how many each consumer has, and what they wait for.

use alloc::vec::Vec;
use core::time::Duration;

use super::Lane;
use super::outbox::Outbox;
use super::queue::Policy;
use crate::{BlockedBy, Time};

/// A pull consumer that pulled within this time is expected to continue.
const FETCHED_LATELY: Duration = Duration::from_secs(1);

/// What a consumer's events wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitsFor {
    /// The consumer takes them: it is pushed to, or has pulled within the last second. Only these may be delivered if
    /// the service waits a little.
    Consumer,
    /// The consumer pulls them.
    Fetching,
    /// Their `StartTime` comes.
    StartTime,
    /// Administration resumes the consumer.
    Resumption,
    /// Others come that belong to their set.
    Others,
}

/// Undelivered events of one consumer or bridge, waiting or unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// The consumer or lane that they are for.
    pub of: BlockedBy,
    /// Number of events.
    pub events: u64,
    /// What the events wait for.
    pub waits_for: WaitsFor,
}

impl Lane {
    /// Lists undelivered events of the outboxes in a range of places, and makes batches leave without waiting for
    /// their `PacingInterval`: no event will come to fill them. Returns false if there are no places from `first` on.
    ///
    /// A walk through all ranges meets each outbox that existed all the time exactly once.
    pub fn undelivered_at(&mut self, first: u32, places: u32, now: Time, into: &mut Vec<Undelivered>) -> bool {
        self.advance_time(now);
        let end = first.saturating_add(places).min(self.outboxes.places());
        for slot in first..end {
            let Some(outbox) = self.outboxes.get_mut(slot).filter(|outbox| !outbox.dead) else { continue };
            let policy = outbox.waiting.policy();
            if policy.paced {
                outbox.waiting.set_policy(Policy { paced: false, ..policy }, &self.events);
            }
            into.extend(outbox.undelivered(self.now));
            self.list_if_ready(slot);
        }
        first < end
    }
}

impl Outbox {
    fn undelivered(&self, now: Time) -> Option<Undelivered> {
        let events = (self.backlog() + self.waiting.gathered()) as u64 + self.elsewhere.events;
        let is_under_way = self.backlog() > self.waiting.len();
        let waits_for = match () {
            () if is_under_way => WaitsFor::Consumer,
            () if self.suspended => WaitsFor::Resumption,
            () if self.backlog() as u64 + self.elsewhere.events == 0 => WaitsFor::Others,
            () if self.waiting.ready() + self.waiting.started() == 0 && !self.elsewhere.is_fetching() => {
                WaitsFor::StartTime
            }
            () if self.terms.pull && !self.is_fetching(now) => WaitsFor::Fetching,
            () => WaitsFor::Consumer,
        };
        (events > 0).then_some(Undelivered { of: self.blocked_by(), events, waits_for })
    }

    fn is_fetching(&self, now: Time) -> bool {
        self.pulls_wait() || (self.counters.delivered > 0 && now.since(self.flight.answered_at) < FETCHED_LATELY)
    }
}
