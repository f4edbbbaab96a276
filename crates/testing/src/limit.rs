//! Waits for something in the test's own process.

use std::fmt;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Limit of a wait, far beyond need.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Limit of a wait for a whole test suite, a compiler or an installer. `.cargo/watched`, which ends silent programs, must allow more.
pub const SUITE_PATIENCE: Duration = Duration::from_secs(240);

/// Waits until a condition holds. Between checks it yields; after the first 10 ms it sleeps for a millisecond, so that threads of low
/// priority make progress.
///
/// # Panics
/// The condition does not hold within [`PATIENCE`]; `what` names it.
#[track_caller]
pub fn wait_until(what: impl fmt::Display, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        let elapsed = began.elapsed();
        assert!(elapsed < PATIENCE, "waited a minute for {what}");
        if elapsed < Duration::from_millis(10) {
            thread::yield_now();
        } else {
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// A channel with a limited wait for its next item.
pub trait NextInTime<T> {
    /// Returns the next item; `None` if there is no sender any more.
    ///
    /// # Panics
    /// Nothing arrives within [`PATIENCE`].
    #[track_caller]
    fn next_or_end(&self) -> Option<T>;

    /// Returns the next item.
    ///
    /// # Panics
    /// Nothing arrives within [`PATIENCE`], or nothing can.
    #[track_caller]
    fn next_in_time(&self) -> T {
        match self.next_or_end() {
            Some(next) => next,
            None => panic!("no sender is left for the next `{}`", core::any::type_name::<T>()),
        }
    }
}

impl<T> NextInTime<T> for Receiver<T> {
    fn next_or_end(&self) -> Option<T> {
        match self.recv_timeout(PATIENCE) {
            Ok(next) => Some(next),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("waited a minute for the next `{}`", core::any::type_name::<T>()),
        }
    }
}

/// A thread with a limited wait for its end.
pub trait EndInTime<T> {
    /// Joins the thread and returns its result. If it panicked, so does the caller.
    ///
    /// # Panics
    /// The thread does not end within [`PATIENCE`]. It keeps running, but the test has failed.
    #[track_caller]
    fn end_in_time(self) -> T;
}

impl<T> EndInTime<T> for JoinHandle<T> {
    fn end_in_time(self) -> T {
        let name = self.thread().name().unwrap_or("that the test started").to_owned();
        wait_until(format_args!("the end of a thread {name}"), || self.is_finished());
        self.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl<T> EndInTime<T> for ScopedJoinHandle<'_, T> {
    /// The scope still waits for the thread after a timeout, so the thread's own waits must have limits.
    fn end_in_time(self) -> T {
        wait_until("the end of a thread that the test started", || self.is_finished());
        self.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// A listening socket with a limited wait for a connection.
pub trait AcceptInTime {
    /// Accepts the next connection. Reads from it have the same limit.
    ///
    /// # Panics
    /// No client connects within [`PATIENCE`].
    #[track_caller]
    fn accept_in_time(&self) -> TcpStream;
}

impl AcceptInTime for TcpListener {
    fn accept_in_time(&self) -> TcpStream {
        let limit = Timespec::try_from(PATIENCE).ok();
        let ready = poll(&mut [PollFd::new(self, PollFlags::IN)], limit.as_ref());
        assert!(ready.is_ok_and(|count| count > 0), "waited a minute for a connection to {:?}", self.local_addr());
        match self.accept() {
            Ok((stream, _)) => {
                patient(&stream);
                stream
            }
            Err(error) => panic!("a connection to {:?} cannot be accepted: {error}", self.local_addr()),
        }
    }
}

/// Unwraps the result of reading a [`patient`] socket; `None` if the other end has closed or reset it.
///
/// # Panics
/// Nothing arrived in time.
#[track_caller]
pub fn unless_closed<T>(read: io::Result<T>) -> Option<T> {
    match read {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            panic!("waited a minute for something to be read")
        }
        read => read.ok(),
    }
}

/// Sets timeouts so that a read or write longer than [`PATIENCE`] is an error.
pub fn patient(stream: &TcpStream) {
    // A socket that is closed already has nothing to wait for.
    let _: io::Result<()> =
        stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_is_there_is_waited_for_no_longer() {
        let (sender, receiver) = channel();
        let mut turns = 0;
        wait_until("a few turns", || {
            turns += 1;
            turns > 3
        });
        let thread = thread::spawn(move || sender.send(7));
        assert_eq!(receiver.next_in_time(), 7);
        assert_eq!(thread.end_in_time(), Ok(()));
        assert_eq!(receiver.next_or_end(), None);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(listener.accept_in_time().peer_addr().unwrap(), client.local_addr().unwrap());
    }

    #[test]
    #[should_panic(expected = "no sender is left for the next `i32`")]
    fn what_cannot_come_any_more_is_not_waited_for() {
        let (sender, receiver) = channel::<i32>();
        drop(sender);
        receiver.next_in_time();
    }

    #[test]
    #[should_panic(expected = "it was so")]
    fn a_thread_that_panicked_fails_the_threads_that_wait_for_it() {
        thread::spawn(|| panic!("it was so")).end_in_time()
    }
}
