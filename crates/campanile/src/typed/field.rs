//! What members of events can be.

use crate::projection::Defaults;
use crate::time::{duration_of, ticks_of, ticks_of_duration, time_of};
use filter::{Part, Steps, Text, Value};
use giop::cdr::{Endian, ReadError, ReadErrorKind, Reader, Writer};
use giop::typecode::{Kind, TypeCode};
use std::cell::RefCell;
use std::time::{Duration, SystemTime};

/// A Rust type that is a type of CORBA and DDS, too.
///
/// | Rust | IDL |
/// |---|---|
/// | `bool`, `u8`, `i16`, `u16`, `i32`, `u32`, `i64`, `u64`, `f32`, `f64` | `boolean`, `octet`, `short` … `double` |
/// | `i8` | `short`: IDL has no signed octet; what is beyond -128 to 127 is no value |
/// | `char` | `string<4>`: DDS has no `wchar` that all have in common. A `char` or `wchar` that comes is one, too |
/// | `String` | `string`, in which there is no NUL |
/// | `Vec<T>`, `[T; N]` | `sequence<T>`, `T[N]` |
/// | `Option<T>` | `sequence<T, 1>`; a member that does not come at all is `None` |
/// | `Box<T>` | `T` |
/// | `SystemTime` | `TimeBase::TimeT`, which is `unsigned long long`: 100 ns since 15 October 1582, as ALMA's `ACS::Time` |
/// | `Duration` | `Duration`, which is `unsigned long long`: 100 ns |
/// | structs and enums with `#[derive(Event)]` | `struct`, `enum` |
///
/// Made by `#[derive(Event)]`; there is no need to write it by hand.
pub trait Field: Sized {
    /// Octets of the shortest value.
    const OCTETS_MIN: usize;

    /// The type.
    fn type_code() -> TypeCode;

    /// Writes a value.
    fn write(&self, writer: &mut Writer<'_>);

    /// Reads a value.
    ///
    /// # Errors
    /// The octets are none.
    fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError>;

    /// Notes the values of members that have one where a supplier's type lacks them.
    fn defaults(_: &mut Defaults) {}

    /// What a filter finds at the rest of a path that leads here; `None` where there is nothing. Each part is taken from `steps`.
    fn filter_at<'f>(&'f self, _: &[Part], _: &mut Steps) -> Option<Value<'f>> {
        None
    }

    /// As [`filter_at`](Self::filter_at), by the member of a struct that has this name.
    fn filter_member<'f>(&'f self, _: &str, _: &[Part], _: &mut Steps) -> Option<Value<'f>> {
        None
    }

    /// Whether the sequence at the rest of a path has an element that equals `needle`; `None` where there is no such sequence.
    fn filter_contains(&self, _: &[Part], _: &Value<'_>, _: &mut Steps) -> Option<bool> {
        None
    }

    /// Writes values behind each other.
    fn write_all(values: &[Self], writer: &mut Writer<'_>) {
        values.iter().for_each(|value| value.write(writer));
    }

    /// Reads so many values.
    ///
    /// # Errors
    /// The octets are none.
    fn read_all(count: usize, reader: &mut Reader<'_>) -> Result<Vec<Self>, ReadError> {
        // No more than the octets can hold.
        let mut values = Vec::with_capacity(count.min(reader.remaining() / Self::OCTETS_MIN.max(1)));
        for _ in 0..count {
            values.push(Self::read(reader)?);
        }
        Ok(values)
    }
}

macro_rules! numbers {
    ($($rust:ident $kind:ident $size:literal $value:ident,)+) => {$(
        impl Field for $rust {
            const OCTETS_MIN: usize = $size;

            fn type_code() -> TypeCode {
                TypeCode::primitive(Kind::$kind)
            }

            fn write(&self, writer: &mut Writer<'_>) {
                writer.$rust(*self);
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
                reader.$rust()
            }

            fn filter_at<'f>(&'f self, parts: &[Part], _: &mut Steps) -> Option<Value<'f>> {
                at_single(Kind::$kind.keyword(), Value::$value((*self).into()), parts)
            }

            fn read_all(count: usize, reader: &mut Reader<'_>) -> Result<Vec<Self>, ReadError> {
                if count == 0 {
                    return Ok(Vec::new());
                }
                reader.align($size)?;
                let bytes = reader.take(count.saturating_mul($size))?;
                let (numbers, _) = bytes.as_chunks::<$size>();
                Ok(match reader.encoding().endian {
                    Endian::Little => numbers.iter().map(|number| Self::from_le_bytes(*number)).collect(),
                    Endian::Big => numbers.iter().map(|number| Self::from_be_bytes(*number)).collect(),
                })
            }
        }
    )+};
}

