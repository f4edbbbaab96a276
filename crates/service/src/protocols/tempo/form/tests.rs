//! Messages as events and events as messages, both ways; what filters read of them.

use super::super::types::tests::{message, random_message, random_types, some_topic, wind};
use super::super::types::{DeclaredType, DeclaredTypes};
use super::*;
use corba::event::{FORM_ANY, FORM_STRUCTURED};
use engine::ProxyId;
use fastrand::Rng;
use filter::{Constraint, Fields, Limits, Part, Path, Root, Steps, Value as FieldValue, Verdict};
use giop::cdr::{CharSet, Version};
use giop::typecode::{TypeCode, Work};
use giop::value::{AnyValue, Value};

const CLOCK: UtcClock = UtcClock { lane: engine::Time(0), utc: 0x01dd_0000_0000_0000 };

fn source(channel: u32) -> ProxyKey {
    ProxyKey { channel: ChannelId(channel), proxy: ProxyId(1) }
}

/// An event of a message, and whether it is what its publisher says.
fn event_of(channel: u32, (domain, name): (&str, &str), message: Message<'_>, types: &DeclaredTypes) -> (Event, bool) {
    let mut event = Event::default();
    event.keeps_names = true;
    event.set_names(domain.as_bytes(), name.as_bytes());
    event.bytes.extend_from_slice(message.octets);
    let said = Said { content: message.content, priority: message.priority, sent: message.sent };
    let is_so = describe(&mut event, source(channel), said, types, &CLOCK);
    (event, is_so)
}

fn sent(content: Content, octets: &[u8]) -> Message<'_> {
    Message { content, octets, priority: 0, sent: 0 }
}

fn structured(event: &Event, types: &DeclaredTypes) -> (u64, Vec<u8>) {
    let mut out = Vec::new();
    let tag = write_structured(&Origin::of(event), types, &mut out);
    event::read_structured(event::reader(&out, tag), &mut Work::default()).expect("it is a structured event");
    (tag, out)
}

fn back(declared: Option<&DeclaredType>, form: Form, (tag, bytes): (u64, &[u8])) -> (Content, Vec<u8>) {
    let mut out = vec![0xee; 3];
    let note = write_message(declared, (form, tag, bytes), &mut out).expect("it becomes a message");
    assert_eq!(out.drain(..3).as_slice(), [0xee; 3]);
    (note.content, out)
}

/// A structured event as a client would make it.
fn client_event(
    (domain, name, event_name): (&str, &str, &str),
    header: &[(&str, AnyValue)],
    fields: &[(&str, AnyValue)],
    body: &AnyValue,
    encoding: Encoding,
) -> (u64, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes, encoding);
    [domain, name, event_name].into_iter().for_each(|text| w.string(text));
    for list in [header, fields] {
        w.length(list.len());
        for (name, value) in list {
            w.string(name);
            value.write(&mut w).unwrap();
        }
    }
    body.write(&mut w).unwrap();
    (event::tag_of(encoding, 0), bytes)
}

const WIND_TYPE: (&str, &str) = ("Weather", "Wind");

fn floats(values: &[f32]) -> AnyValue {
    let of = TypeCode::sequence(TypeCode::primitive(Kind::Float));
    AnyValue::new(of, Value::Sequence(values.iter().copied().map(Value::Float).collect()))
}

fn wind_fields() -> Vec<(&'static str, AnyValue)> {
    let samples = floats(&[1.0, 2.0, 3.0]);
    vec![("speed", 12.5_f64.into()), ("direction", 270_f32.into()), ("station", "DV1".into()), ("samples", samples)]
}

fn wind_type(types: &DeclaredTypes) -> Option<&DeclaredType> {
    types.find(ChannelId(0), b"Weather", b"Wind")
}

// ---- notes ----

