//! What filters find in events, in every form and encoding.

use super::{CHARS, ENDIANS, Sample, VERSIONS, encoding, golden, output_form, samples};
use crate::event::fields::{CorbaForms, EventFields};
use crate::event::types::{properties_type, structured_event_type};
use crate::event::{
    FORM_ANY, FORM_STRUCTURED, UtcClock, fields_of_any, fields_of_properties, fields_of_structured, reader, tag_of,
};
use engine::{Forms, Time};
use filter::{Constraint, Fields, Limits, Path, Steps, Text, Value as FieldValue, Verdict};
use giop::cdr::{CharSet, Encoding, Endian, Reader, Version, Writer};
use giop::typecode::{Kind, TypeCode};
use giop::value::{AnyValue, Value};
use std::time::Duration;

const NOW: u64 = 0x01dd_0000_0000_0000;

/// A structured event in which there is something of every kind.
fn rich(encoding: Encoding, phase: usize) -> Sample {
    let mut bytes = Vec::new();
    let mut w = Writer::with_phase(&mut bytes, phase, encoding);
    for text in ["ALMA", "Température", "n° 7"] {
        w.string(text);
    }
    let header = [
        ("Priority", AnyValue::from(3_i16)),
        ("Timeout", AnyValue::from(600_u64)),
        ("réseau", AnyValue::from("étoile")),
        ("antenna", AnyValue::from("in the header")),
    ];
    w.length(header.len());
    for (name, value) in header {
        w.string(name);
        value.write(&mut w).unwrap();
    }
    let data = filterable();
    w.length(data.len());
    for (name, value) in data {
        w.string(name);
        value.write(&mut w).unwrap();
    }
    readings().write(&mut w).unwrap();
    let name = format!("{encoding:?} at {phase}");
    Sample { name, form: FORM_STRUCTURED, tag: tag_of(encoding, phase), bytes }
}

fn structure(name: &str, members: Vec<(&str, TypeCode, Value)>) -> AnyValue {
    let types: Vec<_> = members.iter().map(|(name, code, _)| (*name, code.clone())).collect();
    let fields = members.into_iter().map(|(name, _, value)| (name.to_owned(), value)).collect();
    let code = TypeCode::structure(&format!("IDL:demo/{name}:1.0"), name, &types);
    AnyValue::new(code, Value::Struct { type_name: name.into(), fields })
}

fn readings() -> AnyValue {
    let readings =
        TypeCode::alias("IDL:demo/Readings:1.0", "Readings", TypeCode::sequence(TypeCode::primitive(Kind::Double)));
    structure(
        "Body",
        vec![
            ("readings", readings, Value::Sequence((0..100).map(|n| Value::Double(f64::from(n) / 4.0)).collect())),
            ("comment", TypeCode::string(), Value::String("plein de données".into())),
        ],
    )
}

