//! Status of each consumer and its dropped events, as Campanile's object `Statistics` reports them.

use crate::color::Tone;
use crate::json;
use crate::show::clean;
use crate::statistics::{Statistics, idle};
use client::notify::EventType;
use client::{InvokeError, Unmarshal};
use giop::cdr::{ReadError, Reader};
use giop::typecode::Work;
use serde::{Serialize, Serializer};
use std::fmt::Write as _;
use std::time::Duration;

/// One `ConsumerStatistic`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ConsumerStatus {
    #[serde(skip)]
    pub(crate) channel: u32,
    #[serde(skip)]
    pub(crate) proxy: u32,
    /// Name of the proxy with its client's address; may be empty.
    #[serde(rename = "consumer")]
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) state: ConsumerState,
    pub(crate) backlog_events: u64,
    pub(crate) backlog_bytes: u64,
    /// Events of the backlog that wait for their `StartTime`.
    pub(crate) delayed: u64,
    /// Clients that wait in `pull`.
    pub(crate) pulls_waiting: u32,
    pub(crate) delivered: u64,
    pub(crate) in_flight: u32,
    pub(crate) failures: u32,
    pub(crate) dropped: u64,
    /// Dropped events by reason.
    #[serde(rename = "dropped_by_reason", serialize_with = "json::map")]
    pub(crate) reasons: Vec<(String, u64)>,
    /// Drops by event type and reason, the largest number first.
    #[serde(rename = "dropped_by_type")]
    pub(crate) drops: Vec<Drops>,
}

/// State of a consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ConsumerState {
    /// `keeping up`, `behind`, `socket full`, `retrying`, `suspended` or `disconnected`: as in console and metrics, except `holding`, which
    /// is separate here.
    #[serde(rename = "state", serialize_with = "as_label")]
    pub(crate) doing: String,
    /// Seconds for which it has been behind, if it is.
    #[serde(rename = "behind_seconds")]
    pub(crate) behind_s: Option<u64>,
    /// Whether it has offered a connection that it made for calls to it.
    pub(crate) offers_its_own_connection: bool,
    /// Another proxy of its channel with the same object connected.
    #[serde(rename = "same_reference_as")]
    pub(crate) same_as: Option<u32>,
    /// Seconds for which it has been unreachable, if that is announced.
    #[serde(rename = "unreachable_seconds")]
    pub(crate) unreachable_s: Option<u64>,
    /// Time for which suppliers wait for it, if they do.
    #[serde(rename = "holds_suppliers")]
    pub(crate) holds: Option<Holds>,
    /// Reconnection when the service began, if there was one.
    pub(crate) restored: Option<Restored>,
}

/// Time for which suppliers wait for a consumer, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Holds {
    #[serde(rename = "for_seconds")]
    pub(crate) for_s: u64,
    /// Seconds until it is disconnected; `None` if it is not to be.
    #[serde(rename = "seconds_left")]
    pub(crate) left_s: Option<u64>,
}

/// Number of dropped events of a type, for a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Drops {
    #[serde(rename = "type", serialize_with = "json::display")]
    pub(crate) event_type: EventType,
    pub(crate) reason: String,
    pub(crate) events: u64,
}

impl ConsumerStatus {
    pub(crate) fn is_of(&self, proxy: i32) -> bool {
        u32::try_from(proxy) == Ok(self.proxy)
    }

    /// Address in `consumer proxy 1 of channel 0 (127.0.0.1:4711 key)`; `None` if it gave no reference.
    pub(crate) fn client(&self) -> Option<&str> {
        // Names that clients gave stand in quotes, and may have anything in them.
        let (mut is_quoted, mut is_escaped) = (false, false);
        let begin = self.name.find(|letter| {
            match letter {
                '"' if !is_escaped => is_quoted = !is_quoted,
                '(' if !is_quoted => return true,
                _ => {}
            }
            is_escaped = letter == '\\' && !is_escaped;
            false
        });
        self.name.get(begin? + 1..)?.strip_suffix(')')
    }

    /// The client's address, behind the name that it gave the proxy; `None` without either.
    pub(crate) fn label(&self) -> Option<String> {
        match (given_name(&self.name), self.client()) {
            (None, client) => client.map(clean),
            (Some(name), client) => {
                Some([clean(name), client.map(clean).unwrap_or_default()].join("  ").trim_end().to_owned())
            }
        }
    }