#[test]
fn a_note_is_a_tag_and_the_other_way_round() {
    for content in [Content::Octets, Content::Typed, Content::Structured] {
        for (is_read, is_repeated, sent) in
            [(false, true, 0), (true, false, (1 << 60) - 1), (true, true, 1_234_567_890_123)]
        {
            let note = Note { content, is_read, is_repeated, sent };
            assert_eq!(Note::of(note.tag()), note);
            assert_eq!(Note::of(as_repeated(note.tag())), Note { is_repeated: true, ..note });
        }
    }
    // As it is kept on the disk.
    assert_eq!(Note { content: Content::Typed, is_read: true, is_repeated: false, sent: 1 }.tag(), 0x15);
    assert_eq!((Tag::of_form(FORM_TEMPO), Tag::of_output_form(OUTPUT_FORM)), (Tag::Tempo, Tag::Tempo));
    assert_eq!((FORM_TEMPO, OUTPUT_FORM), (Form(0x0200), OutputForm(0x0002_0000)));
}

#[test]
fn a_subscriber_gets_a_message_as_it_came() {
    let types = wind();
    let sent = Message { content: Content::Octets, octets: b"anything", priority: -7, sent: 99 };
    let (event, _) = event_of(0, WIND_TYPE, sent, &types);
    assert_eq!(message_of(&event), Some(sent));
    let mut other = Event::default();
    (other.form, other.priority) = (FORM_STRUCTURED, Some(3));
    assert_eq!(message_of(&other), None, "it was not put into a message");
    let alternate = other.alternates.push(OUTPUT_FORM);
    alternate.tag = Note { content: Content::Typed, ..Note::default() }.tag();
    alternate.bytes.extend_from_slice(b"x");
    assert_eq!(message_of(&other), Some(Message { content: Content::Typed, octets: b"x", priority: 3, sent: 0 }));
}

// ---- golden octets ----

#[test]
fn a_message_of_a_declared_type_becomes_the_event_that_a_client_would_have_made() {
    let types = wind();
    let (event, is_so) = event_of(0, WIND_TYPE, sent(Content::Typed, message()), &types);
    let (tag, bytes) = structured(&event, &types);
    #[rustfmt::skip]
    let by_hand: Vec<u8> = [
        &[8, 0, 0, 0][..], b"Weather\0", &[5, 0, 0, 0], b"Wind\0", &[0, 0, 0], &[1, 0, 0, 0, 0], &[0, 0, 0],
        &[0, 0, 0, 0], // no header
        &[4, 0, 0, 0],
        &[6, 0, 0, 0], b"speed\0", &[0, 0], &[7, 0, 0, 0], &[0, 0, 0, 0, 0, 0, 0x29, 0x40], // a double at 56
        &[10, 0, 0, 0], b"direction\0", &[0, 0], &[6, 0, 0, 0], &[0, 0, 0x87, 0x43],
        &[8, 0, 0, 0], b"station\0", &[18, 0, 0, 0, 0, 0, 0, 0], &[4, 0, 0, 0], b"DV1\0",
        &[8, 0, 0, 0], b"samples\0", &[19, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0], &[3, 0, 0, 0],
        &[0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40],
        &[0, 0, 0, 0], // tk_null
    ].concat();
    assert_eq!((is_so, &bytes), (true, &by_hand));
    let by_client = client_event(("Weather", "Wind", ""), &[], &wind_fields(), &AnyValue::default(), ENCODING);
    assert_eq!((tag, bytes), by_client);
}

#[test]
fn octets_become_the_body_of_an_event_whose_header_says_the_priority() {
    let types = DeclaredTypes::default();
    let message = Message { content: Content::Octets, octets: b"abc", priority: 5, sent: 0 };
    let (event, is_so) = event_of(0, ("D", "N"), message, &types);
    assert!(is_so);
    let body = AnyValue::new(TypeCode::sequence(TypeCode::primitive(Kind::Octet)), Value::Octets(b"abc".to_vec()));
    let by_client = client_event(("D", "N", ""), &[("Priority", 5_i16.into())], &[], &body, ENCODING);
    let made = structured(&event, &types);
    assert_eq!(made, by_client);
    assert_eq!(back(None, FORM_STRUCTURED, (made.0, &made.1)), (Content::Octets, b"abc".to_vec()));
    assert_eq!(event.priority, Some(5));
}

