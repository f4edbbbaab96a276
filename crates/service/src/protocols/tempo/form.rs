//! What messages of Tempo are to consumers of other protocols, and those protocols' events to subscribers of Tempo (`docs/tempo.md`,
//! "Tempo's messages are CORBA's events").
//!
//! A message stays as it came; a [`Note`] beside it says what it is. For consumers that take something else it is put into a structured
//! event, once; filters read the fields of a declared type where they lie ([`fields`]). The other way, an event for a subscriber that
//! speaks Tempo is put into a message ([`convert`]), once as well.
//!
//! What a publisher sends is read once, when it comes ([`fill`]). What is not what it says is passed on to subscribers of Tempo as it is,
//! and is octets to all others.

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

/// What consumers of this protocol need: a message.
pub(crate) const OUTPUT_FORM: OutputForm = OutputForm((Tag::Tempo as u32) << 16);

/// Octets in front of a structured event in a message.
const PREFIX: usize = 8;

/// What is known of a message's octets: an event's tag.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// What its publisher says that they are; of an event that was put into a message, what they are.
    pub(crate) content: Content,
    /// Whether they are a value of the topic's declared type, or a structured event of the topic's.
    pub(crate) is_read: bool,
    /// Whether it may have been delivered before, by a process that is no more.
    pub(crate) is_repeated: bool,
    /// The publisher's clock in nanoseconds, modulo 2^60, when the message was handed to it; 0 of an event that no publisher of Tempo has
    /// sent.
    pub(crate) sent: u64,
}

impl Note {
    const READ: u64 = 1 << 2;
    const REPEATED: u64 = 1 << 3;
    const SENT_SHIFT: u32 = 4;

    /// As an event's tag, which is also kept on the disk: it stays as it is from one version to the next.
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

/// A message as it comes and goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'m> {
    pub(crate) content: Content,
    pub(crate) octets: &'m [u8],
    /// 0 is none.
    pub(crate) priority: i16,
    /// See [`Note::sent`].
    pub(crate) sent: u64,
}

/// The message that a subscriber gets of an event. Nothing if it could not be put into one.
pub(crate) fn message_of(event: &Event) -> Option<Message<'_>> {
    let (tag, octets) = match event.form {
        FORM_TEMPO => (event.tag, event.bytes.as_slice()),
        _ => event.alternates.find(OUTPUT_FORM).map(|alternate| (alternate.tag, alternate.bytes.as_slice()))?,
    };
    let Note { content, sent, .. } = Note::of(tag);
    Some(Message { content, octets, priority: event.priority.unwrap_or(0), sent })
}

/// What a publisher says of a message, apart from its octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) content: Content,
    /// 0 is none.
    pub(crate) priority: i16,
    /// See [`Note::sent`].
    pub(crate) sent: u64,
}

/// Makes an event of a message, which its bytes are: its form, what is known of the bytes, and what they say of the event's quality of
/// service. The event has its type, and [keeps its names](Event::keeps_names). False if the message is not what its publisher says.
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
    // As the standard has it, the lowest is -32,767.
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
    /// Makes an event, which is classified and has its names and a message's octets, of what its publisher says of that, and puts it into
    /// what consumers of its channel take. Counts one that is not what its publisher says.
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

/// The header of the structured event in a message, if there is one of the topic's type and nothing more.
fn read_structured<'m>(octets: &'m [u8], names: (&[u8], &[u8])) -> Option<Header<'m>> {
    let (encoding, body) = structured_in(octets)?;
    let header = event::read_structured(Reader::new(body, encoding), &mut event::work_for(body.len())).ok()?;
    (names == (header.domain, header.type_name)).then_some(header)
}

/// The octets of the structured event in a message, and how they are encoded.
fn structured_in(octets: &[u8]) -> Option<(Encoding, &[u8])> {
    let (prefix, body) = octets.split_first_chunk::<PREFIX>()?;
    let endian = match prefix {
        [0, 0, 0, 0, 0, 0, 0, 0] => Endian::Big,
        [1, 0, 0, 0, 0, 0, 0, 0] => Endian::Little,
        _ => return None,
    };
    Some((Encoding { endian, ..ENCODING }, body))
}

/// A message in an event, with all that it takes to put it into another form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'e> {
    pub(crate) channel: ChannelId,
    /// Its type's domain and name.
    pub(crate) names: (&'e [u8], &'e [u8]),
    pub(crate) priority: Option<i16>,
    pub(crate) tag: u64,
    pub(crate) bytes: &'e [u8],
}

impl<'e> Origin<'e> {
    /// Of an event that has its names with it, and its source.
    pub(crate) fn of(event: &'e Event) -> Self {
        let Event { priority, tag, bytes, source, .. } = event;
        Self { channel: source.channel, names: event.names(), priority: *priority, tag: *tag, bytes }
    }

    /// The priority, if its header is to say one.
    pub(crate) fn said_priority(&self) -> Option<i16> {
        self.priority.filter(|priority| *priority != 0)
    }
}

/// Puts a message into a structured event, appended to `out`, which begins at a multiple of 8. Gives the event's tag.
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

/// What a lane needs to put messages into events, and events into messages.
#[derive(Default)]
pub(crate) struct Forms {
    pub(crate) types: std::sync::Arc<DeclaredTypes>,
    /// Where messages are put together as structured events; used again.
    pub(crate) structured: Vec<u8>,
    /// The same, for filters that ask for more than fields.
    pub(crate) spare: std::cell::Cell<Vec<u8>>,
    /// The names of the type of the event that is put into other forms, and octets of the first.
    names: Vec<u8>,
    domain_bytes: usize,
}

impl Forms {
    pub(crate) fn new(types: std::sync::Arc<DeclaredTypes>) -> Self {
        Self { types, ..Self::default() }
    }

    /// The fields of a message, or of the structured event in it.
    pub(crate) fn fields<'e>(&'e self, event: &'e Event, utc: u64) -> FormFields<'e> {
        let Note { content, is_read, .. } = Note::of(event.tag);
        match structured_in(&event.bytes).filter(|_| content == Content::Structured && is_read) {
            Some((encoding, body)) => FormFields::Giop(event::fields_of_structured(Reader::new(body, encoding), utc)),
            None => FormFields::Tempo(MessageFields::new(event, &self.types, &self.spare, utc)),
        }
    }

    /// Puts the message of an event, which has its source and keeps its names, into a structured event, appended to `out`. Gives its tag.
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

    /// Puts the message of a channel's event into a structured event, which is kept here. The event's names were noted. Gives its tag.
    pub(crate) fn make_structured(&mut self, channel: ChannelId, event: (Option<i16>, u64, &[u8])) -> u64 {
        let Self { types, structured, names, domain_bytes, .. } = self;
        let (priority, tag, bytes) = event;
        let names = names.split_at_checked(*domain_bytes).unwrap_or_default();
        structured.clear();
        write_structured(&Origin { channel, names, priority, tag, bytes }, types, structured)
    }

    /// Puts a channel's event of another protocol into a message, appended to `out`. The event's names were noted. Nothing if that cannot
    /// be done; `out` is as it was then.
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
