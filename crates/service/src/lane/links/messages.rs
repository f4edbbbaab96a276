//! What lanes, administration and the resolver tell each other.
//!
//! Lanes own all sockets, administration owns all objects, and neither waits for the other: a lane that cannot post to
//! administration says so to its client itself. How messages travel is in [`super::mailbox`].

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

/// A lane's thread. The id of a lane that has ended is used again; this is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneThread(pub(crate) u32);

impl LaneThread {
    pub(crate) const MAIN: Self = Self(0);
}

/// From a lane to administration.
#[derive(Debug)]
pub(crate) enum ToAdministration {
    /// A request or locate request.
    Request(Request),
    /// A query or a command of the program that the service is part of, on behalf of a principal. It waits for the answer.
    Query(Query, SyncSender<Result<Answer, Declined>>, Principal),
    Command(Command, SyncSender<Result<Answer, Declined>>, Principal),
    /// An operator that is known by HTTP wants a connection for lines of JSON, and waits for whether it may have it.
    Visit(Box<Visit>),
    /// A command over HTTP that was refused there for this reason.
    RefusedAct {
        by: Principal,
        what: String,
        why: &'static str,
    },
    /// Something the engine wants known; of a consumer that begins to fail, why.
    Notice(Notice, Option<String>),
    /// A call that administration asked for has ended.
    Returned {
        call: u64,
        how: Result<Reply, CallFailure>,
    },
    /// Something about a supplier that is pulled from.
    Supplier {
        key: ProxyKey,
        news: SupplierNews,
    },
    /// A connection to clients at this host and port has ended as that of a process which dies.
    Died(String, u16),
    /// The lanes' answer to a client's query, which administration passes on in the client's turn.
    Surveyed(Box<Surveyed>),
    /// Whether the lane of that name ever waits.
    Saturation(Arc<str>, Finding),
    /// Something to log, which a lane does not do itself because a log can block.
    Log(log::Level, String),
    /// A client was denied what it tried.
    Denied(Denied),
    /// A piece of the answer to [`ToLane::Survey`], which may be the last.
    Survey {
        chunk: Survey,
        is_last: bool,
    },
    /// A piece of the answer to [`ToLane::Drain`]; with the last, what else there is to tell.
    Left {
        chunk: Vec<Undelivered>,
        last: Option<LookedAt>,
    },
    /// The main lane has carried out the order of this number, or why not; nothing if it has no such link. With what was to be listed.
    LinkOrdered {
        number: u64,
        done: Option<Result<(), String>>,
        members: Vec<FederationMember>,
    },
    /// The lane has ended, as it was asked to: nothing is left in it, and no thread posts to it. This is its last message.
    Ended,
    /// The service is to stop: when what it took is delivered, or this time is over; at once if there is none.
    Stop(Option<Duration>),
}

/// See [`ToAdministration::Visit`].
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) visitor: Visitor,
    pub(crate) purpose: VisitPurpose,
    pub(crate) to: SyncSender<Result<Answer, Declined>>,
}

/// See [`ToAdministration::Surveyed`].
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
    /// Events that were dropped beyond those in `drops`.
    pub(crate) beyond: u64,
    /// Events taken in by type.
    pub(crate) types: Vec<TypeEvents>,
    pub(crate) links: Vec<LinkStatus>,
}

/// How things stand on a lane, or on all of them.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) outboxes: Vec<OutboxStats>,
    /// If they were asked for.
    pub(crate) channels: Vec<ChannelStats>,
    /// If it was asked for.
    pub(crate) drops: Vec<NamedDrops>,
    /// How many more events were dropped than `drops` has places for.
    pub(crate) drops_beyond: u64,
    /// If they were asked for.
    pub(crate) types: Vec<TypeEvents>,
    /// If they were asked for.
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

    /// All of it as one.
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
    /// Keeps the last report of each consumer and channel: one that left and came again during the survey may have been
    /// reported twice.
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

/// What was dropped of one event type, by its names.
#[derive(Debug)]
pub(crate) struct NamedDrops {
    pub(crate) drops: TypeDrops,
    pub(crate) domain: String,
    pub(crate) name: String,
}

/// What happened to a supplier that is pulled from.
#[derive(Debug)]
pub(crate) enum SupplierNews {
    /// It has begun to fail.
    Failing { why: String, retry_in: Duration },
    /// It answers again.
    Recovered,
    /// It is not asked any more: the proxy is to be disconnected.
    Disconnected(DisconnectReason),
}

/// What lanes are to report, beside that they go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SurveyParts(u8);

impl SurveyParts {
    pub(crate) const NONE: Self = Self(0);
    /// How each outbox stands.
    pub(crate) const OUTBOXES: Self = Self(1);
    /// How each channel stands.
    pub(crate) const CHANNELS: Self = Self(2);
    /// What was dropped by event type.
    pub(crate) const DROPS: Self = Self(4);
    /// Events of each type.
    pub(crate) const TYPES: Self = Self(8);
    /// How each link stands.
    pub(crate) const LINKS: Self = Self(16);

    pub(crate) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) const fn have(self, part: Self) -> bool {
        self.0 & part.0 != 0
    }
}

/// From administration to a lane.
#[derive(Debug)]
pub(crate) enum ToLane {
    /// What is answered to a client of a protocol.
    Protocol(ToProtocol),
    /// Call a client, and tell how that ended.
    Call { call: u64, what: Call },
    /// An operator that is known by HTTP comes in.
    Visitor(Box<Visitor>),
    /// Tell what is asked.
    Survey(SurveyParts),
    /// A lane ends: nothing more is posted to it.
    Part(LaneThread),
    /// No route leads here any more: give the connections to the main lane, and end.
    Retire,
    /// Take no more events, and tell what is left to deliver.
    Drain,
    /// The service stops: close connections and end.
    Stop,
}

/// A host name to look up.
#[derive(Debug)]
pub(crate) struct Lookup {
    /// Of which protocol, and which of its connections.
    pub(crate) connection: (Tag, Token),
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The answer is of no use after this.
    pub(crate) until: Instant,
    /// What its client is charged while it waits.
    pub(crate) charge: Charge,
}

/// From the resolver to a lane: a host name's addresses, the one to try first at the end, or why there are none.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) connection: (Tag, Token),
    pub(crate) addresses: Result<Vec<SocketAddr>, String>,
}

/// Messages that may wait for a lane; administration waits when there are more.
pub(crate) const LANE_QUEUE: usize = 1024;
