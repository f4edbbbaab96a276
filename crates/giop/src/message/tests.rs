//! Tests of the messages.

use super::*;
use crate::cdr::{ReadErrorKind, Reader};
use alloc::vec::Vec;
use alloc::{format, vec};

const VERSIONS: [Version; 3] = [Version::V1_0, Version::V1_1, Version::V1_2];
const ENDIANS: [Endian; 2] = [Endian::Big, Endian::Little];

/// Every version in both byte orders.
fn layouts() -> impl Iterator<Item = (Version, Endian)> {
    VERSIONS.into_iter().flat_map(|version| ENDIANS.into_iter().map(move |endian| (version, endian)))
}

fn request_head(version: Version, endian: Endian) -> RequestHead<'static> {
    RequestHead {
        version,
        endian,
        request_id: 0x0102_0304,
        response: Response::Expected,
        key: b"some key",
        operation: b"push_structured_event",
        contexts: &[(1, &[0, 0, 0, 0, 5]), (10, b"abc")],
        body_phase: None,
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The message's header, which says the message's length.
fn header_of(message: &[u8]) -> Header {
    let header = Header::parse(message).unwrap();
    assert_eq!(header.message_len(), message.len());
    header
}

#[test]
fn reads_a_header() {
    let header = Header::parse(&[b'G', b'I', b'O', b'P', 1, 2, 3, 7, 4, 3, 2, 1, 99]).unwrap();
    let expected = Header {
        version: Version::V1_2,
        endian: Endian::Little,
        more_fragments: true,
        kind: MessageKind::Fragment,
        size: 0x0102_0304,
    };
    assert_eq!(header, expected);
    assert_eq!(header.message_len(), 0x0102_0304 + 12);
    let header = Header::parse(&[b'G', b'I', b'O', b'P', 1, 0, 0xFE, 0, 0xFF, 0xFF, 0xFF, 0xFF]).unwrap();
    assert!(!header.more_fragments, "GIOP 1.0 has no fragments");
    assert_eq!((header.endian, header.size), (Endian::Big, u32::MAX));
    assert!(header.message_len() > header.size as usize);
}

#[test]
fn refuses_what_is_not_a_header() {
    let good = *b"GIOP\x01\x02\x00\x00\x00\x00\x00\x00";
    for len in 0..HEADER_LEN {
        assert_eq!(Header::parse(&good[..len]), Err(HeaderError::Truncated { available: len }));
    }
    let with = |at: usize, value: u8| {
        let mut bytes = good;
        bytes[at] = value;
        Header::parse(&bytes).unwrap_err()
    };
    assert_eq!(with(0, b'g'), HeaderError::BadMagic { found: *b"gIOP" });
    assert_eq!(with(4, 2), HeaderError::BadVersion { major: 2, minor: 2 });
    assert_eq!(with(5, 3), HeaderError::BadVersion { major: 1, minor: 3 });
    assert_eq!(with(7, 8), HeaderError::BadKind { version: Version::V1_2, value: 8 });
    let fragment_1_0 = Header::parse(b"GIOP\x01\x00\x00\x07\x00\x00\x00\x00").unwrap_err();
    assert_eq!(fragment_1_0, HeaderError::BadKind { version: Version::V1_0, value: 7 });
    assert_eq!(format!("{}", with(3, 0)), "a message starts with \"GIO\\x00\" instead of \"GIOP\"");
    assert_eq!(format!("{fragment_1_0}"), "a message is of kind 7, which GIOP 1.0 does not have");
}

#[test]
fn every_kind_has_its_number() {
    for (number, kind) in (0..).zip(MessageKind::ALL) {
        assert_eq!(kind.number(), number);
        assert!(!kind.name().is_empty());
    }
    for (number, status) in (0..).zip(ReplyStatus::ALL) {
        assert_eq!(status.number(), number);
    }
    for (number, status) in (0..).zip(LocateStatus::ALL) {
        assert_eq!(status.number(), number);
    }
}

#[test]
fn lies_as_the_standard_says() {
    let head = RequestHead {
        response: Response::Expected,
        key: b"key",
        operation: b"op",
        contexts: &[(7, b"x")],
        request_id: 5,
        ..request_head(Version::V1_2, Endian::Big)
    };
    let request = |version| {
        let mut buf = Vec::new();
        let open = begin_request(&mut buf, &RequestHead { version, ..head });
        open.body(&mut buf, CharSet::Latin1).u32(0xAABB_CCDD);
        open.finish(&mut buf);
        buf
    };
    let contexts = "00000001 00000007 00000001 78";
    let v1_0 = format!(
        "47494f50 01000000 0000003c {contexts} 000000 00000005 01 000000 00000003 6b6579 00 00000003 6f7000 00 00000000 \
         aabbccdd"
    );
    let mut expected = hex(&v1_0);
    expected[11] = u8::try_from(expected.len() - 12).unwrap();
    assert_eq!(request(Version::V1_0), expected);
    expected[5] = 1;
    assert_eq!(request(Version::V1_1), expected);
    let v1_2 = format!(
        "47494f50 01020000 00000000 00000005 03 000000 0000 0000 00000003 6b6579 00 00000003 6f7000 00 {contexts} \
         000000 aabbccdd"
    );
    let mut expected = hex(&v1_2);
    expected[11] = u8::try_from(expected.len() - 12).unwrap();
    assert_eq!(request(Version::V1_2), expected);
}

/// Sent by omniORB 4.2.5, once in each version: `push(sequence<octet> {0, 1, 2}, sequence<double> {0}, "tail")`.
#[test]
fn reads_requests_of_omniorb() {
    let key = "4e6f74696669636174696f6e53657276696365"; // NotificationService
    let before_1_2 = format!("00000000 02000000 01000000 13000000 {key} 00 05000000 7075736800 000000 00000000");
    let from_1_2_on = format!("02000000 03000000 00000000 13000000 {key} 00 05000000 7075736800 000000 00000000");
    let body = "03000000 00010200 01000000 00000000 00000000 00000000 05000000 7461696c00";
    for (minor, head) in [("00", &before_1_2), ("01", &before_1_2), ("02", &from_1_2_on)] {
        let message = hex(&format!("47494f50 01{minor}0100 55000000 {head} {body}"));
        let header = header_of(&message);
        let request = Request::parse(&message, &header).unwrap();
        assert_eq!(request.request_id, 2);
        assert_eq!(request.response, Response::Expected);
        assert_eq!(request.target, Target::Key(b"NotificationService"));
        assert_eq!(request.operation, b"push");
        assert!(request.contexts.is_empty());
        let mut body = request.body(&message, &header, CharSet::Latin1);
        assert_eq!(body.octets().unwrap(), [0, 1, 2]);
        assert_eq!(body.u32().unwrap(), 1);
        assert_eq!(body.f64().unwrap().to_bits(), 0);
        assert_eq!(body.string().unwrap(), b"tail");
        body.finish("push").unwrap();
    }
}

#[test]
fn reads_the_request_that_was_written() {
    for (version, endian) in layouts() {
        for response in [Response::None, Response::Server, Response::Expected] {
            let head = RequestHead { response, ..request_head(version, endian) };
            let mut message = Vec::new();
            let open = begin_request(&mut message, &head);
            let mut w = open.body(&mut message, CharSet::Utf8);
            w.u64(42);
            w.string("bäm");
            open.finish(&mut message);

            let header = header_of(&message);
            assert_eq!((header.version, header.endian, header.kind), (version, endian, MessageKind::Request));
            let request = Request::parse(&message, &header).unwrap();
            assert_eq!(request.request_id, head.request_id);
            let waits_for_more = response == Response::Server && version < Version::V1_2;
            assert_eq!(request.response, if waits_for_more { Response::Expected } else { response });
            assert_eq!(request.target.key(), Some(head.key));
            assert_eq!(request.operation, head.operation);
            assert_eq!(request.contexts.iter().collect::<Vec<_>>(), head.contexts);
            assert_eq!(request.contexts.find(10), Some(&b"abc"[..]));
            assert_eq!(request.contexts.find(11), None);
            assert_eq!(request.contexts.len(), 2);
            if version == Version::V1_2 {
                assert_eq!(request.body_offset % 8, 0);
            }
            let mut body = request.body(&message, &header, CharSet::Utf8);
            assert_eq!(body.u64(), Ok(42));
            assert_eq!(body.text().unwrap(), "bäm");
            body.finish("the body").unwrap();
        }
    }
}

#[test]
fn refuses_a_request_cut_anywhere_in_its_head() {
    for (version, endian) in layouts() {
        let mut message = Vec::new();
        let open = begin_request(&mut message, &request_head(version, endian));
        open.body(&mut message, CharSet::Latin1).u64(1);
        open.finish(&mut message);
        let header = header_of(&message);
        let whole = Request::parse(&message, &header).unwrap();
        for len in 0..message.len() {
            match Request::parse(&message[..len], &header) {
                Ok(request) => {
                    assert!(len + 8 > whole.body_offset, "accepted {version:?} cut at {len}");
                    assert!(request.body_offset <= len);
                    assert!(request.body(&message[..len], &header, CharSet::Latin1).u64().is_err());
                }
                Err(error) => assert!(len < whole.body_offset && error.offset <= len.max(HEADER_LEN), "{error}"),
            }
        }
    }
}

#[test]
fn a_body_begins_at_the_phase_that_is_asked_for() {
    for endian in ENDIANS {
        for version in [Version::V1_0, Version::V1_1] {
            for phase in 0..24 {
                for length in 0..9 {
                    let head = RequestHead {
                        body_phase: Some(phase),
                        operation: &b"operation"[..length],
                        contexts: &[],
                        ..request_head(version, endian)
                    };
                    let mut message = vec![1; phase % 3];
                    let start = message.len();
                    let open = begin_request(&mut message, &head);
                    message.extend([0xAB; 5]);
                    open.finish(&mut message);
                    let message = &message[start..];
                    let header = header_of(message);
                    let request = Request::parse(message, &header).unwrap();
                    assert_eq!(request.body_offset % 8, phase % 8);
                    assert_eq!(&message[request.body_offset..], [0xAB; 5]);
                    assert_eq!(request.body(message, &header, CharSet::Latin1).phase(), phase % 8);
                }
            }
        }
    }
}

#[test]
fn a_request_of_1_2_without_a_body_is_not_padded() {
    for length in 0..9 {
        let head = RequestHead { operation: &b"operation"[..length], ..request_head(Version::V1_2, Endian::Big) };
        let mut message = Vec::new();
        begin_request(&mut message, &head).finish(&mut message);
        let header = header_of(&message);
        let request = Request::parse(&message, &header).unwrap();
        assert_eq!(request.body_offset, message.len());
        assert!(request.body(&message, &header, CharSet::Latin1).is_empty());

        let mut same = Vec::new();
        begin_request(&mut same, &head).finish_with_body(&mut same, 0);
        assert_eq!(same, message);

        // An ORB that pads all the same has sent no body either.
        message.resize(message.len().next_multiple_of(8), 0);
        let request = Request::parse(&message, &header).unwrap();
        assert!(request.body(&message, &header, CharSet::Latin1).is_empty());
    }
}

#[test]
fn a_body_from_elsewhere_is_counted() {
    for (version, endian) in layouts() {
        let head = request_head(version, endian);
        let mut whole = Vec::new();
        let open = begin_request(&mut whole, &head);
        open.body(&mut whole, CharSet::Latin1).raw(b"the body");
        open.finish(&mut whole);

        let mut front = Vec::new();
        begin_request(&mut front, &head).finish_with_body(&mut front, 8);
        front.extend(b"the body");
        assert_eq!(front, whole);
    }
}

#[test]
fn a_message_begins_anywhere_in_a_buffer() {
    for (version, endian) in layouts() {
        let write = |buf: &mut Vec<u8>| {
            let open = begin_request(buf, &request_head(version, endian));
            assert_eq!(buf.len(), open.body_start());
            let mut w = open.body(buf, CharSet::Latin1);
            w.u8(1);
            open.body(buf, CharSet::Latin1).u64(2);
            open.finish(buf);
        };
        let mut alone = Vec::new();
        write(&mut alone);
        for before in 1..9 {
            let mut buf = vec![0; before];
            write(&mut buf);
            assert_eq!(buf[before..], alone);
        }
    }
}

/// A GIOP 1.2 request to the target that `target` writes.
fn request_to(endian: Endian, target: impl FnOnce(&mut crate::cdr::Writer<'_>)) -> Vec<u8> {
    let mut message = vec![b'G', b'I', b'O', b'P', 1, 2, endian.flag(), 0, 0, 0, 0, 0];
    let encoding = Encoding { endian, version: Version::V1_2, chars: CharSet::Latin1 };
    let mut w = crate::cdr::Writer::with_phase(&mut message, HEADER_LEN, encoding);
    w.u32(1);
    w.raw(&[3, 0, 0, 0]);
    target(&mut w);
    w.string("op");
    w.u32(0);
    message
}

/// Data of an IIOP profile with this major version and key.
fn profile(major: u8, key: &[u8]) -> Vec<u8> {
    crate::codeset::encapsulate(Endian::Little, |w| {
        w.raw(&[major, 2]);
        w.string("host");
        w.u16(2809);
        w.octets(key);
        w.u32(0);
    })
}

#[test]
fn digs_the_key_out_of_profiles_and_references() {
    for endian in ENDIANS {
        let message = request_to(endian, |w| {
            w.u16(1);
            w.u32(0);
            w.octets(&profile(1, b"the key"));
        });
        let header = Header::parse(&message).unwrap();
        assert_eq!(Request::parse(&message, &header).unwrap().target.key(), Some(&b"the key"[..]));

        let message = request_to(endian, |w| {
            w.u16(2);
            w.u32(1);
            w.string("IDL:X:1.0");
            w.u32(2);
            w.u32(99);
            w.octets(b"unknown");
            w.u32(0);
            w.octets(&profile(1, b"another"));
        });
        let request = Request::parse(&message, &header).unwrap();
        let Target::Reference { index, type_id, tag, .. } = request.target else { panic!("{:?}", request.target) };
        assert_eq!((index, type_id, tag), (1, &b"IDL:X:1.0"[..], 0));
        assert_eq!(request.target.key(), Some(&b"another"[..]));
        for len in 0..message.len() {
            assert!(Request::parse(&message[..len], &header).is_err());
        }
    }
}

#[test]
fn a_key_that_cannot_be_had_is_none() {
    assert_eq!(Target::Profile { tag: 99, data: &profile(1, b"k") }.key(), None);
    assert_eq!(Target::Profile { tag: 0, data: &profile(2, b"k") }.key(), None);
    let data = profile(1, b"key");
    for len in 0..data.len() - 5 {
        assert_eq!(Target::Profile { tag: 0, data: &data[..len] }.key(), None);
    }
}

#[test]
fn refuses_targets_that_do_not_exist() {
    let message = request_to(Endian::Big, |w| w.u16(3));
    let header = Header::parse(&message).unwrap();
    let error = Request::parse(&message, &header).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::BadValue { what: "TargetAddress", value: 3 });

    let message = request_to(Endian::Big, |w| {
        w.u16(2);
        w.u32(1);
        w.string("");
        w.u32(1);
        w.u32(0);
        w.octets(b"");
    });
    let error = Request::parse(&message, &header).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::BadValue { what: "selected_profile_index", value: 1 });

    let message = request_to(Endian::Big, |w| {
        w.u16(2);
        w.u32(0);
        w.string("");
        w.u32(65);
        w.raw(&[0; 65 * 8]);
    });
    let error = Request::parse(&message, &header).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::TooMany { what: "profiles", count: 65, max: 64 });
}

