//! Settings: what a consumer's outbox does, level by level, and what a channel is limited to.
//!
//! Each level (channel, admin, proxy) holds a [`SettingsPatch`]; the effective value of a setting is that of the
//! nearest level that sets it, proxy first, else the default stated on [`OutboxSettings`].

use core::num::NonZeroU32;
use core::time::Duration;

use crate::{ChannelId, HistoryLimits, PoolId, Refusal, StartFrom};

/// What happens when a consumer's outbox is full (`MaxEventsPerConsumer`), or is the largest when the channel's memory
/// budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FullOutbox {
    /// Suppliers wait: the event is taken but the supplier's reply is withheld until there is room again.
    Hold,
    /// Events of this outbox go, by its [`DiscardPolicy`].
    Discard,
    /// The event is refused to its supplier.
    Reject,
    /// The consumer is disconnected and its backlog dropped.
    Disconnect,
}

/// The order in which a consumer gets the events that wait for it (OMG Notification Service 1.1, `OrderPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OrderPolicy {
    /// Any order would do; in effect the same as `Fifo`.
    Any,
    /// In the order of arrival. The default, so that each supplier's events stay in order.
    #[default]
    Fifo,
    /// The highest priority first; among equals in the order of arrival.
    Priority,
    /// What expires first goes first, what never expires last; among equals in the order of arrival.
    Deadline,
}

/// Which event goes when one must (OMG Notification Service 1.1, `DiscardPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DiscardPolicy {
    /// Any may go; in effect the same as `Fifo`. The default.
    #[default]
    Any,
    /// The oldest waiting event goes.
    Fifo,
    /// The last event received goes: at `MaxEventsPerConsumer` the one that just arrived; at the memory budget and at
    /// `MaxQueueLength`, where room must be made for other consumers, the newest that waits.
    Lifo,
    /// The lowest priority goes first; among equals the oldest.
    Priority,
    /// What expires first goes first, what never expires last; among equals the oldest.
    Deadline,
}

/// What outlives the process (OMG Notification Service 1.1, 2.5.5.1: `EventReliability` and `ConnectionReliability`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reliability {
    /// Nothing. The default.
    #[default]
    BestEffort,
    /// An event that was taken, until all consumers that should have it have confirmed it or it has expired; a connection, until one side
    /// ends it.
    Persistent,
}

/// `AcknowledgeAfter`: what a supplier's answer means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AcknowledgeAfter {
    /// Its event was taken, and is on disk if it is to outlive the process. The default.
    #[default]
    Accepted,
    /// It is on disk. For suppliers of events that outlive the process only, for which it is the same as `Accepted`.
    Stored,
    /// Every consumer that it was for has it, or will never get it, or it has been waited for that for `acknowledge_within`. Consumers with
    /// a backlog [elsewhere](crate::Overflow) are not waited for.
    Delivered,
}

