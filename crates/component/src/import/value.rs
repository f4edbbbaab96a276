//! Values of properties, which come with their types, as TOML.
//!
//! In files, one type may be that of each of many data. So it is looked at as far as the data go, and no further: the time is that of the data's size.

use super::xml::Element;
use giop::value::Value as Wire;
use std::collections::BTreeMap;
use std::str::FromStr;
use toml::{Table, Value};

/// What is refused, and why.
pub(super) type Refusal<'e> = (&'e Element, String);

/// The most elements of a type's content, but for members: its name, id, length or bound, and the type of its elements.
const CONTENT_MAX: usize = 4;

/// The value of a property: `value`, which has a type and data.
pub(super) fn of_property(property: &Element) -> Result<Value, Refusal<'_>> {
    if let Some(value) = &property.value {
        return (**value).clone().map_err(|reason| (property, reason));
    }
    let value = property.child("value").unwrap_or(property);
    match &*value.children {
        [of, data] if of.name == "type" && data.name == "value" => read(of, data),
        _ => Err((value, "it has no value with a type, and a value behind it".to_owned())),
    }
}

/// A text that is the value of a property.
pub(super) fn text_of_property(property: &Element) -> Option<String> {
    Some(of_property(property).ok()?.as_str()?.trim().to_owned())
}

/// The value of a property that came over GIOP.
pub(super) fn of_wire(value: &Wire) -> Result<Value, String> {
    Ok(match value {
        Wire::Bool(value) => Value::Boolean(*value),
        Wire::Octet(value) => Value::Integer((*value).into()),
        Wire::Short(value) => Value::Integer((*value).into()),
        Wire::UShort(value) => Value::Integer((*value).into()),
        Wire::Long(value) => Value::Integer((*value).into()),
        Wire::ULong(value) => Value::Integer((*value).into()),
        Wire::LongLong(value) => Value::Integer(*value),
        Wire::ULongLong(value) => Value::Integer(i64::try_from(*value).map_err(|_| beyond(value))?),
        Wire::Float(value) => Value::Float((*value).into()),
        Wire::Double(value) => Value::Float(*value),
        // Characters are strings in plans.
        Wire::Char(value) | Wire::Wchar(value) => Value::String(value.to_string()),
        Wire::String(value) | Wire::Wstring(value) => Value::String(value.clone()),
        Wire::Enum { label, .. } => Value::String(label.clone()),
        Wire::Struct { fields, .. } => {
            let mut members = Table::new();
            for (name, value) in fields {
                if members.insert(name.clone(), of_wire(value)?).is_some() {
                    return Err(format!("a second member is called {name}: rename one"));
                }
            }
            Value::Table(members)
        }
        Wire::Octets(octets) => octets.iter().map(|octet| Value::Integer((*octet).into())).collect::<Vec<_>>().into(),
        Wire::Sequence(values) | Wire::Array(values) => {
            Value::Array(values.iter().map(of_wire).collect::<Result<_, _>>()?)
        }
        _ => {
            return Err(format!(
                "{value} is not taken: give numbers, strings, enums, structs, sequences or arrays of these"
            ));
        }
    })
}

fn beyond(number: impl std::fmt::Display) -> String {
    format!("{number} is more than TOML's largest number, {}", i64::MAX)
}

/// Data of a type, which is that of a property, a member or an element.
fn read<'e>(of: &'e Element, data: &'e Element) -> Result<Value, Refusal<'e>> {
    let (kind, content) = match &*of.children {
        [kind] => (kind, None),
        [kind, content] => (kind, Some(content)),
        _ => return Err((of, "a type has its kind, and at most one element of that name: remove others".to_owned())),
    };
    let kind = if kind.name == "kind" { kind.text() } else { "" };
    let name = kind.strip_prefix("tk_").unwrap_or_default();
    if let Some(other) = content.filter(|content| content.name != name) {
        return Err((other, format!("it is not understood in a type of the kind {kind:?}: remove it")));
    }
    let element = || {
        let content = content.filter(|content| content.children.len() <= CONTENT_MAX);
        let element = content.and_then(|content| content.child("elementType"));
        element.ok_or_else(|| (of, format!("the type has no {name} with elementType, or too much with it")))
    };
    match name {
        "octet" => number::<u8>(name, data),
        "short" => number::<i16>(name, data),
        "ushort" => number::<u16>(name, data),
        "long" => number::<i32>(name, data),
        "ulong" => number::<u32>(name, data),
        "longlong" => number::<i64>(name, data),
        "ulonglong" => number::<u64>(name, data),
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
        "struct" => {
            let content = content.ok_or_else(|| (of, "the type has no struct with its members".to_owned()))?;
            read_struct(content, data)
        }
        "sequence" | "array" => read_elements(content, element()?, data, name),
        "alias" => read(element()?, data),
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

fn number<'e, N: FromStr + TryInto<i64>>(name: &str, data: &'e Element) -> Result<Value, Refusal<'e>> {
    let text = only(data, name)?.text();
    let number: N =
        text.parse().map_err(|_| (data, format!("{text:?} is no {name}: give a whole number in its range")))?;
    let in_toml = number.try_into().map(Value::Integer);
    in_toml.map_err(|_| (data, beyond(text)))
}

fn read_struct<'e>(declared: &'e Element, data: &'e Element) -> Result<Value, Refusal<'e>> {
    let count = data.children.len();
    // Its name and id are no members.
    if declared.children.len() > count + 2 {
        return Err((data, format!("it has {count} members, and more by its type")));
    }
    let mut missing = BTreeMap::new();
    for member in declared.all("member") {
        let [name, of] = &*member.children else {
            return Err((member, "a member has a name and a type, and nothing else".to_owned()));
        };
        if missing.insert(name.text(), of).is_some() {
            return Err((member, format!("a second member is called {}: rename one", name.text())));
        }
    }
    let mut members = Table::new();
    for member in &data.children {
        let name = member.text_of("name");
        let (Some(of), Some(value)) = (missing.remove(name), member.child("value")) else {
            return Err((member, format!("the struct has no member {name:?}, it is there twice, or it has no value")));
        };
        members.insert(name.to_owned(), read(of, value)?);
    }
    match missing.keys().next() {
        Some(name) => Err((data, format!("the member {name} is missing"))),
        None => Ok(Value::Table(members)),
    }
}

fn read_elements<'e>(
    content: Option<&Element>,
    element: &'e Element,
    data: &'e Element,
    name: &str,
) -> Result<Value, Refusal<'e>> {
    // What is longer is no number of elements.
    let limit =
        |name: &str| content?.child(name).map(Element::text).filter(|text| text.len() < 20)?.parse::<usize>().ok();
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
