//! Events that `campanile pub` publishes: made of fields on the command line, of lines of text or JSON, of types declared in IDL.

use crate::args::{EventForm, EventTypeArg, PubOptions, is_type_name};
use crate::event_line::{EventLine, Names};
use crate::failure::Failure;
use crate::fields;
use ::json::typed;
use client::notify::{Property, StructuredEvent};
use giop::typecode::{Kind, TypeCode};
use giop::value::{AnyValue, Value};
use serde_json::{Map, Value as Json};
use std::fs;

/// Default event type.
pub(crate) const DEFAULT_TYPE: [&str; 2] = ["Campanile", "Test"];
/// Header fields that the service sets at delivery.
pub(crate) const OF_THE_SERVICE: [&str; 3] = ["EventNumber", "EventTime", "PossiblyRepeated"];
/// Maximum octets of an IDL file.
const IDL_BYTES_MAX: u64 = 16 << 20;

#[derive(Clone, Debug)]
pub(crate) enum Outgoing {
    Structured(StructuredEvent),
    Any(AnyValue),
}

impl Outgoing {
    /// Name of its type in the summary.
    pub(crate) fn type_name(&self) -> String {
        match self {
            Self::Structured(event) => crate::show::type_name(&event.domain, &event.type_name),
            Self::Any(event) => event.type_code.root().to_string(),
        }
    }
}

/// Makes events according to the options.
pub(crate) struct Maker<'o> {
    options: &'o PubOptions,
    /// Struct of the events, if IDL declares one.
    declared: Option<TypeCode>,
    /// Other types declared in IDL.
    names: Names,
}

impl<'o> Maker<'o> {
    /// Reads the IDL file, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or has no such type; or the options contradict each other.
    pub(crate) fn new(options: &'o PubOptions) -> Result<Self, Failure> {
        if options.json && options.fields.len() > 1 {
            return Err(Failure::Usage("with --json, give one FILE at most, or - for standard input".to_owned()));
        }
        let Some(path) = &options.idl else {
            if let Some(EventTypeArg { domain: None, name }) = &options.event_type
                && !is_type_name(name)
            {
                return Err(Failure::Usage(format!("--type {name}: expected DOMAIN/NAME, for example Weather/Wind")));
            }
            return Ok(Self { options, declared: None, names: Names::default() });
        };
        let wrong = |reason: String| Failure::Usage(format!("--idl {}: {reason}", path.display()));
        let length = fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if length > IDL_BYTES_MAX {
            return Err(wrong(format!("it has {length} octets; {IDL_BYTES_MAX} are the most")));
        }
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let definitions = idl::read(&text).map_err(|error| wrong(error.to_string()))?;
        let found = match &options.event_type {
            Some(wanted) => definitions.find(&wanted.name).map_err(|error| wrong(error.to_string()))?,
            None => only_struct(&definitions).map_err(wrong)?,
        };
        if found.code().kind() != Kind::Struct {
            let keyword = found.code().kind().keyword();
            return Err(wrong(format!("`{}` is of `{keyword}`; events are structs", found.name())));
        }
        let declared = Some(found.code().clone());
        Ok(Self { options, declared, names: Names::of(&definitions) })
    }

    /// Makes the event of that number, with the fields of the command line, and with a line of text as its body if there is one.
    pub(crate) fn build(&self, number: u64, line: Option<&str>) -> Result<Outgoing, Failure> {
        let options = self.options;
        let number = Number(number.to_string());
        if let Some(declared) = &self.declared {
            let json = self.object(declared, &number).map_err(Failure::Usage)?;
            return self.declared(declared, &json, &number).map_err(Failure::Usage);
        }
        let body = match (line, &options.body, options.size) {
            (Some(line), _, _) => Some(AnyValue::from(line)),
            (None, Some(body), _) => Some(fields::inferred(&number.fill(body)).map_err(Failure::Usage)?),
            (None, None, Some(size)) => {
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                Some(fields::octets((0_u8..=255).cycle().take(size).collect()))
            }
            (None, None, None) => None,
        };
        if options.any {
            return any(options, body, &number).map(Outgoing::Any).map_err(Failure::Usage);
        }
        let [domain, name] = self.event_type();
        let mut event = self.envelope((domain, name), &number).map_err(Failure::Usage)?;
        event.filterable_data = number.properties(&options.fields).map_err(Failure::Usage)?;
        event.remainder = body.unwrap_or_default();
        Ok(Outgoing::Structured(event))
    }

