//! Properties: each has a name, valid values, and levels where it may be set. [`super::tables`] lists them.

use super::pools::{Pool, PoolKind};
use super::real_time::Profile;
use super::start_from::{self, START_FROM_RANGE};
use super::topics::{self, ByType};
use super::unknown::Unknown;
use crate::log_lines::log_line;
use engine::{ChannelLimits, Discipline, OutboxSettings, SettingsPatch, StartFrom, SupplierSettings, Topics};
use filter::correlation::{Correlation, CorrelationError, CorrelationLimits};
use giop::cdr::Writer;
use giop::typecode::{Kind, TypeCode};
use giop::value::{AnyValue, Value};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// A property's value as this service sends it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PropertyValue {
    /// `boolean`
    Boolean(bool),
    /// `short`
    Short(i16),
    /// `unsigned short`
    UShort(u16),
    /// `long`
    Long(i32),
    /// `unsigned long`
    ULong(u32),
    /// `unsigned long long`, with `TimeBase::TimeT` as another name
    ULongLong(u64),
    /// `TimeBase::UtcT`: its time, in 100 ns since 15 October 1582
    Utc(u64),
    /// `string`
    Text(String),
    /// A structure, or a sequence of structures, with its type.
    Structure(Box<AnyValue>),
}

impl PropertyValue {
    /// Writes an `any` with the value.
    pub(crate) fn write_any(&self, out: &mut Writer<'_>) {
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
            Self::ULong(value) => {
                out.u32(5);
                out.u32(*value);
            }
            Self::ULongLong(value) => {
                out.u32(24);
                out.u64(*value);
            }
            Self::Utc(time) => write_made(&utc(*time), out),
            Self::Text(value) => {
                out.u32(18);
                out.u32(0); // unbounded
                out.string(value);
            }
            Self::Structure(value) => write_made(value, out),
        }
    }
}

/// Writes a value whose type and content are made here.
fn write_made(value: &AnyValue, out: &mut Writer<'_>) {
    let start = out.position();
    if value.write(out).is_err() {
        out.truncate(start);
        write_null(out);
    }
}

/// A `TimeBase::UtcT` in Universal Time.
fn utc(time: u64) -> AnyValue {
    let time_type = TypeCode::alias("IDL:omg.org/TimeBase/TimeT:1.0", "TimeT", TypeCode::primitive(Kind::ULongLong));
    let zone_type = TypeCode::alias("IDL:omg.org/TimeBase/TdfT:1.0", "TdfT", TypeCode::primitive(Kind::Short));
    let members = [
        ("time", time_type),
        ("inacclo", TypeCode::primitive(Kind::ULong)),
        ("inacchi", TypeCode::primitive(Kind::UShort)),
        ("tdf", zone_type),
    ];
    let fields = [Value::ULongLong(time), Value::ULong(0), Value::UShort(0), Value::Short(0)];
    let names = members.iter().map(|(name, _)| (*name).to_owned());
    let value = Value::Struct { type_name: "UtcT".into(), fields: names.zip(fields).collect() };
    AnyValue::new(TypeCode::structure("IDL:omg.org/TimeBase/UtcT:1.0", "UtcT", &members), value)
}

/// Writes an `any` without a value: for the ends of an unknown range.
pub(crate) fn write_null(out: &mut Writer<'_>) {
    out.u32(0);
}

/// `CosNotification::QoSError_code`, as numbered there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorCode {
    /// A property that cannot be set on this kind of object, or beside the values of others.
    UnavailableProperty = 1,
    /// A value that the property's definition allows and this service does not support.
    UnsupportedValue = 2,
    /// A value that is not available now, because of other properties or existing objects.
    UnavailableValue = 3,
    /// An unknown name.
    BadProperty = 4,
    /// A value of the wrong type.
    BadType = 5,
    /// A value of the right type that makes no sense.
    BadValue = 6,
}

/// The kind of object with properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An event channel.
    Channel,
    /// A consumer admin or proxy supplier.
    Consumers,
    /// A supplier admin or proxy consumer.
    Suppliers,
    /// A single event.
    Event,
}

/// A property.
pub(crate) struct Property {
    /// The property's name on the wire.
    pub(crate) name: &'static str,
    /// Kinds of objects where it can be set.
    pub(crate) places: &'static [Place],
    /// The values it accepts.
    pub(super) domain: Domain,
    /// Sets an accepted value in the engine's settings.
    pub(super) set: fn(&mut RequestedProperties, Accepted),
    /// The value in effect; `None` if nothing is set and the default is no value of the property.
    pub(super) get: fn(&Effective) -> Option<PropertyValue>,
}

