//! `[links]` and `[[link]]`: channels that are joined to those of other services.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, LinkZenoh, in_range};
use crate::lane::io::net::is_here;
use engine::EventType;

/// Where the links of other services come in, and what holds for all links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Links {
    /// Address and port to listen on for links that other services make; a port alone means the loopback address. Default: none, and this
    /// service only makes links itself.
    pub listen: Option<String>,
    /// What this service is called at the other ends of links, 0 to 255 octets. Default: nothing, and they call it by its address.
    pub name: String,
    /// Octets of events that may be on their way over one link, not yet acknowledged, 16 KiB to 256 MiB. Default 8 MiB. A window begins at
    /// 16 KiB and grows towards what the line holds.
    pub window_bytes_max: u32,
    /// Seconds for which events are kept for a service that made a link to this one and is away, 60 to 31,536,000. Default 604,800, a
    /// week. Then what is kept for it is dropped, counted and logged.
    pub forget_after_s: u32,
    /// Seconds without any acknowledgement, although events are in flight, after which a connection is closed and made anew, 1 to 86,400.
    /// Default 30; 0: never. What a slow line takes for them does not count.
    pub stalled_after_s: u32,
    /// Whether names of channels are led to the service that has them: `out`, linked services are told the names of this one, and of
    /// others that it was told; `in`, this service's clients are led to channels of linked services; `both`, or `off`, the default.
    pub names: LinkNames,
    /// Seconds for which the names of a linked service are led to it while its link is gone, 0 to 86,400. Default 60.
    pub names_forgotten_after_s: u32,
    /// Octets of events that may wait in one channel for a service that made a link to this one, in memory and on disk, 1 MiB to 16 TiB.
    /// Default 16 GiB. What comes beyond is dropped for it.
    pub backlog_bytes_max: u64,
    /// Datagrams of links whose carrier is not TCP.
    pub datagrams: LinkDatagrams,
    /// The Zenoh session for links whose carrier that is.
    pub zenoh: LinkZenoh,
}

/// `[links.datagrams]`: what holds for links whose carrier is `udp` or `multicast`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkDatagrams {
    /// Octets of a datagram, 512 to 65,000. Default 1,432, which fits into an Ethernet frame. A longer event crosses over the link's
    /// connection.
    pub bytes_max: u32,
    /// Octets of datagrams that each group is sent a second at most, 10,000 to 10,000,000,000. Default 10,000,000. What is beyond waits.
    pub bytes_per_s: u64,
    /// Routers that datagrams to a multicast group pass, and one, 1 to 255. Default 1: they stay on the LAN.
    pub ttl: u8,
    /// Port at which this service takes datagrams that are sent to its own address. Default 0: one that is free.
    pub port: u16,
    /// IPv4 address of the network that datagrams to and from IPv4 multicast groups take. Default: none, and it is that of each link's
    /// connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// File with a secret of 32 octets at least that both sides have: datagrams are authenticated by it where links are not made over TLS.
    /// Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Whether datagrams are sent and taken without authentication where there is neither TLS nor a key: whoever reaches the network can
    /// publish. For isolated networks. Default false.
    pub unauthenticated: bool,
}

impl Default for LinkDatagrams {
    fn default() -> Self {
        Self {
            bytes_max: 1_432,
            bytes_per_s: 10_000_000,
            ttl: 1,
            port: 0,
            interface: None,
            key_file: None,
            unauthenticated: false,
        }
    }
}

impl LinkDatagrams {
    /// Octets that a secret has at least.
    const KEY_BYTES_MIN: usize = 32;

    /// The address of the network for multicast, if one is configured.
    ///
    /// # Errors
    /// Says why it is none of this host's.
    pub(crate) fn interface(&self) -> Result<Option<Ipv4Addr>, String> {
        let Some(text) = &self.interface else { return Ok(None) };
        let address: Option<Ipv4Addr> = text.parse().ok();
        let address = address.filter(|address| !address.is_unspecified() && !address.is_multicast());
        let address =
            address.ok_or_else(|| format!("\"{text}\" is no IPv4 address of a network, such as \"10.0.0.7\""))?;
        if is_here(address.into()) { Ok(Some(address)) } else { Err(format!("{address} is no address of this host")) }
    }

