//! What the standard says of a connection, in bytes.

use super::*;
use crate::cdr::{CharSet, Endian};
use crate::framing::Limits;
use crate::message::{self, ReplyHead, RequestHead, Response};
use alloc::string::ToString;
use alloc::vec;

/// What an event was, without what it borrows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Request(u32),
    Locate(u32),
    Cancel(u32),
    Reply(u32),
    Late(u32),
    Closed(Closed),
}

struct End {
    connection: Connection<u32>,
    inbound: Inbound,
}

impl End {
    fn new(side: Side) -> Self {
        Self { connection: Connection::new(side), inbound: Inbound::new(Limits::default()) }
    }

    /// Sends as many requests, each waited for by its own id.
    fn asking(requests: u32) -> Self {
        let mut end = Self::new(Side::Caller);
        for _ in 0..requests {
            end.ask();
        }
        end
    }

    fn ask(&mut self) -> u32 {
        let id = self.connection.next_id();
        assert_eq!(self.connection.sent(Some(id)), id);
        id
    }

    fn hear(&mut self, bytes: &[u8]) -> Vec<Seen> {
        let mut seen = Vec::new();
        // In pieces that end anywhere.
        for piece in bytes.chunks(7) {
            self.inbound.space()[..piece.len()].copy_from_slice(piece);
            self.inbound.filled(piece.len());
            while let Some(event) = self.connection.poll(&mut self.inbound) {
                seen.push(match event {
                    Event::Request(message) => match message::Request::parse(message.bytes, &message.header) {
                        Ok(request) => Seen::Request(request.request_id),
                        Err(error) => Seen::Closed(self.connection.malformed(error)),
                    },
                    Event::Locate { request, .. } => Seen::Locate(request.request_id),
                    Event::Cancel { request_id } => Seen::Cancel(request_id),
                    Event::Reply { who, reply, message } => {
                        assert_eq!(who, reply.request_id);
                        assert!(reply.body_offset <= message.bytes.len());
                        Seen::Reply(who)
                    }
                    Event::LateReply { request_id } => Seen::Late(request_id),
                    Event::Closed(closed) => Seen::Closed(closed),
                });
            }
        }
        seen
    }
}

fn reply(version: Version, request_id: u32, body: &[u8]) -> Vec<u8> {
    let mut buf = Vec::new();
    let head = ReplyHead { version, endian: Endian::Big, request_id, status: ReplyStatus::NoException, contexts: &[] };
    let open = message::begin_reply(&mut buf, &head);
    if !body.is_empty() {
        open.body(&mut buf, CharSet::Latin1).octets(body);
    }
    open.finish(&mut buf);
    buf
}

fn request(request_id: u32) -> Vec<u8> {
    let mut buf = Vec::new();
    let head = RequestHead {
        version: Version::V1_2,
        endian: Endian::Little,
        request_id,
        response: Response::Expected,
        key: b"key",
        operation: b"push",
        contexts: &[],
        body_phase: None,
    };
    message::begin_request(&mut buf, &head).finish(&mut buf);
    buf
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut buf = Vec::new();
    write(&mut buf);
    buf
}

/// The message cut after `at` octets into two parts (9.4.9): GIOP 1.2, in which fragments repeat the request's id.
fn fragmented(message: &[u8], at: usize, request_id: u32) -> [Vec<u8>; 2] {
    let part = |kind: u8, flags: u8, body: &[u8]| {
        let size = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&b"GIOP\x01\x02"[..], &[flags, kind], &size, body].concat()
    };
    let rest = [&request_id.to_be_bytes()[..], &message[at..]].concat();
    [part(message[7], 2, &message[12..at]), part(7, 0, &rest)]
}

#[test]
fn replies_come_in_any_order_and_of_every_version() {
    let mut end = End::asking(4);
    let bytes = [
        reply(Version::V1_2, 3, b"result"),
        reply(Version::V1_0, 1, b""),
        reply(Version::V1_1, 4, b"x"),
        reply(Version::V1_2, 2, b""),
    ];
    assert_eq!(end.hear(&bytes.concat()), [3, 1, 4, 2].map(Seen::Reply));
    assert_eq!((end.connection.waiting(), end.connection.closed()), (0, None));
}

#[test]
fn a_reply_without_a_request_ends_the_connection_with_a_message_error() {
    for bytes in [
        reply(Version::V1_2, 2, b""),
        [reply(Version::V1_2, 1, b""), reply(Version::V1_2, 1, b"")].concat(),
        reply(Version::V1_2, 0, b""),
    ] {
        let mut end = End::asking(1);
        let seen = end.hear(&bytes);
        assert!(
            matches!(seen.last(), Some(Seen::Closed(Closed::Violation(Violation::UnsolicitedReply { .. })))),
            "{seen:?}"
        );
        assert_eq!(written(|buf| end.connection.refuse(buf)), written(|buf| message_error(buf, Version::V1_2)));
        // Nothing is heard of such a peer any more.
        assert_eq!(end.hear(&reply(Version::V1_2, 1, b"")), []);
    }
}

