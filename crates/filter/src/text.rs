//! Text in an event, compared without being copied.

use crate::constraint::Steps;
use core::cmp::Ordering;
use core::fmt;

/// Text in an event.
///
/// Two texts are equal if their characters are, whatever their encodings, and compare by their characters' numbers.
#[derive(Clone, Copy)]
pub struct Text<'f> {
    /// The bytes, without a terminating zero.
    pub bytes: &'f [u8],
    /// Encoding of the bytes.
    pub chars: Chars,
}

/// Encoding of characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chars {
    /// UTF-8. An invalid byte equals only the same byte.
    Utf8,
    /// ISO 8859-1, one byte a character.
    Latin1,
    /// UTF-16, the more significant byte first, without a byte order mark. An unpaired surrogate equals only itself.
    Utf16Be,
    /// UTF-16, the less significant byte first.
    Utf16Le,
}

impl Chars {
    /// Whether a character takes at least two bytes, so that bytes do not compare as characters do.
    pub(crate) const fn is_wide(self) -> bool {
        matches!(self, Self::Utf16Be | Self::Utf16Le)
    }
}

/// Number added to an invalid byte of UTF-8: beyond all characters.
const NOT_A_CHARACTER: u32 = 0x11_0000;

/// Bytes compared for one step.
const BYTES_PER_STEP: usize = 64;
/// Positions at which a substring is tried for one step.
const TRIES_PER_STEP: u32 = 16;

impl<'f> Text<'f> {
    /// The text of a string.
    #[must_use]
    pub fn new(text: &'f str) -> Self {
        Self { bytes: text.as_bytes(), chars: Chars::Utf8 }
    }

    /// Whether the text is the single character `c`.
    #[must_use]
    pub fn is_char(&self, c: char) -> bool {
        let mut characters = self.characters();
        characters.next() == Some(u32::from(c)) && characters.next().is_none()
    }

    /// The numbers of the text's characters.
    pub(crate) fn characters(&self) -> Characters<'f> {
        Characters { rest: self.bytes, chars: self.chars }
    }

    /// Steps to compare this with another text, beyond the one of the comparison itself.
    #[inline]
    pub(crate) fn steps(&self, other: &Text<'_>) -> u32 {
        steps_for(self.bytes.len().min(other.bytes.len()))
    }

    /// Whether this is a substring of `whole`; `None` if the steps are spent first.
    pub(crate) fn is_within(&self, whole: &Text<'_>, steps: &mut Steps) -> Option<bool> {
        if !steps.take(steps_for(whole.bytes.len())) {
            return None;
        }
        let Some(first) = self.bytes.first() else { return Some(true) };
        let is_wide = self.chars.is_wide() || whole.chars.is_wide();
        if is_wide || self.chars != whole.chars && !self.bytes.is_ascii() {
            return self.is_within_by_characters(whole, steps);
        }
        let mut tried: u32 = 0;
        for (at, byte) in whole.bytes.iter().enumerate() {
            if byte == first {
                tried += 1;
                let again = u32::from(tried.is_multiple_of(TRIES_PER_STEP));
                if !steps.take(again + steps_for(self.bytes.len())) {
                    return None;
                }
                if whole.bytes.get(at..).is_some_and(|rest| rest.starts_with(self.bytes)) {
                    return Some(true);
                }
            }
        }
        Some(false)
    }

    /// Whether this is a substring of `whole` in another encoding, so that bytes cannot be compared.
    fn is_within_by_characters(&self, whole: &Text<'_>, steps: &mut Steps) -> Option<bool> {
        let mut rest = whole.characters();
        let mut tried: u32 = 0;
        loop {
            tried += 1;
            if !steps.take(u32::from(tried.is_multiple_of(TRIES_PER_STEP)) + steps_for(self.bytes.len())) {
                return None;
            }
            let mut here = rest.clone();
            if self.characters().all(|c| here.next() == Some(c)) {
                return Some(true);
            }
            if rest.next().is_none() {
                return Some(false);
            }
        }
    }
}

fn steps_for(bytes: usize) -> u32 {
    u32::try_from(bytes / BYTES_PER_STEP).unwrap_or(u32::MAX)
}

impl PartialEq for Text<'_> {
    #[inline]
    fn eq(&self, other: &Text<'_>) -> bool {
        if self.chars == other.chars {
            return self.bytes == other.bytes;
        }
        if self.chars.is_wide() || other.chars.is_wide() {
            return self.characters().eq(other.characters());
        }
        let (latin1, utf8) = if self.chars == Chars::Latin1 { (self.bytes, other) } else { (other.bytes, self) };
        match utf8.bytes.len().cmp(&latin1.len()) {
            Ordering::Less => false,
            // As many bytes as characters: all of ASCII, where both encodings are the same.
            Ordering::Equal => utf8.bytes == latin1 && latin1.is_ascii(),
            Ordering::Greater => utf8.characters().eq(latin1.iter().map(|byte| u32::from(*byte))),
        }
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The order of UTF-8's bytes is the order of its characters.
        if self.chars == other.chars && !self.chars.is_wide() {
            self.bytes.cmp(other.bytes)
        } else {
            self.characters().cmp(other.characters())
        }
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        *self == Text::new(other)
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.characters().try_for_each(|c| write!(f, "{}", char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER)))
    }
}

/// The numbers of a text's characters.
#[derive(Clone)]
pub(crate) struct Characters<'f> {
    rest: &'f [u8],
    chars: Chars,
}