#[test]
fn refuses_more_contexts_than_are_accepted() {
    let contexts = [(1, &[][..]); 257];
    for (version, endian) in layouts() {
        for (count, accepted) in [(256, true), (257, false)] {
            let mut message = Vec::new();
            let head = RequestHead { contexts: &contexts[..count], ..request_head(version, endian) };
            begin_request(&mut message, &head).finish(&mut message);
            let result = Request::parse(&message, &header_of(&message));
            assert_eq!(result.is_ok(), accepted);
            if let Err(error) = result {
                let too_many = ReadErrorKind::TooMany { what: "service contexts", count: 257, max: 256 };
                assert_eq!(error.kind, too_many);
            }
        }
    }
}

#[test]
fn refuses_a_count_of_contexts_that_cannot_fit() {
    let mut message = hex("47494f50 01000000 00000010 7fffffff 00000000 00000000 00000000");
    let header = header_of(&message);
    let error = Request::parse(&message, &header).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::TooLong { length: 0x7FFF_FFFF, available: 12 });
    message[7] = 1;
    assert!(Reply::parse(&message, &header).is_err());
}

#[test]
fn reads_the_reply_that_was_written() {
    for (version, endian) in layouts() {
        for status in ReplyStatus::ALL {
            let contexts: &[(u32, &[u8])] = &[(14, b"why")];
            let mut message = Vec::new();
            let open = begin_reply(&mut message, &ReplyHead { version, endian, request_id: 9, status, contexts });
            open.body(&mut message, CharSet::Latin1).i64(-3);
            open.finish(&mut message);
            let header = header_of(&message);
            assert_eq!(header.kind, MessageKind::Reply);
            let reply = Reply::parse(&message, &header).unwrap();
            assert_eq!((reply.request_id, reply.status), (9, status));
            assert_eq!(reply.contexts.find(ServiceContexts::EXCEPTION_DETAIL_MESSAGE), Some(&b"why"[..]));
            let mut body = reply.body(&message, &header, CharSet::Latin1);
            assert_eq!(body.i64(), Ok(-3));
            for len in 0..reply.body_offset {
                if let Ok(cut) = Reply::parse(&message[..len], &header) {
                    assert!(len + 8 > reply.body_offset && cut.body_offset <= len);
                }
            }
        }
    }
}

