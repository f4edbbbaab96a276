//! Reader of events as lines of JSON, as `campanile sub --json` prints them.

use crate::fields;
use ::json::{body, typed};
use client::notify::{Property, StructuredEvent};
use giop::typecode::{Kind, TypeCode};
use giop::value::AnyValue;
use serde_json::{Map, Value as Json};
use std::collections::HashMap;

/// Types by name, as `sub --json` prints the names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(HashMap<String, TypeCode>);

impl Names {
    /// Types of an IDL file.
    pub(crate) fn of(definitions: &idl::Definitions) -> Self {
        Self(definitions.iter().map(|known| (known.code().name().to_owned(), known.code().clone())).collect())
    }

    /// The type of a name in a line, if it is known or needs no definition, such as `sequence<octet>`.
    fn find(&self, name: &str) -> Option<TypeCode> {
        if let Some(known) = self.0.get(name) {
            return Some(known.clone());
        }
        // A type without a name is what an alias stands for.
        let definitions = idl::read(&format!("typedef {name} Alias")).ok()?;
        let alias = definitions.last()?.code();
        alias.root().content().map(typed::type_of)
    }
}

/// A parsed line.
#[derive(Clone, Debug)]
pub(crate) struct EventLine(Map<String, Json>);

impl EventLine {
    /// # Errors
    /// The line is no event.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        // Some editors put a byte order mark in front of the first line.
        let line = line.strip_prefix('\u{feff}').unwrap_or(line);
        let Json::Object(object) = ::json::strict::parse(line)
            .map_err(|error| format!("not JSON, as `campanile sub --json` prints it: {error}"))?
        else {
            return Err("not an event: a JSON object is expected, as `campanile sub --json` prints it".to_owned());
        };
        // The protocol for lines of JSON has the event in an object of its own.
        let object = match object.get("event") {
            Some(Json::Object(event)) if object.keys().all(|key| key == "event" || key == "set") => event.clone(),
            _ => object,
        };
        if object.contains_key("error") {
            return Err("the event could not be read when it came, and has no fields here".to_owned());
        }
        Ok(Self(object))
    }

    /// Refuses members that would have no effect.
    pub(crate) fn check_members(&self) -> Result<(), String> {
        // Members of `record` and of the protocol for lines of JSON are known too.
        const KNOWN: [&str; 12] = [
            "received", "domain", "type", "name", "header", "fields", "body", "number", "came", "cdr", "channel",
            "time",
        ];
        match self.0.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            Some(key) => Err(format!(
                "an event has no `{}`; it has type, name, header, fields and body, and what filters see is in fields",
                key.escape_debug()
            )),
            None => Ok(()),
        }
    }

    /// Whether the line is an Any, without members of a structured event.
    pub(crate) fn is_any(&self) -> bool {
        !["domain", "type", "name", "header", "fields"].iter().any(|key| self.0.contains_key(*key))
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<String>, String> {
        match self.0.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("`{key}` is not text")),
        }
    }

    /// Domain and name of its type: `"type":"Weather/Wind"`, `"type":"Wind"` without a domain, or, from former versions, with the domain in
    /// a member of its own. Missing parts are taken from `event`.
    fn event_type(&self, event: &StructuredEvent) -> Result<[String; 2], String> {
        let of = self.text("type")?;
        let split = of.as_deref().and_then(|of| of.split_once('/'));
        let [domain, name] = match (self.text("domain")?, split, of.as_deref()) {
            (None, None, None) => [event.domain.clone(), event.type_name.clone()],
            (None, None, Some(name)) => [String::new(), name.to_owned()],
            (None, Some((domain, name)), _) => [domain.to_owned(), name.to_owned()],
            (Some(domain), _, name) => [domain, name.unwrap_or(&event.type_name).to_owned()],
        };
        match name.contains('/') {
            true => Err(format!("`type`: the name {name:?} has a `/`, which only stands between a domain and a name")),
            false => Ok([domain, name]),
        }
    }

    /// The structured event of the line. Missing parts are taken from `event`.
    pub(crate) fn structured(&self, event: StructuredEvent, names: &Names) -> Result<StructuredEvent, String> {
        let [domain, type_name] = self.event_type(&event)?;
        Ok(StructuredEvent {
            domain,
            type_name,
            event_name: self.text("name")?.unwrap_or(event.event_name),
            variable_header: self.header(event.variable_header)?,
            filterable_data: self.properties("fields")?.unwrap_or(event.filterable_data),
            remainder: if self.0.contains_key("body") { self.body(names)? } else { event.remainder },
        })
    }

    pub(crate) fn header(&self, otherwise: Vec<Property>) -> Result<Vec<Property>, String> {
        let mut header = self.properties("header")?.unwrap_or(otherwise);
        for property in &mut header {
            // The standard has a type for it, which JSON does not tell.
            if let ("Priority", Ok(priority)) = (property.name.as_str(), property.value.to_string().parse::<i16>()) {
                property.value = priority.into();
            }
        }
        Ok(header)
    }

    fn properties(&self, key: &str) -> Result<Option<Vec<Property>>, String> {
        match self.0.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Object(members)) => Ok(Some(
                members
                    .iter()
                    .map(|(name, value)| Property {
                        name: written_once(name, members).to_owned(),
                        value: fields::from_json(value),
                    })
                    .collect(),
            )),
            Some(_) => Err(format!("`{key}` is not an object")),
        }
    }

    /// The body: `{"type":…,"value":…}` as a value of that type, if known; anything else is the value itself.
    pub(crate) fn body(&self, names: &Names) -> Result<AnyValue, String> {
        let Some(json) = self.0.get("body") else { return Ok(AnyValue::default()) };
        let Some((name, value)) = body::typed(json) else { return Ok(fields::from_json(json)) };
        let event_type = self.text("type")?;
        let type_name = event_type.as_deref().map(|of| of.rsplit_once('/').map_or(of, |(_, name)| name));
        // A struct made from plain JSON has this type name, too.
        let is_made = name == "Object" && value.is_object();
        let of_event = self.0.get("fields").and_then(Json::as_object);
        match names.find(name).filter(|_| !is_made) {
            Some(code) if code.kind() != Kind::Null => {
                let is_member = |name: &str| code.root().members().any(|member| member.name() == name);
                let value = body::with_fields(value, name, type_name, of_event, is_member);
                let value = typed::value(&value, code.root(), "body").map_err(|error| error.to_string())?;
                Ok(AnyValue::new(code, value))
            }
            _ => Ok(fields::from_json(&body::with_fields(value, name, type_name, of_event, |_| !is_made))),
        }
    }

    /// Input for a struct: the body if it has that type's name, the only field if it is an object of that name, or else the fields.
    pub(crate) fn typed_value(&self, declared: &TypeCode) -> Result<Json, String> {
        if let Some((name, value)) = self.0.get("body").and_then(body::typed)
            && name == declared.name()
        {
            let of_event = self.0.get("fields").and_then(Json::as_object);
            let is_member = |name: &str| declared.root().members().any(|member| member.name() == name);
            return Ok(body::with_fields(value, name, Some(name), of_event, is_member).into_owned());
        }
        match self.0.get("fields") {
            Some(Json::Object(members)) => match members.get(declared.name()) {
                Some(only @ Json::Object(_)) if members.len() == 1 => Ok(only.clone()),
                _ => Ok(Json::Object(members.clone())),
            },
            None | Some(Json::Null) if self.is_any() => Ok(Json::Object(self.0.clone())),
            None | Some(Json::Null) => Ok(Json::Object(Map::new())),
            Some(_) => Err("`fields` is not an object".to_owned()),
        }
    }
}

