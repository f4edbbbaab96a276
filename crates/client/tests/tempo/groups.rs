//! Multicast and broadcast on the loopback network.

use std::net::{IpAddr, Ipv4Addr};

use campanile_client::tempo::Node;
use testing::{carries_multicast, free_udp_port, wait_until};

use crate::support::{Heard, PERIOD, meets};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn join(group: &str) -> Node {
    Node::builder(group).unwrap().period(PERIOD).interface(LOOPBACK).open().unwrap()
}

#[test]
fn a_group_has_each_message_once_for_all_and_finds_all_without_knowing_any() {
    let port = free_udp_port();
    // A machine without multicast on loopback has broadcast there in any case, which goes the same way but for joining.
    let groups = if carries_multicast(1) {
        vec![format!("udp://239.255.77.2:{port}"), format!("udp://127.255.255.255:{port}")]
    } else {
        println!("no multicast on this machine's loopback network: only broadcast is tried");
        vec![format!("udp://127.255.255.255:{port}")]
    };
    for group in groups {
        let publisher_node = join(&group);
        let publisher = publisher_node.publisher("A/B").open().unwrap();
        let subscribers: Vec<Heard> = (0..5).map(|_| Heard::of(&join(&group), "A/B")).collect();
        let other = join(&group).publisher("A/B").open().unwrap();
        meets(&publisher, 5);
        meets(&other, 5);
        for number in 0..100 {
            publisher.publish(format!("{number}").as_bytes()).unwrap();
        }
        for heard in &subscribers {
            assert_eq!(heard.texts(100), (0..100).map(|number| number.to_string()).collect::<Vec<_>>());
        }
        assert_eq!(publisher.report().sent, 100, "{group}");
        other.publish(b"another one").unwrap();
        assert!(subscribers.iter().all(|heard| heard.next() == b"another one"));
        // Echoes and reports reach their end points, though all share the group's port.
        wait_until("all have reported and echoed", || {
            let peers = publisher.subscribers();
            peers.len() == 5 && peers.iter().all(|peer| peer.received == 100 && peer.delay.is_some())
        });
        drop(subscribers);
        wait_until("all have said bye", || publisher.subscribers().is_empty());
    }
}
