//! Selection of one field of an event, by a path as in filters.
//!
//! The field is looked up in the decoded event, so that a structure or sequence can be shown whole. Values that only the filter language
//! knows (`._length`, `._type_id`, a name within an event that was wrapped into another) are evaluated by the code of the service's
//! filters.

use client::notify::{Property, StructuredEvent};
use client::{Received, ReceivedBody};
use corba::event::{fields_of_any, fields_of_structured};
use filter::{Constraint, Fields, Label, Limits, Part, Path, Root, Steps};
use giop::value::{AnyValue, Value};

/// Maximum steps of a look-up.
const STEPS: u32 = 250_000;

/// Reads a path, with or without the `$` in front.
pub(crate) fn path(text: &str) -> Result<Path, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("a path is expected, for example celsius, tags[0] or .remainder_of_body.x".to_owned());
    }
    let path = if text.starts_with('$') { text.to_owned() } else { format!("${text}") };
    let constraint = Constraint::parse(&format!("exist {path}"), &Limits::default())
        .map_err(|error| format!("`{path}` is not a path: {}", error.reason()))?;
    match (constraint.paths(), constraint.nodes()) {
        ([path], 1) => Ok(path.clone()),
        _ => Err(format!("`{path}` is not a path; for example celsius, tags[0] or .remainder_of_body.x")),
    }
}

/// Target of a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Field {
    Value(Value),
    /// A number or text that is computed, not contained in the event.
    Derived(String),
}

/// Field of an event; `None` if it has no such field, or cannot be read.
pub(crate) fn field(received: &Received<'_>, path: &Path) -> Option<Field> {
    let found = match received.body() {
        ReceivedBody::Structured(_) => in_structured(&received.event().ok()?, path),
        ReceivedBody::Any(_) => in_any(&received.any().ok()?, path),
    };
    found.map(Field::Value).or_else(|| derived(received, path))
}

fn derived(received: &Received<'_>, path: &Path) -> Option<Field> {
    let fields = match received.body() {
        ReceivedBody::Structured(reader) => fields_of_structured(reader, 0),
        ReceivedBody::Any(reader) => fields_of_any(reader, 0),
    };
    match fields.field(path, &mut Steps::new(STEPS))? {
        filter::Value::Text(text) => Some(Field::Value(Value::String(text.to_string()))),
        value => Some(Field::Derived(scalar(&value))),
    }
}

/// A value of the filter language for people.
pub(crate) fn scalar(value: &filter::Value<'_>) -> String {
    match value {
        filter::Value::Bool(v) => v.to_string(),
        filter::Value::Int(v) => v.to_string(),
        filter::Value::UInt(v) => v.to_string(),
        filter::Value::Float(v) => v.to_string(),
        filter::Value::Char(c) => format!("{:?}", c.to_string()),
        filter::Value::Text(text) => format!("{:?}", text.to_string()),
        filter::Value::Enum { name, .. } => name.to_string(),
        filter::Value::Composite => "[…]".to_owned(),
    }
}

fn in_structured(event: &StructuredEvent, path: &Path) -> Option<Value> {
    let text = |text: &str| Some(Value::String(text.to_owned()));
    match &path.root {
        Root::CurrentTime => None,
        Root::Event => follow(&whole(event), &path.parts),
        Root::Name(name) => {
            let property = |list: &[Property], name: &str| list.iter().find(|p| p.name == name).map(|p| any(&p.value));
            let start = match &**name {
                "domain_name" => text(&event.domain),
                "type_name" => text(&event.type_name),
                "event_name" => text(&event.event_name),
                "priority" => property(&event.variable_header, "Priority"),
                "timeout" => property(&event.variable_header, "Timeout"),
                _ => None,
            };
            let start = start
                .or_else(|| property(&event.variable_header, name))
                .or_else(|| property(&event.filterable_data, name))
                .or_else(|| follow(&whole(event), &[Part::Member(name.clone())]))?;
            follow(&start, &path.parts)
        }
    }
}

fn in_any(event: &AnyValue, path: &Path) -> Option<Value> {
    match &path.root {
        Root::CurrentTime => None,
        Root::Event => follow(&event.value, &path.parts),
        Root::Name(name) => {
            let first = [Part::Member(name.clone()), Part::Named(name.clone())];
            let start = first.iter().find_map(|part| follow(&event.value, std::slice::from_ref(part)))?;
            follow(&start, &path.parts)
        }
    }
}

/// A structured event as the structure declared in its IDL.
fn whole(event: &StructuredEvent) -> Value {
    let StructuredEvent { domain, type_name, event_name, variable_header, filterable_data, remainder } = event;
    let text = |text: &String| Value::String(text.clone());
    let event_type = structure("_EventType", [("domain_name", text(domain)), ("type_name", text(type_name))]);
    let fixed = structure("FixedEventHeader", [("event_type", event_type), ("event_name", text(event_name))]);
    let header = structure("EventHeader", [("fixed_header", fixed), ("variable_header", properties(variable_header))]);
    structure(
        "StructuredEvent",
        [("header", header), ("filterable_data", properties(filterable_data)), ("remainder_of_body", any(remainder))],
    )
}

fn properties(properties: &[Property]) -> Value {
    let property = |property: &Property| {
        structure("Property", [("name", Value::String(property.name.clone())), ("value", any(&property.value))])
    };
    Value::Sequence(properties.iter().map(property).collect())
}