    /// The secret that both sides have, if there is one.
    ///
    /// # Errors
    /// Says why it cannot be read, or is none.
    pub(crate) fn key(&self) -> Result<Option<Vec<u8>>, String> {
        let Some(file) = &self.key_file else { return Ok(None) };
        let octets = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let octets = octets.trim_ascii_end();
        if octets.len() < Self::KEY_BYTES_MIN {
            return Err(format!(
                "{}: a secret has {} octets at least, as from `head -c 32 /dev/urandom | base64`",
                file.display(),
                Self::KEY_BYTES_MIN
            ));
        }
        Ok(Some(octets.to_vec()))
    }
}

/// A link that this service makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkEntry {
    /// Its name, 1 to 100 octets, unique among the links of this service. What is kept for the link is kept under this name.
    pub name: String,
    /// Host and port of the other service's `links.listen`, or of its `tls.links_listen` if `tls` is true; with Zenoh, its
    /// `links.zenoh.name`.
    pub to: String,
    /// Names of the channels that it joins with the other service's channels of the same names, 1 to 256. Where there is none of that
    /// name, it is made.
    pub channels: Vec<String>,
    /// `both`, the default, or only `out`, to the other service, or only `in`.
    #[serde(default)]
    pub direction: LinkDirections,
    /// Event types that cross, each `DOMAIN/NAME`; wildcards as in subscriptions. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Constraint in the filter language, evaluated where an event comes from. Default: none.
    #[serde(default, rename = "where", skip_serializing_if = "String::is_empty")]
    pub constraint: String,
    /// Octets of events that may wait for the link in each channel, in memory and on disk, 1 MiB to 16 TiB. Default 16 GiB. The channel's
    /// own budgets bound them as well.
    #[serde(default = "backlog_bytes")]
    pub backlog_bytes_max: u64,
    /// What happens when there is no room for events that wait for the link: `drop`, the default, the oldest that are in memory or the one
    /// that comes, or `refuse` persistent events to their suppliers. Others are dropped for the link in any case.
    #[serde(default)]
    pub when_full: WhenFull,
    /// Whether the connection is made over TLS, with the certificates of `[tls]`. Default false.
    #[serde(default)]
    pub tls: bool,
    /// What carries the events: a connection (`tcp`, the default); datagrams to the other service (`udp`) or to a group of services
    /// (`multicast`), and the connection where these do not suffice; or calls of a CORBA notification service that knows nothing of links
    /// (`iiop`). Then `to` is the service's `HOST`, `HOST:PORT` or reference: of its factory, of a channel, or of a naming context.
    #[serde(default)]
    pub carrier: Carrier,
    /// With `iiop`: for each of `channels` its number, its name or its reference there. Default: the same names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub far_channels: Vec<String>,
    /// Address and port of the multicast group, the same for all links whose events go in one datagram. Only with `multicast`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// What carries the events of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// Its connection.
    #[default]
    Tcp,
    /// Calls of a CORBA notification service.
    Iiop,
    /// Datagrams to the other service.
    Udp,
    /// Datagrams to a group of services.
    Multicast,
    /// A stream through Zenoh.
    Zenoh,
}

/// Which way events cross a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkDirections {
    /// To the other service, and from it.
    #[default]
    Both,
    /// To the other service.
    Out,
    /// From the other service.
    In,
}

/// Whether names of channels are told to linked services, and taken from them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkNames {
    /// Neither.
    #[default]
    Off,
    /// Told.
    Out,
    /// Taken.
    In,
    /// Both.
    Both,
}

/// What happens when there is no room for events that wait for a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// The oldest go.
    #[default]
    Drop,
    /// Suppliers are refused.
    Refuse,
}

/// A link without name, far side and channels.
impl Default for LinkEntry {
    fn default() -> Self {
        Self {
            name: String::new(),
            to: String::new(),
            channels: Vec::new(),
            direction: LinkDirections::default(),
            types: Vec::new(),
            constraint: String::new(),
            backlog_bytes_max: BACKLOG_BYTES,
            when_full: WhenFull::default(),
            tls: false,
            carrier: Carrier::default(),
            far_channels: Vec::new(),
            group: None,
        }
    }
}

impl Default for Links {
    fn default() -> Self {
        Self {
            listen: None,
            name: String::new(),
            window_bytes_max: 8 << 20,
            forget_after_s: 604_800,
            stalled_after_s: 30,
            names: LinkNames::Off,
            names_forgotten_after_s: 60,
            backlog_bytes_max: BACKLOG_BYTES,
            datagrams: LinkDatagrams::default(),
            zenoh: LinkZenoh::default(),
        }
    }
}

