//! Settings: behaviour of consumers' outboxes, level by level, and limits of channels.
//!
//! Each level (channel, admin, proxy) holds a [`SettingsPatch`]; the effective value of a setting is that of the
//! nearest level that sets it, proxy first, else the default stated on [`OutboxSettings`].

use core::num::NonZeroU32;
use core::time::Duration;

use crate::{ChannelId, HistoryLimits, PoolId, Refusal, StartFrom};

/// What happens when a consumer's outbox is full (`MaxEventsPerConsumer`), or is the channel's largest when the memory
/// budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FullOutbox {
    /// Suppliers are blocked: the event is taken, but its supplier's reply is withheld until there is room again.
    Hold,
    /// Events of this outbox are discarded, by its [`DiscardPolicy`].
    Discard,
    /// The event is refused to its supplier.
    Reject,
    /// The consumer is disconnected and its backlog dropped.
    Disconnect,
}

/// Order in which a consumer gets its waiting events (OMG Notification Service 1.1, `OrderPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum OrderPolicy {
    /// Any order; in effect the same as `Fifo`.
    Any,
    /// In the order of arrival. The default, so that each supplier's events stay in order.
    #[default]
    Fifo,
    /// The highest priority first; among equals in the order of arrival.
    Priority,
    /// The earliest to expire first, events without expiry last; among equals in the order of arrival.
    Deadline,
}

/// Which event is discarded when one must be (OMG Notification Service 1.1, `DiscardPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum DiscardPolicy {
    /// Any event; in effect the same as `Fifo`. The default.
    #[default]
    Any,
    /// The oldest waiting event.
    Fifo,
    /// The last event received: at `MaxEventsPerConsumer` the one that just arrived; at the memory budget and at
    /// `MaxQueueLength`, where room must be made for other consumers, the newest waiting one.
    Lifo,
    /// The event of lowest priority; among equals the oldest.
    Priority,
    /// The earliest to expire, events without expiry last; among equals the oldest.
    Deadline,
}

/// Whether an event or a connection outlives the process (OMG Notification Service 1.1, 2.5.5.1: `EventReliability`,
/// `ConnectionReliability`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Reliability {
    /// It ends with the process. The default.
    #[default]
    BestEffort,
    /// An event, once taken, outlives the process until all its consumers have confirmed it or it has expired; a
    /// connection, until one side ends it.
    Persistent,
}

/// `AcknowledgeAfter`: meaning of the reply to a supplier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum AcknowledgeAfter {
    /// The event was taken, and is on disk if it is to outlive the process. The default.
    #[default]
    Accepted,
    /// The event is on disk. Only for events that outlive the process, for which it is the same as `Accepted`.
    Stored,
    /// The event is complete for every consumer: delivered, or never to be delivered, or `acknowledge_within` is over.
    /// Consumers with a backlog [elsewhere](crate::Overflow) are not waited for.
    Delivered,
}

