//! Cache of the latest requests' headers on a lane, so that equal ones are not parsed again.
//!
//! A supplier sends the same request head before each event, except for its number: the head's octets are compared with those parsed
//! before, and their meaning is cached. The same is done for the event type at the front of its events, for the need to translate them, and
//! for their octets up to the value of their body (a [`Skeleton`]). All of it holds for one routing snapshot. There are 256 places for
//! connections and as many for proxies; two equally busy ones that share a place are parsed each time.

use engine::{ProxyKey, TypeId};
use giop::cdr::{CharSet, Endian, Reader, Version};
use giop::framing::Message;
use giop::typecode::Work;

use crate::lane::io::slots::Token;
use crate::protocols::giop::claims::Answer;
use crate::protocols::giop::push::Push;
use corba::event::{self, Known, Skeleton};

/// Places for connections, and for proxies.
const PLACES: usize = 256;
/// Maximum octets of a request's head, and of an event's beginning, that are cached.
const HEAD_BYTES_MAX: usize = 512;
const TYPE_BYTES_MAX: usize = 256;
const SKELETON_BYTES_MAX: usize = 1024;

/// Cached headers of requests and beginnings of events.
pub(crate) struct HeaderCache {
    requests: Vec<Option<KnownRequest>>,
    types: Vec<Option<KnownType>>,
}

/// Head of a push, with its parsed contents.
struct KnownRequest {
    connection: Token,
    /// The header and the request's number, compared under [`SAME`], and the octets behind them up to the body.
    front: u128,
    rest: Vec<u8>,
    cached_header: CachedHeader,
}

/// Parsed head of a push.
#[derive(Clone)]
pub(crate) struct CachedHeader {
    pub(crate) push: Push,
    /// Answer to the request, with its own number.
    pub(crate) answer: Answer,
    pub(crate) body_offset: usize,
    /// Code set given in the head.
    pub(crate) chars: Option<CharSet>,
}

/// Mask of the front's octets that are compared: `GIOP`, version, flags and kind. The size and the number behind them may differ.
const SAME: u128 = 0x0000_0000_0000_0000_FFFF_FFFF_FFFF_FFFF;
const FRONT: usize = 16;

/// Beginning of a proxy's events.
struct KnownType {
    source: ProxyKey,
    /// Encoding of the events.
    tag: u64,
    /// Octets up to the end of the type's name or, with a skeleton, up to the value of the body.
    beginning: Vec<u8>,
    seen: SeenType,
    /// Number of events that differed behind the type's name.
    misses: u32,
}

/// Misses after which the beginning seems to change each time. Then only each 64th is cached.
const MISSES_MAX: u32 = 8;
const MISSES_BETWEEN: u32 = 64;

/// Facts about an event, known by its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenType {
    pub(crate) event_type: TypeId,
    /// Number of octets at the beginning that identify it.
    pub(crate) length: usize,
    /// Tag of events that every consumer of the channel takes without translation.
    pub(crate) fits: Option<u64>,
    /// Skeleton of events that are equal up to the value of their body; `None` if this one has none.
    pub(crate) skeleton: Option<Skeleton>,
}

impl Default for HeaderCache {
    fn default() -> Self {
        Self { requests: (0..PLACES).map(|_| None).collect(), types: (0..PLACES).map(|_| None).collect() }
    }
}

impl HeaderCache {
    /// Empties the cache: another snapshot is in use.
    pub(crate) fn forget(&mut self) {
        // The buffers stay.
        self.requests.iter_mut().flatten().for_each(|known| known.rest.clear());
        self.types.iter_mut().flatten().for_each(|known| known.tag = NO_TAG);
    }

