//! Events in every form and encoding, against events of omniORB and JacORB.

mod fields;
mod header;
mod loose;
mod repeated;
mod sequences;
mod skeleton;
mod specification;
mod timer;

use super::types::structured_event_type;
use super::{
    ANY_TYPE_NAME, FORM_ANY, FORM_STRUCTURED, Header as EventHeader, Translated, Untranslatable, encoding_of, fits,
    is_loose, name_in_utf8, output_form_for, phase_of, read_any, read_structured, reader, tag_at, tag_of, translate,
    version_of, work_for,
};
use crate::tests::dialogue::client;
use engine::{Event, Form, OutputForm};
use giop::cdr::{CharSet, Encoding, Endian, ReadErrorKind, Reader, Version, Writer};
use giop::codeset::CodeSetInfo;
use giop::ior::{Ior, Profile};
use giop::message::{Header, MessageKind, Request};
use giop::typecode::{Kind, TypeCode, Work};
use giop::value::{AnyValue, Value};
use std::path::Path;

const VERSIONS: [Version; 3] = [Version::V1_0, Version::V1_1, Version::V1_2];
const CHARS: [CharSet; 2] = [CharSet::Latin1, CharSet::Utf8];
const ENDIANS: [Endian; 2] = [Endian::Big, Endian::Little];

/// An event on its own.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    name: String,
    form: Form,
    tag: u64,
    bytes: Vec<u8>,
}

impl Sample {
    /// The event as a value: its parts can be compared whatever their encoding.
    fn value(&self) -> Value {
        let mut reader = reader(&self.bytes, self.tag);
        let mut work = Work::default();
        let value = if self.form == FORM_ANY {
            Value::Any(Box::new(AnyValue::read(&mut reader, &mut work).unwrap()))
        } else {
            Value::read(&structured_event_type(), &mut reader, &mut work).unwrap()
        };
        reader.finish(if self.form == FORM_ANY { "any" } else { "structured event" }).unwrap();
        value
    }

    /// The event as a lane holds it.
    fn event(&self) -> Event {
        let mut event = Event::default();
        (event.form, event.tag) = (self.form, self.tag);
        event.bytes.clone_from(&self.bytes);
        event
    }

