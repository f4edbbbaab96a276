//! Translation of events into another form, version, code set or alignment.

use super::output_forms::{encoding_for, fits, form_of};
use super::{
    ANY_TYPE_NAME, CORRELATION_INDEX, CORRELATION_SET, EVENT_NUMBER, EVENT_TIME, FORM_ANY, FORM_STRUCTURED,
    POSSIBLY_REPEATED, PROPERTY_BYTES_MIN, is_loose, is_repeated, reader, skip_properties, tag_at, types, work_for,
};
use engine::{Correlated, Form, NumberForm, NumberPlace, OutputForm};
use giop::cdr::{Endian, ReadError, Reader, Writer};
use giop::recode::{copy_any, copy_string, skip_any, skip_type_code};
use giop::typecode::{Kind, Work};
use std::fmt;

/// Repository id of `CosNotification::StructuredEvent`.
const STRUCTURED_EVENT_ID: &str = "IDL:omg.org/CosNotification/StructuredEvent:1.0";

/// Result of translating an event for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translated {
    /// No translation: the event can be sent as it is.
    AlreadyFits,
    /// The event was translated.
    Written {
        /// The tag of the new bytes, see [`tag_at`].
        tag: u64,
        /// Position for the event's number to be filled in later, if the bytes have one.
        number_at: Option<NumberPlace>,
    },
}

/// An event that cannot be put into what a consumer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untranslatable {
    /// The bytes cannot be read: text that is not valid in its code set, an unsupported type.
    Bytes(ReadError),
    /// The form is unknown here.
    Form(Form),
    /// The translation failed when the event arrived.
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

/// Translates an event for consumers with an output form, appending it to `out`. Only `out` grows. `came` is the time of arrival, in 100 ns
/// since 15 October 1582.
///
/// # Errors
///
/// The event cannot be translated; `out` is unchanged.
pub fn translate(
    form: Form,
    tag: u64,
    bytes: &[u8],
    (output_form, came): (OutputForm, u64),
    out: &mut Vec<u8>,
) -> Result<Translated, Untranslatable> {
    if fits(form, tag, output_form) {
        return Ok(Translated::AlreadyFits);
    }
    let source = reader(bytes, tag);
    let encoding = encoding_for(output_form, source.encoding());
    let mut writer = Writer::new(out, encoding);
    let mut marks = Marks::of(tag, output_form, (Some(0), Some(came)));
    write_as(form, source, (form_of(output_form), &mut marks), &mut writer)?;
    let number_at = marks.number_at.and_then(|at| {
        let form = match encoding.endian {
            Endian::Big => NumberForm::BigEndian,
            Endian::Little => NumberForm::LittleEndian,
        };
        Some(NumberPlace { offset: u32::try_from(at).ok()?, form })
    });
    // But for that, no translation adds a number that is aligned, or takes one away.
    let is_loose = is_loose(tag) && number_at.is_none();
    Ok(Translated::Written { tag: tag_at(encoding, 0, is_loose), number_at })
}

/// Writes an event of one form in another (or the same), in the writer's encoding and position, with these marks if it has a header.
///
/// # Errors
///
/// The event cannot be translated; the output is removed.
pub(super) fn write_as(
    form: Form,
    source: Reader<'_>,
    (required_form, marks): (Form, &mut Marks),
    out: &mut Writer<'_>,
) -> Result<(), Untranslatable> {
    let begin = out.position();
    let mut work = work_for(source.remaining());
    let done = match (form, required_form) {
        (FORM_ANY, FORM_ANY) => copy_any(&mut source.clone(), out, &mut work),
        (FORM_STRUCTURED, FORM_STRUCTURED) => copy_structured(&mut source.clone(), marks, out, &mut work),
        (FORM_STRUCTURED, FORM_ANY) => structured_to_any(source, marks, out, &mut work),
        (FORM_ANY, FORM_STRUCTURED) => any_to_structured(source, marks, out, &mut work),
        _ => return Err(Untranslatable::Form(form)),
    };
    done.map_err(|error| {
        out.truncate(begin);
        Untranslatable::Bytes(error)
    })
}

/// Properties in the variable header of a dead letter, an event that was undeliverable for a consumer: the reason, the consumer, and the
/// number of the original channel. Each is a `string`.
pub const DEAD_LETTER: [&[u8]; 3] = [b"DeadLetterReason", b"DeadLetterConsumer", b"DeadLetterOf"];