/// A consumer's outbox: the effective settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutboxSettings {
    /// `MaxEventsPerConsumer`: how many events may wait. Events handed out and not yet answered do not count, so that
    /// after a failure the queue may be longer by at most `push_window`. `None`, the default: as many as the channel's
    /// memory budget bears.
    pub max_events_per_consumer: Option<NonZeroU32>,
    /// What happens when the outbox is full. `None`, the default: [`FullOutbox::Discard`] at
    /// `max_events_per_consumer` (the OMG's rule) and [`FullOutbox::Hold`] at the memory budget.
    pub full_outbox: Option<FullOutbox>,
    /// Which event goes under [`FullOutbox::Discard`]. Default [`DiscardPolicy::Any`].
    pub discard_policy: DiscardPolicy,
    /// How many deliveries may be unanswered at once, 1..=1024. Default 1, which keeps the order whatever the
    /// consumer's threading. With more, a failure puts all unanswered ones back, so that a consumer may get some of
    /// them twice. Where no level sets it, a consumer that is known to keep order gets
    /// [`PUSH_WINDOW_IN_ORDER`](Self::PUSH_WINDOW_IN_ORDER), but at most a sixteenth of `max_events_per_consumer`, and 1
    /// where events are sorted.
    pub push_window: u16,
    /// Deliver without waiting for an answer. Default false.
    pub one_way: bool,
    /// `MarkRepeats`: whether events that the consumer may have had before the process began, or in a batch that it rejected or that
    /// failed, come marked ([`OutputForm::marks_repeats`](crate::OutputForm::marks_repeats)). Default false.
    pub mark_repeats: bool,
    /// `StartFrom`: where the consumer begins if it connects while its channel [stores its history](HistoryLimits). `None`, the default:
    /// with what comes, without event numbers. It counts for its next connection.
    pub start_from: Option<StartFrom>,
    /// How long a delivery may stay unanswered, from when it began or the last answer came, or a connection may take
    /// nothing. Zero: for ever. Default 30 s.
    pub reply_timeout: Duration,
    /// How long the protocol may take to connect; the engine only passes it on. Default 5 s.
    pub connect_timeout: Duration,
    /// A consumer is disconnected at the first failure that comes this long or longer after its failing began. Zero:
    /// never. Default 60 s. It does not end persistent connections.
    pub give_up_after: Duration,
    /// `DeliveryAttempts`: how many failed deliveries of one event, over 5 s at least, it takes until it is set aside and the next is
    /// tried. If that is taken, the first is dropped. 0: without end. Default 5.
    pub delivery_attempts: u32,
    /// `ConnectionReliability`: whether the connection outlives the process; such a one is not given up because it fails. Default
    /// [`Reliability::BestEffort`].
    pub connection_reliability: Reliability,
    /// `ConnectionExpiry`: what `give_up_after` is for connections that are not persistent, this is for those that are. Zero, the default:
    /// never.
    pub connection_expiry: Duration,
    /// `LatencyBound`: suppliers are blocked once the event that this consumer gets next has waited for longer, as long as the consumer
    /// keeps up: it fails not, is not suspended, has nothing [elsewhere](crate::Overflow), and has taken something within the last second.
    /// Zero, the default: they are not.
    pub latency_bound: Duration,
    /// `HoldTimeout`: a consumer that has taken nothing for this long while suppliers wait for it is disconnected. A persistent connection
    /// stays, and what there is no room for is dropped until the consumer takes something. Zero: never. `None`, the default:
    /// `reply_timeout`.
    pub hold_timeout: Option<Duration>,
    /// `HoldGranted`: whether this consumer may have suppliers wait, or their events refused, for as long as it likes. Channels and admins
    /// say it; what a proxy says of it does not count. Default false: see [`hold_budget`](Self::hold_budget).
    pub hold_granted: bool,
    /// Whether `full_outbox` or `max_events_per_consumer` is the proxy's own, and not granted. Then [`FullOutbox::Hold`] and
    /// [`FullOutbox::Reject`] count as not set at `max_events_per_consumer`, and `Reject` at the channel's limits. Default false.
    pub own_bound: bool,
    /// Whether `latency_bound` is the proxy's own. Default false.
    pub own_latency_bound: bool,
    /// The time in any ten minutes for which suppliers wait because of this consumer while others could go on: `hold_timeout` as the levels
    /// above the proxy have it, or less where the proxy says less. When it is spent, events of this consumer go. Zero: without end, as
    /// where `hold_granted` is set. Default 30 s.
    pub hold_budget: Duration,
    /// Whether the consumer is disconnected when its `hold_budget` is spent: where its channel or admin has [`FullOutbox::Disconnect`] and
    /// the proxy something else. Default false.
    pub spent_disconnects: bool,
    /// `BlockingPolicy`, as TAO has it: where events of this consumer would be dropped because there is no room ([`FullOutbox::Discard`],
    /// or `full_outbox` unset), suppliers wait for so long first. Zero, the default: they do not.
    pub blocking: Duration,
    /// How long to wait after a first failure; each further one doubles it. More than 0. Default 50 ms.
    pub backoff_min: Duration,
    /// The longest wait after a failure. Default 5 s; taken as `backoff_min` if it is less.
    pub backoff_max: Duration,
    /// `OrderPolicy`: which of the waiting events is delivered next. Default [`OrderPolicy::Fifo`].
    pub order_policy: OrderPolicy,
    /// `Timeout`: how long after its arrival an event expires for this consumer, where neither the event nor its
    /// supplier says. `None`, the default: never.
    pub timeout: Option<Duration>,
    /// `StartTimeSupported`: whether an event's `StartTime` is heeded. Default true.
    pub start_time_supported: bool,
    /// `StopTimeSupported`: whether an event's `StopTime` is heeded. Default true.
    pub stop_time_supported: bool,
    /// `MaximumBatchSize`: how many events one delivery has at most, where the consumer takes sequences. Default 1. A
    /// consumer that pulls says itself how many it takes, and 1 does not bound that; more does.
    pub batch_size_max: NonZeroU32,
    /// `PacingInterval`: how long the oldest waiting event may wait for a batch to fill, where the consumer takes
    /// sequences. Zero, the default: batches are not waited for.
    pub pacing_interval: Duration,
    /// How long a remote filter may take to answer; the engine only passes it on. More than 0. Default 1 s.
    pub filter_timeout: Duration,
    /// How often the protocol asks whether the consumer still exists; the engine only passes it on. Zero: never. Default
    /// 60 s.
    pub probe_interval: Duration,
}

