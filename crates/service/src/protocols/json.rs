//! Where lanes meet clients that speak lines of JSON ([`json`]).
//!
//! Such a client connects once, and is a supplier, a consumer or both on that connection: [`incoming`] reads it and
//! carries out what it asks for; [`connection`] writes events and answers. For each subscription, and for each channel into which
//! it publishes, it has a proxy like any other client's, for which administration is asked ([`local_proxies`](super::local_proxies)).
//!
//! What it publishes becomes a structured event, so that all doors' consumers can have it. What it is sent is a line that is made of
//! each event once for all consumers: [`OUTPUT_FORM`] says that to the engine. All of its connections are the main lane's, and so are their
//! proxies: what comes in on lanes of thread pools is handed over there, and is put into a line only then; what is published for
//! consumers on these lanes is handed over to them.
//!
//! Unlike the CORBA door this one allocates for each event that comes in, and for values that are not scalars of each that goes
//! out: it is made for scripts, and only the main lane does that, for channels that have such clients.

pub(crate) mod connection;
pub(crate) mod incoming;

use std::collections::VecDeque;
use std::sync::Arc;

use arc_swap::ArcSwap;
use corba::event::{self, FORM_STRUCTURED, Translated};
use engine::{ChannelId, Form, LaneId, NumberForm, NumberPlace, OutboxId, OutputForm, Peer, ProxyKey};
use hashbrown::HashMap;

use self::connection::Connection;
use super::Tag;
use crate::lane::io::slots::{Slots, Token};
use access::Tokens;

/// What consumers of this door need: a line.
pub(crate) const OUTPUT_FORM: OutputForm = OutputForm((Tag::Json as u32) << 16);

/// The lane that has all connections of this door, and serves all its clients' proxies.
pub(crate) const LANE: LaneId = LaneId::MAIN;

/// What the door is made with.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// What clients may send.
    pub(crate) limits: ::json::Limits,
    /// What a request counts for at least while administration has it, in octets.
    pub(crate) request_bytes_min: u64,
    /// The tokens that clients may show.
    pub(crate) tokens: Arc<ArcSwap<Tokens>>,
}

/// What this door has of a lane.
pub(crate) struct Protocol {
    pub(crate) connections: Slots<Connection>,
    /// How many of them there are.
    open: usize,
    /// Proxies, by the handles that they were asked for with.
    proxies: HashMap<Peer, Proxy>,
    next_peer: Peer,
    /// Connections to which something is to be written, or on which something is to be looked at, when the round ends.
    due: VecDeque<Token>,
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
    Supplier(ChannelId),
}

impl Protocol {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            connections: Slots::new(),
            open: 0,
            proxies: HashMap::new(),
            next_peer: Tag::Json.first_peer(),
            due: VecDeque::new(),
            has_deadlines: false,
            settings,
            read: Vec::new(),
            event: Vec::new(),
        }
    }

    /// Whether there is something to do without a socket or a letter having to speak of it.
    pub(crate) fn goes_on(&self) -> bool {
        !self.due.is_empty()
    }

    /// Whether anything has to be looked after by the clock.
    pub(crate) const fn has_deadlines(&self) -> bool {
        self.has_deadlines
    }

    /// Whether something waits to be written on the connections in so many places from one on. Nothing if there are no places
    /// from there on.
    pub(crate) fn has_output_at(&self, from: u32, places: u32) -> Option<bool> {
        Some(self.connections.range(from, places)?.any(|connection| !connection.output.is_empty()))
    }

    /// Something is to be written on a connection, or looked at, when the round ends.
    pub(crate) fn note_due(&mut self, token: Token) {
        if let Some(connection) = self.connections.get_mut(token)
            && !core::mem::replace(&mut connection.is_due, true)
        {
            self.due.push_back(token);
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
