//! Values by which events are correlated, as one key: equal values have equal octets, whatever their types.

use crate::value::Value;

/// The values that an event has at the paths after `same`, in a form that compares octet by octet.
///
/// Two events have equal keys if their values are [equal](Value::equals), one by one, with one exception: an enumeration value is its
/// name here, and so never the same as a number. Without `same` all events have the empty key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key {
    len: u8,
    bytes: [u8; Self::BYTES_MAX],
}

/// First octet of a value.
const FALSE: u8 = 0;
const TRUE: u8 = 1;
const INTEGER: u8 = 2;
const FRACTION: u8 = 3;
const TEXT: u8 = 4;

impl Key {
    /// Longest key, in octets. A truth value takes 1, a number 9 or 17, and a text 2 and one for each character of ASCII, up to five for
    /// others.
    pub const BYTES_MAX: usize = 96;

    /// The key of all events where none are told apart.
    pub const EMPTY: Self = Self { len: 0, bytes: [0; Self::BYTES_MAX] };

    /// The octets of the key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Appends a value. `None` if it has no key: it is no truth value, number, text or enumeration value, it is not a number (NaN), or the
    /// key becomes too long.
    pub(crate) fn push(&mut self, value: &Value<'_>) -> Option<()> {
        match value {
            Value::Bool(value) => self.put(&[if *value { TRUE } else { FALSE }]),
            Value::Int(value) => self.put_integer(i128::from(*value)),
            Value::UInt(value) => self.put_integer(i128::from(*value)),
            Value::Float(value) => self.put_float(*value),
            Value::Char(c) => self.put_text(core::iter::once(u32::from(*c))),
            Value::Text(text) | Value::Enum { name: text, .. } => self.put_text(text.characters()),
            Value::Composite => None,
        }
    }

    fn put(&mut self, octets: &[u8]) -> Option<()> {
        let from = usize::from(self.len);
        let to = from + octets.len();
        self.bytes.get_mut(from..to)?.copy_from_slice(octets);
        self.len = u8::try_from(to).ok()?;
        Some(())
    }

    fn put_integer(&mut self, value: i128) -> Option<()> {
        self.put(&[INTEGER])?;
        self.put(&value.to_be_bytes())
    }

    /// Appends a float: as an integer if it equals one.
    fn put_float(&mut self, value: f64) -> Option<()> {
        if value.is_nan() {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a fraction is what is asked about, and the range is checked"
        )]
        let whole = value as i128;
        if value.abs() < 1e30 && whole as f64 == value {
            return self.put_integer(whole);
        }
        self.put(&[FRACTION])?;
        self.put(&value.to_bits().to_be_bytes())
    }

    fn put_text(&mut self, characters: impl Iterator<Item = u32>) -> Option<()> {
        self.put(&[TEXT, 0])?;
        let from = usize::from(self.len);
        for mut rest in characters {
            while rest >= 0x80 {
                self.put(&[0x80 | rest.to_le_bytes()[0]])?;
                rest >>= 7;
            }
            self.put(&[rest.to_le_bytes()[0]])?;
        }
        // The number of octets comes first, so that no text with what follows it is equal to a longer text.
        let octets = u8::try_from(usize::from(self.len) - from).ok()?;
        *self.bytes.get_mut(from - 1)? = octets;
        Some(())
    }
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Key").field(&self.as_bytes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Chars, Text};
    use alloc::format;

    fn key(values: &[Value<'_>]) -> Option<Key> {
        let mut key = Key::EMPTY;
        values.iter().try_for_each(|value| key.push(value))?;
        Some(key)
    }

    fn wide(bytes: &[u8]) -> Value<'_> {
        Value::Text(Text { bytes, chars: Chars::Utf16Be })
    }

    fn text(text: &str) -> Value<'_> {
        Value::Text(Text::new(text))
    }

    #[test]
    fn values_have_one_key_exactly_if_they_are_equal() {
        let up = Value::Enum { ordinal: 1, name: Text::new("UP") };
        let values = [
            Value::Bool(false),
            Value::Bool(true),
            Value::Int(0),
            Value::UInt(0),
            Value::Float(-0.0),
            Value::Float(0.0),
            Value::Int(1),
            Value::Float(1.0),
            Value::Float(1.5),
            Value::Int(-1),
            Value::Float(-1.0),
            Value::Int(i64::MAX),
            Value::UInt(i64::MAX as u64 + 1),
            Value::Float(9_223_372_036_854_775_808.0),
            Value::UInt(u64::MAX),
            Value::Float(18_446_744_073_709_551_616.0),
            Value::Int(9_007_199_254_740_993),
            Value::Float(9_007_199_254_740_992.0),
            Value::Float(f64::INFINITY),
            Value::Float(1e300),
            Value::Char('a'),
            text("a"),
            text("ab"),
            text(""),
            text("UP"),
            text("ü"),
            wide(&[0, 0xFC]),
            wide(&[0, b'a']),
            Value::Text(Text { bytes: &[0xFC], chars: Chars::Latin1 }),
            up,
        ];
        for a in &values {
            for b in &values {
                let numbered = |value: &Value<'_>| matches!(value, Value::Enum { .. });
                let is_number = |value: &Value<'_>| matches!(value, Value::Int(_) | Value::UInt(_) | Value::Float(_));
                if numbered(a) && is_number(b) || numbered(b) && is_number(a) {
                    continue;
                }
                assert_eq!(key(&[*a]) == key(&[*b]), a.equals(b) == Some(true), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn several_values_do_not_run_together() {
        assert_ne!(key(&[text("a"), text("bc")]), key(&[text("ab"), text("c")]));
        assert_ne!(key(&[text(""), text("a")]), key(&[text("a"), text("")]));
        assert_ne!(key(&[text("a\u{4}\u{1}b")]), key(&[text("a"), text("b")]));
        assert_eq!(key(&[text("a"), Value::Int(2)]), key(&[Value::Char('a'), Value::Float(2.0)]));
        assert_eq!(key(&[]), Some(Key::EMPTY));
    }

    #[test]
    fn what_equals_nothing_or_is_too_long_has_no_key() {
        assert_eq!(key(&[Value::Float(f64::NAN)]), None);
        assert_eq!(key(&[Value::Composite]), None);
        let long = "x".repeat(Key::BYTES_MAX - 2);
        assert!(key(&[text(&long)]).is_some_and(|key| key.as_bytes().len() == Key::BYTES_MAX));
        assert_eq!(key(&[text(&long), Value::Bool(true)]), None);
        assert_eq!(key(&[text(&format!("{long}x"))]), None);
    }
}
