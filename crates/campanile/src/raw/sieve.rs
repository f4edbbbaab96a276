//! Filters over values, without a service: they see the event that a supplier would have sent to one.

use crate::constraint::{parse, unknown_members, unknown_names};
use crate::declared::{Declared, NATIVE};
use crate::error::{Error, Trouble};
use crate::form::{Envelope, EventQos, write_event};
use crate::settings::EventForm;
use crate::time::ticks_of;
use corba::event::fields_of_structured;
use filter::{Constraint, Fields, Path, Steps, Verdict};
use giop::cdr::{Reader, Writer};
use std::fmt;
use std::time::SystemTime;

/// Maximum evaluation steps for one event, as in a service.
const STEPS_MAX: u32 = 10_000;

/// A filter of the Extended Trader Constraint Language over values of one type: for events that reach a consumer within the process. It sees
/// what a service would see of the event in the form `body`.
pub struct RawFilter {
    declared: Declared,
    sieve: Sieve,
}

impl RawFilter {
    /// The filter that a text is.
    ///
    /// # Errors
    /// [`Error::Filter`] for a text that is none, or names what the type does not have.
    pub fn new(text: &str, declared: &Declared) -> Result<Self, Error> {
        let sieve = Sieve::new(text, EventForm::Body)?;
        // Within a program there is but one type at a time, so that an unknown name is a slip.
        if let Some(Trouble::UnknownName { name, known }) = unknown_names(text, [declared].into_iter()).pop() {
            let reason = format!("no event has {name}; {known}");
            return Err(Error::Filter { text: text.to_owned(), reason, column: None });
        }
        Ok(Self { declared: declared.clone(), sieve })
    }

    /// Whether a value of the type gets through. One of which the filter makes no sense does not.
    #[must_use]
    pub fn matches(&mut self, cdr: &[u8]) -> bool {
        self.matches_with(cdr, EventQos::default())
    }

    /// The same of an event that has a priority, which is `$priority` unless it is 0, or a timeout, `$timeout`.
    #[must_use]
    pub fn matches_with(&mut self, cdr: &[u8], qos: EventQos) -> bool {
        self.sieve.passes(&self.declared, cdr, qos)
    }
}

impl fmt::Debug for RawFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sieve.constraint.fmt(f)
    }
}

/// What filters see of values of one type: for what has constraints of its own.
#[derive(Debug)]
pub struct RawFields {
    declared: Declared,
    event: Vec<u8>,
}

impl RawFields {
    /// The fields of values of this type.
    #[must_use]
    pub fn new(declared: &Declared) -> Self {
        Self { declared: declared.clone(), event: Vec::new() }
    }

    /// Hands over what a filter sees of a value; `None` for one that is not of the type.
    pub fn with<R>(&mut self, cdr: &[u8], qos: EventQos, look: impl FnOnce(&dyn Fields) -> R) -> Option<R> {
        with_fields(&mut self.event, &self.declared, (EventForm::Body, qos), cdr, look)
    }
}

/// A name in these paths that the type does not have, and what it has.
#[must_use]
pub fn unknown_name(paths: &[Path], of: &Declared) -> Option<String> {
    match unknown_members(paths, [of].into_iter()).pop()? {
        Trouble::UnknownName { name, known } => Some(format!("no event has {name}; {known}")),
        _ => None,
    }
}

/// Writes a value as an event, and hands over what a filter sees of it; `None` for one that is not of the type.
fn with_fields<R>(
    event: &mut Vec<u8>,
    of: &Declared,
    (form, qos): (EventForm, EventQos),
    cdr: &[u8],
    look: impl FnOnce(&dyn Fields) -> R,
) -> Option<R> {
    event.clear();
    let ticks = ticks_of(SystemTime::now());
    let domain = of.domain().unwrap_or_default();
    let envelope = Envelope { domain, form, supplier: "", ticks, count: 0, qos };
    write_event(of, &envelope, cdr, &mut Writer::new(event, NATIVE)).ok()?;
    Some(look(&fields_of_structured(Reader::new(event, NATIVE), ticks)))
}

/// A filter over values of any types.
pub(crate) struct Sieve {
    constraint: Constraint,
    form: EventForm,
    event: Vec<u8>,
}

impl Sieve {
    pub(crate) fn new(text: &str, form: EventForm) -> Result<Self, Error> {
        Ok(Self { constraint: parse(text)?, form, event: Vec::new() })
    }

    /// Whether a value passes the filter.
    pub(crate) fn passes(&mut self, of: &Declared, cdr: &[u8], qos: EventQos) -> bool {
        let Self { constraint, form, event } = self;
        let passes = |fields: &dyn Fields| constraint.matches(fields, &mut Steps::new(STEPS_MAX)) == Verdict::Match;
        // What is no value is passed on: its reader reports what is wrong with it.
        with_fields(event, of, (*form, qos), cdr, passes).unwrap_or(true)
    }
}
