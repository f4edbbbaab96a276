//! How events' bytes are read for filters, by the door that brought the event, which its form says; and how they are put into
//! what consumers take, by these consumers' door.

use engine::{ChannelId, Event, Form, ProxyKey, Want};
use filter::{Fields, Path, Steps, Value};

use super::json;
use super::{Doors, Tag};
use crate::counters::Counter;
use crate::lane::run::Core;
use corba::event::{self, EventFields, Translated};

/// The fields of an event of some door.
pub(crate) enum FormFields<'e> {
    Giop(EventFields<'e>),
}

impl engine::Forms for Doors {
    type Fields<'e> = FormFields<'e>;

    #[inline]
    fn fields<'e>(&'e self, event: &'e Event) -> FormFields<'e> {
        match Tag::of_form(event.form) {
            // What comes in as JSON is put into the CORBA door's form.
            Tag::Giop | Tag::Json => FormFields::Giop(self.giop.forms.fields(event)),
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

impl Core {
    /// Puts the event into each form that some consumer of its channel takes and that it does not have yet.
    pub(crate) fn translate(&mut self, source: ProxyKey, event: &mut Event) {
        let Some(channel) = self.lane.snapshot().channel(source.channel) else { return };
        let Event { form, tag, bytes, alternates, .. } = event;
        for want in channel.wants() {
            if fits(*form, *tag, *want) {
                continue;
            }
            let alternate = alternates.push(*want);
            match put_into(source.channel, (*form, *tag, bytes), *want, &mut alternate.bytes) {
                Some(Translated::AlreadyFits) => alternates.pop(),
                Some(Translated::Written { tag }) => {
                    alternate.tag = tag;
                    self.counters.add(Counter::Translations, 1);
                }
                None => {
                    // Consumers that want it so do without: the engine is told when their turn comes.
                    alternates.pop();
                    self.counters.add(Counter::Untranslatable, 1);
                }
            }
        }
    }
}

/// Whether an event needs no translation for a consumer with this want.
#[inline]
pub(crate) fn fits(form: Form, tag: u64, want: Want) -> bool {
    match Tag::of_want(want) {
        Tag::Giop => event::fits(form, tag, want),
        Tag::Json => false,
    }
}

/// Puts an event into what consumers with a want need. Nothing if that cannot be done; `out` is as it was then.
fn put_into(
    channel: ChannelId,
    (form, tag, bytes): (Form, u64, &[u8]),
    want: Want,
    out: &mut Vec<u8>,
) -> Option<Translated> {
    match Tag::of_want(want) {
        Tag::Giop => event::translate(form, tag, bytes, want, out).ok(),
        Tag::Json => json::translate(channel, form, tag, bytes, out).map(|()| Translated::Written { tag: 0 }),
    }
}
