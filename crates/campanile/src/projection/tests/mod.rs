//! Types and values that are made of each other.

mod random;

use super::*;
use crate::declared::NATIVE;
use giop::cdr::{Encoding, Reader, Writer};
use giop::typecode::{Kind, TypeCode, Work};
use giop::value::Value;

fn long() -> TypeCode {
    TypeCode::primitive(Kind::Long)
}

fn structure(name: &str, members: &[(&str, TypeCode)]) -> TypeCode {
    TypeCode::structure(&format!("IDL:{name}:1.0"), name, members)
}

fn octets(of: &TypeCode, value: &Value, encoding: Encoding, phase: usize) -> Vec<u8> {
    let mut octets = Vec::new();
    value.write(of, &mut Writer::with_phase(&mut octets, phase, encoding)).unwrap();
    octets
}

fn read(of: &TypeCode, octets: &[u8]) -> Value {
    without_names(Value::read(of, &mut Reader::new(octets, NATIVE), &mut Work::default()).unwrap())
}

/// The value as if its structs had no names, so that one can be written down shortly.
pub(super) fn without_names(value: Value) -> Value {
    match value {
        Value::Struct { fields, .. } => {
            let fields = fields.into_iter().map(|(name, value)| (name, without_names(value))).collect();
            Value::Struct { type_name: String::new(), fields }
        }
        Value::Sequence(values) => Value::Sequence(values.into_iter().map(without_names).collect()),
        value => value,
    }
}

fn fields(fields: &[(&str, Value)]) -> Value {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Value::Struct { type_name: String::new(), fields }
}

pub(super) fn project(source: &TypeCode, target: &TypeCode, value: &Value) -> Result<Value, String> {
    let plan = Plan::new(source, target, &Defaults::default()).map_err(|misfit| misfit.to_string())?;
    let mut seen = None;
    for (endian, phase) in [(Endian::Big, 0), (Endian::Little, 0), (Endian::Big, 4), (Endian::Little, 3)] {
        let encoding = Encoding { endian, ..NATIVE };
        let came = octets(source, value, encoding, phase);
        let mut made = Vec::new();
        let mut reader = Reader::with_phase(&came, phase, encoding);
        plan.check(&mut reader.clone()).map_err(|fault| fault.to_string())?;
        plan.run(&mut reader, &mut Writer::new(&mut made, NATIVE)).map_err(|fault| fault.to_string())?;
        assert!(reader.is_empty(), "all is read");
        let value = read(target, &made);
        assert_eq!(*seen.get_or_insert(value.clone()), value);
    }
    Ok(seen.unwrap())
}

#[test]
fn members_go_by_name_in_any_order_and_extra_ones_are_left_out() {
    let source =
        structure("S", &[("a", long()), ("text", TypeCode::string()), ("b", TypeCode::primitive(Kind::Short))]);
    let target =
        structure("S", &[("b", TypeCode::primitive(Kind::Double)), ("a", TypeCode::primitive(Kind::LongLong))]);
    let value = fields(&[("a", Value::Long(-7)), ("text", Value::String("grüße".into())), ("b", Value::Short(-3))]);
    let made = project(&source, &target, &value).unwrap();
    assert_eq!(made, fields(&[("b", Value::Double(-3.0)), ("a", Value::LongLong(-7))]));
}

#[test]
fn a_missing_member_is_reported_with_its_path_unless_it_is_optional() {
    let inner = structure("Place", &[("x", long())]);
    let source = structure("S", &[("places", TypeCode::sequence(inner))]);
    let optional = TypeCode::bounded_sequence(TypeCode::string(), 1);
    let wanted = structure("Place", &[("x", long()), ("note", optional)]);
    let target = structure("S", &[("places", TypeCode::sequence(wanted))]);
    let value = fields(&[("places", Value::Sequence(vec![fields(&[("x", Value::Long(1))])]))]);
    let made = project(&source, &target, &value).unwrap();
    let Value::Struct { fields: made, .. } = made else { panic!() };
    assert!(format!("{made:?}").contains("\"note\", Sequence([])"), "{made:?}");
    let wanted = structure("Place", &[("x", long()), ("y", long())]);
    let target = structure("S", &[("places", TypeCode::sequence(wanted))]);
    let told = project(&source, &target, &value).unwrap_err();
    assert_eq!(told, "places[].y: missing: Place has no such member");
}

#[test]
fn numbers_that_might_not_fit_are_refused_with_their_path() {
    let source = structure("S", &[("n", TypeCode::primitive(Kind::LongLong))]);
    let target = structure("S", &[("n", long())]);
    let told = Plan::new(&source, &target, &Defaults::default()).unwrap_err().to_string();
    assert_eq!(told, "n: a long long cannot be taken for a long");
}

#[test]
fn enums_go_by_label_and_a_label_that_is_missing_is_reported_when_it_comes() {
    let of = |labels: &[&str]| structure("S", &[("state", TypeCode::enumeration("IDL:State:1.0", "State", labels))]);
    let (source, target) = (of(&["OK", "BUSY", "FAILED"]), of(&["FAILED", "OK"]));
    let label = |label: &str, index| {
        let (type_name, label) = ("State".into(), label.into());
        fields(&[("state", Value::Enum { type_name, label, index })])
    };
    assert_eq!(project(&source, &target, &label("FAILED", 2)).unwrap(), label("FAILED", 0));
    assert_eq!(project(&source, &target, &label("BUSY", 1)).unwrap_err(), "state: State has no label BUSY");
}

