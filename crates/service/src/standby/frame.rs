//! Frames between leader and follower: a length of 4 octets, a kind, and the body. Numbers are little-endian.
//!
//! The leader begins with [`Hello`]; each frame of the leader gets one answer.

use crate::store::replication::Position;

/// The protocol's version.
pub(crate) const VERSION: u16 = 2;
const MAGIC: [u8; 4] = *b"CpSb";
/// Octets of a frame's length.
pub(crate) const LENGTH_BYTES: usize = 4;
/// Maximum octets of a frame before a hello was accepted, and of each answer.
pub(crate) const FIRST_BYTES_MAX: usize = 4_096;
/// Maximum octets of a leader's frame. A batch has the events of all lanes, at most 16 MiB of each.
pub(crate) const BYTES_MAX: usize = 2 << 30;

/// The leader's first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) version: u16,
    /// The number of the service whose data it has.
    pub(crate) service: u64,
    pub(crate) epoch: u64,
    pub(crate) position: Position,
    /// The position at which its epoch began.
    pub(crate) began_at: Position,
}

/// What a follower has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct State {
    /// The number of the service whose data it has, or 0 if it has none.
    pub(crate) service: u64,
    /// The highest epoch that it has seen.
    pub(crate) epoch: u64,
    /// Whether it has a whole copy.
    pub(crate) is_whole: bool,
    pub(crate) position: Position,
    /// The number of its machine in the record of who leads, or 0 without a record.
    pub(crate) machine: u64,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    Hello(Hello),
    State(State),
    /// The connection is refused, by a process that has the data of this service, and has seen this epoch of it.
    Refused {
        service: u64,
        epoch: u64,
        why: String,
    },
    BeginCopy,
    Rows(Vec<u8>),
    EndCopy(Position),
    Batch(Position, Vec<u8>),
    /// The leader's position, octets that the follower has yet to confirm, and whether the leader counts it as in step.
    Tick {
        position: Position,
        lag_bytes: u64,
        is_in_step: bool,
    },
    Acknowledged(Position),
    /// The leader's disk says that it is a follower in the next epoch, and the follower has everything: it is to lead in that epoch.
    TakeOver,
}

impl Frame {
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "a hello",
            Self::State(_) => "a state",
            Self::Refused { .. } => "a refusal",
            Self::BeginCopy => "the beginning of a copy",
            Self::Rows(_) => "rows of a copy",
            Self::EndCopy(_) => "the end of a copy",
            Self::Batch(..) => "a batch",
            Self::Tick { .. } => "a tick",
            Self::Acknowledged(_) => "an acknowledgement",
            Self::TakeOver => "an order to take over",
        }
    }

    /// Appends the encoded frame, with its length.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello(Hello { version, service, epoch, position, began_at }) => {
                let numbers = [service.to_le_bytes(), epoch.to_le_bytes()];
                let positions = [position.octets(), began_at.octets()];
                write(out, 1, &[&MAGIC, &version.to_le_bytes(), numbers.as_flattened(), positions.as_flattened()]);
            }
            Self::State(State { service, epoch, is_whole, position, machine }) => {
                let numbers = [service.to_le_bytes(), epoch.to_le_bytes(), machine.to_le_bytes()];
                write(out, 2, &[numbers.as_flattened(), &[u8::from(*is_whole)], &position.octets()]);
            }
            Self::Refused { service, epoch, why } => {
                write(out, 3, &[&service.to_le_bytes(), &epoch.to_le_bytes(), why.as_bytes()]);
            }
            Self::BeginCopy => write(out, 4, &[]),
            Self::Rows(rows) => write(out, 5, &[rows]),
            Self::EndCopy(at) => write(out, 6, &[&at.octets()]),
            Self::Batch(at, operations) => write_batch(*at, operations, out),
            Self::Tick { position, lag_bytes, is_in_step } => {
                write(out, 8, &[&position.octets(), &lag_bytes.to_le_bytes(), &[u8::from(*is_in_step)]]);
            }
            Self::Acknowledged(position) => write(out, 9, &[&position.octets()]),
            Self::TakeOver => write(out, 10, &[]),
        }
    }

    /// Decodes a frame without its length. `None` if the octets are none.
    pub(crate) fn read(octets: &[u8]) -> Option<Self> {
        let (kind, mut rest) = octets.split_first()?;
        let rest = &mut rest;
        let frame = match kind {
            1 => {
                if take(rest)? != MAGIC {
                    return None;
                }
                let version = u16::from_le_bytes(take(rest)?);
                let (service, epoch) = (long(rest)?, long(rest)?);
                Self::Hello(Hello { version, service, epoch, position: position(rest)?, began_at: position(rest)? })
            }
            2 => {
                let (service, epoch, machine, [is_whole]) = (long(rest)?, long(rest)?, long(rest)?, take(rest)?);
                Self::State(State { service, epoch, is_whole: is_whole == 1, position: position(rest)?, machine })
            }
            3 => {
                let (service, epoch) = (long(rest)?, long(rest)?);
                Self::Refused { service, epoch, why: String::from_utf8(core::mem::take(rest).to_vec()).ok()? }
            }
            4 => Self::BeginCopy,
            5 => Self::Rows(core::mem::take(rest).to_vec()),
            6 => Self::EndCopy(position(rest)?),
            7 => Self::Batch(position(rest)?, core::mem::take(rest).to_vec()),
            8 => {
                let (position, lag_bytes, [is_in_step]) = (position(rest)?, long(rest)?, take(rest)?);
                Self::Tick { position, lag_bytes, is_in_step: is_in_step == 1 }
            }
            9 => Self::Acknowledged(position(rest)?),
            10 => Self::TakeOver,
            _ => return None,
        };
        rest.is_empty().then_some(frame)
    }
}

