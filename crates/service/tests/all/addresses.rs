//! References with several addresses, of which some lead nowhere.

use client::notify::{
    ClientType, Filter, Property, ProxySupplier, StructuredProxyPullConsumer, StructuredProxyPushConsumer,
};
use client::{Orb, OrbOptions};
use giop::cdr::{CharSet, Endian, Version};
use giop::ior::{Component, Ior, Profile};
use giop::message::{self, ReplyHead, ReplyStatus, Request};
use service::{Config, Counter, Naming};
use std::io::Write;
use std::net::TcpListener;

use crate::kinds::{Consumer, Model, Supplier, event_of, new_channel};
use crate::peers::{
    Bare, Link, await_count, numbered, publish_numbered, start, start_with, subscribe, supply, wait_until,
};

/// Another address of the machine, at which nothing listens on a port that was free.
fn dead() -> (String, u16) {
    let listener = TcpListener::bind("127.0.0.9:0").unwrap();
    ("127.0.0.9".into(), listener.local_addr().unwrap().port())
}

/// A reference to a bare peer with a first profile that leads nowhere, and a second one to the peer.
fn second_profile(bare: &Bare) -> Ior {
    let alive = bare.reference();
    let mut profiles = alive.profiles.clone();
    if let Some(Profile::Iiop(profile)) = profiles.first_mut() {
        (profile.host, profile.port) = dead();
        profile.key = b"elsewhere".to_vec();
    }
    Ior { profiles: profiles.into_iter().chain(alive.profiles).collect(), ..alive }
}

/// A reference with a profile that leads nowhere, and has the peer as a `TAG_ALTERNATE_IIOP_ADDRESS`.
fn alternate_address(bare: &Bare) -> Ior {
    let mut reference = bare.reference();
    if let Some(Profile::Iiop(profile)) = reference.profiles.first_mut() {
        profile.components.push(Component::alternate_address(&profile.host, profile.port));
        (profile.host, profile.port) = dead();
    }
    reference
}

fn of_type(type_id: &str, reference: Ior) -> Ior {
    Ior { type_id: type_id.into(), ..reference }
}

