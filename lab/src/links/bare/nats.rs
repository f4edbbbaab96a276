//! NATS: a publisher at a leaf node, a subscriber at its hub; and JetStream, of which a stream at the hub sources one at the leaf node.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use load::process::Process;
use rustix::net::{RecvFlags, recv};
use serde_json::{Value, json};

use super::{Carrier, Got};
use crate::links::line::Line;
use crate::links::nats::server;
use crate::loss::Losses;
use crate::persistent::{Folder, own_address};
use crate::{BenchError, Options};

const SUBJECT: &str = "bench.links";
/// Ports of the hub, of the leaf node, and that of the hub for leaf nodes.
const PORTS: [u16; 3] = [4222, 4223, 7422];
/// Names of subscriptions.
const EVENTS: &str = "1";
const ANSWER: &str = "2";

/// A connection to a server.
struct Client {
    writing: TcpStream,
    reading: BufReader<TcpStream>,
}

impl Client {
    fn connect(port: u16) -> Result<Self, BenchError> {
        let connected = TcpStream::connect((own_address(), port)).and_then(|writing| {
            writing.set_nodelay(true)?;
            Ok(Self { reading: BufReader::new(writing.try_clone()?), writing })
        });
        let mut client = connected.map_err(BenchError::io("connecting to NATS"))?;
        client.say(
            "CONNECT {\"verbose\":false,\"pedantic\":false,\"name\":\"bench\",\"lang\":\"rust\",\"version\":\"0\"}",
        )?;
        Ok(client)
    }

    fn say(&mut self, line: &str) -> Result<(), BenchError> {
        self.writing.write_all(format!("{line}\r\n").as_bytes()).map_err(BenchError::io("talking to NATS"))
    }

    fn publish(&mut self, (subject, answers): (&str, &str), payload: &[u8]) -> Result<(), BenchError> {
        let line = format!("PUB {subject} {answers} {}\r\n", payload.len());
        let message = [line.as_bytes(), payload, b"\r\n"].concat();
        self.writing.write_all(&message).map_err(BenchError::io("publishing in NATS"))
    }

