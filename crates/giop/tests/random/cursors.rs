//! Cursors go where a program finds things in the decoded value, and come to no harm among bytes that are nonsense.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{encodings, for_each_seed};
use crate::{random_any, written};
use campanile_giop::cdr::{ReadErrorKind, Reader};
use campanile_giop::cursor::{Cursor, DefaultMember, Scalar};
use campanile_giop::typecode::{Kind, TypeRef, Work};
use campanile_giop::value::{AnyValue, Value};
use fastrand::Rng;

/// Everything that can be reached from `at` is what `value` has.
fn agree(at: &Cursor<'_>, of: TypeRef<'_>, value: &Value, work: &mut Work) {
    if let Value::Any(any) = value {
        let AnyValue { type_code, value } = &**any;
        return agree(at, type_code.root(), value, work);
    }
    let kind = of.resolved().kind();
    assert_eq!(at.kind(), kind);
    let is_named = !of.id().is_empty();
    if is_named {
        assert_eq!(at.type_name().unwrap(), of.name().as_bytes());
        assert_eq!(at.repository_id().unwrap(), of.id().as_bytes());
    }
    let of = of.resolved();
    match value {
        Value::Struct { fields, .. } | Value::Exception { fields, .. } => members_agree(at, of, fields, work),
        Value::Union { discriminator, member, .. } => {
            let by = at.discriminator(work).unwrap().unwrap();
            agree(&by, of.discriminator().unwrap(), discriminator, work);
            union_agrees(at, of, member.as_ref(), work);
        }
        Value::Sequence(values) | Value::Array(values) => {
            elements_agree(at, of.content().unwrap(), values, work);
        }
        Value::Octets(octets) if kind != Kind::Principal => {
            let values: Vec<Value> = octets.iter().map(|octet| Value::Octet(*octet)).collect();
            elements_agree(at, of.content().unwrap(), &values, work);
        }
        scalar => assert!(is_same(at.scalar(work).unwrap(), scalar), "{scalar}"),
    }
}

fn members_agree(at: &Cursor<'_>, of: TypeRef<'_>, fields: &[(String, Value)], work: &mut Work) {
    assert!(at.scalar(work).unwrap().is_none());
    assert!(at.length().unwrap().is_none() && at.element(0, work).unwrap().is_none());
    for (index, (name, value)) in fields.iter().enumerate() {
        let member = of.member(index).unwrap().type_ref();
        agree(&at.position(u32::try_from(index).unwrap(), work).unwrap().unwrap(), member, value, work);
        if fields.iter().position(|(other, _)| other == name) == Some(index) {
            agree(&at.member(name, work).unwrap().unwrap(), member, value, work);
        }
    }
    assert!(at.position(u32::try_from(fields.len()).unwrap(), work).unwrap().is_none());
    assert!(at.member("no such member", work).unwrap().is_none());
}

fn union_agrees(at: &Cursor<'_>, of: TypeRef<'_>, member: Option<&(String, Box<Value>)>, work: &mut Work) {
    let held = at.default_member(work).unwrap();
    let Some((name, value)) = member else {
        assert!(matches!(held, DefaultMember::Nothing));
        assert!(of.members().all(|member| at.member(member.name(), work).unwrap().is_none()));
        return;
    };
    let reached = at.member(name, work).unwrap().unwrap();
    // Names may be the same by chance; then the first member of that name need not be the one.
    if of.members().filter(|member| member.name() == name).count() == 1 {
        let own = of.members().find(|member| member.name() == name).unwrap();
        agree(&reached, own.type_ref(), value, work);
        assert_eq!(matches!(held, DefaultMember::Member(_)), own.label().is_none());
    }
    for other in of.members().filter(|member| member.name() != name) {
        assert!(at.member(other.name(), work).unwrap().is_none());
    }
}

fn elements_agree(at: &Cursor<'_>, element: TypeRef<'_>, values: &[Value], work: &mut Work) {
    let count = u32::try_from(values.len()).unwrap();
    assert_eq!(at.length().unwrap(), Some(count));
    assert!(at.element(count, work).unwrap().is_none());
    let mut elements = at.elements(work).unwrap().unwrap();
    for (index, value) in (0..).zip(values) {
        agree(&at.element(index, work).unwrap().unwrap(), element, value, work);
        agree(&elements.next(work).unwrap().unwrap(), element, value, work);
    }
    assert!(elements.next(work).unwrap().is_none());
}

