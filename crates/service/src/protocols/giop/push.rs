//! The path of an event: from a supplier's request to the engine, in one place.
//!
//! A push is recognised by its object key and operation, checked to a bounded depth, copied once out of the connection's buffer into a
//! pooled event, translated once for each other form that some consumer of the channel takes, and given to the engine. A consumer without a
//! backlog gets it before the supplier gets its reply. All other requests go to administration.

use std::sync::Arc;

use engine::{LaneId, PriorityModel, ProxyKey, ProxyState};
use giop::cdr::{ReadErrorKind, Reader, Version};
use giop::codeset;
use giop::exception::{Kind, OMG_MINOR, SystemException};
use giop::framing::Message;
use giop::message::{self, Header, LocateStatus, MessageKind, Request, Response, ServiceContexts};
use giop::realtime;
use giop::typecode::Work;

use crate::counters::Counter;
use crate::lane::access::Permit;
use crate::lane::intake::Submission;
use crate::lane::io::slots::Token;
use crate::lane::links::messages::ToAdministration;
use crate::lane::run::Core;
use crate::protocols::giop::admin_messages;
use crate::protocols::giop::callers::Caller;
use crate::protocols::giop::claims::{Answer, Claim, answer_done, answer_exception, exception_of};
use crate::protocols::giop::header_cache::CachedHeader;
use crate::protocols::giop::large_answers;
use crate::protocols::giop::outgoing::PROBE_KEY;
use crate::protocols::{self, giop::Protocol};
use access::{Right, Why};
use accounts::{Account, Resource};
use corba::event::{self, FORM_ANY, FORM_STRUCTURED};
use corba::keys::ObjectKey;
use corba::{ACCESS_DENIED, NO_ROOM};

/// A push for a proxy of this service.
#[derive(Clone)]
pub(crate) struct Push {
    pub(crate) source: ProxyKey,
    form: engine::Form,
    /// Whether it is a sequence of events.
    batches: bool,
    /// Lane of the push, if it is the same for all events.
    lane: Option<LaneId>,
    /// Whether the supplier's priority counts: not if the service has declared one.
    heeds_priority: bool,
    /// Event types that the pushing account is limited to.
    pub(crate) permit: Permit,
}

#[cfg(test)]
impl Push {
    pub(crate) const fn new(source: ProxyKey, form: engine::Form) -> Self {
        Self { source, form, batches: false, lane: None, heeds_priority: false, permit: None }
    }
}

impl Core {
    /// Handles one message from a client.
    ///
    /// # Errors
    /// The reason why the connection cannot be trusted any further.
    pub(crate) fn handle_message(
        &mut self,
        connection: Token,
        message: Message<'_>,
        caller: &mut Caller,
    ) -> Result<(), String> {
        caller.speech.version = message.header.version;
        match message.header.kind {
            MessageKind::Request => self.handle_request(connection, message, caller),
            MessageKind::LocateRequest => {
                let locate = message::LocateRequest::parse(message.bytes, &message.header)
                    .map_err(|error| format!("a locate request that cannot be read: {error}"))?;
                if locate.target.key() == Some(PROBE_KEY) {
                    // The probe is another service's, or this one's own, that is about to call here.
                    let Header { version, endian, .. } = message.header;
                    let nothing = LocateStatus::UnknownObject;
                    message::locate_reply(caller.output.bytes(), version, endian, locate.request_id, nothing);
                } else if !self.pass_on(connection, message, caller, false) {
                    // Before GIOP 1.2 there is no way to say "later" to this; the request that follows gets that answer.
                    let Header { version, endian, .. } = message.header;
                    let here = LocateStatus::ObjectHere;
                    message::locate_reply(caller.output.bytes(), version, endian, locate.request_id, here);
                }
                Ok(())
            }
            // Unless the cancelled request waits for events, it is done, or will be answered to a client that does not listen (9.4.4.1
            // allows that).
            MessageKind::CancelRequest => {
                if let Ok(cancel) = message::CancelRequest::parse(message.bytes, &message.header) {
                    self.protocols.giop.cancel_request(connection, cancel.request_id, caller, &mut self.cx);
                }
                Ok(())
            }
            MessageKind::CloseConnection => {
                caller.close_soon(self.cx.clock.now);
                Ok(())
            }
            // The error is not answered by another, or two peers that misunderstand each other would go on for ever.
            MessageKind::MessageError => {
                self.distrust(caller, "the client says that we sent a message it cannot read");
                Ok(())
            }
            MessageKind::Reply => self.take_in_reply(&message, caller),
            MessageKind::LocateReply | MessageKind::Fragment => {
                Err("a client sent a message that only a server sends".into())
            }
        }
    }

