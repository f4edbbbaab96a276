//! A set of descriptors to wait for, each with a key (epoll, level-triggered).

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use crate::{BenchError, clock};

/// Maximum keys returned by one wait.
const AT_ONCE: usize = 64;

/// The set of descriptors. Closing one also removes it.
#[derive(Debug)]
pub struct Poll(OwnedFd);

impl Poll {
    /// An empty set.
    pub fn new() -> Result<Self, BenchError> {
        epoll::create(epoll::CreateFlags::CLOEXEC).map(Self).map_err(BenchError::errno("creating an epoll"))
    }

    /// Adds a descriptor with its key.
    pub fn add(&self, descriptor: &impl AsFd, key: u64) -> Result<(), BenchError> {
        epoll::add(&self.0, descriptor, EventData::new_u64(key), EventFlags::IN)
            .map_err(BenchError::errno("polling a connection"))
    }

    /// Waits, for so many nanoseconds at most if given; returns the keys of readable descriptors. A signal may end the wait early.
    pub fn wait(&self, within: Option<u64>) -> Result<impl Iterator<Item = u64> + use<>, BenchError> {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; AT_ONCE];
        let count = match epoll::wait(&self.0, &mut events, within.map(clock::to_timespec).as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(errno) => return Err(BenchError::errno("waiting for connections")(errno)),
        };
        Ok(events.into_iter().take(count).map(|event| {
            let data = event.data;
            data.u64()
        }))
    }

    /// Calls `serve` with the key of each readable descriptor, until it returns `false`.
    pub fn serve(&self, mut serve: impl FnMut(u64) -> Result<bool, BenchError>) -> Result<(), BenchError> {
        loop {
            for key in self.wait(None)? {
                if !serve(key)? {
                    return Ok(());
                }
            }
        }
    }
}
