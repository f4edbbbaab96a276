use super::{AnyRef, AnyValue, Value, WriteError};
use crate::cdr::{CharSet, Encoding, Endian, ReadErrorKind, Reader, Version, Writer};
use crate::ior::Ior;
use crate::recode;
use crate::typecode::{Kind, TypeCode, Work};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

const BIG: Encoding = Encoding::new(Endian::Big);
const LITTLE: Encoding = Encoding::new(Endian::Little);

fn written(code: &TypeCode, value: &Value, encoding: Encoding) -> Result<Vec<u8>, WriteError> {
    let mut bytes = Vec::new();
    value.write(code, &mut Writer::new(&mut bytes, encoding))?;
    Ok(bytes)
}

fn read(code: &TypeCode, bytes: &[u8], encoding: Encoding) -> Result<Value, ReadErrorKind> {
    let mut reader = Reader::new(bytes, encoding);
    let value = Value::read(code, &mut reader, &mut Work::default()).map_err(|error| error.kind)?;
    reader.finish("value").map_err(|error| error.kind)?;
    Ok(value)
}

fn copied(any: &AnyValue, from: Encoding, to: Encoding) -> Vec<u8> {
    let (mut bytes, mut copy) = (Vec::new(), Vec::new());
    any.write(&mut Writer::new(&mut bytes, from)).unwrap();
    let mut reader = Reader::new(&bytes, from);
    recode::copy_any(&mut reader, &mut Writer::new(&mut copy, to), &mut Work::default()).unwrap();
    copy
}

#[test]
fn decimals_are_two_digits_an_octet_and_a_sign() {
    let code = TypeCode::fixed(7, 2);
    for (text, bytes) in [
        ("12345.67", [0x12, 0x34, 0x56, 0x7C]),
        ("-12345.67", [0x12, 0x34, 0x56, 0x7D]),
        ("0.05", [0x00, 0x00, 0x00, 0x5C]),
        ("-1.50", [0x00, 0x00, 0x15, 0x0D]),
    ] {
        assert_eq!(written(&code, &Value::Fixed(text.into()), BIG).unwrap(), bytes);
        assert_eq!(read(&code, &bytes, LITTLE).unwrap(), Value::Fixed(text.into()));
    }
    // Shorter text means the same; longer text does not fit.
    assert_eq!(written(&code, &Value::Fixed("+00012".into()), BIG).unwrap(), [0x00, 0x01, 0x20, 0x0C]);
    assert_eq!(written(&code, &Value::Fixed(".5".into()), BIG).unwrap(), [0x00, 0x00, 0x05, 0x0C]);
    for wrong in ["", ".", "-", "1.234", "123456", "1e3", "1.2.3", " 1", "0x1"] {
        let result = written(&code, &Value::Fixed(wrong.into()), BIG);
        assert_eq!(result, Err(WriteError::OutOfRange { of: "fixed<7,2>".into() }), "{wrong}");
    }
    // An even number of digits leaves half an octet over.
    let even = TypeCode::fixed(4, 0);
    assert_eq!(written(&even, &Value::Fixed("1234".into()), BIG).unwrap(), [0x01, 0x23, 0x4C]);
    assert_eq!(read(&even, &[0x01, 0x23, 0x4D], BIG).unwrap(), Value::Fixed("-1234".into()));
    for wrong in [[0x11, 0x23, 0x4C], [0x01, 0x2A, 0x4C], [0x01, 0x23, 0x41]] {
        assert!(matches!(read(&even, &wrong, BIG), Err(ReadErrorKind::Malformed { .. })));
    }
    // JacORB leaves leading zeros out.
    assert_eq!(read(&code, &[0x12, 0x3D], BIG).unwrap(), Value::Fixed("-1.23".into()));
    assert_eq!(read(&even, &[0x0C], BIG).unwrap(), Value::Fixed("0".into()));
    for cut in [&[][..], &[0x12], &[0x12, 0x34]] {
        assert!(matches!(read(&code, cut, BIG), Err(ReadErrorKind::Truncated { .. })));
    }
    // A negative scale leaves zeros out.
    let thousands = TypeCode::fixed(3, -3);
    assert_eq!(written(&thousands, &Value::Fixed("12000".into()), BIG).unwrap(), [0x01, 0x2C]);
    assert_eq!(read(&thousands, &[0x01, 0x2C], BIG).unwrap(), Value::Fixed("12000".into()));
    assert!(written(&thousands, &Value::Fixed("12001".into()), BIG).is_err());
}

