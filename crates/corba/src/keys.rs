//! Object keys: the names of objects in requests.
//!
//! A key is ASCII, so that it can be typed into a `corbaloc` URL and read in a log. The objects that every service has are found under the
//! usual names of CORBA clients; every other key is a word, a slash and hexadecimal numbers of fixed width:
//!
//! ```text
//! NotificationService | NotifyEventChannelFactory        the event channel factory
//! DefaultEventChannel | EventService                     the default channel, number 0
//! NameService                                            the root naming context
//! SchedulingService                                      the scheduling analysis
//! TAO_MonitorAndControl                                  TAO's monitor and control object
//! EventChannelFactory | omniEvents                       the factory of plain event channels by name
//! Channel/cccccccc.nnnnnnnn                              a channel
//! ConsumerAdmin/cccccccc.nnnnnnnn.aaaaaaaa               a consumer admin of a channel
//! SupplierAdmin/cccccccc.nnnnnnnn.aaaaaaaa               a supplier admin of a channel
//! Proxy/cccccccc.nnnnnnnn.pppppppp                       a proxy of a channel
//! FilterFactory/cccccccc.nnnnnnnn                        the filter factory of a channel
//! Filter/cccccccc.nnnnnnnn.ffffffff                      a filter of a channel's factory
//! MappingFilter/cccccccc.nnnnnnnn.ffffffff               a mapping filter of a channel's factory
//! NamingContext/iiiiiiii.nnnnnnnn                        a naming context other than the root
//! BindingIterator/iiiiiiii.nnnnnnnn                      an iterator over a naming context
//! ```
//!
//! The numbers `n` have 128 bits. They prevent a reference that outlived a restart from reaching another object with the same number, and
//! clients from guessing the keys of others' objects. The number of a channel, its default admins and its filter factory is drawn from the
//! operating system's generator when the channel is made; those of its other admins, its proxies and its filters are derived from a second
//! number drawn then, which never leaves the service, so that the key of one object reveals nothing of another's (`protocol/nonces.rs`).
//! `n` is written with 32 digits. In earlier versions it had 32 bits, eight digits, and was the same for all objects of a channel: objects
//! stored then have their old keys. The objects that every service has (the factory, the root naming context, the default channel, its two
//! default admins and its filter factory) have 0 there, in eight digits, so that their references survive a restart.
//!
//! Parsing borrows and allocates nothing, since a lane does it for each request. One object has one key: upper case
//! digits, other separators and missing zeros are not accepted.

use engine::{AdminId, ChannelId, FilterId, ProxyId, Side};

/// The object named by a key. The protocol decides whether it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKey {
    /// The event channel factory.
    Factory,
    /// A channel.
    Channel {
        /// Its number.
        channel: ChannelId,
        /// Drawn when the channel was made; 0 for the default channel.
        nonce: u128,
    },
    /// A consumer admin or a supplier admin.
    Admin {
        /// Its channel.
        channel: ChannelId,
        /// The channel's number for default admins, and 0 for those of the default channel; else the admin's own, derived from a random
        /// number of its channel.
        nonce: u128,
        /// Whether consumers or suppliers connect through it.
        side: Side,
        /// Its number among the admins of that side.
        admin: AdminId,
    },
    /// A proxy of any kind.
    Proxy {
        /// Its channel.
        channel: ChannelId,
        /// The proxy's own, derived from a random number of its channel.
        nonce: u128,
        /// Its number in its channel.
        proxy: ProxyId,
    },
    /// The factory of a channel's filters.
    FilterFactory {
        /// Its channel.
        channel: ChannelId,
        /// Drawn when the channel was made; 0 for the default channel.
        nonce: u128,
    },
    /// A filter that decides which events pass.
    Filter {
        /// The channel of its factory.
        channel: ChannelId,
        /// The filter's own, derived from a random number of its channel.
        nonce: u128,
        /// Its number.
        filter: FilterId,
    },
    /// A filter that gives events another priority or lifetime.
    MappingFilter {
        /// The channel of its factory.
        channel: ChannelId,
        /// The filter's own, derived from a random number of its channel.
        nonce: u128,
        /// Its number.
        filter: FilterId,
    },
    /// The scheduling analysis.
    SchedulingService,
    /// The factory that makes event channels by name (`CosLifeCycle::GenericFactory`).
    GenericFactory,
    /// TAO's monitor and control object.
    MonitorControl,
    /// A naming context.
    NamingContext {
        /// Its number; 0 is the root.
        id: u32,
        /// Drawn when the service started; 0 for the root.
        nonce: u128,
    },
    /// An iterator over the bindings of a naming context.
    BindingIterator {
        /// Its number.
        id: u32,
        /// Drawn when the service started.
        nonce: u128,
    },
}

