//! What protocols and administration send each other: requests, answers, and calls that administration asks for, each with a line for each
//! protocol.

use std::sync::Arc;

use engine::Peer;

use super::{LogLines, Objects, Tag, giop, local_proxies};
use crate::admin::values::{Answer, Command, Declined, Query};
use crate::config::LinkEntry;
use crate::lane::links::messages::{LaneThread, ToLane};
use accounts::Account;
use corba::log_lines::with_lines;

/// What a protocol's client is answered by administration.
#[derive(Debug)]
pub(crate) enum ToProtocol {
    Giop(giop::admin_messages::ToProtocol),
    LocalProxy(local_proxies::Notice),
    Link(LinkOrder),
}

/// An operator's order for a link.
#[derive(Debug)]
pub(crate) struct LinkOrder {
    /// Number of the order, which its answer names.
    pub(crate) number: u64,
    pub(crate) act: LinkAct,
}

/// What an operator orders.
#[derive(Debug)]
pub(crate) enum LinkAct {
    /// The link of a name is paused, or goes on.
    Pause { name: String, paused: bool },
    /// A link is added that was found valid.
    Add(Box<LinkEntry>),
    /// These channels are linked with services that are found.
    Federate(Vec<String>),
    /// The services of the federation are listed.
    ListFederation,
    /// An added link is removed, and what waits for it; without `drop_backlog` it stays if anything does.
    Remove { name: String, drop_backlog: bool },
}

impl ToProtocol {
    /// The message that a proxy was ended, for a client of another protocol than CORBA's.
    pub(crate) fn gone(peer: Peer) -> Option<Self> {
        // CORBA's are notified by calls.
        (Tag::of_peer(peer) != Tag::Giop).then_some(Self::LocalProxy(local_proxies::Notice::Gone(peer)))
    }

    /// Has it say something else, which was made for it.
    pub(crate) fn set_bytes(&mut self, bytes: Vec<u8>) {
        match self {
            Self::Giop(message) => message.set_bytes(bytes),
            Self::LocalProxy(notice) => notice.set_refusal(&bytes),
            // No client waits for it.
            Self::Link(_) => {}
        }
    }
}

/// A request of a client for administration, as it arrived at its protocol.
#[derive(Debug)]
pub(crate) enum Request {
    Giop(giop::admin_messages::Request),
    LocalProxy(Box<local_proxies::Request>),
}

impl Request {
    /// The account of the client that asks, which is charged for the request until it is answered.
    pub(crate) const fn account(&self) -> &Arc<Account> {
        match self {
            Self::Giop(request) => request.charge.account(),
            Self::LocalProxy(request) => request.charge.account(),
        }
    }

    /// The connection that it came on: its lane's thread, and its number there.
    pub(crate) fn connection(&self) -> (u32, u64) {
        match self {
            Self::Giop(request) => (request.lane.0, request.connection.to_bits()),
            Self::LocalProxy(request) => (u32::MAX, request.client),
        }
    }

    /// The lane that gets the answer, and the message for it: `bytes`, or nothing if no client waits for an answer.
    pub(crate) fn answered(self, bytes: Vec<u8>) -> (LaneThread, ToLane) {
        match self {
            Self::Giop(request) => request.answered(bytes),
            Self::LocalProxy(request) => request.answered(&bytes),
        }
    }

    /// The lane that closes the connection instead of answering, and the message for it. (Local proxies name no objects, and are answered.)
    pub(crate) fn closing(self) -> (LaneThread, ToLane) {
        match self {
            Self::Giop(request) => request.closing(),
            Self::LocalProxy(request) => request.answered(&[]),
        }
    }
}

/// What a request is for administration.
#[derive(Debug)]
pub(crate) enum Wish {
    /// To be answered by administration.
    Query(Query),
    Command(Command),
    /// To be answered by the thread that analyses.
    Analysis,
    /// To be executed by the objects themselves.
    Own,
}

impl Wish {
    /// What it is called in the log, if it concerns the whole service.
    pub(crate) const fn operation(&self) -> Option<&'static str> {
        match self {
            Self::Query(_) => Some("a look at the whole service"),
            Self::Command(_) => Some("a command of an operator"),
            Self::Analysis | Self::Own => None,
        }
    }
}

/// The answer to a request, as its protocol sends it: nothing if no client waits for one.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    pub(crate) bytes: Vec<u8>,
    /// Set if it says that the request was not executed, or failed.
    pub(crate) fault: Option<Fault>,
}

/// What was wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no such object.
    Object,
    /// There is no such object, and that was asked: the answer to a `LocateRequest`.
    Located,
    /// The object has no such operation.
    Operation,
    /// The arguments cannot be read.
    Arguments,
    /// What the operation itself may say.
    Other,
}

impl Fault {
    /// Whether the request named no object.
    pub(crate) const fn is_miss(self) -> bool {
        matches!(self, Self::Object | Self::Located)
    }
}

impl Request {
    /// Puts an answer of administration's into its protocol's words.
    pub(crate) fn reply(&self, answer: &Answer) -> Answered {
        match self {
            Self::Giop(request) => Objects::reply(request, answer).unwrap_or_default(),
            Self::LocalProxy(_) => Answered::default(),
        }
    }

    /// Says why it is not answered.
    pub(crate) fn decline(&self, why: Declined) -> Answered {
        match self {
            Self::Giop(request) => Objects::decline(request, why).unwrap_or_default(),
            Self::LocalProxy(_) => local_proxies::Request::decline(why),
        }
    }

    /// The answer to its client, for this reason, if what it changed is not on disk in time. Nothing for a local proxy, which does not
    /// outlive the process, unless a channel was made for it.
    pub(crate) fn not_stored(&self, why: Declined) -> Option<Vec<u8>> {
        match self {
            Self::Giop(request) => Some(Objects::decline(request, why)?.bytes),
            Self::LocalProxy(request) => {
                (why == Declined::NotMade && request.may_create()).then(|| local_proxies::Request::decline(why).bytes)
            }
        }
    }

    /// Does the analysis that it asks for: on whichever thread has the time.
    pub(crate) fn analyse(&self) -> Answered {
        match self {
            Self::Giop(request) => Objects::analyse(request).unwrap_or_default(),
            Self::LocalProxy(_) => Answered::default(),
        }
    }
}

impl Objects {
    /// What a request is for administration.
    pub(crate) fn wish(&self, request: &Request) -> Wish {
        match request {
            Request::Giop(request) => self.wish_giop(request),
            Request::LocalProxy(_) => Wish::Own,
        }
    }

    /// Executes a request that is the objects' own, which may cause so many log lines; says how many it did.
    pub(crate) fn execute(&mut self, request: &Request, lines: u32) -> (Answered, LogLines) {
        match request {
            Request::Giop(request) => {
                let (answered, log_lines) = self.execute_giop(request, lines);
                (answered.unwrap_or_default(), log_lines)
            }
            Request::LocalProxy(request) => with_lines(lines, || request.execute(self)),
        }
    }
}
