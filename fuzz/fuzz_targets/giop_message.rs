//! One message: its head is parsed, written again, and parsed again.
#![no_main]

use giop::bidirectional;
use giop::cdr::{CharSet, Version};
use giop::message::{
    CancelRequest, Header, LocateReply, LocateRequest, MessageKind, Reply, ReplyHead, Request, RequestHead, Target,
    begin_reply, begin_request,
};
use giop::realtime::{parse_priority_context, priority_context};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| {
    let Ok(header) = Header::parse(message) else {
        return;
    };
    match header.kind {
        MessageKind::Request => request(message, &header),
        MessageKind::Reply => reply(message, &header),
        MessageKind::LocateRequest => {
            if let Ok(locate) = LocateRequest::parse(message, &header) {
                let _ = locate.target.key();
            }
        }
        MessageKind::LocateReply => {
            if let Ok(locate) = LocateReply::parse(message, &header) {
                let _ = locate.body(message, &header, CharSet::Utf8);
            }
        }
        MessageKind::CancelRequest => {
            let _ = CancelRequest::parse(message, &header);
        }
        MessageKind::CloseConnection | MessageKind::MessageError | MessageKind::Fragment => {}
    }
});

fn request(message: &[u8], header: &Header) {
    let Ok(request) = Request::parse(message, header) else {
        return;
    };
    assert!(request.body_offset <= message.len());
    let body = request.body(message, header, CharSet::Latin1);
    assert!(body.remaining() == message.len() - request.body_offset);
    let contexts: Vec<_> = request.contexts.iter().collect();
    assert_eq!(contexts.len(), request.contexts.len() as usize);
    for (_, data) in &contexts {
        if let Ok(priority) = parse_priority_context(data) {
            assert_eq!(parse_priority_context(&priority_context(priority, header.endian)), Ok(priority));
        }
        if let Ok((points, _)) = bidirectional::parse_context(data) {
            assert!(points.len() <= bidirectional::LISTEN_POINTS_MAX as usize);
        }
    }
    let Target::Key(key) = request.target else {
        let _ = request.target.key();
        return;
    };
    let head = RequestHead {
        version: header.version,
        endian: header.endian,
        request_id: request.request_id,
        response: request.response,
        key,
        operation: request.operation,
        contexts: &contexts,
        body_phase: Some(body.phase()),
    };
    let mut written = Vec::new();
    let open = begin_request(&mut written, &head);
    written.extend_from_slice(body.rest());
    open.finish(&mut written);
    let header = Header::parse(&written).unwrap();
    let again = Request::parse(&written, &header).unwrap();
    assert_eq!(again.request_id, request.request_id);
    assert_eq!(again.response, request.response);
    assert_eq!((again.target, again.operation), (Target::Key(key), request.operation));
    assert!(again.contexts.iter().eq(contexts.iter().copied()));
    let again = again.body(&written, &header, CharSet::Latin1);
    assert_eq!(again.rest(), body.rest());
    assert!(body.is_empty() || again.phase() == body.phase());
}

fn reply(message: &[u8], header: &Header) {
    let Ok(reply) = Reply::parse(message, header) else {
        return;
    };
    let body = reply.body(message, header, CharSet::Latin1);
    let contexts: Vec<_> = reply.contexts.iter().collect();
    let head = ReplyHead {
        version: header.version,
        endian: header.endian,
        request_id: reply.request_id,
        status: reply.status,
        contexts: &contexts,
    };
    let mut written = Vec::new();
    let open = begin_reply(&mut written, &head);
    written.extend_from_slice(body.rest());
    open.finish(&mut written);
    let header = Header::parse(&written).unwrap();
    let again = Reply::parse(&written, &header).unwrap();
    assert_eq!((again.request_id, again.status), (reply.request_id, reply.status));
    assert!(again.contexts.iter().eq(contexts.iter().copied()));
    let again = again.body(&written, &header, CharSet::Latin1);
    assert_eq!(again.rest(), body.rest());
    assert!(header.version < Version::V1_2 || body.is_empty() || again.phase() == 0);
}
