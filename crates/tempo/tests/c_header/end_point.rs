//! End points in C with each other, in simulated time.

use std::net::SocketAddr;

use tempo::cookies::Cookies;
use tempo::sequence::Sequence;
use tempo::wire::{Announcement, Content, Data, Fragment, Frame, Header, Payload, Role};

use crate::driven::Place;
use crate::text;
use crate::world::{Channel, DELAY, Language, MS, PERIOD_MS, World, at, field, group, message};

const PUBLISHER: u8 = 1;
const SUBSCRIBER: u8 = 2;
const TOPIC: &str = "Weather/Wind";

/// Who is the publisher, and who is the subscriber.
const PAIRS: [(Language, Language); 3] =
    [(Language::C, Language::C), (Language::C, Language::Rust), (Language::Rust, Language::C)];
const BOTH_C: (Language, Language) = PAIRS[0];

/// A publisher (0), whose channel is a subscriber (1) that waits.
fn pair(seed: u64, languages: (Language, Language)) -> (World, usize, usize) {
    println!("{languages:?}, seed {seed}");
    let mut world = World::new(seed);
    let publisher = world.add(languages.0, at(1), 11, Channel::Peer(at(2)));
    let subscriber = world.add(languages.1, at(2), 22, Channel::None);
    let topic = world.topic(publisher, PUBLISHER, TOPIC);
    world.topic(subscriber, SUBSCRIBER, TOPIC);
    assert_eq!(topic, world.topic_of(publisher));
    (world, topic, subscriber)
}

