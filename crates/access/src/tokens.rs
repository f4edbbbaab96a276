//! Tokens: secrets by which clients of JSON and HTTP authenticate themselves. Only their hashes are kept.

use core::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// Octets of a token, at most and at least. A short one can be guessed, whatever is done about it.
const TOKEN_BYTES: core::ops::RangeInclusive<usize> = 16..=1_024;

/// The SHA-256 of a token.
#[must_use]
pub fn digest_of(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// The tokens of a service: names and hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens(Vec<(Arc<str>, [u8; 32])>);

/// A token that makes no sense. Its text is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadToken {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: &'static str,
}

impl fmt::Display for BadToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the token \"{}\" {}", self.name.escape_debug(), self.why)
    }
}

impl core::error::Error for BadToken {}

impl Tokens {
    /// Adds one of which the hash is known, in hexadecimal digits.
    ///
    /// # Errors
    /// That is no hash.
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

    /// Adds one as it is; space around it does not count.
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

    /// The name of the token that a client shows. It takes as long whichever it is, and whether it is one.
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

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
