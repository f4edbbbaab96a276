//! Remote filters: objects of clients that say whether an event matches.
//!
//! The engine asks about an event only where its own filters leave that open. The filters of a proxy and of its admin are
//! asked one after another until it is decided, each within the `FilterTimeout` of the proxy and what is left of the
//! event's lifetime. One that does not answer in time or fails counts as one that says no.
//!
//! On the consumers' side only the outbox waits meanwhile; on the suppliers' side the events that come through the same
//! proxy ([`crate::lane::intake`]).

use core::time::Duration;
use std::sync::Arc;

use engine::{ConsumerRoute, Delivery, Event, OutboxId, Outcome, Peer, ProxyKey, Questions, Time};
use hashbrown::HashMap;

use crate::counters::Counter;
use crate::doors::giop::lane_calls::{Ask, Asker, UnderWay};
use crate::doors::giop::pull_consumers::{Due, Waiter};
use crate::doors::giop::replies::Verdict;
use crate::doors::giop::unused::Around;
use crate::doors::tempo::form::FORM_TEMPO;
use crate::lane::intake::Ruling;
use crate::lane::io::slots::{Slots, Token};
use crate::lane::run::Core;
use corba::event::{self, FORM_STRUCTURED, Pulled};

/// What they are asked about.
enum Subject {
    /// An event that is on its way to a consumer, or, if it was pulled, to a client.
    Delivery { delivery: Delivery, events: Vec<Arc<Event>>, waiter: Option<Waiter> },
    /// The first of the events of a proxy that wait.
    Admission { source: ProxyKey },
}

/// An event about which remote filters are being asked.
struct Question {
    subject: Subject,
    /// Those to ask.
    groups: [Option<Arc<[Peer]>>; 2],
    /// Whether all groups must have one that says yes; else one group suffices.
    all: bool,
    /// The filter that is being asked: which group, and which in it.
    group: usize,
    at: usize,
    failed: bool,
    /// How long each may take, and until when the event is of use.
    limit: Duration,
    until: Option<Time>,
    connect_timeout: Duration,
    under_way: Option<(UnderWay, Time)>,
}

/// All events about which remote filters are being asked.
#[derive(Default)]
pub(crate) struct QuestionsOpen {
    all: Slots<Question>,
    /// Up to where those were looked at that may have had their time.
    looked_at: Around,
    open: usize,
    /// The one of each outbox that is pushed to, and whether the outbox waits for it.
    by_outbox: HashMap<OutboxId, (Token, bool)>,
}

impl QuestionsOpen {
    /// Whether there are none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Whether an outbox has to wait for one. It is noted as waiting then.
    pub(crate) fn wait_for(&mut self, outbox: OutboxId) -> bool {
        // Looked at for each delivery, so the usual case comes first.
        if self.by_outbox.is_empty() {
            return false;
        }
        self.by_outbox.get_mut(&outbox).map(|(_, waits)| *waits = true).is_some()
    }

    fn insert(&mut self, question: Question) -> Token {
        let outbox = match &question.subject {
            Subject::Delivery { delivery, .. } if !delivery.pulled => Some(delivery.outbox),
            _ => None,
        };
        let token = self.all.insert(question);
        self.open += 1;
        if let Some(outbox) = outbox {
            self.by_outbox.insert(outbox, (token, false));
        }
        token
    }

    /// Takes one out, and says whether its outbox waits for it.
    fn remove(&mut self, token: Token) -> Option<(Question, bool)> {
        let question = self.all.remove(token)?;
        self.open -= 1;
        let waits = match &question.subject {
            Subject::Delivery { delivery, .. } if !delivery.pulled => {
                self.by_outbox.remove(&delivery.outbox).is_some_and(|(_, waits)| waits)
            }
            _ => false,
        };
        Some((question, waits))
    }
}

