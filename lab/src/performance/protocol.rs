//! How publishers and subscribers speak with a contender.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::wire::Stamp;
use crate::{BenchError, Form};

mod giop;
mod json;
mod nats;

use giop::{GiopPublishing, GiopSubscribing};
use json::{JsonPublishing, JsonSubscribing};
use nats::{NatsPublishing, NatsSubscribing};

pub(super) use json::write_digits;

/// A language that ends speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Protocol {
    /// Pushes of one event each, as CORBA notification and event services take and make them.
    Giop(Form),
    /// Pushes of sequences of so many structured events.
    GiopBatch(u32),
    /// Messages of NATS.
    Nats,
    /// Lines of JSON.
    Json,
}

/// What a protocol has to know to publish.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings<'a> {
    /// What messages are sent to: an object key, a subject.
    pub(super) target: &'a [u8],
    /// Octets of payload of an event.
    pub(super) payload_bytes: usize,
    /// Whether acknowledgements are wanted.
    pub(super) acknowledged: bool,
}

/// A message that is ready to be sent again and again, once its events are stamped.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub(super) bytes: Vec<u8>,
    /// Where the payload of each of its events begins.
    pub(super) payloads: Vec<usize>,
    /// Payloads are text, and stamps in them hexadecimal digits.
    pub(super) is_text: bool,
    /// Where four octets are that number messages, in the machine's byte order, if there are any.
    pub(super) id: Option<usize>,
}

/// What acknowledgements were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Acknowledged {
    /// Octets that are dealt with.
    pub(super) consumed: usize,
    pub(super) messages: u32,
}

/// The publisher's side of a protocol.
pub(super) trait Publishing {
    /// What is said first on a connection, if anything.
    fn greeting(&self, _settings: &Settings<'_>) -> Vec<u8> {
        Vec::new()
    }

    /// A message of one event, or as many as the protocol puts into one.
    fn message(&self, settings: &Settings<'_>) -> Prepared;

    /// Looks for acknowledgements; what has to be said in answer to anything else is appended to `answers`.
    fn acknowledged(&mut self, bytes: &[u8], answers: &mut Vec<u8>) -> Result<Acknowledged, BenchError>;
}

/// The consumers' side of a protocol, on one connection.
pub(super) trait Subscribing {
    /// What is said first on a connection, if anything.
    fn greeting(&self, _targets: &[Vec<u8>]) -> Vec<u8> {
        Vec::new()
    }

    /// Takes what has come whole; how many octets that were. What has to be answered is appended to `answers`. Each event is
    /// handed to `found` with its consumer, counted from 0.
    fn take(
        &mut self,
        bytes: &[u8],
        answers: &mut Vec<u8>,
        found: &mut dyn FnMut(usize, Stamp),
    ) -> Result<usize, BenchError>;
}

impl Protocol {
    /// The publisher's side.
    pub(super) fn publishing(self) -> Box<dyn Publishing> {
        match self {
            Self::Giop(form) => Box::new(GiopPublishing { form, events: 1 }),
            Self::GiopBatch(events) => Box::new(GiopPublishing { form: Form::Sequence, events }),
            Self::Nats => Box::new(NatsPublishing::default()),
            Self::Json => Box::new(JsonPublishing),
        }
    }

    /// The consumers' side.
    pub(super) fn subscribing(self, targets: &[Vec<u8>]) -> Box<dyn Subscribing> {
        match self {
            Self::Giop(form) => Box::new(GiopSubscribing::new(form, targets)),
            Self::GiopBatch(_) => Box::new(GiopSubscribing::new(Form::Sequence, targets)),
            Self::Nats => Box::new(NatsSubscribing),
            Self::Json => Box::new(JsonSubscribing),
        }
    }
}

/// The error of a peer that says what it should not.
pub(super) fn broken(reason: impl Into<String>) -> BenchError {
    BenchError::Protocol { contender: "a contender".to_owned(), reason: reason.into() }
}

/// The error of a peer at that address that cannot be reached.
pub(super) fn unreachable_peer(address: SocketAddr, source: &std::io::Error) -> BenchError {
    BenchError::Setup { doing: format!("connecting to a contender at {address}"), reason: source.to_string() }
}
