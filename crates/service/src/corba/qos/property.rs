//! The properties: their names, types, ranges, and where each may be set.

use engine::{ChannelLimits, DiscardPolicy, FullOutbox, OutboxSettings, SettingsPatch};
use giop::cdr::Writer;
use giop::value::Value;
use std::num::NonZeroU32;
use std::time::Duration;

/// A property's value as this service sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::corba) enum PropertyValue {
    /// `boolean`
    Boolean(bool),
    /// `short`
    Short(i16),
    /// `unsigned short`
    UShort(u16),
    /// `long`
    Long(i32),
    /// `unsigned long long`, of which `TimeBase::TimeT` is another name
    ULongLong(u64),
    /// `string`
    Text(String),
}

impl PropertyValue {
    /// Writes an `any` with the value.
    pub(in crate::corba) fn write_any(&self, out: &mut Writer<'_>) {
        // The numbers are those of CORBA::TCKind (CORBA 3.3 part 2, 9.3.5.1).
        match self {
            Self::Boolean(value) => {
                out.u32(8);
                out.bool(*value);
            }
            Self::Short(value) => {
                out.u32(2);
                out.i16(*value);
            }
            Self::UShort(value) => {
                out.u32(4);
                out.u16(*value);
            }
            Self::Long(value) => {
                out.u32(3);
                out.i32(*value);
            }
            Self::ULongLong(value) => {
                out.u32(24);
                out.u64(*value);
            }
            Self::Text(value) => {
                out.u32(18);
                out.u32(0); // unbounded
                out.string(value);
            }
        }
    }
}

/// Writes an `any` without a value: the ends of a range where there is none to tell.
pub(super) fn write_null(out: &mut Writer<'_>) {
    out.u32(0);
}

/// `CosNotification::QoSError_code`, as numbered there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::corba) enum ErrorCode {
    /// A property of the standard's that is not here yet.
    UnsupportedProperty = 0,
    /// A property that can be set, but not on this kind of object.
    UnavailableProperty = 1,
    /// A value of the standard's that is not here yet.
    UnsupportedValue = 2,
    /// A name that nobody knows.
    BadProperty = 4,
    /// A value of the wrong type.
    BadType = 5,
    /// A value of the right type that makes no sense.
    BadValue = 6,
}

/// What kind of object properties are asked of or set on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::corba) enum Place {
    /// An event channel.
    Channel,
    /// A consumer admin or proxy supplier.
    Consumers,
    /// A supplier admin or proxy consumer.
    Suppliers,
    /// A single event.
    Event,
}

/// One property.
pub(in crate::corba) struct Property {
    /// Its name on the wire.
    pub(in crate::corba) name: &'static str,
    /// Where it can be set.
    pub(in crate::corba) places: &'static [Place],
    /// Which values it takes.
    domain: Domain,
    /// Puts a value that the domain accepted where the engine finds it.
    set: fn(&mut Wanted, Accepted),
    /// The value in effect; `None` where nothing is set and the default is no value of the property.
    get: fn(&Effective) -> Option<PropertyValue>,
}

/// What a set of properties asks for.
#[derive(Clone, Copy, Debug)]
pub(in crate::corba) struct Wanted {
    /// The level's own settings.
    pub(in crate::corba) patch: SettingsPatch,
    /// The channel's limits; at other levels nothing changes them.
    pub(in crate::corba) limits: ChannelLimits,
}

/// What is in effect at a level.
#[derive(Clone, Copy, Debug)]
pub(in crate::corba) struct Effective {
    /// Own, inherited or default.
    pub(in crate::corba) settings: OutboxSettings,
    /// The channel's.
    pub(in crate::corba) limits: ChannelLimits,
}

/// The values that a property takes.
enum Domain {
    Integer {
        /// The type in which it is sent. A value of another integer type is taken too, if it fits.
        wire: Wire,
        /// Lowest and highest value that are supported; told as the available range.
        supported: (i64, i64),
        /// A further value that is supported, outside that range.
        also: Option<i64>,
        /// Lowest and highest value that the property's definition knows.
        legal: (i64, i64),
    },
    Boolean {
        /// Whether TRUE is supported. FALSE always is.
        supports_true: bool,
    },
    /// A string out of these.
    Choice(&'static [&'static str]),
}

#[derive(Clone, Copy)]
enum Wire {
    Short,
    UShort,
    Long,
    ULongLong,
}

