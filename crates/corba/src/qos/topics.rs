//! Claims of a channel's events on the lanes that carry them: `Share`, `Deadline` and `Topics`, a `Campanile::TopicSeq`
//! (`docs/idl/Campanile.idl`); and `Discipline`, by which a pool's lanes choose among them.

use super::PropertyError;
use super::property::{ErrorCode, PropertyValue, RequestedProperties, integer};
use engine::{Discipline, EventType, TopicSettings, Topics};
use giop::typecode::{Kind, TypeCode};
use giop::value::{AnyValue, Value};
use std::time::Duration;

/// `Discipline`, in the order of its choices.
const DISCIPLINES: &[(&str, Discipline)] = &[
    ("Shares", Discipline::Shares),
    ("EarliestDeadline", Discipline::EarliestDeadline),
    ("LeastLaxity", Discipline::LeastLaxity),
    ("MaximumUrgency", Discipline::MaximumUrgency),
];
pub(super) const DISCIPLINE_NAMES: &[&str] = &["Shares", "EarliestDeadline", "LeastLaxity", "MaximumUrgency"];

/// The discipline of a choice.
pub(super) fn discipline(choice: i64) -> Option<Discipline> {
    usize::try_from(choice).ok().and_then(|choice| DISCIPLINES.get(choice)).map(|(_, discipline)| *discipline)
}

/// The name of a discipline.
pub(super) fn discipline_name(discipline: Discipline) -> Option<&'static str> {
    DISCIPLINES.iter().find(|(_, known)| *known == discipline).map(|(name, _)| *name)
}

/// The event types that have topics of their own.
pub(super) type ByType = Vec<(EventType, TopicSettings)>;

/// Reads a `Campanile::TopicSeq`.
pub(super) fn accept(value: &Value) -> Result<ByType, ErrorCode> {
    let Value::Sequence(topics) = value else { return Err(ErrorCode::BadType) };
    if topics.len() > Topics::TYPES_MAX {
        return Err(ErrorCode::UnsupportedValue);
    }
    let by_type = topics.iter().map(topic).collect::<Result<ByType, ErrorCode>>()?;
    let topics = Topics { by_type, ..Topics::default() };
    topics.check().map_err(|_| ErrorCode::BadValue)?;
    Ok(topics.by_type)
}

fn topic(value: &Value) -> Result<(EventType, TopicSettings), ErrorCode> {
    let [event_type, share, deadline, execution_time, criticality] = members(value)?;
    let [domain, name] = members(event_type)?;
    let (Value::String(domain), Value::String(name)) = (domain, name) else { return Err(ErrorCode::BadType) };
    let number = |value: &Value| integer(value).ok_or(ErrorCode::BadType);
    let settings = TopicSettings {
        share: u32::try_from(number(share)?).map_err(|_| ErrorCode::BadValue)?,
        deadline: deadline_of(time(number(deadline)?)?),
        execution_time: time(number(execution_time)?)?,
        criticality: i16::try_from(number(criticality)?).map_err(|_| ErrorCode::BadValue)?,
    };
    Ok((EventType::new(domain.as_str(), name.as_str()), settings))
}

fn members<const N: usize>(value: &Value) -> Result<[&Value; N], ErrorCode> {
    let Value::Struct { fields, .. } = value else { return Err(ErrorCode::BadType) };
    let members: Vec<&Value> = fields.iter().map(|(_, member)| member).collect();
    members.try_into().map_err(|_| ErrorCode::BadType)
}

/// A time in the 100 ns units of `TimeBase::TimeT`.
fn time(hundreds_of_nanos: i64) -> Result<Duration, ErrorCode> {
    let count = u64::try_from(hundreds_of_nanos).map_err(|_| ErrorCode::BadValue)?;
    Ok(Duration::from_nanos(count.saturating_mul(100)))
}

