//! Random types and values against a naive model, and octets that are no values.

use super::{project, without_names};
use crate::declared::NATIVE;
use crate::projection::{Defaults, Plan};
use fastrand::Rng;
use giop::cdr::{CharSet, Encoding, Endian, Reader, Writer};
use giop::typecode::{Kind, TypeCode};
use giop::value::Value;

/// A type of the source, what the target makes of it, and what a value becomes.
struct Case {
    source: TypeCode,
    target: TypeCode,
    value: Value,
    expected: Value,
}

fn case(random: &mut Rng, depth: u32) -> Case {
    let composite = depth > 0;
    match random.u32(0..if composite { 14 } else { 9 }) {
        0 => same(TypeCode::primitive(Kind::Boolean), Value::Bool(random.bool())),
        1 => {
            let value = random.u8(..);
            let expected = if random.bool() { Value::Octet(value) } else { Value::ULong(value.into()) };
            widened(Kind::Octet, Value::Octet(value), expected)
        }
        2 => {
            let value = random.i16(..);
            let choices = [Value::Short(value), Value::Long(value.into()), Value::Double(value.into())];
            widened(Kind::Short, Value::Short(value), random.choice(choices).unwrap())
        }
        3 => {
            let value = random.u16(..);
            let choices = [Value::UShort(value), Value::LongLong(value.into()), Value::Float(value.into())];
            widened(Kind::UShort, Value::UShort(value), random.choice(choices).unwrap())
        }
        4 => {
            let value = random.i32(..);
            let choices = [Value::Long(value), Value::LongLong(value.into()), Value::Double(value.into())];
            widened(Kind::Long, Value::Long(value), random.choice(choices).unwrap())
        }
        5 => {
            let value = random.u32(..);
            let choices = [Value::ULong(value), Value::ULongLong(value.into()), Value::LongLong(value.into())];
            widened(Kind::ULong, Value::ULong(value), random.choice(choices).unwrap())
        }
        6 => {
            let value = random.i32(..) as f32 / 64.0;
            let choices = [Value::Float(value), Value::Double(value.into())];
            widened(Kind::Float, Value::Float(value), random.choice(choices).unwrap())
        }
        7 => {
            let text = text(random);
            match random.bool() {
                true => same(TypeCode::string(), Value::String(text)),
                false => Case {
                    source: TypeCode::string(),
                    target: TypeCode::wstring(),
                    value: Value::String(text.clone()),
                    expected: Value::Wstring(text),
                },
            }
        }
        8 => enumeration(random),
        9 => optional(case(random, depth - 1)),
        10 | 11 => row(random, depth - 1),
        _ => structure(random, depth - 1),
    }
}

fn same(of: TypeCode, value: Value) -> Case {
    Case { source: of.clone(), target: of, value: value.clone(), expected: value }
}

fn widened(kind: Kind, value: Value, expected: Value) -> Case {
    let target = match expected {
        Value::Octet(_) => Kind::Octet,
        Value::Short(_) => Kind::Short,
        Value::UShort(_) => Kind::UShort,
        Value::Long(_) => Kind::Long,
        Value::ULong(_) => Kind::ULong,
        Value::LongLong(_) => Kind::LongLong,
        Value::ULongLong(_) => Kind::ULongLong,
        Value::Float(_) => Kind::Float,
        _ => Kind::Double,
    };
    Case { source: TypeCode::primitive(kind), target: TypeCode::primitive(target), value, expected }
}

fn text(random: &mut Rng) -> String {
    let length = random.usize(0..9);
    (0..length).map(|_| random.choice(['a', 'é', '塔', '𝄞', ' ', '\u{1}']).unwrap()).collect()
}

fn enumeration(random: &mut Rng) -> Case {
    let labels = ["A", "B", "C", "D"];
    let mut theirs = labels.to_vec();
    random.shuffle(&mut theirs);
    let of = |labels: &[&str]| TypeCode::enumeration("IDL:E:1.0", "E", labels);
    let (index, label) = random.choice(labels.iter().enumerate()).unwrap();
    let value = |place: usize| Value::Enum {
        type_name: "E".into(),
        label: (*label).into(),
        index: u32::try_from(place).unwrap(),
    };
    let theirs_at = theirs.iter().position(|other| other == label).unwrap();
    Case { source: of(&labels), target: of(&theirs), value: value(index), expected: value(theirs_at) }
}

