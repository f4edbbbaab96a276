//! The kinds of types and how each one's parameters are laid out.

use core::fmt;

/// The kind of a type (CORBA 3.3 part 1, 8.11.1; part 2, table 9.2 for the numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is the IDL type of that name")]
pub enum Kind {
    Null = 0,
    Void = 1,
    Short = 2,
    Long = 3,
    UShort = 4,
    ULong = 5,
    Float = 6,
    Double = 7,
    Boolean = 8,
    Char = 9,
    Octet = 10,
    Any = 11,
    TypeCode = 12,
    Principal = 13,
    Object = 14,
    Struct = 15,
    Union = 16,
    Enum = 17,
    String = 18,
    Sequence = 19,
    Array = 20,
    Alias = 21,
    Exception = 22,
    LongLong = 23,
    ULongLong = 24,
    LongDouble = 25,
    Wchar = 26,
    Wstring = 27,
    Fixed = 28,
    Value = 29,
    ValueBox = 30,
    Native = 31,
    AbstractInterface = 32,
    LocalInterface = 33,
    Component = 34,
    Home = 35,
    Event = 36,
}

/// Layout of the parameters of a kind (CORBA 3.3 part 2, 9.3.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// No parameters.
    Empty,
    /// Four octets directly behind the kind.
    Simple,
    /// An encapsulation.
    Complex,
}

impl Kind {
    /// All kinds, indexed by their number.
    pub const ALL: [Self; 37] = [
        Self::Null,
        Self::Void,
        Self::Short,
        Self::Long,
        Self::UShort,
        Self::ULong,
        Self::Float,
        Self::Double,
        Self::Boolean,
        Self::Char,
        Self::Octet,
        Self::Any,
        Self::TypeCode,
        Self::Principal,
        Self::Object,
        Self::Struct,
        Self::Union,
        Self::Enum,
        Self::String,
        Self::Sequence,
        Self::Array,
        Self::Alias,
        Self::Exception,
        Self::LongLong,
        Self::ULongLong,
        Self::LongDouble,
        Self::Wchar,
        Self::Wstring,
        Self::Fixed,
        Self::Value,
        Self::ValueBox,
        Self::Native,
        Self::AbstractInterface,
        Self::LocalInterface,
        Self::Component,
        Self::Home,
        Self::Event,
    ];

    /// The kind of that number on the wire.
    #[inline]
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The kind's number on the wire.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Size and alignment of this kind's values, if it is a number with one size in every encoding. An octet or boolean is not a number,
    /// since byte order does not apply.
    #[inline]
    #[must_use]
    pub const fn number_layout(self) -> Option<(usize, usize)> {
        Some(match self {
            Self::Short | Self::UShort => (2, 2),
            Self::Long | Self::ULong | Self::Float | Self::Enum => (4, 4),
            Self::Double | Self::LongLong | Self::ULongLong => (8, 8),
            Self::LongDouble => (16, 8),
            _ => return None,
        })
    }

    #[inline]
    pub(crate) const fn shape(self) -> Shape {
        match self {
            Self::String | Self::Wstring | Self::Fixed => Shape::Simple,
            Self::Object
            | Self::Struct
            | Self::Union
            | Self::Enum
            | Self::Sequence
            | Self::Array
            | Self::Alias
            | Self::Exception
            | Self::Value
            | Self::ValueBox
            | Self::Native
            | Self::AbstractInterface
            | Self::LocalInterface
            | Self::Component
            | Self::Home
            | Self::Event => Shape::Complex,
            _ => Shape::Empty,
        }
    }

    /// Whether the parameters begin with a repository id and a name.
    #[inline]
    pub(crate) const fn is_named(self) -> bool {
        matches!(self.shape(), Shape::Complex) && !matches!(self, Self::Sequence | Self::Array)
    }

    /// Whether a union may be discriminated by this kind. Octets and wide characters came with IDL 4.
    pub(crate) const fn discriminates(self) -> bool {
        matches!(
            self,
            Self::Short
                | Self::Long
                | Self::UShort
                | Self::ULong
                | Self::LongLong
                | Self::ULongLong
                | Self::Boolean
                | Self::Char
                | Self::Octet
                | Self::Wchar
                | Self::Enum
        )
    }

    /// The IDL keyword of the kind, or the nearest to it.
    #[must_use]
    pub const fn keyword(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Void => "void",
            Self::Short => "short",
            Self::Long => "long",
            Self::UShort => "unsigned short",
            Self::ULong => "unsigned long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Boolean => "boolean",
            Self::Char => "char",
            Self::Octet => "octet",
            Self::Any => "any",
            Self::TypeCode => "CORBA::TypeCode",
            Self::Principal => "CORBA::Principal",
            Self::Object => "interface",
            Self::Struct => "struct",
            Self::Union => "union",
            Self::Enum => "enum",
            Self::String => "string",
            Self::Sequence => "sequence",
            Self::Array => "array",
            Self::Alias => "typedef",
            Self::Exception => "exception",
            Self::LongLong => "long long",
            Self::ULongLong => "unsigned long long",
            Self::LongDouble => "long double",
            Self::Wchar => "wchar",
            Self::Wstring => "wstring",
            Self::Fixed => "fixed",
            Self::Value => "valuetype",
            Self::ValueBox => "boxed valuetype",
            Self::Native => "native",
            Self::AbstractInterface => "abstract interface",
            Self::LocalInterface => "local interface",
            Self::Component => "component",
            Self::Home => "home",
            Self::Event => "eventtype",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.keyword())
    }
}
