//! Messages that arrive in fragments.

use super::{Limits, ProtocolError};
use crate::cdr::{Endian, Version};
use crate::message::{FLAG_MORE_FRAGMENTS, FLAGS_AT, HEADER_LEN, Header, MessageKind, SIZE_AT, ServiceContexts};
use alloc::vec::Vec;

/// Maximum number of empty buffers retained for reuse.
const SPARE_MAX: usize = 4;

/// Result of adding a fragment.
pub(super) enum Assembly {
    /// More fragments follow.
    Open,
    /// The message is complete, with this header, in [`Fragments::finished`].
    Finished(Header),
}

/// The parts of one message.
struct Set {
    /// Header of the first fragment.
    header: Header,
    /// `None` in GIOP 1.1.
    request_id: Option<u32>,
    /// The first part with its header, and of the others what follows theirs.
    bytes: Vec<u8>,
    /// When the first fragment began.
    began: u64,
}

/// All incomplete messages of a connection.
pub(super) struct Fragments {
    sets: Vec<Set>,
    /// The message reassembled last.
    finished: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

impl Fragments {
    pub(super) const fn new() -> Self {
        Self { sets: Vec::new(), finished: Vec::new(), spare: Vec::new() }
    }

    /// Takes a part that began at that time: a fragment, or a message that says that fragments follow.
    pub(super) fn add(
        &mut self,
        header: &Header,
        message: &[u8],
        began: u64,
        limits: &Limits,
    ) -> Result<Assembly, ProtocolError> {
        if header.kind == MessageKind::Fragment {
            self.add_fragment(header, message, limits)
        } else {
            self.begin(header, message, began, limits).map(|()| Assembly::Open)
        }
    }

    fn begin(&mut self, header: &Header, message: &[u8], began: u64, limits: &Limits) -> Result<(), ProtocolError> {
        if !may_have_fragments(header) {
            return Err(ProtocolError::NotFragmentable { version: header.version, kind: header.kind });
        }
        let request_id = request_id_of(header, message)?;
        if self.position(request_id).is_some() {
            return Err(ProtocolError::OverlappingFragments { request_id });
        }
        if self.sets.len() >= limits.fragment_sets_max {
            return Err(ProtocolError::TooManyFragmentSets { max: limits.fragment_sets_max });
        }
        self.check_bytes(message.len(), limits)?;
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(message);
        self.sets.push(Set { header: *header, request_id, bytes, began });
        Ok(())
    }

    fn add_fragment(&mut self, header: &Header, message: &[u8], limits: &Limits) -> Result<Assembly, ProtocolError> {
        let request_id = request_id_of(header, message)?;
        let data_at = if request_id.is_some() { HEADER_LEN + 4 } else { HEADER_LEN };
        let data = message.get(data_at..).unwrap_or_default();
        self.check_bytes(data.len(), limits)?;
        let Some(at) = self.position(request_id) else {
            return Err(ProtocolError::UnexpectedFragment { request_id });
        };
        let Some(set) = self.sets.get_mut(at) else {
            return Err(ProtocolError::UnexpectedFragment { request_id });
        };
        if set.header.endian != header.endian {
            return Err(ProtocolError::FragmentByteOrder);
        }
        let size = set.bytes.len().saturating_add(data.len());
        if size > limits.message_bytes_max {
            return Err(ProtocolError::TooLarge { size, max: limits.message_bytes_max });
        }
        // See `Inbound` on alignment. In GIOP 1.2 parts are multiples of 8 octets long, and one that is not can only have been
        // cut from a message that was marshalled as a whole: alignment runs on either way.
        if request_id.is_none() && !data.is_empty() && set.bytes.len() % 8 != HEADER_LEN % 8 {
            return Err(ProtocolError::FragmentMisaligned { at: set.bytes.len() });
        }
        if size > set.bytes.capacity() {
            // Twice as much, but never more than it may come to be.
            let wanted = size.saturating_mul(2).min(limits.message_bytes_max);
            set.bytes.reserve_exact(wanted - set.bytes.len());
        }
        set.bytes.extend_from_slice(data);
        if header.more_fragments {
            return Ok(Assembly::Open);
        }
        let set = self.sets.swap_remove(at);
        self.finished = set.bytes;
        Ok(Assembly::Finished(finish(set.header, &mut self.finished)))
    }

    /// Drops the fragments of a request.
    pub(super) fn cancel(&mut self, version: Version, request_id: u32, limits: &Limits) {
        let at = self.sets.iter().position(|set| {
            matches!(set.header.kind, MessageKind::Request | MessageKind::LocateRequest)
                && match set.request_id {
                    Some(id) => id == request_id,
                    None => version < Version::V1_2 && request_id_of_1_1(&set.header, &set.bytes) == Some(request_id),
                }
        });
        if let Some(at) = at {
            let set = self.sets.swap_remove(at);
            self.keep(set.bytes, limits);
        }
    }

