//! The properties that there are: the OMG's and this service's own, each with its places, values, and what it sets.
//!
//! # Adding a property
//!
//! A row here makes it settable over CORBA, in declared channels and over HTTP. Found by the compiler or a test: its field in the engine's
//! settings and in `crates/topology`, without which it does not outlive a restart (a new field of `Limits` there has `#[serde(default)]`);
//! the row in `docs/conformance.md`; the number of rows. Found by neither:
//! - its range in `SettingsPatch::check` or `ChannelLimits::check`, and its part of a lane in `Quota` (the engine's `lane/channel.rs`);
//! - a value of a new kind in `property.rs`, what clients of other protocols have instead of the default in `door/guests.rs`, and a default
//!   of the process in `without_defaults` and `with_defaults` (`door/topology/convert.rs`);
//! - the model and the random choices of `crates/sim`, the console's `PROPERTIES` (`pages/dialogs.js`), `crates/cli/src/show.rs`,
//!   `docs/qos.md`, and the walks of foreign clients (`interop/tests/interop`);
//! - where an event's header may have it: `event/header.rs`, the engine's `Event` with `Lane::begin_handover`, and the store's `Record`.

use super::pools::{Pool, PoolKind};
use super::property::{
    ACKNOWLEDGE_AFTER, Accepted, CONNECTION_RELIABILITY, CONSTRAINT_LENGTH, DEAD_LETTER_CHANNEL, Domain,
    EVENT_RELIABILITY, Effective, FILTER_STEPS, HISTORY_AGE, HISTORY_BYTES, HISTORY_EVENTS, HOLD_GRANTED,
    OVERFLOW_BUDGET, OVERFLOW_MAX, Place, Property, PropertyValue, RequestedProperties, START_FROM, Wire,
};
use super::real_time::Profile;
use super::start_from;
use super::topics;
use engine::{
    AcknowledgeAfter, ChannelId, DiscardPolicy, FullOutbox, OrderPolicy, OutboxSettings, Reliability, TopicSettings,
};
use std::num::NonZeroU32;
use std::time::Duration;

const EVERYWHERE: &[Place] = &[Place::Channel, Place::Consumers, Place::Suppliers];
const EVERYWHERE_AND_EVENT: &[Place] = &[Place::Channel, Place::Consumers, Place::Suppliers, Place::Event];
/// What an outbox does is a consumer's, or all consumers' of an admin or channel.
const OUTBOX: &[Place] = &[Place::Channel, Place::Consumers];
const SUPPLIERS: &[Place] = &[Place::Channel, Place::Suppliers];
const CHANNEL: &[Place] = &[Place::Channel];
const EVENT: &[Place] = &[Place::Event];

const BEST_EFFORT: i64 = 0;
const PERSISTENT: i64 = 1;
const ANY_ORDER: i64 = 0;
const FIFO_ORDER: i64 = 1;
const PRIORITY_ORDER: i64 = 2;
const DEADLINE_ORDER: i64 = 3;
const LIFO_ORDER: i64 = 4;
/// `CosNotification::HighestPriority`; the lowest is its negative.
const HIGHEST_PRIORITY: i64 = 32_767;

const MILLISECOND: i64 = 10_000;
const HOUR: i64 = 3_600_000 * MILLISECOND;
const WEEK: i64 = 7 * 24 * HOUR;
const YEAR: i64 = 365 * 24 * HOUR;
/// The longest `Timeout`; what means to last longer may as well say 0, which is for ever.
const CENTURY: i64 = 36_525 * 24 * HOUR;
/// The largest batch.
const BATCH_MAX: i64 = 65_536;
/// The largest `DeliveryAttempts`.
const ATTEMPTS_MAX: i64 = 1_000;

/// `FullOutbox`, in the order of its choices.
const FULL_OUTBOX: &[(&str, FullOutbox)] = &[
    ("Hold", FullOutbox::Hold),
    ("Discard", FullOutbox::Discard),
    ("Reject", FullOutbox::Reject),
    ("Disconnect", FullOutbox::Disconnect),
];
/// `AcknowledgeAfter`, in the order of its choices.
const ACKNOWLEDGE: &[AcknowledgeAfter] =
    &[AcknowledgeAfter::Accepted, AcknowledgeAfter::Stored, AcknowledgeAfter::Delivered];
const ACKNOWLEDGE_AFTER_NAMES: &[&str] = &["Accepted", "Stored", "Delivered"];
const FULL_OUTBOX_NAMES: &[&str] = &["Hold", "Discard", "Reject", "Disconnect"];

