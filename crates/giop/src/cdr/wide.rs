//! Wide characters in their encoded form: UTF-16 units, before they are known to be text.
//!
//! A JVM may send half a surrogate pair as a `wchar`, and the service should pass it on unchanged. So units are read and copied, and `char`
//! and `String` are made only where a program needs text.

use super::Endian;
use core::iter::FusedIterator;

/// One `wchar`: one UTF-16 unit, or in GIOP 1.2 two that form a surrogate pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WideChar {
    first: u16,
    /// The second unit; 0 without one, since a NUL never is the second half of a pair.
    second: u16,
}

impl WideChar {
    /// One unit, which may be half of a surrogate pair.
    #[must_use]
    pub const fn from_unit(unit: u16) -> Self {
        Self { first: unit, second: 0 }
    }

    /// Two units, if they form a surrogate pair.
    #[must_use]
    pub fn from_pair(high: u16, low: u16) -> Option<Self> {
        let pair = (0xD800..0xDC00).contains(&high) && (0xDC00..0xE000).contains(&low);
        pair.then_some(Self { first: high, second: low })
    }

    /// The first or only unit.
    #[must_use]
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The second unit of a surrogate pair.
    #[must_use]
    pub const fn second(self) -> Option<u16> {
        if self.second == 0 { None } else { Some(self.second) }
    }

    /// The character, or `None` for half a surrogate pair.
    #[must_use]
    pub fn to_char(self) -> Option<char> {
        char::decode_utf16(core::iter::once(self.first).chain(self.second())).next()?.ok()
    }
}

impl From<char> for WideChar {
    fn from(c: char) -> Self {
        match *c.encode_utf16(&mut [0; 2]) {
            [high, low] => Self { first: high, second: low },
            [unit] => Self::from_unit(unit),
            _ => Self::from_unit(0xFFFD),
        }
    }
}

/// The UTF-16 units of a `wstring`, without its terminating NUL and byte order mark.
#[derive(Clone, Debug)]
pub struct WideUnits<'a> {
    bytes: &'a [u8],
    endian: Endian,
}

impl<'a> WideUnits<'a> {
    /// Units over whole pairs of octets, in the byte order of a mark at the front, if present.
    ///
    /// CORBA 3.3 part 2, 9.3.2.7: the mark is not part of the text; `otherwise` is the byte order without one.
    pub(super) fn with_mark(bytes: &'a [u8], otherwise: Endian) -> Self {
        match bytes.split_first_chunk::<2>() {
            Some(([0xFE, 0xFF], rest)) => Self { bytes: rest, endian: Endian::Big },
            Some(([0xFF, 0xFE], rest)) => Self { bytes: rest, endian: Endian::Little },
            _ => Self { bytes, endian: otherwise },
        }
    }

    /// Units over whole pairs of octets without a mark.
    pub(super) const fn without_mark(bytes: &'a [u8], endian: Endian) -> Self {
        Self { bytes, endian }
    }

    /// The octets of the units left, and their byte order.
    #[must_use]
    pub const fn as_bytes(&self) -> (&'a [u8], Endian) {
        (self.bytes, self.endian)
    }
}

impl Iterator for WideUnits<'_> {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        let (unit, rest) = self.bytes.split_first_chunk::<2>()?;
        self.bytes = rest;
        Some(match self.endian {
            Endian::Big => u16::from_be_bytes(*unit),
            Endian::Little => u16::from_le_bytes(*unit),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let units = self.bytes.len() / 2;
        (units, Some(units))
    }
}

impl ExactSizeIterator for WideUnits<'_> {}
impl FusedIterator for WideUnits<'_> {}
