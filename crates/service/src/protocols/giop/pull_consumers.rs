//! Pull consumers: clients that ask their proxy for events.
//!
//! `try_pull…` is answered at once; `pull…` when there is an event, while the lane and the other requests on the connection go on. Requests
//! at one proxy are served in order. An event counts as delivered when the socket has taken the reply; if the client is gone before that,
//! it is put back for the next request.

use std::sync::Arc;

use engine::{Activity, Correlated, Delivery, Event, Form, OutboxId, Outcome, OutputForm, ProxyKey, Snapshot};
use giop::exception::{Kind, SystemException};
use giop::framing::Message;
use giop::message::{ReplyStatus, Request};

use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::io::slots::Token;
use crate::lane::run::Core;
use crate::protocols::giop::Protocol;
use crate::protocols::giop::callers::Caller;
use crate::protocols::giop::claims::{Answer, answer_exception};
use crate::protocols::giop::replies::DISCONNECTED;
use crate::protocols::giop::waiting_pulls::Left;
use access::{Right, RuleNumber, Why};
use accounts::Account;
use corba::ACCESS_DENIED;
use corba::event::{self, FORM_STRUCTURED, Pulled};
use corba::keys::ObjectKey;
use corba::refused_event;

/// Maximum waiting pulls on one connection; a further one is refused.
const WAITING_MAX: usize = 256;
/// Maximum events in one reply, whatever the client asks for.
const EVENTS_MAX: u32 = 4096;

/// A request for events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pull {
    pub(crate) key: ProxyKey,
    pulled: Pulled,
    /// Whether it is a `try_pull…`, which does not wait.
    tried: bool,
}

/// A client with an unanswered pull.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiter {
    pub(crate) connection: Token,
    pub(crate) answer: Answer,
    pub(crate) pull: Pull,
    /// Maximum events in its reply.
    pub(crate) max: u32,
    /// Whether the engine knows that it waits, and takes it for waiting again if a delivery fails.
    awaited: bool,
    /// The client's wait, if it could not be answered at once.
    pub(crate) wait: Option<Token>,
}

/// Answer due to a client that pulls.
pub(crate) enum Due {
    /// Events for the client.
    Events { waiter: Waiter, given: Given, events: Vec<Arc<Event>> },
    /// Look for other events: these were not for the client.
    Again(Waiter),
    /// The client's proxy is gone.
    Disconnected(Waiter),
}

/// A delivery whose events are for the client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given {
    outbox: OutboxId,
    serial: u32,
    output_form: OutputForm,
    correlated: Option<Correlated>,
}

impl Given {
    pub(crate) const fn of(delivery: &Delivery) -> Self {
        let Delivery { outbox, serial, output_form, correlated, .. } = *delivery;
        Self { outbox, serial, output_form, correlated }
    }
}

impl Due {
    pub(crate) const fn waiter(&self) -> &Waiter {
        match self {
            Self::Events { waiter, .. } | Self::Again(waiter) | Self::Disconnected(waiter) => waiter,
        }
    }
}

/// A reply with events that the socket has yet to take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) outbox: OutboxId,
    pub(crate) serial: u32,
    /// Position in the output at which the reply ends: [`crate::lane::io::output::Output::taken`].
    pub(crate) end: u64,
}

impl Core {
    /// Recognises a pull at a connected proxy. Administration answers any other request, and errors.
    pub(crate) fn find_pull(&mut self, request: &Request<'_>) -> Option<Pull> {
        let (pulled, tried) = match request.operation {
            b"try_pull" => (Pulled::Any, true),
            b"pull" => (Pulled::Any, false),
            b"try_pull_structured_event" => (Pulled::Structured, true),
            b"pull_structured_event" => (Pulled::Structured, false),
            b"try_pull_structured_events" => (Pulled::Batch, true),
            b"pull_structured_events" => (Pulled::Batch, false),
            _ => return None,
        };
        let key = self.published.load().giop.proxy(&ObjectKey::parse(request.target.key()?)?)?;
        let route = self.cx.consumer(key)?;
        let takes = if route.batches { Pulled::Batch } else { single(route.form) };
        if !route.pull || takes != pulled {
            return None;
        }
        Some(Pull { key, pulled, tried })
    }

