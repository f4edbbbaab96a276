//! Frames of the small protocol: what is read is the same when it is written and read again, and not before it is whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tempo::wire::{Frame, Unreadable, frame_octets};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while !rest.is_empty() {
        match Frame::read(rest) {
            Ok((frame, octets)) => {
                assert_eq!(frame_octets(rest), Ok(octets));
                assert!(octets <= rest.len());
                let mut written = vec![0; frame.octets()];
                assert_eq!(frame.write(&mut written), Some(written.len()));
                assert_eq!(Frame::read(&written), Ok((frame, written.len())));
                let cut = octets - 1;
                assert!(matches!(Frame::read(&rest[..cut]), Err(Unreadable::Incomplete { missing }) if missing <= octets));
                rest = &rest[octets..];
            }
            Err(unreadable) => match unreadable.octets() {
                Some(octets) => rest = &rest[octets..],
                None => return,
            },
        }
    }
});