#[test]
fn a_union_chooses_its_member_by_label_then_by_default_then_none() {
    let long = TypeCode::primitive(Kind::Long);
    let labelled = [(Some(1), "one", TypeCode::primitive(Kind::Octet)), (Some(2), "two", TypeCode::string())];
    let union = TypeCode::union("IDL:U:1.0", "U", long.clone(), &labelled);
    let value = |discriminator, member: Option<(&str, Value)>| Value::Union {
        type_name: "U".into(),
        discriminator: Box::new(Value::Long(discriminator)),
        member: member.map(|(name, value)| (String::from(name), Box::new(value))),
    };
    let one = value(1, Some(("one", Value::Octet(9))));
    assert_eq!(written(&union, &one, BIG).unwrap(), [0, 0, 0, 1, 9]);
    assert_eq!(read(&union, &[0, 0, 0, 1, 9], BIG).unwrap(), one);
    let none = value(3, None);
    assert_eq!(written(&union, &none, BIG).unwrap(), [0, 0, 0, 3]);
    assert_eq!(read(&union, &[0, 0, 0, 3], BIG).unwrap(), none);
    let with_default = [labelled[0].clone(), (None, "rest", TypeCode::primitive(Kind::Boolean))];
    let with_default = TypeCode::union("IDL:U:1.0", "U", long, &with_default);
    let rest = value(3, Some(("rest", Value::Bool(true))));
    assert_eq!(written(&with_default, &rest, BIG).unwrap(), [0, 0, 0, 3, 1]);
    assert_eq!(read(&with_default, &[0, 0, 0, 3, 1], BIG).unwrap(), rest);
    // The default member's label is a number too, but means nothing.
    assert_eq!(read(&with_default, &[0, 0, 0, 0, 1], BIG).unwrap(), value(0, Some(("rest", Value::Bool(true)))));
    let wrong =
        |expected: &str, found: &str| Err(WriteError::WrongMember { expected: expected.into(), found: found.into() });
    assert_eq!(written(&union, &value(1, None), BIG), wrong("one", ""));
    assert_eq!(written(&union, &value(3, Some(("one", Value::Octet(9)))), BIG), wrong("", "one"));
    assert_eq!(written(&union, &value(2, Some(("one", Value::Octet(9)))), BIG), wrong("two", "one"));
}

#[test]
fn wide_text_differs_between_versions() {
    let encoding = |version| Encoding { version, ..LITTLE };
    let any = AnyValue::new(TypeCode::wstring(), Value::Wstring("\u{20AC}".into()));
    let old = [27, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0xAC, 0x20, 0, 0];
    let new = [27, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0x20, 0xAC];
    assert_eq!(copied(&any, encoding(Version::V1_2), encoding(Version::V1_1)), old);
    assert_eq!(copied(&any, encoding(Version::V1_1), encoding(Version::V1_2)), new);
    assert_eq!(copied(&any, encoding(Version::V1_2), BIG)[8..], [0, 0, 0, 2, 0x20, 0xAC]);
    let letter = AnyValue::new(TypeCode::primitive(Kind::Wchar), Value::Wchar('\u{20AC}'));
    assert_eq!(copied(&letter, encoding(Version::V1_2), encoding(Version::V1_1)), [26, 0, 0, 0, 0xAC, 0x20]);
    assert_eq!(copied(&letter, encoding(Version::V1_1), encoding(Version::V1_2)), [26, 0, 0, 0, 2, 0x20, 0xAC]);
}

/// omniORB puts a byte order mark in front of wide text, and sends it in its own byte order.
#[test]
fn a_byte_order_mark_stays_where_the_layout_stays() {
    let bytes = [27, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0xFF, 0xFE, 0xAC, 0x20];
    let mut copy = Vec::new();
    recode::copy_any(&mut Reader::new(&bytes, LITTLE), &mut Writer::new(&mut copy, BIG), &mut Work::default()).unwrap();
    assert_eq!(copy, [0, 0, 0, 27, 0, 0, 0, 0, 0, 0, 0, 4, 0xFF, 0xFE, 0xAC, 0x20]);
    let read = AnyValue::read(&mut Reader::new(&copy, BIG), &mut Work::default()).unwrap();
    assert_eq!(read.value, Value::Wstring("\u{20AC}".into()));
}

