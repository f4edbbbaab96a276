//! Values and events as JSON.
//!
//! The mapping is written down for users in `campanile sub --help`: a struct or exception becomes an object, a union
//! `{"discriminator": …, member: value}`, an enum its label, a sequence or array an array, an octet sequence a string of
//! hexadecimal digits, text and characters strings, `fixed` a string of decimal digits, an any `{"type": …, "value": …}`,
//! a TypeCode its definition and an object reference its `IOR:…`. Whole numbers are written out in full; a float that
//! JSON lacks is the string `NaN`, `Infinity` or `-Infinity`; a `long double` is rounded to a double.

use client::notify::{Property, StructuredEvent};
use giop::value::{AnyValue, Value};
use std::collections::HashMap;
use std::fmt::{Display, Write};

/// Writes a value.
pub(crate) fn value(out: &mut String, value: &Value) {
    match value {
        Value::Bool(v) => plain(out, v),
        Value::Octet(v) => plain(out, v),
        Value::Short(v) => plain(out, v),
        Value::UShort(v) => plain(out, v),
        Value::Long(v) => plain(out, v),
        Value::ULong(v) => plain(out, v),
        Value::LongLong(v) => plain(out, v),
        Value::ULongLong(v) => plain(out, v),
        Value::Float(v) if v.is_finite() => plain(out, format_args!("{v:?}")),
        Value::Float(v) => number(out, f64::from(*v)),
        Value::Double(v) => number(out, *v),
        Value::LongDouble(octets) => number(out, quadruple(octets)),
        Value::Char(c) | Value::Wchar(c) => text(out, c.encode_utf8(&mut [0; 4])),
        Value::String(s) | Value::Wstring(s) | Value::Fixed(s) => text(out, s),
        Value::Enum { label, .. } => text(out, label),
        Value::Struct { fields, .. } | Value::Exception { fields, .. } => {
            object(out, fields.iter().map(|(name, field)| (name.as_str(), field)), self::value);
        }
        Value::Union { discriminator, member, .. } => {
            out.push_str("{\"discriminator\":");
            self::value(out, discriminator);
            if let Some((name, chosen)) = member {
                out.push(',');
                text(out, name);
                out.push(':');
                self::value(out, chosen);
            }
            out.push('}');
        }
        Value::Sequence(values) | Value::Array(values) => {
            out.push('[');
            for (index, element) in values.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                self::value(out, element);
            }
            out.push(']');
        }
        Value::Octets(octets) => {
            out.push('"');
            hex(out, octets);
            out.push('"');
        }
        Value::Any(nested) => any(out, nested),
        Value::TypeCode(code) => text(out, &code.to_string()),
        Value::Object(ior) if ior.is_nil() => out.push_str("null"),
        Value::Object(ior) => text(out, &ior.to_string()),
        // Null, void, and kinds of values that a later giop may add.
        _ => out.push_str("null"),
    }
}

/// Writes `{"type": …, "value": …}`; `null` for an Any that was never given a value.
pub(crate) fn any(out: &mut String, any: &AnyValue) {
    if matches!(any.value, Value::Null) {
        out.push_str("null");
        return;
    }
    out.push_str("{\"type\":");
    text(out, &any.type_code.root().to_string());
    out.push_str(",\"value\":");
    value(out, &any.value);
    out.push('}');
}

/// Writes a structured event as one object.
pub(crate) fn event(out: &mut String, received: &str, event: &StructuredEvent) {
    let StructuredEvent { domain, type_name, event_name, variable_header, filterable_data, remainder } = event;
    for (key, member) in [
        ("{\"received\":", received),
        (",\"domain\":", domain.as_str()),
        (",\"type\":", type_name),
        (",\"name\":", event_name),
    ] {
        out.push_str(key);
        text(out, member);
    }
    out.push_str(",\"header\":");
    properties(out, variable_header);
    out.push_str(",\"fields\":");
    properties(out, filterable_data);
    out.push_str(",\"body\":");
    any(out, remainder);
    out.push('}');
}