impl Question {
    fn new(subject: Subject, questions: Questions, filters: &[Arc<[Peer]>; 2]) -> Self {
        let [proxy, admin] = filters;
        let proxy = (questions.proxy && !proxy.is_empty()).then(|| Arc::clone(proxy));
        let admin = (questions.admin && !admin.is_empty()).then(|| Arc::clone(admin));
        Self {
            subject,
            groups: if proxy.is_some() { [proxy, admin] } else { [admin, None] },
            all: questions.all,
            group: 0,
            at: 0,
            failed: false,
            limit: Duration::ZERO,
            until: None,
            connect_timeout: Duration::ZERO,
            under_way: None,
        }
    }

    /// The filter that is to be asked; nothing if there is none left in the group.
    fn peer(&self) -> Option<Peer> {
        self.groups.get(self.group)?.as_ref()?.get(self.at).copied()
    }

    fn has_group(&self, group: usize) -> bool {
        self.groups.get(group).is_some_and(Option::is_some)
    }

    /// Takes in the answer of the filter that was asked. Gives the ruling if that decides.
    fn hear(&mut self, yes: bool) -> Option<Ruling> {
        let no = if self.failed { Ruling::Failed } else { Ruling::No };
        if !yes {
            self.at += 1;
            if self.peer().is_some() {
                return None;
            }
        }
        // This group has said what it says.
        if yes != self.all {
            return Some(if yes { Ruling::Yes } else { no });
        }
        self.group += 1;
        self.at = 0;
        match (self.has_group(self.group), yes) {
            (true, _) => None,
            (false, true) => Some(Ruling::Yes),
            (false, false) => Some(no),
        }
    }
}

impl Core {
    /// Has remote filters asked about an event on its way to a consumer.
    pub(crate) fn question_delivery(&mut self, delivery: Delivery, events: Vec<Arc<Event>>, waiter: Option<Waiter>) {
        let key = delivery.key;
        let until = events.first().filter(|_| !self.lane.keeps_expired()).and_then(|event| end_of(event));
        let Some(questions) = delivery.ask else { return self.hand_on(delivery, events, waiter) };
        let subject = Subject::Delivery { delivery, events, waiter };
        let token = match self.consumer(key) {
            Some(ConsumerRoute { remote_filters, settings, .. }) => {
                let mut question = Question::new(subject, questions, remote_filters);
                question.limit = settings.filter_timeout;
                question.connect_timeout = settings.connect_timeout;
                question.until = until;
                let token = self.doors.giop.questions.insert(question);
                if let Some(wait) = waiter.and_then(|waiter| waiter.wait) {
                    self.doors.giop.waiting.note_question(wait, token);
                }
                token
            }
            // It is gone; the engine knows what to make of the outcome.
            None => return self.rule_on(subject, Ruling::No, false),
        };
        if let Some(ruling) = self.ask_filters(token) {
            self.rule(token, ruling);
        }
    }

    /// Has remote filters asked about the first of the events of a proxy that wait. Gives the ruling if it is there
    /// already.
    pub(crate) fn question_admission(&mut self, source: ProxyKey, questions: Questions) -> Option<Ruling> {
        let subject = Subject::Admission { source };
        let now = self.clock.now;
        let Some(route) = self.lane.snapshot().supplier(source) else { return Some(Ruling::No) };
        let mut question = Question::new(subject, questions, &route.remote_filters);
        question.limit = route.settings.filter_timeout;
        question.connect_timeout = route.settings.connect_timeout;
        question.until =
            self.intake.undecided.first(source).and_then(|first| first.draft.timeout).map(|timeout| now + timeout);
        let token = self.doors.giop.questions.insert(question);
        let ruling = self.ask_filters(token)?;
        self.doors.giop.questions.remove(token);
        Some(ruling)
    }

    /// Asks the next filter, unless it is decided.
    fn ask_filters(&mut self, token: Token) -> Option<Ruling> {
        loop {
            let question = self.doors.giop.questions.all.get_mut(token)?;
            // No filter to ask: those that were there are not there any more.
            let Some(peer) = question.peer() else { return Some(Ruling::Yes) };
            let until = self.clock.now + question.limit;
            let until = question.until.map_or(until, |end| end.min(until));
            let asked = if until <= self.clock.now {
                Err("the event has expired".into())
            } else {
                self.ask_filter(token, peer)
            };
            let why = match asked {
                Ok(under_way) => {
                    self.doors.giop.questions.all.get_mut(token)?.under_way = Some((under_way, until));
                    return None;
                }
                Err(why) => why,
            };
            self.note_filter_failure(peer, &why);
            let question = self.doors.giop.questions.all.get_mut(token)?;
            question.failed = true;
            if let Some(ruling) = question.hear(false) {
                return Some(ruling);
            }
        }
    }