#[test]
fn the_lowest_priority_is_that_of_the_standard() {
    let message = Message { content: Content::Octets, octets: b"", priority: i16::MIN, sent: 0 };
    assert_eq!(event_of(0, ("D", "N"), message, &DeclaredTypes::default()).0.priority, Some(-32_767));
}

// ---- there and back ----

#[test]
fn messages_of_random_types_go_through_corba_and_come_back_as_they_were() {
    for seed in 0..600 {
        let mut rng = Rng::with_seed(seed);
        let types = random_types(&mut rng);
        let declared = some_topic(&types);
        let octets = random_message(declared, &mut rng, false);
        let content = if rng.bool() { Content::Typed } else { Content::Octets };
        let message = Message { content, octets: &octets, priority: rng.i16(-3..3), sent: 0 };
        let (event, is_so) = event_of(3, ("Some", "Topic"), message, &types);
        assert!(is_so, "seed {seed}");
        let (tag, bytes) = structured(&event, &types);
        assert_eq!(
            back(Some(declared), FORM_STRUCTURED, (tag, &bytes)),
            (Content::Typed, octets.clone()),
            "seed {seed}"
        );
        // What a client sends that is of the type comes back to it.
        let again = event_of(3, ("Some", "Topic"), Message { content: Content::Typed, ..message }, &types).0;
        assert_eq!(structured(&again, &types), (tag, bytes.clone()), "seed {seed}");
        // Where nothing is declared it goes as a whole.
        let (content, whole) = back(None, FORM_STRUCTURED, (tag, &bytes));
        assert_eq!((content, &whole[..8], &whole[8..]), (Content::Structured, &[1, 0, 0, 0, 0, 0, 0, 0][..], &*bytes));
        let (event, is_so) =
            event_of(3, ("Some", "Topic"), sent(Content::Structured, &whole), &DeclaredTypes::default());
        assert!(is_so, "seed {seed}");
        assert_eq!(structured(&event, &DeclaredTypes::default()), (tag, bytes), "seed {seed}");
    }
}

#[test]
fn events_in_other_encodings_become_the_same_message() {
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let types = random_types(&mut rng);
        let declared = some_topic(&types);
        let octets = random_message(declared, &mut rng, true);
        let (event, _) = event_of(3, ("Some", "Topic"), sent(Content::Typed, &octets), &types);
        let (tag, bytes) = structured(&event, &types);
        let mut reader = event::reader(&bytes, tag);
        (0..3).for_each(|_| _ = reader.string().unwrap());
        assert_eq!(reader.u32(), Ok(0));
        let mut fields = Vec::new();
        for _ in 0..reader.u32().unwrap() {
            fields.push((reader.text().unwrap(), AnyValue::read(&mut reader, &mut Work::default()).unwrap()));
        }
        let mut fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        rng.shuffle(&mut fields);
        for endian in [Endian::Big, Endian::Little] {
            for (version, chars) in [(Version::V1_0, CharSet::Latin1), (Version::V1_2, CharSet::Utf8)] {
                let encoding = Encoding { endian, version, chars };
                let (tag, bytes) = client_event(("Some", "Topic", ""), &[], &fields, &AnyValue::default(), encoding);
                let made = back(Some(declared), FORM_STRUCTURED, (tag, &bytes));
                assert_eq!(made, (Content::Typed, octets.clone()), "seed {seed} {encoding:?}");
            }
        }
        // The whole value as the body, or as an Any.
        let code = declared.root().to_string();
        let value = as_struct(&fields, declared);
        let (tag, bytes) = client_event(("Some", "Topic", ""), &[], &[], &value, Encoding::new(Endian::Big));
        assert_eq!(
            back(Some(declared), FORM_STRUCTURED, (tag, &bytes)),
            (Content::Typed, octets.clone()),
            "{seed} {code}"
        );
        let mut any = Vec::new();
        value.write(&mut Writer::new(&mut any, ENCODING)).unwrap();
        let tag = event::tag_of(ENCODING, 0);
        assert_eq!(back(Some(declared), FORM_ANY, (tag, &any)), (Content::Typed, octets), "{seed} {code}");
    }
}

