//! Topics: shares and deadlines of a channel's events in their lane, in the types of the module `Campanile`.
//!
//! ```no_run
//! use std::time::Duration;
//! use campanile_client::notify::{EventChannel, Property, Topic, Topics};
//!
//! # fn example(channel: EventChannel) -> Result<(), campanile_client::InvokeError> {
//! // Alarms are rare and urgent; everything else of the channel has a large share.
//! let alarms = Topic { deadline: Some(Duration::from_millis(2)), ..Topic::new("Plant", "Alarm", 10) };
//! channel.set_qos(&[Property::new("Share", 5_000_u32), Topics(vec![alarms]).into()])?;
//! # Ok(())
//! # }
//! ```

use super::{EventType, Property};
use crate::time::{duration_of, ticks_of_duration};
use giop::typecode::{Kind, TypeCode};
use giop::value::{AnyValue, Value};
use std::time::Duration;

/// `Campanile::Topic`: share and deadline of the events of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// The events' type; wildcards as in subscriptions.
    pub event_type: EventType,
    /// The topic's share, in messages a second, from 1 to 1,000,000, relative to the shares of the other topics of its lane.
    pub share: u32,
    /// Time within which each message should be served, at most 1/`share`; `None` for that.
    pub deadline: Option<Duration>,
    /// Worst-case time for serving a message, up to 1 s.
    pub execution_time: Duration,
    /// Importance of meeting deadlines; larger is more critical.
    pub criticality: i16,
}

/// `Campanile::TopicSeq`, the value of a channel's property `Topics`. An event belongs to the first topic that matches it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topics(pub Vec<Topic>);

impl Topic {
    /// Events of that domain and type name, with that share.
    #[must_use]
    pub fn new(domain: &str, type_name: &str, share: u32) -> Self {
        let event_type = EventType::new(domain, type_name);
        Self { event_type, share, deadline: None, execution_time: Duration::ZERO, criticality: 0 }
    }

    fn of(value: &Value) -> Option<Self> {
        let [event_type, share, deadline, execution_time, criticality] = members(value)?;
        let [domain, name] = members(event_type)?;
        match (domain, name, share, deadline, execution_time, criticality) {
            (
                Value::String(domain),
                Value::String(name),
                Value::ULong(share),
                Value::ULongLong(deadline),
                Value::ULongLong(execution_time),
                Value::Short(criticality),
            ) => Some(Self {
                event_type: EventType::new(domain, name),
                share: *share,
                deadline: Some(duration_of(*deadline)).filter(|deadline| !deadline.is_zero()),
                execution_time: duration_of(*execution_time),
                criticality: *criticality,
            }),
            _ => None,
        }
    }

    fn value(&self) -> Value {
        let Self { event_type: EventType { domain, name }, share, deadline, execution_time, criticality } = self;
        let event_type = structure(
            "EventType",
            [("domain_name", Value::String(domain.clone())), ("type_name", Value::String(name.clone()))],
        );
        structure(
            "Topic",
            [
                ("event_type", event_type),
                ("share", Value::ULong(*share)),
                ("deadline", Value::ULongLong(ticks_of_duration(deadline.unwrap_or_default()))),
                ("execution_time", Value::ULongLong(ticks_of_duration(*execution_time))),
                ("criticality", Value::Short(*criticality)),
            ],
        )
    }
}

impl Topics {
    /// The topics of a property's value; `None` for another value.
    #[must_use]
    pub fn of(value: &Value) -> Option<Self> {
        let Value::Sequence(topics) = value else { return None };
        topics.iter().map(Topic::of).collect::<Option<Vec<_>>>().map(Self)
    }
}

impl From<Topics> for Property {
    fn from(topics: Topics) -> Self {
        Self::new("Topics", AnyValue::from(topics))
    }
}

impl From<Topics> for AnyValue {
    fn from(topics: Topics) -> Self {
        let texts = [("domain_name", text_type()), ("type_name", text_type())];
        let event_type = TypeCode::structure("IDL:omg.org/CosNotification/EventType:1.0", "EventType", &texts);
        let members = [
            ("event_type", event_type),
            ("share", TypeCode::primitive(Kind::ULong)),
            ("deadline", time_type()),
            ("execution_time", time_type()),
            ("criticality", TypeCode::primitive(Kind::Short)),
        ];
        let topic = TypeCode::structure("IDL:Campanile/Topic:1.0", "Topic", &members);
        let list = TypeCode::alias("IDL:Campanile/TopicSeq:1.0", "TopicSeq", TypeCode::sequence(topic));
        Self::new(list, Value::Sequence(topics.0.iter().map(Topic::value).collect()))
    }
}

fn structure<const N: usize>(name: &str, members: [(&str, Value); N]) -> Value {
    let fields = members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Value::Struct { type_name: name.to_owned(), fields }
}

fn members<const N: usize>(value: &Value) -> Option<[&Value; N]> {
    let Value::Struct { fields, .. } = value else { return None };
    fields.iter().map(|(_, value)| value).collect::<Vec<_>>().try_into().ok()
}

fn text_type() -> TypeCode {
    TypeCode::primitive(Kind::String)
}

fn time_type() -> TypeCode {
    TypeCode::alias("IDL:omg.org/TimeBase/TimeT:1.0", "TimeT", TypeCode::primitive(Kind::ULongLong))
}

#[cfg(test)]
mod tests {
    use super::*;
    use giop::cdr::{Encoding, Endian, Reader, Writer};
    use giop::typecode::Work;

    #[test]
    fn topics_are_read_as_they_were_written() {
        let urgent = Topic {
            deadline: Some(Duration::from_millis(3)),
            execution_time: Duration::from_micros(70),
            criticality: -2,
            ..Topic::new("Plant", "Alarm", 4)
        };
        for topics in [Topics::default(), Topics(vec![urgent, Topic::new("*", "%ALL", 1_000)])] {
            let Property { name, value } = topics.clone().into();
            let mut bytes = Vec::new();
            value.write(&mut Writer::new(&mut bytes, Encoding::new(Endian::Big))).unwrap();
            let mut reader = Reader::new(&bytes, Encoding::new(Endian::Big));
            let read = AnyValue::read(&mut reader, &mut Work::default()).unwrap();
            assert_eq!(name, "Topics");
            assert_eq!(read.type_code.id(), "IDL:Campanile/TopicSeq:1.0");
            assert_eq!(Topics::of(&read.value), Some(topics));
        }
    }
}
