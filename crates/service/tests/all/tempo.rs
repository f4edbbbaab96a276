//! The small protocol (docs/tempo.md): end points that are only sockets, and the service as their broker.

mod bad_input;
mod bounds;
mod groups;
pub(crate) mod peers;

use std::net::SocketAddr;
use std::sync::mpsc::channel;

use client::notify::{EventType, Property};
use client::{ConsumerOptions, SimpleConsumer, SimpleSupplier};
use giop::value::Value;
use service::{Config, Counter, Service, Tempo};
use tempo::wire::{Announcement, Content, Data, Fragment, Header, Payload, Probe, Report, Role};

use self::peers::{Datagrams, EndPoint, Got, Stream, announcement, frame};
use crate::json::Lines;
use crate::peers::{await_count, read, start_with, wait_until};
use testing::NextInTime;

pub(crate) fn start() -> Service {
    start_as(|_| {})
}

pub(crate) fn start_as(change: impl FnOnce(&mut Config)) -> Service {
    let tempo = Tempo { listen: Some("0".into()), period_ms: 50, ..Tempo::default() };
    let mut config = Config { tempo, ..Config::default() };
    change(&mut config);
    start_with(config)
}

fn data(octets: &[u8]) -> Payload<'_> {
    Payload::Data(Data { fragment: None, content: Content::Octets, octets })
}

// ---- what it is for ----

#[test]
fn what_is_published_over_udp_and_over_tcp_reaches_subscribers_over_both() {
    let service = start();
    let mut near = Datagrams::subscribed(&service, 21, "Weather/Wind");
    let mut far = Stream::subscribed(&service, 22, "Weather/Wind");
    let mut publishers: [Box<dyn EndPoint>; 2] = [
        Box::new(Datagrams::publishing(&service, 31, "Weather/Wind")),
        Box::new(Stream::publishing(&service, 32, "Weather/Wind")),
    ];
    for (number, publisher) in (1..).zip(&mut publishers) {
        let header = Header { sent: 1_000 + number, priority: 7, ..publisher.header(1, 5) };
        publisher.send(&frame(header, data(b"gust")));
        for subscriber in [&mut near as &mut dyn EndPoint, &mut far] {
            let (header, octets) = subscriber.message();
            assert_eq!(octets, b"gust");
            assert_eq!((header.sent, header.priority, header.by_broker), (1_000 + number, 7, true));
            assert_eq!(u64::from(header.sequence), number, "numbered for each subscriber");
        }
    }
}

#[test]
fn a_message_beyond_a_datagram_is_put_together_and_taken_apart_again() {
    let service = start();
    let message: Vec<u8> = (0..=250).cycle().take(100_000).collect();
    let mut near = Datagrams::subscribed(&service, 21, "A/B");
    let mut far = Stream::subscribed(&service, 22, "A/B");
    let mut publisher = Datagrams::publishing(&service, 31, "A/B");
    let mut pieces: Vec<usize> = (0..message.len()).step_by(1_400).collect();
    // In whatever order, and some twice.
    pieces.reverse();
    pieces.push(1_400);
    for at in pieces {
        let octets = &message[at..message.len().min(at + 1_400)];
        publisher.publish_part(7, 100_000, u32::try_from(at).unwrap(), octets);
    }
    for subscriber in [&mut near as &mut dyn EndPoint, &mut far] {
        let mut whole = vec![0; message.len()];
        let mut count = 0;
        while count < whole.len() {
            if let (header, Got::Data { fragment: Some(Fragment { total, at }), octets, .. }) = subscriber.next() {
                assert_eq!((header.sequence, total as usize), (1, whole.len()));
                whole[at as usize..at as usize + octets.len()].copy_from_slice(&octets);
                count += octets.len();
            }
        }
        assert!(whole == message);
    }
    await_count(&service, Counter::TempoFragmentsRefused, 1);
}

