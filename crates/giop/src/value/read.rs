//! Reading of values by their type.

use super::{AnyValue, Value, fixed};
use crate::cdr::{ReadError, ReadErrorKind, Reader};
use crate::ior::Ior;
use crate::typecode::wire;
use crate::typecode::{Kind, Member, TypeCode, TypeRef, Work};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum elements to reserve memory for in advance; beyond that, memory grows with the elements read.
const RESERVED_MAX: usize = 256;

impl AnyValue {
    /// Reads an `Any`.
    ///
    /// # Errors
    /// The bytes are no `Any`, or one of an unsupported kind, or `work` does not suffice: one step is needed for each element of each
    /// sequence, except for sequences of octets.
    pub fn read(reader: &mut Reader<'_>, work: &mut Work) -> Result<Self, ReadError> {
        any(reader, work, 0)
    }
}

impl Value {
    /// Reads a value of that type.
    ///
    /// # Errors
    /// As [`AnyValue::read`].
    pub fn read(type_code: &TypeCode, reader: &mut Reader<'_>, work: &mut Work) -> Result<Self, ReadError> {
        value(type_code.root(), reader, work, 0)
    }
}

fn any(reader: &mut Reader<'_>, work: &mut Work, depth: u32) -> Result<AnyValue, ReadError> {
    let depth = work.deeper(depth, reader.offset())?;
    let type_code = TypeCode::read(reader, work)?;
    let value = value(type_code.root(), reader, work, depth)?;
    Ok(AnyValue { type_code, value })
}

fn value(of: TypeRef<'_>, reader: &mut Reader<'_>, work: &mut Work, depth: u32) -> Result<Value, ReadError> {
    work.step(reader.offset())?;
    let of = resolved(of, reader, work)?;
    Ok(match of.kind() {
        Kind::Null => Value::Null,
        Kind::Void => Value::Void,
        Kind::Boolean => Value::Bool(reader.bool()?),
        Kind::Octet => Value::Octet(reader.u8()?),
        // ISO 8859-1 has the numbers of Unicode. Octets of UTF-8 beyond ASCII get them too, and so come back the same.
        Kind::Char => Value::Char(char::from(reader.u8()?)),
        Kind::Wchar => {
            let wrong = reader.error(ReadErrorKind::BadText { charset: "UTF-16" });
            Value::Wchar(reader.wchar()?.to_char().ok_or(wrong)?)
        }
        Kind::Short => Value::Short(reader.i16()?),
        Kind::UShort => Value::UShort(reader.u16()?),
        Kind::Long => Value::Long(reader.i32()?),
        Kind::ULong => Value::ULong(reader.u32()?),
        Kind::LongLong => Value::LongLong(reader.i64()?),
        Kind::ULongLong => Value::ULongLong(reader.u64()?),
        Kind::Float => Value::Float(reader.f32()?),
        Kind::Double => Value::Double(reader.f64()?),
        Kind::LongDouble => Value::LongDouble(reader.long_double()?),
        Kind::String => Value::String(reader.text()?),
        Kind::Wstring => Value::Wstring(reader.wtext()?),
        Kind::Fixed => Value::Fixed(fixed::read(reader, of.digits(), of.scale())?),
        Kind::Any => Value::Any(Box::new(any(reader, work, depth)?)),
        Kind::TypeCode => Value::TypeCode(Box::new(TypeCode::read(reader, work)?)),
        Kind::Principal => Value::Octets(reader.octets()?.into()),
        Kind::Object | Kind::Component | Kind::Home => Value::Object(Ior::read(reader)?),
        Kind::Enum => {
            let wrong = reader.clone();
            let index = reader.u32()?;
            let member = usize::try_from(index).ok().and_then(|index| of.member(index));
            let Some(member) = member else {
                return Err(wrong.error(ReadErrorKind::BadValue { what: "an enum", value: index }));
            };
            Value::Enum {
                type_name: owned(of.name(), reader, work)?,
                label: owned(member.name(), reader, work)?,
                index,
            }
        }
        Kind::Struct => {
            let type_name = owned(of.name(), reader, work)?;
            Value::Struct { type_name, fields: fields(of, reader, work, depth)? }
        }
        Kind::Exception => {
            // CORBA 3.3 part 2, 9.3.5.5: the repository id, which the type says too, comes first.
            reader.string()?;
            let type_name = owned(of.name(), reader, work)?;
            Value::Exception { type_name, fields: fields(of, reader, work, depth)? }
        }
        Kind::Union => union(of, reader, work, depth)?,
        Kind::Sequence => {
            let count = reader.u32()?;
            elements(of, count, Value::Sequence, reader, work, depth)?
        }
        Kind::Array => elements(of, of.length(), Value::Array, reader, work, depth)?,
        kind => return Err(reader.error(ReadErrorKind::Unsupported { what: kind.keyword() })),
    })
}

fn fields(
    of: TypeRef<'_>,
    reader: &mut Reader<'_>,
    work: &mut Work,
    depth: u32,
) -> Result<Vec<(String, Value)>, ReadError> {
    let depth = work.deeper(depth, reader.offset())?;
    let mut field = |member: Member<'_>| {
        let name = owned(member.name(), reader, work)?;
        Ok((name, value(member.type_ref(), reader, work, depth)?))
    };
    of.members().map(&mut field).collect()
}

fn union(of: TypeRef<'_>, reader: &mut Reader<'_>, work: &mut Work, depth: u32) -> Result<Value, ReadError> {
    let depth = work.deeper(depth, reader.offset())?;
    let type_name = owned(of.name(), reader, work)?;
    let discriminator_type = resolved(of.discriminator().unwrap_or(of), reader, work)?;
    let bits = wire::discriminator(&mut reader.clone(), discriminator_type.kind())?;
    let discriminator = Box::new(value(discriminator_type, reader, work, depth)?);
    let chosen = of.chosen(bits);
    work.steps(chosen.unwrap_or(of.member_count()), reader.offset())?;
    let member = match chosen.and_then(|index| of.member(index)) {
        Some(member) => {
            let name = owned(member.name(), reader, work)?;
            Some((name, Box::new(value(member.type_ref(), reader, work, depth)?)))
        }
        None => None,
    };
    Ok(Value::Union { type_name, discriminator, member })
}

fn elements(
    of: TypeRef<'_>,
    count: u32,
    make: fn(Vec<Value>) -> Value,
    reader: &mut Reader<'_>,
    work: &mut Work,
    depth: u32,
) -> Result<Value, ReadError> {
    let depth = work.deeper(depth, reader.offset())?;
    let element = resolved(of.content().unwrap_or(of), reader, work)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if element.kind() == Kind::Octet {
        return Ok(Value::Octets(reader.take(count)?.into()));
    }
    let mut values = Vec::with_capacity(count.min(RESERVED_MAX));
    for _ in 0..count {
        values.push(value(element, reader, work, depth)?);
    }
    Ok(make(values))
}

/// The type behind aliases, each of which costs a step: a long chain of them could be walked for each of many elements.
fn resolved<'t>(of: TypeRef<'t>, reader: &Reader<'_>, work: &mut Work) -> Result<TypeRef<'t>, ReadError> {
    let mut at = of;
    while let (Kind::Alias, Some(original)) = (at.kind(), at.content()) {
        work.step(reader.offset())?;
        at = original;
    }
    Ok(at)
}

/// A name of its own for a value. A long one costs steps, since each element of a sequence gets its own.
fn owned(name: &str, reader: &Reader<'_>, work: &mut Work) -> Result<String, ReadError> {
    work.steps(name.len() / 64, reader.offset())?;
    Ok(name.into())
}
