//! How an octet chooses an encoding and a position.

use giop::cdr::{CharSet, Encoding, Endian, Version};

/// An encoding and a position modulo 8 from one octet.
pub fn chosen(octet: u8) -> (Encoding, usize) {
    let encoding = Encoding {
        endian: if octet & 1 == 0 { Endian::Big } else { Endian::Little },
        version: if octet & 2 == 0 { Version::V1_2 } else { Version::V1_1 },
        chars: if octet & 4 == 0 { CharSet::Latin1 } else { CharSet::Utf8 },
    };
    (encoding, usize::from(octet >> 3) & 7)
}
