//! What waits to be written to one socket.
//!
//! Short bytes (headers, replies) are gathered in buffers that are used again; an event's body is not copied but held
//! until the socket has taken it. Nothing here ever waits: what the socket does not take now stays, and the caller asks to
//! be told when there is room.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::sync::Arc;

use engine::{Event, Want};
use giop::cdr::Encoding;

use super::system;
use crate::corba::event;

/// Which bytes of an event go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// As they arrived.
    Native,
    /// The translation with this index.
    Alternate(usize),
}

impl Body {
    /// The bytes a consumer gets, their encoding, and the position modulo 8 at which they must start. Nothing if the event
    /// could not be put into the form that the consumer takes.
    pub(crate) fn choose(event: &Event, want: Want) -> Option<(Self, Encoding, usize)> {
        if event::fits(event.form, event.tag, want) {
            return Some((Self::Native, sent_as(event.tag, want), event::phase_of(event.tag)));
        }
        let index = event.alternates.iter().position(|alternate| alternate.want == want)?;
        let tag = event.alternates.get(index)?.tag;
        Some((Self::Alternate(index), sent_as(tag, want), event::phase_of(tag)))
    }

    /// The bytes meant.
    pub(crate) fn of(self, event: &Event) -> &[u8] {
        match self {
            Self::Native => &event.bytes,
            Self::Alternate(index) => event.alternates.get(index).map_or(&[], |alternate| &alternate.bytes),
        }
    }
}

/// How a message is encoded that carries bytes of this tag to a consumer with this want.
fn sent_as(tag: u64, want: Want) -> Encoding {
    Encoding { version: event::version_of(want), ..event::encoding_of(tag) }
}

enum Segment {
    Bytes { bytes: Vec<u8>, from: usize },
    Event { event: Arc<Event>, body: Body, from: usize },
}

impl Segment {
    fn rest(&self) -> &[u8] {
        let (bytes, from) = match self {
            Self::Bytes { bytes, from } => (bytes.as_slice(), *from),
            Self::Event { event, body, from } => (body.of(event), *from),
        };
        bytes.get(from..).unwrap_or(&[])
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Bytes { from, .. } | Self::Event { from, .. } => *from += count,
        }
    }
}

/// The bytes and events due on one socket, in order.
#[derive(Default)]
pub(crate) struct Output {
    segments: VecDeque<Segment>,
    /// Bytes that the socket has taken.
    taken: u64,
    spare: Vec<Vec<u8>>,
}

/// Buffers kept for reuse by one connection, and the largest that is kept.
const SPARE_BUFFERS: usize = 4;
const SPARE_BYTES: usize = 16 << 10;
/// A gathered buffer is closed at this size, so that a burst of replies is written in pieces of reasonable size.
const GATHERED_BYTES: usize = 64 << 10;
/// Slices offered to one system call.
const SLICES: usize = 16;

