//! Timestamps as text, in UTC: RFC 3339.

use crate::write::{Sink, plain};
use core::time::Duration;

/// From 15 October 1582, when `TimeBase::TimeT` begins, to 1 January 1970, in units of 100 ns.
pub const TICKS_TO_1970: u64 = 122_192_928_000_000_000;

/// Writes `2026-11-20T21:43:05.123Z`; `since` is counted from 1 January 1970.
pub fn rfc3339(out: &mut impl Sink, since: Duration) {
    let (year, month, day) = date(since.as_secs() / 86_400);
    plain(out, format_args!("{year:04}-{month:02}-{day:02}T"));
    time_of_day(out, since);
}

/// Writes the time of day, as `21:43:05.123Z`.
pub fn time_of_day(out: &mut impl Sink, since: Duration) {
    let seconds = since.as_secs();
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    plain(out, format_args!("{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis()));
}

/// Converts units of 100 ns since 15 October 1582 to the time since 1970; 0 for a time before 1970.
#[must_use]
pub fn since_1970(ticks: u64) -> Duration {
    Duration::from_micros(ticks.saturating_sub(TICKS_TO_1970) / 10)
}

/// Year, month and day of the day number `days` after 1970-01-01.
#[must_use]
pub fn date(days: u64) -> (u64, u64, u64) {
    // The calendar repeats every 400 years, which are 146,097 days. Years are counted from March here, so that the leap
    // day is the last of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}