/// Writes an event as a structured event with these values, which are ASCII, for [`DEAD_LETTER`] at the end of its variable header,
/// appended to `out`. Returns its tag.
///
/// # Errors
///
/// The event cannot be translated.
pub fn as_dead_letter(
    (form, tag, bytes): (Form, u64, &[u8]),
    values: [&str; 3],
    out: &mut Vec<u8>,
) -> Result<u64, Untranslatable> {
    let source = reader(bytes, tag);
    let encoding = source.encoding();
    let mut plain = Vec::new();
    write_as(form, source, (FORM_STRUCTURED, &mut Marks::default()), &mut Writer::new(&mut plain, encoding))?;
    let mut source = reader(&plain, tag_at(encoding, 0, false));
    let begin = out.len();
    let mut writer = Writer::new(out, encoding);
    let done = copy_as_dead_letter(&mut source, values, &mut writer);
    done.map_err(|error| {
        out.truncate(begin);
        Untranslatable::Bytes(error)
    })?;
    Ok(tag_at(encoding, 0, is_loose(tag)))
}

fn copy_as_dead_letter(source: &mut Reader<'_>, values: [&str; 3], out: &mut Writer<'_>) -> Result<(), ReadError> {
    let mut work = work_for(source.remaining());
    for _ in 0..3 {
        copy_string(source, out)?;
    }
    let count = source.seq_len(PROPERTY_BYTES_MIN)?;
    out.u32(count + 3);
    for _ in 0..count {
        copy_string(source, out)?;
        copy_any(source, out, &mut work)?;
    }
    for (name, value) in DEAD_LETTER.into_iter().zip(values) {
        out.string_bytes(name);
        out.u32(Kind::String.number());
        out.u32(0);
        out.string_bytes(value.as_bytes());
    }
    copy_properties(source, out, &mut work)?;
    copy_any(source, out, &mut work)
}

fn structured_to_any(
    mut source: Reader<'_>,
    marks: &mut Marks,
    out: &mut Writer<'_>,
    work: &mut Work,
) -> Result<(), ReadError> {
    if let Some(mut any) = any_inside(source.clone(), work) {
        return copy_any(&mut any, out, work);
    }
    // The type says its own byte order and alignment and has no character beyond ASCII, so it is the same everywhere.
    out.align(4);
    out.raw(types::structured_event(out.encoding().endian));
    copy_structured(&mut source, marks, out, work)
}

/// The Any from which a structured event was made, if it was and contains nothing else.
pub(super) fn any_inside<'a>(mut event: Reader<'a>, work: &mut Work) -> Option<Reader<'a>> {
    if !event.string().ok()?.is_empty() || event.string().ok()? != ANY_TYPE_NAME {
        return None;
    }
    event.string().ok()?;
    skip_properties(&mut event, work).ok()?;
    (event.u32().ok()? == 0).then_some(event)
}

fn any_to_structured(
    source: Reader<'_>,
    marks: &mut Marks,
    out: &mut Writer<'_>,
    work: &mut Work,
) -> Result<(), ReadError> {
    if says_structured_event(source.clone()) {
        // Not every type of that name is that type; what cannot be read as one is an Any like any other.
        let begin = out.position();
        if copy_contained(source.clone(), marks, out, work).is_ok() {
            return Ok(());
        }
        out.truncate(begin);
    }
    out.string_bytes(b"");
    out.string_bytes(ANY_TYPE_NAME);
    out.string_bytes(b"");
    out.u32(marks.count());
    marks.write(out);
    out.length(0);
    copy_any(&mut source.clone(), out, work)
}

/// Whether an Any's type is that of a structured event.
pub(super) fn says_structured_event(mut any: Reader<'_>) -> bool {
    let is_struct = any.u32().is_ok_and(|kind| kind == Kind::Struct.number());
    let is_that_id = |mut params: Reader<'_>| params.string().is_ok_and(|id| id == STRUCTURED_EVENT_ID.as_bytes());
    is_struct && any.encapsulation().is_ok_and(is_that_id)
}

/// Copies the structured event out of an Any that holds one.
fn copy_contained(
    mut any: Reader<'_>,
    marks: &mut Marks,
    out: &mut Writer<'_>,
    work: &mut Work,
) -> Result<(), ReadError> {
    skip_type_code(&mut any, work)?;
    copy_structured(&mut any, marks, out, work)?;
    any.finish("CosNotification::StructuredEvent")
}

