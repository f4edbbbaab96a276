//! Values of any type skipped, or copied from one encoding to another, without being built.
//!
//! Processing of an `Any` on the event path: check it ([`skip_any`]), and convert it to another byte order, version, code set or alignment
//! for a consumer that needs it ([`copy_any`]). The value is walked along its marshalled type; only the output buffer is allocated. (The
//! one exception are unions that are discriminated by `wchar`, which before IDL 4 were no types: between GIOP 1.1 and 1.2 their types have
//! to be rebuilt.)
//!
//! Structure is checked: types are valid, lengths and counts fit, strings end, discriminators can be read. The reader of the values
//! ([`crate::value`]) checks that octets are booleans, numbers are of an enum, and text is valid in its code set.
//!
//! Valuetypes, abstract interfaces and native types are refused with [`ReadErrorKind::Unsupported`] (local interfaces, too, which cannot
//! travel at all). Their types are read.

mod sink;

use crate::cdr::{ReadError, ReadErrorKind, Reader, Writer};
use crate::typecode::wire::{self, Findings, Node, Place, Types};
use crate::typecode::{Kind, Work};
use crate::value::fixed;
use sink::{Copy, Sink, Skip};

/// Skips values that were not checked yet.
const SKIP: Skip<true> = Skip;
/// Skips values that have been checked.
const PASS: Skip<false> = Skip;

/// Moves `reader` behind an `Any` and checks its structure.
///
/// Runs of numbers and sequences of elements of one size cost one step, whatever their length.
///
/// # Errors
/// The bytes are no `Any`, or one of a kind that is not supported, or `work` does not suffice.
pub fn skip_any(reader: &mut Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
    if skip_common(reader, work)? {
        return Ok(());
    }
    Walk { reader, sink: SKIP, fixed_size: true }.any(work, 0)
}

/// Moves `reader` behind a `TypeCode`, having checked it.
///
/// # Errors
/// The bytes are no `TypeCode`, or `work` does not suffice.
pub fn skip_type_code(reader: &mut Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
    let (types, place) = Types::open(reader)?;
    Walk { reader, sink: SKIP, fixed_size: true }.type_code(&types, place, work, 0).map(|_| ())
}

/// Moves `value` behind a value of the type in front of `type_code`, and checks both. `type_code` moves behind the type.
///
/// # Errors
/// The bytes are no `TypeCode` or no value of it, or `work` does not suffice.
pub fn skip_value<'a>(type_code: &mut Reader<'a>, value: &mut Reader<'a>, work: &mut Work) -> Result<(), ReadError> {
    let (types, place) = Types::open(type_code)?;
    let node = Walk { reader: type_code, sink: SKIP, fixed_size: true }.type_code(&types, place, work, 0)?;
    let node = types.resolved(node, work)?;
    Walk { reader: value, sink: SKIP, fixed_size: true }.value(&types, &node, work, 0)
}

/// Size of a type's values, where consecutive values begin at the same position modulo 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A count of octets, and they.
    Octets,
    /// A string.
    Text,
    /// A fixed number of octets, whatever the value.
    Fixed(usize),
    /// A size that only a walk along the type can determine.
    Varying,
}

/// Moves `reader` behind an `Any` as [`skip_any`] does, and says how many octets are in front of its value (padding, its
/// type) and how to tell the size of another value there.
///
/// # Errors
/// As [`skip_any`].
pub fn any_shape(reader: &mut Reader<'_>, work: &mut Work) -> Result<(usize, Shape), ReadError> {
    let begin = reader.position();
    let (types, place) = Types::open(reader)?;
    let mut walk = Walk { reader, sink: SKIP, fixed_size: true };
    let node = walk.type_code(&types, place, work, 0)?;
    let node = types.resolved(node, work)?;
    let value_at = walk.reader.position();
    walk.fixed_size = true;
    walk.value(&types, &node, work, 0)?;
    let size = walk.reader.position() - value_at;
    let shape = match node.kind {
        Kind::String => Shape::Text,
        Kind::Sequence => {
            let element = types.resolve(&mut node.params.clone(), work)?.kind;
            let is_octets = matches!(element, Kind::Octet | Kind::Boolean | Kind::Char);
            if is_octets { Shape::Octets } else { Shape::Varying }
        }
        _ if walk.fixed_size => Shape::Fixed(size),
        _ => Shape::Varying,
    };
    Ok((value_at - begin, shape))
}

