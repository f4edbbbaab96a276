//! Random types, and random values of them.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use campanile_giop::cdr::Version;
use campanile_giop::ior::{IiopProfile, Ior, Profile};
use campanile_giop::typecode::{Kind, TypeCode, TypeRef};
use campanile_giop::value::{AnyValue, Value};
use fastrand::Rng;

fn word(rng: &mut Rng) -> String {
    (0..rng.usize(1..8)).map(|_| rng.alphabetic()).collect()
}

fn id(rng: &mut Rng) -> String {
    format!("IDL:random/{}{}:1.0", word(rng), rng.u32(..))
}

const PRIMITIVES: [Kind; 20] = [
    Kind::Null,
    Kind::Void,
    Kind::Short,
    Kind::Long,
    Kind::UShort,
    Kind::ULong,
    Kind::Float,
    Kind::Double,
    Kind::Boolean,
    Kind::Char,
    Kind::Octet,
    Kind::Any,
    Kind::TypeCode,
    Kind::Principal,
    Kind::LongLong,
    Kind::ULongLong,
    Kind::LongDouble,
    Kind::Wchar,
    Kind::String,
    Kind::Wstring,
];

/// A random type of which values can be made, no deeper than `depth`.
pub(crate) fn random_type(rng: &mut Rng, depth: u32) -> TypeCode {
    if rng.bool() {
        return random_type_within(rng, depth, &mut Vec::new());
    }
    // Something that has neighbours to lie between.
    let id = id(rng);
    let mut enclosing = vec![id.clone()];
    let members: Vec<_> = (0..rng.usize(1..6))
        .map(|_| (word(rng), random_type_within(rng, depth.saturating_sub(1), &mut enclosing)))
        .collect();
    TypeCode::structure(&id, &word(rng), &borrowed(&members))
}

fn random_type_within(rng: &mut Rng, depth: u32, enclosing: &mut Vec<String>) -> TypeCode {
    if depth == 0 || rng.u8(..4) == 0 {
        return TypeCode::primitive(rng.choice(PRIMITIVES).unwrap());
    }
    let members = |rng: &mut Rng, enclosing: &mut Vec<String>| -> Vec<(String, TypeCode)> {
        (0..rng.usize(..5)).map(|_| (word(rng), random_type_within(rng, depth - 1, enclosing))).collect()
    };
    match rng.u8(..13) {
        0 => TypeCode::bounded_string(rng.u32(8..20)),
        1 => TypeCode::bounded_wstring(rng.u32(8..20)),
        2 => {
            let digits = rng.u16(1..=31);
            TypeCode::fixed(digits, i16::try_from(rng.u16(..=digits)).unwrap())
        }
        3 => TypeCode::object(&id(rng), &word(rng)),
        4 => random_enum(rng),
        5 => {
            let bound = if rng.bool() { 0 } else { rng.u32(8..20) };
            TypeCode::bounded_sequence(random_type_within(rng, depth - 1, enclosing), bound)
        }
        6 => {
            let length = rng.u32(..5);
            TypeCode::array(random_type_within(rng, depth - 1, enclosing), length)
        }
        7 => {
            let (id, name) = (id(rng), word(rng));
            TypeCode::alias(&id, &name, random_type_within(rng, depth - 1, enclosing))
        }
        // Within a sequence, since otherwise no value would ever end.
        8 if !enclosing.is_empty() => {
            TypeCode::sequence(TypeCode::recursive(&rng.choice(enclosing.iter()).unwrap().clone()))
        }
        9 => {
            let members = members(rng, enclosing);
            TypeCode::exception(&id(rng), &word(rng), &borrowed(&members))
        }
        10 => random_union(rng, depth, enclosing),
        _ => {
            let (id, name) = (id(rng), word(rng));
            enclosing.push(id.clone());
            let members = members(rng, enclosing);
            enclosing.pop();
            TypeCode::structure(&id, &name, &borrowed(&members))
        }
    }
}

fn borrowed(members: &[(String, TypeCode)]) -> Vec<(&str, TypeCode)> {
    members.iter().map(|(name, code)| (name.as_str(), code.clone())).collect()
}

fn random_enum(rng: &mut Rng) -> TypeCode {
    let labels: Vec<String> = (0..rng.usize(1..6)).map(|_| word(rng)).collect();
    TypeCode::enumeration(&id(rng), &word(rng), &labels.iter().map(String::as_str).collect::<Vec<_>>())
}

