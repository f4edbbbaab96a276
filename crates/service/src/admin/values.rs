//! Queries and commands to administration, and its answers: plain values, independent of protocols.
//!
//! All ways to administration use these: the `Statistics` object and with it the command line, and the embedding program
//! ([`Service::ask`](crate::Service::ask), [`Service::command`](crate::Service::command)). A protocol only translates its clients' requests
//! into a [`Query`] or a [`Command`], and the [`Answer`] back. With each goes the [`Principal`](accounts::Principal) that asks.

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
    /// All counters: [`Answer::Counters`].
    Counters,
    /// Counters of each lane: [`Answer::Lanes`].
    Lanes,
    /// Status of consumers: [`Answer::Consumers`]. All lanes are surveyed, a chunk in each of their rounds.
    Consumers,
    /// Status of these channels, without those that do not exist: [`Answer::Channels`]. All lanes are surveyed, a chunk in each of their
    /// rounds.
    Channels(Vec<ChannelId>),
    /// Stored history of a channel: [`Answer::History`].
    History(ChannelId),
    /// Dropped events: [`Answer::Drops`]. All lanes are surveyed, a chunk in each of their rounds.
    Drops,
    /// Events taken in by type: [`Answer::Types`]. All lanes are surveyed, a chunk in each of their rounds.
    Types,
    /// Status of connected suppliers: [`Answer::Suppliers`].
    Suppliers {
        /// Proxy behind which the list begins, by channel and proxy; default: from the start.
        behind: Option<ProxyKey>,
    },
    /// Proxies reconnected to their clients when the service began: [`Answer::Restored`].
    Restored {
        /// Proxy behind which the list begins, by channel and proxy; default: from the start.
        behind: Option<ProxyKey>,
    },
    /// Status of the joins to DDS: [`Answer::DdsJoins`].
    DdsJoins,
    /// Status of the links to other services: [`Answer::Links`]. The lanes are surveyed, a chunk in each of their rounds.
    Links,
    /// Dead letters, each undeliverable for a consumer: [`Answer::DeadLetters`].
    DeadLetters {
        /// Dead letter behind which the list begins, by number and consumer's proxy; 0 and 0: from the start.
        behind: (u64, ProxyId),
    },
    /// Whether administration and all lanes are running: [`Answer::Progress`], after each lane has been through a round.
    Progress,
    /// All configured channels, admins, proxies, filters, clients and names: [`Answer::Topology`], or [`Declined::TooLarge`] if they are
    /// more than 16,384.
    Topology,
    /// Services of the federation, this one first: [`Answer::Federation`].
    Federation,
    /// Status of all consumers and channels on each lane, as the lanes report it: [`Answer::Figures`]. All lanes are surveyed, a chunk in
    /// each of their rounds; administration only passes the reports on.
    Figures,
    /// Names of proxies and their clients in logs, 1,024 at most: [`Answer::Names`].
    Names(Vec<ProxyKey>),
    /// The channels: [`Answer::ChannelList`].
    ChannelList {
        /// Channel behind which the list begins; default: from the start.
        behind: Option<ChannelId>,
    },
    /// Timers: [`Answer::Timers`].
    Timers {
        /// Channel of the timers; default: all channels.
        channel: Option<ChannelId>,
        /// Timer behind which the list begins, by channel and place; default: from the start.
        behind: Option<(ChannelId, u32)>,
    },
    /// Configuration of a channel: [`Answer::Channel`], or [`Declined::TooLarge`].
    Channel {
        /// The channel's number.
        channel: ChannelId,
        /// Proxy behind which the list of proxies begins; default: all else, and the list from its start.
        behind: Option<ProxyId>,
    },
}