#[test]
fn an_empty_reply_is_not_padded() {
    for (version, endian) in layouts() {
        let mut message = Vec::new();
        let head = ReplyHead { version, endian, request_id: 1, status: ReplyStatus::NoException, contexts: &[] };
        begin_reply(&mut message, &head).finish(&mut message);
        assert_eq!(message.len(), 24);
        let header = header_of(&message);
        assert_eq!(Reply::parse(&message, &header).unwrap().body_offset, 24);
    }
}

#[test]
fn refuses_a_status_that_does_not_exist() {
    let message = hex("47494f50 01020001 0000000c 00000001 00000006 00000000");
    let error = Reply::parse(&message, &header_of(&message)).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::BadValue { what: "ReplyStatusType", value: 6 });
    let error = LocateReply::parse(&message, &header_of(&message)).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::BadValue { what: "LocateStatusType", value: 6 });
}

#[test]
fn reads_the_locate_messages_that_were_written() {
    for (version, endian) in layouts() {
        let mut message = Vec::new();
        locate_request(&mut message, version, endian, 6, b"a key");
        let header = header_of(&message);
        assert_eq!(header.kind, MessageKind::LocateRequest);
        let request = LocateRequest::parse(&message, &header).unwrap();
        assert_eq!((request.request_id, request.target.key()), (6, Some(&b"a key"[..])));
        for len in 0..message.len() {
            assert!(LocateRequest::parse(&message[..len], &header).is_err());
        }

        message.clear();
        locate_reply(&mut message, version, endian, 6, LocateStatus::ObjectHere);
        let header = header_of(&message);
        assert_eq!(message.len(), 20);
        let reply = LocateReply::parse(&message, &header).unwrap();
        assert_eq!((reply.request_id, reply.status, reply.body_offset), (6, LocateStatus::ObjectHere, 20));
        for len in 0..message.len() {
            assert!(LocateReply::parse(&message[..len], &header).is_err());
        }

        message.clear();
        let open = begin_locate_reply(&mut message, version, endian, 6, LocateStatus::ObjectForward);
        crate::ior::Ior::nil().write(&mut open.body(&mut message, CharSet::Latin1));
        open.finish(&mut message);
        let header = header_of(&message);
        let reply = LocateReply::parse(&message, &header).unwrap();
        assert_eq!(reply.body_offset, 20, "the body of a locate reply is not aligned");
        let mut body: Reader<'_> = reply.body(&message, &header, CharSet::Latin1);
        assert!(crate::ior::Ior::read(&mut body).unwrap().is_nil());
    }
}

