//! CORBA's values as JSON.
//!
//! The mapping is written down for users in `campanile sub --help`: a struct or exception becomes an object, a union
//! `{"discriminator": …, member: value}`, an enum its label, a sequence or array an array, an octet sequence a string of
//! hexadecimal digits, text and characters strings, `fixed` a string of decimal digits, an any `{"type": …, "value": …}`,
//! a TypeCode its definition and an object reference its `IOR:…`. Whole numbers are written out in full; a float that
//! JSON lacks is the string `NaN`, `Infinity` or `-Infinity`; a `long double` is rounded to a double.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display, Write};
use giop::value::{AnyValue, Value};
use hashbrown::HashMap;

/// A destination that JSON is appended to.
pub trait Sink {
    /// Appends text as it is.
    fn push_str(&mut self, text: &str);
}

impl Sink for String {
    fn push_str(&mut self, text: &str) {
        Self::push_str(self, text);
    }
}

impl Sink for Vec<u8> {
    fn push_str(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }
}

/// Writes a value.
pub fn value(out: &mut impl Sink, value: &Value) {
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
                out.push_str(",");
                text(out, name);
                out.push_str(":");
                self::value(out, chosen);
            }
            out.push_str("}");
        }
        Value::Sequence(values) | Value::Array(values) => list(out, values, self::value),
        Value::Octets(octets) => {
            out.push_str("\"");
            hex(out, octets);
            out.push_str("\"");
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
pub fn any(out: &mut impl Sink, any: &AnyValue) {
    if matches!(any.value, Value::Null) {
        out.push_str("null");
        return;
    }
    out.push_str("{\"type\":");
    text(out, &any.type_code.root().to_string());
    out.push_str(",\"value\":");
    value(out, &any.value);
    out.push_str("}");
}

/// Writes an object. A duplicate name gets `#2`, `#3` … appended, since a JSON object has each name once.
pub fn object<'a, S: Sink, T: 'a>(
    out: &mut S,
    members: impl Iterator<Item = (&'a str, T)>,
    mut write: impl FnMut(&mut S, T),
) {
    let mut names = Names::default();
    out.push_str("{");
    for (name, member) in members {
        names.write(out, name);
        write(out, member);
    }
    out.push_str("}");
}

/// Writes an array.
pub fn list<S: Sink, T>(out: &mut S, items: &[T], mut write: impl FnMut(&mut S, &T)) {
    out.push_str("[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(",");
        }
        write(out, item);
    }
    out.push_str("]");
}

/// The names written so far in an object. Few names are compared one by one; for more there is a map.
#[derive(Default)]
pub(crate) struct Names<'a> {
    count: usize,
    few: [(Cow<'a, str>, u32); 8],
    more: HashMap<Cow<'a, str>, u32>,
}

impl<'a> Names<'a> {
    /// Writes a name, with the comma before and the colon behind.
    pub(crate) fn write(&mut self, out: &mut impl Sink, name: impl Into<Cow<'a, str>>) {
        let name = name.into();
        if self.count > 0 {
            out.push_str(",");
        }
        let times = self.times(&name);
        match times {
            1 => text(out, &name),
            times => text(out, &format!("{name}#{times}")),
        }
        out.push_str(":");
        if times == 1 {
            self.keep(name);
        }
    }

    /// Occurrences of that name, this one included.
    fn times(&mut self, name: &str) -> u32 {
        let mut few = self.few.get_mut(..self.count).unwrap_or_default().iter_mut();
        let known = match few.find(|(known, _)| *known == name) {
            Some((_, times)) => Some(times),
            None => self.more.get_mut(name),
        };
        known.map_or(1, |times| {
            *times += 1;
            *times
        })
    }

    fn keep(&mut self, name: Cow<'a, str>) {
        match self.few.get_mut(self.count) {
            Some(place) => {
                *place = (name, 1);
                self.count += 1;
            }
            None => {
                self.more.insert(name, 1);
            }
        }
    }
}

/// Writes a string.
pub fn text(out: &mut impl Sink, text: &str) {
    out.push_str("\"");
    escaped(out, text);
    out.push_str("\"");
}

/// Escapes the content of a string.
pub(crate) fn escaped(out: &mut impl Sink, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|octet| octet < 0x20 || octet == b'"' || octet == b'\\') {
        // What is looked for is ASCII, and so stands between characters.
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let (special, behind) = from.split_at(1);
        match special {
            "\"" => out.push_str("\\\""),
            "\\" => out.push_str("\\\\"),
            "\n" => out.push_str("\\n"),
            "\r" => out.push_str("\\r"),
            "\t" => out.push_str("\\t"),
            "\u{8}" => out.push_str("\\b"),
            "\u{c}" => out.push_str("\\f"),
            _ => plain(out, format_args!("\\u{:04x}", special.bytes().next().unwrap_or_default())),
        }
        rest = behind;
    }
    out.push_str(rest);
}

/// Writes a number; the string `NaN`, `Infinity` or `-Infinity` if JSON lacks it.
pub fn number(out: &mut impl Sink, number: f64) {
    if number.is_finite() {
        plain(out, format_args!("{number:?}"));
    } else if number.is_nan() {
        out.push_str("\"NaN\"");
    } else {
        out.push_str(if number > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" });
    }
}

/// Writes octets as hexadecimal digits.
pub fn hex(out: &mut impl Sink, octets: &[u8]) {
    for octet in octets {
        plain(out, format_args!("{octet:02x}"));
    }
}

/// Writes a value without quotes.
pub(crate) fn plain(out: &mut impl Sink, value: impl Display) {
    struct Adapter<'s, S>(&'s mut S);
    impl<S: Sink> Write for Adapter<'_, S> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.push_str(text);
            Ok(())
        }
    }
    // A sink does not fail.
    let _ = write!(Adapter(out), "{value}");
}

