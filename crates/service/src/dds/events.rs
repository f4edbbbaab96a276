//! Conversion of DDS samples to structured events, and of the structs in structured events to samples.

use corba::event::{self, ANY_TYPE_NAME};
use giop::cdr::{ReadError, Reader, Writer};
use giop::recode::{copy_value, skip_any, skip_type_code};
use giop::typecode::{Kind, TypeCode};

use crate::config::DdsValue;
use crate::protocols::dds::ENCODING;

/// Property in the variable header of events that came from DDS, which are not sent back there.
const FROM_DDS: &str = "CampanileFromDds";

/// Maximum octets of padding behind a value, so that what follows in the packet is aligned. A writer that states their number (XTypes 1.3,
/// 7.6.3.1.2) has none in the sample; Fast DDS does not state it.
const PADDING_MAX: usize = 3;

/// Octets in front of the struct in all events of a topic, and behind it.
pub(super) struct Template {
    prefix: Vec<u8>,
    type_code: Vec<u8>,
    suffix_is_null: bool,
}

impl Template {
    /// Template for a topic. `origin` is the value of the property that says where events came from.
    pub(super) fn new((domain, type_name): (&str, &str), of: &TypeCode, value: DdsValue, origin: &str) -> Self {
        let mut prefix = Vec::new();
        let mut w = Writer::new(&mut prefix, ENCODING);
        w.string(domain);
        w.string(type_name);
        w.string("");
        w.length(1);
        w.string(FROM_DDS);
        TypeCode::string().write(&mut w);
        w.string(origin);
        match value {
            DdsValue::Body => w.length(0),
            DdsValue::FilterableData => {
                w.length(1);
                w.string(of.root().resolved().name());
            }
        }
        of.write(&mut w);
        let mut type_code = Vec::new();
        of.write(&mut Writer::new(&mut type_code, ENCODING));
        Self { prefix, type_code, suffix_is_null: value == DdsValue::FilterableData }
    }

    /// Appends the event of a sample.
    pub(super) fn write(&self, sample: &[u8], out: &mut Vec<u8>) -> Result<(), ReadError> {
        out.extend_from_slice(&self.prefix);
        let mut w = Writer::with_phase(out, self.prefix.len(), ENCODING);
        let mut work = event::work_for(self.type_code.len() + sample.len());
        let mut value = Reader::new(sample, ::dds::encoding());
        copy_value(&mut Reader::new(&self.type_code, ENCODING), &mut value, &mut w, &mut work)?;
        if value.remaining() > PADDING_MAX {
            value.finish("a sample")?;
        }
        if self.suffix_is_null {
            TypeCode::default().write(&mut w);
        }
        Ok(())
    }
}

/// Parts of an event that DDS needs.
pub(super) struct Found<'e> {
    pub(super) domain: &'e [u8],
    pub(super) type_name: &'e [u8],
    /// Whether the event came from DDS.
    pub(super) is_echo: bool,
    /// Reader in front of the `Any` that has the struct, if there is one.
    any: Option<Reader<'e>>,
}

/// Finds these parts in a structured event.
pub(super) fn find(bytes: &[u8], tag: u64, value: DdsValue) -> Result<Found<'_>, ReadError> {
    let mut body = event::reader(bytes, tag);
    let mut work = event::work_for(bytes.len());
    let mut found = Found { domain: body.string()?, type_name: body.string()?, is_echo: false, any: None };
    body.string()?;
    for _ in 0..body.seq_len(8)? {
        found.is_echo |= body.string()? == FROM_DDS.as_bytes();
        skip_any(&mut body, &mut work)?;
    }
    for at in 0..body.seq_len(8)? {
        body.string()?;
        if at == 0 && value == DdsValue::FilterableData {
            found.any = Some(body.clone());
        }
        skip_any(&mut body, &mut work)?;
    }
    if value == DdsValue::Body {
        found.any = Some(body);
    }
    Ok(found)
}

impl<'e> Found<'e> {
    /// Octets of the struct's type as in the event, and readers in front of the type and the value.
    pub(super) fn value(&self) -> Option<(&'e [u8], Reader<'e>, Reader<'e>)> {
        let mut type_code = self.any.clone()?;
        type_code.align(4).ok()?;
        let mut value = type_code.clone();
        let rest = value.rest();
        skip_type_code(&mut value, &mut event::work_for(rest.len())).ok()?;
        let octets = rest.get(..value.position() - type_code.position())?;
        Some((octets, type_code, value))
    }

