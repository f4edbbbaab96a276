//! What others can do to the service and to each other, and cannot.

use std::io::Write;

use service::{Counter, DeclaredChannel};
use tempo::wire::{Content, Data, Fragment, Header, Payload, Role};
use testing::wait_until;

use super::peers::{Datagrams, EndPoint, Got, Stream, announcement, frame};
use super::{data, read, start, start_as};
use crate::peers::{assert_serves, await_count};

#[test]
fn an_address_that_has_not_proven_itself_gets_no_more_octets_than_came_from_it() {
    let service = start();
    let mut real = Datagrams::publishing(&service, 31, "A/B");
    let mut forged = Datagrams::new(&service, 21);
    let mut sent = 0;
    // It never returns what was given to it.
    for number in 1..=50 {
        let octets: Vec<u8> = [
            frame(forged.header(number, 0), Payload::Announcement(announcement(Role::Subscriber, "A/B"))),
            frame(forged.header(number, 0), Payload::Announcement(announcement(Role::Publisher, "Other/Topic"))),
            frame(forged.header(number, 1), data(b"not taken")),
            frame(forged.header(1, 0), Payload::Bye(Role::Publisher)),
        ]
        .concat();
        sent += octets.len();
        forged.send(&octets);
    }
    real.publish(1, 1, &[7; 1_000]);
    await_count(&service, Counter::TempoUnproven, 1 + 4 * 50);
    await_count(&service, Counter::EventsIn, 1);
    let mut buffer = [0; 65_536];
    forged.socket.set_nonblocking(true).unwrap();
    let mut got = 0;
    while let Ok(count) = forged.socket.recv(&mut buffer) {
        got += count;
    }
    assert!(got > 0 && got <= sent, "{got} of {sent}");
    assert_eq!([read(&service, Counter::TempoSessions), read(&service, Counter::TempoTopics)], [1, 1]);
}

#[test]
fn garbage_other_versions_and_unknown_kinds_are_counted_and_cost_no_peer_anything() {
    let service = start();
    let mut publisher = Datagrams::publishing(&service, 31, "A/B");
    let mut subscriber = Stream::subscribed(&service, 22, "A/B");
    let good = frame(publisher.header(1, 1), data(b"good"));
    let with = |at: usize, octet: u8| {
        let mut frame = good.clone();
        frame[at] = octet;
        frame
    };
    publisher.send(b"garbage");
    publisher.send(&with(1, 9));
    publisher.send(&good[..good.len() - 1]);
    publisher.send(&[]);
    await_count(&service, Counter::TempoMalformed, 2);
    await_count(&service, Counter::TempoVersions, 1);
    // What follows a frame of an unknown kind is read.
    publisher.send(&[with(2, 77), good.clone()].concat());
    assert_eq!(subscriber.message().1, b"good");
    await_count(&service, Counter::TempoUnknownKinds, 1);
    // From another broker.
    publisher.send(&with(3, 2));
    await_count(&service, Counter::TempoByBrokers, 1);
    publisher.announce(9, announcement(Role::Publisher, "@7/"));
    await_count(&service, Counter::TempoNamesRefused, 1);
    let mut nameless = frame(publisher.header(9, 0), Payload::Announcement(announcement(Role::Publisher, "xy")));
    *nameless.last_mut().unwrap() = 7;
    publisher.send(&nameless);
    await_count(&service, Counter::TempoMalformed, 3);
    // A connection ends with the first frame that is none.
    for bad in [
        b"GET / HTTP/1.1\r\n".to_vec(),
        with(1, 2),
        with(4, 0).iter().enumerate().map(|(at, octet)| if (4..8).contains(&at) { 0 } else { *octet }).collect(),
    ] {
        let mut stream = Stream::new(&service, 41);
        stream.send(&bad);
        assert!(stream.is_closed());
    }
    await_count(&service, Counter::ProtocolErrors, 3);
    assert_serves(&service);
}

/// A verdict on a container is not one on its members: of a packet of messages in which one is nothing, the others arrive, in order.
#[test]
fn of_a_packet_with_one_bad_message_the_others_arrive() {
    let service = start();
    let mut publisher = Datagrams::publishing(&service, 31, "A/B");
    let mut subscriber = Stream::subscribed(&service, 22, "A/B");
    let good = |sequence: u32, octets: &'static [u8]| frame(publisher.header(1, sequence), data(octets));
    // It says that it is a part beyond the end of its message.
    let beyond = Fragment { total: 4, at: 2 };
    let beyond = Data { fragment: Some(beyond), content: Content::Octets, octets: b"four" };
    let bad = frame(publisher.header(1, 2), Payload::Data(beyond));
    let packet = [good(1, b"one"), bad, good(3, b"three"), good(4, b"four")].concat();
    publisher.send(&packet);
    for expected in [&b"one"[..], b"three", b"four"] {
        assert_eq!(subscriber.message().1, expected);
    }
    await_count(&service, Counter::TempoMalformed, 1);
    assert_serves(&service);
}

