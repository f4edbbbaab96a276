//! A channel's properties in the configuration file's format: numbers, flags and text, with times as text with a unit; and lanes.

use super::pools::lanes_value;
use super::property::{
    DEAD_LETTER_CHANNEL, Domain, ErrorCode, Place, Property, PropertyValue, RequestedProperties, Wire, is_reliability,
};
use super::tables::{ADMIN, QOS};
use crate::table::Level;
use core::fmt;
use engine::ChannelId;
use giop::value::Value;

/// A value as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// Text: a choice, or a time with its unit, such as `2s`.
    Text(String),
    /// The lanes of `ThreadPoolLanes` under `CLIENT_PROPAGATED`: priority and static threads of each.
    Lanes(Vec<(i64, i64)>),
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Lanes(lanes) => {
                let lanes = lanes.iter().map(|(priority, threads)| format!("{threads} at priority {priority}"));
                f.write_str(&lanes.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Adds properties to those requested of a channel, or returns the error of the first invalid one.
pub(crate) fn declare(
    requested: RequestedProperties,
    properties: &[(String, Declared)],
) -> Result<RequestedProperties, String> {
    declare_for(requested, Place::Channel, properties)
}

/// The channels named as dead letter channels in such properties.
pub fn dead_letter_channels(properties: &[(String, Declared)]) -> impl Iterator<Item = ChannelId> {
    properties.iter().filter_map(|(name, value)| match value {
        Declared::Number(number) if name == DEAD_LETTER_CHANNEL => u32::try_from(*number).ok().map(ChannelId),
        _ => None,
    })
}

/// Adds properties to those requested of any level.
pub(crate) fn declare_at(
    requested: RequestedProperties,
    level: Level,
    properties: &[(String, Declared)],
) -> Result<RequestedProperties, String> {
    declare_for(requested, super::place(level), properties)
}

fn declare_for(
    mut requested: RequestedProperties,
    place: Place,
    properties: &[(String, Declared)],
) -> Result<RequestedProperties, String> {
    for (name, declared) in properties {
        let known = QOS.iter().chain(ADMIN).find(|property| property.name == name);
        let property = known.ok_or_else(|| format!("there is no property {name}"))?;
        if !property.is_available(place) {
            return Err(match place {
                Place::Channel => format!("{name} is no property of channels"),
                _ => format!("{name} is no property of this object"),
            });
        }
        property.set(&mut requested, &value(property, declared)).map_err(|why| {
            if is_reliability(property.name) && why == ErrorCode::UnsupportedValue {
                return format!(
                    "{name} Persistent needs a store, and there is none: start the service with one (--data)"
                );
            }
            let values = named_values(property).unwrap_or_else(|| {
                let (low, high) = property.range(requested.most);
                range(&low, &high)
            });
            format!("{declared} is no value of {name}: {values}")
        })?;
    }
    if let (Some(discipline), Some(pool)) = (requested.discipline, &mut requested.pool) {
        pool.spec.discipline = discipline;
    }
    Ok(requested)
}

fn value(property: &Property, declared: &Declared) -> Value {
    let is_time = matches!(property.domain, Domain::Integer { wire: Wire::ULongLong, .. });
    match declared {
        Declared::Flag(flag) => Value::Bool(*flag),
        Declared::Number(number) => Value::LongLong(*number),
        Declared::Text(text) => match (parse_time(text).filter(|_| is_time), numbered(property, text)) {
            (Some(time), _) => Value::ULongLong(time),
            (None, Some(number)) => Value::LongLong(number),
            (None, None) => Value::String(text.clone()),
        },
        Declared::Lanes(lanes) => lanes_value(lanes),
    }
}

/// The number of a value with a standard name.
fn numbered(property: &Property, text: &str) -> Option<i64> {
    let Domain::Integer { names: (names, end), .. } = property.domain else { return None };
    let name = text.strip_suffix(end)?;
    names.iter().position(|known| *known == name).and_then(|at| i64::try_from(at).ok())
}

/// The values with standard names, and their numbers.
fn named_values(property: &Property) -> Option<String> {
    let Domain::Integer { names: (names, end), .. } = property.domain else { return None };
    let values = names.iter().enumerate().map(|(number, name)| format!("{name}{end} ({number})"));
    let values = values.collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| format!("it is one of {values}"))
}

/// Parses a time with its unit (`us`, `ms`, `s`, `min`, `h` or `d`), in the 100 ns of `TimeBase::TimeT`.
#[must_use]
pub fn parse_time(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text.strip_prefix(number)?.trim() {
        "us" => 10,
        "ms" => 10_000,
        "s" => 10_000_000,
        "min" => 600_000_000,
        "h" => 36_000_000_000,
        "d" => 864_000_000_000,
        _ => return None,
    };
    number.trim().parse::<u64>().ok()?.checked_mul(unit)
}

fn range(low: &PropertyValue, high: &PropertyValue) -> String {
    match (low, high) {
        (PropertyValue::Text(names), _) => format!("it is one of {}", names.replace('|', ", ")),
        (PropertyValue::Boolean(_), _) => "it is true or false".to_owned(),
        (PropertyValue::ULongLong(low), PropertyValue::ULongLong(high)) => {
            format!("it is from {low} to {high}, a time in 100 ns or with its unit: us, ms, s, min, h, d")
        }
        (PropertyValue::Structure(_), _) => {
            "lanes have different priorities, each from 0 to 32767, and 1 static thread at least".to_owned()
        }
        _ => format!("it is from {} to {}", number(low), number(high)),
    }
}

fn number(value: &PropertyValue) -> String {
    match value {
        PropertyValue::Short(number) => number.to_string(),
        PropertyValue::UShort(number) => number.to_string(),
        PropertyValue::Long(number) => number.to_string(),
        PropertyValue::ULong(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}