    /// Whether a client may pull from a proxy: it owns the proxy or administers the channel, and may have all events that the proxy gets,
    /// as the client that connected it may. A permitted pull counts as a sign of life.
    pub(crate) fn permit_pull(&mut self, account: &Arc<Account>, key: ProxyKey) -> Result<(), SystemException> {
        if self.access.is_on() {
            self.check_pull(account, key)?;
        }
        if let Some(activity) = self.cx.consumer(key).and_then(|route| route.activity.as_ref()) {
            activity.note(self.cx.clock.now);
        }
        Ok(())
    }

    fn check_pull(&mut self, account: &Arc<Account>, key: ProxyKey) -> Result<(), SystemException> {
        let owner = self.cx.consumer(key).and_then(|route| route.owner.clone());
        let scope = match self.access.may(account, Right::Subscribe, key.channel) {
            Err(scope) => scope,
            Ok(permit) => {
                if !self.access.may_take(account, owner.as_ref(), key.channel) {
                    let scope = self.access.may(account, Right::Administer, key.channel).err();
                    let why = scope.as_ref().map_or(Why::Rule(RuleNumber::NONE), |scope| scope.why(None));
                    let what = "a pull from another's proxy (administer)";
                    self.access.deny(account, Right::Administer, key.channel, (why, &what), &mut self.cx);
                    return Err(ACCESS_DENIED);
                }
                let Some(permit) = permit else { return Ok(()) };
                let of_proxy = self.cx.consumer(key).and_then(|route| route.interest.permitted());
                if of_proxy.is_some_and(|permitted| **permitted == *permit.types()) {
                    return Ok(());
                }
                Arc::clone(permit.scope())
            }
        };
        let what = "a pull (subscribe)";
        self.access.deny(account, Right::Subscribe, key.channel, (scope.why(None), &what), &mut self.cx);
        Err(ACCESS_DENIED)
    }

    /// Answers a pull, or has it wait.
    pub(crate) fn pull(
        &mut self,
        connection: Token,
        message: &Message<'_>,
        request: &Request<'_>,
        caller: &mut Caller,
        answer: Answer,
        pull: Pull,
    ) {
        self.cx.counters.add(Counter::Pulls, 1);
        // No client would get the event.
        if !answer.expected {
            return;
        }
        let mut arguments = request.body(message.bytes, &message.header, caller.speech.chars);
        let max = match pull.pulled {
            Pulled::Batch => arguments.i32(),
            Pulled::Any | Pulled::Structured => Ok(1),
        };
        let Ok(max) = max.and_then(|max| arguments.finish("the arguments of a pull").map(|()| max)) else {
            self.cx.counters.add(Counter::WrongBodies, 1);
            return answer_exception(caller, answer, SystemException::new(Kind::Marshal, 0));
        };
        let Ok(max) = u32::try_from(max) else {
            return answer_exception(caller, answer, SystemException::new(Kind::BadParam, 0));
        };
        let waiter = Waiter { connection, answer, pull, max: max.min(EVENTS_MAX), awaited: false, wait: None };
        if max == 0 {
            // The client asked for no events: there is no need to wait.
            return give_nothing(caller, &waiter);
        }
        self.serve_waiter(caller, waiter);
    }

    fn serve_waiter(&mut self, caller: &mut Caller, waiter: Waiter) {
        let key = waiter.pull.key;
        // Requests that wait already came first.
        let others_wait = self.protocols.giop.waiting.has_line(key);
        // A sequence may have to wait until it is full.
        if waiter.pull.tried || (!others_wait && waiter.pull.pulled != Pulled::Batch) {
            let mut events = self.cx.take_events();
            loop {
                match self.cx.lane.pull(key, waiter.max, &mut events, self.cx.clock.now) {
                    Ok(Some(delivery)) if delivery.ask.is_some() => {
                        return self.call_filters_for_pull(caller, delivery, events, waiter);
                    }
                    Ok(Some(delivery)) => {
                        let given = Given::of(&delivery);
                        if self.protocols.giop.give(caller, &waiter, given, &mut events, &mut self.cx) {
                            return self.cx.recycle(events);
                        }
                        // The events cannot be translated for the client, and are dropped; there may be others.
                    }
                    Ok(None) => break,
                    Err(refusal) => {
                        self.cx.recycle(events);
                        return answer_exception(caller, waiter.answer, refused_event(&refusal));
                    }
                }
            }
            self.cx.recycle(events);
        }
        if waiter.pull.tried {
            return give_nothing(caller, &waiter);
        }
        if let Some(wait) = self.protocols.giop.begin_wait(caller, waiter, &mut self.cx) {
            self.protocols.giop.waiting.join_last(wait);
            self.protocols.giop.tell_engine_who_waits(key, &mut self.cx);
        }
    }

