//! Everything that clients and files have configured of a service, and that outlives its process if it is kept: channels, admins
//! and proxies with their settings, event types, filters and clients, and the naming service. Plain data, written as JSON.
//!
//! Events, counters and charges to accounts are not in it.
//!
//! Everything stands in a fixed order, by rising number, so that equal values are equal texts; numbers and the random numbers in object
//! keys are part of it, so that references to what is restored are the ones that clients have.

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

/// The form of [`Topology`] that this is.
pub const VERSION: u32 = 1;

/// What is configured of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// [`VERSION`]; another one is refused.
    pub version: u32,
    /// The number of the channel that is made next. Numbers are never used twice.
    pub next_channel: u32,
    /// The number of the filter that is made next.
    pub next_filter: u32,
    /// The number of the client that registers next for when the service is there again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_registration: u32,
    /// Reconnection callbacks, by rising number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registrations: Vec<Callback>,
    /// By rising number.
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
    /// Its number.
    pub id: u32,
    /// What its creator called it, or the configuration does; left out if neither did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name that it had until a channel that the configuration declares got it. Rules of access know it by this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_name: Option<String>,
    /// Whether the configuration has declared it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub declared: bool,
    /// In its own key and those of its default admins and its filter factory; 0 of the default channel.
    #[serde(with = "nonce")]
    pub nonce: u128,
    /// What the numbers in the keys of its other admins, its proxies and its filters are made of; where it has 32 bits, as all had once,
    /// it is that number itself.
    #[serde(with = "nonce")]
    pub objects_nonce: u128,
    /// Those that were made when keys had 32 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<Former>,
    /// What it promises.
    pub profile: Profile,
    /// Its limits.
    pub limits: Limits,
    /// What it says of its consumers' and suppliers' settings.
    pub settings: Settings,
    /// What its events may claim of their lanes.
    pub topics: Topics,
    /// The number of the admin that is made next.
    pub next_admin: u32,
    /// The number of the proxy that is made next.
    pub next_proxy: u32,
    /// Consumers' first, of each side by rising number; the default admins, which are always there, have 0.
    pub admins: Vec<Admin>,
    /// By rising number.
    pub proxies: Vec<Proxy>,
    /// Those made by its filter factory, by rising number.
    pub filters: Vec<Filter>,
}

/// The objects of a channel that were made when the number in their keys had 32 bits and was the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Former {
    /// The number in their keys.
    pub nonce: u32,
    /// Admins with smaller numbers have it.
    pub admins: u32,
    /// Proxies with smaller numbers have it.
    pub proxies: u32,
    /// Filters with smaller numbers have it.
    pub filters: u32,
}

/// An admin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// Its side.
    pub side: Side,
    /// Its number.
    pub id: u32,
    /// What its creator called it; left out if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How it combines with its proxies.
    pub operator: Operator,
    /// What it says of its proxies' settings.
    pub settings: Settings,
    /// Principal that made it; left out of the default admins, and where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Principal>,
    /// What its proxies subscribe to or offer, and its filters.
    #[serde(flatten)]
    pub selection: Selection,
}

/// What an admin or a proxy lets pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// The event types subscribed to or offered; left out if none was ever named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<EventType>>,
    /// Its filters, in the order in which they were added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<Attached>,
    /// The number of the filter that is added next.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_attached: u32,
    /// The mapping filter that says its events' priority, by its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_filter: Option<u32>,
    /// The same for their lifetime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_filter: Option<u32>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// An event type, with wildcards as they were sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventType {
    /// Its domain.
    pub domain: String,
    /// Its name.
    pub name: String,
}

/// A filter that an admin or a proxy has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attached {
    /// Its number there.
    pub id: u32,
    /// Which it is.
    #[serde(flatten)]
    pub filter: FilterRef,
}

/// Which filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterRef {
    /// One made here, by its number.
    Filter(u32),
    /// Another server's, by its reference.
    Reference(String),
}

/// What kind of events a proxy takes or gives, and by which interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Events {
    /// The Notification Service's, for Anys.
    Any,
    /// The Notification Service's, for structured events.
    Structured,
    /// The Notification Service's, for sequences of structured events.
    Sequence,
    /// The Event Service's, for Anys.
    Plain,
}

