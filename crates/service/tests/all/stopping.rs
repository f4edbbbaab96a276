//! How a service ends: what it has taken is delivered before, or counted.
//!
//! SIGTERM lost acknowledged events silently: of 49,803 that a slow consumer was to get, 48,992 were gone, without a line or a
//! counter, and the exit status was 0.

use core::time::Duration;
use std::net::TcpStream;
use std::thread::{JoinHandle, spawn};

use client::notify::{ClientType, Property, ProxySupplier, StructuredProxyPushSupplier, ThreadPool};
use client::{InvokeError, SimpleSupplier};
use giop::exception::{Completed, Kind, SystemException};
use giop::realtime::PriorityModel;
use service::{Config, Counter, Lanes, Scheduling, Service, Undone};
use testing::EndInTime;

use crate::kinds::{Consumer, Model, Supplier, new_channel};
use crate::peers::{Bare, numbered, publish_numbered, start, start_with, subscribe, subscribe_to, supply};
use crate::persistent::factory;

/// Longer than any test may take.
const LONG: Duration = Duration::from_secs(3600);

fn drain(service: Service) -> JoinHandle<Undone> {
    spawn(move || service.drain(LONG))
}

/// Publishes until the service says that it takes no more, and how many it has taken from this number on.
fn publish_until_refused(supplier: &SimpleSupplier, from: i32) -> i32 {
    let mut next = from;
    loop {
        match supplier.publish(&numbered(next)) {
            Ok(()) => next += 1,
            Err(InvokeError::System { exception, .. }) => {
                // The OMG has no minor code for a service that is about to end.
                let SystemException { kind, minor, completed } = exception;
                assert_eq!((kind, minor, completed), (Kind::Transient, 0, Completed::No));
                return next;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_slow_consumer_gets_everything_that_was_taken_and_nothing_more_is_taken() {
    let service = start();
    let consumer = Bare::new();
    subscribe(&service, consumer.reference(), &[]);
    let (supplier, address, counters) = (supply(&service), service.address(), service.counters().clone());
    supplier.publish(&numbered(0)).unwrap();
    let mut link = consumer.accept();
    let (first, _) = link.push();
    let draining = drain(service);
    let taken = publish_until_refused(&supplier, 1);
    assert!(TcpStream::connect(address).is_err(), "no other client can connect");
    link.reply(first, giop::message::ReplyStatus::NoException, None);
    for number in 1..taken {
        // Its connection breaks, and it is connected to again after a while.
        if number == taken / 2 {
            drop(link);
            link = consumer.accept();
        }
        assert_eq!(link.accept_push(), numbered(number));
    }
    assert_eq!(draining.end_in_time(), Undone::default());
    assert_eq!(counters.read(Counter::Delivered), u64::try_from(taken).unwrap());
    assert_eq!((counters.read(Counter::RefusedStopping), counters.read(Counter::Undelivered)), (1, 0));
}

#[test]
fn what_a_mute_consumer_has_is_counted_when_time_is_over() {
    let service = start();
    let (mute, suspended) = (Bare::new(), Bare::new());
    subscribe(&service, mute.reference(), &[]);
    let proxy = subscribe(&service, suspended.reference(), &[]);
    StructuredProxyPushSupplier::unchecked(proxy).suspend_connection().unwrap();
    let (supplier, counters) = (supply(&service), service.counters().clone());
    publish_numbered(&supplier, 0..5);
    let undone = service.drain(Duration::ZERO);
    assert_eq!(undone, Undone { events: 10, suspended: 5, consumers: 2 });
    assert!(undone.is_loss());
    assert_eq!(counters.read(Counter::Undelivered), 10);
}

#[test]
fn a_client_in_a_hurry_ends_it_at_once() {
    let service = start();
    let mute = Bare::new();
    subscribe(&service, mute.reference(), &[]);
    let supplier = supply(&service);
    supplier.publish(&numbered(0)).unwrap();
    let stopper = service.stopper();
    let draining = drain(service);
    let taken = publish_until_refused(&supplier, 1);
    stopper.stop_now();
    let undone = draining.end_in_time();
    assert_eq!(undone.events, u64::try_from(taken).unwrap());
}

#[test]
fn no_time_is_lost_on_an_idle_service_or_on_what_consumers_do_not_take() {
    let service = start();
    let consumer = Bare::new();
    subscribe(&service, consumer.reference(), &[]);
    supply(&service).publish(&numbered(0)).unwrap();
    consumer.accept().accept_push();
    assert_eq!(drain(service).end_in_time(), Undone::default());

    let service = start();
    let suspended = Bare::new();
    let proxy = subscribe(&service, suspended.reference(), &[]);
    StructuredProxyPushSupplier::unchecked(proxy).suspend_connection().unwrap();
    supply(&service).publish(&numbered(0)).unwrap();
    let undone = drain(service).end_in_time();
    assert_eq!((undone.events, undone.is_loss()), (1, false));

    let service = start();
    let channel = new_channel(&service);
    let proxy = Consumer::obtain(&channel, ClientType::Structured, Model::Pull);
    crate::kinds::connect_pulling(&proxy, ClientType::Structured);
    Supplier::new(&channel, ClientType::Structured, Model::Push).give("Unfetched", 0..2);
    let undone = drain(service).end_in_time();
    assert_eq!((undone.events, undone.is_loss()), (2, true));
}

#[test]
fn a_batch_that_waits_for_more_leaves_at_once() {
    let service = start();
    let channel = new_channel(&service);
    let proxy = Consumer::obtain(&channel, ClientType::Sequence, Model::Push);
    let qos = [Property::new("MaximumBatchSize", 100_i32), Property::new("PacingInterval", 36_000_000_000_u64)];
    ProxySupplier::unchecked(proxy.clone()).set_qos(&qos).unwrap();
    let consumer = Consumer::connect(proxy, ClientType::Sequence, Model::Push);
    Supplier::new(&channel, ClientType::Structured, Model::Push).give("Paced", 0..3);
    assert_eq!(drain(service).end_in_time(), Undone::default());
    assert_eq!(consumer.take(3).len(), 3);
}

#[test]
fn what_is_on_its_way_between_lanes_is_delivered_too() {
    let lanes = Lanes { scheduling: Scheduling::Ordinary, ..Lanes::default() };
    let service = start_with(Config { lanes, ..Config::default() });
    let (_, id) = factory(&service).create_channel(&[], &[]).unwrap();
    let consumer = Bare::new();
    let pool = ThreadPool::new(PriorityModel::ServerDeclared, 10, 1);
    subscribe_to(&service, Some(id), consumer.reference(), &[pool.into()]);
    let supplier = SimpleSupplier::connect(&service.corbaloc("NotificationService"), Some(id)).unwrap();
    // More than may be under way between the lanes, so that some wait on the first one.
    publish_numbered(&supplier, 0..200);
    let draining = drain(service);
    let taken = publish_until_refused(&supplier, 200);
    let mut link = consumer.accept();
    link.accept_numbered(0..taken);
    assert_eq!(draining.end_in_time(), Undone::default());
}
