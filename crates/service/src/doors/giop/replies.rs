//! What consumers answer, and what follows from it.

use core::fmt;
use std::sync::Arc;

use engine::{OutboxId, Outcome};
use giop::cdr::CharSet;
use giop::exception::{Kind, SystemException};
use giop::framing::Message;
use giop::ior::Ior;
use giop::message::{self, MessageKind, Reply, ReplyStatus};

use crate::counters::Counter;
use crate::doors::giop::mail;
use crate::doors::giop::outgoing::{Outgoing, Outgoings};
use crate::doors::giop::pending::{Pending, PendingReplies};
use crate::lane::io::output::would_block;
use crate::lane::io::slots::Token;
use crate::lane::io::system;
use crate::lane::reports::printable;
use crate::lane::run::Core;
use corba::keys::ObjectKey;

/// How a request of ours ended.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It was done.
    Done,
    /// A system exception came back.
    System(SystemException),
    /// A user exception came back; its repository id.
    User(String),
    /// It is to be sent to another place.
    Forward(Ior),
    /// It is to be sent to a proxy of this service, from which events may come back without end.
    ForwardHere,
    /// The reply makes no sense.
    Unreadable,
    /// The connection was lost before a reply.
    Lost(Arc<str>),
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
            Self::Lost(why) => f.write_str(why),
        }
    }
}

/// What one message on a connection of ours says.
enum Heard {
    Reply(u32, Verdict),
    Closing(&'static str),
}

/// The user exception with which a consumer says that it is not connected any more (Event Service 1.2, 2.1.1).
pub(crate) const DISCONNECTED: &str = "IDL:omg.org/CosEventComm/Disconnected:1.0";

impl Core {
    /// Reads replies. False when the connection is gone.
    pub(crate) fn read_replies(&mut self, token: Token) -> bool {
        let Some(connection) = self.doors.giop.outgoing.connections.get_mut(token) else { return false };
        let Some((stream, inbound)) = connection.stream_and_inbound() else { return true };
        self.io.buffers.lend(inbound);
        match system::receive(stream, inbound.vacant()) {
            Ok(0) => {
                self.lose(token, "the consumer closed the connection");
                return false;
            }
            Ok(count) => {
                inbound.filled(count);
                connection.silent_since = self.clock.now;
            }
            Err(error) if would_block(&error) || error.kind() == std::io::ErrorKind::Interrupted => {
                self.io.buffers.settle(inbound);
                return true;
            }
            Err(error) => {
                self.lose(token, &error.to_string());
                return false;
            }
        }
        loop {
            let Outgoings { connections, answer, .. } = &mut self.doors.giop.outgoing;
            let Some(connection) = connections.get_mut(token) else { return false };
            let Outgoing { inbound, pending, endpoint, .. } = connection;
            let heard = match inbound.poll_message() {
                Ok(Some(message)) => hear(&message, endpoint.chars, pending, answer),
                Ok(None) => {
                    self.io.buffers.settle(inbound);
                    return true;
                }
                Err(error) => {
                    self.counters.add(Counter::ProtocolErrors, 1);
                    self.lose(token, &error.to_string());
                    return false;
                }
            };
            match heard {
                Heard::Reply(request_id, verdict) => match connection.pending.remove(request_id) {
                    Some(pending) => self.conclude(pending, verdict),
                    None => self.counters.add(Counter::LateReplies, 1),
                },
                Heard::Closing(why) => {
                    self.lose(token, why);
                    return false;
                }
            }
        }
    }

    /// Tells whoever waits how his request ended.
    pub(crate) fn conclude(&mut self, pending: Pending, verdict: Verdict) {
        let verdict = match verdict {
            Verdict::Forward(to) if self.leads_to_proxy(&to) => {
                self.counters.add(Counter::ForwardsRefused, 1);
                Verdict::ForwardHere
            }
            verdict => verdict,
        };
        match pending {
            Pending::Push { outbox, serial } => self.conclude_push(outbox, serial, verdict),
            Pending::Call(call) => self.conclude_call(*call, verdict),
            Pending::Ask(asker) => self.conclude_ask(asker, verdict),
        }
    }

    /// Whether a reference leads to a proxy of this service, by whatever address: the number in its key was drawn by this
    /// service. That a client may supply one channel from another is looked at where it connects, and only there.
    fn leads_to_proxy(&mut self, reference: &Ior) -> bool {
        let key = reference.iiop().and_then(|profile| ObjectKey::parse(&profile.key));
        key.is_some_and(|key| self.published.load().giop.proxy(&key).is_some())
    }

