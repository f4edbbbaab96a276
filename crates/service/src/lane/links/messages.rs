//! Messages between lanes, administration and the resolver.
//!
//! Lanes own all sockets, administration owns all objects, and neither waits for the other: a lane that cannot post to administration says
//! so to its client itself. How messages travel is in [`super::mailbox`].

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use engine::{ChannelStats, DisconnectReason, Notice, OutboxStats, ProxyKey, TypeDrops, Undelivered};

use crate::admin::operators::VisitPurpose;
use crate::admin::values::{
    Answer, Command, ConsumerStatus, Declined, Dropped, FederationMember, LinkStatus, Query, TypeEvents,
};
use crate::admin::waiting::Waiting;
use crate::lane::draining::LookedAt;
use crate::lane::io::entrance::Visitor;
use crate::lane::io::slots::Token;
use crate::lane::saturation::Finding;
use crate::protocols::{Call, CallFailure, Denied, Reply, Request, Tag, ToProtocol};
use accounts::{Charge, Principal};

/// A lane's thread. Unlike the id of a lane, it is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneThread(pub(crate) u32);

impl LaneThread {
    pub(crate) const MAIN: Self = Self(0);
}

/// Message from a lane to administration.
#[derive(Debug)]
pub(crate) enum ToAdministration {
    /// A request or locate request.
    Request(Request),
    /// A query or a command of the embedding program, on behalf of a principal. The sender waits for the answer.
    Query(Query, SyncSender<Result<Answer, Declined>>, Principal),
    Command(Command, SyncSender<Result<Answer, Declined>>, Principal),
    /// An operator known by HTTP requests a connection for lines of JSON, and waits for the answer.
    Visit(Box<Visit>),
    /// A command over HTTP was refused there for this reason.
    RefusedAct {
        by: Principal,
        what: String,
        why: &'static str,
    },
    /// A notice of the engine; if a consumer begins to fail, with the reason.
    Notice(Notice, Option<String>),
    /// A call that administration requested has ended.
    Returned {
        call: u64,
        how: Result<Reply, CallFailure>,
    },
    /// News about a supplier that is pulled from.
    Supplier {
        key: ProxyKey,
        news: SupplierNews,
    },
    /// A connection to clients at this host and port has ended as that of a process which dies.
    Died(String, u16),
    /// The lanes' answer to a client's query, which administration passes on in the client's turn.
    Surveyed(Box<Surveyed>),
    /// A change of the saturation of the lane with this name.
    Saturation(Arc<str>, Finding),
    /// A line for the log. Lanes do not log themselves, since a log can block.
    Log(log::Level, String),
    /// A client was denied what it tried.
    Denied(Denied),
    /// A chunk of the answer to [`ToLane::Survey`], which may be the last.
    Survey {
        chunk: Survey,
        is_last: bool,
    },
    /// A chunk of the answer to [`ToLane::Drain`]. The last one has the totals.
    Left {
        chunk: Vec<Undelivered>,
        last: Option<LookedAt>,
    },
    /// Result of the main lane for the order of this number: executed, or why not; `None` if it has no such link. With the list that was
    /// requested.
    LinkOrdered {
        number: u64,
        done: Option<Result<(), String>>,
        members: Vec<FederationMember>,
    },
    /// The lane has ended, as requested: it is empty, and no thread posts to it. This is its last message.
    Ended,
    /// Stop the service: when its events are delivered, or after this time; at once if there is none.
    Stop(Option<Duration>),
}

/// Request of [`ToAdministration::Visit`].
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) visitor: Visitor,
    pub(crate) purpose: VisitPurpose,
    pub(crate) to: SyncSender<Result<Answer, Declined>>,
}

/// Answer of [`ToAdministration::Surveyed`].
#[derive(Debug)]
pub(crate) struct Surveyed {
    pub(crate) query: Query,
    pub(crate) waiting: Waiting,
    pub(crate) status: Arc<SurveyStatus>,
}

/// Consumers and drops that the lanes have reported, for all queries of the same time.
#[derive(Debug)]
pub(crate) struct SurveyStatus {
    pub(crate) consumers: Vec<ConsumerStatus>,
    pub(crate) drops: Vec<Dropped>,
    /// Dropped events that `drops` does not list.
    pub(crate) beyond: u64,
    /// Events taken in by type.
    pub(crate) types: Vec<TypeEvents>,
    pub(crate) links: Vec<LinkStatus>,
}

