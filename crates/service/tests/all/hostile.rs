//! What a service does with bytes that are not what it was promised, on real sockets.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;

use client::{ConsumerOptions, Received, SimpleConsumer};
use giop::cdr::{CharSet, Encoding, Endian, Reader, Version};
use giop::exception::{Kind, SystemException};
use giop::message::{self, MessageKind, Reply, ReplyStatus};
use service::{Config, ConfigError, Counter, Limits, Service, StartError};
use testing::NextInTime;

use crate::peers::{
    Bare, assert_serves, numbered, read_message, read_to_end, request, start, start_limited, subscribe, supply,
    wait_until,
};

fn exception_of(stream: &mut TcpStream, sent: &[u8]) -> Kind {
    stream.write_all(sent).unwrap();
    let (header, bytes) = read_message(stream).expect("a reply");
    let reply = Reply::parse(&bytes, &header).unwrap();
    assert_eq!(reply.status, ReplyStatus::SystemException);
    SystemException::read(&mut reply.body(&bytes, &header, CharSet::Latin1)).unwrap().kind
}

#[test]
fn bytes_that_are_no_giop_end_their_connection_and_nothing_else() {
    let service = start();
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..200 {
        let mut stream = TcpStream::connect(service.address()).unwrap();
        let mut bytes: Vec<u8> = (0..random.usize(12..400)).map(|_| random.u8(..)).collect();
        bytes[0] = b'X';
        // The service may close before it has read all of it, and then the rest cannot be written.
        let _ = stream.write_all(&bytes);
        assert!(read_to_end(&mut stream).iter().all(|kind| *kind == MessageKind::MessageError), "round {round}");
    }
    assert_eq!(service.counters().read(Counter::ProtocolErrors), 200);
    assert_serves(&service);
}

#[test]
fn mutated_requests_never_harm_the_service() {
    let service = start();
    let mut random = fastrand::Rng::with_seed(11);
    let original = request(Version::V1_2, b"NotificationService", "create_channel", |w| {
        w.u32(1);
        w.string("MaxEventsPerConsumer");
        w.u32(3);
        w.i32(10);
        w.u32(0);
    });
    for _ in 0..2_000 {
        let mut stream = TcpStream::connect(service.address()).unwrap();
        let mut bytes = original.clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        read_to_end(&mut stream);
    }
    assert_serves(&service);
}

#[test]
fn a_header_that_claims_four_gigabytes_is_refused_at_once() {
    let service = start();
    let mut stream = TcpStream::connect(service.address()).unwrap();
    stream.write_all(b"GIOP\x01\x02\x01\x00\xff\xff\xff\xff").unwrap();
    assert_eq!(read_to_end(&mut stream), [MessageKind::MessageError]);
    assert_eq!(service.counters().read(Counter::ProtocolErrors), 1);
    assert_serves(&service);
}

#[test]
fn a_thousand_half_open_connections_leave_the_others_served() {
    let service = start();
    let half_open: Vec<TcpStream> = (0..1000)
        .map(|_| {
            let mut stream = TcpStream::connect(service.address()).unwrap();
            stream.write_all(b"GIOP\x01").unwrap();
            stream
        })
        .collect();
    wait_until("all to be accepted", || service.counters().read(Counter::ConnectionsOpen) == 1000);
    assert_serves(&service);
    drop(half_open);
    wait_until("all to be gone", || service.counters().read(Counter::ConnectionsOpen) == 0);
}

#[test]
fn one_connection_too_many_has_the_place_of_the_one_that_was_idle_for_longest() {
    let service = start_limited(Limits { connections_max: 2, client_quota_percent: 100, ..Limits::default() });
    let mut first = TcpStream::connect(service.address()).unwrap();
    wait_until("it to be accepted", || service.counters().read(Counter::ConnectionsOpen) == 1);
    let second = TcpStream::connect(service.address()).unwrap();
    wait_until("both to be accepted", || service.counters().read(Counter::ConnectionsOpen) == 2);
    assert_serves(&service);
    // It is notified that nothing was begun for it.
    let told = read_to_end(&mut first);
    assert_eq!(told, [MessageKind::CloseConnection]);
    assert_eq!(service.counters().read(Counter::ConnectionsGaveWay), 1);
    assert_eq!(service.counters().read(Counter::ConnectionsRefused), 0);
    drop(second);
    wait_until("room", || service.counters().read(Counter::ConnectionsOpen) == 0);
    assert_serves(&service);
}