fn as_struct(fields: &[(&str, AnyValue)], declared: &DeclaredType) -> AnyValue {
    let of = |name: &str| fields.iter().find(|(field, _)| *field == name).unwrap().1.clone();
    let members: Vec<_> = declared.fields().map(|(field, _)| (field.name(), of(field.name()))).collect();
    let types: Vec<_> = members.iter().map(|(name, any)| (*name, any.type_code.clone())).collect();
    let values = members.iter().map(|(name, any)| ((*name).to_owned(), any.value.clone())).collect();
    // Another id: members count, and their names.
    let code = TypeCode::structure("IDL:client/Random:1.0", "Random", &types);
    AnyValue::new(code, Value::Struct { type_name: "Random".into(), fields: values })
}

#[test]
fn numbers_are_converted_if_nothing_is_lost() {
    let mut types = DeclaredTypes::default();
    let text = "enum E { P, Q }; struct N { octet o; short s; unsigned long long u; float f; double d; E e; sequence<double> l; };";
    types.declare(ChannelId(0), "N", text).unwrap();
    let declared = types.find(ChannelId(0), b"", b"N");
    let doubles = |values: Vec<Value>, kind| {
        AnyValue::new(TypeCode::sequence(TypeCode::primitive(kind)), Value::Sequence(values))
    };
    let fitting: Vec<(&str, AnyValue)> = vec![
        ("o", 200_i32.into()),
        ("s", (-3_i64).into()),
        ("u", u64::MAX.into()),
        ("f", 0.5_f64.into()),
        ("d", 12_i32.into()),
        ("e", "Q".into()),
        ("l", doubles(vec![Value::Long(1), Value::Long(-2)], Kind::Long)),
    ];
    let of = |fields: &[(&str, AnyValue)]| client_event(("", "N", ""), &[], fields, &AnyValue::default(), ENCODING);
    let (tag, bytes) = of(&fitting);
    let mut expected = Vec::new();
    let mut w = Writer::new(&mut expected, ENCODING);
    w.u8(200);
    w.i16(-3);
    w.u64(u64::MAX);
    w.f32(0.5);
    w.f64(12.0);
    w.u32(1);
    w.u32(2);
    w.f64(1.0);
    w.f64(-2.0);
    assert_eq!(back(declared, FORM_STRUCTURED, (tag, &bytes)), (Content::Typed, expected));
    for (name, wrong) in [
        ("o", AnyValue::from(256_i32)),
        ("o", (-1_i32).into()),
        ("o", 1.0_f64.into()),
        ("s", 40_000_i32.into()),
        ("s", true.into()),
        ("u", (-1_i16).into()),
        ("f", 0.1_f64.into()),
        ("f", "1".into()),
        ("d", ((1_i64 << 53) + 1).into()),
        ("e", "R".into()),
        ("e", 1_i32.into()),
        ("l", doubles(vec![Value::LongLong(i64::MAX)], Kind::LongLong)),
        ("l", 1.0_f64.into()),
    ] {
        let mut fields = fitting.clone();
        fields.iter_mut().find(|(field, _)| *field == name).unwrap().1 = wrong.clone();
        let (tag, bytes) = of(&fields);
        assert_eq!(back(declared, FORM_STRUCTURED, (tag, &bytes)).0, Content::Structured, "{name}: {wrong:?}");
    }
}

