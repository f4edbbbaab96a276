//! The Common Data Representation: the layout of values in GIOP messages and encapsulations.
//!
//! CORBA 3.3 part 2, 9.3. A value of 2, 4 or 8 octets lies at a multiple of its size, counted from the beginning of the
//! message or of the innermost encapsulation; the sender chooses the byte order. [`Reader`] borrows from the bytes it is
//! given and copies nothing unless a `String` is asked for; [`Writer`] appends to a buffer of the caller's.
//!
//! Elsewhere: the choice of a connection's character set ([`crate::codeset`]), and values by their `TypeCode` ([`crate::value`],
//! [`crate::recode`]).

mod error;
mod read;
mod wide;
mod write;

#[cfg(test)]
mod tests;

pub use error::{Lacking, ReadError, ReadErrorKind};
pub use read::Reader;
pub use wide::{WideChar, WideUnits};
pub use write::Writer;

/// Order of the octets of a number, chosen by the sender (CORBA 3.3 part 2, 9.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// Most significant octet first; flag value 0.
    Big,
    /// Least significant octet first; flag value 1.
    Little,
}

impl Endian {
    /// The order of the processor this was compiled for.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    /// The order as message headers and encapsulations spell it: 0 for big, 1 for little.
    #[inline]
    #[must_use]
    pub const fn flag(self) -> u8 {
        match self {
            Self::Big => 0,
            Self::Little => 1,
        }
    }
}

/// Version of GIOP (and of an IIOP profile, which numbers its versions alike).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// 1.0: no fragments, no wide characters.
    V1_0,
    /// 1.1: fragments of requests and replies; a `wchar` is a number in the message's byte order.
    V1_1,
    /// 1.2: bodies at multiples of 8, fragments with request ids, target addressing, wide characters by octets.
    /// Version 1.3 has the same layout and is never sent by a peer that was offered 1.2.
    V1_2,
    /// No version of GIOP: the layout of DDS values in XCDR1 (DDS-XTypes 1.3, 7.4.1), which is as in 1.2 but for wide characters: a `wchar`
    /// is a number, and a `wstring` the count of its octets and numbers, with neither a mark nor a NUL.
    Xcdr1,
}

impl Version {
    /// The minor version number, 0 to 2; the major one is always 1. [`Xcdr1`](Self::Xcdr1) has that of 1.2.
    #[inline]
    #[must_use]
    pub const fn minor(self) -> u8 {
        match self {
            Self::V1_0 => 0,
            Self::V1_1 => 1,
            Self::V1_2 | Self::Xcdr1 => 2,
        }
    }

    /// Whether wide characters are numbers in the message's byte order, and not octets.
    #[inline]
    pub(crate) const fn has_wide_numbers(self) -> bool {
        !matches!(self, Self::V1_2)
    }

    /// The version 1.`minor`, if supported here.
    #[inline]
    #[must_use]
    pub const fn from_minor(minor: u8) -> Option<Self> {
        match minor {
            0 => Some(Self::V1_0),
            1 => Some(Self::V1_1),
            2 => Some(Self::V1_2),
            _ => None,
        }
    }
}

/// Transmission code set of `char` and `string`. That of `wchar` and `wstring` is always UTF-16 ([`CharSet::WIDE_ID`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CharSet {
    /// ISO 8859-1, the default without negotiation (CORBA 3.3 part 2, 7.10.2.6).
    Latin1,
    /// UTF-8, the fallback that every ORB has to understand.
    Utf8,
}

impl CharSet {
    /// UTF-16 in the OSF registry: the one code set for wide characters here.
    pub const WIDE_ID: u32 = 0x0001_0109;

    /// The number in the OSF code set registry: `0x00010001` or `0x05010001`.
    #[inline]
    #[must_use]
    pub const fn id(self) -> u32 {
        match self {
            Self::Latin1 => 0x0001_0001,
            Self::Utf8 => 0x0501_0001,
        }
    }

    /// The code set of that number, if it is one of ours.
    #[must_use]
    pub const fn from_id(id: u32) -> Option<Self> {
        match id {
            0x0001_0001 => Some(Self::Latin1),
            0x0501_0001 => Some(Self::Utf8),
            _ => None,
        }
    }
}

/// All properties of an encoding that determine the meaning of an octet beside its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encoding {
    /// Order of the octets of numbers.
    pub endian: Endian,
    /// Decides the layout of wide characters.
    pub version: Version,
    /// Code set of `char` and `string`.
    pub chars: CharSet,
}

impl Encoding {
    /// GIOP 1.2 and ISO 8859-1 in the given byte order: the encoding of encapsulations that outlive a connection.
    #[inline]
    #[must_use]
    pub const fn new(endian: Endian) -> Self {
        Self { endian, version: Version::V1_2, chars: CharSet::Latin1 }
    }
}

/// Octets to skip from position `at` to the next multiple of `alignment`, a power of two.
#[inline]
pub(crate) const fn padding(at: usize, alignment: usize) -> usize {
    at.wrapping_neg() & (alignment - 1)
}
