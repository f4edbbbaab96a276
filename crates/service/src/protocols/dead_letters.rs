//! Events that a consumer never takes, on their way to the channel that takes such events.

use corba::event::{self, FORM_STRUCTURED};
use engine::{Admission, DeadLetter, Event, ProxyId, ProxyKey};

use crate::counters::Counter;
use crate::lane::context::Context;
use crate::lane::run::Core;
use crate::protocols::Protocols;
use crate::protocols::tempo::form::FORM_TEMPO;

/// Why an event is a dead letter.
const REASON: &str = "undeliverable";

impl Core {
    /// Hands undeliverable events in at the channels that theirs name for them. Says whether there were any.
    pub(crate) fn send_dead_letters(&mut self) -> bool {
        let mut has_some = false;
        while let Some(dead) = self.cx.lane.poll_dead_letter() {
            has_some = true;
            let sent = self.send_dead_letter(&dead);
            self.cx.counters.add(if sent { Counter::DeadLetters } else { Counter::DeadLettersLost }, 1);
            self.cx.lane.release(dead.event);
        }
        has_some
    }

    /// Says whether the channel took it.
    fn send_dead_letter(&mut self, dead: &DeadLetter) -> bool {
        let (old, consumer, to) = (&dead.event, dead.consumer, dead.to);
        let mut pending_event = self.cx.lane.begin_event_for(old.bytes.len());
        let Self { cx: Context { lane, .. }, protocols: Protocols { tempo_forms, .. }, .. } = self;
        let names = lane.type_names(old.event_type).unwrap_or_else(|| old.names());
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
            self.cx.lane.abandon_event(pending_event);
            return false;
        };
        // Neither a lifetime nor a time to begin at: both were for its first channel.
        let event: &mut Event = &mut pending_event;
        (event.form, event.tag, event.priority) = (FORM_STRUCTURED, tag, old.priority);
        self.cx.lane.classify(&mut pending_event, &domain, &name);
        self.translate(ProxyKey { channel: to, proxy: ProxyId(u32::MAX) }, &mut pending_event);
        match self.cx.lane.handle_dead_letter(to, pending_event, &self.protocols, self.cx.clock.now) {
            Admission::Accepted { .. } | Admission::Withheld(_) => true,
            Admission::AwaitingFilter(pending_event, _) => {
                self.cx.lane.abandon_event(pending_event);
                false
            }
            Admission::Refused(_) => false,
        }
    }
}
