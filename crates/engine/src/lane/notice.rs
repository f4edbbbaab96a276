//! What a lane tells people: once for each episode, never once for each event.

use core::time::Duration;

use crate::{ChannelId, FullOutbox, LaneId, Peer, ProxyKey, TypeId};

/// Why a lane disconnected a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DisconnectReason {
    /// The consumer said so, or no longer exists ([`Outcome::Gone`](crate::Outcome::Gone)).
    Gone,
    /// It failed for `give_up_after`.
    GivenUp {
        /// How many times in a row.
        failures: u32,
        /// How long after its first failure the last one came.
        failing_for: Duration,
    },
    /// It took nothing for its `hold_timeout`, and suppliers waited for it.
    BlockedSuppliers {
        /// For how long they did.
        blocked_for: Duration,
    },
    /// Suppliers had waited for it for its `hold_budget` in ten minutes while other consumers could go on, and its channel has such
    /// consumers disconnected.
    HoldSpent {
        /// The budget.
        blocked_for: Duration,
    },
    /// Its outbox reached `MaxEventsPerConsumer` and its `FullOutbox` is `Disconnect`.
    OutboxFull,
    /// The channel's memory budget was spent, its backlog was the largest, and its `FullOutbox` is `Disconnect`.
    MemorySpent,
    /// The channel had `MaxQueueLength` events, its backlog was the largest, and its `FullOutbox` is `Disconnect`.
    QueueFull,
}

/// The backlog because of which suppliers are blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockedBy {
    /// A consumer's.
    Consumer(ProxyKey),
    /// What waits to be handed over to another lane, which is slow to take it.
    Lane(LaneId),
}

