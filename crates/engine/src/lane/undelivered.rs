//! What consumers have yet to get, asked before a service ends: how much each has, and what it waits for.

use alloc::vec::Vec;
use core::time::Duration;

use super::Lane;
use super::outbox::Outbox;
use super::queue::Policy;
use crate::{BlockedBy, Time};

/// A consumer that fetches its events is taken to go on if it fetched some so lately.
const FETCHED_LATELY: Duration = Duration::from_secs(1);

/// What the events of a consumer wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitsFor {
    /// That the consumer takes them: it is pushed to, or fetches and has done so within the last second. Only these may be
    /// delivered if one waits a little.
    Consumer,
    /// That a consumer which fetches them does so.
    Fetching,
    /// Their `StartTime`.
    StartTime,
    /// That administration resumes the consumer.
    Resumption,
}

/// Events that wait for one consumer, or to be handed over to another lane, or are unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// The consumer or lane that they are for.
    pub of: BlockedBy,
    /// How many there are.
    pub events: u64,
    /// What they wait for.
    pub waits_for: WaitsFor,
}

impl Lane {
    /// Tells what is undelivered in the outboxes at so many places from `first` on, and has batches leave that would wait
    /// for their `PacingInterval`: nothing is to come that could fill them. False if there are no places from there on.
    ///
    /// Looking at all places piece by piece meets each outbox that was there all the time exactly once.
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
        let events = self.backlog() as u64 + self.elsewhere.events;
        let is_under_way = self.backlog() > self.waiting.len();
        let waits_for = match () {
            () if is_under_way => WaitsFor::Consumer,
            () if self.suspended => WaitsFor::Resumption,
            () if self.waiting.ready() == 0 && !self.elsewhere.is_fetching() => WaitsFor::StartTime,
            () if self.terms.pull && !self.is_fetching(now) => WaitsFor::Fetching,
            () => WaitsFor::Consumer,
        };
        (events > 0).then_some(Undelivered { of: self.blocked_by(), events, waits_for })
    }

    fn is_fetching(&self, now: Time) -> bool {
        self.pulls_wait() || (self.counters.delivered > 0 && now.since(self.flight.answered_at) < FETCHED_LATELY)
    }
}