/// Moves `value` behind a value of the type that `type_code` stands in front of, having checked the value. The type has
/// been checked before; if not, the value may end anywhere, but nothing worse happens.
///
/// # Errors
/// The bytes are no value of that type, or `work` does not suffice.
pub fn skip_value_of_checked<'a>(
    mut type_code: Reader<'a>,
    value: &mut Reader<'a>,
    work: &mut Work,
) -> Result<(), ReadError> {
    let (types, mut place) = Types::open(&mut type_code)?;
    let node = types.resolve(&mut place, work)?;
    Walk { reader: value, sink: SKIP, fixed_size: true }.value(&types, &node, work, 0)
}

/// Copies an `Any` in the writer's encoding and alignment. The result has the same octets if those are equal.
///
/// # Errors
/// The same as of [`skip_any`]; text for conversion to another code set that is not valid in its own, or has a character that the other one
/// lacks ([`ReadErrorKind::Lacking`]), as UTF-8 lacks a single `char` beyond ASCII. The partial output is left in the buffer: see
/// [`Writer::truncate`].
pub fn copy_any(reader: &mut Reader<'_>, writer: &mut Writer<'_>, work: &mut Work) -> Result<(), ReadError> {
    if reader.encoding() == writer.encoding() && reader.phase() == writer.phase() {
        let bytes = reader.rest();
        let before = reader.position();
        skip_any(reader, work)?;
        writer.raw(bytes.get(..reader.position() - before).unwrap_or_default());
        return Ok(());
    }
    let sink = Copy::new(reader.encoding(), writer);
    Walk { reader, sink, fixed_size: true }.any(work, 0)
}

/// Copies a value of the type that `type_code` stands in front of. `type_code` moves behind the type.
///
/// # Errors
/// As [`copy_any`].
pub fn copy_value<'a>(
    type_code: &mut Reader<'a>,
    value: &mut Reader<'a>,
    writer: &mut Writer<'_>,
    work: &mut Work,
) -> Result<(), ReadError> {
    let (types, place) = Types::open(type_code)?;
    let node = Walk { reader: type_code, sink: SKIP, fixed_size: true }.type_code(&types, place, work, 0)?;
    let node = types.resolved(node, work)?;
    let sink = Copy::new(value.encoding(), writer);
    Walk { reader: value, sink, fixed_size: true }.value(&types, &node, work, 0)
}

/// Copies a `TypeCode` in the writer's encoding.
///
/// # Errors
/// The bytes are no `TypeCode`, or `work` does not suffice.
pub fn copy_type_code(reader: &mut Reader<'_>, writer: &mut Writer<'_>, work: &mut Work) -> Result<(), ReadError> {
    let (types, place) = Types::open(reader)?;
    let sink = Copy::new(reader.encoding(), writer);
    Walk { reader, sink, fixed_size: true }.type_code(&types, place, work, 0).map(|_| ())
}

