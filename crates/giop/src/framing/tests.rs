//! Tests of framing.

mod lent;

use super::*;
use crate::cdr::{CharSet, Endian};
use crate::message::{
    FLAGS_AT, HEADER_LEN, Header, LocateStatus, ReplyHead, ReplyStatus, Request, RequestHead, Response, SIZE_AT,
    begin_reply, begin_request, cancel_request, close_connection, locate_reply, locate_request,
};
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

/// A message with the header's fields given and `body` behind it.
fn message(version: Version, endian: Endian, more: bool, kind: MessageKind, body: &[u8]) -> Vec<u8> {
    let flags = endian.flag() | if more { 2 } else { 0 };
    let mut bytes = vec![b'G', b'I', b'O', b'P', 1, version.minor(), flags, kind.number()];
    let size = u32::try_from(body.len()).unwrap();
    bytes.extend(if endian == Endian::Big { size.to_be_bytes() } else { size.to_le_bytes() });
    bytes.extend(body);
    bytes
}

/// A request with a body of that many octets.
fn request(version: Version, endian: Endian, request_id: u32, body_len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let head = RequestHead {
        version,
        endian,
        request_id,
        response: Response::Expected,
        key: b"key",
        operation: b"push",
        contexts: &[],
        body_phase: None,
    };
    let open = begin_request(&mut bytes, &head);
    bytes.extend((0..body_len).map(|at| u8::try_from(at % 251).unwrap()));
    open.finish(&mut bytes);
    bytes
}

/// Cuts a message into a first part and fragments, each at a multiple of 8 as the standard asks, or in GIOP 1.1 where the
/// alignment is kept.
fn fragmented(whole: &[u8], part_len: usize) -> Vec<Vec<u8>> {
    let header = Header::parse(whole).unwrap();
    let id = &whole[HEADER_LEN..HEADER_LEN + 4];
    let first_len = if header.version == Version::V1_1 { part_len + 4 } else { part_len };
    let (first, rest) = whole.split_at(first_len.min(whole.len()));
    let mut parts = vec![message(header.version, header.endian, !rest.is_empty(), header.kind, &first[HEADER_LEN..])];
    let mut chunks = rest.chunks(part_len).peekable();
    while let Some(chunk) = chunks.next() {
        let mut body = if header.version == Version::V1_1 { Vec::new() } else { id.to_vec() };
        body.extend(chunk);
        let more = chunks.peek().is_some();
        parts.push(message(header.version, header.endian, more, MessageKind::Fragment, &body));
    }
    parts
}

/// Feeds bytes as they fit, at most `step` at a time, and collects the messages.
fn feed(inbound: &mut Inbound, mut bytes: &[u8], step: usize) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let space = inbound.space();
        assert!(!space.is_empty());
        let n = space.len().min(step).min(bytes.len());
        space[..n].copy_from_slice(&bytes[..n]);
        bytes = &bytes[n..];
        inbound.filled(n);
        while let Some(message) = inbound.poll_message()? {
            assert_eq!(Header::parse(message.bytes), Ok(message.header));
            assert_eq!(message.header.message_len(), message.bytes.len());
            messages.push(message.bytes.to_vec());
        }
    }
    Ok(messages)
}

/// All of a peer's bytes at once, and what becomes of them.
fn outcome(bytes: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    feed(&mut Inbound::new(Limits::default()), bytes, usize::MAX)
}

/// One message of every kind that comes in one piece.
fn one_of_each() -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        for endian in [Endian::Big, Endian::Little] {
            messages.push(request(version, endian, 1, 40));
            messages.push(request(version, endian, 2, 0));
            let mut push = |write: &dyn Fn(&mut Vec<u8>)| {
                let mut bytes = Vec::new();
                write(&mut bytes);
                messages.push(bytes);
            };
            push(&|b| {
                let status = ReplyStatus::NoException;
                begin_reply(b, &ReplyHead { version, endian, request_id: 1, status, contexts: &[] }).finish(b);
            });
            push(&|b| cancel_request(b, version, endian, 5));
            push(&|b| locate_request(b, version, endian, 6, b"key"));
            push(&|b| locate_reply(b, version, endian, 6, LocateStatus::ObjectHere));
            push(&|b| close_connection(b, version));
        }
    }
    messages
}

