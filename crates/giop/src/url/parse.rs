//! Parsing of URLs.

use super::{Address, Corbaloc, Url};
use crate::cdr::Version;
use crate::ior::{ParseIorError, hex_octet};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Maximum characters of a URL other than `IOR:`, and of the part that an error quotes.
const URL_MAX: usize = 64 << 10;

impl FromStr for Url {
    type Err = ParseUrlError;

    fn from_str(text: &str) -> Result<Self, ParseUrlError> {
        let text = text.trim();
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(ParseUrlError::NoScheme);
        };
        if scheme.eq_ignore_ascii_case("IOR") {
            return text.parse().map(Self::Ior).map_err(ParseUrlError::Ior);
        }
        if rest.len() > URL_MAX {
            return Err(ParseUrlError::TooLong { length: rest.len(), max: URL_MAX });
        }
        if scheme.eq_ignore_ascii_case("corbaloc") {
            return location(rest).map(Self::Corbaloc);
        }
        // The form before CORBA 2.4, which TAO's ORB goes on reading: `iioploc://[1.MINOR@]HOST[:PORT][,…]/KEY`.
        if scheme.eq_ignore_ascii_case("iioploc") {
            return old_location(rest.strip_prefix("//").unwrap_or(rest)).map(Self::Corbaloc);
        }
        if scheme.eq_ignore_ascii_case("corbaname") {
            let (place, name) = rest.split_once('#').unwrap_or((rest, ""));
            let mut location = location(place)?;
            if location.key.is_empty() {
                location.key = Corbaloc::DEFAULT_KEY.into();
            }
            let name = String::from_utf8(unescape(name)?).map_err(|_| ParseUrlError::NameNotText)?;
            return Ok(Self::Corbaname { location, name });
        }
        Err(ParseUrlError::NoScheme)
    }
}

impl FromStr for Corbaloc {
    type Err = ParseUrlError;

    fn from_str(text: &str) -> Result<Self, ParseUrlError> {
        match text.parse()? {
            Url::Corbaloc(location) => Ok(location),
            Url::Ior(_) | Url::Corbaname { .. } => Err(ParseUrlError::NotCorbaloc),
        }
    }
}

/// Parses the part behind `corbaloc:`.
fn location(text: &str) -> Result<Corbaloc, ParseUrlError> {
    let (list, key) = text.split_once('/').unwrap_or((text, ""));
    let key = unescape(key)?;
    if list.is_empty() {
        return Err(ParseUrlError::NoAddress);
    }
    if list == "rir:" {
        let key = if key.is_empty() { Corbaloc::DEFAULT_KEY.into() } else { key };
        return Ok(Corbaloc { addresses: Vec::new(), rir: true, key });
    }
    let count = list.split(',').count();
    if count > Corbaloc::ADDRESSES_MAX {
        return Err(ParseUrlError::TooManyAddresses { count, max: Corbaloc::ADDRESSES_MAX });
    }
    let addresses = list.split(',').map(address).collect::<Result<_, _>>()?;
    Ok(Corbaloc { addresses, rir: false, key })
}

/// Parses the part behind `iioploc://`: addresses without a protocol.
fn old_location(text: &str) -> Result<Corbaloc, ParseUrlError> {
    let (list, key) = text.split_once('/').unwrap_or((text, ""));
    let addresses: Vec<String> = list.split(',').map(|address| [":", address].concat()).collect();
    if list.is_empty() {
        return Err(ParseUrlError::NoAddress);
    }
    location(&[addresses.join(",").as_str(), key].join("/"))
}

/// Parses one address, its protocol included.
fn address(text: &str) -> Result<Address, ParseUrlError> {
    let Some((protocol, rest)) = text.split_once(':') else {
        return Err(ParseUrlError::BadAddress { address: text.to_owned() });
    };
    let tls = protocol.eq_ignore_ascii_case("ssliop");
    if !tls && !protocol.is_empty() && !protocol.eq_ignore_ascii_case("iiop") {
        // `rir:` is one of these where it is not alone, which 7.6.10.2 forbids.
        return Err(ParseUrlError::UnsupportedProtocol { protocol: protocol.to_owned() });
    }
    let (version, host_and_port) = match rest.split_once('@') {
        Some((version, rest)) => (parse_version(version)?, rest),
        None => (Version::V1_0, rest),
    };
    let (host, port) =
        host_and_port_of(host_and_port).ok_or_else(|| ParseUrlError::BadAddress { address: text.to_owned() })?;
    let port = match port {
        // An empty port behind the colon is the default too.
        None | Some("") => Address::DEFAULT_PORT,
        Some(digits) => digits
            .parse()
            .ok()
            .filter(|_| digits.bytes().all(|c| c.is_ascii_digit()))
            .ok_or_else(|| ParseUrlError::BadPort { port: digits.to_owned() })?,
    };
    Ok(Address { version, host: host.to_owned(), port, tls })
}