/// Copies a `string` in the writer's byte order, alignment and code set.
///
/// # Errors
/// The bytes are no string; or they need conversion, and are not valid UTF-8 or have a character that the writer's code set lacks.
pub fn copy_string(reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Result<(), ReadError> {
    Copy::new(reader.encoding(), writer).string(reader)
}

/// Copies a `wstring` in the writer's byte order, alignment and version.
///
/// # Errors
/// The bytes are no wide string.
pub fn copy_wstring(reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Result<(), ReadError> {
    Copy::new(reader.encoding(), writer).wstring(reader)
}

/// Moves `reader` behind an `Any` as [`skip_any`] does, but reads no more of its type than it needs. The `Any` should have been checked; if
/// not, the end may be wrong, but nothing worse happens.
///
/// # Errors
/// The same as of [`skip_any`], as far as it reads.
#[inline]
pub fn pass_any(reader: &mut Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
    if skip_common(reader, work)? {
        return Ok(());
    }
    Walk { reader, sink: PASS, fixed_size: true }.any(work, 0)
}

/// Moves `reader` behind a value of a resolved type, as [`pass_any`] does.
pub(crate) fn pass_value<'a>(
    types: &Types<'a>,
    node: &Node,
    reader: &mut Reader<'a>,
    work: &mut Work,
) -> Result<(), ReadError> {
    Walk { reader, sink: PASS, fixed_size: true }.value(types, node, work, 0)
}

/// Moves `reader` behind `count` values of a resolved type, as [`pass_any`] does. Values of a fixed size cost one step together.
pub(crate) fn pass_elements<'a>(
    types: &Types<'a>,
    element: &Node,
    count: u32,
    reader: &mut Reader<'a>,
    work: &mut Work,
) -> Result<(), ReadError> {
    work.step(reader.offset())?;
    Walk { reader, sink: PASS, fixed_size: true }.elements(types, element, count, work, 0)
}

/// Skips an `Any` of a usual type, a number, a string or a sequence of numbers or octets, in an eighth of the time of a walk. Returns
/// whether it did.
#[inline]
fn skip_common(reader: &mut Reader<'_>, work: &mut Work) -> Result<bool, ReadError> {
    /// The encapsulation in a sequence's type, when its element has no parameters: byte order, kind, bound.
    const PARAMS: u32 = 12;
    let mut ahead = reader.clone();
    let Some(kind) = Kind::from_number(ahead.u32()?) else {
        return Ok(false);
    };
    let (element, count) = match kind {
        Kind::String => {
            ahead.take(4)?;
            ahead.string()?;
            (Kind::Octet, 0)
        }
        Kind::Sequence => {
            if ahead.u32()? != PARAMS {
                return Ok(false);
            }
            let Some(&[order, _, _, _, e0, e1, e2, e3, _, _, _, _]) = ahead.rest().first_chunk() else {
                return Ok(false);
            };
            let number = match order {
                0 => u32::from_be_bytes([e0, e1, e2, e3]),
                1 => u32::from_le_bytes([e0, e1, e2, e3]),
                _ => return Ok(false),
            };
            ahead.take(PARAMS as usize)?;
            match Kind::from_number(number) {
                Some(element) => (element, ahead.u32()? as usize),
                None => return Ok(false),
            }
        }
        kind => (kind, 1),
    };
    match element {
        Kind::Octet | Kind::Boolean | Kind::Char => ahead.take(count).map(|_| ())?,
        Kind::Enum => return Ok(false),
        kind => match kind.number_layout() {
            Some((size, alignment)) if count > 0 => Skip::<true>.numbers(&mut ahead, size, alignment, count)?,
            Some(_) => {}
            None => return Ok(false),
        },
    }
    work.step(reader.offset())?;
    *reader = ahead;
    Ok(true)
}

/// A walk over values, piece by piece through a sink that skips or copies.
struct Walk<'w, 'a, S> {
    reader: &'w mut Reader<'a>,
    sink: S,
    /// Turned off by everything with a size that depends on more than its alignment.
    fixed_size: bool,
}

impl<'a, S: Sink<'a>> Walk<'_, 'a, S> {
    fn any(&mut self, work: &mut Work, depth: u32) -> Result<(), ReadError> {
        let depth = work.deeper(depth, self.reader.offset())?;
        let (types, place) = Types::open(self.reader)?;
        let node = self.type_code(&types, place, work, depth)?;
        let node = types.resolved(node, work)?;
        self.value(&types, &node, work, depth)
    }

