//! Events as bytes: their forms, their encodings, and what a consumer needs them put into.
//!
//! An event stays as its supplier sent it: the body of the `push…` request, octet for octet. The engine carries those
//! bytes without knowing what they are; what has to be known to read them travels beside them as a tag ([`tag_of`]). A
//! consumer that can take them as they are gets them as they are. Otherwise they are put into what it needs
//! ([`translate`]), once for all consumers that need the same ([`Want`]):
//!
//! - its *form*, structured event or Any;
//! - its *version*: in GIOP 1.2 bodies begin at multiples of 8 and wide characters are laid out differently;
//! - its *characters*: ISO 8859-1 or UTF-8.
//!
//! Byte order is never changed: each GIOP message says its own.
//!
//! How the two forms become each other (OMG Notification Service 1.1, event translation):
//!
//! - An Any becomes a structured event of the type `%ANY` in no domain, with empty event name, headers and filterable
//!   data, whose `remainder_of_body` is the Any.
//! - A structured event becomes an Any that holds it, with the whole type as the IDL has it.
//! - What either rule made, the other undoes: an Any that holds a structured event becomes that structured event, and a
//!   structured event of the type `%ANY` without filterable data becomes the Any that is its body.

use super::exceptions::Raised;
use engine::{Form, Want};
use giop::cdr::{CharSet, Encoding, Endian, ReadError, Reader, Version, Writer};
use giop::codeset::{negotiate, supports};
use giop::ior::Ior;
use giop::recode::{copy_any, copy_string, skip_any, skip_type_code};
use giop::typecode::{Kind, TypeCode, Work};
use std::fmt;
use std::sync::LazyLock;

#[cfg(test)]
mod tests;

/// The body of `CosEventComm::PushConsumer::push`: one Any.
pub const FORM_ANY: Form = Form(1);
/// The body of `CosNotifyComm::StructuredPushConsumer::push_structured_event`: one `CosNotification::StructuredEvent`.
pub const FORM_STRUCTURED: Form = Form(2);

/// The event type of an Any: its name, in no domain.
pub const ANY_TYPE_NAME: &[u8] = b"%ANY";

/// Repository id of `CosNotification::StructuredEvent`.
const STRUCTURED_EVENT_ID: &str = "IDL:omg.org/CosNotification/StructuredEvent:1.0";

// ---- what an event's bytes are ----

/// Packs how an event's bytes are to be read: their encoding, and the position of the first one in its message.
#[must_use]
pub fn tag_of(encoding: Encoding, phase: usize) -> u64 {
    let Encoding { endian, version, chars } = encoding;
    u64::from(endian.flag()) | u64::from(version.minor()) << 1 | chars_bit(chars) << 3 | (phase as u64 & 7) << 4
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

/// How an event's bytes are encoded. They are to be sent in a message of that byte order, on a connection with that code
/// set; the message's version is the consumer's ([`version_of`]), for which they fit.
#[must_use]
pub fn encoding_of(tag: u64) -> Encoding {
    reader(&[], tag).encoding()
}

/// Position, modulo 8, at which an event's first octet has to lie in a message.
#[must_use]
pub fn phase_of(tag: u64) -> usize {
    usize::from(tag.to_le_bytes()[0] >> 4 & 7)
}

/// The work that an event of so many bytes may cause: four steps a byte, which no value that a program means exceeds, so
/// that a few bytes cannot keep a lane busy, and 4,194,304 at most. A step takes some tens of nanoseconds.
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

/// What of a structured event decides where it goes. Texts are in the code set of the event's encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructuredHeader<'a> {
    /// Domain of the event's type.
    pub domain: &'a [u8],
    /// Name of the event's type.
    pub type_name: &'a [u8],
    /// Name of the event.
    pub event_name: &'a [u8],
}

/// Reads a structured event to its end, within `work`, and gives its fixed header.
///
/// # Errors
///
/// The body is not one structured event and nothing more (`MARSHAL`), or is too intricate for `work`.
pub fn read_structured<'a>(mut body: Reader<'a>, work: &mut Work) -> Result<StructuredHeader<'a>, ReadError> {
    let header = StructuredHeader { domain: body.string()?, type_name: body.string()?, event_name: body.string()? };
    skip_properties(&mut body, work)?;
    skip_properties(&mut body, work)?;
    skip_any(&mut body, work)?;
    body.finish("CosNotification::StructuredEvent")?;
    Ok(header)
}

