//! The service in a multicast group, or at a broadcast address, on the loopback network.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use client::tempo::{Message, Node, Publisher, Subscriber};
use service::{Config, ConfigError, Service, StartError};
use testing::{NextInTime, PATIENCE, carries_multicast, free_udp_port};

use super::start_as;
use crate::peers::wait_until;

/// Of end points and of the service: a thread of either that is kept waiting for three of them is forgotten by the others.
const PERIOD_MS: u16 = 250;
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A service in a group.
fn in_group(group: &str) -> Service {
    start_as(|config| (config.tempo.group, config.tempo.period_ms) = (Some(group.into()), PERIOD_MS))
}

/// An end point that has an address as its channel.
fn node(address: &str) -> Node {
    let node = Node::builder(address).unwrap().period(Duration::from_millis(PERIOD_MS.into()));
    let node = if address.contains("127.0.0.1") { node } else { node.interface(LOOPBACK) };
    node.open().unwrap()
}

/// A subscriber, and what it gets.
fn listen(node: &Node) -> (Subscriber, Receiver<String>) {
    let (sender, messages) = channel();
    // The test may have ended.
    let tell = move |message: &Message<'_>| _ = sender.send(String::from_utf8_lossy(message.octets).into_owned());
    (node.subscriber("A/B").on(tell).unwrap(), messages)
}

fn meets(publisher: &Publisher, subscribers: u32) {
    assert!(publisher.wait_for_subscribers(subscribers, PATIENCE), "waited for {subscribers} subscribers");
}

/// What is published in the group the service passes on to others, and others' messages to the group; and no end point gets anything twice.
fn bridge(group: &str) {
    let service = in_group(group);
    let (in_group, at_service) = (format!("udp://{group}"), format!("udp://{}", service.tempo_address().unwrap()));
    let [near, far, third] = [&in_group, &at_service, &in_group].map(|address| node(address));
    let (near_subscriber, near_messages) = listen(&near);
    let (far_subscriber, far_messages) = listen(&far);
    let [near_publisher, far_publisher] =
        [&third, &node(&at_service)].map(|node| node.publisher("A/B").open().unwrap());
    // The one in the group has the subscriber there, and the service, which speaks for both of them; the other one has the service.
    meets(&near_publisher, 3);
    meets(&far_publisher, 2);
    wait_until("all know of each other", || {
        near_subscriber.report().publishers == 3 && far_subscriber.report().publishers == 2
    });
    for number in 0..100 {
        near_publisher.publish(format!("near {number}").as_bytes()).unwrap();
        far_publisher.publish(format!("far {number}").as_bytes()).unwrap();
    }
    for messages in [&near_messages, &far_messages] {
        let mut got: Vec<String> = (0..200).map(|_| messages.next_in_time()).collect();
        let of = |who: &str| (0..100).map(move |number| format!("{who} {number}")).collect::<Vec<_>>();
        let is_near = |text: &String| text.starts_with("near");
        let far: Vec<String> = got.extract_if(.., |text| !is_near(text)).collect();
        assert_eq!((got, far), (of("near"), of("far")), "{group}");
    }
    // A last one, behind which nothing can come that came before.
    far_publisher.publish(b"the end").unwrap();
    assert_eq!([&near_messages, &far_messages].map(|messages| messages.next_in_time()), ["the end"; 2]);
    near_publisher.publish(b"the end").unwrap();
    assert_eq!([&near_messages, &far_messages].map(|messages| messages.next_in_time()), ["the end"; 2]);
    assert_eq!(near_messages.try_recv(), Err(TryRecvError::Empty));
    wait_until("the group's publisher hears of all that got its messages", || near_publisher.report().received >= 202);
}