/// After a jump back, the broker took no fragments any more as long as there were some of a message with a number from before it.
/// Of end points `c_header` holds the same.
#[test]
fn an_unfinished_message_is_lost_when_a_later_one_or_a_jump_comes_and_not_when_an_earlier_one_does() {
    let service = start();
    let mut subscriber = Stream::subscribed(&service, 21, "A/B");
    let mut publisher = Datagrams::publishing(&service, 31, "A/B");
    for part in PARTS.split(' ') {
        match part.split_once('.') {
            None => publisher.publish(1, part.parse().unwrap(), b"whole"),
            Some((of, half)) => {
                publisher.publish_part(of.parse().unwrap(), 2_000, 1_000 * half.parse::<u32>().unwrap(), &[1; 1_000]);
            }
        }
    }
    let came = [(); 8].map(|()| subscriber.message().1.len());
    assert_eq!(came, [5, 2_000, 5, 5, 5, 2_000, 5, 2_000]);
    let counters = [Counter::TempoLost, Counter::TempoFragmentsRefused];
    assert_eq!(counters.map(|counter| read(&service, counter)), [1, 1]);
}

/// Numbers of messages that come whole, or half. Then: 8, which an earlier one does not end; 9, which a later one does; a jump back by a whole
/// message and one by a fragment.
const PARTS: &str = "8.0 7 8.1 9.0 10 9.1 1000001 1000002.0 5 6.0 6.1 2000000 2000001.0 2000002.0 9.0 9.1";

/// The broker kept the room until the publisher's next message in fragments.
#[test]
fn a_message_that_is_overtaken_by_a_later_one_gives_its_room_back() {
    let service = start_as(|config| config.limits.incomplete_bytes_max = 1 << 20);
    let mut subscriber = Stream::subscribed(&service, 21, "A/B");
    let mut overtaken = Datagrams::publishing(&service, 31, "A/B");
    let mut other = Stream::publishing(&service, 32, "A/B");
    let part = [1; 60_000];
    overtaken.publish_part(1, 600_000, 0, &part);
    overtaken.publish(1, 2, b"whole");
    assert_eq!(subscriber.message().1, b"whole");
    (0..10).for_each(|at| other.publish_part(1, 600_000, at * 60_000, &part));
    await_count(&service, Counter::EventsIn, 2);
    assert_eq!(read(&service, Counter::TempoFragmentsRefused), 0);
}

/// The broker heard nothing in fragments of a message that was not complete, and forgot its publisher.
#[test]
fn a_publisher_whose_announcements_wait_behind_a_long_message_is_there() {
    let service = start();
    let mut subscriber = Stream::subscribed(&service, 21, "A/B");
    let said = Announcement { period_ms: 1_000, ..announcement(Role::Publisher, "A/B") };
    let mut publisher = Stream::new(&service, 31);
    publisher.meet_as(1, said);
    Datagrams::new(&service, 32).meet_as(1, said);
    wait_until("another one to be forgotten that is silent", || {
        publisher.publish_part(1, 257, 256, &[1]);
        read(&service, Counter::TempoExpired) > 0
    });
    publisher.publish_part(1, 257, 0, &[1; 256]);
    assert_eq!(subscriber.message().1, [1; 257]);
}

#[test]
fn a_broker_announces_what_those_on_the_other_side_come_to() {
    let service = start();
    let mut subscriber = Datagrams::new(&service, 21);
    let said = announcement(Role::Subscriber, "A/B");
    subscriber.meet_as(1, Announcement { rate: 5_000, deadline_us: 900, ..said });
    let said = announcement(Role::Publisher, "A/B");
    let mut first = Datagrams::new(&service, 31);
    let (header, met) = first.meet_as(4, Announcement { rate: 1_000, ..said });
    let expected = |rate: u32, highest_rate: u32, end_points: u32, role: Role| {
        move |got: &Got| {
            matches!(got, Got::Announcement { rate: r, highest_rate: h, end_points: e, role: is, .. }
                if (*r, *h, *e, *is) == (rate, highest_rate, end_points, role))
        }
    };
    assert!(header.by_broker && expected(5_000, 1_000, 1, Role::Subscriber)(&met), "{met:?}");
    let mut second = Stream::new(&service, 32);
    second.meet_as(4, Announcement { rate: 3_000, highest_rate: 3_000, ..said });
    // Announced again and again.
    let sum = expected(4_000, 3_000, 2, Role::Publisher);
    while !sum(&subscriber.announced("A/B").1) {}
    drop(second);
    // It proves nothing anew, as in a group, and is believed from where it is known.
    first.send(&frame(
        first.header(4, 0),
        Payload::Announcement(Announcement { given: 0, rate: 2_000, highest_rate: 2_000, ..said }),
    ));
    let alone = expected(2_000, 2_000, 1, Role::Publisher);
    while !alone(&subscriber.announced("A/B").1) {}
    // It is known by one number in all that the broker says.
    let numbers = [subscriber.announced("A/B").0.topic, first.announced("A/B").0.topic];
    assert_eq!(numbers, [header.topic; 2]);
}

