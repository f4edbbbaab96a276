//! Cuts a stream of bytes into frames.

use alloc::vec::Vec;

use crate::wire::{Frame, HELLO_BYTES_MAX, Kind, LENGTH_BYTES};
use crate::{Limits, Violation};

/// The incomplete frame at the end of one connection's input.
///
/// A frame that arrives whole is read in place. Of an incomplete one, only the octets that arrived are buffered, whatever its length field
/// says: at most [`Limits::frame_bytes_max`] and the length field. A connection without an incomplete frame takes little memory.
#[derive(Debug)]
pub struct Framer {
    limits: Limits,
    /// Buffered octets. Those before `consumed` have been read.
    retained: Vec<u8>,
    consumed: usize,
    /// Whether the peer's Hello has arrived.
    is_introduced: bool,
}

impl Framer {
    /// Creates the framer of a new connection, with the limits in this end's Hello.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, retained: Vec::new(), consumed: 0, is_introduced: false }
    }

    /// Reads the next frame from the buffered octets followed by `input`, and returns it with the number of octets of `input` consumed.
    /// Without a whole frame all of `input` is buffered and consumed.
    ///
    /// # Errors
    /// When the frame is too long, unknown or ill-formed, or Hello is missing or repeated. The caller closes the connection.
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

    /// Buffers octets that are to be parsed later. The caller bounds their number.
    pub fn retain(&mut self, input: &[u8]) {
        if self.consumed > 0 {
            self.retained.drain(..self.consumed);
            self.consumed = 0;
        }
        self.retained.extend_from_slice(input);
    }

    /// Number of buffered octets.
    #[must_use]
    pub const fn retained_bytes(&self) -> usize {
        self.retained.len() - self.consumed
    }

    /// Octets of the frame at the start of `bytes`, with its length field. `None` if that field is incomplete.
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

    /// Drops the consumed octets, and frees the buffer if a long frame made it large.
    fn clear(&mut self) {
        self.consumed = 0;
        if self.retained.capacity() <= Self::CAPACITY_MAX { self.retained.clear() } else { self.retained = Vec::new() }
    }

    /// Maximum capacity in octets of a buffer that is reused.
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