#[test]
fn half_a_frame_over_tcp_waits_for_its_rest_and_not_for_ever() {
    let service = start();
    let mut subscriber = Datagrams::subscribed(&service, 21, "A/B");
    let mut publisher = Stream::publishing(&service, 31, "A/B");
    let whole = frame(publisher.header(1, 1), data(&[3; 5_000]));
    for piece in whole.chunks(1_234) {
        publisher.send(piece);
    }
    let mut count = 0;
    while count < 5_000 {
        if let (_, Got::Data { octets, .. }) = subscriber.next() {
            count += octets.len();
        }
    }
    let service = start_as(|config| config.limits.message_completion_ms = 300);
    let _subscriber = Datagrams::subscribed(&service, 21, "A/B");
    let mut publisher = Stream::publishing(&service, 31, "A/B");
    publisher.send(&whole[..40]);
    assert!(publisher.is_closed());
    await_count(&service, Counter::IncompleteMessages, 1);
    await_count(&service, Counter::TempoAnnounced, 1);
}

/// A service with a second channel that has little memory for its events, and small inputs.
fn small() -> service::Service {
    small_as(|config| config.tempo.input_messages = 16)
}

fn small_as(change: impl FnOnce(&mut service::Config)) -> service::Service {
    start_as(|config| {
        let properties = [("MemoryBudget".into(), service::DeclaredValue::Number(64 << 10))].into();
        config.channels =
            vec![DeclaredChannel { name: "Flooded".into(), properties, lane: Vec::new(), timers: Vec::new() }];
        change(config);
    })
}

/// A publisher that sends whether or not there is room.
struct Flooder {
    publisher: Datagrams,
    sent: u32,
}

/// What it sends.
const FLOOD: [u8; 1_400] = [9; 1_400];

impl Flooder {
    fn new(service: &service::Service) -> Self {
        Self { publisher: Datagrams::publishing(service, 32, "@1/Flood/All"), sent: 0 }
    }

    /// Sends so many, and waits until they have been read. Says how many of them had no room.
    fn flood(&mut self, service: &service::Service, count: u32) -> u64 {
        let [before, full] = [Counter::TempoDatagramsIn, Counter::TempoInputFull].map(|counter| read(service, counter));
        for _ in 0..count {
            self.sent += 1;
            self.publisher.publish(1, self.sent, &FLOOD);
        }
        wait_until("the flood to be read", || read(service, Counter::TempoDatagramsIn) >= before + u64::from(count));
        read(service, Counter::TempoInputFull) - full
    }
}

#[test]
fn a_flood_on_one_topic_takes_no_datagram_of_another() {
    let service = small();
    // What is on the first topic is not taken, and its channel has no room for it.
    let mut stuck = Stream::subscribed(&service, 22, "@1/Flood/All");
    let mut flooder = Flooder::new(&service);
    let mut subscriber = Datagrams::subscribed(&service, 21, "Weather/Wind");
    let mut publisher = Datagrams::publishing(&service, 31, "Weather/Wind");
    while read(&service, Counter::TempoInputFull) < 1_000 {
        flooder.flood(&service, 100);
    }
    for number in 1..=200 {
        flooder.flood(&service, 20);
        publisher.publish(1, number, &number.to_le_bytes());
        assert_eq!(subscriber.message().1, number.to_le_bytes());
    }
    assert_eq!(read(&service, Counter::TempoLost), 0, "on the way");
    // It reads after all.
    assert_eq!(stuck.message().1, FLOOD);
}

#[test]
fn a_flood_of_one_publisher_takes_no_datagram_of_another_on_the_same_topic() {
    let service = small();
    let mut stuck = Stream::subscribed(&service, 22, "@1/Flood/All");
    let mut flooder = Flooder::new(&service);
    let mut calm = Datagrams::publishing(&service, 31, "@1/Flood/All");
    // Until there is no room left anywhere.
    while flooder.flood(&service, 100) < 100 {}
    for number in 1..=4 {
        flooder.flood(&service, 100);
        let [full, datagrams] =
            [Counter::TempoInputFull, Counter::TempoDatagramsIn].map(|counter| read(&service, counter));
        calm.publish(1, number, &[1; 1_400]);
        wait_until("it to be read", || read(&service, Counter::TempoDatagramsIn) > datagrams);
        assert_eq!(read(&service, Counter::TempoInputFull), full);
    }
    // What waits in the input goes in turns, behind what was handed in before.
    let mut before_next = || core::iter::from_fn(|| Some(stuck.message().1)).position(|octets| octets == [1; 1_400]);
    let between = [0; 4].map(|_| before_next().unwrap());
    assert!(between[1..].iter().all(|between| *between <= 1), "{between:?}");
}

