//! What time it is: everything in this crate that asks the system for it asks here.
//!
//! In the crate's own tests a thread may have [a simulation](crate::simulation), which has the clock that is read then.

use core::time::Duration;
use std::time::{Instant, SystemTime};

/// A lane's clock and the world's beside each other.
pub(crate) use corba::event::UtcClock;

/// The time that never goes back.
#[inline]
pub(crate) fn now() -> Instant {
    #[cfg(test)]
    if let Some(now) = crate::simulation::now() {
        return now;
    }
    Instant::now()
}

/// How long that time is past.
#[inline]
pub(crate) fn since(then: Instant) -> Duration {
    now().saturating_duration_since(then)
}

/// The world's time, after 1 January 1970.
#[inline]
pub(crate) fn since_1970() -> Duration {
    #[cfg(test)]
    if let Some(time) = crate::simulation::since_1970() {
        return time;
    }
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The same as a `TimeBase::TimeT`: in 100 ns since 15 October 1582.
pub(crate) fn utc() -> u64 {
    UtcClock::new(engine::Time(0), since_1970()).utc
}