    /// Whether the event was an Any, which has no meaningful type name.
    pub(super) fn is_any(&self) -> bool {
        self.type_name == ANY_TYPE_NAME
    }
}

/// The type that a reader is in front of, if it is a struct's.
pub(super) fn type_at(mut type_code: Reader<'_>) -> Option<TypeCode> {
    let mut work = event::work_for(type_code.rest().len());
    let of = TypeCode::read(&mut type_code, &mut work).ok()?;
    (of.root().resolved().kind() == Kind::Struct).then_some(of)
}

/// Writes a value as a sample, replacing the contents of `out`.
pub(super) fn write_sample<'e>(
    mut type_code: Reader<'e>,
    mut value: Reader<'e>,
    out: &mut Vec<u8>,
) -> Result<(), ReadError> {
    out.clear();
    let mut work = event::work_for(value.rest().len() + type_code.rest().len());
    copy_value(&mut type_code, &mut value, &mut Writer::new(out, ::dds::encoding()), &mut work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corba::event::read_structured;
    use giop::cdr::{Encoding, Endian};

    fn wind() -> TypeCode {
        let members = [
            ("station", TypeCode::string()),
            ("speed", TypeCode::primitive(Kind::Double)),
            ("mark", TypeCode::primitive(Kind::Wchar)),
            ("note", TypeCode::wstring()),
        ];
        TypeCode::structure("IDL:demo/Wind:1.0", "Wind", &members)
    }

    fn sample(station: &str) -> Vec<u8> {
        let mut sample = Vec::new();
        let mut w = Writer::new(&mut sample, ::dds::encoding());
        w.string(station);
        w.f64(7.5);
        // They lie otherwise in DDS than in CORBA.
        w.wchar('ü');
        w.wstring(station);
        sample
    }

    #[test]
    fn a_sample_becomes_an_event_and_that_a_sample_again() {
        for value in [DdsValue::Body, DdsValue::FilterableData] {
            for station in ["", "OSF", "Grüße", "AOS12", "AOS123"] {
                let template = Template::new(("ALMA", "Wind"), &wind(), value, "domain 0");
                let mut event = Vec::new();
                template.write(&sample(station), &mut event).unwrap();
                let header = read_structured(Reader::new(&event, ENCODING), &mut event::work_for(event.len())).unwrap();
                assert_eq!((header.domain, header.type_name), (&b"ALMA"[..], &b"Wind"[..]));
                let found = find(&event, event::tag_at(ENCODING, 0, header.is_loose), value).unwrap();
                assert!(found.is_echo);
                let (_, type_code, value) = found.value().unwrap();
                assert!(type_at(type_code.clone()).unwrap().equal(&wind()));
                let mut back = Vec::new();
                write_sample(type_code, value, &mut back).unwrap();
                assert_eq!(back, sample(station));
            }
        }
    }

    #[test]
    fn what_fills_a_sample_up_to_four_octets_is_no_part_of_it() {
        let template = Template::new(("", "Wind"), &wind(), DdsValue::Body, "domain 0");
        let mut expected = Vec::new();
        template.write(&sample("OSF"), &mut expected).unwrap();
        for octets in 1..=4 {
            let padded = [sample("OSF"), vec![0; octets]].concat();
            let mut event = Vec::new();
            assert_eq!(template.write(&padded, &mut event).is_ok(), octets <= PADDING_MAX);
            assert!(event == expected || octets > PADDING_MAX);
        }
    }

    #[test]
    fn an_event_of_the_other_byte_order_becomes_a_sample_of_ours() {
        let big = Encoding { endian: Endian::Big, ..ENCODING };
        let mut event = Vec::new();
        let mut w = Writer::new(&mut event, big);
        for text in ["ALMA", "Wind", "name"] {
            w.string(text);
        }
        w.length(0);
        w.length(0);
        wind().write(&mut w);
        w.string("OSF");
        w.f64(7.5);
        w.wchar('ü');
        w.wstring("OSF");
        let found = find(&event, event::tag_at(big, 0, false), DdsValue::Body).unwrap();
        let (_, type_code, value) = found.value().unwrap();
        let mut out = Vec::new();
        write_sample(type_code, value, &mut out).unwrap();
        assert_eq!((out, found.is_echo), (sample("OSF"), false));
        assert!(find(&event, event::tag_at(big, 0, false), DdsValue::FilterableData).unwrap().value().is_none());
    }
}
