//! Consumers that do unusual things on the wire, played with bare sockets.

use std::collections::BTreeMap;
use std::io::Write;

use client::notify::{Property, StructuredEvent, StructuredProxyPushSupplier};
use giop::cdr::{CharSet, Endian, Version};
use giop::codeset::{self, CodeSetInfo};
use giop::ior::{Ior, Profile};
use giop::message::{self, MessageKind, ReplyStatus, Request, RequestHead, Response, ServiceContexts};
use giop::url::Corbaloc;
use service::{Config, Counter, DeclaredChannel, Delivery, Naming};
use testing::{EndInTime, TempPath};

use crate::peers::{
    Bare, BareSupplier, REQUEST, assert_serves, numbered, publish_numbered, start, start_with, subscribe, supply,
    wait_until,
};

#[test]
fn a_consumer_named_by_host_is_found() {
    let service = start();
    let consumer = Bare::at("127.0.0.1");
    subscribe(&service, consumer.reference_by("localhost"), &[]);
    supply(&service).publish(&numbered(1)).unwrap();
    assert_eq!(consumer.accept().accept_push(), numbered(1));
}

#[test]
fn a_consumer_whose_host_has_no_address_is_given_up() {
    let service = start();
    let consumer = Bare::new();
    let qos = [Property::new("GiveUpAfter", 1_000_000_u64)];
    let proxy = subscribe(&service, consumer.reference_by("no-such-host.invalid"), &qos);
    supply(&service).publish(&numbered(1)).unwrap();
    wait_until("the consumer to be given up", || service.counters().read(Counter::ConsumersGivenUp) == 1);
    wait_until("its proxy to be gone", || proxy.non_existent().unwrap());
}

#[test]
fn a_consumer_that_forwards_gets_its_events_where_it_points() {
    let service = start();
    let (first, second) = (Bare::new(), Bare::new());
    subscribe(&service, first.reference(), &[]);
    let supplier = supply(&service);
    publish_numbered(&supplier, 0..3);
    let mut link = first.accept();
    let (request_id, event) = link.push();
    assert_eq!(event, numbered(0));
    link.reply(request_id, ReplyStatus::LocationForward, Some(&second.reference()));
    let mut link = second.accept();
    link.accept_numbered(0..3);
    wait_until("the last reply", || service.counters().read(Counter::Delivered) == 3);
}

#[test]
fn a_consumer_that_forwards_to_itself_for_ever_is_not_followed_for_ever() {
    let service = start();
    let consumer = Bare::new();
    let qos = [Property::new("GiveUpAfter", 1_000_000_u64)];
    subscribe(&service, consumer.reference(), &qos);
    supply(&service).publish(&numbered(0)).unwrap();
    let mut link = consumer.accept();
    while service.counters().read(Counter::ConsumersGivenUp) == 0 {
        let Some((header, bytes)) = link.message() else { break };
        let request = Request::parse(&bytes, &header).unwrap();
        link.reply(request.request_id, ReplyStatus::LocationForward, Some(&consumer.reference()));
    }
    wait_until("the consumer to be given up", || service.counters().read(Counter::ConsumersGivenUp) == 1);
}

#[test]
fn a_consumer_that_forwards_to_a_proxy_of_the_service_is_not_followed_there() {
    // The check for loops made on connecting was got round so, and one event was taken in and delivered 770,000 times, by
    // whatever name of the host the reference had.
    let service = start();
    let (consumer, other) = (Bare::new(), Bare::new());
    let qos = [Property::new("GiveUpAfter", 1_000_000_u64)];
    subscribe(&service, consumer.reference(), &qos);
    let proxy = String::from_utf8(BareSupplier::new(&service, None).key).unwrap();
    subscribe(&service, other.reference(), &[]);
    supply(&service).publish(&numbered(0)).unwrap();
    let here = format!("corbaloc::1.2@localhost:{}/{proxy}", service.address().port());
    let here = here.parse::<Corbaloc>().unwrap().to_ior("IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0");
    let mut link = consumer.accept();
    let mut tries = 0;
    while service.counters().read(Counter::ConsumersGivenUp) == 0 {
        let Some((header, bytes)) = link.message() else { break };
        let request = Request::parse(&bytes, &header).unwrap();
        link.reply(request.request_id, ReplyStatus::LocationForward, Some(&here));
        tries += 1;
    }
    wait_until("the consumer to be given up", || service.counters().read(Counter::ConsumersGivenUp) == 1);
    assert_eq!(other.accept().accept_push(), numbered(0));
    assert_eq!(service.counters().read(Counter::EventsIn), 1, "after {tries} tries");
    assert!(service.counters().read(Counter::ForwardsRefused) > 0);
}

