//! A topology in parts, each stored under a key of its own, so that only changed parts are written.

use super::{Admin, Binding, Callback, Channel, Context, Filter, Link, Naming, Proxy, Topology, VERSION};
use engine::Side;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Identifies a part of a topology.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// [`Numbers`].
    Numbers,
    /// A [`Channel`] without its admins, proxies and filters.
    Channel(u32),
    /// An [`Admin`].
    Admin {
        /// Number of its channel.
        channel: u32,
        /// Whether it is a suppliers' admin.
        of_suppliers: bool,
        /// Number of the admin.
        id: u32,
    },
    /// A [`Proxy`].
    Proxy {
        /// Number of its channel.
        channel: u32,
        /// Number of the proxy.
        id: u32,
    },
    /// A filter by its number, with its channel.
    Filter(u32),
    /// An added [`Link`], by its name.
    Link(String),
    /// A naming context without its bindings.
    Context(u32),
    /// A [`Binding`].
    Binding {
        /// Number of its context.
        context: u32,
        /// Identifier of the name.
        name: String,
        /// Kind of the name.
        kind: String,
    },
    /// A [`Callback`] for the service's return.
    Registration(u32),
}

/// Numbers and other fields that belong to no other part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// [`VERSION`].
    pub version: u32,
    /// [`Topology::next_channel`].
    pub next_channel: u32,
    /// [`Topology::next_filter`].
    pub next_filter: u32,
    /// [`Naming::nonce`].
    #[serde(with = "crate::nonce")]
    pub naming_nonce: u128,
    /// [`Naming::next_context`].
    pub next_context: u32,
    /// [`Topology::next_registration`].
    #[serde(default)]
    pub next_registration: u32,
}

/// A filter, and the channel that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnFilter {
    /// Number of the channel.
    pub channel: u32,
    /// The filter.
    #[serde(flatten)]
    pub filter: Filter,
}

/// A topology's parts as stored: the value of each by its key.
pub type Image = BTreeMap<Vec<u8>, Vec<u8>>;

/// Error in an image of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageError {
    /// The numbers are missing although there are other parts.
    NoNumbers,
    /// The image has another version.
    Version(u32),
    /// A part cannot be parsed.
    Part {
        /// Key of the part.
        key: Vec<u8>,
        /// Why it cannot be parsed.
        why: String,
    },
}

impl core::fmt::Display for ImageError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoNumbers => write!(f, "the part that says which numbers were given out is missing"),
            Self::Version(version) => write!(f, "it is of version {version}; {VERSION} is known here"),
            Self::Part { key, why } => write!(f, "the part {} cannot be read: {why}", key.escape_ascii()),
        }
    }
}

impl core::error::Error for ImageError {}

