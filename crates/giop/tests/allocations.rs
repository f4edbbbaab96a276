//! Skipping, copying and looking for a value, and requests and replies of a connection, allocate nothing once the buffers have grown.
//!
//! A program of its own, since what is counted is what its whole process allocates.

use campanile_giop::cdr::Reader;
use campanile_giop::cdr::{CharSet, Encoding, Endian, Version, Writer};
use campanile_giop::connection::{Connection, Event, Side};
use campanile_giop::cursor::{Cursor, Scalar};
use campanile_giop::framing::{Inbound, Limits};
use campanile_giop::message;
use campanile_giop::recode;
use campanile_giop::typecode::{Kind, TypeCode, Work};
use campanile_giop::value::{AnyRef, AnyValue, Value};
use testing::{Counting, allocations};

#[global_allocator]
static COUNTING: Counting = Counting;

fn event() -> AnyValue {
    let id = "IDL:demo/Node:1.0";
    let code = TypeCode::structure(
        id,
        "Node",
        &[
            ("name", TypeCode::string()),
            ("title", TypeCode::wstring()),
            ("data", TypeCode::sequence(TypeCode::primitive(Kind::Octet))),
            ("samples", TypeCode::sequence(TypeCode::primitive(Kind::Double))),
            ("extra", TypeCode::any()),
            ("inner", TypeCode::sequence(TypeCode::recursive(id))),
        ],
    );
    let node = |inner| Value::Struct {
        type_name: "Node".into(),
        fields: vec![
            ("name".into(), Value::String("caf\u{E9}".into())),
            ("title".into(), Value::Wstring("\u{20AC}".into())),
            ("data".into(), Value::Octets(vec![7; 1000])),
            ("samples".into(), Value::Sequence(vec![Value::Double(1.5); 500])),
            ("extra".into(), Value::Any(Box::new(AnyValue::from("text")))),
            ("inner".into(), Value::Sequence(inner)),
        ],
    };
    AnyValue::new(code, node(vec![node(vec![]), node(vec![])]))
}

#[test]
fn nothing_is_allocated_in_the_steady_state() {
    let from = Encoding::new(Endian::Big);
    let mut bytes = Vec::new();
    event().write(&mut Writer::new(&mut bytes, from)).expect("the event fits its type");
    let mut copy = Vec::with_capacity(bytes.len() * 2);
    let before = allocations();
    for endian in [Endian::Big, Endian::Little] {
        for version in [Version::V1_1, Version::V1_2] {
            for chars in [CharSet::Latin1, CharSet::Utf8] {
                copy.clear();
                let to = Encoding { endian, version, chars };
                let mut reader = Reader::new(&bytes, from);
                recode::copy_any(&mut reader, &mut Writer::with_phase(&mut copy, 4, to), &mut Work::default())
                    .expect("the event is an any");
            }
        }
    }
    let lazy = AnyRef::read(&mut Reader::new(&bytes, from), &mut Work::default()).expect("the event is an any");
    assert_eq!(lazy.resolved_kind(), Kind::Struct);
    let work = &mut Work::default();
    let find = |work: &mut Work| {
        let inner = Cursor::any(Reader::new(&bytes, from), work)?.member("inner", work)?;
        let node = inner.and_then(|inner| inner.element(1, work).transpose()).transpose()?;
        let extra = node.and_then(|node| node.member("extra", work).transpose()).transpose()?;
        extra.map(|extra| extra.scalar(work)).transpose()
    };
    assert!(matches!(find(work), Ok(Some(Some(Scalar::Text(b"text"))))));
    assert_eq!(allocations(), before, "allocations");
    let _ = event();
    assert_ne!(allocations(), before, "nothing is counted");
}

#[test]
fn a_connection_allocates_nothing_in_the_steady_state() {
    let mut caller = Connection::new(Side::Caller);
    let mut inbound = Inbound::new(Limits::default());
    let mut replies = Vec::new();
    let mut before = 0;
    for round in 0..1000 {
        replies.clear();
        let ids = [(); 16].map(|()| caller.sent(Some(())));
        // All out of order, and one of them given up.
        caller.give_up(ids[5]);
        for id in ids.into_iter().rev() {
            message::empty_reply(&mut replies, Version::V1_2, Endian::Big, id);
        }
        inbound.space()[..replies.len()].copy_from_slice(&replies);
        inbound.filled(replies.len());
        let mut told = 0;
        while let Some(event) = caller.poll(&mut inbound) {
            assert!(matches!(event, Event::Reply { .. } | Event::LateReply { .. }));
            told += 1;
        }
        assert_eq!((told, caller.waiting()), (16, 0));
        if round == 0 {
            before = allocations();
        }
    }
    assert_eq!(allocations(), before, "allocations");
}