/// A deadline of 0 is 1/share.
pub(super) fn deadline_of(time: Duration) -> Option<Duration> {
    Some(time).filter(|time| !time.is_zero())
}

/// The value of `Topics`.
pub(super) fn reported(by_type: &[(EventType, TopicSettings)]) -> PropertyValue {
    let time_type = TypeCode::alias("IDL:omg.org/TimeBase/TimeT:1.0", "TimeT", TypeCode::primitive(Kind::ULongLong));
    let texts = [("domain_name", TypeCode::primitive(Kind::String)), ("type_name", TypeCode::primitive(Kind::String))];
    let members = [
        ("event_type", TypeCode::structure("IDL:omg.org/CosNotification/EventType:1.0", "EventType", &texts)),
        ("share", TypeCode::primitive(Kind::ULong)),
        ("deadline", time_type.clone()),
        ("execution_time", time_type),
        ("criticality", TypeCode::primitive(Kind::Short)),
    ];
    let topic = TypeCode::structure("IDL:Campanile/Topic:1.0", "Topic", &members);
    let list = TypeCode::alias("IDL:Campanile/TopicSeq:1.0", "TopicSeq", TypeCode::sequence(topic));
    let topics = by_type.iter().map(|(event_type, settings)| topic_value(event_type, settings)).collect();
    PropertyValue::Structure(Box::new(AnyValue::new(list, Value::Sequence(topics))))
}

fn topic_value(event_type: &EventType, settings: &TopicSettings) -> Value {
    let TopicSettings { share, deadline, execution_time, criticality } = *settings;
    let texts = [("domain_name", event_type.domain.clone()), ("type_name", event_type.name.clone())];
    let event_type = structure("EventType", texts.map(|(name, text)| (name, Value::String(text))));
    structure(
        "Topic",
        [
            ("event_type", event_type),
            ("share", Value::ULong(share)),
            ("deadline", time_value(deadline.unwrap_or_default())),
            ("execution_time", time_value(execution_time)),
            ("criticality", Value::Short(criticality)),
        ],
    )
}

fn structure<const N: usize>(name: &str, members: [(&str, Value); N]) -> Value {
    let fields = members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Value::Struct { type_name: name.to_owned(), fields }
}

fn time_value(time: Duration) -> Value {
    Value::ULongLong(u64::try_from(time.as_nanos() / 100).unwrap_or(u64::MAX))
}

/// The smallest and largest values of one topic, as the available range.
pub(super) fn range() -> (PropertyValue, PropertyValue) {
    let any = || EventType::new("*", "*");
    let low = TopicSettings { share: 1, deadline: None, execution_time: Duration::ZERO, criticality: i16::MIN };
    let high = TopicSettings {
        share: TopicSettings::SHARE_MAX,
        deadline: Some(Duration::from_nanos(1_000_000_000 / u64::from(TopicSettings::SHARE_MAX))),
        execution_time: TopicSettings::EXECUTION_TIME_MAX,
        criticality: i16::MAX,
    };
    (reported(&[(any(), low)]), reported(&[(any(), high)]))
}

/// Conflicts between values that are valid individually.
pub(crate) fn validation_errors(requested: &RequestedProperties) -> Vec<PropertyError> {
    let mut validation_errors = Vec::new();
    let rest = &requested.topics.rest;
    if rest.check().is_err() {
        let most = Duration::from_nanos(1_000_000_000 / u64::from(rest.share.max(1)));
        let reported =
            |time: Duration| PropertyValue::ULongLong(u64::try_from(time.as_nanos() / 100).unwrap_or(u64::MAX));
        let range = (reported(Duration::ZERO), reported(most));
        validation_errors.push(PropertyError::new(ErrorCode::UnavailableValue, "Deadline", Some(range)));
    }
    if requested.discipline.is_some() && requested.pool.is_none() {
        // It is a pool's.
        validation_errors.push(PropertyError::new(ErrorCode::UnavailableProperty, "Discipline", None));
    }
    validation_errors
}
