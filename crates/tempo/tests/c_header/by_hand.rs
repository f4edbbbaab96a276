//! End points in C, handed frames that a test made: from strangers, from those that break the rules, and at the ends of ranges.

use std::net::SocketAddr;

use tempo::cookies::Cookies;
use tempo::sequence::Sequence;
use tempo::wire::{Announcement, Content, Data, Fragment, Frame, Header, Payload, Probe, Role};

use crate::driven::Place;
use crate::end_point::{BOTH_C, PUBLISHER, SUBSCRIBER, TOPIC, pair};
use crate::world::{Channel, DELAY, Language, MS, PERIOD_MS, World, at, field, message};

pub(crate) fn header(session: u32, topic: u32) -> Header {
    Header { session, topic, sequence: 0, sent: 0, priority: 0, by_broker: false }
}

pub(crate) fn announcement(role: Role) -> Announcement<'static> {
    Announcement { largest: 65_000, ..Announcement::new(role, TOPIC, 1_000) }
}

pub(crate) fn write(header: Header, payload: Payload<'_>) -> Vec<u8> {
    let frame = Frame { header, payload };
    let mut bytes = vec![0; frame.octets()];
    frame.write(&mut bytes).unwrap();
    bytes
}

fn announced(octets: &[u8]) -> Announcement<'_> {
    match Frame::read(octets).unwrap().0.payload {
        Payload::Announcement(announcement) => announcement,
        other => panic!("{other:?}"),
    }
}

/// What makes the cookies of an end point with this session.
fn cookies(session: u32) -> Cookies {
    let secret = u64::from(session).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Cookies::new((secret, !secret))
}

/// A counterpart at this address, which has proven that it is there; it gets a topic's announcement in return.
fn meet(world: &mut World, node: usize, from: Place, session: u32, number: u32, role: Role) {
    let said = world.hand(node, from, &write(header(session, number), Payload::Announcement(announcement(role))));
    let returned = announced(&said.sent[0].1).given;
    let proof = Announcement { returned, ..announcement(role) };
    world.hand(node, from, &write(header(session, number), Payload::Announcement(proof)));
    assert!(world.of_peer(node, session, "lost").is_some());
}

#[test]
fn an_address_that_has_not_proven_itself_gets_answers_of_the_size_of_what_came_and_nothing_else() {
    let mut world = World::new(7);
    let publisher = world.add(Language::C, at(1), 11, Channel::None);
    let topic = world.topic(publisher, PUBLISHER, TOPIC);
    let forged = write(header(5, 1), Payload::Announcement(announcement(Role::Subscriber)));
    for _ in 0..20 {
        let said = world.hand(publisher, at(9), &forged);
        assert_eq!(
            said.sent.iter().map(|(to, octets)| (*to, octets.len())).collect::<Vec<_>>(),
            [(at(9), forged.len())]
        );
        assert_eq!(world.publish(publisher, topic, 0, &[0; 1_000]), 0);
        world.run(300);
    }
    let guessed = Announcement { returned: 77, ..announcement(Role::Subscriber) };
    let said = world.hand(publisher, at(9), &write(header(5, 1), Payload::Announcement(guessed)));
    assert_eq!((said.sent.len(), world.publish(publisher, topic, 0, b"not yet")), (1, 0));
    // It returns what it was given: it is there.
    let returned = announced(&said.sent[0].1).given;
    let proof = Announcement { returned, given: 4, ..announcement(Role::Subscriber) };
    world.hand(publisher, at(9), &write(header(5, 1), Payload::Announcement(proof)));
    assert_eq!(world.publish(publisher, topic, 0, b"now"), 1);
    // But not so at another address, nor as another session.
    for (from, session) in [(at(8), 5), (at(9), 6)] {
        let said = world.hand(publisher, from, &write(header(session, 1), Payload::Announcement(proof)));
        assert_eq!(said.sent.len(), 1);
        let said = world.ask(publisher, &format!("publish 0 {topic} 0 0 00"));
        assert_eq!(said.sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [at(9)]);
    }
}

