//! HMAC-SHA256 (RFC 2104), by which datagrams are authenticated with a shared key.

use sha2::{Digest, Sha256};

/// Octets of a code.
pub(crate) const CODE_BYTES: usize = 32;
const BLOCK_BYTES: usize = 64;

/// A key, ready for use.
#[derive(Clone)]
pub(crate) struct Key {
    inner: Sha256,
    outer: Sha256,
}

impl Key {
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut block = [0; BLOCK_BYTES];
        if key.len() > BLOCK_BYTES {
            block.iter_mut().zip(Sha256::digest(key)).for_each(|(octet, of_key)| *octet = of_key);
        } else {
            block.iter_mut().zip(key).for_each(|(octet, of_key)| *octet = *of_key);
        }
        let padded = |pad: u8| Sha256::new_with_prefix(block.map(|octet| octet ^ pad));
        Self { inner: padded(0x36), outer: padded(0x5c) }
    }

    /// The code of some octets.
    pub(crate) fn code(&self, octets: &[u8]) -> [u8; CODE_BYTES] {
        let inner = self.inner.clone().chain_update(octets).finalize();
        self.outer.clone().chain_update(inner).finalize().into()
    }

    /// Whether a code is that of the octets, in a time that does not depend on it.
    pub(crate) fn verify(&self, octets: &[u8], code: &[u8; CODE_BYTES]) -> bool {
        self.code(octets).iter().zip(code).fold(0, |all, (one, other)| all | (one ^ other)) == 0
    }
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, 4.2, 4.3 and 4.7.
    #[test]
    fn codes_are_those_of_the_standard() {
        let hex = |code: [u8; CODE_BYTES]| code.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
        for (key, octets, code) in [
            (&[0x0b; 20][..], &b"Hi There"[..], "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            let key = Key::new(key);
            assert_eq!(hex(key.code(octets)), code);
            let mut wrong = key.code(octets);
            assert!(key.verify(octets, &wrong) && !key.verify(b"", &wrong));
            wrong[31] ^= 1;
            assert!(!key.verify(octets, &wrong));
        }
    }
}
