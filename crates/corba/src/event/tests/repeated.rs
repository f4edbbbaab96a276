//! The mark of events that may have come before.

use super::{CHARS, Sample, VERSIONS, golden, output_form, output_form_of, output_forms, samples};
use crate::event::{
    DEAD_LETTER, FORM_ANY, FORM_STRUCTURED, POSSIBLY_REPEATED, Pulled, Source, as_dead_letter, as_repeated,
    encoding_of, fits, pull_output_form, reader, source_for, write_batch, write_pulled,
};
use client::notify::{Property, StructuredEvent};
use engine::OutputForm;
use giop::cdr::{CharSet, Reader, Version, Writer};
use std::sync::Arc;

fn mark() -> Property {
    Property::new(str::from_utf8(POSSIBLY_REPEATED).unwrap(), true)
}

fn read(bytes: &[u8], tag: u64) -> StructuredEvent {
    let mut rest = reader(bytes, tag);
    let event = StructuredEvent::read(&mut rest).unwrap();
    rest.finish("a structured event").unwrap();
    event
}

fn structured() -> impl Iterator<Item = Sample> {
    samples().into_iter().chain(golden()).filter(|sample| sample.form == FORM_STRUCTURED)
}

fn repeated(sample: &Sample) -> Sample {
    Sample { tag: as_repeated(sample.tag), ..sample.clone() }
}

/// Sequence consumers, and those that take one at a time.
fn structured_output_forms() -> Vec<OutputForm> {
    let output_form = |batches, version| output_form_of(FORM_STRUCTURED, batches, version, &CHARS);
    [false, true].into_iter().flat_map(|batches| VERSIONS.map(|version| output_form(batches, version))).collect()
}

#[test]
fn a_consumer_that_asks_for_the_mark_gets_it_behind_what_the_header_has_and_no_other_sees_a_difference() {
    let mut marked = 0;
    for sample in structured() {
        let restored = repeated(&sample);
        for required_form in structured_output_forms() {
            let plain = sample.translated(required_form);
            assert_eq!(restored.translated(required_form).bytes, plain.bytes, "{}", sample.name);
            let asks = required_form.marking_repeats(true);
            assert_eq!(
                sample.translated(asks).bytes,
                plain.bytes,
                "{}: one that comes for the first time",
                sample.name
            );
            assert!(!fits(restored.form, restored.tag, asks));
            let there = restored.translated(asks);
            let mut expected = read(&plain.bytes, plain.tag);
            expected.variable_header.push(mark());
            assert_eq!(read(&there.bytes, there.tag), expected, "{}", sample.name);
            // It has the mark, and gets no second one.
            assert_eq!(repeated(&there).translated(asks).value(), there.value());
            marked += 1;
        }
    }
    assert!(marked > 100, "{marked}");
}

#[test]
fn what_is_made_of_an_any_or_put_into_one_is_marked_where_it_has_a_header() {
    let mut seen = [0, 0];
    for sample in golden().into_iter().chain(samples()) {
        let restored = repeated(&sample);
        for required_form in output_forms() {
            if !sample.is_sayable(required_form) {
                continue;
            }
            let asks = required_form.marking_repeats(true);
            assert_eq!(
                restored.translated(required_form).bytes,
                sample.translated(required_form).bytes,
                "{}",
                sample.name
            );
            if super::form_of(required_form) == FORM_STRUCTURED {
                let there = restored.translated(asks);
                assert_eq!(read(&there.bytes, there.tag).variable_header.last(), Some(&mark()), "{}", sample.name);
                seen[0] += 1;
            } else if sample.form == FORM_ANY {
                assert_eq!(
                    restored.translated(asks).bytes,
                    sample.translated(required_form).bytes,
                    "an Any has no header"
                );
                seen[1] += 1;
            } else {
                // A structured event in an Any has its own, where it is not itself made of an Any.
                let back = restored.translated(asks).translated(output_form(FORM_STRUCTURED, Version::V1_2, &CHARS));
                let is_of_any =
                    sample.value() != back.value() && back.value() == sample.translated(required_form).value();
                assert!(is_of_any || format!("{:?}", back.value()).contains("PossiblyRepeated"), "{}", sample.name);
            }
        }
    }
    assert!(seen[0] > 100 && seen[1] > 50, "{seen:?}");
}

