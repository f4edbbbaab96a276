//! Events on their way in: from the bytes of a request or a reply to the engine, and what their supplier is owed.
//!
//! A request with several events is answered once, when nothing speaks against it any more: not before there is room
//! for each of its events again, and not before the remote filters on the suppliers' side have been asked about each.

use core::time::Duration;
use std::collections::VecDeque;

use engine::{Admission, Draft, ProxyKey, Questions, Time};
use giop::exception::{Kind, SystemException};
use hashbrown::HashMap;

use crate::counters::Counter;
use crate::doors::giop::remote_filters::Ruling;
use crate::lane::io::slots::Token;
use crate::lane::run::{Answer, Core};
use corba::refused_event;

/// Who is to be told that events were taken in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OwedTo {
    /// A client that pushed them. The size is that of its request.
    Client { connection: Token, answer: Answer, bytes: usize },
    /// A proxy that pulled them.
    Puller(Token),
    /// The lane on whose connection they were pushed.
    Guest(Token),
    /// The lane that handed the event over.
    Peer(Token),
}

/// What somebody is owed when a number of things have come about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owed {
    pub(crate) to: OwedTo,
    /// How many.
    pub(crate) outstanding: u32,
    /// What he is told instead of that it was done.
    pub(crate) refusal: Option<SystemException>,
}

/// The events of one request being taken in, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Submission {
    pub(crate) source: ProxyKey,
    to: OwedTo,
    owed: Option<Token>,
    /// Why an event was not taken. Those after it are not looked at.
    pub(crate) refusal: Option<SystemException>,
    /// The Real-time CORBA priority that their supplier told.
    pub(crate) priority: Option<i16>,
}

impl Submission {
    pub(crate) const fn new(source: ProxyKey, to: OwedTo, priority: Option<i16>) -> Self {
        Self { source, to, owed: None, refusal: None, priority }
    }

    /// Who is to be told.
    pub(crate) const fn to(&self) -> OwedTo {
        self.to
    }

    /// Whether an event was not taken.
    pub(crate) const fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }
}

impl Core {
    /// Hands an event to the engine, or has it wait: for its turn, or behind those of its proxy about which remote filters
    /// are asked.
    pub(crate) fn admit(&mut self, submission: &mut Submission, draft: Draft) {
        let source = submission.source;
        if self.lane.takes_turns() {
            let owed = self.owe(submission);
            return self.lane.queue_turn(source, draft, owed.to_bits(), self.clock.now);
        }
        if self.intake.undecided.is_waiting(source) {
            if !self.intake.undecided.has_room(source, &draft) {
                self.lane.abandon_event(draft);
                self.counters.add(Counter::UndecidedRefused, 1);
                submission.refusal = Some(SystemException::new(Kind::ImpLimit, 0));
                return;
            }
            let owed = self.owe(submission);
            return self.intake.undecided.wait(source, draft, owed);
        }
        match self.lane.handle_event(source, draft, &self.doors.giop.forms, self.clock.now) {
            Admission::Accepted { .. } => {}
            Admission::Held(ticket) => {
                let owed = self.owe(submission);
                self.intake.held.insert(ticket, owed);
            }
            Admission::Refused(refusal) => submission.refusal = Some(refused_event(&refusal)),
            Admission::Undecided(draft, questions) => {
                let owed = self.owe(submission);
                self.intake.undecided.wait(source, draft, owed);
                if let Some(ruling) = self.question_admission(source, questions) {
                    self.rule_on_undecided(source, ruling);
                }
            }
        }
    }

    /// Notes that one thing more is to come about before the supplier is told.
    fn owe(&mut self, submission: &mut Submission) -> Token {
        if let Some(token) = submission.owed
            && let Some(owed) = self.intake.owed.get_mut(token)
        {
            owed.outstanding += 1;
            return token;
        }
        // One of them is that all events of the request have been looked at.
        let token = self.intake.owed.insert(Owed { to: submission.to, outstanding: 2, refusal: None });
        submission.owed = Some(token);
        token
    }

    /// All events of a request have been looked at. True if its supplier can be told that they were taken in, false if he
    /// will be told later.
    ///
    /// # Errors
    /// Says what he is told instead.
    pub(crate) fn finish_submission(&mut self, submission: &Submission) -> Result<bool, SystemException> {
        let Some(token) = submission.owed else { return submission.refusal.map_or(Ok(true), Err) };
        if let Some(refusal) = submission.refusal {
            self.intake.owed.remove(token);
            return Err(refusal);
        }
        let Some(owed) = self.intake.owed.get_mut(token) else { return Ok(true) };
        owed.outstanding -= 1;
        if owed.outstanding > 0 {
            return Ok(false);
        }
        let refusal = owed.refusal;
        self.intake.owed.remove(token);
        refusal.map_or(Ok(true), Err)
    }

