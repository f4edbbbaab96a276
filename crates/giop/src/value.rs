//! Values that carry their type: any `Any` as something a program can look at, without its IDL.
//!
//! [`Value`] is what a value is made of, with the names that its type gives it; [`AnyValue`] is one with its type.
//! [`AnyRef`] is an `Any` left where it lies, for code that only wants to know its type or may not need it at all.
//!
//! Aliases are looked through. Octets in a row are kept as such. Values of valuetypes, abstract interfaces and native
//! types are answered with [`ReadErrorKind::Unsupported`](crate::cdr::ReadErrorKind::Unsupported).

pub(crate) mod fixed;
mod read;
mod show;
#[cfg(test)]
mod tests;
mod write;

pub use write::WriteError;

use crate::cdr::{ReadError, Reader};
use crate::ior::Ior;
use crate::recode;
use crate::typecode::wire::Types;
use crate::typecode::{Kind, TypeCode, Work};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// A value of some IDL type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// No value: an `Any` that was never given one.
    Null,
    /// No value: the result of an operation without one.
    Void,
    /// `boolean`
    Bool(bool),
    /// `octet`
    Octet(u8),
    /// `char`. In UTF-8 an octet beyond ASCII is a part of a character; it is then the character of that number.
    Char(char),
    /// `wchar`
    Wchar(char),
    /// `short`
    Short(i16),
    /// `unsigned short`
    UShort(u16),
    /// `long`
    Long(i32),
    /// `unsigned long`
    ULong(u32),
    /// `long long`
    LongLong(i64),
    /// `unsigned long long`
    ULongLong(u64),
    /// `float`
    Float(f32),
    /// `double`
    Double(f64),
    /// `long double`: the octets of an IEEE 754 quadruple, most significant first.
    LongDouble([u8; 16]),
    /// `string`
    String(String),
    /// `wstring`
    Wstring(String),
    /// `fixed`, as decimal text such as `-12.50`, with as many digits behind the point as its type says.
    Fixed(String),
    /// `enum`
    Enum {
        /// Name of the type.
        type_name: String,
        /// Name of the value.
        label: String,
        /// Its position in the type, counted from 0.
        index: u32,
    },
    /// `struct`
    Struct {
        /// Name of the type.
        type_name: String,
        /// The members in order, by name.
        fields: Vec<(String, Self)>,
    },
    /// `exception`
    Exception {
        /// Name of the type.
        type_name: String,
        /// The members in order, by name.
        fields: Vec<(String, Self)>,
    },
    /// `union`
    Union {
        /// Name of the type.
        type_name: String,
        /// The discriminator that selected the member.
        discriminator: Box<Self>,
        /// The member by name, unless the discriminator chose none.
        member: Option<(String, Box<Self>)>,
    },
    /// `sequence`, of anything but octets
    Sequence(Vec<Self>),
    /// `sequence<octet>`, an array of octets, or a `Principal`
    Octets(Vec<u8>),
    /// Array, of anything but octets
    Array(Vec<Self>),
    /// `any`
    Any(Box<AnyValue>),
    /// `CORBA::TypeCode`
    TypeCode(Box<TypeCode>),
    /// Object reference
    Object(Ior),
}

/// A value with its type: an `Any`.
#[derive(Clone, Debug, PartialEq)]
pub struct AnyValue {
    /// The type of the value, aliases included.
    pub type_code: TypeCode,
    /// The value.
    pub value: Value,
}

impl Default for AnyValue {
    /// An `Any` that was never given a value.
    fn default() -> Self {
        Self { type_code: TypeCode::default(), value: Value::Null }
    }
}

impl AnyValue {
    /// A value with its type, which have to fit each other when they are written.
    #[must_use]
    pub const fn new(type_code: TypeCode, value: Value) -> Self {
        Self { type_code, value }
    }
}

macro_rules! any_from {
    ($($from:ty => $kind:ident, $value:expr;)*) => {$(
        impl From<$from> for AnyValue {
            fn from(value: $from) -> Self {
                let make: fn($from) -> Value = $value;
                Self { type_code: TypeCode::primitive(Kind::$kind), value: make(value) }
            }
        }
    )*};
}

any_from! {
    bool => Boolean, Value::Bool;
    u8 => Octet, Value::Octet;
    i16 => Short, Value::Short;
    u16 => UShort, Value::UShort;
    i32 => Long, Value::Long;
    u32 => ULong, Value::ULong;
    i64 => LongLong, Value::LongLong;
    u64 => ULongLong, Value::ULongLong;
    f32 => Float, Value::Float;
    f64 => Double, Value::Double;
    &str => String, |text| Value::String(text.into());
    String => String, Value::String;
}

/// An `Any` where it lies in a message, checked but not taken apart.
#[derive(Clone, Debug)]
pub struct AnyRef<'a> {
    /// A reader in front of the kind.
    start: Reader<'a>,
    /// Octets of type and value together.
    length: usize,
}

impl<'a> AnyRef<'a> {
    /// Moves `reader` behind an `Any`, having checked its structure, and remembers where it lies.
    ///
    /// # Errors
    /// As [`recode::skip_any`].
    pub fn read(reader: &mut Reader<'a>, work: &mut Work) -> Result<Self, ReadError> {
        reader.align(4)?;
        let start = reader.clone();
        recode::skip_any(reader, work)?;
        Ok(Self { length: reader.position() - start.position(), start })
    }

    /// The kind of its type, which may be an alias.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.start.clone().u32().ok().and_then(Kind::from_number).unwrap_or(Kind::Null)
    }

    /// The kind of its type, behind any aliases.
    #[must_use]
    pub fn resolved_kind(&self) -> Kind {
        // Aliases that are reached through indirections can refer to each other, but not without end for long.
        let mut work = Work::new(1024, 0);
        let mut reader = self.reader();
        let node = Types::open(&mut reader).and_then(|(types, mut place)| types.resolve(&mut place, &mut work));
        node.map_or(Kind::Alias, |node| node.kind)
    }

    /// The octets of type and value, from the kind on, which lies at a multiple of 4.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.start.rest().get(..self.length).unwrap_or_default()
    }

    /// A reader over exactly those octets, in front of the kind.
    #[must_use]
    pub fn reader(&self) -> Reader<'a> {
        Reader::with_phase(self.bytes(), self.start.phase(), self.start.encoding()).with_origin(self.start.offset())
    }

    /// A reader over the value, standing behind the type.
    ///
    /// # Errors
    /// `work` does not suffice.
    pub fn value_reader(&self, work: &mut Work) -> Result<Reader<'a>, ReadError> {
        let mut reader = self.reader();
        recode::skip_type_code(&mut reader, work)?;
        Ok(reader)
    }

    /// Takes it apart.
    ///
    /// # Errors
    /// As [`AnyValue::read`].
    pub fn decode(&self, work: &mut Work) -> Result<AnyValue, ReadError> {
        AnyValue::read(&mut self.reader(), work)
    }

    /// The text of a `string`, or of an alias of one; `None` for any other type, and for text that is not valid in its
    /// code set.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        if self.resolved_kind() != Kind::String {
            return None;
        }
        self.value_reader(&mut Work::default()).ok()?.text().ok()
    }
}
