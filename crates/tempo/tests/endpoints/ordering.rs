//! What goes first, and what waits for what.

use tempo::endpoint::{BLOCK, Channel, Gone, Notice, Order, Place, Refused, To, TopicSettings};
use tempo::wire::{Content, Role};

use crate::hand::{Hand, Stranger, sent_data, settings, stranger};
use crate::network::{MS, Network, S, address};

/// A publisher with one subscriber on a connection.
fn hand_with_stream() -> (Hand, Stranger) {
    let mut hand = Hand::new(Role::Publisher);
    let who = Stranger { place: Place::Stream(1), ..stranger(address(1), 10, Role::Subscriber) };
    hand.announce(&who);
    (hand, who)
}

fn publish(hand: &mut Hand, priority: i16, message: &[u8]) -> Result<(), Refused> {
    hand.end.publish(hand.now, hand.topic, priority, Content::Octets, message)
}

#[test]
fn messages_that_wait_go_by_priority_and_then_arrival() {
    let (mut hand, who) = hand_with_stream();
    hand.end.set_ready(who.place, false);
    publish(&mut hand, 0, b"first").unwrap();
    assert!(hand.flush().is_empty());
    for (priority, message) in [(0, "c"), (5, "a"), (-3, "e"), (5, "b"), (0, "d"), (i16::MIN, "f")] {
        publish(&mut hand, priority, message.as_bytes()).unwrap();
    }
    hand.end.set_ready(who.place, true);
    let sent = sent_data(&hand.flush());
    assert_eq!(sent, [&b"a"[..], b"b", b"first", b"c", b"d", b"e", b"f"]);
}

#[test]
fn where_arrival_counts_priorities_are_only_sent_along() {
    let mut network = Network::new(1);
    let (here, there) = (network.add(Channel::None), network.add(channel(0)));
    let by_arrival = TopicSettings { order: Order::Arrival, ..settings("A/B", Role::Publisher) };
    let topic = network.nodes[here].end.add_topic(network.now, by_arrival).unwrap();
    network.add_topic(there, "A/B", Role::Subscriber);
    network.run(S);
    for priority in [1, 2, 3] {
        network.nodes[here].end.publish(network.now, topic, priority, Content::Octets, b"x").unwrap();
    }
    network.flush(here);
    network.run_until_idle();
    let priorities: Vec<_> = network.nodes[there].log.got.iter().map(|got| got.priority).collect();
    assert_eq!(priorities, [1, 2, 3]);
}

fn channel(at: usize) -> Channel {
    Channel::Peer(Place::Datagram(address(at)))
}

#[test]
fn topics_take_turns_by_their_rates_and_a_short_deadline_goes_first() {
    let mut network = Network::new(1);
    let (here, there) = (network.add(Channel::None), network.add(channel(0)));
    let mut topics = Vec::new();
    for (name, rate, deadline_us) in [("A/slow", 1_000, 0), ("A/fast", 3_000, 0), ("A/alarm", 1_000, 1_000)] {
        let publisher = TopicSettings { rate, deadline_us, ..settings(name, Role::Publisher) };
        topics.push(network.nodes[here].end.add_topic(network.now, publisher).unwrap());
        network.add_topic(there, name, Role::Subscriber);
    }
    network.run(S);
    for _ in 0..20 {
        for (topic, message) in topics.iter().zip(["s", "f"]) {
            network.nodes[here].end.publish(network.now, *topic, 0, Content::Octets, message.as_bytes()).unwrap();
        }
    }
    network.nodes[here].end.publish(network.now, topics[2], 0, Content::Octets, b"a").unwrap();
    network.flush(here);
    network.run_until_idle();
    let order: String = network.nodes[there].log.got.iter().map(|got| char::from(got.octets[0])).collect();
    assert!(order.starts_with("affsfffsfffsfffs"), "{order}");
}

#[test]
fn a_message_that_was_begun_goes_on_before_those_whose_turn_comes_later() {
    let mut hand = Hand::new(Role::Publisher);
    let other = TopicSettings { rate: 1_000_000, ..settings("Weather/Rain", Role::Publisher) };
    let other = hand.end.add_topic(0, other).unwrap();
    let [fine, slow] = [1, 2].map(|number| {
        let who = Stranger { place: Place::Stream(number), ..stranger(address(1), 10 + number, Role::Subscriber) };
        hand.announce(&who);
        who
    });
    let announcement = tempo::wire::Announcement { name: "Weather/Rain", ..slow.announcement() };
    let header = tempo::wire::Header { topic: 10, ..slow.header(0) };
    hand.give(slow.place, &crate::hand::written(header, tempo::wire::Payload::Announcement(announcement)));
    hand.end.set_ready(slow.place, false);
    publish(&mut hand, 0, b"w").unwrap();
    assert_eq!(sent_data(&hand.flush()), [b"w"], "to {fine:?}");
    for _ in 0..10 {
        hand.end.publish(hand.now, other, 0, Content::Octets, b"r").unwrap();
    }
    hand.end.set_ready(slow.place, true);
    assert_eq!(sent_data(&hand.flush()).concat(), b"wrrrrrrrrrr");
}

