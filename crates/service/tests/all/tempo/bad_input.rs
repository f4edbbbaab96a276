//! What end points may say that makes no sense, or never say.

use std::time::Duration;

use client::tempo::{Node, Publisher};
use service::Counter;
use tempo::wire::{Announcement, Header, Payload, Role};
use testing::{PATIENCE, wait_until};

use super::peers::{Datagrams, EndPoint, Got, Stream, announcement, frame};
use super::{data, read, start, start_as};
use crate::peers::{assert_serves, await_count};

/// Nothing, what would be no number if it were a `float` (both kinds, and without end), a thousand million, and the largest.
const ODD: [u32; 6] = [0, 0x7fc0_0000, 0xffff_ffff, 0x7f80_0000, 1_000_000_000, 1];

#[test]
fn rates_and_deadlines_that_make_no_sense_slow_no_peer_and_are_reported_as_they_are() {
    let service = start();
    let mut usual = Stream::subscribed(&service, 20, "A/B");
    let mut publisher = Stream::publishing(&service, 30, "A/B");
    let mut sequence = 0;
    for (session, odd) in (100..).zip(ODD) {
        let odd_one =
            |role| Announcement { rate: odd, highest_rate: odd, deadline_us: odd, ..announcement(role, "A/B") };
        let mut subscriber = Stream::new(&service, session);
        subscriber.meet_as(1, odd_one(Role::Subscriber));
        let mut odd_publisher = Datagrams::new(&service, session + 1_000);
        odd_publisher.meet_as(1, odd_one(Role::Publisher));
        // The end point that wishes for a message a second hears of the other one's wish, if that has one.
        let expected = if odd == 0 { (1_000, 1_000) } else { (odd.min(1_000), odd.max(1_000)) };
        let tells = |got: &Got| {
            matches!(got, Got::Announcement { rate, highest_rate, role: Role::Subscriber, .. }
                if (*rate, *highest_rate) == expected)
        };
        while !tells(&publisher.announced("A/B").1) {}
        for number in 1..=20 {
            sequence += 1;
            publisher.publish(1, sequence, b"usual");
            odd_publisher.publish(1, number, b"odd");
        }
        for receiver in [&mut usual, &mut subscriber] {
            let came: Vec<Vec<u8>> = (0..40).map(|_| receiver.message().1).collect();
            assert_eq!(came.iter().filter(|octets| *octets == b"odd").count(), 20, "{odd}");
        }
        for left in [&mut subscriber as &mut dyn EndPoint, &mut odd_publisher] {
            let role = if left.session() < 1_000 { Role::Subscriber } else { Role::Publisher };
            let bye = frame(left.header(1, 0), Payload::Bye(role));
            left.send(&bye);
        }
        await_count(&service, Counter::TempoSessions, 2);
    }
    assert_eq!(read(&service, Counter::TempoInputFull), 0);
}

/// An announcement's frame that is as large as frames can be: 64 KB, of which a name would be all but 40 octets.
#[test]
fn a_name_of_64_kilobytes_is_no_name_and_ends_a_connection() {
    let service = start();
    let good = frame(Header { session: 31, ..header() }, Payload::Announcement(announcement(Role::Publisher, "A/B")));
    for (attempt, said_octets) in (1..).zip([255, 0, 1]) {
        let mut long = good[..tempo::wire::HEADER + 40].to_vec();
        long[28..32].copy_from_slice(&65_475_u32.to_le_bytes());
        long[71] = said_octets;
        long.resize(tempo::wire::HEADER + 65_475, b'x');
        let mut datagrams = Datagrams::new(&service, 31);
        datagrams.send(&long);
        await_count(&service, Counter::TempoMalformed, 2 * attempt - 1);
        let mut stream = Stream::new(&service, 31);
        stream.send(&long);
        assert!(stream.is_closed());
        await_count(&service, Counter::TempoMalformed, 2 * attempt);
        await_count(&service, Counter::ProtocolErrors, attempt);
    }
    // One octet more, and it is no frame.
    let mut beyond = good;
    beyond[28..32].copy_from_slice(&65_476_u32.to_le_bytes());
    let mut stream = Stream::new(&service, 31);
    stream.send(&beyond);
    assert!(stream.is_closed());
    for nothing in [Counter::TempoAnnounced, Counter::TempoTopics, Counter::TempoSessions] {
        await_count(&service, nothing, 0);
    }
    assert_serves(&service);
}

