//! How each consumer stands and what was dropped for it, as Campanile's object `Statistics` tells it.

use crate::json;
use crate::show::clean;
use crate::statistics::idle;
use client::notify::EventType;
use client::{InvokeError, ObjectRef, Orb};
use giop::cdr::{ReadError, Reader, Writer};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Octets of the shortest `ConsumerStatistic`, `Statistic` and `DropStatistic`.
const CONSUMER_BYTES_MIN: usize = 64;
const STATISTIC_BYTES_MIN: usize = 16;
const DROP_BYTES_MIN: usize = 45;

/// One `ConsumerStatistic`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConsumerStatus {
    pub(crate) channel: u32,
    pub(crate) proxy: u32,
    /// Where it is, or nothing if it has not said.
    pub(crate) name: String,
    /// What it is doing: `active`, `suspended`, `socket full`, `failing` or `disconnected`.
    pub(crate) state: String,
    /// Another proxy of its channel to which the same object is connected.
    pub(crate) same_as: Option<u32>,
    /// For how many seconds it has been out of reach, where that is announced.
    pub(crate) unreachable_s: Option<u64>,
    /// That suppliers wait for it, if they do.
    pub(crate) holds: Option<Holds>,
    pub(crate) backlog_events: u64,
    pub(crate) backlog_bytes: u64,
    pub(crate) delivered: u64,
    pub(crate) dropped: u64,
    pub(crate) in_flight: u32,
    pub(crate) failures: u32,
    /// How many were dropped for each reason.
    pub(crate) reasons: Vec<(String, u64)>,
    /// How many of the backlog wait for their `StartTime`.
    pub(crate) delayed: u64,
    /// How many clients wait in `pull`.
    pub(crate) pulls_waiting: u32,
    /// What was dropped by event type and reason, what most first.
    pub(crate) drops: Vec<Drops>,
    /// That it was connected again when the service began, if it was.
    pub(crate) restored: Option<Restored>,
}

/// For how long suppliers wait for a consumer, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holds {
    pub(crate) for_s: u64,
    /// When that is over, it is disconnected; `None` if it is not.
    pub(crate) left_s: Option<u64>,
}

/// How many events of a type were dropped for a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drops {
    pub(crate) event_type: EventType,
    pub(crate) reason: String,
    pub(crate) events: u64,
}

impl ConsumerStatus {
    pub(crate) fn is_of(&self, proxy: i32) -> bool {
        u32::try_from(proxy) == Ok(self.proxy)
    }

    /// Where it is, of `consumer proxy 1 of channel 0 (127.0.0.1:4711 key)`; nothing if it gave no reference.
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

    /// Its state, and the suppliers that it holds, for people.
    pub(crate) fn describe(&self) -> String {
        let mut text = clean(&self.state);
        if let Some(other) = self.same_as {
            let _ = write!(text, ", SAME REFERENCE as proxy {other}");
        }
        if let Some(seconds) = self.unreachable_s {
            let _ = write!(text, ", UNREACHABLE for {seconds} s");
        }
        if let Some(Holds { for_s, left_s }) = self.holds {
            let _ = write!(text, ", HOLDS SUPPLIERS for {for_s} s, ");
            let _ = match left_s {
                Some(left) => write!(text, "for {left} s more at most"),
                None => write!(text, "and it is not disconnected for that"),
            };
        }
        if let Some(restored) = self.restored {
            restored.describe(self.delivered > 0, &mut text);
        }
        text
    }