    fn conclude_push(&mut self, outbox: OutboxId, serial: u32, verdict: Verdict) {
        let Some(route) = self.doors.giop.outgoing.routes.get_mut(outbox) else { return };
        // Nothing if an earlier one failed: then this one was put back with it and is nobody's any more.
        let Some((before, sent)) = route.take_unanswered(serial) else { return };
        if let Verdict::Forward(to) = &verdict
            && route.forward(to)
        {
            self.doors.giop.outgoing.stale = true;
            // It and all behind it are put back, and go to the other place in their order.
            self.withdraw(outbox, before, false);
            self.lane.handle_outcome(outbox, serial, Outcome::NoRoom, self.clock.now);
            self.lane.resume_outbox(outbox, self.clock.now);
            return;
        }
        let outcome = match outcome_of(&verdict) {
            // That there is nothing where it was forwarded to does not mean that there is nothing at its own address.
            Outcome::Gone if route.is_forwarded => Outcome::Refused,
            Outcome::Rejected if is_fault(&verdict) && route.note_fault(sent.event) => Outcome::Refused,
            outcome => outcome,
        };
        if !matches!(outcome, Outcome::Delivered | Outcome::Unreachable) {
            self.counters.add(Counter::PushExceptions, 1);
        }
        match outcome {
            Outcome::Unreachable | Outcome::Refused => self.fail_push(outbox, serial, outcome, || verdict.to_string()),
            _ => {
                route.succeed();
                route.forget_fault(sent.event);
                self.lane.handle_outcome(outbox, serial, outcome, self.clock.now);
            }
        }
    }

    /// Tells the engine that a push failed and is to be tried again, with all that were sent behind it.
    pub(crate) fn fail_push(&mut self, outbox: OutboxId, serial: u32, outcome: Outcome, why: impl FnOnce() -> String) {
        self.withdraw(outbox, 0, true);
        self.note_failure(outbox, why);
        self.lane.handle_outcome(outbox, serial, outcome, self.clock.now);
    }

    /// Notes why an episode of failures began, for the log, and that a consumer that was forwarded is looked for at its
    /// own address again.
    pub(crate) fn note_failure(&mut self, outbox: OutboxId, why: impl FnOnce() -> String) {
        let Some(route) = self.doors.giop.outgoing.routes.get_mut(outbox) else { return };
        self.doors.giop.outgoing.stale |= route.return_home();
        if !core::mem::replace(&mut route.is_failing, true) {
            self.office.failures.insert(route.key, why());
        }
    }
}

/// Takes in one message. The result of a request for which that is not nothing is copied to `answer`.
fn hear(message: &Message<'_>, chars: CharSet, pending: &PendingReplies, answer: &mut mail::Reply) -> Heard {
    if let Some(request_id) = message::parse_empty_reply(message.bytes, &message.header) {
        // What has a result and does not say it, has an empty one.
        answer.body.clear();
        return Heard::Reply(request_id, Verdict::Done);
    }
    match message.header.kind {
        MessageKind::Reply => match Reply::parse(message.bytes, &message.header) {
            Ok(reply) => {
                let verdict = verdict_of(&reply, message, chars);
                if matches!(verdict, Verdict::Done) && pending.get(reply.request_id).is_some_and(Pending::has_result) {
                    let body = reply.body(message.bytes, &message.header, chars);
                    answer.encoding = body.encoding();
                    answer.phase = reply.body_offset & 7;
                    answer.body.clear();
                    answer.body.extend_from_slice(message.bytes.get(reply.body_offset..).unwrap_or_default());
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

/// Whether the consumer failed while it handled the push: what a servant throws that its ORB does not know, in Java a runtime
/// exception, is `UNKNOWN` (CORBA 3.3 part 1, 7.15.3). That may be the event's doing or a mishap that is over the next time.
fn is_fault(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::System(exception) if exception.kind == Kind::Unknown)
}

/// What an ended push means for the consumer's outbox. An exception that says "not now" is worth another try; one that
/// says "never" is counted and the next event follows, so that one bad event does not end a subscription.
fn outcome_of(verdict: &Verdict) -> Outcome {
    match verdict {
        Verdict::Done => Outcome::Delivered,
        Verdict::Lost(_) => Outcome::Unreachable,
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
