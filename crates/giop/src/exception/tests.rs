//! Tests of system exceptions.

use super::*;
use crate::cdr::{CharSet, Encoding, Endian, Version};
use alloc::string::ToString;
use alloc::vec::Vec;

#[test]
fn every_kind_has_an_id_of_its_own() {
    assert_eq!(Kind::ALL.len(), 40);
    for &kind in Kind::ALL {
        let id = kind.repository_id();
        assert_eq!(id, ["IDL:omg.org/CORBA/", kind.name(), ":1.0"].concat());
        assert_eq!(Kind::from_repository_id(id.as_bytes()), Some(kind));
        assert_eq!(Kind::ALL.iter().filter(|other| other.name() == kind.name()).count(), 1);
    }
    assert_eq!(Kind::from_repository_id(b"IDL:CORBA/TRANSIENT:1.0"), Some(Kind::Transient));
    for unknown in ["", "IDL:omg.org/CORBA/TRANSIENT:1.1", "IDL:omg.org/CORBA/transient:1.0", "IDL:acme/TRANSIENT:1.0"]
    {
        assert_eq!(Kind::from_repository_id(unknown.as_bytes()), None);
    }
}

#[test]
fn reads_what_was_written_and_nothing_shorter() {
    for endian in [Endian::Big, Endian::Little] {
        for completed in [Completed::Yes, Completed::No, Completed::Maybe] {
            for &kind in Kind::ALL {
                let exception = SystemException { kind, minor: OMG_MINOR | 2, completed };
                let encoding = Encoding { endian, version: Version::V1_1, chars: CharSet::Utf8 };
                let mut bytes = Vec::new();
                exception.write(&mut Writer::with_phase(&mut bytes, 4, encoding));
                let read = |len: usize| SystemException::read(&mut Reader::with_phase(&bytes[..len], 4, encoding));
                assert_eq!(read(bytes.len()), Ok(exception));
                (0..bytes.len()).for_each(|len| assert!(read(len).is_err()));
            }
        }
    }
}

#[test]
fn an_exception_that_is_not_the_standards_is_unknown() {
    let mut bytes = Vec::new();
    let encoding = Encoding::new(Endian::Big);
    let mut w = Writer::new(&mut bytes, encoding);
    w.string("IDL:acme.example/CORBA/TIRED:1.0");
    w.u32(3);
    w.u32(1);
    assert_eq!(SystemException::read(&mut Reader::new(&bytes, encoding)), Ok(SystemException::new(Kind::Unknown, 3)));
    *bytes.last_mut().unwrap() = 3;
    let error = SystemException::read(&mut Reader::new(&bytes, encoding)).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::BadValue { what: "completion_status", value: 3 });
}

#[test]
fn reads_as_people_write_it() {
    let exception = SystemException::new(Kind::ObjectNotExist, OMG_MINOR | 1);
    assert_eq!(exception.to_string(), "OBJECT_NOT_EXIST (minor 0x4f4d0001, COMPLETED_NO)");
}

#[test]
fn a_detail_is_one_line_of_text_for_people_and_anything_else_is_none() {
    for (written, read) in [
        ("the request has 9 octets", Some("the request has 9 octets")),
        ("größer \u{1F600}", Some("größer \u{1F600}")),
        ("a\u{1b}[2Jb\nc", Some("a[2Jb")),
        ("", None),
        ("\u{7}", None),
    ] {
        assert_eq!(parse_detail_context(&detail_context(written)).as_deref(), read, "{written:?}");
    }
    assert_eq!(parse_detail_context(&detail_context(&"x".repeat(5_000))).unwrap().len(), DETAIL_CHARS_MAX);
    for data in [&b""[..], b"why", b"\0\0\0\0\xff\xff\xff\xff", b"\0\0\0\0\0\0\0\x02\xd8\0"] {
        assert_eq!(parse_detail_context(data), None, "{data:?}");
    }
}