fn structure<const N: usize>(type_name: &str, fields: [(&str, Value); N]) -> Value {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Value::Struct { type_name: type_name.to_owned(), fields }
}

fn any(value: &AnyValue) -> Value {
    Value::Any(Box::new(value.clone()))
}

/// Follows the parts of a path, looking through Anys.
fn follow(start: &Value, parts: &[Part]) -> Option<Value> {
    let mut at = through(start);
    for part in parts {
        at = through(step(at, part)?);
    }
    Some(at.clone())
}

fn through(mut value: &Value) -> &Value {
    while let Value::Any(inner) = value {
        value = &inner.value;
    }
    value
}

fn step<'v>(at: &'v Value, part: &Part) -> Option<&'v Value> {
    let index = |index: &u32| usize::try_from(*index).ok();
    match (at, part) {
        (Value::Struct { fields, .. } | Value::Exception { fields, .. }, Part::Member(name)) => {
            fields.iter().find(|(field, _)| **field == **name).map(|(_, value)| value)
        }
        (Value::Struct { fields, .. } | Value::Exception { fields, .. }, Part::Position(at)) => {
            fields.get(index(at)?).map(|(_, value)| value)
        }
        (Value::Union { member: Some((name, value)), .. }, Part::Member(wanted)) => {
            (**name == **wanted).then_some(&**value)
        }
        (Value::Union { discriminator, .. }, Part::Discriminator) => Some(discriminator),
        (Value::Union { discriminator, member: Some((_, value)), .. }, Part::Label(label)) => {
            has_label(discriminator, label).then_some(&**value)
        }
        (Value::Sequence(elements) | Value::Array(elements), Part::Element(at)) => elements.get(index(at)?),
        (Value::Sequence(elements) | Value::Array(elements), Part::Named(name)) => {
            elements.iter().find_map(|element| named(element, name))
        }
        _ => None,
    }
}

/// The value of a name-value pair, if it has that name.
fn named<'v>(element: &'v Value, wanted: &str) -> Option<&'v Value> {
    let Value::Struct { fields, .. } = element else { return None };
    match fields.as_slice() {
        [(_, Value::String(name)), (_, value)] if *name == wanted => Some(value),
        _ => None,
    }
}

fn has_label(discriminator: &Value, label: &Label) -> bool {
    let number = match discriminator {
        Value::Octet(v) => Some(i64::from(*v)),
        Value::Short(v) => Some(i64::from(*v)),
        Value::UShort(v) => Some(i64::from(*v)),
        Value::Long(v) => Some(i64::from(*v)),
        Value::ULong(v) => Some(i64::from(*v)),
        Value::LongLong(v) => Some(*v),
        Value::ULongLong(v) => i64::try_from(*v).ok(),
        Value::Enum { index, .. } => Some(i64::from(*index)),
        _ => None,
    };
    match (label, discriminator) {
        (Label::Int(label), _) => number == Some(*label),
        (Label::Bool(label), Value::Bool(value)) => value == label,
        (Label::Char(label), Value::Char(value) | Value::Wchar(value)) => value == label,
        (Label::Name(label), Value::Enum { label: name, .. }) => **name == **label,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields;

    fn event() -> StructuredEvent {
        let mut event = StructuredEvent::new("Telescope", "Temperature", "dome-3");
        event.variable_header.push(Property::new("Priority", 3_i16));
        for field in ["celsius=11.5", "tags=[\"a\",\"b\"]", "place={\"dome\":3,\"at\":{\"x\":1}}"] {
            event.filterable_data.push(fields::field(field).unwrap());
        }
        event.remainder = AnyValue::from(true);
        event
    }

    fn shown(text: &str) -> Option<String> {
        let value = in_structured(&event(), &path(text).unwrap())?;
        let mut out = String::new();
        crate::show::value(&mut out, &value);
        Some(out)
    }

    #[test]
    fn fields_are_found_by_their_paths() {
        for (text, expected) in [
            ("celsius", "11.5"),
            ("$celsius", "11.5"),
            ("tags", "[\"a\", \"b\"]"),
            ("tags[1]", "\"b\""),
            ("place", "{at: {x: 1}, dome: 3}"),
            ("place.at.x", "1"),
            ("place.1", "3"),
            ("priority", "3"),
            ("domain_name", "\"Telescope\""),
            (".header.fixed_header.event_type.type_name", "\"Temperature\""),
            (".filterable_data(celsius)", "11.5"),
            ("remainder_of_body", "true"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["pressure", "tags[2]", "celsius.x", "place.nothing", "tags(a)"] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["", "a b", "celsius > 3", "a and exist $b", "a[", "3"] {
            assert!(path(text).is_err(), "{text}");
        }
    }

    #[test]
    fn unions_and_lists_of_named_values_are_followed() {
        let union = Value::Union {
            type_name: "U".into(),
            discriminator: Box::new(Value::Long(2)),
            member: Some(("count".to_owned(), Box::new(Value::Short(5)))),
        };
        let of = |text: &str| follow(&union, &path(text).unwrap().parts);
        assert_eq!(of("$.count"), Some(Value::Short(5)));
        assert_eq!(of("$._d"), Some(Value::Long(2)));
        assert_eq!(of("$.(2)"), Some(Value::Short(5)));
        assert_eq!(of("$.(3)"), None);
        let list = properties(&[Property::new("a", 1), Property::new("b", 2)]);
        assert_eq!(follow(&list, &path("$(b)").unwrap().parts), Some(Value::Long(2)));
    }
}
