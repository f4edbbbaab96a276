//! Where lanes meet clients that speak lines of JSON ([`json`]).
//!
//! Such a client connects once, and is a supplier, a consumer or both on that connection: [`incoming`] reads it and
//! carries out what it asks for; [`connection`] writes events and answers. For each subscription, and for each channel into which
//! it publishes, it has a proxy like any other client's, for which administration is asked ([`local_proxies`](super::local_proxies)).
//!
//! What it publishes becomes a structured event, so that all protocols' consumers can have it. What it is sent is a line that is made of
//! each event once for all consumers: [`OUTPUT_FORM`] says that to the engine. All of its connections are the main lane's, and so are their
//! proxies: what comes in on lanes of thread pools is handed over there, and is put into a line only then; what is published for
//! consumers on these lanes is handed over to them.
//!
//! Unlike the CORBA protocol this one allocates for each event that comes in, and for values that are not scalars of each that goes
//! out: it is made for scripts, and only the main lane does that, for channels that have such clients.

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

/// What consumers of this protocol need: a line.
pub(crate) const OUTPUT_FORM: OutputForm = OutputForm((Tag::Json as u32) << 16);

/// What the protocol is made with.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// What clients may send.
    pub(crate) limits: ::json::Limits,
    /// What a request counts for at least while administration has it, in octets.
    pub(crate) request_bytes_min: u64,
    /// The tokens that clients may show.
    pub(crate) tokens: Arc<ArcSwap<Tokens>>,
}

/// What this protocol has of a lane.
pub(crate) struct Protocol {
    pub(crate) connections: Slots<Connection>,
    /// How many of them there are.
    open: usize,
    /// Proxies, by the handles that they were asked for with.
    proxies: HashMap<Peer, Proxy>,
    next_peer: Peer,
    /// How long clients may take for a line.
    line_completion: Duration,
    /// Something has a time limit.
    has_deadlines: bool,
    settings: Settings,
    /// What sockets are read into, and where events are put together.
    read: Vec<u8>,
    event: Vec<u8>,
}

/// A proxy of a connection's.
#[derive(Debug, Clone, Copy)]
struct Proxy {
    connection: Token,
    part: Part,
    /// Its key, once administration has said that it is there.
    key: Option<ProxyKey>,
    /// A consumer's outbox that waits for room on the connection.
    blocked: Option<OutboxId>,
}

/// What a proxy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The subscription with that id.
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
    /// Something is to be written on a connection, or looked at, when the round ends.
    pub(crate) fn note_due(&mut self, token: Token, cx: &mut Context) {
        if let Some(connection) = self.connections.get_mut(token) {
            cx.io.quotas.write_later(&mut connection.rounds, Socket::Incoming(Tag::Json, token));
        }
    }

    /// A handle for a proxy that is asked for.
    fn add_proxy(&mut self, connection: Token, part: Part) -> Peer {
        let peer = self.next_peer;
        self.next_peer = Peer(peer.0 + 1);
        self.proxies.insert(peer, Proxy { connection, part, key: None, blocked: None });
        peer
    }
}

/// Puts an event into a line, appended to `out`. Nothing if that cannot be done; `out` is as it was then.
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
