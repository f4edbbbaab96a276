//! Requirements of consumers on events, packed into the engine's [`OutputForm`].

use super::{FORM_ANY, FORM_STRUCTURED, encoding_of, is_repeated, phase_of};
use crate::exceptions::Raised;
use crate::log_lines::log_line;
use engine::{Event, Form, OutputForm};
use giop::cdr::{CharSet, Encoding, Version};
use giop::codeset::{negotiate, supports};
use giop::ior::Ior;

/// A consumer's requirements on events, in the terms of its reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Needs {
    form: Form,
    /// The newest version that the consumer supports, used for calls to it.
    version: Version,
    /// The code set that its own reference makes best.
    best: CharSet,
    /// Whether the other code set is supported, too.
    other: bool,
    /// The way events reach the consumer.
    manner: Manner,
}

/// The way events reach a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// One event per request, with the event's bytes as its body.
    Single,
    /// Several events per request, copied into it one behind the other.
    Batch,
    /// Copied into the reply to a pull, over a connection not known in advance.
    Pulled,
}

impl Needs {
    fn pack(self) -> OutputForm {
        let Self { form, version, best, other, manner } = self;
        let best = u32::from(best == CharSet::Utf8);
        let manner = match manner {
            Manner::Single => 0,
            Manner::Batch => 1,
            Manner::Pulled => 2,
        };
        let bits = manner << 4 | u32::from(version.minor()) << 2 | best << 1 | u32::from(other);
        OutputForm(u32::from(form.0) << 8 | bits)
    }

    fn unpack(OutputForm(output_form): OutputForm) -> Self {
        let [_, high, low, bits] = output_form.to_be_bytes();
        Self {
            form: Form(u16::from_be_bytes([high, low])),
            version: Version::from_minor(bits >> 2 & 3).unwrap_or(Version::V1_2),
            best: if bits >> 1 & 1 == 0 { CharSet::Latin1 } else { CharSet::Utf8 },
            other: bits & 1 == 1,
            manner: match bits >> 4 & 3 {
                0 => Manner::Single,
                1 => Manner::Batch,
                _ => Manner::Pulled,
            },
        }
    }

    fn takes(self, chars: CharSet) -> bool {
        self.best == chars || self.other
    }
}

/// The requirements of a consumer of a form with this reference. `batches` means a sequence consumer. Events for it are assembled by
/// [`write_batch`](super::write_batch), which adapts byte order and alignment.
///
/// # Errors
///
/// The consumer cannot be reached through IIOP (`BAD_PARAM`), or its reference offers no supported code set (`CODESET_INCOMPATIBLE`).
pub(crate) fn output_form_for(form: Form, batches: bool, consumer: &Ior) -> Result<OutputForm, Raised> {
    let manner = if batches { Manner::Batch } else { Manner::Single };
    needs_of(form, consumer, manner).map(Needs::pack)
}

/// The requirements of a pull consumer: none in advance. Its events are translated for the requesting connection when they are written to
/// it ([`write_pulled`](super::write_pulled)), so that every event fits.
#[must_use]
pub fn pull_output_form(form: Form) -> OutputForm {
    let manner = Manner::Pulled;
    Needs { form, version: Version::V1_2, best: CharSet::Utf8, other: true, manner }.pack()
}

/// The requirements of another protocol of this service that translates events of a form into its own: either code set, in GIOP 1.2.
#[must_use]
pub fn protocol_output_form(form: Form) -> OutputForm {
    Needs { form, version: Version::V1_2, best: CharSet::Utf8, other: true, manner: Manner::Single }.pack()
}

/// The requirements of another protocol of this service that passes events on in a form: UTF-8, in GIOP 1.2.
#[must_use]
pub fn utf8_output_form(form: Form) -> OutputForm {
    Needs { form, version: Version::V1_2, best: CharSet::Utf8, other: false, manner: Manner::Single }.pack()
}