/// Copies a structured event, member by member as the IDL has them, with these marks.
pub(super) fn copy_structured(
    source: &mut Reader<'_>,
    marks: &mut Marks,
    out: &mut Writer<'_>,
    work: &mut Work,
) -> Result<(), ReadError> {
    // domain_name, type_name, event_name
    for _ in 0..3 {
        copy_string(source, out)?;
    }
    // variable_header
    match marks.count() {
        0 => copy_properties(source, out, work)?,
        _ => copy_header_marked(source, marks, out, work)?,
    }
    // filterable_data
    copy_properties(source, out, work)?;
    // remainder_of_body
    copy_any(source, out, work)
}

fn copy_properties(source: &mut Reader<'_>, out: &mut Writer<'_>, work: &mut Work) -> Result<(), ReadError> {
    let count = source.seq_len(PROPERTY_BYTES_MIN)?;
    out.u32(count);
    for _ in 0..count {
        copy_string(source, out)?;
        copy_any(source, out, work)?;
    }
    Ok(())
}

/// Copies a variable header and appends the marks, in place of existing ones.
fn copy_header_marked(
    source: &mut Reader<'_>,
    marks: &mut Marks,
    out: &mut Writer<'_>,
    work: &mut Work,
) -> Result<(), ReadError> {
    let mut count = marks.count();
    out.align(4);
    let count_at = out.position();
    out.u32(count);
    for _ in 0..source.seq_len(PROPERTY_BYTES_MIN)? {
        let name = source.clone().string()?;
        if marks.replace(name) {
            source.string()?;
            skip_any(source, work)?;
            continue;
        }
        count += 1;
        copy_string(source, out)?;
        copy_any(source, out, work)?;
    }
    marks.write(out);
    out.patch_u32(count_at, count);
    Ok(())
}

/// Properties that the service adds to an event's variable header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// Whether the event may be repeated.
    pub(super) repeated: bool,
    /// Time of arrival, in 100 ns since 15 October 1582.
    pub(super) time: Option<u64>,
    /// The event's number, which may be filled in later.
    pub(super) number: Option<u64>,
    /// Position of the written number.
    pub(super) number_at: Option<usize>,
    /// The event's set, and its place there.
    pub(super) correlated: Option<Correlated>,
}

impl Marks {
    /// The marks of an event with this tag for consumers with an output form: the event's number if known, and its time of arrival.
    pub(super) fn of(tag: u64, output_form: OutputForm, (number, time): (Option<u64>, Option<u64>)) -> Self {
        Self {
            repeated: is_repeated(tag) && output_form.marks_repeats(),
            time: time.filter(|_| output_form.marks_numbers()),
            number: number.filter(|_| output_form.marks_numbers()),
            number_at: None,
            correlated: None,
        }
    }

    /// Whether a mark replaces the property of this name.
    fn replace(&self, name: &[u8]) -> bool {
        (name == POSSIBLY_REPEATED && self.repeated)
            || (name == EVENT_TIME && self.time.is_some())
            || (name == EVENT_NUMBER && self.number.is_some())
            || ((name == CORRELATION_SET || name == CORRELATION_INDEX) && self.correlated.is_some())
    }

    /// Number of marks.
    pub(super) fn count(&self) -> u32 {
        let single: u32 = [self.repeated, self.time.is_some(), self.number.is_some()].map(u32::from).iter().sum();
        single + 2 * u32::from(self.correlated.is_some())
    }

    fn write(&mut self, out: &mut Writer<'_>) {
        if self.repeated {
            out.string_bytes(POSSIBLY_REPEATED);
            out.u32(Kind::Boolean.number());
            out.bool(true);
        }
        if let Some(time) = self.time {
            out.string_bytes(EVENT_TIME);
            out.u32(Kind::ULongLong.number());
            out.u64(time);
        }
        if let Some(number) = self.number {
            out.string_bytes(EVENT_NUMBER);
            out.u32(Kind::ULongLong.number());
            out.u64(number);
            self.number_at = Some(out.position() - size_of::<u64>());
        }
        if let Some(Correlated { set, index }) = self.correlated {
            out.string_bytes(CORRELATION_SET);
            out.u32(Kind::ULongLong.number());
            out.u64(set);
            out.string_bytes(CORRELATION_INDEX);
            out.u32(Kind::ULong.number());
            out.u32(index);
        }
    }
}
