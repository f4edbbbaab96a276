//! The table of properties: those that levels inherit, from the [engine's table](engine::properties); those of channels alone, of events
//! and of pools, each with its levels, values, and effect.

use super::pools::{Pool, PoolKind};
use super::property::{
    Accepted, CONSTRAINT_LENGTH, DEAD_LETTER_CHANNEL, Domain, Effective, FILTER_STEPS, HISTORY_AGE, HISTORY_BYTES,
    HISTORY_EVENTS, OVERFLOW_BUDGET, OVERFLOW_MAX, Place, Property, PropertyValue, RequestedProperties, WHEN, Wire,
};
use super::real_time::Profile;
use super::start_from;
use super::topics;
use engine::{
    AcknowledgeAfter, ChannelId, DiscardPolicy, FullOutbox, OrderPolicy, OutboxSettings, Reliability, StartFrom,
    TopicSettings,
};
use std::num::NonZeroU32;
use std::sync::LazyLock;
use std::time::Duration;

const EVERYWHERE: &[Place] = &[Place::Channel, Place::Consumers, Place::Suppliers];
const EVERYWHERE_AND_EVENT: &[Place] = &[Place::Channel, Place::Consumers, Place::Suppliers, Place::Event];
/// Levels of outbox properties: a consumer, or all consumers of an admin or channel.
const OUTBOX: &[Place] = &[Place::Channel, Place::Consumers];
const CONSUMERS: &[Place] = &[Place::Consumers];
const SUPPLIERS: &[Place] = &[Place::Channel, Place::Suppliers];
const CHANNEL: &[Place] = &[Place::Channel];
const EVENT: &[Place] = &[Place::Event];

/// `CosNotification::HighestPriority`; the lowest is its negative.
const HIGHEST_PRIORITY: i64 = 32_767;
const MAXIMUM: i64 = i32::MAX as i64;

const MILLISECOND: i64 = 10_000;
const HOUR: i64 = 3_600_000 * MILLISECOND;
const WEEK: i64 = 7 * 24 * HOUR;
const YEAR: i64 = 365 * 24 * HOUR;
/// The longest `Timeout`; longer ones can be given as 0, which is for ever.
const CENTURY: i64 = 36_525 * 24 * HOUR;

const HOLD_TIMEOUT: &str = "HoldTimeout";
/// Properties without an upper limit in the standard: values beyond the range are unsupported here.
const OPEN: [&str; 3] = ["Timeout", "MaximumBatchSize", "PacingInterval"];

/// A type of settings as clients see it.
trait Setting: Sized {
    const DOMAIN: Domain;

    /// The setting that a value stands for, if the domain accepted it.
    fn accepted(value: &Accepted) -> Option<Self>;
    fn reported(self) -> PropertyValue;
}

macro_rules! settings {
    ($($type:ty: $domain:expr, $accepted:expr, $reported:expr;)*) => {$(
        impl Setting for $type {
            const DOMAIN: Domain = $domain;

            fn accepted(value: &Accepted) -> Option<Self> {
                let accepted: fn(&Accepted) -> Option<Self> = $accepted;
                accepted(value)
            }

            fn reported(self) -> PropertyValue {
                let reported: fn(Self) -> PropertyValue = $reported;
                reported(self)
            }
        }
    )*};
}

settings! {
    bool: Domain::Boolean, |value| Some(value.boolean()), PropertyValue::Boolean;
    i16: integer(Wire::Short, 0, 0), |value| i16::try_from(value.integer()).ok(), PropertyValue::Short;
    u16: integer(Wire::UShort, 0, 0), |value| u16::try_from(value.integer()).ok(), PropertyValue::UShort;
    u32: integer(Wire::Long, 0, 0), |value| u32::try_from(value.integer()).ok(), reported_count;
    NonZeroU32: integer(Wire::Long, 0, 0), Accepted::maximum, |count| reported_count(count.get());
    Option<NonZeroU32>: integer(Wire::Long, 0, 0), |value| Some(value.maximum()), reported_maximum;
    Duration: integer(Wire::ULongLong, 0, 0), |value| Some(value.duration()), reported_time;
    Option<Duration>: integer(Wire::ULongLong, 0, 0),
        |value| Some(Some(value.duration()).filter(|time| !time.is_zero())),
        |time| reported_time(time.unwrap_or_default());
    StartFrom: Domain::Start,
        |value| if let Accepted::Start(start) = value { Some(*start) } else { None },
        |start| PropertyValue::Text(start_from::reported(start));
}

