//! Consumers that do unusual things on the wire, played with bare sockets.

use std::io::Write;

use client::notify::Property;
use giop::cdr::{CharSet, Version};
use giop::ior::Ior;
use giop::message::{self, MessageKind, ReplyStatus, Request};
use service::{Config, Counter, Naming};

use crate::peers::{Bare, numbered, start, start_with, subscribe, supply, wait_until};

#[test]
fn a_consumer_named_by_host_is_found() {
    let service = start();
    let consumer = Bare::new();
    subscribe(&service, consumer.reference("localhost"), &[]);
    supply(&service).publish(&numbered(1)).unwrap();
    assert_eq!(consumer.accept().accept_push(), numbered(1));
}

#[test]
fn a_consumer_whose_host_has_no_address_is_given_up() {
    let service = start();
    let consumer = Bare::new();
    let qos = [Property::new("GiveUpAfter", 1_000_000_u64)];
    let proxy = subscribe(&service, consumer.reference("no-such-host.invalid"), &qos);
    supply(&service).publish(&numbered(1)).unwrap();
    wait_until("the consumer to be given up", || service.counters().read(Counter::ConsumersGivenUp) == 1);
    wait_until("its proxy to be gone", || proxy.non_existent().unwrap());
}

#[test]
fn a_consumer_that_forwards_gets_its_events_where_it_points() {
    let service = start();
    let (first, second) = (Bare::new(), Bare::new());
    subscribe(&service, first.reference("127.0.0.1"), &[]);
    let supplier = supply(&service);
    for number in 0..3 {
        supplier.publish(&numbered(number)).unwrap();
    }
    let mut link = first.accept();
    let (request_id, event) = link.push();
    assert_eq!(event, numbered(0));
    link.reply(request_id, ReplyStatus::LocationForward, Some(&second.reference("127.0.0.1")));
    let mut link = second.accept();
    for number in 0..3 {
        assert_eq!(link.accept_push(), numbered(number));
    }
    wait_until("the last reply", || service.counters().read(Counter::Delivered) == 3);
}

#[test]
fn a_consumer_that_forwards_to_itself_for_ever_is_not_followed_for_ever() {
    let service = start();
    let consumer = Bare::new();
    let qos = [Property::new("GiveUpAfter", 1_000_000_u64)];
    subscribe(&service, consumer.reference("127.0.0.1"), &qos);
    supply(&service).publish(&numbered(0)).unwrap();
    let mut link = consumer.accept();
    while service.counters().read(Counter::ConsumersGivenUp) == 0 {
        let Some((header, bytes)) = link.message() else { break };
        let request = Request::parse(&bytes, &header).unwrap();
        link.reply(request.request_id, ReplyStatus::LocationForward, Some(&consumer.reference("127.0.0.1")));
    }
    wait_until("the consumer to be given up", || service.counters().read(Counter::ConsumersGivenUp) == 1);
}

#[test]
fn an_event_on_a_connection_that_breaks_is_sent_again_first() {
    let service = start();
    let consumer = Bare::new();
    subscribe(&service, consumer.reference("127.0.0.1"), &[]);
    let supplier = supply(&service);
    for number in 0..5 {
        supplier.publish(&numbered(number)).unwrap();
    }
    let mut link = consumer.accept();
    assert_eq!(link.accept_push(), numbered(0));
    assert_eq!(link.push().1, numbered(1));
    drop(link);
    let mut link = consumer.accept();
    for number in 1..5 {
        assert_eq!(link.accept_push(), numbered(number));
    }
}

#[test]
fn a_consumer_that_closes_its_idle_connection_is_connected_to_again() {
    let service = start();
    let consumer = Bare::new();
    subscribe(&service, consumer.reference("127.0.0.1"), &[]);
    let supplier = supply(&service);
    supplier.publish(&numbered(0)).unwrap();
    let mut link = consumer.accept();
    assert_eq!(link.accept_push(), numbered(0));
    let mut close = Vec::new();
    message::close_connection(&mut close, Version::V1_2);
    link.stream.write_all(&close).unwrap();
    // The service closes its end when it has understood.
    assert!(link.message().is_none());
    supplier.publish(&numbered(1)).unwrap();
    assert_eq!(consumer.accept().accept_push(), numbered(1));
    assert_eq!(service.counters().read(Counter::Dropped), 0);
}

