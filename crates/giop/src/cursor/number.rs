//! Numbers without a Rust counterpart, rounded to a `double`.

use super::Scalar;

/// The `double` next to an IEEE 754 quadruple, most significant octet first.
pub(super) fn from_quadruple(octets: [u8; 16]) -> f64 {
    const FRACTION: u32 = 112;
    /// Bits by which a quadruple's fraction exceeds a double's.
    const SURPLUS: u32 = FRACTION - 52;
    let bits = u128::from_be_bytes(octets);
    let sign = u64::from(octets.first().is_some_and(|octet| octet & 0x80 != 0)) << 63;
    let exponent = i32::try_from(bits >> FRACTION & 0x7FFF).unwrap_or(0);
    let fraction = bits & ((1 << FRACTION) - 1);
    let magnitude = match exponent {
        0x7FFF if fraction == 0 => f64::INFINITY.to_bits(),
        0x7FFF => f64::NAN.to_bits(),
        // Subnormal quadruples are far too small to be anything but 0.
        0 => 0,
        _ => {
            // 1 before the point is part of what is shifted, so that it carries into the exponent by itself.
            let significand = fraction | 1 << FRACTION;
            let biased = exponent - 16383 + 1023;
            match u32::try_from(biased) {
                Ok(biased @ 1..2047) => rounded(significand, SURPLUS) + (u64::from(biased - 1) << 52),
                Ok(2047..) => f64::INFINITY.to_bits(),
                // Subnormal doubles have the exponent of 1 and no 1 before the point.
                _ => rounded(significand, SURPLUS.saturating_add(1).saturating_add(biased.unsigned_abs()).min(127)),
            }
        }
    };
    f64::from_bits(sign | magnitude)
}

/// Shifts right, rounding to nearest, ties to even.
fn rounded(significand: u128, by: u32) -> u64 {
    let (kept, lost) = (significand >> by, significand & ((1 << by) - 1));
    let half = 1 << (by - 1);
    let up = lost > half || lost == half && kept & 1 == 1;
    u64::try_from(kept + u128::from(up)).unwrap_or(u64::MAX)
}

/// The value of a decimal, two digits in an octet and the sign in the last half (CORBA 3.3 part 2, 9.3.2.8).
pub(super) fn from_fixed(octets: &[u8], digits: u16, scale: i16) -> Option<Scalar<'static>> {
    let halves = octets.len().checked_mul(2)?.checked_sub(1)?;
    let (mut number, mut minus) = (0_u128, false);
    for (index, half) in octets.iter().flat_map(|octet| [octet >> 4, octet & 0xF]).enumerate() {
        if index == halves {
            minus = half == 0xD;
        } else if half > 9 || half != 0 && halves - index > usize::from(digits) {
            return None;
        } else {
            number = number.checked_mul(10)?.checked_add(u128::from(half))?;
        }
    }
    if scale <= 0 {
        let whole = number.checked_mul(10_u128.checked_pow(scale.unsigned_abs().into())?);
        if let Some(whole) = whole.and_then(|whole| i64::try_from(whole).ok()) {
            return Some(Scalar::Int(if minus { -whole } else { whole }));
        }
    }
    let power = (0..scale.unsigned_abs()).fold(1.0, |power, _| power * 10.0);
    #[expect(clippy::cast_precision_loss, reason = "more digits than a double has are rounded")]
    let number = number as f64;
    let magnitude = if scale < 0 { number * power } else { number / power };
    Some(Scalar::Float(if minus { -magnitude } else { magnitude }))
}
