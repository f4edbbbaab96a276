//! Replies to clients: that a request was done, an exception with the reason why not, or administration's answer.

use corba::{ACCESS_DENIED, Exception, refused_event};
use giop::cdr::{CharSet, Endian, Version, Writer};
use giop::exception::{self, Completed, Kind, OMG_MINOR, SystemException};
use giop::message::{self, Header, MessageKind, Open, ReplyHead, ReplyStatus, Request, Response, ServiceContexts};
use giop::realtime;

use crate::lane::intake::Refused;
use crate::lane::io::slots::Token;
use crate::lane::run::Core;
use crate::protocols::giop::admin_messages;
use crate::protocols::giop::callers::{Caller, Clients};
use crate::protocols::{Answered, Fault};
use crate::store::journal::StoreRefusal;

/// Data needed to answer a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) version: Version,
    pub(crate) endian: Endian,
    pub(crate) request_id: u32,
    /// Whether a reply is sent; false for a one-way request.
    pub(crate) expected: bool,
    /// Real-time CORBA priority of the request, repeated in the reply.
    pub(crate) priority: Option<i16>,
}

/// Recipient of the acknowledgement of events.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Claim {
    /// The client that pushed them. `bytes` is the size of its request.
    Client { connection: Token, answer: Answer, bytes: usize },
    /// The proxy that pulled them.
    Puller(Token),
    /// A push served for another lane, which has its connection.
    ServedPush(Token),
}

impl Clients {
    /// Answers that events were taken in, or why not.
    pub(crate) fn answer_claim(&mut self, claim: Claim, refused: Option<Refused>, core: &mut Core) {
        let (connection, answer, bytes) = match claim {
            Claim::Client { connection, answer, bytes } => (connection, answer, bytes),
            Claim::ServedPush(served) => return core.answer_served(served, refused),
            Claim::Puller(puller) => return core.protocols.giop.resume_polling(puller, &mut core.cx),
        };
        let Some(entry) = self.incoming.get_mut(connection) else { return };
        entry.caller.note_answer(bytes);
        entry.caller.output.lend(&mut core.cx.io.spares);
        match refused {
            None => answer_done(&mut entry.caller, answer),
            Some(refused) => answer_exception(&mut entry.caller, answer, exception_of(&refused)),
        }
        self.resume(connection, core);
    }
}

/// The exception for a client when its event was not taken.
pub(crate) const fn exception_of(refused: &Refused) -> SystemException {
    match refused {
        Refused::ByEngine(refusal) => refused_event(refusal),
        Refused::NotPermitted => ACCESS_DENIED,
        Refused::Unreadable => SystemException::new(Kind::Marshal, 0),
        Refused::TooManyAwaitingFilter | Refused::NotStored(StoreRefusal::Full) => {
            SystemException::new(Kind::ImpLimit, 0)
        }
        Refused::NotStored(StoreRefusal::Failed) => SystemException::new(Kind::PersistStore, 0),
    }
}

/// Answers a request that has no result.
pub(crate) fn answer_done(caller: &mut Caller, answer: Answer) {
    #[cfg(test)]
    if crate::simulation::goes_wrong(crate::simulation::Break::MissingAnswer) {
        return;
    }
    #[cfg(test)]
    let answer = match crate::simulation::goes_wrong(crate::simulation::Break::WrongAnswer) {
        true => Answer { request_id: answer.request_id + 1, ..answer },
        false => answer,
    };
    if answer.expected {
        write_done(caller.output.bytes(), answer);
    }
}

/// Writes the reply to a request that has no result.
pub(crate) fn write_done(buffer: &mut Vec<u8>, answer: Answer) {
    let Answer { version, endian, request_id, expected: _, priority } = answer;
    if priority.is_none() {
        return message::empty_reply(buffer, version, endian, request_id);
    }
    answer.begin(buffer, ReplyStatus::NoException).finish(buffer);
}

/// Answers a request with a system exception, unless it is one-way.
pub(crate) fn answer_exception(caller: &mut Caller, answer: Answer, exception: SystemException) {
    if answer.expected {
        let chars = caller.speech.chars;
        write_exception(caller.output.bytes(), chars, answer, exception);
    }
}

