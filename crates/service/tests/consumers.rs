//! Consumers that do unusual things on the wire, played with bare sockets.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use client::notify::{ClientType, Property, StructuredEvent, StructuredProxyPushSupplier, find_channel};
use client::{ObjectRef, Orb, OrbOptions, SimpleSupplier};
use giop::cdr::{CharSet, Endian, Version};
use giop::ior::Ior;
use giop::message::{self, Header, MessageKind, ReplyHead, ReplyStatus, Request, Response};
use giop::url::Corbaloc;
use service::{Config, Counter, Naming, Service};

fn start() -> Service {
    Service::start(Config { listen: "127.0.0.1:0".into(), ..Config::default() }).unwrap()
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    // The test harness ends a test that waits in vain; the name says for what.
    let _waiting_for = what;
    while !condition() {
        std::thread::yield_now();
    }
}

/// A consumer that is only a listening socket.
struct Bare {
    listener: TcpListener,
}

impl Bare {
    fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    fn reference(&self, host: &str) -> Ior {
        let port = self.listener.local_addr().unwrap().port();
        let location: Corbaloc = format!("corbaloc:iiop:1.2@{host}:{port}/bare").parse().unwrap();
        location.to_ior("IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0")
    }

    fn accept(&self) -> Link {
        Link { stream: self.listener.accept().unwrap().0 }
    }
}

/// One connection of the service's to a bare consumer.
struct Link {
    stream: TcpStream,
}

impl Link {
    /// The next message; nothing when the service has closed the connection.
    fn message(&mut self) -> Option<(Header, Vec<u8>)> {
        let mut bytes = vec![0; message::HEADER_LEN];
        self.stream.read_exact(&mut bytes).ok()?;
        let header = Header::parse(&bytes).unwrap();
        bytes.resize(header.message_len(), 0);
        self.stream.read_exact(&mut bytes[message::HEADER_LEN..]).ok()?;
        Some((header, bytes))
    }

    /// The next push: its request id and the event.
    fn push(&mut self) -> (u32, StructuredEvent) {
        let (header, bytes) = self.message().unwrap();
        assert_eq!(header.kind, MessageKind::Request);
        let request = Request::parse(&bytes, &header).unwrap();
        assert_eq!((request.operation, request.response), (&b"push_structured_event"[..], Response::Expected));
        let event = StructuredEvent::read(&mut request.body(&bytes, &header, CharSet::Latin1)).unwrap();
        (request.request_id, event)
    }

    fn reply(&mut self, request_id: u32, status: ReplyStatus, body: Option<&Ior>) {
        let mut bytes = Vec::new();
        let head = ReplyHead { version: Version::V1_2, endian: Endian::Big, request_id, status, contexts: &[] };
        let open = message::begin_reply(&mut bytes, &head);
        if let Some(ior) = body {
            ior.write(&mut open.body(&mut bytes, CharSet::Latin1));
        }
        open.finish(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    fn accept_push(&mut self) -> StructuredEvent {
        let (request_id, event) = self.push();
        self.reply(request_id, ReplyStatus::NoException, None);
        event
    }
}

/// Connects a consumer by its reference and gives its proxy.
fn subscribe(service: &Service, reference: Ior, qos: &[Property]) -> ObjectRef {
    let orb = Orb::new(OrbOptions::default());
    let found = orb.resolve(&service.corbaloc("NotificationService")).unwrap();
    let (channel, _) = find_channel(&found, None).unwrap();
    let admin = channel.default_consumer_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
    proxy.set_qos(qos).unwrap();
    StructuredProxyPushSupplier::unchecked(proxy.object().clone())
        .connect_structured_push_consumer(&orb.object(reference))
        .unwrap();
    proxy.object().clone()
}

fn supply(service: &Service) -> SimpleSupplier {
    SimpleSupplier::connect(&service.corbaloc("NotificationService"), None).unwrap()
}

fn numbered(number: i32) -> StructuredEvent {
    let mut event = StructuredEvent::new("Test", "Numbered", "");
    event.filterable_data.push(Property::new("number", number));
    event
}

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
    let service = Service::start(Config { listen: "127.0.0.1:0".into(), naming, ..Config::default() }).unwrap();
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