    /// Closes a connection after bad input, once its output is written.
    pub(crate) fn distrust(&mut self, caller: &mut Caller, why: &str) {
        self.cx.counters.add(Counter::ProtocolErrors, 1);
        self.cx.log(log::Level::Warn, || format!("closed the connection from {}: {why}", caller.address));
        caller.close_soon(self.cx.clock.now);
    }

    fn handle_request(&mut self, connection: Token, message: Message<'_>, caller: &mut Caller) -> Result<(), String> {
        if let Some(known) = self.protocols.giop.header_cache.request(connection, &message) {
            caller.speech.chars = known.chars.unwrap_or(caller.speech.chars);
            self.handle_push(connection, &message, caller, &known);
            return Ok(());
        }
        let request = Request::parse(message.bytes, &message.header)
            .map_err(|error| format!("a request header that cannot be read: {error}"))?;
        let mut answer = Answer {
            version: message.header.version,
            endian: message.header.endian,
            request_id: request.request_id,
            expected: request.response != Response::None,
            priority: None,
        };
        let mut announced = None;
        if let Some(context) = request.contexts.find(ServiceContexts::CODE_SETS) {
            match codeset::parse_context(context) {
                Ok(chars) => announced = Some(chars),
                Err(_) => {
                    answer_exception(caller, answer, SystemException::new(Kind::CodesetIncompatible, OMG_MINOR | 2));
                    return Ok(());
                }
            }
        }
        caller.speech.chars = announced.unwrap_or(caller.speech.chars);
        self.note_listing(message.header.version, &request, caller);
        if let Some(context) = request.contexts.find(ServiceContexts::CLIENT_NAME) {
            // The request is served whatever becomes of the name.
            let _ = self.cx.name_client(caller.account(), giop::client_name::parse_context(context));
        }
        if let Some(mut push) = self.find_push(&request) {
            caller.uses_proxy = true;
            let body = message::body_at(message.bytes, &message.header, request.body_offset, caller.speech.chars);
            match self.permit_push(caller.account(), &push, &body) {
                Ok(permit) => push.permit = permit,
                Err(exception) => {
                    answer_exception(caller, answer, exception);
                    return Ok(());
                }
            }
            match context_priority(&request, &push) {
                Ok(priority) => answer.priority = priority,
                Err(exception) => {
                    self.cx.counters.add(Counter::WrongPriorities, 1);
                    answer_exception(caller, answer, exception);
                    return Ok(());
                }
            }
            let known = CachedHeader { push, answer, body_offset: request.body_offset, chars: announced };
            self.protocols.giop.header_cache.note_request(connection, &message, known.clone());
            self.handle_push(connection, &message, caller, &known);
        } else if let Some(pull) = self.find_pull(&request) {
            if let Err(exception) = self.permit_pull(caller.account(), pull.key) {
                answer_exception(caller, answer, exception);
                return Ok(());
            }
            caller.lane_affinity.stay();
            caller.uses_proxy = true;
            if self.cx.identity.id == LaneId::MAIN {
                self.pull(connection, &message, &request, caller, answer, pull);
            } else {
                self.park_message(&message, caller, answer);
            }
        } else if self.must_move_for_offer(connection, &request, caller) {
            self.park_message(&message, caller, answer);
        } else {
            self.pass_request_on(connection, message, &request, caller, answer);
        }
        Ok(())
    }