/// Each passes on to its own what is published in the group, and to the end points there what its own publish; neither takes anything from
/// the other.
fn bridge_by_mistake(group: &str) {
    let services = [(); 2].map(|()| in_group(group));
    let in_group = format!("udp://{group}");
    let [at_one, at_other] = services.each_ref().map(|service| format!("udp://{}", service.tempo_address().unwrap()));
    let [near, third, far, other] = [&in_group, &in_group, &at_one, &at_other].map(|address| node(address));
    let [(near_subscriber, near_messages), (far_subscriber, far_messages), (other_subscriber, other_messages)] =
        [&near, &far, &other].map(listen);
    let [near_publisher, far_publisher] = [&third, &far].map(|node| node.publisher("A/B").open().unwrap());
    // In the group are a subscriber and two services, each of which speaks for that one, and for one of its own.
    meets(&near_publisher, 5);
    meets(&far_publisher, 2);
    wait_until("all know of each other", || {
        let known =
            [&near_subscriber, &far_subscriber, &other_subscriber].map(|subscriber| subscriber.report().publishers);
        known == [4, 2, 1]
    });
    let texts = |who: &str| (0..100).map(|number| format!("{who} {number}")).collect::<Vec<_>>();
    for (near, far) in texts("near").iter().zip(texts("far")) {
        near_publisher.publish(near.as_bytes()).unwrap();
        far_publisher.publish(far.as_bytes()).unwrap();
    }
    for messages in [&near_messages, &far_messages] {
        let mut got: Vec<String> = (0..200).map(|_| messages.next_in_time()).collect();
        let far: Vec<String> = got.extract_if(.., |text| text.starts_with("far")).collect();
        assert_eq!((got, far), (texts("near"), texts("far")), "{group}");
    }
    let got: Vec<String> = (0..100).map(|_| other_messages.next_in_time()).collect();
    assert_eq!(got, texts("near"), "{group}");
    // Last ones, behind which nothing can come that came before.
    for publisher in [&far_publisher, &near_publisher] {
        publisher.publish(b"the end").unwrap();
    }
    for (messages, ends) in [(&near_messages, 2), (&far_messages, 2), (&other_messages, 1)] {
        (0..ends).for_each(|_| assert_eq!(messages.next_in_time(), "the end"));
        assert_eq!(messages.try_recv(), Err(TryRecvError::Empty));
    }
}

#[test]
fn two_services_at_one_broadcast_address_by_mistake_do_not_feed_each_other() {
    bridge_by_mistake(&format!("127.255.255.255:{}", free_udp_port()));
}

#[test]
fn two_services_in_one_multicast_group_by_mistake_do_not_feed_each_other() {
    if !carries_multicast(3) {
        println!("no multicast on this machine's loopback network: only broadcast is tried");
        return;
    }
    bridge_by_mistake(&format!("239.255.77.5:{}", free_udp_port()));
}

#[test]
fn end_points_that_announce_themselves_to_a_broadcast_address_are_heard_by_the_service() {
    bridge(&format!("127.255.255.255:{}", free_udp_port()));
}

#[test]
fn end_points_that_announce_themselves_to_a_multicast_group_are_heard_by_the_service() {
    if !carries_multicast(3) {
        println!("no multicast on this machine's loopback network: only broadcast is tried");
        return;
    }
    bridge(&format!("239.255.77.4:{}", free_udp_port()));
}

#[test]
fn a_group_has_an_address_a_port_and_a_service_that_answers() {
    let refused = |group: &str, listen: Option<&str>| {
        let mut config = Config { listen: "127.0.0.1:0".into(), ..Config::default() };
        (config.tempo.group, config.tempo.listen) = (Some(group.into()), listen.map(Into::into));
        match Service::start(config).unwrap_err() {
            StartError::Config(error) => error,
            other => panic!("{other}"),
        }
    };
    assert!(matches!(refused("239.1.2.3:2811", None), ConfigError::GroupAlone));
    for wrong in ["239.1.2.3", "2811", "239.1.2.3:0", "0.0.0.0:2811", "group.example.org:2811"] {
        assert!(matches!(refused(wrong, Some("0")), ConfigError::BadGroup { .. }), "{wrong}");
    }
}