/// An IEEE 754 quadruple, most significant octet first, as the nearest double towards zero.
#[must_use]
pub fn quadruple(octets: &[u8; 16]) -> f64 {
    let bits = u128::from_be_bytes(*octets);
    let sign = u64::from(bits >> 127 == 1) << 63;
    let exponent = i32::try_from(bits >> 112 & 0x7fff).unwrap_or_default();
    // The upper 52 of 112 bits behind the point.
    let fraction = u64::try_from(bits >> 60 & ((1 << 52) - 1)).unwrap_or_default();
    const INFINITY: u64 = 0x7ff << 52;
    let double = match exponent {
        0x7fff if bits << 16 != 0 => return f64::NAN,
        0x7fff => INFINITY,
        // Numbers that only a quadruple holds become infinity or zero.
        _ => match exponent - 16_383 {
            power if power > 1023 => INFINITY,
            power if power < -1022 => 0,
            power => u64::try_from(power + 1023).unwrap_or_default() << 52 | fraction,
        },
    };
    f64::from_bits(sign | double)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;
    use alloc::boxed::Box;
    use alloc::vec;
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
    fn names_that_come_twice_are_distinguished_however_many_there_are() {
        let mut out = String::new();
        object(&mut out, [("a", 1), ("b", 2), ("a", 3)].into_iter(), plain);
        assert_eq!(out, r#"{"a":1,"b":2,"a#2":3}"#);
        let names: Vec<String> = (0..20).map(|number| format!("n{number}")).collect();
        let mut out = String::new();
        object(&mut out, names.iter().chain(&names).map(|name| (name.as_str(), 0)), plain);
        let parsed: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&out).unwrap();
        assert_eq!(parsed.len(), 40);
        assert!(parsed.contains_key("n19#2"));
    }

    #[test]
    fn text_is_written_as_another_writer_does() {
        let all: String = (0..0x300).filter_map(char::from_u32).chain("鐘\u{1f514}\u{2028}".chars()).collect();
        for text in ["", "a", "\"", "\\", "a\"b\\c\nd", &all] {
            let mut out = String::new();
            super::text(&mut out, text);
            assert_eq!(out, serde_json::Value::from(text).to_string());
        }
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
