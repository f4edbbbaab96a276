//! Output queue of one socket.
//!
//! Messages are gathered, and all that are due at the end of a round are written with one system call. Headers, replies and small bodies
//! are copied one behind the other into one buffer; a body of more than a few kilobytes is not copied but held until the socket has taken
//! it. Nothing here blocks: bytes that the socket does not take now stay queued, and the caller has the poll report when there is room.
//!
//! The buffer is the lane's ([`Spares`]): a connection has one only while something is due on it.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use engine::Event;

use crate::lane::io::stream::Stream;
#[cfg(test)]
use crate::simulation::{Break, goes_wrong};

/// Which bytes of an event are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// The bytes as they arrived.
    Native,
    /// The translation with this index.
    Alternate(usize),
}

impl Body {
    /// The selected bytes of an event.
    pub(crate) fn of(self, event: &Event) -> &[u8] {
        match self {
            Self::Native => &event.bytes,
            Self::Alternate(index) => event.alternates.get(index).map_or(&[], |alternate| &alternate.bytes),
        }
    }
}

/// Maximum body copied behind its header, in octets. Copying 64 octets costs a fifth less than pointing to them, copying 32 KB a seventh
/// more; in between no difference was found.
const COPIED_MAX: usize = 2 << 10;
/// Queued octets from which bodies of any size are pointed to. Behind a full socket a copy would not be counted, whereas the event's own
/// memory is in its channel's budget.
const COPIED_BYTES_MAX: usize = 256 << 10;
/// Minimum size of whole messages (administration's replies) that are not copied.
const OWN_SEGMENT_MIN: usize = 16 << 10;
/// Minimum of written bytes at the buffer's front that are moved out of it, if they are also more than those that wait.
const GONE_BYTES_MAX: usize = 64 << 10;
/// Maximum slices offered to one system call, if there are many.
const SLICES: usize = 256;

/// Bytes sent from where they lie, between the gathered bytes.
enum Contents {
    Event(Arc<Event>, Body),
    Bytes(Vec<u8>),
}

struct Segment {
    contents: Contents,
    /// Position in the gathered bytes before which this segment is sent.
    at: usize,
    /// Octets of the segment already written.
    from: usize,
}

impl Segment {
    fn rest(&self) -> &[u8] {
        let bytes = match &self.contents {
            Contents::Event(event, body) => body.of(event),
            Contents::Bytes(bytes) => bytes,
        };
        bytes.get(self.from..).unwrap_or_default()
    }
}

/// Output queue of one socket, in order.
#[derive(Default)]
pub(crate) struct Output {
    /// Gathered bytes, of which those before `from` are written.
    buffer: Vec<u8>,
    from: usize,
    segments: VecDeque<Segment>,
    /// Octets of the segments that wait, and those of events among them.
    segment_bytes: usize,
    event_bytes: usize,
    /// Total octets that the socket has taken.
    taken: u64,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Everything is written.
    All,
    /// The socket is full.
    Full,
    /// The budget is spent; the socket may take more.
    BudgetSpent,
}

/// Spare buffers of a lane, and written events that are to be released.
pub(crate) struct Spares {
    buffers: Vec<Vec<u8>>,
    /// Capacity of the spare buffers, in octets.
    bytes: usize,
    pub(crate) events: Vec<Arc<Event>>,
}

impl Default for Spares {
    fn default() -> Self {
        // None of these may grow on an event's path.
        let mut spares =
            Self { buffers: Vec::with_capacity(Self::COUNT), bytes: 0, events: Vec::with_capacity(Self::COUNT) };
        for _ in 0..Self::READY {
            spares.keep(Vec::with_capacity(Self::BUFFER_BYTES));
        }
        spares
    }
}

impl Spares {
    /// Initial places for buffers and for events.
    const COUNT: usize = 256;
    /// Maximum octets of all spare buffers, and of one of them.
    const BYTES_MAX: usize = 32 << 20;
    const BUFFER_BYTES_MAX: usize = 512 << 10;
    /// Octets of a new buffer, and the number of buffers at the start. Memory that is never written to is not used.
    const BUFFER_BYTES: usize = 64 << 10;
    const READY: usize = 32;

    /// An empty buffer.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        match self.buffers.pop() {
            Some(buffer) => {
                self.bytes -= buffer.capacity();
                buffer
            }
            None => Vec::with_capacity(Self::BUFFER_BYTES),
        }
    }

    /// Keeps a buffer that is not needed any more, if it has the usual size.
    pub(crate) fn keep(&mut self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if (Self::BUFFER_BYTES..=Self::BUFFER_BYTES_MAX).contains(&bytes) && self.bytes + bytes <= Self::BYTES_MAX {
            buffer.clear();
            self.bytes += bytes;
            self.buffers.push(buffer);
        }
    }
}

