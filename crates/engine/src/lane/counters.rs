//! What a lane counts: for the whole of it, for each outbox, for each channel.

use super::latency::Latency;
use crate::{ChannelId, OutboxId, Peer, ProxyKey, Time};

/// Why an event was dropped for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiscardReason {
    /// The outbox had `MaxEventsPerConsumer` events.
    OutboxFull,
    /// The channel's memory budget was spent and this was the largest backlog.
    MemorySpent,
    /// The channel had `MaxQueueLength` events and this was the largest backlog.
    QueueFull,
    /// The consumer will never take the event.
    Rejected,
    /// The event cannot be translated to what the consumer wants.
    Untranslatable,
    /// The lane disconnected the consumer.
    Disconnected,
    /// Administration disconnected or destroyed the proxy, or destroyed the channel.
    Removed,
    /// Its `Timeout` was over, or its `StopTime` had come, before it could be delivered.
    Expired,
    /// The consumer's remote filters did not answer in time, or failed.
    FilterFailed,
    /// It was kept [elsewhere](crate::Overflow), and could not be brought back.
    OverflowLost,
    /// There was no room, suppliers had [waited](crate::Notice::WaitedOut) for the consumer for its `hold_timeout`, and its connection is
    /// persistent.
    WaitedOut,
    /// Its deliveries failed `delivery_attempts` times, and the consumer took a later event then.
    Undeliverable,
    /// The consumer [has a correlation](crate::Hierarchy::set_correlation), and the event was in no set: none of the others came in time,
    /// too many events waited, or it had no value to be correlated by.
    Uncorrelated,
}

impl DiscardReason {
    /// Every reason, in the order of declaration.
    pub const ALL: [Self; 13] = [
        Self::OutboxFull,
        Self::MemorySpent,
        Self::QueueFull,
        Self::Rejected,
        Self::Untranslatable,
        Self::Disconnected,
        Self::Removed,
        Self::Expired,
        Self::FilterFailed,
        Self::OverflowLost,
        Self::WaitedOut,
        Self::Undeliverable,
        Self::Uncorrelated,
    ];
}

/// How many events were dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discards([u64; DiscardReason::ALL.len()]);

impl Discards {
    /// How many for one reason.
    #[must_use]
    pub fn of(&self, reason: DiscardReason) -> u64 {
        self.0.get(reason as usize).copied().unwrap_or(0)
    }

    /// How many for all reasons together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds what another lane dropped.
    pub fn join(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
    }

    pub(crate) fn add(&mut self, reason: DiscardReason, events: u64) {
        if let Some(count) = self.0.get_mut(reason as usize) {
            *count += events;
        }
    }
}

/// What a lane counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events from suppliers.
    pub taken: TakenCounters,
    /// Events on their way to consumers.
    pub deliveries: DeliveryCounters,
    /// Events dropped for a consumer, by reason.
    pub discards: Discards,
    /// Events kept [elsewhere](crate::Overflow).
    pub overflow: OverflowCounters,
    /// Events that channels keep of their past.
    pub history: HistoryCounters,
    /// Events between this lane and others.
    pub handovers: HandoverCounters,
    /// Destinations of event types.
    pub routing: RoutingCounters,
    /// Constraints on the event path.
    pub filters: FilterCounters,
}

/// Events from suppliers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenCounters {
    /// Events taken, the held ones included.
    pub accepted: u64,
    /// Events taken, with the reply to their supplier withheld.
    pub withheld: u64,
    /// Events refused.
    pub refused: u64,
    /// Events taken that no consumer wanted.
    pub unwanted: u64,
    /// Events that did not pass the filters on their supplier's side.
    pub filtered: u64,
    /// Events that waited for their turn behind or beside others.
    pub queued: u64,
    /// The most events that have waited for their turn at once.
    pub queued_max: u64,
    /// Times at which a channel's suppliers were blocked because of what the events of all channels take together, and not
    /// because of its own budget.
    pub channels_short: u64,
}