/// Defines the settings of both sides, and the patch that a level puts over them, from the [table](mod@crate::properties).
macro_rules! settings {
    // Takes the rows of both sides apart: those with a field for consumers, for suppliers, and all.
    ($({ $(#[$doc:meta])* $side:ident $($row:tt)* })*) => {
        settings! { @split [] [] [] $({ $side $(#[$doc])* $($row)* })* }
    };
    (@split [$($c:tt)*] [$($s:tt)*] [$($all:tt)*] { consumers $($row:tt)* } $($rest:tt)*) => {
        settings! { @split [$($c)* { $($row)* }] [$($s)*] [$($all)* { $($row)* }] $($rest)* }
    };
    (@split [$($c:tt)*] [$($s:tt)*] [$($all:tt)*] { suppliers $($row:tt)* } $($rest:tt)*) => {
        settings! { @split [$($c)*] [$($s)* { $($row)* }] [$($all)* { $($row)* }] $($rest)* }
    };
    (@split [$($c:tt)*] [$($s:tt)*] [$($all:tt)*] { both $($row:tt)* } $($rest:tt)*) => {
        settings! { @split [$($c)* { $($row)* }] [$($s)* { $($row)* }] [$($all)* { $($row)* }] $($rest)* }
    };
    (@split [$($consumers:tt)*] [$($suppliers:tt)*] [$($all:tt)*]) => {
        settings! { @consumers $($consumers)* }
        settings! { @suppliers $($suppliers)* }
        settings! { @patch $($all)* }
    };
    (@effective $type:ty) => { $type };
    (@effective $type:ty, $effective:ty) => { $effective };
    (@consumers $({
        $(#[$doc:meta])* $field:ident: [$type:ty $(=> $effective:ty)? = $default:expr] $($rest:tt)*
    })*) => {
        /// Effective settings of a consumer's outbox.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct OutboxSettings {
            $($(#[$doc])* pub $field: settings!(@effective $type $(, $effective)?),)*
            /// Whether `full_outbox` or `max_events_per_consumer` is set by the proxy itself and not granted. Then [`FullOutbox::Hold`]
            /// and [`FullOutbox::Reject`] are ignored at `max_events_per_consumer`, and `Reject` at the channel's limits. Default false.
            pub own_bound: bool,
            /// Whether `latency_bound` is set by the proxy itself. Default false.
            pub own_latency_bound: bool,
            /// Time in any ten minutes for which the consumer may block suppliers that could go on otherwise: the
            /// `hold_timeout` of the levels above the proxy, or the proxy's if that is less. When it is spent, events
            /// of this consumer are discarded. Zero, also where `hold_granted` is set: without end. Default 30 s.
            pub hold_budget: Duration,
            /// Whether the consumer is disconnected when its `hold_budget` is spent, because its channel or admin sets
            /// [`FullOutbox::Disconnect`] and the proxy another policy. Default false.
            pub spent_disconnects: bool,
        }

        impl Default for OutboxSettings {
            fn default() -> Self {
                Self {
                    $($field: $default,)*
                    own_bound: false,
                    own_latency_bound: false,
                    hold_budget: Duration::from_secs(30),
                    spent_disconnects: false,
                }
            }
        }

        impl SettingsPatch {
            /// `settings`, overridden by what this level sets.
            #[must_use]
            pub fn over(&self, settings: OutboxSettings) -> OutboxSettings {
                OutboxSettings { $($field: self.$field.map_or(settings.$field, Into::into),)* ..settings }
            }
        }
    };
    (@suppliers $({ $(#[$doc:meta])* $field:ident: [$type:ty = $default:expr] $($rest:tt)* })*) => {
        /// Effective settings of a supplier's proxy.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct SupplierSettings {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for SupplierSettings {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl SettingsPatch {
            /// `settings`, overridden by what this level sets.
            #[must_use]
            pub fn over_supplier(&self, settings: SupplierSettings) -> SupplierSettings {
                SupplierSettings { $($field: self.$field.unwrap_or(settings.$field),)* }
            }
        }
    };
    (@patch $({ $(#[$doc:meta])* $field:ident: [$type:ty $(=> $effective:ty)? = $default:expr] $($rest:tt)* })*) => {
        /// Settings of one level for outboxes and suppliers: each is set there (`Some`) or inherited (`None`, the
        /// default). A setting that both sides have is one field here.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct SettingsPatch {
            $($(#[$doc])* pub $field: Option<$type>,)*
            /// The pool with the lanes that carry the events of the proxies beneath, from
            /// [`Hierarchy::create_pool`](crate::Hierarchy::create_pool). If no level sets one, it is the main lane.
            pub pool: Option<PoolId>,
        }
    };
}

crate::properties!(settings);

impl OutboxSettings {
    /// The largest `push_window`.
    pub const PUSH_WINDOW_MAX: u16 = 1024;
    /// Highest [`dispatch_priority`](Self::dispatch_priority).
    pub const DISPATCH_PRIORITY_MAX: u16 = 7;

    /// The `push_window` of a consumer that is known to keep order, where no level sets one.
    ///
    /// Unanswered deliveries should fill the time from a delivery to its answer: some 50 µs on one host, 200 µs on a
    /// network. At a million events of 64 to 128 octets a second these are 50 and 200 events; and the unanswered
    /// events of a consumer stay small: 64 KB of events of 1 KB, 2 MB of 34 KB.
    pub const PUSH_WINDOW_IN_ORDER: u16 = 64;

    /// Widens `push_window` if the consumer is known to keep order and no level sets it. Not where events are sorted:
    /// an important one would wait behind all unanswered ones. At most a sixteenth of `max_events_per_consumer`, since
    /// unanswered events can neither expire nor be discarded.
    #[must_use]
    pub(crate) fn with_window_in_order(mut self) -> Self {
        if matches!(self.order_policy, OrderPolicy::Any | OrderPolicy::Fifo) {
            let share = self.max_events_per_consumer.map_or(u32::MAX, |max| max.get() / 16);
            let share = u16::try_from(share).unwrap_or(u16::MAX);
            self.push_window = share.clamp(1, Self::PUSH_WINDOW_IN_ORDER);
        }
        self
    }

    /// Time of continuous failure after which the consumer is disconnected; zero if never.
    #[must_use]
    pub fn gives_up_after(&self) -> Duration {
        gives_up_after(self.give_up_after, self.connection_reliability, self.connection_expiry)
    }

    /// Longest time for which a consumer that blocks suppliers may take nothing; zero if unlimited.
    #[must_use]
    pub fn max_blocked_time(&self) -> Duration {
        self.hold_timeout.unwrap_or(self.reply_timeout)
    }

    /// Settings of a proxy that sets `own` under levels that set `self`. The levels above decide what it may cost others.
    #[must_use]
    pub fn of_proxy(self, own: &SettingsPatch) -> Self {
        let mut settings = own.over(self);
        settings.hold_granted = self.hold_granted;
        let narrows = own.full_outbox.is_some() || own.max_events_per_consumer.is_some();
        settings.own_bound = narrows && !self.hold_granted;
        settings.own_latency_bound = own.latency_bound.is_some();
        // A channel that blocks its suppliers for a time sets that time itself.
        let blocks = matches!(settings.full_outbox, None | Some(FullOutbox::Discard)) && !settings.blocking.is_zero();
        let is_free = self.hold_granted || (blocks && own.blocking.is_none());
        settings.hold_budget = match (self.max_blocked_time(), settings.max_blocked_time()) {
            _ if is_free => Duration::ZERO,
            // "For ever" set by a proxy does not extend the time; set by a channel, it leaves the time to the proxy.
            (above, below) if above.is_zero() || below.is_zero() => above.max(below),
            (above, below) => above.min(below),
        };
        settings.spent_disconnects = self.full_outbox == Some(FullOutbox::Disconnect);
        settings
    }

    /// Policy at `max_events_per_consumer`, if one is set and permitted.
    pub(crate) fn policy_at_bound(&self) -> Option<FullOutbox> {
        self.full_outbox.filter(|policy| !self.own_bound || !matches!(policy, FullOutbox::Hold | FullOutbox::Reject))
    }

    /// Policy at the channel's limits, if one is set and permitted.
    pub(crate) fn policy_at_limits(&self) -> Option<FullOutbox> {
        self.full_outbox.filter(|policy| !self.own_bound || *policy != FullOutbox::Reject)
    }

    /// Whether the consumer stays connected and loses events when its time of blocking suppliers is over.
    pub(crate) fn is_waited_out(&self) -> bool {
        self.connection_reliability == Reliability::Persistent && !self.max_blocked_time().is_zero()
    }

    /// Back-off after the `failures`-th failure in a row (from 1).
    #[must_use]
    pub fn backoff(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.backoff_min.saturating_mul(1 << doublings).min(self.backoff_max.max(self.backoff_min))
    }
}

impl SupplierSettings {
    /// The shortest `pull_interval`.
    pub const PULL_INTERVAL_MIN: Duration = Duration::from_millis(1);
    /// The longest `pull_interval`.
    pub const PULL_INTERVAL_MAX: Duration = Duration::from_secs(3_600);

    /// Time of continuous failure after which a supplier that is pulled from is disconnected; zero if never.
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

impl SettingsPatch {
    /// Checks every range stated on [`OutboxSettings`] and [`SupplierSettings`].
    ///
    /// # Errors
    ///
    /// [`Refusal::BadSetting`] names the first setting that is out of its range.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.push_window.is_some_and(|window| !(1..=OutboxSettings::PUSH_WINDOW_MAX).contains(&window)) {
            return Err(Refusal::BadSetting { setting: "push_window", range: "1 to 1024 deliveries" });
        }
        if self.dispatch_priority.is_some_and(|priority| priority > OutboxSettings::DISPATCH_PRIORITY_MAX) {
            return Err(Refusal::BadSetting { setting: "dispatch_priority", range: "0 to 7" });
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

/// Limits of a channel (the OMG's admin properties, and the memory budget).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelLimits {
    /// Memory budget of the channel's events, in bytes, each counted once however many consumers wait for it: its
    /// bytes plus [`EVENT_OVERHEAD_BYTES`](crate::EVENT_OVERHEAD_BYTES) plus, for each consumer,
    /// [`HOLDER_OVERHEAD_BYTES`](crate::HOLDER_OVERHEAD_BYTES) (where events are sorted or expire,
    /// [`SORTED_OVERHEAD_BYTES`](crate::SORTED_OVERHEAD_BYTES)). More than 0. Default 256 MiB. When it is spent, the
    /// slow consumer's [`FullOutbox`] decides; events of blocked suppliers may exceed it, up to twice its value, where
    /// they are refused.
    pub memory_budget_bytes: u64,
    /// `OverflowBudget`: most bytes of events stored [elsewhere](crate::Overflow), where the driver of the lanes can do that. When the
    /// channel's events take half of its memory budget, those of consumers with a backlog go there. 0, the default: none.
    pub overflow_budget_bytes: u64,
    /// `HistoryEvents`, `HistoryAge`, `HistoryBytes`: limits of the stored history, where the driver of the lanes can store one.
    pub history: HistoryLimits,
    /// `MaxConsumers`: most consumers connected at once. `None`, the default: no limit.
    pub max_consumers: Option<NonZeroU32>,
    /// `MaxSuppliers`: most suppliers connected at once. `None`, the default: no limit.
    pub max_suppliers: Option<NonZeroU32>,
    /// `MaxQueueLength`: most events the channel holds for all its consumers together, each counted once. `None`, the
    /// default: no limit. Unanswered deliveries may exceed it by the consumers' windows.
    pub max_queue_length: Option<NonZeroU32>,
    /// `RejectNewEvents`: whether an event is refused at `max_queue_length`. If false, the default, one of the slow
    /// consumer's is discarded by its [`DiscardPolicy`].
    pub reject_new_events: bool,
    /// `DeadLetterChannel`: channel for events that are undeliverable for a consumer, by `delivery_attempts`; the
    /// owner of a lane hands them in there. `None`, the default: they are dropped.
    pub dead_letters: Option<ChannelId>,
    /// `MaxConstraintLength`: the longest constraint, in bytes. More than 0. Default 16,384.
    pub constraint_bytes_max: u32,
    /// `MaxConstraintNodes`: the most nodes in one constraint's tree. More than 0. Default 4,096.
    pub constraint_nodes_max: u32,
    /// `MaxConstraintsPerFilter`: the most constraints in one filter. More than 0. Default 1,024.
    pub constraints_per_filter_max: u32,
    /// `MaxFiltersPerObject`: the most filters attached to one admin or proxy. More than 0. Default 256.
    pub filters_per_object_max: u32,
    /// Most filters of the channel at once. Default 100,000.
    pub filters_max: u32,
    /// Most steps spent on filtering one event. A constraint not decided by then does not match. More than 0. Default
    /// 250,000.
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
