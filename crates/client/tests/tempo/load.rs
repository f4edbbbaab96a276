//! Many messages, many subscribers, slow ones, and those that are not what they say.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use campanile_client::tempo::{Error, Node};
use testing::{EndInTime, NextInTime, PATIENCE, patient, wait_until};

use crate::support::{Heard, PERIOD, TRANSPORTS, address, meets, open, open_calm, wait_somewhere};

#[test]
fn a_hundred_subscribers_get_every_message() {
    for transport in TRANSPORTS {
        let waiting = open_calm(&format!("{transport}://@127.0.0.1:0"));
        let publisher = waiting.publisher("A/B").open().unwrap();
        let subscribers: Vec<Heard> =
            (0..100).map(|_| Heard::of(&open_calm(&address(transport, &waiting)), "A/B")).collect();
        meets(&publisher, 100);
        (0..20).for_each(|number| publisher.publish(format!("{number}").as_bytes()).unwrap());
        for heard in &subscribers {
            assert_eq!(heard.texts(20), (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
        }
        assert_eq!(publisher.report().sent, 20);
    }
}

#[test]
fn many_messages_go_at_once_and_all_come_over_tcp() {
    const MESSAGES: u64 = 200_000;
    let waiting = wait_somewhere("tcp");
    let publisher = waiting.publisher("A/B").patience(PATIENCE).open().unwrap();
    let (count, order) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, ordered) = (Arc::clone(&count), Arc::clone(&order));
    let node = open(&address("tcp", &waiting));
    let subscriber = node
        .subscriber("A/B")
        .on(move |message| {
            let number = u64::from_le_bytes(message.octets.try_into().unwrap());
            if number == counted.fetch_add(1, Ordering::Relaxed) {
                ordered.fetch_add(1, Ordering::Relaxed);
            }
        })
        .unwrap();
    meets(&publisher, 1);
    publisher.publish_all((0..MESSAGES).map(u64::to_le_bytes)).unwrap();
    wait_until("all have come", || count.load(Ordering::Relaxed) == MESSAGES);
    assert_eq!(order.load(Ordering::Relaxed), MESSAGES);
    assert_eq!(subscriber.report().lost, 0);
}

/// A topic with a slow reader waits for it, and no other topic does. Nothing is lost.
#[test]
fn a_client_that_reads_slowly_over_tcp_holds_up_its_own_topic_alone() {
    let waiting = open_calm("tcp://@127.0.0.1:0");
    let slow_topic = waiting.publisher("A/Slow").patience(Duration::ZERO).open().unwrap();
    let fast_topic = waiting.publisher("A/Fast").patience(Duration::ZERO).open().unwrap();
    let (go_on, wait) = channel::<()>();
    let (sender, came) = channel();
    let slow_node = open_calm(&address("tcp", &waiting));
    let slow = slow_node
        .subscriber("A/Slow")
        .on(move |message| {
            // Until the sender is dropped it has one message and reads no further.
            let _ = wait.recv();
            let _ = sender.send(u32::from_le_bytes(message.octets[..4].try_into().unwrap()));
        })
        .unwrap();
    let fast = Heard::of(&open_calm(&address("tcp", &waiting)), "A/Fast");
    meets(&slow_topic, 1);
    meets(&fast_topic, 1);
    let mut message = vec![0; 10_000];
    let mut sent = 0_u32;
    let full = loop {
        message[..4].copy_from_slice(&sent.to_le_bytes());
        match slow_topic.publish(&message) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    // What the system's sockets and ours hold is bounded, and so it ended.
    assert!(matches!(full, Error::Full { .. }), "{full}");
    assert_eq!(slow_topic.report().refused, 2);
    // The other topic has room left, and its subscriber gets it while the slow one gets nothing.
    for number in 0..1_000 {
        fast_topic.publish(format!("{number}").as_bytes()).unwrap();
        assert_eq!(fast.texts(1), [number.to_string()]);
    }
    assert!(came.try_recv().is_err());
    drop(go_on);
    (0..sent).for_each(|number| assert_eq!(came.next_in_time(), number));
    assert_eq!(slow.report().lost, 0);
}

/// A callback took longer than its publisher may be silent, and the announcements waited behind what the publisher had sent; it was
/// forgotten, and what it had sent discarded.
#[test]
fn a_callback_that_takes_long_over_tcp_loses_nothing() {
    let waiting = wait_somewhere("tcp");
    let publisher = waiting.publisher("A/B").open().unwrap();
    let (period, periods) = channel();
    publisher.on_report(move |_| _ = period.send(()));
    let (sender, came) = channel();
    let node = open(&address("tcp", &waiting));
    let subscriber = node
        .subscriber("A/B")
        .on(move |message| {
            let number = u32::from_le_bytes(message.octets[..4].try_into().unwrap());
            if number.is_multiple_of(1_000) {
                // Six of its publisher's periods pass.
                while periods.try_recv().is_ok() {}
                (0..6).for_each(|_| periods.next_in_time());
            }
            let _ = sender.send(number);
        })
        .unwrap();
    meets(&publisher, 1);
    // More than is read at once, and less than the connection has room for.
    let mut message = [0; 68];
    for number in 0..3_000_u32 {
        message[..4].copy_from_slice(&number.to_le_bytes());
        publisher.publish(&message).unwrap();
    }
    (0..3_000).for_each(|number| assert_eq!(came.next_in_time(), number));
    assert_eq!((subscriber.report().lost, node.counters().unbound), (0, 0));
}

/// With patience, publishing waits until there is room.
#[test]
fn publishing_waits_for_room_for_as_long_as_it_may() {
    let waiting = open_calm("tcp://@127.0.0.1:0");
    let publisher = waiting.publisher("A/B").patience(Duration::from_millis(20)).open().unwrap();
    let (go_on, wait) = channel::<()>();
    let node = open(&address("tcp", &waiting));
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let _subscriber = node
        .subscriber("A/B")
        .on(move |message| {
            // Until the sender is dropped it has one message and reads no further.
            let _ = wait.recv();
            counted.fetch_add(u64::from(message.octets[0]), Ordering::Relaxed);
        })
        .unwrap();
    meets(&publisher, 1);
    let message = vec![0; 10_000];
    let full = std::iter::repeat_with(|| publisher.publish(&message)).find_map(Result::err).unwrap();
    assert!(matches!(full, Error::Full { waited } if waited >= Duration::from_millis(20)), "{full}");
    drop(publisher);
    drop(go_on);
    // The topic that was given up stays until the subscriber has been notified, which has read nothing so far.
    let mut publisher = None;
    wait_until("the topic can be had again", || {
        publisher = waiting.publisher("A/B").patience(PATIENCE).open().ok();
        publisher.is_some()
    });
    let publisher = publisher.unwrap();
    meets(&publisher, 1);
    let message = vec![1; 10_000];
    (0..2_000).for_each(|_| publisher.publish(&message).unwrap());
    wait_until("all have come", || count.load(Ordering::Relaxed) == 2_000);
}

#[test]
fn of_messages_that_wait_the_more_important_ones_go_first() {
    let waiting = open_calm("tcp://@127.0.0.1:0");
    let publisher = waiting.publisher("A/B").patience(Duration::ZERO).open().unwrap();
    let (go_on, wait) = channel::<()>();
    let (sender, came) = channel();
    let node = open(&address("tcp", &waiting));
    let _subscriber = node
        .subscriber("A/B")
        .on(move |message| {
            let _ = wait.recv();
            let _ = sender.send(message.priority);
        })
        .unwrap();
    meets(&publisher, 1);
    // Until what is published stays in this end point, since nothing else takes more of it.
    let message = vec![0; 10_000];
    while publisher.report().waiting < 10 {
        publisher.publish(&message).unwrap();
    }
    for priority in [1, 3, 2, 3] {
        publisher.publish_with(priority, b"short").unwrap();
    }
    drop(go_on);
    let mut priorities: Vec<i16> = Vec::new();
    while priorities.iter().filter(|priority| **priority > 0).count() < 4 {
        priorities.push(came.next_in_time());
    }
    priorities.retain(|priority| *priority > 0);
    assert_eq!(priorities, [3, 3, 2, 1]);
}

#[test]
fn a_callback_may_publish_where_it_was_called_and_end_what_called_it() {
    for transport in TRANSPORTS {
        let waiting = wait_somewhere(transport);
        let answers = waiting.publisher("A/Answer").open().unwrap();
        let own: Arc<Mutex<Option<campanile_client::tempo::Subscriber>>> = Arc::default();
        let held = Arc::clone(&own);
        let questions = waiting
            .subscriber("A/Question")
            .on(move |message| {
                answers.publish(message.octets).unwrap();
                // It is dropped by its own callback.
                drop(held.lock().unwrap().take());
            })
            .unwrap();
        own.lock().unwrap().replace(questions);
        drop(waiting.clone());
        let node = open(&address(transport, &waiting));
        let heard = Heard::of(&node, "A/Answer");
        assert!(heard.subscriber.wait_for_publishers(1, PATIENCE));
        let asks = node.publisher("A/Question").open().unwrap();
        meets(&asks, 1);
        asks.publish(b"who").unwrap();
        assert_eq!(heard.next(), b"who");
        wait_until("the subscriber is gone", || asks.subscribers().is_empty());
    }
}

#[test]
fn many_threads_may_publish_on_one_topic() {
    let waiting = wait_somewhere("tcp");
    let publisher = waiting.publisher("A/B").patience(PATIENCE).open().unwrap();
    let heard = Heard::of(&open(&address("tcp", &waiting)), "A/B");
    meets(&publisher, 1);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread: u8| {
                let publisher = &publisher;
                scope.spawn(move || (0..1_000).for_each(|_| publisher.publish(&[thread]).unwrap()))
            })
            .collect();
        threads.into_iter().for_each(EndInTime::end_in_time);
    });
    let mut counts = [0; 4];
    (0..4_000).for_each(|_| counts[usize::from(heard.next()[0])] += 1);
    assert_eq!(counts, [1_000; 4]);
}

