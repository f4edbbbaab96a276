//! What end points tell each other about delays, rates and losses.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use campanile_client::tempo::{Message, Node, Subscriber, Target};
use testing::{NextInTime, wait_until};

use crate::support::{Heard, PERIOD, TRANSPORTS, address, meets, open, wait_somewhere};

#[test]
fn publishers_learn_delays_and_wishes_and_subscribers_what_is_announced() {
    for transport in TRANSPORTS {
        let waiting = wait_somewhere(transport);
        let publisher = waiting.publisher("A/B").rate(250.0).deadline(Duration::from_millis(2)).open().unwrap();
        let (sender, reports) = channel();
        publisher.on_report(move |report| _ = sender.send(*report));
        let node = open(&address(transport, &waiting));
        let subscriber = node.subscriber("A/B").rate(100.0).deadline(Duration::from_millis(5)).open().unwrap();
        let (sender, told) = channel();
        subscriber.on_report(move |report| _ = sender.send(*report));
        meets(&publisher, 1);
        (0..10).for_each(|_| publisher.publish(b"x").unwrap());

        let report = loop {
            let report = reports.next_in_time();
            if report.delay.is_some() && report.received == 10 {
                break report;
            }
        };
        assert_eq!((report.subscribers, report.lowest_rate, report.highest_rate), (1, Some(100.0), Some(100.0)));
        assert_eq!(report.deadline, Some(Duration::from_millis(5)));
        assert_eq!((report.sent, report.lost, report.unheard, report.refused), (10, 0, 0, 0));
        let delay = report.delay.unwrap();
        assert!(delay.last <= delay.highest && delay.mean <= delay.highest && delay.echoes > 0, "{delay:?}");
        assert!(!delay.mean.is_zero() && report.slowest.is_some());

        let report = loop {
            let report = told.next_in_time();
            if report.received == 10 {
                break report;
            }
        };
        assert_eq!((report.publishers, report.rate, report.highest_rate), (1, Some(250.0), Some(250.0)));
        assert_eq!((report.deadline, report.lost), (Some(Duration::from_millis(2)), 0));

        // What is announced anew counts at once.
        publisher.rate(50.0);
        publisher.deadline(None);
        subscriber.rate(0.0);
        subscriber.deadline(Some(Duration::from_millis(9)));
        wait_until("new rates and deadlines are known", || {
            let (of_publisher, of_subscriber) = (publisher.report(), subscriber.report());
            (of_publisher.lowest_rate, of_publisher.deadline) == (None, Some(Duration::from_millis(9)))
                && (of_subscriber.rate, of_subscriber.deadline) == (Some(50.0), None)
        });
        let peers = publisher.subscribers();
        assert_eq!((peers.len(), peers[0].session, peers[0].is_broker), (1, node.session(), false));
        assert_eq!(subscriber.publishers()[0].session, waiting.session());
    }
}

/// A subscriber that says that it got `wait`, and keeps the thread that receives busy until it is told to go on: what its socket has no room
/// for meanwhile is lost.
fn busy_subscriber(node: &Node) -> (Subscriber, Receiver<()>, Sender<()>) {
    let (sender, receiver) = channel();
    let (go_on, wait) = channel();
    let taker = move |message: &Message<'_>| {
        if message.octets == b"wait" {
            let _ = sender.send(());
            let _ = wait.recv();
        }
    };
    (node.subscriber("A/B").on(taker).unwrap(), receiver, go_on)
}

#[test]
fn losses_are_counted_by_subscribers_and_reported_to_publishers() {
    let waiting = wait_somewhere("udp");
    let (subscriber, receiver, go_on) = busy_subscriber(&waiting);
    let publisher = open(&address("udp", &waiting)).publisher("A/B").open().unwrap();
    meets(&publisher, 1);
    publisher.publish(b"wait").unwrap();
    receiver.next_in_time();
    // More than the largest socket's buffer that the test asked for.
    let message = vec![0; 60_000];
    (0..500).for_each(|_| publisher.publish(&message).unwrap());
    go_on.send(()).unwrap();
    wait_until("the socket is empty", || {
        publisher.publish(b"after").unwrap();
        subscriber.report().lost > 0
    });
    wait_until("the publisher knows", || publisher.report().lost > 0);
    let report = subscriber.report();
    assert!(report.lost >= 10, "{report:?}");
}