impl OutboxSettings {
    /// The largest `push_window`.
    pub const PUSH_WINDOW_MAX: u16 = 1024;

    /// The `push_window` of a consumer that is known to keep order, where no level says otherwise.
    ///
    /// What is under way should fill the time from a delivery to its answer: some 50 µs on one host, 200 µs on a
    /// network. At a million events of 64 to 128 octets a second these are 50 and 200 events; and what a consumer may
    /// hold unanswered stays small: 64 KB of events of 1 KB, 2 MB of 34 KB.
    pub const PUSH_WINDOW_IN_ORDER: u16 = 64;

    /// These, if the consumer is known to keep order and no level says how many deliveries may be unanswered. Not where
    /// events are sorted: an important one would stand behind all that are under way. And so that what is under way adds
    /// at most a sixteenth to what may wait, since it can neither expire nor be discarded any more.
    #[must_use]
    pub(crate) fn with_window_in_order(mut self) -> Self {
        if matches!(self.order_policy, OrderPolicy::Any | OrderPolicy::Fifo) {
            let share = self.max_events_per_consumer.map_or(u32::MAX, |max| max.get() / 16);
            let share = u16::try_from(share).unwrap_or(u16::MAX);
            self.push_window = share.clamp(1, Self::PUSH_WINDOW_IN_ORDER);
        }
        self
    }

    /// After how long of failing the consumer is given up; zero if never.
    #[must_use]
    pub fn gives_up_after(&self) -> Duration {
        gives_up_after(self.give_up_after, self.connection_reliability, self.connection_expiry)
    }

    /// How long a consumer that suppliers wait for may take nothing; zero if for ever.
    #[must_use]
    pub fn max_blocked_time(&self) -> Duration {
        self.hold_timeout.unwrap_or(self.reply_timeout)
    }

    /// The settings of a proxy that says this of its own, under levels that say `self`: what it may cost others is decided above it.
    #[must_use]
    pub fn of_proxy(self, own: &SettingsPatch) -> Self {
        let mut settings = own.over(self);
        settings.hold_granted = self.hold_granted;
        let narrows = own.full_outbox.is_some() || own.max_events_per_consumer.is_some();
        settings.own_bound = narrows && !self.hold_granted;
        settings.own_latency_bound = own.latency_bound.is_some();
        // A channel that blocks its suppliers for a time says itself for how long.
        let blocks = matches!(settings.full_outbox, None | Some(FullOutbox::Discard)) && !settings.blocking.is_zero();
        let is_free = self.hold_granted || (blocks && own.blocking.is_none());
        settings.hold_budget = match (self.max_blocked_time(), settings.max_blocked_time()) {
            _ if is_free => Duration::ZERO,
            // A proxy that says "for ever" does not make it longer, and a channel that does leaves it to the proxy.
            (above, below) if above.is_zero() || below.is_zero() => above.max(below),
            (above, below) => above.min(below),
        };
        settings.spent_disconnects = self.full_outbox == Some(FullOutbox::Disconnect);
        settings
    }

    /// What is done at `max_events_per_consumer`, where that is said and may be done.
    pub(crate) fn policy_at_bound(&self) -> Option<FullOutbox> {
        self.full_outbox.filter(|policy| !self.own_bound || !matches!(policy, FullOutbox::Hold | FullOutbox::Reject))
    }

    /// The same at a channel's limits.
    pub(crate) fn policy_at_limits(&self) -> Option<FullOutbox> {
        self.full_outbox.filter(|policy| !self.own_bound || *policy != FullOutbox::Reject)
    }

