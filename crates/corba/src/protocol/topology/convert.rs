//! Conversions of settings, limits and the like between the engine and a topology. Structs are destructured completely, so that a new field
//! on either side breaks the build.

use crate::exceptions::Raised;
use crate::keys::ObjectKey;
use crate::proxy_kind::Events;
use crate::qos::{Pool, PoolKind, Profile, parse_start, reported_start};
use crate::references::References;
use core::num::{NonZeroU32, NonZeroU64};
use core::time::Duration;
use engine::{
    ChannelId, ChannelLimits, EventType, HistoryLimits, PoolSpec, SettingsPatch, StartFrom, TopicSettings, Topics,
};
use giop::ior::Ior;
use topology as t;

/// Conversions between two equivalent enums, both ways.
macro_rules! same {
    ($to:ident, $from:ident: $engine:ident, $($name:ident),+) => {
        pub(super) const fn $to(it: $engine) -> t::$engine {
            match it {
                $($engine::$name => t::$engine::$name,)+
            }
        }

        pub(super) const fn $from(it: t::$engine) -> $engine {
            match it {
                $(t::$engine::$name => $engine::$name,)+
            }
        }
    };
}

same!(events_to, events_from: Events, Any, Structured, Sequence, Plain);
same!(profile_to, profile_from: Profile, Standard, RealTime);

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Conversion between a setting and its stored form.
trait Stored<S>: Sized {
    fn stored(self) -> S;
    fn restored(stored: &S) -> Option<Self>;
}

impl<T: Copy> Stored<T> for T {
    fn stored(self) -> T {
        self
    }

    fn restored(stored: &T) -> Option<T> {
        Some(*stored)
    }
}

impl Stored<u64> for Duration {
    fn stored(self) -> u64 {
        nanos(self)
    }

    fn restored(nanoseconds: &u64) -> Option<Self> {
        Some(Self::from_nanos(*nanoseconds))
    }
}

impl Stored<u64> for Option<Duration> {
    fn stored(self) -> u64 {
        self.map_or(0, nanos)
    }

    fn restored(nanoseconds: &u64) -> Option<Self> {
        Some((*nanoseconds > 0).then(|| Duration::from_nanos(*nanoseconds)))
    }
}

impl Stored<u32> for NonZeroU32 {
    fn stored(self) -> u32 {
        self.get()
    }

    fn restored(number: &u32) -> Option<Self> {
        Self::new(*number)
    }
}

impl Stored<u32> for Option<NonZeroU32> {
    fn stored(self) -> u32 {
        self.map_or(0, NonZeroU32::get)
    }

    fn restored(number: &u32) -> Option<Self> {
        Some(NonZeroU32::new(*number))
    }
}

impl Stored<u64> for Option<NonZeroU64> {
    fn stored(self) -> u64 {
        self.map_or(0, NonZeroU64::get)
    }

    fn restored(number: &u64) -> Option<Self> {
        Some(NonZeroU64::new(*number))
    }
}

impl Stored<String> for StartFrom {
    fn stored(self) -> String {
        reported_start(self)
    }

    fn restored(text: &String) -> Option<Self> {
        parse_start(text)
    }
}

