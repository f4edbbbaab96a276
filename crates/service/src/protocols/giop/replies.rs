//! Replies of consumers, and their consequences.

use core::fmt;

use engine::{LaneId, OutboxId, Outcome};
use giop::bidirectional::HOW_TO_OFFER;
use giop::cdr::{CharSet, Reader};
use giop::exception::{Kind, SystemException};
use giop::framing::Message;
use giop::ior::Ior;
use giop::message::{self, MessageKind, Reply, ReplyStatus};

use crate::counters::Counter;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::io::output::would_block;
use crate::lane::io::slots::Token;
use crate::lane::io::system::Ready;
use crate::lane::reports::printable;
use crate::lane::run::Core;
use crate::protocols::giop::Protocol;
use crate::protocols::giop::admin_messages;
use crate::protocols::giop::callers::Caller;
use crate::protocols::giop::calls::Asker;
use crate::protocols::giop::losses::{LossRecipient, Lost, Pending};
use crate::protocols::giop::outgoing::{Outgoing, Outgoings, Scratch};
use crate::protocols::giop::pull_suppliers::Pullers;
use corba::keys::ObjectKey;

/// Result of a request that the service made.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The request was done.
    Done,
    /// The reply was a system exception.
    System(SystemException),
    /// The reply was a user exception, with this repository id.
    User(String),
    /// The request is to be sent to this reference.
    Forward(Ior),
    /// The request is to be sent to a proxy of this service, from which events might return without end.
    ForwardHere,
    /// The reply is invalid.
    Unreadable,
    /// The connection was lost before a reply.
    Lost(Lost),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("it was done"),
            Self::System(exception) => write!(f, "it raised {exception}"),
            Self::User(id) => write!(f, "it raised {}", printable(id)),
            Self::Forward(_) => f.write_str("it is forwarded without end"),
            Self::ForwardHere => f.write_str("it is forwarded to a proxy of this service"),
            Self::Unreadable => f.write_str("its reply cannot be read"),
            Self::Lost(lost) => f.write_str(&lost.why),
        }
    }
}

/// Contents of one message from a client.
enum Heard {
    Reply(u32, Verdict),
    Closing(&'static str),
}

/// The user exception with which a consumer says that it is not connected any more (Event Service 1.2, 2.1.1).
pub(crate) const DISCONNECTED: &str = "IDL:omg.org/CosEventComm/Disconnected:1.0";

impl Core {
    /// Serves a connection to a client when its socket is ready.
    pub(crate) fn serve_outgoing(&mut self, token: Token, ready: Ready) {
        let Some(connection) = self.protocols.giop.outgoing.connections.get_mut(token) else { return };
        if !connection.is_open() {
            if self.protocols.giop.outgoing.go_on_connecting(token, ready, &mut self.cx) {
                self.begin_service(token);
            }
            return;
        }
        if ready.readable && !self.read_replies(token) {
            return;
        }
        self.protocols.giop.outgoing.read_on(token, &mut self.cx);
        if ready.writable {
            self.protocols.giop.outgoing.flush_outgoing(token, &mut self.cx);
        }
        self.deliver();
    }

    /// Sends waiting output on a connection that has opened.
    pub(crate) fn begin_service(&mut self, token: Token) {
        if self.take_in_replies(token) {
            self.protocols.giop.outgoing.read_on(token, &mut self.cx);
            self.protocols.giop.outgoing.flush_outgoing(token, &mut self.cx);
            self.deliver();
        }
    }

    /// Ends overdue waits, and closes unused connections.
    pub(crate) fn sweep_outgoing(&mut self) {
        self.protocols.giop.outgoing.end_late_connects(&mut self.cx);
        self.protocols.giop.outgoing.end_late_calls(&mut self.cx);
        self.protocols.giop.end_late_polls(&mut self.cx);
        self.end_late_filter_calls();
        self.protocols.giop.outgoing.close_unused(&mut self.cx);
    }

