//! The configuration: one plain struct, read from TOML, every key with its unit, range and default.
//!
//! `config/campanile.toml` shows each key; a test holds it equal to [`Config::default`]. Unknown keys are refused, since
//! a misspelt limit that is silently ignored is found at three in the morning.

mod access;
mod addresses;
mod dds;
mod error;
pub(crate) mod federation;
mod giop;
mod lanes;
mod limits;
mod link_zenoh;
mod links;
mod log;
mod other_protocols;
mod persistence;
mod standby;
mod time_driven;
mod timers;
mod tls;

use core::time::Duration;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use engine::ChannelId;
use serde::{Deserialize, Serialize};

pub use self::access::{AccessRule, ClientEntry, HTTP_TOKEN_NAME, OutgoingConfig};
pub(crate) use self::addresses::parse_listen;
pub use self::dds::{Dds, DdsDirection, DdsJoin, DdsMulticast, DdsPreset, DdsType, DdsValue};
pub use self::error::{ConfigError, IdlError, Undeclarable, Unfit};
pub use self::federation::Federation;
pub use self::giop::Giop;
pub use self::lanes::{Discipline, Lanes, PriorityMapping, Scheduling};
pub use self::limits::{Delivery, Limits};
pub use self::link_zenoh::LinkZenoh;
pub(crate) use self::links::is_reference;
pub use self::links::{Carrier, LinkDatagrams, LinkDirections, LinkEntry, LinkNames, Links, WhenFull};
pub use self::log::{LogConfig, LogFormat, LogLevel};
pub use self::other_protocols::{Http, Json, Tempo, TempoType};
pub use self::persistence::{Channel, ConnectionReliability, StoreConfig};
pub(crate) use self::standby::EtcdEndpoint;
pub use self::standby::{OnFollowerLost, Replicate, Standby, StandbyRecordConfig, StandbyRole};
pub use self::time_driven::TimeDriven;
pub use self::timers::DeclaredTimer;
pub(crate) use self::tls::Ends;
pub use self::tls::{ClientCertificates, Tls};
use crate::lane::budget::Budget;
use crate::memory::{BUDGET_MIN, Memory};
use crate::protocols::tempo::types::{DeclaredTypes, TYPES_MAX};
use crate::store::StoreLimits;
use crate::store::dead_letters::DeadLetterLimits;
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
    /// How CORBA's messages are exchanged.
    pub giop: Giop,
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
    /// Where links of other services come in, and what holds for all links.
    pub links: Links,
    /// Links that this service makes to others. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<LinkEntry>,
    /// Services that find each other, and link their channels.
    pub federation: Federation,
    /// TLS: for clients, and to the peers that the service calls.
    pub tls: Tls,
    /// What outlives the process.
    pub store: StoreConfig,
    /// A second machine that has everything that the store has, and can take over.
    pub standby: Standby,
    /// Channels that there are from the start, beside the default channel. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<DeclaredChannel>,
    /// What is done as old servers do it instead of the standard.
    pub compatibility: Compatibility,
    /// Access rules. Default: none, and any client that reaches the service may do everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<AccessRule>,
    /// What clients are called by their addresses in logs, statistics and metrics, if they say no name of themselves. Default: nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client: Vec<ClientEntry>,
    /// Tokens that clients of JSON and HTTP may show, by the names that rules have for them: `sha256:HASH`, or `file:PATH` of a file that
    /// has the token, of 16 to 1,024 octets. Default: none.
    pub tokens: BTreeMap<String, String>,
    /// Whom the service calls.
    pub outgoing: OutgoingConfig,
}

