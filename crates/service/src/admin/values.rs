//! What administration is asked and what it answers: plain values in which no protocol has a part.
//!
//! All ways to administration use these: the `Statistics` object and with it the command line, and the program that the service
//! is part of ([`Service::ask`](crate::Service::ask), [`Service::command`](crate::Service::command)). A way in only reads its
//! clients' words into a [`Query`] or a [`Command`] and puts the [`Answer`] into theirs. With each goes the
//! [`Principal`](accounts::Principal) that asks.

use crate::config::{DeclaredChannel, LinkEntry};
use core::time::Duration;
use std::sync::Arc;

use engine::{ChannelId, ChannelStats, OutboxStats, ProxyId, ProxyKey, Time};
use serde::Serialize;

use crate::admin::statistics;
use crate::counters::LaneCounters;
use crate::protocols::{Declared, Forbidden, ListedChannel, RestoredClient, Settable, SupplierStatus};
use crate::store::requests::DeadLetter;

/// Request for information. It changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Query {
    /// What the service has counted: [`Answer::Counters`].
    Counters,
    /// What each lane has counted by itself: [`Answer::Lanes`].
    Lanes,
    /// How consumers stand: [`Answer::Consumers`]. All lanes are asked, a piece in each of their rounds.
    Consumers,
    /// How these channels stand, those of them that there are: [`Answer::Channels`]. All lanes are asked, a piece in each of their
    /// rounds.
    Channels(Vec<ChannelId>),
    /// Stored history of a channel: [`Answer::History`].
    History(ChannelId),
    /// What was dropped: [`Answer::Drops`]. All lanes are asked, a piece in each of their rounds.
    Drops,
    /// How many events of each type were taken in: [`Answer::Types`]. All lanes are asked, a piece in each of their rounds.
    Types,
    /// How the connected suppliers stand: [`Answer::Suppliers`].
    Suppliers {
        /// The first of those behind this proxy, by channel and proxy; default: of all.
        behind: Option<ProxyKey>,
    },
    /// Which proxies' clients were connected again when the service began: [`Answer::Restored`].
    Restored {
        /// The first of those behind this proxy, by channel and proxy; default: of all.
        behind: Option<ProxyKey>,
    },
    /// How the joins to DDS stand: [`Answer::DdsJoins`].
    DdsJoins,
    /// How the links to other services stand: [`Answer::Links`]. The lanes are asked, a chunk in each of their rounds.
    Links,
    /// Dead letters, each undeliverable for a consumer: [`Answer::DeadLetters`].
    DeadLetters {
        /// The first of those behind this one, by number and consumer's proxy; 0 and 0: of all.
        behind: (u64, ProxyId),
    },
    /// Whether administration and all lanes go on: [`Answer::Progress`], when each lane has been through a round of its own.
    Progress,
    /// What is configured, channels, admins, proxies, filters, clients and names: [`Answer::Topology`], or
    /// [`Declined::TooLarge`] if it is more than 16,384 things.
    Topology,
    /// Services of the federation, this one first: [`Answer::Federation`].
    Federation,
    /// How all consumers and channels stand on each lane, as the lanes tell it: [`Answer::Figures`]. All lanes are asked, a piece in each
    /// of their rounds; administration only passes it on.
    Figures,
    /// What proxies and their clients are called in logs, 1,024 at most: [`Answer::Names`].
    Names(Vec<ProxyKey>),
    /// The channels: [`Answer::ChannelList`].
    ChannelList {
        /// The first of those behind this one; default: of all.
        behind: Option<ChannelId>,
    },
    /// What is configured of a channel: [`Answer::Channel`], or [`Declined::TooLarge`].
    Channel {
        /// Its number.
        channel: ChannelId,
        /// With the first of its proxies behind this one; default: with all else, and the first of all.
        behind: Option<ProxyId>,
    },
}