fn filterable() -> Vec<(&'static str, AnyValue)> {
    let octet = || TypeCode::primitive(Kind::Octet);
    let long = || TypeCode::primitive(Kind::Long);
    let colour = || TypeCode::enumeration("IDL:demo/Colour:1.0", "Colour", &["RED", "GREEN", "BLUE"]);
    let green = || Value::Enum { type_name: "Colour".into(), label: "GREEN".into(), index: 1 };
    let point = structure(
        "Point",
        vec![("flag", octet(), Value::Octet(7)), ("x", TypeCode::primitive(Kind::Double), Value::Double(-1.5))],
    );
    let any = |value: AnyValue| AnyValue::new(TypeCode::any(), Value::Any(Box::new(value)));
    let boxed = |value: AnyValue| Value::Any(Box::new(value));
    let union = TypeCode::union(
        "IDL:demo/U:1.0",
        "U",
        colour(),
        &[(Some(0), "whole", long()), (Some(1), "part", TypeCode::string()), (None, "else", long())],
    );
    let held = Value::Union {
        type_name: "U".into(),
        discriminator: Box::new(green()),
        member: Some(("part".into(), Box::new(Value::String("the part".into())))),
    };
    let property = |name: &str, value: AnyValue| {
        let fields = vec![("name".into(), Value::String(name.into())), ("value".into(), boxed(value))];
        Value::Struct { type_name: "Property".into(), fields }
    };
    let list = Value::Sequence(vec![property("one", AnyValue::from(1_i32)), property("clé", any(AnyValue::from(2.5)))]);
    let grid = TypeCode::array(TypeCode::array(long(), 3), 2);
    let rows = (0..2).map(|y| Value::Array((0..3).map(|x| Value::Long(10 * y + x)).collect())).collect();
    vec![
        ("antenna", AnyValue::from("DV07")),
        ("value", AnyValue::from(3.25)),
        ("type_name", AnyValue::from("hidden by the header")),
        ("priority", AnyValue::from(99_i32)),
        ("point", any(any(point))),
        ("colour", AnyValue::new(colour(), green())),
        ("union", AnyValue::new(union, held)),
        ("list", AnyValue::new(properties_type(), list)),
        ("grid", AnyValue::new(grid, Value::Array(rows))),
        ("wide", AnyValue::new(TypeCode::wstring(), Value::Wstring("naïve ☃ 𝄞".into()))),
        ("one", AnyValue::new(TypeCode::primitive(Kind::Wchar), Value::Wchar('☃'))),
        ("letter", AnyValue::new(TypeCode::primitive(Kind::Char), Value::Char('q'))),
        ("large", AnyValue::from(u64::MAX)),
        ("on", AnyValue::from(true)),
        ("nothing", AnyValue::default()),
        (
            "words",
            AnyValue::new(TypeCode::sequence(TypeCode::string()), Value::Sequence(vec![Value::String("für".into())])),
        ),
        (
            "any list",
            AnyValue::new(
                TypeCode::sequence(TypeCode::any()),
                Value::Sequence(vec![boxed(AnyValue::from("mixed")), boxed(AnyValue::from(5_i16))]),
            ),
        ),
        ("empty", AnyValue::new(TypeCode::sequence(long()), Value::Sequence(vec![]))),
    ]
}

fn verdict(text: &str, fields: &EventFields<'_>) -> Verdict {
    let constraint = Constraint::parse(text, &Limits::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
    constraint.matches(fields, &mut Steps::new(100_000))
}

#[track_caller]
fn check(fields: &EventFields<'_>, about: &str, hold: &[&str], do_not: &[&str]) {
    for text in hold {
        assert_eq!(verdict(text, fields), Verdict::Match, "{text} of {about}");
    }
    for text in do_not {
        assert_ne!(verdict(text, fields), Verdict::Match, "{text} of {about}");
    }
}

fn path(text: &str) -> Path {
    let constraint = Constraint::parse(&format!("exist {text}"), &Limits::default()).unwrap();
    constraint.paths()[0].clone()
}

fn fields_of(sample: &Sample) -> EventFields<'_> {
    let source = reader(&sample.bytes, sample.tag);
    if sample.form == FORM_ANY { fields_of_any(source, NOW) } else { fields_of_structured(source, NOW) }
}

