//! Types there and back, and types that do not agree.

use dds::{Error, Options, Qos, WriteError};
use giop::typecode::{Kind, TypeCode};
use testing::wait_until;

use crate::support::{PATIENCE, called, encoded, matched, named, number_type, pair, side, taken};

fn of(kind: Kind) -> TypeCode {
    TypeCode::primitive(kind)
}

/// One of everything that travels.
fn everything() -> TypeCode {
    let colour = TypeCode::enumeration("IDL:test/Colour:1.0", "Colour", &["red", "green"]);
    let point =
        TypeCode::structure("IDL:test/Point:1.0", "Point", &[("x", of(Kind::Double)), ("flag", of(Kind::Boolean))]);
    let choice = TypeCode::union(
        "IDL:test/Choice:1.0",
        "Choice",
        of(Kind::Long),
        &[
            (Some(1), "point", point.clone()),
            (Some(2), "text", TypeCode::string()),
            (Some(3), "text", TypeCode::string()),
            (None, "other", of(Kind::Short)),
        ],
    );
    let by_colour = TypeCode::union(
        "IDL:test/ByColour:1.0",
        "ByColour",
        colour.clone(),
        &[(Some(0), "number", of(Kind::LongLong)), (Some(1), "octet", of(Kind::Octet))],
    );
    let metres = TypeCode::alias("IDL:test/Metres:1.0", "Metres", of(Kind::Float));
    TypeCode::structure(
        "IDL:test/Everything:1.0",
        "Everything",
        &[
            ("octet", of(Kind::Octet)),
            ("short", of(Kind::Short)),
            ("ushort", of(Kind::UShort)),
            ("char", of(Kind::Char)),
            ("long", of(Kind::Long)),
            ("ulonglong", of(Kind::ULongLong)),
            ("colour", colour),
            ("text", TypeCode::string()),
            ("short_text", TypeCode::bounded_string(20)),
            ("points", TypeCode::sequence(point.clone())),
            ("maybe", TypeCode::bounded_sequence(point, 1)),
            ("grid", TypeCode::array(TypeCode::array(of(Kind::Short), 3), 2)),
            ("choice", choice.clone()),
            ("second", choice),
            ("by_colour", by_colour),
            ("height", metres),
            ("sign", of(Kind::Wchar)),
            ("wide", TypeCode::wstring()),
            ("short_wide", TypeCode::bounded_wstring(4)),
            ("last", of(Kind::Double)),
        ],
    )
}

fn one_of_everything() -> Vec<u8> {
    encoded(|w| {
        w.u8(255);
        w.i16(-2);
        w.u16(3);
        w.u8(b'c');
        w.i32(-5);
        w.u64(6);
        w.u32(1);
        w.string("Grüße");
        w.string("");
        w.u32(2);
        for x in [1.5, 2.5] {
            w.f64(x);
            w.bool(true);
        }
        w.u32(1);
        w.f64(3.5);
        w.bool(false);
        (0..6).for_each(|number| w.i16(number));
        w.i32(3);
        w.string("chosen");
        w.i32(99);
        w.i16(12);
        w.u32(0);
        w.i64(-13);
        w.f32(14.5);
        w.wchar('塔');
        w.wstring("\u{feff}塔 🦀");
        w.wstring("");
        w.f64(15.5);
    })
}

#[test]
fn a_value_of_every_type_arrives_octet_for_octet() {
    let (a, b) = pair(20);
    let name = named("everything");
    let (from, to) = (a.topic(&name, &everything()).unwrap(), b.topic(&name, &everything()).unwrap());
    let (writer, reader) = matched(&from, &to, &Qos::default(), &Qos::default());
    let value = one_of_everything();
    writer.write(&value).unwrap();
    assert_eq!(taken(&reader, 1), [value]);
}

#[test]
fn what_is_no_value_of_the_type_is_refused() {
    let (a, _b) = pair(21);
    let topic = a.topic(&named("refused"), &everything()).unwrap();
    let writer = topic.writer(&Qos::default()).unwrap();
    let value = one_of_everything();
    for length in 0..value.len() {
        assert_eq!(writer.write(&value[..length]), Err(WriteError::NotAValue), "cut at {length}");
    }
    let mut no_colour = value;
    no_colour[24..28].copy_from_slice(&7u32.to_ne_bytes());
    assert_eq!(writer.write(&no_colour), Err(WriteError::NotAValue));
}

