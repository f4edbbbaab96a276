//! A service with HTTP beside it, and clients of both.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use client::notify::{
    ClientType, EventChannelFactory, Property, StructuredEvent, StructuredProxyPullSupplier,
    StructuredProxyPushSupplier, find_channel,
};
use client::{ObjectRef, Orb, OrbOptions, SimpleSupplier};
use console::Console;
use giop::url::Corbaloc;
use rustix::net::{AddressFamily, SocketType};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::Value;
use service::{Config, Counter, Http, Service};
use testing::{TempPath, patient, wait_until};

pub(crate) const TOKEN: &str = "0123456789abcdef-of-this-test";

/// A service, and HTTP beside it.
pub(crate) struct Rig {
    pub(crate) service: Service,
    pub(crate) console: Console,
    pub(crate) config: Config,
    pub(crate) token: TempPath,
}

pub(crate) fn start() -> Rig {
    start_with(Http::default())
}

pub(crate) fn start_with(http: Http) -> Rig {
    start_by(Config { http, ..Config::default() })
}

pub(crate) fn start_by(config: Config) -> Rig {
    let token = TempPath::file("http", TOKEN);
    let over_tls = config.tls.http_listen.is_some();
    let listen = config.http.listen.or_else(|| (!over_tls).then(|| "0".into()));
    let http = Http { listen, token_file: Some(token.to_path_buf()), ..config.http };
    let config = Config { listen: "127.0.0.1:0".into(), http, ..config };
    let service = Service::start(config.clone()).unwrap();
    let console = Console::start(&config, &service).unwrap().unwrap();
    Rig { service, console, config, token }
}

/// Client that asks: from where, with which token, and over TLS if with anything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who<'a> {
    pub(crate) from: [u8; 4],
    pub(crate) token: &'a str,
    pub(crate) tls: Option<&'a Arc<ClientConfig>>,
}

/// Stream of a client, in the clear or over TLS.
pub(crate) trait Connection: Read + Write {}

impl<C: Read + Write> Connection for C {}