    /// The same as members of a JSON object.
    pub(crate) fn write_state(&self, out: &mut String) {
        out.push_str(",\"state\":");
        json::text(out, &self.state);
        let numbers = [("same_reference_as", self.same_as.map(u64::from)), ("unreachable_seconds", self.unreachable_s)];
        for (name, number) in numbers {
            let number = number.map_or_else(|| "null".to_owned(), |number| number.to_string());
            let _ = write!(out, ",\"{name}\":{number}");
        }
        out.push_str(",\"holds_suppliers\":");
        match self.holds {
            None => out.push_str("null"),
            Some(Holds { for_s, left_s }) => {
                let left = left_s.map_or_else(|| "null".to_owned(), |left| left.to_string());
                let _ = write!(out, "{{\"for_seconds\":{for_s},\"seconds_left\":{left}}}");
            }
        }
        write_restored(self.restored, out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        let (channel, proxy, name) = (reader.u32()?, reader.u32()?, reader.text()?);
        let told = parse_state(&reader.text()?);
        Ok(Self {
            channel,
            proxy,
            name,
            state: told.doing,
            same_as: told.same_as,
            unreachable_s: told.unreachable_s,
            holds: told.holds,
            backlog_events: reader.u64()?,
            backlog_bytes: reader.u64()?,
            delivered: reader.u64()?,
            dropped: reader.u64()?,
            in_flight: reader.u32()?,
            failures: reader.u32()?,
            reasons: {
                let count = reader.seq_len(STATISTIC_BYTES_MIN)?;
                (0..count).map(|_| Ok((reader.text()?, reader.u64()?))).collect::<Result<_, _>>()?
            },
            delayed: reader.u64()?,
            pulls_waiting: reader.u32()?,
            drops: Vec::new(),
            restored: None,
        })
    }
}

/// What a consumer's state says.
struct ParsedState {
    doing: String,
    same_as: Option<u32>,
    unreachable_s: Option<u64>,
    holds: Option<Holds>,
}

/// The parts of `failing, SAME REFERENCE as proxy 12, UNREACHABLE for 75 s` or `active, HOLDS SUPPLIERS for 12 s, for 18 s more at most`
/// (`docs/idl/Campanile.idl`). What a later service says otherwise is left as it is.
fn parse_state(text: &str) -> ParsedState {
    let (mut doing, holds) = parse_hold(text);
    let mut take = |before: &str, behind: &str| -> Option<u64> {
        let (rest, told) = doing.split_once(before)?;
        let number = told.strip_suffix(behind)?.parse().ok()?;
        doing = rest.to_owned();
        Some(number)
    };
    let unreachable_s = take(", UNREACHABLE for ", " s");
    let same_as = take(", SAME REFERENCE as proxy ", "").and_then(|number| u32::try_from(number).ok());
    ParsedState { doing, same_as, unreachable_s, holds }
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

/// A client that was connected again when the service began, and how long ago it was heard of, if it was since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restored {
    pub(crate) heard: Option<Duration>,
}

/// Octets of the shortest `RestoredStatistic`.
const RESTORED_BYTES_MIN: usize = 17;

impl Restored {
    /// For people, behind what else is said of a client, which may have taken something.
    pub(crate) fn describe(self, has_taken: bool, text: &mut String) {
        let _ = match self.heard {
            Some(heard) => write!(text, ", restored, heard of {} ago", idle(heard)),
            None if has_taken => write!(text, ", restored"),
            None => write!(text, ", restored, not heard of since"),
        };
    }

    /// Those of all channels. A service of before this operation tells of none.
    pub(crate) fn read_all(statistics: &ObjectRef) -> HashMap<(u32, u32), Self> {
        let mut all = HashMap::new();
        let mut last = None;
        // The service answers in parts, each behind the last one.
        while let Some(more) = Self::read(statistics, last) {
            let before = last;
            last = more.last().map(|(key, _)| *key).filter(|key| Some(*key) > before);
            all.extend(more);
            if last.is_none() {
                break;
            }
        }
        all
    }

    fn read(statistics: &ObjectRef, behind: Option<(u32, u32)>) -> Option<Vec<((u32, u32), Self)>> {
        let operation = if behind.is_some() { "get_restored_behind" } else { "get_restored" };
        let write = |w: &mut Writer<'_>| {
            behind.iter().flat_map(|(channel, proxy)| [*channel, *proxy]).for_each(|number| w.u32(number))
        };
        let told = statistics.invoke(operation, write).ok()?.read(operation, |reader| {
            let count = reader.seq_len(RESTORED_BYTES_MIN)?;
            let read = |reader: &mut Reader<'_>| {
                let (key, is_heard, idle) = ((reader.u32()?, reader.u32()?), reader.bool()?, reader.u64()?);
                Ok((key, Self { heard: is_heard.then(|| Duration::from_millis(idle)) }))
            };
            (0..count).map(|_| read(reader)).collect::<Result<Vec<_>, ReadError>>()
        });
        told.ok()
    }
}

/// As a member of a JSON object that has others already.
pub(crate) fn write_restored(restored: Option<Restored>, out: &mut String) {
    let heard = |heard: Option<Duration>| heard.map_or_else(|| "null".to_owned(), |heard| heard.as_secs().to_string());
    let _ = match restored {
        None => write!(out, ",\"restored\":null"),
        Some(restored) => write!(out, ",\"restored\":{{\"heard_seconds_ago\":{}}}", heard(restored.heard)),
    };
}

/// The consumers of a channel; `None` if the service does not tell, being another one than Campanile.
pub(crate) fn read(orb: &Orb, address: &str, channel: u32) -> Option<Vec<ConsumerStatus>> {
    let statistics = orb.resolve(&format!("corbaloc::{address}/Statistics")).ok()?;
    let mut statuses = read_all(&statistics).ok()?;
    statuses.retain(|status| status.channel == channel);
    let restored = Restored::read_all(&statistics);
    statuses.iter_mut().for_each(|found| found.restored = restored.get(&(found.channel, found.proxy)).copied());
    // A service of before this operation tells the rest all the same.
    for (key, drops) in read_drops(&statistics).unwrap_or_default() {
        if let Some(status) = statuses.iter_mut().find(|status| (status.channel, status.proxy) == key) {
            status.drops.push(drops);
        }
    }
    Some(statuses)
}