/// Octets that may wait for a link in each channel, unless said otherwise.
const BACKLOG_BYTES: u64 = 16 << 30;

const fn backlog_bytes() -> u64 {
    BACKLOG_BYTES
}

impl LinkDirections {
    /// Whether events go to the other service.
    pub(crate) const fn sends(self) -> bool {
        matches!(self, Self::Both | Self::Out)
    }

    /// Whether they come from there.
    pub(crate) const fn receives(self) -> bool {
        matches!(self, Self::Both | Self::In)
    }
}

impl LinkNames {
    /// Whether linked services are told names.
    pub(crate) const fn tells(self) -> bool {
        matches!(self, Self::Out | Self::Both)
    }

    /// Whether names of linked services are taken.
    pub(crate) const fn takes(self) -> bool {
        matches!(self, Self::In | Self::Both)
    }
}

impl LinkEntry {
    /// The event types that cross. None: all.
    pub(crate) fn event_types(&self) -> Vec<EventType> {
        let split = |text: &String| {
            let (domain, name) = text.split_once('/').unwrap_or(("", text));
            EventType::new(domain, name)
        };
        self.types.iter().map(split).collect()
    }

    /// The group that its events are sent to.
    pub(crate) fn group_address(&self) -> Option<SocketAddr> {
        let address: SocketAddr = self.group.as_deref()?.parse().ok()?;
        (address.ip().is_multicast() && address.port() != 0).then_some(address)
    }

    /// The host and the port that it is to.
    pub(crate) fn host_and_port(&self) -> Option<(&str, u16)> {
        let (host, port) = self.to.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port != 0)?;
        (!host.is_empty()).then_some((host, port))
    }
}

impl Config {
    /// The same with further links, as far as it is valid with each; and the names of those that are left out, each with the reason.
    pub(crate) fn with_links(&self, added: Vec<LinkEntry>) -> (Self, Vec<(String, ConfigError)>) {
        let mut all = self.clone();
        all.link.extend(added.iter().cloned());
        if all.check().is_ok() {
            return (all, Vec::new());
        }
        all.link.truncate(self.link.len());
        let mut left_out = Vec::new();
        for entry in added {
            let name = entry.name.clone();
            all.link.push(entry);
            if let Err(why) = all.check() {
                all.link.pop();
                left_out.push((name, why));
            }
        }
        (all, left_out)
    }

    /// Whether there are links, or may be: events are numbered then, by which other services know them.
    pub(crate) const fn has_links(&self) -> bool {
        !self.link.is_empty()
            || self.links.listen.is_some()
            || self.tls.links_listen.is_some()
            || self.federation.name.is_some()
            || self.links.zenoh.accept
    }
}

/// Links that a service makes at most.
const LINKS_MAX: u64 = 64;

/// Checks every range, and that no two links have one name.
///
/// # Errors
/// Names what is wrong.
pub(super) fn check(links: &Links, entries: &[LinkEntry]) -> Result<(), ConfigError> {
    in_range("links.name (octets)", links.name.len() as u64, 0, 255)?;
    in_range("links.window_bytes_max", links.window_bytes_max.into(), 16 << 10, 256 << 20)?;
    in_range("links.forget_after_s", links.forget_after_s.into(), 60, 31_536_000)?;
    in_range("links.backlog_bytes_max", links.backlog_bytes_max, 1 << 20, 16 << 40)?;
    in_range("links.stalled_after_s", links.stalled_after_s.into(), 0, 86_400)?;
    in_range("links.names_forgotten_after_s", links.names_forgotten_after_s.into(), 0, 86_400)?;
    check_datagrams(&links.datagrams)?;
    in_range("link (entries)", entries.len() as u64, 0, LINKS_MAX)?;
    for (number, entry) in entries.iter().enumerate() {
        in_range("link.name (octets)", entry.name.len() as u64, 1, 100)?;
        in_range("link.channels (entries)", entry.channels.len() as u64, 1, 256)?;
        in_range("link.backlog_bytes_max", entry.backlog_bytes_max, 1 << 20, 16 << 40)?;
        in_range("link.types (entries)", entry.types.len() as u64, 0, 1_024)?;
        let wrong = |why: &str| Err(ConfigError::Link { name: entry.name.clone(), why: why.to_owned() });
        if entries.iter().take(number).any(|other| other.name == entry.name) {
            return wrong("another link has this name: what is kept for a link is kept under its name");
        }
        if entry.carrier == Carrier::Iiop {
            if let Some(why) = wrong_far_service(entry) {
                return wrong(&why);
            }
        } else if !entry.far_channels.is_empty() {
            return wrong("far_channels is for carrier = \"iiop\": other links join channels of the same names");
        } else if entry.carrier != Carrier::Zenoh && entry.host_and_port().is_none() {
            return wrong(&format!("to = \"{}\" is not HOST:PORT, as in \"lab.example:2816\"", entry.to));
        }
        let mut channels = entry.channels.iter().enumerate();
        if channels.any(|(number, channel)| entry.channels.iter().take(number).any(|other| other == channel)) {
            return wrong("a channel is named twice");
        }
        if entry.channels.iter().any(String::is_empty) {
            return wrong("a channel has no name");
        }
        if entry.types.iter().any(|text| !text.contains('/')) {
            return wrong("types are DOMAIN/NAME, as in \"Weather/Wind\"");
        }
        if let Some(why) = wrong_carrier(entry, entries.get(..number).unwrap_or_default(), &links.datagrams) {
            return wrong(&why);
        }
    }
    Ok(())
}

