//! The orb against servers that answer wrongly, late, elsewhere or not at all.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use campanile_client::{InvokeError, ObjectRef, Orb, OrbOptions, Servant, ServantError};
use giop::cdr::{CharSet, Endian, Reader, Version, Writer};
use giop::exception::Completed;
use giop::framing::{Inbound, Limits};
use giop::ior::{IiopProfile, Ior};
use giop::message::{self, CancelRequest, MessageKind, ReplyHead, ReplyStatus, Request};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use testing::{AcceptInTime, EndInTime, NextInTime};

const ANSWER: i32 = 42;

/// One accepted connection of a server made for a test.
struct Peer {
    stream: TcpStream,
    inbound: Inbound,
}

impl Peer {
    /// Waits for a request and gives its id; `None` when the client closed.
    fn request(&mut self) -> Option<u32> {
        loop {
            if let Some(message) = self.inbound.poll_message().unwrap() {
                if message.header.kind == MessageKind::CancelRequest {
                    continue;
                }
                if message.header.kind != MessageKind::Request {
                    return None;
                }
                return Some(Request::parse(message.bytes, &message.header).unwrap().request_id);
            }
            match self.stream.read(self.inbound.space()) {
                Ok(0) | Err(_) => return None,
                Ok(n) => self.inbound.filled(n),
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        // The client may have had enough.
        let _ = self.stream.write_all(bytes);
    }

    fn answer(&mut self, id: u32) {
        self.send(&reply(id, ReplyStatus::NoException, |w| w.i32(ANSWER)));
    }
}

fn reply(id: u32, status: ReplyStatus, body: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buffer = Vec::new();
    let head = ReplyHead { version: Version::V1_2, endian: Endian::Big, request_id: id, status, contexts: &[] };
    let open = message::begin_reply(&mut buffer, &head);
    body(&mut open.body(&mut buffer, CharSet::Latin1));
    open.finish(&mut buffer);
    buffer
}

/// Runs `serve` on the connections accepted, one after another: `connections` of them.
fn server(connections: usize, mut serve: impl FnMut(usize, &mut Peer) + Send + 'static) -> (Ior, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = thread::spawn(move || {
        for connection in 0..connections {
            let stream = listener.accept_in_time();
            serve(connection, &mut Peer { stream, inbound: Inbound::new(Limits::default()) });
        }
    });
    (ior(port), thread)
}

fn ior(port: u16) -> Ior {
    let profile = IiopProfile {
        version: Version::V1_2,
        host: "127.0.0.1".into(),
        port,
        key: b"key".to_vec(),
        components: Vec::new(),
    };
    Ior::new("IDL:Test/Thing:1.0", profile)
}

fn object(ior: Ior) -> ObjectRef {
    Orb::new(OrbOptions::default()).object(ior)
}

fn ask(object: &ObjectRef) -> Result<i32, InvokeError> {
    object.invoke("ask", |_| ())?.read("ask", Reader::i32)
}

/// The error of a call that is answered with `bytes` made from the request's id.
fn error_after(bytes: impl Fn(u32) -> Vec<u8> + Send + 'static) -> InvokeError {
    let (ior, thread) = server(1, move |_, peer| {
        let id = peer.request().unwrap();
        peer.send(&bytes(id));
        // Until the client closes.
        while peer.request().is_some() {}
    });
    let object = object(ior);
    let error = ask(&object).unwrap_err();
    drop(object);
    thread.end_in_time();
    error
}

/// A port without a listener, that is given to none: one that was free a moment ago may be another test's now.
const NOBODYS_PORT: u16 = 9;

#[test]
fn a_missing_listener_is_reported_with_the_address() {
    let port = NOBODYS_PORT;
    let error = ask(&object(ior(port))).unwrap_err();
    assert!(error.is("TRANSIENT"), "{error}");
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
}

#[test]
fn next_address_is_tried() {
    let (good, thread) = server(1, |_, peer| {
        let id = peer.request().unwrap();
        peer.answer(id);
    });
    let mut both = ior(NOBODYS_PORT);
    both.profiles.extend(good.profiles);
    assert_eq!(ask(&object(both)).unwrap(), ANSWER);
    thread.end_in_time();
}

#[test]
fn reply_to_another_request_is_refused() {
    let error = error_after(|id| reply(id + 1, ReplyStatus::NoException, |w| w.i32(1)));
    assert!(error.to_string().contains("not sent"), "{error}");
    assert!(error.is("MARSHAL"));
}

#[test]
fn reply_cut_short_is_refused() {
    let error = error_after(|id| reply(id, ReplyStatus::NoException, |w| w.u16(1)));
    assert!(matches!(error, InvokeError::BadReply { .. }), "{error}");
}