/// Request to change something.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// Disconnect the client of a proxy of either side, and notify it, where it gave a reference:
    /// [`Answer::Disconnected`], 0 if there is no such proxy.
    Disconnect(ProxyKey),
    /// Disconnect suppliers that cannot be asked whether they exist and were not heard of for so long, 1,024 at most:
    /// [`Answer::Disconnected`].
    DisconnectIdle(Duration),
    /// Make all that a text of [`Answer::Topology`] has, in a service that was not used since it began:
    /// [`Answer::Applied`].
    ApplyTopology(String),
    /// Replace the rules of access, also for connected clients; with none, everything is allowed: [`Answer::Applied`].
    SetAccess(Option<access::Rules>),
    /// Replace what clients are called that say no name of themselves, also those with proxies: [`Answer::Applied`].
    SetClientNames(Arc<access::ClientNames>),
    /// Make a channel that the configuration declares, or set the one that has its name, as at the start: [`Answer::Applied`].
    DeclareChannel(DeclaredChannel),
    /// An act on dead letters of a channel: [`Answer::DeadLettersDone`].
    DeadLetters {
        /// What.
        act: DeadLetterAct,
        /// Their channel.
        channel: ChannelId,
        /// Their numbers, each with the consumer's proxy; 1,024 at most.
        dead_letters: Vec<(u64, ProxyId)>,
    },
    /// Suspend a consumer that is pushed to, or have it go on: [`Answer::Done`].
    Suspend {
        /// Its proxy.
        key: ProxyKey,
        /// Whether it is suspended then.
        suspended: bool,
    },
    /// Pause a link, or have it go on: [`Answer::Done`]. The main lane carries it out; a pause ends with the process.
    PauseLink {
        /// Name of the link's `[[link]]` entry, or of the peer where that dials.
        name: String,
        /// Whether it is paused then.
        paused: bool,
    },
    /// Add a link to another service: [`Answer::LinkAdded`].
    AddLink(Box<LinkEntry>),
    /// Remove a link that was added: [`Answer::Done`]. One of the configuration is not removed.
    RemoveLink {
        /// Its name.
        name: String,
        /// Whether events that wait for it are dropped; otherwise it stays if any do.
        drop_backlog: bool,
    },
    /// Set properties: [`Answer::Done`].
    SetQos {
        /// Channel, admin or proxy.
        on: Settable,
        /// By name, as a configuration file has them.
        properties: Vec<(String, Declared)>,
    },
}

/// Act on a dead letter of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterAct {
    /// It is delivered once more: to that consumer alone or, if it is not connected any more, to all that want it. It is as if it had just
    /// come, without `Timeout`, `StartTime` and `StopTime` of its own.
    Replay,
    /// It goes.
    Remove,
}

/// What a query or a command is answered.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Answer {
    /// Each exported name of a counter and its value, in the order of [`Counter::exported`](crate::Counter::exported).
    Counters(Vec<(&'static str, u64)>),
    /// The lanes that there are, the main one first.
    Lanes(Vec<LaneCounters>),
    /// The consumers with the largest backlogs, the largest first: 8,192 at most.
    Consumers(Vec<ConsumerStatus>),
    /// How channels stand, in the order in which they were named.
    Channels(Vec<ChannelStatus>),
    /// Stored history of a channel; `None` if nothing ever was.
    History(Option<HistoryStatus>),
    /// What was dropped, consumer by consumer, and what most was dropped of first: 1,024 entries of each lane at most.
    Drops {
        /// The entries.
        drops: Vec<Dropped>,
        /// How many more events were dropped than there are entries for.
        beyond: u64,
    },
    /// By domain and name, 4,096 of each lane at most. A type of which no channel has events any more is not among them.
    Types(Vec<TypeEvents>),
    /// Connected suppliers by channel and proxy, 1,024 at most, each with what it is called.
    Suppliers(Vec<(SupplierStatus, String)>),
    /// Proxies with clients that were connected again when the service began, by channel and proxy, 1,024 at most.
    Restored(Vec<RestoredClient>),
    /// In the order of the configuration.
    DdsJoins(Vec<DdsJoinStatus>),
    /// Links by name, channel and direction: 4,096 at most.
    Links(Vec<LinkStatus>),
    /// Dead letters, by number and consumer's proxy, each with what the consumer is called: 256 at most, fewer where they are
    /// large.
    DeadLetters(Vec<(String, DeadLetter)>),
    /// Of the first that were named so many were there, and that is done and on disk. Those behind both are to be named again.
    DeadLettersDone {
        /// How many were there.
        done: u32,
        /// How many were not.
        missing: u32,
    },
    /// They go on.
    Progress,
    /// How many clients were disconnected.
    Disconnected(u32),
    /// What is configured, as JSON, of the same order every time.
    Topology(String),
    /// It was made, or why not; then nothing was changed.
    Applied(Result<(), String>),
    /// How consumers and channels stand.
    Figures(Figures),
    /// In the order in which they were asked for, each with the name that stays when its client connects again: the proxy's own, or the
    /// client's.
    Names(Vec<(String, Option<Arc<str>>)>),
    /// By number, 256 at most.
    ChannelList(Vec<ListedChannel>),
    /// As JSON like a channel's part of [`Answer::Topology`], local proxies included, with 256 proxies at most; admins and filters are in
    /// it with the first proxies. Nothing if there is no such channel.
    Channel(Option<String>),
    /// It is done, or why not; then nothing was changed.
    Done(Result<(), String>),
    /// This service, and those that it has found, by identity; none if it is of no federation.
    Federation(Vec<FederationMember>),
    /// Whether the link outlives the process, which takes a store; or why it was not added.
    LinkAdded(Result<bool, String>),
    /// The rules of access do not allow it to the principal. Nothing was done.
    Denied(Forbidden),
}

impl Answer {
    /// Whether it answers a command, by which something may have changed that is to outlive the process: then it waits for that.
    pub(crate) const fn tells_of_a_change(&self) -> bool {
        match self {
            Self::Disconnected(_) | Self::Applied(_) | Self::Done(_) | Self::LinkAdded(_) => true,
            // It is on disk by then.
            Self::DeadLettersDone { .. } => false,
            Self::Counters(_)
            | Self::Lanes(_)
            | Self::Consumers(_)
            | Self::Channels(_)
            | Self::History(_)
            | Self::Drops { .. }
            | Self::Types(_)
            | Self::Suppliers(_)
            | Self::Restored(_)
            | Self::DdsJoins(_)
            | Self::Links(_)
            | Self::Federation(_)
            | Self::DeadLetters(_)
            | Self::Progress
            | Self::Topology(_)
            | Self::Figures(_)
            | Self::Names(_)
            | Self::ChannelList(_)
            | Self::Channel(_)
            | Self::Denied(_) => false,
        }
    }
}

/// How consumers and channels stand.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// When: as the times in `outboxes` are counted.
    pub now: Time,
    /// Of each lane those that it has.
    pub outboxes: Vec<OutboxStats>,
    /// Of each lane those that it has.
    pub channels: Vec<ChannelStats>,
    /// Links, as in [`Answer::Links`].
    pub links: Vec<LinkStatus>,
}

