//! Structs in events: writing them, and finding them.

use crate::declared::Declared;
use crate::projection::Fault;
use crate::settings::EventForm;
use giop::cdr::{CharSet, ReadError, Reader, Writer};
use giop::typecode::{Kind, TypeCode, Work};
use giop::value::AnyRef;
use std::borrow::Cow;
use std::time::Duration;

/// Limits of steps and depth for the parts around a value.
pub(crate) fn work() -> Work {
    Work::new(16 * 1024 * 1024, 128)
}

/// Quality of service of one event, which its header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventQos {
    /// `Priority`: -32,767 to 32,767. Default 0, which the header does not say.
    pub priority: i16,
    /// `Timeout`: the time after its arrival at a service in which the event expires. Default: it does not.
    pub timeout: Option<Duration>,
}

/// Nanoseconds of a `TimeBase::TimeT`.
const TICK_NS: u64 = 100;

/// A timeout as the property has it: 0 would stand for no end.
pub(crate) fn ticks_of_timeout(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_nanos() / u128::from(TICK_NS)).unwrap_or(u64::MAX).max(1)
}

impl EventQos {
    /// Writes the variable header.
    fn write(self, writer: &mut Writer<'_>) {
        let Self { priority, timeout } = self;
        writer.u32(u32::from(priority != 0) + u32::from(timeout.is_some()));
        if priority != 0 {
            writer.string("Priority");
            writer.u32(Kind::Short.number());
            writer.i16(priority.max(-i16::MAX));
        }
        if let Some(timeout) = timeout {
            writer.string("Timeout");
            writer.u32(Kind::ULongLong.number());
            writer.u64(ticks_of_timeout(timeout));
        }
    }

    /// Notes a property of the variable header. One of another type is ignored, as services do.
    fn note(&mut self, name: &[u8], value: &AnyRef<'_>) {
        let Ok((_, mut reader)) = split(value) else { return };
        match (name, value.resolved_kind()) {
            (b"Priority", Kind::Short) => self.priority = reader.i16().unwrap_or_default(),
            (b"Timeout", Kind::ULongLong) => {
                let ticks = reader.u64().unwrap_or_default();
                self.timeout = (ticks > 0).then(|| Duration::from_nanos(ticks.saturating_mul(TICK_NS)));
            }
            _ => {}
        }
    }
}

/// Properties of an event beside its value.
pub(crate) struct Envelope<'e> {
    pub(crate) domain: &'e str,
    pub(crate) form: EventForm,
    /// The supplier's name, for ALMA's description.
    pub(crate) supplier: &'e str,
    /// Time in units of 100 ns since 15 October 1582.
    pub(crate) ticks: u64,
    pub(crate) count: u64,
    pub(crate) qos: EventQos,
}

/// Writes a structured event with a value of the declared type.
pub(crate) fn write_event(
    declared: &Declared,
    envelope: &Envelope<'_>,
    cdr: &[u8],
    writer: &mut Writer<'_>,
) -> Result<(), Fault> {
    put_name(envelope.domain, writer)?;
    put_name(declared.name(), writer)?;
    // No name of its own.
    writer.string("");
    envelope.qos.write(writer);
    match envelope.form {
        EventForm::Body => {
            declared.write_properties(cdr, writer)?;
            declared.write_any(cdr, writer)
        }
        EventForm::Alma => {
            writer.u32(1);
            writer.string(declared.name());
            declared.write_any(cdr, writer)?;
            alma_description().write(writer);
            writer.string(envelope.supplier);
            writer.u64(envelope.ticks);
            writer.u64(envelope.count);
            Ok(())
        }
    }
}

/// The type of ALMA Common Software's `EventDescription`, sent beside the struct.
fn alma_description() -> &'static TypeCode {
    static DESCRIPTION: std::sync::OnceLock<TypeCode> = std::sync::OnceLock::new();
    DESCRIPTION.get_or_init(|| {
        let number = || TypeCode::primitive(Kind::ULongLong);
        TypeCode::structure(
            "IDL:alma/acsnc/EventDescription:1.0",
            "EventDescription",
            &[("name", TypeCode::string()), ("timestamp", number()), ("count", number())],
        )
    })
}

fn put_name(name: &str, writer: &mut Writer<'_>) -> Result<(), Fault> {
    if writer.encoding().chars == CharSet::Latin1 && name.chars().any(|c| u32::from(c) > 0xFF) {
        return Err(Fault::new(format!(
            "the type's name {name:?} is beyond ISO 8859-1, which is all that the service understands"
        )));
    }
    writer.string(name);
    Ok(())
}

/// A received event, located but not decoded.
pub(crate) struct Found<'a> {
    pub(crate) domain: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) event_name: Cow<'a, str>,
    pub(crate) qos: EventQos,
    pub(crate) payload: Payload<'a>,
    /// ALMA's `EventDescription`, if present.
    description: Option<AnyRef<'a>>,
}

