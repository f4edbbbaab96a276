//! Translation of Tempo messages for consumers of other protocols, and of those protocols' events for subscribers of Tempo
//! (`docs/tempo.md`, "Tempo's messages are CORBA's events").
//!
//! A message stays as it came; a [`Note`] beside it describes it. For consumers of other protocols it is translated into a structured
//! event, once; filters read the fields of a declared type in place ([`fields`]). An event for a subscriber of Tempo is translated into a
//! message ([`convert`]), once as well.
//!
//! A publisher's message is read once, on arrival ([`fill`]). A message that is not what its publisher says is passed on to subscribers of
//! Tempo unchanged, and as octets to all others.

mod convert;
mod fields;
#[cfg(test)]
mod tests;

use crate::lane::context::Context;
use crate::protocols::Protocols;
use corba::event::{self, Header, Translated, UtcClock};
use engine::{ChannelId, Event, Form, OutputForm, PendingEvent, ProxyKey};
use giop::cdr::{Encoding, Endian, Reader, Writer};
use giop::typecode::Kind;

use ::tempo::wire::Content;

pub(crate) use self::convert::write_message;
pub(crate) use self::fields::MessageFields;
use super::types::{DeclaredTypes, ENCODING, OCTETS};
use crate::counters::Counter;
use crate::protocols::Tag;
use crate::protocols::forms::FormFields;

/// The form of a message as it came.
pub(crate) const FORM_TEMPO: Form = Form((Tag::Tempo as u16) << 8);

/// Output form of this protocol: a message.
pub(crate) const OUTPUT_FORM: OutputForm = OutputForm((Tag::Tempo as u32) << 16);

/// Octets in front of a structured event in a message.
const PREFIX: usize = 8;

/// Description of a message's octets, stored as the event's tag.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// Content that the publisher declares; in a translated event, its actual content.
    pub(crate) content: Content,
    /// Whether the octets are a value of the topic's declared type, or a structured event of the topic's.
    pub(crate) is_read: bool,
    /// Whether an earlier process may have delivered it before.
    pub(crate) is_repeated: bool,
    /// The publisher's clock in nanoseconds, modulo 2^60, when the message was handed to it; 0 for an event that no publisher of Tempo has
    /// sent.
    pub(crate) sent: u64,
}

impl Note {
    const READ: u64 = 1 << 2;
    const REPEATED: u64 = 1 << 3;
    const SENT_SHIFT: u32 = 4;

    /// The note as an event's tag. Tags are stored on disk, so that this encoding must not change between versions.
    pub(crate) const fn tag(self) -> u64 {
        let Self { content, is_read, is_repeated, sent } = self;
        let content = match content {
            Content::Octets => 0,
            Content::Typed => 1,
            Content::Structured => 2,
        };
        let read = if is_read { Self::READ } else { 0 };
        let repeated = if is_repeated { Self::REPEATED } else { 0 };
        content | read | repeated | sent << Self::SENT_SHIFT
    }

    pub(crate) const fn of(tag: u64) -> Self {
        Self {
            content: match tag & 3 {
                1 => Content::Typed,
                2 => Content::Structured,
                _ => Content::Octets,
            },
            is_read: tag & Self::READ != 0,
            is_repeated: tag & Self::REPEATED != 0,
            sent: tag >> Self::SENT_SHIFT,
        }
    }
}

/// The tag of an event of this form that may have been delivered before.
pub(crate) const fn as_repeated(tag: u64) -> u64 {
    tag | Note::REPEATED
}

/// A message with its frame's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'m> {
    pub(crate) content: Content,
    pub(crate) octets: &'m [u8],
    /// Priority; 0 means none.
    pub(crate) priority: i16,
    /// The publisher's clock: [`Note::sent`].
    pub(crate) sent: u64,
}

/// The message that a subscriber gets of an event. `None` if it could not be translated.
pub(crate) fn message_of(event: &Event) -> Option<Message<'_>> {
    let (tag, octets) = match event.form {
        FORM_TEMPO => (event.tag, event.bytes.as_slice()),
        _ => event.alternates.find(OUTPUT_FORM).map(|alternate| (alternate.tag, alternate.bytes.as_slice()))?,
    };
    let Note { content, sent, .. } = Note::of(tag);
    Some(Message { content, octets, priority: event.priority.unwrap_or(0), sent })
}