/// Appends a batch's frame.
pub(crate) fn write_batch(at: Position, operations: &[u8], out: &mut Vec<u8>) {
    write(out, 7, &[&at.octets(), operations]);
}

fn write(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let octets = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    // A batch is bounded far below 4 GiB.
    out.extend(u32::try_from(octets).unwrap_or(u32::MAX).to_le_bytes());
    out.push(kind);
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

fn long(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

fn position(rest: &mut &[u8]) -> Option<Position> {
    take(rest).map(Position::read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written_and_cut_at_any_length_they_are_none_or_shorter() {
        let at = Position { epoch: 2, number: 7, chain: 1 << 90 };
        let hello = Hello { version: VERSION, service: 5, epoch: 2, position: at, began_at: Position::default() };
        let frames = [
            Frame::Hello(hello),
            Frame::State(State { service: 5, epoch: 1, is_whole: true, position: at, machine: 6 }),
            Frame::Refused { service: 5, epoch: 9, why: "it is".into() },
            Frame::BeginCopy,
            Frame::Rows(b"rows".to_vec()),
            Frame::EndCopy(at),
            Frame::Batch(at, b"operations".to_vec()),
            Frame::Tick { position: at, lag_bytes: 3, is_in_step: true },
            Frame::Acknowledged(at),
            Frame::TakeOver,
        ];
        for frame in frames {
            let mut octets = Vec::new();
            frame.write(&mut octets);
            let (length, body) = octets.split_first_chunk().unwrap();
            assert_eq!(u32::from_le_bytes(*length) as usize, body.len());
            assert_eq!(Frame::read(body).as_ref(), Some(&frame));
            let has_text = matches!(frame, Frame::Refused { .. } | Frame::Rows(_) | Frame::Batch(..));
            // One that ends with text is another frame with less of it.
            let is_other = |cut: Frame| has_text && cut != frame && cut.name() == frame.name();
            assert!((0..body.len()).all(|length| Frame::read(&body[..length]).is_none_or(is_other)), "{frame:?}");
            assert!(has_text || Frame::read(&[body, &[0]].concat()).is_none(), "{frame:?}");
        }
        assert_eq!(Frame::read(b"\x2a"), None);
    }
}