    /// Notifies some senders and outboxes of lost connections. The others follow in the next rounds.
    pub(crate) fn tell_of_losses(&mut self) {
        for _ in 0..Budget::MESSAGES.events {
            match self.protocols.giop.outgoing.losses.next() {
                Some(LossRecipient::Waiting(pending, lost)) => self.conclude(pending, Verdict::Lost(lost)),
                Some(LossRecipient::Blocked(outbox, token, why)) => {
                    self.protocols.giop.outgoing.unblock(outbox, token, Some(&why), &mut self.cx)
                }
                None => return,
            }
        }
    }

    /// Reads replies, and handles as many as the budget of the round allows. False when the connection is gone.
    pub(crate) fn read_replies(&mut self, token: Token) -> bool {
        let Some(connection) = self.protocols.giop.outgoing.connections.get_mut(token) else { return false };
        // Replies that were read before come first.
        if !connection.take_backlog() {
            let Some((stream, inbound)) = connection.stream_and_inbound() else { return true };
            self.cx.io.buffers.lend(inbound);
            match stream.receive(inbound.vacant()) {
                Ok(0) => {
                    let why = "the consumer closed the connection";
                    self.protocols.giop.outgoing.lose_to_death(token, why, &mut self.cx);
                    return false;
                }
                Ok(count) => {
                    inbound.filled(count);
                    connection.silent_since = self.cx.clock.now;
                }
                Err(error) if would_block(&error) || error.kind() == std::io::ErrorKind::Interrupted => {
                    self.cx.io.buffers.take_back(inbound);
                    return true;
                }
                Err(error) => {
                    self.protocols.giop.outgoing.lose_to_death(token, &error.to_string(), &mut self.cx);
                    return false;
                }
            }
        }
        self.take_in_replies(token)
    }

    /// Handles the replies that were read, until there are no more or the budget of the round is spent. False when the connection is gone.
    pub(crate) fn take_in_replies(&mut self, token: Token) -> bool {
        let Some(connection) = self.protocols.giop.outgoing.connections.get_mut(token) else { return false };
        let mut meter = connection.rounds.usage.begin(self.cx.io.quotas.round(), self.cx.io.quotas.budget());
        loop {
            let Protocol { outgoing: Outgoings { connections, scratch: Scratch { answer, .. }, .. }, pullers, .. } =
                &mut self.protocols.giop;
            let Some(connection) = connections.get_mut(token) else { return false };
            let Outgoing { inbound, pending, endpoint, .. } = connection;
            if meter.is_over(|| inbound.has_more()) {
                self.cx.counters.add(Counter::RoundBudgetsSpent, 1);
                self.protocols.giop.outgoing.go_on_reading_later(token, &mut self.cx);
                break;
            }
            let needed = |request_id| pending.get(request_id).map_or(Needed::Nothing, |by| Needed::of(by, pullers));
            let heard = match inbound.poll_message() {
                Ok(Some(message)) => hear(&message, endpoint.chars, needed, answer),
                Ok(None) => {
                    let begun = inbound.begun().filter(|begun| begun.header.message_len() > LOOKED_AT_ON_ARRIVAL);
                    match begun.and_then(|begun| hear_beginning(&begun, endpoint.chars, needed, answer)) {
                        Some(heard) => {
                            inbound.skip_begun();
                            heard
                        }
                        None => break,
                    }
                }
                Err(error) => {
                    self.cx.counters.add(Counter::ProtocolErrors, 1);
                    self.protocols.giop.outgoing.lose(token, &error.to_string(), &mut self.cx);
                    return false;
                }
            };
            meter.note_message();
            match heard {
                Heard::Reply(request_id, verdict) => match connection.pending.remove(request_id) {
                    Some(pending) => self.conclude(pending, verdict),
                    None => self.cx.counters.add(Counter::LateReplies, 1),
                },
                Heard::Closing(why) => {
                    self.protocols.giop.outgoing.lose(token, why, &mut self.cx);
                    return false;
                }
            }
        }
        if let Some(connection) = self.protocols.giop.outgoing.connections.get_mut(token) {
            connection.rounds.usage.note(&meter);
            self.cx.io.buffers.take_back(&mut connection.inbound);
        }
        true
    }

