//! A message of Tempo as an event: sixteen octets in front of it.

use engine::Event;
use tempo::wire::{Content, Header};

use super::FORM;

pub(crate) struct Message<'e> {
    pub(crate) sent: u64,
    pub(crate) priority: i16,
    pub(crate) content: Content,
    pub(crate) octets: &'e [u8],
}

pub(crate) fn fill(event: &mut Event, header: &Header, content: Content, octets: &[u8]) {
    event.form = FORM;
    event.tag = 0;
    event.bytes.extend_from_slice(&header.sent.to_le_bytes());
    event.bytes.extend_from_slice(&header.priority.to_le_bytes());
    event.bytes.extend_from_slice(&[content as u8, 0, 0, 0, 0, 0]);
    event.bytes.extend_from_slice(octets);
}

pub(crate) fn read(bytes: &[u8]) -> Option<Message<'_>> {
    let (sent, rest) = bytes.split_first_chunk::<8>()?;
    let (priority, rest) = rest.split_first_chunk::<2>()?;
    let (content, rest) = rest.split_first_chunk::<6>()?;
    let content = match content[0] {
        1 => Content::Typed,
        2 => Content::Structured,
        _ => Content::Octets,
    };
    Some(Message { sent: u64::from_le_bytes(*sent), priority: i16::from_le_bytes(*priority), content, octets: rest })
}