#[test]
fn finds_messages_however_the_bytes_arrive() {
    let messages = one_of_each();
    let stream = messages.concat();
    for read_bytes in [0, 300, 1000, 65536] {
        for step in 1..100 {
            let mut inbound = Inbound::new(Limits { read_bytes, ..Limits::default() });
            assert_eq!(feed(&mut inbound, &stream, step).unwrap(), messages, "{read_bytes}, {step}");
            assert_eq!(inbound.buffered(), 0);
        }
    }
    for cut in 0..stream.len() {
        let mut inbound = Inbound::new(Limits::default());
        let mut found = feed(&mut inbound, &stream[..cut], usize::MAX).unwrap();
        let complete: usize = found.iter().map(Vec::len).sum();
        assert_eq!(inbound.buffered(), cut - complete);
        found.extend(feed(&mut inbound, &stream[cut..], usize::MAX).unwrap());
        assert_eq!(found, messages, "cut at {cut}");
    }
}

#[test]
fn finds_several_messages_in_one_read_without_moving_them() {
    let messages = one_of_each();
    let stream = messages.concat();
    let mut inbound = Inbound::new(Limits::default());
    inbound.space()[..stream.len()].copy_from_slice(&stream);
    inbound.filled(stream.len());
    let mut end = None;
    for expected in &messages {
        let found = inbound.poll_message().unwrap().unwrap();
        assert_eq!(found.bytes, expected);
        let range = found.bytes.as_ptr_range();
        assert!(end.is_none_or(|end| end == range.start), "each lies behind the one before");
        end = Some(range.end);
    }
    assert!(inbound.poll_message().unwrap().is_none());
}

#[test]
fn a_message_that_was_returned_is_gone_with_the_next_call() {
    let bytes = request(Version::V1_2, Endian::Big, 1, 8);
    let mut inbound = Inbound::new(Limits::default());
    for _ in 0..3 {
        inbound.space()[..bytes.len()].copy_from_slice(&bytes);
        inbound.filled(bytes.len());
        assert_eq!(inbound.buffered(), bytes.len());
        assert!(inbound.poll_message().unwrap().is_some());
        assert_eq!(inbound.buffered(), 0);
    }
    assert!(inbound.poll_message().unwrap().is_none());
}

#[test]
fn nothing_is_reserved_before_the_first_read() {
    assert_eq!(Inbound::new(Limits::default()).reserved(), 0);
}

#[test]
fn a_steady_stream_reserves_nothing_more() {
    let messages: Vec<_> = (0..200).map(|id| request(Version::V1_2, Endian::Little, id, 34_000)).collect();
    let stream = messages.concat();
    let mut inbound = Inbound::new(Limits::default());
    feed(&mut inbound, &stream, usize::MAX).unwrap();
    let before = inbound.reserved();
    assert_eq!(before, Limits::default().read_bytes);
    for step in [1000, 1448, 65536, usize::MAX] {
        assert_eq!(feed(&mut inbound, &stream, step).unwrap(), messages);
        assert_eq!(inbound.reserved(), before);
    }
}

#[test]
fn a_large_message_grows_the_buffer_as_it_arrives_and_is_read_in_place() {
    let limits = Limits::default();
    let large = request(Version::V1_2, Endian::Big, 1, 5 << 20);
    let small = request(Version::V1_2, Endian::Big, 2, 20);
    let stream = [small.as_slice(), &large, &small].concat();
    let mut inbound = Inbound::new(limits);
    let mut fed = 0;
    let mut found = Vec::new();
    let mut reads = 0;
    while fed < stream.len() {
        let space = inbound.space();
        let n = space.len().min(stream.len() - fed);
        space[..n].copy_from_slice(&stream[fed..fed + n]);
        inbound.filled(n);
        fed += n;
        reads += 1;
        let most = (2 * fed).max(limits.read_bytes);
        assert!(inbound.reserved() <= most, "{} are reserved when {fed} arrived", inbound.reserved());
        while let Some(message) = inbound.poll_message().unwrap() {
            found.push(message.bytes.to_vec());
        }
    }
    assert_eq!(found, [small.clone(), large, small]);
    assert!(reads < 16, "the room for a large message doubles, so that {reads} reads are too many");
    assert!(inbound.poll_message().unwrap().is_none());
    assert_eq!(inbound.reserved(), limits.read_bytes, "memory is given back");
}

