//! Times in CORBA's form: `TimeBase::TimeT`, in units of 100 ns, since 15 October 1582.

use std::time::{Duration, SystemTime};

/// Units from 15 October 1582 to 1 January 1970.
const TO_1970: u64 = 122_192_928_000_000_000;
const NANOS_PER_TICK: u128 = 100;

/// Converts a time to units of 100 ns since 15 October 1582, as in `TimeBase::TimeT` and ALMA's `ACS::Time`. Rounds down; earlier times are
/// 0.
#[must_use]
pub fn ticks_of(time: SystemTime) -> u64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => TO_1970.saturating_add(ticks_of_duration(since)),
        Err(before) => TO_1970.saturating_sub(ticks_of_duration(before.duration())),
    }
}

/// Converts such units to a time, the reverse of [`ticks_of`]. Times beyond the range of `SystemTime` become 1 January 1970.
#[must_use]
pub fn time_of(ticks: u64) -> SystemTime {
    let time = match ticks.checked_sub(TO_1970) {
        Some(since) => SystemTime::UNIX_EPOCH.checked_add(duration_of(since)),
        None => SystemTime::UNIX_EPOCH.checked_sub(duration_of(TO_1970 - ticks)),
    };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Converts a duration to units of 100 ns, rounded down, at most 58,000 years.
#[must_use]
pub fn ticks_of_duration(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos() / NANOS_PER_TICK).unwrap_or(u64::MAX)
}

/// Converts units of 100 ns to a duration.
#[must_use]
pub fn duration_of(ticks: u64) -> Duration {
    Duration::new(ticks / 10_000_000, u32::try_from(ticks % 10_000_000 * 100).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_as_they_were_to_100_ns() {
        for nanos in [0, 100, 1_700_000_000_123_456_700] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
            assert_eq!(time_of(ticks_of(time)), time);
        }
        assert_eq!(ticks_of(SystemTime::UNIX_EPOCH), 0x01B2_1DD2_1381_4000);
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(time_of(ticks_of(before)), before);
        assert_eq!(duration_of(ticks_of_duration(Duration::new(3, 199))), Duration::new(3, 100));
    }
}
