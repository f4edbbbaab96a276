//! Notices of a lane to operators: one for each episode, never one for each event.

use core::time::Duration;

use crate::{ChannelId, FullOutbox, LaneId, Peer, ProxyKey, TypeId};

/// Reason for which a lane disconnected a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DisconnectReason {
    /// The consumer disconnected, or no longer exists ([`Outcome::Gone`](crate::Outcome::Gone)).
    Gone,
    /// Its deliveries failed for `give_up_after`.
    GivenUp {
        /// Number of failures in a row.
        failures: u32,
        /// Time from its first failure to the last.
        failing_for: Duration,
    },
    /// It took nothing for its `hold_timeout`, and blocked suppliers.
    BlockedSuppliers {
        /// For how long it blocked them.
        blocked_for: Duration,
    },
    /// It blocked suppliers for its `hold_budget` in ten minutes while other consumers could go on, and its channel's
    /// setting is to disconnect such consumers.
    HoldSpent {
        /// The budget, in time.
        blocked_for: Duration,
    },
    /// Its outbox reached `MaxEventsPerConsumer` and its `FullOutbox` is `Disconnect`.
    OutboxFull,
    /// The channel's memory budget was spent, the consumer's backlog was the largest, and its `FullOutbox` is `Disconnect`.
    MemorySpent,
    /// The channel had `MaxQueueLength` events, the consumer's backlog was the largest, and its `FullOutbox` is `Disconnect`.
    QueueFull,
}

/// The backlog that blocks suppliers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockedBy {
    /// The backlog of a consumer.
    Consumer(ProxyKey),
    /// Events to be handed over to another lane, which is slow to take them.
    Lane(LaneId),
}