#[test]
fn a_thousand_forged_addresses_take_no_room_from_one_that_proves_itself() {
    let (mut world, topic, subscriber) = pair(9, BOTH_C);
    for number in 0..1_000_u32 {
        let [.., high, low] = number.to_be_bytes();
        let from = Place::At(SocketAddr::from(([10, 9, high, low], 1)));
        let forged = write(header(1_000 + number, 1), Payload::Announcement(announcement(Role::Subscriber)));
        assert_eq!(world.hand(0, from, &forged).sent.len(), 1);
    }
    world.elsewhere.clear();
    world.run(20);
    assert_eq!(world.publish(0, topic, 0, b"heard"), 1);
    world.run(20);
    assert_eq!(world.messages(subscriber).len(), 1);
}

#[test]
fn fragments_that_do_not_fit_together_are_counted_and_never_handed_on() {
    let (mut world, _, subscriber) = pair(12, BOTH_C);
    world.run(PERIOD_MS);
    let number = u32::try_from(world.topic_of(0)).unwrap() + 1;
    let mut chunk = |sequence, total, place: u32, octets: &[u8]| {
        let data = Data { fragment: Some(Fragment { total, at: place }), content: Content::Octets, octets };
        world.hand(subscriber, at(1), &write(Header { sequence, ..header(11, number) }, Payload::Data(data)));
    };
    chunk(50, 30, 0, &[1; 10]);
    chunk(50, 30, 0, &[1; 9]); // of another size
    chunk(50, 30, 5, &[1; 10]); // not at a multiple
    chunk(50, 31, 10, &[1; 10]); // another total
    chunk(50, 30, 19, &[1; 11]); // the last one, not at a multiple
    chunk(51, 4_097, 0, &[1; 10]); // too large
    chunk(50, 30, 20, &[1; 10]);
    assert_eq!(world.counter(subscriber, "fragments"), 5);
    assert!(world.messages(subscriber).is_empty());
    let last = Data { fragment: Some(Fragment { total: 30, at: 10 }), content: Content::Octets, octets: &[1; 10] };
    world.hand(subscriber, at(1), &write(Header { sequence: 50, ..header(11, number) }, Payload::Data(last)));
    assert_eq!(message(&world.messages(subscriber)[0]), [1; 30]);
    world.hand(subscriber, at(1), &write(Header { sequence: 50, ..header(11, number) }, Payload::Data(last)));
    assert_eq!((world.counter(subscriber, "fragments"), world.messages(subscriber).len()), (6, 1), "it is late");
}

#[test]
fn a_stream_has_proven_itself_and_is_closed_on_what_is_no_frame() {
    let mut world = World::new(14);
    let stream = Place::Stream(3);
    let publisher = world.add(Language::C, at(1), 11, Channel::None);
    let topic = world.topic(publisher, PUBLISHER, TOPIC);
    let frames = [
        write(header(5, 1), Payload::Announcement(announcement(Role::Subscriber))),
        write(header(5, 1), Payload::Announcement(announcement(Role::Subscriber))),
    ]
    .concat();
    // Octet by octet: what is not consumed is handed in again.
    let (mut waits, mut consumed) = (Vec::new(), 0);
    for &octet in &frames {
        waits.push(octet);
        let said = world.hand(publisher, stream, &waits);
        let taken: usize = said.value.parse().unwrap();
        consumed += taken;
        waits.drain(..taken);
        for (to, octets) in &said.sent {
            assert_eq!((*to, announced(octets).given), (stream, 0));
        }
    }
    assert_eq!((consumed, waits.len()), (frames.len(), 0));
    assert_eq!(world.publish(publisher, topic, 0, b"over the stream"), 1);
    // A kind that is not known is passed over, and what is no frame is the end.
    let mut unknown = write(header(5, 1), Payload::Bye(Role::Publisher));
    unknown[2] = 9;
    assert_eq!(world.hand(publisher, stream, &unknown).value, "33");
    assert_eq!(world.hand(publisher, stream, b"GET / HTTP/1.1").value, "-1");
    world.ask(publisher, &format!("closed {}", stream.text()));
    assert_eq!(world.publish(publisher, topic, 0, b"nobody"), 0);
}

