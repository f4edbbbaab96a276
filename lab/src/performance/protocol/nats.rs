//! The text protocol of NATS (<https://docs.nats.io/reference/reference-protocols/nats-protocol>).
//!
//! A publisher sends `PUB subject size` and the payload; a subscriber gets `MSG subject sid size` and the payload. Where
//! acknowledgements are wanted, the connection is `verbose`: the server answers each line with `+OK`. That is the least that a core
//! NATS server promises: that it has taken the message.

use super::{Acknowledged, Prepared, Publishing, Settings, Subscribing, broken};
use crate::BenchError;
use crate::wire::{STAMP_LEN, Stamp};

/// What ends each line, and each payload.
const END: &[u8] = b"\r\n";

/// The longest line that a server sends; its `INFO` has some hundred octets.
const LINE_MAX: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct NatsPublishing {
    /// The first `+OK`, which answers the greeting, has come.
    greeted: bool,
}

impl Publishing for NatsPublishing {
    fn greeting(&self, settings: &Settings<'_>) -> Vec<u8> {
        connect(settings.acknowledged)
    }

    fn message(&self, settings: &Settings<'_>) -> Prepared {
        let payload: Vec<u8> = (0..=u8::MAX).cycle().take(settings.payload_bytes.max(STAMP_LEN)).collect();
        let mut bytes = [b"PUB ".as_slice(), settings.target].concat();
        bytes.extend_from_slice(format!(" {}\r\n", payload.len()).as_bytes());
        let payloads = vec![bytes.len()];
        bytes.extend_from_slice(&payload);
        bytes.extend_from_slice(END);
        Prepared { bytes, payloads, is_text: false, id: None }
    }

    fn acknowledged(&mut self, bytes: &[u8], answers: &mut Vec<u8>) -> Result<Acknowledged, BenchError> {
        let mut found = Acknowledged::default();
        while let Some(line) = line(bytes.get(found.consumed..).unwrap_or_default())? {
            found.consumed += line.len() + END.len();
            match line {
                b"+OK" if self.greeted => found.messages += 1,
                b"+OK" => self.greeted = true,
                _ => chore(line, answers)?,
            }
        }
        Ok(found)
    }
}

/// Consumers that share a connection: each is a subscription of its own.
#[derive(Debug)]
pub(super) struct NatsSubscribing;

impl Subscribing for NatsSubscribing {
    fn greeting(&self, targets: &[Vec<u8>]) -> Vec<u8> {
        let mut greeting = connect(false);
        for (consumer, subject) in targets.iter().enumerate() {
            greeting.extend_from_slice(b"SUB ");
            greeting.extend_from_slice(subject);
            greeting.extend_from_slice(format!(" {consumer}\r\n").as_bytes());
        }
        greeting
    }

    fn take(
        &mut self,
        bytes: &[u8],
        answers: &mut Vec<u8>,
        found: &mut dyn FnMut(usize, Stamp),
    ) -> Result<usize, BenchError> {
        let mut taken = 0;
        while let Some(line) = line(bytes.get(taken..).unwrap_or_default())? {
            let after = taken + line.len() + END.len();
            let Some(delivery) = line.strip_prefix(b"MSG ") else {
                chore(line, answers)?;
                taken = after;
                continue;
            };
            let (consumer, size) = delivery_of(delivery)?;
            let Some(message) = bytes.get(after..).and_then(|rest| rest.get(..size.checked_add(END.len())?)) else {
                break;
            };
            let Some(payload) = message.strip_suffix(END) else {
                return Err(broken("sent a payload of another size than it said"));
            };
            if let Some(stamp) = Stamp::read(payload) {
                found(consumer, stamp);
            }
            taken = after + message.len();
        }
        Ok(taken)
    }
}

/// What a client says first. `echo` concerns messages to oneself, of which there are none.
fn connect(verbose: bool) -> Vec<u8> {
    format!("CONNECT {{\"verbose\":{verbose},\"pedantic\":false,\"tls_required\":false,\"name\":\"bench\",\"lang\":\"rust\",\"version\":\"0\",\"protocol\":1,\"echo\":false}}\r\n")
        .into_bytes()
}

