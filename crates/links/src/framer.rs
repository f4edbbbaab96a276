//! A stream of bytes, cut into frames.

use alloc::vec::Vec;

use crate::wire::{Frame, HELLO_BYTES_MAX, Kind, LENGTH_BYTES};
use crate::{Limits, Violation};

/// What arrived on one connection and is not a whole frame yet.
///
/// A frame that arrives whole is read where it lies. Only the beginning of an incomplete one is retained, as much as arrived of it, whatever
/// length it says; at most [`Limits::frame_bytes_max`] and its length field. A connection on which no frame is incomplete takes
/// little memory.
#[derive(Debug)]
pub struct Framer {
    limits: Limits,
    /// What is retained. It is consumed up to `consumed`.
    retained: Vec<u8>,
    consumed: usize,
    /// Whether Hello has come.
    is_introduced: bool,
}

impl Framer {
    /// A connection's beginning, with the limits that this end's Hello has.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, retained: Vec::new(), consumed: 0, is_introduced: false }
    }

    /// The next frame, of what is retained and of `input` behind it, and how much of `input` was consumed with it. No frame when the rest is
    /// no whole one; all of `input` is consumed then.
    ///
    /// # Errors
    /// When the frame is too long, unknown or ill-formed, or Hello is not the first and only the first. The connection is to be closed.
    pub fn next<'a>(&'a mut self, input: &'a [u8]) -> Result<(Option<Frame<'a>>, usize), Violation> {
        if self.consumed == self.retained.len() {
            self.clear();
            return match self.frame_bytes(input)? {
                Some(octets) if octets <= input.len() => {
                    let frame = read(input, octets, &mut self.is_introduced)?;
                    Ok((Some(frame), octets))
                }
                _ => {
                    self.retained.extend_from_slice(input);
                    Ok((None, input.len()))
                }
            };
        }
        let mut taken = 0;
        loop {
            let head = self.retained.get(self.consumed..).unwrap_or_default();
            let octets = self.frame_bytes(head)?;
            let missing = octets.unwrap_or(LENGTH_BYTES).saturating_sub(head.len());
            if missing > 0 {
                let rest = input.get(taken..).unwrap_or_default();
                let more = rest.get(..missing).unwrap_or(rest);
                taken += more.len();
                self.retain(more);
                if more.len() < missing {
                    return Ok((None, taken));
                }
            } else if let Some(octets) = octets {
                let from = self.consumed;
                self.consumed += octets;
                let frame = self.retained.get(from..).unwrap_or_default();
                return Ok((Some(read(frame, octets, &mut self.is_introduced)?), taken));
            }
        }
    }

    /// Retains what was read and is not to be looked at now. The caller bounds how much that is.
    pub fn retain(&mut self, input: &[u8]) {
        if self.consumed > 0 {
            self.retained.drain(..self.consumed);
            self.consumed = 0;
        }
        self.retained.extend_from_slice(input);
    }

    /// The octets that are retained.
    #[must_use]
    pub const fn retained_bytes(&self) -> usize {
        self.retained.len() - self.consumed
    }

    /// The octets of the frame that begins here, with its length field. `None` if that field is not whole.
    fn frame_bytes(&self, bytes: &[u8]) -> Result<Option<usize>, Violation> {
        let Some(length) = bytes.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let octets = u32::from_le_bytes(*length);
        let limit = if self.is_introduced { self.limits.frame_bytes_max } else { HELLO_BYTES_MAX };
        if octets > limit {
            Err(Violation::FrameTooLong { octets, limit })
        } else {
            Ok(Some(LENGTH_BYTES + octets as usize))
        }
    }

    /// Forgets what is consumed, and gives back what a long frame took.
    fn clear(&mut self) {
        self.consumed = 0;
        if self.retained.capacity() <= Self::CAPACITY_MAX { self.retained.clear() } else { self.retained = Vec::new() }
    }

    /// The memory of a connection on which no frame is incomplete.
    const CAPACITY_MAX: usize = 16 << 10;
}

fn read<'a>(bytes: &'a [u8], octets: usize, is_introduced: &mut bool) -> Result<Frame<'a>, Violation> {
    let frame = Frame::read(bytes.get(LENGTH_BYTES..octets).unwrap_or_default())?;
    match (core::mem::replace(is_introduced, true), frame.kind()) {
        (true, Kind::Hello) => Err(Violation::HelloRepeated),
        (false, kind) if kind != Kind::Hello => Err(Violation::HelloExpected(kind)),
        _ => Ok(frame),
    }
}