impl Characters<'_> {
    /// The next unit of UTF-16.
    fn unit(&mut self) -> Option<u16> {
        let (unit, rest) = self.rest.split_first_chunk::<2>()?;
        self.rest = rest;
        Some(if self.chars == Chars::Utf16Be { u16::from_be_bytes(*unit) } else { u16::from_le_bytes(*unit) })
    }

    /// The next character of UTF-16, or an unpaired surrogate.
    fn wide(&mut self) -> Option<u32> {
        let first = self.unit()?;
        let mut ahead = self.clone();
        let pair = [first, ahead.unit().unwrap_or(0)];
        if let Some(Ok(c)) = char::decode_utf16(pair).next() {
            if c.len_utf16() == 2 {
                *self = ahead;
            }
            return Some(u32::from(c));
        }
        Some(u32::from(first))
    }
}

impl Iterator for Characters<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.chars.is_wide() {
            return self.wide();
        }
        let first = *self.rest.first()?;
        let width = match first {
            0..=0x7F => 1,
            _ if self.chars == Chars::Latin1 => 1,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => 0,
        };
        let (number, width) = match self.rest.get(..width).map(core::str::from_utf8) {
            _ if width == 1 => (u32::from(first), 1),
            Some(Ok(valid)) if width > 0 => (valid.chars().next().map_or(NOT_A_CHARACTER, u32::from), width),
            _ => (NOT_A_CHARACTER + u32::from(first), 1),
        };
        self.rest = self.rest.get(width..).unwrap_or_default();
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATIN1: Text<'_> = Text { bytes: b"Br\xFCcke", chars: Chars::Latin1 };

    #[test]
    fn texts_compare_by_characters_across_encodings() {
        assert_eq!(LATIN1, Text::new("Brücke"));
        assert_ne!(LATIN1, Text::new("Brucke"));
        assert!(LATIN1 > Text::new("Brucke"));
        assert!(Text::new("Brücke") < Text { bytes: b"Br\xFD", chars: Chars::Latin1 });
        assert_eq!(Text { bytes: b"DV01", chars: Chars::Latin1 }, Text::new("DV01"));
        // The same bytes, other characters.
        assert_ne!(Text { bytes: "ü".as_bytes(), chars: Chars::Latin1 }, Text::new("ü"));
    }

    #[test]
    fn bytes_that_are_not_utf8_equal_only_themselves() {
        let broken = Text { bytes: b"a\xFFb", chars: Chars::Utf8 };
        assert_eq!(broken, broken);
        assert_ne!(broken, Text { bytes: b"a\xFFb", chars: Chars::Latin1 });
        assert_eq!(broken.characters().count(), 3);
    }

    #[test]
    fn wide_text_compares_by_characters() {
        let units = |text: &str, to_bytes: fn(u16) -> [u8; 2]| -> alloc::vec::Vec<u8> {
            text.encode_utf16().flat_map(to_bytes).collect()
        };
        let (big, little) = (units("a𝄞ü", u16::to_be_bytes), units("a𝄞ü", u16::to_le_bytes));
        let big = Text { bytes: &big, chars: Chars::Utf16Be };
        let little = Text { bytes: &little, chars: Chars::Utf16Le };
        for text in [big, little] {
            assert_eq!(text, Text::new("a𝄞ü"));
            assert_ne!(text, Text::new("a𝄞u"));
            assert!(text > Text::new("a\u{FFFD}") && text < Text::new("b"));
            let mut steps = Steps::new(1_000);
            assert_eq!(Text::new("𝄞").is_within(&text, &mut steps), Some(true));
            assert_eq!(text.is_within(&Text::new("da𝄞ü"), &mut steps), Some(true));
            assert_eq!(Text::new("\u{D4D}").is_within(&text, &mut steps), Some(false));
        }
        assert_eq!(big, little);
        // Half a pair, then a character; and a byte too many, which nothing hands in, ends the text.
        let half = Text { bytes: &[0xD8, 0x34, 0, b'x', 0], chars: Chars::Utf16Be };
        assert_eq!(half.characters().collect::<alloc::vec::Vec<_>>(), [0xD834, 0x78]);
        assert!(Text { bytes: &[0, b'x'], chars: Chars::Utf16Be }.is_char('x'));
    }

    #[test]
    fn substrings_are_found_across_encodings() {
        let mut steps = Steps::new(1_000);
        assert_eq!(Text::new("ück").is_within(&LATIN1, &mut steps), Some(true));
        assert_eq!(Text::new("cke").is_within(&LATIN1, &mut steps), Some(true));
        assert_eq!(Text::new("").is_within(&Text::new(""), &mut steps), Some(true));
        assert_eq!(Text::new("ö").is_within(&LATIN1, &mut steps), Some(false));
        assert_eq!(LATIN1.is_within(&Text::new("die Brücke"), &mut steps), Some(true));
    }

    #[test]
    fn a_search_that_would_take_long_is_cut() {
        let (needle, whole) = ([b'a'; 1_000], [b'a'; 100_000]);
        let needle = [&needle[..], b"b"].concat();
        let needle = Text { bytes: &needle, chars: Chars::Latin1 };
        let whole = Text { bytes: &whole, chars: Chars::Latin1 };
        assert_eq!(needle.is_within(&whole, &mut Steps::new(100_000)), None);
    }
}