    /// The cached head of a request, if the connection has sent the same before.
    #[inline]
    pub(crate) fn request(&self, connection: Token, message: &Message<'_>) -> Option<CachedHeader> {
        let known = self.requests.get(connection.index() % PLACES)?.as_ref()?;
        let (front, behind) = message.bytes.split_first_chunk::<FRONT>()?;
        let front = u128::from_le_bytes(*front);
        let is_same = known.connection == connection
            && (front ^ known.front) & SAME == 0
            && !known.rest.is_empty()
            && behind.get(..known.rest.len()) == Some(&*known.rest);
        if !is_same {
            return None;
        }
        let mut cached_header = known.cached_header.clone();
        let [.., n0, n1, n2, n3] = front.to_le_bytes();
        cached_header.answer.request_id = match message.header.endian {
            Endian::Big => u32::from_be_bytes([n0, n1, n2, n3]),
            Endian::Little => u32::from_le_bytes([n0, n1, n2, n3]),
        };
        Some(cached_header)
    }

    /// Caches the head of a request.
    pub(crate) fn note_request(&mut self, connection: Token, message: &Message<'_>, cached_header: CachedHeader) {
        // Before GIOP 1.2 the number has no place of its own; and an empty body has no beginning to be found again.
        let is_placed = message.header.version >= Version::V1_2 && cached_header.body_offset < message.bytes.len();
        let Some((front, behind)) = message.bytes.split_first_chunk::<FRONT>() else { return };
        let Some(head) = behind.get(..cached_header.body_offset.saturating_sub(FRONT)).filter(|_| is_placed) else {
            return;
        };
        if head.is_empty() || head.len() > HEAD_BYTES_MAX {
            return;
        }
        let Some(place) = self.requests.get_mut(connection.index() % PLACES) else { return };
        let front = u128::from_le_bytes(*front);
        let mut rest = place.take().map_or_else(Vec::new, |known| known.rest);
        rest.clear();
        rest.extend_from_slice(head);
        *place = Some(KnownRequest { connection, front, rest, cached_header });
    }

    /// Cached facts about an event of a proxy, by its beginning.
    #[inline]
    pub(crate) fn event(&self, source: ProxyKey, tag: u64, bytes: &[u8]) -> Option<SeenType> {
        let known = self.types.get(place_of(source, tag))?.as_ref()?;
        if known.source != source || known.tag != tag {
            return None;
        }
        if bytes.starts_with(&known.beginning) {
            return Some(known.seen);
        }
        let is_same_type =
            known.seen.skeleton.is_some() && bytes.starts_with(known.beginning.get(..known.seen.length)?);
        is_same_type.then_some(SeenType { skeleton: None, ..known.seen })
    }

    /// The end of an event in a sequence, if it begins like an earlier one.
    #[inline]
    pub(crate) fn known(&self, source: ProxyKey, event: &Reader<'_>, work: &mut Work) -> Option<Known> {
        let seen = self.event(source, event::tag_of(event.encoding(), event.phase()), event.rest())?;
        seen.skeleton?.known(event, work)
    }

    /// Caches the facts about an event with this beginning.
    pub(crate) fn note_event(&mut self, source: ProxyKey, tag: u64, bytes: &[u8], mut seen: SeenType) {
        seen.skeleton = seen.skeleton.filter(|skeleton| skeleton.length <= SKELETON_BYTES_MAX);
        let length = seen.skeleton.map_or(seen.length, |skeleton| skeleton.length);
        let Some(head) = bytes.get(..length) else { return };
        if seen.event_type == TypeId::OTHER || seen.length > TYPE_BYTES_MAX {
            return;
        }
        let Some(place) = self.types.get_mut(place_of(source, tag)) else { return };
        let before = place.take();
        let misses = before.as_ref().filter(|known| known.source == source).map_or(0, |known| known.misses);
        let mut beginning = before.map_or_else(Vec::new, |known| known.beginning);
        beginning.clear();
        beginning.extend_from_slice(head);
        *place = Some(KnownType { source, tag, beginning, seen, misses });
    }

