//! The table of the properties that levels set and inherit: a row each, of which all that lists them is made.

/// Expands `callback! { rows }`, with a row for each property that a level sets or inherits:
///
/// ```text
/// { documentation
///   side field: [type = default] stored [key: type] property ["Name" number LEVELS (low, high)] drawn number among values }
/// ```
///
/// - `side`: `consumers`, `suppliers` or `both`, in the settings of which the field is.
/// - `type`: that of what a level sets. With `=> type` the effective setting may be unset, whatever the level says. A level inherits what
///   it does not set from the nearest above that does.
/// - `stored`: the key in a topology, and its type there. The order of the rows is that of the keys.
/// - `property`: name, place in the list of all properties, levels, range. A row without these cannot be set by clients. Levels are the
///   callback's own `EVERYWHERE`, `EVERYWHERE_AND_EVENT`, `OUTBOX` and `SUPPLIERS`, and ends of ranges its `MILLISECOND`, `HOUR`, `WEEK`,
///   `YEAR`, `CENTURY`, `MAXIMUM` and `HIGHEST_PRIORITY`.
/// - `drawn`: values among which random scenarios choose (or `by` what), by the callback's own `millis` and `count`. The numbers are the
///   order in which they do, from 0 on, so that a seed stays the same scenario.
///
/// Names in a row are resolved where it is expanded.
#[macro_export]
macro_rules! properties {
    ($callback:ident) => { $callback! {
        {
            /// `MaxEventsPerConsumer`: how many events may wait. Events handed out and not yet answered do not count, so that after a
            /// failure the queue may be longer by at most `push_window`. `None`, the default: as many as the channel's memory budget bears;
            /// a level that sets `None` sets that, whatever the level above says.
            consumers max_events_per_consumer: [Option<NonZeroU32> = None] stored [max_events_per_consumer: u32]
            property ["MaxEventsPerConsumer" 11 OUTBOX (0, MAXIMUM)]
            drawn 0 among [None, Some(count(1)), Some(count(2)), Some(count(3)), Some(count(9))]
        }
        {
            /// `FullOutbox`: what happens when the outbox is full. `None`, the default: [`FullOutbox::Discard`] at
            /// `max_events_per_consumer` (the OMG's rule) and [`FullOutbox::Hold`] at the memory budget.
            consumers full_outbox: [FullOutbox => Option<FullOutbox> = None] stored [full_outbox: FullOutbox]
            property ["FullOutbox" 14 OUTBOX] drawn 1 among FULL_OUTBOX
        }
        {
            /// `DiscardPolicy`: which event goes under [`FullOutbox::Discard`]. Default [`DiscardPolicy::Any`].
            consumers discard_policy: [DiscardPolicy = DiscardPolicy::Any] stored [discard_policy: DiscardPolicy]
            property ["DiscardPolicy" 8 EVERYWHERE] drawn 2 among DISCARD_POLICIES
        }
        {
            /// `PushWindow`: how many deliveries may be unanswered at once, 1..=1024. Default 1, which keeps the order whatever the
            /// consumer's threading. With more, a failure puts all unanswered ones back, so that a consumer may get some of them twice.
            /// Where no level sets it, a consumer that is known to keep order gets
            /// [`PUSH_WINDOW_IN_ORDER`](OutboxSettings::PUSH_WINDOW_IN_ORDER), but at most a sixteenth of `max_events_per_consumer`, and 1
            /// where events are sorted.
            consumers push_window: [u16 = 1] stored [push_window: u16]
            property ["PushWindow" 22 OUTBOX (1, OutboxSettings::PUSH_WINDOW_MAX as i64)] drawn 3 among [1, 2, 3, 1024]
        }
        {
            /// `PushOneWay`: deliver without waiting for an answer. Default false.
            consumers one_way: [bool = false] stored [one_way: bool] property ["PushOneWay" 23 OUTBOX] drawn 4 by [|random| random.bool()]
        }
        {
            /// `MarkRepeats`: whether events that the consumer may have had before the process began, or in a batch that it rejected or
            /// that failed, come marked ([`OutputForm::marks_repeats`](crate::OutputForm::marks_repeats)). Default false.
            consumers mark_repeats: [bool = false] stored [mark_repeats: bool]
            property ["MarkRepeats" 24 OUTBOX] drawn 17 by [|random| random.bool()]
        }
        {
            /// `StartFrom`: where the consumer begins if it connects while its channel [keeps its past](HistoryLimits). `None`, the
            /// default: with what comes, without event numbers. It counts for its next connection.
            consumers start_from: [StartFrom => Option<StartFrom> = None] stored [start_from: String] property ["StartFrom" 30 OUTBOX]
        }
        {
            /// `ReplyTimeout`: how long a delivery may stay unanswered, from when it began or the last answer came, a connection take
            /// nothing, or a supplier that is asked for events not answer. Zero: for ever. Default 30 s.
            both reply_timeout: [Duration = Duration::from_secs(30)] stored [reply_timeout_ns: u64]
            property ["ReplyTimeout" 32 EVERYWHERE (0, HOUR)] drawn 5 among [millis(0), millis(100), millis(1_000)]
        }
        {
            /// `ConnectTimeout`: how long the protocol may take to connect; the engine only passes it on. Default 5 s.
            both connect_timeout: [Duration = Duration::from_secs(5)] stored [connect_timeout_ns: u64]
            property ["ConnectTimeout" 37 EVERYWHERE (MILLISECOND, HOUR)] drawn 24 among [millis(10), millis(200)]
        }
        {
            /// `GiveUpAfter`: a consumer, or a supplier that is asked for events, is disconnected at the first failure that comes this long
            /// or longer after its failing began. Zero: never. Default 60 s. It does not end persistent connections.
            both give_up_after: [Duration = Duration::from_secs(60)] stored [give_up_after_ns: u64]
            property ["GiveUpAfter" 39 EVERYWHERE (0, WEEK)] drawn 6 among [millis(0), millis(300), millis(3_000)]
        }
        {
            /// `DeliveryAttempts`: how many failed deliveries of one event, over 5 s at least, it takes until it is set aside and the next
            /// is tried. If that is taken, the first is dropped. 0: without end. Default 5.
            consumers delivery_attempts: [u32 = 5] stored [delivery_attempts: u32]
            property ["DeliveryAttempts" 40 OUTBOX (0, 1_000)] drawn 23 among [0, 1, 2, 7]
        }
        {
            /// `ConnectionReliability`: whether the connection outlives the process; such a one is not given up because it fails. Default
            /// [`Reliability::BestEffort`].
            both connection_reliability: [Reliability = Reliability::BestEffort] stored [connection_reliability: Reliability]
            property ["ConnectionReliability" 2 EVERYWHERE] drawn 18 among RELIABILITIES
        }
        {
            /// `EventReliability` of a supplier's events that do not say theirs. Default [`Reliability::BestEffort`].
            suppliers event_reliability: [Reliability = Reliability::BestEffort] stored [event_reliability: Reliability]
            property ["EventReliability" 1 EVERYWHERE_AND_EVENT]
        }
        {
            /// `ConnectionExpiry`: what `give_up_after` is for connections that are not persistent, this is for those that are. Zero, the
            /// default: never.
            both connection_expiry: [Duration = Duration::ZERO] stored [connection_expiry_ns: u64]
            property ["ConnectionExpiry" 33 EVERYWHERE (0, YEAR)] drawn 19 among [millis(0), millis(300), millis(3_000)]
        }
        {
            /// `LatencyBound`: suppliers are held once the event that this consumer gets next has waited for longer, as long as the
            /// consumer keeps up: it fails not, is not suspended, has nothing [elsewhere](crate::Overflow), and has taken something within
            /// the last second. Zero, the default: they are not.
            consumers latency_bound: [Duration = Duration::ZERO] stored [latency_bound_ns: u64]
            property ["LatencyBound" 34 OUTBOX (0, HOUR)] drawn 20 among [millis(0), millis(5), millis(100)]
        }
        {
            /// `AcknowledgeAfter`: what the answer to a push means. Default [`AcknowledgeAfter::Accepted`].
            suppliers acknowledge_after: [AcknowledgeAfter = AcknowledgeAfter::Accepted] stored [acknowledge_after: AcknowledgeAfter]
            property ["AcknowledgeAfter" 35 SUPPLIERS]
        }
        {
            /// `AcknowledgeWithin`: how long an answer waits for consumers at most. Default 10 s.
            suppliers acknowledge_within: [Duration = Duration::from_secs(10)] stored [acknowledge_within_ns: u64]
            property ["AcknowledgeWithin" 36 SUPPLIERS (MILLISECOND, HOUR)]
        }
        {
            /// `HoldTimeout`: a consumer that has taken nothing for this long while suppliers wait for it is disconnected. A persistent
            /// connection stays, and what there is no room for is dropped until the consumer takes something. Zero: never. `None`, the
            /// default: `reply_timeout`.
            consumers hold_timeout: [Duration => Option<Duration> = None] stored [hold_timeout_ns: u64]
            property ["HoldTimeout" 41 OUTBOX (0, WEEK)] drawn 15 among [millis(0), millis(200), millis(1_500)]
        }
        {
            /// `HoldGranted`: whether this consumer may have suppliers wait, or their events refused, for as long as it likes. Channels and
            /// admins say it; what a proxy says of it does not count. Default false: see [`hold_budget`](OutboxSettings::hold_budget).
            consumers hold_granted: [bool = false] stored [hold_granted: bool] property ["HoldGranted" 42 OUTBOX]
        }
        {
            /// `BlockingPolicy`, as TAO has it: where events of this consumer would be dropped because there is no room
            /// ([`FullOutbox::Discard`], or `full_outbox` unset), suppliers wait for so long first. Zero, the default: they do not.
            consumers blocking: [Duration = Duration::ZERO] stored [blocking_ns: u64]
            property ["BlockingPolicy" 43 OUTBOX (0, WEEK)] drawn 21 among [millis(0), millis(100), millis(1_000)]
        }
        {
            /// How long to wait after a first failure; each further one doubles it. More than 0. Default 50 ms.
            consumers backoff_min: [Duration = Duration::from_millis(50)] stored [backoff_min_ns: u64]
            property [] drawn 7 among [millis(10), millis(50)]
        }
        {
            /// The longest wait after a failure. Default 5 s; taken as `backoff_min` if it is less.
            consumers backoff_max: [Duration = Duration::from_secs(5)] stored [backoff_max_ns: u64]
            property [] drawn 8 among [millis(0), millis(100), millis(1_000)]
        }
        {
            /// `OrderPolicy`: which of a consumer's waiting events is delivered next. Which of a supplier's goes first where they wait for
            /// their topic's turn: [`OrderPolicy::Priority`], the one with the highest priority; any other, the first that came. Default
            /// [`OrderPolicy::Fifo`].
            both order_policy: [OrderPolicy = OrderPolicy::Fifo] stored [order_policy: OrderPolicy]
            property ["OrderPolicy" 7 EVERYWHERE] drawn 9 among ORDER_POLICIES
        }
        {
            /// `Priority` of a supplier's events that do not say theirs, -32,767..=32,767; more is more important. Default 0.
            suppliers priority: [i16 = 0] stored [priority: i16]
            property ["Priority" 3 EVERYWHERE_AND_EVENT (-HIGHEST_PRIORITY, HIGHEST_PRIORITY)] drawn 16 by [|random| random.i16(-2..3)]
        }
        {
            /// `Timeout`: how long after its arrival an event expires: of a supplier, where the event does not say; for a consumer, where
            /// neither the event nor its supplier does. `None`, the default: never; a level that sets `None` sets that, whatever the level
            /// above says.
            both timeout: [Option<Duration> = None] stored [timeout_ns: u64]
            property ["Timeout" 6 EVERYWHERE_AND_EVENT (0, CENTURY)]
            drawn 10 among [None, None, None, Some(millis(200)), Some(millis(1_000))]
        }
        {
            /// `StartTimeSupported`: whether an event's `StartTime` is heeded. Default true.
            consumers start_time_supported: [bool = true] stored [start_time_supported: bool]
            property ["StartTimeSupported" 9 EVERYWHERE] drawn 11 by [|random| random.bool()]
        }
        {
            /// `StopTimeSupported`: whether an event's `StopTime` is heeded. Default true.
            consumers stop_time_supported: [bool = true] stored [stop_time_supported: bool]
            property ["StopTimeSupported" 10 EVERYWHERE] drawn 12 by [|random| random.bool()]
        }
        {
            /// `MaximumBatchSize`: how many events one delivery has at most, where the consumer takes sequences. Default 1. A consumer that
            /// pulls says itself how many it takes, and 1 does not bound that; more does.
            consumers batch_size_max: [NonZeroU32 = NonZeroU32::MIN] stored [batch_size_max: u32]
            property ["MaximumBatchSize" 12 EVERYWHERE (1, 65_536)] drawn 13 by [|random| count(random.u32(1..6))]
        }
        {
            /// `PacingInterval`: how long the oldest waiting event may wait for a batch to fill, where the consumer takes sequences. Zero,
            /// the default: batches are not waited for.
            consumers pacing_interval: [Duration = Duration::ZERO] stored [pacing_interval_ns: u64]
            property ["PacingInterval" 13 EVERYWHERE (0, HOUR)] drawn 14 among [millis(0), millis(20), millis(300)]
        }
        {
            /// `PullInterval`: how long after an answer a supplier that is pulled from is asked again, 1 ms to 1 h. Default 100 ms.
            suppliers pull_interval: [Duration = Duration::from_millis(100)] stored [pull_interval_ns: u64]
            property ["PullInterval" 31 SUPPLIERS (MILLISECOND, HOUR)]
        }
        {
            /// `FilterTimeout`: how long a remote filter may take to answer; the engine only passes it on. More than 0. Default 1 s.
            both filter_timeout: [Duration = Duration::from_secs(1)] stored [filter_timeout_ns: u64]
            property ["FilterTimeout" 38 EVERYWHERE (MILLISECOND, HOUR)] drawn 22 among [millis(10), millis(200)]
        }
        {
            /// `ProbeInterval`: how often the protocol asks whether the client still exists; the engine only passes it on. Zero: never.
            /// Default 60 s.
            both probe_interval: [Duration = Duration::from_secs(60)] stored [probe_interval_ns: u64]
            property ["ProbeInterval" 44 EVERYWHERE (0, WEEK)] drawn 25 among [millis(0), millis(200)]
        }
        {
            /// `SupplierLinger`: how long the protocol waits for a supplier that cannot be asked and is not heard of, until it disconnects
            /// it. Zero, the default: for ever.
            suppliers supplier_linger: [Duration = Duration::ZERO] stored [supplier_linger_ns: u64]
            property ["SupplierLinger" 45 SUPPLIERS (0, YEAR)]
        }
        {
            /// `DispatchPriority`: of the consumers of a lane that can take an event, those of the highest are served first, 0 to 7. Each
            /// 65th delivery is for one of a lower priority. Default 0.
            consumers dispatch_priority: [u16 = 0] stored [dispatch_priority: u16]
            property ["DispatchPriority" 46 OUTBOX (0, OutboxSettings::DISPATCH_PRIORITY_MAX as i64)] drawn 26 among [0, 0, 3, 7]
        }
        {
            /// How many bytes of events may wait, those [elsewhere](crate::Overflow) included, with what each costs beside its bytes.
            /// `full_outbox` decides beyond. `None`, the default: as many as the channel's budgets bear.
            consumers max_bytes_per_consumer: [Option<core::num::NonZeroU64> = None] stored [max_bytes_per_consumer: u64] property []
        }
    } };
}
