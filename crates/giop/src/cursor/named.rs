//! Lists of named values, with names outside their type: `CosNotification::PropertySeq` and the like.

use super::{Cursor, Elements};
use crate::cdr::{CharSet, ReadError, Reader};
use crate::recode::{pass_any, pass_value};
use crate::typecode::wire::{Node, Place, Types};
use crate::typecode::{Kind, Work};

/// Minimum size of a named value: the length of its name and the kind of its value.
const NAMED_BYTES_MIN: usize = 8;

impl<'a> Cursor<'a> {
    /// The value of that name in a list of named values, the first if there are several.
    ///
    /// Such a list is any sequence or array of structures of a string and then the value, usually an `Any`: `CosNotification::PropertySeq`,
    /// `CosTrading::PropertySeq`, `CORBA::NVList`.
    ///
    /// # Errors
    /// The same as of [`Cursor::member`].
    pub fn named(&self, name: &str, work: &mut Work) -> Result<Option<Self>, ReadError> {
        let Some(elements) = self.elements(work)? else {
            return Ok(None);
        };
        let Elements { types, node, mut value, left, .. } = elements;
        let Some(pair) = Pair::of(&types, &node, work)? else {
            return Ok(None);
        };
        for _ in 0..left {
            work.step(value.offset())?;
            if is_text(value.string()?, value.encoding().chars, name) {
                return Self::resolve_value(types, pair.second, value, work).map(Some);
            }
            pair.pass_rest(&types, &mut value, work)?;
        }
        Ok(None)
    }
}

/// Finds a name in a `sequence` of structures of a `string` and an `any`, such as a `CosNotification::PropertySeq`, whose type is not at
/// hand. If the name is missing, `reader` moves behind the list.
///
/// # Errors
/// There is no such list, as far as it was looked at, or `work` does not suffice.
pub fn find_named<'a>(reader: &mut Reader<'a>, name: &str, work: &mut Work) -> Result<Option<Cursor<'a>>, ReadError> {
    let chars = reader.encoding().chars;
    for _ in 0..reader.seq_len(NAMED_BYTES_MIN)? {
        if is_text(reader.string()?, chars, name) {
            return Cursor::any(reader.clone(), work).map(Some);
        }
        pass_any(reader, work)?;
    }
    Ok(None)
}

/// Moves `reader` behind a list of the kind that [`find_named`] searches.
///
/// # Errors
/// As [`find_named`].
pub fn pass_named(reader: &mut Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
    for _ in 0..reader.seq_len(NAMED_BYTES_MIN)? {
        reader.string()?;
        pass_any(reader, work)?;
    }
    Ok(())
}

/// A structure with a string as its first member.
struct Pair {
    /// The type of the second member as it was declared, and behind aliases.
    second: Node,
    resolved: Node,
    /// The type's part about the members behind these two, and their number.
    others: Place,
    count: u32,
}

impl Pair {
    fn of(types: &Types<'_>, node: &Node, work: &mut Work) -> Result<Option<Self>, ReadError> {
        let mut place = node.params;
        if node.kind != Kind::Struct {
            return Ok(None);
        }
        let Some(count) = types.u32(&mut place)?.checked_sub(2) else {
            return Ok(None);
        };
        types.skip_string(&mut place)?;
        if types.resolve(&mut place, work)?.kind != Kind::String {
            return Ok(None);
        }
        types.skip_string(&mut place)?;
        let second = types.node(&mut place)?;
        Ok(Some(Self { second, resolved: types.resolved(second, work)?, others: place, count }))
    }

    /// Passes over all but the first member.
    fn pass_rest<'a>(&self, types: &Types<'a>, value: &mut Reader<'a>, work: &mut Work) -> Result<(), ReadError> {
        if self.resolved.kind == Kind::Any {
            pass_any(value, work)?;
        } else {
            pass_value(types, &self.resolved, value, work)?;
        }
        let mut place = self.others;
        for _ in 0..self.count {
            types.skip_string(&mut place)?;
            let member = types.resolve(&mut place, work)?;
            pass_value(types, &member, value, work)?;
        }
        Ok(())
    }
}

/// Whether an encoded `string` in that code set equals `text`.
#[must_use]
pub fn is_text(string: &[u8], chars: CharSet, text: &str) -> bool {
    match chars {
        _ if string == text.as_bytes() => chars == CharSet::Utf8 || text.is_ascii(),
        CharSet::Utf8 => false,
        CharSet::Latin1 => !text.is_ascii() && text.chars().eq(string.iter().map(|octet| char::from(*octet))),
    }
}
