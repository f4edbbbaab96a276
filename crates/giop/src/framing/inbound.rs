//! The receive buffer, and the messages in it.

use super::fragments::{Assembly, Fragments};
use super::{Limits, ProtocolError};
use crate::message::{CancelRequest, Header, HeaderError, MAGIC, MessageKind};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// Free octets below which the rest of a message is moved to the front of the buffer before reading.
const READ_MIN: usize = 4 << 10;

/// Maximum octets of an incomplete message that are copied to a small buffer of the connection when the borrowed buffer is reclaimed. The
/// small buffer stays, so that nothing is allocated the next time.
const REST_BYTES: usize = 4 << 10;

/// The least such a buffer takes.
const REST_BYTES_MIN: usize = 256;

/// Maximum ratio of a large message's buffer to its received octets, so that a peer has to send what it makes us allocate.
const GROWTH: usize = 2;

/// A whole message, as received or reassembled from fragments.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its header. For fragments, the first one's with the size of the whole and without the flag for more.
    pub header: Header,
    /// Its octets, including the header.
    pub bytes: &'a [u8],
}

/// An incomplete message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incomplete {
    /// When its first octets arrived.
    pub began: u64,
    /// Octets received of the message and in front of it.
    pub octets: usize,
}

/// Turns the bytes of a connection into messages.
///
/// The rule that drives it: read into [`Inbound::space`], tell how much with [`Inbound::filled`], then call [`Inbound::poll_message`] until
/// it returns `None`; then read again. A returned message is invalidated by the next call of any of the three.
///
/// An unfragmented message is returned in place. The beginning of the next one is moved only when the buffer is used up. A message larger
/// than the buffer makes it grow, by at most the octets received so far, up to exactly the message's size, so that it is read in place as
/// well. In the steady state nothing is allocated: the buffer is reused, and memory above [`Limits::retained_bytes_max`] is given back as
/// soon as it is not needed.
///
/// # Borrowed buffers
///
/// A program with many connections need not have a buffer for each. [`Inbound::lend`] one before reading, read into [`Inbound::vacant`],
/// and take it back with [`Inbound::reclaim`] when the messages in it have been dealt with; an idle connection then holds none. The
/// beginning of an incomplete message is copied, up to 4 KiB of it to a small reused buffer, more to one of its size. A message larger than
/// the lent buffer is read in place into a buffer of its own as soon as more than those 4 KiB have arrived. That buffer grows with the
/// input: to twice as much, up to the message's size. [`Inbound::reserved_when_read`] says beforehand how much that will be.
///
/// # What is under way
///
/// Set the time with [`Inbound::note_time`], in any unit, and [`Inbound::oldest`] returns since when the rest of a message has been
/// pending, however many others arrived in between.
///
/// # Fragments
///
/// Fragments are collected by request id in GIOP 1.2; other messages may come in between. In GIOP 1.1 they have no id, so
/// that one message per direction can be open at a time; messages in one piece may come in between. A CancelRequest for
/// a message that is open drops what was collected, and is returned like any other.
///
/// GIOP 1.1 aligns the values in a fragment from the beginning of that fragment, in which values begin at octet 12 (CORBA 3.3 part 2,
/// 9.4.9). Put together, they keep their alignment only if the part in front of them is 4 more than a multiple of 8 octets long.
/// Where it is not, padding would have to be moved, and where padding is cannot be seen without knowing the types; so such a message
/// is refused with [`ProtocolError::FragmentMisaligned`], rather than handed on to be misread. A sender that has the choice uses GIOP
/// 1.2, where alignment runs on from part to part.
pub struct Inbound {
    limits: Limits,
    /// Holds what arrived, and perhaps octets behind that, which mean nothing. Empty until the first read.
    buffer: Vec<u8>,
    /// Whether the buffer is borrowed.
    lent: bool,
    /// The connection's own small one, while another is in use.
    small: Vec<u8>,
    /// `buffer[start..end]` has arrived and is not consumed yet.
    start: usize,
    end: usize,
    /// Length of the message returned last, at `start`.
    returned: usize,
    /// Octets still to come of a message that is being skipped.
    unwanted: usize,
    fragments: Fragments,
    /// The current time, and when the message in front was first found incomplete.
    now: u64,
    began: Option<u64>,
    /// The error; once set, every later call returns it.
    failure: Option<ProtocolError>,
}

