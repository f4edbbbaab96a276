//! What random values do not reach: labels, lists of named values, numbers at their edges, hostile types.

use super::{Cursor, DefaultMember, Label, Scalar, is_text, number};
use crate::cdr::{CharSet, Encoding, Endian, Reader, Writer};
use crate::typecode::{Kind, TypeCode, Work};
use crate::value::{AnyValue, Value};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

const LITTLE: Encoding = Encoding::new(Endian::Little);

fn written(any: &AnyValue) -> Vec<u8> {
    let mut bytes = Vec::new();
    any.write(&mut Writer::new(&mut bytes, LITTLE)).unwrap();
    bytes
}

fn with<T>(any: &AnyValue, test: impl FnOnce(Cursor<'_>, &mut Work) -> T) -> T {
    let bytes = written(any);
    let mut work = Work::default();
    let at = Cursor::any(Reader::new(&bytes, LITTLE), &mut work).unwrap();
    test(at, &mut work)
}

fn int(at: Option<Cursor<'_>>) -> Option<i64> {
    match at?.scalar(&mut Work::default()) {
        Ok(Some(Scalar::Int(value))) => Some(value),
        other => panic!("{other:?}"),
    }
}

fn primitive(kind: Kind) -> TypeCode {
    TypeCode::primitive(kind)
}

fn union(by: TypeCode, discriminator: Value, name: &str, value: i32) -> AnyValue {
    let long = || primitive(Kind::Long);
    let members =
        [(Some(1), "one", long()), (Some(2), "two", long()), (Some(3), "two", long()), (None, "other", long())];
    let code = TypeCode::union("IDL:demo/U:1.0", "U", by, &members);
    let member = Some((String::from(name), Box::new(Value::Long(value))));
    AnyValue::new(code, Value::Union { type_name: "U".into(), discriminator: Box::new(discriminator), member })
}

#[test]
fn a_label_leads_to_the_member_that_it_chooses() {
    let any = union(primitive(Kind::Short), Value::Short(3), "two", 7);
    with(&any, |at, work| {
        for label in [2, 3] {
            assert_eq!(int(at.labelled(Label::Int(label), work).unwrap()), Some(7), "both labels are of one member");
        }
        for label in [1, 9, -1, i64::MIN] {
            assert_eq!(int(at.labelled(Label::Int(label), work).unwrap()), None);
        }
        for label in [Label::Bool(true), Label::Char('\u{2}'), Label::Name("two")] {
            assert!(at.labelled(label, work).unwrap().is_none());
        }
        assert!(matches!(at.default_member(work), Ok(DefaultMember::Another)));
        assert!((0..4).all(|position| at.position(position, work).unwrap().is_none()));
    });
    let any = union(primitive(Kind::Short), Value::Short(-5), "other", 8);
    with(&any, |at, work| {
        assert!(matches!(at.default_member(work), Ok(DefaultMember::Member(_))));
        assert_eq!(int(at.labelled(Label::Int(9), work).unwrap()), Some(8), "9 would choose the default member too");
        assert_eq!(int(at.labelled(Label::Int(2), work).unwrap()), None);
    });
}

#[test]
fn labels_of_every_sort_are_found() {
    let colour = TypeCode::enumeration("IDL:demo/Colour:1.0", "Colour", &["RED", "GREEN", "BLUE"]);
    let green = Value::Enum { type_name: "Colour".into(), label: "GREEN".into(), index: 1 };
    with(&union(colour, green, "one", 5), |at, work| {
        assert_eq!(int(at.labelled(Label::Name("GREEN"), work).unwrap()), Some(5));
        assert_eq!(int(at.labelled(Label::Int(1), work).unwrap()), Some(5));
        assert!(at.labelled(Label::Name("BLUE"), work).unwrap().is_none());
        assert!(at.labelled(Label::Name("PINK"), work).unwrap().is_none());
        let Ok(Some(Scalar::Enum { ordinal: 1, name: b"GREEN" })) =
            at.discriminator(work).unwrap().unwrap().scalar(work)
        else {
            panic!()
        };
    });
    for kind in [Kind::Char, Kind::Wchar] {
        let value = if kind == Kind::Char { Value::Char('\u{1}') } else { Value::Wchar('\u{1}') };
        with(&union(primitive(kind), value, "one", 5), |at, work| {
            assert_eq!(int(at.labelled(Label::Char('\u{1}'), work).unwrap()), Some(5));
            assert!(at.labelled(Label::Int(1), work).unwrap().is_none());
        });
    }
    let long = || primitive(Kind::Long);
    let code = TypeCode::union("", "", primitive(Kind::Boolean), &[(Some(1), "yes", long())]);
    let union = |discriminator, member| Value::Union { type_name: "".into(), discriminator, member };
    let yes = union(Box::new(Value::Bool(true)), Some(("yes".into(), Box::new(Value::Long(4)))));
    with(&AnyValue::new(code.clone(), yes), |at, work| {
        assert_eq!(int(at.labelled(Label::Bool(true), work).unwrap()), Some(4));
        assert!(at.labelled(Label::Bool(false), work).unwrap().is_none());
    });
    with(&AnyValue::new(code, union(Box::new(Value::Bool(false)), None)), |at, work| {
        assert!(matches!(at.default_member(work), Ok(DefaultMember::Nothing)));
        assert!(at.labelled(Label::Bool(false), work).unwrap().is_none());
        assert!(at.member("yes", work).unwrap().is_none());
    });
}

#[test]
fn no_negative_label_is_mistaken_for_a_large_one() {
    let long = || primitive(Kind::Long);
    let code = TypeCode::union("", "", primitive(Kind::ULongLong), &[(Some(-1), "most", long())]);
    let member = Some(("most".into(), Box::new(Value::Long(4))));
    let value = Value::Union { type_name: "".into(), discriminator: Box::new(Value::ULongLong(u64::MAX)), member };
    with(&AnyValue::new(code, value), |at, work| {
        assert!(at.labelled(Label::Int(-1), work).unwrap().is_none());
        assert_eq!(int(at.member("most", work).unwrap()), Some(4));
    });
}

/// A list of named values in which each has one more member behind it.
fn list(second: &TypeCode, values: &[(&str, Value)], more: bool) -> AnyValue {
    let name = TypeCode::alias("IDL:demo/Name:1.0", "Name", TypeCode::string());
    let mut members = vec![("name", name), ("value", second.clone())];
    if more {
        members.push(("flags", primitive(Kind::Octet)));
    }
    let pair = TypeCode::structure("IDL:demo/Pair:1.0", "Pair", &members);
    let value = |(name, value): &(&str, Value)| {
        let mut fields = vec![("name".into(), Value::String((*name).into())), ("value".into(), value.clone())];
        if more {
            fields.push(("flags".into(), Value::Octet(9)));
        }
        Value::Struct { type_name: "Pair".into(), fields }
    };
    let values = values.iter().map(value).collect();
    AnyValue::new(TypeCode::alias("IDL:demo/List:1.0", "List", TypeCode::sequence(pair)), Value::Sequence(values))
}

#[test]
fn named_values_are_found_in_any_list_of_pairs() {
    let any = |value: AnyValue| Value::Any(Box::new(value));
    let deep = any(AnyValue::new(TypeCode::any(), any(AnyValue::from(3_i16))));
    for more in [false, true] {
        let values = [("a", any(AnyValue::from("text"))), ("b", deep.clone()), ("é", any(AnyValue::from(4_i16)))];
        with(&list(&TypeCode::any(), &values, more), |at, work| {
            assert_eq!(int(at.named("b", work).unwrap()), Some(3));
            assert_eq!(int(at.named("é", work).unwrap()), Some(4));
            assert!(matches!(at.named("a", work).unwrap().unwrap().scalar(work), Ok(Some(Scalar::Text(b"text")))));
            assert!(at.named("c", work).unwrap().is_none());
            assert_eq!(at.type_name(), Some(&b"List"[..]));
        });
        let values = [("a", Value::Double(1.0)), ("a", Value::Double(2.0))];
        with(&list(&primitive(Kind::Double), &values, more), |at, work| {
            let first = at.named("a", work).unwrap().unwrap();
            assert!(matches!(first.scalar(work), Ok(Some(Scalar::Float(1.0)))), "the first of that name");
        });
    }
    let code = TypeCode::sequence(primitive(Kind::Long));
    with(&AnyValue::new(code, Value::Sequence(vec![Value::Long(1)])), |at, work| {
        assert!(at.named("a", work).unwrap().is_none());
    });
    with(&AnyValue::from(1_i16), |at, work| assert!(at.named("a", work).unwrap().is_none()));
}

#[test]
fn a_long_run_of_elements_costs_as_much_as_a_short_one() {
    let point = TypeCode::structure("", "", &[("x", primitive(Kind::Octet)), ("y", primitive(Kind::Double))]);
    let value = |n: u32| {
        let (x, y) = (Value::Octet(n.to_le_bytes()[0]), Value::Double(f64::from(n)));
        Value::Struct { type_name: "".into(), fields: vec![("x".into(), x), ("y".into(), y)] }
    };
    let any = AnyValue::new(TypeCode::sequence(point), Value::Sequence((0..5000).map(value).collect()));
    with(&any, |at, _| {
        let cost = |index| {
            let mut work = Work::default();
            let y = at.element(index, &mut work).unwrap().unwrap().member("y", &mut work).unwrap().unwrap();
            let Ok(Some(Scalar::Float(y))) = y.scalar(&mut work) else { panic!() };
            assert_eq!(y.to_bits(), f64::from(index).to_bits());
            Work::default().steps_left() - work.steps_left()
        };
        assert!(cost(4999) < 100, "{}", cost(4999));
        assert!(cost(4999) <= 2 * cost(40), "{} and {}", cost(4999), cost(40));
    });
}

#[test]
fn names_are_compared_by_characters() {
    assert!(is_text(b"abc", CharSet::Latin1, "abc") && is_text(b"abc", CharSet::Utf8, "abc"));
    assert!(is_text(b"\xe9", CharSet::Latin1, "é") && is_text("é".as_bytes(), CharSet::Utf8, "é"));
    assert!(!is_text("é".as_bytes(), CharSet::Latin1, "é") && !is_text(b"\xe9", CharSet::Utf8, "é"));
    assert!(!is_text(b"ab", CharSet::Latin1, "abc") && !is_text(b"", CharSet::Utf8, "a"));
}

#[test]
fn quadruples_become_the_nearest_doubles() {
    let quadruple = |high: u64, low: u64| {
        let bits = u128::from(high) << 64 | u128::from(low);
        number::from_quadruple(bits.to_be_bytes())
    };
    let cases = [
        (0x3FFF_0000_0000_0000, 0, 1.0),
        (0xC000_8000_0000_0000, 0, -3.0),
        (0x4000_921F_B544_42D1, 0x8469_898C_C517_01B8, core::f64::consts::PI),
        (0, 0, 0.0),
        (0x8000_0000_0000_0000, 0, -0.0),
        (0x7FFF_0000_0000_0000, 0, f64::INFINITY),
        (0x7FFE_FFFF_FFFF_FFFF, u64::MAX, f64::INFINITY),
        (0x43FE_FFFF_FFFF_FFFF, u64::MAX, f64::INFINITY),
        (0x43FE_FFFF_FFFF_FFFF, 0xF000_0000_0000_0000, f64::MAX),
        (0x3C01_0000_0000_0000, 0, f64::MIN_POSITIVE),
        (0x3BCD_0000_0000_0000, 0, f64::from_bits(1)),
        (0x3BCC_0000_0000_0000, 0, 0.0),
        (0x3BCC_0000_0000_0000, 1, f64::from_bits(1)),
        (0x3BC0_0000_0000_0000, 0, 0.0),
        (0x0001_0000_0000_0000, 0, 0.0),
        // Half-way between two doubles: to the even one.
        (0x3FFF_0000_0000_0000, 0x0800_0000_0000_0000, 1.0),
        (0x3FFF_0000_0000_0000, 0x1800_0000_0000_0000, f64::from_bits(1.0_f64.to_bits() + 2)),
        (0x3FFF_0000_0000_0000, 0x0800_0000_0000_0001, f64::from_bits(1.0_f64.to_bits() + 1)),
    ];
    for (high, low, expected) in cases {
        let value = quadruple(high, low);
        assert_eq!(value.to_bits(), expected.to_bits(), "{high:x} {low:x}: {value:e}, not {expected:e}");
    }
    assert!(quadruple(0x7FFF_8000_0000_0000, 0).is_nan());
}

#[test]
fn decimals_become_numbers() {
    let scalar = |text: &str, digits, scale| {
        let any = AnyValue::new(TypeCode::fixed(digits, scale), Value::Fixed(text.into()));
        with(&any, |at, work| match at.scalar(work).unwrap().unwrap() {
            Scalar::Int(value) => (Some(value), 0.0),
            Scalar::Float(value) => (None, value),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(scalar("-123", 5, 0), (Some(-123), 0.0));
    assert_eq!(scalar("1200", 2, -2), (Some(1200), 0.0));
    assert_eq!(scalar("-12.50", 4, 2), (None, -12.5));
    assert_eq!(scalar("0.1", 1, 1), (None, 0.1));
    assert_eq!(scalar("9999999999999999999999999999999", 31, 0), (None, 1e31));
}

#[test]
fn types_without_end_are_left_in_time() {
    // An alias of itself, by way of an indirection that leads back to its own kind.
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes, LITTLE);
    w.u32(Kind::Alias.number());
    w.u32(28);
    w.u32(1);
    w.string("");
    w.string("");
    w.u32(0xFFFF_FFFF);
    w.i32(-36);
    let mut work = Work::new(1000, 100);
    assert!(Cursor::any(Reader::new(&bytes, LITTLE), &mut work).is_err());
    // An any in an any in an any and so on.
    let mut bytes = Vec::new();
    for _ in 0..5000 {
        bytes.extend(Kind::Any.number().to_le_bytes());
    }
    let mut work = Work::new(1000, 100);
    assert!(Cursor::any(Reader::new(&bytes, LITTLE), &mut work).is_err());
    assert_eq!(work.steps_left(), 0);
}

#[test]
fn members_come_one_after_the_other_with_their_names() {
    let inner = TypeCode::structure("", "", &[("text", TypeCode::string()), ("any", TypeCode::any())]);
    let code =
        TypeCode::structure("", "", &[("a", primitive(Kind::Octet)), ("b", inner), ("c", primitive(Kind::Long))]);
    let fields =
        vec![("text".into(), Value::String("x".into())), ("any".into(), Value::Any(Box::new(AnyValue::from(3_i64))))];
    let b = Value::Struct { type_name: String::new(), fields };
    let fields = vec![("a".into(), Value::Octet(1)), ("b".into(), b), ("c".into(), Value::Long(2))];
    with(&AnyValue::new(code, Value::Struct { type_name: String::new(), fields }), |at, work| {
        let mut members = at.members().unwrap();
        assert_eq!(members.left(), 3);
        let (name, a) = members.next(work).unwrap().unwrap();
        assert_eq!((name, int(Some(a))), (&b"a"[..], Some(1)));
        let (name, b) = members.next(work).unwrap().unwrap();
        assert_eq!((name, int(b.member("any", work).unwrap())), (&b"b"[..], Some(3)));
        let (name, c) = members.next(work).unwrap().unwrap();
        assert_eq!((name, int(Some(c))), (&b"c"[..], Some(2)));
        assert!(members.next(work).unwrap().is_none());
    });
    with(&AnyValue::from(1_i32), |at, _| assert!(at.members().is_none()));
    let list = AnyValue::new(TypeCode::sequence(primitive(Kind::Short)), Value::Sequence(vec![Value::Short(7)]));
    with(&list, |at, work| {
        let elements = at.elements(work).unwrap().unwrap();
        assert_eq!((elements.kind(), elements.reader().i16()), (Kind::Short, Ok(7)));
    });
}