    /// Something has come about for which a supplier's reply was withheld.
    pub(crate) fn pay(&mut self, token: Token) {
        let Some(owed) = self.intake.owed.get_mut(token) else { return };
        owed.outstanding -= 1;
        if owed.outstanding > 0 {
            return;
        }
        let Some(owed) = self.intake.owed.remove(token) else { return };
        match owed.to {
            OwedTo::Client { .. } | OwedTo::Guest(_) => self.intake.released.push_back(owed),
            OwedTo::Puller(puller) => self.resume_polling(puller),
            OwedTo::Peer(held) => self.pay_peer(held),
        }
    }

    /// The same, but he is told that an event was refused.
    pub(crate) fn pay_with_refusal(&mut self, token: Token, refusal: SystemException) {
        if let Some(owed) = self.intake.owed.get_mut(token) {
            owed.refusal = Some(refusal);
        }
        self.pay(token);
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
        while let Some(source) = self.intake.undecided.again.pop_front() {
            self.look_at_undecided(source, until);
            if self.clock.time() >= until {
                return;
            }
        }
    }

    /// Looks at the events of a proxy that wait until filters have to be asked about one of them: about the others nobody has to be
    /// asked, and they follow at once, as long as there is time for it.
    fn look_at_undecided(&mut self, source: ProxyKey, until: Time) {
        while let Some(Undecided { draft, owed }) = self.intake.undecided.next(source) {
            if let Some((draft, questions)) = self.admit_undecided(source, draft, owed) {
                self.intake.undecided.put_back(source, Undecided { draft, owed });
                match self.question_admission(source, questions) {
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
        self.pay(owed);
    }

    /// Hands an event to the engine that has waited. It comes back if remote filters have to be asked about it.
    pub(crate) fn admit_undecided(
        &mut self,
        source: ProxyKey,
        draft: Draft,
        owed: Token,
    ) -> Option<(Draft, Questions)> {
        match self.lane.handle_event(source, draft, &self.doors.giop.forms, self.clock.now) {
            Admission::Accepted { .. } => self.pay(owed),
            Admission::Held(ticket) => {
                self.intake.held.insert(ticket, owed);
            }
            Admission::Refused(refusal) => self.pay_with_refusal(owed, refused_event(&refusal)),
            Admission::Undecided(draft, questions) => return Some((draft, questions)),
        }
        None
    }
}

/// How long events are looked at in a round that waited behind others on which remote filters have ruled.
const LOOKING_FOR: Duration = Duration::from_micros(250);
/// Events of one proxy that may wait for remote filters, and bytes of them.
const UNDECIDED_MAX: usize = 1024;
const UNDECIDED_BYTES_MAX: usize = 16 << 20;

/// An event that waits for remote filters, or behind one that does.
pub(crate) struct Undecided {
    pub(crate) draft: Draft,
    owed: Token,
}

/// All such events, by the proxy through which they came.
#[derive(Default)]
pub(crate) struct UndecidedEvents {
    lines: HashMap<ProxyKey, Line>,
    /// Proxies whose events wait for nobody but for the next round.
    again: VecDeque<ProxyKey>,
}

#[derive(Default)]
struct Line {
    events: VecDeque<Undecided>,
    bytes: usize,
}

impl UndecidedEvents {
    pub(crate) fn is_waiting(&self, source: ProxyKey) -> bool {
        self.lines.get(&source).is_some_and(|line| !line.events.is_empty())
    }

    pub(crate) fn has_room(&self, source: ProxyKey, draft: &Draft) -> bool {
        self.lines.get(&source).is_none_or(|line| {
            line.events.len() < UNDECIDED_MAX && line.bytes.saturating_add(draft.bytes.len()) <= UNDECIDED_BYTES_MAX
        })
    }

    pub(crate) fn wait(&mut self, source: ProxyKey, draft: Draft, owed: Token) {
        let line = self.lines.entry(source).or_default();
        line.bytes += draft.bytes.len();
        line.events.push_back(Undecided { draft, owed });
    }

    /// There may be more of a proxy's events about which nobody has to be asked.
    fn look_again(&mut self, source: ProxyKey) {
        if self.is_waiting(source) {
            self.again.push_back(source);
        }
    }

    /// Whether there are events that wait for nobody.
    pub(crate) fn has_to_go_on(&self) -> bool {
        !self.again.is_empty()
    }

    /// The first event of a proxy.
    pub(crate) fn first(&self, source: ProxyKey) -> Option<&Undecided> {
        self.lines.get(&source)?.events.front()
    }

    /// Takes out the first event of a proxy.
    pub(crate) fn next(&mut self, source: ProxyKey) -> Option<Undecided> {
        let line = self.lines.get_mut(&source)?;
        let first = line.events.pop_front()?;
        line.bytes = line.bytes.saturating_sub(first.draft.bytes.len());
        Some(first)
    }

    /// Puts back the event that was taken out last.
    pub(crate) fn put_back(&mut self, source: ProxyKey, first: Undecided) {
        if let Some(line) = self.lines.get_mut(&source) {
            line.bytes += first.draft.bytes.len();
            line.events.push_front(first);
        }
    }

    /// Forgets proxies that are gone and for which nothing waits.
    pub(crate) fn forget_but(&mut self, is_there: impl Fn(ProxyKey) -> bool) {
        self.lines.retain(|key, line| !line.events.is_empty() || is_there(*key));
    }
}
