//! The start of a consumer in its channel's history.

use crate::settings::SettingsError;
use crate::time::ticks_of;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

/// The start of a consumer in the history of its channel, if that has one (its property `HistoryEvents`). Its events then have
/// [numbers](crate::EventNumber).
///
/// Displayed and parsed in the form of the service's property `StartFrom`: `first`, `last:100`, `after:12345`, `since:10m`, and, for a
/// time, `unix:1764000000.5`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartFrom {
    /// New events only, numbered.
    New,
    /// The first stored event.
    First,
    /// The event of this number.
    Number(u64),
    /// The event behind the one of this number: where a program that handled that one continues.
    After(u64),
    /// The first event that arrived at the service at this time or later.
    Time(SystemTime),
    /// The events of this last period.
    Since(Duration),
    /// The last so many events.
    Last(u64),
    /// The last event of each type.
    LastOfEachType,
    /// The last event of each value of this member.
    LastOfEach(String),
}

impl fmt::Display for StartFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("new"),
            Self::First => f.write_str("first"),
            Self::Number(number) => write!(f, "number:{number}"),
            Self::After(number) => write!(f, "after:{number}"),
            Self::Time(time) => write!(f, "time:{}", ticks_of(*time)),
            Self::Since(length) => write!(f, "since:{}ns", length.as_nanos()),
            Self::Last(count) => write!(f, "last:{count}"),
            Self::LastOfEachType => f.write_str("last-of-each-type"),
            Self::LastOfEach(member) => write!(f, "last-of-each:${member}"),
        }
    }
}

/// Units of time, in nanoseconds.
const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

impl FromStr for StartFrom {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        read(text).ok_or_else(|| SettingsError::Value {
            setting: "start_from",
            value: text.to_owned(),
            wanted: "new, first, number:N, after:N, last:N, since:10m, unix:SECONDS, last-of-each-type or last-of-each:MEMBER",
        })
    }
}

fn read(text: &str) -> Option<StartFrom> {
    Some(match text.split_once(':') {
        None if text == "new" => StartFrom::New,
        None if text == "first" => StartFrom::First,
        None if text == "last-of-each-type" => StartFrom::LastOfEachType,
        Some(("number", number)) => StartFrom::Number(number.parse().ok()?),
        Some(("after", number)) => StartFrom::After(number.parse().ok()?),
        Some(("last", count)) => StartFrom::Last(count.parse().ok()?),
        Some(("since", length)) => StartFrom::Since(duration(length)?),
        Some(("unix", seconds)) => {
            let since = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
            StartFrom::Time(SystemTime::UNIX_EPOCH.checked_add(since)?)
        }
        Some(("last-of-each", member)) if !member.is_empty() => {
            StartFrom::LastOfEach(member.strip_prefix('$').unwrap_or(member).to_owned())
        }
        _ => return None,
    })
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*nanos).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_others_are_refused_with_what_there_is() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
        for (text, start, property) in [
            ("new", StartFrom::New, "new"),
            ("first", StartFrom::First, "first"),
            ("number:7", StartFrom::Number(7), "number:7"),
            ("after:7", StartFrom::After(7), "after:7"),
            ("last:100", StartFrom::Last(100), "last:100"),
            ("since:10m", StartFrom::Since(Duration::from_secs(600)), "since:600000000000ns"),
            ("unix:1.5", StartFrom::Time(time), "time:122192928015000000"),
            ("last-of-each-type", StartFrom::LastOfEachType, "last-of-each-type"),
            ("last-of-each:$station", StartFrom::LastOfEach("station".into()), "last-of-each:$station"),
        ] {
            assert_eq!(text.parse::<StartFrom>().unwrap(), start);
            assert_eq!(start.to_string(), property);
        }
        for wrong in ["", "firts", "number:-1", "after:", "since:10", "since:10x", "unix:yesterday", "last-of-each:"] {
            let error = wrong.parse::<StartFrom>().unwrap_err().to_string();
            assert!(error.starts_with("start_from is ") && error.contains("after:N"), "{error}");
        }
    }
}