/// The steps that filtering one event may take.
pub(super) const FILTER_STEPS: &str = "FilterSteps";
/// The longest constraint.
pub(super) const CONSTRAINT_LENGTH: &str = "MaxConstraintLength";
pub(crate) const ACKNOWLEDGE_AFTER: &str = "AcknowledgeAfter";
/// Whether consumers may block suppliers for any time; a proxy cannot grant it to itself.
pub(crate) const HOLD_GRANTED: &str = "HoldGranted";
/// The channel for undeliverable events.
pub(crate) const DEAD_LETTER_CHANNEL: &str = "DeadLetterChannel";
pub(crate) const START_FROM: &str = "StartFrom";
/// The correlation of a consumer.
pub(crate) const WHEN: &str = "When";
/// Forms of its value, as listed in the available range.
pub(crate) const WHEN_RANGE: &str = "TYPE and TYPE or (TYPE and TYPE) within 50ms same FIELD keep 256";
/// The length of a channel's history, in events.
pub(super) const HISTORY_EVENTS: &str = "HistoryEvents";
pub(super) const HISTORY_AGE: &str = "HistoryAge";
pub(super) const HISTORY_BYTES: &str = "HistoryBytes";
pub(super) const OVERFLOW_BUDGET: &str = "OverflowBudget";
/// Maximum bytes of a channel on disk, if there is a store.
pub(super) const OVERFLOW_MAX: i64 = 16 << 40;
/// Whether events outlive the process.
pub(crate) const EVENT_RELIABILITY: &str = "EventReliability";
pub(crate) const CONNECTION_RELIABILITY: &str = "ConnectionReliability";

/// The service's limits for properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Most {
    /// Maximum number of threads of all pools together.
    pub(crate) threads: u32,
    /// Maximum steps of filtering one event.
    pub(crate) filter_steps: u32,
    /// Octets of one constraint.
    pub(crate) constraint_bytes: u32,
    /// Maximum bytes of all channels' events together.
    pub(crate) memory_bytes: u64,
    /// Whether anything outlives the process.
    pub(crate) has_store: bool,
}

/// The requested properties.
#[derive(Clone, Debug)]
pub(crate) struct RequestedProperties {
    /// Whether unknown properties are stored, without effect.
    pub(crate) takes_unknown: bool,
    /// Whether properties that need a store count as unknown without one.
    pub(crate) takes_persistent: bool,
    /// Unknown properties of the level itself.
    pub(crate) unknown: Unknown,
    /// The service's limits: not requested, but they bound the available ranges.
    pub(crate) most: Most,
    /// The level's own settings.
    pub(crate) patch: SettingsPatch,
    /// The channel's limits; at other levels nothing changes them.
    pub(crate) limits: ChannelLimits,
    /// The correlation of a consumer; no other level has one.
    pub(crate) correlation: Option<Arc<Correlation>>,
    /// The level's own pool of threads.
    pub(crate) pool: Option<Pool>,
    /// Discipline of the lanes of that pool, if it changes.
    pub(crate) discipline: Option<Discipline>,
    /// The channel's profile; at other levels nothing changes it.
    pub(crate) profile: Profile,
    /// Topics of the channel's events; unchanged at other levels.
    pub(crate) topics: Topics,
}

/// The properties in effect at a level.
#[derive(Clone, Debug)]
pub(crate) struct Effective {
    /// The outbox settings: own, inherited or default.
    pub(crate) settings: OutboxSettings,
    /// The supplier settings: own, inherited or default.
    pub(crate) supplier: SupplierSettings,
    /// The channel's.
    pub(crate) limits: ChannelLimits,
    /// The correlation of a consumer.
    pub(crate) correlation: Option<Arc<Correlation>>,
    /// The pool: own or inherited.
    pub(crate) pool: Option<Pool>,
    /// The channel's.
    pub(crate) profile: Profile,
    /// The channel's.
    pub(crate) topics: Topics,
}

/// The values that a property takes.
pub(super) enum Domain {
    Integer {
        /// The type on the wire. A value of another integer type is accepted, too, if it fits.
        wire: Wire,
        /// Lowest and highest supported value; reported as the available range.
        supported: (i64, i64),
        /// Lowest and highest value in the property's definition.
        legal: (i64, i64),
        /// The standard's names of the values from 0, and their common suffix; empty for most.
        names: (&'static [&'static str], &'static str),
    },
    Boolean,
    /// A `TimeBase::UtcT`.
    Utc,
    /// A string out of these.
    Choice(&'static [&'static str]),
    /// A position in a channel's history: as text, or an event's number.
    Start,
    /// A correlation's text; empty for none.
    Correlation,
    /// A pool of threads.
    Pool(PoolKind),
    /// A `Campanile::TopicSeq`.
    Topics,
    /// Bytes of memory, up to the service's limit.
    Memory {
        /// The least that makes sense.
        low: u64,
        /// The most that any service has.
        high: u64,
    },
}

