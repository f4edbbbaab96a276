//! The orb against servants of its own, over real sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use campanile_client::{InvokeError, Orb, OrbOptions, Servant, ServantError};
use giop::cdr::{CharSet, Encoding, Endian, Reader, Version, Writer};
use giop::exception::Kind;
use giop::framing::{Inbound, Limits};
use giop::message::{self, Header, LocateReply, LocateStatus, MessageKind, Reply, ReplyStatus, RequestHead, Response};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use testing::{patient, unless_closed};

const CALCULATOR: &str = "IDL:Test/Calculator:1.0";
const OVERFLOW: &str = "IDL:Test/Overflow:1.0";

/// Adds, echoes and keeps notes.
#[derive(Default)]
struct Calculator {
    notes: Mutex<Vec<u32>>,
}

impl Servant for Calculator {
    fn type_id(&self) -> &str {
        CALCULATOR
    }

    fn supports(&self, id: &str) -> bool {
        id == "IDL:Test/Adder:1.0"
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<(), ServantError> {
        match operation {
            "add" => {
                let (a, b) = (args.i32()?, args.i32()?);
                reply.i32(a.checked_add(b).ok_or(ServantError::User(OVERFLOW))?);
            }
            "echo" => reply.octets(args.octets()?),
            "echo_text" => {
                reply.string(&args.text()?);
                reply.wstring(&args.wtext()?);
            }
            "note" => self.notes.lock().unwrap().push(args.u32()?),
            "notes" => {
                let notes = self.notes.lock().unwrap();
                reply.length(notes.len());
                notes.iter().for_each(|note| reply.u32(*note));
            }
            "refuse" => {
                reply.string("to be discarded");
                return Err(ServantError::system(Kind::NoPermission));
            }
            _ => return Err(ServantError::bad_operation()),
        }
        Ok(())
    }
}

fn calculator() -> (campanile_client::Activation, campanile_client::ObjectRef) {
    let activation = Orb::new(OrbOptions::default()).activate(Arc::new(Calculator::default())).unwrap();
    // An orb of its own, so that nothing but the socket is shared.
    let object = Orb::new(OrbOptions::default()).resolve(&activation.reference().ior().to_string()).unwrap();
    (activation, object)
}

fn add(object: &campanile_client::ObjectRef, a: i32, b: i32) -> Result<i32, InvokeError> {
    object
        .invoke("add", |w| {
            w.i32(a);
            w.i32(b);
        })?
        .read("add", Reader::i32)
}

#[test]
fn operation_returns_its_result() {
    let (_activation, object) = calculator();
    assert_eq!(add(&object, 2, 3).unwrap(), 5);
    assert_eq!(add(&object, -7, 3).unwrap(), -4);
}

#[test]
fn object_says_what_it_is() {
    let (_activation, object) = calculator();
    for (id, expected) in [
        (CALCULATOR, true),
        ("IDL:Test/Adder:1.0", true),
        ("IDL:omg.org/CORBA/Object:1.0", true),
        ("IDL:Test/Other:1.0", false),
    ] {
        assert_eq!(object.is_a(id).unwrap(), expected, "{id}");
    }
    assert!(!object.non_existent().unwrap());
}

#[test]
fn exceptions_arrive_with_their_ids() {
    let (_activation, object) = calculator();
    let error = add(&object, i32::MAX, 1).unwrap_err();
    assert!(matches!(&error, InvokeError::User(user) if user.id == OVERFLOW && user.members().unwrap().is_empty()));
    assert!(error.to_string().contains("Overflow"), "{error}");

    let error = object.invoke("no_such_operation", |_| ()).unwrap_err();
    assert!(error.is("BAD_OPERATION"), "{error}");

    let error = object.invoke("add", |w| w.u8(1)).unwrap_err();
    assert!(error.is("MARSHAL"), "{error}");

    let error = object.invoke("refuse", |_| ()).unwrap_err();
    assert!(error.is("NO_PERMISSION"), "{error}");
    assert!(error.was_not_carried_out());

    assert_eq!(add(&object, 1, 1).unwrap(), 2);
}

#[test]
fn servant_is_gone_when_its_activation_is() {
    let (activation, object) = calculator();
    assert_eq!(add(&object, 1, 1).unwrap(), 2);
    let orb = activation.orb().clone();
    drop(activation);
    assert!(add(&object, 1, 1).unwrap_err().object_is_gone());
    assert!(object.non_existent().unwrap());
    drop(orb);
}

#[test]
fn keys_of_another_run_reach_no_object() {
    let (_first, object) = calculator();
    let (_second, other) = calculator();
    assert_ne!(object.ior().iiop().unwrap().key, other.ior().iiop().unwrap().key);
}

#[test]
fn text_keeps_its_characters() {
    let (_activation, object) = calculator();
    let (narrow, wide) = object
        .invoke("echo_text", |w| {
            w.string("Grüße");
            w.wstring("鐘樓 𝄞");
        })
        .unwrap()
        .read("echo_text", |r| Ok::<_, giop::cdr::ReadError>((r.text()?, r.wtext()?)))
        .unwrap();
    assert_eq!((narrow.as_str(), wide.as_str()), ("Grüße", "鐘樓 𝄞"));
}

#[test]
fn large_arguments_and_results_travel_whole() {
    let (_activation, object) = calculator();
    let sent: Vec<u8> = (0..20_000_000_u32).map(|i| i.to_le_bytes()[0] ^ i.to_le_bytes()[2]).collect();
    let reply = object.invoke("echo", |w| w.octets(&sent)).unwrap();
    assert!(reply.reader().octets().unwrap() == sent);
    drop(reply);
    assert_eq!(add(&object, 1, 2).unwrap(), 3);
}

#[test]
fn many_threads_share_one_connection() {
    let (_activation, object) = calculator();
    thread::scope(|scope| {
        for thread in 0..8 {
            let object = object.clone();
            scope.spawn(move || {
                for i in 0..500 {
                    assert_eq!(add(&object, thread * 1000, i).unwrap(), thread * 1000 + i);
                }
            });
        }
    });
}

#[test]
fn private_connections_serve_beside_each_other() {
    let (_activation, object) = calculator();
    thread::scope(|scope| {
        for thread in 0..4 {
            let object = object.with_private_connection();
            scope.spawn(move || {
                for i in 0..200 {
                    assert_eq!(add(&object, thread, i).unwrap(), thread + i);
                }
            });
        }
    });
}

#[test]
fn one_ways_keep_their_order() {
    let (_activation, object) = calculator();
    for note in 0..1000_u32 {
        object.invoke_oneway("note", |w| w.u32(note)).unwrap();
    }
    // Behind them on the same connection, so they have all been carried out.
    let reply = object.invoke("notes", |_| ()).unwrap();
    let mut reader = reply.reader();
    let count = reader.u32().unwrap();
    let notes: Vec<u32> = (0..count).map(|_| reader.u32().unwrap()).collect();
    assert_eq!(notes, (0..1000).collect::<Vec<_>>());
}

#[test]
fn argument_that_cannot_be_written_is_the_callers_mistake() {
    let (_activation, object) = calculator();
    let error = object.invoke("add", |_| Err::<(), _>("the value is not a number")).unwrap_err();
    assert!(matches!(&error, InvokeError::BadArguments { reason, .. } if reason.contains("not a number")), "{error}");
    assert_eq!(add(&object, 1, 1).unwrap(), 2);
}

/// A peer that speaks GIOP byte by byte.
struct Raw {
    stream: TcpStream,
    inbound: Inbound,
}

impl Raw {
    fn connect(object: &campanile_client::ObjectRef) -> Self {
        let profile = object.ior().iiop().unwrap();
        let stream = TcpStream::connect((profile.host.as_str(), profile.port)).unwrap();
        patient(&stream);
        Self { stream, inbound: Inbound::new(Limits::default()) }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next message whole; `None` when the connection is closed.
    fn receive(&mut self) -> Option<(Header, Vec<u8>)> {
        loop {
            if let Some(message) = self.inbound.poll_message().unwrap() {
                return Some((message.header, message.bytes.to_vec()));
            }
            match unless_closed(self.stream.read(self.inbound.space())) {
                Some(0) | None => return None,
                Some(n) => self.inbound.filled(n),
            }
        }
    }

    fn receive_sum(&mut self) -> i32 {
        let (header, bytes) = self.receive().unwrap();
        let reply = Reply::parse(&bytes, &header).unwrap();
        assert_eq!(reply.status, ReplyStatus::NoException);
        reply.body(&bytes, &header, CharSet::Latin1).i32().unwrap()
    }
}

fn add_request(object: &campanile_client::ObjectRef, version: Version, endian: Endian, id: u32) -> Vec<u8> {
    let mut buffer = Vec::new();
    let head = RequestHead {
        version,
        endian,
        request_id: id,
        response: Response::Expected,
        key: &object.ior().iiop().unwrap().key,
        operation: b"add",
        contexts: &[],
        body_phase: None,
    };
    let open = message::begin_request(&mut buffer, &head);
    let mut writer = open.body(&mut buffer, CharSet::Latin1);
    writer.i32(40);
    writer.i32(2);
    open.finish(&mut buffer);
    buffer
}

#[test]
fn servant_understands_every_version_and_byte_order() {
    let (_activation, object) = calculator();
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        for endian in [Endian::Big, Endian::Little] {
            let mut raw = Raw::connect(&object);
            raw.send(&add_request(&object, version, endian, 7));
            assert_eq!(raw.receive_sum(), 42, "{version:?} {endian:?}");
        }
    }
}

#[test]
fn servant_understands_a_request_that_comes_byte_by_byte() {
    let (_activation, object) = calculator();
    let mut raw = Raw::connect(&object);
    raw.stream.set_nodelay(true).unwrap();
    for byte in add_request(&object, Version::V1_2, Endian::NATIVE, 1) {
        raw.send(&[byte]);
    }
    assert_eq!(raw.receive_sum(), 42);
}

#[test]
fn servant_understands_fragments() {
    let (_activation, object) = calculator();
    let whole = add_request(&object, Version::V1_2, Endian::Little, 9);
    // The last 8 octets, the arguments, travel as a fragment: header, request id, then the octets.
    let (front, back) = whole.split_at(whole.len() - 8);
    let mut first = front.to_vec();
    first[6] |= 2;
    first[8..12].copy_from_slice(&u32::try_from(front.len() - 12).unwrap().to_le_bytes());
    let mut second = b"GIOP\x01\x02\x01\x07\x0c\x00\x00\x00".to_vec();
    second.extend_from_slice(&9_u32.to_le_bytes());
    second.extend_from_slice(back);
    let mut raw = Raw::connect(&object);
    raw.send(&first);
    raw.send(&second);
    assert_eq!(raw.receive_sum(), 42);
}

#[test]
fn requests_that_come_together_are_all_answered_in_order() {
    let (_activation, object) = calculator();
    let mut bytes = Vec::new();
    for id in 0..200 {
        bytes.extend(add_request(&object, Version::V1_2, Endian::NATIVE, id));
    }
    let mut raw = Raw::connect(&object);
    raw.send(&bytes);
    for id in 0..200 {
        let (header, bytes) = raw.receive().unwrap();
        assert_eq!(Reply::parse(&bytes, &header).unwrap().request_id, id);
    }
}

#[test]
fn locate_requests_are_answered() {
    let (_activation, object) = calculator();
    let mut raw = Raw::connect(&object);
    let key = object.ior().iiop().unwrap().key.clone();
    for (key, expected) in [(key, LocateStatus::ObjectHere), (b"nobody".to_vec(), LocateStatus::UnknownObject)] {
        let mut buffer = Vec::new();
        message::locate_request(&mut buffer, Version::V1_2, Endian::Big, 5, &key);
        raw.send(&buffer);
        let (header, bytes) = raw.receive().unwrap();
        assert_eq!(header.kind, MessageKind::LocateReply);
        assert_eq!(LocateReply::parse(&bytes, &header).unwrap().status, expected);
    }
}

#[test]
fn bytes_that_are_not_giop_end_their_connection_only() {
    let (_activation, object) = calculator();
    let huge = b"GIOP\x01\x02\x01\x00\xff\xff\xff\xff";
    let reply_nobody_asked_for =
        b"GIOP\x01\x02\x01\x01\x0c\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    let request_cut_short = b"GIOP\x01\x02\x01\x00\x04\x00\x00\x00\x01\x00\x00\x00";
    for bad in [&b"GET / HTTP/1.1\r\n\r\n"[..], huge, reply_nobody_asked_for, request_cut_short] {
        let mut raw = Raw::connect(&object);
        raw.send(bad);
        let (header, _) = raw.receive().expect("MessageError");
        assert_eq!(header.kind, MessageKind::MessageError);
        assert!(raw.receive().is_none());
        assert_eq!(add(&object, 1, 1).unwrap(), 2);
    }
}

#[test]
fn random_bytes_harm_no_client() {
    let (_activation, object) = calculator();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..200 {
        let mut bytes = add_request(&object, Version::V1_2, Endian::NATIVE, 1);
        for _ in 0..1 + random() % 8 {
            let at = usize::try_from(random()).unwrap() % bytes.len();
            bytes[at] = random().to_le_bytes()[0];
        }
        let mut raw = Raw::connect(&object);
        raw.send(&bytes);
        raw.stream.shutdown(std::net::Shutdown::Write).unwrap();
        // Whatever it is taken for, the connection ends.
        while unless_closed(raw.stream.read(&mut [0; 512])).is_some_and(|n| n > 0) {}
    }
    assert_eq!(add(&object, 1, 1).unwrap(), 2);
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let options = OrbOptions { connections_max: 2, ..OrbOptions::default() };
    let activation = Orb::new(options).activate(Arc::new(Calculator::default())).unwrap();
    let object = activation.reference();
    let mut kept: Vec<Raw> = (0..2).map(|_| Raw::connect(object)).collect();
    for raw in &mut kept {
        raw.send(&add_request(object, Version::V1_2, Endian::NATIVE, 1));
        assert_eq!(raw.receive_sum(), 42);
    }
    assert!(Raw::connect(object).receive().is_none());
    for raw in &mut kept {
        raw.send(&add_request(object, Version::V1_2, Endian::NATIVE, 2));
        assert_eq!(raw.receive_sum(), 42);
    }
}

#[test]
fn servant_on_every_interface_is_reached_by_an_address_of_its_own() {
    let options = OrbOptions { listen: Some("0.0.0.0:0".into()), ..OrbOptions::default() };
    let activation = Orb::new(options).activate(Arc::new(Calculator::default())).unwrap();
    assert_eq!(activation.reference().ior().iiop().unwrap().host, "127.0.0.1");
    assert_eq!(add(activation.reference(), 1, 1).unwrap(), 2);
}

#[test]
fn connections_and_socket_end_with_the_orb() {
    let (activation, object) = calculator();
    let mut raw = Raw::connect(&object);
    raw.send(&add_request(&object, Version::V1_2, Endian::NATIVE, 1));
    assert_eq!(raw.receive_sum(), 42);
    drop(activation);
    assert!(raw.receive().is_none());
}

/// The body of a reply can be read in the byte order and code set it came in.
#[test]
fn reply_body_knows_its_encoding() {
    let (_activation, object) = calculator();
    let reply = object.invoke("notes", |_| ()).unwrap();
    let encoding: Encoding = reply.reader().encoding();
    assert_eq!(encoding.version, Version::V1_2);
}
