//! The numbers of kinds and flags, and the sequential reading of a frame's fields.

use super::Kind;
use crate::Violation;

/// The flags of an event.
pub(super) mod flag {
    pub(crate) const PERSISTENT: u16 = 1;
    pub(crate) const PRIORITY: u16 = 1 << 1;
    pub(crate) const THREAD_PRIORITY: u16 = 1 << 2;
    pub(crate) const TIMEOUT: u16 = 1 << 3;
    pub(crate) const START: u16 = 1 << 4;
    pub(crate) const STOP: u16 = 1 << 5;
    pub(crate) const ALL: u16 = (1 << 6) - 1;
}

impl Kind {
    const ALL: [Self; 22] = [
        Self::Hello,
        Self::Open,
        Self::Opened,
        Self::Refused,
        Self::Event,
        Self::Ack,
        Self::Reject,
        Self::Interest,
        Self::Ping,
        Self::Pong,
        Self::Goodbye,
        Self::Acknowledged,
        Self::Forgotten,
        Self::Directory,
        Self::GroupJoin,
        Self::GroupListening,
        Self::GroupStart,
        Self::GroupLeave,
        Self::GroupEvent,
        Self::GroupAck,
        Self::GroupRequest,
        Self::GroupReject,
    ];

    pub(super) fn of(octet: u8) -> Result<Self, Violation> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == octet).ok_or(Violation::UnknownKind(octet))
    }
}

/// The unread rest of a frame.
pub(super) struct Fields<'a> {
    pub(super) kind: Kind,
    pub(super) rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn octets(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], Violation> {
        let (octets, rest) = self.rest.split_at_checked(count).ok_or(Violation::Incomplete(self.kind, field))?;
        self.rest = rest;
        Ok(octets)
    }

    pub(super) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Violation> {
        let (octets, rest) = self.rest.split_first_chunk().ok_or(Violation::Incomplete(self.kind, field))?;
        self.rest = rest;
        Ok(*octets)
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, Violation> {
        self.array(field).map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, Violation> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(super) fn i16(&mut self, field: &'static str) -> Result<i16, Violation> {
        self.array(field).map(i16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, Violation> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, Violation> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// Reads a u64 that must not be 0.
    pub(super) fn number(&mut self, field: &'static str) -> Result<u64, Violation> {
        match self.u64(field)? {
            0 => Err(Violation::OutOfRange(field, 0)),
            number => Ok(number),
        }
    }

    /// Reads octets with a length field.
    pub(super) fn name(&mut self, field: &'static str, octets_max: usize) -> Result<&'a [u8], Violation> {
        let octets = self.u32(field)? as usize;
        if octets > octets_max {
            return Err(Violation::TooLong { field, octets: octets as u64, limit: octets_max as u64 });
        }
        self.octets(octets, field)
    }

    pub(super) fn text(&mut self, field: &'static str, octets_max: usize) -> Result<&'a str, Violation> {
        core::str::from_utf8(self.name(field, octets_max)?).map_err(|_| Violation::NotUtf8(field))
    }

    pub(super) const fn end(&self) -> Result<(), Violation> {
        if self.rest.is_empty() { Ok(()) } else { Err(Violation::Trailing(self.kind, self.rest.len())) }
    }
}