#[test]
fn an_event_with_more_than_the_type_has_goes_as_a_whole() {
    let types = wind();
    let null = AnyValue::default();
    let content = |names, header: &[(&str, AnyValue)], fields: &[(&str, AnyValue)], body: &AnyValue| {
        let (tag, bytes) = client_event(names, header, fields, body, ENCODING);
        let (content, made) = back(wind_type(&types), FORM_STRUCTURED, (tag, &bytes));
        if content == Content::Structured {
            assert_eq!(&made[8..], bytes);
        }
        content
    };
    let (plain, fields) = (("Weather", "Wind", ""), wind_fields());
    assert_eq!(
        content(plain, &[("Timeout", 600_u64.into())], &fields, &null),
        Content::Typed,
        "the service saw to that"
    );
    assert_eq!(content(("Weather", "Wind", "gust"), &[], &fields, &null), Content::Structured);
    assert_eq!(content(plain, &[("site", "north".into())], &fields, &null), Content::Structured);
    assert_eq!(content(plain, &[], &fields, &1_i32.into()), Content::Structured);
    assert_eq!(content(plain, &[], &fields[1..], &null), Content::Structured);
    assert_eq!(content(plain, &[], &[&fields[..], &fields[..1]].concat(), &null), Content::Structured);
    let twice = [&fields[..3], &fields[..1]].concat();
    assert_eq!(content(plain, &[], &twice, &null), Content::Structured);
    assert_eq!(content(plain, &[], &[], &null), Content::Structured);
    let octets = AnyValue::new(TypeCode::sequence(TypeCode::primitive(Kind::Octet)), Value::Octets(vec![1]));
    assert_eq!(content(plain, &[], &[], &octets), Content::Octets);
    let bounded =
        AnyValue::new(TypeCode::bounded_sequence(TypeCode::primitive(Kind::Octet), 4), Value::Octets(vec![1]));
    assert_eq!(content(plain, &[], &[], &bounded), Content::Structured);
}

#[test]
fn an_event_in_latin_letters_goes_in_utf_8() {
    let encoding = Encoding::new(Endian::Big);
    let (tag, bytes) =
        client_event(("Mété", "Vent", "n° 7"), &[], &[("x", "é".into())], &AnyValue::default(), encoding);
    let (content, made) = back(None, FORM_STRUCTURED, (tag, &bytes));
    let utf8 = Encoding { chars: CharSet::Utf8, ..encoding };
    let expected = client_event(("Mété", "Vent", "n° 7"), &[], &[("x", "é".into())], &AnyValue::default(), utf8).1;
    assert_eq!((content, &made[..8], &made[8..]), (Content::Structured, &[0; 8][..], &*expected));
    let mut types = DeclaredTypes::default();
    types.declare(ChannelId(0), "T", "struct S { string x; };").unwrap();
    let (tag, bytes) = client_event(("", "T", ""), &[], &[("x", "é".into())], &AnyValue::default(), encoding);
    let made = back(types.find(ChannelId(0), b"", b"T"), FORM_STRUCTURED, (tag, &bytes));
    assert_eq!(made, (Content::Typed, vec![3, 0, 0, 0, 0xc3, 0xa9, 0]));
}

// ---- what is not what it says ----

#[test]
fn a_message_that_is_not_what_its_publisher_says_is_octets_to_others() {
    let types = wind();
    let foreign = client_event(("Weather", "Rain", ""), &[], &[], &AnyValue::default(), ENCODING).1;
    let own = client_event(("Weather", "Wind", ""), &[], &[], &AnyValue::default(), ENCODING).1;
    let framed = |prefix: [u8; 8], event: &[u8]| [&prefix[..], event].concat();
    let little = [1, 0, 0, 0, 0, 0, 0, 0];
    for (content, octets) in [
        (Content::Typed, message()[..35].to_vec()),
        (Content::Typed, Vec::new()),
        (Content::Structured, Vec::new()),
        (Content::Structured, little.to_vec()),
        (Content::Structured, framed(little, &foreign)),
        (Content::Structured, framed(little, &own[..own.len() - 1])),
        (Content::Structured, framed(little, &[&own[..], &[0]].concat())),
        (Content::Structured, framed([2, 0, 0, 0, 0, 0, 0, 0], &own)),
        (Content::Structured, framed([1, 0, 0, 0, 0, 0, 0, 9], &own)),
    ] {
        let (event, is_so) = event_of(0, WIND_TYPE, sent(content, &octets), &types);
        assert!(!is_so, "{content:?} {octets:?}");
        assert_eq!(message_of(&event).unwrap(), sent(content, &octets), "subscribers of Tempo get it");
        let (tag, bytes) = structured(&event, &types);
        assert_eq!(back(None, FORM_STRUCTURED, (tag, &bytes)), (Content::Octets, octets));
    }
    let (event, is_so) = event_of(0, WIND_TYPE, sent(Content::Structured, &framed(little, &own)), &types);
    assert!(is_so);
    assert_eq!(structured(&event, &types).1, own);
}

