//! Heads that are sent repeatedly: made once, and copied for each message.

use super::write::{Open, RequestHead, begin_request};
use super::{HEADER_LEN, Header, MAGIC, MessageKind, SIZE_AT};
use crate::cdr::{Endian, Version, padding};
use alloc::vec::Vec;

/// The head of a request, where only the id and the message's size change between messages.
///
/// Its output is, octet for octet, that of [`begin_request`] with the same [`RequestHead`].
#[derive(Clone, Debug)]
pub struct RequestTemplate {
    /// The head, up to where a body begins.
    head: Vec<u8>,
    /// Offset of the head's end without a body.
    head_end: usize,
    /// Offset of the request's id.
    id_at: usize,
    version: Version,
    endian: Endian,
}

impl RequestTemplate {
    /// A template of this head, whose request id does not matter.
    #[must_use]
    pub fn new(head: &RequestHead<'_>) -> Self {
        let (version, endian) = (head.version, head.endian);
        let mut template = Self { head: Vec::new(), head_end: 0, id_at: 0, version, endian };
        template.set(head);
        template.head.shrink_to_fit();
        template
    }

    /// Changes it to another head, reusing the memory if that suffices.
    pub fn set(&mut self, head: &RequestHead<'_>) {
        self.head.clear();
        self.head_end = begin_request(&mut self.head, head).head_end();
        self.id_at = match head.version {
            Version::V1_2 | Version::Xcdr1 => HEADER_LEN,
            Version::V1_0 | Version::V1_1 => behind_contexts(head.contexts),
        };
        (self.version, self.endian) = (head.version, head.endian);
    }

    /// Appends the head of a request to `buf`; finish it after appending the body.
    pub fn begin(&self, buf: &mut Vec<u8>, request_id: u32) -> Open {
        let start = buf.len();
        buf.extend_from_slice(&self.head);
        put(buf, start + self.id_at, request_id, self.endian);
        Open::begun(buf, start, start + self.head_end, self.version, self.endian)
    }

    /// Appends the head of a request with a body of `body_len` octets, at least one, that follows behind the end of
    /// `buf`.
    #[inline]
    pub fn append(&self, buf: &mut Vec<u8>, request_id: u32, body_len: usize) {
        let start = buf.len();
        buf.extend_from_slice(&self.head);
        put(buf, start + self.id_at, request_id, self.endian);
        let size = (self.head.len() - HEADER_LEN).saturating_add(body_len);
        put(buf, start + SIZE_AT, u32::try_from(size).unwrap_or(u32::MAX), self.endian);
    }

    /// Octets of a head.
    #[must_use]
    pub fn head_len(&self) -> usize {
        self.head.len()
    }

    /// Octets of memory allocated.
    #[must_use]
    pub fn reserved(&self) -> usize {
        self.head.capacity()
    }
}

/// Offset of the end of a request's service contexts, which follow the header before GIOP 1.2.
fn behind_contexts(contexts: &[(u32, &[u8])]) -> usize {
    let end = contexts.iter().fold(HEADER_LEN + 4, |at, (_, data)| at + padding(at, 4) + 8 + data.len());
    end + padding(end, 4)
}

#[inline]
fn put(buf: &mut [u8], at: usize, number: u32, endian: Endian) {
    if let Some(place) = buf.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        *place = octets(number, endian);
    }
}

const fn octets(number: u32, endian: Endian) -> [u8; 4] {
    match endian {
        Endian::Big => number.to_be_bytes(),
        Endian::Little => number.to_le_bytes(),
    }
}

/// Octets of a reply without service contexts and without a body.
const EMPTY_REPLY_LEN: usize = HEADER_LEN + 12;

/// Appends the reply to a request without a result, without service contexts: the output of [`super::begin_reply`] and an empty body.
#[inline]
pub fn empty_reply(buf: &mut Vec<u8>, version: Version, endian: Endian, request_id: u32) {
    let start = buf.len();
    let (minor, flags) = (version.minor(), endian.flag());
    let [s0, s1, s2, s3] = octets(12, endian);
    let [g0, g1, g2, g3] = MAGIC;
    // From 1.2 on its id, status and contexts; before that contexts, id and status.
    let header = [g0, g1, g2, g3, 1, minor, flags, MessageKind::Reply.number(), s0, s1, s2, s3];
    buf.extend_from_slice(&header);
    buf.extend_from_slice(&[0; EMPTY_REPLY_LEN - HEADER_LEN]);
    put(buf, start + empty_reply_id_at(version), request_id, endian);
}

/// The id of the request that a message answers, if it is a reply that says that all went well and nothing more: no
/// service context, no result. Any other is for [`super::Reply`].
#[inline]
#[must_use]
pub fn parse_empty_reply(message: &[u8], header: &Header) -> Option<u32> {
    let message: &[u8; EMPTY_REPLY_LEN] = message.try_into().ok()?;
    if header.kind != MessageKind::Reply {
        return None;
    }
    let [.., a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3] = *message;
    let (a, b, c) = ([a0, a1, a2, a3], [b0, b1, b2, b3], [c0, c1, c2, c3]);
    let (id, other) = if empty_reply_id_at(header.version) == HEADER_LEN { (a, b) } else { (b, a) };
    // NO_EXCEPTION and a count of none are 0 in either byte order.
    (other == [0; 4] && c == [0; 4]).then(|| match header.endian {
        Endian::Big => u32::from_be_bytes(id),
        Endian::Little => u32::from_le_bytes(id),
    })
}

const fn empty_reply_id_at(version: Version) -> usize {
    match version {
        Version::V1_2 | Version::Xcdr1 => HEADER_LEN,
        Version::V1_0 | Version::V1_1 => HEADER_LEN + 4,
    }
}