/// What holds of [`rich`] however it comes.
const HOLD: &[&str] = &[
    "$domain_name == 'ALMA' and $type_name == 'Température' and $event_name == 'n° 7'",
    "$.header.fixed_header.event_type.domain_name == 'ALMA'",
    "$.header.fixed_header.event_type.type_name == $type_name",
    "$.header.fixed_header.event_name == 'n° 7' and $.0.0.1 == 'n° 7' and $.0.0.0.0 == 'ALMA'",
    "$event_type.type_name == $type_name and $event_type._type_id == 'EventType'",
    "$priority == 3 and $Priority == 3 and $timeout == 600 and $Timeout == 600",
    "$.header.variable_header(Priority) == 3 and $.header.1('réseau') == 'étoile'",
    "$antenna == 'in the header'",
    "$.filterable_data(antenna) == 'DV07' and $.1(antenna) ~ $.filterable_data(antenna)",
    "$value > 3 and $value < 3.5 and $.filterable_data(priority) == 99",
    "$point.x == -1.5 and $point.flag + 1 == 8 and $point.1 == -1.5 and exist $point",
    "$point._type_id == 'Point' and $point._repos_id == 'IDL:demo/Point:1.0'",
    "$colour == GREEN and $colour == 1 and $colour != RED and $colour < 2",
    "$union.part == 'the part' and $union._d == GREEN and $union.(GREEN) == 'the part'",
    "$list(one) == 1 and $list('clé') == 2.5 and $list._length == 2 and $list[1].name == 'clé' and $list._type_id == 'PropertySeq'",
    "$grid[1][2] == 12 and $grid._length == 2 and 11 in $grid[1] and not (1 in $grid[1])",
    "$wide == 'naïve ☃ 𝄞' and '☃' ~ $wide and $one == '☃' and $letter == 'q'",
    "$large > 9223372036854775807 and $on == TRUE",
    "not exist $nothing and $empty._length == 0 and 'für' in $words and 5 in $.filterable_data('any list') and 'mixed' in $.filterable_data('any list')",
    "$.remainder_of_body.readings[99] == 24.75 and $.remainder_of_body.readings._length == 100",
    "24.75 in $.remainder_of_body.readings and $.2.comment == 'plein de données'",
    "$remainder_of_body.comment == 'plein de données' and $.filterable_data._length == 18",
    "$._type_id == 'StructuredEvent' and $.header._type_id == 'EventHeader' and exist $",
    "$._repos_id == 'IDL:omg.org/CosNotification/StructuredEvent:1.0' and $type_name._type_id == 'string'",
    "$.filterable_data[0].name == 'antenna' and $.filterable_data[1].value == 3.25",
    "$curtime.time > 0",
];

const DO_NOT: &[&str] = &[
    "exist $comment",
    "exist $nobody or exist $.nobody or exist $(antenna) or exist $[0]",
    "exist $grid[2] or exist $grid[1][3] or exist $grid.x or exist $grid(x)",
    "exist $union.whole or exist $union.(RED) or exist $union.() or exist $union.0 or exist $union.1",
    "exist $point.y or exist $point[0] or exist $point._length or exist $point.(1)",
    "exist $domain_name.x or exist $domain_name[0] or exist $domain_name._length",
    "7 in $empty",
    "7 in $point",
    "$large == -1",
];

#[test]
fn filters_find_everything_in_a_structured_event_of_every_encoding() {
    for endian in ENDIANS {
        for version in VERSIONS {
            for chars in CHARS {
                let phases = if version == Version::V1_2 { vec![0, 4] } else { (0..8).collect() };
                for phase in phases {
                    let event = rich(encoding(endian, version, chars), phase);
                    check(&fields_of(&event), &event.name, HOLD, DO_NOT);
                }
            }
        }
    }
}

#[test]
fn a_structured_event_in_an_any_is_read_both_ways() {
    for endian in ENDIANS {
        for version in VERSIONS {
            let event = rich(encoding(endian, version, CharSet::Utf8), 0);
            let inside = event.translated(output_form(FORM_ANY, version, &CHARS));
            assert_eq!(inside.form, FORM_ANY);
            check(&fields_of(&inside), &inside.name, HOLD, DO_NOT);
        }
    }
}

fn any_event(any: &AnyValue, encoding: Encoding) -> Sample {
    let mut bytes = Vec::new();
    any.write(&mut Writer::new(&mut bytes, encoding)).unwrap();
    Sample { name: format!("{encoding:?}"), form: FORM_ANY, tag: tag_of(encoding, 0), bytes }
}