impl Output {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Bytes that wait.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.rest().len()).sum()
    }

    /// How many bytes have gone before, counted from the first there ever was.
    pub(crate) const fn taken(&self) -> u64 {
        self.taken
    }

    /// What [`Output::taken`] will be when all that waits now is gone.
    pub(crate) fn end(&self) -> u64 {
        self.taken + self.queued_bytes() as u64
    }

    /// The buffer at the end, to which a message may be appended. A message of more than a few kilobytes belongs here only
    /// if it has no event to point to.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        let open = matches!(self.segments.back(), Some(Segment::Bytes { bytes, .. }) if bytes.len() < GATHERED_BYTES);
        if !open {
            let bytes = self.spare.pop().unwrap_or_default();
            self.segments.push_back(Segment::Bytes { bytes, from: 0 });
        }
        match self.segments.back_mut() {
            Some(Segment::Bytes { bytes, .. }) => bytes,
            _ => unreachable!("the last segment was just made one of bytes"),
        }
    }

    /// Adds a message, or nothing.
    pub(crate) fn add(&mut self, message: &[u8]) {
        if !message.is_empty() {
            self.bytes().extend_from_slice(message);
        }
    }

    /// Adds a message, or nothing: a large one as it is, without copying it.
    pub(crate) fn push_bytes(&mut self, message: Vec<u8>) {
        if message.len() > SPARE_BYTES {
            self.segments.push_back(Segment::Bytes { bytes: message, from: 0 });
        } else {
            self.add(&message);
        }
    }

    /// Adds the bytes of an event from `from` on.
    fn push_event(&mut self, event: Arc<Event>, body: Body, from: usize) {
        self.segments.push_back(Segment::Event { event, body, from });
    }

    /// Writes a header and an event's body behind it, at once where nothing else waits. What the socket does not take is
    /// kept. The event comes back if it is not needed any more.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) fn send(
        &mut self,
        stream: Option<&TcpStream>,
        head: &[u8],
        event: Arc<Event>,
        body: Body,
    ) -> io::Result<Option<Arc<Event>>> {
        let written = self.write_now(stream, head, body.of(&event))?;
        let total = head.len() + body.of(&event).len();
        if written == total {
            return Ok(Some(event));
        }
        if let Some(rest) = head.get(written..)
            && !rest.is_empty()
        {
            self.bytes().extend_from_slice(rest);
        }
        self.push_event(event, body, written.saturating_sub(head.len()));
        Ok(None)
    }

    /// Writes a header and a body behind it, at once where nothing else waits. What the socket does not take is copied.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) fn send_bytes(&mut self, stream: Option<&TcpStream>, head: &[u8], body: &[u8]) -> io::Result<()> {
        let written = self.write_now(stream, head, body)?;
        if written < head.len() + body.len() {
            let buffer = self.bytes();
            buffer.extend_from_slice(head.get(written..).unwrap_or_default());
            buffer.extend_from_slice(body.get(written.saturating_sub(head.len())..).unwrap_or_default());
        }
        Ok(())
    }

    /// Writes as much of a header and a body as the socket takes, where nothing else waits, and says how much that was.
    fn write_now(&mut self, stream: Option<&TcpStream>, head: &[u8], body: &[u8]) -> io::Result<usize> {
        let Some(stream) = stream.filter(|_| self.segments.is_empty()) else { return Ok(0) };
        let written = match system::write_vectored(stream, &[IoSlice::new(head), IoSlice::new(body)]) {
            Ok(written) => written,
            Err(error) if would_block(&error) || error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        self.taken += written as u64;
        Ok(written)
    }

    /// Writes as much as the socket takes and gives finished events to `done`. True when nothing is left.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) fn flush(&mut self, stream: &TcpStream, done: &mut Vec<Arc<Event>>) -> io::Result<bool> {
        self.flush_some(stream, done, usize::MAX)
    }

    /// As [`Output::flush`], but offers the socket `bytes_max` bytes at most, so that it takes no longer than those.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) fn flush_some(
        &mut self,
        stream: &TcpStream,
        done: &mut Vec<Arc<Event>>,
        bytes_max: usize,
    ) -> io::Result<bool> {
        let mut left = bytes_max;
        while !self.segments.is_empty() && left > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut offered = 0;
            let mut count = 0;
            for (slice, segment) in slices.iter_mut().zip(&self.segments) {
                let rest = segment.rest();
                let rest = rest.get(..left - offered).unwrap_or(rest);
                *slice = IoSlice::new(rest);
                offered += rest.len();
                count += 1;
                if offered == left {
                    break;
                }
            }
            let result = match slices.get(..count) {
                Some([only]) => system::write(stream, only),
                Some(several) => system::write_vectored(stream, several),
                None => return Ok(true),
            };
            match result {
                Ok(0) if offered > 0 => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    left -= written;
                    self.consume(written, done);
                    // A short write says that the socket is full: asking again would only be told so.
                    if written < offered {
                        return Ok(false);
                    }
                }
                Err(error) if would_block(&error) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.segments.is_empty())
    }

    fn consume(&mut self, mut written: usize, done: &mut Vec<Arc<Event>>) {
        self.taken += written as u64;
        while let Some(first) = self.segments.front_mut() {
            let rest = first.rest().len();
            if written < rest {
                first.advance(written);
                return;
            }
            written -= rest;
            if let Some(segment) = self.segments.pop_front() {
                self.retire(segment, done);
            }
        }
    }

    /// Drops everything, for a connection that is broken.
    pub(crate) fn clear(&mut self, done: &mut Vec<Arc<Event>>) {
        while let Some(segment) = self.segments.pop_front() {
            self.retire(segment, done);
        }
    }

    fn retire(&mut self, segment: Segment, done: &mut Vec<Arc<Event>>) {
        match segment {
            Segment::Bytes { mut bytes, .. } => {
                if self.spare.len() < SPARE_BUFFERS && bytes.capacity() <= SPARE_BYTES {
                    bytes.clear();
                    self.spare.push(bytes);
                }
            }
            Segment::Event { event, .. } => done.push(event),
        }
    }
}

/// Whether an error only says "not now".
pub(crate) fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