/// What is done as old servers do it, for clients that came to rely on it, and not as the standard says; and what they may not expect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Compatibility {
    /// Whether unknown properties are stored and reported without effect, as by TAO, whose clients set properties of their own; else they
    /// are `UnsupportedQoS` or `UnsupportedAdmin`. Default false.
    pub ignore_unknown_properties: bool,
    /// Whether `Timeout` and `StopTime` only put events in order (`DeadlineOrder`) and never have them expire, as by TAO: some of its
    /// clients set lifetimes that no event could keep to. Default false.
    pub timeout_never_expires: bool,
    /// Whether `MaxConsumers` and `MaxSuppliers` answer `IMP_LIMIT`, as TAO does, and not `AdminLimitExceeded`. Default false.
    pub limits_as_imp_limit: bool,
    /// Whether the default admins of channels made from now on combine their filters with their proxies' by OR, as TAO's do, and not by
    /// AND. Default false.
    pub default_admins_or: bool,
    /// Whether, under an admin that combines by OR, an admin or a proxy without filters lets everything pass, as with TAO, so that the
    /// filters of the other keep nothing away; else one without filters does not count, and the other's decide. Default false.
    pub or_passes_without_filters: bool,
    /// Whether `shutdown`, `shutdown_event_channel` and `remove_…` of TAO's monitor and control object are done, for any client that
    /// reaches the service; else they are `NO_PERMISSION`. Default false.
    pub monitor_control: bool,
    /// Whether a client that disconnects its proxy has the object with which it connected called by `disconnect_…`, as the Event Service
    /// says and omniEvents and JacORB do; TAO's Notification Service does not. Default true.
    pub tell_on_disconnect: bool,
    /// Whether a client that connects its object anew, after its earlier life has ended, takes the place of that life's proxy, so that it
    /// gets each event once. Default true.
    pub take_over: bool,
    /// Whether a client that connects to a proxy which is connected takes the place of the client that was, as with TAO's
    /// `-AllowReconnect`; else it is refused by `AlreadyConnected`. Default false.
    pub allow_reconnect: bool,
    /// Whether `EventReliability` and `ConnectionReliability` `Persistent` are taken and have no effect where there is no store, as with
    /// TAO's server without its persistence; else they are `UnsupportedQoS`. Default false.
    pub persistent_without_store: bool,
    /// Whether `get_filter` of a filter factory with a number that is not its own is `INTERNAL`, as with TAO; else it gives nil. Default
    /// false.
    pub unknown_filter_internal: bool,
    /// Whether `subscription_change` and `offer_change` change lists of event types, and clients are notified of them, as with TAO:
    /// everything is no type beside others, and no client is notified of it. Default false.
    pub tao_event_types: bool,
    /// What the factory is called: in naming services, as a bootstrap key, and in the names of statistics (`-Factory` of TAO's server). 1
    /// to 255 octets. Default `NotifyEventChannelFactory`.
    pub factory_name: String,
}

/// A channel that there is from the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredChannel {
    /// Its name, 1 to 1,024 octets, by which all clients find it; it is bound in the root of the naming service, too.
    pub name: String,
    /// Its properties, QoS and administrative, as docs/qos.md names them.
    #[serde(default)]
    pub properties: BTreeMap<String, DeclaredValue>,
    /// The lanes of its `ThreadPoolLanes`, under `CLIENT_PROPAGATED`, as `campanile plan --out` writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lane: Vec<DeclaredLane>,
    /// Its timers, 64 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<DeclaredTimer>,
}

