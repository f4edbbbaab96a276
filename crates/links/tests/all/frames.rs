//! Frames: what is written is read again, however it is cut; what is hostile is refused and never retained.

use links::wire::{
    Direction, Event, Frame, GroupJoin, HELLO_BYTES_MAX, Hello, LENGTH_BYTES, NameEntries, NameEntry, Open, Origins,
    REASON_BYTES_MAX, Ranges, Security, TYPES_BYTES_MAX, TYPES_MAX, TypeInterest, Types,
};
use links::{Framer, Hops, Limits, Origin, Violation};

pub(crate) const HELLO: Hello<'static> = Hello {
    version_min: 1,
    version_max: 1,
    service: 7,
    incarnation: 70,
    limits: Limits { frame_bytes_max: 1 << 20, window_bytes_max: 1 << 20, outstanding_max: 100 },
    has_store: true,
    name: "north",
    token: "",
};

const ORIGINS: [[u8; 24]; 2] = [[1; 24], [255; 24]];

pub(crate) fn event(bytes: &[u8]) -> Event<'_> {
    Event {
        flow: 3,
        sequence: 1,
        origin: Origin { service: 7, era: 70, number: 12 },
        hops: Hops::new(&[8, 9]).unwrap(),
        is_persistent: true,
        form: 2,
        tag: 5,
        priority: Some(-4),
        thread_priority: None,
        timeout_ns: Some(1_500),
        start: None,
        stop: Some(u64::MAX),
        age_ns: 3,
        domain: b"Weather",
        name: b"W\xFFnd",
        bytes,
    }
}

fn bytes_of(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.write(&mut bytes));
    bytes
}

/// The frames in bytes that come in chunks, each written again, and how it ends.
fn read(bytes: &[u8], chunk: usize) -> (Vec<Vec<u8>>, Option<Violation>) {
    let (mut framer, mut found) = (Framer::new(HELLO.limits), Vec::new());
    for mut input in bytes.chunks(chunk) {
        loop {
            match framer.next(input) {
                Err(violation) => return (found, Some(violation)),
                Ok((frame, taken)) => {
                    input = &input[taken..];
                    let Some(frame) = frame else { break };
                    found.push(bytes_of(&[frame]));
                }
            }
        }
        assert!(input.is_empty());
    }
    (found, None)
}

fn violation(bytes: &[u8]) -> Option<Violation> {
    let (_, violation) = read(bytes, bytes.len());
    assert_eq!(read(bytes, 1).1, violation);
    violation
}

/// The violation of these octets behind Hello, as one frame.
fn violation_of_frame(frame: &[u8]) -> Option<Violation> {
    let length = u32::try_from(frame.len()).unwrap();
    violation(&[bytes_of(&[Frame::Hello(HELLO)]), length.to_le_bytes().to_vec(), frame.to_vec()].concat())
}

