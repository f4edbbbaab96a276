//! Authentication codes of datagrams: HMAC-SHA256 (RFC 2104), its first 16 octets.

use core::fmt;

use sha2::{Digest, Sha256};

/// Length of a code in octets.
pub const CODE_BYTES: usize = 16;
/// Length in octets of a key that one side generates for the other.
pub const KEY_BYTES: usize = 32;

const BLOCK_BYTES: usize = 64;

/// A key, prepared for computing codes.
#[derive(Clone)]
pub struct Key {
    inner: Sha256,
    outer: Sha256,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Creates a key from octets of any length.
    #[must_use]
    pub fn new(octets: &[u8]) -> Self {
        let mut block = [0; BLOCK_BYTES];
        let hashed = Sha256::digest(octets);
        let octets = if octets.len() > BLOCK_BYTES { hashed.as_slice() } else { octets };
        block.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
        let padded = |pad: u8| Sha256::new_with_prefix(block.map(|octet| octet ^ pad));
        Self { inner: padded(0x36), outer: padded(0x5c) }
    }

    /// Derives the key that all holders of this one share for the purpose `about`.
    #[must_use]
    pub fn derive(&self, about: &[u8]) -> Self {
        Self::new(&self.whole(about))
    }

    /// Computes the code of the octets.
    #[must_use]
    pub fn code(&self, octets: &[u8]) -> [u8; CODE_BYTES] {
        let mut code = [0; CODE_BYTES];
        code.iter_mut().zip(self.whole(octets)).for_each(|(to, from)| *to = from);
        code
    }

    /// Whether `code` is the code of the octets. The comparison takes constant time.
    #[must_use]
    pub fn is_code(&self, octets: &[u8], code: &[u8]) -> bool {
        let differing = self.code(octets).iter().zip(code).fold(0, |all, (one, other)| all | (one ^ other));
        code.len() == CODE_BYTES && differing == 0
    }

    fn whole(&self, octets: &[u8]) -> [u8; 32] {
        let inner = self.inner.clone().chain_update(octets).finalize();
        self.outer.clone().chain_update(inner).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test cases 2 and 6.
    #[test]
    fn codes_are_those_of_the_standard_for_short_and_for_long_keys() {
        let code = Key::new(b"Jefe").code(b"what do ya want for nothing?");
        assert_eq!(
            code,
            [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7]
        );
        let code = Key::new(&[0xaa; 131]).code(b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(
            code,
            [0x60, 0xe4, 0x31, 0x59, 0x1e, 0xe0, 0xb6, 0x7f, 0x0d, 0x8a, 0x26, 0xaa, 0xcb, 0xf5, 0xb7, 0x7f]
        );
    }

    #[test]
    fn a_code_with_one_other_bit_or_another_length_is_none() {
        let key = Key::new(b"secret").derive(b"stream");
        let code = key.code(b"event");
        assert!(key.is_code(b"event", &code) && !key.is_code(b"evenu", &code));
        assert!(!key.is_code(b"event", &code[..15]) && !key.is_code(b"event", b""));
        for bit in 0..128 {
            let mut other = code;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.is_code(b"event", &other));
        }
    }
}