#[test]
fn a_topic_that_had_to_wait_for_room_does_not_catch_up_at_the_cost_of_others() {
    let (mut hand, mute) = hand_with_stream();
    let fine = Stranger { place: Place::Stream(2), number: 10, ..stranger(address(2), 11, Role::Subscriber) };
    let announcement = tempo::wire::Announcement { name: "Weather/Rain", ..fine.announcement() };
    let other = hand.end.add_topic(0, settings("Weather/Rain", Role::Publisher)).unwrap();
    hand.give(fine.place, &crate::hand::written(fine.header(0), tempo::wire::Payload::Announcement(announcement)));
    hand.end.set_ready(mute.place, false);
    for _ in 0..40 {
        publish(&mut hand, 0, b"w").unwrap();
    }
    for _ in 0..1_000 {
        hand.end.publish(hand.now, other, 0, Content::Octets, b"r").unwrap();
        assert_eq!(sent_data(&hand.flush()), [b"r"]);
    }
    hand.end.set_ready(fine.place, false);
    for _ in 0..40 {
        hand.end.publish(hand.now, other, 0, Content::Octets, b"r").unwrap();
    }
    hand.end.set_ready(mute.place, true);
    hand.end.set_ready(fine.place, true);
    let order: Vec<_> = sent_data(&hand.flush()).concat();
    let early = order[..40].iter().filter(|&&octet| octet == b'w').count();
    assert!((18..=22).contains(&early), "{}", String::from_utf8_lossy(&order));
}

#[test]
fn a_connection_without_room_holds_its_topics_up_and_no_other_and_not_for_ever() {
    let (mut hand, mute) = hand_with_stream();
    let other = hand.end.add_topic(0, settings("Weather/Rain", Role::Publisher)).unwrap();
    let mut fine = stranger(address(2), 11, Role::Subscriber);
    hand.meet(&mut fine);
    hand.end.set_ready(mute.place, false);
    publish(&mut hand, 0, b"first").unwrap();
    publish(&mut hand, 0, b"second").unwrap();
    assert_eq!(sent_data(&hand.flush()), [b"first"], "to the one that has room");
    // The other topic goes on, and has room for its messages however many wait on this one.
    while publish(&mut hand, 0, &[0; 2_000]).is_ok() {}
    let announcement = tempo::wire::Announcement { name: "Weather/Rain", ..fine.announcement() };
    let header = tempo::wire::Header { topic: 10, ..fine.header(0) };
    hand.give(fine.place, &crate::hand::written(header, tempo::wire::Payload::Announcement(announcement)));
    for _ in 0..20 {
        hand.end.publish(hand.now, other, 0, Content::Octets, b"rain").unwrap();
        assert_eq!(sent_data(&hand.flush()), [b"rain"]);
    }
    // It announces itself and reads nothing.
    let mut sent = Vec::new();
    for _ in 0..8 {
        sent.append(&mut hand.pass(S / 2));
        hand.announce(&mute);
        hand.announce(&fine);
    }
    assert_eq!(sent_data(&sent)[..1], [b"second"]);
    assert!(hand.log.notices.iter().any(|notice| matches!(notice, Notice::Gone { why: Gone::Stalled, .. })));
    assert!(hand.end.counters().peers_stalled > 1, "it is not taken again before it has room");
    assert_eq!(hand.end.published(hand.topic).waiting, 0);
    hand.end.set_ready(mute.place, true);
    hand.announce(&mute);
    publish(&mut hand, 0, b"for both").unwrap();
    assert_eq!(sent_data(&hand.flush()), [b"for both", b"for both"]);
}

#[test]
fn what_a_topic_waits_for_may_go_away_at_any_moment() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut hand = Hand::new(Role::Publisher);
        let mut there = Vec::new();
        for number in 1..5 {
            let who = Stranger { place: Place::Stream(number), ..stranger(address(1), 10 + number, Role::Subscriber) };
            hand.announce(&who);
            there.push(who);
        }
        let mut out = [0; 600];
        for _ in 0..100 {
            let at = random.usize(0..4);
            match random.u32(0..8) {
                0 => hand.end.set_ready(there[at].place, false),
                1 => hand.end.set_ready(there[at].place, true),
                2 => hand.end.stream_closed(10, &mut hand.log),
                3 => {
                    let Place::Stream(number) = there[at].place else { return };
                    hand.end.stream_closed(number, &mut hand.log);
                }
                4 => {
                    let bytes = crate::hand::written(
                        there[at].header(0),
                        tempo::wire::Payload::Announcement(there[at].announcement()),
                    );
                    hand.end.handle(hand.now, there[at].place, &bytes, &mut hand.log);
                }
                5 => drop(publish(&mut hand, 0, &[1; 2_000])),
                _ => drop(hand.end.poll_transmit(hand.now, &mut out)),
            }
        }
        for who in &there {
            hand.end.set_ready(who.place, true);
        }
        while hand.end.poll_transmit(hand.now, &mut out).is_some() {}
        assert_eq!(hand.end.published(hand.topic).waiting, 0, "seed {seed}");
    }
}

