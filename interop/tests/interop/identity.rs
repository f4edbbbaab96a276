//! The octets of an event leave the service as they came in.
//!
//! A relay in front of the service keeps what the supplier sends; a consumer of our own keeps what it is sent. Its orb
//! speaks GIOP 1.2, as the suppliers do, so the service has no reason to touch the body.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};

use client::notify::ClientType;
use client::{ConsumerOptions, ReceivedBody, SimpleConsumer};
use giop::cdr::Endian;
use giop::framing::{Inbound, Limits};
use giop::message::{MessageKind, Request};
use service::{Config, Service};

use interop::{Orb, supplier};

/// An event's byte order and octets.
type Raw = (Endian, Vec<u8>);

/// Passes octets on in both directions and keeps the bodies of the pushes that go to the service.
struct Relay {
    listener: TcpListener,
    pushed: Arc<Mutex<Vec<Raw>>>,
}

impl Relay {
    fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").unwrap(), pushed: Arc::default() }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Serves connections from now on, each with two threads that end with it.
    fn lead_to(&self, service: SocketAddr) {
        let listener = self.listener.try_clone().unwrap();
        let pushed = self.pushed.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(service).unwrap();
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let pushed = pushed.clone();
                std::thread::spawn(move || pass(from, to, Some(&pushed)));
                std::thread::spawn(move || pass(server, client, None));
            }
        });
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, pushed: Option<&Mutex<Vec<Raw>>>) {
    let mut inbound = Inbound::new(Limits::default());
    let mut buffer = vec![0; 65536];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if let Some(pushed) = pushed {
            keep(&mut inbound, &buffer[..n], pushed);
        }
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn keep(inbound: &mut Inbound, mut received: &[u8], pushed: &Mutex<Vec<Raw>>) {
    while !received.is_empty() {
        let space = inbound.space();
        let n = space.len().min(received.len());
        space[..n].copy_from_slice(&received[..n]);
        inbound.filled(n);
        received = &received[n..];
        while let Some(message) = inbound.poll_message().unwrap() {
            if message.header.kind != MessageKind::Request {
                continue;
            }
            let request = Request::parse(message.bytes, &message.header).unwrap();
            if request.operation == b"push_structured_event" || request.operation == b"push" {
                pushed.lock().unwrap().push((message.header.endian, message.bytes[request.body_offset..].to_vec()));
            }
        }
    }
}

fn compare(of_supplier: Orb, form: &str, consumer_form: ClientType) {
    const EVENTS: usize = 34;
    let relay = Relay::new();
    let service = Service::start(Config {
        listen: "127.0.0.1:0".into(),
        advertise: Some(relay.address().to_string()),
        ..Config::default()
    })
    .unwrap();
    relay.lead_to(service.address());

    let (tell, told) = mpsc::channel();
    let options = ConsumerOptions { form: consumer_form, ..ConsumerOptions::default() };
    let consumer = SimpleConsumer::connect(&service.corbaloc("NotificationService"), Some(0), options, move |event| {
        let (ReceivedBody::Structured(reader) | ReceivedBody::Any(reader)) = event.body();
        let _ = tell.send((reader.encoding().endian, event.bytes().to_vec()));
        Ok(())
    })
    .unwrap();
    let words = format!("--form {form} --scenario all --count {EVENTS}");
    supplier(of_supplier, &service, "0", &words).end().well();
    let received: Vec<Raw> = told.iter().take(EVENTS).collect();
    consumer.close().unwrap();

    let pushed = relay.pushed.lock().unwrap();
    let order = if of_supplier == Orb::JacOrb { Endian::Big } else { Endian::NATIVE };
    for (number, (pushed, received)) in pushed.iter().zip(&received).enumerate() {
        assert!(pushed == received, "event {number} of {of_supplier:?} was changed");
        assert_eq!(received.0, order);
    }
    assert_eq!(pushed.len(), EVENTS);
}

#[test]
fn structured_events_are_forwarded_octet_for_octet() {
    for orb in Orb::ALL {
        compare(orb, "structured", ClientType::Structured);
    }
}

#[test]
fn anys_are_forwarded_octet_for_octet() {
    for orb in Orb::ALL {
        compare(orb, "any", ClientType::Any);
    }
}