/// Location of the value.
pub(crate) enum Payload<'a> {
    /// In an Any.
    Any(AnyRef<'a>),
    /// In properties, one for each member: of the filterable data, and the remainder of the body.
    Members(Vec<(Cow<'a, str>, AnyRef<'a>)>),
}

/// The type name of events that arrived as an Any.
const ANY_TYPE: &str = "%ANY";

impl<'a> Found<'a> {
    /// A received value without an event around it.
    #[cfg(feature = "dds")]
    pub(crate) fn of(domain: &'a str, name: &'a str) -> Self {
        let (domain, name, event_name) = (Cow::Borrowed(domain), Cow::Borrowed(name), Cow::Borrowed(""));
        let (qos, payload) = (EventQos::default(), Payload::Members(Vec::new()));
        Self { domain, name, event_name, qos, payload, description: None }
    }

    /// Locates the parts of an event in an Any.
    pub(crate) fn in_any(reader: &mut Reader<'a>) -> Result<Self, ReadError> {
        let any = AnyRef::read(reader, &mut work())?;
        let none = Cow::Borrowed("");
        let (qos, payload) = (EventQos::default(), Payload::Any(any));
        Ok(Self { domain: none.clone(), name: none.clone(), event_name: none, qos, payload, description: None })
    }

    /// Locates the parts of a structured event.
    pub(crate) fn in_structured(reader: &mut Reader<'a>) -> Result<Self, ReadError> {
        let mut work = work();
        let (domain, mut name, event_name) = (text(reader)?, text(reader)?, text(reader)?);
        if name == ANY_TYPE {
            name = Cow::Borrowed("");
        }
        let mut qos = EventQos::default();
        for _ in 0..reader.seq_len(8)? {
            let name = reader.string()?;
            qos.note(name, &AnyRef::read(reader, &mut work)?);
        }
        let count = reader.seq_len(8)?;
        let start = reader.clone();
        let mut first = None;
        for _ in 0..count {
            reader.string()?;
            let any = AnyRef::read(reader, &mut work)?;
            first.get_or_insert(any);
        }
        let body = AnyRef::read(reader, &mut work)?;
        let is_struct = |any: &AnyRef<'_>| any.resolved_kind() == Kind::Struct;
        let mut description = None;
        let payload = match first {
            Some(first) if is_struct(&first) && (!is_struct(&body) || struct_name(&first)? == name.as_bytes()) => {
                description = Some(body);
                Payload::Any(first)
            }
            _ if is_struct(&body) => Payload::Any(body),
            None if !matches!(body.kind(), Kind::Null | Kind::Void) => Payload::Any(body),
            _ => Payload::Members(members(start, count, body, &mut work)?),
        };
        Ok(Self { domain, name, event_name, qos, payload, description })
    }

    /// The supplier's name, if the event has it.
    pub(crate) fn supplier(&self) -> Option<String> {
        let description = self.description.as_ref()?;
        let is_it = struct_name(description).is_ok_and(|name| name == b"EventDescription");
        is_it.then(|| split(description).and_then(|(_, mut value)| value.text()).ok()).flatten()
    }
}

/// The filterable data as members, and the body beside them if it is not empty.
fn members<'a>(
    mut reader: Reader<'a>,
    count: u32,
    body: AnyRef<'a>,
    work: &mut Work,
) -> Result<Vec<(Cow<'a, str>, AnyRef<'a>)>, ReadError> {
    let mut members = Vec::new();
    for _ in 0..count {
        members.push((text(&mut reader)?, AnyRef::read(&mut reader, work)?));
    }
    if !matches!(body.kind(), Kind::Null | Kind::Void) {
        members.push((Cow::Borrowed("remainder_of_body"), body));
    }
    Ok(members)
}

/// The name of the struct in an Any; empty for another type.
fn struct_name<'a>(any: &AnyRef<'a>) -> Result<&'a [u8], ReadError> {
    let mut reader = any.reader();
    if Kind::from_number(reader.u32()?) != Some(Kind::Struct) {
        return Ok(&[]);
    }
    let mut params = reader.encapsulation()?;
    params.string()?;
    params.string()
}

/// The octets of an Any's type, and a reader at its value.
pub(crate) fn split<'a>(any: &AnyRef<'a>) -> Result<(&'a [u8], Reader<'a>), ReadError> {
    let mut reader = any.reader();
    let kind = Kind::from_number(reader.u32()?);
    // The type has been checked: only how far it goes is of interest.
    match kind {
        Some(Kind::String | Kind::Wstring | Kind::Fixed) => reader.take(4).map(drop)?,
        Some(kind) if has_parameters(kind) => reader.octets().map(drop)?,
        _ => {}
    }
    let octets = any.bytes().get(..reader.position()).unwrap_or_default();
    Ok((octets, reader))
}