/// Reads an Any to its end, within `work`.
///
/// # Errors
///
/// The body is not one Any and nothing more (`MARSHAL`), or is too intricate for `work`.
pub fn read_any(mut body: Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
    skip_any(&mut body, work)?;
    body.finish("any")
}

/// A name in UTF-8, in which subscriptions are kept, from an event's own code set. `scratch` is used only where the two
/// differ, that is, for ISO 8859-1 beyond ASCII.
pub fn name_in_utf8<'n>(name: &'n [u8], chars: CharSet, scratch: &'n mut String) -> &'n [u8] {
    if chars == CharSet::Utf8 || name.is_ascii() {
        return name;
    }
    scratch.clear();
    scratch.extend(name.iter().map(|octet| char::from(*octet)));
    scratch.as_bytes()
}

fn skip_properties(body: &mut Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
    for _ in 0..body.seq_len(PROPERTY_BYTES_MIN)? {
        body.string()?;
        skip_any(body, work)?;
    }
    Ok(())
}

/// The least that a property takes: the length of its name and the kind of its value.
const PROPERTY_BYTES_MIN: usize = 8;

// ---- what a consumer needs ----

/// What events for a consumer have to be like, in the terms of its reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Needs {
    form: Form,
    /// The newest version that it takes, in which it is called.
    version: Version,
    /// The code set that its own reference makes best.
    best: CharSet,
    /// Whether it takes the other one too.
    other: bool,
}

impl Needs {
    fn pack(self) -> Want {
        let Self { form, version, best, other } = self;
        let best = u32::from(best == CharSet::Utf8);
        Want(u32::from(form.0) << 8 | u32::from(version.minor()) << 2 | best << 1 | u32::from(other))
    }

    fn unpack(Want(want): Want) -> Self {
        let [_, high, low, bits] = want.to_be_bytes();
        Self {
            form: Form(u16::from_be_bytes([high, low])),
            version: Version::from_minor(bits >> 2 & 3).unwrap_or(Version::V1_2),
            best: if bits >> 1 & 1 == 0 { CharSet::Latin1 } else { CharSet::Utf8 },
            other: bits & 1 == 1,
        }
    }

    fn takes(self, chars: CharSet) -> bool {
        self.best == chars || self.other
    }
}

/// What a consumer needs that takes events in a form and is reached through a reference.
///
/// # Errors
///
/// It cannot be reached through IIOP (`BAD_PARAM`), or it offers no code set that is understood here
/// (`CODESET_INCOMPATIBLE`).
pub(super) fn want_for(form: Form, consumer: &Ior) -> Result<Want, Raised> {
    let profile = consumer.iiop().ok_or_else(Raised::bad_param)?;
    let needs = match profile.code_sets() {
        // GIOP 1.0 knows nothing of code sets; without a word of them ISO 8859-1 is meant.
        Some(info) if profile.version > Version::V1_0 => {
            let best = negotiate(Some(&info)).map_err(|incompatible| {
                log::info!(target: "campanile::corba", "a consumer cannot connect: {incompatible}");
                Raised::codeset_incompatible()
            })?;
            let other = match best {
                CharSet::Latin1 => CharSet::Utf8,
                CharSet::Utf8 => CharSet::Latin1,
            };
            Needs { form, version: profile.version, best, other: supports(&info, other) }
        }
        _ => Needs { form, version: profile.version, best: CharSet::Latin1, other: false },
    };
    Ok(needs.pack())
}

/// The version in which a consumer with this want is called.
#[must_use]
pub fn version_of(want: Want) -> Version {
    Needs::unpack(want).version
}

/// Whether an event can be sent as it is to a consumer with this want.
#[must_use]
pub fn fits(form: Form, tag: u64, want: Want) -> bool {
    let needs = Needs::unpack(want);
    let Encoding { version, chars, .. } = encoding_of(tag);
    form == needs.form && needs.takes(chars) && is_same_layout(version, needs.version) && is_placeable(tag, needs)
}

