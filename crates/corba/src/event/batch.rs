//! Sequences of structured events: split on arrival, assembled for sending.

use super::header::read_through;
use super::output_forms::{Source, encoding_for, source_for};
use super::translate::{Marks, Untranslatable, write_as};
use super::{FORM_STRUCTURED, encoding_of, is_loose, reader};
use core::ops::Range;
use engine::{Correlated, Event, Form, OutputForm};
use giop::cdr::{CharSet, Encoding, ReadError, Reader, Writer};
use giop::typecode::Work;
use std::sync::Arc;

/// Minimum size of a structured event: three lengths of strings, two counts of properties, the kind of the body.
const EVENT_BYTES_MIN: usize = 24;

/// Locations of the events in a `CosNotification::EventBatch`. Reused, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    spans: Vec<Span>,
}

/// Known properties of an event, found when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Size of the event in octets.
    pub length: usize,
    /// Whether its header has no properties.
    pub is_plain: bool,
    /// Whether nothing in it is aligned to 8, see [`tag_at`](super::tag_at).
    pub is_loose: bool,
}

/// Location of an event.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// First octet, counted from the beginning of the body.
    begin: usize,
    known: Known,
}

impl Batch {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self { spans: Vec::new() }
    }

    /// Reads the body of `push_structured_events` to its end, within `work`. [`Batch::events`] returns the result.
    ///
    /// # Errors
    ///
    /// The body is not exactly one sequence of structured events (`MARSHAL`), or exceeds `work`. Then no event may be taken from it.
    pub fn read(&mut self, body: &Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
        self.read_knowing(body, work, |_, _| None)
    }

    /// Reads a body as [`Batch::read`] does; for each event the closure may return its known end, given a reader at the event.
    ///
    /// # Errors
    ///
    /// The same as of [`Batch::read`].
    pub fn read_knowing<'a>(
        &mut self,
        body: &Reader<'a>,
        work: &mut Work,
        known: impl Fn(&Reader<'a>, &mut Work) -> Option<Known>,
    ) -> Result<(), ReadError> {
        let mut rest = body.clone();
        self.read_events(body, &mut rest, work, known)?;
        rest.finish("CosNotification::EventBatch")
    }

    /// Moves `rest` behind the sequence.
    pub(super) fn read_events<'a>(
        &mut self,
        body: &Reader<'a>,
        rest: &mut Reader<'a>,
        work: &mut Work,
        known: impl Fn(&Reader<'a>, &mut Work) -> Option<Known>,
    ) -> Result<(), ReadError> {
        self.spans.clear();
        for _ in 0..rest.seq_len(EVENT_BYTES_MIN)? {
            rest.align(4)?;
            let begin = rest.position();
            let known = match known(rest, work) {
                Some(known) => {
                    rest.take(known.length)?;
                    known
                }
                None => read_known(rest, work)?,
            };
            self.spans.push(Span { begin: begin - body.position(), known });
        }
        Ok(())
    }

    /// Empties the batch.
    pub(super) fn clear(&mut self) {
        self.spans.clear();
    }

    /// Number of events found.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Number of events that fit without more memory.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.spans.capacity()
    }

    /// Whether none was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The events in the body that was read, each with a reader over its bytes alone and its known properties. The reader's phase is part
    /// of the event's tag.
    pub fn events<'a>(&self, body: &Reader<'a>) -> impl ExactSizeIterator<Item = (Reader<'a>, Known)> {
        self.events_in(body, 0..self.len())
    }

    /// The [`events`](Self::events) within a range.
    pub fn events_in<'a>(
        &self,
        body: &Reader<'a>,
        which: Range<usize>,
    ) -> impl ExactSizeIterator<Item = (Reader<'a>, Known)> {
        let (bytes, phase) = (body.rest(), body.phase());
        let which = which.start.min(self.len())..which.end.min(self.len());
        self.spans.get(which).unwrap_or_default().iter().map(move |&Span { begin, known }| {
            let bytes = bytes.get(begin..begin + known.length).unwrap_or_default();
            (Reader::with_phase(bytes, phase + begin, body.encoding()), known)
        })
    }
}

/// Moves `rest` behind a structured event and returns its known properties.
pub(super) fn read_known(rest: &mut Reader<'_>, work: &mut Work) -> Result<Known, ReadError> {
    let begin = rest.position();
    let mut event = rest.clone().without_eights();
    let header = read_through(&mut event, work)?;
    let length = event.position() - begin;
    rest.take(length)?;
    Ok(Known { length, is_plain: !header.has_properties, is_loose: !event.has_eights() })
}