    /// Whether the consumer stays, and loses events instead, when suppliers have waited for it for so long.
    pub(crate) fn is_waited_out(&self) -> bool {
        self.connection_reliability == Reliability::Persistent && !self.max_blocked_time().is_zero()
    }

    /// The wait after the `failures`-th failure in a row (from 1).
    #[must_use]
    pub fn backoff(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.backoff_min.saturating_mul(1 << doublings).min(self.backoff_max.max(self.backoff_min))
    }
}

impl Default for OutboxSettings {
    fn default() -> Self {
        Self {
            max_events_per_consumer: None,
            full_outbox: None,
            discard_policy: DiscardPolicy::Any,
            push_window: 1,
            one_way: false,
            mark_repeats: false,
            start_from: None,
            reply_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            give_up_after: Duration::from_secs(60),
            delivery_attempts: 5,
            connection_reliability: Reliability::BestEffort,
            connection_expiry: Duration::ZERO,
            latency_bound: Duration::ZERO,
            hold_timeout: None,
            hold_granted: false,
            own_bound: false,
            own_latency_bound: false,
            hold_budget: Duration::from_secs(30),
            spent_disconnects: false,
            blocking: Duration::ZERO,
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(5),
            order_policy: OrderPolicy::Fifo,
            timeout: None,
            start_time_supported: true,
            stop_time_supported: true,
            batch_size_max: NonZeroU32::MIN,
            pacing_interval: Duration::ZERO,
            filter_timeout: Duration::from_secs(1),
            probe_interval: Duration::from_secs(60),
        }
    }
}

/// A supplier's proxy: the effective settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SupplierSettings {
    /// `Priority` of its events that do not say theirs, -32,767..=32,767; more is more important. Default 0.
    pub priority: i16,
    /// `Timeout` of its events that do not say theirs: how long after its arrival an event expires. `None`, the
    /// default: as each consumer's settings say.
    pub timeout: Option<Duration>,
    /// `PullInterval`: how long after an answer a supplier that is pulled from is asked again, 1 ms to 1 h. Default
    /// 100 ms.
    pub pull_interval: Duration,
    /// How long a remote filter may take to answer. More than 0. Default 1 s.
    pub filter_timeout: Duration,
    /// How long a supplier that is asked for events may take to answer. Zero: for ever. Default 30 s.
    pub reply_timeout: Duration,
    /// How long the protocol may take to connect. Default 5 s.
    pub connect_timeout: Duration,
    /// A supplier that is asked for events is disconnected when it has failed for this long. Zero: never. Default 60 s. It does not
    /// end persistent connections.
    pub give_up_after: Duration,
    /// `ConnectionReliability`: see [`OutboxSettings::connection_reliability`].
    pub connection_reliability: Reliability,
    /// `ConnectionExpiry`: see [`OutboxSettings::connection_expiry`].
    pub connection_expiry: Duration,
    /// `EventReliability` of its events that do not say theirs. Default [`Reliability::BestEffort`].
    pub event_reliability: Reliability,
    /// `AcknowledgeAfter`: what the answer to a push means. Default [`AcknowledgeAfter::Accepted`].
    pub acknowledge_after: AcknowledgeAfter,
    /// `AcknowledgeWithin`: how long an answer waits for consumers at most. Default 10 s.
    pub acknowledge_within: Duration,
    /// How often the protocol asks whether the supplier still exists. Zero: never. Default 60 s.
    pub probe_interval: Duration,
    /// How long the protocol waits for a supplier that cannot be asked and is not heard of, until it disconnects it. Zero, the
    /// default: for ever.
    pub supplier_linger: Duration,
    /// `OrderPolicy`: which of its events goes first where they wait for their topic's turn:
    /// [`OrderPolicy::Priority`], the one with the highest priority; any other, the first that came. Default
    /// [`OrderPolicy::Fifo`].
    pub order_policy: OrderPolicy,
}

impl SupplierSettings {
    /// The shortest `pull_interval`.
    pub const PULL_INTERVAL_MIN: Duration = Duration::from_millis(1);
    /// The longest `pull_interval`.
    pub const PULL_INTERVAL_MAX: Duration = Duration::from_secs(3_600);

    /// After how long of failing a supplier that is asked for events is given up; zero if never.
    #[must_use]
    pub fn gives_up_after(&self) -> Duration {
        gives_up_after(self.give_up_after, self.connection_reliability, self.connection_expiry)
    }
}

