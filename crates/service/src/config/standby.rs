//! `[standby]`: a second machine that has everything, and can take over.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, Tls, in_range, parse_listen};

/// A pair of machines of which one serves, and the other one has everything that its store has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Standby {
    /// Address and port at which the other machine calls; a port alone means the loopback address. Default: none, and there is no standby.
    pub listen: Option<String>,
    /// Host and port of the other machine's `standby.listen`. Default: none.
    pub peer: Option<String>,
    /// What a store without this memory begins as: `leader`, the default, or `follower`. Later the store says what it is.
    pub role: StandbyRole,
    /// Whether persistent events and changes of the configuration are acknowledged when both disks have them (`synchronous`, the default),
    /// or when this one has (`asynchronous`).
    pub replicate: Replicate,
    /// Octets of batches that the follower may lack, in memory, 1 MiB to 64 GiB. Default 256 MiB. Where it lacks more, it is given up and
    /// needs a copy.
    pub lag_max: u64,
    /// Whether a leader without a follower in step serves on (`continue`, the default), or acknowledges nothing persistent (`stop`).
    pub on_follower_lost: OnFollowerLost,
    /// Milliseconds without an answer after which the other machine counts as lost, 100 to 600,000. Default 5,000. In synchronous mode
    /// acknowledgements wait for as long.
    pub lost_after_ms: u32,
    /// Whether both speak TLS, with the files `certificate`, `key`, `client_ca` and `ca` of `[tls]`; each certificate has to name the host
    /// by which the other machine's `standby.peer` calls it. Default false, for loopback addresses only.
    pub tls: bool,
    /// The record of who leads, by which a follower takes over without an operator. Default: none, and an operator has it take over.
    pub record: StandbyRecordConfig,
}

/// The record of who leads, in etcd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StandbyRecordConfig {
    /// The addresses of etcd's members for clients, as `https://HOST:PORT`, at most 16; `http` for loopback addresses only. Default: none,
    /// and there is no record.
    pub etcd: Vec<String>,
    /// The record's key, 1 to 256 octets: one for each pair of machines. Default `campanile/standby`.
    pub key: String,
    /// Milliseconds for which the leader's renewal is valid, 300 to 60,000. Default 1,500.
    pub lease_ms: u32,
    /// Milliseconds that the follower waits beyond the lease, for clocks that run at other speeds, 50 to 60,000. Default 500.
    pub skew_ms: u32,
}

/// An address of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EtcdEndpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_tls: bool,
}

impl EtcdEndpoint {
    /// `None` if it is none.
    fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let is_tls = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let (host, port) = rest.strip_suffix('/').unwrap_or(rest).rsplit_once(':')?;
        let is_plain = |of: char| of.is_ascii_alphanumeric() || ".-_".contains(of);
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner.parse::<IpAddr>().ok().map(|_| inner)?,
            None => Some(host).filter(|host| !host.is_empty() && host.chars().all(is_plain))?,
        };
        Some(Self { host: host.to_owned(), port: port.parse().ok()?, is_tls })
    }

    /// `HOST:PORT`.
    pub(crate) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl Default for StandbyRecordConfig {
    fn default() -> Self {
        Self { etcd: Vec::new(), key: "campanile/standby".to_owned(), lease_ms: 1_500, skew_ms: 500 }
    }
}