    /// An outermost type, with the reader at its kind.
    #[inline(always)]
    fn type_code(
        &mut self,
        types: &Types<'a>,
        mut place: Place,
        work: &mut Work,
        depth: u32,
    ) -> Result<Node, ReadError> {
        work.step(self.reader.offset())?;
        self.fixed_size = false;
        let node = types.node(&mut place)?;
        let findings = if S::CHECKS_TYPES { types.check(&node, work, depth)? } else { Findings::default() };
        self.sink.type_code(self.reader, &node, findings, work)?;
        types.finish(self.reader, place)?;
        Ok(node)
    }

    /// A value of a checked and resolved type.
    fn value(&mut self, types: &Types<'a>, node: &Node, work: &mut Work, depth: u32) -> Result<(), ReadError> {
        work.step(self.reader.offset())?;
        if let Some((size, alignment)) = node.kind.number_layout() {
            return self.sink.numbers(self.reader, size, alignment, 1);
        }
        match node.kind {
            Kind::Null | Kind::Void => return Ok(()),
            Kind::Boolean | Kind::Octet => return self.sink.octets(self.reader, 1),
            Kind::Char => {
                self.fixed_size &= self.sink.keeps_chars();
                return self.sink.chars(self.reader, 1);
            }
            Kind::Struct => return self.members(types, node.params, work, depth),
            Kind::Array => return self.array(types, node.params, work, depth),
            _ => self.fixed_size = false,
        }
        match node.kind {
            Kind::String => self.sink.string(self.reader),
            Kind::Wstring => self.sink.wstring(self.reader),
            Kind::Wchar => self.sink.wchar(self.reader),
            Kind::Fixed => {
                let (digits, _) = types.fixed(&mut node.params.clone())?;
                let length = fixed::octets(&mut self.reader.clone(), digits)?.len();
                self.sink.octets(self.reader, length)
            }
            Kind::Sequence => self.sequence(types, node.params, work, depth),
            Kind::Union => self.union(types, node.params, work, depth),
            Kind::Any => self.any(work, depth),
            Kind::TypeCode => {
                let (types, place) = Types::open(self.reader)?;
                self.type_code(&types, place, work, depth).map(|_| ())
            }
            Kind::Exception => {
                // CORBA 3.3 part 2, 9.3.5.5: the repository id comes first, then the members.
                self.sink.string(self.reader)?;
                self.members(types, node.params, work, depth)
            }
            Kind::Object | Kind::Component | Kind::Home => self.reference(work),
            Kind::Principal => self.octet_sequence(),
            kind => Err(self.reader.error(ReadErrorKind::Unsupported { what: kind.keyword() })),
        }
    }

    fn members(&mut self, types: &Types<'a>, mut params: Place, work: &mut Work, depth: u32) -> Result<(), ReadError> {
        let depth = work.deeper(depth, self.reader.offset())?;
        for _ in 0..types.u32(&mut params)? {
            types.skip_string(&mut params)?;
            let number = types.u32(&mut params)?;
            if let Some((size, alignment)) = Kind::from_number(number).and_then(Kind::number_layout) {
                // Most members are numbers; an enum is one too, but has parameters that have to be stepped over.
                if number != Kind::Enum.number() {
                    work.step(self.reader.offset())?;
                    self.sink.numbers(self.reader, size, alignment, 1)?;
                    continue;
                }
            }
            let member = types.node_of(&mut params, number)?;
            let member = types.resolved(member, work)?;
            self.value(types, &member, work, depth)?;
        }
        Ok(())
    }

    fn union(&mut self, types: &Types<'a>, mut params: Place, work: &mut Work, depth: u32) -> Result<(), ReadError> {
        let depth = work.deeper(depth, self.reader.offset())?;
        let kind = types.discriminator(&mut params, work)?;
        let value = self.sink.discriminator(self.reader, kind)?;
        let default = types.i32(&mut params)?;
        let mut chosen = None;
        for index in 0..types.u32(&mut params)? {
            work.step(self.reader.offset())?;
            let is_default = wire::is_default(index, default);
            let label = types.label(&mut params, kind, is_default)?;
            types.skip_string(&mut params)?;
            if is_default {
                chosen = Some(params);
            } else if label == value {
                chosen = Some(params);
                break;
            }
            types.node(&mut params)?;
        }
        match chosen {
            Some(mut member) => {
                let member = types.resolve(&mut member, work)?;
                self.value(types, &member, work, depth)
            }
            // A discriminator that chooses no member is in order (CORBA 3.3 part 1, 7.11.2.2).
            None => Ok(()),
        }
    }

