//! Bytes from hostile peers: few octets that ask for much work, memory or stack.

use campanile_giop::cdr::{Encoding, Endian, ReadError, ReadErrorKind, Reader, Writer};
use campanile_giop::recode;
use campanile_giop::typecode::{Kind, TypeCode, Work};
use campanile_giop::value::{AnyRef, AnyValue};

const ENCODING: Encoding = Encoding::new(Endian::Big);
const OTHER: Encoding = Encoding::new(Endian::Little);

fn octets(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Writer::new(&mut bytes, ENCODING));
    bytes
}

fn skip(bytes: &[u8]) -> Result<u32, ReadErrorKind> {
    let mut work = Work::default();
    let before = work.steps_left();
    recode::skip_any(&mut Reader::new(bytes, ENCODING), &mut work).map_err(|error| error.kind)?;
    Ok(before - work.steps_left())
}

fn copy(bytes: &[u8]) -> Result<Vec<u8>, ReadErrorKind> {
    let mut copy = Vec::new();
    let mut writer = Writer::new(&mut copy, OTHER);
    recode::copy_any(&mut Reader::new(bytes, ENCODING), &mut writer, &mut Work::default())
        .map_err(|error| error.kind)?;
    Ok(copy)
}

fn decode(bytes: &[u8]) -> Result<AnyValue, ReadErrorKind> {
    AnyValue::read(&mut Reader::new(bytes, ENCODING), &mut Work::default()).map_err(|error| error.kind)
}

fn read_type(bytes: &[u8]) -> Result<TypeCode, ReadErrorKind> {
    TypeCode::read(&mut Reader::new(bytes, ENCODING), &mut Work::default()).map_err(|error| error.kind)
}

/// Writes a complex type with an empty id and name and what `params` writes.
fn named(w: &mut Writer<'_>, kind: Kind, params: impl FnOnce(&mut Writer<'_>)) {
    w.u32(kind.number());
    w.encapsulation(|w| {
        w.string("");
        w.string("");
        params(w);
    });
}

/// A short `Any` with a value that claims to have as many elements as there can be made one service reserve gigabytes.
#[test]
fn refuses_an_any_that_claims_more_than_there_is() {
    for element in [Kind::Octet, Kind::Long, Kind::Double, Kind::String, Kind::Boolean, Kind::Char] {
        let sequence = octets(|w| {
            TypeCode::sequence(TypeCode::primitive(element)).write(w);
            w.u32(u32::MAX);
        });
        let array = octets(|w| TypeCode::array(TypeCode::primitive(element), u32::MAX).write(w));
        for bytes in [sequence, array] {
            assert!(bytes.len() <= 32);
            assert!(matches!(skip(&bytes), Err(ReadErrorKind::Truncated { .. })), "{element}");
            assert!(matches!(copy(&bytes), Err(ReadErrorKind::Truncated { .. })), "{element}");
            assert!(matches!(decode(&bytes), Err(ReadErrorKind::Truncated { .. })), "{element}");
        }
    }
    let string = octets(|w| {
        TypeCode::string().write(w);
        w.u32(u32::MAX);
    });
    assert!(matches!(skip(&string), Err(ReadErrorKind::TooLong { .. })));
}

#[test]
fn refuses_types_that_claim_more_members_than_there_are() {
    for kind in [Kind::Struct, Kind::Exception, Kind::Enum] {
        let bytes = octets(|w| named(w, kind, |w| w.u32(u32::MAX)));
        assert!(matches!(skip(&bytes), Err(ReadErrorKind::Truncated { .. })), "{kind}");
        assert!(matches!(decode(&bytes), Err(ReadErrorKind::Truncated { .. })), "{kind}");
    }
    let union = octets(|w| {
        named(w, Kind::Union, |w| {
            w.u32(Kind::Long.number());
            w.i32(-1);
            w.u32(u32::MAX);
        });
    });
    assert!(matches!(skip(&union), Err(ReadErrorKind::Truncated { .. })));
    assert!(matches!(decode(&union), Err(ReadErrorKind::Truncated { .. })));
}

