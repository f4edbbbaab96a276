//! Random types and values, through everything that reads, writes, skips and copies them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod cursors;
mod generate;

use campanile_giop::cdr::{CharSet, Encoding, ReadError, ReadErrorKind, Reader, Version, Writer};
use campanile_giop::recode;
use campanile_giop::typecode::{TypeCode, Work};
use campanile_giop::value::{AnyRef, AnyValue, Value};
use common::{encodings, for_each_seed};
use fastrand::Rng;
use generate::{random_type, random_value};

fn random_any(rng: &mut Rng) -> AnyValue {
    let code = random_type(rng, 4);
    let value = random_value(rng, code.root(), 4);
    AnyValue::new(code, value)
}

fn written(any: &AnyValue, encoding: Encoding, phase: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    any.write(&mut Writer::with_phase(&mut bytes, phase, encoding)).unwrap();
    bytes
}

fn read(bytes: &[u8], encoding: Encoding, phase: usize) -> AnyValue {
    let mut reader = Reader::with_phase(bytes, phase, encoding);
    let any = AnyValue::read(&mut reader, &mut Work::default()).unwrap();
    reader.finish("the any").unwrap();
    any
}

fn copied(bytes: &[u8], from: (Encoding, usize), to: (Encoding, usize)) -> Vec<u8> {
    let mut copy = Vec::new();
    let mut reader = Reader::with_phase(bytes, from.1, from.0);
    let mut writer = Writer::with_phase(&mut copy, to.1, to.0);
    recode::copy_any(&mut reader, &mut writer, &mut Work::default()).unwrap();
    reader.finish("the any").unwrap();
    copy
}

#[test]
fn what_is_written_is_read_back_in_every_encoding_and_phase() {
    for_each_seed(300, |rng| {
        let any = random_any(rng);
        for encoding in encodings() {
            for phase in 0..8 {
                let bytes = written(&any, encoding, phase);
                assert_eq!(read(&bytes, encoding, phase), any, "{encoding:?} at {phase}: {}", any.type_code);
            }
        }
    });
}

#[test]
fn skipping_ends_where_reading_ends() {
    for_each_seed(500, |rng| {
        let any = random_any(rng);
        let encoding = rng.choice(encodings()).unwrap();
        let phase = rng.usize(..8);
        let mut bytes = written(&any, encoding, phase);
        let length = bytes.len();
        bytes.extend([0xEE; 9]);
        let mut reader = Reader::with_phase(&bytes, phase, encoding);
        let lazy = AnyRef::read(&mut reader, &mut Work::default()).unwrap();
        assert_eq!(reader.position(), length, "{}", any.type_code);
        assert_eq!(lazy.kind(), any.type_code.kind());
        assert_eq!(lazy.resolved_kind(), any.type_code.root().resolved().kind());
        assert_eq!(lazy.decode(&mut Work::default()).unwrap(), any);
        let mut value = lazy.value_reader(&mut Work::default()).unwrap();
        recode::skip_value(&mut lazy.reader(), &mut value, &mut Work::default()).unwrap();
        value.finish("the value").unwrap();
    });
}

#[test]
fn copies_mean_the_same_and_come_back_octet_for_octet() {
    for_each_seed(400, |rng| {
        let any = random_any(rng);
        let from = (rng.choice(encodings()).unwrap(), rng.usize(..8));
        let bytes = written(&any, from.0, from.1);
        for encoding in encodings() {
            let to = (encoding, rng.usize(..8));
            let copy = copied(&bytes, from, to);
            assert_eq!(read(&copy, to.0, to.1), any, "{from:?} to {to:?}: {}", any.type_code);
            assert_eq!(copied(&copy, to, from), bytes, "{from:?} to {to:?} and back: {}", any.type_code);
        }
    });
}

/// Whether a value has a number in it that lies at a multiple of 8, anywhere but in an encapsulation.
fn has_eights(value: &Value) -> bool {
    match value {
        Value::LongLong(_) | Value::ULongLong(_) | Value::Double(_) | Value::LongDouble(_) => true,
        Value::Struct { fields, .. } | Value::Exception { fields, .. } => {
            fields.iter().any(|(_, field)| has_eights(field))
        }
        Value::Union { discriminator, member, .. } => {
            has_eights(discriminator) || member.as_ref().is_some_and(|(_, member)| has_eights(member))
        }
        Value::Sequence(elements) | Value::Array(elements) => elements.iter().any(has_eights),
        Value::Any(any) => has_eights(&any.value),
        _ => false,
    }
}

