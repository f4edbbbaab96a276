//! `[links.zenoh]`: this service's part in Zenoh, for links whose carrier that is.

use serde::{Deserialize, Serialize};

use super::{Carrier, Config, ConfigError, in_range};

/// The one Zenoh session of the service, for links with `carrier = "zenoh"`, made by this service or by others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkZenoh {
    /// What this service is called in Zenoh, 1 to 64 letters, digits, hyphens, underscores and dots: `to` of links that lead here. Each
    /// service of a realm has another name. Default: none, and there is no session.
    pub name: String,
    /// What the services have in common that know each other in Zenoh, of the same letters. Default `campanile`.
    pub realm: String,
    /// End points at which other Zenoh sessions connect, `tcp/HOST:PORT` or `tls/HOST:PORT`. With one the session is a router, and else a
    /// client. Default: none.
    pub listen: Vec<String>,
    /// End points of routers: a client has a connection to one of them, a router to all. Default: none.
    pub connect: Vec<String>,
    /// Whether others are looked for by multicast, and by what neighbours know of each other. Default false: end points are those that
    /// are configured.
    pub scouting: bool,
    /// Whether links are taken that other services make over Zenoh. Default false.
    pub accept: bool,
    /// Octets that may be with Zenoh in one link and direction, 16 KiB to 512 KiB. Default 64 KiB. What is beyond waits in the outbox, where
    /// priorities count.
    pub window_bytes: u32,
}

impl Default for LinkZenoh {
    fn default() -> Self {
        Self {
            name: String::new(),
            realm: "campanile".to_owned(),
            listen: Vec::new(),
            connect: Vec::new(),
            scouting: false,
            accept: false,
            window_bytes: 64 << 10,
        }
    }
}

/// Octets of a name.
const NAME_BYTES_MAX: usize = 64;

/// End points of each kind.
const END_POINTS_MAX: u64 = 64;

/// Whether a text can be a name in Zenoh.
fn is_name(text: &str) -> bool {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

impl LinkZenoh {
    /// Whether the service takes part in Zenoh.
    pub(crate) const fn is_used(&self) -> bool {
        !self.name.is_empty()
    }

    /// Whether an end point is over TLS.
    fn has_tls(&self) -> bool {
        self.listen.iter().chain(&self.connect).any(|end_point| end_point.starts_with("tls/"))
    }

    /// End points at which everyone who reaches them is let in.
    pub(crate) fn open_end_points(&self) -> impl Iterator<Item = &str> {
        let is_here = |at: &str| ["127.", "localhost:", "[::1]"].iter().any(|here| at.starts_with(here));
        self.listen.iter().map(String::as_str).filter(move |at| at.strip_prefix("tcp/").is_some_and(|at| !is_here(at)))
    }
}

/// Checks what belongs together.
///
/// # Errors
/// Names what is wrong.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let zenoh = &config.links.zenoh;
    let wrong = |key: &'static str, why: String| Err(ConfigError::Zenoh { key, why });
    in_range("links.zenoh.window_bytes", zenoh.window_bytes.into(), 16 << 10, 512 << 10)?;
    in_range("links.zenoh.listen (entries)", zenoh.listen.len() as u64, 0, END_POINTS_MAX)?;
    in_range("links.zenoh.connect (entries)", zenoh.connect.len() as u64, 0, END_POINTS_MAX)?;
    if zenoh.is_used() {
        if cfg!(not(feature = "zenoh")) {
            return wrong("name", BUILT_WITHOUT.to_owned());
        }
        for (key, name) in [("name", &zenoh.name), ("realm", &zenoh.realm)] {
            if !is_name(name) {
                return wrong(
                    key,
                    format!("{name:?} is not 1 to {NAME_BYTES_MAX} letters, digits, hyphens, underscores and dots"),
                );
            }
        }
        if zenoh.listen.is_empty() && zenoh.connect.is_empty() && !zenoh.scouting {
            return wrong("listen", "there is none, neither is there a connect, and scouting is false".to_owned());
        }
        let mut all = zenoh.listen.iter().chain(&zenoh.connect);
        if let Some(other) = all.find(|at| !["tcp/", "tls/"].iter().any(|kind| at.starts_with(kind))) {
            return wrong(
                "listen and connect",
                format!("{other:?} is not tcp/HOST:PORT or tls/HOST:PORT, as in \"tls/hub.example:7447\""),
            );
        }
        if zenoh.has_tls() && (config.tls.ca.is_none() || config.tls.certificate.is_none()) {
            return wrong(
                "listen and connect",
                "end points over TLS take tls.certificate, tls.key and tls.ca: both sides show certificates".to_owned(),
            );
        }
    } else if zenoh != &LinkZenoh::default() {
        return wrong("name", "there is none, and other keys are set: without a name there is no session".to_owned());
    }
    for entry in config.link.iter().filter(|entry| entry.carrier == Carrier::Zenoh) {
        let wrong = |why: String| Err(ConfigError::Link { name: entry.name.clone(), why });
        if cfg!(not(feature = "zenoh")) {
            return wrong(BUILT_WITHOUT.to_owned());
        }
        if !zenoh.is_used() {
            return wrong(
                "carrier = \"zenoh\" takes [links.zenoh] with this service's name and an end point".to_owned(),
            );
        }
        if !is_name(&entry.to) {
            return wrong(format!("to = \"{}\" is no name of a service in Zenoh: its [links.zenoh] name", entry.to));
        }
        if entry.to == zenoh.name {
            return wrong(format!("to = \"{}\" is what this service is called itself", entry.to));
        }
    }
    Ok(())
}