fn random_union(rng: &mut Rng, depth: u32, enclosing: &mut Vec<String>) -> TypeCode {
    let kinds = [
        Kind::Short,
        Kind::Long,
        Kind::UShort,
        Kind::ULong,
        Kind::LongLong,
        Kind::ULongLong,
        Kind::Boolean,
        Kind::Char,
        Kind::Octet,
        Kind::Wchar,
        Kind::Enum,
    ];
    let kind = rng.choice(kinds).unwrap();
    let mut discriminator = if kind == Kind::Enum { random_enum(rng) } else { TypeCode::primitive(kind) };
    let most = match kind {
        Kind::Boolean => 2,
        Kind::Enum => discriminator.root().member_count(),
        _ => 5,
    };
    if rng.bool() {
        discriminator = TypeCode::alias(&id(rng), &word(rng), discriminator);
    }
    // Labels that differ and that every kind can have.
    let mut members: Vec<(Option<i64>, String, TypeCode)> = (0..rng.usize(..=most))
        .map(|label| {
            let negative = matches!(kind, Kind::Short | Kind::Long | Kind::LongLong) && label == 3;
            let label = i64::try_from(label).unwrap();
            let label = if negative { -label } else { label };
            (Some(label), word(rng), random_type_within(rng, depth - 1, enclosing))
        })
        .collect();
    if !members.is_empty() && rng.bool() {
        let default = rng.usize(..members.len());
        members[default].0 = None;
    }
    let members: Vec<_> = members.iter().map(|(label, name, code)| (*label, name.as_str(), code.clone())).collect();
    TypeCode::union(&id(rng), &word(rng), discriminator, &members)
}

/// A random value of that type.
pub(crate) fn random_value(rng: &mut Rng, code: TypeRef<'_>, depth: u32) -> Value {
    let of = code.resolved();
    let type_name = || String::from(of.name());
    match of.kind() {
        Kind::Null => Value::Null,
        Kind::Void => Value::Void,
        Kind::Short => Value::Short(rng.i16(..)),
        Kind::Long => Value::Long(rng.i32(..)),
        Kind::UShort => Value::UShort(rng.u16(..)),
        Kind::ULong => Value::ULong(rng.u32(..)),
        Kind::LongLong => Value::LongLong(rng.i64(..)),
        Kind::ULongLong => Value::ULongLong(rng.u64(..)),
        Kind::Float => Value::Float(rng.f32() * 1e6),
        Kind::Double => Value::Double(rng.f64() * 1e12),
        Kind::LongDouble => Value::LongDouble(std::array::from_fn(|_| rng.u8(..))),
        Kind::Boolean => Value::Bool(rng.bool()),
        Kind::Char => Value::Char(rng.char(' '..='~')),
        Kind::Octet => Value::Octet(rng.u8(..)),
        Kind::Wchar => {
            Value::Wchar(if rng.bool() { rng.char('\u{1}'..='\u{D7FF}') } else { rng.char('\u{E000}'..='\u{FFFD}') })
        }
        Kind::String => Value::String(random_text(rng, '\u{1}'..='\u{FF}')),
        Kind::Wstring => Value::Wstring(random_text(rng, '\u{1}'..=char::MAX)),
        Kind::Fixed => Value::Fixed(random_fixed(rng, usize::from(of.digits()), usize::try_from(of.scale()).unwrap())),
        Kind::Any => {
            let code = random_type(rng, depth.min(2));
            let value = random_value(rng, code.root(), depth.saturating_sub(1));
            Value::Any(Box::new(AnyValue::new(code, value)))
        }
        Kind::TypeCode => Value::TypeCode(Box::new(random_type(rng, depth.min(3)))),
        Kind::Principal => Value::Octets((0..rng.usize(..9)).map(|_| rng.u8(..)).collect()),
        Kind::Object => Value::Object(random_reference(rng)),
        Kind::Enum => {
            let index = rng.usize(..of.member_count());
            let label = of.member(index).unwrap().name().into();
            Value::Enum { type_name: type_name(), label, index: u32::try_from(index).unwrap() }
        }
        Kind::Struct => Value::Struct { type_name: type_name(), fields: random_fields(rng, of, depth) },
        Kind::Exception => Value::Exception { type_name: type_name(), fields: random_fields(rng, of, depth) },
        Kind::Union => random_union_value(rng, of, depth),
        Kind::Sequence | Kind::Array => {
            let array = of.kind() == Kind::Array;
            let most = if depth == 0 { 0 } else { of.bound().unwrap_or(8).min(8) };
            let length = if array { of.length() } else { rng.u32(..=most) };
            let element = of.content().unwrap().resolved();
            if element.kind() == Kind::Octet {
                return Value::Octets((0..length).map(|_| rng.u8(..)).collect());
            }
            let values = (0..length).map(|_| random_value(rng, element, depth.saturating_sub(1))).collect();
            if array { Value::Array(values) } else { Value::Sequence(values) }
        }
        kind => panic!("no values of {kind} are made"),
    }
}