impl Wire {
    /// The value in this type; the domains keep it within the type's range.
    fn value(self, number: i64) -> PropertyValue {
        match self {
            Self::Short => PropertyValue::Short(i16::try_from(number).unwrap_or(i16::MAX)),
            Self::UShort => PropertyValue::UShort(u16::try_from(number).unwrap_or(u16::MAX)),
            Self::Long => PropertyValue::Long(i32::try_from(number).unwrap_or(i32::MAX)),
            Self::ULongLong => PropertyValue::ULongLong(u64::try_from(number).unwrap_or(0)),
        }
    }
}

/// A value that its property's domain contains.
#[derive(Clone, Copy, Debug)]
enum Accepted {
    Integer(i64),
    Boolean(bool),
    /// Index among the choices.
    Choice(usize),
}

impl Accepted {
    fn integer(self) -> i64 {
        match self {
            Self::Integer(value) => value,
            Self::Boolean(value) => i64::from(value),
            Self::Choice(index) => i64::try_from(index).unwrap_or(i64::MAX),
        }
    }

    fn boolean(self) -> bool {
        self.integer() != 0
    }

    /// A maximum, where 0 stands for none.
    fn maximum(self) -> Option<NonZeroU32> {
        u32::try_from(self.integer()).ok().and_then(NonZeroU32::new)
    }

    /// A time in the 100 ns units of `TimeBase::TimeT`.
    fn duration(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.integer()).unwrap_or(0).saturating_mul(100))
    }
}

impl Property {
    /// The range that is told as available.
    pub(in crate::corba) fn range(&self) -> (PropertyValue, PropertyValue) {
        match &self.domain {
            Domain::Integer { wire, supported: (low, high), .. } => (wire.value(*low), wire.value(*high)),
            Domain::Boolean { supports_true } => {
                (PropertyValue::Boolean(false), PropertyValue::Boolean(*supports_true))
            }
            // Strings have no order that would make a range; both ends name all the choices.
            Domain::Choice(names) => (PropertyValue::Text(names.join("|")), PropertyValue::Text(names.join("|"))),
        }
    }

    /// Whether it can be set on this kind of object.
    pub(in crate::corba) fn is_available(&self, place: Place) -> bool {
        self.places.contains(&place)
    }

    /// Puts a value into what is wanted, or says what is wrong with it.
    pub(in crate::corba) fn set(&self, wanted: &mut Wanted, value: &Value) -> Result<(), ErrorCode> {
        (self.set)(wanted, self.domain.accept(value)?);
        Ok(())
    }

    /// The value in effect, if there is one.
    pub(in crate::corba) fn get(&self, effective: &Effective) -> Option<PropertyValue> {
        (self.get)(effective)
    }
}

impl Domain {
    fn accept(&self, value: &Value) -> Result<Accepted, ErrorCode> {
        match self {
            Self::Integer { supported: (low, high), also, legal: (least, most), .. } => {
                let number = integer(value).ok_or(ErrorCode::BadType)?;
                if (*low..=*high).contains(&number) || *also == Some(number) {
                    Ok(Accepted::Integer(number))
                } else if (*least..=*most).contains(&number) {
                    Err(ErrorCode::UnsupportedValue)
                } else {
                    Err(ErrorCode::BadValue)
                }
            }
            Self::Boolean { supports_true } => match value {
                Value::Bool(true) if !supports_true => Err(ErrorCode::UnsupportedValue),
                Value::Bool(value) => Ok(Accepted::Boolean(*value)),
                _ => Err(ErrorCode::BadType),
            },
            Self::Choice(names) => match value {
                Value::String(text) => {
                    names.iter().position(|name| name == text).map(Accepted::Choice).ok_or(ErrorCode::BadValue)
                }
                _ => Err(ErrorCode::BadType),
            },
        }
    }
}

/// An integer of any width: clients in languages without CORBA's widths send whichever they have.
fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Octet(value) => Some(i64::from(*value)),
        Value::Short(value) => Some(i64::from(*value)),
        Value::UShort(value) => Some(i64::from(*value)),
        Value::Long(value) => Some(i64::from(*value)),
        Value::ULong(value) => Some(i64::from(*value)),
        Value::LongLong(value) => Some(*value),
        // No property takes anything near the values that are cut here.
        Value::ULongLong(value) => Some(i64::try_from(*value).unwrap_or(i64::MAX)),
        _ => None,
    }
}

const EVERYWHERE: &[Place] = &[Place::Channel, Place::Consumers, Place::Suppliers];
const EVERYWHERE_AND_EVENT: &[Place] = &[Place::Channel, Place::Consumers, Place::Suppliers, Place::Event];
/// What an outbox does is a consumer's, or all consumers' of an admin or channel.
const OUTBOX: &[Place] = &[Place::Channel, Place::Consumers];
const CHANNEL: &[Place] = &[Place::Channel];