#[derive(Clone, Copy)]
pub(super) enum Wire {
    Short,
    UShort,
    Long,
    ULong,
    ULongLong,
}

impl Wire {
    /// The value in this type; the domains keep it within the type's range.
    pub(super) fn value(self, number: i64) -> PropertyValue {
        match self {
            Self::Short => PropertyValue::Short(i16::try_from(number).unwrap_or(i16::MAX)),
            Self::UShort => PropertyValue::UShort(u16::try_from(number).unwrap_or(u16::MAX)),
            Self::Long => PropertyValue::Long(i32::try_from(number).unwrap_or(i32::MAX)),
            Self::ULong => PropertyValue::ULong(u32::try_from(number).unwrap_or(u32::MAX)),
            Self::ULongLong => PropertyValue::ULongLong(u64::try_from(number).unwrap_or(0)),
        }
    }
}

/// A value that its property's domain contains.
#[derive(Clone, Debug)]
pub(super) enum Accepted {
    Integer(i64),
    Boolean(bool),
    /// A time, which only events have and nothing is set to.
    Utc,
    /// Index among the choices.
    Choice(usize),
    Start(StartFrom),
    Correlation(Option<Arc<Correlation>>),
    Pool(Pool),
    Topics(ByType),
}

impl Accepted {
    pub(super) fn integer(&self) -> i64 {
        match self {
            Self::Integer(value) => *value,
            Self::Boolean(value) => i64::from(*value),
            Self::Utc | Self::Start(_) | Self::Correlation(_) | Self::Pool(_) | Self::Topics(_) => 0,
            Self::Choice(index) => i64::try_from(*index).unwrap_or(i64::MAX),
        }
    }

    pub(super) fn boolean(&self) -> bool {
        self.integer() != 0
    }

    /// A maximum, where 0 stands for none.
    pub(super) fn maximum(&self) -> Option<NonZeroU32> {
        u32::try_from(self.integer()).ok().and_then(NonZeroU32::new)
    }

    /// A number between 1 and the maximum of `unsigned long`, as the domain ensures.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.integer()).unwrap_or(u32::MAX)
    }

    /// A time in the 100 ns units of `TimeBase::TimeT`.
    pub(super) fn duration(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.integer()).unwrap_or(0).saturating_mul(100))
    }
}

impl Property {
    /// The range reported as available, given the service's limits.
    pub(crate) fn range(&self, most: Most) -> (PropertyValue, PropertyValue) {
        match &self.domain {
            Domain::Integer { wire, supported: (low, high), .. } => {
                let most = self.most(most).and_then(|most| i64::try_from(most).ok());
                (wire.value(*low), wire.value(most.map_or(*high, |most| most.clamp(*low, *high))))
            }
            Domain::Boolean => (PropertyValue::Boolean(false), PropertyValue::Boolean(true)),
            Domain::Utc => (PropertyValue::Utc(0), PropertyValue::Utc(u64::MAX)),
            // Strings have no order that would make a range; both ends name all the choices.
            Domain::Choice(names) => (PropertyValue::Text(names.join("|")), PropertyValue::Text(names.join("|"))),
            Domain::Start => {
                (PropertyValue::Text(START_FROM_RANGE.into()), PropertyValue::Text(START_FROM_RANGE.into()))
            }
            Domain::Correlation => (PropertyValue::Text(WHEN_RANGE.into()), PropertyValue::Text(WHEN_RANGE.into())),
            Domain::Pool(kind) => Pool::range(*kind, most.threads),
            Domain::Memory { low, high } => {
                (PropertyValue::ULongLong(*low), PropertyValue::ULongLong(most.memory_bytes.clamp(*low, *high)))
            }
            Domain::Topics => topics::range(),
        }
    }

    /// The service's limit, if the configuration sets one.
    fn most(&self, most: Most) -> Option<u64> {
        match self.domain {
            Domain::Memory { .. } => Some(most.memory_bytes),
            _ if self.name == OVERFLOW_BUDGET && most.has_store => Some(OVERFLOW_MAX.unsigned_abs()),
            _ if self.name == OVERFLOW_BUDGET => Some(0),
            _ if [HISTORY_EVENTS, HISTORY_AGE, HISTORY_BYTES].contains(&self.name) && !most.has_store => Some(0),
            _ if self.name == FILTER_STEPS => Some(most.filter_steps.into()),
            _ if self.name == CONSTRAINT_LENGTH => Some(most.constraint_bytes.into()),
            _ if is_reliability(self.name) => Some(most.has_store.into()),
            _ => None,
        }
    }