#[test]
fn what_a_structured_event_says_of_its_quality_of_service_counts() {
    let header = [("Priority", AnyValue::from(9_i16)), ("Timeout", 600_u64.into())];
    let own = client_event(("D", "N", ""), &header, &[], &AnyValue::default(), ENCODING).1;
    let octets = [&[1, 0, 0, 0, 0, 0, 0, 0][..], &own].concat();
    let message = Message { content: Content::Structured, octets: &octets, priority: 2, sent: 0 };
    let (event, is_so) = event_of(0, ("D", "N"), message, &DeclaredTypes::default());
    assert!(is_so);
    assert_eq!((event.priority, event.timeout), (Some(9), Some(core::time::Duration::from_micros(60))));
}

#[test]
fn a_message_kept_by_a_process_in_which_the_type_was_another_is_octets() {
    let (before, mut now) = (wind(), DeclaredTypes::default());
    now.declare(ChannelId(0), "Weather/Wind", "struct Wind { string all; };").unwrap();
    let (event, _) = event_of(0, WIND_TYPE, sent(Content::Typed, message()), &before);
    for types in [now, DeclaredTypes::default()] {
        let (tag, bytes) = structured(&event, &types);
        assert_eq!(back(None, FORM_STRUCTURED, (tag, &bytes)), (Content::Octets, message().to_vec()));
        let spare = Cell::default();
        let fields = MessageFields::new(&event, &types, &spare, 0);
        assert!(fields.field(&named("speed"), &mut Steps::new(1000)).is_none());
    }
}

#[test]
fn no_octets_make_it_panic() {
    let types = wind();
    let whole = client_event(
        ("Weather", "Wind", ""),
        &[("Priority", 1_i16.into())],
        &wind_fields(),
        &AnyValue::default(),
        ENCODING,
    );
    let framed = [&[1, 0, 0, 0, 0, 0, 0, 0][..], &whole.1].concat();
    let mut rng = Rng::with_seed(11);
    for _ in 0..20_000 {
        let mut octets = if rng.bool() { message().to_vec() } else { framed.clone() };
        (0..rng.usize(0..4)).for_each(|_| {
            let at = rng.usize(..octets.len());
            octets[at] = rng.u8(..);
        });
        octets.truncate(rng.usize(..=octets.len()));
        let content = [Content::Octets, Content::Typed, Content::Structured][rng.usize(..3)];
        let (event, _) = event_of(0, WIND_TYPE, sent(content, &octets), &types);
        let (tag, bytes) = structured(&event, &types);
        drop(back(wind_type(&types), FORM_STRUCTURED, (tag, &bytes)));
        let spare = Cell::default();
        let fields = MessageFields::new(&event, &types, &spare, 0);
        for path in paths(&["speed", "station", "samples"]) {
            let _ = fields.field(&path, &mut Steps::new(10_000));
        }
        // As if it came through CORBA.
        let mut changed = whole.1.clone();
        (0..rng.usize(1..4)).for_each(|_| {
            let at = rng.usize(..changed.len());
            changed[at] = rng.u8(..);
        });
        let _ = write_message(wind_type(&types), (FORM_STRUCTURED, whole.0, &changed), &mut Vec::new());
        let _ = write_message(wind_type(&types), (FORM_ANY, whole.0, &changed), &mut Vec::new());
    }
}