/// Report about one lane, or about all lanes.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) outboxes: Vec<OutboxStats>,
    /// Channels, if requested.
    pub(crate) channels: Vec<ChannelStats>,
    /// Drops, if requested.
    pub(crate) drops: Vec<NamedDrops>,
    /// Number of dropped events that `drops` has no places for.
    pub(crate) drops_beyond: u64,
    /// Event types, if requested.
    pub(crate) types: Vec<TypeEvents>,
    /// Links, if requested.
    pub(crate) links: Vec<LinkStatus>,
}

/// Reports of the lanes so far.
#[derive(Debug, Default)]
pub(crate) struct Surveys {
    lanes: Vec<(LaneThread, Survey)>,
}

impl Surveys {
    /// Adds a chunk of a lane's survey to what that lane has sent before.
    pub(crate) fn take_in(&mut self, from: LaneThread, chunk: Survey) {
        match self.lanes.iter_mut().find(|(lane, _)| *lane == from) {
            Some((_, survey)) => survey.add(chunk),
            None => self.lanes.push((from, chunk)),
        }
    }

    /// Merges the reports of all lanes.
    pub(crate) fn together(self) -> Survey {
        let mut all = Survey::default();
        for (_, mut survey) in self.lanes {
            survey.keep_latest();
            all.add(survey);
        }
        all
    }
}

impl Survey {
    /// Keeps the last report of each consumer and channel: one that left and returned during the survey may have been reported twice.
    fn keep_latest(&mut self) {
        self.outboxes.reverse();
        self.outboxes.sort_by_key(|outbox| outbox.key);
        self.outboxes.dedup_by_key(|outbox| outbox.key);
        self.channels.reverse();
        self.channels.sort_by_key(|channel| channel.channel);
        self.channels.dedup_by_key(|channel| channel.channel);
    }

    fn add(&mut self, other: Self) {
        let Self { outboxes, channels, drops, drops_beyond, types, links } = other;
        self.types.extend(types);
        self.links.extend(links);
        self.channels.extend(channels);
        self.outboxes.extend(outboxes);
        self.drops.extend(drops);
        self.drops_beyond += drops_beyond;
    }
}

/// Drops of one event type, by its names.
#[derive(Debug)]
pub(crate) struct NamedDrops {
    pub(crate) drops: TypeDrops,
    pub(crate) domain: String,
    pub(crate) name: String,
}

/// News about a supplier that is pulled from.
#[derive(Debug)]
pub(crate) enum SupplierNews {
    /// The supplier has begun to fail.
    Failing { why: String, retry_in: Duration },
    /// The supplier answers again.
    Recovered,
    /// The supplier is not pulled any more: its proxy is to be disconnected.
    Disconnected(DisconnectReason),
}

/// Parts of a survey that lanes are to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SurveyParts(u8);

impl SurveyParts {
    pub(crate) const NONE: Self = Self(0);
    /// State of each outbox.
    pub(crate) const OUTBOXES: Self = Self(1);
    /// State of each channel.
    pub(crate) const CHANNELS: Self = Self(2);
    /// Drops by event type.
    pub(crate) const DROPS: Self = Self(4);
    /// Events of each type.
    pub(crate) const TYPES: Self = Self(8);
    /// State of each link.
    pub(crate) const LINKS: Self = Self(16);

    pub(crate) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) const fn have(self, part: Self) -> bool {
        self.0 & part.0 != 0
    }
}

/// Message from administration to a lane.
#[derive(Debug)]
pub(crate) enum ToLane {
    /// Answer to a protocol's client.
    Protocol(ToProtocol),
    /// Call a client, and report how the call ended.
    Call { call: u64, what: Call },
    /// Let in an operator known by HTTP.
    Visitor(Box<Visitor>),
    /// Report these parts of a survey.
    Survey(SurveyParts),
    /// Another lane ends: post nothing more to it.
    Part(LaneThread),
    /// No route leads here any more: give the connections to the main lane, and end.
    Retire,
    /// Take no more events, and report what is left to deliver.
    Drain,
    /// The service stops: close connections and end.
    Stop,
}

/// A host name to look up.
#[derive(Debug)]
pub(crate) struct Lookup {
    /// Protocol and connection that the lookup is for.
    pub(crate) connection: (Tag, Token),
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Time after which the answer is of no use.
    pub(crate) until: Instant,
    /// Charge on the client while the lookup waits.
    pub(crate) charge: Charge,
}

/// Result of a lookup, for a lane: the addresses of a host name, the one to try first at the end, or why there are none.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) connection: (Tag, Token),
    pub(crate) addresses: Result<Vec<SocketAddr>, String>,
}

/// Maximum messages that wait for a lane; administration waits when there are more.
pub(crate) const LANE_QUEUE: usize = 1024;
