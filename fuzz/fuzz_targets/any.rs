//! An `Any`: skipping, reading and copying agree.
#![no_main]

mod common;

use giop::cdr::{ReadErrorKind, Reader, Writer};
use giop::recode;
use giop::typecode::Work;
use giop::value::{AnyRef, AnyValue};
use libfuzzer_sys::fuzz_target;

const STEPS: u32 = 1 << 14;
const DEPTH: u32 = 48;

fn work() -> Work {
    Work::new(STEPS, DEPTH)
}

fuzz_target!(|data: &[u8]| {
    let [from, to, bytes @ ..] = data else {
        return;
    };
    let (encoding, phase) = common::chosen(*from);
    let mut skipped = Reader::with_phase(bytes, phase, encoding);
    let skip = recode::skip_any(&mut skipped, &mut work());
    read(bytes, *from, skip.is_ok().then_some(skipped.position()));
    if skip.is_ok() {
        let mut reader = Reader::with_phase(bytes, phase, encoding);
        let lazy = AnyRef::read(&mut reader, &mut work()).unwrap();
        let _ = (lazy.kind(), lazy.resolved_kind(), lazy.text());
        recode::skip_any(&mut lazy.reader(), &mut work()).unwrap();
        let mut value = lazy.value_reader(&mut work()).unwrap();
        recode::skip_value(&mut lazy.reader(), &mut value, &mut work()).unwrap();
        value.finish("the value").unwrap();
    }
    copy(bytes, *from, *to, skip.is_ok().then_some(skipped.position()));
});

fn read(bytes: &[u8], from: u8, skipped: Option<usize>) {
    let (encoding, phase) = common::chosen(from);
    let mut reader = Reader::with_phase(bytes, phase, encoding);
    let Ok(any) = AnyValue::read(&mut reader, &mut work()) else {
        return;
    };
    // Looking for the target of an indirection takes steps, which reading does not have to do.
    if skipped.is_some() {
        assert_eq!(skipped, Some(reader.position()));
    }
    let _ = any.to_string();
    let mut written = Vec::new();
    if any.write(&mut Writer::with_phase(&mut written, phase, encoding)).is_ok() {
        let mut reader = Reader::with_phase(&written, phase, encoding);
        let again = AnyValue::read(&mut reader, &mut work()).unwrap();
        reader.finish("the any").unwrap();
        // Compared as text, in which what is not a number is the same as itself.
        assert_eq!((again.to_string(), &again.type_code), (any.to_string(), &any.type_code));
    }
}

fn copy(bytes: &[u8], from: u8, to: u8, skipped: Option<usize>) {
    let (encoding, phase) = common::chosen(from);
    let (to_encoding, to_phase) = common::chosen(to);
    let mut reader = Reader::with_phase(bytes, phase, encoding);
    let mut copy = Vec::new();
    let mut writer = Writer::with_phase(&mut copy, to_phase, to_encoding);
    match recode::copy_any(&mut reader, &mut writer, &mut work()) {
        Ok(()) => {
            assert_eq!(skipped, Some(reader.position()));
            // Alignment adds at most 7 to each octet, and UTF-8 at most doubles.
            assert!(copy.len() <= bytes.len() * 8 + 8);
            let mut again = Reader::with_phase(&copy, to_phase, to_encoding);
            recode::skip_any(&mut again, &mut work()).unwrap();
            again.finish("the copy").unwrap();
        }
        Err(error) => match error.kind {
            // Skipping does not look into text and names, and takes fewer steps for elements of one size.
            ReadErrorKind::BadText { .. } | ReadErrorKind::TooMuchWork => {}
            ReadErrorKind::Malformed { what: "a name with NUL in it" } => {}
            _ => assert_eq!(skipped, None, "{error}"),
        },
    }
}