#[test]
fn the_type_of_a_topic_is_learnt_from_an_end_point_that_has_it() {
    let (a, b) = pair(22);
    let name = named("learnt");
    let topic = a.topic(&name, &everything()).unwrap();
    let writer = topic.writer(&Qos::default()).unwrap();
    let mut found = None;
    wait_until("the writer is discovered", || {
        found = b.endpoints().unwrap().into_iter().find(|endpoint| endpoint.guid == writer.guid());
        found.is_some()
    });
    let found = found.unwrap();
    assert_eq!(found.type_name, "test::Everything");
    let learnt = b.type_of(&found, PATIENCE).unwrap();
    assert!(learnt.equal(&everything()), "{learnt}\nis not\n{}", everything());

    let like = b.topic_like(&found, PATIENCE).unwrap();
    let reader = like.reader(&Qos::default()).unwrap();
    crate::support::until_matched(&writer, &reader);
    writer.write(&one_of_everything()).unwrap();
    assert_eq!(taken(&reader, 1), [one_of_everything()]);
}

/// A participant's entity name is shown where it is a name, and stands before its number.
#[test]
fn a_participant_is_known_by_the_name_that_it_has() {
    let long = "x".repeat(65);
    for (test, (name, is_one)) in (70..).zip([
        ("mast \"7\"", true),
        ("אבג", true),
        ("4711", true),
        ("", false),
        ("evil\u{202e}txt", false),
        (&*long, false),
    ]) {
        let (a, b) = (side(test, 0, Options::loopback()), called(test, 1, name));
        let topic = named("called");
        let other = TypeCode::structure("IDL:test/Number:1.0", "Number", &[("text", TypeCode::string())]);
        let (ours, theirs) = (a.topic(&topic, &number_type()).unwrap(), b.topic(&topic, &other).unwrap());
        let (_reader, _writer) = (ours.reader(&Qos::default()).unwrap(), theirs.writer(&Qos::default()).unwrap());
        let mut conflicts = Vec::new();
        wait_until("the conflict is noticed", || {
            conflicts = ours.conflicts(PATIENCE).unwrap();
            !conflicts.is_empty()
        });
        assert_eq!(conflicts[0].called.as_deref(), is_one.then_some(name));
        let shown = conflicts[0].to_string();
        let begin =
            if is_one { format!("topic {topic:?}: {name:?} (") } else { format!("topic {topic:?}: {}", b.guid()) };
        assert!(shown.starts_with(&begin), "{shown}");
    }
}

#[test]
fn a_topic_with_another_type_is_reported_with_both_types() {
    let (a, b) = pair(23);
    let name = named("conflict");
    let other = TypeCode::structure("IDL:test/Number:1.0", "Number", &[("text", TypeCode::string())]);
    let (ours, theirs) = (a.topic(&name, &number_type()).unwrap(), b.topic(&name, &other).unwrap());
    let (_reader, _writer) = (ours.reader(&Qos::default()).unwrap(), theirs.writer(&Qos::default()).unwrap());
    let mut conflicts = Vec::new();
    wait_until("the conflict is noticed", || {
        conflicts = ours.conflicts(PATIENCE).unwrap();
        !conflicts.is_empty()
    });
    assert_eq!(conflicts[0].ours, number_type().to_string());
    assert_eq!(conflicts[0].theirs, other.to_string());
    assert_eq!(conflicts[0].called, None, "it has no name");

    let refused = a.topic(&name, &other).unwrap_err();
    assert!(matches!(refused, Error::TopicType { .. }), "{refused}");
}

#[test]
fn what_has_no_place_in_dds_is_named_with_the_way_to_it() {
    let (a, _b) = pair(24);
    let refused = |members: &[(&str, TypeCode)]| {
        let outer = TypeCode::structure("IDL:test/Outer:1.0", "Outer", members);
        a.topic(&named("refused type"), &outer).unwrap_err().to_string()
    };
    let inner = TypeCode::structure("IDL:test/Inner:1.0", "Inner", &[("value", TypeCode::any())]);
    assert_eq!(
        refused(&[("list", TypeCode::sequence(inner))]),
        "test::Outer.list[].value: a any has no place in DDS: declare what is in it, or a union of all that may be"
    );
    let empty = TypeCode::structure("IDL:test/Empty:1.0", "Empty", &[]);
    assert!(refused(&[("nothing", empty)]).contains(".nothing: the struct has no members"));
    let id = "IDL:test/Tree:1.0";
    let tree = TypeCode::structure(id, "Tree", &[("children", TypeCode::sequence(TypeCode::recursive(id)))]);
    assert!(refused(&[("tree", tree)]).contains("contains itself"));
    assert!(a.topic(&named("no struct"), &TypeCode::string()).unwrap_err().to_string().contains("no struct"));
}
