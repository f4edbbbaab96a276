//! The path of an event: from a supplier's request to the engine, in one place.
//!
//! A push is recognised by its object key and operation, checked to a bounded depth, copied once out of the connection's
//! buffer into a pooled event, translated once for each other form that some consumer of the channel takes, and given to
//! the engine. Whoever waits for nothing gets it written to his socket before the supplier's reply is.
//! Everything else a client can ask goes to administration.

use engine::{Admission, Event, ProxyKey, ProxyState};
use giop::codeset;
use giop::exception::{Kind, OMG_MINOR, SystemException};
use giop::framing::Message;
use giop::message::{
    self, Header, LocateStatus, MessageKind, ReplyHead, ReplyStatus, Request, Response, ServiceContexts,
};

use super::incoming::Caller;
use super::mail::{self, ToAdministration};
use super::slots::Token;
use super::worker::{Answer, Core, HeldReply};
use crate::corba::event::{self, FORM_ANY, FORM_STRUCTURED, Translated};
use crate::corba::keys::ObjectKey;
use crate::corba::refused_event;
use crate::counters::Counter;

/// Bytes of requests that may wait for administration, beside their number.
const ADMINISTRATION_BYTES_MAX: usize = 64 << 20;

/// A push that a consumer proxy of ours is to take.
struct Push {
    source: ProxyKey,
    form: engine::Form,
}

impl Core {
    /// Handles one message from a client.
    ///
    /// # Errors
    /// Says why the connection cannot be trusted any further.
    pub(crate) fn handle_message(
        &mut self,
        connection: Token,
        message: Message<'_>,
        caller: &mut Caller,
    ) -> Result<(), String> {
        caller.version = message.header.version;
        match message.header.kind {
            MessageKind::Request => self.handle_request(connection, message, caller),
            MessageKind::LocateRequest => {
                let locate = message::LocateRequest::parse(message.bytes, &message.header)
                    .map_err(|error| format!("a locate request that cannot be read: {error}"))?;
                if !self.pass_on(connection, message, caller) {
                    // Before GIOP 1.2 there is no way to say "later" to this; the request that follows is told so.
                    let Header { version, endian, .. } = message.header;
                    let here = LocateStatus::ObjectHere;
                    message::locate_reply(caller.output.bytes(), version, endian, locate.request_id, here);
                }
                Ok(())
            }
            // What it would cancel is either done or will be answered to somebody who does not listen (9.4.4.1 allows it).
            MessageKind::CancelRequest => Ok(()),
            MessageKind::CloseConnection => {
                caller.close_soon(self.now);
                Ok(())
            }
            // Not answered in kind, or two that misunderstand each other would go on for ever.
            MessageKind::MessageError => {
                self.distrust(caller, "the client says that we sent a message it cannot read");
                Ok(())
            }
            MessageKind::Reply | MessageKind::LocateReply | MessageKind::Fragment => {
                Err("a client sent a message that only a server sends".into())
            }
        }
    }

    /// Closes a connection for what was heard on it, once it has taken what it is owed.
    pub(crate) fn distrust(&mut self, caller: &mut Caller, why: &str) {
        self.counters.add(Counter::ProtocolErrors, 1);
        self.log(log::Level::Warn, || format!("closed the connection from {}: {why}", caller.address));
        caller.close_soon(self.now);
    }

    fn handle_request(&mut self, connection: Token, message: Message<'_>, caller: &mut Caller) -> Result<(), String> {
        let request = Request::parse(message.bytes, &message.header)
            .map_err(|error| format!("a request header that cannot be read: {error}"))?;
        let answer = Answer {
            version: message.header.version,
            endian: message.header.endian,
            request_id: request.request_id,
            expected: request.response != Response::None,
        };
        if let Some(context) = request.contexts.find(ServiceContexts::CODE_SETS) {
            match codeset::parse_context(context) {
                Ok(chars) => caller.chars = chars,
                Err(_) => {
                    answer_exception(caller, answer, SystemException::new(Kind::CodesetIncompatible, OMG_MINOR | 1));
                    return Ok(());
                }
            }
        }
        match self.find_push(&request) {
            Some(push) => self.push(connection, &message, &request, caller, answer, &push),
            None if self.pass_on(connection, message, caller) => {}
            None => answer_exception(caller, answer, SystemException::new(Kind::Transient, 0)),
        }
        Ok(())
    }

    /// Whether a request is an event for a connected proxy. Anything else, errors included, is administration's to answer.
    fn find_push(&mut self, request: &Request<'_>) -> Option<Push> {
        let form = match request.operation {
            b"push_structured_event" => FORM_STRUCTURED,
            b"push" => FORM_ANY,
            _ => return None,
        };
        let published = self.published.load();
        let source = published.proxy(&ObjectKey::parse(request.target.key()?)?)?;
        let route = published.routing.supplier(source)?;
        (route.form == form && route.state != ProxyState::Unconnected).then_some(Push { source, form })
    }