#[test]
fn reply_with_bytes_left_over_is_refused() {
    let error = error_after(|id| {
        reply(id, ReplyStatus::NoException, |w| {
            w.i32(1);
            w.i32(2);
        })
    });
    assert!(matches!(error, InvokeError::BadReply { .. }), "{error}");
}

#[test]
fn messages_a_client_does_not_expect_are_refused() {
    let huge = b"GIOP\x01\x02\x01\x01\xff\xff\xff\xff".to_vec();
    let request = b"GIOP\x01\x02\x01\x00\x04\x00\x00\x00\x01\x00\x00\x00".to_vec();
    let header_only = b"GIOP\x01\x02\x01\x01\x00\x00\x00\x00".to_vec();
    for bytes in [huge, request, header_only, b"HTTP/1.1 400 Bad Request\r\n".to_vec()] {
        let error = error_after(move |_| bytes.clone());
        assert!(matches!(error, InvokeError::BadReply { .. }), "{error}");
    }
}

#[test]
fn unreadable_exceptions_are_refused() {
    for status in [ReplyStatus::SystemException, ReplyStatus::UserException, ReplyStatus::LocationForward] {
        let error = error_after(move |id| reply(id, status, |w| w.u32(0xffff_ffff)));
        assert!(matches!(error, InvokeError::BadReply { .. }), "{error}");
    }
}

#[test]
fn every_truncation_of_a_reply_ends_in_an_error() {
    let length = reply(1, ReplyStatus::NoException, |w| w.i32(1)).len();
    for cut in 0..length {
        let (ior, thread) = server(1, move |_, peer| {
            let id = peer.request().unwrap();
            let bytes = reply(id, ReplyStatus::NoException, |w| w.i32(1));
            peer.send(&bytes[..cut]);
        });
        let error = ask(&object(ior)).unwrap_err();
        assert!(matches!(error, InvokeError::Lost { completed: Completed::Maybe, .. }), "{cut}: {error}");
        thread.end_in_time();
    }
}

#[test]
fn connection_closed_in_order_is_made_again() {
    let (ior, thread) = server(2, |connection, peer| {
        let id = peer.request().unwrap();
        if connection == 0 {
            let mut farewell = Vec::new();
            message::close_connection(&mut farewell, Version::V1_2);
            peer.send(&farewell);
        } else {
            peer.answer(id);
        }
    });
    assert_eq!(ask(&object(ior)).unwrap(), ANSWER);
    thread.end_in_time();
}

#[test]
fn server_that_always_closes_is_not_tried_for_ever() {
    let (ior, thread) = server(2, |_, peer| {
        peer.request().unwrap();
        let mut farewell = Vec::new();
        message::close_connection(&mut farewell, Version::V1_2);
        peer.send(&farewell);
    });
    let error = ask(&object(ior)).unwrap_err();
    assert!(error.was_not_carried_out(), "{error}");
    thread.end_in_time();
}

#[test]
fn connection_that_breaks_is_not_tried_again_since_the_request_may_have_been_carried_out() {
    let (ior, thread) = server(1, |_, peer| {
        peer.request().unwrap();
    });
    let error = ask(&object(ior)).unwrap_err();
    assert!(matches!(error, InvokeError::Lost { completed: Completed::Maybe, .. }), "{error}");
    thread.end_in_time();
}

#[test]
fn call_ends_at_its_time_limit_and_a_late_reply_is_dropped() {
    let (go, wait) = mpsc::channel::<()>();
    let (ior, thread) = server(1, move |_, peer| {
        let first = peer.request().unwrap();
        peer.answer(first);
        let late = peer.request().unwrap();
        wait.next_in_time();
        peer.answer(late);
        let second = peer.request().unwrap();
        peer.send(&reply(second, ReplyStatus::NoException, |w| w.i32(2)));
    });
    // The limit belongs to the handle; both use the orb's connection, which is there, so that the request leaves in any case.
    let patient = object(ior);
    assert_eq!(ask(&patient).unwrap(), ANSWER);
    let hasty = patient.with_reply_timeout(Some(Duration::from_millis(20)));
    let error = ask(&hasty).unwrap_err();
    assert!(matches!(error, InvokeError::TimedOut { .. }), "{error}");
    assert!(!error.was_not_carried_out());
    go.send(()).unwrap();
    assert_eq!(ask(&patient).unwrap(), 2);
    thread.end_in_time();
}

#[test]
fn server_is_notified_when_no_client_waits_for_its_reply_any_more() {
    let (ior, thread) = server(1, |_, peer| {
        let first = peer.request().unwrap();
        peer.answer(first);
        let late = peer.request().unwrap();
        let cancelled = loop {
            if let Some(message) = peer.inbound.poll_message().unwrap() {
                break CancelRequest::parse(message.bytes, &message.header).unwrap().request_id;
            }
            let read = peer.stream.read(peer.inbound.space()).unwrap();
            assert_ne!(read, 0);
            peer.inbound.filled(read);
        };
        assert_eq!(cancelled, late);
        let next = peer.request().unwrap();
        peer.answer(next);
    });
    let patient = object(ior);
    assert_eq!(ask(&patient).unwrap(), ANSWER);
    let hasty = patient.with_reply_timeout(Some(Duration::from_millis(20)));
    assert!(matches!(ask(&hasty).unwrap_err(), InvokeError::TimedOut { .. }));
    assert_eq!(ask(&patient).unwrap(), ANSWER);
    thread.end_in_time();
}