/// Request to change something.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// Disconnect the client of a proxy of either side, and notify it if it gave a reference: [`Answer::Disconnected`], 0 if there is no
    /// such proxy.
    Disconnect(ProxyKey),
    /// Disconnect suppliers that cannot be probed and were silent for so long, 1,024 at most: [`Answer::Disconnected`].
    DisconnectIdle(Duration),
    /// Make all objects of a text of [`Answer::Topology`], in a service that was not used since it began: [`Answer::Applied`].
    ApplyTopology(String),
    /// Replace the rules of access, also for connected clients; with none, everything is allowed: [`Answer::Applied`].
    SetAccess(Option<access::Rules>),
    /// Replace the configured names of clients that give no name themselves, also of those with proxies: [`Answer::Applied`].
    SetClientNames(Arc<access::ClientNames>),
    /// Make a channel that the configuration declares, or set the one of that name, as at the start: [`Answer::Applied`].
    DeclareChannel(DeclaredChannel),
    /// An act on dead letters of a channel: [`Answer::DeadLettersDone`].
    DeadLetters {
        /// The act.
        act: DeadLetterAct,
        /// The channel of the dead letters.
        channel: ChannelId,
        /// Numbers of the dead letters, each with the consumer's proxy; 1,024 at most.
        dead_letters: Vec<(u64, ProxyId)>,
    },
    /// Suspend or resume a consumer that is pushed to: [`Answer::Done`].
    Suspend {
        /// The consumer's proxy.
        key: ProxyKey,
        /// True to suspend, false to resume.
        suspended: bool,
    },
    /// Pause or resume a link: [`Answer::Done`]. The main lane carries it out; a pause ends with the process.
    PauseLink {
        /// Name of the link's `[[link]]` entry, or of the peer if that dials.
        name: String,
        /// True to pause, false to resume.
        paused: bool,
    },
    /// Add a link to another service: [`Answer::LinkAdded`].
    AddLink(Box<LinkEntry>),
    /// Remove an added link: [`Answer::Done`]. A link of the configuration cannot be removed.
    RemoveLink {
        /// The link's name.
        name: String,
        /// Whether waiting events are dropped; otherwise a link with such events stays.
        drop_backlog: bool,
    },
    /// Set properties: [`Answer::Done`].
    SetQos {
        /// Channel, admin or proxy.
        on: Settable,
        /// Properties by name, as in a configuration file.
        properties: Vec<(String, Declared)>,
    },
}

/// Act on a dead letter of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterAct {
    /// Deliver it once more: to that consumer alone or, if it is not connected any more, to all subscribers. It counts as new, without its
    /// own `Timeout`, `StartTime` and `StopTime`.
    Replay,
    /// Remove it.
    Remove,
}

/// Answer to a query or a command.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Answer {
    /// Each exported name of a counter and its value, in the order of [`Counter::exported`](crate::Counter::exported).
    Counters(Vec<(&'static str, u64)>),
    /// Counters of all lanes, the main one first.
    Lanes(Vec<LaneCounters>),
    /// The consumers with the largest backlogs, the largest first: 8,192 at most.
    Consumers(Vec<ConsumerStatus>),
    /// Status of channels, in the order in which they were named.
    Channels(Vec<ChannelStatus>),
    /// Stored history of a channel; `None` if nothing was ever stored.
    History(Option<HistoryStatus>),
    /// Dropped events by consumer, and of each consumer the largest number first: 1,024 entries of each lane at most.
    Drops {
        /// The entries.
        drops: Vec<Dropped>,
        /// Number of dropped events without an entry.
        beyond: u64,
    },
    /// Events by domain and name, 4,096 types of each lane at most. A type without events in any channel is left out.
    Types(Vec<TypeEvents>),
    /// Connected suppliers by channel and proxy, 1,024 at most, each with its name in logs.
    Suppliers(Vec<(SupplierStatus, String)>),
    /// Proxies reconnected to their clients when the service began, by channel and proxy, 1,024 at most.
    Restored(Vec<RestoredClient>),
    /// Joins in the order of the configuration.
    DdsJoins(Vec<DdsJoinStatus>),
    /// Links by name, channel and direction: 4,096 at most.
    Links(Vec<LinkStatus>),
    /// Dead letters, by number and consumer's proxy, each with the consumer's name in logs: 256 at most, fewer if they are large.
    DeadLetters(Vec<(String, DeadLetter)>),
    /// Result of the act: `done` of the first dead letters existed, and the act on them is on disk; `missing` did not exist. The rest is to
    /// be named again.
    DeadLettersDone {
        /// Number that existed.
        done: u32,
        /// Number that did not exist.
        missing: u32,
    },
    /// Administration and all lanes are running.
    Progress,
    /// Number of disconnected clients.
    Disconnected(u32),
    /// Configured objects, as JSON in a fixed order.
    Topology(String),
    /// Whether it was applied; if not, nothing was changed.
    Applied(Result<(), String>),
    /// Status of consumers and channels.
    Figures(Figures),
    /// Names in the order of the request, each with the name that stays when its client connects again: the proxy's own, or the client's.
    Names(Vec<(String, Option<Arc<str>>)>),
    /// Channels by number, 256 at most.
    ChannelList(Vec<ListedChannel>),
    /// Timers by channel and place, 1,024 at most.
    Timers(Vec<TimerStatus>),
    /// Channel as JSON like its part of [`Answer::Topology`], local proxies included, with 256 proxies at most; admins and filters come
    /// with the first proxies. `None` if there is no such channel.
    Channel(Option<String>),
    /// Whether it was done; if not, nothing was changed.
    Done(Result<(), String>),
    /// Members by identity, this service and those that it has found; empty if it is in no federation.
    Federation(Vec<FederationMember>),
    /// Whether the link outlives the process, which needs a store; or why it was not added.
    LinkAdded(Result<bool, String>),
    /// The rules of access deny it to the principal. Nothing was done.
    Denied(Forbidden),
}

impl Answer {
    /// Whether this answers a command that may have changed something persistent: then the answer waits for the store.
    pub(crate) const fn tells_of_a_change(&self) -> bool {
        match self {
            Self::Disconnected(_) | Self::Applied(_) | Self::Done(_) | Self::LinkAdded(_) => true,
            // The act is on disk by then.
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
            | Self::Timers(_)
            | Self::Channel(_)
            | Self::Denied(_) => false,
        }
    }
}

/// Status of consumers and channels.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Time of the survey, on the clock of the times in `outboxes`.
    pub now: Time,
    /// Outboxes of each lane.
    pub outboxes: Vec<OutboxStats>,
    /// Channels of each lane.
    pub channels: Vec<ChannelStats>,
    /// Links, as in [`Answer::Links`].
    pub links: Vec<LinkStatus>,
}

