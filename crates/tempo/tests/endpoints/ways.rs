//! The four ways of running are one to an end point.

use tempo::endpoint::{Channel, Notice, Place};
use tempo::wire::Role;

use crate::network::{Network, S, address};

/// What subscriber `at` got.
fn got(network: &Network, at: usize) -> Vec<&[u8]> {
    network.nodes[at].log.got.iter().map(|got| &got.octets[..]).collect()
}

#[test]
fn subscribers_that_announce_themselves_to_a_publisher_get_what_it_publishes() {
    let mut network = Network::new(1);
    let publisher = network.add(Channel::None);
    let topic = network.add_topic(publisher, "Weather/Wind", Role::Publisher);
    network.publish(publisher, topic, 0, b"no end point is here").unwrap();
    let channel = Channel::Peer(Place::Datagram(network.nodes[publisher].address));
    let subscribers = [0; 3].map(|_| network.add(channel));
    let topics = subscribers.map(|at| network.add_topic(at, "Weather/Wind", Role::Subscriber));
    network.run(S / 2);
    network.publish(publisher, topic, 0, b"north").unwrap();
    let large = vec![7; 5_000];
    network.publish(publisher, topic, 0, &large).unwrap();
    network.run(2 * S);
    for (at, topic) in subscribers.into_iter().zip(topics) {
        assert_eq!(got(&network, at), [&b"north"[..], &large]);
        let report = network.nodes[at].end.subscribed(topic);
        assert_eq!((report.publishers, report.received, report.lost), (1, 2, 0));
    }
    let report = network.nodes[publisher].end.published(topic);
    assert_eq!((report.subscribers, report.sent, report.unheard), (3, 2, 1));
    assert_eq!((report.received, report.lost), (6, 0));
    // There and back.
    let delay = report.delay.unwrap();
    assert_eq!((delay.last_ns, delay.mean_ns, report.slowest_ns), (2_000_000, 2_000_000, 2_000_000));
}

#[test]
fn a_group_is_sent_a_message_once_for_all_its_members() {
    let mut network = Network::new(2);
    let group = Channel::Group(network.group.0);
    let publishers = [0; 2].map(|_| network.add(group));
    let subscribers = [0; 3].map(|_| network.add(group));
    let topics = publishers.map(|at| network.add_topic(at, "Weather/Wind", Role::Publisher));
    for at in subscribers {
        network.add_topic(at, "Weather/Wind", Role::Subscriber);
    }
    network.run(2 * S);
    let large = vec![7; 5_000];
    let before = network.octets[&(address(0), address(2))];
    network.publish(publishers[0], topics[0], 0, &large).unwrap();
    let octets = network.octets[&(address(0), address(2))] - before;
    assert_eq!(octets, 5_000 + 4 * 40, "four fragments");
    network.publish(publishers[1], topics[1], 0, b"south").unwrap();
    network.run(S);
    for at in subscribers {
        assert_eq!(got(&network, at), [&large[..], b"south"]);
    }
    let report = network.nodes[publishers[0]].end.published(topics[0]);
    assert_eq!((report.subscribers, report.sent), (3, 1));
    assert!(report.delay.is_some() && network.nodes[publishers[0]].end.counters().own_frames > 0);
}

#[test]
fn a_connection_carries_both_ways_and_proves_itself() {
    let mut network = Network::new(3);
    let here = network.add(Channel::Peer(Place::Stream(7)));
    let there = network.add(Channel::None);
    let wind = network.add_topic(here, "Weather/Wind", Role::Publisher);
    let rain = network.add_topic(there, "Weather/Rain", Role::Publisher);
    network.add_topic(here, "Weather/Rain", Role::Subscriber);
    network.add_topic(there, "Weather/Wind", Role::Subscriber);
    network.run(5 * S);
    assert!(network.nodes[there].log.notices.iter().all(|notice| matches!(notice, Notice::Period { .. })));
    network.connect((here, 7), (there, 1), 100_000);
    network.run(S / 10);
    let large = vec![7; 16_000];
    network.publish(here, wind, 0, &large).unwrap();
    network.publish(there, rain, 0, b"rain").unwrap();
    network.run(S);
    assert_eq!(got(&network, there), [&large[..]]);
    assert_eq!(got(&network, here), [&b"rain"[..]]);
    network.disconnect((here, 7));
    for at in [here, there] {
        assert_eq!(network.nodes[at].end.subscribers([wind, rain][at]).count(), 0);
    }
}
