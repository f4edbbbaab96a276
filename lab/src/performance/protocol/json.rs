//! The service's own lines of JSON (`docs/json.md`).
//!
//! An event's payload is a text, its body; the stamp in it is written in hexadecimal digits. A publisher that wants acknowledgements gives
//! its requests an id, always the same one, as their answers come in order.

use super::{Acknowledged, Prepared, Publishing, Settings, Subscribing, broken};
use crate::BenchError;
use crate::wire::{STAMP_LEN, Stamp};

/// The answer to a request that was carried out.
const OK: &[u8] = b"{\"ok\":";

/// What stands before an event's payload in a line.
const BODY: &[u8] = b",\"body\":{\"type\":\"string\",\"value\":\"";

/// A publisher; what it sends to is the number of a channel.
#[derive(Debug)]
pub(super) struct JsonPublishing;

impl Publishing for JsonPublishing {
    fn message(&self, settings: &Settings<'_>) -> Prepared {
        let id = if settings.acknowledged { "\"id\":1," } else { "" };
        let channel = String::from_utf8_lossy(settings.target);
        let mut bytes =
            format!("{{\"op\":\"publish\",{id}\"channel\":{channel},\"type\":\"Bench/Small\",\"body\":\"").into_bytes();
        let payloads = vec![bytes.len()];
        bytes.extend((b'a'..=b'z').cycle().take(settings.payload_bytes.max(2 * STAMP_LEN)));
        bytes.extend_from_slice(b"\"}\n");
        Prepared { bytes, payloads, is_text: true, id: None }
    }

    fn acknowledged(&mut self, bytes: &[u8], _answers: &mut Vec<u8>) -> Result<Acknowledged, BenchError> {
        let mut found = Acknowledged::default();
        for line in whole_lines(bytes) {
            if !line.starts_with(OK) {
                return Err(said(line));
            }
            found.consumed += line.len();
            found.messages += 1;
        }
        Ok(found)
    }
}

/// Consumers that share a connection: each is a subscription of its own, which lines do not tell apart.
#[derive(Debug)]
pub(super) struct JsonSubscribing;

impl Subscribing for JsonSubscribing {
    fn greeting(&self, targets: &[Vec<u8>]) -> Vec<u8> {
        let subscribe = |(consumer, channel): (usize, &Vec<u8>)| {
            let channel = String::from_utf8_lossy(channel);
            format!("{{\"op\":\"subscribe\",\"id\":{consumer},\"channel\":{channel}}}\n")
        };
        targets.iter().enumerate().map(subscribe).collect::<String>().into_bytes()
    }

    fn take(
        &mut self,
        bytes: &[u8],
        _answers: &mut Vec<u8>,
        found: &mut dyn FnMut(usize, Stamp),
    ) -> Result<usize, BenchError> {
        let mut taken = 0;
        for line in whole_lines(bytes) {
            taken += line.len();
            if line.starts_with(OK) {
                continue;
            }
            if !line.starts_with(b"{\"event\":") {
                return Err(said(line));
            }
            let body = line.windows(BODY.len()).position(|window| window == BODY);
            let payload = body.and_then(|at| line.get(at + BODY.len()..));
            if let Some(stamp) = payload.and_then(read_digits).and_then(|octets| Stamp::read(&octets)) {
                found(0, stamp);
            }
        }
        Ok(taken)
    }
}

/// The lines that have come whole, with their ends.
fn whole_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|&octet| octet == b'\n').filter(|line| line.ends_with(b"\n"))
}

fn said(line: &[u8]) -> BenchError {
    broken(format!("said {}", String::from_utf8_lossy(line)))
}

/// Writes octets as hexadecimal digits over the beginning of `text`.
pub(in crate::performance) fn write_digits(octets: &[u8], text: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, octet) in text.chunks_exact_mut(2).zip(octets) {
        for (digit, value) in pair.iter_mut().zip([octet >> 4, octet & 15]) {
            *digit = DIGITS.get(usize::from(value)).copied().unwrap_or(b'0');
        }
    }
}

/// The stamp that `text` begins with, in digits.
fn read_digits(text: &[u8]) -> Option<[u8; STAMP_LEN]> {
    let mut octets = [0; STAMP_LEN];
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    for (octet, pair) in octets.iter_mut().zip(text.get(..2 * STAMP_LEN)?.as_chunks().0) {
        let [high, low] = *pair;
        *octet = value(high)? << 4 | value(low)?;
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Phase;

    const STAMP: Stamp = Stamp { sent: 1, due: u64::MAX, number: 3, supplier: 4, phase: Phase::Measured };

    fn message(acknowledged: bool) -> Prepared {
        let mut message = JsonPublishing.message(&Settings { target: b"7", payload_bytes: 128, acknowledged });
        let at = message.payloads[0];
        write_digits(&STAMP.to_bytes(), &mut message.bytes[at..]);
        message
    }

    #[test]
    fn a_message_is_a_request_with_the_stamp_in_its_body() {
        for acknowledged in [false, true] {
            let line: serde_json::Value = serde_json::from_slice(&message(acknowledged).bytes).unwrap();
            assert_eq!((&line["op"], &line["channel"]), (&"publish".into(), &7.into()));
            assert_eq!(line["id"].is_null(), !acknowledged);
            let body = line["body"].as_str().unwrap();
            assert_eq!(body.len(), 128);
            assert_eq!(Stamp::read(&read_digits(body.as_bytes()).unwrap()), Some(STAMP));
        }
    }

    #[test]
    fn a_subscriber_takes_what_is_whole_wherever_it_is_cut() {
        let message = message(false);
        let payload = String::from_utf8(message.bytes[message.payloads[0]..].to_vec()).unwrap();
        let payload = payload.split('"').next().unwrap();
        let event = format!(
            "{{\"event\":{{\"channel\":7,\"type\":\"Bench/Small\",\"name\":\"\",\"fields\":{{}},\"body\":{{\"type\":\"string\",\"value\":\"{payload}\"}}}}}}\n"
        );
        let bytes = format!("{{\"ok\":0}}\n{event}").into_bytes();
        for cut in 0..=bytes.len() {
            let mut found = Vec::new();
            let mut take = |bytes: &[u8]| {
                JsonSubscribing
                    .take(bytes, &mut Vec::new(), &mut |consumer, stamp| found.push((consumer, stamp)))
                    .unwrap()
            };
            let taken = take(&bytes[..cut]);
            assert_eq!(taken + take(&bytes[taken..]), bytes.len(), "cut at {cut}");
            assert_eq!(found, [(0, STAMP)]);
        }
    }

    #[test]
    fn counts_answers_and_tells_what_was_refused() {
        let found = JsonPublishing.acknowledged(b"{\"ok\":1}\n{\"ok\":1}\n{\"ok\"", &mut Vec::new()).unwrap();
        assert_eq!(found, Acknowledged { consumed: 18, messages: 2 });
        let refused = b"{\"error\":1,\"reason\":\"full\"}\n";
        let error = JsonPublishing.acknowledged(refused, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("full"), "{error}");
        assert!(JsonSubscribing.take(refused, &mut Vec::new(), &mut |_, _| ()).is_err());
    }
}