impl Part {
    /// The key of the part in an image. Keys sort as parts do.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        let (kind, numbers): (u8, Vec<u32>) = match self {
            Self::Numbers => (b'0', vec![]),
            Self::Channel(id) => (b'c', vec![*id]),
            Self::Admin { channel, of_suppliers, id } => (b'd', vec![*channel, (*of_suppliers).into(), *id]),
            Self::Proxy { channel, id } => (b'e', vec![*channel, *id]),
            Self::Filter(id) => (b'f', vec![*id]),
            Self::Link(_) => (b'l', vec![]),
            Self::Context(id) => (b'm', vec![*id]),
            Self::Binding { context, .. } => (b'n', vec![*context]),
            Self::Registration(id) => (b'r', vec![*id]),
        };
        let mut key = vec![kind];
        numbers.iter().for_each(|number| key.extend(number.to_be_bytes()));
        if let Self::Link(name) = self {
            key.extend(name.as_bytes());
        }
        if let Self::Binding { name, kind, .. } = self {
            // A name may be anything, so its end is said by its length, behind all else.
            key.extend(name.as_bytes());
            key.extend(kind.as_bytes());
            key.extend(u32::try_from(kind.len()).unwrap_or(u32::MAX).to_be_bytes());
        }
        key
    }

    /// The part with this key.
    #[must_use]
    pub fn of_key(key: &[u8]) -> Option<Self> {
        let (kind, rest) = key.split_first()?;
        let numbers = || {
            let (numbers, rest) = rest.as_chunks::<4>();
            rest.is_empty().then(|| numbers.iter().map(|number| u32::from_be_bytes(*number)).collect::<Vec<u32>>())
        };
        match (kind, numbers().as_deref()) {
            (b'0', Some([])) => Some(Self::Numbers),
            (b'c', Some([id])) => Some(Self::Channel(*id)),
            (b'd', Some([channel, side @ (0 | 1), id])) => {
                Some(Self::Admin { channel: *channel, of_suppliers: *side == 1, id: *id })
            }
            (b'e', Some([channel, id])) => Some(Self::Proxy { channel: *channel, id: *id }),
            (b'f', Some([id])) => Some(Self::Filter(*id)),
            (b'm', Some([id])) => Some(Self::Context(*id)),
            (b'r', Some([id])) => Some(Self::Registration(*id)),
            (b'l', _) => Some(Self::Link(String::from_utf8(rest.to_vec()).ok()?)),
            (b'n', _) => {
                let (context, rest) = rest.split_first_chunk::<4>()?;
                let (texts, length) = rest.split_last_chunk::<4>()?;
                let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
                let (name, kind) = texts.split_at_checked(texts.len().checked_sub(length)?)?;
                let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).ok();
                Some(Self::Binding { context: u32::from_be_bytes(*context), name: text(name)?, kind: text(kind)? })
            }
            _ => None,
        }
    }

    /// The part of an admin.
    #[must_use]
    pub const fn of_admin(channel: u32, side: Side, id: u32) -> Self {
        Self::Admin { channel, of_suppliers: matches!(side, Side::Suppliers), id }
    }
}

/// The stored form of a part's value.
#[must_use]
pub fn written<T: Serialize>(value: &T) -> Vec<u8> {
    // The one thing that cannot be written is a map with keys that are not strings; there is none in it.
    serde_json::to_vec(value).unwrap_or_default()
}

fn read<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<T, ImageError> {
    serde_json::from_slice(value).map_err(|error| ImageError::Part { key: key.to_vec(), why: error.to_string() })
}

/// Parses a value and adds it to a list, in its place.
fn push<T: DeserializeOwned>(list: &mut Vec<T>, key: &[u8], value: &[u8]) -> Result<bool, ImageError> {
    list.push(read(key, value)?);
    Ok(true)
}

/// Result of reading an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The topology; `None` for an empty image.
    pub topology: Option<Topology>,
    /// Keys of parts whose parent is gone, which can be removed.
    pub strays: Vec<Vec<u8>>,
}

impl Topology {
    /// The topology as an image.
    #[must_use]
    pub fn image(&self) -> Image {
        let mut image = Image::new();
        let mut put = |part: Part, value: Vec<u8>| _ = image.insert(part.key(), value);
        let Self { version, next_channel, next_filter, next_registration, registrations, channels, links, naming } =
            self;
        let numbers = Numbers {
            version: *version,
            next_channel: *next_channel,
            next_filter: *next_filter,
            naming_nonce: naming.nonce,
            next_context: naming.next_context,
            next_registration: *next_registration,
        };
        put(Part::Numbers, written(&numbers));
        for channel in channels {
            let id = channel.id;
            channel.admins.iter().for_each(|admin| put(Part::of_admin(id, admin.side, admin.id), written(admin)));
            channel.proxies.iter().for_each(|proxy| put(Part::Proxy { channel: id, id: proxy.id }, written(proxy)));
            for filter in &channel.filters {
                let own = OwnFilter { channel: id, filter: filter.clone() };
                put(Part::Filter(filter.id), written(&own));
            }
            put(Part::Channel(id), written(&channel.alone()));
        }
        for link in links {
            put(Part::Link(link.name.clone()), written(link));
        }
        for registration in registrations {
            put(Part::Registration(registration.id), written(registration));
        }
        for context in &naming.contexts {
            put(Part::Context(context.id), b"{}".to_vec());
            for binding in &context.bindings {
                put(binding.part(context.id), written(binding));
            }
        }
        image
    }

