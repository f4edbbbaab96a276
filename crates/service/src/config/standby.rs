//! `[standby]`: a second machine that has everything, and can take over.

use std::net::SocketAddr;

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
}
