//! End points in C with each other and with those in Rust, in simulated time.

use crate::by_hand::{announcement, header, write};
use crate::driven::Place;
use crate::text;
use crate::world::{Channel, DELAY, Language, MS, PERIOD_MS, World, at, field, group, message};

use tempo::wire::{Payload, Role};

pub(crate) const PUBLISHER: u8 = 1;
pub(crate) const SUBSCRIBER: u8 = 2;
pub(crate) const TOPIC: &str = "Weather/Wind";

/// Languages of the publisher and of the subscriber.
const PAIRS: [(Language, Language); 3] =
    [(Language::C, Language::C), (Language::C, Language::Rust), (Language::Rust, Language::C)];
pub(crate) const BOTH_C: (Language, Language) = PAIRS[0];

/// A publisher (0) with a waiting subscriber (1) as its channel.
pub(crate) fn pair(seed: u64, languages: (Language, Language)) -> (World, usize, usize) {
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
    pub(crate) fn topic_of(&mut self, node: usize) -> usize {
        let reported = self.ask(node, "tell").reported;
        let line = reported.iter().find(|line| line.starts_with("topic ")).unwrap();
        line.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

#[test]
fn a_publisher_and_a_subscriber_meet_by_one_address_and_messages_come_in_order() {
    for languages in PAIRS {
        let (mut world, topic, subscriber) = pair(1, languages);
        assert_eq!(world.publish(0, topic, 0, b"no end point is there yet"), 0);
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
fn all_that_is_lost_or_late_is_distinguished_and_counted() {
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
        assert_eq!(world.publish(0, topic, 0, b"no end point is left"), 0);
        world.lost_of_100 = 0;
        world.run(2 * PERIOD_MS);
        assert_eq!(world.publish(0, topic, 0, b"an end point is back"), 1);
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
    assert!((2..=20).contains(&refused), "{refused}: it is once in a period, and no end point answers for ever");
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
