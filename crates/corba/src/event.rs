//! Events as bytes: their forms, their encodings, and translation for consumers.
//!
//! An event is stored as its supplier sent it: the body of the `push…` request, octet for octet. The engine does not interpret those bytes;
//! a tag beside them says how to read them ([`tag_of`]). A consumer that supports their encoding gets them unchanged. Otherwise they are
//! translated (`translate`), once for all consumers with the same requirements:
//!
//! - its *form*, structured event or Any;
//! - its *version*: in GIOP 1.2 bodies begin at multiples of 8 and wide characters are laid out differently;
//! - its *characters*: ISO 8859-1 or UTF-8;
//! - its *mark*: whether its header says that it may have come before ([`POSSIBLY_REPEATED`]).
//!
//! Byte order is never changed: each GIOP message says its own.
//!
//! Conversion between the two forms (OMG Notification Service 1.1, event translation):
//!
//! - An Any becomes a structured event of the type `%ANY` in no domain, with empty event name, headers and filterable
//!   data, and the Any as `remainder_of_body`.
//! - A structured event becomes an Any that holds it, with the whole type as the IDL has it.
//! - Each rule undoes the other: an Any that holds a structured event becomes that structured event, and a structured event of the type
//!   `%ANY` without filterable data becomes the Any that is its body.
//!
//! Sequences are not a form. A received one is split into structured events ([`Batch`]), and a sent one is assembled from them
//! ([`write_batch`]). Pulled events are written for the requesting connection ([`write_pulled`]).

mod batch;
mod fields;
mod header;
mod output_forms;
mod pulled;
mod skeleton;
#[cfg(test)]
mod tests;
mod timer;
mod translate;
mod types;

pub use batch::{Batch, Known, batch_encoding, write_batch, write_correlated};
pub use fields::{
    CorbaForms, EventFields, field_behind, fields_of_any, fields_of_properties, fields_of_structured,
    is_contained_behind,
};
pub(crate) use header::UNIX_EPOCH;
pub(super) use header::read_through;
pub use header::{ANY_HEADER, Header, UtcClock, read_behind_type, read_header, read_structured};
pub(super) use output_forms::output_form_for;
pub use output_forms::{
    Source, fits, protocol_output_form, pull_output_form, source_for, takes_batches, utf8_output_form, version_of,
};
pub use pulled::{Pulled, read_pulled, write_nothing, write_one, write_pulled};
pub use skeleton::Skeleton;
pub use timer::{TimerEvent, write_timer_event};
pub use translate::{DEAD_LETTER, Translated, Untranslatable, as_dead_letter, translate};

use engine::Form;
use giop::cdr::{CharSet, Encoding, Endian, ReadError, Reader, Version};
use giop::recode::skip_any;
use giop::typecode::Work;

/// The body of `CosEventComm::PushConsumer::push`: one Any.
pub const FORM_ANY: Form = Form(1);
/// The body of `CosNotifyComm::StructuredPushConsumer::push_structured_event`: one `CosNotification::StructuredEvent`.
pub const FORM_STRUCTURED: Form = Form(2);

/// The event type of an Any: its name, in no domain.
pub const ANY_TYPE_NAME: &[u8] = b"%ANY";

/// The event type of a typed event, which is known here only to `match_typed`: its name, in no domain.
pub const TYPED_TYPE_NAME: &[u8] = b"%TYPED";

// ---- what an event's bytes are ----

/// Packs the encoding of an event's bytes, and the position of the first one in its message.
#[must_use]
pub fn tag_of(encoding: Encoding, phase: usize) -> u64 {
    let Encoding { endian, version, chars } = encoding;
    u64::from(endian.flag()) | u64::from(version.minor()) << 1 | chars_bit(chars) << 3 | (phase as u64 & 7) << 4
}

/// Bit of a tag: nothing in the event is aligned to 8.
const LOOSE: u64 = 1 << 7;

/// Packs a tag as [`tag_of`] does. `is_loose` means that nothing in the event is aligned to 8 (an 8-octet number or a `long double`, CORBA
/// 3.3 part 2, 9.3.1.1). Its octets then mean the same at any position that is equal modulo 4, and the tag has that position.
#[must_use]
pub fn tag_at(encoding: Encoding, phase: usize, is_loose: bool) -> u64 {
    if is_loose { tag_of(encoding, phase & 3) | LOOSE } else { tag_of(encoding, phase) }
}

/// Whether nothing in an event lies at a multiple of 8.
pub(super) fn is_loose(tag: u64) -> bool {
    tag & LOOSE != 0
}