#[test]
fn replies_find_their_callers_in_whatever_order_they_come() {
    const CALLERS: u32 = 4;
    let (ior, thread) = server(1, |_, peer| {
        let mut ids: Vec<u32> = (0..CALLERS).map(|_| peer.request().unwrap()).collect();
        ids.reverse();
        for id in ids {
            peer.answer(id);
        }
    });
    let object = object(ior);
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| assert_eq!(ask(&object).unwrap(), ANSWER));
        }
    });
    thread.end_in_time();
}

#[test]
fn every_caller_learns_that_the_connection_broke() {
    const CALLERS: u32 = 4;
    let (ior, thread) = server(1, |_, peer| {
        for _ in 0..CALLERS {
            peer.request().unwrap();
        }
    });
    let object = object(ior);
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| assert!(ask(&object).unwrap_err().is("COMM_FAILURE")));
        }
    });
    thread.end_in_time();
}

struct Answerer;

impl Servant for Answerer {
    fn type_id(&self) -> &str {
        "IDL:Test/Thing:1.0"
    }

    fn invoke(&self, _: &str, _: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<(), ServantError> {
        reply.i32(ANSWER);
        Ok(())
    }
}

#[test]
fn forwarded_call_reaches_the_object_and_stays_there() {
    let activation = Orb::new(OrbOptions::default()).activate(Arc::new(Answerer)).unwrap();
    let elsewhere = activation.reference().ior().clone();
    let (ior, thread) = server(1, move |_, peer| {
        let id = peer.request().unwrap();
        peer.send(&reply(id, ReplyStatus::LocationForward, |w| elsewhere.write(w)));
        assert_eq!(peer.request(), None, "later calls go straight to the object");
    });
    let object = object(ior);
    for _ in 0..3 {
        assert_eq!(ask(&object).unwrap(), ANSWER);
    }
    drop(object);
    thread.end_in_time();
}

#[test]
fn object_that_left_its_forward_is_asked_for_at_its_first_address_again() {
    let activation = Orb::new(OrbOptions::default()).activate(Arc::new(Answerer)).unwrap();
    let orb = activation.orb().clone();
    let elsewhere = activation.reference().ior().clone();
    let (ior, thread) = server(1, move |_, peer| {
        let id = peer.request().unwrap();
        peer.send(&reply(id, ReplyStatus::LocationForward, |w| elsewhere.write(w)));
        let id = peer.request().unwrap();
        peer.send(&reply(id, ReplyStatus::NoException, |w| w.i32(7)));
    });
    let object = object(ior);
    assert_eq!(ask(&object).unwrap(), ANSWER);
    drop(activation);
    assert_eq!(ask(&object).unwrap(), 7);
    drop(orb);
    thread.end_in_time();
}

#[test]
fn circle_of_forwards_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let itself = ior(listener.local_addr().unwrap().port());
    let target = itself.clone();
    let thread = thread::spawn(move || {
        let stream = listener.accept_in_time();
        let mut peer = Peer { stream, inbound: Inbound::new(Limits::default()) };
        while let Some(id) = peer.request() {
            peer.send(&reply(id, ReplyStatus::LocationForward, |w| itself.write(w)));
        }
    });
    let object = object(target);
    let error = ask(&object).unwrap_err();
    assert!(matches!(error, InvokeError::TooManyForwards), "{error}");
    drop(object);
    thread.end_in_time();
}

#[test]
fn connections_that_send_nothing_or_half_a_message_are_closed_in_time() {
    let options = OrbOptions { idle_limit: Some(Duration::from_millis(50)), ..OrbOptions::default() };
    let activation = Orb::new(options).activate(Arc::new(Answerer)).unwrap();
    let profile = activation.reference().ior().iiop().unwrap().clone();
    for (sent, dropped) in [(&b""[..], 0), (b"GIOP\x01\x02\x00\x00\x00\x00\x00\x20half", 1)] {
        let mut stream = TcpStream::connect((profile.host.as_str(), profile.port)).unwrap();
        testing::patient(&stream);
        stream.write_all(sent).unwrap();
        let mut octets = Vec::new();
        stream.read_to_end(&mut octets).unwrap();
        assert!(octets.starts_with(b"GIOP") && octets[7] == MessageKind::CloseConnection as u8, "{octets:?}");
        assert_eq!(activation.orb().served().connections_dropped, dropped);
    }
}