macro_rules! settings {
    ($({ $(#[$doc:meta])* $side:ident $field:ident: $type:tt stored [$key:ident: $stored:ty] $($rest:tt)* })*) => {
        /// A level's settings for a topology, with its own pool, and without unknown properties.
        pub(super) fn settings_to(patch: &SettingsPatch, pool: Option<&Pool>) -> t::Settings {
            t::Settings {
                $($key: patch.$field.map(Stored::stored),)*
                pool: pool.map(pool_to),
                unknown: Vec::new(),
            }
        }

        /// A level's settings from a topology. The pool is still to be made.
        pub(super) fn settings_from(settings: &t::Settings) -> (SettingsPatch, Option<Pool>) {
            let patch = SettingsPatch {
                $($field: settings.$key.as_ref().and_then(Stored::restored),)*
                pool: None,
            };
            (patch, settings.pool.as_ref().map(pool_from))
        }
    };
}

engine::properties!(settings);

fn pool_to(pool: &Pool) -> t::Pool {
    let Pool { kind, spec: PoolSpec { model, server_priority, lanes, discipline, queue_events_max } } = pool;
    t::Pool {
        property: match kind {
            PoolKind::Pool => t::PoolProperty::ThreadPool,
            PoolKind::Lanes => t::PoolProperty::ThreadPoolLanes,
        },
        model: *model,
        server_priority: *server_priority,
        lanes: lanes.clone(),
        discipline: *discipline,
        queue_events_max: *queue_events_max,
    }
}

fn pool_from(pool: &t::Pool) -> Pool {
    let t::Pool { property, model, server_priority, lanes, discipline, queue_events_max } = pool;
    let kind = match property {
        t::PoolProperty::ThreadPool => PoolKind::Pool,
        t::PoolProperty::ThreadPoolLanes => PoolKind::Lanes,
    };
    let (model, server_priority, lanes) = (*model, *server_priority, lanes.clone());
    let (discipline, queue_events_max) = (*discipline, *queue_events_max);
    Pool { kind, spec: PoolSpec { model, server_priority, lanes, discipline, queue_events_max } }
}

/// A channel's own settings beside the defaults of all channels, which it follows when they change. Persistence stays as it was when the
/// channel was made.
pub(super) fn without_defaults(patch: SettingsPatch, default: &SettingsPatch) -> SettingsPatch {
    fn own<T: PartialEq>(value: Option<T>, default: &Option<T>) -> Option<T> {
        if value == *default { None } else { value }
    }
    SettingsPatch {
        push_window: own(patch.push_window, &default.push_window),
        connect_timeout: own(patch.connect_timeout, &default.connect_timeout),
        reply_timeout: own(patch.reply_timeout, &default.reply_timeout),
        give_up_after: own(patch.give_up_after, &default.give_up_after),
        hold_timeout: own(patch.hold_timeout, &default.hold_timeout),
        probe_interval: own(patch.probe_interval, &default.probe_interval),
        supplier_linger: own(patch.supplier_linger, &default.supplier_linger),
        ..patch
    }
}

/// A channel's settings including the defaults of all channels.
pub(super) fn with_defaults(patch: SettingsPatch, default: &SettingsPatch) -> SettingsPatch {
    SettingsPatch {
        push_window: patch.push_window.or(default.push_window),
        connect_timeout: patch.connect_timeout.or(default.connect_timeout),
        reply_timeout: patch.reply_timeout.or(default.reply_timeout),
        give_up_after: patch.give_up_after.or(default.give_up_after),
        hold_timeout: patch.hold_timeout.or(default.hold_timeout),
        probe_interval: patch.probe_interval.or(default.probe_interval),
        supplier_linger: patch.supplier_linger.or(default.supplier_linger),
        // It was not said before there were stores.
        connection_reliability: patch.connection_reliability.or(default.connection_reliability),
        // Nor this while it was without end by default.
        connection_expiry: patch.connection_expiry.or(default.connection_expiry),
        ..patch
    }
}

/// A channel's own limits, beside those of all channels.
pub(super) fn limits_to(limits: &ChannelLimits, default: &ChannelLimits) -> t::Limits {
    let ChannelLimits {
        memory_budget_bytes,
        overflow_budget_bytes,
        history: HistoryLimits { events: history_events, age: history_age, bytes: history_bytes },
        max_consumers,
        max_suppliers,
        max_queue_length,
        reject_new_events,
        dead_letters,
        constraint_bytes_max,
        constraint_nodes_max,
        constraints_per_filter_max,
        filters_per_object_max,
        filters_max,
        filter_steps_max,
    } = *limits;
    let own = |value: u64, default: u64| (value != default).then_some(value);
    t::Limits {
        memory_budget_bytes: own(memory_budget_bytes, default.memory_budget_bytes),
        overflow_budget_bytes: own(overflow_budget_bytes, default.overflow_budget_bytes),
        history_events,
        history_age_ns: nanos(history_age),
        history_bytes,
        max_consumers: max_consumers.map(NonZeroU32::get),
        max_suppliers: max_suppliers.map(NonZeroU32::get),
        max_queue_length: max_queue_length.map(NonZeroU32::get),
        reject_new_events,
        dead_letters: dead_letters.map(|channel| channel.0),
        constraint_bytes_max,
        constraint_nodes_max,
        constraints_per_filter_max,
        filters_per_object_max,
        filters_max,
        filter_steps_max,
    }
}

pub(super) fn limits_from(limits: &t::Limits, default: &ChannelLimits) -> ChannelLimits {
    let t::Limits {
        memory_budget_bytes,
        overflow_budget_bytes,
        history_events,
        history_age_ns,
        history_bytes,
        max_consumers,
        max_suppliers,
        max_queue_length,
        reject_new_events,
        dead_letters,
        constraint_bytes_max,
        constraint_nodes_max,
        constraints_per_filter_max,
        filters_per_object_max,
        filters_max,
        filter_steps_max,
    } = *limits;
    ChannelLimits {
        memory_budget_bytes: memory_budget_bytes.unwrap_or(default.memory_budget_bytes),
        overflow_budget_bytes: overflow_budget_bytes.unwrap_or(default.overflow_budget_bytes),
        history: HistoryLimits {
            events: history_events,
            age: Duration::from_nanos(history_age_ns),
            bytes: history_bytes,
        },
        max_consumers: max_consumers.and_then(NonZeroU32::new),
        max_suppliers: max_suppliers.and_then(NonZeroU32::new),
        max_queue_length: max_queue_length.and_then(NonZeroU32::new),
        reject_new_events,
        dead_letters: dead_letters.map(ChannelId),
        constraint_bytes_max,
        constraint_nodes_max,
        constraints_per_filter_max,
        filters_per_object_max,
        filters_max,
        filter_steps_max,
    }
}

fn topic_to(settings: &TopicSettings) -> t::TopicSettings {
    let TopicSettings { share, deadline, execution_time, criticality } = *settings;
    t::TopicSettings { share, deadline_ns: deadline.map(nanos), execution_time_ns: nanos(execution_time), criticality }
}

fn topic_from(settings: &t::TopicSettings) -> TopicSettings {
    let t::TopicSettings { share, deadline_ns, execution_time_ns, criticality } = *settings;
    let (deadline, execution_time) = (deadline_ns.map(Duration::from_nanos), Duration::from_nanos(execution_time_ns));
    TopicSettings { share, deadline, execution_time, criticality }
}

pub(super) fn topics_to(topics: &Topics) -> t::Topics {
    let Topics { rest, by_type } = topics;
    let by_type = by_type.iter().map(|(event_type, settings)| t::TypeTopic {
        event_type: event_type_to(event_type),
        settings: topic_to(settings),
    });
    t::Topics { rest: topic_to(rest), by_type: by_type.collect() }
}

pub(super) fn topics_from(topics: &t::Topics) -> Topics {
    let t::Topics { rest, by_type } = topics;
    let by_type = by_type.iter().map(|topic| (event_type_from(&topic.event_type), topic_from(&topic.settings)));
    Topics { rest: topic_from(rest), by_type: by_type.collect() }
}

fn event_type_to(event_type: &EventType) -> t::EventType {
    let EventType { domain, name } = event_type;
    t::EventType { domain: domain.to_string(), name: name.to_string() }
}

fn event_type_from(event_type: &t::EventType) -> EventType {
    let t::EventType { domain, name } = event_type;
    EventType::new(domain.as_str(), name.as_str())
}

pub(crate) fn event_types_to(types: &[EventType]) -> Vec<t::EventType> {
    types.iter().map(event_type_to).collect()
}

pub(crate) fn event_types_from(types: &[t::EventType]) -> Vec<EventType> {
    types.iter().map(event_type_from).collect()
}

/// A reference as text: for this service's own objects the key, which stays valid wherever the service is.
pub(crate) fn reference_to(references: &References, reference: &Ior) -> String {
    match references.own_key(reference) {
        Some(key) => format!("{HERE}{} {}", String::from_utf8_lossy(&key.to_bytes()), reference.type_id),
        None => reference.to_string(),
    }
}

/// A reference from its text.
pub(crate) fn reference_from(references: &References, text: &str) -> Result<Ior, Raised> {
    let Some(own) = text.strip_prefix(HERE) else { return text.parse().map_err(|_| Raised::bad_param()) };
    let (key, type_id) = own.split_once(' ').ok_or_else(Raised::bad_param)?;
    let key = ObjectKey::parse(key.as_bytes()).ok_or_else(Raised::bad_param)?;
    Ok(references.ior(type_id, &key))
}

const HERE: &str = "here:";

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{
        AcknowledgeAfter, DiscardPolicy, Discipline, FullOutbox, LaneSpec, OrderPolicy, PriorityModel, Reliability,
    };

    #[test]
    fn what_is_converted_and_converted_back_is_the_same() {
        let patch = SettingsPatch {
            max_events_per_consumer: Some(None),
            max_bytes_per_consumer: Some(NonZeroU64::new(7)),
            full_outbox: Some(FullOutbox::Reject),
            discard_policy: Some(DiscardPolicy::Lifo),
            push_window: Some(3),
            one_way: Some(true),
            mark_repeats: Some(true),
            start_from: Some(StartFrom::Last(7)),
            reply_timeout: Some(Duration::from_nanos(100)),
            connect_timeout: Some(Duration::from_millis(1)),
            give_up_after: Some(Duration::ZERO),
            delivery_attempts: Some(3),
            connection_reliability: Some(Reliability::Persistent),
            event_reliability: Some(Reliability::BestEffort),
            connection_expiry: Some(Duration::from_secs(9)),
            latency_bound: Some(Duration::from_millis(7)),
            acknowledge_after: Some(AcknowledgeAfter::Delivered),
            acknowledge_within: Some(Duration::from_secs(2)),
            hold_timeout: Some(Duration::from_secs(1)),
            hold_granted: Some(true),
            blocking: Some(Duration::from_millis(7)),
            backoff_min: Some(Duration::from_secs(2)),
            backoff_max: Some(Duration::from_secs(3)),
            order_policy: Some(OrderPolicy::Deadline),
            priority: Some(-7),
            timeout: Some(None),
            start_time_supported: Some(false),
            stop_time_supported: Some(true),
            batch_size_max: NonZeroU32::new(9),
            pacing_interval: Some(Duration::from_secs(4)),
            pull_interval: Some(Duration::from_secs(5)),
            filter_timeout: Some(Duration::from_secs(6)),
            probe_interval: Some(Duration::from_secs(7)),
            supplier_linger: Some(Duration::from_secs(8)),
            ..SettingsPatch::default()
        };
        let pool = Pool {
            kind: PoolKind::Lanes,
            spec: PoolSpec {
                model: PriorityModel::ClientPropagated,
                server_priority: 5,
                lanes: vec![LaneSpec { priority: 1, threads: 2 }, LaneSpec { priority: 9, threads: 1 }],
                discipline: Discipline::LeastLaxity,
                queue_events_max: 77,
            },
        };
        assert_eq!(settings_from(&settings_to(&patch, Some(&pool))), (patch, Some(pool)));
        let unsaid = SettingsPatch::default();
        assert_eq!(settings_to(&unsaid, None), t::Settings::default());
        assert_eq!(settings_from(&t::Settings::default()), (unsaid, None));
        let limits = ChannelLimits { max_queue_length: NonZeroU32::new(4), filters_max: 5, ..ChannelLimits::default() };
        for default in [ChannelLimits::default(), limits] {
            assert_eq!(limits_from(&limits_to(&limits, &default), &default), limits);
        }
        let settings =
            TopicSettings { deadline: Some(Duration::from_nanos(9)), criticality: -3, ..TopicSettings::default() };
        let topics = Topics { rest: TopicSettings::default(), by_type: vec![(EventType::new("a", "*"), settings)] };
        assert_eq!(topics_from(&topics_to(&topics)), topics);
    }
}