    /// The next message's subscription and payload.
    fn message(&mut self) -> Result<(String, Vec<u8>), BenchError> {
        let reading = || BenchError::io("reading of NATS");
        loop {
            let mut line = String::new();
            if self.reading.read_line(&mut line).map_err(reading())? == 0 {
                return Err(BenchError::Process { name: "nats-server".into(), reason: "ended a connection".into() });
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            match *words.as_slice() {
                ["MSG", _, subscription, .., size] => {
                    let size = size.parse::<usize>().ok().filter(|size| *size < 1 << 20).unwrap_or(0);
                    let mut payload = vec![0; size + 2];
                    self.reading.read_exact(&mut payload).map_err(reading())?;
                    payload.truncate(size);
                    return Ok((subscription.to_owned(), payload));
                }
                ["PING"] => self.say("PONG")?,
                ["-ERR", ..] => return Err(BenchError::Process { name: "nats-server".into(), reason: line }),
                _ => {}
            }
        }
    }

    /// Sends a request of JetStream's API; an error is an error here, too.
    fn request(&mut self, subject: &str, body: &Value) -> Result<(), BenchError> {
        self.say(&format!("SUB answers {ANSWER}\r\nUNSUB {ANSWER} 1"))?;
        self.publish((subject, "answers"), body.to_string().as_bytes())?;
        loop {
            let (subscription, payload) = self.message()?;
            if subscription == ANSWER {
                let answer: Value = serde_json::from_slice(&payload).unwrap_or_default();
                let reason = answer.get("error").map(|error| format!("says, of {subject}: {error}"));
                return reason.map_or(Ok(()), |reason| Err(BenchError::Process { name: "JetStream".into(), reason }));
            }
        }
    }

    /// Answers what the server asks a client that reads no messages.
    fn answer_pings(&mut self) -> Result<(), BenchError> {
        let mut said = [0; 256];
        let count = recv(&self.writing, &mut said, RecvFlags::DONTWAIT).map_or(0, |(count, _)| count);
        let said = said.get(..count).unwrap_or_default();
        if said.windows(4).any(|word| word == b"PING") { self.say("PONG") } else { Ok(()) }
    }
}

struct Nats {
    hub: Process,
    _leaf: Process,
    publisher: Client,
    got: Arc<Mutex<Got>>,
    _folder: Folder,
}

impl Nats {
    /// Starts both servers, and has streams made where events are to be kept.
    fn start(line: &Line, is_kept: bool, on: Option<&Path>) -> Result<Self, BenchError> {
        let (folder, here) = (Folder::new("links-nats", on)?, own_address());
        let [hub_port, leaf_port, leaves_port] = PORTS;
        let of_both = |name: &str, port| {
            let (listen, store) = (format!("server_name: {name}\nlisten: \"{here}:{port}\"\n"), folder.file(name));
            let kept = format!("jetstream {{ store_dir: \"{}\", domain: {name} }}\n", store.display());
            if is_kept { listen + &kept } else { listen }
        };
        let leaves = format!("leafnodes {{ listen: \"{here}:{leaves_port}\", no_advertise: true }}\n");
        let remote = format!("leafnodes {{ remotes = [{{ url: \"nats-leaf://{}\" }}] }}\n", line.address);
        let hub = server(&[], &folder.file("hub.conf"), &(of_both("hub", hub_port) + &leaves))?;
        let leaf = server(&[], &folder.file("leaf.conf"), &(of_both("leaf", leaf_port) + &remote))?;
        let (mut publisher, mut subscriber) = (Client::connect(leaf_port)?, Client::connect(hub_port)?);
        if is_kept {
            let stream = json!({"name": "NEAR", "subjects": [SUBJECT], "storage": "file", "num_replicas": 1});
            publisher.request("$JS.API.STREAM.CREATE.NEAR", &stream)?;
            let sources = json!([{"name": "NEAR", "external": {"api": "$JS.leaf.API", "deliver": ""}}]);
            let republish = json!({"src": ">", "dest": "kept.>"});
            let stream = json!({"name": "FAR", "storage": "file", "num_replicas": 1, "sources": sources, "republish": republish});
            subscriber.request("$JS.API.STREAM.CREATE.FAR", &stream)?;
        }
        let subject = if is_kept { "kept.>" } else { SUBJECT };
        subscriber.say(&format!("SUB {subject} {EVENTS}"))?;
        let got = Arc::<Mutex<Got>>::default();
        let entered = Arc::clone(&got);
        // Ends with the hub.
        thread::spawn(move || {
            while let Ok((_, payload)) = subscriber.message() {
                entered.lock().unwrap_or_else(PoisonError::into_inner).enter(&payload);
            }
        });
        Ok(Self { hub, _leaf: leaf, publisher, got, _folder: folder })
    }
}

impl Carrier for Nats {
    fn put(&mut self, payload: &[u8]) -> Result<(), BenchError> {
        self.publisher.answer_pings()?;
        self.publisher.publish((SUBJECT, ""), payload)
    }

    fn came(&mut self, sent: u64) -> Result<(u64, Losses), BenchError> {
        let got = self.got.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((got.round, got.ledger.balance(sent)))
    }

    fn far(&self) -> u32 {
        self.hub.pid()
    }
}

/// What is lost while the line is cut in each way, with streams or without.
pub(in crate::links) fn cuts(options: &Options, is_kept: bool) -> Result<Value, BenchError> {
    let [_, _, leaves_port] = PORTS;
    let line = Line::to(SocketAddr::from((own_address(), leaves_port)))?;
    super::cuts(options, &line, &mut Nats::start(&line, is_kept, options.on.as_deref())?)
}