impl Figures {
    /// Puts together what lanes say of the same consumer and of the same channel: by proxy, and by number. It takes time in proportion to
    /// their number, which is why administration leaves it to the receiver.
    #[must_use]
    pub fn joined(self) -> Self {
        let mut channels = self.channels;
        channels.sort_by_key(|channel| channel.channel);
        channels.dedup_by(|other, first| {
            let same = other.channel == first.channel;
            if same {
                first.events += other.events;
                first.memory_bytes += other.memory_bytes;
                first.withheld += other.withheld;
                first.traffic.join(&other.traffic);
            }
            same
        });
        Self {
            now: self.now,
            outboxes: statistics::join(self.outboxes),
            channels,
            links: statistics::links(self.links),
        }
    }
}

/// How a consumer stands, on all lanes together.
#[derive(Debug, Clone)]
pub struct ConsumerStatus {
    /// What it is called in logs.
    pub name: String,
    /// What it is doing: active, suspended, socket full, failing or disconnected; and, for people, for how long it has been out of reach
    /// where that is more than a minute, and whether suppliers wait for it.
    pub state: String,
    /// Its numbers. `state` and `holds` of it are those of the lane on which it is worst off.
    pub outbox: OutboxStats,
}

/// How a channel stands, on all lanes together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelStatus {
    /// Its number.
    pub channel: ChannelId,
    /// What its creator called it.
    pub name: Option<String>,
    /// Events that wait for consumers or are unanswered, each counted for each consumer.
    pub backlog_events: u64,
    /// What they weigh, in octets.
    pub backlog_bytes: u64,
    /// How long ago the oldest of them came; `None` if there is none.
    pub oldest: Option<Duration>,
    /// The consumers with the largest backlogs, and what each is called in logs: the largest, and those that have half as many events at
    /// least; the largest first, 16 at most.
    pub slowest: Vec<(ProxyKey, String)>,
    /// Events that its connected consumers have lost at a limit of their own, of the channel or of its memory.
    pub overflows: u64,
}