macro_rules! choices {
    ($($type:ident: $domain:path, $($choice:ident),+;)+) => {$(
        impl Setting for $type {
            const DOMAIN: Domain = $domain(&[$(stringify!($choice)),+]);

            fn accepted(value: &Accepted) -> Option<Self> {
                let at = usize::try_from(value.integer()).ok()?;
                [$(Self::$choice),+].get(at).copied()
            }

            fn reported(self) -> PropertyValue {
                let at = [$(Self::$choice),+].iter().position(|choice| *choice == self).unwrap_or_default();
                Self::DOMAIN.choice(at)
            }
        }
    )+};
}

// By name, or by the number of the place in the list.
choices! {
    Reliability: numbered, BestEffort, Persistent;
    OrderPolicy: numbered_order, Any, Fifo, Priority, Deadline;
    DiscardPolicy: numbered_order, Any, Fifo, Priority, Deadline, Lifo;
    FullOutbox: Domain::Choice, Hold, Discard, Reject, Disconnect;
    AcknowledgeAfter: Domain::Choice, Accepted, Stored, Delivered;
}

const fn numbered(names: &'static [&'static str]) -> Domain {
    let range = (0, names.len() as i64 - 1);
    Domain::Integer { wire: Wire::Short, supported: range, legal: range, names: (names, "") }
}

const fn numbered_order(names: &'static [&'static str]) -> Domain {
    let range = (0, names.len() as i64 - 1);
    Domain::Integer { wire: Wire::Short, supported: range, legal: range, names: (names, "Order") }
}

const fn integer(wire: Wire, low: i64, high: i64) -> Domain {
    Domain::Integer { wire, supported: (low, high), legal: (low, high), names: (&[], "") }
}

const fn maximum() -> Domain {
    long(0, MAXIMUM)
}

const fn long(low: i64, high: i64) -> Domain {
    integer(Wire::Long, low, high)
}

impl Domain {
    /// The value of the choice at this place.
    fn choice(&self, at: usize) -> PropertyValue {
        match self {
            Self::Choice(names) => PropertyValue::Text(names.get(at).copied().unwrap_or_default().to_owned()),
            _ => Wire::Short.value(i64::try_from(at).unwrap_or_default()),
        }
    }

    /// A domain with the property's own range.
    fn within(self, name: &str, low: i64, high: i64) -> Self {
        match self {
            Self::Integer { wire, names, .. } => {
                let most = if matches!(wire, Wire::Long) { MAXIMUM } else { i64::MAX };
                let legal = (low, if OPEN.contains(&name) { most } else { high });
                Self::Integer { wire, supported: (low, high), legal, names }
            }
            other => other,
        }
    }
}

fn reported_maximum(maximum: Option<NonZeroU32>) -> PropertyValue {
    reported_count(maximum.map_or(0, NonZeroU32::get))
}

fn reported_count(count: u32) -> PropertyValue {
    PropertyValue::Long(i32::try_from(count).unwrap_or(i32::MAX))
}