#[test]
fn a_message_within_what_is_retained_is_read_without_reserving_again() {
    let message = request(Version::V1_2, Endian::Big, 1, 200 << 10);
    let mut inbound = Inbound::new(Limits::default());
    feed(&mut inbound, &message, usize::MAX).unwrap();
    let before = inbound.reserved();
    for _ in 0..5 {
        feed(&mut inbound, &message, usize::MAX).unwrap();
        assert_eq!(inbound.reserved(), before);
    }
}

#[test]
fn a_header_that_claims_much_costs_nothing() {
    let mut header = message(Version::V1_2, Endian::Big, false, MessageKind::Request, &[]);
    header[SIZE_AT..].copy_from_slice(&(16_u32 << 20).to_be_bytes());
    assert_eq!(outcome(&header), Err(ProtocolError::TooLarge { size: (16 << 20) + 12, max: 16 << 20 }));
    header[SIZE_AT..].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(outcome(&header), Err(ProtocolError::TooLarge { size: 0xFFFF_FFFF + 12, max: 16 << 20 }));
    header[SIZE_AT..].copy_from_slice(&((16_u32 << 20) - 12).to_be_bytes());
    let mut inbound = Inbound::new(Limits::default());
    assert_eq!(feed(&mut inbound, &header, 1), Ok(vec![]));
    assert!(!inbound.space().is_empty());
    assert_eq!(inbound.reserved(), Limits::default().read_bytes);
}

#[test]
fn refuses_what_is_not_giop_as_soon_as_it_shows() {
    assert_eq!(outcome(b"GET / HTTP/1.1\r\n"), Err(ProtocolError::BadMagic { found: *b"GET " }));
    assert_eq!(outcome(b"GIX"), Err(ProtocolError::BadMagic { found: *b"GIX\0" }));
    assert_eq!(outcome(b"GIOP"), Ok(vec![]));
    assert_eq!(outcome(b"GIOP\x01\x02"), Ok(vec![]));
    let version = ProtocolError::BadVersion { major: 2, minor: 0 };
    assert_eq!(outcome(b"GIOP\x02\x00\x00\x00\x00\x00\x00\x00"), Err(version));
    let kind = ProtocolError::BadKind { version: Version::V1_2, value: 9 };
    assert_eq!(outcome(b"GIOP\x01\x02\x00\x09\x00\x00\x00\x00"), Err(kind));
}

#[test]
fn an_error_stays_and_nothing_more_is_kept() {
    let mut inbound = Inbound::new(Limits::default());
    let error = feed(&mut inbound, b"what is this", usize::MAX).unwrap_err();
    for _ in 0..100 {
        let space = inbound.space();
        let n = space.len();
        space.fill(b'G');
        inbound.filled(n);
        assert_eq!(inbound.poll_message().unwrap_err(), error);
    }
    assert_eq!(inbound.reserved(), Limits::default().read_bytes);
    assert_eq!(inbound.buffered(), 0);
}

#[test]
fn puts_fragments_together_however_they_are_cut_and_arrive() {
    for version in [Version::V1_1, Version::V1_2] {
        for endian in [Endian::Big, Endian::Little] {
            for body_len in [0, 1, 7, 100, 500] {
                let whole = request(version, endian, 9, body_len);
                for part_len in [16, 24, 64, 1024] {
                    let stream = fragmented(&whole, part_len).concat();
                    for step in [1, 5, 13, usize::MAX] {
                        let mut inbound = Inbound::new(Limits::default());
                        let found = feed(&mut inbound, &stream, step).unwrap();
                        assert_eq!(found, [whole.as_slice()], "{version:?} {endian:?} {body_len} {part_len} {step}");
                        assert_eq!((inbound.open_fragment_sets(), inbound.buffered()), (0, 0));
                    }
                }
            }
        }
    }
}

