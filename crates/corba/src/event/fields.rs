//! Fields of events for filters, read in place and on demand.
//!
//! Interpretation of a constraint's paths (OMG Notification Service 1.1, 2.4):
//!
//! - A path from the event itself (`$.header.fixed_header.event_type.type_name`, `$.filterable_data(name)`, `$.remainder_of_body[3]`, and
//!   of an Any event `$.member`, `$(name)`, `$[0]` or just `$`) follows the types as the IDL has them. Values within an `any` are entered.
//!   If it begins with a name that is no member of the event (`$.type_name`, `$.n`), it is resolved as that name on its own, as in TAO.
//! - A name on its own (`$name`) is, in a structured event, the first of these that exists: one of the run-time variables `$domain_name`,
//!   `$type_name`, `$event_name`, `$priority` and `$timeout` (the properties `Priority` and `Timeout` of the variable header); another
//!   member of the fixed header; the property of that name in the variable header; that in the filterable data; the member of that name of
//!   the event itself.
//! - In an Any event, `$type_name` is `%ANY`, `$domain_name` and `$event_name` are empty, and any other name is a member of the structure
//!   or union in it, or a named value of the list in it.
//! - In a list of properties alone (a typed event, for `match_typed`), `$type_name` is `%TYPED`, `$domain_name` and `$event_name` are
//!   empty, and any other name is the property of that name.
//!
//! A structured event in an Any can be read both ways: as a structure, and by names as the structured event that sequence and structured
//! consumers get. The same holds for an Any in a structured event of the type `%ANY`.

mod structured;

use super::translate::says_structured_event;
use super::{ANY_TYPE_NAME, FORM_STRUCTURED, TYPED_TYPE_NAME, UtcClock, reader, types};
use engine::{Event, Forms, Time};
use filter::{Chars, Fields, Label, Part, Path, Root, Steps, Text, Value};
use giop::cdr::{CharSet, Endian, ReadError, ReadErrorKind, Reader};
use giop::cursor::{self, Cursor, DefaultMember, Scalar, find_named};
use giop::typecode::{Kind, Work};
use std::cell::OnceCell;
use structured::Structured;

/// Maximum nesting of types and values that a path may lead through.
const DEPTH_MAX: u32 = 128;

/// Octets of text that are compared per step.
const BYTES_PER_STEP: usize = 64;

/// Access of a lane's filters to events that arrived through CORBA.
#[derive(Clone, Copy, Debug, Default)]
pub struct CorbaForms {
    /// Value of `$curtime`: 100 ns since 15 October 1582, UTC.
    pub utc: u64,
}

impl CorbaForms {
    /// For events evaluated `now`.
    #[must_use]
    pub fn at(clock: &UtcClock, now: Time) -> Self {
        Self { utc: clock.utc_time(now) }
    }
}

impl Forms for CorbaForms {
    type Fields<'e> = EventFields<'e>;

    fn fields<'e>(&'e self, event: &'e Event) -> EventFields<'e> {
        let source = reader(&event.bytes, event.tag);
        let shape = if event.form == FORM_STRUCTURED { Shape::Structured } else { Shape::Any };
        EventFields::new(shape, source, self.utc)
    }
}

/// The fields of an Any, as for `Filter::match`. `utc` is the value of `$curtime`.
#[must_use]
pub fn fields_of_any(source: Reader<'_>, utc: u64) -> EventFields<'_> {
    EventFields::new(Shape::Any, source, utc)
}

/// The fields of a structured event, as for `Filter::match_structured`. `utc` is the value of `$curtime`.
#[must_use]
pub fn fields_of_structured(source: Reader<'_>, utc: u64) -> EventFields<'_> {
    EventFields::new(Shape::Structured, source, utc)
}

/// The fields of a `CosNotification::PropertySeq`, as for `Filter::match_typed`. `utc` is the value of `$curtime`.
#[must_use]
pub fn fields_of_properties(source: Reader<'_>, utc: u64) -> EventFields<'_> {
    EventFields::new(Shape::Properties, source, utc)
}

/// Resolves `parts` from a value whose type is elsewhere, behind `type_code`: from a value in an event of another protocol, as if it were a
/// property's.
pub fn field_behind<'e>(
    type_code: Reader<'e>,
    value: Reader<'e>,
    parts: &[Part],
    steps: &mut Steps,
) -> Option<Value<'e>> {
    within(steps, |work| follow(Cursor::typed(type_code, value, work)?, parts, work))
}

/// Whether the sequence or array that `parts` lead to, resolved as in [`field_behind`], has an element equal to `needle`.
pub fn is_contained_behind(
    type_code: Reader<'_>,
    value: Reader<'_>,
    parts: &[Part],
    needle: &Value<'_>,
    steps: &mut Steps,
) -> Option<bool> {
    within(steps, |work| has_element(Cursor::typed(type_code, value, work)?, parts, needle, work))
}

/// Structure of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Any,
    Structured,
    Properties,
}

