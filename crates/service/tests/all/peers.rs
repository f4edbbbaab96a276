//! Services to test, and peers that are only sockets.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;

use client::notify::{
    ClientType, Property, StructuredEvent, StructuredProxyPushConsumer, StructuredProxyPushSupplier, find_channel,
};
use client::{ObjectRef, Orb, OrbOptions, SimpleSupplier};
use giop::cdr::{CharSet, Endian, Version, Writer};
use giop::ior::Ior;
use giop::message::{
    self, Header, LocateRequest, LocateStatus, MessageKind, Reply, ReplyHead, ReplyStatus, Request, RequestHead,
    Response,
};
use giop::url::Corbaloc;
use service::{Config, Counter, Limits, Service};
use testing::{AcceptInTime, own_loopback, patient, unless_closed};

pub(crate) use testing::wait_until;

pub(crate) fn start() -> Service {
    start_with(Config::default())
}

pub(crate) fn start_limited(limits: Limits) -> Service {
    start_with(Config { limits, ..Config::default() })
}

pub(crate) fn start_with(config: Config) -> Service {
    Service::start(Config { listen: "127.0.0.1:0".into(), ..config }).unwrap()
}

pub(crate) fn read(service: &Service, counter: Counter) -> u64 {
    service.counters().read(counter)
}

/// Waits until a counter has reached what it is to reach: lanes tell what they count at the end of a round, when the answers are out, and
/// administration runs when it may.
#[track_caller]
pub(crate) fn await_count(service: &Service, counter: Counter, expected: u64) {
    let read = || service.counters().read(counter);
    wait_until(format_args!("{counter:?} to be {expected} instead of {}", read()), || read() == expected);
}

pub(crate) fn request(version: Version, key: &[u8], operation: &str, body: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let head = RequestHead { version, key, operation: operation.as_bytes(), ..REQUEST };
    request_with(&head, CharSet::Latin1, body)
}

/// What most requests of the tests have in common.
pub(crate) const REQUEST: RequestHead<'static> = RequestHead {
    version: Version::V1_2,
    endian: Endian::Little,
    request_id: 7,
    response: Response::Expected,
    key: &[],
    operation: &[],
    contexts: &[],
    body_phase: None,
};

pub(crate) fn request_with(head: &RequestHead<'_>, chars: CharSet, body: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let open = message::begin_request(&mut bytes, head);
    body(&mut open.body(&mut bytes, chars));
    open.finish(&mut bytes);
    bytes
}

pub(crate) fn read_message(stream: &mut TcpStream) -> Option<(Header, Vec<u8>)> {
    patient(stream);
    let mut bytes = vec![0; message::HEADER_LEN];
    unless_closed(stream.read_exact(&mut bytes))?;
    let header = Header::parse(&bytes).unwrap();
    bytes.resize(header.message_len(), 0);
    unless_closed(stream.read_exact(&mut bytes[message::HEADER_LEN..]))?;
    Some((header, bytes))
}

/// Whether the service still answers, on a connection of its own.
pub(crate) fn assert_serves(service: &Service) {
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let is_a = request(Version::V1_2, b"NotificationService", "_is_a", |w| {
        w.string("IDL:omg.org/CosNotifyChannelAdmin/EventChannelFactory:1.0");
    });
    stream.write_all(&is_a).unwrap();
    let (header, bytes) = read_message(&mut stream).expect("an answer");
    let reply = Reply::parse(&bytes, &header).unwrap();
    assert_eq!(reply.status, ReplyStatus::NoException);
    assert!(reply.body(&bytes, &header, CharSet::Latin1).bool().unwrap());
}

/// Reads until the peer closes and returns the kinds of messages that came.
pub(crate) fn read_to_end(stream: &mut TcpStream) -> Vec<MessageKind> {
    std::iter::from_fn(|| read_message(stream)).map(|(header, _)| header.kind).collect()
}

/// A reference to a consumer at such a place.
fn of_consumer(place: &str) -> Ior {
    let location: Corbaloc = format!("corbaloc:iiop:{place}").parse().unwrap();
    location.to_ior("IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0")
}

/// A consumer that is only a listening socket.
pub(crate) struct Bare {
    pub(crate) listener: TcpListener,
}

