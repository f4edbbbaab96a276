//! Clients that nobody can call, and that offer the connections that they made for that; and what else connections may list.

use client::notify::{ClientType, StructuredEvent, find_channel};
use client::{Orb, OrbOptions};
use giop::bidirectional;
use giop::cdr::{CharSet, Version, Writer};
use giop::ior::Ior;
use giop::message::{MessageKind, Reply, ReplyStatus, Request, RequestHead, ServiceContexts, close_connection};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use service::{AccessRule, Config, Counter, Giop, Service};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::access::{ALL, rule};
use crate::peers::{
    Bare, Link, REQUEST, await_count, numbered, publish_numbered, read, read_to_end, request_with, start_with,
    subscribe, supply, wait_until,
};
use crate::returning::states;

/// A service that calls clients over the connections that they offer.
fn start() -> Service {
    start_ruled(Vec::new())
}

fn start_ruled(access: Vec<AccessRule>) -> Service {
    start_with(Config { giop: Giop { bidirectional: true }, access, ..Config::default() })
}

/// An address at which nothing listens.
fn hidden() -> (String, u16) {
    let listener = TcpListener::bind("127.0.0.9:0").unwrap();
    ("127.0.0.9".into(), listener.local_addr().unwrap().port())
}

fn reference_at((host, port): &(String, u16), interface: &str) -> Ior {
    let location: giop::url::Corbaloc = format!("corbaloc:iiop:1.2@{host}:{port}/bare").parse().unwrap();
    location.to_ior(&format!("IDL:omg.org/CosNotifyComm/{interface}:1.0"))
}

/// A connection to a service from an address of this machine.
fn connect_from(service: &Service, ip: [u8; 4]) -> Link {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((ip, 0))).unwrap();
    connect(&socket, &service.address()).unwrap();
    Link::over(TcpStream::from(socket))
}

const LOCAL: [u8; 4] = [127, 0, 0, 1];
const ELSEWHERE: [u8; 4] = [127, 0, 0, 2];

