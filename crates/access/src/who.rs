//! Clients, and the patterns for them in rules.

use core::fmt;
use core::net::IpAddr;
use std::sync::Arc;

use accounts::{Account, CertifiedName};
use engine::wildcard;

use crate::{AddressRange, CertificatePattern};

/// A client as rules see it: the only place that turns what is known of a client into the input of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Who<'a> {
    /// Address of its connection, or of its datagrams.
    pub address: Option<IpAddr>,
    /// Names in its verified certificate, if it has shown one.
    pub certified: Option<&'a CertifiedName>,
    /// Name of the token that it has shown.
    pub token: Option<&'a str>,
    /// The protocol, if that itself is the client because its events have no client of the service behind them.
    pub protocol: Option<&'a str>,
    /// Name for log lines alone: it proves nothing, and rules ignore it.
    pub name: Option<&'a str>,
}

impl<'a> Who<'a> {
    /// The client of a connection's account.
    #[must_use]
    pub fn of(account: &'a Account) -> Self {
        let identity = account.identity();
        Self {
            address: account.is_outside().then(|| account.from()),
            certified: identity.certified().map(AsRef::as_ref),
            token: identity.token().map(AsRef::as_ref),
            protocol: identity.protocol(),
            name: identity.name().map(AsRef::as_ref),
        }
    }

    /// Whether the client is known by its address at most, having shown nothing else.
    #[must_use]
    pub const fn is_bare(&self) -> bool {
        self.certified.is_none() && self.token.is_none() && self.protocol.is_none()
    }

    /// Parses an operator's description of a client, in the words of rules: an address, `token:NAME`, `door:NAME` or
    /// `certificate:NAME` (a subject, or an alternative name with its kind), or several of them separated by commas, a
    /// certificate last, since its subject may have commas; `anonymous` has nothing. A certificate is made of the
    /// name, and stored in `name`.
    ///
    /// # Errors
    /// The invalid part.
    pub fn parse(text: &'a str, name: &'a mut CertifiedName) -> Result<Self, BadWho> {
        let mut who = Self::default();
        let (text, subject) = match text.split_once("certificate:") {
            Some((before, subject)) => (before.trim().trim_end_matches(','), Some(subject)),
            None => (text, None),
        };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            if let Some(token) = part.strip_prefix("token:") {
                who.token = Some(token);
            } else if let Some(protocol) = part.strip_prefix("door:") {
                who.protocol = Some(protocol);
            } else if part != "anonymous" {
                who.address = Some(part.parse().map_err(|_| BadWho(part.to_owned()))?);
            }
        }
        if let Some(subject) = subject {
            match subject.split_once(':').and_then(|(kind, name)| Some((alternative_prefix(kind)?, name))) {
                Some((prefix, alternative)) => name.sans = vec![format!("{prefix}:{alternative}")],
                // A text that is not a distinguished name is a common name.
                None if !subject.contains('=') => name.subject = format!("CN={subject}"),
                None => subject.clone_into(&mut name.subject),
            }
            who.certified = Some(name);
        }
        Ok(who)
    }
}

impl fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut any = false;
        let mut put = |f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>| {
            let comma = if core::mem::replace(&mut any, true) { ", " } else { "" };
            write!(f, "{comma}{text}")
        };
        if let Some(name) = self.name {
            put(f, format_args!("\"{}\"", name.escape_debug()))?;
        }
        if let Some(address) = self.address {
            put(f, format_args!("{address}"))?;
        }
        if let Some(certified) = self.certified {
            put(f, format_args!("certificate:{}", certified.to_string().escape_debug()))?;
        }
        if let Some(token) = self.token {
            put(f, format_args!("token:{token}"))?;
        }
        if let Some(protocol) = self.protocol {
            put(f, format_args!("door:{protocol}"))?;
        }
        if any { Ok(()) } else { f.write_str("anonymous") }
    }
}

/// Pattern of clients in an access rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhoPattern {
    /// `*`: every client.
    Everybody,
    /// `anonymous`: a client that has shown neither a certificate nor a token, and is not a protocol itself.
    Anonymous,
    /// An address or a range of them.
    Address(AddressRange),
    /// `certificate:PATTERN`: the subject or an alternative name matches, by the pattern's kind.
    Certificate(CertificatePattern),
    /// `token:PATTERN`: the token's name matches.
    Token(String),
    /// `door:NAME`: the bridge to another protocol's network, such as DDS.
    Protocol(String),
}

