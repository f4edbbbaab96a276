//! Events as JSON, as `campanile sub --json` prints them, with values in the format of [`::json::write`].

use client::notify::{Property, StructuredEvent};
use giop::value::AnyValue;
use serde::{Serialize, Serializer, ser};
use serde_json::value::RawValue;
use std::fmt::Display;
use std::time::Duration;

use ::json::body::leave_out_fields;
pub(crate) use ::json::read::octets_from_hex;
pub(crate) use ::json::write::{any, hex, list, object, quadruple, text, value};

/// Writer of an object, member by member in order.
pub(crate) struct Object<'o> {
    out: &'o mut String,
    between: char,
}

impl<'o> Object<'o> {
    /// Begins an object.
    pub(crate) fn new(out: &'o mut String) -> Self {
        Self { out, between: '{' }
    }

    /// Writes a member.
    pub(crate) fn member(self, key: &str, value: impl Serialize) -> Self {
        // A value with text keys only, and numbers that JSON has, cannot fail.
        let value = serde_json::to_string(&value).unwrap_or_default();
        self.written(key, |out| out.push_str(&value))
    }

    /// Writes a member if there is one.
    pub(crate) fn optional(self, key: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.member(key, value),
            None => self,
        }
    }

    /// Writes a member's key, and calls `write` for its value.
    pub(crate) fn written(mut self, key: &str, write: impl FnOnce(&mut String)) -> Self {
        self.out.push(std::mem::replace(&mut self.between, ','));
        text(self.out, key);
        self.out.push(':');
        write(self.out);
        self
    }

    /// Writes the members of a structured event.
    pub(crate) fn event(self, received: &str, event: &StructuredEvent) -> Self {
        let StructuredEvent { domain, type_name, event_name, variable_header, filterable_data, remainder } = event;
        let begun = self.member("received", received);
        // With a `/` in one of them, what is joined would be taken apart elsewhere.
        let typed = match domain.contains('/') || type_name.contains('/') {
            true => begun.member("domain", domain).member("type", type_name),
            false => begun.member("type", crate::show::type_name(domain, type_name)),
        };
        let mut body = remainder.clone();
        let fields = filterable_data.iter().map(|field| (field.name.as_str(), &field.value.value));
        leave_out_fields(&mut body, type_name, fields);
        typed
            .member("name", event_name)
            .written("header", |out| properties(out, variable_header))
            .written("fields", |out| properties(out, filterable_data))
            .written("body", |out| any(out, &body))
    }

    /// Writes octets as hexadecimal digits.
    pub(crate) fn hex(self, key: &str, octets: &[u8]) -> Self {
        self.written(key, |out| {
            out.push('"');
            hex(out, octets);
            out.push('"');
        })
    }

    /// Ends the object.
    pub(crate) fn end(self) {
        self.out.push('}');
    }
}

/// Writes a structured event as one object.
pub(crate) fn event(out: &mut String, received: &str, event: &StructuredEvent) {
    Object::new(out).event(received, event).end();
}

/// Writes properties as an object of plain values.
pub(crate) fn properties(out: &mut String, properties: &[Property]) {
    object(out, properties.iter().map(|property| (property.name.as_str(), &property.value.value)), value);
}

/// A number with a fixed number of digits behind the point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixed<const DIGITS: usize>(pub(crate) f64);

impl<const DIGITS: usize> Serialize for Fixed<DIGITS> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        raw(serializer, |out| out.push_str(&format!("{:.DIGITS$}", self.0)))
    }
}

// Functions for `serialize_with` of members.

/// Serializes JSON that is written by hand.
fn raw<S: Serializer>(serializer: S, write: impl FnOnce(&mut String)) -> Result<S::Ok, S::Error> {
    let mut out = String::new();
    write(&mut out);
    RawValue::from_string(out).map_err(ser::Error::custom)?.serialize(serializer)
}

/// Properties as an object of plain values.
pub(crate) fn qos<S: Serializer>(all: &[Property], serializer: S) -> Result<S::Ok, S::Error> {
    raw(serializer, |out| properties(out, all))
}

pub(crate) fn optional_qos<S: Serializer>(all: &Option<Vec<Property>>, serializer: S) -> Result<S::Ok, S::Error> {
    qos(all.as_deref().unwrap_or_default(), serializer)
}

/// A value without its type.
pub(crate) fn plain<S: Serializer>(any: &Option<AnyValue>, serializer: S) -> Result<S::Ok, S::Error> {
    raw(serializer, |out| any.iter().for_each(|any| value(out, &any.value)))
}

/// Serializes the text that people see.
pub(crate) fn display<S: Serializer>(shown: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(shown)
}

/// Names with their values, as an object.
#[derive(Clone, Debug)]
pub(crate) struct Map<T>(pub(crate) Vec<(String, T)>);

impl<T: Serialize> Serialize for Map<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        map(&self.0, serializer)
    }
}

/// Serializes pairs as [`Map`] does.
pub(crate) fn map<S: Serializer>(pairs: &[(String, impl Serialize)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

pub(crate) fn millis<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    time.as_millis().serialize(serializer)
}

pub(crate) fn seconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs()).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_is_one_object() {
        let mut source = StructuredEvent::new("Telescope", "Temperature", "dome-3");
        source.variable_header.push(Property::new("Priority", 3_i16));
        source.filterable_data.push(Property::new("celsius", 11.5));
        let mut out = String::new();
        event(&mut out, "2026-01-01T00:00:00.000Z", &source);
        let expected = concat!(
            r#"{"received":"2026-01-01T00:00:00.000Z","type":"Telescope/Temperature","name":"dome-3","#,
            r#""header":{"Priority":3},"fields":{"celsius":11.5},"body":null}"#
        );
        assert_eq!(out, expected);
    }
}