#[test]
fn a_message_for_which_there_is_no_room_is_refused_and_the_others_stay() {
    let (mut hand, who) = hand_with_stream();
    hand.end.set_ready(who.place, false);
    assert_eq!(publish(&mut hand, 0, &vec![0; 256 * BLOCK + 1]), Err(Refused::TooLarge { largest: 256 * BLOCK }));
    let mut accepted = 0;
    while publish(&mut hand, 0, &[9; 2 * BLOCK]).is_ok() {
        accepted += 1;
    }
    assert_eq!(publish(&mut hand, 0, &[9; 2 * BLOCK]), Err(Refused::Full));
    assert_eq!(accepted, 128);
    let report = hand.end.published(hand.topic);
    assert_eq!((report.waiting, report.refused), (128, 2));
    hand.end.set_ready(who.place, true);
    assert_eq!(sent_data(&hand.flush()).len(), 128);
    let subscriber = hand.end.add_topic(0, settings("A/B", Role::Subscriber)).unwrap();
    assert_eq!(hand.end.publish(0, subscriber, 0, Content::Octets, b""), Err(Refused::Role));
    hand.end.remove_topic(hand.topic);
    assert_eq!(publish(&mut hand, 0, b"x"), Err(Refused::UnknownTopic));
}

#[test]
fn topics_are_refused_that_are_there_or_have_no_name_or_no_room() {
    let mut hand = Hand::new(Role::Publisher);
    let mut add = |name: &str, role| hand.end.add_topic(0, settings(name, role));
    assert_eq!(add("Weather/Wind", Role::Publisher), Err(Refused::Exists));
    assert_eq!(add("", Role::Publisher), Err(Refused::Name));
    let wind = add("Weather/Wind", Role::Subscriber).unwrap();
    for number in 0..6 {
        add(&format!("A/{number}"), Role::Subscriber).unwrap();
    }
    assert_eq!(add("A/6", Role::Subscriber), Err(Refused::TooManyTopics));
    hand.end.remove_topic(wind);
    hand.flush();
    assert!(hand.end.add_topic(0, settings("A/6", Role::Subscriber)).is_ok());
}

#[test]
fn a_client_that_takes_no_message_so_large_is_not_sent_it() {
    let mut hand = Hand::new(Role::Publisher);
    let mut who = stranger(address(1), 10, Role::Subscriber);
    hand.meet(&mut who);
    let small = tempo::wire::Announcement { largest: 100, ..who.announcement() };
    hand.give(who.place, &crate::hand::written(who.header(0), tempo::wire::Payload::Announcement(small)));
    publish(&mut hand, 0, &[0; 101]).unwrap();
    publish(&mut hand, 0, &[0; 100]).unwrap();
    assert_eq!(sent_data(&hand.flush()), [[0; 100]]);
    assert_eq!(hand.end.counters().too_large_for_peer, 1);
}

#[test]
fn the_channel_gets_one_bye_whether_it_is_a_peer_or_not() {
    for is_peer in [false, true] {
        let mut who = stranger(address(1), 10, Role::Subscriber);
        let mut hand = Hand::with(Role::Publisher, Channel::Peer(who.place));
        if is_peer {
            hand.meet(&mut who);
        }
        hand.end.remove_topic(hand.topic);
        let sent: Vec<_> = hand.flush().into_iter().map(|(to, bytes)| (to, bytes.len())).collect();
        assert_eq!(sent, [(To::Place(who.place), 33)]);
        hand.end.add_topic(0, settings("Weather/Wind", Role::Publisher)).unwrap();
    }
}

#[test]
fn a_topic_that_is_removed_says_bye_to_everybody_and_frees_its_place() {
    let mut network = Network::new(1);
    let here = network.add(Channel::None);
    let topic = network.add_topic(here, "A/B", Role::Publisher);
    let there = [0; 3].map(|_| network.add(channel(here)));
    let topics = there.map(|at| network.add_topic(at, "A/B", Role::Subscriber));
    network.run(S);
    network.nodes[here].end.remove_topic(topic);
    network.flush(here);
    network.run(10 * MS);
    for (at, topic) in there.into_iter().zip(topics) {
        assert_eq!(network.nodes[at].end.publishers(topic).count(), 0);
    }
    // It comes back, under another number, and all peers find it.
    let topic = network.add_topic(here, "A/B", Role::Publisher);
    network.run(2 * S);
    network.publish(here, topic, 0, b"again").unwrap();
    network.run_until_idle();
    assert!(there.iter().all(|&at| network.nodes[at].log.got.len() == 1));
}
