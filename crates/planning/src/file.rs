//! The files of `campanile plan`: activities with times such as `2.5ms`. Errors are reported with their line.

use super::{Activity, PlanError, Policy, Request};
use serde::Deserialize;
use std::fmt;
use toml::Spanned;

/// Units of time, the largest first, with their nanoseconds.
const UNITS: [(&str, u64); 5] =
    [("min", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// A set of activities, and the requested analysis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanningFile {
    /// The requested analysis.
    pub request: Request,
    /// The activities, in the file's order.
    pub activities: Vec<Activity>,
    /// The line at which each activity begins, counted from 1.
    pub lines: Vec<usize>,
}

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The line, counted from 1.
    pub line: Option<usize>,
    /// What is wrong there, and what is expected.
    pub why: String,
}

impl FileError {
    pub(super) fn new(text: &str, error: &toml::de::Error) -> Self {
        let line = error.span().map(|span| line_of(text, span.start));
        Self { line, why: error.message().trim().replace('\n', ", ") }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for FileError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    policy: Option<Spanned<String>>,
    cpus: Option<u16>,
    lanes_max: Option<u16>,
    #[serde(rename = "activity", default)]
    activities: Vec<Spanned<RawActivity>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawActivity {
    name: String,
    #[serde(default)]
    channel: u32,
    #[serde(rename = "type")]
    event_type: Option<Spanned<String>>,
    #[serde(alias = "minimum_interval")]
    period: Spanned<String>,
    execution_time: Spanned<String>,
    deadline: Option<Spanned<String>>,
    jitter: Option<Spanned<String>>,
    blocking: Option<Spanned<String>>,
    #[serde(default)]
    criticality: i16,
}

impl PlanningFile {
    /// Parses a file of activities.
    ///
    /// # Errors
    /// [`FileError`] with the line and what is wrong there.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let raw: RawFile = toml::from_str(text).map_err(|error| FileError::new(text, &error))?;
        let at = |start: usize, why: String| FileError { line: Some(line_of(text, start)), why };
        let policy = match &raw.policy {
            None => None,
            Some(name) => Some(Policy::of_short_name(name.get_ref()).ok_or_else(|| {
                at(name.span().start, format!("{:?} is no policy; there are rm, dm, edf, llf and muf", name.get_ref()))
            })?),
        };
        let default = Request::default();
        let request = Request {
            policy,
            cpus: raw.cpus.unwrap_or(default.cpus),
            lanes_max: raw.lanes_max.unwrap_or(default.lanes_max),
        };
        let mut file = Self { request, activities: Vec::new(), lines: Vec::new() };
        for raw in raw.activities {
            file.lines.push(line_of(text, raw.span().start));
            file.activities.push(activity(raw.into_inner()).map_err(|(start, why)| at(start, why))?);
        }
        Ok(file)
    }

    /// An error of the analysis, with the line of the activity concerned.
    #[must_use]
    pub fn locate(&self, error: &PlanError) -> FileError {
        match error {
            PlanError::Activity { index, why } => FileError { line: self.lines.get(*index).copied(), why: why.clone() },
            PlanError::Request(why) => FileError { line: None, why: why.clone() },
        }
    }
}

/// Converts one activity; an error includes its place in the file.
fn activity(raw: RawActivity) -> Result<Activity, (usize, String)> {
    let time = |text: &Spanned<String>| {
        parse_time(text.get_ref()).map_err(|why| (text.span().start, format!("{:?} is no time: {why}", text.get_ref())))
    };
    let optional = |text: &Option<Spanned<String>>| text.as_ref().map(time).transpose();
    let (domain, type_name) = match &raw.event_type {
        None => (String::new(), String::new()),
        Some(text) => match text.get_ref().split_once('/') {
            Some((domain, name)) if !name.is_empty() => (domain.to_owned(), name.to_owned()),
            _ => {
                let why = format!("{:?} is no event type: expected \"DOMAIN/NAME\"", text.get_ref());
                return Err((text.span().start, why));
            }
        },
    };
    let period = time(&raw.period)?;
    Ok(Activity {
        name: raw.name,
        channel: raw.channel,
        domain,
        type_name,
        period,
        execution_time: time(&raw.execution_time)?,
        deadline: optional(&raw.deadline)?.unwrap_or(period),
        jitter: optional(&raw.jitter)?.unwrap_or(0),
        blocking: optional(&raw.blocking)?.unwrap_or(0),
        criticality: raw.criticality,
    })
}

pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|octet| *octet == b'\n').count() + 1
}

/// Parses a time such as `10ms`, `2.5 us` or `1s`: a decimal number and one of `ns`, `us`, `ms`, `s`, `min`. Returns
/// nanoseconds.
///
/// # Errors
/// What is wrong with it.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let unit = unit.trim_start().replace('µ', "u");
    let example = "write a number and a unit, such as \"10ms\" or \"2.5us\" (ns, us, ms, s, min)";
    let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(|| example.to_owned())?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let too_long = || "it is too long".to_owned();
    let parse = |digits: &str| {
        if digits.is_empty() || !digits.bytes().all(|octet| octet.is_ascii_digit()) {
            return Err(example.to_owned());
        }
        digits.parse::<u64>().map_err(|_| too_long())
    };
    let whole = parse(whole)?.checked_mul(*nanoseconds).ok_or_else(too_long)?;
    parse(fraction)?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        return Ok(whole);
    }
    let scale =
        u32::try_from(fraction.len()).ok().and_then(|digits| 10_u128.checked_pow(digits)).ok_or_else(too_long)?;
    let part = u128::from(parse(fraction)?) * u128::from(*nanoseconds);
    if !part.is_multiple_of(scale) {
        return Err("it is no whole number of nanoseconds".to_owned());
    }
    whole.checked_add(u64::try_from(part / scale).map_err(|_| too_long())?).ok_or_else(too_long)
}

/// Formats a time so that [`parse_time`] returns exactly the same: `2.5ms`.
#[must_use]
pub fn format_time(nanoseconds: u64) -> String {
    // Minutes are for reading only: 1.5min is hard to compare with 40s.
    let fitting = UNITS.iter().skip(1).find(|(_, unit)| nanoseconds >= *unit);
    let (name, unit) = fitting.copied().unwrap_or(("ns", 1));
    let (whole, rest) = (nanoseconds / unit, nanoseconds % unit);
    if rest == 0 {
        return format!("{whole}{name}");
    }
    let digits = unit.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{}{name}", fraction.trim_end_matches('0'))
}

/// Serialises times as text.
pub(super) mod time {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(time: &u64, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&super::format_time(*time))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        super::parse_time(&text).map_err(|why| D::Error::custom(format!("{text:?} is no time: {why}")))
    }
}

/// Serialises optional times as text.
pub(super) mod optional_time {
    use serde::{Deserializer, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(time: &Option<u64>, out: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => super::time::serialize(time, out),
            None => out.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        super::time::deserialize(from).map(Some)
    }
}
