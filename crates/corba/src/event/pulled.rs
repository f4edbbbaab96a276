//! Results of pulls: written for our pull consumers, and read from the pull suppliers that we call.

use super::batch::{Batch, Known, read_known, write_event, write_events};
use super::translate::{Marks, Untranslatable, write_as};
use super::{FORM_ANY, FORM_STRUCTURED, encoding_of, reader};
use core::num::NonZeroU64;
use engine::{Correlated, Event, Form, OutputForm};
use giop::cdr::{CharSet, Encoding, Endian, ReadError, Reader, Version, Writer};
use giop::recode::skip_any;
use giop::typecode::{Kind, Work};
use std::sync::Arc;

/// An operation that pulls events. Its result is the event or events, followed by the boolean `has_event` for a `try_…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulled {
    /// `pull` or `try_pull`: one Any.
    Any,
    /// `pull_structured_event` or `try_pull_structured_event`: one structured event.
    Structured,
    /// `pull_structured_events` or `try_pull_structured_events`: a sequence of events.
    Batch,
}

impl Pulled {
    /// The cheapest encoding of a reply with these events, in the version and code set of the requesting connection.
    #[must_use]
    pub fn encoding(events: &[Arc<Event>], version: Version, chars: CharSet) -> Encoding {
        let endian = events.first().map_or(Endian::NATIVE, |event| encoding_of(event.tag).endian);
        Encoding { endian, version, chars }
    }
}

/// Writes the result of an operation that pulled `events`: the first event, or all for [`Pulled::Batch`]. `tried` means a `try_…`
/// operation, which without events found none. `left_out` are the indexes, rising, of a batch's events that cannot be translated to the
/// writer's encoding. The output form determines the marks of the others; a single structured event has its set and its place there.
///
/// # Errors
///
/// No event can be written. The output is removed.
pub fn write_pulled(
    events: &[Arc<Event>],
    pulled: Pulled,
    tried: bool,
    (output_form, correlated): (OutputForm, Option<Correlated>),
    left_out: &mut Vec<u32>,
    out: &mut Writer<'_>,
) -> Result<(), Untranslatable> {
    left_out.clear();
    let begin = out.position();
    let mut sources = events.iter().map(|event| {
        let (form, bytes, tag) = pulled_source(event, output_form);
        let marks = Marks::of(tag, output_form, (event.number().map(NonZeroU64::get), None));
        let correlated = correlated.filter(|_| pulled == Pulled::Structured);
        (form, bytes, tag, Marks { correlated, ..marks })
    });
    let Some(first) = sources.next() else {
        write_nothing(pulled, tried, out);
        return Ok(());
    };
    let written = match (pulled, first) {
        (Pulled::Batch, first) => {
            let all = std::iter::once(first).chain(sources);
            write_events(all.map(Ok), left_out, out).map(|_| ())
        }
        (Pulled::Any, (form, bytes, tag, mut marks)) => write_as(form, reader(bytes, tag), (FORM_ANY, &mut marks), out),
        (Pulled::Structured, first) => write_event(first, out),
    };
    match written {
        Ok(_) if tried => out.bool(true),
        Ok(_) => {}
        Err(_) => out.truncate(begin),
    }
    written
}

/// An event's bytes for pull consumers, and their form: the bytes as received or, if their form is another protocol's, the structured event
/// into which that protocol has translated them.
fn pulled_source(event: &Event, output_form: OutputForm) -> (Form, &[u8], u64) {
    let arrived = (event.form, event.bytes.as_slice(), event.tag);
    if event.form == FORM_ANY || event.form == FORM_STRUCTURED {
        return arrived;
    }
    event.alternates.find(output_form).map_or(arrived, |alternate| (FORM_STRUCTURED, &*alternate.bytes, alternate.tag))
}

/// Writes one event as an Any or as a structured event, in the form of a remote filter's argument.
///
/// # Errors
///
/// The event cannot be translated to the writer's encoding. The output is removed.
pub fn write_one(
    (form, tag, bytes): (Form, u64, &[u8]),
    pulled: Pulled,
    out: &mut Writer<'_>,
) -> Result<(), Untranslatable> {
    let begin = out.position();
    let written = match pulled {
        Pulled::Any => write_as(form, reader(bytes, tag), (FORM_ANY, &mut Marks::default()), out),
        Pulled::Structured | Pulled::Batch => write_event((form, bytes, tag, Marks::default()), out),
    };
    written.inspect_err(|_| out.truncate(begin))
}

/// Writes the result of an operation without an event: the smallest value of the result's type, and `FALSE` for a `try_…`.
pub fn write_nothing(pulled: Pulled, tried: bool, out: &mut Writer<'_>) {
    match pulled {
        Pulled::Any => out.u32(Kind::Null.number()),
        Pulled::Structured => {
            (0..3).for_each(|_| out.string_bytes(b""));
            out.length(0);
            out.length(0);
            out.u32(Kind::Null.number());
        }
        Pulled::Batch => out.length(0),
    }
    if tried {
        out.bool(false);
    }
}

/// Reads the result of `pull`, `try_pull` (`tried`) or one of their structured counterparts: a reader over the bytes of the event alone and
/// its known properties; `None` if there was no event. The reader's phase is part of the event's tag.
///
/// # Errors
///
/// The body is not exactly such a result, or exceeds `work`.
pub fn read_pulled<'a>(
    form: Form,
    tried: bool,
    body: &Reader<'a>,
    work: &mut Work,
) -> Result<Option<(Reader<'a>, Known)>, ReadError> {
    let mut rest = body.clone();
    rest.align(4)?;
    let start = rest.clone();
    let known = if form == FORM_STRUCTURED {
        read_known(&mut rest, work)?
    } else {
        skip_any(&mut rest, work)?;
        Known { length: rest.position() - start.position(), is_plain: true, is_loose: !rest.has_eights() }
    };
    let has_event = !tried || rest.bool()?;
    rest.finish("the result of a pull")?;
    let bytes = start.rest().get(..known.length).unwrap_or_default();
    Ok(has_event.then(|| (Reader::with_phase(bytes, start.phase(), start.encoding()), known)))
}

impl Batch {
    /// Reads the result of `pull_structured_events` or `try_pull_structured_events` (`tried`), as [`Batch::read`] reads the body of a push.
    /// Without an event the batch is empty.
    ///
    /// # Errors
    ///
    /// The body is not such a result and nothing more, or is too intricate for `work`.
    pub fn read_pulled(&mut self, tried: bool, body: &Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
        let mut rest = body.clone();
        self.read_events(body, &mut rest, work, |_, _| None)?;
        if tried && !rest.bool()? {
            self.clear();
        }
        rest.finish("the result of a pull")
    }
}
