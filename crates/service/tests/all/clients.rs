//! Clients that stop, stall or flood where the service waits for them, or they for it.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use client::notify::Property;
use giop::cdr::{CharSet, Endian, Version};
use giop::message::{self, LocateReply, LocateStatus, MessageKind, Reply, ReplyStatus, RequestHead, Response};
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use service::{Config, Counter, Limits, Service};
use testing::EndInTime;

use crate::peers::{
    Bare, BareSupplier, REQUEST, assert_serves, numbered, read_message, read_to_end, request, request_with, start,
    start_limited, start_with, subscribe_to, wait_until,
};
use crate::persistent::factory;

/// A channel with a consumer that answers nothing, so that its suppliers are soon held.
fn blocked_channel(service: &Service) -> (i32, Bare) {
    let budget = [Property::new("MemoryBudget", 100_000_u64)];
    let (_, id) = factory(service).create_channel(&budget, &[]).unwrap();
    let consumer = Bare::new();
    subscribe_to(service, Some(id), consumer.reference(), &[]);
    (id, consumer)
}

/// Pushes without reading replies until so many are withheld that no more is read.
fn push_until_paused(service: &Service, supplier: &mut BareSupplier) {
    let mut event = numbered(0);
    event.remainder = "x".repeat(10_000).as_str().into();
    let mut pushed = 0;
    while service.counters().read(Counter::SuppliersBlocked) < 64 {
        supplier.push(&event);
        pushed += 1;
        wait_until("the event to be in", || service.counters().read(Counter::EventsIn) == pushed);
        if service.counters().read(Counter::SuppliersBlocked) == 1 {
            event = numbered(0);
        }
    }
}

fn open(service: &Service) -> u64 {
    service.counters().read(Counter::ConnectionsOpen)
}

#[test]
fn a_blocked_supplier_that_aborts_its_connection_is_disconnected() {
    // Epoll tells of a connection that was reset whether one asks or not. The lane did not read from a supplier that it
    // held, so it never found out, and went round and round for as long as the supplier would have been held.
    let service = start();
    let (id, _consumer) = blocked_channel(&service);
    let mut supplier = BareSupplier::new(&service, Some(id));
    push_until_paused(&service, &mut supplier);
    let before = open(&service);
    // Closing with replies unread resets the connection.
    drop(supplier);
    wait_until("its connection to be closed", || open(&service) < before);
}

#[test]
fn a_blocked_supplier_that_goes_away_is_disconnected() {
    // As above, with an orderly end: nothing was announced of it while the connection was not read.
    let service = start();
    let (id, _consumer) = blocked_channel(&service);
    let mut supplier = BareSupplier::new(&service, Some(id));
    push_until_paused(&service, &mut supplier);
    let replies = service.counters().read(Counter::EventsIn) - service.counters().read(Counter::SuppliersBlocked);
    for _ in 0..replies {
        read_message(&mut supplier.stream).unwrap();
    }
    let before = open(&service);
    drop(supplier);
    wait_until("its connection to be closed", || open(&service) < before);
}

#[test]
fn what_a_blocked_supplier_sent_before_it_went_away_is_not_lost() {
    let service = start();
    let (id, consumer) = blocked_channel(&service);
    let mut supplier = BareSupplier::new(&service, Some(id));
    push_until_paused(&service, &mut supplier);
    let held = service.counters().read(Counter::EventsIn);
    for number in 1..200 {
        supplier.push(&numbered(number));
    }
    supplier.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut link = consumer.accept();
    for _ in 0..held {
        link.accept_push();
    }
    link.accept_numbered(1..200);
}

/// A connection of a client that has room for little that it has not read.
fn connect_with_little_room(service: &Service) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&socket, 16 << 10).unwrap();
    connect(&socket, &service.address()).unwrap();
    let stream = TcpStream::from(socket);
    testing::patient(&stream);
    stream
}

#[test]
fn a_connection_whose_last_bytes_no_client_reads_is_closed_all_the_same() {
    // It was kept for ever, and a few thousand of them shut all others out.
    let service = start_limited(Limits { message_completion_ms: 1_000, ..Limits::default() });
    // Answers of 128 KiB: few are enough, since administration gives them one after the other, and runs when it may.
    let question = {
        let filters = crate::kinds::new_channel(&service).default_filter_factory().unwrap().unwrap();
        let filter = filters.create_filter("EXTENDED_TCL").unwrap();
        let long = client::notify::ConstraintExp::new(&format!("$a == '{:016000}'", 1));
        filter.add_constraints(&vec![long; 8]).unwrap();
        let key = &filter.object().ior().iiop().unwrap().key;
        request(Version::V1_2, key, "get_all_constraints", |_| {})
    };
    let mut stream = TcpStream::connect(service.address()).unwrap();
    stream.write_all(&question).unwrap();
    let answer_len = read_message(&mut stream).unwrap().1.len();
    drop(stream);
    wait_until("it to be closed", || open(&service) == 0);
    // More answers each time, until the sockets do not hold them all; and so few more that these are not yet so many
    // that the connection is not read any more.
    for round in 1.. {
        let asked = round * ((256 << 10) / answer_len);
        let mut stream = connect_with_little_room(&service);
        stream.write_all(&[question.repeat(asked), b"X".to_vec()].concat()).unwrap();
        wait_until("the end to be known", || service.counters().read(Counter::ProtocolErrors) == round as u64);
        wait_until("the connection to be closed", || open(&service) == 0);
        // Those that administration had not given yet are not waited for.
        if read_to_end(&mut stream).len() + 4 < asked {
            break;
        }
    }
    assert_serves(&service);
}