/// Answers a request above the maximum message size, if its beginning has arrived: otherwise its client would only see the connection
/// closed, as by a restart.
pub(crate) fn answer_too_large(caller: &mut Caller, begun: &[u8], (size, max): (usize, usize)) {
    let Some(header) = Header::parse(begun).ok().filter(|header| header.kind == MessageKind::Request) else { return };
    let Ok(Request { request_id, response, .. }) = Request::parse(begun, &header) else { return };
    if response == Response::None {
        return;
    }
    let why = format!("the request has {size} octets, and limits.message_bytes_max of the service is {max}");
    let detail = exception::detail_context(&why);
    let contexts: &[(u32, &[u8])] = &[(ServiceContexts::EXCEPTION_DETAIL_MESSAGE, &detail)];
    let (version, endian, status) = (header.version, header.endian, ReplyStatus::SystemException);
    let buffer = caller.output.bytes();
    let open = message::begin_reply(buffer, &ReplyHead { version, endian, request_id, status, contexts });
    SystemException::new(Kind::ImpLimit, 0).write(&mut open.body(buffer, caller.speech.chars));
    open.finish(buffer);
}

/// Writes a system exception as the reply to a request.
pub(crate) fn write_exception(buffer: &mut Vec<u8>, chars: CharSet, answer: Answer, exception: SystemException) {
    let open = answer.begin(buffer, ReplyStatus::SystemException);
    exception.write(&mut open.body(buffer, chars));
    open.finish(buffer);
}

impl Answer {
    /// An answer to no request.
    pub(crate) const NONE: Self =
        Self { version: Version::V1_2, endian: Endian::Little, request_id: 0, expected: false, priority: None };

    /// Begins the reply. It repeats the priority of the request, as Real-time CORBA demands.
    pub(crate) fn begin(self, buffer: &mut Vec<u8>, status: ReplyStatus) -> Open {
        let Self { version, endian, request_id, expected: _, priority } = self;
        let priority = priority.map(|priority| realtime::priority_context(priority, endian));
        let context = priority.as_ref().map(|data| (ServiceContexts::RT_CORBA_PRIORITY, data.as_slice()));
        message::begin_reply(buffer, &ReplyHead { version, endian, request_id, status, contexts: context.as_slice() })
    }
}

/// Answers a request, other than a locate request, with the result that `execute` writes. The answer is empty for a one-way request.
pub(crate) fn answer_with(
    request: &admin_messages::Request,
    execute: impl FnOnce(&Request<'_>, &Header, &mut Writer<'_>) -> Result<(), Exception>,
) -> Option<Answered> {
    let header = Header::parse(&request.message).ok()?;
    let parsed = Request::parse(&request.message, &header).ok()?;
    let echo = parsed.contexts.find(ServiceContexts::RT_CORBA_PRIORITY);
    let echo = echo.and_then(|data| realtime::parse_priority_context(data).ok());
    let echo = echo.map(|priority| realtime::priority_context(priority, header.endian));
    let echo = echo.as_ref().map(|data| (ServiceContexts::RT_CORBA_PRIORITY, data.as_slice()));
    let head = ReplyHead {
        version: header.version,
        endian: header.endian,
        request_id: parsed.request_id,
        status: ReplyStatus::NoException,
        contexts: echo.as_slice(),
    };
    let mut bytes = Vec::new();
    let mut open = message::begin_reply(&mut bytes, &head);
    let mut body = open.body(&mut bytes, request.chars);
    // CORBA 3.3 part 1, annex A.5: minor code 1, a character that the negotiated code set lacks.
    let lacking =
        SystemException { completed: Completed::Yes, ..SystemException::new(Kind::DataConversion, OMG_MINOR | 1) };
    let executed = execute(&parsed, &header, &mut body);
    let exception = match body.lacking() {
        Some(_) if executed.is_ok() => Some(Exception::System(lacking)),
        _ => executed.err(),
    };
    if let Some(exception) = &exception {
        bytes.clear();
        let status = match exception {
            Exception::System(_) => ReplyStatus::SystemException,
            Exception::User { .. } => ReplyStatus::UserException,
            Exception::Forward(_) => ReplyStatus::LocationForward,
        };
        open = message::begin_reply(&mut bytes, &ReplyHead { status, ..head });
        exception.write(&mut open.body(&mut bytes, request.chars));
    }
    open.finish(&mut bytes);
    if parsed.response == Response::None {
        bytes.clear();
    }
    Some(Answered { bytes, fault: exception.as_ref().and_then(fault) })
}

/// The fault of a request to which an exception points.
fn fault(exception: &Exception) -> Option<Fault> {
    Some(match exception {
        Exception::System(system) => match system.kind {
            Kind::ObjectNotExist => Fault::Object,
            Kind::BadOperation => Fault::Operation,
            Kind::Marshal => Fault::Arguments,
            _ => Fault::Other,
        },
        Exception::User { .. } => Fault::Other,
        Exception::Forward(_) => return None,
    })
}