#[test]
fn an_any_has_generic_properties() {
    let little = Encoding::new(Endian::Little);
    let names = ["$type_name == '%ANY' and $domain_name == '' and $event_name == '' and exist $"];
    let no_names = ["exist $type_name.x", "exist $priority", "exist $.header"];
    let event = any_event(&readings(), little);
    check(
        &fields_of(&event),
        "a structure",
        &["$comment == $.comment and $readings[3] == 0.75 and 0.75 in $.readings and $._type_id == 'Body'", names[0]],
        &no_names,
    );
    let event = any_event(&AnyValue::from(7_i32), little);
    check(&fields_of(&event), "a number", &["$ == 7 and $ > 6.5", names[0]], &["$comment == 7", "7 in $"]);
    let (_, list) = filterable().into_iter().find(|(name, _)| *name == "list").unwrap();
    let event = any_event(&AnyValue::new(TypeCode::any(), Value::Any(Box::new(list))), little);
    check(
        &fields_of(&event),
        "a list of named values in another Any",
        &["$one == 1 and $(one) == 1 and $._length == 2 and $[0].name == 'one'", "$('clé') == 2.5", names[0]],
        &no_names,
    );
    let (_, union) = filterable().into_iter().find(|(name, _)| *name == "union").unwrap();
    check(
        &fields_of(&any_event(&union, little)),
        "a union",
        &["$part == 'the part' and $._d == GREEN"],
        &["exist $whole"],
    );
    let empty = any_event(&AnyValue::default(), little);
    let about_names = "$type_name == '%ANY' and $domain_name == ''";
    check(&fields_of(&empty), "nothing", &[about_names], &["exist $x", "$ == 0", "exist $", "exist $._type_id"]);
}

#[test]
fn an_any_that_became_a_structured_event_is_read_both_ways() {
    for version in VERSIONS {
        let event = any_event(&readings(), encoding(Endian::Big, version, CharSet::Utf8));
        let around = event.translated(output_form(FORM_STRUCTURED, version, &CHARS));
        assert_eq!(around.form, FORM_STRUCTURED);
        check(
            &fields_of(&around),
            "an Any in a structured event",
            &[
                "$type_name == '%ANY' and $.header.fixed_header.event_type.type_name == '%ANY'",
                "$comment == $.remainder_of_body.comment and $.comment == $comment and $.readings[3] == 0.75",
            ],
            &["exist $nobody"],
        );
    }
}

#[test]
fn a_list_of_properties_is_read_by_name() {
    for encoding in ENDIANS.map(Encoding::new) {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes, encoding);
        w.u32(2);
        w.string("operation");
        AnyValue::from("IDL:demo/Alarm/raise:1.0").write(&mut w).unwrap();
        w.string("point");
        filterable()[4].1.write(&mut w).unwrap();
        let fields = fields_of_properties(Reader::new(&bytes, encoding), NOW);
        let hold = [
            "$type_name == '%TYPED' and $domain_name == '' and $operation ~ $(operation) and $(point).x == $point.x and $._length == 2 and $[0].name == 'operation'",
            "$.operation == $(operation) and $.point.x == $point.x and $.type_name == '%TYPED'",
        ];
        check(&fields, "properties", &hold, &["exist $(type_name)", "exist $.other", "exist $(other)"]);
    }
}

#[test]
fn what_fills_a_header_is_found_only_where_it_is() {
    // Neither Priority nor Timeout in the header: the names stand for whatever has them.
    let encoding = Encoding::new(Endian::Little);
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes, encoding);
    ["D", "T", ""].iter().for_each(|text| w.string(text));
    w.u32(0);
    w.u32(1);
    w.string("priority");
    AnyValue::from(99_i32).write(&mut w).unwrap();
    AnyValue::default().write(&mut w).unwrap();
    let fields = fields_of_structured(Reader::new(&bytes, encoding), NOW);
    check(&fields, "a bare event", &["$priority == 99", "$event_name == ''"], &["exist $timeout", "exist $Priority"]);
}

#[test]
fn the_engine_reads_events_through_their_forms() {
    let sample = rich(encoding(Endian::Big, Version::V1_1, CharSet::Latin1), 5);
    let event = sample.event();
    let clock = UtcClock::new(Time(1_000), Duration::from_secs(1));
    let forms = CorbaForms::at(&clock, Time(2_000));
    let fields = forms.fields(&event);
    check(&fields, "an event", HOLD, DO_NOT);
    assert_eq!(fields.current_time(), 0x01b2_1dd2_1381_4000 + 10_000_000 + 10);
    let any = any_event(&AnyValue::from(7_i32), Encoding::new(Endian::Little));
    let event = any.event();
    assert_eq!(verdict("$ == 7", &forms.fields(&event)), Verdict::Match);
}

