//! Descriptors that are waited for together, each with a key (epoll, level-triggered).

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use crate::{BenchError, clock};

/// Keys that one wait hands out at most.
const AT_ONCE: usize = 64;

/// The descriptors. Closing one also ends its being waited for.
#[derive(Debug)]
pub struct Poll(OwnedFd);

impl Poll {
    /// One without descriptors.
    pub fn new() -> Result<Self, BenchError> {
        epoll::create(epoll::CreateFlags::CLOEXEC).map(Self).map_err(BenchError::errno("creating an epoll"))
    }

    /// Waits for this descriptor as well, which is called by that key.
    pub fn add(&self, descriptor: &impl AsFd, key: u64) -> Result<(), BenchError> {
        epoll::add(&self.0, descriptor, EventData::new_u64(key), EventFlags::IN)
            .map_err(BenchError::errno("polling a connection"))
    }

    /// Waits, for so many nanoseconds at most where that is said; the keys of those that can be read. A signal may end it early.
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

    /// Gives `serve` the key of each that can be read, until it says `false`.
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
