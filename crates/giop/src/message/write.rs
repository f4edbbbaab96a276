//! Messages that leave.
//!
//! A message with a body is begun, which appends its head to a buffer, and finished, which patches the size into its
//! header. In between the body is appended through [`Open::body`], or it stays where it is and is only counted.

use super::{FLAG_LITTLE_ENDIAN, HEADER_LEN, LocateStatus, MAGIC, MessageKind, ReplyStatus, Response, SIZE_AT};
use crate::cdr::{CharSet, Encoding, Endian, Version, Writer, padding};
use alloc::vec::Vec;

/// The head of a request, in front of its body; see [`super::Request`] for its layout.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// GIOP version of the message.
    pub version: Version,
    /// Byte order of head and body.
    pub endian: Endian,
    /// Must be unique among the unanswered requests on the connection.
    pub request_id: u32,
    /// The expected reply. Before GIOP 1.2, [`Response::Server`] is sent as [`Response::Expected`].
    pub response: Response,
    /// Key of the object.
    pub key: &'a [u8],
    /// Name of the operation, without NUL.
    pub operation: &'a [u8],
    /// Ids and data of service contexts, at most [`super::ServiceContexts::COUNT_MAX`] if this crate is to read them.
    pub contexts: &'a [(u32, &'a [u8])],
    /// Position modulo 8 at which the body has to begin, for octets aligned for it already. GIOP 1.0 and 1.1 get filler octets; a GIOP 1.2
    /// body always begins at 0, whatever is requested. `None`: at the end of the head.
    pub body_phase: Option<usize>,
}

/// The head of a reply, in front of its body; see [`super::Reply`] for its layout.
#[derive(Clone, Copy, Debug)]
pub struct ReplyHead<'a> {
    /// GIOP version of the message: the request's.
    pub version: Version,
    /// Byte order of head and body.
    pub endian: Endian,
    /// Id of the answered request.
    pub request_id: u32,
    /// The outcome of the invocation.
    pub status: ReplyStatus,
    /// Ids and data of service contexts.
    pub contexts: &'a [(u32, &'a [u8])],
}

/// A message that has its head but not its size yet.
#[derive(Debug)]
#[must_use = "the message's size is wrong until it is finished"]
pub struct Open {
    /// Offset of the message in the buffer.
    start: usize,
    /// Offset of its head's end.
    head_end: usize,
    /// Offset of its body.
    body_start: usize,
    version: Version,
    endian: Endian,
}

/// Appends the head of a request to `buf`.
pub fn begin_request(buf: &mut Vec<u8>, head: &RequestHead<'_>) -> Open {
    let RequestHead { version, endian, request_id, response, key, operation, contexts, body_phase } = *head;
    let start = header(buf, version, endian, MessageKind::Request);
    let mut w = behind_header(buf, version, endian);
    if version == Version::V1_2 {
        w.u32(request_id);
        w.raw(&[response.flags(), 0, 0, 0]);
        w.u16(0); // KeyAddr
        w.octets(key);
        w.string_bytes(operation);
        service_contexts(&mut w, contexts);
        return Open::aligned(buf, start, version, endian);
    }
    service_contexts(&mut w, contexts);
    w.u32(request_id);
    w.bool(response != Response::None);
    if version == Version::V1_1 {
        w.raw(&[0, 0, 0]);
    }
    w.octets(key);
    w.string_bytes(operation);
    // The principal is a sequence of octets that is not looked into since CORBA 2.2 and that every ORB skips. Being the
    // last thing in the head, it can bring the body to any position; a service context, being the first, could only shift
    // it by multiples of four.
    w.align(4);
    let filler = body_phase.map_or(0, |phase| phase.wrapping_sub(w.phase()).wrapping_sub(4) & 7);
    w.octets([0; 7].get(..filler).unwrap_or_default());
    Open::unaligned(buf, start, version, endian)
}

