//! The exchange that docs/tempo.md prints, octet by octet.

use tempo::wire::{Frame, Payload, Role};

/// The datagrams of the section "One exchange".
fn printed() -> Option<Vec<Vec<u8>>> {
    let page = include_str!("../../../docs/tempo.md");
    let (_, section) = page.split_once("## One exchange")?;
    let block = section.split("```").nth(1)?;
    let mut datagrams: Vec<Vec<u8>> = Vec::new();
    for line in block.lines().filter(|line| !line.is_empty()) {
        let Some(line) = line.strip_prefix("   ") else {
            datagrams.push(Vec::new());
            continue;
        };
        let mut words = line.split_whitespace();
        let datagram = datagrams.last_mut()?;
        assert_eq!(words.next()?.parse(), Ok(datagram.len()), "{line}");
        for octet in words {
            datagram.push(u8::from_str_radix(octet, 16).ok()?);
        }
    }
    Some(datagrams)
}

#[test]
fn the_printed_exchange_is_one_of_this_protocol() {
    let datagrams = printed().unwrap();
    let frames: Vec<Frame<'_>> = datagrams
        .iter()
        .map(|octets| {
            let (frame, length) = Frame::read(octets).unwrap();
            assert_eq!(length, octets.len());
            let mut again = vec![0; length];
            assert_eq!(frame.write(&mut again), Some(length));
            assert_eq!(&again, octets);
            frame
        })
        .collect();
    let announced: Vec<_> = frames
        .iter()
        .filter_map(|frame| match &frame.payload {
            Payload::Announcement(announcement) => Some((frame.header.session, announcement)),
            _ => None,
        })
        .collect();
    let [(publisher, first), (subscriber, second), (_, third), (_, fourth), (_, fifth)] = announced[..] else {
        panic!("{announced:?}")
    };
    assert!(announced.iter().all(|(_, one)| one.name == "Weather/Wind" && one.period_ms == 1_000));
    assert_eq!(
        [first, second, third, fourth, fifth].map(|one| one.role == Role::Publisher),
        [true, false, true, false, true]
    );
    assert_eq!(third, fifth);
    assert_eq!((first.given, first.returned, second.returned), (0, 0, 0));
    assert_eq!((third.returned, fourth.returned), (second.given, third.given));
    assert!(publisher != subscriber && second.given != 0 && third.given != 0);
    let [data, bye] = &frames[5..] else { panic!("{frames:?}") };
    assert!(matches!(&data.payload, Payload::Data(data) if data.octets == b"11.5 m/s"), "{data:?}");
    assert!(matches!(bye.payload, Payload::Bye(Role::Publisher)), "{bye:?}");
    assert_eq!((data.header.session, bye.header.session), (publisher, publisher));
}