    /// Notes the addresses that a request lists for calls over its connection, and the connection's code set for them.
    fn note_listing(&mut self, version: Version, request: &Request<'_>, caller: &mut Caller) {
        let outgoing = &mut self.protocols.giop.outgoing;
        if let Some(offered) = &caller.offered {
            outgoing.set_chars(offered.outgoing, caller.speech.chars);
        }
        if let Some(context) = request.contexts.find(ServiceContexts::BI_DIR_IIOP) {
            outgoing.note_listing((version, context), caller, &mut self.cx);
        }
    }

    /// Takes up what a client has offered on its connection, for a request of administration. True if the connection has to be on the main
    /// lane for that: a supplier of events leaves it with its pushes, and stays where it is for requests about its own proxy.
    fn must_move_for_offer(&mut self, connection: Token, request: &Request<'_>, caller: &mut Caller) -> bool {
        if self.cx.identity.id == LaneId::MAIN {
            self.protocols.giop.outgoing.take_offer(connection, caller, &mut self.cx);
            return false;
        }
        caller.listing.is_some() && {
            let published = self.published.load();
            let key = request.target.key().and_then(|key| published.giop.proxy(&ObjectKey::parse(key)?));
            key.and_then(|key| published.routing.supplier(key)).is_none_or(|route| route.pull)
        }
    }

    /// Recognises a push to a connected proxy. Administration answers any other request, and errors.
    pub(crate) fn find_push(&mut self, request: &Request<'_>) -> Option<Push> {
        let (form, batches) = match request.operation {
            b"push_structured_event" => (FORM_STRUCTURED, false),
            b"push" => (FORM_ANY, false),
            b"push_structured_events" => (FORM_STRUCTURED, true),
            _ => return None,
        };
        let published = self.published.load();
        let source = published.giop.proxy(&ObjectKey::parse(request.target.key()?)?)?;
        let route = published.routing.supplier(source)?;
        let takes = route.form == form && route.batches == batches && !route.pull;
        let heeds_priority = !matches!(route.priority_model, Some((PriorityModel::ServerDeclared, _)));
        let lane = match &*route.places {
            [only] => Some(only.lane),
            _ => None,
        };
        (takes && route.state != ProxyState::Unconnected).then_some(Push {
            source,
            form,
            batches,
            lane,
            heeds_priority,
            permit: None,
        })
    }

    /// Event types that a client is limited to, if it may push at all.
    pub(crate) fn permit_push(
        &mut self,
        account: &Arc<Account>,
        push: &Push,
        body: &Reader<'_>,
    ) -> Result<Permit, SystemException> {
        let channel = push.source.channel;
        self.access.may(account, Right::Publish, channel).map_err(|scope| {
            let mut why = scope.why(None);
            // Several rules say so: that of the first event's type is named.
            if matches!(why, Why::Parts(_)) {
                self.with_first_type(push, body, |of| why = scope.why(of));
            }
            self.access.deny(account, Right::Publish, channel, (why, &"a push (publish)"), &mut self.cx);
            ACCESS_DENIED
        })
    }

    /// Passes the type of a push's event, or of the first of a sequence, to `show`, if it can be read.
    #[cold]
    fn with_first_type(&mut self, push: &Push, body: &Reader<'_>, show: impl FnOnce(Option<(&[u8], &[u8])>)) {
        let mut batch = core::mem::take(&mut self.protocols.giop.batch_in);
        let mut work = event::work_for(body.remaining());
        let event = if !push.batches {
            Some(body.clone())
        } else if batch.read(body, &mut work).is_ok() {
            batch.events(body).next().map(|(event, _)| event)
        } else {
            None
        };
        let header = event.and_then(|event| {
            let mut work = event::work_for(event.remaining());
            let header = if push.form == FORM_ANY {
                event::read_any(event, &mut work)
            } else {
                event::read_header(event, &mut work)
            };
            header.ok()
        });
        show(header.as_ref().map(|header| (header.domain, header.type_name)));
        self.protocols.giop.batch_in = batch;
    }