#[test]
fn more_consumers_than_there_may_be_connections_get_their_events_in_turns() {
    // With all descriptors taken by connections to consumers, no new client was served any more.
    const CONSUMERS: usize = 12;
    let service = start_limited(Limits { outgoing_connections_max: 4, client_quota_percent: 100, ..Limits::default() });
    let (sender, received) = channel();
    let _consumers: Vec<SimpleConsumer> = (0..CONSUMERS)
        .map(|consumer| {
            let (url, sender) = (service.corbaloc("NotificationService"), sender.clone());
            let take = move |received: Received<'_>| {
                sender.send((consumer, received.event().unwrap())).unwrap();
                Ok(())
            };
            SimpleConsumer::connect(&url, None, ConsumerOptions::default(), take).unwrap()
        })
        .collect();
    let supplier = supply(&service);
    for number in 0..3 {
        supplier.publish(&numbered(number)).unwrap();
        let mut served: Vec<usize> = (0..CONSUMERS)
            .map(|_| {
                let (consumer, event) = received.next_in_time();
                assert_eq!(event, numbered(number));
                consumer
            })
            .collect();
        served.sort_unstable();
        assert_eq!(served, (0..CONSUMERS).collect::<Vec<_>>());
        assert_serves(&service);
    }
    assert!(service.counters().read(Counter::OutgoingIdleClosed) > 0);
}

#[test]
fn consumers_that_never_answer_have_their_quota_of_the_connections_and_no_more() {
    let service = start_limited(Limits { outgoing_connections_max: 64, ..Limits::default() });
    let consumers: Vec<Bare> = (0..80).map(|_| Bare::new()).collect();
    for consumer in &consumers {
        subscribe(&service, consumer.reference(), &[]);
    }
    supply(&service).publish(&numbered(0)).unwrap();
    wait_until("the quota to be spent", || service.counters().read(Counter::OutgoingQuota) > 0);
    assert_eq!(service.counters().read(Counter::OutgoingLimit), 0);
    assert_eq!(service.counters().read(Counter::OutgoingIdleClosed), 0, "none of them is idle");
    assert_serves(&service);
}

#[test]
fn a_fragment_that_is_never_finished_is_given_up() {
    let service = start_limited(Limits { message_completion_ms: 100, ..Limits::default() });
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let mut bytes = request(Version::V1_2, b"NotificationService", "get_all_channels", |w| w.u32(0));
    bytes[6] |= 2; // more fragments follow
    stream.write_all(&bytes).unwrap();
    assert_eq!(read_to_end(&mut stream), [MessageKind::MessageError]);
    assert_eq!(service.counters().read(Counter::IncompleteMessages), 1);
    assert_serves(&service);
}

#[test]
fn fragments_that_wait_while_other_messages_come_are_given_up_all_the_same() {
    // Eight connections that held fragments and sent a CancelRequest now and then were never closed: any message counted
    // as progress of all.
    let service = start_limited(Limits { message_completion_ms: 100, ..Limits::default() });
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let mut bytes = request(Version::V1_2, b"NotificationService", "get_all_channels", |w| w.u32(0));
    bytes[6] |= 2; // more fragments follow
    stream.write_all(&bytes).unwrap();
    let mut cancel = Vec::new();
    message::cancel_request(&mut cancel, Version::V1_2, Endian::Little, 77);
    wait_until("the fragment to be given up", || {
        let _ = stream.write_all(&cancel);
        service.counters().read(Counter::IncompleteMessages) == 1
    });
    wait_until("the connection to be closed", || service.counters().read(Counter::ConnectionsOpen) == 0);
    assert_serves(&service);
}

#[test]
fn messages_that_are_announced_and_do_not_come_cost_no_other_anything() {
    // Sixteen connections of twelve octets each that announced 16 MiB took all the room that there is for large messages, and
    // an event of 200 KB waited for a minute.
    let service = start_limited(Limits { incomplete_bytes_max: 1 << 20, ..Limits::default() });
    let announcing: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(service.address()).unwrap();
            stream.write_all(b"GIOP\x01\x02\x00\x00\x00\xff\xff\xf0").unwrap();
            stream
        })
        .collect();
    wait_until("all to be accepted", || service.counters().read(Counter::ConnectionsOpen) == 100);
    let consumer = Bare::new();
    subscribe(&service, consumer.reference(), &[]);
    let mut event = numbered(7);
    event.remainder = "x".repeat(200_000).as_str().into();
    let supplier = supply(&service);
    std::thread::scope(|scope| {
        scope.spawn(|| supplier.publish(&event).unwrap());
        assert_eq!(consumer.accept().accept_push(), event);
    });
    assert_eq!(service.counters().read(Counter::MessagesWaited), 0);
    assert_eq!(service.counters().read(Counter::StalledMessagesEnded), 0);
    drop(announcing);
}