/// It was counted at once, and what a publisher sent that had waited for it was lost until its proxy was there.
#[test]
fn a_subscriber_is_announced_to_publishers_when_it_gets_what_they_publish() {
    let service = start();
    let mut end_point = Stream::publishing(&service, 22, "Other/Topic");
    // Both come in one round of the service. Its publisher's proxy is there.
    let roles = [Role::Subscriber, Role::Publisher].map(|role| {
        let said = Announcement { returned: *end_point.cookie(), ..announcement(role, "A/B") };
        frame(end_point.header(2, 0), Payload::Announcement(said))
    });
    end_point.send(&roles.concat());
    let mut next_count = || loop {
        if let (_, Got::Announcement { end_points, role: Role::Subscriber, .. }) = end_point.announced("A/B") {
            return end_points;
        }
    };
    assert_eq!(next_count(), 0);
    while next_count() == 0 {}
    end_point.publish(2, 1, b"first");
    assert_eq!(end_point.message().1, b"first");
}

#[test]
fn what_is_late_or_comes_again_is_not_taken_and_what_is_lost_is_reported() {
    let service = start();
    let mut subscriber = Datagrams::subscribed(&service, 21, "A/B");
    let mut publisher = Datagrams::publishing(&service, 31, "A/B");
    for (sequence, octets) in [(5, b"5"), (9, b"9"), (7, b"7"), (9, b"9"), (10, b"a")] {
        publisher.publish(1, sequence, octets);
    }
    let came = [(); 3].map(|()| subscriber.message());
    assert_eq!(came.each_ref().map(|(_, octets)| octets[0]), [b'5', b'9', b'a']);
    assert_eq!(came.map(|(header, _)| header.sequence), [1, 2, 3], "the broker's own numbers");
    await_count(&service, Counter::TempoLost, 3);
    await_count(&service, Counter::TempoLate, 1);
    await_count(&service, Counter::TempoRepeated, 1);
    // What the subscriber says is added.
    let topic = subscriber.announced("A/B").0.topic;
    let told = Report { received: 3, lost: 40, rate: 700, end_points: 1 };
    let octets = frame(subscriber.header(topic, 0), Payload::Report(told));
    subscriber.send(&octets);
    loop {
        let (header, report) = publisher.report();
        assert_eq!((header.topic, report.received), (1, 3));
        if report.lost == 42 {
            assert_eq!((report.rate, report.end_points), (700, 1));
            break;
        }
    }
    await_count(&service, Counter::TempoReports, 1);
}