#[test]
fn fragments_of_several_requests_interleave_with_whole_messages() {
    let wholes: Vec<_> = (0..5).map(|id| request(Version::V1_2, Endian::Big, id, 300 + id as usize)).collect();
    let mut queues: Vec<_> = wholes.iter().map(|whole| fragmented(whole, 48).into_iter()).collect();
    let between = one_of_each();
    let mut random = fastrand::Rng::with_seed(3);
    let mut stream = Vec::new();
    let mut expected = Vec::new();
    while queues.iter().any(|queue| queue.len() > 0) {
        let at = random.usize(0..queues.len());
        if let Some(part) = queues[at].next() {
            stream.extend(part);
            if queues[at].len() == 0 {
                expected.push(wholes[at].clone());
            }
        }
        if random.bool() {
            let message = &between[random.usize(0..between.len())];
            stream.extend(message);
            expected.push(message.clone());
        }
    }
    assert!(wholes.iter().all(|whole| expected.contains(whole)));
    for step in [1, 100, usize::MAX] {
        assert_eq!(feed(&mut Inbound::new(Limits::default()), &stream, step).unwrap(), expected);
    }
}

#[test]
fn what_comes_next_is_known_by_its_header_and_a_fragment_by_what_it_continues() {
    let of_request = fragmented(&request(Version::V1_2, Endian::Little, 2, 40), 24);
    let mut whole = Vec::new();
    let (version, endian, status) = (Version::V1_2, Endian::Big, ReplyStatus::NoException);
    let head = ReplyHead { version, endian, request_id: 1, status, contexts: &[] };
    begin_reply(&mut whole, &head).finish(&mut whole);
    let of_reply = fragmented(&whole, 16);
    let mut closing = Vec::new();
    close_connection(&mut closing, version);
    let (one, other) = (MessageKind::Request, MessageKind::Reply);
    let parts = [
        (&of_request[0], one),
        (&of_reply[0], other),
        (&of_request[1], one),
        (&of_reply[1], other),
        (&closing, MessageKind::CloseConnection),
    ];
    let mut inbound = Inbound::new(Limits::default());
    for (part, kind) in parts {
        let is_fragment = part[7] == MessageKind::Fragment.number();
        for (at, octet) in part.iter().enumerate() {
            inbound.space()[0] = *octet;
            inbound.filled(1);
            let is_known = at + 1 >= if is_fragment { HEADER_LEN + 4 } else { HEADER_LEN };
            assert_eq!(inbound.kind_ahead(), is_known.then_some(kind), "{kind:?}, {} octets", at + 1);
        }
        inbound.poll_message().unwrap();
    }
    assert_eq!(inbound.kind_ahead(), None);
}

#[test]
fn values_keep_their_alignment_across_fragments_of_1_1() {
    let mut whole = request(Version::V1_1, Endian::Little, 9, 0);
    whole[SIZE_AT] = 0;
    let header = Header::parse(&whole).unwrap();
    let body_offset = whole.len();
    // Each part as its sender aligns it: its values begin at octet 12 of its own message.
    let first = [whole.as_slice(), &[1, 0, 0, 0]].concat();
    let body_phase = body_offset % 8;
    assert_eq!((body_phase, first.len() % 8), (0, 4), "the example is made for this");
    let mut second = Vec::new();
    let encoding = header.encoding(CharSet::Latin1);
    crate::cdr::Writer::with_phase(&mut second, HEADER_LEN, encoding).f64(2.5);
    let stream = [
        message(Version::V1_1, Endian::Little, true, MessageKind::Request, &first[HEADER_LEN..]),
        message(Version::V1_1, Endian::Little, false, MessageKind::Fragment, &second),
    ];
    let found = outcome(&stream.concat()).unwrap();
    let header = Header::parse(&found[0]).unwrap();
    let request = Request::parse(&found[0], &header).unwrap();
    let mut body = request.body(&found[0], &header, CharSet::Latin1);
    assert_eq!(body.u32(), Ok(1));
    assert_eq!(body.f64().unwrap().to_bits(), 2.5_f64.to_bits());
    body.finish("the body").unwrap();
}

/// omniORB 4.2.5 sends the first 8192 octets of a GIOP 1.1 message and then a fragment: values in it are shifted by four
/// against their places in the whole.
#[test]
fn refuses_fragments_of_1_1_that_would_be_out_of_alignment() {
    let whole = request(Version::V1_1, Endian::Little, 2, 9000);
    let stream = [
        message(Version::V1_1, Endian::Little, true, MessageKind::Request, &whole[HEADER_LEN..8192]),
        message(Version::V1_1, Endian::Little, false, MessageKind::Fragment, &whole[8192..]),
    ];
    let error = outcome(&stream.concat()).unwrap_err();
    assert_eq!(error, ProtocolError::FragmentMisaligned { at: 8192 });
    assert!(format!("{error}").contains("octet 8192"), "{error}");

    // A fragment without values does no harm.
    let stream = [
        message(Version::V1_1, Endian::Little, true, MessageKind::Request, &whole[HEADER_LEN..]),
        message(Version::V1_1, Endian::Little, false, MessageKind::Fragment, &[]),
    ];
    assert_eq!(outcome(&stream.concat()), Ok(vec![whole]));
}