fn all(then: impl FnOnce(&[Frame<'_>])) {
    let listed = [
        TypeInterest { domain: b"Weather", name: b"*", distance: 0 },
        TypeInterest { domain: b"", name: b"\xFF", distance: 7 },
    ];
    let types = Types::new(&listed).unwrap();
    let names = [
        NameEntry { distance: 0, service: 7, name: "Wetter für alle", reference: "IOR:00" },
        NameEntry { distance: 7, service: u64::MAX, name: "x", reference: "" },
    ];
    let names = NameEntries::new(&names).unwrap();
    let open = |flow, direction, types, constraint| {
        Frame::Open(Open { flow, direction, channel: "Wetter für alle", types, constraint })
    };
    let join = |security, address| Frame::GroupJoin(GroupJoin { flow: 3, join: 1, stream: 9, security, address });
    then(&[
        Frame::Hello(HELLO),
        open(0, Direction::Out, Types::NONE, ""),
        open(u32::MAX, Direction::In, types, "$speed > 10"),
        Frame::Opened { flow: 3 },
        Frame::Refused { flow: 4, reason: "no such channel" },
        Frame::Event(event(b"")),
        Frame::Event(event(b"the bytes as they are")),
        Frame::Ack { flow: 3, up_to: 0 },
        Frame::Reject { flow: 3, sequence: 1, reason: 9, text: "too large" },
        Frame::Interest { flow: 3, everything: None, types },
        Frame::Interest { flow: 3, everything: Some(3), types: Types::NONE },
        Frame::Ping { number: u64::MAX },
        Frame::Pong { number: 0 },
        Frame::Goodbye { reason: "" },
        Frame::Acknowledged { flow: 3, origins: Origins::new(&[]).unwrap() },
        Frame::Acknowledged { flow: 3, origins: Origins::new(&ORIGINS).unwrap() },
        Frame::Forgotten { flow: 3, events: 2 },
        Frame::Directory { more: true, names },
        Frame::Directory { more: false, names: NameEntries::new(&[]).unwrap() },
        join(Security::None, ""),
        join(Security::Session([7; 32]), "239.192.7.1:2817"),
        join(Security::Shared, "[ff02::1]:2817"),
        Frame::GroupListening { flow: 3, join: 1, port: 2_817 },
        Frame::GroupStart { flow: 3, join: 1, from: 1 },
        Frame::GroupLeave { flow: 3, join: 1, reason: "it is slow" },
        Frame::GroupEvent(event(b"too long for a datagram")),
        Frame::GroupAck { flow: 3, join: 1, up_to: 0 },
        Frame::GroupRequest { flow: 3, join: 1, ranges: Ranges::new(&[(1, 1), (3, u64::MAX)]) },
        Frame::GroupReject { flow: 3, join: 1, number: 4, text: "too large" },
    ]);
}

#[test]
fn frames_are_the_same_however_their_bytes_are_cut() {
    all(|frames| {
        let bytes = bytes_of(frames);
        let expected: Vec<Vec<u8>> = frames.iter().map(|frame| bytes_of(&[*frame])).collect();
        for chunk in 1..=bytes.len() {
            assert_eq!(read(&bytes, chunk), (expected.clone(), None), "in chunks of {chunk}");
        }
        for frame in frames {
            assert_eq!(Frame::read(&bytes_of(&[*frame])[LENGTH_BYTES..]), Ok(*frame));
        }
    });
}

#[test]
fn frames_that_are_retained_unread_come_out_later() {
    all(|frames| {
        let bytes = bytes_of(frames);
        let mut framer = Framer::new(HELLO.limits);
        framer.retain(&bytes[..100]);
        framer.retain(&bytes[100..]);
        assert_eq!(framer.retained_bytes(), bytes.len());
        for frame in frames {
            assert_eq!(framer.next(b"").unwrap(), (Some(*frame), 0));
        }
        assert_eq!(framer.next(b"").unwrap(), (None, 0));
        assert_eq!(framer.retained_bytes(), 0);
    });
}

#[test]
fn every_frame_is_refused_when_it_is_cut_short_and_but_an_event_when_it_has_more() {
    all(|frames| {
        for frame in frames {
            let bytes = bytes_of(&[*frame]);
            for end in LENGTH_BYTES..bytes.len() {
                match (Frame::read(&bytes[LENGTH_BYTES..end]), frame) {
                    // Only the event's bytes have no length of their own.
                    (Ok(Frame::Event(cut)), Frame::Event(whole))
                    | (Ok(Frame::GroupEvent(cut)), Frame::GroupEvent(whole)) => {
                        assert!(whole.bytes.starts_with(cut.bytes) && cut.bytes.len() < whole.bytes.len());
                    }
                    (Err(Violation::NoKind), _) => assert_eq!(end, LENGTH_BYTES),
                    (Err(Violation::Incomplete(kind, _)), _) => assert_eq!(kind, frame.kind()),
                    (Err(Violation::NotALink), Frame::Hello(_)) => {}
                    (other, _) => panic!("{frame:?} up to {end}: {other:?}"),
                }
            }
            let longer = [&bytes[LENGTH_BYTES..], b"+"].concat();
            match (Frame::read(&longer), frame) {
                (Ok(Frame::Event(read)), Frame::Event(whole))
                | (Ok(Frame::GroupEvent(read)), Frame::GroupEvent(whole)) => {
                    assert_eq!(read.bytes, [whole.bytes, b"+"].concat());
                }
                (read, _) => assert_eq!(read, Err(Violation::Trailing(frame.kind(), 1))),
            }
        }
    });
}

#[test]
fn the_octets_of_an_event_are_known_before_it_is_written_and_its_bytes_may_be_written_apart() {
    let plain = Event { hops: Hops::default(), priority: None, timeout_ns: None, stop: None, ..event(b"plain") };
    for event in [event(b"some bytes"), event(b""), plain] {
        let whole = bytes_of(&[Frame::Event(event)]);
        assert_eq!(event.octets(), whole.len());
        let mut apart = Vec::new();
        event.write_head(&mut apart);
        assert_eq!(apart.len() + event.bytes.len(), whole.len());
        apart.extend_from_slice(event.bytes);
        assert_eq!(apart, whole);
    }
}

#[test]
fn an_event_that_the_peer_would_not_read_is_known_beforehand() {
    let limits = HELLO.limits;
    let most = limits.frame_bytes_max as usize + LENGTH_BYTES - event(b"").octets();
    let bytes = vec![0; most + 1];
    assert!(event(&bytes[..most]).fits(limits));
    assert!(!event(&bytes).fits(limits));
    assert_eq!(violation_of_frame(&bytes_of(&[Frame::Event(event(&bytes[..most]))])[LENGTH_BYTES..]), None);
    let name = vec![b'n'; (64 << 10) + 1];
    assert!(event(b"").fits(limits) && !Event { name: &name, ..event(b"") }.fits(limits));
}

#[test]
fn a_frame_of_4_gib_is_refused_at_its_length() {
    let introduced = bytes_of(&[Frame::Hello(HELLO)]);
    let hostile = [introduced, u32::MAX.to_le_bytes().to_vec()].concat();
    assert_eq!(violation(&hostile), Some(Violation::FrameTooLong { octets: u32::MAX, limit: 1 << 20 }));
    // One of the longest that may be takes no more memory than what came of it.
    let mut framer = Framer::new(HELLO.limits);
    let introduced = bytes_of(&[Frame::Hello(HELLO)]);
    framer.next(&introduced).unwrap();
    framer.next(&[0, 0, 0x10, 0, 5]).unwrap();
    assert_eq!(framer.retained_bytes(), 5);
}

#[test]
fn a_stranger_is_refused_before_anything_is_retained_of_it() {
    let http = violation(b"GET / HTTP/1.1\r\nHost: campanile\r\n\r\n");
    let length = u32::from_le_bytes(*b"GET ");
    assert_eq!(http, Some(Violation::FrameTooLong { octets: length, limit: HELLO_BYTES_MAX }));
    assert_eq!(violation(&[5, 0, 0, 0, 1, b'G', b'I', b'O', b'P']), Some(Violation::NotALink));
    let ping = bytes_of(&[Frame::Ping { number: 1 }]);
    assert!(matches!(violation(&ping), Some(Violation::HelloExpected(_))));
    let twice = bytes_of(&[Frame::Hello(HELLO), Frame::Hello(HELLO)]);
    assert_eq!(violation(&twice), Some(Violation::HelloRepeated));
}

#[test]
fn versions_that_do_not_overlap_are_known_and_a_later_hello_may_have_more() {
    let version = |version_min, version_max| Hello { version_min, version_max, ..HELLO }.version();
    assert_eq!([version(1, 1), version(1, 9), version(0, 1)], [Some(1); 3]);
    assert_eq!([version(2, 9), version(0, 0)], [None; 2]);
    let mut later = bytes_of(&[Frame::Hello(Hello { version_max: 2, ..HELLO })]);
    later.extend_from_slice(b"more");
    let read = Frame::read(&later[LENGTH_BYTES..]);
    assert_eq!(read, Ok(Frame::Hello(Hello { version_max: 2, ..HELLO })));
}

#[test]
fn a_hello_without_meaning_is_refused_and_a_window_of_2_to_the_63_is_not() {
    let with = |limits: Limits| bytes_of(&[Frame::Hello(Hello { limits, ..HELLO })]);
    let refused = |limits, field, value| {
        assert_eq!(violation(&with(limits)), Some(Violation::OutOfRange(field, value)));
    };
    refused(Limits { window_bytes_max: 0, ..HELLO.limits }, "window_bytes_max", 0);
    refused(Limits { outstanding_max: 0, ..HELLO.limits }, "outstanding_max", 0);
    refused(Limits { frame_bytes_max: 100, ..HELLO.limits }, "frame_bytes_max", 100);
    assert_eq!(violation(&with(Limits { window_bytes_max: 1 << 63, ..HELLO.limits })), None);
    let nobody = bytes_of(&[Frame::Hello(Hello { service: 0, ..HELLO })]);
    assert_eq!(violation(&nobody), Some(Violation::OutOfRange("service", 0)));
    let backwards = bytes_of(&[Frame::Hello(Hello { version_min: 2, version_max: 1, ..HELLO })]);
    assert_eq!(violation(&backwards), Some(Violation::OutOfRange("version_max", 1)));
}

#[test]
fn interest_of_a_million_types_is_refused_at_its_number() {
    let frame = |types: u32, entries: &[u8]| [&[8][..], &[3, 0, 0, 0, 0], &types.to_le_bytes(), entries].concat();
    let million = Violation::TooMany { field: "types", entries: 1_000_000, limit: TYPES_MAX as u64 };
    assert_eq!(violation_of_frame(&frame(1_000_000, b"")), Some(million));
    let entry = [&[0][..], &100_u32.to_le_bytes(), &[b'd'; 100], &200_u32.to_le_bytes(), &[b'n'; 200]].concat();
    assert!(matches!(
        violation_of_frame(&frame(1_000, &entry.repeat(1_000))),
        Some(Violation::TooLong { field: "types", .. })
    ));
    let own: Vec<_> = (0..=TYPES_MAX).map(|_| TypeInterest { domain: b"d", name: b"n", distance: 0 }).collect();
    assert!(Types::new(&own).is_err() && Types::new(&own[1..]).is_ok());
    let long = vec![b'n'; TYPES_BYTES_MAX + 1];
    assert!(Types::new(&[TypeInterest { domain: b"", name: &long, distance: 0 }]).is_err());
}

#[test]
fn numbers_and_flags_without_meaning_are_refused() {
    assert_eq!(violation_of_frame(b""), Some(Violation::NoKind));
    assert_eq!(violation_of_frame(&[0]), Some(Violation::UnknownKind(0)));
    assert_eq!(violation_of_frame(&[99, 0]), Some(Violation::UnknownKind(99)));
    let broken = |at: usize, value: &[u8]| {
        let mut bytes = bytes_of(&[Frame::Event(event(b"x"))]);
        bytes[at..at + value.len()].copy_from_slice(value);
        violation_of_frame(&bytes[LENGTH_BYTES..])
    };
    let after_kind = LENGTH_BYTES + 1;
    assert_eq!(broken(after_kind + 4, &[0; 8]), Some(Violation::OutOfRange("sequence", 0)));
    assert_eq!(broken(after_kind + 12, &[0; 8]), Some(Violation::OutOfRange("service", 0)));
    assert_eq!(broken(after_kind + 28, &[0; 8]), Some(Violation::OutOfRange("number", 0)));
    assert!(matches!(
        broken(after_kind + 36, &[255]),
        Some(Violation::TooMany { field: "hops", .. } | Violation::Incomplete(..))
    ));
    assert_eq!(broken(after_kind + 53, &[0xFF, 0xFF]), Some(Violation::OutOfRange("flags", 0xFFFF)));
    let not_text = [&[11][..], &2_u32.to_le_bytes(), b"\xFF\xFE"].concat();
    assert_eq!(violation_of_frame(&not_text), Some(Violation::NotUtf8("reason")));
    let long = [&[11][..], &u32::MAX.to_le_bytes()].concat();
    assert!(matches!(violation_of_frame(&long), Some(Violation::TooLong { field: "reason", octets: 0xFFFF_FFFF, .. })));
    assert!(
        violation_of_frame(&[2, 0, 0, 0, 0, 3]).is_some_and(|found| found == Violation::OutOfRange("direction", 3))
    );
    assert_eq!(violation_of_frame(&[13, 0, 0, 0, 0, 0, 0, 0, 0]), Some(Violation::OutOfRange("events", 0)));
    assert_eq!(violation_of_frame(&[8, 0, 0, 0, 0, 2]), Some(Violation::OutOfRange("everything", 2)));
}

#[test]
fn a_reason_that_is_too_long_is_cut_between_characters() {
    let long = "ä".repeat(REASON_BYTES_MAX);
    let bytes = bytes_of(&[Frame::Goodbye { reason: &format!("x{long}") }]);
    let Ok(Frame::Goodbye { reason }) = Frame::read(&bytes[LENGTH_BYTES..]) else { panic!("not read again") };
    assert_eq!(reason.len(), REASON_BYTES_MAX - 1);
}

#[test]
fn random_octets_are_read_without_harm_and_what_is_read_is_written_the_same() {
    let (mut random, mut read_some) = (fastrand::Rng::with_seed(40), 0);
    all(|frames| {
        for round in 0..20_000 {
            let mut bytes = bytes_of(&[frames[round % frames.len()]]);
            for _ in 0..random.usize(1..4) {
                let at = random.usize(LENGTH_BYTES..bytes.len());
                bytes[at] = random.u8(..);
            }
            if let Ok(frame) = Frame::read(&bytes[LENGTH_BYTES..]) {
                read_some += 1;
                assert_eq!(bytes_of(&[frame])[LENGTH_BYTES..], bytes[LENGTH_BYTES..], "{frame:?}");
            }
        }
    });
    assert!(read_some > 1_000);
}

#[test]
fn a_violation_says_what_happened_and_what_to_do() {
    let shown = Violation::FrameTooLong { octets: 9, limit: 8 }.to_string();
    assert_eq!(
        shown,
        "a frame of 9 octets exceeds the limit of 8: check that the peer is a Campanile's link port, and the size of its events"
    );
}

/// The fields of a frame with so many names behind its kind and `more`.
fn directory(more: u8, count: u32, entries: &[(u8, u64, &[u8], usize)]) -> Vec<u8> {
    let mut frame = vec![14, more];
    frame.extend(count.to_le_bytes());
    for (distance, service, name, reference) in entries {
        frame.push(*distance);
        frame.extend(service.to_le_bytes());
        frame.extend(u32::try_from(name.len()).unwrap().to_le_bytes());
        frame.extend_from_slice(name);
        frame.extend(u32::try_from(*reference).unwrap().to_le_bytes());
        frame.extend(vec![b'x'; (*reference).min(4_096)]);
    }
    frame
}

#[test]
fn names_beyond_their_bounds_end_the_session() {
    let long = [b'x'; 256];
    let good: (u8, u64, &[u8], usize) = (7, 1, b"Weather", 2_048);
    assert_eq!(violation_of_frame(&directory(0, 1, &[good])), None);
    for (frame, said) in [
        (directory(2, 0, &[]), "more"),
        (directory(0, 129, &[]), "names"),
        (directory(0, u32::MAX, &[]), "names"),
        (directory(0, 1, &[(8, 1, b"Weather", 0)]), "distance"),
        (directory(0, 1, &[(0, 0, b"Weather", 0)]), "service"),
        (directory(0, 1, &[(0, 1, b"", 0)]), "name"),
        (directory(0, 1, &[(0, 1, &long, 0)]), "name"),
        (directory(0, 1, &[(0, 1, b"\xFF", 0)]), "name"),
        (directory(0, 1, &[(0, 1, b"Weather", 2_049)]), "reference"),
        (directory(0, 1, &[(0, 1, b"Weather", 10 << 20)]), "reference"),
    ] {
        let violation = violation_of_frame(&frame).expect("it is refused").to_string();
        assert!(violation.contains(said), "{violation}");
    }
    let entry = NameEntry { distance: 0, service: 1, name: "Weather", reference: "" };
    assert!(NameEntries::new(&[entry; 129]).is_err());
    assert!(entry.fits() && !NameEntry { name: "", ..entry }.fits() && !NameEntry { distance: 8, ..entry }.fits());
}

#[test]
fn frames_about_groups_that_make_no_sense_are_refused() {
    let head = |kind: u8| [&[kind][..], &[0; 8]].concat();
    let request = |ranges: &[(u64, u64)]| {
        let mut bytes = Vec::new();
        Frame::GroupRequest { flow: 0, join: 0, ranges: Ranges::new(ranges) }.write(&mut bytes);
        violation_of_frame(&bytes[LENGTH_BYTES..])
    };
    assert_eq!(request(&[(5, 4)]), Some(Violation::OutOfRange("ranges", 5)));
    assert_eq!(request(&[(0, 4)]), Some(Violation::OutOfRange("ranges", 0)));
    assert_eq!(request(&[(1, 4), (4, 9)]), Some(Violation::OutOfRange("ranges", 4)), "each is asked for once");
    let rising: Vec<(u64, u64)> = (1..=80).map(|number| (2 * number, 2 * number)).collect();
    assert_eq!(request(&rising), None, "those beyond the limit are left out");
    let many = [head(38), vec![65], vec![1; 65 * 16]].concat();
    assert_eq!(violation_of_frame(&many), Some(Violation::TooMany { field: "ranges", entries: 65, limit: 64 }));
    let security = [head(32), vec![1; 8], vec![3]].concat();
    assert_eq!(violation_of_frame(&security), Some(Violation::OutOfRange("security", 3)));
    for from in [0, 1 << 63, u64::MAX] {
        let start = [head(34), from.to_le_bytes().to_vec()].concat();
        assert_eq!(violation_of_frame(&start), Some(Violation::OutOfRange("from", from)));
    }
}