#[test]
fn a_client_that_is_not_read_since_it_does_not_read_is_disconnected_when_it_is_gone() {
    // What it sent and is not read any more must not hide that it has gone.
    let service = start();
    let statistics = request(Version::V1_2, b"Statistics", "get_statistics", |_| {}).repeat(100);
    for abort in [false, true] {
        let mut stream = connect_with_little_room(&service);
        wait_until("it to be there", || open(&service) == 1);
        stream.set_nonblocking(true).unwrap();
        while stream.write(&statistics).is_ok() {}
        if abort {
            sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        }
        drop(stream);
        wait_until("it to be gone", || open(&service) == 0);
    }
    assert_serves(&service);
}

#[test]
fn a_client_is_notified_of_the_end_in_the_version_that_it_speaks() {
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let service = start();
        let mut streams = [0; 2].map(|_| TcpStream::connect(service.address()).unwrap());
        for stream in &mut streams {
            stream.write_all(&request(version, b"Statistics", "_non_existent", |_| {})).unwrap();
            read_message(stream).unwrap();
        }
        let [mut bad, mut good] = streams;
        bad.write_all(b"this is no GIOP at all").unwrap();
        let (header, _) = read_message(&mut bad).unwrap();
        assert_eq!((header.kind, header.version), (MessageKind::MessageError, version));
        service.shutdown();
        let (header, _) = read_message(&mut good).unwrap();
        assert_eq!((header.kind, header.version), (MessageKind::CloseConnection, version));
    }
}

#[test]
fn a_client_that_complains_of_a_message_is_not_answered_with_a_complaint() {
    let service = start();
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let mut complaint = Vec::new();
    message::message_error(&mut complaint, Version::V1_2);
    stream.write_all(&complaint).unwrap();
    assert_eq!(read_to_end(&mut stream), []);
    assert_eq!(service.counters().read(Counter::ProtocolErrors), 1);
}

#[test]
fn a_client_that_asks_without_waiting_for_answers_does_not_fill_administrations_queue() {
    // One-way requests were not counted among those that a connection waits for, so one client could fill the queue, and
    // all others were answered TRANSIENT.
    let service = start_limited(Limits { administration_queue: 128, ..Limits::default() });
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let mut asked = request(Version::V1_2, b"NotificationService", "_non_existent", |_| {});
    asked[16] = 0; // response_flags: none expected
    for _ in 0..20_000 {
        stream.write_all(&asked).unwrap();
    }
    wait_until("all to be asked", || service.counters().read(Counter::Requests) == 20_000);
    assert_eq!(service.counters().read(Counter::AdministrationFull), 0);
}

#[test]
fn a_locate_request_is_answered_as_such_even_when_administration_has_no_room() {
    // It was answered with a Reply that says TRANSIENT, for which there was no request.
    let service = start_limited(Limits { administration_queue: 1, ..Limits::default() });
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let mut stream = TcpStream::connect(service.address()).unwrap();
        let mut asked = Vec::new();
        for request_id in 0..200 {
            message::locate_request(&mut asked, version, Endian::Big, request_id, b"NotificationService");
        }
        stream.write_all(&asked).unwrap();
        let mut answered: Vec<u32> = (0..200)
            .map(|_| {
                let (header, bytes) = read_message(&mut stream).unwrap();
                let reply = LocateReply::parse(&bytes, &header).unwrap();
                assert_eq!(reply.status, LocateStatus::ObjectHere);
                reply.request_id
            })
            .collect();
        answered.sort_unstable();
        assert_eq!(answered, (0..200).collect::<Vec<_>>());
    }
    assert!(service.counters().read(Counter::AdministrationFull) > 0);
}

#[test]
fn a_client_that_makes_bad_connections_all_the_time_does_not_fill_the_log() {
    let service = start();
    for _ in 0..2_000 {
        let mut stream = TcpStream::connect(service.address()).unwrap();
        stream.write_all(b"X").unwrap();
        read_to_end(&mut stream);
    }
    let left_out = service.counters().read(Counter::LogLinesLeftOut);
    assert_eq!(service.counters().read(Counter::ProtocolErrors), 2_000);
    assert!(left_out > 0, "{left_out}");
}