    /// Takes in a client's reply to a call over its connection.
    ///
    /// # Errors
    /// The reason why the connection cannot be trusted any further.
    pub(crate) fn take_in_reply(&mut self, message: &Message<'_>, caller: &Caller) -> Result<(), String> {
        let unasked = || "a client sent a message that only a server sends".to_owned();
        let Some(offered) = &caller.offered else { return Err(unasked()) };
        let Protocol { outgoing: Outgoings { connections, scratch: Scratch { answer, .. }, .. }, pullers, .. } =
            &mut self.protocols.giop;
        let Some(connection) = connections.get_mut(offered.outgoing) else { return Ok(()) };
        let pending = &connection.pending;
        let needed = |request_id| pending.get(request_id).map_or(Needed::Nothing, |by| Needed::of(by, pullers));
        match hear(message, caller.speech.chars, needed, answer) {
            Heard::Reply(request_id, verdict) => match connection.pending.remove(request_id) {
                Some(pending) => self.conclude(pending, verdict),
                None if connection.has_sent(request_id) => self.cx.counters.add(Counter::LateReplies, 1),
                None => return Err(format!("a client answered request {request_id}, which it was not sent")),
            },
            Heard::Closing(why) => return Err(why.to_owned()),
        }
        Ok(())
    }

    /// Reports to the sender of a request how it ended.
    pub(crate) fn conclude(&mut self, pending: Pending, verdict: Verdict) {
        let verdict = match verdict {
            Verdict::Forward(to) if self.leads_to_proxy(&to) => {
                self.cx.counters.add(Counter::ForwardsRefused, 1);
                Verdict::ForwardHere
            }
            verdict => verdict,
        };
        match pending {
            Pending::Push { outbox, serial } => {
                self.protocols.giop.outgoing.conclude_push(outbox, serial, verdict, &mut self.cx)
            }
            Pending::Call(call) => self.protocols.giop.outgoing.conclude_call(*call, verdict, &mut self.cx),
            Pending::Ask(asker) => self.conclude_ask(asker, verdict),
        }
    }

    /// Handles the end of a call of the lane's own.
    pub(crate) fn conclude_ask(&mut self, asker: Asker, verdict: Verdict) {
        match asker {
            Asker::Puller(token) => self.conclude_poll(token, verdict),
            Asker::FilterCall(token) => self.conclude_filter_call(token, verdict),
        }
    }

    /// Whether a reference leads to a proxy of this service, by any address: this service has drawn the random number in its key. Whether a
    /// client may supply one channel from another is checked where it connects, and only there.
    fn leads_to_proxy(&mut self, reference: &Ior) -> bool {
        let mut keys = reference.iiop_profiles().filter_map(|profile| ObjectKey::parse(&profile.key));
        keys.any(|key| self.published.load().giop.proxy(&key).is_some())
    }
}

impl Outgoings {
    fn conclude_push(&mut self, outbox: OutboxId, serial: u32, verdict: Verdict, cx: &mut Context) {
        let Some(route) = self.routes.get_mut(outbox) else { return };
        // If an earlier push failed, this one was put back with it and has no sender any more.
        let Some((before, sent)) = route.take_unanswered(serial) else { return };
        let goes_elsewhere = match &verdict {
            Verdict::Forward(to) => {
                let is_new = route.forward(to);
                self.upkeep.stale |= is_new;
                is_new
            }
            Verdict::Lost(lost) => {
                // With an offered connection another one may have come; an event at which each of them ends is a failure at last.
                let is_repeated = lost.was_accepted && route.note_fault(sent.event);
                self.aim_elsewhere(outbox, cx) || is_repeated && self.has_accepted_for(outbox)
            }
            _ => false,
        };
        if goes_elsewhere {
            // The push and all behind it are put back, and go to the other place in order.
            self.withdraw(outbox, before, cx);
            cx.lane.handle_outcome(outbox, serial, Outcome::NoRoom, cx.clock.now);
            cx.lane.resume_outbox(outbox, cx.clock.now);
            return;
        }
        let Some(route) = self.routes.get_mut(outbox) else { return };
        let outcome = match outcome_of(&verdict) {
            // An object missing at the forwarded place may still exist at its own address.
            Outcome::Gone if route.is_forwarded => Outcome::Refused,
            // A batch is tried again in parts in any case.
            Outcome::Rejected if !sent.is_batch && is_fault(&verdict) && route.note_fault(sent.event) => {
                Outcome::Refused
            }
            outcome => outcome,
        };
        if !matches!(outcome, Outcome::Delivered | Outcome::Unreachable | Outcome::ConnectionLost) {
            cx.counters.add(Counter::PushExceptions, 1);
        }
        match outcome {
            Outcome::Unreachable | Outcome::ConnectionLost | Outcome::Refused => {
                self.fail_push(outbox, serial, outcome, || verdict.to_string(), cx);
            }
            _ => {
                route.succeed();
                route.forget_fault(sent.event);
                if outcome == Outcome::Rejected && sent.is_batch {
                    // The engine puts it back with all behind it, and delivers it again in parts.
                    self.withdraw(outbox, before, cx);
                }
                cx.lane.handle_outcome(outbox, serial, outcome, cx.clock.now);
            }
        }
    }