numbers! {
    i16 Short 2 Int,
    u16 UShort 2 UInt,
    i32 Long 4 Int,
    u32 ULong 4 UInt,
    i64 LongLong 8 Int,
    u64 ULongLong 8 UInt,
    f32 Float 4 Float,
    f64 Double 8 Float,
}

impl Field for u8 {
    const OCTETS_MIN: usize = 1;

    fn type_code() -> TypeCode {
        TypeCode::primitive(Kind::Octet)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.u8(*self);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        reader.u8()
    }

    fn filter_at<'f>(&'f self, parts: &[Part], _: &mut Steps) -> Option<Value<'f>> {
        at_single(Kind::Octet.keyword(), Value::UInt((*self).into()), parts)
    }

    fn write_all(values: &[Self], writer: &mut Writer<'_>) {
        writer.raw(values);
    }

    fn read_all(count: usize, reader: &mut Reader<'_>) -> Result<Vec<Self>, ReadError> {
        reader.take(count).map(<[u8]>::to_vec)
    }
}

/// Types of one value, each with its shortest length, its type's name, its type, how it is written and read, and what filters see of it.
macro_rules! single {
    ($(
        $rust:ty, $octets:literal, $name:literal, $code:expr,
        |$value:ident, $writer:ident| $write:expr, |$reader:ident| $read:expr, |$seen:ident| $see:expr;
    )+) => {$(
        impl Field for $rust {
            const OCTETS_MIN: usize = $octets;

            fn type_code() -> TypeCode {
                $code
            }

            fn write(&self, $writer: &mut Writer<'_>) {
                let $value = self;
                $write;
            }

            fn read($reader: &mut Reader<'_>) -> Result<Self, ReadError> {
                $read
            }

            fn filter_at<'f>(&'f self, parts: &[Part], _: &mut Steps) -> Option<Value<'f>> {
                let $seen = self;
                at_single($name, $see, parts)
            }
        }
    )+};
}

single! {
    bool, 1, "boolean", TypeCode::primitive(Kind::Boolean), |value, writer| writer.bool(*value), |reader| reader.bool(),
        |value| Value::Bool(*value);
    i8, 2, "short", TypeCode::primitive(Kind::Short), |value, writer| writer.i16((*value).into()), |reader| {
        let value = reader.i16()?;
        Self::try_from(value).map_err(|_| {
            let value = i32::from(value).cast_unsigned();
            reader.error(ReadErrorKind::BadValue { what: "i8", value })
        })
    }, |value| Value::Int((*value).into());
    char, 4, "string", TypeCode::bounded_string(4), |value, writer| writer.string(value.encode_utf8(&mut [0; 4])), |reader| {
        let text = reader.text()?;
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(character), None) => Ok(character),
            _ => Err(reader.error(ReadErrorKind::Malformed { what: "a text that is not one character" })),
        }
    }, |value| Value::Char(*value);
    String, 4, "string", TypeCode::string(), |value, writer| writer.string(value), |reader| reader.text(),
        |value| Value::Text(Text::new(value));
    SystemTime, 8, "TimeT", time("omg.org/TimeBase", "TimeT"), |value, writer| writer.u64(ticks_of(*value)),
        |reader| reader.u64().map(time_of), |value| Value::UInt(ticks_of(*value));
    Duration, 8, "Duration", time("campanile", "Duration"), |value, writer| writer.u64(ticks_of_duration(*value)),
        |reader| reader.u64().map(duration_of), |value| Value::UInt(ticks_of_duration(*value));
}

/// 100 ns under a name of their own.
fn time(module: &str, name: &str) -> TypeCode {
    TypeCode::alias(&format!("IDL:{module}/{name}:1.0"), name, TypeCode::primitive(Kind::ULongLong))
}

impl<T: Field> Field for Vec<T> {
    const OCTETS_MIN: usize = 4;