/// Bootstrap key and canonical key of the factory.
pub const FACTORY: &str = "NotificationService";
/// The other bootstrap key of the factory, the one that TAO's clients use.
pub const FACTORY_TAO: &str = "NotifyEventChannelFactory";
/// Bootstrap key and canonical key of the default channel.
pub const DEFAULT_CHANNEL: &str = "DefaultEventChannel";
/// The other bootstrap key of the default channel, that of a plain Event Service.
pub const EVENT_SERVICE: &str = "EventService";
/// Bootstrap key and canonical key of the root naming context.
pub const NAME_SERVICE: &str = "NameService";
/// Bootstrap key of the scheduling analysis.
pub const SCHEDULING_SERVICE: &str = "SchedulingService";

/// Bootstrap key of TAO's monitor and control object.
pub const MONITOR_CONTROL: &str = "TAO_MonitorAndControl";
/// Bootstrap key and canonical key of the factory of plain event channels.
pub const GENERIC_FACTORY: &str = "EventChannelFactory";
/// The channel factory's other bootstrap key, that of omniEvents.
pub const OMNI_EVENTS: &str = "omniEvents";

const CHANNEL: &str = "Channel";
const CONSUMER_ADMIN: &str = "ConsumerAdmin";
const SUPPLIER_ADMIN: &str = "SupplierAdmin";
const PROXY: &str = "Proxy";
const FILTER_FACTORY: &str = "FilterFactory";
const FILTER: &str = "Filter";
const MAPPING_FILTER: &str = "MappingFilter";
const NAMING_CONTEXT: &str = "NamingContext";
const BINDING_ITERATOR: &str = "BindingIterator";

impl ObjectKey {
    /// The default channel.
    pub const DEFAULT_CHANNEL: Self = Self::Channel { channel: ChannelId(0), nonce: 0 };
    /// The root naming context.
    pub const ROOT_CONTEXT: Self = Self::NamingContext { id: 0, nonce: 0 };

    /// Parses a key. `None` for bytes that are never a key of this service.
    #[must_use]
    pub fn parse(key: &[u8]) -> Option<Self> {
        let Some(slash) = key.iter().position(|&octet| octet == b'/') else {
            return Self::parse_bootstrap(key);
        };
        let (word, numbers) = key.split_at_checked(slash)?;
        let numbers = numbers.get(1..)?;
        match core::str::from_utf8(word).ok()? {
            PROXY => {
                let (channel, nonce, [proxy]) = hexadecimal(numbers)?;
                Some(Self::Proxy { channel: ChannelId(channel), nonce, proxy: ProxyId(proxy) })
            }
            CONSUMER_ADMIN => Self::parse_admin(numbers, Side::Consumers),
            SUPPLIER_ADMIN => Self::parse_admin(numbers, Side::Suppliers),
            CHANNEL => {
                let (channel, nonce, []) = hexadecimal(numbers)?;
                Some(Self::Channel { channel: ChannelId(channel), nonce }).filter(|key| *key != Self::DEFAULT_CHANNEL)
            }
            FILTER_FACTORY => {
                let (channel, nonce, []) = hexadecimal(numbers)?;
                Some(Self::FilterFactory { channel: ChannelId(channel), nonce })
            }
            FILTER => {
                let (channel, nonce, [filter]) = hexadecimal(numbers)?;
                Some(Self::Filter { channel: ChannelId(channel), nonce, filter: FilterId(filter) })
            }
            MAPPING_FILTER => {
                let (channel, nonce, [filter]) = hexadecimal(numbers)?;
                Some(Self::MappingFilter { channel: ChannelId(channel), nonce, filter: FilterId(filter) })
            }
            NAMING_CONTEXT => {
                let (id, nonce, []) = hexadecimal(numbers)?;
                Some(Self::NamingContext { id, nonce }).filter(|key| *key != Self::ROOT_CONTEXT)
            }
            BINDING_ITERATOR => {
                let (id, nonce, []) = hexadecimal(numbers)?;
                Some(Self::BindingIterator { id, nonce })
            }
            _ => None,
        }
    }

    fn parse_bootstrap(key: &[u8]) -> Option<Self> {
        match core::str::from_utf8(key).ok()? {
            FACTORY | FACTORY_TAO => Some(Self::Factory),
            DEFAULT_CHANNEL | EVENT_SERVICE => Some(Self::DEFAULT_CHANNEL),
            NAME_SERVICE => Some(Self::ROOT_CONTEXT),
            SCHEDULING_SERVICE => Some(Self::SchedulingService),
            MONITOR_CONTROL => Some(Self::MonitorControl),
            GENERIC_FACTORY | OMNI_EVENTS => Some(Self::GenericFactory),
            _ => None,
        }
    }

