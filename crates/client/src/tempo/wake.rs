//! Waking a thread that waits for sockets, from another thread of the process.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::ioctl_fionbio;

/// A pipe that becomes readable when a thread wakes it.
#[derive(Debug)]
pub(super) struct Wake {
    reader: PipeReader,
    writer: PipeWriter,
    /// Whether it was woken since the last `take`: then it need not be woken again.
    is_woken: AtomicBool,
}

impl Wake {
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        ioctl_fionbio(&reader, true)?;
        ioctl_fionbio(&writer, true)?;
        Ok(Self { reader, writer, is_woken: AtomicBool::new(false) })
    }

    /// The reading end, to wait for.
    pub(super) const fn reader(&self) -> &PipeReader {
        &self.reader
    }

    /// Wakes the waiting thread, or prevents its next wait.
    pub(super) fn wake(&self) {
        // AcqRel: what was done before is seen by the thread that looks after `take`, which pairs with it.
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            // A pipe that is full wakes as well.
            let _ = (&self.writer).write(&[0]);
        }
    }

    /// Resets it, when the waiting thread goes on.
    pub(super) fn take(&self) {
        let mut octets = [0; 16];
        // First the pipe and then the flag: a wake-up in between is not forgotten, since the work is looked at after both.
        while matches!((&self.reader).read(&mut octets), Ok(read) if read == octets.len()) {}
        self.is_woken.swap(false, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    #[test]
    fn it_is_readable_from_when_it_is_woken_until_it_is_taken() {
        let wake = Wake::new().unwrap();
        let is_readable = || {
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(wake.reader(), PollFlags::IN)], Some(&none)).unwrap() == 1
        };
        for _ in 0..3 {
            assert!(!is_readable());
            (0..100_000).for_each(|_| wake.wake());
            assert!(is_readable());
            wake.take();
        }
    }
}