    /// Kind of the open message that a fragment continues, once its request id has arrived.
    pub(super) fn kind_continued(&self, fragment: &Header, arrived: &[u8]) -> Option<MessageKind> {
        let at = self.position(request_id_of(fragment, arrived).ok()?)?;
        self.sets.get(at).map(|set| set.header.kind)
    }

    /// The message reassembled last; empty if it was dropped.
    pub(super) fn finished(&self) -> &[u8] {
        &self.finished
    }

    /// Drops the message reassembled last.
    #[inline]
    pub(super) fn drop_finished(&mut self, limits: &Limits) {
        if !self.finished.is_empty() {
            let bytes = core::mem::take(&mut self.finished);
            self.keep(bytes, limits);
        }
    }

    /// Retains a buffer for later sets, unless the retained memory would exceed the limit.
    fn keep(&mut self, mut bytes: Vec<u8>, limits: &Limits) {
        let kept: usize = self.spare.iter().map(Vec::capacity).sum();
        if self.spare.len() < SPARE_MAX && kept.saturating_add(bytes.capacity()) <= limits.retained_bytes_max {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Number of incomplete messages.
    pub(super) fn open(&self) -> usize {
        self.sets.len()
    }

    /// Octets of the incomplete messages.
    pub(super) fn bytes(&self) -> usize {
        self.sets.iter().map(|set| set.bytes.len()).sum()
    }

    /// When the oldest incomplete message began, and its octets.
    pub(super) fn oldest(&self) -> Option<(u64, usize)> {
        self.sets.iter().map(|set| (set.began, set.bytes.len())).min_by_key(|(began, _)| *began)
    }

    /// Octets of memory allocated.
    pub(super) fn reserved(&self) -> usize {
        let open: usize = self.sets.iter().map(|set| set.bytes.capacity()).sum();
        let spare: usize = self.spare.iter().map(Vec::capacity).sum();
        open + spare + self.finished.capacity()
    }

    fn position(&self, request_id: Option<u32>) -> Option<usize> {
        self.sets.iter().position(|set| set.request_id == request_id)
    }

    fn check_bytes(&self, more: usize, limits: &Limits) -> Result<(), ProtocolError> {
        let size = self.bytes().saturating_add(more);
        if size > limits.fragment_bytes_max {
            return Err(ProtocolError::TooManyFragmentBytes { size, max: limits.fragment_bytes_max });
        }
        Ok(())
    }
}

/// Whether the message may be fragmented (9.4.9): requests and replies in GIOP 1.1; from 1.2 on also those for locating.
fn may_have_fragments(header: &Header) -> bool {
    match header.kind {
        MessageKind::Request | MessageKind::Reply => true,
        MessageKind::LocateRequest | MessageKind::LocateReply => header.version == Version::V1_2,
        _ => false,
    }
}

/// The request id that a part carries in front in GIOP 1.2, be it the first or a fragment.
fn request_id_of(header: &Header, message: &[u8]) -> Result<Option<u32>, ProtocolError> {
    if header.version < Version::V1_2 {
        return Ok(None);
    }
    match message.get(HEADER_LEN..).and_then(|rest| rest.first_chunk::<4>()) {
        Some(id) if header.endian == Endian::Big => Ok(Some(u32::from_be_bytes(*id))),
        Some(id) => Ok(Some(u32::from_le_bytes(*id))),
        None => Err(ProtocolError::FragmentTooShort { size: header.size }),
    }
}

/// The request id of a GIOP 1.1 request, if the first fragment includes it, behind the service contexts.
fn request_id_of_1_1(header: &Header, bytes: &[u8]) -> Option<u32> {
    let mut r = crate::message::behind_header(bytes, header);
    ServiceContexts::read(&mut r).ok()?;
    r.u32().ok()
}

/// Makes the first part's header that of the whole.
fn finish(first: Header, bytes: &mut [u8]) -> Header {
    let size = u32::try_from(bytes.len().saturating_sub(HEADER_LEN)).unwrap_or(u32::MAX);
    if let Some(flags) = bytes.get_mut(FLAGS_AT) {
        *flags &= !FLAG_MORE_FRAGMENTS;
    }
    if let Some(place) = bytes.get_mut(SIZE_AT..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        *place = match first.endian {
            Endian::Big => size.to_be_bytes(),
            Endian::Little => size.to_le_bytes(),
        };
    }
    Header { more_fragments: false, size, ..first }
}