/// As omniORB 4.2.5 sends `push(sequence<octet>[9000], sequence<double>[0], "tail")` in GIOP 1.2, but for the octets'
/// values.
#[test]
fn puts_fragments_of_omniorb_together() {
    let mut head = Vec::from(
        *b"GIOP\x01\x02\x03\x00\xf4\x1f\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x13\x00\x00\x00",
    );
    head.extend(b"NotificationService\0\x05\0\0\0push\0\0\0\0\0\0\0\0\x28\x23\0\0");
    head.resize(8192, 0x11);
    let mut rest = Vec::from(*b"GIOP\x01\x02\x01\x07\x7d\x03\x00\x00\x02\x00\x00\x00");
    let tail = b"\0\0\0\0\x05\0\0\0tail\0";
    rest.resize(12 + 0x37d - tail.len(), 0x11);
    rest.extend(tail);
    let found = outcome(&[head, rest].concat()).unwrap();
    let header = Header::parse(&found[0]).unwrap();
    let request = Request::parse(&found[0], &header).unwrap();
    assert_eq!((request.request_id, request.target.key()), (2, Some(&b"NotificationService"[..])));
    let mut body = request.body(&found[0], &header, CharSet::Latin1);
    assert!(body.octets().unwrap().iter().all(|&octet| octet == 0x11));
    assert_eq!((body.u32(), body.string()), (Ok(0), Ok(&b"tail"[..])));
    body.finish("push").unwrap();
}

#[test]
fn a_cancelled_request_is_dropped() {
    for version in [Version::V1_1, Version::V1_2] {
        let parts = fragmented(&request(version, Endian::Big, 7, 500), 64);
        let cancel = |id| {
            let mut bytes = Vec::new();
            cancel_request(&mut bytes, version, Endian::Little, id);
            bytes
        };
        let mut inbound = Inbound::new(Limits::default());
        let begin = parts[..3].concat();
        assert_eq!(feed(&mut inbound, &begin, usize::MAX), Ok(vec![]));
        assert_eq!(inbound.open_fragment_sets(), 1);
        assert_eq!(feed(&mut inbound, &cancel(8), usize::MAX), Ok(vec![cancel(8)]));
        assert_eq!(inbound.open_fragment_sets(), 1);
        assert_eq!(feed(&mut inbound, &cancel(7), usize::MAX), Ok(vec![cancel(7)]));
        assert_eq!((inbound.open_fragment_sets(), inbound.buffered()), (0, 0));
        // The id can be used again.
        assert_eq!(feed(&mut inbound, &parts.concat(), usize::MAX).unwrap().len(), 1);
    }
}

#[test]
fn refuses_a_fragment_of_nothing() {
    let fragment = message(Version::V1_2, Endian::Big, false, MessageKind::Fragment, &[0, 0, 0, 5, 1, 2]);
    assert_eq!(outcome(&fragment), Err(ProtocolError::UnexpectedFragment { request_id: Some(5) }));
    let fragment = message(Version::V1_1, Endian::Big, false, MessageKind::Fragment, &[0, 0, 0, 5, 1, 2]);
    assert_eq!(outcome(&fragment), Err(ProtocolError::UnexpectedFragment { request_id: None }));
    for len in 0..4 {
        let size = u32::try_from(len).unwrap();
        let fragment = message(Version::V1_2, Endian::Big, false, MessageKind::Fragment, &[1; 4][..len]);
        assert_eq!(outcome(&fragment), Err(ProtocolError::FragmentTooShort { size }));
        let first = message(Version::V1_2, Endian::Big, true, MessageKind::Request, &[1; 4][..len]);
        assert_eq!(outcome(&first), Err(ProtocolError::FragmentTooShort { size }));
    }
}