    /// Takes a push in, or hands it to its lane.
    fn handle_push(&mut self, connection: Token, message: &Message<'_>, caller: &mut Caller, known: &CachedHeader) {
        let CachedHeader { push, answer, body_offset, .. } = known;
        let answer = *answer;
        if self.cx.reporting.draining.has_begun() {
            return self.refuse_stopping(caller, answer);
        }
        let body = message::body_at(message.bytes, &message.header, *body_offset, caller.speech.chars);
        let lane = push.lane.unwrap_or_else(|| self.lane_of(push, answer.priority, &body));
        if lane == self.cx.identity.id {
            caller.lane_affinity.note_own();
        } else if self.pass_push(connection, message, caller, answer, lane) {
            return self.note_other_lane(caller, lane);
        }
        let bytes = body.remaining();
        let mut submission = Submission::new(
            push.source,
            protocols::Claim::Giop(Claim::Client { connection, answer, bytes }),
            answer.priority,
        )
        .permitted(push.permit.clone());
        let is_read = if push.batches && self.cx.lane.schedules_topics() {
            let is_read = self.read_batch(push, &body);
            if is_read && self.begin_chunked_batch(&mut submission, &body, caller) {
                return;
            }
            is_read
        } else {
            self.take_in_body(&mut submission, push, &body)
        };
        if !is_read {
            self.cx.counters.add(Counter::WrongBodies, 1);
            return answer_exception(caller, answer, SystemException::new(Kind::Marshal, 0));
        }
        let finished = self.finish_submission(&submission);
        self.deliver();
        match finished {
            Ok(true) => answer_done(caller, answer),
            Ok(false) => caller.await_answer(bytes),
            Err(refused) => answer_exception(caller, answer, exception_of(&refused)),
        }
    }

    /// Notes that a push on a connection was for another lane.
    fn note_other_lane(&mut self, caller: &mut Caller, lane: LaneId) {
        let own = self.cx.identity.priority;
        let other = self.links.lanes.find(lane).and_then(|line| line.priority);
        if caller.offered.is_some() && caller.line.carries() {
            caller.lane_affinity.stay();
        }
        caller.lane_affinity.note_other(lane, other > own);
    }

    /// The lane of a push with events for several lanes: that of the most important event.
    fn lane_of(&mut self, push: &Push, announced: Option<i16>, body: &Reader<'_>) -> LaneId {
        let priority = announced.or_else(|| self.highest_priority(push, body));
        let route = self.cx.lane.snapshot().supplier(push.source);
        let lane = route.map(|route| route.lane_for(priority.unwrap_or(route.settings.priority)));
        lane.unwrap_or(self.cx.identity.id)
    }