#[test]
fn narrow_text_is_put_into_the_other_code_set() {
    let utf8 = Encoding { chars: CharSet::Utf8, ..BIG };
    let text = |text: &str| AnyValue::from(text);
    assert_eq!(copied(&text("na\u{EF}ve caf\u{E9}"), BIG, utf8)[8..], *b"\0\0\0\x0dna\xC3\xAFve caf\xC3\xA9\0");
    assert_eq!(copied(&text("na\u{EF}ve caf\u{E9}"), utf8, BIG)[8..], *b"\0\0\0\x0bna\xEFve caf\xE9\0");
    let refused = |any: &AnyValue, from, to| {
        let mut bytes = Vec::new();
        any.write(&mut Writer::new(&mut bytes, from)).unwrap();
        let mut copy = Vec::new();
        recode::copy_any(&mut Reader::new(&bytes, from), &mut Writer::new(&mut copy, to), &mut Work::default())
            .map_err(|error| error.kind.to_string())
            .unwrap_err()
    };
    // What ISO 8859-1 lacks, and what has no single octet in UTF-8, became `?`.
    let euro = refused(&text("5 \u{20AC}"), utf8, BIG);
    assert!(euro.starts_with("'€' (U+20AC) cannot be sent: ISO 8859-1 lacks it"), "{euro}");
    let high = AnyValue::new(TypeCode::primitive(Kind::Char), Value::Char('\u{E9}'));
    assert!(refused(&high, BIG, utf8).starts_with("'é' (U+00E9) cannot be sent"));
    assert_eq!(copied(&high, utf8, BIG)[4..], [0xE9]);
    let clef = AnyValue::new(TypeCode::primitive(Kind::Wchar), Value::Wchar('\u{1D11E}'));
    assert!(refused(&clef, BIG, Encoding { version: Version::V1_1, ..BIG }).starts_with("'\u{1D11E}' (U+1D11E)"));
    assert_eq!(copied(&high, BIG, LITTLE)[4..], [0xE9]);
    let bad = b"\0\0\0\x12\0\0\0\0\0\0\0\x02\xFF\0";
    let mut reader = Reader::new(bad, utf8);
    let error = recode::copy_any(&mut reader, &mut Writer::new(&mut Vec::new(), BIG), &mut Work::default());
    assert_eq!(error.unwrap_err().kind, ReadErrorKind::BadText { charset: "UTF-8" });
}

/// A `char` discriminator has to go on matching the labels, which lie in an encapsulation that is copied as it is.
#[test]
fn a_char_discriminator_stays_the_octet_that_it_is() {
    let members = [(Some(0xE9), "e", TypeCode::primitive(Kind::Octet))];
    let union = TypeCode::union("IDL:U:1.0", "U", TypeCode::primitive(Kind::Char), &members);
    let value = Value::Union {
        type_name: "U".into(),
        discriminator: Box::new(Value::Char('\u{E9}')),
        member: Some(("e".into(), Box::new(Value::Octet(7)))),
    };
    let any = AnyValue::new(union, value);
    let utf8 = Encoding { chars: CharSet::Utf8, ..LITTLE };
    let copy = copied(&any, BIG, utf8);
    assert_eq!(AnyValue::read(&mut Reader::new(&copy, utf8), &mut Work::default()).unwrap(), any);
}

#[test]
fn an_exception_begins_with_its_repository_id() {
    let code = TypeCode::exception("IDL:E:1.0", "E", &[("code", TypeCode::primitive(Kind::Octet))]);
    let value = Value::Exception { type_name: "E".into(), fields: vec![("code".into(), Value::Octet(5))] };
    let bytes = written(&code, &value, BIG).unwrap();
    assert_eq!(bytes, *b"\0\0\0\x0aIDL:E:1.0\0\x05");
    assert_eq!(read(&code, &bytes, BIG).unwrap(), value);
}

#[test]
fn octets_in_a_row_are_one_value() {
    let octet = TypeCode::primitive(Kind::Octet);
    let alias = TypeCode::alias("IDL:Byte:1.0", "Byte", octet);
    let sequence = TypeCode::bounded_sequence(alias.clone(), 3);
    assert_eq!(read(&sequence, &[0, 0, 0, 2, 7, 8], BIG).unwrap(), Value::Octets(vec![7, 8]));
    let too_long = written(&sequence, &Value::Octets(vec![0; 4]), BIG);
    assert_eq!(too_long, Err(WriteError::TooLong { bound: 3, length: 4 }));
    let array = TypeCode::array(alias, 2);
    assert_eq!(read(&array, &[7, 8], BIG).unwrap(), Value::Octets(vec![7, 8]));
    let wrong = written(&array, &Value::Octets(vec![0; 4]), BIG);
    assert_eq!(wrong, Err(WriteError::WrongLength { of: "Byte[2]".into(), expected: 2, found: 4 }));
    // One by one they are the same.
    let single = Value::Sequence(vec![Value::Octet(7), Value::Octet(8)]);
    assert_eq!(written(&sequence, &single, BIG).unwrap(), [0, 0, 0, 2, 7, 8]);
}