#[test]
fn reads_the_small_messages_that_were_written() {
    for (version, endian) in layouts() {
        let mut message = Vec::new();
        cancel_request(&mut message, version, endian, 77);
        let header = header_of(&message);
        assert_eq!(header.kind, MessageKind::CancelRequest);
        assert_eq!(CancelRequest::parse(&message, &header), Ok(CancelRequest { request_id: 77 }));
        for len in 0..message.len() {
            assert!(CancelRequest::parse(&message[..len], &header).is_err());
        }
        message.clear();
        close_connection(&mut message, version);
        assert_eq!(header_of(&message).kind, MessageKind::CloseConnection);
        message.clear();
        message_error(&mut message, version);
        assert_eq!(header_of(&message).kind, MessageKind::MessageError);
    }
}

#[test]
fn random_bytes_end_in_messages_or_errors() {
    let mut random = fastrand::Rng::with_seed(11);
    for round in 0..30_000_u32 {
        let (version, endian) = layouts().nth(random.usize(0..6)).unwrap();
        let mut message = Vec::new();
        let open = begin_request(&mut message, &request_head(version, endian));
        open.body(&mut message, CharSet::Latin1).u64(1);
        open.finish(&mut message);
        for _ in 0..random.usize(1..6) {
            let at = random.usize(HEADER_LEN..message.len());
            message[at] = if round % 2 == 0 { random.u8(0..9) } else { random.u8(..) };
        }
        message.truncate(random.usize(HEADER_LEN..=message.len()));
        let header = Header::parse(&message).unwrap();
        if let Ok(request) = Request::parse(&message, &header) {
            assert!(request.body_offset <= message.len());
            assert!(request.contexts.iter().count() <= 256);
            assert!(request.target.key().is_none_or(|key| key.len() < message.len()));
        }
        if let Ok(reply) = Reply::parse(&message, &header) {
            assert!(reply.body_offset <= message.len());
        }
        let _ = (LocateRequest::parse(&message, &header), LocateReply::parse(&message, &header));
    }
}