#[test]
fn numbers_mean_the_same_to_both_however_they_come() {
    for seed in 0..6 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut world, _, subscriber) = pair(seed, BOTH_C);
        world.run(PERIOD_MS);
        world.lost_of_100 = 100; // the publisher says no more
        let number = u32::try_from(world.topic_of(0)).unwrap() + 1;
        let mut model = Sequence::default();
        // What came before were probes.
        let before = world.messages(subscriber).len();
        let mut next = random.u32(..);
        let (mut handed_on, mut is_first) = (0, true);
        let reported =
            |world: &mut World| ["lost", "late", "repeated"].map(|name| world.of_peer(subscriber, 11, name).unwrap());
        let begun_with = reported(&mut world);
        for _ in 0..600 {
            let step = match random.u8(0..20) {
                0 => random.u32(..),
                1 => random.u32(0..200_000),
                2 => 0_u32.wrapping_sub(random.u32(0..70_000)),
                3..8 => 0_u32.wrapping_sub(random.u32(0..70)),
                8..12 => random.u32(0..70),
                _ => 1,
            };
            next = next.wrapping_add(step);
            if is_first {
                // A jump, from the number of the last probe.
                next = next.wrapping_add(1 << 30);
            }
            world.now += [0, MS, 100 * MS][random.usize(0..3)] + if random.u8(0..50) == 0 { 2_500 * MS } else { 0 };
            let octets = write(
                Header { sequence: next, ..header(11, number) },
                Payload::Data(Data { fragment: None, content: Content::Octets, octets: b"x" }),
            );
            world.hand(subscriber, at(1), &octets);
            handed_on += usize::from(model.take(world.now, PERIOD_MS * MS, next).is_handed_on());
            is_first = false;
            assert_eq!(world.messages(subscriber).len() - before, handed_on, "seed {seed}");
            let [lost, late, repeated] = reported(&mut world);
            let expected = [model.lost(), model.late(), model.repeated()];
            let since = [lost - begun_with[0], late - begun_with[1], repeated - begun_with[2]];
            assert_eq!(since, expected, "seed {seed}");
        }
        assert!(model.begun_anew() > 5 && model.late() > 20 && model.repeated() > 20, "{model:?}");
    }
}

#[test]
fn only_the_broker_can_say_where_echoes_go() {
    let (mut world, _, subscriber) = pair(16, BOTH_C);
    world.run(PERIOD_MS);
    let number = u32::try_from(world.topic_of(0)).unwrap() + 1;
    let to: SocketAddr = "10.7.7.7:77".parse().unwrap();
    let probe = Probe { sent: 1, prober: 99, topic: 4, number: 1, to: Some(to), hops: 1, echoed_by: 0 };
    for (sequence, by_broker, expected) in [(60, true, Place::At(to)), (61, false, at(1))] {
        let header = Header { sequence, by_broker, ..header(11, number) };
        let said = world.hand(subscriber, at(1), &write(header, Payload::Probe(probe)));
        let [(place, octets)] = &said.sent[..] else { panic!("{said:?}") };
        assert_eq!(*place, expected);
        let (frame, _) = Frame::read(octets).unwrap();
        assert_eq!((frame.header.session, frame.header.topic, frame.header.by_broker), (22, 4, false));
        assert_eq!(frame.payload, Payload::Echo(Probe { echoed_by: 22, ..probe }));
    }
}