/// A request of 108 octets kept a thread busy for ever: arrays of arrays of a structure without members. To walk them
/// one by one takes 2^128 steps and never runs out of bytes.
#[test]
fn arrays_of_nothing_cost_nothing_to_skip_and_cannot_be_built() {
    let nothing = TypeCode::structure("", "", &[]);
    let huge = |code| TypeCode::array(code, u32::MAX);
    let arrays = octets(|w| huge(huge(huge(huge(nothing.clone())))).write(w));
    let sequence = octets(|w| {
        TypeCode::sequence(huge(TypeCode::primitive(Kind::Null))).write(w);
        w.u32(u32::MAX);
    });
    for bytes in [arrays, sequence] {
        assert!(bytes.len() <= 108, "{}", bytes.len());
        assert!(skip(&bytes).unwrap() < 64);
        assert_eq!(decode(&bytes), Err(ReadErrorKind::TooMuchWork));
        assert_eq!(copy(&bytes), Err(ReadErrorKind::TooMuchWork));
    }
}

#[test]
fn refuses_a_structure_that_contains_itself_outright() {
    let bytes = octets(|w| {
        named(w, Kind::Struct, |w| {
            w.u32(1);
            w.string("");
            w.u32(u32::MAX);
            // Back to the kind: 28 octets to the count, 12 to this member's type, and the marker.
            w.i32(-44);
        });
    });
    let code = read_type(&bytes).unwrap();
    assert_eq!(code.member(0).unwrap().type_ref().kind(), Kind::Struct);
    assert_eq!(skip(&bytes), Err(ReadErrorKind::TooDeep));
    assert_eq!(decode(&bytes), Err(ReadErrorKind::TooDeep));
    assert_eq!(copy(&bytes), Err(ReadErrorKind::TooDeep));
    assert!(code.equal(&code.clone()) && code.equivalent(&code.clone()));
    assert_eq!(code.to_string(), "struct struct { struct ; }");
}

#[test]
fn refuses_an_alias_of_itself() {
    let bytes = octets(|w| {
        named(w, Kind::Alias, |w| {
            w.u32(u32::MAX);
            w.i32(-32);
        });
    });
    let code = read_type(&bytes).unwrap();
    assert_eq!(code.root().resolved().kind(), Kind::Alias);
    assert!(code.equivalent(&code.clone()));
    assert_eq!(skip(&bytes), Err(ReadErrorKind::TooMuchWork));
    assert_eq!(decode(&bytes), Err(ReadErrorKind::TooMuchWork));
    let by_itself = octets(|w| {
        named(w, Kind::Union, |w| {
            w.u32(u32::MAX);
            w.i32(-32);
            w.i32(-1);
            w.u32(0);
        });
    });
    assert!(matches!(skip(&by_itself), Err(ReadErrorKind::Malformed { .. })));
    assert!(matches!(decode(&by_itself), Err(ReadErrorKind::Malformed { .. })));
}

/// A sequence that is its own element has values, and they are found.
#[test]
fn a_sequence_of_itself_has_values() {
    let bytes = octets(|w| {
        w.u32(Kind::Sequence.number());
        w.encapsulation(|w| {
            w.u32(u32::MAX);
            w.i32(-16);
            w.u32(0);
        });
        // [[], [[]]]
        w.u32(2);
        w.u32(0);
        w.u32(1);
        w.u32(0);
    });
    assert!(skip(&bytes).is_ok());
    let any = decode(&bytes).unwrap();
    assert_eq!(any.value.to_string(), "[[], [[]]]");
    assert_eq!(octets(|w| any.write(w).unwrap()), bytes);
    assert!(any.type_code.to_string().starts_with("sequence<sequence<"));
    assert!(any.type_code.to_string().len() < 1000);
}

