//! Frames: what Rust writes is read and written by C, and the other way round, octet for octet; and both refuse the same.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tempo::cookies::Cookies;
use tempo::wire::{Announcement, Content, Data, Fragment, Frame, Header, MESSAGE_MAX, Payload, Probe, Report, Role};
use testing::output_in_time;

use crate::compiled::test_program;
use crate::driven::Driven;
use crate::text;

/// What the program says of each of these, a line for each.
fn said(what: &str, records: &[Vec<u8>]) -> Vec<String> {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let unique = format!("{what}.{}.{}", std::process::id(), FILES.fetch_add(1, Ordering::Relaxed));
    let file: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique);
    let mut input = Vec::new();
    for record in records {
        input.extend(u32::try_from(record.len()).unwrap().to_le_bytes());
        input.extend(record);
    }
    fs::write(&file, input).unwrap();
    let output = output_in_time(Command::new(test_program()).arg(what).arg(&file));
    fs::remove_file(&file).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), records.len());
    lines
}

/// Numbers of which the extremes are not rare.
fn number(random: &mut fastrand::Rng) -> u64 {
    match random.u8(0..8) {
        0 => 0,
        1 => u64::MAX,
        _ => random.u64(..) >> random.u8(0..64),
    }
}

fn short(random: &mut fastrand::Rng) -> u32 {
    u32::try_from(number(random) & u64::from(u32::MAX)).unwrap()
}

fn address(random: &mut fastrand::Rng) -> SocketAddr {
    let ip = if random.bool() {
        IpAddr::from(random.u32(..).to_be_bytes())
    } else {
        IpAddr::from(random.u128(..).to_be_bytes())
    };
    SocketAddr::new(ip, random.u16(..))
}

fn name(random: &mut fastrand::Rng) -> String {
    let most = random.usize(1..=255);
    let mut name = String::new();
    loop {
        let next = match random.u8(0..6) {
            0 => random.char('\u{a0}'..='\u{7ff}'),
            1 => random.char('\u{800}'..='\u{ffff}'),
            2 => random.char('\u{10000}'..=char::MAX),
            _ => random.char(' '..='~'),
        };
        if name.len() + next.len_utf8() > most {
            break;
        }
        name.push(next);
    }
    if name.is_empty() { "x".to_owned() } else { name }
}

fn frame<'b>(random: &mut fastrand::Rng, name: &'b str, message: &'b [u8]) -> Frame<'b> {
    let header = Header {
        session: short(random).max(1),
        topic: short(random),
        sequence: short(random),
        sent: number(random),
        priority: random.i16(..),
        by_broker: random.bool(),
    };
    let probe = Probe {
        sent: number(random),
        prober: short(random),
        topic: short(random),
        number: short(random),
        to: if random.bool() { Some(address(random)) } else { None },
        hops: random.u8(..),
        echoed_by: short(random),
    };
    let role = if random.bool() { Role::Publisher } else { Role::Subscriber };
    let payload = match random.u8(0..7) {
        0 => Payload::Announcement(Announcement {
            given: number(random),
            returned: number(random),
            rate: short(random),
            highest_rate: short(random),
            deadline_us: short(random),
            end_points: short(random),
            largest: short(random),
            period_ms: random.u16(10..=60_000),
            role,
            name,
        }),
        1 => {
            let octets = u32::try_from(message.len()).unwrap();
            let total = random.u32(octets..=MESSAGE_MAX);
            let fragment = Fragment { total, at: random.u32(0..=total - octets) };
            let content = [Content::Octets, Content::Typed, Content::Structured][random.usize(0..3)];
            let is_fragment = random.bool() && octets > 0;
            Payload::Data(Data { fragment: is_fragment.then_some(fragment), content, octets: message })
        }
        2 => Payload::Probe(probe),
        3 => Payload::Echo(probe),
        4 => Payload::Report(Report {
            received: number(random),
            lost: number(random),
            rate: short(random),
            end_points: short(random),
        }),
        5 => Payload::Bye(role),
        _ => Payload::Name(name),
    };
    Frame { header, payload }
}

pub(crate) fn bytes(random: &mut fastrand::Rng) -> Vec<u8> {
    let sizes = if random.u8(0..50) == 0 { 6 } else { 4 };
    let most = [0, 1, 8, 100, 3_000, 65_467][random.usize(0..sizes)];
    let message: Vec<u8> = (0..random.usize(0..=most)).map(|_| random.u8(..)).collect();
    let name = name(random);
    let frame = frame(random, &name, &message);
    let mut bytes = vec![0; frame.octets()];
    assert_eq!(frame.write(&mut bytes), Some(bytes.len()));
    bytes
}