const fn short(supported: (i64, i64), legal: (i64, i64)) -> Domain {
    Domain::Integer { wire: Wire::Short, supported, legal }
}

/// What there is a store for, and otherwise `BestEffort`: see [`Most::has_store`](super::property::Most::has_store).
const fn reliability() -> Domain {
    short((BEST_EFFORT, PERSISTENT), (BEST_EFFORT, PERSISTENT))
}

fn chosen_reliability(value: &Accepted) -> Option<Reliability> {
    Some(if value.integer() == PERSISTENT { Reliability::Persistent } else { Reliability::BestEffort })
}

fn reported_reliability(reliability: Reliability) -> Option<PropertyValue> {
    Some(Wire::Short.value(match reliability {
        Reliability::BestEffort => BEST_EFFORT,
        Reliability::Persistent => PERSISTENT,
    }))
}

const fn maximum() -> Domain {
    long(0, i32::MAX as i64)
}

const fn long(low: i64, high: i64) -> Domain {
    Domain::Integer { wire: Wire::Long, supported: (low, high), legal: (low, high) }
}

/// A `long` that the standard knows no upper end of.
const fn long_up_to(low: i64, high: i64) -> Domain {
    Domain::Integer { wire: Wire::Long, supported: (low, high), legal: (low, i32::MAX as i64) }
}

const fn time(low: i64, high: i64) -> Domain {
    Domain::Integer { wire: Wire::ULongLong, supported: (low, high), legal: (low, high) }
}

/// A time that the standard knows no upper end of.
const fn time_up_to(high: i64) -> Domain {
    Domain::Integer { wire: Wire::ULongLong, supported: (0, high), legal: (0, i64::MAX) }
}

fn reported_maximum(maximum: Option<NonZeroU32>) -> Option<PropertyValue> {
    reported_count(maximum.map_or(0, NonZeroU32::get))
}

fn reported_count(count: u32) -> Option<PropertyValue> {
    Some(PropertyValue::Long(i32::try_from(count).unwrap_or(i32::MAX)))
}

fn reported_time(duration: Duration) -> Option<PropertyValue> {
    Some(PropertyValue::ULongLong(u64::try_from(duration.as_nanos() / 100).unwrap_or(u64::MAX)))
}

fn not_reported(_: &Effective) -> Option<PropertyValue> {
    None
}

fn reported_pool(effective: &Effective, kind: PoolKind) -> Option<PropertyValue> {
    effective.pool.as_ref().filter(|pool| pool.kind == kind).map(Pool::reported)
}

fn set_pool(requested: &mut RequestedProperties, value: Accepted) {
    if let Accepted::Pool(mut pool) = value {
        // It is not said by the value, so it stays.
        pool.spec.discipline = requested.pool.as_ref().map_or(pool.spec.discipline, |former| former.spec.discipline);
        requested.pool = Some(pool);
    }
}

/// For a property of which only what happens anyway can be asked for.
fn nothing_to_do(_: &mut RequestedProperties, _: Accepted) {}