fn reported_time(duration: Duration) -> PropertyValue {
    PropertyValue::ULongLong(u64::try_from(duration.as_nanos() / 100).unwrap_or(u64::MAX))
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

/// For a property with only one possible value, the standard behaviour.
fn nothing_to_do(_: &mut RequestedProperties, _: Accepted) {}

macro_rules! inherited {
    ($({
        $(#[$doc:meta])* $side:ident $field:ident: [$type:ty $(=> $effective:ty)? = $default:expr] stored $stored:tt
        property [$($name:literal $number:literal $places:ident $(($low:expr, $high:expr))?)?] $($drawn:tt)*
    })*) => {
        vec![$($(($number, Property {
            name: $name,
            places: $places,
            domain: <$type>::DOMAIN$(.within($name, $low, $high))?,
            set: |requested, value| requested.patch.$field = Setting::accepted(&value),
            get: |effective| Option::<$type>::from(inherited!($side effective).$field).map(Setting::reported),
        }),)?)*]
    };
    (suppliers $effective:ident) => { $effective.supplier };
    ($side:ident $effective:ident) => { $effective.settings };
}

/// The QoS properties (`CosNotification`, OMG Notification Service 1.1, 2.5), then this service's own.
pub(crate) static QOS: LazyLock<Vec<Property>> = LazyLock::new(|| {
    let mut inherited: Vec<(usize, Property)> = engine::properties!(inherited);
    inherited.sort_by_key(|(number, _)| *number);
    let mut all: Vec<Property> = OTHERS.into();
    inherited.into_iter().for_each(|(number, property)| all.insert(number - 1, property));
    for property in all.iter_mut().filter(|property| property.name == HOLD_TIMEOUT) {
        property.get = |effective| Some(reported_time(effective.settings.max_blocked_time()));
    }
    all
});

/// Properties that levels do not inherit: they have the last numbers, in this order.
const OTHERS: [Property; 15] = [
    Property { name: "StartTime", places: EVENT, domain: Domain::Utc, set: nothing_to_do, get: not_reported },
    Property { name: "StopTime", places: EVENT, domain: Domain::Utc, set: nothing_to_do, get: not_reported },
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
        domain: integer(Wire::ULong, 1, TopicSettings::SHARE_MAX as i64),
        set: |requested, value| requested.topics.rest.share = value.count(),
        get: |effective| Some(PropertyValue::ULong(effective.topics.rest.share)),
    },
    Property {
        name: "Deadline",
        places: CHANNEL,
        // Further bounded by the share: `topics::validation_errors`.
        domain: integer(Wire::ULongLong, 0, 1_000 * MILLISECOND),
        set: |requested, value| requested.topics.rest.deadline = topics::deadline_of(value.duration()),
        get: |effective| Some(reported_time(effective.topics.rest.deadline.unwrap_or_default())),
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
        domain: integer(Wire::ULongLong, 0, OVERFLOW_MAX),
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
        domain: integer(Wire::ULongLong, 0, i64::MAX),
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
        domain: integer(Wire::ULongLong, 0, CENTURY),
        set: |requested, value| requested.limits.history.age = value.duration(),
        get: |effective| Some(reported_time(effective.limits.history.age)),
    },
    Property {
        name: HISTORY_BYTES,
        places: CHANNEL,
        domain: integer(Wire::ULongLong, 0, OVERFLOW_MAX),
        set: |requested, value| {
            if let Ok(bytes) = u64::try_from(value.integer()) {
                requested.limits.history.bytes = bytes;
            }
        },
        get: |effective| Some(PropertyValue::ULongLong(effective.limits.history.bytes)),
    },
    Property {
        name: WHEN,
        // Of these, proxies of sequences only: `protocol::validation_errors`.
        places: CONSUMERS,
        domain: Domain::Correlation,
        set: |requested, value| {
            if let Accepted::Correlation(correlation) = value {
                requested.correlation = correlation;
            }
        },
        get: |effective| Some(PropertyValue::Text(effective.correlation.as_ref()?.text().to_owned())),
    },
];

/// The administrative properties of a channel (`CosNotification`, OMG Notification Service 1.1), where 0 stands for no limit; then this
/// service's own.
pub(crate) static ADMIN: &[Property] = &[
    Property {
        name: "MaxQueueLength",
        places: CHANNEL,
        domain: maximum(),
        set: |requested, value| requested.limits.max_queue_length = value.maximum(),
        get: |effective| Some(reported_maximum(effective.limits.max_queue_length)),
    },
    Property {
        name: "MaxConsumers",
        places: CHANNEL,
        domain: maximum(),
        set: |requested, value| requested.limits.max_consumers = value.maximum(),
        get: |effective| Some(reported_maximum(effective.limits.max_consumers)),
    },
    Property {
        name: "MaxSuppliers",
        places: CHANNEL,
        domain: maximum(),
        set: |requested, value| requested.limits.max_suppliers = value.maximum(),
        get: |effective| Some(reported_maximum(effective.limits.max_suppliers)),
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
        get: |effective| Some(reported_count(effective.limits.constraint_bytes_max)),
    },
    Property {
        name: "MaxConstraintNodes",
        places: CHANNEL,
        domain: long(1, 1 << 20),
        set: |requested, value| requested.limits.constraint_nodes_max = value.count(),
        get: |effective| Some(reported_count(effective.limits.constraint_nodes_max)),
    },
    Property {
        name: "MaxConstraintsPerFilter",
        places: CHANNEL,
        domain: long(1, 1 << 20),
        set: |requested, value| requested.limits.constraints_per_filter_max = value.count(),
        get: |effective| Some(reported_count(effective.limits.constraints_per_filter_max)),
    },
    Property {
        name: "MaxFiltersPerObject",
        places: CHANNEL,
        domain: long(1, 1 << 20),
        set: |requested, value| requested.limits.filters_per_object_max = value.count(),
        get: |effective| Some(reported_count(effective.limits.filters_per_object_max)),
    },
    Property {
        name: FILTER_STEPS,
        places: CHANNEL,
        // The configuration says how many of these are to be had.
        domain: long(1, 100_000_000),
        set: |requested, value| requested.limits.filter_steps_max = value.count(),
        get: |effective| Some(reported_count(effective.limits.filter_steps_max)),
    },
];
