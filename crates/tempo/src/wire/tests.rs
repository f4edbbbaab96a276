extern crate std;

use std::vec;
use std::vec::Vec;

use super::*;

fn header() -> Header {
    Header {
        session: 0x0a0b_0c0d,
        topic: 7,
        sequence: 0x0102_0304,
        sent: 0x1122_3344_5566_7788,
        priority: -2,
        by_broker: false,
    }
}

fn announcement(name: &str) -> Announcement<'_> {
    Announcement {
        given: 0x0101,
        returned: 0x0202,
        rate: 250_000,
        highest_rate: 250_001,
        deadline_us: 4_000,
        end_points: 3,
        largest: 65_536,
        period_ms: 1_000,
        role: Role::Subscriber,
        name,
    }
}

fn probe() -> Probe {
    Probe { sent: 9, prober: 8, topic: 7, number: 6, to: None, hops: 1, echoed_by: 0 }
}

/// A frame of each kind.
fn all() -> Vec<Payload<'static>> {
    let fragment = Some(Fragment { total: 10, at: 4 });
    vec![
        Payload::Announcement(announcement("Weather/Wind")),
        Payload::Data(Data { fragment: None, content: Content::Octets, octets: b"" }),
        Payload::Data(Data { fragment: None, content: Content::Typed, octets: b"four" }),
        Payload::Data(Data { fragment, content: Content::Structured, octets: b"second" }),
        Payload::Probe(probe()),
        Payload::Probe(Probe { to: Some("10.1.2.3:2811".parse().unwrap()), ..probe() }),
        Payload::Echo(Probe { to: Some("[fe80::1]:9".parse().unwrap()), echoed_by: 5, ..probe() }),
        Payload::Report(Report { received: 1_000_000, lost: 3, rate: 250_000, end_points: 2 }),
        Payload::Bye(Role::Publisher),
        Payload::Name("anemometer 3"),
    ]
}

fn written(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = vec![0xee; frame.octets() + 4];
    assert_eq!(frame.write(&mut bytes), Some(frame.octets()));
    assert_eq!(&bytes[frame.octets()..], [0xee; 4], "nothing is written beyond a frame");
    bytes.truncate(frame.octets());
    bytes
}

#[test]
fn a_frame_is_read_as_it_was_written_and_not_before_it_is_whole() {
    for payload in all() {
        let frame = Frame { header: header(), payload };
        let mut bytes = written(&frame);
        for cut in 0..bytes.len() {
            let result = Frame::read(&bytes[..cut]);
            assert!(
                matches!(result, Err(Unreadable::Incomplete { missing }) if missing <= bytes.len() - cut),
                "{payload:?}"
            );
            assert_eq!(frame.write(&mut vec![0; cut]), None);
        }
        assert_eq!(Frame::read(&bytes), Ok((frame, bytes.len())));
        bytes.extend(b"T what comes behind it");
        assert_eq!(Frame::read(&bytes), Ok((frame, frame.octets())));
    }
}

#[test]
fn an_announcement_lies_where_the_specification_says() {
    let frame =
        Frame { header: Header { sequence: 0, ..header() }, payload: Payload::Announcement(announcement("A/B")) };
    let expected = [
        &b"T\x01\x01\x00\x0d\x0c\x0b\x0a\x07\0\0\0\0\0\0\0"[..],
        &b"\x88\x77\x66\x55\x44\x33\x22\x11\xfe\xff\0\0\x2b\0\0\0"[..],
        &b"\x01\x01\0\0\0\0\0\0\x02\x02\0\0\0\0\0\0\x90\xd0\x03\0\x91\xd0\x03\0"[..],
        &b"\xa0\x0f\0\0\x03\0\0\0\0\0\x01\0\xe8\x03\x02\x03A/B"[..],
    ]
    .concat();
    assert_eq!(written(&frame), expected);
}

#[test]
fn a_brokers_fragment_says_so_in_its_flags() {
    let data = Data { fragment: Some(Fragment { total: 10, at: 4 }), content: Content::Structured, octets: b"second" };
    let frame = Frame { header: Header { by_broker: true, ..header() }, payload: Payload::Data(data) };
    assert_eq!(written(&frame)[..4], *b"T\x01\x02\x0b");
    assert_eq!(written(&frame)[32..40], *b"\x0a\0\0\0\x04\0\0\0");
}

