//! Frames of a WebSocket (RFC 6455) in, lines of JSON out, and the reverse: without a socket, and without a clock.
//!
//! tungstenite reads and writes the frames, on a [`Pipe`] as its stream, which never waits; so it is a state machine here. It refuses
//! violations of the protocol: frames without a mask, fragments that do not fit, control frames of more than 125 octets, text that is no
//! UTF-8; and messages that are too long, before they are kept. [`Progress`] adds whether a message is incomplete.
//!
//! A text message is a line. Line breaks within it become carriage returns, which JSON treats like line breaks, as white space or as an
//! error in strings: so no message is two lines. An incomplete line is sent in fragments, never buffered whole.

use std::io::{self, Cursor, Read, Write};

use hyper::body::Bytes;
use tungstenite::Error;
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame, FrameHeader};
use tungstenite::protocol::{Message, Role, WebSocketConfig, WebSocketContext};

/// Octets that tungstenite reads at once.
const READ_BYTES: usize = 4 << 10;
/// Maximum capacity of an empty queue, in octets.
const RETAINED_BYTES: usize = 64 << 10;

/// A WebSocket's state: see the module.
pub(crate) struct Frames {
    context: WebSocketContext,
    pipe: Pipe,
    progress: Progress,
    /// Received lines.
    lines: Queue,
    /// Whether a line has been partly sent.
    is_within_line: bool,
    end: Option<End>,
}

/// The reason why a WebSocket ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Either side has closed it.
    Closed,
    /// The client violated the protocol.
    Broken,
}

impl Frames {
    /// A server's state, with messages of at most so many octets.
    pub(crate) fn new(message_bytes_max: usize) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(0)
            .max_message_size(Some(message_bytes_max))
            .max_frame_size(Some(message_bytes_max));
        Self {
            context: WebSocketContext::new(Role::Server, Some(config)),
            pipe: Pipe::default(),
            progress: Progress::default(),
            lines: Queue::default(),
            is_within_line: false,
            end: None,
        }
    }

    /// Handles octets from the client.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.progress.pass(bytes);
        self.pipe.input.push(bytes);
        while self.end.is_none() {
            match self.context.read(&mut self.pipe) {
                Ok(Message::Text(text)) => {
                    let line = text.as_str().bytes().map(|octet| if octet == b'\n' { b'\r' } else { octet });
                    self.lines.bytes.extend(line.chain([b'\n']));
                }
                Ok(Message::Binary(_)) => self.refuse(CloseCode::Unsupported, "a message is text: a line of JSON"),
                // It answers pings, and the end, itself.
                Ok(_) => {}
                Err(Error::Io(_)) => return,
                Err(Error::ConnectionClosed | Error::AlreadyClosed) => self.end = Some(End::Closed),
                Err(Error::Capacity(_)) => self.refuse(CloseCode::Size, "a message is longer than json.line_bytes_max"),
                Err(Error::Utf8(_)) => self.refuse(CloseCode::Invalid, "a text message is UTF-8"),
                Err(error) => self.refuse(CloseCode::Protocol, &error.to_string()),
            }
        }
    }

    fn refuse(&mut self, code: CloseCode, why: &str) {
        self.close(code, why);
        self.end = Some(End::Broken);
    }

    /// Sends lines, or parts of them.
    pub(crate) fn send(&mut self, mut lines: &[u8]) {
        while !lines.is_empty() {
            let end = lines.iter().position(|octet| *octet == b'\n');
            let (part, rest) = lines.split_at(end.unwrap_or(lines.len()));
            let kind = if self.is_within_line { Data::Continue } else { Data::Text };
            self.write(Message::Frame(Frame::message(Bytes::copy_from_slice(part), OpCode::Data(kind), end.is_some())));
            self.is_within_line = end.is_none();
            lines = rest.get(1..).unwrap_or_default();
        }
    }

    /// Sends a ping.
    pub(crate) fn ping(&mut self) {
        self.write(Message::Ping(Bytes::new()));
    }

    fn write(&mut self, message: Message) {
        // It fails only after the end: the pipe takes everything.
        let _ = self.context.write(&mut self.pipe, message);
    }

    /// Sends a close frame.
    pub(crate) fn close(&mut self, code: CloseCode, why: &str) {
        let _ = self.context.close(&mut self.pipe, Some(CloseFrame { code, reason: why.into() }));
        self.end = Some(End::Closed);
    }

    /// The reason why it has ended, if it has; later input is ignored.
    pub(crate) const fn end(&self) -> Option<End> {
        self.end
    }

    /// Received lines, for the caller to take.
    pub(crate) const fn lines(&mut self) -> &mut Queue {
        &mut self.lines
    }

    /// Output for the client, for the caller to take.
    pub(crate) const fn output(&mut self) -> &mut Queue {
        &mut self.pipe.output
    }

    /// The number of the incomplete message, if there is one.
    pub(crate) fn under_way(&self) -> Option<u64> {
        self.progress.is_under_way().then_some(self.progress.complete)
    }
}