    /// Whether a value of it is `Persistent`, and there is no store.
    pub(crate) fn lacks_store(&self, value: &Value, most: Most) -> bool {
        is_reliability(self.name) && !most.has_store && matches!(value, Value::Short(1))
    }

    /// Whether it can be set on this kind of object.
    pub(crate) fn is_available(&self, place: Place) -> bool {
        self.places.contains(&place)
    }

    /// Adds a value to the requested properties, or returns its error.
    pub(crate) fn set(&self, requested: &mut RequestedProperties, value: &Value) -> Result<(), ErrorCode> {
        let accepted = self.domain.accept(value)?;
        let number = u64::try_from(accepted.integer()).ok();
        if self.most(requested.most).is_some_and(|most| number > Some(most)) {
            return Err(ErrorCode::UnsupportedValue);
        }
        (self.set)(requested, accepted);
        Ok(())
    }

    /// The value in effect, if there is one.
    pub(crate) fn get(&self, effective: &Effective) -> Option<PropertyValue> {
        (self.get)(effective)
    }
}

impl Domain {
    fn accept(&self, value: &Value) -> Result<Accepted, ErrorCode> {
        match self {
            Self::Integer { supported: (low, high), legal: (least, most), .. } => {
                let number = integer(value).ok_or(ErrorCode::BadType)?;
                if (*low..=*high).contains(&number) {
                    Ok(Accepted::Integer(number))
                } else if (*least..=*most).contains(&number) {
                    Err(ErrorCode::UnsupportedValue)
                } else {
                    Err(ErrorCode::BadValue)
                }
            }
            Self::Memory { low, high } => {
                let number = integer(value).ok_or(ErrorCode::BadType)?;
                let is_within = u64::try_from(number).is_ok_and(|bytes| (*low..=*high).contains(&bytes));
                if is_within { Ok(Accepted::Integer(number)) } else { Err(ErrorCode::BadValue) }
            }
            Self::Boolean => match value {
                Value::Bool(value) => Ok(Accepted::Boolean(*value)),
                _ => Err(ErrorCode::BadType),
            },
            Self::Utc => {
                if is_utc(value) {
                    Ok(Accepted::Utc)
                } else {
                    Err(ErrorCode::BadType)
                }
            }
            Self::Choice(names) => match value {
                Value::String(text) => {
                    names.iter().position(|name| name == text).map(Accepted::Choice).ok_or(ErrorCode::BadValue)
                }
                _ => Err(ErrorCode::BadType),
            },
            Self::Start => match value {
                Value::String(text) => start_from::parse(text).map(Accepted::Start).ok_or(ErrorCode::BadValue),
                number => {
                    let number = integer(number).ok_or(ErrorCode::BadType)?;
                    let number = u64::try_from(number).map_err(|_| ErrorCode::BadValue)?;
                    Ok(Accepted::Start(StartFrom::Number(number)))
                }
            },
            Self::Correlation => match value {
                Value::String(text) => correlation(text).map(Accepted::Correlation).map_err(|error| {
                    log_line!(Info, "refused {WHEN}: {error}");
                    ErrorCode::BadValue
                }),
                _ => Err(ErrorCode::BadType),
            },
            Self::Pool(kind) => Pool::accept(*kind, value).map(Accepted::Pool),
            Self::Topics => topics::accept(value).map(Accepted::Topics),
        }
    }
}

/// Whether this property has the value `Persistent`, which needs a store.
pub(super) fn is_reliability(name: &str) -> bool {
    [EVENT_RELIABILITY, CONNECTION_RELIABILITY].contains(&name)
}

/// Reads an integer of any width: clients in languages without CORBA's widths send any of them.
pub(crate) fn integer(value: &Value) -> Option<i64> {
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

/// Whether a value has the members of a `TimeBase::UtcT`.
fn is_utc(value: &Value) -> bool {
    let Value::Struct { fields, .. } = value else { return false };
    let members: Vec<&Value> = fields.iter().map(|(_, member)| member).collect();
    matches!(members.as_slice(), [Value::ULongLong(_), Value::ULong(_), Value::UShort(_), Value::Short(_)])
}

/// The correlation that a text says; none if it is empty.
///
/// # Errors
/// The mistake in the text, and where it is.
pub fn correlation(text: &str) -> Result<Option<Arc<Correlation>>, CorrelationError> {
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(Correlation::parse(text, &CorrelationLimits::default())?)))
}