impl DeclaredChannel {
    /// Its properties and lanes as the protocol takes them.
    pub(crate) fn declared_properties(&self) -> Vec<(String, Declared)> {
        let mut properties: Vec<(String, Declared)> =
            self.properties.clone().into_iter().map(|(name, given)| (name, given.into())).collect();
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
    /// Description of what it carries, for readers of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activities: Vec<String>,
}

/// A property's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a property is to be a whole number, true, false or text")]
pub enum DeclaredValue {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A choice, or a time with its unit: us, ms, s, min, h or d.
    Text(String),
}

impl From<DeclaredValue> for Declared {
    fn from(value: DeclaredValue) -> Self {
        match value {
            DeclaredValue::Flag(flag) => Self::Flag(flag),
            DeclaredValue::Number(number) => Self::Number(number),
            DeclaredValue::Text(text) => Self::Text(text),
        }
    }
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
            giop: Giop::default(),
            delivery: Delivery::default(),
            channel: Channel::default(),
            lanes: Lanes::default(),
            channels: Vec::new(),
            compatibility: Compatibility::default(),
            json: Json::default(),
            http: Http::default(),
            tempo: Tempo::default(),
            dds: Dds::default(),
            links: Links::default(),
            link: Vec::new(),
            federation: Federation::default(),
            tls: Tls::default(),
            store: StoreConfig::default(),
            standby: Standby::default(),
            access: Vec::new(),
            client: Vec::new(),
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
            or_passes_without_filters: false,
            monitor_control: false,
            tell_on_disconnect: true,
            take_over: true,
            allow_reconnect: false,
            persistent_without_store: false,
            unknown_filter_internal: false,
            tao_event_types: false,
            factory_name: "NotifyEventChannelFactory".into(),
        }
    }
}

