//! Consumers with programs that end and come back: they connect the same object to a new proxy.

use client::notify::StructuredProxyPushSupplier;
use client::{ObjectRef, Orb, OrbOptions, SimpleSupplier};
use giop::cdr::Version;
use giop::message::close_connection;
use service::{Answer, Compatibility, Config, Query, Service};
use std::io::Write;

use crate::peers::{Bare, Link, numbered, start, start_with, subscribe, supply};

/// The number of the next event, which is answered.
fn next_number(link: &mut Link) -> i32 {
    match link.accept_push().field("number") {
        Some(giop::value::Value::Long(number)) => *number,
        other => panic!("{other:?}"),
    }
}

/// What is said of each consumer's state.
pub(crate) fn states(service: &Service) -> Vec<String> {
    match service.ask(Query::Consumers) {
        Ok(Answer::Consumers(consumers)) => consumers.into_iter().map(|consumer| consumer.state).collect(),
        other => panic!("{other:?}"),
    }
}

/// A consumer with its first proxy, the connection on which it has taken event 0, and the supplier of that.
fn consumer_of_one(service: &Service) -> (Bare, SimpleSupplier, Link) {
    let (supplier, consumer) = (supply(service), Bare::new());
    subscribe(service, consumer.reference(), &[]);
    supplier.publish(&numbered(0)).unwrap();
    let mut link = consumer.accept();
    assert_eq!(next_number(&mut link), 0);
    (consumer, supplier, link)
}

fn is_there(proxy: &ObjectRef) -> bool {
    proxy.non_existent().is_ok_and(|gone| !gone)
}

/// A consumer that died and connected anew, as programs do when they are started again, got each event once for each life so far.
#[test]
fn a_consumer_that_dies_and_comes_back_gets_each_event_once_and_what_waited_for_it() {
    let service = start();
    let supplier = supply(&service);
    let consumer = Bare::new();
    let mut proxies = vec![subscribe(&service, consumer.reference(), &[])];
    supplier.publish(&numbered(0)).unwrap();
    let mut link = consumer.accept();
    assert_eq!(next_number(&mut link), 0);
    for life in 1..4 {
        // It is killed with an event on its way: the system closes its socket, and nothing is said before.
        supplier.publish(&numbered(life * 10)).unwrap();
        assert_eq!(link.push().1.field("number"), Some(&giop::value::Value::Long(life * 10)));
        drop(link);
        proxies.push(subscribe(&service, consumer.reference(), &[]));
        supplier.publish(&numbered(life * 10 + 1)).unwrap();
        supplier.publish(&numbered(life * 10 + 2)).unwrap();
        link = consumer.accept();
        for expected in 0..3 {
            assert_eq!(next_number(&mut link), life * 10 + expected, "once, in order, in life {life}");
        }
    }
    assert_eq!(states(&service).len(), 1);
    assert!(proxies.iter().all(is_there), "each key leads to the one proxy");
    StructuredProxyPushSupplier::unchecked(proxies[1].clone()).disconnect_structured_push_supplier().unwrap();
    assert!(!proxies.iter().any(is_there));
}

/// ORBs close connections that are idle, and say so: the program lives, and what it connects once more it wants twice. The listed states
/// say so.
#[test]
fn a_connection_that_was_closed_with_a_word_is_no_death() {
    let service = start();
    let (consumer, supplier, mut link) = consumer_of_one(&service);
    let mut word = Vec::new();
    close_connection(&mut word, Version::V1_2);
    link.stream.write_all(&word).unwrap();
    // Until the service has closed it, too.
    assert!(link.message().is_none());
    drop(link);
    let _second = subscribe(&service, consumer.reference(), &[]);
    supplier.publish(&numbered(1)).unwrap();
    let mut link = consumer.accept();
    assert_eq!([next_number(&mut link), next_number(&mut link)], [1, 1]);
    let states = states(&service);
    assert!(states.iter().all(|state| state.contains(", SAME REFERENCE as proxy ")) && states.len() == 2, "{states:?}");
}

#[test]
fn each_life_is_served_where_taking_over_is_switched_off() {
    let compatibility = Compatibility { take_over: false, ..Compatibility::default() };
    let service = start_with(Config { compatibility, ..Config::default() });
    let (consumer, supplier, link) = consumer_of_one(&service);
    drop(link);
    let _second = subscribe(&service, consumer.reference(), &[]);
    supplier.publish(&numbered(1)).unwrap();
    let mut link = consumer.accept();
    assert_eq!([next_number(&mut link), next_number(&mut link)], [1, 1]);
}

/// TAO's `-AllowReconnect`: a program that knows its proxy connects to it anew, from another place. It was `AlreadyConnected`.
#[test]
fn a_client_that_connects_anew_to_a_connected_proxy_gets_what_waits_there_where_that_is_allowed() {
    let compatibility = Compatibility { allow_reconnect: true, ..Compatibility::default() };
    let service = start_with(Config { compatibility, ..Config::default() });
    let supplier = supply(&service);
    let (before, after) = (Bare::new(), Bare::new());
    let proxy = StructuredProxyPushSupplier::unchecked(subscribe(&service, before.reference(), &[]));
    supplier.publish(&numbered(0)).unwrap();
    let mut link = before.accept();
    assert_eq!(next_number(&mut link), 0);
    // With one on its way that is never answered.
    supplier.publish(&numbered(1)).unwrap();
    assert_eq!(link.push().1.field("number"), Some(&giop::value::Value::Long(1)));
    drop((link, before));
    let reference = Orb::new(OrbOptions::default()).object(after.reference());
    proxy.connect_structured_push_consumer(&reference).unwrap();
    supplier.publish(&numbered(2)).unwrap();
    let mut link = after.accept();
    assert_eq!([next_number(&mut link), next_number(&mut link)], [1, 2]);
    assert_eq!(states(&service).len(), 1);
}
