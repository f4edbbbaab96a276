//! Why a configuration cannot be used, and what to write instead.

use core::fmt;
use std::io;

pub use crate::protocols::tempo::types::{Undeclarable, Unfit};
pub use idl::IdlError;
use std::path::PathBuf;

/// Why a configuration cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// The file is not TOML, or has a key that does not exist or a value of the wrong type.
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, column and reason.
        error: toml::de::Error,
    },
    /// A value lies outside its range.
    OutOfRange {
        /// The key, as in the file.
        key: &'static str,
        /// The value found.
        value: u64,
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// The type of a topic of Tempo cannot be declared.
    BadType {
        /// The topic.
        topic: String,
        /// The number of its channel.
        channel: u32,
        /// What is the matter.
        why: Undeclarable,
    },
    /// Two entries of `[[channels]]` have the same name.
    SameChannel {
        /// The name.
        name: String,
        /// Which entries, the first of the file being 1.
        entries: (usize, usize),
    },
    /// A channel cannot have timers as they are written.
    Timers {
        /// The channel.
        channel: String,
        /// Why, and what to write.
        why: String,
    },
    /// A channel cannot be joined to DDS.
    BadJoin {
        /// The channel.
        channel: String,
        /// What is the matter.
        why: String,
    },
    /// A link makes no sense.
    Link {
        /// Its name.
        name: String,
        /// Why, and what to write.
        why: String,
    },
    /// A setting of `[links.datagrams]` has a value that cannot be used.
    Datagrams {
        /// Its key.
        key: &'static str,
        /// Why, and what to write.
        why: String,
    },
    /// A setting of `[links.zenoh]` has a value that cannot be used.
    Zenoh {
        /// Its key.
        key: &'static str,
        /// Why, and what to write.
        why: String,
    },
    /// What `[federation]` says does not go together.
    Federation {
        /// Why, and what to write.
        why: String,
    },
    /// What `[standby]` says does not go together.
    Standby {
        /// Why, and what to write.
        why: String,
    },
    /// What `[tls]` says does not go together.
    Tls {
        /// Why, and what to write.
        why: &'static str,
    },
    /// The main lane has a budget and no period.
    BudgetWithoutPeriod {
        /// The budget, in microseconds.
        budget_us: u32,
    },
    /// Lanes of one priority are to have two periods.
    TimedTwice {
        /// The priority.
        priority: u16,
    },
    /// A rule of access makes no sense.
    BadAccess(access::BadRule),
    /// A token makes no sense.
    BadToken {
        /// Which, and why.
        why: String,
    },
    /// What `outgoing.allow` has is no address.
    BadOutgoing {
        /// The value found.
        value: String,
    },
    /// What `http.origins` has is no origin of a page.
    BadOrigin {
        /// The value found.
        value: String,
    },
    /// An entry of `client` names no clients, or has a name that is none.
    BadClient {
        /// The entry, counted from 1.
        entry: usize,
        /// What is wrong.
        why: String,
    },
    /// The group for Tempo is not `ADDRESS:PORT` of one.
    BadGroup {
        /// The value found.
        value: String,
    },
    /// There is a group for Tempo, and no address from which the service answers.
    GroupAlone,
    /// An address is not `HOST:PORT`.
    BadAddress {
        /// The key, as in the file.
        key: &'static str,
        /// The value found.
        value: String,
    },
    /// The host that the service is to listen at has no address that can be found.
    UnknownHost {
        /// What was configured.
        listen: String,
        /// What the operating system says.
        error: io::Error,
    },
    /// The service would listen on every interface, and no address is configured that clients are to use.
    NothingToAdvertise {
        /// The listening address.
        listen: String,
    },
    /// HTTP would be served to other hosts, and there is neither a token nor a rule of access.
    HttpWithoutToken {
        /// The setting.
        key: &'static str,
        /// The listening address.
        listen: std::net::SocketAddr,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, error } => write!(f, "cannot read the configuration {}: {error}", path.display()),
            Self::Malformed { path, error } => write!(f, "configuration {}: {error}", path.display()),
            Self::OutOfRange { key, value, min, max } => {
                write!(f, "{key} = {value} is out of range: it must be from {min} to {max}")
            }
            Self::BadType { topic, channel, why } => {
                write!(f, "tempo.types: topic \"{}\" of channel {channel}: {why}", topic.escape_debug())
            }
            Self::SameChannel { name, entries: (first, second) } => write!(
                f,
                "[[channels]]: entries {first} and {second} are both named {name:?}, and one name is one channel: give one of them another \
                 name, or write the properties of both into one"
            ),
            Self::Timers { channel, why } => write!(f, "[[channels]] {channel:?}: {why}"),
            Self::BadJoin { channel, why } => write!(f, "dds.joins, channel = {channel:?}: {why}"),
            Self::Link { name, why } => write!(f, "[[link]] {name:?}: {why}"),
            Self::Datagrams { key, why } => write!(f, "links.datagrams.{key}: {why}"),
            Self::Zenoh { key, why } => write!(f, "links.zenoh.{key}: {why}"),
            Self::Federation { why } => write!(f, "[federation]: {why}"),
            Self::Standby { why } => write!(f, "[standby]: {why}"),
            Self::Tls { why } => f.write_str(why),
            Self::BudgetWithoutPeriod { budget_us } => write!(
                f,
                "lanes.main_budget_us = {budget_us} has no meaning without lanes.main_period_us: set that, from 100 to 1000000, or \
                 leave it out"
            ),
            Self::TimedTwice { priority } => {
                write!(f, "lanes.time_driven has priority {priority} twice: lanes of one priority have one period")
            }
            Self::BadAccess(error) => error.fmt(f),
            Self::BadToken { why } => write!(f, "tokens: {why}"),
            Self::BadOutgoing { value } => {
                write!(f, "outgoing.allow: \"{value}\" is no address and no range of addresses such as \"10.0.0.0/8\"")
            }
            Self::BadOrigin { value } => write!(
                f,
                "http.origins: \"{value}\" is no origin such as \"https://dashboard.example\" or \"http://10.0.0.7:8080\": a scheme, a host, \
                 its port if that is not the scheme's own, and nothing behind"
            ),
            Self::BadClient { entry, why } => write!(f, "client: entry {entry}: {why}"),
            Self::BadGroup { value } => write!(
                f,
                "tempo.group = \"{value}\" is no multicast or broadcast address with a port; write, for example, 239.1.2.3:2811"
            ),
            Self::GroupAlone => f.write_str(
                "tempo.group needs tempo.listen, from where the service answers the end points that it hears there",
            ),
            Self::BadAddress { key, value } => {
                write!(f, "{key} = \"{value}\" is not an address; write HOST:PORT, for example 127.0.0.1:2809")
            }
            Self::UnknownHost { listen, error } => write!(
                f,
                "cannot listen on {listen}: no address is found for that host ({error}); write an address of this host, for \
                 example --listen 127.0.0.1:2809, or a name that /etc/hosts or the name server has"
            ),
            Self::HttpWithoutToken { key, listen } => write!(
                f,
                "{key} = \"{listen}\" can be reached from other hosts, which get nothing without a token: name its file (http.token_file), \
                 write rules of access ([[access]]), or listen on a loopback address"
            ),
            Self::NothingToAdvertise { listen } => write!(
                f,
                "listening on {listen} needs an address that clients can reach: add --advertise HOST (or `advertise` in \
                 the configuration), for example --advertise 192.0.2.10"
            ),
        }
    }
}

impl std::error::Error for ConfigError {}
