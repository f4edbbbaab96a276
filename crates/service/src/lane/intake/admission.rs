//! Events on their way in: from a door to the engine, at once, or when filters have been asked about them.

use core::time::Duration;

use core::num::NonZeroU64;
use engine::{Admission, Completion, PendingEvent, ProxyKey, RemoteFilterGroups, Time};

use crate::counters::Counter;
use crate::lane::context::Context;
use crate::lane::intake::awaiting_filter::AwaitingFilter;
use crate::lane::intake::{FilterVerdict, Refused, Submission};
use crate::lane::io::slots::Token;
use crate::lane::run::Core;

impl Core {
    /// Hands an event to the engine, or has it wait: until it is kept, for its turn, or behind those of its proxy about which remote
    /// filters are asked.
    pub(crate) fn admit(&mut self, submission: &mut Submission, pending_event: PendingEvent) {
        let Some(pending_event) = self.admits_type(submission, pending_event) else { return };
        let (source, octets) = (submission.source, pending_event.bytes.len() as u64);
        let Some(mut pending_event) = self.wait_for_store(submission, pending_event) else {
            return self.cx.counters.add(Counter::EventBytesIn, octets);
        };
        if let Some(within) = self.cx.lane.acknowledges_within(source) {
            let pending_ack = self.intake.await_ack(submission);
            self.await_delivery(&mut pending_event, pending_ack, within);
        }
        if self.cx.lane.schedules_topics() {
            let pending_ack = self.intake.await_ack(submission);
            self.cx.lane.schedule_event(source, pending_event, pending_ack.to_bits(), self.cx.clock.now);
        } else if self.intake.awaiting_filter.is_waiting(source) {
            if !self.intake.awaiting_filter.has_room(source, &pending_event) {
                self.cx.lane.abandon_event(pending_event);
                self.cx.counters.add(Counter::AwaitingFilterRefused, 1);
                return submission.refuse(Refused::TooManyAwaitingFilter);
            }
            let pending_ack = self.intake.await_ack(submission);
            self.intake.awaiting_filter.wait(source, pending_event, pending_ack);
        } else {
            match self.cx.lane.handle_event(source, pending_event, &self.protocols, self.cx.clock.now) {
                Admission::Accepted { .. } => {}
                Admission::Withheld(ticket) => {
                    let pending_ack = self.intake.await_ack(submission);
                    self.intake.block(ticket, pending_ack);
                }
                Admission::Refused(refusal) => return submission.refuse(Refused::ByEngine(refusal)),
                Admission::AwaitingFilter(pending_event, questions) => {
                    let pending_ack = self.intake.await_ack(submission);
                    self.intake.awaiting_filter.wait(source, pending_event, pending_ack);
                    if let Some(filter_verdict) = self.call_filters_for_first(source, questions) {
                        self.apply_filter_verdict(source, filter_verdict);
                    }
                }
            }
        }
        self.cx.counters.add(Counter::EventBytesIn, octets);
    }

    /// What is owed for an event waits until all consumers have it, for so long at most.
    pub(crate) fn await_delivery(&mut self, pending_event: &mut PendingEvent, pending_ack: Token, within: Duration) {
        let Self { intake, cx: Context { identity, clock, .. }, .. } = self;
        let event: &mut engine::Event = pending_event;
        let watch = *event.watch.get_or_insert_with(|| intake.acknowledgements.number(identity.thread));
        intake.acknowledgements.wait(watch, pending_ack, clock.now + within);
        clock.plan_sweep();
    }

    /// Notes what the engine tells of an event for which an answer may wait.
    pub(crate) fn note_completed(&mut self, completed: Completion) {
        if let Some(pending_ack) = self.intake.acknowledgements.note(completed, self.cx.identity.thread) {
            self.complete_ack(pending_ack, None);
        }
    }

    /// Nothing more is waited for, for an event.
    pub(crate) fn note_completed_for_all(&mut self, watch: NonZeroU64) {
        if let Some(pending_ack) = self.intake.acknowledgements.end(watch) {
            self.complete_ack(pending_ack, None);
        }
    }

    /// Another lane has done with an event.
    pub(crate) fn note_done_elsewhere(&mut self, watch: NonZeroU64) {
        if let Some(pending_ack) = self.intake.acknowledgements.note_done_elsewhere(watch) {
            self.complete_ack(pending_ack, None);
        }
    }

    /// Sends the answers that have waited for long enough, and notifies other lanes of their events.
    pub(crate) fn sweep_acknowledgements(&mut self) {
        while let Some(pending_ack) = self.intake.acknowledgements.pop_overdue(self.cx.clock.now) {
            self.cx.counters.add(Counter::AcknowledgedEarly, 1);
            self.complete_ack(pending_ack, None);
        }
        self.tell_of_done();
    }

