//! Writing of values by their type.

use super::{AnyValue, Value, fixed};
use crate::cdr::Writer;
use crate::typecode::{Kind, TypeCode, TypeRef, write_discriminator};
use alloc::string::String;
use core::fmt;

/// A value does not fit the type to write it as: the caller's mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// The value is of another sort than the type.
    WrongType {
        /// The type, as it is referred to in IDL.
        expected: String,
        /// Kind of the value.
        found: &'static str,
    },
    /// An array, structure or exception has too few or too many elements or members.
    WrongLength {
        /// The type, as it is referred to in IDL.
        of: String,
        /// Elements or members that the type has.
        expected: usize,
        /// Elements or members that the value has.
        found: usize,
    },
    /// A string or sequence is longer than its bound.
    TooLong {
        /// The bound of its type.
        bound: u32,
        /// Actual length.
        length: usize,
    },
    /// A member has another name than the type gives it.
    WrongMember {
        /// The name in the type; empty where a union's discriminator chooses no member.
        expected: String,
        /// The name in the value; empty if a member is missing.
        found: String,
    },
    /// A character or number outside the type's range.
    OutOfRange {
        /// The type, as it is referred to in IDL.
        of: String,
    },
    /// Values of this kind are not written.
    Unsupported {
        /// The kind.
        kind: Kind,
    },
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongType { expected, found } => {
                write!(f, "a value of type {expected} is expected, but this is {found}")
            }
            Self::WrongLength { of, expected, found } => {
                write!(f, "{of} has {expected} elements or members, but the value has {found}")
            }
            Self::TooLong { bound, length } => write!(f, "a length of {length} is beyond the bound of {bound}"),
            Self::WrongMember { expected, found } => {
                write!(f, "the member '{expected}' is expected, but the value has '{found}'")
            }
            Self::OutOfRange { of } => write!(f, "the value is not in the range of {of}"),
            Self::Unsupported { kind } => write!(f, "values of kind {kind} are not supported"),
        }
    }
}

impl core::error::Error for WriteError {}

impl AnyValue {
    /// Writes the `Any`: the type, then the value.
    ///
    /// # Errors
    /// Value and type do not fit each other. Part of the output may have been written: see [`Writer::truncate`].
    pub fn write(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        self.type_code.write(writer);
        self.value.write(&self.type_code, writer)
    }
}

impl Value {
    /// Writes the value as one of that type.
    ///
    /// # Errors
    /// They do not fit each other. Part of the value may have been written then: see [`Writer::truncate`].
    pub fn write(&self, type_code: &TypeCode, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        write(self, type_code.root(), writer)
    }

    /// The value's kind, for messages.
    fn sort(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Void => "void",
            Self::Bool(_) => "a boolean",
            Self::Octet(_) => "an octet",
            Self::Char(_) => "a char",
            Self::Wchar(_) => "a wchar",
            Self::Short(_) => "a short",
            Self::UShort(_) => "an unsigned short",
            Self::Long(_) => "a long",
            Self::ULong(_) => "an unsigned long",
            Self::LongLong(_) => "a long long",
            Self::ULongLong(_) => "an unsigned long long",
            Self::Float(_) => "a float",
            Self::Double(_) => "a double",
            Self::LongDouble(_) => "a long double",
            Self::String(_) => "a string",
            Self::Wstring(_) => "a wstring",
            Self::Fixed(_) => "a fixed decimal",
            Self::Enum { .. } => "an enum",
            Self::Struct { .. } => "a struct",
            Self::Exception { .. } => "an exception",
            Self::Union { .. } => "a union",
            Self::Sequence(_) => "a sequence",
            Self::Octets(_) => "octets",
            Self::Array(_) => "an array",
            Self::Any(_) => "an any",
            Self::TypeCode(_) => "a TypeCode",
            Self::Object(_) => "an object reference",
        }
    }
}

