//! Values of properties, which come with their types, as TOML.

use super::xml::Element;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// What is refused, and why.
pub(super) type Refusal<'e> = (&'e Element, String);

/// Kinds of whole numbers, with their ranges.
const INTEGERS: [(&str, i128, i128); 7] = [
    ("octet", 0, u8::MAX as i128),
    ("short", i16::MIN as i128, i16::MAX as i128),
    ("ushort", 0, u16::MAX as i128),
    ("long", i32::MIN as i128, i32::MAX as i128),
    ("ulong", 0, u32::MAX as i128),
    ("longlong", i64::MIN as i128, i64::MAX as i128),
    ("ulonglong", 0, u64::MAX as i128),
];

/// The value of a property: `value`, which has a type and data.
pub(super) fn of_property(property: &Element) -> Result<Value, Refusal<'_>> {
    let value = property.child("value").unwrap_or(property);
    match &*value.children {
        [of, data] if of.name == "type" && data.name == "value" => read(of, data),
        _ => Err((value, "it has no value with a type, and a value behind it".to_owned())),
    }
}

/// Data of a type, which is that of a property, a member or an element.
fn read<'e>(of: &'e Element, data: &'e Element) -> Result<Value, Refusal<'e>> {
    let kind = of.text_of("kind");
    let name = kind.strip_prefix("tk_").unwrap_or_default();
    if let Some((_, least, most)) = INTEGERS.iter().find(|(known, ..)| *known == name) {
        let text = only(data, name)?.text();
        let number = text.parse().ok().filter(|number| (least..=most).contains(&number));
        let number: i128 = number.ok_or_else(|| (data, format!("{text:?} is no {name}: give {least} to {most}")))?;
        let in_toml = i64::try_from(number);
        return in_toml
            .map(Value::Integer)
            .map_err(|_| (data, format!("{number} is more than TOML's largest number, {}", i64::MAX)));
    }
    match name {
        "boolean" => match only(data, name)?.text() {
            "true" | "1" => Ok(Value::Boolean(true)),
            "false" | "0" => Ok(Value::Boolean(false)),
            other => Err((data, format!("{other:?} is no boolean: give true or false"))),
        },
        "float" | "double" | "longdouble" => {
            let text = only(data, name)?.text();
            text.parse().map(Value::Float).map_err(|_| (data, format!("{text:?} is no {name}: give a number")))
        }
        // Characters are strings in these files.
        "string" | "wstring" | "char" | "wchar" => {
            let name = if data.child("string").is_some() { "string" } else { name };
            Ok(Value::String(only(data, name)?.content.clone()))
        }
        "enum" => Ok(Value::String(only(data, name)?.text().to_owned())),
        "struct" => read_struct(of, data),
        "sequence" | "array" => read_elements(of, data, name),
        "alias" => read(content(of, name, "elementType")?, data),
        _ => Err((
            of,
            format!(
                "values of the kind {kind:?} are not taken: give numbers, strings, enums, structs, sequences or arrays of these"
            ),
        )),
    }
}

/// The one child that data has.
fn only<'e>(data: &'e Element, name: &str) -> Result<&'e Element, Refusal<'e>> {
    match &*data.children {
        [only] if only.name == name => Ok(only),
        _ => Err((data, format!("by its type it has one {name}, and nothing else"))),
    }
}

/// What a type is made of.
fn content<'e>(of: &'e Element, kind: &str, name: &str) -> Result<&'e Element, Refusal<'e>> {
    of.child(kind).and_then(|kind| kind.child(name)).ok_or_else(|| (of, format!("the type has no {kind} with {name}")))
}

fn read_struct<'e>(of: &'e Element, data: &'e Element) -> Result<Value, Refusal<'e>> {
    let declared = of.child("struct").ok_or_else(|| (of, "the type has no struct with its members".to_owned()))?;
    let mut missing: BTreeMap<_, _> =
        declared.all("member").map(|member| (member.text_of("name"), member.child("type"))).collect();
    let mut members = Table::new();
    for member in &data.children {
        let name = member.text_of("name");
        let (Some(Some(of)), Some(value)) = (missing.remove(name), member.child("value")) else {
            return Err((
                member,
                format!("the struct has no member {name:?}, it is there twice, or it has no type or value"),
            ));
        };
        members.insert(name.to_owned(), read(of, value)?);
    }
    match missing.keys().next() {
        Some(name) => Err((data, format!("the member {name} is missing"))),
        None => Ok(Value::Table(members)),
    }
}

fn read_elements<'e>(of: &'e Element, data: &'e Element, name: &str) -> Result<Value, Refusal<'e>> {
    let element = content(of, name, "elementType")?;
    let limit = |name: &str| of.children.iter().find_map(|kind| kind.child(name)?.text().parse::<usize>().ok());
    let (length, bound) = (limit("length"), limit("bound").filter(|bound| *bound > 0));
    let count = data.children.len();
    if length.is_some_and(|length| length != count) || bound.is_some_and(|bound| bound < count) {
        return Err((data, format!("it has {count} elements, and {} by its type", length.or(bound).unwrap_or(0))));
    }
    if let Some(other) = data.children.iter().find(|child| child.name != "element") {
        return Err((other, format!("data of the kind {name} are elements only: write element")));
    }
    data.children.iter().map(|data| read(element, data)).collect::<Result<_, _>>().map(Value::Array)
}