#[test]
fn an_event_on_a_connection_that_breaks_is_sent_again_first() {
    let service = start();
    let consumer = Bare::new();
    subscribe(&service, consumer.reference(), &[]);
    let supplier = supply(&service);
    publish_numbered(&supplier, 0..5);
    let mut link = consumer.accept();
    assert_eq!(link.accept_push(), numbered(0));
    assert_eq!(link.push().1, numbered(1));
    drop(link);
    let mut link = consumer.accept();
    link.accept_numbered(1..5);
}

#[test]
fn a_consumer_that_closes_its_idle_connection_is_connected_to_again() {
    let service = start();
    let consumer = Bare::new();
    subscribe(&service, consumer.reference(), &[]);
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
    subscribe(&service, consumer.reference(), &[Property::new("ReplyTimeout", 1_000_000_u64)]);
    supply(&service).publish(&numbered(0)).unwrap();
    let mut link = consumer.accept();
    let (first, event) = link.push();
    assert_eq!(event, numbered(0));
    wait_until("the push to be given up", || service.counters().read(Counter::PushTimeouts) > 0);
    link.reply(first, ReplyStatus::NoException, None);
    // It is pushed again, until a reply comes in time. Each is either in time or late.
    let mut replies = 1;
    let count = |counter| service.counters().read(counter);
    while count(Counter::Delivered) == 0 {
        let (request_id, _) = link.push();
        link.reply(request_id, ReplyStatus::NoException, None);
        replies += 1;
        wait_until("the replies to be heard", || count(Counter::Delivered) + count(Counter::LateReplies) == replies);
    }
    assert!(count(Counter::PushTimeouts) >= 1);
    assert!(count(Counter::LateReplies) >= 1);
}