const fn gives_up_after(limit: Duration, connection: Reliability, expiry: Duration) -> Duration {
    match connection {
        Reliability::BestEffort => limit,
        Reliability::Persistent => expiry,
    }
}

impl Default for SupplierSettings {
    fn default() -> Self {
        Self {
            priority: 0,
            timeout: None,
            pull_interval: Duration::from_millis(100),
            filter_timeout: Duration::from_secs(1),
            reply_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            give_up_after: Duration::from_secs(60),
            connection_reliability: Reliability::BestEffort,
            connection_expiry: Duration::ZERO,
            event_reliability: Reliability::BestEffort,
            acknowledge_after: AcknowledgeAfter::Accepted,
            acknowledge_within: Duration::from_secs(10),
            probe_interval: Duration::from_secs(60),
            supplier_linger: Duration::ZERO,
            order_policy: OrderPolicy::Fifo,
        }
    }
}

/// What one level says of the settings of outboxes and suppliers: each is set there (`Some`) or inherited (`None`, the
/// default). Settings that both have are one here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SettingsPatch {
    /// See [`OutboxSettings::max_events_per_consumer`]; `Some(None)` says "no limit" whatever the level above says.
    pub max_events_per_consumer: Option<Option<NonZeroU32>>,
    /// See [`OutboxSettings::full_outbox`].
    pub full_outbox: Option<FullOutbox>,
    /// See [`OutboxSettings::discard_policy`].
    pub discard_policy: Option<DiscardPolicy>,
    /// See [`OutboxSettings::push_window`].
    pub push_window: Option<u16>,
    /// See [`OutboxSettings::one_way`].
    pub one_way: Option<bool>,
    /// See [`OutboxSettings::mark_repeats`].
    pub mark_repeats: Option<bool>,
    /// See [`OutboxSettings::start_from`].
    pub start_from: Option<StartFrom>,
    /// See [`OutboxSettings::reply_timeout`].
    pub reply_timeout: Option<Duration>,
    /// See [`OutboxSettings::connect_timeout`].
    pub connect_timeout: Option<Duration>,
    /// See [`OutboxSettings::give_up_after`].
    pub give_up_after: Option<Duration>,
    /// See [`OutboxSettings::delivery_attempts`].
    pub delivery_attempts: Option<u32>,
    /// See [`OutboxSettings::connection_reliability`].
    pub connection_reliability: Option<Reliability>,
    /// See [`OutboxSettings::connection_expiry`].
    pub connection_expiry: Option<Duration>,
    /// See [`SupplierSettings::event_reliability`].
    pub event_reliability: Option<Reliability>,
    /// See [`OutboxSettings::latency_bound`].
    pub latency_bound: Option<Duration>,
    /// See [`SupplierSettings::acknowledge_after`].
    pub acknowledge_after: Option<AcknowledgeAfter>,
    /// See [`SupplierSettings::acknowledge_within`].
    pub acknowledge_within: Option<Duration>,
    /// See [`OutboxSettings::hold_timeout`].
    pub hold_timeout: Option<Duration>,
    /// See [`OutboxSettings::hold_granted`].
    pub hold_granted: Option<bool>,
    /// See [`OutboxSettings::blocking`].
    pub blocking: Option<Duration>,
    /// See [`OutboxSettings::backoff_min`].
    pub backoff_min: Option<Duration>,
    /// See [`OutboxSettings::backoff_max`].
    pub backoff_max: Option<Duration>,
    /// See [`OutboxSettings::order_policy`] and [`SupplierSettings::order_policy`].
    pub order_policy: Option<OrderPolicy>,
    /// See [`SupplierSettings::priority`].
    pub priority: Option<i16>,
    /// See [`OutboxSettings::timeout`] and [`SupplierSettings::timeout`]; `Some(None)` says "never" whatever the level
    /// above says.
    pub timeout: Option<Option<Duration>>,
    /// See [`OutboxSettings::start_time_supported`].
    pub start_time_supported: Option<bool>,
    /// See [`OutboxSettings::stop_time_supported`].
    pub stop_time_supported: Option<bool>,
    /// See [`OutboxSettings::batch_size_max`].
    pub batch_size_max: Option<NonZeroU32>,
    /// See [`OutboxSettings::pacing_interval`].
    pub pacing_interval: Option<Duration>,
    /// See [`SupplierSettings::pull_interval`].
    pub pull_interval: Option<Duration>,
    /// See [`OutboxSettings::filter_timeout`] and [`SupplierSettings::filter_timeout`].
    pub filter_timeout: Option<Duration>,
    /// See [`OutboxSettings::probe_interval`] and [`SupplierSettings::probe_interval`].
    pub probe_interval: Option<Duration>,
    /// See [`SupplierSettings::supplier_linger`].
    pub supplier_linger: Option<Duration>,
    /// The pool with the lanes that carry the events of the proxies beneath, from
    /// [`Hierarchy::create_pool`](crate::Hierarchy::create_pool). Where no level names one: the main lane.
    pub pool: Option<PoolId>,
}