    /// The highest priority in the events' headers. Unreadable headers are skipped here; intake reports them.
    fn highest_priority(&mut self, push: &Push, body: &Reader<'_>) -> Option<i16> {
        let priority_of = |event: Reader<'_>| {
            let mut work = event::work_for(event.remaining());
            event::read_header(event, &mut work).ok()?.priority
        };
        if !push.batches {
            return if push.form == FORM_STRUCTURED { priority_of(body.clone()) } else { None };
        }
        let mut batch = core::mem::take(&mut self.protocols.giop.batch_in);
        let is_read = batch.read(body, &mut event::work_for(body.remaining())).is_ok();
        let highest = if is_read { batch.events(body).filter_map(|(event, _)| priority_of(event)).max() } else { None };
        self.protocols.giop.batch_in = batch;
        highest
    }

    /// Refuses a push because the service is about to end. If another process will take over this address, the push is not answered:
    /// `CloseConnection` says at the end that it was not carried out (CORBA 3.3 part 2, 9.4.7), and the client sends it again.
    fn refuse_stopping(&self, caller: &mut Caller, answer: Answer) {
        if self.protocols.giop.address_outlives && answer.expected {
            return self.cx.counters.add(Counter::PushesDeferred, 1);
        }
        self.cx.counters.add(Counter::RefusedStopping, 1);
        answer_exception(caller, answer, SystemException::new(Kind::Transient, 0));
    }

    /// Takes in the event or events of a push. False if they cannot be read, and nothing was taken in.
    pub(crate) fn take_in_body(&mut self, submission: &mut Submission, push: &Push, body: &Reader<'_>) -> bool {
        if push.batches {
            let is_read = self.read_batch(push, body);
            if is_read {
                let batch = core::mem::take(&mut self.protocols.giop.batch_in);
                self.take_in_batch(submission, &batch, body, 0..batch.len());
                self.protocols.giop.batch_in = batch;
            }
            return is_read;
        }
        let Ok((header, seen)) = self.protocols.read_event(push.source, push.form, body) else { return false };
        let pending_event = self.protocols.pending_event(submission, push.form, body, &header, seen, &mut self.cx);
        self.admit(submission, pending_event);
        true
    }

    /// Finds the events of a sequence. False if it cannot be read.
    fn read_batch(&mut self, push: &Push, body: &Reader<'_>) -> bool {
        let Protocol { batch_in, header_cache, .. } = &mut self.protocols.giop;
        let known = |event: &Reader<'_>, work: &mut Work| header_cache.known(push.source, event, work);
        batch_in.read_knowing(body, &mut event::work_for(body.remaining()), known).is_ok()
    }

    /// Passes a request to administration. False when that has no room: the client is to get that answer and may come again.
    pub(crate) fn pass_on(
        &mut self,
        connection: Token,
        message: Message<'_>,
        caller: &mut Caller,
        may_be_large: bool,
    ) -> bool {
        self.cx.counters.add(Counter::Requests, 1);
        let bytes = message.bytes.len();
        let charged =
            caller.account().charge(Resource::RequestBytes, (bytes as u64).max(self.protocols.giop.request_bytes_min));
        let posted = match charged {
            Ok(charge) => {
                let (lane, chars, message) = (self.cx.identity.thread, caller.speech.chars, message.bytes.to_vec());
                let line = Arc::clone(&caller.line);
                let offer = caller.offered.as_ref().map(|offered| Arc::clone(&offered.offer));
                let request =
                    admin_messages::Request { lane, connection, line, offer, message, chars, charge, may_be_large };
                self.cx.update_counters();
                self.cx
                    .reporting
                    .administration
                    .send(ToAdministration::Request(protocols::Request::Giop(request)))
                    .is_ok()
            }
            Err(spent) => {
                self.cx.counters.add(Counter::of_refusal(spent), 1);
                false
            }
        };
        if posted {
            caller.await_answer(bytes);
        } else {
            self.cx.counters.add(Counter::AdministrationFull, 1);
        }
        posted
    }

    /// Passes a request to administration, and answers if there is no room. One with a possibly large answer may be deferred.
    fn pass_request_on(
        &mut self,
        connection: Token,
        message: Message<'_>,
        request: &Request<'_>,
        caller: &mut Caller,
        answer: Answer,
    ) {
        let may_be_large = large_answers::may_be_large(request);
        if may_be_large && !self.protocols.giop.large_answers.admit_large(connection, &message, caller, &mut self.cx) {
            return;
        }
        if !self.pass_on(connection, message, caller, may_be_large) {
            if may_be_large {
                self.protocols.giop.large_answers.withdraw_large(connection, caller, &mut self.cx);
            }
            answer_exception(caller, answer, NO_ROOM);
        }
    }
}

/// The Real-time CORBA priority at which a supplier pushes, if its request has one and it counts.
///
/// # Errors
/// The exception for an invalid priority: `MARSHAL` if the context is not an encapsulated `short`, since the supplier's ORB wrote it
/// wrongly. A number below 0 matches no priority of the operating system, and gets the standard's exception for a failed priority mapping:
/// `DATA_CONVERSION` with the OMG's minor code 2. The event is not taken at another priority, because a supplier that sends one relies on
/// it.
fn context_priority(request: &Request<'_>, push: &Push) -> Result<Option<i16>, SystemException> {
    let context = request.contexts.find(ServiceContexts::RT_CORBA_PRIORITY).filter(|_| push.heeds_priority);
    let Some(context) = context else { return Ok(None) };
    realtime::parse_priority_context(context).map(Some).map_err(|error| match error.kind {
        ReadErrorKind::BadValue { .. } => SystemException::new(Kind::DataConversion, OMG_MINOR | 2),
        _ => SystemException::new(Kind::Marshal, 0),
    })
}
