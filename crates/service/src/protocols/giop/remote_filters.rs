//! Remote filters: clients' objects that say whether an event matches.
//!
//! The engine asks about an event only if its own filters leave that open. The filters of a proxy and of its admin are called one after
//! another until the verdict is clear, each within the `FilterTimeout` of the proxy and the rest of the event's lifetime. A filter that
//! does not answer in time, or fails, counts as saying no.
//!
//! Meanwhile, on the consumers' side only the outbox waits; on the suppliers' side, the events of the same proxy ([`crate::lane::intake`]).

use core::time::Duration;
use std::sync::Arc;

use engine::{ConsumerRoute, Delivery, Event, OutboxId, Outcome, Peer, ProxyKey, RemoteFilterGroups, Time};
use hashbrown::HashMap;

use crate::counters::Counter;
use crate::lane::context::Context;
use crate::lane::intake::FilterVerdict;
use crate::lane::io::slots::{Slots, Token};
use crate::lane::run::Core;
use crate::protocols::giop::calls::{Ask, Asker, UnderWay};
use crate::protocols::giop::outgoing::Outgoings;
use crate::protocols::giop::pull_consumers::{Due, Given, Waiter};
use crate::protocols::giop::replies::Verdict;
use crate::protocols::giop::unused::Around;
use crate::protocols::tempo::form::FORM_TEMPO;
use corba::event::{self, FORM_STRUCTURED, Pulled};

/// Subject of a remote filter call.
enum Subject {
    /// An event on its way to a consumer or, if it was pulled, to a client.
    Delivery { delivery: Delivery, events: Vec<Arc<Event>>, waiter: Option<Waiter> },
    /// The first waiting event of a proxy.
    Admission { source: ProxyKey },
}

/// An event about which remote filters are being asked.
struct FilterCall {
    subject: Subject,
    /// Groups of filters to ask.
    groups: [Option<Arc<[Peer]>>; 2],
    /// Whether each group must have a filter that says yes; otherwise one group suffices.
    all: bool,
    /// The filter being asked: its group, and its place there.
    group: usize,
    at: usize,
    failed: bool,
    /// Time limit of each filter, and the end of the event's lifetime.
    limit: Duration,
    until: Option<Time>,
    connect_timeout: Duration,
    under_way: Option<(UnderWay, Time)>,
}

/// All events about which remote filters are being asked.
#[derive(Default)]
pub(crate) struct OpenFilterCalls {
    all: Slots<FilterCall>,
    /// Progress of the search for overdue calls.
    looked_at: Around,
    open: usize,
    /// The call of each outbox that is pushed to, and whether the outbox waits for it.
    by_outbox: HashMap<OutboxId, (Token, bool)>,
}

impl OpenFilterCalls {
    /// Whether there are none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Whether an outbox has to wait for a call. If so, it is noted as waiting.
    pub(crate) fn wait_for(&mut self, outbox: OutboxId) -> bool {
        // Looked at for each delivery, so the usual case comes first.
        if self.by_outbox.is_empty() {
            return false;
        }
        self.by_outbox.get_mut(&outbox).map(|(_, waits)| *waits = true).is_some()
    }

    fn insert(&mut self, filter_call: FilterCall) -> Token {
        let outbox = match &filter_call.subject {
            Subject::Delivery { delivery, .. } if !delivery.pulled => Some(delivery.outbox),
            _ => None,
        };
        let token = self.all.insert(filter_call);
        self.open += 1;
        if let Some(outbox) = outbox {
            self.by_outbox.insert(outbox, (token, false));
        }
        token
    }

    /// Removes a call, and returns whether its outbox waits for it.
    fn remove(&mut self, token: Token) -> Option<(FilterCall, bool)> {
        let filter_call = self.all.remove(token)?;
        self.open -= 1;
        let waits = match &filter_call.subject {
            Subject::Delivery { delivery, .. } if !delivery.pulled => {
                self.by_outbox.remove(&delivery.outbox).is_some_and(|(_, waits)| waits)
            }
            _ => false,
        };
        Some((filter_call, waits))
    }
}

impl FilterCall {
    fn new(subject: Subject, filter_calls: RemoteFilterGroups, filters: &[Arc<[Peer]>; 2]) -> Self {
        let [proxy, admin] = filters;
        let proxy = (filter_calls.proxy && !proxy.is_empty()).then(|| Arc::clone(proxy));
        let admin = (filter_calls.admin && !admin.is_empty()).then(|| Arc::clone(admin));
        Self {
            subject,
            groups: if proxy.is_some() { [proxy, admin] } else { [admin, None] },
            all: filter_calls.all,
            group: 0,
            at: 0,
            failed: false,
            limit: Duration::ZERO,
            until: None,
            connect_timeout: Duration::ZERO,
            under_way: None,
        }
    }