impl StandbyRecordConfig {
    /// Whether there is a record.
    pub(crate) const fn is_used(&self) -> bool {
        !self.etcd.is_empty()
    }

    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms.into())
    }

    pub(crate) fn skew(&self) -> Duration {
        Duration::from_millis(self.skew_ms.into())
    }

    /// Where etcd is asked.
    pub(crate) fn endpoints(&self) -> Result<Vec<EtcdEndpoint>, ConfigError> {
        let parse = |url: &String| {
            EtcdEndpoint::parse(url).ok_or_else(|| ConfigError::Standby {
                why: format!(
                    "record.etcd has {url:?}, which is not https://HOST:PORT, as in \"https://first.example:2379\""
                ),
            })
        };
        self.etcd.iter().map(parse).collect()
    }

    fn check(&self, standby: &Standby, config: &Config) -> Result<(), ConfigError> {
        in_range("standby.record.lease_ms", self.lease_ms.into(), 300, 60_000)?;
        in_range("standby.record.skew_ms", self.skew_ms.into(), 50, 60_000)?;
        let wrong = |why: String| Err(ConfigError::Standby { why });
        if !(1..=256).contains(&self.key.len()) {
            return wrong(format!("record.key has {} octets, and may have 1 to 256", self.key.len()));
        }
        if self.etcd.len() > 16 {
            return wrong(format!("record.etcd names {} members, and may name 16", self.etcd.len()));
        }
        let endpoints = self.endpoints()?;
        if self.is_used() && standby.peer.is_none() {
            return wrong(
                "a record needs listen and peer: where this machine listens, and the other's HOST:PORT".to_owned(),
            );
        }
        if self.is_used() && standby.replicate == Replicate::Asynchronous {
            return wrong(
                "a record needs replicate = \"synchronous\": otherwise the follower lacks something, and does not take over by itself"
                    .to_owned(),
            );
        }
        if let Some(plain) = endpoints.iter().find(|endpoint| !endpoint.is_tls && !endpoint.is_loopback()) {
            return wrong(format!("record.etcd: {} is no loopback address: use https", plain.authority()));
        }
        if endpoints.iter().any(|endpoint| endpoint.is_tls) && config.tls.ca.is_none() {
            return wrong(
                "record.etcd with https needs tls.ca, the authorities that sign etcd's certificates".to_owned(),
            );
        }
        Ok(())
    }
}

/// What a store begins as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StandbyRole {
    /// It serves.
    #[default]
    Leader,
    /// It takes what the leader has.
    Follower,
}

/// When a leader acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replicate {
    /// When both disks have it.
    #[default]
    Synchronous,
    /// When its own disk has it.
    Asynchronous,
}

/// What a leader does without a follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFollowerLost {
    /// It goes on alone.
    #[default]
    Continue,
    /// It acknowledges nothing persistent.
    Stop,
}

impl Default for Standby {
    fn default() -> Self {
        Self {
            listen: None,
            peer: None,
            role: StandbyRole::default(),
            replicate: Replicate::default(),
            lag_max: 256 << 20,
            on_follower_lost: OnFollowerLost::default(),
            lost_after_ms: 5_000,
            tls: false,
            record: StandbyRecordConfig::default(),
        }
    }
}

