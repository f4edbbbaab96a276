//! Consumers that offer the connections that they made: after the service was killed, and behind a NAT.

use crate::bad_network::next;
use crate::foreign_clients::{Machine, SERVICE, count, ip, publish};
use crate::namespaces::within_namespaces;
use crate::persistent::{event, persistent_channel, supplier};
use crate::restart::{Folder, own_address};
use crate::support::{PROGRAM, TempPath};
use client::notify::{CallbackConsumer, ClientType, StructuredEvent, StructuredProxyPushSupplier, find_channel};
use client::{Orb, OrbOptions};
use giop::bidirectional;
use giop::cdr::{CharSet, Endian, Version, Writer};
use giop::ior::Ior;
use giop::message::{
    HEADER_LEN, Header, MessageKind, Reply, ReplyHead, ReplyStatus, Request, RequestHead, Response, ServiceContexts,
    begin_reply, begin_request,
};
use giop::url::Corbaloc;
use giop::value::Value;
use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use testing::{patient, wait_until};

/// The address of the consumer's reference: nothing listens there.
struct Address {
    host: &'static str,
    port: u16,
}

impl Address {
    fn reference(&self) -> Ior {
        let location: Corbaloc = format!("corbaloc:iiop:1.2@{}:{}/consumer", self.host, self.port).parse().unwrap();
        location.to_ior("IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0")
    }
}

/// A connection that a consumer made and offers.
struct Offering {
    stream: TcpStream,
    address: Address,
    /// Requests that came before a reply.
    aside: VecDeque<(Header, Vec<u8>)>,
}

impl Offering {
    fn connect(server: &str, address: Address) -> Self {
        let stream = TcpStream::connect(server).unwrap();
        patient(&stream);
        Self { stream, address, aside: VecDeque::new() }
    }

    fn message(&mut self) -> (Header, Vec<u8>) {
        let mut bytes = vec![0; HEADER_LEN];
        self.stream.read_exact(&mut bytes).unwrap();
        let header = Header::parse(&bytes).unwrap();
        let mut rest = vec![0; header.message_len() - HEADER_LEN];
        self.stream.read_exact(&mut rest).unwrap();
        bytes.append(&mut rest);
        (header, bytes)
    }