#[test]
fn a_consumer_that_answers_with_garbage_loses_its_connection_and_nothing_else() {
    let service = start();
    let (bad, good) = (Bare::new(), Bare::new());
    subscribe(&service, bad.reference(), &[]);
    subscribe(&service, good.reference(), &[]);
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
fn a_consumer_that_never_reads_fills_only_its_own_socket() {
    let service = start();
    let (stuck, good) = (Bare::new(), Bare::new());
    let window = [Property::new("PushWindow", 1024_u16)];
    subscribe(&service, stuck.reference(), &window);
    subscribe(&service, good.reference(), &window);
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
    let event = sent.end_in_time();
    // 50 MB wait for the one that has not read a byte; then it reads, and has missed nothing.
    let mut link = stuck.accept();
    for _ in 0..500 {
        assert_eq!(link.accept_push(), event);
    }
    assert_eq!(service.counters().read(Counter::Dropped), 0);
}

#[test]
fn a_one_way_consumer_that_is_dead_is_given_up_and_nothing_counts_as_delivered() {
    // Its events were taken for sent when they waited for a connection, so it swallowed events for ever.
    let service = start();
    let nowhere = Bare::new().reference();
    let qos = [Property::new("PushOneWay", true), Property::new("GiveUpAfter", 2_000_000_u64)];
    subscribe(&service, nowhere, &qos);
    let supplier = supply(&service);
    publish_numbered(&supplier, 0..10);
    wait_until("the consumer to be given up", || service.counters().read(Counter::ConsumersGivenUp) == 1);
    assert_eq!(service.counters().read(Counter::Delivered), 0);
}

#[test]
fn a_one_way_consumer_gets_what_came_while_its_connection_was_made() {
    let service = start();
    let consumer = Bare::at("127.0.0.1");
    subscribe(&service, consumer.reference_by("localhost"), &[Property::new("PushOneWay", true)]);
    let supplier = supply(&service);
    publish_numbered(&supplier, 0..50);
    let mut link = consumer.accept();
    for number in 0..50 {
        let (header, bytes) = link.message().unwrap();
        let request = Request::parse(&bytes, &header).unwrap();
        assert_eq!(request.response, Response::None);
        let event = StructuredEvent::read(&mut request.body(&bytes, &header, CharSet::Latin1)).unwrap();
        assert_eq!(event, numbered(number));
    }
}

#[test]
fn a_consumer_is_looked_for_at_its_own_address_when_it_is_gone_from_where_it_was_forwarded() {
    let service = start();
    let (first, second) = (Bare::new(), Bare::new());
    subscribe(&service, first.reference(), &[]);
    let supplier = supply(&service);
    supplier.publish(&numbered(0)).unwrap();
    let mut at_first = first.accept();
    let (request_id, _) = at_first.push();
    at_first.reply(request_id, ReplyStatus::LocationForward, Some(&second.reference()));
    let mut at_second = second.accept();
    assert_eq!(at_second.accept_push(), numbered(0));
    drop((at_second, second));
    supplier.publish(&numbered(1)).unwrap();
    assert_eq!(at_first.accept_push(), numbered(1));
}

#[test]
fn a_consumer_may_move_as_often_as_it_likes() {
    let service = start();
    let consumer = Bare::new();
    subscribe(&service, consumer.reference(), &[]);
    let supplier = supply(&service);
    supplier.publish(&numbered(0)).unwrap();
    let mut link = consumer.accept();
    for number in 0..20 {
        let (request_id, event) = link.push();
        assert_eq!(event, numbered(number));
        link.reply(request_id, ReplyStatus::LocationForward, Some(&consumer.reference()));
        assert_eq!(link.accept_push(), numbered(number));
        supplier.publish(&numbered(number + 1)).unwrap();
    }
    assert_eq!(service.counters().read(Counter::PushExceptions), 0);
}

#[test]
fn a_forward_while_several_pushes_are_unanswered_keeps_the_order() {
    let service = start();
    let (first, second) = (Bare::new(), Bare::new());
    subscribe(&service, first.reference(), &[Property::new("PushWindow", 16_u16)]);
    let supplier = supply(&service);
    publish_numbered(&supplier, 0..32);
    let mut at_first = first.accept();
    let asked: Vec<u32> = (0..16).map(|_| at_first.push().0).collect();
    // The first three are taken, and all others sent on; each says so.
    for request_id in &asked[..3] {
        at_first.reply(*request_id, ReplyStatus::NoException, None);
    }
    for request_id in &asked[3..] {
        at_first.reply(*request_id, ReplyStatus::LocationForward, Some(&second.reference()));
    }
    let mut at_second = second.accept();
    // Pushes that the first reply made room for may have gone to the first place too.
    at_second.accept_numbered(3..32);
    wait_until("the last reply", || service.counters().read(Counter::Delivered) == 32);
    assert_eq!(service.counters().read(Counter::PushExceptions), 0);
}

#[test]
fn when_one_push_is_given_up_so_are_all_that_were_sent_behind_it() {
    // Only the overdue one was taken off the list, and the others stayed there for as long as the connection.
    let service = start();
    let consumer = Bare::new();
    let qos = [Property::new("PushWindow", 4_u16), Property::new("ReplyTimeout", 1_000_000_u64)];
    subscribe(&service, consumer.reference(), &qos);
    let mut supplier = BareSupplier::new(&service, None);
    // All at once: of those that came one by one the first might time out before the last has come.
    let pushes = (0..4).map(|number| supplier.push_message(&REQUEST, CharSet::Latin1, &numbered(number)));
    let pushes: Vec<u8> = pushes.flatten().collect();
    supplier.stream.write_all(&pushes).unwrap();
    let mut link = consumer.accept();
    for number in 0..4 {
        assert_eq!(link.push().1, numbered(number));
    }
    // They come again in their order, and once more if a reply is late.
    let mut next = 0;
    while next < 4 {
        let (request_id, event) = link.push();
        link.reply(request_id, ReplyStatus::NoException, None);
        let expected = (0..4).find(|number| numbered(*number) == event).unwrap();
        assert!(expected <= next, "{expected} before {next}");
        next = next.max(expected + 1);
    }
}

#[test]
fn the_connection_of_a_consumer_that_is_gone_is_closed_although_it_never_answered() {
    let service = start();
    let consumer = Bare::new();
    let proxy = subscribe(&service, consumer.reference(), &[]);
    supply(&service).publish(&numbered(0)).unwrap();
    let mut link = consumer.accept();
    link.push();
    StructuredProxyPushSupplier::unchecked(proxy).disconnect_structured_push_supplier().unwrap();
    while link.message().is_some() {}
}

#[test]
fn a_connection_on_which_nothing_is_answered_is_replaced() {
    // A firewall that was restarted drops what belongs to connections it does not know. The consumer is there all the same.
    let delivery = Delivery { reply_timeout_ms: 100, ..Delivery::default() };
    let service = start_with(Config { delivery, ..Config::default() });
    let consumer = Bare::new();
    subscribe(&service, consumer.reference(), &[]);
    supply(&service).publish(&numbered(0)).unwrap();
    let mut link = consumer.accept();
    assert_eq!(link.push().1, numbered(0));
    assert_eq!(consumer.accept().accept_push(), numbered(0));
}

#[test]
fn pushes_do_not_pile_up_on_a_connection_that_takes_nothing() {
    let service = start();
    let consumer = Bare::new();
    // Times out and is tried again about ten times while it is not read.
    let qos = [Property::new("ReplyTimeout", 100_000_u64), Property::new("GiveUpAfter", 0_u64)];
    subscribe(&service, consumer.reference(), &qos);
    let mut event = numbered(0);
    event.remainder = "x".repeat(10_000_000).as_str().into();
    supply(&service).publish(&event).unwrap();
    let mut link = consumer.accept();
    wait_until("some tries", || service.counters().read(Counter::PushTimeouts) >= 5);
    assert_eq!(service.counters().read(Counter::PushesSent), 1);
    // Then it is read, and what was asked for first can be answered.
    let (header, bytes) = link.message().unwrap();
    assert_eq!(Request::parse(&bytes, &header).unwrap().operation, b"push_structured_event");
    loop {
        let (header, bytes) = link.message().unwrap();
        if header.kind == MessageKind::Request {
            let request = Request::parse(&bytes, &header).unwrap();
            link.reply(request.request_id, ReplyStatus::NoException, None);
            break;
        }
    }
}

#[test]
fn a_consumer_of_an_older_giop_version_is_called_in_it() {
    let service = start();
    for version in [Version::V1_0, Version::V1_1] {
        let consumer = Bare::new();
        let proxy = subscribe(&service, consumer.reference_in(version), &[]);
        let supplier = supply(&service);
        publish_numbered(&supplier, 0..3);
        let mut link = consumer.accept();
        for number in 0..3 {
            let (header, bytes) = link.message().unwrap();
            assert_eq!(header.version, version);
            let request = Request::parse(&bytes, &header).unwrap();
            let event = StructuredEvent::read(&mut request.body(&bytes, &header, CharSet::Latin1)).unwrap();
            assert_eq!(event, numbered(number));
            link.reply_in(version, request.request_id, ReplyStatus::NoException, None);
        }
        StructuredProxyPushSupplier::unchecked(proxy).disconnect_structured_push_supplier().unwrap();
    }
}

#[test]
fn events_in_different_code_sets_come_over_different_connections() {
    let service = start();
    let consumer = Bare::new();
    let mut reference = consumer.reference();
    // It takes both, and says so.
    let info = CodeSetInfo::campanile().to_component();
    reference.profiles.iter_mut().for_each(|profile| {
        if let Profile::Iiop(profile) = profile {
            profile.components.push(info.clone());
        }
    });
    subscribe(&service, reference, &[]);
    let mut links = Vec::new();
    for chars in [CharSet::Latin1, CharSet::Utf8] {
        let mut supplier = BareSupplier::new(&service, None);
        let context = codeset::context(chars, Endian::Little);
        let head = RequestHead { contexts: &[(ServiceContexts::CODE_SETS, &context)], ..REQUEST };
        let mut event = numbered(1);
        event.event_name = "Fächer".into();
        let push = supplier.push_message(&head, chars, &event);
        supplier.stream.write_all(&push).unwrap();
        let mut link = consumer.accept();
        let (header, bytes) = link.message().unwrap();
        let request = Request::parse(&bytes, &header).unwrap();
        let told = request.contexts.find(ServiceContexts::CODE_SETS).expect("the first request names the code set");
        assert_eq!(codeset::parse_context(told).unwrap(), chars);
        assert_eq!(StructuredEvent::read(&mut request.body(&bytes, &header, chars)).unwrap(), event);
        link.reply(request.request_id, ReplyStatus::NoException, None);
        links.push(link);
    }
}

#[test]
fn a_service_is_announced_when_the_outside_naming_service_has_its_name_and_not_before() {
    // Clients start on the reference file and on the line that says "ready", and then did not find the name.
    let front = Bare::new();
    let url = format!("corbaloc:iiop:1.2@{}/NameService", front.location());
    let naming = Naming { outside: Some(url) };
    let file = TempPath::file("announced.ior", "of an earlier run");
    let service =
        start_with(Config { naming: naming.clone(), ior_file: Some(file.to_path_buf()), ..Config::default() });
    let (announced, told) = std::sync::mpsc::channel();
    service.when_announced(move || announced.send(()).unwrap());
    let mut link = front.accept();
    let (header, bytes) = link.message().unwrap();
    let request = Request::parse(&bytes, &header).unwrap();
    assert_serves(&service);
    assert!(!file.exists() && !service.is_announced() && told.try_recv().is_err());
    link.reply(request.request_id, ReplyStatus::NoException, None);
    wait_until("the announcement", || told.try_recv().is_ok());
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim_end(), service.reference());
    // A thread that waits for a naming service does not keep it from ending.
    let service = start_with(Config { naming, ..Config::default() });
    front.accept();
    service.shutdown();
}