    /// Makes the event of a line of JSON, as `campanile sub --json` prints it. Missing parts are taken from the options.
    pub(crate) fn of_json(&self, line: &str) -> Result<Outgoing, String> {
        let line = EventLine::parse(line)?;
        if let Some(declared) = &self.declared {
            let json = line.typed_value(declared)?;
            let event = self.declared(declared, &json, &Number(String::new()))?;
            return Ok(match event {
                Outgoing::Structured(event) => Outgoing::Structured(StructuredEvent {
                    event_name: line.text("name")?.unwrap_or(event.event_name),
                    variable_header: {
                        let mut header = line.header(event.variable_header)?;
                        header.retain(|property| !OF_THE_SERVICE.contains(&property.name.as_str()));
                        header
                    },
                    ..event
                }),
                any => any,
            });
        }
        line.check_members()?;
        if self.options.any {
            return line.body(&self.names).map(Outgoing::Any);
        }
        let [domain, name] = self.event_type();
        let event = self.envelope((domain, name), &Number(String::new()))?;
        let mut event = line.structured(event, &self.names)?;
        event.variable_header.retain(|property| !OF_THE_SERVICE.contains(&property.name.as_str()));
        Ok(Outgoing::Structured(event))
    }

    /// Type of events that name none.
    pub(crate) fn event_type(&self) -> [&str; 2] {
        match (&self.options.event_type, &self.declared) {
            (wanted, Some(declared)) => {
                let domain = wanted.as_ref().and_then(|wanted| wanted.domain.as_deref());
                [domain.unwrap_or(&self.options.server.settings.event_domain), declared.name()]
            }
            (Some(wanted), None) => [wanted.domain.as_deref().unwrap_or_default(), &wanted.name],
            (None, None) => DEFAULT_TYPE,
        }
    }

    fn event_form(&self) -> EventForm {
        self.options.event_form.unwrap_or(match self.options.server.settings.event_form {
            campanile::EventForm::Alma => EventForm::Alma,
            _ => EventForm::Body,
        })
    }

    /// An event without data.
    fn envelope(&self, (domain, name): (&str, &str), number: &Number) -> Result<StructuredEvent, String> {
        let mut event = StructuredEvent::new(domain, name, &number.fill(&self.options.name));
        event.variable_header = number.properties(&self.options.header)?;
        Ok(event)
    }

    /// Fields of the command line as members of a struct.
    fn object(&self, declared: &TypeCode, number: &Number) -> Result<Json, String> {
        let mut object = Map::new();
        for field in &self.options.fields {
            let field = number.fill(field);
            let Some((key, text)) = field.split_once('=') else {
                return Err(format!("`{field}` is not KEY=VALUE; for example celsius=11.5"));
            };
            let Some(member) = declared.root().members().find(|member| member.name() == key) else {
                let names: Vec<&str> = declared.root().members().map(|member| member.name()).collect();
                return Err(format!("`{}` has no member `{key}`, but {}", declared.name(), names.join(", ")));
            };
            let json = typed::json_of_text(text, member.type_ref())
                .map_err(|reason| format!("{}.{key}: {reason}", declared.name()))?;
            if object.insert(key.to_owned(), json).is_some() {
                return Err(format!("`{key}` is given twice"));
            }
        }
        Ok(Json::Object(object))
    }

    /// An event with a struct.
    fn declared(&self, declared: &TypeCode, json: &Json, number: &Number) -> Result<Outgoing, String> {
        let value = typed::value(json, declared.root(), declared.name()).map_err(|error| error.to_string())?;
        let whole = AnyValue::new(declared.clone(), value);
        if self.options.any || self.options.server.settings.transport == campanile::Transport::Dds {
            return Ok(Outgoing::Any(whole));
        }
        let [domain, name] = self.event_type();
        let mut event = self.envelope((domain, name), number)?;
        match self.event_form() {
            EventForm::Alma => event.filterable_data.push(Property { name: declared.name().to_owned(), value: whole }),
            EventForm::Body => {
                if let Value::Struct { fields, .. } = &whole.value {
                    let members = declared.root().members().zip(fields);
                    let simple =
                        members.filter(|(member, _)| campanile::raw::is_scalar(member.type_ref().resolved().kind()));
                    event.filterable_data = simple
                        .map(|(member, (name, value))| Property {
                            name: name.clone(),
                            value: AnyValue::new(typed::type_of(member.type_ref()), value.clone()),
                        })
                        .collect();
                }
                event.remainder = whole;
            }
        }
        Ok(Outgoing::Structured(event))
    }
}