/// How a join to DDS stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DdsJoinStatus {
    /// Its channel.
    pub channel: ChannelId,
    /// What it is called in logs.
    pub name: String,
    /// Topics that it reads,
    pub topics_read: usize,
    /// and those that it writes.
    pub topics_written: usize,
    /// What does not match it in DDS, 256 at most.
    pub incompatible: Vec<DdsIncompatibility>,
    /// How many more were found since it began.
    pub beyond: u64,
    /// How many there have been by topic and policy, 128 of these, and then `*` as topic.
    pub totals: Vec<(String, &'static str, u64)>,
}

impl Default for DdsJoinStatus {
    fn default() -> Self {
        let (incompatible, totals) = (Vec::new(), Vec::new());
        Self {
            channel: ChannelId(0),
            name: String::new(),
            topics_read: 0,
            topics_written: 0,
            incompatible,
            beyond: 0,
            totals,
        }
    }
}

/// A writer or a reader in DDS that does not match a join by a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DdsIncompatibility {
    /// The topic.
    pub topic: String,
    /// What is known of the writer or reader.
    pub peer: String,
    /// The policy: `reliability`, `durability`, ….
    pub policy: &'static str,
    /// What the writer offers.
    pub offered: String,
    /// What the reader requests.
    pub requested: String,
    /// What to do.
    pub advice: String,
}

/// How a channel's flow of events over a link stands, in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LinkStatus {
    /// Name of the `[[link]]` entry; of a connection that the peer made, the name under which the peer has it.
    pub name: String,
    /// Name of the channel, the same at both ends.
    pub channel: String,
    /// Whether events leave this service by it, or come to it.
    pub direction: LinkDirection,
    /// Host and port, as configured or as the peer's connection shows them.
    pub peer: String,
    /// Name of the peer's service; empty before its first frame.
    pub peer_name: String,
    /// Identity of the peer's service; 0 before its first frame.
    pub peer_service: u64,
    /// Whether events flow.
    pub state: LinkState,
    /// Why it is not up; empty if it is.
    pub reason: String,
    /// Milliseconds since it came to this state.
    pub since_ms: u64,
    /// Events that wait or are not acknowledged, on disk included.
    pub lag_events: u64,
    /// Octets of those that are in memory.
    pub lag_octets: u64,
    /// Age of the oldest of these events, in milliseconds; 0 if there is none.
    pub lag_ms: u64,
    /// Events that were sent and are not acknowledged.
    pub in_flight_events: u64,
    /// Octets of these.
    pub in_flight_octets: u64,
    /// Octets that may be in flight at the same time.
    pub window_octets: u64,
    /// Smallest round trip of the last 10 s, in microseconds; 0 if none was measured.
    pub round_trip_us: u64,
    /// Events sent, repeated sending included.
    pub sent: u64,
    /// Events that the peer has acknowledged.
    pub acknowledged: u64,
    /// Events that came from the peer and were taken in.
    pub received: u64,
    /// Events that came from the peer and had come before, on whichever way.
    pub repeats: u64,
    /// Best-effort events that were in flight when the connection or the peer's process ended.
    pub lost: u64,
    /// Events that the receiving service refused for good.
    pub rejected: u64,
    /// Events that were not sent, since they came from the peer, through it, or over 8 services.
    pub loops: u64,
    /// Persistent events, at least, that the receiving service had acknowledged and did not know when it began again.
    pub forgotten: u64,
    /// Events that were dropped since there was no room for what waits for the link.
    pub dropped: u64,
    /// Subscriptions of the receiving service: `everything`, `nothing` or `N types`.
    pub subscriptions: String,
    /// What carries its events now: `tcp`, `udp`, `multicast` or `iiop`; `tcp: REASON` where it is `tcp` and was to be another.
    pub carrier: String,
    /// Where the link comes from.
    pub origin: LinkOrigin,
}

impl LinkStatus {
    /// Whether an operator has to look at it: events are lost, or do not flow although they should.
    #[must_use]
    pub const fn is_in_trouble(&self) -> bool {
        self.lost + self.forgotten + self.dropped > 0
            || matches!(self.state, LinkState::Stalled | LinkState::Down | LinkState::Refused)
    }
}

/// A service of a federation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FederationMember {
    /// Its identity.
    pub service: u64,
    /// Its name; may be empty.
    pub name: String,
    /// Whether it is this one.
    pub is_self: bool,
    /// Host and port at which it is dialled.
    pub address: String,
    /// Whether this service and it are connected.
    pub state: LinkState,
    /// Why they are not; empty if they are. Of this service: which announcements it rejected in the last minute.
    pub reason: String,
    /// Milliseconds since it was heard last.
    pub heard_ms: u64,
    /// Names of its channels.
    pub channels: Vec<String>,
    /// Names of those of which events flow, one way at least.
    pub linked: Vec<String>,
}

