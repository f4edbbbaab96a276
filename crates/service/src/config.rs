//! The configuration: one plain struct, read from TOML, every key with its unit, range and default.
//!
//! `config/campanile.toml` shows each key; a test holds it equal to [`Config::default`]. Unknown keys are refused, since
//! a misspelt limit that is silently ignored is found at three in the morning.

mod access;
mod addresses;
mod dds;
mod error;
mod log;
mod time_driven;
mod tls;

use core::time::Duration;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use engine::ChannelId;
use serde::{Deserialize, Serialize};

pub use self::access::{AccessRule, HTTP_TOKEN_NAME, OutgoingConfig};
pub use self::dds::{Dds, DdsDirection, DdsJoin, DdsMulticast, DdsPreset, DdsType, DdsValue};
pub use self::error::{ConfigError, IdlError, Undeclarable, Unfit};
pub use self::log::{LogConfig, LogFormat, LogLevel};
pub use self::time_driven::TimeDriven;
pub(crate) use self::tls::Ends;
pub use self::tls::{ClientCertificates, Tls};
use crate::doors::tempo::input::Bounds;
use crate::doors::tempo::types::{DeclaredTypes, TYPES_MAX};
use crate::lane::io::shares::Share;
use crate::memory::{BUDGET_MIN, Memory};
use crate::store::StoreLimits;
use corba::Declared;

/// The whole configuration of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address and port to listen on. Default `127.0.0.1:2809`, the port IANA gives to `corbaloc`; port 0 takes a free one.
    pub listen: String,
    /// Host, or host and port, that references carry; dotted decimal or a name that clients can resolve. Default: the
    /// listening address. Required when listening on a wildcard address such as `0.0.0.0`.
    pub advertise: Option<String>,
    /// The narrow code set that references name first, and that clients which know both therefore use. Default
    /// `ISO-8859-1`, what the ORBs in the field have. `UTF-8` lets clients whose own set is UTF-8 send all of Unicode in
    /// strings; then a single `char` beyond ASCII cannot be sent. Clients that know only one use that one either way.
    pub narrow_code_set: NarrowCodeSet,
    /// File to which the stringified reference of the event channel factory is written once the service is ready.
    pub ior_file: Option<PathBuf>,
    /// File with what is to be configured at the start, as `campanile topology export` wrote it: channels, admins and proxies with the
    /// references that clients have, filters, names. Default: none; there is the default channel, and nothing else.
    pub topology: Option<PathBuf>,
    /// Milliseconds in which a service that is asked to stop delivers what it has taken, 0 to 3,600,000. Default 10,000. What
    /// is left then is lost, counted and logged.
    pub shutdown_drain_ms: u32,
    /// How much is logged, and how.
    pub log: LogConfig,
    /// Finding the service by name.
    pub naming: Naming,
    /// What the service accepts from the network.
    pub limits: Limits,
    /// How events are pushed to consumers, unless a channel, admin or proxy says otherwise by QoS.
    pub delivery: Delivery,
    /// What a new channel gets, unless its creator says otherwise.
    pub channel: Channel,
    /// The threads that carry events.
    pub lanes: Lanes,
    /// Lines of JSON, a way in for scripts.
    pub json: Json,
    /// Metrics, the API and the console, over HTTP.
    pub http: Http,
    /// The small protocol for publishers and subscribers, over UDP and TCP.
    pub tempo: Tempo,
    /// Channels that are joined to DDS.
    pub dds: Dds,
    /// TLS: for clients, and to those whom the service calls.
    pub tls: Tls,
    /// What outlives the process.
    pub store: StoreConfig,
    /// Channels that there are from the start, beside the default channel. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<DeclaredChannel>,
    /// What is done as old servers do it instead of the standard.
    pub compatibility: Compatibility,
    /// Who may do what. Default: no rules, and whoever reaches the service may do everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<AccessRule>,
    /// Tokens that clients of JSON and HTTP may show, by the names that rules have for them: `sha256:HASH`, or `file:PATH` of a file that has the
    /// token, of 16 to 1,024 octets. Default: none.
    pub tokens: BTreeMap<String, String>,
    /// Whom the service calls.
    pub outgoing: OutgoingConfig,
}

/// What is done as old servers do it, for clients that came to rely on it, and not as the standard says. All is off by default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Compatibility {
    /// Whether properties that are unknown are taken and have no effect, as by TAO, whose clients set properties of their own; else they are
    /// `UnsupportedQoS` or `UnsupportedAdmin`. Default false.
    pub ignore_unknown_properties: bool,
    /// Whether `Timeout` and `StopTime` only put events in order (`DeadlineOrder`) and never have them expire, as by TAO: some of its clients
    /// set lifetimes that no event could keep to. Default false.
    pub timeout_never_expires: bool,
    /// Whether `MaxConsumers` and `MaxSuppliers` answer `IMP_LIMIT`, as TAO does, and not `AdminLimitExceeded`. Default false.
    pub limits_as_imp_limit: bool,
    /// Whether the default admins of channels made from now on combine their filters with their proxies' by OR, as TAO's do, and not by AND:
    /// then a filter of a proxy alone keeps nothing away. Default false.
    pub default_admins_or: bool,
    /// Whether `shutdown`, `shutdown_event_channel` and `remove_…` of TAO's monitor and control object are done, for whoever reaches the
    /// service; else they are `NO_PERMISSION`. Default false.
    pub monitor_control: bool,
    /// What the factory is called: in naming services, as a bootstrap key, and in the names of statistics (`-Factory` of TAO's server). 1 to
    /// 255 octets. Default `NotifyEventChannelFactory`.
    pub factory_name: String,
}

