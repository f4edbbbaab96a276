//! Messages between protocols and administration: requests, answers, and calls to clients, with a variant for each protocol.

use std::sync::Arc;

use engine::Peer;

use super::{LogLines, Objects, Tag, giop, local_proxies};
use crate::admin::values::{Answer, Command, Declined, Query};
use crate::config::LinkEntry;
use crate::lane::links::messages::{LaneThread, ToLane};
use accounts::Account;
use corba::log_lines::with_lines;

/// Administration's answer to a protocol's client.
#[derive(Debug)]
pub(crate) enum ToProtocol {
    Giop(giop::admin_messages::ToProtocol),
    LocalProxy(local_proxies::Notice),
    Link(LinkOrder),
}

/// An operator's order for a link.
#[derive(Debug)]
pub(crate) struct LinkOrder {
    /// Number of the order, repeated in its answer.
    pub(crate) number: u64,
    pub(crate) act: LinkAct,
}

/// An operator's act on links.
#[derive(Debug)]
pub(crate) enum LinkAct {
    /// Pause or resume the link of this name.
    Pause { name: String, paused: bool },
    /// Add a link that was validated.
    Add(Box<LinkEntry>),
    /// Link these channels with services that are found.
    Federate(Vec<String>),
    /// List the services of the federation.
    ListFederation,
    /// Remove an added link, with its backlog; without `drop_backlog` a link with a backlog stays.
    Remove { name: String, drop_backlog: bool },
}

impl ToProtocol {
    /// Notice that a proxy was ended, for a client of another protocol than CORBA.
    pub(crate) fn gone(peer: Peer) -> Option<Self> {
        // CORBA's are notified by calls.
        (Tag::of_peer(peer) != Tag::Giop).then_some(Self::LocalProxy(local_proxies::Notice::Gone(peer)))
    }

    /// Replaces the answer by another one made for it.
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
    /// The client's account, which is charged for the request until it is answered.
    pub(crate) const fn account(&self) -> &Arc<Account> {
        match self {
            Self::Giop(request) => request.charge.account(),
            Self::LocalProxy(request) => request.charge.account(),
        }
    }

    /// The request's connection: its lane's thread, and its number there.
    pub(crate) fn connection(&self) -> (u32, u64) {
        match self {
            Self::Giop(request) => (request.lane.0, request.connection.to_bits()),
            Self::LocalProxy(request) => (u32::MAX, request.client),
        }
    }

    /// The message with the answer, and the lane that gets it: `bytes`, or nothing if no client waits for an answer.
    pub(crate) fn answered(self, bytes: Vec<u8>) -> (LaneThread, ToLane) {
        match self {
            Self::Giop(request) => request.answered(bytes),
            Self::LocalProxy(request) => request.answered(&bytes),
        }
    }

    /// The message to close the connection instead of answering, and the lane that gets it. (Local proxies name no objects, and are
    /// answered.)
    pub(crate) fn closing(self) -> (LaneThread, ToLane) {
        match self {
            Self::Giop(request) => request.closing(),
            Self::LocalProxy(request) => request.answered(&[]),
        }
    }
}

/// Kind of a request for administration.
#[derive(Debug)]
pub(crate) enum Wish {
    /// A query that administration answers.
    Query(Query),
    Command(Command),
    /// An analysis, for the thread of analyses.
    Analysis,
    /// A request that the objects execute.
    Own,
}

impl Wish {
    /// Name in the log, if it concerns the whole service.
    pub(crate) const fn operation(&self) -> Option<&'static str> {
        match self {
            Self::Query(_) => Some("a look at the whole service"),
            Self::Command(_) => Some("a command of an operator"),
            Self::Analysis | Self::Own => None,
        }
    }
}

/// The answer to a request, as its protocol sends it; empty if no client waits for one.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    pub(crate) bytes: Vec<u8>,
    /// Fault, if the request was not executed, or failed.
    pub(crate) fault: Option<Fault>,
}

/// Fault of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no such object.
    Object,
    /// There is no such object, which was the question: the answer to a `LocateRequest`.
    Located,
    /// The object has no such operation.
    Operation,
    /// The arguments cannot be read.
    Arguments,
    /// The operation's own exception.
    Other,
}

impl Fault {
    /// Whether the request named no object.
    pub(crate) const fn is_miss(self) -> bool {
        matches!(self, Self::Object | Self::Located)
    }
}

impl Request {
    /// Translates administration's answer for the protocol.
    pub(crate) fn reply(&self, answer: &Answer) -> Answered {
        match self {
            Self::Giop(request) => Objects::reply(request, answer).unwrap_or_default(),
            Self::LocalProxy(_) => Answered::default(),
        }
    }

    /// Answers why the request was declined.
    pub(crate) fn decline(&self, why: Declined) -> Answered {
        match self {
            Self::Giop(request) => Objects::decline(request, why).unwrap_or_default(),
            Self::LocalProxy(_) => local_proxies::Request::decline(why),
        }
    }

    /// The answer, with this reason, if the change is not on disk in time. `None` for a local proxy, which does not outlive the process,
    /// unless a channel was made for it.
    pub(crate) fn not_stored(&self, why: Declined) -> Option<Vec<u8>> {
        match self {
            Self::Giop(request) => Some(Objects::decline(request, why)?.bytes),
            Self::LocalProxy(request) => {
                (why == Declined::NotMade && request.may_create()).then(|| local_proxies::Request::decline(why).bytes)
            }
        }
    }

    /// Executes its analysis, on any thread.
    pub(crate) fn analyse(&self) -> Answered {
        match self {
            Self::Giop(request) => Objects::analyse(request).unwrap_or_default(),
            Self::LocalProxy(_) => Answered::default(),
        }
    }
}

impl Objects {
    /// Classifies a request.
    pub(crate) fn wish(&self, request: &Request) -> Wish {
        match request {
            Request::Giop(request) => self.wish_giop(request),
            Request::LocalProxy(_) => Wish::Own,
        }
    }

    /// Executes a request on the objects, which may cause up to `lines` log lines. Returns the number that it caused.
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
