//! Numbers of all IDL types, compared by value, and arithmetic with them.

use core::cmp::Ordering;

/// A number of any IDL type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    UInt(u64),
    Float(f64),
}

/// An operator of arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    /// The bits that two integers have in common.
    Mask,
}

impl Arithmetic {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Mask => "&",
        }
    }
}

/// Largest magnitude up to which every integer is a `double`.
const EXACT: i64 = 1 << 53;

impl Number {
    /// Exact order of two numbers; `None` if one is not a number (NaN).
    #[inline]
    pub(crate) fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(&b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(&b),
            (Self::Int(a), Self::Float(b)) => compare_int_float(a, b),
            (Self::Float(a), Self::Int(b)) => compare_int_float(b, a).map(Ordering::reverse),
            (Self::UInt(a), Self::UInt(b)) => Some(a.cmp(&b)),
            (Self::UInt(a), Self::Int(b)) => Some(i128::from(a).cmp(&i128::from(b))),
            (Self::Int(a), Self::UInt(b)) => Some(i128::from(a).cmp(&i128::from(b))),
            (Self::UInt(a), Self::Float(b)) => compare_wide_float(i128::from(a), b),
            (Self::Float(a), Self::UInt(b)) => compare_wide_float(i128::from(b), a).map(Ordering::reverse),
        }
    }

    /// `self op other`; `None` for a division by zero.
    ///
    /// Two integers give an integer, division truncating towards zero, unless the result fits neither a `long long`
    /// nor an `unsigned long long`; then, and if either is a float, the result is a `double`.
    pub(crate) fn calculate(self, op: Arithmetic, other: Self) -> Option<Self> {
        if let (Some(a), Some(b)) = (self.integer(), other.integer()) {
            let exact = match op {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Subtract => a.checked_sub(b),
                Arithmetic::Multiply => a.checked_mul(b),
                Arithmetic::Divide => Some(a.checked_div(b)?),
                Arithmetic::Remainder => Some(a.checked_rem(b)?),
                Arithmetic::Mask => Some(a & b),
            };
            if let Some(number) = exact.and_then(Self::from_integer) {
                return Some(number);
            }
        }
        let (a, b) = (self.float(), other.float());
        match op {
            Arithmetic::Add => Some(Self::Float(a + b)),
            Arithmetic::Subtract => Some(Self::Float(a - b)),
            Arithmetic::Multiply => Some(Self::Float(a * b)),
            Arithmetic::Divide | Arithmetic::Remainder if b == 0.0 => None,
            Arithmetic::Mask => None,
            Arithmetic::Divide => Some(Self::Float(a / b)),
            Arithmetic::Remainder => Some(Self::Float(a % b)),
        }
    }

    /// `-self`.
    pub(crate) fn negate(self) -> Self {
        match self {
            Self::Float(value) => Self::Float(-value),
            integer => integer
                .integer()
                .and_then(|value| Self::from_integer(-value))
                .unwrap_or_else(|| Self::Float(-integer.float())),
        }
    }

    fn integer(self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(i128::from(value)),
            Self::UInt(value) => Some(i128::from(value)),
            Self::Float(_) => None,
        }
    }

    fn from_integer(value: i128) -> Option<Self> {
        let int = i64::try_from(value).map(Self::Int);
        int.or_else(|_| u64::try_from(value).map(Self::UInt)).ok()
    }

    #[expect(clippy::cast_precision_loss, reason = "the promotion to double loses what a double cannot hold")]
    fn float(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::UInt(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

#[inline]
#[expect(clippy::cast_precision_loss, reason = "exact within the bounds just checked")]
fn compare_int_float(a: i64, b: f64) -> Option<Ordering> {
    if (-EXACT..=EXACT).contains(&a) { (a as f64).partial_cmp(&b) } else { compare_wide_float(i128::from(a), b) }
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "see the comments")]
fn compare_wide_float(a: i128, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    // Truncates towards zero and saturates far beyond any 64-bit integer. What is left after the point is exact: a
    // double that large has nothing there, and a smaller one has its whole part exactly.
    let whole = b as i128;
    Some(a.cmp(&whole).then_with(|| 0.0_f64.partial_cmp(&(b - whole as f64)).unwrap_or(Ordering::Equal)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_floats_compare_exactly() {
        let big = (1_i64 << 53) + 1;
        #[expect(clippy::cast_precision_loss, reason = "that is the point")]
        let rounded = Number::Float(big as f64);
        assert_eq!(Number::Int(big).compare(rounded), Some(Ordering::Greater));
        assert_eq!(Number::UInt(u64::MAX).compare(Number::Float(18_446_744_073_709_551_616.0)), Some(Ordering::Less));
        assert_eq!(Number::Int(i64::MIN).compare(Number::Float(-9_223_372_036_854_775_808.0)), Some(Ordering::Equal));
        assert_eq!(Number::Int(-3).compare(Number::Float(-3.5)), Some(Ordering::Greater));
        assert_eq!(Number::UInt(u64::MAX).compare(Number::Float(f64::INFINITY)), Some(Ordering::Less));
        assert_eq!(Number::UInt(u64::MAX).compare(Number::Float(f64::NEG_INFINITY)), Some(Ordering::Greater));
        assert_eq!(Number::Int(0).compare(Number::Float(f64::NAN)), None);
        assert_eq!(Number::Int(-1).compare(Number::UInt(u64::MAX)), Some(Ordering::Less));
    }

    #[test]
    fn integer_results_stay_exact_until_no_integer_holds_them() {
        let (min, max) = (Number::Int(i64::MIN), Number::Int(i64::MAX));
        assert_eq!(max.calculate(Arithmetic::Add, Number::Int(1)), Some(Number::UInt(1 << 63)));
        assert_eq!(min.negate(), Number::UInt(1 << 63));
        assert_eq!(min.calculate(Arithmetic::Divide, Number::Int(-1)), Some(Number::UInt(1 << 63)));
        assert_eq!(Number::UInt(u64::MAX).negate(), Number::Float(-18_446_744_073_709_551_616.0));
        assert_eq!(min.calculate(Arithmetic::Divide, Number::Int(0)), None);
        let square = Number::UInt(u64::MAX).calculate(Arithmetic::Multiply, Number::UInt(u64::MAX));
        assert_eq!(square, Some(Number::Float(u64::MAX as f64 * u64::MAX as f64)));
    }
}