#[test]
fn what_nothing_aligns_to_eight_is_the_same_at_every_position_modulo_four() {
    let (mut with, mut without) = (0, 0);
    for_each_seed(600, |rng| {
        let any = random_any(rng);
        let encoding = rng.choice(encodings()).unwrap();
        let phase = rng.usize(..8);
        let bytes = written(&any, encoding, phase);
        let mut skipped = Reader::with_phase(&bytes, phase, encoding);
        recode::skip_any(&mut skipped, &mut Work::default()).unwrap();
        let mut passed = Reader::with_phase(&bytes, phase, encoding);
        recode::pass_any(&mut passed, &mut Work::default()).unwrap();
        let has_eights = has_eights(&any.value);
        assert_eq!((skipped.has_eights(), passed.has_eights()), (has_eights, has_eights), "{}", any.type_code);
        if has_eights {
            with += 1;
        } else {
            without += 1;
            assert_eq!(written(&any, encoding, phase + 4), bytes, "{}", any.type_code);
            assert_eq!(copied(&bytes, (encoding, phase), (encoding, phase + 4)), bytes, "{}", any.type_code);
        }
    });
    assert!(with > 50 && without > 50, "{with} with, {without} without");
}

#[test]
fn a_value_is_copied_without_its_type() {
    for_each_seed(200, |rng| {
        let any = random_any(rng);
        let from = (rng.choice(encodings()).unwrap(), rng.usize(..8));
        let to = (rng.choice(encodings()).unwrap(), rng.usize(..8));
        let bytes = written(&any, from.0, from.1);
        let mut type_code = Reader::with_phase(&bytes, from.1, from.0);
        let mut value = type_code.clone();
        recode::skip_type_code(&mut value, &mut Work::default()).unwrap();
        let mut copy = Vec::new();
        let mut writer = Writer::with_phase(&mut copy, to.1, to.0);
        recode::copy_value(&mut type_code, &mut value, &mut writer, &mut Work::default()).unwrap();
        value.finish("the value").unwrap();
        let mut written = Vec::new();
        any.value.write(&any.type_code, &mut Writer::with_phase(&mut written, to.1, to.0)).unwrap();
        // Types within the value keep the byte order of their encapsulations, so the octets may differ.
        let read = |bytes| {
            let mut reader = Reader::with_phase(bytes, to.1, to.0);
            let value = Value::read(&any.type_code, &mut reader, &mut Work::default()).unwrap();
            reader.finish("the value").unwrap();
            value
        };
        assert_eq!(read(&copy), any.value);
        assert_eq!(read(&written), any.value);
    });
}

#[test]
fn every_any_that_is_cut_short_is_refused() {
    for_each_seed(150, |rng| {
        let any = random_any(rng);
        let encoding = rng.choice(encodings()).unwrap();
        let phase = rng.usize(..8);
        let to = rng.choice(encodings()).unwrap();
        let bytes = written(&any, encoding, phase);
        for length in 0..bytes.len() {
            let cut = Reader::with_phase(&bytes[..length], phase, encoding);
            assert!(recode::skip_any(&mut cut.clone(), &mut Work::default()).is_err(), "cut at {length}");
            assert!(AnyValue::read(&mut cut.clone(), &mut Work::default()).is_err(), "cut at {length}");
            let mut buf = Vec::new();
            let mut writer = Writer::new(&mut buf, to);
            assert!(recode::copy_any(&mut cut.clone(), &mut writer, &mut Work::default()).is_err(), "cut at {length}");
        }
    });
}

#[test]
fn too_few_steps_are_an_error_wherever_they_run_out() {
    for_each_seed(100, |rng| {
        let any = random_any(rng);
        let encoding = rng.choice(encodings()).unwrap();
        let bytes = written(&any, encoding, 0);
        let mut enough = Work::default();
        recode::skip_any(&mut Reader::new(&bytes, encoding), &mut enough).unwrap();
        let needed = Work::default().steps_left() - enough.steps_left();
        for steps in 0..needed {
            let mut reader = Reader::new(&bytes, encoding);
            let error = recode::skip_any(&mut reader, &mut Work::new(steps, 128)).unwrap_err();
            assert_eq!(error.kind, ReadErrorKind::TooMuchWork);
        }
    });
}