    /// Calls `match` or `match_structured` of a remote filter.
    fn ask_filter(&mut self, token: Token, peer: Peer) -> Result<UnderWay, String> {
        let question = self.doors.giop.questions.all.get_mut(token).ok_or("there is no such question")?;
        let connect_timeout = question.connect_timeout;
        self.counters.add(Counter::RemoteFilterCalls, 1);
        match &mut question.subject {
            Subject::Delivery { events, .. } => {
                let events = core::mem::take(events);
                let asked = events.first().ok_or_else(|| "there is no event".to_owned());
                let asked = asked.and_then(|event| self.ask_about(token, peer, event, connect_timeout));
                if let Some(Question { subject: Subject::Delivery { events: place, .. }, .. }) =
                    self.doors.giop.questions.all.get_mut(token)
                {
                    *place = events;
                }
                asked
            }
            Subject::Admission { source } => {
                let source = *source;
                let first = self.intake.undecided.next(source).ok_or("there is no event")?;
                let asked = self.ask_about(token, peer, &first.draft, connect_timeout);
                self.intake.undecided.put_back(source, first);
                asked
            }
        }
    }

    fn ask_about(
        &mut self,
        token: Token,
        peer: Peer,
        event: &Event,
        connect_timeout: Duration,
    ) -> Result<UnderWay, String> {
        let mut structured = Vec::new();
        let (form, tag, bytes) = match event.form {
            FORM_TEMPO => {
                let tag = self.doors.tempo_forms.write_structured(event, &mut structured);
                (FORM_STRUCTURED, tag, structured.as_slice())
            }
            form => (form, event.tag, event.bytes.as_slice()),
        };
        let (operation, pulled) = match form {
            FORM_STRUCTURED => ("match_structured", Pulled::Structured),
            _ => ("match", Pulled::Any),
        };
        let endian = event::encoding_of(tag).endian;
        let ask = Ask { operation, asker: Asker::Question(token), endian, connect_timeout };
        let event = (form, tag, bytes);
        self.ask(peer, &ask, |arguments| event::write_one(event, pulled, arguments).map_err(|error| error.to_string()))
    }

    /// A remote filter has answered, or will not.
    pub(crate) fn conclude_question(&mut self, token: Token, verdict: Verdict) {
        let Some(question) = self.doors.giop.questions.all.get_mut(token) else { return };
        question.under_way = None;
        let Some(peer) = question.peer() else { return };
        let goes_on = match &verdict {
            Verdict::Forward(to) => self.follow(peer, to),
            Verdict::Lost(_) => self.ask_elsewhere(peer),
            _ => false,
        };
        if goes_on {
            let ruling = self.ask_filters(token);
            return ruling.map_or((), |ruling| self.rule(token, ruling));
        }
        let answer = match verdict {
            Verdict::Done => self.doors.giop.outgoing.scratch.answer.reader().bool().map_err(|error| error.to_string()),
            verdict => Err(verdict.to_string()),
        };
        match &answer {
            Ok(_) => {
                if let Some(address) = self.note_heard(peer) {
                    self.log(log::Level::Info, || format!("remote filter {} answers again", address.name));
                }
            }
            Err(why) => self.note_filter_failure(peer, why),
        }
        self.go_on_asking(token, answer.ok());
    }

    /// Counts it, and logs it once per episode.
    fn note_filter_failure(&mut self, peer: Peer, why: &str) {
        self.counters.add(Counter::RemoteFilterFailures, 1);
        self.return_home(peer);
        if let Some(address) = self.note_failing(peer) {
            let name = &address.name;
            self.log(log::Level::Warn, || {
                format!("remote filter {name} fails: {why}; events it would decide on do not pass")
            });
        }
    }

