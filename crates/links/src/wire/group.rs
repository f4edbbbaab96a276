//! The frames about groups, which send events in datagrams.

use alloc::vec::Vec;

use super::fields::Fields;
use super::list::{Entry, List};
use super::write::{cut, put, put_octets};
use super::{Frame, Kind, NAME_BYTES_MAX, REASON_BYTES_MAX};
use crate::Violation;
use crate::group::{GroupReceiver, KEY_BYTES};

/// A request to listen: `flow u32 │ join u32 │ stream u64 │ security u8 │ [key [u8; 32]] │ address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupJoin<'a> {
    /// The flow's number in this session.
    pub flow: u32,
    /// The number of the attempt to join, which later frames refer to.
    pub join: u32,
    /// The number of the datagrams' stream, unique among all groups of all services.
    pub stream: u64,
    /// How the datagrams are authenticated.
    pub security: Security,
    /// Address and port of a multicast group, at most [`NAME_BYTES_MAX`]. Empty if datagrams are sent to the receiver's own address.
    pub address: &'a str,
}

/// The authentication of a stream's datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// The datagrams have no codes.
    None,
    /// The codes use this key. Only over a session that others cannot read.
    Session([u8; KEY_BYTES]),
    /// The codes use a key derived from the shared key and the stream's number.
    Shared,
}

/// Ranges of numbers, both ends included: `count u8 │ first u64 │ last u64 …`, at most [`GroupReceiver::RANGES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges<'a>(List<'a, (u64, u64)>);

/// Maximum number at which a group may begin: it leaves room for all that can follow.
const NUMBER_MAX: u64 = u64::MAX / 2;

impl<'a> Ranges<'a> {
    /// Creates ranges to be written. Those beyond the limit are left out.
    #[must_use]
    pub fn new(ranges: &'a [(u64, u64)]) -> Self {
        Self(List::Own(ranges.get(..GroupReceiver::RANGES_MAX).unwrap_or(ranges)))
    }

    /// The ranges.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        self.0.iter()
    }

    fn read(fields: &mut Fields<'a>) -> Result<Self, Violation> {
        let count = usize::from(fields.u8("ranges")?);
        if count > GroupReceiver::RANGES_MAX {
            let limit = GroupReceiver::RANGES_MAX as u64;
            return Err(Violation::TooMany { field: "ranges", entries: count as u64, limit });
        }
        let mut before = 0;
        let rise = |(first, last)| {
            if first <= before || last < first {
                return Err(Violation::OutOfRange("ranges", first));
            }
            before = last;
            Ok(())
        };
        List::read(fields, count, rise).map(Self)
    }
}

impl<'a> Entry<'a> for (u64, u64) {
    const KIND: Kind = Kind::GroupRequest;

    fn read(fields: &mut Fields<'a>) -> Result<Self, Violation> {
        Ok((fields.u64("ranges")?, fields.u64("ranges")?))
    }
}

impl<'a> Frame<'a> {
    pub(super) fn read_of_group(fields: &mut Fields<'a>) -> Result<Self, Violation> {
        let (flow, join) = (fields.u32("flow")?, fields.u32("join")?);
        Ok(match fields.kind {
            Kind::GroupJoin => {
                let stream = fields.number("stream")?;
                let security = match fields.u8("security")? {
                    0 => Security::None,
                    1 => Security::Session(fields.array("key")?),
                    2 => Security::Shared,
                    other => return Err(Violation::OutOfRange("security", other.into())),
                };
                let address = fields.text("address", NAME_BYTES_MAX)?;
                Self::GroupJoin(GroupJoin { flow, join, stream, security, address })
            }
            Kind::GroupListening => Self::GroupListening { flow, join, port: fields.u16("port")? },
            Kind::GroupStart => match fields.number("from")? {
                from if from > NUMBER_MAX => return Err(Violation::OutOfRange("from", from)),
                from => Self::GroupStart { flow, join, from },
            },
            Kind::GroupLeave => Self::GroupLeave { flow, join, reason: fields.text("reason", REASON_BYTES_MAX)? },
            Kind::GroupAck => Self::GroupAck { flow, join, up_to: fields.u64("up_to")? },
            Kind::GroupRequest => Self::GroupRequest { flow, join, ranges: Ranges::read(fields)? },
            Kind::GroupReject => {
                let number = fields.number("number")?;
                Self::GroupReject { flow, join, number, text: fields.text("text", REASON_BYTES_MAX)? }
            }
            other => return Err(Violation::UnknownKind(other as u8)),
        })
    }

    pub(super) fn write_of_group(&self, out: &mut Vec<u8>) {
        let (flow, join) = match *self {
            Self::GroupJoin(GroupJoin { flow, join, .. })
            | Self::GroupListening { flow, join, .. }
            | Self::GroupStart { flow, join, .. }
            | Self::GroupLeave { flow, join, .. }
            | Self::GroupAck { flow, join, .. }
            | Self::GroupRequest { flow, join, .. }
            | Self::GroupReject { flow, join, .. } => (flow, join),
            _ => return,
        };
        put(out, flow.to_le_bytes());
        put(out, join.to_le_bytes());
        match *self {
            Self::GroupJoin(GroupJoin { flow: _, join: _, stream, security, address }) => {
                put(out, stream.to_le_bytes());
                match security {
                    Security::None => out.push(0),
                    Security::Session(key) => {
                        out.push(1);
                        put(out, key);
                    }
                    Security::Shared => out.push(2),
                }
                put_octets(out, address.as_bytes());
            }
            Self::GroupListening { port, .. } => put(out, port.to_le_bytes()),
            Self::GroupStart { from: number, .. } | Self::GroupAck { up_to: number, .. } => {
                put(out, number.to_le_bytes())
            }
            Self::GroupLeave { reason, .. } => put_octets(out, cut(reason).as_bytes()),
            Self::GroupRequest { ranges, .. } => {
                out.push(u8::try_from(ranges.iter().count()).unwrap_or(u8::MAX));
                for (first, last) in ranges.iter() {
                    put(out, first.to_le_bytes());
                    put(out, last.to_le_bytes());
                }
            }
            Self::GroupReject { number, text, .. } => {
                put(out, number.to_le_bytes());
                put_octets(out, cut(text).as_bytes());
            }
            _ => {}
        }
    }
}
