//! One connection without its socket.

use crate::lines::Lines;
use crate::request::{self, Refused, Request};
use crate::shape;
use crate::strict;
use alloc::format;
use alloc::string::String;

/// Limits of a client's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Octets of a line, without its end.
    pub line_bytes_max: usize,
    /// Values and names in a line. Each costs some tens of octets and some hundred nanoseconds.
    pub values_max: usize,
    /// Nesting depth of values. The parser recurses to this depth.
    pub depth_max: usize,
}

impl Default for Limits {
    /// 256 KiB in a line, 16,384 values, 32 levels.
    fn default() -> Self {
        Self { line_bytes_max: 256 << 10, values_max: 16_384, depth_max: 32 }
    }
}

/// First octets of a CORBA message. A CORBA client waits for an answer and never sends the end of a line.
const CORBA: &[u8] = b"GIOP";
const NOT_FOR_CORBA: &str = "this port is for lines of JSON; CORBA clients have another one";

/// Result of reading from a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// A request.
    Request(Request),
    /// A line that is no valid request. It is answered, and the connection goes on.
    Refused(Refused),
    /// The client speaks another protocol, or its line exceeds the limit. The reason may be sent to it; then the caller ignores its input
    /// and closes the connection.
    End(String),
}

/// One connection without its socket: the retained input, and whether the client has shown that it speaks this protocol.
///
/// The rule that drives it: hand what was read to [`Session::next`] until that returns `None`. A caller that stops before hands
/// the rest to [`Session::keep`], and goes on later with empty input.
#[derive(Debug)]
pub struct Session {
    limits: Limits,
    lines: Lines,
    /// The client has sent a JSON object.
    is_client: bool,
    has_ended: bool,
}

impl Session {
    /// A new connection.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, lines: Lines::default(), is_client: false, has_ended: false }
    }

    /// Returns the meaning of the next line and advances `input` behind it; `None` when no whole line is left.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<Heard> {
        let Self { limits, lines, is_client, has_ended } = self;
        let heard = loop {
            if *has_ended {
                *input = &[];
                return None;
            }
            let (line, taken) = lines.next(input, limits.line_bytes_max);
            *input = input.get(taken..).unwrap_or_default();
            let Some(line) = line else {
                if *is_client || !lines.retained_begin_with(CORBA) {
                    return None;
                }
                break Heard::End(NOT_FOR_CORBA.into());
            };
            let heard = match line {
                Ok(line) if line.trim_ascii().is_empty() => None,
                Ok(line) => Some(read(line, limits, is_client)),
                Err(_) => Some(Heard::End(format!("a line has {} octets at most", limits.line_bytes_max))),
            };
            if let Some(heard) = heard {
                break heard;
            }
        };
        self.has_ended = matches!(heard, Heard::End(_));
        Some(heard)
    }

    /// Retains input that is handled later.
    pub fn keep(&mut self, input: &[u8]) {
        self.lines.keep(input);
    }

    /// Handles the end of input. Returns whether it ended within a line, which is discarded.
    pub fn end(&mut self) -> bool {
        self.has_ended = true;
        !core::mem::take(&mut self.lines).take_all().trim_ascii().is_empty()
    }

    /// Retained input, in octets.
    #[must_use]
    pub fn retained_bytes(&self) -> usize {
        self.lines.retained_bytes()
    }
}

