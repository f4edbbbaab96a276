//! Events in sequences and in the results of pulls.

use super::{CHARS, ENDIANS, Sample, VERSIONS, encoding, golden, output_form, output_form_of, sample, samples};
use crate::event::{
    Batch, FORM_ANY, FORM_STRUCTURED, Known, Pulled, Translated, Untranslatable, batch_encoding, encoding_of, fits,
    phase_of, pull_output_form, read_header, read_pulled, reader, tag_at, tag_of, takes_batches, translate, version_of,
    write_batch, write_nothing, write_pulled,
};
use engine::{Event, Form, OutputForm};
use giop::cdr::{CharSet, Encoding, Endian, Reader, Version, Writer};
use giop::typecode::Work;
use giop::value::Value;
use std::sync::Arc;

/// What a sequence consumer wants that takes this version and these code sets.
fn batches(version: Version, chars: &[CharSet]) -> OutputForm {
    output_form_of(FORM_STRUCTURED, true, version, chars)
}

/// The event as a lane holds it, with what it is for a consumer that cannot take it as it is.
fn queued(sample: &Sample, required_form: OutputForm) -> Arc<Event> {
    let mut event = sample.event();
    if !fits(event.form, event.tag, required_form) {
        let (form, tag, bytes) = (event.form, event.tag, event.bytes.clone());
        let alternate = event.alternates.push(required_form);
        match translate(form, tag, &bytes, (required_form, 0), &mut alternate.bytes) {
            Ok(Translated::Written { tag, .. }) => alternate.tag = tag,
            Ok(Translated::AlreadyFits) => panic!("it did not fit"),
            Err(_) => event.alternates.pop(),
        }
    }
    Arc::new(event)
}

/// The events of a body, each on its own.
fn taken_apart(body: &Reader<'_>, batch: &Batch) -> Vec<Sample> {
    let sample = |(event, known): (Reader<'_>, Known)| {
        let tag = tag_at(event.encoding(), event.phase(), known.is_loose);
        Sample { name: String::new(), form: FORM_STRUCTURED, tag, bytes: event.rest().to_vec() }
    };
    batch.events(body).map(sample).collect()
}

fn read_batch(body: &Reader<'_>) -> Vec<Sample> {
    let mut batch = Batch::new();
    batch.read(body, &mut Work::default()).unwrap();
    assert_eq!((batch.len(), batch.is_empty()), (batch.events(body).len(), batch.events(body).len() == 0));
    taken_apart(body, &batch)
}

/// Values that agree but for characters which the code set in between lacks.
fn agree(there: &Value, here: &Value) -> bool {
    there == here || format!("{there:?}").contains('?') && !format!("{here:?}").contains('?')
}

/// What a sequence consumer gets.
struct Sequence {
    tag: u64,
    events: u32,
    left_out: Vec<u32>,
}

/// Appends the sequence that a consumer with this want gets.
fn put_together(
    events: &[Arc<Event>],
    required_form: OutputForm,
    out: &mut Vec<u8>,
) -> Result<Sequence, Untranslatable> {
    let encoding = batch_encoding(events, required_form).unwrap();
    let mut left_out = vec![9];
    let events = write_batch(events, (required_form, false), &mut left_out, &mut Writer::new(out, encoding))?;
    Ok(Sequence { tag: tag_of(encoding, 0), events, left_out })
}

/// All that there is, in structured form, and what it is worth.
fn everything() -> Vec<(Sample, Value)> {
    let wide = output_form(FORM_STRUCTURED, Version::V1_2, &CHARS);
    let with_value = |sample: Sample| {
        let value = if sample.form == FORM_ANY { sample.translated(wide).value() } else { sample.value() };
        (sample, value)
    };
    golden().into_iter().chain(samples()).map(with_value).collect()
}