#[test]
fn sequences_and_arrays_become_each_other_where_their_lengths_allow() {
    let source = structure("S", &[("xs", TypeCode::sequence(TypeCode::primitive(Kind::Float)))]);
    let target = structure("S", &[("xs", TypeCode::array(TypeCode::primitive(Kind::Double), 2))]);
    let value = |count| fields(&[("xs", Value::Sequence(vec![Value::Float(1.5); count]))]);
    let made = project(&source, &target, &value(2)).unwrap();
    assert_eq!(made, fields(&[("xs", Value::Array(vec![Value::Double(1.5); 2]))]));
    assert_eq!(project(&source, &target, &value(3)).unwrap_err(), "xs: 3 elements, where 2 are expected");
}

#[test]
fn a_type_that_contains_itself_is_walked_to_a_bounded_depth() {
    let id = "IDL:Tree:1.0";
    let tree = |kind| {
        let children = TypeCode::sequence(TypeCode::recursive(id));
        TypeCode::structure(id, "Tree", &[("value", TypeCode::primitive(kind)), ("children", children)])
    };
    let leaf = |value| fields(&[("value", value), ("children", Value::Sequence(Vec::new()))]);
    let node = fields(&[("value", Value::Long(1)), ("children", Value::Sequence(vec![leaf(Value::Long(2))]))]);
    let made = project(&tree(Kind::Long), &tree(Kind::LongLong), &node).unwrap();
    assert!(format!("{made:?}").contains("LongLong(2)"), "{made:?}");
    // Deeper than any stack: a chain of nodes with one child each.
    let mut chain = Vec::new();
    (0..100_000_u32).for_each(|_| chain.extend([1_u32, 1].iter().flat_map(|n| n.to_ne_bytes())));
    let plan = Plan::same(&tree(Kind::Long)).unwrap();
    let told = plan.check(&mut Reader::new(&chain, NATIVE)).unwrap_err().to_string();
    assert!(told.contains("beyond all measure"), "{told}");
}

#[test]
fn what_lies_as_it_is_wanted_is_known() {
    let plan = Plan::same(&structure("S", &[("a", long()), ("b", TypeCode::primitive(Kind::Double))])).unwrap();
    let octets = [0; 32];
    let at = |phase, encoding| plan.has_native_layout(&mut Reader::with_phase(&octets, phase, encoding)).unwrap();
    let other = if Endian::NATIVE == Endian::Little { Endian::Big } else { Endian::Little };
    assert!(at(0, NATIVE) && at(7, NATIVE) && !at(4, NATIVE));
    assert!(!at(0, Encoding { endian: other, ..NATIVE }));
    assert!(at(0, Encoding { chars: CharSet::Latin1, ..NATIVE }), "there is no text in it");
    let plan = Plan::same(&TypeCode::string()).unwrap();
    let mut reader = Reader::new(&octets, Encoding { chars: CharSet::Latin1, ..NATIVE });
    assert!(!plan.has_native_layout(&mut reader).unwrap());
}

#[test]
fn text_is_checked_and_put_into_the_readers_code_set() {
    let of = structure("S", &[("text", TypeCode::bounded_string(4))]);
    let plan = Plan::same(&of).unwrap();
    let text = |octets: &[u8]| {
        let mut all = Vec::new();
        Writer::new(&mut all, NATIVE).string_bytes(octets);
        all
    };
    let check = |octets: &[u8]| plan.check(&mut Reader::new(&text(octets), NATIVE)).map_err(|fault| fault.to_string());
    assert_eq!(check("äö".as_bytes()), Ok(()));
    assert_eq!(check(b"a\0b").unwrap_err(), "text: a text with NUL in it");
    assert!(check(&[0xFF]).unwrap_err().contains("UTF-8"));
    assert_eq!(check(b"12345").unwrap_err(), "text: a text of 5, where there may be 4");
    // A length of 0 is taken from others, and is no string of one's own.
    let strictly =
        |octets: &[u8]| plan.check_strictly(&mut Reader::new(octets, NATIVE)).map_err(|fault| fault.to_string());
    assert_eq!((strictly(&text(b"")), plan.check(&mut Reader::new(&[0; 4], NATIVE))), (Ok(()), Ok(())));
    assert_eq!(strictly(&[0; 4]).unwrap_err(), "text: a string of length 0: the length counts the NUL");
    let latin = Encoding { chars: CharSet::Latin1, ..NATIVE };
    let mut made = Vec::new();
    plan.run(&mut Reader::new(&text(b"\xE4"), latin), &mut Writer::new(&mut made, NATIVE)).unwrap();
    assert_eq!(read(&of, &made), fields(&[("text", Value::String("ä".into()))]));
    let out = |text_octets: &[u8]| {
        plan.run(&mut Reader::new(&text(text_octets), NATIVE), &mut Writer::new(&mut Vec::new(), latin))
    };
    assert_eq!(out("ä".as_bytes()), Ok(()));
    assert!(out("塔".as_bytes()).unwrap_err().to_string().contains("beyond ISO 8859-1"));
}