    /// Reports to the engine that a push failed and is to be tried again, with all those sent after it.
    pub(crate) fn fail_push(
        &mut self,
        outbox: OutboxId,
        serial: u32,
        outcome: Outcome,
        why: impl FnOnce() -> String,
        cx: &mut Context,
    ) {
        self.withdraw(outbox, 0, cx);
        let advice = if outcome == Outcome::Unreachable { self.advice(outbox, cx) } else { "" };
        let separator = if advice.is_empty() { "" } else { "; " };
        self.note_failure(outbox, || why() + separator + advice, cx);
        #[cfg(test)]
        let outcome = match crate::simulation::goes_wrong(crate::simulation::Break::ForgottenEvents) {
            true => Outcome::Delivered,
            false => outcome,
        };
        cx.lane.handle_outcome(outbox, serial, outcome, cx.clock.now);
    }

    /// What to do for a consumer that cannot be reached.
    fn advice(&mut self, outbox: OutboxId, cx: &Context) -> &'static str {
        let is_on = self.limits.bidirectional;
        match self.routes.get_mut(outbox).map(|route| route.address.offered.is_empty()) {
            Some(true) if is_on => HOW_TO_OFFER,
            Some(false) if cx.identity.id != LaneId::MAIN => OFFERED_ELSEWHERE,
            Some(false) => OFFER_IS_GONE,
            _ => "",
        }
    }

    /// Notes the reason of an episode of failures, for the log, and that a forwarded consumer is tried at its own address again.
    pub(crate) fn note_failure(&mut self, outbox: OutboxId, why: impl FnOnce() -> String, cx: &mut Context) {
        let Some(route) = self.routes.get_mut(outbox) else { return };
        self.upkeep.stale |= route.return_home();
        if !core::mem::replace(&mut route.trouble.is_failing, true) {
            cx.reporting.failures.insert(route.key, why());
        }
    }
}

/// Why the connection of a consumer that offered one is of no use.
const OFFER_IS_GONE: &str = "it cannot be reached, and the connection that it offered is gone, or in another code set than \
    its reference asks for";
const OFFERED_ELSEWHERE: &str = "it offered its own connection, over which a thread pool's lanes do not call";

/// Size of a reply, in octets, above which it is examined before it is complete, so that unneeded parts are not stored.
const LOOKED_AT_ON_ARRIVAL: usize = 16 << 10;

/// Octets that suffice for a result that is a number, or begins with one.
const NUMBER_OCTETS: usize = 16;

/// Part of a result that its receiver needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needed {
    /// Only that it came.
    Nothing,
    /// A number or a boolean.
    Number,
    /// All, if that is at most so many events.
    Events(u32),
    /// All.
    All,
}

impl Needed {
    fn of(by: &Pending, pullers: &Pullers) -> Self {
        match by {
            Pending::Push { .. } => Self::Nothing,
            Pending::Call(_) => Self::All,
            Pending::Ask(Asker::FilterCall(_)) => Self::Number,
            Pending::Ask(Asker::Puller(token)) => pullers.events_requested(*token).map_or(Self::All, Self::Events),
        }
    }

    /// Number of octets needed of a result, if less than all: as far as its beginning shows.
    fn octets(self, mut result: Reader<'_>) -> Option<usize> {
        match self {
            Self::Nothing => Some(0),
            Self::Number => Some(NUMBER_OCTETS),
            Self::Events(most) => result.u32().is_ok_and(|given| given > most).then_some(NUMBER_OCTETS),
            Self::All => None,
        }
    }
}