/// A server of a later minor version takes messages of GIOP 1.2 as well.
fn parse_version(text: &str) -> Result<Version, ParseUrlError> {
    let bad = || ParseUrlError::BadVersion { version: text.to_owned() };
    let (major, minor) = text.split_once('.').ok_or_else(bad)?;
    if major != "1" || !all_digits(minor) {
        return Err(bad());
    }
    let minor: u8 = minor.parse().map_err(|_| bad())?;
    Ok(Version::from_minor(minor).unwrap_or(Version::V1_2))
}

/// Whether all characters are digits: numbers in Rust may have a sign, those in a URL not.
fn all_digits(text: &str) -> bool {
    text.bytes().all(|octet| octet.is_ascii_digit())
}

/// The host, without brackets, and what follows the colon behind it.
fn host_and_port_of(text: &str) -> Option<(&str, Option<&str>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']')?;
            match behind.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if behind.is_empty() => (host, None),
                None => return None,
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let allowed = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '[' | ']' | '@' | '%' | '#');
    (!host.is_empty() && host.chars().all(allowed)).then_some((host, port))
}

/// Octets of a key or name, with `%` and two digits taken for the octet that they mean.
fn unescape(text: &str) -> Result<Vec<u8>, ParseUrlError> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&octet, behind)) = rest.split_first() {
        rest = behind;
        if octet == b'%' {
            let (value, behind) = behind
                .split_at_checked(2)
                .and_then(|(digits, behind)| Some((hex_octet(digits)?, behind)))
                .ok_or(ParseUrlError::BadEscape { at: text.len() - behind.len() - 1 })?;
            octets.push(value);
            rest = behind;
        } else {
            octets.push(octet);
        }
    }
    Ok(octets)
}

/// Text that is not a reference in any of the three forms.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseUrlError {
    /// The text starts with neither `IOR:` nor `corbaloc:` nor `corbaname:`.
    NoScheme,
    /// The text has another form than the required `corbaloc:`.
    NotCorbaloc,
    /// The text is too long.
    TooLong {
        /// Characters behind the scheme.
        length: usize,
        /// Maximum number of characters.
        max: usize,
    },
    /// The `IOR:` is wrong.
    Ior(ParseIorError),
    /// The address is missing.
    NoAddress,
    /// There are too many addresses.
    TooManyAddresses {
        /// Number of addresses.
        count: usize,
        /// Maximum number of addresses.
        max: usize,
    },
    /// An address has no host, no colon behind its protocol, or brackets that do not match.
    BadAddress {
        /// The address.
        address: String,
    },
    /// An address is of a protocol other than IIOP, or `rir:` is not alone.
    UnsupportedProtocol {
        /// The protocol.
        protocol: String,
    },
    /// A version is not 1 point a number.
    BadVersion {
        /// The version.
        version: String,
    },
    /// A port is not a number up to 65535.
    BadPort {
        /// The port.
        port: String,
    },
    /// A `%` is not followed by two hexadecimal digits.
    BadEscape {
        /// Octets of the key or name before it.
        at: usize,
    },
    /// A name is not UTF-8 when its escapes are resolved.
    NameNotText,
}

impl fmt::Display for ParseUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoScheme => f.write_str("an object reference starts with \"IOR:\", \"corbaloc:\" or \"corbaname:\""),
            Self::NotCorbaloc => f.write_str("the object reference is not one that starts with \"corbaloc:\""),
            Self::TooLong { length, max } => {
                write!(f, "a URL has {length} characters where at most {max} are accepted")
            }
            Self::Ior(error) => error.fmt(f),
            Self::NoAddress => {
                f.write_str("the URL has no address; write it as in \"corbaloc::host:2809/NotificationService\"")
            }
            Self::TooManyAddresses { count, max } => {
                write!(f, "the URL has {count} addresses where at most {max} are accepted")
            }
            Self::BadAddress { address } => write!(
                f,
                "\"{address}\" is not an address; write it as in \":host:2809\", \"iiop:1.2@host:2809\" or \":[::1]:2809\""
            ),
            Self::UnsupportedProtocol { protocol } if protocol == "rir" => {
                f.write_str("\"rir:\" cannot stand beside another address")
            }
            Self::UnsupportedProtocol { protocol } => {
                write!(f, "\"{protocol}\" is not a protocol that is spoken here; \"iiop\" and \"ssliop\" are")
            }
            Self::BadVersion { version } => {
                write!(f, "\"{version}\" is not a version of IIOP; write it as in \"1.2\"")
            }
            Self::BadPort { port } => write!(f, "\"{port}\" is not a port; ports are numbers from 0 to 65535"),
            Self::BadEscape { at } => {
                write!(f, "the \"%\" behind {at} octets of the key or name is not followed by two hexadecimal digits")
            }
            Self::NameNotText => f.write_str("the name is not UTF-8 when its escapes are resolved"),
        }
    }
}

impl core::error::Error for ParseUrlError {}
