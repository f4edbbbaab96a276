//! A link's bytes: the same frames come out however the bytes are cut, and each is the same when it is written and read again, as are
//! datagrams.
#![no_main]

use libfuzzer_sys::fuzz_target;
use links::announce::Announcement;
use links::group::{Datagram, stream_of};
use links::wire::{Frame, LENGTH_BYTES};
use links::{Framer, Limits, Violation};

const LIMITS: Limits = Limits { frame_bytes_max: 1 << 20, window_bytes_max: 1 << 20, outstanding_max: 16 };

fuzz_target!(|data: &[u8]| {
    // One frame without a length, so that the fuzzer need not find one.
    if let Ok(frame) = Frame::read(data) {
        written(frame);
    }
    if let Some(announcement) = Announcement::read(data) {
        let (mut bytes, channels) = (Vec::new(), announcement.channels.iter().collect::<Vec<_>>());
        announcement.write(&channels, &mut bytes);
        assert_eq!(bytes, data);
    }
    if let Ok(datagram) = Datagram::read(data, None) {
        let mut octets = Vec::new();
        datagram.write(stream_of(data).unwrap(), None, &mut octets);
        assert_eq!(octets, data);
    }
    let Some((&cut, bytes)) = data.split_first() else {
        return;
    };
    let whole = frames(bytes, bytes.len().max(1));
    assert_eq!(frames(bytes, usize::from(cut).max(1)), whole);
    if bytes.len() < 2048 {
        assert_eq!(frames(bytes, 1), whole);
    }
});

/// The frames in the bytes when they come `step` at a time, as they are written again, and what ends them.
fn frames(bytes: &[u8], step: usize) -> (Vec<Vec<u8>>, Option<Violation>) {
    let (mut framer, mut found) = (Framer::new(LIMITS), Vec::new());
    for mut input in bytes.chunks(step) {
        loop {
            match framer.next(input) {
                Ok((Some(frame), taken)) => {
                    found.push(written(frame));
                    input = &input[taken..];
                }
                Ok((None, taken)) => {
                    assert_eq!(taken, input.len());
                    break;
                }
                Err(violation) => return (found, Some(violation)),
            }
        }
        assert!(framer.retained_bytes() <= LENGTH_BYTES + LIMITS.frame_bytes_max as usize);
    }
    (found, None)
}

/// The frame as it is written, which is read as the same.
fn written(frame: Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.write(&mut bytes);
    assert_eq!(Frame::read(&bytes[LENGTH_BYTES..]), Ok(frame));
    bytes
}