/// One that becomes an optional one. A sequence would be taken for a sequence, and is left alone.
fn optional(inner: Case) -> Case {
    if matches!(inner.source.root().resolved().kind(), Kind::Sequence | Kind::Array) {
        return inner;
    }
    let expected = sequence(&inner.target, vec![inner.expected]);
    Case { target: TypeCode::bounded_sequence(inner.target, 1), expected, ..inner }
}

fn sequence(element: &TypeCode, values: Vec<Value>) -> Value {
    if element.kind() == Kind::Octet { octets(values) } else { Value::Sequence(values) }
}

fn octets(values: Vec<Value>) -> Value {
    Value::Octets(values.into_iter().map(|value| if let Value::Octet(octet) = value { octet } else { 0 }).collect())
}

/// A sequence or array, either of which may become the other.
fn row(random: &mut Rng, depth: u32) -> Case {
    // Elements are alike but for their values: the same choices with another seed for the values would not be, so one value is repeated.
    let element = case(random, depth);
    let length = random.usize(0..5);
    let count = u32::try_from(length).unwrap();
    let row = |random: &mut Rng, of: &TypeCode, values: Vec<Value>| {
        let is_octets = of.kind() == Kind::Octet;
        if random.bool() {
            let bound = if random.bool() { count + 2 } else { 0 };
            (TypeCode::bounded_sequence(of.clone(), bound), sequence(of, values))
        } else {
            (TypeCode::array(of.clone(), count), if is_octets { octets(values) } else { Value::Array(values) })
        }
    };
    let (source, value) = row(random, &element.source, vec![element.value.clone(); length]);
    let (target, expected) = row(random, &element.target, vec![element.expected.clone(); length]);
    Case { source, target, value, expected }
}

/// A struct of which some members are wanted, in some order, and some optional ones that are not there.
fn structure(random: &mut Rng, depth: u32) -> Case {
    let names = ["a", "b", "c", "d", "e"];
    let members: Vec<(&str, Case)> =
        names.iter().take(random.usize(0..=names.len())).map(|name| (*name, case(random, depth))).collect();
    let of = |members: &[(&str, TypeCode)]| TypeCode::structure("IDL:S:1.0", "S", members);
    let value = |fields: Vec<(String, Value)>| Value::Struct { type_name: "S".into(), fields };
    let source: Vec<_> = members.iter().map(|(name, case)| (*name, case.source.clone())).collect();
    let fields = members.iter().map(|(name, case)| ((*name).to_owned(), case.value.clone())).collect();
    let mut wanted: Vec<_> = members
        .iter()
        .filter(|_| random.u32(0..4) > 0)
        .map(|(name, case)| (*name, case.target.clone(), case.expected.clone()))
        .collect();
    if random.u32(0..3) == 0 {
        let missing = TypeCode::bounded_sequence(TypeCode::primitive(Kind::Double), 1);
        wanted.push(("missing", missing, Value::Sequence(Vec::new())));
    }
    if random.bool() {
        random.shuffle(&mut wanted);
    }
    let target: Vec<_> = wanted.iter().map(|(name, of, _)| (*name, of.clone())).collect();
    let expected = wanted.into_iter().map(|(name, _, value)| (name.to_owned(), value)).collect();
    Case { source: of(&source), target: of(&target), value: value(fields), expected: value(expected) }
}

fn encoded(of: &TypeCode, value: &Value, encoding: Encoding) -> Vec<u8> {
    let mut octets = Vec::new();
    value.write(of, &mut Writer::new(&mut octets, encoding)).unwrap();
    octets
}