/// Something that is wrong about a frame, or may be.
pub(crate) fn mutate(random: &mut fastrand::Rng, bytes: &mut Vec<u8>) {
    /// Octets at which UTF-8 changes its mind, and ends of ranges.
    const TELLING: [u8; 22] =
        [0, 1, 2, 3, 4, 5, 6, 9, 0x1f, 0x7f, 0x80, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xe0, 0xed, 0xf0, 0xf4, 0xf5, 0xff];
    for _ in 0..random.usize(1..4) {
        let length = bytes.len();
        let at = if random.bool() { random.usize(0..length.min(80)) } else { random.usize(0..length) };
        match random.u8(0..10) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.extend((0..random.usize(0..60)).map(|_| random.u8(..)).collect::<Vec<_>>()),
            2 if length > 32 => {
                let reported = u32::try_from(length - 32).unwrap().wrapping_add_signed(random.i32(-2..=2));
                bytes[28..32].copy_from_slice(&reported.to_le_bytes());
            }
            3 => {
                bytes.insert(at, random.u8(..));
                // So that the length is right all the same, if it was.
                if let Some(length) = bytes.get_mut(28) {
                    *length = length.wrapping_add(1);
                }
            }
            4..7 => bytes[at] = TELLING[random.usize(0..TELLING.len())],
            _ => bytes[at] = random.u8(..),
        }
    }
}

fn compare(records: &[Vec<u8>]) -> usize {
    let mut good = 0;
    for (record, said) in records.iter().zip(said("frames", records)) {
        let expected = text::verdict(record);
        assert_eq!(said, expected, "of {}", text::hex(record));
        good += usize::from(expected.starts_with("good"));
    }
    good
}

#[test]
fn frames_that_rust_writes_are_read_by_c_and_written_again_octet_for_octet() {
    let mut random = fastrand::Rng::with_seed(1);
    let records: Vec<Vec<u8>> = (0..20_000).map(|_| bytes(&mut random)).collect();
    assert_eq!(compare(&records), records.len());
    for (record, said) in records.iter().zip(said("frames", &records)) {
        assert!(said.ends_with(&format!(" {}", text::hex(record))));
    }
}

#[test]
fn frames_that_c_writes_have_the_same_values_in_rust_and_are_written_again_octet_for_octet() {
    let mut random = fastrand::Rng::with_seed(2);
    let chance: Vec<Vec<u8>> =
        (0..20_000).map(|_| (0..random.usize(200..400)).map(|_| random.u8(..)).collect()).collect();
    let mut kinds = [0; 8];
    for said in said("values", &chance) {
        let (_, bytes) = said.rsplit_once(' ').unwrap();
        let bytes = text::octets(bytes);
        let (frame, octets) = Frame::read(&bytes).unwrap_or_else(|error| panic!("{error}: {said}"));
        assert_eq!(octets, bytes.len());
        assert_eq!(said, format!("values{}", text::written(&frame)));
        kinds[usize::from(bytes[2])] += 1;
    }
    assert!(kinds[1..].iter().all(|&frames| frames > 1_000), "{kinds:?}");
}

#[test]
fn what_is_no_frame_is_refused_by_both_with_the_same_verdict() {
    let mut random = fastrand::Rng::with_seed(3);
    let records: Vec<Vec<u8>> = (0..60_000)
        .map(|_| {
            let mut bytes = bytes(&mut random);
            mutate(&mut random, &mut bytes);
            bytes
        })
        .collect();
    let good = compare(&records);
    assert!((5_000..50_000).contains(&good), "{good} of them are good: this says little");
}

#[test]
fn names_are_judged_alike_octet_by_octet() {
    let mut random = fastrand::Rng::with_seed(4);
    let records: Vec<Vec<u8>> = (0..40_000)
        .map(|_| {
            let mut name: Vec<u8> = Vec::new();
            for _ in 0..random.usize(1..4) {
                match random.u8(0..3) {
                    0 => name.extend(random.char(..).to_string().bytes()),
                    1 => name.extend(random.u32(..).to_be_bytes().iter().map(|octet| octet | 0x80)),
                    // Encodings that are too long, or of surrogates, or beyond the last character.
                    _ => {
                        let lead = [0xc0, 0xc1, 0xc2, 0xe0, 0xed, 0xef, 0xf0, 0xf4][random.usize(0..8)];
                        name.push(lead);
                        name.extend((0..random.usize(0..4)).map(|_| random.u8(0x80..=0xbf)));
                    }
                }
            }
            let longest = "x".repeat(name.len());
            let template = Announcement::new(Role::Publisher, &longest, 0);
            let header = Header { session: 1, topic: 1, sequence: 0, sent: 0, priority: 0, by_broker: false };
            let mut bytes = vec![0; 72 + name.len()];
            let frame = Frame { header, payload: Payload::Announcement(template) };
            frame.write(&mut bytes).unwrap();
            bytes[72..].copy_from_slice(&name);
            bytes
        })
        .collect();
    let good = compare(&records);
    assert!((1_000..39_000).contains(&good), "{good} of them are good: this says little");
}