/// A publisher may have as much waiting as it leaves free: after a few that flood there was nothing left, and what one sent now and then on
/// the same topic was discarded for want of room, though its specification says that others' floods take none of it.
#[test]
fn floods_of_many_publishers_take_no_datagram_of_another_on_the_same_topic() {
    let service = small();
    let mut stuck = Stream::subscribed(&service, 22, "@1/Flood/All");
    let mut flooders: Vec<Flooder> = (32..44)
        .map(|session| Flooder { publisher: Datagrams::publishing(&service, session, "@1/Flood/All"), sent: 0 })
        .collect();
    let mut calm = Datagrams::publishing(&service, 31, "@1/Flood/All");
    for flooder in &mut flooders {
        while flooder.flood(&service, 50) < 50 {}
    }
    let counters = [Counter::TempoInputFull, Counter::TempoDatagramsIn];
    let [full, datagrams] = counters.map(|counter| read(&service, counter));
    calm.publish(1, 1, &[1; 1_400]);
    wait_until("it to be read", || read(&service, Counter::TempoDatagramsIn) > datagrams);
    assert_eq!(read(&service, Counter::TempoInputFull), full);
    let came = core::iter::from_fn(|| Some(stuck.message().1)).find(|octets| octets == &[1; 1_400]);
    assert!(came.is_some());
    assert_eq!(read(&service, Counter::TempoLost), 0, "on the way");
}

#[test]
fn a_connection_is_not_read_while_its_topic_has_no_room_and_nothing_of_it_is_lost() {
    let service = small();
    let mut stuck = Stream::subscribed(&service, 22, "@1/Flood/All");
    let mut publisher = Stream::new(&service, 32);
    let said = announcement(Role::Publisher, "@1/Flood/All");
    publisher.meet_as(1, tempo::wire::Announcement { period_ms: 1_000, ..said });
    let mut other = Datagrams::subscribed(&service, 23, "A/B");
    let mut writing = publisher.stream.try_clone().unwrap();
    // Far more than sockets keep.
    const COUNT: u32 = 20_000;
    let writer = std::thread::spawn(move || {
        for number in 1..=COUNT {
            let header = Header { session: 32, topic: 1, sequence: number, sent: 0, priority: 0, by_broker: false };
            let octets = [&number.to_le_bytes()[..], &[0; 1_000]].concat();
            writing.write_all(&frame(header, data(&octets))).unwrap();
        }
    });
    wait_until("it to wait", || read(&service, Counter::TempoConnectionsWaited) > 0);
    // What it announces waits behind the rest: for longer than that would hold, it is there yet. (Once in 50 ms.)
    (0..80).for_each(|_| drop(other.announced("A/B")));
    assert_eq!(read(&service, Counter::TempoExpired), 0);
    for number in 1..=COUNT {
        let (header, octets) = stuck.message();
        assert_eq!((header.sequence, &octets[..4]), (number, &number.to_le_bytes()[..]));
    }
    writer.join().unwrap();
    assert_eq!([Counter::TempoInputFull, Counter::TempoLost].map(|counter| read(&service, counter)), [0, 0]);
}

#[test]
fn a_connection_with_more_frames_than_its_budget_of_a_round_gives_way_to_the_others() {
    let service = start_as(|config| config.limits.round_messages = 2);
    let mut subscriber = Stream::subscribed(&service, 22, "A/B");
    let mut publisher = Stream::publishing(&service, 32, "A/B");
    let before = read(&service, Counter::RoundBudgetsSpent);
    let header = Header { session: 32, topic: 1, sequence: 0, sent: 0, priority: 0, by_broker: false };
    let frames: Vec<u8> = (1..=10).flat_map(|sequence| frame(Header { sequence, ..header }, data(b"ten"))).collect();
    publisher.stream.write_all(&frames).unwrap();
    (1..=10).for_each(|sequence| assert_eq!(subscriber.message().0.sequence, sequence));
    assert!(read(&service, Counter::RoundBudgetsSpent) > before);
}

#[test]
fn a_subscriber_that_does_not_read_delays_no_other() {
    let service = start();
    let _mute = Stream::subscribed(&service, 22, "A/B");
    let mut subscriber = Datagrams::subscribed(&service, 21, "A/B");
    let mut publisher = Datagrams::publishing(&service, 31, "A/B");
    // More than its socket and ours keep of it.
    for number in 1..=20_000_u32 {
        publisher.publish(1, number, &[1; 1_000]);
        assert_eq!(subscriber.message().0.sequence, number);
    }
    assert_eq!(read(&service, Counter::TempoInputFull), 0);
}