/// Appends the head of a reply to `buf`.
pub fn begin_reply(buf: &mut Vec<u8>, head: &ReplyHead<'_>) -> Open {
    let ReplyHead { version, endian, request_id, status, contexts } = *head;
    if version == Version::V1_2 && contexts.is_empty() {
        return begin_plain_reply(buf, endian, request_id, status);
    }
    let start = header(buf, version, endian, MessageKind::Reply);
    let mut w = behind_header(buf, version, endian);
    if version == Version::V1_2 {
        w.u32(request_id);
        w.u32(status.number());
        service_contexts(&mut w, contexts);
        return Open::aligned(buf, start, version, endian);
    }
    service_contexts(&mut w, contexts);
    w.u32(request_id);
    w.u32(status.number());
    Open::unaligned(buf, start, version, endian)
}

/// The usual head of a reply, in one write: 24 octets in GIOP 1.2, behind which the body is aligned.
#[inline]
fn begin_plain_reply(buf: &mut Vec<u8>, endian: Endian, request_id: u32, status: ReplyStatus) -> Open {
    let (flags, [a, b, c, d], [e, f, g, h]) = match endian {
        Endian::Big => (0, request_id.to_be_bytes(), status.number().to_be_bytes()),
        Endian::Little => (FLAG_LITTLE_ENDIAN, request_id.to_le_bytes(), status.number().to_le_bytes()),
    };
    let [m, i, n, o] = MAGIC;
    let kind = MessageKind::Reply.number();
    let start = buf.len();
    buf.extend_from_slice(&[m, i, n, o, 1, 2, flags, kind, 0, 0, 0, 0, a, b, c, d, e, f, g, h, 0, 0, 0, 0]);
    Open { start, head_end: buf.len(), body_start: buf.len(), version: Version::V1_2, endian }
}

/// Appends a locate request to `buf`.
pub fn locate_request(buf: &mut Vec<u8>, version: Version, endian: Endian, request_id: u32, key: &[u8]) {
    let start = header(buf, version, endian, MessageKind::LocateRequest);
    let mut w = behind_header(buf, version, endian);
    w.u32(request_id);
    if version == Version::V1_2 {
        w.u16(0); // KeyAddr
    }
    w.octets(key);
    Open::unaligned(buf, start, version, endian).finish(buf);
}

/// Appends the head of a locate reply with a body to `buf`.
pub fn begin_locate_reply(
    buf: &mut Vec<u8>,
    version: Version,
    endian: Endian,
    request_id: u32,
    status: LocateStatus,
) -> Open {
    let start = header(buf, version, endian, MessageKind::LocateReply);
    let mut w = behind_header(buf, version, endian);
    w.u32(request_id);
    w.u32(status.number());
    Open::unaligned(buf, start, version, endian)
}

/// Appends a locate reply without a body to `buf`: for `UnknownObject` and `ObjectHere`.
pub fn locate_reply(buf: &mut Vec<u8>, version: Version, endian: Endian, request_id: u32, status: LocateStatus) {
    begin_locate_reply(buf, version, endian, request_id, status).finish(buf);
}

/// Appends a cancel request to `buf`.
pub fn cancel_request(buf: &mut Vec<u8>, version: Version, endian: Endian, request_id: u32) {
    let start = header(buf, version, endian, MessageKind::CancelRequest);
    behind_header(buf, version, endian).u32(request_id);
    Open::unaligned(buf, start, version, endian).finish(buf);
}

/// Appends the message that announces an orderly end of the connection to `buf`. Before GIOP 1.2, only servers send it.
pub fn close_connection(buf: &mut Vec<u8>, version: Version) {
    header(buf, version, Endian::NATIVE, MessageKind::CloseConnection);
}

/// Appends the answer to a malformed message to `buf`.
pub fn message_error(buf: &mut Vec<u8>, version: Version) {
    header(buf, version, Endian::NATIVE, MessageKind::MessageError);
}

