//! The types of the parts of events, marshalled once.

use giop::cdr::{Encoding, Endian, Writer};
use giop::typecode::TypeCode;
use std::sync::LazyLock;

/// The type `CosNotification::StructuredEvent`, marshalled.
pub(super) fn structured_event(endian: Endian) -> &'static [u8] {
    match endian {
        Endian::Big => &STRUCTURED_EVENT_TYPE.0,
        Endian::Little => &STRUCTURED_EVENT_TYPE.1,
    }
}

/// Marshalled in both byte orders, big first.
static STRUCTURED_EVENT_TYPE: LazyLock<(Vec<u8>, Vec<u8>)> = LazyLock::new(|| {
    let code = structured_event_type();
    let [big, little] = [Endian::Big, Endian::Little].map(|endian| {
        let mut bytes = Vec::new();
        code.write(&mut Writer::new(&mut bytes, Encoding::new(endian)));
        bytes
    });
    (big, little)
});

/// The type `CosNotification::StructuredEvent` with every id, name and alias of the IDL, so that an ORB which knows it
/// from its own IDL compiler recognises it.
pub(super) fn structured_event_type() -> TypeCode {
    let id = |name: &str| format!("IDL:omg.org/CosNotification/{name}:1.0");
    let alias = |name: &str, original| TypeCode::alias(&id(name), name, original);
    let structure = |name: &str, members: &[(&str, TypeCode)]| TypeCode::structure(&id(name), name, members);
    let property_name = alias("PropertyName", alias("Istring", TypeCode::string()));
    let property_value = alias("PropertyValue", TypeCode::any());
    let property = structure("Property", &[("name", property_name), ("value", property_value)]);
    let properties = alias("PropertySeq", TypeCode::sequence(property));
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
