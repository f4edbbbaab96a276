//! Moments as text, in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `2026-11-20T21:43:05.123Z`; times before 1970 are shown as its first moment.
pub(crate) fn rfc3339(moment: SystemTime) -> String {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (year, month, day) = date(since.as_secs() / 86_400);
    format!("{year:04}-{month:02}-{day:02}T{}", time(since))
}

/// `21:43:05.123Z`.
pub(crate) fn time_of_day(moment: SystemTime) -> String {
    time(moment.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
}

fn time(since: Duration) -> String {
    let seconds = since.as_secs();
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// Year, month and day of the day that is so many days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
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
}