#[test]
fn a_reply_in_time_is_waited_for_and_a_late_one_is_counted() {
    let service = start();
    let consumer = Bare::new();
    subscribe(&service, consumer.reference("127.0.0.1"), &[Property::new("ReplyTimeout", 1_000_000_u64)]);
    supply(&service).publish(&numbered(0)).unwrap();
    let mut link = consumer.accept();
    let (first, event) = link.push();
    assert_eq!(event, numbered(0));
    let (header, bytes) = link.message().unwrap();
    assert_eq!(header.kind, MessageKind::CancelRequest);
    assert_eq!(message::CancelRequest::parse(&bytes, &header).unwrap().request_id, first);
    let (second, event) = link.push();
    assert_eq!(event, numbered(0));
    link.reply(first, ReplyStatus::NoException, None);
    link.reply(second, ReplyStatus::NoException, None);
    wait_until("the reply that counts", || service.counters().read(Counter::Delivered) == 1);
    assert_eq!(service.counters().read(Counter::PushTimeouts), 1);
    assert_eq!(service.counters().read(Counter::LateReplies), 1);
}

#[test]
fn a_consumer_that_answers_with_garbage_loses_its_connection_and_nothing_else() {
    let service = start();
    let (bad, good) = (Bare::new(), Bare::new());
    subscribe(&service, bad.reference("127.0.0.1"), &[]);
    subscribe(&service, good.reference("127.0.0.1"), &[]);
    let supplier = supply(&service);
    supplier.publish(&numbered(0)).unwrap();
    let mut link = bad.accept();
    link.push();
    link.stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    let mut good_link = good.accept();
    assert_eq!(good_link.accept_push(), numbered(0));
    // It gets its event again, on a new connection.
    assert_eq!(bad.accept().accept_push(), numbered(0));
    assert_eq!(service.counters().read(Counter::ProtocolErrors), 1);
}

#[test]
fn a_consumer_that_never_reads_fills_its_socket_and_nobody_elses() {
    let service = start();
    let (stuck, good) = (Bare::new(), Bare::new());
    let window = [Property::new("PushWindow", 1024_u16)];
    subscribe(&service, stuck.reference("127.0.0.1"), &window);
    subscribe(&service, good.reference("127.0.0.1"), &window);
    let supplier = supply(&service);
    let mut event = numbered(0);
    event.remainder = "x".repeat(100_000).as_str().into();
    let sent = std::thread::spawn(move || {
        for _ in 0..500 {
            supplier.publish(&event).unwrap();
        }
        event
    });
    let mut good_link = good.accept();
    for _ in 0..500 {
        good_link.accept_push();
    }
    let event = sent.join().unwrap();
    // 50 MB wait for the one that has not read a byte; then it reads, and has missed nothing.
    let mut link = stuck.accept();
    for _ in 0..500 {
        assert_eq!(link.accept_push(), event);
    }
    assert_eq!(service.counters().read(Counter::Dropped), 0);
}

#[test]
fn the_factory_is_bound_in_an_outside_naming_service_even_behind_a_forward() {
    let (front, back) = (Bare::new(), Bare::new());
    let url = format!("corbaloc:iiop:1.2@{}/NameService", front.listener.local_addr().unwrap());
    let naming = Naming { outside: Some(url) };
    let service = start_with(Config { naming, ..Config::default() });
    let mut link = front.accept();
    let (header, bytes) = link.message().unwrap();
    let request = Request::parse(&bytes, &header).unwrap();
    link.reply(request.request_id, ReplyStatus::LocationForward, Some(&back.reference("127.0.0.1")));
    let mut link = back.accept();
    let (header, bytes) = link.message().unwrap();
    let request = Request::parse(&bytes, &header).unwrap();
    assert_eq!((request.operation, request.target.key()), (&b"rebind"[..], Some(&b"bare"[..])));
    let mut body = request.body(&bytes, &header, CharSet::Latin1);
    assert_eq!(body.u32().unwrap(), 1);
    assert_eq!((body.text().unwrap().as_str(), body.text().unwrap().as_str()), ("NotifyEventChannelFactory", ""));
    assert_eq!(Ior::read(&mut body).unwrap().to_string(), service.reference());
    link.reply(request.request_id, ReplyStatus::NoException, None);
}