impl Standby {
    /// Where it listens, if it does.
    pub(crate) fn listen_address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        parse_listen("standby.listen", self.listen.as_deref())
    }

    /// Checks that what belongs together is there.
    pub(super) fn check(&self, config: &Config) -> Result<(), ConfigError> {
        in_range("standby.lag_max", self.lag_max, 1 << 20, 64 << 30)?;
        in_range("standby.lost_after_ms", self.lost_after_ms.into(), 100, 600_000)?;
        self.record.check(self, config)?;
        let wrong = |why: String| Err(ConfigError::Standby { why });
        let (listens, Some(peer)) = (self.listen_address()?, &self.peer) else {
            return match self.listen {
                Some(_) => wrong("listen and peer go together: name the other machine's HOST:PORT".to_owned()),
                None if self.role == StandbyRole::Follower => {
                    wrong("a follower needs listen and peer: where it listens, and the leader's HOST:PORT".to_owned())
                }
                None => Ok(()),
            };
        };
        let Some(listens) = listens else {
            return wrong("listen and peer go together: name the address at which the other machine calls".to_owned());
        };
        let split = peer.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        let Some((host, _)) = split else {
            return wrong(format!("peer = \"{peer}\" is not HOST:PORT, as in \"second.example:2819\""));
        };
        if config.store.is_off() {
            return wrong("there is nothing to replicate without a store: set store.directory".to_owned());
        }
        if self.tls {
            let Tls { certificate, key, client_ca, ca, .. } = &config.tls;
            let has_all = [certificate, key, client_ca, ca].into_iter().all(Option::is_some);
            return if has_all {
                Ok(())
            } else {
                wrong("tls = true needs certificate, key, client_ca and ca of [tls]".to_owned())
            };
        }
        // Other names are looked up when they are called, and may be of another machine then.
        let is_loopback = peer.parse::<SocketAddr>().map_or(host == "localhost", |address| address.ip().is_loopback());
        if is_loopback && listens.ip().is_loopback() {
            return Ok(());
        }
        wrong(format!(
            "without TLS listen and peer have to be loopback addresses, and {listens} and {peer} are not: set tls = true, with the \
             certificates of [tls]"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        toml::from_str::<Config>(&format!("[standby]\n{text}")).unwrap().check().unwrap_err().to_string()
    }

    #[test]
    fn what_belongs_together_has_to_be_there_and_nothing_leaves_the_machine_in_the_clear() {
        let loopback = "listen = \"2819\"\npeer = \"127.0.0.1:2818\"\n";
        toml::from_str::<Config>(&format!("[standby]\n{loopback}")).unwrap().check().unwrap();
        assert!(why("listen = \"2819\"").contains("name the other machine"));
        assert!(why("peer = \"127.0.0.1:2819\"").contains("name the address"));
        assert!(why("listen = \"2819\"\npeer = \"second\"").contains("is not HOST:PORT"));
        assert!(why("listen = \"0.0.0.0:2819\"\npeer = \"127.0.0.1:2818\"").contains("set tls = true"));
        assert!(why("listen = \"2819\"\npeer = \"192.0.2.7:2818\"").contains("set tls = true"));
        assert!(why("listen = \"2819\"\npeer = \"second.example:2818\"").contains("set tls = true"));
        for local in ["localhost:2818", "[::1]:2818"] {
            let text = format!("[standby]\nlisten = \"2819\"\npeer = \"{local}\"");
            toml::from_str::<Config>(&text).unwrap().check().unwrap();
        }
        assert!(why("role = \"follower\"").contains("a follower needs listen and peer"));
        assert!(why(&format!("{loopback}tls = true")).contains("client_ca"));
        assert!(why(&format!("{loopback}lag_max = 5")).contains("standby.lag_max"));
        assert!(why(&format!("{loopback}[store]\ndirectory = \"none\"")).contains("without a store"));
    }

    #[test]
    fn a_record_needs_a_pair_that_acknowledges_what_both_have_and_etcd_by_tls_or_on_this_machine() {
        let pair = "listen = \"2819\"\npeer = \"127.0.0.1:2818\"\n";
        let record = |etcd: &str| format!("{pair}[standby.record]\netcd = [{etcd}]\n");
        let local = record("\"http://localhost:2379\", \"http://[::1]:2379/\"");
        let read = toml::from_str::<Config>(&format!("[standby]\n{local}")).unwrap();
        read.check().unwrap();
        let endpoints: Vec<_> = read.standby.record.endpoints().unwrap().iter().map(EtcdEndpoint::authority).collect();
        assert_eq!(endpoints, ["localhost:2379", "[::1]:2379"]);
        for bad in [
            "first:2379",
            "ftp://first:2379",
            "https://first",
            "https://:2379",
            "https://first:2379/v3",
            "https://a b:1",
        ] {
            assert!(why(&record(&format!("{bad:?}"))).contains("is not https://HOST:PORT"), "{bad}");
        }
        assert!(why(&record("\"http://192.0.2.7:2379\"")).contains("use https"));
        assert!(why(&record("\"https://first.example:2379\"")).contains("needs tls.ca"));
        assert!(why(&format!("{local}key = \"\"")).contains("record.key has 0 octets"));
        assert!(why(&format!("{local}lease_ms = 10")).contains("standby.record.lease_ms"));
        assert!(why(&format!("{local}skew_ms = 10")).contains("standby.record.skew_ms"));
        assert!(why(&format!("replicate = \"asynchronous\"\n{local}")).contains("needs replicate"));
        assert!(why("[standby.record]\netcd = [\"http://127.0.0.1:2379\"]").contains("needs listen and peer"));
        assert!(why(&record(&"\"http://127.0.0.1:2379\",".repeat(17))).contains("names 17 members"));
    }
}