#[test]
fn refuses_fragments_that_overlap() {
    let parts = fragmented(&request(Version::V1_2, Endian::Big, 7, 500), 64);
    let twice = [parts[0].clone(), parts[0].clone()].concat();
    assert_eq!(outcome(&twice), Err(ProtocolError::OverlappingFragments { request_id: Some(7) }));
    let first = |id| fragmented(&request(Version::V1_1, Endian::Big, id, 500), 64)[0].clone();
    let both = [first(1), first(2)].concat();
    assert_eq!(outcome(&both), Err(ProtocolError::OverlappingFragments { request_id: None }));
}

#[test]
fn refuses_fragments_of_what_has_none() {
    let refused = |version, kind| {
        let bytes = message(version, Endian::Big, true, kind, &[0; 8]);
        assert_eq!(outcome(&bytes), Err(ProtocolError::NotFragmentable { version, kind }));
    };
    for version in [Version::V1_1, Version::V1_2] {
        refused(version, MessageKind::CancelRequest);
        refused(version, MessageKind::CloseConnection);
        refused(version, MessageKind::MessageError);
    }
    refused(Version::V1_1, MessageKind::LocateRequest);
    refused(Version::V1_1, MessageKind::LocateReply);
    assert!(outcome(&message(Version::V1_2, Endian::Big, true, MessageKind::LocateRequest, &[0; 8])).is_ok());
}

#[test]
fn refuses_a_fragment_in_another_byte_order() {
    let mut parts = fragmented(&request(Version::V1_2, Endian::Big, 0x0101_0101, 500), 64);
    parts[1] = message(Version::V1_2, Endian::Little, false, MessageKind::Fragment, &[1; 20]);
    assert_eq!(outcome(&parts.concat()), Err(ProtocolError::FragmentByteOrder));
}

#[test]
fn refuses_more_open_fragments_than_are_accepted() {
    let first = |id| fragmented(&request(Version::V1_2, Endian::Big, id, 500), 64)[0].clone();
    let firsts = |count| (0..count).flat_map(first).collect::<Vec<_>>();
    assert_eq!(outcome(&firsts(16)), Ok(vec![]));
    assert_eq!(outcome(&firsts(17)), Err(ProtocolError::TooManyFragmentSets { max: 16 }));
}

#[test]
fn refuses_more_octets_in_fragments_than_are_accepted() {
    let whole = request(Version::V1_2, Endian::Big, 1, 2000);
    let stream = fragmented(&whole, 64).concat();
    let limits = Limits { message_bytes_max: whole.len(), ..Limits::default() };
    assert_eq!(feed(&mut Inbound::new(limits), &stream, usize::MAX).unwrap(), [whole.as_slice()]);
    let limits = Limits { message_bytes_max: whole.len() - 1, ..Limits::default() };
    let error = feed(&mut Inbound::new(limits), &stream, usize::MAX).unwrap_err();
    assert_eq!(error, ProtocolError::TooLarge { size: whole.len(), max: whole.len() - 1 });

    let limits = Limits { fragment_bytes_max: 1000, ..Limits::default() };
    let error = feed(&mut Inbound::new(limits), &stream, usize::MAX).unwrap_err();
    let ProtocolError::TooManyFragmentBytes { size, max: 1000 } = error else { panic!("{error}") };
    assert!(size > 1000 && size <= 1064);
}

#[test]
fn a_steady_stream_of_fragments_reserves_nothing_more() {
    let whole = request(Version::V1_2, Endian::Big, 1, 100_000);
    let stream = fragmented(&whole, 8192).concat();
    let mut inbound = Inbound::new(Limits::default());
    feed(&mut inbound, &stream, usize::MAX).unwrap();
    inbound.poll_message().unwrap();
    let before = inbound.reserved();
    for _ in 0..5 {
        assert_eq!(feed(&mut inbound, &stream, usize::MAX).unwrap(), [whole.as_slice()]);
        inbound.poll_message().unwrap();
        assert_eq!(inbound.reserved(), before);
    }
}

#[test]
fn a_large_message_in_fragments_leaves_nothing_behind() {
    let whole = request(Version::V1_2, Endian::Big, 1, 4 << 20);
    let stream = fragmented(&whole, 32 << 10).concat();
    let mut inbound = Inbound::new(Limits::default());
    assert_eq!(feed(&mut inbound, &stream, usize::MAX).unwrap(), [whole.as_slice()]);
    inbound.poll_message().unwrap();
    assert_eq!(inbound.reserved(), Limits::default().read_bytes);
}