    /// Calls an operation by a request that lists the consumer's address.
    fn call(&mut self, key: &[u8], operation: &str, body: impl FnOnce(&mut Writer<'_>)) {
        let context = bidirectional::context([(self.address.host, self.address.port)]);
        let head = RequestHead {
            version: Version::V1_2,
            endian: Endian::Big,
            request_id: 2,
            response: Response::Expected,
            key,
            operation: operation.as_bytes(),
            contexts: &[(ServiceContexts::BI_DIR_IIOP, &context)],
            body_phase: None,
        };
        let mut bytes = Vec::new();
        let open = begin_request(&mut bytes, &head);
        body(&mut open.body(&mut bytes, CharSet::Latin1));
        open.finish(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
        loop {
            let (header, bytes) = self.message();
            if header.kind == MessageKind::Reply {
                let reply = Reply::parse(&bytes, &header).unwrap();
                return assert_eq!((reply.request_id, reply.status), (2, ReplyStatus::NoException));
            }
            self.aside.push_back((header, bytes));
        }
    }

    fn subscribe(&mut self, proxy: &[u8]) {
        let reference = self.address.reference();
        self.call(proxy, "connect_structured_push_consumer", |w| reference.write(w));
    }

    /// The next event, which is acknowledged.
    fn event(&mut self) -> StructuredEvent {
        let (header, bytes) = self.aside.pop_front().unwrap_or_else(|| self.message());
        let request = Request::parse(&bytes, &header).unwrap();
        assert_eq!(request.operation, b"push_structured_event");
        let (version, endian, request_id) = (Version::V1_2, Endian::Big, request.request_id);
        let head = ReplyHead { version, endian, request_id, status: ReplyStatus::NoException, contexts: &[] };
        let mut reply = Vec::new();
        begin_reply(&mut reply, &head).finish(&mut reply);
        self.stream.write_all(&reply).unwrap();
        StructuredEvent::read(&mut request.body(&bytes, &header, CharSet::Latin1)).unwrap()
    }
}

/// The key of a new proxy for a consumer of structured events.
fn proxy(server: &str, channel: Option<i32>) -> Vec<u8> {
    let (found, _) = find_channel(&Orb::new(OrbOptions::default()).resolve_service(server).unwrap(), channel).unwrap();
    let admin = found.default_consumer_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
    proxy.object().ior().iiop().unwrap().key.clone()
}

#[test]
fn a_consumer_that_offers_its_connection_is_called_again_as_soon_as_it_calls_after_the_service_was_killed() {
    let folder = Folder::new("offered");
    let serve = folder.serve(&own_address());
    let address = serve.address.clone();
    let id = persistent_channel(&address);
    let key = proxy(&address, Some(id));
    let hidden = || Address { host: "127.0.0.9", port: 9 };
    let number = |event: &StructuredEvent| event.field("number").cloned();
    let mut consumer = Offering::connect(&address, hidden());
    consumer.subscribe(&key);
    supplier(&address, id).unwrap().push_structured_event(&event(0, 0)).unwrap();
    assert_eq!(number(&consumer.event()), Some(Value::Long(0)));
    // It is killed.
    drop(serve);
    let serve = folder.serve(&address);
    supplier(&address, id).unwrap().push_structured_event(&event(0, 1)).unwrap();
    let mut consumer = Offering::connect(&address, hidden());
    consumer.call(&key, "_non_existent", |_| {});
    // What it acknowledged last may not have been noted before.
    while number(&consumer.event()) == Some(Value::Long(0)) {}
    assert_eq!(count(&serve.address, "giop_bidirectional_connections"), 1);
}

#[test]
fn a_consumer_behind_a_nat_gets_its_events_over_its_connection_and_one_that_offers_none_is_told_how() {
    within_namespaces(&[], || {
        behind_a_nat();
        "events came to 192.168.77.5, to which the service's machine has no route".to_owned()
    });
}

fn behind_a_nat() {
    let hosts = TempPath::file("hosts", "127.0.0.1 localhost\n");
    ip("link set lo up");
    let mut machine = Machine::start(&hosts);
    machine.run(&format!("{PROGRAM} serve --data none --log info --listen {SERVICE} 2>&1"), "campanile: ready at ");
    // Its own address, which the service's machine does not know; it comes from 10.78.0.2.
    ip("address add 192.168.77.5/32 dev lo");
    let orb = Orb::new(OrbOptions { listen: Some("192.168.77.5:0".into()), ..OrbOptions::default() });
    let mute = orb.activate(Arc::new(CallbackConsumer::structured(|_| Ok(())))).unwrap();
    let (found, _) = find_channel(&orb.resolve_service(SERVICE).unwrap(), None).unwrap();
    let admin = found.default_consumer_admin().unwrap();
    for told in 1..=2 {
        let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
        let proxy = StructuredProxyPushSupplier::unchecked(proxy.object().clone());
        proxy.connect_structured_push_consumer(mute.reference()).unwrap();
        wait_until("it to be counted", || count(SERVICE, "giop_clients_hidden") == told);
    }
    let line = next(&machine.lines, "which is to be called");
    assert!(line.contains("comes from 10.78.0.2, ") && line.contains("-ORBofferBiDirectionalGIOP 1"), "{line}");
    let key = proxy(SERVICE, None);
    let mut consumer = Offering::connect(SERVICE, Address { host: "192.168.77.5", port: 9 });
    consumer.subscribe(&key);
    for x in ["1", "2", "3"] {
        publish(x);
        let event = consumer.event();
        assert!(format!("{event:?}").contains(x), "{event:?}");
    }
    wait_until("all to be counted", || count(SERVICE, "giop_bidirectional_pushes") == 3);
    assert_eq!(count(SERVICE, "giop_clients_hidden"), 2);
    let failing = next(&machine.lines, "is failing");
    assert!(failing.contains("-ORBofferBiDirectionalGIOP 1"), "{failing}");
}