/// The fields of one event, read on demand.
#[derive(Clone, Debug)]
pub struct EventFields<'e> {
    shape: Shape,
    /// A reader in front of the event.
    source: Reader<'e>,
    /// The structured event that the event is or contains, once resolved.
    structured: OnceCell<Option<Structured<'e>>>,
    utc: u64,
}

impl<'e> EventFields<'e> {
    fn new(shape: Shape, source: Reader<'e>, utc: u64) -> Self {
        let structured = match shape {
            Shape::Structured => OnceCell::from(Some(Structured::new(source.clone()))),
            Shape::Any | Shape::Properties => OnceCell::new(),
        };
        Self { shape, source, structured, utc }
    }

    fn structured(&self, work: &mut Work) -> Option<&Structured<'e>> {
        let find = || match self.shape {
            Shape::Any if says_structured_event(self.source.clone()) => {
                Cursor::any(self.source.clone(), work).ok().map(|held| Structured::new(held.reader()))
            }
            _ => None,
        };
        self.structured.get_or_init(find).as_ref()
    }

    /// Resolves the beginning of a path; returns the rest of its parts, too.
    fn begin<'p>(&self, path: &'p Path, work: &mut Work) -> Found<'e, 'p> {
        match &path.root {
            Root::Name(name) => Ok(self.name(name, work)?.map(|place| (place, &*path.parts))),
            Root::Event => self.event(&path.parts, work),
            Root::CurrentTime => Ok(None),
        }
    }

    fn name(&self, name: &str, work: &mut Work) -> Result<Option<Place<'e>>, ReadError> {
        if let Some(structured) = self.structured(work) {
            return structured.name(name, work);
        }
        match name {
            "type_name" if self.shape == Shape::Properties => Ok(Some(Place::Text(TYPED_TYPE_NAME))),
            "type_name" => Ok(Some(Place::Text(ANY_TYPE_NAME))),
            "domain_name" | "event_name" => Ok(Some(Place::Text(b""))),
            _ if self.shape == Shape::Properties => {
                Ok(find_named(&mut self.source.clone(), name, work)?.map(Place::Value))
            }
            _ => generic(&Cursor::any(self.source.clone(), work)?, name, work),
        }
    }

    fn event<'p>(&self, parts: &'p [Part], work: &mut Work) -> Found<'e, 'p> {
        let source = self.source.clone();
        let at = match self.shape {
            Shape::Any => Cursor::any(source, work)?,
            Shape::Properties => match parts {
                [Part::Named(name), rest @ ..] => {
                    return Ok(find_named(&mut source.clone(), name, work)?.map(|at| (Place::Value(at), rest)));
                }
                _ => types::properties(source, work)?,
            },
            Shape::Structured => match self.structured(work) {
                Some(structured) => return structured.event(parts, work),
                None => return Ok(None),
            },
        };
        if let [Part::Member(name), rest @ ..] = parts {
            let member = at.member(name, work)?.map(Place::Value);
            let place = if member.is_some() { member } else { self.name(name, work)? };
            return Ok(place.map(|place| (place, rest)));
        }
        Ok(Some((Place::Value(at), parts)))
    }

    fn value(&self, path: &Path, work: &mut Work) -> Result<Option<Value<'e>>, ReadError> {
        let chars = self.source.encoding().chars;
        let Some((place, parts)) = self.begin(path, work)? else {
            return Ok(None);
        };
        match place {
            Place::Text(bytes) => Ok(match parts {
                [] => Some(Value::Text(text(bytes, chars))),
                [Part::TypeId] => keyword(Kind::String).map(|keyword| Value::Text(Text::new(keyword))),
                _ => None,
            }),
            Place::Any(any) if parts.is_empty() => match Scalar::of_any(&any, work)? {
                Some(scalar) => Ok(Some(value_of(scalar, chars))),
                None => value_at(&Cursor::any(any, work)?, work),
            },
            Place::Any(any) => follow(Cursor::any(any, work)?, parts, work),
            Place::Value(at) => follow(at, parts, work),
        }
    }

    fn has(&self, path: &Path, needle: &Value<'_>, work: &mut Work) -> Result<Option<bool>, ReadError> {
        let (at, parts) = match self.begin(path, work)? {
            Some((Place::Value(at), parts)) => (at, parts),
            Some((Place::Any(any), parts)) => (Cursor::any(any, work)?, parts),
            Some((Place::Text(_), _)) | None => return Ok(None),
        };
        has_element(at, parts, needle, work)
    }

    /// Finds a value as [`Fields::field`] does, with the event's lifetime.
    #[must_use]
    pub fn find(&self, path: &Path, steps: &mut Steps) -> Option<Value<'e>> {
        within(steps, |work| self.value(path, work))
    }
}