/// A type with members that double at each level describes more values than there are atoms, in a few hundred octets.
#[test]
fn a_type_that_doubles_at_each_level_runs_out_of_steps() {
    for leaf in [Kind::Null, Kind::Octet, Kind::String] {
        let mut code = TypeCode::structure("IDL:x0:1.0", "x0", &[("leaf", TypeCode::primitive(leaf))]);
        let mut bytes = Vec::new();
        for level in 1..60 {
            // The second member refers to the first by an indirection, which a type that was read keeps.
            let id = format!("IDL:x{level}:1.0");
            bytes = octets(|w| {
                w.u32(Kind::Struct.number());
                w.encapsulation(|w| {
                    w.string(&id);
                    w.string("");
                    w.u32(2);
                    w.string("");
                    w.align(4);
                    let first = w.position();
                    code.write(w);
                    w.string("");
                    w.u32(u32::MAX);
                    w.i32(i32::try_from(first).unwrap() - i32::try_from(w.position()).unwrap());
                });
            });
            code = read_type(&bytes).unwrap();
        }
        bytes.extend([0; 4096]);
        for error in [skip(&bytes).unwrap_err(), copy(&bytes).unwrap_err(), decode(&bytes).unwrap_err()] {
            match leaf {
                Kind::Null => assert_eq!(error, ReadErrorKind::TooMuchWork),
                // Values of some size run out of octets first.
                _ => assert!(matches!(error, ReadErrorKind::Truncated { .. }), "{error}"),
            }
        }
    }
}

#[test]
fn refuses_indirections_that_lead_to_no_type() {
    // A structure with two members: a string type, and an indirection by `distance`.
    let with = |distance: i32| {
        octets(|w| {
            w.u64(0x0000_0012_0000_0000);
            named(w, Kind::Struct, |w| {
                w.u32(2);
                w.string("");
                w.u32(Kind::String.number());
                w.u32(0);
                w.string("");
                w.u32(u32::MAX);
                w.i32(distance);
            });
        })
    };
    for (distance, good) in [
        (-20, true),  // the first member's type
        (-60, true),  // the outermost type
        (-4, false),  // the indirection itself
        (0, false),   // its own distance
        (4, false),   // forwards
        (-12, false), // a name
        (-16, false), // a bound, which looks like tk_null
        (-32, false), // a count, which looks like tk_short
        (-56, false), // the encapsulation's length
        (-64, false), // in front of the outermost type
        (-68, false), // what looks like a type there
        (-21, false), // no multiple of 4
        (i32::MIN, false),
        (i32::MAX, false),
    ] {
        let bytes = with(distance);
        let mut reader = Reader::new(&bytes, ENCODING);
        reader.take(8).unwrap();
        let check = |result: Result<(), ReadError>, how: &str| match (result, good) {
            (Ok(()), true) => {}
            (Err(error), false) => {
                assert!(matches!(error.kind, ReadErrorKind::Malformed { .. }), "{distance} {how}: {error}");
            }
            (result, _) => panic!("{distance} {how}: {result:?}"),
        };
        check(recode::skip_type_code(&mut reader.clone(), &mut Work::default()), "skipped");
        check(TypeCode::read(&mut reader.clone(), &mut Work::default()).map(|_| ()), "read");
    }
}

#[test]
fn refuses_indirections_to_indirections() {
    let bytes = octets(|w| {
        named(w, Kind::Struct, |w| {
            w.u32(2);
            w.string("");
            w.u32(u32::MAX);
            w.i32(-44);
            w.string("");
            w.u32(u32::MAX);
            w.i32(-20);
        });
    });
    assert!(matches!(skip(&bytes), Err(ReadErrorKind::Malformed { .. })));
    assert!(matches!(read_type(&bytes), Err(ReadErrorKind::Malformed { .. })));
    let outermost = octets(|w| {
        w.u32(u32::MAX);
        w.i32(-8);
    });
    assert!(matches!(skip(&outermost), Err(ReadErrorKind::Malformed { .. })));
    assert!(matches!(read_type(&outermost), Err(ReadErrorKind::Malformed { .. })));
}