    /// Tone: dead or blocking others, slow, or healthy.
    pub(crate) fn tone(&self) -> Tone {
        let ConsumerState { doing, holds, unreachable_s, .. } = &self.state;
        match doing.as_str() {
            "keeping up" if holds.is_none() && unreachable_s.is_none() => Tone::Well,
            "behind" | "socket full" | "suspended" if holds.is_none() => Tone::Slow,
            _ => Tone::Lost,
        }
    }

    /// State of the consumer, and the suppliers that it blocks, for people.
    pub(crate) fn describe(&self) -> String {
        let ConsumerState { doing, behind_s, offers_its_own_connection, same_as, unreachable_s, holds, restored } =
            &self.state;
        let mut text = clean(doing);
        if let Some(seconds) = behind_s {
            let _ = write!(text, " for {seconds} s");
        }
        if *offers_its_own_connection {
            text.push_str(", offers its own connection");
        }
        if let Some(other) = same_as {
            let _ = write!(text, ", SAME REFERENCE as proxy {other}");
        }
        if let Some(seconds) = unreachable_s {
            let _ = write!(text, ", UNREACHABLE for {seconds} s");
        }
        if let Some(Holds { for_s, left_s }) = holds {
            let _ = write!(text, ", HOLDS SUPPLIERS for {for_s} s, ");
            let _ = match left_s {
                Some(left) => write!(text, "for {left} s more at most"),
                None => write!(text, "and it is not disconnected for that"),
            };
        }
        if let Some(restored) = restored {
            restored.describe(self.delivered > 0, &mut text);
        }
        text
    }
}

/// Name that a client gave its proxy, as in `supplier proxy 1 "mount" of channel 0 (10.0.0.7)`, or its own, as in
/// `"mount": supplier proxy 1 of channel 0`, quoted as the service writes it.
pub(crate) fn given_name(text: &str) -> Option<&str> {
    let (own, rest) = quoted(text).map_or((None, text), |(name, rest)| (Some(name), rest));
    let of_proxy = || {
        let (_, rest) = rest.split_once(" proxy ")?;
        quoted(rest.trim_start_matches(|digit: char| digit.is_ascii_digit()).strip_prefix(' ')?)
    };
    of_proxy().map(|(name, _)| name).or(own)
}

/// Splits a text that begins with a quoted name.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = text.find(|letter| {
        let is_end = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    })?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

impl Unmarshal for ConsumerStatus {
    const BYTES_MIN: usize = 64;

    fn unmarshal(reader: &mut Reader<'_>, work: &mut Work) -> Result<Self, ReadError> {
        Ok(Self {
            channel: reader.u32()?,
            proxy: reader.u32()?,
            name: reader.text()?,
            state: ConsumerState::parse(&reader.text()?),
            backlog_events: reader.u64()?,
            backlog_bytes: reader.u64()?,
            delivered: reader.u64()?,
            dropped: reader.u64()?,
            in_flight: reader.u32()?,
            failures: reader.u32()?,
            reasons: Vec::unmarshal(reader, work)?,
            delayed: reader.u64()?,
            pulls_waiting: reader.u32()?,
            drops: Vec::new(),
        })
    }
}

impl ConsumerState {
    /// State of the consumer as in metrics and JSON.
    pub(crate) fn label(&self) -> String {
        label(&self.doing)
    }

    /// Parses `failing, SAME REFERENCE as proxy 12, UNREACHABLE for 75 s` or `active, HOLDS SUPPLIERS for 12 s, for 18 s more at most`
    /// (`docs/idl/Campanile.idl`). Unknown parts of a later service's text are left unchanged.
    fn parse(text: &str) -> Self {
        let (mut doing, holds) = parse_hold(text);
        // The words of console and metrics.
        let word = |doing: String, is_behind: bool| match doing.as_str() {
            "active" if is_behind => "behind".to_owned(),
            "active" => "keeping up".to_owned(),
            "failing" => "retrying".to_owned(),
            _ => doing,
        };
        let mut take = |before: &str, behind: &str| -> Option<u64> {
            let (rest, told) = doing.split_once(before)?;
            let number = told.strip_suffix(behind)?.parse().ok()?;
            doing = rest.to_owned();
            Some(number)
        };
        let behind_s = take(", BEHIND for ", " s");
        let unreachable_s = take(", UNREACHABLE for ", " s");
        let same_as = take(", SAME REFERENCE as proxy ", "").and_then(|number| u32::try_from(number).ok());
        let offers_its_own_connection = doing.ends_with(OFFERS_ITS_OWN);
        doing.truncate(doing.len() - if offers_its_own_connection { OFFERS_ITS_OWN.len() } else { 0 });
        let doing = word(doing, behind_s.is_some());
        Self { doing, behind_s, offers_its_own_connection, same_as, unreachable_s, holds, restored: None }
    }
}