    /// Reads a topology from its parts.
    ///
    /// Parts of a channel, an admin or a context that does not exist are left out: when one is removed, its parts are
    /// removed after it.
    ///
    /// # Errors
    ///
    /// [`ImageError`].
    pub fn of_image(image: &Image) -> Result<Found, ImageError> {
        if image.is_empty() {
            return Ok(Found { topology: None, strays: Vec::new() });
        }
        let numbers = image.get(&Part::Numbers.key()).ok_or(ImageError::NoNumbers)?;
        let numbers: Numbers = read(&Part::Numbers.key(), numbers)?;
        if numbers.version != VERSION {
            return Err(ImageError::Version(numbers.version));
        }
        let mut channels: BTreeMap<u32, Channel> = BTreeMap::new();
        let mut contexts: BTreeMap<u32, Context> = BTreeMap::new();
        let mut registrations: Vec<Callback> = Vec::new();
        let mut links: Vec<Link> = Vec::new();
        let mut strays = Vec::new();
        // Sorted as they are, what something belongs to comes before it.
        for (key, value) in image {
            let part = Part::of_key(key)
                .ok_or_else(|| ImageError::Part { key: key.clone(), why: "there is no such part".into() })?;
            let has_place = match part {
                Part::Numbers => true,
                Part::Channel(id) => {
                    channels.insert(id, read(key, value)?);
                    true
                }
                Part::Admin { channel, .. } => match channels.get_mut(&channel) {
                    Some(channel) => push(&mut channel.admins, key, value)?,
                    None => false,
                },
                Part::Proxy { channel, .. } => {
                    let proxy: Proxy = read(key, value)?;
                    let is_its = |admin: &&Admin| (admin.side, admin.id) == (proxy.side, proxy.admin);
                    let found = channels.get_mut(&channel).filter(|found| found.admins.iter().any(|a| is_its(&a)));
                    found.map(|found| found.proxies.push(proxy)).is_some()
                }
                Part::Filter(_) => {
                    let OwnFilter { channel, filter } = read(key, value)?;
                    channels.get_mut(&channel).map(|channel| channel.filters.push(filter)).is_some()
                }
                Part::Registration(_) => push(&mut registrations, key, value)?,
                Part::Link(_) => push(&mut links, key, value)?,
                Part::Context(id) => {
                    contexts.insert(id, Context { id, bindings: Vec::new() });
                    true
                }
                Part::Binding { context, .. } => match contexts.get_mut(&context) {
                    Some(context) => push(&mut context.bindings, key, value)?,
                    None => false,
                },
            };
            if !has_place {
                strays.push(key.clone());
            }
        }
        // By identifier and kind, and not by the two in one.
        for context in contexts.values_mut() {
            context.bindings.sort_by(|one, other| (&one.name, &one.kind).cmp(&(&other.name, &other.kind)));
        }
        let Numbers { version, next_channel, next_filter, naming_nonce, next_context, next_registration } = numbers;
        let naming = Naming { nonce: naming_nonce, next_context, contexts: contexts.into_values().collect() };
        let channels = channels.into_values().collect();
        let topology = Some(Self {
            version,
            next_channel,
            next_filter,
            next_registration,
            registrations,
            channels,
            links,
            naming,
        });
        Ok(Found { topology, strays })
    }
}

impl Channel {
    /// The channel without its admins, proxies and filters.
    fn alone(&self) -> Self {
        Self { admins: Vec::new(), proxies: Vec::new(), filters: Vec::new(), ..self.clone() }
    }
}

impl Binding {
    /// The part of a binding in a context.
    #[must_use]
    pub fn part(&self, context: u32) -> Part {
        Part::Binding { context, name: self.name.clone(), kind: self.kind.clone() }
    }
}
