//! What an event says of when and how urgently it is wanted.

use super::{CHARS, ENDIANS, VERSIONS, encoding};
use crate::event::{Header, UtcClock, read_header, read_structured};
use engine::{Event, Time};
use giop::cdr::{Encoding, Reader, Writer};
use giop::typecode::{Kind, TypeCode, Work};
use giop::value::{AnyValue, Value};
use std::time::Duration;

/// The header of a structured event with these properties.
fn header_of(encoding: Encoding, phase: usize, properties: &[(&str, AnyValue)], test: impl FnOnce(Header<'_>)) {
    let mut bytes = Vec::new();
    let mut w = Writer::with_phase(&mut bytes, phase, encoding);
    ["domain", "type", "name"].iter().for_each(|text| w.string(text));
    w.length(properties.len());
    for (name, value) in properties {
        w.string(name);
        value.write(&mut w).unwrap();
    }
    w.u32(0);
    AnyValue::from("rest").write(&mut w).unwrap();
    let body = Reader::with_phase(&bytes, phase, encoding);
    let header = read_structured(body.clone(), &mut Work::default()).unwrap();
    let alone = read_header(body, &mut Work::default()).unwrap();
    assert!(!alone.is_loose, "what is behind the header was not looked at");
    assert_eq!(Header { is_loose: header.is_loose, ..alone }, header);
    assert_eq!((header.domain, header.type_name, header.event_name), (&b"domain"[..], &b"type"[..], &b"name"[..]));
    test(header);
}

fn moment(time: u64) -> AnyValue {
    let id = |name: &str| format!("IDL:omg.org/TimeBase/{name}:1.0");
    let time_t = TypeCode::alias(&id("TimeT"), "TimeT", TypeCode::primitive(Kind::ULongLong));
    let members = [
        ("time", time_t),
        ("inacclo", TypeCode::primitive(Kind::ULong)),
        ("inacchi", TypeCode::primitive(Kind::UShort)),
        ("tdf", TypeCode::primitive(Kind::Short)),
    ];
    let fields = vec![
        ("time".into(), Value::ULongLong(time)),
        ("inacclo".into(), Value::ULong(5)),
        ("inacchi".into(), Value::UShort(0)),
        ("tdf".into(), Value::Short(-60)),
    ];
    let code = TypeCode::structure(&id("UtcT"), "UtcT", &members);
    AnyValue::new(code, Value::Struct { type_name: "UtcT".into(), fields })
}

#[test]
fn quality_of_service_is_read_in_every_encoding() {
    let time_t = TypeCode::alias("IDL:omg.org/TimeBase/TimeT:1.0", "TimeT", TypeCode::primitive(Kind::ULongLong));
    let properties = [
        ("EventReliability", AnyValue::from(0_i16)),
        ("Priority", AnyValue::from(-7_i16)),
        ("Timeout", AnyValue::new(time_t, Value::ULongLong(12_345_678))),
        ("StartTime", moment(0x01dd_0000_0000_0001)),
        ("other", AnyValue::from("text")),
        ("StopTime", moment(u64::MAX)),
    ];
    for endian in ENDIANS {
        for version in VERSIONS {
            for chars in CHARS {
                for phase in 0..8 {
                    header_of(encoding(endian, version, chars), phase, &properties, |header| {
                        assert_eq!(header.priority, Some(-7));
                        assert_eq!(header.timeout, Some(Duration::from_nanos(1_234_567_800)));
                        assert_eq!((header.start, header.stop), (Some(0x01dd_0000_0000_0001), Some(u64::MAX)));
                        assert!(!header.has_wrong_property);
                    });
                }
            }
        }
    }
}

fn header_with(properties: &[(&str, AnyValue)], test: impl FnOnce(Header<'_>)) {
    header_of(Encoding::new(giop::cdr::Endian::Little), 0, properties, test);
}

#[test]
fn integers_of_neighbouring_widths_are_taken() {
    let any = |value: AnyValue| AnyValue::new(TypeCode::any(), Value::Any(Box::new(value)));
    let integers: [AnyValue; 8] = [
        5_u8.into(),
        5_i16.into(),
        5_u16.into(),
        5_i32.into(),
        5_u32.into(),
        5_i64.into(),
        5_u64.into(),
        any(5_i32.into()),
    ];
    for five in integers {
        let properties = ["Priority", "Timeout", "StartTime", "StopTime"].map(|name| (name, five.clone()));
        header_with(&properties, |header| {
            assert_eq!(header.priority, Some(5));
            assert_eq!(header.timeout, Some(Duration::from_nanos(500)));
            assert_eq!((header.start, header.stop), (Some(5), Some(5)));
            assert!(!header.has_wrong_property, "{five:?}");
        });
    }
}

#[test]
fn values_that_cannot_be_meant_count_as_absent_and_are_noticed() {
    let wrong: [(&str, AnyValue); 9] = [
        ("Priority", 32_768_i32.into()),
        ("Priority", "7".into()),
        ("Priority", 7.0_f64.into()),
        ("Priority", AnyValue::default()),
        ("Timeout", (-1_i32).into()),
        ("Timeout", moment(7)),
        ("StartTime", (-1_i64).into()),
        ("StartTime", "now".into()),
        (
            "StopTime",
            AnyValue::new(TypeCode::structure("", "", &[]), Value::Struct { type_name: String::new(), fields: vec![] }),
        ),
    ];
    for (name, value) in wrong {
        header_with(&[(name, value.clone())], |header| {
            assert_eq!((header.priority, header.timeout, header.start, header.stop), (None, None, None, None));
            assert!(header.has_wrong_property, "{name} {value:?}");
        });
        // The next of that name counts.
        let right = if name == "Priority" { 7_i16.into() } else { AnyValue::from(7_u64) };
        header_with(&[(name, value), (name, right)], |header| {
            assert!(
                header.priority == Some(7)
                    || header.timeout.or(header.start.or(header.stop).map(Duration::from_nanos)).is_some()
            );
        });
    }
}

#[test]
fn a_timeout_of_nothing_is_none_and_of_the_two_the_first_counts() {
    header_with(&[("Timeout", 0_u64.into())], |header| {
        assert_eq!((header.timeout, header.has_wrong_property), (None, false));
    });
    header_with(&[("Priority", 1_i16.into()), ("Priority", 2_i16.into()), ("priority", 3_i16.into())], |header| {
        assert_eq!((header.priority, header.has_wrong_property), (Some(1), false));
    });
    header_with(&[("Timeout", u64::MAX.into())], |header| {
        assert_eq!(header.timeout, Some(Duration::new(1_844_674_407_370, 955_161_500)));
    });
    // Entries that were never filled, as C++ programs send them.
    let nothing = || ("", AnyValue::default());
    header_with(&[nothing(), ("Priority", 1_i16.into()), nothing()], |header| {
        assert_eq!((header.priority, header.has_wrong_property), (Some(1), false));
    });
    header_with(&[], |header| assert!(!header.has_wrong_property && header.priority.is_none()));
}

#[test]
fn the_worlds_clock_and_the_lanes_agree() {
    let clock = UtcClock::new(Time(5_000_000_000), Duration::from_secs(1_700_000_000));
    let utc = clock.utc_time(Time(5_000_000_000));
    // 14 November 2023, 22:13:20.
    assert_eq!(utc, 0x01b2_1dd2_1381_4000 + 17_000_000_000_000_000);
    assert_eq!(clock.lane_time(utc), Time(5_000_000_000));
    assert_eq!(clock.lane_time(utc + 10_000_000), Time(6_000_000_000));
    assert_eq!(clock.lane_time(utc - 10_000_000), Time(4_000_000_000));
    assert_eq!(clock.utc_time(Time(4_999_999_900)), utc - 1);
    assert_eq!(clock.utc_time(Time(5_000_000_199)), utc + 1);
    // What is long past is the beginning, and what is far off stays in the future.
    assert_eq!((clock.lane_time(0), clock.lane_time(u64::MAX)), (Time(0), Time(u64::MAX)));
    assert_eq!(clock.utc_time(Time(u64::MAX)), utc + (u64::MAX - 5_000_000_000) / 100);
}

#[test]
fn the_engine_is_notified() {
    let clock = UtcClock { lane: Time(1_000), utc: 100 };
    let header = Header {
        priority: Some(4),
        timeout: Some(Duration::from_secs(1)),
        start: Some(101),
        stop: Some(90),
        ..Header::default()
    };
    let mut event = Event::default();
    header.apply(&mut event, &clock);
    assert_eq!((event.priority, event.timeout), (Some(4), Some(Duration::from_secs(1))));
    assert_eq!((event.start, event.stop), (Some(Time(1_100)), Some(Time(0))));
    Header::default().apply(&mut event, &clock);
    assert_eq!((event.priority, event.timeout, event.start, event.stop), (None, None, None, None));
}
