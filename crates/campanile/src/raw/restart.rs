//! Waiting of `publish` while the service is away, as during its restart.
//!
//! An event is tried again only if it certainly was not taken, and only after a temporary failure
//! ([`InvokeError::is_connection_failure`](client::InvokeError::is_connection_failure)). Pauses between attempts grow, each shortened at
//! random ([`Backoff`]), so that the suppliers of a restarted service do not come all at once. Threads of one supplier wait independently;
//! the first success wakes the others.

use crate::error::Error;
use client::Backoff;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Interval of checks whether the caller still waits.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The waits of one supplier.
#[derive(Debug)]
pub(super) struct Restart {
    /// Longest time that one event waits; zero for not at all.
    limit: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of waiting threads.
    waiting: u32,
    /// Number of events published after a wait.
    returns: u64,
    is_stopped: bool,
}

impl Restart {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Publishes by `attempt`, repeatedly while the service is away. While it waits, `goes_on` is called every 50 ms; once that returns
    /// false, the last failure is the result.
    pub(super) fn outlast(
        &self,
        channel: &str,
        mut attempt: impl FnMut() -> Result<(), Error>,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<(), Error> {
        let mut begun: Option<Wait<'_>> = None;
        loop {
            let error = match attempt() {
                Err(error) if may_pass(&error) => error,
                outcome => {
                    if let (Ok(()), Some(wait)) = (&outcome, begun) {
                        wait.succeed(channel);
                    }
                    return outcome;
                }
            };
            let wait = match &mut begun {
                Some(wait) => wait,
                None if self.limit.is_zero() => return Err(error),
                None => begun.insert(Wait::new(self, channel, &error)),
            };
            if !wait.pause(&mut goes_on) {
                return Err(error);
            }
        }
    }

    /// Number of waiting threads.
    pub(super) fn waiting(&self) -> u32 {
        self.lock().waiting
    }

    /// Ends all waits, and prevents further ones.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the event was certainly not taken, for a temporary reason.
fn may_pass(error: &Error) -> bool {
    matches!(error, Error::Service(error) if error.is_connection_failure() && error.was_not_carried_out())
}

/// The wait of one thread with one event.
struct Wait<'a> {
    restart: &'a Restart,
    /// End of the wait; `None` if beyond the clock's range.
    ends: Option<Instant>,
    backoff: Backoff,
}

impl<'a> Wait<'a> {
    fn new(restart: &'a Restart, channel: &str, error: &Error) -> Self {
        let mut state = restart.lock();
        state.waiting += 1;
        if state.waiting == 1 && !state.is_stopped {
            log::warn!("publishing into {channel} waits for its service, for up to {:?}: {error}", restart.limit);
        }
        Self { restart, ends: Instant::now().checked_add(restart.limit), backoff: Backoff::up_to(PAUSE_MAX) }
    }

    /// Waits until the next attempt is due. Returns `false` if there is none.
    fn pause(&mut self, goes_on: &mut impl FnMut() -> bool) -> bool {
        let now = Instant::now();
        if self.ends.is_some_and(|ends| ends <= now) {
            return false;
        }
        let due = now + self.backoff.failed(now);
        let due = self.ends.map_or(due, |ends| ends.min(due));
        let returns = self.restart.lock().returns;
        loop {
            let state = self.restart.lock();
            if state.is_stopped {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() || state.returns != returns {
                return true;
            }
            drop(self.restart.changed.wait_timeout(state, left.min(LOOK_EVERY)));
            // Without the lock: the caller may have to wait for a thread that stops the waits.
            if !goes_on() {
                return false;
            }
        }
    }

    /// Ends the wait of this thread after its event was published, and wakes the others.
    fn succeed(self, channel: &str) {
        let mut state = self.restart.lock();
        state.returns += 1;
        if state.waiting == 1 {
            log::info!("publishing into {channel} goes on");
        }
        drop(state);
        self.restart.changed.notify_all();
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.restart.lock().waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::InvokeError;
    use giop::exception::Completed;
    use std::cell::Cell;
    use testing::{EndInTime, PATIENCE, wait_until};

    fn lost(completed: Completed) -> Error {
        let (address, operation, reason) = ("127.0.0.1:1".into(), "push".into(), "closed".into());
        Error::Service(InvokeError::Lost { address, operation, reason, completed })
    }

    #[test]
    fn an_event_that_was_not_taken_is_tried_again_and_one_that_may_have_been_never() {
        let restart = Restart::new(PATIENCE);
        let attempts = Cell::new(0);
        let mut outcomes = vec![Ok(()), Err(lost(Completed::No)), Err(lost(Completed::No))];
        let next = || {
            attempts.set(attempts.get() + 1);
            outcomes.pop().unwrap()
        };
        restart.outlast("Weather", next, || true).unwrap();
        assert_eq!((attempts.get(), restart.waiting()), (3, 0));
        for completed in [Completed::Maybe, Completed::Yes] {
            attempts.set(0);
            // It fails in the second attempt: the first was not carried out, and so it was waited for.
            let mut outcomes = vec![Err(lost(completed)), Err(lost(Completed::No))];
            let next = || {
                attempts.set(attempts.get() + 1);
                outcomes.pop().unwrap()
            };
            let error = restart.outlast("Weather", next, || true).unwrap_err();
            assert!(!error.was_not_carried_out());
            assert_eq!(attempts.get(), 2);
        }
        let closed = restart.outlast("Weather", || Err(Error::Service(InvokeError::Closed)), || true);
        assert!(closed.is_err(), "a closed supplier is not waited for");
    }

    #[test]
    fn a_wait_lasts_as_long_as_the_setting_says_and_zero_is_none() {
        for (limit, at_least) in [(0, 1), (70, 3)] {
            let restart = Restart::new(Duration::from_millis(limit));
            let (begun, attempts) = (Instant::now(), Cell::new(0));
            let fails = || {
                attempts.set(attempts.get() + 1);
                Err(lost(Completed::No))
            };
            assert!(restart.outlast("Weather", fails, || true).unwrap_err().was_not_carried_out());
            assert!(begun.elapsed() >= Duration::from_millis(limit));
            assert!(attempts.get() >= at_least && (limit > 0 || attempts.get() == 1), "{}", attempts.get());
        }
    }

    #[test]
    fn a_caller_that_does_not_want_to_wait_any_more_is_asked_while_it_waits() {
        let restart = Restart::new(Duration::MAX);
        let asked = Cell::new(0);
        let goes_on = || {
            asked.set(asked.get() + 1);
            asked.get() < 5
        };
        restart.outlast("Weather", || Err(lost(Completed::No)), goes_on).unwrap_err();
        assert_eq!(asked.get(), 5);
    }

    #[test]
    fn all_threads_that_wait_are_ended_together_and_no_wait_begins_any_more() {
        let restart = Restart::new(Duration::MAX);
        let fails = || Err(lost(Completed::No));
        std::thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(|| restart.outlast("Weather", fails, || true).is_err()));
            wait_until("all to wait", || restart.waiting() == 3);
            restart.stop();
            assert!(threads.map(EndInTime::end_in_time).iter().all(|failed| *failed));
        });
        restart.outlast("Weather", fails, || true).unwrap_err();
        assert_eq!(restart.waiting(), 0);
    }
}
