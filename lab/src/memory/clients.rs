//! Clients with consumers that mostly wait: for each a connection to the service, and a listener for its proxies' events.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use client::notify::{ClientType, ConsumerAdmin, StructuredProxyPushSupplier};
use client::{ObjectRef, Orb, OrbOptions};
use giop::cdr::Version;
use giop::ior::{CodeSetInfo, IiopProfile, Ior};
use giop::message::{Header, LocateRequest, MessageKind, Request};

use crate::campanile::{Channel, NAME, listen, setup};
use crate::wire::{self, PushMessage};
use crate::{BenchError, CarriageOptions, clock};

/// No client waits longer than this for an event.
const PATIENCE: Duration = Duration::from_secs(60);
/// Octets of a GIOP header.
const HEADER_LEN: usize = 12;
/// Octets of payload of an event.
const PAYLOAD: usize = 128;
const PUSH: &[u8] = b"push_structured_event";

/// Clients, all alike.
pub(super) struct Clients {
    all: Vec<Client>,
}

struct Client {
    admin: ConsumerAdmin,
    listener: TcpListener,
    listening: SocketAddr,
    /// The service's connection to the listener, once there is one.
    stream: Option<TcpStream>,
    proxies: Vec<StructuredProxyPushSupplier>,
    connected: usize,
}

impl Clients {
    /// Connects so many to the channel; each has asked the service something and been answered.
    pub(super) fn open(channel: &Channel, count: u32) -> Result<Self, BenchError> {
        Ok(Self { all: (0..count).map(|_| Client::open(channel)).collect::<Result<_, _>>()? })
    }

    /// Makes so many more proxies for each.
    pub(super) fn make_proxies(&mut self, each: u32) -> Result<(), BenchError> {
        let doing = "making consumers' proxies";
        for client in &mut self.all {
            for _ in 0..each {
                let made = client.admin.obtain_notification_push_supplier(ClientType::Structured);
                let (proxy, _) = made.map_err(setup(doing))?;
                client.proxies.push(StructuredProxyPushSupplier::unchecked(proxy.object().clone()));
            }
        }
        Ok(())
    }

    pub(super) fn connect_proxies(&mut self) -> Result<(), BenchError> {
        for client in &mut self.all {
            for (number, proxy) in client.proxies.iter().enumerate().skip(client.connected) {
                let consumer = consumer_at(client.listening, number, proxy.object());
                proxy.connect_structured_push_consumer(&consumer).map_err(setup("connecting consumers"))?;
            }
            client.connected = client.proxies.len();
        }
        Ok(())
    }

    /// Takes one event for each connected proxy, and answers it.
    pub(super) fn take_events(&mut self) -> Result<(), BenchError> {
        self.all.iter_mut().try_for_each(Client::take_events).map_err(BenchError::io("taking events"))
    }

    /// Destroys all proxies and closes all connections.
    pub(super) fn destroy(self) -> Result<(), BenchError> {
        for client in self.all {
            for proxy in &client.proxies {
                proxy.disconnect_structured_push_supplier().map_err(setup("destroying consumers' proxies"))?;
            }
        }
        Ok(())
    }
}

impl Client {
    fn open(channel: &Channel) -> Result<Self, BenchError> {
        let channel = channel.seen_by(&Orb::new(OrbOptions::default()));
        let admin = channel.consumer_admin()?;
        let listener = listen()?;
        let listening = listener.local_addr().map_err(BenchError::io("reading the address of a consumer"))?;
        Ok(Self { admin, listener, listening, stream: None, proxies: Vec::new(), connected: 0 })
    }

    fn take_events(&mut self) -> std::io::Result<()> {
        if self.stream.is_none() {
            let (stream, _) = self.listener.accept()?;
            stream.set_read_timeout(Some(PATIENCE))?;
            self.stream = Some(stream);
        }
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let (mut message, mut answer) = (Vec::new(), Vec::new());
        let mut taken = 0;
        while taken < self.connected {
            read_message(stream, &mut message)?;
            let bad = |what: &dyn std::fmt::Display| std::io::Error::other(what.to_string());
            let header = Header::parse(&message).map_err(|error| bad(&error))?;
            if header.kind == MessageKind::LocateRequest {
                let locate = LocateRequest::parse(&message, &header).map_err(|error| bad(&error))?;
                wire::answer_locate(stream, &header, locate.request_id)?;
                continue;
            }
            let request = Request::parse(&message, &header).map_err(|error| bad(&error))?;
            taken += usize::from(request.operation == PUSH);
            answer.clear();
            wire::write_answer(&mut answer, &header, &request);
            stream.write_all(&answer)?;
        }
        Ok(())
    }
}

fn read_message(stream: &mut TcpStream, message: &mut Vec<u8>) -> std::io::Result<()> {
    message.resize(HEADER_LEN, 0);
    stream.read_exact(message)?;
    let size = Header::parse(message).map_err(|error| std::io::Error::other(error.to_string()))?.size;
    message.resize(HEADER_LEN + size as usize, 0);
    stream.read_exact(message.get_mut(HEADER_LEN..).unwrap_or_default())
}

fn consumer_at(listening: SocketAddr, number: usize, proxy: &ObjectRef) -> ObjectRef {
    let profile = IiopProfile {
        version: Version::V1_2,
        host: listening.ip().to_string(),
        port: listening.port(),
        key: format!("bench-consumer-{number:05}").into_bytes(),
        components: vec![CodeSetInfo::campanile().to_component()],
    };
    proxy.orb().object(Ior::new("IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0", profile))
}

/// The supplier that has all consumers get an event.
pub(super) struct Supplier {
    stream: TcpStream,
    message: PushMessage,
    pushed: u32,
}

impl Supplier {
    pub(super) fn new(channel: &Channel) -> Result<Self, BenchError> {
        let proxy = channel.add_supplier(CarriageOptions::default())?;
        Ok(Self { stream: proxy.connect()?, message: PushMessage::new(&proxy.key, PAYLOAD), pushed: 0 })
    }

    /// Pushes one event, and waits for the answer.
    pub(super) fn push(&mut self) -> Result<(), BenchError> {
        let doing = "pushing an event";
        self.pushed += 1;
        let now = clock::now();
        let stamp =
            wire::Stamp { sent: now, due: now, number: self.pushed.into(), supplier: 0, phase: wire::Phase::Measured };
        self.message.stamp(self.pushed, stamp);
        self.stream.write_all(self.message.bytes()).map_err(BenchError::io(doing))?;
        let mut reply = Vec::new();
        read_message(&mut self.stream, &mut reply).map_err(BenchError::io(doing))?;
        let header = Header::parse(&reply).map_err(setup(doing))?;
        wire::check_reply(NAME, &reply, &header, self.pushed)
    }
}
