//! `StartFrom` as people write it.

use engine::{FieldName, StartFrom};
use std::time::Duration;

/// Forms of a value, as listed in the available range.
pub const START_FROM_RANGE: &str =
    "new|first|number:N|after:N|last:N|since:10m|time:N|last-of-each-type|last-of-each:FIELD";

/// Units of time, the largest first, in nanoseconds.
const UNITS: &[(&str, u64)] = &[
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Parses a position in a channel's history, in the format of the property `StartFrom`. `None` if invalid.
#[must_use]
pub fn parse(text: &str) -> Option<StartFrom> {
    match text {
        "new" => return Some(StartFrom::New),
        "first" => return Some(StartFrom::First),
        "last-of-each-type" => return Some(StartFrom::LastOfEachType),
        _ => {}
    }
    if let Some(field) = text.strip_prefix("last-of-each:") {
        let name = field.strip_prefix('$').unwrap_or(field);
        return FieldName::new(name).ok().map(StartFrom::LastOfEach);
    }
    let (word, value) = text.split_once(':')?;
    let number = || value.parse().ok();
    match word {
        "number" => number().map(StartFrom::Number),
        "after" => number().map(StartFrom::After),
        "last" => number().map(StartFrom::Last),
        "time" => number().map(StartFrom::Time),
        "since" => duration(value).map(StartFrom::Since),
        _ => None,
    }
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*nanos).map(Duration::from_nanos)
}

/// The text that names a place.
pub(crate) fn reported(start: StartFrom) -> String {
    match start {
        StartFrom::New => "new".into(),
        StartFrom::First => "first".into(),
        StartFrom::Number(number) => format!("number:{number}"),
        StartFrom::After(number) => format!("after:{number}"),
        StartFrom::Last(count) => format!("last:{count}"),
        StartFrom::Since(time) => {
            let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            let whole = UNITS.iter().find(|(_, unit)| nanos.is_multiple_of(*unit) && nanos > 0);
            let (unit, size) = whole.copied().unwrap_or(("s", 1_000_000_000));
            format!("since:{}{unit}", nanos / size)
        }
        StartFrom::Time(time) => format!("time:{time}"),
        StartFrom::LastOfEachType => "last-of-each-type".into(),
        StartFrom::LastOfEach(field) => format!("last-of-each:${}", field.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_reported_as_it_is_read() {
        for text in [
            "new",
            "first",
            "number:12345",
            "number:18446744073709551615",
            "after:12345",
            "last:0",
            "since:10m",
            "since:1500ms",
            "since:0s",
            "since:36500d",
            "time:139000000000000000",
            "last-of-each-type",
            "last-of-each:$antenna",
        ] {
            assert_eq!(parse(text).map(reported).as_deref(), Some(text));
        }
        assert_eq!(parse("last-of-each:antenna"), parse("last-of-each:$antenna"));
        assert_eq!(parse("since:60s").map(reported).as_deref(), Some("since:1m"));
    }

    #[test]
    fn what_is_no_place_is_none() {
        let long = format!("last-of-each:{}", "x".repeat(48));
        for text in [
            "",
            "now",
            "number",
            "number:",
            "number:-1",
            "number:1.5",
            "last",
            "after:",
            "last:many",
            "since",
            "since:10",
            "since:m",
            "since:10 m",
            "since:99999999999d",
            "time:yesterday",
            "last-of-each:",
            "last-of-each:$",
            &long,
            "first ",
            "Number 1",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
