//! Translation of an event of CORBA's, or one that came as JSON, into a message.
//!
//! No content of an event is lost: if the declared type, or plain octets, have no place for all of it, the message is the whole structured
//! event. The quality of service in its header is no content: the service has acted on that.

use ::tempo::wire::Content;
use corba::event::{self, FORM_ANY, FORM_STRUCTURED, Translated};
use engine::Form;
use giop::cdr::{CharSet, Endian, Reader, Writer};
use giop::cursor::{Cursor, Scalar};
use giop::recode::{pass_any, skip_any};
use giop::typecode::{Kind, TypeRef, Work};

use super::super::types::{DeclaredType, ENCODING, walk};
use super::Note;

/// Properties of the variable header that are left out, since they have had their effect.
const OF_QUALITY: [&[u8]; 8] = [
    b"Priority",
    b"Timeout",
    b"StartTime",
    b"StopTime",
    b"EventReliability",
    event::POSSIBLY_REPEATED,
    event::EVENT_NUMBER,
    event::EVENT_TIME,
];

/// Minimum octets of a property.
const PROPERTY_BYTES_MIN: usize = 8;

/// Translates an event of a CORBA form into a message, appended to `out`, and describes it. `None` if that is impossible; `out` is then
/// unchanged.
pub(crate) fn write_message(
    declared: Option<&DeclaredType>,
    (form, tag, bytes): (Form, u64, &[u8]),
    out: &mut Vec<u8>,
) -> Option<Note> {
    let begin = out.len();
    let mut work = event::work_for(bytes.len());
    if let Some(parts) = Parts::of(form, event::reader(bytes, tag), &mut work) {
        if let Some(declared) = declared {
            if write_typed(declared, &parts, &mut Writer::new(out, ENCODING), &mut work).is_some() {
                return Some(Note { content: Content::Typed, is_read: true, ..Note::default() });
            }
            out.truncate(begin);
        }
        if let Some(octets) = parts.octets(&mut work) {
            out.extend_from_slice(octets);
            return Some(Note { content: Content::Octets, ..Note::default() });
        }
    }
    // The event behind it is aligned as if it began at a multiple of 8, which it does.
    out.extend_from_slice(&[event::encoding_of(tag).endian.flag(), 0, 0, 0, 0, 0, 0, 0]);
    match event::translate(form, tag, bytes, (event::utf8_output_form(FORM_STRUCTURED), 0), out) {
        Ok(Translated::AlreadyFits) => out.extend_from_slice(bytes),
        Ok(Translated::Written { .. }) => {}
        Err(_) => {
            out.truncate(begin);
            return None;
        }
    }
    Some(Note { content: Content::Structured, is_read: true, ..Note::default() })
}

/// Contents of an event.
struct Parts<'e> {
    /// Reader behind the count of the filterable data.
    properties: Reader<'e>,
    count: u32,
    body: Reader<'e>,
}

impl<'e> Parts<'e> {
    /// Finds the contents. `None` if the event has more than its type, quality of service, filterable data and body.
    fn of(form: Form, mut event: Reader<'e>, work: &mut Work) -> Option<Self> {
        if form == FORM_ANY {
            return Some(Self { properties: event.clone(), count: 0, body: event });
        }
        if form != FORM_STRUCTURED {
            return None;
        }
        event.string().ok()?;
        event.string().ok()?;
        if !event.string().ok()?.is_empty() {
            return None;
        }
        for _ in 0..event.seq_len(PROPERTY_BYTES_MIN).ok()? {
            if !OF_QUALITY.contains(&event.string().ok()?) {
                return None;
            }
            skip_any(&mut event, work).ok()?;
        }
        let count = event.seq_len(PROPERTY_BYTES_MIN).ok()?;
        let properties = event.clone();
        for _ in 0..count {
            event.string().ok()?;
            skip_any(&mut event, work).ok()?;
        }
        Some(Self { properties, count, body: event })
    }

    /// The octets, if the event contains nothing else.
    fn octets(&self, work: &mut Work) -> Option<&'e [u8]> {
        if self.count > 0 || !is_octets(self.body.clone()) {
            return None;
        }
        let at = Cursor::any(self.body.clone(), work).ok()?;
        at.reader().octets().ok()
    }

    /// Reader in front of a field's value. `next` is in front of the expected property, and behind it afterwards.
    fn find(&self, name: &[u8], next: &mut Reader<'e>, work: &mut Work) -> Option<Reader<'e>> {
        let mut ahead = next.clone();
        if ahead.string().is_ok_and(|found| found == name) {
            let value = ahead.clone();
            pass_any(&mut ahead, work).ok()?;
            *next = ahead;
            return Some(value);
        }
        let mut all = self.properties.clone();
        for _ in 0..self.count {
            if all.string().ok()? == name {
                return Some(all);
            }
            pass_any(&mut all, work).ok()?;
        }
        None
    }
}