/// Answers the next request, which is for that operation, with a result.
fn answer(link: &mut Link, operation: &str, write: impl FnOnce(&mut giop::cdr::Writer<'_>)) {
    let (header, bytes) = link.message().unwrap();
    let request = Request::parse(&bytes, &header).unwrap();
    assert_eq!(String::from_utf8_lossy(request.operation), operation);
    let head = ReplyHead {
        version: Version::V1_2,
        endian: Endian::Big,
        request_id: request.request_id,
        status: ReplyStatus::NoException,
        contexts: &[],
    };
    let mut reply = Vec::new();
    let open = message::begin_reply(&mut reply, &head);
    write(&mut open.body(&mut reply, CharSet::Latin1));
    open.finish(&mut reply);
    link.stream.write_all(&reply).unwrap();
}

/// The first address of a reference was the only one that was ever called: of three events none arrived where another ORB finds the
/// object.
#[test]
fn a_consumer_whose_first_address_is_dead_gets_all_events_at_its_second() {
    for reference in [second_profile, alternate_address] {
        let service = start();
        let consumer = Bare::new();
        subscribe(&service, reference(&consumer), &[]);
        let supplier = supply(&service);
        publish_numbered(&supplier, 0..3);
        let mut link = consumer.accept();
        link.accept_numbered(0..3);
        await_count(&service, Counter::Delivered, 3);
        let read = |counter| service.counters().read(counter);
        assert_eq!([Counter::ConnectsFailed, Counter::AlternativeAddresses].map(read), [1, 1]);
        // The one that answered is remembered, though the connection is lost.
        drop(link);
        supplier.publish(&numbered(3)).unwrap();
        assert_eq!(consumer.accept().accept_push(), numbered(3));
        assert_eq!(read(Counter::ConnectsFailed), 1);
    }
}

#[test]
fn a_consumer_none_of_whose_addresses_answers_is_tried_at_each_and_again_later() {
    let service = start();
    let consumer = Bare::new();
    let mut reference = alternate_address(&consumer);
    let location = consumer.location();
    drop(consumer);
    let qos = [Property::new("GiveUpAfter", 600_000_000_u64)];
    // More than are tried: the last is passed over.
    if let Some(Profile::Iiop(profile)) = reference.profiles.first_mut() {
        for last in 20..27 {
            profile.components.push(Component::alternate_address(&format!("127.0.0.{last}"), location.port()));
        }
    }
    subscribe(&service, reference, &qos);
    supply(&service).publish(&numbered(7)).unwrap();
    wait_until("each to be tried twice", || service.counters().read(Counter::ConnectsFailed) >= 16);
    assert!(service.counters().read(Counter::ReferenceAddressesLeftOut) > 0);
    let consumer = Bare { listener: TcpListener::bind(location).unwrap() };
    assert_eq!(consumer.accept().accept_push(), numbered(7));
}

#[test]
fn a_supplier_whose_first_address_is_dead_is_pulled_from_at_its_second() {
    for reference in [second_profile, alternate_address] {
        let service = start();
        let channel = new_channel(&service);
        let consumer = Consumer::new(&channel, ClientType::Structured, Model::Push);
        let bare = Bare::new();
        let admin = channel.default_supplier_admin().unwrap();
        let proxy = admin.obtain_notification_pull_consumer(ClientType::Structured).unwrap().0;
        let reference = of_type("IDL:omg.org/CosNotifyComm/StructuredPullSupplier:1.0", reference(&bare));
        StructuredProxyPullConsumer::unchecked(proxy.object().clone())
            .connect_structured_pull_supplier(&proxy.object().orb().object(reference))
            .unwrap();
        let mut link = bare.accept();
        for number in 0..3 {
            answer(&mut link, "try_pull_structured_event", |body| {
                event_of("Pull", number).write(body).unwrap();
                body.bool(true);
            });
        }
        assert_eq!(consumer.numbers(3), [0, 1, 2]);
        let read = |counter| service.counters().read(counter);
        assert_eq!([Counter::ConnectsFailed, Counter::PollsFailed].map(read), [1, 0]);
    }
}

#[test]
fn a_filter_whose_first_address_is_dead_is_asked_at_its_second_and_no_event_is_dropped() {
    for reference in [second_profile, alternate_address] {
        let service = start();
        let channel = new_channel(&service);
        let bare = Bare::new();
        let orb = Orb::new(OrbOptions::default());
        let filter = orb.object(of_type("IDL:omg.org/CosNotifyFilter/Filter:1.0", reference(&bare)));
        let proxy = Consumer::obtain(&channel, ClientType::Structured, Model::Push);
        ProxySupplier::unchecked(proxy.clone()).add_filter(&Filter::unchecked(filter)).unwrap();
        let consumer = Consumer::connect(proxy, ClientType::Structured, Model::Push);
        let supplier = Supplier::new(&channel, ClientType::Structured, Model::Push);
        supplier.give("Filtered", 0..3);
        let mut link = bare.accept();
        (0..3).for_each(|_| answer(&mut link, "match_structured", |body| body.bool(true)));
        assert_eq!(consumer.numbers(3), [0, 1, 2]);
        assert_eq!(service.counters().read(Counter::DroppedFilterFailed), 0);
    }
}

#[test]
fn a_client_whose_first_address_is_dead_answers_probes_at_its_second_and_stays() {
    for reference in [second_profile, alternate_address] {
        let service = start();
        let channel = new_channel(&service);
        let limits = [Property::new("ProbeInterval", 1_000_000_u64), Property::new("GiveUpAfter", 600_000_000_u64)];
        channel.set_qos(&limits).unwrap();
        let admin = channel.default_supplier_admin().unwrap();
        let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
        let bare = Bare::new();
        let reference = of_type("IDL:omg.org/CosNotifyComm/StructuredPushSupplier:1.0", reference(&bare));
        StructuredProxyPushConsumer::unchecked(proxy.object().clone())
            .connect_structured_push_supplier(Some(&proxy.object().orb().object(reference)))
            .unwrap();
        for _ in 0..6 {
            // A connection may go unused between two probes.
            let mut link = bare.accept();
            answer(&mut link, "_non_existent", |body| body.bool(false));
        }
        assert!(!proxy.object().non_existent().unwrap());
        assert_eq!(service.counters().read(Counter::ConnectsFailed), 1);
    }
}

#[test]
fn the_factory_is_bound_in_the_naming_service_that_answers_at_the_second_address() {
    let names = Bare::new();
    let (host, port) = dead();
    let url = format!("corbaloc:iiop:1.2@{host}:{port},iiop:1.2@{}/NameService", names.location());
    let service = start_with(Config { naming: Naming { outside: Some(url) }, ..Config::default() });
    let mut link = names.accept();
    answer(&mut link, "rebind", |_| {});
    wait_until("the announcement", || service.is_announced());
}

/// A reference of which one address is not to be called was refused as a whole.
#[test]
fn an_address_that_must_not_be_called_is_passed_over_and_the_next_is_called() {
    let service = start();
    let consumer = Bare::new();
    let mut reference = alternate_address(&consumer);
    if let Some(Profile::Iiop(profile)) = reference.profiles.first_mut() {
        profile.host = "169.254.169.254".into();
    }
    subscribe(&service, reference, &[]);
    supply(&service).publish(&numbered(1)).unwrap();
    assert_eq!(consumer.accept().accept_push(), numbered(1));
    assert_eq!(service.counters().read(Counter::OutgoingRefused), 1);
}