#[test]
fn strangers_that_say_nonsense_are_disconnected_and_no_other_client_is_disturbed() {
    let waiting = wait_somewhere("tcp");
    let heard = Heard::of(&waiting, "A/B");
    let mut stranger = TcpStream::connect(waiting.local_address().unwrap()).unwrap();
    patient(&stranger);
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // It is closed, whatever way.
    let mut octets = Vec::new();
    let _ = stranger.read_to_end(&mut octets);
    assert_eq!(octets, b"");
    let publisher = open(&address("tcp", &waiting)).publisher("A/B").open().unwrap();
    meets(&publisher, 1);
    publisher.publish(b"still here").unwrap();
    assert_eq!(heard.next(), b"still here");

    let waiting = wait_somewhere("udp");
    let heard = Heard::of(&waiting, "A/B");
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for datagram in [&b""[..], b"T", &[0x54; 65_000], &[0; 100]] {
        stranger.send_to(datagram, waiting.local_address().unwrap()).unwrap();
    }
    let publisher = open(&address("udp", &waiting)).publisher("A/B").open().unwrap();
    meets(&publisher, 1);
    publisher.publish(b"still here").unwrap();
    assert_eq!(heard.next(), b"still here");
}

#[test]
fn more_connections_than_there_are_places_are_closed() {
    let waiting = Node::builder("tcp://@127.0.0.1:0").unwrap().period(PERIOD).connections_max(2).open().unwrap();
    let connect = || {
        let stream = TcpStream::connect(waiting.local_address().unwrap()).unwrap();
        patient(&stream);
        stream
    };
    let (one, other) = (connect(), connect());
    let mut third = connect();
    assert!(matches!(third.read(&mut [0; 1]), Ok(0) | Err(_)));
    drop((one, other));
    let heard = Heard::of(&waiting, "A/B");
    let publisher = open(&address("tcp", &waiting)).publisher("A/B").open().unwrap();
    meets(&publisher, 1);
    publisher.publish(b"a place is free again").unwrap();
    assert_eq!(heard.next(), b"a place is free again");
}