/// A channel that there is from the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredChannel {
    /// Its name in the root of the naming service.
    pub name: String,
    /// Its properties, QoS and administrative, as docs/qos.md names them.
    #[serde(default)]
    pub properties: BTreeMap<String, DeclaredValue>,
    /// The lanes of its `ThreadPoolLanes`, under `CLIENT_PROPAGATED`, as `campanile plan --out` writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lane: Vec<DeclaredLane>,
}

impl DeclaredChannel {
    /// Its properties and lanes as the door takes them.
    pub(crate) fn declared_properties(&self) -> Vec<(String, Declared)> {
        let value = |value: &DeclaredValue| match value {
            DeclaredValue::Flag(flag) => Declared::Flag(*flag),
            DeclaredValue::Number(number) => Declared::Number(*number),
            DeclaredValue::Text(text) => Declared::Text(text.clone()),
        };
        let mut properties: Vec<(String, Declared)> =
            self.properties.iter().map(|(name, given)| (name.clone(), value(given))).collect();
        if !self.lane.is_empty() {
            let lanes = self.lane.iter().map(|lane| (lane.priority, lane.static_threads)).collect();
            properties.push(("ThreadPoolLanes".to_owned(), Declared::Lanes(lanes)));
        }
        properties
    }
}

/// A lane of a channel's threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredLane {
    /// Its Real-time CORBA priority, 0 to 32,767, another than the other lanes'.
    pub priority: i64,
    /// Its threads, 1 at least; `lanes.threads_max` bounds those of all.
    pub static_threads: i64,
    /// The processor on which a plan has it. Nothing is done with it: `lanes.cpus` says where lanes run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u16>,
    /// What it carries, for whoever reads the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activities: Vec<String>,
}

/// A property's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DeclaredValue {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A choice, or a time with its unit: us, ms, s, min, h or d.
    Text(String),
}

/// A code set for `char` and `string`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum NarrowCodeSet {
    /// ISO 8859-1, Latin-1.
    #[default]
    #[serde(rename = "ISO-8859-1")]
    Latin1,
    /// UTF-8.
    #[serde(rename = "UTF-8")]
    Utf8,
}

/// Finding the service by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Naming {
    /// An outside naming service (`corbaloc:` or `IOR:`) in which the factory is bound as `NotifyEventChannelFactory`.
    /// Default: none; the built-in one is always there.
    pub outside: Option<String>,
}

/// Lines of JSON over TCP, a way in for scripts. It has no security: nothing is encrypted, and nobody is asked who it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Json {
    /// Address and port to listen on; a port alone means the loopback address. Default: none, and no such client is served.
    pub listen: Option<String>,
    /// Octets of a line, 1 KiB to 16 MiB. Default 256 KiB. A client that sends a longer one is told so, and its connection is
    /// closed.
    pub line_bytes_max: u32,
}

/// Metrics, the API and the console, over HTTP. Nothing is encrypted at `listen`; `tls.http_listen` is. What changes something needs the token,
/// or a right by the rules of access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Address and port to listen on in the clear; a port alone means the loopback address. Default: none. Another address than a loopback
    /// one needs a token or rules of access, without which nothing is told there.
    pub listen: Option<String>,
    /// File whose first line is the token: 16 to 256 visible characters of ASCII. Default: none, and nothing can be changed over HTTP. Where
    /// there are rules of access, these decide, and call it `token:http`.
    pub token_file: Option<PathBuf>,
    /// Names by which browsers and scrapers may call this host, beside those of the loopback address and the listening address: a request
    /// for another name is refused, since a page of another site may have a browser send it. Default: none.
    pub hosts: Vec<String>,
    /// Consumers that the metrics tell of by name, 0 to 10,000. Default 100: those with the largest backlogs. The others are summed up.
    pub consumers_max: u32,
    /// Channels that the metrics tell of by number, 1 to 10,000. Default 1,000: those with the lowest. The others are summed up.
    pub channels_max: u32,
    /// Connections that may be open at once, 1 to 1,024. Default 64. More are closed at once. An address has a share of them
    /// (`limits.client_share_percent`), but always 8.
    pub connections_max: u32,
    /// Milliseconds in which a request has to be complete, 100 to 600,000. Default 5,000. Else its connection is closed.
    pub request_within_ms: u32,
    /// Milliseconds in which an answer has to be read, 100 to 600,000. Default 10,000. Else its connection is closed.
    pub answer_within_ms: u32,
}

