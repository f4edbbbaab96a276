//! Names of clients: valid texts, and the service context that carries a name.

use crate::cdr::{Endian, Reader};
use crate::codeset::encapsulate;
use alloc::vec::Vec;
use core::fmt;

/// Maximum characters of a client's name.
pub const CHARS_MAX: usize = 64;

/// Error: a text is no name of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadClientName {
    /// The name has no characters, or only spaces.
    Empty,
    /// The name has more than [`CHARS_MAX`] characters.
    TooLong,
    /// The name has a control character, a line separator, or one that is invisible or changes the direction of the text around it.
    Unprintable(char),
    /// A service context that holds no UTF-8 string.
    Unreadable,
}

impl fmt::Display for BadClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a client's name is not empty"),
            Self::TooLong => write!(f, "a client's name has {CHARS_MAX} characters at most"),
            Self::Unprintable(c) => {
                write!(
                    f,
                    "a client's name has no control, invisible or direction characters, such as U+{:04X}",
                    u32::from(*c)
                )
            }
            Self::Unreadable => f.write_str("a client's name is a string of UTF-8"),
        }
    }
}

impl core::error::Error for BadClientName {}

/// Checks that a text can be a client's name.
///
/// # Errors
/// The reason why it cannot.
pub fn check(name: &str) -> Result<(), BadClientName> {
    if name.trim().is_empty() {
        return Err(BadClientName::Empty);
    }
    // Octets first: a long text is not looked through.
    if name.len() > 4 * CHARS_MAX || name.chars().count() > CHARS_MAX {
        return Err(BadClientName::TooLong);
    }
    unprintable(name).map_or(Ok(()), |c| Err(BadClientName::Unprintable(c)))
}

/// The first character that would make a name look like another one.
#[must_use]
pub fn unprintable(name: &str) -> Option<char> {
    name.chars().find(|c| is_unprintable(*c))
}

/// Whether a character would make a name look like another one: controls, line separators, invisible characters and those that change the
/// direction of text.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}'
        )
}

/// Data of the service context [`crate::message::ServiceContexts::CLIENT_NAME`].
#[must_use]
pub fn context(name: &str) -> Vec<u8> {
    encapsulate(Endian::Big, |w| w.string_bytes(name.as_bytes()))
}

/// Reads the data of a client name context.
///
/// # Errors
/// The data has no valid name.
pub fn parse_context(data: &[u8]) -> Result<&str, BadClientName> {
    let bytes = Reader::over_encapsulation(data).and_then(|mut r| r.string()).map_err(|_| BadClientName::Unreadable)?;
    let name = core::str::from_utf8(bytes).map_err(|_| BadClientName::Unreadable)?;
    check(name).map(|()| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_shows_as_it_is() {
        let (longest, long) = ("é".repeat(CHARS_MAX), "x".repeat(CHARS_MAX + 1));
        for (name, verdict) in [
            ("archive", Ok(())),
            ("mount@host 7", Ok(())),
            ("אבג", Ok(())),
            (&longest, Ok(())),
            ("", Err(BadClientName::Empty)),
            (" ", Err(BadClientName::Empty)),
            (&long, Err(BadClientName::TooLong)),
            (&"x".repeat(10 << 10), Err(BadClientName::TooLong)),
            ("a\nb", Err(BadClientName::Unprintable('\n'))),
            ("a\u{1b}[2J", Err(BadClientName::Unprintable('\u{1b}'))),
            ("evil\u{202e}txt", Err(BadClientName::Unprintable('\u{202e}'))),
            ("zero\u{200b}width", Err(BadClientName::Unprintable('\u{200b}'))),
            ("line\u{2028}", Err(BadClientName::Unprintable('\u{2028}'))),
        ] {
            assert_eq!(check(name), verdict, "{name:?}");
            // A context says the same, but for a string that CDR cannot hold.
            assert_eq!(parse_context(&context(name)).map(|read| assert_eq!(read, name)), verdict, "{name:?}");
        }
    }

    #[test]
    fn a_context_without_a_string_is_refused() {
        let latin1 = encapsulate(Endian::Little, |w| w.string_bytes(b"caf\xe9"));
        for data in [&b""[..], b"\x01", b"\0\0\0\0\xff\xff\xff\xff", &latin1] {
            assert_eq!(parse_context(data), Err(BadClientName::Unreadable), "{data:?}");
        }
    }
}
