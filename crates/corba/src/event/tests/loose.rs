//! Events in which nothing lies at a multiple of 8.

use super::{CHARS, ENDIANS, Sample, encoding, golden, output_form_of, samples};
use crate::event::{
    Batch, FORM_ANY, FORM_STRUCTURED, Header, Skeleton, batch_encoding, fits, is_loose, phase_of, read_any,
    read_structured, reader, tag_at, tag_of, write_batch,
};
use engine::Event;
use giop::cdr::{CharSet, Encoding, Reader, Version, Writer};
use giop::typecode::{Kind, TypeCode, Work};
use giop::value::{AnyValue, Value};
use std::sync::Arc;

/// Values of many types, and whether something in each lies at a multiple of 8.
fn values() -> Vec<(AnyValue, bool)> {
    let primitive = TypeCode::primitive;
    let doubles = |values: &[f64]| {
        let values = values.iter().map(|value| Value::Double(*value)).collect();
        AnyValue::new(TypeCode::sequence(primitive(Kind::Double)), Value::Sequence(values))
    };
    let inside = |any: AnyValue| AnyValue::new(TypeCode::any(), Value::Any(Box::new(any)));
    let price = AnyValue::new(TypeCode::fixed(31, 2), Value::Fixed("12345678901234567890123456789.25".into()));
    let long_double = AnyValue::new(primitive(Kind::LongDouble), Value::LongDouble([7; 16]));
    let type_of_a_double = Value::TypeCode(Box::new(TypeCode::sequence(primitive(Kind::Double))));
    let wide = AnyValue::new(TypeCode::wstring(), Value::Wstring("☃".into()));
    vec![
        (AnyValue::default(), false),
        (AnyValue::from(1_i16), false),
        (AnyValue::from(-1_i32), false),
        (AnyValue::from(0.5_f32), false),
        (AnyValue::from("text"), false),
        (AnyValue::new(TypeCode::sequence(primitive(Kind::Octet)), Value::Octets(vec![1; 5])), false),
        (doubles(&[]), false),
        (inside(inside(wide)), false),
        (price, false),
        (AnyValue::new(primitive(Kind::TypeCode), type_of_a_double), false),
        (AnyValue::from(0.5_f64), true),
        (AnyValue::from(u64::MAX), true),
        (AnyValue::from(-2_i64), true),
        (doubles(&[0.5]), true),
        (inside(inside(AnyValue::from(0.25_f64))), true),
        (long_double, true),
    ]
}

/// An event with these values, as it is written at a place.
fn written(values: &[&AnyValue], name: &str, encoding: Encoding, phase: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut w = Writer::with_phase(&mut bytes, phase, encoding);
    ["domain", "type", name].into_iter().for_each(|text| w.string(text));
    let (body, filterable) = values.split_last().unwrap();
    w.u32(0);
    w.length(filterable.len());
    for value in filterable {
        w.string(name);
        value.write(&mut w).unwrap();
    }
    body.write(&mut w).unwrap();
    bytes
}

/// An event as a lane takes it in.
fn taken_in(body: &Reader<'_>) -> Arc<Event> {
    let header = read_structured(body.clone(), &mut Work::default()).unwrap();
    let mut event = Event::default();
    event.form = FORM_STRUCTURED;
    event.tag = tag_at(body.encoding(), body.phase(), header.is_loose);
    event.bytes.extend_from_slice(body.rest());
    Arc::new(event)
}

#[test]
fn one_value_that_lies_at_a_multiple_of_eight_makes_the_difference() {
    for (value, has_eights) in values() {
        for phase in 0..8 {
            let encoding = encoding(ENDIANS[1], Version::V1_2, CharSet::Utf8);
            let header = |filterable, body| {
                let bytes = written(&[filterable, body], "name", encoding, phase);
                let body = Reader::with_phase(&bytes, phase, encoding);
                read_structured(body, &mut Work::default()).unwrap().is_loose
            };
            let other = AnyValue::from("other");
            assert_eq!(header(&value, &other), !has_eights, "{value:?} as a field");
            assert_eq!(header(&other, &value), !has_eights, "{value:?} as the body");
            let mut bytes = Vec::new();
            value.write(&mut Writer::with_phase(&mut bytes, phase, encoding)).unwrap();
            let any = read_any(Reader::with_phase(&bytes, phase, encoding), &mut Work::default()).unwrap();
            assert_eq!(any.is_loose, !has_eights, "{value:?} alone");
        }
    }
}

