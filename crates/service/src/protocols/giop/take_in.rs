//! Taking in CORBA events: from the bytes of a request or a reply to the engine's pending events.
//!
//! A long sequence takes longer than many events, and would delay other clients. So only its first events are taken in at once. The rest is
//! copied out of the connection's buffer, which is not read meanwhile, and the lane looks at its sockets between one chunk and the next.

use core::ops::Range;
use std::collections::VecDeque;

use corba::event::{self, Batch, FORM_STRUCTURED, Header, Known, Skeleton};
use engine::{Event, Form, PendingEvent, ProxyKey};
use giop::cdr::{ReadError, Reader};

use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::intake::{Refused, Submission};
use crate::lane::run::Core;
use crate::protocols::Protocols;
use crate::protocols::giop::callers::{Caller, Clients};
use crate::protocols::giop::claims::Claim;
use crate::protocols::giop::header_cache::SeenType;

impl Protocols {
    /// Reads an event to its end, skipping a beginning that is cached from the supplier's earlier events.
    ///
    /// # Errors
    /// The bytes are no event of this form.
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

    /// Makes a pending event with a header that was read. If its type was `seen`, the header may lack it.
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
        // A pending event makes sure that it is not shared each time that it is written to.
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

    /// Caches the beginning of an event, its meaning, and whether it needed a translation.
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

    /// Copies the quality of service in the header to the event.
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

/// Events taken in at a time.
const EVENTS: usize = Budget::SCHEDULED.events as usize;
/// Maximum spare sequences and buffers, and their maximum capacity.
const SPARES: usize = 16;
const SPARE_BYTES: usize = 64 << 10;
const SPARE_EVENTS: usize = 4 << 10;

/// Sequences being taken in, at most one of each connection.
#[derive(Default)]
pub(crate) struct ChunkedBatches {
    begun: VecDeque<Begun>,
    spares: Vec<(Vec<u8>, Batch)>,
}

/// A sequence with some of its events taken in.
struct Begun {
    submission: Submission,
    /// Body of the request.
    bytes: Vec<u8>,
    tag: u64,
    batch: Batch,
    /// Number of events taken in.
    taken: usize,
}

impl ChunkedBatches {
    pub(crate) fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// Keeps the buffers of a sequence for reuse.
    fn keep(&mut self, bytes: Vec<u8>, batch: Batch) {
        let is_small = bytes.capacity() <= SPARE_BYTES && batch.capacity() <= SPARE_EVENTS;
        if self.spares.len() < SPARES && is_small {
            self.spares.push((bytes, batch));
        }
    }
}

impl Core {
    /// Takes in the selected events of a sequence, in order, until one is refused.
    pub(crate) fn take_in_batch(
        &mut self,
        submission: &mut Submission,
        batch: &Batch,
        body: &Reader<'_>,
        which: Range<usize>,
    ) {
        for (event, known) in batch.events_in(body, which) {
            self.take_in_one(submission, FORM_STRUCTURED, &event, known);
            if submission.is_refused() {
                return;
            }
        }
    }

    /// Takes in one event that was read to its end before.
    pub(crate) fn take_in_one(&mut self, submission: &mut Submission, form: Form, event: &Reader<'_>, known: Known) {
        let seen = self.protocols.giop.header_cache.event(
            submission.source,
            event::tag_of(event.encoding(), event.phase()),
            event.rest(),
        );
        let header = match form {
            // The event's type is known, and the header has nothing more.
            FORM_STRUCTURED if known.is_plain && seen.is_some() => Ok(Header::default()),
            FORM_STRUCTURED if let Some(skeleton) = seen.and_then(|seen| seen.skeleton) => Ok(skeleton.header()),
            FORM_STRUCTURED => event::read_header(event.clone(), &mut event::work_for(event.remaining())),
            _ => Ok(event::ANY_HEADER),
        };
        match header {
            Ok(header) => {
                let header = Header { is_loose: known.is_loose, ..header };
                let pending_event = self.protocols.pending_event(submission, form, event, &header, seen, &mut self.cx);
                self.admit(submission, pending_event);
            }
            Err(_) => submission.refuse(Refused::Unreadable),
        }
    }

    /// Takes in the first events of the sequence that was read last. True if more follow: the client is answered then, and its later
    /// messages wait.
    pub(crate) fn begin_chunked_batch(
        &mut self,
        submission: &mut Submission,
        body: &Reader<'_>,
        caller: &mut Caller,
    ) -> bool {
        let batch = core::mem::take(&mut self.protocols.giop.batch_in);
        self.take_in_batch(submission, &batch, body, 0..EVENTS);
        if batch.len() <= EVENTS || submission.is_refused() {
            self.protocols.giop.batch_in = batch;
            return false;
        }
        let (mut bytes, spare) = self.protocols.giop.chunked_batches.spares.pop().unwrap_or_default();
        self.protocols.giop.batch_in = spare;
        bytes.clear();
        bytes.extend_from_slice(body.rest());
        caller.await_answer(bytes.len());
        caller.input.has_begun = true;
        let tag = event::tag_of(body.encoding(), body.phase());
        self.protocols.giop.chunked_batches.begun.push_back(Begun {
            submission: submission.clone(),
            bytes,
            tag,
            batch,
            taken: EVENTS,
        });
        true
    }

    /// Takes in the next events of one sequence. Returns the sequence's claim when it is complete.
    fn take_in_chunk(&mut self) -> Option<crate::protocols::Claim> {
        let mut begun = self.protocols.giop.chunked_batches.begun.pop_front()?;
        let Begun { submission, bytes, tag, batch, taken } = &mut begun;
        let from = *taken;
        *taken += EVENTS;
        self.take_in_batch(submission, batch, &event::reader(bytes, *tag), from..*taken);
        if begun.taken < begun.batch.len() && !begun.submission.is_refused() {
            self.protocols.giop.chunked_batches.begun.push_back(begun);
            return None;
        }
        let Begun { submission, bytes, batch, .. } = begun;
        let finished = self.finish_submission(&submission);
        self.deliver();
        if finished != Ok(false) {
            self.intake.release(submission.claim(), finished.err());
        }
        self.protocols.giop.chunked_batches.keep(bytes, batch);
        Some(submission.claim())
    }
}

impl Clients {
    /// Takes in the next events of the sequence that has waited longest.
    pub(crate) fn serve_chunked_batches(&mut self, core: &mut Core) {
        if let Some(crate::protocols::Claim::Giop(Claim::Client { connection, .. })) = core.take_in_chunk()
            && let Some(entry) = self.incoming.get_mut(connection)
        {
            entry.caller.input.has_begun = false;
            entry.caller.rounds.has_backlog = false;
            self.resume(connection, core);
        }
    }
}