#[test]
fn chance_from_anywhere_harms_nothing() {
    let (mut world, topic, subscriber) = pair(17, BOTH_C);
    let mut random = fastrand::Rng::with_seed(17);
    world.run(PERIOD_MS);
    for _ in 0..20_000 {
        let from = at(random.u8(1..5));
        let node = random.usize(0..2);
        let Place::At(address) = from else { continue };
        let session = [11_u32, 22, 33, 44][random.usize(0..4)];
        let mut octets = crate::frames::bytes(&mut random);
        octets[4..8].copy_from_slice(&session.to_le_bytes());
        octets[8..12].copy_from_slice(&random.u32(1..5).to_le_bytes());
        if octets[2] == 1 && random.bool() {
            // A topic that is known there, from an address that has proven itself.
            let ours = if node == 0 { 11 } else { 22 };
            let role = if random.bool() { Role::Publisher } else { Role::Subscriber };
            let returned = cookies(ours).cookie(address, session);
            let said = Announcement { returned, given: random.u64(..), ..announcement(role) };
            octets = write(header(session, random.u32(1..5)), Payload::Announcement(said));
        }
        if random.bool() {
            crate::frames::mutate(&mut random, &mut octets);
        }
        world.hand(node, from, &octets);
        if random.u8(0..20) == 0 {
            world.publish(0, topic, 0, &octets);
            world.run(random.u64(0..200));
        }
    }
    world.elsewhere.clear();
    // And it goes on working.
    world.run(60 * 3 * PERIOD_MS);
    let before = world.messages(subscriber).len();
    assert!(world.publish(0, topic, 0, b"still here") > 0);
    world.run(20);
    assert_eq!(world.messages(subscriber).len(), before + 1);
}

#[test]
fn an_announcement_without_proof_from_where_a_peer_is_renews_it_if_it_went_to_a_group_and_is_else_answered() {
    let mut world = World::new(19);
    let publisher = world.add(Language::C, at(1), 11, Channel::None);
    world.topic(publisher, PUBLISHER, TOPIC);
    meet(&mut world, publisher, at(9), 5, 1, Role::Subscriber);
    let mut answers = |number: u32, given: u64, rate: u32| {
        let said = Announcement { given, rate, ..announcement(Role::Subscriber) };
        let said = world.hand(publisher, at(9), &write(header(5, number), Payload::Announcement(said)));
        (said.sent.len(), world.of_peer(publisher, 5, "rate").unwrap())
    };
    assert_eq!(answers(1, 0, 7), (0, 7));
    assert_eq!(answers(1, 99, 8), (1, 7), "it has lost its cookie, or another end point says so");
    assert_eq!(answers(2, 0, 9), (1, 7), "another number is believed of an end point that proves to be there");
}

#[test]
fn a_number_that_is_given_to_another_name_is_not_the_former_ones_any_more() {
    let mut world = World::new(20);
    let publisher = world.add(Language::C, at(1), 11, Channel::None);
    let topic = world.topic(publisher, PUBLISHER, TOPIC);
    meet(&mut world, publisher, at(9), 5, 1, Role::Subscriber);
    let other = Announcement { name: "Other/Name", ..announcement(Role::Subscriber) };
    world.hand(publisher, at(8), &write(header(5, 1), Payload::Announcement(other)));
    assert_eq!(world.publish(publisher, topic, 0, b"it came from elsewhere"), 1);
    world.hand(publisher, at(9), &write(header(5, 1), Payload::Announcement(other)));
    assert_eq!(world.publish(publisher, topic, 0, b"nobody"), 0);
}

#[test]
fn fragments_of_a_publisher_that_is_gone_are_not_put_together_with_those_of_another() {
    let mut world = World::new(22);
    let subscriber = world.add(Language::C, at(1), 11, Channel::None);
    world.topic(subscriber, SUBSCRIBER, TOPIC);
    let chunk = |at: u32, octets| {
        Payload::Data(Data { fragment: Some(Fragment { total: 20, at }), content: Content::Octets, octets })
    };
    meet(&mut world, subscriber, at(8), 5, 1, Role::Publisher);
    world.hand(subscriber, at(8), &write(Header { sequence: 50, ..header(5, 1) }, chunk(0, &[1; 10])));
    world.hand(subscriber, at(8), &write(header(5, 1), Payload::Bye(Role::Publisher)));
    meet(&mut world, subscriber, at(9), 6, 1, Role::Publisher);
    world.hand(subscriber, at(9), &write(Header { sequence: 50, ..header(6, 1) }, chunk(10, &[2; 10])));
    assert!(world.messages(subscriber).is_empty());
    world.hand(subscriber, at(9), &write(Header { sequence: 50, ..header(6, 1) }, chunk(0, &[2; 10])));
    assert_eq!(message(&world.messages(subscriber)[0]), [2; 20]);
}