/// Events on their way to consumers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounters {
    /// Events queued, counted once for each consumer.
    pub queued: u64,
    /// Deliveries begun, retries included.
    pub begun: u64,
    /// Events delivered, counted once for each consumer.
    pub delivered: u64,
    /// Events put back after a failure or for want of room, counted each time.
    pub put_back: u64,
    /// Deliveries that a filter which a client implements did not let pass.
    pub filtered: u64,
    /// Failures: unreachable, timed out or refused.
    pub failures: u64,
    /// Deliveries, or connections without room, that timed out.
    pub timed_out: u64,
    /// Consumers disconnected by the lane.
    pub disconnected: u64,
    /// Outcomes for a delivery that is not (or no longer) unanswered.
    pub stale_outcomes: u64,
    /// Calls that named an outbox which does not (or no longer) exist.
    pub unknown_outboxes: u64,
}

/// Events kept [elsewhere](crate::Overflow), counted once for each consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverflowCounters {
    /// Events that were kept there.
    pub stored: u64,
    /// Events that came back.
    pub brought_back: u64,
    /// Times at which a channel's events found no room there because of what those of all channels have there, and not because of its own
    /// budget.
    pub channels_short: u64,
}

/// Events that channels keep of their past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryCounters {
    /// Events that channels keep.
    pub stored: u64,
    /// Events that they should keep and do not, because too many were on their way.
    pub missed: u64,
    /// Events that consumers got from there.
    pub recalled: u64,
}

/// Events between this lane and others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandoverCounters {
    /// Events handed over to other lanes, counted once for each lane. They are in none of the counts of deliveries.
    pub given: u64,
    /// Events that a lane did not take because it had no such channel any more.
    pub refused: u64,
    /// Events dropped while they waited to be handed over, because a limit of their channel was reached and all consumers on the other lane
    /// have events dropped then. They are dropped for no consumer in particular.
    pub dropped: u64,
    /// Events that other lanes handed over to this one. They are not among those accepted.
    pub taken: u64,
}

/// Destinations of event types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoutingCounters {
    /// Snapshots picked up.
    pub snapshots: u64,
    /// Event types that could not be interned.
    pub types_not_interned: u64,
    /// Times the destinations of a type had to be found anew.
    pub misses: u64,
    /// Changes of routing that were taken into what was remembered of an event type.
    pub amendments: u64,
    /// Consumers that were looked at because a snapshot of the routing said something else of them.
    pub members_visited: u64,
    /// Times all remembered destinations were forgotten because there were too many.
    pub resets: u64,
}

/// Constraints on the event path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterCounters {
    /// Constraints evaluated.
    pub evaluations: u64,
    /// Of these, the ones that failed: a field was not there, a type was wrong, a division by zero. They do not match.
    pub failures: u64,
    /// Events with their filtering cut short because its steps were spent. What was not evaluated does not match.
    pub cuts: u64,
}

/// What one channel's events came to on a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Events taken in of suppliers.
    pub events_in: u64,
    /// Octets of their bodies.
    pub event_bytes_in: u64,
    /// Events refused.
    pub refused: u64,
    /// Events delivered, counted once for each consumer.
    pub delivered: u64,
    /// Octets of their bodies.
    pub delivered_bytes: u64,
    /// Events dropped for consumers, by reason.
    pub discards: Discards,
    /// How long those that were delivered were under way.
    pub latency: Latency,
}

impl Traffic {
    /// Adds what came to pass on another lane.
    pub fn join(&mut self, other: &Self) {
        let Self { events_in, event_bytes_in, refused, delivered, delivered_bytes, discards, latency } = other;
        self.events_in += events_in;
        self.event_bytes_in += event_bytes_in;
        self.refused += refused;
        self.delivered += delivered;
        self.delivered_bytes += delivered_bytes;
        self.discards.join(discards);
        self.latency.join(latency);
    }
}

