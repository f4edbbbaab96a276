//! Forms of events: filters read an event by the protocol that brought it, and translations are made by the consumers' protocols.
//! Undeliverable events are handed in at the channel for dead letters.

use corba::event::{self, CorbaForms, EventFields, FORM_STRUCTURED, Translated, Untranslatable};
use engine::{Admission, DeadLetter, Event, Form, Forms as _, LaneId, OutputForm, ProxyId, ProxyKey};
use filter::{Fields, Path, Steps, Value};

use super::tempo::form::{self, FORM_TEMPO, MessageFields};
use super::{Protocols, Tag, WireProtocol, by_tag};
use crate::counters::Counter;
use crate::lane::context::Context;

/// Fields of an event of any protocol.
pub(crate) enum FormFields<'e> {
    Giop(EventFields<'e>),
    Tempo(MessageFields<'e>),
}

impl engine::Forms for Protocols {
    type Fields<'e> = FormFields<'e>;

    #[inline]
    fn fields<'e>(&'e self, event: &'e Event) -> FormFields<'e> {
        fields_of(event, &self.giop.forms, &self.tempo.forms)
    }
}

/// Fields of an event, by the protocol that brought it.
#[inline]
pub(crate) fn fields_of<'e>(event: &'e Event, corba: &'e CorbaForms, tempo: &'e form::Forms) -> FormFields<'e> {
    // Events of other protocols are translated into a CORBA form when they come in.
    if event.form == FORM_TEMPO { tempo.fields(event, corba.utc) } else { FormFields::Giop(corba.fields(event)) }
}

impl Fields for FormFields<'_> {
    #[inline]
    fn field<'f>(&'f self, path: &Path, steps: &mut Steps) -> Option<Value<'f>> {
        #[cfg(test)]
        if crate::simulation::goes_wrong(crate::simulation::Break::LostField) {
            return None;
        }
        #[cfg(test)]
        if crate::simulation::goes_wrong(crate::simulation::Break::WrongField) {
            return Some(Value::Int(i64::from(u32::MAX)));
        }
        match self {
            Self::Giop(fields) => fields.field(path, steps),
            Self::Tempo(fields) => fields.field(path, steps),
        }
    }

    #[inline]
    fn contains(&self, path: &Path, needle: &Value<'_>, steps: &mut Steps) -> Option<bool> {
        match self {
            Self::Giop(fields) => fields.contains(path, needle, steps),
            Self::Tempo(fields) => fields.contains(path, needle, steps),
        }
    }

    #[inline]
    fn current_time(&self) -> u64 {
        match self {
            Self::Giop(fields) => fields.current_time(),
            Self::Tempo(fields) => fields.current_time(),
        }
    }
}

impl Protocols {
    /// Translates an incoming event into each form that consumers of its channel take, except forms that are made on another lane.
    pub(crate) fn translate(&mut self, source: ProxyKey, event: &mut Event, cx: &mut Context) {
        self.translate_that_came(source, event, self.giop.forms.utc, cx);
    }

    /// Translates an event as [`Self::translate`] does, with its arrival in 100 ns since 15 October 1582.
    pub(crate) fn translate_that_came(&mut self, source: ProxyKey, event: &mut Event, came: u64, cx: &mut Context) {
        let here = cx.identity.id;
        self.translate_for(
            (source, came),
            event,
            |output_form| made_on(output_form).is_none_or(|lane| lane == here),
            cx,
        );
    }

    /// Translates an event of another lane into the forms that are made on this one.
    pub(crate) fn translate_here(&mut self, source: ProxyKey, event: &mut Event, cx: &mut Context) {
        let here = cx.identity.id;
        let now = self.giop.forms.utc;
        self.translate_for((source, now), event, |output_form| made_on(output_form) == Some(here), cx);
    }

    fn translate_for(
        &mut self,
        (source, came): (ProxyKey, u64),
        event: &mut Event,
        is_made: impl Fn(OutputForm) -> bool,
        cx: &mut Context,
    ) {
        let mut lacking_why = None;
        let Context { lane, counters, .. } = cx;
        let Some(channel) = lane.snapshot().channel(source.channel) else { return };
        let lacking = |output_form: &&OutputForm| !fits(event.form, event.tag, **output_form) && is_made(**output_form);
        let (form, tag) = (event.form, event.tag);
        let Some(first) = channel.output_forms().iter().position(|output_form| lacking(&output_form)) else { return };
        let tempo = &mut self.tempo.forms;
        tempo.note_names(lane.type_names(event.event_type).unwrap_or_else(|| event.names()));
        let Event { bytes, alternates, priority, .. } = event;
        // Translations of a Tempo message for other protocols are made of its structured event, which is made once.
        let structured = (form == FORM_TEMPO).then(|| tempo.make_structured(source.channel, (*priority, tag, bytes)));
        let output_forms = channel.output_forms().iter().skip(first);
        for output_form in output_forms.filter(|output_form| !fits(form, tag, **output_form) && is_made(**output_form))
        {
            let alternate = alternates.push(*output_form);
            let of = match structured {
                Some(tag) => (FORM_STRUCTURED, tag, self.tempo.forms.structured.as_slice()),
                None => (form, tag, bytes.as_slice()),
            };
            let (to, out) = ((*output_form, came), &mut alternate.bytes);
            let written =
                by_tag!(Tag::of_output_form(*output_form), P => P::PUT_INTO(self, source.channel, of, to, out));
            match written {
                // The structured event fits, rather than the message.
                Ok(Translated::AlreadyFits) if structured.is_some() => {
                    alternate.bytes.extend_from_slice(of.2);
                    alternate.tag = of.1;
                    counters.add(Counter::Translations, 1);
                }
                Ok(Translated::AlreadyFits) => alternates.pop(),
                Ok(Translated::Written { tag, number_at }) => {
                    (alternate.tag, alternate.number_at) = (tag, number_at);
                    counters.add(Counter::Translations, 1);
                }
                Err(why) => {
                    // Consumers that want it so do without: the engine learns of that when their turn comes.
                    alternates.pop();
                    counters.add(Counter::Untranslatable, 1);
                    lacking_why = why.or(lacking_why);
                }
            }
        }
        if let Some(why) = lacking_why {
            self.announce_untranslatable(source, why, cx);
        }
    }

