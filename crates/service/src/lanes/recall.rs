//! What a lane remembers of the latest requests, so that it need not find it out again for each.
//!
//! A supplier sends the same request head before each event, but for its number: the octets that were parsed once are
//! compared, and what they meant is had for that. The same goes for the type that stands at the front of its events, and
//! for whether some consumer needs them put into another form. All of it holds for one routing snapshot. There are 256
//! places for connections and as many for proxies; who shares a place with another who is as busy is looked up anew, as
//! everybody was before.

use engine::{ProxyKey, TypeId};
use giop::cdr::{CharSet, Endian, Version};
use giop::framing::Message;

use super::path::Push;
use super::slots::Token;
use super::worker::Answer;

/// Connections, and proxies, of which something is remembered.
const PLACES: usize = 256;
/// The longest head of a request, and the longest beginning of an event, that is remembered.
const HEAD_BYTES_MAX: usize = 512;
const TYPE_BYTES_MAX: usize = 256;

/// See the module.
pub(crate) struct Recall {
    requests: Vec<Option<KnownRequest>>,
    types: Vec<Option<KnownType>>,
}

/// The head of a push and what it says.
struct KnownRequest {
    connection: Token,
    /// The header and the request's number as one number, to be compared under [`SAME`], and all behind them up to the body.
    front: u128,
    rest: Vec<u8>,
    recalled: Recalled,
}

/// What the head of a push says.
#[derive(Clone, Copy)]
pub(super) struct Recalled {
    pub(super) push: Push,
    /// Its number is this request's.
    pub(super) answer: Answer,
    pub(super) body_offset: usize,
    /// The code set that it tells.
    pub(super) chars: Option<CharSet>,
}

/// Of the header only the magic, the size and the number differ: `GIOP`, version, flags and kind, size, number.
const SAME: u128 = 0x0000_0000_0000_0000_FFFF_FFFF_FFFF_FFFF;
const FRONT: usize = 16;

/// The beginning of a proxy's events, up to the end of their type's name.
struct KnownType {
    source: ProxyKey,
    /// How they are encoded.
    tag: u64,
    beginning: Vec<u8>,
    seen: SeenType,
}

/// What is known of an event by its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenType {
    pub(super) event_type: TypeId,
    /// Octets that name it.
    pub(super) length: usize,
    /// Whether every consumer of the channel takes such events as they are.
    pub(super) fits: bool,
}

impl Default for Recall {
    fn default() -> Self {
        Self { requests: (0..PLACES).map(|_| None).collect(), types: (0..PLACES).map(|_| None).collect() }
    }
}

impl Recall {
    /// Forgets all: another snapshot is in use.
    pub(crate) fn forget(&mut self) {
        // The buffers stay.
        self.requests.iter_mut().flatten().for_each(|known| known.rest.clear());
        self.types.iter_mut().flatten().for_each(|known| known.tag = NO_TAG);
    }

    /// What a request says whose head the connection has sent before.
    #[inline]
    pub(super) fn request(&self, connection: Token, message: &Message<'_>) -> Option<Recalled> {
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
        let mut recalled = known.recalled;
        let [.., n0, n1, n2, n3] = front.to_le_bytes();
        recalled.answer.request_id = match message.header.endian {
            Endian::Big => u32::from_be_bytes([n0, n1, n2, n3]),
            Endian::Little => u32::from_le_bytes([n0, n1, n2, n3]),
        };
        Some(recalled)
    }

    /// Remembers what a request says.
    pub(super) fn note_request(&mut self, connection: Token, message: &Message<'_>, recalled: Recalled) {
        // Before GIOP 1.2 the number has no place of its own; and an empty body has no beginning to be found again.
        let is_placed = message.header.version >= Version::V1_2 && recalled.body_offset < message.bytes.len();
        let Some((front, behind)) = message.bytes.split_first_chunk::<FRONT>() else { return };
        let Some(head) = behind.get(..recalled.body_offset.saturating_sub(FRONT)).filter(|_| is_placed) else { return };
        if head.is_empty() || head.len() > HEAD_BYTES_MAX {
            return;
        }
        let Some(place) = self.requests.get_mut(connection.index() % PLACES) else { return };
        let front = u128::from_le_bytes(*front);
        let mut rest = place.take().map_or_else(Vec::new, |known| known.rest);
        rest.clear();
        rest.extend_from_slice(head);
        *place = Some(KnownRequest { connection, front, rest, recalled });
    }

    /// What is known of an event of a proxy by its beginning.
    #[inline]
    pub(super) fn event(&self, source: ProxyKey, tag: u64, bytes: &[u8]) -> Option<SeenType> {
        let known = self.types.get(place_of(source))?.as_ref()?;
        let is_same = known.source == source && known.tag == tag && bytes.starts_with(&known.beginning);
        is_same.then_some(known.seen)
    }