    /// Notifies other lanes that their events are done with here, as far as there is room. The rest follow in the next sweep.
    pub(crate) fn tell_of_done(&mut self) {
        let Self { intake, links, cx: Context { clock, .. }, .. } = self;
        if !intake.acknowledgements.is_empty() {
            clock.plan_sweep();
        }
        intake.acknowledgements.tell(|lane, watch| links.lanes.send_completed(lane, watch));
    }

    /// All events of a request have been looked at. True if its supplier can be answered that they were taken in, false
    /// if the answer comes later.
    ///
    /// # Errors
    /// Says why not all of them were taken in.
    pub(crate) fn finish_submission(&mut self, submission: &Submission) -> Result<bool, Refused> {
        self.intake.finish(submission)
    }

    /// Something has come about for which a supplier's reply was withheld. `refused` is sent instead, if an event was refused.
    pub(crate) fn complete_ack(&mut self, pending_ack: Token, refused: Option<Refused>) {
        if let Some(taken) = self.intake.complete_ack(pending_ack, refused) {
            self.complete_peer_ack(taken);
        }
    }

    /// The remote filters have ruled on the first event of a proxy that waits: it goes on or not, and those behind it are
    /// looked at before the round is over, or in the next ones.
    pub(crate) fn apply_filter_verdict(&mut self, source: ProxyKey, filter_verdict: FilterVerdict) {
        self.carry_out(source, filter_verdict);
        self.intake.awaiting_filter.look_again(source);
    }

    /// Looks at events that waited behind those on which remote filters have ruled, for a stated time: of one proxy after the other, until
    /// filters have to be asked about one of its events too.
    pub(crate) fn resume_awaiting_filter(&mut self) {
        if !self.intake.awaiting_filter.has_to_go_on() {
            return;
        }
        let until = self.cx.clock.time() + LOOKING_FOR;
        while let Some(source) = self.intake.awaiting_filter.next_again() {
            self.check_awaiting_filter(source, until);
            if self.cx.clock.time() >= until {
                return;
            }
        }
    }

    /// Looks at the events of a proxy that wait until filters have to be asked about one of them: the others need no filter, and
    /// follow at once, as long as there is time for it.
    #[inline(never)]
    fn check_awaiting_filter(&mut self, source: ProxyKey, until: Time) {
        while let Some(AwaitingFilter { pending_event, pending_ack }) = self.intake.awaiting_filter.next(source) {
            if let Some((pending_event, questions)) = self.admit_waiting(source, pending_event, pending_ack) {
                self.intake.awaiting_filter.put_back(source, AwaitingFilter { pending_event, pending_ack });
                match self.call_filters_for_first(source, questions) {
                    Some(filter_verdict) => self.carry_out(source, filter_verdict),
                    None => return,
                }
            }
            if self.cx.clock.time() >= until {
                return self.intake.awaiting_filter.look_again(source);
            }
        }
    }

    /// Does with the first event of a proxy what filters have said of it.
    fn carry_out(&mut self, source: ProxyKey, filter_verdict: FilterVerdict) {
        let Some(AwaitingFilter { mut pending_event, pending_ack }) = self.intake.awaiting_filter.next(source) else {
            return;
        };
        pending_event.approved = true;
        if filter_verdict == FilterVerdict::Yes {
            self.admit_waiting(source, pending_event, pending_ack);
            return;
        }
        let counter = if filter_verdict == FilterVerdict::No { Counter::FilteredIn } else { Counter::FilteredInFailed };
        self.cx.counters.add(counter, 1);
        self.cx.lane.abandon_event(pending_event);
        self.complete_ack(pending_ack, None);
    }

    /// Hands an event to the engine that has waited. It comes back if remote filters have to be asked about it.
    pub(crate) fn admit_waiting(
        &mut self,
        source: ProxyKey,
        pending_event: PendingEvent,
        pending_ack: Token,
    ) -> Option<(PendingEvent, RemoteFilterGroups)> {
        match self.cx.lane.handle_event(source, pending_event, &self.protocols, self.cx.clock.now) {
            Admission::Accepted { .. } => self.complete_ack(pending_ack, None),
            Admission::Withheld(ticket) => {
                self.intake.block(ticket, pending_ack);
            }
            Admission::Refused(refusal) => self.complete_ack(pending_ack, Some(Refused::ByEngine(refusal))),
            Admission::AwaitingFilter(pending_event, questions) => return Some((pending_event, questions)),
        }
        None
    }
}

/// How long events are looked at in a round that waited behind others on which remote filters have ruled.
const LOOKING_FOR: Duration = Duration::from_micros(250);
