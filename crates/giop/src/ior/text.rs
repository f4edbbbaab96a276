//! References as text: `IOR:` and the hexadecimal digits of an encapsulation (CORBA 3.3 part 2, 7.6.9).

use super::Ior;
use crate::cdr::{Encoding, Endian, ReadError, Reader, Writer};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Maximum digits of a stringified reference: a megabyte of reference is no reference.
const DIGITS_MAX: usize = 1 << 20;

/// Writes `IOR:` and lower-case digits, always most significant octet first, so that the same reference is the same text.
impl fmt::Display for Ior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes, Encoding::new(Endian::Big));
        w.u8(Endian::Big.flag());
        self.write(&mut w);
        f.write_str("IOR:")?;
        bytes.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// Reads `IOR:` and digits in either case. Space around them is ignored, as files tend to end with a line break.
impl FromStr for Ior {
    type Err = ParseIorError;

    fn from_str(text: &str) -> Result<Self, ParseIorError> {
        let text = text.trim();
        let digits = match text.split_at_checked(4) {
            Some((prefix, digits)) if prefix.eq_ignore_ascii_case("IOR:") => digits,
            _ => return Err(ParseIorError::NoPrefix),
        };
        if digits.len() > DIGITS_MAX {
            return Err(ParseIorError::TooLong { digits: digits.len(), max: DIGITS_MAX });
        }
        if digits.len() % 2 != 0 {
            return Err(ParseIorError::OddDigits { digits: digits.len() });
        }
        let mut bytes = Vec::with_capacity(digits.len() / 2);
        for (index, pair) in digits.as_bytes().chunks_exact(2).enumerate() {
            let Some(octet) = hex_octet(pair) else {
                return Err(ParseIorError::NotHex { at: 4 + 2 * index });
            };
            bytes.push(octet);
        }
        // What may follow in the encapsulation is not looked at: some ORBs pad it.
        let mut r = Reader::over_encapsulation(&bytes).map_err(ParseIorError::Read)?;
        Self::read(&mut r).map_err(ParseIorError::Read)
    }
}

/// The octet that two hexadecimal digits stand for.
pub(crate) fn hex_octet(pair: &[u8]) -> Option<u8> {
    let &[high, low] = pair else { return None };
    let digit = |c: u8| u8::try_from(char::from(c).to_digit(16)?).ok();
    Some(digit(high)? << 4 | digit(low)?)
}

/// Text that is not a stringified reference.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseIorError {
    /// The text does not start with `IOR:`.
    NoPrefix,
    /// The text is too long.
    TooLong {
        /// Number of digits.
        digits: usize,
        /// Maximum number of digits.
        max: usize,
    },
    /// The text ends in the middle of an octet; usually, it was truncated.
    OddDigits {
        /// Number of digits.
        digits: usize,
    },
    /// The text has something other than a hexadecimal digit.
    NotHex {
        /// Octets from the start of the text to about where.
        at: usize,
    },
    /// The octets are not a reference.
    Read(ReadError),
}

impl fmt::Display for ParseIorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPrefix => f.write_str("a stringified object reference starts with \"IOR:\""),
            Self::TooLong { digits, max } => {
                write!(f, "an object reference has {digits} digits where at most {max} are accepted")
            }
            Self::OddDigits { digits } => {
                write!(f, "an object reference has {digits} digits, an odd number; it was probably cut short")
            }
            Self::NotHex { at } => write!(f, "an object reference has something other than a digit at character {at}"),
            Self::Read(error) => write!(f, "the octets of an object reference are wrong: {error}"),
        }
    }
}

impl core::error::Error for ParseIorError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            _ => None,
        }
    }
}
