//! Clients that nobody can call, and that offer the connections that they made for that; and what else connections may list.

use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, channel};

use client::notify::{ClientType, Property, StructuredEvent, ThreadPool, find_channel};
use client::{Orb, OrbOptions};
use giop::bidirectional;
use giop::cdr::{CharSet, Endian, Version, Writer};
use giop::codeset::CodeSetInfo;
use giop::ior::{Ior, Profile, SecureTransport};
use giop::message::{
    HEADER_LEN, Header, MessageKind, Reply, ReplyHead, ReplyStatus, Request, RequestHead, Response, ServiceContexts,
    begin_reply, close_connection,
};
use giop::realtime::PriorityModel;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use service::{AccessRule, Config, Counter, Giop, Lanes, Scheduling, Service};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use testing::certificates::Authority;

use crate::access::{ALL, rule};
use crate::peers::{
    Bare, BareSupplier, Link, REQUEST, await_count, numbered, publish_numbered, read, read_message, read_to_end,
    request_with, start, start_with, subscribe, supply, wait_until,
};
use crate::persistent::factory;
use crate::returning::states;
use crate::tls::{self, Line};

fn start_ruled(access: Vec<AccessRule>) -> Service {
    start_with(Config { access, ..Config::default() })
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
    proxy_of(service, None)
}