/// A proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    /// Its number in its channel.
    pub id: u32,
    /// What its creator called it; left out if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its side.
    pub side: Side,
    /// Its admin.
    pub admin: u32,
    /// What it takes or gives.
    pub events: Events,
    /// Whether events are pulled.
    pub pull: bool,
    /// What it says of its own settings.
    pub settings: Settings,
    /// What it subscribes to or offers, and its filters.
    #[serde(flatten)]
    pub selection: Selection,
    /// Whether its client gets no changes of offers or subscriptions.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub silenced: bool,
    /// The numbers of proxies that it has taken the place of; their keys find it, too. Left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<u32>,
    /// Principal that made it; left out where that is not known, and where a client is connected: it is its client's then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Principal>,
    /// Of a durable consumer of another protocol than CORBA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<Durable>,
    /// The connected client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
}

/// A durable consumer of another protocol than CORBA: it stays when its client goes, and its client finds it by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Durable {
    /// Its name, unique in its channel.
    pub name: String,
    /// What its protocol needs events translated to, as the engine numbers it.
    pub output_form: u32,
}

/// The client connected to a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Its reference, `IOR:…`; left out if it gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Whether the connection is suspended.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub suspended: bool,
    /// Principal that it belongs to, by which its rights are decided; left out where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Principal>,
}

/// The principal that made something, or connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Principal {
    /// From which address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<core::net::IpAddr>,
    /// With which certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// With the token of which name.
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
    /// Its number; all channels' filters are numbered together.
    pub id: u32,
    /// The grammar's name, as its creator wrote it.
    pub grammar: String,
    /// What it is for.
    #[serde(flatten)]
    pub role: Role,
    /// The number of the constraint that is added next.
    pub next_constraint: i32,
    /// By rising number.
    pub constraints: Vec<Constraint>,
    /// Principal that made it; left out where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Principal>,
}

/// What a filter is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It says which events pass.
    Decides {
        /// The number of the callback that is attached next.
        next_callback: u32,
        /// Callbacks for changes of its event types, by rising number.
        callbacks: Vec<Callback>,
    },
    /// It gives events another priority or lifetime.
    Maps {
        /// What events get that match no constraint.
        default: Value,
        /// Whether it was ever set as a filter of priorities.
        for_priority: bool,
        /// The number under which it is a filter of lifetimes, if it was ever set as one.
        for_lifetime: Option<u32>,
    },
}

/// A filter's callback, or one for when the service is there again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Callback {
    /// Its number, at the filter or among those that registered.
    pub id: u32,
    /// Its reference.
    pub reference: String,
    /// For how long it could not be reached, as far as that was found out; left out if it is 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreachable_s: u32,
}

/// A constraint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constraint {
    /// Its number in the filter.
    pub id: i32,
    /// The event types that it is for; none for all.
    pub types: Vec<EventType>,
    /// As it was written.
    pub expression: String,
    /// Of a mapping filter: what an event that matches gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// A CORBA `any`: in hexadecimal digits, as CDR of GIOP 1.2 with the least significant octet first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Value(pub String);

impl Value {
    /// The value of these octets.
    #[must_use]
    pub fn of(octets: &[u8]) -> Self {
        let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
        Self(octets.iter().flat_map(|octet| [digit(octet >> 4), digit(octet & 15)]).collect())
    }

    /// Its octets; `None` if it is not an even number of hexadecimal digits.
    #[must_use]
    pub fn octets(&self) -> Option<Vec<u8>> {
        let digits: Option<Vec<u8>> = self.0.chars().map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
        let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
        Some(digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |octet, digit| octet << 4 | digit)).collect())
    }
}

/// Why a text is no topology.
#[derive(Debug)]
#[non_exhaustive]
pub enum ParseError {
    /// It is no JSON, or not that of a topology.
    Form(serde_json::Error),
    /// It is of another version.
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
    /// Written as JSON, indented, of the same order every time.
    #[must_use]
    pub fn to_json(&self) -> String {
        // The one thing that cannot be written is a map with keys that are not strings; there is none in it.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
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