    /// Asks remote filters about events that a client would get at once.
    fn call_filters_for_pull(
        &mut self,
        caller: &mut Caller,
        delivery: Delivery,
        events: Vec<Arc<Event>>,
        waiter: Waiter,
    ) {
        let Some(wait) = self.protocols.giop.begin_wait(caller, waiter, &mut self.cx) else {
            self.cx.recycle(events);
            let Delivery { outbox, serial, .. } = delivery;
            return self.cx.lane.handle_outcome(outbox, serial, Outcome::Unreachable, self.cx.clock.now);
        };
        self.call_filters_for_delivery(delivery, events, Some(Waiter { wait: Some(wait), ..waiter }));
    }

    /// Hands events of the engine to the first client that waits at a proxy.
    pub(crate) fn hand_to_waiter(&mut self, delivery: Delivery, events: Vec<Arc<Event>>) {
        let Delivery { outbox, key, serial, .. } = delivery;
        let waiter = self.protocols.giop.waiting.take_first(key, events.len());
        let waiter = waiter.map(|waiter| Waiter { awaited: true, ..waiter });
        #[cfg(test)]
        if crate::simulation::goes_wrong(crate::simulation::Break::ForgottenPull) {
            self.cx.recycle(events);
            return self.cx.lane.handle_outcome(outbox, serial, Outcome::Delivered, self.cx.clock.now);
        }
        self.protocols.giop.tell_engine_who_waits(key, &mut self.cx);
        match waiter {
            Some(waiter) if delivery.ask.is_some() => self.call_filters_for_delivery(delivery, events, Some(waiter)),
            Some(waiter) => {
                self.protocols.giop.due.push_back(Due::Events { waiter, given: Given::of(&delivery), events })
            }
            None => {
                self.cx.recycle(events);
                self.cx.lane.handle_outcome(outbox, serial, Outcome::Unreachable, self.cx.clock.now);
            }
        }
    }

    /// Sends a client the answer that is due, or has it wait again.
    pub(crate) fn tell_due(&mut self, caller: Option<&mut Caller>, due: Due) {
        match (caller, due) {
            (Some(caller), Due::Events { waiter, given: Given { outbox, serial, .. }, events })
                if !waiter.pull.tried && caller.leaves_much_unread() =>
            {
                // Replies are copied, outside the channel's budget: the events go to the next client, and this one asks again when it has
                // read.
                self.cx.recycle(events);
                self.cx.lane.handle_outcome(outbox, serial, Outcome::NoRoom, self.cx.clock.now);
                self.cx.counters.add(Counter::PullsSetAside, 1);
                caller.pulls.set_aside.push(Waiter { awaited: false, ..waiter });
            }
            (Some(caller), Due::Events { waiter, given, mut events }) => {
                let given = self.protocols.giop.give(caller, &waiter, given, &mut events, &mut self.cx);
                self.cx.recycle(events);
                if given {
                    self.protocols.giop.end_wait(caller, &waiter, &mut self.cx);
                } else {
                    self.protocols.giop.wait_again(waiter, &mut self.cx);
                }
            }
            (None, Due::Events { given: Given { outbox, serial, .. }, events, .. }) => {
                self.cx.recycle(events);
                self.cx.lane.handle_outcome(outbox, serial, Outcome::Unreachable, self.cx.clock.now);
            }
            (Some(caller), Due::Again(waiter)) => {
                self.protocols.giop.end_wait(caller, &waiter, &mut self.cx);
                self.serve_waiter(caller, Waiter { wait: None, ..waiter });
            }
            (Some(caller), Due::Disconnected(waiter)) => {
                self.protocols.giop.end_wait(caller, &waiter, &mut self.cx);
                let buffer = caller.output.bytes();
                let open = waiter.answer.begin(buffer, ReplyStatus::UserException);
                open.body(buffer, caller.speech.chars).string(DISCONNECTED);
                open.finish(buffer);
            }
            (None, Due::Again(_) | Due::Disconnected(_)) => {}
        }
    }
}