/// Handles one message. The needed part of a request's result is copied to `answer`.
fn hear(
    message: &Message<'_>,
    chars: CharSet,
    needed: impl Fn(u32) -> Needed,
    answer: &mut admin_messages::Reply,
) -> Heard {
    if let Some(request_id) = message::parse_empty_reply(message.bytes, &message.header) {
        // A reply without a result has an empty one.
        answer.body.clear();
        return Heard::Reply(request_id, Verdict::Done);
    }
    match message.header.kind {
        MessageKind::Reply => match Reply::parse(message.bytes, &message.header) {
            Ok(reply) => {
                let verdict = verdict_of(&reply, message, chars);
                if matches!(verdict, Verdict::Done) {
                    let octets = needed(reply.request_id).octets(reply.body(message.bytes, &message.header, chars));
                    copy_result(&reply, message, chars, octets.unwrap_or(usize::MAX), answer);
                }
                Heard::Reply(reply.request_id, verdict)
            }
            Err(_) => Heard::Closing("the consumer sent a reply header that cannot be read"),
        },
        MessageKind::CloseConnection => Heard::Closing("the consumer closed the connection"),
        MessageKind::MessageError => Heard::Closing("the consumer says that we sent a message it cannot read"),
        _ => Heard::Closing("the consumer sent a message that only a client sends"),
    }
}

/// Handles the beginning of a reply, if nothing more of it is needed.
fn hear_beginning(
    begun: &Message<'_>,
    chars: CharSet,
    needed: impl Fn(u32) -> Needed,
    answer: &mut admin_messages::Reply,
) -> Option<Heard> {
    if begun.header.kind != MessageKind::Reply {
        return None;
    }
    let reply = Reply::parse(begun.bytes, &begun.header).ok()?;
    if reply.status != ReplyStatus::NoException {
        return None;
    }
    let octets = needed(reply.request_id).octets(reply.body(begun.bytes, &begun.header, chars))?;
    let have = begun.bytes.len() - reply.body_offset;
    (have >= octets).then(|| {
        copy_result(&reply, begun, chars, octets, answer);
        Heard::Reply(reply.request_id, Verdict::Done)
    })
}

/// Copies up to `octets` octets of a result.
fn copy_result(
    reply: &Reply<'_>,
    message: &Message<'_>,
    chars: CharSet,
    octets: usize,
    answer: &mut admin_messages::Reply,
) {
    let body = message.bytes.get(reply.body_offset..).unwrap_or_default();
    answer.encoding = message.header.encoding(chars);
    answer.phase = reply.body_offset & 7;
    answer.body.clear();
    answer.body.extend_from_slice(body.get(..octets).unwrap_or(body));
}

fn verdict_of(reply: &Reply<'_>, message: &Message<'_>, chars: CharSet) -> Verdict {
    let mut body = reply.body(message.bytes, &message.header, chars);
    match reply.status {
        ReplyStatus::NoException => Verdict::Done,
        ReplyStatus::SystemException => SystemException::read(&mut body).map_or(Verdict::Unreadable, Verdict::System),
        ReplyStatus::UserException => body.text().map_or(Verdict::Unreadable, Verdict::User),
        ReplyStatus::LocationForward | ReplyStatus::LocationForwardPerm => {
            Ior::read(&mut body).map_or(Verdict::Unreadable, Verdict::Forward)
        }
        // We always address by key, and there is no other way an object of a client's could ask for.
        ReplyStatus::NeedsAddressingMode => Verdict::Unreadable,
    }
}

/// Whether the consumer failed while it handled the push: an exception unknown to its ORB, such as a runtime exception in Java, is
/// `UNKNOWN` (CORBA 3.3 part 1, 7.15.3). The event may be the cause, or a mishap that is over the next time.
fn is_fault(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::System(exception) if exception.kind == Kind::Unknown)
}