#[test]
fn writing_into_a_buffer_that_is_large_enough_does_not_grow_it() {
    let mut buf = Vec::with_capacity(512);
    let before = (buf.as_ptr(), buf.capacity());
    for (version, endian) in layouts() {
        buf.clear();
        let open = begin_request(&mut buf, &request_head(version, endian));
        open.body(&mut buf, CharSet::Latin1).string("a body");
        open.finish(&mut buf);
    }
    assert_eq!((buf.as_ptr(), buf.capacity()), before);
}

#[test]
fn a_template_appends_what_a_request_begun_anew_is() {
    let mut used_again = RequestTemplate::new(&request_head(Version::V1_1, Endian::Big));
    let contexts: [&[(u32, &[u8])]; 3] = [&[], &[(1, b"12345"), (7, b"")], &[(1, b"1234")]];
    for (version, endian) in layouts() {
        for contexts in contexts {
            for phase in [None, Some(0), Some(5)] {
                let head = RequestHead { contexts, body_phase: phase, ..request_head(version, endian) };
                let template = RequestTemplate::new(&RequestHead { request_id: 0, ..head });
                used_again.set(&head);
                let (mut copied, mut again) = (Vec::new(), Vec::new());
                template.append(&mut copied, 7, 9);
                used_again.append(&mut again, 7, 9);
                assert_eq!(again, copied, "{version:?} {endian:?} {contexts:?} {phase:?}");
                let (mut copied, mut written) = (b"before".to_vec(), b"before".to_vec());
                template.append(&mut copied, 0x0102_0304, 100);
                let head = RequestHead { request_id: 0x0102_0304, ..head };
                begin_request(&mut written, &head).finish_with_body(&mut written, 100);
                assert_eq!(copied, written, "{version:?} {endian:?} {contexts:?} {phase:?}");
                for body in [&b""[..], b"body"] {
                    let (mut copied, mut written) = (b"before".to_vec(), b"before".to_vec());
                    let open = template.begin(&mut copied, head.request_id);
                    copied.extend_from_slice(body);
                    open.finish(&mut copied);
                    let open = begin_request(&mut written, &head);
                    written.extend_from_slice(body);
                    open.finish(&mut written);
                    assert_eq!(copied, written, "{version:?} {endian:?} {contexts:?} {phase:?} {body:?}");
                }
            }
        }
    }
}