/// Frame fields that a publisher sends with a message's octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) content: Content,
    /// Priority; 0 means none.
    pub(crate) priority: i16,
    /// The publisher's clock: [`Note::sent`].
    pub(crate) sent: u64,
}

/// Completes an event with a message as its bytes: sets its form, the description of the bytes, and the quality of service that they
/// contain. The event has its type, and [keeps its names](Event::keeps_names). False if the message is not what its publisher says.
pub(crate) fn describe(
    event: &mut Event,
    source: ProxyKey,
    said: Said,
    types: &DeclaredTypes,
    clock: &UtcClock,
) -> bool {
    let bytes = core::mem::take(&mut event.bytes);
    let is_so = describe_by(event, source, (said, &bytes), types, clock);
    event.bytes = bytes;
    is_so
}

fn describe_by(
    event: &mut Event,
    source: ProxyKey,
    (said, octets): (Said, &[u8]),
    types: &DeclaredTypes,
    clock: &UtcClock,
) -> bool {
    let Said { content, priority, sent } = said;
    event.form = FORM_TEMPO;
    event.source = source;
    // The lowest priority of the standard is -32,767.
    event.priority = Some(priority.max(-i16::MAX)).filter(|priority| *priority != 0);
    let (domain, name) = event.names();
    let declared = || types.find(source.channel, domain, name);
    let (is_read, header) = match content {
        Content::Octets | Content::Typed => (declared().is_some_and(|declared| declared.check(octets).is_ok()), None),
        Content::Structured => {
            let header = read_structured(octets, (domain, name));
            (header.is_some(), header)
        }
    };
    event.tag = Note { content, is_read, is_repeated: false, sent }.tag();
    if let Some(header) = header {
        let priority = header.priority.or(event.priority);
        header.apply(event, clock);
        event.priority = priority;
    }
    is_read || content == Content::Octets
}

impl Protocols {
    /// Completes an event that has its type, names and a message's octets with the publisher's fields, and translates it for consumers of
    /// its channel. A message that is not what its publisher says is counted.
    pub(crate) fn complete_message(
        &mut self,
        source: ProxyKey,
        pending_event: &mut PendingEvent,
        said: Said,
        cx: &mut Context,
    ) {
        let clock = UtcClock::new(cx.clock.now, cx.clock.since_1970);
        if !describe(pending_event, source, said, &self.tempo.forms.types, &clock) {
            cx.counters.add(Counter::TempoUnreadable, 1);
        }
        self.translate(source, pending_event, cx);
    }
}

/// Header of the structured event in a message, if it has exactly one of the topic's type.
fn read_structured<'m>(octets: &'m [u8], names: (&[u8], &[u8])) -> Option<Header<'m>> {
    let (encoding, body) = structured_in(octets)?;
    let header = event::read_structured(Reader::new(body, encoding), &mut event::work_for(body.len())).ok()?;
    (names == (header.domain, header.type_name)).then_some(header)
}

/// Octets of the structured event in a message, and their encoding.
fn structured_in(octets: &[u8]) -> Option<(Encoding, &[u8])> {
    let (prefix, body) = octets.split_first_chunk::<PREFIX>()?;
    let endian = match prefix {
        [0, 0, 0, 0, 0, 0, 0, 0] => Endian::Big,
        [1, 0, 0, 0, 0, 0, 0, 0] => Endian::Little,
        _ => return None,
    };
    Some((Encoding { endian, ..ENCODING }, body))
}

/// A message of an event, with all inputs for its translation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'e> {
    pub(crate) channel: ChannelId,
    /// Domain and name of its type.
    pub(crate) names: (&'e [u8], &'e [u8]),
    pub(crate) priority: Option<i16>,
    pub(crate) tag: u64,
    pub(crate) bytes: &'e [u8],
}

impl<'e> Origin<'e> {
    /// The message of an event that keeps its names and has its source.
    pub(crate) fn of(event: &'e Event) -> Self {
        let Event { priority, tag, bytes, source, .. } = event;
        Self { channel: source.channel, names: event.names(), priority: *priority, tag: *tag, bytes }
    }

    /// The priority, unless it is 0.
    pub(crate) fn said_priority(&self) -> Option<i16> {
        self.priority.filter(|priority| *priority != 0)
    }
}

