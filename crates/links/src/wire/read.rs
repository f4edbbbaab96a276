//! Decoding of frames.

use super::fields::{Fields, flag};
use super::{
    CONSTRAINT_BYTES_MAX, Direction, EVENT_NAME_BYTES_MAX, Event, Frame, Hello, Kind, NAME_BYTES_MAX, NameEntries,
    Open, Origins, REASON_BYTES_MAX, Types,
};
use crate::{Hops, Limits, Origin, VERSIONS, Violation, WINDOW_BYTES_START, hops::HOPS_MAX};

impl<'a> Frame<'a> {
    /// Reads one frame, without its length field.
    ///
    /// # Errors
    /// When its kind is unknown, or a field is missing, superfluous, too long or without meaning.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Violation> {
        let (kind, rest) = bytes.split_first().ok_or(Violation::NoKind)?;
        let mut fields = Fields { kind: Kind::of(*kind)?, rest };
        let frame = Self::read_fields(&mut fields)?;
        fields.end()?;
        Ok(frame)
    }

    fn read_fields(fields: &mut Fields<'a>) -> Result<Self, Violation> {
        Ok(match fields.kind {
            Kind::Hello => Self::Hello(Hello::read(fields)?),
            Kind::Open => Self::Open(Open::read(fields)?),
            Kind::Opened => Self::Opened { flow: fields.u32("flow")? },
            Kind::Refused => {
                Self::Refused { flow: fields.u32("flow")?, reason: fields.text("reason", REASON_BYTES_MAX)? }
            }
            Kind::Event => Self::Event(Event::read(fields)?),
            Kind::Ack => Self::Ack { flow: fields.u32("flow")?, up_to: fields.u64("up_to")? },
            Kind::Reject => Self::Reject {
                flow: fields.u32("flow")?,
                sequence: fields.number("sequence")?,
                reason: fields.u8("reason")?,
                text: fields.text("text", REASON_BYTES_MAX)?,
            },
            Kind::Interest => {
                let flow = fields.u32("flow")?;
                let everything = match fields.u8("everything")? {
                    0 => None,
                    1 => Some(fields.u8("distance")?),
                    other => return Err(Violation::OutOfRange("everything", other.into())),
                };
                Self::Interest { flow, everything, types: Types::read(fields)? }
            }
            Kind::Ping => Self::Ping { number: fields.u64("number")? },
            Kind::Pong => Self::Pong { number: fields.u64("number")? },
            Kind::Goodbye => Self::Goodbye { reason: fields.text("reason", REASON_BYTES_MAX)? },
            Kind::Acknowledged => Self::Acknowledged { flow: fields.u32("flow")?, origins: Origins::read(fields)? },
            Kind::Forgotten => Self::Forgotten {
                flow: fields.u32("flow")?,
                events: match fields.u32("events")? {
                    0 => return Err(Violation::OutOfRange("events", 0)),
                    events => events,
                },
            },
            Kind::Directory => {
                let more = match fields.u8("more")? {
                    more @ (0 | 1) => more == 1,
                    other => return Err(Violation::OutOfRange("more", other.into())),
                };
                Self::Directory { more, names: NameEntries::read(fields)? }
            }
            Kind::GroupEvent => Self::GroupEvent(Event::read(fields)?),
            _ => Self::read_of_group(fields)?,
        })
    }

    /// The frame's kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Hello(_) => Kind::Hello,
            Self::Open(_) => Kind::Open,
            Self::Opened { .. } => Kind::Opened,
            Self::Refused { .. } => Kind::Refused,
            Self::Event(_) => Kind::Event,
            Self::Ack { .. } => Kind::Ack,
            Self::Reject { .. } => Kind::Reject,
            Self::Interest { .. } => Kind::Interest,
            Self::Ping { .. } => Kind::Ping,
            Self::Pong { .. } => Kind::Pong,
            Self::Goodbye { .. } => Kind::Goodbye,
            Self::Acknowledged { .. } => Kind::Acknowledged,
            Self::Forgotten { .. } => Kind::Forgotten,
            Self::Directory { .. } => Kind::Directory,
            Self::GroupJoin(_) => Kind::GroupJoin,
            Self::GroupListening { .. } => Kind::GroupListening,
            Self::GroupStart { .. } => Kind::GroupStart,
            Self::GroupLeave { .. } => Kind::GroupLeave,
            Self::GroupEvent(_) => Kind::GroupEvent,
            Self::GroupAck { .. } => Kind::GroupAck,
            Self::GroupRequest { .. } => Kind::GroupRequest,
            Self::GroupReject { .. } => Kind::GroupReject,
        }
    }
}