fn write(value: &Value, of: TypeRef<'_>, writer: &mut Writer<'_>) -> Result<(), WriteError> {
    let of = of.resolved();
    match (of.kind(), value) {
        (Kind::Null, Value::Null) | (Kind::Void, Value::Void) => {}
        (Kind::Boolean, Value::Bool(v)) => writer.bool(*v),
        (Kind::Octet, Value::Octet(v)) => writer.u8(*v),
        (Kind::Char, Value::Char(c)) => writer.u8(u8::try_from(*c).map_err(|_| out_of_range(of))?),
        (Kind::Wchar, Value::Wchar(c)) => writer.wchar(*c),
        (Kind::Short, Value::Short(v)) => writer.i16(*v),
        (Kind::UShort, Value::UShort(v)) => writer.u16(*v),
        (Kind::Long, Value::Long(v)) => writer.i32(*v),
        (Kind::ULong, Value::ULong(v)) => writer.u32(*v),
        (Kind::LongLong, Value::LongLong(v)) => writer.i64(*v),
        (Kind::ULongLong, Value::ULongLong(v)) => writer.u64(*v),
        (Kind::Float, Value::Float(v)) => writer.f32(*v),
        (Kind::Double, Value::Double(v)) => writer.f64(*v),
        (Kind::LongDouble, Value::LongDouble(v)) => writer.long_double(*v),
        (Kind::String, Value::String(text)) => {
            within_bound(of, text.chars().count())?;
            writer.string(text);
        }
        (Kind::Wstring, Value::Wstring(text)) => {
            within_bound(of, text.chars().count())?;
            writer.wstring(text);
        }
        (Kind::Fixed, Value::Fixed(text)) => {
            if !fixed::write(text, of.digits(), of.scale(), writer) {
                return Err(out_of_range(of));
            }
        }
        (Kind::Any, Value::Any(any)) => any.write(writer)?,
        (Kind::TypeCode, Value::TypeCode(code)) => code.write(writer),
        (Kind::Object | Kind::Component | Kind::Home, Value::Object(ior)) => ior.write(writer),
        (Kind::Principal, Value::Octets(octets)) => writer.octets(octets),
        _ => write_constructed(value, of, writer)?,
    }
    Ok(())
}

fn write_constructed(value: &Value, of: TypeRef<'_>, writer: &mut Writer<'_>) -> Result<(), WriteError> {
    let of_octets = of.content().is_some_and(|element| element.resolved().kind() == Kind::Octet);
    match (of.kind(), value) {
        (Kind::Enum, Value::Enum { index, .. }) => {
            let known = usize::try_from(*index).is_ok_and(|index| index < of.member_count());
            if !known {
                return Err(out_of_range(of));
            }
            writer.u32(*index);
        }
        (Kind::Struct, Value::Struct { fields, .. }) => write_fields(fields, of, writer)?,
        (Kind::Exception, Value::Exception { fields, .. }) => {
            writer.string(of.id());
            write_fields(fields, of, writer)?;
        }
        (Kind::Union, Value::Union { discriminator, member, .. }) => {
            write_union(discriminator, member.as_ref(), of, writer)?;
        }
        (Kind::Sequence, Value::Octets(octets)) if of_octets => {
            within_bound(of, octets.len())?;
            writer.octets(octets);
        }
        (Kind::Array, Value::Octets(octets)) if of_octets => {
            has_length(of, array_length(of), octets.len())?;
            writer.raw(octets);
        }
        (Kind::Sequence, Value::Sequence(values)) => {
            within_bound(of, values.len())?;
            writer.length(values.len());
            write_elements(values, of, writer)?;
        }
        (Kind::Array, Value::Array(values)) => {
            has_length(of, array_length(of), values.len())?;
            write_elements(values, of, writer)?;
        }
        (kind @ (Kind::Value | Kind::ValueBox | Kind::Event | Kind::AbstractInterface | Kind::Native), _)
        | (kind @ (Kind::LocalInterface | Kind::Alias), _) => return Err(WriteError::Unsupported { kind }),
        _ => return Err(WriteError::WrongType { expected: shown(of), found: value.sort() }),
    }
    Ok(())
}