/// The QoS properties (`CosNotification`, OMG Notification Service 1.1, 2.5), then this service's own.
pub(crate) static QOS: &[Property] = &[
    Property {
        name: EVENT_RELIABILITY,
        places: EVERYWHERE_AND_EVENT,
        domain: reliability(),
        set: |requested, value| requested.patch.event_reliability = chosen_reliability(&value),
        get: |effective| reported_reliability(effective.supplier.event_reliability),
    },
    Property {
        name: CONNECTION_RELIABILITY,
        places: EVERYWHERE,
        domain: reliability(),
        set: |requested, value| requested.patch.connection_reliability = chosen_reliability(&value),
        get: |effective| reported_reliability(effective.settings.connection_reliability),
    },
    Property {
        name: "Priority",
        places: EVERYWHERE_AND_EVENT,
        domain: short((-HIGHEST_PRIORITY, HIGHEST_PRIORITY), (-HIGHEST_PRIORITY, HIGHEST_PRIORITY)),
        set: |requested, value| requested.patch.priority = i16::try_from(value.integer()).ok(),
        get: |effective| Some(PropertyValue::Short(effective.supplier.priority)),
    },
    Property { name: "StartTime", places: EVENT, domain: Domain::Utc, set: nothing_to_do, get: not_reported },
    Property { name: "StopTime", places: EVENT, domain: Domain::Utc, set: nothing_to_do, get: not_reported },
    Property {
        name: "Timeout",
        places: EVERYWHERE_AND_EVENT,
        domain: time_up_to(CENTURY),
        set: |requested, value| {
            requested.patch.timeout = Some(Some(value.duration()).filter(|timeout| !timeout.is_zero()))
        },
        get: |effective| reported_time(effective.settings.timeout.unwrap_or_default()),
    },
    Property {
        name: "OrderPolicy",
        places: EVERYWHERE,
        domain: short((ANY_ORDER, DEADLINE_ORDER), (ANY_ORDER, DEADLINE_ORDER)),
        set: |requested, value| {
            requested.patch.order_policy = Some(match value.integer() {
                ANY_ORDER => OrderPolicy::Any,
                PRIORITY_ORDER => OrderPolicy::Priority,
                DEADLINE_ORDER => OrderPolicy::Deadline,
                _ => OrderPolicy::Fifo,
            });
        },
        get: |effective| {
            Some(Wire::Short.value(match effective.settings.order_policy {
                OrderPolicy::Any => ANY_ORDER,
                OrderPolicy::Fifo => FIFO_ORDER,
                OrderPolicy::Priority => PRIORITY_ORDER,
                OrderPolicy::Deadline => DEADLINE_ORDER,
            }))
        },
    },
    Property {
        name: "DiscardPolicy",
        places: EVERYWHERE,
        domain: short((ANY_ORDER, LIFO_ORDER), (ANY_ORDER, LIFO_ORDER)),
        set: |requested, value| {
            requested.patch.discard_policy = Some(match value.integer() {
                FIFO_ORDER => DiscardPolicy::Fifo,
                PRIORITY_ORDER => DiscardPolicy::Priority,
                DEADLINE_ORDER => DiscardPolicy::Deadline,
                LIFO_ORDER => DiscardPolicy::Lifo,
                _ => DiscardPolicy::Any,
            });
        },
        get: |effective| {
            Some(Wire::Short.value(match effective.settings.discard_policy {
                DiscardPolicy::Any => ANY_ORDER,
                DiscardPolicy::Fifo => FIFO_ORDER,
                DiscardPolicy::Priority => PRIORITY_ORDER,
                DiscardPolicy::Deadline => DEADLINE_ORDER,
                DiscardPolicy::Lifo => LIFO_ORDER,
            }))
        },
    },
    Property {
        name: "StartTimeSupported",
        places: EVERYWHERE,
        domain: Domain::Boolean,
        set: |requested, value| requested.patch.start_time_supported = Some(value.boolean()),
        get: |effective| Some(PropertyValue::Boolean(effective.settings.start_time_supported)),
    },
    Property {
        name: "StopTimeSupported",
        places: EVERYWHERE,
        domain: Domain::Boolean,
        set: |requested, value| requested.patch.stop_time_supported = Some(value.boolean()),
        get: |effective| Some(PropertyValue::Boolean(effective.settings.stop_time_supported)),
    },
    Property {
        name: "MaxEventsPerConsumer",
        places: OUTBOX,
        domain: maximum(),
        set: |requested, value| requested.patch.max_events_per_consumer = Some(value.maximum()),
        get: |effective| reported_maximum(effective.settings.max_events_per_consumer),
    },
    Property {
        name: "MaximumBatchSize",
        places: EVERYWHERE,
        domain: long_up_to(1, BATCH_MAX),
        set: |requested, value| requested.patch.batch_size_max = value.maximum(),
        get: |effective| reported_maximum(Some(effective.settings.batch_size_max)),
    },
    Property {
        name: "PacingInterval",
        places: EVERYWHERE,
        domain: time_up_to(HOUR),
        set: |requested, value| requested.patch.pacing_interval = Some(value.duration()),
        get: |effective| reported_time(effective.settings.pacing_interval),
    },
    Property {
        name: "FullOutbox",
        places: OUTBOX,
        domain: Domain::Choice(FULL_OUTBOX_NAMES),
        set: |requested, value| {
            if let Accepted::Choice(index) = value {
                requested.patch.full_outbox = FULL_OUTBOX.get(index).map(|(_, choice)| *choice);
            }
        },
        get: |effective| {
            let set = effective.settings.full_outbox?;
            FULL_OUTBOX.iter().find(|(_, choice)| *choice == set).map(|(name, _)| PropertyValue::Text((*name).into()))
        },
    },
    Property {
        name: "ThreadPool",
        places: EVERYWHERE,
        domain: Domain::Pool(PoolKind::Pool),
        set: set_pool,
        get: |effective| reported_pool(effective, PoolKind::Pool),
    },
    Property {
        name: "ThreadPoolLanes",
        places: EVERYWHERE,
        domain: Domain::Pool(PoolKind::Lanes),
        set: set_pool,
        get: |effective| reported_pool(effective, PoolKind::Lanes),
    },
    Property {
        name: "Discipline",
        places: EVERYWHERE,
        domain: Domain::Choice(topics::DISCIPLINE_NAMES),
        set: |requested, value| requested.discipline = topics::discipline(value.integer()),
        get: |effective| {
            let name = topics::discipline_name(effective.pool.as_ref()?.spec.discipline)?;
            Some(PropertyValue::Text(name.to_owned()))
        },
    },
    Property {
        name: "Share",
        places: CHANNEL,
        domain: Domain::Integer {
            wire: Wire::ULong,
            supported: (1, TopicSettings::SHARE_MAX as i64),
            legal: (1, TopicSettings::SHARE_MAX as i64),
        },
        set: |requested, value| requested.topics.rest.share = value.count(),
        get: |effective| Some(PropertyValue::ULong(effective.topics.rest.share)),
    },
    Property {
        name: "Deadline",
        places: CHANNEL,
        // Further bounded by the share: `topics::validation_errors`.
        domain: time(0, 1_000 * MILLISECOND),
        set: |requested, value| requested.topics.rest.deadline = topics::deadline_of(value.duration()),
        get: |effective| reported_time(effective.topics.rest.deadline.unwrap_or_default()),
    },
    Property {
        name: "Topics",
        places: CHANNEL,
        domain: Domain::Topics,
        set: |requested, value| {
            if let Accepted::Topics(by_type) = value {
                requested.topics.by_type = by_type;
            }
        },
        get: |effective| Some(topics::reported(&effective.topics.by_type)),
    },
    Property {
        name: "Profile",
        places: CHANNEL,
        domain: Domain::Choice(Profile::NAMES),
        set: |requested, value| {
            requested.profile = if value.integer() == 0 { Profile::Standard } else { Profile::RealTime };
        },
        get: |effective| Some(PropertyValue::Text(effective.profile.name().to_owned())),
    },
    Property {
        name: "PushWindow",
        places: OUTBOX,
        domain: Domain::Integer {
            wire: Wire::UShort,
            supported: (1, OutboxSettings::PUSH_WINDOW_MAX as i64),
            legal: (1, OutboxSettings::PUSH_WINDOW_MAX as i64),
        },
        set: |requested, value| requested.patch.push_window = u16::try_from(value.integer()).ok(),
        get: |effective| Some(PropertyValue::UShort(effective.settings.push_window)),
    },
    Property {
        name: "PushOneWay",
        places: OUTBOX,
        domain: Domain::Boolean,
        set: |requested, value| requested.patch.one_way = Some(value.boolean()),
        get: |effective| Some(PropertyValue::Boolean(effective.settings.one_way)),
    },
    Property {
        name: "MarkRepeats",
        places: OUTBOX,
        domain: Domain::Boolean,
        set: |requested, value| requested.patch.mark_repeats = Some(value.boolean()),
        get: |effective| Some(PropertyValue::Boolean(effective.settings.mark_repeats)),
    },
    Property {
        name: "MemoryBudget",
        places: CHANNEL,
        domain: Domain::Memory { low: 64 << 10, high: 1 << 40 },
        set: |requested, value| {
            if let Ok(bytes) = u64::try_from(value.integer()) {
                requested.limits.memory_budget_bytes = bytes;
            }
        },
        get: |effective| Some(PropertyValue::ULongLong(effective.limits.memory_budget_bytes)),
    },
    Property {
        name: OVERFLOW_BUDGET,
        places: CHANNEL,
        domain: Domain::Integer { wire: Wire::ULongLong, supported: (0, OVERFLOW_MAX), legal: (0, OVERFLOW_MAX) },
        set: |requested, value| {
            if let Ok(bytes) = u64::try_from(value.integer()) {
                requested.limits.overflow_budget_bytes = bytes;
            }
        },
        get: |effective| Some(PropertyValue::ULongLong(effective.limits.overflow_budget_bytes)),
    },
    Property {
        name: HISTORY_EVENTS,
        places: CHANNEL,
        domain: Domain::Integer { wire: Wire::ULongLong, supported: (0, i64::MAX), legal: (0, i64::MAX) },
        set: |requested, value| {
            if let Ok(events) = u64::try_from(value.integer()) {
                requested.limits.history.events = events;
            }
        },
        get: |effective| Some(PropertyValue::ULongLong(effective.limits.history.events)),
    },
    Property {
        name: HISTORY_AGE,
        places: CHANNEL,
        domain: time(0, CENTURY),
        set: |requested, value| requested.limits.history.age = value.duration(),
        get: |effective| reported_time(effective.limits.history.age),
    },
    Property {
        name: HISTORY_BYTES,
        places: CHANNEL,
        domain: Domain::Integer { wire: Wire::ULongLong, supported: (0, OVERFLOW_MAX), legal: (0, OVERFLOW_MAX) },
        set: |requested, value| {
            if let Ok(bytes) = u64::try_from(value.integer()) {
                requested.limits.history.bytes = bytes;
            }
        },
        get: |effective| Some(PropertyValue::ULongLong(effective.limits.history.bytes)),
    },
    Property {
        name: START_FROM,
        places: OUTBOX,
        domain: Domain::Start,
        set: |requested, value| {
            if let Accepted::Start(start) = value {
                requested.patch.start_from = Some(start);
            }
        },
        get: |effective| effective.settings.start_from.map(|start| PropertyValue::Text(start_from::reported(start))),
    },
    Property {
        name: "PullInterval",
        places: SUPPLIERS,
        // `SupplierSettings::PULL_INTERVAL_MIN` and `PULL_INTERVAL_MAX`.
        domain: time(MILLISECOND, HOUR),
        set: |requested, value| requested.patch.pull_interval = Some(value.duration()),
        get: |effective| reported_time(effective.supplier.pull_interval),
    },
    Property {
        name: "ReplyTimeout",
        places: EVERYWHERE,
        domain: time(0, HOUR),
        set: |requested, value| requested.patch.reply_timeout = Some(value.duration()),
        get: |effective| reported_time(effective.settings.reply_timeout),
    },
    Property {
        name: "ConnectionExpiry",
        places: EVERYWHERE,
        domain: time(0, YEAR),
        set: |requested, value| requested.patch.connection_expiry = Some(value.duration()),
        get: |effective| reported_time(effective.settings.connection_expiry),
    },
    Property {
        name: "LatencyBound",
        places: OUTBOX,
        domain: time(0, HOUR),
        set: |requested, value| requested.patch.latency_bound = Some(value.duration()),
        get: |effective| reported_time(effective.settings.latency_bound),
    },
    Property {
        name: ACKNOWLEDGE_AFTER,
        places: SUPPLIERS,
        domain: Domain::Choice(ACKNOWLEDGE_AFTER_NAMES),
        set: |requested, value| {
            if let Accepted::Choice(index) = value {
                requested.patch.acknowledge_after = ACKNOWLEDGE.get(index).copied();
            }
        },
        get: |effective| {
            let set = effective.supplier.acknowledge_after;
            let at = ACKNOWLEDGE.iter().position(|choice| *choice == set)?;
            ACKNOWLEDGE_AFTER_NAMES.get(at).map(|name| PropertyValue::Text((*name).into()))
        },
    },
    Property {
        name: "AcknowledgeWithin",
        places: SUPPLIERS,
        domain: time(MILLISECOND, HOUR),
        set: |requested, value| requested.patch.acknowledge_within = Some(value.duration()),
        get: |effective| reported_time(effective.supplier.acknowledge_within),
    },
    Property {
        name: "ConnectTimeout",
        places: EVERYWHERE,
        domain: time(MILLISECOND, HOUR),
        set: |requested, value| requested.patch.connect_timeout = Some(value.duration()),
        get: |effective| reported_time(effective.settings.connect_timeout),
    },
    Property {
        name: "FilterTimeout",
        places: EVERYWHERE,
        domain: time(MILLISECOND, HOUR),
        set: |requested, value| requested.patch.filter_timeout = Some(value.duration()),
        get: |effective| reported_time(effective.settings.filter_timeout),
    },
    Property {
        name: "GiveUpAfter",
        places: EVERYWHERE,
        domain: time(0, WEEK),
        set: |requested, value| requested.patch.give_up_after = Some(value.duration()),
        get: |effective| reported_time(effective.settings.give_up_after),
    },
    Property {
        name: "DeliveryAttempts",
        places: OUTBOX,
        domain: long(0, ATTEMPTS_MAX),
        set: |requested, value| requested.patch.delivery_attempts = u32::try_from(value.integer()).ok(),
        get: |effective| {
            Some(PropertyValue::Long(i32::try_from(effective.settings.delivery_attempts).unwrap_or(i32::MAX)))
        },
    },
    Property {
        name: "HoldTimeout",
        places: OUTBOX,
        domain: time(0, WEEK),
        set: |requested, value| requested.patch.hold_timeout = Some(value.duration()),
        get: |effective| reported_time(effective.settings.max_blocked_time()),
    },
    Property {
        name: HOLD_GRANTED,
        places: OUTBOX,
        domain: Domain::Boolean,
        set: |requested, value| requested.patch.hold_granted = Some(value.boolean()),
        get: |effective| Some(PropertyValue::Boolean(effective.settings.hold_granted)),
    },
    Property {
        name: "BlockingPolicy",
        places: OUTBOX,
        domain: time(0, WEEK),
        set: |requested, value| requested.patch.blocking = Some(value.duration()),
        get: |effective| reported_time(effective.settings.blocking),
    },
    Property {
        name: "ProbeInterval",
        places: EVERYWHERE,
        domain: time(0, WEEK),
        set: |requested, value| requested.patch.probe_interval = Some(value.duration()),
        get: |effective| reported_time(effective.settings.probe_interval),
    },
    Property {
        name: "SupplierLinger",
        places: SUPPLIERS,
        domain: time(0, YEAR),
        set: |requested, value| requested.patch.supplier_linger = Some(value.duration()),
        get: |effective| reported_time(effective.supplier.supplier_linger),
    },
];

