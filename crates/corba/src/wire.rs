//! Arguments and results that several operations have in common.

use super::exceptions::Raised;
use engine::EventType;
use giop::cdr::{ReadError, ReadErrorKind, Reader, Writer};
use giop::ior::Ior;

/// Maximum event types in one list of a call.
const EVENT_TYPES_MAX: u32 = 4096;

/// Maximum size of a stored reference, in octets of its keys, addresses and components. Real ones have a few hundred.
const REFERENCE_BYTES_MAX: usize = 64 << 10;

/// Reads a `ChannelID`, `AdminID` or `ProxyID`: a `long`. A negative one is `None`.
pub(super) fn read_id(args: &mut Reader<'_>) -> Result<Option<u32>, ReadError> {
    Ok(u32::try_from(args.i32()?).ok())
}

/// Writes an id as a `long`.
pub(super) fn write_id(id: u32, out: &mut Writer<'_>) {
    // Ids count up from 0; none gets anywhere near the end of `long`.
    out.i32(i32::try_from(id).unwrap_or(i32::MAX));
}

/// Writes a sequence of ids.
pub(super) fn write_ids(ids: impl Iterator<Item = u32>, out: &mut Writer<'_>) {
    let ids: Vec<u32> = ids.collect();
    out.length(ids.len());
    for id in ids {
        write_id(id, out);
    }
}

/// Reads an enumerated type with values from 0 to `last`.
pub(super) fn read_enum(args: &mut Reader<'_>, what: &'static str, last: u32) -> Result<u32, ReadError> {
    match args.u32()? {
        value if value <= last => Ok(value),
        value => Err(args.error(ReadErrorKind::BadValue { what, value })),
    }
}

/// Reads a reference, and refuses one above the maximum size.
pub(super) fn read_reference(args: &mut Reader<'_>) -> Result<Ior, Raised> {
    let before = args.remaining();
    let reference = Ior::read(args)?;
    if before - args.remaining() > REFERENCE_BYTES_MAX {
        return Err(Raised::limit());
    }
    Ok(reference)
}

/// Reads a `CosNotification::EventTypeSeq` and checks each.
pub(super) fn read_event_types(args: &mut Reader<'_>) -> Result<Vec<EventType>, Raised> {
    let count = args.seq_len(8)?;
    if count > EVENT_TYPES_MAX {
        return Err(Raised::limit());
    }
    let types = (0..count).map(|_| Ok(EventType { domain: args.text()?, name: args.text()? }));
    Ok(types.collect::<Result<_, ReadError>>()?)
}

/// Writes a `CosNotification::EventTypeSeq`.
pub(super) fn write_event_types(types: &[EventType], out: &mut Writer<'_>) {
    out.length(types.len());
    for EventType { domain, name } in types {
        out.string(domain);
        out.string(name);
    }
}
