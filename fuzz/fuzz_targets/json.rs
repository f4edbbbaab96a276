//! Lines of JSON: whatever arrives, in whatever pieces, ends in requests or refusals, and an event that can be published can be
//! written as a line.
#![no_main]

use giop::cdr::Reader;
use giop::typecode::Work;
use json::{Heard, Limits, Request, Session, event};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, bytes)) = bytes.split_first() else { return };
    let limits = Limits { line_bytes_max: 1024, values_max: 256, depth_max: 16 };
    let mut session = Session::new(limits);
    for mut input in bytes.chunks(usize::from(*piece).max(1)) {
        while let Some(heard) = session.next(&mut input) {
            if let Heard::Request(Request::Publish(publish)) = heard {
                let mut encoded = Vec::new();
                if publish.write(&mut encoded).is_ok() {
                    let mut line = Vec::new();
                    let reader = Reader::new(&encoded, event::ENCODING);
                    event::write(&mut line, 0, reader, &mut Work::new(100_000, 128)).unwrap();
                    assert!(core::str::from_utf8(&line).is_ok_and(|line| line.ends_with('\n')));
                }
            }
        }
        assert!(session.retained_bytes() <= limits.line_bytes_max);
    }
});