fn needs_of(form: Form, consumer: &Ior, manner: Manner) -> Result<Needs, Raised> {
    let profile = consumer.iiop().ok_or_else(Raised::bad_param)?;
    Ok(match profile.code_sets() {
        // GIOP 1.0 knows nothing of code sets; without a word of them ISO 8859-1 is meant.
        Some(info) if profile.version > Version::V1_0 => {
            let best = negotiate(Some(&info)).map_err(|incompatible| {
                log_line!(Info, "a consumer cannot connect: {incompatible}");
                Raised::codeset_incompatible()
            })?;
            let other = match best {
                CharSet::Latin1 => CharSet::Utf8,
                CharSet::Utf8 => CharSet::Latin1,
            };
            Needs { form, version: profile.version, best, other: supports(&info, other), manner }
        }
        _ => Needs { form, version: profile.version, best: CharSet::Latin1, other: false, manner },
    })
}

/// The version in which a consumer with this want is called.
#[must_use]
pub fn version_of(output_form: OutputForm) -> Version {
    Needs::unpack(output_form).version
}

/// Whether a consumer with this output form gets sequences.
#[must_use]
pub fn takes_batches(output_form: OutputForm) -> bool {
    Needs::unpack(output_form).manner == Manner::Batch
}

/// Whether an event needs no translation for a consumer with this output form.
#[must_use]
pub fn fits(form: Form, tag: u64, output_form: OutputForm) -> bool {
    let needs = Needs::unpack(output_form);
    let Encoding { version, chars, .. } = encoding_of(tag);
    let is_readable = || needs.takes(chars) && is_same_layout(version, needs.version);
    match needs.manner {
        Manner::Single => {
            form == needs.form && is_readable() && is_placeable(tag, needs) && !lacks_mark(form, tag, output_form)
        }
        Manner::Batch => form == needs.form && is_readable() && !lacks_mark(form, tag, output_form),
        Manner::Pulled => form == FORM_ANY || form == FORM_STRUCTURED,
    }
}

/// Whether an event lacks a mark for a consumer with this output form: an Any has no header for one.
#[inline]
fn lacks_mark(form: Form, tag: u64, output_form: OutputForm) -> bool {
    (output_form.marks_numbers() || (is_repeated(tag) && output_form.marks_repeats())) && form == FORM_STRUCTURED
}

/// The bytes of an event that a consumer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The bytes as received.
    Native,
    /// The alternate of this number.
    Alternate(usize),
}

/// The bytes of an event that a consumer with this output form gets. `None` if the event could not be translated for it.
///
/// Marking of repeats and numbers may change while an event waits. The event is not translated again for that: its consumer gets it as
/// before.
#[inline]
#[must_use]
pub fn source_for(event: &Event, output_form: OutputForm) -> Option<Source> {
    let Event { form, tag, alternates, .. } = event;
    if fits(*form, *tag, output_form) {
        return Some(Source::Native);
    }
    let unmarked = output_form.marking_repeats(false).marking_numbers(false);
    let fits_unmarked = || fits(*form, *tag, unmarked).then_some(Source::Native);
    alternates.position(output_form).map(Source::Alternate).or_else(fits_unmarked)
}

/// The encoding of an event for a consumer with this output form, given its own `encoding`.
pub(super) fn encoding_for(output_form: OutputForm, encoding: Encoding) -> Encoding {
    let Needs { version, best, .. } = Needs::unpack(output_form);
    let chars = if Needs::unpack(output_form).takes(encoding.chars) { encoding.chars } else { best };
    Encoding { endian: encoding.endian, version, chars }
}

/// The form that consumers with this want take.
pub(super) fn form_of(output_form: OutputForm) -> Form {
    Needs::unpack(output_form).form
}

/// Whether wide characters have the same layout in both versions, as before GIOP 1.2.
fn is_same_layout(a: Version, b: Version) -> bool {
    (a < Version::V1_2) == (b < Version::V1_2)
}

/// Whether the body's position fits: a multiple of 8 in GIOP 1.2. Before that, filler octets in the header allow any position.
fn is_placeable(tag: u64, needs: Needs) -> bool {
    needs.version < Version::V1_2 || phase_of(tag) == 0
}
