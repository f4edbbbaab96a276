//! How events' bytes are read for filters: by the door that brought the event, which its form says.

use engine::Event;
use filter::{Fields, Path, Steps, Value};

use super::{Doors, Tag};
use corba::event::EventFields;

/// The fields of an event of some door.
pub(crate) enum FormFields<'e> {
    Giop(EventFields<'e>),
}

impl engine::Forms for Doors {
    type Fields<'e> = FormFields<'e>;

    #[inline]
    fn fields<'e>(&'e self, event: &'e Event) -> FormFields<'e> {
        match Tag::of_form(event.form) {
            Tag::Giop => FormFields::Giop(self.giop.forms.fields(event)),
        }
    }
}

impl Fields for FormFields<'_> {
    #[inline]
    fn field<'f>(&'f self, path: &Path, steps: &mut Steps) -> Option<Value<'f>> {
        match self {
            Self::Giop(fields) => fields.field(path, steps),
        }
    }

    #[inline]
    fn contains(&self, path: &Path, needle: &Value<'_>, steps: &mut Steps) -> Option<bool> {
        match self {
            Self::Giop(fields) => fields.contains(path, needle, steps),
        }
    }

    #[inline]
    fn current_time(&self) -> u64 {
        match self {
            Self::Giop(fields) => fields.current_time(),
        }
    }
}