/// How the service says that a consumer has offered a connection that it made.
const OFFERS_ITS_OWN: &str = ", OFFERS ITS OWN CONNECTION";

/// A state as metrics have it.
fn label(doing: &str) -> String {
    doing.replace(' ', "_")
}

fn as_label<S: Serializer>(doing: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&label(doing))
}

fn parse_hold(text: &str) -> (String, Option<Holds>) {
    let told = || {
        let (state, rest) = text.split_once(", HOLDS SUPPLIERS for ")?;
        let (held, rest) = rest.split_once(" s, ")?;
        let left_s = match rest.strip_prefix("for ") {
            Some(rest) => Some(rest.split_once(' ')?.0.parse().ok()?),
            None => None,
        };
        Some((state.to_owned(), Some(Holds { for_s: held.parse().ok()?, left_s })))
    };
    told().unwrap_or_else(|| (text.to_owned(), None))
}

/// A client reconnected when the service began, and when it was last heard since then, if it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Restored {
    #[serde(rename = "heard_seconds_ago", serialize_with = "json::seconds")]
    pub(crate) heard: Option<Duration>,
}

impl Unmarshal for Restored {
    const BYTES_MIN: usize = 9;

    fn unmarshal(reader: &mut Reader<'_>, _work: &mut Work) -> Result<Self, ReadError> {
        let (is_heard, idle) = (reader.bool()?, reader.u64()?);
        Ok(Self { heard: is_heard.then(|| Duration::from_millis(idle)) })
    }
}

impl Restored {
    /// Appends the fact for people, behind a client's description. `has_taken` if it has taken events.
    pub(crate) fn describe(self, has_taken: bool, text: &mut String) {
        let _ = match self.heard {
            Some(heard) => write!(text, ", restored, heard of {} ago", idle(heard)),
            None if has_taken => write!(text, ", restored"),
            None => write!(text, ", restored, not heard of since"),
        };
    }
}

/// Consumers of a channel. Fails if the service is not Campanile and does not report them.
pub(crate) fn read(statistics: &Statistics, channel: u32) -> Result<Vec<ConsumerStatus>, InvokeError> {
    let mut statuses = statistics.consumers()?;
    statuses.retain(|status| status.channel == channel);
    let restored = statistics.restored();
    statuses.iter_mut().for_each(|found| found.state.restored = restored.get(&(found.channel, found.proxy)).copied());
    // A service of before this operation tells the rest all the same.
    let (drops, _others): (Vec<OfConsumer>, u64) = statistics.object.request("get_drops", &()).unwrap_or_default();
    for OfConsumer { key, drops } in drops {
        if let Some(status) = statuses.iter_mut().find(|status| (status.channel, status.proxy) == key) {
            status.drops.push(drops);
        }
    }
    Ok(statuses)
}

/// One `DropStatistic`: drops with the channel and proxy of their consumer.
struct OfConsumer {
    key: (u32, u32),
    drops: Drops,
}

impl Unmarshal for OfConsumer {
    const BYTES_MIN: usize = 45;