/// The administrative properties of a channel (`CosNotification`, OMG Notification Service 1.1), of which 0 stands for no
/// limit; then this service's own.
pub(crate) static ADMIN: &[Property] = &[
    Property {
        name: "MaxQueueLength",
        places: CHANNEL,
        domain: maximum(),
        set: |requested, value| requested.limits.max_queue_length = value.maximum(),
        get: |effective| reported_maximum(effective.limits.max_queue_length),
    },
    Property {
        name: "MaxConsumers",
        places: CHANNEL,
        domain: maximum(),
        set: |requested, value| requested.limits.max_consumers = value.maximum(),
        get: |effective| reported_maximum(effective.limits.max_consumers),
    },
    Property {
        name: "MaxSuppliers",
        places: CHANNEL,
        domain: maximum(),
        set: |requested, value| requested.limits.max_suppliers = value.maximum(),
        get: |effective| reported_maximum(effective.limits.max_suppliers),
    },
    Property {
        name: "RejectNewEvents",
        places: CHANNEL,
        domain: Domain::Boolean,
        set: |requested, value| requested.limits.reject_new_events = value.boolean(),
        get: |effective| Some(PropertyValue::Boolean(effective.limits.reject_new_events)),
    },
    Property {
        name: DEAD_LETTER_CHANNEL,
        places: CHANNEL,
        domain: long(-1, i32::MAX as i64),
        set: |requested, value| requested.limits.dead_letters = u32::try_from(value.integer()).ok().map(ChannelId),
        get: |effective| {
            let ChannelId(id) = effective.limits.dead_letters?;
            i32::try_from(id).ok().map(PropertyValue::Long)
        },
    },
    Property {
        name: CONSTRAINT_LENGTH,
        places: CHANNEL,
        domain: long(1, 1 << 20),
        set: |requested, value| requested.limits.constraint_bytes_max = value.count(),
        get: |effective| reported_count(effective.limits.constraint_bytes_max),
    },
    Property {
        name: "MaxConstraintNodes",
        places: CHANNEL,
        domain: long(1, 1 << 20),
        set: |requested, value| requested.limits.constraint_nodes_max = value.count(),
        get: |effective| reported_count(effective.limits.constraint_nodes_max),
    },
    Property {
        name: "MaxConstraintsPerFilter",
        places: CHANNEL,
        domain: long(1, 1 << 20),
        set: |requested, value| requested.limits.constraints_per_filter_max = value.count(),
        get: |effective| reported_count(effective.limits.constraints_per_filter_max),
    },
    Property {
        name: "MaxFiltersPerObject",
        places: CHANNEL,
        domain: long(1, 1 << 20),
        set: |requested, value| requested.limits.filters_per_object_max = value.count(),
        get: |effective| reported_count(effective.limits.filters_per_object_max),
    },
    Property {
        name: FILTER_STEPS,
        places: CHANNEL,
        // The configuration says how many of these are to be had.
        domain: long(1, 100_000_000),
        set: |requested, value| requested.limits.filter_steps_max = value.count(),
        get: |effective| reported_count(effective.limits.filter_steps_max),
    },
];
