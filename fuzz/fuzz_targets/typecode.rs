//! A type: checking and reading agree, and what was read is the same when it is written and read again.
#![no_main]

mod common;

use giop::cdr::{ReadError, ReadErrorKind, Reader, Writer};
use giop::recode;
use giop::typecode::{TypeCode, Work};
use libfuzzer_sys::fuzz_target;

const STEPS: u32 = 1 << 14;
const DEPTH: u32 = 48;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else {
        return;
    };
    let (encoding, phase) = common::chosen(choice);
    let mut checked = Reader::with_phase(bytes, phase, encoding);
    let check = recode::skip_type_code(&mut checked, &mut Work::new(STEPS, DEPTH));
    let mut taken = Reader::with_phase(bytes, phase, encoding);
    match TypeCode::read(&mut taken, &mut Work::new(STEPS, DEPTH)) {
        Ok(code) => {
            // Looking for the target of an indirection takes steps, which reading does not have to do.
            if check.as_ref().is_err_and(|error| error.kind == ReadErrorKind::TooMuchWork) {
                return;
            }
            assert_eq!((check, checked.position()), (Ok(()), taken.position()));
            same_again(&code, choice);
        }
        // What is only passed on need not be names.
        Err(ReadError { kind: ReadErrorKind::BadText { .. }, .. }) => {}
        Err(ReadError { kind: ReadErrorKind::Malformed { what: "a name with NUL in it" }, .. }) => {}
        Err(error) => assert!(check.is_err(), "{error}"),
    }
});

fn same_again(code: &TypeCode, choice: u8) {
    for choice in [choice, !choice] {
        let (mut encoding, phase) = common::chosen(choice);
        // All that can be named can be named in UTF-8.
        encoding.chars = giop::cdr::CharSet::Utf8;
        let mut bytes = Vec::new();
        code.write(&mut Writer::with_phase(&mut bytes, phase, encoding));
        let mut reader = Reader::with_phase(&bytes, phase, encoding);
        let again = TypeCode::read(&mut reader, &mut Work::new(STEPS, DEPTH)).unwrap();
        reader.finish("the type").unwrap();
        assert!(again.equal(code) && again.equivalent(code));
        assert_eq!(again.to_string(), code.to_string());
        let mut bytes_again = Vec::new();
        again.write(&mut Writer::with_phase(&mut bytes_again, phase, encoding));
        assert_eq!(bytes_again, bytes);
    }
    let _ = format!("{code:#}");
}