    /// Takes in what a filter said, and asks the next if that does not decide.
    fn go_on_asking(&mut self, token: Token, answer: Option<bool>) {
        let Some(question) = self.doors.giop.questions.all.get_mut(token) else { return };
        question.failed |= answer.is_none();
        let ruling = question.hear(answer == Some(true)).or_else(|| self.ask_filters(token));
        if let Some(ruling) = ruling {
            self.rule(token, ruling);
        }
    }

    /// Gives up waiting for remote filters that have had their time, of those in the next places.
    pub(crate) fn end_late_questions(&mut self) {
        let now = self.clock.now;
        let is_late = |question: &Question| question.under_way.is_some_and(|(_, until)| until <= now);
        let QuestionsOpen { all, looked_at, .. } = &mut self.doors.giop.questions;
        let places = looked_at.next(all.places());
        let late = all.piece_mut(places).filter(|(_, question)| is_late(question));
        let late: Vec<Token> = late.map(|(token, _)| token).collect();
        for token in late {
            let Some(question) = self.doors.giop.questions.all.get_mut(token) else { continue };
            if let Some((under_way, _)) = question.under_way.take() {
                let peer = question.peer();
                self.stop_asking(under_way);
                if let Some(peer) = peer {
                    self.note_filter_failure(peer, "no reply in time");
                }
            }
            self.go_on_asking(token, None);
        }
    }

    /// It is decided.
    fn rule(&mut self, token: Token, ruling: Ruling) {
        if let Some((question, waits)) = self.doors.giop.questions.remove(token) {
            self.rule_on(question.subject, ruling, waits);
        }
    }

    fn rule_on(&mut self, subject: Subject, ruling: Ruling, outbox_waits: bool) {
        match subject {
            Subject::Admission { source } => {
                self.rule_on_undecided(source, ruling);
                self.deliver();
            }
            Subject::Delivery { delivery, events, waiter } => {
                let (outbox, serial) = (delivery.outbox, delivery.serial);
                let outcome = match ruling {
                    Ruling::Yes => None,
                    Ruling::No => Some(Outcome::Filtered),
                    Ruling::Failed => Some(Outcome::FilterFailed),
                };
                if let Some(outcome) = outcome {
                    self.recycle(events);
                    self.lane.handle_outcome(outbox, serial, outcome, self.clock.now);
                    if let Some(waiter) = waiter {
                        self.wait_again(waiter);
                    }
                } else {
                    self.hand_on(delivery, events, waiter);
                }
                if outbox_waits {
                    self.lane.resume_outbox(outbox, self.clock.now);
                }
            }
        }
    }

    /// What was asked about may go on.
    fn hand_on(&mut self, delivery: Delivery, mut events: Vec<Arc<Event>>, waiter: Option<Waiter>) {
        let Delivery { outbox, serial, want, .. } = delivery;
        match waiter {
            Some(waiter) => self.doors.giop.due.push_back(Due::Events { waiter, outbox, serial, want, events }),
            None => {
                self.send(&delivery, &mut events);
                self.recycle(events);
            }
        }
    }

    /// What an outbox had on its way is put back: nothing need be asked about it.
    pub(crate) fn withdraw_question(&mut self, outbox: OutboxId) {
        if let Some((token, _)) = self.doors.giop.questions.by_outbox.get(&outbox).copied() {
            self.cancel_question(token);
        }
    }

    /// What filters say of an event is not waited for any more.
    pub(crate) fn cancel_question(&mut self, token: Token) -> Option<(OutboxId, u32)> {
        let (question, _) = self.doors.giop.questions.remove(token)?;
        if let Some((under_way, _)) = question.under_way {
            self.stop_asking(under_way);
        }
        let Subject::Delivery { delivery, events, .. } = question.subject else { return None };
        self.recycle(events);
        Some((delivery.outbox, delivery.serial))
    }
}

/// When an event expires by what it says itself.
fn end_of(event: &Event) -> Option<Time> {
    event.timeout.map(|timeout| event.arrived + event.left_of(timeout))
}