const fn has_parameters(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::Null
            | Kind::Void
            | Kind::Short
            | Kind::Long
            | Kind::UShort
            | Kind::ULong
            | Kind::Float
            | Kind::Double
            | Kind::Boolean
            | Kind::Char
            | Kind::Octet
            | Kind::Any
            | Kind::TypeCode
            | Kind::Principal
            | Kind::LongLong
            | Kind::ULongLong
            | Kind::LongDouble
            | Kind::Wchar
    )
}

/// A name, borrowed if its code set allows.
fn text<'a>(reader: &mut Reader<'a>) -> Result<Cow<'a, str>, ReadError> {
    let mut again = reader.clone();
    let bytes = reader.string()?;
    match core::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() || reader.encoding().chars == CharSet::Utf8 => Ok(Cow::Borrowed(text)),
        _ => again.text().map(Cow::Owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::NATIVE;
    use crate::types::Types;
    use fastrand::Rng;
    use giop::cdr::Encoding;
    use giop::typecode::TypeCode;

    fn declared() -> Declared {
        let members = [
            ("speed", TypeCode::primitive(Kind::Double)),
            ("names", TypeCode::sequence(TypeCode::string())),
            ("calm", TypeCode::primitive(Kind::Boolean)),
        ];
        Declared::new(&TypeCode::structure("IDL:Wind:1.0", "Wind", &members), Some("D"), None).unwrap()
    }

    fn value() -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value, NATIVE);
        writer.f64(1.5);
        writer.length(2);
        ["a", "塔"].iter().for_each(|name| writer.string(name));
        writer.bool(true);
        value
    }

    const QOS: EventQos = EventQos { priority: -7, timeout: Some(Duration::from_millis(20)) };

    /// Each form, and an event that has its members as properties.
    fn events() -> Vec<Vec<u8>> {
        let write = |write: &dyn Fn(&mut Writer<'_>)| {
            let mut event = Vec::new();
            write(&mut Writer::new(&mut event, NATIVE));
            event
        };
        let envelope = |form| Envelope { domain: "D", form, supplier: "S", ticks: 7, count: 8, qos: QOS };
        let of = |form| write(&|writer| write_event(&declared(), &envelope(form), &value(), writer).unwrap());
        let apart = write(&|writer| {
            ["D", "Wind", ""].iter().for_each(|text| writer.string(text));
            writer.u32(0);
            declared().write_properties(&value(), writer).unwrap();
            writer.u32(Kind::Null.number());
        });
        vec![of(EventForm::Body), of(EventForm::Alma), apart]
    }

    fn understand(event: &[u8], encoding: Encoding) -> Option<String> {
        let found = Found::in_structured(&mut Reader::new(event, encoding)).ok()?;
        let (mut types, mut together) = (Types::default(), Vec::new());
        let understood = types.understand(&found.payload, &found.name, &mut together).ok()?;
        let plan = types.itself(understood.which)?.as_ref().ok()?;
        plan.check(&mut understood.reader.clone()).ok()?;
        Some(types.type_code(understood.which).to_string())
    }

    #[test]
    fn a_struct_is_found_in_either_form_and_in_properties() {
        let found: Vec<_> = events().iter().map(|event| understand(event, NATIVE).unwrap()).collect();
        let whole = "struct Wind { double speed; sequence<string> names; boolean calm; }";
        assert_eq!(found, [whole, whole, "struct Wind { double speed; boolean calm; }"]);
    }

    #[test]
    fn the_header_says_what_an_event_asks_for() {
        let of = |event: &[u8]| Found::in_structured(&mut Reader::new(event, NATIVE)).unwrap().qos;
        let [body, alma, apart] = &*events() else { panic!("there are three") };
        assert_eq!([of(body), of(alma), of(apart)], [QOS, QOS, EventQos::default()]);
        let written = |qos: EventQos| {
            let mut header = Vec::new();
            qos.write(&mut Writer::new(&mut header, NATIVE));
            header.len()
        };
        assert_eq!(written(EventQos::default()), 4, "nothing is said that need not be");
        assert!(written(EventQos { timeout: Some(Duration::ZERO), ..QOS }) > 4);
    }

    #[test]
    fn octets_that_are_no_event_are_refused_and_do_no_harm() {
        let (mut refused, mut taken) = (0, 0);
        let mut judge = |event: &[u8]| match understand(event, NATIVE) {
            Some(_) => taken += 1,
            None => refused += 1,
        };
        for event in events() {
            (0..event.len()).for_each(|end| judge(&event[..end]));
            for seed in 0..3_000 {
                let (mut random, mut event) = (Rng::with_seed(seed), event.clone());
                for _ in 0..random.u32(1..4) {
                    let place = random.usize(..event.len());
                    event[place] = random.choice([0, 1, 15, 21, 0x7F, 0x80, 0xFF]).unwrap();
                }
                judge(&event);
            }
        }
        assert!(refused > 1_000 && taken > 1_000, "{refused} and {taken}");
    }
}