fn random_fields(rng: &mut Rng, of: TypeRef<'_>, depth: u32) -> Vec<(String, Value)> {
    of.members()
        .map(|member| (member.name().into(), random_value(rng, member.type_ref(), depth.saturating_sub(1))))
        .collect()
}

fn random_union_value(rng: &mut Rng, of: TypeRef<'_>, depth: u32) -> Value {
    let by = of.discriminator().unwrap().resolved();
    // Often one of the labels, and often none.
    let number = rng.u8(..6);
    let discriminator = match by.kind() {
        Kind::Boolean => Value::Bool(number.is_multiple_of(2)),
        Kind::Char => Value::Char(char::from(number)),
        Kind::Octet => Value::Octet(number),
        Kind::Wchar => Value::Wchar(char::from(number)),
        Kind::Short => Value::Short(if number == 3 { -3 } else { i16::from(number) }),
        Kind::UShort => Value::UShort(number.into()),
        Kind::Long => Value::Long(if number == 3 { -3 } else { i32::from(number) }),
        Kind::ULong => Value::ULong(number.into()),
        Kind::LongLong => Value::LongLong(if number == 3 { -3 } else { i64::from(number) }),
        Kind::ULongLong => Value::ULongLong(number.into()),
        _ => random_value(rng, by, depth),
    };
    let bits = match &discriminator {
        Value::Bool(v) => i64::from(*v),
        Value::Char(c) | Value::Wchar(c) => i64::from(u32::from(*c)),
        Value::Octet(v) => i64::from(*v),
        Value::Short(v) => i64::from(*v),
        Value::UShort(v) => i64::from(*v),
        Value::Long(v) => i64::from(*v),
        Value::ULong(v) => i64::from(*v),
        Value::LongLong(v) => *v,
        Value::ULongLong(v) => v.cast_signed(),
        Value::Enum { index, .. } => i64::from(*index),
        other => panic!("{other} discriminates nothing"),
    };
    let chosen = of.members().find(|member| member.label() == Some(bits));
    let chosen = chosen.or_else(|| of.member(of.default_index()?));
    let member = chosen
        .map(|member| (member.name().into(), Box::new(random_value(rng, member.type_ref(), depth.saturating_sub(1)))));
    Value::Union { type_name: of.name().into(), discriminator: Box::new(discriminator), member }
}

fn random_text(rng: &mut Rng, range: std::ops::RangeInclusive<char>) -> String {
    (0..rng.usize(..8)).map(|_| rng.char(range.clone())).collect()
}

fn random_fixed(rng: &mut Rng, digits: usize, scale: usize) -> String {
    let mut text: String = (0..digits).map(|_| rng.digit(10)).collect();
    let fraction = text.split_off(digits - scale);
    let whole = text.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let sign = if rng.bool() { "-" } else { "" };
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

fn random_reference(rng: &mut Rng) -> Ior {
    if rng.bool() {
        return Ior::nil();
    }
    let profile = IiopProfile {
        version: Version::V1_2,
        host: word(rng),
        port: rng.u16(..),
        key: (0..rng.usize(..20)).map(|_| rng.u8(..)).collect(),
        components: Vec::new(),
    };
    let other = Profile::Other { tag: 0x1234_5678, data: (0..rng.usize(..9)).map(|_| rng.u8(..)).collect() };
    let mut reference = Ior::new(id(rng), profile);
    reference.profiles.push(other);
    reference
}