impl Bare {
    /// One at an address of its own: a service of another test may go on calling the port of a consumer that is gone.
    pub(crate) fn new() -> Self {
        Self::at(&own_loopback().to_string())
    }

    /// One at this host.
    pub(crate) fn at(host: &str) -> Self {
        Self { listener: TcpListener::bind((host, 0)).unwrap() }
    }

    /// Its address and port.
    pub(crate) fn location(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    pub(crate) fn reference(&self) -> Ior {
        self.reference_to("bare")
    }

    /// A reference that has a name of its host.
    pub(crate) fn reference_by(&self, host: &str) -> Ior {
        of_consumer(&format!("1.2@{host}:{}/bare", self.location().port()))
    }

    /// A reference of an older IIOP version.
    pub(crate) fn reference_in(&self, version: Version) -> Ior {
        of_consumer(&format!("1.{}@{}/bare", version.minor(), self.location()))
    }

    /// A reference to another object there.
    pub(crate) fn reference_to(&self, key: &str) -> Ior {
        of_consumer(&format!("1.2@{}/{key}", self.location()))
    }

    /// The next connection that the service has not given up by now: it waits for some seconds for the answer to its probe.
    pub(crate) fn accept(&self) -> Link {
        loop {
            let mut link = Link::over(self.listener.accept_in_time());
            if link.answer_probe() {
                return link;
            }
        }
    }
}

/// One connection between the service and a bare consumer.
pub(crate) struct Link {
    pub(crate) stream: TcpStream,
    /// What was read already, as something else was waited for.
    pub(crate) aside: VecDeque<(Header, Vec<u8>)>,
}

impl Link {
    pub(crate) fn over(stream: TcpStream) -> Self {
        Self { stream, aside: VecDeque::new() }
    }