#[test]
fn messages_that_are_too_large_and_fragments_that_fit_to_nothing_are_counted() {
    let service = start_as(|config| config.limits.message_bytes_max = 2_000);
    let mut publisher = Stream::publishing(&service, 31, "A/B");
    publisher.publish(1, 1, &[0; 2_001]);
    await_count(&service, Counter::TempoTooLarge, 1);
    publisher.publish_part(2, 5_000, 0, &[0; 1_400]);
    await_count(&service, Counter::TempoTooLarge, 2);
    // Of sizes that do not fit to each other.
    publisher.publish_part(3, 1_900, 0, &[0; 1_100]);
    publisher.publish_part(3, 1_900, 1_000, &[0; 200]);
    await_count(&service, Counter::TempoFragmentsRefused, 1);
    // A subscriber that takes little.
    let mut subscriber = Datagrams::new(&service, 21);
    subscriber.meet_as(1, tempo::wire::Announcement { largest: 10, ..announcement(Role::Subscriber, "A/B") });
    publisher.publish(1, 4, &[5; 11]);
    publisher.publish(1, 5, &[6; 10]);
    assert_eq!(subscriber.message().1, [6; 10]);
    await_count(&service, Counter::DroppedUntranslatable, 1);
}

/// A whole one took its number at the broker, and those before it that came after it were late.
#[test]
fn a_message_that_is_too_large_takes_no_number_and_is_lost_when_a_later_one_comes() {
    let service = start_as(|config| config.limits.message_bytes_max = 2_000);
    let mut subscriber = Stream::subscribed(&service, 21, "A/B");
    let mut publisher = Datagrams::publishing(&service, 31, "A/B");
    for (number, octets) in [(4, 1), (6, 2_001), (5, 2), (7, 3)] {
        publisher.publish(1, number, &vec![0; octets]);
    }
    assert_eq!([(); 3].map(|()| subscriber.message().1.len()), [1, 2, 3]);
    let counters = [Counter::TempoTooLarge, Counter::TempoLost, Counter::TempoLate];
    assert_eq!(counters.map(|counter| read(&service, counter)), [1, 1, 0]);
}

#[test]
fn more_topics_than_may_be_announced_are_not_taken() {
    let service = start_as(|config| config.tempo.topics_max = 64);
    let mut publisher = Stream::new(&service, 31);
    for number in 0..64 {
        publisher.meet(number, Role::Publisher, &format!("Topic/{number}"));
    }
    publisher.announce(64, announcement(Role::Publisher, "Topic/64"));
    await_count(&service, Counter::AnnouncedLimit, 1);
    // In a channel that is not there, neither.
    let bye = frame(publisher.header(0, 0), Payload::Bye(Role::Publisher));
    publisher.send(&bye);
    publisher.announce(65, announcement(Role::Publisher, "@9/A/B"));
    await_count(&service, Counter::TempoTopicsRefused, 1);
    await_count(&service, Counter::TempoAnnounced, 63);
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let service = start_as(|config| config.limits.connections_max = 4);
    let open: Vec<Stream> = (0..4).map(|number| Stream::publishing(&service, 31 + number, "A/B")).collect();
    assert!(Stream::new(&service, 40).is_closed());
    await_count(&service, Counter::ConnectionsRefused, 1);
    drop(open);
    await_count(&service, Counter::TempoConnectionsOpen, 0);
    Stream::publishing(&service, 41, "A/B");
    assert_eq!(read(&service, Counter::TempoConnectionsAccepted), 5);
}

#[test]
fn what_waits_of_all_topics_is_bounded_and_a_connection_that_would_add_to_it_goes_on_when_there_is_room() {
    for (percent, spent) in [(75, Counter::InputBytesQuota), (100, Counter::InputBytesLimit)] {
        let service = small_as(|config| {
            (config.limits.memory_bytes, config.limits.client_quota_percent) = (Some(64 << 20), percent);
            (config.tempo.input_messages, config.tempo.input_bytes) = (1 << 20, 1 << 30);
        });
        let mut stuck = Stream::subscribed(&service, 22, "@1/Flood/All");
        let publisher = Stream::publishing(&service, 32, "@1/Flood/All");
        let mut writing = publisher.stream.try_clone().unwrap();
        const COUNT: u32 = 400;
        let writer = std::thread::spawn(move || {
            for sequence in 1..=COUNT {
                let header = Header { session: 32, topic: 1, sequence, sent: 0, priority: 0, by_broker: false };
                writing.write_all(&frame(header, data(&[0; 60_000]))).unwrap();
            }
        });
        wait_until("what waits to be as much as may", || read(&service, spent) > 0);
        (0..COUNT).for_each(|_| assert_eq!(stuck.message().1.len(), 60_000));
        writer.join().unwrap();
        assert_eq!([Counter::TempoInputFull, Counter::TempoLost].map(|counter| read(&service, counter)), [0, 0]);
    }
}
