//! Events: encodes a request as a `CosNotification::StructuredEvent`, and writes such an event as a line.

use crate::request::Publish;
use crate::write::{self, Names, Sink};
use crate::{body, time};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use giop::cdr::{CharSet, Encoding, Endian, ReadError, ReadErrorKind, Reader, Version, Writer};
use giop::typecode::{Kind, Work};
use giop::value::{AnyRef, AnyValue, WriteError};

/// Encoding of events that arrive as JSON: GIOP 1.2, UTF-8.
pub const ENCODING: Encoding = Encoding { endian: Endian::Little, version: Version::V1_2, chars: CharSet::Utf8 };

impl Publish {
    /// Appends the event as a `CosNotification::StructuredEvent` in [`ENCODING`], which begins at a multiple of 8.
    ///
    /// # Errors
    /// A value does not fit its type, such as a character that a `char` cannot hold. `out` is left unchanged.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        let Self { id: _, channel: _, create: _, domain, type_name, name, header, fields, body } = self;
        let before = out.len();
        let mut writer = Writer::new(out, ENCODING);
        for text in [domain, type_name, name] {
            writer.string(text);
        }
        let mut write = || {
            write_properties(header, &mut writer)?;
            write_properties(fields, &mut writer)?;
            body.write(&mut writer)
        };
        let written = write();
        if written.is_err() {
            out.truncate(before);
        }
        written
    }
}

fn write_properties(properties: &[(String, AnyValue)], writer: &mut Writer<'_>) -> Result<(), WriteError> {
    writer.length(properties.len());
    for (name, value) in properties {
        writer.string(name);
        value.write(writer)?;
    }
    Ok(())
}

/// Writes a structured event as the line that subscribers get.
///
/// ```text
/// {"event":{"channel":0,"type":"Weather/Wind","name":"","fields":{"speed":12.5},"body":null}}
/// ```
///
/// An event with a variable header has it as `"header"` before its fields.
///
/// # Errors
/// The event cannot be read, has a value of a type that JSON cannot express, or needs more than `work` allows. The caller removes the
/// partial output.
pub fn write(out: &mut impl Sink, channel: u32, event: Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
    begin(out, channel);
    write_rest(out, event, work)
}

/// Writes a structured event as [`write()`] does, with the event's number and its time of arrival, in 100 ns since 15 October 1582. Returns
/// the position in `out` where the caller puts the number: [`NUMBER_CHARACTERS`] characters, which are spaces and a zero until then.
///
/// ```text
/// {"event":{"channel":0,"number":                  17,"time":139830192000000000,"came":"2025-11-21T12:00:00.000Z","type":"Wind", …}}
/// ```
///
/// # Errors
/// The same as of [`write()`].
pub fn write_numbered(
    out: &mut Vec<u8>,
    channel: u32,
    came: u64,
    event: Reader<'_>,
    work: &mut Work,
) -> Result<usize, ReadError> {
    begin(out, channel);
    out.push_str(",\"number\":");
    let number_at = out.len();
    out.resize(number_at + NUMBER_CHARACTERS - 1, b' ');
    out.push_str("0,\"time\":");
    write::plain(out, came);
    out.push_str(",\"came\":\"");
    time::rfc3339(out, time::since_1970(came));
    out.push_str("\"");
    write_rest(out, event, work)?;
    Ok(number_at)
}

/// Characters reserved for an event's number.
pub const NUMBER_CHARACTERS: usize = 20;

/// Writes the line of an event with the number of its set, and its place there, for a consumer that gets sets.
///
/// ```text
/// {"event":{"channel":0,"type":"Weather/Wind",…},"set":{"number":1,"index":0}}
/// ```
pub fn write_with_set(out: &mut Vec<u8>, line: &[u8], set: u64, index: u32) {
    out.extend_from_slice(line.strip_suffix(b"}\n").unwrap_or(line));
    out.push_str(",\"set\":{\"number\":");
    write::plain(out, set);
    out.push_str(",\"index\":");
    write::plain(out, index);
    out.push_str("}}\n");
}

