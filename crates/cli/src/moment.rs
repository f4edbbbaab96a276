//! Points in time as text, in UTC.

use ::json::time::{self, TICKS_TO_1970, date};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Formats as `2026-11-20T21:43:05.123Z`; times before 1970 are shown as its first moment.
pub(crate) fn rfc3339(moment: SystemTime) -> String {
    let mut text = String::new();
    time::rfc3339(&mut text, moment.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO));
    text
}

/// Formats as `21:43:05.123Z`.
pub(crate) fn time_of_day(moment: SystemTime) -> String {
    let mut text = String::new();
    time::time_of_day(&mut text, moment.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO));
    text
}

/// Parses `2026-11-20T21:43:05.123Z` into 100 ns since 15 October 1582, as in `TimeBase::TimeT`.
pub(crate) fn ticks(text: &str) -> Option<u64> {
    let (day, of_day) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, between: char| -> Option<[u64; 3]> {
        let parts: Vec<&str> = text.split(between).collect();
        let is_number = |part: &&str| part.len() <= 4 && part.bytes().all(|digit| digit.is_ascii_digit());
        let numbers: Option<Vec<u64>> =
            parts.iter().map(|part| part.parse().ok().filter(|_| is_number(part))).collect();
        numbers?.try_into().ok()
    };
    let (whole, fraction) = of_day.split_once('.').unwrap_or((of_day, "0"));
    let ([year, month, of_month], [hour, minute, second]) = (numbers(day, '-')?, numbers(whole, ':')?);
    let is_digits = (1..=7).contains(&fraction.len()) && fraction.bytes().all(|digit| digit.is_ascii_digit());
    if hour > 23 || minute > 59 || second > 60 || !is_digits {
        return None;
    }
    // Years from 1970 on, the one in which the day is among them: a day is found by what it is written as.
    let guess = year.checked_sub(1970)? * 365 + (month.checked_sub(1)?) * 28 + of_month.checked_sub(1)?;
    let day = (guess..guess + 10_000).find(|day| date(*day) == (year, month, of_month))?;
    let hundred_ns = format!("{fraction:0<7}").parse::<u64>().ok()?;
    let seconds = day * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(TICKS_TO_1970 + seconds * 10_000_000 + hundred_ns)
}

/// Formats 100 ns since 15 October 1582, as [`ticks`] parses them.
pub(crate) fn of_ticks(ticks: u64) -> String {
    UNIX_EPOCH.checked_add(time::since_1970(ticks)).map_or_else(|| ticks.to_string(), rfc3339)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_000_000_000, "2001-09-09T01:46:40.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        assert_eq!(time_of_day(UNIX_EPOCH + Duration::from_millis(3_661_007)), "01:01:01.007Z");
    }

    #[test]
    fn moments_are_read_as_they_are_written() {
        for seconds in [0, 1, 86_399, 951_782_400, 1_732_441_385, 4_102_444_800, 250_000_000_000] {
            let text = rfc3339(UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(ticks(&text), Some(TICKS_TO_1970 + seconds * 10_000_000), "{text}");
            assert_eq!(of_ticks(TICKS_TO_1970 + seconds * 10_000_000), text);
        }
        assert_eq!(ticks("1970-01-01T00:00:00.0000012Z"), Some(TICKS_TO_1970 + 12));
        for wrong in [
            "",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-02-30T00:00:00Z",
            "1969-12-31T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-00-01T00:00:00Z",
            "1970-1T0:0:0Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00.12345678Z",
            "1970-01-01T+1:00:00Z",
        ] {
            assert_eq!(ticks(wrong), None, "{wrong}");
        }
    }
}
