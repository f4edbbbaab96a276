//! Admission of events, from a protocol to the engine: at once, after the store has them, after remote filters have answered, or in their
//! turn.
//!
//! Where a lane has several topics, events that were read wait until the engine gives them their turn.
//!
//! Their suppliers' acknowledgements are pending meanwhile, those of one-way pushes too. A connection with the maximum of unanswered
//! requests is not read any further, so that a supplier that floods fills only its own socket. Between turns the lane looks at its sockets
//! again, so that an event with an earlier deadline is served before the flood that came before it.

use core::num::NonZeroU64;
use core::time::Duration;
use std::sync::Arc;

use engine::{
    Admission, Completion, PendingEvent, ProxyId, ProxyKey, Reliability, RemoteFilterGroups, ScheduledEvent, Time,
};

use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::intake::awaiting_filter::AwaitingFilter;
use crate::lane::intake::journal::{Received, State, Waiting};
use crate::lane::intake::{FilterVerdict, Refused, Submission};
use crate::lane::io::slots::Token;
use crate::lane::run::{Core, Worker};
use crate::store::journal::{Again, ToStore};
use crate::store::record::Record;
use crate::time::UtcClock;
use std::hint::black_box;

impl Core {
    /// Hands an event to the engine, or has it wait: for the store, for its turn, or behind events of its proxy that await remote filters.
    pub(crate) fn admit(&mut self, submission: &mut Submission, pending_event: PendingEvent) {
        let Some(mut pending_event) = self.access.admits_type(submission, pending_event, &mut self.cx) else { return };
        self.cx.origins.assign(&mut pending_event);
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
            self.cx.lane.note_submitted(source, &pending_event, self.cx.clock.now);
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
                    if let Some(filter_verdict) = self.call_filters_for_admission(source, questions) {
                        self.apply_filter_verdict(source, filter_verdict);
                    }
                }
            }
        }
        self.cx.counters.add(Counter::EventBytesIn, octets);
    }

    /// Has an event's acknowledgement wait until all consumers have the event, for `within` at most.
    pub(crate) fn await_delivery(&mut self, pending_event: &mut PendingEvent, pending_ack: Token, within: Duration) {
        let Self { intake, cx: Context { identity, clock, .. }, .. } = self;
        let event: &mut engine::Event = pending_event;
        let watch = *event.watch.get_or_insert_with(|| intake.acknowledgements.number(identity.thread));
        intake.acknowledgements.wait(watch, pending_ack, clock.now + within);
        clock.plan_sweep();
    }

    /// Handles the engine's report about an event for which an acknowledgement may wait.
    pub(crate) fn note_completed(&mut self, completed: Completion) {
        if let Some(pending_ack) = self.intake.acknowledgements.note(completed, self.cx.identity.thread) {
            self.complete_ack(pending_ack, None);
        }
    }

    /// Completes the acknowledgement of an event that all consumers have.
    pub(crate) fn note_completed_for_all(&mut self, watch: NonZeroU64) {
        if let Some(pending_ack) = self.intake.acknowledgements.end(watch) {
            self.complete_ack(pending_ack, None);
        }
    }

    /// Notes that another lane has completed an event.
    pub(crate) fn note_done_elsewhere(&mut self, watch: NonZeroU64) {
        if let Some(pending_ack) = self.intake.acknowledgements.note_done_elsewhere(watch) {
            self.complete_ack(pending_ack, None);
        }
    }

    /// Completes the acknowledgements that are overdue, and notifies other lanes of their events.
    pub(crate) fn sweep_acknowledgements(&mut self) {
        while let Some(pending_ack) = self.intake.acknowledgements.pop_overdue(self.cx.clock.now) {
            self.cx.counters.add(Counter::AcknowledgedEarly, 1);
            self.complete_ack(pending_ack, None);
        }
        self.tell_of_done();
    }

    /// Notifies other lanes that their events are complete here, as far as there is room. The rest follow in the next sweep.
    pub(crate) fn tell_of_done(&mut self) {
        let Self { intake, links, cx: Context { clock, .. }, .. } = self;
        if !intake.acknowledgements.is_empty() {
            clock.plan_sweep();
        }
        intake.acknowledgements.tell(|lane, watch| links.lanes.send_completed(lane, watch));
    }

    /// Ends a submission after all events of its request have been looked at. True if its supplier can be answered now that all were taken
    /// in, false if the answer comes later.
    ///
    /// # Errors
    /// The reason why not all of them were taken in.
    pub(crate) fn finish_submission(&mut self, submission: &Submission) -> Result<bool, Refused> {
        self.intake.finish(submission)
    }

    /// Meets one condition of a pending acknowledgement. A refusal is sent instead of the acknowledgement.
    pub(crate) fn complete_ack(&mut self, pending_ack: Token, refused: Option<Refused>) {
        if let Some(taken) = self.intake.complete_ack(pending_ack, refused) {
            self.complete_peer_ack(taken);
        }
    }

    /// Applies the remote filters' verdict to the first waiting event of a proxy: it is admitted or dropped. Those behind it are looked at
    /// in this round or the next.
    pub(crate) fn apply_filter_verdict(&mut self, source: ProxyKey, filter_verdict: FilterVerdict) {
        self.carry_out(source, filter_verdict);
        self.intake.awaiting_filter.look_again(source);
    }

    /// Admits events that waited behind those on which remote filters have answered, for a limited time: proxy by proxy, until filters have
    /// to be asked about one of the proxy's events too.
    pub(crate) fn resume_awaiting_filter(&mut self) {
        if !self.intake.awaiting_filter.has_to_go_on() {
            return;
        }
        let until = self.cx.clock.time() + Budget::WAITING.time;
        while let Some(source) = self.intake.awaiting_filter.next_again() {
            self.check_awaiting_filter(source, until);
            if self.cx.clock.time() >= until {
                return;
            }
        }
    }

    /// Admits waiting events of a proxy until remote filters have to be asked about one of them, or the time is over.
    #[inline(never)]
    fn check_awaiting_filter(&mut self, source: ProxyKey, until: Time) {
        while let Some(AwaitingFilter { pending_event, pending_ack }) = self.intake.awaiting_filter.next(source) {
            if let Some((pending_event, questions)) = self.admit_waiting(source, pending_event, pending_ack) {
                self.intake.awaiting_filter.put_back(source, AwaitingFilter { pending_event, pending_ack });
                match self.call_filters_for_admission(source, questions) {
                    Some(filter_verdict) => self.carry_out(source, filter_verdict),
                    None => return,
                }
            }
            if self.cx.clock.time() >= until {
                return self.intake.awaiting_filter.look_again(source);
            }
        }
    }

    /// Applies the verdict to the first waiting event of a proxy.
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

    /// Hands an event that has waited to the engine. It is returned if remote filters have to be asked about it.
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

    /// Hands in the event that has its turn. False if none waits.
    #[inline(never)]
    fn serve_queued_event(&mut self) -> bool {
        let Some(ScheduledEvent { source, pending_event, token }) = self.cx.lane.poll_scheduled(self.cx.clock.now)
        else {
            return false;
        };
        let token = Token::from_bits(token);
        match pending_event {
            Some(pending_event) => self.admit_queued(source, pending_event, token),
            None => self.take_over_queued(token),
        }
        true
    }

    /// Hands in an event in its turn, or queues it behind those of its proxy that await remote filters.
    pub(super) fn admit_queued(&mut self, source: ProxyKey, pending_event: PendingEvent, pending_ack: Token) {
        if self.intake.awaiting_filter.is_waiting(source) {
            if self.intake.awaiting_filter.has_room(source, &pending_event) {
                return self.intake.awaiting_filter.wait(source, pending_event, pending_ack);
            }
            self.cx.lane.abandon_event(pending_event);
            self.cx.counters.add(Counter::AwaitingFilterRefused, 1);
            return self.complete_ack(pending_ack, Some(Refused::TooManyAwaitingFilter));
        }
        if let Some((pending_event, questions)) = self.admit_waiting(source, pending_event, pending_ack) {
            self.intake.awaiting_filter.wait(source, pending_event, pending_ack);
            if let Some(filter_verdict) = self.call_filters_for_admission(source, questions) {
                self.apply_filter_verdict(source, filter_verdict);
            }
        }
    }

    /// Has an event wait for the store, if it is persistent or follows one that waits. Otherwise it is returned.
    pub(crate) fn wait_for_store(
        &mut self,
        submission: &mut Submission,
        mut pending_event: PendingEvent,
    ) -> Option<PendingEvent> {
        if !self.intake.journal.is_there() {
            return Some(pending_event);
        }
        let source = submission.source;
        let is_to_be_kept = self.cx.lane.reliability_of(source, &pending_event) == Reliability::Persistent
            && self.cx.lane.complete_event(source, &mut pending_event);
        let state = match is_to_be_kept {
            true => State::ToSend(pending_event),
            false if self.intake.journal.is_waiting_for(source) => State::Done(pending_event),
            false => return Some(pending_event),
        };
        if let State::ToSend(pending_event) | State::Done(pending_event) = &state {
            self.cx.lane.note_submitted(source, pending_event, self.cx.clock.now);
        }
        let pending_ack = self.intake.await_ack(submission);
        let within = self.cx.lane.acknowledges_within(source);
        self.intake.journal.wait(Waiting { source, pending_ack, state, within });
        self.intake.journal.send();
        None
    }

    /// Hands in the events that need not wait for the store any more.
    fn resume_stored(&mut self) {
        while let Some(Waiting { source, pending_ack, mut state, within }) = self.intake.journal.next() {
            if let (State::Done(pending_event), Some(within)) = (&mut state, within) {
                self.intake.await_more(pending_ack);
                self.await_delivery(pending_event, pending_ack, within);
            }
            match state {
                State::Done(pending_event) if self.cx.lane.schedules_topics() => {
                    self.cx.lane.schedule_event(source, pending_event, pending_ack.to_bits(), self.cx.clock.now);
                }
                State::Done(pending_event) => self.admit_queued(source, pending_event, pending_ack),
                State::Failed(pending_event, why) => {
                    self.cx.lane.abandon_event(pending_event);
                    self.complete_ack(pending_ack, Some(Refused::NotStored(why)));
                }
                State::ToSend(_) | State::Sent { .. } => {}
            }
        }
    }

    /// Handles the engine's completion reports, and passes those of persistent events to the store.
    pub(crate) fn process_completions(&mut self) {
        let mut has_some = false;
        while self.intake.journal.has_room_for_news()
            && let Some(completed) = self.cx.lane.poll_completion()
        {
            self.note_completed(completed);
            let lane = &self.cx.lane;
            has_some |= self.intake.journal.tell(completed, |channel| lane.dead_letters_of(channel).is_some());
        }
        self.tell_of_done();
        if has_some {
            self.intake.journal.notify(!self.intake.acknowledgements.is_empty());
            // The rest is reported before long, whatever else happens.
            self.cx.clock.plan_sweep();
        }
    }

    /// Takes a dead letter in again: for its consumer alone or, if that is not connected any more, for its whole channel.
    #[cold]
    fn deliver_again(&mut self, again: Again) {
        let Again { number, consumer: ProxyKey { channel, proxy }, record, .. } = again;
        let routes = self.cx.lane.snapshot().channel(channel);
        let is_connected = routes.is_some_and(|routes| routes.consumer(proxy).is_some());
        self.restore_event(number, is_connected.then(|| Arc::from([proxy])), &record);
    }

    /// Takes in an event restored from the store.
    fn restore_event(&mut self, number: u64, consumers: Option<Arc<[ProxyId]>>, record: &[u8]) {
        let Some(watch) = NonZeroU64::new(number) else { return };
        let Some(record) = Record::read(record) else {
            log::error!("store: event {number} cannot be read, and is dropped");
            if let Some(link) = &mut self.intake.journal.link {
                let _ = link.messages.send_quietly(ToStore::Completion(Completion::ForAll { watch }));
            }
            return;
        };
        let clock = UtcClock::new(self.cx.clock.now, self.cx.clock.since_1970);
        // Whether it was delivered before is not known.
        let mut pending_event = self.protocols.event_of(&record, (&clock, record.arrived()), true, &mut self.cx);
        (pending_event.watch, pending_event.watch_each, pending_event.only) = (Some(watch), true, consumers);
        self.cx.origins.assign_stored(&mut pending_event, number);
        let admitted = self.cx.lane.restore_event(record.source, pending_event, &self.protocols, self.cx.clock.now);
        if let Admission::AwaitingFilter(mut pending_event, _) = admitted {
            // The event was accepted before; the supplier's remote filters are not asked again.
            pending_event.approved = true;
            self.cx.lane.restore_event(record.source, pending_event, &self.protocols, self.cx.clock.now);
        }
    }
}