impl Protocol {
    /// Adds a wait to a connection; `None` if it has too many, and the request is refused.
    fn begin_wait(&mut self, caller: &mut Caller, waiter: Waiter, cx: &mut Context) -> Option<Token> {
        if caller.pulls.waits.len() >= WAITING_MAX {
            cx.counters.add(Counter::PullsRefused, 1);
            answer_exception(caller, waiter.answer, SystemException::new(Kind::NoResources, 0));
            return None;
        }
        let activity = cx.consumer(waiter.pull.key).and_then(|route| route.activity.as_ref());
        let heard = activity.map(Activity::begin_wait);
        let wait = self.waiting.begin(waiter, heard);
        caller.pulls.waits.push(wait);
        Some(wait)
    }

    /// Ends the wait of a request that is answered.
    fn end_wait(&mut self, caller: &mut Caller, waiter: &Waiter, cx: &mut Context) {
        if let Some(wait) = waiter.wait {
            caller.forget_wait(wait);
            self.waiting.end(wait, cx.clock.now);
        }
    }

    /// Announces the first waiting client at a proxy to the engine. Only one is announced, so that the engine delivers as many events as
    /// that client takes.
    fn tell_engine_who_waits(&mut self, key: ProxyKey, cx: &mut Context) {
        // A proxy that is not connected any more is found out with the routing that says so.
        if let Some(max) = self.waiting.unannounced(key)
            && cx.lane.await_events(key, max, cx.clock.now).is_ok()
        {
            self.waiting.note_announced(key);
        }
    }

    /// Has a client wait again, in front of all others: remote filters have rejected its events, or they cannot be translated.
    pub(crate) fn wait_again(&mut self, waiter: Waiter, cx: &mut Context) {
        if waiter.pull.tried {
            return self.due.push_back(Due::Again(waiter));
        }
        if cx.consumer(waiter.pull.key).is_none() {
            return self.due.push_back(Due::Disconnected(waiter));
        }
        if waiter.wait.is_some_and(|wait| self.waiting.join_first(wait, waiter.awaited)) {
            self.tell_engine_who_waits(waiter.pull.key, cx);
        } else if waiter.awaited {
            // The client is gone.
            cx.lane.cancel_wait(waiter.pull.key);
        }
    }

    /// Writes a reply with events. False if they cannot be translated for the client; they are dropped then.
    fn give(
        &mut self,
        caller: &mut Caller,
        waiter: &Waiter,
        Given { outbox, serial, output_form, correlated }: Given,
        events: &mut Vec<Arc<Event>>,
        cx: &mut Context,
    ) -> bool {
        let Answer { version, .. } = waiter.answer;
        let encoding = Pulled::encoding(events, version, caller.speech.chars);
        let answer = Answer { endian: encoding.endian, ..waiter.answer };
        let chars = caller.speech.chars;
        let buffer = caller.output.bytes();
        let open = answer.begin(buffer, ReplyStatus::NoException);
        let Pull { pulled, tried, .. } = waiter.pull;
        let left_out = &mut self.outgoing.scratch.left_out;
        let written = {
            let body = &mut open.body(buffer, chars);
            event::write_pulled(events, pulled, tried, (output_form, correlated), left_out, body)
        };
        if written.is_ok() {
            open.finish(buffer);
            self.outgoing.note_left_out(outbox, serial, cx);
            cx.counters.add(Counter::PullsAnswered, 1);
            caller.pulls.written.push_back(Written { outbox, serial, end: caller.output.end() });
        } else {
            buffer.truncate(open.start());
            cx.lane.handle_outcome(outbox, serial, Outcome::Untranslatable, cx.clock.now);
        }
        for event in events.drain(..) {
            cx.lane.release(event);
        }
        written.is_ok()
    }

    /// Notes the replies that the socket has taken: their events are delivered.
    pub(crate) fn note_taken(&mut self, caller: &mut Caller, cx: &mut Context) {
        let taken = caller.output.taken();
        while let Some(written) = caller.pulls.written.pop_front_if(|written| written.end <= taken) {
            let outcome = Outcome::Delivered;
            #[cfg(test)]
            let outcome = match crate::simulation::goes_wrong(crate::simulation::Break::PulledAgain) {
                true => Outcome::Unreachable,
                false => outcome,
            };
            cx.lane.handle_outcome(written.outbox, written.serial, outcome, cx.clock.now);
            cx.deliveries.undelivered = true;
        }
        if !caller.pulls.set_aside.is_empty() && !caller.leaves_much_unread() {
            for waiter in caller.pulls.set_aside.drain(..) {
                let is_there = cx.consumer(waiter.pull.key).is_some();
                self.due.push_back(if is_there { Due::Again(waiter) } else { Due::Disconnected(waiter) });
            }
        }
    }