    /// Logs, at most once a minute, that events could not be translated into some consumers' code set or form.
    #[cold]
    fn announce_untranslatable(&mut self, source: ProxyKey, why: Untranslatable, cx: &mut Context) {
        const EVERY_NS: u64 = 60_000_000_000;
        let (now, last) = (cx.clock.now, self.giop.untranslatable_announced);
        if last.is_some_and(|last| now.0.saturating_sub(last.0) < EVERY_NS) {
            return;
        }
        self.giop.untranslatable_announced = Some(now);
        cx.log(log::Level::Warn, || {
            format!(
                "an event of supplier proxy {} of channel {} is dropped for consumers that take it otherwise: {why}; such events \
                 are counted (lane_untranslatable), and logged once a minute",
                source.proxy.0, source.channel.0
            )
        });
    }

    /// Hands undeliverable events in at the channels for dead letters. True if there were any.
    pub(crate) fn send_dead_letters(&mut self, cx: &mut Context) -> bool {
        let mut has_some = false;
        while let Some(dead) = cx.lane.poll_dead_letter() {
            has_some = true;
            let sent = self.send_dead_letter(&dead, cx);
            cx.counters.add(if sent { Counter::DeadLetters } else { Counter::DeadLettersLost }, 1);
            cx.lane.release(dead.event);
        }
        has_some
    }

    /// Hands in one undeliverable event. True if the channel took it.
    fn send_dead_letter(&mut self, dead: &DeadLetter, cx: &mut Context) -> bool {
        let (old, consumer, to) = (&dead.event, dead.consumer, dead.to);
        let mut pending_event = cx.lane.begin_event_for(old.bytes.len());
        let tempo_forms = &mut self.tempo.forms;
        let names = cx.lane.type_names(old.event_type).unwrap_or_else(|| old.names());
        let (domain, name) = (names.0.to_vec(), names.1.to_vec());
        let (who, of) = (consumer.to_string(), consumer.channel.0.to_string());
        let values = [REASON, who.as_str(), of.as_str()];
        let written = if old.form == FORM_TEMPO {
            tempo_forms.note_names((&domain, &name));
            let tag = tempo_forms.make_structured(consumer.channel, (old.priority, old.tag, &old.bytes));
            event::as_dead_letter((FORM_STRUCTURED, tag, &tempo_forms.structured), values, &mut pending_event.bytes)
        } else {
            event::as_dead_letter((old.form, old.tag, &old.bytes), values, &mut pending_event.bytes)
        };
        let Ok(tag) = written else {
            cx.lane.abandon_event(pending_event);
            return false;
        };
        // Neither a lifetime nor a time to begin at: both were for its first channel.
        let event: &mut Event = &mut pending_event;
        (event.form, event.tag, event.priority) = (FORM_STRUCTURED, tag, old.priority);
        // The event does not keep the old one's origin: each consumer's dead letter is an event of its own.
        cx.origins.assign(event);
        cx.lane.classify(&mut pending_event, &domain, &name);
        self.translate(ProxyKey { channel: to, proxy: ProxyId(u32::MAX) }, &mut pending_event, cx);
        match cx.lane.handle_dead_letter(to, pending_event, self, cx.clock.now) {
            Admission::Accepted { .. } | Admission::Withheld(_) => true,
            Admission::AwaitingFilter(pending_event, _) => {
                cx.lane.abandon_event(pending_event);
                false
            }
            Admission::Refused(_) => false,
        }
    }
}

/// The tag for an event that may have been delivered before the process began.
pub(crate) fn as_repeated(form: Form, tag: u64) -> u64 {
    by_tag!(Tag::of_form(form), P => P::AS_REPEATED(tag))
}

/// Whether an event needs no translation for a consumer with this output form.
#[inline]
pub(crate) fn fits(form: Form, tag: u64, output_form: OutputForm) -> bool {
    by_tag!(Tag::of_output_form(output_form), P => P::FITS(form, tag, output_form))
}

/// The lane on which a form is made: [`WireProtocol::MADE_ON`].
fn made_on(output_form: OutputForm) -> Option<LaneId> {
    by_tag!(Tag::of_output_form(output_form), P => P::MADE_ON)
}

/// Whether an event keeps the names of its type, without which its fields cannot be read.
pub(crate) fn keeps_names(form: Form) -> bool {
    form == FORM_TEMPO
}

/// Reason given with a dead letter.
const REASON: &str = "undeliverable";
