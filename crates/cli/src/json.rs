//! Events as JSON, as `campanile sub --json` prints them. Values are written as [`::json::write`] says.

use client::notify::{Property, StructuredEvent};

pub(crate) use ::json::read::octets_from_hex;
pub(crate) use ::json::write::{any, hex, list, object, quadruple, text, value};

/// Writes a structured event as one object.
pub(crate) fn event(out: &mut String, received: &str, event: &StructuredEvent) {
    out.push('{');
    members(out, received, event);
    out.push('}');
}

/// Writes the members of that.
pub(crate) fn members(out: &mut String, received: &str, event: &StructuredEvent) {
    let StructuredEvent { domain, type_name, event_name, variable_header, filterable_data, remainder } = event;
    for (key, member) in [
        ("\"received\":", received),
        (",\"domain\":", domain.as_str()),
        (",\"type\":", type_name),
        (",\"name\":", event_name),
    ] {
        out.push_str(key);
        text(out, member);
    }
    out.push_str(",\"header\":");
    properties(out, variable_header);
    out.push_str(",\"fields\":");
    properties(out, filterable_data);
    out.push_str(",\"body\":");
    any(out, remainder);
}

/// Writes properties as an object of plain values.
pub(crate) fn properties(out: &mut String, properties: &[Property]) {
    object(out, properties.iter().map(|property| (property.name.as_str(), &property.value.value)), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_is_one_object() {
        let mut source = StructuredEvent::new("Telescope", "Temperature", "dome-3");
        source.variable_header.push(Property::new("Priority", 3_i16));
        source.filterable_data.push(Property::new("celsius", 11.5));
        let mut out = String::new();
        event(&mut out, "2026-01-01T00:00:00.000Z", &source);
        let expected = concat!(
            r#"{"received":"2026-01-01T00:00:00.000Z","domain":"Telescope","type":"Temperature","name":"dome-3","#,
            r#""header":{"Priority":3},"fields":{"celsius":11.5},"body":null}"#
        );
        assert_eq!(out, expected);
    }
}
