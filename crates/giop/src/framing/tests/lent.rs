//! Buffers that are lent to a connection and taken back.

use super::*;

const LOAN: usize = 8192;

fn limits() -> Limits {
    Limits { read_bytes: 4096, retained_bytes_max: 4096, ..Limits::default() }
}

/// Reads once into what is vacant, and collects the messages.
fn read(inbound: &mut Inbound, bytes: &mut &[u8], step: usize, found: &mut Vec<Vec<u8>>) -> Result<(), ProtocolError> {
    let vacant = inbound.vacant();
    let capacity = vacant.capacity();
    let n = (capacity - vacant.len()).min(bytes.len()).min(step);
    assert!(n > 0, "there is room for a read");
    vacant.extend_from_slice(&bytes[..n]);
    assert_eq!(vacant.capacity(), capacity);
    inbound.filled(n);
    *bytes = &bytes[n..];
    while let Some(message) = inbound.poll_message()? {
        found.push(message.bytes.to_vec());
    }
    Ok(())
}

/// As [`feed`], but with a buffer that is lent before each read and taken back behind it. Says also how much the connection
/// held at most while nothing was lent.
fn feed_lent(inbound: &mut Inbound, mut bytes: &[u8], step: usize) -> Result<(Vec<Vec<u8>>, usize), ProtocolError> {
    let (mut found, mut held) = (Vec::new(), 0);
    let mut spare = Some(Vec::with_capacity(LOAN));
    while !bytes.is_empty() {
        if let Some(buffer) = spare.take() {
            spare = inbound.lend(buffer);
        }
        read(inbound, &mut bytes, step, &mut found)?;
        if let Some(buffer) = inbound.reclaim() {
            assert_eq!(buffer.capacity(), LOAN, "what was lent comes back as it was");
            spare = Some(buffer);
        }
        held = held.max(inbound.reserved());
    }
    Ok((found, held))
}

/// Takes nothing back between reads, unless the message is too large.
fn feed_retaining(inbound: &mut Inbound, mut bytes: &[u8], step: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut spare = Some(Vec::with_capacity(LOAN));
    while !bytes.is_empty() {
        if inbound.has_outgrown_loan() {
            spare = inbound.reclaim();
            assert!(spare.is_some());
        }
        if let Some(buffer) = spare.take() {
            spare = inbound.lend(buffer);
        }
        read(inbound, &mut bytes, step, &mut found).unwrap();
        assert!(!inbound.is_lent() || inbound.reserved() <= 4096);
    }
    found
}

#[test]
fn finds_messages_in_lent_buffers_however_the_bytes_arrive() {
    let sizes = [20, 3000, 20, 9000, 100, 70_000, 8100, 1, 300_000, 20];
    let messages: Vec<_> =
        (0..).zip(sizes).map(|(id, size)| request(Version::V1_2, Endian::Little, id, size)).collect();
    let stream = messages.concat();
    for step in [1, 7, 100, 1448, 4096, 8191, usize::MAX] {
        let mut inbound = Inbound::new(limits());
        assert_eq!(feed_lent(&mut inbound, &stream, step).unwrap().0, messages, "{step} at a time");
        assert!(inbound.reserved() <= 4096, "{} are kept when nothing is under way", inbound.reserved());
        assert_eq!(inbound.buffered(), 0);
        assert_eq!(feed_retaining(&mut inbound, &stream, step), messages, "{step} at a time, keeping what is lent");
    }
}

#[test]
fn finds_fragments_in_lent_buffers() {
    let whole = request(Version::V1_2, Endian::Little, 7, 50_000);
    let parts = fragmented(&whole, 9000).concat();
    let whole = [whole];
    for step in [1, 1448, usize::MAX] {
        assert_eq!(feed_lent(&mut Inbound::new(limits()), &parts, step).unwrap().0, whole);
    }
}

#[test]
fn a_connection_on_which_nothing_is_under_way_holds_nothing() {
    let message = request(Version::V1_2, Endian::Big, 1, 100);
    let mut inbound = Inbound::new(limits());
    assert_eq!(feed_lent(&mut inbound, &message, usize::MAX).unwrap(), (vec![message], 0));
    assert_eq!(inbound.reserved(), 0);
}

#[test]
fn the_rest_of_a_message_is_kept_in_a_small_buffer_that_stays() {
    let message = request(Version::V1_2, Endian::Big, 1, 2000);
    let mut inbound = Inbound::new(limits());
    feed_lent(&mut inbound, &message[..500], usize::MAX).unwrap();
    assert_eq!((inbound.buffered(), inbound.reserved()), (500, 512));
    let (found, _) = feed_lent(&mut inbound, &message[500..], usize::MAX).unwrap();
    assert_eq!(found, core::slice::from_ref(&message));
    for _ in 0..10 {
        feed_lent(&mut inbound, &message, 500).unwrap();
        assert_eq!(inbound.reserved(), 2048, "the rest was of 2,000 octets at most");
    }
}