#[test]
fn a_message_that_is_never_finished_is_given_up() {
    let service = start_limited(Limits { message_completion_ms: 100, ..Limits::default() });
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let bytes = request(Version::V1_2, b"NotificationService", "get_all_channels", |_| {});
    stream.write_all(&bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(read_to_end(&mut stream), [MessageKind::MessageError]);
    assert_eq!(service.counters().read(Counter::IncompleteMessages), 1);
}

#[test]
fn wrong_keys_operations_and_bodies_get_their_exceptions() {
    let service = start();
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let mut stream = TcpStream::connect(service.address()).unwrap();
        let wrong_key = request(version, b"NoSuchObject", "_is_a", |w| w.string("IDL:x:1.0"));
        assert_eq!(exception_of(&mut stream, &wrong_key), Kind::ObjectNotExist);
        let wrong_operation = request(version, b"NotificationService", "fly", |_| {});
        assert_eq!(exception_of(&mut stream, &wrong_operation), Kind::BadOperation);
        let wrong_body = request(version, b"NotificationService", "get_event_channel", |w| w.u8(1));
        assert_eq!(exception_of(&mut stream, &wrong_body), Kind::Marshal);
        let not_text = request(version, b"NotificationService", "get_all_channels", |_| {});
        let at = not_text.windows(3).position(|w| w == b"get").unwrap();
        let mut not_text = not_text;
        not_text[at] = 0xff;
        assert_eq!(exception_of(&mut stream, &not_text), Kind::BadOperation);
    }
    assert_eq!(service.counters().read(Counter::WrongKeys), 3);
    assert_eq!(service.counters().read(Counter::WrongOperations), 6);
    assert_eq!(service.counters().read(Counter::WrongBodies), 3);
}

#[test]
fn messages_that_only_a_server_sends_end_the_connection() {
    let service = start();
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let mut reply = Vec::new();
    let head = message::ReplyHead {
        version: Version::V1_2,
        endian: Endian::Little,
        request_id: 1,
        status: ReplyStatus::NoException,
        contexts: &[],
    };
    message::begin_reply(&mut reply, &head).finish(&mut reply);
    stream.write_all(&reply).unwrap();
    assert_eq!(read_to_end(&mut stream), [MessageKind::MessageError]);
    assert_serves(&service);
}

#[test]
fn a_port_in_use_is_explained() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let error = Service::start(Config { listen: listen.clone(), ..Config::default() }).unwrap_err();
    assert!(matches!(error, StartError::Listen { .. }));
    assert!(error.to_string().starts_with(&format!("{listen} is in use")), "{error}");
    assert!(error.to_string().contains("--listen"), "{error}");
}

#[test]
fn a_wildcard_address_that_cannot_be_advertised_is_explained() {
    let error = Service::start(Config { listen: "0.0.0.0:0".into(), ..Config::default() }).unwrap_err();
    assert!(matches!(error, StartError::Config(ConfigError::NothingToAdvertise { .. })));
    assert!(error.to_string().contains("--advertise"), "{error}");
}

#[test]
fn counters_can_be_read_through_corba() {
    let service = start();
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let names = |stream: &mut TcpStream, operation: &str| {
        stream.write_all(&request(Version::V1_2, b"Statistics", operation, |_| {})).unwrap();
        let (header, bytes) = read_message(stream).unwrap();
        let reply = Reply::parse(&bytes, &header).unwrap();
        assert_eq!(reply.status, ReplyStatus::NoException);
        reply.body(&bytes, &header, CharSet::Latin1).rest().to_vec()
    };
    let body = names(&mut stream, "get_statistics");
    let mut reader = Reader::new(&body, Encoding::new(Endian::Little));
    let count = reader.u32().unwrap();
    assert_eq!(count as usize, Counter::exported().count());
    assert_eq!(reader.text().unwrap(), "lane_events_in");
    assert_eq!(reader.u64().unwrap(), 0);
    assert_eq!(names(&mut stream, "get_consumers"), [0, 0, 0, 0]);
    assert_eq!(names(&mut stream, "get_drops"), [0; 16], "no entries, padding, and nothing beyond them");
}

#[test]
fn stopping_tells_clients_that_their_connections_close() {
    let service = start();
    let mut stream = TcpStream::connect(service.address()).unwrap();
    stream.write_all(&request(Version::V1_2, b"NotificationService", "get_all_channels", |_| {})).unwrap();
    read_message(&mut stream).unwrap();
    service.shutdown();
    assert_eq!(read_to_end(&mut stream), [MessageKind::CloseConnection]);
}
