//! Access to the fields of events. The engine itself sees only bytes; the protocol that made an event reads it.

use filter::{Fields, Path, Steps, Value};

use crate::Event;

/// A protocol's reader of its events' fields, for filters.
pub trait Forms {
    /// The fields of one event, each read at its first use.
    type Fields<'e>: Fields
    where
        Self: 'e;

    /// The fields of an event. Reads nothing yet and does not allocate.
    fn fields<'e>(&'e self, event: &'e Event) -> Self::Fields<'e>;
}

/// Reader of events without fields, for protocols without filters and for tests. A constraint that reads a field does not match.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFields;

impl Forms for NoFields {
    type Fields<'e> = Self;

    fn fields<'e>(&'e self, _: &'e Event) -> Self {
        Self
    }
}

impl Fields for NoFields {
    fn field<'f>(&'f self, _: &Path, _: &mut Steps) -> Option<Value<'f>> {
        None
    }

    fn contains(&self, _: &Path, _: &Value<'_>, _: &mut Steps) -> Option<bool> {
        None
    }

    fn current_time(&self) -> u64 {
        0
    }
}
