//! Waits within the test's own process.

use std::fmt;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// For how long a test waits for one thing: far beyond need.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// For how long a test waits for a program that is a whole suite, a compiler or an installer. `.cargo/watched`, which ends what is silent for
/// longer, has to have more.
pub const SUITE_PATIENCE: Duration = Duration::from_secs(240);

/// Waits until a condition holds. Each turn lets others run: after the first hundredth of a second for a millisecond, so that threads of
/// low priority do what is waited for.
///
/// # Panics
/// If it does not hold within [`PATIENCE`]; `what` was waited for.
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

/// A channel from which what comes next is waited for.
pub trait NextInTime<T> {
    /// What comes next; `None` if there is no sender any more.
    ///
    /// # Panics
    /// If nothing comes within [`PATIENCE`].
    #[track_caller]
    fn next_or_end(&self) -> Option<T>;

    /// What comes next.
    ///
    /// # Panics
    /// If nothing comes within [`PATIENCE`], or nothing can.
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

/// A thread to join.
pub trait EndInTime<T> {
    /// What it returns. If it panicked, so does the caller.
    ///
    /// # Panics
    /// If it does not end within [`PATIENCE`]. It goes on then; the test has failed all the same.
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
    /// The scope waits for the thread all the same, so that what holds it up has to end first: what it waits for itself is
    /// to have a limit.
    fn end_in_time(self) -> T {
        wait_until("the end of a thread that the test started", || self.is_finished());
        self.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// A listening socket on which a connection is waited for.
pub trait AcceptInTime {
    /// The next connection. What is read from it is waited for as long, and no longer.
    ///
    /// # Panics
    /// If no client connects within [`PATIENCE`].
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

/// What was read from a [`patient`] socket; `None` if the other end has closed or reset it.
///
/// # Panics
/// If nothing came in time.
#[track_caller]
pub fn unless_closed<T>(read: io::Result<T>) -> Option<T> {
    match read {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            panic!("waited a minute for something to be read")
        }
        read => read.ok(),
    }
}

/// Sees to it that no read or write of a socket takes longer than [`PATIENCE`]: that is an error then.
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
