//! What a session is opened with, and what Zenoh makes of it.

use core::time::Duration;
use std::path::PathBuf;

use zenoh::Config;

/// Least and most octets that may be in flight in one stream and direction. Two messages fit into the least, and the most into what
/// Zenoh queues.
pub const WINDOW_BYTES: core::ops::RangeInclusive<u32> = 16_384..=524_288;

/// Batches of 64 KiB that Zenoh queues for one priority and neighbour: the most that it takes.
const QUEUE_BATCHES: usize = 16;

/// Octets of a message that is taken at most: none of streams is as long.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Octets of the name of a realm or an end.
const NAME_BYTES_MAX: usize = 64;

/// What a session is opened with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What the ends that know each other have in common, a [name](is_name).
    pub realm: String,
    /// What this end is called, a [name](is_name). Another one of the same realm has another name.
    pub name: String,
    /// End points that other Zenoh sessions connect to, such as `tcp/0.0.0.0:7447`. With one the session is a router, and else a client.
    pub listen: Vec<String>,
    /// End points of routers, such as `tls/hub.example:7447`. A client has a connection to one of them, a router to all.
    pub connect: Vec<String>,
    /// Whether others are looked for by multicast and by what neighbours know of each other.
    pub scouting: bool,
    /// Certificates for end points with `tls/`. Both sides show theirs.
    pub tls: Option<TlsFiles>,
    /// Octets that may be in flight in one stream and direction, of [`WINDOW_BYTES`].
    pub window_bytes: u32,
    /// Whether streams are taken that others open.
    pub accepts: bool,
    /// After how long a client that carries nothing, and dials ends that are absent, has its session opened anew; each time twice as long,
    /// 1,024 s at most. Default: 60 s.
    pub absent_for: Option<Duration>,
}

/// Files in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The authority that signs the certificates of both sides.
    pub ca: PathBuf,
    /// This side's certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Whether the host that is connected to has to be in its certificate.
    pub check_names: bool,
}

/// Whether a text can be a name: 1 to 64 letters, digits, hyphens, underscores and dots of ASCII, which stand for themselves in keys.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

impl Options {
    /// What Zenoh is opened with.
    ///
    /// # Errors
    /// Says what is not valid.
    pub(crate) fn config(&self) -> Result<Config, String> {
        for (what, name) in [("the realm", &self.realm), ("the end", &self.name)] {
            if !is_name(name) {
                return Err(format!(
                    "the name of {what}, {name:?}, is not 1 to {NAME_BYTES_MAX} letters, digits, hyphens, underscores and dots"
                ));
            }
        }
        if self.listen.is_empty() && self.connect.is_empty() && !self.scouting {
            return Err("there is no end point to listen at or to connect to, and scouting is off".to_owned());
        }
        let mut config = Config::default();
        let mut set = |key: &str, value: &str| {
            config.insert_json5(key, value).map_err(|error| format!("{key} = {value}: {error}"))
        };
        let mode = if self.listen.is_empty() { "client" } else { "router" };
        set("mode", &text(mode)?)?;
        set("listen/endpoints", &text(&self.listen)?)?;
        set("connect/endpoints", &text(&self.connect)?)?;
        // A client is opened again by the session's own thread; a router connects while it runs.
        set("connect/timeout_ms", if self.listen.is_empty() { "0" } else { "-1" })?;
        set("connect/exit_on_failure", "false")?;
        let scouting = if self.scouting { "true" } else { "false" };
        set("scouting/multicast/enabled", scouting)?;
        set("scouting/gossip/enabled", scouting)?;
        set("scouting/delay", "0")?;
        set("open/return_conditions/connect_scouted", "false")?;
        set("open/return_conditions/declares", "false")?;
        set("timestamping/enabled", "false")?;
        set("adminspace/enabled", "false")?;
        set("transport/link/tx/queue/size/data", &QUEUE_BATCHES.to_string())?;
        set("transport/link/rx/max_message_size", &MESSAGE_BYTES_MAX.to_string())?;
        if let Some(TlsFiles { ca, certificate, key, check_names }) = &self.tls {
            set("transport/link/tls/root_ca_certificate", &text(ca)?)?;
            set("transport/link/tls/enable_mtls", "true")?;
            set("transport/link/tls/verify_name_on_connect", if *check_names { "true" } else { "false" })?;
            for side in ["listen", "connect"] {
                set(&format!("transport/link/tls/{side}_certificate"), &text(certificate)?)?;
                set(&format!("transport/link/tls/{side}_private_key"), &text(key)?)?;
            }
        }
        Ok(config)
    }
}

/// A value as JSON.
fn text<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            realm: "observatory".to_owned(),
            name: "summit".to_owned(),
            listen: vec!["tcp/127.0.0.1:7447".to_owned()],
            ..Options::default()
        }
    }

    #[test]
    fn scouting_is_off_unless_asked_for_and_end_points_are_those_that_are_said() {
        let config = options().config().unwrap();
        let said = |key: &str| config.get_json(key).unwrap();
        assert_eq!(said("mode"), "\"router\"");
        assert_eq!(
            (said("scouting/multicast/enabled"), said("scouting/gossip/enabled")),
            ("false".into(), "false".into())
        );
        assert_eq!(said("listen/endpoints"), "[\"tcp/127.0.0.1:7447\"]");
        assert_eq!(said("transport/link/tx/queue/size/data"), "16");
        let client =
            Options { connect: vec!["tcp/hub:7447".to_owned()], listen: Vec::new(), scouting: true, ..options() };
        let config = client.config().unwrap();
        assert_eq!(config.get_json("mode").unwrap(), "\"client\"");
        assert_eq!(config.get_json("scouting/multicast/enabled").unwrap(), "true");
    }

    #[test]
    fn what_is_not_valid_is_said() {
        for (wrong, said) in [
            (Options { name: "a/b".to_owned(), ..options() }, "the name of the end, \"a/b\","),
            (Options { name: "*".to_owned(), ..options() }, "the name of the end"),
            (Options { realm: String::new(), ..options() }, "the name of the realm"),
            (Options { name: "n".repeat(65), ..options() }, "1 to 64 letters"),
            (Options { listen: Vec::new(), ..options() }, "there is no end point"),
            (Options { listen: vec!["nonsense".to_owned()], ..options() }, "listen/endpoints = [\"nonsense\"]"),
        ] {
            let why = wrong.config().unwrap_err();
            assert!(why.contains(said), "{why}");
        }
    }
}
