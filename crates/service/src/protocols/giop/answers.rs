//! Answers of administration as messages.

use giop::cdr::Writer;
use giop::exception::{Completed, Kind, OMG_MINOR, SystemException};
use giop::message::{self, Header, ReplyHead, ReplyStatus, Request, Response, ServiceContexts};
use giop::realtime;

use crate::protocols::giop::admin_messages;
use crate::protocols::{Answered, Fault};
use corba::Exception;

/// Answers a request, other than a locate request, by what this writes. The answer is empty for a one-way request.
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
        };
        open = message::begin_reply(&mut bytes, &ReplyHead { status, ..head });
        exception.write(&mut open.body(&mut bytes, request.chars));
    }
    open.finish(&mut bytes);
    if parsed.response == Response::None {
        bytes.clear();
    }
    Some(Answered { bytes, fault: exception.as_ref().map(fault) })
}

/// What an exception says of its request.
fn fault(exception: &Exception) -> Fault {
    match exception {
        Exception::System(system) => match system.kind {
            Kind::ObjectNotExist => Fault::Object,
            Kind::BadOperation => Fault::Operation,
            Kind::Marshal => Fault::Arguments,
            _ => Fault::Other,
        },
        Exception::User { .. } => Fault::Other,
    }
}
