//! Walk over values of a declared type: to check them, and to copy them to another alignment.
//!
//! Everything that a reader relies on is checked: lengths, bounds, booleans, enumerators, text. Each value has at least one octet, and the
//! type bounds the depth, so that the work is bounded by the number of octets.

use giop::cdr::{CharSet, ReadError, ReadErrorKind, Reader, Writer};
use giop::typecode::{Kind, TypeRef};

/// Receiver of the octets walked over.
pub(crate) trait Sink {
    /// Aligns the next octets to a multiple of `alignment`.
    fn align(&mut self, alignment: usize);
    /// Takes octets unchanged.
    fn raw(&mut self, octets: &[u8]);
}

/// Ignores the octets: the values are only checked.
impl Sink for () {
    fn align(&mut self, _: usize) {}
    fn raw(&mut self, _: &[u8]) {}
}

/// Writes the octets. The writer has the byte order of the input, and its text is UTF-8.
impl Sink for Writer<'_> {
    fn align(&mut self, alignment: usize) {
        Self::align(self, alignment);
    }

    fn raw(&mut self, octets: &[u8]) {
        Self::raw(self, octets);
    }
}

/// Moves `from`, which has little-endian order, behind a value. Text in ISO 8859-1 passes as far as it is ASCII.
///
/// # Errors
/// The octets are no such value.
pub(crate) fn value(of: TypeRef<'_>, from: &mut Reader<'_>, to: &mut impl Sink) -> Result<(), ReadError> {
    elements(of, 1, from, to)
}

/// Moves `from` behind `count` values, as [`value`] does behind one.
fn elements(of: TypeRef<'_>, count: usize, from: &mut Reader<'_>, to: &mut impl Sink) -> Result<(), ReadError> {
    let of = of.resolved();
    if count == 0 {
        // There is not even the padding in front of the first.
        return Ok(());
    }
    if of.kind() == Kind::Enum {
        let labels = u32::try_from(of.member_count()).unwrap_or(u32::MAX);
        for _ in 0..count {
            let ordinal = from.u32()?;
            if ordinal >= labels {
                return Err(from.error(ReadErrorKind::BadValue { what: "an enum", value: ordinal }));
            }
            to.align(4);
            to.raw(&ordinal.to_le_bytes());
        }
        return Ok(());
    }
    if of.kind().number_layout().is_some() {
        return number(of.kind(), count, from, to);
    }
    match of.kind() {
        Kind::Boolean | Kind::Octet | Kind::Char => octets(of.kind(), count, from, to),
        _ => (0..count).try_for_each(|_| composite(of, from, to)),
    }
}

fn number(kind: Kind, count: usize, from: &mut Reader<'_>, to: &mut impl Sink) -> Result<(), ReadError> {
    let Some((size, alignment)) = kind.number_layout() else { return Err(unsupported(kind, from)) };
    from.align(alignment)?;
    to.align(alignment);
    to.raw(from.take(size.saturating_mul(count))?);
    Ok(())
}

fn octets(kind: Kind, count: usize, from: &mut Reader<'_>, to: &mut impl Sink) -> Result<(), ReadError> {
    let octets = from.take(count)?;
    let wrong = match kind {
        Kind::Boolean => octets.iter().find(|octet| **octet > 1),
        // Beyond ASCII an octet is no character of UTF-8, but a part of one.
        Kind::Char if from.encoding().chars == CharSet::Latin1 => octets.iter().find(|octet| !octet.is_ascii()),
        _ => None,
    };
    if let Some(wrong) = wrong {
        return Err(from.error(ReadErrorKind::BadValue { what: kind.keyword(), value: (*wrong).into() }));
    }
    to.raw(octets);
    Ok(())
}

fn composite(of: TypeRef<'_>, from: &mut Reader<'_>, to: &mut impl Sink) -> Result<(), ReadError> {
    match (of.kind(), of.content()) {
        (Kind::String, _) => text(of.bound(), from, to),
        (Kind::Struct, _) => {
            for member in of.members() {
                value(member.type_ref(), from, to)?;
            }
            Ok(())
        }
        (Kind::Array, Some(element)) => elements(element, in_memory(of.length()), from, to),
        (Kind::Sequence, Some(element)) => {
            let count = from.seq_len(1)?;
            if of.bound().is_some_and(|bound| count > bound) {
                return Err(from.error(ReadErrorKind::TooMany {
                    what: "elements",
                    count,
                    max: of.bound().unwrap_or(0),
                }));
            }
            to.align(4);
            to.raw(&count.to_le_bytes());
            elements(element, in_memory(count), from, to)
        }
        (kind, _) => Err(unsupported(kind, from)),
    }
}

fn text(bound: Option<u32>, from: &mut Reader<'_>, to: &mut impl Sink) -> Result<(), ReadError> {
    let octets = from.string()?;
    let is_readable = match from.encoding().chars {
        CharSet::Latin1 => octets.is_ascii(),
        CharSet::Utf8 => core::str::from_utf8(octets).is_ok(),
    };
    if !is_readable || octets.contains(&0) {
        return Err(from.error(ReadErrorKind::BadText { charset: "UTF-8" }));
    }
    let count = u32::try_from(octets.len()).unwrap_or(u32::MAX);
    if let Some(max) = bound
        && count > max
    {
        return Err(from.error(ReadErrorKind::TooMany { what: "characters", count, max }));
    }
    to.align(4);
    to.raw(&count.saturating_add(1).to_le_bytes());
    to.raw(octets);
    to.raw(&[0]);
    Ok(())
}

fn in_memory(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn unsupported(kind: Kind, from: &Reader<'_>) -> ReadError {
    from.error(ReadErrorKind::Unsupported { what: kind.keyword() })
}