/// A name without the suffix `#2` that distinguishes it from an earlier one.
fn written_once<'n>(name: &'n str, members: &Map<String, Json>) -> &'n str {
    match name.rsplit_once('#') {
        Some((first, number))
            if members.contains_key(first) && number.parse::<u32>().is_ok_and(|number| number > 1) =>
        {
            first
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn a_line_is_read_as_the_event_that_it_shows() {
        let names =
            Names::of(&idl::read("struct Wind { float speed; }; struct Gusty { long speed; long gust; }").unwrap());
        for line in [
            r#"{"received":"x","type":"A/B","name":"c","header":{"Priority":3},"fields":{"a":1.5,"b":[1,2]},"body":null}"#,
            r#"{"received":"x","type":"A/B","name":"","header":{},"fields":{},"body":{"type":"sequence<octet>","value":"cafe"}}"#,
            r#"{"received":"x","type":"A/B","name":"","header":{},"fields":{"a":1,"a#2":2},"body":{"type":"short","value":7}}"#,
            r#"{"received":"x","type":"A/B","name":"","header":{},"fields":{},"body":{"type":"Wind","value":{"speed":1.5}}}"#,
            r#"{"received":"x","type":"A/B","name":"","header":{},"fields":{},"body":{"type":"Object","value":{"x":"y"}}}"#,
            r#"{"received":"x","type":"A/Gusty","name":"","header":{},"fields":{"speed":1},"body":{"type":"Gusty","value":{"gust":2}}}"#,
        ] {
            let read = EventLine::parse(line).unwrap();
            let event = read.structured(StructuredEvent::new("", "", ""), &names).unwrap();
            let mut again = String::new();
            json::event(&mut again, "x", &event);
            assert_eq!(again, line);
        }
    }

    /// One read by the other published under a wrong type.
    #[test]
    fn the_form_of_the_protocol_and_that_of_former_versions_are_read_as_well() {
        let of = |line: &str| {
            let line = EventLine::parse(line).unwrap();
            line.check_members().unwrap();
            let event = line.structured(StructuredEvent::new("Campanile", "Test", ""), &Names::default()).unwrap();
            (event.domain, event.type_name, event.filterable_data.len())
        };
        let pair = |domain: &str, name: &str, fields| (domain.to_owned(), name.to_owned(), fields);
        for line in [
            r#"{"received":"x","type":"Weather/Wind","name":"","header":{},"fields":{"speed":1},"body":null}"#,
            r#"{"received":"x","domain":"Weather","type":"Wind","name":"","header":{},"fields":{"speed":1},"body":null}"#,
            r#"{"event":{"channel":0,"type":"Weather/Wind","name":"","fields":{"speed":1},"body":null}}"#,
            r#"{"event":{"channel":0,"type":"Weather/Wind","fields":{"speed":1}},"set":{"number":1,"index":0}}"#,
            r#"{"event":{"channel":0,"number":  17,"time":139830192000000000,"type":"Weather/Wind","fields":{"speed":1}}}"#,
        ] {
            assert_eq!(of(line), pair("Weather", "Wind", 1), "{line}");
        }
        assert_eq!(of(r#"{"type":"Wind"}"#), pair("", "Wind", 0));
        assert_eq!(of(r#"{"type":"/Wind"}"#), pair("", "Wind", 0));
        assert_eq!(of(r#"{"domain":"","type":"Wind"}"#), pair("", "Wind", 0));
        assert_eq!(of(r#"{"domain":"Weather"}"#), pair("Weather", "Test", 0));
        assert_eq!(of("{}"), pair("Campanile", "Test", 0));
    }

    #[test]
    fn what_is_no_event_is_reported() {
        for (line, says) in [
            ("nonsense", "not JSON"),
            ("[1]", "not an event"),
            (r#"{"error":"x","octets":"00"}"#, "could not be read when it came"),
            (r#"{"domain":3,"type":"B"}"#, "`domain` is not text"),
            (r#"{"type":"A/B/C"}"#, "the name \"B/C\" has a `/`"),
            (r#"{"domain":"A","type":"A/B"}"#, "the name \"A/B\" has a `/`"),
            (r#"{"fields":[1]}"#, "`fields` is not an object"),
            (r#"{"type":"x","body":{"type":"octet","value":256}}"#, "body: 256 is out of the range of `octet`"),
        ] {
            let read = EventLine::parse(line)
                .and_then(|line| line.structured(StructuredEvent::new("", "", ""), &Names::default()));
            let error = read.unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
        let error = EventLine::parse(r#"{"speed":12.5}"#).unwrap().check_members().unwrap_err();
        assert!(error.contains("no `speed`"), "{error}");
    }
}