/// Whether an Any has exactly the type of messages of octets: no alias, no bound.
fn is_octets(any: Reader<'_>) -> bool {
    let bound = |mut any: Reader<'_>| {
        any.u32().ok().filter(|kind| *kind == Kind::Sequence.number())?;
        let mut type_code = any.encapsulation().ok()?;
        type_code.u32().ok().filter(|element| *element == Kind::Octet.number())?;
        type_code.u32().ok()
    };
    bound(any) == Some(0)
}

/// Writes an event's contents as a value of a declared type. `None` if they are something else, or more.
fn write_typed(declared: &DeclaredType, parts: &Parts<'_>, out: &mut Writer<'_>, work: &mut Work) -> Option<()> {
    if parts.count == 0 {
        return write_value(declared.root(), &Cursor::any(parts.body.clone(), work).ok()?, out, work);
    }
    let is_empty = parts.body.clone().u32().is_ok_and(|kind| kind == Kind::Null.number());
    // With as many properties as there are fields, and each field among them, there is no other.
    if parts.count as usize != declared.fields().len() || !is_empty {
        return None;
    }
    let mut next = parts.properties.clone();
    for (field, of) in declared.fields() {
        let any = parts.find(field.name().as_bytes(), &mut next, work)?;
        write_any(of, field.type_code(), any, out, work)?;
    }
    Some(())
}

/// Writes the value of an Any as one of a type.
fn write_any(
    of: TypeRef<'_>,
    type_code: &[u8],
    mut any: Reader<'_>,
    out: &mut Writer<'_>,
    work: &mut Work,
) -> Option<()> {
    any.align(4).ok()?;
    // Most values that are of the type have exactly its octets: they are not parsed.
    if any.encoding().endian == Endian::Little && any.rest().starts_with(type_code) {
        let (begin, mut value) = (out.position(), any.clone());
        value.take(type_code.len()).ok()?;
        if walk::value(of, &mut value, out).is_ok() {
            return Some(());
        }
        out.truncate(begin);
    }
    write_value(of, &Cursor::any(any, work).ok()?, out, work)
}

/// Writes a value as one of a type, if nothing is lost.
fn write_value(of: TypeRef<'_>, from: &Cursor<'_>, out: &mut Writer<'_>, work: &mut Work) -> Option<()> {
    let of = of.resolved();
    match of.kind() {
        Kind::Struct => {
            let mut members = from.members()?;
            if members.left() as usize != of.member_count() {
                return None;
            }
            for member in of.members() {
                let (name, value) = members.next(work).ok()??;
                if name != member.name().as_bytes() {
                    return None;
                }
                write_value(member.type_ref(), &value, out, work)?;
            }
            Some(())
        }
        Kind::Sequence | Kind::Array => write_elements(of, from, out, work),
        _ => write_scalar(of, from, out, work),
    }
}

fn write_scalar(of: TypeRef<'_>, from: &Cursor<'_>, out: &mut Writer<'_>, work: &mut Work) -> Option<()> {
    let scalar = from.scalar(work).ok()??;
    let chars = from.reader().encoding().chars;
    match (of.kind(), &scalar) {
        (Kind::Boolean, Scalar::Bool(value)) => out.bool(*value),
        (Kind::Char, Scalar::Char(c)) if from.kind() == Kind::Char && (c.is_ascii() || chars == CharSet::Utf8) => {
            out.u8(u8::try_from(*c).ok()?);
        }
        (Kind::String, Scalar::Text(text)) => write_text(of.bound(), text, chars, out)?,
        (Kind::Enum, scalar) => out.u32(ordinal(of, scalar, chars)?),
        (Kind::Float, scalar) => out.f32(single(real(scalar, from.kind())?)?),
        (Kind::Double, scalar) => out.f64(real(scalar, from.kind())?),
        (Kind::Octet, scalar) => out.u8(integer(scalar)?.try_into().ok()?),
        (Kind::Short, scalar) => out.i16(integer(scalar)?.try_into().ok()?),
        (Kind::UShort, scalar) => out.u16(integer(scalar)?.try_into().ok()?),
        (Kind::Long, scalar) => out.i32(integer(scalar)?.try_into().ok()?),
        (Kind::ULong, scalar) => out.u32(integer(scalar)?.try_into().ok()?),
        (Kind::LongLong, scalar) => out.i64(integer(scalar)?.try_into().ok()?),
        (Kind::ULongLong, scalar) => out.u64(integer(scalar)?.try_into().ok()?),
        _ => return None,
    }
    Some(())
}