    /// Counts an event that differs behind its type's name. True if it is to be cached instead.
    pub(crate) fn note_miss(&mut self, source: ProxyKey, tag: u64) -> bool {
        let Some(Some(known)) = self.types.get_mut(place_of(source, tag)) else { return false };
        known.misses = known.misses.wrapping_add(1);
        known.misses <= MISSES_MAX || known.misses.is_multiple_of(MISSES_BETWEEN)
    }
}

/// A tag that no event has.
const NO_TAG: u64 = u64::MAX;

/// The place for events of a proxy. Those at different positions modulo 8, as in a sequence, have different places.
fn place_of(source: ProxyKey, tag: u64) -> usize {
    let proxy = (source.proxy.0 ^ source.channel.0.rotate_left(16)) as usize;
    (proxy ^ event::phase_of(tag) << 5) % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use corba::event::FORM_STRUCTURED;
    use engine::{ChannelId, ProxyId};
    use giop::cdr::{Encoding, Writer};
    use giop::message::{Header, Request, RequestHead, Response, begin_request};
    use giop::value::AnyValue;

    const SOURCE: ProxyKey = ProxyKey { channel: ChannelId(1), proxy: ProxyId(2) };

    fn request(version: Version, endian: Endian, request_id: u32, key: &[u8], body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (response, operation) = (Response::Expected, &b"push_structured_event"[..]);
        let head =
            RequestHead { version, endian, request_id, response, key, operation, contexts: &[], body_phase: None };
        let open = begin_request(&mut bytes, &head);
        bytes.extend_from_slice(body);
        open.finish(&mut bytes);
        bytes
    }

    fn message(bytes: &[u8]) -> Message<'_> {
        Message { header: Header::parse(bytes).unwrap(), bytes }
    }

    fn cached_header(message: &Message<'_>) -> CachedHeader {
        let request = Request::parse(message.bytes, &message.header).unwrap();
        let answer = Answer { request_id: request.request_id, expected: true, ..Answer::NONE };
        let push = Push::new(SOURCE, FORM_STRUCTURED);
        CachedHeader { push, answer, body_offset: request.body_offset, chars: Some(CharSet::Utf8) }
    }

    #[test]
    fn the_same_head_with_another_number_and_body_is_known() {
        let token = Token::from_bits(7);
        for endian in [Endian::Big, Endian::Little] {
            let mut header_cache = HeaderCache::default();
            let first = request(Version::V1_2, endian, 1, b"key", b"some body");
            header_cache.note_request(token, &message(&first), cached_header(&message(&first)));
            let other = request(Version::V1_2, endian, 0x0102_0304, b"key", b"quite another body");
            let known = header_cache.request(token, &message(&other)).unwrap();
            assert_eq!((known.answer.request_id, known.chars), (0x0102_0304, Some(CharSet::Utf8)));
            assert_eq!(other.get(known.body_offset..), Some(&b"quite another body"[..]));
            header_cache.forget();
            assert!(header_cache.request(token, &message(&other)).is_none(), "another snapshot is in use");
        }
    }

    #[test]
    fn whatever_differs_in_a_head_is_not_taken_for_the_same() {
        let token = Token::from_bits(7);
        let mut header_cache = HeaderCache::default();
        let first = request(Version::V1_2, Endian::Little, 1, b"key", b"body");
        let known = cached_header(&message(&first));
        header_cache.note_request(token, &message(&first), known.clone());
        let body_at = known.body_offset;
        // All but the magic, which was looked at before, the size, and the number.
        for at in (4..8).chain(FRONT..body_at) {
            let mut other = first.clone();
            other[at] ^= 1;
            let header = message(&first).header;
            assert!(header_cache.request(token, &Message { header, bytes: &other }).is_none(), "octet {at}");
        }
        for length in 0..body_at {
            let cut = Message { header: message(&first).header, bytes: &first[..length] };
            assert!(header_cache.request(token, &cut).is_none(), "{length} octets");
        }
        assert!(header_cache.request(Token::from_bits(8), &message(&first)).is_none(), "another connection");
        let successor = Token::from_bits(7 | 1 << 26);
        assert!(header_cache.request(successor, &message(&first)).is_none(), "another connection in the same place");
    }

    #[test]
    fn a_head_without_a_place_for_its_number_is_not_remembered() {
        let token = Token::from_bits(7);
        let mut header_cache = HeaderCache::default();
        for (version, body) in [(Version::V1_0, &b"body"[..]), (Version::V1_1, b"body"), (Version::V1_2, b"")] {
            let first = request(version, Endian::Little, 1, b"key", body);
            header_cache.note_request(token, &message(&first), cached_header(&message(&first)));
            assert!(header_cache.request(token, &message(&first)).is_none());
        }
    }

    #[test]
    fn an_event_type_is_known_for_one_proxy_and_encoding() {
        let mut header_cache = HeaderCache::default();
        let event_type = engine::Lane::new(engine::Time(0)).intern(b"domain", b"name");
        let seen = SeenType { event_type, length: 4, fits: Some(1), skeleton: None };
        header_cache.note_event(SOURCE, 1, b"typeother", seen);
        assert_eq!(header_cache.event(SOURCE, 1, b"type and more"), Some(seen));
        assert_eq!(header_cache.event(SOURCE, 1, b"typ"), None);
        assert_eq!(header_cache.event(SOURCE, 1, b"tyre and more"), None);
        assert_eq!(header_cache.event(SOURCE, 2, b"type and more"), None);
        let neighbour = ProxyKey { proxy: ProxyId(2 + 256), ..SOURCE };
        assert_eq!(header_cache.event(neighbour, 1, b"type and more"), None);
        header_cache.forget();
        assert_eq!(header_cache.event(SOURCE, 1, b"type and more"), None);
    }

    #[test]
    fn an_event_that_begins_otherwise_behind_its_type_is_known_by_its_type() {
        let mut bytes = Vec::new();
        let encoding = Encoding { endian: Endian::Little, version: Version::V1_2, chars: CharSet::Latin1 };
        let mut writer = Writer::new(&mut bytes, encoding);
        ["domain", "type", "name"].into_iter().for_each(|text| writer.string(text));
        writer.u32(0);
        writer.u32(0);
        AnyValue::from("text").write(&mut writer).unwrap();
        let tag = event::tag_of(encoding, 0);
        let body = event::reader(&bytes, tag);
        let header = event::read_structured(body.clone(), &mut Work::default()).unwrap();
        let skeleton = Skeleton::of(FORM_STRUCTURED, &body, &header, &mut Work::default()).unwrap();
        assert!(skeleton.is_some());
        let event_type = engine::Lane::new(engine::Time(0)).intern(b"domain", b"type");
        let seen = SeenType { event_type, length: header.behind_type, fits: Some(tag), skeleton };
        let mut header_cache = HeaderCache::default();
        header_cache.note_event(SOURCE, tag, &bytes, seen);
        assert_eq!(header_cache.event(SOURCE, tag, &bytes), Some(seen));
        let known = header_cache.known(SOURCE, &body, &mut Work::default());
        assert_eq!(known, Some(Known { length: bytes.len(), is_plain: true, is_loose: true }));
        bytes[seen.length + 8] ^= 1;
        assert_eq!(header_cache.event(SOURCE, tag, &bytes), Some(SeenType { skeleton: None, ..seen }));
        assert_eq!(header_cache.known(SOURCE, &event::reader(&bytes, tag), &mut Work::default()), None);
        let noted = (1..=1000).filter(|_| header_cache.note_miss(SOURCE, tag)).count();
        assert_eq!(noted, 8 + 15, "the first 8, then each 64th");
    }

    #[test]
    fn a_type_without_a_number_is_not_remembered() {
        let mut header_cache = HeaderCache::default();
        let seen = SeenType { event_type: TypeId::OTHER, length: 4, fits: Some(1), skeleton: None };
        header_cache.note_event(SOURCE, 1, b"type", seen);
        assert_eq!(header_cache.event(SOURCE, 1, b"type"), None);
    }
}