fn begin(out: &mut impl Sink, channel: u32) {
    out.push_str("{\"event\":{\"channel\":");
    write::plain(out, channel);
}

fn write_rest(out: &mut impl Sink, mut event: Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
    let event = &mut event;
    out.push_str(",\"type\":\"");
    let domain = text(event)?;
    if !domain.is_empty() {
        write::escaped(out, &domain);
        out.push_str("/");
    }
    let type_name = text(event)?;
    write::escaped(out, &type_name);
    out.push_str("\",\"name\":");
    write::text(out, &text(event)?);
    if event.clone().u32()? > 0 {
        out.push_str(",\"header\":");
        properties(out, event, work)?;
    } else {
        event.u32()?;
    }
    out.push_str(",\"fields\":");
    let mut fields = event.clone();
    properties(out, event, work)?;
    out.push_str(",\"body\":");
    let body = AnyRef::read(event, work)?;
    match body.kind() {
        Kind::Null => out.push_str("null"),
        _ => {
            let mut body = body.decode(work)?;
            let mut left = fields.seq_len(PROPERTY_BYTES_MIN)?;
            let fields = core::iter::from_fn(|| {
                left = left.checked_sub(1)?;
                let name = text(&mut fields).ok()?;
                Some((name, AnyRef::read(&mut fields, work).and_then(|any| any.decode(work)).ok()?.value))
            });
            body::leave_out_fields(&mut body, &type_name, fields);
            write::any(out, &body);
        }
    }
    out.push_str("}}\n");
    Ok(())
}

/// Minimum size of a property: the length of its name and the kind of its value. Unit: octets.
const PROPERTY_BYTES_MIN: usize = 8;

fn properties(out: &mut impl Sink, event: &mut Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
    let mut names = Names::default();
    out.push_str("{");
    for _ in 0..event.seq_len(PROPERTY_BYTES_MIN)? {
        names.write(out, text(event)?);
        value(out, event, work)?;
    }
    out.push_str("}");
    Ok(())
}

/// Writes the value of an Any. Numbers and text, the usual values, are written without a copy.
fn value(out: &mut impl Sink, event: &mut Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
    let any = AnyRef::read(event, work)?;
    let mut at = any.reader();
    match Kind::from_number(at.u32()?) {
        Some(Kind::String) => {
            // The bound.
            at.u32()?;
            write::text(out, &text(&mut at)?);
        }
        Some(Kind::Boolean) => write::plain(out, at.bool()?),
        Some(Kind::Short) => write::plain(out, at.i16()?),
        Some(Kind::Long) => write::plain(out, at.i32()?),
        Some(Kind::LongLong) => write::plain(out, at.i64()?),
        Some(Kind::ULong) => write::plain(out, at.u32()?),
        Some(Kind::ULongLong) => write::plain(out, at.u64()?),
        Some(Kind::Double) => write::number(out, at.f64()?),
        _ => write::value(out, &any.decode(work)?.value),
    }
    Ok(())
}