/// Translates a message into a structured event, appended to `out`, which begins at a multiple of 8. Returns the event's tag.
pub(crate) fn write_structured(origin: &Origin<'_>, types: &DeclaredTypes, out: &mut Vec<u8>) -> u64 {
    let note = Note::of(origin.tag);
    let marked = |tag| if note.is_repeated { event::as_repeated(tag) } else { tag };
    if note.content == Content::Structured
        && note.is_read
        && let Some((encoding, body)) = structured_in(origin.bytes)
    {
        out.extend_from_slice(body);
        return marked(event::tag_of(encoding, 0));
    }
    let mut writer = Writer::new(out, ENCODING);
    let (domain, name) = origin.names;
    writer.string_bytes(domain);
    writer.string_bytes(name);
    writer.string_bytes(b"");
    match origin.said_priority() {
        Some(priority) => {
            writer.length(1);
            writer.string_bytes(b"Priority");
            writer.u32(Kind::Short.number());
            writer.i16(priority);
        }
        None => writer.length(0),
    }
    let begin = writer.position();
    let declared = note.is_read.then(|| types.find(origin.channel, domain, name)).flatten();
    // A message that was kept by a former process may be of a type that was declared otherwise.
    if declared.is_some_and(|declared| declared.write_properties(origin.bytes, &mut writer).is_ok()) {
        writer.u32(Kind::Null.number());
    } else {
        writer.truncate(begin);
        writer.length(0);
        writer.align(4);
        writer.raw(&OCTETS);
        writer.octets(origin.bytes);
    }
    marked(event::tag_of(ENCODING, 0))
}

/// State of a lane for translations in both directions.
#[derive(Default)]
pub(crate) struct Forms {
    pub(crate) types: std::sync::Arc<DeclaredTypes>,
    /// Buffer for structured events made of messages; reused.
    pub(crate) structured: Vec<u8>,
    /// Buffer for filters that need more than fields; reused.
    pub(crate) spare: std::cell::Cell<Vec<u8>>,
    /// Names of the type of the event being translated, and the octets of the first name.
    names: Vec<u8>,
    domain_bytes: usize,
}

impl Forms {
    pub(crate) fn new(types: std::sync::Arc<DeclaredTypes>) -> Self {
        Self { types, ..Self::default() }
    }

    /// Fields of a message, or of the structured event in it.
    pub(crate) fn fields<'e>(&'e self, event: &'e Event, utc: u64) -> FormFields<'e> {
        let Note { content, is_read, .. } = Note::of(event.tag);
        match structured_in(&event.bytes).filter(|_| content == Content::Structured && is_read) {
            Some((encoding, body)) => FormFields::Giop(event::fields_of_structured(Reader::new(body, encoding), utc)),
            None => FormFields::Tempo(MessageFields::new(event, &self.types, &self.spare, utc)),
        }
    }

    /// Translates the message of an event, which has its source and keeps its names, into a structured event, appended to `out`. Returns
    /// its tag.
    pub(crate) fn write_structured(&self, event: &Event, out: &mut Vec<u8>) -> u64 {
        write_structured(&Origin::of(event), &self.types, out)
    }

    /// Notes the names of an event's type, which are needed while the event is changed.
    pub(crate) fn note_names(&mut self, (domain, name): (&[u8], &[u8])) {
        self.names.clear();
        self.names.extend_from_slice(domain);
        self.names.extend_from_slice(name);
        self.domain_bytes = domain.len();
    }

    /// Translates the message of a channel's event into a structured event, which is stored here. The event's names were noted. Returns its
    /// tag.
    pub(crate) fn make_structured(&mut self, channel: ChannelId, event: (Option<i16>, u64, &[u8])) -> u64 {
        let Self { types, structured, names, domain_bytes, .. } = self;
        let (priority, tag, bytes) = event;
        let names = names.split_at_checked(*domain_bytes).unwrap_or_default();
        structured.clear();
        write_structured(&Origin { channel, names, priority, tag, bytes }, types, structured)
    }

    /// Translates a channel's event of another protocol into a message, appended to `out`. The event's names were noted. `None` if that is
    /// impossible; `out` is then unchanged.
    pub(crate) fn put_into_message(
        &self,
        channel: ChannelId,
        event: (Form, u64, &[u8]),
        out: &mut Vec<u8>,
    ) -> Option<Translated> {
        let (domain, name) = self.names.split_at_checked(self.domain_bytes).unwrap_or_default();
        let note = write_message(self.types.find(channel, domain, name), event, out)?;
        Some(Translated::Written { tag: note.tag(), number_at: None })
    }
}