    fn type_code() -> TypeCode {
        TypeCode::sequence(T::type_code())
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.length(self.len());
        T::write_all(self, writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        let count = reader.seq_len(T::OCTETS_MIN)?;
        T::read_all(usize::try_from(count).unwrap_or(usize::MAX), reader)
    }

    fn filter_at<'f>(&'f self, parts: &[Part], steps: &mut Steps) -> Option<Value<'f>> {
        at_elements(self, parts, steps)
    }

    fn filter_contains(&self, parts: &[Part], needle: &Value<'_>, steps: &mut Steps) -> Option<bool> {
        contains_elements(self, parts, needle, steps)
    }

    fn defaults(defaults: &mut Defaults) {
        T::defaults(defaults);
    }
}

impl<T: Field> Field for Option<T> {
    const OCTETS_MIN: usize = 4;

    fn type_code() -> TypeCode {
        TypeCode::bounded_sequence(T::type_code(), 1)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.length(self.iter().len());
        T::write_all(self.as_slice(), writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        match reader.u32()? {
            0 => Ok(None),
            1 => T::read(reader).map(Some),
            count => Err(reader.error(ReadErrorKind::TooMany { what: "elements of an optional value", count, max: 1 })),
        }
    }

    fn filter_at<'f>(&'f self, parts: &[Part], steps: &mut Steps) -> Option<Value<'f>> {
        at_elements(self.as_slice(), parts, steps)
    }

    fn filter_contains(&self, parts: &[Part], needle: &Value<'_>, steps: &mut Steps) -> Option<bool> {
        contains_elements(self.as_slice(), parts, needle, steps)
    }

    fn defaults(defaults: &mut Defaults) {
        T::defaults(defaults);
    }
}

impl<T: Field> Field for Box<T> {
    const OCTETS_MIN: usize = T::OCTETS_MIN;

    fn type_code() -> TypeCode {
        T::type_code()
    }

    fn write(&self, writer: &mut Writer<'_>) {
        T::write(self, writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        T::read(reader).map(Self::new)
    }

    fn filter_at<'f>(&'f self, parts: &[Part], steps: &mut Steps) -> Option<Value<'f>> {
        T::filter_at(self, parts, steps)
    }

    fn filter_member<'f>(&'f self, name: &str, parts: &[Part], steps: &mut Steps) -> Option<Value<'f>> {
        T::filter_member(self, name, parts, steps)
    }

    fn filter_contains(&self, parts: &[Part], needle: &Value<'_>, steps: &mut Steps) -> Option<bool> {
        T::filter_contains(self, parts, needle, steps)
    }

    fn defaults(defaults: &mut Defaults) {
        T::defaults(defaults);
    }
}

impl<T: Field, const N: usize> Field for [T; N] {
    const OCTETS_MIN: usize = T::OCTETS_MIN * N;

    fn type_code() -> TypeCode {
        TypeCode::array(T::type_code(), u32::try_from(N).unwrap_or(u32::MAX))
    }

    fn write(&self, writer: &mut Writer<'_>) {
        T::write_all(self, writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        let count = u32::try_from(N).unwrap_or(u32::MAX);
        let values = T::read_all(N, reader)?;
        Self::try_from(values)
            .map_err(|_| reader.error(ReadErrorKind::TooMany { what: "elements of an array", count, max: count }))
    }

    fn filter_at<'f>(&'f self, parts: &[Part], steps: &mut Steps) -> Option<Value<'f>> {
        at_elements(self, parts, steps)
    }

    fn filter_contains(&self, parts: &[Part], needle: &Value<'_>, steps: &mut Steps) -> Option<bool> {
        contains_elements(self, parts, needle, steps)
    }

    fn defaults(defaults: &mut Defaults) {
        T::defaults(defaults);
    }
}

/// What a filter finds at a path in a single value whose type has this name.
fn at_single<'f>(name: &'static str, value: Value<'f>, parts: &[Part]) -> Option<Value<'f>> {
    match parts {
        [] => Some(value),
        [Part::TypeId] => Some(Value::Text(Text::new(name))),
        _ => None,
    }
}