/// Tempo, the small protocol for publishers and subscribers, over UDP and TCP. It has no security: nothing is encrypted, and nobody is asked
/// who it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tempo {
    /// Address and port to listen on, for datagrams and for connections; a port alone means the loopback address. Default: none, and no such
    /// client is served.
    pub listen: Option<String>,
    /// A multicast group or a broadcast address with its port, that the service listens to as well, on the network of `listen`: who announces
    /// itself there finds it. Default: none.
    pub group: Option<String>,
    /// Milliseconds between two announcements of the broker, 10 to 60,000. Default 1,000.
    pub period_ms: u16,
    /// Messages that may wait for the turn of one topic, 1 to 1,048,576. Default 2,048. Of one publisher no more wait than it leaves
    /// free. What comes beyond it in datagrams is lost, and counted; a connection is not read meanwhile.
    pub input_messages: u32,
    /// Octets of them, with 320 more for each, 1 KiB to 1 GiB. Default 2 MiB. One message may wait whatever its size.
    pub input_bytes: u32,
    /// Topics that end points announce, once for each that publishes or subscribes, of all clients, 64 to 16,777,216. Default 65,536. More
    /// are not taken, and get no answer.
    pub topics_max: u32,
    /// Of which types topics' messages are: 1,024 at most. Default: none; messages are octets to all but those who send and get them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TempoType>,
}

/// The type of a topic's messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TempoType {
    /// The topic, 1 to 255 octets: the domain and the name of the event type, with a slash between them. No wildcards.
    pub topic: String,
    /// The number of the notification channel. Default 0.
    #[serde(default)]
    pub channel: u32,
    /// A `struct` in a small IDL, see docs/tempo.md; 65,536 octets at most.
    #[serde(rename = "type")]
    pub definition: String,
}

/// What outlives the process: channels, admins, proxies and their clients, filters and names, under the references that clients have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// Folder that is the service's own, and is made if it is not there; `none` keeps nothing. Default: none is named, and it is
    /// [`default_directory`](Self::default_directory).
    pub directory: Option<PathBuf>,
    /// Folder where `directory` names none; it is no key of the file. `campanile serve` has one in the user's home. Where it cannot be
    /// made, the service keeps nothing and [says so](crate::Service::remarks); what is there and cannot be used is an error. Default: none,
    /// and nothing outlives the process.
    #[serde(skip)]
    pub default_directory: Option<PathBuf>,
    /// Octets of events that are kept, of all channels, 1 MiB to 16 TiB. Default 4 GiB. What is beyond is refused (`IMP_LIMIT`).
    pub event_bytes_max: u64,
    /// Octets that the store may take on disk, 16 MiB to 16 TiB. Default 16 GiB. Where it takes as much, events are refused
    /// (`IMP_LIMIT`) until those that are kept have a quarter of that. What is configured counts, and is not refused for that: it is bounded
    /// by administration's part of `limits.memory_bytes`.
    pub disk_bytes_max: u64,
    /// Octets that backlogs (`OverflowBudget`) may take on disk, of all channels together, 1 MiB to 16 TiB. Default 16 GiB. One channel may
    /// have its share (`limits.client_share_percent`) of what is left; beyond that it is as beyond its `OverflowBudget`.
    pub overflow_bytes_max: u64,
    /// Octets that channels' past (`HistoryEvents`, `HistoryAge`, `HistoryBytes`) may take on disk, of all channels together, 1 MiB to 16
    /// TiB. Default 16 GiB. Of what is beyond the oldest of the channel that has the most goes.
    pub history_bytes_max: u64,
    /// Milliseconds from one synchronisation with the medium to the next at least, 0 to 10,000. Default 0: whatever waits is written as
    /// soon as the medium has taken what was before. Answers to persistent events and to changes wait for it.
    pub sync_interval_ms: u32,
    /// Milliseconds after which a change is answered (`PERSIST_STORE`) although the disk has not taken it, 100 to 600,000. Default
    /// 10,000. It is in effect, and written when the disk does.
    pub answer_within_ms: u32,
}

/// Whether clients' connections outlive the process where neither they nor their channel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionReliability {
    /// They do, where there is a store. Clients that were written for other services do not ask for it.
    #[default]
    Persistent,
    /// They end with the process.
    BestEffort,
}