#[test]
fn the_events_of_real_orbs_have_the_fields_that_their_values_have() {
    for sample in golden() {
        let fields = fields_of(&sample);
        match sample.value() {
            Value::Any(_) => check(&fields, &sample.name, &["exist $ and $type_name == '%ANY'"], &["exist $nobody"]),
            event => {
                let Value::Struct { fields: parts, .. } = &event else { panic!() };
                let Value::Sequence(data) = &parts[1].1 else { panic!() };
                for property in data {
                    let Value::Struct { fields: pair, .. } = property else { panic!() };
                    let Value::String(name) = &pair[0].1 else { panic!() };
                    let Value::Any(any) = &pair[1].1 else { panic!() };
                    let path = path(&format!("$.filterable_data('{name}')"));
                    let found = fields.field(&path, &mut Steps::new(10_000));
                    assert!(
                        is_same(found.as_ref(), &any.value),
                        "{}: {name} is {found:?}, not {}",
                        sample.name,
                        any.value
                    );
                }
            }
        }
    }
}

fn is_same(found: Option<&FieldValue<'_>>, value: &Value) -> bool {
    match (found, value) {
        (Some(FieldValue::Int(a)), Value::Short(b)) => *a == i64::from(*b),
        (Some(FieldValue::Int(a)), Value::Long(b)) => *a == i64::from(*b),
        (Some(FieldValue::Int(a)), Value::Octet(b)) => *a == i64::from(*b),
        (Some(FieldValue::Int(a)), Value::UShort(b)) => *a == i64::from(*b),
        (Some(FieldValue::Int(a)), Value::ULong(b)) => *a == i64::from(*b),
        (Some(FieldValue::Int(a)), Value::LongLong(b)) => a == b,
        (Some(FieldValue::Int(a)), Value::ULongLong(b)) => u64::try_from(*a) == Ok(*b),
        (Some(FieldValue::UInt(a)), Value::ULongLong(b)) => a == b,
        (Some(FieldValue::Float(a)), Value::Double(b)) => a.to_bits() == b.to_bits(),
        (Some(FieldValue::Float(a)), Value::Float(b)) => a.to_bits() == f64::from(*b).to_bits(),
        (Some(FieldValue::Float(_)), Value::LongDouble(_) | Value::Fixed(_)) => true,
        (Some(FieldValue::Int(a)), Value::Fixed(b)) => b.parse() == Ok(*a),
        (Some(FieldValue::Bool(a)), Value::Bool(b)) => a == b,
        (Some(FieldValue::Char(a)), Value::Char(b) | Value::Wchar(b)) => a == b,
        (Some(FieldValue::Text(a)), Value::String(b) | Value::Wstring(b)) => *a == Text::new(b),
        (Some(FieldValue::Enum { ordinal, name }), Value::Enum { index, label, .. }) => {
            ordinal == index && *name == Text::new(label)
        }
        (Some(FieldValue::Composite), value) => !matches!(
            value,
            Value::Bool(_) | Value::Short(_) | Value::Long(_) | Value::Double(_) | Value::String(_) | Value::Wstring(_)
        ),
        _ => false,
    }
}

#[test]
fn a_search_that_takes_too_long_is_given_up() {
    let event = rich(Encoding::new(Endian::Little), 0);
    for text in ["$.remainder_of_body.comment", "$.filterable_data(empty)", "$nobody", "$.filterable_data[7].name"] {
        let path = path(text);
        let mut enough = Steps::new(10_000);
        let found = fields_of(&event).field(&path, &mut enough).is_some();
        let needed = 10_000 - enough.left;
        assert!(needed > 5, "{text} takes {needed}");
        for steps in 0..needed {
            let mut steps = Steps::new(steps);
            assert!(fields_of(&event).field(&path, &mut steps).is_none());
            assert!(steps.is_spent(), "{text}");
        }
        assert_eq!(fields_of(&event).field(&path, &mut Steps::new(needed)).is_some(), found);
    }
    // What was found once is found again for less.
    let (fields, path) = (fields_of(&event), path("$.remainder_of_body.comment"));
    let cost = || {
        let mut steps = Steps::new(10_000);
        fields.field(&path, &mut steps).unwrap();
        10_000 - steps.left
    };
    let first = cost();
    assert!(cost() < first / 2);
}