impl Fields for EventFields<'_> {
    fn field<'f>(&'f self, path: &Path, steps: &mut Steps) -> Option<Value<'f>> {
        self.find(path, steps)
    }

    fn contains(&self, path: &Path, needle: &Value<'_>, steps: &mut Steps) -> Option<bool> {
        within(steps, |work| self.has(path, needle, work))
    }

    fn current_time(&self) -> u64 {
        self.utc
    }
}

/// Runs something within the steps left. Unreadable parts count as missing.
#[inline]
fn within<T>(steps: &mut Steps, read: impl FnOnce(&mut Work) -> Result<Option<T>, ReadError>) -> Option<T> {
    let mut work = Work::new(steps.left, DEPTH_MAX);
    let found = read(&mut work);
    steps.left = match &found {
        Err(error) if error.kind == ReadErrorKind::TooMuchWork => 0,
        _ => work.steps_left(),
    };
    found.ok().flatten()
}

/// The place that a path has reached.
enum Place<'e> {
    /// A string of the fixed header.
    Text(&'e [u8]),
    /// An `any`, not looked into yet.
    Any(Reader<'e>),
    /// A value with its type.
    Value(Cursor<'e>),
}

/// The place that the first parts of a path lead to, and the other parts.
type Found<'e, 'p> = Result<Option<(Place<'e>, &'p [Part])>, ReadError>;

/// The meaning of `$name` in a value without names of its own.
fn generic<'e>(at: &Cursor<'e>, name: &str, work: &mut Work) -> Result<Option<Place<'e>>, ReadError> {
    let member = at.member(name, work)?;
    let found = if member.is_some() { member } else { at.named(name, work)? };
    Ok(found.map(Place::Value))
}

// ---- following a path ----

/// The value at the end of a path.
fn follow<'e>(mut at: Cursor<'e>, parts: &[Part], work: &mut Work) -> Result<Option<Value<'e>>, ReadError> {
    let Some((last, others)) = parts.split_last() else {
        return value_at(&at, work);
    };
    let chars = at.reader().encoding().chars;
    match descend(at, others, work)? {
        Some(reached) => at = reached,
        None => return Ok(None),
    }
    Ok(match last {
        Part::Length => at.length()?.map(|length| Value::Int(length.into())),
        Part::TypeId => match at.type_name() {
            Some(name) => Some(Value::Text(text(name, chars))).filter(|_| !name.is_empty()),
            None => keyword(at.kind()).map(|keyword| Value::Text(Text::new(keyword))),
        },
        Part::ReposId => at.repository_id().filter(|id| !id.is_empty()).map(|id| Value::Text(text(id, chars))),
        Part::Ordinal(enumerator) => at.ordinal(enumerator, work)?.map(|ordinal| Value::Int(ordinal.into())),
        Part::Default => match at.default_member(work)? {
            DefaultMember::Member(member) => value_at(&member, work)?,
            DefaultMember::Nothing => Some(Value::Composite),
            DefaultMember::Another => None,
        },
        part => match step(&at, part, work)? {
            Some(reached) => value_at(&reached, work)?,
            None => None,
        },
    })
}

/// The keyword of a type without a name, if it consists of that alone.
const fn keyword(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Null | Kind::Void | Kind::Sequence | Kind::Array => None,
        kind => Some(kind.keyword()),
    }
}