/// What an outbox is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutboxState {
    /// Delivering, or with nothing to deliver.
    Active,
    /// Suspended by administration.
    Suspended,
    /// Waiting for its connection to have room.
    NoRoom,
    /// Waiting to try again after a failure.
    BackingOff,
    /// Disconnected by the lane; administration has not yet removed it.
    Disconnected,
}

/// How one consumer's outbox is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxStats {
    /// The outbox.
    pub outbox: OutboxId,
    /// The consumer's proxy.
    pub key: ProxyKey,
    /// The connected client; a consumer that pulls may have given no handle.
    pub peer: Option<Peer>,
    /// What it is doing.
    pub state: OutboxState,
    /// How many events wait or are unanswered, those that are kept elsewhere included.
    pub backlog_events: u64,
    /// How many of them are kept [elsewhere](crate::Overflow).
    pub elsewhere_events: u64,
    /// What the others weigh ([`Event::weight`](crate::Event::weight)), in bytes.
    pub backlog_bytes: u64,
    /// Events that wait for others of [their set](crate::Hierarchy::set_correlation), and are not in the backlog.
    pub awaiting_set: u64,
    /// Sets that were complete so far.
    pub sets: u64,
    /// How many of the backlog are unanswered.
    pub in_flight: u32,
    /// How many of those that wait do so for their `StartTime`.
    pub delayed: u64,
    /// Clients that wait for an event to pull.
    pub pulls_waiting: u32,
    /// How many events were delivered.
    pub delivered: u64,
    /// Octets of their bodies, as they arrived.
    pub delivered_bytes: u64,
    /// How long they were under way.
    pub latency: Latency,
    /// How many events were dropped, by reason.
    pub discards: Discards,
    /// How many times deliveries have failed in a row; 0 if the last did not.
    pub failures: u32,
    /// When it is disconnected if it goes on failing; nothing if it does not fail, or is tried again without end.
    pub given_up_at: Option<Time>,
    /// Whether suppliers wait for it.
    pub holds: Option<Holding>,
    /// When the event came that is unanswered, or else that goes next: the oldest, where events go in the order in which they came.
    /// Nothing if there is none.
    pub oldest: Option<Time>,
}

impl OutboxStats {
    /// Adds what another outbox says. Outbox, proxy, client and state stay this one's.
    pub fn join(&mut self, other: &Self) {
        self.backlog_events += other.backlog_events;
        self.backlog_bytes += other.backlog_bytes;
        self.in_flight += other.in_flight;
        self.delayed += other.delayed;
        self.pulls_waiting += other.pulls_waiting;
        self.delivered += other.delivered;
        self.delivered_bytes += other.delivered_bytes;
        self.latency.join(&other.latency);
        self.elsewhere_events += other.elsewhere_events;
        self.awaiting_set += other.awaiting_set;
        self.sets += other.sets;
        self.discards.join(&other.discards);
        self.failures = self.failures.max(other.failures);
        self.given_up_at = self.given_up_at.into_iter().chain(other.given_up_at).min();
        self.oldest = self.oldest.into_iter().chain(other.oldest).min();
        self.holds = [self.holds, other.holds].into_iter().flatten().min_by_key(|holds| holds.since);
    }
}

/// How long suppliers wait for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Since when.
    pub since: Time,
    /// When they go on at the earliest if it takes nothing, and it is disconnected or, if its connection is persistent, has events dropped;
    /// `None` if never, or not while it cannot take anything.
    pub until: Option<Time>,
}

/// How one channel is doing on a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStats {
    /// What came in and went out since the lane has the channel.
    pub traffic: Traffic,
    /// The channel.
    pub channel: ChannelId,
    /// Events held, each counted once.
    pub events: u64,
    /// What they are charged to the memory budget, in bytes.
    pub memory_bytes: u64,
    /// Suppliers' replies being withheld.
    pub withheld: u64,
}