#[test]
fn events_of_all_sorts_leave_in_one_sequence() {
    let all = everything();
    for version in VERSIONS {
        for chars in [&[CharSet::Latin1][..], &[CharSet::Utf8], &CHARS] {
            let required_form = batches(version, chars);
            assert!(takes_batches(required_form) && version_of(required_form) == version);
            let all: Vec<_> = all.iter().filter(|(sample, _)| sample.is_sayable(required_form)).collect();
            assert!(all.len() > 100);
            let events: Vec<_> = all.iter().map(|(sample, _)| queued(sample, required_form)).collect();
            let mut out = vec![0xaa; 5];
            let written = put_together(&events, required_form, &mut out).unwrap();
            assert_eq!((written.events as usize, written.left_out), (all.len(), vec![]));
            let Encoding { version: in_version, chars: in_chars, .. } = encoding_of(written.tag);
            assert_eq!((in_version, phase_of(written.tag)), (version, 0));
            assert!(chars.contains(&in_chars) || version == Version::V1_0);
            let body = reader(&out[5..], written.tag);
            let back = read_batch(&body);
            assert_eq!(back.len(), all.len());
            for (sample, (original, value)) in back.iter().zip(all) {
                assert!(agree(&sample.value(), value), "{} in {version:?} {chars:?}", original.name);
            }
        }
    }
}

#[test]
fn a_sequence_of_events_in_one_encoding_is_copied_octet_for_octet() {
    let one = sample(Endian::Big, Version::V1_2, CharSet::Utf8, 0);
    let required_form = batches(Version::V1_2, &CHARS);
    let events = vec![queued(&one, required_form); 3];
    assert!(events.iter().all(|event| event.alternates.is_empty()));
    let mut out = Vec::new();
    let written = put_together(&events, required_form, &mut out).unwrap();
    assert_eq!(encoding_of(written.tag), encoding_of(one.tag));
    for event in read_batch(&reader(&out, written.tag)) {
        assert_eq!(event.value(), one.value());
        let same = phase_of(event.tag) == phase_of(one.tag);
        assert_eq!(event.bytes == one.bytes, same);
    }
    // None at all is a sequence, too.
    out.clear();
    assert_eq!(batch_encoding(&[], required_form), None);
    let mut writer = Writer::new(&mut out, Encoding::new(Endian::Big));
    let written = write_batch(&[], (required_form, false), &mut Vec::new(), &mut writer).unwrap();
    assert_eq!((written, &out[..]), (0, &[0; 4][..]));
}

#[test]
fn a_sequence_is_read_wherever_its_message_puts_it() {
    let event = sample(Endian::Little, Version::V1_2, CharSet::Utf8, 0).value();
    let code = crate::event::types::structured_event_type();
    for endian in ENDIANS {
        for version in VERSIONS {
            for chars in CHARS {
                for phase in 0..8 {
                    let encoding = encoding(endian, version, chars);
                    let mut bytes = Vec::new();
                    let mut w = Writer::with_phase(&mut bytes, phase, encoding);
                    w.u32(3);
                    (0..3).for_each(|_| event.write(&code, &mut w).unwrap());
                    let body = Reader::with_phase(&bytes, phase, encoding);
                    let events = read_batch(&body);
                    assert_eq!(events.len(), 3);
                    for sample in &events {
                        assert!(agree(&sample.value(), &event), "{encoding:?} at {phase}");
                        sample.check();
                        let header = read_header(reader(&sample.bytes, sample.tag), &mut Work::default()).unwrap();
                        assert_eq!(header.domain.len(), if chars == CharSet::Utf8 { 10 } else { 9 });
                    }
                    if phase < 2 {
                        let mut batch = Batch::new();
                        for length in 0..bytes.len() {
                            let cut = Reader::with_phase(&bytes[..length], phase, encoding);
                            batch.read(&cut, &mut Work::default()).unwrap_err();
                        }
                        bytes.push(0);
                        let longer = Reader::with_phase(&bytes, phase, encoding);
                        batch.read(&longer, &mut Work::default()).unwrap_err();
                    }
                }
            }
        }
    }
}

#[test]
fn a_sequence_that_promises_more_than_it_holds_is_refused_at_once() {
    let bytes = [0xff; 4_000];
    let body = Reader::new(&bytes, Encoding::new(Endian::Big));
    let mut work = Work::default();
    Batch::new().read(&body, &mut work).unwrap_err();
    assert_eq!(work.steps_left(), Work::default().steps_left());
}