    fn translated(&self, output_form: OutputForm) -> Self {
        self.try_translated(output_form).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Whether the code set that a consumer takes has each character of it.
    fn is_sayable(&self, output_form: OutputForm) -> bool {
        match self.try_translated(output_form) {
            Err(Untranslatable::Bytes(error)) if matches!(error.kind, ReadErrorKind::Lacking(_)) => false,
            translated => translated.map(|_| true).unwrap_or_else(|error| panic!("{}: {error}", self.name)),
        }
    }

    fn try_translated(&self, output_form: OutputForm) -> Result<Self, Untranslatable> {
        let mut bytes = vec![0xaa; 3];
        let translated = translate(self.form, self.tag, &self.bytes, (output_form, 0), &mut bytes)?;
        Ok(match translated {
            Translated::AlreadyFits => {
                assert!(fits(self.form, self.tag, output_form));
                assert_eq!(bytes, [0xaa; 3]);
                self.clone()
            }
            Translated::Written { tag, .. } => {
                assert!(!fits(self.form, self.tag, output_form), "{}", self.name);
                let form = form_of(output_form);
                assert!(fits(form, tag, output_form), "{}: what was made to fit fits", self.name);
                assert_eq!((phase_of(tag), encoding_of(tag).version), (0, version_of(output_form)));
                let bytes = bytes.split_off(3);
                let same = Self { name: self.name.clone(), form, tag, bytes };
                same.check();
                same
            }
        })
    }

    /// Reads it as a lane does.
    fn check(&self) {
        let (body, mut work) = (reader(&self.bytes, self.tag), Work::default());
        let header = if self.form == FORM_ANY {
            read_any(body, &mut work).unwrap()
        } else {
            read_structured(body, &mut work).unwrap()
        };
        assert!(header.is_loose || !is_loose(self.tag), "{}", self.name);
    }

    /// The same with what reading it tells of where it may lie.
    fn learnt(self) -> Self {
        let (body, mut work) = (reader(&self.bytes, self.tag), Work::default());
        let header = if self.form == FORM_ANY {
            read_any(body.clone(), &mut work).unwrap()
        } else {
            read_structured(body.clone(), &mut work).unwrap()
        };
        Self { tag: tag_at(body.encoding(), body.phase(), header.is_loose), ..self }
    }
}

fn form_of(OutputForm(output_form): OutputForm) -> Form {
    if fits(
        FORM_ANY,
        tag_of(encoding(Endian::Big, version_of(OutputForm(output_form)), CharSet::Latin1), 0),
        OutputForm(output_form),
    ) || fits(
        FORM_ANY,
        tag_of(encoding(Endian::Big, version_of(OutputForm(output_form)), CharSet::Utf8), 0),
        OutputForm(output_form),
    ) {
        FORM_ANY
    } else {
        FORM_STRUCTURED
    }
}

fn encoding(endian: Endian, version: Version, chars: CharSet) -> Encoding {
    Encoding { endian, version, chars }
}

/// What a consumer wants that takes this version and these code sets.
fn output_form(form: Form, version: Version, chars: &[CharSet]) -> OutputForm {
    output_form_of(form, false, version, chars)
}

fn output_form_of(form: Form, batches: bool, version: Version, chars: &[CharSet]) -> OutputForm {
    let mut consumer = client("c");
    let Some(Profile::Iiop(profile)) = consumer.profiles.first_mut() else { panic!() };
    profile.version = version;
    let ids: Vec<u32> = chars.iter().map(|chars| chars.id()).collect();
    let info = CodeSetInfo {
        char_native: ids[0],
        char_conversions: ids[1..].to_vec(),
        wchar_native: CharSet::WIDE_ID,
        wchar_conversions: vec![],
    };
    profile.components = vec![info.to_component()];
    output_form_for(form, batches, &consumer).unwrap()
}

/// Every want that there is.
fn output_forms() -> Vec<OutputForm> {
    let mut output_forms = Vec::new();
    for form in [FORM_ANY, FORM_STRUCTURED] {
        for version in VERSIONS {
            for chars in [&[CharSet::Latin1][..], &[CharSet::Utf8], &CHARS] {
                output_forms.push(output_form(form, version, chars));
            }
        }
    }
    output_forms
}

/// The events that real ORBs pushed, as far as they came in one message.
fn golden() -> Vec<Sample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/golden");
    let mut samples = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if !name.contains("-request-push") {
            continue;
        }
        let bytes = hexadecimal(&std::fs::read_to_string(&path).unwrap());
        let header = Header::parse(&bytes).unwrap();
        if header.more_fragments || header.kind != MessageKind::Request {
            continue;
        }
        let request = Request::parse(&bytes, &header).unwrap();
        let chars = if name.contains("utf8") { CharSet::Utf8 } else { CharSet::Latin1 };
        let form = if request.operation == b"push" { FORM_ANY } else { FORM_STRUCTURED };
        let tag = tag_of(header.encoding(chars), request.body_offset);
        samples.push(Sample { name, form, tag, bytes: bytes[request.body_offset..].to_vec() });
    }
    assert!(samples.len() > 60, "{} samples in {}", samples.len(), folder.display());
    samples
}

fn hexadecimal(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.lines().skip(1).flat_map(str::bytes).filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// A structured event with text beyond ASCII, wide text, and values that need every alignment.
fn sample(endian: Endian, version: Version, chars: CharSet, phase: usize) -> Sample {
    let mut bytes = Vec::new();
    let mut w = Writer::with_phase(&mut bytes, phase, encoding(endian, version, chars));
    for text in ["Télescope", "Température", "n° 7"] {
        w.string(text);
    }
    w.u32(1);
    w.string("Priorité");
    AnyValue::from(3_i16).write(&mut w).unwrap();
    let point = TypeCode::structure(
        "IDL:demo/Point:1.0",
        "Point",
        &[
            ("flag", TypeCode::primitive(Kind::Octet)),
            ("x", TypeCode::primitive(Kind::Double)),
            ("wide", TypeCode::wstring()),
            ("one", TypeCode::primitive(Kind::Wchar)),
            ("n", TypeCode::primitive(Kind::LongLong)),
            ("text", TypeCode::string()),
        ],
    );
    let field = |name: &str, value| (name.to_owned(), value);
    let value = Value::Struct {
        type_name: "Point".into(),
        fields: vec![
            field("flag", Value::Octet(7)),
            field("x", Value::Double(-1.5)),
            field("wide", Value::Wstring("naïve ☃ 𝄞".into())),
            field("one", Value::Wchar('☃')),
            field("n", Value::LongLong(-2)),
            field("text", Value::String("é".into())),
        ],
    };
    w.u32(2);
    w.string("point");
    AnyValue::new(point, value).write(&mut w).unwrap();
    w.string("long");
    AnyValue::from(u64::MAX).write(&mut w).unwrap();
    AnyValue::from("reste").write(&mut w).unwrap();
    let name = format!("{endian:?} {version:?} {chars:?} at {phase}");
    Sample { name, form: FORM_STRUCTURED, tag: tag_of(encoding(endian, version, chars), phase), bytes }
}

fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for endian in ENDIANS {
        for version in VERSIONS {
            for chars in CHARS {
                // GIOP 1.2 puts bodies at multiples of 8; before, they begin wherever the header ends.
                let phases = if version == Version::V1_2 { 0..1 } else { 0..8 };
                samples.extend(phases.map(|phase| sample(endian, version, chars, phase)));
            }
        }
    }
    samples
}

