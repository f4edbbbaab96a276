//! Orders as they come on the standard input, which an end polls beside its connections.

use std::io::{self};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::de::DeserializeOwned;

use crate::BenchError;
use crate::process::json;

/// Octets that are read at once.
const READ_BYTES: usize = 4096;

/// The lines of a stream.
pub(super) struct Lines {
    input: OwnedFd,
    /// What has come and was not taken yet.
    buffer: Vec<u8>,
    ended: bool,
}

impl Lines {
    /// Those of the standard input; there is no other reader: what `Stdin` has buffered, no poll tells of.
    pub(super) fn of_input() -> Result<Self, BenchError> {
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(BenchError::io("opening the standard input"))?;
        Ok(Self { input, buffer: Vec::new(), ended: false })
    }

    /// Waits for the next order; `None` at the end.
    pub(super) fn wait<T: DeserializeOwned>(&mut self) -> Result<Option<T>, BenchError> {
        loop {
            if let Some(order) = self.next()? {
                return Ok(Some(order));
            }
            if self.ended {
                return Ok(None);
            }
            self.read()?;
        }
    }

    /// Reads once.
    pub(super) fn read(&mut self) -> Result<(), BenchError> {
        let mut bytes = [0; READ_BYTES];
        match rustix::io::read(&self.input, &mut bytes) {
            Ok(0) => self.ended = true,
            Ok(count) => self.buffer.extend_from_slice(bytes.get(..count).unwrap_or_default()),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(BenchError::errno("reading an order")(errno)),
        }
        Ok(())
    }

    /// The next order of those that were read.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, BenchError> {
        let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
        let line: Vec<u8> = self.buffer.drain(..=end).collect();
        serde_json::from_slice(&line).map(Some).map_err(json("reading an order"))
    }

    /// Whether nothing more will come.
    pub(super) const fn ended(&self) -> bool {
        self.ended
    }
}

impl AsFd for Lines {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }
}
