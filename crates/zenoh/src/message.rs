//! What the two sides of a stream send each other: one Zenoh message each.
//!
//! ```text
//!  0      1                  17
//!  +------+------------------+-----------------------------------------------------------+
//!  | kind | stream, 16 octets| Open:   version 1, secure 1, window 4, instance 8, name    |
//!  |      |                  | Accept: window 4                                           |
//!  |      |                  | Data:   number 8, octets                                   |
//!  |      |                  | Credit: taken 8                                            |
//!  |      |                  | End:    reason                                             |
//!  +------+------------------+-----------------------------------------------------------+
//! ```
//! Numbers are little-endian. Names and reasons are UTF-8 and reach to the end of the message.

/// Octets of a stream in one message at most.
pub(crate) const DATA_BYTES_MAX: usize = 16 << 10;
/// Octets of a reason at most.
pub(crate) const REASON_BYTES_MAX: usize = 200;
/// Version of this layout, which the opening side names.
const VERSION: u8 = 1;

const OPEN: u8 = 1;
const ACCEPT: u8 = 2;
const DATA: u8 = 3;
const CREDIT: u8 = 4;
const END: u8 = 5;

/// Number of a stream, drawn by the side that opens it: unforeseeable, and never used again.
pub(crate) type StreamId = [u8; 16];

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// The sender wants a stream.
    Open {
        /// Whether the octets are TLS records.
        is_secure: bool,
        /// What may be in flight to the sender.
        window: u32,
        /// Process of the sender's end.
        instance: u64,
        /// Name of the sender's end.
        name: &'a str,
    },
    /// The receiver of an `Open` takes the stream.
    Accept { window: u32 },
    /// Octets of the stream. Numbers begin at 0 in each direction and leave none out.
    Data { number: u64, octets: &'a [u8] },
    /// What the sender has handed on of what it received, as the sum of [`cost`]s.
    Credit { taken: u64 },
    /// The sender knows the stream no more.
    End { reason: &'a str },
}

/// What a message with so many octets counts for in a window: small ones are not free.
pub(crate) const fn cost(octets: usize) -> u64 {
    octets as u64 + 64
}

impl<'a> Message<'a> {
    /// The message as octets.
    pub(crate) fn write(&self, stream: &StreamId) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        let kind = match self {
            Self::Open { .. } => OPEN,
            Self::Accept { .. } => ACCEPT,
            Self::Data { .. } => DATA,
            Self::Credit { .. } => CREDIT,
            Self::End { .. } => END,
        };
        out.push(kind);
        out.extend_from_slice(stream);
        match *self {
            Self::Open { is_secure, window, instance, name } => {
                out.extend_from_slice(&[VERSION, u8::from(is_secure)]);
                out.extend_from_slice(&window.to_le_bytes());
                out.extend_from_slice(&instance.to_le_bytes());
                out.extend_from_slice(name.as_bytes());
            }
            Self::Accept { window } => out.extend_from_slice(&window.to_le_bytes()),
            Self::Data { number, octets } => {
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(octets);
            }
            Self::Credit { taken } => out.extend_from_slice(&taken.to_le_bytes()),
            Self::End { reason } => {
                let mut end = reason.len().min(REASON_BYTES_MAX);
                while !reason.is_char_boundary(end) {
                    end -= 1;
                }
                out.extend_from_slice(reason.get(..end).unwrap_or_default().as_bytes());
            }
        }
        out
    }

    /// The stream and the message that octets are; nothing if they are none.
    pub(crate) fn read(octets: &'a [u8]) -> Option<(StreamId, Self)> {
        let (kind, rest) = octets.split_first()?;
        let (stream, rest) = rest.split_first_chunk::<16>()?;
        let message = match *kind {
            OPEN => {
                let ([VERSION, secure], rest) = rest.split_first_chunk::<2>()? else { return None };
                let (window, rest) = rest.split_first_chunk()?;
                let (instance, name) = rest.split_first_chunk()?;
                let is_secure = match secure {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                let (window, instance) = (u32::from_le_bytes(*window), u64::from_le_bytes(*instance));
                Self::Open { is_secure, window, instance, name: core::str::from_utf8(name).ok()? }
            }
            ACCEPT => Self::Accept { window: u32::from_le_bytes(rest.try_into().ok()?) },
            DATA => {
                let (number, octets) = rest.split_first_chunk()?;
                if octets.is_empty() || octets.len() > DATA_BYTES_MAX {
                    return None;
                }
                Self::Data { number: u64::from_le_bytes(*number), octets }
            }
            CREDIT => Self::Credit { taken: u64::from_le_bytes(rest.try_into().ok()?) },
            END if rest.len() <= REASON_BYTES_MAX => Self::End { reason: core::str::from_utf8(rest).ok()? },
            _ => return None,
        };
        Some((*stream, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: StreamId = [7; 16];

    #[test]
    fn messages_are_themselves_again_and_cut_short_are_none() {
        for (message, may_be_cut) in [
            (Message::Open { is_secure: true, window: 65_536, instance: 9, name: "summit" }, 6),
            (Message::Accept { window: 1 }, 0),
            (Message::Data { number: 3, octets: b"octets" }, 5),
            (Message::Credit { taken: u64::MAX }, 0),
            (Message::End { reason: "why" }, 3),
        ] {
            let octets = message.write(&ID);
            assert_eq!(Message::read(&octets), Some((ID, message)));
            // What ends in a text or in octets of the stream is whole with fewer of them.
            for end in 0..octets.len() - may_be_cut {
                assert_eq!(Message::read(&octets[..end]), None, "{message:?} of {end} octets");
            }
        }
    }

    #[test]
    fn what_is_too_long_or_of_another_kind_or_version_is_no_message() {
        let long = vec![1; DATA_BYTES_MAX + 1];
        assert_eq!(Message::read(&Message::Data { number: 0, octets: &long }.write(&ID)), None);
        assert!(Message::read(&Message::Data { number: 0, octets: &long[1..] }.write(&ID)).is_some());
        for kind in [0, 6, 255] {
            let mut octets = Message::End { reason: "" }.write(&ID);
            octets[0] = kind;
            assert_eq!(Message::read(&octets), None);
        }
        let mut octets = Message::Open { is_secure: false, window: 1, instance: 1, name: "a" }.write(&ID);
        octets[17] = 2;
        assert_eq!(Message::read(&octets), None, "another version");
        octets[17..19].copy_from_slice(&[1, 2]);
        assert_eq!(Message::read(&octets), None, "neither secure nor not");
        let reason = "é".repeat(REASON_BYTES_MAX);
        let octets = Message::End { reason: &reason }.write(&ID);
        assert!(matches!(Message::read(&octets), Some((_, Message::End { reason: cut })) if cut == "é".repeat(100)));
    }
}