/// Whether a text is a reference to a CORBA object, or names a file with one.
pub(crate) fn is_reference(text: &str) -> bool {
    let schemes = ["ior:", "corbaloc:", "corbaname:", "file:"];
    schemes.iter().any(|scheme| text.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme)))
}

/// What is wrong with a link to a notification service.
fn wrong_far_service(LinkEntry { to, channels, far_channels, .. }: &LinkEntry) -> Option<String> {
    if to.is_empty() || to.contains(char::is_whitespace) || !is_reference(to) && to.contains('/') {
        return Some(format!(
            "to = \"{to}\" is neither HOST, HOST:PORT nor a reference, as in \"corbaloc:iiop:old.example:2809/NotifyEventChannelFactory\""
        ));
    }
    if !far_channels.is_empty() && far_channels.len() != channels.len() {
        return Some("far_channels names as many channels as channels does, or none".to_owned());
    }
    far_channels.iter().any(String::is_empty).then(|| "a channel of far_channels has no name".to_owned())
}

fn check_datagrams(datagrams: &LinkDatagrams) -> Result<(), ConfigError> {
    in_range("links.datagrams.bytes_max", datagrams.bytes_max.into(), 512, 65_000)?;
    in_range("links.datagrams.bytes_per_s", datagrams.bytes_per_s, 10_000, 10_000_000_000)?;
    in_range("links.datagrams.ttl", datagrams.ttl.into(), 1, 255)?;
    datagrams.interface().map_err(|why| ConfigError::Datagrams { key: "interface", why })?;
    datagrams.key().map(|_| ()).map_err(|why| ConfigError::Datagrams { key: "key_file", why })
}