impl Open {
    fn unaligned(buf: &[u8], start: usize, version: Version, endian: Endian) -> Self {
        Self { start, head_end: buf.len(), body_start: buf.len(), version, endian }
    }

    /// A head with a body that begins at a multiple of 8 (CORBA 3.3 part 2, 9.4.2.2).
    fn aligned(buf: &mut Vec<u8>, start: usize, version: Version, endian: Endian) -> Self {
        let head_end = buf.len();
        let body_start = head_end + padding(head_end.saturating_sub(start), 8);
        buf.resize(body_start, 0);
        Self { start, head_end, body_start, version, endian }
    }

    /// A head copied to the end of `buf`.
    pub(super) fn begun(buf: &[u8], start: usize, head_end: usize, version: Version, endian: Endian) -> Self {
        Self { start, head_end, body_start: buf.len(), version, endian }
    }

    /// Offset of the head's end without a body.
    pub(super) const fn head_end(&self) -> usize {
        self.head_end
    }

    /// A writer for the body, or for more of it, aligned with the message. `buf` must be the message's buffer, with nothing else appended
    /// since.
    pub fn body<'b>(&self, buf: &'b mut Vec<u8>, chars: CharSet) -> Writer<'b> {
        let phase = buf.len().saturating_sub(self.start);
        Writer::with_phase(buf, phase, Encoding { endian: self.endian, version: self.version, chars })
    }

    /// Offset of the body in the buffer; truncating the buffer to it removes the body.
    #[must_use]
    pub const fn body_start(&self) -> usize {
        self.body_start
    }

    /// Offset of the message in the buffer; truncating the buffer to it removes the message.
    #[must_use]
    pub const fn start(&self) -> usize {
        self.start
    }

    /// Ends a message. Its body, if any, is in `buf`.
    pub fn finish(self, buf: &mut Vec<u8>) {
        if buf.len() <= self.body_start {
            // Without a body there is nothing to align, and some readers take padding for one.
            buf.truncate(self.head_end);
        }
        self.patch_size(buf, 0);
    }

    /// Ends a message with a body of `body_len` octets that is sent from elsewhere right behind `buf`.
    pub fn finish_with_body(self, buf: &mut Vec<u8>, body_len: usize) {
        if body_len == 0 {
            return self.finish(buf);
        }
        self.patch_size(buf, body_len);
    }

    /// Writes the message's size into its header. Writers bound their messages far below the 4 GiB that fit there.
    fn patch_size(&self, buf: &mut [u8], more: usize) {
        let size = buf.len().saturating_sub(self.start + HEADER_LEN).saturating_add(more);
        debug_assert!(u32::try_from(size).is_ok(), "a message of {size} octets");
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        if let Some(place) = buf.get_mut(self.start + SIZE_AT..).and_then(|rest| rest.first_chunk_mut::<4>()) {
            *place = match self.endian {
                Endian::Big => size.to_be_bytes(),
                Endian::Little => size.to_le_bytes(),
            };
        }
    }
}

/// Appends a header of size 0 and returns where it begins.
fn header(buf: &mut Vec<u8>, version: Version, endian: Endian, kind: MessageKind) -> usize {
    let start = buf.len();
    let flags = match endian {
        Endian::Big => 0,
        Endian::Little => FLAG_LITTLE_ENDIAN,
    };
    buf.extend_from_slice(&MAGIC);
    buf.extend_from_slice(&[1, version.minor(), flags, kind.number(), 0, 0, 0, 0]);
    start
}

/// A writer for the part behind a header that was just appended.
fn behind_header(buf: &mut Vec<u8>, version: Version, endian: Endian) -> Writer<'_> {
    Writer::with_phase(buf, HEADER_LEN, Encoding { endian, version, chars: CharSet::Latin1 })
}

fn service_contexts(w: &mut Writer<'_>, contexts: &[(u32, &[u8])]) {
    w.length(contexts.len());
    for (id, data) in contexts {
        w.u32(*id);
        w.octets(data);
    }
}
