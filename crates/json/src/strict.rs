//! Strict JSON: no duplicate member in an object, and no whole number that no integer type holds.
//!
//! Of duplicate members a parser takes the last, and a whole number from 2^64 on becomes the nearest double. Both silently lose data, so
//! both are errors here, with the path of the value.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use serde_json::Value as Json;

/// Reads a JSON text.
///
/// # Errors
/// The text is not valid JSON, has a duplicate member in an object, or a whole number below -2^63 or from 2^64 on.
pub fn parse(text: &str) -> Result<Json, String> {
    let json = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Scan { text, at: 0, open: Vec::new() }.check()?;
    Ok(json)
}

/// Maximum characters that an error quotes of a path, a name or a number.
const SHOWN_MAX: usize = 120;

/// An object or array that is open at the scan's position.
enum Open<'t> {
    Object {
        names: BTreeSet<Cow<'t, str>>,
        /// The name of the current member.
        name: Cow<'t, str>,
        /// Whether the next text is a member's name.
        is_named_next: bool,
    },
    Array {
        index: usize,
    },
}

/// A scan of text that is valid JSON.
struct Scan<'t> {
    text: &'t str,
    at: usize,
    open: Vec<Open<'t>>,
}

impl<'t> Scan<'t> {
    fn check(mut self) -> Result<(), String> {
        while let Some(octet) = self.text.as_bytes().get(self.at) {
            let begin = self.at;
            self.at += 1;
            match octet {
                b'{' => {
                    self.open.push(Open::Object {
                        names: BTreeSet::new(),
                        name: Cow::Borrowed(""),
                        is_named_next: true,
                    });
                }
                b'[' => self.open.push(Open::Array { index: 0 }),
                b'}' | b']' => _ = self.open.pop(),
                b',' => match self.open.last_mut() {
                    Some(Open::Object { is_named_next, .. }) => *is_named_next = true,
                    Some(Open::Array { index }) => *index += 1,
                    None => {}
                },
                b'"' => self.string(begin)?,
                b'-' | b'0'..=b'9' => self.number(begin)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Scans the string that opens with the quote at `begin`.
    fn string(&mut self, begin: usize) -> Result<(), String> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let mut is_escaped = false;
        let length = rest.iter().position(|octet| {
            let ends = *octet == b'"' && !is_escaped;
            is_escaped = *octet == b'\\' && !is_escaped;
            ends
        });
        self.at += length.map_or(rest.len(), |length| length + 1);
        let quoted = self.text.get(begin..self.at).unwrap_or_default();
        let Some(Open::Object { names, name, is_named_next: is_named_next @ true }) = self.open.last_mut() else {
            return Ok(());
        };
        *is_named_next = false;
        *name = match quoted.get(1..quoted.len().saturating_sub(1)).filter(|plain| !plain.contains('\\')) {
            Some(plain) => Cow::Borrowed(plain),
            None => Cow::Owned(serde_json::from_str(quoted).unwrap_or_default()),
        };
        if names.insert(name.clone()) { Ok(()) } else { Err(format!("`{}` is given twice", self.path())) }
    }

    /// Scans the number that begins at `begin`.
    fn number(&mut self, begin: usize) -> Result<(), String> {
        let rest = self.text.get(begin..).unwrap_or_default();
        let number =
            rest.split(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')).next().unwrap_or_default();
        self.at = begin + number.len().max(1);
        if is_beyond_integers(number) { Err(format!("`{}`: {}", self.path(), beyond_integers(number))) } else { Ok(()) }
    }

    /// Path of the scan's position: `fields.samples[3]`.
    fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.open {
            _ = match open {
                Open::Object { name, .. } if path.is_empty() => write!(path, "{name}"),
                Open::Object { name, .. } => write!(path, ".{name}"),
                Open::Array { index } => write!(path, "[{index}]"),
            };
        }
        shortened(&path)
    }
}

/// Whether a text is a whole number that neither `long long` nor `unsigned long long` holds.
pub(crate) fn is_beyond_integers(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_whole = !digits.is_empty() && digits.bytes().all(|octet| octet.is_ascii_digit());
    is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err()
}

/// The reason why such a number is refused.
pub(crate) fn beyond_integers(number: &str) -> String {
    let number = shortened(number);
    format!(
        "{number} is beyond the whole numbers of 64 bits; {number}.0 is the nearest double, \"{number}\" the digits as text"
    )
}

fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `{"n":1,"n":2}` the first value was dropped, and 2^64 arrived as 18446744073709552000, both without a word.
    #[test]
    fn what_a_parser_would_lose_is_refused_with_its_path() {
        for (text, says) in [
            (r#"{"n":1,"n":2}"#, "`n` is given twice"),
            (r#"{"fields":{"a":{"x":1,"y":2,"x":3}}}"#, "`fields.a.x` is given twice"),
            (r#"{"a":[{"b":1},{"b":1,"\u0062":2}]}"#, "`a[1].b` is given twice"),
            (r#"{"fields":{"n":[1,18446744073709551616]}}"#, "`fields.n[1]`: 18446744073709551616 is beyond"),
            ("-9223372036854775809", "``: -9223372036854775809 is beyond the whole numbers of 64 bits"),
            ("[1e400]", "number out of range"),
            ("{", "EOF"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
        let long = format!(r#"{{"{0}":1,"{0}":2}}"#, "x".repeat(10_000));
        assert!(parse(&long).unwrap_err().len() < 2 * SHOWN_MAX, "an error does not repeat all that was sent");
    }

    #[test]
    fn what_says_one_thing_is_read_as_any_parser_reads_it() {
        for text in [
            r#"{"a":{"n":1},"b":{"n":1},"n":[{"n":1},{"n":1}]}"#,
            r#"{"n":18446744073709551615,"m":-9223372036854775808,"d":18446744073709551616.0,"e":1e300,"f":-0}"#,
            r#"{"a\"b":1,"a\\":2,"a":"\",\"a\":3"}"#,
            r#"["n","n",{"n":"n"},"18446744073709551616"]"#,
            "null",
            " 5 ",
        ] {
            assert_eq!(parse(text).unwrap(), serde_json::from_str::<Json>(text).unwrap(), "{text}");
        }
    }
}