/// An event with text that is not UTF-8 and says it is.
fn broken() -> Sample {
    let encoding = encoding(Endian::Big, Version::V1_2, CharSet::Utf8);
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes, encoding);
    w.string_bytes(&[0xff]);
    (0..2).for_each(|_| w.string_bytes(b""));
    (0..3).for_each(|_| w.u32(0));
    Sample { name: "broken".into(), form: FORM_STRUCTURED, tag: tag_of(encoding, 0), bytes }
}

#[test]
fn what_cannot_be_put_into_a_sequence_is_left_out() {
    let required_form = batches(Version::V1_2, &[CharSet::Latin1]);
    let good = sample(Endian::Little, Version::V1_1, CharSet::Utf8, 4);
    let events = [&broken(), &good, &broken()].map(|sample| queued(sample, required_form));
    let mut out = Vec::new();
    let written = put_together(&events, required_form, &mut out).unwrap();
    assert_eq!((written.events, written.left_out), (1, vec![0, 2]));
    assert_eq!(read_batch(&reader(&out, written.tag)).len(), 1);
    assert_eq!(batch_encoding(&events[..1], required_form), None);
    let mut writer = Writer::new(&mut out, Encoding::new(Endian::Big));
    assert_eq!(
        write_batch(&events[..1], (required_form, false), &mut Vec::new(), &mut writer),
        Err(Untranslatable::Already)
    );
    out.clear();
    // One that only turns out to be broken when it is put into another byte order.
    let both = batches(Version::V1_2, &CHARS);
    let mixed =
        [&sample(Endian::Little, Version::V1_2, CharSet::Latin1, 0), &broken()].map(|sample| queued(sample, both));
    let written = put_together(&mixed, both, &mut out).unwrap();
    assert_eq!(written.events as usize + written.left_out.len(), 2);
}

const KINDS: [(Pulled, Form); 3] =
    [(Pulled::Any, FORM_ANY), (Pulled::Structured, FORM_STRUCTURED), (Pulled::Batch, FORM_STRUCTURED)];

/// Every place to which a result can be written.
fn places() -> Vec<(Encoding, usize)> {
    let mut places = Vec::new();
    for endian in ENDIANS {
        for version in VERSIONS {
            for chars in CHARS {
                let phases = if version == Version::V1_2 { vec![0] } else { vec![0, 4, 7] };
                places.extend(phases.into_iter().map(|phase| (encoding(endian, version, chars), phase)));
            }
        }
    }
    places
}

/// What was pulled, as events on their own.
fn pulled_back(pulled: Pulled, form: Form, tried: bool, body: &Reader<'_>) -> Vec<Sample> {
    if pulled == Pulled::Batch {
        let mut batch = Batch::new();
        batch.read_pulled(tried, body, &mut Work::default()).unwrap();
        return taken_apart(body, &batch);
    }
    let event = read_pulled(form, tried, body, &mut Work::default()).unwrap();
    let sample = |(event, known): (Reader<'_>, Known)| {
        let tag = tag_at(event.encoding(), event.phase(), known.is_loose);
        Sample { name: String::new(), form, tag, bytes: event.rest().to_vec() }
    };
    event.map(sample).into_iter().collect()
}

#[test]
fn every_event_is_pulled_in_every_form_and_encoding() {
    let chosen = samples().into_iter().step_by(5).chain(golden().into_iter().step_by(7));
    for original in chosen {
        let wide = |form| original.translated(output_form(form, Version::V1_2, &CHARS)).value();
        let own = original.value();
        for (pulled, form) in KINDS {
            let value = if form == original.form { own.clone() } else { wide(form) };
            let event = Arc::new(original.event());
            assert!(fits(original.form, original.tag, pull_output_form(form)), "nothing is translated in advance");
            for (encoding, phase) in places() {
                for tried in [false, true] {
                    let mut bytes = Vec::new();
                    let mut w = Writer::with_phase(&mut bytes, phase, encoding);
                    let mut left_out = vec![9];
                    write_pulled(
                        std::slice::from_ref(&event),
                        pulled,
                        tried,
                        (OutputForm(0), None),
                        &mut left_out,
                        &mut w,
                    )
                    .unwrap();
                    assert!(left_out.is_empty());
                    let body = Reader::with_phase(&bytes, phase, encoding);
                    let back = pulled_back(pulled, form, tried, &body);
                    assert_eq!(back.len(), 1);
                    assert!(agree(&back[0].value(), &value), "{} {pulled:?} {encoding:?}", original.name);
                    back[0].check();
                }
            }
        }
    }
}

