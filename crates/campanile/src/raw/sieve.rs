//! Filters without a service: they see the event that a supplier would have sent to one.

use crate::declared::{Declared, NATIVE};
use crate::error::Error;
use crate::form::{Envelope, write_event};
use crate::settings::{EventForm, Settings};
use crate::time::ticks_of;
use corba::event::fields_of_structured;
use filter::{Constraint, Steps, Verdict};
use giop::cdr::{Reader, Writer};
use std::time::SystemTime;

/// Maximum evaluation steps for one event, as in a service.
const STEPS_MAX: u32 = 10_000;

pub(crate) struct Sieve {
    constraint: Constraint,
    form: EventForm,
    event: Vec<u8>,
}

impl Sieve {
    pub(crate) fn new(text: &str, settings: &Settings) -> Result<Self, Error> {
        Ok(Self { constraint: crate::constraint::parse(text)?, form: settings.event_form, event: Vec::new() })
    }

    /// Whether a value passes the filter.
    pub(crate) fn passes(&mut self, of: &Declared, cdr: &[u8]) -> bool {
        self.event.clear();
        let ticks = ticks_of(SystemTime::now());
        let domain = of.domain().unwrap_or_default();
        let envelope = Envelope { domain, form: self.form, supplier: "", ticks, count: 0 };
        if write_event(of, &envelope, cdr, &mut Writer::new(&mut self.event, NATIVE)).is_err() {
            // Passed on: its reader reports what is wrong with it.
            return true;
        }
        let fields = fields_of_structured(Reader::new(&self.event, NATIVE), ticks);
        self.constraint.matches(&fields, &mut Steps::new(STEPS_MAX)) == Verdict::Match
    }
}
