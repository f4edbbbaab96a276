//! The types of the parts of events, marshalled once.

use giop::cdr::{Encoding, Endian, ReadError, Reader, Writer};
use giop::cursor::Cursor;
use giop::typecode::{TypeCode, Work};
use std::sync::LazyLock;

/// The type `CosNotification::StructuredEvent`, marshalled.
pub(super) fn structured_event(endian: Endian) -> &'static [u8] {
    match endian {
        Endian::Big => &STRUCTURED_EVENT_TYPE.0,
        Endian::Little => &STRUCTURED_EVENT_TYPE.1,
    }
}

/// A cursor at a structured event without its type at hand.
pub(super) fn structured<'a>(event: Reader<'a>, work: &mut Work) -> Result<Cursor<'a>, ReadError> {
    typed(structured_event(Endian::NATIVE), event, work)
}

/// A cursor at a `CosNotification::PropertySeq` without its type at hand.
pub(super) fn properties<'a>(list: Reader<'a>, work: &mut Work) -> Result<Cursor<'a>, ReadError> {
    typed(&PROPERTIES_TYPE, list, work)
}

fn typed<'a>(type_code: &'static [u8], value: Reader<'a>, work: &mut Work) -> Result<Cursor<'a>, ReadError> {
    Cursor::typed(Reader::new(type_code, Encoding::new(Endian::NATIVE)), value, work)
}

/// The marshalled type in both byte orders, big first.
static STRUCTURED_EVENT_TYPE: LazyLock<(Vec<u8>, Vec<u8>)> = LazyLock::new(|| {
    let code = structured_event_type();
    (marshalled(&code, Endian::Big), marshalled(&code, Endian::Little))
});

static PROPERTIES_TYPE: LazyLock<Vec<u8>> = LazyLock::new(|| marshalled(&properties_type(), Endian::NATIVE));

fn marshalled(code: &TypeCode, endian: Endian) -> Vec<u8> {
    let mut bytes = Vec::new();
    code.write(&mut Writer::new(&mut bytes, Encoding::new(endian)));
    bytes
}

fn id(name: &str) -> String {
    format!("IDL:omg.org/CosNotification/{name}:1.0")
}

fn alias(name: &str, original: TypeCode) -> TypeCode {
    TypeCode::alias(&id(name), name, original)
}

fn structure(name: &str, members: &[(&str, TypeCode)]) -> TypeCode {
    TypeCode::structure(&id(name), name, members)
}

/// The type `CosNotification::PropertySeq`.
pub(super) fn properties_type() -> TypeCode {
    let property_name = alias("PropertyName", alias("Istring", TypeCode::string()));
    let property_value = alias("PropertyValue", TypeCode::any());
    let property = structure("Property", &[("name", property_name), ("value", property_value)]);
    alias("PropertySeq", TypeCode::sequence(property))
}

/// The type `CosNotification::StructuredEvent` with every id, name and alias of the IDL, so that an ORB which knows it
/// from its own IDL compiler recognises it.
pub(super) fn structured_event_type() -> TypeCode {
    let properties = properties_type();
    // Called `_EventType` in the IDL, where the underscore only keeps the name from being taken for a keyword.
    let event_type = structure("EventType", &[("domain_name", TypeCode::string()), ("type_name", TypeCode::string())]);
    let fixed_header = structure("FixedEventHeader", &[("event_type", event_type), ("event_name", TypeCode::string())]);
    let variable_header = alias("OptionalHeaderFields", properties.clone());
    let header = structure("EventHeader", &[("fixed_header", fixed_header), ("variable_header", variable_header)]);
    let filterable_data = alias("FilterableEventBody", properties);
    structure(
        "StructuredEvent",
        &[("header", header), ("filterable_data", filterable_data), ("remainder_of_body", TypeCode::any())],
    )
}