    fn push(
        &mut self,
        connection: Token,
        message: &Message<'_>,
        request: &Request<'_>,
        caller: &mut Caller,
        answer: Answer,
        push: &Push,
    ) {
        let body = request.body(message.bytes, &message.header, caller.chars);
        let bytes = message.bytes.get(request.body_offset..).unwrap_or(&[]);
        let mut work = event::work_for(bytes.len());
        let names = match push.form {
            FORM_STRUCTURED => {
                event::read_structured(body.clone(), &mut work).map(|head| (head.domain, head.type_name))
            }
            _ => event::read_any(body.clone(), &mut work).map(|()| (&b""[..], event::ANY_TYPE_NAME)),
        };
        let Ok((domain, type_name)) = names else {
            self.counters.add(Counter::WrongBodies, 1);
            return answer_exception(caller, answer, SystemException::new(Kind::Marshal, 0));
        };
        let mut event = self.lane.begin_event_for(bytes.len());
        let [domain_text, name_text] = &mut self.names;
        let domain = event::name_in_utf8(domain, caller.chars, domain_text);
        let type_name = event::name_in_utf8(type_name, caller.chars, name_text);
        self.lane.classify(&mut event, domain, type_name);
        event.form = push.form;
        event.tag = event::tag_of(body.encoding(), request.body_offset);
        event.bytes.extend_from_slice(bytes);
        self.translate(push.source, &mut event);
        match self.lane.handle_event(push.source, event, &engine::NoFields, self.now) {
            Admission::Accepted { .. } => {
                self.counters.add(Counter::EventBytesIn, bytes.len() as u64);
                self.deliver();
                answer_done(caller, answer);
            }
            Admission::Held(ticket) => {
                self.counters.add(Counter::EventBytesIn, bytes.len() as u64);
                self.deliver();
                caller.await_answer(bytes.len());
                self.held.insert(ticket, HeldReply { connection, reply: answer, bytes: bytes.len() });
            }
            Admission::Refused(refusal) => {
                answer_exception(caller, answer, refused_event(&refusal));
            }
            Admission::Undecided(event, _) => {
                // No remote filter can be attached yet.
                self.lane.abandon_event(event);
                answer_exception(caller, answer, SystemException::new(Kind::Transient, 0));
            }
        }
    }

    /// Puts the event into each form that some consumer of its channel takes and that it does not have yet.
    fn translate(&mut self, source: ProxyKey, event: &mut Event) {
        let Some(channel) = self.lane.snapshot().channel(source.channel) else { return };
        let Event { form, tag, bytes, alternates, .. } = event;
        for want in channel.wants() {
            if event::fits(*form, *tag, *want) {
                continue;
            }
            let alternate = alternates.push(*want);
            match event::translate(*form, *tag, bytes, *want, &mut alternate.bytes) {
                Ok(Translated::AlreadyFits) => alternates.pop(),
                Ok(Translated::Written { tag }) => {
                    alternate.tag = tag;
                    self.counters.add(Counter::Translations, 1);
                }
                Err(_) => {
                    // Consumers that want it so do without: the engine is told when their turn comes.
                    alternates.pop();
                    self.counters.add(Counter::Untranslatable, 1);
                }
            }
        }
    }

    /// Passes a request on. False when administration has no room: the client is to be told so and may come again.
    fn pass_on(&mut self, connection: Token, message: Message<'_>, caller: &mut Caller) -> bool {
        self.counters.add(Counter::Requests, 1);
        let bytes = message.bytes.len();
        let fits = self.administration_bytes.saturating_add(bytes) <= ADMINISTRATION_BYTES_MAX;
        let posted = fits && {
            let request = mail::Request { connection, message: message.bytes.to_vec(), chars: caller.chars };
            self.tally();
            self.administration.try_send(ToAdministration::Request(request)).is_ok()
        };
        if posted {
            self.administration_bytes += bytes;
            caller.await_answer(bytes);
        } else {
            self.counters.add(Counter::AdministrationFull, 1);
        }
        posted
    }
}

/// Answers a request that has no result.
pub(crate) fn answer_done(caller: &mut Caller, answer: Answer) {
    if answer.expected {
        let buffer = caller.output.bytes();
        message::begin_reply(buffer, &answer.head(ReplyStatus::NoException)).finish(buffer);
    }
}

/// Answers a request with a system exception. A one-way request gets no answer.
fn answer_exception(caller: &mut Caller, answer: Answer, exception: SystemException) {
    if answer.expected {
        let chars = caller.chars;
        let buffer = caller.output.bytes();
        let open = message::begin_reply(buffer, &answer.head(ReplyStatus::SystemException));
        exception.write(&mut open.body(buffer, chars));
        open.finish(buffer);
    }
}

impl Answer {
    pub(crate) const fn head(self, status: ReplyStatus) -> ReplyHead<'static> {
        ReplyHead { version: self.version, endian: self.endian, request_id: self.request_id, status, contexts: &[] }
    }
}