/// What is said of keys for Zenoh in a program that was built without.
const BUILT_WITHOUT: &str =
    "this program was built without Zenoh: build it with the feature `zenoh` (make build-with-zenoh)";

#[cfg(test)]
mod tests {
    use crate::config::Config;

    const LINK: &str = "[[link]]\nname = \"lab\"\nto = \"lab\"\nchannels = [\"Weather\"]\ncarrier = \"zenoh\"\n";
    const SESSION: &str = "[links.zenoh]\nname = \"summit\"\nconnect = [\"tcp/hub:7447\"]\n";

    fn why(text: &str) -> String {
        let config: Config = toml::from_str(text).unwrap();
        config.check().map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[cfg(not(feature = "zenoh"))]
    #[test]
    fn a_program_without_zenoh_says_which_has_it() {
        for text in [LINK, SESSION] {
            assert!(why(text).contains("built without Zenoh: build it with the feature `zenoh`"), "{}", why(text));
        }
    }

    #[cfg(feature = "zenoh")]
    #[test]
    fn what_is_wrong_with_a_session_or_a_link_over_it_is_said() {
        let good = format!("{SESSION}{LINK}");
        assert_eq!(why(&good), "");
        for (wrong, said) in [
            (LINK.to_owned(), "carrier = \"zenoh\" takes [links.zenoh]"),
            (good.replace("to = \"lab\"", "to = \"lab:2816\""), "to = \"lab:2816\" is no name"),
            (good.replace("to = \"lab\"", "to = \"summit\""), "is what this service is called itself"),
            (SESSION.replace("summit", "a/*"), "links.zenoh.name: \"a/*\" is not 1 to 64 letters"),
            (SESSION.replace("tcp/hub", "udp/hub"), "\"udp/hub:7447\" is not tcp/HOST:PORT or tls/HOST:PORT"),
            (SESSION.replace("tcp/hub", "tls/hub"), "end points over TLS take tls.certificate"),
            (SESSION.replace("[\"tcp/hub:7447\"]", "[]"), "there is none, neither is there a connect"),
            ("[links.zenoh]\naccept = true\n".to_owned(), "links.zenoh.name: there is none"),
            (format!("{SESSION}window_bytes = 1"), "links.zenoh.window_bytes"),
            (format!("{good}group = \"239.1.1.1:1\""), "group is for carrier = \"multicast\""),
            (format!("{good}far_channels = [\"3\"]"), "far_channels is for carrier = \"iiop\""),
        ] {
            assert!(why(&wrong).contains(said), "{}", why(&wrong));
        }
    }
}