/// After a jump back, end points in Rust took no fragments any more as long as there were some of a message with a number from before it,
/// and those in C released a message when an earlier one came.
#[test]
fn an_unfinished_message_is_lost_when_a_later_one_or_a_jump_comes_and_not_when_an_earlier_one_does() {
    for language in [Language::C, Language::Rust] {
        let mut world = World::new(29);
        let subscriber = world.add(language, at(1), 11, Channel::None);
        world.topic(subscriber, SUBSCRIBER, TOPIC);
        meet(&mut world, subscriber, at(9), 5, 1, Role::Publisher);
        for part in PARTS.split(' ') {
            let (of, half) = part.split_once('.').map_or((part, None), |(of, half)| (of, half.parse::<u32>().ok()));
            let fragment = half.map(|half| Fragment { total: 20, at: 10 * half });
            let sequence = of.parse().unwrap();
            let data = Data { fragment, content: Content::Octets, octets: &[1; 10] };
            world.hand(subscriber, at(9), &write(Header { sequence, ..header(5, 1) }, Payload::Data(data)));
        }
        let came: Vec<_> = world.messages(subscriber).iter().map(|line| field(line, "sequence")).collect();
        assert_eq!(came, [7, 8, 10, 1_000_001, 5, 6, 2_000_000, 9], "{language:?}");
    }
}

/// Numbers of messages that come whole, or half. Then: 8, which an earlier one does not end; 9, which a later one does; a jump back by a whole
/// message and one by a fragment.
const PARTS: &str = "8.0 7 8.1 9.0 10 9.1 1000001 1000002.0 5 6.0 6.1 2000000 2000001.0 2000002.0 9.0 9.1";

#[test]
fn a_message_of_64_fragments_is_put_together_and_one_of_65_refused_and_another_publisher_waits_a_period() {
    let mut world = World::new(23);
    let subscriber = world.add(Language::C, at(1), 11, Channel::None);
    world.topic(subscriber, SUBSCRIBER, TOPIC);
    meet(&mut world, subscriber, at(8), 5, 1, Role::Publisher);
    meet(&mut world, subscriber, at(9), 6, 1, Role::Publisher);
    let send = |world: &mut World, session, sequence, total, places: &[u32]| {
        for &place in places {
            let data =
                Data { fragment: Some(Fragment { total, at: place }), content: Content::Octets, octets: &[3; 10] };
            let header = Header { sequence, ..header(session, 1) };
            let from = at(u8::try_from(session + 3).unwrap());
            world.hand(subscriber, from, &write(header, Payload::Data(data)));
        }
    };
    let places: Vec<u32> = (0..64).map(|place| place * 10).collect();
    send(&mut world, 5, 1, 640, &places[..63]);
    assert!(world.messages(subscriber).is_empty());
    send(&mut world, 6, 1, 20, &[0, 10]);
    assert_eq!(world.counter(subscriber, "fragments"), 2, "another's is unfinished");
    send(&mut world, 5, 1, 640, &places[63..]);
    assert_eq!(message(&world.messages(subscriber)[0]), [3; 640]);
    send(&mut world, 5, 2, 650, &places);
    assert_eq!((world.messages(subscriber).len(), world.counter(subscriber, "fragments")), (1, 66));
    // The unfinished message of a silent peer gives way.
    send(&mut world, 6, 2, 20, &[0]);
    assert_eq!(world.counter(subscriber, "fragments"), 67);
    world.now += PERIOD_MS * MS + 1;
    send(&mut world, 6, 2, 20, &[0, 10]);
    assert_eq!(message(&world.messages(subscriber)[1]), [3; 20]);
}