/// TLS on a connection.
pub(crate) fn secured(stream: TcpStream, config: &Arc<ClientConfig>) -> StreamOwned<ClientConnection, TcpStream> {
    let session = ClientConnection::new(Arc::clone(config), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(session, stream)
}

/// A client without a name: each of its consumers has metrics of its own.
pub(crate) fn nameless() -> OrbOptions {
    OrbOptions { name: Some(String::new()), ..OrbOptions::default() }
}

/// From 127.0.0.1, and with no token.
pub(crate) const NOBODY: Who<'static> = Who { from: [127, 0, 0, 1], token: "", tls: None };

impl Who<'_> {
    pub(crate) fn fields(self) -> String {
        if self.token.is_empty() { String::new() } else { format!("Authorization: Bearer {}\r\n", self.token) }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A channel's events, as a client sees them.
pub(crate) struct Watched(BufReader<Box<dyn Connection>>);

impl Watched {
    /// The next message that is no sign of life only: its name, and what it says. Nothing at the end.
    pub(crate) fn next(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            if testing::unless_closed(self.0.read_line(&mut line)).unwrap_or(0) == 0 {
                return None;
            }
            if let Some(event) = line.strip_prefix("event: ") {
                event.trim_end().clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            } else if line.starts_with("0\r\n") {
                return None;
            }
        }
    }
}

impl Answer {
    pub(crate) fn of(all: Vec<u8>) -> Self {
        let text = String::from_utf8(all).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Rig {
    pub(crate) fn address(&self) -> SocketAddr {
        self.console.address().unwrap()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        patient(&stream);
        stream
    }

    /// Opens this client's connection.
    pub(crate) fn connect_as(&self, who: Who<'_>) -> Box<dyn Connection> {
        match who.tls {
            None => Box::new(Self::connect_from(who.from, self.address())),
            Some(tls) => {
                let to = self.console.secure_address().unwrap();
                Box::new(secured(Self::connect_from(who.from, to), tls))
            }
        }
    }

    /// A connection from an address of this host.
    fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
        rustix::net::connect(&socket, &to).unwrap();
        let stream = TcpStream::from(socket);
        patient(&stream);
        stream
    }

    /// Gets a path as this client.
    pub(crate) fn get_as(&self, who: Who<'_>, path: &str) -> Answer {
        let (address, shown) = (self.address(), who.fields());
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{shown}\r\n");
        Self::send_on(self.connect_as(who), &request)
    }

    /// Posts to a path as this client.
    pub(crate) fn post_as(&self, who: Who<'_>, path: &str, body: &str) -> Answer {
        let (address, shown, length) = (self.address(), who.fields(), body.len());
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\
             Content-Type: application/json\r\n{shown}\r\n{body}"
        );
        Self::send_on(self.connect_as(who), &request)
    }

    /// Looks at events.
    pub(crate) fn watch_as(&self, who: Who<'_>, arguments: &str) -> Result<Watched, Answer> {
        let (address, shown) = (self.address(), who.fields());
        let request = format!("GET /api/v1/events?{arguments} HTTP/1.1\r\nHost: {address}\r\n{shown}\r\n");
        let mut stream = self.connect_as(who);
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
        }
        if head.starts_with("HTTP/1.1 200") {
            return Ok(Watched(reader));
        }
        let length = head.to_ascii_lowercase().split_once("content-length: ").unwrap().1.to_owned();
        let mut body = vec![0; length.split_once("\r\n").unwrap().0.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        Err(Answer::of([head.as_bytes(), &body].concat()))
    }

    /// Sends a request as it is, and reads until the end.
    pub(crate) fn send(&self, request: &str) -> Answer {
        Self::send_on(Box::new(self.connect()), request)
    }

    pub(crate) fn send_on(mut stream: Box<dyn Connection>, request: &str) -> Answer {
        stream.write_all(request.as_bytes()).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        Answer::of(all)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address()))
    }

    /// Metrics as OpenMetrics has them.
    pub(crate) fn scrape(&self) -> Answer {
        let (address, accept) = (self.address(), "Accept: application/openmetrics-text");
        self.send(&format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n{accept}\r\nConnection: close\r\n\r\n"))
    }

    /// Answer to a path as JSON.
    pub(crate) fn get_json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    pub(crate) fn post_with(&self, path: &str, fields: &str, body: &str) -> Answer {
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n{body}",
            self.address()
        ))
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.post_with(path, &format!("Content-Type: application/json\r\nAuthorization: Bearer {TOKEN}\r\n"), body)
    }

    pub(crate) fn count(&self, counter: Counter) -> u64 {
        self.service.counters().read(counter)
    }

    pub(crate) fn await_count(&self, counter: Counter, expected: u64) {
        wait_until(format_args!("{counter:?} to be {expected}"), || self.count(counter) == expected);
    }

    pub(crate) fn supplier(&self, channel: Option<i32>) -> SimpleSupplier {
        SimpleSupplier::connect(&self.service.corbaloc("NotificationService"), channel).unwrap()
    }

    /// Makes a channel.
    pub(crate) fn new_channel(&self) -> i32 {
        let orb = Orb::new(nameless());
        let found = orb.resolve(&self.service.corbaloc("NotificationService")).unwrap();
        let factory = EventChannelFactory::unchecked(found);
        factory.create_channel(&[], &[]).unwrap().1
    }

    /// Makes a channel with a name.
    pub(crate) fn named_channel(&self, name: &str) -> i32 {
        let orb = Orb::new(nameless());
        let found = orb.resolve(&self.service.corbaloc("NotificationService")).unwrap();
        EventChannelFactory::unchecked(found).create_named_channel(&[], &[], name).unwrap().1
    }

    /// A consumer that is pushed to and never answers: the listener takes its connections.
    pub(crate) fn mute_consumer(&self, channel: Option<i32>, qos: &[Property]) -> (ObjectRef, TcpListener) {
        self.mute_consumer_called(channel, "mute", qos)
    }

    /// The same, with this key.
    pub(crate) fn mute_consumer_called(
        &self,
        channel: Option<i32>,
        key: &str,
        qos: &[Property],
    ) -> (ObjectRef, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let key = key.replace('<', "%3C").replace('>', "%3E");
        let location: Corbaloc = format!("corbaloc:iiop:1.2@{address}/{key}").parse().unwrap();
        let reference = location.to_ior("IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0");
        let orb = Orb::new(nameless());
        let found = orb.resolve(&self.service.corbaloc("NotificationService")).unwrap();
        let (channel, _) = find_channel(&found, channel).unwrap();
        let admin = channel.default_consumer_admin().unwrap();
        let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
        proxy.set_qos(qos).unwrap();
        StructuredProxyPushSupplier::unchecked(proxy.object().clone())
            .connect_structured_push_consumer(&orb.object(reference))
            .unwrap();
        (proxy.object().clone(), listener)
    }

    /// Consumers that pull, and do not.
    pub(crate) fn idle_consumers(&self, count: usize) {
        let orb = Orb::new(nameless());
        let found = orb.resolve(&self.service.corbaloc("NotificationService")).unwrap();
        let (channel, _) = find_channel(&found, None).unwrap();
        let admin = channel.default_consumer_admin().unwrap();
        for _ in 0..count {
            let (proxy, _) = admin.obtain_notification_pull_supplier(ClientType::Structured).unwrap();
            StructuredProxyPullSupplier::unchecked(proxy.object().clone())
                .connect_structured_pull_consumer(None)
                .unwrap();
        }
    }
}

pub(crate) fn numbered(number: i32) -> StructuredEvent {
    let mut event = StructuredEvent::new("Test", "Numbered", "");
    event.filterable_data.push(Property::new("number", number));
    event
}
