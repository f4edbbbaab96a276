//! Events of CORBA on their way in: from the bytes of a request or a reply to what the engine takes.

use engine::{Event, Form, PendingEvent, ProxyKey};
use giop::cdr::{ReadError, Reader};

use crate::counters::Counter;
use crate::lane::context::Context;
use crate::lane::intake::Submission;
use crate::protocols::Protocols;
use crate::protocols::giop::header_cache::SeenType;
use corba::event::{self, FORM_STRUCTURED, Header, Skeleton};

impl Protocols {
    /// Reads an event to its end: as far as one of its supplier's has begun so before, what that was is known.
    ///
    /// # Errors
    /// It is not what it has to be.
    pub(crate) fn read_event<'b>(
        &self,
        source: ProxyKey,
        form: Form,
        body: &Reader<'b>,
    ) -> Result<(Header<'b>, Option<SeenType>), ReadError> {
        let seen = self.giop.header_cache.event(source, event::tag_of(body.encoding(), body.phase()), body.rest());
        let mut work = event::work_for(body.remaining());
        if let Some(skeleton) = seen.and_then(|seen| seen.skeleton)
            && let Some(known) = skeleton.known(body, &mut work)
            && known.length == body.remaining()
        {
            return Ok((Header { is_loose: known.is_loose, ..skeleton.header() }, seen));
        }
        let header = match (form, seen) {
            (FORM_STRUCTURED, Some(seen)) => event::read_behind_type(body.clone(), seen.length, &mut work),
            (FORM_STRUCTURED, None) => event::read_structured(body.clone(), &mut work),
            _ => event::read_any(body.clone(), &mut work),
        };
        Ok((header?, seen))
    }

    /// What the engine takes, of an event of which the header is known. Where its type has been `seen`, the header need not tell
    /// it.
    pub(crate) fn pending_event(
        &mut self,
        submission: &Submission,
        form: Form,
        body: &Reader<'_>,
        header: &Header<'_>,
        seen: Option<SeenType>,
        cx: &mut Context,
    ) -> PendingEvent {
        let bytes = body.rest();
        let mut pending_event = cx.lane.begin_event_for(bytes.len());
        if seen.is_none() {
            self.classify(&mut pending_event, body, header, cx);
        }
        // A draft makes sure that it is not shared each time that it is written to.
        let event: &mut Event = &mut pending_event;
        if let Some(seen) = seen {
            event.event_type = seen.event_type;
        }
        event.form = form;
        event.tag = event::tag_at(body.encoding(), body.phase(), header.is_loose);
        event.bytes.extend_from_slice(bytes);
        event.thread_priority = submission.priority;
        if header.says_quality() {
            self.note_quality(event, header, cx);
        }
        if seen.and_then(|seen| seen.fits) != Some(event.tag) {
            self.translate(submission.source, event, cx);
        }
        if seen.is_none_or(|seen| seen.skeleton.is_none()) {
            self.note_type(submission.source, body, event, header, seen, cx);
        }
        pending_event
    }

    /// Finds the number of an event's type.
    fn classify(&mut self, pending_event: &mut PendingEvent, body: &Reader<'_>, header: &Header<'_>, cx: &mut Context) {
        let chars = body.encoding().chars;
        let [domain_text, name_text] = &mut self.giop.names;
        let domain = event::name_in_utf8(header.domain, chars, domain_text);
        let type_name = event::name_in_utf8(header.type_name, chars, name_text);
        cx.lane.classify(pending_event, domain, type_name);
    }

    /// Remembers how an event begins, what that means, and whether it had to be put into another form.
    fn note_type(
        &mut self,
        source: ProxyKey,
        body: &Reader<'_>,
        event: &Event,
        header: &Header<'_>,
        seen: Option<SeenType>,
        cx: &mut Context,
    ) {
        let tag = event::tag_of(body.encoding(), body.phase());
        if seen.is_some() && !self.giop.header_cache.note_miss(source, tag) {
            return;
        }
        let Some(channel) = cx.lane.snapshot().channel(source.channel) else { return };
        let fits = channel.output_forms().iter().all(|output_form| event::fits(event.form, event.tag, *output_form));
        let length = seen.map_or(header.behind_type, |seen| seen.length);
        let mut work = event::work_for(event.bytes.len());
        let skeleton = Skeleton::of(event.form, body, header, &mut work).ok().flatten();
        let seen = SeenType { event_type: event.event_type, length, fits: fits.then_some(event.tag), skeleton };
        self.giop.header_cache.note_event(source, tag, &event.bytes, seen);
    }

    /// Takes over what the event says of how it is to be treated.
    fn note_quality(&self, event: &mut Event, header: &Header<'_>, cx: &Context) {
        event.priority = header.priority;
        event.timeout = header.timeout;
        event.start = header.start.map(|utc| self.giop.utc.lane_time(utc));
        event.stop = header.stop.map(|utc| self.giop.utc.lane_time(utc));
        event.reliability = header.reliability;
        if header.has_wrong_property {
            cx.counters.add(Counter::WrongHeaderFields, 1);
        }
    }
}