// ---- filters ----

use std::cell::Cell;

fn named(name: &str) -> Path {
    Path { root: Root::Name(name.into()), parts: Box::default() }
}

/// Paths of all sorts, from each of these fields on.
fn paths(fields: &[&str]) -> Vec<Path> {
    let texts = [
        "$domain_name",
        "$type_name",
        "$event_name",
        "$priority",
        "$Priority",
        "$timeout",
        "$event_type",
        "$header",
        "$missing",
        "$.domain_name",
        "$.type_name",
        "$.header.fixed_header.event_type.type_name",
        "$.header.variable_header(Priority)",
        "$.header.fixed_header.event_type",
        "$event_type.domain_name",
        "$.header.variable_header._length",
        "$.missing",
        "$filterable_data",
        "$.filterable_data",
        "$.filterable_data._length",
        "$.filterable_data(missing)",
        "$.filterable_data[0].name",
        "$.filterable_data[1].value",
        "$.remainder_of_body",
        "$.remainder_of_body._length",
        "$.remainder_of_body[0]",
        "$remainder_of_body",
        "$.1",
        "$.0.0.1",
        "$._type_id",
        "$type_name._type_id",
        "$.2._length",
    ];
    let mut all: Vec<Path> = texts.iter().map(|text| path(text)).collect();
    for field in fields {
        for text in [
            format!("${field}"),
            format!("$.{field}"),
            format!("$.filterable_data({field})"),
            format!("${field}._length"),
            format!("${field}._type_id"),
            format!("${field}[0]"),
            format!("$.filterable_data({field})[1]"),
            format!("${field}.x"),
            format!("${field}.0"),
            format!("${field}[0].name"),
        ] {
            all.push(path(&text));
        }
    }
    all
}

/// The path of a text: as it stands in the tree of a constraint that only asks whether it exists.
fn path(text: &str) -> Path {
    let mut rest = text.strip_prefix('$').unwrap();
    let word = |rest: &str| rest.find(['.', '[', '(']).unwrap_or(rest.len());
    let length = word(rest);
    let (name, behind) = rest.split_at(length);
    let root = if name.is_empty() { Root::Event } else { Root::Name(name.into()) };
    rest = behind;
    let mut parts = Vec::new();
    while let Some(first) = rest.chars().next() {
        rest = &rest[1..];
        let (end, skip) = match first {
            '[' => (rest.find(']').unwrap(), 1),
            '(' => (rest.find(')').unwrap(), 1),
            _ => (word(rest), 0),
        };
        let (inner, behind) = rest.split_at(end);
        rest = &behind[skip..];
        parts.push(match (first, inner) {
            ('[', index) => Part::Element(index.parse().unwrap()),
            ('(', name) => Part::Named(name.into()),
            (_, "_length") => Part::Length,
            (_, "_type_id") => Part::TypeId,
            (_, inner) => inner.parse().map_or_else(|_| Part::Member(inner.into()), Part::Position),
        });
    }
    Path { root, parts: parts.into() }
}

fn shown(value: Option<FieldValue<'_>>) -> String {
    match value {
        Some(FieldValue::Float(value)) => format!("Float({:x})", value.to_bits()),
        value => format!("{value:?}"),
    }
}

