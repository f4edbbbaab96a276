//! Events put into another form, version, code set or alignment.

use super::wants::{encoding_for, fits, form_of};
use super::{
    ANY_TYPE_NAME, FORM_ANY, FORM_STRUCTURED, PROPERTY_BYTES_MIN, is_loose, reader, skip_properties, tag_at, types,
    work_for,
};
use engine::{Form, Want};
use giop::cdr::{ReadError, Reader, Writer};
use giop::recode::{copy_any, copy_string, skip_type_code};
use giop::typecode::{Kind, Work};
use std::fmt;

/// Repository id of `CosNotification::StructuredEvent`.
const STRUCTURED_EVENT_ID: &str = "IDL:omg.org/CosNotification/StructuredEvent:1.0";

/// What became of an event for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translated {
    /// Nothing: it can be sent as it is.
    AlreadyFits,
    /// Other bytes.
    Written {
        /// How they are to be read, see [`tag_at`].
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
    /// It was tried when it arrived, and failed.
    Already,
}

impl fmt::Display for Untranslatable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(error) => write!(f, "the event cannot be put into the form that a consumer needs: {error}"),
            Self::Form(Form(form)) => write!(f, "events of form {form} cannot be sent through CORBA"),
            Self::Already => f.write_str("the event could not be put into the form that a consumer needs when it came"),
        }
    }
}

impl std::error::Error for Untranslatable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bytes(error) => Some(error),
            Self::Form(_) | Self::Already => None,
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
    let source = reader(bytes, tag);
    let encoding = encoding_for(want, source.encoding());
    let mut writer = Writer::new(out, encoding);
    write_as(form, source, form_of(want), &mut writer)?;
    // No translation adds a number or takes one away.
    Ok(Translated::Written { tag: tag_at(encoding, 0, is_loose(tag)) })
}

/// Writes an event that is in one form in another (or the same), in the writer's encoding and at its place.
///
/// # Errors
///
/// It cannot be done; what was written is taken back.
pub(super) fn write_as(
    form: Form,
    source: Reader<'_>,
    wanted: Form,
    out: &mut Writer<'_>,
) -> Result<(), Untranslatable> {
    let begin = out.position();
    let mut work = work_for(source.remaining());
    let done = match (form, wanted) {
        (FORM_ANY, FORM_ANY) => copy_any(&mut source.clone(), out, &mut work),
        (FORM_STRUCTURED, FORM_STRUCTURED) => copy_structured(&mut source.clone(), out, &mut work),
        (FORM_STRUCTURED, FORM_ANY) => structured_to_any(source, out, &mut work),
        (FORM_ANY, FORM_STRUCTURED) => any_to_structured(source, out, &mut work),
        _ => return Err(Untranslatable::Form(form)),
    };
    done.map_err(|error| {
        out.truncate(begin);
        Untranslatable::Bytes(error)
    })
}

fn structured_to_any(mut source: Reader<'_>, out: &mut Writer<'_>, work: &mut Work) -> Result<(), ReadError> {
    if let Some(mut any) = any_inside(source.clone(), work) {
        return copy_any(&mut any, out, work);
    }
    // The type says its own byte order and alignment and has no character beyond ASCII, so it is the same everywhere.
    out.align(4);
    out.raw(types::structured_event(out.encoding().endian));
    copy_structured(&mut source, out, work)
}

/// The Any of which a structured event was made, if it was and has come to hold nothing else.
pub(super) fn any_inside<'a>(mut event: Reader<'a>, work: &mut Work) -> Option<Reader<'a>> {
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
pub(super) fn says_structured_event(mut any: Reader<'_>) -> bool {
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
pub(super) fn copy_structured(source: &mut Reader<'_>, out: &mut Writer<'_>, work: &mut Work) -> Result<(), ReadError> {
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