    /// The filter to ask; `None` if none is left in the group.
    fn peer(&self) -> Option<Peer> {
        self.groups.get(self.group)?.as_ref()?.get(self.at).copied()
    }

    fn has_group(&self, group: usize) -> bool {
        self.groups.get(group).is_some_and(Option::is_some)
    }

    /// Handles the answer of a filter. Returns the verdict if it is clear.
    fn hear(&mut self, yes: bool) -> Option<FilterVerdict> {
        let no = if self.failed { FilterVerdict::Failed } else { FilterVerdict::No };
        if !yes {
            self.at += 1;
            if self.peer().is_some() {
                return None;
            }
        }
        // The verdict of this group is clear.
        if yes != self.all {
            return Some(if yes { FilterVerdict::Yes } else { no });
        }
        self.group += 1;
        self.at = 0;
        match (self.has_group(self.group), yes) {
            (true, _) => None,
            (false, true) => Some(FilterVerdict::Yes),
            (false, false) => Some(no),
        }
    }
}

impl Core {
    /// Asks remote filters about an event on its way to a consumer.
    pub(crate) fn call_filters_for_delivery(
        &mut self,
        delivery: Delivery,
        events: Vec<Arc<Event>>,
        waiter: Option<Waiter>,
    ) {
        let key = delivery.key;
        let until = events.first().filter(|_| !self.cx.lane.keeps_expired()).and_then(|event| end_of(event));
        let Some(filter_calls) = delivery.ask else { return self.hand_on(delivery, events, waiter) };
        let subject = Subject::Delivery { delivery, events, waiter };
        let token = match self.cx.consumer(key) {
            Some(ConsumerRoute { remote_filters, settings, .. }) => {
                let mut filter_call = FilterCall::new(subject, filter_calls, remote_filters);
                filter_call.limit = settings.filter_timeout;
                filter_call.connect_timeout = settings.connect_timeout;
                filter_call.until = until;
                let token = self.protocols.giop.outgoing.filter_calls.insert(filter_call);
                if let Some(wait) = waiter.and_then(|waiter| waiter.wait) {
                    self.protocols.giop.waiting.note_filter_call(wait, token);
                }
                token
            }
            // The consumer is gone; the engine knows how to handle the outcome.
            None => return self.apply_verdict(subject, FilterVerdict::No, false),
        };
        if let Some(filter_verdict) = self.ask_filters(token) {
            self.finish_filter_call(token, filter_verdict);
        }
    }

    /// Asks remote filters about the first waiting event of a proxy. Returns the verdict if it is clear at once.
    pub(crate) fn call_filters_for_admission(
        &mut self,
        source: ProxyKey,
        filter_calls: RemoteFilterGroups,
    ) -> Option<FilterVerdict> {
        let subject = Subject::Admission { source };
        let now = self.cx.clock.now;
        let Some(route) = self.cx.lane.snapshot().supplier(source) else { return Some(FilterVerdict::No) };
        let mut filter_call = FilterCall::new(subject, filter_calls, &route.remote_filters);
        filter_call.limit = route.settings.filter_timeout;
        filter_call.connect_timeout = route.settings.connect_timeout;
        filter_call.until = self
            .intake
            .awaiting_filter
            .first(source)
            .and_then(|first| first.pending_event.timeout)
            .map(|timeout| now + timeout);
        let token = self.protocols.giop.outgoing.filter_calls.insert(filter_call);
        let filter_verdict = self.ask_filters(token)?;
        self.protocols.giop.outgoing.filter_calls.remove(token);
        Some(filter_verdict)
    }

    /// Asks the next filter, unless the verdict is clear.
    fn ask_filters(&mut self, token: Token) -> Option<FilterVerdict> {
        loop {
            let filter_call = self.protocols.giop.outgoing.filter_calls.all.get_mut(token)?;
            // No filter to ask: those that were there are not there any more.
            let Some(peer) = filter_call.peer() else { return Some(FilterVerdict::Yes) };
            let until = self.cx.clock.now + filter_call.limit;
            let until = filter_call.until.map_or(until, |end| end.min(until));
            let result = if until <= self.cx.clock.now {
                Err("the event has expired".into())
            } else {
                self.ask_filter(token, peer)
            };
            let why = match result {
                Ok(under_way) => {
                    self.protocols.giop.outgoing.filter_calls.all.get_mut(token)?.under_way = Some((under_way, until));
                    return None;
                }
                Err(why) => why,
            };
            self.protocols.giop.outgoing.note_filter_failure(peer, &why, &mut self.cx);
            let filter_call = self.protocols.giop.outgoing.filter_calls.all.get_mut(token)?;
            filter_call.failed = true;
            if let Some(filter_verdict) = filter_call.hear(false) {
                return Some(filter_verdict);
            }
        }
    }

