//! The protocol of JSON lines ([`json`]).
//!
//! A client connects once, and is a supplier, a consumer or both on that connection: [`incoming`] reads its requests and executes them;
//! [`connection`] writes events and answers. For each subscription, and for each channel into which it publishes, it has a proxy like any
//! other client's, requested from administration ([`local_proxies`](super::local_proxies)).
//!
//! A published line becomes a structured event, so that all protocols' consumers can have it. A delivered line is made of each event once
//! for all consumers: [`OUTPUT_FORM`] says that to the engine. All connections and proxies are on the main lane: events of thread pools'
//! lanes are handed over there, and become lines only then; events published for consumers on these lanes are handed over to them.
//!
//! Unlike the CORBA protocol this one allocates for each event that comes in, and for each value that goes out and is no scalar: it is made
//! for scripts, and only the main lane allocates, for channels with such clients.

pub(crate) mod connection;
pub(crate) mod incoming;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use corba::LocalChannels;
use corba::event::{self, FORM_STRUCTURED, Translated};
use core::time::Duration;
use engine::{ChannelId, Delivery, Event, Form, NumberForm, NumberPlace, OutboxId, OutputForm, Peer, ProxyKey};
use hashbrown::HashMap;

use self::connection::Connection;
use super::{Check, Client, Given, PutInto, Step, Tag, WireProtocol};
use crate::config::{Config, ConfigError, parse_listen};
use crate::lane::context::Context;
use crate::lane::intake::Refused;
use crate::lane::io::entrance::Arrival;
use crate::lane::io::net::Poll;
use crate::lane::io::quotas::Rounds;
use crate::lane::io::slots::{Slots, Token};
use crate::lane::io::socket::{Layer, Socket};
use crate::lane::io::system::Ready;
use crate::lane::run::{Common, Core, LaneEnds, Worker};
use access::Tokens;
use accounts::Account;

/// Output form of this protocol: a line.
pub(crate) const OUTPUT_FORM: OutputForm = OutputForm((Tag::Json as u32) << 16);

/// Settings of this protocol.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Limits of clients' requests.
    pub(crate) limits: ::json::Limits,
    /// Minimum octets charged for a request while administration has it.
    pub(crate) request_bytes_min: u64,
    /// The tokens that clients may show.
    pub(crate) tokens: Arc<ArcSwap<Tokens>>,
}

/// State of this protocol on a lane.
pub(crate) struct Protocol {
    pub(crate) connections: Slots<Connection>,
    /// Number of open connections.
    open: usize,
    /// Proxies, by the handles in their requests.
    proxies: HashMap<Peer, Proxy>,
    next_peer: Peer,
    /// Time limit for clients to complete a line.
    line_completion: Duration,
    /// Whether anything has a time limit.
    has_deadlines: bool,
    settings: Settings,
    /// Read buffer, and buffer to encode events.
    read: Vec<u8>,
    event: Vec<u8>,
}

/// A proxy of a connection's.
#[derive(Debug, Clone, Copy)]
struct Proxy {
    connection: Token,
    part: Part,
    /// Key, once administration has made the proxy.
    key: Option<ProxyKey>,
    /// Consumer's outbox that waits for room on the connection.
    blocked: Option<OutboxId>,
}

/// Purpose of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Subscription with this id.
    Subscription(u64),
    /// Publishing into a channel.
    Supplier,
    /// No proxy, but the handle of the request with that id for the list of channels.
    Channels(u64),
}

impl WireProtocol for Protocol {
    const NAME: &'static str = "lines of JSON";
    type Settings = Settings;
    type Sockets = ();
    type Claim = incoming::Claim;

    fn settings(given: &Given<'_>) -> Settings {
        let line_bytes_max = usize::try_from(given.config.json.line_bytes_max).unwrap_or(usize::MAX);
        let limits = ::json::Limits { line_bytes_max, ..::json::Limits::default() };
        Settings { limits, request_bytes_min: given.request_bytes_min, tokens: Arc::clone(&given.tokens) }
    }

    fn new(common: &Common, _ends: &mut LaneEnds, (): (), _poll: &Poll) -> io::Result<Self> {
        Ok(Self {
            connections: Slots::new(),
            open: 0,
            proxies: HashMap::new(),
            next_peer: Tag::Json.first_peer(),
            line_completion: common.message_completion,
            has_deadlines: false,
            settings: common.protocols.json.clone(),
            read: Vec::new(),
            event: Vec::new(),
        })
    }

