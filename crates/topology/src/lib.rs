//! Everything that clients and files have configured of a service, to outlive its process if stored: channels, admins
//! and proxies with their settings, event types, filters and clients, and the naming service. Plain data, written as
//! JSON.
//!
//! Events, counters and charges to accounts are not included.
//!
//! Everything is in a fixed order, by rising number, so that equal values are equal texts. Numbers, and the random numbers in object keys,
//! are included, so that clients' references remain valid after a restore.

mod differences;
mod link;
mod naming;
mod nonce;
mod parts;
mod settings;

pub use self::differences::differences;
pub use self::link::Link;
pub use self::naming::{Binding, Bound, Context, Naming};
pub use self::parts::{Found, Image, ImageError, Numbers, OwnFilter, Part, written};
pub use self::settings::{
    Limits, Pool, PoolProperty, Profile, Settings, TopicSettings, Topics, TypeTopic, UnknownProperty,
};

use self::settings::is_false;
use core::fmt;
use engine::{Operator, Side};
use serde::{Deserialize, Serialize};

/// Version of the format of [`Topology`].
pub const VERSION: u32 = 1;

/// Configuration of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// [`VERSION`]; any other is refused.
    pub version: u32,
    /// Number of the next channel. Numbers are never used twice.
    pub next_channel: u32,
    /// Number of the next filter.
    pub next_filter: u32,
    /// Number of the next reconnection callback.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_registration: u32,
    /// Reconnection callbacks, by rising number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registrations: Vec<Callback>,
    /// Channels, by rising number.
    pub channels: Vec<Channel>,
    /// Links to other services that operators have added, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// The naming service.
    pub naming: Naming,
}

/// A channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// Number of the channel.
    pub id: u32,
    /// Name from its creator or the configuration; omitted if neither set one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Former name, which a declared channel has taken over. Rules of access use it for this channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_name: Option<String>,
    /// Whether the configuration declares it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub declared: bool,
    /// Random number in its own key and those of its default admins and its filter factory; 0 for the default channel.
    #[serde(with = "nonce")]
    pub nonce: u128,
    /// Seed of the numbers in the keys of its other admins, its proxies and its filters; if it has only 32 bits, as
    /// all had once, it is that number itself.
    #[serde(with = "nonce")]
    pub objects_nonce: u128,
    /// Objects created when keys had 32 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<Former>,
    /// Profile of the channel.
    pub profile: Profile,
    /// Limits of the channel.
    pub limits: Limits,
    /// Settings for its consumers and suppliers.
    pub settings: Settings,
    /// Topics of its events, with their shares of the lanes.
    pub topics: Topics,
    /// Number of the next admin.
    pub next_admin: u32,
    /// Number of the next proxy.
    pub next_proxy: u32,
    /// Admins, consumers' first, of each side by rising number; the default admins, which always exist, have 0.
    pub admins: Vec<Admin>,
    /// Proxies, by rising number.
    pub proxies: Vec<Proxy>,
    /// Filters made by its filter factory, by rising number.
    pub filters: Vec<Filter>,
}

/// Objects of a channel created when the number in their keys had 32 bits and was the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Former {
    /// Number in their keys.
    pub nonce: u32,
    /// First number of an admin without this key.
    pub admins: u32,
    /// First number of a proxy without this key.
    pub proxies: u32,
    /// First number of a filter without this key.
    pub filters: u32,
}

/// An admin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// The side of the channel.
    pub side: Side,
    /// Number of the admin.
    pub id: u32,
    /// Name from its creator; omitted if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How its subscription and filters combine with those of its proxies.
    pub operator: Operator,
    /// Settings for its proxies.
    pub settings: Settings,
    /// Principal that created it; omitted for the default admins, and where unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Principal>,
    /// Subscription or offer, and filters.
    #[serde(flatten)]
    pub selection: Selection,
}

/// Subscription or offer, and filters, of an admin or a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Event types subscribed to or offered; omitted if never changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<EventType>>,
    /// Filters, in the order in which they were added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<Attached>,
    /// Number of the next filter to be attached.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_attached: u32,
    /// Number of the mapping filter for events' priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_filter: Option<u32>,
    /// Number of the mapping filter for events' lifetime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_filter: Option<u32>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// An event type, with wildcards as clients spelt them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventType {
    /// Its domain.
    pub domain: String,
    /// Its name.
    pub name: String,
}

/// A filter attached to an admin or a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attached {
    /// Number in its admin or proxy.
    pub id: u32,
    /// Reference to the filter.
    #[serde(flatten)]
    pub filter: FilterRef,
}

/// Reference to a filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterRef {
    /// A filter of this service, by its number.
    Filter(u32),
    /// A filter of another server, by its reference.
    Reference(String),
}

/// Form of a proxy's events, and its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Events {
    /// Anys, by the Notification Service's interface.
    Any,
    /// Structured events, by the Notification Service's interface.
    Structured,
    /// Sequences of structured events, by the Notification Service's interface.
    Sequence,
    /// Anys, by the Event Service's interface.
    Plain,
}

