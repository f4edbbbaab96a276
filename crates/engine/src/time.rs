//! Time as the engine is given it: a count of nanoseconds from an origin that the caller chooses.
//!
//! The engine never reads a clock. Durations are [`core::time::Duration`]; sums saturate rather than wrap, so that an
//! unlimited time limit stays in the future.

use core::ops::Add;
use core::time::Duration;

/// A moment, in nanoseconds since an origin the caller chose. Monotonic: the caller never passes an earlier one than
/// before (if it does, nothing breaks; time limits fire later).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(
    /// Nanoseconds since the origin, 0..=`u64::MAX` (about 584 years).
    pub u64,
);

impl Time {
    /// Time from `earlier` to this moment; zero if `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// The moment `duration` later; saturates at `Time(u64::MAX)`.
    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_a_duration() {
        assert_eq!(Time(5) + Duration::from_micros(1), Time(1_005));
    }

    #[test]
    fn saturates_instead_of_wrapping() {
        assert_eq!(Time(5) + Duration::MAX, Time(u64::MAX));
        assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
    }
}
