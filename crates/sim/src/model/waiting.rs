//! Waiting events of an outbox, naively: a list in no particular order, searched for each query.

use std::cmp::Reverse;

use std::time::Duration;

use engine::{
    DiscardPolicy, DiscardReason, Mapping, OrderPolicy, OutboxSettings, OutboxState, RemoteFilterGroups, Time,
};

use super::filters::Says;
use super::{Event, Flight, Model};

const NEVER: Time = Time(u64::MAX);

/// Fields of an event's header.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Header {
    pub(crate) priority: Option<i16>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) start: Option<Time>,
    pub(crate) stop: Option<Time>,
}

/// A waiting event. Events are numbered in the order in which they were handed in.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub(super) event: usize,
    priority: i16,
    pub(super) since: Time,
    expiry: Time,
    /// Remote filters to call first.
    pub(super) ask: Option<RemoteFilterGroups>,
    /// Whether it was in a rejected batch, or after one.
    pub(super) again: bool,
}

impl Model {
    /// An event as it would wait in an outbox.
    pub(super) fn waiting(&self, at: usize, event: usize) -> Waiting {
        let (settings, key) = (self.settings(at), self.outboxes[at].key);
        let Event { header, content, says_priority, .. } = &self.events[event];
        let priority = self.routed.mapped(key, Mapping::Priority, content, *says_priority);
        let priority = priority.map(|value| value.clamp(-32_768, 32_767)).and_then(|value| i16::try_from(value).ok());
        let own = header.timeout.or(settings.timeout);
        let lifetime = self.routed.mapped(key, Mapping::Lifetime, content, header.timeout.is_some());
        let lifetime = lifetime.map_or(own, |nanos| u64::try_from(nanos).ok().map(Duration::from_nanos));
        let lifetime = lifetime.filter(|lifetime| !lifetime.is_zero());
        let (says, filter_groups) = self.routed.says(key, content);
        let expiry = lifetime.map_or(NEVER, |lifetime| self.now + lifetime);
        let stop = if settings.stop_time_supported { header.stop } else { None };
        let start = if settings.start_time_supported { header.start } else { None };
        Waiting {
            event,
            priority: priority.or(header.priority).unwrap_or(0),
            since: self.now.max(start.unwrap_or(self.now)),
            expiry: expiry.min(stop.unwrap_or(NEVER)),
            ask: (says == Says::Ask).then_some(filter_groups),
            again: false,
        }
    }

    pub(super) fn has_expired(&self, waiting: Waiting) -> bool {
        !self.keeps_expired && waiting.expiry <= self.now
    }

    pub(super) fn expire(&mut self, at: usize) {
        let (expired, kept): (Vec<_>, Vec<_>) =
            self.outboxes[at].waiting.iter().partition(|waiting| self.has_expired(**waiting));
        self.outboxes[at].waiting = kept;
        let count = expired.len();
        self.count_discards(at, DiscardReason::Expired, count as u64);
    }

    /// Deliverable events, in order of delivery.
    pub(super) fn line(&self, at: usize, order: OrderPolicy) -> Vec<Waiting> {
        self.line_of(at, order, self.now)
    }

    /// Events deliverable at `time`, in order of delivery.
    pub(super) fn line_of(&self, at: usize, order: OrderPolicy, time: Time) -> Vec<Waiting> {
        let all = self.outboxes[at].waiting.iter().copied();
        let mut ready: Vec<Waiting> = all.filter(|waiting| waiting.since <= time).collect();
        ready.sort_by_key(|waiting| (waiting.since, waiting.event));
        match order {
            OrderPolicy::Any | OrderPolicy::Fifo => {}
            OrderPolicy::Priority => ready.sort_by_key(|waiting| Reverse(waiting.priority)),
            OrderPolicy::Deadline => ready.sort_by_key(|waiting| waiting.expiry),
        }
        ready
    }