/// Where a link comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkOrigin {
    /// The configuration file.
    #[default]
    File,
    /// An operator, while the service ran.
    Added,
    /// A federation, in which services find each other.
    Found,
    /// The peer, which dialled.
    Peer,
}

impl LinkOrigin {
    /// Its name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Added => "added",
            Self::Found => "found",
            Self::Peer => "peer",
        }
    }
}

/// Direction of a link's flow of events, seen from this service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkDirection {
    /// To the peer.
    #[default]
    Out,
    /// From the peer.
    In,
}

impl LinkDirection {
    /// The direction in the words of all that show it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
        }
    }
}

/// State of a link's flow of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkState {
    /// The connection is being made, or the peer has yet to answer.
    #[default]
    Connecting,
    /// Events flow.
    Up,
    /// Events are in flight, and the peer has acknowledged nothing for more than 3 s.
    Stalled,
    /// There is no connection. It is tried again.
    Down,
    /// An operator has paused it.
    Paused,
    /// The peer, or this service, does not permit it.
    Refused,
}

impl LinkState {
    /// All states.
    pub const ALL: [Self; 6] = [Self::Connecting, Self::Up, Self::Stalled, Self::Down, Self::Paused, Self::Refused];

    /// The state in the words of all that show it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Up => "up",
            Self::Stalled => "stalled",
            Self::Down => "down",
            Self::Paused => "paused",
            Self::Refused => "refused",
        }
    }
}

/// Stored history of a channel on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryStatus {
    /// The channel's number.
    pub channel: ChannelId,
    /// The first event that a consumer can begin with; `None` if all that there is is older than is to be kept.
    pub first: Option<HistoryEvent>,
    /// The last that is written; `None` if `first` is.
    pub last: Option<HistoryEvent>,
    /// How many events there are from the first to the last.
    pub events: u64,
    /// What its files take, in octets: they are removed as wholes, so that some of it may be of events before the first.
    pub bytes: u64,
}

/// An event of a channel's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryEvent {
    /// Its number.
    pub number: u64,
    /// When it came: in 100 ns since 15 October 1582, UTC.
    pub came: u64,
}

/// What was dropped of one event type for one consumer for one reason.
#[derive(Debug, Clone)]
pub struct Dropped {
    /// The consumer's proxy, which may be gone.
    pub key: ProxyKey,
    /// What the consumer is called in logs.
    pub name: String,
    /// The event type's domain, and
    pub domain: String,
    /// its name. Both are `*` for all types that have no number.
    pub event_type: String,
    /// Why: the name of the reason's counter without `lane_dropped_`.
    pub reason: &'static str,
    /// How many events.
    pub events: u64,
}

/// Events of a type that were taken in, in all channels together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeEvents {
    /// The event type's domain, and
    pub domain: String,
    /// its name.
    pub name: String,
    /// How many events.
    pub events: u64,
}

/// Why something was not answered, or not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Declined {
    /// The service is about to end. Nothing was done.
    Stopping,
    /// A limit, or the client's share of it, is reached. Nothing was done.
    NoResources,
    /// The rules of access do not allow it. Nothing was done.
    NotPermitted,
    /// The answer would be larger than clients accept a message to be: 16 MiB.
    TooLarge,
    /// It is done, and the disk has not taken it within `store.answer_within_ms`. It is written when the disk does; if the process ends
    /// before that, it was never done.
    NotStored,
    /// Administration has not answered in time. It may yet be done.
    NotInTime,
    /// It made something, and the disk has not taken that within `store.answer_within_ms`: it was undone. Or it is about what is on disk,
    /// which fails.
    NotMade,
}

impl core::fmt::Display for Declined {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Stopping => "the service is about to end",
            Self::NoResources => "a limit of the service, or the client's share of it, is reached",
            Self::NotPermitted => "the rules of access do not allow it",
            Self::TooLarge => "the answer would be larger than 16 MiB",
            Self::NotStored => "it is done, but is not on disk yet, since that fails",
            Self::NotInTime => "administration has not answered in time",
            Self::NotMade => "it is not done, since the disk fails",
        })
    }
}

impl core::error::Error for Declined {}