#[test]
fn tags_say_how_bytes_are_read() {
    for sample in samples() {
        let mut read = reader(&sample.bytes, sample.tag);
        assert_eq!((read.encoding(), read.phase()), (encoding_of(sample.tag), phase_of(sample.tag)));
        assert_eq!(read.text().unwrap(), "Télescope");
    }
}

#[test]
fn a_structured_event_is_read_to_its_end() {
    for sample in samples() {
        let body = reader(&sample.bytes, sample.tag);
        let chars = body.encoding().chars;
        let EventHeader { domain, type_name, event_name, .. } =
            read_structured(body.clone(), &mut Work::default()).unwrap();
        let mut scratch = String::new();
        let mut text = |name| String::from_utf8(name_in_utf8(name, chars, &mut scratch).to_vec()).unwrap();
        assert_eq!(
            (text(domain), text(type_name), text(event_name)),
            ("Télescope".into(), "Température".into(), "n° 7".into())
        );
        for length in 0..sample.bytes.len() {
            let cut = Reader::with_phase(&sample.bytes[..length], body.phase(), body.encoding());
            read_structured(cut, &mut Work::default()).unwrap_err();
        }
        let longer = [&sample.bytes[..], &[0]].concat();
        read_structured(reader(&longer, sample.tag), &mut Work::default()).unwrap_err();
    }
}

#[test]
fn every_event_reaches_every_consumer_and_comes_back_the_same() {
    let learnt = golden().into_iter().map(Sample::learnt);
    let mut unsayable = 0;
    for sample in golden().into_iter().chain(samples()).chain(learnt) {
        sample.check();
        let value = sample.value();
        let Encoding { version, chars, .. } = encoding_of(sample.tag);
        for required_form in output_forms() {
            let home = output_form(sample.form, version, &[chars]);
            // What ISO 8859-1 lacks, or a char of UTF-8, is not sent as something else.
            if !sample.is_sayable(required_form) || !sample.translated(required_form).is_sayable(home) {
                unsayable += 1;
                continue;
            }
            let back = sample.translated(required_form).translated(home);
            assert_eq!(back.value(), value, "{} by way of {required_form:?}", sample.name);
        }
    }
    assert!(unsayable > 0, "some have characters that ISO 8859-1 lacks");
}

#[test]
fn what_fits_is_left_alone() {
    for version in VERSIONS {
        for chars in CHARS {
            let early = version < Version::V1_2;
            for sample in samples() {
                let Encoding { version: from, chars: own, .. } = encoding_of(sample.tag);
                let same_layout = (from < Version::V1_2) == early;
                let required_form = output_form(FORM_STRUCTURED, version, &[chars]);
                let understood = if version == Version::V1_0 { CharSet::Latin1 } else { chars };
                assert_eq!(
                    fits(FORM_STRUCTURED, sample.tag, required_form),
                    same_layout && own == understood,
                    "{}",
                    sample.name
                );
                assert!(!fits(FORM_ANY, sample.tag, required_form));
                let either = output_form(FORM_STRUCTURED, version, &CHARS);
                if version > Version::V1_0 {
                    assert_eq!(fits(FORM_STRUCTURED, sample.tag, either), same_layout, "{}", sample.name);
                }
            }
        }
    }
    let odd = tag_of(encoding(Endian::Big, Version::V1_2, CharSet::Latin1), 4);
    assert!(!fits(FORM_ANY, odd, output_form(FORM_ANY, Version::V1_2, &CHARS)), "a 1.2 body begins at a multiple of 8");
}