/// Whether the sequence or array at the end of a path has an element equal to `needle`.
fn has_element(at: Cursor<'_>, parts: &[Part], needle: &Value<'_>, work: &mut Work) -> Result<Option<bool>, ReadError> {
    let Some(at) = descend(at, parts, work)? else {
        return Ok(None);
    };
    let Some(mut elements) = at.elements(work)? else {
        return Ok(None);
    };
    let mut comparable = elements.left() == 0;
    while let Some(element) = elements.next(work)? {
        let Some(value) = value_at(&element, work)? else { continue };
        if let Value::Text(text) = &value {
            spend_on(text.bytes, work)?;
        }
        match value.equals(needle) {
            Some(true) => return Ok(Some(true)),
            Some(false) => comparable = true,
            None => {}
        }
    }
    Ok(comparable.then_some(false))
}

fn descend<'e>(mut at: Cursor<'e>, parts: &[Part], work: &mut Work) -> Result<Option<Cursor<'e>>, ReadError> {
    for part in parts {
        match step(&at, part, work)? {
            Some(next) => at = next,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

fn step<'e>(at: &Cursor<'e>, part: &Part, work: &mut Work) -> Result<Option<Cursor<'e>>, ReadError> {
    match part {
        Part::Member(name) => at.member(name, work),
        Part::Position(position) => at.position(*position, work),
        Part::Element(index) => at.element(*index, work),
        Part::Named(name) => at.named(name, work),
        Part::Discriminator => at.discriminator(work),
        Part::Label(label) => at.labelled(label_of(label), work),
        Part::Default => Ok(match at.default_member(work)? {
            DefaultMember::Member(member) => Some(member),
            DefaultMember::Nothing | DefaultMember::Another => None,
        }),
        Part::Length | Part::TypeId | Part::ReposId | Part::Ordinal(_) => Ok(None),
    }
}

/// Whether a part asks for a type's property, which every value has.
fn is_about_type(part: &Part) -> bool {
    matches!(part, Part::Length | Part::TypeId | Part::ReposId)
}

fn label_of(label: &Label) -> cursor::Label<'_> {
    match label {
        Label::Int(value) => cursor::Label::Int(*value),
        Label::Bool(value) => cursor::Label::Bool(*value),
        Label::Char(value) => cursor::Label::Char(*value),
        Label::Name(name) => cursor::Label::Name(name),
    }
}

/// The value at a cursor. An `Any` that was never given one has none.
fn value_at<'e>(at: &Cursor<'e>, work: &mut Work) -> Result<Option<Value<'e>>, ReadError> {
    Ok(match at.scalar(work)? {
        Some(scalar) => Some(value_of(scalar, at.reader().encoding().chars)),
        None => Some(Value::Composite).filter(|_| !matches!(at.kind(), Kind::Null | Kind::Void)),
    })
}

#[inline]
fn value_of(scalar: Scalar<'_>, chars: CharSet) -> Value<'_> {
    match scalar {
        Scalar::Bool(value) => Value::Bool(value),
        Scalar::Int(value) => Value::Int(value),
        Scalar::UInt(value) => Value::UInt(value),
        Scalar::Float(value) => Value::Float(value),
        Scalar::Char(value) => Value::Char(value),
        Scalar::Text(bytes) => Value::Text(text(bytes, chars)),
        Scalar::Enum { ordinal, name } => Value::Enum { ordinal, name: text(name, chars) },
        Scalar::Wide(units) => {
            let (bytes, endian) = units.as_bytes();
            let chars = if endian == Endian::Big { Chars::Utf16Be } else { Chars::Utf16Le };
            Value::Text(Text { bytes, chars })
        }
    }
}

fn text(bytes: &[u8], chars: CharSet) -> Text<'_> {
    let chars = match chars {
        CharSet::Latin1 => Chars::Latin1,
        CharSet::Utf8 => Chars::Utf8,
    };
    Text { bytes, chars }
}

fn spend_on(bytes: &[u8], work: &mut Work) -> Result<(), ReadError> {
    let steps = u32::try_from(bytes.len() / BYTES_PER_STEP).unwrap_or(u32::MAX);
    let kind = ReadErrorKind::TooMuchWork;
    if work.spend(steps) { Ok(()) } else { Err(ReadError { offset: 0, kind }) }
}

fn spend(steps: u32, at: &Reader<'_>, work: &mut Work) -> Result<(), ReadError> {
    if work.spend(steps) { Ok(()) } else { Err(at.error(ReadErrorKind::TooMuchWork)) }
}