/// # Errors
/// When a value is out of its range.
const fn in_range(key: &'static str, value: u64, min: u64, max: u64) -> Result<(), ConfigError> {
    if value < min || value > max { Err(ConfigError::OutOfRange { key, value, min, max }) } else { Ok(()) }
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
    /// Names the first key that has a value out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        let delivery = &self.delivery;
        for (key, value, min, max) in [
            ("shutdown_drain_ms", u64::from(self.shutdown_drain_ms), 0, 3_600_000),
            ("limits.memory_bytes", limits.memory_bytes.unwrap_or(BUDGET_MIN), BUDGET_MIN, 1 << 40),
            ("limits.connections_max", u64::from(limits.connections_max), 1, 1_000_000),
            ("limits.client_share_percent", u64::from(limits.client_quota_percent), 1, 100),
            ("limits.outgoing_connections_max", u64::from(limits.outgoing_connections_max), 1, 1_000_000),
            ("limits.proxies_max", u64::from(limits.proxies_max), 1, 1 << 24),
            ("limits.event_types_max", u64::from(limits.event_types_max), 1_024, 1 << 24),
            ("limits.message_bytes_max", u64::from(limits.message_bytes_max), 1024, 1 << 30),
            ("limits.fragment_sets_max", u64::from(limits.fragment_sets_max), 1, 1024),
            ("limits.message_completion_ms", u64::from(limits.message_completion_ms), 100, 86_400_000),
            ("limits.incomplete_bytes_max", limits.incomplete_bytes_max, 1 << 20, 1 << 40),
            ("limits.unread_reply_bytes_max", limits.unread_reply_bytes_max, 1 << 20, 1 << 40),
            ("limits.share_messages", u64::from(limits.round_messages), 1, 65_536),
            ("limits.share_us", u64::from(limits.round_us), 10, 1_000_000),
            ("limits.administration_queue", u64::from(limits.administration_queue), 1, 65_536),
            ("limits.filter_steps_max", u64::from(limits.filter_steps_max), 1, 100_000_000),
            ("limits.constraint_bytes_max", u64::from(limits.constraint_bytes_max), 1, 1 << 20),
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
            ("http.websockets_max", u64::from(self.http.websockets_max), 0, 1_024),
            ("http.websocket_ping_ms", u64::from(self.http.websocket_ping_ms), 100, 600_000),
            ("json.line_bytes_max", u64::from(self.json.line_bytes_max), 1024, 16 << 20),
            ("tls.handshake_ms", u64::from(self.tls.handshake_ms), 100, 600_000),
            ("tempo.types (entries)", self.tempo.types.len() as u64, 0, TYPES_MAX as u64),
            ("compatibility.factory_name (octets)", self.compatibility.factory_name.len() as u64, 1, 255),
            ("store.event_bytes_max", self.store.event_bytes_max, 1 << 20, 16 << 40),
            ("channel.overflow_budget_bytes", self.channel.overflow_budget_bytes, 0, 16 << 40),
            ("store.disk_bytes_max", self.store.disk_bytes_max, 16 << 20, 16 << 40),
            ("store.overflow_bytes_max", self.store.overflow_bytes_max, 1 << 20, 16 << 40),
            ("store.history_bytes_max", self.store.history_bytes_max, 1 << 20, 16 << 40),
            ("store.dead_letters_max", u64::from(self.store.dead_letters_max), 0, 1_000_000),
            ("store.dead_letter_bytes_max", self.store.dead_letter_bytes_max, 64 << 10, 16 << 40),
            ("store.sync_interval_ms", u64::from(self.store.sync_interval_ms), 0, 10_000),
            ("store.answer_within_ms", u64::from(self.store.answer_within_ms), 100, 600_000),
            ("channel.memory_budget_bytes", self.channel.memory_budget_bytes, 64 << 10, 1 << 40),
        ] {
            in_range(key, value, min, max)?;
        }
        self.check_channels()?;
        self.lanes.check_timing()?;
        self.dds.check()?;
        links::check(&self.links, &self.link)?;
        link_zenoh::check(self)?;
        federation::check(self)?;
        self.tls.check(self)?;
        self.standby.check(self)?;
        self.check_access()?;
        self.tempo_group()?;
        self.tempo_types().map(|_| ())
    }

    fn check_channels(&self) -> Result<(), ConfigError> {
        let mut entries = BTreeMap::new();
        for (entry, channel) in (1..).zip(&self.channels) {
            let DeclaredChannel { name, .. } = channel;
            channel.timer_settings().map_err(|why| ConfigError::Timers { channel: name.clone(), why })?;
            if let Some(first) = entries.insert(name, entry) {
                return Err(ConfigError::SameChannel { name: name.clone(), entries: (first, entry) });
            }
        }
        Ok(())
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
            dead_letters: DeadLetterLimits {
                events_max: self.store.dead_letters_max.into(),
                bytes_max: self.store.dead_letter_bytes_max,
            },
        }
    }

    /// How long a message may take to arrive whole.
    pub(crate) fn message_completion(&self) -> Duration {
        Duration::from_millis(u64::from(self.limits.message_completion_ms))
    }

    /// What one connection may have of a lane's round.
    pub(crate) fn connection_budget(&self) -> Budget {
        Budget::of_connection(self.limits.round_messages, Duration::from_micros(u64::from(self.limits.round_us)))
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
            let keys_of = |(key, value)| toml::Value::as_table(value).map_or(vec![key], |t| t.keys().collect());
            for key in value.as_table().map_or(vec![section], |t| t.iter().flat_map(keys_of).collect()) {
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
            "links_listen",
            "to",
            "channels",
            "direction",
            "where",
            "when_full",
            "carrier",
            "key_file",
            "tls",
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
            "address",
            "name",
            "every",
            "after",
            "silence",
        ] {
            assert!(text.contains(&format!("# {key} =")), "config/campanile.toml lacks {key}");
        }
    }

    /// The second of two entries of a name was taken for a change of the first, and nothing reported which properties counted.
    #[test]
    fn two_channels_of_one_name_are_refused_with_both_entries() {
        let text = "[[channels]]\nname = \"A\"\n[[channels]]\nname = \"Plant\"\n[[channels]]\nname = \"plant\"\n[[channels]]\nname = \"Plant\"";
        let config: Config = toml::from_str(text).unwrap();
        let refused = config.check().unwrap_err();
        assert!(matches!(&refused, ConfigError::SameChannel { name, entries: (2, 4) } if name == "Plant"), "{refused}");
        assert!(refused.to_string().contains("entries 2 and 4 are both named \"Plant\""), "{refused}");
        let config = Config { channels: config.channels[..3].to_vec(), ..config };
        config.check().unwrap();
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