/// Bit of a tag: the event may have been delivered before, by an earlier process.
const REPEATED: u64 = 1 << 8;

/// The property in the variable header that marks a possibly repeated event, if its consumer requests it (`MarkRepeats`).
pub const POSSIBLY_REPEATED: &[u8] = b"PossiblyRepeated";

/// The property in the variable header, an `unsigned long long`, with an event's number in its channel, for consumers with `StartFrom`.
pub const EVENT_NUMBER: &[u8] = b"EventNumber";

/// The property with an event's time of arrival at the service, an `unsigned long long` in 100 ns since 15 October 1582
/// (`TimeBase::TimeT`). Pulled events lack it.
pub const EVENT_TIME: &[u8] = b"EventTime";

/// The properties with the number of an event's set, an `unsigned long long`, and its place in the set, an `unsigned long`, for consumers
/// of single events with `When`. Both count from 1 and 0 while the consumer is connected.
pub const CORRELATION_SET: &[u8] = b"CorrelationSet";
/// See [`CORRELATION_SET`].
pub const CORRELATION_INDEX: &[u8] = b"CorrelationIndex";

/// The tag of an event that may have been delivered before: it is marked for consumers whose output form [requests
/// it](engine::OutputForm::marks_repeats).
#[must_use]
pub const fn as_repeated(tag: u64) -> u64 {
    tag | REPEATED
}

pub(super) const fn is_repeated(tag: u64) -> bool {
    tag & REPEATED != 0
}

/// A reader over an event's bytes.
#[must_use]
pub fn reader(bytes: &[u8], tag: u64) -> Reader<'_> {
    let endian = if tag & 1 == 0 { Endian::Big } else { Endian::Little };
    let version = match tag >> 1 & 3 {
        0 => Version::V1_0,
        1 => Version::V1_1,
        _ => Version::V1_2,
    };
    let chars = if tag >> 3 & 1 == 0 { CharSet::Latin1 } else { CharSet::Utf8 };
    Reader::with_phase(bytes, phase_of(tag), Encoding { endian, version, chars })
}

/// The encoding of an event's bytes. They are sent in a message of that byte order, on a connection with that code set; the message's
/// version is the consumer's ([`version_of`]), for which they fit.
#[must_use]
pub fn encoding_of(tag: u64) -> Encoding {
    reader(&[], tag).encoding()
}

/// Position, modulo 8, of an event's first octet in a message; for a loose event other positions are possible, too.
#[must_use]
pub fn phase_of(tag: u64) -> usize {
    usize::from(tag.to_le_bytes()[0] >> 4 & 7)
}

/// The work limit for an event of this size: four steps per byte, which no reasonable value exceeds, so that a few bytes cannot keep a lane
/// busy, and 4,194,304 at most. A step takes some tens of nanoseconds.
#[must_use]
pub fn work_for(bytes: usize) -> Work {
    const STEPS_MIN: u32 = 4096;
    const STEPS_MAX: u32 = 1 << 22;
    const DEPTH: u32 = 128;
    let steps = u32::try_from(bytes).unwrap_or(u32::MAX).saturating_mul(4).saturating_add(STEPS_MIN);
    Work::new(steps.min(STEPS_MAX), DEPTH)
}

fn chars_bit(chars: CharSet) -> u64 {
    match chars {
        CharSet::Latin1 => 0,
        CharSet::Utf8 => 1,
    }
}

/// Reads an Any to its end, within `work`, and returns its header as an event.
///
/// # Errors
///
/// The body is not exactly one Any (`MARSHAL`), or exceeds `work`.
pub fn read_any(mut body: Reader<'_>, work: &mut Work) -> Result<Header<'static>, ReadError> {
    skip_any(&mut body, work)?;
    let header = Header { is_loose: !body.has_eights(), ..ANY_HEADER };
    body.finish("any").map(|()| header)
}

/// Converts a name to UTF-8, the code set of subscriptions. `scratch` is used only for ISO 8859-1 beyond ASCII.
pub fn name_in_utf8<'n>(name: &'n [u8], chars: CharSet, scratch: &'n mut String) -> &'n [u8] {
    if chars == CharSet::Utf8 || name.is_ascii() {
        return name;
    }
    scratch.clear();
    scratch.extend(name.iter().map(|octet| char::from(*octet)));
    scratch.as_bytes()
}

pub(super) fn skip_properties(body: &mut Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
    for _ in 0..body.seq_len(PROPERTY_BYTES_MIN)? {
        body.string()?;
        skip_any(body, work)?;
    }
    Ok(())
}

/// Minimum size of a property: the length of its name and the kind of its value.
const PROPERTY_BYTES_MIN: usize = 8;