    fn array(&mut self, types: &Types<'a>, mut params: Place, work: &mut Work, depth: u32) -> Result<(), ReadError> {
        let depth = work.deeper(depth, self.reader.offset())?;
        let element = types.resolve(&mut params, work)?;
        let length = types.u32(&mut params)?;
        self.elements(types, &element, length, work, depth)
    }

    fn sequence(&mut self, types: &Types<'a>, mut params: Place, work: &mut Work, depth: u32) -> Result<(), ReadError> {
        let depth = work.deeper(depth, self.reader.offset())?;
        let element = types.resolve(&mut params, work)?;
        let count = self.sink.count(self.reader)?;
        self.elements(types, &element, count, work, depth)?;
        self.fixed_size = false;
        Ok(())
    }

    fn elements(
        &mut self,
        types: &Types<'a>,
        element: &Node,
        count: u32,
        work: &mut Work,
        depth: u32,
    ) -> Result<(), ReadError> {
        let length = usize::try_from(count).unwrap_or(usize::MAX);
        if length == 0 {
            // Not even the padding in front of a first element.
            return Ok(());
        }
        if let Some((size, alignment)) = element.kind.number_layout() {
            return self.sink.numbers(self.reader, size, alignment, length);
        }
        match element.kind {
            Kind::Boolean | Kind::Octet => self.sink.octets(self.reader, length),
            Kind::Char => {
                self.fixed_size &= self.sink.keeps_chars();
                self.sink.chars(self.reader, length)
            }
            _ => self.composites(types, element, length, work, depth),
        }
    }

    /// Elements one by one, but only until the rest is known to be uniform.
    ///
    /// The size of an element without strings, sequences, unions and the like depends only on its alignment. So among any nine of them two
    /// begin at the same position modulo 8, and from the second one on sizes repeat. This also prevents claims of very many elements of
    /// size 0.
    fn composites(
        &mut self,
        types: &Types<'a>,
        element: &Node,
        count: usize,
        work: &mut Work,
        depth: u32,
    ) -> Result<(), ReadError> {
        let outer_fixed_size = core::mem::replace(&mut self.fixed_size, true);
        // For each position modulo 8, how many elements were left and where one began.
        let mut begun = [(0, 0); 8];
        let mut left = count;
        if self.sink.is_verbatim(self.reader) {
            while left > 0 && self.fixed_size {
                let here = self.reader.position();
                let Some(before) = begun.get_mut(self.reader.phase()) else {
                    break;
                };
                if let (left_before @ 1.., position) = *before {
                    let (elements, size) = (left_before - left, here - position);
                    self.sink.verbatim(self.reader, (left / elements).saturating_mul(size))?;
                    left %= elements;
                    break;
                }
                *before = (left, here);
                self.value(types, element, work, depth)?;
                left -= 1;
            }
        }
        for _ in 0..left {
            self.value(types, element, work, depth)?;
        }
        self.fixed_size &= outer_fixed_size;
        Ok(())
    }

    /// An object reference (CORBA 3.3 part 2, 7.6.2): a repository id and profiles, each a number and octets.
    fn reference(&mut self, work: &mut Work) -> Result<(), ReadError> {
        self.sink.string(self.reader)?;
        for _ in 0..self.sink.count(self.reader)? {
            work.step(self.reader.offset())?;
            self.sink.count(self.reader)?;
            self.octet_sequence()?;
        }
        Ok(())
    }

    fn octet_sequence(&mut self) -> Result<(), ReadError> {
        let count = self.sink.count(self.reader)?;
        self.sink.octets(self.reader, usize::try_from(count).unwrap_or(usize::MAX))
    }
}