/// Parses a line. The first one must be a JSON object: a web page can make a browser send anything behind the head of a request, and it
/// would otherwise be carried out in the name of the page's reader.
fn read(line: &[u8], limits: &Limits, is_client: &mut bool) -> Heard {
    // Some editors and languages put a byte order mark in front of UTF-8.
    let line = if *is_client { line } else { line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line) };
    if !*is_client && line.starts_with(CORBA) {
        return Heard::End(NOT_FOR_CORBA.into());
    }
    let parsed = match core::str::from_utf8(line) {
        Ok(text) => match shape::check(line, limits) {
            Ok(()) => strict::parse(text).map_err(|error| format!("the line is not JSON: {error}")),
            // What is too much may be JSON.
            Err(reason) if *is_client => Err(reason),
            Err(reason) => return Heard::End(reason),
        },
        Err(error) => Err(format!("the line is not UTF-8 from octet {} on", error.valid_up_to())),
    };
    match parsed {
        Ok(json @ serde_json::Value::Object(_)) => {
            *is_client = true;
            request::parse(json).map_or_else(Heard::Refused, Heard::Request)
        }
        Ok(json) if *is_client => request::parse(json).map_or_else(Heard::Refused, Heard::Request),
        Err(reason) if *is_client => Heard::Refused(Refused { id: None, reason }),
        Ok(_) => Heard::End("the first line is not a JSON object".into()),
        Err(reason) => Heard::End(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn hear(session: &mut Session, bytes: &[u8], piece: usize) -> Vec<Heard> {
        let mut all = Vec::new();
        for piece in bytes.chunks(piece) {
            let mut input = piece;
            while let Some(heard) = session.next(&mut input) {
                all.push(heard);
            }
            assert!(input.is_empty());
        }
        all
    }

    fn heard(bytes: &[u8]) -> Vec<Heard> {
        let whole = hear(&mut Session::new(Limits::default()), bytes, usize::MAX);
        for piece in 1..bytes.len().min(40) {
            assert_eq!(hear(&mut Session::new(Limits::default()), bytes, piece), whole, "in pieces of {piece}");
        }
        whole
    }

    const PING: &[u8] = b"{\"op\":\"ping\",\"id\":1}\n";

    fn pinged() -> Heard {
        Heard::Request(Request::Ping { id: 1 })
    }

    /// `campanile ls` at this port waited half a minute for an answer.
    #[test]
    fn a_client_of_corba_is_answered_before_its_line_ends() {
        let message = b"GIOP\x01\x02\x01\x00\x20\x00\x00\x00";
        for piece in 1..=message.len() {
            let heard = hear(&mut Session::new(Limits::default()), message, piece);
            assert!(matches!(heard.as_slice(), [Heard::End(why)] if why.contains("CORBA clients")), "{heard:?}");
        }
        // Behind a line of its own it is no beginning.
        let mut session = Session::new(Limits::default());
        assert_eq!(hear(&mut session, b"{\"op\":\"ping\",\"id\":1}\nGIOP", 5).len(), 1);
    }

    #[test]
    fn requests_come_in_lines_and_empty_lines_mean_nothing() {
        assert_eq!(heard(&[b"\r\n \n", PING, b"\n", b"{\"op\":\"ping\",\"id\":1}\r\n"].concat()), [pinged(), pinged()]);
        assert_eq!(heard(b"{\"op\":\"ping\",\"id\":1}"), [], "half a line");
    }

    /// A file that an editor had saved with a byte order mark was refused whole.
    #[test]
    fn a_byte_order_mark_in_front_of_the_first_line_is_passed_over() {
        let mark = "\u{feff}".as_bytes();
        assert_eq!(heard(&[mark, PING, PING].concat()), [pinged(), pinged()]);
        let later = heard(&[PING, mark, PING, PING].concat());
        assert!(matches!(&later[..], [_, Heard::Refused(_), last] if *last == pinged()), "{later:?}");
        assert!(matches!(heard(&[mark, b"garbage\n"].concat())[..], [Heard::End(_)]));
    }

    #[test]
    fn a_member_twice_and_a_number_beyond_64_bits_are_refused_with_their_path() {
        let refused = |line: &str| match heard(&[PING, line.as_bytes(), b"\n"].concat()).remove(1) {
            Heard::Refused(refused) => refused.reason,
            other => panic!("{line}: {other:?}"),
        };
        let twice = refused(r#"{"op":"publish","type":"A/B","fields":{"n":1,"n":2}}"#);
        assert!(twice.contains("`fields.n` is given twice"), "{twice}");
        let beyond = refused(r#"{"op":"publish","type":"A/B","body":{"n":18446744073709551616}}"#);
        assert!(beyond.contains("`body.n`: 18446744073709551616 is beyond the whole numbers"), "{beyond}");
    }

    #[test]
    fn half_a_line_is_known_at_the_end_and_done_with() {
        for cut in 0..=PING.len() {
            let mut session = Session::new(Limits::default());
            let whole = hear(&mut session, PING.get(..cut).unwrap(), usize::MAX);
            assert_eq!(whole.len(), usize::from(cut == PING.len()));
            assert_eq!(session.end(), (1..PING.len()).contains(&cut), "cut at {cut}");
            assert_eq!((session.end(), session.retained_bytes()), (false, 0));
            assert_eq!(hear(&mut session, PING, usize::MAX), []);
        }
        let mut session = Session::new(Limits::default());
        hear(&mut session, b" \r", usize::MAX);
        assert!(!session.end(), "nothing was said");
    }

    #[test]
    fn a_client_that_begins_with_anything_but_a_json_object_is_not_heard() {
        let post =
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\r\n{\"op\":\"ping\",\"id\":1}\n";
        for bytes in [&post[..], b"garbage\n", b"5\n", b"[{}]\n", b"GIOP\x01\x02\n", b"\xff\xfe\n", b"{\n", b"\"{}\"\n"]
        {
            let all = heard(&[bytes, PING].concat());
            assert!(matches!(all[..], [Heard::End(_)]), "{all:?}");
        }
    }

    #[test]
    fn garbage_behind_the_first_line_is_answered_and_the_connection_goes_on() {
        for garbage in
            [&b"garbage\n"[..], b"5\n", b"\xff\xfe\n", b"{\"op\":\"ping\"\n", b"{} {}\n", b"{\"op\":\"\xff\"}\n"]
        {
            let all = heard(&[PING, garbage, PING].concat());
            assert!(
                matches!(&all[1..], [Heard::Refused(Refused { id: None, .. }), last] if *last == pinged()),
                "{all:?}"
            );
        }
    }

    #[test]
    fn a_line_without_end_is_refused_early_and_nothing_behind_it_is_heard() {
        let mut session = Session::new(Limits::default());
        assert_eq!(hear(&mut session, PING, 100), [pinged()]);
        let piece = vec![b'x'; 4096];
        let mut sent = 0;
        loop {
            let told = hear(&mut session, &piece, usize::MAX);
            sent += piece.len();
            assert!(session.retained_bytes() <= Limits::default().line_bytes_max);
            if let [Heard::End(reason)] = &told[..] {
                assert!(reason.contains("262144 octets"), "{reason}");
                break;
            }
        }
        assert!(sent <= Limits::default().line_bytes_max + piece.len());
        assert_eq!(hear(&mut session, &[b"\n", PING].concat(), 100), []);
    }

    #[test]
    fn what_would_take_much_to_take_apart_is_refused_before() {
        let deep = |depth: usize| {
            ["{\"op\":\"publish\",\"type\":\"/\",\"body\":", &"[".repeat(depth), &"]".repeat(depth), "}\n"].concat()
        };
        let wide = |width: usize| {
            let numbers = vec!["1"; width].join(",");
            ["{\"op\":\"publish\",\"type\":\"/\",\"body\":[", &numbers, "]}\n"].concat()
        };
        let hear = |line: String| {
            hear(&mut Session::new(Limits::default()), &[PING, line.as_bytes()].concat(), 65_536).remove(1)
        };
        assert!(matches!(hear(deep(31)), Heard::Request(_)));
        assert!(matches!(hear(deep(32)), Heard::Refused(Refused { reason, .. }) if reason.contains("32 deep")));
        assert!(matches!(hear(deep(100_000)), Heard::Refused(_)));
        assert!(matches!(hear(wide(16_000)), Heard::Request(_)));
        assert!(matches!(hear(wide(17_000)), Heard::Refused(Refused { reason, .. }) if reason.contains("16384")));
    }

    /// Random bytes between two pings: reading them ends, and the pings are heard first and last.
    #[test]
    fn random_bytes_are_heard_to_their_end() {
        let words: [&[u8]; 14] = [
            b"{",
            b"}",
            b"[",
            b"]",
            b"\"",
            b":",
            b",",
            b"\n",
            b"\\u0000",
            b"op",
            b"publish",
            b"\xf0\x9f",
            b"1e999",
            b"null",
        ];
        for seed in 0..2_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut bytes = PING.to_vec();
            for _ in 0..random.usize(0..60) {
                bytes.extend_from_slice(words[random.usize(0..words.len())]);
            }
            bytes.push(b'\n');
            bytes.extend_from_slice(PING);
            let all = hear(&mut Session::new(Limits::default()), &bytes, random.usize(1..30));
            assert_eq!((all.first(), all.last()), (Some(&pinged()), Some(&pinged())), "seed {seed}");
        }
    }
}
