//! A connection's bytes: the same messages come out however the bytes are cut, and memory stays within its limits.
#![no_main]

use core::mem::{Discriminant, discriminant};
use giop::framing::{Inbound, Limits, ProtocolError};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits {
    message_bytes_max: 4096,
    fragment_sets_max: 3,
    fragment_bytes_max: 8192,
    read_bytes: 256,
    retained_bytes_max: 1024,
};

fuzz_target!(|data: &[u8]| {
    let Some((&cut, bytes)) = data.split_first() else {
        return;
    };
    let whole = messages(bytes, bytes.len().max(1));
    assert_eq!(messages(bytes, usize::from(cut).max(1)), whole);
    if bytes.len() < 2048 {
        assert_eq!(messages(bytes, 1), whole);
    }
});

/// The messages in the bytes when they come `step` at a time, and which error ends them. What the error says of bytes may
/// depend on how many of them were there to be seen.
fn messages(bytes: &[u8], step: usize) -> (Vec<Vec<u8>>, Option<Discriminant<ProtocolError>>) {
    let mut inbound = Inbound::new(LIMITS);
    let mut found = Vec::new();
    for piece in bytes.chunks(step) {
        let mut rest = piece;
        while !rest.is_empty() {
            let space = inbound.space();
            assert!(!space.is_empty());
            let taken = space.len().min(rest.len());
            space[..taken].copy_from_slice(&rest[..taken]);
            inbound.filled(taken);
            rest = &rest[taken..];
            loop {
                match inbound.poll_message() {
                    Ok(Some(message)) => {
                        assert_eq!(message.header.message_len(), message.bytes.len());
                        assert!(message.bytes.len() <= LIMITS.message_bytes_max);
                        found.push(message.bytes.to_vec());
                    }
                    Ok(None) => break,
                    Err(error) => return (found, Some(discriminant(&error))),
                }
            }
            assert!(inbound.open_fragment_sets() <= LIMITS.fragment_sets_max);
            assert!(inbound.reserved() <= 8 * LIMITS.fragment_bytes_max);
        }
    }
    (found, None)
}