#[test]
fn refuses_what_is_nested_too_deeply() {
    let mut deep = TypeCode::primitive(Kind::Long);
    for _ in 0..1000 {
        deep = TypeCode::sequence(deep);
    }
    let bytes = octets(|w| deep.write(w));
    assert_eq!(skip(&bytes), Err(ReadErrorKind::TooDeep));
    assert_eq!(read_type(&bytes), Err(ReadErrorKind::TooDeep));
    // An any in an any in an any.
    let anys = octets(|w| (0..100_000).for_each(|_| w.u32(Kind::Any.number())));
    assert_eq!(skip(&anys), Err(ReadErrorKind::TooDeep));
    assert_eq!(decode(&anys), Err(ReadErrorKind::TooDeep));
    assert_eq!(copy(&anys), Err(ReadErrorKind::TooDeep));
}

/// Each element of a sequence gets the names of its type when it is built, so long names multiply.
#[test]
fn names_that_multiply_cost_steps() {
    let name = "n".repeat(60_000);
    let bytes = octets(|w| {
        TypeCode::sequence(TypeCode::structure("", &name, &[])).write(w);
        w.u32(1_000_000);
    });
    assert!(skip(&bytes).unwrap() < 16);
    assert_eq!(decode(&bytes), Err(ReadErrorKind::TooMuchWork));
}

/// Many indirections, each of which has to be looked up from the start of the type.
#[test]
fn many_indirections_cost_steps() {
    let code = octets(|w| {
        named(w, Kind::Struct, |w| {
            w.u32(20_001);
            for _ in 0..10_000 {
                w.string("");
                w.u32(Kind::Octet.number());
            }
            w.string("");
            w.align(4);
            let target = i32::try_from(w.position()).unwrap();
            w.u32(Kind::Octet.number());
            for _ in 0..10_000 {
                w.string("");
                w.u32(u32::MAX);
                w.i32(target - i32::try_from(w.position()).unwrap());
            }
        });
    });
    assert_eq!(skip(&code), Err(ReadErrorKind::TooMuchWork));
    assert!(read_type(&code).is_ok());
}

#[test]
fn values_of_valuetypes_are_unsupported_but_their_types_are_read() {
    let base = TypeCode::value("IDL:b:1.0", "b", 0, TypeCode::primitive(Kind::Null), &[]);
    let members = [("x", TypeCode::primitive(Kind::Long), true), ("y", TypeCode::string(), false)];
    let codes = [
        TypeCode::value("IDL:v:1.0", "v", 3, base, &members),
        TypeCode::value_box("IDL:w:1.0", "w", TypeCode::string()),
        TypeCode::named(Kind::Native, "IDL:n:1.0", "n"),
        TypeCode::named(Kind::AbstractInterface, "IDL:a:1.0", "a"),
        TypeCode::named(Kind::LocalInterface, "IDL:l:1.0", "l"),
        TypeCode::primitive(Kind::Event),
    ];
    for code in codes {
        let bytes = octets(|w| {
            code.write(w);
            w.u32(0);
        });
        assert_eq!(read_type(&bytes).unwrap(), code);
        let kind = code.kind();
        assert_eq!(skip(&bytes), Err(ReadErrorKind::Unsupported { what: kind.keyword() }));
        assert_eq!(decode(&bytes), Err(ReadErrorKind::Unsupported { what: kind.keyword() }));
        assert_eq!(copy(&bytes), Err(ReadErrorKind::Unsupported { what: kind.keyword() }));
        // An empty sequence of them is no value of one.
        let empty = octets(|w| {
            TypeCode::sequence(code.clone()).write(w);
            w.u32(0);
        });
        assert!(skip(&empty).is_ok());
        assert_eq!(decode(&empty).unwrap().value.to_string(), "[]");
    }
}

#[test]
fn refuses_numbers_that_are_no_kinds() {
    for number in [37, 100, 0x7FFF_FFFF, 0xFFFF_FFFE] {
        let bytes = octets(|w| w.u32(number));
        let wanted = ReadErrorKind::BadValue { what: "TCKind", value: number };
        assert_eq!(skip(&bytes), Err(wanted));
        assert_eq!(read_type(&bytes), Err(wanted));
        assert!(AnyRef::read(&mut Reader::new(&bytes, ENCODING), &mut Work::default()).is_err());
    }
}
