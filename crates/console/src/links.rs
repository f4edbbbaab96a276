//! Links to other services: their status for the API and metrics, and commands.

use core::cmp::Reverse;

use serde::Deserialize;
use serde_json::{Value, json};
use service::{Command, LinkState, LinkStatus, near};

use crate::metrics::write_each;
use crate::openmetrics::{Kind, Text};
use crate::routes::Failure;

/// The links as JSON for the API.
pub(crate) fn links_json(links: &[LinkStatus]) -> Value {
    json!({ "links": links })
}

/// The command to add a link, with the settings of a configuration's `[[link]]`.
///
/// # Errors
/// The body cannot be read.
pub(crate) fn addition(body: &[u8]) -> Result<Command, Failure> {
    let entry = serde_json::from_slice(body).map_err(|error| Failure::Bad(error.to_string()))?;
    Ok(Command::AddLink(Box::new(entry)))
}

/// Options of removing a link.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Removal {
    drop_backlog: bool,
}

/// The command at a path behind `links/`, for an existing link.
///
/// # Errors
/// The path has no such command, or no link has the name.
pub(crate) fn order(name: Option<String>, act: &str, body: &[u8], links: &[LinkStatus]) -> Result<Command, Failure> {
    let name = name.ok_or(Failure::NotFound)?;
    let command = match act {
        "pause" => Command::PauseLink { name: name.clone(), paused: true },
        "resume" => Command::PauseLink { name: name.clone(), paused: false },
        "remove" => {
            let Removal { drop_backlog } =
                serde_json::from_slice(body).map_err(|error| Failure::Bad(error.to_string()))?;
            // One without an open flow is not among the links.
            return Ok(Command::RemoveLink { name, drop_backlog });
        }
        _ => return Err(Failure::NotFound),
    };
    if links.iter().any(|link| link.name == name) {
        return Ok(command);
    }
    let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
    let near = near::hint(&name, links.iter().map(|link| link.name.as_str()));
    Err(Failure::NotNamed(format!("there is no link \"{shown}\"{near}")))
}