/// Before GIOP 1.2 wide characters are laid out alike.
fn is_same_layout(a: Version, b: Version) -> bool {
    (a < Version::V1_2) == (b < Version::V1_2)
}

/// A body begins at a multiple of 8 in GIOP 1.2. Before that a header can be filled up until it begins anywhere.
fn is_placeable(tag: u64, needs: Needs) -> bool {
    needs.version < Version::V1_2 || phase_of(tag) == 0
}

/// What became of an event for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translated {
    /// Nothing: it can be sent as it is.
    AlreadyFits,
    /// Other bytes.
    Written {
        /// How they are to be read, see [`tag_of`].
        tag: u64,
    },
}

/// An event that cannot be put into what a consumer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untranslatable {
    /// Its bytes cannot be walked through: text that is not valid in its code set, a type that is not supported.
    Bytes(ReadError),
    /// It has a form of which nothing is known here.
    Form(Form),
}

impl fmt::Display for Untranslatable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(error) => write!(f, "the event cannot be put into the form that a consumer needs: {error}"),
            Self::Form(Form(form)) => write!(f, "events of form {form} cannot be sent through CORBA"),
        }
    }
}

impl std::error::Error for Untranslatable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bytes(error) => Some(error),
            Self::Form(_) => None,
        }
    }
}

/// Puts an event into what consumers with a want need, appending it to `out`. Nothing but `out` grows.
///
/// # Errors
///
/// It cannot be done; `out` is as it was.
pub fn translate(
    form: Form,
    tag: u64,
    bytes: &[u8],
    want: Want,
    out: &mut Vec<u8>,
) -> Result<Translated, Untranslatable> {
    if fits(form, tag, want) {
        return Ok(Translated::AlreadyFits);
    }
    let needs = Needs::unpack(want);
    let source = reader(bytes, tag);
    let Encoding { endian, chars, .. } = source.encoding();
    let encoding =
        Encoding { endian, version: needs.version, chars: if needs.takes(chars) { chars } else { needs.best } };
    let before = out.len();
    let mut writer = Writer::new(out, encoding);
    let mut work = work_for(bytes.len());
    let done = match (form, needs.form) {
        (FORM_ANY, FORM_ANY) => copy_any(&mut source.clone(), &mut writer, &mut work),
        (FORM_STRUCTURED, FORM_STRUCTURED) => copy_structured(&mut source.clone(), &mut writer, &mut work),
        (FORM_STRUCTURED, FORM_ANY) => structured_to_any(source, &mut writer, &mut work),
        (FORM_ANY, FORM_STRUCTURED) => any_to_structured(source, &mut writer, &mut work),
        _ => return Err(Untranslatable::Form(form)),
    };
    match done {
        Ok(()) => Ok(Translated::Written { tag: tag_of(encoding, 0) }),
        Err(error) => {
            out.truncate(before);
            Err(Untranslatable::Bytes(error))
        }
    }
}

fn structured_to_any(mut source: Reader<'_>, out: &mut Writer<'_>, work: &mut Work) -> Result<(), ReadError> {
    if let Some(mut any) = any_inside(source.clone(), work) {
        return copy_any(&mut any, out, work);
    }
    // The type says its own byte order and alignment and has no character beyond ASCII, so it is the same everywhere.
    out.align(4);
    out.raw(match out.encoding().endian {
        Endian::Big => &STRUCTURED_EVENT_TYPE.0,
        Endian::Little => &STRUCTURED_EVENT_TYPE.1,
    });
    copy_structured(&mut source, out, work)
}

/// The Any of which a structured event was made, if it was and has come to hold nothing else.
fn any_inside<'a>(mut event: Reader<'a>, work: &mut Work) -> Option<Reader<'a>> {
    if !event.string().ok()?.is_empty() || event.string().ok()? != ANY_TYPE_NAME {
        return None;
    }
    event.string().ok()?;
    skip_properties(&mut event, work).ok()?;
    (event.u32().ok()? == 0).then_some(event)
}

