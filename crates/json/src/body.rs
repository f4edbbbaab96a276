//! The body of a typed event. Its members are usually among the event's fields as well; each is shown once.
//!
//! A body that is a struct with the name of its event's type is written without the members that are fields, and read with the fields in
//! their place.

use alloc::borrow::{Cow, ToOwned};
use alloc::string::String;
use alloc::vec::Vec;
use core::borrow::Borrow;
use giop::value::{AnyValue, Value};
use serde_json::{Map, Value as Json};

/// Removes the members of a typed event's body that repeat fields, as far as both are in the same order.
pub fn leave_out_fields<N: AsRef<str>, V: Borrow<Value>>(
    body: &mut AnyValue,
    type_name: &str,
    fields: impl Iterator<Item = (N, V)>,
) {
    let is_typed = body.type_code.root().name() == type_name;
    let Value::Struct { fields: members, .. } = &mut body.value else { return };
    if !is_typed {
        return;
    }
    let mut fields = fields.peekable();
    members.retain(|(name, value)| {
        let is_next = |(field, of_field): &(N, V)| field.as_ref() == name && of_field.borrow() == value;
        fields.next_if(is_next).is_none()
    });
}

/// Takes a body `{"type":…,"value":…}` apart.
#[must_use]
pub fn typed(json: &Json) -> Option<(&str, &Json)> {
    let Json::Object(members) = json else { return None };
    match (members.len(), members.get("type"), members.get("value")) {
        (2, Some(Json::String(name)), Some(value)) => Some((name, value)),
        _ => None,
    }
}

/// The value of a typed body. If the body belongs to a typed event, members missing from the value are taken from the event's fields.
#[must_use]
pub fn with_fields<'v>(
    value: &'v Json,
    name: &str,
    type_name: Option<&str>,
    fields: Option<&Map<String, Json>>,
    is_member: impl Fn(&str) -> bool,
) -> Cow<'v, Json> {
    let (Json::Object(members), Some(fields), true) = (value, fields, type_name == Some(name)) else {
        return Cow::Borrowed(value);
    };
    let more = fields.iter().filter(|(name, _)| !members.contains_key(*name) && is_member(name));
    let more: Vec<_> = more.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    Cow::Owned(Json::Object(members.clone().into_iter().chain(more).collect()))
}