/// The encoding of a sequence of these events for a consumer with this output form. `None` if none of them could be translated for it.
///
/// The events come from different suppliers and may differ in byte order and code set: the sequence has the first one's byte order, and is
/// in UTF-8 if any of them is.
#[must_use]
pub fn batch_encoding(events: &[Arc<Event>], output_form: OutputForm) -> Option<Encoding> {
    let mut tags = events.iter().filter_map(|event| chosen(event, output_form).map(|(_, tag)| tag));
    let tag = tags.next()?;
    let first = encoding_of(tag);
    let is_utf8 =
        first.chars == CharSet::Utf8 || tags.any(|other| other != tag && encoding_of(other).chars == CharSet::Utf8);
    let chars = if is_utf8 { CharSet::Utf8 } else { CharSet::Latin1 };
    Some(encoding_for(output_form, Encoding { chars, ..first }))
}

/// Writes the body of `push_structured_events` with these events, for a consumer with this output form, with a writer in its
/// [encoding](batch_encoding). Only the writer's buffer grows. Events in the right layout are copied; others are written anew.
///
/// # Errors
///
/// None of the events can be translated for the consumer. The partial output is left.
pub fn write_batch(
    events: &[Arc<Event>],
    (output_form, repeated): (OutputForm, bool),
    left_out: &mut Vec<u32>,
    out: &mut Writer<'_>,
) -> Result<u32, Untranslatable> {
    let sources = events.iter().map(|event| {
        let (bytes, tag) = chosen(event, output_form).ok_or(Untranslatable::Already)?;
        let marks = Marks { repeated: repeated && output_form.marks_repeats(), ..Marks::default() };
        Ok((FORM_STRUCTURED, bytes, tag, marks))
    });
    write_events(sources, left_out, out)
}

/// Writes a structured event with its set and its place there in its header, for a consumer with this output form, with a writer in the
/// event's encoding. Only the writer's buffer grows.
///
/// # Errors
///
/// The event cannot be translated for the consumer. The output is removed.
pub fn write_correlated(
    event: &Event,
    output_form: OutputForm,
    correlated: Correlated,
    out: &mut Writer<'_>,
) -> Result<(), Untranslatable> {
    let (bytes, tag) = chosen(event, output_form).ok_or(Untranslatable::Already)?;
    let marks = Marks { correlated: Some(correlated), ..Marks::default() };
    write_event((FORM_STRUCTURED, bytes, tag, marks), out)
}

/// An event to be written: its form, its bytes, their tag, and its marks.
pub(super) type ToWrite<'e> = (Form, &'e [u8], u64, Marks);

/// Writes a `CosNotification::EventBatch`, returns the number of events in it, and puts the events left out into `left_out`.
///
/// # Errors
///
/// There are events and none can be written. The partial output is left.
pub(super) fn write_events<'e>(
    events: impl Iterator<Item = Result<ToWrite<'e>, Untranslatable>>,
    left_out: &mut Vec<u32>,
    out: &mut Writer<'_>,
) -> Result<u32, Untranslatable> {
    left_out.clear();
    out.align(4);
    let count_at = out.position();
    out.u32(0);
    let (mut written, mut failure) = (0_u32, None);
    for (place, event) in (0..).zip(events) {
        match event.and_then(|event| write_event(event, out)) {
            Ok(()) => written += 1,
            Err(error) => {
                left_out.push(place);
                failure = failure.or(Some(error));
            }
        }
    }
    out.patch_u32(count_at, written);
    match failure {
        Some(error) if written == 0 => Err(error),
        _ => Ok(written),
    }
}

/// Writes a structured event, copied if its layout is right for the writer.
pub(super) fn write_event(event: ToWrite<'_>, out: &mut Writer<'_>) -> Result<(), Untranslatable> {
    let (form, bytes, tag, mut marks) = event;
    let begin = out.position();
    out.align(4);
    let mut source = reader(bytes, tag);
    let aligned = source.align(4);
    let lies_so = is_loose(tag) || source.phase() == out.phase();
    if form == FORM_STRUCTURED && source.encoding() == out.encoding() && lies_so && marks.count() == 0 {
        // It was read to its end when it arrived, and its alternates were written here.
        out.raw(source.rest());
        return Ok(());
    }
    let required_form = (FORM_STRUCTURED, &mut marks);
    let written = aligned.map_err(Untranslatable::Bytes).and_then(|()| write_as(form, source, required_form, out));
    written.inspect_err(|_| out.truncate(begin))
}

/// The structured event to send: as received or translated. `None` if its translation failed.
fn chosen(event: &Event, output_form: OutputForm) -> Option<(&[u8], u64)> {
    match source_for(event, output_form)? {
        Source::Native => Some((&event.bytes, event.tag)),
        Source::Alternate(at) => event.alternates.get(at).map(|alternate| (alternate.bytes.as_slice(), alternate.tag)),
    }
}
