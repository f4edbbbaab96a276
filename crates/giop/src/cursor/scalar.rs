//! Values that are not composed of others.

use super::{Cursor, number};
use crate::cdr::{ReadError, ReadErrorKind, Reader, WideUnits};
use crate::typecode::{Kind, Work};
use crate::value::fixed;

/// A number, truth value, character, text or enumerator, borrowed from where it lies.
#[derive(Clone, Debug)]
pub enum Scalar<'a> {
    /// `boolean`
    Bool(bool),
    /// `octet`, `short`, `long`, `long long`, the unsigned ones as far as they fit, and a `fixed` without digits behind
    /// the point that fits.
    Int(i64),
    /// `unsigned long long` beyond [`i64::MAX`].
    UInt(u64),
    /// `float`, `double`; the `double` next to a `long double`; the `double` next to (or, from 16 digits on, hardly
    /// further from) a `fixed`.
    Float(f64),
    /// `char` as [`Value::Char`](crate::value::Value::Char) has it, or `wchar`.
    Char(char),
    /// `string`, in the code set of the bytes, without its NUL.
    Text(&'a [u8]),
    /// `wstring`
    Wide(WideUnits<'a>),
    /// `enum`
    Enum {
        /// The enumerator's place in the type, from 0.
        ordinal: u32,
        /// The enumerator's name.
        name: &'a [u8],
    },
}

impl<'a> Scalar<'a> {
    /// The value of the `Any` in front of `any`, as from [`Cursor::any`] and [`Cursor::scalar`], with a fast path for the usual types:
    /// numbers, booleans and strings.
    ///
    /// # Errors
    /// The same as of those.
    #[inline]
    pub fn of_any(any: &Reader<'a>, work: &mut Work) -> Result<Option<Self>, ReadError> {
        let mut value = any.clone();
        let scalar = match Kind::from_number(value.u32()?) {
            Some(Kind::String) => {
                // The bound.
                value.take(4)?;
                Self::Text(value.string()?)
            }
            Some(Kind::Boolean) => Self::Bool(value.bool()?),
            Some(Kind::Short) => Self::Int(value.i16()?.into()),
            Some(Kind::Long) => Self::Int(value.i32()?.into()),
            Some(Kind::LongLong) => Self::Int(value.i64()?),
            Some(Kind::ULong) => Self::Int(value.u32()?.into()),
            Some(Kind::Float) => Self::Float(value.f32()?.into()),
            Some(Kind::Double) => Self::Float(value.f64()?),
            _ => return Cursor::any(any.clone(), work)?.scalar(work),
        };
        work.step(any.offset())?;
        Ok(Some(scalar))
    }
}

impl<'a> Cursor<'a> {
    /// The value, if it is not composed of others: `None` for structures, sequences, object references and the like, and for no value.
    ///
    /// # Errors
    /// The bytes cannot be read or are no value of the type, such as a boolean that is neither 0 nor 1 or an enumerator
    /// that the type does not have; or `work` does not suffice.
    #[inline]
    pub fn scalar(&self, work: &mut Work) -> Result<Option<Scalar<'a>>, ReadError> {
        let mut value = self.value.clone();
        Ok(Some(match self.node.kind {
            Kind::Boolean => Scalar::Bool(value.bool()?),
            Kind::Octet => Scalar::Int(value.u8()?.into()),
            Kind::Short => Scalar::Int(value.i16()?.into()),
            Kind::UShort => Scalar::Int(value.u16()?.into()),
            Kind::Long => Scalar::Int(value.i32()?.into()),
            Kind::ULong => Scalar::Int(value.u32()?.into()),
            Kind::LongLong => Scalar::Int(value.i64()?),
            Kind::ULongLong => {
                let number = value.u64()?;
                i64::try_from(number).map_or(Scalar::UInt(number), Scalar::Int)
            }
            Kind::Float => Scalar::Float(value.f32()?.into()),
            Kind::Double => Scalar::Float(value.f64()?),
            Kind::LongDouble => Scalar::Float(number::from_quadruple(value.long_double()?)),
            Kind::String => Scalar::Text(value.string()?),
            Kind::Wstring => Scalar::Wide(value.wstring()?),
            Kind::Char => Scalar::Char(value.u8()?.into()),
            Kind::Wchar => {
                let wrong = value.error(ReadErrorKind::BadText { charset: "UTF-16" });
                Scalar::Char(value.wchar()?.to_char().ok_or(wrong)?)
            }
            Kind::Enum => self.enumerator(value, work)?,
            Kind::Fixed => {
                let (digits, scale) = self.types.fixed(&mut self.node.params.clone())?;
                let wrong = value.error(ReadErrorKind::Malformed { what: "a fixed value" });
                number::from_fixed(fixed::octets(&mut value, digits)?, digits, scale).ok_or(wrong)?
            }
            _ => return Ok(None),
        }))
    }

    fn enumerator(&self, mut value: Reader<'a>, work: &mut Work) -> Result<Scalar<'a>, ReadError> {
        let wrong = value.clone();
        let ordinal = value.u32()?;
        let mut place = self.node.params;
        if ordinal >= self.types.u32(&mut place)? {
            return Err(wrong.error(ReadErrorKind::BadValue { what: "an enum", value: ordinal }));
        }
        for _ in 0..ordinal {
            work.step(self.types.offset(place))?;
            self.types.skip_string(&mut place)?;
        }
        Ok(Scalar::Enum { ordinal, name: self.types.string(&mut place)? })
    }
}