fn is_same(scalar: Option<Scalar<'_>>, value: &Value) -> bool {
    match (scalar, value) {
        (Some(Scalar::Bool(a)), Value::Bool(b)) => a == *b,
        (Some(Scalar::Int(a)), Value::Octet(b)) => a == i64::from(*b),
        (Some(Scalar::Int(a)), Value::Short(b)) => a == i64::from(*b),
        (Some(Scalar::Int(a)), Value::UShort(b)) => a == i64::from(*b),
        (Some(Scalar::Int(a)), Value::Long(b)) => a == i64::from(*b),
        (Some(Scalar::Int(a)), Value::ULong(b)) => a == i64::from(*b),
        (Some(Scalar::Int(a)), Value::LongLong(b)) => a == *b,
        (Some(Scalar::Int(a)), Value::ULongLong(b)) => u64::try_from(a) == Ok(*b),
        (Some(Scalar::UInt(a)), Value::ULongLong(b)) => a == *b && i64::try_from(a).is_err(),
        (Some(Scalar::Float(a)), Value::Float(b)) => a.to_bits() == f64::from(*b).to_bits() || a.is_nan(),
        (Some(Scalar::Float(a)), Value::Double(b)) => a.to_bits() == b.to_bits(),
        (Some(Scalar::Float(_)), Value::LongDouble(_)) => true,
        (Some(Scalar::Char(a)), Value::Char(b) | Value::Wchar(b)) => a == *b,
        (Some(Scalar::Text(a)), Value::String(b)) => {
            a == b.as_bytes() || a.iter().copied().map(char::from).eq(b.chars())
        }
        (Some(Scalar::Wide(a)), Value::Wstring(b)) => a.eq(b.encode_utf16()),
        (Some(Scalar::Enum { ordinal, name }), Value::Enum { label, index, .. }) => {
            ordinal == *index && name == label.as_bytes()
        }
        (Some(Scalar::Int(a)), Value::Fixed(b)) => b.parse() == Ok(a),
        (Some(Scalar::Float(a)), Value::Fixed(b)) => {
            let exact: f64 = b.parse().unwrap();
            (a - exact).abs() <= exact.abs() * 4e-16
        }
        (None, Value::Null | Value::Void | Value::TypeCode(_) | Value::Object(_) | Value::Octets(_)) => true,
        _ => false,
    }
}

#[test]
fn cursors_find_what_decoding_finds() {
    for_each_seed(600, |rng| {
        let any = random_any(rng);
        let encoding = rng.choice(encodings()).unwrap();
        let phase = rng.usize(..8);
        let bytes = written(&any, encoding, phase);
        let mut work = Work::new(u32::MAX, 128);
        let at = Cursor::any(Reader::with_phase(&bytes, phase, encoding), &mut work).unwrap();
        agree(&at, any.type_code.root(), &any.value, &mut work);
        let direct = Scalar::of_any(&Reader::with_phase(&bytes, phase, encoding), &mut work).unwrap();
        assert_eq!(format!("{direct:?}"), format!("{:?}", at.scalar(&mut work).unwrap()));
        // The same with the type somewhere else.
        let mut value_bytes = Vec::new();
        let to = rng.choice(encodings()).unwrap();
        let mut writer = campanile_giop::cdr::Writer::with_phase(&mut value_bytes, 3, to);
        any.value.write(&any.type_code, &mut writer).unwrap();
        let (type_code, value) = (Reader::with_phase(&bytes, phase, encoding), Reader::with_phase(&value_bytes, 3, to));
        let at = Cursor::typed(type_code, value, &mut work).unwrap();
        agree(&at, any.type_code.root(), &any.value, &mut work);
    });
}

/// Goes anywhere.
fn wander(at: Cursor<'_>, rng: &mut Rng, work: &mut Work) {
    let mut at = at;
    loop {
        let _ = (at.scalar(work), at.type_name(), at.repository_id(), at.length());
        let _ = (at.named("x", work), at.member("x", work));
        let next = match rng.u8(..6) {
            0 | 1 => at.position(rng.u32(..4), work),
            2 => at.element(rng.u32(..3), work),
            3 => at.discriminator(work),
            4 => match at.default_member(work) {
                Ok(DefaultMember::Member(next)) => Ok(Some(next)),
                _ => Ok(None),
            },
            _ => at.elements(work).map(|elements| {
                let mut elements = elements?;
                for _ in 0..rng.u8(..5) {
                    let _ = elements.next(work);
                }
                elements.next(work).ok()?
            }),
        };
        match next {
            Ok(Some(next)) => at = next,
            Ok(None) if rng.u8(..4) > 0 => {}
            _ => return,
        }
    }
}

#[test]
fn cursors_come_to_no_harm_among_nonsense() {
    for_each_seed(6000, |rng| {
        let any = random_any(rng);
        let encoding = rng.choice(encodings()).unwrap();
        let mut bytes = written(&any, encoding, 0);
        for _ in 0..rng.usize(..4) {
            let at = rng.usize(..bytes.len());
            let candidates = [0, 1, 0xFF, rng.u8(..), bytes[at] ^ 1 << rng.u8(..8)];
            bytes[at] = rng.choice(candidates).unwrap();
        }
        bytes.truncate(rng.usize(..=bytes.len()).max(rng.usize(..=bytes.len())));
        let mut work = Work::new(20_000, 64);
        for _ in 0..8 {
            if let Ok(at) = Cursor::any(Reader::new(&bytes, encoding), &mut work) {
                wander(at, rng, &mut work);
            }
        }
    });
}

#[test]
fn a_cursor_that_has_too_few_steps_says_so() {
    for_each_seed(60, |rng| {
        let any = random_any(rng);
        let encoding = rng.choice(encodings()).unwrap();
        let bytes = written(&any, encoding, 0);
        let last = |work: &mut Work| -> Result<(), campanile_giop::cdr::ReadError> {
            let at = Cursor::any(Reader::new(&bytes, encoding), work)?;
            at.position(3, work)?;
            at.element(2, work)?;
            at.named("x", work)?;
            at.scalar(work).map(|_| ())
        };
        let mut enough = Work::default();
        last(&mut enough).unwrap();
        for steps in 0..Work::default().steps_left() - enough.steps_left() {
            assert_eq!(last(&mut Work::new(steps, 128)).unwrap_err().kind, ReadErrorKind::TooMuchWork);
        }
    });
}