#[test]
fn filters_read_of_a_message_what_they_would_read_of_the_event_that_it_becomes() {
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let mut types = random_types(&mut rng);
        types.declare(ChannelId(3), "", "struct A { long x; }").unwrap_err();
        let octets = match rng.u8(..4) {
            0 => (0..rng.usize(..20)).map(|_| rng.u8(..)).collect(),
            _ => random_message(some_topic(&types), &mut rng, false),
        };
        let content = if rng.bool() { Content::Typed } else { Content::Octets };
        let names = if rng.u8(..8) == 0 { ("", "%ANY") } else { ("Some", "Topic") };
        let message = Message { content, octets: &octets, priority: rng.i16(-2..3), sent: 0 };
        let (event, _) = event_of(3, names, message, &types);
        let (tag, bytes) = structured(&event, &types);
        let expected = event::fields_of_structured(event::reader(&bytes, tag), 77);
        let spare = Cell::default();
        let fields = MessageFields::new(&event, &types, &spare, 77);
        let names: Vec<String> = some_topic(&types).fields().map(|(field, _)| field.name().to_owned()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for path in paths(&names) {
            let (mut a, mut b) = (Steps::new(100_000), Steps::new(100_000));
            let (is, should) = (fields.field(&path, &mut a), expected.field(&path, &mut b));
            assert_eq!(shown(is), shown(should), "seed {seed}: {path}");
            for needle in [FieldValue::Int(0), FieldValue::Text(filter::Text::new("a")), FieldValue::Bool(true)] {
                let is = fields.contains(&path, &needle, &mut Steps::new(100_000));
                let should = expected.contains(&path, &needle, &mut Steps::new(100_000));
                assert_eq!(is, should, "seed {seed}: {path} has {needle:?}");
            }
        }
        assert_eq!(fields.current_time(), 77);
    }
}

#[test]
fn a_constraint_decides_on_a_message_as_on_the_event() {
    let types = wind();
    let message = Message { content: Content::Typed, octets: message(), priority: 4, sent: 0 };
    let (event, _) = event_of(0, WIND_TYPE, message, &types);
    let forms = Forms::new(std::sync::Arc::new(wind()));
    let says = |text: &str| {
        let constraint = Constraint::parse(text, &Limits::default()).expect(text);
        let verdict = constraint.matches(&forms.fields(&event, 0), &mut Steps::new(10_000));
        verdict == Verdict::Match
    };
    for yes in [
        "$speed > 12 and $direction == 270",
        "$station == 'DV1' and $type_name == 'Wind' and $domain_name == 'Weather'",
        "$.filterable_data(speed) < 13",
        "3 in $samples and $samples._length == 3",
        "$priority == 4",
        "exist $speed and not exist $gust",
        "$.filterable_data._length == 4",
    ] {
        assert!(says(yes), "{yes}");
    }
    for no in ["$speed > 12.5", "$gust > 1", "$priority < 4", "4 in $samples"] {
        assert!(!says(no), "{no}");
    }
}

#[test]
fn the_buffer_of_the_event_that_a_filter_has_made_is_kept() {
    let types = wind();
    let (event, _) = event_of(0, WIND_TYPE, sent(Content::Typed, message()), &types);
    let spare = Cell::default();
    let ask = |text| {
        let fields = MessageFields::new(&event, &types, &spare, 0);
        assert!(fields.field(&path(text), &mut Steps::new(1000)).is_some(), "{text}");
    };
    ask("$speed");
    ask("$type_name");
    let buffer = spare.take();
    assert_eq!(buffer.capacity(), 0, "nothing was made for that");
    spare.set(buffer);
    ask("$.filterable_data._length");
    let buffer = spare.take();
    assert!(buffer.capacity() > 0);
    let (at, capacity) = (buffer.as_ptr(), buffer.capacity());
    spare.set(buffer);
    ask("$.filterable_data[0].name");
    let buffer = spare.take();
    assert_eq!((buffer.as_ptr(), buffer.capacity()), (at, capacity));
}

#[test]
fn without_steps_nothing_is_read() {
    let types = wind();
    let (event, _) = event_of(0, WIND_TYPE, sent(Content::Typed, message()), &types);
    let spare = Cell::default();
    let fields = MessageFields::new(&event, &types, &spare, 0);
    for path in paths(&["speed", "samples"]) {
        let mut steps = Steps::new(0);
        assert!(
            fields.field(&path, &mut steps).is_none()
                && fields.contains(&path, &FieldValue::Int(1), &mut steps).is_none()
        );
    }
}
