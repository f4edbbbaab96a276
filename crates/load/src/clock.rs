//! The clock for latencies and for pacing traffic.

use rustix::io::Errno;
use rustix::thread::{ClockId, clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{Timespec, clock_gettime};

use crate::BenchError;

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// Nanoseconds of the system's monotonic clock, shared by all processes of a machine: timestamps of different threads can be subtracted.
pub fn now() -> u64 {
    from_timespec(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds that the calling thread has spent on a processor.
pub fn thread_cpu() -> u64 {
    from_timespec(clock_gettime(ClockId::ThreadCPUTime))
}

/// Sleeps until the monotonic clock shows `deadline` (nanoseconds).
///
/// Only a load generator's schedule needs to sleep: its arrivals must come at times fixed in advance, whatever the contender does. Absolute
/// deadlines keep the error of one wake-up out of the next one.
pub fn sleep_until(deadline: u64) -> Result<(), BenchError> {
    let request = to_timespec(deadline);
    loop {
        match clock_nanosleep_absolute(ClockId::Monotonic, &request) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(BenchError::errno("sleeping until an event is due")(errno)),
        }
    }
}

/// Makes the calling thread's sleeps end on time, instead of up to 50 µs late as by the kernel's default.
pub fn wake_on_time() {
    // Refused only by kernels older than this program can use; the schedule is then a little less even, which the
    // stamps of the schedule show.
    let _ = set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Seconds as nanoseconds, for durations from the command line.
pub fn nanoseconds(seconds: f64) -> u64 {
    std::time::Duration::try_from_secs_f64(seconds)
        .map_or(0, |duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Nanoseconds as seconds, for reports.
pub fn seconds(nanoseconds: u64) -> f64 {
    std::time::Duration::from_nanos(nanoseconds).as_secs_f64()
}

/// Nanoseconds as a time of the operating system.
pub fn to_timespec(nanoseconds: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(nanoseconds / SECOND).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanoseconds % SECOND).unwrap_or(0),
    }
}

fn from_timespec(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(SECOND).saturating_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_no_earlier_than_the_deadline() {
        let deadline = now() + 1000;
        sleep_until(deadline).unwrap();
        assert!(now() >= deadline);
    }

    #[test]
    fn converts_durations() {
        assert_eq!(nanoseconds(1.5), 1_500_000_000);
        assert_eq!(nanoseconds(-1.0), 0);
        assert!((seconds(2_500_000_000) - 2.5).abs() < 1e-9);
        assert_eq!(from_timespec(to_timespec(3_000_000_007)), 3_000_000_007);
    }
}
