//! Widening of numbers.

use super::Fault;
use super::sink::Sink;
use giop::cdr::Reader;
use giop::typecode::Kind;

/// A kind of number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Number {
    pub(super) const fn of(kind: Kind) -> Option<Self> {
        Some(match kind {
            Kind::Octet => Self::U8,
            Kind::Short => Self::I16,
            Kind::UShort => Self::U16,
            Kind::Long => Self::I32,
            Kind::ULong => Self::U32,
            Kind::LongLong => Self::I64,
            Kind::ULongLong => Self::U64,
            Kind::Float => Self::F32,
            Kind::Double => Self::F64,
            _ => return None,
        })
    }

    /// Whether each of its values is a value of `other`.
    pub(super) const fn widens_to(self, other: Self) -> bool {
        use Number::{F32, F64, I16, I32, I64, U8, U16, U32, U64};
        matches!(
            (self, other),
            (U8, I16 | U16 | I32 | U32 | I64 | U64 | F32 | F64)
                | (I16, I32 | I64 | F32 | F64)
                | (U16, I32 | U32 | I64 | U64 | F32 | F64)
                | (I32, I64 | F64)
                | (U32, I64 | U64 | F64)
                | (F32, F64)
        )
    }
}

/// A number after reading; its variant holds it without loss.
#[derive(Clone, Copy)]
enum Read {
    Whole(i64),
    Large(u64),
    Real(f64),
}

/// Reads one kind of number and writes a wider one.
pub(super) fn widen(from: Number, to: Number, reader: &mut Reader<'_>, sink: &mut impl Sink) -> Result<(), Fault> {
    let value = match from {
        Number::U8 => Read::Whole(reader.u8()?.into()),
        Number::I16 => Read::Whole(reader.i16()?.into()),
        Number::U16 => Read::Whole(reader.u16()?.into()),
        Number::I32 => Read::Whole(reader.i32()?.into()),
        Number::U32 => Read::Whole(reader.u32()?.into()),
        Number::I64 => Read::Whole(reader.i64()?),
        Number::U64 => Read::Large(reader.u64()?),
        Number::F32 => Read::Real(reader.f32()?.into()),
        Number::F64 => Read::Real(reader.f64()?),
    };
    write(value, to, sink);
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "only pairs get here of which the second holds each value of the first"
)]
fn write(value: Read, to: Number, sink: &mut impl Sink) {
    let whole = match value {
        Read::Whole(value) => value,
        Read::Large(value) => value.cast_signed(),
        Read::Real(value) => {
            match to {
                Number::F32 => sink.u32((value as f32).to_bits()),
                _ => sink.u64(value.to_bits()),
            }
            return;
        }
    };
    match to {
        Number::U8 => sink.u8(whole as u8),
        Number::I16 | Number::U16 => sink.u16(whole as u16),
        Number::I32 | Number::U32 => sink.u32(whole as u32),
        Number::I64 | Number::U64 => sink.u64(whole as u64),
        Number::F32 => sink.u32((whole as f32).to_bits()),
        Number::F64 => sink.u64((whole as f64).to_bits()),
    }
}