impl SettingsPatch {
    /// `settings` with what this level sets put over it.
    #[must_use]
    pub fn over(&self, settings: OutboxSettings) -> OutboxSettings {
        // Destructured, so that a setting added to one of the types breaks the build here.
        let Self {
            max_events_per_consumer,
            full_outbox,
            discard_policy,
            push_window,
            one_way,
            mark_repeats,
            start_from,
            reply_timeout,
            connect_timeout,
            give_up_after,
            delivery_attempts,
            connection_reliability,
            connection_expiry,
            event_reliability: _,
            latency_bound,
            acknowledge_after: _,
            acknowledge_within: _,
            hold_timeout,
            hold_granted,
            blocking,
            backoff_min,
            backoff_max,
            order_policy,
            priority: _,
            timeout,
            start_time_supported,
            stop_time_supported,
            batch_size_max,
            pacing_interval,
            pull_interval: _,
            filter_timeout,
            probe_interval,
            supplier_linger: _,
            pool: _,
        } = *self;
        OutboxSettings {
            max_events_per_consumer: max_events_per_consumer.unwrap_or(settings.max_events_per_consumer),
            full_outbox: full_outbox.or(settings.full_outbox),
            discard_policy: discard_policy.unwrap_or(settings.discard_policy),
            push_window: push_window.unwrap_or(settings.push_window),
            one_way: one_way.unwrap_or(settings.one_way),
            mark_repeats: mark_repeats.unwrap_or(settings.mark_repeats),
            start_from: start_from.or(settings.start_from),
            reply_timeout: reply_timeout.unwrap_or(settings.reply_timeout),
            connect_timeout: connect_timeout.unwrap_or(settings.connect_timeout),
            give_up_after: give_up_after.unwrap_or(settings.give_up_after),
            delivery_attempts: delivery_attempts.unwrap_or(settings.delivery_attempts),
            connection_reliability: connection_reliability.unwrap_or(settings.connection_reliability),
            connection_expiry: connection_expiry.unwrap_or(settings.connection_expiry),
            latency_bound: latency_bound.unwrap_or(settings.latency_bound),
            hold_timeout: hold_timeout.or(settings.hold_timeout),
            hold_granted: hold_granted.unwrap_or(settings.hold_granted),
            blocking: blocking.unwrap_or(settings.blocking),
            backoff_min: backoff_min.unwrap_or(settings.backoff_min),
            backoff_max: backoff_max.unwrap_or(settings.backoff_max),
            order_policy: order_policy.unwrap_or(settings.order_policy),
            timeout: timeout.unwrap_or(settings.timeout),
            start_time_supported: start_time_supported.unwrap_or(settings.start_time_supported),
            stop_time_supported: stop_time_supported.unwrap_or(settings.stop_time_supported),
            batch_size_max: batch_size_max.unwrap_or(settings.batch_size_max),
            pacing_interval: pacing_interval.unwrap_or(settings.pacing_interval),
            filter_timeout: filter_timeout.unwrap_or(settings.filter_timeout),
            probe_interval: probe_interval.unwrap_or(settings.probe_interval),
            ..settings
        }
    }