impl Figures {
    /// Merges the lanes' reports by consumer and by channel. The time is proportional to their number, which is why administration leaves
    /// it to the receiver.
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

/// Status of a consumer, on all lanes together.
#[derive(Debug, Clone)]
pub struct ConsumerStatus {
    /// Name in logs.
    pub name: String,
    /// State: active, suspended, socket full, failing or disconnected; and, for people, how long it has been unreachable if more than a
    /// minute, and whether suppliers wait for it.
    pub state: String,
    /// Figures of its outbox; `state` and `holds` are those of the lane in the worst state.
    pub outbox: OutboxStats,
}

/// Status of a channel, on all lanes together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelStatus {
    /// The channel's number.
    pub channel: ChannelId,
    /// Name given by its creator.
    pub name: Option<String>,
    /// Events that wait for consumers or are unanswered, each counted for each consumer.
    pub backlog_events: u64,
    /// Size of these events, in octets.
    pub backlog_bytes: u64,
    /// Age of the oldest of these events; `None` if there are none.
    pub oldest: Option<Duration>,
    /// Consumers with the largest backlogs, each with its name in logs: the largest, and those with at least half as many events; the
    /// largest first, 16 at most.
    pub slowest: Vec<(ProxyKey, String)>,
    /// Events that its connected consumers have lost at limits of their own, of the channel or of its memory.
    pub overflows: u64,
}

/// Status of a channel's timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimerStatus {
    /// The timer's channel.
    pub channel: ChannelId,
    /// Place among the timers of its channel, from 0.
    pub place: u32,
    /// Name of its events.
    pub name: String,
    /// Kind: `every`, `after` or `silence`.
    pub kind: &'static str,
    /// Time of that kind.
    pub time: Duration,
    /// Time until it fires next, unless an event of a silence comes before; `None` if it does not as things are.
    pub next: Option<Duration>,
    /// Events that it has published since the process began.
    pub fired: u64,
    /// Intervals that were passed over, since the service was late.
    pub missed: u64,
    /// Events that were dropped, since the channel had no room.
    pub dropped: u64,
}

/// Status of a join to DDS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DdsJoinStatus {
    /// The join's channel.
    pub channel: ChannelId,
    /// Name in logs.
    pub name: String,
    /// Number of topics read.
    pub topics_read: usize,
    /// Number of topics written.
    pub topics_written: usize,
    /// Endpoints in DDS that do not match, 256 at most.
    pub incompatible: Vec<DdsIncompatibility>,
    /// Number of further ones since the join began.
    pub beyond: u64,
    /// Numbers by topic and policy: 128 entries, and then `*` as topic.
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

/// A writer or a reader in DDS that a policy keeps from matching a join.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DdsIncompatibility {
    /// The topic.
    pub topic: String,
    /// Description of the writer or reader.
    pub peer: String,
    /// The policy: `reliability`, `durability`, ….
    pub policy: &'static str,
    /// Value offered by the writer.
    pub offered: String,
    /// Value requested by the reader.
    pub requested: String,
    /// Advice to the operator.
    pub advice: String,
}