impl Output {
    /// Whether the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.queued_bytes() == 0
    }

    /// Octets in the queue.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.buffer.len() - self.from + self.segment_bytes
    }

    /// Octets in the queue that exist only here. Events are counted in their channels' budgets.
    #[inline]
    pub(crate) fn own_bytes(&self) -> usize {
        self.queued_bytes() - self.event_bytes
    }

    /// Octets written since the connection began.
    pub(crate) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Value that [`Output::taken`] reaches when all queued octets are written.
    pub(crate) fn end(&self) -> u64 {
        self.taken + self.queued_bytes() as u64
    }

    /// Provides a buffer of the lane's, if the queue has none.
    pub(crate) fn lend(&mut self, spares: &mut Spares) {
        if self.buffer.capacity() == 0 {
            self.buffer = spares.take();
        }
    }

    /// The buffer, to append a message, or only its head if its body follows with [`Output::push_event`].
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Queues an event's bytes. The event is returned if they were copied.
    pub(crate) fn push_event(&mut self, event: Arc<Event>, body: Body) -> Option<Arc<Event>> {
        let bytes = body.of(&event);
        let is_copied = bytes.len() <= COPIED_MAX && self.queued_bytes() < COPIED_BYTES_MAX;
        if is_copied || bytes.is_empty() {
            self.buffer.extend_from_slice(bytes);
            return Some(event);
        }
        self.segment_bytes += bytes.len();
        self.event_bytes += bytes.len();
        self.segments.push_back(Segment { contents: Contents::Event(event, body), at: self.buffer.len(), from: 0 });
        None
    }

    /// Queues a whole message, which is not copied if it is large.
    pub(crate) fn push_bytes(&mut self, bytes: Vec<u8>) {
        if bytes.len() < OWN_SEGMENT_MIN {
            return self.buffer.extend_from_slice(&bytes);
        }
        self.segment_bytes += bytes.len();
        self.segments.push_back(Segment { contents: Contents::Bytes(bytes), at: self.buffer.len(), from: 0 });
    }

    /// Writes as much as the socket takes, up to `bytes_max`. Written buffers and events are left in `spares`.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn flush(&mut self, stream: &mut Stream, spares: &mut Spares, bytes_max: usize) -> io::Result<Flushed> {
        let mut room = bytes_max;
        while !self.is_empty() {
            if room == 0 {
                return Ok(Flushed::BudgetSpent);
            }
            let (offered, result) = match self.segments.len() {
                0 => {
                    let rest = self.buffer.get(self.from..).unwrap_or_default();
                    let rest = rest.get(..room).unwrap_or(rest);
                    (rest.len(), stream.write(rest))
                }
                1..4 => self.write_slices::<8>(stream, room),
                _ => self.write_slices::<SLICES>(stream, room),
            };
            match result {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    #[cfg(test)]
                    let written = if goes_wrong(Break::LostRest) { offered } else { written };
                    self.consume(written, spares);
                    // A short write says that the socket is full: another would find the same.
                    if written < offered {
                        return Ok(Flushed::Full);
                    }
                    room -= written;
                }
                Err(error) if would_block(&error) => return Ok(Flushed::Full),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.tidy(spares);
        Ok(Flushed::All)
    }

    /// Offers the socket as many slices as fit into one system call. Returns how many octets were offered, and the result.
    fn write_slices<const COUNT: usize>(&self, stream: &mut Stream, room: usize) -> (usize, io::Result<usize>) {
        let mut slices = [IoSlice::new(&[]); COUNT];
        let (mut offered, mut count) = (0, 0);
        for (slice, bytes) in slices.iter_mut().zip(self.slices()) {
            if offered == room {
                break;
            }
            *slice = IoSlice::new(bytes.get(..room - offered).unwrap_or(bytes));
            offered += slice.len();
            count += 1;
        }
        (offered, stream.write_vectored(slices.get(..count).unwrap_or_default()))
    }

    /// Queued bytes, in order.
    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let last = self.segments.back().map_or(self.from, |segment| segment.at);
        let mut from = self.from;
        let segments = self.segments.iter().flat_map(move |segment| {
            let gathered = self.buffer.get(core::mem::replace(&mut from, segment.at)..segment.at).unwrap_or_default();
            [gathered, segment.rest()]
        });
        let behind = core::iter::once(self.buffer.get(last..).unwrap_or_default());
        segments.chain(behind).filter(|slice| !slice.is_empty())
    }

    /// Removes `written` octets from the queue.
    fn consume(&mut self, mut written: usize, spares: &mut Spares) {
        self.taken += written as u64;
        while let Some(segment) = self.segments.front_mut() {
            let gathered = written.min(segment.at - self.from);
            self.from += gathered;
            written -= gathered;
            let rest = segment.rest().len();
            // Nothing of the segment is written while gathered bytes are before it.
            let gone = written.min(rest);
            segment.from += gone;
            self.segment_bytes -= gone;
            if matches!(segment.contents, Contents::Event(..)) {
                self.event_bytes -= gone;
            }
            written -= gone;
            if gone < rest {
                return self.tidy(spares);
            }
            if let Some(Segment { contents: Contents::Event(event, _), .. }) = self.segments.pop_front() {
                spares.events.push(event);
            }
        }
        self.from += written;
        self.tidy(spares);
    }

    /// Returns the buffer to the spares if it is empty, or moves written bytes out of it if they are many.
    fn tidy(&mut self, spares: &mut Spares) {
        if self.is_empty() {
            self.from = 0;
            spares.keep(core::mem::take(&mut self.buffer));
        } else if self.from >= GONE_BYTES_MAX && self.from >= self.buffer.len() - self.from {
            self.buffer.drain(..self.from);
            for segment in &mut self.segments {
                segment.at -= self.from;
            }
            self.from = 0;
        }
    }

    /// Empties the queue of a broken connection.
    pub(crate) fn clear(&mut self, spares: &mut Spares) {
        self.consume(self.queued_bytes(), spares);
    }
}