/// Outcome of a push for the consumer's outbox. After a temporary exception the push is tried again; after a permanent one it is counted
/// and the next event follows, so that one bad event does not end a subscription.
fn outcome_of(verdict: &Verdict) -> Outcome {
    match verdict {
        Verdict::Done => Outcome::Delivered,
        Verdict::Lost(Lost { was_open: false, .. }) => Outcome::Unreachable,
        Verdict::Lost(_) => Outcome::ConnectionLost,
        Verdict::User(id) if id == DISCONNECTED => Outcome::Gone,
        Verdict::System(exception) => match exception.kind {
            Kind::ObjectNotExist => Outcome::Gone,
            kind if kind.says_not_now() => Outcome::Refused,
            _ => Outcome::Rejected,
        },
        Verdict::Forward(_) | Verdict::ForwardHere => Outcome::Refused,
        Verdict::User(_) | Verdict::Unreadable => Outcome::Rejected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giop::cdr::{Endian, Version};
    use giop::framing::{Inbound, Limits};
    use giop::message::{ReplyHead, begin_reply};

    /// An answer to request 7 with a result that begins with a number and has so many octets behind it.
    fn reply(status: ReplyStatus, number: u32, octets: usize) -> Vec<u8> {
        let mut reply = Vec::new();
        let head = ReplyHead { version: Version::V1_2, endian: Endian::Big, request_id: 7, status, contexts: &[] };
        let open = begin_reply(&mut reply, &head);
        let mut body = open.body(&mut reply, CharSet::Latin1);
        body.u32(number);
        body.raw(&vec![0; octets]);
        open.finish(&mut reply);
        reply
    }

    /// What is heard of a reply of which so many octets have come, and what is kept of the result.
    fn heard_of(bytes: &[u8], arrived: usize, needed: Needed) -> Option<(bool, usize)> {
        let mut inbound = Inbound::new(Limits::default());
        inbound.vacant().extend_from_slice(&bytes[..arrived]);
        inbound.filled(arrived);
        assert!(inbound.poll_message().unwrap().is_none());
        let mut answer = admin_messages::Reply::default();
        let heard = hear_beginning(&inbound.begun()?, CharSet::Latin1, |_| needed, &mut answer);
        heard.map(|heard| (matches!(heard, Heard::Reply(7, Verdict::Done)), answer.body.len()))
    }

    /// A supplier that was asked for 64 events and gave a hundred thousand was refused when all of them had come and had been
    /// copied: five milliseconds of the lane each time.
    #[test]
    fn what_is_not_wanted_of_a_large_answer_is_known_by_its_beginning() {
        let large = reply(ReplyStatus::NoException, 100_000, 60_000);
        for arrived in [40, 1_000, 50_000] {
            for needed in [Needed::Nothing, Needed::Number, Needed::Events(64)] {
                let copied = if needed == Needed::Nothing { 0 } else { NUMBER_OCTETS };
                assert_eq!(heard_of(&large, arrived, needed), Some((true, copied)), "{needed:?} {arrived}");
            }
            assert_eq!(heard_of(&large, arrived, Needed::All), None);
            assert_eq!(heard_of(&large, arrived, Needed::Events(100_000)), None);
        }
        let exception = reply(ReplyStatus::UserException, 100_000, 60_000);
        assert_eq!(heard_of(&exception, 50_000, Needed::Nothing), None);
    }

    #[test]
    fn too_little_of_an_answer_says_nothing() {
        let large = reply(ReplyStatus::NoException, 100_000, 60_000);
        for arrived in [12, 20, 24, 27] {
            assert_eq!(heard_of(&large, arrived, Needed::Events(64)), None, "{arrived}");
        }
    }

    #[test]
    fn of_an_answer_that_is_there_no_more_is_copied_than_is_wanted() {
        let large = reply(ReplyStatus::NoException, 100, 60_000);
        for (needed, copied) in
            [(Needed::Nothing, 0), (Needed::Number, 16), (Needed::Events(64), 16), (Needed::All, 60_004)]
        {
            let mut inbound = Inbound::new(Limits::default());
            inbound.vacant().extend_from_slice(&large);
            inbound.filled(large.len());
            let mut answer = admin_messages::Reply::default();
            let message = inbound.poll_message().unwrap().unwrap();
            hear(&message, CharSet::Latin1, |_| needed, &mut answer);
            assert_eq!(answer.body.len(), copied, "{needed:?}");
        }
    }
}