impl<'a> Hello<'a> {
    fn read(fields: &mut Fields<'a>) -> Result<Self, Violation> {
        if fields.octets(Self::MAGIC.len(), "magic").ok() != Some(Self::MAGIC) {
            return Err(Violation::NotALink);
        }
        let hello = Self {
            version_min: fields.u16("version_min")?,
            version_max: fields.u16("version_max")?,
            service: fields.number("service")?,
            incarnation: fields.u64("incarnation")?,
            limits: Limits {
                frame_bytes_max: fields.u32("frame_bytes_max")?,
                window_bytes_max: fields.u64("window_bytes_max")?,
                outstanding_max: fields.u32("outstanding_max")?,
            },
            has_store: match fields.u8("has_store")? {
                0 => false,
                1 => true,
                other => return Err(Violation::OutOfRange("has_store", other.into())),
            },
            name: fields.text("name", NAME_BYTES_MAX)?,
            token: fields.text("token", NAME_BYTES_MAX)?,
        };
        let Limits { frame_bytes_max, window_bytes_max, outstanding_max } = hello.limits;
        let meaningless = [
            ("version_max", u64::from(hello.version_max), u64::from(hello.version_min)),
            ("frame_bytes_max", u64::from(frame_bytes_max), u64::from(Limits::FRAME_BYTES_MIN)),
            ("window_bytes_max", window_bytes_max, WINDOW_BYTES_START),
            ("outstanding_max", u64::from(outstanding_max), 1),
        ]
        .into_iter()
        .find(|(_, value, least)| value < least);
        if let Some((field, value, _)) = meaningless {
            return Err(Violation::OutOfRange(field, value));
        }
        if hello.version_max > VERSIONS.1 {
            fields.rest = &[];
        }
        Ok(hello)
    }
}

impl<'a> Open<'a> {
    fn read(fields: &mut Fields<'a>) -> Result<Self, Violation> {
        Ok(Self {
            flow: fields.u32("flow")?,
            direction: match fields.u8("direction")? {
                1 => Direction::Out,
                2 => Direction::In,
                other => return Err(Violation::OutOfRange("direction", other.into())),
            },
            channel: fields.text("channel", NAME_BYTES_MAX)?,
            types: Types::read(fields)?,
            constraint: fields.text("constraint", CONSTRAINT_BYTES_MAX)?,
        })
    }
}

impl<'a> Event<'a> {
    fn read(fields: &mut Fields<'a>) -> Result<Self, Violation> {
        let flow = fields.u32("flow")?;
        let sequence = fields.number("sequence")?;
        let service = fields.number("service")?;
        let era = fields.u64("era")?;
        let origin = Origin { service, era, number: fields.number("number")? };
        let hops = read_hops(fields)?;
        let flags = fields.u16("flags")?;
        if flags & !flag::ALL != 0 {
            return Err(Violation::OutOfRange("flags", flags.into()));
        }
        let has = |flag| flags & flag != 0;
        Ok(Self {
            flow,
            sequence,
            origin,
            hops,
            is_persistent: has(flag::PERSISTENT),
            form: fields.u32("form")?,
            tag: fields.u64("tag")?,
            age_ns: fields.u64("age")?,
            priority: has(flag::PRIORITY).then(|| fields.i16("priority")).transpose()?,
            thread_priority: has(flag::THREAD_PRIORITY).then(|| fields.i16("thread_priority")).transpose()?,
            timeout_ns: has(flag::TIMEOUT).then(|| fields.u64("timeout")).transpose()?,
            start: has(flag::START).then(|| fields.u64("start")).transpose()?,
            stop: has(flag::STOP).then(|| fields.u64("stop")).transpose()?,
            domain: fields.name("domain", EVENT_NAME_BYTES_MAX)?,
            name: fields.name("name", EVENT_NAME_BYTES_MAX)?,
            bytes: core::mem::take(&mut fields.rest),
        })
    }
}

fn read_hops(fields: &mut Fields<'_>) -> Result<Hops, Violation> {
    let count = fields.u8("hops")?;
    let mut hops = Hops::default();
    for _ in 0..count {
        let limit = HOPS_MAX as u64;
        hops =
            hops.with(fields.u64("hops")?).ok_or(Violation::TooMany { field: "hops", entries: count.into(), limit })?;
    }
    Ok(hops)
}