    /// Calls `match` or `match_structured` of a remote filter.
    fn ask_filter(&mut self, token: Token, peer: Peer) -> Result<UnderWay, String> {
        let filter_call =
            self.protocols.giop.outgoing.filter_calls.all.get_mut(token).ok_or("there is no such question")?;
        let connect_timeout = filter_call.connect_timeout;
        self.cx.counters.add(Counter::RemoteFilterCalls, 1);
        match &mut filter_call.subject {
            Subject::Delivery { events, .. } => {
                let events = core::mem::take(events);
                let result = events.first().ok_or_else(|| "there is no event".to_owned());
                let result = result.and_then(|event| self.ask_about(token, peer, event, connect_timeout));
                if let Some(FilterCall { subject: Subject::Delivery { events: place, .. }, .. }) =
                    self.protocols.giop.outgoing.filter_calls.all.get_mut(token)
                {
                    *place = events;
                }
                result
            }
            Subject::Admission { source } => {
                let source = *source;
                let first = self.intake.awaiting_filter.next(source).ok_or("there is no event")?;
                let result = self.ask_about(token, peer, &first.pending_event, connect_timeout);
                self.intake.awaiting_filter.put_back(source, first);
                result
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
                let tag = self.protocols.tempo.forms.write_structured(event, &mut structured);
                (FORM_STRUCTURED, tag, structured.as_slice())
            }
            form => (form, event.tag, event.bytes.as_slice()),
        };
        let (operation, pulled) = match form {
            FORM_STRUCTURED => ("match_structured", Pulled::Structured),
            _ => ("match", Pulled::Any),
        };
        let endian = event::encoding_of(tag).endian;
        let ask = Ask { operation, asker: Asker::FilterCall(token), endian, connect_timeout };
        let event = (form, tag, bytes);
        self.protocols.giop.outgoing.ask(
            peer,
            &ask,
            |arguments| event::write_one(event, pulled, arguments).map_err(|error| error.to_string()),
            &mut self.cx,
        )
    }

    /// Handles the end of a filter's call: its answer, or its failure.
    pub(crate) fn conclude_filter_call(&mut self, token: Token, verdict: Verdict) {
        let Some(filter_call) = self.protocols.giop.outgoing.filter_calls.all.get_mut(token) else { return };
        filter_call.under_way = None;
        let Some(peer) = filter_call.peer() else { return };
        let goes_on = match &verdict {
            Verdict::Forward(to) => self.protocols.giop.outgoing.follow(peer, to),
            Verdict::Lost(_) => self.protocols.giop.outgoing.ask_elsewhere(peer, &mut self.cx),
            _ => false,
        };
        if goes_on {
            let filter_verdict = self.ask_filters(token);
            return filter_verdict.map_or((), |filter_verdict| self.finish_filter_call(token, filter_verdict));
        }
        let answer = match verdict {
            Verdict::Done => {
                self.protocols.giop.outgoing.scratch.answer.reader().bool().map_err(|error| error.to_string())
            }
            verdict => Err(verdict.to_string()),
        };
        match &answer {
            Ok(_) => {
                if let Some(address) = self.protocols.giop.outgoing.note_heard(peer) {
                    self.cx.log(log::Level::Info, || format!("remote filter {} answers again", address.name));
                }
            }
            Err(why) => self.protocols.giop.outgoing.note_filter_failure(peer, why, &mut self.cx),
        }
        self.go_on_asking(token, answer.ok());
    }

    /// Handles the answer of a filter, and asks the next if the verdict is not clear.
    fn go_on_asking(&mut self, token: Token, answer: Option<bool>) {
        let Some(filter_call) = self.protocols.giop.outgoing.filter_calls.all.get_mut(token) else { return };
        filter_call.failed |= answer.is_none();
        let filter_verdict = filter_call.hear(answer == Some(true)).or_else(|| self.ask_filters(token));
        if let Some(filter_verdict) = filter_verdict {
            self.finish_filter_call(token, filter_verdict);
        }
    }