/// Bounds on what the network can make the service hold. Each is counted when it is hit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of memory that the process may use for what clients make it keep, 64 MiB to 1 TiB. Default: none is named, and it is
    /// half of what the machine, or the control group of the process, has. Half of it is for events that wait, of all channels
    /// together, a quarter for what administration keeps, a quarter for connections.
    pub memory_bytes: Option<u64>,
    /// Connections accepted at the same time, 1 to 1,000,000. Default 4096. One more is closed at once.
    pub connections_max: u32,
    /// Connections to clients, open or being made, at the same time, 1 to 1,000,000, and no more than leaves the accepted ones
    /// their descriptors. Default 65,536. Beyond it the longest idle one is closed; without one a client counts as unreachable.
    pub outgoing_connections_max: u32,
    /// Proxies of all channels, 1 to 16,777,216. Default 262,144. One more is refused (`NO_RESOURCES`).
    pub proxies_max: u32,
    /// Event types that consumers and their admins name, of all channels, 1,024 to 16,777,216: one each, one more for every 64
    /// octets of its names, and 8 for every star where something is looked for between two. Default 524,288. More are refused (`NO_RESOURCES`).
    pub event_types_max: u32,
    /// What the clients of one address may have of each limit while nobody else has anything of it, in percent, 1 to 100.
    /// Default 75. With 100 one may have everything.
    pub client_share_percent: u8,
    /// Largest GIOP message in bytes, 1024 to 1 GiB. Default 16 MiB. A larger one ends its connection.
    pub message_bytes_max: u32,
    /// Messages in fragments being put together on one connection, 1 to 1024. Default 16.
    pub fragment_sets_max: u32,
    /// Milliseconds in which a message that has begun must be complete. Default 60,000. A slower one ends its connection.
    pub message_completion_ms: u32,
    /// Bytes of memory for what has arrived of messages that are not complete, of all clients, 1 MiB to 1 TiB; 16 KiB of each
    /// connection are not counted. Default 256 MiB. Beyond it messages are completed from a reserve, the others wait, and who
    /// does not progress meanwhile is closed.
    pub incomplete_bytes_max: u64,
    /// Bytes that were written for clients, events, answers and calls, and that they have yet to read, 1 MiB to 1 TiB. Default
    /// 256 MiB. Beyond it a connection is written nothing more until it has read all; requests whose answers may be large wait,
    /// and who reads nothing meanwhile for `message_completion_ms` is closed.
    pub unread_reply_bytes_max: u64,
    /// Messages of one connection that are handled before the others have their turn, 1 to 65,536. Default 1024.
    pub share_messages: u32,
    /// Microseconds that one connection's messages may take before the others have their turn, 10 to 1,000,000; the message
    /// under way is finished. Where connections of several addresses are open, those of one address have so long together.
    /// Default 100.
    pub share_us: u32,
    /// Administrative requests waiting for the administration thread, 1 to 65,536. Default 4096. One more is answered
    /// `TRANSIENT`.
    pub administration_queue: u32,
    /// What a client may set a channel's `FilterSteps` to, 1 to 100,000,000. Default 1,000,000: a step takes 4 to 16 ns, so that one
    /// event's filters keep a lane for 16 ms at most.
    pub filter_steps_max: u32,
}

/// How events are pushed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Delivery {
    /// Pushes that may be unanswered on one consumer, 1 to 1024. Default: none is named, and it is 1, which keeps order
    /// whatever the consumer's threading, but 64 for consumers that are Campanile's own client, which keeps it always. QoS
    /// `PushWindow`.
    pub push_window: Option<u16>,
    /// Milliseconds to wait for a connection to a consumer. Default 5,000. QoS `ConnectTimeout`.
    pub connect_timeout_ms: u32,
    /// Milliseconds to wait for a consumer's reply to a push. Default 30,000. QoS `ReplyTimeout`.
    pub reply_timeout_ms: u32,
    /// Milliseconds of uninterrupted failure after which a consumer is disconnected. Default 60,000. QoS `GiveUpAfter`.
    pub give_up_after_ms: u32,
    /// Milliseconds after which a consumer that takes nothing, while suppliers wait for it, is disconnected; 0 never. Default: none
    /// is named, and it is the consumer's `ReplyTimeout`. QoS `HoldTimeout`.
    pub hold_timeout_ms: Option<u32>,
    /// Milliseconds after which a connected client is asked whether it still exists; 0 never. Default 60,000. QoS
    /// `ProbeInterval`.
    pub probe_interval_ms: u32,
    /// Milliseconds after which a supplier that cannot be asked, is not heard of and has closed its connection is
    /// disconnected; 0 never. Default 0. QoS `SupplierLinger`.
    pub supplier_linger_ms: u32,
}

/// What a new channel gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Channel {
    /// Bytes of events that a channel's consumers may have waiting, 64 KiB to 1 TiB. Default 256 MiB. QoS `MemoryBudget`.
    pub memory_budget_bytes: u64,
    /// Bytes of events that a channel may have waiting on disk, where there is a store, 0 to 16 TiB. Default 4 GiB. 0: what is too much for
    /// memory is no further than that. QoS `OverflowBudget`.
    pub overflow_budget_bytes: u64,
    /// Whether clients' connections outlive the process, where there is a store: `persistent` or `best-effort`. Default `persistent`.
    /// QoS `ConnectionReliability`.
    pub connection_reliability: ConnectionReliability,
}