#[test]
fn a_probe_goes_where_messages_go_and_its_echo_comes_back_at_once() {
    let service = start();
    let mut near = Datagrams::subscribed(&service, 21, "A/B");
    let mut far = Stream::subscribed(&service, 22, "A/B");
    let mut publisher = Datagrams::publishing(&service, 31, "A/B");
    let here = publisher.socket.local_addr().unwrap();
    // It lies about where it is.
    let elsewhere: SocketAddr = "192.0.2.1:9".parse().unwrap();
    let probe = Probe { sent: 123, prober: 99, topic: 98, number: 5, to: Some(elsewhere), hops: 0, echoed_by: 0 };
    let sent = frame(publisher.header(1, 1), Payload::Probe(probe));
    publisher.send(&sent);
    let (header, got) = near.answer();
    let expected = Probe { prober: 31, topic: 1, to: Some(here), hops: 1, ..probe };
    assert_eq!((header.sequence, got), (1, Got::Probe(expected)));
    assert_eq!(far.answer().1, Got::Probe(expected));
    // One over a connection has the broker pass it on.
    let echo = Probe { echoed_by: 22, ..expected };
    let octets = frame(far.header(1, 0), Payload::Echo(echo));
    far.send(&octets);
    let (header, got) = publisher.answer();
    assert_eq!((header.topic, got), (1, Got::Echo(echo)));
    // As many as there are subscribers, and no more; and no probe straight after another.
    (0..2).for_each(|_| far.send(&octets));
    await_count(&service, Counter::TempoEchoesRefused, 1);
    await_count(&service, Counter::TempoEchoes, 2);
    let again = [2, 3].map(|sequence| frame(publisher.header(1, sequence), Payload::Probe(probe)));
    publisher.send(&again.concat());
    wait_until("a probe to be refused", || read(&service, Counter::TempoProbesRefused) > 0);
    // They are no messages.
    publisher.drain();
    publisher.publish(1, 4, b"a message");
    let received = core::iter::from_fn(|| Some(publisher.report().1.received)).find(|received| *received > 0);
    assert_eq!(received, Some(1));
}

// ---- sessions that come and go ----

#[test]
fn an_end_point_that_is_silent_for_three_periods_or_says_bye_is_forgotten_and_gets_nothing_more() {
    let service = start();
    let mut silent = Datagrams::new(&service, 21);
    silent.meet_as(1, Announcement { period_ms: 10, ..announcement(Role::Subscriber, "A/B") });
    await_count(&service, Counter::TempoExpired, 1);
    await_count(&service, Counter::TempoSessions, 0);
    let mut polite = Datagrams::subscribed(&service, 22, "A/B");
    let mut publisher = Stream::publishing(&service, 31, "A/B");
    publisher.publish(1, 1, b"x");
    assert_eq!(polite.message().1, b"x");
    let bye = frame(polite.header(1, 0), Payload::Bye(Role::Subscriber));
    polite.send(&bye);
    await_count(&service, Counter::TempoAnnounced, 1);
    // What was sent before a bye is handed in yet.
    let mut subscriber = Stream::subscribed(&service, 23, "A/B");
    let header = publisher.header(1, 2);
    let both = [frame(header, data(b"last")), frame(header, Payload::Bye(Role::Publisher))].concat();
    publisher.send(&both);
    assert_eq!(subscriber.message().1, b"last");
    drop(subscriber);
    drop(publisher);
    await_count(&service, Counter::TempoTopics, 0);
    await_count(&service, Counter::TempoConnectionsOpen, 0);
    assert!(silent.drain().iter().all(|(_, got)| !matches!(got, Got::Data { .. })));
}

#[test]
fn a_session_behind_another_port_is_the_same_when_it_has_proven_itself_at_both() {
    // What is not answered at once is not heard of for a minute.
    let service = start_as(|config| config.tempo.period_ms = 60_000);
    let mut subscriber = Datagrams::subscribed(&service, 21, "A/B");
    let mut publisher = Datagrams::publishing(&service, 31, "A/B");
    // As a router has it that forgets; and a client that does not know the cookie is another one.
    let mut moved = Datagrams::new(&service, 21);
    *moved.cookie() = *subscriber.cookie();
    moved.announce(1, announcement(Role::Subscriber, "A/B"));
    moved.announced("A/B");
    moved.announce(1, announcement(Role::Subscriber, "A/B"));
    await_count(&service, Counter::TempoSessionsMoved, 1);
    assert_eq!(read(&service, Counter::TempoSessions), 2);
    // What was sent before another one was met is there.
    Datagrams::subscribed(&service, 22, "C/D");
    assert!(moved.drain().iter().any(|(_, got)| matches!(got, Got::Announcement { returned: 77, .. })));
    publisher.publish(1, 1, b"here");
    assert_eq!(moved.message().1, b"here");
    let mut other = Datagrams::subscribed(&service, 21, "A/B");
    publisher.publish(1, 2, b"both");
    assert_eq!([moved.message().1, other.message().1], [b"both"; 2]);
    assert_eq!((read(&service, Counter::TempoSessionsMoved), read(&service, Counter::TempoSessions)), (1, 4));
}