    fn parse_admin(numbers: &[u8], side: Side) -> Option<Self> {
        let (channel, nonce, [admin]) = hexadecimal(numbers)?;
        Some(Self::Admin { channel: ChannelId(channel), nonce, side, admin: AdminId(admin) })
    }

    /// Appends the key's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.to_string().as_bytes());
    }

    /// The key's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

impl core::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Factory => f.write_str(FACTORY),
            Self::DEFAULT_CHANNEL => f.write_str(DEFAULT_CHANNEL),
            Self::ROOT_CONTEXT => f.write_str(NAME_SERVICE),
            Self::SchedulingService => f.write_str(SCHEDULING_SERVICE),
            Self::GenericFactory => f.write_str(GENERIC_FACTORY),
            Self::MonitorControl => f.write_str(MONITOR_CONTROL),
            Self::Channel { channel, nonce } => write!(f, "{CHANNEL}/{:08x}.{}", channel.0, Nonce(nonce)),
            Self::Admin { channel, nonce, side, admin } => {
                let word = match side {
                    Side::Consumers => CONSUMER_ADMIN,
                    Side::Suppliers => SUPPLIER_ADMIN,
                };
                write!(f, "{word}/{:08x}.{}.{:08x}", channel.0, Nonce(nonce), admin.0)
            }
            Self::Proxy { channel, nonce, proxy } => {
                write!(f, "{PROXY}/{:08x}.{}.{:08x}", channel.0, Nonce(nonce), proxy.0)
            }
            Self::FilterFactory { channel, nonce } => write!(f, "{FILTER_FACTORY}/{:08x}.{}", channel.0, Nonce(nonce)),
            Self::Filter { channel, nonce, filter } => {
                write!(f, "{FILTER}/{:08x}.{}.{:08x}", channel.0, Nonce(nonce), filter.0)
            }
            Self::MappingFilter { channel, nonce, filter } => {
                write!(f, "{MAPPING_FILTER}/{:08x}.{}.{:08x}", channel.0, Nonce(nonce), filter.0)
            }
            Self::NamingContext { id, nonce } => write!(f, "{NAMING_CONTEXT}/{id:08x}.{}", Nonce(nonce)),
            Self::BindingIterator { id, nonce } => write!(f, "{BINDING_ITERATOR}/{id:08x}.{}", Nonce(nonce)),
        }
    }
}

/// Parses exactly a number of eight lower case hexadecimal digits, a nonce, and `N` further numbers of eight digits, separated by dots.
fn hexadecimal<const N: usize>(text: &[u8]) -> Option<(u32, u128, [u32; N])> {
    let (first, mut text) = eight(text)?;
    let nonce = text.strip_prefix(b".")?;
    let digits = nonce.iter().position(|&octet| octet == b'.').unwrap_or(nonce.len());
    let (nonce, rest) = nonce.split_at_checked(digits)?;
    text = rest;
    let nonce = match nonce.len() {
        8 => eight(nonce)?.0.into(),
        32 => {
            let words = nonce.as_chunks::<8>().0.iter().map(|digits| Some(eight(digits)?.0.into()));
            // Of a small one there is the short spelling.
            words.reduce(|high, low| Some(high? << 32 | low?)).flatten().filter(|nonce| *nonce > u32::MAX.into())?
        }
        _ => return None,
    };
    let mut numbers = [0; N];
    for number in &mut numbers {
        (*number, text) = eight(text.strip_prefix(b".")?)?;
    }
    text.is_empty().then_some((first, nonce, numbers))
}

/// Parses a number of eight lower case hexadecimal digits, and returns the rest.
fn eight(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_first_chunk::<8>()?;
    let mut number = 0;
    for &digit in digits {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        number = number << 4 | u32::from(value);
    }
    Some((number, rest))
}

/// A nonce as keys have it.
struct Nonce(u128);