/// A client that was asked for 64 events at most answered with a hundred thousand: all of them were kept until the last had come, and
/// the answer was refused only then.
#[test]
fn a_message_that_is_not_wanted_is_dropped_as_it_arrives_and_the_next_one_is_found() {
    let large = request(Version::V1_2, Endian::Big, 1, 300_000);
    let next = request(Version::V1_2, Endian::Little, 2, 40);
    let stream = [large.as_slice(), &next, &next].concat();
    for (known_at, step) in [(12, 1), (40, 4_096), (70_000, 1_000), (299_990, 65_536)] {
        let mut inbound = Inbound::new(Limits::default());
        assert!(inbound.begun().is_none());
        assert_eq!(feed(&mut inbound, &stream[..known_at], step), Ok(Vec::new()));
        let begun = inbound.begun().unwrap();
        assert_eq!((begun.header.message_len(), begun.bytes), (large.len(), &stream[..known_at]));
        inbound.skip_begun();
        assert_eq!((inbound.buffered(), inbound.oldest()), (0, None));
        assert_eq!(feed(&mut inbound, &stream[known_at..], step), Ok(vec![next.clone(), next.clone()]));
        assert!(inbound.begun().is_none());
        inbound.skip_begun();
        assert_eq!(feed(&mut inbound, &next, step), Ok(vec![next.clone()]), "there was nothing to skip");
        assert!(inbound.reserved() <= 256 << 10);
    }
}

#[test]
fn random_bytes_never_end_in_more_than_the_limits_allow() {
    let mut random = fastrand::Rng::with_seed(5);
    let limits = Limits {
        message_bytes_max: 4096,
        fragment_sets_max: 3,
        fragment_bytes_max: 2048,
        read_bytes: 256,
        retained_bytes_max: 512,
    };
    for _ in 0..3_000 {
        let mut inbound = Inbound::new(limits);
        let mut stream = Vec::new();
        for _ in 0..random.usize(1..12) {
            let version = if random.bool() { Version::V1_1 } else { Version::V1_2 };
            let whole = request(version, Endian::Big, random.u32(0..3), random.usize(0..900));
            let mut parts = fragmented(&whole, 8 * random.usize(2..40));
            if random.u8(0..4) == 0 {
                parts.truncate(random.usize(1..=parts.len()));
            }
            let mut bytes = parts.concat();
            if random.u8(0..4) == 0 {
                let at = [FLAGS_AT, SIZE_AT + 2, SIZE_AT + 3, 7, HEADER_LEN][random.usize(0..5)];
                bytes[at] = random.u8(..);
            }
            stream.extend(bytes);
        }
        let step = random.usize(1..2000);
        let result = feed(&mut inbound, &stream, step);
        assert!(inbound.open_fragment_sets() <= 3);
        assert!(inbound.reserved() < 4 * (4096 + 2048));
        if let Err(error) = result {
            assert!(!format!("{error}").is_empty());
        }
    }
}

#[test]
fn every_error_is_a_sentence_and_debug_output_keeps_the_bytes_to_itself() {
    let errors = [
        ProtocolError::Truncated { available: 3 },
        ProtocolError::TooLarge { size: 9, max: 8 },
        ProtocolError::TooManyFragmentSets { max: 16 },
        ProtocolError::TooManyFragmentBytes { size: 9, max: 8 },
        ProtocolError::NotFragmentable { version: Version::V1_1, kind: MessageKind::CancelRequest },
        ProtocolError::FragmentTooShort { size: 3 },
        ProtocolError::UnexpectedFragment { request_id: Some(1) },
        ProtocolError::UnexpectedFragment { request_id: None },
        ProtocolError::OverlappingFragments { request_id: Some(1) },
        ProtocolError::OverlappingFragments { request_id: None },
        ProtocolError::FragmentByteOrder,
    ];
    let sentences: Vec<String> = errors.iter().map(|error| format!("{error}")).collect();
    assert!(sentences.iter().all(|sentence| sentence.contains(' ') && !sentence.ends_with('.')), "{sentences:#?}");
    let mut inbound = Inbound::new(Limits::default());
    feed(&mut inbound, b"GIOP\x01\x02", 1).unwrap();
    assert_eq!(format!("{inbound:?}"), "Inbound { buffered: 6, open_fragment_sets: 0, failure: None, .. }");
}
