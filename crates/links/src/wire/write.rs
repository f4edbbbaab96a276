//! Encoding of frames.

use alloc::vec::Vec;

use super::fields::flag;
use super::{Event, Frame, Hello, NameEntries, NameEntry, Open, Origins, REASON_BYTES_MAX, TypeInterest, Types};
use crate::{Limits, Origin};

impl Frame<'_> {
    /// Appends the frame with its length field.
    ///
    /// A reason is cut to its limit. The caller has checked all other fields ([`Event::fits`], [`Types::new`]).
    pub fn write(&self, out: &mut Vec<u8>) {
        let from = begin(out);
        out.push(self.kind() as u8);
        match *self {
            Self::Hello(ref hello) => hello.write(out),
            Self::Open(ref open) => open.write(out),
            Self::Event(ref event) | Self::GroupEvent(ref event) => {
                event.write_fields(out);
                out.extend_from_slice(event.bytes);
            }
            Self::Opened { flow } => put(out, flow.to_le_bytes()),
            Self::Refused { flow, reason } => {
                put(out, flow.to_le_bytes());
                put_octets(out, cut(reason).as_bytes());
            }
            Self::Ack { flow, up_to } => {
                put(out, flow.to_le_bytes());
                put(out, up_to.to_le_bytes());
            }
            Self::Reject { flow, sequence, reason, text } => {
                put(out, flow.to_le_bytes());
                put(out, sequence.to_le_bytes());
                out.push(reason);
                put_octets(out, cut(text).as_bytes());
            }
            Self::Interest { flow, everything, types } => {
                put(out, flow.to_le_bytes());
                out.push(everything.is_some().into());
                out.extend(everything);
                types.write(out);
            }
            Self::Ping { number } | Self::Pong { number } => put(out, number.to_le_bytes()),
            Self::Goodbye { reason } => put_octets(out, cut(reason).as_bytes()),
            Self::Acknowledged { flow, origins } => {
                put(out, flow.to_le_bytes());
                origins.write(out);
            }
            Self::Forgotten { flow, events } => {
                put(out, flow.to_le_bytes());
                put(out, events.to_le_bytes());
            }
            Self::Directory { more, names } => {
                out.push(more.into());
                names.write(out);
            }
            _ => self.write_of_group(out),
        }
        end(out, from, 0);
    }
}

impl Hello<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let Self { version_min, version_max, service, incarnation, limits, has_store, name, token } = *self;
        let Limits { frame_bytes_max, window_bytes_max, outstanding_max } = limits;
        out.extend_from_slice(Self::MAGIC);
        put(out, version_min.to_le_bytes());
        put(out, version_max.to_le_bytes());
        put(out, service.to_le_bytes());
        put(out, incarnation.to_le_bytes());
        put(out, frame_bytes_max.to_le_bytes());
        put(out, window_bytes_max.to_le_bytes());
        put(out, outstanding_max.to_le_bytes());
        out.push(has_store.into());
        put_octets(out, name.as_bytes());
        put_octets(out, token.as_bytes());
    }
}

impl Open<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let Self { flow, direction, channel, types, constraint } = *self;
        put(out, flow.to_le_bytes());
        out.push(direction as u8);
        put_octets(out, channel.as_bytes());
        types.write(out);
        put_octets(out, constraint.as_bytes());
    }
}

impl Event<'_> {
    /// Appends the frame without `bytes`, which the caller writes behind it. The length field includes them.
    pub fn write_head(&self, out: &mut Vec<u8>) {
        let from = begin(out);
        out.push(super::Kind::Event as u8);
        self.write_fields(out);
        end(out, from, self.bytes.len());
    }

    /// Appends all fields but the bytes.
    fn write_fields(&self, out: &mut Vec<u8>) {
        let Self { flow, sequence, origin, hops, is_persistent, form, tag, age_ns, domain, name, bytes: _, .. } = *self;
        let Self { priority, thread_priority, timeout_ns, start, stop, .. } = *self;
        let Origin { service, era, number } = origin;
        put(out, flow.to_le_bytes());
        for number in [sequence, service, era, number] {
            put(out, number.to_le_bytes());
        }
        let hops = hops.as_slice();
        out.push(u8::try_from(hops.len()).unwrap_or(u8::MAX));
        hops.iter().for_each(|hop| put(out, hop.to_le_bytes()));
        let flags = [
            (is_persistent, flag::PERSISTENT),
            (priority.is_some(), flag::PRIORITY),
            (thread_priority.is_some(), flag::THREAD_PRIORITY),
            (timeout_ns.is_some(), flag::TIMEOUT),
            (start.is_some(), flag::START),
            (stop.is_some(), flag::STOP),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, flag)| flags | flag);
        put(out, flags.to_le_bytes());
        put(out, form.to_le_bytes());
        put(out, tag.to_le_bytes());
        put(out, age_ns.to_le_bytes());
        [priority, thread_priority].into_iter().flatten().for_each(|each| put(out, each.to_le_bytes()));
        [timeout_ns, start, stop].into_iter().flatten().for_each(|each| put(out, each.to_le_bytes()));
        put_octets(out, domain);
        put_octets(out, name);
    }
}

impl Origins<'_> {
    fn write(self, out: &mut Vec<u8>) {
        put_octets(out, self.0.as_flattened());
    }
}

impl Types<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        put(out, u32::try_from(self.len()).unwrap_or(u32::MAX).to_le_bytes());
        for TypeInterest { domain, name, distance } in self.iter() {
            out.push(distance);
            put_octets(out, domain);
            put_octets(out, name);
        }
    }
}

impl NameEntries<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        put(out, u32::try_from(self.len()).unwrap_or(u32::MAX).to_le_bytes());
        for NameEntry { distance, service, name, reference } in self.iter() {
            out.push(distance);
            put(out, service.to_le_bytes());
            put_octets(out, name.as_bytes());
            put_octets(out, reference.as_bytes());
        }
    }
}

/// Appends an empty length field, and returns the position behind it.
fn begin(out: &mut Vec<u8>) -> usize {
    put(out, 0_u32.to_le_bytes());
    out.len()
}

/// Fills in the length field before `from`: the octets since `from` and `to_come` further ones.
fn end(out: &mut [u8], from: usize, to_come: usize) {
    let length = u32::try_from(out.len() - from + to_come).unwrap_or(u32::MAX);
    if let Some(field) = out.get_mut(..from).and_then(<[u8]>::last_chunk_mut) {
        *field = length.to_le_bytes();
    }
}

pub(super) fn put<const N: usize>(out: &mut Vec<u8>, octets: [u8; N]) {
    out.extend_from_slice(&octets);
}

/// Appends octets with a length field.
pub(super) fn put_octets(out: &mut Vec<u8>, octets: &[u8]) {
    put(out, u32::try_from(octets.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(octets);
}

pub(super) fn cut(reason: &str) -> &str {
    reason.get(..reason.floor_char_boundary(REASON_BYTES_MAX)).unwrap_or_default()
}