#[test]
fn what_is_no_frame_is_reported_by_its_first_octets() {
    assert_eq!(frame_octets(b"GIOP"), Err(Unreadable::Magic(b'G')));
    assert_eq!(frame_octets(b"T\x02"), Err(Unreadable::Version(2)));
    let mut bytes = written(&Frame { header: header(), payload: Payload::Bye(Role::Publisher) });
    bytes[28..32].copy_from_slice(&1_000_000_u32.to_le_bytes());
    assert_eq!(frame_octets(&bytes), Err(Unreadable::Length(1_000_000)));
    bytes[28..32].copy_from_slice(&1_u32.to_le_bytes());
    bytes[2] = 8;
    assert_eq!(Frame::read(&bytes), Err(Unreadable::Kind { kind: 8, octets: 33 }));
    // A name of no octets, and one of a control character.
    bytes[2] = 7;
    assert_eq!(Frame::read(&bytes), Err(Unreadable::Payload { octets: 33 }));
    assert_eq!(Frame { header: header(), payload: Payload::Name("") }.write(&mut [0; 64]), None);
    bytes[2] = 6;
    bytes[32] = 3;
    assert_eq!(Frame::read(&bytes), Err(Unreadable::Payload { octets: 33 }));
    bytes[4..8].fill(0);
    assert_eq!(Frame::read(&bytes), Err(Unreadable::Session));
}

#[test]
fn names_that_lie_about_their_length_or_have_control_characters_are_refused() {
    let good = written(&Frame { header: header(), payload: Payload::Announcement(announcement("Weather/Wind")) });
    for (at, octet) in [(71, 11), (71, 0), (72, 0), (73, 0x0a), (74, 0xff), (70, 0)] {
        let mut bytes = good.clone();
        bytes[at] = octet;
        assert_eq!(Frame::read(&bytes), Err(Unreadable::Payload { octets: bytes.len() }), "octet {at} is {octet}");
    }
    let long = "x".repeat(256);
    for name in ["", &long] {
        let frame = Frame { header: header(), payload: Payload::Announcement(announcement(name)) };
        assert_eq!(frame.write(&mut [0; 512]), None);
    }
    assert!(is_name(&long[1..]) && !is_name(&long));
}

#[test]
fn a_period_outside_its_range_counts_as_the_nearest_within() {
    for (told, taken) in [(0, 10), (9, 10), (10, 10), (60_000, 60_000), (65_535, 60_000)] {
        let announcement = Announcement { period_ms: told, ..announcement("A/B") };
        let bytes = written(&Frame { header: header(), payload: Payload::Announcement(announcement) });
        let Ok((Frame { payload: Payload::Announcement(read), .. }, _)) = Frame::read(&bytes) else { panic!("{told}") };
        assert_eq!(read.period_ms, taken);
    }
}

#[test]
fn fragments_outside_their_message_are_refused() {
    let write = |total, at, octets| {
        let data = Data { fragment: Some(Fragment { total, at }), content: Content::Octets, octets };
        written(&Frame { header: header(), payload: Payload::Data(data) })
    };
    assert!(Frame::read(&write(6, 2, b"four")).is_ok());
    for bytes in
        [write(5, 2, b"four"), write(0, 0, b""), write(6, u32::MAX, b"four"), write(MESSAGE_MAX + 1, 0, b"four")]
    {
        assert!(matches!(Frame::read(&bytes), Err(Unreadable::Payload { .. })));
    }
}

#[test]
fn random_octets_are_never_more_than_refused() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..200_000 {
        let octets = random.usize(0..120);
        let mut bytes: Vec<u8> = core::iter::repeat_with(|| random.u8(..)).take(octets).collect();
        for (at, octet) in [MAGIC, VERSION, random.u8(0..8)].into_iter().enumerate() {
            if let Some(place) = bytes.get_mut(at) {
                *place = octet;
            }
        }
        if bytes.len() > 32 && random.bool() {
            let length = u32::try_from(bytes.len() - 32).unwrap();
            bytes[28..32].copy_from_slice(&length.to_le_bytes());
        }
        if let Ok((frame, octets)) = Frame::read(&bytes) {
            assert!(octets <= bytes.len());
            // What can be read can be written, and is the same then.
            assert_eq!(Frame::read(&written(&frame)), Ok((frame, frame.octets())));
        }
    }
}