/// Names that an operator gives to clients, by the patterns of rules. They are for logs: rules ignore them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientNames(Vec<(Vec<WhoPattern>, Arc<str>)>);

impl ClientNames {
    /// The name of the first entry that matches a client.
    #[must_use]
    pub fn of(&self, account: &Account) -> Option<&Arc<str>> {
        if self.0.is_empty() {
            return None;
        }
        let who = Who::of(account);
        self.0.iter().find(|(patterns, _)| patterns.iter().any(|pattern| pattern.matches(&who))).map(|(_, name)| name)
    }

    /// Number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Vec<WhoPattern>, Arc<str>)> for ClientNames {
    fn from_iter<T: IntoIterator<Item = (Vec<WhoPattern>, Arc<str>)>>(names: T) -> Self {
        Self(names.into_iter().collect())
    }
}

/// Error: an invalid entry of `who`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadWho(pub String);

impl fmt::Display for BadWho {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" names no client: it is \"*\", \"anonymous\", an address, a range such as \"10.0.0.0/8\", \"certificate:NAME\", \
             \"token:NAME\", \"door:dds\" or \"door:zenoh\"",
            self.0.escape_debug()
        )?;
        if self.0.starts_with("certificate:") {
            f.write_str(
                "; the NAME of a certificate has attributes (\"CN=plant 7,*\"), or says its kind: \"dns:NAME\", \"uri:NAME\", \
                 \"ip:NAME\" or \"email:NAME\"",
            )?;
        }
        Ok(())
    }
}

impl core::error::Error for BadWho {}

impl core::str::FromStr for WhoPattern {
    type Err = BadWho;

    fn from_str(text: &str) -> Result<Self, BadWho> {
        let named = |prefix| text.strip_prefix(prefix).filter(|name: &&str| !name.is_empty()).map(str::to_owned);
        Ok(match text {
            "*" => Self::Everybody,
            "anonymous" => Self::Anonymous,
            _ if let Some(name) = text.strip_prefix("certificate:") => {
                Self::Certificate(name.parse().map_err(|()| BadWho(text.to_owned()))?)
            }
            _ if let Some(name) = named("token:") => Self::Token(name),
            _ if let Some(name) = named("door:") => Self::Protocol(name),
            _ => Self::Address(text.parse().map_err(|()| BadWho(text.to_owned()))?),
        })
    }
}

impl fmt::Display for WhoPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everybody => f.write_str("*"),
            Self::Anonymous => f.write_str("anonymous"),
            Self::Address(range) => range.fmt(f),
            Self::Certificate(name) => write!(f, "certificate:{name}"),
            Self::Token(name) => write!(f, "token:{name}"),
            Self::Protocol(name) => write!(f, "door:{name}"),
        }
    }
}

impl WhoPattern {
    /// Whether the pattern matches this client.
    #[must_use]
    pub fn matches(&self, who: &Who<'_>) -> bool {
        match self {
            Self::Everybody => true,
            Self::Anonymous => who.is_bare(),
            Self::Address(range) => who.address.is_some_and(|address| range.has(address)),
            Self::Certificate(name) => who.certified.is_some_and(|certified| name.matches(certified)),
            Self::Token(name) => who.token.is_some_and(|token| wildcard::matches(name, token.as_bytes())),
            Self::Protocol(name) => who.protocol == Some(name),
        }
    }

    /// Whether this pattern matches every client that `other` matches.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everybody, _) | (Self::Anonymous, Self::Anonymous) => true,
            (Self::Address(wide), Self::Address(narrow)) => wide.covers(narrow),
            (Self::Certificate(wide), Self::Certificate(narrow)) => wide.covers(narrow),
            (Self::Token(wide), Self::Token(narrow)) => wildcard::covers(wide, narrow),
            (Self::Protocol(one), Self::Protocol(other)) => one == other,
            _ => false,
        }
    }
}

/// The prefix of a kind of alternative name, as certificates are parsed (`tls`).
fn alternative_prefix(kind: &str) -> Option<&'static str> {
    ["DNS", "URI", "IP", "email"].into_iter().find(|prefix| prefix.eq_ignore_ascii_case(kind))
}