#[test]
fn the_reply_to_a_one_way_is_not_waited_for() {
    let mut end = End::asking(1);
    let id = end.connection.sent(None);
    assert_eq!((id, end.connection.waiting()), (2, 1));
    let violation = Closed::Violation(Violation::UnsolicitedReply { request_id: 2 });
    assert_eq!(end.hear(&reply(Version::V1_2, 2, b"")), [Seen::Closed(violation)]);
}

#[test]
fn fragments_of_several_replies_and_other_messages_come_between_each_other() {
    let mut end = End::asking(3);
    let [a, b] = fragmented(&reply(Version::V1_2, 1, &[7; 100]), 40, 1);
    let [c, d] = fragmented(&reply(Version::V1_2, 2, &[8; 100]), 80, 2);
    let seen = end.hear(&[a, c, reply(Version::V1_2, 3, b""), d, b].concat());
    assert_eq!(seen, [3, 2, 1].map(Seen::Reply));
}

#[test]
fn a_call_that_waits_when_the_server_closes_in_order_was_not_served() {
    let mut end = End::asking(3);
    let farewell = written(|buf| close_connection(buf, Version::V1_2));
    let seen = end.hear(&[reply(Version::V1_2, 2, b""), farewell, reply(Version::V1_2, 1, b"")].concat());
    assert_eq!(seen, [Seen::Reply(2), Seen::Closed(Closed::Orderly)]);
    // The socket ends behind it, which changes nothing.
    assert_eq!(end.connection.cut(), Closed::Orderly);
    assert_eq!(end.connection.closed().map(Closed::completed), Some(Completed::No));
    assert_eq!(end.connection.into_waiting().collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn a_call_that_waits_when_the_connection_is_cut_was_perhaps_served() {
    let mut end = End::asking(2);
    assert_eq!(end.connection.cut().completed(), Completed::Maybe);
    assert_eq!(end.hear(&reply(Version::V1_2, 1, b"")), []);
    let mut end = End::asking(2);
    let seen = end.hear(&written(|buf| message_error(buf, Version::V1_0)));
    assert_eq!(seen, [Seen::Closed(Closed::Refused)]);
    assert_eq!(Closed::Refused.completed(), Completed::Maybe);
    assert_eq!(written(|buf| end.connection.refuse(buf)), b"");
}

#[test]
fn ids_begin_again_behind_the_highest() {
    let mut end = End::new(Side::Caller);
    end.connection = end.connection.with_next_id(u32::MAX - 1);
    let ids: Vec<u32> = (0..4).map(|_| end.ask()).collect();
    assert_eq!(ids, [u32::MAX - 1, u32::MAX, 0, 1]);
    let bytes = [0, u32::MAX, 1, u32::MAX - 1].map(|id| reply(Version::V1_2, id, b""));
    assert_eq!(end.hear(&bytes.concat()), [0, u32::MAX, 1, u32::MAX - 1].map(Seen::Reply));
}

#[test]
fn a_reply_that_was_given_up_comes_late_once() {
    let mut end = End::asking(2);
    assert_eq!(
        (end.connection.give_up(1), end.connection.give_up(1), end.connection.give_up(9)),
        (Some(1), None, None)
    );
    assert_eq!((end.connection.waiting(), end.connection.given_up()), (1, 1));
    let bytes = [2, 1].map(|id| reply(Version::V1_2, id, b""));
    assert_eq!(end.hear(&bytes.concat()), [Seen::Reply(2), Seen::Late(1)]);
    assert_eq!(end.connection.given_up(), 0);
    let violation = Closed::Violation(Violation::UnsolicitedReply { request_id: 1 });
    assert_eq!(end.hear(&bytes[1]), [Seen::Closed(violation)]);
}

#[test]
fn a_connection_on_which_too_many_were_given_up_is_given_up() {
    let max = Connection::<u32>::GIVEN_UP_MAX;
    let mut end = End::new(Side::Caller);
    let patient = end.ask();
    for number in 0..max {
        let id = end.ask();
        assert_eq!(end.connection.give_up(id), Some(id));
        assert_eq!((end.connection.given_up(), end.connection.closed()), (number + 1, None));
    }
    // One reply that comes late makes room for one more.
    assert_eq!(end.hear(&reply(Version::V1_2, 2, b"")), [Seen::Late(2)]);
    for _ in 0..2 {
        let id = end.ask();
        end.connection.give_up(id);
    }
    assert_eq!(end.connection.closed(), Some(Closed::TooManyGivenUp { max }));
    assert_eq!(end.connection.into_waiting().collect::<Vec<_>>(), [patient]);
}

#[test]
fn code_sets_are_reported_with_the_first_request_only() {
    let mut end = End::new(Side::Caller);
    assert!(end.connection.is_first());
    end.connection.sent(None);
    assert!(!end.connection.is_first());
}

#[test]
fn a_server_gets_requests_questions_and_cancellations() {
    let mut end = End::new(Side::Server);
    let bytes = [
        request(5),
        written(|buf| message::locate_request(buf, Version::V1_2, Endian::Big, 6, b"key")),
        written(|buf| message::cancel_request(buf, Version::V1_2, Endian::Big, 5)),
        written(|buf| close_connection(buf, Version::V1_2)),
    ];
    let seen = end.hear(&bytes.concat());
    assert_eq!(seen, [Seen::Request(5), Seen::Locate(6), Seen::Cancel(5), Seen::Closed(Closed::Orderly)]);
}

#[test]
fn each_side_refuses_what_only_the_other_may_send() {
    let unexpected = |kind| vec![Seen::Closed(Closed::Violation(Violation::Unexpected { kind }))];
    let mut server = End::new(Side::Server);
    assert_eq!(server.hear(&reply(Version::V1_2, 1, b"")), unexpected(MessageKind::Reply));
    let mut caller = End::asking(1);
    assert_eq!(caller.hear(&request(1)), unexpected(MessageKind::Request));
    let mut caller = End::asking(1);
    let cancel = written(|buf| message::cancel_request(buf, Version::V1_1, Endian::Big, 1));
    assert_eq!(caller.hear(&cancel), unexpected(MessageKind::CancelRequest));
    assert_eq!(written(|buf| caller.connection.refuse(buf)), written(|buf| message_error(buf, Version::V1_1)));
}

#[test]
fn what_cannot_be_read_is_answered_with_a_message_error() {
    let mut server = End::new(Side::Server);
    assert!(matches!(server.hear(b"GET / HTTP/1.1")[..], [Seen::Closed(Closed::Violation(Violation::Protocol(_)))]));
    assert_eq!(written(|buf| server.connection.refuse(buf)), written(|buf| message_error(buf, Version::V1_0)));
    for kind in [0, 2, 3] {
        let mut server = End::new(Side::Server);
        let seen = server.hear(&[b'G', b'I', b'O', b'P', 1, 2, 0, kind, 0, 0, 0, 0]);
        assert!(matches!(seen[..], [Seen::Closed(Closed::Violation(Violation::Malformed { .. }))]), "{seen:?}");
    }
    let mut caller = End::asking(1);
    let seen = caller.hear(&[b'G', b'I', b'O', b'P', 1, 2, 0, 1, 0, 0, 0, 0]);
    assert!(matches!(seen[..], [Seen::Closed(Closed::Violation(Violation::Malformed { .. }))]), "{seen:?}");
}

#[test]
fn a_connection_that_was_closed_in_order_takes_no_request_any_more() {
    let mut server = End::new(Side::Server);
    assert_eq!(server.hear(&request(1)), [Seen::Request(1)]);
    let mut farewell = Vec::new();
    assert!(server.connection.close(Version::V1_0, &mut farewell));
    assert_eq!(farewell, written(|buf| close_connection(buf, Version::V1_0)));
    assert_eq!(server.hear(&request(2)), []);
    assert!(!server.connection.close(Version::V1_0, &mut farewell));
}

#[test]
fn a_caller_closes_in_order_only_when_no_call_waits_and_in_giop_1_2() {
    let mut caller = End::asking(1);
    let mut farewell = Vec::new();
    assert!(!caller.connection.close(Version::V1_2, &mut farewell));
    caller.hear(&reply(Version::V1_2, 1, b""));
    assert!(!caller.connection.close(Version::V1_1, &mut farewell));
    assert_eq!(farewell, b"");
    assert!(caller.connection.close(Version::V1_2, &mut farewell));
}

/// Held against lists: waiting callers and those that gave up, whatever happens in whatever order.
#[test]
fn does_what_a_naive_model_does() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut end = End::new(Side::Caller);
        end.connection = end.connection.with_next_id(u32::MAX - random.u32(0..200));
        let (mut waiting, mut given_up) = (Vec::new(), Vec::new());
        for step in 0..400 {
            let at = format_args!("seed {seed}, step {step}").to_string();
            match random.u32(0..8) {
                0..3 => waiting.push(end.ask()),
                3 => drop(end.connection.sent(None)),
                4 if !waiting.is_empty() => {
                    let id = waiting.remove(random.usize(0..waiting.len()));
                    assert_eq!(end.connection.give_up(id), Some(id), "{at}");
                    given_up.push(id);
                }
                5 if !given_up.is_empty() => {
                    let id = given_up.swap_remove(random.usize(0..given_up.len()));
                    assert_eq!(end.hear(&reply(Version::V1_2, id, b"")), [Seen::Late(id)], "{at}");
                }
                _ if !waiting.is_empty() => {
                    let newest = random.bool();
                    let id =
                        if newest { waiting.pop().unwrap() } else { waiting.remove(random.usize(0..waiting.len())) };
                    assert_eq!(end.hear(&reply(Version::V1_2, id, b"")), [Seen::Reply(id)], "{at}");
                }
                _ => {}
            }
            assert_eq!((end.connection.waiting(), end.connection.given_up()), (waiting.len(), given_up.len()), "{at}");
        }
        assert_eq!(end.connection.into_waiting().collect::<Vec<_>>(), waiting, "seed {seed}");
    }
}
