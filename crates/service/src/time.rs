//! Clocks of this crate: every reading of the system's clocks is made here.
//!
//! In the crate's own tests a thread may have [a simulation](crate::simulation), and its clock is read instead.

use core::time::Duration;
use std::time::{Instant, SystemTime};

/// A lane's clock beside the world's.
pub(crate) use corba::event::UtcClock;

/// Monotonic time.
#[inline]
pub(crate) fn now() -> Instant {
    #[cfg(test)]
    if let Some(now) = crate::simulation::now() {
        return now;
    }
    Instant::now()
}

/// Time elapsed since `then`.
#[inline]
pub(crate) fn since(then: Instant) -> Duration {
    now().saturating_duration_since(then)
}

/// The world's time since 1 January 1970.
#[inline]
pub(crate) fn since_1970() -> Duration {
    #[cfg(test)]
    if let Some(time) = crate::simulation::since_1970() {
        return time;
    }
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The world's time as a `TimeBase::TimeT`: in 100 ns since 15 October 1582.
pub(crate) fn utc() -> u64 {
    UtcClock::new(engine::Time(0), since_1970()).utc
}