#[test]
fn an_enum_has_only_its_own_numbers() {
    let code = TypeCode::enumeration("IDL:C:1.0", "C", &["red", "green"]);
    let green = Value::Enum { type_name: "C".into(), label: "green".into(), index: 1 };
    assert_eq!(read(&code, &[0, 0, 0, 1], BIG).unwrap(), green);
    assert_eq!(read(&code, &[0, 0, 0, 2], BIG), Err(ReadErrorKind::BadValue { what: "an enum", value: 2 }));
    let blue = Value::Enum { type_name: "C".into(), label: "blue".into(), index: 2 };
    assert_eq!(written(&code, &blue, BIG), Err(WriteError::OutOfRange { of: "C".into() }));
}

#[test]
fn a_value_of_another_type_is_not_written() {
    let wrong = written(&TypeCode::string(), &Value::Long(1), BIG).unwrap_err();
    assert_eq!(wrong.to_string(), "a value of type string is expected, but this is a long");
    let structure = TypeCode::structure("", "S", &[("x", TypeCode::any())]);
    let value = Value::Struct { type_name: "S".into(), fields: vec![("y".into(), Value::Null)] };
    assert_eq!(
        written(&structure, &value, BIG).unwrap_err().to_string(),
        "the member 'x' is expected, but the value has 'y'"
    );
    let native = TypeCode::named(Kind::Native, "", "N");
    assert_eq!(written(&native, &Value::Null, BIG), Err(WriteError::Unsupported { kind: Kind::Native }));
    assert!(written(&TypeCode::primitive(Kind::Char), &Value::Char('\u{20AC}'), BIG).is_err());
}

#[test]
fn values_show_themselves_with_the_names_of_their_types() {
    let code = TypeCode::structure(
        "IDL:S:1.0",
        "S",
        &[
            ("when", TypeCode::primitive(Kind::Double)),
            ("name", TypeCode::string()),
            ("data", TypeCode::sequence(TypeCode::primitive(Kind::Octet))),
            ("who", TypeCode::object("IDL:I:1.0", "I")),
            ("inner", TypeCode::any()),
        ],
    );
    let fields = vec![
        ("when".into(), Value::Double(1.5)),
        ("name".into(), Value::String("a\"b".into())),
        ("data".into(), Value::Octets(vec![0xCA, 0xFE])),
        ("who".into(), Value::Object(Ior::nil())),
        ("inner".into(), Value::Any(Box::new(AnyValue::from(-7_i32)))),
    ];
    let any = AnyValue::new(code, Value::Struct { type_name: "S".into(), fields });
    assert_eq!(any.to_string(), r#"{when: 1.5, name: "a\"b", data: 0xcafe, who: nil, inner: -7}"#);
    let mut bytes = Vec::new();
    any.write(&mut Writer::new(&mut bytes, LITTLE)).unwrap();
    let lazy = AnyRef::read(&mut Reader::new(&bytes, LITTLE), &mut Work::default()).unwrap();
    assert_eq!(lazy.kind(), Kind::Struct);
    assert_eq!(format!("{}", lazy.decode(&mut Work::default()).unwrap()), any.to_string());
}

#[test]
fn a_lazy_any_knows_its_kind_and_its_text() {
    let alias = TypeCode::alias("IDL:Name:1.0", "Name", TypeCode::string());
    let any = AnyValue::new(alias, Value::String("caf\u{E9}".into()));
    let mut bytes = vec![0xEE; 5];
    any.write(&mut Writer::with_phase(&mut bytes, 5, LITTLE)).unwrap();
    let mut reader = Reader::new(&bytes, LITTLE);
    reader.take(5).unwrap();
    let lazy = AnyRef::read(&mut reader, &mut Work::default()).unwrap();
    assert!(reader.is_empty());
    assert_eq!((lazy.kind(), lazy.resolved_kind()), (Kind::Alias, Kind::String));
    assert_eq!(lazy.text().as_deref(), Some("caf\u{E9}"));
    assert_eq!(lazy.bytes(), &bytes[8..]);
    assert_eq!(lazy.value_reader(&mut Work::default()).unwrap().text().unwrap(), "caf\u{E9}");
    assert_eq!(AnyValue::default().to_string(), "null");
}