fn header() -> Header {
    Header { session: 1, topic: 1, sequence: 0, sent: 0, priority: 0, by_broker: false }
}

/// Only what came before counts for order, and no clock but the prober's for delays.
#[test]
fn clocks_that_differ_or_step_change_nothing() {
    let service = start();
    let mut subscriber = Datagrams::subscribed(&service, 21, "A/B");
    let mut publisher = Datagrams::new(&service, 31);
    publisher.meet_as(1, Announcement { deadline_us: 1, ..announcement(Role::Publisher, "A/B") });
    for (sequence, sent) in (1..).zip([u64::MAX, 0, 1 << 63, 5, 1, u64::MAX - 1, 0]) {
        let octets = frame(Header { sent, ..publisher.header(1, sequence) }, data(&[1]));
        publisher.send(&octets);
        let (header, octets) = subscriber.message();
        assert_eq!((header.sequence, octets), (sequence, vec![1]), "{sent}");
    }
    assert_eq!([read(&service, Counter::TempoLost), read(&service, Counter::TempoLate)], [0, 0]);
}

fn node(address: &str) -> Node {
    Node::builder(address).unwrap().period(Duration::from_millis(250)).open().unwrap()
}

/// Publishes until a subscriber has had so many messages, and as many probes.
fn reaches(publisher: &Publisher, subscriber: &mut Datagrams, count: u32) {
    let (mut messages, mut probes) = (0, 0);
    while messages < count || probes < count {
        publisher.publish(b"x").unwrap();
        match subscriber.next().1 {
            Got::Data { .. } => messages += 1,
            Got::Probe(_) => probes += 1,
            _ => {}
        }
    }
}

#[test]
fn a_subscriber_that_never_echoes_has_no_delay_and_is_not_waited_for() {
    // A service or an end point that is kept waiting for three periods is forgotten.
    let service = start_as(|config| config.tempo.period_ms = 250);
    let address = format!("udp://{}", service.tempo_address().unwrap());
    let mut mute = Datagrams::subscribed(&service, 21, "A/B");
    let publisher = node(&address).publisher("A/B").open().unwrap();
    assert!(publisher.wait_for_subscribers(1, PATIENCE));
    reaches(&publisher, &mut mute, 10);
    assert_eq!(publisher.report().delay, None);
    // And beside it one that does.
    let subscriber = node(&address).subscriber("A/B").open().unwrap();
    wait_until("the other one has echoed", || publisher.report().delay.is_some_and(|delay| delay.echoes >= 10));
    reaches(&publisher, &mut mute, 10);
    assert_eq!((subscriber.report().lost, read(&service, Counter::TempoInputFull)), (0, 0));
}

#[test]
fn an_address_can_announce_no_more_than_its_quota_of_what_all_can() {
    let service = start_as(|config| {
        (config.tempo.topics_max, config.limits.client_quota_percent) = (256, 50);
    });
    let mut greedy = Stream::new(&service, 31);
    let mut taken = 0;
    while read(&service, Counter::AnnouncedQuota) == 0 {
        assert!(taken < 256, "it has all there is");
        greedy.announce(taken, announcement(Role::Publisher, &format!("Topic/{taken}")));
        taken += 1;
        wait_until("it is taken or refused", || {
            read(&service, Counter::TempoAnnounced) + read(&service, Counter::AnnouncedQuota) == u64::from(taken)
        });
    }
    let before = read(&service, Counter::TempoAnnounced);
    let mut other = Datagrams::at(&service, 32, "127.0.0.2:0".parse().unwrap());
    other.meet(1, Role::Publisher, "A/B");
    await_count(&service, Counter::TempoAnnounced, before + 1);
    assert_eq!(read(&service, Counter::AnnouncedLimit), 0);
}