impl World {
    /// The only topic of a node.
    fn topic_of(&mut self, node: usize) -> usize {
        let told = self.ask(node, "tell").told;
        let line = told.iter().find(|line| line.starts_with("topic ")).unwrap();
        line.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

fn header(session: u32, topic: u32) -> Header {
    Header { session, topic, sequence: 0, sent: 0, priority: 0, by_broker: false }
}

fn announcement(role: Role) -> Announcement<'static> {
    Announcement {
        given: 0,
        returned: 0,
        rate: 1_000,
        highest_rate: 1_000,
        deadline_us: 0,
        end_points: 1,
        largest: 65_000,
        period_ms: 1_000,
        role,
        name: TOPIC,
    }
}

fn write(header: Header, payload: Payload<'_>) -> Vec<u8> {
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

#[test]
fn a_publisher_and_a_subscriber_meet_by_one_address_and_messages_come_in_order() {
    for languages in PAIRS {
        let (mut world, topic, subscriber) = pair(1, languages);
        assert_eq!(world.publish(0, topic, 0, b"nobody is there yet"), 0);
        world.run(20);
        for number in 0..100_u8 {
            assert_eq!(world.publish(0, topic, -3, &[number]), 1);
            world.run(30);
        }
        world.run(PERIOD_MS + 10);
        let came: Vec<Vec<u8>> = world.messages(subscriber).iter().map(|line| message(line)).collect();
        assert_eq!(came, (0..100).map(|number| vec![number]).collect::<Vec<_>>());
        assert!(world.messages(subscriber).iter().all(|line| line.contains(" priority=-3 ")));
        assert_eq!((world.of_topic(0, topic, "sent"), world.of_topic(0, topic, "unheard")), (100, 1));
        // What the subscriber reports, and what the echoes say: there and back.
        assert_eq!(world.of_peer(0, 22, "received"), Some(100));
        assert_eq!(world.of_peer(0, 22, "lost"), Some(0));
        assert_eq!(world.of_peer(0, 22, "delay"), Some(2 * DELAY));
        assert!(world.of_topic(0, topic, "echoes") >= 3);
        assert_eq!(world.of_peer(subscriber, 11, "lost"), Some(0));
        assert_eq!(world.counter(subscriber, "unbound") + world.counter(0, "unbound"), 0);
    }
}

#[test]
fn a_subscriber_may_be_the_one_with_the_channel() {
    let mut world = World::new(2);
    let subscriber = world.add(Language::C, at(1), 11, Channel::Peer(at(2)));
    let publisher = world.add(Language::C, at(2), 22, Channel::None);
    world.topic(subscriber, SUBSCRIBER, TOPIC);
    let topic = world.topic(publisher, PUBLISHER, TOPIC);
    world.run(20);
    assert_eq!(world.publish(publisher, topic, 0, b"wind"), 1);
    world.run(20);
    assert_eq!(message(&world.messages(subscriber)[0]), b"wind");
}

#[test]
fn all_that_is_lost_or_late_is_told_apart_and_counted() {
    for languages in PAIRS {
        for seed in 0..8 {
            let (mut world, topic, subscriber) = pair(seed, languages);
            world.run(PERIOD_MS);
            world.publish(0, topic, 0, b"first");
            world.run(20);
            (world.lost_of_100, world.jitter) = (10, 8 * MS);
            for _ in 0..500 {
                world.publish(0, topic, 0, b"message");
                world.run(2);
            }
            (world.lost_of_100, world.jitter) = (0, 0);
            world.run(20);
            world.publish(0, topic, 0, b"last");
            world.run(PERIOD_MS + 20);
            let of = |world: &mut World, name| world.of_peer(subscriber, 11, name).unwrap();
            let (received, lost, late) = (of(&mut world, "received"), of(&mut world, "lost"), of(&mut world, "late"));
            assert_eq!(received, world.messages(subscriber).len() as u64);
            let probes = sequences(world.messages(subscriber)).last().unwrap() + 1 - 502;
            assert!(lost > 20 && late > 20, "seed {seed}: {lost} lost, {late} late");
            // Probes have numbers as well: a few of those that were sent.
            let all = received + lost + late;
            assert!((502..=502 + probes).contains(&all), "seed {seed}: {received} + {lost} + {late}, {probes} probes");
            assert!(sequences(world.messages(subscriber)).is_sorted_by(|a, b| a < b));
            assert_eq!(world.of_peer(0, 22, "received"), Some(received), "as it is reported");
        }
    }

    fn sequences(messages: &[String]) -> Vec<u64> {
        messages.iter().map(|line| field(line, "sequence")).collect()
    }
}

#[test]
fn a_subscriber_that_begins_again_takes_the_place_of_its_former_session_and_gets_each_message_once() {
    for languages in PAIRS {
        let (mut world, topic, subscriber) = pair(3, languages);
        world.run(PERIOD_MS);
        world.restart(subscriber, 23, Channel::None);
        world.topic(subscriber, SUBSCRIBER, TOPIC);
        world.run(2 * PERIOD_MS);
        world.publish(0, topic, 0, b"again");
        world.run(10);
        assert_eq!(world.messages(subscriber).len(), 1);
        assert_eq!(world.of_peer(subscriber, 11, "repeated"), Some(0));
        world.run(3 * PERIOD_MS);
        assert_eq!((world.counter(0, "met"), world.counter(0, "replaced"), world.counter(0, "expired")), (2, 1, 0));
        assert_eq!(world.of_peer(0, 22, "received"), None);
        world.publish(0, topic, 0, b"and again");
        world.run(10);
        assert_eq!(world.messages(subscriber).len(), 2);
    }
}

#[test]
fn a_publisher_that_begins_again_is_another_one_and_loses_nothing() {
    for languages in PAIRS {
        let (mut world, topic, subscriber) = pair(4, languages);
        world.run(PERIOD_MS);
        for _ in 0..10 {
            world.publish(0, topic, 0, b"before");
        }
        world.run(10);
        world.restart(0, 12, Channel::Peer(at(2)));
        world.topic(0, PUBLISHER, TOPIC);
        world.run(2 * PERIOD_MS);
        world.publish(0, topic, 0, b"after");
        world.run(10);
        assert_eq!(world.messages(subscriber).len(), 11);
        assert_eq!(world.of_peer(subscriber, 12, "lost"), Some(0));
    }
}

#[test]
fn silence_for_three_periods_ends_what_was_announced() {
    for languages in PAIRS {
        let (mut world, topic, subscriber) = pair(5, languages);
        world.run(PERIOD_MS);
        world.lost_of_100 = 100;
        world.run(2 * PERIOD_MS - 20);
        assert_eq!((world.counter(0, "expired"), world.counter(subscriber, "expired")), (0, 0));
        world.run(PERIOD_MS + 20);
        assert_eq!((world.counter(0, "expired"), world.counter(subscriber, "expired")), (1, 1));
        assert_eq!(world.publish(0, topic, 0, b"nobody is left"), 0);
        world.lost_of_100 = 0;
        world.run(2 * PERIOD_MS);
        assert_eq!(world.publish(0, topic, 0, b"somebody is back"), 1);
    }
}

#[test]
fn bye_ends_it_at_once_if_it_comes_from_where_the_topic_was_announced() {
    for languages in PAIRS {
        let (mut world, topic, subscriber) = pair(6, languages);
        world.run(PERIOD_MS);
        let number = u32::try_from(world.topic_of(subscriber)).unwrap() + 1;
        let bye = write(header(22, number), Payload::Bye(Role::Subscriber));
        world.hand(0, at(9), &bye);
        assert_eq!((world.counter(0, "left"), world.counter(0, "unbound")), (0, 1));
        let its_topic = world.topic_of(subscriber);
        world.ask(subscriber, &format!("remove {its_topic}"));
        world.run(10);
        assert_eq!(world.counter(0, "left"), 1);
        assert_eq!(world.publish(0, topic, 0, b"nobody"), 0);
    }
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
fn a_peer_that_returns_a_cookie_made_for_its_new_address_has_moved_and_no_other_has() {
    for languages in PAIRS {
        let (mut world, topic, subscriber) = pair(8, languages);
        world.run(PERIOD_MS);
        world.move_to(subscriber, at(3));
        world.run(2 * PERIOD_MS);
        assert_eq!((world.counter(0, "moved"), world.counter(0, "met"), world.counter(0, "expired")), (1, 1, 0));
        world.publish(0, topic, 0, b"there");
        world.run(10);
        assert_eq!(world.messages(subscriber).len(), 1);
        let stolen = write(header(22, 1), Payload::Announcement(announcement(Role::Subscriber)));
        world.hand(0, at(9), &stolen);
        assert_eq!(world.counter(0, "moved"), 1);
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
fn a_peer_for_which_there_is_no_room_is_not_answered_and_counted() {
    let mut world = World::new(10);
    let publisher = world.add(Language::C, at(1), 11, Channel::None);
    let topic = world.topic(publisher, PUBLISHER, TOPIC);
    let subscribers: Vec<usize> = (0..9)
        .map(|host| {
            let subscriber = world.add(Language::C, at(20 + host), 200 + u32::from(host), Channel::Peer(at(1)));
            world.topic(subscriber, SUBSCRIBER, TOPIC);
            subscriber
        })
        .collect();
    world.run(3 * PERIOD_MS);
    assert_eq!(world.publish(publisher, topic, 0, b"for eight"), 8);
    world.run(10);
    assert_eq!(subscribers.iter().filter(|&&subscriber| !world.messages(subscriber).is_empty()).count(), 8);
    let refused = world.counter(publisher, "no_room");
    assert!((2..=20).contains(&refused), "{refused}: it is once in a period, and nobody answers for ever");
}

#[test]
fn a_message_larger_than_a_datagram_comes_in_fragments_in_any_order() {
    for languages in PAIRS {
        let message_of = |octets: usize| (0..octets).map(|at| u8::try_from(at % 251).unwrap()).collect::<Vec<u8>>();
        for seed in 0..8 {
            let (mut world, topic, subscriber) = pair(100 + seed, languages);
            world.run(PERIOD_MS);
            world.jitter = 5 * MS;
            let sizes = [0, 1, 1_440, 1_441, 2_864, 2_865, 4_095, 4_096];
            for octets in sizes {
                assert_eq!(world.publish(0, topic, 0, &message_of(octets)), 1);
                world.run(20);
            }
            assert_eq!(world.publish(0, topic, 0, &message_of(4_097)), 0, "it takes 4 KiB");
            assert_eq!(world.of_topic(0, topic, "too_large"), 1);
            let came: Vec<Vec<u8>> = world.messages(subscriber).iter().map(|line| message(line)).collect();
            assert_eq!(came, sizes.map(message_of), "seed {seed}");
            assert_eq!(world.counter(subscriber, "fragments"), 0);
            // One that lacks a fragment is lost when the next one comes.
            world.lost_of_100 = 50;
            for _ in 0..40 {
                world.publish(0, topic, 0, &message_of(3_000));
                world.run(20);
            }
            world.lost_of_100 = 0;
            world.publish(0, topic, 0, &message_of(3_000));
            world.run(20);
            let lost = world.of_peer(subscriber, 11, "lost").unwrap();
            let received = world.of_peer(subscriber, 11, "received").unwrap();
            assert!(lost >= 20 && received + lost >= 49, "seed {seed}: {lost} lost of {received}");
            assert_eq!(world.messages(subscriber).len() as u64, received);
            assert!(world.messages(subscriber)[8..].iter().all(|line| message(line) == message_of(3_000)));
        }
    }
}

#[test]
fn fragments_that_do_not_fit_together_are_counted_and_never_handed_on() {
    let (mut world, _, subscriber) = pair(12, BOTH_C);
    world.run(PERIOD_MS);
    let number = u32::try_from(world.topic_of(0)).unwrap() + 1;
    let mut piece = |sequence, total, at: u32, octets: &[u8]| {
        let data = Data { fragment: Some(Fragment { total, at }), content: Content::Octets, octets };
        world.hand(subscriber, at_1(), &write(Header { sequence, ..header(11, number) }, Payload::Data(data)));
    };
    piece(50, 30, 0, &[1; 10]);
    piece(50, 30, 0, &[1; 9]); // of another size
    piece(50, 30, 5, &[1; 10]); // not at a multiple
    piece(50, 31, 10, &[1; 10]); // another total
    piece(50, 30, 19, &[1; 11]); // the last one, not at a multiple
    piece(51, 4_097, 0, &[1; 10]); // too large
    piece(50, 30, 20, &[1; 10]);
    assert_eq!(world.counter(subscriber, "fragments"), 5);
    assert!(world.messages(subscriber).is_empty());
    let last = Data { fragment: Some(Fragment { total: 30, at: 10 }), content: Content::Octets, octets: &[1; 10] };
    world.hand(subscriber, at_1(), &write(Header { sequence: 50, ..header(11, number) }, Payload::Data(last)));
    assert_eq!(message(&world.messages(subscriber)[0]), [1; 30]);
}

fn at_1() -> Place {
    at(1)
}

#[test]
fn a_group_gets_each_message_once_and_its_members_do_not_answer_each_other_for_ever() {
    for languages in PAIRS {
        let mut world = World::new(13);
        let channel = Channel::Group(group());
        let publisher = world.add(languages.0, at(1), 11, channel);
        let topic = world.topic(publisher, PUBLISHER, TOPIC);
        let subscribers: Vec<usize> = (2..7)
            .map(|host| {
                let subscriber = world.add(languages.1, at(host), u32::from(host), channel);
                world.topic(subscriber, SUBSCRIBER, TOPIC);
                subscriber
            })
            .collect();
        world.run(2 * PERIOD_MS);
        world.traffic.clear();
        for _ in 0..10 {
            assert!(world.publish(publisher, topic, 0, b"for all") >= 1);
        }
        world.run(10 * PERIOD_MS);
        for &subscriber in &subscribers {
            assert_eq!(world.messages(subscriber).len(), 10);
            assert_eq!(world.of_peer(subscriber, 11, "lost"), Some(0));
            assert_eq!(world.of_peer(subscriber, 11, "repeated"), Some(0));
        }
        // To the publisher go a report and an echo in each period from each; to a subscriber nothing but what goes to all.
        let to_publisher = world.traffic.get(&at(1)).copied().unwrap_or_default().0;
        assert!((5 * 2 * 10..=5 * 2 * 15).contains(&to_publisher), "{to_publisher}");
        assert_eq!(world.traffic.get(&at(3)), None);
        assert_eq!(world.of_peer(publisher, 4, "delay"), Some(2 * DELAY));
    }
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
fn end_points_in_both_languages_meet_over_a_stream() {
    for languages in PAIRS {
        let mut world = World::new(15);
        let publisher = world.add(languages.0, Place::Stream(1), 11, Channel::Peer(Place::Stream(2)));
        let subscriber = world.add(languages.1, Place::Stream(2), 22, Channel::None);
        world.ask(publisher, "opened 2");
        world.ask(subscriber, "opened 1");
        let topic = world.topic(publisher, PUBLISHER, TOPIC);
        world.topic(subscriber, SUBSCRIBER, TOPIC);
        world.run(20);
        for size in [0, 1, 3_000] {
            assert_eq!(world.publish(publisher, topic, 0, &vec![1; size]), 1);
        }
        world.run(3 * PERIOD_MS);
        assert_eq!(world.messages(subscriber).len(), 3);
        assert_eq!(world.of_peer(publisher, 22, "received"), Some(3));
        assert_eq!(world.of_peer(publisher, 22, "delay"), Some(2 * DELAY));
        assert_eq!(world.of_peer(subscriber, 11, "lost"), Some(0));
        assert_eq!(world.counter(publisher, "expired") + world.counter(subscriber, "expired"), 0);
    }
}

#[test]
fn numbers_mean_the_same_to_both_however_they_come() {
    for seed in 0..6 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut world, _, subscriber) = pair(seed, BOTH_C);
        world.run(PERIOD_MS);
        world.lost_of_100 = 100; // the publisher says no more
        let number = u32::try_from(world.topic_of(0)).unwrap() + 1;
        let mut model = Sequence::new();
        // What came before were probes.
        let before = world.messages(subscriber).len();
        let mut next = random.u32(..);
        let (mut handed_on, mut is_first) = (0, true);
        let told =
            |world: &mut World| ["lost", "late", "repeated"].map(|name| world.of_peer(subscriber, 11, name).unwrap());
        let begun_with = told(&mut world);
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
            let [lost, late, repeated] = told(&mut world);
            let expected = [model.lost(), model.late(), model.repeated()];
            let since = [lost - begun_with[0], late - begun_with[1], repeated - begun_with[2]];
            assert_eq!(since, expected, "seed {seed}");
        }
        assert!(model.begun_anew() > 5 && model.late() > 20 && model.repeated() > 20, "{model:?}");
    }
}

#[test]
fn one_end_point_may_publish_and_subscribe_to_a_topic_and_answer_from_within_a_callback() {
    let mut world = World::new(15);
    let one = world.add(Language::C, at(1), 11, Channel::Peer(at(2)));
    let other = world.add(Language::C, at(2), 22, Channel::None);
    let ask = world.topic(one, PUBLISHER, "Questions/All");
    world.topic(one, SUBSCRIBER, "Answers/All");
    world.topic(other, SUBSCRIBER, "Questions/All");
    let answer = world.topic(other, PUBLISHER, "Answers/All");
    world.topic(other, SUBSCRIBER, "Answers/All");
    world.ask(other, &format!("answer {answer}"));
    world.run(2 * PERIOD_MS);
    world.publish(one, ask, 0, &[7; 3_000]);
    world.run(20);
    assert_eq!(world.messages(one).len(), 1);
    assert_eq!(message(&world.messages(one)[0]), [7; 3_000]);
}

#[test]
fn the_broker_says_where_echoes_go_and_nobody_else_can() {
    let (mut world, _, subscriber) = pair(16, BOTH_C);
    world.run(PERIOD_MS);
    let number = u32::try_from(world.topic_of(0)).unwrap() + 1;
    let to: SocketAddr = "10.7.7.7:77".parse().unwrap();
    let probe = tempo::wire::Probe { sent: 1, prober: 99, topic: 4, number: 1, to: Some(to), hops: 1, echoed_by: 0 };
    for (sequence, by_broker, expected) in [(60, true, Place::At(to)), (61, false, at(1))] {
        let header = Header { sequence, by_broker, ..header(11, number) };
        let said = world.hand(subscriber, at(1), &write(header, Payload::Probe(probe)));
        let [(place, octets)] = &said.sent[..] else { panic!("{said:?}") };
        assert_eq!(*place, expected);
        let (frame, _) = Frame::read(octets).unwrap();
        assert_eq!((frame.header.session, frame.header.topic, frame.header.by_broker), (22, 4, false));
        assert_eq!(frame.payload, Payload::Echo(tempo::wire::Probe { echoed_by: 22, ..probe }));
    }
}

#[test]
fn chance_from_anywhere_harms_nothing() {
    let (mut world, topic, subscriber) = pair(17, BOTH_C);
    let mut random = fastrand::Rng::with_seed(17);
    world.run(PERIOD_MS);
    let cookies = |session: u32| {
        let secret = u64::from(session).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Cookies::new((secret, !secret))
    };
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
fn a_topic_that_has_no_place_or_no_name_is_refused() {
    let mut world = World::new(18);
    let node = world.add(Language::C, at(1), 1, Channel::None);
    let mut add = |role: u8, name: &[u8]| world.ask(node, &format!("add {role} 0 0 {}", text::hex(name))).value;
    assert_eq!(add(1, b""), "-1");
    assert_eq!(add(1, b"tab\t"), "-1");
    assert_eq!(add(1, b"A\xff"), "-1");
    let places = [add(1, b"A"), add(2, b"A"), add(1, b"B"), add(1, b"C")];
    assert!(places.iter().all(|place| place != "-1"));
    assert_eq!(add(1, b"D"), "-1", "there are four");
    world.ask(node, &format!("remove {}", places[2]));
    let mut add = |role: u8, name: &[u8]| world.ask(node, &format!("add {role} 0 0 {}", text::hex(name))).value;
    assert_eq!(add(1, b"A"), "-1", "it is there");
    assert_eq!(add(1, b"D"), places[2]);
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
    assert_eq!(answers(1, 99, 8), (1, 7), "it has lost its cookie, or somebody else says so");
    assert_eq!(answers(2, 0, 9), (1, 7), "another number is believed to who proves to be there");
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
fn an_end_point_does_not_meet_itself_in_a_group() {
    for language in [Language::C, Language::Rust] {
        let mut world = World::new(21);
        let node = world.add(language, at(1), 11, Channel::Group(group()));
        let topic = world.topic(node, PUBLISHER, TOPIC);
        world.topic(node, SUBSCRIBER, TOPIC);
        world.run(3 * PERIOD_MS);
        assert_eq!(world.publish(node, topic, 0, b"nobody"), 0);
        assert_eq!(world.counter(node, "unbound") + world.counter(node, "met"), 0);
    }
}

#[test]
fn fragments_of_a_publisher_that_is_gone_are_not_put_together_with_those_of_another() {
    let mut world = World::new(22);
    let subscriber = world.add(Language::C, at(1), 11, Channel::None);
    world.topic(subscriber, SUBSCRIBER, TOPIC);
    let piece = |at: u32, octets| {
        Payload::Data(Data { fragment: Some(Fragment { total: 20, at }), content: Content::Octets, octets })
    };
    meet(&mut world, subscriber, at(8), 5, 1, Role::Publisher);
    world.hand(subscriber, at(8), &write(Header { sequence: 50, ..header(5, 1) }, piece(0, &[1; 10])));
    world.hand(subscriber, at(8), &write(header(5, 1), Payload::Bye(Role::Publisher)));
    meet(&mut world, subscriber, at(9), 6, 1, Role::Publisher);
    world.hand(subscriber, at(9), &write(Header { sequence: 50, ..header(6, 1) }, piece(10, &[2; 10])));
    assert!(world.messages(subscriber).is_empty());
    world.hand(subscriber, at(9), &write(Header { sequence: 50, ..header(6, 1) }, piece(0, &[2; 10])));
    assert_eq!(message(&world.messages(subscriber)[0]), [2; 20]);
}

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
    // The unfinished one of who has fallen silent gives way.
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
    let mut model = Sequence::new();
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
                let told = ["received", "lost", "late", "repeated"].map(|name| world.of_peer(subscriber, 5, name));
                let expected = [model.received(), model.lost(), model.late(), model.repeated()];
                assert_eq!(told, expected.map(Some), "{base} + {first} + {second}: {sequence}");
            }
        }
    }
}