    const LISTEN_ADDRESS: fn(&Config, Layer) -> Result<Option<SocketAddr>, ConfigError> = |config, layer| match layer {
        Layer::Plain => parse_listen("json.listen", config.json.listen.as_deref()),
        Layer::Tls => parse_listen("tls.json_listen", config.tls.json_listen.as_deref()),
    };
    const NO_PLACE: fn(&str) -> Option<Vec<u8>> = |reason| {
        let mut line = Vec::new();
        ::json::answer::error(&mut line, None, reason);
        Some(line)
    };
    const LET_IN: fn(&mut Worker, Arrival) -> Option<usize> = |worker, arrival| worker.core.let_in_json(arrival);
    const CLIENT: fn(&Worker, Token, bool) -> Option<Client<'_>> = |worker, token, _| {
        let connection = worker.core.protocols.json.connections.get(token)?;
        let (address, account) = (connection.address, connection.account());
        Some(Client { address, account, idle_since: connection.idle_since() })
    };
    const CLOSE: fn(&mut Worker, Token) =
        |worker, token| worker.core.protocols.json.close_json(token, &mut worker.core.cx);
    const SERVE: fn(&mut Worker, Ready) = |worker, ready| {
        if let Socket::Incoming(_, token) = ready.socket {
            worker.core.serve_json(token, ready);
        }
    };
    const RESUME: fn(&mut Worker, Socket) = |worker, socket| {
        if let Socket::Incoming(_, token) = socket {
            worker.core.go_on_with_json(token);
        }
    };
    const FLUSH: fn(&mut Worker, Token) =
        |worker, token| worker.core.protocols.json.flush_json(token, &mut worker.core.cx);
    const ROUNDS: fn(&mut Worker, Socket) -> Option<&mut Rounds> = |worker, socket| {
        let Socket::Incoming(_, token) = socket else { return None };
        Some(&mut worker.core.protocols.json.connections.get_mut(token)?.rounds)
    };
    const HAS_OUTPUT_AT: fn(&Worker, u32, u32) -> Option<bool> = |worker, from, places| {
        let mut connections = worker.core.protocols.json.connections.range(from, places)?;
        Some(connections.any(|connection| !connection.output.is_empty()))
    };
    const CLOSE_ALL: Step = |worker| worker.core.protocols.json.close_all_json(&mut worker.core.cx);
    const SWEEP: Step = |worker| worker.core.sweep_json();
    const HAS_DEADLINES: Check = |worker| worker.core.protocols.json.has_deadlines;

    const SEND: fn(&mut Core, &Delivery, &mut Vec<Arc<Event>>) =
        |core, delivery, events| core.protocols.json.send_line(delivery, events, &mut core.cx);
    const ANSWER: fn(&mut Worker, incoming::Claim, Option<Refused>) =
        |worker, claim, refused| worker.core.answer_json(claim, refused);
    const PROXY_REGISTERED: fn(&mut Core, Peer, Result<ProxyKey, String>, &Arc<Account>) = Core::json_proxy_registered;
    const PROXY_GONE: fn(&mut Core, Peer) = |core, peer| core.protocols.json.json_proxy_gone(peer, &mut core.cx);
    const CHANNELS_LISTED: fn(&mut Core, Peer, Result<LocalChannels, String>) =
        |core, peer, channels| core.protocols.json.answer_json_channels(peer, channels, &mut core.cx);
    const FITS: fn(Form, u64, OutputForm) -> bool = |_, _, _| false;
    const PUT_INTO: PutInto = |_, channel, event, (output_form, came), out| {
        let came = output_form.marks_numbers().then_some(came);
        let number_at = translate(channel, event, came, out).ok_or(None)?;
        Ok(Translated::Written { tag: 0, number_at })
    };
}

impl Protocol {
    /// Queues a connection to be written to, or looked at, when the round ends.
    pub(crate) fn note_due(&mut self, token: Token, cx: &mut Context) {
        if let Some(connection) = self.connections.get_mut(token) {
            cx.io.quotas.write_later(&mut connection.rounds, Socket::Incoming(Tag::Json, token));
        }
    }

    /// Adds a requested proxy, and returns its handle.
    fn add_proxy(&mut self, connection: Token, part: Part) -> Peer {
        let peer = self.next_peer;
        self.next_peer = Peer(peer.0 + 1);
        self.proxies.insert(peer, Proxy { connection, part, key: None, blocked: None });
        peer
    }
}

/// Translates an event into a line, appended to `out`. `None` if that is impossible; `out` is then unchanged.
pub(crate) fn translate(
    channel: ChannelId,
    (form, tag, bytes): (Form, u64, &[u8]),
    came: Option<u64>,
    out: &mut Vec<u8>,
) -> Option<Option<NumberPlace>> {
    let before = out.len();
    let written = if form == FORM_STRUCTURED {
        let (reader, mut work) = (event::reader(bytes, tag), event::work_for(bytes.len()));
        match came {
            None => ::json::event::write(out, channel.0, reader, &mut work).ok().map(|()| None),
            Some(came) => {
                let number_at = ::json::event::write_numbered(out, channel.0, came, reader, &mut work).ok();
                number_at.and_then(|at| u32::try_from(at - before).ok()).map(|offset| {
                    const { assert!(::json::event::NUMBER_CHARACTERS == NumberPlace::DIGITS) };
                    Some(NumberPlace { offset, form: NumberForm::Digits })
                })
            }
        }
    } else {
        let mut structured = Vec::new();
        match event::translate(form, tag, bytes, (event::protocol_output_form(FORM_STRUCTURED), 0), &mut structured) {
            Ok(Translated::Written { tag, .. }) => translate(channel, (FORM_STRUCTURED, tag, &structured), came, out),
            Ok(Translated::AlreadyFits) | Err(_) => None,
        }
    };
    if written.is_none() {
        out.truncate(before);
    }
    written
}
