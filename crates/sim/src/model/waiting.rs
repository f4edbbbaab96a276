//! What waits in an outbox, naively: a list in no particular order, in which whatever is asked for is searched.

use std::cmp::Reverse;

use std::time::Duration;

use engine::{
    DiscardPolicy, DiscardReason, Mapping, OrderPolicy, OutboxSettings, OutboxState, RemoteFilterGroups, Time,
};

use super::filters::Says;
use super::{Event, Flight, Model};

/// Later than everything.
const NEVER: Time = Time(u64::MAX);

/// What a protocol says of an event beside its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Header {
    pub(crate) priority: Option<i16>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) start: Option<Time>,
    pub(crate) stop: Option<Time>,
}

/// An event that waits in an outbox. Events are numbered in the order in which they were handed in.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub(super) event: usize,
    priority: i16,
    pub(super) since: Time,
    expiry: Time,
    /// What clients' filters are to be asked first.
    pub(super) ask: Option<RemoteFilterGroups>,
    /// Whether it was in a batch that was rejected, or behind one.
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

    /// Drops what has expired.
    pub(super) fn expire(&mut self, at: usize) {
        let (expired, kept): (Vec<_>, Vec<_>) =
            self.outboxes[at].waiting.iter().partition(|waiting| self.has_expired(**waiting));
        self.outboxes[at].waiting = kept;
        let count = expired.len();
        self.count_discards(at, DiscardReason::Expired, count as u64);
    }

    /// The events that could be delivered, in the order in which they would be.
    pub(super) fn line(&self, at: usize, order: OrderPolicy) -> Vec<Waiting> {
        self.line_of(at, order, self.now)
    }

    /// The same at another time.
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

    /// The events that wait for their time, the next first.
    pub(super) fn delayed(&self, at: usize) -> Vec<Waiting> {
        self.delayed_of(at, self.now)
    }

    /// The same at another time.
    pub(super) fn delayed_of(&self, at: usize, time: Time) -> Vec<Waiting> {
        let all = self.outboxes[at].waiting.iter().copied();
        let mut delayed: Vec<Waiting> = all.filter(|waiting| waiting.since > time).collect();
        delayed.sort_by_key(|waiting| (waiting.since, waiting.event));
        delayed
    }

    /// Which of some events is given up first.
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
        // What others are asked about is a batch of its own, and so is full.
        let asks = self.line(at, settings.order_policy).first().is_some_and(|first| first.ask.is_some() || first.again);
        let is_full = asks || line.len() >= self.most(at, settings) as usize;
        is_full || !outbox.batches || oldest.since + settings.pacing_interval <= self.now
    }

    /// How many events the next delivery may have.
    pub(super) fn most(&self, at: usize, settings: OutboxSettings) -> u32 {
        let outbox = &self.outboxes[at];
        match outbox.credits.first() {
            _ if outbox.aside > 0 => 1,
            Some(credit) => self.pull_most(at, settings, *credit),
            None if outbox.batches => settings.batch_size_max.get(),
            None => 1,
        }
    }

    /// How many events a client gets that takes so many at most.
    pub(super) fn pull_most(&self, at: usize, settings: OutboxSettings, most: u32) -> u32 {
        match (self.outboxes[at].batches, settings.batch_size_max.get()) {
            (false, _) => 1,
            (true, 1) => most,
            (true, bound) => most.min(bound),
        }
    }

    /// When something is due next of what waits in an outbox.
    pub(super) fn waiting_due(&self, at: usize) -> Option<Time> {
        let (outbox, settings) = (&self.outboxes[at], self.settings(at));
        let mortal = outbox.waiting.iter().filter(|_| !self.keeps_expired);
        let expiry = mortal.map(|waiting| waiting.expiry).filter(|expiry| *expiry < NEVER);
        let start = self.delayed(at).into_iter().map(|waiting| waiting.since);
        let oldest = self.line(at, OrderPolicy::Fifo).first().map(|oldest| oldest.since + settings.pacing_interval);
        let paced = oldest.filter(|due| outbox.batches && *due > self.now);
        expiry.chain(start).chain(paced).min()
    }

    /// Puts deliveries back.
    pub(super) fn put_back(&mut self, at: usize, flights: Vec<Flight>) {
        for flight in flights {
            self.counts.put_back += flight.events.len() as u64;
            self.outboxes[at].waiting.extend(flight.events);
        }
    }
}