/// Writes properties as an object of plain values.
pub(crate) fn properties(out: &mut String, properties: &[Property]) {
    object(out, properties.iter().map(|property| (property.name.as_str(), &property.value.value)), value);
}

/// Writes an object. A name that came before gets `#2`, `#3` … behind it, since a JSON object has each name once.
pub(crate) fn object<'a, T: 'a>(
    out: &mut String,
    members: impl Iterator<Item = (&'a str, T)>,
    mut write: impl FnMut(&mut String, T),
) {
    let mut seen: HashMap<&str, u32> = HashMap::new();
    out.push('{');
    for (index, (name, member)) in members.enumerate() {
        if index > 0 {
            out.push(',');
        }
        let times = seen.entry(name).and_modify(|times| *times += 1).or_insert(1);
        if *times == 1 {
            text(out, name);
        } else {
            text(out, &format!("{name}#{times}"));
        }
        out.push(':');
        write(out, member);
    }
    out.push('}');
}

/// Writes an array.
pub(crate) fn list<T>(out: &mut String, items: &[T], mut write: impl FnMut(&mut String, &T)) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

/// Writes a string.
pub(crate) fn text(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

fn number(out: &mut String, number: f64) {
    if number.is_finite() {
        plain(out, format_args!("{number:?}"));
    } else if number.is_nan() {
        out.push_str("\"NaN\"");
    } else {
        out.push_str(if number > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" });
    }
}

pub(crate) fn hex(out: &mut String, octets: &[u8]) {
    for octet in octets {
        // Writing to a String does not fail.
        let _ = write!(out, "{octet:02x}");
    }
}

fn plain(out: &mut String, value: impl Display) {
    let _ = write!(out, "{value}");
}

/// An IEEE 754 quadruple, most significant octet first, as the nearest double towards zero.
pub(crate) fn quadruple(octets: &[u8; 16]) -> f64 {
    let bits = u128::from_be_bytes(*octets);
    let sign = if bits >> 127 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::try_from(bits >> 112 & 0x7fff).unwrap_or_default();
    // The upper 52 of 112 bits behind the point.
    let fraction = u64::try_from(bits >> 60 & ((1 << 52) - 1)).unwrap_or_default();
    match exponent {
        0x7fff if bits << 16 != 0 => f64::NAN,
        0x7fff => sign * f64::INFINITY,
        _ => {
            let mantissa = f64::from_bits(1023 << 52 | fraction);
            // Numbers that only a quadruple holds become infinity or zero.
            match exponent - 16_383 {
                power if power > 1023 => sign * f64::INFINITY,
                power if power < -1022 => sign * 0.0,
                power => sign * mantissa * 2_f64.powi(power),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giop::ior::Ior;
    use giop::typecode::{Kind, TypeCode};

    fn json(v: &Value) -> String {
        let mut out = String::new();
        value(&mut out, v);
        let parsed: serde_json::Value = serde_json::from_str(&out).expect(&out);
        drop(parsed);
        out
    }

    fn structure() -> Value {
        let fields = vec![("b".to_owned(), Value::Long(1)), ("a".to_owned(), Value::String("x\"\n".into()))];
        Value::Struct { type_name: "S".into(), fields }
    }

    #[test]
    fn every_kind_of_value_has_its_json() {
        let quadruple = 0x3fff_8000_0000_0000_0000_0000_0000_0000_u128.to_be_bytes();
        for (value, expected) in [
            (Value::Null, "null"),
            (Value::Void, "null"),
            (Value::Bool(true), "true"),
            (Value::Octet(255), "255"),
            (Value::Char('é'), "\"é\""),
            (Value::Wchar('鐘'), "\"鐘\""),
            (Value::Short(-3), "-3"),
            (Value::UShort(65_535), "65535"),
            (Value::Long(i32::MIN), "-2147483648"),
            (Value::ULong(u32::MAX), "4294967295"),
            (Value::LongLong(i64::MIN), "-9223372036854775808"),
            (Value::ULongLong(u64::MAX), "18446744073709551615"),
            (Value::Float(0.1), "0.1"),
            (Value::Float(f32::NAN), "\"NaN\""),
            (Value::Double(11.5), "11.5"),
            (Value::Double(1e300), "1e300"),
            (Value::Double(f64::NEG_INFINITY), "\"-Infinity\""),
            (Value::LongDouble(quadruple), "1.5"),
            (Value::String("a\u{1}b".into()), "\"a\\u0001b\""),
            (Value::Wstring("鐘".into()), "\"鐘\""),
            (Value::Fixed("-12.50".into()), "\"-12.50\""),
            (Value::Enum { type_name: "Mode".into(), label: "TRACKING".into(), index: 2 }, "\"TRACKING\""),
            (structure(), r#"{"b":1,"a":"x\"\n"}"#),
            (Value::Exception { type_name: "E".into(), fields: Vec::new() }, "{}"),
            (Value::Sequence(vec![Value::Long(1), Value::Long(2)]), "[1,2]"),
            (Value::Array(Vec::new()), "[]"),
            (Value::Octets(vec![0xca, 0xfe, 0x00]), "\"cafe00\""),
            (Value::Any(Box::new(AnyValue::from(7_i32))), r#"{"type":"long","value":7}"#),
            (Value::TypeCode(Box::new(TypeCode::primitive(Kind::ULong))), "\"unsigned long\""),
            (Value::Object(Ior::nil()), "null"),
        ] {
            assert_eq!(json(&value), expected);
        }
    }

    #[test]
    fn union_has_its_discriminator_beside_its_member() {
        let chosen = Value::Union {
            type_name: "U".into(),
            discriminator: Box::new(Value::Long(2)),
            member: Some(("count".to_owned(), Box::new(Value::Short(5)))),
        };
        assert_eq!(json(&chosen), r#"{"discriminator":2,"count":5}"#);
        let none = Value::Union { type_name: "U".into(), discriminator: Box::new(Value::Bool(false)), member: None };
        assert_eq!(json(&none), r#"{"discriminator":false}"#);
    }

    #[test]
    fn names_that_come_twice_are_told_apart() {
        let mut out = String::new();
        properties(&mut out, &[Property::new("a", 1), Property::new("b", 2), Property::new("a", 3)]);
        assert_eq!(out, r#"{"a":1,"b":2,"a#2":3}"#);
    }

    #[test]
    fn event_is_one_object() {
        let mut source = StructuredEvent::new("Telescope", "Temperature", "dome-3");
        source.variable_header.push(Property::new("Priority", 3_i16));
        source.filterable_data.push(Property::new("celsius", 11.5));
        let mut out = String::new();
        event(&mut out, "2026-01-01T00:00:00.000Z", &source);
        let expected = concat!(
            r#"{"received":"2026-01-01T00:00:00.000Z","domain":"Telescope","type":"Temperature","name":"dome-3","#,
            r#""header":{"Priority":3},"fields":{"celsius":11.5},"body":null}"#
        );
        assert_eq!(out, expected);
    }

    #[test]
    fn quadruples_become_doubles() {
        let of = |bits: u128| quadruple(&bits.to_be_bytes());
        assert_eq!(of(0), 0.0);
        assert_eq!(of(0xc000_0000_0000_0000_0000_0000_0000_0000), -2.0);
        assert_eq!(of(0x7fff_0000_0000_0000_0000_0000_0000_0000), f64::INFINITY);
        assert!(of(0x7fff_8000_0000_0000_0000_0000_0000_0000).is_nan());
        assert_eq!(of(0x7ffe_0000_0000_0000_0000_0000_0000_0000), f64::INFINITY);
    }
}