/// Sends a request on which addresses are listed, and gives the status of its reply.
fn call(
    link: &mut Link,
    (key, operation): (&[u8], &str),
    listed: &[(&str, u16)],
    body: impl FnOnce(&mut Writer<'_>),
) -> ReplyStatus {
    let context = bidirectional::context(listed.iter().copied());
    call_with(link, (key, operation), &context, body)
}

fn call_with(
    link: &mut Link,
    (key, operation): (&[u8], &str),
    context: &[u8],
    body: impl FnOnce(&mut Writer<'_>),
) -> ReplyStatus {
    let contexts = [(ServiceContexts::BI_DIR_IIOP, context)];
    // The numbers of the side that has connected are even.
    let head = RequestHead { request_id: 8, key, operation: operation.as_bytes(), contexts: &contexts, ..REQUEST };
    link.stream.write_all(&request_with(&head, CharSet::Latin1, body)).unwrap();
    let (header, bytes) = link.reply_to_own();
    assert_eq!(header.kind, MessageKind::Reply);
    let reply = Reply::parse(&bytes, &header).unwrap();
    assert_eq!(reply.request_id, 8);
    reply.status
}

/// The key of a proxy for a consumer of structured events, not connected.
fn proxy(service: &Service) -> Vec<u8> {
    let orb = Orb::new(OrbOptions::default());
    let found = orb.resolve(&service.corbaloc("NotificationService")).unwrap();
    let admin = find_channel(&found, None).unwrap().0.default_consumer_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
    proxy.object().ior().iiop().unwrap().key.clone()
}

/// Connects a consumer at an address, by a request that lists others.
fn subscribe_over(link: &mut Link, proxy: &[u8], at: &(String, u16), listed: &[(&str, u16)]) {
    let reference = reference_at(at, "StructuredPushConsumer");
    let status = call(link, (proxy, "connect_structured_push_consumer"), listed, |w| reference.write(w));
    assert_eq!(status, ReplyStatus::NoException);
}

/// A consumer that is called over its own connection, that connection and the proxy's key.
fn offering(service: &Service, at: &(String, u16)) -> (Link, Vec<u8>) {
    let (mut link, proxy) = (connect_from(service, LOCAL), proxy(service));
    subscribe_over(&mut link, &proxy, at, &[("192.0.2.1", 9), (&at.0, at.1)]);
    (link, proxy)
}

/// Asks a proxy whether it exists, over a connection that lists an address.
fn ask(link: &mut Link, proxy: &[u8], at: &(String, u16)) {
    ask_listing(link, proxy, &[(&at.0, at.1)]);
}

fn ask_listing(link: &mut Link, proxy: &[u8], listed: &[(&str, u16)]) {
    assert_eq!(call(link, (proxy, "_non_existent"), listed, |_| {}), ReplyStatus::NoException);
}

fn has_nothing(link: &mut Link) -> bool {
    link.stream.set_nonblocking(true).unwrap();
    let peeked = link.stream.peek(&mut [0]);
    link.stream.set_nonblocking(false).unwrap();
    peeked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn a_consumer_is_called_over_the_connection_that_it_offers_and_makes_its_own_calls_there() {
    let service = start();
    let at = hidden();
    let (mut link, proxy) = offering(&service, &at);
    let supplier = supply(&service);
    publish_numbered(&supplier, 0..3);
    for number in 0..3 {
        let (request_id, event) = link.push();
        // Those of the side that has accepted are odd.
        assert_eq!((request_id, event), (1 + 2 * u32::try_from(number).unwrap(), numbered(number)));
        link.reply(request_id, ReplyStatus::NoException, None);
    }
    await_count(&service, Counter::Delivered, 3);
    ask(&mut link, &proxy, &at);
    supplier.publish(&numbered(3)).unwrap();
    assert_eq!(link.accept_push(), numbered(3));
    await_count(&service, Counter::Delivered, 4);
    let counted = [Counter::BidirectionalConnections, Counter::BidirectionalPushes, Counter::ConnectsBegun];
    assert_eq!(counted.map(|counter| read(&service, counter)), [1, 4, 0]);
    let states = states(&service);
    assert_eq!(states, ["active, OFFERS ITS OWN CONNECTION"]);
    // Of the end of its proxy it is told there, too, behind the answer.
    let done = call(&mut link, (&proxy, "disconnect_structured_push_supplier"), &[], |_| {});
    assert_eq!(done, ReplyStatus::NoException);
    let (header, bytes) = link.message().unwrap();
    let request = Request::parse(&bytes, &header).unwrap();
    assert_eq!(request.operation, b"disconnect_structured_push_consumer");
    assert_eq!(request.request_id, 9);
    link.reply(request.request_id, ReplyStatus::NoException, None);
    assert_eq!(read(&service, Counter::ConnectsBegun), 0);
    drop(link);
    await_count(&service, Counter::BidirectionalConnections, 0);
}

#[test]
fn a_supplier_is_pulled_from_over_the_connection_that_it_offers() {
    let service = start();
    let at = hidden();
    let orb = Orb::new(OrbOptions::default());
    let found = orb.resolve(&service.corbaloc("NotificationService")).unwrap();
    let admin = find_channel(&found, None).unwrap().0.default_supplier_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_pull_consumer(ClientType::Structured).unwrap();
    let key = proxy.object().ior().iiop().unwrap().key.clone();
    let reference = reference_at(&at, "StructuredPullSupplier");
    let mut link = connect_from(&service, LOCAL);
    let context = bidirectional::context([(&*at.0, at.1)]);
    let contexts = [(ServiceContexts::BI_DIR_IIOP, &*context)];
    let head = RequestHead {
        request_id: 8,
        key: &key,
        operation: b"connect_structured_pull_supplier",
        contexts: &contexts,
        ..REQUEST
    };
    link.stream.write_all(&request_with(&head, CharSet::Latin1, |w| reference.write(w))).unwrap();
    // The first pull may come before the answer.
    let mut messages = [link.message().unwrap(), link.message().unwrap()];
    messages.sort_by_key(|(header, _)| header.kind == MessageKind::Reply);
    let [(header, bytes), (of_answer, answer)] = &messages;
    assert_eq!(Reply::parse(answer, of_answer).unwrap().status, ReplyStatus::NoException);
    let request = Request::parse(bytes, header).unwrap();
    assert_eq!((request.operation, request.request_id % 2), (&b"try_pull_structured_event"[..], 1));
    assert_eq!(read(&service, Counter::ConnectsBegun), 0);
}

/// A listing would have another client's events come here, if it were believed.
#[test]
fn addresses_of_others_may_be_listed_and_nothing_goes_elsewhere_for_that() {
    let service = start();
    let victim = Bare::new();
    let of_victim = (victim.location().ip().to_string(), victim.location().port());
    let own = (service.address().ip().to_string(), service.address().port());
    // Before the other connects, and after.
    let mut thieves = [connect_from(&service, LOCAL), connect_from(&service, LOCAL)];
    let claim = |thief: &mut Link| {
        let listed = [(&*of_victim.0, of_victim.1), (&*own.0, own.1), ("localhost", own.1)];
        let is_a = |w: &mut Writer<'_>| w.string("IDL:omg.org/CORBA/Object:1.0");
        assert_eq!(call(thief, (b"NotificationService", "_is_a"), &listed, is_a), ReplyStatus::NoException);
    };
    claim(&mut thieves[0]);
    subscribe(&service, victim.reference(), &[]);
    claim(&mut thieves[1]);
    // One says that its own object is there: it gets the events of its own proxy, and the other those of the other's.
    let of_thief = proxy(&service);
    subscribe_over(&mut thieves[1], &of_thief, &of_victim, &[]);
    publish_numbered(&supply(&service), 0..3);
    thieves[1].accept_numbered(0..3);
    let mut link = victim.accept();
    link.accept_numbered(0..3);
    await_count(&service, Counter::Delivered, 6);
    assert_eq!(read(&service, Counter::BidirectionalPushes), 3);
    // The reply is what comes first.
    claim(&mut thieves[0]);
    assert!(thieves.iter_mut().all(has_nothing));
}

#[test]
fn a_list_that_cannot_be_read_is_counted_and_the_request_is_served() {
    let service = start();
    let at = hidden();
    let whole = bidirectional::context([(&*at.0, at.1)]);
    let mut link = connect_from(&service, LOCAL);
    let key = proxy(&service);
    for (refused, context) in [&whole[..whole.len() - 1], &whole[..3], &[]].into_iter().enumerate() {
        let status = call_with(&mut link, (&key, "_non_existent"), context, |_| {});
        assert_eq!(status, ReplyStatus::NoException);
        await_count(&service, Counter::ListenPointsRefused, refused as u64 + 1);
    }
    assert_eq!(read(&service, Counter::BidirectionalConnections), 0);
}

#[test]
fn of_the_addresses_of_a_connection_the_first_are_taken_and_the_others_counted() {
    let service = start();
    let at = hidden();
    let others: Vec<_> = (1..1_000).map(|port| ("192.0.2.1", port)).collect();
    let mut link = connect_from(&service, LOCAL);
    let key = proxy(&service);
    // Its own address comes last, after that in a list of its own, which is one too many then.
    ask_listing(&mut link, &key, &[&others[..], &[(&at.0, at.1)]].concat());
    await_count(&service, Counter::ListenPointsRefused, 984);
    subscribe_over(&mut link, &key, &at, &[(&at.0, at.1)]);
    await_count(&service, Counter::ListenPointsRefused, 985);
    let supplier = supply(&service);
    supplier.publish(&numbered(0)).unwrap();
    // It is called at its address, as nothing else was said.
    wait_until("a vain attempt", || read(&service, Counter::ConnectsFailed) >= 1);
    assert!(has_nothing(&mut link) && read(&service, Counter::BidirectionalPushes) == 0);
    // On another connection it comes first.
    let mut link = connect_from(&service, LOCAL);
    ask_listing(&mut link, &key, &[&[(&*at.0, at.1)], &others[..]].concat());
    assert_eq!(link.accept_push(), numbered(0));
    assert_eq!(read(&service, Counter::ListenPointsRefused), 985 + 984);
}

#[test]
fn a_reply_that_nobody_asked_for_ends_its_connection() {
    let service = start();
    let at = hidden();
    // Of the client's own numbers, of those to come, and from one that offers nothing.
    for (number, request_id) in [2, 8, 5, u32::MAX, 1].into_iter().enumerate() {
        let mut link = if request_id == 1 { connect_from(&service, LOCAL) } else { offering(&service, &at).0 };
        link.reply(request_id, ReplyStatus::NoException, None);
        assert_eq!(read_to_end(&mut link.stream), [MessageKind::MessageError], "{request_id}");
        await_count(&service, Counter::ProtocolErrors, number as u64 + 1);
    }
    await_count(&service, Counter::BidirectionalConnections, 0);
}

#[test]
fn a_connection_that_is_gone_is_replaced_by_one_on_which_its_owner_uses_the_proxy_and_by_no_other() {
    // With rules that admit both alike, the one may do with the other's proxy whatever it may do with its own.
    for access in [Vec::new(), vec![rule(&["127.0.0.0/8"], &ALL, &["*"], &[], true)]] {
        let service = start_ruled(access);
        let at = hidden();
        let (mut first, proxy) = offering(&service, &at);
        let mut stranger = connect_from(&service, ELSEWHERE);
        ask(&mut stranger, &proxy, &at);
        // A connection of the owner's that has asked for something else does not count either.
        let mut other = connect_from(&service, LOCAL);
        ask(&mut other, &self::proxy(&service), &at);
        let supplier = supply(&service);
        publish_numbered(&supplier, 0..2);
        first.accept_numbered(0..1);
        // In the midst of a push.
        assert_eq!(first.push().1, numbered(1));
        drop(first);
        supplier.publish(&numbered(2)).unwrap();
        wait_until("a vain attempt", || read(&service, Counter::ConnectsFailed) >= 2);
        assert!(has_nothing(&mut stranger) && has_nothing(&mut other));
        ask(&mut other, &proxy, &at);
        other.accept_numbered(1..3);
        await_count(&service, Counter::Delivered, 3);
        assert!(has_nothing(&mut stranger));
        assert_eq!(read(&service, Counter::ConsumersGivenUp), 0);
    }
}

/// Each side says `CloseConnection` on such a connection, so an end without it is that of a process, although nothing was under way.
#[test]
fn a_consumer_whose_connection_ends_without_a_word_goes_on_at_its_proxy() {
    for (says_so, proxies) in [(false, 1), (true, 2)] {
        let service = start();
        let at = hidden();
        let (mut first, _) = offering(&service, &at);
        if says_so {
            let mut word = Vec::new();
            close_connection(&mut word, Version::V1_2);
            first.stream.write_all(&word).unwrap();
        }
        drop(first);
        await_count(&service, Counter::BidirectionalConnections, 0);
        let (mut second, _) = offering(&service, &at);
        publish_numbered(&supply(&service), 0..2);
        second.accept_numbered(0..2);
        assert_eq!(states(&service).len(), proxies);
    }
}

/// Its address is that of a NAT, as a rule, and may be another one tomorrow.
#[test]
fn a_consumer_that_comes_back_from_another_address_is_called_over_its_connection() {
    let service = start();
    let at = hidden();
    let (first, _) = offering(&service, &at);
    drop(first);
    await_count(&service, Counter::BidirectionalConnections, 0);
    let (mut second, own) = (connect_from(&service, ELSEWHERE), proxy(&service));
    subscribe_over(&mut second, &own, &at, &[(&at.0, at.1)]);
    publish_numbered(&supply(&service), 0..2);
    second.accept_numbered(0..2);
    assert_eq!(states(&service).len(), 2);
}

/// References can be guessed. Who connects another's first, and offers a connection, would get that one's events in its stead.
#[test]
fn nobody_goes_on_at_a_proxy_of_another_owner_that_is_called_over_a_connection() {
    let service = start();
    let victim = Bare::new();
    let at = (victim.location().ip().to_string(), victim.location().port());
    let (mut first, of_thief) = (connect_from(&service, LOCAL), proxy(&service));
    subscribe_over(&mut first, &of_thief, &at, &[(&at.0, at.1)]);
    let mut second = connect_from(&service, LOCAL);
    ask(&mut second, &of_thief, &at);
    // As if its process had died.
    drop(first);
    await_count(&service, Counter::BidirectionalConnections, 1);
    let (mut link, of_victim) = (connect_from(&service, ELSEWHERE), proxy(&service));
    subscribe_over(&mut link, &of_victim, &at, &[]);
    publish_numbered(&supply(&service), 0..2);
    victim.accept().accept_numbered(0..2);
    second.accept_numbered(0..2);
    await_count(&service, Counter::Delivered, 4);
    assert_eq!(states(&service).len(), 2);
}

/// An event that no socket takes at once.
fn large(number: i32) -> StructuredEvent {
    let mut event = numbered(number);
    event.remainder = "x".repeat(12 << 20).as_str().into();
    event
}

#[test]
fn a_reply_follows_an_event_of_which_a_part_was_written() {
    let service = start();
    let at = hidden();
    let (mut link, proxy) = offering(&service, &at);
    supply(&service).publish(&large(0)).unwrap();
    await_count(&service, Counter::BidirectionalPushes, 1);
    let before = read(&service, Counter::Requests);
    let head = RequestHead { request_id: 10, key: &proxy, operation: b"_non_existent", ..REQUEST };
    link.stream.write_all(&request_with(&head, CharSet::Latin1, |_| {})).unwrap();
    wait_until("the request to be served", || read(&service, Counter::Requests) > before);
    let (request_id, event) = link.push();
    assert_eq!(event, large(0));
    let (header, bytes) = link.message().unwrap();
    assert_eq!(Reply::parse(&bytes, &header).unwrap().request_id, 10);
    link.reply(request_id, ReplyStatus::NoException, None);
    await_count(&service, Counter::Delivered, 1);
}

#[test]
fn an_event_of_which_a_part_was_written_is_sent_again_whole() {
    let service = start();
    let at = hidden();
    let (mut first, proxy) = offering(&service, &at);
    supply(&service).publish(&large(0)).unwrap();
    first.stream.read_exact(&mut [0; 4096]).unwrap();
    drop(first);
    let mut second = connect_from(&service, LOCAL);
    ask(&mut second, &proxy, &at);
    assert_eq!(second.accept_push(), large(0));
    await_count(&service, Counter::Delivered, 1);
}

#[test]
fn nothing_is_taken_up_where_it_is_switched_off_or_the_version_has_none() {
    let service = start_with(Config::default());
    let (link, _) = offering(&service, &hidden());
    let other = start();
    let mut old = connect_from(&other, LOCAL);
    let key = proxy(&other);
    let at = hidden();
    let context = bidirectional::context([(&*at.0, at.1)]);
    let contexts = [(ServiceContexts::BI_DIR_IIOP, &*context)];
    let head = RequestHead {
        version: Version::V1_1,
        key: &key,
        operation: b"connect_structured_push_consumer",
        contexts: &contexts,
        ..REQUEST
    };
    let reference = reference_at(&at, "StructuredPushConsumer");
    old.stream.write_all(&request_with(&head, CharSet::Latin1, |w| reference.write(w))).unwrap();
    assert_eq!(old.message().unwrap().0.kind, MessageKind::Reply);
    for (service, mut link) in [(&service, link), (&other, old)] {
        supply(service).publish(&numbered(0)).unwrap();
        wait_until("a vain attempt", || read(service, Counter::ConnectsFailed) >= 1);
        let counted = [Counter::BidirectionalConnections, Counter::BidirectionalPushes];
        assert_eq!(counted.map(|counter| read(service, counter)), [0, 0]);
        assert!(has_nothing(&mut link));
    }
}