#[test]
fn values_become_what_the_model_says() {
    let (mut different, mut deep) = (0, 0);
    for seed in 0..3_000 {
        let case = case(&mut Rng::with_seed(seed), 4);
        let made = project(&case.source, &case.target, &case.value)
            .unwrap_or_else(|told| panic!("seed {seed}: {told}: {:#} to {:#}", case.source, case.target));
        assert_eq!(made, without_names(case.expected), "seed {seed}: {:#} to {:#}", case.source, case.target);
        different += u32::from(!Plan::new(&case.source, &case.target, &Defaults::default()).unwrap().is_same());
        deep += u32::from(case.source.kind() == Kind::Struct);
    }
    assert!(different > 1_000 && deep > 300, "{different} are made anew, {deep} are structs: the others show little");
}

/// Octets cut off, changed and made up: answered alike by checking and by writing, and never by a panic.
#[test]
fn octets_that_are_no_values_are_refused_alike_by_checking_and_by_writing() {
    let (mut refused, mut taken) = (0, 0);
    for seed in 0..2_000 {
        let mut random = Rng::with_seed(seed);
        let case = case(&mut random, 3);
        let plan = Plan::new(&case.source, &case.target, &Defaults::default()).unwrap();
        let mut judge = |octets: &[u8], encoding: Encoding| {
            let (mut checked, mut written) = (Reader::new(octets, encoding), Reader::new(octets, encoding));
            let check = plan.check(&mut checked);
            let mut out = Vec::new();
            let write = plan.run(&mut written, &mut Writer::new(&mut out, NATIVE));
            assert_eq!(check, write, "seed {seed}");
            assert!(out.len() < 1 << 20, "seed {seed}: {} octets became {}", octets.len(), out.len());
            if check.is_ok() { taken += 1 } else { refused += 1 }
        };
        let endian = if random.bool() { Endian::Big } else { Endian::Little };
        let chars = if random.bool() { CharSet::Latin1 } else { CharSet::Utf8 };
        let encoding = Encoding { endian, chars, ..NATIVE };
        let mut octets = encoded(&case.source, &case.value, Encoding { endian, ..NATIVE });
        (0..octets.len()).for_each(|end| judge(&octets[..end], encoding));
        for _ in 0..20 {
            if let Some(octet) = random.choice(octets.iter_mut()) {
                *octet = random.choice([0, 1, 0x7F, 0x80, 0xFF, 0xC3]).unwrap();
            }
            judge(&octets, encoding);
        }
        octets.iter_mut().for_each(|octet| *octet = random.u8(..));
        judge(&octets, encoding);
    }
    assert!(refused > 10_000 && taken > 1_000, "{refused} and {taken}");
}

/// Types that are made for harm: what is done for them is bounded.
#[test]
fn types_and_values_that_multiply_come_to_an_end() {
    // Each level has two of the one below: 2 to the 40th values of nothing.
    let empty = TypeCode::structure("IDL:Z:1.0", "Z", &[]);
    let doubled = (0..40).fold(empty.clone(), |inner, _| TypeCode::array(inner, 2));
    let plan = Plan::same(&doubled).unwrap();
    let told = plan.check(&mut Reader::new(&[], NATIVE)).unwrap_err().to_string();
    assert!(told.ends_with("the value is too large"), "{told}");
    // Four thousand million elements of no size, in four octets.
    let many = Plan::same(&TypeCode::sequence(empty.clone())).unwrap();
    let told = many.check(&mut Reader::new(&[0xFF; 4], NATIVE)).unwrap_err().to_string();
    assert!(told.ends_with("the value is too large"), "{told}");
    // Nothing becomes something: each element gets two members that it did not have.
    let optional = || TypeCode::bounded_sequence(TypeCode::primitive(Kind::Double), 1);
    let grown = TypeCode::structure("IDL:Z:1.0", "Z", &[("x", optional()), ("y", optional())]);
    let plan = Plan::new(&TypeCode::sequence(empty), &TypeCode::sequence(grown), &Defaults::default()).unwrap();
    let mut out = Vec::new();
    let told = plan.run(&mut Reader::new(&[0xFF; 4], NATIVE), &mut Writer::new(&mut out, NATIVE)).unwrap_err();
    assert!(told.to_string().ends_with("the value is too large"), "{told}");
    assert!(out.len() <= (64 << 20) + 64, "{}", out.len());
}