    /// Ends overdue calls, of those in the next places.
    pub(crate) fn end_late_filter_calls(&mut self) {
        let now = self.cx.clock.now;
        let is_late = |filter_call: &FilterCall| filter_call.under_way.is_some_and(|(_, until)| until <= now);
        let OpenFilterCalls { all, looked_at, .. } = &mut self.protocols.giop.outgoing.filter_calls;
        let places = looked_at.next(all.places());
        let late = all.range_mut(places).filter(|(_, filter_call)| is_late(filter_call));
        let late: Vec<Token> = late.map(|(token, _)| token).collect();
        for token in late {
            let Some(filter_call) = self.protocols.giop.outgoing.filter_calls.all.get_mut(token) else { continue };
            if let Some((under_way, _)) = filter_call.under_way.take() {
                let peer = filter_call.peer();
                self.protocols.giop.outgoing.stop_asking(under_way);
                if let Some(peer) = peer {
                    self.protocols.giop.outgoing.note_filter_failure(peer, "no reply in time", &mut self.cx);
                }
            }
            self.go_on_asking(token, None);
        }
    }

    /// Applies the verdict.
    fn finish_filter_call(&mut self, token: Token, filter_verdict: FilterVerdict) {
        if let Some((filter_call, waits)) = self.protocols.giop.outgoing.filter_calls.remove(token) {
            self.apply_verdict(filter_call.subject, filter_verdict, waits);
        }
    }

    fn apply_verdict(&mut self, subject: Subject, filter_verdict: FilterVerdict, outbox_waits: bool) {
        match subject {
            Subject::Admission { source } => {
                self.apply_filter_verdict(source, filter_verdict);
                self.deliver();
            }
            Subject::Delivery { delivery, events, waiter } => {
                let (outbox, serial) = (delivery.outbox, delivery.serial);
                let outcome = match filter_verdict {
                    FilterVerdict::Yes => None,
                    FilterVerdict::No => Some(Outcome::Filtered),
                    FilterVerdict::Failed => Some(Outcome::FilterFailed),
                };
                if let Some(outcome) = outcome {
                    self.cx.recycle(events);
                    self.cx.lane.handle_outcome(outbox, serial, outcome, self.cx.clock.now);
                    if let Some(waiter) = waiter {
                        self.protocols.giop.wait_again(waiter, &mut self.cx);
                    }
                } else {
                    self.hand_on(delivery, events, waiter);
                }
                if outbox_waits {
                    self.cx.lane.resume_outbox(outbox, self.cx.clock.now);
                }
            }
        }
    }

    /// Hands on events that the filters have passed.
    fn hand_on(&mut self, delivery: Delivery, mut events: Vec<Arc<Event>>, waiter: Option<Waiter>) {
        match waiter {
            Some(waiter) => {
                self.protocols.giop.due.push_back(Due::Events { waiter, given: Given::of(&delivery), events })
            }
            None => {
                self.send(&delivery, &mut events);
                self.cx.recycle(events);
            }
        }
    }
}

impl Outgoings {
    /// Counts a filter's failure, and logs it once per episode.
    fn note_filter_failure(&mut self, peer: Peer, why: &str, cx: &mut Context) {
        cx.counters.add(Counter::RemoteFilterFailures, 1);
        self.return_home(peer);
        if let Some(address) = self.note_failing(peer) {
            let name = &address.name;
            cx.log(log::Level::Warn, || {
                format!("remote filter {name} fails: {why}; events it would decide on do not pass")
            });
        }
    }

    /// Cancels the filter call of an outbox with withdrawn events.
    pub(crate) fn withdraw_filter_call(&mut self, outbox: OutboxId, cx: &mut Context) {
        if let Some((token, _)) = self.filter_calls.by_outbox.get(&outbox).copied() {
            self.cancel_filter_call(token, cx);
        }
    }

    /// Cancels a filter call.
    pub(crate) fn cancel_filter_call(&mut self, token: Token, cx: &mut Context) -> Option<(OutboxId, u32)> {
        let (filter_call, _) = self.filter_calls.remove(token)?;
        if let Some((under_way, _)) = filter_call.under_way {
            self.stop_asking(under_way);
        }
        let Subject::Delivery { delivery, events, .. } = filter_call.subject else { return None };
        cx.recycle(events);
        Some((delivery.outbox, delivery.serial))
    }
}

/// When an event expires by its own `Timeout`.
fn end_of(event: &Event) -> Option<Time> {
    event.timeout.map(|timeout| event.arrived + event.left_of(timeout))
}