#[test]
fn a_publisher_follows_the_rate_at_which_its_subscriber_loses_nothing() {
    let waiting = wait_somewhere("udp");
    let (subscriber, receiver, go_on) = busy_subscriber(&waiting);
    subscriber.find_loss_free_rate(1_000.0);
    let publisher = open(&address("udp", &waiting)).publisher("A/B").open().unwrap();
    let (sender, rates) = channel();
    publisher.follow_lowest_rate(2_000.0, move |rate| _ = sender.send(rate));
    meets(&publisher, 1);
    // It follows what is wished for, though it intends more; and that is announced.
    while (rates.next_in_time() - 1_000.0).abs() > 0.5 {}
    wait_until("the lower rate is announced", || subscriber.report().rate == Some(1_000.0));
    publisher.publish(b"wait").unwrap();
    receiver.next_in_time();
    let message = vec![0; 60_000];
    (0..500).for_each(|_| publisher.publish(&message).unwrap());
    go_on.send(()).unwrap();
    // What follows shows that something is missing, and for that less is wished for.
    while rates.next_in_time() > 900.0 {
        publisher.publish(b"after").unwrap();
    }
    assert!(subscriber.report().lost > 0);
}

#[test]
fn deadlines_are_tightened_and_followed() {
    let waiting = wait_somewhere("udp");
    let publisher = waiting.publisher("A/B").rate(100.0).open().unwrap();
    let (sender, told) = channel();
    // No message gets anywhere in a nanosecond.
    let (target, first) = (Duration::from_nanos(1), Duration::from_millis(10));
    publisher.tighten_deadline(target, first, move |deadline, stands| _ = sender.send((deadline, stands)));
    let subscriber = open(&address("udp", &waiting)).subscriber("A/B").open().unwrap();
    subscriber.follow_deadline();
    meets(&publisher, 1);
    wait_until("the subscriber announces what the publisher does", || {
        let (ours, theirs) = (subscriber.report().deadline, publisher.report().deadline);
        ours.is_some() && ours == theirs
    });
    let mut was_shorter = false;
    loop {
        let (deadline, stands) = told.next_in_time();
        was_shorter |= deadline < first;
        if stands == Target::NotAchievable {
            assert_eq!(deadline, first);
            break;
        }
    }
    assert!(was_shorter);
}

#[test]
fn a_silent_end_point_is_gone_and_messages_without_subscribers_are_counted() {
    let waiting = wait_somewhere("udp");
    let publisher = waiting.publisher("A/B").open().unwrap();
    publisher.publish(b"to no subscriber").unwrap();
    assert_eq!((publisher.report().unheard, publisher.report().sent), (1, 0));
    assert!(!publisher.wait_for_subscribers(1, PERIOD));
    // Not driven any more, it says nothing.
    let mute = Node::builder(&address("udp", &waiting)).unwrap();
    let mute = mute.period(PERIOD).without_thread().open().unwrap();
    let subscriber = mute.subscriber("A/B").open().unwrap();
    wait_until("it is known", || {
        mute.poll(Duration::from_millis(1));
        publisher.report().subscribers == 1
    });
    publisher.publish(b"to it").unwrap();
    wait_until("it comes", || {
        mute.poll(Duration::from_millis(1));
        subscriber.next(Duration::ZERO).is_some_and(|message| message.octets() == b"to it")
    });
    wait_until("it is gone", || publisher.report().subscribers == 0);
    // And back as soon as it speaks.
    wait_until("it is back", || {
        mute.poll(Duration::from_millis(1));
        publisher.report().subscribers == 1
    });
}

#[test]
fn messages_that_are_not_requested_make_room_for_later_ones() {
    let waiting = wait_somewhere("udp");
    let publisher = waiting.publisher("A/B").open().unwrap();
    let node = open(&address("udp", &waiting));
    let subscriber = node.subscriber("A/B").waiting_max(3, 1_000).open().unwrap();
    let heard = Heard::of(&open(&address("udp", &waiting)), "A/B");
    meets(&publisher, 2);
    (0..10).for_each(|number| publisher.publish(format!("{number}").as_bytes()).unwrap());
    assert_eq!(heard.texts(10).len(), 10);
    wait_until("all have come", || subscriber.report().received == 10);
    wait_until("they have been discarded", || subscriber.report().discarded == 7);
    let next = || subscriber.next(Duration::ZERO).map(|message| message.into_octets());
    assert_eq!((next(), next(), next(), next()), (Some(b"7".to_vec()), Some(b"8".to_vec()), Some(b"9".to_vec()), None));
}