#[test]
fn a_try_without_an_event_gives_the_emptiest_value() {
    for (pulled, form) in KINDS {
        for (encoding, phase) in places() {
            let mut bytes = Vec::new();
            write_nothing(pulled, true, &mut Writer::with_phase(&mut bytes, phase, encoding));
            let body = Reader::with_phase(&bytes, phase, encoding);
            assert!(pulled_back(pulled, form, true, &body).is_empty());
            let mut same = Vec::new();
            let mut w = Writer::with_phase(&mut same, phase, encoding);
            write_pulled(&[], pulled, true, (OutputForm(0), None), &mut Vec::new(), &mut w).unwrap();
            assert_eq!(same, bytes);
            for length in 0..bytes.len() {
                let cut = Reader::with_phase(&bytes[..length], phase, encoding);
                assert!(read_pulled(form, true, &cut, &mut Work::default()).is_err() || pulled == Pulled::Batch);
                assert!(Batch::new().read_pulled(true, &cut, &mut Work::default()).is_err());
            }
        }
    }
}

#[test]
fn what_cannot_be_pulled_leaves_no_trace() {
    let latin1 = encoding(Endian::Big, Version::V1_2, CharSet::Latin1);
    for (pulled, _) in KINDS {
        let mut bytes = vec![1, 2, 3];
        let mut w = Writer::new(&mut bytes, latin1);
        write_pulled(&[Arc::new(broken().event())], pulled, true, (OutputForm(0), None), &mut Vec::new(), &mut w)
            .unwrap_err();
        assert_eq!(bytes, [1, 2, 3]);
    }
    // In a sequence the others are pulled all the same.
    let mut bytes = Vec::new();
    let good = sample(Endian::Big, Version::V1_2, CharSet::Utf8, 0).event();
    let events = [Arc::new(broken().event()), Arc::new(good)];
    let mut left_out = Vec::new();
    let mut writer = Writer::new(&mut bytes, latin1);
    write_pulled(&events, Pulled::Batch, false, (OutputForm(0), None), &mut left_out, &mut writer).unwrap();
    assert_eq!(left_out, [0]);
    assert_eq!(pulled_back(Pulled::Batch, FORM_STRUCTURED, false, &Reader::new(&bytes, latin1)).len(), 1);
}

#[test]
fn a_result_is_best_written_in_the_byte_order_of_its_first_event() {
    let event = Arc::new(sample(Endian::Big, Version::V1_1, CharSet::Utf8, 0).event());
    let best = Pulled::encoding(&[event], Version::V1_2, CharSet::Latin1);
    assert_eq!(best, encoding(Endian::Big, Version::V1_2, CharSet::Latin1));
    assert_eq!(Pulled::encoding(&[], Version::V1_0, CharSet::Utf8).version, Version::V1_0);
}

#[test]
fn random_bytes_never_harm_readers_of_sequences_and_results() {
    let mut random = fastrand::Rng::with_seed(0x5e0_5e0);
    let required_form = batches(Version::V1_2, &CHARS);
    let events: Vec<_> = samples().iter().take(4).map(|sample| queued(sample, required_form)).collect();
    let mut out = Vec::new();
    let written = put_together(&events, required_form, &mut out).unwrap();
    let mut batch = Batch::new();
    for _ in 0..20_000 {
        let mut bytes = out.clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(0..bytes.len());
            bytes[at] = if random.bool() { random.u8(..) } else { 0 };
        }
        bytes.truncate(random.usize(0..bytes.len() + 1).max(random.usize(0..bytes.len() + 1)));
        let body = reader(&bytes, written.tag);
        if batch.read(&body, &mut Work::new(20_000, 64)).is_ok() {
            taken_apart(&body, &batch).iter().for_each(Sample::check);
        }
        let _ = batch.read_pulled(true, &body, &mut Work::new(20_000, 64));
        for form in [FORM_ANY, FORM_STRUCTURED] {
            let _ = read_pulled(form, true, &body, &mut Work::new(20_000, 64));
        }
    }
}