#[test]
fn a_large_message_is_read_into_a_buffer_that_grows_with_what_arrives() {
    let message = request(Version::V1_2, Endian::Big, 1, 5 << 20);
    let mut inbound = Inbound::new(limits());
    feed_lent(&mut inbound, &message[..100], usize::MAX).unwrap();
    assert_eq!(inbound.reserved(), 256, "a header that claims much costs nothing");
    for (from, to) in [(100, 5000), (5000, 70_000), (70_000, 1 << 20), (1 << 20, 4 << 20)] {
        let (_, held) = feed_lent(&mut inbound, &message[from..to], usize::MAX).unwrap();
        assert!(held <= (2 * to).min(message.len()) + 4096, "{held} are held when {to} arrived");
    }
    assert_eq!(feed_lent(&mut inbound, &message[4 << 20..], usize::MAX).unwrap().0, [message]);
    assert!(inbound.reserved() <= 4096, "and is given back");
}

#[test]
fn a_second_buffer_comes_back_at_once() {
    let mut inbound = Inbound::new(limits());
    assert!(inbound.lend(Vec::with_capacity(LOAN)).is_none());
    assert!(inbound.is_lent());
    assert!(inbound.lend(Vec::with_capacity(LOAN)).is_some());
    assert_eq!(inbound.reclaim().unwrap().capacity(), LOAN);
    assert!(inbound.reclaim().is_none());
}

#[test]
fn says_what_would_have_to_be_kept() {
    let message = request(Version::V1_2, Endian::Big, 1, 7000);
    let mut inbound = Inbound::new(limits());
    assert!(inbound.lend(Vec::with_capacity(LOAN)).is_none());
    let mut bytes = message.as_slice();
    for (step, kept) in [(4096, 0), (1, 4097)] {
        read(&mut inbound, &mut bytes, step, &mut Vec::new()).unwrap();
        assert_eq!(inbound.rest_to_keep(), kept);
    }
}

#[test]
fn what_is_reserved_for_the_next_read_is_said_before_it() {
    // Sixteen times what had arrived was reserved: half of the largest message for a megabyte.
    let message = request(Version::V1_2, Endian::Big, 1, 3 << 20);
    let (mut inbound, mut fed) = (Inbound::new(limits()), 0);
    let mut spare = Some(Vec::with_capacity(LOAN));
    while fed < message.len() {
        if inbound.has_outgrown_loan() {
            spare = inbound.reclaim();
        }
        if let Some(buffer) = spare.take() {
            spare = inbound.lend(buffer);
        }
        let said = inbound.reserved_when_read();
        let vacant = inbound.vacant();
        let n = (vacant.capacity() - vacant.len()).min(message.len() - fed);
        vacant.extend_from_slice(&message[fed..fed + n]);
        inbound.filled(n);
        assert_eq!(inbound.reserved(), said, "when {fed} octets had arrived");
        assert!(said <= (2 * fed).max(4096), "{said} are reserved when {fed} octets have arrived");
        fed += n;
    }
    assert_eq!(inbound.poll_message().unwrap().unwrap().bytes, message);
}

#[test]
fn what_has_been_pending_for_longest_is_what_began_first_whatever_came_in_between() {
    // A client that held fragments and sent a CancelRequest now and then was never closed.
    let [one, two] = [1, 2].map(|id| fragmented(&request(Version::V1_2, Endian::Little, id, 50_000), 9000));
    let mut inbound = Inbound::new(limits());
    assert_eq!(inbound.oldest(), None);
    let mut feed_at = |now, bytes: &[u8]| {
        inbound.note_time(now);
        feed_lent(&mut inbound, bytes, usize::MAX).unwrap();
        inbound.oldest()
    };
    let len = one[0].len();
    assert_eq!(feed_at(5, &one[0][..10]), Some(Incomplete { began: 5, octets: 10 }));
    assert_eq!(feed_at(6, &one[0][10..]), Some(Incomplete { began: 5, octets: len }));
    assert_eq!(feed_at(7, &two[0]), Some(Incomplete { began: 5, octets: len }));
    assert_eq!(feed_at(8, &request(Version::V1_2, Endian::Little, 3, 100)), Some(Incomplete { began: 5, octets: len }));
    assert_eq!(feed_at(9, &one[1..].concat()), Some(Incomplete { began: 7, octets: two[0].len() }));
    let mut cancel = Vec::new();
    cancel_request(&mut cancel, Version::V1_2, Endian::Little, 2);
    assert_eq!(feed_at(10, &cancel), None);
}