#[test]
fn a_topics_number_means_what_it_was_announced_for_last() {
    let service = start();
    let mut wind = Datagrams::subscribed(&service, 21, "Weather/Wind");
    let mut rain = Datagrams::subscribed(&service, 22, "Weather/Rain");
    let mut publisher = Datagrams::publishing(&service, 31, "Weather/Wind");
    publisher.publish(1, 1, b"wind");
    publisher.meet(1, Role::Publisher, "Weather/Rain");
    publisher.publish(1, 1, b"rain");
    assert_eq!((wind.message().1, rain.message().1), (b"wind".to_vec(), b"rain".to_vec()));
    publisher.publish(2, 1, b"nothing");
    await_count(&service, Counter::TempoUnbound, 1);
    await_count(&service, Counter::TempoAnnounced, 3);
    // In the other role as well.
    publisher.meet(1, Role::Subscriber, "Weather/Sun");
    publisher.publish(1, 2, b"nothing");
    await_count(&service, Counter::TempoUnbound, 2);
    await_count(&service, Counter::TempoAnnounced, 3);
}

#[test]
fn a_session_stays_when_all_it_has_announced_is_replaced() {
    let service = start();
    let mut rain = Datagrams::subscribed(&service, 22, "Weather/Rain");
    let mut publisher = Datagrams::publishing(&service, 31, "Weather/Wind");
    publisher.publish(1, 1, b"wind");
    // Nothing of it waits any more.
    await_count(&service, Counter::EventsIn, 1);
    publisher.meet(1, Role::Publisher, "Weather/Rain");
    publisher.publish(1, 1, b"rain");
    assert_eq!(rain.message().1, b"rain".to_vec());
    // The same topic by another number.
    publisher.meet(2, Role::Publisher, "Weather/Rain");
    publisher.publish(2, 1, b"more");
    assert_eq!(rain.message().1, b"more".to_vec());
    assert_eq!(read(&service, Counter::TempoSessions), 2);
}

/// A thousand that stay would be more than the limit that holds for all.
#[test]
fn a_thousand_publishers_come_and_go_and_nothing_is_left_of_them() {
    let service = start_as(|config| config.tempo.topics_max = 64);
    for round in 0..25 {
        let mut publishers: Vec<Datagrams> = (0..40)
            .map(|number| Datagrams::publishing(&service, 1_000 + round * 40 + number, &format!("Topic/{number}")))
            .collect();
        for (number, publisher) in publishers.iter_mut().enumerate() {
            publisher.publish(1, 1, b"here");
            let bye = frame(publisher.header(1, 0), Payload::Bye(Role::Publisher));
            if number % 2 == 0 {
                publisher.send(&bye);
            } else {
                // Announced for the last time.
                let said = announcement(Role::Publisher, "");
                let name = format!("Topic/{number}");
                publisher.announce(1, Announcement { period_ms: 10, name: &name, ..said });
            }
        }
        await_count(&service, Counter::TempoSessions, 0);
    }
    await_count(&service, Counter::EventsIn, 1_000);
    for left in [Counter::TempoAnnounced, Counter::TempoTopics, Counter::AnnouncedLimit, Counter::AnnouncedQuota] {
        assert_eq!(read(&service, left), 0, "{left:?}");
    }
    assert_eq!(read(&service, Counter::TempoExpired), 500);
}

/// Its session stayed for ever, with its topic and its message, as soon as administration took a moment to make its proxy.
#[test]
fn a_client_that_says_bye_before_the_broker_is_ready_for_its_message_is_heard_and_forgotten() {
    let service = start();
    let mut subscriber = Datagrams::subscribed(&service, 21, "A/B");
    let mut publisher = Datagrams::new(&service, 31);
    publisher.announce(1, announcement(Role::Publisher, "A/B"));
    publisher.announced("A/B");
    let returned = *publisher.cookie();
    let mut hasty = |name: &str, last: Payload<'_>| {
        let said = Announcement { returned, ..announcement(Role::Publisher, name) };
        let frames = [
            frame(publisher.header(1, 0), Payload::Announcement(said)),
            frame(publisher.header(1, 1), data(b"in passing")),
            frame(publisher.header(1, 2), last),
        ];
        publisher.send(&frames.concat());
    };
    hasty("A/B", Payload::Bye(Role::Publisher));
    assert_eq!(subscriber.message().1, b"in passing");
    await_count(&service, Counter::TempoSessions, 1);
    // It is not let in: there is no such channel. Whether it says so or not, what it sent is lost.
    hasty("@9/A/B", Payload::Bye(Role::Publisher));
    await_count(&service, Counter::TempoRefused, 1);
    await_count(&service, Counter::TempoSessions, 1);
    hasty("@9/A/B", data(b"and more"));
    await_count(&service, Counter::TempoRefused, 3);
    for (left, count) in [(Counter::TempoSessions, 1), (Counter::TempoTopics, 1), (Counter::TempoAnnounced, 1)] {
        await_count(&service, left, count);
    }
}