    /// Answers what the service asks each server first: whether it speaks GIOP. False if it has closed the connection meanwhile.
    pub(crate) fn answer_probe(&mut self) -> bool {
        let Some((header, bytes)) = self.message() else { return true };
        let locate = LocateRequest::parse(&bytes, &header).unwrap();
        self.stream.set_nonblocking(true).unwrap();
        let is_open = match self.stream.peek(&mut [0]) {
            Ok(octets) => octets > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        self.stream.set_nonblocking(false).unwrap();
        if !is_open {
            return false;
        }
        let mut reply = Vec::new();
        message::locate_reply(&mut reply, header.version, Endian::Big, locate.request_id, LocateStatus::UnknownObject);
        self.stream.write_all(&reply).unwrap();
        true
    }

    /// The next message; nothing when the service has closed the connection.
    pub(crate) fn message(&mut self) -> Option<(Header, Vec<u8>)> {
        self.aside.pop_front().or_else(|| read_message(&mut self.stream))
    }

    /// The next reply. Requests that come before it are set aside.
    pub(crate) fn reply_to_own(&mut self) -> (Header, Vec<u8>) {
        loop {
            let message = read_message(&mut self.stream).expect("a reply");
            if message.0.kind != MessageKind::Request {
                return message;
            }
            self.aside.push_back(message);
        }
    }

    /// The next push: its request id and the event.
    pub(crate) fn push(&mut self) -> (u32, StructuredEvent) {
        let (request_id, _, event) = self.push_to();
        (request_id, event)
    }

    /// The same; nothing when the service has closed the connection.
    pub(crate) fn next_push(&mut self) -> Option<(u32, StructuredEvent)> {
        let (request_id, _, event) = Self::read_push(&self.message()?);
        Some((request_id, event))
    }

    /// The next push: its request id, the object that it is for, and the event.
    pub(crate) fn push_to(&mut self) -> (u32, String, StructuredEvent) {
        Self::read_push(&self.message().unwrap())
    }

    fn read_push((header, bytes): &(Header, Vec<u8>)) -> (u32, String, StructuredEvent) {
        assert_eq!(header.kind, MessageKind::Request);
        let request = Request::parse(bytes, header).unwrap();
        assert_eq!((request.operation, request.response), (&b"push_structured_event"[..], Response::Expected));
        let event = StructuredEvent::read(&mut request.body(bytes, header, CharSet::Latin1)).unwrap();
        (request.request_id, String::from_utf8(request.target.key().unwrap().to_vec()).unwrap(), event)
    }

    pub(crate) fn reply(&mut self, request_id: u32, status: ReplyStatus, body: Option<&Ior>) {
        self.reply_in(Version::V1_2, request_id, status, body);
    }

    pub(crate) fn reply_in(&mut self, version: Version, request_id: u32, status: ReplyStatus, body: Option<&Ior>) {
        let mut bytes = Vec::new();
        let head = ReplyHead { version, endian: Endian::Big, request_id, status, contexts: &[] };
        let open = message::begin_reply(&mut bytes, &head);
        if let Some(ior) = body {
            ior.write(&mut open.body(&mut bytes, CharSet::Latin1));
        }
        open.finish(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    pub(crate) fn accept_push(&mut self) -> StructuredEvent {
        let (request_id, event) = self.push();
        self.reply(request_id, ReplyStatus::NoException, None);
        event
    }

    /// Takes the events of these numbers, which come in this order.
    pub(crate) fn accept_numbered(&mut self, numbers: Range<i32>) {
        numbers.for_each(|number| assert_eq!(self.accept_push(), numbered(number)));
    }
}

/// Connects a consumer to the default channel by its reference and gives its proxy.
pub(crate) fn subscribe(service: &Service, reference: Ior, qos: &[Property]) -> ObjectRef {
    subscribe_to(service, None, reference, qos)
}

pub(crate) fn subscribe_to(service: &Service, channel_id: Option<i32>, reference: Ior, qos: &[Property]) -> ObjectRef {
    let orb = Orb::new(OrbOptions::default());
    let found = orb.resolve(&service.corbaloc("NotificationService")).unwrap();
    let (channel, _) = find_channel(&found, channel_id).unwrap();
    let admin = channel.default_consumer_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
    proxy.set_qos(qos).unwrap();
    StructuredProxyPushSupplier::unchecked(proxy.object().clone())
        .connect_structured_push_consumer(&orb.object(reference))
        .unwrap();
    proxy.object().clone()
}

pub(crate) fn supply(service: &Service) -> SimpleSupplier {
    SimpleSupplier::connect(&service.corbaloc("NotificationService"), None).unwrap()
}

pub(crate) fn numbered(number: i32) -> StructuredEvent {
    let mut event = StructuredEvent::new("Test", "Numbered", "");
    event.filterable_data.push(Property::new("number", number));
    event
}

/// Publishes the events of these numbers.
pub(crate) fn publish_numbered(supplier: &SimpleSupplier, numbers: Range<i32>) {
    numbers.for_each(|number| supplier.publish(&numbered(number)).unwrap());
}

/// A supplier that is only a socket.
pub(crate) struct BareSupplier {
    pub(crate) stream: TcpStream,
    pub(crate) key: Vec<u8>,
}

impl BareSupplier {
    /// Connects to a channel; the proxy is obtained over a connection of its own.
    pub(crate) fn new(service: &Service, channel_id: Option<i32>) -> Self {
        let orb = Orb::new(OrbOptions::default());
        let found = orb.resolve(&service.corbaloc("NotificationService")).unwrap();
        let (channel, _) = find_channel(&found, channel_id).unwrap();
        let admin = channel.default_supplier_admin().unwrap();
        let (proxy, _) = admin.obtain_notification_push_consumer(ClientType::Structured).unwrap();
        StructuredProxyPushConsumer::unchecked(proxy.object().clone()).connect_structured_push_supplier(None).unwrap();
        let key = proxy.object().ior().iiop().unwrap().key.clone();
        Self { stream: TcpStream::connect(service.address()).unwrap(), key }
    }

    /// The message that pushes an event; what it says of itself otherwise is as in `head`.
    pub(crate) fn push_message(&self, head: &RequestHead<'_>, chars: CharSet, event: &StructuredEvent) -> Vec<u8> {
        let head = RequestHead { key: &self.key, operation: b"push_structured_event", ..*head };
        request_with(&head, chars, |w| event.write(w).unwrap())
    }

    pub(crate) fn push(&mut self, event: &StructuredEvent) {
        let message = self.push_message(&REQUEST, CharSet::Latin1, event);
        self.stream.write_all(&message).unwrap();
    }
}