fn integer(scalar: &Scalar<'_>) -> Option<i128> {
    match scalar {
        Scalar::Int(value) => Some((*value).into()),
        Scalar::UInt(value) => Some((*value).into()),
        _ => None,
    }
}

/// A floating-point number, or an integer that equals one exactly.
fn real(scalar: &Scalar<'_>, kind: Kind) -> Option<f64> {
    const EXACT: i64 = 1 << 53;
    match scalar {
        Scalar::Float(value) if matches!(kind, Kind::Float | Kind::Double) => Some(*value),
        Scalar::Int(value) if (-EXACT..=EXACT).contains(value) => Some(*value as f64),
        _ => None,
    }
}

fn single(value: f64) -> Option<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "what was lost is looked for")]
    let single = value as f32;
    (value.is_nan() || f64::from(single).to_bits() == value.to_bits()).then_some(single)
}

/// Position of an enum's value, by its name.
fn ordinal(of: TypeRef<'_>, scalar: &Scalar<'_>, chars: CharSet) -> Option<u32> {
    let name = match scalar {
        Scalar::Enum { name, .. } => *name,
        // Scripts have no enums.
        Scalar::Text(text) if chars == CharSet::Utf8 || text.is_ascii() => *text,
        _ => return None,
    };
    let place = of.members().position(|label| label.name().as_bytes() == name)?;
    u32::try_from(place).ok()
}

/// Writes text in UTF-8.
fn write_text(bound: Option<u32>, text: &[u8], chars: CharSet, out: &mut Writer<'_>) -> Option<()> {
    let is_latin = chars == CharSet::Latin1 && !text.is_ascii();
    let octets = if is_latin { text.iter().map(|octet| 1 + usize::from(!octet.is_ascii())).sum() } else { text.len() };
    if bound.is_some_and(|bound| octets > bound as usize) || text.contains(&0) {
        return None;
    }
    if is_latin {
        out.length(octets + 1);
        text.iter().for_each(|octet| out.raw(char::from(*octet).encode_utf8(&mut [0; 4]).as_bytes()));
        out.u8(0);
    } else {
        core::str::from_utf8(text).ok()?;
        out.string_bytes(text);
    }
    Some(())
}

/// Writes a sequence or an array, as the value is.
fn write_elements(of: TypeRef<'_>, from: &Cursor<'_>, out: &mut Writer<'_>, work: &mut Work) -> Option<()> {
    let element = of.content()?.resolved();
    let mut elements = from.elements(work).ok()??;
    let count = elements.left();
    if of.kind() == Kind::Array {
        if count != of.length() {
            return None;
        }
    } else {
        if of.bound().is_some_and(|bound| count > bound) {
            return None;
        }
        out.u32(count);
    }
    if elements.kind() == element.kind() && write_run(element.kind(), count, elements.reader(), out)? {
        return Some(());
    }
    while let Some(value) = elements.next(work).ok()? {
        write_value(element, &value, out, work)?;
    }
    Some(())
}

/// Writes numbers or octets in one piece. False if the elements are of another kind.
fn write_run(kind: Kind, count: u32, mut from: Reader<'_>, out: &mut Writer<'_>) -> Option<bool> {
    let count = usize::try_from(count).ok()?;
    let (size, alignment) = match kind {
        Kind::Octet => (1, 1),
        Kind::Enum => return Some(false),
        kind => match kind.number_layout() {
            Some(layout) => layout,
            None => return Some(false),
        },
    };
    if count == 0 {
        return Some(true);
    }
    from.align(alignment).ok()?;
    let octets = from.take(size.checked_mul(count)?).ok()?;
    out.align(alignment);
    if from.encoding().endian == Endian::Little {
        out.raw(octets);
    } else {
        octets.chunks_exact(size).for_each(|number| number.iter().rev().for_each(|octet| out.u8(*octet)));
    }
    Some(true)
}