/// Something worth telling people: once when it begins and once when it ends, however many events it concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The lane gave a consumer up: its backlog is dropped, and it gets no more events. Administration should
    /// disconnect the proxy.
    ConsumerDisconnected {
        /// The consumer's proxy.
        key: ProxyKey,
        /// The client that was connected; a consumer that pulls may have given no handle.
        peer: Option<Peer>,
        /// Why.
        reason: DisconnectReason,
        /// How many events were dropped with it.
        discarded: u64,
    },
    /// The proxy of a durable consumer was destroyed, and what waited for it is dropped.
    DurableRemoved {
        /// The consumer's proxy, which is gone.
        key: ProxyKey,
        /// How many events were dropped with it.
        discarded: u64,
    },
    /// An outbox is full, at its own bound or as the largest backlog of a channel that has spent its budget or reached
    /// its `MaxQueueLength`.
    OutboxFull {
        /// The consumer's proxy.
        key: ProxyKey,
        /// What is done about it.
        policy: FullOutbox,
        /// Whether its proxy has another policy, which is [not granted](crate::OutboxSettings::hold_granted).
        not_granted: bool,
        /// How many events wait or are unanswered.
        backlog_events: u64,
        /// What they weigh ([`Event::weight`](crate::Event::weight)), in bytes.
        backlog_bytes: u64,
    },
    /// An outbox that was full has room again.
    OutboxRecovered {
        /// The consumer's proxy.
        key: ProxyKey,
        /// How many events were dropped in between.
        dropped: u64,
    },
    /// A consumer's new events are stored outside memory from now on: it has a backlog, and events take much of its channel's memory.
    Overflows {
        /// The consumer's proxy.
        key: ProxyKey,
        /// How many events wait in memory or are unanswered.
        backlog_events: u64,
        /// What they weigh ([`Event::weight`](crate::Event::weight)), in bytes.
        backlog_bytes: u64,
    },
    /// All that was kept elsewhere for a consumer has come back.
    OverflowOver {
        /// The consumer's proxy.
        key: ProxyKey,
    },
    /// A consumer begins in its channel's history, with this event or the next one that it wants.
    BeginsInHistory {
        /// The consumer's proxy.
        key: ProxyKey,
        /// The event's number.
        first: u64,
    },
    /// A consumer begins with what is yet to come, and gets nothing before.
    BeginsAhead {
        /// The consumer's proxy.
        key: ProxyKey,
        /// The number of the event with which it begins, unless it begins at a time.
        number: Option<u64>,
    },
    /// A consumer that began in its channel's history gets what comes from now on.
    CaughtUp {
        /// The consumer's proxy.
        key: ProxyKey,
        /// How many events it got before.
        events: u64,
    },
    /// Another lane is so slow to take what is handed over to it that a limit of the channel is reached. What has waited
    /// for longest is dropped, as all consumers there would have it.
    LaneBehind {
        /// The channel.
        channel: ChannelId,
        /// The lane that is slow.
        lane: LaneId,
        /// How many events wait for it or are under way.
        backlog_events: u64,
        /// What they weigh ([`Event::weight`](crate::Event::weight)), in bytes.
        backlog_bytes: u64,
    },
    /// There is room again for what is handed over to a lane.
    LaneCaughtUp {
        /// The channel.
        channel: ChannelId,
        /// The lane that was slow.
        lane: LaneId,
        /// How many events were dropped in between.
        dropped: u64,
    },
    /// Deliveries to a consumer have begun to fail.
    ConsumerFailing {
        /// The consumer's proxy.
        key: ProxyKey,
        /// How many times in a row so far.
        failures: u32,
        /// How long until the next attempt.
        retry_in: Duration,
    },
    /// A consumer rejected an event, which is dropped for it. Announced again when it has rejected none for a minute.
    EventRejected {
        /// The consumer's proxy.
        key: ProxyKey,
        /// The event's type.
        event_type: TypeId,
        /// Its number among its channel's, where that stores its history; else among its lane's.
        number: u64,
    },
    /// Deliveries of an event to a consumer failed for as long as they may, and it took a later one: the event is dropped for it.
    /// Announced again when none was undeliverable for a minute.
    EventUndeliverable {
        /// The consumer's proxy.
        key: ProxyKey,
        /// The event's type.
        event_type: TypeId,
        /// Its number among its channel's, where that stores its history; else among its lane's.
        number: u64,
    },
    /// A consumer that failed takes events again.
    ConsumerRecovered {
        /// The consumer's proxy.
        key: ProxyKey,
        /// How many times in a row it failed.
        failures: u32,
        /// How long after its first failure.
        after: Duration,
    },
    /// A channel's suppliers are blocked: all of them because a limit of the channel is reached, or those with events for a consumer that
    /// has a full outbox.
    SuppliersBlocked {
        /// The channel.
        channel: ChannelId,
        /// The backlog that is the reason; `None` if all that takes the room is being delivered.
        by: Option<BlockedBy>,
    },
    /// Suppliers go on waiting for a consumer that has taken nothing for its `hold_timeout`, and that is not disconnected, since it
    /// cannot take anything at present.
    HoldGoesOn {
        /// The consumer's proxy.
        key: ProxyKey,
        /// For how long they have waited.
        blocked_for: Duration,
        /// Whether it is suspended. Otherwise all its events wait for their `StartTime`.
        suspended: bool,
    },
    /// Suppliers have waited for a consumer for its `hold_timeout`, and its connection is persistent: it stays, and until it takes
    /// something they do not wait for it any more. What there is no room for is dropped for it.
    WaitedOut {
        /// The consumer's proxy.
        key: ProxyKey,
        /// For how long they have waited.
        blocked_for: Duration,
    },
    /// Suppliers have waited for a consumer for its `hold_budget` in ten minutes while other consumers could go on: they do not wait for it
    /// any more, and what there is no room for is dropped for it, until it takes something and half of the budget is there again.
    HoldSpent {
        /// The consumer's proxy.
        key: ProxyKey,
        /// The budget.
        blocked_for: Duration,
    },
    /// Such a consumer has taken something.
    WaitedForAgain {
        /// The consumer's proxy.
        key: ProxyKey,
        /// How many events were dropped for it in between.
        dropped: u64,
    },
    /// Suppliers are blocked no more for that reason.
    SuppliersReleased {
        /// The channel.
        channel: ChannelId,
        /// The backlog that was the reason.
        by: Option<BlockedBy>,
        /// How many events came in while they were held.
        blocked_events: u64,
    },
}