/// Reads text without a copy; only ISO 8859-1 beyond ASCII is converted to UTF-8.
fn text<'a>(reader: &mut Reader<'a>) -> Result<Cow<'a, str>, ReadError> {
    let before = reader.clone();
    let bytes = reader.string()?;
    if reader.encoding().chars == CharSet::Latin1 && !bytes.is_ascii() {
        return Ok(Cow::Owned(bytes.iter().map(|octet| char::from(*octet)).collect()));
    }
    core::str::from_utf8(bytes)
        .map(Cow::Borrowed)
        .map_err(|_| before.error(ReadErrorKind::BadText { charset: "UTF-8" }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;
    use crate::request::ChannelRef;
    use alloc::vec;
    use giop::typecode::TypeCode;
    use giop::value::Value;

    fn work() -> Work {
        Work::new(10_000, 64)
    }

    fn line(bytes: &[u8], encoding: Encoding) -> Result<String, ReadError> {
        let mut out = Vec::new();
        write(&mut out, 7, Reader::new(bytes, encoding), &mut work())?;
        let line = String::from_utf8(out).unwrap();
        let parsed: serde_json::Value = serde_json::from_str(&line).expect(&line);
        assert!(parsed.is_object() && line.ends_with('\n') && line.lines().count() == 1);
        Ok(line)
    }

    fn publish(fields: Vec<(String, AnyValue)>) -> Publish {
        Publish {
            id: None,
            channel: ChannelRef::default(),
            create: false,
            domain: "Weather".into(),
            type_name: "Wind".into(),
            name: String::new(),
            header: Vec::new(),
            fields,
            body: AnyValue::default(),
        }
    }

    fn published(publish: &Publish) -> String {
        let mut bytes = Vec::new();
        publish.write(&mut bytes).unwrap();
        line(&bytes, ENCODING).unwrap()
    }

    #[test]
    fn an_event_is_a_line() {
        let of = |text: &str| read::field(text).unwrap();
        let plain = publish(vec![of("speed=12.5"), of("site=north")]);
        let expected = r#"{"event":{"channel":7,"type":"Weather/Wind","name":"","fields":{"speed":12.5,"site":"north"},"body":null}}"#;
        assert_eq!(published(&plain).trim_end(), expected);
        let full = Publish {
            name: "a\"b".into(),
            header: vec![of("Priority:short=3")],
            body: read::inferred("[1,2.5]").unwrap(),
            ..publish(vec![of("speed=1"), of("speed=2")])
        };
        let expected = concat!(
            r#"{"event":{"channel":7,"type":"Weather/Wind","name":"a\"b","header":{"Priority":3},"#,
            r##""fields":{"speed":1,"speed#2":2},"body":{"type":"sequence<double>","value":[1.0,2.5]}}}"##
        );
        assert_eq!(published(&full).trim_end(), expected);
    }

    #[test]
    fn members_of_a_typed_events_body_are_shown_once_and_other_bodies_whole() {
        let wind = |name: &str| {
            let members = [
                ("speed", TypeCode::primitive(Kind::Double)),
                ("site", TypeCode::string()),
                ("gusts", TypeCode::primitive(Kind::Double)),
            ];
            let code = TypeCode::structure("IDL:Wind:1.0", name, &members);
            let values = [Value::Double(12.5), Value::String("north".into()), Value::Double(20.0)];
            let fields = ["speed", "site", "gusts"].map(String::from).into_iter().zip(values).collect();
            AnyValue::new(code, Value::Struct { type_name: name.into(), fields })
        };
        let of = |text: &str| read::field(text).unwrap();
        for (fields, name, body) in [
            (&["speed=12.5", "site=north", "gusts=20.0"][..], "Wind", r#"{"type":"Wind","value":{}}"#),
            (&["speed=12.5", "gusts=20.0"], "Wind", r#"{"type":"Wind","value":{"site":"north"}}"#),
            (&["speed=12.5", "site=south"], "Wind", r#"{"type":"Wind","value":{"site":"north","gusts":20.0}}"#),
            (&[], "Wind", r#"{"type":"Wind","value":{"speed":12.5,"site":"north","gusts":20.0}}"#),
            (&["speed=12.5"], "Gale", r#"{"type":"Gale","value":{"speed":12.5,"site":"north","gusts":20.0}}"#),
        ] {
            let event = Publish { body: wind(name), ..publish(fields.iter().map(|text| of(text)).collect()) };
            let line = published(&event);
            assert!(line.contains(&alloc::format!("\"body\":{body}}}")), "{line}");
        }
    }

    #[test]
    fn a_number_has_its_time_as_text_beside_it() {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        publish(Vec::new()).write(&mut bytes).unwrap();
        let at = write_numbered(&mut out, 7, 139_886_496_051_234_567, Reader::new(&bytes, ENCODING), &mut work());
        out[at.unwrap()..][..NUMBER_CHARACTERS].copy_from_slice(b"                  17");
        let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let event = &line["event"];
        assert_eq!((&event["number"], &event["time"]), (&17.into(), &139_886_496_051_234_567_u64.into()));
        assert_eq!(event["came"], "2026-01-25T16:00:05.123Z");
    }

    #[test]
    fn every_value_is_written_as_sub_writes_it() {
        let texts = [
            "true",
            "-3",
            "2147483648",
            "18446744073709551615",
            "11.5",
            "1e300",
            "text",
            "\"3\"",
            "[1,2]",
            "[1,\"x\"]",
            "[]",
            "{\"x\":1,\"y\":{\"z\":[]}}",
            "[{\"a\":1},{\"a\":2}]",
        ];
        let chosen =
            ["a:short=3", "a:octet=255", "a:float=0.1", "a:char=x", "a:wstring=鐘", "a:octets=cafe", "a:ushort=9"];
        let values = texts.iter().map(|text| read::inferred(text).unwrap());
        let values = values.chain(chosen.iter().map(|text| read::field(text).unwrap().1)).chain([
            AnyValue::from(f64::NAN),
            AnyValue::from(f32::INFINITY),
            AnyValue::default(),
            AnyValue::new(TypeCode::alias("IDL:A:1.0", "A", TypeCode::string()), Value::String("aliased".into())),
        ]);
        for value in values {
            let mut expected = String::new();
            write::value(&mut expected, &value.value);
            let line = published(&publish(vec![("a".into(), value)]));
            assert!(line.contains(&alloc::format!("\"fields\":{{\"a\":{expected}}}")), "{line} {expected}");
        }
    }

    #[test]
    fn what_comes_in_comes_out_in_other_encodings_too() {
        let expected = published(&publish(vec![("höhe".into(), "über".into()), ("x".into(), 3_i32.into())]));
        for endian in [Endian::Big, Endian::Little] {
            for chars in [CharSet::Latin1, CharSet::Utf8] {
                let encoding = Encoding { endian, version: Version::V1_2, chars };
                let mut bytes = Vec::new();
                let mut writer = Writer::new(&mut bytes, encoding);
                for text in ["Weather", "Wind", ""] {
                    writer.string(text);
                }
                writer.length(0);
                let fields = [("höhe".into(), AnyValue::from("über")), ("x".into(), AnyValue::from(3_i32))];
                write_properties(&fields, &mut writer).unwrap();
                AnyValue::default().write(&mut writer).unwrap();
                assert_eq!(line(&bytes, encoding).unwrap(), expected);
            }
        }
    }

    #[test]
    fn an_event_that_was_cut_or_changed_ends_in_a_line_or_an_error() {
        let of = |text: &str| read::field(text).unwrap();
        let event = Publish {
            body: read::inferred("{\"x\":[1,2]}").unwrap(),
            ..publish(vec![of("a=[1,\"x\"]"), of("b=text")])
        };
        let mut bytes = Vec::new();
        event.write(&mut bytes).unwrap();
        for length in 0..bytes.len() {
            assert!(line(&bytes[..length], ENCODING).is_err(), "{length} octets");
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..5_000 {
            let mut changed = bytes.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(0..changed.len());
                changed[at] = random.u8(..);
            }
            drop(line(&changed, ENCODING));
        }
    }

    #[test]
    fn a_value_that_does_not_fit_is_an_error_and_leaves_nothing() {
        let mut bytes = vec![1, 2, 3, 4, 5, 6, 7, 8];
        let wrong = publish(vec![read::field("a:char=鐘").unwrap()]);
        assert!(wrong.write(&mut bytes).is_err());
        assert_eq!(bytes.len(), 8);
    }
}