#[test]
fn what_is_missing_is_remembered_for_64_numbers_by_both() {
    let mut world = World::new(24);
    let subscriber = world.add(Language::C, at(1), 11, Channel::None);
    world.topic(subscriber, SUBSCRIBER, TOPIC);
    meet(&mut world, subscriber, at(8), 5, 1, Role::Publisher);
    let mut model = Sequence::default();
    let mut base = 0_u32;
    for first in 1..4 {
        for second in [1, 2, 61, 62, 63, 64, 65, 66, 65_535, 65_536, 65_537] {
            base = base.wrapping_add(1 << 28); // begins anew
            let last = base.wrapping_add(first + second);
            let mut numbers = vec![base, base.wrapping_add(first), last];
            numbers.extend([1, 2, 3, 60, 61, 62, 63, 64, 65, 66].map(|behind| last.wrapping_sub(behind)));
            numbers.extend([65_535, 65_536, 65_537].map(|behind| last.wrapping_sub(behind)));
            for sequence in numbers {
                let data = Payload::Data(Data { fragment: None, content: Content::Octets, octets: b"x" });
                world.hand(subscriber, at(8), &write(Header { sequence, ..header(5, 1) }, data));
                model.take(world.now, PERIOD_MS * MS, sequence);
                let reported = ["received", "lost", "late", "repeated"].map(|name| world.of_peer(subscriber, 5, name));
                let expected = [model.received(), model.lost(), model.late(), model.repeated()];
                assert_eq!(reported, expected.map(Some), "{base} + {first} + {second}: {sequence}");
            }
        }
    }
}

#[test]
fn a_session_that_is_heard_where_it_is_does_not_move_to_an_end_point_that_knows_its_number() {
    let mut world = World::new(25);
    let publisher = world.add(Language::C, at(1), 11, Channel::None);
    let topic = world.topic(publisher, PUBLISHER, TOPIC);
    meet(&mut world, publisher, at(9), 5, 1, Role::Subscriber);
    let forged = write(header(5, 1), Payload::Announcement(announcement(Role::Subscriber)));
    let given = announced(&world.hand(publisher, at(8), &forged).sent[0].1).given;
    let proof =
        write(header(5, 1), Payload::Announcement(Announcement { returned: given, ..announcement(Role::Subscriber) }));
    assert!(world.hand(publisher, at(8), &proof).sent.is_empty());
    let receivers = |world: &mut World| {
        let sent = world.ask(publisher, &format!("publish 0 {topic} 0 0 00")).sent;
        sent.iter().map(|(to, _)| *to).collect::<Vec<_>>()
    };
    assert_eq!((receivers(&mut world), world.counter(publisher, "not_moved")), (vec![at(9)], 1));
    world.now += PERIOD_MS * MS;
    assert_eq!(world.hand(publisher, at(8), &proof).sent.len(), 1);
    assert_eq!((receivers(&mut world), world.counter(publisher, "moved")), (vec![at(8)], 1));
}

#[test]
fn echoes_that_cannot_be_of_the_last_probes_say_nothing() {
    let mut world = World::new(26);
    let publisher = world.add(Language::C, at(1), 11, Channel::None);
    let topic = world.topic(publisher, PUBLISHER, TOPIC);
    meet(&mut world, publisher, at(9), 5, 1, Role::Subscriber);
    let said = world.ask(publisher, &format!("tick {}", world.now));
    let probe = said.sent.iter().find_map(|(_, octets)| match Frame::read(octets).unwrap().0.payload {
        Payload::Probe(probe) => Some(Probe { echoed_by: 5, ..probe }),
        _ => None,
    });
    let probe = probe.expect("it probes once in a period");
    world.now += DELAY;
    let mut echoes = |probe: Probe| {
        world.hand(publisher, at(9), &write(header(5, probe.topic), Payload::Echo(probe)));
        world.of_topic(publisher, topic, "echoes")
    };
    assert_eq!(echoes(Probe { sent: u64::MAX, ..probe }), 0, "from the future");
    assert_eq!(echoes(Probe { number: probe.number + 1, ..probe }), 0, "not sent yet");
    assert_eq!(echoes(Probe { number: probe.number.wrapping_sub(9), ..probe }), 0, "long ago");
    assert_eq!(echoes(Probe { prober: 12, ..probe }), 0, "somebody else's");
    assert_eq!(echoes(Probe { topic: probe.topic + 1, ..probe }), 0, "of no topic");
    assert_eq!(echoes(Probe { topic: 0, ..probe }), 0, "of no topic");
    assert_eq!(echoes(probe), 1);
    assert_eq!(world.of_topic(publisher, topic, "delay"), DELAY);
    assert_eq!(world.of_peer(publisher, 5, "delay"), Some(DELAY));
}

