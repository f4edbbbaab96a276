//! Characters as they lie in an event, compared without being copied.

use crate::constraint::Steps;
use core::cmp::Ordering;
use core::fmt;

/// Characters as they lie in the event.
///
/// Two texts are equal if their characters are, whatever their encodings, and compare by their characters' numbers.
#[derive(Clone, Copy)]
pub struct Text<'f> {
    /// The bytes, without a terminating zero.
    pub bytes: &'f [u8],
    /// ISO 8859-1, one byte a character; otherwise UTF-8. A byte that is not UTF-8 equals no character but itself.
    pub latin1: bool,
}

/// What a byte that is not UTF-8 counts as: beyond the characters.
const NOT_A_CHARACTER: u32 = 0x11_0000;

/// Bytes looked at for one step.
const BYTES_PER_STEP: usize = 64;

impl<'f> Text<'f> {
    /// The text of a string.
    #[must_use]
    pub fn new(text: &'f str) -> Self {
        Self { bytes: text.as_bytes(), latin1: false }
    }

    /// Whether this is the one character `c`.
    #[must_use]
    pub fn is_char(&self, c: char) -> bool {
        let mut characters = self.characters();
        characters.next() == Some(u32::from(c)) && characters.next().is_none()
    }

    /// The characters' numbers.
    pub(crate) fn characters(&self) -> Characters<'f> {
        Characters { rest: self.bytes, latin1: self.latin1 }
    }

    /// What it costs to compare this with another text, beyond the one step of the comparison.
    #[inline]
    pub(crate) fn steps(&self, other: &Text<'_>) -> u32 {
        steps_for(self.bytes.len().min(other.bytes.len()))
    }

    /// Whether this is a part of `whole`; `None` if the steps are spent first.
    pub(crate) fn is_within(&self, whole: &Text<'_>, steps: &mut Steps) -> Option<bool> {
        if !steps.take(steps_for(whole.bytes.len())) {
            return None;
        }
        let Some(first) = self.bytes.first() else { return Some(true) };
        if self.latin1 != whole.latin1 && !self.bytes.is_ascii() {
            return self.is_within_by_characters(whole, steps);
        }
        let each = 1 + steps_for(self.bytes.len());
        for (at, byte) in whole.bytes.iter().enumerate() {
            if byte == first {
                if !steps.take(each) {
                    return None;
                }
                if whole.bytes.get(at..).is_some_and(|rest| rest.starts_with(self.bytes)) {
                    return Some(true);
                }
            }
        }
        Some(false)
    }

    /// The same for different encodings, where the bytes cannot be compared.
    fn is_within_by_characters(&self, whole: &Text<'_>, steps: &mut Steps) -> Option<bool> {
        let mut rest = whole.characters();
        loop {
            if !steps.take(1 + steps_for(self.bytes.len())) {
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
        if self.latin1 == other.latin1 {
            return self.bytes == other.bytes;
        }
        let (latin1, utf8) = if self.latin1 { (self.bytes, other) } else { (other.bytes, self) };
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
        if self.latin1 == other.latin1 {
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
    latin1: bool,
}

impl Iterator for Characters<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let first = *self.rest.first()?;
        let width = match first {
            0..=0x7F => 1,
            _ if self.latin1 => 1,
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

    const LATIN1: Text<'_> = Text { bytes: b"Br\xFCcke", latin1: true };

    #[test]
    fn texts_compare_by_characters_across_encodings() {
        assert_eq!(LATIN1, Text::new("Brücke"));
        assert_ne!(LATIN1, Text::new("Brucke"));
        assert!(LATIN1 > Text::new("Brucke"));
        assert!(Text::new("Brücke") < Text { bytes: b"Br\xFD", latin1: true });
        assert_eq!(Text { bytes: b"DV01", latin1: true }, Text::new("DV01"));
        // The same bytes, other characters.
        assert_ne!(Text { bytes: "ü".as_bytes(), latin1: true }, Text::new("ü"));
    }

    #[test]
    fn bytes_that_are_not_utf8_equal_only_themselves() {
        let broken = Text { bytes: b"a\xFFb", latin1: false };
        assert_eq!(broken, broken);
        assert_ne!(broken, Text { bytes: b"a\xFFb", latin1: true });
        assert_eq!(broken.characters().count(), 3);
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
        let needle = Text { bytes: &needle, latin1: true };
        let whole = Text { bytes: &whole, latin1: true };
        assert_eq!(needle.is_within(&whole, &mut Steps::new(100_000)), None);
    }
}