#[test]
fn an_end_point_that_begins_anew_at_an_address_replaces_the_former_one() {
    let service = start();
    let mut before = Datagrams::subscribed(&service, 21, "A/B");
    let here = before.socket.local_addr().unwrap();
    drop(before.drain());
    drop(before);
    let mut after = Datagrams::at(&service, 22, here);
    after.meet(1, Role::Subscriber, "A/B");
    await_count(&service, Counter::TempoSessions, 1);
    let mut publisher = Stream::publishing(&service, 31, "A/B");
    publisher.publish(1, 1, b"once");
    publisher.publish(1, 2, b"twice");
    assert_eq!([after.message().1, after.message().1], [b"once".to_vec(), b"twice".to_vec()]);
}

#[test]
fn a_broker_that_ends_says_bye() {
    let service = start();
    let mut subscriber = Datagrams::subscribed(&service, 21, "A/B");
    let mut publisher = Stream::publishing(&service, 31, "A/B");
    service.shutdown();
    assert_eq!(subscriber.answer().1, Got::Bye(Role::Publisher));
    assert_eq!(publisher.answer().1, Got::Bye(Role::Subscriber));
}

// ---- other protocols ----

#[test]
fn consumers_of_corba_and_of_json_get_what_is_published_here_and_the_other_way() {
    let service = start_as(|config| config.json.listen = Some("0".into()));
    let (sender, received) = channel();
    let consumer = SimpleConsumer::connect(
        &service.corbaloc("NotificationService"),
        None,
        ConsumerOptions::default(),
        move |event| {
            let _ = sender.send(event.event().unwrap());
            Ok(())
        },
    );
    let _consumer = consumer.unwrap();
    let mut lines = Lines::subscribed(&service, "");
    let mut subscriber = Datagrams::subscribed(&service, 21, "Weather/Wind");
    let mut publisher = Datagrams::publishing(&service, 31, "Weather/Wind");
    let header = Header { priority: 3, ..publisher.header(1, 1) };
    publisher.send(&frame(header, data(&[1, 2, 255])));
    let event = received.next_in_time();
    assert_eq!((event.event_type(), event.event_name.as_str()), (EventType::new("Weather", "Wind"), ""));
    assert_eq!(event.variable_header, [Property::new("Priority", 3_i16)]);
    assert_eq!(event.remainder.value, Value::Octets(vec![1, 2, 255]));
    let line = lines.line().unwrap();
    assert!(line.contains(r#""type":"Weather/Wind""#) && line.contains(r#""value":"0102ff""#), "{line}");
    assert_eq!(subscriber.message().1, [1, 2, 255]);
    // The other way.
    let supplier = SimpleSupplier::connect(&service.corbaloc("NotificationService"), None).unwrap();
    supplier.publish(&event).unwrap();
    let (header, octets) = subscriber.message();
    assert_eq!((header.priority, octets), (3, vec![1, 2, 255]));
    assert!(header.sent > 0, "when it came");
    lines.send(r#"{"op":"publish","id":9,"type":"Weather/Wind","fields":{"speed":5}}"#);
    while lines.line().unwrap() != r#"{"ok":9}"# {}
    loop {
        if let (_, Got::Data { content: Content::Structured, octets, .. }) = subscriber.next() {
            assert!(octets.windows(5).any(|part| part == b"speed"));
            return;
        }
    }
}
