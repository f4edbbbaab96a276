//! `[federation]`: services on one network that find each other, and link their channels of the same names.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ClientCertificates, Config, ConfigError, in_range, parse_listen};

/// Services that find each other, and which of their channels are linked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Federation {
    /// The name that the services have in common, 1 to 80 octets. Default: none, and this service neither announces itself nor looks for
    /// others.
    pub name: Option<String>,
    /// Names of the channels that are linked where another service has them, 1 to 1,024; `"*"`, the default, stands for all that have one.
    pub channels: Vec<String>,
    /// The multicast group and port in which services announce themselves. Default `239.192.28.18:2818`.
    pub group: String,
    /// IPv4 address of the network interface. Default: the system chooses.
    pub interface: Option<String>,
    /// Host at which the others dial. Default: that of `links.listen`, or where the announcements come from.
    pub address: Option<String>,
    /// File with the key that the services share, 32 to 4,096 octets. Announcements without its code are rejected. Default: none.
    pub key_file: Option<PathBuf>,
    /// Whether links are made over TLS, with the certificates of `[tls]`. Default false.
    pub tls: bool,
}

impl Default for Federation {
    fn default() -> Self {
        Self {
            name: None,
            channels: vec!["*".to_owned()],
            group: "239.192.28.18:2818".to_owned(),
            interface: None,
            address: None,
            key_file: None,
            tls: false,
        }
    }
}

impl Federation {
    /// Whether all channels with names are linked.
    pub(crate) fn takes_all(&self) -> bool {
        self.name.is_some() && self.channels.iter().any(|channel| channel == "*")
    }

    /// The group.
    pub(crate) fn group(&self) -> Option<SocketAddrV4> {
        self.group.parse().ok().filter(|group: &SocketAddrV4| group.ip().is_multicast() && group.port() != 0)
    }

    /// The interface, if it is configured.
    pub(crate) fn interface(&self) -> Result<Option<Ipv4Addr>, ConfigError> {
        let bad = |text: &str| wrong(format!("interface = \"{text}\" is no IPv4 address, such as \"10.0.0.7\""));
        self.interface.as_deref().map(|text| text.parse().map_err(|_| bad(text))).transpose()
    }

    /// The shared key, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or has too few or too many octets.
    pub(crate) fn read_key(&self) -> Result<Option<Vec<u8>>, ConfigError> {
        let Some(path) = &self.key_file else { return Ok(None) };
        let error = |why: String| wrong(format!("key_file {}: {why}", path.display()));
        let key = std::fs::read(path).map_err(|failed| error(failed.to_string()))?;
        let key = key.trim_ascii_end();
        match key.len() {
            32..=4_096 => Ok(Some(key.to_vec())),
            octets => Err(error(format!("the key has {octets} octets, and needs 32 to 4096"))),
        }
    }
}

fn wrong(why: impl Into<String>) -> ConfigError {
    ConfigError::Federation { why: why.into() }
}

/// Where the service accepts the links of others, in the clear and over TLS.
pub(crate) fn link_ports(config: &Config) -> Result<[Option<SocketAddr>; 2], ConfigError> {
    let plain = parse_listen("links.listen", config.links.listen.as_deref())?;
    Ok([plain, parse_listen("tls.links_listen", config.tls.links_listen.as_deref())?])
}

/// Checks that what belongs together is there.
///
/// # Errors
/// Says what is missing.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let Federation { name, channels, group, address, key_file, tls, .. } = &config.federation;
    let Some(name) = name else { return Ok(()) };
    in_range("federation.name (octets)", name.len() as u64, 1, 80)?;
    in_range("federation.channels (entries)", channels.len() as u64, 1, 1_024)?;
    in_range("federation.address (octets)", address.as_ref().map_or(0, |host| host.len() as u64), 0, 255)?;
    if channels.iter().any(|channel| channel.is_empty() || channel.len() > 255) {
        return Err(wrong("a channel has no name, or one of more than 255 octets"));
    }
    if config.federation.group().is_none() {
        return Err(wrong(format!(
            "group = \"{group}\" is no IPv4 multicast group with a port, such as 239.192.28.18:2818"
        )));
    }
    config.federation.interface()?;
    if !tls && key_file.is_none() {
        return Err(wrong(
            "services that find each other have to know each other: name a file with a key that they share (key_file), or have links \
             made over TLS (tls = true)",
        ));
    }
    if !tls && config.tls.required {
        return Err(wrong("tls.required leaves out what is in the clear: set tls = true"));
    }
    if *tls && (config.tls.ca.is_none() || config.tls.clients() != ClientCertificates::Required) {
        return Err(wrong(
            "tls = true needs tls.ca and tls.client_ca, so that both sides of a link show a certificate",
        ));
    }
    let [plain, secure] = link_ports(config)?;
    let (listen, setting) = if *tls { (secure, "tls.links_listen") } else { (plain, "links.listen") };
    match listen {
        Some(listen) if listen.port() != 0 => Ok(()),
        _ => Err(wrong(format!("the others dial this service: set {setting}, with a port"))),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn why(text: &str) -> String {
        let config: Config = toml::from_str(text).unwrap();
        config.check().map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn a_federation_needs_a_key_or_certificates_and_a_port_for_links() {
        let links = "[links]\nlisten = \"127.0.0.1:2816\"\n";
        let key = "[federation]\nname = \"observatory\"\nkey_file = \"key\"\n";
        assert_eq!(why(&format!("{links}{key}")), "");
        assert_eq!(why("[federation]\ninterface = \"none\"\n"), "", "without a name there is no federation");
        for (text, said) in [
            (key.to_owned(), "set links.listen"),
            (format!("{}{key}", links.replace("2816", "0")), "set links.listen, with a port"),
            (format!("{links}[federation]\nname = \"observatory\"\n"), "have to know each other"),
            (format!("{links}{key}tls = true\n"), "needs tls.ca and tls.client_ca"),
            (format!("{links}{key}channels = []\n"), "federation.channels (entries)"),
            (format!("{links}{key}channels = [\"\"]\n"), "a channel has no name"),
            (format!("{links}{key}group = \"10.0.0.7:2818\"\n"), "is no IPv4 multicast group"),
            (format!("{links}{key}group = \"239.192.28.18:0\"\n"), "is no IPv4 multicast group"),
            (format!("{links}{key}interface = \"eth0\"\n"), "is no IPv4 address"),
            (format!("{links}{}", key.replace("observatory", "")), "federation.name (octets)"),
        ] {
            assert!(why(&text).contains(said), "{text}: {}", why(&text));
        }
    }
}