/// The line that `bytes` begins with, without its end, if all of it is there.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, BenchError> {
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) => {
            let line = bytes.get(..end).and_then(|line| line.strip_suffix(b"\r"));
            line.map(Some).ok_or_else(|| broken("ended a line with a line feed alone"))
        }
        None if bytes.len() > LINE_MAX => Err(broken("sent a line without end")),
        None => Ok(None),
    }
}

/// The consumer of a message, and how many octets, of `subject sid [reply-to] size`.
fn delivery_of(delivery: &[u8]) -> Result<(usize, usize), BenchError> {
    let mut words = delivery.split(|&byte| byte == b' ');
    let consumer = words.nth(1).and_then(number);
    let size = words.next_back().and_then(number);
    consumer.zip(size).ok_or_else(|| broken("sent a MSG that cannot be read"))
}

fn number(word: &[u8]) -> Option<usize> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// What is said beside messages: the server looks whether its client lives, and tells of itself.
fn chore(line: &[u8], answers: &mut Vec<u8>) -> Result<(), BenchError> {
    match line.split(|&byte| byte == b' ').next() {
        Some(b"PING") => answers.extend_from_slice(b"PONG\r\n"),
        Some(b"INFO" | b"PONG" | b"+OK") => {}
        _ => return Err(broken(format!("said {}", String::from_utf8_lossy(line)))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Phase;

    const STAMP: Stamp = Stamp { sent: 1, due: 2, number: 3, supplier: 4, phase: Phase::Measured };

    /// What a server sends to subscriber 7 for one event, behind what it says of itself.
    fn delivered() -> Vec<u8> {
        let mut bytes = b"INFO {\"max_payload\":1}\r\nPING\r\nMSG bench 7 34\r\n".to_vec();
        bytes.extend_from_slice(&STAMP.to_bytes());
        bytes.extend_from_slice(b"\r\n\r\n");
        bytes
    }

    #[test]
    fn a_message_says_its_size_and_where_its_payload_is() {
        let settings = Settings { target: b"bench", payload_bytes: 64, acknowledged: false };
        let message = NatsPublishing::default().message(&settings);
        assert!(message.bytes.starts_with(b"PUB bench 64\r\n\x00\x01"));
        assert!(message.bytes.ends_with(END));
        assert_eq!(message.bytes.len(), message.payloads[0] + 64 + END.len());
    }

    #[test]
    fn counts_acknowledgements_but_that_of_the_greeting() {
        let mut publishing = NatsPublishing::default();
        let settings = Settings { target: b"bench", payload_bytes: 64, acknowledged: true };
        assert!(String::from_utf8(publishing.greeting(&settings)).unwrap().contains("\"verbose\":true"));
        let mut answers = Vec::new();
        let found = publishing.acknowledged(b"INFO {}\r\n+OK\r\n+OK\r\nPING\r\n+OK\r\n+O", &mut answers).unwrap();
        assert_eq!(found, Acknowledged { consumed: 30, messages: 2 });
        assert_eq!(answers, b"PONG\r\n");
    }

    #[test]
    fn tells_what_a_server_complains_of() {
        let error = NatsPublishing::default().acknowledged(b"-ERR 'Unknown'\r\n", &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("-ERR 'Unknown'"), "{error}");
    }

    #[test]
    fn a_subscriber_takes_what_is_whole_wherever_it_is_cut() {
        let bytes = delivered();
        for cut in 0..=bytes.len() {
            let (mut found, mut answers) = (Vec::new(), Vec::new());
            let mut take = |bytes: &[u8]| {
                NatsSubscribing.take(bytes, &mut answers, &mut |consumer, stamp| found.push((consumer, stamp))).unwrap()
            };
            let taken = take(&bytes[..cut]);
            assert_eq!(taken + take(&bytes[taken..]), bytes.len(), "cut at {cut}");
            assert_eq!(found, [(7, STAMP)]);
            assert_eq!(answers, b"PONG\r\n");
        }
    }

    #[test]
    fn refuses_what_is_no_delivery() {
        for bytes in
            [b"MSG bench x 2\r\n".as_slice(), b"MSG bench\r\n", b"MSG b 0 2\r\nabc\r\n", b"MSG b 0 2\n", b"HELLO\r\n"]
        {
            let mut answers = Vec::new();
            assert!(NatsSubscribing.take(bytes, &mut answers, &mut |_, _| ()).is_err(), "{bytes:?}");
        }
    }
}