#[test]
fn an_any_becomes_a_structured_event_around_it() {
    for endian in ENDIANS {
        for version in VERSIONS {
            for phase in 0..8 {
                let mut bytes = Vec::new();
                let encoding = encoding(endian, version, CharSet::Latin1);
                let mut w = Writer::with_phase(&mut bytes, phase, encoding);
                AnyValue::from(1.5_f64).write(&mut w).unwrap();
                let event = Sample { name: String::new(), form: FORM_ANY, tag: tag_of(encoding, phase), bytes };
                let there = event.translated(output_form(FORM_STRUCTURED, Version::V1_2, &CHARS));
                let header = read_structured(reader(&there.bytes, there.tag), &mut Work::default()).unwrap();
                let behind_type = header.behind_type;
                assert_eq!(header, EventHeader { type_name: ANY_TYPE_NAME, behind_type, ..EventHeader::default() });
                let Value::Struct { fields, .. } = there.value() else { panic!() };
                let [_, (name, data), (body, remainder)] = &fields[..] else { panic!("{fields:?}") };
                assert_eq!((name.as_str(), data), ("filterable_data", &Value::Sequence(vec![])));
                assert_eq!((body.as_str(), remainder), ("remainder_of_body", &event.value()));
            }
        }
    }
}

#[test]
fn a_structured_event_becomes_an_any_of_its_whole_type() {
    for sample in samples() {
        let there = sample.translated(output_form(FORM_ANY, Version::V1_2, &CHARS));
        let Value::Any(any) = there.value() else { panic!() };
        assert_eq!(any.value, sample.value(), "{}", sample.name);
        assert!(any.type_code.equal(&structured_event_type()));
    }
}

#[test]
fn the_type_of_a_structured_event_is_what_omniorb_takes_it_for() {
    let bytes = hexadecimal(include_str!("omniorb-structured-event-type.hex"));
    let mut reader = Reader::new(&bytes, Encoding::new(Endian::Little));
    let theirs = TypeCode::read(&mut reader, &mut Work::default()).unwrap();
    reader.finish("TypeCode").unwrap();
    let ours = structured_event_type();
    assert!(ours.equal(&theirs), "{ours}\n{theirs}");
    assert_eq!(format!("{ours}"), format!("{theirs}"));
}

#[test]
fn a_structured_event_in_an_any_comes_out_again() {
    let sample = sample(Endian::Little, Version::V1_2, CharSet::Utf8, 0);
    let any = sample.translated(output_form(FORM_ANY, Version::V1_2, &CHARS));
    let back = any.translated(output_form(FORM_STRUCTURED, Version::V1_2, &CHARS));
    assert_eq!(back.bytes, sample.bytes);
    assert_eq!(back.tag, sample.tag);
}

#[test]
fn a_structured_event_of_the_type_any_keeps_what_else_it_has() {
    for (filterable, unwrapped) in [(0, true), (1, false)] {
        let encoding = Encoding::new(Endian::Little);
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes, encoding);
        for text in ["", "%ANY", "some name"] {
            w.string(text);
        }
        w.u32(1);
        w.string("Priority");
        AnyValue::from(3_i16).write(&mut w).unwrap();
        w.u32(filterable);
        for _ in 0..filterable {
            w.string("x");
            AnyValue::from(4_i16).write(&mut w).unwrap();
        }
        AnyValue::from("inside").write(&mut w).unwrap();
        let event = Sample { name: String::new(), form: FORM_STRUCTURED, tag: tag_of(encoding, 0), bytes };
        let there = event.translated(output_form(FORM_ANY, Version::V1_2, &CHARS));
        let Value::Any(any) = there.value() else { panic!() };
        assert_eq!(any.value == Value::String("inside".into()), unwrapped);
        assert_eq!(any.value == event.value(), !unwrapped);
    }
}

#[test]
fn a_type_that_only_has_the_name_of_a_structured_event_is_an_any_like_any_other() {
    let id = "IDL:omg.org/CosNotification/StructuredEvent:1.0";
    let impostor = TypeCode::structure(id, "StructuredEvent", &[("n", TypeCode::primitive(Kind::Long))]);
    let fields = vec![("n".to_owned(), Value::Long(7))];
    let value = AnyValue::new(impostor, Value::Struct { type_name: "StructuredEvent".into(), fields });
    let mut bytes = Vec::new();
    let encoding = Encoding::new(Endian::Big);
    value.write(&mut Writer::new(&mut bytes, encoding)).unwrap();
    let event = Sample { name: String::new(), form: FORM_ANY, tag: tag_of(encoding, 0), bytes };
    let there = event.translated(output_form(FORM_STRUCTURED, Version::V1_2, &CHARS));
    let header = read_structured(reader(&there.bytes, there.tag), &mut Work::default()).unwrap();
    assert_eq!(header.type_name, ANY_TYPE_NAME);
}