/// What a consumer never takes goes to another channel, where its origin was not known.
#[test]
fn a_dead_letter_says_why_for_which_consumer_and_of_which_channel_behind_what_its_header_has() {
    let values = ["undeliverable", "proxy 1 of channel 2", "2"];
    let said =
        || DEAD_LETTER.into_iter().zip(values).map(|(name, value)| Property::new(str::from_utf8(name).unwrap(), value));
    let mut seen = 0;
    for sample in golden().into_iter().chain(samples()) {
        let mut bytes = Vec::new();
        let tag = as_dead_letter((sample.form, sample.tag, &sample.bytes), values, &mut bytes).unwrap();
        let letter = read(&bytes, tag);
        if sample.form == FORM_STRUCTURED {
            let mut expected = read(&sample.bytes, sample.tag);
            expected.variable_header.extend(said());
            assert_eq!(letter, expected, "{}", sample.name);
        } else {
            assert!(letter.variable_header.ends_with(&said().collect::<Vec<_>>()), "{}", sample.name);
        }
        seen += 1;
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn a_consumer_that_asks_for_the_mark_while_the_event_waits_gets_the_event_without() {
    for sample in structured() {
        let event = repeated(&sample).event();
        for required_form in structured_output_forms() {
            let asks = required_form.marking_repeats(true);
            let source = source_for(&event, required_form);
            // None where it would have had to be translated for this consumer in any case.
            assert_eq!(source_for(&event, asks), source);
            assert_eq!(source, fits(event.form, event.tag, required_form).then_some(Source::Native));
        }
    }
}

#[test]
fn sequences_have_marked_and_unmarked_events_side_by_side() {
    let asks = output_form_of(FORM_STRUCTURED, true, Version::V1_2, &CHARS).marking_repeats(true);
    let plain = super::sample(giop::cdr::Endian::Big, Version::V1_2, CharSet::Utf8, 0);
    let mut restored = repeated(&plain).event();
    let there = repeated(&plain).translated(asks);
    let alternate = restored.alternates.push(asks);
    (alternate.tag, alternate.bytes) = (there.tag, there.bytes);
    let events = [Arc::new(restored), Arc::new(plain.event())];
    let encoding = encoding_of(plain.tag);
    let headers = |bytes: &[u8], tried: bool| {
        let mut rest = Reader::new(bytes, encoding);
        let events: Vec<StructuredEvent> =
            (0..rest.u32().unwrap()).map(|_| StructuredEvent::read(&mut rest).unwrap()).collect();
        assert!(!tried || rest.bool().unwrap());
        rest.finish("events").unwrap();
        events.iter().map(|event| event.variable_header.contains(&mark())).collect::<Vec<bool>>()
    };
    let mut bytes = Vec::new();
    write_batch(&events, (asks, false), &mut Vec::new(), &mut Writer::new(&mut bytes, encoding)).unwrap();
    assert_eq!(headers(&bytes, false), [true, false]);
    let mut bytes = Vec::new();
    write_batch(&events, (asks.marking_repeats(false), false), &mut Vec::new(), &mut Writer::new(&mut bytes, encoding))
        .unwrap();
    assert_eq!(headers(&bytes, false), [false, false]);
    // For a consumer that pulls it is written when it asks.
    let pulls = pull_output_form(FORM_STRUCTURED);
    for (output_form, expected) in [(pulls, [false, false]), (pulls.marking_repeats(true), [true, false])] {
        let mut bytes = Vec::new();
        write_pulled(
            &events,
            Pulled::Batch,
            true,
            (output_form, None),
            &mut Vec::new(),
            &mut Writer::new(&mut bytes, encoding),
        )
        .unwrap();
        assert_eq!(headers(&bytes, true), expected);
    }
}
