//! Which of an event's bytes a consumer gets: as they arrived, or put into the form that it takes.

use std::sync::Arc;

use engine::{Event, OutputForm};
use giop::cdr::Encoding;

use crate::lane::io::output::Body;
use corba::event::{self, Source};

/// What a push of these events is made of: the bytes of its one event, or nothing if it is a sequence. Nothing at all if
/// no event could be put into the form that the consumer takes.
pub(crate) fn of_push(events: &[Arc<Event>], output_form: OutputForm) -> Option<(Option<Body>, Encoding, usize)> {
    if event::takes_batches(output_form) {
        return Some((None, event::batch_encoding(events, output_form)?, 0));
    }
    let (body, encoding, phase) = choose(events.first()?, output_form)?;
    Some((Some(body), encoding, phase))
}

/// The bytes a consumer gets, their encoding, and the position modulo 8 at which they must start. Nothing if the event
/// could not be put into the form that the consumer takes.
fn choose(event: &Event, output_form: OutputForm) -> Option<(Body, Encoding, usize)> {
    let (body, tag) = match event::source_for(event, output_form)? {
        Source::Native => (Body::Native, event.tag),
        Source::Alternate(at) => (Body::Alternate(at), event.alternates.get(at)?.tag),
    };
    Some((body, sent_as(tag, output_form), event::phase_of(tag)))
}

/// How a message is encoded that carries bytes of this tag to a consumer with this want.
fn sent_as(tag: u64, output_form: OutputForm) -> Encoding {
    Encoding { version: event::version_of(output_form), ..event::encoding_of(tag) }
}