const BEST_EFFORT: i64 = 0;
const PERSISTENT: i64 = 1;
const ANY_ORDER: i64 = 0;
const FIFO_ORDER: i64 = 1;
const PRIORITY_ORDER: i64 = 2;
const DEADLINE_ORDER: i64 = 3;
const LIFO_ORDER: i64 = 4;

const MILLISECOND: i64 = 10_000;
const HOUR: i64 = 3_600_000 * MILLISECOND;
const WEEK: i64 = 7 * 24 * HOUR;

/// `FullOutbox`, in the order of its choices.
const FULL_OUTBOX: &[(&str, FullOutbox)] = &[
    ("Hold", FullOutbox::Hold),
    ("Discard", FullOutbox::Discard),
    ("Reject", FullOutbox::Reject),
    ("Disconnect", FullOutbox::Disconnect),
];
const FULL_OUTBOX_NAMES: &[&str] = &["Hold", "Discard", "Reject", "Disconnect"];

const fn reliability() -> Domain {
    Domain::Integer {
        wire: Wire::Short,
        supported: (BEST_EFFORT, BEST_EFFORT),
        also: None,
        legal: (BEST_EFFORT, PERSISTENT),
    }
}

const fn maximum() -> Domain {
    let range = (0, i32::MAX as i64);
    Domain::Integer { wire: Wire::Long, supported: range, also: None, legal: range }
}

const fn time(low: i64, high: i64) -> Domain {
    Domain::Integer { wire: Wire::ULongLong, supported: (low, high), also: None, legal: (low, high) }
}

fn told_maximum(maximum: Option<NonZeroU32>) -> Option<PropertyValue> {
    Some(PropertyValue::Long(maximum.map_or(0, |maximum| i32::try_from(maximum.get()).unwrap_or(i32::MAX))))
}

fn told_time(duration: Duration) -> Option<PropertyValue> {
    Some(PropertyValue::ULongLong(u64::try_from(duration.as_nanos() / 100).unwrap_or(u64::MAX)))
}

fn told_best_effort(_: &Effective) -> Option<PropertyValue> {
    Wire::Short.value(BEST_EFFORT).into()
}

fn told_false(_: &Effective) -> Option<PropertyValue> {
    PropertyValue::Boolean(false).into()
}

/// For a property of which only what happens anyway can be asked for.
fn nothing_to_do(_: &mut Wanted, _: Accepted) {}

/// Properties of the standard's that are not here yet: `UNSUPPORTED_PROPERTY`.
pub(in crate::corba) const NOT_YET: &[&str] =
    &["Priority", "StartTime", "StopTime", "Timeout", "MaximumBatchSize", "PacingInterval"];