/// The only struct of a file, or the only one that no other struct contains.
fn only_struct(definitions: &idl::Definitions) -> Result<&idl::Definition, String> {
    let structs: Vec<&idl::Definition> =
        definitions.iter().filter(|definition| definition.code().kind() == Kind::Struct).collect();
    match structs.as_slice() {
        [only] => Ok(only),
        [] => Err("it defines no struct".to_owned()),
        _ => {
            let names: Vec<&str> = structs.iter().take(12).map(|definition| definition.name()).collect();
            Err(format!("it defines several structs; say which with --type: {}", names.join(", ")))
        }
    }
}

/// Number of an event, as text.
struct Number(String);

impl Number {
    /// The text with the number filled in.
    fn fill(&self, text: &str) -> String {
        text.replace("{n}", &self.0)
    }

    fn properties(&self, texts: &[String]) -> Result<Vec<Property>, String> {
        texts.iter().map(|text| fields::field(&self.fill(text))).collect()
    }
}

/// An Any of a single value, or of a struct with the fields.
fn any(options: &PubOptions, body: Option<AnyValue>, number: &Number) -> Result<AnyValue, String> {
    match (body, options.fields.as_slice()) {
        (Some(body), []) => Ok(body),
        (Some(_), _) => Err("with --any, give either fields or one of --lines and --size".to_owned()),
        (None, []) => Err("--any needs a VALUE or KEY=VALUE fields".to_owned()),
        (None, [value]) if !value.contains('=') || value.starts_with(['{', '[', '"']) => {
            fields::inferred(&number.fill(value))
        }
        (None, members) => {
            let members = number.properties(members)?;
            Ok(fields::structure(members.into_iter().map(|property| (property.name, property.value)).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn outgoing(line: &str) -> Result<Outgoing, Failure> {
        let Command::Pub(options) = Cli::try_parse_from(line.split(' ')).unwrap().command else { panic!() };
        Maker::new(&options)?.build(7, options.lines.then_some("a line"))
    }

    fn structured(line: &str) -> StructuredEvent {
        match outgoing(line).unwrap() {
            Outgoing::Structured(event) => event,
            Outgoing::Any(_) => panic!(),
        }
    }

    fn any_text(line: &str) -> String {
        match outgoing(line).unwrap() {
            Outgoing::Any(event) => format!("{} {event}", event.type_code.root()),
            Outgoing::Structured(_) => panic!(),
        }
    }

    #[test]
    fn event_has_type_name_header_fields_and_body() {
        let event = structured("campanile pub -t A/B --name n{n} --header Priority:short=3 --body true x=1 y={n}");
        assert_eq!((event.domain.as_str(), event.type_name.as_str(), event.event_name.as_str()), ("A", "B", "n7"));
        assert_eq!(event.variable_header, [Property::new("Priority", 3_i16)]);
        assert_eq!(event.filterable_data, [Property::new("x", 1), Property::new("y", 7)]);
        assert_eq!(event.remainder, AnyValue::from(true));
    }

    #[test]
    fn options_may_stand_behind_fields() {
        let event = structured("campanile pub x=1 --type A/B y=-2 --name n");
        assert_eq!((event.domain.as_str(), event.type_name.as_str(), event.event_name.as_str()), ("A", "B", "n"));
        assert_eq!(event.filterable_data, [Property::new("x", 1), Property::new("y", -2)]);
    }

    #[test]
    fn line_of_input_is_the_body() {
        assert_eq!(structured("campanile pub --lines").remainder, AnyValue::from("a line"));
        assert_eq!(any_text("campanile pub --any --lines"), "string \"a line\"");
    }

    #[test]
    fn any_is_a_value_or_a_struct_of_fields() {
        assert_eq!(any_text("campanile pub --any 11.5"), "double 11.5");
        assert_eq!(any_text("campanile pub --any [1,2]"), "sequence<long> [1, 2]");
        assert_eq!(any_text("campanile pub --any x=1 y=z"), "Object {x: 1, y: \"z\"}");
        assert_eq!(any_text("campanile pub --any --size 2"), "sequence<octet> 0x0001");
    }

    #[test]
    fn what_makes_no_sense_is_wrong_usage() {
        for line in ["pub nonsense", "pub --any", "pub --any a b", "pub --header x", "pub --body [1"] {
            assert!(matches!(outgoing(&format!("campanile {line}")), Err(Failure::Usage(_))), "{line}");
        }
    }
}
