//! Events on their way in: from a door to the engine, at once, or when filters have been asked about them.

use core::time::Duration;

use core::num::NonZeroU64;
use engine::{Admission, Draft, ProxyKey, Questions, Settled, Time};

use crate::counters::Counter;
use crate::lane::intake::undecided::Undecided;
use crate::lane::intake::{Refused, Ruling, Submission};
use crate::lane::io::slots::Token;
use crate::lane::run::Core;

impl Core {
    /// Hands an event to the engine, or has it wait: until it is kept, for its turn, or behind those of its proxy about which remote
    /// filters are asked.
    pub(crate) fn admit(&mut self, submission: &mut Submission, draft: Draft) {
        let Some(draft) = self.admits_type(submission, draft) else { return };
        let (source, octets) = (submission.source, draft.bytes.len() as u64);
        let Some(mut draft) = self.wait_for_store(submission, draft) else {
            return self.counters.add(Counter::EventBytesIn, octets);
        };
        if let Some(within) = self.lane.acknowledges_within(source) {
            let owed = self.intake.owe(submission);
            self.await_delivery(&mut draft, owed, within);
        }
        if self.lane.takes_turns() {
            let owed = self.intake.owe(submission);
            self.lane.queue_turn(source, draft, owed.to_bits(), self.clock.now);
        } else if self.intake.undecided.is_waiting(source) {
            if !self.intake.undecided.has_room(source, &draft) {
                self.lane.abandon_event(draft);
                self.counters.add(Counter::UndecidedRefused, 1);
                return submission.refuse(Refused::TooManyUndecided);
            }
            let owed = self.intake.owe(submission);
            self.intake.undecided.wait(source, draft, owed);
        } else {
            match self.lane.handle_event(source, draft, &self.doors, self.clock.now) {
                Admission::Accepted { .. } => {}
                Admission::Held(ticket) => {
                    let owed = self.intake.owe(submission);
                    self.intake.hold(ticket, owed);
                }
                Admission::Refused(refusal) => return submission.refuse(Refused::ByEngine(refusal)),
                Admission::Undecided(draft, questions) => {
                    let owed = self.intake.owe(submission);
                    self.intake.undecided.wait(source, draft, owed);
                    if let Some(ruling) = self.question_first(source, questions) {
                        self.rule_on_undecided(source, ruling);
                    }
                }
            }
        }
        self.counters.add(Counter::EventBytesIn, octets);
    }

    /// What is owed for an event waits until all consumers have it, for so long at most.
    pub(crate) fn await_delivery(&mut self, draft: &mut Draft, owed: Token, within: Duration) {
        let Self { intake, identity, clock, .. } = self;
        let event: &mut engine::Event = draft;
        let watch = *event.watch.get_or_insert_with(|| intake.acknowledgements.number(identity.thread));
        intake.acknowledgements.wait(watch, owed, clock.now + within);
        clock.plan_sweep();
    }

    /// Notes what the engine tells of an event for which an answer may wait.
    pub(crate) fn note_settled(&mut self, settled: Settled) {
        if let Some(owed) = self.intake.acknowledgements.note(settled, self.identity.thread) {
            self.pay(owed, None);
        }
    }

    /// Nothing more is waited for, for an event.
    pub(crate) fn note_settled_for_all(&mut self, watch: NonZeroU64) {
        if let Some(owed) = self.intake.acknowledgements.end(watch) {
            self.pay(owed, None);
        }
    }

    /// Another lane has done with an event.
    pub(crate) fn note_done_elsewhere(&mut self, watch: NonZeroU64) {
        if let Some(owed) = self.intake.acknowledgements.note_done_elsewhere(watch) {
            self.pay(owed, None);
        }
    }

    /// Sends the answers that have waited for long enough, and notifies other lanes of their events.
    pub(crate) fn sweep_acknowledgements(&mut self) {
        while let Some(owed) = self.intake.acknowledgements.pop_overdue(self.clock.now) {
            self.counters.add(Counter::AcknowledgedEarly, 1);
            self.pay(owed, None);
        }
        self.tell_of_done();
    }

    /// Notifies other lanes that their events are done with here, as far as there is room. The rest follow in the next sweep.
    pub(crate) fn tell_of_done(&mut self) {
        let Self { intake, links, clock, .. } = self;
        if !intake.acknowledgements.is_empty() {
            clock.plan_sweep();
        }
        intake.acknowledgements.tell(|lane, watch| links.lanes.tell_settled(lane, watch));
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
    pub(crate) fn pay(&mut self, owed: Token, refused: Option<Refused>) {
        if let Some(held) = self.intake.pay(owed, refused) {
            self.pay_peer(held);
        }
    }

    /// The remote filters have ruled on the first event of a proxy that waits: it goes on or not, and those behind it are
    /// looked at before the round is over, or in the next ones.
    pub(crate) fn rule_on_undecided(&mut self, source: ProxyKey, ruling: Ruling) {
        self.carry_out(source, ruling);
        self.intake.undecided.look_again(source);
    }

    /// Looks at events that waited behind those on which remote filters have ruled, for a stated time: of one proxy after the other, until
    /// filters have to be asked about one of its events too.
    pub(crate) fn go_on_with_undecided(&mut self) {
        if !self.intake.undecided.has_to_go_on() {
            return;
        }
        let until = self.clock.time() + LOOKING_FOR;
        while let Some(source) = self.intake.undecided.next_again() {
            self.look_at_undecided(source, until);
            if self.clock.time() >= until {
                return;
            }
        }
    }

    /// Looks at the events of a proxy that wait until filters have to be asked about one of them: the others need no filter, and
    /// follow at once, as long as there is time for it.
    #[inline(never)]
    fn look_at_undecided(&mut self, source: ProxyKey, until: Time) {
        while let Some(Undecided { draft, owed }) = self.intake.undecided.next(source) {
            if let Some((draft, questions)) = self.admit_undecided(source, draft, owed) {
                self.intake.undecided.put_back(source, Undecided { draft, owed });
                match self.question_first(source, questions) {
                    Some(ruling) => self.carry_out(source, ruling),
                    None => return,
                }
            }
            if self.clock.time() >= until {
                return self.intake.undecided.look_again(source);
            }
        }
    }

    /// Does with the first event of a proxy what filters have said of it.
    fn carry_out(&mut self, source: ProxyKey, ruling: Ruling) {
        let Some(Undecided { mut draft, owed }) = self.intake.undecided.next(source) else { return };
        draft.approved = true;
        if ruling == Ruling::Yes {
            self.admit_undecided(source, draft, owed);
            return;
        }
        let counter = if ruling == Ruling::No { Counter::FilteredIn } else { Counter::FilteredInFailed };
        self.counters.add(counter, 1);
        self.lane.abandon_event(draft);
        self.pay(owed, None);
    }

    /// Hands an event to the engine that has waited. It comes back if remote filters have to be asked about it.
    pub(crate) fn admit_undecided(
        &mut self,
        source: ProxyKey,
        draft: Draft,
        owed: Token,
    ) -> Option<(Draft, Questions)> {
        match self.lane.handle_event(source, draft, &self.doors, self.clock.now) {
            Admission::Accepted { .. } => self.pay(owed, None),
            Admission::Held(ticket) => {
                self.intake.hold(ticket, owed);
            }
            Admission::Refused(refusal) => self.pay(owed, Some(Refused::ByEngine(refusal))),
            Admission::Undecided(draft, questions) => return Some((draft, questions)),
        }
        None
    }
}

/// How long events are looked at in a round that waited behind others on which remote filters have ruled.
const LOOKING_FOR: Duration = Duration::from_micros(250);
