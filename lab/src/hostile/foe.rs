//! A hostile client: it speaks GIOP when that serves its purpose, from an address of its own.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use client::{Marshal, Unmarshal};
use giop::cdr::{CharSet, Endian, Version};
use giop::ior::{IiopProfile, Ior};
use giop::message::{HEADER_LEN, Header, Reply, ReplyStatus, RequestHead, Response, begin_request};
use load::system::choose_port_on_connecting;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

/// The address that an attack comes from, by its place among all: another one of loopback than those of all other clients, so that the
/// service can tell them apart.
pub(super) fn address_of(attack: usize) -> IpAddr {
    let number = u8::try_from(attack + 1).unwrap_or(u8::MAX);
    Ipv4Addr::new(127, 0, 1, number).into()
}

/// One of many addresses of an attack that comes from many.
pub(super) fn one_of_many(number: u8) -> IpAddr {
    Ipv4Addr::new(127, 1, 0, number.max(1)).into()
}

/// An attacker waits no longer than this for an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Nor than this until the service reads.
const WRITING: Duration = Duration::from_millis(100);
/// The longest answer that it takes.
const ANSWER_MAX: usize = 64 << 20;

/// A connection to the service.
pub(super) struct Foe {
    pub(super) stream: TcpStream,
    request_id: u32,
}

/// An object of the service's.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) key: Vec<u8>,
}

impl Object {
    /// One of those that are found by name.
    pub(super) fn named(key: &str) -> Self {
        Self { key: key.as_bytes().to_vec() }
    }
}

/// A client, in the words of the IDL's operations: the form of its events, `push` or `pull`, and `consumer` or `supplier`.
#[derive(Clone, Copy)]
pub(super) struct Kind(pub(super) &'static str, pub(super) &'static str, pub(super) &'static str);

/// A reply without an exception.
pub(super) struct Answer {
    header: Header,
    bytes: Vec<u8>,
}

impl Answer {
    /// What its body begins with.
    pub(super) fn read<T: Unmarshal>(&self) -> Result<T> {
        let reply = Reply::parse(&self.bytes, &self.header).map_err(bad)?;
        T::read(&mut reply.body(&self.bytes, &self.header, CharSet::Latin1)).map_err(bad)
    }

    /// The object that its body begins with.
    pub(super) fn object(&self) -> Result<Object> {
        let ior: Ior = self.read()?;
        ior.iiop().map(|profile| Object { key: profile.key.clone() }).ok_or_else(|| bad("a nil reference"))
    }
}

pub(super) fn bad(what: impl std::fmt::Display) -> Error {
    Error::other(what.to_string())
}

impl Foe {
    pub(super) fn connect(from: IpAddr, service: SocketAddr) -> Result<Self> {
        Ok(Self { stream: open(from, service)?, request_id: 0 })
    }

    pub(super) fn request(
        &mut self,
        object: &Object,
        operation: &str,
        arguments: &(impl Marshal + ?Sized),
    ) -> Result<Vec<u8>> {
        self.request_id += 1;
        let head = RequestHead {
            version: Version::V1_2,
            endian: Endian::NATIVE,
            request_id: self.request_id,
            response: Response::Expected,
            key: &object.key,
            operation: operation.as_bytes(),
            contexts: &[],
            body_phase: None,
        };
        let mut bytes = Vec::new();
        let open = begin_request(&mut bytes, &head);
        arguments.marshal(&mut open.body(&mut bytes, CharSet::Latin1)).map_err(bad)?;
        open.finish(&mut bytes);
        Ok(bytes)
    }

    /// Sends a request, and does not look at its answer.
    pub(super) fn send(&mut self, object: &Object, operation: &str, arguments: &(impl Marshal + ?Sized)) -> Result<()> {
        let bytes = self.request(object, operation, arguments)?;
        self.stream.write_all(&bytes)
    }

    /// Sends a request and reads its answer; an exception is an error.
    pub(super) fn call(
        &mut self,
        object: &Object,
        operation: &str,
        arguments: &(impl Marshal + ?Sized),
    ) -> Result<Answer> {
        self.send(object, operation, arguments)?;
        let (header, bytes) = read_message(&mut self.stream)?;
        let reply = Reply::parse(&bytes, &header).map_err(bad)?;
        if reply.status != ReplyStatus::NoException {
            return Err(bad(format!("{operation}: {:?}", reply.status)));
        }
        Ok(Answer { header, bytes })
    }

    /// Asks for an object that takes no arguments to get.
    pub(super) fn object(&mut self, of: &Object, operation: &str) -> Result<Object> {
        self.call(of, operation, &())?.object()
    }

    /// Makes a channel of its own.
    pub(super) fn new_channel(&mut self) -> Result<Object> {
        self.call(&Object::named("NotificationService"), "create_channel", &(0_u32, 0_u32))?.object()
    }

    /// Makes a proxy for such a client in one of the channel's default admins.
    pub(super) fn new_proxy(&mut self, channel: &Object, Kind(form, way, end): Kind) -> Result<Object> {
        let admin = self.object(channel, &format!("_get_default_{end}_admin"))?;
        let other = if end == "consumer" { "supplier" } else { "consumer" };
        let client_type = if form == "sequence" { 2_u32 } else { 1 };
        self.call(&admin, &format!("obtain_notification_{way}_{other}"), &client_type)?.object()
    }

    /// Connects a client that is said to listen there to its proxy; or one that is not called.
    pub(super) fn connect_client(
        &mut self,
        proxy: &Object,
        Kind(form, way, end): Kind,
        client: Option<&Ior>,
    ) -> Result<()> {
        self.call(proxy, &format!("connect_{form}_{way}_{end}"), &client).map(drop)
    }

    /// Makes a proxy and connects such a client to it.
    pub(super) fn new_client(&mut self, channel: &Object, kind: Kind, client: Option<&Ior>) -> Result<Object> {
        let proxy = self.new_proxy(channel, kind)?;
        self.connect_client(&proxy, kind, client)?;
        Ok(proxy)
    }
}

/// A connection from an address.
pub(super) fn open(from: IpAddr, to: SocketAddr) -> Result<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    choose_port_on_connecting(&socket)?;
    bind(&socket, &SocketAddr::new(from, 0))?;
    connect(&socket, &to)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(WRITING))?;
    Ok(stream)
}

pub(super) fn read_message(stream: &mut TcpStream) -> Result<(Header, Vec<u8>)> {
    let mut bytes = vec![0; HEADER_LEN];
    stream.read_exact(&mut bytes)?;
    let header = Header::parse(&bytes).map_err(bad)?;
    if header.message_len() > ANSWER_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    bytes.resize(header.message_len(), 0);
    stream.read_exact(bytes.get_mut(HEADER_LEN..).unwrap_or_default())?;
    Ok((header, bytes))
}

/// A socket at an address that calls may come to.
pub(super) fn listen(at: IpAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(SocketAddr::new(at, 0))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A reference to a client that is said to be there.
pub(super) fn reference(host: impl ToString, port: u16, key: &[u8]) -> Ior {
    let (host, key) = (host.to_string(), key.to_vec());
    Ior::new("", IiopProfile { version: Version::V1_2, host, port, key, components: Vec::new() })
}