/// A proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    /// Number in its channel.
    pub id: u32,
    /// Name from its creator; omitted if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The side of the channel.
    pub side: Side,
    /// Number of its admin.
    pub admin: u32,
    /// Form of its events.
    pub events: Events,
    /// Whether events are pulled.
    pub pull: bool,
    /// Settings that the proxy sets itself.
    pub settings: Settings,
    /// `When`: the correlation of a consumer; omitted if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Subscription or offer, and filters.
    #[serde(flatten)]
    pub selection: Selection,
    /// Whether its client is not notified of changed offers or subscriptions.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub silenced: bool,
    /// Numbers of former proxies that it has replaced; their keys also find it. Omitted if none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<u32>,
    /// Principal that created it; omitted where unknown, and where a client is connected, to which it belongs then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Principal>,
    /// Name of a durable consumer of another protocol than CORBA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<Durable>,
    /// The connected client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
}

/// A durable consumer of another protocol than CORBA: it stays when its client leaves, and the client finds it by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Durable {
    /// Name, unique in its channel.
    pub name: String,
    /// Form that its protocol needs events translated to, as the engine numbers it.
    pub output_form: u32,
}

/// The client connected to a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Reference, `IOR:…`; omitted if the client gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Whether the connection is suspended.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub suspended: bool,
    /// Principal of the client, which determines its rights; omitted where unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Principal>,
}

/// Principal that created an object, or connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Principal {
    /// Address of the principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<core::net::IpAddr>,
    /// Certificate of the principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// Name of the token of the principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// The names in a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The subject.
    pub subject: String,
    /// The alternative names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternative_names: Vec<String>,
}

/// A filter or mapping filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Number; filters of all channels are numbered together.
    pub id: u32,
    /// Name of the grammar, as its creator wrote it.
    pub grammar: String,
    /// Role of the filter.
    #[serde(flatten)]
    pub role: Role,
    /// Number of the next constraint.
    pub next_constraint: i32,
    /// Constraints, by rising number.
    pub constraints: Vec<Constraint>,
    /// Principal that created it; omitted where unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Principal>,
}

/// Role of a filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A filter that decides which events pass.
    Decides {
        /// Number of the next callback.
        next_callback: u32,
        /// Callbacks for changes of its event types, by rising number.
        callbacks: Vec<Callback>,
    },
    /// A mapping filter, which gives events another priority or lifetime.
    Maps {
        /// Value for events that match no constraint.
        default: Value,
        /// Whether it was ever set as a mapping filter for priority.
        for_priority: bool,
        /// Its number as a mapping filter for lifetime, if it was ever set as one.
        for_lifetime: Option<u32>,
    },
}

/// A filter's callback, or one for the service's return.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Callback {
    /// Number at the filter or among the reconnection callbacks.
    pub id: u32,
    /// Reference of the callback object.
    pub reference: String,
    /// Seconds for which it could not be reached, as far as known; omitted if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreachable_s: u32,
}

/// A constraint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constraint {
    /// Number in the filter.
    pub id: i32,
    /// Event types of the constraint; empty for all.
    pub types: Vec<EventType>,
    /// Source text.
    pub expression: String,
    /// Of a mapping filter: value for events that match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// A CORBA `any`: in hexadecimal digits, as CDR of GIOP 1.2 with the least significant octet first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Value(pub String);

impl Value {
    /// A value of these octets.
    #[must_use]
    pub fn of(octets: &[u8]) -> Self {
        let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
        Self(octets.iter().flat_map(|octet| [digit(octet >> 4), digit(octet & 15)]).collect())
    }

    /// The octets; `None` if the text is not an even number of hexadecimal digits.
    #[must_use]
    pub fn octets(&self) -> Option<Vec<u8>> {
        let digits: Option<Vec<u8>> = self.0.chars().map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
        let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
        Some(digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |octet, digit| octet << 4 | digit)).collect())
    }
}

/// Error in the text of a topology.
#[derive(Debug)]
#[non_exhaustive]
pub enum ParseError {
    /// The text is not JSON, or not a topology.
    Form(serde_json::Error),
    /// The text has another version.
    Version(u32),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(error) => write!(f, "this is no topology: {error}"),
            Self::Version(version) => write!(f, "this topology is of version {version}; {VERSION} is known here"),
        }
    }
}

impl core::error::Error for ParseError {}

impl Topology {
    /// Formats the topology as indented JSON, always in the same order.
    #[must_use]
    pub fn to_json(&self) -> String {
        // The one thing that cannot be written is a map with keys that are not strings; there is none in it.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Parses the text of [`to_json`](Self::to_json).
    ///
    /// # Errors
    ///
    /// [`ParseError`].
    pub fn from_json(text: &str) -> Result<Self, ParseError> {
        let read: Self = serde_json::from_str(text).map_err(ParseError::Form)?;
        if read.version == VERSION { Ok(read) } else { Err(ParseError::Version(read.version)) }
    }
}

#[cfg(test)]
mod tests;