/// What a filter finds at a path in a sequence or array.
fn at_elements<'f, T: Field>(values: &'f [T], parts: &[Part], steps: &mut Steps) -> Option<Value<'f>> {
    let Some((first, rest)) = parts.split_first() else { return Some(Value::Composite) };
    if !steps.take(1) {
        return None;
    }
    match first {
        Part::Length => Some(Value::UInt(u64::try_from(values.len()).unwrap_or(u64::MAX))),
        Part::Element(place) => values.get(usize::try_from(*place).ok()?)?.filter_at(rest, steps),
        _ => None,
    }
}

/// Whether a sequence or array at a path in a sequence or array has an element.
fn contains_elements<T: Field>(values: &[T], parts: &[Part], needle: &Value<'_>, steps: &mut Steps) -> Option<bool> {
    if let Some((first, rest)) = parts.split_first() {
        let Part::Element(place) = first else { return None };
        let element = values.get(usize::try_from(*place).ok()?)?;
        return if steps.take(1) { element.filter_contains(rest, needle, steps) } else { None };
    }
    for value in values {
        if !steps.take(1) {
            return None;
        }
        if needle.equals(&value.filter_at(&[], steps)?)? {
            return Some(true);
        }
    }
    Some(false)
}

/// Where a path in a structure goes on.
#[derive(Debug)]
pub enum Way<'p> {
    /// Nowhere: this stands here.
    Here(Value<'static>),
    /// In the member at this place, by the rest of the path.
    Member(usize, &'p [Part]),
}

/// Where a path goes on in a structure with these members, as `#[derive(Event)]` asks.
pub fn way_in_structure<'p>(
    id: &'static str,
    name: &'static str,
    members: &[&str],
    parts: &'p [Part],
    steps: &mut Steps,
) -> Option<Way<'p>> {
    let Some((first, rest)) = parts.split_first() else { return Some(Way::Here(Value::Composite)) };
    if !steps.take(1) {
        return None;
    }
    let place = match first {
        Part::Member(name) => members.iter().position(|member| **member == **name)?,
        Part::Position(place) => usize::try_from(*place).ok()?,
        Part::TypeId => return Some(Way::Here(Value::Text(Text::new(name)))),
        Part::ReposId => return Some(Way::Here(Value::Text(Text::new(id)))),
        _ => return None,
    };
    Some(Way::Member(place, rest))
}

/// What a filter finds at a path in an enumeration's value, as `#[derive(Event)]` asks.
pub fn at_label(
    id: &'static str,
    name: &'static str,
    labels: &[&'static str],
    ordinal: usize,
    parts: &[Part],
    steps: &mut Steps,
) -> Option<Value<'static>> {
    if !steps.take(u32::try_from(parts.len()).unwrap_or(u32::MAX)) {
        return None;
    }
    match parts {
        [] => Some(Value::Enum { ordinal: u32::try_from(ordinal).ok()?, name: Text::new(labels.get(ordinal)?) }),
        [Part::Ordinal(label)] => {
            labels.iter().position(|it| **it == **label).and_then(|place| i64::try_from(place).ok()).map(Value::Int)
        }
        [Part::TypeId] => Some(Value::Text(Text::new(name))),
        [Part::ReposId] => Some(Value::Text(Text::new(id))),
        _ => None,
    }
}

thread_local! {
    /// Ids of the structures that have their types made at the moment: one that contains itself is met here again.
    static MAKING: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// The type of a structure, as `#[derive(Event)]` makes it: `members` is asked for their types.
pub fn structure(id: &'static str, name: &str, members: impl FnOnce() -> Vec<(&'static str, TypeCode)>) -> TypeCode {
    if MAKING.with_borrow(|making| making.contains(&id)) {
        return TypeCode::recursive(id);
    }
    MAKING.with_borrow_mut(|making| making.push(id));
    let members = members();
    MAKING.with_borrow_mut(|making| making.pop());
    TypeCode::structure(id, name, &members)
}

/// Reads which label of an enum comes, of so many, as `#[derive(Event)]` does.
///
/// # Errors
/// The octets are none.
pub fn read_label(count: u32, name: &'static str, reader: &mut Reader<'_>) -> Result<u32, ReadError> {
    let value = reader.u32()?;
    if value < count { Ok(value) } else { Err(reader.error(ReadErrorKind::BadValue { what: name, value })) }
}