/// Whether an error is only `WouldBlock`.
pub(crate) fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use testing::AcceptInTime;

    use super::*;

    /// Both ends of a connection, the first of which does not wait.
    fn connection() -> (Stream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        ours.set_nonblocking(true).unwrap();
        (ours.into(), listener.accept_in_time())
    }

    fn event(bytes: &[u8]) -> Arc<Event> {
        let mut event = Event::default();
        event.bytes = bytes.to_vec();
        Arc::new(event)
    }

    /// Adds messages of many sizes, and gives their bytes.
    fn gather(output: &mut Output) -> Vec<u8> {
        let mut all = Vec::new();
        for (size, number) in [0, 1, 100, COPIED_MAX, COPIED_MAX + 1, OWN_SEGMENT_MIN, 70_000, 3].into_iter().zip(1..) {
            let body = vec![number; size];
            output.bytes().extend_from_slice(b"head");
            all.extend_from_slice(b"head");
            let back = output.push_event(event(&body), Body::Native);
            assert_eq!(back.is_some(), size <= COPIED_MAX, "{size} octets");
            output.push_bytes(body.clone());
            all.extend_from_slice(&body);
            all.extend_from_slice(&body);
        }
        all
    }

    #[test]
    fn what_was_gathered_arrives_in_order_however_little_may_be_written_at_once() {
        for bytes_max in [1_000, 4_096, 65_536, usize::MAX] {
            let (mut ours, mut theirs) = connection();
            let (mut output, mut spares) = (Output::default(), Spares::default());
            let sent = gather(&mut output);
            assert_eq!((output.queued_bytes(), output.end()), (sent.len(), sent.len() as u64));
            let mut received = Vec::new();
            loop {
                let before = output.taken();
                let flushed = output.flush(&mut ours, &mut spares, bytes_max).unwrap();
                let written = usize::try_from(output.taken() - before).unwrap();
                assert!(written <= bytes_max);
                let at = received.len();
                received.resize(at + written, 0);
                theirs.read_exact(&mut received[at..]).unwrap();
                if flushed == Flushed::All {
                    break;
                }
            }
            assert!(received == sent, "{bytes_max} octets at once");
            assert_eq!((output.is_empty(), output.end()), (true, sent.len() as u64));
            assert_eq!(spares.events.len(), 3, "those that were not copied");
        }
    }

    #[test]
    fn behind_a_full_socket_bodies_are_not_copied_and_what_is_gone_takes_no_room() {
        let (mut ours, mut theirs) = connection();
        let (mut output, mut spares) = (Output::default(), Spares::default());
        let mut sent = Vec::new();
        let mut received = vec![0; 32 << 10];
        let (mut checked, mut pointed_to) = (0, 0);
        for number in (0..=u8::MAX).cycle().take(12_000) {
            let body = [number; 1_000];
            sent.extend_from_slice(&body);
            let is_copied = output.push_event(event(&body), Body::Native).is_some();
            output.flush(&mut ours, &mut spares, usize::MAX).unwrap();
            if !is_copied {
                pointed_to += 1;
                theirs.read_exact(&mut received[..900]).unwrap();
                assert!(received[..900] == sent[checked..checked + 900]);
                checked += 900;
            }
            assert!(output.buffer.len() <= COPIED_BYTES_MAX + 2 * GONE_BYTES_MAX + 1_000);
        }
        assert!(pointed_to > 1_000, "the socket was full");
        while checked < sent.len() {
            output.flush(&mut ours, &mut spares, usize::MAX).unwrap();
            let count = theirs.read(&mut received).unwrap();
            assert!(received[..count] == sent[checked..checked + count]);
            checked += count;
        }
    }

    #[test]
    fn an_empty_buffer_goes_back_to_the_lane_and_to_the_next_request() {
        let (mut ours, _theirs) = connection();
        let mut spares = Spares::default();
        let mut first = Output::default();
        first.lend(&mut spares);
        first.bytes().extend_from_slice(&[1; 3_000]);
        let memory = first.bytes().as_ptr();
        assert_eq!(first.flush(&mut ours, &mut spares, usize::MAX).unwrap(), Flushed::All);
        assert_eq!(first.bytes().capacity(), 0);
        let mut second = Output::default();
        second.lend(&mut spares);
        assert_eq!((second.bytes().as_ptr(), second.is_empty()), (memory, true));
        second.bytes().push(1);
        second.clear(&mut spares);
        assert_eq!((second.is_empty(), spares.buffers.len()), (true, Spares::READY));
    }
}