type OfLink = (&'static str, Kind, &'static str, &'static str, fn(&LinkStatus) -> u64);

const OF_LINKS: [OfLink; 16] = [
    ("campanile_link_sent", Kind::Counter, "", "Events sent, repeated sending included.", |of| of.sent),
    ("campanile_link_acknowledged", Kind::Counter, "", "Events that the peer has acknowledged.", |of| of.acknowledged),
    ("campanile_link_received", Kind::Counter, "", "Events from the peer that were taken in.", |of| of.received),
    ("campanile_link_repeats", Kind::Counter, "", "Events from the peer that had come before.", |of| of.repeats),
    ("campanile_link_lost", Kind::Counter, "", "Best-effort events in flight when a connection or peer ended.", |of| {
        of.lost
    }),
    ("campanile_link_rejected", Kind::Counter, "", "Events that the receiving service refused for good.", |of| {
        of.rejected
    }),
    ("campanile_link_forgotten", Kind::Counter, "", "Events acknowledged and unknown later, at least.", |of| {
        of.forgotten
    }),
    ("campanile_link_dropped", Kind::Counter, "", "Events dropped, since there was no room for the backlog.", |of| {
        of.dropped
    }),
    ("campanile_link_loops", Kind::Counter, "", "Events not sent, since they came from or through the peer.", |of| {
        of.loops
    }),
    ("campanile_link_lag_events", Kind::Gauge, "", "Events that wait or are not acknowledged.", |of| of.lag_events),
    ("campanile_link_lag_bytes", Kind::Gauge, "bytes", "Octets of those in memory.", |of| of.lag_octets),
    ("campanile_link_in_flight_events", Kind::Gauge, "", "Events sent and not acknowledged.", |of| of.in_flight_events),
    ("campanile_link_in_flight_bytes", Kind::Gauge, "bytes", "Octets of those.", |of| of.in_flight_octets),
    ("campanile_link_window_bytes", Kind::Gauge, "bytes", "Octets that may be in flight.", |of| of.window_octets),
    (
        "campanile_link_oldest_event_age_seconds",
        Kind::Gauge,
        "seconds",
        "Age of the oldest event that waits; 0 if none does.",
        |of| of.lag_ms.saturating_mul(1_000_000),
    ),
    ("campanile_link_round_trip_seconds", Kind::Gauge, "seconds", "Smallest round trip of the last 10 s.", |of| {
        of.round_trip_us.saturating_mul(1_000)
    }),
];

/// Writes the series of at most so many links: first those in trouble, then those with the largest lag.
pub(crate) fn write_links(text: &mut Text, links: &[LinkStatus], most: usize) {
    let mut links: Vec<&LinkStatus> = links.iter().collect();
    links.sort_by_key(|link| (Reverse(link.is_in_trouble()), Reverse(link.lag_events)));
    let (described, others) = links.split_at(most.min(links.len()));
    let of: Vec<(Vec<(&str, &str)>, &LinkStatus)> = described
        .iter()
        .map(|link| {
            let direction = ("direction", link.direction.name());
            (vec![("link", link.name.as_str()), ("channel", link.channel.as_str()), direction], *link)
        })
        .collect();
    for (name, kind, unit, help, value) in OF_LINKS {
        write_each(text, (name, kind, unit, help), &of, value);
    }
    text.family("campanile_link_state", Kind::StateSet, "", "Whether events flow.");
    for (labels, link) in &of {
        for state in LinkState::ALL {
            let labels = [labels.as_slice(), &[("campanile_link_state", state.name())]].concat();
            text.sample("", &labels, u8::from(link.state == state));
        }
    }
    text.family("campanile_other_links", Kind::Gauge, "", "Links without series of their own.");
    text.sample("", &[], others.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use service::LinkDirection;

    fn link(name: &str, state: LinkState, lag_events: u64) -> LinkStatus {
        let (name, channel) = (name.to_owned(), "Weather".to_owned());
        LinkStatus { name, channel, state, lag_events, direction: LinkDirection::In, ..LinkStatus::default() }
    }

    #[test]
    fn links_in_trouble_have_series_before_those_that_lag() {
        let links = [
            link("well", LinkState::Up, 0),
            link("slow", LinkState::Up, 7),
            link("down", LinkState::Down, 0),
            LinkStatus { lost: 3, lag_ms: 1_500, ..link("lossy", LinkState::Up, 0) },
        ];
        let mut text = Text::new(false);
        write_links(&mut text, &links, 3);
        let text = text.end();
        let has = |line: &str| assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
        has(r#"campanile_link_lost_total{link="lossy",channel="Weather",direction="in"} 3"#);
        has(r#"campanile_link_lag_events{link="slow",channel="Weather",direction="in"} 7"#);
        has(r#"campanile_link_oldest_event_age_seconds{link="lossy",channel="Weather",direction="in"} 1.5"#);
        has(r#"campanile_link_state{link="down",channel="Weather",direction="in",campanile_link_state="down"} 1"#);
        has(r#"campanile_link_state{link="down",channel="Weather",direction="in",campanile_link_state="up"} 0"#);
        has("campanile_other_links 1");
        assert!(!text.contains("well"), "{text}");
    }

    #[test]
    fn an_order_names_a_link_that_there_is() {
        let links = [link("lab", LinkState::Up, 0)];
        let ordered = |name: &str, act| order(Some(name.to_owned()), act, b"{}", &links);
        assert_eq!(ordered("lab", "pause").unwrap(), Command::PauseLink { name: "lab".to_owned(), paused: true });
        assert_eq!(ordered("lab", "resume").unwrap(), Command::PauseLink { name: "lab".to_owned(), paused: false });
        assert!(matches!(ordered("lab", "remember"), Err(Failure::NotFound)));
        let remove = |body: &[u8]| order(Some("lab".to_owned()), "remove", body, &links);
        let removal = |drop_backlog| Command::RemoveLink { name: "lab".to_owned(), drop_backlog };
        assert_eq!(remove(b"{}").unwrap(), removal(false));
        assert_eq!(remove(br#"{"drop_backlog": true}"#).unwrap(), removal(true));
        assert!(matches!(remove(br#"{"drop": true}"#), Err(Failure::Bad(_))));
        let Err(Failure::NotNamed(why)) = ordered("lav", "pause") else { panic!("a link") };
        assert_eq!(why, "there is no link \"lav\"; did you mean lab?");
    }

    #[test]
    fn a_link_is_added_with_the_settings_of_the_configuration_and_no_others() {
        let body = br#"{"name": "lab", "to": "lab.obs:2816", "channels": ["Weather"], "direction": "out"}"#;
        let Ok(Command::AddLink(entry)) = addition(body) else { panic!("a link to add") };
        assert_eq!((&*entry.name, &*entry.to, entry.direction), ("lab", "lab.obs:2816", service::LinkDirections::Out));
        let Err(Failure::Bad(why)) = addition(br#"{"name": "lab", "at": "lab.obs"}"#) else { panic!("a link") };
        assert!(why.contains("unknown field `at`"), "{why}");
    }

    #[test]
    fn the_api_tells_each_member_in_words_of_its_own() {
        let told = links_json(&[link("lab", LinkState::Refused, 7)]);
        let link = &told["links"][0];
        assert_eq!(
            (&link["direction"], &link["state"], &link["lag_events"]),
            (&"in".into(), &"refused".into(), &7.into())
        );
    }
}