    /// Remembers what an event is that begins so.
    pub(super) fn note_event(&mut self, source: ProxyKey, tag: u64, bytes: &[u8], seen: SeenType) {
        let Some(head) = bytes.get(..seen.length) else { return };
        if seen.event_type == TypeId::OTHER || head.len() > TYPE_BYTES_MAX {
            return;
        }
        let Some(place) = self.types.get_mut(place_of(source)) else { return };
        let mut beginning = place.take().map_or_else(Vec::new, |known| known.beginning);
        beginning.clear();
        beginning.extend_from_slice(head);
        *place = Some(KnownType { source, tag, beginning, seen });
    }
}

/// A tag that no event has.
const NO_TAG: u64 = u64::MAX;

fn place_of(source: ProxyKey) -> usize {
    (source.proxy.0 ^ source.channel.0.rotate_left(16)) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corba::event::FORM_STRUCTURED;
    use engine::{ChannelId, ProxyId};
    use giop::message::{Header, Request, RequestHead, Response, begin_request};

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

    fn recalled(message: &Message<'_>) -> Recalled {
        let request = Request::parse(message.bytes, &message.header).unwrap();
        let answer = Answer { request_id: request.request_id, expected: true, ..Answer::NONE };
        let push = Push::new(SOURCE, FORM_STRUCTURED);
        Recalled { push, answer, body_offset: request.body_offset, chars: Some(CharSet::Utf8) }
    }

    #[test]
    fn the_same_head_with_another_number_and_body_is_known() {
        let token = Token::from_bits(7);
        for endian in [Endian::Big, Endian::Little] {
            let mut recall = Recall::default();
            let first = request(Version::V1_2, endian, 1, b"key", b"some body");
            recall.note_request(token, &message(&first), recalled(&message(&first)));
            let other = request(Version::V1_2, endian, 0x0102_0304, b"key", b"quite another body");
            let known = recall.request(token, &message(&other)).unwrap();
            assert_eq!((known.answer.request_id, known.chars), (0x0102_0304, Some(CharSet::Utf8)));
            assert_eq!(other.get(known.body_offset..), Some(&b"quite another body"[..]));
            recall.forget();
            assert!(recall.request(token, &message(&other)).is_none(), "another snapshot is in use");
        }
    }

    #[test]
    fn whatever_differs_in_a_head_is_not_taken_for_the_same() {
        let token = Token::from_bits(7);
        let mut recall = Recall::default();
        let first = request(Version::V1_2, Endian::Little, 1, b"key", b"body");
        let known = recalled(&message(&first));
        recall.note_request(token, &message(&first), known);
        let body_at = known.body_offset;
        // All but the magic, which was looked at before, the size, and the number.
        for at in (4..8).chain(FRONT..body_at) {
            let mut other = first.clone();
            other[at] ^= 1;
            let header = message(&first).header;
            assert!(recall.request(token, &Message { header, bytes: &other }).is_none(), "octet {at}");
        }
        for length in 0..body_at {
            let cut = Message { header: message(&first).header, bytes: &first[..length] };
            assert!(recall.request(token, &cut).is_none(), "{length} octets");
        }
        assert!(recall.request(Token::from_bits(8), &message(&first)).is_none(), "another connection");
        let successor = Token::from_bits(7 | 1 << 32);
        assert!(recall.request(successor, &message(&first)).is_none(), "another connection in the same place");
    }

    #[test]
    fn a_head_without_a_place_for_its_number_is_not_remembered() {
        let token = Token::from_bits(7);
        let mut recall = Recall::default();
        for (version, body) in [(Version::V1_0, &b"body"[..]), (Version::V1_1, b"body"), (Version::V1_2, b"")] {
            let first = request(version, Endian::Little, 1, b"key", body);
            recall.note_request(token, &message(&first), recalled(&message(&first)));
            assert!(recall.request(token, &message(&first)).is_none());
        }
    }

    #[test]
    fn an_event_type_is_known_for_one_proxy_and_encoding() {
        let mut recall = Recall::default();
        let event_type = engine::Lane::new(engine::Time(0)).intern(b"domain", b"name");
        let seen = SeenType { event_type, length: 4, fits: true };
        recall.note_event(SOURCE, 1, b"typeother", seen);
        assert_eq!(recall.event(SOURCE, 1, b"type and more"), Some(seen));
        assert_eq!(recall.event(SOURCE, 1, b"typ"), None);
        assert_eq!(recall.event(SOURCE, 1, b"tyre and more"), None);
        assert_eq!(recall.event(SOURCE, 2, b"type and more"), None);
        let neighbour = ProxyKey { proxy: ProxyId(2 + 256), ..SOURCE };
        assert_eq!(recall.event(neighbour, 1, b"type and more"), None);
        recall.forget();
        assert_eq!(recall.event(SOURCE, 1, b"type and more"), None);
    }

    #[test]
    fn a_type_without_a_number_is_not_remembered() {
        let mut recall = Recall::default();
        let seen = SeenType { event_type: TypeId::OTHER, length: 4, fits: true };
        recall.note_event(SOURCE, 1, b"type", seen);
        assert_eq!(recall.event(SOURCE, 1, b"type"), None);
    }
}