/// The consumers of all channels, the largest backlog first, from the object `Statistics`.
pub(crate) fn read_all(statistics: &ObjectRef) -> Result<Vec<ConsumerStatus>, InvokeError> {
    statistics.invoke("get_consumers", |_| ())?.read("get_consumers", |reader| {
        let count = reader.seq_len(CONSUMER_BYTES_MIN)?;
        (0..count).map(|_| ConsumerStatus::read(reader)).collect::<Result<Vec<_>, ReadError>>()
    })
}

/// What was dropped, each with the channel and proxy of its consumer.
fn read_drops(statistics: &ObjectRef) -> Option<Vec<((u32, u32), Drops)>> {
    let reply = statistics.invoke("get_drops", |_| ()).ok()?;
    let read = |reader: &mut Reader<'_>| {
        let key = (reader.u32()?, reader.u32()?);
        let _name = reader.string()?;
        let event_type = EventType::new(&reader.text()?, &reader.text()?);
        Ok::<_, ReadError>((key, Drops { event_type, reason: reader.text()?, events: reader.u64()? }))
    };
    let drops = reply.read("get_drops", |reader| {
        let count = reader.seq_len(DROP_BYTES_MIN)?;
        let drops = (0..count).map(|_| read(reader)).collect::<Result<Vec<_>, _>>()?;
        let _others = reader.u64()?;
        Ok::<_, ReadError>(drops)
    });
    drops.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_found_behind_names_with_anything_in_them() {
        for (name, client) in [
            ("consumer proxy 1 of channel 0 (h:1 a(b))", Some("h:1 a(b)")),
            (r#"consumer proxy 1 "x (y) \"(" of channel 0 "(\\" (h:1 k)"#, Some("h:1 k")),
            (r#"consumer proxy 1 "(no)" of channel 0"#, None),
        ] {
            assert_eq!(ConsumerStatus { name: name.into(), ..ConsumerStatus::default() }.client(), client, "{name}");
        }
    }

    #[test]
    fn the_suppliers_that_a_consumer_blocks_are_reported_apart_from_what_it_is_doing() {
        let until = "active, HOLDS SUPPLIERS for 12 s, for 18 s more at most";
        let for_ever = "suspended, HOLDS SUPPLIERS for 12 s, and it is not disconnected for that";
        let cases = [
            ("socket full", "socket full", "null", None),
            (until, "active", r#"{"for_seconds":12,"seconds_left":18}"#, Some(Some(18))),
            (for_ever, "suspended", r#"{"for_seconds":12,"seconds_left":null}"#, Some(None)),
            ("failing, UNREACHABLE for 75 s", "failing", "null", None),
            ("active, SAME REFERENCE as proxy 12", "active", "null", None),
            ("failing, SAME REFERENCE as proxy 12, UNREACHABLE for 75 s", "failing", "null", None),
            ("new, HOLDS SUPPLIERS for ever", "new, HOLDS SUPPLIERS for ever", "null", None),
        ];
        for (told, state, json, left) in cases {
            let ParsedState { doing, same_as, unreachable_s, holds } = parse_state(told);
            let status = ConsumerStatus { state: doing, same_as, unreachable_s, holds, ..ConsumerStatus::default() };
            assert_eq!((status.state.as_str(), status.holds.map(|holds| holds.left_s)), (state, left));
            assert_eq!(status.describe(), told);
            let mut out = String::new();
            status.write_state(&mut out);
            let number = |number: Option<u64>| number.map_or_else(|| "null".to_owned(), |number| number.to_string());
            let expected = format!(
                ",\"state\":\"{state}\",\"same_reference_as\":{},\"unreachable_seconds\":{},\"holds_suppliers\":{json},\"restored\":null",
                number(same_as.map(u64::from)),
                number(unreachable_s)
            );
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn of_a_client_that_was_restored_it_is_said_when_it_was_heard_of() {
        let cases = [
            (None, 0, "active, restored, not heard of since", "{\"heard_seconds_ago\":null}"),
            (None, 3, "active, restored", "{\"heard_seconds_ago\":null}"),
            (Some(Duration::from_secs(130)), 0, "active, restored, heard of 2 min ago", "{\"heard_seconds_ago\":130}"),
        ];
        for (heard, delivered, text, json) in cases {
            let restored = Some(Restored { heard });
            let status = ConsumerStatus { state: "active".into(), delivered, restored, ..ConsumerStatus::default() };
            assert_eq!(status.describe(), text);
            let mut out = String::new();
            status.write_state(&mut out);
            assert!(out.ends_with(&format!(",\"restored\":{json}")), "{out}");
        }
    }
}