/// `tao-notify -Channel -ChannelName X` bound X in the service's own naming service alone, where clients of TAO's did not look.
#[test]
fn declared_channels_are_bound_in_an_outside_naming_service_before_the_factory() {
    let front = Bare::new();
    let url = format!("corbaloc:iiop:1.2@{}/NameService", front.location());
    let channel = |name: &str| DeclaredChannel {
        name: name.into(),
        properties: BTreeMap::new(),
        lane: Vec::new(),
        timers: Vec::new(),
    };
    let service = start_with(Config {
        naming: Naming { outside: Some(url) },
        channels: vec![channel("X"), channel("Y")],
        ..Config::default()
    });
    let mut link = front.accept();
    for name in ["X", "Y", "NotifyEventChannelFactory"] {
        assert!(!service.is_announced());
        let (header, bytes) = link.message().unwrap();
        let request = Request::parse(&bytes, &header).unwrap();
        let mut body = request.body(&bytes, &header, CharSet::Latin1);
        assert_eq!((body.u32().unwrap(), body.text().unwrap().as_str()), (1, name));
        assert_eq!(body.text().unwrap(), "");
        let bound = Ior::read(&mut body).unwrap();
        assert_eq!(bound.to_string() == service.reference(), name == "NotifyEventChannelFactory");
        link.reply(request.request_id, ReplyStatus::NoException, None);
    }
    wait_until("the announcement", || service.is_announced());
}

#[test]
fn the_factory_is_bound_in_an_outside_naming_service_even_behind_a_forward() {
    let (front, back) = (Bare::new(), Bare::new());
    let url = format!("corbaloc:iiop:1.2@{}/NameService", front.location());
    let naming = Naming { outside: Some(url) };
    let service = start_with(Config { naming, ..Config::default() });
    let mut link = front.accept();
    let (header, bytes) = link.message().unwrap();
    let request = Request::parse(&bytes, &header).unwrap();
    link.reply(request.request_id, ReplyStatus::LocationForward, Some(&back.reference()));
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