impl Worker {
    /// Serves the messages of the store. True if there are more.
    pub(crate) fn serve_store(&mut self) -> bool {
        let Core { intake, .. } = &mut self.core;
        let Some(link) = &intake.journal.link else { return false };
        link.answers.look();
        for _ in 0..Budget::MESSAGES.events {
            match self.core.intake.journal.receive() {
                Some(Received::Answer) => self.core.resume_stored(),
                Some(Received::Completed(watch)) => self.core.note_completed_for_all(watch),
                Some(Received::Again(again)) => self.core.deliver_again(*again),
                None => break,
            }
        }
        self.core.intake.journal.send();
        self.core.intake.journal.link.as_ref().is_some_and(|link| link.answers.waiting() > 0)
    }

    /// Takes in some of the events that the store had when the process began, before any other. False if there are more.
    ///
    /// Events for which there is no memory have to be on disk before more are taken in.
    #[cold]
    pub(crate) fn restore_events(&mut self) -> bool {
        let until = self.core.cx.clock.now + Budget::RESTORED.time;
        while self.core.backlogs.keeps_up_with_backlogs(&self.core.cx)
            && self.core.cx.clock.time() < until
            && let Some(chunk) = self.core.intake.journal.next_restored()
        {
            // In one go: the memory of a thread grows by a page at a time otherwise, with a system call for each.
            drop(black_box(Vec::<u8>::with_capacity(Budget::RESTORED.bytes)));
            chunk.each(|number, consumers, record| {
                self.core.cx.counters.add(Counter::EventsRestored, 1);
                self.core.restore_event(number, consumers, record);
            });
            self.core.process_completions();
            self.core.backlogs.send_errands(&mut self.core.cx);
        }
        !self.core.intake.journal.is_restoring()
    }

    /// Hands in events in their turns, as many as the budget allows before the sockets are looked at again.
    pub(crate) fn serve_queued_events(&mut self) {
        if self.core.cx.lane.queued_events() == 0 {
            return;
        }
        let until = self.core.cx.clock.now + Budget::SCHEDULED.time;
        for _ in 0..Budget::SCHEDULED.events {
            if !self.core.serve_queued_event() {
                return;
            }
            self.core.flush_engine();
            self.answer_all();
            if self.core.read_clock() >= until {
                return;
            }
        }
    }
}