#[test]
fn a_sequence_of_what_is_copied_is_that_of_what_is_written_anew() {
    let values = values();
    let mut rng = fastrand::Rng::with_seed(5);
    let mut copied = 0;
    for _ in 0..500 {
        let encoding = encoding(rng.choice(ENDIANS).unwrap(), Version::V1_2, rng.choice(CHARS).unwrap());
        let required_form = output_form_of(FORM_STRUCTURED, true, Version::V1_2, &CHARS);
        let (mut events, mut strict) = (Vec::new(), Vec::new());
        for _ in 0..rng.usize(1..8) {
            let chosen: Vec<_> = (0..rng.usize(1..4)).map(|_| &rng.choice(&values).unwrap().0).collect();
            let phase = rng.usize(..8);
            let bytes = written(&chosen, &"name"[..rng.usize(..5)], encoding, phase);
            let event = taken_in(&Reader::with_phase(&bytes, phase, encoding));
            copied += u32::from(is_loose(event.tag));
            events.push(Arc::clone(&event));
            // The same without the knowledge is written anew wherever it has to lie elsewhere.
            let mut same = Event::default();
            (same.form, same.tag) = (FORM_STRUCTURED, tag_of(encoding, phase));
            same.bytes.clone_from(&event.bytes);
            strict.push(Arc::new(same));
        }
        let put_together = |events: &[Arc<Event>]| {
            let mut out = Vec::new();
            let encoding = batch_encoding(events, required_form).unwrap();
            let written =
                write_batch(events, (required_form, false), &mut Vec::new(), &mut Writer::new(&mut out, encoding))
                    .unwrap();
            assert_eq!(written as usize, events.len());
            out
        };
        let sequence = put_together(&events);
        assert_eq!(sequence, put_together(&strict));
        let mut batch = Batch::new();
        let body = Reader::new(&sequence, encoding);
        batch.read(&body, &mut Work::default()).unwrap();
        for ((event, known), original) in batch.events(&body).zip(&events) {
            assert_eq!(known.is_loose, is_loose(original.tag));
            let there = Sample {
                name: String::new(),
                form: FORM_STRUCTURED,
                tag: tag_at(event.encoding(), event.phase(), known.is_loose),
                bytes: event.rest().to_vec(),
            };
            let here = Sample { tag: original.tag, bytes: original.bytes.clone(), ..there.clone() };
            assert_eq!(there.value(), here.value());
        }
    }
    assert!(copied > 300, "{copied} could be copied");
}

#[test]
fn a_known_beginning_tells_it_of_each_value() {
    let is_known_loose = |sample: &Sample, bytes: &[u8], skeleton: &Skeleton| {
        skeleton.known(&reader(bytes, sample.tag), &mut Work::default()).map(|known| known.is_loose)
    };
    for sample in golden().into_iter().chain(samples()) {
        let body = reader(&sample.bytes, sample.tag);
        let header = if sample.form == FORM_ANY {
            read_any(body.clone(), &mut Work::default())
        } else {
            read_structured(body.clone(), &mut Work::default())
        };
        let Ok(header) = header else { continue };
        let skeleton = Skeleton::of(sample.form, &body, &header, &mut Work::default()).unwrap().unwrap();
        assert_eq!(is_known_loose(&sample, &sample.bytes, &skeleton), Some(header.is_loose), "{}", sample.name);
    }
    // The same beginning, and a value of which only some have doubles.
    let encoding = encoding(ENDIANS[0], Version::V1_2, CharSet::Utf8);
    let doubles = |values: Vec<Value>| {
        let any = AnyValue::new(TypeCode::sequence(TypeCode::primitive(Kind::Double)), Value::Sequence(values));
        let bytes = written(&[&any], "name", encoding, 0);
        Sample { name: String::new(), form: FORM_STRUCTURED, tag: tag_of(encoding, 0), bytes }
    };
    let (none, some) = (doubles(vec![]), doubles(vec![Value::Double(0.5)]));
    for first in [&none, &some] {
        let body = reader(&first.bytes, first.tag);
        let skeleton = Skeleton::of(FORM_STRUCTURED, &body, &Header::default(), &mut Work::default()).unwrap().unwrap();
        assert_eq!(is_known_loose(first, &none.bytes, &skeleton), Some(true));
        assert_eq!(is_known_loose(first, &some.bytes, &skeleton), Some(false));
    }
}

#[test]
fn what_came_at_a_multiple_of_four_fits_where_one_of_eight_is_needed_if_it_is_loose() {
    let encoding = encoding(ENDIANS[0], Version::V1_2, CharSet::Utf8);
    for (form, batches) in [(FORM_STRUCTURED, false), (FORM_ANY, false), (FORM_STRUCTURED, true)] {
        let required_form = output_form_of(form, batches, Version::V1_2, &CHARS);
        for phase in 0..8 {
            let (loose, strict) = (tag_at(encoding, phase, true), tag_at(encoding, phase, false));
            assert_eq!(fits(form, loose, required_form), batches || phase % 4 == 0);
            assert_eq!(fits(form, strict, required_form), batches || phase == 0);
            assert_eq!((phase_of(loose), phase_of(strict)), (phase % 4, phase));
            assert_eq!(reader(&[], loose).encoding(), encoding);
        }
    }
}