#[test]
fn every_query_for_the_status_of_consumers_is_answered() {
    let service = start();
    let mut streams = [0; 20].map(|_| TcpStream::connect(service.address()).unwrap());
    let ask = |operation| request(Version::V1_2, b"Statistics", operation, |_| {});
    let asked = [ask("get_consumers"), ask("get_drops")].concat().repeat(25);
    for stream in &mut streams {
        stream.write_all(&asked).unwrap();
    }
    for stream in &mut streams {
        for _ in 0..50 {
            assert_eq!(read_message(stream).unwrap().0.kind, MessageKind::Reply);
        }
    }
}

#[test]
fn requests_that_were_carried_out_are_answered_before_the_service_stops() {
    let service = start();
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let is_a = request(Version::V1_2, b"NotificationService", "_is_a", |w| w.string("IDL:x:1.0"));
    for _ in 0..50 {
        stream.write_all(&is_a).unwrap();
    }
    wait_until("all to be asked", || service.counters().read(Counter::Requests) == 50);
    service.shutdown();
    let mut kinds = read_to_end(&mut stream);
    assert_eq!(kinds.pop(), Some(MessageKind::CloseConnection));
    assert_eq!(kinds, [MessageKind::Reply; 50]);
}

#[test]
fn suppliers_of_every_giop_version_and_byte_order_are_understood() {
    let service = start();
    let consumer = Bare::new();
    subscribe_to(&service, None, consumer.reference(), &[]);
    let mut link = None;
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        for endian in [Endian::Little, Endian::Big] {
            let mut supplier = BareSupplier::new(&service, None);
            let head = RequestHead { version, endian, ..REQUEST };
            let push = supplier.push_message(&head, CharSet::Latin1, &numbered(version.minor().into()));
            supplier.stream.write_all(&push).unwrap();
            let (header, bytes) = read_message(&mut supplier.stream).unwrap();
            assert_eq!((header.kind, header.version, header.endian), (MessageKind::Reply, version, endian));
            assert_eq!(Reply::parse(&bytes, &header).unwrap().status, ReplyStatus::NoException);
            let link = link.get_or_insert_with(|| consumer.accept());
            assert_eq!(link.accept_push(), numbered(version.minor().into()));
        }
    }
}

#[test]
fn a_client_that_waits_for_the_server_only_is_answered() {
    let service = start();
    let mut supplier = BareSupplier::new(&service, None);
    let head = RequestHead { response: Response::Server, ..REQUEST };
    let push = supplier.push_message(&head, CharSet::Latin1, &numbered(1));
    supplier.stream.write_all(&push).unwrap();
    let asked = RequestHead { key: b"Statistics", operation: b"_non_existent", ..head };
    supplier.stream.write_all(&request_with(&asked, CharSet::Latin1, |_| {})).unwrap();
    for _ in 0..2 {
        let (header, bytes) = read_message(&mut supplier.stream).unwrap();
        assert_eq!(Reply::parse(&bytes, &header).unwrap().status, ReplyStatus::NoException);
    }
}

#[test]
fn a_proxy_is_located_as_long_as_it_exists() {
    let service = start();
    let mut supplier = BareSupplier::new(&service, None);
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        assert_eq!(locate(&mut supplier, version), LocateStatus::ObjectHere);
    }
    let disconnect = request(Version::V1_2, &supplier.key, "disconnect_structured_push_consumer", |_| {});
    supplier.stream.write_all(&disconnect).unwrap();
    read_message(&mut supplier.stream).unwrap();
    assert_eq!(locate(&mut supplier, Version::V1_2), LocateStatus::UnknownObject);
}

fn locate(supplier: &mut BareSupplier, version: Version) -> LocateStatus {
    let mut asked = Vec::new();
    message::locate_request(&mut asked, version, Endian::Big, 1, &supplier.key);
    supplier.stream.write_all(&asked).unwrap();
    let (header, bytes) = read_message(&mut supplier.stream).unwrap();
    LocateReply::parse(&bytes, &header).unwrap().status
}

#[test]
fn a_client_that_floods_gives_way_to_the_others_again_and_again() {
    const PUSHES: usize = 6_400;
    let limits = Limits { round_messages: 64, round_us: 1_000_000, ..Limits::default() };
    let service = start_with(Config { limits, ..Config::default() });
    let mut supplier = BareSupplier::new(&service, None);
    let mut reading = supplier.stream.try_clone().unwrap();
    let reader = std::thread::spawn(move || (0..PUSHES).for_each(|_| drop(read_message(&mut reading).unwrap())));
    let push = supplier.push_message(&REQUEST, CharSet::Latin1, &numbered(0));
    let before = service.counters().read(Counter::Cycles);
    supplier.stream.write_all(&push.repeat(PUSHES)).unwrap();
    reader.end_in_time();
    wait_until("the rounds to be counted", || service.counters().read(Counter::Cycles) >= before + PUSHES as u64 / 64);
    // They are counted at the end of the round, when the last reply is out.
    wait_until("the events to be counted", || service.counters().read(Counter::EventsIn) == PUSHES as u64);
}