/// Location of a message.
enum Found {
    /// At the front of the input.
    InPlace(Header),
    /// In [`Fragments::finished`].
    PutTogether(Header),
}

impl Inbound {
    /// The receiving side of a new connection. Nothing is allocated before the first read.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            buffer: Vec::new(),
            lent: false,
            small: Vec::new(),
            start: 0,
            end: 0,
            returned: 0,
            unwanted: 0,
            fragments: Fragments::new(),
            now: 0,
            began: None,
            failure: None,
        }
    }

    /// The buffer for the next read; never empty. Drops the message returned last.
    #[must_use]
    pub fn space(&mut self) -> &mut [u8] {
        self.drop_returned();
        let message_len = self.message_at_hand();
        let base = self.read_bytes();
        if self.buffer.len() > self.retained_bytes() && message_len.max(self.pending()) <= base {
            self.move_to_front();
            self.shrink(base);
        }
        let missing = message_len.saturating_sub(self.pending());
        if self.start > 0 && self.buffer.len() - self.end < missing.max(READ_MIN) {
            self.move_to_front();
        }
        // With less room than that a read is hardly worth its system call.
        let room = missing.clamp(1, READ_MIN);
        if self.buffer.len() - self.end < room {
            self.grow(room, message_len);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// The buffer for the next read, for a reader that can append to uninitialized memory: a buffer with some spare capacity, beyond which
    /// it must not grow. Report the appended octets with [`Inbound::filled`]. Drops the message returned last.
    #[must_use]
    pub fn vacant(&mut self) -> &mut Vec<u8> {
        self.drop_returned();
        let message_len = self.message_at_hand();
        let missing = message_len.saturating_sub(self.pending());
        let free = self.buffer.capacity() - self.end;
        if self.start > 0 && free < missing.max(READ_MIN) {
            self.move_to_front();
        }
        self.buffer.truncate(self.end);
        self.buffer.reserve_exact(self.capacity_when_read() - self.end);
        &mut self.buffer
    }

    /// Notes that `n` octets were read to the front of [`Inbound::space`], or appended to [`Inbound::vacant`].
    pub fn filled(&mut self, n: usize) {
        debug_assert!(n <= self.buffer.len() - self.end, "more was read than there was space for");
        self.end = self.end.saturating_add(n).min(self.buffer.len());
        if self.unwanted > 0 {
            let arrived = self.unwanted.min(self.pending());
            self.unwanted -= arrived;
            self.consume(arrived);
        }
    }

    /// The next whole message; `None` when more bytes are needed. Drops the message returned last.
    ///
    /// # Errors
    /// The bytes are not GIOP, or exceed a limit. Every later call returns the same error.
    #[inline]
    pub fn poll_message(&mut self) -> Result<Option<Message<'_>>, ProtocolError> {
        self.drop_returned();
        if self.pending() == 0 && self.failure.is_none() {
            self.began = None;
            return Ok(None);
        }
        // What most messages are needs nothing else to be looked at.
        if let Some(header) = self.whole_in_front() {
            self.returned = header.message_len();
            self.began = None;
            let bytes = self.pending_bytes().get(..self.returned).unwrap_or_default();
            return Ok(Some(Message { header, bytes }));
        }
        self.search()
    }

    fn search(&mut self) -> Result<Option<Message<'_>>, ProtocolError> {
        let found = self.find();
        if !matches!(found, Ok(None)) || self.pending() == 0 {
            self.began = None;
        } else {
            self.began.get_or_insert(self.now);
        }
        match found {
            Ok(Some(Found::InPlace(header))) => {
                self.returned = header.message_len();
                let bytes = self.pending_bytes().get(..self.returned).unwrap_or_default();
                Ok(Some(Message { header, bytes }))
            }
            Ok(Some(Found::PutTogether(header))) => Ok(Some(Message { header, bytes: self.fragments.finished() })),
            Ok(None) => Ok(None),
            Err(error) => {
                // Whatever else arrives on this connection is not looked at, but for the head of a request that is too large: it is answered.
                self.failure = Some(error);
                if !matches!(error, ProtocolError::TooLarge { .. }) {
                    self.consume(self.pending());
                }
                Err(error)
            }
        }
    }

    /// Lends a buffer for the next reads. It is returned at once if it is of no use: one is lent already, or the current message would not
    /// fit and more than a little of it has arrived, in a buffer of its own. Drops the message returned last.
    #[must_use = "a buffer that comes back can be lent again"]
    pub fn lend(&mut self, mut buffer: Vec<u8>) -> Option<Vec<u8>> {
        self.drop_returned();
        let (pending, room) = (self.pending(), buffer.capacity());
        let fits = self.message_at_hand().max(pending + 1) <= room;
        let is_little = pending <= REST_BYTES && pending + READ_MIN <= room;
        if self.lent || !(fits || is_little) {
            return Some(buffer);
        }
        buffer.clear();
        buffer.extend_from_slice(self.pending_bytes());
        (self.start, self.end) = (0, buffer.len());
        let own = core::mem::replace(&mut self.buffer, buffer);
        if own.capacity() <= REST_BYTES {
            self.small = own;
        }
        self.lent = true;
        None
    }

    /// Takes back the lent buffer, if any. Drops the message returned last; input behind it is copied.
    pub fn reclaim(&mut self) -> Option<Vec<u8>> {
        if !self.lent {
            return None;
        }
        self.drop_returned();
        let mut own = core::mem::take(&mut self.small);
        own.clear();
        own.reserve_exact(self.room_for_rest(own.capacity()));
        own.extend_from_slice(self.pending_bytes());
        (self.start, self.end) = (0, own.len());
        self.lent = false;
        Some(core::mem::replace(&mut self.buffer, own))
    }

    /// Whether a buffer was lent and is being used.
    #[must_use]
    pub const fn is_lent(&self) -> bool {
        self.lent
    }

    /// Whether the current message is larger than the lent buffer, and has filled it. The buffer must then be reclaimed before the next
    /// read, so that the message gets one of its own.
    #[must_use]
    pub fn has_outgrown_loan(&self) -> bool {
        let room = self.buffer.capacity();
        self.lent && self.returned == 0 && self.message_at_hand() > room && room - self.pending() < READ_MIN
    }

    /// Octets that would have to be copied to a buffer of their own if the lent one were reclaimed now; 0 if the small one suffices.
    #[must_use]
    pub fn rest_to_keep(&self) -> usize {
        let rest = self.end - self.start - self.returned;
        if rest <= REST_BYTES { 0 } else { rest }
    }

    /// Input that was not returned yet, for looking ahead. It begins with a message, or the beginning of one.
    #[must_use]
    pub fn ahead(&self) -> &[u8] {
        self.pending_bytes().get(self.returned..).unwrap_or_default()
    }

    /// Kind of the message in front, once its header has arrived; of a fragment, that of the message it continues.
    #[must_use]
    pub fn kind_ahead(&self) -> Option<MessageKind> {
        let bytes = self.ahead();
        let header = Header::parse(bytes).ok()?;
        match header.kind {
            MessageKind::Fragment => self.fragments.kind_continued(&header, bytes),
            kind => Some(kind),
        }
    }

    /// The beginning of an unfragmented, incomplete message in front, as far as received.
    ///
    /// Call it when [`Inbound::poll_message`] has returned `None`. A message that is not needed can be skipped: see
    /// [`Inbound::skip_begun`].
    #[must_use]
    pub fn begun(&self) -> Option<Message<'_>> {
        let bytes = self.ahead();
        let header = Header::parse(bytes).ok().filter(|_| self.failure.is_none())?;
        let is_in_parts = header.more_fragments || header.kind == MessageKind::Fragment;
        let len = header.message_len();
        let has_begun = !is_in_parts && bytes.len() < len && len <= self.limits.message_bytes_max;
        has_begun.then_some(Message { header, bytes })
    }

    /// Skips the message that has [begun](Inbound::begun), including its octets still to come, without reserving memory.
    pub fn skip_begun(&mut self) {
        self.drop_returned();
        if let Some(Message { header, bytes }) = self.begun() {
            self.unwanted = header.message_len() - bytes.len();
            self.consume(self.pending());
            self.began = None;
        }
    }

    /// Number of incomplete fragmented messages.
    #[must_use]
    pub fn open_fragment_sets(&self) -> usize {
        self.fragments.open()
    }

    /// Whether there is input behind the message returned last: another one, or the beginning of one.
    #[inline]
    #[must_use]
    pub const fn has_more(&self) -> bool {
        self.end - self.start > self.returned
    }

    /// Octets received but not returned in a message yet, fragments included. While it is not 0 the rest of a message is pending.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.end - self.start - self.returned + self.fragments.bytes()
    }

    /// Sets the time for [`Inbound::oldest`]. Messages found incomplete from now on began then.
    #[inline]
    pub const fn note_time(&mut self, now: u64) {
        self.now = now;
    }

    /// The message whose rest has been pending longest.
    #[must_use]
    pub fn oldest(&self) -> Option<Incomplete> {
        let in_front = self.pending() - self.returned;
        let front = self.began.map(|began| Incomplete { began, octets: in_front });
        let parts = self.fragments.oldest();
        let parts = parts.map(|(began, octets)| Incomplete { began, octets: octets + in_front });
        front.into_iter().chain(parts).min_by_key(|incomplete| incomplete.began)
    }

    /// Upper bound of the octets of all incomplete messages, including those received.
    #[must_use]
    pub fn announced(&self) -> usize {
        match self.fragments.open() {
            0 => self.message_at_hand().max(self.pending()),
            // How large what comes in parts will be is not known before the last.
            _ => self.limits.message_bytes_max.max(self.buffered()),
        }
    }

    /// The value of [`Inbound::reserved`] after [`Inbound::vacant`].
    #[must_use]
    pub fn reserved_when_read(&self) -> usize {
        let buffer = if self.lent { 0 } else { self.capacity_when_read() };
        buffer + self.small.capacity() + self.fragments.reserved()
    }

    /// Octets of memory allocated, used or not, without a lent buffer.
    #[must_use]
    pub fn reserved(&self) -> usize {
        let buffer = if self.lent { 0 } else { self.buffer.capacity() };
        buffer + self.small.capacity() + self.fragments.reserved()
    }

    // ---- finding messages ----

    /// The header of a message that lies in front in one piece, where no other is open for fragments.
    #[inline]
    fn whole_in_front(&self) -> Option<Header> {
        if self.failure.is_some() || self.fragments.open() > 0 {
            return None;
        }
        let pending = self.pending_bytes();
        let header = Header::parse(pending).ok()?;
        let len = header.message_len();
        let is_whole = len <= pending.len() && len <= self.limits.message_bytes_max;
        (is_whole && !header.more_fragments && header.kind != MessageKind::Fragment).then_some(header)
    }

    /// Processes fragments until there is a whole message.
    fn find(&mut self) -> Result<Option<Found>, ProtocolError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        loop {
            let header = match Header::parse(self.pending_bytes()) {
                Ok(header) => header,
                Err(HeaderError::Truncated { .. }) => return self.check_beginning().map(|()| None),
                Err(error) => return Err(error.into()),
            };
            let len = header.message_len();
            if len > self.limits.message_bytes_max {
                return Err(ProtocolError::TooLarge { size: len, max: self.limits.message_bytes_max });
            }
            if self.pending() < len {
                return Ok(None);
            }
            if !header.more_fragments && header.kind != MessageKind::Fragment {
                self.note_cancel(&header);
                return Ok(Some(Found::InPlace(header)));
            }
            let message = self.buffer.get(self.start..self.start + len).unwrap_or_default();
            let began = self.began.take().unwrap_or(self.now);
            let assembly = self.fragments.add(&header, message, began, &self.limits)?;
            self.consume(len);
            if let Assembly::Finished(header) = assembly {
                return Ok(Some(Found::PutTogether(header)));
            }
        }
    }

    /// A peer that does not speak GIOP may never send twelve octets, waiting for an answer to fewer.
    fn check_beginning(&self) -> Result<(), ProtocolError> {
        let pending = self.pending_bytes();
        if pending.iter().zip(&MAGIC).all(|(octet, expected)| octet == expected) {
            return Ok(());
        }
        let mut found = [0; MAGIC.len()];
        found.iter_mut().zip(pending).for_each(|(to, from)| *to = *from);
        Err(ProtocolError::BadMagic { found })
    }

    /// Drops the fragments of a cancelled request (9.4.4 and 9.4.9): it is not continued, so they would stay for ever.
    #[inline]
    fn note_cancel(&mut self, header: &Header) {
        if header.kind == MessageKind::CancelRequest && self.fragments.open() > 0 {
            let message = self.buffer.get(self.start..self.start + header.message_len()).unwrap_or_default();
            if let Ok(cancel) = CancelRequest::parse(message, header) {
                self.fragments.cancel(header.version, cancel.request_id, &self.limits);
            }
        }
    }

    // ---- the buffer ----

    #[inline]
    fn pending(&self) -> usize {
        self.end - self.start
    }

    #[inline]
    fn pending_bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// The whole length of the message at the front, if known and acceptable; else 0.
    #[inline]
    fn message_at_hand(&self) -> usize {
        if self.pending() == 0 {
            return 0;
        }
        let len = Header::parse(self.pending_bytes()).map_or(0, |header| header.message_len());
        if len > self.limits.message_bytes_max { 0 } else { len }
    }

    /// Size of the own buffer for the rest of the input: 0 if nothing is left, the small one's if that suffices.
    fn room_for_rest(&self, small: usize) -> usize {
        let rest = self.pending();
        if rest <= small {
            return 0;
        }
        if rest <= REST_BYTES {
            return rest.next_power_of_two().max(REST_BYTES_MIN);
        }
        rest
    }

    /// Capacity of the buffer at the next read.
    fn capacity_when_read(&self) -> usize {
        let (pending, capacity, message_len) = (self.pending(), self.buffer.capacity(), self.message_at_hand());
        let missing = message_len.saturating_sub(pending);
        if capacity - pending >= missing.clamp(1, READ_MIN) {
            return capacity;
        }
        let room = pending + READ_MIN;
        if missing == 0 {
            return room.max(self.read_bytes());
        }
        message_len.min(pending.saturating_mul(GROWTH).max(room))
    }

    fn read_bytes(&self) -> usize {
        self.limits.read_bytes.max(256)
    }

    fn retained_bytes(&self) -> usize {
        self.limits.retained_bytes_max.max(self.read_bytes())
    }

    #[inline]
    fn drop_returned(&mut self) {
        if self.returned > 0 {
            let returned = core::mem::take(&mut self.returned);
            self.consume(returned);
        }
        self.fragments.drop_finished(&self.limits);
    }

    fn consume(&mut self, n: usize) {
        self.start = self.start.saturating_add(n).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if !self.lent && self.buffer.capacity() > self.retained_bytes() {
                self.shrink(self.read_bytes());
            }
        }
    }

    fn move_to_front(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
    }

    /// Makes room for at least `room` octets behind what arrived, and for as many as arrived; but not beyond the end of the
    /// message at hand, so that the next one begins in a buffer of ordinary size.
    fn grow(&mut self, room: usize, message_len: usize) {
        let wanted = self.end.saturating_mul(2).min(message_len).max(self.end + room).max(self.read_bytes());
        if self.buffer.is_empty() {
            self.buffer = vec![0; wanted];
        } else {
            self.buffer.reserve_exact(wanted.saturating_sub(self.buffer.len()));
            self.buffer.resize(wanted, 0);
        }
    }

    fn shrink(&mut self, len: usize) {
        self.buffer.truncate(len);
        self.buffer.shrink_to(len);
    }
}

/// Shows amounts, and not the bytes, which are a user's data.
impl fmt::Debug for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound")
            .field("buffered", &self.buffered())
            .field("open_fragment_sets", &self.open_fragment_sets())
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}