/// A frame of this kind, with these flags and this payload.
fn raw(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    bytes[..8].copy_from_slice(&[0x54, 1, kind, flags, 7, 0, 0, 0]);
    bytes[28..32].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
    bytes.extend(payload);
    bytes
}

#[test]
fn values_at_the_ends_of_their_ranges_are_judged_alike() {
    let mut records = Vec::new();
    for total in [0, 1, 9, 10, 11, 100, MESSAGE_MAX - 1, MESSAGE_MAX, MESSAGE_MAX + 1, u32::MAX] {
        for at in [0, 1, 9, 10, total.wrapping_sub(10), total.wrapping_sub(9), total.wrapping_sub(1), total, u32::MAX] {
            for octets in [0_usize, 1, 9, 10, 11] {
                let mut payload = total.to_le_bytes().to_vec();
                payload.extend(at.to_le_bytes());
                payload.extend(vec![1; octets]);
                records.push(raw(2, 1, &payload));
            }
        }
    }
    for period in [0_u16, 9, 10, 11, 59_999, 60_000, 60_001, u16::MAX] {
        for role in 0..4 {
            for reported in 0..4 {
                let mut payload = vec![0; 36];
                payload.extend(period.to_le_bytes());
                payload.extend([role, reported, b'A', b'B']);
                records.push(raw(1, 0, &payload));
            }
        }
    }
    for kind in 0..9 {
        for octets in 0..60 {
            records.push(raw(kind, 0xff, &vec![1; octets]));
            records.push(raw(kind, 0xf2, &vec![0; octets]));
        }
        for octets in [65_474, 65_475, 65_476] {
            records.push(raw(kind, 0, &vec![0; octets]));
        }
    }
    for family in 0..=u8::MAX {
        let mut payload = [0xff; 48];
        payload[22] = family;
        records.push(raw(3, 0, &payload));
    }
    for name in 1..=0x10_ffff_u32 {
        // Around each power of two, and where ranges end.
        let is_telling = (name & (name - 1)).count_ones() < 3 || (name + 1).count_ones() < 3 || name % 0x7ff < 2;
        if let Some(name) = char::from_u32(name).filter(|_| is_telling) {
            let mut octets = [0; 4];
            let name = name.encode_utf8(&mut octets).as_bytes();
            let mut payload = vec![0; 40];
            (payload[38], payload[39]) = (1, u8::try_from(name.len()).unwrap());
            payload.extend(name);
            records.push(raw(1, 0, &payload));
        }
    }
    let good = compare(&records);
    assert!(good * 3 > records.len() && good * 10 < records.len() * 9, "{good} of {}", records.len());
}

#[test]
fn every_cut_of_a_frame_is_incomplete_by_as_many_octets_for_both() {
    let mut random = fastrand::Rng::with_seed(5);
    let whole: Vec<Vec<u8>> = (0..30).map(|_| bytes(&mut random)).filter(|bytes| bytes.len() < 400).collect();
    let cuts: Vec<Vec<u8>> = whole.iter().flat_map(|bytes| (0..bytes.len()).map(|cut| bytes[..cut].to_vec())).collect();
    assert_eq!(compare(&cuts), 0);
}

#[test]
fn cookies_are_made_of_the_same_octets() {
    let mut random = fastrand::Rng::with_seed(6);
    let mut program = Driven::start();
    for _ in 0..500 {
        let (secret, of, session) = ((random.u64(..), random.u64(..)), address(&mut random), random.u32(..));
        let said = program.ask(&format!("cookie {} {} {} {session}", secret.0, secret.1, text::address(Some(of))));
        assert_eq!(said.value, Cookies::new(secret).cookie(of, session).to_string(), "{of} {session}");
    }
}

#[test]
fn an_end_point_with_its_buffer_has_as_many_octets_as_the_specification_says() {
    let output = output_in_time(Command::new(test_program()).arg("size"));
    let octets: usize = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    let page = include_str!("../../../../docs/tempo.md");
    let of_thousands = format!("{},{:03}", octets / 1_000, octets % 1_000);
    assert!(octets < 65_536 && page.contains(&format!(" {of_thousands} octets ")), "{octets} octets: docs/tempo.md");
}