fn write_fields(fields: &[(String, Value)], of: TypeRef<'_>, writer: &mut Writer<'_>) -> Result<(), WriteError> {
    has_length(of, of.member_count(), fields.len())?;
    for ((name, value), member) in fields.iter().zip(of.members()) {
        has_name(member.name(), name)?;
        write(value, member.type_ref(), writer)?;
    }
    Ok(())
}

fn write_union(
    discriminator: &Value,
    member: Option<&(String, alloc::boxed::Box<Value>)>,
    of: TypeRef<'_>,
    writer: &mut Writer<'_>,
) -> Result<(), WriteError> {
    let labels = of.discriminator().unwrap_or(of).resolved();
    let Some(bits) = bits(discriminator, labels) else {
        return Err(WriteError::WrongType { expected: shown(labels), found: discriminator.sort() });
    };
    write_discriminator(writer, labels.kind(), bits);
    match (of.chosen(bits).and_then(|index| of.member(index)), member) {
        (None, None) => Ok(()),
        (None, Some((found, _))) => has_name("", found),
        (Some(chosen), None) => has_name(chosen.name(), ""),
        (Some(chosen), Some((found, value))) => {
            has_name(chosen.name(), found)?;
            write(value, chosen.type_ref(), writer)
        }
    }
}

/// A discriminator as labels are compared (see [`crate::typecode::wire::discriminator`]), if it is of that type.
fn bits(value: &Value, of: TypeRef<'_>) -> Option<u64> {
    Some(match (of.kind(), value) {
        (Kind::Boolean, Value::Bool(v)) => u64::from(*v),
        (Kind::Octet, Value::Octet(v)) => u64::from(*v),
        (Kind::Char, Value::Char(c)) => u64::from(u8::try_from(*c).ok()?),
        (Kind::Wchar, Value::Wchar(c)) => match *c.encode_utf16(&mut [0; 2]) {
            [high, low] => u64::from(low) << 16 | u64::from(high),
            [unit] => u64::from(unit),
            _ => return None,
        },
        (Kind::Short, Value::Short(v)) => i64::from(*v).cast_unsigned(),
        (Kind::UShort, Value::UShort(v)) => u64::from(*v),
        (Kind::Long, Value::Long(v)) => i64::from(*v).cast_unsigned(),
        (Kind::ULong, Value::ULong(v)) => u64::from(*v),
        (Kind::LongLong, Value::LongLong(v)) => v.cast_unsigned(),
        (Kind::ULongLong, Value::ULongLong(v)) => *v,
        (Kind::Enum, Value::Enum { index, .. }) => u64::from(*index),
        _ => return None,
    })
}

fn write_elements(values: &[Value], of: TypeRef<'_>, writer: &mut Writer<'_>) -> Result<(), WriteError> {
    let element = of.content().unwrap_or(of).resolved();
    values.iter().try_for_each(|value| write(value, element, writer))
}

fn array_length(of: TypeRef<'_>) -> usize {
    usize::try_from(of.length()).unwrap_or(usize::MAX)
}

fn within_bound(of: TypeRef<'_>, length: usize) -> Result<(), WriteError> {
    match of.bound() {
        Some(bound) if usize::try_from(bound).is_ok_and(|bound| bound < length) => {
            Err(WriteError::TooLong { bound, length })
        }
        _ => Ok(()),
    }
}

fn has_length(of: TypeRef<'_>, expected: usize, found: usize) -> Result<(), WriteError> {
    if expected == found { Ok(()) } else { Err(WriteError::WrongLength { of: shown(of), expected, found }) }
}

fn has_name(expected: &str, found: &str) -> Result<(), WriteError> {
    if expected == found {
        return Ok(());
    }
    Err(WriteError::WrongMember { expected: expected.into(), found: found.into() })
}

fn out_of_range(of: TypeRef<'_>) -> WriteError {
    WriteError::OutOfRange { of: shown(of) }
}

fn shown(of: TypeRef<'_>) -> String {
    alloc::format!("{of}")
}