/// A notice to operators: one when something begins and one when it ends, however many events it concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The lane disconnected a consumer: its backlog is dropped, and it gets no more events. Administration should
    /// disconnect the proxy.
    ConsumerDisconnected {
        /// The consumer's proxy.
        key: ProxyKey,
        /// The client that was connected; a pull consumer may have given no handle.
        peer: Option<Peer>,
        /// Reason of the disconnection.
        reason: DisconnectReason,
        /// Number of events dropped with it.
        discarded: u64,
    },
    /// The proxy of a durable consumer was destroyed, and its backlog is dropped.
    DurableRemoved {
        /// The consumer's proxy, which is gone.
        key: ProxyKey,
        /// Number of events dropped with it.
        discarded: u64,
    },
    /// An outbox is full, at its own bound or as the largest backlog of a channel that has spent its memory budget or
    /// reached its `MaxQueueLength`.
    OutboxFull {
        /// The consumer's proxy.
        key: ProxyKey,
        /// The policy applied.
        policy: FullOutbox,
        /// Whether the proxy has another policy, which is [not granted](crate::OutboxSettings::hold_granted).
        not_granted: bool,
        /// Number of events that wait or are unanswered.
        backlog_events: u64,
        /// Their weight ([`Event::weight`](crate::Event::weight)), in bytes.
        backlog_bytes: u64,
    },
    /// An outbox that was full has room again.
    OutboxRecovered {
        /// The consumer's proxy.
        key: ProxyKey,
        /// Number of events dropped in between.
        dropped: u64,
    },
    /// A consumer's new events are stored outside memory from now on: it has a backlog, and events take much of its channel's memory.
    Overflows {
        /// The consumer's proxy.
        key: ProxyKey,
        /// Number of events that wait in memory or are unanswered.
        backlog_events: u64,
        /// Their weight ([`Event::weight`](crate::Event::weight)), in bytes.
        backlog_bytes: u64,
    },
    /// All events stored elsewhere for a consumer have come back.
    OverflowOver {
        /// The consumer's proxy.
        key: ProxyKey,
    },
    /// A consumer begins in its channel's history, with this event or the next one that matches its subscription.
    BeginsInHistory {
        /// The consumer's proxy.
        key: ProxyKey,
        /// Number of the event.
        first: u64,
    },
    /// A consumer begins at a position in the future, and gets nothing before.
    BeginsAhead {
        /// The consumer's proxy.
        key: ProxyKey,
        /// Number of the event with which it begins, unless it begins at a time.
        number: Option<u64>,
    },
    /// A consumer that began in its channel's history gets new events from now on.
    CaughtUp {
        /// The consumer's proxy.
        key: ProxyKey,
        /// Number of events that it got before.
        events: u64,
    },
    /// Another lane is so slow to take hand-overs that a limit of the channel is reached. The oldest waiting events
    /// are dropped, as the settings of all consumers there require.
    LaneBehind {
        /// The channel.
        channel: ChannelId,
        /// The slow lane.
        lane: LaneId,
        /// Number of events that wait for it or are under way.
        backlog_events: u64,
        /// Their weight ([`Event::weight`](crate::Event::weight)), in bytes.
        backlog_bytes: u64,
    },
    /// The channel has room again for hand-overs to a lane.
    LaneCaughtUp {
        /// The channel.
        channel: ChannelId,
        /// The lane that was slow.
        lane: LaneId,
        /// Number of events dropped in between.
        dropped: u64,
    },
    /// Deliveries to a consumer have begun to fail.
    ConsumerFailing {
        /// The consumer's proxy.
        key: ProxyKey,
        /// Number of failures in a row so far.
        failures: u32,
        /// Time until the next attempt.
        retry_in: Duration,
    },
    /// A consumer rejected an event, which is dropped for it. Reported again after a minute without rejections.
    EventRejected {
        /// The consumer's proxy.
        key: ProxyKey,
        /// The event's type.
        event_type: TypeId,
        /// The event's number in its channel's history, if one is stored; else in its lane.
        number: u64,
    },
    /// Deliveries of an event failed as often as they may, and the consumer took a later one: the event is dropped for
    /// it. Reported again after a minute without undeliverable events.
    EventUndeliverable {
        /// The consumer's proxy.
        key: ProxyKey,
        /// The event's type.
        event_type: TypeId,
        /// The event's number in its channel's history, if one is stored; else in its lane.
        number: u64,
    },
    /// A consumer that failed takes events again.
    ConsumerRecovered {
        /// The consumer's proxy.
        key: ProxyKey,
        /// Number of failures in a row.
        failures: u32,
        /// Time since its first failure.
        after: Duration,
    },
    /// A channel's suppliers are blocked: all of them because a limit of the channel is reached, or those with events
    /// for a consumer that has a full outbox.
    SuppliersBlocked {
        /// The channel.
        channel: ChannelId,
        /// The backlog that is the reason; `None` if all the memory is used by deliveries under way.
        by: Option<BlockedBy>,
    },
    /// Suppliers stay blocked by a consumer that has taken nothing for its `hold_timeout`, but is not disconnected,
    /// since it cannot take anything at present.
    HoldGoesOn {
        /// The consumer's proxy.
        key: ProxyKey,
        /// For how long they have been blocked.
        blocked_for: Duration,
        /// Whether the consumer is suspended. Otherwise all its events wait for their `StartTime`.
        suspended: bool,
    },
    /// A consumer with a persistent connection has blocked suppliers for its `hold_timeout`: it stays connected and
    /// stops blocking them until it takes something. Events without room are dropped for it.
    WaitedOut {
        /// The consumer's proxy.
        key: ProxyKey,
        /// For how long they have been blocked.
        blocked_for: Duration,
    },
    /// A consumer has blocked suppliers for its `hold_budget` in ten minutes while other consumers could go on. It stops blocking them, and
    /// events without room are dropped for it, until it takes something and half of the budget is available again.
    HoldSpent {
        /// The consumer's proxy.
        key: ProxyKey,
        /// The budget, in time.
        blocked_for: Duration,
    },
    /// A consumer that stopped blocking suppliers has taken something, and may block them again.
    WaitedForAgain {
        /// The consumer's proxy.
        key: ProxyKey,
        /// Number of events dropped for it in between.
        dropped: u64,
    },
    /// Suppliers are no longer blocked for this reason.
    SuppliersReleased {
        /// The channel.
        channel: ChannelId,
        /// The backlog that was the reason; `None` if memory was used by deliveries under way.
        by: Option<BlockedBy>,
        /// Number of events that came in while they were blocked.
        blocked_events: u64,
    },
}