    /// Cancels a request for which the client does not wait any more.
    pub(crate) fn cancel_request(&mut self, connection: Token, request_id: u32, caller: &mut Caller, cx: &mut Context) {
        if let Some(at) = caller.pulls.set_aside.iter().position(|waiter| waiter.answer.request_id == request_id) {
            let waiter = caller.pulls.set_aside.swap_remove(at);
            return self.end_wait(caller, &waiter, cx);
        }
        let is_it = |wait: &Token| {
            let waiter = self.waiting.in_line(*wait);
            waiter.is_some_and(|waiter| waiter.connection == connection && waiter.answer.request_id == request_id)
        };
        if let Some(wait) = caller.pulls.waits.iter().copied().find(is_it) {
            caller.forget_wait(wait);
            self.leave(wait, cx);
        }
    }

    /// Forgets a client that is gone. Its waits are removed in the next rounds.
    pub(crate) fn forget_caller(&mut self, connection: Token, caller: &mut Caller, cx: &mut Context) {
        for Written { outbox, serial, .. } in caller.pulls.written.drain(..) {
            cx.lane.handle_outcome(outbox, serial, Outcome::Unreachable, cx.clock.now);
            cx.deliveries.undelivered = true;
        }
        if !caller.pulls.waits.is_empty() {
            self.waiting.client_gone(connection, core::mem::take(&mut caller.pulls.waits));
        }
    }

    /// Removes a wait.
    fn leave(&mut self, wait: Token, cx: &mut Context) {
        self.waiting.note_heard(wait, cx.clock.now);
        match self.waiting.leave(wait) {
            Left::Quietly => {}
            Left::Unannounced(key) => {
                cx.lane.cancel_wait(key);
                self.tell_engine_who_waits(key, cx);
            }
            Left::AwaitingFilter(filter_call) => {
                if let Some((outbox, serial)) = self.outgoing.cancel_filter_call(filter_call, cx) {
                    cx.lane.handle_outcome(outbox, serial, Outcome::Unreachable, cx.clock.now);
                    cx.deliveries.undelivered = true;
                }
            }
        }
    }

    /// Ends some waits of clients that are gone, and at proxies that are gone.
    pub(crate) fn end_some_waits(&mut self, cx: &mut Context) {
        for _ in 0..Budget::MESSAGES.events {
            let Some(wait) = self.waiting.next_leaving() else { break };
            self.leave(wait, cx);
        }
        for _ in 0..Budget::MESSAGES.events {
            let Some(waiter) = self.waiting.next_over() else { break };
            self.due.push_back(Due::Disconnected(waiter));
        }
    }

    /// Ends waits at proxies that are not connected any more, or were connected anew.
    pub(crate) fn end_waits(&mut self, before: &Snapshot, cx: &mut Context) {
        if self.waiting.is_empty() {
            return;
        }
        for key in cx.lane.snapshot().consumers_gone_since(before) {
            self.waiting.proxy_gone(key);
        }
    }
}

#[cfg(test)]
impl Waiter {
    pub(crate) fn for_test(connection: Token, key: ProxyKey, max: u32) -> Self {
        let pull = Pull { key, pulled: Pulled::Batch, tried: false };
        Self { connection, answer: Answer::NONE, pull, max, awaited: false, wait: None }
    }
}

/// Kind of pull for a single event of a form.
fn single(form: Form) -> Pulled {
    if form == FORM_STRUCTURED { Pulled::Structured } else { Pulled::Any }
}

fn give_nothing(caller: &mut Caller, waiter: &Waiter) {
    let chars = caller.speech.chars;
    let buffer = caller.output.bytes();
    let open = waiter.answer.begin(buffer, ReplyStatus::NoException);
    event::write_nothing(waiter.pull.pulled, waiter.pull.tried, &mut open.body(buffer, chars));
    open.finish(buffer);
}