    /// `settings` with what this level sets put over it.
    #[must_use]
    pub fn over_supplier(&self, settings: SupplierSettings) -> SupplierSettings {
        SupplierSettings {
            priority: self.priority.unwrap_or(settings.priority),
            timeout: self.timeout.unwrap_or(settings.timeout),
            pull_interval: self.pull_interval.unwrap_or(settings.pull_interval),
            filter_timeout: self.filter_timeout.unwrap_or(settings.filter_timeout),
            reply_timeout: self.reply_timeout.unwrap_or(settings.reply_timeout),
            connect_timeout: self.connect_timeout.unwrap_or(settings.connect_timeout),
            give_up_after: self.give_up_after.unwrap_or(settings.give_up_after),
            connection_reliability: self.connection_reliability.unwrap_or(settings.connection_reliability),
            connection_expiry: self.connection_expiry.unwrap_or(settings.connection_expiry),
            event_reliability: self.event_reliability.unwrap_or(settings.event_reliability),
            acknowledge_after: self.acknowledge_after.unwrap_or(settings.acknowledge_after),
            acknowledge_within: self.acknowledge_within.unwrap_or(settings.acknowledge_within),
            probe_interval: self.probe_interval.unwrap_or(settings.probe_interval),
            supplier_linger: self.supplier_linger.unwrap_or(settings.supplier_linger),
            order_policy: self.order_policy.unwrap_or(settings.order_policy),
        }
    }

    /// Checks every range stated on [`OutboxSettings`] and [`SupplierSettings`].
    ///
    /// # Errors
    ///
    /// [`Refusal::BadSetting`] names the first setting that is out of its range.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.push_window.is_some_and(|window| !(1..=OutboxSettings::PUSH_WINDOW_MAX).contains(&window)) {
            return Err(Refusal::BadSetting { setting: "push_window", range: "1 to 1024 deliveries" });
        }
        if self.backoff_min.is_some_and(|wait| wait.is_zero()) {
            return Err(Refusal::BadSetting { setting: "backoff_min", range: "more than 0 s" });
        }
        if self.priority == Some(i16::MIN) {
            return Err(Refusal::BadSetting { setting: "priority", range: "-32767 to 32767" });
        }
        let pull_intervals = SupplierSettings::PULL_INTERVAL_MIN..=SupplierSettings::PULL_INTERVAL_MAX;
        if self.pull_interval.is_some_and(|interval| !pull_intervals.contains(&interval)) {
            return Err(Refusal::BadSetting { setting: "pull_interval", range: "1 ms to 1 h" });
        }
        if self.filter_timeout.is_some_and(|limit| limit.is_zero()) {
            return Err(Refusal::BadSetting { setting: "filter_timeout", range: "more than 0 s" });
        }
        Ok(())
    }
}

/// What a channel is limited to (the OMG's admin properties, and the memory budget).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelLimits {
    /// How much memory, in bytes, the channel's events may take, each counted once however many consumers wait for it:
    /// its bytes plus [`EVENT_OVERHEAD_BYTES`](crate::EVENT_OVERHEAD_BYTES) plus
    /// [`HOLDER_OVERHEAD_BYTES`](crate::HOLDER_OVERHEAD_BYTES) (where events are sorted or expire,
    /// [`SORTED_OVERHEAD_BYTES`](crate::SORTED_OVERHEAD_BYTES)) for each consumer. More than 0. Default 256 MiB. What
    /// happens when it is spent is the slow consumer's [`FullOutbox`]; events taken from suppliers that are being held may
    /// exceed it, at most to twice its value, where they are refused.
    pub memory_budget_bytes: u64,
    /// `OverflowBudget`: how many bytes of events may be kept [elsewhere](crate::Overflow), where the driver of the lanes can do that. They
    /// go there when the channel's events take half of its memory budget, of consumers that have a backlog. 0, the default: none.
    pub overflow_budget_bytes: u64,
    /// `HistoryEvents`, `HistoryAge`, `HistoryBytes`: how much history it keeps, where the driver of the lanes can do that.
    pub history: HistoryLimits,
    /// `MaxConsumers`: how many consumers may be connected at once. `None`, the default: no limit.
    pub max_consumers: Option<NonZeroU32>,
    /// `MaxSuppliers`: how many suppliers may be connected at once. `None`, the default: no limit.
    pub max_suppliers: Option<NonZeroU32>,
    /// `MaxQueueLength`: how many events the channel may hold for all its consumers together, each counted once.
    /// `None`, the default: no limit. Events in flight can make it exceed by the consumers' windows.
    pub max_queue_length: Option<NonZeroU32>,
    /// `RejectNewEvents`: at `max_queue_length` refuse the event (true) or discard one of the slow consumer's by its
    /// [`DiscardPolicy`] (false, the default).
    pub reject_new_events: bool,
    /// `DeadLetterChannel`: the channel that gets events which are undeliverable for a consumer, by `delivery_attempts`; the owner of a
    /// lane hands them in there. `None`, the default: they are dropped.
    pub dead_letters: Option<ChannelId>,
    /// `MaxConstraintLength`: the longest constraint, in bytes. More than 0. Default 16,384.
    pub constraint_bytes_max: u32,
    /// `MaxConstraintNodes`: the most nodes in one constraint's tree. More than 0. Default 4,096.
    pub constraint_nodes_max: u32,
    /// `MaxConstraintsPerFilter`: the most constraints in one filter. More than 0. Default 1,024.
    pub constraints_per_filter_max: u32,
    /// `MaxFiltersPerObject`: the most filters attached to one admin or proxy. More than 0. Default 256.
    pub filters_per_object_max: u32,
    /// The most filters made in the channel that exist at once. Default 100,000.
    pub filters_max: u32,
    /// `FilterSteps`: the most steps spent on filtering one event. What is not done by then does not match. More than 0.
    /// Default 250,000.
    pub filter_steps_max: u32,
}