/// The threads that carry events: the main lane, and those of thread pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lanes {
    /// Threads that all thread pools together may have, 1 to 256. Default 64. A pool that would have more is refused.
    pub threads_max: u16,
    /// How the threads of pools are scheduled. Default `fifo`.
    pub scheduling: Scheduling,
    /// How a lane's CORBA priority becomes a native one. Default `linear`.
    pub priority_mapping: PriorityMapping,
    /// Whose turn it is among the topics of the main lane. Default `shares`. A pool's lanes have the QoS property
    /// `Discipline`.
    pub discipline: Discipline,
    /// The CORBA priority of the main lane, 0 to 32,767. Default: none, and it is scheduled as an ordinary thread.
    pub main_priority: Option<u16>,
    /// The main lane is released so often, in microseconds, 100 to 1,000,000, and serves then what has come since. Default 0: it serves
    /// whatever comes at once.
    pub main_period_us: u32,
    /// For so many microseconds of a processor's time in each such period, 10 to `main_period_us`. Default 0, as without a period.
    pub main_budget_us: u32,
    /// The processors on which lanes run, by number. Default: none are named, and they run on all.
    pub cpus: Vec<u16>,
    /// Whether all memory of the process is kept from being paged out. Default false.
    pub lock_memory: bool,
    /// Lanes of pools that run by the clock, by their priority. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub time_driven: Vec<TimeDriven>,
}

/// How the threads of pools are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheduling {
    /// `SCHED_FIFO` where the process may do that, which is said at the start if not; otherwise as ordinary threads.
    #[default]
    Fifo,
    /// As ordinary threads.
    Ordinary,
}

/// Whose turn it is among the topics that wait in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// Each by its share, within which the earliest deadline comes first.
    #[default]
    Shares,
    /// The one whose deadline is first.
    EarliestDeadline,
    /// The one with the least time to spare.
    LeastLaxity,
    /// The most critical one; among equals the one with the least time to spare.
    MaximumUrgency,
}

impl Discipline {
    pub(crate) const fn of_lane(self) -> engine::Discipline {
        match self {
            Self::Shares => engine::Discipline::Shares,
            Self::EarliestDeadline => engine::Discipline::EarliestDeadline,
            Self::LeastLaxity => engine::Discipline::LeastLaxity,
            Self::MaximumUrgency => engine::Discipline::MaximumUrgency,
        }
    }
}

/// How a CORBA priority (0 to 32,767) becomes a native one (1 to 98).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PriorityMapping {
    /// Over the whole range: `1 + p · 97 / 32767`.
    #[default]
    Linear,
    /// As it is, within 1 to 98.
    Direct,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            threads_max: 64,
            scheduling: Scheduling::default(),
            priority_mapping: PriorityMapping::default(),
            discipline: Discipline::default(),
            main_priority: None,
            main_period_us: 0,
            main_budget_us: 0,
            cpus: Vec::new(),
            lock_memory: false,
            time_driven: Vec::new(),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:2809".into(),
            advertise: None,
            narrow_code_set: NarrowCodeSet::default(),
            ior_file: None,
            topology: None,
            shutdown_drain_ms: 10_000,
            log: LogConfig::default(),
            naming: Naming::default(),
            limits: Limits::default(),
            delivery: Delivery::default(),
            channel: Channel::default(),
            lanes: Lanes::default(),
            channels: Vec::new(),
            compatibility: Compatibility::default(),
            json: Json::default(),
            http: Http::default(),
            tempo: Tempo::default(),
            dds: Dds::default(),
            tls: Tls::default(),
            store: StoreConfig::default(),
            access: Vec::new(),
            tokens: BTreeMap::new(),
            outgoing: OutgoingConfig::default(),
        }
    }
}

impl Default for Compatibility {
    fn default() -> Self {
        Self {
            ignore_unknown_properties: false,
            timeout_never_expires: false,
            limits_as_imp_limit: false,
            default_admins_or: false,
            monitor_control: false,
            factory_name: "NotifyEventChannelFactory".into(),
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: None,
            token_file: None,
            hosts: Vec::new(),
            consumers_max: 100,
            channels_max: 1_000,
            connections_max: 64,
            request_within_ms: 5_000,
            answer_within_ms: 10_000,
        }
    }
}

impl Default for Json {
    fn default() -> Self {
        Self { listen: None, line_bytes_max: 256 << 10 }
    }
}

impl Default for Tempo {
    fn default() -> Self {
        Self {
            listen: None,
            group: None,
            period_ms: 1_000,
            input_messages: 2_048,
            input_bytes: 2 << 20,
            topics_max: 65_536,
            types: Vec::new(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            connections_max: 4096,
            outgoing_connections_max: 65_536,
            proxies_max: 262_144,
            event_types_max: 524_288,
            client_share_percent: 75,
            message_bytes_max: 16 << 20,
            fragment_sets_max: 16,
            message_completion_ms: 60_000,
            incomplete_bytes_max: 256 << 20,
            unread_reply_bytes_max: 256 << 20,
            share_messages: 1024,
            share_us: 100,
            administration_queue: 4096,
            filter_steps_max: 1_000_000,
        }
    }
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            push_window: None,
            connect_timeout_ms: 5_000,
            reply_timeout_ms: 30_000,
            give_up_after_ms: 60_000,
            hold_timeout_ms: None,
            probe_interval_ms: 60_000,
            supplier_linger_ms: 0,
        }
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            directory: None,
            default_directory: None,
            event_bytes_max: 4 << 30,
            disk_bytes_max: 16 << 30,
            overflow_bytes_max: 16 << 30,
            history_bytes_max: 16 << 30,
            sync_interval_ms: 0,
            answer_within_ms: 10_000,
        }
    }
}