#[test]
fn mutated_bytes_are_refused_or_understood_by_everybody() {
    for_each_seed(4000, |rng| {
        let any = random_any(rng);
        let encoding = rng.choice(encodings()).unwrap();
        let mut bytes = written(&any, encoding, 0);
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..bytes.len());
            let candidates = [0, 1, 0xFF, rng.u8(..), bytes[at] ^ 1 << rng.u8(..8)];
            bytes[at] = rng.choice(candidates).unwrap();
        }
        let mut skipped = Reader::new(&bytes, encoding);
        let skip = recode::skip_any(&mut skipped, &mut Work::default());
        let mut taken = Reader::new(&bytes, encoding);
        if AnyValue::read(&mut taken, &mut Work::new(1 << 18, 100)).is_ok() {
            assert_eq!(skip, Ok(()));
            assert_eq!(taken.position(), skipped.position());
        }
        let to = rng.choice(encodings()).unwrap();
        let mut copy = Vec::new();
        let mut copying = Reader::new(&bytes, encoding);
        let result = recode::copy_any(&mut copying, &mut Writer::new(&mut copy, to), &mut Work::default());
        match result {
            Ok(()) => {
                assert_eq!(skip, Ok(()));
                assert_eq!(copying.position(), skipped.position());
                let mut again = Reader::new(&copy, to);
                recode::skip_any(&mut again, &mut Work::default()).unwrap();
                again.finish("the copy").unwrap();
            }
            // Skipping does not look into text.
            Err(error) if matches!(error.kind, ReadErrorKind::BadText { .. }) => {
                assert_eq!(encoding.chars, CharSet::Utf8);
            }
            // And not every character has a place on the other side.
            Err(error) if matches!(error.kind, ReadErrorKind::Lacking(_)) => assert_ne!(encoding, to),
            // Nor into names, unless a type has to be rebuilt.
            Err(ReadError { kind: ReadErrorKind::Malformed { what: "a name with NUL in it" }, .. }) => {}
            // Elements without size are skipped at once, but copied one by one where nothing is known to look alike.
            Err(error) if error.kind == ReadErrorKind::TooMuchWork => {}
            Err(_) => assert!(skip.is_err()),
        }
    });
}

#[test]
fn types_come_back_equal_and_octet_for_octet() {
    for_each_seed(1000, |rng| {
        let code = random_type(rng, 5);
        for encoding in encodings() {
            let mut bytes = Vec::new();
            code.write(&mut Writer::with_phase(&mut bytes, 5, encoding));
            let mut reader = Reader::with_phase(&bytes, 5, encoding);
            let read = TypeCode::read(&mut reader, &mut Work::default()).unwrap();
            reader.finish("the type").unwrap();
            assert_eq!(read, code);
            assert!(read.equivalent(&code));
            let mut again = Vec::new();
            read.write(&mut Writer::with_phase(&mut again, 5, encoding));
            assert_eq!(again, bytes);
            assert_eq!(read.to_string(), code.to_string());
            assert_eq!(format!("{read:#}"), format!("{code:#}"));
        }
    });
}

#[test]
fn different_types_are_not_equal() {
    for_each_seed(300, |rng| {
        let (a, b) = (random_type(rng, 3), random_type(rng, 3));
        let mut bytes = [Vec::new(), Vec::new()];
        a.write(&mut Writer::new(&mut bytes[0], encodings()[0]));
        b.write(&mut Writer::new(&mut bytes[1], encodings()[0]));
        assert_eq!(a == b, bytes[0] == bytes[1], "{a} and {b}");
    });
}

#[test]
fn types_are_copied_between_encodings() {
    for_each_seed(300, |rng| {
        let code = random_type(rng, 4);
        let (from, to) = (rng.choice(encodings()).unwrap(), rng.choice(encodings()).unwrap());
        let (mut bytes, mut copy) = (Vec::new(), Vec::new());
        code.write(&mut Writer::with_phase(&mut bytes, 3, from));
        let mut reader = Reader::with_phase(&bytes, 3, from);
        recode::copy_type_code(&mut reader, &mut Writer::with_phase(&mut copy, 6, to), &mut Work::default()).unwrap();
        let mut reader = Reader::with_phase(&copy, 6, to);
        assert_eq!(TypeCode::read(&mut reader, &mut Work::default()).unwrap(), code);
        reader.finish("the type").unwrap();
        assert!(to.version >= Version::V1_0);
    });
}