/// The QoS properties (`CosNotification`, OMG Notification Service 1.1), then this service's own.
pub(in crate::corba) static QOS: &[Property] = &[
    Property {
        name: "EventReliability",
        places: EVERYWHERE_AND_EVENT,
        domain: reliability(),
        set: nothing_to_do,
        get: told_best_effort,
    },
    Property {
        name: "ConnectionReliability",
        places: EVERYWHERE,
        domain: reliability(),
        set: nothing_to_do,
        get: told_best_effort,
    },
    Property {
        // Events leave in the order in which they came whichever of the two is asked for.
        name: "OrderPolicy",
        places: EVERYWHERE,
        domain: Domain::Integer {
            wire: Wire::Short,
            supported: (ANY_ORDER, FIFO_ORDER),
            also: None,
            legal: (ANY_ORDER, DEADLINE_ORDER),
        },
        set: nothing_to_do,
        get: |_| Wire::Short.value(FIFO_ORDER).into(),
    },
    Property {
        name: "DiscardPolicy",
        places: EVERYWHERE,
        domain: Domain::Integer {
            wire: Wire::Short,
            supported: (ANY_ORDER, FIFO_ORDER),
            also: Some(LIFO_ORDER),
            legal: (ANY_ORDER, LIFO_ORDER),
        },
        set: |wanted, value| {
            wanted.patch.discard_policy = Some(match value.integer() {
                FIFO_ORDER => DiscardPolicy::Fifo,
                LIFO_ORDER => DiscardPolicy::Lifo,
                _ => DiscardPolicy::Any,
            });
        },
        get: |effective| {
            Some(Wire::Short.value(match effective.settings.discard_policy {
                DiscardPolicy::Any => ANY_ORDER,
                DiscardPolicy::Fifo => FIFO_ORDER,
                DiscardPolicy::Lifo => LIFO_ORDER,
                DiscardPolicy::Priority => PRIORITY_ORDER,
                DiscardPolicy::Deadline => DEADLINE_ORDER,
            }))
        },
    },
    Property {
        name: "StartTimeSupported",
        places: EVERYWHERE,
        domain: Domain::Boolean { supports_true: false },
        set: nothing_to_do,
        get: told_false,
    },
    Property {
        name: "StopTimeSupported",
        places: EVERYWHERE,
        domain: Domain::Boolean { supports_true: false },
        set: nothing_to_do,
        get: told_false,
    },
    Property {
        name: "MaxEventsPerConsumer",
        places: OUTBOX,
        domain: maximum(),
        set: |wanted, value| wanted.patch.max_events_per_consumer = Some(value.maximum()),
        get: |effective| told_maximum(effective.settings.max_events_per_consumer),
    },
    Property {
        name: "FullOutbox",
        places: OUTBOX,
        domain: Domain::Choice(FULL_OUTBOX_NAMES),
        set: |wanted, value| {
            if let Accepted::Choice(index) = value {
                wanted.patch.full_outbox = FULL_OUTBOX.get(index).map(|(_, choice)| *choice);
            }
        },
        get: |effective| {
            let set = effective.settings.full_outbox?;
            FULL_OUTBOX.iter().find(|(_, choice)| *choice == set).map(|(name, _)| PropertyValue::Text((*name).into()))
        },
    },
    Property {
        name: "PushWindow",
        places: OUTBOX,
        domain: Domain::Integer {
            wire: Wire::UShort,
            supported: (1, OutboxSettings::PUSH_WINDOW_MAX as i64),
            also: None,
            legal: (1, OutboxSettings::PUSH_WINDOW_MAX as i64),
        },
        set: |wanted, value| wanted.patch.push_window = u16::try_from(value.integer()).ok(),
        get: |effective| Some(PropertyValue::UShort(effective.settings.push_window)),
    },
    Property {
        name: "PushOneWay",
        places: OUTBOX,
        domain: Domain::Boolean { supports_true: true },
        set: |wanted, value| wanted.patch.one_way = Some(value.boolean()),
        get: |effective| Some(PropertyValue::Boolean(effective.settings.one_way)),
    },
    Property {
        name: "MemoryBudget",
        places: CHANNEL,
        domain: Domain::Integer {
            wire: Wire::ULongLong,
            supported: (64 << 10, 1 << 40),
            also: None,
            legal: (64 << 10, 1 << 40),
        },
        set: |wanted, value| {
            if let Ok(bytes) = u64::try_from(value.integer()) {
                wanted.limits.memory_budget_bytes = bytes;
            }
        },
        get: |effective| Some(PropertyValue::ULongLong(effective.limits.memory_budget_bytes)),
    },
    Property {
        name: "ReplyTimeout",
        places: OUTBOX,
        domain: time(0, HOUR),
        set: |wanted, value| wanted.patch.reply_timeout = Some(value.duration()),
        get: |effective| told_time(effective.settings.reply_timeout),
    },
    Property {
        name: "ConnectTimeout",
        places: OUTBOX,
        domain: time(MILLISECOND, HOUR),
        set: |wanted, value| wanted.patch.connect_timeout = Some(value.duration()),
        get: |effective| told_time(effective.settings.connect_timeout),
    },
    Property {
        name: "GiveUpAfter",
        places: OUTBOX,
        domain: time(0, WEEK),
        set: |wanted, value| wanted.patch.give_up_after = Some(value.duration()),
        get: |effective| told_time(effective.settings.give_up_after),
    },
];

/// The administrative properties of a channel (`CosNotification`, OMG Notification Service 1.1). 0 stands for no limit.
pub(in crate::corba) static ADMIN: &[Property] = &[
    Property {
        name: "MaxQueueLength",
        places: CHANNEL,
        domain: maximum(),
        set: |wanted, value| wanted.limits.max_queue_length = value.maximum(),
        get: |effective| told_maximum(effective.limits.max_queue_length),
    },
    Property {
        name: "MaxConsumers",
        places: CHANNEL,
        domain: maximum(),
        set: |wanted, value| wanted.limits.max_consumers = value.maximum(),
        get: |effective| told_maximum(effective.limits.max_consumers),
    },
    Property {
        name: "MaxSuppliers",
        places: CHANNEL,
        domain: maximum(),
        set: |wanted, value| wanted.limits.max_suppliers = value.maximum(),
        get: |effective| told_maximum(effective.limits.max_suppliers),
    },
    Property {
        name: "RejectNewEvents",
        places: CHANNEL,
        domain: Domain::Boolean { supports_true: true },
        set: |wanted, value| wanted.limits.reject_new_events = value.boolean(),
        get: |effective| Some(PropertyValue::Boolean(effective.limits.reject_new_events)),
    },
];
