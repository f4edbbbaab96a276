//! Declared types, and messages of random ones.

use super::*;
use fastrand::Rng;

pub(crate) const WIND: &str =
    "struct Wind { double speed; float direction; string station; sequence<float> samples; };";

pub(crate) fn wind() -> DeclaredTypes {
    let mut types = DeclaredTypes::default();
    types.declare(ChannelId(0), "Weather/Wind", WIND).unwrap();
    types
}

/// A message of [`WIND`], octet by octet.
pub(crate) const MESSAGE: [u8; 40] = [
    0, 0, 0, 0, 0, 0, 0x29, 0x40, // 12.5
    0, 0, 0x87, 0x43, // 270
    4, 0, 0, 0, b'D', b'V', b'1', 0, // "DV1"
    3, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40, // 1, 2, 3
    0, 0, 0, 0, // see `message`
];

pub(crate) fn message() -> &'static [u8] {
    &MESSAGE[..36]
}

/// The text of a struct of some members.
pub(crate) fn random_type(rng: &mut Rng) -> String {
    let mut text =
        String::from("enum Colour { RED, GREEN, BLUE }; struct Point { octet flag; double x; string name; };");
    text.push_str("struct Random {");
    for member in 0..rng.usize(1..9) {
        let array = if rng.u8(..6) == 0 { format!("[{}]", rng.u32(1..4)) } else { String::new() };
        text.push_str(&format!("{} m{member}{array};", random_member(rng, 3)));
    }
    text.push('}');
    text
}

fn random_member(rng: &mut Rng, depth: u32) -> String {
    const SIMPLE: [&str; 16] = [
        "boolean",
        "octet",
        "char",
        "short",
        "unsigned short",
        "long",
        "unsigned long",
        "long long",
        "unsigned long long",
        "float",
        "double",
        "string",
        "string<8>",
        "Colour",
        "Point",
        "octet",
    ];
    match rng.u8(..10) {
        0 | 1 if depth > 0 => format!("sequence<{}>", random_member(rng, depth - 1)),
        2 if depth > 0 => format!("sequence<{}, 5>", random_member(rng, depth - 1)),
        _ => SIMPLE[rng.usize(..SIMPLE.len())].to_owned(),
    }
}

/// Writes some value of a type. `ascii`: whether its text has no other characters.
pub(crate) fn random_value(of: TypeRef<'_>, rng: &mut Rng, ascii: bool, out: &mut Writer<'_>) {
    let of = of.resolved();
    match of.kind() {
        Kind::Boolean => out.bool(rng.bool()),
        Kind::Octet => out.u8(rng.u8(..)),
        Kind::Char => out.u8(rng.u8(..128)),
        Kind::Short => out.i16(rng.i16(..)),
        Kind::UShort => out.u16(rng.u16(..)),
        Kind::Long => out.i32(rng.i32(..)),
        Kind::ULong => out.u32(rng.u32(..)),
        Kind::LongLong => out.i64(rng.i64(..)),
        Kind::ULongLong => out.u64(rng.u64(..)),
        Kind::Float => out.f32(rng.f32() * 1e3),
        Kind::Double => out.f64(rng.f64() * 1e3),
        Kind::Enum => out.u32(rng.u32(..u32::try_from(of.member_count()).unwrap())),
        Kind::String => {
            let texts = if ascii { ["", "a", "north", "x y"] } else { ["", "ä", "nörd", "鐘"] };
            out.string(texts[rng.usize(..4)]);
        }
        Kind::Struct => of.members().for_each(|member| random_value(member.type_ref(), rng, ascii, out)),
        Kind::Array => (0..of.length()).for_each(|_| random_value(of.content().unwrap(), rng, ascii, out)),
        Kind::Sequence => {
            let count = rng.u32(..of.bound().unwrap_or(12).min(4) + 1);
            out.u32(count);
            (0..count).for_each(|_| random_value(of.content().unwrap(), rng, ascii, out));
        }
        kind => panic!("{kind:?}"),
    }
}

pub(crate) fn random_message(declared: &DeclaredType, rng: &mut Rng, ascii: bool) -> Vec<u8> {
    let mut message = Vec::new();
    random_value(declared.root(), rng, ascii, &mut Writer::new(&mut message, ENCODING));
    message
}

pub(crate) fn random_types(rng: &mut Rng) -> DeclaredTypes {
    let (mut types, text) = (DeclaredTypes::default(), random_type(rng));
    types.declare(ChannelId(3), "Some/Topic", &text).expect(&text);
    types
}

pub(crate) fn some_topic(types: &DeclaredTypes) -> &DeclaredType {
    types.find(ChannelId(3), b"Some", b"Topic").unwrap()
}

#[test]
fn types_are_found_by_channel_and_topic_and_nothing_else() {
    let mut types = wind();
    types.declare(ChannelId(0), "Plain", "struct Plain { long x; }").unwrap();
    types.declare(ChannelId(7), "Weather/Wind", "struct Other { long y; }").unwrap();
    let first = |channel, domain: &[u8], name: &[u8]| {
        let found = types.find(ChannelId(channel), domain, name)?;
        found.fields().next().map(|(field, _)| field.name().to_owned())
    };
    assert_eq!(first(0, b"Weather", b"Wind").as_deref(), Some("speed"));
    assert_eq!(first(0, b"", b"Plain").as_deref(), Some("x"));
    assert_eq!(first(7, b"Weather", b"Wind").as_deref(), Some("y"));
    for (channel, domain, name) in
        [(1, "Weather", "Wind"), (0, "Weather", "Rain"), (0, "Weathe", "rWind"), (7, "", "Plain")]
    {
        assert_eq!(first(channel, domain.as_bytes(), name.as_bytes()), None);
    }
    assert!(DeclaredTypes::default().find(ChannelId(0), b"Weather", b"Wind").is_none());
}