    fn unmarshal(reader: &mut Reader<'_>, work: &mut Work) -> Result<Self, ReadError> {
        let (key, _name) = ((reader.u32()?, reader.u32()?), reader.string()?);
        let event_type = EventType::unmarshal(reader, work)?;
        Ok(Self { key, drops: Drops { event_type, reason: reader.text()?, events: reader.u64()? } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_found_behind_names_with_anything_in_them() {
        for (name, client) in [
            ("consumer proxy 1 of channel 0 (h:1 a(b))", Some("h:1 a(b)")),
            (r#""x (y)": consumer proxy 1 of channel 0 (h:1 k)"#, Some("h:1 k")),
            (r#"consumer proxy 1 "x (y) \"(" of channel 0 "(\\" (h:1 k)"#, Some("h:1 k")),
            (r#"consumer proxy 1 "(no)" of channel 0"#, None),
        ] {
            assert_eq!(ConsumerStatus { name: name.into(), ..ConsumerStatus::default() }.client(), client, "{name}");
        }
    }

    #[test]
    fn the_name_that_a_client_gave_comes_first() {
        for (name, label) in [
            ("consumer proxy 1 of channel 0 (h:1 k)", Some("h:1 k")),
            (r#"consumer proxy 12 "archive" of channel 0 "x" (h:1 k)"#, Some("archive  h:1 k")),
            (r#"consumer proxy 1 "a \"b\"" of channel 0"#, Some(r#"a \"b\""#)),
            (r#"consumer proxy 1 of channel 0 "Weather""#, None),
            (r#""archive": consumer proxy 1 of channel 0 (h:1 k)"#, Some("archive  h:1 k")),
            (r#""archive": consumer proxy 1 "mount" of channel 0 (h:1 k)"#, Some("mount  h:1 k")),
            (r#""a proxy 7 \"b\"": consumer proxy 1 of channel 0"#, Some(r#"a proxy 7 \"b\""#)),
            (r#""unfinished"#, None),
        ] {
            let status = ConsumerStatus { name: name.into(), ..ConsumerStatus::default() };
            assert_eq!(status.label().as_deref(), label, "{name}");
        }
    }

    #[test]
    fn the_suppliers_that_a_consumer_blocks_are_reported_apart_from_what_it_is_doing() {
        let until = "active, HOLDS SUPPLIERS for 12 s, for 18 s more at most";
        let for_ever = "suspended, HOLDS SUPPLIERS for 12 s, and it is not disconnected for that";
        let cases = [
            ("socket full", "socket full", "null", None),
            ("active, BEHIND for 7 s", "behind", "null", None),
            (until, "keeping up", r#"{"for_seconds":12,"seconds_left":18}"#, Some(Some(18))),
            (for_ever, "suspended", r#"{"for_seconds":12,"seconds_left":null}"#, Some(None)),
            ("failing, UNREACHABLE for 75 s", "retrying", "null", None),
            ("active, SAME REFERENCE as proxy 12", "keeping up", "null", None),
            ("failing, SAME REFERENCE as proxy 12, UNREACHABLE for 75 s", "retrying", "null", None),
            ("active, OFFERS ITS OWN CONNECTION", "keeping up", "null", None),
            (
                "failing, OFFERS ITS OWN CONNECTION, SAME REFERENCE as proxy 12, UNREACHABLE for 75 s",
                "retrying",
                "null",
                None,
            ),
            ("new, HOLDS SUPPLIERS for ever", "new, HOLDS SUPPLIERS for ever", "null", None),
        ];
        for (told, doing, json, left) in cases {
            let status = ConsumerStatus { state: ConsumerState::parse(told), ..ConsumerStatus::default() };
            let ConsumerState { behind_s, offers_its_own_connection, same_as, unreachable_s, holds, .. } = status.state;
            assert_eq!(offers_its_own_connection, told.contains("OFFERS ITS OWN"));
            assert_eq!((status.state.doing.as_str(), holds.map(|holds| holds.left_s)), (doing, left));
            // It is said in the words of the console, and otherwise as the service does.
            let words = told.replace("active, BEHIND", "behind").replace("active", "keeping up");
            let words = words.replace("OFFERS ITS OWN CONNECTION", "offers its own connection");
            assert_eq!(status.describe(), words.replace("failing", "retrying"));
            let number = |number: Option<u64>| number.map_or_else(|| "null".to_owned(), |number| number.to_string());
            let expected = format!(
                "{{\"state\":\"{}\",\"behind_seconds\":{},\"offers_its_own_connection\":{offers_its_own_connection},\"same_reference_as\":{},\"unreachable_seconds\":{},\"holds_suppliers\":{json},\"restored\":null}}",
                doing.replace(' ', "_"),
                number(behind_s),
                number(same_as.map(u64::from)),
                number(unreachable_s)
            );
            assert_eq!(serde_json::to_string(&status.state).unwrap(), expected);
        }
    }

    #[test]
    fn of_a_client_that_was_restored_it_is_said_when_it_was_heard_of() {
        let cases = [
            (None, 0, "keeping up, restored, not heard of since", "{\"heard_seconds_ago\":null}"),
            (None, 3, "keeping up, restored", "{\"heard_seconds_ago\":null}"),
            (
                Some(Duration::from_secs(130)),
                0,
                "keeping up, restored, heard of 2 min ago",
                "{\"heard_seconds_ago\":130}",
            ),
        ];
        for (heard, delivered, text, json) in cases {
            let state = ConsumerState {
                doing: "keeping up".into(),
                restored: Some(Restored { heard }),
                ..ConsumerState::default()
            };
            let status = ConsumerStatus { state, delivered, ..ConsumerStatus::default() };
            assert_eq!(status.describe(), text);
            let out = serde_json::to_string(&status.state).unwrap();
            assert!(out.ends_with(&format!(",\"restored\":{json}}}")), "{out}");
        }
    }
}