#[test]
fn what_cannot_be_translated_leaves_no_trace() {
    let mut out = vec![1, 2, 3];
    // Text that is not UTF-8 for a consumer that takes ISO 8859-1 only.
    let encoding = encoding(Endian::Big, Version::V1_2, CharSet::Utf8);
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes, encoding);
    w.string_bytes(&[0xff]);
    for _ in 0..2 {
        w.string_bytes(b"");
    }
    for _ in 0..3 {
        w.u32(0);
    }
    let latin1 = output_form(FORM_STRUCTURED, Version::V1_2, &[CharSet::Latin1]);
    let failed = translate(FORM_STRUCTURED, tag_of(encoding, 0), &bytes, (latin1, 0), &mut out);
    assert!(matches!(failed, Err(Untranslatable::Bytes(_))), "{failed:?}");
    let unknown = translate(Form(9), tag_of(encoding, 0), &bytes, (latin1, 0), &mut out);
    assert_eq!(unknown, Err(Untranslatable::Form(Form(9))));
    let sample = sample(Endian::Little, Version::V1_1, CharSet::Latin1, 4);
    for length in 0..sample.bytes.len() {
        for required_form in output_forms() {
            if !fits(sample.form, sample.tag, required_form) {
                translate(sample.form, sample.tag, &sample.bytes[..length], (required_form, 0), &mut out).unwrap_err();
            }
        }
    }
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn random_bytes_never_harm_the_event_path() {
    let seed = 0x00ff_1ce5;
    let mut random = fastrand::Rng::with_seed(seed);
    let (samples, output_forms) = (samples(), output_forms());
    let mut out = Vec::new();
    for round in 0..30_000 {
        let sample = &samples[random.usize(0..samples.len())];
        let mut bytes = sample.bytes.clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(0..bytes.len());
            bytes[at] = if random.bool() { random.u8(..) } else { 0 };
        }
        bytes.truncate(random.usize(0..bytes.len() + 1).max(random.usize(0..bytes.len() + 1)));
        let form = if random.bool() { FORM_ANY } else { FORM_STRUCTURED };
        let _ = read_structured(reader(&bytes, sample.tag), &mut Work::default());
        let _ = read_any(reader(&bytes, sample.tag), &mut Work::default());
        out.clear();
        let _ = translate(form, sample.tag, &bytes, (output_forms[random.usize(0..output_forms.len())], 0), &mut out);
        assert!(out.len() < 1 << 20, "seed {seed:#x}, round {round}");
    }
}

#[test]
fn a_consumer_says_in_its_reference_what_it_takes() {
    let bare = |version, components| {
        let mut consumer = client("c");
        let Some(Profile::Iiop(profile)) = consumer.profiles.first_mut() else { panic!() };
        (profile.version, profile.components) = (version, components);
        output_form_for(FORM_ANY, false, &consumer).unwrap()
    };
    let tag = |version, chars| tag_of(encoding(Endian::Little, version, chars), 0);
    for version in VERSIONS {
        let silent = bare(version, vec![]);
        assert_eq!(version_of(silent), version);
        assert!(fits(FORM_ANY, tag(version, CharSet::Latin1), silent));
        assert!(!fits(FORM_ANY, tag(version, CharSet::Utf8), silent), "a client that says nothing takes ISO 8859-1");
    }
    let ours = bare(Version::V1_2, vec![CodeSetInfo::campanile().to_component()]);
    assert!(CHARS.iter().all(|chars| fits(FORM_ANY, tag(Version::V1_2, *chars), ours)));
    // What a UTF-8 only consumer gets from an ISO 8859-1 supplier is in UTF-8.
    let there = sample(Endian::Big, Version::V1_2, CharSet::Latin1, 0).translated(output_form(
        FORM_STRUCTURED,
        Version::V1_2,
        &[CharSet::Utf8],
    ));
    assert_eq!(encoding_of(there.tag).chars, CharSet::Utf8);
    assert!(output_form_for(FORM_ANY, false, &Ior::nil()).is_err());
}

#[test]
fn the_densest_values_are_within_the_work_granted_and_few_bytes_cause_little() {
    // Nothing takes more steps for its bytes than a union of two octets.
    let octet = || TypeCode::primitive(Kind::Octet);
    let union = TypeCode::union("", "", octet(), &[(Some(0), "o", octet())]);
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, Encoding::new(Endian::Little));
    TypeCode::sequence(union).write(&mut writer);
    writer.u32(100_000);
    writer.raw(&[0; 200_000]);
    read_any(Reader::new(&bytes, Encoding::new(Endian::Little)), &mut work_for(bytes.len())).unwrap();
    assert_eq!(work_for(100).steps_left(), 4096 + 400);
    assert_eq!(work_for(usize::MAX).steps_left(), 1 << 22);
}