#[test]
fn lists_of_every_length_are_searched_in_every_order() {
    let encoding = Encoding::new(Endian::Big);
    let mut random = fastrand::Rng::with_seed(0x115_7115);
    for (headers, data) in [(0, 0), (0, 1), (1, 0), (3, 11), (11, 12), (12, 13), (13, 14), (40, 40)] {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes, encoding);
        (0..3).for_each(|_| w.string("x"));
        for (prefix, count) in [("h", headers), ("d", data)] {
            w.u32(count);
            for n in 0..count {
                w.string(&format!("{prefix}{n}"));
                if n % 2 == 0 {
                    AnyValue::from(n).write(&mut w).unwrap()
                } else {
                    AnyValue::from(f64::from(n)).write(&mut w).unwrap()
                }
            }
        }
        AnyValue::from("rest").write(&mut w).unwrap();
        for _ in 0..60 {
            let fields = fields_of_structured(Reader::new(&bytes, encoding), NOW);
            for _ in 0..8 {
                let n = random.u32(..45);
                let (name, count) = if random.bool() { (format!("h{n}"), headers) } else { (format!("d{n}"), data) };
                let found = fields.field(&path(&format!("${name}")), &mut Steps::new(1_000));
                let is_there = matches!(found, Some(value) if value.equals(&FieldValue::Int(n.into())) == Some(true));
                assert_eq!(is_there, n < count, "${name} of {headers} and {data}");
                if random.u8(..4) == 0 {
                    check(&fields, "a list", &["$.remainder_of_body == 'rest'", "$event_name == 'x'"], &["exist $d99"]);
                }
            }
        }
    }
}

#[test]
fn events_that_are_cut_short_or_mutated_come_to_no_harm() {
    let paths: Vec<Path> = HOLD
        .iter()
        .chain(DO_NOT)
        .flat_map(|text| Constraint::parse(text, &Limits::default()).unwrap().paths().to_vec())
        .collect();
    let read = |form, bytes: &[u8], tag| {
        let fields = if form == FORM_ANY {
            fields_of_any(reader(bytes, tag), 0)
        } else {
            fields_of_structured(reader(bytes, tag), 0)
        };
        let list = fields_of_properties(reader(bytes, tag), 0);
        for path in &paths {
            let mut steps = Steps::new(2_000);
            let _ = (fields.field(path, &mut steps), list.field(path, &mut steps));
            let _ = (
                fields.contains(path, &FieldValue::Int(7), &mut steps),
                list.contains(path, &FieldValue::Int(7), &mut steps),
            );
        }
    };
    let event = rich(encoding(Endian::Little, Version::V1_1, CharSet::Utf8), 3);
    let inside = event.translated(output_form(FORM_ANY, Version::V1_2, &CHARS));
    for event in [&event, &inside] {
        for length in 0..event.bytes.len() {
            read(event.form, &event.bytes[..length], event.tag);
        }
    }
    let samples = [samples(), vec![event, inside]].concat();
    let mut random = fastrand::Rng::with_seed(0x00f1_e1d5);
    for _ in 0..2_000 {
        let sample = random.choice(&samples).unwrap();
        let mut bytes = sample.bytes.clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(0..bytes.len());
            bytes[at] = if random.bool() { random.u8(..) } else { 0 };
        }
        read(if random.bool() { FORM_ANY } else { FORM_STRUCTURED }, &bytes, sample.tag);
    }
}

#[test]
fn the_types_that_paths_follow_are_those_of_the_idl() {
    let event = structured_event_type();
    assert_eq!(event.member(1).unwrap().type_ref().resolved().content().unwrap().name(), "Property");
    assert!(event.member(1).unwrap().type_ref().content().unwrap().name() == properties_type().name());
}