    /// Events before their start time, the next first.
    pub(super) fn delayed(&self, at: usize) -> Vec<Waiting> {
        self.delayed_of(at, self.now)
    }

    /// Events before their start time at `time`, the next first.
    pub(super) fn delayed_of(&self, at: usize, time: Time) -> Vec<Waiting> {
        let all = self.outboxes[at].waiting.iter().copied();
        let mut delayed: Vec<Waiting> = all.filter(|waiting| waiting.since > time).collect();
        delayed.sort_by_key(|waiting| (waiting.since, waiting.event));
        delayed
    }

    /// Which of some events the discard policy chooses.
    pub(super) fn victim(policy: DiscardPolicy, among: &[Waiting]) -> Option<usize> {
        let mut order = among.to_vec();
        order.sort_by_key(|waiting| waiting.event);
        match policy {
            DiscardPolicy::Any | DiscardPolicy::Fifo => {}
            DiscardPolicy::Lifo => order.reverse(),
            DiscardPolicy::Priority => order.sort_by_key(|waiting| waiting.priority),
            DiscardPolicy::Deadline => order.sort_by_key(|waiting| waiting.expiry),
        }
        order.first().map(|waiting| waiting.event)
    }

    // ---- deliveries ----

    pub(super) fn can_deliver(&self, at: usize) -> bool {
        let (outbox, settings) = (&self.outboxes[at], self.settings(at));
        let is_careful = outbox.failures > 0 || outbox.split.1 > 0;
        let window = if is_careful { 1 + outbox.aside } else { usize::from(settings.push_window) };
        let wanted = if outbox.pull { !outbox.credits.is_empty() } else { outbox.in_flight.len() < window };
        let line = self.line(at, OrderPolicy::Fifo);
        let (Some(oldest), OutboxState::Active, true) = (line.first(), self.state(at), wanted) else { return false };
        // An event with remote filters to call is a batch of its own, and so is full.
        let asks = self.line(at, settings.order_policy).first().is_some_and(|first| first.ask.is_some() || first.again);
        let is_full = asks || line.len() >= self.most(at, settings) as usize;
        is_full || !outbox.batches || oldest.since + settings.pacing_interval <= self.now
    }

    /// Most events in the next delivery.
    pub(super) fn most(&self, at: usize, settings: OutboxSettings) -> u32 {
        let outbox = &self.outboxes[at];
        match outbox.credits.first() {
            _ if outbox.aside > 0 => 1,
            Some(credit) => self.pull_most(at, settings, *credit),
            None if outbox.batches => settings.batch_size_max.get(),
            None => 1,
        }
    }

    /// Number of events for a client that pulls at most `most`.
    pub(super) fn pull_most(&self, at: usize, settings: OutboxSettings, most: u32) -> u32 {
        match (self.outboxes[at].batches, settings.batch_size_max.get()) {
            (false, _) => 1,
            (true, 1) => most,
            (true, bound) => most.min(bound),
        }
    }

    /// When a waiting event of an outbox next becomes due.
    pub(super) fn waiting_due(&self, at: usize) -> Option<Time> {
        let (outbox, settings) = (&self.outboxes[at], self.settings(at));
        let mortal = outbox.waiting.iter().filter(|_| !self.keeps_expired);
        let expiry = mortal.map(|waiting| waiting.expiry).filter(|expiry| *expiry < NEVER);
        let start = self.delayed(at).into_iter().map(|waiting| waiting.since);
        let oldest = self.line(at, OrderPolicy::Fifo).first().map(|oldest| oldest.since + settings.pacing_interval);
        let paced = oldest.filter(|due| outbox.batches && *due > self.now);
        expiry.chain(start).chain(paced).min()
    }

    pub(super) fn put_back(&mut self, at: usize, flights: Vec<Flight>) {
        for flight in flights {
            self.counts.put_back += flight.events.len() as u64;
            self.outboxes[at].waiting.extend(flight.events);
        }
    }
}