fn proxy_of(service: &Service, channel_id: Option<i32>) -> Vec<u8> {
    let orb = Orb::new(OrbOptions::default());
    let found = orb.resolve(&service.corbaloc("NotificationService")).unwrap();
    let admin = find_channel(&found, channel_id).unwrap().0.default_consumer_admin().unwrap();
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
    let service = start_with(Config { giop: Giop { bidirectional: false }, ..Config::default() });
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

fn acknowledgement(request_id: u32) -> Vec<u8> {
    let (endian, status) = (Endian::Big, ReplyStatus::NoException);
    let head = ReplyHead { version: Version::V1_2, endian, request_id, status, contexts: &[] };
    let mut reply = Vec::new();
    begin_reply(&mut reply, &head).finish(&mut reply);
    reply
}

/// A client that supplies a channel and consumes it over one connection.
struct Both {
    link: Link,
    supplier: BareSupplier,
    /// Kinds and request ids of what comes.
    messages: Receiver<(MessageKind, u32)>,
    /// Pushes that it has not acknowledged.
    pushes: VecDeque<u32>,
    answered: BTreeSet<u32>,
}

impl Both {
    fn connect(service: &Service, qos: &[Property]) -> Self {
        let (_, id) = factory(service).create_channel(qos, &[]).unwrap();
        let (at, mut link) = (hidden(), connect_from(service, LOCAL));
        subscribe_over(&mut link, &proxy_of(service, Some(id)), &at, &[(&at.0, at.1)]);
        let (sender, messages) = channel();
        let mut stream = link.stream.try_clone().unwrap();
        std::thread::spawn(move || {
            while let Some((header, bytes)) = read_message(&mut stream) {
                let number = match header.kind {
                    MessageKind::Request => Request::parse(&bytes, &header).unwrap().request_id,
                    _ => Reply::parse(&bytes, &header).unwrap().request_id,
                };
                // The test may have seen enough.
                let _ = sender.send((header.kind, number));
            }
        });
        let (pushes, answered) = (VecDeque::new(), BTreeSet::new());
        Self { link, supplier: BareSupplier::new(service, Some(id)), messages, pushes, answered }
    }

    fn push(&mut self, request_id: u32, response: Response, octets: usize) {
        let mut event = numbered(0);
        event.remainder = "x".repeat(octets).as_str().into();
        let head = RequestHead { request_id, response, ..REQUEST };
        self.link.stream.write_all(&self.supplier.push_message(&head, CharSet::Latin1, &event)).unwrap();
    }

    fn is_answered(&mut self, request_id: u32) -> bool {
        for (kind, number) in self.messages.try_iter() {
            match kind {
                MessageKind::Request => self.pushes.push_back(number),
                _ => assert!(self.answered.insert(number)),
            }
        }
        self.answered.contains(&request_id)
    }

    /// Acknowledges all pushes: each in two fragments, and once more, which is once too often.
    fn acknowledge(&mut self) -> u64 {
        let pushes = core::mem::take(&mut self.pushes);
        for request_id in &pushes {
            let whole = acknowledgement(*request_id);
            let id = request_id.to_be_bytes();
            let parts = [&b"GIOP\x01\x02\x02\x01\0\0\0\x04"[..], &id, b"GIOP\x01\x02\0\x07\0\0\0\x0c", &id];
            self.link.stream.write_all(&[&parts.concat()[..], &whole[16..], &whole].concat()).unwrap();
        }
        pushes.len() as u64
    }
}

/// Its replies lay behind its own push, which waited for them: the service did not read the connection meanwhile.
#[test]
fn a_client_that_supplies_and_consumes_over_one_connection_makes_room_for_its_own_push() {
    let service = start();
    let qos = [Property::new("MemoryBudget", 3_u64 << 20), Property::new("HoldTimeout", 0_u64)];
    let mut both = Both::connect(&service, &qos);
    let mut last = 8;
    // Each is awaited before the next one goes, as a client with one thread does.
    while read(&service, Counter::SuppliersBlocked) == 0 {
        last += 2;
        both.push(last, Response::Expected, 2 << 20);
        wait_until("an answer, or the push to be held", || {
            both.is_answered(last) || read(&service, Counter::SuppliersBlocked) > 0
        });
    }
    assert!(!both.is_answered(last));
    let mut acknowledged = 0;
    wait_until("the push to be answered", || {
        acknowledged += both.acknowledge();
        both.is_answered(last)
    });
    let pushed = u64::from(last - 8) / 2;
    wait_until("all events", || {
        acknowledged += both.acknowledge();
        both.is_answered(last) && acknowledged == pushed
    });
    await_count(&service, Counter::Delivered, pushed);
    await_count(&service, Counter::LateReplies, pushed);
    assert_eq!([Counter::ProtocolErrors, Counter::ConnectsBegun].map(|counter| read(&service, counter)), [0, 0]);
}

/// One-way pushes come before its replies without end. Its consumer, which holds them, has its time as any other.
#[test]
fn one_that_pushes_on_before_its_replies_waits_until_its_consumer_is_disconnected() {
    let service = start();
    let qos = [Property::new("MemoryBudget", 1_u64 << 20), Property::new("HoldTimeout", 1_000_000_u64)];
    let mut both = Both::connect(&service, &qos);
    for _ in 0..200 {
        both.push(10, Response::None, 60_000);
    }
    both.push(12, Response::Expected, 1);
    wait_until("the push to be answered", || both.is_answered(12));
    await_count(&service, Counter::ConsumersHolding, 1);
    assert_eq!(read(&service, Counter::ProtocolErrors), 0);
}

/// Behind a NAT that has forgotten it, a connection is there for the service until its keep-alive ends it.
#[test]
fn a_connection_that_is_offered_anew_is_used_at_once_though_the_earlier_one_is_there() {
    let service = start();
    let at = hidden();
    let (mut first, proxy) = offering(&service, &at);
    let supplier = supply(&service);
    supplier.publish(&numbered(0)).unwrap();
    first.accept_numbered(0..1);
    await_count(&service, Counter::Delivered, 1);
    let mut second = connect_from(&service, LOCAL);
    ask(&mut second, &proxy, &at);
    supplier.publish(&numbered(1)).unwrap();
    second.accept_numbered(1..2);
    await_count(&service, Counter::Delivered, 2);
    // And back, in the midst of a push: that one goes over the other, which is there, before another attempt is due.
    ask(&mut first, &proxy, &at);
    supplier.publish(&numbered(2)).unwrap();
    assert_eq!(first.push().1, numbered(2));
    drop(first);
    second.accept_numbered(2..3);
    assert_eq!(read(&service, Counter::ConnectsBegun), 0);
}

/// Its address was called as fast as it refused that, since the connection was taken for one over which the event can go.
#[test]
fn an_event_in_another_code_set_than_the_connection_has_goes_to_the_address_which_is_tried_with_pauses() {
    let service = start();
    let (at, proxy) = (hidden(), proxy(&service));
    let mut link = connect_from(&service, LOCAL);
    let mut reference = reference_at(&at, "StructuredPushConsumer");
    // It takes both, and its connection has chosen none: ISO 8859-1.
    let info = CodeSetInfo::campanile().to_component();
    for profile in &mut reference.profiles {
        if let Profile::Iiop(profile) = profile {
            profile.components.push(info.clone());
        }
    }
    let connect = (&*proxy, "connect_structured_push_consumer");
    assert_eq!(call(&mut link, connect, &[(&at.0, at.1)], |w| reference.write(w)), ReplyStatus::NoException);
    let supplier = supply(&service);
    supplier.publish(&StructuredEvent { event_name: "Fächer".into(), ..numbered(0) }).unwrap();
    wait_until("the failure to be noted", || states(&service)[0].starts_with("failing"));
    assert!(has_nothing(&mut link));
}

/// Suppliers of ORBs that offer their connections to every server had no lane of their own any more.
#[test]
fn a_supplier_that_offers_its_connection_goes_to_its_lane_until_events_go_over_it() {
    let lanes = Lanes { scheduling: Scheduling::Ordinary, ..Lanes::default() };
    let service = start_with(Config { lanes, ..Config::default() });
    let orb = Orb::new(OrbOptions::default());
    let found = orb.resolve(&service.corbaloc("NotificationService")).unwrap();
    let admin = find_channel(&found, None).unwrap().0.default_supplier_admin().unwrap();
    let (supplier, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
    supplier.set_qos(&[ThreadPool::new(PriorityModel::ServerDeclared, 20, 1).into()]).unwrap();
    let supplier = supplier.object().ior().iiop().unwrap().key.clone();
    let (at, mut link) = (hidden(), connect_from(&service, LOCAL));
    let listed = [(&*at.0, at.1)];
    let connect = (&*supplier, "connect_structured_push_supplier");
    assert_eq!(call(&mut link, connect, &listed, |w| Ior::default().write(w)), ReplyStatus::NoException);
    await_count(&service, Counter::BidirectionalConnections, 1);
    let push = |link: &mut Link, number| {
        let push = (&*supplier, "push_structured_event");
        let status = call(link, push, &listed, |w| numbered(number).write(w).unwrap());
        assert_eq!(status, ReplyStatus::NoException);
    };
    let counts = || [Counter::PushesPassed, Counter::ConnectionsMoved].map(|counter| read(&service, counter));
    (0..10).for_each(|number| push(&mut link, number));
    assert_eq!(counts(), [1, 1]);
    await_count(&service, Counter::BidirectionalConnections, 0);
    ask(&mut link, &supplier, &at);
    push(&mut link, 10);
    assert_eq!(counts(), [1, 1]);
    let of_consumer = proxy(&service);
    subscribe_over(&mut link, &of_consumer, &at, &[]);
    await_count(&service, Counter::BidirectionalConnections, 1);
    (0..100).for_each(|number| push(&mut link, number));
    assert_eq!(counts(), [101, 2]);
    link.accept_numbered(0..100);
}

/// A reference that says that its object is called over TLS covers no connection without.
#[test]
fn over_tls_a_consumer_is_called_on_the_connection_that_it_offers() {
    let authority = Authority::new("bidirectional");
    let service = start_with(Config { tls: tls::settings(&authority), ..Config::default() });
    let (at, key) = (hidden(), proxy(&service));
    let mut reference = reference_at(&at, "StructuredPushConsumer");
    let secure = SecureTransport { supports: 0x66, requires: 0x06, port: at.1 };
    for profile in &mut reference.profiles {
        if let Profile::Iiop(profile) = profile {
            profile.components.push(secure.to_component());
        }
    }
    let context = bidirectional::context([(&*at.0, at.1)]);
    let contexts = [(ServiceContexts::BI_DIR_IIOP, &*context)];
    let (operation, request_id) = (&b"connect_structured_push_consumer"[..], 8);
    let head = RequestHead { request_id, key: &key, operation, contexts: &contexts, ..REQUEST };
    let address = service.tls_addresses()[0].unwrap();
    let mut line = Line::connect(address, &tls::end(&authority, Some(&authority.certify("client")))).unwrap();
    let mut message = |sent: &[u8]| {
        if !sent.is_empty() {
            line.send(sent);
        }
        let mut bytes = line.octets(HEADER_LEN);
        let header = Header::parse(&bytes).unwrap();
        bytes.extend(line.octets(header.message_len() - HEADER_LEN));
        (header, bytes)
    };
    let (header, bytes) = message(&request_with(&head, CharSet::Latin1, |w| reference.write(w)));
    assert_eq!(Reply::parse(&bytes, &header).unwrap().status, ReplyStatus::NoException);
    let supplier = supply(&service);
    publish_numbered(&supplier, 0..3);
    let mut before = Vec::new();
    for number in 0..3 {
        let (header, bytes) = message(&before);
        let request = Request::parse(&bytes, &header).unwrap();
        let event = StructuredEvent::read(&mut request.body(&bytes, &header, CharSet::Latin1)).unwrap();
        assert_eq!(event, numbered(number));
        before = acknowledgement(request.request_id);
    }
    line.send(&before);
    await_count(&service, Counter::Delivered, 3);
    let counted = [Counter::BidirectionalPushes, Counter::ConnectsBegun].map(|counter| read(&service, counter));
    assert_eq!(counted, [3, 0]);
}
