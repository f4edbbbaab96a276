//! Fields of messages for filters: the same as in the structured event made of a message.
//!
//! The fields of a declared type, and those given by topic and frame (`$domain_name`, `$type_name`, `$event_name`, `$priority`), are read
//! in place. For other fields, such as `$.filterable_data[0].name` or `$.remainder_of_body[3]`, the structured event is made in a buffer of
//! the lane: only if a filter needs it, and once for each evaluation of filters of one kind.

use std::cell::{Cell, OnceCell};

use corba::event::{self, ANY_TYPE_NAME};
use engine::Event;
use filter::{Chars, Fields, Part, Path, Root, Steps, Text, Value};
use giop::cdr::Reader;

use super::super::types::{DeclaredType, DeclaredTypes};
use super::{Note, Origin, write_structured};

/// Octets walked over, or copied, in one step.
const OCTETS_PER_STEP: usize = 64;

/// The fields of a message.
pub(crate) struct MessageFields<'e> {
    origin: Origin<'e>,
    types: &'e DeclaredTypes,
    utc: u64,
    /// The topic's declared type, if the message has it; found when first needed.
    declared: OnceCell<Option<&'e DeclaredType>>,
    /// The structured event and its tag; made when first needed.
    structured: OnceCell<(Vec<u8>, u64)>,
    /// Buffer for the structured event.
    spare: &'e Cell<Vec<u8>>,
}

/// Target of a path.
enum Place<'e, 'p> {
    /// A value.
    Value(Value<'e>),
    /// A part of a field: the field's value, and the path from there. The value's type is stored elsewhere.
    Field((Reader<'e>, Reader<'e>), &'p [Part]),
    Nowhere,
    /// A part of the structured event.
    Structured,
}

impl<'e> MessageFields<'e> {
    pub(crate) fn new(event: &'e Event, types: &'e DeclaredTypes, spare: &'e Cell<Vec<u8>>, utc: u64) -> Self {
        let (declared, structured) = (OnceCell::new(), OnceCell::new());
        Self { origin: Origin::of(event), types, utc, declared, structured, spare }
    }

    fn declared(&self) -> Option<&'e DeclaredType> {
        let Origin { channel, names: (domain, name), tag, .. } = self.origin;
        let find = || Note::of(tag).is_read.then(|| self.types.find(channel, domain, name)).flatten();
        *self.declared.get_or_init(find)
    }

    fn place<'p>(&self, path: &'p Path, steps: &mut Steps) -> Place<'e, 'p> {
        // The event stands for an Any, and all its fields differ.
        if self.origin.names == (b"", ANY_TYPE_NAME) {
            return Place::Structured;
        }
        match (&path.root, &*path.parts) {
            (Root::Name(name), parts) => self.named(name, parts, steps),
            (Root::Event, [Part::Member(list), Part::Named(name), parts @ ..]) if **list == *"filterable_data" => {
                self.field_of(name, parts, steps)
            }
            (Root::Event, [Part::Member(name), parts @ ..]) if !is_member(name) => self.named(name, parts, steps),
            (Root::Event, _) => Place::Structured,
            (Root::CurrentTime, _) => Place::Nowhere,
        }
    }

    fn named<'p>(&self, name: &str, parts: &'p [Part], steps: &mut Steps) -> Place<'e, 'p> {
        let (domain, type_name) = self.origin.names;
        let text = |bytes| Place::Value(Value::Text(Text { bytes, chars: Chars::Utf8 }));
        match (name, parts) {
            ("domain_name" | "type_name" | "event_name" | "priority" | "Priority", []) if !steps.take(1) => {
                Place::Nowhere
            }
            ("domain_name", []) => text(domain),
            ("type_name", []) => text(type_name),
            ("event_name", []) => text(b""),
            ("domain_name" | "type_name" | "event_name" | "event_type", _) => Place::Structured,
            ("priority" | "Priority", parts) if self.origin.said_priority().is_some() => {
                match (self.origin.priority, parts) {
                    (Some(priority), []) => Place::Value(Value::Int(priority.into())),
                    _ => Place::Structured,
                }
            }
            // Unless a field has the name, it is a member of the event.
            (name, parts) if is_member(name) => match self.field_of(name, parts, steps) {
                Place::Nowhere => Place::Structured,
                found => found,
            },
            (name, parts) => self.field_of(name, parts, steps),
        }
    }

    fn field_of<'p>(&self, name: &str, parts: &'p [Part], steps: &mut Steps) -> Place<'e, 'p> {
        if !steps.take(1) {
            return Place::Nowhere;
        }
        let mut passed = 0;
        let found =
            self.declared().and_then(|declared| declared.field(self.origin.bytes, name, |octets| passed = octets));
        match found {
            Some(found) if steps.take(in_steps(passed)) => Place::Field(found, parts),
            _ => Place::Nowhere,
        }
    }

    /// The structured event. `None` if too few steps are left to make it.
    fn structured(&self, steps: &mut Steps) -> Option<event::EventFields<'_>> {
        if self.structured.get().is_none() && !steps.take(in_steps(self.origin.bytes.len())) {
            return None;
        }
        let (bytes, tag) = self.structured.get_or_init(|| {
            let mut bytes = self.spare.take();
            bytes.clear();
            let tag = write_structured(&self.origin, self.types, &mut bytes);
            (bytes, tag)
        });
        Some(event::fields_of_structured(event::reader(bytes, *tag), self.utc))
    }
}

impl Drop for MessageFields<'_> {
    fn drop(&mut self) {
        if let Some((bytes, _)) = self.structured.take() {
            self.spare.set(bytes);
        }
    }
}

impl Fields for MessageFields<'_> {
    fn field<'f>(&'f self, path: &Path, steps: &mut Steps) -> Option<Value<'f>> {
        match self.place(path, steps) {
            Place::Value(value) => Some(value),
            Place::Field((type_code, value), parts) => event::field_behind(type_code, value, parts, steps),
            Place::Nowhere => None,
            Place::Structured => self.structured(steps)?.find(path, steps),
        }
    }

    fn contains(&self, path: &Path, needle: &Value<'_>, steps: &mut Steps) -> Option<bool> {
        match self.place(path, steps) {
            Place::Value(_) | Place::Nowhere => None,
            Place::Field((type_code, value), parts) => {
                event::is_contained_behind(type_code, value, parts, needle, steps)
            }
            Place::Structured => self.structured(steps)?.contains(path, needle, steps),
        }
    }

    fn current_time(&self) -> u64 {
        self.utc
    }
}

/// Whether a structured event has a member of that name.
fn is_member(name: &str) -> bool {
    matches!(name, "header" | "filterable_data" | "remainder_of_body")
}

fn in_steps(octets: usize) -> u32 {
    u32::try_from(octets / OCTETS_PER_STEP).unwrap_or(u32::MAX).saturating_add(1)
}