/// A queue of octets.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    bytes: Vec<u8>,
    taken: usize,
}

impl Queue {
    pub(crate) fn rest(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    pub(crate) fn take(&mut self, count: usize) {
        self.taken += count;
        if self.taken >= self.bytes.len() {
            self.taken = 0;
            if self.bytes.capacity() > RETAINED_BYTES { self.bytes = Vec::new() } else { self.bytes.clear() }
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

/// The stream of tungstenite: reading never blocks, and everything can be written.
#[derive(Debug, Default)]
struct Pipe {
    input: Queue,
    output: Queue,
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.input.rest().read(into)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => {
                self.input.take(count);
                Ok(count)
            }
        }
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Tracks the beginnings and ends of messages in received octets.
#[derive(Debug, Default)]
struct Progress {
    /// The beginning of a frame's header.
    header: Vec<u8>,
    /// Octets of the current frame still to come.
    rest: u64,
    /// Whether the message has more frames.
    is_fragmented: bool,
    /// Number of complete messages, control frames included.
    complete: u64,
}

impl Progress {
    fn pass(&mut self, mut bytes: &[u8]) {
        while let Some((first, behind)) = bytes.split_first() {
            if self.rest > 0 {
                let count = usize::try_from(self.rest).unwrap_or(usize::MAX).min(bytes.len());
                self.rest -= count as u64;
                bytes = bytes.get(count..).unwrap_or_default();
            } else {
                self.header.push(*first);
                bytes = behind;
                let Ok(Some((header, length))) = FrameHeader::parse(&mut Cursor::new(&self.header)) else { continue };
                self.header.clear();
                self.rest = length;
                if let OpCode::Data(_) = header.opcode {
                    self.is_fragmented = !header.is_final;
                }
            }
            self.complete += u64::from(!self.is_under_way());
        }
    }

    fn is_under_way(&self) -> bool {
        !self.header.is_empty() || self.rest > 0 || self.is_fragmented
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as a client writes it, masked unless `mask` is 0.
    fn frame(first: u8, payload: &[u8], mask: u8) -> Vec<u8> {
        let length = match payload.len() {
            short @ 0..126 => vec![u8::try_from(short).unwrap()],
            long @ 126..65_536 => [&[126][..], &u16::try_from(long).unwrap().to_be_bytes()].concat(),
            longest => [&[127][..], &(longest as u64).to_be_bytes()].concat(),
        };
        let mut frame = vec![first];
        frame.extend(&length);
        if mask != 0 {
            frame[1] |= 0x80;
            frame.extend([mask; 4]);
        }
        frame.extend(payload.iter().map(|octet| octet ^ mask));
        frame
    }

    fn text(payload: &[u8]) -> Vec<u8> {
        frame(0x81, payload, 0x5a)
    }

    /// The result of octets that arrive in chunks of this size: lines, output, how it ends, and whether a message is incomplete.
    fn heard(bytes: &[u8], at_once: usize, max: usize) -> (String, Vec<u8>, Option<End>, bool) {
        let mut frames = Frames::new(max);
        bytes.chunks(at_once).for_each(|chunk| frames.receive(chunk));
        let lines = String::from_utf8(frames.lines().rest().to_vec()).unwrap();
        (lines, frames.output().rest().to_vec(), frames.end(), frames.under_way().is_some())
    }

    #[test]
    fn messages_are_lines_however_they_arrive() {
        let long = format!("{{\"op\":\"{}\"}}", "x".repeat(70_000));
        let bytes = [
            text(b"{\"op\":\"ping\",\"id\":1}"),
            // In three frames, cut within a character, and a ping between two of them.
            frame(0x01, b"\"gr\xc3", 0x11),
            frame(0x89, b"there?", 0x22),
            frame(0x00, b"\xbc", 0x33),
            frame(0x80, b"n\"", 0x44),
            text(b"{\n\"a\":\r\n1}"),
            text(b""),
            text(long.as_bytes()),
            frame(0x8a, b"", 0x66),
        ]
        .concat();
        let expected = format!("{{\"op\":\"ping\",\"id\":1}}\n\"grün\"\n{{\r\"a\":\r\r1}}\n\n{long}\n");
        for at_once in [1, 2, 3, 7, 1_000, 4_096, bytes.len()] {
            let (lines, output, end, is_under_way) = heard(&bytes, at_once, 1 << 20);
            assert_eq!((lines.as_str(), end, is_under_way), (expected.as_str(), None, false), "{at_once} at once");
            assert_eq!(output, [&[0x8a, 6][..], b"there?"].concat(), "{at_once} at once");
        }
        let mut frames = Frames::new(1 << 20);
        frames.receive(&bytes);
        frames.receive(&bytes);
        assert_eq!(frames.progress.complete, 2 * 6, "the ping within a message is none of its own");
    }

    #[test]
    fn what_is_cut_anywhere_is_under_way_and_is_no_line() {
        for whole in [text(b"12345"), text(&[b'x'; 300]), [frame(0x01, b"a", 1), frame(0x80, b"b", 2)].concat()] {
            for cut in 1..whole.len() {
                let (lines, output, end, is_under_way) = heard(&whole[..cut], cut, 1_000);
                assert_eq!((lines.as_str(), output.len(), end, is_under_way), ("", 0, None, true), "{cut}");
            }
            assert!(!heard(&whole, 1, 1_000).3);
        }
    }

    #[test]
    fn what_may_not_come_ends_it_with_a_code() {
        let close = |code: u16| frame(0x88, &code.to_be_bytes(), 1);
        for (name, bytes, code) in [
            ("no mask", frame(0x81, b"{}", 0), 1002),
            ("octets", frame(0x82, b"{}", 1), 1003),
            ("octets in fragments", [frame(0x02, b"{", 1), frame(0x80, b"}", 1)].concat(), 1003),
            ("a reserved bit", frame(0xc1, b"{}", 1), 1002),
            ("an opcode that is none", frame(0x83, b"{}", 1), 1002),
            ("a control frame that is none", frame(0x8b, b"", 1), 1002),
            ("a long ping", frame(0x89, &[b'x'; 126], 1), 1002),
            ("a ping in fragments", frame(0x09, b"", 1), 1002),
            ("a fragment of nothing", frame(0x80, b"{}", 1), 1002),
            ("a message within another", [frame(0x01, b"{", 1), text(b"{}")].concat(), 1002),
            ("no UTF-8", text(b"\"\xff\""), 1007),
            ("too long", text(&[b' '; 1_001]), 1009),
            ("announced to be too long", text(&[b' '; 70_000])[..14].to_vec(), 1009),
            ("too long in fragments", [frame(0x01, &[b' '; 600], 1), frame(0x80, &[b' '; 401], 1)].concat(), 1009),
        ] {
            let (lines, output, end, _) = heard(&bytes, bytes.len(), 1_000);
            assert_eq!((lines.as_str(), end), ("", Some(End::Broken)), "{name}");
            assert_eq!((output[0], &output[2..4]), (0x88, &u16::to_be_bytes(code)[..]), "{name}: {output:?}");
        }
        for (name, bytes, answer) in [
            ("its end", close(1000), 1000),
            ("another end", close(1001), 1001),
            ("a code that is none", close(1), 1002),
        ] {
            let (lines, output, end, _) = heard(&[bytes, text(b"more")].concat(), 1, 1_000);
            assert_eq!((lines.as_str(), end), ("", Some(End::Closed)), "{name}");
            assert_eq!((output[0], &output[2..4]), (0x88, &u16::to_be_bytes(answer)[..]), "{name}: {output:?}");
        }
    }

    /// Ten thousand seeds of octets like frames: no panic, and at most a message and a chunk are buffered.
    #[test]
    fn whatever_comes_is_bounded() {
        let mut seed = 1_u64;
        let mut next = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u8::try_from(seed >> 56).unwrap()
        };
        for _ in 0..10_000 {
            let mut frames = Frames::new(64);
            let mut lines = 0;
            for _ in 0..8 {
                let payload: Vec<u8> = (0..next() % 70).map(|_| next() & 0x7f).collect();
                let first = [0x81, 0x01, 0x80, 0x00, 0x89, 0x8a, 0x88, next()][usize::from(next() % 8)];
                frames.receive(&frame(first, &payload, next()));
                lines += frames.lines().rest().len();
                let count = frames.lines().rest().len();
                frames.lines().take(count);
            }
            assert!(lines <= 8 * 70 && frames.output().rest().len() <= 8 * 127, "{lines}");
        }
    }

    #[test]
    fn lines_are_sent_as_they_come_and_an_end_says_why() {
        let mut frames = Frames::new(64);
        frames.send(b"one\ntw");
        frames.ping();
        frames.send(b"o\n");
        frames.send(b"\n");
        frames.close(CloseCode::Away, "gone");
        frames.send(b"never\n");
        let expected = [
            &[0x81, 3][..],
            b"one",
            &[0x01, 2],
            b"tw",
            &[0x89, 0],
            &[0x80, 1],
            b"o",
            &[0x81, 0],
            &[0x88, 6, 0x03, 0xe9],
            b"gone",
        ]
        .concat();
        assert_eq!(frames.output().rest(), expected);
        assert_eq!(frames.end(), Some(End::Closed));
    }
}