#[test]
fn a_publisher_that_gives_its_topic_another_number_counts_anew() {
    let mut world = World::new(27);
    let subscriber = world.add(Language::C, at(1), 11, Channel::None);
    world.topic(subscriber, SUBSCRIBER, TOPIC);
    meet(&mut world, subscriber, at(9), 5, 1, Role::Publisher);
    let data = |number, sequence| {
        let data = Data { fragment: None, content: Content::Octets, octets: b"x" };
        write(Header { sequence, ..header(5, number) }, Payload::Data(data))
    };
    world.hand(subscriber, at(9), &data(1, 1_000));
    world.hand(subscriber, at(9), &data(1, 990));
    assert_eq!(world.messages(subscriber).len(), 1);
    let Place::At(address) = at(9) else { return };
    let returned = cookies(11).cookie(address, 5);
    let said = Announcement { returned, ..announcement(Role::Publisher) };
    world.hand(subscriber, at(9), &write(header(5, 2), Payload::Announcement(said)));
    world.hand(subscriber, at(9), &data(1, 1_001));
    assert_eq!((world.messages(subscriber).len(), world.counter(subscriber, "unbound")), (1, 1));
    world.hand(subscriber, at(9), &data(2, 990));
    assert_eq!(world.messages(subscriber).len(), 2);
}

#[test]
fn a_channel_that_has_announced_itself_is_announced_to_once_in_a_period() {
    let (mut world, _, _) = pair(28, BOTH_C);
    world.run(2 * PERIOD_MS);
    world.traffic.clear();
    world.run(30 * PERIOD_MS);
    // To the subscriber: an announcement and a probe. To the publisher: an announcement, a report and an echo.
    for (to, frames) in [(at(2), 2), (at(1), 3)] {
        let (sent, _) = world.traffic[&to];
        assert!((frames * 30..=frames * 40).contains(&sent), "{sent} frames to {to:?}");
    }
}

/// The names that were sent.
fn names(sent: &[(Place, Vec<u8>)]) -> Vec<String> {
    let name = |bytes: &Vec<u8>| match Frame::read(bytes).unwrap().0.payload {
        Payload::Name(name) => Some(name.to_owned()),
        _ => None,
    };
    sent.iter().filter_map(|(_, bytes)| name(bytes)).collect()
}

#[test]
fn a_broker_that_has_proven_itself_is_told_the_name_three_times() {
    for (name, by_broker, times) in
        [("mast", true, 3), ("mast", false, 0), ("", true, 0), (&*"x".repeat(64), true, 3), (&*"x".repeat(65), true, 0)]
    {
        let (mut world, publisher, _) = pair(0, BOTH_C);
        world.ask(publisher, &format!("name {}", crate::text::hex(name.as_bytes())));
        let header = Header { by_broker, ..header(5, 9) };
        let announce = |world: &mut World, returned| {
            let said = Announcement { returned, ..announcement(Role::Subscriber) };
            world.hand(publisher, at(9), &write(header, Payload::Announcement(said))).sent
        };
        let first = announce(&mut world, 0);
        assert_eq!(names(&first), [""; 0], "it is a stranger");
        let returned = announced(&first[0].1).given;
        let told: Vec<String> = (0..5).flat_map(|_| names(&announce(&mut world, returned))).collect();
        assert_eq!(told, vec![name; times]);
        assert!(names(&world.hand(publisher, at(9), &write(header, Payload::Name("x"))).sent).is_empty());
    }
}