/// What is wrong with the carrier of a link, beside those before it.
fn wrong_carrier(entry: &LinkEntry, before: &[LinkEntry], datagrams: &LinkDatagrams) -> Option<String> {
    let text = |text: &str| Some(text.to_owned());
    if entry.carrier != Carrier::Multicast {
        if entry.group.is_some() {
            return text("group is for carrier = \"multicast\"");
        }
        if matches!(entry.carrier, Carrier::Tcp | Carrier::Iiop | Carrier::Zenoh) {
            return None;
        }
    } else if entry.group_address().is_none() {
        return text(
            "carrier = \"multicast\" takes group = \"ADDRESS:PORT\" of a multicast group, as in \"239.192.7.1:2817\"",
        );
    }
    if !entry.direction.sends() {
        return text(
            "datagrams carry what this service sends, and direction = \"in\" sends nothing: set the carrier at the other service",
        );
    }
    if !entry.tls && datagrams.key_file.is_none() && !datagrams.unauthenticated {
        return text(
            "datagrams are authenticated: set tls = true, or links.datagrams.key_file at both sides, or on an isolated network \
             links.datagrams.unauthenticated = true",
        );
    }
    let is_other = |other: &&LinkEntry| entry.group.is_some() && other.group_address() == entry.group_address();
    let other = before.iter().find(is_other)?;
    let is_same = |of: &LinkEntry| (of.channels.clone(), of.types.clone(), of.constraint.clone(), of.tls);
    (is_same(other) != is_same(entry)).then(|| {
        format!("links of one group have the same channels, types, where and tls, and \"{}\" has others", other.name)
    })
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    const GROUPED: &str = "[[link]]\nname = \"lab\"\nto = \"lab.example:2816\"\nchannels = [\"Weather\"]\ntls = true\n\
                           carrier = \"multicast\"\ngroup = \"239.192.7.1:2817\"\n";

    fn why(text: &str) -> String {
        let config: Config = toml::from_str(text).unwrap();
        config.check().map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn links_are_read_and_what_is_wrong_with_one_is_said_by_its_name() {
        let good = "[[link]]\nname = \"lab\"\nto = \"lab.example:2816\"\nchannels = [\"Weather\"]\n";
        assert_eq!(why(good), "");
        for (wrong, said) in [
            (good.replace(":2816", ""), "to = \"lab.example\" is not HOST:PORT"),
            (good.replace(":2816", ":0"), "is not HOST:PORT"),
            (good.replace("[\"Weather\"]", "[\"A\", \"A\"]"), "a channel is named twice"),
            (good.replace("\"Weather\"", "\"\""), "a channel has no name"),
            (good.replace("\"Weather\"", ""), "link.channels (entries)"),
            (good.repeat(2), "another link has this name"),
            (format!("{good}backlog_bytes_max = 1000"), "link.backlog_bytes_max"),
            (format!("{good}types = [\"Wind\"]"), "types are DOMAIN/NAME"),
            (format!("{good}carrier = \"udp\""), "datagrams are authenticated: set tls = true"),
            (
                format!("{good}tls = true\ncarrier = \"udp\"\ngroup = \"239.1.1.1:1\""),
                "group is for carrier = \"multicast\"",
            ),
            (format!("{good}tls = true\ncarrier = \"multicast\""), "takes group = \"ADDRESS:PORT\""),
            (
                format!("{good}tls = true\ncarrier = \"multicast\"\ngroup = \"10.0.0.1:2817\""),
                "takes group = \"ADDRESS:PORT\"",
            ),
            (
                format!("{good}tls = true\ncarrier = \"udp\"\ndirection = \"in\""),
                "datagrams carry what this service sends",
            ),
            (
                format!("{0}{1}", GROUPED, GROUPED.replace("lab", "town").replace("Weather", "Other")),
                "links of one group have the same channels, types, where and tls, and \"lab\" has others",
            ),
            (format!("{good}[links.datagrams]\nkey_file = \"/nowhere\""), "/nowhere"),
            (format!("{good}[links.datagrams]\nttl = 0"), "links.datagrams.ttl"),
            (format!("{good}[links]\nwindow_bytes_max = 1"), "links.window_bytes_max"),
        ] {
            assert!(why(&wrong).contains(said), "{}", why(&wrong));
        }
        let iiop = format!("{good}carrier = \"iiop\"\n");
        for to in ["old", "old:2809", "corbaname::old:2809#Factory", "file:///var/lib/old.ior", "IOR:00"] {
            assert_eq!(why(&iiop.replace("lab.example:2816", to)), "", "{to}");
        }
        for (wrong, said) in [
            (iiop.replace("lab.example:2816", "/var/lib/old.ior"), "is neither HOST, HOST:PORT nor a reference"),
            (iiop.replace("lab.example:2816", ""), "is neither HOST, HOST:PORT nor a reference"),
            (format!("{iiop}far_channels = [\"3\", \"4\"]"), "far_channels names as many"),
            (format!("{iiop}far_channels = [\"\"]"), "a channel of far_channels has no name"),
            (format!("{good}far_channels = [\"3\"]"), "far_channels is for carrier = \"iiop\""),
        ] {
            assert!(why(&wrong).contains(said), "{}", why(&wrong));
        }
        let [lab, town] = ["lab", "town"].map(|name| GROUPED.replace("tls = true\n", "").replace("lab", name));
        assert_eq!(why(&format!("{lab}{town}[links.datagrams]\nunauthenticated = true\n")), "");
        let config: Config = toml::from_str(&good.replace("lab.example:", "[::1]:")).unwrap();
        assert_eq!(config.link[0].host_and_port(), Some(("::1", 2816)));
    }
}