/// Status of a channel's flow of events over a link, in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LinkStatus {
    /// Name of the `[[link]]` entry; for a connection that the peer made, the peer's name for it.
    pub name: String,
    /// Name of the channel, the same at both ends.
    pub channel: String,
    /// Direction of the events, seen from this service.
    pub direction: LinkDirection,
    /// Host and port, as configured or as the peer's connection shows them.
    pub peer: String,
    /// Name of the peer's service; empty before its first frame.
    pub peer_name: String,
    /// Identity of the peer's service; 0 before its first frame.
    pub peer_service: u64,
    /// State of the flow.
    pub state: LinkState,
    /// Why the state is not up; empty if it is.
    pub reason: String,
    /// Milliseconds in this state.
    pub since_ms: u64,
    /// Events that wait or are not acknowledged, on disk included.
    pub lag_events: u64,
    /// Octets of these events in memory.
    pub lag_octets: u64,
    /// Age of the oldest of these events, in milliseconds; 0 if there is none.
    pub lag_ms: u64,
    /// Events that were sent and are not acknowledged.
    pub in_flight_events: u64,
    /// Octets of these events.
    pub in_flight_octets: u64,
    /// Maximum octets in flight.
    pub window_octets: u64,
    /// Smallest round trip of the last 10 s, in microseconds; 0 if none was measured.
    pub round_trip_us: u64,
    /// Events sent, including repeats.
    pub sent: u64,
    /// Events that the peer has acknowledged.
    pub acknowledged: u64,
    /// Events of the peer that were taken in.
    pub received: u64,
    /// Events of the peer that had arrived before, on any way.
    pub repeats: u64,
    /// Best-effort events that were in flight when the connection or the peer's process ended.
    pub lost: u64,
    /// Events that the receiving service refused for good.
    pub rejected: u64,
    /// Events that were not sent, since they came from the peer, through it, or over 8 services.
    pub loops: u64,
    /// Minimum number of persistent events that the receiving service had acknowledged and did not know when it began again.
    pub forgotten: u64,
    /// Events dropped because the link's backlog was full.
    pub dropped: u64,
    /// Subscriptions of the receiving service: `everything`, `nothing` or `N types`.
    pub subscriptions: String,
    /// Current carrier of events: `tcp`, `udp`, `multicast` or `iiop`; `tcp: REASON` if another was configured.
    pub carrier: String,
    /// Origin of the link.
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
    /// The service's identity.
    pub service: u64,
    /// The service's name; may be empty.
    pub name: String,
    /// Whether it is this service.
    pub is_self: bool,
    /// Host and port at which it is dialled.
    pub address: String,
    /// State of the connection with it.
    pub state: LinkState,
    /// Why they are not connected; empty if they are. For this service: which announcements it rejected in the last minute.
    pub reason: String,
    /// Milliseconds since its last announcement.
    pub heard_ms: u64,
    /// Names of its channels.
    pub channels: Vec<String>,
    /// Names of channels with events flowing, in one direction at least.
    pub linked: Vec<String>,
}

/// Origin of a link.
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
    /// The origin's name in the API.
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
    /// The direction's name in logs, answers and pages.
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
    /// There is no connection. Connecting is tried again.
    Down,
    /// An operator has paused the link.
    Paused,
    /// The peer, or this service, does not permit it.
    Refused,
}

impl LinkState {
    /// All states.
    pub const ALL: [Self; 6] = [Self::Connecting, Self::Up, Self::Stalled, Self::Down, Self::Paused, Self::Refused];

    /// The state's name in logs, answers and pages.
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
    /// The first event at which a consumer can begin; `None` if all stored events are older than the limits allow.
    pub first: Option<HistoryEvent>,
    /// The last event written; `None` if `first` is.
    pub last: Option<HistoryEvent>,
    /// Number of events from the first to the last.
    pub events: u64,
    /// Size of its files, in octets. Files are removed as wholes, so that part may be of events before the first.
    pub bytes: u64,
}

/// An event of a channel's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryEvent {
    /// The event's number.
    pub number: u64,
    /// Arrival, in 100 ns since 15 October 1582, UTC.
    pub came: u64,
}

/// Dropped events of one type, for one consumer and one reason.
#[derive(Debug, Clone)]
pub struct Dropped {
    /// The consumer's proxy, which may be gone.
    pub key: ProxyKey,
    /// The consumer's name in logs.
    pub name: String,
    /// Domain of the event type.
    pub domain: String,
    /// Name of the event type. Both are `*` for all types that have no number.
    pub event_type: String,
    /// Reason: the name of its counter without `lane_dropped_`.
    pub reason: &'static str,
    /// Number of events.
    pub events: u64,
}

/// Events of a type that were taken in, in all channels together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeEvents {
    /// Domain of the event type.
    pub domain: String,
    /// Name of the event type.
    pub name: String,
    /// Number of events.
    pub events: u64,
}

/// Why a query was not answered, or a command not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Declined {
    /// The service is about to end. Nothing was done.
    Stopping,
    /// A limit, or the client's quota, is reached. Nothing was done.
    NoResources,
    /// The rules of access deny it. Nothing was done.
    NotPermitted,
    /// The answer exceeds the message size that clients accept: 16 MiB.
    TooLarge,
    /// The command is done, but not on disk within `store.answer_within_ms`. It is written when the disk permits; if the process ends
    /// before, it is lost.
    NotStored,
    /// Administration has not answered in time. It may yet be done.
    NotInTime,
    /// The command made objects that were not on disk within `store.answer_within_ms`, and was undone. Or the request needs data on a disk
    /// that fails.
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
