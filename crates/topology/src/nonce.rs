//! Random numbers in object keys as JSON: text of 32 hexadecimal digits, since not every JSON parser supports 128
//! bits; a number if 32 bits are enough, as in files written when keys had no more.

use core::fmt;
use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(nonce: &u128, serializer: S) -> Result<S::Ok, S::Error> {
    match u32::try_from(*nonce) {
        Ok(small) => serializer.serialize_u32(small),
        Err(_) => serializer.collect_str(&format_args!("{nonce:032x}")),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
    deserializer.deserialize_any(Reading)
}

struct Reading;

impl Visitor<'_> for Reading {
    type Value = u128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of 32 bits, or 32 hexadecimal digits as text")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u128, E> {
        let small = u32::try_from(number).map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(number), &self));
        small.map(u128::from)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u128, E> {
        let is_hexadecimal = text.len() == 32 && text.bytes().all(|octet| octet.is_ascii_hexdigit());
        let read = is_hexadecimal.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        read.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Stored {
        #[serde(with = "super")]
        nonce: u128,
    }

    /// Files that were written when a nonce had 32 bits have a number there.
    #[test]
    fn small_ones_are_numbers_as_they_were_and_all_others_are_text() {
        let text = |digits: &str| format!(r#"{{"nonce":"{digits}"}}"#);
        for (nonce, json) in [
            (0, r#"{"nonce":0}"#.to_owned()),
            (u128::from(u32::MAX), r#"{"nonce":4294967295}"#.to_owned()),
            (1 << 32, text("00000000000000000000000100000000")),
            (u128::MAX - 1, text("fffffffffffffffffffffffffffffffe")),
        ] {
            assert_eq!(serde_json::to_string(&Stored { nonce }).unwrap(), json);
            assert_eq!(serde_json::from_str::<Stored>(&json).unwrap(), Stored { nonce });
        }
    }

    #[test]
    fn what_is_no_nonce_is_refused() {
        for wrong in ["4294967296", "-1", "1.5", "null", r#""77""#, r#""+0000000000000000000000100000000""#, r#""x""#] {
            assert!(serde_json::from_str::<Stored>(&format!(r#"{{"nonce":{wrong}}}"#)).is_err(), "{wrong}");
        }
    }
}