impl core::fmt::Display for Nonce {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self(nonce) = self;
        if *nonce > u32::MAX.into() { write!(f, "{nonce:032x}") } else { write!(f, "{nonce:08x}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<ObjectKey> {
        let channel = ChannelId(0x1f);
        vec![
            ObjectKey::Factory,
            ObjectKey::DEFAULT_CHANNEL,
            ObjectKey::ROOT_CONTEXT,
            ObjectKey::SchedulingService,
            ObjectKey::GenericFactory,
            ObjectKey::MonitorControl,
            ObjectKey::Channel { channel, nonce: 0xdead_beef },
            ObjectKey::Channel { channel, nonce: 0x1_0000_0000 },
            ObjectKey::Proxy { channel, nonce: u128::MAX - 5, proxy: ProxyId(4) },
            ObjectKey::Filter { channel, nonce: 0x0123_4567_89ab_cdef << 60, filter: FilterId(1) },
            ObjectKey::Channel { channel, nonce: 0 },
            ObjectKey::Channel { channel: ChannelId(0), nonce: 1 },
            ObjectKey::Admin { channel, nonce: 7, side: Side::Consumers, admin: AdminId(u32::MAX) },
            ObjectKey::Admin { channel: ChannelId(0), nonce: 0, side: Side::Suppliers, admin: AdminId(0) },
            ObjectKey::Proxy { channel, nonce: 0x0123_4567, proxy: ProxyId(0x89ab_cdef) },
            ObjectKey::FilterFactory { channel: ChannelId(0), nonce: 0 },
            ObjectKey::FilterFactory { channel, nonce: 5 },
            ObjectKey::Filter { channel, nonce: 8, filter: FilterId(1) },
            ObjectKey::MappingFilter { channel, nonce: 8, filter: FilterId(1) },
            ObjectKey::NamingContext { id: 3, nonce: 9 },
            ObjectKey::BindingIterator { id: 0, nonce: 0 },
        ]
    }

    #[test]
    fn every_key_reads_back_as_what_was_written() {
        for key in samples() {
            assert_eq!(ObjectKey::parse(&key.to_bytes()), Some(key), "{key}");
            let mut out = b"before".to_vec();
            key.write(&mut out);
            assert_eq!(out, format!("before{key}").into_bytes());
        }
    }

    #[test]
    fn keys_need_no_escape_in_a_corbaloc_url() {
        for key in samples() {
            assert!(
                key.to_bytes().iter().all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'_')),
                "{key}"
            );
        }
    }

    #[test]
    fn bootstrap_names_reach_the_objects_that_every_service_has() {
        assert_eq!(ObjectKey::parse(b"NotificationService"), Some(ObjectKey::Factory));
        assert_eq!(ObjectKey::parse(b"NotifyEventChannelFactory"), Some(ObjectKey::Factory));
        assert_eq!(ObjectKey::parse(b"DefaultEventChannel"), Some(ObjectKey::DEFAULT_CHANNEL));
        assert_eq!(ObjectKey::parse(b"EventService"), Some(ObjectKey::DEFAULT_CHANNEL));
        assert_eq!(ObjectKey::parse(b"NameService"), Some(ObjectKey::ROOT_CONTEXT));
    }

    #[test]
    fn refuses_whatever_it_would_not_have_written() {
        for key in samples() {
            let bytes = key.to_bytes();
            for length in 0..bytes.len() {
                // Cut behind eight digits of the number at its end, it is a key with another number.
                let is_other = |cut: ObjectKey| cut.to_bytes() == bytes[..length] && bytes.len() == length + 24;
                assert!(ObjectKey::parse(&bytes[..length]).is_none_or(is_other), "{key} cut to {length}");
            }
            for index in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[index] ^= 0x20;
                if let Some(other) = ObjectKey::parse(&changed) {
                    assert_eq!(other.to_bytes(), changed, "two spellings of one key");
                }
            }
            let longer = [bytes.as_slice(), b"0"].concat();
            assert_eq!(ObjectKey::parse(&longer), None);
        }
        for text in [
            "",
            "/",
            "Proxy",
            "Proxy/",
            "Proxy/00000001",
            "Proxy/00000001.00000002",
            "Proxy/00000001.00000002.0000000A",
            "Proxy/00000001.00000000000000000000000000000002.00000003",
            "Proxy/00000001.000000000000000000000000ffffffff.00000003",
            "Proxy/00000001.0000000100000002.00000003",
            "Proxy/00000001.00000001000000020000000300000004.0000003",
            "Proxy/00000001.0000000100000002000000030000000A.00000003",
            "Proxy/00000001-00000002-00000003",
            "Proxy/00000001.00000002.00000003.",
            "proxy/00000001.00000002.00000003",
            "Channel/00000000.00000000",
            "NamingContext/00000000.00000000",
            "Filter/00000001.00000001",
            "nameservice",
        ] {
            assert_eq!(ObjectKey::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(ObjectKey::parse(&[0xff; 26]), None);
    }
}