impl StoreConfig {
    /// What stands for a folder where nothing is to be kept.
    pub const NOWHERE: &str = "none";

    /// Whether nothing is to be kept, whatever folder there may be.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.directory.as_deref().is_some_and(|named| named == Path::new(Self::NOWHERE))
    }

    /// The folder in which things are to be kept, and whether somebody has asked for just that one.
    pub(crate) fn folder(&self) -> Option<(&Path, bool)> {
        match &self.directory {
            Some(_) if self.is_off() => None,
            Some(named) => Some((named, true)),
            None => self.default_directory.as_deref().map(|folder| (folder, false)),
        }
    }
}

impl Default for Channel {
    fn default() -> Self {
        let connection_reliability = ConnectionReliability::default();
        Self { memory_budget_bytes: 256 << 20, overflow_budget_bytes: 4 << 30, connection_reliability }
    }
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// When the file cannot be read, is not TOML, has an unknown key, or a value out of range.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Unreadable { path: path.to_path_buf(), error })?;
        let config: Self =
            toml::from_str(&text).map_err(|error| ConfigError::Malformed { path: path.to_path_buf(), error })?;
        config.check()?;
        Ok(config)
    }

    /// Checks every range.
    ///
    /// # Errors
    /// Names the first key whose value is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        let delivery = &self.delivery;
        for (key, value, min, max) in [
            ("shutdown_drain_ms", u64::from(self.shutdown_drain_ms), 0, 3_600_000),
            ("limits.memory_bytes", limits.memory_bytes.unwrap_or(BUDGET_MIN), BUDGET_MIN, 1 << 40),
            ("limits.connections_max", u64::from(limits.connections_max), 1, 1_000_000),
            ("limits.client_share_percent", u64::from(limits.client_share_percent), 1, 100),
            ("limits.outgoing_connections_max", u64::from(limits.outgoing_connections_max), 1, 1_000_000),
            ("limits.proxies_max", u64::from(limits.proxies_max), 1, 1 << 24),
            ("limits.event_types_max", u64::from(limits.event_types_max), 1_024, 1 << 24),
            ("limits.message_bytes_max", u64::from(limits.message_bytes_max), 1024, 1 << 30),
            ("limits.fragment_sets_max", u64::from(limits.fragment_sets_max), 1, 1024),
            ("limits.message_completion_ms", u64::from(limits.message_completion_ms), 100, 86_400_000),
            ("limits.incomplete_bytes_max", limits.incomplete_bytes_max, 1 << 20, 1 << 40),
            ("limits.unread_reply_bytes_max", limits.unread_reply_bytes_max, 1 << 20, 1 << 40),
            ("limits.share_messages", u64::from(limits.share_messages), 1, 65_536),
            ("limits.share_us", u64::from(limits.share_us), 10, 1_000_000),
            ("limits.administration_queue", u64::from(limits.administration_queue), 1, 65_536),
            ("limits.filter_steps_max", u64::from(limits.filter_steps_max), 1, 100_000_000),
            ("delivery.push_window", u64::from(delivery.push_window.unwrap_or(1)), 1, 1024),
            ("delivery.connect_timeout_ms", u64::from(delivery.connect_timeout_ms), 10, 600_000),
            ("delivery.reply_timeout_ms", u64::from(delivery.reply_timeout_ms), 10, 86_400_000),
            ("delivery.give_up_after_ms", u64::from(delivery.give_up_after_ms), 10, 86_400_000),
            ("delivery.hold_timeout_ms", u64::from(delivery.hold_timeout_ms.unwrap_or(0)), 0, 604_800_000),
            ("delivery.probe_interval_ms", u64::from(delivery.probe_interval_ms), 0, 604_800_000),
            ("delivery.supplier_linger_ms", u64::from(delivery.supplier_linger_ms), 0, 4_294_967_295),
            ("lanes.threads_max", u64::from(self.lanes.threads_max), 1, 256),
            ("lanes.main_priority", u64::from(self.lanes.main_priority.unwrap_or(0)), 0, 32_767),
            ("lanes.cpus", u64::from(self.lanes.cpus.iter().copied().max().unwrap_or(0)), 0, 1023),
            ("tempo.period_ms", u64::from(self.tempo.period_ms), 10, 60_000),
            ("tempo.input_messages", u64::from(self.tempo.input_messages), 1, 1 << 20),
            ("tempo.input_bytes", u64::from(self.tempo.input_bytes), 1024, 1 << 30),
            ("tempo.topics_max", u64::from(self.tempo.topics_max), 64, 1 << 24),
            ("http.consumers_max", u64::from(self.http.consumers_max), 0, 10_000),
            ("http.channels_max", u64::from(self.http.channels_max), 1, 10_000),
            ("http.connections_max", u64::from(self.http.connections_max), 1, 1_024),
            ("http.request_within_ms", u64::from(self.http.request_within_ms), 100, 600_000),
            ("http.answer_within_ms", u64::from(self.http.answer_within_ms), 100, 600_000),
            ("json.line_bytes_max", u64::from(self.json.line_bytes_max), 1024, 16 << 20),
            ("tls.handshake_ms", u64::from(self.tls.handshake_ms), 100, 600_000),
            ("tempo.types (entries)", self.tempo.types.len() as u64, 0, TYPES_MAX as u64),
            ("compatibility.factory_name (octets)", self.compatibility.factory_name.len() as u64, 1, 255),
            ("store.event_bytes_max", self.store.event_bytes_max, 1 << 20, 16 << 40),
            ("channel.overflow_budget_bytes", self.channel.overflow_budget_bytes, 0, 16 << 40),
            ("store.disk_bytes_max", self.store.disk_bytes_max, 16 << 20, 16 << 40),
            ("store.overflow_bytes_max", self.store.overflow_bytes_max, 1 << 20, 16 << 40),
            ("store.history_bytes_max", self.store.history_bytes_max, 1 << 20, 16 << 40),
            ("store.sync_interval_ms", u64::from(self.store.sync_interval_ms), 0, 10_000),
            ("store.answer_within_ms", u64::from(self.store.answer_within_ms), 100, 600_000),
            ("channel.memory_budget_bytes", self.channel.memory_budget_bytes, 64 << 10, 1 << 40),
        ] {
            if value < min || value > max {
                return Err(ConfigError::OutOfRange { key, value, min, max });
            }
        }
        self.lanes.check_timing()?;
        self.dds.check()?;
        self.tls.check(self.json.listen.is_some(), self.tempo.listen.is_some())?;
        self.check_access()?;
        self.tempo_group()?;
        self.tempo_types().map(|_| ())
    }

    /// The types that topics of Tempo are declared to have.
    ///
    /// # Errors
    /// Names the first that cannot be declared, and says why.
    pub(crate) fn tempo_types(&self) -> Result<DeclaredTypes, ConfigError> {
        let mut types = DeclaredTypes::default();
        for TempoType { topic, channel, definition } in &self.tempo.types {
            let declared = types.declare(ChannelId(*channel), topic, definition);
            declared.map_err(|why| ConfigError::BadType { topic: topic.clone(), channel: *channel, why })?;
        }
        Ok(types)
    }

    /// What a client may send in a line of JSON.
    pub(crate) fn json_limits(&self) -> json::Limits {
        let line_bytes_max = usize::try_from(self.json.line_bytes_max).unwrap_or(usize::MAX);
        json::Limits { line_bytes_max, ..json::Limits::default() }
    }

    /// What the door for Tempo is made with.
    pub(crate) fn tempo_settings(&self, request_bytes_min: u64) -> crate::doors::tempo::Settings {
        let Tempo { period_ms, input_messages, input_bytes, .. } = self.tempo;
        let bounds = Bounds { messages: input_messages as usize, octets: input_bytes as usize };
        let message_bytes_max = self.limits.message_bytes_max.min(tempo::wire::MESSAGE_MAX);
        crate::doors::tempo::Settings { period_ms, bounds, message_bytes_max, request_bytes_min }
    }

    /// The budget of the process: what is configured, or half of what there is at this moment.
    pub(crate) fn memory(&self) -> Memory {
        let configured = self.limits.memory_bytes.map(Memory::new);
        let memory = configured.unwrap_or_else(Memory::of_machine);
        ::log::info!("the memory budget of the process is {}", memory.described(configured.is_some()));
        memory
    }

    /// How long a service that is asked to stop delivers what it has taken.
    #[must_use]
    pub fn shutdown_drain(&self) -> Duration {
        Duration::from_millis(u64::from(self.shutdown_drain_ms))
    }

    /// What the store may have.
    pub(crate) fn store_limits(&self) -> StoreLimits {
        StoreLimits {
            event_bytes_max: self.store.event_bytes_max,
            disk_bytes_max: self.store.disk_bytes_max,
            sync_interval: Duration::from_millis(self.store.sync_interval_ms.into()),
        }
    }

    /// How long a message may take to arrive whole.
    pub(crate) fn message_completion(&self) -> Duration {
        Duration::from_millis(u64::from(self.limits.message_completion_ms))
    }

    /// What one connection may have of a lane's round.
    pub(crate) fn share(&self) -> Share {
        Share { messages: self.limits.share_messages, time: Duration::from_micros(u64::from(self.limits.share_us)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_file_shows_every_key_with_its_default() {
        let text = include_str!("../../../config/campanile.toml");
        let written: Config = toml::from_str(text).unwrap();
        assert_eq!(written, Config::default());
        // Every key of the defaults is there, commented out where its default is "none".
        let table: toml::Table = toml::from_str(&toml::to_string(&Config::default()).unwrap()).unwrap();
        for (section, value) in &table {
            for key in value.as_table().map_or(vec![section], |t| t.keys().collect()) {
                assert!(text.contains(&format!("{key} =")), "config/campanile.toml lacks {section} {key}");
            }
        }
        for key in [
            "advertise",
            "ior_file",
            "topology",
            "outside",
            "group",
            "main_priority",
            "push_window",
            "memory_bytes",
            "directory",
            "json_listen",
            "tempo_listen",
            "certificate",
            "key",
            "client_ca",
            "clients",
            "ca",
            "crl",
            "allow",
            "who",
            "may",
            "on",
            "types",
            "token_file",
        ] {
            assert!(text.contains(&format!("# {key} =")), "config/campanile.toml lacks {key}");
        }
    }

    #[test]
    fn channels_are_declared_with_numbers_flags_and_text() {
        let text = "[[channels]]\nname = \"Plant\"\n[channels.properties]\nFullOutbox = \"Discard\"\n\
                    MaxConsumers = 3\nRejectNewEvents = true\n[[channels]]\nname = \"Office\"";
        let config: Config = toml::from_str(text).unwrap();
        assert_eq!(config.channels.len(), 2);
        let DeclaredChannel { name, properties, .. } = &config.channels[0];
        let of = |name: &str| properties[name].clone();
        assert_eq!(name, "Plant");
        assert_eq!(of("FullOutbox"), DeclaredValue::Text("Discard".into()));
        assert_eq!(of("MaxConsumers"), DeclaredValue::Number(3));
        assert_eq!(of("RejectNewEvents"), DeclaredValue::Flag(true));
        assert!(toml::from_str::<Config>("[[channels]]\nproperties = {}").is_err(), "it needs a name");
        let text = "[[channels]]\nname = \"Plant\"\n[[channels.lane]]\npriority = 10\nstatic_threads = 1\ncpu = 0\nactivities = [\"a\"]\n\
                    [[channels.lane]]\npriority = 20\nstatic_threads = 2\n[channels.properties]\nMaxConsumers = 3";
        let config: Config = toml::from_str(text).unwrap();
        let lanes: Vec<_> = config.channels[0].lane.iter().map(|lane| (lane.priority, lane.static_threads)).collect();
        assert_eq!(lanes, [(10, 1), (20, 2)]);
        assert!(toml::from_str::<Config>(&text.replace("cpu", "core")).is_err());
    }

    #[test]
    fn types_of_topics_are_declared_and_what_cannot_be_is_named() {
        let text = "[[tempo.types]]\ntopic = \"Weather/Wind\"\ntype = \"struct Wind { double speed; };\"\n\
                    [[tempo.types]]\ntopic = \"Weather/Wind\"\nchannel = 7\ntype = \"struct Wind { long speed; };\"";
        let config: Config = toml::from_str(text).unwrap();
        config.check().unwrap();
        let types = config.tempo_types().unwrap();
        assert!([0, 7].iter().all(|channel| types.find(ChannelId(*channel), b"Weather", b"Wind").is_some()));
        let error = |text: &str| toml::from_str::<Config>(text).unwrap().check().unwrap_err().to_string();
        let twice = error(&text.replace("channel = 7\n", ""));
        assert_eq!(twice, "tempo.types: topic \"Weather/Wind\" of channel 0: it has a type already");
        let wrong = error(&text.replace("long speed", "long"));
        assert_eq!(
            wrong,
            "tempo.types: topic \"Weather/Wind\" of channel 7: its type is not understood: line 1, column 19: expected the name of the \
             member, found `;`"
        );
        let many: String = (0..1_025)
            .map(|n| format!("[[tempo.types]]\ntopic = \"{n}\"\ntype = \"struct A {{ long x; }}\"\n"))
            .collect();
        assert_eq!(error(&many), "tempo.types (entries) = 1025 is out of range: it must be from 0 to 1024");
        assert!(toml::from_str::<Config>("[[tempo.types]]\ntopic = \"A\"").is_err(), "it needs a type");
    }

    #[test]
    fn refuses_unknown_keys_and_names_them() {
        let error = toml::from_str::<Config>("lisen = \"127.0.0.1:1\"").unwrap_err().to_string();
        assert!(error.contains("lisen"), "{error}");
    }

    #[test]
    fn refuses_values_out_of_range_and_says_the_range() {
        let mut config = Config::default();
        config.delivery.push_window = Some(0);
        let error = config.check().unwrap_err().to_string();
        assert_eq!(error, "delivery.push_window = 0 is out of range: it must be from 1 to 1024");
    }
}