impl ChannelLimits {
    /// Checks every range stated on the fields.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadSetting`] if the memory budget, or a limit on filters that must be more than 0, is 0.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.memory_budget_bytes == 0 {
            return Err(Refusal::BadSetting { setting: "memory_budget_bytes", range: "more than 0 bytes" });
        }
        for (setting, value) in [
            ("constraint_bytes_max", self.constraint_bytes_max),
            ("constraint_nodes_max", self.constraint_nodes_max),
            ("constraints_per_filter_max", self.constraints_per_filter_max),
            ("filters_per_object_max", self.filters_per_object_max),
            ("filter_steps_max", self.filter_steps_max),
        ] {
            if value == 0 {
                return Err(Refusal::BadSetting { setting, range: "more than 0" });
            }
        }
        Ok(())
    }
}

impl Default for ChannelLimits {
    fn default() -> Self {
        Self {
            memory_budget_bytes: 256 << 20,
            overflow_budget_bytes: 0,
            history: HistoryLimits::default(),
            max_consumers: None,
            max_suppliers: None,
            max_queue_length: None,
            reject_new_events: false,
            dead_letters: None,
            constraint_bytes_max: 16_384,
            constraint_nodes_max: 4_096,
            constraints_per_filter_max: 1_024,
            filters_per_object_max: 256,
            filters_max: 100_000,
            filter_steps_max: 250_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_level_that_sets_a_value_wins() {
        let channel = SettingsPatch { push_window: Some(4), one_way: Some(true), ..SettingsPatch::default() };
        let proxy = SettingsPatch { push_window: Some(9), ..SettingsPatch::default() };
        let effective = proxy.over(channel.over(OutboxSettings::default()));
        assert_eq!((effective.push_window, effective.one_way), (9, true));
        assert_eq!(effective.reply_timeout, Duration::from_secs(30));
    }

    #[test]
    fn backoff_doubles_up_to_its_cap() {
        let settings = OutboxSettings::default();
        let waits: [u128; 4] = [1, 2, 3, 40].map(|failures| settings.backoff(failures).as_millis());
        assert_eq!(waits, [50, 100, 200, 5_000]);
    }

    #[test]
    fn a_persistent_connection_ends_only_by_an_expiry_that_is_set() {
        let best_effort = OutboxSettings::default();
        assert_eq!(best_effort.gives_up_after(), Duration::from_secs(60));
        let persistent = OutboxSettings { connection_reliability: Reliability::Persistent, ..best_effort };
        assert!(persistent.gives_up_after().is_zero());
        let expiring = OutboxSettings { connection_expiry: Duration::from_secs(3_600), ..persistent };
        assert_eq!(expiring.gives_up_after(), Duration::from_secs(3_600));
    }

    #[test]
    fn a_cap_below_the_first_wait_is_the_first_wait() {
        let settings = OutboxSettings { backoff_max: Duration::ZERO, ..OutboxSettings::default() };
        assert_eq!(settings.backoff(7), settings.backoff_min);
    }

    #[test]
    fn refuses_a_window_out_of_range() {
        for window in [0, 1025] {
            let patch = SettingsPatch { push_window: Some(window), ..SettingsPatch::default() };
            assert!(matches!(patch.check(), Err(Refusal::BadSetting { setting: "push_window", .. })));
        }
    }
}