#[test]
fn what_cannot_be_declared_is_said_with_the_reason() {
    let mut types = wind();
    let mut error = |topic: &str, text: &str| types.declare(ChannelId(0), topic, text).unwrap_err().to_string();
    assert_eq!(error("Weather/Wind", WIND), "it has a type already");
    assert_eq!(error("", WIND), "a topic has 1 to 255 octets and no control characters");
    assert_eq!(error(&"a".repeat(256), WIND), "a topic has 1 to 255 octets and no control characters");
    assert_eq!(error("a\nb", WIND), "a topic has 1 to 255 octets and no control characters");
    assert_eq!(error("A", "struct A"), "its type is not understood: line 1, column 9: expected `{`, found the end");
    assert!(error("A", &" ".repeat(TEXT_MAX + 1)).contains("65536 are the most"));
}

#[test]
fn a_message_is_what_the_type_says_and_nothing_more() {
    let types = wind();
    let declared = types.find(ChannelId(0), b"Weather", b"Wind").unwrap();
    declared.check(message()).unwrap();
    for length in 0..message().len() {
        assert!(declared.check(&message()[..length]).is_err(), "{length} octets");
    }
    assert!(declared.check(&MESSAGE).is_err(), "there are octets behind it");
}

#[test]
fn values_that_no_reader_could_take_are_refused() {
    let check = |text: &str, message: &[u8]| {
        let mut types = DeclaredTypes::default();
        types.declare(ChannelId(3), "Some/Topic", text).unwrap();
        some_topic(&types).check(message)
    };
    for (text, good, bad) in [
        ("struct A { boolean x; }", &[1_u8][..], &[2_u8][..]),
        ("struct A { sequence<boolean> x; }", &[2, 0, 0, 0, 0, 1], &[2, 0, 0, 0, 0, 3]),
        ("enum E { P, Q }; struct A { E x; }", &[1, 0, 0, 0], &[2, 0, 0, 0]),
        ("struct A { string x; }", &[2, 0, 0, 0, b'a', 0], &[2, 0, 0, 0, b'a', b'b']),
        ("struct A { string x; }", &[3, 0, 0, 0, 0xc3, 0xa4, 0], &[3, 0, 0, 0, 0xc3, 0xc3, 0]),
        ("struct A { string x; }", &[0, 0, 0, 0], &[3, 0, 0, 0, b'a', 0, 0]),
        ("struct A { string<1> x; }", &[2, 0, 0, 0, b'a', 0], &[3, 0, 0, 0, b'a', b'b', 0]),
        ("struct A { sequence<octet, 1> x; }", &[1, 0, 0, 0, 9], &[2, 0, 0, 0, 9, 9]),
        ("struct A { octet x[2]; }", &[1, 2], &[1]),
        ("struct A { sequence<octet> x; }", &[0, 0, 0, 0], &[255, 255, 255, 255]),
        ("struct A { sequence<double> x; }", &[0, 0, 0, 0], &[255, 255, 255, 255, 0, 0, 0, 0]),
        ("struct B { string t; }; struct A { sequence<B> x; }", &[0, 0, 0, 0], &[255, 255, 255, 127]),
    ] {
        assert!(check(text, good).is_ok(), "{text} {good:?}: {:?}", check(text, good));
        assert!(check(text, bad).is_err(), "{text} {bad:?}");
    }
}

#[test]
fn random_messages_are_of_their_types_and_what_is_made_of_them_by_chance_ends() {
    for seed in 0..400 {
        let mut rng = Rng::with_seed(seed);
        let types = random_types(&mut rng);
        let declared = some_topic(&types);
        let message = random_message(declared, &mut rng, false);
        declared.check(&message).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for (place, (field, _)) in declared.fields().enumerate() {
            assert_eq!(declared.place_of(field.name().as_bytes()), Some(place));
            assert!(declared.field(&message, field.name(), |_| ()).is_some(), "seed {seed}: {}", field.name());
        }
        for _ in 0..20 {
            let mut changed = message.clone();
            (0..rng.usize(1..4)).for_each(|_| {
                let at = rng.usize(..changed.len());
                changed[at] = rng.u8(..);
            });
            changed.truncate(rng.usize(..=changed.len()));
            let _ = declared.check(&changed);
            declared.fields().for_each(|(field, _)| _ = declared.field(&changed, field.name(), |_| ()));
            let _ = declared.write_properties(&changed, &mut Writer::new(&mut Vec::new(), ENCODING));
        }
    }
}

#[test]
fn names_of_topics_are_parted_at_the_first_slash() {
    assert_eq!(names_of("Weather/Wind"), ("Weather", "Wind"));
    assert_eq!(names_of("Plain"), ("", "Plain"));
    assert_eq!(names_of("a/b/c"), ("a", "b/c"));
}