fn any_to_structured(source: Reader<'_>, out: &mut Writer<'_>, work: &mut Work) -> Result<(), ReadError> {
    if says_structured_event(source.clone()) {
        // Not every type of that name is that type; what cannot be read as one is an Any like any other.
        let begin = out.position();
        if copy_held(source.clone(), out, work).is_ok() {
            return Ok(());
        }
        out.truncate(begin);
    }
    out.string_bytes(b"");
    out.string_bytes(ANY_TYPE_NAME);
    out.string_bytes(b"");
    out.length(0);
    out.length(0);
    copy_any(&mut source.clone(), out, work)
}

/// Whether an Any says of itself that it holds a structured event.
fn says_structured_event(mut any: Reader<'_>) -> bool {
    let is_struct = any.u32().is_ok_and(|kind| kind == Kind::Struct.number());
    let is_that_id = |mut params: Reader<'_>| params.string().is_ok_and(|id| id == STRUCTURED_EVENT_ID.as_bytes());
    is_struct && any.encapsulation().is_ok_and(is_that_id)
}

/// Copies the structured event out of an Any that holds one.
fn copy_held(mut any: Reader<'_>, out: &mut Writer<'_>, work: &mut Work) -> Result<(), ReadError> {
    skip_type_code(&mut any, work)?;
    copy_structured(&mut any, out, work)?;
    any.finish("CosNotification::StructuredEvent")
}

/// Copies a structured event, member by member as the IDL has them.
fn copy_structured(source: &mut Reader<'_>, out: &mut Writer<'_>, work: &mut Work) -> Result<(), ReadError> {
    // domain_name, type_name, event_name
    for _ in 0..3 {
        copy_string(source, out)?;
    }
    // variable_header, filterable_data
    for _ in 0..2 {
        let count = source.seq_len(PROPERTY_BYTES_MIN)?;
        out.u32(count);
        for _ in 0..count {
            copy_string(source, out)?;
            copy_any(source, out, work)?;
        }
    }
    // remainder_of_body
    copy_any(source, out, work)
}

/// The type `CosNotification::StructuredEvent`, marshalled in both byte orders, big first.
static STRUCTURED_EVENT_TYPE: LazyLock<(Vec<u8>, Vec<u8>)> = LazyLock::new(|| {
    let code = structured_event_type();
    let [big, little] = [Endian::Big, Endian::Little].map(|endian| {
        let mut bytes = Vec::new();
        code.write(&mut Writer::new(&mut bytes, Encoding::new(endian)));
        bytes
    });
    (big, little)
});

/// The type `CosNotification::StructuredEvent` with every id, name and alias of the IDL, so that an ORB which knows it
/// from its own IDL compiler recognises it.
fn structured_event_type() -> TypeCode {
    let id = |name: &str| format!("IDL:omg.org/CosNotification/{name}:1.0");
    let alias = |name: &str, original| TypeCode::alias(&id(name), name, original);
    let structure = |name: &str, members: &[(&str, TypeCode)]| TypeCode::structure(&id(name), name, members);
    let property_name = alias("PropertyName", alias("Istring", TypeCode::string()));
    let property_value = alias("PropertyValue", TypeCode::any());
    let property = structure("Property", &[("name", property_name), ("value", property_value)]);
    let properties = alias("PropertySeq", TypeCode::sequence(property));
    // Called `_EventType` in the IDL, where the underscore only keeps the name from being taken for a keyword.
    let event_type = structure("EventType", &[("domain_name", TypeCode::string()), ("type_name", TypeCode::string())]);
    let fixed_header = structure("FixedEventHeader", &[("event_type", event_type), ("event_name", TypeCode::string())]);
    let variable_header = alias("OptionalHeaderFields", properties.clone());
    let header = structure("EventHeader", &[("fixed_header", fixed_header), ("variable_header", variable_header)]);
    let filterable_data = alias("FilterableEventBody", properties);
    structure(
        "StructuredEvent",
        &[("header", header), ("filterable_data", filterable_data), ("remainder_of_body", TypeCode::any())],
    )
}
