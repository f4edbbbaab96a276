//! Tokens: secrets by which clients of JSON and HTTP authenticate themselves. Only their hashes are stored.

use core::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// Length of a token, in octets. A shorter one can be guessed, whatever is done about it.
const TOKEN_BYTES: core::ops::RangeInclusive<usize> = 16..=1_024;

/// The SHA-256 of a token.
#[must_use]
pub fn digest_of(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// The tokens of a service, as names with hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens(Vec<(Arc<str>, [u8; 32])>);

/// An invalid token, reported without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadToken {
    /// The token's name.
    pub name: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl fmt::Display for BadToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the token \"{}\" {}", self.name.escape_debug(), self.why)
    }
}

impl core::error::Error for BadToken {}

impl Tokens {
    /// Adds a token by its hash, in hexadecimal digits.
    ///
    /// # Errors
    /// The text is not a hash.
    pub fn add_hash(&mut self, name: &str, hexadecimal: &str) -> Result<(), BadToken> {
        let bad = || BadToken { name: name.to_owned(), why: "has no SHA-256, which is 64 hexadecimal digits" };
        let mut digest = [0; 32];
        let text = hexadecimal.as_bytes();
        if text.len() != 64 {
            return Err(bad());
        }
        for (octet, digits) in digest.iter_mut().zip(text.chunks_exact(2)) {
            let digits = core::str::from_utf8(digits).map_err(|_| bad())?;
            *octet = u8::from_str_radix(digits, 16).ok().filter(|_| !digits.contains('+')).ok_or_else(bad)?;
        }
        self.0.push((name.into(), digest));
        Ok(())
    }

    /// Adds a token by its text; surrounding white space is removed.
    ///
    /// # Errors
    /// It is too short, or too long.
    pub fn add(&mut self, name: &str, token: &[u8]) -> Result<(), BadToken> {
        let token = token.trim_ascii();
        if !TOKEN_BYTES.contains(&token.len()) {
            return Err(BadToken { name: name.to_owned(), why: "has 16 to 1,024 octets" });
        }
        self.0.push((name.into(), digest_of(token)));
        Ok(())
    }

    /// The name of a client's token. Takes the same time for every token, valid or not.
    #[must_use]
    pub fn find(&self, token: &[u8]) -> Option<&Arc<str>> {
        let shown = digest_of(token.get(..*TOKEN_BYTES.end()).unwrap_or(token));
        let mut found = usize::MAX;
        for (at, (_, digest)) in self.0.iter().enumerate() {
            let difference = digest.iter().zip(&shown).fold(0, |all, (one, other)| all | (one ^ other));
            // No branch: all ones if they are the same.
            let is_same = usize::from(core::hint::black_box(difference) == 0).wrapping_neg();
            found = (found & !is_same) | (at & is_same);
        }
        self.0.get(found).map(|(name, _)| name)
    }

    /// Whether there are no tokens.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
