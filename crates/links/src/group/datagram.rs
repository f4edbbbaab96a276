//! The format of a group's datagrams.
//!
//! ```text
//! "CmpD" │ kind u8 │ stream u64 │ number u64 │ frame … │ [code 16]            little-endian
//! ```
//!
//! An event has its frame ([`wire::Event`](crate::wire::Event), with its length field); an announcement has none. The code covers all
//! octets before it. Streams without a key have no code.

use alloc::vec::Vec;

use super::mac::{CODE_BYTES, Key};

/// Octets of the fields before the frame.
pub const HEAD_BYTES: usize = 4 + 1 + 8 + 8;

const MAGIC: [u8; 4] = *b"CmpD";
const EVENT: u8 = 1;
const ANNOUNCEMENT: u8 = 2;

/// One datagram of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// An event.
    Event {
        /// The event's number, at least 1.
        number: u64,
        /// The event's frame.
        frame: &'a [u8],
    },
    /// The last number sent in a stream that is idle for now.
    Announcement {
        /// The number, at least 1.
        number: u64,
    },
}

/// Reasons to discard a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The octets are not a datagram of a stream.
    IllFormed,
    /// The code does not match the stream's key.
    Forged,
}

/// Octets of a datagram with a frame of this length.
#[must_use]
pub const fn sealed_bytes(frame: usize, is_keyed: bool) -> usize {
    HEAD_BYTES + frame + if is_keyed { CODE_BYTES } else { 0 }
}

/// The number of the stream that a datagram claims. `None` if the octets are not a datagram.
#[must_use]
pub fn stream_of(octets: &[u8]) -> Option<u64> {
    let (magic, rest) = octets.split_first_chunk()?;
    let (_, rest) = rest.split_first()?;
    (*magic == MAGIC).then_some(u64::from_le_bytes(*rest.first_chunk()?))
}

impl<'a> Datagram<'a> {
    /// Reads a datagram of a stream, and verifies its code if there is a key.
    ///
    /// # Errors
    /// When the datagram is to be discarded.
    pub fn read(octets: &'a [u8], key: Option<&Key>) -> Result<Self, Unusable> {
        let body = match key {
            Some(key) => {
                let at = octets.len().checked_sub(CODE_BYTES).ok_or(Unusable::IllFormed)?;
                let (body, code) = octets.split_at_checked(at).ok_or(Unusable::IllFormed)?;
                if !key.is_code(body, code) {
                    return Err(Unusable::Forged);
                }
                body
            }
            None => octets,
        };
        stream_of(body).ok_or(Unusable::IllFormed)?;
        let (head, frame) = body.split_at_checked(HEAD_BYTES).ok_or(Unusable::IllFormed)?;
        let number = head.last_chunk().map_or(0, |number| u64::from_le_bytes(*number));
        match head.get(MAGIC.len()).copied() {
            _ if number == 0 || number == u64::MAX => Err(Unusable::IllFormed),
            Some(EVENT) => Ok(Self::Event { number, frame }),
            Some(ANNOUNCEMENT) if frame.is_empty() => Ok(Self::Announcement { number }),
            _ => Err(Unusable::IllFormed),
        }
    }

    /// Replaces the contents of `out` with the datagram.
    pub fn write(&self, stream: u64, key: Option<&Key>, out: &mut Vec<u8>) {
        let (kind, number, frame) = match *self {
            Self::Event { number, frame } => (EVENT, number, frame),
            Self::Announcement { number } => (ANNOUNCEMENT, number, &[][..]),
        };
        out.clear();
        out.extend_from_slice(&MAGIC);
        out.push(kind);
        out.extend_from_slice(&stream.to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(frame);
        if let Some(key) = key {
            let code = key.code(out);
            out.extend_from_slice(&code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_read_as_it_was_written_and_not_when_it_is_cut_or_changed() {
        let key = Key::new(b"secret");
        for key in [None, Some(&key)] {
            for datagram in [Datagram::Event { number: 7, frame: b"frame" }, Datagram::Announcement { number: 9 }] {
                let mut octets = b"what was there".to_vec();
                datagram.write(5, key, &mut octets);
                assert_eq!(stream_of(&octets), Some(5));
                assert_eq!(Datagram::read(&octets, key), Ok(datagram));
                for length in 0..octets.len() {
                    assert_ne!(Datagram::read(&octets[..length], key), Ok(datagram));
                }
                for bit in (0..octets.len() * 8).filter(|_| key.is_some()) {
                    let mut other = octets.clone();
                    other[bit / 8] ^= 1 << (bit % 8);
                    assert_eq!(Datagram::read(&other, key), Err(Unusable::Forged));
                }
            }
        }
    }

    #[test]
    fn numbers_without_a_meaning_and_announcements_of_more_are_refused() {
        let mut octets = Vec::new();
        for number in [0, u64::MAX] {
            Datagram::Announcement { number }.write(5, None, &mut octets);
            assert_eq!(Datagram::read(&octets, None), Err(Unusable::IllFormed));
        }
        Datagram::Announcement { number: 1 }.write(5, None, &mut octets);
        octets.push(0);
        assert_eq!(Datagram::read(&octets, None), Err(Unusable::IllFormed));
    }
}