#[test]
fn an_empty_reply_is_what_a_reply_begun_anew_is_and_is_read_at_a_glance() {
    for (version, endian) in layouts() {
        let head =
            ReplyHead { version, endian, request_id: 0x0102_0304, status: ReplyStatus::NoException, contexts: &[] };
        let (mut copied, mut written) = (b"before".to_vec(), b"before".to_vec());
        empty_reply(&mut copied, version, endian, head.request_id);
        begin_reply(&mut written, &head).finish(&mut written);
        assert_eq!(copied, written, "{version:?} {endian:?}");
        let message = copied.split_off(6);
        assert_eq!(parse_empty_reply(&message, &header_of(&message)), Some(head.request_id));
        for (status, contexts) in [
            (ReplyStatus::NoException, &[(1, &b""[..])][..]),
            (ReplyStatus::UserException, &[]),
            (ReplyStatus::LocationForward, &[]),
        ] {
            let mut other = Vec::new();
            begin_reply(&mut other, &ReplyHead { status, contexts, ..head }).finish(&mut other);
            assert_eq!(parse_empty_reply(&other, &header_of(&other)), None, "{version:?} {status:?}");
        }
        let mut with_result = Vec::new();
        let open = begin_reply(&mut with_result, &head);
        with_result.extend_from_slice(b"result");
        open.finish(&mut with_result);
        assert_eq!(parse_empty_reply(&with_result, &header_of(&with_result)), None);
        let mut request = Vec::new();
        locate_reply(&mut request, version, endian, 0, LocateStatus::UnknownObject);
        assert_eq!(parse_empty_reply(&request, &header_of(&request)), None);
    }
}
